/* batch.c: levels, wrapping, and how an op on batched tensors is emitted. See batch.h; the rules are in batch_rules.c. */
#include "client/batch.h"

#include <stdlib.h>
#include <string.h>

#include "client/autograd.h"
#include "client/signals.h"

typedef struct level_state {
    uint32_t level;
    int64_t size;
    gt_randomness randomness;
} level_state;

static _Thread_local level_state levels[GT_MAX_LEVELS];
static _Thread_local unsigned depth; /* levels of this thread */
static _Atomic uint32_t next_level;
void (*gt__batch_slow_hook)(const char *op);

/* ---- levels ------------------------------------------------------------------------------------------------ */

void gt__batch_count(int change)
{
    gt__modes_count(change);
}

gt_err gt__batch_enter(int64_t size, gt_randomness randomness, uint32_t *level)
{
    if (depth == GT_MAX_LEVELS)
        return gt__fail(GT_ERR_VALUE, "vmap: at most %d levels can be nested", GT_MAX_LEVELS);
    /* Numbers are used once, so that a tensor of an ended vmap is found out, until all 65535 were. */
    *level = atomic_fetch_add(&next_level, 1) % UINT16_MAX + 1;
    if (depth && *level <= levels[depth - 1].level)
        *level = levels[depth - 1].level + 1;
    if (*level > UINT16_MAX)
        return gt__fail(GT_ERR_VALUE, "vmap: too many vmaps were made inside another");
    levels[depth++] = (level_state){.level = *level, .size = size, .randomness = randomness};
    gt__batch_count(1);
    return GT_OK;
}

void gt__batch_exit(uint32_t level)
{
    while (depth && levels[depth - 1].level >= level) {
        depth--;
        gt__batch_count(-1);
    }
}

bool gt__batch_active(void)
{
    return depth > 0;
}

static const level_state *find_level(uint32_t level)
{
    for (unsigned k = 0; k < depth; k++)
        if (levels[k].level == level)
            return &levels[k];
    gt__fail(GT_ERR_VALUE, "vmap: a tensor of a vmap that has ended, or of another thread's, was used");
    return NULL;
}

gt_err gt__batch_refuse_value(void)
{
    return gt__fail(
        GT_ERR_VALUE,
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() "
        "on a Tensor, please try to rewrite what you're doing with other operations. If error is occurring "
        "somewhere inside GT internals, this may be data-dependent control flow.");
}

/* ---- wrapping ---------------------------------------------------------------------------------------------- */

gt_err gt__batch_wrap(gt_tensor *tensor, uint32_t level, gt_tensor **out)
{
    gt_tensor *made;
    if (tensor->meta.rank == 0)
        return gt__fail(GT_ERR_INTERNAL, "vmap: a result has lost its batch axis");
    GT_TRY(gt__tensor_alias(tensor, tensor->node, &made));
    if (made->base != tensor) { /* of a batched tensor: the tensor itself, not its base */
        gt_tensor_release(made->base);
        made->base = gt_tensor_retain(tensor);
    }
    if (!made->batch)
        gt__batch_count(1);
    made->batch = (uint16_t)level;
    made->id = 0;
    gt_err err =
        gt__meta_set(&made->meta, (gt_dtype)tensor->meta.dtype, tensor->meta.rank - 1u, tensor->meta.shape + 1);
    if (err != GT_OK) {
        gt_tensor_release(made);
        return err;
    }
    *out = made;
    return GT_OK;
}

/* The base of a batched tensor, under the tensor's node: detach() and requires_grad_() change only the tensor. */
static gt_err base_of(gt_tensor *tensor, gt_tensor **out)
{
    if (tensor->base->node != tensor->node)
        return gt__tensor_alias(tensor->base, tensor->node, out);
    *out = gt_tensor_retain(tensor->base);
    return GT_OK;
}

static gt_err expanded(gt_tensor *tensor, int64_t size, gt_tensor **out)
{
    int64_t shape[GT_MAX_RANK];
    if (tensor->meta.rank == GT_MAX_RANK)
        return gt__fail(GT_ERR_VALUE, "vmap: a tensor has at most %d dimensions, those of vmap included",
                        GT_MAX_RANK);
    shape[0] = size;
    memcpy(shape + 1, tensor->meta.shape, tensor->meta.rank * sizeof *shape);
    return gt_expand(tensor, tensor->meta.rank + 1, shape, out);
}

static bool has_level(const gt_tensor *tensor, uint32_t level)
{
    for (; tensor && tensor->batch; tensor = tensor->base)
        if (tensor->batch == level)
            return true;
    return false;
}

/* The tensor with the axis of the level, which it has, in front. */
static gt_err expose(gt_tensor *tensor, uint32_t level, gt_tensor **out)
{
    gt_tensor *base, *inner = NULL, *swapped = NULL;
    GT_TRY(base_of(tensor, &base));
    if (tensor->batch == level) {
        *out = base;
        return GT_OK;
    }
    gt_err err = expose(base, level, &inner); /* (level, batch, ...) */
    if (err == GT_OK)
        err = gt_transpose(inner, 0, 1, &swapped);
    if (err == GT_OK)
        err = gt__batch_wrap(swapped, tensor->batch, out);
    gt_tensor_release(base);
    gt_tensor_release(inner);
    gt_tensor_release(swapped);
    return err;
}

gt_err gt__batch_unwrap(gt_tensor *tensor, uint32_t level, gt_tensor **out)
{
    if (has_level(tensor, level))
        return expose(tensor, level, out);
    const level_state *state = find_level(level);
    return state ? expanded(tensor, state->size, out) : GT_ERR_VALUE;
}

/* The opposite of expose: hide the first axis again, below the levels that are higher. */
static gt_err hide(gt_tensor *tensor, uint32_t level, gt_tensor **out)
{
    if (tensor->batch < level)
        return gt__batch_wrap(tensor, level, out);
    gt_tensor *base, *swapped = NULL, *hidden = NULL;
    GT_TRY(base_of(tensor, &base)); /* (batch, level, ...) */
    gt_err err = gt_transpose(base, 0, 1, &swapped);
    if (err == GT_OK)
        err = hide(swapped, level, &hidden);
    if (err == GT_OK)
        err = gt__batch_wrap(hidden, tensor->batch, out);
    gt_tensor_release(base);
    gt_tensor_release(swapped);
    gt_tensor_release(hidden);
    return err;
}

gt_err gt__batch_expand_all(gt_tensor *tensor, gt_tensor **out)
{
    gt_tensor *now = gt_tensor_retain(tensor), *wide, *next;
    for (unsigned k = 0; k < depth; k++) {
        if (has_level(now, levels[k].level))
            continue;
        gt_err err = expanded(now, levels[k].size, &wide);
        if (err == GT_OK) {
            err = hide(wide, levels[k].level, &next);
            gt_tensor_release(wide);
        }
        gt_tensor_release(now);
        GT_TRY(err);
        now = next;
    }
    *out = now;
    return GT_OK;
}

gt_err gt__batch_strip(gt_tensor *tensor, const gt_tensor *like, gt_tensor **out)
{
    gt_tensor *now = gt_tensor_retain(tensor), *next;
    for (; like->batch; like = like->base) {
        gt_err err = gt__batch_unwrap(now, like->batch, &next);
        gt_tensor_release(now);
        GT_TRY(err);
        now = next;
    }
    *out = now;
    return GT_OK;
}

gt_err gt__batch_restore(gt_tensor *tensor, const gt_tensor *like, gt_tensor **out)
{
    gt_tensor *inner;
    if (!like->batch) {
        *out = gt_tensor_retain(tensor);
        return GT_OK;
    }
    GT_TRY(gt__batch_restore(tensor, like->base, &inner));
    gt_err err = hide(inner, like->batch, out);
    gt_tensor_release(inner);
    return err;
}

/* ---- emission ---------------------------------------------------------------------------------------------- */

/* Operand k of one sample. */
static gt_err sample_of(gt_batching *f, unsigned k, int64_t sample, gt_tensor **out)
{
    if (!f->base[k]) {
        *out = f->in[k] ? gt_tensor_retain(f->in[k]) : NULL;
        return GT_OK;
    }
    const gt_meta *meta = &f->base[k]->meta;
    int64_t start[GT_MAX_RANK] = {sample}, step[GT_MAX_RANK], count[GT_MAX_RANK];
    for (unsigned axis = 0; axis < meta->rank; axis++) {
        step[axis] = 1;
        count[axis] = axis ? meta->shape[axis] : 1;
    }
    gt_tensor *slice;
    GT_TRY(gt_slice(f->base[k], start, step, count, &slice));
    gt_err err = gt_reshape(slice, meta->rank - 1, meta->shape + 1, out);
    gt_tensor_release(slice);
    return err;
}

/* The op on one sample, its result with an axis of size 1 in front. */
static gt_err emit_sample(gt_batching *f, int64_t sample, gt_tensor **in, gt_tensor **out)
{
    gt_err err = GT_OK;
    gt_tensor *result = NULL;
    unsigned made = 0;
    for (; made < f->count && err == GT_OK; made++)
        err = sample_of(f, made, sample, &in[made]);
    made -= err != GT_OK;
    if (err == GT_OK)
        err = gt__emit(f->client, f->ins, f->tail, in, f->count, &result);
    if (err == GT_OK) {
        int64_t shape[GT_MAX_RANK + 1] = {1};
        memcpy(shape + 1, result->meta.shape, result->meta.rank * sizeof *shape);
        err = gt_reshape(result, result->meta.rank + 1, shape, out);
    }
    gt_tensor_release(result);
    for (unsigned k = 0; k < made; k++)
        gt_tensor_release(in[k]);
    return err;
}

/* Forms without a rule: once for each sample. */
static gt_err emit_samples(gt_batching *f, gt_tensor **out)
{
    if (gt__batch_slow_hook)
        gt__batch_slow_hook(gt__op_table[f->ins.op].name);
    if (f->size < 1 || f->size > INT32_MAX)
        return gt__fail(GT_ERR_VALUE, "vmap: %s cannot be computed for %lld samples", gt__op_table[f->ins.op].name,
                        (long long)f->size);
    gt_tensor **results = calloc((size_t)f->size, sizeof *results), *in[GT_MAX_CAT];
    if (!results)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_err err = GT_OK;
    for (int64_t sample = 0; sample < f->size && err == GT_OK; sample++)
        err = emit_sample(f, sample, in, &results[sample]);
    if (err == GT_OK)
        err = gt_cat(results, (int)f->size, 0, out);
    for (int64_t sample = 0; sample < f->size; sample++)
        gt_tensor_release(results[sample]);
    free(results);
    return err;
}

/* The rule's result (borrowed) as (size,) + the logical shape; sizes of 1 may have gone or come. */
static gt_err fit_result(gt_batching *f, gt_tensor *result, gt_tensor **out)
{
    int64_t shape[GT_MAX_RANK + 1] = {f->size};
    memcpy(shape + 1, f->out.shape, f->out.rank * sizeof *shape);
    bool fits = result->meta.rank == f->out.rank + 1;
    for (unsigned axis = 0; fits && axis < result->meta.rank; axis++)
        fits = result->meta.shape[axis] == shape[axis];
    if (!fits)
        return gt_reshape(result, f->out.rank + 1, shape, out);
    *out = gt_tensor_retain(result);
    return GT_OK;
}

static gt_err emit_level(gt_batching *f, gt_tensor **out)
{
    const gt_meta *metas[GT_MAX_CAT];
    for (unsigned k = 0; k < f->count; k++)
        metas[k] = f->in[k] ? &f->in[k]->meta : NULL;
    GT_TRY(gt__op_infer(&f->ins, f->tail, metas, &f->out, &f->compute));
    unsigned before = depth;
    while (gt__op_table[f->ins.op].form == GT_FORM_SAMPLE && depth && levels[depth - 1].level >= f->level)
        depth--; /* random numbers for the bases: the levels around this one decide, as in gt__batch_emit_random */
    gt_tensor *result = gt__batch_rule(f), *fitted = NULL;
    depth = before;
    gt_err err = f->err;
    if (err == GT_OK)
        err = result ? fit_result(f, result, &fitted) : emit_samples(f, &fitted);
    if (err == GT_OK)
        err = gt__batch_wrap(fitted, f->level, out);
    gt_tensor_release(fitted);
    for (unsigned k = 0; k < f->temporaries; k++)
        gt_tensor_release(f->temporary[k]);
    return err;
}

gt_err gt__batch_emit(gt_client *client, const gt_instruction *prototype, gt_slot *tail, gt_tensor *const *in,
                      unsigned count, gt_tensor **out)
{
    gt_tensor *base[GT_MAX_CAT] = {NULL};
    gt_batching f = {.client = client, .ins = *prototype, .tail = tail, .in = in, .count = count, .base = base};
    f.ins.flags &= (uint8_t)~GT_FLAG_CONSUMES;
    for (unsigned k = 0; k < count; k++)
        if (in[k] && in[k]->batch > f.level)
            f.level = in[k]->batch;
    const level_state *state = find_level(f.level);
    if (!state)
        return GT_ERR_VALUE;
    f.size = state->size;
    f.randomness = state->randomness;
    gt_err err = GT_OK;
    for (unsigned k = 0; k < count && err == GT_OK; k++)
        if (in[k] && in[k]->batch == f.level)
            err = base_of(in[k], &base[k]);
    if (err == GT_OK)
        err = emit_level(&f, out);
    for (unsigned k = 0; k < count; k++)
        gt_tensor_release(base[k]);
    return err;
}

gt_err gt__batch_emit_random(gt_client *client, const gt_instruction *prototype, const gt_slot *tail,
                             gt_tensor **out)
{
    level_state state = levels[depth - 1];
    if (state.randomness == GT_RANDOMNESS_ERROR)
        return gt__fail(GT_ERR_VALUE,
                        "vmap: called random operation while in randomness error mode. Please either use the "
                        "'same' or 'different' randomness flags on vmap or perform the randomness operation "
                        "out of vmap");
    gt_instruction wider = *prototype;
    gt_slot copy[2];
    memcpy(copy, tail, sizeof copy);
    bool different = state.randomness == GT_RANDOMNESS_DIFFERENT;
    if (different) {
        if (wider.rank == GT_MAX_RANK)
            return gt__fail(GT_ERR_VALUE, "vmap: a tensor has at most %d dimensions, those of vmap included",
                            GT_MAX_RANK);
        memmove(copy[0].i64 + 1, tail[0].i64, wider.rank * sizeof(int64_t));
        copy[0].i64[0] = state.size;
        wider.rank++;
    }
    gt_tensor *drawn = NULL;
    depth--; /* the levels around this one decide next */
    gt_err err = gt__emit(client, wider, copy, NULL, 0, &drawn);
    depth++;
    if (err == GT_OK && different) {
        err = hide(drawn, state.level, out);
        gt_tensor_release(drawn);
    } else if (err == GT_OK)
        *out = drawn;
    return err;
}

/* ---- backward passes --------------------------------------------------------------------------------------- */

bool gt__batch_any(gt_tensor *const *tensors, unsigned count)
{
    for (unsigned k = 0; k < count; k++)
        if (tensors[k] && tensors[k]->batch)
            return true;
    return false;
}

/* The gradient that a pass starts with, as the output's node knows it. */
static gt_err start_gradient(gt_tensor *output, gt_tensor *gradient, gt_tensor *stripped, gt_tensor **out)
{
    if (gradient)
        return gt__batch_strip(gradient, output, out);
    if (output->meta.numel != 1)
        return gt__fail(GT_ERR_VALUE, "grad can be implicitly created only for scalar outputs");
    return gt_full(output->client, (gt_dtype)stripped->meta.dtype, stripped->meta.rank, stripped->meta.shape, 1.0,
                   out);
}

static void release_each(gt_tensor **tensors, unsigned count)
{
    for (unsigned k = 0; k < count; k++)
        gt_tensor_release(tensors[k]);
}

gt_err gt__batch_autograd(gt_tensor *const *outputs, gt_tensor *const *gradients, unsigned count,
                          gt_tensor *const *inputs, unsigned input_count, gt_tensor **results,
                          gt_backward_options options)
{
    if (!results)
        return gt__fail(GT_ERR_VALUE,
                        "backward() called inside a functorch transform. This is not supported, please use "
                        "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
                        "transforms.");
    gt_tensor **bare = calloc(2 * (size_t)count + input_count + 1, sizeof *bare);
    if (!bare)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_tensor **starts = bare + count, **wanted = starts + count;
    gt_err err = GT_OK;
    for (unsigned k = 0; k < count && err == GT_OK; k++) {
        err = gt__batch_strip(outputs[k], outputs[k], &bare[k]);
        if (err == GT_OK)
            err = start_gradient(outputs[k], gradients ? gradients[k] : NULL, bare[k], &starts[k]);
    }
    for (unsigned k = 0; k < input_count && err == GT_OK; k++)
        err = gt__batch_strip(inputs[k], inputs[k], &wanted[k]);
    if (err == GT_OK)
        err = gt__autograd_run(bare, starts, count, wanted, input_count, results, options);
    for (unsigned k = 0; k < input_count && err == GT_OK; k++) {
        gt_tensor *found = results[k];
        results[k] = NULL;
        if (found)
            err = gt__batch_restore(found, inputs[k], &results[k]);
        gt_tensor_release(found);
    }
    if (err != GT_OK)
        for (unsigned k = 0; k < input_count; k++) {
            gt_tensor_release(results[k]);
            results[k] = NULL;
        }
    release_each(bare, 2 * count + input_count);
    free(bare);
    return err;
}
