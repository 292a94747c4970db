/*
 * test_conformance.c: one suite for all ways in which workers exchange data: every collective, all dtypes, even and uneven parts, 2 to
 * 16 workers, against plain loops; then operands that failed, in every way that one can, and a member that dies in the middle.
 *
 * A way is an exchange and an engine. Its parties are threads of a process, or processes that are really killed. The usual run takes a
 * eleventh of the cases and few numbers of workers; GT_TEST_LONG=1 all of them. Arguments select ways by name.
 */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engines/loader.h"
#include "worker/peers/exchange_mesh.h"
#include "worker_fixture.h"

#include "collective_cases.h"

enum { OPERAND = 1, RESULT = 2, PATIENCE_S = CHECK_SANITIZED ? 1000 : 200 };

/* ---- ways ---------------------------------------------------------------------------------------------------------- */

typedef struct way {
    const char *name, *engine;
    bool by_links; /* the parties are processes, and meet by links */
    bool tcp;      /* of tcp: each is at an address of its own */
    const char *lane;
    bool lends, adds,
        holds;     /* the engines read each other's memory; hold sums among themselves; hold everything */
    bool declines; /* the engines want to hold sums among themselves, and find that they cannot */
    bool apart;    /* the last one has no such thing in common with the others */
    unsigned
        hosts; /* collectives in tiers. 2: the last one is on another host. 3: they take turns, and have nothing else in common */
} way;

static const way ways[] = {
    {.name = "threads", .engine = "cpu"},
    {.name = "lent", .engine = "far", .lends = true},
    {.name = "lent-apart", .engine = "far", .lends = true, .apart = true},
    {.name = "engines", .engine = "late", .adds = true},
    {.name = "engines-apart", .engine = "late", .adds = true, .apart = true},
    {.name = "declined", .engine = "cpu", .by_links = true, .lane = "mesh", .declines = true},
    {.name = "memory", .engine = "cpu", .by_links = true, .lane = "mesh"},
    {.name = "tcp", .engine = "cpu", .by_links = true, .tcp = true, .lane = "mesh"},
    {.name = "ucx", .engine = "cpu", .by_links = true, .lane = "ucx"},
    {.name = "ucx-tcp", .engine = "cpu", .by_links = true, .tcp = true, .lane = "ucx"},
    {.name = "nccl", .engine = "cuda", .adds = true, .holds = true},
    {.name = "tiers-engines", .engine = "late", .adds = true, .apart = true, .hosts = 2},
    {.name = "tiers", .engine = "cpu", .by_links = true, .lane = "mesh", .hosts = 3},
    {.name = "tiers-ucx", .engine = "cpu", .by_links = true, .lane = "ucx", .hosts = 3},
    {.name = "tiers-nccl", .engine = "cuda", .adds = true, .holds = true, .apart = true, .hosts = 2},
};

/* ---- parties ------------------------------------------------------------------------------------------------------- */

/* In memory that all processes of a group share. */
typedef struct meeting {
    pthread_barrier_t all, survivors;
    char address[MOST][192];
    uint64_t league[MOST], group[MOST];
} meeting;

typedef struct party {
    const way *way;
    meeting *meeting;
    gt_board *board; /* NULL: by links */
    unsigned self, count;
    uint64_t next_tag;
    unsigned taken, expected; /* collectives that the engine held */
    gt_worker worker;
    gt_engine_ops ops;
    gt_exchange_ops exchange_ops;
    unsigned in_tiers, dies_after; /* messages of tiers that it has sent; and when it is killed, 0: never */
} party;

static _Thread_local party *current;
static gt_err (*_Atomic engine_lend)(gt_engine *engine, const void *memory, size_t bytes, bool outside,
                                     gt_loan *loan);
static gt_err (*_Atomic engine_collective)(gt_engine *engine, const gt_group_call *call, gt_token *token);
static _Thread_local bool gives_up;

static gt_err counted(gt_engine *engine, const gt_group_call *call, gt_token *token)
{
    if (gives_up)
        return gt__fail(GT_ERR_INTERNAL, "this worker has given up");
    gt_err err = engine_collective(engine, call, token);
    current->taken += err != GT_ERR_UNSUPPORTED;
    return err;
}

static gt_err counted_lend(gt_engine *engine, const void *memory, size_t bytes, bool outside, gt_loan *loan)
{
    current->taken++;
    return engine_lend(engine, memory, bytes, outside, loan);
}

/* As NCCL where one worker finds no way to the others. */
static gt_err declined(gt_engine *engine, const gt_group_call *call, gt_token *token)
{
    gt_err err = call->self ? GT_OK : gt__fail(GT_ERR_INTERNAL, "the engines did not find each other");
    (void)engine;
    *token = 0;
    for (unsigned k = 0; err && k < call->count; k++)
        if (k != call->self)
            call->give_up(call->context, call->tag, call->party[k].worker, err);
    CHECK_EQ(call->agree(call, err), GT_ERR_INTERNAL);
    return GT_ERR_UNSUPPORTED;
}

static uint64_t league_of_all(gt_engine *engine)
{
    (void)engine;
    return (uint64_t)1 << 32;
}

/* Tags of tiers have bits that the dispatcher's have not. */
static void (*_Atomic exchange_put)(gt_exchange *exchange, int32_t to, gt_message *message);

static void counted_put(gt_exchange *exchange, int32_t to, gt_message *message)
{
    current->in_tiers += message->key.tag >> 62 != 0;
    exchange_put(exchange, to, message);
    if (current->dies_after && --current->dies_after == 0)
        raise(SIGKILL);
}

static uint64_t host_of(const party *p, unsigned k)
{
    return p->way->hosts == 2 ? 2 + 2 * (k == p->count - 1) : p->way->hosts ? 2 + 2 * (k % 3) + GT_HOST_TIERS : 0;
}

static void open_exchange(party *p)
{
    gt_worker *worker = &p->worker;
    char listen[32];
    snprintf(listen, sizeof listen, "127.0.0.%u", 2 + p->self);
    if (!p->board) {
        setenv("GT_EXCHANGE", p->way->lane, 1);
        if (p->way->tcp)
            setenv("UCX_TLS", "tcp", 1);
    }
    gt_err err = p->board ? gt__exchange_local(p->board, NULL, &worker->exchange)
                          : gt__exchange_mesh("localhost:1", p->way->tcp ? listen : NULL, NULL, &worker->exchange);
    if (!CHECK_EQ(err, GT_OK)) {
        fprintf(stderr, "%s\n", gt_error_text());
        abort();
    }
    worker->exchange->ops->join(worker->exchange, (int32_t)p->self, p->self + 1, 99);
    p->exchange_ops = *worker->exchange->ops;
    exchange_put = p->exchange_ops.put;
    p->exchange_ops.put = counted_put;
    worker->exchange->ops = &p->exchange_ops;
    worker->host = host_of(p, p->self);
}

/* Tell all others where we are, and what our engine has in common with theirs. */
static void meet(party *p)
{
    gt_worker *worker = &p->worker;
    meeting *m = p->meeting;
    snprintf(m->address[p->self], sizeof m->address[0], "%s%s", p->way->tcp ? "tcp://" : "",
             worker->exchange->ops->address(worker->exchange));
    bool alone = p->way->apart && p->self == p->count - 1;
    m->league[p->self] = worker->league + ((uint64_t)alone << 32);
    m->group[p->self] = worker->group + alone;
    pthread_barrier_wait(&m->all);
    for (unsigned k = 0; k < p->count; k++) {
        char name[16];
        bool apart = alone && k != p->self; /* they are other groups for it, too */
        worker->introduced[k].league = m->league[k] + ((uint64_t)apart << 33);
        worker->introduced[k].group = m->group[k] + 2 * apart;
        worker->introduced[k].life = k + 1;
        worker->introduced[k].host = host_of(p, k);
        snprintf(name, sizeof name, "w%u", k);
        if (k != p->self)
            worker->exchange->ops->introduce(worker->exchange, (int32_t)k, k + 1, name, m->address[k]);
    }
}

static void open_party(party *p)
{
    static const gt_worker_options options;
    gt_worker *worker = &p->worker;
    current = p;
    if (!worker_open(worker, p->way->engine))
        abort();
    worker->options = &options;
    p->ops = *worker->engine->ops;
    if (p->way->adds) {
        engine_collective = p->ops.collective;
        p->ops.collective = counted;
    }
    if (p->way->declines) {
        p->ops.collective = declined;
        p->ops.league = league_of_all;
    }
    if (p->way->lends) {
        engine_lend = p->ops.lend;
        p->ops.lend = counted_lend;
    }
    worker->engine->ops = &p->ops;
    open_exchange(p);
    CHECK_EQ(gt__collective_host(worker->exchange, worker->engine, worker->store, &worker->collective), GT_OK);
    if (p->way->lends)
        CHECK_EQ(gt__collective_lent(worker, &worker->collective), GT_OK);
    if (p->ops.collective)
        CHECK_EQ(gt__collective_engine(worker, &worker->collective), GT_OK);
    CHECK_EQ(gt__collective_tiers(worker, &worker->collective), GT_OK);
    worker->league = p->ops.league && (p->way->adds || p->way->declines) ? p->ops.league(worker->engine) : 0;
    worker->group = p->way->lends ? p->ops.group(worker->engine) : 0;
    CHECK(!p->way->adds || worker->league);
    meet(p);
}

/* What was lent is given back first: also to a party that dies, as worker.c ends. */
static void close_party(party *p, pthread_barrier_t *others)
{
    gt_worker *worker = &p->worker;
    worker->collective->ops->close(worker->collective);
    gt__peers_reclaim(worker);
    gt__loans_end(worker);
    if (others)
        pthread_barrier_wait(others);
    worker->exchange->ops->leave(worker->exchange);
    gt__peers_reclaim(worker);
    worker->exchange->ops->close(worker->exchange);
    worker->exchange = NULL;
    worker_close(worker);
}

/* ---- collectives --------------------------------------------------------------------------------------------------- */

static void make_operand(party *p, const collective_case *c, unsigned self)
{
    gt_worker *worker = &p->worker;
    gt_entry *entry = gt__store_entry(worker->store, OPERAND);
    size_t of_one = gt__dtype_size(c->dtype);
    uint8_t *bytes = malloc((size_t)c->numel * of_one + 1);
    size_t size = fill(c, self, false, bytes);
    gt_token token = 0;
    gt__store_clear(worker->store, entry);
    CHECK_EQ(gt__meta_set(&entry->view.meta, c->dtype, c->form->rank, c->shape), GT_OK);
    if (c->op == GT_OP_all_gather || c->op == GT_OP_all_to_all) {
        entry->view.meta.shape[c->axis] = c->end[self] - c->begin[self];
        entry->view.meta.numel = (int64_t)(size / of_one);
    }
    CHECK_EQ(gt__store_allocate(worker->store, &entry->view, &entry->buffer), GT_OK);
    entry->flight = NULL;
    entry->state = GT_ENTRY_TENSOR;
    if (size)
        CHECK_EQ(worker->engine->ops->write(worker->engine, entry->view.data, bytes, size, false, &token), GT_OK);
    gt__late_given(&worker->late, token);
    CHECK_EQ(gt__late_wait(worker, token), GT_OK);
    free(bytes);
}

typedef struct record {
    gt_slot slots[2 + (MOST * sizeof(gt_partner) + sizeof(gt_slot) - 1) / sizeof(gt_slot)];
} record;

/* The collective of workers 0 to count - 1 without `missing` (-1: all). `self`: our number among them. */
static record record_of(party *p, const collective_case *c, unsigned self, int missing)
{
    record r = {{{.ins = {.op = (uint16_t)c->op,
                          .dtype = (uint8_t)c->dtype,
                          .rank = (uint8_t)c->form->rank,
                          .result = RESULT}}}};
    gt_instruction *ins = &r.slots->ins;
    ins->tail = sizeof r.slots / sizeof *r.slots - 1;
    ins->operand[0] = OPERAND;
    ins->operand[1] = self;
    ins->operand[2] = c->axis | c->axis_after << 8;
    ins->imm[0].u = p->next_tag++;
    ins->imm[1].u = c->count;
    memcpy(r.slots[1].i64, c->shape, sizeof c->shape);
    for (unsigned k = 0; k < c->count; k++) {
        gt_partner partner = {.worker = k + (missing >= 0 && (int)k >= missing),
                              .start = c->begin[k],
                              .start_after = c->begin_after[k]};
        memcpy((gt_partner *)(void *)(r.slots + 2) + k, &partner, sizeof partner);
    }
    return r;
}

static gt_entry *hold(party *p, const collective_case *c, unsigned self, int missing)
{
    record r = record_of(p, c, self, missing);
    CHECK(gt__peers_handle(&p->worker, &r.slots->ins, r.slots + 1));
    gt__late_drain(&p->worker);
    gt_entry *entry = gt__store_find(p->worker.store, RESULT);
    gt__store_settle(p->worker.store, entry);
    return entry;
}

static bool is_right(party *p, const collective_case *c, unsigned self)
{
    uint8_t *expected = malloc((size_t)c->numel * gt__dtype_size(c->dtype) + 1);
    size_t bytes = 0, size = fill(c, self, true, expected);
    uint8_t *got = read_tensor(&p->worker, RESULT, &bytes);
    bool right = got && bytes == size && memcmp(got, expected, size) == 0;
    free(got);
    free(expected);
    return right;
}

static void complain(const party *p, const collective_case *c, const char *what)
{
    const gt_entry *entry = gt__store_find(p->worker.store, RESULT);
    static const char *const divisions[] = {"even", "uneven", "backwards", "some empty"};
    fprintf(stderr, "%s: %s of %s, %s, %s parts: worker %u of %u: %s\n", what, gt__op_table[c->op].name,
            gt__dtype_name(c->dtype), c->form->name, divisions[c->division], p->self, p->count,
            entry && entry->state == GT_ENTRY_POISON ? entry->poison->text : "wrong values");
}

/* What our engine should be asked for: what it has, and not by a party that has nothing in common with the others. */
static unsigned engine_calls(const party *p, const collective_case *c)
{
    bool sums = is_sum(c->op) && c->dtype != GT_BOOL && c->dtype != GT_INT16;
    if (p->way->hosts && p->way->adds && p->count > 2 && p->self < p->count - 1 && c->op != GT_OP_all_to_all)
        return p->way->holds ? (is_sum(c->op) ? sums : c->op == GT_OP_all_gather) + 1u : is_sum(c->op);
    if (p->way->apart || !p->way->adds)
        return 0;
    return p->way->holds ? sums || !is_sum(c->op) : c->op == GT_OP_all_reduce;
}

static void hold_case(party *p, const collective_case *c, unsigned self, int missing)
{
    make_operand(p, c, self);
    hold(p, c, self, missing);
    p->expected += engine_calls(p, c);
    if (!CHECK(is_right(p, c, self)))
        complain(p, c, "not as expected");
}

static void hold_all(party *p)
{
    const bool all = getenv("GT_TEST_LONG");
    collective_case c;
    unsigned number = p->count; /* other cases for other numbers of workers */
    for (unsigned op = 0; op < COLLECTIVES; op++) {
        for (int dtype = 0; dtype < GT_DTYPE_COUNT; dtype++)
            for (unsigned f = 0; f < SMALL_FORMS; f++)
                for (int how = 0; how < DIVISIONS; how++)
                    if ((number++ % 11 == 0 || all) &&
                        make_case(collectives[op], (gt_dtype)dtype, &forms[f], (division)how, p->count, &c))
                        hold_case(p, &c, p->self, -1);
        for (unsigned f = SMALL_FORMS; f < FORMS; f++)
            if (make_case(collectives[op], GT_FLOAT32, &forms[f], UNEVEN, p->count, &c))
                hold_case(p, &c, p->self, -1);
    }
    if (p->count <= PIECES_MOST &&
        make_case(GT_OP_all_reduce, GT_FLOAT32, p->way->declines ? &in_more_pieces : &in_pieces, UNEVEN, p->count,
                  &c))
        hold_case(p, &c, p->self, -1);
    if (p->way->lends)
        CHECK_EQ(p->taken > 0, !p->way->apart);
    else
        CHECK_EQ(p->taken, p->expected);
    CHECK_EQ(p->in_tiers > 0, p->way->hosts && p->count > (p->way->hosts == 2 ? 2 : 3));
    if (p->way->lane && strcmp(p->way->lane, "ucx") == 0)
        CHECK(atomic_load(&((gt_mesh *)p->worker.exchange)->by_lane) > 0);
}

/* ---- failures ------------------------------------------------------------------------------------------------------ */

static void expect_failure(party *p, const collective_case *c, const char *text)
{
    const gt_entry *entry = gt__store_find(p->worker.store, RESULT);
    bool failed = entry->state == GT_ENTRY_POISON && strstr(entry->poison->text, text);
    if (!CHECK(failed))
        complain(p, c, text);
}

/* A party's operand has failed: all results that need it fail with the same error. */
static void refuse(party *p, const form *f, unsigned failing)
{
    gt_slot missing[8] = {{.ins = {.op = GT_OP_neg, .result = OPERAND, .operand = {1000}}}};
    collective_case c;
    for (unsigned op = 0; op < COLLECTIVES; op++) {
        if ((f->times && collectives[op] != GT_OP_all_reduce) ||
            !make_case(collectives[op], GT_FLOAT32, f, UNEVEN, p->count, &c))
            continue;
        make_operand(p, &c, p->self);
        if (p->self == failing)
            execute(&p->worker, missing);
        hold(p, &c, p->self, -1);
        bool needs = c.op != GT_OP_broadcast || failing == 0;
        if (needs)
            expect_failure(p, &c, "no tensor in slot 1000");
        else if (p->self != failing && !CHECK(is_right(p, &c, p->self)))
            complain(p, &c, "an operand that is not needed");
    }
}

/* How a failure looks: all of it comes to every worker that needs the tensor. */
typedef struct looks {
    gt_err err;
    char text[900];
} looks;

enum { FAILED_OP = GT_OP_svd, FAILED_SCOPE = 7, FAILED_SITE = 11 };

static void fail_operand(party *p, const looks *how)
{
    gt_slot failure[1 + sizeof how->text / sizeof(gt_slot) + 1] = {
        {.ins = {.op = GT_OP_failure, .flags = GT_FLAG_POISON, .result = OPERAND, .operand = {FAILED_OP}}}};
    failure->ins.scope = FAILED_SCOPE;
    failure->ins.site = FAILED_SITE;
    failure->ins.imm[0].i = how->err;
    failure->ins.imm[1].u = strlen(how->text);
    memcpy(failure + 1, how->text, strlen(how->text));
    gt__worker_refuse(&p->worker, &failure->ins, failure + 1);
}

/* Our own failures say nothing of the worker. */
static void expect_looks(const party *p, const looks *how, unsigned failing, const char *what)
{
    const gt_entry *entry = gt__store_find(p->worker.store, RESULT);
    if (!CHECK_EQ(entry->state, GT_ENTRY_POISON))
        return;
    const gt_poison *poison = entry->poison;
    const gt_origin *origin = &poison->origin;
    bool same = CHECK_EQ(poison->err, how->err) && CHECK(!strcmp(poison->text, how->text)) &&
                CHECK_EQ(origin->op, FAILED_OP) && CHECK_EQ(origin->scope, FAILED_SCOPE) &&
                CHECK_EQ(origin->site, FAILED_SITE) &&
                CHECK_EQ(origin->worker, p->self == failing ? 0 : failing + 1);
    if (!same)
        fprintf(stderr, "%s: worker %u of %u: '%.20s...' (%s) came for '%.20s...' (%s)\n", what, p->self, p->count,
                poison->text, gt_error_name(poison->err), how->text, gt_error_name(how->err));
}

/* The failed tensor is sent to all others. */
static void send_failed(party *p, const looks *how, unsigned failing)
{
    gt_slot recv[2] = {{.ins = {.op = GT_OP_recv, .dtype = GT_FLOAT32, .rank = 1, .tail = 1, .result = RESULT}}};
    gt_instruction send = {.op = GT_OP_send, .operand = {OPERAND}};
    recv->ins.imm[0].i = failing;
    recv[1].i64[0] = 4;
    for (unsigned k = 0; k < p->count; k++) {
        send.imm[0].i = k;
        recv->ins.imm[1].u = send.imm[1].u = p->next_tag++;
        if (p->self == failing && k != failing)
            CHECK(gt__peers_handle(&p->worker, &send, NULL));
        else if (p->self == k && k != failing) {
            CHECK(gt__peers_handle(&p->worker, &recv->ins, recv + 1));
            expect_looks(p, how, failing, "a move");
        }
    }
}

/* Failures of every kind, with a long text, come as they are. */
static void refuse_alike(party *p, unsigned failing)
{
    collective_case c;
    for (int err = GT_OK + 1; err < GT_ERROR_COUNT; err++) {
        looks how = {.err = (gt_err)err};
        memset(how.text, 'a' + err, sizeof how.text - 1);
        for (unsigned op = 0; op < COLLECTIVES; op++) {
            make_case(collectives[op], GT_FLOAT32, &forms[1], UNEVEN, p->count, &c);
            make_operand(p, &c, p->self);
            if (p->self == failing)
                fail_operand(p, &how);
            hold(p, &c, p->self, -1);
            if (c.op != GT_OP_broadcast || failing == 0)
                expect_looks(p, &how, failing, gt__op_table[c.op].name);
        }
        if (p->self == failing)
            fail_operand(p, &how);
        send_failed(p, &how, failing);
    }
}

/* One gives up when the others' engines have begun. */
static void give_up(party *p)
{
    collective_case c;
    make_case(GT_OP_all_reduce, GT_FLOAT32, &forms[1], UNEVEN, p->count, &c);
    make_operand(p, &c, p->self);
    gives_up = p->self == p->count - 1;
    hold(p, &c, p->self, -1);
    expect_failure(p, &c, "this worker has given up");
    gives_up = false;
    hold_case(p, &c, p->self, -1);
}

/* As collective_engine.c does it: tell the others that we take part. */
static void promise(party *p, const collective_case *c)
{
    gt_exchange *exchange = p->worker.exchange;
    gt_partner partners[MOST];
    uint64_t lives[MOST];
    for (unsigned k = 0; k < p->count; k++) {
        partners[k] = (gt_partner){.worker = k};
        lives[k] = k + 1;
    }
    gt_group_call call = {.op = c->op, .self = p->self, .count = p->count, .party = partners, .life = lives};
    uint64_t circle = p->ops.circle(p->worker.engine, &call);
    for (unsigned k = 0; k < p->count; k++)
        if (k != p->self)
            CHECK_EQ(
                gt__exchange_post(exchange, (int32_t)k, p->next_tag, GT_NOTE_STATUS, &circle, sizeof circle, NULL),
                GT_OK);
}

/* In the middle of a collective, when what it gives first is on its way. A process is killed, a thread leaves as one whose server is gone. */
static void die(party *p, const collective_case *c)
{
    gt_under_way *u = NULL;
    make_operand(p, c, p->self);
    if (p->way->hosts && p->way->by_links) {
        p->dies_after = 1 + c->op % 4; /* at one point or another */
        hold(p, c, p->self, -1);
    } else if (p->way->holds && !p->way->hosts)
        promise(p, c);
    else if (!p->way->adds) {
        record r = record_of(p, c, p->self, -1);
        u = gt__peers_start(&p->worker, &r.slots->ins, r.slots + 1, 1);
    }
    if (p->way->by_links)
        raise(SIGKILL);
    if (u)
        gt__peers_abandon(&p->worker, u);
    close_party(p, NULL);
}

/* The others have the right result, or know why they have none; and they go on without it. */
static void outlive(party *p, const collective_case *c, unsigned victim)
{
    const bool certain =
        c->op == GT_OP_all_reduce && !p->way->lends && !p->way->hosts; /* it takes two steps, and there was one */
    unsigned self = p->self - (p->self > victim);
    collective_case without;
    make_operand(p, c, p->self);
    const gt_entry *entry = hold(p, c, p->self, -1);
    bool needs = c->op != GT_OP_broadcast || victim == 0;
    bool lost = entry->state == GT_ENTRY_POISON && entry->poison->err == GT_ERR_CONNECTION;
    if (!CHECK(lost ? needs || p->count > 2 : !certain && is_right(p, c, p->self)))
        complain(p, c, "after a death");
    make_case(c->op, c->dtype, c->form, c->division, p->count - 1, &without);
    hold_case(p, &without, self, (int)victim);
}

static void die_or_outlive(party *p, unsigned op)
{
    collective_case c;
    unsigned victim = op % 2 ? 0 : p->count - 1;
    bool pieces = collectives[op] == GT_OP_all_reduce && p->count <= PIECES_MOST;
    make_case(collectives[op], GT_FLOAT32, pieces ? &in_pieces : &forms[SMALL_FORMS], UNEVEN, p->count, &c);
    hold_case(p, &c, p->self, -1);
    pthread_barrier_wait(&p->meeting->all);
    if (p->self == victim) {
        die(p, &c);
        return;
    }
    outlive(p, &c, victim);
    close_party(p, &p->meeting->survivors);
}

/* ---- groups -------------------------------------------------------------------------------------------------------- */

typedef struct group_test {
    const way *way;
    unsigned count;
    int op; /* a member is killed during this operation; -1: in none */
} group_test;

typedef struct member {
    pthread_t thread;
    const group_test *test;
    party party;
} member;

static void *take_part(void *argument)
{
    member *m = argument;
    party *p = &m->party;
    open_party(p);
    if (m->test->op >= 0) {
        die_or_outlive(p, (unsigned)m->test->op);
        return NULL;
    }
    hold_all(p);
    if (p->count > 1) {
        refuse(p, &forms[1], 0);
        refuse(p, &forms[SMALL_FORMS], p->count - 1);
        if (p->count <= PIECES_MOST)
            refuse(p, &in_pieces, p->count - 1);
        refuse_alike(p, 0);
        refuse_alike(p, p->count - 1);
        if (p->way->holds && !p->way->hosts)
            give_up(p);
    }
    close_party(p, &p->meeting->all);
    return NULL;
}

/* The parties that are threads, in a process of their own. */
static void run_threads(const group_test *test, meeting *shared)
{
    static member members[MOST];
    gt_board *board = gt__board_new();
#if defined(__GLIBC__)
    malloc_trim(
        0); /* stores call it; where a sanitizer has replaced malloc, glibc's first call is not safe in several threads */
#endif
    for (unsigned k = 0; k < test->count; k++) {
        members[k] = (member){.test = test};
        members[k].party =
            (party){.way = test->way, .meeting = shared, .board = board, .self = k, .count = test->count};
        CHECK_EQ(pthread_create(&members[k].thread, NULL, take_part, &members[k]), 0);
    }
    for (unsigned k = 0; k < test->count; k++)
        pthread_join(members[k].thread, NULL);
    gt__board_free(board);
}

static pid_t start(const group_test *test, meeting *shared, unsigned self)
{
    static member alone;
    fflush(NULL);
    pid_t child = fork();
    if (child)
        return child;
    alarm(PATIENCE_S); /* ends the test if a member never gets its answer */
    if (test->way->by_links) {
        alone = (member){.test = test};
        alone.party = (party){.way = test->way, .meeting = shared, .self = self, .count = test->count};
        take_part(&alone);
    } else
        run_threads(test, shared);
    exit(atomic_load(&check_state.failures) != 0);
}

static void share_barrier(pthread_barrier_t *barrier, unsigned count)
{
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier, &attributes, count);
    pthread_barrierattr_destroy(&attributes);
}

static void test_group(const void *argument)
{
    const group_test *test = argument;
    meeting *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[MOST];
    unsigned processes = test->way->by_links ? test->count : 1;
    if (!CHECK(shared != MAP_FAILED))
        return;
    share_barrier(&shared->all, test->count);
    share_barrier(&shared->survivors, test->count > 1 ? test->count - 1 : 1);
    for (unsigned k = 0; k < processes; k++)
        children[k] = start(test, shared, k);
    for (unsigned k = 0; k < processes; k++) {
        int status = 0;
        waitpid(children[k], &status, 0);
        bool victim = test->way->by_links && test->op >= 0 && k == (test->op % 2 ? 0 : test->count - 1);
        if (!CHECK(victim ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                          : WIFEXITED(status) && WEXITSTATUS(status) == 0))
            fprintf(stderr, "%s: process %u of %u ended with status %#x%s\n", test->way->name, k, processes,
                    status, WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ": it waited for ever" : "");
    }
    munmap(shared, sizeof *shared);
}

/* Whether this build, or this machine, has that way. */
static bool is_there(const way *w)
{
    const gt_engine_ops *ops;
    char path[PATH_MAX];
    if (w->lane && !strcmp(w->lane, "ucx") && !gt__plugin_file("gt-exchange-ucx.so", path)) {
        printf("skipped: %s: this build is without libucx\n", w->name);
        return false;
    }
    pid_t child = fork(); /* a library that is loaded for the question may start threads */
    if (child == 0) {
        bool found = gt__engine_find(w->engine, &ops) == GT_OK;
        if (!found)
            printf("skipped: %s: %s\n", w->name, gt_error_text());
        fflush(stdout);
        _exit(!found);
    }
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void run_way(const way *w)
{
    enum { MOST_LENT_SANITIZED = 5 };
    static const unsigned few[] = {2, 3, 5, 16};
    const char *text = getenv("GT_TEST_PARTIES"); /* workers of the cuda engine: as many as cards */
    unsigned most = strcmp(w->engine, "cuda") ? MOST : text ? (unsigned)atoi(text) : 1;
    const bool all = getenv("GT_TEST_LONG");
    char name[64];
    if (!is_there(w))
        return;
    for (unsigned count = most == 1 ? 1 : 2; count <= most; count++) {
        bool chosen = all || most == 1;
        for (unsigned k = 0; k < sizeof few / sizeof few[0]; k++)
            chosen |= count == few[k] && (!w->apart || k == 1 || w->hosts);
        snprintf(name, sizeof name, "%s, %u workers", w->name, count);
        if (chosen && CHECK_SANITIZED && w->lends && count > MOST_LENT_SANITIZED) {
            printf("skipped: %s: sanitizers leave too few addresses for what the engine reserves\n", name);
            continue;
        }
        if (chosen)
            check_run(name, test_group, &(group_test){.way = w, .count = count, .op = -1});
        for (int op = 0; op < COLLECTIVES && chosen && count > 2 && (all || count == (w->hosts ? few[2] : few[1]));
             op++) {
            snprintf(name, sizeof name, "%s, %u workers, one dies in %s", w->name, count,
                     gt__op_table[collectives[op]].name);
            check_run(name, test_group, &(group_test){.way = w, .count = count, .op = op});
        }
    }
}

int main(int argc, char **argv)
{
    check_begin(1, argv);
    for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
        bool chosen = argc == 1;
        for (int a = 1; a < argc; a++)
            chosen |= !strcmp(argv[a], ways[k].name);
        if (chosen)
            run_way(&ways[k]);
    }
    return check_end();
}
