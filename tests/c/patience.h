/*
 * patience.h: how long a test waits for another thread of its own process, on a machine that may not run it.
 *
 * Time in which one of the two threads was ready and did not run does not count: on a loaded machine, and with a sanitizer, that
 * may be most of it. The kernel counts it (schedstat); where it does not, all time counts. Nor does time in which the process was
 * stopped.
 */
#ifndef GT_TESTS_PATIENCE_H
#define GT_TESTS_PATIENCE_H

#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "link/link.h"

typedef struct patience_time {
    unsigned long long run_ns, queued_ns;
} patience_time;

typedef struct patience {
    pid_t self, other;
    uint64_t looked_ns, waited_ns;
    patience_time self_looked, other_looked; /* at the last look */
} patience;

static inline patience_time patience_time_of(pid_t thread)
{
    char path[64];
    patience_time time = {0};
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", (int)thread);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%llu %llu", &time.run_ns, &time.queued_ns) != 2)
        time = (patience_time){0};
    if (file)
        fclose(file);
    return time;
}

/* Whether it runs, or is ready to. */
static inline bool patience_is_ready(pid_t thread)
{
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "r");
    bool known = file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    if (file)
        fclose(file);
    return known && state == 'R';
}

static inline patience patience_begin(pid_t other)
{
    pid_t self = gettid();
    return (patience){.self = self,
                      .other = other,
                      .looked_ns = gt__now_ns(),
                      .self_looked = patience_time_of(self),
                      .other_looked = patience_time_of(other)};
}

/* Whether the other thread had so much time, and used none of it for us. Call it every `look_ms`: a longer time between two looks
 * counts as that, because the whole process was stopped. */
static inline bool patience_is_over(patience *p, int look_ms, int most_ms)
{
    const uint64_t look_ns = (uint64_t)look_ms * 1000000u, most_ns = (uint64_t)most_ms * 1000000u;
    patience_time self = patience_time_of(p->self), other = patience_time_of(p->other);
    uint64_t now_ns = gt__now_ns(), elapsed_ns = now_ns - p->looked_ns;
    uint64_t queued_ns = self.queued_ns - p->self_looked.queued_ns + other.queued_ns - p->other_looked.queued_ns;
    elapsed_ns = elapsed_ns < look_ns ? elapsed_ns : look_ns;
    /* A thread that is still queued is charged for that when it runs next. */
    bool still_queued = patience_is_ready(p->other) && other.run_ns - p->other_looked.run_ns < elapsed_ns / 2;
    p->waited_ns += still_queued || queued_ns > elapsed_ns ? 0 : elapsed_ns - queued_ns;
    p->looked_ns = now_ns;
    p->self_looked = self;
    p->other_looked = other;
    return p->waited_ns > most_ns;
}

#endif
