/*
 * test_client.c: the client library end to end: poison, bulk data, servers that die, threads, forks and
 * interruptions. What the ops compute is in test_client_ops.c.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client.h"
#include "client_fixture.h"
#include "dispatcher/orders.h"
#include "server_fixture.h"

/* ---- failures on the worker -------------------------------------------------------------------------------- */

static void test_poison(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *a = two_rows(client), *bad, *worse, *worst, *fine;
    float bytes[12];
    gt_tensor *index = computed_index(client, 2, (int64_t[]){0, 17});
    OK(gt_take(a, index, 0, &bad));
    OK(gt_mul_scalar(bad, 2, &worse));
    OK(gt_sum(worse, 0, false, &worst));
    OK(gt_add(a, a, &fine));
    OK(gt_synchronize(client));
    char first[256];
    CHECK_EQ(gt_fetch(bad, bytes, 24), GT_ERR_INDEX);
    snprintf(first, sizeof first, "%.255s", gt_error_text());
    CHECK(strstr(first, "17"));
    CHECK_EQ(gt_fetch(worse, bytes, 24), GT_ERR_INDEX);
    CHECK(strcmp(gt_error_text(), first) == 0);
    double value;
    CHECK_EQ(gt_item(worst, &value), GT_ERR_INDEX);
    CHECK(strcmp(gt_error_text(), first) == 0);
    holds(fine, SHAPE(2, 3), VALUES(0, 2, 4, 6, 8, 10));
    gt_tensor_release(bad);
    gt_tensor_release(worse);
    gt_tensor_release(worst);
    gt_tensor_release(index);
    gt_tensor_release(a);
    CHECK(client_works(client));
    gt_client_close(&client);
}

/* A failure names the last place its thread had passed when it was issued; the reader's own place does not matter. */
static void test_places(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *a = two_rows(client), *index = computed_index(client, 1, (int64_t[]){17}), *bad[2];
    char expected[2][64];
    float bytes[3];
    for (int again = 0; again < 2; again++) {
        snprintf(expected[0], sizeof expected[0], "test_client.c:%d", __LINE__ + 1);
        GT_HERE();
        OK(gt_take(a, index, 0, &bad[0]));
        snprintf(expected[1], sizeof expected[1], "test_client.c:%d in signal 'here'", __LINE__ + 1);
        GT_HERE();
        OK(gt_signal_enter(client, "here", NULL));
        OK(gt_take(a, index, 0, &bad[1]));
        OK(gt_signal_exit("here"));
        for (int k = 0; k < 2; k++) {
            CHECK_EQ(gt_fetch(bad[k], bytes, sizeof bytes), GT_ERR_INDEX);
            const char *at = strstr(gt_error_text(), expected[k]);
            CHECK(at && at[strlen(expected[k])] == 0);
            gt_tensor_release(bad[k]);
        }
    }
    gt_tensor_release(index);
    gt_tensor_release(a);
    gt_client_close(&client);
}

/* Threads that have queued for long get a client in order, and it stays theirs until they take it. */
static void test_turns(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_turn first, second, third;
    OK(gt__client_lock(client));
    gt__turn_join(client, &first);
    gt__turn_join(client, &second);
    gt__turn_join(client, &third);
    first.since_ns = second.since_ns = third.since_ns = 0;
    CHECK(!gt__turn_take(client, &first)); /* in use */
    gt__client_unlock(client);
    CHECK(client->waiting); /* the thread that unlocked it would have to queue */
    CHECK(!gt__turn_take(client, &second));
    gt__turn_wait(client, &first, -1);
    CHECK(gt__turn_take(client, &first));
    CHECK(!client->waiting);
    OK(gt__client_lock(client)); /* a thread that came in between */
    CHECK(!gt__turn_take(client, &second));
    gt__client_unlock(client);
    gt__turn_away(client, &second, true); /* it handles a signal: the next one goes first */
    CHECK(!gt__turn_take(client, &second));
    CHECK(gt__turn_take(client, &third));
    gt__turn_away(client, &second, false);
    gt__turn_join(client, &third);
    third.since_ns = 0;
    OK(gt__client_lock(client));
    gt__client_unlock(client);
    gt__turn_leave(client, &second);
    CHECK(client->waiting);
    gt__turn_leave(client, &third); /* the last one: it is free */
    CHECK(!client->waiting);
    CHECK(client_works(client));
    gt_client_close(&client);
}

static void test_out_of_memory(const void *argument)
{
    (void)argument;
    setenv("GT_WORKER_MEMORY", "8M", 1);
    gt_client *client = open_client(1);
    unsetenv("GT_WORKER_MEMORY");
    gt_tensor *large, *sum;
    double value;
    OK(gt_full(client, GT_FLOAT32, SHAPE(10, 1000000), 1, &large));
    OK(gt_sum(large, 0, false, &sum));
    CHECK_EQ(gt_item(sum, &value), GT_ERR_MEMORY);
    CHECK(strstr(gt_error_text(), "cannot allocate"));
    gt_tensor_release(large);
    gt_tensor_release(sum);
    CHECK(client_works(client));
    gt_client_close(&client);
}

/* What takes longer than it may is cancelled, and says so by a kind of its own. */
static void test_cancelled(const void *argument)
{
    (void)argument;
    setenv("GT_MAX_OP_SECONDS", "0.05", 1);
    gt_client *client = open_client(1);
    unsetenv("GT_MAX_OP_SECONDS");
    gt_tensor *one, *wide, *sum;
    double value;
    OK(gt_full(client, GT_FLOAT32, SHAPE(1), 1, &one));
    OK(gt_expand(one, SHAPE((int64_t)1 << 37), &wide));
    OK(gt_sum(wide, 0, false, &sum));
    CHECK_EQ(gt_item(sum, &value), GT_ERR_CANCELLED);
    CHECK(strstr(gt_error_text(), "--max-op-seconds"));
    gt_tensor_release(one);
    gt_tensor_release(wide);
    gt_tensor_release(sum);
    CHECK(client_works(client));
    gt_client_close(&client);
}

/* An operand that is broadcast has no memory to speak of, but a copy of it would. */
static void test_scratch_limit(const void *argument)
{
    (void)argument;
    setenv("GT_WORKER_MEMORY", "8M", 1);
    gt_client *client = open_client(1);
    unsetenv("GT_WORKER_MEMORY");
    gt_tensor *one, *wide, *vector, *product, *flag, *flags, *index;
    static float elements[2000];
    OK(gt_full(client, GT_FLOAT32, SHAPE(1), 1, &one));
    OK(gt_expand(one, SHAPE(2000, 2000), &wide));
    OK(gt_full(client, GT_FLOAT32, SHAPE(2000), 1, &vector));
    OK(gt_matmul(wide, vector, &product));
    CHECK_EQ(gt_fetch(product, elements, sizeof elements), GT_ERR_MEMORY);
    CHECK(strstr(gt_error_text(), "scratch"));
    gt_tensor_release(product);
    OK(gt_full(client, GT_BOOL, SHAPE(1), 0, &flag));
    OK(gt_expand(flag, SHAPE(16, 1000000), &flags));
    OK(gt__emit_mask_index(flags, 0, &index));
    CHECK_EQ(gt_fetch(index, elements, 0), GT_ERR_MEMORY);
    gt_tensor_release(index);
    gt_tensor_release(flags);
    gt_tensor_release(flag);
    OK(gt_slice(wide, (int64_t[]){0, 0}, (int64_t[]){1, 1}, (int64_t[]){2, 2000}, &product));
    gt_tensor_release(wide);
    OK(gt_matmul(product, vector, &wide)); /* what fits is copied as before */
    CHECK(holds(wide, SHAPE(2), VALUES(2000, 2000)));
    gt_tensor_release(product);
    gt_tensor_release(vector);
    gt_tensor_release(one);
    gt_client_close(&client);
}

/* ---- bulk data ---------------------------------------------------------------------------------------------- */

static unsigned transfers_of(const gt_client *client)
{
    unsigned count = 0;
    for (const gt_transfer *transfer = client->transfers; transfer; transfer = transfer->next)
        count++;
    return count;
}

static bool round_trip(gt_client *client, size_t bytes)
{
    uint8_t *data = malloc(bytes + 1), *back = malloc(bytes + 1);
    gt_tensor *tensor, *turned;
    for (size_t k = 0; k < bytes; k++)
        data[k] = (uint8_t)(k * 7 + k / 251);
    bool right = OK(gt_from_data(client, GT_UINT8, SHAPE((int64_t)bytes), data, &tensor));
    memset(back, 1, bytes + 1);
    right = right && OK(gt_fetch(tensor, back, bytes)) && CHECK(memcmp(data, back, bytes) == 0) &&
            CHECK(back[bytes] == 1);
    /* And from memory that is not contiguous. */
    right = right && OK(gt_slice(tensor, (int64_t[]){bytes ? (int64_t)bytes - 1 : 0}, (int64_t[]){-1},
                                 (int64_t[]){(int64_t)bytes}, &turned));
    right = right && OK(gt_fetch(turned, back, bytes));
    for (size_t k = 0; k < bytes && right; k += 1 + bytes / 1000)
        right = CHECK_EQ(back[k], data[bytes - 1 - k]);
    gt_tensor_release(tensor);
    gt_tensor_release(turned);
    free(data);
    free(back);
    return right;
}

static const size_t bulk_sizes[] = {
    0, 1, 31 << 10, 32 << 10, 33 << 10, 5 << 20, CHECK_SANITIZED ? 9 << 20 : 64 << 20};

static void test_bulk(const void *argument)
{
    const char *transport = argument; /* NULL: embedded */
    server s;
    gt_client *client = NULL;
    if (transport) {
        char address[64];
        server_new(&s, true);
        server_start(&s);
        server_add_worker(&s, true);
        snprintf(address, sizeof address, "%s://localhost:%d", transport, gt__dispatcher_port(s.dispatcher));
        OK(gt_client_connect(address, PATIENCE_MS, &client));
        CHECK(strcmp(gt_client_description(client), address) == 0);
    } else {
        client = open_client(1);
        CHECK(strcmp(gt_client_description(client), "embedded server, 1 worker") == 0);
    }
    for (size_t k = 0; k < sizeof bulk_sizes / sizeof bulk_sizes[0]; k++)
        if (!round_trip(client, bulk_sizes[k]))
            fprintf(stderr, "  with %zu bytes\n", bulk_sizes[k]);
    gt_client_close(&client);
    if (transport)
        server_stop(&s);
}

static void test_recycling(const void *argument)
{
    (void)argument;
    enum { ELEMENTS = 700000 };
    gt_client *client = open_client(1);
    static float data[ELEMENTS], back[ELEMENTS];
    for (int round = 0; round < 50; round++) {
        gt_tensor *tensor;
        data[round] = (float)round;
        OK(gt_from_data(client, GT_FLOAT32, SHAPE(ELEMENTS), data, &tensor));
        OK(gt_fetch(tensor, back, sizeof back));
        CHECK(memcmp(data, back, sizeof data) == 0);
        gt_tensor_release(tensor);
        OK(gt_synchronize(client)); /* the worker is done with it: its segment is free again */
    }
    CHECK(transfers_of(client) <= 2);
    /* Without waiting every upload in flight has its own, and each arrives whole. */
    gt_tensor *tensors[8];
    for (int k = 0; k < 8; k++) {
        data[0] = (float)k;
        OK(gt_from_data(client, GT_FLOAT32, SHAPE(ELEMENTS), data, &tensors[k]));
    }
    for (int k = 0; k < 8; k++) {
        OK(gt_fetch(tensors[k], back, sizeof back));
        CHECK(back[0] == (float)k);
        gt_tensor_release(tensors[k]);
    }
    CHECK(transfers_of(client) <= 12);
    gt_client_close(&client);
}

/* More than the dispatcher would hold for a client that does not read; under sanitizers, many parts. */
static void test_long_fetch(const void *argument)
{
    enum { BYTES = CHECK_SANITIZED ? 24 << 20 : 96 << 20 };
    const char *transport = argument;
    server s;
    char address[64];
    gt_client *client = NULL;
    server_new(&s, true);
    server_start(&s);
    server_add_worker(&s, true);
    snprintf(address, sizeof address, "%s://localhost:%d", transport, gt__dispatcher_port(s.dispatcher));
    OK(gt_client_connect(address, PATIENCE_MS, &client));
    gt_tensor *numbers, *rows, *turned;
    int32_t *elements = malloc(BYTES);
    int64_t count = BYTES / (int64_t)sizeof *elements, side = 4096;
    OK(gt_arange(client, GT_INT32, 0, (double)count, 1, &numbers));
    OK(gt_fetch(numbers, elements, BYTES));
    for (int64_t k = 0; k < count; k += 1021)
        if (!CHECK_EQ(elements[k], k))
            break;
    /* And of memory that is not contiguous: copied once, not once a part. */
    OK(gt_reshape(numbers, SHAPE(side, count / side), &rows));
    OK(gt_permute(rows, (int[]){1, 0}, &turned));
    OK(gt_fetch(turned, elements, BYTES));
    for (int64_t k = 0; k < count; k += 1021)
        if (!CHECK_EQ(elements[k], k % side * (count / side) + k / side))
            break;
    free(elements);
    gt_tensor_release(numbers);
    gt_tensor_release(rows);
    gt_tensor_release(turned);
    CHECK(client_works(client));
    gt_client_close(&client);
    server_stop(&s);
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 4096; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Any number of uploads that stay alive; few of them keep the segment they came in, and those two descriptors. */
static void test_descriptors(const void *argument)
{
    (void)argument;
    enum { BYTES = 1 << 20, COUNT = 300, KEPT = 128, SPARE = 100 };
    struct rlimit limit, before;
    getrlimit(RLIMIT_NOFILE, &before);
    limit = before;
    limit.rlim_cur = 512;
    setrlimit(RLIMIT_NOFILE, &limit);
    gt_client *client = open_client(1);
    getrlimit(RLIMIT_NOFILE, &limit);
    CHECK_EQ(limit.rlim_cur, before.rlim_max);
    gt_tensor *tensors[COUNT];
    static uint8_t data[BYTES], back[BYTES];
    for (int k = 0; k < COUNT; k++) {
        memset(data, k, sizeof data);
        OK(gt_from_data(client, GT_UINT8, SHAPE(BYTES), data, &tensors[k]));
        if (k % 8 == 0)
            OK(gt_synchronize(client));
    }
    CHECK(open_descriptors() < 2 * KEPT + SPARE);
    for (int k = 0; k < COUNT; k++) {
        OK(gt_fetch(tensors[k], back, sizeof back));
        CHECK(back[0] == (uint8_t)k && back[BYTES - 1] == (uint8_t)k);
        gt_tensor_release(tensors[k]);
    }
    gt_client_close(&client);
    setrlimit(RLIMIT_NOFILE, &before);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

static void test_release_after_close(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *tensors[20], *kept, *out = NULL;
    for (int k = 0; k < 20; k++)
        tensors[k] = two_rows(client);
    kept = gt_tensor_retain(tensors[0]);
    gt_client_close(&client);
    CHECK(!client);
    CHECK_EQ(gt_add(kept, kept, &out), GT_ERR_CONNECTION);
    CHECK(strstr(gt_error_text(), "closed"));
    CHECK_EQ(gt_synchronize(gt_tensor_client(kept)), GT_ERR_CONNECTION);
    CHECK_EQ(gt_tensor_numel(kept), 6);
    for (int k = 0; k < 20; k++)
        gt_tensor_release(tensors[k]);
    gt_tensor_release(kept);
}

/* More frees than one record holds, on a link that is dead. */
static void test_server_dies(const void *argument)
{
    const char *transport = argument;
    server s;
    char address[64];
    gt_client *client = NULL;
    gt_tensor *tensors[40], *out = NULL;
    server_new(&s, true);
    server_start(&s);
    server_add_worker(&s, true);
    snprintf(address, sizeof address, "%s://localhost:%d", transport, gt__dispatcher_port(s.dispatcher));
    OK(gt_client_connect(address, PATIENCE_MS, &client));
    for (int k = 0; k < 40; k++)
        tensors[k] = two_rows(client);
    OK(gt_synchronize(client));
    server_stop(&s);
    for (int k = 0; k < 20; k++)
        gt_tensor_release(tensors[k]);
    CHECK_EQ(gt_synchronize(client), GT_ERR_CONNECTION);
    CHECK_EQ(gt_add(tensors[30], tensors[31], &out), GT_ERR_CONNECTION);
    for (int k = 20; k < 40; k++)
        gt_tensor_release(tensors[k]);
    gt_client_close(&client);
    CHECK_EQ(gt_client_connect(address, 500, &client), GT_ERR_CONNECTION);
}

static void test_no_worker(const void *argument)
{
    (void)argument;
    server s;
    char address[64];
    gt_client *client = NULL;
    server_new(&s, true);
    server_start(&s);
    snprintf(address, sizeof address, "localhost:%d", gt__dispatcher_port(s.dispatcher));
    CHECK_EQ(gt_client_connect(address, 100, &client), GT_ERR_TIMEOUT);
    CHECK(strstr(gt_error_text(), "no worker"));
    CHECK(!client);
    server_add_worker(&s, true);
    OK(gt_client_connect(address, 0, &client));
    CHECK(client_works(client));
    gt_client_close(&client);
    server_stop(&s);
}

/* A client that the server disconnects hears why, whether it writes or reads at that moment. */
static void test_disconnected(const void *argument)
{
    const char *transport = argument;
    for (int reads = 0; reads < 2; reads++) {
        server s;
        char address[64];
        gt_client *client = NULL;
        gt_tensor *a, *sum;
        double value;
        server_new(&s, true);
        server_start(&s);
        server_add_worker(&s, true);
        snprintf(address, sizeof address, "%s://localhost:%d", transport, gt__dispatcher_port(s.dispatcher));
        OK(gt_client_connect(address, 0, &client));
        OK(gt_full(client, GT_FLOAT32, SHAPE(1), 1, &a));
        OK(gt_item(a, &value));
        CHECK(gt__dispatcher_order(s.dispatcher, GT_ORDER_DISCONNECT, 1));
        uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
        gt_err err = GT_OK;
        while (err == GT_OK && gt__remaining_ms(deadline)) {
            err = gt_add(a, a, &sum);
            if (err == GT_OK && reads)
                err = gt_item(sum, &value);
            gt_tensor_release(sum);
        }
        CHECK_EQ(err, GT_ERR_CONNECTION);
        if (!CHECK(strstr(gt_error_text(), "the administrator of the server disconnected this client")))
            fprintf(stderr, "  %s, reads %d: %s\n", transport, reads, gt_error_text());
        CHECK_EQ(gt_synchronize(client), GT_ERR_CONNECTION);
        CHECK(strstr(gt_error_text(), "administrator"));
        gt_tensor_release(a);
        gt_client_close(&client);
        OK(gt_client_connect(address, 0,
                             &client)); /* another one is served, when the worker has done with what came before */
        CHECK(client_works(client));
        gt_client_close(&client);
        server_stop(&s);
    }
}

/* Each thread adds its own numbers up; argument NULL: on a server of its own. */
static void *adding_thread(void *argument)
{
    const char *address = argument;
    gt_client *client = NULL;
    if (!OK(address ? gt_client_connect(address, PATIENCE_MS, &client) : gt_client_open_embedded(1, &client)))
        return NULL;
    gt_tensor *sum, *next;
    double total = 0;
    OK(gt_full(client, GT_FLOAT64, SHAPE(10), 0, &sum));
    for (int k = 0; k < 2000; k++) {
        OK(gt_add_scalar(sum, k, &next));
        gt_tensor_release(sum);
        sum = next;
        if (k % 500 == 0)
            CHECK(round_trip(client, 100000));
    }
    OK(gt_mean(sum, 0, false, &next));
    OK(gt_item(next, &total));
    CHECK(total == 1999000);
    gt_tensor_release(sum);
    gt_tensor_release(next);
    gt_client_close(&client);
    return NULL;
}

static void test_threads(const void *argument)
{
    enum { THREADS = 4 };
    const char *transport = argument;
    pthread_t threads[THREADS];
    char address[64];
    server s;
    if (transport) {
        server_new(&s, true);
        server_start(&s);
        server_add_worker(&s, true);
        server_add_worker(&s, true);
        snprintf(address, sizeof address, "%s://localhost:%d", transport, gt__dispatcher_port(s.dispatcher));
    }
    for (int k = 0; k < THREADS; k++)
        pthread_create(&threads[k], NULL, adding_thread, transport ? address : NULL);
    for (int k = 0; k < THREADS; k++)
        pthread_join(threads[k], NULL);
    if (transport)
        server_stop(&s);
}

/* ---- fork --------------------------------------------------------------------------------------------------- */

/* In the child: nothing of the parent's works, nothing of it breaks, and a client of its own does. */
static int child_main(gt_client *client, gt_tensor **tensors, int count)
{
    gt_tensor *out = NULL;
    float bytes[6];
    CHECK_EQ(gt_add(tensors[0], tensors[1], &out), GT_ERR_CONNECTION);
    CHECK(strstr(gt_error_text(), "parent"));
    CHECK_EQ(gt_fetch(tensors[0], bytes, sizeof bytes), GT_ERR_CONNECTION);
    CHECK_EQ(gt_synchronize(client), GT_ERR_CONNECTION);
    for (int k = 0; k < count; k++)
        gt_tensor_release(tensors[k]);
    gt_client_close(&client);
#if !defined(__SANITIZE_THREAD__) /* which does not support threads in a child of threads */
    gt_client *own = open_client(1);
    CHECK(client_works(own));
    gt_client_close(&own);
#endif
    return atomic_load(&check_state.failures);
}

static void test_fork(const void *argument)
{
    (void)argument;
    enum { COUNT = 30 };
    gt_client *client = open_client(1);
    gt_tensor *tensors[COUNT];
    for (int k = 0; k < COUNT; k++)
        tensors[k] = two_rows(client);
    CHECK(round_trip(client, 5 << 20)); /* segments are open at the time of the fork */
    pid_t child = fork();
    if (child == 0)
        _exit(child_main(client, tensors, COUNT));
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (int k = 0; k < COUNT; k++)
        CHECK(holds(tensors[k], SHAPE(2, 3), VALUES(0, 1, 2, 3, 4, 5)));
    CHECK(client_works(client));
    gt_client_close(&client);
}

/* ---- interruption ------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t alarms;
static int waits, waited;

static void on_alarm(int number)
{
    (void)number;
    alarms++;
}

static void *count_before(void)
{
    waits++;
    return &waits;
}

static void count_after(void *state)
{
    waited += CHECK(state == &waits);
}

static bool alarm_rang(void)
{
    return alarms > 0;
}

static void ring_every_ms(int milliseconds)
{
    struct itimerval timer = {.it_interval.tv_usec = milliseconds * 1000, .it_value.tv_usec = milliseconds * 1000};
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* A chain of products that takes a while; its elements are all `size` to the power of `steps`, times 2^-9 each. */
static gt_tensor *long_work(gt_client *client, int64_t size, int steps)
{
    gt_tensor *a, *product, *next;
    OK(gt_full(client, GT_FLOAT32, SHAPE(size, size), 1.0 / (double)size, &a));
    product = gt_tensor_retain(a);
    for (int k = 0; k < steps; k++) {
        OK(gt_matmul(product, a, &next));
        gt_tensor_release(product);
        product = next;
    }
    gt_tensor_release(a);
    return product;
}

static void test_interruption(const void *argument)
{
    (void)argument;
    enum { SIZE = 512 };
    gt_client *client = open_client(1);
    struct sigaction action = {.sa_handler = on_alarm}, before;
    static float elements[SIZE * SIZE];
    sigaction(SIGALRM, &action, &before);
    gt__wait_hooks = (gt_wait_hooks){.before = count_before, .after = count_after, .interrupted = alarm_rang};
    for (int round = 0; round < 4; round++) { /* a synchronisation, small answers, answers in segments */
        gt_tensor *work = long_work(client, SIZE, 60), *corner;
        OK(gt_slice(work, (int64_t[]){0, 0}, (int64_t[]){1, 1}, (int64_t[]){2, 2}, &corner));
        alarms = 0;
        ring_every_ms(3);
        gt_err err = round == 0   ? gt_synchronize(client)
                     : round == 1 ? gt_fetch(corner, elements, 4 * sizeof(float))
                                  : gt_fetch(work, elements, sizeof elements);
        ring_every_ms(0);
        CHECK_EQ(err, GT_ERR_INTERRUPTED);
        CHECK(strstr(gt_error_text(), "interrupted"));
        alarms = 0;
        CHECK(client_works(client));
        CHECK(holds(corner, SHAPE(2, 2), VALUES(1.0 / SIZE, 1.0 / SIZE, 1.0 / SIZE, 1.0 / SIZE)));
        memset(elements, 0, sizeof elements);
        OK(gt_fetch(work, elements, sizeof elements));
        CHECK(close_enough(elements[SIZE * SIZE - 1], 1.0 / SIZE));
        gt_tensor_release(work);
    }
    CHECK(transfers_of(client) <= 3);
    CHECK(waits > 0 && waits == waited);
    /* A signal nobody means to stop for changes nothing. */
    gt__wait_hooks = (gt_wait_hooks){0};
    gt_tensor *work = long_work(client, SIZE, 30);
    ring_every_ms(3);
    OK(gt_fetch(work, elements, sizeof elements));
    ring_every_ms(0);
    CHECK(close_enough(elements[0], 1.0 / SIZE));
    gt_tensor_release(work);
    sigaction(SIGALRM, &before, NULL);
    gt_client_close(&client);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("poison", test_poison, NULL);
    check_run("places", test_places, NULL);
    check_run("turns", test_turns, NULL);
    check_run("out of memory", test_out_of_memory, NULL);
    check_run("cancelled", test_cancelled, NULL);
    check_run("scratch limit", test_scratch_limit, NULL);
    check_run("bulk data, embedded", test_bulk, NULL);
    check_run("bulk data by memory", test_bulk, "memory");
    check_run("bulk data by tcp", test_bulk, "tcp");
    check_run("recycling", test_recycling, NULL);
    check_run("a long fetch by tcp", test_long_fetch, "tcp");
    check_run("a long fetch by ipc", test_long_fetch, "ipc");
    check_run("descriptors", test_descriptors, NULL);
    check_run("release after close", test_release_after_close, NULL);
    check_run("the server dies, memory", test_server_dies, "memory");
    check_run("the server dies, tcp", test_server_dies, "tcp");
    check_run("no worker", test_no_worker, NULL);
    check_run("disconnected by memory", test_disconnected, "memory");
    check_run("disconnected by ipc", test_disconnected, "ipc");
    check_run("disconnected by tcp", test_disconnected, "tcp");
    check_run("threads, embedded", test_threads, NULL);
    check_run("threads by memory", test_threads, "memory");
    check_run("threads by tcp", test_threads, "tcp");
    check_run("fork", test_fork, NULL);
    check_run("interruption", test_interruption, NULL);
    return check_end();
}
