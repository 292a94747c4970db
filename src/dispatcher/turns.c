/*
 * turns.c: whose turn it is: see share.h. Place in the flow: output.c has sessions wait here, loop.c asks here whom to serve.
 *
 * A session of one worker waits in the list of that worker, a spread one in the line. At a worker, the first in its list and the spread
 * sessions as one compare what they have used; the first in the line compares at each of its workers.
 */
#include <math.h>

#include "dispatcher/session.h"
#include "dispatcher/share.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/workers.h"

enum {
    LEAST_WAIT_NS = 200000,        /* a shorter wait in the line says nothing of idle workers */
    LEAST_PATIENCE_NS = 100000000, /* with a worker that does not answer, while others are kept */
    MOST_PASSED = 32,              /* sessions of the line that one behind them may overtake */
    MOST_CREDIT_NS = 100000000,    /* that they keep over one that overtook them */
    MOST_LENT_NS =
        4000000, /* that they keep at a worker whose own sessions were served in their turn: a few windows */
    MOST_DEBT_NS = 1000000000, /* that sessions which left leave to new ones */
};

/* ---- lists -------------------------------------------------------------------------------------------------- */

static void enlist(gt_waiting *waiting, gt_session *session)
{
    gt_account *account = &session->account;
    gt_session *before = waiting->last;
    while (before && before->account.used_ns > account->used_ns)
        before = before->account.previous;
    account->waits_in = waiting;
    account->previous = before;
    account->next = before ? before->account.next : waiting->first;
    *(before ? &before->account.next : &waiting->first) = session;
    *(account->next ? &account->next->account.previous : &waiting->last) = session;
}

static void delist(gt_session *session)
{
    gt_account *account = &session->account;
    gt_waiting *waiting = account->waits_in;
    *(account->previous ? &account->previous->account.next : &waiting->first) = account->next;
    *(account->next ? &account->next->account.previous : &waiting->last) = account->previous;
    account->waits_in = NULL;
}

void gt__share_reorder(gt_session *session)
{
    const gt_account *account = &session->account;
    gt_waiting *waiting = account->waits_in;
    if (!waiting || ((!account->previous || account->previous->account.used_ns <= account->used_ns) &&
                     (!account->next || account->next->account.used_ns >= account->used_ns)))
        return;
    delist(session);
    enlist(waiting, session);
}

/* Where sessions begin that have used nothing yet. */
static double beginning_ns(double clock_ns, double left_ns)
{
    return fmax(clock_ns, fmin(left_ns, clock_ns + MOST_DEBT_NS));
}

/* In this turn of the loop. */
static bool was_served(const gt_session *session)
{
    return session->account.turn == session->dispatcher->turns + 1;
}

/* ---- the line ----------------------------------------------------------------------------------------------- */

static gt_spread_line *line_of(const gt_session *session)
{
    return &session->dispatcher->line;
}

/* Many of its records wait for another worker, at some worker: it gets no more. */
static bool is_held_back(const gt_session *session)
{
    for (unsigned k = 0; k < GT_MAX_PARTIES / 64; k++)
        if (session->account.full_at[k])
            return true;
    return false;
}

void gt__share_set_full(gt_session *session, const gt_dispatch_worker *worker, bool full)
{
    uint64_t bit = (uint64_t)1 << worker->index % 64;
    if (worker->index >= GT_MAX_PARTIES)
        return; /* no tensor is spread over it */
    uint64_t *word = &session->account.full_at[worker->index / 64];
    *word = full ? *word | bit : *word & ~bit;
}

/* The workers of a spread session, one after another; NULL: no more. */
static gt_dispatch_worker *next_worker(const gt_session *session, int32_t *index)
{
    const gt_dispatcher *dispatcher = session->dispatcher;
    const gt_spreading *spreading = session->spreading;
    while (*index < dispatcher->worker_count) {
        int32_t at = (*index)++;
        if (dispatcher->workers[at] == session->home ||
            (at < spreading->reached_capacity && spreading->reached[at]))
            return dispatcher->workers[at];
    }
    return NULL;
}

unsigned gt__share_workers(const gt_session *session)
{
    unsigned count = 0;
    for (int32_t index = 0; session->account.spread && next_worker(session, &index);)
        count++;
    return count ? count : 1;
}

void gt__share_spread(gt_session *session)
{
    gt_account *account = &session->account;
    if (account->spread)
        return;
    account->spread = true;
    account->used_ns = beginning_ns(line_of(session)->clock_ns, line_of(session)->left_ns);
}

void gt__share_gather(gt_session *session)
{
    gt_account *account = &session->account;
    gt_dispatch_worker *worker;
    if (!account->spread)
        return;
    gt__share_stop_waiting(session);
    for (int32_t index = 0; (worker = next_worker(session, &index));) {
        worker->share.depth_ns = 0; /* the window was deepened for this session */
        gt__share_decide(worker);
    }
    account->spread = false;
    account->used_ns = session->home ? session->home->share.clock_ns : 0;
}

static void join_line(gt_session *session)
{
    gt_account *account = &session->account;
    gt_spread_line *line = line_of(session);
    gt_dispatch_worker *worker;
    for (int32_t index = 0; (worker = next_worker(session, &index));) {
        gt_share *share = &worker->share;
        if (!share->in_line++)
            share->line_ns = fmax(share->line_ns, share->clock_ns);
        share->line_weight += account->weight;
    }
    account->used_ns = fmax(account->used_ns, line->clock_ns);
    account->waits_with = account->weight;
    account->waits_since_ns = gt__now_ns();
    account->insists = false;
    enlist(&line->waiting, session);
}

/* Its workers are not kept any more. */
static void release(const gt_session *session)
{
    gt_spread_line *line = line_of(session);
    gt_dispatch_worker *worker;
    if (line->keeps != session)
        return;
    line->keeps = NULL;
    line->awaited = line->yields = NULL;
    for (int32_t index = 0; (worker = next_worker(session, &index));) {
        worker->share.kept_for = NULL;
        gt__share_decide(worker);
    }
}

static void leave_line(gt_session *session)
{
    gt_dispatch_worker *worker;
    release(session);
    delist(session);
    for (int32_t index = 0; (worker = next_worker(session, &index));) {
        gt_share *share = &worker->share;
        share->line_weight = --share->in_line ? share->line_weight - session->account.waits_with : 0;
    }
}

/* The first in the line. One that insists stays in front of those that used less time and came later. */
static gt_session *first_in_line(gt_spread_line *line)
{
    gt_session *keeps = line->keeps;
    if (keeps && keeps->account.insists)
        return keeps;
    if (keeps && keeps != line->waiting.first)
        release(keeps);
    return line->waiting.first;
}

/* Whether it is the turn of the spread sessions at a worker. */
static bool is_their_turn(const gt_share *share)
{
    return !share->waiting.first || share->line_ns <= share->waiting.first->account.used_ns;
}

static bool is_its_turn(const gt_session *session)
{
    const gt_dispatch_worker *worker;
    for (int32_t index = 0; (worker = next_worker(session, &index));)
        if (!is_their_turn(&worker->share))
            return false;
    return true;
}

/* The worker of the session that is farthest from open; NULL: none is far. */
static const gt_dispatch_worker *farthest(const gt_session *session)
{
    const gt_dispatch_worker *worker, *found = NULL;
    uint64_t most_ns = 0;
    for (int32_t index = 0; (worker = next_worker(session, &index));) {
        uint64_t left_ns = worker->share.placed_ns - worker->share.done_ns;
        if (!gt__share_is_far(&worker->share) || left_ns <= most_ns)
            continue;
        found = worker;
        most_ns = left_ns;
    }
    return found;
}

/* One of the workers that it insists on does not answer: it may be stopped, or cut off. The others are not kept for it any longer,
 * until that one answers; the next time they are kept twice as long, so that those with long operations get out of its way. */
static void lose_patience(gt_session *session)
{
    gt_account *account = &session->account;
    const gt_dispatch_worker *worker;
    account->patience_ns = account->patience_ns ? account->patience_ns : LEAST_PATIENCE_NS;
    for (int32_t index = 0; account->insists && (worker = next_worker(session, &index));)
        if (gt__share_is_silent(&worker->share, account->patience_ns)) {
            line_of(session)->awaited = worker;
            account->insists = false;
            account->patience_ns *= 2;
        }
}

/* Which worker is awaited, if any? From when it is the session's turn everywhere; or one whose own sessions had the next turn all the
 * same, and used it for something long. */
static void choose_awaited(gt_session *session)
{
    gt_spread_line *line = line_of(session);
    gt_account *account = &session->account;
    if (account->insists && line->yields && gt__share_is_far(&line->yields->share)) {
        line->awaited = line->yields;
        account->insists = false;
    }
    line->yields = NULL;
    if (account->insists)
        lose_patience(session);
    if (account->insists)
        return;
    if (!line->awaited && is_its_turn(session)) {
        line->awaited = farthest(session);
        account->insists = !line->awaited;
    }
    account->insists |= line->awaited && !gt__share_is_far(&line->awaited->share);
}

/*
 * Keep workers for the first in the line. If one of them is far from open, only that one: a long operation there does not stop the
 * others. Then it insists on all of them, also if another one has got a long operation meanwhile: otherwise two workers could have
 * such operations in turn for ever.
 */
static void keep_workers(gt_session *session)
{
    gt_spread_line *line = line_of(session);
    gt_dispatch_worker *worker;
    line->keeps = session;
    if (is_held_back(session))
        session->account.insists = false;
    else
        choose_awaited(session);
    if (is_held_back(session))
        line->awaited = NULL;
    for (int32_t index = 0; (worker = next_worker(session, &index));) {
        bool wanted = session->account.insists || worker == line->awaited, now = is_their_turn(&worker->share);
        worker->share.kept_for = wanted && now ? session : NULL;
        line->yields = wanted && !now ? worker : line->yields;
        gt__share_decide(worker);
    }
}

/*
 * The session is passed over: one behind it in the line may be served, if it reaches none of these workers. One that awaits a worker
 * lends the others.
 */
static void claim_workers(const gt_session *session)
{
    const gt_spread_line *line = line_of(session);
    bool lends = line->keeps == session && line->awaited && !session->account.insists;
    gt_dispatch_worker *worker;
    if (is_held_back(session))
        return;
    for (int32_t index = 0; (worker = next_worker(session, &index));)
        if (!lends || worker == line->awaited)
            worker->share.claimed = line->walk;
}

static bool is_claimed(const gt_session *session)
{
    const gt_dispatch_worker *worker;
    for (int32_t index = 0; (worker = next_worker(session, &index));)
        if (worker->share.claimed == line_of(session)->walk)
            return true;
    return false;
}

/* Whether the session can be served now; if so, gt__share_open knows that it is its turn. */
static bool can_go(gt_session *session)
{
    gt_spread_line *line = line_of(session);
    line->serving = session;
    if (!was_served(session) && !is_held_back(session) && !is_claimed(session) && is_its_turn(session) &&
        gt__output_has_room(session))
        return true;
    line->serving = NULL;
    return false;
}

/* Those that were passed over do not save up what the others use meanwhile: they keep their place and a limited credit. */
static void limit_credit(gt_spread_line *line, double used_ns)
{
    line->clock_ns = fmax(line->clock_ns, used_ns - MOST_CREDIT_NS);
    for (gt_session *session = line->waiting.first; session && session->account.used_ns < line->clock_ns;
         session = session->account.next)
        session->account.used_ns = line->clock_ns;
}

void gt__share_fed(gt_session *session, const gt_share *idle)
{
    gt_account *account = &session->account;
    uint64_t since = account->waits_since_ns, until = account->waited_until_ns;
    uint64_t from = idle->idle_since_ns > since ? idle->idle_since_ns : since;
    gt_dispatch_worker *worker;
    if (until < from || until - since < LEAST_WAIT_NS || 2 * (until - from) < until - since)
        return;
    account->waits_since_ns = until; /* a wait counts once */
    for (int32_t index = 0; (worker = next_worker(session, &index));)
        if (worker->share.shared)
            return;
    for (int32_t index = 0; (worker = next_worker(session, &index));)
        gt__share_deepen(worker);
}

/* Those in the line may reach a worker that came or went: they wait no more, and those that have to join it again. */
static void dissolve_line(gt_dispatcher *dispatcher)
{
    gt_session *session;
    while ((session = dispatcher->line.waiting.first)) {
        leave_line(session);
        session->peer->blocked = false;
        gt__peer_wake(session->peer);
    }
}

/* ---- turns -------------------------------------------------------------------------------------------------- */

bool gt__share_open(const gt_session *session)
{
    const gt_spread_line *line = line_of(session);
    const gt_dispatch_worker *worker = session->home;
    bool its_turn = line->serving == session;
    if (!worker) /* nothing can be placed: the client is told so */
        return true;
    if (!session->account.spread)
        return !worker->closed;
    if ((!its_turn && line->waiting.first) || is_held_back(session))
        return false;
    for (int32_t index = 0; (worker = next_worker(session, &index));)
        if (gt__share_is_full(&worker->share) || (!its_turn && worker->share.waiting.first))
            return false;
    return true;
}

void gt__share_wait(gt_session *session)
{
    gt_account *account = &session->account;
    gt_dispatch_worker *worker = session->home;
    if (!worker || account->waits_in)
        return;
    if (account->spread) {
        join_line(session);
        return;
    }
    const gt_share *share = &worker->share;
    double least_ns = account->total_ns > 0 ? share->clock_ns : beginning_ns(share->clock_ns, share->left_ns);
    account->used_ns = fmax(account->used_ns, least_ns);
    enlist(&worker->share.waiting, session);
    gt__share_decide(worker);
}

void gt__share_stop_waiting(gt_session *session)
{
    gt_waiting *waiting = session->account.waits_in;
    if (!waiting)
        return;
    if (!waiting->worker) {
        leave_line(session);
        return;
    }
    delist(session);
    gt__share_decide(waiting->worker);
}

/* It waits no more and is served, once in a turn of the loop. */
static void take(gt_session *session)
{
    gt__share_stop_waiting(session);
    session->account.turn = session->dispatcher->turns + 1; /* 0: never */
}

gt_session *gt__share_next(gt_dispatch_worker *worker)
{
    gt_share *share = &worker->share;
    gt_session *session = share->waiting.first;
    if (!session || share->kept_for || was_served(session))
        return NULL;
    share->serving = session;
    gt__share_decide(worker);
    if (!gt__output_has_room(session)) {
        gt__share_served(worker);
        return NULL;
    }
    take(session);
    share->clock_ns = fmax(share->clock_ns, session->account.used_ns);
    /* If it was the turn of the spread sessions, and they could not use it, little of that is saved up for them. */
    share->line_ns = fmax(share->line_ns, session->account.used_ns - MOST_LENT_NS);
    return session;
}

void gt__share_served(gt_dispatch_worker *worker)
{
    worker->share.serving = NULL;
    gt__share_decide(worker);
}

/* It waits no more: the first in the line, or one that overtakes it. */
static void take_from_line(gt_session *session, bool overtakes)
{
    gt_spread_line *line = line_of(session);
    gt_dispatch_worker *worker;
    take(session);
    session->account.waited_until_ns = gt__now_ns();
    session->account.patience_ns = 0;
    if (overtakes)
        limit_credit(line, session->account.used_ns);
    else
        line->clock_ns = fmax(line->clock_ns, session->account.used_ns);
    for (int32_t index = 0; (worker = next_worker(session, &index));)
        worker->share.clock_ns = fmax(worker->share.clock_ns, worker->share.line_ns);
}

gt_session *gt__share_next_spread(gt_dispatcher *dispatcher)
{
    gt_spread_line *line = &dispatcher->line;
    gt_session *first = first_in_line(line), *session = line->waiting.first;
    if (!first)
        return NULL;
    line->walk++;
    if (can_go(first)) {
        take_from_line(first, false);
        return first;
    }
    if (!was_served(first))
        keep_workers(first);
    claim_workers(first);
    for (unsigned passed = 0; session && passed < MOST_PASSED; session = session->account.next, passed++) {
        if (session == first)
            continue;
        if (can_go(session)) {
            take_from_line(session, true);
            return session;
        }
        claim_workers(session);
    }
    return NULL;
}

void gt__share_served_spread(gt_dispatcher *dispatcher)
{
    dispatcher->line.serving = NULL;
}

int gt__share_patience_ms(const gt_dispatcher *dispatcher)
{
    return dispatcher->line.keeps ? LEAST_PATIENCE_NS / 1000000 : -1;
}

/* ---- workers and sessions come and go ------------------------------------------------------------------------- */

void gt__share_join(gt_dispatch_worker *worker)
{
    dissolve_line(worker->peer->dispatcher);
    gt__share_reset(worker);
}

void gt__share_leave(gt_dispatch_worker *worker)
{
    gt_session *session;
    for (gt_peer *peer = worker->peer->dispatcher->peers; peer; peer = peer->next)
        if (peer->session)
            gt__share_set_full(peer->session, worker, false);
    /* What was placed there is not waited for: sessions that have parts of tensors on it go on, and fail where they need it. */
    gt__share_drop_all(worker);
    dissolve_line(worker->peer->dispatcher);
    gt__share_decide(worker);
    while ((session = worker->share.waiting.first)) {
        gt__share_stop_waiting(session);
        session->peer->blocked = false;
        gt__peer_wake(session->peer);
    }
}

void gt__share_move(gt_session *session)
{
    if (!session->account.spread)
        session->account.used_ns = session->home->share.clock_ns;
}

void gt__share_depart(const gt_session *session)
{
    const gt_account *account = &session->account;
    if (!session->home)
        return;
    gt_share *share = &session->home->share;
    double clock_ns = account->spread ? line_of(session)->clock_ns : share->clock_ns;
    double *left_ns = account->spread ? &line_of(session)->left_ns : &share->left_ns;
    double ahead_ns = fmin(account->used_ns - clock_ns, account->total_ns * account->inverse);
    if (ahead_ns > 0)
        *left_ns = beginning_ns(clock_ns, *left_ns) + ahead_ns;
}

void gt__share_forget(gt_session *session)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    gt__share_stop_waiting(session);
    if (dispatcher->line.serving == session)
        dispatcher->line.serving = NULL;
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        gt__share_drop(dispatcher->workers[index], session);
}
