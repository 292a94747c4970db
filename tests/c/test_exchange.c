/*
 * test_exchange.c: workers among each other without a dispatcher: meshes that meet in an order that streams may bring
 * about, and collectives in which a party runs out of memory: the others end with an error. test_conformance.c has the rest.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "worker/peers/collective.h"
#include "worker/peers/mailbox.h"
#include "link/link.h"
#include "shortage.h"

enum { PARTIES = 3, PATIENCE_MS = 20000 };

static atomic_bool stop; /* ends what waits for ever */

/* `listen`: where it has a tcp port; NULL: it has none. */
static gt_exchange *mesh_at(const char *listen)
{
    gt_exchange *mesh = NULL;
    if (!CHECK_EQ(gt__exchange_mesh("localhost:1", listen, &stop, &mesh), GT_OK))
        abort();
    return mesh;
}

static gt_exchange *mesh_new(void)
{
    return mesh_at(NULL);
}

static void introduce(gt_exchange *to, int32_t worker, gt_exchange *whom)
{
    to->ops->introduce(to, worker, 1 + (gt_life)worker, "another", whom->ops->address(whom));
}

/* What worker 0 posted has come to worker 1. */
static void expect_message(gt_exchange *one, const char *text)
{
    gt_message *message;
    if (CHECK(gt__exchange_ready(one, 0, 5, 0, PATIENCE_MS)) &&
        CHECK_EQ(gt__exchange_take(one, 0, 5, 0, &message), GT_OK)) {
        CHECK_EQ(message->bytes, strlen(text));
        CHECK(memcmp(message->data, text, strlen(text)) == 0);
        one->ops->done(one, message);
    }
}

/* The other's stream has not got to where it hears of us. */
static void test_unintroduced(const void *argument)
{
    (void)argument;
    gt_exchange *zero = mesh_new(), *one = mesh_new();
    zero->ops->join(zero, 0, 1, 99);
    one->ops->join(one, 1, 2, 99);
    introduce(zero, 1, one);
    CHECK_EQ(gt__exchange_post(zero, 1, 5, 0, "hello", 5, &zero), GT_OK);
    while (!zero->ops->reclaim(zero)) /* it is under way before the other's worker does anything */
        sched_yield();
    expect_message(one, "hello");
    introduce(one, 0, zero);
    CHECK_EQ(gt__exchange_post(zero, 1, 5, 0, "again", 5, NULL), GT_OK);
    expect_message(one, "again");
    /* That the other is gone is heard at once, though the link is older than the introduction. */
    zero->ops->close(zero);
    gt_message *message;
    CHECK_EQ(gt__exchange_take(one, 0, 6, 0, &message), GT_ERR_CONNECTION);
    one->ops->close(one);
}

/* Memory that was lent for a message is returned when the exchange closes, also if the message was never taken. */
static void test_lent_at_the_end(const void *argument)
{
    const bool links = *(const bool *)argument;
    gt_board *board = gt__board_new();
    gt_exchange *one = NULL;
    int mine;
    if (links)
        one = mesh_new();
    else
        CHECK_EQ(gt__exchange_local(board, &stop, &one), GT_OK);
    one->ops->join(one, 0, 1, 99);
    for (int k = 0; k < 3; k++)
        CHECK_EQ(gt__exchange_post(one, 1, 5, (uint32_t)k, "lost", 4, &mine), GT_OK);
    CHECK(!one->ops->reclaim(one));
    one->ops->leave(one);
    for (int k = 0; k < 3; k++)
        CHECK(one->ops->reclaim(one) == &mine);
    CHECK(!one->ops->reclaim(one));
    one->ops->close(one);
    gt__board_free(board);
}

static void test_wrong_key(const void *argument)
{
    (void)argument;
    gt_exchange *zero = mesh_new(), *one = mesh_new();
    gt_message *message;
    zero->ops->join(zero, 0, 1, 99);
    one->ops->join(one, 1, 2, 98);
    introduce(zero, 1, one);
    CHECK_EQ(gt__exchange_post(zero, 1, 5, 0, "hello", 5, NULL), GT_OK);
    CHECK_EQ(gt__exchange_take(zero, 1, 6, 0, &message), GT_ERR_CONNECTION);
    zero->ops->close(zero);
    one->ops->close(one);
}

/* A worker takes a number that another had, and says so itself before our stream does. Neither the death of the
 * first nor that of the second is waited for: somebody may be waiting for what they were to send. */
static void test_successor(const void *argument)
{
    (void)argument;
    gt_exchange *first = mesh_new(), *second = mesh_new(), *one = mesh_new();
    gt_message *message;
    first->ops->join(first, 0, 1, 99);
    one->ops->join(one, 1, 2, 99);
    second->ops->join(second, 0, 3, 99);
    introduce(first, 1, one);
    one->ops->introduce(one, 0, 1, "first", first->ops->address(first));
    CHECK_EQ(gt__exchange_post(first, 1, 5, 0, "hello", 5, NULL), GT_OK);
    expect_message(one, "hello");
    introduce(second, 1, one);
    CHECK_EQ(gt__exchange_post(second, 1, 5, 0, "early", 5, NULL), GT_OK);
    CHECK(gt__exchange_ready(one, 0, 6, 0, PATIENCE_MS)); /* of the first, which has its link yet */
    CHECK_EQ(gt__exchange_take(one, 0, 6, 0, &message), GT_ERR_CONNECTION);
    one->ops->introduce(one, 0, 3, "second", second->ops->address(second));
    expect_message(one, "early");
    first->ops->close(first);
    CHECK_EQ(gt__exchange_post(second, 1, 5, 0, "again", 5, NULL), GT_OK);
    expect_message(one, "again");
    second->ops->close(second);
    CHECK(gt__exchange_ready(one, 0, 7, 0, PATIENCE_MS));
    CHECK_EQ(gt__exchange_take(one, 0, 7, 0, &message), GT_ERR_CONNECTION);
    one->ops->close(one);
}

/* It comes, and is gone before our stream tells us of it. */
static void test_brief_visit(const void *argument)
{
    (void)argument;
    gt_exchange *zero = mesh_new(), *one = mesh_new();
    char address[128];
    zero->ops->join(zero, 0, 1, 99);
    one->ops->join(one, 1, 2, 99);
    introduce(zero, 1, one);
    snprintf(address, sizeof address, "%s", zero->ops->address(zero));
    CHECK_EQ(gt__exchange_post(zero, 1, 5, 0, "hello", 5, NULL), GT_OK);
    expect_message(one, "hello");
    zero->ops->close(zero);
    CHECK(gt__exchange_ready(one, 0, 6, 0, PATIENCE_MS)); /* that it is gone is known */
    one->ops->introduce(one, 0, 1, "zero", address);
    CHECK(gt__exchange_ready(one, 0, 6, 0, PATIENCE_MS));
    one->ops->close(one);
}

/* Two workers that connect to each other at once have two links. When one of them is lost, so is what was in it, and nobody can tell
 * what that was: the worker is gone. It stays gone if it connects again. */
static void test_one_link_of_two(const void *argument)
{
    (void)argument;
    gt_exchange *one = mesh_new(), *zero[3];
    gt_message *message;
    one->ops->join(one, 1, 2, 99);
    for (int k = 0; k < 3; k++) { /* each has a link of the same worker */
        zero[k] = mesh_new();
        zero[k]->ops->join(zero[k], 0, 1, 99);
    }
    for (int k = 0; k < 2; k++) {
        introduce(zero[k], 1, one);
        CHECK_EQ(gt__exchange_post(zero[k], 1, 5, 0, "hello", 5, NULL), GT_OK);
        expect_message(one, "hello");
    }
    zero[0]->ops->close(zero[0]);
    CHECK(gt__exchange_ready(one, 0, 6, 0, PATIENCE_MS));
    CHECK(gt__exchange_ready(zero[1], 1, 6, 0, PATIENCE_MS)); /* both know it */
    introduce(zero[2], 1, one);
    CHECK_EQ(gt__exchange_post(zero[2], 1, 6, 0, "again", 5, NULL), GT_OK);
    CHECK(gt__exchange_ready(zero[2], 1, 6, 0, PATIENCE_MS)); /* it was turned away */
    CHECK(gt__exchange_ready(one, 0, 7, 0, 0));
    CHECK_EQ(gt__exchange_look(one, 0, 7, 0, &message), GT_ERR_CONNECTION);
    CHECK_EQ(gt__exchange_look(one, 0, 6, 0, &message), GT_ERR_CONNECTION);
    for (int k = 1; k < 3; k++)
        zero[k]->ops->close(zero[k]);
    one->ops->close(one);
}

/* It does not listen any more when we hear of it. That is known from the refusals, long before the time to connect is over. */
static void test_unreachable(const void *argument)
{
    gt_exchange *zero = mesh_at(argument), *one = mesh_new();
    char address[128], expected[256];
    gt_message *message;
    one->ops->join(one, 1, 2, 99);
    snprintf(address, sizeof address, "%s", zero->ops->address(zero));
    zero->ops->close(zero);
    one->ops->introduce(one, 0, 1, "zero", address);
    CHECK_EQ(gt__exchange_post(one, 0, 5, 0, "hello", 5, NULL), GT_OK);
    if (CHECK(gt__exchange_ready(one, 0, 6, 0, PATIENCE_MS)) &&
        CHECK_EQ(gt__exchange_take(one, 0, 6, 0, &message), GT_ERR_CONNECTION)) {
        snprintf(expected, sizeof expected, "worker zero could not be reached at %.*s", (int)strcspn(address, " "),
                 address);
        if (!CHECK(!strcmp(gt_error_text(), expected)))
            fprintf(stderr, "  it says: %s; expected: %s\n", gt_error_text(), expected);
    }
    one->ops->close(one);
}

/* A worker that we cannot reach may still reach us, later. What was sent to it meanwhile is there then. */
static void test_unreachable_for_us(const void *argument)
{
    (void)argument;
    gt_exchange *zero = mesh_new(), *one = mesh_new(), *other = mesh_new();
    char elsewhere[128];
    zero->ops->join(zero, 0, 1, 99);
    one->ops->join(one, 1, 2, 99);
    snprintf(elsewhere, sizeof elsewhere, "%s", other->ops->address(other));
    other->ops->close(other);
    zero->ops->introduce(zero, 1, 2, "one", elsewhere);
    CHECK_EQ(gt__exchange_post(zero, 1, 5, 0, "hello", 5, NULL), GT_OK);
    CHECK(gt__exchange_ready(zero, 1, 6, 0, PATIENCE_MS)); /* it is known that it cannot be reached */
    CHECK_EQ(gt__exchange_post(zero, 1, 6, 0, "again", 5, NULL), GT_OK);
    introduce(one, 0, zero);
    expect_message(one, "hello");
    gt_message *message;
    if (CHECK(gt__exchange_ready(one, 0, 6, 0, PATIENCE_MS)) &&
        CHECK_EQ(gt__exchange_take(one, 0, 6, 0, &message), GT_OK))
        one->ops->done(one, message);
    zero->ops->close(zero);
    one->ops->close(one);
}

/* A process that is stopped keeps its links open and says nothing. */
static void test_stopped_worker(const void *argument)
{
    (void)argument;
    int line[2];
    char address[128] = "";
    gt_message *message;
    if (!CHECK_EQ(pipe(line), 0))
        return;
    pid_t child = fork();
    if (child == 0) {
        gt_exchange *zero = mesh_new();
        zero->ops->join(zero, 0, 1, 99);
        snprintf(address, sizeof address, "%s", zero->ops->address(zero));
        ssize_t written = write(line[1], address, sizeof address);
        for (;;)
            written = pause();
        _exit((int)written);
    }
    gt_exchange *one = mesh_new();
    one->ops->join(one, 1, 2, 99);
    if (CHECK(child > 0) && CHECK_EQ(read(line[0], address, sizeof address), sizeof address)) {
        one->ops->introduce(one, 0, 1, "zero", address);
        CHECK_EQ(gt__exchange_post(one, 0, 5, 0, "hello", 5, &one), GT_OK);
        while (!one->ops->reclaim(one)) /* there is a link */
            sched_yield();
        kill(child, SIGSTOP);
        CHECK(gt__exchange_ready(one, 0, 6, 0, PATIENCE_MS));
        if (CHECK_EQ(gt__exchange_take(one, 0, 6, 0, &message), GT_ERR_CONNECTION))
            CHECK(strstr(gt_error_text(), "has been stopped"));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    close(line[0]);
    close(line[1]);
    one->ops->close(one);
}

/* A message that the receiver has no memory for is a failure of that transfer, and of no other. */
static void test_too_large(const void *argument)
{
    (void)argument;
    enum { BYTES = 60 << 10 }; /* goes in the stream */
    static const char data[BYTES];
    gt_exchange *zero = mesh_new(), *one = mesh_new();
    gt_message *message;
    zero->ops->join(zero, 0, 1, 99);
    one->ops->join(one, 1, 2, 99);
    introduce(zero, 1, one);
    introduce(one, 0, zero);
    atomic_store(&shortage_over, BYTES);
    CHECK_EQ(gt__exchange_post(zero, 1, 4, 0, data, BYTES, &one), GT_OK);
    if (CHECK(gt__exchange_ready(one, 0, 4, 0, PATIENCE_MS)) &&
        CHECK_EQ(gt__exchange_take(one, 0, 4, 0, &message), GT_OK)) {
        CHECK_EQ(message->err, GT_ERR_MEMORY);
        one->ops->done(one, message);
    }
    atomic_store(&shortage_over, 0);
    CHECK_EQ(gt__exchange_post(zero, 1, 5, 0, "small", 5, NULL), GT_OK);
    expect_message(one, "small");
    zero->ops->close(zero);
    one->ops->close(one);
}

/* ---- collectives --------------------------------------------------------------------------------------------- */

/* The whole is (rows, COLUMNS); before, a party has a third of the rows, and after, of the columns. */
enum { COLUMNS = 2 * PARTIES, FEW_ROWS = PARTIES, MANY_ROWS = 20000 * PARTIES };

typedef struct party {
    pthread_t thread;
    gt_exchange *exchange;
    gt_engine *engine;
    gt_store *store;
    gt_collective *collective;
    gt_collective_call call;
    gt_partner partners[PARTIES];
    gt_meta whole;
    gt_view in, out;
    bool runs_short, lasts; /* of memory: from its allocation `after` on */
    unsigned after;
    bool struck;
    gt_err err;
} party;

typedef struct group {
    gt_board *board; /* NULL: they meet by links */
    uint64_t tag;
    party party[PARTIES];
} group;

static void group_new(group *g, bool by_links)
{
    gt_engine_options options = {.threads = 1};
    *g = (group){.board = by_links ? NULL : gt__board_new()};
    for (unsigned k = 0; k < PARTIES; k++) {
        party *p = &g->party[k];
        if (by_links)
            p->exchange = mesh_new();
        else
            CHECK_EQ(gt__exchange_local(g->board, &stop, &p->exchange), GT_OK);
        p->exchange->ops->join(p->exchange, (int32_t)k, 1 + k, 99);
        CHECK_EQ(gt__engine_reference.open(&options, &p->engine), GT_OK);
        CHECK_EQ(gt__store_new(p->engine, &p->store), GT_OK);
        CHECK_EQ(gt__collective_host(p->exchange, p->engine, p->store, &p->collective), GT_OK);
    }
    for (unsigned k = 0; k < PARTIES; k++)
        for (unsigned other = 0; other < PARTIES; other++)
            if (other != k)
                introduce(g->party[k].exchange, (int32_t)other, g->party[other].exchange);
}

static void group_free(group *g)
{
    for (unsigned k = 0; k < PARTIES; k++) {
        party *p = &g->party[k];
        p->collective->ops->close(p->collective);
        p->exchange->ops->close(p->exchange);
    }
    for (unsigned k = 0; k < PARTIES; k++) { /* when nobody reads what it lent any more */
        gt__store_free(&g->party[k].store);
        g->party[k].engine->ops->close(g->party[k].engine);
    }
    gt__board_free(g->board);
}

static gt_meta shape_of(int64_t rows, int64_t columns)
{
    gt_meta meta;
    CHECK_EQ(gt__meta_set(&meta, GT_FLOAT32, 2, (int64_t[]){rows, columns}), GT_OK);
    return meta;
}

/* Party k gives k + 1 in every element. */
static void party_prepare(party *p, gt_opcode op, uint64_t tag, unsigned self, int64_t rows)
{
    bool parts_before = op == GT_OP_all_gather || op == GT_OP_all_to_all;
    bool parts_after = op == GT_OP_reduce_scatter || op == GT_OP_all_to_all;
    for (unsigned k = 0; k < PARTIES; k++)
        p->partners[k] = (gt_partner){.worker = k, .start = rows / PARTIES * k, .start_after = 2 * k};
    p->whole = shape_of(rows, COLUMNS);
    p->in.meta = shape_of(parts_before ? rows / PARTIES : rows, COLUMNS);
    p->out.meta = shape_of(rows, parts_after ? 2 : COLUMNS);
    p->runs_short = p->struck = false;
    p->call = (gt_collective_call){.op = op,
                                   .tag = tag,
                                   .self = self,
                                   .count = PARTIES,
                                   .party = p->partners,
                                   .axis = 0,
                                   .axis_after = 1,
                                   .whole = &p->whole};
    CHECK_EQ(gt__store_allocate(p->store, &p->out, &p->call.out_buffer), GT_OK);
    p->call.out = &p->out;
    if (op == GT_OP_broadcast && self)
        return;
    CHECK_EQ(gt__store_allocate(p->store, &p->in, &p->call.buffer), GT_OK);
    for (int64_t k = 0; k < p->in.meta.numel; k++)
        ((float *)p->in.data)[k] = (float)(self + 1);
    p->call.in = &p->in;
}

static void *party_main(void *argument)
{
    party *p = argument;
    if (p->runs_short)
        shortage_begin(p->after, p->lasts);
    p->err = p->collective->ops->run(p->collective, &p->call);
    p->struck = p->runs_short && shortage_end();
    return NULL;
}

static void await_party(party *p)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    if (CHECK_EQ(pthread_timedjoin_np(p->thread, NULL, &until), 0))
        return;
    atomic_store(&stop, true); /* it waits for ever */
    pthread_join(p->thread, NULL);
}

static float expected_at(gt_opcode op, int64_t row, int64_t rows)
{
    if (op == GT_OP_all_reduce || op == GT_OP_reduce_scatter)
        return 6;
    return op == GT_OP_broadcast ? 1 : 1 + (float)(row / (rows / PARTIES));
}

/* A result that is there is right, and nothing is left behind: no message, and, once all is sent, no memory. */
static void party_finish(party *p)
{
    int64_t columns = p->out.meta.shape[1];
    gt_store_stats stats;
    if (p->err == GT_OK)
        for (int64_t k = 0; k < p->out.meta.numel; k++)
            if (!CHECK(((const float *)p->out.data)[k] == expected_at(p->call.op, k / columns, p->whole.shape[0])))
                break;
    if (p->call.buffer)
        gt__buffer_release(p->store, p->call.buffer);
    if (p->call.out_buffer)
        gt__buffer_release(p->store, p->call.out_buffer);
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    void *lent;
    do {
        while ((lent = p->exchange->ops->reclaim(p->exchange)))
            gt__buffer_release(p->store, lent);
        gt__store_stats(p->store, &stats);
    } while (stats.bytes_used && CHECK(gt__remaining_ms(deadline)));
    pthread_mutex_lock(p->exchange->mutex);
    CHECK_EQ(p->exchange->mailbox->count, 0);
    pthread_mutex_unlock(p->exchange->mutex);
}

static void group_run(group *g)
{
    for (unsigned k = 0; k < PARTIES; k++)
        CHECK_EQ(pthread_create(&g->party[k].thread, NULL, party_main, &g->party[k]), 0);
    for (unsigned k = 0; k < PARTIES; k++)
        await_party(&g->party[k]);
    for (unsigned k = 0; k < PARTIES; k++)
        party_finish(&g->party[k]);
}

static const gt_opcode collectives[] = {GT_OP_broadcast, GT_OP_all_reduce, GT_OP_reduce_scatter, GT_OP_all_gather,
                                        GT_OP_all_to_all};
enum { COLLECTIVES = sizeof collectives / sizeof collectives[0] };

/* Memory runs out in the middle, for an allocation or from there on. True: it did. */
static bool run_short(group *g, gt_opcode op, int64_t rows, unsigned failing, unsigned after, bool lasts)
{
    g->tag++;
    for (unsigned k = 0; k < PARTIES; k++)
        party_prepare(&g->party[k], op, g->tag, k, rows);
    party *p = &g->party[failing];
    p->runs_short = true;
    p->after = after;
    p->lasts = lasts;
    group_run(g);
    CHECK_EQ(p->err, p->struck ? GT_ERR_MEMORY : GT_OK);
    for (unsigned k = 0; k < PARTIES; k++)
        CHECK(g->party[k].err == GT_OK || (p->struck && g->party[k].err == GT_ERR_MEMORY));
    return p->struck;
}

static void test_shortages(const void *argument)
{
    enum { MOST = 100 };
    group g;
    group_new(&g, *(const bool *)argument);
    for (size_t k = 0; k < COLLECTIVES; k++)
        for (unsigned failing = 0; failing < PARTIES; failing++)
            for (unsigned kind = 0; kind < 4 && !atomic_load(&stop); kind++) {
                unsigned after = 0;
                int64_t rows = kind & 1 ? MANY_ROWS : FEW_ROWS;
                while (after < MOST && run_short(&g, collectives[k], rows, failing, after, kind & 2))
                    after++;
                CHECK(after < MOST);
            }
    atomic_store(&stop, false);
    group_free(&g);
}

/* ---- many messages ---------------------------------------------------------------------------------------------- */

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A worker that is behind gets as many as others send: a drained worker sends all of its tensors. To find one among them, and to
 * take back the memory of those that were read, takes no longer for that. */
static void test_many(const void *argument)
{
    enum { MANY = 150000, MOST_S = 20 };
    const bool links = *(const bool *)argument;
    gt_board *board = gt__board_new();
    gt_exchange *end[2];
    int mine;
    unsigned back = 0;
    for (int32_t k = 0; k < 2; k++) {
        if (links)
            end[k] = mesh_new();
        else
            CHECK_EQ(gt__exchange_local(board, &stop, &end[k]), GT_OK);
        end[k]->ops->join(end[k], k, 1 + (gt_life)k, 99);
    }
    introduce(end[0], 1, end[1]);
    introduce(end[1], 0, end[0]);
    double before = processor_seconds();
    for (uint64_t k = 1; k <= MANY; k++) {
        CHECK_EQ(gt__exchange_post(end[0], 1, k, 0, "1234567", 8, &mine), GT_OK);
        back += end[0]->ops->reclaim(end[0]) != NULL;
    }
    CHECK(gt__exchange_ready(end[1], 0, MANY, 0, PATIENCE_MS));
    for (uint64_t k = 1; k <= MANY && processor_seconds() - before < MOST_S; k++) {
        gt_message *message = NULL;
        CHECK_EQ(gt__exchange_take(end[1], 0, k, 0, &message), GT_OK);
        if (message)
            end[1]->ops->done(end[1], message);
        back += end[0]->ops->reclaim(end[0]) != NULL;
    }
    CHECK(processor_seconds() - before < MOST_S);
    end[0]->ops->leave(end[0]);
    while (end[0]->ops->reclaim(end[0]))
        back++;
    CHECK_EQ(back, MANY);
    for (int k = 0; k < 2; k++)
        end[k]->ops->close(end[k]);
    gt__board_free(board);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    setenv("GT_TIMEOUT", "1", 1);
    setenv("GT_CONNECT_TIMEOUT", "1000", 1); /* what waits for that has not noticed */
    check_run("a worker that was not introduced yet", test_unintroduced, NULL);
    check_run("a worker of another server", test_wrong_key, NULL);
    check_run("a worker that takes another's number", test_successor, NULL);
    check_run("a worker that is gone when we hear of it", test_brief_visit, NULL);
    check_run("a worker that loses one of two links", test_one_link_of_two, NULL);
    check_run("a worker that cannot be reached", test_unreachable, NULL);
    check_run("a worker that cannot be reached, by tcp", test_unreachable, "127.0.0.1");
    check_run("a worker that can reach us only", test_unreachable_for_us, NULL);
    check_run("a worker that is stopped", test_stopped_worker, NULL);
    check_run("a message that is too large", test_too_large, NULL);
    check_run("lent memory at the end", test_lent_at_the_end, &(bool){false});
    check_run("lent memory at the end, by links", test_lent_at_the_end, &(bool){true});
    for (int links = 0; links < 2; links++) {
        bool by_links = links;
        check_run(links ? "many messages, by links" : "many messages", test_many, &by_links);
        check_run(links ? "memory that runs out, by links" : "memory that runs out", test_shortages, &by_links);
    }
    return check_end();
}
