/* dtype.c: sizes, names and promotion of the dtypes. */
#include <float.h>
#include <math.h>

#include "core/instruction.h"

const uint8_t gt__dtype_sizes[GT_DTYPE_COUNT] = {
    [GT_BOOL] = 1,    [GT_UINT8] = 1,   [GT_INT8] = 1,      [GT_INT16] = 2,
    [GT_INT32] = 4,   [GT_INT64] = 8,   [GT_FLOAT16] = 2,   [GT_BFLOAT16] = 2,
    [GT_FLOAT32] = 4, [GT_FLOAT64] = 8, [GT_COMPLEX64] = 8, [GT_COMPLEX128] = 16,
};

static const char *const names[GT_DTYPE_COUNT] = {
    [GT_BOOL] = "bool",       [GT_UINT8] = "uint8",         [GT_INT8] = "int8",
    [GT_INT16] = "int16",     [GT_INT32] = "int32",         [GT_INT64] = "int64",
    [GT_FLOAT16] = "float16", [GT_BFLOAT16] = "bfloat16",   [GT_FLOAT32] = "float32",
    [GT_FLOAT64] = "float64", [GT_COMPLEX64] = "complex64", [GT_COMPLEX128] = "complex128",
};

const char *gt__dtype_name(gt_dtype dtype)
{
    return gt__dtype_valid(dtype) ? names[dtype] : "invalid";
}

const char *gt__dtype_kind(gt_dtype dtype)
{
    static const char *const kinds[GT_DTYPE_COUNT] = {
        [GT_BOOL] = "Bool",
        [GT_UINT8] = "Byte",
        [GT_INT8] = "Char",
        [GT_INT16] = "Short",
        [GT_INT32] = "Int",
        [GT_INT64] = "Long",
        [GT_FLOAT16] = "Half",
        [GT_BFLOAT16] = "BFloat16",
        [GT_FLOAT32] = "Float",
        [GT_FLOAT64] = "Double",
        [GT_COMPLEX64] = "ComplexFloat",
        [GT_COMPLEX128] = "ComplexDouble",
    };
    return gt__dtype_valid(dtype) ? kinds[dtype] : "invalid";
}

const char *gt__dtype_c_name(gt_dtype dtype)
{
    static const char *const c_names[GT_DTYPE_COUNT] = {
        [GT_BOOL] = "bool",
        [GT_UINT8] = "unsigned char",
        [GT_INT8] = "signed char",
        [GT_INT16] = "short",
        [GT_INT32] = "int",
        [GT_INT64] = "long int",
        [GT_FLOAT16] = "c10::Half",
        [GT_BFLOAT16] = "c10::BFloat16",
        [GT_FLOAT32] = "float",
        [GT_FLOAT64] = "double",
        [GT_COMPLEX64] = "c10::complex<float>",
        [GT_COMPLEX128] = "c10::complex<double>",
    };
    return gt__dtype_valid(dtype) ? c_names[dtype] : "invalid";
}

/* The least and the largest number of each dtype, and the name of its C type in PyTorch's errors; one without takes every number. */
static const struct {
    double low, high;
    const char *name;
} ranges[GT_DTYPE_COUNT] = {
    [GT_UINT8] = {.low = 0, .high = UINT8_MAX, .name = "uint8_t"},
    [GT_INT8] = {.low = INT8_MIN, .high = INT8_MAX, .name = "int8_t"},
    [GT_INT16] = {.low = INT16_MIN, .high = INT16_MAX, .name = "int16_t"},
    [GT_INT32] = {.low = INT32_MIN, .high = INT32_MAX, .name = "int"},
    [GT_INT64] = {.low = -0x1p63, .high = 0x1p63, .name = "int64_t"},
    [GT_FLOAT16] = {.low = -65504, .high = 65504, .name = "c10::Half"},
    [GT_BFLOAT16] = {.low = -0x1.fep127, .high = 0x1.fep127, .name = "c10::BFloat16"},
    [GT_FLOAT32] = {.low = -FLT_MAX, .high = FLT_MAX, .name = "float"},
    [GT_COMPLEX64] = {.low = -FLT_MAX, .high = FLT_MAX, .name = "c10::complex<float>"},
};

const char *gt__dtype_scalar_name(gt_dtype dtype)
{
    return ranges[dtype].name ? ranges[dtype].name : gt__dtype_c_name(dtype);
}

gt_err gt__dtype_check_number(gt_dtype dtype, gt_literal kind, gt_imm number)
{
    bool inexact = gt__dtype_is_inexact(dtype), fits;
    if (dtype == GT_BOOL || dtype == GT_FLOAT64 || dtype == GT_COMPLEX128 || kind == GT_LITERAL_BOOL)
        return GT_OK;
    if (kind == GT_LITERAL_FLOAT && inexact)
        fits = !(fabs(number.f) > ranges[dtype].high) || isinf(number.f); /* NaN fits */
    else if (kind == GT_LITERAL_FLOAT)
        fits = number.f >= ranges[dtype].low && number.f <= ranges[dtype].high && number.f < 0x1p63;
    else /* PyTorch lets negative integers wrap around in unsigned dtypes */
        fits = dtype == GT_INT64 || ((double)number.i >= (dtype == GT_UINT8 ? -UINT8_MAX : ranges[dtype].low) &&
                                     (double)number.i <= ranges[dtype].high);
    if (fits)
        return GT_OK;
    return gt__fail(GT_ERR_VALUE, "value cannot be converted to type %s without overflow", ranges[dtype].name);
}

gt_dtype gt__dtype_promote(gt_dtype a, gt_dtype b)
{
    if (a == b)
        return a;
    gt_dtype low = a < b ? a : b, high = a < b ? b : a;
    /* The enum is ordered so that the higher one wins, with three pairs that need a third dtype. */
    if (low == GT_UINT8 && high == GT_INT8)
        return GT_INT16;
    if (low == GT_FLOAT16 && high == GT_BFLOAT16)
        return GT_FLOAT32;
    if (low == GT_FLOAT64 && high == GT_COMPLEX64)
        return GT_COMPLEX128;
    return high;
}
