/* steps.c: the steps that several families of gradient rules share. steps.h says what each does. */
#include "client/gradients/steps.h"

gt_tensor *gt__step_keep(gt_frame *f, gt_err err, gt_tensor *tensor)
{
    if (err != GT_OK) {
        f->err = err;
        return NULL;
    }
    if (f->count == GT_MAX_TEMPORARIES) {
        gt_tensor_release(tensor);
        f->err = gt__fail(GT_ERR_INTERNAL, "%s: the gradient rule is too long", gt__op_table[f->node->op].name);
        return NULL;
    }
    return f->temporary[f->count++] = tensor;
}

void gt__step_refuse(gt_frame *f, unsigned k, const char *name)
{
    if (f->wanted[k] && f->err == GT_OK)
        f->err = gt__fail(GT_ERR_UNSUPPORTED, "the derivative for '%s' is not implemented.", name);
}

void gt__step_refuse_all(gt_frame *f, const char *name)
{
    if (f->err == GT_OK)
        f->err = gt__fail(GT_ERR_UNSUPPORTED, "derivative for aten::%s is not implemented", name);
}

gt_tensor *gt__step_unary(gt_frame *f, gt_opcode op, gt_tensor *a)
{
    STEP(gt__emit_unary(op, a, &result_));
}

gt_tensor *gt__step_binary(gt_frame *f, gt_opcode op, gt_tensor *a, gt_tensor *b)
{
    STEP(gt__emit_binary(op, a, b, &result_));
}

gt_tensor *gt__step_number(gt_frame *f, gt_opcode op, gt_tensor *a, double value)
{
    STEP(gt__emit_binary_literal(op, a, GT_LITERAL_FLOAT, (gt_imm){.f = value}, false, &result_));
}

gt_tensor *gt__step_with_operand(gt_frame *f, gt_opcode op, gt_tensor *a, unsigned k)
{
    const gt_instruction *ins = &f->node->ins;
    if (!IS_LITERAL(k))
        return gt__step_binary(f, op, a, k == 0 ? f->x : f->y);
    STEP(gt__emit_binary_literal(op, a, gt__literal(ins, k), ins->literal[k], false, &result_));
}

double gt__step_literal(const gt_instruction *ins, unsigned k)
{
    return gt__literal(ins, k) == GT_LITERAL_FLOAT ? ins->literal[k].f : (double)ins->literal[k].i;
}

gt_tensor *gt__step_operand(gt_frame *f, unsigned k, gt_tensor *saved, gt_tensor *like)
{
    return IS_LITERAL(k) ? FILLED(&like->meta, gt__step_literal(&f->node->ins, k)) : saved;
}

gt_tensor *gt__step_reduce(gt_frame *f, gt_opcode op, gt_tensor *a, uint32_t axes, bool keepdims)
{
    STEP(gt__emit_reduce(op, a, axes, keepdims, 0, &result_));
}

gt_tensor *gt__step_where(gt_frame *f, gt_tensor *condition, gt_tensor *a, gt_tensor *b)
{
    STEP(gt_where(condition, a, b, &result_));
}

gt_tensor *gt__step_where_or_zero(gt_frame *f, gt_tensor *condition, gt_tensor *a)
{
    STEP(gt__emit_ternary(GT_OP_where, condition, a, GT_LITERAL_NONE, (gt_imm){0}, NULL, GT_LITERAL_INT,
                          (gt_imm){0}, &result_));
}

gt_tensor *gt__step_zero_where(gt_frame *f, gt_tensor *condition, gt_tensor *a)
{
    STEP(gt__emit_ternary(GT_OP_where, condition, NULL, GT_LITERAL_INT, (gt_imm){0}, a, GT_LITERAL_NONE,
                          (gt_imm){0}, &result_));
}

gt_tensor *gt__step_matmul(gt_frame *f, gt_tensor *a, gt_tensor *b)
{
    STEP(gt_matmul(a, b, &result_));
}

gt_tensor *gt__step_transpose(gt_frame *f, gt_tensor *a)
{
    STEP(gt_transpose(a, a->meta.rank - 2, a->meta.rank - 1, &result_));
}

bool gt__step_is_complex(const gt_tensor *a)
{
    return a && gt__dtype_is_complex((gt_dtype)a->meta.dtype);
}

gt_tensor *gt__step_conjugate(gt_frame *f, gt_tensor *a)
{
    return gt__step_is_complex(a) ? EMIT(conj, a) : a;
}

gt_tensor *gt__step_adjoint(gt_frame *f, gt_tensor *a)
{
    return T(CONJ(a));
}

gt_tensor *gt__step_reshape(gt_frame *f, gt_tensor *a, unsigned rank, const int64_t *shape)
{
    STEP(gt_reshape(a, (int)rank, shape, &result_));
}

gt_tensor *gt__step_expand(gt_frame *f, gt_tensor *a, unsigned rank, const int64_t *shape)
{
    STEP(gt_expand(a, (int)rank, shape, &result_));
}

gt_tensor *gt__step_slice(gt_frame *f, gt_tensor *a, const gt_slot *spec)
{
    STEP(gt_slice(a, spec[0].i64, spec[1].i64, spec[2].i64, &result_));
}

gt_tensor *gt__step_cast(gt_frame *f, gt_tensor *a, gt_dtype dtype)
{
    STEP(gt_cast(a, dtype, &result_));
}

gt_tensor *gt__step_full(gt_frame *f, const gt_meta *meta, double value)
{
    STEP(gt_full(f->node->client, (gt_dtype)meta->dtype, meta->rank, meta->shape, value, &result_));
}
