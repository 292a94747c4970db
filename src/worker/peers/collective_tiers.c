/*
 * collective_tiers.c: collectives of workers on several hosts, of which only some have a faster way among themselves (NCCL). The
 * parties form groups: those whose engines hold collectives together, and for the rest those of one host. A collective goes in
 * three tiers,
 *
 *     inside    each group adds up its operands, or joins its parts
 *     between   the groups' leaders, their first parties, do the same among themselves, by UCX or the mesh
 *     inside    each leader gives the result to its group
 *
 * so that each element crosses between two groups once, however many parties they have. Sums run in the order of the parties in a
 * group, then of the groups; all parties get the leader's bits. all_to_all gives each pair something else, and is not changed.
 *
 * All parties know everybody's host and league from the dispatcher, so all decide alike. Each tier is a collective of the worker
 * that this one wraps, under a tag of its own. A party that has failed takes part in the other tiers with its failure, so none
 * waits in vain.
 */
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "worker/worker.h"

/* In a tag: the tier. The dispatcher counts tags from 1. */
#define TIER(number) ((uint64_t)(number) << 62)
enum { INSIDE = 1, BETWEEN = 2, BACK = 3 };

typedef struct tiers {
    gt_collective base;
    gt_worker *worker;
    gt_collective *others; /* for each tier, and for parties that need none */
    unsigned told_parties, told_groups;
} tiers;

/* The groups of a call, each with its parties in their order. */
typedef struct groups {
    unsigned count;
    uint16_t of[GT_MAX_PARTIES];     /* by party: its group */
    uint16_t leader[GT_MAX_PARTIES]; /* by group: its first party */
    bool all_asked, leagues;         /* leagues: there is a group of several whose engines hold collectives */
} groups;

typedef struct passage {
    tiers *t;
    const gt_collective_call *call;
    groups g;
    unsigned group;
    gt_partner party[GT_MAX_PARTIES]; /* of the tier at hand */
    unsigned self, count;
    gt_poison *failed; /* the first failure, ours or another party's */
} passage;

/* A tensor of the worker's for a while; without a buffer it is the call's. */
typedef struct room {
    gt_view view;
    gt_buffer *buffer;
    bool owned;
} room;

/* ---- who is where --------------------------------------------------------------------------------------------- */

static uint64_t league_of(const gt_worker *worker, const gt_collective_call *call, unsigned k)
{
    return k == call->self ? worker->league : gt__worker_meant(worker, call->party[k].worker)->league;
}

static uint64_t host_of(const gt_worker *worker, const gt_collective_call *call, unsigned k)
{
    return k == call->self ? worker->host : gt__worker_meant(worker, call->party[k].worker)->host;
}

/* Whether party k can join the group: its engine holds collectives with theirs, or, without any, it is on their host. */
static bool fits(const gt_worker *worker, const gt_collective_call *call, const groups *g, unsigned group,
                 unsigned k)
{
    uint64_t league = league_of(worker, call, k), first = league_of(worker, call, g->leader[group]);
    if (league >> 32 != first >> 32)
        return false;
    if (!league)
        return host_of(worker, call, k) == host_of(worker, call, g->leader[group]);
    for (unsigned other = 0; other < k && (uint32_t)league; other++)
        if (g->of[other] == group && league_of(worker, call, other) == league)
            return false; /* two in one seat */
    return true;
}

static void find_groups(const gt_worker *worker, const gt_collective_call *call, groups *g)
{
    *g = (groups){.all_asked = true};
    for (unsigned k = 0; k < call->count; k++) {
        unsigned group = 0;
        while (group < g->count && !fits(worker, call, g, group, k))
            group++;
        if (group == g->count)
            g->leader[g->count++] = (uint16_t)k;
        else
            g->leagues |= league_of(worker, call, k) != 0;
        g->of[k] = (uint16_t)group;
        g->all_asked &= (host_of(worker, call, k) & GT_HOST_TIERS) != 0;
    }
}

/* Parts that overlap cannot be joined group by group. */
static bool is_divided(const gt_collective_call *call)
{
    int64_t start, count, sum = 0;
    for (unsigned k = 0; k < call->count; k++) {
        gt__party_part(call, k, false, call->axis, &start, &count);
        sum += count;
    }
    return sum == call->whole->shape[call->axis];
}

static bool has_tiers(const gt_worker *worker, const gt_collective_call *call, groups *g)
{
    if (call->count < 3 || call->count > GT_MAX_PARTIES || call->op == GT_OP_all_to_all)
        return false;
    bool one_host = true;
    for (unsigned k = 0; k < call->count; k++) {
        if (call->party[k].worker < 0 || call->party[k].worker >= GT_MAX_PARTIES)
            return false;
        one_host &= host_of(worker, call, k) == host_of(worker, call, 0);
    }
    if (one_host)
        return false;
    find_groups(worker, call, g);
    if (g->count == 1 || g->count == call->count || !(g->leagues || g->all_asked))
        return false;
    return call->op != GT_OP_all_gather || is_divided(call);
}

/* ---- one tier ------------------------------------------------------------------------------------------------- */

static void fail(passage *p, gt_err err)
{
    if (p->failed)
        return;
    p->failed = gt__poison_new(err, gt_error_text());
    p->failed->origin = p->t->worker->exchange->failed;
}

/* Room for a tensor; a failure if there is none. */
static void make_room(passage *p, const gt_meta *meta, room *r)
{
    *r = (room){.view.meta = *meta};
    if (p->failed)
        return;
    gt_err err = gt__store_allocate(p->t->worker->store, &r->view, &r->buffer);
    r->owned = err == GT_OK;
    if (err != GT_OK)
        fail(p, err);
}

static void free_room(passage *p, room *r)
{
    if (r->owned)
        gt__buffer_release(p->t->worker->store, r->buffer);
    r->owned = false;
}

/* The parties of a tier: those of our group, or the leaders. Elements along `axis` that they give: their parts one behind the other;
 * returns how many. */
static int64_t choose(passage *p, bool leaders)
{
    const gt_collective_call *call = p->call;
    int64_t counts[GT_MAX_PARTIES] = {0}, total = 0, start, count;
    bool parts = call->op == GT_OP_all_gather;
    unsigned place[GT_MAX_PARTIES];
    p->count = 0;
    for (unsigned k = 0; k < call->count; k++) {
        bool leads = p->g.leader[p->g.of[k]] == k;
        if (leaders ? leads : p->g.of[k] == p->group) {
            place[leaders ? p->g.of[k] : p->group] = p->count;
            p->self = k == call->self ? p->count : p->self;
            p->party[p->count++] = (gt_partner){.worker = call->party[k].worker};
        }
        if (!parts || (!leaders && p->g.of[k] != p->group))
            continue;
        gt__party_part(call, k, false, call->axis, &start, &count);
        counts[leaders ? place[p->g.of[k]] : p->count - 1] += count;
    }
    for (unsigned k = 0; k < p->count; k++) {
        p->party[k].start = total;
        total += counts[k];
    }
    for (unsigned k = 0; k < p->count; k++) /* one without elements must not begin where another does */
        p->party[k].start = counts[k] ? p->party[k].start : total;
    return total;
}

static void run_tier(passage *p, gt_opcode op, int tier, const gt_meta *whole, const room *in, const room *out)
{
    gt_exchange *exchange = p->t->worker->exchange;
    gt_collective *others = p->t->others;
    bool given = in != NULL && (op != GT_OP_broadcast || p->self == 0);
    gt_collective_call call = {.op = op,
                               .tag = p->call->tag | TIER(tier),
                               .self = p->self,
                               .count = p->count,
                               .party = p->party,
                               .axis = p->call->axis,
                               .axis_after = p->call->axis_after,
                               .whole = whole,
                               .poison = p->failed,
                               .timed = p->call->timed};
    if (!p->failed) {
        call.in = given ? &in->view : NULL;
        call.buffer = given ? in->buffer : NULL;
        call.out = &out->view;
        call.out_buffer = out->buffer;
    } else
        exchange->failed = p->failed->origin;
    gt_err err = others->ops->run(others, &call);
    if (err != GT_OK)
        fail(p, err);
    gt__peers_reclaim(p->t->worker);
}

/* ---- the collectives ------------------------------------------------------------------------------------------ */

static room given(const gt_collective_call *call)
{
    return call->in ? (room){.view = *call->in, .buffer = call->buffer} : (room){0};
}

static room wanted(const gt_collective_call *call)
{
    return call->out ? (room){.view = *call->out, .buffer = call->out_buffer} : (room){0};
}

/* All tiers. `to` gets the whole result, of groups one behind the other if the parties' parts are joined. */
static void go_through(passage *p, const room *to)
{
    const gt_collective_call *call = p->call;
    bool sum = call->op == GT_OP_all_reduce || call->op == GT_OP_reduce_scatter;
    gt_opcode op = sum ? GT_OP_all_reduce : call->op;
    room first = given(call), inside = {0}, between = {0};
    int64_t elements = choose(p, false);
    const bool alone = p->count == 1, leads = p->self == 0;
    if (!alone && op != GT_OP_broadcast) {
        gt_meta meta = sum ? *call->whole : gt__meta_narrowed(call->whole, call->axis, elements);
        make_room(p, &meta, &inside);
        run_tier(p, op, INSIDE, &meta, &first, &inside);
        first = inside;
        first.owned = false;
    }
    if (leads) {
        choose(p, true);
        if (!alone)
            make_room(p, call->whole, &between);
        run_tier(p, op, BETWEEN, call->whole, &first, alone ? to : &between);
        choose(p, false);
    }
    free_room(p, &inside);
    if (!alone)
        run_tier(p, GT_OP_broadcast, BACK, call->whole, leads ? &between : NULL, to);
    free_room(p, &between);
}

static gt_err wait(const passage *p, gt_token token)
{
    gt__late_given(&p->t->worker->late, token);
    return gt__late_wait(p->t->worker, token);
}

/* Elements start..start+count of a whole tensor, along an axis. */
static gt_view slice(const room *from, unsigned axis, int64_t start, int64_t count)
{
    gt_view view = from->view;
    view.data =
        (uint8_t *)view.data + start * view.stride[axis] * (int64_t)gt__dtype_size((gt_dtype)view.meta.dtype);
    view.meta = gt__meta_narrowed(&view.meta, axis, count);
    gt__view_update_contiguous(&view);
    return view;
}

static void scatter_sum(passage *p)
{
    const gt_collective_call *call = p->call;
    room full;
    int64_t start, count;
    gt_token token = 0;
    make_room(p, call->whole, &full);
    go_through(p, &full);
    if (!p->failed && call->out->meta.numel) {
        gt__party_part(call, call->self, true, call->axis_after, &start, &count);
        gt_view ours = slice(&full, call->axis_after, start, count);
        gt_err err = gt__worker_copy(p->t->worker, &ours, call->out, call->timed, &token);
        if (err == GT_OK)
            err = wait(p, token);
        if (err != GT_OK)
            fail(p, err);
    }
    free_room(p, &full);
}

/* Where each party's part lies in what the groups have joined, by party. True: as in the whole tensor. */
static bool find_parts(const passage *p, int64_t *at, int64_t *start, int64_t *count)
{
    int64_t next = 0;
    bool same = true;
    for (unsigned group = 0; group < p->g.count; group++)
        for (unsigned k = 0; k < p->call->count; k++) {
            if (p->g.of[k] != group)
                continue;
            gt__party_part(p->call, k, false, p->call->axis, &start[k], &count[k]);
            at[k] = next;
            next += count[k];
            same &= !count[k] || at[k] == start[k];
        }
    return same;
}

/* The parts in their order: one cat. */
static gt_err put_in_order(const passage *p, const room *joined, const int64_t *at, const int64_t *start,
                           const int64_t *count)
{
    const gt_collective_call *call = p->call;
    gt_engine *engine = p->t->worker->engine;
    gt_view views[GT_MAX_PARTIES];
    const gt_view *in[GT_MAX_PARTIES];
    unsigned operands = 0;
    gt_token token = 0;
    for (unsigned k = 0; k < call->count; k++) {
        unsigned place = operands;
        if (!count[k])
            continue;
        views[k] = slice(joined, call->axis, at[k], count[k]);
        for (operands++; place > 0 && start[in[place - 1] - views] > start[k]; place--)
            in[place] = in[place - 1];
        in[place] = &views[k];
    }
    gt_instruction ins = {
        .op = GT_OP_cat, .dtype = call->whole->dtype, .imm = {{.i = call->axis}, {.i = operands}}};
    const gt_call cat = {.op = GT_OP_cat,
                         .compute = (gt_dtype)call->whole->dtype,
                         .ins = &ins,
                         .operands = operands,
                         .in = in,
                         .out = call->out,
                         .timed = call->timed};
    GT_TRY(engine->ops->run(engine, &cat, &token));
    return wait(p, token);
}

static void gather(passage *p)
{
    const gt_collective_call *call = p->call;
    int64_t at[GT_MAX_PARTIES], start[GT_MAX_PARTIES], count[GT_MAX_PARTIES];
    room out = wanted(call), joined = {0};
    if (find_parts(p, at, start, count)) {
        go_through(p, &out);
        return;
    }
    make_room(p, call->whole, &joined);
    go_through(p, &joined);
    gt_err err = p->failed || !call->whole->numel ? GT_OK : put_in_order(p, &joined, at, start, count);
    if (err != GT_OK)
        fail(p, err);
    free_room(p, &joined);
}

/* Once for each kind of call: it is the same for many. */
static void tell(tiers *t, const gt_collective_call *call, const groups *g)
{
    if (t->told_parties == call->count && t->told_groups == g->count)
        return;
    t->told_parties = call->count;
    t->told_groups = g->count;
    const char *league = t->worker->engine->ops->league_name;
    gt__log(GT_LOG_STATUS, "collectives of %u workers in tiers: %u groups, %s inside, %s between", call->count,
            g->count, t->worker->league ? league ? league : "the engine" : t->worker->exchange->way,
            t->worker->exchange->way);
}

static gt_err run(gt_collective *collective, const gt_collective_call *call)
{
    tiers *t = (tiers *)collective;
    passage p;
    if (!has_tiers(t->worker, call, &p.g))
        return t->others->ops->run(t->others, call);
    p.t = t;
    p.call = call;
    p.group = p.g.of[call->self];
    p.self = 0;
    p.failed = NULL;
    tell(t, call, &p.g);
    if (call->poison)
        fail(&p, gt__fail(call->poison->err, "%s", call->poison->text));
    room out = wanted(call);
    if (call->op == GT_OP_reduce_scatter)
        scatter_sum(&p);
    else if (call->op == GT_OP_all_gather)
        gather(&p);
    else
        go_through(&p, &out);
    if (!p.failed)
        return GT_OK;
    t->worker->exchange->failed = p.failed->origin;
    gt_err err = gt__fail(p.failed->err, "%s", p.failed->text);
    gt__poison_release(p.failed);
    return err;
}

/* A party waits in each tier, so all must be at the same collective. */
static bool keeps_order(gt_collective *collective, const gt_collective_call *call)
{
    tiers *t = (tiers *)collective;
    groups g;
    return has_tiers(t->worker, call, &g) ||
           (t->others->ops->keeps_order && t->others->ops->keeps_order(t->others, call));
}

static gt_passage *start(gt_collective *collective, const gt_collective_call *call)
{
    tiers *t = (tiers *)collective;
    groups g;
    return has_tiers(t->worker, call, &g) ? NULL : t->others->ops->start(t->others, call);
}

static void close_tiers(gt_collective *collective)
{
    tiers *t = (tiers *)collective;
    t->others->ops->close(t->others);
    free(t);
}

static const gt_collective_ops tiers_ops = {
    .name = "tiers", .run = run, .start = start, .keeps_order = keeps_order, .close = close_tiers};

gt_err gt__collective_tiers(gt_worker *worker, gt_collective **collective)
{
    tiers *t = malloc(sizeof *t);
    if (!t)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    *t = (tiers){.base.ops = &tiers_ops, .worker = worker, .others = *collective};
    *collective = &t->base;
    return GT_OK;
}
