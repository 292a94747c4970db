/*
 * test_direct.c: tensors that go from one engine's memory to another's by UCX, without a copy on the host (worker/peers/direct.h): the
 * right values, also when memory is used again at once; workers that die or leave while a tensor is announced or on its way; and
 * a receiver that has no memory for it.
 *
 * Each worker is a process. Engines: far, whose memory the host cannot touch, and late, which has a queue. An argument names another.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engines/loader.h"
#include "worker/peers/exchange_mesh.h"
#include "worker_fixture.h"

enum {
    WORKERS = 3,
    MADE = 1,
    SUM = 2,
    CAME = 3,
    SCRATCH = 4,
    LARGE = 1 << 20,
    PATIENCE_S = CHECK_SANITIZED ? 300 : 60
};

typedef struct meeting {
    pthread_barrier_t all, two;
    char address[WORKERS][192];
    pid_t process[WORKERS];
} meeting;

typedef struct party {
    meeting *meeting;
    unsigned self;
    gt_worker worker;
    gt_engine_ops ops;
} party;

/* Large transfers between the engine's memory and the host's. */
static unsigned copies;
static gt_err (*engine_read)(gt_engine *, const void *, void *, size_t, bool, gt_token *);
static gt_err (*engine_write)(gt_engine *, void *, const void *, size_t, bool, gt_token *);

static gt_err counted_read(gt_engine *engine, const void *from, void *host, size_t bytes, bool timed,
                           gt_token *token)
{
    copies += bytes >= 1024;
    return engine_read(engine, from, host, bytes, timed, token);
}

static gt_err counted_write(gt_engine *engine, void *to, const void *host, size_t bytes, bool timed,
                            gt_token *token)
{
    copies += bytes >= 1024;
    return engine_write(engine, to, host, bytes, timed, token);
}

/* ---- parties -------------------------------------------------------------------------------------------------- */

/* A lane is open once both have read the other's offer. */
static void await_lane(party *p, unsigned other)
{
    uint64_t seen = 0;
    CHECK_EQ(gt__exchange_post(p->worker.exchange, (int32_t)other, 1, 9, "", 1, NULL), GT_OK);
    while (!gt__direct_to(&p->worker, (int32_t)other, LARGE))
        gt__exchange_wait(p->worker.exchange, &seen, 1);
}

static void open_party(party *p, const char *engine)
{
    static const gt_worker_options options;
    gt_worker *worker = &p->worker;
    meeting *m = p->meeting;
    setenv("GT_EXCHANGE", "ucx", 1);
    setenv("GT_LATE_LENDS", "1", 1);
    if (!worker_open(worker, engine))
        abort();
    worker->options = &options;
    p->ops = *worker->engine->ops;
    engine_read = p->ops.read;
    engine_write = p->ops.write;
    p->ops.read = counted_read;
    p->ops.write = counted_write;
    worker->engine->ops = &p->ops;
    CHECK_EQ(gt__exchange_mesh("localhost:1", NULL, NULL, &worker->exchange), GT_OK);
    gt_exchange *exchange = worker->exchange;
    exchange->ops->attach(exchange, worker->engine);
    if (!CHECK(exchange->direct))
        abort();
    exchange->ops->join(exchange, (int32_t)p->self, p->self + 1, 99);
    snprintf(m->address[p->self], sizeof m->address[0], "%s", exchange->ops->address(exchange));
    m->process[p->self] = getpid();
    pthread_barrier_wait(&m->all);
    for (unsigned k = 0; k < WORKERS; k++) {
        char name[16];
        snprintf(name, sizeof name, "w%u", k);
        if (k != p->self)
            exchange->ops->introduce(exchange, (int32_t)k, k + 1, name, m->address[k]);
    }
    for (unsigned k = 0; k < WORKERS; k++)
        if (k != p->self)
            await_lane(p, k);
    pthread_barrier_wait(&m->all);
}

static void close_party(party *p)
{
    gt_worker *worker = &p->worker;
    gt__late_drain(worker);
    worker->exchange->ops->leave(worker->exchange);
    gt__peers_reclaim(worker);
    worker->exchange->ops->close(worker->exchange);
    worker->exchange = NULL;
    worker_close(worker);
}

/* ---- tensors -------------------------------------------------------------------------------------------------- */

static void multiply(party *p, uint64_t slot, uint64_t from, int64_t factor)
{
    gt_slot record[8] = {
        {.ins = {.op = GT_OP_mul, .literals = GT_LITERAL_INT << 2, .result = slot, .operand = {from}}}};
    record->ins.literal[1].i = factor;
    execute(&p->worker, record);
}

/* 0, factor, 2 factor, ...; computed just before, by a queue if the engine has one. */
static void make(party *p, int64_t count, int64_t factor)
{
    execute_arange(&p->worker, MADE, count);
    multiply(p, SUM, MADE, factor);
}

static void clear(party *p, uint64_t slot)
{
    gt__store_clear(p->worker.store, gt__store_entry(p->worker.store, slot));
}

static void send_sum(party *p, unsigned to, uint64_t tag)
{
    gt_slot record = {.ins = {.op = GT_OP_send, .operand = {SUM}}};
    record.ins.imm[0].i = to;
    record.ins.imm[1].u = tag;
    CHECK(gt__peers_handle(&p->worker, &record.ins, NULL));
}

static gt_slot recv_record(unsigned from, uint64_t tag)
{
    gt_slot record = {.ins = {.op = GT_OP_recv, .dtype = GT_INT64, .rank = 1, .tail = 1, .result = CAME}};
    record.ins.imm[0].i = from;
    record.ins.imm[1].u = tag;
    return record;
}

static gt_entry *receive(party *p, unsigned from, uint64_t tag, int64_t count)
{
    gt_slot record[2] = {recv_record(from, tag), {.i64 = {count}}};
    CHECK(gt__peers_handle(&p->worker, &record->ins, record + 1));
    gt__late_drain(&p->worker);
    gt_entry *entry = gt__store_find(p->worker.store, CAME);
    gt__store_settle(p->worker.store, entry);
    return entry;
}

static void expect(party *p, int64_t count, int64_t factor)
{
    size_t bytes = 0;
    int64_t *got = read_tensor(&p->worker, CAME, &bytes);
    bool right = got && bytes == (size_t)count * sizeof *got;
    for (int64_t k = 0; right && k < count; k++)
        right = got[k] == k * factor;
    const gt_entry *entry = gt__store_find(p->worker.store, CAME);
    if (!CHECK(right) && entry && entry->state == GT_ENTRY_POISON)
        fprintf(stderr, "%s\n", entry->poison->text);
    free(got);
}

/* Wait until a message of this transfer is announced. */
static void await_announcement(party *p, unsigned from, uint64_t tag)
{
    gt_mesh *mesh = (gt_mesh *)p->worker.exchange;
    uint64_t seen = 0;
    for (bool found = false; !found;) {
        gt__exchange_wait(p->worker.exchange, &seen, 1);
        pthread_mutex_lock(&mesh->mutex);
        found = gt__mailbox_find(&mesh->arrived, &(gt_message_key){.from = (int32_t)from, .tag = tag},
                                 GT_MESSAGE_ANNOUNCED);
        pthread_mutex_unlock(&mesh->mutex);
    }
}

/* Everything that was lent is back. */
static void await_memory(party *p, uint64_t used)
{
    uint64_t seen = 0;
    while (p->worker.store->bytes_used > used) {
        gt__late_pay(&p->worker);
        gt__peers_reclaim(&p->worker);
        gt__exchange_wait(p->worker.exchange, &seen, 1);
    }
    CHECK_EQ(p->worker.store->bytes_used, used);
}

/* Worker `to` gets one more from `from`: they still understand each other. */
static void one_more(party *p, unsigned from, unsigned to, uint64_t tag)
{
    if (p->self == from) {
        make(p, LARGE / 8, (int64_t)tag);
        send_sum(p, to, tag);
        gt__late_pay(&p->worker);
    }
    if (p->self == to) {
        receive(p, from, tag, LARGE / 8);
        expect(p, LARGE / 8, (int64_t)tag);
        clear(p, CAME);
    }
}

/* ---- scenes --------------------------------------------------------------------------------------------------- */

/* All to all, of several sizes; the sender uses its memory again at once. */
static void exchange_tensors(party *p)
{
    static const int64_t counts[] = {(64 << 10) / 8, 100003, (8 << 20) / 8};
    uint64_t tag = 10;
    for (unsigned k = 0; k < sizeof counts / sizeof counts[0]; k++, tag += WORKERS * WORKERS) {
        for (unsigned to = 0; to < WORKERS; to++) {
            if (to == p->self)
                continue;
            make(p, counts[k], 3 + p->self + to);
            send_sum(p, to, tag + p->self * WORKERS + to);
            clear(p, SUM);
            multiply(p, SCRATCH, MADE, 0);
            clear(p, SCRATCH);
        }
        for (unsigned from = 0; from < WORKERS; from++) {
            if (from == p->self)
                continue;
            receive(p, from, tag + from * WORKERS + p->self, counts[k]);
            gt_entry *entry = gt__store_find(p->worker.store, CAME);
            CHECK_EQ(entry->state, GT_ENTRY_TENSOR);
            CHECK_EQ(copies, 0);
            expect(p, counts[k], 3 + from + p->self);
            copies = 0; /* of the comparison */
        }
    }
}

/* Worker 0 is sent a tensor by worker 1, which is killed: before it is fetched, and while it is on its way. */
static void lose_sender(party *p, bool on_its_way)
{
    int64_t count = (64 << 20) / 8;
    if (p->self == 1) {
        make(p, count, 2);
        send_sum(p, 0, 5);
        gt__late_pay(&p->worker);
        pause(); /* the receiver kills it */
    }
    if (p->self == 0) {
        uint64_t used = p->worker.store->bytes_used;
        await_announcement(p, 1, 5);
        if (on_its_way) {
            gt__direct_has_come(&p->worker, 1, 5, (size_t)count * 8);
            gt__late_pay(&p->worker);
        }
        kill(p->meeting->process[1], SIGKILL);
        const gt_entry *entry = receive(p, 1, 5, count);
        bool came = on_its_way && entry->state == GT_ENTRY_TENSOR; /* it was faster */
        CHECK(came || (entry->state == GT_ENTRY_POISON && entry->poison->err == GT_ERR_CONNECTION));
        if (came)
            expect(p, count, 2);
        clear(p, CAME);
        await_memory(p, used);
    }
    one_more(p, 0, 2, 6);
    one_more(p, 2, 0, 7);
}

static void lose_sender_before(party *p)
{
    lose_sender(p, false);
}

static void lose_sender_meanwhile(party *p)
{
    lose_sender(p, true);
}

/* Worker 1 is killed when it has heard of a tensor of worker 0, which gets its memory back. */
static void lose_receiver(party *p)
{
    if (p->self == 1) {
        await_announcement(p, 0, 5);
        raise(SIGKILL);
    }
    if (p->self == 0) {
        uint64_t used = p->worker.store->bytes_used;
        make(p, LARGE, 2);
        send_sum(p, 1, 5);
        clear(p, MADE);
        clear(p, SUM);
        await_memory(p, used);
    }
    one_more(p, 0, 2, 6);
}

/* The receiver has no memory for one, and has for the next. */
static void refuse(party *p)
{
    if (p->self == 1)
        for (unsigned k = 0; k < 2; k++) {
            make(p, LARGE, 2);
            send_sum(p, 0, 5 + k);
            gt__late_pay(&p->worker);
        }
    if (p->self == 0) {
        await_announcement(p, 1, 6);
        gt_store *store = p->worker.store;
        uint64_t limit = store->limit;
        await_announcement(p, 1, 5);
        store->limit = store->bytes_held + LARGE;
        const gt_entry *entry = receive(p, 1, 5, LARGE);
        CHECK(entry->state == GT_ENTRY_POISON && entry->poison->err == GT_ERR_MEMORY);
        store->limit = limit;
        receive(p, 1, 6, LARGE);
        expect(p, LARGE, 2);
    }
    pthread_barrier_wait(&p->meeting->all);
}

static gt_err cannot_enter(gt_engine *engine)
{
    (void)engine;
    return gt__fail(GT_ERR_INTERNAL, "a test");
}

/* The thread of worker 0 that moves messages cannot use the engine's memory: what was to arrive there and what was to leave are
 * failures, and the memory is given back. */
static void cannot_reach(party *p)
{
    uint64_t used = p->worker.store->bytes_used;
    if (p->self == 0) {
        p->ops.enter = cannot_enter;
        await_announcement(p, 1, 5);
        const gt_entry *entry = receive(p, 1, 5, LARGE);
        CHECK(entry->state == GT_ENTRY_POISON && entry->poison->err == GT_ERR_MEMORY);
        clear(p, CAME);
        make(p, LARGE, 2);
        send_sum(p, 2, 6);
        clear(p, MADE);
        clear(p, SUM);
        await_memory(p, used);
    }
    if (p->self == 1) {
        make(p, LARGE, 2);
        send_sum(p, 0, 5);
        gt__late_pay(&p->worker);
    }
    if (p->self == 2) {
        const gt_entry *entry = receive(p, 0, 6, LARGE);
        CHECK(entry->state == GT_ENTRY_POISON && entry->poison->err == GT_ERR_CONNECTION);
    }
    pthread_barrier_wait(&p->meeting->all);
}

/* Worker 0 leaves before it takes what it was told of, and worker 1 while a tensor of its own is on its way: that arrives. */
static void leave(party *p)
{
    uint64_t used = p->worker.store->bytes_used;
    if (p->self == 1) {
        make(p, LARGE, 2);
        send_sum(p, 0, 5);
        send_sum(p, 2, 5);
        gt__late_pay(&p->worker);
    }
    if (p->self != 1)
        await_announcement(p, 1, 5);
    pthread_barrier_wait(&p->meeting->all);
    if (p->self == 2) {
        receive(p, 1, 5, LARGE);
        expect(p, LARGE, 2);
        clear(p, CAME);
        await_memory(p, used);
    }
}

/* ---- running them --------------------------------------------------------------------------------------------- */

typedef struct scene {
    const char *name;
    void (*play)(party *p);
    bool dies; /* worker 1 */
} scene;

static const scene scenes[] = {
    {"tensors of all sizes", exchange_tensors, false},
    {"a sender dies before its tensor is fetched", lose_sender_before, true},
    {"a sender dies while its tensor is fetched", lose_sender_meanwhile, true},
    {"a receiver dies before it fetches", lose_receiver, true},
    {"no memory for a tensor", refuse, false},
    {"memory that the thread cannot reach", cannot_reach, false},
    {"workers leave", leave, false},
};

typedef struct performance {
    const scene *scene;
    const char *engine;
} performance;

static void share_barrier(pthread_barrier_t *barrier, unsigned count)
{
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier, &attributes, count);
    pthread_barrierattr_destroy(&attributes);
}

static pid_t start(const performance *of, meeting *shared, unsigned self)
{
    fflush(NULL);
    pid_t child = fork();
    if (child)
        return child;
    party p = {.meeting = shared, .self = self};
    alarm(PATIENCE_S); /* ends the test if one waits in vain */
    open_party(&p, of->engine);
    of->scene->play(&p);
    if (of->scene->dies)
        pthread_barrier_wait(&shared->two);
    close_party(&p);
    exit(atomic_load(&check_state.failures) != 0);
}

static void perform(const void *argument)
{
    const performance *of = argument;
    meeting *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[WORKERS];
    if (!CHECK(shared != MAP_FAILED))
        return;
    share_barrier(&shared->all, WORKERS);
    share_barrier(&shared->two, WORKERS - 1);
    for (unsigned k = 0; k < WORKERS; k++)
        children[k] = start(of, shared, k);
    for (unsigned k = 0; k < WORKERS; k++) {
        int status = 0;
        waitpid(children[k], &status, 0);
        bool victim = of->scene->dies && k == 1;
        if (!CHECK(victim ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                          : WIFEXITED(status) && WEXITSTATUS(status) == 0))
            fprintf(stderr, "worker %u ended with status %#x%s\n", k, status,
                    WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ": it waited for ever" : "");
    }
    munmap(shared, sizeof *shared);
}

int main(int argc, char **argv)
{
    static const char *const engines[] = {"far", "late"};
    check_begin(1, argv);
    for (unsigned k = 0; k < (argc > 1 ? 1 : 2); k++)
        for (unsigned s = 0; s < sizeof scenes / sizeof scenes[0]; s++) {
            performance of = {.scene = &scenes[s], .engine = argc > 1 ? argv[1] : engines[k]};
            char name[96];
            snprintf(name, sizeof name, "%s: %s", of.engine, of.scene->name);
            check_run(name, perform, &of);
        }
    return check_end();
}
