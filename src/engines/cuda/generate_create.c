/*
 * generate_create.c: ARANGE, EYE, RANDOM, TRIANGLE, and bernoulli: elements that follow from their positions.
 * device/create.cuh has the kernels.
 */
#include <string.h>

#include "engines/cuda/generate_family.h"

/* ---- source ------------------------------------------------------------------------------------------------- */

static gt_cuda_type drawn_type(const gt_cuda_key *key)
{
    return key->op == GT_OP_randint ? GT_CUDA_I64 : key->out == GT_FLOAT64 ? GT_CUDA_F64 : GT_CUDA_F32;
}

void gt__cuda_write_create(const gt_cuda_key *key, const char *name, gt_cuda_text *text)
{
    gt_opcode op = (gt_opcode)key->op;
    unsigned form = gt__op_table[op].form;
    const char *function = form == GT_FORM_RANDOM     ? "random"
                           : form == GT_FORM_TRIANGLE ? "triangle"
                                                      : gt__op_table[op].name;
    gt__cuda_add(text, "struct %s_k {\ntypedef %s DO;\ntypedef %s T;\n", name,
                 form == GT_FORM_TRIANGLE ? gt__cuda_moved(key->out) : gt__cuda_dtype((gt_dtype)key->out),
                 gt__cuda_type_name(drawn_type(key)));
    gt__cuda_add(text, "enum { REAL = %u, LOWER = %u, NORMAL = %u };\n};\n",
                 gt__dtype_is_float((gt_dtype)key->out) && form != GT_FORM_TRIANGLE, op == GT_OP_tril,
                 op == GT_OP_randn);
    gt__cuda_add(text, "GT_ENTRY(256) %s(GT_PARAM(gt_create_params) p)\n{\ngt_%s<%s_k>(p);\n}\n", name, function,
                 name);
}

/* ---- launches ----------------------------------------------------------------------------------------------- */

typedef struct params {
    void *out;
    uint64_t in;
    void *errors;
    int64_t count;
    int64_t rows, columns;
    int64_t diagonal;
    int64_t first, run, step;
    uint64_t start[2];
    uint64_t seed, stream;
} params;

gt_err gt__cuda_lower_create(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    const gt_instruction *ins = call->ins;
    const gt_meta *meta = &call->out->meta;
    unsigned form = gt__op_table[call->op].form, out = meta->dtype;
    gt_cuda_operand in = {0};
    params p = {.out = call->out->data, .count = meta->numel};
    if (call->literals || (form == GT_FORM_SAMPLE && call->op != GT_OP_bernoulli) ||
        (gt__dtype_is_complex((gt_dtype)out) && form != GT_FORM_TRIANGLE))
        return GT_CUDA_DECLINE;
    if (call->operands)
        in = gt__cuda_operand(work, call->in[0], (gt_dtype)out);
    switch (form) {
    case GT_FORM_ARANGE:
        p.first = call->tail[0].i64[1];
        p.start[0] = ins->imm[0].u;
        p.start[1] = ins->imm[1].u;
        break;
    case GT_FORM_EYE:
        p.diagonal = call->tail[0].i64[2];
        p.columns = meta->shape[1];
        break;
    case GT_FORM_TRIANGLE:
        p.diagonal = ins->imm[0].i;
        p.rows = meta->shape[meta->rank - 2];
        p.columns = meta->shape[meta->rank - 1];
        out = (unsigned)gt__dtype_size((gt_dtype)out);
        break;
    case GT_FORM_RANDOM:
        p.first = call->tail[1].i64[2];
        p.run = call->tail[1].i64[3];
        p.step = call->tail[1].i64[4];
        p.start[0] = call->tail[1].u64[0];
        p.start[1] = call->tail[1].u64[1] - call->tail[1].u64[0];
        break;
    default:
        break;
    }
    if (form == GT_FORM_RANDOM || form == GT_FORM_SAMPLE) {
        p.seed = ins->imm[0].u;
        p.stream = ins->imm[1].u;
    }
    gt_cuda_launch *launch = gt__cuda_launch(work, GT_CUDA_CREATE, &p, sizeof p);
    launch->key.op = (uint16_t)call->op;
    launch->key.out = (uint8_t)out;
    launch->grid[0] = gt__cuda_blocks(p.count, GT_CUDA_BLOCK);
    if (call->operands)
        gt__cuda_bind(launch, offsetof(params, in), &in);
    if (form == GT_FORM_SAMPLE)
        launch->errors_at = offsetof(params, errors);
    return GT_OK;
}
