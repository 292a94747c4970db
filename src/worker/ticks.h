/*
 * ticks.h: the processor's own counter, for durations shorter than a system clock reading. Its ticks are converted to
 * nanoseconds by reading both clocks now and then.
 */
#ifndef GT_WORKER_TICKS_H
#define GT_WORKER_TICKS_H

#include "link/link.h"

static inline uint64_t gt__ticks(void)
{
#if defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#elif defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return gt__now_ns();
#endif
}

typedef struct gt_tick_clock {
    uint64_t first_ticks, first_ns; /* the two clocks at the beginning */
    uint64_t ticks, ns;             /* and at the last reading */
    double ns_per_tick;
} gt_tick_clock;

/* The two clocks at one time. The thread may lose its processor between two readings: of a few tries the tightest counts. */
static inline void gt__ticks_and_ns(uint64_t *ticks, uint64_t *ns)
{
    uint64_t tightest = UINT64_MAX;
    for (int k = 0; k < 4; k++) {
        uint64_t before = gt__ticks(), now_ns = gt__now_ns(), width = gt__ticks() - before;
        if (width >= tightest)
            continue;
        tightest = width;
        *ticks = before + width / 2;
        *ns = now_ns;
    }
}

/* Read both clocks: conversions of times near to now become exact. */
static inline void gt__tick_clock_set(gt_tick_clock *clock)
{
    gt__ticks_and_ns(&clock->ticks, &clock->ns);
    if (clock->ticks != clock->first_ticks)
        clock->ns_per_tick = (double)(clock->ns - clock->first_ns) / (double)(clock->ticks - clock->first_ticks);
}

/* Takes 20 us, to learn how long a tick is. */
static inline void gt__tick_clock_init(gt_tick_clock *clock)
{
    *clock = (gt_tick_clock){.ns_per_tick = 1};
    gt__ticks_and_ns(&clock->first_ticks, &clock->first_ns);
    do
        gt__tick_clock_set(clock);
    while (clock->ns - clock->first_ns < 20000);
}

static inline uint64_t gt__tick_span_ns(const gt_tick_clock *clock, uint64_t ticks)
{
    return (uint64_t)((double)ticks * clock->ns_per_tick);
}

/* From the clock of gt__now_ns. */
static inline uint64_t gt__tick_of_ns(const gt_tick_clock *clock, uint64_t ns)
{
    return clock->ticks + (uint64_t)(int64_t)((double)(int64_t)(ns - clock->ns) / clock->ns_per_tick);
}

/* On the clock of gt__now_ns. */
static inline uint64_t gt__tick_time_ns(const gt_tick_clock *clock, uint64_t ticks)
{
    int64_t since = (int64_t)(ticks - clock->ticks);
    return clock->ns + (uint64_t)(int64_t)((double)since * clock->ns_per_tick);
}

#endif
