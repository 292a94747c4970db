/*
 * kernels_template.h: a template: the inner loops for one compute type. kernels.c includes it once for each type, with these
 * macros defined; it undefines them at the end.
 *
 *     T            the compute type
 *     STORED       its type in memory
 *     ACCUMULATOR  the type in which reductions add up
 *     SUFFIX       ends every function's name
 *     LEAST, MOST  the ends of the range
 *     TO_COMPUTE   TO_COMPUTE(value): any number as T
 *     INTEGER      1: rows of types BITS and INT exist, those of FLT do not
 *     FOLDS        0: elementwise loops only
 *     NATIVE_MAX, NATIVE_MIN  of two vectors, passing on NaN; only where the machine has them
 */

#define KERNEL(name) GLUE(name, SUFFIX)

typedef T KERNEL(vector) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
#define VECTOR KERNEL(vector)
#define LANES ((int)(VECTOR_BYTES / sizeof(T)))

/* ---- elementwise: one loop for each row of the op table and each choice of constant operands -------------- */

#define LOOP(suffix, OUT, expr, constants, variables)                                                             \
    static void KERNEL(suffix)(void *out, const void *xs, const void *ys, const void *zs, const double *pq,       \
                               int64_t count)                                                                     \
    {                                                                                                             \
        UNUSED(ys), UNUSED(zs), UNUSED(pq);                                                                       \
        constants;                                                                                                \
        INDEPENDENT for (int64_t i = 0; i < count; i++)                                                           \
        {                                                                                                         \
            variables;                                                                                            \
            ((OUT *)out)[i] = (OUT)(expr);                                                                        \
        }                                                                                                         \
    }
#define VARIABLE(v) const T v = ((const STORED *)v##s)[i]
#define CONSTANT(v) const T v = *(const STORED *)v##s

#define UNARY_LOOPS(name, OUT, expr) LOOP(name, OUT, expr, , VARIABLE(x))
#define NUMBERS                                                                                                   \
    const T p = KERNEL(from_double)(pq[0]), q = KERNEL(from_double)(pq[1]);                                       \
    UNUSED(p), UNUSED(q)
#define UNARY_PQ_LOOPS(name, OUT, expr) LOOP(name, OUT, expr, NUMBERS, VARIABLE(x))
#define BINARY_LOOPS(name, OUT, expr)                                                                             \
    LOOP(name, OUT, expr, , VARIABLE(x); VARIABLE(y))                                                             \
    LOOP(name##_x, OUT, expr, CONSTANT(x), VARIABLE(y))                                                           \
    LOOP(name##_y, OUT, expr, CONSTANT(y), VARIABLE(x))
#define BINARY_PQ_LOOPS(name, OUT, expr)                                                                          \
    LOOP(name, OUT, expr, NUMBERS, VARIABLE(x); VARIABLE(y))                                                      \
    LOOP(name##_x, OUT, expr, NUMBERS; CONSTANT(x), VARIABLE(y))                                                  \
    LOOP(name##_y, OUT, expr, NUMBERS; CONSTANT(y), VARIABLE(x))
#define TERNARY_LOOPS(name, OUT, expr)                                                                            \
    LOOP(name, OUT, expr, , VARIABLE(x); VARIABLE(y); VARIABLE(z))                                                \
    LOOP(name##_y, OUT, expr, CONSTANT(y), VARIABLE(x); VARIABLE(z))                                              \
    LOOP(name##_z, OUT, expr, CONSTANT(z), VARIABLE(x); VARIABLE(y))                                              \
    LOOP(name##_yz, OUT, expr, CONSTANT(y); CONSTANT(z), VARIABLE(x))

#define LOOPS_NUM(FORM, name, expr) FORM(name, STORED, expr)
#define LOOPS_ARITH(FORM, name, expr) FORM(name, STORED, expr)
#define LOOPS_BOOL(FORM, name, expr) FORM(name, uint8_t, expr)
#if INTEGER
#define LOOPS_FLT(FORM, name, expr)
#define LOOPS_BITS(FORM, name, expr) FORM(name, STORED, expr)
#else
#define LOOPS_FLT(FORM, name, expr) FORM(name, STORED, expr)
#define LOOPS_BITS(FORM, name, expr)
#endif
#define LOOPS_INT LOOPS_BITS

#define UNARY(name, types, expr, grad) LOOPS_##types(UNARY_LOOPS, name, expr)
#define UNARY_PQ(name, types, expr, grad) LOOPS_##types(UNARY_PQ_LOOPS, name, expr)
#define BINARY(name, types, expr, grad) LOOPS_##types(BINARY_LOOPS, name, expr)
#define BINARY_PQ(name, types, expr, grad) LOOPS_##types(BINARY_PQ_LOOPS, name, expr)
#define TERNARY(name, types, expr, grad) LOOPS_##types(TERNARY_LOOPS, name, expr)
#include "core/ops.def"
LOOP(cube, STORED, x *x *x, , VARIABLE(x))

/* ---- tiles: gather and convert, convert and store ---------------------------------------------------------- */

#define TILES(name, dtype, type)                                                                                  \
    static void KERNEL(load_##name)(void *tile, const void *from, int64_t stride, int64_t count)                  \
    {                                                                                                             \
        const type *source = from;                                                                                \
        STORED *target = tile;                                                                                    \
        if (stride == 1)                                                                                          \
            INDEPENDENT for (int64_t i = 0; i < count; i++) target[i] = TO_COMPUTE(gt__load_##name(source[i]));   \
        else                                                                                                      \
            for (int64_t i = 0; i < count; i++)                                                                   \
                target[i] = TO_COMPUTE(gt__load_##name(source[i * stride]));                                      \
    }                                                                                                             \
    static void KERNEL(store_##name)(void *to, int64_t stride, const void *tile, int64_t count)                   \
    {                                                                                                             \
        const STORED *source = tile;                                                                              \
        type *target = to;                                                                                        \
        if (stride == 1)                                                                                          \
            INDEPENDENT for (int64_t i = 0; i < count; i++) target[i] = GT_STORE_FROM(name, source[i]);           \
        else                                                                                                      \
            for (int64_t i = 0; i < count; i++)                                                                   \
                target[i * stride] = GT_STORE_FROM(name, source[i]);                                              \
    }
GT_STORED_TYPES(TILES)

#if FOLDS
/* ---- reductions -------------------------------------------------------------------------------------------- */

/* step_<fold>(a, x, c): a with one more element x (c: the center); works on T and, except any and all, on vectors. */
#if defined(NATIVE_MAX)
static inline VECTOR KERNEL(vector_max)(VECTOR a, VECTOR x)
{
    return NATIVE_MAX(a, x);
}
static inline VECTOR KERNEL(vector_min)(VECTOR a, VECTOR x)
{
    return NATIVE_MIN(a, x);
}
#else
static inline VECTOR KERNEL(vector_max)(VECTOR a, VECTOR x)
{
    __typeof__(a < x) take = (x > a) | (x != x);
    return (VECTOR)(((__typeof__(take))x & take) | ((__typeof__(take))a & ~take));
}

static inline VECTOR KERNEL(vector_min)(VECTOR a, VECTOR x)
{
    __typeof__(a < x) take = (x < a) | (x != x);
    return (VECTOR)(((__typeof__(take))x & take) | ((__typeof__(take))a & ~take));
}
#endif

static inline VECTOR KERNEL(vector_abs)(VECTOR x)
{
    __typeof__(x < x) negative = x < 0;
    return (VECTOR)(((__typeof__(negative))-x & negative) | ((__typeof__(negative))x & ~negative));
}

#define VECTOR_STEP_sum(a, x, c) ((a) + (x))
#define VECTOR_STEP_prod(a, x, c) ((a) * (x))
#define VECTOR_STEP_max(a, x, c) KERNEL(vector_max)(a, x)
#define VECTOR_STEP_min(a, x, c) KERNEL(vector_min)(a, x)
#define VECTOR_STEP_nan_max(a, x, c) KERNEL(vector_max)(a, x)
#define VECTOR_STEP_nan_min(a, x, c) KERNEL(vector_min)(a, x)
#define VECTOR_STEP_squares(a, x, c) ((a) + ((x) - (c)) * ((x) - (c)))
#define VECTOR_STEP_abs(a, x, c) ((a) + KERNEL(vector_abs)(x))
#define VECTOR_STEP_abs_max(a, x, c) KERNEL(vector_max)(a, KERNEL(vector_abs)(x))
#define VECTOR_STEP_abs_min(a, x, c) KERNEL(vector_min)(a, KERNEL(vector_abs)(x))
#define VECTOR_MERGE_sum(a, b) ((a) + (b))
#define VECTOR_MERGE_prod(a, b) ((a) * (b))
#define VECTOR_MERGE_max(a, b) KERNEL(vector_max)(a, b)
#define VECTOR_MERGE_min(a, b) KERNEL(vector_min)(a, b)
#define VECTOR_MERGE_nan_max(a, b) KERNEL(vector_max)(a, b)
#define VECTOR_MERGE_nan_min(a, b) KERNEL(vector_min)(a, b)
#define VECTOR_MERGE_squares(a, b) ((a) + (b))
#define VECTOR_MERGE_abs(a, b) ((a) + (b))
#define VECTOR_MERGE_abs_max(a, b) KERNEL(vector_max)(a, b)
#define VECTOR_MERGE_abs_min(a, b) KERNEL(vector_min)(a, b)

#define STEP_sum(a, x, c) ((a) + (x))
#define STEP_prod(a, x, c) ((a) * (x))
#define STEP_max(a, x, c) MAXIMUM(x, a)
#define STEP_min(a, x, c) MINIMUM(x, a)
#define STEP_nan_max(a, x, c) MAXIMUM(x, a)
#define STEP_nan_min(a, x, c) MINIMUM(x, a)
#define STEP_any(a, x, c) ((T)(((a) != 0) | ((x) != 0)))
#define STEP_all(a, x, c) ((T)(((a) != 0) & ((x) != 0)))
#define STEP_squares(a, x, c) ((a) + ((x) - (c)) * ((x) - (c)))
#define STEP_abs(a, x, c) ((a) + ABS(x))
#define STEP_abs_max(a, x, c) MAXIMUM(ABS(x), a)
#define STEP_abs_min(a, x, c) MINIMUM(ABS(x), a)
#define STEP_nonzero(a, x, c) ((a) + (T)((x) != 0))
#define STEP_powers(a, x, c) ((a) + POW(ABS(x), c))
#define STEP_exps(a, x, c) ((a) + EXP((x) - (c)))

#define MERGE_sum(a, b) ((a) + (b))
#define MERGE_prod(a, b) ((a) * (b))
#define MERGE_max(a, b) MAXIMUM(b, a)
#define MERGE_min(a, b) MINIMUM(b, a)
#define MERGE_nan_max(a, b) MAXIMUM(b, a)
#define MERGE_nan_min(a, b) MINIMUM(b, a)
#define MERGE_any(a, b) (((a) != 0) | ((b) != 0))
#define MERGE_all(a, b) (((a) != 0) & ((b) != 0))
#define MERGE_squares(a, b) ((a) + (b))
#define MERGE_abs(a, b) ((a) + (b))
#define MERGE_abs_max(a, b) MAXIMUM(b, a)
#define MERGE_abs_min(a, b) MINIMUM(b, a)
#define MERGE_nonzero(a, b) ((a) + (b))
#define MERGE_powers(a, b) ((a) + (b))
#define MERGE_exps(a, b) ((a) + (b))

/* Prefetch for a loop over a row in steps of ROW_VECTORS. */
#define PREFETCH_ROW(x)                                                                                           \
    do                                                                                                            \
        for (int line = 0; line < ROW_VECTORS * VECTOR_BYTES; line += 64)                                         \
            __builtin_prefetch((const char *)(x) + ROW_AHEAD + line);                                             \
    while (0)

/*
 * A row is folded in blocks: several vectors of partial results inside a block, the accumulator (wider than float)
 * across blocks. The partial sums stay short, so the error does not grow with the length of the row.
 */
#define FOLD_ROW(fold, first)                                                                                     \
    static T KERNEL(block_##fold)(const T *x, int64_t count, T c)                                                 \
    {                                                                                                             \
        UNUSED(c);                                                                                                \
        T result = first;                                                                                         \
        int64_t i = 0;                                                                                            \
        if (count >= (INTEGER ? 2 : 1) * ROW_VECTORS * LANES) {                                                   \
            VECTOR part[ROW_VECTORS];                                                                             \
            for (int v = 0; v < ROW_VECTORS; v++)                                                                 \
                part[v] = (VECTOR){0} + (T)(first);                                                               \
            for (; i + ROW_VECTORS * LANES <= count; i += ROW_VECTORS * LANES) {                                  \
                PREFETCH_ROW(x + i);                                                                              \
                for (int v = 0; v < ROW_VECTORS; v++)                                                             \
                    part[v] = VECTOR_STEP_##fold(part[v], *(const VECTOR *)(x + i + v * LANES), c);               \
            }                                                                                                     \
            for (int half = ROW_VECTORS / 2; half > 0; half /= 2)                                                 \
                for (int v = 0; v < half; v++)                                                                    \
                    part[v] = VECTOR_MERGE_##fold(part[v], part[v + half]);                                       \
            for (int lane = 0; lane < LANES; lane++)                                                              \
                result = MERGE_##fold(result, part[0][lane]);                                                     \
        }                                                                                                         \
        for (; i < count; i++)                                                                                    \
            result = STEP_##fold(result, x[i], c);                                                                \
        return result;                                                                                            \
    }
#define BLOCKS(fold)                                                                                              \
    static void KERNEL(row_##fold)(void *accumulator, const void *xs, int64_t count, const double *center)        \
    {                                                                                                             \
        ACCUMULATOR total = *(ACCUMULATOR *)accumulator;                                                          \
        const T *x = xs;                                                                                          \
        T c = center ? (T)*center : 0;                                                                            \
        for (int64_t i = 0; i < count; i += ROW_BLOCK) {                                                          \
            int64_t block = count - i < ROW_BLOCK ? count - i : ROW_BLOCK;                                        \
            ACCUMULATOR part = (ACCUMULATOR)KERNEL(block_##fold)(x + i, block, c);                                \
            total = MERGE_##fold(total, part);                                                                    \
        }                                                                                                         \
        *(ACCUMULATOR *)accumulator = total;                                                                      \
    }
FOLD_ROW(sum, 0)
FOLD_ROW(prod, 1)
BLOCKS(sum)
BLOCKS(prod)
#if defined(NATIVE_MAX)
FOLD_ROW(max, LEAST)
FOLD_ROW(min, MOST)
#else
FOLD_ROW(nan_max, LEAST)
FOLD_ROW(nan_min, MOST)

/*
 * The extreme of a block by a fast loop that ignores NaN. The sum of the block is NaN if an element is; then the careful
 * loop runs. (The sum may also be NaN from infinities or overflow; then the careful loop finds no NaN.)
 */
#define EXTREME_ROW(fold, first, compare)                                                                         \
    static T KERNEL(block_##fold)(const T *x, int64_t count, T c)                                                 \
    {                                                                                                             \
        T result = first, total;                                                                                  \
        int64_t i = 0;                                                                                            \
        if (INTEGER && count < 4 * ROW_VECTORS * LANES) {                                                         \
            for (; i < count; i++)                                                                                \
                result = x[i] compare result ? x[i] : result;                                                     \
            return result;                                                                                        \
        }                                                                                                         \
        VECTOR part[ROW_VECTORS], sum[4] = {0};                                                                   \
        for (int v = 0; v < ROW_VECTORS; v++)                                                                     \
            part[v] = (VECTOR){0} + (T)(first);                                                                   \
        for (; i + ROW_VECTORS * LANES <= count; i += ROW_VECTORS * LANES) {                                      \
            PREFETCH_ROW(x + i);                                                                                  \
            for (int v = 0; v < ROW_VECTORS; v++) {                                                               \
                VECTOR y = *(const VECTOR *)(x + i + v * LANES);                                                  \
                __typeof__(y compare y) take = y compare part[v];                                                 \
                part[v] = (VECTOR)(((__typeof__(take))y & take) | ((__typeof__(take))part[v] & ~take));           \
                sum[v % 4] += y;                                                                                  \
            }                                                                                                     \
        }                                                                                                         \
        for (int half = ROW_VECTORS / 2; half > 0; half /= 2)                                                     \
            for (int v = 0; v < half; v++) {                                                                      \
                __typeof__(*part compare * part) take = part[v + half] compare part[v];                           \
                part[v] =                                                                                         \
                    (VECTOR)(((__typeof__(take))part[v + half] & take) | ((__typeof__(take))part[v] & ~take));    \
            }                                                                                                     \
        total = 0;                                                                                                \
        sum[0] += sum[1] + (sum[2] + sum[3]);                                                                     \
        for (int lane = 0; lane < LANES; lane++) {                                                                \
            total += sum[0][lane];                                                                                \
            result = part[0][lane] compare result ? part[0][lane] : result;                                       \
        }                                                                                                         \
        for (; i < count; i++) {                                                                                  \
            result = x[i] compare result ? x[i] : result;                                                         \
            total += x[i];                                                                                        \
        }                                                                                                         \
        return total == total ? result : KERNEL(block_nan_##fold)(x, count, c);                                   \
    }
EXTREME_ROW(max, LEAST, >)
EXTREME_ROW(min, MOST, <)
#endif
BLOCKS(max)
BLOCKS(min)
FOLD_ROW(squares, 0)
BLOCKS(squares)
#if !INTEGER
FOLD_ROW(abs, 0)
FOLD_ROW(abs_max, 0)
FOLD_ROW(abs_min, MOST)
BLOCKS(abs)
BLOCKS(abs_max)
BLOCKS(abs_min)

/* The sum of a function, by tiles of its values. */
#define SUM_ROW(name, value)                                                                                      \
    static void KERNEL(row_##name)(void *accumulator, const void *xs, int64_t count, const double *center)        \
    {                                                                                                             \
        T tile[GT_TILE], c = center ? (T)*center : 0;                                                             \
        UNUSED(c);                                                                                                \
        for (const T *x = xs; count > 0; x += GT_TILE, count -= GT_TILE) {                                        \
            int64_t part = count < GT_TILE ? count : GT_TILE;                                                     \
            INDEPENDENT for (int64_t i = 0; i < part; i++) tile[i] = value;                                       \
            *(double *)accumulator += (double)KERNEL(block_sum)(tile, part, 0);                                   \
        }                                                                                                         \
    }
SUM_ROW(nonzero, (T)(x[i] != 0))
SUM_ROW(powers, POW(ABS(x[i]), c))
SUM_ROW(exps, EXP(x[i] - c))
#endif

static void KERNEL(row_any)(void *accumulator, const void *xs, int64_t count, const double *center)
{
    const T *x = xs;
    int found = 0;
    UNUSED(center);
    for (int64_t i = 0; i < count; i++)
        found |= x[i] != 0;
    *(ACCUMULATOR *)accumulator = MERGE_any(*(ACCUMULATOR *)accumulator, found);
}

static void KERNEL(row_all)(void *accumulator, const void *xs, int64_t count, const double *center)
{
    const T *x = xs;
    int missing = 0;
    UNUSED(center);
    for (int64_t i = 0; i < count; i++)
        missing |= x[i] == 0;
    *(ACCUMULATOR *)accumulator = MERGE_all(*(ACCUMULATOR *)accumulator, !missing);
}

/*
 * Columns: rows are added to a tile of partial results, four at a time, and that to the accumulators every 64 rows. `few`
 * has the first part only: up to 64 rows, without accumulators.
 */
#define FOLD_FEW(fold, first)                                                                                     \
    static inline void KERNEL(add_few_##fold)(T * part, const T *x, int64_t stride, int64_t rows, int64_t count,  \
                                              const T *c)                                                         \
    {                                                                                                             \
        UNUSED(c);                                                                                                \
        INDEPENDENT for (int64_t j = 0; j < count; j++) part[j] = STEP_##fold((T)(first), x[j], c[j]);            \
        for (rows--, x += stride; rows >= 4; rows -= 4, x += 4 * stride)                                          \
            INDEPENDENT for (int64_t j = 0; j < count; j++)                                                       \
            {                                                                                                     \
                T a = STEP_##fold(part[j], x[j], c[j]);                                                           \
                T b = STEP_##fold(a, x[j + stride], c[j]);                                                        \
                T d = STEP_##fold(b, x[j + 2 * stride], c[j]);                                                    \
                part[j] = STEP_##fold(d, x[j + 3 * stride], c[j]);                                                \
            }                                                                                                     \
        for (; rows > 0; rows--, x += stride)                                                                     \
            INDEPENDENT for (int64_t j = 0; j < count; j++) part[j] = STEP_##fold(part[j], x[j], c[j]);           \
    }
/* With vectors, whose step may be one instruction. */
#define FOLD_FEW_VECTORS(fold)                                                                                    \
    static inline void KERNEL(add_few_##fold)(T * part, const T *x, int64_t stride, int64_t rows, int64_t count,  \
                                              const T *c)                                                         \
    {                                                                                                             \
        int64_t j = 0;                                                                                            \
        UNUSED(c);                                                                                                \
        for (; j + 4 * LANES <= count; j += 4 * LANES) {                                                          \
            VECTOR a[4];                                                                                          \
            for (int v = 0; v < 4; v++)                                                                           \
                a[v] = *(const VECTOR *)(x + j + v * LANES);                                                      \
            for (int64_t i = 1; i < rows; i++)                                                                    \
                for (int v = 0; v < 4; v++)                                                                       \
                    a[v] = VECTOR_STEP_##fold(a[v], *(const VECTOR *)(x + i * stride + j + v * LANES), 0);        \
            for (int v = 0; v < 4; v++)                                                                           \
                *(VECTOR *)(part + j + v * LANES) = a[v];                                                         \
        }                                                                                                         \
        for (; j + LANES <= count; j += LANES) {                                                                  \
            VECTOR a = *(const VECTOR *)(x + j);                                                                  \
            for (int64_t i = 1; i < rows; i++)                                                                    \
                a = VECTOR_STEP_##fold(a, *(const VECTOR *)(x + i * stride + j), 0);                              \
            *(VECTOR *)(part + j) = a;                                                                            \
        }                                                                                                         \
        for (; j < count; j++) {                                                                                  \
            T a = x[j];                                                                                           \
            for (int64_t i = 1; i < rows; i++)                                                                    \
                a = STEP_##fold(a, x[i * stride + j], 0);                                                         \
            part[j] = a;                                                                                          \
        }                                                                                                         \
    }
#define FOLD_COLUMN(fold, centered)                                                                               \
    static void KERNEL(few_##fold)(void *out, const void *x, int64_t stride, int64_t rows, int64_t count)         \
    {                                                                                                             \
        static const T zeros[GT_TILE];                                                                            \
        KERNEL(add_few_##fold)(out, x, stride, rows, count, zeros);                                               \
    }                                                                                                             \
    static void KERNEL(column_##fold)(void *accumulator, const void *xs, int64_t stride, int64_t rows,            \
                                      int64_t count, const double *center)                                        \
    {                                                                                                             \
        T part[GT_TILE], c[GT_TILE];                                                                              \
        ACCUMULATOR *total = accumulator;                                                                         \
        for (int64_t j = 0; j < (centered ? count : 0); j++)                                                      \
            c[j] = center ? (T)center[j] : 0;                                                                     \
        for (const T *x = xs; rows > 0; rows -= COLUMN_BLOCK, x += COLUMN_BLOCK * stride) {                       \
            KERNEL(add_few_##fold)(part, x, stride, rows < COLUMN_BLOCK ? rows : COLUMN_BLOCK, count, c);         \
            INDEPENDENT for (int64_t j = 0; j < count; j++) total[j] =                                            \
                MERGE_##fold(total[j], (ACCUMULATOR)part[j]);                                                     \
        }                                                                                                         \
    }
FOLD_FEW(sum, 0)
FOLD_FEW(prod, 1)
FOLD_FEW_VECTORS(max)
FOLD_FEW_VECTORS(min)
FOLD_FEW(any, 0)
FOLD_FEW(all, 1)
FOLD_FEW(squares, 0)
FOLD_COLUMN(sum, false)
FOLD_COLUMN(prod, false)
FOLD_COLUMN(max, false)
FOLD_COLUMN(min, false)
FOLD_COLUMN(any, false)
FOLD_COLUMN(all, false)
FOLD_COLUMN(squares, true)
#if !INTEGER
FOLD_FEW(abs, 0)
FOLD_FEW(abs_max, 0)
FOLD_FEW(abs_min, MOST)
FOLD_FEW(nonzero, 0)
FOLD_FEW(powers, 0)
FOLD_FEW(exps, 0)
FOLD_COLUMN(abs, false)
FOLD_COLUMN(abs_max, false)
FOLD_COLUMN(abs_min, false)
FOLD_COLUMN(nonzero, false)
FOLD_COLUMN(powers, true)
FOLD_COLUMN(exps, true)
#endif

/* Blocks are searched whole, without an early exit, so that the search vectorises. */
static int64_t KERNEL(find)(const T *x, int64_t count, T value)
{
    enum { SEARCH_BLOCK = 64 };
    int64_t i = 0;
    for (; i + SEARCH_BLOCK <= count; i += SEARCH_BLOCK) {
        int found = 0;
        for (int j = 0; j < SEARCH_BLOCK; j++)
            found |= (x[i + j] == value) | ((value != value) & (x[i + j] != x[i + j]));
        if (found)
            break;
    }
    for (; i < count - 1; i++)
        if (x[i] == value || (value != value && x[i] != x[i]))
            break;
    return i;
}

static int64_t KERNEL(argmax)(const void *xs, int64_t count)
{
    const T *x = xs;
    return KERNEL(find)(x, count, KERNEL(block_max)(x, count, 0));
}

static int64_t KERNEL(argmin)(const void *xs, int64_t count)
{
    const T *x = xs;
    return KERNEL(find)(x, count, KERNEL(block_min)(x, count, 0));
}

#include "engines/cpu/kernels_conv_template.h"
#include "engines/cpu/kernels_pool_template.h"
#endif

#undef KERNEL
#undef VECTOR
#undef LANES
#undef LOOP
#undef VARIABLE
#undef CONSTANT
#undef UNARY_LOOPS
#undef NUMBERS
#undef UNARY_PQ_LOOPS
#undef BINARY_LOOPS
#undef BINARY_PQ_LOOPS
#undef TERNARY_LOOPS
#undef LOOPS_NUM
#undef LOOPS_ARITH
#undef LOOPS_BOOL
#undef LOOPS_FLT
#undef LOOPS_BITS
#undef LOOPS_INT
#undef TILES
#undef FOLD_ROW
#undef BLOCKS
#undef EXTREME_ROW
#undef NATIVE_MAX
#undef NATIVE_MIN
#undef FOLD_FEW
#undef FOLD_FEW_VECTORS
#undef FOLD_COLUMN
#undef SUM_ROW
#undef T
#undef STORED
#undef ACCUMULATOR
#undef SUFFIX
#undef LEAST
#undef MOST
#undef INTEGER
#undef FOLDS
#undef TO_COMPUTE
