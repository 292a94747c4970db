/*
 * engine_fixture.h: one instruction, run on two engines, and the results compared. For test_engine.c and test_hostile.c.
 *
 * A case is an instruction with tensors of some dtype, shape, layout and kind of values. Its result's shape and
 * dtype come from gt__op_infer, as in a worker, so inference and engines are tested together.
 *
 * An engine on host memory computes on the tensors in place. Others get copies by alloc and write, and the result
 * comes back by read; those that finish later are waited for, by token.
 */
#ifndef GT_TESTS_ENGINE_FIXTURE_H
#define GT_TESTS_ENGINE_FIXTURE_H

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engines/engine.h"
#include "engines/reference/reference.h"

/* ---- random choices ---------------------------------------------------------------------------------------- */

static uint64_t fixture_state = 1;

static uint64_t draw_bits(void)
{
    uint64_t z = fixture_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/*
 * Start the draws of a row by its name (FNV-1a), so that a new row in the table changes no other row's operands. Every seed
 * must pass: GT_TEST_SEED=n draws other operands, to find a tolerance that only luck keeps.
 */
static inline void draw_seed(const char *name)
{
    const char *other = getenv("GT_TEST_SEED");
    fixture_state = 0xcbf29ce484222325u;
    for (const char *c = name; *c; c++)
        fixture_state = (fixture_state ^ (uint8_t)*c) * 0x100000001b3u;
    fixture_state += other ? strtoull(other, NULL, 10) * 0xd1342543de82ef95u : 0;
}

/* low <= x < high */
static int64_t draw_integer(int64_t low, int64_t high)
{
    return low + (int64_t)(draw_bits() % (uint64_t)(high - low));
}

static double draw_real(double low, double high)
{
    return low + (double)(draw_bits() >> 11) * 0x1p-53 * (high - low);
}

/* ---- tensors ----------------------------------------------------------------------------------------------- */

typedef enum layout {
    CONTIGUOUS,
    TRANSPOSED, /* column-major */
    STEPPED,    /* every second element of a larger tensor */
    NEGATIVE,   /* flipped along every axis */
    REPEATED,   /* expanded along the first axis */
    LAYOUTS
} layout;

typedef enum values {
    ANY,      /* also infinities, NaN, both zeros and the ends of the integer range */
    PLAIN,    /* moderate numbers, zero now and then */
    NONZERO,  /* moderate numbers without zero */
    NEAR_ONE, /* products of many of them stay in range */
    FEW,      /* a handful of different numbers: ties */
} values;

typedef struct tensor {
    gt_view view;
    void *memory;
    size_t bytes; /* at memory */
} tensor;

/* Shapes are written as {rank, sizes...}. */
typedef int64_t shape[GT_MAX_RANK + 1];

static double choose_real(values kind)
{
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e30, -1e-30, 40000.0};
    if (kind == ANY && draw_integer(0, 12) == 0)
        return special[draw_integer(0, 8)];
    if (kind == FEW)
        return draw_integer(0, 16) ? (double)draw_integer(-3, 4) * 0.5 : special[draw_integer(0, 5)];
    if (kind == NEAR_ONE)
        return (draw_integer(0, 2) ? 1 : -1) * draw_real(0.85, 1.18);
    if (kind == NONZERO)
        return (draw_integer(0, 2) ? 1 : -1) * draw_real(0.1, 4);
    return draw_integer(0, 16) ? draw_real(-4, 4) : 0;
}

static int64_t choose_integer(values kind)
{
    static const int64_t special[] = {INT32_MAX, INT32_MIN, 255, -128, 0};
    if (kind == ANY && draw_integer(0, 12) == 0)
        return special[draw_integer(0, 5)];
    if (kind == FEW)
        return draw_integer(-3, 4);
    if (kind == NEAR_ONE)
        return draw_integer(0, 2) ? 1 : draw_integer(-1, 3);
    int64_t value = draw_integer(-100, 101);
    return kind == NONZERO && value == 0 ? 1 : value;
}

static void set_row_major(gt_view *view)
{
    int64_t stride = 1;
    for (int axis = view->meta.rank - 1; axis >= 0; axis--) {
        view->stride[axis] = stride;
        stride *= view->meta.shape[axis];
    }
    view->contiguous = true;
}

/* What a worker would say: row-major without gaps, whatever the strides of axes of size 1. */
static bool is_contiguous(const gt_view *view)
{
    int64_t stride = 1;
    for (int axis = view->meta.rank - 1; axis >= 0; axis--) {
        if (view->meta.shape[axis] != 1 && view->stride[axis] != stride)
            return false;
        stride *= view->meta.shape[axis];
    }
    return true;
}

/* Strides of a layout; returns the elements of memory it spans and where element 0 lies. */
static int64_t lay_out(gt_view *view, layout how, int64_t *first)
{
    int rank = view->meta.rank;
    int64_t span = view->meta.numel, stride = 1;
    *first = 0;
    set_row_major(view);
    for (int axis = 0; axis < rank; axis++) {
        if (how == TRANSPOSED) {
            view->stride[axis] = stride;
            stride *= view->meta.shape[axis];
        } else if (how == STEPPED) {
            view->stride[axis] *= 2;
        } else if (how == NEGATIVE) {
            *first += view->stride[axis] * (view->meta.shape[axis] - 1);
            view->stride[axis] *= -1;
        } else if (how == REPEATED && axis == 0) {
            span = view->meta.shape[0] ? span / view->meta.shape[0] : 0;
            view->stride[0] = 0;
        }
    }
    view->contiguous = is_contiguous(view);
    return how == STEPPED && span ? 2 * span - 1 : span;
}

static void fill(gt_view *memory, values kind)
{
    for (int64_t k = 0; k < memory->meta.numel; k++) {
        if (gt__dtype_is_complex(memory->meta.dtype))
            gt__reference_put_complex(memory, k, __builtin_complex(choose_real(kind), choose_real(kind)));
        else if (gt__dtype_is_float(memory->meta.dtype))
            gt__reference_put_real(memory, k, choose_real(kind));
        else
            gt__reference_put_integer(memory, k, choose_integer(kind));
    }
}

static tensor tensor_new(gt_dtype dtype, const int64_t *sizes, layout how, values kind)
{
    tensor t = {0};
    int64_t first;
    if (gt__meta_set(&t.view.meta, dtype, (unsigned)sizes[0], sizes + 1) != GT_OK)
        abort();
    int64_t span = lay_out(&t.view, how, &first);
    /* Exactly as much as the view reaches, so that a sanitizer sees the first element beyond. */
    t.bytes = (size_t)span * gt__dtype_size(dtype);
    t.memory = malloc(t.bytes);
    gt_view all = {.data = t.memory,
                   .meta = {.numel = span, .dtype = (uint8_t)dtype, .rank = 1, .shape = {span}},
                   .stride = {1}};
    fill(&all, kind);
    t.view.data = span ? (char *)t.memory + first * (int64_t)gt__dtype_size(dtype) : t.memory;
    return t;
}

static void tensor_free(tensor *t)
{
    free(t->memory);
}

/* An index tensor with numbers in [low, high). */
static tensor index_new(gt_dtype dtype, const int64_t *sizes, layout how, int64_t low, int64_t high)
{
    tensor t = tensor_new(dtype, sizes, how, PLAIN);
    for (int64_t k = 0; k < t.view.meta.numel; k++)
        gt__reference_put_integer(&t.view, k, draw_integer(low, high));
    return t;
}

/* ---- cases -------------------------------------------------------------------------------------------------- */

enum { FIXTURE_OPERANDS = 8, FIXTURE_TAIL = 4 };

typedef struct operation {
    gt_instruction ins;
    gt_slot tail[FIXTURE_TAIL];
    unsigned operands;
    const tensor *in[FIXTURE_OPERANDS]; /* NULL: a literal */
    double terms;                       /* how many rounded numbers add up in one result */
    bool exact;                         /* floats, too, must be equal */
    bool in_place;                      /* the result takes operand 0's memory */
} operation;

typedef struct fixture {
    gt_engine *reference;
    gt_engine *tested;
    long cases;
    long refused; /* by inference: not a case for an engine */
    long failed;
    long described; /* failures of the running test, of which only the first are printed */
    long every;     /* run one case of so many; 0: all */
    long turn;
} fixture;

static fixture fixture_now;

/* One case of so many runs; 0: all. With another engine than cpu one of seven: what is new on most of them is how calls and data come
 * and go, not the kernels. GT_TEST_EVERY says otherwise. */
static inline long cases_left_out(void)
{
    const char *every = getenv("GT_TEST_EVERY");
    return every ? atol(every) : getenv("GT_TEST_ENGINE") ? 7 : 0;
}

/* Engines to compare with the reference. GT_TEST_ENGINE: another engine than cpu. */
static inline gt_err fixture_open(int threads)
{
    const char *name = getenv("GT_TEST_ENGINE");
    const gt_engine_ops *ops;
    GT_TRY(gt__engine_reference.open(&(gt_engine_options){0}, &fixture_now.reference));
    GT_TRY(gt__engine_find(name ? name : "cpu", &ops));
    return ops->open(&(gt_engine_options){.threads = threads}, &fixture_now.tested);
}

static inline void fixture_close(void)
{
    fixture_now.tested->ops->close(fixture_now.tested);
    fixture_now.reference->ops->close(fixture_now.reference);
}

static operation operation_new(gt_opcode op, unsigned operands, const tensor *a, const tensor *b, const tensor *c)
{
    return (operation){.ins = {.op = (uint16_t)op}, .operands = operands, .in = {a, b, c}, .terms = 1};
}

static void set_literal(operation *o, unsigned k, gt_literal kind, gt_imm value)
{
    o->in[k] = NULL;
    o->ins.literals |= (uint8_t)(kind << (2 * k));
    o->ins.literal[k] = value;
}

static inline void set_shape(operation *o, gt_dtype dtype, const int64_t *sizes)
{
    o->ins.dtype = (uint8_t)dtype;
    o->ins.rank = (uint8_t)sizes[0];
    memcpy(o->tail[0].i64, sizes + 1, (size_t)sizes[0] * sizeof(int64_t));
    o->ins.tail = 1;
}

static void describe(const operation *o, const gt_meta *out, gt_dtype compute)
{
    char text[128];
    fprintf(stderr, "  %s -> %s%s, computed in %s, imm %lld %lld, flags %u\n", gt__op_table[o->ins.op].name,
            gt__dtype_name(out->dtype), gt__shape_text(out->rank, out->shape, text, sizeof text),
            gt__dtype_name(compute), (long long)o->ins.imm[0].i, (long long)o->ins.imm[1].i, o->ins.flags);
    for (unsigned k = 0; k < o->operands; k++) {
        if (!o->in[k]) {
            fprintf(stderr, "    operand %u: a literal\n", k);
            continue;
        }
        const gt_view *view = &o->in[k]->view;
        fprintf(stderr, "    operand %u: %s%s", k, gt__dtype_name(view->meta.dtype),
                gt__shape_text(view->meta.rank, view->meta.shape, text, sizeof text));
        fprintf(stderr, " strides %s\n", gt__shape_text(view->meta.rank, view->stride, text, sizeof text));
    }
}

/* How far apart two results may be, relative to their size; sums may cancel, so their terms count. */
static double tolerance(gt_dtype dtype, double terms)
{
    double unit = dtype == GT_FLOAT64   ? 0x1p-50
                  : dtype == GT_FLOAT32 ? 0x1p-21
                  : dtype == GT_FLOAT16 ? 0x1p-9
                                        : 0x1p-6;
    return unit * sqrt(terms) * (terms > 1 ? 4 : 1);
}

static bool same_number(double x, double y, double relative)
{
    if (isnan(x) || isnan(y))
        return isnan(x) && isnan(y);
    if (x == y)
        return true;
    return isfinite(x) && isfinite(y) && fabs(x - y) <= relative * fmax(1, fmax(fabs(x), fabs(y)));
}

/* By the larger part: the smaller one may cancel. Which part overflows first is a matter of precision. */
static bool same_complex(double _Complex x, double _Complex y, double relative)
{
    bool finite_x = isfinite(creal(x)) && isfinite(cimag(x)), finite_y = isfinite(creal(y)) && isfinite(cimag(y));
    if (!finite_x || !finite_y)
        return finite_x == finite_y;
    double size = fmax(1, fmax(fmax(fabs(creal(x)), fabs(cimag(x))), fmax(fabs(creal(y)), fabs(cimag(y)))));
    double allowed = relative * size;
    return same_number(creal(x), creal(y), allowed) && same_number(cimag(x), cimag(y), allowed);
}

/* The first element that differs, or -1. */
static int64_t first_difference(const operation *o, const gt_view *expected, const gt_view *actual)
{
    gt_dtype dtype = (gt_dtype)expected->meta.dtype;
    double relative = o->exact ? 0 : tolerance(gt__dtype_real(dtype), o->terms);
    for (int64_t k = 0; k < expected->meta.numel; k++) {
        if (gt__dtype_is_complex(dtype)
                ? !same_complex(gt__reference_complex(expected, k), gt__reference_complex(actual, k), relative)
            : gt__dtype_is_float(dtype)
                ? !same_number(gt__reference_real(expected, k), gt__reference_real(actual, k), relative)
                : gt__reference_integer(expected, k) != gt__reference_integer(actual, k))
            return k;
    }
    return -1;
}

enum { CANARY = 64, CANARY_BYTE = 0xa5 };

/* The views of an operation as the engine gets them, and the memory that was allocated for them there. */
typedef struct resolved {
    gt_view in[FIXTURE_OPERANDS], out;
    const gt_view *views[FIXTURE_OPERANDS];
    struct {
        void *memory;
        size_t bytes;
    } copies[FIXTURE_OPERANDS + 1];
    unsigned copied;
} resolved;

static void must(gt_err err)
{
    if (err) {
        fprintf(stderr, "an engine failed to move data: %s\n", gt_error_text());
        abort();
    }
}

/* A copy of host memory in the engine's. */
static void *copy_to(gt_engine *engine, resolved *op, const void *host, size_t bytes)
{
    void *memory;
    must(engine->ops->alloc(engine, bytes, &memory));
    must(engine->ops->write(engine, memory, host, bytes, false, &(gt_token){0}));
    op->copies[op->copied].memory = memory;
    op->copies[op->copied++].bytes = bytes;
    return memory;
}

/* The result comes back to `host`, and the engine's memory is released; the failure of `token` and its text. Release
 * does not wait: memory is in use until the engine comes to it. */
static gt_err copy_back(gt_engine *engine, resolved *op, void *host, size_t bytes, gt_token token)
{
    gt_token last = 0;
    gt_err err = GT_OK;
    gt_completion completion = {0};
    must(engine->ops->read(engine, op->out.data, host, bytes, false, &last));
    while (op->copied--)
        engine->ops->release(engine, op->copies[op->copied].memory, op->copies[op->copied].bytes);
    while (completion.token < last && engine->ops->completed(engine, true, &completion))
        if (completion.err) {
            err = completion.err;
            gt__error_set("%s", completion.text);
            must(completion.token == token ? GT_OK : err);
        }
    must(completion.token == last ? GT_OK : gt__fail(GT_ERR_INTERNAL, "the last token is not completed"));
    return err;
}

static void set_operands(const operation *o, resolved *op)
{
    static const gt_dtype literal_dtypes[] = {
        [GT_LITERAL_BOOL] = GT_BOOL, [GT_LITERAL_INT] = GT_INT64, [GT_LITERAL_FLOAT] = GT_FLOAT64};
    for (unsigned k = 0; k < o->operands; k++) {
        op->views[k] = &op->in[k];
        if (o->in[k])
            op->in[k] = o->in[k]->view;
        else
            op->in[k] = (gt_view){.meta = {.numel = 1, .dtype = (uint8_t)literal_dtypes[gt__literal(&o->ins, k)]},
                                  .contiguous = true};
    }
    if (o->in_place)
        op->in[0] = op->out;
}

/* Operands and the place of the result in the engine's memory; `out` has what is to be there. */
static void copy_operands(gt_engine *engine, const operation *o, resolved *op, const void *out, size_t bytes)
{
    op->out.data = copy_to(engine, op, out, bytes);
    for (unsigned k = 0; k < o->operands; k++)
        if (o->in[k] && !(k == 0 && o->in_place)) {
            const tensor *t = o->in[k];
            char *copy = copy_to(engine, op, t->memory, t->bytes);
            op->in[k].data = copy + ((char *)t->view.data - (char *)t->memory);
        }
    if (o->in_place)
        op->in[0].data = op->out.data;
}

/* Run on one engine into fresh memory, which the caller frees; bytes beyond the result must stay as they were. */
static gt_err run_on(gt_engine *engine, const operation *o, const gt_meta *meta, gt_dtype compute, gt_view *out,
                     bool *overrun)
{
    size_t bytes = gt__meta_bytes(meta);
    bool direct = engine->ops->host_memory && !engine->ops->asynchronous;
    *out = (gt_view){.data = aligned_alloc(64, (bytes + CANARY + 63) / 64 * 64), .meta = *meta};
    set_row_major(out);
    memset(out->data, CANARY_BYTE, bytes + CANARY);
    if (o->in_place)
        memcpy(out->data, o->in[0]->view.data, bytes);
    resolved op = {.out = *out};
    set_operands(o, &op);
    if (!direct)
        copy_operands(engine, o, &op, out->data, bytes + CANARY);
    gt_call call = {.op = (gt_opcode)o->ins.op,
                    .compute = compute,
                    .ins = &o->ins,
                    .tail = o->tail,
                    .operands = o->operands,
                    .in = op.views,
                    .out = &op.out};
    for (unsigned k = 0; k < o->operands; k++)
        if (!o->in[k]) {
            call.literals |= (uint8_t)(1 << k);
            call.value[k] = o->ins.literal[k];
        }
    gt_token token = 0;
    gt_err err = engine->ops->run(engine, &call, &token);
    if (!direct) {
        gt_err later = copy_back(engine, &op, out->data, bytes + CANARY, token);
        err = err ? err : later;
    }
    *overrun = false;
    for (size_t k = bytes; k < bytes + CANARY; k++)
        *overrun |= ((uint8_t *)out->data)[k] != CANARY_BYTE;
    return err;
}

/* One case: infer, run on both engines, compare; failures are described on stderr. */
static inline gt_err run_case(const operation *o)
{
    const gt_meta *metas[FIXTURE_OPERANDS];
    gt_meta meta = {0};
    gt_dtype compute;
    gt_view expected, actual;
    bool overrun, unused;
    for (unsigned k = 0; k < o->operands; k++)
        metas[k] = o->in[k] ? &o->in[k]->view.meta : NULL;
    gt_err refused = gt__op_infer(&o->ins, o->tail, metas, &meta, &compute);
    if (refused) {
        fixture_now.refused++;
        return refused;
    }
    if (fixture_now.every && fixture_now.turn++ % fixture_now.every)
        return GT_OK;
    gt_err expected_err = run_on(fixture_now.reference, o, &meta, compute, &expected, &unused);
    gt_err actual_err = run_on(fixture_now.tested, o, &meta, compute, &actual, &overrun);
    int64_t where = expected_err || actual_err ? -1 : first_difference(o, &expected, &actual);
    fixture_now.cases++;
    if (expected_err != actual_err || where >= 0 || overrun) {
        fixture_now.failed++;
        if (fixture_now.described++ < 3) {
            fprintf(stderr, "the engines differ%s:\n",
                    overrun ? ", and memory beyond the result was written" : "");
            describe(o, &meta, compute);
            if (where >= 0)
                fprintf(stderr, "    element %lld: expected %.17g, got %.17g\n", (long long)where,
                        gt__reference_real(&expected, where), gt__reference_real(&actual, where));
            else
                fprintf(stderr, "    expected error %d, got %d (%s)\n", expected_err, actual_err, gt_error_text());
        }
    }
    free(expected.data);
    free(actual.data);
    return actual_err;
}

#endif
