/*
 * test_hostile.c: records of every computing op with whatever numbers a peer may have written into them. What inference
 * lets pass is run on both engines: nothing may be read or written outside its tensors, which the engines' results are
 * watched for and a sanitizer sees everywhere; and where both engines agree that it is no error, elements that are not
 * floats must agree, too, but for searches in what is not sorted.
 *
 * test_wire.c damages records and asks inference alone; test_engine.c asks for what is right.
 */
#include "engine_fixture.h"

#include "check.h"
#include "core/window.h"

enum { CASES = CHECK_SANITIZED ? 3000 : 20000, MOST_CASES = 20000, MOST_BYTES = 1 << 16 };

/* ---- numbers ------------------------------------------------------------------------------------------------ */

static int64_t any_integer(void)
{
    static const int64_t ends[] = {INT64_MIN,
                                   INT64_MAX,
                                   INT32_MIN,
                                   INT32_MAX,
                                   (int64_t)1 << 31,
                                   -((int64_t)1 << 31),
                                   (int64_t)1 << 61,
                                   -((int64_t)1 << 61),
                                   (int64_t)1 << 32,
                                   255,
                                   256,
                                   -129};
    int64_t which = draw_integer(0, 20);
    if (which == 0)
        return ends[draw_integer(0, (int64_t)(sizeof ends / sizeof *ends))];
    return which == 1 ? (int64_t)draw_bits() : draw_integer(-2, 6);
}

static double any_real(void)
{
    static const double ends[] = {0,     -0.0,   1,      -1,  INFINITY, -INFINITY, NAN,
                                  1e300, -1e300, 5e-324, 0.5, 2,        3,         1e19};
    return ends[draw_integer(0, (int64_t)(sizeof ends / sizeof *ends))];
}

static gt_imm any_imm(bool real)
{
    return real ? (gt_imm){.f = any_real()} : (gt_imm){.i = any_integer()};
}

static void any_shape(int64_t *sizes, int64_t rank)
{
    sizes[0] = rank;
    for (int64_t k = 1; k <= rank; k++)
        sizes[k] = draw_integer(0, 10) ? draw_integer(1, 4) : draw_integer(0, 7);
}

/* ---- operands ----------------------------------------------------------------------------------------------- */

typedef struct record {
    operation operation;
    tensor tensors[FIXTURE_OPERANDS];
    unsigned made;
} record;

static void record_free(record *r)
{
    while (r->made)
        tensor_free(&r->tensors[--r->made]);
}

/* Operands of a product with a sparse matrix, which those of other ops hardly ever are. */
static gt_dtype fit_sparse(gt_opcode op, unsigned k, int64_t *sizes)
{
    shape fitting[] = {{2, 2, 3}, {1, 3}, {2, 3, 2}};
    memcpy(sizes, fitting[k == 1 && op == GT_OP_sampled_mm ? 2 : k], sizeof fitting[0]);
    return k ? GT_FLOAT32 : GT_INT64;
}

/* The same of a product with a bias. */
static gt_dtype fit_linear(unsigned k, int64_t *sizes)
{
    shape fitting[] = {{2, 3, 4}, {2, 4, 2}, {1, 2}};
    memcpy(sizes, fitting[k], sizeof fitting[0]);
    return GT_FLOAT32;
}

/* The same of attention, whose first operand of the backward row is wider. */
static gt_dtype fit_attention(gt_opcode op, unsigned k, int64_t *sizes)
{
    shape fitting[] = {{2, 3, op == GT_OP_attention ? 2 : 5}, {2, 4, 2}, {2, 4, 3}};
    memcpy(sizes, fitting[k], sizeof fitting[0]);
    return GT_FLOAT32;
}

/* Shapes and dtypes that fit each other more often than not. */
static void any_operands(record *r, gt_opcode op, unsigned count)
{
    int64_t first[GT_MAX_RANK + 1], sizes[GT_MAX_RANK + 1];
    gt_dtype dtype = (gt_dtype)draw_integer(0, GT_DTYPE_COUNT);
    bool windows = gt__op_table[op].form >= GT_FORM_CONV && gt__op_table[op].form <= GT_FORM_RESAMPLE;
    any_shape(first, windows ? draw_integer(2, 6) : draw_integer(0, 5));
    r->operation = operation_new(op, count, NULL, NULL, NULL);
    for (unsigned k = 0; k < count; k++) {
        memcpy(sizes, first, sizeof sizes);
        if (draw_integer(0, 4) == 0)
            any_shape(sizes, draw_integer(0, 3) ? first[0] : draw_integer(0, 5));
        bool index = k == 1 && op >= GT_OP_take && op <= GT_OP_scatter_reduce;
        gt_dtype own = index ? GT_INT64 : draw_integer(0, 8) ? dtype : (gt_dtype)draw_integer(0, GT_DTYPE_COUNT);
        if (k == 0 && (op == GT_OP_where || op == GT_OP_mask_index))
            own = GT_BOOL;
        if (gt__op_table[op].form == GT_FORM_SPARSE && draw_integer(0, 8)) {
            own = fit_sparse(op, k, sizes);
            index = k == 0;
        }
        if (gt__op_table[op].form == GT_FORM_ATTENTION && draw_integer(0, 8))
            own = fit_attention(op, k, sizes);
        if (gt__op_table[op].form == GT_FORM_LINEAR && draw_integer(0, 8))
            own = fit_linear(k, sizes);
        layout how = (layout)draw_integer(0, LAYOUTS);
        r->tensors[k] =
            index && draw_integer(0, 8) ? index_new(own, sizes, how, 0, 2) : tensor_new(own, sizes, how, ANY);
        r->operation.in[k] = &r->tensors[k];
        r->made++;
        bool may = k && op != GT_OP_cat && draw_integer(0, 4) == 0;
        gt_literal kind = may ? (gt_literal)draw_integer(1, 4) : GT_LITERAL_NONE;
        if (kind == GT_LITERAL_BOOL) /* the worker makes them so */
            set_literal(&r->operation, k, kind, (gt_imm){.i = draw_integer(0, 2)});
        else if (kind)
            set_literal(&r->operation, k, kind, any_imm(kind == GT_LITERAL_FLOAT));
    }
}

/* ---- records ------------------------------------------------------------------------------------------------ */

static void any_window(record *r)
{
    gt_window w = {.groups = draw_integer(0, 4) ? 1 : any_integer(),
                   .divisor = any_integer(),
                   .count_padding = any_integer()};
    for (int axis = 0; axis < GT_MAX_SPATIAL; axis++) {
        w.kernel[axis] = draw_integer(0, 12) ? draw_integer(0, 4) : any_integer();
        w.stride[axis] = draw_integer(0, 4) ? draw_integer(1, 3) : any_integer();
        w.padding[axis] = draw_integer(0, 4) ? draw_integer(0, 3) : any_integer();
        w.dilation[axis] = draw_integer(0, 4) ? draw_integer(1, 3) : any_integer();
        w.size[axis] = draw_integer(0, 8) ? draw_integer(0, 5) : any_integer();
        w.from[axis] = draw_integer(0, 8) ? draw_integer(0, 5) : any_integer();
    }
    r->operation.ins.rank = (uint8_t)draw_integer(0, 5);
    gt__window_write(r->operation.tail, &w);
}

static void any_tail(record *r)
{
    for (int slot = 0; slot < FIXTURE_TAIL; slot++)
        for (int word = 0; word < 8; word++)
            r->operation.tail[slot].i64[word] = draw_integer(0, 6) ? draw_integer(0, 4) : any_integer();
}

/* The tail of a cat names its operands; here they are given. */
static void any_record(record *r, gt_opcode op)
{
    const gt_op_row *row = &gt__op_table[op];
    unsigned count = op == GT_OP_cat ? (unsigned)draw_integer(1, FIXTURE_OPERANDS) : row->operands;
    *r = (record){.made = 0};
    any_operands(r, op, count);
    gt_instruction *ins = &r->operation.ins;
    ins->dtype = (uint8_t)draw_integer(0, GT_DTYPE_COUNT);
    ins->flags = (uint8_t)(draw_bits() & (GT_FLAG_KEEPDIM | GT_FLAG_SMALLEST));
    ins->imm[0] = any_imm(draw_integer(0, 6) == 0);
    ins->imm[1] = any_imm(draw_integer(0, 2) == 0);
    ins->tail = (uint16_t)(row->tail > 0 ? row->tail : 0);
    if (op == GT_OP_cat)
        ins->imm[1].i = count;
    if (row->form >= GT_FORM_CONV && row->form <= GT_FORM_IM2COL) {
        any_window(r);
        return;
    }
    ins->rank = (uint8_t)draw_integer(0, 4);
    any_tail(r);
}

/* ---- running ------------------------------------------------------------------------------------------------ */

/* Loops of the plain engine over numbers of the record, not of its tensors, can take for ever. */
static bool is_patient(const record *r)
{
    const gt_op_row *row = &gt__op_table[r->operation.ins.op];
    gt_window w = gt__window_read(r->operation.tail);
    for (int axis = 0; axis < GT_MAX_SPATIAL && row->form >= GT_FORM_CONV && row->form <= GT_FORM_IM2COL; axis++)
        if (w.kernel[axis] > 1000 || w.size[axis] > 1000 || w.stride[axis] > 1000)
            return false;
    return true;
}

static bool run_record(record *r)
{
    const operation *o = &r->operation;
    const gt_meta *metas[FIXTURE_OPERANDS];
    gt_meta meta = {0};
    gt_dtype compute;
    gt_view views[2] = {{0}};
    bool overrun[2] = {false};
    for (unsigned k = 0; k < o->operands; k++)
        metas[k] = o->in[k] ? &o->in[k]->view.meta : NULL;
    if (gt__op_infer(&o->ins, o->tail, metas, &meta, &compute) != GT_OK)
        return false;
    if (gt__meta_bytes(&meta) > MOST_BYTES)
        return true;
    gt_err err = run_on(fixture_now.tested, o, &meta, compute, &views[0], &overrun[0]);
    if (is_patient(r)) {
        gt_err expected = run_on(fixture_now.reference, o, &meta, compute, &views[1], &overrun[1]);
        bool alike = err == GT_OK && expected == GT_OK && !gt__dtype_is_inexact((gt_dtype)meta.dtype);
        bool same = !alike || o->ins.op == GT_OP_searchsorted || first_difference(o, &views[1], &views[0]) < 0;
        if (!CHECK(same) && fixture_now.described++ < 8)
            describe(o, &meta, compute);
    }
    if (!CHECK(!overrun[0] && !overrun[1]))
        describe(o, &meta, compute);
    free(views[0].data);
    free(views[1].data);
    return true;
}

static void test_op(const void *argument)
{
    gt_opcode op = *(const gt_opcode *)argument;
    long passed = 0;
    fixture_state = op + 7000u;
    fixture_now.described = 0;
    for (int k = 0; k < CASES || (!passed && k < MOST_CASES); k++) {
        record r;
        any_record(&r, op);
        passed += run_record(&r);
        record_free(&r);
    }
    CHECK(passed > 0); /* else this tests nothing */
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    gt_engine_options options = {.threads = 2};
    if (gt__engine_reference.open(&options, &fixture_now.reference) != GT_OK ||
        gt__engine_cpu.open(&options, &fixture_now.tested) != GT_OK)
        return 1;
    for (unsigned op = 1; op < GT_OP_COUNT; op++) {
        const gt_op_row *row = &gt__op_table[op];
        bool views = row->form >= GT_FORM_RESHAPE && row->form <= GT_FORM_UNFOLD; /* no engine's, most of them */
        gt_opcode code = (gt_opcode)op;
        if (row->form != GT_FORM_CONTROL && row->form != GT_FORM_UPLOAD && !views)
            check_run(row->name, test_op, &code);
    }
    gt__engine_cpu.close(fixture_now.tested);
    gt__engine_reference.close(fixture_now.reference);
    return check_end();
}
