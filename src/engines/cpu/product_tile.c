/*
 * product_tile.c: see product_tile.h. The build compiles it for AVX2 and for AVX-512, with the flags of kernels.c.
 *
 * A tile of the result stays in registers over all terms. There is a loop for every height, so that rows can be divided
 * evenly, and for every number of vectors up to the widest tile: the last columns waste less than a vector. Every element is the same
 * sum whatever the tile, since terms are added in order.
 */
#include "engines/cpu/product_tile.h"

#if !defined(GT_KERNELS)
#error "compile with -DGT_KERNELS=<table name>, see kernels.c"
#endif

#define GLUE_(a, b) a##_##b
#define GLUE(a, b) GLUE_(a, b)
#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* 28 sums, two vectors of b and one element of a take 31 of 32 registers; 12, 2 and 1 take 15 of 16. A copied strip of b, with the
 * rows of a, fits the first-level cache if it is as narrow as that of AVX2; otherwise it is fetched ahead. */
#if defined(__AVX512F__)
enum { LANES = 16, ROWS = 14, VECTORS = 2, FETCH_COPIES = true };
#else
enum { LANES = 8, ROWS = 6, VECTORS = 2, FETCH_COPIES = false };
#endif
enum { AHEAD = 8 }; /* terms */

typedef float vector __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));
typedef float eight __attribute__((vector_size(8 * sizeof(float)), aligned(sizeof(float)), may_alias));
typedef float four __attribute__((vector_size(4 * sizeof(float)), aligned(sizeof(float)), may_alias));

/* ---- one tile ----------------------------------------------------------------------------------------------- */

/* Both functions below round once, by a fused multiplication and addition, so that it does not matter where in a tile an element
 * is: hence zero is added where nothing is. */

/* The columns of a tile that is wider than the rest of the result; its sums are in `edge`. */
static __attribute__((noinline)) void store_edge(const gt_product_tile *x, int height, int width)
{
    const float *values = x->edge;
    float *out = x->out;
    for (int i = 0; i < height; i++, out += x->out_row, values += width)
        for (int64_t j = 0; j < x->columns; j++)
            out[j] = (x->adds ? out[j] : 0) + values[j] * x->scale;
}

INLINE void store(const gt_product_tile *x, vector sum[ROWS][VECTORS], const int height, const int vectors)
{
    static const float zeros[VECTORS * LANES];
    const int width = vectors * LANES;
    if (x->columns < width) {
        UNROLL
        for (int i = 0; i < height; i++) {
            UNROLL
            for (int j = 0; j < vectors; j++)
                *(vector *)(x->edge + i * width + j * LANES) = sum[i][j];
        }
        store_edge(x, height, width);
        return;
    }
    const int64_t row = x->out_row, before_row = x->adds ? row : 0;
    const float *before = x->adds ? x->out : zeros, scale = x->scale;
    float *out = x->out;
    UNROLL
    for (int i = 0; i < height; i++, out += row, before += before_row) {
        UNROLL
        for (int j = 0; j < vectors; j++)
            *(vector *)(out + j * LANES) = *(const vector *)(before + j * LANES) + sum[i][j] * scale;
    }
}

/* What out has is added at the end: it comes from the third-level cache or from memory meanwhile. */
INLINE void prefetch(const gt_product_tile *x, const int height)
{
    enum { LINE = 16 };
    const float *out = x->out;
    for (int i = 0; i < height; i++, out += x->out_row) {
        for (int64_t j = 0; j < x->columns; j += LINE)
            __builtin_prefetch(out + j, 1);
        __builtin_prefetch(out + x->columns - 1, 1);
    }
}

/* Three rows share a pointer, since the processor adds one of three offsets for nothing: there are too few registers for 14. */
INLINE void multiply(const gt_product_tile *x, const int height, const int vectors)
{
    vector sum[ROWS][VECTORS];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < VECTORS; j++)
            sum[i][j] = (vector){0};
    const float *b = x->b, *a[(ROWS + 2) / 3];
    const int64_t row = x->a_row, step = x->a_step;
    const bool ahead = (FETCH_COPIES && vectors == VECTORS) || x->b_step != vectors * LANES;
    for (int i = 0; i < (ROWS + 2) / 3; i++)
        a[i] = x->a + 3 * i * row;
    if (x->adds)
        prefetch(x, height);
    for (int64_t t = x->terms; t > 0; t--) {
        vector right[VECTORS];
        UNROLL
        for (int j = 0; j < vectors; j++) {
            right[j] = *(const vector *)(b + j * LANES);
            if (ahead)
                __builtin_prefetch(b + AHEAD * x->b_step + j * LANES);
        }
        UNROLL
        for (int i = 0; i < height; i++) {
            const float left = a[i / 3][i % 3 * row];
            UNROLL
            for (int j = 0; j < vectors; j++)
                sum[i][j] += right[j] * left;
        }
        UNROLL
        for (int i = 0; i < (height + 2) / 3; i++)
            a[i] += step;
        b += x->b_step;
    }
    store(x, sum, height, vectors);
}

#define HEIGHTS_6(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define HEIGHTS_14(X) HEIGHTS_6(X) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#if defined(__AVX512F__)
#define HEIGHTS(X) HEIGHTS_14(X)
#else
#define HEIGHTS(X) HEIGHTS_6(X)
#endif

#define TILE(height, vectors)                                                                                     \
    static void tile_##height##_##vectors(const gt_product_tile *x)                                               \
    {                                                                                                             \
        multiply(x, height, vectors);                                                                             \
    }
#define TILES(height) TILE(height, 1) TILE(height, 2)
HEIGHTS(TILES)

/* ---- copies ------------------------------------------------------------------------------------------------- */

/* to (8, ...) = eight lines, one term after the other; rows of `to` are `width` apart. */
INLINE void transpose(const float *from, int64_t line, float *to, int64_t width)
{
    eight x[8], y[8];
    UNROLL
    for (int i = 0; i < 4; i++) { /* the halves of lines i and i + 4 */
        eight low = *(const eight *)(from + i * line), high = *(const eight *)(from + (i + 4) * line);
        x[i] = __builtin_shufflevector(low, high, 0, 1, 2, 3, 8, 9, 10, 11);
        x[i + 4] = __builtin_shufflevector(low, high, 4, 5, 6, 7, 12, 13, 14, 15);
    }
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    UNROLL
    for (int half = 0; half < 2; half++) {
        eight *pair = y + 4 * half;
        UNROLL
        for (int i = 0; i < 2; i++) {
            float *row = to + (4 * half + 2 * i) * width;
            *(eight *)row = __builtin_shufflevector(pair[i], pair[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            *(eight *)(row + width) = __builtin_shufflevector(pair[i], pair[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
}

/* The same with four. */
INLINE void transpose_four(const float *from, int64_t line, float *to, int64_t width)
{
    four a = *(const four *)from, b = *(const four *)(from + line);
    four c = *(const four *)(from + 2 * line), d = *(const four *)(from + 3 * line);
    four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(four *)to = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    *(four *)(to + width) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    *(four *)(to + 2 * width) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    *(four *)(to + 3 * width) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

/* Blocks of `unit` positions; the last one overlaps the one before. */
INLINE int64_t next_block(int64_t position, int64_t count, int64_t unit)
{
    return position + unit < count && position + 2 * unit > count ? count - unit : position + unit;
}

INLINE void transpose_lines(gt_product_lines x, int64_t lines, int64_t terms, int64_t width, float *to,
                            const int unit)
{
    for (int64_t t = 0; t < terms; t = next_block(t, terms, unit))
        for (int64_t i = 0; i < lines; i = next_block(i, lines, unit))
            if (unit == 8)
                transpose(x.data + i * x.line + t, x.line, to + t * width + i, width);
            else
                transpose_four(x.data + i * x.line + t, x.line, to + t * width + i, width);
}

/* Lines whose elements of one term are neighbours. */
INLINE void copy_lines(gt_product_lines x, int64_t lines, int64_t terms, int64_t width, float *to, const int unit)
{
    for (int64_t t = 0; t < terms; t++)
        for (int64_t i = 0; i < lines; i = next_block(i, lines, unit))
            if (unit == LANES)
                *(vector *)(to + t * width + i) = *(const vector *)(x.data + t * x.step + i);
            else if (unit == 8)
                *(eight *)(to + t * width + i) = *(const eight *)(x.data + t * x.step + i);
            else
                *(four *)(to + t * width + i) = *(const four *)(x.data + t * x.step + i);
}

static void pack(gt_product_lines x, int64_t lines, int64_t terms, int64_t width, float *to)
{
    if (x.line == 1 && lines >= LANES)
        copy_lines(x, lines, terms, width, to, LANES);
    else if (x.line == 1 && lines >= 8)
        copy_lines(x, lines, terms, width, to, 8);
    else if (x.line == 1 && lines >= 4)
        copy_lines(x, lines, terms, width, to, 4);
    else if (x.step == 1 && lines >= 8 && terms >= 8)
        transpose_lines(x, lines, terms, width, to, 8);
    else if (x.step == 1 && lines >= 4 && terms >= 4)
        transpose_lines(x, lines, terms, width, to, 4);
    else
        for (int64_t t = 0; t < terms; t++)
            for (int64_t i = 0; i < lines; i++)
                to[t * width + i] = x.data[i * x.line + t * x.step];
    for (int64_t t = 0; t < terms && lines < width; t++)
        for (int64_t i = lines; i < width; i++)
            to[t * width + i] = 0;
}

#define ENTRY(height) {tile_##height##_1, tile_##height##_2},

const gt_product_tiles GLUE(gt__product_tiles, GT_KERNELS) = {
    .rows = ROWS,
    .vectors = VECTORS,
    .lanes = LANES,
    .tile = {HEIGHTS(ENTRY)},
    .pack = pack,
};
