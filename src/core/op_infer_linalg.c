/*
 * op_infer_linalg.c: shapes of the rows of linear algebra, and their errors in PyTorch's words. Part of inference: read
 * op_infer.c first. Like it, this file trusts nothing in a record. linalg.h lists the shapes.
 */
#include <string.h>

#include "core/linalg.h"

/* What PyTorch calls the row in its messages. */
static const char *torch_name(gt_opcode op)
{
    return op == GT_OP_inverse ? "inv" : op == GT_OP_ldl ? "ldl_factor" : gt__op_table[op].name;
}

static gt_err check_dtype(gt_opcode op, const gt_meta *a)
{
    if (a->dtype == GT_FLOAT32 || a->dtype == GT_FLOAT64 || gt__dtype_is_complex((gt_dtype)a->dtype))
        return GT_OK; /* inference has refused complex numbers where the row does not take them */
    if (gt__dtype_is_float((gt_dtype)a->dtype))
        return gt__fail(GT_ERR_TYPE, "linalg.%s: Low precision dtypes not supported. Got %s", torch_name(op),
                        gt__dtype_name((gt_dtype)a->dtype));
    return gt__fail(GT_ERR_TYPE, "linalg.%s: Expected a floating point tensor as input. Got %s", torch_name(op),
                    gt__dtype_name((gt_dtype)a->dtype));
}

static gt_err check_matrices(gt_opcode op, const gt_meta *a, const char *which)
{
    GT_TRY(check_dtype(op, a));
    if (a->rank < 2)
        return gt__fail(GT_ERR_VALUE, "linalg.%s: The input tensor %s must have at least 2 dimensions.",
                        torch_name(op), which);
    return GT_OK;
}

static gt_err check_square(gt_opcode op, const gt_meta *a)
{
    if (gt__rows(a) == gt__columns(a))
        return GT_OK;
    return gt__fail(GT_ERR_VALUE,
                    "linalg.%s: A must be batches of square matrices, but they are %lld by %lld matrices",
                    torch_name(op), (long long)gt__rows(a), (long long)gt__columns(a));
}

static bool needs_square(gt_opcode op)
{
    return op != GT_OP_pinv && op != GT_OP_lu && op != GT_OP_qr && op != GT_OP_geqrf && op != GT_OP_svd;
}

/* a's batch axes, then rows and columns. */
static gt_err batched(const gt_meta *a, int64_t rows, int64_t columns, gt_meta *out)
{
    int64_t shape[GT_MAX_RANK];
    memcpy(shape, a->shape, sizeof shape);
    shape[a->rank - 2] = rows;
    shape[a->rank - 1] = columns;
    return gt__meta_set(out, (gt_dtype)a->dtype, a->rank, shape);
}

/* a's batch axes, and one more of `size`, if that is not 0. */
static gt_err flattened(const gt_meta *a, int64_t size, gt_meta *out)
{
    int64_t shape[GT_MAX_RANK];
    memcpy(shape, a->shape, sizeof shape);
    shape[a->rank - 2] = size;
    return gt__meta_set(out, (gt_dtype)a->dtype, a->rank - 2u + (size != 0), shape);
}

static gt_err infer_matrix(const gt_instruction *ins, const gt_meta *a, gt_meta *out)
{
    gt_opcode op = (gt_opcode)ins->op;
    int64_t vectors = ins->imm[0].i;
    GT_TRY(check_matrices(op, a, "A"));
    if (needs_square(op))
        GT_TRY(check_square(op, a));
    int64_t m = gt__rows(a), n = gt__columns(a), least = m < n ? m : n, most = m > n ? m : n;
    bool decomposes = op == GT_OP_qr || op == GT_OP_svd || op == GT_OP_eigh || op == GT_OP_eig;
    if (decomposes && (vectors < GT_VECTORS_REDUCED || vectors > GT_VECTORS_NONE))
        return gt__fail(GT_ERR_VALUE, "linalg.%s: unknown choice of vectors: %lld", torch_name(op),
                        (long long)vectors);
    switch (op) {
    case GT_OP_pinv:
        return batched(a, n, m, out);
    case GT_OP_det:
        return flattened(a, 0, out);
    case GT_OP_slogdet:
        return flattened(a, 2, out);
    case GT_OP_lu:
        return batched(a, m + 1, n + 1, out);
    case GT_OP_ldl:
    case GT_OP_geqrf:
        return batched(a, m + 1, n, out);
    case GT_OP_qr:
        return batched(a, m + n, vectors == GT_VECTORS_FULL ? m : least, out);
    case GT_OP_svd:
        if (vectors == GT_VECTORS_NONE)
            return batched(a, 1, least, out);
        return batched(a, m + 1 + n, vectors == GT_VECTORS_FULL ? most : least, out);
    case GT_OP_eigh:
        return batched(a, vectors == GT_VECTORS_NONE ? 1 : 1 + n, n, out);
    case GT_OP_eig:
        GT_TRY(batched(a, vectors == GT_VECTORS_NONE ? 1 : 1 + n, n, out));
        return gt__meta_set(out, gt__dtype_complex((gt_dtype)a->dtype), out->rank, out->shape);
    default:
        return batched(a, n, n, out);
    }
}

static gt_err infer_solve(const gt_instruction *ins, const gt_meta *a, const gt_meta *b, gt_meta *out)
{
    gt_opcode op = (gt_opcode)ins->op;
    GT_TRY(check_matrices(op, a, "A"));
    GT_TRY(check_matrices(op, b, "B"));
    gt_meta factors = *a; /* ldl_solve: without the row of pivots */
    if (op == GT_OP_ldl_solve && gt__rows(a) > 0)
        factors.shape[a->rank - 2]--;
    GT_TRY(check_square(op, &factors));
    if (a->dtype != b->dtype)
        return gt__fail(GT_ERR_TYPE,
                        "linalg.%s: Expected A and B to have the same dtype, but found A of type %s and B of "
                        "type %s instead",
                        torch_name(op), gt__dtype_name((gt_dtype)a->dtype), gt__dtype_name((gt_dtype)b->dtype));
    gt_meta batch_a = *a, batch_b = *b, batch = *a;
    batch_a.rank = (uint8_t)(a->rank - 2);
    batch_b.rank = (uint8_t)(b->rank - 2);
    if (gt__rows(b) != gt__columns(a) || gt__meta_broadcast(&batch_a, &batch_b, &batch) != GT_OK) {
        char text_a[128], text_b[128];
        return gt__fail(GT_ERR_VALUE,
                        "linalg.%s: Incompatible shapes of A and B for the equation AX = B (%s and %s)",
                        torch_name(op), gt__sizes_text(a->rank, a->shape, text_a, sizeof text_a),
                        gt__sizes_text(b->rank, b->shape, text_b, sizeof text_b));
    }
    int64_t shape[GT_MAX_RANK + 2];
    memcpy(shape, batch.shape, batch.rank * sizeof shape[0]);
    shape[batch.rank] = gt__rows(b);
    shape[batch.rank + 1] = gt__columns(b);
    return gt__meta_set(out, (gt_dtype)a->dtype, batch.rank + 2u, shape);
}

gt_err gt__infer_linalg(const gt_instruction *ins, const gt_meta *const *in, gt_meta *out)
{
    if (gt__op_table[ins->op].form == GT_FORM_MATRIX)
        return infer_matrix(ins, in[0], out);
    return infer_solve(ins, in[0], in[1], out);
}
