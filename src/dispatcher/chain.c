/* chain.c: builds a session's chain of modifiers and speaks to all of them. See modifier.h. */
#include <stdlib.h>
#include <string.h>

#include "dispatcher/modifier.h"

enum { MOST_MODIFIERS = 32 };

static const gt_modifier_ops *modifiers[MOST_MODIFIERS + 1] = {
    &gt__modifier_identity,
    &gt__modifier_statistics,
};

static const char default_chain[] = "statistics";

static gt_err append(gt_modifier ***end, const gt_modifier_ops *ops, gt_session *session)
{
    gt_modifier *modifier = calloc(1, ops->size);
    if (!modifier)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    modifier->ops = ops;
    modifier->session = session;
    **end = modifier;
    *end = &modifier->next;
    return ops->open ? ops->open(modifier) : GT_OK;
}

const gt_modifier_ops *gt__modifier_at(unsigned number)
{
    return number < MOST_MODIFIERS ? modifiers[number] : NULL;
}

gt_err gt__modifier_register(const gt_modifier_ops *ops)
{
    unsigned count = 0;
    while (gt__modifier_at(count))
        count++;
    if (count == MOST_MODIFIERS)
        return gt__fail(GT_ERR_MEMORY, "more than %d stream modifiers", MOST_MODIFIERS);
    modifiers[count] = ops;
    return GT_OK;
}

static const gt_modifier_ops *find(const char *name, size_t length)
{
    const gt_modifier_ops *ops;
    for (unsigned k = 0; (ops = gt__modifier_at(k)); k++)
        if (strlen(ops->name) == length && strncmp(ops->name, name, length) == 0)
            return ops;
    return NULL;
}

/* "identity, statistics" */
static const char *known_names(char *text, size_t size)
{
    const gt_modifier_ops *ops;
    size_t length = 0;
    for (unsigned k = 0; (ops = gt__modifier_at(k)) && length < size; k++)
        length += (size_t)snprintf(text + length, size - length, k ? ", %s" : "%s", ops->name);
    return text;
}

/* The modifier that `*names` begins with; *names moves on to the next one. NULL: there is no such modifier. */
static const gt_modifier_ops *next_named(const char **names)
{
    size_t length = strcspn(*names, ",");
    const gt_modifier_ops *ops = find(*names, length);
    if (!ops) {
        char known[128] = "";
        gt__error_set("unknown stream modifier '%.*s'; there are %s", (int)length, *names,
                      known_names(known, sizeof known));
    }
    *names += length + ((*names)[length] == ',');
    return ops;
}

gt_err gt__chain_check(const char *names)
{
    while (names && *names)
        if (!next_named(&names))
            return GT_ERR_VALUE;
    return GT_OK;
}

gt_err gt__chain_open(const char *names, const gt_modifier_ops *last, gt_session *session, gt_modifier **chain)
{
    gt_modifier **end = chain;
    gt_err err = GT_OK;
    *chain = NULL;
    if (!names)
        names = default_chain;
    while (*names && err == GT_OK) {
        const gt_modifier_ops *ops = next_named(&names);
        err = ops ? append(&end, ops, session) : GT_ERR_VALUE;
    }
    if (err == GT_OK && last)
        err = append(&end, last, session);
    if (err == GT_OK)
        err = append(&end, &gt__modifier_place, session);
    if (err != GT_OK)
        gt__chain_close(chain);
    return err;
}

void gt__chain_close(gt_modifier **chain)
{
    while (*chain) {
        gt_modifier *next = (*chain)->next;
        if ((*chain)->ops->close)
            (*chain)->ops->close(*chain);
        free(*chain);
        *chain = next;
    }
}

bool gt__chain_passes(const gt_modifier *chain)
{
    for (; chain->next; chain = chain->next)
        if (!chain->ops->repeat)
            return false;
    return true;
}

gt_err gt__chain_flush(gt_modifier *chain, gt_flush why)
{
    for (; chain; chain = chain->next)
        if (chain->ops->flush)
            GT_TRY(chain->ops->flush(chain, why));
    return GT_OK;
}

void gt__chain_stats(const gt_modifier *chain, FILE *json)
{
    const char *separator = "";
    fputc('{', json);
    for (; chain; chain = chain->next) {
        fprintf(json, "%s\"%s\": ", separator, chain->ops->name);
        if (chain->ops->stats)
            chain->ops->stats(chain, json);
        else
            fputs("{}", json); /* it has no statistics, but is listed */
        separator = ", ";
    }
    fputc('}', json);
}
