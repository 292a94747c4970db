/* chain.c: builds a session's chain of modifiers and speaks to all of them. See modifier.h. */
#include <stdlib.h>
#include <string.h>

#include "dispatcher/modifier.h"

static const gt_modifier_ops *const modifiers[] = {
    &gt__modifier_identity,
    &gt__modifier_statistics,
};
enum { MODIFIERS = sizeof modifiers / sizeof modifiers[0] };

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

static const gt_modifier_ops *find(const char *name, size_t length)
{
    for (int k = 0; k < MODIFIERS; k++)
        if (strlen(modifiers[k]->name) == length && strncmp(modifiers[k]->name, name, length) == 0)
            return modifiers[k];
    return NULL;
}

/* The modifier that `*names` begins with, and *names moved to the next one. NULL: nothing is called that. */
static const gt_modifier_ops *next_named(const char **names)
{
    size_t length = strcspn(*names, ",");
    const gt_modifier_ops *ops = find(*names, length);
    if (!ops)
        gt__error_set("unknown stream modifier '%.*s'; there are identity and statistics", (int)length, *names);
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

gt_err gt__chain_open(const char *names, gt_session *session, gt_modifier **chain)
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

gt_err gt__chain_flush(gt_modifier *chain)
{
    for (; chain; chain = chain->next)
        if (chain->ops->flush)
            GT_TRY(chain->ops->flush(chain));
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
            fputs("{}", json); /* counts nothing, but is there */
        separator = ", ";
    }
    fputc('}', json);
}
