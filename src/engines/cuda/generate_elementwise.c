/*
 * generate_elementwise.c: the elementwise rows of the op table, and what is the same loop with another expression: copies,
 * casts, fills, concatenations and assignments to slices. device/elementwise.cuh has the kernel.
 *
 * Axes are collapsed here. Where all operands run along the innermost axis with stride 1 or 0 and are aligned, a thread
 * computes a vector; otherwise one element. Read generate.h and generate_family.h first.
 */
#include <string.h>

#include "core/convert.h"
#include "engines/cuda/generate_family.h"

/* ---- expressions -------------------------------------------------------------------------------------------- */

static const char *const expressions[GT_OP_COUNT] = {
#define UNARY(name, types, expr, grad) [GT_OP_##name] = #expr,
#define UNARY_PQ(name, types, expr, grad) [GT_OP_##name] = #expr,
#define BINARY(name, types, expr, grad) [GT_OP_##name] = #expr,
#define BINARY_PQ(name, types, expr, grad) [GT_OP_##name] = #expr,
#define TERNARY(name, types, expr, grad) [GT_OP_##name] = #expr,
#include "core/ops.def"
};

/* Rows with the numbers p and q. */
static const bool has_numbers[GT_OP_COUNT] = {
#define UNARY_PQ(name, types, expr, grad) [GT_OP_##name] = true,
#define BINARY_PQ(name, types, expr, grad) [GT_OP_##name] = true,
#include "core/ops.def"
};

/* The same for complex numbers: core/complex.def. */
static const struct {
    const char *expression, *type; /* of the result */
} complex_rows[GT_OP_COUNT] = {
#define COMPLEX(name, rule, expr) [GT_OP_##name] = {#expr, "T"},
#define COMPLEX_REAL(name, rule, expr) [GT_OP_##name] = {#expr, "R"},
#define COMPLEX_TRUTH(name, expr) [GT_OP_##name] = {#expr, "int32_t"},
#include "core/complex.def"
};

/* Their functions are on the host only: C's library has them. */
static bool is_on_host(gt_opcode op)
{
    switch ((unsigned)op) {
    case GT_OP_tan:
    case GT_OP_tanh:
    case GT_OP_asin:
    case GT_OP_acos:
    case GT_OP_atan:
    case GT_OP_asinh:
    case GT_OP_acosh:
    case GT_OP_atanh:
    case GT_OP_pow:
        return true;
    default:
        return false;
    }
}

/* Rows with functions of engines/special.h, which take long to compile. */
static bool is_special(gt_opcode op)
{
    switch ((unsigned)op) {
    case GT_OP_erfinv:
    case GT_OP_digamma:
    case GT_OP_erfcx:
    case GT_OP_ndtri:
    case GT_OP_log_ndtr:
    case GT_OP_i0:
    case GT_OP_i0e:
    case GT_OP_i1:
    case GT_OP_i1e:
    case GT_OP_polygamma:
    case GT_OP_bessel:
    case GT_OP_polynomial:
    case GT_OP_nextafter:
    case GT_OP_zeta:
    case GT_OP_igamma:
    case GT_OP_igammac:
    case GT_OP_standard_gamma_grad:
    case GT_OP_dirichlet_grad:
        return true;
    default:
        return false;
    }
}

bool gt__cuda_elementwise_covers(gt_opcode op)
{
    return expressions[op] != NULL;
}

/* Integer division, which fails if the divisor is 0. */
static bool divides_integers(gt_opcode op, gt_dtype compute)
{
    gt_cuda_type type = gt__cuda_type(compute);
    return (type == GT_CUDA_I32 || type == GT_CUDA_I64) &&
           (op == GT_OP_remainder || op == GT_OP_floor_divide || op == GT_OP_fmod || op == GT_OP_trunc_divide);
}

/* Whether there is a kernel. */
static bool is_covered(gt_opcode op, gt_dtype compute)
{
    return gt__dtype_is_complex(compute) ? complex_rows[op].expression && !is_on_host(op)
                                         : expressions[op] != NULL;
}

bool gt__cuda_chains(gt_opcode op, gt_dtype compute)
{
    return is_covered(op, compute) && !is_special(op) && !divides_integers(op, compute);
}

bool gt__cuda_has_numbers(gt_opcode op)
{
    return has_numbers[op];
}

const char *gt__cuda_expression(gt_opcode op, gt_dtype compute, const char **type)
{
    bool complex = gt__dtype_is_complex(compute);
    *type = complex ? complex_rows[op].type : "T";
    return complex ? complex_rows[op].expression : expressions[op];
}

/* ---- source ------------------------------------------------------------------------------------------------- */

/* Operands of copies are moved as they are where no conversion is needed. */
enum { VARIANT_EXPRESSION, VARIANT_CONVERT, VARIANT_MOVE };

/* Must agree with device/elementwise.cuh. */
enum { MODE_LITERAL, MODE_VECTOR, MODE_ONE, MODE_STRIDED };

static bool divides(const gt_cuda_key *key)
{
    return key->variant == VARIANT_EXPRESSION && divides_integers((gt_opcode)key->op, (gt_dtype)key->compute);
}

static const char *type_of_operand(const gt_cuda_key *key, unsigned dtype)
{
    return key->variant == VARIANT_MOVE ? gt__cuda_moved(dtype) : gt__cuda_dtype((gt_dtype)dtype);
}

void gt__cuda_write_elementwise(const gt_cuda_key *key, const char *name, gt_cuda_text *text)
{
    unsigned operands = key->option[0];
    const char *type = gt__cuda_type_name(gt__cuda_type((gt_dtype)key->compute));
    bool complex = key->variant == VARIANT_EXPRESSION && gt__dtype_is_complex((gt_dtype)key->compute);
    bool fills = key->variant == VARIANT_CONVERT && key->mode[0] == MODE_LITERAL;
    gt__cuda_add(text, "struct %s_k {\n", name);
    if (key->variant == VARIANT_MOVE)
        gt__cuda_add(text, "typedef %s::T T;\n", gt__cuda_moved(key->out));
    else
        gt__cuda_add(text, "typedef %s T;\n", type);
    if (complex)
        gt__cuda_add(text, "typedef %s R;\ntypedef R L;\n", key->compute == GT_COMPLEX64 ? "float" : "double");
    else
        gt__cuda_add(text, "typedef T L;\n");
    gt__cuda_add(text, "typedef %s I;\ntypedef %s DO;\n", key->wide ? "int64_t" : "int32_t",
                 type_of_operand(key, key->out));
    for (unsigned k = 0; k < GT_MAX_OPERANDS; k++) {
        bool rounds = k < operands && key->option[1] >> k & 1;
        bool literal = k >= operands || key->mode[k] == MODE_LITERAL;
        const char *number = fills ? gt__cuda_dtype(gt__dtype_real((gt_dtype)key->out)) : "DO";
        gt__cuda_add(text, "typedef %s D%u;\n", literal ? number : type_of_operand(key, key->in[k]), k);
        if (rounds)
            gt__cuda_add(text, "typedef %s R%u;\n", gt__cuda_dtype((gt_dtype)key->compute), k);
        else
            gt__cuda_add(text, "typedef gt_exact<T> R%u;\n", k);
    }
    gt__cuda_add(text, "enum { N = %u, M0 = %u, M1 = %u, M2 = %u, MO = %u, V = %u };\n", operands, key->mode[0],
                 key->mode[1], key->mode[2], key->mode[3], key->vector);
    const char *result = "T", *expression = "x";
    if (key->variant == VARIANT_EXPRESSION)
        expression = gt__cuda_expression((gt_opcode)key->op, (gt_dtype)key->compute, &result);
    gt__cuda_add(text,
                 "GT_F static %s apply(const gt_elementwise_params &params, T x, T y, T z, T p, T q)\n{\n%s"
                 "return (%s)(%s);\n}\n};\n",
                 result, divides(key) ? "if (y == 0)\ngt_report(params.errors, 1, 0, 0, 0);\n" : "", result,
                 expression);
    gt__cuda_add(text, "GT_ENTRY(%u) %s(GT_PARAM(gt_elementwise_params) p)\n{\ngt_elementwise<%s_k>(p);\n}\n",
                 GT_CUDA_BLOCK, name, name);
}

/* ---- launches ----------------------------------------------------------------------------------------------- */

typedef struct params {
    void *out;
    const void *in[3];
    void *errors;
    uint64_t value[3];
    uint64_t pq[2];
    int64_t count;
    int64_t tail;
    int64_t rank;
    int64_t shape[GT_MAX_RANK];
    int64_t stride[4][GT_MAX_RANK];
    int64_t step[4];
} params;

_Static_assert(sizeof(params) <= GT_CUDA_PARAM_MAX, "parameters fit");
_Static_assert(offsetof(params, in) == sizeof(void *),
               "the same place as in generate_transpose.c: gt__cuda_bind_move");

/* A loop with `operands` inputs and a result, before it is shaped into a launch. */
typedef struct elementwise {
    gt_cuda_key key;
    params p;
    unsigned operands;
    size_t size[4]; /* of elements: the operands', and at [operands] the result's */
    gt_loop loop;   /* views: the operands, then the result */
} elementwise;

static void *address(const elementwise *e, unsigned view)
{
    return view < e->operands ? (void *)(uintptr_t)e->p.in[view] : e->p.out;
}

static bool is_literal(const elementwise *e, unsigned view)
{
    return view < e->operands && e->key.mode[view] == MODE_LITERAL;
}

/* How many elements a thread may compute at once. One where there are fewer than `fewest`: their strided kernel is as fast,
 * and one kernel less to compile. */
static unsigned choose_vector(const elementwise *e, int64_t fewest)
{
    const gt_loop *loop = &e->loop;
    int last = loop->rank - 1;
    size_t least = 16;
    int64_t count = 1;
    for (int axis = 0; axis < loop->rank; axis++)
        count *= loop->shape[axis];
    if (count < fewest)
        return 1;
    for (unsigned k = 0; k <= e->operands; k++)
        if (!is_literal(e, k) && e->size[k] < least)
            least = e->size[k];
    int64_t vector = 16 / (int64_t)least < 8 ? 16 / (int64_t)least : 8;
    if (last > 0 && loop->shape[last] % vector != 0)
        return 1;
    for (unsigned k = 0; k <= e->operands; k++) {
        size_t bytes = e->size[k] * (size_t)vector;
        int64_t stride = loop->stride[k][last];
        if (is_literal(e, k))
            continue;
        if (stride != 1 && !(stride == 0 && k < e->operands))
            return 1;
        if (stride == 0)
            continue;
        if ((uintptr_t)address(e, k) % (bytes < 16 ? bytes : 16))
            return 1;
        for (int axis = 0; axis < last; axis++)
            if (loop->stride[k][axis] % vector != 0)
                return 1;
    }
    return (unsigned)vector;
}

/* Whether offsets, and the numbers of vectors, need 64 bits. */
static bool is_wide(const gt_loop *loop)
{
    int64_t count = 1;
    for (int view = 0; view < loop->views; view++) {
        int64_t reach = 0;
        for (int axis = 0; axis < loop->rank; axis++) {
            int64_t stride = loop->stride[view][axis];
            reach += (loop->shape[axis] - 1) * (stride < 0 ? -stride : stride);
        }
        if (reach >= INT32_MAX)
            return true;
    }
    for (int axis = 0; axis < loop->rank; axis++)
        count *= loop->shape[axis];
    return count >= INT32_MAX / 2;
}

/* Fill in what follows from the loop, and launch. */
static gt_cuda_launch *launch_loop(gt_cuda_work *work, elementwise *e)
{
    gt_loop *loop = &e->loop;
    gt__loop_collapse(loop);
    unsigned vector = choose_vector(e, work->fewest);
    int last = loop->rank - 1;
    int64_t count = 1;
    for (int axis = 0; axis < loop->rank; axis++) {
        e->p.shape[axis] = axis == last ? loop->shape[axis] / vector : loop->shape[axis];
        count *= e->p.shape[axis];
    }
    for (unsigned k = 0; k <= e->operands; k++) {
        unsigned to = k < e->operands ? k : 3;
        int64_t step = loop->stride[k][last];
        memcpy(e->p.stride[to], loop->stride[k], (size_t)loop->rank * sizeof(int64_t));
        e->p.stride[to][last] = step * vector;
        e->p.step[to] = step;
        if (!is_literal(e, k))
            e->key.mode[to] = vector == 1 ? MODE_STRIDED : step == 0 ? MODE_ONE : MODE_VECTOR;
    }
    e->p.count = count;
    e->p.tail = loop->rank == 1 ? loop->shape[0] % vector : 0;
    e->p.rank = loop->rank;
    e->key.vector = (uint8_t)vector;
    e->key.wide = is_wide(loop);
    e->key.option[0] = e->operands;
    gt_cuda_launch *launch = gt__cuda_launch(work, GT_CUDA_ELEMENTWISE, &e->p, sizeof e->p);
    e->key.family = is_special((gt_opcode)e->key.op) ? GT_CUDA_SPECIAL : GT_CUDA_ELEMENTWISE;
    launch->key = e->key;
    launch->grid[0] = gt__cuda_blocks(count > e->p.tail ? count : e->p.tail, GT_CUDA_BLOCK);
    if (divides(&e->key))
        launch->errors_at = offsetof(params, errors);
    return launch;
}

static void start(elementwise *e, gt_opcode op, gt_dtype compute, unsigned operands, const gt_view *out)
{
    memset(&e->key, 0, sizeof e->key);
    e->p.out = out->data;
    e->p.pq[0] = e->p.pq[1] = 0;
    for (unsigned k = 0; k < GT_MAX_OPERANDS; k++)
        e->p.in[k] = NULL, e->p.value[k] = 0;
    e->p.errors = NULL;
    e->operands = operands;
    e->key.op = (uint16_t)op;
    e->key.compute = (uint8_t)compute;
    e->key.out = out->meta.dtype;
    e->size[operands] = gt__dtype_size((gt_dtype)out->meta.dtype);
    gt__loop_start(&e->loop, &out->meta);
}

static void add_operand(elementwise *e, unsigned k, const gt_view *view)
{
    gt__loop_add(&e->loop, view);
    e->p.in[k] = view->data;
    e->size[k] = gt__dtype_size((gt_dtype)view->meta.dtype);
    e->key.in[k] = view->meta.dtype;
    e->key.mode[k] = MODE_STRIDED;
}

static void add_literal(elementwise *e, unsigned k, const gt_view *view, gt_imm value, gt_dtype compute)
{
    gt__loop_add(&e->loop, view);
    e->size[k] = 0;
    e->key.mode[k] = MODE_LITERAL;
    e->p.value[k] = gt__cuda_number((gt_dtype)view->meta.dtype, value, gt__dtype_real(compute));
}

/* x ** y for the few literals y that need no logarithm, as PyTorch does. */
gt_opcode gt__cuda_power(gt_dtype compute, gt_dtype literal, gt_imm number)
{
    double y = literal == GT_FLOAT64 ? number.f
               : literal == GT_INT64 ? (double)number.i
                                     : (double)*(const uint8_t *)&number;
    if (y == 2)
        return GT_OP_square;
    if (!gt__dtype_is_float(compute))
        return GT_OP_pow;
    return y == 0.5 ? GT_OP_sqrt : y == -0.5 ? GT_OP_rsqrt : y == -1 ? GT_OP_reciprocal : GT_OP_pow;
}

bool gt__cuda_rounds(gt_opcode op, unsigned k, const gt_meta *operand, gt_dtype compute)
{
    bool kept = operand->numel == 1 && gt__number_dtype(op, k, false, compute) != compute;
    return operand->dtype != compute && !kept && !gt__dtype_is_complex(compute) && compute != GT_FLOAT32 &&
           compute != GT_FLOAT64 && compute != GT_INT64 && compute != GT_INT32;
}

gt_err gt__cuda_lower_elementwise(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    elementwise e;
    bool complex = gt__dtype_is_complex(call->compute);
    gt_opcode op = call->op;
    if (op == GT_OP_pow && call->literals == 2 && !complex)
        op = gt__cuda_power(call->compute, (gt_dtype)call->in[1]->meta.dtype, call->value[1]);
    unsigned operands = op == call->op ? call->operands : 1;
    if (!is_covered(op, call->compute))
        return GT_CUDA_DECLINE;
    start(&e, op, call->compute, operands, call->out);
    for (unsigned k = 0; k < operands; k++) {
        const gt_view *view = call->in[k];
        if (gt__dtype_is_complex((gt_dtype)view->meta.dtype) && !complex)
            return GT_CUDA_DECLINE;
        if (call->literals >> k & 1) {
            add_literal(&e, k, view, call->value[k], gt__number_dtype(call->op, k, true, call->compute));
            continue;
        }
        add_operand(&e, k, view);
        if (gt__cuda_rounds(call->op, k, &view->meta, call->compute))
            e.key.option[1] |= 1u << k;
    }
    gt__loop_add(&e.loop, call->out);
    e.p.pq[0] = gt__cuda_real(call->ins->imm[0].f, gt__dtype_real(call->compute));
    e.p.pq[1] = gt__cuda_real(call->ins->imm[1].f, gt__dtype_real(call->compute));
    launch_loop(work, &e);
    return GT_OK;
}

/* ---- copies ------------------------------------------------------------------------------------------------- */

gt_cuda_launch *gt__cuda_move(gt_cuda_work *work, const gt_view *out, const gt_view *in)
{
    elementwise e;
    bool converts = out->meta.dtype != in->meta.dtype;
    gt_cuda_launch *transposed;
    if (out->meta.numel == 0)
        return NULL;
    if ((transposed = gt__cuda_transpose(work, out, in)))
        return transposed;
    start(&e, GT_OP_copy, (gt_dtype)(converts ? in->meta.dtype : 0), 1, out);
    add_operand(&e, 0, in);
    gt__loop_add(&e.loop, out);
    e.key.variant = converts ? VARIANT_CONVERT : VARIANT_MOVE;
    if (!converts)
        e.key.in[0] = e.key.out = (uint8_t)e.size[0];
    return launch_loop(work, &e);
}

gt_cuda_operand gt__cuda_operand(gt_cuda_work *work, const gt_view *view, gt_dtype dtype)
{
    if (view->contiguous && view->meta.dtype == dtype)
        return (gt_cuda_operand){.address = (uintptr_t)view->data};
    gt_view copy = *view;
    int64_t stride = 1;
    gt_cuda_operand place = gt__cuda_scratch(work, (size_t)view->meta.numel * gt__dtype_size(dtype));
    for (int axis = view->meta.rank - 1; axis >= 0; axis--) {
        copy.stride[axis] = stride;
        stride *= view->meta.shape[axis];
    }
    copy.meta.dtype = (uint8_t)dtype;
    copy.data = (void *)(uintptr_t)place.address; /* an offset: as well aligned as the address */
    gt__cuda_bind_move(gt__cuda_move(work, &copy, view), &place, NULL);
    return place;
}

void gt__cuda_bind_move(gt_cuda_launch *launch, const gt_cuda_operand *out, const gt_cuda_operand *in)
{
    if (launch && out)
        gt__cuda_bind(launch, offsetof(params, out), out);
    if (launch && in)
        gt__cuda_bind(launch, offsetof(params, in), in);
}

gt_cuda_launch *gt__cuda_fill(gt_cuda_work *work, const gt_view *out, gt_dtype dtype, gt_imm number)
{
    elementwise e;
    gt_view literal = {.contiguous = true, .meta = {.numel = 1, .dtype = (uint8_t)dtype}};
    if (out->meta.numel == 0)
        return NULL;
    start(&e, GT_OP_full, gt__dtype_real((gt_dtype)out->meta.dtype), 1, out);
    add_literal(&e, 0, &literal, number, (gt_dtype)out->meta.dtype);
    gt__loop_add(&e.loop, out);
    e.key.variant = VARIANT_CONVERT;
    return launch_loop(work, &e);
}

/* COPY, CAST, and RESHAPE where it must copy: the elements in order, so the shapes may differ. */
gt_err gt__cuda_lower_copy(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    gt_view flat = *call->out;
    if (call->literals)
        return GT_CUDA_DECLINE;
    if (!gt__meta_same_shape(&call->in[0]->meta,
                             &call->out->meta)) { /* the result is contiguous: take the operand's shape */
        uint8_t dtype = flat.meta.dtype;
        int64_t stride = 1;
        flat.meta = call->in[0]->meta;
        flat.meta.dtype = dtype;
        for (int axis = flat.meta.rank - 1; axis >= 0; axis--) {
            flat.stride[axis] = stride;
            stride *= flat.meta.shape[axis];
        }
    }
    gt__cuda_move(work, &flat, call->in[0]);
    return GT_OK;
}

gt_err gt__cuda_lower_full(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    gt_dtype dtype = (gt_dtype)call->out->meta.dtype;
    bool complex = gt__dtype_is_complex(dtype);
    if (complex && call->ins->imm[1].f != 0)
        return GT_CUDA_DECLINE;
    gt__cuda_fill(work, call->out, complex || gt__dtype_is_float(dtype) ? GT_FLOAT64 : GT_INT64,
                  call->ins->imm[0]);
    return GT_OK;
}

/* One launch an operand, unless they are small. `more` is the number of the next one. */
gt_err gt__cuda_lower_cat(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    int64_t axis = call->ins->imm[0].i, before = 0;
    if (call->literals)
        return GT_CUDA_DECLINE;
    if (work->more == 0 && gt__cuda_join(call, work))
        return GT_OK;
    for (unsigned k = 0; k < call->operands; k++) {
        const gt_view *in = call->in[k];
        if (k >= work->more && in->meta.numel > 0) {
            if (work->count == GT_CUDA_LAUNCHES) {
                work->more = k;
                return GT_OK;
            }
            gt_view part = *call->out;
            uint8_t dtype = part.meta.dtype;
            part.meta = in->meta;
            part.meta.dtype = dtype;
            part.data =
                (char *)part.data + before * call->out->stride[axis] * (int64_t)gt__dtype_size((gt_dtype)dtype);
            gt__cuda_move(work, &part, in);
        }
        before += in->meta.shape[axis];
    }
    work->more = 0;
    return GT_OK;
}

gt_err gt__cuda_lower_assign(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    (void)device;
    const gt_view *out = call->out;
    const int64_t *from = call->tail[0].i64, *step = call->tail[1].i64, *count = call->tail[2].i64;
    gt_view slice = *out;
    if (out->data != call->in[0]->data)
        gt__cuda_move(work, out, call->in[0]);
    slice.meta.numel = 1;
    slice.contiguous = false;
    for (int axis = 0; axis < out->meta.rank; axis++) {
        slice.meta.shape[axis] = count[axis];
        slice.meta.numel *= count[axis];
        slice.data = (char *)slice.data +
                     from[axis] * out->stride[axis] * (int64_t)gt__dtype_size((gt_dtype)out->meta.dtype);
        slice.stride[axis] *= count[axis] > 1 ? step[axis] : 1; /* else the step may be too large to multiply */
    }
    if (call->literals >> 1 & 1)
        gt__cuda_fill(work, &slice, (gt_dtype)call->in[1]->meta.dtype, call->value[1]);
    else
        gt__cuda_move(work, &slice, call->in[1]);
    return GT_OK;
}
