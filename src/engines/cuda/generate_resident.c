/* generate_resident.c: see generate_resident.h. */
#include "engines/cuda/generate_resident.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engines/cuda/device_texts.h"
#include "engines/cuda/generate_family.h"

/* ---- what it executes ---------------------------------------------------------------------------------------- */

/* Elementwise rows, with the types that their expressions take. Rows whose functions need much code are not here. */
typedef struct row {
    const char *expression;
    uint8_t types; /* gt_op_types */
} row;

static const row rows[GT_OP_COUNT] = {
#define UNARY(name, types, expr, grad) [GT_OP_##name] = {#expr, GT_TYPES_##types},
#define UNARY_PQ(name, types, expr, grad) [GT_OP_##name] = {#expr, GT_TYPES_##types},
#define BINARY(name, types, expr, grad) [GT_OP_##name] = {#expr, GT_TYPES_##types},
#define BINARY_PQ(name, types, expr, grad) [GT_OP_##name] = {#expr, GT_TYPES_##types},
#define TERNARY(name, types, expr, grad) [GT_OP_##name] = {#expr, GT_TYPES_##types},
#include "core/ops.def"
};

static bool is_common(gt_opcode op)
{
    switch ((unsigned)op) {
    case GT_OP_neg:
    case GT_OP_abs:
    case GT_OP_sign:
    case GT_OP_square:
    case GT_OP_sqrt:
    case GT_OP_rsqrt:
    case GT_OP_reciprocal:
    case GT_OP_exp:
    case GT_OP_log:
    case GT_OP_log1p:
    case GT_OP_sin:
    case GT_OP_cos:
    case GT_OP_tanh:
    case GT_OP_erf:
    case GT_OP_floor:
    case GT_OP_isnan:
    case GT_OP_isfinite:
    case GT_OP_logical_not:
    case GT_OP_sigmoid:
    case GT_OP_relu:
    case GT_OP_gelu:
    case GT_OP_gelu_tanh:
    case GT_OP_silu:
    case GT_OP_clamp:
    case GT_OP_leaky_relu:
    case GT_OP_add:
    case GT_OP_sub:
    case GT_OP_mul:
    case GT_OP_div:
    case GT_OP_pow:
    case GT_OP_maximum:
    case GT_OP_minimum:
    case GT_OP_eq:
    case GT_OP_ne:
    case GT_OP_lt:
    case GT_OP_le:
    case GT_OP_gt:
    case GT_OP_ge:
    case GT_OP_logical_and:
    case GT_OP_logical_or:
    case GT_OP_bitwise_and:
    case GT_OP_bitwise_or:
    case GT_OP_relu_backward:
    case GT_OP_tanh_backward:
    case GT_OP_sigmoid_backward:
    case GT_OP_gelu_backward:
    case GT_OP_gelu_tanh_backward:
    case GT_OP_silu_backward:
    case GT_OP_clamp_backward:
    case GT_OP_leaky_relu_backward:
    case GT_OP_where:
    case GT_OP_lerp:
        return true;
    default:
        return false;
    }
}

/* Rows without functions that take much code in double. */
static bool is_plain(gt_opcode op)
{
    switch ((unsigned)op) {
    case GT_OP_exp:
    case GT_OP_log:
    case GT_OP_log1p:
    case GT_OP_sin:
    case GT_OP_cos:
    case GT_OP_tanh:
    case GT_OP_erf:
    case GT_OP_sigmoid:
    case GT_OP_gelu:
    case GT_OP_gelu_tanh:
    case GT_OP_silu:
    case GT_OP_pow:
    case GT_OP_gelu_backward:
    case GT_OP_gelu_tanh_backward:
    case GT_OP_silu_backward:
        return false;
    default:
        return true;
    }
}

/* The types that numbers are computed in there. */
static bool has_type(gt_cuda_type type)
{
    return type == GT_CUDA_F32 || type == GT_CUDA_F64 || type == GT_CUDA_I64 || type == GT_CUDA_I32;
}

static bool computes(gt_opcode op, gt_cuda_type type)
{
    bool whole = type == GT_CUDA_I32 || type == GT_CUDA_I64;
    uint8_t types = rows[op].types;
    if (!rows[op].expression || !is_common(op) || !has_type(type) || (type != GT_CUDA_F32 && !is_plain(op)))
        return false;
    return whole ? types != GT_TYPES_FLT : types != GT_TYPES_BITS && types != GT_TYPES_INT;
}

/* Reductions, and what they are accumulated in; generate_reduce.c chooses the same. */
static const struct {
    uint16_t op;
    uint8_t type;
    uint32_t option; /* of the key: the order of a norm */
    const char *reducer;
} reductions[] = {
    {GT_OP_sum, GT_CUDA_F32, 0, "gt_reduce_sum<float>"},    {GT_OP_sum, GT_CUDA_F64, 0, "gt_reduce_sum<double>"},
    {GT_OP_sum, GT_CUDA_I64, 0, "gt_reduce_sum<int64_t>"},  {GT_OP_mean, GT_CUDA_F32, 0, "gt_reduce_mean<float>"},
    {GT_OP_mean, GT_CUDA_F64, 0, "gt_reduce_mean<double>"}, {GT_OP_amax, GT_CUDA_F32, 0, "gt_reduce_amax<float>"},
    {GT_OP_amin, GT_CUDA_F32, 0, "gt_reduce_amin<float>"},  {GT_OP_var, GT_CUDA_F32, 0, "gt_reduce_var<float>"},
    {GT_OP_norm, GT_CUDA_F32, 2, "gt_reduce_norm2"},        {GT_OP_argmax, GT_CUDA_F32, 0, "gt_reduce_argmax"},
    {GT_OP_any, GT_CUDA_I64, 0, "gt_reduce_any<int64_t>"},  {GT_OP_all, GT_CUDA_I64, 0, "gt_reduce_all<int64_t>"},
};
enum { REDUCTIONS = sizeof reductions / sizeof reductions[0], ROWS = 0, COLUMNS = 2 };

/* The number of a reduction; REDUCTIONS: it has none. */
static unsigned find_reduction(const gt_cuda_key *key)
{
    gt_cuda_type type = gt__cuda_accumulator((gt_opcode)key->op, (gt_dtype)key->in[0]);
    unsigned k = 0;
    while (k < REDUCTIONS &&
           !(reductions[k].op == key->op && reductions[k].type == type && reductions[k].option == key->option[0]))
        k++;
    return key->variant == ROWS || key->variant == COLUMNS ? k : REDUCTIONS;
}

/* Operations on lines; the name of the kernel in device/rows.cuh or norm.cuh. */
static const struct {
    uint16_t op;
    uint8_t operands;
    const char *name;
    bool logarithm;
} lines[] = {
    {GT_OP_softmax, 1, "softmax", false},
    {GT_OP_log_softmax, 1, "softmax", true},
    {GT_OP_softmax_backward, 2, "softmax_backward", false},
    {GT_OP_log_softmax_backward, 2, "softmax_backward", true},
    {GT_OP_layer_norm, 3, "layer_norm", false},
    {GT_OP_layer_norm_backward, 3, "layer_norm_backward", false},
};
enum { LINES = sizeof lines / sizeof lines[0] };

/* The number of an operation on lines; LINES: it has none. */
static unsigned find_lines(const gt_cuda_key *key)
{
    unsigned k = 0, items = key->option[0], width = key->option[1];
    while (k < LINES && lines[k].op != key->op)
        k++;
    for (unsigned view = 0; k < LINES && view < lines[k].operands; view++)
        if (key->mode[view] || key->in[view] != GT_FLOAT32)
            return LINES;
    bool fits = items == 1 && width == 32 && (key->vector == 1 || key->vector == 4);
    bool alone = key->variant == GT_ROWS_SOFTMAX || key->variant == GT_ROWS_SOFTMAX_BACKWARD ||
                 key->variant == GT_ROWS_NORM || (key->variant == GT_ROWS_NORM_BACKWARD && !key->option[3]);
    return fits && alone && key->out == GT_FLOAT32 && !key->option[2] ? k : LINES;
}

/* ---- source ------------------------------------------------------------------------------------------------------ */

static void write_dtypes(gt_cuda_text *text)
{
    static const gt_dtype own[] = {[GT_CUDA_I32] = GT_INT32,
                                   [GT_CUDA_I64] = GT_INT64,
                                   [GT_CUDA_F32] = GT_FLOAT32,
                                   [GT_CUDA_F64] = GT_FLOAT64};
    gt__cuda_add_plain(text, "#define GT_RESIDENT_DTYPES(X)");
    for (gt_dtype dtype = 0; dtype < GT_DTYPE_COUNT; dtype++)
        if (!gt__dtype_is_complex(dtype))
            gt__cuda_add(text, " X(%u, %s)", (unsigned)dtype, gt__cuda_dtype(dtype));
    gt__cuda_add_plain(text, "\n#define GT_RESIDENT_TYPES(X)");
    for (gt_cuda_type type = GT_CUDA_I32; type <= GT_CUDA_F64; type++)
        if (has_type(type))
            gt__cuda_add(text, " X(%u, %s)", (unsigned)type, gt__cuda_type_name(type));
    gt__cuda_add_plain(text, "\n");
    for (gt_cuda_type type = GT_CUDA_I32; type <= GT_CUDA_F64; type++)
        gt__cuda_add(text, "GT_F uint32_t gt_resident_own(%s) { return %u; }\n", gt__cuda_type_name(type),
                     (unsigned)own[type]);
}

/* The switch over all rows takes longer than what the commonest ones do, so these come before it. */
static void write_expressions(gt_cuda_text *text, gt_cuda_type type)
{
    static const gt_opcode first[] = {GT_OP_add, GT_OP_mul, GT_OP_sub};
    const char *T = gt__cuda_type_name(type);
    gt__cuda_add(text, "GT_F %s gt_resident_apply(uint32_t op, %s x, %s y, %s z, %s p, %s q)\n{\ntypedef %s T;\n",
                 T, T, T, T, T, T, T);
    for (size_t k = 0; k < sizeof first / sizeof first[0]; k++)
        gt__cuda_add(text, "if (op == %u)\nreturn (T)(%s);\n", (unsigned)first[k], rows[first[k]].expression);
    gt__cuda_add_plain(text, "switch (op) {\n");
    for (gt_opcode op = 1; op < GT_OP_FIRST_CONTROL; op++)
        if (computes(op, type))
            gt__cuda_add(text, "case %u:\nreturn (T)(%s);\n", (unsigned)op, rows[op].expression);
    gt__cuda_add_plain(text, "}\nreturn x;\n}\n");
}

static void write_reductions(gt_cuda_text *text)
{
    gt__cuda_add_plain(text, "typedef gt_reduce_norm<float, 2> gt_reduce_norm2;\n"
                             "typedef gt_reduce_arg<float, true> gt_reduce_argmax;\n"
                             "#define GT_RESIDENT_REDUCTIONS(X)");
    for (unsigned k = 0; k < REDUCTIONS; k++)
        gt__cuda_add(text, " X(%u, %s, %s)", k, reductions[k].reducer,
                     gt__cuda_type_name((gt_cuda_type)reductions[k].type));
    gt__cuda_add_plain(text, "\n");
}

static void write_lines(gt_cuda_text *text)
{
    gt__cuda_add_plain(text, "#define GT_RESIDENT_LINES(X)");
    for (unsigned k = 0; k < LINES; k++)
        gt__cuda_add(text, " X(%u, %s, %s)", k, lines[k].name, lines[k].logarithm ? "true" : "false");
    gt__cuda_add_plain(text, "\n");
}

gt_err gt__cuda_resident_source(char **source, const char **entry)
{
    gt_cuda_text text = {0};
    gt__cuda_add_plain(&text, gt__cuda_device_text(GT_CUDA_NO_FAMILY));
    gt__cuda_add_plain(&text, gt__cuda_device_text(GT_CUDA_ELEMENTWISE));
    gt__cuda_add_plain(&text, gt__cuda_device_text(GT_CUDA_REDUCE));
    gt__cuda_add_plain(&text, gt__cuda_device_text(GT_CUDA_ROWS));
    write_dtypes(&text);
    for (gt_cuda_type type = GT_CUDA_I32; type <= GT_CUDA_F64; type++)
        if (has_type(type))
            write_expressions(&text, type);
    write_reductions(&text);
    write_lines(&text);
    gt__cuda_add_plain(&text, gt__cuda_text_resident);
    gt__cuda_add(&text, "GT_ENTRY(%d, 1) gt_kernel(GT_PARAM(gt_resident_params) p)\n{\ngt_resident(p);\n}\n",
                 GT_CUDA_RESIDENT_THREADS);
    if (text.failed) {
        free(text.data);
        return gt__fail(GT_ERR_MEMORY, "no memory for the source of a kernel");
    }
    *source = text.data;
    *entry = "gt_kernel";
    return GT_OK;
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

static bool is_small(const gt_call *call)
{
    if (call->out->meta.numel > GT_CUDA_RESIDENT_MOST || call->operands > GT_MAX_OPERANDS)
        return false;
    for (unsigned k = 0; k < call->operands; k++)
        if (call->in[k]->meta.numel > GT_CUDA_RESIDENT_MOST)
            return false;
    return true;
}

bool gt__cuda_resident_covers(const gt_call *call)
{
    if (!is_small(call))
        return false;
    switch (gt__op_table[call->op].form) {
    case GT_FORM_UNARY:
    case GT_FORM_BINARY:
    case GT_FORM_TERNARY:
        return computes(call->op, gt__cuda_type(call->compute));
    case GT_FORM_REDUCE:
    case GT_FORM_ARGREDUCE:
    case GT_FORM_SOFTMAX:
    case GT_FORM_SOFTMAX_BACKWARD:
    case GT_FORM_LAYER_NORM:
    case GT_FORM_RESHAPE:
    case GT_FORM_CAST:
    case GT_FORM_COPY:
    case GT_FORM_FULL:
        return true;
    default:
        return false;
    }
}

enum { EXPRESSION, CONVERT, MOVE }; /* variants of generate_elementwise.c, and of the kernel */

static bool elementwise_slot(const gt_cuda_key *key, gt_cuda_slot *slot)
{
    gt_cuda_type type = key->variant == MOVE ? GT_CUDA_I32 : gt__cuda_type((gt_dtype)key->compute);
    if (key->vector != 1 || key->wide || key->option[1] || key->option[0] > GT_MAX_OPERANDS ||
        (key->variant == EXPRESSION ? !computes((gt_opcode)key->op, type)
                                    : key->variant > MOVE || !has_type(type)))
        return false;
    if (key->variant == CONVERT && gt__dtype_is_complex((gt_dtype)key->out))
        return false;
    slot->kind = GT_CUDA_SLOT_ELEMENTWISE;
    slot->type = (uint8_t)type;
    slot->operands = (uint8_t)key->option[0];
    slot->variant = key->variant;
    slot->op = key->op;
    slot->out = key->out;
    slot->literals = 0;
    for (unsigned k = 0; k < key->option[0]; k++) {
        slot->in[k] = key->in[k];
        slot->literals |= (uint8_t)((key->mode[k] == 0) << k);
    }
    return true;
}

static void reduce_slot(const gt_cuda_key *key, unsigned number, gt_cuda_slot *slot)
{
    slot->kind = GT_CUDA_SLOT_REDUCE;
    slot->op = (uint16_t)number;
    slot->literals = key->variant == COLUMNS;
    /* Vectors of elements, whose number is a power of two. Those of columns are neighbours, and change no result's order. */
    slot->variant = slot->literals ? 0 : (uint8_t)__builtin_ctz(key->vector);
    slot->out = key->out;
    slot->in[0] = key->in[0];
}

bool gt__cuda_resident_slot(const gt_cuda_launch *launch, gt_cuda_slot *slot)
{
    unsigned number;
    if (launch->errors_at != GT_CUDA_NOWHERE || launch->scratch_count || launch->param_size > GT_CUDA_SLOT_PARAM)
        return false;
    if (launch->key.family == GT_CUDA_REDUCE && launch->grid[1] == 1 && !launch->key.wide &&
        (number = find_reduction(&launch->key)) < REDUCTIONS)
        reduce_slot(&launch->key, number, slot);
    else if (launch->key.family == GT_CUDA_ROWS && (number = find_lines(&launch->key)) < LINES) {
        slot->kind = GT_CUDA_SLOT_ROWS;
        slot->op = (uint16_t)number;
        slot->literals = launch->key.vector > 1;
    } else if (launch->key.family != GT_CUDA_ELEMENTWISE || !elementwise_slot(&launch->key, slot))
        return false;
    memcpy(slot->param, launch->param, launch->param_size);
    return true;
}
