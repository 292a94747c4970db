/*
 * cli/replay/steps.c: numbers the steps of a program's loop, from the lines that its stream comes to. A first pass over the tape:
 * it executes nothing.
 *
 * A training loop is known by the line that updates parameters, once a step: `update`. A step begins at `start`, the first line that
 * ran once before the first update and once between each two. What comes around these two lines is told from the tail of one
 * step and the head of the next by comparison with the first step. Without updates there are steps only if the program has
 * one plain loop. Where the step is not certain there is none: a wrong number is worse.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/array.h"
#include "cli/replay/replay.h"
#include "core/record.h"

/* The stream comes to a line. */
typedef struct run {
    uint64_t number; /* of its first record */
    uint32_t site;
    uint32_t step; /* from 1; 0: none is certain */
    bool updates;  /* a parameter */
} run;

typedef struct client_runs {
    struct client_runs *next;
    uint64_t session;
    run *runs;
    size_t count, capacity;
    uint64_t *named; /* ids of tensors that have a name */
    size_t named_count, named_capacity, named_last;
    size_t sites; /* told */
} client_runs;

struct gt_steps {
    client_runs *clients;
};

/* Of a line. */
typedef struct line {
    size_t runs, updates, before, after; /* before the first update, after the last */
    size_t once, any;                    /* gaps between updates in which it ran once, or at all */
    size_t gap, in_gap;                  /* runs in this gap */
    bool in_body;                        /* it ran between a start and its update */
} line;

/* ---- the runs of a tape ------------------------------------------------------------------------------------- */

static client_runs *client_of(gt_steps *steps, uint64_t session)
{
    client_runs *client = steps->clients;
    while (client && client->session != session)
        client = client->next;
    if (!client) {
        client = gt__zeroed(1, sizeof *client);
        client->session = session;
        client->next = steps->clients;
        steps->clients = client;
    }
    return client;
}

/* Parameters are updated in the same order each time: the search begins behind the last one found. */
static uint64_t *find_named(client_runs *client, uint64_t id)
{
    for (size_t k = 0; k < client->named_count; k++) {
        size_t at = (client->named_last + 1 + k) % client->named_count;
        if (client->named[at] == id) {
            client->named_last = at;
            return &client->named[at];
        }
    }
    return NULL;
}

static void take_record(client_runs *client, const gt_tape_entry *entry, const gt_instruction *ins)
{
    if (ins->op == GT_OP_name && !find_named(client, ins->operand[0]))
        *GT_PUSH(client->named, client->named_count, client->named_capacity) = ins->operand[0];
    client->sites += ins->op == GT_OP_site;
    if (!ins->site || ins->site > client->sites)
        return;
    if (!client->count || client->runs[client->count - 1].site != ins->site)
        *GT_PUSH(client->runs, client->count, client->capacity) =
            (run){.number = entry->number, .site = ins->site};
    uint64_t *named =
        ins->op < GT_OP_FIRST_CONTROL && ins->flags & GT_FLAG_UPDATES && gt__literal(ins, 0) == GT_LITERAL_NONE
            ? find_named(client, ins->operand[0])
            : NULL;
    if (named) {
        *named = ins->result;
        client->runs[client->count - 1].updates = true;
    }
}

/* ---- a loop with updates ------------------------------------------------------------------------------------ */

/* The line of the first update of a parameter that is repeated; 0: none. */
static uint32_t find_update(const client_runs *c, line *lines)
{
    for (size_t k = 0; k < c->count; k++) {
        lines[c->runs[k].site].runs++;
        lines[c->runs[k].site].updates += c->runs[k].updates;
    }
    for (size_t k = 0; k < c->count; k++)
        if (lines[c->runs[k].site].updates > 1)
            return c->runs[k].site;
    return 0;
}

/* Count where the lines run, around the updates. Returns the gaps. */
static size_t count_lines(const client_runs *c, line *lines, uint32_t update)
{
    size_t seen = 0, all = lines[update].runs;
    for (size_t k = 0; k < c->count; k++) {
        line *l = &lines[c->runs[k].site];
        if (c->runs[k].site == update) {
            seen++;
            continue;
        }
        l->before += !seen;
        l->after += seen == all;
        if (!seen || seen == all)
            continue;
        l->in_gap = l->gap == seen ? l->in_gap + 1 : 1;
        l->gap = seen;
        l->any += l->in_gap == 1;
        l->once += l->in_gap == 1;
        l->once -= l->in_gap == 2;
    }
    return all - 1;
}

/* The line that a step begins with, as far as that is sure; 0: none. `after`: how often it may have run after the last update, as
 * in a program that ends in the middle of a step. */
static uint32_t find_start(const client_runs *c, const line *lines, size_t gaps, size_t after)
{
    for (size_t k = 0; k < c->count; k++) {
        const line *l = &lines[c->runs[k].site];
        if (l->before == 1 && l->once == gaps && l->any == gaps && l->after == after)
            return c->runs[k].site;
    }
    return 0;
}

/* The last run in `from`..`to` that belongs to the tail of a step: its line ran after each update, and not before the first. */
static size_t tail_end(const client_runs *c, const line *lines, size_t gaps, size_t from, size_t to)
{
    size_t end = from;
    for (size_t k = from + 1; k < to; k++)
        if (!lines[c->runs[k].site].before && lines[c->runs[k].site].any == gaps)
            end = k;
    return end;
}

/* How many runs before `start` are the same lines as those before `first`, down to `least`. */
static size_t head_length(const client_runs *c, size_t first, size_t start, size_t least)
{
    size_t length = 0;
    while (length < first && start - length > least + 1 &&
           c->runs[start - length - 1].site == c->runs[first - length - 1].site)
        length++;
    return length;
}

static void set_steps(const client_runs *c, size_t from, size_t to, uint32_t step)
{
    for (size_t k = from; k < to; k++)
        c->runs[k].step = step;
}

/* The program ended in the middle of a step, or left the loop there. */
static void number_rest(const client_runs *c, const line *lines, size_t from, uint32_t step)
{
    size_t to = from;
    while (to < c->count && lines[c->runs[to].site].in_body)
        to++;
    set_steps(c, from, to, step);
}

static void number_around(const client_runs *c, line *lines, uint32_t update, uint32_t start)
{
    size_t gaps = lines[update].runs - 1, first = 0, began = 0, least = SIZE_MAX, longest_tail = 0;
    size_t end = 0; /* the last update */
    uint32_t step = 0;
    for (size_t k = 0; k < c->count; k++) {
        uint32_t site = c->runs[k].site;
        if (site == start) {
            if (step) {
                size_t tail = tail_end(c, lines, gaps, end, k), head = head_length(c, first, k, tail);
                longest_tail = tail - end > longest_tail ? tail - end : longest_tail;
                least = head < least ? head : least;
                set_steps(c, end, tail + 1, step);
                set_steps(c, k - head, k, step + 1);
            } else
                first = k;
            began = k;
            step++;
        } else if (site == update && step) {
            set_steps(c, began, k + 1, step);
            for (size_t at = began; at <= k; at++)
                lines[c->runs[at].site].in_body = true;
            end = k;
        }
    }
    if (least != SIZE_MAX)
        set_steps(c, first - least, first, 1);
    if (end < began)
        number_rest(c, lines, began, step);
    else {
        size_t to = end + longest_tail + 1;
        set_steps(c, end, tail_end(c, lines, gaps, end, to < c->count ? to : c->count) + 1, step);
    }
}

/* ---- one plain loop ----------------------------------------------------------------------------------------- */

/* The lines that run more than once do so in turn, always in the same order. */
static void number_plain(const client_runs *c, const line *lines)
{
    enum { FEWEST = 3 }; /* steps: a function may be called twice */
    size_t start = 0, length = 0, at = 0, last = 0;
    while (start < c->count && lines[c->runs[start].site].runs < 2)
        start++;
    for (size_t k = start; k < c->count && (k == start || c->runs[k].site != c->runs[start].site); k++)
        length += lines[c->runs[k].site].runs > 1;
    uint32_t *cycle = gt__zeroed(length + 1, sizeof *cycle);
    for (size_t k = start; at < length; k++)
        if (lines[c->runs[k].site].runs > 1)
            cycle[at++] = c->runs[k].site;
    bool plain = length && lines[cycle[length - 1]].runs >= FEWEST;
    at = 0;
    for (size_t k = start; plain && k < c->count; k++)
        if (lines[c->runs[k].site].runs > 1)
            plain = c->runs[k].site == cycle[at++ % length];
    at = 0;
    for (size_t k = start; plain && k < c->count; k++)
        if (lines[c->runs[k].site].runs > 1) {
            set_steps(c, at % length ? last + 1 : k, k + 1, (uint32_t)(at / length) + 1);
            at++;
            last = k;
        }
    free(cycle);
}

static void number_client(const client_runs *c)
{
    line *lines = gt__zeroed(c->sites + 1, sizeof *lines);
    uint32_t update = find_update(c, lines);
    if (update) {
        size_t gaps = count_lines(c, lines, update);
        uint32_t start = find_start(c, lines, gaps, 0);
        if (!start)
            start = find_start(c, lines, gaps, 1);
        if (start)
            number_around(c, lines, update, start);
    } else
        number_plain(c, lines);
    free(lines);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

gt_err gt__steps_new(const char *path, gt_steps **out)
{
    gt_tape *tape;
    const gt_tape_entry *entry;
    const gt_slot *slots;
    GT_TRY(gt__tape_open(path, &tape));
    gt_steps *steps = *out = gt__zeroed(1, sizeof *steps);
    while (gt__tape_next(tape, &entry, &slots) == GT_OK && entry)
        if (entry->kind == GT_TAPE_RECORD || entry->kind == GT_TAPE_NOTE)
            take_record(client_of(steps, entry->session), entry, &slots->ins);
    gt__tape_close(&tape);
    for (const client_runs *client = steps->clients; client; client = client->next)
        number_client(client);
    return GT_OK;
}

void gt__steps_free(gt_steps **where)
{
    if (!*where)
        return;
    for (client_runs *client = (*where)->clients, *next; client; client = next) {
        next = client->next;
        free(client->runs);
        free(client->named);
        free(client);
    }
    free(*where);
    *where = NULL;
}

uint32_t gt__steps_at(const gt_steps *steps, const gt_tape_entry *entry, uint32_t site)
{
    const client_runs *client = steps ? steps->clients : NULL;
    while (client && client->session != entry->session)
        client = client->next;
    if (!client || !client->count || client->runs[0].number > entry->number)
        return 0;
    size_t low = 0, high = client->count; /* the last run that begins at or before it is in low..high-1 */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(client->runs[middle].number <= entry->number ? &low : &high) = middle;
    }
    return client->runs[low].site == site ? client->runs[low].step : 0;
}
