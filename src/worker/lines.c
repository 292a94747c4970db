/* lines.c: see lines.h. timing.c adds to it what it measures. */
#include "worker/lines.h"

enum { PROBES = 16 }; /* places where a line may be, in a row */

static uint64_t load(const _Atomic uint64_t *field)
{
    return atomic_load_explicit(field, memory_order_relaxed);
}

static void store(_Atomic uint64_t *field, uint64_t value)
{
    atomic_store_explicit(field, value, memory_order_relaxed);
}

/* The place of a line, which may be another's. */
static unsigned find_place(const gt_statement *statement, const gt_line_ages *ages, uint64_t key)
{
    unsigned first = (unsigned)(key * 0x9E3779B97F4A7C15u >> 32), oldest = first % GT_LINES;
    for (unsigned k = 0; k < PROBES; k++) {
        unsigned at = (first + k) % GT_LINES;
        uint64_t there = load(&statement->lines[at].key);
        if (there == key || !there)
            return at;
        if (ages->used[at] < ages->used[oldest])
            oldest = at;
    }
    return oldest;
}

void gt__line_time_add(gt_statement *statement, gt_line_ages *ages, uint64_t key, uint64_t ns, uint64_t count)
{
    unsigned at = find_place(statement, ages, key);
    struct gt_statement_line *line = &statement->lines[at];
    if (load(&line->key) != key) { /* the key last: a reader that sees it sees its own sums */
        atomic_store_explicit(&line->key, 0, memory_order_release);
        atomic_thread_fence(memory_order_release);
        store(&line->ns, 0);
        store(&line->count, 0);
        atomic_store_explicit(&line->key, key, memory_order_release);
    }
    gt__statement_add(&line->ns, ns);
    gt__statement_add(&line->count, count);
    ages->used[at] = ++ages->now;
}
