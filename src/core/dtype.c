/* dtype.c: sizes, names and promotion of the dtypes. */
#include "core/op.h"

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

gt_err gt__dtype_check_number(gt_dtype dtype, double number)
{
    /* From low to below high. */
    static const struct {
        double low, high;
    } ranges[GT_DTYPE_COUNT] = {
        [GT_UINT8] = {.low = -255, .high = 256},
        [GT_INT8] = {.low = INT8_MIN, .high = -(double)INT8_MIN},
        [GT_INT16] = {.low = INT16_MIN, .high = -(double)INT16_MIN},
        [GT_INT32] = {.low = INT32_MIN, .high = -(double)INT32_MIN},
        [GT_INT64] = {.low = -0x1p63, .high = 0x1p63},
    };
    bool any = dtype == GT_BOOL || gt__dtype_is_inexact(dtype);
    if (any || (number >= ranges[dtype].low && number < ranges[dtype].high))
        return GT_OK;
    return gt__fail(GT_ERR_VALUE, "value cannot be converted to type %s without overflow", names[dtype]);
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
