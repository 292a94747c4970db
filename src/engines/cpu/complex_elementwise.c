/*
 * complex_elementwise.c: runs the elementwise rows of core/complex.def.
 *
 * One loop per row and precision, over runs of elements with any stride. An operand of another dtype is converted in small
 * pieces first. There is less here than for real numbers (elementwise.c): one path, no instruction sets.
 */
#include <complex.h>
#include <math.h>

#include "engines/cpu/complex.h"
#include "engines/cpu/movement.h"

/* out[k] = f(x[k * step[0]], y[k * step[1]], z[k * step[2]]); out is contiguous and may be x. */
typedef void (*run_kernel)(void *out, const void *const *in, const int64_t *step, int64_t count);

/* The first loop is one that compilers vectorise. */
#define LOOP(name, T, expr)                                                                                       \
    static void N(run_##name)(void *out, const void *const *in, const int64_t *step, int64_t count)               \
    {                                                                                                             \
        const C *xs = in[0], *ys = in[1], *zs = in[2];                                                            \
        T *to = out;                                                                                              \
        if (step[0] == 1 && step[1] == 1 && step[2] == 1)                                                         \
            for (int64_t k = 0; k < count; k++) {                                                                 \
                const C x = xs[k], y = ys[k], z = zs[k];                                                          \
                (void)x, (void)y, (void)z;                                                                        \
                to[k] = (T)(expr);                                                                                \
            }                                                                                                     \
        else                                                                                                      \
            for (int64_t k = 0; k < count; k++) {                                                                 \
                const C x = xs[k * step[0]], y = ys[k * step[1]], z = zs[k * step[2]];                            \
                (void)x, (void)y, (void)z;                                                                        \
                to[k] = (T)(expr);                                                                                \
            }                                                                                                     \
    }

#define C float _Complex
#define R float
#define F(name) name##f
#define N(name) name##_c64
#include "engines/complex_template.h"
#define COMPLEX(name, rule, expr) LOOP(name, C, expr)
#define COMPLEX_REAL(name, rule, expr) LOOP(name, R, expr)
#define COMPLEX_TRUTH(name, expr) LOOP(name, uint8_t, expr)
#include "core/complex.def"
#include "engines/cpu/complex_lines_template.h"
#include "engines/complex_template_end.h"

#define C double _Complex
#define R double
#define F(name) name
#define N(name) name##_c128
#include "engines/complex_template.h"
#define COMPLEX(name, rule, expr) LOOP(name, C, expr)
#define COMPLEX_REAL(name, rule, expr) LOOP(name, R, expr)
#define COMPLEX_TRUTH(name, expr) LOOP(name, uint8_t, expr)
#include "core/complex.def"
#include "engines/cpu/complex_lines_template.h"
#include "engines/complex_template_end.h"

static const run_kernel kernels[GT_OP_COUNT][2] = {
#define PAIR(name) [GT_OP_##name] = {run_##name##_c64, run_##name##_c128},
#define COMPLEX(name, rule, expr) PAIR(name)
#define COMPLEX_REAL(name, rule, expr) PAIR(name)
#define COMPLEX_TRUTH(name, expr) PAIR(name)
#include "core/complex.def"
};

void gt__cpu_complex_fold(gt_dtype dtype, bool product, const void *row, int64_t count, void *out)
{
    if (dtype == GT_COMPLEX64)
        *(float _Complex *)out = fold_c64(product, row, count);
    else
        *(double _Complex *)out = fold_c128(product, row, count);
}

void gt__cpu_complex_scan(gt_dtype dtype, bool product, void *row, int64_t count)
{
    if (dtype == GT_COMPLEX64)
        scan_c64(product, row, count);
    else
        scan_c128(product, row, count);
}

/* The same powers that elementwise.c knows, as PyTorch does; NULL: it is another one. */
static run_kernel choose_power(const gt_view *exponent, unsigned wide)
{
    double y;
    if (exponent->meta.numel != 1 || gt__dtype_is_complex((gt_dtype)exponent->meta.dtype))
        return NULL;
    gt__cpu_row_mover(GT_FLOAT64, (gt_dtype)exponent->meta.dtype)(&y, 1, exponent->data, 1, 1);
    gt_opcode op = y == 2.0 ? GT_OP_square : y == 0.5 ? GT_OP_sqrt : y == -0.5 ? GT_OP_rsqrt : GT_OP_reciprocal;
    return y == 2.0 || y == 0.5 || y == -0.5 || y == -1.0 ? kernels[op][wide] : NULL;
}

/* ---- the loop ----------------------------------------------------------------------------------------------- */

enum { PIECE = 256 };

typedef struct elementwise {
    gt_loop loop; /* views: the operands, then out */
    gt_dtype compute;
    unsigned operands;
    const char *in[3];
    int64_t in_size[3];
    gt_row_mover convert[3]; /* NULL: it has the dtype already */
    char *out;
    int64_t out_size;
    run_kernel kernel;
} elementwise;

static void run_piece(const elementwise *e, const int64_t *offset, int64_t start, int64_t count, int64_t out)
{
    double _Complex room[3][PIECE];
    const void *in[3] = {NULL};
    int64_t step[3] = {0};
    int last = e->loop.rank - 1;
    for (unsigned k = 0; k < e->operands; k++) {
        step[k] = e->loop.stride[k][last];
        in[k] = e->in[k] + (offset[k] + start * step[k]) * e->in_size[k];
        if (e->convert[k]) {
            e->convert[k](room[k], 1, in[k], step[k], count);
            in[k] = room[k];
            step[k] = 1;
        }
    }
    for (unsigned k = e->operands; k < 3; k++) { /* read, but not used */
        in[k] = in[0];
        step[k] = step[0];
    }
    e->kernel(e->out + out * e->out_size, in, step, count);
}

/* Positions are elements of the result, which is contiguous. */
static void run_elements(void *context, int64_t begin, int64_t end)
{
    const elementwise *e = context;
    bool converts = e->convert[0] || e->convert[1] || e->convert[2];
    int64_t width = e->loop.shape[e->loop.rank - 1], offset[GT_LOOP_VIEWS];
    while (begin < end) {
        int64_t column = begin % width, count = gt__min(width - column, end - begin);
        count = converts ? gt__min(count, PIECE) : count;
        gt__loop_offsets(&e->loop, e->loop.rank - 1, begin / width, offset);
        run_piece(e, offset, column, count, begin);
        begin += count;
    }
}

gt_err gt__cpu_complex_elementwise(gt_engine *engine, const gt_call *call)
{
    unsigned wide = call->compute == GT_COMPLEX128;
    elementwise e = {.compute = call->compute,
                     .operands = call->operands,
                     .out = call->out->data,
                     .out_size = (int64_t)gt__dtype_size((gt_dtype)call->out->meta.dtype),
                     .kernel = kernels[call->op][wide]};
    if (!e.kernel)
        return gt__fail(GT_ERR_UNSUPPORTED, "the cpu engine does not compute %s of complex numbers",
                        gt__op_table[call->op].name);
    run_kernel power = call->op == GT_OP_pow ? choose_power(call->in[1], wide) : NULL;
    if (power)
        e.kernel = power;
    gt__loop_start(&e.loop, &call->out->meta);
    for (unsigned k = 0; k < call->operands; k++) {
        gt_dtype dtype = (gt_dtype)call->in[k]->meta.dtype;
        gt__loop_add(&e.loop, call->in[k]);
        e.in[k] = call->in[k]->data;
        e.in_size[k] = (int64_t)gt__dtype_size(dtype);
        e.convert[k] = dtype == call->compute ? NULL : gt__cpu_row_mover(call->compute, dtype);
    }
    gt__loop_add(&e.loop, call->out);
    gt__loop_collapse(&e.loop);
    if (call->out->meta.numel > 0)
        gt__parallel_for(gt__cpu(engine)->parallel, call->out->meta.numel, GT_CPU_GRAIN / 8, run_elements, &e);
    return GT_OK;
}
