/*
 * elementwise.h: how an elementwise step is computed: the compute type, the kernel, and what operands lose before they are
 * used. elementwise.c runs one step in one call, program_lower.c many in one pass over tiles; both give the same bits because
 * both ask here.
 */
#ifndef GT_ENGINES_CPU_ELEMENTWISE_H
#define GT_ENGINES_CPU_ELEMENTWISE_H

#include "engines/cpu/cpu.h"

/* One value of any compute type. */
typedef union gt_scalar {
    float f32;
    double f64;
    int64_t i64;
    int32_t i32;
    int8_t i8;
    uint8_t u8;
} gt_scalar;

/* Whether a row's result is 0 or 1 if its operands are. */
static inline bool gt__elementwise_keeps_truth(gt_opcode op)
{
    return gt__op_table[op].types == GT_TYPES_BOOL || op == GT_OP_bitwise_and || op == GT_OP_bitwise_or ||
           op == GT_OP_bitwise_xor || op == GT_OP_mul || op == GT_OP_maximum || op == GT_OP_minimum ||
           op == GT_OP_where;
}

/* 32 bits suffice for the narrow integers: a row's low bits depend only on its operands' low bits. Bools are bytes for rows
 * that keep them 0 or 1. Other rows need a tile: their results are stored as 1 if they are not 0. */
static inline gt_compute gt__elementwise_compute(gt_opcode op, gt_dtype dtype)
{
    if (dtype == GT_BOOL && gt__elementwise_keeps_truth(op))
        return GT_COMPUTE_U8;
    switch (dtype) {
    case GT_INT8:
        return GT_COMPUTE_I8;
    case GT_UINT8:
        return GT_COMPUTE_U8;
    case GT_BOOL:
    case GT_INT16:
    case GT_INT32:
        return GT_COMPUTE_I32;
    default:
        return gt__cpu_compute(dtype);
    }
}

/* Whether elements of a dtype lie in memory as kernels of another read them. */
static inline bool gt__elementwise_reads_as(gt_dtype dtype, gt_dtype native)
{
    return dtype == native || (dtype == GT_BOOL && native == GT_UINT8);
}

/* What a row's kernel writes into a result of dtype `out`: bools, or elements of the compute type. */
static inline gt_dtype gt__elementwise_written(gt_opcode op, gt_compute compute, gt_dtype out)
{
    bool bools = gt__op_table[op].types == GT_TYPES_BOOL || (compute == GT_COMPUTE_U8 && out == GT_BOOL);
    return bools ? GT_BOOL : gt__native_dtype(compute);
}

static inline double gt__scalar_value(gt_compute compute, const void *value)
{
    switch (compute) {
    case GT_COMPUTE_F32:
        return (double)*(const float *)value;
    case GT_COMPUTE_F64:
        return *(const double *)value;
    case GT_COMPUTE_I32:
        return (double)*(const int32_t *)value;
    case GT_COMPUTE_I8:
        return (double)*(const int8_t *)value;
    case GT_COMPUTE_U8:
        return (double)*(const uint8_t *)value;
    default:
        return (double)*(const int64_t *)value;
    }
}

/* x ** y for the few constant y that need no logarithm, as PyTorch does; NULL for others. */
static inline gt_elementwise_kernel gt__elementwise_power(const gt_kernels *kernels, gt_compute compute, double y)
{
    gt_opcode op = y == 2.0 ? GT_OP_square : y == 0.5 ? GT_OP_sqrt : y == -0.5 ? GT_OP_rsqrt : GT_OP_reciprocal;
    if (y == 3.0)
        return kernels->cube[compute];
    if (y != 2.0 && y != 0.5 && y != -0.5 && y != -1.0)
        return NULL;
    return kernels->elementwise[op][compute][0]; /* NULL for roots and inverses of integers */
}

/* `y`: the second operand if it is a single number, else NULL. */
static inline gt_elementwise_kernel gt__elementwise_kernel(const gt_kernels *kernels, gt_opcode op,
                                                           gt_compute compute, unsigned constants, const void *y)
{
    gt_elementwise_kernel special = NULL;
    if (op == GT_OP_pow && constants == GT_CONSTANT_Y && y)
        special = gt__elementwise_power(kernels, compute, gt__scalar_value(compute, y));
    else if (compute == GT_COMPUTE_F32)
        special = kernels->guarded[op];
    return special ? special : kernels->elementwise[op][compute][constants];
}

/* A kernel needs at least one operand that is not constant, and a condition never is. */
static inline unsigned gt__elementwise_constants(unsigned constants, unsigned operands)
{
    unsigned all = (1u << operands) - 1;
    return operands == 3 || constants == all ? constants & ~(unsigned)GT_CONSTANT_X : constants;
}

/* Integer kernels do not trap on a zero divisor, so divisors are checked first. */
static inline bool gt__elementwise_divides(gt_opcode op, gt_compute compute)
{
    return compute != GT_COMPUTE_F32 && compute != GT_COMPUTE_F64 &&
           (op == GT_OP_remainder || op == GT_OP_floor_divide || op == GT_OP_fmod || op == GT_OP_trunc_divide);
}

/* A compute dtype narrower than the kernels' types: see elementwise_narrow. */
static inline bool gt__elementwise_narrow(gt_dtype compute)
{
    return compute != GT_FLOAT32 && compute != GT_FLOAT64 && compute != GT_INT64 && compute != GT_INT32;
}

/* Integers that a half cannot hold are rounded to halves before they are used. */
static inline bool gt__elementwise_rounds(gt_dtype compute, gt_dtype operand)
{
    return (compute == GT_FLOAT16 || compute == GT_BFLOAT16) &&
           (operand == GT_INT16 || operand == GT_INT32 || operand == GT_INT64);
}

#endif
