/*
 * generate_rows.c: SOFTMAX, SOFTMAX_BACKWARD and LAYER_NORM: lines of elements, each in one pass. device/rows.cuh and
 * device/norm.cuh have the kernels. They want contiguous operands; others are copied to scratch memory first.
 */
#include <string.h>

#include "engines/cuda/generate_family.h"

enum {
    STATIC_SHARED = 1024, /* bytes that kernels have at most besides a long line */
    REGISTERS = 32,       /* for elements of one line, in a thread */
    WIDE_REGISTERS = 16,  /* the same, if more threads can have a line instead */
};

/* ---- source ------------------------------------------------------------------------------------------------- */

void gt__cuda_write_rows(const gt_cuda_key *key, const char *name, gt_cuda_text *text)
{
    static const char *const functions[] = {
        [GT_ROWS_SOFTMAX] = "softmax",
        [GT_ROWS_SOFTMAX_LONG] = "softmax_long",
        [GT_ROWS_SOFTMAX_BACKWARD] = "softmax_backward",
        [GT_ROWS_SOFTMAX_BACKWARD_LONG] = "softmax_backward_long",
        [GT_ROWS_ACROSS] = "softmax_across",
        [GT_ROWS_NORM] = "layer_norm",
        [GT_ROWS_NORM_BACKWARD] = "layer_norm_backward",
        [GT_ROWS_NORM_MOMENTS] = "layer_norm_moments",
        [GT_ROWS_NORM_COLUMNS] = "layer_norm_columns",
        [GT_ROWS_NORM_FINISH] = "layer_norm_finish",
        [GT_ROWS_NORM_SUMS_FINISH] = "layer_norm_sums_finish",
        [GT_ROWS_SPARSE] = "log_softmax_sparse_backward",
        [GT_ROWS_MOMENTS] = "log_softmax_moments",
        [GT_ROWS_PICK] = "log_softmax_pick",
    };
    gt_opcode op = (gt_opcode)key->op;
    bool logarithm = op == GT_OP_log_softmax || op == GT_OP_log_softmax_backward;
    bool backward = op == GT_OP_softmax_backward || op == GT_OP_log_softmax_backward;
    gt__cuda_add(text, "struct %s_k {\ntypedef %s T;\ntypedef %s DO;\n", name,
                 gt__cuda_type_name(gt__cuda_type((gt_dtype)key->compute)), gt__cuda_dtype((gt_dtype)key->out));
    for (unsigned k = 0; k < GT_MAX_OPERANDS; k++)
        gt__cuda_add(text, "typedef %s D%u;\n", gt__cuda_dtype((gt_dtype)key->in[k]), k);
    gt__cuda_add(text, "enum { V = %u, ITEMS = %u, WIDTH = %u, LITERAL1 = %u, LITERAL2 = %u, LOGARITHM = %u, ",
                 key->vector, key->option[0], key->option[1], key->mode[1], key->mode[2], logarithm);
    gt__cuda_add(text, "KEPT = %u, BACKWARD = %u, SUMS = %u };\n};\n", key->option[2], backward,
                 key->option[3] > 0);
    gt__cuda_add(text, "GT_ENTRY(%u", key->option[1] > GT_CUDA_BLOCK ? key->option[1] : GT_CUDA_BLOCK);
    if (key->option[3])
        gt__cuda_add(text, ", %u", key->option[3]);
    gt__cuda_add(text, ") %s(GT_PARAM(gt_rows_params) p)\n{\ngt_%s<%s_k>(p);\n}\n", name, functions[key->variant],
                 name);
}

/* ---- launches ----------------------------------------------------------------------------------------------- */

typedef struct params {
    void *out;
    uint64_t in[3];
    uint64_t scratch;
    uint64_t value[3];
    int64_t lines, n;
    int64_t inner;
    int64_t parts, share;
    void *also;
    double eps;
    void *errors;
} params;

typedef struct rows {
    gt_cuda_key key;
    params p;
    gt_cuda_operand in[3];
    unsigned operands;
} rows;

static void start(rows *r, const gt_call *call)
{
    memset(r, 0, sizeof *r);
    r->key.op = (uint16_t)call->op;
    r->key.compute = (uint8_t)call->compute;
    r->key.out = call->out->meta.dtype;
    r->p.out = call->out->data;
    r->p.inner = 1;
    r->operands = call->operands;
}

static void add_operand(gt_cuda_work *work, rows *r, const gt_call *call, unsigned k)
{
    const gt_view *view = call->in[k];
    if (call->literals >> k & 1) {
        r->key.mode[k] = 1;
        r->p.value[k] = gt__cuda_number((gt_dtype)view->meta.dtype, call->value[k], call->compute);
        return;
    }
    r->in[k] = gt__cuda_operand(work, view, (gt_dtype)view->meta.dtype);
    r->key.in[k] = view->meta.dtype;
}

static gt_cuda_launch *launch_rows(gt_cuda_work *work, const rows *r, unsigned variant)
{
    gt_cuda_launch *launch = gt__cuda_launch(work, GT_CUDA_ROWS, &r->p, sizeof r->p);
    launch->key = r->key;
    launch->key.family = GT_CUDA_ROWS;
    launch->key.variant = (uint8_t)variant;
    for (unsigned k = 0; k < r->operands; k++)
        if (!r->key.mode[k])
            gt__cuda_bind(launch, offsetof(params, in) + k * sizeof r->p.in[0], &r->in[k]);
    return launch;
}

/* Threads and registers for lines of n elements. `arrays`: lines that a thread holds at once. */
static void choose_threads(rows *r, unsigned arrays)
{
    size_t least = gt__dtype_size((gt_dtype)r->key.out);
    bool aligned = (uintptr_t)r->p.out % 16 == 0;
    for (unsigned k = 0; k < r->operands; k++) {
        if (r->key.mode[k])
            continue;
        size_t size = gt__dtype_size((gt_dtype)r->key.in[k]);
        least = size < least ? size : least;
        aligned &= r->in[k].address % 16 == 0;
    }
    int64_t vector = 16 / (int64_t)least;
    vector = aligned && r->p.n % vector == 0 ? vector : 1;
    int64_t vectors = r->p.n / vector, width = 32, most = REGISTERS, items = 1;
    if (vectors > width * most / vector) { /* not for a warp, which shares the registers with fewer others */
        most = REGISTERS / arrays;
        for (width = 256; width < 1024 && vectors > width * WIDE_REGISTERS / vector;)
            width *= 2;
    }
    while (items * width < vectors)
        items += items < 8 ? 1 : items;
    if (items * vector > most)
        items = 0;
    r->key.vector = (uint8_t)vector;
    r->key.option[0] = (uint32_t)items;
    r->key.option[1] = (uint32_t)width;
}

static void launch_lines(gt_cuda_work *work, const rows *r, unsigned variant)
{
    unsigned width = r->key.option[1];
    gt_cuda_launch *launch = launch_rows(work, r, variant);
    launch->block[0] = width > GT_CUDA_BLOCK ? width : GT_CUDA_BLOCK;
    launch->grid[0] = gt__cuda_blocks(r->p.lines, launch->block[0] / width);
}

/* Bytes of a line of operand 0 in shared memory; 0: it does not fit. */
static uint32_t long_line_bytes(const rows *r, const gt_cuda_device *device)
{
    size_t size = gt__dtype_size((gt_dtype)r->key.in[0]);
    return r->p.n <= (device->shared_limit - STATIC_SHARED) / (int64_t)size ? (uint32_t)r->p.n * (uint32_t)size
                                                                            : 0;
}

/* As many blocks as the processors hold at once: each begins its next line before it has finished one. */
static void launch_long_lines(gt_cuda_work *work, const rows *r, const gt_cuda_device *device, unsigned variant,
                              uint32_t bytes)
{
    gt_cuda_launch *launch = launch_rows(work, r, variant);
    int64_t resident = device->resident_limit / r->key.option[1];
    int64_t fit = (device->shared_limit + STATIC_SHARED) / ((int64_t)bytes + STATIC_SHARED);
    int64_t blocks = device->processors * (fit < resident ? fit : resident);
    launch->block[0] = r->key.option[1];
    launch->grid[0] = gt__cuda_blocks(r->p.lines < blocks ? r->p.lines : blocks, 1);
    launch->shared = bytes;
}

static bool has_complex(const gt_call *call)
{
    for (unsigned k = 0; k < call->operands; k++)
        if (gt__dtype_is_complex((gt_dtype)call->in[k]->meta.dtype))
            return true;
    return gt__dtype_is_complex((gt_dtype)call->out->meta.dtype);
}

/* log_softmax_backward of a gradient with one element in each row: these elements, the result, and their positions. Made by
 * row_form.c only. */
static gt_err lower_sparse_backward(const gt_call *call, gt_cuda_work *work, rows *r)
{
    const gt_view *g = call->in[0];
    bool repeated = true; /* one number for all rows, as of a mean */
    for (int axis = 0; axis < g->meta.rank; axis++)
        repeated &= g->meta.shape[axis] == 1 || g->stride[axis] == 0;
    add_operand(work, r, call, 1);
    gt_cuda_operand element = {.address = (uintptr_t)g->data};
    if (!repeated)
        element = gt__cuda_operand(work, g, (gt_dtype)g->meta.dtype);
    gt_cuda_operand position = gt__cuda_operand(work, call->in[2], GT_INT64);
    r->key.in[0] = g->meta.dtype;
    r->key.in[2] = GT_INT64;
    r->key.mode[0] = r->key.mode[2] = 1; /* not read like the others */
    r->operands = 2;
    r->p.share = !repeated;
    r->p.inner = call->out->meta.rank - 1;
    choose_threads(r, 1);
    launch_lines(work, r, GT_ROWS_SPARSE);
    gt_cuda_launch *launch = &work->launch[work->count - 1];
    gt__cuda_bind(launch, offsetof(params, in), &element);
    gt__cuda_bind(launch, offsetof(params, in) + 2 * sizeof r->p.in[0], &position);
    launch->errors_at = offsetof(params, errors);
    return GT_OK;
}

/* log_softmax that keeps two numbers for each row, what is picked from it, and its gradient. Made by pick_form.c only. */
static gt_err lower_picks(const gt_call *call, gt_cuda_work *work, rows *r)
{
    const gt_view *x = call->in[1], *positions = call->in[2];
    bool backward = call->op == GT_OP_log_softmax_backward, positioned = positions->data != NULL;
    r->p.n = x->meta.shape[1];
    r->p.lines = x->meta.shape[0];
    r->p.scratch = (uintptr_t)call->in[3]->data;
    r->key.option[2] = 1;
    if (backward && positioned)
        return lower_sparse_backward(call, work, r);
    add_operand(work, r, call, 0);
    r->operands = 1;
    if (backward) {
        add_operand(work, r, call, 1);
        r->operands = 2;
        choose_threads(r, 2);
        launch_lines(work, r, GT_ROWS_SOFTMAX_BACKWARD);
    } else if (!positioned) {
        r->p.out = NULL;
        r->key.out = GT_FLOAT32;
        choose_threads(r, 1);
        if (r->key.option[1] >
            GT_CUDA_BLOCK) /* several lines on a processor: while one is summed up, others are read */
            r->key.option[1] = GT_CUDA_BLOCK;
        launch_lines(work, r, GT_ROWS_MOMENTS);
    } else {
        gt_cuda_operand position = gt__cuda_operand(work, positions, GT_INT64);
        r->key.vector = 1;
        r->key.option[1] = GT_CUDA_BLOCK;
        r->p.inner = call->out->meta.rank - 1; /* the axis, for errors */
        gt_cuda_launch *launch = launch_rows(work, r, GT_ROWS_PICK);
        launch->grid[0] = gt__cuda_blocks(r->p.lines, GT_CUDA_BLOCK);
        gt__cuda_bind(launch, offsetof(params, in) + 2 * sizeof r->p.in[0], &position);
        launch->errors_at = offsetof(params, errors);
    }
    return GT_OK;
}

gt_err gt__cuda_lower_softmax(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    rows r;
    const gt_meta *meta = &call->out->meta;
    int64_t axis = call->ins->imm[0].i;
    bool backward = gt__op_table[call->op].form == GT_FORM_SOFTMAX_BACKWARD;
    if (call->operands == 4) {
        start(&r, call);
        return lower_picks(call, work, &r);
    }
    if (has_complex(call) || call->literals)
        return GT_CUDA_DECLINE;
    start(&r, call);
    r.p.n = meta->rank ? meta->shape[axis] : 1;
    r.p.lines = meta->numel / r.p.n;
    for (int k = (int)axis + 1; k < meta->rank; k++)
        r.p.inner *= meta->shape[k];
    if (call->operands == 3)
        return lower_sparse_backward(call, work, &r);
    for (unsigned k = 0; k < call->operands; k++)
        add_operand(work, &r, call, k);
    if (r.p.inner > 1) {
        r.key.option[1] = GT_CUDA_BLOCK;
        r.key.vector = 1;
        gt_cuda_launch *launch = launch_rows(work, &r, GT_ROWS_ACROSS);
        launch->grid[0] = gt__cuda_blocks(r.p.lines, GT_CUDA_BLOCK);
        return GT_OK;
    }
    choose_threads(&r, backward ? 2 : 1);
    uint32_t bytes = r.key.option[0] == 0 && call->op != GT_OP_softmax_backward ? long_line_bytes(&r, device) : 0;
    if (bytes)
        launch_long_lines(work, &r, device, backward ? GT_ROWS_SOFTMAX_BACKWARD_LONG : GT_ROWS_SOFTMAX_LONG,
                          bytes);
    else
        launch_lines(work, &r, backward ? GT_ROWS_SOFTMAX_BACKWARD : GT_ROWS_SOFTMAX);
    return GT_OK;
}

/* g and x; three launches: the moments of each line, sums by column in parts, and their sum. */
static void lower_weight_gradient(const gt_cuda_device *device, gt_cuda_work *work, rows *r)
{
    choose_threads(r, 1);
    int64_t tile = 32 * (int64_t)r->key.vector, tiles = (r->p.n + tile - 1) / tile;
    int64_t wanted = (r->key.vector > 1 ? 2 : 4) * (int64_t)device->processors / tiles + 1;
    int64_t most = r->p.lines / 32 + 1, parts = wanted < most ? wanted : most;
    size_t size = gt__cuda_type((gt_dtype)r->key.compute) == GT_CUDA_F64 ? sizeof(double) : sizeof(float);
    r->p.share = (r->p.lines + parts - 1) / parts;
    r->p.parts = (r->p.lines + r->p.share - 1) / r->p.share;
    gt_cuda_operand scratch = gt__cuda_scratch(work, (size_t)(2 * r->p.lines + r->p.parts * r->p.n) * size);
    launch_lines(work, r, GT_ROWS_NORM_MOMENTS);
    gt__cuda_bind(&work->launch[work->count - 1], offsetof(params, scratch), &scratch);
    r->key.option[0] = 1;
    r->key.option[1] = GT_CUDA_BLOCK;
    gt_cuda_launch *launch = launch_rows(work, r, GT_ROWS_NORM_COLUMNS);
    gt__cuda_bind(launch, offsetof(params, scratch), &scratch);
    launch->grid[0] = (uint32_t)tiles;
    launch->grid[1] = (uint32_t)r->p.parts;
    r->key.vector = 1;
    launch = launch_rows(work, r, GT_ROWS_NORM_FINISH);
    gt__cuda_bind(launch, offsetof(params, scratch), &scratch);
    launch->grid[0] = gt__cuda_blocks(r->p.n, 32);
}

/* g, x, weight; results: the gradients of x, of the weight and, if there is memory for it, of the bias. Made by norm_form.c only.
 * Each block goes through many lines and sums up; another launch puts the sums together. As many blocks as run at once. */
static gt_err lower_gradients(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work, rows *r)
{
    choose_threads(r, 2);
    int64_t width = r->key.option[1], block = width > GT_CUDA_BLOCK ? width : GT_CUDA_BLOCK, lines = block / width;
    int64_t registers = r->key.option[0] * r->key.vector, shared = lines * 2 * r->p.n * (int64_t)sizeof(float);
    if (gt__cuda_type(call->compute) != GT_CUDA_F32 || registers == 0 || width > 512 ||
        call->in[3]->meta.dtype != call->in[4]->meta.dtype)
        return GT_CUDA_DECLINE;
    int64_t wanted = width > 32 ? 1024 / block : registers > 24 ? 2 : 3;
    int64_t fit = device->shared_limit / (shared + STATIC_SHARED), blocks = (r->p.lines + lines - 1) / lines;
    if (fit == 0)
        return GT_CUDA_DECLINE;
    r->key.option[3] = (uint32_t)(fit < wanted ? fit : wanted);
    int64_t resident = (int64_t)device->processors * r->key.option[3];
    r->p.parts = blocks < resident ? blocks : resident;
    gt_cuda_operand scratch = gt__cuda_scratch(work, (size_t)(r->p.parts * 2 * r->p.n) * sizeof(float));
    gt_cuda_launch *launch = launch_rows(work, r, GT_ROWS_NORM_BACKWARD);
    gt__cuda_bind(launch, offsetof(params, scratch), &scratch);
    launch->block[0] = (uint32_t)block;
    launch->grid[0] = (uint32_t)r->p.parts;
    launch->shared = (uint32_t)shared;
    r->operands = 0;
    r->key = (gt_cuda_key){.op = (uint16_t)call->op,
                           .compute = (uint8_t)call->compute,
                           .out = call->in[3]->meta.dtype,
                           .vector = 1,
                           .option = {1, GT_CUDA_BLOCK}};
    r->p.out = call->in[3]->data;
    r->p.also = call->in[4]->data;
    launch = launch_rows(work, r, GT_ROWS_NORM_SUMS_FINISH);
    gt__cuda_bind(launch, offsetof(params, scratch), &scratch);
    launch->grid[0] = gt__cuda_blocks((r->p.also ? 2 : 1) * r->p.n, 32);
    return GT_OK;
}

gt_err gt__cuda_lower_layer_norm(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    rows r;
    bool forward = call->op == GT_OP_layer_norm, weight = call->op == GT_OP_layer_norm_backward_weight;
    const gt_meta *x = &call->in[forward ? 0 : 1]->meta;
    if (has_complex(call) || call->literals & (forward ? 1 : 3) || x->numel == 0)
        return GT_CUDA_DECLINE;
    start(&r, call);
    r.operands = weight ? 2 : 3;
    r.p.n = 1;
    for (int64_t axis = call->ins->imm[0].i; axis < x->rank; axis++)
        r.p.n *= x->shape[axis];
    r.p.lines = x->numel / r.p.n;
    r.p.eps = call->ins->imm[1].f;
    for (unsigned k = 0; k < r.operands; k++)
        add_operand(work, &r, call, k);
    if (weight) {
        if ((r.p.n + 31) / 32 > INT32_MAX)
            return GT_CUDA_DECLINE;
        lower_weight_gradient(device, work, &r);
        return GT_OK;
    }
    if (call->operands > 3)
        return lower_gradients(call, device, work, &r);
    choose_threads(&r, forward ? 1 : 2);
    launch_lines(work, &r, forward ? GT_ROWS_NORM : GT_ROWS_NORM_BACKWARD);
    return GT_OK;
}
