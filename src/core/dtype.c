/* dtype.c: sizes, names and promotion of the nine dtypes. */
#include "op.h"

const uint8_t gt__dtype_sizes[GT_DTYPE_COUNT] = {
    [GT_BOOL] = 1,  [GT_UINT8] = 1,   [GT_INT8] = 1,     [GT_INT32] = 4,   [GT_INT64] = 8,
    [GT_FLOAT16] = 2, [GT_BFLOAT16] = 2, [GT_FLOAT32] = 4, [GT_FLOAT64] = 8,
};

static const char *const names[GT_DTYPE_COUNT] = {
    [GT_BOOL] = "bool",       [GT_UINT8] = "uint8",       [GT_INT8] = "int8",
    [GT_INT32] = "int32",     [GT_INT64] = "int64",       [GT_FLOAT16] = "float16",
    [GT_BFLOAT16] = "bfloat16", [GT_FLOAT32] = "float32", [GT_FLOAT64] = "float64",
};

const char *gt__dtype_name(gt_dtype dtype)
{
    return gt__dtype_valid(dtype) ? names[dtype] : "invalid";
}

gt_dtype gt__dtype_promote(gt_dtype a, gt_dtype b)
{
    if (a == b)
        return a;
    gt_dtype low = a < b ? a : b, high = a < b ? b : a;
    /* The enum is ordered so that the higher one wins, with two pairs that need a third dtype. */
    if (low == GT_UINT8 && high == GT_INT8)
        return GT_INT32; /* PyTorch says int16, which we do not have: the next that holds both */
    if (low == GT_FLOAT16 && high == GT_BFLOAT16)
        return GT_FLOAT32;
    return high;
}
