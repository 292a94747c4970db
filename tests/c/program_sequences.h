/*
 * program_sequences.h: records of sequences to be planned, and sequences of which test_program.c knows what should run as one.
 * Inputs are 1 to 9, results begin with 20.
 */
#ifndef GT_TESTS_PROGRAM_SEQUENCES_H
#define GT_TESTS_PROGRAM_SEQUENCES_H

#include <stdbool.h>
#include <string.h>

#include "core/instruction.h"

enum { MOST_SLOTS = 512, INPUTS = 9, FIRST = 20, SHIFT = 1000, MOST_VALUES = 256, KEPT = 500 };

typedef struct program {
    gt_slot records[MOST_SLOTS];
    size_t slots;
    uint64_t live[MOST_VALUES], next;
    unsigned count;
    int64_t rows, columns;
    gt_dtype dtypes[3];
    bool smooth; /* only what passes small differences on */
    bool shared[INPUTS + 1];
} program;

static inline gt_slot *append(program *p, gt_opcode op, unsigned tail)
{
    gt_slot *record = p->records + p->slots;
    memset(record, 0, (1 + tail) * sizeof *record);
    record->ins.op = (uint16_t)op;
    record->ins.tail = (uint16_t)tail;
    record->ins.result = p->next++;
    return record;
}

static inline void add_free(program *p, uint64_t id)
{
    gt_slot *record = append(p, GT_OP_free, 0);
    p->next--;
    record->ins.result = 0;
    record->ins.operand[1] = id;
    p->slots++;
}

static inline gt_instruction *add(program *p, gt_opcode op, uint64_t result, uint64_t a, uint64_t b)
{
    gt_slot *record = append(p, op, 0);
    record->ins.result = result;
    record->ins.operand[0] = a;
    record->ins.operand[1] = b;
    p->slots++;
    return &record->ins;
}

static inline void add_number(program *p, gt_opcode op, uint64_t result, uint64_t a, double number)
{
    gt_instruction *ins = add(p, op, result, a, 0);
    ins->literals = GT_LITERAL_FLOAT << 2;
    ins->literal[1].f = number;
}

static inline void free_all(program *p, const uint64_t *ids, size_t count)
{
    for (size_t k = 0; k < count; k++)
        add_free(p, ids[k]);
}

/* gelu(layer_norm(1)) + 1, and the gradients for 2; weight and bias: 4. */
static inline void norm_sequence(program *p)
{
    gt_instruction *ins = add(p, GT_OP_layer_norm, 20, 1, 4);
    ins->operand[2] = 4;
    ins->imm[0].i = 1;
    ins->imm[1].f = 1e-5;
    add(p, GT_OP_gelu, 21, 20, 0);
    add(p, GT_OP_add, 22, 21, 1);
    add(p, GT_OP_gelu_backward, 23, 2, 20);
    ins = add(p, GT_OP_layer_norm_backward, 24, 23, 1);
    ins->operand[2] = 4;
    ins->imm[0].i = 1;
    ins->imm[1].f = 1e-5;
    ins = add(p, GT_OP_layer_norm_backward_weight, 25, 23, 1);
    ins->literals = GT_LITERAL_FLOAT << 4;
    ins->imm[0].i = 1;
    ins->imm[1].f = 1e-5;
    add(p, GT_OP_sum, 26, 23, 0)->imm[0].u = 1;
    add(p, GT_OP_add, 27, 24, 2);
    free_all(p, (uint64_t[]){20, 21, 23, 24}, 4);
}

/* The gradients of layer norm of 1, with the weight 4, of a gradient 2. */
static inline void norm_gradients_sequence(program *p, bool bias)
{
    gt_instruction *ins = add(p, GT_OP_layer_norm_backward, 20, 2, 1);
    ins->operand[2] = 4;
    ins->imm[0].i = 1;
    ins->imm[1].f = 1e-5;
    ins = add(p, GT_OP_layer_norm_backward_weight, 21, 2, 1);
    ins->literals = GT_LITERAL_FLOAT << 4;
    ins->imm[0].i = 1;
    ins->imm[1].f = 1e-5;
    if (bias)
        add(p, GT_OP_sum, 22, 2, 0)->imm[0].u = 1;
}

/* Adam's update; the gradient is 1, the state 2 and 3, the parameter 9. */
static inline void adam_sequence(program *p)
{
    add_number(p, GT_OP_mul, 20, 2, 0.9);
    add_number(p, GT_OP_mul, 21, 1, 0.1);
    add(p, GT_OP_add, 22, 20, 21);
    add_number(p, GT_OP_mul, 23, 3, 0.999);
    add(p, GT_OP_square, 24, 1, 0);
    add_number(p, GT_OP_mul, 25, 24, 0.001);
    add(p, GT_OP_add, 26, 23, 25);
    add_number(p, GT_OP_mul, 27, 22, 1e-3);
    add(p, GT_OP_sqrt, 28, 26, 0);
    add_number(p, GT_OP_add, 29, 28, 1e-8);
    add(p, GT_OP_div, 30, 27, 29);
    add_number(p, GT_OP_mul, 31, 9, 0.9999);
    add(p, GT_OP_sub, 32, 31, 30);
    free_all(p, (uint64_t[]){20, 21, 23, 24, 25, 27, 28, 29, 30, 31, 2, 3, 9}, 13);
}

/* The same with the steps in another order, and others between them: one that is not stored, one that is stored and one
 * that reads a result of the update. */
static inline void mixed_sequence(program *p)
{
    add_number(p, GT_OP_mul, 31, 9, 0.9999);
    add(p, GT_OP_square, 24, 1, 0);
    add(p, GT_OP_exp, 40, 1, 0);
    add_number(p, GT_OP_mul, 23, 3, 0.999);
    add_number(p, GT_OP_mul, 25, 24, 0.001);
    add(p, GT_OP_add, 26, 23, 25);
    add(p, GT_OP_sqrt, 28, 26, 0);
    add_number(p, GT_OP_mul, 20, 2, 0.9);
    add_number(p, GT_OP_mul, 21, 1, 0.1);
    add(p, GT_OP_add, 22, 20, 21);
    add_number(p, GT_OP_add, 29, 28, 1e-8);
    add_number(p, GT_OP_mul, 27, 22, 1e-3);
    add(p, GT_OP_div, 30, 27, 29);
    add(p, GT_OP_sub, 32, 31, 30);
    add_number(p, GT_OP_mul, 41, 1, 3);
    add(p, GT_OP_mul, 42, 40, 1);
    add(p, GT_OP_neg, 43, 41, 0);
    add_number(p, GT_OP_sub, 44, 41, 2);
    add(p, GT_OP_add, 45, 43, 32);
    free_all(p, (uint64_t[]){20, 21, 23, 24, 25, 27, 28, 29, 30, 31, 40, 41, 43, 2, 3, 9}, 16);
}

/* Pairs of cheap steps, with every order of operands. */
static inline void pairs_sequence(program *p)
{
    uint64_t id = 20;
    static const gt_opcode ops[] = {GT_OP_add, GT_OP_sub, GT_OP_mul, GT_OP_div};
    for (int first = 0; first < 4; first++)
        for (int second = 0; second < 4; second++)
            for (int order = 0; order < 4; order++, id += 2) {
                if (order & 1)
                    add_number(p, ops[first], id, 1, 1.25);
                else
                    add(p, ops[first], id, 1, 2);
                add(p, ops[second], id + 1, order & 2 ? 3 : id, order & 2 ? id : 3);
                add_free(p, id);
            }
}

/* relu between other cheap steps, with every order of operands. */
static inline void relu_sequence(program *p)
{
    uint64_t id = 20;
    for (int before = 0; before < 5; before++)
        for (int after = 0; after < 5; after++, id += 4) {
            uint64_t made = id;
            if (before == 0) { /* x * c + d */
                add_number(p, GT_OP_mul, id, 1, -1.5);
                add_number(p, GT_OP_add, ++made, id, 0.25);
                add_free(p, id);
            } else if (before < 3)
                add(p, before == 1 ? GT_OP_add : GT_OP_mul, id, 1, 2);
            else
                add_number(p, before == 3 ? GT_OP_add : GT_OP_mul, id, 1, -0.5);
            add(p, GT_OP_relu, id + 2, made, 0);
            if (after == 4)
                add_number(p, GT_OP_mul, id + 3, id + 2, 3);
            else
                add(p, after & 1 ? GT_OP_add : GT_OP_mul, id + 3, after & 2 ? 1 : id + 2, after & 2 ? id + 2 : 3);
            free_all(p, (uint64_t[]){made, id + 2}, 2);
        }
}

/* 8 is read across, and dies: 22 is not written over it. */
static inline void across_sequence(program *p)
{
    add(p, GT_OP_permute, 20, 8, 0)->imm[0].u = 1;
    add(p, GT_OP_add, 21, 20, 1);
    add_number(p, GT_OP_mul, 22, 8, 2);
    free_all(p, (uint64_t[]){20, 8}, 2);
}

/* 1 is read where it is written over, and before: one pass. */
static inline void over_sequence(program *p)
{
    add(p, GT_OP_add, 20, 1, 2);
    add_number(p, GT_OP_mul, 21, 1, 2);
    add(p, GT_OP_sub, 22, 20, 21);
    free_all(p, (uint64_t[]){20, 1}, 2);
}

/* Equal updates of tensors of different sizes, after a step of another kind. */
static inline void updates_sequence(program *p)
{
    static const uint64_t inputs[] = {1, 4, 5, 6};
    add(p, GT_OP_cumsum, 40, 2, 0);
    for (uint64_t k = 0; k < sizeof inputs / sizeof *inputs; k++) {
        uint64_t id = 20 + 3 * k;
        add_number(p, GT_OP_mul, id, inputs[k], 0.9);
        add(p, GT_OP_square, id + 1, inputs[k], 0);
        add(p, GT_OP_sub, id + 2, id, id + 1);
        free_all(p, (uint64_t[]){id, id + 1, inputs[k]}, 3);
    }
}

static inline gt_slot *add_random(program *p, gt_opcode op, uint64_t result, gt_dtype dtype)
{
    gt_slot *record = append(p, op, 2);
    record->ins.result = result;
    record->ins.dtype = (uint8_t)dtype;
    record->ins.rank = 2;
    record->ins.imm[0].u = 1234567890123 + result;
    record->ins.imm[1].u = result;
    record[1].i64[0] = p->rows;
    record[1].i64[1] = p->columns;
    p->slots += 3;
    return record;
}

/* Dropout, and random numbers of other dtypes. */
static inline void random_sequence(program *p)
{
    add(p, GT_OP_add, 20, 1, 4);
    add_random(p, GT_OP_rand, 21, GT_FLOAT32);
    add_number(p, GT_OP_ge, 22, 21, 0.25);
    add(p, GT_OP_mul, 23, 20, 22);
    add_number(p, GT_OP_mul, 24, 23, 1.25);
    add(p, GT_OP_add, 25, 24, 2);
    add_random(p, GT_OP_randn, 26, GT_BFLOAT16)[2].i64[2] = 8;
    add(p, GT_OP_mul, 27, 26, 25);
    add_random(p, GT_OP_rand, 28, GT_FLOAT16);
    add(p, GT_OP_add, 29, 28, 27);
    free_all(p, (uint64_t[]){20, 21, 23, 24, 26, 27}, 6);
}

/* Scaled by a number that is made of numbers, in a tensor of its own. */
static inline void scalar_sequence(program *p)
{
    add(p, GT_OP_sub, 20, 1, 2);
    gt_slot *one = append(p, GT_OP_full, 1);
    one->ins.result = 21;
    one->ins.dtype = GT_FLOAT32;
    one->ins.imm[0].f = 1;
    p->slots += 2;
    add_number(p, GT_OP_mul, 22, 21, 0.125);
    add(p, GT_OP_mul, 23, 22, 20);
    add(p, GT_OP_mul, 24, 23, 6);
    free_all(p, (uint64_t[]){20, 21, 23}, 3);
}

/* The sum of relu, and the mean of squared differences, which another step reads too. */
static inline void reduced_sequence(program *p)
{
    add(p, GT_OP_add, 20, 1, 4);
    add(p, GT_OP_relu, 21, 20, 0);
    add(p, GT_OP_sum, 22, 21, 0);
    add(p, GT_OP_sub, 23, 2, 3);
    add(p, GT_OP_square, 24, 23, 0);
    add(p, GT_OP_mean, 25, 24, 0);
    add(p, GT_OP_cumsum, 26, 24, 0);
    free_all(p, (uint64_t[]){20, 21, 23, 24}, 4);
}

static inline void add_cast(program *p, uint64_t result, uint64_t a, gt_dtype dtype)
{
    add(p, GT_OP_cast, result, a, 0)->dtype = (uint8_t)dtype;
}

/* Halves into log_softmax and layer_norm and out of them: the casts take no pass of their own. */
static inline void casts_sequence(program *p)
{
    add_cast(p, 20, 1, GT_BFLOAT16);
    add(p, GT_OP_cumsum, 21, 20, 0); /* no chain */
    add_cast(p, 22, 21, GT_FLOAT32);
    add(p, GT_OP_log_softmax, 23, 22, 0)->imm[0].i = 1;
    add(p, GT_OP_sum, 24, 22, 0)->imm[0].u = 2;
    add_cast(p, 25, 23, GT_FLOAT16);
    gt_instruction *norm = add(p, GT_OP_layer_norm, 26, 2, 4);
    norm->operand[2] = 4;
    norm->imm[0].i = 1;
    norm->imm[1].f = 0.5;
    add_cast(p, 27, 26, GT_BFLOAT16);
    free_all(p, (uint64_t[]){20, 21, 22, 23, 26}, 5);
}

/* The gradient of cross entropy, for rows of 2: 5 at the position of the largest element of 1, and else 0. */
static inline void sparse_sequence(program *p)
{
    gt_instruction *position = add(p, GT_OP_argmax, 20, 1, 0);
    position->imm[0].i = 1;
    position->flags = GT_FLAG_KEEPDIM;
    gt_slot *zeros = append(p, GT_OP_full, 1);
    zeros->ins.result = 21;
    zeros->ins.dtype = GT_FLOAT32;
    zeros->ins.rank = 2;
    zeros[1].i64[0] = p->rows;
    zeros[1].i64[1] = p->columns;
    p->slots += 2;
    gt_instruction *scatter = add(p, GT_OP_scatter, 22, 21, 20);
    scatter->operand[2] = 5;
    scatter->imm[0].i = 1;
    scatter->flags = GT_FLAG_CONSUMES;
    add(p, GT_OP_log_softmax_backward, 23, 22, 2)->imm[0].i = 1;
    add_cast(p, 24, 23, GT_BFLOAT16);
    free_all(p, (uint64_t[]){22, 23}, 2);
}

/* Cross entropy of logits 2 * 1 and its gradient: 5 at the position of the largest element of 2 in each row. */
static inline void cross_entropy_sequence(program *p)
{
    add_number(p, GT_OP_mul, 20, 1, 2);
    add_cast(p, 21, 20, GT_FLOAT32);
    add(p, GT_OP_log_softmax, 22, 21, 0)->imm[0].i = 1;
    gt_instruction *position = add(p, GT_OP_argmax, 23, 2, 0);
    position->imm[0].i = 1;
    position->flags = GT_FLAG_KEEPDIM;
    add(p, GT_OP_gather, 24, 22, 23)->imm[0].i = 1;
    add_cast(p, 25, 5, GT_FLOAT32);
    gt_slot *zeros = append(p, GT_OP_full, 1);
    zeros->ins.result = 26;
    zeros->ins.dtype = GT_FLOAT32;
    zeros->ins.rank = 2;
    zeros[1].i64[0] = p->rows;
    zeros[1].i64[1] = p->columns;
    p->slots += 2;
    gt_instruction *scatter = add(p, GT_OP_scatter, 27, 26, 23);
    scatter->operand[2] = 25;
    scatter->imm[0].i = 1;
    scatter->flags = GT_FLAG_CONSUMES;
    add(p, GT_OP_log_softmax_backward, 28, 27, 22)->imm[0].i = 1;
    add_cast(p, 29, 28, GT_BFLOAT16);
    free_all(p, (uint64_t[]){20, 21, 22, 25, 27, 28}, 6);
}

/* Two updates of 3 and 9 by a gradient in halves, which is cast to float32: 21 is only read by elementwise steps, 23 is not. */
static inline void half_gradients_sequence(program *p)
{
    add_number(p, GT_OP_mul, 20, 1, 2);
    add_cast(p, 21, 20, GT_FLOAT32);
    add(p, GT_OP_softmax, 22, 2, 0)->imm[0].i = 1;
    add_cast(p, 23, 20, GT_FLOAT32);
    add(p, GT_OP_softmax, 24, 23, 0)->imm[0].i = 1;
    add_number(p, GT_OP_mul, 25, 21, 0.5);
    add(p, GT_OP_sub, 26, 3, 25);
    add(p, GT_OP_add, 27, 23, 9);
    add(p, GT_OP_sum, 28, 2, 0)->imm[0].u = 2;
    add(p, GT_OP_mul, 29, 9, 21);
    free_all(p, (uint64_t[]){20, 21, 23, 25}, 4);
}

/* A cast that can be left out: 22 reads the halves 20 then. 23 reads them, too, and may run before 22: not over them. Halves: 4. */
static inline void hidden_reader_sequence(program *p)
{
    add(p, GT_OP_cumsum, 20, 4, 0); /* no chain */
    add_cast(p, 21, 20, GT_FLOAT32);
    add(p, GT_OP_add, 22, 21, 2);
    add(p, GT_OP_add, 23, 20, 20);
    add(p, GT_OP_mul, 24, 22, 22);
    free_all(p, (uint64_t[]){20, 21, 22}, 3);
}

/* log_softmax need not have a result: its gradient 23 reads the logits 20 then. 24 reads them, too, and may run before it. */
static inline void hidden_logits_sequence(program *p)
{
    add(p, GT_OP_cumsum, 20, 2, 0)->imm[0].i = 1;
    add(p, GT_OP_log_softmax, 21, 20, 0)->imm[0].i = 1;
    add(p, GT_OP_mul, 22, 3, 3);
    add(p, GT_OP_log_softmax_backward, 23, 22, 21)->imm[0].i = 1;
    add(p, GT_OP_add, 24, 3, 20);
    free_all(p, (uint64_t[]){20, 21, 22}, 3);
}

static inline void add_reshape(program *p, uint64_t result, uint64_t a, unsigned rank, const int64_t *shape)
{
    gt_slot *record = append(p, GT_OP_reshape, 1);
    record->ins.result = result;
    record->ins.operand[0] = a;
    record->ins.rank = (uint8_t)rank;
    memcpy(record[1].i64, shape, rank * sizeof *shape);
    p->slots += 2;
}

static inline void add_permute(program *p, uint64_t result, uint64_t a, unsigned rank, const unsigned *axes)
{
    gt_instruction *ins = add(p, GT_OP_permute, result, a, 0);
    for (unsigned k = 0; k < rank; k++)
        ins->imm[0].u |= (uint64_t)axes[k] << 8 * k;
}

/* A slice of a, or the assignment of src to it: `count` elements of an axis. */
static inline void add_part(program *p, uint64_t result, uint64_t a, uint64_t src, unsigned rank,
                            const int64_t *shape, unsigned axis, int64_t start, int64_t count)
{
    gt_slot *record = append(p, src ? GT_OP_assign : GT_OP_slice, 3);
    record->ins.result = result;
    record->ins.operand[0] = a;
    record->ins.operand[1] = src;
    record->ins.flags = src ? GT_FLAG_CONSUMES : 0;
    for (unsigned k = 0; k < rank; k++) {
        record[1].i64[k] = k == axis ? start : 0;
        record[2].i64[k] = 1;
        record[3].i64[k] = k == axis ? count : shape[k];
    }
    p->slots += 4;
}

/* Queries, keys and values are three parts of one tensor, 20, and their gradients are put together in the same order, 65. */
static inline void heads_sequence(program *p)
{
    enum { BATCH = 2, HEADS = 2, WIDTH = 16 };
    const int64_t length = p->rows / BATCH, one = length * WIDTH;
    const int64_t layer[] = {BATCH, length, 3, HEADS, WIDTH}, parts[] = {3, BATCH, HEADS, length, WIDTH},
                  part[] = {1, BATCH, HEADS, length, WIDTH}, packed[] = {BATCH, HEADS, 3 * one};
    add_number(p, GT_OP_mul, 20, 1, 1);
    add_reshape(p, 21, 20, 5, layer);
    add_permute(p, 22, 21, 5, (unsigned[]){2, 0, 3, 1, 4});
    for (uint64_t k = 0; k < 3; k++) {
        add_part(p, 30 + k, 22, 0, 5, parts, 0, (int64_t)k, 1);
        add_reshape(p, 33 + k, 30 + k, 4, part + 1);
    }
    gt_instruction *forward = add(p, GT_OP_attention, 40, 33, 34);
    forward->operand[2] = 35;
    forward->imm[0].f = 0.25;
    add_number(p, GT_OP_mul, 41, 40, 0.5);
    gt_slot *cat = append(p, GT_OP_cat, 1);
    cat->ins.result = 42;
    cat->ins.imm[0].i = 3;
    cat->ins.imm[1].i = 2;
    cat[1].u64[0] = 33;
    cat[1].u64[1] = 41;
    p->slots += 2;
    gt_instruction *backward = add(p, GT_OP_attention_backward, 43, 42, 34);
    backward->operand[2] = 35;
    backward->imm[0].f = 0.25;
    for (uint64_t k = 0; k < 3; k++) {
        add_part(p, 50 + k, 43, 0, 3, packed, 2, (int64_t)k * one, one);
        add_reshape(p, 53 + k, 50 + k, 5, part);
    }
    gt_slot *zeros = append(p, GT_OP_full, 1);
    zeros->ins.result = 60;
    zeros->ins.dtype = GT_BFLOAT16;
    zeros->ins.rank = 5;
    memcpy(zeros[1].i64, parts, sizeof parts);
    p->slots += 2;
    for (uint64_t k = 0; k < 3; k++)
        add_part(p, 61 + k, 60 + k, 55 - k, 5, parts, 0, 2 - (int64_t)k, 1);
    add_permute(p, 64, 63, 5, (unsigned[]){1, 3, 0, 2, 4});
    add_reshape(p, 65, 64, 2, (int64_t[]){p->rows, p->columns});
    for (uint64_t id = 20; id < 65; id++)
        if (id < 23 || (id >= 30 && id < 36) || (id >= 40 && id < 44) || (id >= 50 && id < 56) || id == 63 ||
            id == 64)
            add_free(p, id);
}

#endif
