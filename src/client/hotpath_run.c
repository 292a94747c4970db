/*
 * hotpath_run.c: what leaves the stage: the run of a path as one record, or the records that were held back. If the link has no room they wait
 * in the stage, and go before all that comes later. See hotpath_state.h.
 */
#include <stdlib.h>
#include <string.h>

#include "client/hotpath.h"
#include "client/hotpath_state.h"
#include "core/record.h"

/* Elements of work for each slot of the stage: tensors are so large that each is freed at once, though that takes a record. */
enum { DUE_LARGE = 4096 };

/* ---- what waits for room ------------------------------------------------------------------------------------- */

/* Copy the record to the link; it is not published. False: there is no room. */
static bool to_link(gt_client *client, const gt_slot *record, unsigned slots)
{
    gt_slot *out = gt__link_reserve(client->link, slots);
    if (out)
        memcpy(out, record, slots * sizeof *out);
    return out != NULL;
}

/* The record behind those that waited has gone to the link's window: take it, as it would have been when it came. */
static void take_fresh(gt_client *client, unsigned slots)
{
    gt_hotpath *hot = client->hotpath;
    gt_fresh fresh = hot->fresh;
    uint64_t live = client->live;
    hot->fresh.slots = 0;
    client->live = fresh.live;
    bool taken = gt__hotpath_take(client, slots, fresh.work);
    client->live = live;
    if (!taken)
        gt__client_publish(client, slots, fresh.work);
    hot->frees_before = fresh.frees;
    if (fresh.released)
        gt__hotpath_release(client);
}

/* ---- frees among records ------------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    const gt_due *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int by_place(const void *a, const void *b)
{
    const gt_due *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at ? 1 : by_id(a, b);
}

/* Find the last use of each. Those older than the records, and not used by them, go first. */
static void place_due(gt_hotpath *hot, int64_t end)
{
    uint64_t first = hot->stage[0].ins.result;
    for (size_t k = 0; k < hot->due_count; k++)
        hot->due[k].at = hot->due[k].id < first ? 0 : end;
    qsort(hot->due, hot->due_count, sizeof *hot->due, by_id);
    for (int64_t at = 0, next; at < end; at = next) {
        next = at + 1 + hot->stage[at].ins.tail;
        for (gt_record_ids ids = gt__record_ids(hot->stage + at); gt__record_ids_next(&ids);) {
            gt_due *due = bsearch(&(gt_due){.id = *ids.id}, hot->due, hot->due_count, sizeof *hot->due, by_id);
            if (due)
                due->at = next;
        }
    }
    qsort(hot->due, hot->due_count, sizeof *hot->due, by_place);
}

void gt__hotpath_spread_frees(gt_client *client, int64_t end, int64_t work)
{
    gt_hotpath *hot = client->hotpath;
    size_t count = client->free_count;
    if (hot->due_capacity < count) {
        gt_due *grown = realloc(hot->due, count * sizeof *grown);
        if (!grown) { /* they go behind the records */
            client->free_bytes += GT_FREED_MUCH;
            return;
        }
        hot->due = grown;
        hot->due_capacity = count;
    }
    hot->due_count = count;
    hot->due_next = 0;
    hot->due_least = work / (end + 1) >= DUE_LARGE ? 1 : GT_FREE_IDS;
    for (size_t k = 0; k < count; k++)
        hot->due[k].id = client->frees[k];
    client->free_count = client->free_bytes = 0;
    if (count)
        place_due(hot, end);
}

/* Send those that belong before the next record. False: there is no room. */
static bool send_due(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    for (;;) {
        gt_slot record;
        unsigned count = 0;
        size_t next = hot->due_next;
        while (next < hot->due_count && hot->due[next].at <= hot->drained && count < GT_FREE_IDS)
            gt__free_append(&record.ins, &count, hot->due[next++].id);
        if (!count || (count < hot->due_least && hot->drained < hot->drain_end))
            return true;
        if (!to_link(client, &record, 1))
            return false;
        hot->due_next = next;
        gt__client_publish(client, 1, 0);
        gt__hotpath_learn_frees(hot, &record.ins, hot->drained_state == GT_HOT_LEARNING);
        if (hot->state != GT_HOT_DRAINING) { /* there were too many: nothing is learned */
            hot->state = GT_HOT_DRAINING;
            hot->drained_state = GT_HOT_WATCHING;
        }
    }
}

/* ---- draining ------------------------------------------------------------------------------------------------ */

bool gt__hotpath_drain(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    while (send_due(client) && hot->drained < hot->drain_end) {
        const gt_slot *record = hot->stage + hot->drained;
        unsigned length = 1u + record->ins.tail;
        if (!to_link(client, record, length))
            return false;
        hot->drained += length;
        gt__client_publish(client, length, hot->drained == hot->drain_end ? hot->drain_work : 0);
    }
    if (hot->due_next < hot->due_count)
        return false;
    hot->due_count = hot->due_next = 0;
    unsigned fresh = hot->fresh.slots;
    if (fresh && !to_link(client, hot->stage + hot->drain_end, fresh))
        return false;
    hot->state = hot->drained_state;
    hot->drained_state = GT_HOT_WATCHING;
    client->draining = false;
    if (fresh)
        take_fresh(client, fresh);
    gt__client_send_frees(client);
    return !client->draining;
}

void gt__hotpath_send_staged(gt_client *client, int64_t begin, int64_t end, int64_t work)
{
    gt_hotpath *hot = client->hotpath;
    hot->drained = begin;
    hot->drain_end = end;
    hot->drain_work = work;
    hot->state = GT_HOT_DRAINING;
    client->draining = true;
    gt__hotpath_drain(client);
}

/* ---- runs --------------------------------------------------------------------------------------------------- */

/* The pieces of a definition. Returns the slot after them. */
static gt_slot *write_definition(gt_slot *out, uint32_t number, const gt_slot *definition, size_t slots)
{
    for (size_t at = 0; at < slots;) {
        size_t length = slots - at < GT_PATH_PIECE ? slots - at : GT_PATH_PIECE;
        out->ins = (gt_instruction){.op = GT_OP_path, .result = number, .tail = (uint16_t)length};
        out->ins.imm[0].u = at;
        out->ins.imm[1].u = slots;
        memcpy(out + 1, definition + at, length * sizeof *out);
        out += 1 + length;
        at += length;
    }
    return out;
}

/* The template's path gets a number. Numbers are used in turn: the template that had it before gets another one. */
static void number_path(gt_hotpath *hot, gt_template *template)
{
    uint32_t number = hot->next_number++ % GT_PATHS;
    if (hot->named[number])
        hot->named[number]->number = 0;
    hot->named[number] = template;
    template->number = number + 1;
}

/* The run of a path that has fitted to its end, with as many of the frees that wait as so many words have place for. */
static void write_run(gt_client *client, const gt_template *template, uint32_t words, gt_slot *out)
{
    gt_hotpath *hot = client->hotpath;
    uint32_t own = template->inputs + template->parameter_count, others = words - own;
    unsigned tail = gt__slots_for(words * sizeof(uint64_t));
    out->ins = (gt_instruction){.op = GT_OP_repeat,
                                .tail = (uint16_t)tail,
                                .result = template->number - 1,
                                .operand = {hot->cell[GT_CELL_FIRST]},
                                .imm = {{.u = words}}};
    uint64_t *word = out[1].u64;
    memcpy(word, hot->cell + GT_CELL_WORDS, own * sizeof *word);
    word += own;
    for (uint32_t k = 0; k < others; k++)
        *word++ = client->frees[template->other[k]];
    gt__slots_pad(out + 1, words * sizeof *word);
    client->free_count = template->others - others;
    client->free_bytes = client->free_count ? GT_FREED_MUCH : 0;
    for (size_t k = 0; k < client->free_count; k++)
        client->frees[k] = client->frees[template->other[others + k]];
    if (template->slots > 1 + tail)
        hot->stats.bytes_saved += (template->slots - 1 - tail) * sizeof *out;
}

/*
 * The same where the server does not know the path yet, or there is no room in the link: definition and run take the place of
 * the path's records in the stage, and end where these do. Whether there is room is a matter of time, and results must not be:
 * a sum may round in another way where its records run alone. False: there is no memory, or they are too long.
 */
static bool send_run_later(gt_client *client, gt_template *template, uint32_t words)
{
    gt_hotpath *hot = client->hotpath;
    size_t slots = 0;
    gt_slot *definition = template->number ? NULL : gt__template_define(template, &slots);
    size_t all = slots + (slots + GT_PATH_PIECE - 1) / GT_PATH_PIECE + 1 + gt__slots_for(words * sizeof(uint64_t));
    bool fits = (template->number || definition) && all <= GT_HOT_HEADROOM + (size_t)hot->staged;
    if (fits) {
        int64_t begin = (int64_t)hot->staged - (int64_t)all;
        gt_slot *out = hot->stage + begin;
        if (definition) {
            gt__path_mark(definition, template->at_leave || hot->recording.region);
            number_path(hot, template);
            out = write_definition(out, template->number - 1, definition, slots);
        }
        write_run(client, template, words, out);
        gt__hotpath_send_staged(client, begin, hot->staged, (int64_t) template->work);
    }
    free(definition);
    return fits;
}

bool gt__hotpath_send_run(gt_client *client, gt_template *template)
{
    uint32_t own = template->inputs + template->parameter_count, words = own + template->others;
    if (own > GT_PATH_WORDS)
        return false;
    words = words < GT_PATH_WORDS ? words : GT_PATH_WORDS; /* how many frees wait may be a matter of time, too */
    unsigned slots = 1 + gt__slots_for(words * sizeof(uint64_t));
    gt_slot *out = template->number ? gt__link_reserve(client->link, slots) : NULL;
    if (!out)
        return send_run_later(client, template, words);
    write_run(client, template, words, out);
    gt__client_publish(client, slots, (int64_t) template->work);
    return true;
}
