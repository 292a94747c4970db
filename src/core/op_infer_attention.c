/* op_infer_attention.c: inference of attention and its gradients. Read op_infer.c and attention.h first. */
#include <math.h>

#include "core/attention.h"
#include "core/op_infer.h"

static gt_err mismatch(const gt_inference *s)
{
    char text[3][128];
    for (unsigned k = 0; k < 3; k++)
        gt__sizes_text(s->in[k]->rank, s->in[k]->shape, text[k], sizeof text[k]);
    return gt__fail(GT_ERR_VALUE, "%s: shapes %s, %s and %s do not fit", s->row->name, text[0], text[1], text[2]);
}

gt_err gt__infer_attention(gt_inference *s)
{
    const gt_meta *q = s->in[0], *k = s->in[1], *v = s->in[2];
    unsigned rank = q->rank;
    if (!gt__dtype_is_float((gt_dtype)q->dtype) || q->dtype != k->dtype || q->dtype != v->dtype)
        return gt__fail(GT_ERR_TYPE, "%s: expected operands of one floating dtype, but got %s, %s and %s",
                        s->row->name, gt__dtype_name((gt_dtype)q->dtype), gt__dtype_name((gt_dtype)k->dtype),
                        gt__dtype_name((gt_dtype)v->dtype));
    if (rank < 2 || k->rank != rank || v->rank != rank)
        return mismatch(s);
    bool forward = s->ins->op == GT_OP_attention;
    int64_t width = k->shape[rank - 1], wanted = forward ? width : width + v->shape[rank - 1];
    bool fits = q->shape[rank - 1] == wanted && k->shape[rank - 2] == v->shape[rank - 2];
    for (unsigned axis = 0; axis + 2 < rank; axis++)
        fits = fits && q->shape[axis] == k->shape[axis] && q->shape[axis] == v->shape[axis];
    if (!fits)
        return mismatch(s);
    if (s->ins->imm[1].i < 0 || !isfinite(s->ins->imm[0].f))
        return gt__fail(GT_ERR_VALUE, "%s: the scale must be finite and the period not negative", s->row->name);
    gt_attention_sizes n = gt__attention_sizes(q, k, v);
    int64_t shape[GT_MAX_RANK], keys, queries;
    for (unsigned axis = 0; axis + 2 < rank; axis++)
        shape[axis] = q->shape[axis];
    shape[rank - 2] = n.queries;
    shape[rank - 1] = n.value_width;
    if (forward)
        return gt__meta_set(s->out, (gt_dtype)q->dtype, rank, shape);
    if (__builtin_mul_overflow(n.queries, n.width, &queries) || __builtin_mul_overflow(n.keys, wanted, &keys) ||
        __builtin_add_overflow(queries, keys, &shape[rank - 2]))
        return gt__fail(GT_ERR_VALUE, "%s: the tensors are too large", s->row->name);
    return gt__meta_set(s->out, (gt_dtype)q->dtype, rank - 1, shape);
}
