/* aside.c: see aside.h. */
#include "worker/peers/aside.h"

#include <stdlib.h>
#include <string.h>

#include "core/record.h"
#include "worker/path_plans.h"
#include "worker/paths.h"
#include "worker/worker.h"

enum {
    MOST_SLOTS = 64 << 10,  /* of the records of one session: 4 MiB */
    MOST_TENSORS = 1 << 27, /* more than a store has slots */
    PART = 1,               /* in the flags of a header */
};

/* ---- slots -------------------------------------------------------------------------------------------------- */

typedef void visitor(void *context, uint64_t *slot, unsigned use);

/* A run of a path: words of its inputs, then of its outputs. */
static void visit_run(const gt_slot *record, const gt_path *path, visitor *visit, void *context)
{
    uint64_t *word = (uint64_t *)record[1].u64;
    for (uint32_t k = 0; k < path->inputs; k++)
        visit(context, &word[k], path->dies[k] ? GT_ID_READ | GT_ID_FREED : GT_ID_READ);
    for (uint32_t k = 0; k < path->outputs; k++)
        visit(context, &word[path->inputs + k], GT_ID_WRITTEN);
}

void gt__aside_visit(const gt_slot *record, const gt_path_plans *plans, visitor *visit, void *context)
{
    if (plans)
        visit_run(record, plans->path, visit, context);
    else if (record->ins.op == GT_OP_failure) /* the dispatcher's: its result is a tensor */
        visit(context, (uint64_t *)&record->ins.result, GT_ID_WRITTEN);
    else
        for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);)
            visit(context, ids.id, ids.use);
}

/* Hidden slots have numbers of their own. */
static gt_slot_uses *table_of(gt_deferred *d, uint64_t *slot)
{
    if (*slot < GT_STORE_HIDDEN)
        return &d->uses;
    *slot -= GT_STORE_HIDDEN;
    return &d->hidden_uses;
}

const gt_slot_use *gt__aside_use(const gt_deferred *deferred, uint64_t slot)
{
    const gt_slot_uses *uses = table_of((gt_deferred *)deferred, &slot);
    const gt_slot_use *use = slot < uses->capacity ? &uses->of[slot] : NULL;
    return use && (use->reads || use->writes) ? use : NULL;
}

typedef struct counting {
    gt_deferred *d;
    gt_aside *aside;
    int change;
    bool failed;
} counting;

static void make_room(void *context, uint64_t *slot, unsigned use)
{
    counting *c = context;
    uint64_t at = *slot;
    gt_slot_uses *uses = table_of(c->d, &at);
    size_t capacity = uses->capacity ? uses->capacity : 256;
    (void)use;
    if (at < uses->capacity)
        return;
    while (capacity <= at && capacity < MOST_TENSORS)
        capacity *= 2;
    gt_slot_use *of = capacity > at ? realloc(uses->of, capacity * sizeof *of) : NULL;
    c->failed |= !of; /* out of range: its execution refuses it */
    if (!of)
        return;
    memset(of + uses->capacity, 0, (capacity - uses->capacity) * sizeof *of);
    *uses = (gt_slot_uses){.of = of, .capacity = capacity};
}

static void count(void *context, uint64_t *slot, unsigned use)
{
    const counting *c = context;
    uint64_t at = *slot;
    gt_slot_use *of = &table_of(c->d, &at)->of[at];
    of->aside = c->aside;
    if (use & GT_ID_READ)
        of->reads += (uint32_t)c->change;
    if (use & (GT_ID_WRITTEN | GT_ID_FREED))
        of->writes += (uint32_t)c->change;
}

/* ---- records ------------------------------------------------------------------------------------------------ */

gt_aside *gt__aside_find(const gt_deferred *deferred, uint64_t owner)
{
    for (gt_aside *aside = deferred->asides; aside; aside = aside->next)
        if (aside->owner == owner && aside->count)
            return aside;
    return NULL;
}

gt_aside *gt__aside_of(gt_deferred *deferred, uint64_t owner)
{
    gt_aside **where = &deferred->asides;
    while (*where && (*where)->owner != owner)
        where = &(*where)->next;
    if (!*where && (*where = calloc(1, sizeof **where))) {
        (*where)->owner = owner;
        (*where)->items.most = MOST_SLOTS;
    }
    return *where;
}

static gt_aside_item item_at(gt_slot *header)
{
    return (gt_aside_item){.header = header,
                           .number = header->ins.imm[0].u,
                           .passage = (gt_under_way *)(uintptr_t)header->ins.operand[0],
                           .plans = (gt_path_plans *)(uintptr_t)header->ins.operand[1],
                           .part = header->ins.flags & PART,
                           .record = header + 1};
}

gt_aside_item gt__aside_first(const gt_aside *aside)
{
    return item_at(aside->items.slots + aside->items.first);
}

void gt__aside_set_passage(const gt_aside_item *item, gt_under_way *passage)
{
    item->header->ins.operand[0] = (uintptr_t)passage;
}

bool gt__aside_put(gt_worker *worker, gt_aside *aside, const gt_slot *record, gt_under_way *passage, bool part)
{
    gt_deferred *d = &worker->deferred;
    unsigned length = 1u + record->ins.tail;
    gt_path_plans *plans = record->ins.op == GT_OP_repeat ? gt__worker_path_plans(worker, record) : NULL;
    counting c = {.d = d, .aside = aside, .change = 1};
    gt__aside_visit(record, plans, make_room, &c);
    gt_slot *header = c.failed ? NULL : gt__slot_queue_reserve(&aside->items, 1 + length);
    if (!header)
        return false;
    header->ins = (gt_instruction){.tail = (uint16_t)length, .flags = part ? PART : 0};
    header->ins.imm[0].u = d->number;
    header->ins.operand[0] = (uintptr_t)passage;
    header->ins.operand[1] = (uintptr_t)plans;
    memcpy(header + 1, record, length * sizeof *record);
    if (passage)
        gt__peers_list(passage, &aside->started);
    if (plans) {
        plans->held++;
        header[1].ins.imm[1].u = 0; /* it runs to its end: the records that would go on with it come before it */
    }
    gt__slot_queue_commit(&aside->items, 1 + length);
    gt__aside_visit(record, plans, count, &c);
    aside->count++;
    d->count++;
    d->ahead += !part;
    return true;
}

void gt__aside_pop(gt_worker *worker, gt_aside *aside)
{
    gt_deferred *d = &worker->deferred;
    gt_aside_item item = gt__aside_first(aside);
    counting c = {.d = d, .aside = aside, .change = -1};
    gt__aside_visit(item.record, item.plans, count, &c);
    if (item.plans)
        gt__worker_path_let_go(worker, item.plans);
    gt__slot_queue_pop(&aside->items);
    aside->count--;
    d->count--;
    if (!d->count)
        gt__store_unhide(worker->store);
}

/* ---- starting ahead ------------------------------------------------------------------------------------------ */

/* Slots that records make or free, in an open hash table. */
typedef struct slot_set {
    uint64_t slot[4096]; /* plus one; 0: unused */
    unsigned count;
} slot_set;

static uint64_t *place_in(slot_set *set, uint64_t slot)
{
    enum { SIZE = sizeof set->slot / sizeof set->slot[0] };
    size_t at = (size_t)(slot * 0x9E3779B97F4A7C15u >> 40) % SIZE;
    while (set->slot[at] && set->slot[at] != slot + 1)
        at = (at + 1) % SIZE;
    return &set->slot[at];
}

static void note_written(void *context, uint64_t *slot, unsigned use)
{
    slot_set *set = context;
    if (!(use & (GT_ID_WRITTEN | GT_ID_FREED)))
        return;
    uint64_t *place = place_in(set, *slot);
    set->count += !*place;
    *place = *slot + 1;
}

static bool is_collective(unsigned op)
{
    return gt__deferred_may_wait(op) && op != GT_OP_recv;
}

void gt__aside_start(gt_worker *worker, gt_aside *aside)
{
    enum { MOST_WRITTEN = 1024 };
    const gt_slot_queue *items = &aside->items;
    slot_set written;
    memset(&written, 0, sizeof written);
    for (size_t at = items->first; at < items->end; at += 1u + items->slots[at].ins.tail) {
        gt_aside_item item = item_at(items->slots + at);
        const gt_instruction *ins = &item.record->ins;
        if (item.plans && written.count + item.plans->path->inputs + item.plans->path->outputs > MOST_WRITTEN)
            break;
        if (is_collective(ins->op) && !item.passage && !*place_in(&written, ins->operand[0])) {
            item.passage = gt__peers_start(worker, ins, item.record + 1, item.number);
            gt__aside_set_passage(&item, item.passage);
            if (item.passage)
                gt__peers_list(item.passage, &aside->started);
        }
        gt__aside_visit(item.record, item.plans, note_written, &written);
        if (written.count > MOST_WRITTEN)
            break;
    }
}

void gt__aside_free(gt_worker *worker, gt_aside *aside)
{
    while (aside->count) {
        gt_aside_item item = gt__aside_first(aside);
        if (item.passage)
            gt__peers_abandon(worker, item.passage);
        gt__aside_pop(worker, aside);
    }
    gt__slot_queue_free(&aside->items);
    free(aside);
}

/* ---- hidden slots ------------------------------------------------------------------------------------------- */

typedef struct hiding {
    gt_worker *worker;
    gt_aside *aside;
    uint32_t at;      /* the record, from 1 on */
    uint32_t *last;   /* by slot: the last record that frees it; 0: none */
    uint32_t *hidden; /* by slot: its new number, from 1 on; 0: none yet */
    size_t capacity;
    bool failed;
} hiding;

static void note_last(void *context, uint64_t *slot, unsigned use)
{
    hiding *h = context;
    if (use & GT_ID_FREED && *slot < h->capacity)
        h->last[*slot] = h->at;
}

static void rename_slot(void *context, uint64_t *slot, unsigned use)
{
    hiding *h = context;
    (void)use;
    if (*slot >= h->capacity || h->last[*slot] < h->at)
        return; /* it is not freed afterwards: the session still has that slot */
    *slot = GT_STORE_HIDDEN + h->hidden[*slot] - 1;
}

static void choose_hidden(void *context, uint64_t *slot, unsigned use)
{
    hiding *h = context;
    uint64_t number;
    (void)use;
    if (h->failed || *slot >= h->capacity || h->last[*slot] < h->at || h->hidden[*slot])
        return;
    h->failed = !gt__store_hide(h->worker->store, &number);
    h->hidden[*slot] = h->failed ? 0 : (uint32_t)(number - GT_STORE_HIDDEN) + 1;
}

static void walk(hiding *h, visitor *visit)
{
    const gt_slot_queue *items = &h->aside->items;
    h->at = 0;
    for (size_t at = items->first; at < items->end; at += 1u + items->slots[at].ins.tail) {
        gt_aside_item item = item_at(items->slots + at);
        h->at++;
        gt__aside_visit(item.record, item.plans, visit, h);
    }
}

static void count_all(hiding *h, int change)
{
    const gt_slot_queue *items = &h->aside->items;
    counting c = {.d = &h->worker->deferred, .aside = h->aside, .change = change};
    for (size_t at = items->first; at < items->end; at += 1u + items->slots[at].ins.tail) {
        gt_aside_item item = item_at(items->slots + at);
        gt__aside_visit(item.record, item.plans, make_room, &c);
        if (!c.failed)
            gt__aside_visit(item.record, item.plans, count, &c);
    }
}

/* Room for the uses of hidden slots: before anything is renamed, since what follows must not fail. */
static bool make_hidden_room(gt_deferred *d, uint64_t slots)
{
    counting c = {.d = d};
    uint64_t last = GT_STORE_HIDDEN + slots;
    make_room(&c, &last, 0);
    return !c.failed;
}

bool gt__aside_hide(gt_worker *worker, gt_aside *aside)
{
    gt_deferred *d = &worker->deferred;
    hiding h = {.worker = worker, .aside = aside, .capacity = d->uses.capacity};
    h.last = calloc(h.capacity, sizeof *h.last);
    h.hidden = calloc(h.capacity, sizeof *h.hidden);
    h.failed = !h.last || !h.hidden;
    if (!h.failed) {
        walk(&h, note_last);
        walk(&h, choose_hidden);
        h.failed |= !make_hidden_room(d, worker->store->hidden_count);
    }
    if (!h.failed) {
        count_all(&h, -1);
        walk(&h, rename_slot);
        count_all(&h, 1);
        for (size_t slot = 0; slot < h.capacity; slot++)
            if (h.hidden[slot])
                gt__store_move(worker->store, slot, GT_STORE_HIDDEN + h.hidden[slot] - 1);
    }
    free(h.last);
    free(h.hidden);
    return !h.failed;
}
