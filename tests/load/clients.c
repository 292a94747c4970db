/*
 * load/clients.c: many clients in one process: connected and at work at once, then connecting and leaving in a storm. load.py starts
 * it, and reads the memory of the server whenever it says how far it is.
 *
 *     load_clients CLIENTS ROUNDS CONNECTS ADDRESS...
 *
 * Every client has numbers of its own, so an answer that belongs to another client is noticed.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "gt.h"

enum { THREADS = 16, SIDE = 8, TIMEOUT_MS = 60000 };

typedef struct crowd {
    int clients, rounds, connects, addresses;
    char **address;
    gt_client **client;
    gt_tensor **held; /* by client: what it keeps */
    atomic_long answers, wrong, failed;
} crowd;

static crowd the;
static pthread_barrier_t barrier;

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool ok(gt_err err)
{
    if (err == GT_OK)
        return true;
    if (atomic_fetch_add(&the.failed, 1) < 5)
        fprintf(stderr, "%s: %s\n", gt_error_name(err), gt_error_text());
    return false;
}

static gt_client *connect_one(int k)
{
    gt_client *client = NULL;
    ok(gt_client_connect(the.address[k % the.addresses], TIMEOUT_MS, &client));
    return client;
}

/* A product of the client's own numbers, on its way. */
static gt_tensor *ask(gt_client *client, int number, int round)
{
    gt_tensor *a = NULL, *b = NULL, *c = NULL, *sum = NULL;
    const int64_t shape[] = {SIDE, SIDE};
    if (ok(gt_full(client, GT_FLOAT64, 2, shape, number, &a)) &&
        ok(gt_full(client, GT_FLOAT64, 2, shape, round, &b)) && ok(gt_matmul(a, b, &c)))
        ok(gt_sum(c, 0, false, &sum));
    gt_tensor_release(a);
    gt_tensor_release(b);
    gt_tensor_release(c);
    return sum;
}

/* Takes the tensor. */
static void check(gt_tensor *sum, int number, int round)
{
    double value = 0;
    if (!sum || !ok(gt_item(sum, &value)))
        value = -1;
    atomic_fetch_add(&the.answers, 1);
    if (value != (double)SIDE * SIDE * SIDE * number * round)
        atomic_fetch_add(&the.wrong, 1);
    gt_tensor_release(sum);
}

/* The phases are separated by barriers: in each, all clients do the same at once. */
static void *thread_main(void *argument)
{
    int first = (int)(long)argument;
    for (int k = first; k < the.clients; k += THREADS)
        the.client[k] = connect_one(k);
    pthread_barrier_wait(&barrier); /* connected */
    pthread_barrier_wait(&barrier);
    for (int round = 1; round <= the.rounds; round++) {
        for (int k = first; k < the.clients; k += THREADS)
            the.held[k] = the.client[k] ? ask(the.client[k], k, round) : NULL;
        for (int k = first; k < the.clients; k += THREADS)
            check(the.held[k], k, round);
    }
    pthread_barrier_wait(&barrier); /* worked */
    pthread_barrier_wait(&barrier);
    for (int k = first; k < the.clients; k += THREADS)
        gt_client_close(&the.client[k]);
    for (int k = first; k < the.connects; k += THREADS) {
        gt_client *client = connect_one(k);
        if (client && k % 4 == 0)
            check(ask(client, k, 1), k, 1);
        gt_client_close(&client);
    }
    pthread_barrier_wait(&barrier); /* left */
    return NULL;
}

/* Tell load.py, and go on when it has looked. */
static void report(const char *what, double since)
{
    printf("%s %.3f %ld %ld %ld\n", what, now_s() - since, the.answers, the.wrong, the.failed);
    fflush(stdout);
    while (getchar() != '\n' && !feof(stdin))
        continue;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    if (argc < 5)
        return 2;
    the.clients = atoi(argv[1]);
    the.rounds = atoi(argv[2]);
    the.connects = atoi(argv[3]);
    the.address = argv + 4;
    the.addresses = argc - 4;
    the.client = calloc((size_t)the.clients, sizeof(gt_client *));
    the.held = calloc((size_t)the.clients, sizeof(gt_tensor *));
    if (!the.client || !the.held || pthread_barrier_init(&barrier, NULL, THREADS + 1))
        return 1;
    double start = now_s();
    for (long k = 0; k < THREADS; k++)
        if (pthread_create(&threads[k], NULL, thread_main, (void *)k))
            return 1;
    static const char *const phases[] = {"connected", "worked", "left"};
    for (int phase = 0; phase < 3; phase++) {
        pthread_barrier_wait(&barrier);
        report(phases[phase], start);
        start = now_s();
        if (phase < 2)
            pthread_barrier_wait(&barrier);
    }
    for (int k = 0; k < THREADS; k++)
        pthread_join(threads[k], NULL);
    free(the.client);
    free(the.held);
    return the.wrong || the.failed;
}
