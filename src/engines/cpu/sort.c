/*
 * sort.c: argsort and topk along an axis.
 *
 * Every element becomes an unsigned key whose order is the wanted one: floats by their bits with NaN on top, the
 * descending order by complement. A key and its index make a record: one 64-bit word if the key has up to 32 bits,
 * a pair otherwise. Lines of records are sorted by radix, short ones by insertion, and topk selects before it
 * sorts; in each the lower index goes first among equals. Threads share the lines.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/convert.h"
#include "engines/cpu/movement.h"
#include "engines/cpu/sort.h"

/* ---- keys --------------------------------------------------------------------------------------------------- */

/* As gt__sort_key. */
static inline uint32_t key_from_float(float value)
{
    uint32_t bits = gt__float_bits(value + 0.0f); /* -0 + 0 is +0 */
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return value != value ? UINT32_MAX : bits;
}

#define KEY_boolean(x) (uint32_t)(x)
#define KEY_uint8(x) (uint32_t)(x)
#define KEY_int8(x) (uint32_t)((int32_t)(x) + 128)
#define KEY_int16(x) (uint32_t)((int32_t)(x) + 32768)
#define KEY_int32(x) ((uint32_t)(x) ^ 0x80000000u)
#define KEY_float16(x) key_from_float(gt__half_to_float(x))
#define KEY_bfloat16(x) key_from_float(gt__bfloat16_to_float(x))
#define KEY_float32(x) key_from_float(x)
#define KEY_int64(x) ((uint64_t)(x) ^ UINT64_C(1) << 63)
#define KEY_float64(x) gt__sort_key(x)

/* ---- records ------------------------------------------------------------------------------------------------ */

typedef uint64_t narrow; /* key << 32 | index */
typedef gt_wide_record wide;

static inline bool narrow_less(narrow a, narrow b)
{
    return a < b;
}

static inline bool wide_less(wide a, wide b)
{
    return a.key < b.key || (a.key == b.key && a.index < b.index);
}

static inline unsigned narrow_digit(narrow record, int digit)
{
    return record >> (32 + 8 * digit) & 0xff;
}

static inline unsigned wide_digit(wide record, int digit)
{
    return record.key >> (8 * digit) & 0xff;
}

enum { NARROW_DIGITS = 4, WIDE_DIGITS = 8, INSERTION = 32 };

/* Elements between two looks whether the work was cancelled. */
enum { POLL = 1 << 18 };

/* For each k in 0 <= k < n, until the work is cancelled. */
#define FOR_ALL(k, n, parallel, ...)                                                                              \
    for (int64_t block_ = 0; block_ < (n) && !(block_ && gt__parallel_poll(parallel)); block_ += POLL) {          \
        int64_t stop_ = gt__min(n, block_ + POLL);                                                                \
        for (int64_t k = block_; k < stop_; k++)                                                                  \
            __VA_ARGS__;                                                                                          \
    }

/* Sorts records[0..n) with as much spare room behind them. Digits that are the same everywhere are skipped. */
#define SORT(record, digits)                                                                                      \
    static void record##_insert(record *records, int64_t n)                                                       \
    {                                                                                                             \
        for (int64_t k = 1; k < n; k++) {                                                                         \
            record moving = records[k];                                                                           \
            int64_t to = k;                                                                                       \
            for (; to > 0 && record##_less(moving, records[to - 1]); to--)                                        \
                records[to] = records[to - 1];                                                                    \
            records[to] = moving;                                                                                 \
        }                                                                                                         \
    }                                                                                                             \
    static void record##_sort(gt_parallel *parallel, record *records, record *spare, int64_t n)                   \
    {                                                                                                             \
        if (n <= INSERTION) {                                                                                     \
            record##_insert(records, n);                                                                          \
            return;                                                                                               \
        }                                                                                                         \
        int64_t counts[digits][256] = {{0}};                                                                      \
        record *from = records, *to = spare;                                                                      \
        FOR_ALL(k, n, parallel,                                                                                   \
                for (int digit = 0; digit < digits; digit++) counts[digit][record##_digit(records[k], digit)]++)  \
        for (int digit = 0; digit < digits; digit++) {                                                            \
            int64_t *place = counts[digit], before = 0;                                                           \
            if (place[record##_digit(from[0], digit)] == n)                                                       \
                continue;                                                                                         \
            for (int value = 0; value < 256; value++) {                                                           \
                int64_t here = place[value];                                                                      \
                place[value] = before;                                                                            \
                before += here;                                                                                   \
            }                                                                                                     \
            if (gt__parallel_cancelled(parallel)) /* the counts are not complete */                               \
                return;                                                                                           \
            FOR_ALL(k, n, parallel, to[place[record##_digit(from[k], digit)]++] = from[k])                        \
            record *other = from;                                                                                 \
            from = to;                                                                                            \
            to = other;                                                                                           \
        }                                                                                                         \
        if (from != records)                                                                                      \
            memcpy(records, from, (size_t)n * sizeof *records);                                                   \
    }
SORT(narrow, NARROW_DIGITS)
SORT(wide, WIDE_DIGITS)

/* Rearranges so that records[0..k) are the k least, in any order: quickselect, median of three. False: the work was cancelled. */
#define SELECT_LEAST(record)                                                                                      \
    static record record##_median(record a, record b, record c)                                                   \
    {                                                                                                             \
        record low = record##_less(a, b) ? a : b, high = record##_less(a, b) ? b : a;                             \
        return record##_less(c, low) ? low : record##_less(high, c) ? high : c;                                   \
    }                                                                                                             \
    static bool record##_select(gt_parallel *parallel, record *records, int64_t n, int64_t k)                     \
    {                                                                                                             \
        int64_t first = 0, last = n - 1, since = 0;                                                               \
        while (first < last) {                                                                                    \
            record pivot = record##_median(records[first], records[first + (last - first) / 2], records[last]);   \
            int64_t i = first, j = last;                                                                          \
            while (i <= j) {                                                                                      \
                while (record##_less(records[i], pivot))                                                          \
                    i++;                                                                                          \
                while (record##_less(pivot, records[j]))                                                          \
                    j--;                                                                                          \
                if (i <= j) {                                                                                     \
                    record swapped = records[i];                                                                  \
                    records[i++] = records[j];                                                                    \
                    records[j--] = swapped;                                                                       \
                }                                                                                                 \
                if (++since % POLL == 0 && gt__parallel_poll(parallel))                                           \
                    return false;                                                                                 \
            }                                                                                                     \
            if (k - 1 <= j)                                                                                       \
                last = j;                                                                                         \
            else if (k - 1 >= i)                                                                                  \
                first = i;                                                                                        \
            else                                                                                                  \
                return true;                                                                                      \
        }                                                                                                         \
        return true;                                                                                              \
    }
SELECT_LEAST(narrow)
SELECT_LEAST(wide)

/* ---- lines to records --------------------------------------------------------------------------------------- */

/* Elements first..first+n of a line; `flip` is all ones for the descending order. */
#define NARROW_CASE(name, dtype, type)                                                                            \
    case dtype:                                                                                                   \
        for (int64_t k = 0; k < n; k++)                                                                           \
            records[k] = (uint64_t)(KEY_##name(((const type *)line)[(first + k) * stride]) ^ (uint32_t)flip)      \
                             << 32 |                                                                              \
                         (uint64_t)(first + k);                                                                   \
        break;

static void narrow_read(narrow *records, gt_dtype dtype, const void *line, int64_t stride, int64_t first,
                        int64_t n, uint64_t flip)
{
    switch ((unsigned)dtype) {
        NARROW_CASE(boolean, GT_BOOL, uint8_t)
        NARROW_CASE(uint8, GT_UINT8, uint8_t)
        NARROW_CASE(int8, GT_INT8, int8_t)
        NARROW_CASE(int16, GT_INT16, int16_t)
        NARROW_CASE(int32, GT_INT32, int32_t)
        NARROW_CASE(float16, GT_FLOAT16, uint16_t)
        NARROW_CASE(bfloat16, GT_BFLOAT16, uint16_t)
        NARROW_CASE(float32, GT_FLOAT32, float)
    }
}

#define WIDE_CASE(name, dtype, type)                                                                              \
    case dtype:                                                                                                   \
        for (int64_t k = 0; k < n; k++)                                                                           \
            records[k] = (wide){.key = KEY_##name(((const type *)line)[(first + k) * stride]) ^ flip,             \
                                .index = (uint64_t)(first + k)};                                                  \
        break;

static void wide_read(wide *records, gt_dtype dtype, const void *line, int64_t stride, int64_t first, int64_t n,
                      uint64_t flip)
{
    switch ((unsigned)dtype) {
        GT_STORED_TYPES(WIDE_CASE)
    }
}

static inline int64_t narrow_index(narrow record)
{
    return (int64_t)(record & UINT32_MAX);
}

static inline int64_t wide_index(wide record)
{
    return (int64_t)record.index;
}

/* ---- lines -------------------------------------------------------------------------------------------------- */

typedef struct sorting {
    gt_loop lines; /* views: out, in */
    int64_t n;
    int64_t k;         /* results wanted: n for argsort */
    int64_t to_stride; /* along the axis */
    int64_t from_stride;
    gt_dtype dtype;
    uint64_t flip;
    int64_t *to;
    char *from;
    gt_parallel *parallel;
    int64_t capacity; /* of each of a thread's two arrays of records */
    atomic_bool out_of_memory;
} sorting;

enum { PART = 64 };

/*
 * To select, keep the records below the k-th least seen so far, and cut them back to k when there is no room for
 * another part: most parts of a long line then add very few. Cutting keeps the order of records, because the
 * radix sort that follows is stable and compares only keys. Positions of the body are lines.
 */
#define SORT_LINES(record)                                                                                        \
    static record record##_cut(gt_parallel *parallel, record *records, record *spare, int64_t n, int64_t k)       \
    {                                                                                                             \
        memcpy(spare, records, (size_t)n * sizeof *records);                                                      \
        bool selected = record##_select(parallel, spare, n, k);                                                   \
        record limit = spare[k - 1];                                                                              \
        if (!selected)                                                                                            \
            return limit;                                                                                         \
        for (int64_t j = 0, kept = 0; kept < k; j++) {                                                            \
            records[kept] = records[j];                                                                           \
            kept += !record##_less(limit, records[j]);                                                            \
        }                                                                                                         \
        return limit;                                                                                             \
    }                                                                                                             \
    static void record##_keep_least(const sorting *s, record *records, record *spare, const char *line)           \
    {                                                                                                             \
        int64_t kept = 0;                                                                                         \
        bool limited = false;                                                                                     \
        record limit = {0};                                                                                       \
        for (int64_t first = 0; first < s->n; first += PART) {                                                    \
            int64_t n = gt__min(PART, s->n - first);                                                              \
            if (first % POLL == 0 && first && gt__parallel_poll(s->parallel))                                     \
                return;                                                                                           \
            record##_read(spare, s->dtype, line, s->from_stride, first, n, s->flip);                              \
            for (int64_t j = 0; j < n; j++) {                                                                     \
                records[kept] = spare[j];                                                                         \
                kept += !limited | record##_less(spare[j], limit);                                                \
            }                                                                                                     \
            if (kept > s->capacity - PART) {                                                                      \
                limit = record##_cut(s->parallel, records, spare, kept, s->k);                                    \
                limited = true;                                                                                   \
                kept = s->k;                                                                                      \
            }                                                                                                     \
        }                                                                                                         \
        record##_cut(s->parallel, records, spare, kept, s->k);                                                    \
    }                                                                                                             \
    static void record##_lines(void *context, int64_t begin, int64_t end)                                         \
    {                                                                                                             \
        sorting *s = context;                                                                                     \
        record *records = malloc(2 * (size_t)s->capacity * sizeof *records);                                      \
        if (!records) {                                                                                           \
            atomic_store(&s->out_of_memory, true);                                                                \
            return;                                                                                               \
        }                                                                                                         \
        for (int64_t position = begin; position < end; position++) {                                              \
            int64_t offset[GT_LOOP_VIEWS];                                                                        \
            gt__loop_offsets(&s->lines, s->lines.rank, position, offset);                                         \
            const char *line = gt__at(s->from, s->dtype, offset[1]);                                              \
            if (s->k < s->n)                                                                                      \
                record##_keep_least(s, records, records + s->capacity, line);                                     \
            else                                                                                                  \
                for (int64_t at = 0; at < s->n && !gt__parallel_cancelled(s->parallel); at += POLL)               \
                    record##_read(records + at, s->dtype, line, s->from_stride, at, gt__min(POLL, s->n - at),     \
                                  s->flip);                                                                       \
            if (!gt__parallel_cancelled(s->parallel))                                                             \
                record##_sort(s->parallel, records, records + s->capacity, s->k);                                 \
            for (int64_t j = 0; j < s->k && !gt__parallel_cancelled(s->parallel); j++)                            \
                s->to[offset[0] + j * s->to_stride] = record##_index(records[j]);                                 \
        }                                                                                                         \
        free(records);                                                                                            \
    }
SORT_LINES(narrow)
SORT_LINES(wide)

static gt_err sort_lines(gt_cpu *cpu, const gt_call *call, int64_t k, bool descending)
{
    const gt_view *in = call->in[0], *out = call->out;
    int64_t axis = call->ins->imm[0].i;
    sorting s = {
        .n = gt__view_size(in, axis),
        .k = k,
        .to_stride = gt__view_stride(out, axis),
        .from_stride = gt__view_stride(in, axis),
        .dtype = (gt_dtype)in->meta.dtype,
        .flip = descending ? UINT64_MAX : 0,
        .parallel = cpu->parallel,
        .to = out->data,
        .from = in->data,
    };
    if (out->meta.numel == 0)
        return GT_OK;
    s.capacity = gt__min(s.n, 2 * k + PART) + PART;
    int64_t count = gt__lines_start(&s.lines, &in->meta, axis);
    gt__lines_add(&s.lines, out, axis);
    gt__lines_add(&s.lines, in, axis);
    gt__loop_collapse(&s.lines);
    bool narrow_records = gt__dtype_size(s.dtype) <= 4 && s.n <= UINT32_MAX;
    enum { COST = 16 }; /* of a sorted element, in copied ones */
    gt__parallel_for(cpu->parallel, count, gt__grain(COST * s.n), narrow_records ? narrow_lines : wide_lines, &s);
    if (atomic_load(&s.out_of_memory))
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    return GT_OK;
}

bool gt__cpu_sort_least(gt_parallel *parallel, gt_wide_record *records, int64_t n, int64_t k)
{
    if (k > 0 && k < n)
        wide_cut(parallel, records, records + n, n, k);
    if (!gt__parallel_cancelled(parallel))
        wide_sort(parallel, records, records + n, k);
    return !gt__parallel_cancelled(parallel);
}

gt_err gt__cpu_argsort(gt_engine *engine, const gt_call *call)
{
    int64_t n = gt__view_size(call->in[0], call->ins->imm[0].i);
    return sort_lines(gt__cpu(engine), call, n, call->ins->imm[1].i != 0);
}

gt_err gt__cpu_topk(gt_engine *engine, const gt_call *call)
{
    int64_t k = gt__view_size(call->out, call->ins->imm[0].i);
    return sort_lines(gt__cpu(engine), call, k, !(call->ins->flags & GT_FLAG_SMALLEST));
}
