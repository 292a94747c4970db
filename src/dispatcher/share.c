/* share.c: see share.h. Place in the flow: place.c charges here; loop.c asks here whose turn it is. */
#include "dispatcher/share.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/session.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

enum {
    /* Of one session alone: long enough for the dispatcher to wake up and refill it, with the other processes of the
     * machine at work. A link full of small records is less, so that it limits their stream as before. */
    WINDOW_NS = 4000000,
    /* The time that a session waits behind the records of the others: while there are others, shorter. */
    SHARED_WINDOW_NS = 500000,
    /* Of a session alone that is spread over workers: in a pipeline the records that keep the next worker busy come behind all
     * of those for this one. */
    DEEP_WINDOW_NS = 1000000000,
    /* Of an asynchronous engine, whose worker looks every millisecond what is complete. */
    LATE_WINDOW_NS = 20000000,
    LATE_SHARED_WINDOW_NS = 5000000,
    /* In a window. Each answer may wake the dispatcher, which a session alone does not need often. */
    MARKS = 2,
    SHARED_MARKS = 4,
    ALONE_MARKS = 64, /* with work of one session only, until the worker is not shared any more */
    TURN_NS = 1000,   /* a session's turn of less, as a question is, is measured with the next one */
    FIRST_CHARGES = 64,
    SPECIAL_SLOWNESS = 8, /* of elementwise rows: special functions */
    MERGE_WITHIN = 4,     /* charges to look through for one of the same session and work */
};

/* Nanoseconds before anything was measured, for one CPU core. */
#define RECORD_NS 100.0
#define FLOP_NS 0.03
#define ELEMENT_NS 0.3 /* of a pass of additions; gt_op_row.slowness has the others */
#define BYTE_NS 0.1

/* What one record may be charged before it is measured: one that asks for more memory than there is fails at once, and its
 * session must not wait for long because of it. */
#define MOST_CHARGE_NS 1e10

/* What a measurement may change, and how far. */
#define LEARNING 0.25
#define MOST_RATIO 8.0
/* Of records of one session alone, as far as its account is concerned: what was estimated wrongly is not paid by the others. Not more,
 * because the worker may have been interrupted by other processes while it executed a few small ones. */
#define MOST_OWN_RATIO 1024.0
/* Of an asynchronous engine, at first: a card is thousands of times as fast as the estimate, and would get one record at a time until that is
 * known. */
#define FIRST_MEASUREMENTS 6
#define MOST_FIRST_RATIO 256.0
/* Such an engine's worker looks every millisecond what is complete: marks that it answers together are measured together. */
#define LOOK_NS 1000000
#define MOST_FACTOR 65536.0 /* a GPU's halves are 15,000 times as fast as the estimate for a core */
/* Of small records. On a busy machine they seem to take longer than they do; a link full of them must fit into a window. */
#define MOST_SMALL_FACTOR 4.0

/* ---- the window --------------------------------------------------------------------------------------------- */

static uint64_t window_ns(const gt_share *share)
{
    if (share->deep && !share->shared)
        return DEEP_WINDOW_NS;
    if (share->late)
        return share->shared ? LATE_SHARED_WINDOW_NS : LATE_WINDOW_NS;
    return share->shared ? SHARED_WINDOW_NS : WINDOW_NS;
}

static bool is_full(const gt_share *share)
{
    return share->placed_ns - share->done_ns >= window_ns(share);
}

/* After any change. */
static void decide(gt_dispatch_worker *worker)
{
    const gt_share *share = &worker->share;
    worker->closed = is_full(share) || (share->first && !share->serving) ||
                     (share->reserved && share->reserved != share->serving);
}

static gt_charge *charge_at(const gt_share *share, uint32_t k)
{
    return &share->charges[(share->charge_first + k) & (share->charge_capacity - 1)];
}

static bool grow(gt_share *share)
{
    uint32_t capacity = share->charge_capacity ? 2 * share->charge_capacity : FIRST_CHARGES;
    gt_charge *charges = malloc(capacity * sizeof *charges);
    if (!charges)
        return false;
    for (uint32_t k = 0; k < share->charge_count; k++)
        charges[k] = *charge_at(share, k);
    free(share->charges);
    share->charges = charges;
    share->charge_capacity = capacity;
    share->charge_first = 0;
    return true;
}

/* Without memory the time is not corrected when it is measured. */
static void note(gt_share *share, gt_session *session, unsigned work, float part, uint64_t ns, uint64_t records)
{
    for (uint32_t k = 0; k < share->charge_unmarked && k < MERGE_WITHIN; k++) {
        gt_charge *charge = charge_at(share, share->charge_count - 1 - k);
        if (charge->session == session && charge->work == work && charge->part == part &&
            charge->inverse == session->account.inverse) {
            charge->ns += ns;
            charge->records += records;
            session->account.queued += records;
            return;
        }
    }
    if (share->charge_count == share->charge_capacity && !grow(share))
        return;
    *charge_at(share, share->charge_count++) = (gt_charge){.session = session,
                                                           .work = work,
                                                           .part = part,
                                                           .inverse = session->account.inverse,
                                                           .ns = ns,
                                                           .records = records};
    share->charge_unmarked++;
    session->account.queued += records;
}

/* Was enough placed for a mark? */
static bool is_due(const gt_share *share)
{
    uint64_t window =
        share->deep && !share->shared ? (uint64_t)WINDOW_NS : window_ns(share); /* measured as often */
    return share->asked || share->unmarked_ns >= window / (share->shared || share->late ? SHARED_MARKS : MARKS);
}

static void mark(gt_dispatch_worker *worker)
{
    gt_share *share = &worker->share;
    gt_slot *out = gt__worker_room(worker, 1); /* not the outbox: answers come in the order of the questions */
    gt_pending pending = {.op = GT_OP_mark,
                          .placed_ns = share->placed_ns,
                          .charges = share->charge_unmarked,
                          .record = worker->records + 1};
    if (!out)
        gt__peer_wake(worker->peer); /* so that its link is armed for room before the loop sleeps */
    if (!out || gt__pendings_add(&worker->pendings, &pending) != GT_OK)
        return;
    out->ins = (gt_instruction){.op = GT_OP_mark};
    gt__worker_commit(worker, 1);
    share->unmarked_ns = 0;
    share->charge_unmarked = 0;
    share->asked = false;
}

void gt__share_retry(gt_dispatch_worker *worker)
{
    if (is_due(&worker->share)) {
        mark(worker);
        decide(worker);
    }
}

void gt__share_turn(gt_dispatch_worker *worker)
{
    if (worker->share.unmarked_ns >= TURN_NS && !worker->share.late)
        mark(worker);
}

/* ---- the waiting list --------------------------------------------------------------------------------------- */

static void enlist(gt_dispatch_worker *worker, gt_session *session)
{
    gt_share *share = &worker->share;
    gt_account *account = &session->account;
    gt_session *before = share->last;
    while (before && before->account.used_ns > account->used_ns)
        before = before->account.previous;
    account->waits_at = worker;
    account->previous = before;
    account->next = before ? before->account.next : share->first;
    *(before ? &before->account.next : &share->first) = session;
    *(account->next ? &account->next->account.previous : &share->last) = session;
}

static void delist(gt_dispatch_worker *worker, gt_session *session)
{
    gt_share *share = &worker->share;
    gt_account *account = &session->account;
    *(account->previous ? &account->previous->account.next : &share->first) = account->next;
    *(account->next ? &account->next->account.previous : &share->last) = account->previous;
    account->waits_at = NULL;
}

/* The session's account has changed: its place in the list may, too. */
static void reorder(gt_session *session)
{
    const gt_account *account = &session->account;
    gt_dispatch_worker *worker = account->waits_at;
    if (!worker || ((!account->previous || account->previous->account.used_ns <= account->used_ns) &&
                    (!account->next || account->next->account.used_ns >= account->used_ns)))
        return;
    delist(worker, session);
    enlist(worker, session);
}

/* ---- costs -------------------------------------------------------------------------------------------------- */

static int64_t last_size(const gt_meta *meta, unsigned from_end)
{
    return meta && meta->rank >= from_end ? meta->shape[meta->rank - from_end] : 1;
}

static double product_flops(const gt_instruction *ins, const gt_meta *const *metas, unsigned count,
                            const gt_meta *out)
{
    const gt_meta *a = count > 0 ? metas[0] : NULL, *b = count > 1 ? metas[1] : NULL;
    if (!a || !b)
        return 0;
    switch (gt__op_table[ins->op].form) {
    case GT_FORM_MATMUL:
    case GT_FORM_LINEAR:
        return 2.0 * (double)out->numel * (double)last_size(a, 1);
    case GT_FORM_ATTENTION:
        return 4.0 * (double)a->numel * (double)last_size(b, 2);
    case GT_FORM_CONV: { /* conv makes y of x, conv_input x of y; both have weight (y's channels, ...) */
        double pixels = (double)(ins->op == GT_OP_conv ? out->numel : a->numel);
        return b->rank && b->shape[0] ? 2.0 * pixels * (double)b->numel / (double)b->shape[0] : 0;
    }
    case GT_FORM_CONV_WEIGHT:
        return out->rank && out->shape[0] ? 2.0 * (double)a->numel * (double)out->numel / (double)out->shape[0]
                                          : 0;
    case GT_FORM_SPARSE: /* a is (2,n); each of the n meets a row of the last operand */
        return 2.0 * (double)last_size(a, 1) * (double)last_size(metas[2], 1);
    default:
        return 0;
    }
}

static double pass_ns(double elements, unsigned slowness)
{
    return elements * ELEMENT_NS * (double)(1u << slowness);
}

double gt__share_estimate(const gt_instruction *ins, const gt_meta *const *metas, unsigned count,
                          const gt_meta *out)
{
    unsigned form = gt__op_table[ins->op].form;
    if (form >= GT_FORM_RESHAPE && form <= GT_FORM_UNFOLD)
        return 0; /* views */
    double flops = product_flops(ins, metas, count, out), elements = (double)out->numel;
    if (flops > 0)
        return flops * FLOP_NS;
    for (unsigned k = 0; k < count; k++)
        if (metas[k] && (double)metas[k]->numel > elements)
            elements = (double)metas[k]->numel;
    if (form == GT_FORM_MATRIX || form == GT_FORM_SOLVE)
        return elements * (double)last_size(metas[0], 1) * 4 * FLOP_NS;
    unsigned slowness = gt__op_table[ins->op].slowness;
    return elements < (double)(GT_SHARE_SMALL >> slowness) ? 0 : pass_ns(elements, slowness);
}

unsigned gt__share_work(unsigned op)
{
    const gt_op_row *row = &gt__op_table[op];
    return row->form <= GT_FORM_TERNARY && row->slowness >= SPECIAL_SLOWNESS ? GT_WORK_SPECIAL : row->form;
}

/* Time that a session uses. */
static inline void use(gt_account *account, double ns)
{
    account->used_ns += ns * account->inverse;
    account->total_ns += ns;
}

static void charge_records(gt_session *session, gt_dispatch_worker *worker, unsigned work, double ns,
                           unsigned workers, uint64_t records)
{
    gt_share *share = &worker->share;
    double cost = gt__share_cost(worker, work, ns);
    uint64_t whole = cost < MOST_CHARGE_NS ? (uint64_t)cost : (uint64_t)MOST_CHARGE_NS;
    share->placed_ns += whole;
    share->unmarked_ns += whole;
    share->deep = session->spreading != NULL;
    use(&session->account, (double)whole / workers);
    note(share, session, work, 1 / (float)workers, whole, records);
    if (is_due(share))
        mark(worker);
    decide(worker);
}

void gt__share_charge(gt_session *session, gt_dispatch_worker *worker, unsigned work, double ns, unsigned workers)
{
    charge_records(session, worker, work, ns, workers, 0);
}

double gt__share_cost(const gt_dispatch_worker *worker, unsigned work, double ns)
{
    return ns * worker->share.factor[work];
}

void gt__share_placed(gt_session *session, gt_dispatch_worker *worker, const gt_instruction *ins,
                      const gt_meta *const *metas, unsigned count, const gt_meta *out)
{
    double ns = gt__share_estimate(ins, metas, count, out);
    if (ns > 0)
        gt__share_charge(session, worker, gt__share_work(ins->op), ns, 1);
}

void gt__share_pass(gt_session *session, gt_dispatch_worker *worker, unsigned op, int64_t elements)
{
    double ns = pass_ns((double)elements, gt__op_table[op].slowness);
    gt__share_charge(session, worker, gt__share_work(op), ns, 1);
}

void gt__share_records(gt_session *session, gt_dispatch_worker *worker, size_t records)
{
    gt_share *share = &worker->share;
    gt_charge *charge = share->charge_unmarked ? charge_at(share, share->charge_count - 1) : NULL;
    if (!charge || charge->session != session || charge->work != GT_WORK_SMALL ||
        charge->inverse != session->account.inverse || is_due(share)) {
        charge_records(session, worker, GT_WORK_SMALL, (double)records * RECORD_NS, 1, records);
        return;
    }
    double ns = (double)records * RECORD_NS * share->factor[GT_WORK_SMALL];
    charge->ns += (uint64_t)ns;
    charge->records += records;
    session->account.queued += records;
    share->placed_ns += (uint64_t)ns;
    share->unmarked_ns += (uint64_t)ns;
    use(&session->account, ns);
}

void gt__share_replayed(gt_session *session, gt_dispatch_worker *worker, uint64_t records, unsigned workers)
{
    gt__share_charge(session, worker, GT_WORK_REPLAY, (double)records * RECORD_NS, workers);
}

void gt__share_bytes(gt_session *session, gt_dispatch_worker *worker, uint64_t bytes)
{
    gt__share_charge(session, worker, GT_WORK_BYTES, (double)bytes * BYTE_NS, 1);
}

/* ---- measurements ------------------------------------------------------------------------------------------- */

/* Is the worker used by one session, or several? Returns whether all of these charges are of one. */
static bool count_sessions(gt_share *share, uint32_t charges)
{
    const gt_session *before = share->marked, *one = charges ? charge_at(share, 0)->session : before;
    bool several = false;
    for (uint32_t k = 1; k < charges; k++)
        several |= charge_at(share, k)->session != one;
    share->marked = one;
    share->alone = several || (before && one != before) ? 0 : share->alone + 1;
    share->shared = !share->alone || (share->shared && share->alone < ALONE_MARKS);
    return !several;
}

/* A measurement of records whose estimate was partly, by so much, for this work. ratio: of the measured time to the estimate. */
static void learn(gt_share *share, unsigned work, double part, double ratio)
{
    double near_ratio = fmin(fmax(ratio, 1 / MOST_RATIO), MOST_RATIO);
    double factor = share->factor[work] * (1 + LEARNING * (near_ratio - 1) * part);
    if (share->late && ratio < 1 / MOST_RATIO && share->measurements[work] < FIRST_MEASUREMENTS)
        factor = share->factor[work] * pow(fmax(ratio, 1 / MOST_FIRST_RATIO), part);
    double most = work == GT_WORK_SMALL ? MOST_SMALL_FACTOR : MOST_FACTOR;
    share->factor[work] = (float)fmin(fmax(factor, 1 / MOST_FACTOR), most);
    share->measurements[work] += share->measurements[work] < FIRST_MEASUREMENTS;
}

/* Learn from records, by kind of work, and how long they took together. */
static void measure(gt_share *share, const double *by_work, double measured)
{
    double estimate = 0;
    share->measured_ns += measured;
    for (unsigned work = 0; work < GT_WORKS; work++)
        estimate += share->estimated_ns[work] += by_work[work];
    if (share->late && share->measured_ns < LOOK_NS)
        return;
    for (unsigned work = 0; work < GT_WORKS; work++)
        if (share->estimated_ns[work] > 0 && work != GT_WORK_SLICE)
            learn(share, work, share->estimated_ns[work] / estimate, share->measured_ns / estimate);
    share->measured_ns = 0;
    memset(share->estimated_ns, 0, sizeof share->estimated_ns);
}

void gt__share_marked(gt_dispatch_worker *worker, uint32_t charges, uint64_t placed_ns, uint64_t busy_ns)
{
    gt_share *share = &worker->share;
    double estimate = 0, measured = busy_ns > share->busy_ns ? (double)(busy_ns - share->busy_ns) : 0;
    double by_work[GT_WORKS] = {0};
    share->busy_ns = busy_ns;
    share->done_ns = placed_ns;
    charges = charges < share->charge_count ? charges : share->charge_count;
    for (uint32_t k = 0; k < charges; k++) {
        const gt_charge *charge = charge_at(share, k);
        estimate += (double)charge->ns;
        by_work[charge->work] += (double)charge->ns;
    }
    double most = count_sessions(share, charges) && !share->late ? MOST_OWN_RATIO : MOST_RATIO;
    double ratio = estimate > 0 ? measured / estimate : 1;
    for (uint32_t k = 0; k < charges; k++) {
        const gt_charge *charge = charge_at(share, k);
        if (!charge->session)
            continue;
        /* From what was estimated to what was measured; a machine that was busy otherwise costs the session little. */
        gt_account *account = &charge->session->account;
        double estimated = (double)charge->ns * charge->part;
        account->used_ns += estimated * (fmin(ratio, most) - 1) * charge->inverse;
        account->total_ns += estimated * (ratio - 1);
        account->queued -= charge->records;
        reorder(charge->session);
    }
    measure(share, by_work, measured);
    share->charge_first =
        share->charge_capacity ? (share->charge_first + charges) & (share->charge_capacity - 1) : 0;
    share->charge_count -= charges;
    decide(worker);
}

void gt__share_look_begin(gt_account *account)
{
    account->ahead_ns = 0;
}

/* Work since the last mark is taken to have gone to the charges in their order, and what is beyond their estimates to the record
 * at hand. */
void gt__share_look(gt_dispatch_worker *worker, const gt_session *at, uint64_t busy_ns)
{
    const gt_share *share = &worker->share;
    double worked = busy_ns > share->busy_ns ? (double)(busy_ns - share->busy_ns) : 0;
    const gt_charge *longer = NULL;
    for (uint32_t k = 0; k < share->charge_count; k++) {
        const gt_charge *charge = charge_at(share, k);
        double done = fmin((double)charge->ns, worked);
        worked -= done;
        if (!charge->session)
            continue;
        charge->session->account.ahead_ns += ((double)charge->ns - done) * charge->part;
        if (!longer || (charge->session == at && longer->session != at))
            longer = charge;
    }
    if (longer)
        longer->session->account.ahead_ns -= worked * longer->part;
}

void gt__share_look_end(gt_account *account)
{
    account->shown_ns = fmax(account->shown_ns, account->total_ns - account->ahead_ns);
}

bool gt__share_has_queued(const gt_session *session)
{
    gt_dispatch_worker *home = session->home;
    if (!home || __builtin_expect(session->account.queued < session->account.most_queued, 1))
        return false;
    home->share.asked |= home->share.charge_unmarked != 0; /* gt__share_retry writes the mark, after this turn */
    return true;
}

/* ---- turns -------------------------------------------------------------------------------------------------- */

bool gt__share_open(const gt_session *session)
{
    const gt_dispatch_worker *home = session->home;
    const gt_spreading *spreading = session->spreading;
    if (home && home->closed && home->share.reserved != session)
        return false;
    for (int32_t index = 0; spreading && index < spreading->reached_capacity; index++) {
        const gt_share *share = &session->dispatcher->workers[index]->share;
        if (spreading->reached[index] && (is_full(share) || (share->reserved && share->reserved != session)))
            return false;
    }
    return !home || !is_full(&home->share);
}

void gt__share_wait(gt_session *session)
{
    gt_account *account = &session->account;
    gt_dispatch_worker *worker = session->home;
    if (!worker || account->waits_at)
        return;
    gt_share *share = &worker->share;
    if (account->used_ns < share->clock_ns)
        account->used_ns = share->clock_ns;
    enlist(worker, session);
    decide(worker);
}

void gt__share_stop_waiting(gt_session *session)
{
    gt_account *account = &session->account;
    gt_dispatch_worker *worker = account->waits_at;
    if (!worker)
        return;
    delist(worker, session);
    decide(worker);
}

/* Keep the workers of the session for it, or give them back. */
static void reserve(gt_session *session, bool wanted)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    const gt_spreading *spreading = session->spreading;
    if (wanted ? dispatcher->reserving != NULL : dispatcher->reserving != session)
        return;
    dispatcher->reserving = wanted ? session : NULL;
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        if (!wanted && worker->share.reserved == session)
            worker->share.reserved = NULL;
        if (wanted &&
            (worker == session->home || (index < spreading->reached_capacity && spreading->reached[index])))
            worker->share.reserved = session;
        decide(worker);
    }
}

gt_session *gt__share_next(gt_dispatch_worker *worker)
{
    gt_share *share = &worker->share;
    /* The session that keeps the worker goes first, also if others that used less time came after it: they are not served
     * before it was. */
    bool kept = share->reserved && share->reserved->account.waits_at == worker;
    gt_session *session = kept ? share->reserved : share->first;
    if (!session || session->account.turn == session->dispatcher->turns + 1)
        return NULL;
    share->serving = session;
    decide(worker);
    if (!gt__output_has_room(session)) {
        if (session->spreading)
            reserve(session, true);
        gt__share_served(worker);
        return NULL;
    }
    gt__share_stop_waiting(session);
    reserve(session, false);
    session->account.turn = session->dispatcher->turns + 1; /* 0: never */
    if (share->clock_ns < session->account.used_ns)
        share->clock_ns = session->account.used_ns;
    return session;
}

void gt__share_served(gt_dispatch_worker *worker)
{
    worker->share.serving = NULL;
    decide(worker);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

void gt__share_reset(gt_dispatch_worker *worker)
{
    gt__share_free(worker);
    for (unsigned work = 0; work < GT_WORKS; work++)
        worker->share.factor[work] = 1;
}

void gt__share_free(gt_dispatch_worker *worker)
{
    free(worker->share.charges);
    worker->share = (gt_share){0};
    worker->closed = false;
}

void gt__share_leave(gt_dispatch_worker *worker)
{
    gt_session *session;
    for (uint32_t k = 0; k < worker->share.charge_count; k++) {
        gt_charge *charge = charge_at(&worker->share, k);
        if (charge->session)
            charge->session->account.queued -= charge->records;
    }
    /* What was placed there is not waited for: sessions that have parts of tensors on it go on, and fail where they need it. */
    worker->share.charge_count = worker->share.charge_unmarked = 0;
    worker->share.done_ns = worker->share.placed_ns;
    decide(worker);
    while ((session = worker->share.first)) {
        gt__share_stop_waiting(session);
        session->peer->blocked = false;
        gt__peer_wake(session->peer);
    }
    if (worker->peer->dispatcher->reserving)
        reserve(worker->peer->dispatcher->reserving, false);
}

gt_err gt__share_weigh(gt_session *session, double weight)
{
    if (!(weight > 0))
        return gt__fail(GT_ERR_PROTOCOL, "a weight of %g", weight);
    weight = fmax(fmin(weight, session->dispatcher->max_weight), 1.0 / GT_MOST_WEIGHT);
    session->account.weight = weight;
    session->account.inverse = 1 / weight;
    return GT_OK;
}

void gt__share_move(gt_session *session)
{
    session->account.used_ns = session->home->share.clock_ns;
}

void gt__share_forget(gt_session *session)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    gt__share_stop_waiting(session);
    reserve(session, false);
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_share *share = &dispatcher->workers[index]->share;
        if (share->marked == session)
            share->marked = NULL;
        for (uint32_t k = 0; k < share->charge_count; k++) {
            gt_charge *charge = charge_at(share, k);
            if (charge->session != session)
                continue;
            session->account.queued -= charge->records;
            charge->session = NULL;
        }
    }
}
