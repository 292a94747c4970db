/*
 * parallel.c: the CPU engine's threads: one call at a time is cut into chunks that threads claim in turn.
 *
 * `unclaimed` is non-zero only while a call has unclaimed chunks, and a thread that decrements it owns one of them. The
 * call's fields are written before it is raised and read only after a claim, and the call cannot end before every
 * claimed chunk is done. So a thread that was delayed, however long, claims a chunk of the current call and never sees
 * a half-written one. A thread starts with its own range of chunks, the same in every call, whose data may still be in
 * its cache; then it takes the unclaimed chunks of other threads, from the ends of their ranges. Read parallel.h first.
 */
#include "engines/cpu/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

enum {
    SPIN_NS = 20 * 1000,
    CHUNKS_PER_THREAD = 4, /* enough to make up for a delayed thread, few enough to stay cheap */
    PIECE = 32,            /* grains between two looks whether the work was cancelled: about a millisecond; */
    LARGE_PIECE = 4,       /* and positions, if each of them is at least a grain */
    LOOK_NS = GT_CANCEL_MS * 1000000,
};

struct gt_parallel {
    gt_parallel_head head;
    gt_cancel *cancel; /* NULL: none */
    int64_t look_next_ns;
    const char *why; /* cancelled */
    pthread_t *handles;

    /* the current call */
    gt_parallel_body body;
    void *context;
    int64_t count;
    int64_t chunk;
    int64_t chunks;
    int64_t piece;      /* of a chunk */
    atomic_bool *taken; /* (threads * CHUNKS_PER_THREAD) */

    _Alignas(64) atomic_int_fast64_t unclaimed;
    _Alignas(64) atomic_int_fast64_t finished;
    atomic_int sleepers;
    atomic_bool caller_sleeps;
    atomic_bool stop;
    pthread_mutex_t mutex;
    pthread_cond_t wake_threads;
    pthread_cond_t wake_caller;
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static struct timespec time_of(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

static _Thread_local bool is_helper; /* this thread belongs to a pool */

/* Of the calling thread: ask whether the work is still wanted, every LOOK_NS at most. */
static bool look(gt_parallel *parallel)
{
    int64_t now = parallel->cancel ? now_ns() : 0;
    if (now < parallel->look_next_ns || !parallel->cancel)
        return false;
    parallel->look_next_ns = now + LOOK_NS;
    parallel->why = parallel->cancel->look(parallel->cancel->context);
    if (!parallel->why)
        return false;
    atomic_store_explicit(&parallel->head.cancelled, true, memory_order_relaxed);
    return true;
}

bool gt__parallel_poll(gt_parallel *parallel)
{
    return gt__parallel_cancelled(parallel) || (!is_helper && look(parallel));
}

const char *gt__parallel_resume(gt_parallel *parallel)
{
    atomic_store_explicit(&parallel->head.cancelled, false, memory_order_relaxed);
    return parallel->why;
}

/* The body for begin <= i < end, in pieces. */
static void run_pieces(gt_parallel *parallel, gt_parallel_body body, void *context, int64_t begin, int64_t end,
                       int64_t piece)
{
    while (begin < end && !gt__parallel_poll(parallel)) {
        int64_t count = end - begin < piece ? end - begin : piece;
        body(context, begin, begin + count);
        begin += count;
    }
}

static int64_t piece_of(int64_t grain)
{
    return grain == 1 ? LARGE_PIECE : grain < INT64_MAX / PIECE ? PIECE * grain : INT64_MAX;
}

/* After a claim: take one of the free chunks; at least one is free. */
static int64_t take_chunk(gt_parallel *parallel, int self)
{
    int64_t chunks = parallel->chunks, first = chunks * self / parallel->head.threads;
    int64_t end = chunks * (self + 1) / parallel->head.threads;
    for (int64_t k = first; k < end; k++)
        if (!atomic_exchange_explicit(&parallel->taken[k], true, memory_order_relaxed))
            return k;
    for (int64_t k = first;;) {
        k = k ? k - 1 : chunks - 1;
        if (!atomic_exchange_explicit(&parallel->taken[k], true, memory_order_relaxed))
            return k;
    }
}

/* Claim and run chunks until none is left. */
static void work(gt_parallel *parallel, int self)
{
    int_fast64_t unclaimed = atomic_load_explicit(&parallel->unclaimed, memory_order_acquire);
    while (unclaimed > 0) {
        if (!atomic_compare_exchange_weak(&parallel->unclaimed, &unclaimed, unclaimed - 1))
            continue;
        int64_t chunks = parallel->chunks;
        int64_t begin = take_chunk(parallel, self) * parallel->chunk;
        int64_t end = begin + parallel->chunk;
        run_pieces(parallel, parallel->body, parallel->context, begin,
                   end < parallel->count ? end : parallel->count, parallel->piece);
        if (atomic_fetch_add(&parallel->finished, 1) + 1 == chunks && atomic_load(&parallel->caller_sleeps)) {
            pthread_mutex_lock(&parallel->mutex);
            pthread_cond_signal(&parallel->wake_caller);
            pthread_mutex_unlock(&parallel->mutex);
        }
        unclaimed = atomic_load_explicit(&parallel->unclaimed, memory_order_acquire);
    }
}

static bool offered(gt_parallel *parallel)
{
    return atomic_load(&parallel->unclaimed) > 0 || atomic_load(&parallel->stop);
}

static void wait_for_work(gt_parallel *parallel)
{
    for (int64_t deadline = now_ns() + SPIN_NS; now_ns() < deadline; sched_yield())
        if (offered(parallel))
            return;
    pthread_mutex_lock(&parallel->mutex);
    atomic_fetch_add(&parallel->sleepers, 1);
    while (!offered(parallel))
        pthread_cond_wait(&parallel->wake_threads, &parallel->mutex);
    atomic_fetch_sub(&parallel->sleepers, 1);
    pthread_mutex_unlock(&parallel->mutex);
}

typedef struct member {
    gt_parallel *parallel;
    int self;
} member;

static void *thread_main(void *argument)
{
    member m = *(member *)argument;
    free(argument);
    is_helper = true;
    while (!atomic_load(&m.parallel->stop)) {
        work(m.parallel, m.self);
        wait_for_work(m.parallel);
    }
    return NULL;
}

static void wait_for_finish(gt_parallel *parallel)
{
    for (int64_t deadline = now_ns() + SPIN_NS; now_ns() < deadline; sched_yield())
        if (atomic_load(&parallel->finished) == parallel->chunks)
            return;
    pthread_mutex_lock(&parallel->mutex);
    atomic_store(&parallel->caller_sleeps, true);
    while (atomic_load(&parallel->finished) != parallel->chunks) {
        struct timespec until = time_of(now_ns() + LOOK_NS);
        if (pthread_cond_timedwait(&parallel->wake_caller, &parallel->mutex, &until) == 0)
            continue;
        pthread_mutex_unlock(&parallel->mutex); /* for the others, since a look may take a moment */
        gt__parallel_poll(parallel);
        pthread_mutex_lock(&parallel->mutex);
    }
    atomic_store(&parallel->caller_sleeps, false);
    pthread_mutex_unlock(&parallel->mutex);
}

/* As many sleeping threads as there are chunks for them: one that finds none was woken for nothing. */
static void wake(gt_parallel *parallel, int64_t wanted)
{
    int sleepers = atomic_load(&parallel->sleepers);
    if (sleepers == 0)
        return;
    pthread_mutex_lock(&parallel->mutex);
    for (int64_t k = 0; wanted < sleepers && k < wanted; k++)
        pthread_cond_signal(&parallel->wake_threads);
    if (wanted >= sleepers)
        pthread_cond_broadcast(&parallel->wake_threads);
    pthread_mutex_unlock(&parallel->mutex);
}

void gt__parallel_for(gt_parallel *parallel, int64_t count, int64_t grain, gt_parallel_body body, void *context)
{
    if (count <= grain) {
        if (count > 0 && !gt__parallel_cancelled(parallel))
            body(context, 0, count);
        return;
    }
    if (parallel->head.threads == 1) {
        run_pieces(parallel, body, context, 0, count, piece_of(grain));
        return;
    }
    int64_t share = (count - 1) / (parallel->head.threads * CHUNKS_PER_THREAD) + 1;
    parallel->chunk = share <= grain ? grain : (share + grain - 1) / grain * grain;
    parallel->chunks = (count - 1) / parallel->chunk + 1;
    parallel->body = body;
    parallel->context = context;
    parallel->count = count;
    parallel->piece = piece_of(grain);
    for (int64_t k = 0; k < parallel->chunks; k++)
        atomic_store_explicit(&parallel->taken[k], false, memory_order_relaxed);
    atomic_store(&parallel->finished, 0);
    atomic_store(&parallel->unclaimed, parallel->chunks);
    wake(parallel, parallel->chunks - 1); /* the caller takes one */
    work(parallel, 0);
    if (atomic_load(&parallel->finished) != parallel->chunks)
        wait_for_finish(parallel);
}

int gt__parallel_threads(const gt_parallel *parallel)
{
    return parallel->head.threads;
}

gt_err gt__parallel_new(int threads, gt_cancel *cancel, gt_parallel **out)
{
    gt_parallel *parallel = aligned_alloc(64, sizeof *parallel);
    if (!parallel)
        return gt__fail(GT_ERR_MEMORY, "no memory for a thread pool");
    *parallel = (gt_parallel){.head.threads = 1, .cancel = cancel};
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&parallel->mutex, NULL);
    pthread_cond_init(&parallel->wake_threads, NULL);
    pthread_cond_init(&parallel->wake_caller, &monotonic);
    pthread_condattr_destroy(&monotonic);
    parallel->handles = calloc((size_t)threads, sizeof *parallel->handles);
    parallel->taken = calloc((size_t)threads * CHUNKS_PER_THREAD, sizeof *parallel->taken);
    for (int i = 1; parallel->handles && parallel->taken && i < threads; i++) {
        member *m = malloc(sizeof *m);
        /* Fewer threads than requested is slower, not wrong. */
        if (!m)
            break;
        *m = (member){.parallel = parallel, .self = i};
        if (pthread_create(&parallel->handles[i], NULL, thread_main, m) != 0) {
            free(m);
            break;
        }
        parallel->head.threads++;
    }
    *out = parallel;
    return GT_OK;
}

void gt__parallel_free(gt_parallel *parallel)
{
    if (!parallel)
        return;
    atomic_store(&parallel->stop, true);
    wake(parallel, parallel->head.threads);
    for (int i = 1; i < parallel->head.threads; i++)
        pthread_join(parallel->handles[i], NULL);
    pthread_mutex_destroy(&parallel->mutex);
    pthread_cond_destroy(&parallel->wake_threads);
    pthread_cond_destroy(&parallel->wake_caller);
    free(parallel->taken);
    free(parallel->handles);
    free(parallel);
}
