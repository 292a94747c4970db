/*
 * reference.c: the engine that is obviously right. Every other engine is tested against it
 * (tests/c/test_engine.c).
 *
 * One element at a time, one thread, no fast paths: numbers are read as double or int64_t, computed so, and
 * rounded once on the way out. This file holds the vtable, the dispatch by form and the access to elements; read
 * engines/reference/compute.c and engines/reference/move.c, and those beside them, for what each op means.
 */
#include "engines/reference/reference.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/convert.h"
#include "engines/host_memory.h"

/* ---- elements ---------------------------------------------------------------------------------------------- */

void gt__reference_index(const gt_meta *meta, int64_t flat, int64_t *index)
{
    for (int axis = meta->rank - 1; axis >= 0; axis--) {
        index[axis] = flat % meta->shape[axis];
        flat /= meta->shape[axis];
    }
}

int64_t gt__reference_flat(const gt_meta *meta, const int64_t *index)
{
    int64_t flat = 0;
    for (int axis = 0; axis < meta->rank; axis++)
        flat = flat * meta->shape[axis] + index[axis];
    return flat;
}

/* Every element of every reference result passes here: no more divisions than are needed, and short ones. */
void *gt__reference_at(const gt_view *view, int64_t flat)
{
    const gt_meta *meta = &view->meta;
    int64_t offset = 0;
    for (int axis = meta->rank - 1; axis >= 0 && flat; axis--) {
        int64_t rest = flat, size = meta->shape[axis];
        bool is_short = !((rest | size) >> 32);
        flat = !axis || rest < size ? 0 : is_short ? (uint32_t)rest / (uint32_t)size : rest / size;
        offset += (rest - flat * size) * view->stride[axis];
    }
    return (char *)view->data + offset * (int64_t)gt__dtype_size(meta->dtype);
}

double gt__reference_real(const gt_view *view, int64_t flat)
{
    const void *at = gt__reference_at(view, flat);
    switch ((gt_dtype)view->meta.dtype) {
#define CASE(name, dtype, type)                                                                                   \
    case dtype:                                                                                                   \
        return (double)gt__load_##name(*(const type *)at);
        GT_STORED_TYPES(CASE)
#undef CASE
    case GT_COMPLEX64:
    case GT_COMPLEX128:
        return creal(gt__reference_complex(view, flat));
    case GT_DTYPE_COUNT:
        break;
    }
    return 0;
}

int64_t gt__reference_integer(const gt_view *view, int64_t flat)
{
    const void *at = gt__reference_at(view, flat);
    switch ((gt_dtype)view->meta.dtype) {
#define CASE(name, dtype, type)                                                                                   \
    case dtype:                                                                                                   \
        return GT_STORE_FROM(int64, gt__load_##name(*(const type *)at));
        GT_STORED_TYPES(CASE)
#undef CASE
    case GT_COMPLEX64:
    case GT_COMPLEX128:
        return gt__double_to_int64(creal(gt__reference_complex(view, flat)));
    case GT_DTYPE_COUNT:
        break;
    }
    return 0;
}

void gt__reference_put_real(const gt_view *view, int64_t flat, double value)
{
    void *at = gt__reference_at(view, flat);
    switch ((gt_dtype)view->meta.dtype) {
#define CASE(name, dtype, type)                                                                                   \
    case dtype:                                                                                                   \
        *(type *)at = gt__store_##name##_from_double(value);                                                      \
        break;
        GT_STORED_TYPES(CASE)
#undef CASE
    case GT_COMPLEX64:
    case GT_COMPLEX128:
        gt__reference_put_complex(view, flat, value);
        break;
    case GT_DTYPE_COUNT:
        break;
    }
}

void gt__reference_put_integer(const gt_view *view, int64_t flat, int64_t value)
{
    void *at = gt__reference_at(view, flat);
    switch ((gt_dtype)view->meta.dtype) {
#define CASE(name, dtype, type)                                                                                   \
    case dtype:                                                                                                   \
        *(type *)at = gt__store_##name##_from_integer(value);                                                     \
        break;
        GT_STORED_TYPES(CASE)
#undef CASE
    case GT_COMPLEX64:
    case GT_COMPLEX128:
        gt__reference_put_complex(view, flat, (double)value);
        break;
    case GT_DTYPE_COUNT:
        break;
    }
}

double _Complex gt__reference_complex(const gt_view *view, int64_t flat)
{
    const void *at = gt__reference_at(view, flat);
    return view->meta.dtype == GT_COMPLEX64    ? (double _Complex) * (const float _Complex *)at
           : view->meta.dtype == GT_COMPLEX128 ? *(const double _Complex *)at
                                               : gt__reference_real(view, flat);
}

void gt__reference_put_complex(const gt_view *view, int64_t flat, double _Complex value)
{
    void *at = gt__reference_at(view, flat);
    if (view->meta.dtype == GT_COMPLEX64)
        *(float _Complex *)at = (float _Complex)value;
    else if (view->meta.dtype == GT_COMPLEX128)
        *(double _Complex *)at = value;
    else if (view->meta.dtype == GT_BOOL)
        gt__reference_put_integer(view, flat, creal(value) != 0 || cimag(value) != 0);
    else
        gt__reference_put_real(view, flat, creal(value));
}

void gt__reference_move(const gt_view *to, int64_t i, const gt_view *from, int64_t j)
{
    if (gt__dtype_is_complex(from->meta.dtype)) {
        gt__reference_put_complex(to, i, gt__reference_complex(from, j));
        return;
    }
    if (gt__dtype_is_float(from->meta.dtype))
        gt__reference_put_real(to, i, gt__reference_real(from, j));
    else
        gt__reference_put_integer(to, i, gt__reference_integer(from, j));
}

bool gt__reference_less(const gt_view *from, int64_t i, int64_t j)
{
    if (!gt__dtype_is_float(from->meta.dtype))
        return gt__reference_integer(from, i) < gt__reference_integer(from, j);
    double x = gt__reference_real(from, i), y = gt__reference_real(from, j);
    return isnan(y) ? !isnan(x) : x < y;
}

/* ---- views ------------------------------------------------------------------------------------------------- */

gt_view gt__reference_broadcast(const gt_view *view, const gt_meta *meta)
{
    gt_view wide = {.data = view->data, .meta = *meta};
    int missing = meta->rank - view->meta.rank;
    wide.meta.dtype = view->meta.dtype;
    for (int axis = missing; axis < meta->rank; axis++)
        wide.stride[axis] = view->meta.shape[axis - missing] == 1 ? 0 : view->stride[axis - missing];
    return wide;
}

gt_view gt__reference_axes_last(const gt_view *view, uint64_t mask, int64_t *moved_numel)
{
    gt_view turned = *view;
    int to = 0;
    *moved_numel = 1;
    for (int moved = 0; moved < 2; moved++) {
        for (int axis = 0; axis < view->meta.rank; axis++) {
            if ((int)(mask >> axis & 1) != moved)
                continue;
            turned.meta.shape[to] = view->meta.shape[axis];
            turned.stride[to++] = view->stride[axis];
            if (moved)
                *moved_numel *= view->meta.shape[axis];
        }
    }
    return turned;
}

/* ---- the vtable -------------------------------------------------------------------------------------------- */

static gt_err reference_open(const gt_engine_options *options, gt_engine **engine)
{
    (void)options;
    gt_engine *made = malloc(sizeof *made);
    if (!made)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    *made = (gt_engine){.ops = &gt__engine_reference};
    *engine = made;
    return GT_OK;
}

static void reference_close(gt_engine *engine)
{
    free(engine);
}

static gt_err reference_alloc(gt_engine *engine, size_t bytes, void **memory)
{
    (void)engine;
    size_t rounded = (bytes + 63) / 64 * 64;
    *memory = rounded < bytes ? NULL : aligned_alloc(64, rounded ? rounded : 64);
    return *memory ? GT_OK : gt__fail(GT_ERR_MEMORY, "the system has no memory for it");
}

static void reference_release(gt_engine *engine, void *memory, size_t bytes)
{
    (void)engine;
    (void)bytes;
    free(memory);
}

static gt_err reference_copy_bytes(gt_engine *engine, void *to, const void *from, size_t bytes, bool timed,
                                   gt_token *token)
{
    (void)engine;
    (void)timed;
    (void)token;
    if (bytes)
        memcpy(to, from, bytes);
    return GT_OK;
}

static gt_err reference_read(gt_engine *engine, const void *from, void *host, size_t bytes, bool timed,
                             gt_token *token)
{
    return reference_copy_bytes(engine, host, from, bytes, timed, token);
}

static gt_err reference_run(gt_engine *engine, const gt_call *call, gt_token *token)
{
    static gt_err (*const run[])(const gt_call *) = {
        [GT_FORM_UNARY] = gt__reference_unary,
        [GT_FORM_BINARY] = gt__reference_binary,
        [GT_FORM_TERNARY] = gt__reference_ternary,
        [GT_FORM_REDUCE] = gt__reference_reduce,
        [GT_FORM_ARGREDUCE] = gt__reference_argreduce,
        [GT_FORM_SCAN] = gt__reference_scan,
        [GT_FORM_SOFTMAX] = gt__reference_softmax,
        [GT_FORM_SOFTMAX_BACKWARD] = gt__reference_softmax_backward,
        [GT_FORM_MATMUL] = gt__reference_matmul,
        [GT_FORM_LINEAR] = gt__reference_linear,
        [GT_FORM_ATTENTION] = gt__reference_attention,
        [GT_FORM_SPARSE] = gt__reference_sparse,
        [GT_FORM_FFT] = gt__reference_fft,
        [GT_FORM_LAYER_NORM] = gt__reference_layer_norm,
        [GT_FORM_MOMENTS] = gt__reference_moments,
        [GT_FORM_BATCH_NORM] = gt__reference_batch_norm,
        [GT_FORM_CONV] = gt__reference_conv,
        [GT_FORM_CONV_WEIGHT] = gt__reference_conv,
        [GT_FORM_MAX_POOL] = gt__reference_max_pool,
        [GT_FORM_MAX_INDEX] = gt__reference_max_pool,
        [GT_FORM_POOL] = gt__reference_average,
        [GT_FORM_IM2COL] = gt__reference_im2col,
        [GT_FORM_RESAMPLE] = gt__reference_resample,
        [GT_FORM_MATRIX] = gt__reference_matrix,
        [GT_FORM_SOLVE] = gt__reference_solve,
        [GT_FORM_RESHAPE] = gt__reference_copy,
        [GT_FORM_CAST] = gt__reference_copy,
        [GT_FORM_COPY] = gt__reference_copy,
        [GT_FORM_CAT] = gt__reference_cat,
        [GT_FORM_TRIANGLE] = gt__reference_triangle,
        [GT_FORM_TAKE] = gt__reference_take,
        [GT_FORM_GATHER] = gt__reference_gather,
        [GT_FORM_SCATTER] = gt__reference_scatter,
        [GT_FORM_ASSIGN] = gt__reference_assign,
        [GT_FORM_WRAP_INDEX] = gt__reference_wrap_index,
        [GT_FORM_MASK_INDEX] = gt__reference_mask_index,
        [GT_FORM_ARGSORT] = gt__reference_sort,
        [GT_FORM_TOPK] = gt__reference_sort,
        [GT_FORM_SAMPLE] = gt__reference_sample,
        [GT_FORM_SEARCH] = gt__reference_search,
        [GT_FORM_FULL] = gt__reference_full,
        [GT_FORM_ARANGE] = gt__reference_arange,
        [GT_FORM_EYE] = gt__reference_eye,
        [GT_FORM_RANDOM] = gt__reference_random,
        [GT_FORM_CONTROL] = NULL,
    };
    (void)engine;
    (void)token;
    gt_host_call room;
    const gt_op_row *row = &gt__op_table[call->op];
    call = gt__call_on_host(call, &room);
    gt_err (*function)(const gt_call *) = gt__reference_complex_form(call);
    if (!function)
        function = run[row->form];
    return function ? function(call)
                    : gt__fail(GT_ERR_UNSUPPORTED, "the reference engine does not run %s", row->name);
}

static uint64_t reference_memory_limit(gt_engine *engine, unsigned sharers)
{
    (void)engine;
    return gt__memory_limit(sharers);
}

const gt_engine_ops gt__engine_reference = {
    .name = "reference",
    .host_memory = true,
    .open = reference_open,
    .close = reference_close,
    .memory_limit = reference_memory_limit,
    .alloc = reference_alloc,
    .release = reference_release,
    .write = reference_copy_bytes,
    .read = reference_read,
    .run = reference_run,
};
