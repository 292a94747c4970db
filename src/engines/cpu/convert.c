/*
 * convert.c: the row movers: one loop per pair of dtypes, made from core/convert.h, which says what a cast means.
 *
 * Each has a contiguous loop that compilers vectorise, a fill, and a strided loop. Within one dtype only the size
 * matters and bits are moved unchanged.
 */
#include "core/convert.h"

#include <string.h>

#include "engines/cpu/movement.h"

#define ROW_MOVER(to_name, to_type, from_name, from_type)                                                         \
    static void to_name##_from_##from_name(void *to, int64_t to_stride, const void *from, int64_t from_stride,    \
                                           int64_t count)                                                         \
    {                                                                                                             \
        to_type *restrict t = to;                                                                                 \
        const from_type *restrict f = from;                                                                       \
        if (to_stride == 1 && from_stride == 1) {                                                                 \
            for (int64_t k = 0; k < count; k++)                                                                   \
                t[k] = GT_STORE_FROM(to_name, gt__load_##from_name(f[k]));                                        \
        } else if (to_stride == 1 && from_stride == 0) {                                                          \
            to_type value = GT_STORE_FROM(to_name, gt__load_##from_name(f[0]));                                   \
            for (int64_t k = 0; k < count; k++)                                                                   \
                t[k] = value;                                                                                     \
        } else {                                                                                                  \
            for (int64_t k = 0; k < count; k++)                                                                   \
                t[k * to_stride] = GT_STORE_FROM(to_name, gt__load_##from_name(f[k * from_stride]));              \
        }                                                                                                         \
    }

#define ROW_MOVERS(to_name, to_dtype, to_type)                                                                    \
    ROW_MOVER(to_name, to_type, boolean, uint8_t)                                                                 \
    ROW_MOVER(to_name, to_type, uint8, uint8_t)                                                                   \
    ROW_MOVER(to_name, to_type, int8, int8_t)                                                                     \
    ROW_MOVER(to_name, to_type, int16, int16_t)                                                                   \
    ROW_MOVER(to_name, to_type, int32, int32_t)                                                                   \
    ROW_MOVER(to_name, to_type, int64, int64_t)                                                                   \
    ROW_MOVER(to_name, to_type, float16, uint16_t)                                                                \
    ROW_MOVER(to_name, to_type, bfloat16, uint16_t)                                                               \
    ROW_MOVER(to_name, to_type, float32, float)                                                                   \
    ROW_MOVER(to_name, to_type, float64, double)
GT_STORED_TYPES(ROW_MOVERS)

#define SAME_MOVER(type)                                                                                          \
    static void move_##type(void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t count)    \
    {                                                                                                             \
        type *restrict t = to;                                                                                    \
        const type *restrict f = from;                                                                            \
        if (to_stride == 1 && from_stride == 1) {                                                                 \
            memcpy(t, f, (size_t)count * sizeof(type));                                                           \
        } else if (to_stride == 1 && from_stride == 0) {                                                          \
            for (int64_t k = 0; k < count; k++)                                                                   \
                t[k] = f[0];                                                                                      \
        } else if (to_stride == 1) {                                                                              \
            for (int64_t k = 0; k < count; k++)                                                                   \
                t[k] = f[k * from_stride];                                                                        \
        } else {                                                                                                  \
            for (int64_t k = 0; k < count; k++)                                                                   \
                t[k * to_stride] = f[k * from_stride];                                                            \
        }                                                                                                         \
    }
SAME_MOVER(uint8_t)
SAME_MOVER(uint16_t)
SAME_MOVER(uint32_t)
SAME_MOVER(uint64_t)
SAME_MOVER(gt_sixteen_bytes)

/* ---- complex numbers: pairs of float or double -------------------------------------------------------------- */

/* From a real dtype and back, through the mover of the real parts. The imaginary part becomes 0, or is dropped. */
#define COMPLEX_MOVERS(name, dtype, complex_name, part_dtype, part)                                               \
    static void complex_name##_from_##name(void *to, int64_t to_stride, const void *from, int64_t from_stride,    \
                                           int64_t count)                                                         \
    {                                                                                                             \
        part *imaginary = (part *)to + 1;                                                                         \
        gt__cpu_row_mover(part_dtype, dtype)(to, 2 * to_stride, from, from_stride, count);                        \
        for (int64_t k = 0; k < count; k++)                                                                       \
            imaginary[2 * k * to_stride] = 0;                                                                     \
    }                                                                                                             \
    static void name##_from_##complex_name(void *to, int64_t to_stride, const void *from, int64_t from_stride,    \
                                           int64_t count)                                                         \
    {                                                                                                             \
        gt__cpu_row_mover(dtype, part_dtype)(to, to_stride, from, 2 * from_stride, count);                        \
    }
#define BOTH_COMPLEX_MOVERS(name, dtype, type)                                                                    \
    COMPLEX_MOVERS(name, dtype, complex64, GT_FLOAT32, float)                                                     \
    COMPLEX_MOVERS(name, dtype, complex128, GT_FLOAT64, double)
GT_STORED_TYPES(BOTH_COMPLEX_MOVERS)

/* A complex number is true unless both parts are 0. */
#define TRUTH_MOVER(complex_name, part)                                                                           \
    static void truth_from_##complex_name(void *to, int64_t to_stride, const void *from, int64_t from_stride,     \
                                          int64_t count)                                                          \
    {                                                                                                             \
        uint8_t *t = to;                                                                                          \
        const part *f = from;                                                                                     \
        for (int64_t k = 0; k < count; k++)                                                                       \
            t[k * to_stride] = f[2 * k * from_stride] != 0 || f[2 * k * from_stride + 1] != 0;                    \
    }
TRUTH_MOVER(complex64, float)
TRUTH_MOVER(complex128, double)

static void complex128_from_complex64(void *to, int64_t to_stride, const void *from, int64_t from_stride,
                                      int64_t count)
{
    if (to_stride == 1 && from_stride == 1) {
        float64_from_float32(to, 1, from, 1, 2 * count);
        return;
    }
    for (int part = 0; part < 2; part++)
        float64_from_float32((double *)to + part, 2 * to_stride, (const float *)from + part, 2 * from_stride,
                             count);
}

static void complex64_from_complex128(void *to, int64_t to_stride, const void *from, int64_t from_stride,
                                      int64_t count)
{
    if (to_stride == 1 && from_stride == 1) {
        float32_from_float64(to, 1, from, 1, 2 * count);
        return;
    }
    for (int part = 0; part < 2; part++)
        float32_from_float64((float *)to + part, 2 * to_stride, (const double *)from + part, 2 * from_stride,
                             count);
}

/* ---- the table ---------------------------------------------------------------------------------------------- */

#define ROW_MOVER_TABLE(to_name, to_dtype, to_type)                                                               \
    [to_dtype] = {                                                                                                \
        [GT_BOOL] = to_name##_from_boolean,        [GT_UINT8] = to_name##_from_uint8,                             \
        [GT_INT8] = to_name##_from_int8,           [GT_INT16] = to_name##_from_int16,                             \
        [GT_INT32] = to_name##_from_int32,         [GT_INT64] = to_name##_from_int64,                             \
        [GT_FLOAT16] = to_name##_from_float16,     [GT_BFLOAT16] = to_name##_from_bfloat16,                       \
        [GT_FLOAT32] = to_name##_from_float32,     [GT_FLOAT64] = to_name##_from_float64,                         \
        [GT_COMPLEX64] = to_name##_from_complex64, [GT_COMPLEX128] = to_name##_from_complex128,                   \
    },

#define FROM_ENTRY(name, dtype, type)                                                                             \
    [GT_COMPLEX64][dtype] = complex64_from_##name, [GT_COMPLEX128][dtype] = complex128_from_##name,

gt_row_mover gt__cpu_row_mover(gt_dtype to, gt_dtype from)
{
    static const gt_row_mover table[GT_DTYPE_COUNT][GT_DTYPE_COUNT] = {
        GT_STORED_TYPES(ROW_MOVER_TABLE) GT_STORED_TYPES(FROM_ENTRY)[GT_COMPLEX64][GT_COMPLEX128] =
            complex64_from_complex128,
        [GT_COMPLEX128][GT_COMPLEX64] = complex128_from_complex64,
    };
    if (to == GT_BOOL && gt__dtype_is_complex(from))
        return from == GT_COMPLEX64 ? truth_from_complex64 : truth_from_complex128;
    if (to != from)
        return table[to][from];
    switch (gt__dtype_size(to)) {
    case 1:
        return move_uint8_t;
    case 2:
        return move_uint16_t;
    case 4:
        return move_uint32_t;
    case 8:
        return move_uint64_t;
    default:
        return move_gt_sixteen_bytes;
    }
}
