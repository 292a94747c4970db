/*
 * attention.h: what the two rows of form ATTENTION compute on the last two axes. The axes before them are equal.
 *
 *     attention            q (..., L, E), k (..., S, E), v (..., S, F): softmax(q k' scale) v, (..., L, F)
 *     attention_backward   q and g side by side (..., L, E + F), k, v, where g is the gradient of attention's result: the
 *                          gradients of q, k and v, one after the other in the last axis, (..., L E + S E + S F)
 *
 * A record has three operands and one result; hence the packing. imm[0].f is the scale. imm[1].i is the period: query i
 * sees the keys 0 <= j <= i % period, or all keys if it is 0. The period of causal attention is L, or the length of
 * one head where several heads of queries share the keys and lie one after the other.
 */
#ifndef GT_CORE_ATTENTION_H
#define GT_CORE_ATTENTION_H

#include "core/op.h"

typedef struct gt_attention_sizes {
    int64_t batches, queries, keys, width, value_width; /* ..., L, S, E, F */
} gt_attention_sizes;

/* Of the operands of a record that inference has accepted. */
static inline gt_attention_sizes gt__attention_sizes(const gt_meta *q, const gt_meta *k, const gt_meta *v)
{
    gt_attention_sizes sizes = {.batches = 1,
                                .queries = q->shape[q->rank - 2],
                                .keys = k->shape[k->rank - 2],
                                .width = k->shape[k->rank - 1],
                                .value_width = v->shape[v->rank - 1]};
    for (unsigned axis = 0; axis + 2 < q->rank; axis++)
        sizes.batches *= q->shape[axis];
    return sizes;
}

/* The number of keys that query i sees. */
static inline int64_t gt__attention_seen(int64_t i, int64_t period, int64_t keys)
{
    return period && i % period < keys ? i % period + 1 : keys;
}

#endif
