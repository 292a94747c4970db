/*
 * test_exchange.c: workers among each other without a dispatcher: meshes that meet in an order that streams may bring
 * about, and collectives in which a party cannot take part: nobody waits for ever.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "collective.h"

enum { PARTIES = 3, PATIENCE_MS = 20000 };

static atomic_bool stop; /* ends what waits for ever */

static gt_exchange *mesh_new(void)
{
    gt_exchange *mesh = NULL;
    if (!CHECK_EQ(gt__exchange_mesh("localhost:1", &stop, &mesh), GT_OK))
        abort();
    return mesh;
}

static void introduce(gt_exchange *to, int32_t worker, gt_exchange *whom)
{
    to->ops->introduce(to, worker, "another", whom->ops->address(whom));
}

/* What worker 0 posted has come to worker 1. */
static void expect_message(gt_exchange *one, const char *text)
{
    gt_message *message;
    if (CHECK(one->ops->ready(one, 0, 5, 0, PATIENCE_MS)) &&
        CHECK_EQ(one->ops->take(one, 0, 5, 0, &message), GT_OK)) {
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
    zero->ops->join(zero, 0, 99);
    one->ops->join(one, 1, 99);
    introduce(zero, 1, one);
    CHECK_EQ(zero->ops->post(zero, 1, 5, 0, GT_OK, "hello", 5, &zero), GT_OK);
    while (!zero->ops->reclaim(zero)) /* it is under way before the other's worker does anything */
        sched_yield();
    expect_message(one, "hello");
    introduce(one, 0, zero);
    CHECK_EQ(zero->ops->post(zero, 1, 5, 0, GT_OK, "again", 5, NULL), GT_OK);
    expect_message(one, "again");
    /* That the other is gone is heard at once, though the link is older than the introduction. */
    zero->ops->close(zero);
    gt_message *message;
    CHECK_EQ(one->ops->take(one, 0, 6, 0, &message), GT_ERR_CONNECTION);
    one->ops->close(one);
}

static void test_wrong_key(const void *argument)
{
    (void)argument;
    gt_exchange *zero = mesh_new(), *one = mesh_new();
    gt_message *message;
    zero->ops->join(zero, 0, 99);
    one->ops->join(one, 1, 98);
    introduce(zero, 1, one);
    CHECK_EQ(zero->ops->post(zero, 1, 5, 0, GT_OK, "hello", 5, NULL), GT_OK);
    CHECK_EQ(zero->ops->take(zero, 1, 6, 0, &message), GT_ERR_CONNECTION);
    zero->ops->close(zero);
    one->ops->close(one);
}

/* ---- collectives --------------------------------------------------------------------------------------------- */

typedef struct party {
    pthread_t thread;
    gt_exchange *exchange;
    gt_engine *engine;
    gt_store *store;
    gt_collective *collective;
    gt_collective_call call;
    gt_view in, out;
    gt_err err;
} party;

static const gt_partner partners[PARTIES] = {{.worker = 0}, {.worker = 1}, {.worker = 2}};

static void party_new(party *p, gt_opcode op, unsigned self, int64_t elements, const gt_poison *poison)
{
    const gt_engine_ops *ops;
    gt_engine_options options = {.threads = 1};
    bool gives = op != GT_OP_broadcast || self == 0;
    *p = (party){.exchange = mesh_new()};
    p->exchange->ops->join(p->exchange, (int32_t)self, 99);
    CHECK_EQ(gt__engine_find("reference", &ops), GT_OK);
    CHECK_EQ(ops->open(&options, &p->engine), GT_OK);
    CHECK_EQ(gt__store_new(p->engine, &p->store), GT_OK);
    CHECK_EQ(gt__collective_host(p->exchange, p->engine, p->store, &p->collective), GT_OK);
    CHECK_EQ(gt__meta_set(&p->in.meta, GT_FLOAT32, 1, &elements), GT_OK);
    p->out.meta = p->in.meta;
    p->call = (gt_collective_call){
        .op = op, .tag = 7, .self = self, .count = PARTIES, .party = partners, .whole = &p->in.meta, .poison = poison};
    if (poison)
        return;
    CHECK_EQ(gt__store_allocate(p->store, &p->out, &p->call.out_buffer), GT_OK);
    p->call.out = &p->out;
    if (!gives)
        return;
    CHECK_EQ(gt__store_allocate(p->store, &p->in, &p->call.buffer), GT_OK);
    memset(p->in.data, 0, gt__meta_bytes(&p->in.meta));
    p->call.in = &p->in;
}

/* When nobody waits for it any more: what it lent is in its store. */
static void party_free(party *p)
{
    p->collective->ops->close(p->collective);
    for (void *lent; (lent = p->exchange->ops->reclaim(p->exchange));)
        gt__buffer_release(p->store, lent);
    p->exchange->ops->close(p->exchange);
    if (p->call.out_buffer)
        gt__buffer_release(p->store, p->call.out_buffer);
    if (p->call.buffer)
        gt__buffer_release(p->store, p->call.buffer);
    gt__store_free(&p->store);
    p->engine->ops->close(p->engine);
}

static void *party_main(void *argument)
{
    party *p = argument;
    p->err = p->collective->ops->run(p->collective, &p->call);
    return NULL;
}

static void run_parties(gt_opcode op, int64_t elements, unsigned failing)
{
    party parties[PARTIES];
    struct timespec until;
    gt_poison *poison = gt__poison_new(GT_ERR_MEMORY, "no room for it");
    for (unsigned k = 0; k < PARTIES; k++)
        party_new(&parties[k], op, k, elements, k == failing ? poison : NULL);
    for (unsigned k = 0; k < PARTIES; k++)
        for (unsigned other = 0; other < PARTIES; other++)
            if (other != k)
                introduce(parties[k].exchange, (int32_t)other, parties[other].exchange);
    for (unsigned k = 0; k < PARTIES; k++)
        CHECK_EQ(pthread_create(&parties[k].thread, NULL, party_main, &parties[k]), 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    for (unsigned k = 0; k < PARTIES; k++) {
        if (CHECK_EQ(pthread_timedjoin_np(parties[k].thread, NULL, &until), 0))
            continue;
        atomic_store(&stop, true);
        pthread_join(parties[k].thread, NULL);
    }
    CHECK_EQ(parties[failing].err, GT_ERR_MEMORY);
    for (unsigned k = 0; k < PARTIES; k++)
        CHECK(parties[k].err == GT_ERR_MEMORY || (op == GT_OP_broadcast && failing && parties[k].err == GT_OK));
    for (unsigned k = 0; k < PARTIES; k++)
        party_free(&parties[k]);
    gt__poison_release(poison);
    atomic_store(&stop, false);
}

static void test_refusals(const void *argument)
{
    (void)argument;
    static const gt_opcode ops[] = {GT_OP_broadcast, GT_OP_all_reduce};
    for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++)
        for (unsigned failing = 0; failing < PARTIES; failing++) {
            run_parties(ops[k], 16, failing);
            run_parties(ops[k], 1 << 20, failing);
        }
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("a worker that was not introduced yet", test_unintroduced, NULL);
    check_run("a worker of another server", test_wrong_key, NULL);
    check_run("a party that cannot take part", test_refusals, NULL);
    return check_end();
}
