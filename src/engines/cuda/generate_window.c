/*
 * generate_window.c: CONV, CONV_WEIGHT, MAX_POOL, MAX_INDEX, POOL and IM2COL. device/window.cuh has the kernels, for contiguous
 * operands and three spatial axes.
 */
#include <string.h>

#include "core/window.h"
#include "engines/cuda/generate_family.h"

enum { CONV, CONV_FINISH, AVG, AVG_INPUT, MAX, MAX_INPUT, COLUMNS, IMAGE };
enum { MAX_VALUE, MAX_POSITION, MAX_SCRATCH }; /* what MAX writes */

/* ---- source ------------------------------------------------------------------------------------------------- */

static unsigned conv_kind(unsigned op)
{
    return op == GT_OP_conv ? 0 : op == GT_OP_conv_input ? 1 : 2;
}

void gt__cuda_write_window(const gt_cuda_key *key, const char *name, gt_cuda_text *text)
{
    static const char *const functions[] = {
        [CONV] = "conv",    [CONV_FINISH] = "conv_finish",  [AVG] = "avg_pool",   [AVG_INPUT] = "avg_pool_input",
        [MAX] = "max_pool", [MAX_INPUT] = "max_pool_input", [COLUMNS] = "im2col", [IMAGE] = "col2im",
    };
    unsigned op = key->op, x = op == GT_OP_conv_weight ? 1 : 0;
    bool conv = key->variant <= CONV_FINISH, moves = key->variant == COLUMNS;
    unsigned read = key->variant == MAX && op != GT_OP_max_pool_index ? 1 : x; /* the operand that DX is of */
    gt__cuda_add(text, "struct %s_k {\ntypedef %s T;\ntypedef %s DO;\n", name,
                 gt__cuda_type_name(gt__cuda_type((gt_dtype)key->compute)),
                 moves ? gt__cuda_moved(key->out) : gt__cuda_dtype((gt_dtype)key->out));
    gt__cuda_add(text, "typedef %s DX;\ntypedef %s DY;\ntypedef %s DW;\ntypedef %s DB;\n",
                 gt__cuda_dtype((gt_dtype)key->in[read]), gt__cuda_dtype((gt_dtype)key->in[0]),
                 gt__cuda_dtype((gt_dtype)key->in[1]), gt__cuda_dtype((gt_dtype)key->in[2]));
    gt__cuda_add(text, "enum { X_AT = %u, KIND = %u };\n};\n", read, conv ? conv_kind(op) : key->option[0]);
    gt__cuda_add(text, "GT_ENTRY(256) %s(GT_PARAM(gt_window_params) p)\n{\ngt_%s<%s_k>(p);\n}\n", name,
                 functions[key->variant], name);
}

/* ---- launches ----------------------------------------------------------------------------------------------- */

typedef struct params {
    void *out;
    uint64_t in[3];
    uint64_t scratch;
    int64_t count;
    int64_t planes;
    int32_t x_size[3], y_size[3];
    int32_t kernel[3], stride[3], padding[3], dilation[3];
    int32_t groups, images;
    int32_t x_channels, y_channels;
    int32_t parts, share;
    int32_t has_bias, count_padding;
    double divisor;
} params;

typedef struct windows {
    gt_cuda_key key;
    params p;
    gt_cuda_operand in[3];
    unsigned operands;
} windows;

/* The last three axes of sizes, or fewer and 1 before them. */
static bool set_sizes(int32_t *to, const int64_t *sizes, int spatial, int32_t missing)
{
    bool fits = true;
    for (int axis = 0; axis < 3; axis++) {
        int own = axis - (3 - spatial);
        to[axis] = own < 0 ? missing : (int32_t)sizes[own];
        fits &= own < 0 || sizes[own] <= INT32_MAX / 2;
    }
    return fits;
}

static bool is_small(const int32_t *size)
{
    return (int64_t)size[0] * size[1] < INT32_MAX && (int64_t)size[0] * size[1] * size[2] < INT32_MAX;
}

/* Everything but kernels, groups and counts. x and y are the shapes of the long side and of the windows. */
static bool start(windows *w, const gt_call *call, const gt_meta *x, const gt_meta *y, gt_window *window)
{
    int spatial = call->ins->rank;
    memset(w, 0, sizeof *w);
    *window = gt__window_read(call->tail);
    w->key.op = (uint16_t)call->op;
    w->key.compute = (uint8_t)call->compute;
    w->key.out = call->out->meta.dtype;
    w->operands = call->operands;
    w->p.out = call->out->data;
    w->p.count = call->out->meta.numel;
    w->p.parts = 1;
    bool fits = set_sizes(w->p.x_size, x->shape + x->rank - spatial, spatial, 1) &&
                set_sizes(w->p.y_size, y->shape + y->rank - spatial, spatial, 1) &&
                set_sizes(w->p.stride, window->stride, spatial, 1) &&
                set_sizes(w->p.padding, window->padding, spatial, 0) &&
                set_sizes(w->p.dilation, window->dilation, spatial, 1);
    for (unsigned k = 0; k < call->operands; k++)
        fits &= !gt__dtype_is_complex((gt_dtype)call->in[k]->meta.dtype);
    return fits && is_small(w->p.x_size) && is_small(w->p.y_size) &&
           !gt__dtype_is_complex((gt_dtype)call->out->meta.dtype);
}

static void add_operand(gt_cuda_work *work, windows *w, const gt_call *call, unsigned k)
{
    w->in[k] = gt__cuda_operand(work, call->in[k], (gt_dtype)call->in[k]->meta.dtype);
    w->key.in[k] = call->in[k]->meta.dtype;
}

static gt_cuda_launch *launch_windows(gt_cuda_work *work, const windows *w, unsigned variant)
{
    gt_cuda_launch *launch = gt__cuda_launch(work, GT_CUDA_WINDOW, &w->p, sizeof w->p);
    launch->key = w->key;
    launch->key.family = GT_CUDA_WINDOW;
    launch->key.variant = (uint8_t)variant;
    launch->grid[0] = gt__cuda_blocks(w->p.count, GT_CUDA_BLOCK);
    for (unsigned k = 0; k < w->operands; k++)
        gt__cuda_bind(launch, offsetof(params, in) + k * sizeof w->p.in[0], &w->in[k]);
    return launch;
}

/* ---- convolutions ------------------------------------------------------------------------------------------- */

/* Parts of the sums of conv_weight: each is added up by its own blocks. */
static void divide_sums(windows *w, const gt_cuda_device *device, int64_t blocks, int64_t length)
{
    int64_t wanted = 4 * (int64_t)device->processors / blocks, most = length / 256;
    int64_t parts = wanted < most ? wanted : most;
    parts = parts < 1 ? 1 : parts < 256 ? parts : 256;
    w->p.share = (int32_t)((length + parts - 1) / parts);
    w->p.parts = (int32_t)((length + w->p.share - 1) / w->p.share);
}

static int64_t volume(const int32_t *size)
{
    return (int64_t)size[0] * size[1] * size[2];
}

gt_err gt__cuda_lower_conv(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    windows w;
    gt_window window;
    unsigned kind = conv_kind(call->op);
    const gt_meta *x = kind == 0 ? &call->in[0]->meta : kind == 1 ? &call->out->meta : &call->in[1]->meta;
    const gt_meta *y = kind == 0 ? &call->out->meta : &call->in[0]->meta;
    const gt_meta *weight = kind == 2 ? &call->out->meta : &call->in[1]->meta;
    bool bias = kind < 2 && !(call->literals >> 2 & 1) && call->in[2]->meta.rank > 0;
    if (call->literals & 3 || !start(&w, call, x, y, &window) ||
        !set_sizes(w.p.kernel, weight->shape + 2, call->ins->rank, 1) || x->numel == 0 || y->numel == 0 ||
        weight->numel == 0)
        return GT_CUDA_DECLINE;
    w.operands = kind == 2 || !bias ? 2 : 3;
    w.p.has_bias = bias;
    w.p.groups = (int32_t)window.groups;
    w.p.images = (int32_t)x->shape[0];
    w.p.x_channels = (int32_t)weight->shape[1];
    w.p.y_channels = (int32_t)(weight->shape[0] / window.groups);
    int64_t X = volume(w.p.x_size), Y = volume(w.p.y_size), V = volume(w.p.kernel);
    int64_t rows = kind == 0 ? w.p.images * Y : kind == 1 ? w.p.images * X : w.p.y_channels;
    int64_t columns = kind == 0 ? w.p.y_channels : kind == 1 ? w.p.x_channels : w.p.x_channels * V;
    int64_t length = kind == 0 ? w.p.x_channels * V : kind == 1 ? w.p.y_channels * V : w.p.images * Y;
    int64_t row_tiles = (rows + 63) / 64, column_tiles = (columns + 63) / 64;
    if (rows >= INT32_MAX - 64 || columns >= INT32_MAX - 64 || length >= INT32_MAX - 64 || column_tiles > 65535 ||
        V >= INT32_MAX)
        return GT_CUDA_DECLINE;
    if (kind == 2)
        divide_sums(&w, device, row_tiles * column_tiles * w.p.groups, length);
    if ((int64_t)w.p.groups * w.p.parts > 65535)
        return GT_CUDA_DECLINE;
    for (unsigned k = 0; k < w.operands; k++)
        add_operand(work, &w, call, k);
    gt_cuda_operand sums = {0};
    if (w.p.parts > 1) {
        bool wide = gt__cuda_type(call->compute) == GT_CUDA_F64 || gt__cuda_type(call->compute) == GT_CUDA_I64;
        sums = gt__cuda_scratch(work, (size_t)w.p.count * (size_t)w.p.parts * (wide ? 8 : 4));
    }
    gt_cuda_launch *launch = launch_windows(work, &w, CONV);
    launch->grid[0] = (uint32_t)row_tiles;
    launch->grid[1] = (uint32_t)column_tiles;
    launch->grid[2] = (uint32_t)(w.p.groups * w.p.parts);
    if (w.p.parts == 1)
        return GT_OK;
    gt__cuda_bind(launch, offsetof(params, scratch), &sums);
    gt__cuda_bind(launch_windows(work, &w, CONV_FINISH), offsetof(params, scratch), &sums);
    return GT_OK;
}

/* ---- pooling and im2col ------------------------------------------------------------------------------------- */

gt_err gt__cuda_lower_pool(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    windows w;
    gt_window window;
    bool forward = call->op == GT_OP_avg_pool;
    const gt_meta *in = &call->in[0]->meta, *out = &call->out->meta;
    if (call->literals || !gt__dtype_is_float((gt_dtype)out->dtype) ||
        !start(&w, call, forward ? in : out, forward ? out : in, &window) ||
        !set_sizes(w.p.kernel, window.kernel, call->ins->rank, 1) || in->numel == 0)
        return GT_CUDA_DECLINE;
    w.p.divisor = (double)window.divisor;
    w.p.count_padding = window.count_padding != 0;
    add_operand(work, &w, call, 0);
    launch_windows(work, &w, forward ? AVG : AVG_INPUT);
    return GT_OK;
}

gt_err gt__cuda_lower_max_pool(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    windows w;
    gt_window window;
    bool gathers = call->op == GT_OP_max_pool_input, positions = call->op == GT_OP_max_pool_index;
    const gt_meta *x = &call->in[positions ? 0 : 1]->meta, *y = gathers ? &call->in[0]->meta : &call->out->meta;
    if (call->literals || !start(&w, call, x, y, &window) ||
        !set_sizes(w.p.kernel, window.kernel, call->ins->rank, 1) || x->numel == 0 || y->numel == 0 ||
        (!positions && !gathers && call->in[0]->meta.dtype != call->out->meta.dtype))
        return GT_CUDA_DECLINE;
    for (unsigned k = 0; k < call->operands; k++)
        add_operand(work, &w, call, k);
    w.key.option[0] = positions ? MAX_POSITION : gathers ? MAX_SCRATCH : MAX_VALUE;
    if (!gathers) {
        launch_windows(work, &w, MAX);
        return GT_OK;
    }
    gt_cuda_operand places = gt__cuda_scratch(work, (size_t)y->numel * sizeof(int32_t));
    w.p.count = y->numel;
    gt__cuda_bind(launch_windows(work, &w, MAX), offsetof(params, scratch), &places);
    w.p.count = call->out->meta.numel;
    w.key.option[0] = 0;
    gt__cuda_bind(launch_windows(work, &w, MAX_INPUT), offsetof(params, scratch), &places);
    return GT_OK;
}

gt_err gt__cuda_lower_im2col(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    windows w;
    gt_window window = gt__window_read(call->tail);
    bool forward = call->op == GT_OP_im2col;
    gt_meta y = {.rank = call->ins->rank};
    memcpy(y.shape, forward ? window.size : window.from, sizeof window.size);
    if (call->literals || !start(&w, call, forward ? &call->in[0]->meta : &call->out->meta, &y, &window) ||
        !set_sizes(w.p.kernel, window.kernel, call->ins->rank, 1) || call->in[0]->meta.numel == 0 ||
        !is_small(w.p.kernel))
        return GT_CUDA_DECLINE;
    add_operand(work, &w, call, 0);
    if (forward)
        w.key.out = (uint8_t)gt__dtype_size((gt_dtype)call->out->meta.dtype);
    launch_windows(work, &w, forward ? COLUMNS : IMAGE);
    return GT_OK;
}
