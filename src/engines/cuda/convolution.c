/*
 * convolution.c: convolutions by cuDNN, and the choice how.
 *
 * Tensors have their channels before the spatial axes; the tensor cores want them last. There are several ways to compute a
 * convolution: as the tensors are; with operands that are copied to channels last, and a result that is copied back; as a matrix product where
 * the kernel has one element; and by the generated kernel. The way of a shape is chosen once: for large ones the fastest is measured, for
 * others the first that works is taken. Where there is no cuDNN all of this declines, and the generated kernels do the work.
 */
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/window.h"
#include "engines/cuda/cuda.h"
#include "engines/cuda/dnn.h"

enum {
    PLANS = 3, /* of a layout, that are measured */
    TIMED_RUNS = 2,
    MOST_SHAPES = 2048,
    ALIGNMENT = 16, /* bytes, that cuDNN is promised */
    FRUGAL = 3,     /* levels of frugality */
};

static const double worth_measuring = 1.5e6; /* multiplications and additions on each multiprocessor */
static const size_t workspace_limit[FRUGAL] = {(size_t)1 << 30, (size_t)32 << 20, 0};
static const uint64_t choosing_ns = 2000000000u; /* for one shape: no more plans are tried after this */

typedef enum conv_way {
    GENERATED, /* by the next in line: this file declines */
    AS_IT_IS,
    CHANNELS_LAST,
    PRODUCT,
} conv_way;

/* A way, and what it needs. */
typedef struct candidate {
    conv_way way;
    gt_cuda_dnn_plan plan;
} candidate;

typedef struct chosen {
    gt_cuda_conv key;
    bool used;
    bool recorded; /* in a CUDA graph, which may have kernels that belong to the plan */
    candidate how;
    gt_cuda_dnn_graph graph; /* that the plan is for */
} chosen;

struct gt_cuda_convolutions {
    const gt_cuda_dnn *dnn; /* NULL: not here */
    cudnnHandle_t handle;
    chosen *table; /* open addressing */
    size_t capacity, count;
    chosen *retired; /* recorded ones that the table has no room for */
    size_t retired_count;
    uint64_t declined; /* calls that cuDNN could not run */
};

/* A call on its way through this file. */
typedef struct running {
    const gt_call *call;
    gt_cuda_conv conv;
    const gt_view *view[GT_CUDA_CONV_ROLES];
    int result; /* the role of the call's output */
} running;

/* ---- what is convolved ------------------------------------------------------------------------------------------ */

/* A shape with at least two spatial axes; the first of them is new where there is one only. */
static void set_shape(int64_t *to, const gt_meta *meta, int spatial)
{
    int missing = spatial < 2 ? 1 : 0;
    to[0] = meta->shape[0];
    to[1] = meta->shape[1];
    to[2] = 1;
    for (int axis = 0; axis < spatial; axis++)
        to[2 + missing + axis] = meta->shape[2 + axis];
}

/* Padding behind the end, so that cuDNN computes the same number of windows; false: there is none. */
static bool padding_behind(int64_t x, int64_t y, int64_t kernel, int64_t stride, int64_t dilation, int64_t before,
                           int64_t *after)
{
    int64_t span = (kernel - 1) * dilation + 1, needed = (y - 1) * stride + span - x - before;
    *after = before; /* symmetric padding has the most engines */
    if (x + 2 * before >= span && (x + 2 * before - span) / stride + 1 == y)
        return true;
    *after = needed > 0 ? needed : 0;
    return (x + before + *after - span) / stride + 1 == y;
}

static bool describe(running *r, const gt_call *call)
{
    static const int roles[][GT_CUDA_CONV_ROLES] = {
        /* of operand 0, operand 1 and the result */
        [GT_CUDA_CONV_FORWARD] = {GT_CUDA_CONV_X, GT_CUDA_CONV_W, GT_CUDA_CONV_Y},
        [GT_CUDA_CONV_INPUT] = {GT_CUDA_CONV_Y, GT_CUDA_CONV_W, GT_CUDA_CONV_X},
        [GT_CUDA_CONV_WEIGHT] = {GT_CUDA_CONV_Y, GT_CUDA_CONV_X, GT_CUDA_CONV_W},
    };
    gt_cuda_conv *c = &r->conv;
    gt_window window = gt__window_read(call->tail);
    int spatial = call->ins->rank, missing = spatial < 2 ? 1 : 0;
    memset(r, 0, sizeof *r);
    r->call = call;
    c->kind = call->op == GT_OP_conv         ? GT_CUDA_CONV_FORWARD
              : call->op == GT_OP_conv_input ? GT_CUDA_CONV_INPUT
                                             : GT_CUDA_CONV_WEIGHT;
    c->dtype = call->out->meta.dtype;
    c->exact = c->dtype == GT_FLOAT32 && call->ins->imm[0].i != GT_PRODUCT_FAST;
    c->spatial = (uint8_t)(spatial + missing);
    r->result = roles[c->kind][2];
    for (int k = 0; k < GT_CUDA_CONV_ROLES; k++) {
        int role = roles[c->kind][k];
        r->view[role] = k < 2 ? call->in[k] : call->out;
        if (r->view[role]->meta.dtype != c->dtype || r->view[role]->meta.numel == 0 ||
            r->view[role]->meta.numel >= INT32_MAX)
            return false;
        set_shape(c->shape[role], &r->view[role]->meta, spatial);
    }
    c->stride[0] = c->dilation[0] = 1; /* of the new axis */
    for (int axis = 0; axis < spatial; axis++) {
        int at = missing + axis;
        c->stride[at] = window.stride[axis];
        c->dilation[at] = window.dilation[axis];
        c->before[at] = window.padding[axis];
        if (!padding_behind(c->shape[GT_CUDA_CONV_X][2 + at], c->shape[GT_CUDA_CONV_Y][2 + at],
                            c->shape[GT_CUDA_CONV_W][2 + at], c->stride[at], c->dilation[at], c->before[at],
                            &c->after[at]))
            return false;
    }
    return true;
}

static int64_t groups_of(const gt_cuda_conv *c)
{
    return c->shape[GT_CUDA_CONV_X][1] / c->shape[GT_CUDA_CONV_W][1];
}

static double operations(const gt_cuda_conv *c)
{
    double count = 2 * (double)c->shape[GT_CUDA_CONV_Y][0];
    for (int axis = 1; axis < c->spatial + 2; axis++)
        count *= (double)c->shape[GT_CUDA_CONV_Y][axis] * (double)c->shape[GT_CUDA_CONV_W][axis];
    return count;
}

/* One multiplication by a matrix for each position? */
static bool is_product(const gt_cuda_conv *c)
{
    bool one = c->kind != GT_CUDA_CONV_WEIGHT && groups_of(c) == 1;
    for (int axis = 0; axis < c->spatial; axis++)
        one = one && c->shape[GT_CUDA_CONV_W][2 + axis] == 1 && c->stride[axis] == 1 && c->before[axis] == 0 &&
              c->after[axis] == 0;
    return one;
}

/* ---- copies -------------------------------------------------------------------------------------------------------- */

static gt_err copy(gt_cuda *cuda, const gt_view *out, const gt_view *in)
{
    gt_instruction ins = {.op = GT_OP_copy, .dtype = out->meta.dtype};
    gt_call call = {
        .op = GT_OP_copy, .compute = (gt_dtype)out->meta.dtype, .ins = &ins, .operands = 1, .in = &in, .out = out};
    return gt__cuda_run_kernels(cuda, &call, GT_CUDA_NO_STEP);
}

/* The same elements with axis 1 last, or with the last axis as axis 1. */
static gt_view turn(const gt_view *view, bool to_last)
{
    gt_view turned = *view;
    int last = view->meta.rank - 1;
    for (int axis = 1; axis <= last; axis++) {
        int from = to_last ? (axis == last ? 1 : axis + 1) : (axis == 1 ? last : axis - 1);
        turned.meta.shape[axis] = view->meta.shape[from];
        turned.stride[axis] = view->stride[from];
    }
    turned.contiguous = false;
    return turned;
}

static void make_dense(gt_view *view)
{
    int64_t stride = 1;
    for (int axis = view->meta.rank - 1; axis >= 0; axis--) {
        view->stride[axis] = stride;
        stride *= view->meta.shape[axis];
    }
    view->contiguous = true;
}

/* Row-major and where cuDNN may read it? Strides along axes of one element do not count. */
static bool is_dense(const gt_view *view)
{
    int64_t stride = 1;
    if ((uintptr_t)view->data % ALIGNMENT)
        return false;
    for (int axis = view->meta.rank - 1; axis >= 0; axis--) {
        if (view->meta.shape[axis] != 1 && view->stride[axis] != stride)
            return false;
        stride *= view->meta.shape[axis];
    }
    return true;
}

/* ---- ways ---------------------------------------------------------------------------------------------------------------- */

/* Scratch memory of one run. */
typedef struct scratches {
    CUdeviceptr address[GT_CUDA_CONV_ROLES + 1];
    unsigned count;
} scratches;

static gt_err scratch_take(gt_cuda *cuda, scratches *s, size_t bytes, CUdeviceptr *address)
{
    GT_TRY(gt__cuda_scratch_take(cuda, bytes, address));
    s->address[s->count++] = *address;
    return GT_OK;
}

/* The address of an operand in the wanted order of axes, or of a place for the result. */
static gt_err place(gt_cuda *cuda, const running *r, int role, bool last, scratches *s, CUdeviceptr *address)
{
    gt_view view = last ? turn(r->view[role], true) : *r->view[role];
    *address = (CUdeviceptr)(uintptr_t)view.data;
    if (is_dense(&view))
        return GT_OK;
    GT_TRY(scratch_take(cuda, s, gt__meta_bytes(&view.meta), address));
    if (role == r->result)
        return GT_OK;
    gt_view to = view;
    to.data = (void *)(uintptr_t)*address;
    make_dense(&to);
    return copy(cuda, &to, &view);
}

static gt_err run_plan(gt_cuda *cuda, const running *r, const candidate *how, scratches *s)
{
    const gt_cuda_convolutions *c = cuda->convolutions;
    CUdeviceptr address[GT_CUDA_CONV_ROLES], workspace = 0;
    bool last = how->way == CHANNELS_LAST;
    for (int role = 0; role < GT_CUDA_CONV_ROLES; role++)
        GT_TRY(place(cuda, r, role, last, s, &address[role]));
    if (how->plan.workspace)
        GT_TRY(scratch_take(cuda, s, how->plan.workspace, &workspace));
    int status = gt__cuda_dnn_run(c->dnn, c->handle, &how->plan, address, workspace);
    if (status != CUDNN_STATUS_SUCCESS)
        return gt__cuda_queue_check(cuda) ? gt__fail(GT_ERR_UNSUPPORTED, "cuDNN failed with status %d", status)
                                          : gt__fail(GT_ERR_INTERNAL, "%s", cuda->broken_text);
    cuda->launches++;
    const gt_view *out = r->view[r->result];
    if (address[r->result] == (CUdeviceptr)(uintptr_t)out->data)
        return GT_OK;
    gt_view made = last ? turn(out, true) : *out;
    make_dense(&made);
    made.data = (void *)(uintptr_t)address[r->result];
    gt_view from = last ? turn(&made, false) : made;
    return copy(cuda, out, &from);
}

/* An operand of the product: images as matrices of channels and positions. */
static gt_err place_matrices(gt_cuda *cuda, const running *r, int role, scratches *s, gt_view *view)
{
    CUdeviceptr address;
    GT_TRY(place(cuda, r, role, false, s, &address));
    int64_t shape[] = {r->conv.shape[role][0], r->conv.shape[role][1], 1};
    for (int axis = 0; axis < r->conv.spatial; axis++)
        shape[2] *= r->conv.shape[role][2 + axis];
    *view = (gt_view){.data = (void *)(uintptr_t)address};
    GT_TRY(gt__meta_set(&view->meta, (gt_dtype)r->conv.dtype, role == GT_CUDA_CONV_W ? 2 : 3, shape));
    make_dense(view);
    return GT_OK;
}

static gt_err run_product(gt_cuda *cuda, const running *r, scratches *s)
{
    gt_view view[GT_CUDA_CONV_ROLES];
    if (!is_dense(r->view[r->result]))
        return gt__fail(GT_ERR_UNSUPPORTED, "the result is not aligned");
    for (int role = 0; role < GT_CUDA_CONV_ROLES; role++)
        GT_TRY(place_matrices(cuda, r, role, s, &view[role]));
    gt_view *weight = &view[GT_CUDA_CONV_W], turned = *weight;
    if (r->conv.kind == GT_CUDA_CONV_INPUT) { /* by the transposed matrix */
        for (int axis = 0; axis < 2; axis++) {
            turned.meta.shape[axis] = weight->meta.shape[1 - axis];
            turned.stride[axis] = weight->stride[1 - axis];
        }
        turned.contiguous = false;
    }
    gt_instruction ins = {.op = GT_OP_matmul,
                          .dtype = r->conv.dtype,
                          .imm = {{.i = r->conv.exact ? GT_PRODUCT_EXACT : GT_PRODUCT_FAST}}};
    const gt_view *in[] = {&turned, &view[r->conv.kind == GT_CUDA_CONV_INPUT ? GT_CUDA_CONV_Y : GT_CUDA_CONV_X]};
    gt_call call = {.op = GT_OP_matmul,
                    .compute = (gt_dtype)r->conv.dtype,
                    .ins = &ins,
                    .operands = 2,
                    .in = in,
                    .out = &view[r->result]};
    return gt__cuda_product(cuda, &call);
}

/* GT_ERR_MEMORY: another way may need less. */
static gt_err run_way(gt_cuda *cuda, const running *r, const candidate *how)
{
    scratches s = {.count = 0};
    if (how->way == GENERATED)
        return gt__cuda_run_kernels(cuda, r->call, GT_CUDA_NO_STEP);
    gt_err err = how->way == PRODUCT ? run_product(cuda, r, &s) : run_plan(cuda, r, how, &s);
    for (unsigned k = 0; k < s.count; k++)
        gt__cuda_scratch_release(cuda, s.address[k]);
    return err;
}

/* ---- choosing ------------------------------------------------------------------------------------------------------------ */

/* Milliseconds of one run on this card; negative: it does not work. */
static float measure(gt_cuda *cuda, const running *r, const candidate *how, CUevent start, CUevent end)
{
    const gt_cuda_driver *driver = cuda->driver;
    float ms = -1;
    if (run_way(cuda, r, how) != GT_OK || driver->event_record(start, cuda->stream) != CUDA_SUCCESS)
        return -1;
    for (int k = 0; k < TIMED_RUNS; k++)
        if (run_way(cuda, r, how) != GT_OK)
            return -1;
    if (driver->event_record(end, cuda->stream) != CUDA_SUCCESS || driver->event_wait(end) != CUDA_SUCCESS ||
        driver->event_elapsed(&ms, start, end) != CUDA_SUCCESS)
        return -1;
    return ms / TIMED_RUNS;
}

typedef struct contest {
    const running *r;
    bool measures;
    CUevent start, end;
    uint64_t began_ns;
    candidate best;
    float best_ms;
} contest;

static void tell(const gt_cuda_conv *c, const candidate *how, float ms)
{
    static const char *const kinds[] = {"forward", "input", "weight"};
    static const char *const ways[] = {"generated", "as it is", "channels last", "product"};
    const int64_t *x = c->shape[GT_CUDA_CONV_X], *w = c->shape[GT_CUDA_CONV_W];
    gt__log(
        GT_LOG_COMPILE,
        "cuda: convolution, %s, %s, x (%lld, %lld, %lld, %lld), weight (%lld, %lld, %lld, %lld), stride %lld: %s, "
        "workspace %zu, %.3f ms",
        kinds[c->kind], gt__dtype_name((gt_dtype)c->dtype), (long long)x[0], (long long)x[1], (long long)x[2],
        (long long)x[3], (long long)w[0], (long long)w[1], (long long)w[2], (long long)w[3],
        (long long)c->stride[0], ways[how->way], how->plan.workspace, (double)ms);
}

/* A candidate: the best so far? The one that is not is freed. */
static void enter(gt_cuda *cuda, contest *t, candidate how)
{
    const gt_cuda_dnn *dnn = cuda->convolutions->dnn;
    float ms = t->measures ? measure(cuda, t->r, &how, t->start, t->end) : 0;
    bool better = ms >= 0 && (t->best_ms < 0 || ms < t->best_ms);
    if (t->measures && gt__log_on(GT_LOG_COMPILE))
        tell(&t->r->conv, &how, ms);
    gt__cuda_dnn_plan_free(dnn, better ? &t->best.plan : &how.plan);
    if (better) {
        t->best = how;
        t->best_ms = ms;
    }
}

static void enter_plans(gt_cuda *cuda, contest *t, conv_way way, gt_cuda_dnn_graph *graph)
{
    const gt_cuda_convolutions *c = cuda->convolutions;
    const gt_cuda_conv *conv = &t->r->conv;
    gt_cuda_dnn_plan plans[PLANS];
    unsigned count = 0;
    if (gt__cuda_dnn_describe(c->dnn, c->handle, conv, way == CHANNELS_LAST, graph))
        count = gt__cuda_dnn_propose(c->dnn, c->handle, conv, graph, workspace_limit[conv->frugal],
                                     t->measures ? PLANS : 1, plans);
    for (unsigned k = 0; k < count; k++)
        if (k == 0 || gt__cuda_now_ns() - t->began_ns < choosing_ns)
            enter(cuda, t, (candidate){.way = way, .plan = plans[k]});
        else
            gt__cuda_dnn_plan_free(c->dnn, &plans[k]);
}

/* Fills in c->how and c->graph. */
static void hold_contest(gt_cuda *cuda, const running *r, chosen *c)
{
    const gt_cuda_convolutions *all = cuda->convolutions;
    contest t = {.r = r,
                 .measures = !cuda->capturing && operations(&r->conv) >= worth_measuring * cuda->card.processors,
                 .began_ns = gt__cuda_now_ns(),
                 .best_ms = -1};
    gt_cuda_dnn_graph graph[2] = {{.graph = NULL}, {.graph = NULL}};
    gt__cuda_comms_wait(cuda);
    t.measures = t.measures && cuda->driver->event_new(&t.start, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
                 cuda->driver->event_new(&t.end, CU_EVENT_DEFAULT) == CUDA_SUCCESS;
    enter_plans(cuda, &t, AS_IT_IS, &graph[0]);
    if (r->conv.frugal < FRUGAL - 1 && (t.measures || t.best_ms < 0))
        enter_plans(cuda, &t, CHANNELS_LAST, &graph[1]);
    if (t.measures && is_product(&r->conv))
        enter(cuda, &t, (candidate){.way = PRODUCT});
    if (t.measures && groups_of(&r->conv) > 1)
        enter(cuda, &t, (candidate){.way = GENERATED});
    if (t.start)
        cuda->driver->event_free(t.start);
    if (t.end)
        cuda->driver->event_free(t.end);
    c->how = t.best; /* GENERATED, if there was none */
    int kept = t.best.way == AS_IT_IS ? 0 : t.best.way == CHANNELS_LAST ? 1 : -1;
    for (int k = 0; k < 2; k++)
        if (k == kept)
            c->graph = graph[k];
        else
            gt__cuda_dnn_graph_free(all->dnn, &graph[k]);
}

static chosen *find(const gt_cuda_convolutions *c, const gt_cuda_conv *key)
{
    size_t at = (size_t)gt__cuda_hash(key, sizeof *key) & (c->capacity - 1);
    while (c->table[at].used && memcmp(&c->table[at].key, key, sizeof *key) != 0)
        at = (at + 1) & (c->capacity - 1);
    return &c->table[at];
}

static void chosen_free(const gt_cuda_convolutions *c, chosen *old)
{
    gt__cuda_dnn_plan_free(c->dnn, &old->how.plan);
    gt__cuda_dnn_graph_free(c->dnn, &old->graph);
}

/* Keep it until the engine is closed. False: there is no memory for that. */
static bool retire(gt_cuda_convolutions *c, const chosen *old)
{
    chosen *grown = realloc(c->retired, (c->retired_count + 1) * sizeof *grown);
    if (!grown)
        return false;
    c->retired = grown;
    grown[c->retired_count++] = *old;
    return true;
}

/* Make room in the table. A plan that was recorded and cannot be kept is lost, but not freed. */
static void forget_all(gt_cuda_convolutions *c)
{
    for (size_t k = 0; k < c->capacity; k++)
        if (c->table[k].used && !c->table[k].recorded)
            chosen_free(c, &c->table[k]);
        else if (c->table[k].used && !retire(c, &c->table[k]))
            gt__log_error("cuda: no memory to keep a plan of a convolution");
    if (c->table)
        memset(c->table, 0, c->capacity * sizeof *c->table);
    c->count = 0;
}

static chosen *choose(gt_cuda *cuda, const running *r)
{
    gt_cuda_convolutions *c = cuda->convolutions;
    chosen *found = find(c, &r->conv);
    if (__builtin_expect(!found->used, 0)) {
        if (c->count >= MOST_SHAPES) {
            forget_all(c);
            found = find(c, &r->conv);
        }
        hold_contest(cuda, r, found);
        found->key = r->conv;
        found->used = true;
        c->count++;
    }
    found->recorded |= cuda->capturing;
    return found;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------ */

static bool has_bias(const gt_call *call)
{
    return call->op != GT_OP_conv_weight && !(call->literals >> 2 & 1) && call->in[2]->meta.rank > 0;
}

/* out += bias, along the channels. */
static gt_err add_bias(gt_cuda *cuda, const gt_call *call)
{
    const gt_view *out = call->out, *bias = call->in[2];
    gt_view wide = *out;
    wide.data = bias->data;
    wide.contiguous = false;
    wide.meta.dtype = bias->meta.dtype;
    memset(wide.stride, 0, sizeof wide.stride);
    wide.stride[1] = bias->stride[0];
    gt_instruction ins = {.op = GT_OP_add, .dtype = out->meta.dtype};
    const gt_view *in[] = {out, &wide};
    gt_call add = {.op = GT_OP_add, .compute = call->compute, .ins = &ins, .operands = 2, .in = in, .out = out};
    return gt__cuda_run_kernels(cuda, &add, GT_CUDA_NO_STEP);
}

/* Open the library when the first convolution comes: it is large. */
static gt_err convolutions_open(gt_cuda *cuda)
{
    gt_cuda_convolutions *c = cuda->convolutions;
    const gt_cuda_blas *blas;
    if (!c) {
        c = cuda->convolutions = calloc(1, sizeof *c);
        if (!c)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        gt__cuda_comms_wait(cuda);
        c->capacity = 2 * MOST_SHAPES;
        c->table = calloc(c->capacity, sizeof *c->table);
        (void)gt__cuda_open_blas(&blas); /* cuDNN looks for it by its name, which finds it once it is open */
        if (!c->table)
            c->capacity = 0;
        else if (gt__cuda_open_dnn(&c->dnn) != GT_OK)
            c->dnn = NULL;
        else if (c->dnn->handle_new(&c->handle) != CUDNN_STATUS_SUCCESS ||
                 c->dnn->set_stream(c->handle, cuda->stream) != CUDNN_STATUS_SUCCESS) {
            if (c->handle)
                c->dnn->handle_free(c->handle);
            c->handle = NULL;
            c->dnn = NULL;
            gt__error_set("cudnnCreate failed");
        }
        if (!c->dnn)
            gt__log(GT_LOG_STATUS, "cuda: %s: convolutions do not use the tensor cores", gt_error_text());
    }
    return c->dnn ? GT_OK : gt__fail(GT_ERR_UNSUPPORTED, "there is no cuDNN");
}

static bool is_served(gt_dtype dtype)
{
    return dtype == GT_FLOAT32 || dtype == GT_FLOAT16 || dtype == GT_BFLOAT16 || dtype == GT_FLOAT64;
}

static gt_err decline(gt_cuda_convolutions *c, const char *why)
{
    if (c->declined++ == 0)
        gt__log(GT_LOG_STATUS, "cuda: a convolution is not by cuDNN: %s", why);
    return gt__fail(GT_ERR_UNSUPPORTED, "%s", why);
}

gt_err gt__cuda_convolution(gt_cuda *cuda, const gt_call *call)
{
    running r;
    if (call->literals & 3 || !is_served((gt_dtype)call->out->meta.dtype) || !describe(&r, call))
        return gt__fail(GT_ERR_UNSUPPORTED, "not a convolution that cuDNN knows");
    GT_TRY(convolutions_open(cuda));
    gt_cuda_convolutions *c = cuda->convolutions;
    gt_err err = GT_ERR_MEMORY;
    for (; err == GT_ERR_MEMORY && r.conv.frugal < FRUGAL; r.conv.frugal++) {
        chosen *found = choose(cuda, &r);
        if (found->how.way == GENERATED)
            return decline(c, "it has no plan, or one that is slower");
        err = run_way(cuda, &r, &found->how);
        if (err == GT_ERR_UNSUPPORTED) /* do not try again */
            found->how.way = GENERATED;
    }
    if (err == GT_ERR_UNSUPPORTED || err == GT_ERR_MEMORY)
        return decline(c, gt_error_text());
    return err == GT_OK && has_bias(call) ? add_bias(cuda, call) : err;
}

void gt__cuda_convolutions_close(gt_cuda *cuda)
{
    gt_cuda_convolutions *c = cuda->convolutions;
    if (!c)
        return;
    if (c->declined)
        gt__log(GT_LOG_STATUS, "cuda: %llu convolutions were not by cuDNN", (unsigned long long)c->declined);
    forget_all(c);
    for (size_t k = 0; k < c->retired_count; k++)
        chosen_free(c, &c->retired[k]);
    if (c->handle)
        c->dnn->handle_free(c->handle);
    free(c->retired);
    free(c->table);
    free(c);
}
