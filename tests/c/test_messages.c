/*
 * test_messages.c: what every exchange between processes does with messages: of all sizes, many, in any order, with memory that is
 * lent, and with a worker that dies in the middle. GT_EXCHANGE chooses which; meson.build runs this with each.
 */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "link/hello.h"
#include "link/link.h"
#include "worker/peers/exchange_mesh.h"

enum { PATIENCE_MS = 60000, LARGE = 64 << 20, TAG = 5 };

static gt_exchange *worker_new(int32_t number)
{
    gt_exchange *exchange = NULL;
    if (!CHECK_EQ(gt__exchange_mesh("localhost:1", NULL, NULL, &exchange), GT_OK))
        abort();
    ((gt_mesh *)exchange)->lane_from = 0; /* small ones, too */
    CHECK_EQ(exchange->ops->join(exchange, number, 1 + (gt_life)number, 99), GT_OK);
    return exchange;
}

static void introduce(gt_exchange *to, const gt_exchange *whom, const char *address)
{
    to->ops->introduce(to, whom->self, 1 + (gt_life)whom->self, "another", address);
}

static void introduce_both(gt_exchange *one, gt_exchange *other)
{
    introduce(one, other, other->ops->address(other));
    introduce(other, one, one->ops->address(one));
}

/* Every byte depends on its place and on the message. */
static uint8_t byte_at(size_t place, uint32_t number)
{
    return (uint8_t)((place * 2654435761u >> 13) + number * 7);
}

static uint8_t *bytes_new(size_t bytes, uint32_t number)
{
    uint8_t *data = malloc(bytes + 1);
    for (size_t k = 0; data && k < bytes; k++)
        data[k] = byte_at(k, number);
    return data;
}

static void expect_bytes(gt_exchange *to, int32_t from, uint64_t tag, uint32_t number, size_t bytes)
{
    gt_message *message;
    if (!CHECK(gt__exchange_ready(to, from, tag, number, PATIENCE_MS)) ||
        !CHECK_EQ(gt__exchange_take(to, from, tag, number, &message), GT_OK))
        return;
    CHECK_EQ(message->err, GT_OK);
    CHECK_EQ(message->key.from, from);
    CHECK_EQ(message->bytes, bytes);
    size_t wrong = 0;
    for (size_t k = 0; k < message->bytes; k++)
        wrong += ((const uint8_t *)message->data)[k] != byte_at(k, number);
    CHECK_EQ(wrong, 0);
    to->ops->done(to, message);
}

static void post_bytes(gt_exchange *from, int32_t to, uint64_t tag, uint32_t number, size_t bytes)
{
    uint8_t *data = bytes_new(bytes, number);
    CHECK_EQ(gt__exchange_post(from, to, tag, number, data, bytes, NULL), GT_OK);
    free(data);
}

/* What was asked for is used: messages are sent until some go by it. */
static void await_lane(gt_exchange *from, gt_exchange *to)
{
    gt_mesh *mesh = (gt_mesh *)from;
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    for (uint32_t k = 0; mesh->lane && !atomic_load(&mesh->by_lane) && CHECK(gt__remaining_ms(deadline)); k++) {
        post_bytes(from, to->self, 1, k, 10);
        expect_bytes(to, from->self, 1, k, 10);
    }
}

static const size_t sizes[] = {
    0, 1, 7, 63, 64, 65, 1000, 4095, 8192, 32767, 32769, 64 << 10, 65537, 1000003, (1 << 20) + 1, 5000011, LARGE};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* In both directions, and taken in another order than sent. */
static void test_sizes(const void *argument)
{
    (void)argument;
    gt_exchange *zero = worker_new(0), *one = worker_new(1);
    introduce_both(zero, one);
    await_lane(zero, one);
    await_lane(one, zero);
    for (uint32_t k = 0; k < SIZES; k++) {
        post_bytes(zero, 1, TAG, k, sizes[k]);
        post_bytes(one, 0, TAG, k, sizes[k]);
    }
    for (uint32_t k = SIZES; k-- > 0;) {
        expect_bytes(one, 0, TAG, k, sizes[k]);
        expect_bytes(zero, 1, TAG, k, sizes[k]);
    }
    zero->ops->close(zero);
    one->ops->close(one);
}

static void test_many(const void *argument)
{
    (void)argument;
    enum { MANY = 20000 };
    gt_exchange *zero = worker_new(0), *one = worker_new(1);
    introduce_both(zero, one);
    await_lane(zero, one);
    for (uint32_t batch = 0; batch < MANY; batch += 100) { /* a wait looks through all that are there */
        for (uint32_t k = batch; k < batch + 100; k++)
            post_bytes(zero, 1, TAG, k, k % 300);
        for (uint32_t k = batch + 100; k-- > batch;)
            expect_bytes(one, 0, TAG, k, k % 300);
    }
    zero->ops->close(zero);
    one->ops->close(one);
}

/* Memory that was lent comes back once, when the other does not read it any more. */
static void test_lent(const void *argument)
{
    (void)argument;
    enum { TIMES = 8, BYTES = 3 << 20 };
    gt_exchange *zero = worker_new(0), *one = worker_new(1);
    introduce_both(zero, one);
    await_lane(zero, one);
    for (uint32_t k = 0; k < TIMES; k++) {
        uint8_t *data = bytes_new(BYTES, k);
        void *back;
        CHECK_EQ(gt__exchange_post(zero, 1, TAG, k, data, BYTES, data), GT_OK);
        uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
        while (!(back = zero->ops->reclaim(zero)) && CHECK(gt__remaining_ms(deadline)))
            sched_yield();
        CHECK(back == data);
        memset(data, 0xee, BYTES); /* the receiver has the bytes as they were */
        free(data);
        expect_bytes(one, 0, TAG, k, BYTES);
    }
    CHECK(!zero->ops->reclaim(zero));
    zero->ops->close(zero);
    one->ops->close(one);
}

/* What was sent before a worker leaves still arrives; then it is gone. */
static void test_leaves(const void *argument)
{
    (void)argument;
    gt_exchange *zero = worker_new(0), *one = worker_new(1);
    introduce_both(zero, one);
    await_lane(zero, one);
    for (uint32_t k = 0; k < 4; k++)
        post_bytes(zero, 1, TAG, k, 100000 + k);
    uint8_t *last = bytes_new(10, 4);
    CHECK_EQ(gt__exchange_post(zero, 1, TAG, 4, last, 10, last), GT_OK);
    while (!zero->ops->reclaim(zero)) /* the last is under way, and all before it */
        sched_yield();
    zero->ops->close(zero);
    free(last);
    for (uint32_t k = 0; k < 4; k++)
        expect_bytes(one, 0, TAG, k, 100000 + k);
    expect_bytes(one, 0, TAG, 4, 10);
    CHECK(gt__exchange_ready(one, 0, 6, 0, PATIENCE_MS));
    gt_message *message;
    CHECK_EQ(gt__exchange_take(one, 0, 6, 0, &message), GT_ERR_CONNECTION);
    CHECK(strstr(gt_error_text(), "worker another is gone"));
    one->ops->close(one);
}

/* A process that sends large messages for ever, to worker 1, whose address comes by `line`. */
static void send_for_ever(int in, int out)
{
    gt_exchange *zero = worker_new(0);
    gt_exchange one = {.self = 1};
    char address[128];
    snprintf(address, sizeof address, "%s", zero->ops->address(zero));
    if (write(out, address, sizeof address) != sizeof address || read(in, address, sizeof address) <= 0)
        _exit(1);
    introduce(zero, &one, address);
    uint8_t *data = bytes_new(LARGE, 0);
    for (uint32_t k = 0;; k++) {
        if (gt__exchange_post(zero, 1, TAG, k, data, LARGE, data) != GT_OK)
            _exit(1);
        while (!zero->ops->reclaim(zero))
            sched_yield();
    }
}

/* A sender is killed while it sends: the receiver that waits gets an error, and other pairs go on. */
static void test_death(const void *argument)
{
    (void)argument;
    int up[2], down[2];
    char address[128] = "";
    gt_message *message;
    if (!CHECK_EQ(pipe(up), 0) || !CHECK_EQ(pipe(down), 0))
        return;
    pid_t child = fork();
    if (child == 0)
        send_for_ever(down[0], up[1]);
    gt_exchange *one = worker_new(1), *two = worker_new(2), zero = {.self = 0};
    introduce_both(one, two);
    if (CHECK(child > 0) && CHECK_EQ(read(up[0], address, sizeof address), sizeof address)) {
        introduce(one, &zero, address);
        snprintf(address, sizeof address, "%s", one->ops->address(one));
        CHECK_EQ(write(down[1], address, sizeof address), sizeof address);
        uint32_t number = 0;
        for (; number < 3; number++) {
            CHECK(gt__exchange_ready(one, 0, TAG, number, PATIENCE_MS));
            if (CHECK_EQ(gt__exchange_take(one, 0, TAG, number, &message), GT_OK)) {
                CHECK_EQ(message->bytes, LARGE);
                one->ops->done(one, message);
            }
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        gt_err err;
        do {
            if (!CHECK(gt__exchange_ready(one, 0, TAG, number, PATIENCE_MS)))
                break;
            err = gt__exchange_take(one, 0, TAG, number++, &message);
            if (err == GT_OK)
                one->ops->done(one, message);
        } while (err == GT_OK);
        CHECK_EQ(err, GT_ERR_CONNECTION);
        CHECK(strstr(gt_error_text(), "worker another is gone"));
        post_bytes(one, 2, TAG, 0, 1000003);
        expect_bytes(two, 1, TAG, 0, 1000003);
    }
    one->ops->close(one);
    two->ops->close(two);
    for (int k = 0; k < 2; k++) {
        close(up[k]);
        close(down[k]);
    }
}

/* ---- a lane that fails --------------------------------------------------------------------------------------- */

/* The lane of one mesh, of which a test counts the ends and lets one fail. */
static struct {
    const gt_lane_ops *ops;
    gt_mesh *mesh;
    atomic_uint connected;
    atomic_bool fails;
} frail;

static bool frail_connect(gt_lane_end *end, const void *offer, size_t bytes)
{
    bool connected = frail.ops->connect(end, offer, bytes);
    atomic_fetch_add(&frail.connected, connected);
    return connected;
}

static bool frail_progress(gt_lane *lane)
{
    gt_mesh_link *end = frail.mesh->links;
    if (end && atomic_exchange(&frail.fails, false)) {
        end->ends_by = gt__deadline_ns(0);
        snprintf(end->why, sizeof end->why, "a test");
    }
    return frail.ops->progress(lane);
}

/* A second link, as two workers have that connect to each other at the same time. */
static void connect_again(gt_exchange *from, gt_exchange *to)
{
    gt_mesh *mesh = (gt_mesh *)from;
    char address[128];
    gt_link *link;
    snprintf(address, sizeof address, "memory://%s", ((gt_mesh *)to)->place);
    if (!CHECK_EQ(gt__address_connect_with(address, NULL, PATIENCE_MS, &link), GT_OK))
        return;
    pthread_mutex_lock(&mesh->mutex);
    CHECK(!mesh->peers[to->self]->fresh);
    mesh->peers[to->self]->fresh = link;
    pthread_mutex_unlock(&mesh->mutex);
    gt__mesh_wake(mesh);
}

/* The lane of one of two links fails, and with it what was on its way: a worker that waits for that gets an error. */
static void test_lane_fails(const void *argument)
{
    (void)argument;
    gt_exchange *zero = worker_new(0), *one = worker_new(1);
    gt_mesh *mesh = (gt_mesh *)one;
    gt_lane_ops ops;
    gt_message *message;
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    if (mesh->lane) {
        frail.ops = mesh->lane_ops;
        frail.mesh = mesh;
        ops = *frail.ops;
        ops.connect = frail_connect;
        ops.progress = frail_progress;
        mesh->lane_ops = &ops;                        /* links come later */
        introduce(zero, one, one->ops->address(one)); /* only it connects, once */
        await_lane(zero, one);
        unsigned before = atomic_load(&frail.connected);
        connect_again(zero, one);
        while (atomic_load(&frail.connected) == before && CHECK(gt__remaining_ms(deadline)))
            sched_yield();
        atomic_store(&frail.fails, true);
        gt__mesh_wake(mesh);
        CHECK(gt__exchange_ready(one, 0, TAG, 0, PATIENCE_MS));
        CHECK_EQ(gt__exchange_look(one, 0, TAG, 0, &message), GT_ERR_CONNECTION);
        CHECK(strstr(gt_error_text(), "a test"));
    }
    zero->ops->close(zero);
    one->ops->close(one);
}

/* ---- a lane by itself ---------------------------------------------------------------------------------------- */

enum { OTHERS_TAG = 6 };

typedef struct seen {
    int arrived[8]; /* by tag */
    int sent;
} seen;

static gt_message *seen_room(void *mesh, void *link, const gt_message *content, void **data)
{
    (void)mesh;
    (void)link;
    gt_message *message = malloc(sizeof *message + content->bytes);
    *message = *content;
    *data = message + 1;
    return message;
}

static void seen_arrived(void *mesh, gt_message *message)
{
    ((seen *)mesh)->arrived[message->key.tag & 7]++;
    free(message);
}

static void seen_lost(void *mesh, gt_message *message)
{
    (void)mesh;
    free(message);
}

static void seen_sent(void *mesh, gt_message *message)
{
    (void)message;
    ((seen *)mesh)->sent++;
}

static void seen_failed(void *mesh, void *link, const char *why)
{
    (void)mesh;
    (void)link;
    CHECK(!*why);
}

/* Who knows the address but not the token, which goes over an authenticated link, is not heard. */
static void test_token(const void *argument)
{
    (void)argument;
    enum { BYTES = 3 << 20 };
    static const gt_lane_events events = {
        .room = seen_room, .arrived = seen_arrived, .lost = seen_lost, .sent = seen_sent, .failed = seen_failed};
    const gt_lane_ops *ops;
    seen to_us = {0}, to_them = {0};
    gt_lane *ours, *theirs;
    char why[GT_LANE_WHY];
    uint8_t offer[GT_LANE_OFFER], wrong[GT_LANE_OFFER], answer[GT_LANE_OFFER];
    size_t bytes = sizeof offer, answer_bytes = sizeof answer;
    bool asked;
    if (!CHECK_EQ(gt__lane_find(false, &ops, &asked), GT_OK) || !ops || !CHECK(asked))
        return;
    if (!CHECK_EQ(ops->open(&events, &to_us, NULL, why, &ours), GT_OK) ||
        !CHECK_EQ(ops->open(&events, &to_them, NULL, why, &theirs), GT_OK))
        return;
    gt_lane_end *end = ops->offer(ours, &to_us, offer, &bytes);
    gt_lane_end *knows = ops->offer(theirs, &to_them, answer, &answer_bytes), *guesses = NULL;
    CHECK(ops->connect(end, answer, answer_bytes));
    CHECK(ops->connect(knows, offer, bytes));
    answer_bytes = sizeof answer;
    guesses = ops->offer(theirs, &to_them, answer, &answer_bytes);
    memcpy(wrong, offer, bytes);
    wrong[3] ^= 1;
    CHECK(ops->connect(guesses, wrong, bytes));
    uint8_t *data = bytes_new(BYTES, 0);
    gt_message large = {.key.tag = OTHERS_TAG, .data = data, .bytes = BYTES}, small = large, last = large;
    small.bytes = 10;
    last.key.tag = TAG;
    ops->send(guesses, &large);
    ops->send(guesses, &small);
    ops->send(knows, &last);
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while ((to_them.sent < 3 || !to_us.arrived[TAG]) && CHECK(gt__remaining_ms(deadline))) {
        ops->progress(ours);
        ops->progress(theirs);
    }
    CHECK_EQ(to_us.arrived[TAG], 1);
    CHECK_EQ(to_us.arrived[OTHERS_TAG], 0);
    ops->close(theirs);
    ops->close(ours);
    free(data);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("a worker that dies in the middle", test_death, NULL);
    check_run("messages of all sizes", test_sizes, NULL);
    check_run("many messages", test_many, NULL);
    check_run("memory that is lent", test_lent, NULL);
    check_run("a worker that leaves", test_leaves, NULL);
    check_run("a lane that fails", test_lane_fails, NULL);
    check_run("a sender without the token", test_token, NULL);
    return check_end();
}
