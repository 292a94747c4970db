/* copy.c: see copy.h. The threads live as long as the copy: making one takes some 20 us, and a part takes a millisecond. */
#include "core/copy.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

enum {
    PART = 8 << 20, /* bytes that a thread copies at least */
    MOST_THREADS = 8,
};

typedef struct part {
    uint8_t *to;
    const uint8_t *from;
    size_t bytes;
} part;

static void *copy_part(void *argument)
{
    const part *p = argument;
    memcpy(p->to, p->from, p->bytes);
    return NULL;
}

static size_t processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
}

void gt__copy_large(void *to, const void *from, size_t bytes)
{
    size_t count = bytes / PART < MOST_THREADS ? bytes / PART : MOST_THREADS;
    size_t cores = count > 1 ? processors() : 1, started = 0;
    pthread_t threads[MOST_THREADS];
    part parts[MOST_THREADS];
    sigset_t all, before;
    count = count < cores ? count : cores;
    if (count < 2) {
        memcpy(to, from, bytes);
        return;
    }
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t k = 0; k < count; k++) {
        size_t first = bytes / count / 4096 * 4096 * k;
        size_t end = k + 1 == count ? bytes : bytes / count / 4096 * 4096 * (k + 1);
        parts[k] =
            (part){.to = (uint8_t *)to + first, .from = (const uint8_t *)from + first, .bytes = end - first};
        if (k && pthread_create(&threads[started], NULL, copy_part, &parts[k]) == 0)
            started++;
        else if (k)
            copy_part(&parts[k]);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    copy_part(&parts[0]);
    for (size_t k = 0; k < started; k++)
        pthread_join(threads[k], NULL);
}
