/*
 * convert.h: what a cast means, one element at a time, for all pairs of dtypes.
 *
 * Storage: bool is a byte 0 or 1, float16 and bfloat16 are bits (half.h), the others are the C types. A float
 * becomes an integer by truncation; beyond the range it saturates (at 32 bits for the dtypes up to 32 bits, which
 * then keep the low bits) and NaN becomes 0: C leaves these cases undefined, and processors disagree. Every number but 0
 * becomes true.
 *
 * GT_STORED_TYPES(X) calls X(name, dtype, type) for the real dtypes ("boolean", because bool is itself a macro).
 * gt__load_<name> turns a stored element into the narrowest C type that holds it (the halves: float), and
 * gt__store_<name>_from_{small,integer,float,double} go back, from int32_t, int64_t, float and double. All are
 * free of branches, so loops over them vectorise; gcc wants -fno-trapping-math for that.
 */
#ifndef GT_CORE_CONVERT_H
#define GT_CORE_CONVERT_H

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "core/half.h"

#define GT_STORED_TYPES(X)                                                                                        \
    X(boolean, GT_BOOL, uint8_t)                                                                                  \
    X(uint8, GT_UINT8, uint8_t)                                                                                   \
    X(int8, GT_INT8, int8_t)                                                                                      \
    X(int16, GT_INT16, int16_t)                                                                                   \
    X(int32, GT_INT32, int32_t)                                                                                   \
    X(int64, GT_INT64, int64_t)                                                                                   \
    X(float16, GT_FLOAT16, uint16_t)                                                                              \
    X(bfloat16, GT_BFLOAT16, uint16_t)                                                                            \
    X(float32, GT_FLOAT32, float)                                                                                 \
    X(float64, GT_FLOAT64, double)

#if defined(__aarch64__)
/* The processor's conversions are just these. */
static inline int32_t gt__float_to_int32(float value)
{
    return vcvts_s32_f32(value);
}

static inline int64_t gt__double_to_int64(double value)
{
    return vcvtd_s64_f64(value);
}

static inline int32_t gt__double_to_int32(double value)
{
    int64_t wide = vcvtd_s64_f64(value);
    return (int32_t)(wide < INT32_MIN ? INT32_MIN : wide > INT32_MAX ? INT32_MAX : wide);
}
#else
/* Only numbers in range are converted; comparisons with NaN are false, so NaN becomes 0. */
#define GT_SATURATE(name, real, integer, limit, most)                                                             \
    static inline integer name(real value)                                                                        \
    {                                                                                                             \
        real low = value < -limit ? -limit : value;                                                               \
        integer result = (integer)(low < limit ? low : 0);                                                        \
        return value >= limit ? most : result;                                                                    \
    }
GT_SATURATE(gt__float_to_int32, float, int32_t, 0x1p31f, INT32_MAX)
GT_SATURATE(gt__double_to_int32, double, int32_t, 0x1p31, INT32_MAX)
GT_SATURATE(gt__double_to_int64, double, int64_t, 0x1p63, INT64_MAX)
#undef GT_SATURATE
#endif

/* Through double, which is exact: processors only convert vectors between types of the same width. */
static inline int64_t gt__float_to_int64(float value)
{
    return gt__double_to_int64((double)value);
}

/* ---- stored element to C value ------------------------------------------------------------------------------ */

#define GT_LOAD_AS_IS(name, type)                                                                                 \
    static inline type gt__load_##name(type stored)                                                               \
    {                                                                                                             \
        return stored;                                                                                            \
    }
GT_LOAD_AS_IS(boolean, uint8_t)
GT_LOAD_AS_IS(uint8, uint8_t)
GT_LOAD_AS_IS(int8, int8_t)
GT_LOAD_AS_IS(int16, int16_t)
GT_LOAD_AS_IS(int32, int32_t)
GT_LOAD_AS_IS(int64, int64_t)
GT_LOAD_AS_IS(float32, float)
GT_LOAD_AS_IS(float64, double)
#undef GT_LOAD_AS_IS

static inline float gt__load_float16(uint16_t stored)
{
    return gt__half_to_float(stored);
}

static inline float gt__load_bfloat16(uint16_t stored)
{
    return gt__bfloat16_to_float(stored);
}

/* ---- C value to stored element ------------------------------------------------------------------------------ */

#define GT_STORE(name, type, integer, real, wide)                                                                 \
    static inline type gt__store_##name##_from_small(int32_t value)                                               \
    {                                                                                                             \
        return (type)(integer);                                                                                   \
    }                                                                                                             \
    static inline type gt__store_##name##_from_integer(int64_t value)                                             \
    {                                                                                                             \
        return (type)(integer);                                                                                   \
    }                                                                                                             \
    static inline type gt__store_##name##_from_float(float value)                                                 \
    {                                                                                                             \
        return (type)(real);                                                                                      \
    }                                                                                                             \
    static inline type gt__store_##name##_from_double(double value)                                               \
    {                                                                                                             \
        return (type)(wide);                                                                                      \
    }
GT_STORE(boolean, uint8_t, value != 0, value != 0, value != 0)
GT_STORE(uint8, uint8_t, value, gt__float_to_int32(value), gt__double_to_int32(value))
GT_STORE(int8, int8_t, value, gt__float_to_int32(value), gt__double_to_int32(value))
GT_STORE(int16, int16_t, value, gt__float_to_int32(value), gt__double_to_int32(value))
GT_STORE(int32, int32_t, value, gt__float_to_int32(value), gt__double_to_int32(value))
GT_STORE(int64, int64_t, value, gt__float_to_int64(value), gt__double_to_int64(value))
GT_STORE(float16, uint16_t, gt__float_to_half((float)value), gt__float_to_half(value),
         gt__float_to_half((float)value))
GT_STORE(bfloat16, uint16_t, gt__float_to_bfloat16((float)value), gt__float_to_bfloat16(value),
         gt__float_to_bfloat16((float)value))
GT_STORE(float32, float, value, value, value)
GT_STORE(float64, double, value, value, value)
#undef GT_STORE

/* Picks the function by the C type that gt__load_<name> returned. */
#define GT_STORE_FROM(name, value)                                                                                \
    _Generic((value), float                                                                                       \
             : gt__store_##name##_from_float, double                                                              \
             : gt__store_##name##_from_double, uint8_t                                                            \
             : gt__store_##name##_from_small, int8_t                                                              \
             : gt__store_##name##_from_small, int16_t                                                             \
             : gt__store_##name##_from_small, int32_t                                                             \
             : gt__store_##name##_from_small, default                                                             \
             : gt__store_##name##_from_integer)(value)

#endif
