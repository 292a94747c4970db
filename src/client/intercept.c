/* intercept.c: autocast, the default dtype, synchronous emission and anomaly detection. See intercept.h. */
#include "client/intercept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/autograd.h"
#include "client/batch.h"
#include "client/signals.h"
#include "core/settings.h"

static _Thread_local gt_autocast autocast = {.dtype = {GT_BFLOAT16, GT_FLOAT16}};
static _Thread_local bool emitting; /* inside an op that will be waited for */
static _Atomic bool synchronous;
gt_dtype gt__default_dtype = GT_FLOAT32;
_Atomic bool gt__fast_products;
_Atomic bool gt__exact_convolutions;
_Thread_local bool gt__anomaly_wanted;

/* ---- modes ------------------------------------------------------------------------------------------------- */

static void count_mode(bool before, bool after)
{
    if (before != after)
        gt__modes_count(after - before);
}

gt_autocast gt__autocast_get(void)
{
    return autocast;
}

gt_autocast gt__autocast_set(gt_autocast state)
{
    gt_autocast before = autocast;
    autocast = state;
    for (int device = 0; device < GT_AUTOCAST_DEVICES; device++)
        count_mode(before.on[device], state.on[device]);
    return before;
}

gt_autocast gt__autocast_pause(void)
{
    gt_autocast off = autocast;
    memset(off.on, 0, sizeof off.on);
    return gt__autocast_set(off);
}

gt_err gt__default_dtype_set(gt_dtype dtype)
{
    if (!gt__dtype_is_float(dtype))
        return gt__fail(GT_ERR_TYPE, "only floating-point types are supported as the default type");
    count_mode(gt__default_dtype != GT_FLOAT32, dtype != GT_FLOAT32);
    gt__default_dtype = dtype;
    return GT_OK;
}

void gt__synchronous_set(bool on)
{
    bool before = atomic_exchange(&synchronous, on);
    count_mode(before, on);
}

bool gt__synchronous(void)
{
    return atomic_load_explicit(&synchronous, memory_order_relaxed);
}

/* Recorded ops have their site only if they pass through gt__emit; the fast path drops it. */
bool gt__anomaly_set(bool on)
{
    bool before = gt__anomaly_wanted;
    gt__anomaly_wanted = on;
    count_mode(before, on);
    return before;
}

/* ---- autocast ---------------------------------------------------------------------------------------------- */

typedef enum policy { KEEP, LOWER, WIDEN, PROMOTE } policy;

/* PyTorch's lists, for the rows that are ops of PyTorch by themselves. Composed functions: python/gt/amp/policies.py. */
static policy policy_of(gt_opcode op, gt_autocast_device device)
{
    switch (op) {
    case GT_OP_matmul:
    case GT_OP_linear:
    case GT_OP_conv:
    case GT_OP_conv_input:
        return LOWER;
    case GT_OP_prod:
    case GT_OP_inverse:
    case GT_OP_pinv:
    case GT_OP_cholesky:
    case GT_OP_qr:
    case GT_OP_svd:
    case GT_OP_eigh:
    case GT_OP_solve:
    case GT_OP_solve_triangular:
        return WIDEN;
    case GT_OP_cat:
        return PROMOTE;
    default:
        break;
    }
    if (device == GT_AUTOCAST_CPU)
        return KEEP;
    switch (op) {
    case GT_OP_acos:
    case GT_OP_asin:
    case GT_OP_cosh:
    case GT_OP_exp:
    case GT_OP_expm1:
    case GT_OP_log:
    case GT_OP_log10:
    case GT_OP_log2:
    case GT_OP_log1p:
    case GT_OP_reciprocal:
    case GT_OP_rsqrt:
    case GT_OP_sinh:
    case GT_OP_tan:
    case GT_OP_pow:
    case GT_OP_softplus:
    case GT_OP_layer_norm:
    case GT_OP_logsumexp:
    case GT_OP_norm:
    case GT_OP_softmax:
    case GT_OP_log_softmax:
    case GT_OP_cumprod:
    case GT_OP_cumsum:
    case GT_OP_sum:
        return WIDEN;
    case GT_OP_atan2:
    case GT_OP_scatter_add:
        return PROMOTE;
    default:
        return KEEP;
    }
}

/* float64 and integers are never cast. */
static bool eligible(const gt_tensor *tensor)
{
    return tensor && gt__dtype_is_float((gt_dtype)tensor->meta.dtype) && tensor->meta.dtype != GT_FLOAT64;
}

/* The dtype that the floats of this op are cast to; -1: they stay. */
static int autocast_target(gt_opcode op, gt_tensor *const *in, unsigned count)
{
    for (gt_autocast_device device = 0; device < GT_AUTOCAST_DEVICES; device++) {
        policy rule = autocast.on[device] ? policy_of(op, device) : KEEP;
        if (rule == LOWER)
            return autocast.dtype[device];
        if (rule == WIDEN)
            return GT_FLOAT32;
        int widest = -1;
        for (unsigned k = 0; rule == PROMOTE && k < count; k++)
            if (eligible(in[k]))
                widest = widest < 0 || widest == in[k]->meta.dtype ? in[k]->meta.dtype : GT_FLOAT32;
        if (widest >= 0)
            return widest;
    }
    return -1;
}

/* ---- the default dtype ------------------------------------------------------------------------------------- */

/* The result is float32 because integers became floats: with another default dtype they become that. */
static bool floats_from_integers(const gt_instruction *prototype, const gt_slot *tail, gt_tensor *const *in,
                                 unsigned count)
{
    const gt_meta *metas[GT_MAX_CAT];
    gt_meta meta;
    gt_dtype compute;
    bool any = false;
    if (prototype->op == GT_OP_cast)
        return false;
    for (unsigned k = 0; k < count; k++) {
        if (in[k] && gt__dtype_is_float((gt_dtype)in[k]->meta.dtype))
            return false;
        any |= in[k] != NULL;
        metas[k] = in[k] ? &in[k]->meta : NULL;
    }
    return any && gt__op_infer(prototype, tail, metas, &meta, &compute) == GT_OK &&
           (meta.dtype == GT_FLOAT32 || compute == GT_FLOAT32);
}

/* ---- emission ---------------------------------------------------------------------------------------------- */

/* Emit the op with its floating operands (or all but a condition) cast to the dtype. */
static gt_err emit_cast(gt_client *client, const gt_instruction *prototype, gt_slot *tail, gt_tensor *const *in,
                        unsigned count, gt_dtype dtype, bool floats, gt_tensor **out)
{
    gt_tensor *cast[GT_MAX_CAT];
    gt_err err = GT_OK;
    unsigned made = 0;
    for (; made < count && err == GT_OK; made++) {
        bool condition = prototype->op == GT_OP_where && made == 0;
        bool wanted = in[made] && !condition && (!floats || eligible(in[made]));
        if (wanted && in[made]->meta.dtype != dtype)
            err = gt_cast(in[made], dtype, &cast[made]);
        else
            cast[made] = in[made] ? gt_tensor_retain(in[made]) : NULL;
    }
    if (err == GT_OK)
        err = gt__emit(client, *prototype, tail, cast, count, out);
    else
        made--; /* the last cast failed */
    for (unsigned k = 0; k < made; k++)
        gt_tensor_release(cast[k]);
    return err;
}

/* Wait until the result exists, or raise what went wrong. Only a poisoned result fails; one element or none is fetched. */
static gt_err await_result(gt_tensor *result)
{
    uint8_t element[16];
    if (result->meta.numel == 1)
        return gt_fetch(result, element, gt__meta_bytes(&result->meta));
    int64_t start[GT_MAX_RANK] = {0}, step[GT_MAX_RANK], none[GT_MAX_RANK] = {0};
    for (unsigned axis = 0; axis < GT_MAX_RANK; axis++)
        step[axis] = 1;
    gt_tensor *nothing;
    bool recording = gt__grad_enable(false);
    gt_err err = gt_slice(result, start, step, none, &nothing);
    gt__grad_enable(recording);
    GT_TRY(err);
    err = gt_fetch(nothing, element, 0);
    gt_tensor_release(nothing);
    return err;
}

static gt_err emit_and_wait(gt_client *client, const gt_instruction *prototype, gt_slot *tail,
                            gt_tensor *const *in, unsigned count, gt_tensor **out)
{
    gt_instruction copy = *prototype;
    copy.flags &= (uint8_t)~GT_FLAG_CONSUMES; /* other threads may use the operand during the wait */
    emitting = true;
    gt_err err = gt__emit(client, copy, tail, in, count, out);
    if (err == GT_OK && (err = await_result(*out)) != GT_OK) {
        gt_tensor_release(*out);
        *out = NULL;
    }
    emitting = false;
    return err;
}

static bool draws(gt_opcode op)
{
    return gt__op_table[op].form == GT_FORM_RANDOM || gt__op_table[op].form == GT_FORM_SAMPLE;
}

/* Random numbers inside a vmap, of operands that are the same for all samples. */
static gt_err emit_drawing(gt_client *client, const gt_instruction *prototype, gt_slot *tail, gt_tensor *const *in,
                           unsigned count, gt_tensor **out)
{
    if (!count)
        return gt__batch_emit_random(client, prototype, tail, out);
    gt_tensor *wide;
    GT_TRY(gt__batch_expand_all(in[0], &wide));
    gt_err err = gt__batch_emit(client, prototype, tail, &wide, count, out);
    gt_tensor_release(wide);
    return err;
}

bool gt__intercept(gt_client *client, const gt_instruction *prototype, gt_slot *tail, gt_tensor *const *in,
                   unsigned count, gt_tensor **out, gt_err *err)
{
    gt_opcode op = (gt_opcode)prototype->op;
    if (autocast.on[GT_AUTOCAST_CPU] || autocast.on[GT_AUTOCAST_CUDA]) {
        int target = autocast_target(op, in, count);
        for (unsigned k = 0; target >= 0 && k < count; k++)
            if (eligible(in[k]) && in[k]->meta.dtype != target) {
                *err = emit_cast(client, prototype, tail, in, count, (gt_dtype)target, true, out);
                return true;
            }
    }
    if (gt__default_dtype != GT_FLOAT32 && floats_from_integers(prototype, tail, in, count)) {
        *err = emit_cast(client, prototype, tail, in, count, gt__default_dtype, false, out);
        return true;
    }
    for (unsigned k = 0; k < count; k++)
        if (in[k] && in[k]->batch) {
            *err = gt__batch_emit(client, prototype, tail, in, count, out);
            return true;
        }
    if (gt__batch_active() && draws(op)) {
        *err = emit_drawing(client, prototype, tail, in, count, out);
        return true;
    }
    if (gt__synchronous() && !emitting && op != GT_OP_upload) {
        *err = emit_and_wait(client, prototype, tail, in, count, out);
        return true;
    }
    return false;
}

/* ---- anomalies --------------------------------------------------------------------------------------------- */

static gt_err has_nan(gt_tensor *tensor, bool *found)
{
    gt_tensor *nan = NULL, *any = NULL;
    uint8_t answer = 0;
    gt_err err = gt_isnan(tensor, &nan);
    if (err == GT_OK)
        err = gt_any(nan, 0, false, &any);
    if (err == GT_OK)
        err = gt_fetch(any, &answer, sizeof answer);
    gt_tensor_release(nan);
    gt_tensor_release(any);
    *found = answer;
    return err;
}

gt_err gt__anomaly_check(const gt_node *node, gt_tensor *const *results)
{
    unsigned number = 0; /* PyTorch counts the operands that may have a gradient */
    for (unsigned k = 0; k < node->count; k++) {
        bool found = false;
        if (results[k])
            GT_TRY(has_nan(results[k], &found));
        if (found) {
            char name[64], place[512];
            bool known =
                node->ins.site && gt__site_hooks.name && gt__site_hooks.name(node->ins.site, place, sizeof place);
            return gt__fail(GT_ERR_VALUE, "Function '%s' returned nan values in its %uth output.%s%s%s",
                            gt__node_name(node, name, sizeof name), number,
                            known ? " The forward operation was issued at " : "", known ? place : "",
                            known ? "." : "");
        }
        number++;
    }
    return GT_OK;
}
