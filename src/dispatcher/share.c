/* share.c: see share.h. Windows, costs and measurements; turns.c has whose turn it is. Place in the flow: place.c charges here. */
#include "dispatcher/share.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/session.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

enum {
    /* Of one session alone: long enough for the dispatcher to wake up and refill it, with the other processes of the
     * machine at work. A link full of small records is less, so that it limits their stream as before. */
    WINDOW_NS = 4000000,
    /* The time that a session waits behind the records of the others: while there are others, shorter. */
    SHARED_WINDOW_NS = 500000,
    /* Of an asynchronous engine, whose worker looks every millisecond what is complete. */
    LATE_WINDOW_NS = 20000000,
    LATE_SHARED_WINDOW_NS = 5000000,
    MOST_DEPTH_NS = 1000000000, /* of a spread session alone */
    SILENT_NS = 100000000,      /* without the answer to a mark: it will not be open soon */
    FAR = 4,                    /* windows of a shared worker: it will not be open soon */
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
    if (share->late)
        return share->shared ? LATE_SHARED_WINDOW_NS : LATE_WINDOW_NS;
    return share->shared ? SHARED_WINDOW_NS : WINDOW_NS;
}

bool gt__share_is_full(const gt_share *share)
{
    uint64_t window = window_ns(share);
    return share->placed_ns - share->done_ns >= (window > share->depth_ns ? window : share->depth_ns);
}

/* As far as it is marked. */
static bool is_idle(const gt_share *share)
{
    return share->placed_ns == share->done_ns + share->unmarked_ns;
}

bool gt__share_is_silent(const gt_share *share, uint64_t for_ns)
{
    return !is_idle(share) && gt__now_ns() - share->silent_since_ns > for_ns;
}

bool gt__share_is_far(const gt_share *share)
{
    uint64_t window = share->late ? LATE_SHARED_WINDOW_NS : SHARED_WINDOW_NS;
    return share->placed_ns - share->done_ns >= FAR * window || gt__share_is_silent(share, SILENT_NS);
}

void gt__share_deepen(gt_dispatch_worker *worker)
{
    gt_share *share = &worker->share;
    uint64_t window = window_ns(share), depth = 2 * (share->depth_ns > window ? share->depth_ns : window);
    share->depth_ns = depth < MOST_DEPTH_NS ? depth : MOST_DEPTH_NS;
    gt__share_decide(worker);
}

void gt__share_decide(gt_dispatch_worker *worker)
{
    const gt_share *share = &worker->share;
    worker->closed =
        gt__share_is_full(share) || (share->waiting.first && !share->serving) || share->kept_for != NULL;
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
static void note(gt_share *share, const gt_charge *new)
{
    gt_account *account = &new->session->account;
    account->queued += new->records;
    for (uint32_t k = 0; k < share->charge_unmarked && k < MERGE_WITHIN; k++) {
        gt_charge *charge = charge_at(share, share->charge_count - 1 - k);
        if (charge->session == new->session && charge->work == new->work && charge->part == new->part &&
            charge->inverse == new->inverse && charge->line_inverse == new->line_inverse) {
            charge->ns += new->ns;
            charge->records += new->records;
            return;
        }
    }
    if (share->charge_count == share->charge_capacity && !grow(share)) {
        account->queued -= new->records;
        return;
    }
    *charge_at(share, share->charge_count++) = *new;
    share->charge_unmarked++;
}

/* Was enough placed for a mark? */
static bool is_due(const gt_share *share)
{
    return share->asked ||
           share->unmarked_ns >= window_ns(share) / (share->shared || share->late ? SHARED_MARKS : MARKS);
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
    gt_instruction question = {.op = GT_OP_mark};
    if (!out || gt__pendings_add(&worker->pendings, &pending, &question) != GT_OK)
        return;
    out->ins = question;
    gt__worker_commit(worker, 1);
    if (share->placed_ns == share->done_ns + share->unmarked_ns)
        share->silent_since_ns = gt__now_ns();
    share->unmarked_ns = 0;
    share->charge_unmarked = 0;
    share->asked = false;
}

void gt__share_retry(gt_dispatch_worker *worker)
{
    if (is_due(&worker->share)) {
        mark(worker);
        gt__share_decide(worker);
    }
}

void gt__share_turn(gt_dispatch_worker *worker)
{
    if (worker->share.unmarked_ns >= TURN_NS && !worker->share.late)
        mark(worker);
}

/* ---- costs -------------------------------------------------------------------------------------------------- */

static int64_t last_size(const gt_meta *meta, unsigned from_end)
{
    return meta && meta->rank >= from_end ? meta->shape[meta->rank - from_end] : 1;
}

double gt__share_flops(const gt_instruction *ins, const gt_meta *const *metas, unsigned count, const gt_meta *out)
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
    double flops = gt__share_flops(ins, metas, count, out), elements = (double)out->numel;
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

/* At a worker the spread sessions together have the weights of those that wait for it, and of the one that works. */
static double line_inverse(const gt_session *session, const gt_share *share)
{
    const gt_account *account = &session->account;
    if (!account->spread)
        return 0;
    bool waits = account->waits_in == &session->dispatcher->line.waiting;
    return 1 / (waits ? fmax(share->line_weight, account->weight) : share->line_weight + account->weight);
}

static void charge_records(gt_session *session, gt_dispatch_worker *worker, unsigned work, double ns,
                           unsigned workers, uint64_t records)
{
    gt_share *share = &worker->share;
    double cost = gt__share_cost(worker, work, ns);
    uint64_t whole = cost < MOST_CHARGE_NS ? (uint64_t)cost : (uint64_t)MOST_CHARGE_NS;
    if (session->account.spread && is_idle(share))
        gt__share_fed(session, share);
    share->placed_ns += whole;
    share->unmarked_ns += whole;
    gt_charge charge = {.session = session,
                        .work = work,
                        .part = 1 / (float)workers,
                        .inverse = session->account.inverse,
                        .line_inverse = line_inverse(session, share),
                        .ns = whole,
                        .records = records};
    use(&session->account, (double)whole / workers);
    share->line_ns += (double)whole * charge.line_inverse;
    note(share, &charge);
    if (is_due(share))
        mark(worker);
    gt__share_decide(worker);
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
        charge->inverse != session->account.inverse || session->account.spread || is_due(share)) {
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

void gt__share_replayed(gt_session *session, gt_dispatch_worker *worker, uint64_t records, uint64_t recorded_ns,
                        unsigned workers)
{
    double ns = (double)recorded_ns + (double)records * RECORD_NS;
    gt__share_charge(session, worker, GT_WORK_REPLAY, ns, workers);
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
    share->depth_ns = share->shared ? 0 : share->depth_ns;
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
static void measure(gt_share *share, const double *by_work, double measured, bool aside)
{
    double estimate = 0;
    share->measured_ns += measured;
    for (unsigned work = 0; work < GT_WORKS; work++)
        estimate += share->estimated_ns[work] += by_work[work];
    if (aside || (share->late && share->measured_ns < LOOK_NS))
        return; /* what was put aside is not measured yet */
    for (unsigned work = 0; work < GT_WORKS; work++)
        if (share->estimated_ns[work] > 0 && work != GT_WORK_SLICE)
            learn(share, work, share->estimated_ns[work] / estimate, share->measured_ns / estimate);
    share->measured_ns = 0;
    memset(share->estimated_ns, 0, sizeof share->estimated_ns);
}

void gt__share_marked(gt_dispatch_worker *worker, uint32_t charges, uint64_t placed_ns, uint64_t busy_ns,
                      bool aside)
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
        /* From what was estimated to what was measured; a machine that was busy otherwise costs the session little. */
        double estimated = (double)charge->ns * charge->part, change = fmin(ratio, most) - 1;
        share->line_ns += (double)charge->ns * change * charge->line_inverse;
        if (!charge->session) {
            gt_spread_line *line = &worker->peer->dispatcher->line;
            *(charge->line_inverse > 0 ? &line->left_ns : &share->left_ns) += estimated * change * charge->inverse;
            continue;
        }
        gt_account *account = &charge->session->account;
        account->used_ns += estimated * change * charge->inverse;
        account->total_ns += estimated * (ratio - 1);
        account->queued -= charge->records;
        gt__share_reorder(charge->session);
    }
    measure(share, by_work, measured, aside);
    share->charge_first =
        share->charge_capacity ? (share->charge_first + charges) & (share->charge_capacity - 1) : 0;
    share->charge_count -= charges;
    share->silent_since_ns = gt__now_ns();
    if (is_idle(share))
        share->idle_since_ns = share->silent_since_ns;
    gt__share_decide(worker);
}

static gt_session *session_of(const gt_dispatcher *dispatcher, uint64_t number)
{
    for (gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        if (peer->session && peer->session->number == number)
            return peer->session;
    return NULL;
}

/* Records that had been put aside took so long. Their estimates were taken back with the marks behind them. */
static void take_time(gt_dispatch_worker *worker, gt_session *session, double ns)
{
    gt_share *share = &worker->share;
    share->measured_ns += ns;
    if (!session)
        return;
    use(&session->account, ns / gt__share_workers(session));
    share->line_ns += ns * line_inverse(session, share);
    gt__share_reorder(session);
}

void gt__share_take_news(gt_dispatch_worker *worker, const gt_instruction *ins)
{
    gt_session *session = session_of(worker->peer->dispatcher, ins->imm[0].u);
    if (ins->imm[1].u == GT_SHARE_RAN)
        take_time(worker, session, (double)ins->operand[0]);
    else if (session && (ins->imm[1].u == GT_SHARE_FULL || ins->imm[1].u == GT_SHARE_ROOM))
        gt__share_set_full(session, worker, ins->imm[1].u == GT_SHARE_FULL);
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
    worker->share = (gt_share){.waiting.worker = worker};
    worker->closed = false;
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

void gt__share_drop(gt_dispatch_worker *worker, const gt_session *session)
{
    gt_share *share = &worker->share;
    for (uint32_t k = 0; k < share->charge_count; k++) {
        gt_charge *charge = charge_at(share, k);
        if (charge->session != session)
            continue;
        charge->session->account.queued -= charge->records;
        charge->session = NULL;
    }
    if (share->marked == session)
        share->marked = NULL;
}

void gt__share_drop_all(gt_dispatch_worker *worker)
{
    gt_share *share = &worker->share;
    for (uint32_t k = 0; k < share->charge_count; k++) {
        gt_charge *charge = charge_at(share, k);
        if (charge->session)
            charge->session->account.queued -= charge->records;
    }
    share->charge_count = share->charge_unmarked = 0;
    share->done_ns = share->placed_ns;
}
