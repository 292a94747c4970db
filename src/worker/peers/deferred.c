/* deferred.c: see deferred.h. */
#include "worker/peers/deferred.h"

#include <stdlib.h>

#include "core/record.h"
#include "worker/answer.h"
#include "worker/paths.h"
#include "worker/stand_in.h"
#include "worker/worker.h"

enum {
    FULL_SLOTS =
        4
        << 10, /* of a session's records: the dispatcher is told. What is on its way then fits as well (aside.c) */
    TURN_NS = 1000000,  /* that records put aside are executed while others are in the stream */
    NOTHING_NS = 20000, /* a look at collectives that took longer has added something up */
    WAIT_MS = 1,        /* for another worker, before the next look at the stream */
    WATCHED_MS = 200,   /* that the worker waits for the records put aside while the dispatcher watches */
    PATIENT_NS =
        20000000, /* after that the worker waits for the stream, and looks at the other workers in between */
};

/* ---- which records wait ------------------------------------------------------------------------------------- */

/* What a record has to do with those put aside. Two records conflict if both use a tensor and one of them writes or frees it. */
typedef struct relation {
    const gt_deferred *d;
    bool appends;     /* it writes to a tensor that exists */
    gt_aside *own;    /* of the record's session; NULL: none of it waits */
    gt_aside *after;  /* it must wait behind these */
    gt_aside *reused; /* it makes a tensor in a slot that others put aside still use, and free */
} relation;

static void relate(void *context, uint64_t *slot, unsigned use)
{
    relation *r = context;
    const gt_slot_use *other = gt__aside_use(r->d, *slot);
    bool writes = use & (GT_ID_WRITTEN | GT_ID_FREED);
    if (!other || !(other->writes || writes))
        return;
    if (use == GT_ID_WRITTEN && other->aside != r->own && !r->appends)
        r->reused = other->aside;
    else
        r->after = other->aside;
}

static bool is_collective(unsigned op)
{
    return gt__deferred_may_wait(op) && op != GT_OP_recv;
}

/* It says that it waits for all records of its session before it. */
static bool is_patient(const gt_instruction *ins)
{
    return (ins->op == GT_OP_send || ins->op == GT_OP_stats) && ins->flags & GT_FLAG_LAST;
}

/* Records that may overtake those of other sessions, or be overtaken. */
static bool is_movable(const gt_instruction *ins)
{
    unsigned op = ins->op;
    return op < GT_OP_FIRST_CONTROL || op == GT_OP_free || op == GT_OP_data || op == GT_OP_send ||
           op == GT_OP_fetch || op == GT_OP_sync || op == GT_OP_repeat || op == GT_OP_failure || is_patient(ins) ||
           gt__deferred_may_wait(op);
}

/* Comes behind all records of its session before it. */
static bool is_barrier(const gt_instruction *ins)
{
    return ins->op == GT_OP_fetch || ins->op == GT_OP_sync || is_patient(ins);
}

static bool has_arrived(gt_worker *worker, const gt_slot *record, uint64_t number)
{
    const gt_instruction *recv = &record->ins;
    gt_meta meta;
    worker->exchange->record = number;
    if (gt__meta_set(&meta, (gt_dtype)recv->dtype, recv->rank, record[1].i64) != GT_OK)
        return true; /* it fails */
    return gt__direct_has_come(worker, (int32_t)recv->imm[0].i, recv->imm[1].u, gt__meta_bytes(&meta));
}

/* ---- executing them ----------------------------------------------------------------------------------------- */

/* Whether a collective is over, which is started if it was not. *whole: it must be executed whole. */
static bool is_over(gt_worker *worker, gt_aside *aside, gt_aside_item *item, bool *whole)
{
    const gt_slot *record = item->record;
    worker->cancel.held++; /* other workers wait for their parts */
    if (!item->passage) {
        item->passage = gt__peers_start(worker, &record->ins, record + 1, item->number);
        gt__aside_set_passage(item, item->passage);
        if (item->passage)
            gt__peers_list(item->passage, &aside->started);
        *whole = !item->passage;
    }
    bool over = *whole || gt__peers_advance(worker, item->passage);
    worker->cancel.held--;
    return over;
}

/* Count a collective as executed, and keep its result. */
static void finish_collective(gt_worker *worker, gt_under_way *passage, const gt_instruction *ins)
{
    gt__timing_before(worker, &worker->timing, worker->store, ins);
    gt__peers_finish(worker, passage, ins);
    gt__timing_after(worker, &worker->timing, ins);
}

/* Execute the first record of a session. False: it must still wait. */
static bool run_first(gt_worker *worker, gt_aside *aside)
{
    gt_deferred *d = &worker->deferred;
    gt_aside_item item = gt__aside_first(aside);
    unsigned op = item.record->ins.op;
    bool whole = false;
    if (op == GT_OP_recv && !has_arrived(worker, item.record, item.number))
        return false;
    if (is_collective(op) && !is_over(worker, aside, &item, &whole))
        return false;
    d->ahead -= !item.part;
    if (item.part) { /* a free */
        gt_entry *entry = gt__store_find(worker->store, item.record->ins.result);
        if (entry)
            gt__store_clear(worker->store, entry);
    } else if (item.passage)
        finish_collective(worker, item.passage, &item.record->ins);
    else
        gt__worker_run_record(worker, item.record);
    gt__aside_pop(worker, aside);
    return true;
}

static void tell_fullness(gt_worker *worker, gt_aside *aside)
{
    size_t slots = gt__slot_queue_slots(&aside->items);
    bool full = aside->full ? slots > FULL_SLOTS / 2 : slots > FULL_SLOTS;
    gt_slot *out = full != aside->full && worker->link ? gt__worker_reserve_answer(worker, 1) : NULL;
    if (!out)
        return;
    aside->full = full;
    out->ins = (gt_instruction){.op = GT_OP_share};
    out->ins.imm[0].u = aside->owner;
    out->ins.imm[1].u = full ? GT_SHARE_FULL : GT_SHARE_ROOM;
    gt__link_commit(worker->link, 1);
    gt__link_flush(worker->link);
}

/* Execute records of a session as far as they can run, for so long. True: at least one. */
static bool run_aside(gt_worker *worker, gt_aside *aside, uint64_t turn_ns)
{
    gt_deferred *d = &worker->deferred;
    uint64_t owner = worker->store->owner, at_hand = d->number, began_ns = gt__now_ns(), now_ns = began_ns;
    bool any = false, waits = false;
    gt__store_set_owner(worker->store, aside->owner);
    d->running = true;
    worker->cancel.held++;
    gt__peers_advance_all(worker, aside->started); /* the second step of one does not wait for those before it */
    worker->cancel.held--;
    d->unwanted = aside->unwanted;
    while (aside->count && now_ns - began_ns <= turn_ns && !waits) {
        gt_aside_item item = gt__aside_first(aside);
        d->number = item.number;
        d->plans = item.plans;
        waits = !run_first(worker, aside);
        any |= !waits;
        now_ns = gt__now_ns();
    }
    d->plans = NULL;
    if (waits && (any || aside->count != aside->looked)) {
        worker->cancel.held++;
        gt__aside_start(worker, aside);
        gt__peers_advance_all(worker, aside->started);
        worker->cancel.held--;
    }
    aside->looked = aside->count;
    d->running = d->unwanted = false;
    d->number = at_hand;
    d->more |= aside->count && !waits;
    gt__store_set_owner(worker->store, owner);
    if (!any && now_ns - began_ns < NOTHING_NS)
        return false;
    aside->ran_ns += now_ns - began_ns;
    worker->timing.aside_ns += now_ns - began_ns;
    if (!any)
        return false;
    gt__slot_queue_relax(&aside->items);
    tell_fullness(worker, aside);
    return true;
}

/* As far as they can run. True: at least one did. */
static bool run_all(gt_worker *worker, uint64_t turn_ns)
{
    gt_deferred *d = &worker->deferred;
    uint64_t began_ns = gt__now_ns();
    bool any = false;
    gt__exchange_wait(worker->exchange, &d->seen, 0);
    d->more = false;
    for (gt_aside *aside = d->asides; aside; aside = aside->next)
        any |= aside->count && run_aside(worker, aside, turn_ns);
    uint64_t now_ns = gt__now_ns();
    d->turn_ns = now_ns + (now_ns - began_ns);
    d->waits_since_ns = any ? 0 : d->waits_since_ns;
    return any;
}

/* Between two records of the stream. */
static void run_some(gt_worker *worker)
{
    gt_deferred *d = &worker->deferred;
    uint64_t seen = d->seen;
    bool news = gt__exchange_wait(worker->exchange, &seen, 0);
    if ((news || d->more) && gt__now_ns() >= d->turn_ns)
        run_all(worker, TURN_NS);
}

/* The dispatcher is gone: other workers need not answer any more. */
static bool is_cut_off(const gt_worker *worker)
{
    return worker->link && worker->link->gone;
}

/* Execute what can run, or wait a moment for another worker. */
static void run_or_wait(gt_worker *worker)
{
    gt__late_pay(worker); /* another worker may wait for our messages */
    if (!run_all(worker, UINT64_MAX))
        gt__exchange_wait(worker->exchange, &worker->deferred.seen, WAIT_MS);
}

/* Execute all of them: wait as long as it takes. */
static void run_out(gt_worker *worker)
{
    while (worker->deferred.count && !is_cut_off(worker))
        run_or_wait(worker);
}

static void state_waits(gt_worker *worker)
{
    const gt_deferred *d = &worker->deferred;
    for (const gt_aside *aside = d->asides; aside; aside = aside->next)
        if (aside->count)
            gt__timing_peer_wait(worker, gt__aside_first(aside).record->ins.op, d->waits_since_ns);
}

/* Execute all of them, as far as that does not take long. */
static void keep_turns(gt_worker *worker)
{
    gt_deferred *d = &worker->deferred;
    uint64_t deadline = gt__deadline_ns(WATCHED_MS);
    while (d->count && !d->overtaken && !is_cut_off(worker)) {
        run_or_wait(worker);
        if (d->count && !d->waits_since_ns)
            d->waits_since_ns = gt__now_ns();
        state_waits(worker);
        d->overtaken = !gt__remaining_ms(deadline);
    }
    d->overtaken &= d->count != 0;
}

/* ---- putting aside ------------------------------------------------------------------------------------------ */

/* A free: the tensors that records put aside use are freed behind these. True: it is done. */
static bool take_free(gt_worker *worker, const gt_slot *record)
{
    gt_deferred *d = &worker->deferred;
    gt_slot rest = *record;
    uint64_t *slots = gt__free_ids(&rest.ins);
    bool any = false;
    for (unsigned k = 0; k < GT_FREE_IDS; k++) {
        const gt_slot_use *use = slots[k] ? gt__aside_use(d, slots[k]) : NULL;
        gt_slot one = {.ins = {.op = GT_OP_free, .result = slots[k]}};
        if (!use)
            continue;
        if (!gt__aside_put(worker, use->aside, &one, NULL, true)) {
            run_out(worker);
            break; /* now they can be freed with the rest */
        }
        slots[k] = 0;
        any = true;
    }
    if (any)
        gt__worker_run_record(worker, &rest);
    return any;
}

/* Where a record must wait; NULL: nowhere, as far as other records are concerned. */
static gt_aside *place_behind(gt_worker *worker, const gt_slot *record)
{
    gt_deferred *d = &worker->deferred;
    unsigned op = record->ins.op;
    relation r = {.d = d, .own = gt__aside_find(d, worker->store->owner), .appends = op == GT_OP_data};
    if (!d->count)
        return NULL;
    const gt_path_plans *plans = op == GT_OP_repeat ? gt__worker_path_plans(worker, record) : NULL;
    gt__aside_visit(record, plans, relate, &r);
    for (const gt_aside *last = NULL; r.reused && r.reused != last;) {
        last = r.reused;
        if (!gt__aside_hide(worker, r.reused))
            run_out(worker);
        r.own = gt__aside_find(d, worker->store->owner);
        r.after = r.reused = NULL;
        gt__aside_visit(record, plans, relate, &r);
    }
    if (r.after || r.reused) /* a slot that they still use, and do not free: no dispatcher gives it to another */
        return r.after ? r.after : r.reused;
    return is_barrier(&record->ins) ? r.own : NULL;
}

static bool put_aside(gt_worker *worker, gt_aside *aside, const gt_slot *record, gt_under_way *passage)
{
    if (!aside || !gt__aside_put(worker, aside, record, passage, false))
        return false;
    tell_fullness(worker, aside);
    return true;
}

static bool advance(gt_worker *worker, gt_under_way *passage)
{
    worker->cancel.held++; /* other workers wait for their parts */
    bool over = gt__peers_advance(worker, passage);
    worker->cancel.held--;
    return over;
}

/* A collective that conflicts with nothing. True: it is over, or put aside. */
static bool start_collective(gt_worker *worker, const gt_slot *record)
{
    gt_deferred *d = &worker->deferred;
    worker->cancel.held++;
    gt_under_way *passage = gt__peers_start(worker, &record->ins, record + 1, d->number);
    worker->cancel.held--;
    if (!passage)
        return false;
    bool over = advance(worker, passage);
    while (!over && !is_cut_off(worker)) {
        if (put_aside(worker, gt__aside_of(d, worker->store->owner), record, passage))
            return true;
        run_or_wait(worker); /* there is no room: the others may wait for what is put aside */
        over = advance(worker, passage);
    }
    if (over)
        finish_collective(worker, passage, &record->ins);
    else
        gt__peers_abandon(worker, passage);
    return true;
}

/* True: the record is executed, or put aside. */
static bool take(gt_worker *worker, const gt_slot *record)
{
    gt_deferred *d = &worker->deferred;
    unsigned op = record->ins.op;
    d->number = worker->timing.records + 1 + d->ahead;
    if (is_collective(op) && gt__peers_keep_order(worker, &record->ins, record + 1, d->number)) {
        run_out(worker);
        return false;
    }
    if (d->count)
        run_some(worker);
    if (!d->count)
        d->waits_since_ns = 0;
    d->more |= op == GT_OP_peer; /* they may wait for its predecessor */
    if (!is_movable(&record->ins))
        return false;
    if (op == GT_OP_free)
        return d->count && take_free(worker, record);
    do {
        gt_aside *behind = place_behind(worker, record);
        if (!behind && is_collective(op))
            return start_collective(worker, record);
        if (!behind && (op != GT_OP_recv || has_arrived(worker, record, d->number)))
            return false;
        if (put_aside(worker, behind ? behind : gt__aside_of(d, worker->store->owner), record, NULL))
            return true;
        run_or_wait(worker); /* there is no room */
    } while (!is_cut_off(worker));
    return false;
}

bool gt__deferred_takes(gt_worker *worker, const gt_slot *record)
{
    if (!worker->timing.watched)
        return take(worker, record);
    keep_turns(worker);
    gt__timing_begin(&worker->timing); /* a wait for other workers counts for the record */
    bool taken = take(worker, record);
    keep_turns(worker);
    return taken;
}

/* ------------------------------------------------------------------------------------------------------------- */

void gt__deferred_idle(gt_worker *worker)
{
    gt_deferred *d = &worker->deferred;
    gt__late_pay(worker); /* another worker may wait for our messages */
    if (run_all(worker, TURN_NS))
        return;
    uint64_t began_ns = gt__timing_wait_begin(worker), seen = d->seen; /* run_some shall see what comes, too */
    d->waits_since_ns = d->waits_since_ns ? d->waits_since_ns : began_ns;
    state_waits(worker);
    if (began_ns - d->waits_since_ns < PATIENT_NS)
        gt__exchange_wait(worker->exchange, &seen, WAIT_MS);
    else
        gt__link_wait(worker->link, GT_WAIT_READ, gt__stand_ins_check(worker, WAIT_MS));
    gt__timing_wait_end(worker, began_ns);
}

void gt__deferred_tell(gt_worker *worker)
{
    for (gt_aside **where = &worker->deferred.asides; *where;) {
        gt_aside *aside = *where;
        gt_slot *out = aside->ran_ns ? gt__worker_reserve_answer(worker, 1) : NULL;
        if (out) {
            out->ins = (gt_instruction){.op = GT_OP_share, .operand = {aside->ran_ns}};
            out->ins.imm[0].u = aside->owner;
            out->ins.imm[1].u = GT_SHARE_RAN;
            gt__link_commit(worker->link, 1);
            aside->ran_ns = 0;
        }
        tell_fullness(worker, aside); /* if it could not be told when it changed */
        if (aside->count || aside->ran_ns || aside->full) {
            where = &aside->next;
            continue;
        }
        *where = aside->next;
        gt__aside_free(worker, aside);
    }
}

uint64_t gt__deferred_oldest(const gt_deferred *deferred)
{
    uint64_t oldest = UINT64_MAX;
    for (const gt_aside *aside = deferred->asides; aside; aside = aside->next) {
        uint64_t first = aside->count ? gt__aside_first(aside).number : oldest;
        oldest = first < oldest ? first : oldest;
    }
    return oldest;
}

void gt__deferred_leave(gt_worker *worker, uint64_t owner)
{
    gt_aside *aside = gt__aside_find(&worker->deferred, owner);
    if (aside)
        aside->unwanted = true;
}

void gt__deferred_free(gt_worker *worker)
{
    gt_deferred *d = &worker->deferred;
    while (d->asides) {
        gt_aside *next = d->asides->next;
        gt__aside_free(worker, d->asides);
        d->asides = next;
    }
    free(d->uses.of);
    free(d->hidden_uses.of);
    *d = (gt_deferred){0};
}
