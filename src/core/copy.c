/*
 * copy.c: see copy.h. The threads live as long as the copy: making one takes some 20 us, and each copies for a millisecond. They
 * claim pieces in turn, so the others do the work of a thread that is delayed.
 */
#include "core/copy.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    PIECE = 1 << 20,
    SHARE = 8 << 20,      /* bytes that a thread copies at least */
    STREAMED = 128 << 20, /* bytes from which no cache keeps the copy anyway */
    MOST_THREADS = 16,
};

typedef struct large_copy {
    uint8_t *to;
    const uint8_t *from;
    size_t bytes;
    bool streamed;
    atomic_size_t next; /* the first byte that no thread has claimed */
} large_copy;

/* Stores that go around the caches spare the memory reading what is written over. */
static void stream_piece(uint8_t *to, const uint8_t *from, size_t bytes)
{
#if defined(__SSE2__)
    size_t before = -(uintptr_t)to & 63;
    before = before < bytes ? before : bytes;
    memcpy(to, from, before);
    size_t at = before;
    for (; bytes - at >= 64; at += 64) {
        const __m128i *x = (const __m128i *)(from + at);
        __m128i *y = (__m128i *)(to + at);
        __m128i a = _mm_loadu_si128(x), b = _mm_loadu_si128(x + 1);
        __m128i c = _mm_loadu_si128(x + 2), d = _mm_loadu_si128(x + 3);
        _mm_stream_si128(y, a);
        _mm_stream_si128(y + 1, b);
        _mm_stream_si128(y + 2, c);
        _mm_stream_si128(y + 3, d);
    }
    _mm_sfence();
    memcpy(to + at, from + at, bytes - at);
#else
    memcpy(to, from, bytes);
#endif
}

static void *copy_pieces(void *argument)
{
    large_copy *c = argument;
    for (size_t at; (at = atomic_fetch_add(&c->next, PIECE)) < c->bytes;) {
        size_t bytes = c->bytes - at < PIECE ? c->bytes - at : PIECE;
        if (c->streamed)
            stream_piece(c->to + at, c->from + at, bytes);
        else
            memcpy(c->to + at, c->from + at, bytes);
    }
    return NULL;
}

static size_t processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
}

void gt__copy_large(void *to, const void *from, size_t bytes)
{
    size_t wanted = bytes / SHARE < MOST_THREADS ? bytes / SHARE : MOST_THREADS, started = 0;
    size_t cores = wanted > 1 ? processors() : 1;
    pthread_t threads[MOST_THREADS];
    sigset_t all, before;
    if (wanted < 2 || cores < 2) {
        memcpy(to, from, bytes);
        return;
    }
    wanted = wanted < cores ? wanted : cores;
    large_copy c = {.to = to, .from = from, .bytes = bytes, .streamed = bytes >= STREAMED};
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started + 1 < wanted && pthread_create(&threads[started], NULL, copy_pieces, &c) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    copy_pieces(&c);
    for (size_t k = 0; k < started; k++)
        pthread_join(threads[k], NULL);
}
