/*
 * record_examples.h: one valid record for every row of the op table, with the operands it goes with and the result
 * that it must have. A new form gets its example here, and test_wire.c and test_chain.c then try it in every way
 * they know.
 */
#ifndef GT_TESTS_RECORD_EXAMPLES_H
#define GT_TESTS_RECORD_EXAMPLES_H

#include "check.h"
#include "core/fft.h"
#include "core/instruction.h"
#include "core/window.h"

enum { EXAMPLE_SLOTS = 8, EXAMPLE_CAT = 9 };

typedef struct example {
    gt_slot record[EXAMPLE_SLOTS];
    gt_meta operand[GT_MAX_OPERANDS];
    const gt_meta *in[EXAMPLE_CAT];
    gt_meta expected;
} example;

#define META(meta, dtype_, ...)                                                                                   \
    CHECK_EQ(gt__meta_set((meta), (dtype_), sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                   \
                          (int64_t[]){__VA_ARGS__}),                                                              \
             GT_OK)

static inline void set_words(gt_slot *slot, int64_t a, int64_t b, int64_t c)
{
    slot->i64[0] = a;
    slot->i64[1] = b;
    slot->i64[2] = c;
}

static inline bool on_bits(const gt_op_row *row)
{
    return row->types == GT_TYPES_BITS || row->types == GT_TYPES_INT;
}

/* What a float32 operand becomes (int32, of rows on bits). */
static inline gt_dtype dtype_by_row(const gt_op_row *row)
{
    if (on_bits(row))
        return GT_INT32;
    return row->types == GT_TYPES_BOOL ? GT_BOOL : row->types == GT_TYPES_INDEX ? GT_INT64 : GT_FLOAT32;
}

static inline void expect_shape(example *e, gt_dtype dtype, const gt_meta *like)
{
    e->expected = *like;
    e->expected.dtype = (uint8_t)dtype;
}

static inline void example_slice(example *e)
{
    set_words(&e->record[1], 1, 2, 0);
    set_words(&e->record[2], 1, -1, 2);
    set_words(&e->record[3], 1, 3, 2);
}

static inline void example_matrix(example *e)
{
    META(&e->operand[0], GT_FLOAT32, 2, 3, 3);
    switch ((gt_opcode)e->record->ins.op) {
    case GT_OP_det:
        META(&e->expected, GT_FLOAT32, 2);
        break;
    case GT_OP_slogdet:
        META(&e->expected, GT_FLOAT32, 2, 2);
        break;
    case GT_OP_lu:
        META(&e->operand[0], GT_FLOAT32, 2, 4, 3);
        META(&e->expected, GT_FLOAT32, 2, 5, 4);
        break;
    case GT_OP_ldl:
        META(&e->operand[0], GT_COMPLEX64, 2, 3, 3);
        META(&e->expected, GT_COMPLEX64, 2, 4, 3);
        break;
    case GT_OP_geqrf:
        META(&e->operand[0], GT_FLOAT32, 2, 4, 3);
        META(&e->expected, GT_FLOAT32, 2, 5, 3);
        break;
    case GT_OP_qr:
        META(&e->operand[0], GT_FLOAT32, 2, 4, 3);
        META(&e->expected, GT_FLOAT32, 2, 7, 3);
        break;
    case GT_OP_svd:
        e->record->ins.imm[0].i = 1; /* all vectors */
        META(&e->operand[0], GT_FLOAT32, 2, 3, 4);
        META(&e->expected, GT_FLOAT32, 2, 8, 4);
        break;
    case GT_OP_eigh:
        META(&e->expected, GT_FLOAT32, 2, 4, 3);
        break;
    case GT_OP_eig:
        META(&e->expected, GT_COMPLEX64, 2, 4, 3);
        break;
    case GT_OP_pinv:
        META(&e->operand[0], GT_FLOAT32, 2, 3, 4);
        META(&e->expected, GT_FLOAT32, 2, 4, 3);
        break;
    default:
        META(&e->expected, GT_FLOAT32, 2, 3, 3);
        break;
    }
}

static inline void example_compute(gt_form form, example *e, gt_dtype dtype)
{
    gt_instruction *ins = &e->record->ins;
    gt_meta *a = &e->operand[0], *b = &e->operand[1], *c = &e->operand[2];
    META(a, GT_FLOAT32, 2, 3, 4);
    expect_shape(e, dtype, a);
    switch (form) {
    case GT_FORM_BINARY:
        META(b, GT_FLOAT32, 3, 1);
        break;
    case GT_FORM_TERNARY:
        META(a, GT_BOOL, 4);
        META(b, GT_FLOAT32, 3, 1);
        META(c, GT_FLOAT32, 2, 1, 1);
        break;
    case GT_FORM_REDUCE:
        ins->imm[0].u = 5;
        ins->flags = GT_FLAG_KEEPDIM;
        META(&e->expected, dtype, 1, 3, 1);
        break;
    case GT_FORM_ARGREDUCE:
        ins->imm[0].i = 1;
        META(&e->expected, dtype, 2, 4);
        break;
    case GT_FORM_SCAN:
    case GT_FORM_SOFTMAX:
    case GT_FORM_ARGSORT:
        ins->imm[0].i = 2;
        break;
    case GT_FORM_SOFTMAX_BACKWARD:
        ins->imm[0].i = 2;
        META(b, GT_FLOAT32, 2, 3, 4);
        break;
    case GT_FORM_MATMUL:
        META(b, GT_FLOAT32, 4, 5);
        META(&e->expected, dtype, 2, 3, 5);
        break;
    case GT_FORM_LINEAR:
        META(b, GT_FLOAT32, 4, 5);
        META(c, GT_FLOAT32, 5);
        META(&e->expected, dtype, 2, 3, 5);
        break;
    case GT_FORM_SPARSE:
        META(a, GT_INT64, 2, 5);
        if (ins->op == GT_OP_sparse_mm)
            META(b, GT_FLOAT32, 5);
        else
            META(b, GT_FLOAT32, 6, 4);
        META(c, GT_FLOAT32, 3, 4);
        ins->imm[0].i = 6;
        META(&e->expected, GT_FLOAT32, 5);
        if (ins->op == GT_OP_sparse_mm)
            META(&e->expected, GT_FLOAT32, 6, 4);
        break;
    case GT_FORM_ATTENTION:
        META(b, GT_FLOAT32, 2, 5, 4);
        META(c, GT_FLOAT32, 2, 5, 3);
        ins->imm[0].f = 0.5;
        META(&e->expected, GT_FLOAT32, 2, 3, 3);
        if (ins->op == GT_OP_attention_backward) {
            META(a, GT_FLOAT32, 2, 3, 7);
            META(&e->expected, GT_FLOAT32, 2, 3 * 4 + 5 * 4 + 5 * 3);
        }
        break;
    case GT_FORM_FFT:
        ins->imm[0].u = gt__fft_pack((gt_fft_spec){.kind = GT_FFT_REAL, .axes = 6, .half = 2});
        ins->imm[1].f = 1;
        META(&e->expected, GT_COMPLEX64, 2, 3, 3);
        break;
    case GT_FORM_LAYER_NORM:
        META(b, GT_FLOAT32, 2, 3, 4);
        META(c, GT_FLOAT32, 3, 4);
        if (ins->op == GT_OP_layer_norm)
            *b = *c;
        if (ins->op == GT_OP_layer_norm_backward_weight)
            expect_shape(e, dtype, c);
        ins->imm[0].i = 1;
        ins->imm[1].f = 1e-5;
        break;
    case GT_FORM_MOMENTS:
        META(&e->expected, GT_FLOAT32, 2, 3);
        break;
    case GT_FORM_BATCH_NORM:
        META(b, GT_FLOAT32, 2, 3, 4);
        META(c, GT_FLOAT32, 2, 3);
        if (ins->op == GT_OP_batch_norm)
            *b = *c;
        if (ins->op == GT_OP_batch_norm_backward_affine)
            expect_shape(e, dtype, c);
        ins->imm[1].f = 1e-5;
        break;
    case GT_FORM_SAMPLE:
        META(a, GT_FLOAT32, 3, 4);
        set_words(&e->record[1], 2, 0, 0);
        expect_shape(e, dtype, a);
        if (ins->op == GT_OP_multinomial)
            META(&e->expected, dtype, 3, 2);
        if (ins->op == GT_OP_binomial) {
            META(a, GT_FLOAT32, 2, 4);
            META(&e->expected, dtype, 4);
        }
        break;
    case GT_FORM_MATRIX:
        example_matrix(e);
        break;
    case GT_FORM_SOLVE:
        if (ins->op == GT_OP_ldl_solve)
            META(a, GT_FLOAT64, 4, 3); /* the factors, and a row of pivots */
        else
            META(a, GT_FLOAT64, 3, 3);
        META(b, GT_FLOAT64, 2, 3, 5);
        META(&e->expected, GT_FLOAT64, 2, 3, 5);
        break;
    case GT_FORM_TOPK:
        ins->imm[0].i = 2;
        ins->imm[1].i = 3;
        META(&e->expected, dtype, 2, 3, 3);
        break;
    default:
        break;
    }
    if (on_bits(&gt__op_table[ins->op]))
        a->dtype = b->dtype = GT_INT32;
}

static inline void example_move(gt_form form, example *e)
{
    gt_instruction *ins = &e->record->ins;
    gt_meta *a = &e->operand[0], *b = &e->operand[1], *c = &e->operand[2];
    META(a, GT_FLOAT32, 2, 3, 4);
    expect_shape(e, GT_FLOAT32, a);
    switch (form) {
    case GT_FORM_RESHAPE:
        ins->rank = 2;
        set_words(&e->record[1], 6, 4, 0);
        META(&e->expected, GT_FLOAT32, 6, 4);
        break;
    case GT_FORM_PERMUTE:
        ins->imm[0].u = 0x010002;
        META(&e->expected, GT_FLOAT32, 4, 2, 3);
        break;
    case GT_FORM_EXPAND:
        META(a, GT_FLOAT32, 3, 1);
        ins->rank = 3;
        set_words(&e->record[1], 2, 3, 4);
        break;
    case GT_FORM_SLICE:
        example_slice(e);
        META(&e->expected, GT_FLOAT32, 1, 3, 2);
        break;
    case GT_FORM_DIAGONAL:
        ins->imm[0].i = -1;
        ins->imm[1].u = 0x0201;
        META(&e->expected, GT_FLOAT32, 2, 2);
        break;
    case GT_FORM_AS_REAL:
        META(a, GT_COMPLEX64, 2, 3, 4);
        META(&e->expected, GT_FLOAT32, 2, 3, 4, 2);
        break;
    case GT_FORM_AS_COMPLEX:
        META(a, GT_FLOAT64, 2, 3, 2);
        META(&e->expected, GT_COMPLEX128, 2, 3);
        break;
    case GT_FORM_UNFOLD:
        set_words(&e->record[1], 2, 3, 1);
        META(&e->expected, GT_FLOAT32, 2, 3, 2, 3);
        break;
    case GT_FORM_SEARCH:
        META(b, GT_FLOAT32, 2, 3, 7);
        META(&e->expected, GT_INT64, 2, 3, 7);
        break;
    case GT_FORM_ASSIGN:
        example_slice(e);
        META(b, GT_INT64, 3, 1);
        break;
    case GT_FORM_CAST:
        ins->dtype = GT_FLOAT16;
        e->expected.dtype = GT_FLOAT16;
        break;
    case GT_FORM_CAT:
        ins->imm[0].i = 1;
        ins->imm[1].i = EXAMPLE_CAT;
        META(&e->expected, GT_FLOAT32, 2, 3 * EXAMPLE_CAT, 4);
        break;
    case GT_FORM_TAKE:
        ins->imm[0].i = 1;
        META(b, GT_INT64, 5, 6);
        META(&e->expected, GT_FLOAT32, 2, 5, 6, 4);
        break;
    case GT_FORM_GATHER:
    case GT_FORM_SCATTER:
        ins->imm[0].i = 1;
        META(b, GT_INT64, 2, 2, 4);
        META(c, GT_FLOAT32, 2, 2, 4);
        if (form == GT_FORM_GATHER)
            expect_shape(e, GT_FLOAT32, b);
        break;
    case GT_FORM_WRAP_INDEX:
        META(a, GT_INT32, 5);
        ins->imm[0].i = 7;
        META(&e->expected, GT_INT64, 5);
        break;
    case GT_FORM_MASK_INDEX:
        META(a, GT_BOOL, 2, 3, 4);
        ins->imm[0].i = 5;
        META(&e->expected, GT_INT64, 5);
        break;
    default:
        break;
    }
}

/* Windows of 2, two apart, over the last axis of (2,3,4), with one element of padding before it: two or three of them. */
static inline void example_window(gt_opcode op, gt_form form, example *e)
{
    gt_instruction *ins = &e->record->ins;
    gt_meta *a = &e->operand[0], *b = &e->operand[1], *c = &e->operand[2];
    gt_window w = {.kernel = {2}, .stride = {2}, .padding = {1}, .dilation = {1}, .size = {3}, .groups = 1};
    bool backward = op == GT_OP_max_pool_input || op == GT_OP_avg_pool_input || op == GT_OP_resample_input;
    ins->rank = 1;
    META(a, GT_FLOAT32, 2, 3, backward ? 3 : 4);
    META(&e->expected, form == GT_FORM_MAX_INDEX ? GT_INT64 : GT_FLOAT32, 2, 3, backward ? 4 : 3);
    w.size[0] = backward ? 4 : 3;
    switch (form) {
    case GT_FORM_CONV:
        META(b, GT_FLOAT32, 3, 3, 2);
        META(c, GT_FLOAT32, 3);
        break;
    case GT_FORM_CONV_WEIGHT:
        META(b, GT_FLOAT32, 2, 5, 4);
        META(&e->expected, GT_FLOAT32, 3, 5, 3);
        break;
    case GT_FORM_MAX_POOL:
        META(b, GT_FLOAT32, 2, 3, 4);
        break;
    case GT_FORM_IM2COL:
        w.from[0] = 4;
        META(a, GT_FLOAT32, 2, 6, 4);
        META(&e->expected, GT_FLOAT32, 2, op == GT_OP_im2col ? 12 : 3, 3);
        break;
    case GT_FORM_RESAMPLE:
        ins->imm[0].i = 2 | GT_RESAMPLE_LINEAR << 8;
        ins->imm[1].f = 0.5;
        ins->rank = 0;
        set_words(&e->record[1], w.size[0], 1, 0);
        return;
    default:
        break;
    }
    gt__window_write(&e->record[1], &w);
}

static inline void example_create(gt_form form, example *e)
{
    gt_instruction *ins = &e->record->ins;
    ins->dtype = GT_FLOAT32;
    ins->rank = form == GT_FORM_ARANGE ? 1 : form == GT_FORM_EYE ? 2 : 3;
    set_words(&e->record[1], 2, 3, 4);
    CHECK_EQ(gt__meta_set(&e->expected, GT_FLOAT32, ins->rank, e->record[1].i64), GT_OK);
    if (form == GT_FORM_RANDOM)
        set_words(&e->record[2], -3, 5, 0);
    if (form == GT_FORM_UPLOAD)
        ins->imm[0].u = gt__meta_bytes(&e->expected);
}

static inline void example_control(example *e)
{
    gt_instruction *ins = &e->record->ins;
    ins->result = 7;
    switch ((gt_opcode)ins->op) {
    case GT_OP_data:
    case GT_OP_reply:
    case GT_OP_failure:
        ins->imm[1].u = 100;
        ins->tail = 2;
        break;
    case GT_OP_timing:
        ins->imm[1].u = 5;
        ins->tail = 2;
        break;
    case GT_OP_site:
        ins->tail = GT_SITE_TAIL;
        break;
    case GT_OP_name:
        ins->tail = GT_NAME_SLOTS;
        break;
    case GT_OP_hello:
        ins->tail = GT_HELLO_TAIL;
        break;
    case GT_OP_path:
        ins->imm[1].u = 3;
        ins->tail = 3;
        break;
    case GT_OP_repeat:
        ins->imm[0].u = 9;
        ins->tail = 2;
        break;
    case GT_OP_detach:
        ins->imm[1].u = 70;
        ins->operand[0] = 70;
        ins->tail = 2;
        break;
    case GT_OP_goodbye:
        ins->tail = GT_GOODBYE_TAIL;
        break;
    case GT_OP_config:
        ins->imm[1].u = 9;
        ins->tail = 2 * GT_NAME_SLOTS + 2;
        break;
    case GT_OP_all_reduce:
    case GT_OP_reduce_scatter:
    case GT_OP_all_gather:
    case GT_OP_broadcast:
    case GT_OP_all_to_all:
        ins->imm[1].u = 3;
        ins->tail = 1 + 2;
        break;
    default:
        ins->tail = (uint16_t)gt__op_table[ins->op].tail;
        break;
    }
}

static inline void example_make(gt_opcode op, example *e)
{
    const gt_op_row *row = &gt__op_table[op];
    memset(e, 0, sizeof *e);
    e->record->ins.op = (uint16_t)op;
    gt_form form = (gt_form)row->form;
    if (form == GT_FORM_CONTROL) {
        example_control(e);
        return;
    }
    e->record->ins.tail = (uint16_t)(row->tail >= 0 ? row->tail : form == GT_FORM_CAT ? 2 : 3);
    e->record->ins.result = 100;
    for (unsigned k = 0; k < row->operands; k++)
        e->record->ins.operand[k] = 1 + k;
    bool creates = form >= GT_FORM_FULL, computes = form <= GT_FORM_SOLVE || form == GT_FORM_ARGSORT ||
                                                    form == GT_FORM_TOPK || form == GT_FORM_SAMPLE;
    if (creates)
        example_create(form, e);
    else if (form >= GT_FORM_CONV && form <= GT_FORM_RESAMPLE)
        example_window(op, form, e);
    else if (computes)
        example_compute(form, e, dtype_by_row(row));
    else
        example_move(form, e);
    for (unsigned k = 0; k < row->operands; k++)
        e->in[k] = &e->operand[k];
    for (unsigned k = 0; form == GT_FORM_CAT && k < EXAMPLE_CAT; k++) {
        e->in[k] = &e->operand[0];
        e->record[1 + k / 8].u64[k % 8] = 1;
    }
}

static inline bool meta_equal(const gt_meta *a, const gt_meta *b)
{
    return a->dtype == b->dtype && a->numel == b->numel && gt__meta_same_shape(a, b);
}

#endif
