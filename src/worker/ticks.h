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

/* Read both clocks: conversions of times near to now become exact. */
static inline void gt__tick_clock_set(gt_tick_clock *clock)
{
    clock->ticks = gt__ticks();
    clock->ns = gt__now_ns();
    if (clock->ticks != clock->first_ticks)
        clock->ns_per_tick = (double)(clock->ns - clock->first_ns) / (double)(clock->ticks - clock->first_ticks);
}

/* Takes 20 us, to learn how long a tick is. */
static inline void gt__tick_clock_init(gt_tick_clock *clock)
{
    *clock = (gt_tick_clock){.first_ticks = gt__ticks(), .first_ns = gt__now_ns(), .ns_per_tick = 1};
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
