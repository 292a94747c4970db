/*
 * test_cuda_conv.c: convolutions on the CUDA engine against `reference`: dtypes, groups, strides, dilations, padding on one side,
 * operands that are not dense or not aligned, recorded programs. On the fake driver also: which order of axes cuDNN was asked
 * for, a cuDNN that fails, and memory that is short.
 */
#include <dlfcn.h>
#include <math.h>

#include "check.h"
#include "core/half.h"
#include "core/window.h"
#include "engine_calls.h"
#include "engines/plan.h"

enum { MOST = 1 << 16, KINDS = 3 };

static const gt_opcode kinds[KINDS] = {GT_OP_conv, GT_OP_conv_input, GT_OP_conv_weight};

typedef enum layout { DENSE, CHANNELS_LAST, SHIFTED } layout; /* of operand 0 */

typedef struct conv_case {
    const char *name;
    int spatial;
    int64_t images, channels, outputs, groups;
    int64_t size[3], kernel[3], stride[3], padding[3], dilation[3];
    int64_t behind[3]; /* more padding behind the end */
    layout layout;
    bool bias;
} conv_case;

static const conv_case cases[] = {
    {"3x3", 2, 2, 8, 16, 1, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, DENSE, false},
    {"3x3 with a bias", 2, 2, 8, 16, 1, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, DENSE, true},
    {"1x1", 2, 3, 16, 24, 1, {5, 4}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, DENSE, true},
    {"1x1, stride 2", 2, 2, 8, 8, 1, {7, 8}, {1, 1}, {2, 2}, {0, 0}, {1, 1}, {0, 0}, DENSE, false},
    {"7x7, stride 2, three channels",
     2,
     2,
     3,
     8,
     1,
     {12, 13},
     {7, 7},
     {2, 2},
     {3, 3},
     {1, 1},
     {0, 0},
     DENSE,
     false},
    {"groups", 2, 2, 8, 12, 4, {5, 5}, {3, 2}, {1, 2}, {1, 0}, {1, 1}, {0, 0}, DENSE, true},
    {"depthwise", 2, 2, 8, 8, 8, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, DENSE, false},
    {"dilation", 2, 1, 4, 4, 1, {9, 8}, {3, 3}, {1, 1}, {2, 1}, {2, 3}, {0, 0}, DENSE, false},
    {"padding behind the end", 2, 1, 4, 4, 1, {6, 6}, {3, 4}, {1, 1}, {0, 1}, {1, 1}, {2, 1}, DENSE, false},
    {"channels last already", 2, 2, 8, 8, 1, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, CHANNELS_LAST, true},
    {"not aligned", 2, 2, 8, 8, 1, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, SHIFTED, false},
    {"one axis", 1, 2, 8, 8, 2, {17}, {4}, {2}, {1}, {1}, {0}, DENSE, true},
    {"three axes", 3, 1, 4, 8, 1, {4, 5, 6}, {2, 3, 3}, {1, 1, 2}, {0, 1, 1}, {1, 1, 1}, {0, 0, 0}, DENSE, true},
};

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static void store(gt_dtype dtype, void *to, int64_t at, double value)
{
    switch (dtype) {
    case GT_FLOAT64:
        ((double *)to)[at] = value;
        break;
    case GT_FLOAT32:
        ((float *)to)[at] = (float)value;
        break;
    case GT_FLOAT16:
        ((uint16_t *)to)[at] = gt__float_to_half((float)value);
        break;
    default:
        ((uint16_t *)to)[at] = gt__float_to_bfloat16((float)value);
    }
}

static double load(gt_dtype dtype, const void *from, int64_t at)
{
    return dtype == GT_FLOAT64   ? ((const double *)from)[at]
           : dtype == GT_FLOAT32 ? (double)((const float *)from)[at]
           : dtype == GT_FLOAT16 ? (double)gt__half_to_float(((const uint16_t *)from)[at])
                                 : (double)gt__bfloat16_to_float(((const uint16_t *)from)[at]);
}

/* Sums of a few hundred products of numbers below one; of the largest result. */
static double tolerance(gt_dtype dtype, bool fast)
{
    return dtype == GT_FLOAT64    ? 1e-12
           : dtype == GT_BFLOAT16 ? 1.2e-2
           : dtype == GT_FLOAT16  ? 2e-3
           : fast                 ? 2e-3
                                  : 1e-5;
}

/* ---- calls -------------------------------------------------------------------------------------------------------- */

/* A convolution on one engine, with everything it points to. */
typedef struct conv_call {
    gt_call call;
    gt_slot record[1 + GT_WINDOW_TAIL];
    gt_view in[3], out;
    const gt_view *views[3];
    void *memory[4];
} conv_call;

static void set_view(gt_view *view, gt_dtype dtype, int rank, const int64_t *shape)
{
    *view = (gt_view){.contiguous = true};
    CHECK_EQ(gt__meta_set(&view->meta, dtype, (unsigned)rank, shape), GT_OK);
    int64_t stride = 1;
    for (int axis = rank - 1; axis >= 0; axis--) {
        view->stride[axis] = stride;
        stride *= shape[axis];
    }
}

static void set_shapes(conv_call *c, const conv_case *k, gt_opcode op, gt_dtype dtype)
{
    int64_t x[5] = {k->images, k->channels}, y[5] = {k->images, k->outputs},
            w[5] = {k->outputs, k->channels / k->groups};
    gt_window window = {.groups = k->groups};
    for (int axis = 0; axis < k->spatial; axis++) {
        int64_t span = (k->kernel[axis] - 1) * k->dilation[axis] + 1;
        x[2 + axis] = k->size[axis];
        w[2 + axis] = k->kernel[axis];
        y[2 + axis] = (k->size[axis] + 2 * k->padding[axis] + k->behind[axis] - span) / k->stride[axis] + 1;
        window.kernel[axis] = k->kernel[axis];
        window.stride[axis] = k->stride[axis];
        window.padding[axis] = k->padding[axis];
        window.dilation[axis] = k->dilation[axis];
    }
    const int64_t *out = op == GT_OP_conv ? y : op == GT_OP_conv_input ? x : w;
    memcpy(window.size, out + 2, sizeof window.size);
    gt__window_write(c->record + 1, &window);
    set_view(&c->in[0], dtype, 2 + k->spatial, op == GT_OP_conv ? x : y);
    set_view(&c->in[1], dtype, 2 + k->spatial, op == GT_OP_conv_weight ? x : w);
    set_view(&c->out, dtype, 2 + k->spatial, out);
    if (k->bias && op != GT_OP_conv_weight)
        set_view(&c->in[2], dtype, 1, &out[1]);
    else
        c->in[2] = (gt_view){.contiguous = true, .meta = {.numel = 1, .dtype = GT_INT64}};
}

/* Strides of operand 0 other than those of a dense tensor. */
static void set_layout(conv_call *c, layout wanted)
{
    gt_view *x = &c->in[0];
    if (wanted != CHANNELS_LAST)
        return;
    int64_t stride = x->meta.shape[1];
    x->stride[1] = 1;
    for (int axis = x->meta.rank - 1; axis >= 2; axis--) {
        x->stride[axis] = stride;
        stride *= x->meta.shape[axis];
    }
    x->contiguous = false;
}

/* The same numbers on every engine, rounded to `rounded`. */
static void *upload(gt_engine *engine, gt_view *view, gt_dtype rounded, unsigned seed, int64_t shift)
{
    gt_dtype dtype = (gt_dtype)view->meta.dtype;
    size_t size = gt__dtype_size(dtype), bytes = ((size_t)view->meta.numel + (size_t)shift) * size;
    static _Alignas(64) char host[MOST * sizeof(double)];
    double number;
    gt_token token = 0;
    for (int64_t k = 0; k < view->meta.numel; k++) {
        seed = seed * 1664525u + 1013904223u;
        store(rounded, &number, 0, (double)(seed >> 8) / (1 << 23) - 1);
        store(dtype, host, k + shift, load(rounded, &number, 0));
    }
    void *memory = take_memory(engine, bytes);
    CHECK_EQ(engine->ops->write(engine, memory, host, bytes, false, &token), GT_OK);
    view->data = (char *)memory + (size_t)shift * size;
    return memory;
}

static void prepare(conv_call *c, gt_engine *engine, const conv_case *k, gt_opcode op, gt_dtype dtype,
                    gt_dtype rounded, bool fast)
{
    *c = (conv_call){.call = {.op = op, .compute = dtype, .operands = op == GT_OP_conv_weight ? 2 : 3}};
    gt_instruction *ins = &c->record[0].ins;
    ins->op = (uint16_t)op;
    ins->rank = (uint8_t)k->spatial;
    ins->tail = GT_WINDOW_TAIL;
    ins->imm[0].i = fast ? GT_PRODUCT_FAST : GT_PRODUCT_EXACT;
    set_shapes(c, k, op, dtype);
    set_layout(c, k->layout);
    for (unsigned n = 0; n < 3; n++)
        c->views[n] = &c->in[n];
    for (unsigned n = 0; n < 3; n++)
        if (c->in[n].meta.rank > 0)
            c->memory[n] = upload(engine, &c->in[n], rounded, 7 + n, n == 0 && k->layout == SHIFTED ? 1 : 0);
    c->out.data = c->memory[3] = take_memory(engine, gt__meta_bytes(&c->out.meta));
    c->call.ins = ins;
    c->call.tail = c->record + 1;
    c->call.in = c->views;
    c->call.out = &c->out;
    if (op != GT_OP_conv_weight && !c->memory[2]) {
        c->call.literals = 1 << 2;
        ins->literals = GT_LITERAL_INT << 4;
    }
}

static void fetch(conv_call *c, gt_engine *engine, double *result)
{
    gt_dtype dtype = (gt_dtype)c->out.meta.dtype;
    static _Alignas(64) char host[MOST * sizeof(double)];
    gt_token token = 0;
    CHECK_EQ(engine->ops->read(engine, c->out.data, host, gt__meta_bytes(&c->out.meta), false, &token), GT_OK);
    for (gt_completion done = {0}; done.token < token;) {
        if (!CHECK(engine->ops->completed(engine, true, &done)))
            return;
        CHECK_EQ(done.err, GT_OK);
    }
    for (int64_t k = 0; k < c->out.meta.numel; k++)
        result[k] = load(dtype, host, k);
}

static void release(conv_call *c, gt_engine *engine)
{
    const gt_view *views[] = {&c->in[0], &c->in[1], &c->in[2], &c->out};
    for (int k = 0; k < 4; k++)
        if (c->memory[k]) {
            size_t shifted = (size_t)((char *)views[k]->data - (char *)c->memory[k]);
            engine->ops->release(engine, c->memory[k], gt__meta_bytes(&views[k]->meta) + shifted);
        }
}

static double expected[MOST], actual[MOST];

/* In float64, by `reference`. */
static double expect(gt_engine *reference, const conv_case *k, gt_opcode op, gt_dtype rounded)
{
    conv_call c;
    gt_token token = 0;
    double largest = 0;
    prepare(&c, reference, k, op, GT_FLOAT64, rounded, false);
    CHECK_EQ(reference->ops->run(reference, &c.call, &token), GT_OK);
    memcpy(expected, c.out.data, gt__meta_bytes(&c.out.meta));
    for (int64_t n = 0; n < c.out.meta.numel; n++)
        largest = fmax(largest, fabs(expected[n]));
    release(&c, reference);
    return largest;
}

static void check_close(const conv_case *k, gt_opcode op, gt_dtype dtype, const gt_meta *meta, double limit)
{
    double worst = 0;
    for (int64_t n = 0; n < meta->numel; n++) {
        double off = fabs(actual[n] - expected[n]);
        worst = off <= worst ? worst : off; /* also where it is no number */
    }
    if (!CHECK(worst <= limit))
        fprintf(stderr, "%s, %s, %s: off by %g, at most %g\n", k->name, gt__op_table[op].name,
                gt__dtype_name(dtype), worst, limit);
}

static void check_case(gt_engine *engine, gt_engine *reference, const conv_case *k, gt_opcode op, gt_dtype dtype,
                       bool fast)
{
    conv_call c;
    gt_token token = 0;
    double largest = expect(reference, k, op, dtype);
    prepare(&c, engine, k, op, dtype, dtype, fast);
    for (int run = 0; run < 2; run++) /* the second one finds the choice made */
        CHECK_EQ(engine->ops->run(engine, &c.call, &token), GT_OK);
    fetch(&c, engine, actual);
    check_close(k, op, dtype, &c.out.meta, largest * tolerance(dtype, fast));
    release(&c, engine);
}

/* ---- tests ----------------------------------------------------------------------------------------------------------- */

/* How often the fake cuDNN ran, by the order of axes; NULL on a card. */
static const unsigned *executed(void)
{
    void *library = getenv("FAKE_CUDA_MEMORY") ? dlopen("libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD) : NULL;
    return library ? dlsym(library, "fake_dnn_executed") : NULL;
}

static void check_cases(const gt_dtype *dtypes, int count, bool fast)
{
    gt_engine *engine = open_engine("cuda"), *reference = open_engine("reference");
    for (size_t k = 0; engine && reference && k < sizeof cases / sizeof cases[0]; k++)
        for (int op = 0; op < KINDS; op++)
            for (int d = 0; d < count; d++)
                check_case(engine, reference, &cases[k], kinds[op], dtypes[d], fast);
    for (int op = 0; engine && op < KINDS; op++)
        CHECK_EQ(engine->ops->host_calls(engine, kinds[op]), 0);
    if (engine)
        engine->ops->close(engine);
    if (reference)
        reference->ops->close(reference);
}

static const gt_dtype all_dtypes[] = {GT_FLOAT32, GT_FLOAT16, GT_BFLOAT16, GT_FLOAT64};

static void test_dtypes(const void *argument)
{
    (void)argument;
    check_cases(all_dtypes, 4, false);
    check_cases(all_dtypes, 1, true);
}

/* Large enough for the fake card to measure; a real one does not care for less than a millisecond of `reference`. */
static void test_measured(const void *argument)
{
    (void)argument;
    static const conv_case large = {"measured", 2,      2,      32,     48,     1,     {14, 14},
                                    {3, 3},     {1, 1}, {1, 1}, {1, 1}, {0, 0}, DENSE, true};
    static const conv_case product = {
        "measured product", 2, 2, 64, 96, 1, {12, 12}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, DENSE, false};
    gt_engine *engine = open_engine("cuda"), *reference = open_engine("reference");
    for (int op = 0; engine && reference && op < KINDS; op++)
        for (int d = 0; d < 3; d++) {
            check_case(engine, reference, &large, kinds[op], all_dtypes[d], true);
            check_case(engine, reference, &product, kinds[op], all_dtypes[d], true);
        }
    if (engine)
        engine->ops->close(engine);
    if (reference)
        reference->ops->close(reference);
}

/* One order of axes has plans: operands are copied where it is the other one. */
static void test_order_of_axes(const void *argument)
{
    const char *order = argument;
    bool last = strcmp(order, "last") == 0;
    setenv("FAKE_CUDNN_LAYOUT", order, true);
    check_cases(all_dtypes, 3, true);
    unsetenv("FAKE_CUDNN_LAYOUT");
    const unsigned *counts = executed();
    if (CHECK(counts != NULL))
        CHECK(counts[last] > 0);
}

static void test_failing_library(const void *argument)
{
    (void)argument;
    setenv("FAKE_CUDNN_FAIL", "1", true);
    check_cases(all_dtypes, 1, false);
    unsetenv("FAKE_CUDNN_FAIL");
}

static void test_program(const void *argument)
{
    (void)argument;
    const conv_case *k = &cases[1];
    gt_engine *engine = open_engine("cuda"), *reference = open_engine("reference");
    if (!engine || !reference)
        return;
    conv_call c;
    double largest = expect(reference, k, GT_OP_conv, GT_FLOAT32);
    prepare(&c, engine, k, GT_OP_conv, GT_FLOAT32, GT_FLOAT32, false);
    uint32_t operands[] = {0, 1, 2};
    gt_plan_value values[4];
    gt_plan_buffer buffers[4];
    const gt_view *views[] = {&c.in[0], &c.in[1], &c.in[2], &c.out};
    void *addresses[4];
    for (uint32_t n = 0; n < 4; n++) {
        values[n] = (gt_plan_value){.buffer = n, .view = *views[n]};
        values[n].view.data = NULL;
        buffers[n] = (gt_plan_buffer){.bytes = gt__meta_bytes(&views[n]->meta),
                                      .role = n < 3 ? GT_PLAN_INPUT : GT_PLAN_OUTPUT};
        addresses[n] = views[n]->data;
    }
    gt_plan_step step = {.op = GT_OP_conv,
                         .compute = GT_FLOAT32,
                         .record = c.record,
                         .operands = 3,
                         .operand = operands,
                         .result = 3};
    gt_plan plan = {.steps = &step,
                    .step_count = 1,
                    .values = values,
                    .value_count = 4,
                    .buffers = buffers,
                    .buffer_count = 4};
    gt_program *program = NULL;
    CHECK_EQ(engine->ops->compile(engine, &plan, &program), GT_OK);
    for (int run = 0; run < 5; run++) { /* step by step, recorded, replayed */
        unsigned failed;
        gt_token token = 0;
        CHECK_EQ(engine->ops->run_program(engine, program, addresses, false, &failed, &token), GT_OK);
        fetch(&c, engine, actual);
        check_close(k, GT_OP_conv, GT_FLOAT32, &c.out.meta, largest * tolerance(GT_FLOAT32, false));
    }
    engine->ops->free_program(engine, program);
    release(&c, engine);
    engine->ops->close(engine);
    reference->ops->close(reference);
}

/* No memory is left for a workspace: the generated kernel needs none. */
static void test_memory_is_short(const void *argument)
{
    (void)argument;
    enum { PARTS = 20000 };
    static void *parts[PARTS];
    static const size_t sizes[] = {16 << 20, 1 << 20, 64 << 10, 1 << 10};
    size_t taken[PARTS], count = 0;
    const conv_case *k = &cases[0];
    gt_engine *engine = open_engine("cuda"), *reference = open_engine("reference");
    if (!engine || !reference)
        return;
    conv_call c;
    gt_token token = 0;
    double largest = expect(reference, k, GT_OP_conv, GT_FLOAT32);
    prepare(&c, engine, k, GT_OP_conv, GT_FLOAT32, GT_FLOAT32, false);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        while (count < PARTS && (parts[count] = take_memory(engine, sizes[s])))
            taken[count++] = sizes[s];
    CHECK(count < PARTS);
    CHECK_EQ(engine->ops->run(engine, &c.call, &token), GT_OK);
    fetch(&c, engine, actual);
    check_close(k, GT_OP_conv, GT_FLOAT32, &c.out.meta, largest * tolerance(GT_FLOAT32, false));
    while (count--)
        engine->ops->release(engine, parts[count], taken[count]);
    release(&c, engine);
    engine->ops->close(engine);
    reference->ops->close(reference);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    const gt_engine_ops *ops;
    if (gt__engine_find("cuda", &ops) != GT_OK) {
        printf("skipped: %s\n", gt_error_text());
        return check_end();
    }
    check_run("dtypes", test_dtypes, NULL);
    check_run("measured", test_measured, NULL);
    check_run("program", test_program, NULL);
    if (getenv("FAKE_CUDA_MEMORY")) {
        check_run("channels first", test_order_of_axes, "first");
        check_run("channels last", test_order_of_axes, "last");
        check_run("a library that fails", test_failing_library, NULL);
        check_run("memory is short", test_memory_is_short, NULL);
    }
    return check_end();
}
