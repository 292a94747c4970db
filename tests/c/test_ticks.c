/* test_ticks.c: the length of a tick is learnt rightly also by a thread that loses its processor while it reads the two clocks. */
#include <math.h>

#include "check.h"
#include "link/link.h"

static int readings, lost_before = -1,
                     lost_after = -1; /* at which reading the processor is lost, and on which side of it */

static void lose_processor(void)
{
    const uint64_t LOST_NS = 2000000;
    for (uint64_t began = gt__now_ns(); gt__now_ns() - began < LOST_NS;)
        ;
}

static uint64_t interrupted_now_ns(void)
{
    if (readings == lost_before)
        lose_processor();
    uint64_t now = gt__now_ns();
    if (readings++ == lost_after)
        lose_processor();
    return now;
}

#define gt__now_ns interrupted_now_ns
#include "worker/ticks.h"
#undef gt__now_ns

static double learnt(int before, int after)
{
    gt_tick_clock clock;
    readings = 0;
    lost_before = before;
    lost_after = after;
    gt__tick_clock_init(&clock);
    return clock.ns_per_tick;
}

static void test_lost_processor(const void *argument)
{
    (void)argument;
    uint64_t ticks = gt__ticks(), ns = gt__now_ns();
    for (int k = 0; k < 10; k++)
        lose_processor();
    double right = (double)(gt__now_ns() - ns) / (double)(gt__ticks() - ticks);
    int count = (learnt(-1, -1), readings);
    for (int k = 0; k < count; k++) {
        CHECK(fabs(learnt(k, -1) / right - 1) < 0.1);
        CHECK(fabs(learnt(-1, k) / right - 1) < 0.1);
    }
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("lost_processor", test_lost_processor, NULL);
    return check_end();
}
