/*
 * test_program.c: what an engine makes of a plan gives what the steps give one by one: bit by bit where elements are
 * computed from elements, within rounding where rows are reduced. Random sequences over many shapes, dtypes and views, with
 * values that die, outputs that take the memory of inputs, and numbers that change from run to run. The engine is the CPU's, or
 * GT_TEST_ENGINE: cuda, on a card, or cudahost (tests/cuda/kernels.py).
 */
#include <stdlib.h>
#include <string.h>

#include "core/record.h"
#include "engines/plan.h"
#include "program_values.h"
#include "random_numbers.h"
#include "worker_fixture.h"

/* ---- sequences ----------------------------------------------------------------------------------------------- */

static void set_literal(numbers *n, gt_slot *record, unsigned k)
{
    static const double powers[] = {2, 3, 0.5, -1, 1.5};
    unsigned kind = 1 + (unsigned)numbers_below(n, 3);
    record->ins.literals |= (uint8_t)(kind << 2 * k);
    if (kind == GT_LITERAL_FLOAT)
        record->ins.literal[k].f = powers[numbers_below(n, 5)];
    else
        record->ins.literal[k].i = (int64_t)numbers_below(n, kind == GT_LITERAL_BOOL ? 2 : 4);
}

/* Rounded once, and not contracted, so all engines agree. */
static bool is_exact(gt_opcode op)
{
    static const gt_opcode others[] = {GT_OP_exp,  GT_OP_tanh, GT_OP_sigmoid, GT_OP_gelu,  GT_OP_pow,
                                       GT_OP_silu, GT_OP_sin,  GT_OP_cos,     GT_OP_hypot, GT_OP_lerp};
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (op == others[k])
            return false;
    return true;
}

static void add_elementwise(program *p, numbers *n)
{
    static const gt_opcode ops[] = {
        GT_OP_neg,           GT_OP_abs,   GT_OP_relu, GT_OP_exp, GT_OP_tanh,        GT_OP_sigmoid,
        GT_OP_gelu,          GT_OP_add,   GT_OP_sub,  GT_OP_mul, GT_OP_div,         GT_OP_maximum,
        GT_OP_square,        GT_OP_clamp, GT_OP_sqrt, GT_OP_pow, GT_OP_lt,          GT_OP_eq,
        GT_OP_logical_or,    GT_OP_where, GT_OP_lerp, GT_OP_sin, GT_OP_cos,         GT_OP_isnan,
        GT_OP_relu_backward, GT_OP_silu,  GT_OP_mul,  GT_OP_add, GT_OP_bitwise_and, GT_OP_remainder,
        GT_OP_floor_divide,  GT_OP_hypot};
    enum { SMOOTH = 14 };
    gt_opcode op = ops[numbers_below(n, p->smooth ? SMOOTH : sizeof ops / sizeof *ops)];
    /* Their loops for moderate arguments round as the others do only if the compiler optimises both. */
    if (CHECK_SANITIZED && !p->smooth && (op == GT_OP_exp || op == GT_OP_sigmoid || op == GT_OP_silu))
        op = GT_OP_tanh;
    if (is_tested("cudahost") &&
        !is_exact(op)) /* its chains use the system's functions, its single steps the CPU engine's */
        op = GT_OP_mul;
    gt_slot *record = append(p, op == GT_OP_div && p->smooth ? GT_OP_mul : op, 0);
    unsigned operands = gt__op_operands((gt_opcode)record->ins.op), literal = (unsigned)numbers_below(n, 6);
    for (unsigned k = 0; k < operands; k++) {
        if (k == literal && operands > 1)
            set_literal(n, record, k);
        else
            record->ins.operand[k] = p->live[numbers_below(n, p->count)];
    }
    record->ins.imm[0].f = -0.5;
    record->ins.imm[1].f = 1.5;
}

static void add_view(program *p, numbers *n, const gt_worker *worker)
{
    uint64_t a = p->live[numbers_below(n, p->count)];
    const gt_meta *meta = &gt__store_find(worker->store, a)->view.meta;
    gt_slot *record;
    switch (numbers_below(n, 4)) {
    case 0:
        record = append(p, GT_OP_permute, 0);
        for (uint64_t k = 0; k < meta->rank; k++)
            record->ins.imm[0].u |= (uint64_t)(meta->rank - 1 - k) << 8 * k;
        break;
    case 1: /* one or two dimensions more or less */
        record = append(p, GT_OP_reshape, 1);
        record->ins.rank = meta->rank == 2 ? 1 : 3;
        record[1].i64[0] = meta->rank == 2 ? meta->numel : 1;
        record[1].i64[1] = meta->numel;
        record[1].i64[2] = 1;
        break;
    case 2:
        record = append(p, GT_OP_expand, 1);
        record->ins.rank = 2;
        record[1].i64[0] = p->rows;
        record[1].i64[1] = p->columns;
        break;
    default:
        record = append(p, GT_OP_slice, 3);
        for (unsigned k = 0; k < meta->rank; k++) {
            record[2].i64[k] = 1;
            record[3].i64[k] = meta->shape[k];
        }
        if (meta->rank && meta->shape[0] > 1) { /* the first row repeated would be another shape: leave one out */
            record[1].i64[0] = 1;
            record[3].i64[0]--;
        }
    }
    record->ins.operand[0] = a;
}

static void add_move(program *p, numbers *n)
{
    gt_slot *record = append(p, numbers_below(n, 2) ? GT_OP_cast : GT_OP_copy, 0);
    record->ins.dtype = (uint8_t)p->dtypes[numbers_below(n, 3)];
    record->ins.operand[0] = p->live[numbers_below(n, p->count)];
}

static void add_rows(program *p, numbers *n, const gt_worker *worker)
{
    static const gt_opcode ops[] = {GT_OP_sum,
                                    GT_OP_mean,
                                    GT_OP_amax,
                                    GT_OP_var,
                                    GT_OP_logsumexp,
                                    GT_OP_softmax,
                                    GT_OP_log_softmax,
                                    GT_OP_layer_norm,
                                    GT_OP_layer_norm_backward,
                                    GT_OP_softmax_backward,
                                    GT_OP_layer_norm_backward_weight,
                                    GT_OP_sum};
    gt_slot *record = append(p, ops[numbers_below(n, sizeof ops / sizeof *ops)], 0);
    gt_instruction *ins = &record->ins;
    for (unsigned k = 0; k < gt__op_operands((gt_opcode)ins->op); k++)
        ins->operand[k] = p->live[numbers_below(n, p->count)];
    const gt_meta *meta = &gt__store_find(worker->store, ins->operand[0])->view.meta;
    gt_form form = (gt_form)gt__op_table[ins->op].form;
    unsigned last = meta->rank ? meta->rank - 1u : 0;
    ins->imm[0].i = last;
    ins->imm[1].f = 0.5;
    if (form == GT_FORM_REDUCE) {
        ins->imm[0].u = numbers_below(n, 3) ? 1u << last : numbers_below(n, 2) ? 1 : 0;
        ins->flags = numbers_below(n, 3) ? GT_FLAG_KEEPDIM : 0;
    } else if (form == GT_FORM_LAYER_NORM) {
        for (unsigned k = ins->op == GT_OP_layer_norm ? 1 : 2; k < 3; k++) {
            if (numbers_below(n, 2))
                ins->operand[k] = 4;
            else {
                ins->literals |= (uint8_t)(GT_LITERAL_FLOAT << 2 * k);
                ins->literal[k].f = 0.75;
            }
        }
    }
}

/* Records that fail are left out. */
static void random_program(gt_worker *worker, program *p, numbers *n)
{
    p->slots = 0;
    p->count = 0;
    p->next = FIRST;
    for (uint64_t id = 1; id <= INPUTS; id++)
        p->live[p->count++] = id;
    unsigned steps = 3 + (unsigned)numbers_below(n, 22);
    while (steps-- > 0) {
        uint64_t id = p->next, dice = numbers_below(n, 12);
        if (dice == 0)
            add_view(p, n, worker);
        else if (dice == 1)
            add_move(p, n);
        else if (dice < 6 && p->smooth)
            add_rows(p, n, worker);
        else
            add_elementwise(p, n);
        const gt_slot *record = p->records + p->slots;
        unsigned length;
        if (gt__instruction_check(record, 8, &length) != GT_OK) {
            p->next = id;
            continue;
        }
        run_record(worker, record);
        const gt_entry *entry = gt__store_entry(worker->store, id);
        if (!gt__entry_is_tensor(entry)) {
            p->next = id;
            continue;
        }
        p->slots += length;
        p->live[p->count++] = id;
        for (unsigned k = 0; k < 2 && p->count > 6 && numbers_below(n, 3); k++) {
            uint64_t at = numbers_below(n, p->count);
            if (p->live[at] == 4) /* a weight */
                continue;
            add_free(p, p->live[at]);
            p->live[at] = p->live[--p->count];
        }
    }
}

/* ---- comparing ----------------------------------------------------------------------------------------------- */

static const char *name_of(const gt_plan *plan, uint64_t id)
{
    for (unsigned k = 0; k < plan->step_count; k++)
        if (plan->values[plan->steps[k].result].id == id)
            return gt__op_table[plan->steps[k].op].name;
    return "?";
}

/* What an engine may do to a plan. */
static void check_groups(const gt_plan *plan)
{
    bool grow = true, inside = true;
    for (uint32_t k = 0; k < plan->step_count; k++) {
        const gt_plan_step *step = &plan->steps[k];
        grow &= step->group <= k && (k == 0 || step->group >= plan->steps[k - 1].group);
        const gt_plan_buffer *buffer = &plan->buffers[plan->values[step->result].buffer];
        if (buffer->role == GT_PLAN_NONE)
            inside &= plan->steps[buffer->last_use].group == step->group;
    }
    CHECK(grow);
    CHECK(inside);
}

static uint32_t group_after(const gt_plan *plan, uint32_t step)
{
    return step == GT_PLAN_LIVES ? UINT32_MAX : plan->steps[step].group;
}

/* Buffers that are needed at the same time do not overlap, unless one is made over the other where that dies; nor does a
 * buffer overlap an input whose memory it lies in. */
static void check_places(const gt_plan *plan)
{
    bool apart = true;
    for (uint32_t a = 0; a < plan->step_count; a++) {
        const gt_plan_buffer *x = &plan->buffers[plan->values[plan->steps[a].result].buffer];
        if (plan->steps[a].kind != GT_STEP_RUN || x->memory == GT_PLAN_NO_MEMORY || !x->bytes)
            continue;
        const gt_plan_memory *memory = &plan->memories[x->memory];
        apart &= x->offset % 64 == 0 && x->offset + x->bytes <= memory->bytes;
        apart &= x->role != GT_PLAN_OUTPUT || x->offset == 0;
        if (memory->donor != GT_PLAN_NO_DONOR)
            apart &= group_after(plan, plan->buffers[memory->donor].last_use) <= plan->steps[a].group;
        for (uint32_t b = a + 1; b < plan->step_count; b++) {
            const gt_plan_buffer *y = &plan->buffers[plan->values[plan->steps[b].result].buffer];
            if (plan->steps[b].kind == GT_STEP_RUN && y->memory == x->memory && x->offset < y->offset + y->bytes &&
                y->offset < x->offset + x->bytes)
                apart &= group_after(plan, x->last_use) <= plan->steps[b].group && x->last_use <= b;
        }
    }
    CHECK(apart);
}

static void new_literals(numbers *n, gt_slot *records, size_t slots)
{
    for (size_t at = 0; at < slots; at += 1u + records[at].ins.tail)
        for (unsigned k = 0; k < GT_MAX_OPERANDS; k++)
            if (gt__literal(&records[at].ins, k) == GT_LITERAL_FLOAT)
                records[at].ins.literal[k].f = numbers_below(n, 2) ? 2 : 0.25;
}

/* Plan it, run it, compare with the steps one by one. Returns the steps that run with others. */
static unsigned check_program(gt_worker *worker, program *p, numbers *n, uint64_t seed)
{
    gt_plan_input inputs[INPUTS];
    gt_plan *plan;
    gt_sequence *sequence = NULL;
    unsigned grouped = 0;
    for (uint64_t id = 1; id <= INPUTS; id++)
        inputs[id - 1] = (gt_plan_input){.id = id, .view = &gt__store_find(worker->store, id)->view};
    if (!CHECK_EQ(gt__plan_new(p->records, p->slots, inputs, INPUTS, &plan), GT_OK) ||
        !CHECK_EQ(gt__sequence_new(worker, plan, &sequence), GT_OK) || !CHECK(gt__sequence_compiled(sequence)))
        return 0;
    check_groups(plan);
    check_places(plan);
    for (uint32_t k = 0; k < plan->step_count; k++)
        grouped += plan->steps[k].group != k;
    const int rounds = is_tested("cuda") ? 5 : 2; /* it records the second run with the same addresses */
    for (int round = 0; round < rounds; round++) {
        uint64_t from[INPUTS], to[MOST_VALUES];
        for (uint32_t k = 0; k < plan->input_count; k++)
            from[k] = plan->values[plan->inputs[k]].id;
        for (uint32_t k = 0; k < plan->output_count; k++)
            to[k] = plan->values[plan->outputs[k]].id + SHIFT;
        make_inputs(worker, p, seed + (uint64_t)round);
        run_directly(worker, p);
        make_inputs(worker, p, seed + (uint64_t)round); /* again: those have views now */
        CHECK_EQ(gt__sequence_run(worker, sequence, from, to), GT_OK);
        bool fails = false; /* then outputs may fail that do not depend on it: what they need was written over */
        for (uint64_t id = FIRST; id < p->next; id++)
            fails |= !gt__entry_is_tensor(gt__store_entry(worker->store, id));
        for (uint32_t k = 0; k < plan->output_count && !fails; k++)
            if (!CHECK(same_value(worker, p, to[k] - SHIFT, to[k])))
                fprintf(stderr, "seed %llu, round %d: value %llu (%s)\n", (unsigned long long)seed, round,
                        (unsigned long long)(to[k] - SHIFT), name_of(plan, to[k] - SHIFT));
        uint64_t state = n->state;
        new_literals(n, p->records, p->slots);
        n->state = state;
        new_literals(n, plan->records, p->slots);
    }
    gt__sequence_free(worker, &sequence);
    return grouped;
}

static void choose_shape(program *p, numbers *n)
{
    static const int64_t rows[] = {1, 2, 3, 5, 17, 64}, columns[] = {1, 2, 7, 16, 33, 40, 130};
    p->rows = rows[numbers_below(n, 6)];
    p->columns = columns[numbers_below(n, 7)];
    if (numbers_below(n, 20) == 0)
        p->rows = 0;
    if (numbers_below(n, 8) == 0) { /* many tiles */
        p->rows = 150;
        p->columns = 333;
    }
}

typedef struct variant {
    int threads;
    bool smooth;
} variant;

static void test_random(const void *context)
{
    const unsigned programs = is_tested("cudahost") ? 35 : !is_tested("cpu") || CHECK_SANITIZED ? 100 : 700;
    static const gt_dtype all[] = {GT_FLOAT32, GT_FLOAT32, GT_FLOAT64, GT_BFLOAT16, GT_FLOAT16, GT_BOOL,
                                   GT_INT64,   GT_INT32,   GT_UINT8,   GT_INT8,     GT_INT16};
    const variant *v = context;
    static program p;
    gt_worker worker = {.name = "test"};
    numbers n = {.state = 5 + (uint64_t)v->threads};
    unsigned grouped = 0;
    if (!worker_open_threads(&worker, tested_engine(), v->threads))
        return;
    p.smooth = v->smooth;
    for (uint64_t k = 0; k < programs; k++) {
        choose_shape(&p, &n);
        for (int d = 0; d < 3; d++)
            p.dtypes[d] = all[numbers_below(&n, v->smooth ? 4 : sizeof all / sizeof *all)];
        if (numbers_below(&n, 2) || (v->smooth && numbers_below(&n, 2)))
            p.dtypes[0] = p.dtypes[1] = p.dtypes[2] = GT_FLOAT32;
        for (int i = 1; i <= INPUTS; i++)
            p.shared[i] = numbers_below(&n, 3) == 0;
        make_inputs(&worker, &p, 100 * k);
        random_program(&worker, &p, &n);
        if (p.slots)
            grouped += check_program(&worker, &p, &n, 100 * k);
    }
    CHECK(grouped > (is_tested("cpu") ? 2 : 1) * programs);
    worker_close(&worker);
}

/* ---- what runs as one ------------------------------------------------------------------------------------------ */

typedef struct expected {
    void (*build)(program *p);
    unsigned groups, inner; /* inner: buffers that never are in memory */
    bool exact;
} expected;

static void test_groups(const void *context)
{
    const expected *e = context;
    static program p;
    gt_worker worker = {.name = "test"};
    numbers n = {.state = 3};
    if (!worker_open_threads(&worker, tested_engine(), 2))
        return;
    static const int64_t shapes[][2] = {{3, 5}, {64, 100}, {300, 515}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        p = (program){.rows = shapes[k][0], .columns = shapes[k][1], .next = FIRST, .smooth = true};
        p.dtypes[0] = p.dtypes[1] = p.dtypes[2] = GT_FLOAT32;
        e->build(&p);
        p.next = FIRST; /* the ids are chosen above */
        make_inputs(&worker, &p, k);
        gt_plan_input inputs[INPUTS];
        gt_plan *plan;
        gt_sequence *sequence = NULL;
        for (uint64_t id = 1; id <= INPUTS; id++)
            inputs[id - 1] = (gt_plan_input){.id = id, .view = &gt__store_find(worker.store, id)->view};
        if (!CHECK_EQ(gt__plan_new(p.records, p.slots, inputs, INPUTS, &plan), GT_OK) ||
            !CHECK_EQ(gt__sequence_new(&worker, plan, &sequence), GT_OK))
            break;
        unsigned groups = 0, inner = 0;
        for (uint32_t step = 0; step < plan->step_count; step++)
            groups += plan->steps[step].group == step;
        for (uint32_t buffer = 0; buffer < plan->buffer_count; buffer++)
            inner += plan->buffers[buffer].role == GT_PLAN_NONE;
        CHECK_EQ(groups, e->groups);
        CHECK_EQ(inner, e->inner);
        gt__sequence_free(&worker, &sequence);
        p.smooth = !e->exact;
        check_program(&worker, &p, &n, k);
    }
    worker_close(&worker);
}

/* An axis that was fixed when the plan was compiled changes: the steps run one by one. */
static void test_other_axis(const void *unused)
{
    (void)unused;
    static program p;
    gt_worker worker = {.name = "test"};
    gt_plan *plan;
    gt_sequence *sequence = NULL;
    if (!worker_open(&worker, "cpu"))
        return;
    p = (program){.rows = 4, .columns = 4, .next = FIRST, .smooth = true};
    p.dtypes[0] = p.dtypes[1] = p.dtypes[2] = GT_FLOAT32;
    add(&p, GT_OP_neg, 20, 1, 0);
    add(&p, GT_OP_sum, 21, 20, 0)->imm[0].u = 2;
    add_free(&p, 20);
    make_inputs(&worker, &p, 1);
    gt_plan_input input = {.id = 1, .view = &gt__store_find(worker.store, 1)->view};
    if (CHECK_EQ(gt__plan_new(p.records, p.slots, &input, 1, &plan), GT_OK) &&
        CHECK_EQ(gt__sequence_new(&worker, plan, &sequence), GT_OK)) {
        CHECK_EQ(plan->steps[1].group, 0);
        p.records[1].ins.imm[0].u = plan->records[1].ins.imm[0].u = 1;
        CHECK_EQ(gt__sequence_run(&worker, sequence, (uint64_t[]){1}, (uint64_t[]){21 + SHIFT}), GT_OK);
        run_directly(&worker, &p);
        CHECK(same_value(&worker, &p, 21, 21 + SHIFT));
    }
    gt__sequence_free(&worker, &sequence);
    worker_close(&worker);
}

/* Make the inputs of a program whose records are written, and a sequence of it. */
static bool prepare(gt_worker *worker, program *p, gt_plan **plan, gt_sequence **sequence)
{
    gt_plan_input inputs[INPUTS];
    p->next = FIRST;
    make_inputs(worker, p, 1);
    for (uint64_t id = 1; id <= INPUTS; id++)
        inputs[id - 1] = (gt_plan_input){.id = id, .view = &gt__store_find(worker->store, id)->view};
    return CHECK_EQ(gt__plan_new(p->records, p->slots, inputs, INPUTS, plan), GT_OK) &&
           CHECK_EQ(gt__sequence_new(worker, *plan, sequence), GT_OK);
}

/* Run the sequence, and its steps one by one: these results are the same. */
static void compare_run(gt_worker *worker, const program *p, const gt_plan *plan, gt_sequence *sequence,
                        const uint64_t *ids, unsigned count)
{
    uint64_t from[INPUTS], to[16];
    for (uint32_t k = 0; k < plan->input_count; k++)
        from[k] = plan->values[plan->inputs[k]].id;
    for (uint32_t k = 0; k < plan->output_count; k++)
        to[k] = plan->values[plan->outputs[k]].id + SHIFT;
    CHECK_EQ(gt__sequence_run(worker, sequence, from, to), GT_OK);
    run_directly(worker, p);
    for (unsigned k = 0; k < count; k++)
        CHECK(same_value(worker, p, ids[k], ids[k] + SHIFT));
}

typedef struct left_out_case {
    void (*build)(program *p);
    gt_dtype dtype; /* of the inputs 1, 4 and 7 */
    uint64_t left_out, results[4];
    unsigned count;
} left_out_case;

/* A value need not be made if others can read what it is made of, which is not written over before the last of them. */
static void test_left_out(const void *context)
{
    const left_out_case *c = context;
    static program p;
    gt_worker worker = {.name = "test"};
    gt_plan *plan;
    gt_sequence *sequence = NULL;
    if (!worker_open(&worker, tested_engine()))
        return;
    p = (program){.rows = 64, .columns = 520, .next = FIRST, .smooth = true};
    p.dtypes[0] = p.dtypes[2] = GT_FLOAT32;
    p.dtypes[1] = c->dtype;
    c->build(&p);
    if (prepare(&worker, &p, &plan, &sequence)) {
        for (uint32_t k = 0; k < plan->value_count && !is_tested("cpu"); k++)
            if (plan->values[k].id == c->left_out)
                CHECK_EQ(plan->buffers[plan->values[k].buffer].role, GT_PLAN_NONE);
        for (int round = 0; round < 4; round++)
            compare_run(&worker, &p, plan, sequence, c->results, c->count);
    }
    gt__sequence_free(&worker, &sequence);
    worker_close(&worker);
}

/* Zeros that an engine relied on become ones. */
static void test_other_fill(const void *unused)
{
    (void)unused;
    static program p;
    gt_worker worker = {.name = "test"};
    gt_plan *plan;
    gt_sequence *sequence = NULL;
    if (!worker_open(&worker, tested_engine()))
        return;
    p = (program){.rows = 4, .columns = 40, .next = FIRST, .smooth = true};
    p.dtypes[0] = p.dtypes[1] = p.dtypes[2] = GT_FLOAT32;
    sparse_sequence(&p);
    if (prepare(&worker, &p, &plan, &sequence)) {
        for (int round = 0; round < 6; round++) {
            p.records[1].ins.imm[0].f = plan->records[1].ins.imm[0].f = round == 3 ? 1 : 0;
            compare_run(&worker, &p, plan, sequence, (uint64_t[]){24}, 1);
        }
    }
    gt__sequence_free(&worker, &sequence);
    worker_close(&worker);
}

/* The result of log_softmax need not exist. In one run the zeros of its gradient are ones. */
static void test_cross_entropy(const void *context)
{
    const int64_t *shape = context;
    static program p;
    gt_worker worker = {.name = "test"};
    gt_plan *plan;
    gt_sequence *sequence = NULL;
    if (!worker_open(&worker, tested_engine()))
        return;
    p = (program){.rows = shape[0], .columns = shape[1], .next = FIRST, .smooth = true};
    p.dtypes[0] = p.dtypes[1] = p.dtypes[2] = GT_BFLOAT16;
    cross_entropy_sequence(&p);
    if (prepare(&worker, &p, &plan, &sequence)) {
        for (uint32_t k = 0; k < plan->value_count && is_tested("cuda"); k++)
            if (plan->values[k].id == 22)
                CHECK_EQ(plan->buffers[plan->values[k].buffer].role, GT_PLAN_NONE);
        size_t zeros = 0;
        while (p.records[zeros].ins.op != GT_OP_full)
            zeros++;
        for (int round = 0; round < 6; round++) {
            p.records[zeros].ins.imm[0].f = plan->records[zeros].ins.imm[0].f = round == 3 ? 1 : 0;
            compare_run(&worker, &p, plan, sequence, (uint64_t[]){24, 29}, 2);
        }
    }
    gt__sequence_free(&worker, &sequence);
    worker_close(&worker);
}

/* Attention, and its gradients: keys 2, values 3, queries 1 and the gradient of the result 9; or copies of these two, which only
 * attention needs. */
static void attention_sequence(program *p, bool copies)
{
    uint64_t q = copies ? 40 : 1, g = copies ? 41 : 9;
    if (copies)
        add_number(p, GT_OP_mul, q, 1, 1);
    gt_instruction *ins = add(p, GT_OP_attention, 20, q, 2);
    ins->operand[2] = 3;
    ins->imm[0].f = 0.25;
    ins->imm[1].i = p->rows;
    add_number(p, GT_OP_mul, 21, 20, 2);
    add_free(p, 20);
    if (copies)
        add_number(p, GT_OP_mul, g, 9, 1);
    gt_slot *cat = append(p, GT_OP_cat, 1);
    cat->ins.result = 22;
    cat->ins.imm[0].i = 1;
    cat->ins.imm[1].i = 2;
    cat[1].u64[0] = q;
    cat[1].u64[1] = g;
    p->slots += 2;
    if (copies)
        free_all(p, (uint64_t[]){q, g}, 2);
    for (uint64_t id = 30; id < 36; id++) /* something that memory is needed for in between */
        add_number(p, GT_OP_add, id, 21, (double)id);
    ins = add(p, GT_OP_attention_backward, 23, 22, 2);
    ins->operand[2] = 3;
    ins->imm[0].f = 0.25;
    ins->imm[1].i = p->rows;
    add_free(p, 22);
}

/* Runs several times, so that it is recorded where the engine records. In one run the scale differs: then it is no pair. */
static void test_attention_pair(const void *context)
{
    const bool *copies = context;
    static program p;
    gt_worker worker = {.name = "test"};
    gt_plan *plan;
    gt_sequence *sequence = NULL;
    if (!worker_open(&worker, tested_engine()))
        return;
    p = (program){.rows = 90, .columns = 32, .next = FIRST, .smooth = true};
    p.dtypes[0] = p.dtypes[1] = p.dtypes[2] = GT_BFLOAT16;
    attention_sequence(&p, *copies);
    if (prepare(&worker, &p, &plan, &sequence)) {
        for (uint32_t k = 0; k < plan->value_count && *copies && is_tested("cuda"); k++)
            if (plan->values[k].id == 22)
                CHECK_EQ(plan->buffers[plan->values[k].buffer].role, GT_PLAN_NONE);
        for (int round = 0; round < 5; round++) {
            p.records[*copies].ins.imm[0].f = plan->records[*copies].ins.imm[0].f = round == 3 ? 0.5 : 0.25;
            compare_run(&worker, &p, plan, sequence, (uint64_t[]){21, 23}, 2);
        }
    }
    gt__sequence_free(&worker, &sequence);
    worker_close(&worker);
}

/* The gradients of three parts of one tensor are stored where they belong. In one run the scale differs. */
static void test_heads(const void *unused)
{
    (void)unused;
    static program p;
    gt_worker worker = {.name = "test"};
    gt_plan *plan;
    gt_sequence *sequence = NULL;
    size_t forward = 0;
    if (!worker_open(&worker, tested_engine()))
        return;
    p = (program){.rows = 140, .columns = 96, .next = FIRST, .smooth = true};
    p.dtypes[0] = p.dtypes[1] = p.dtypes[2] = GT_BFLOAT16;
    heads_sequence(&p);
    while (p.records[forward].ins.op != GT_OP_attention)
        forward += 1u + p.records[forward].ins.tail;
    if (prepare(&worker, &p, &plan, &sequence)) {
        for (uint32_t k = 0; k < plan->value_count && is_tested("cuda"); k++)
            if (plan->values[k].id == 43 || plan->values[k].id == 60 || plan->values[k].id == 42)
                CHECK_EQ(plan->buffers[plan->values[k].buffer].role, GT_PLAN_NONE);
        for (int round = 0; round < 5; round++) {
            CHECK_EQ(plan->output_count, 1);
            p.records[forward].ins.imm[0].f = plan->records[forward].ins.imm[0].f = round == 3 ? 0.5 : 0.25;
            compare_run(&worker, &p, plan, sequence, (uint64_t[]){65}, 1);
        }
    }
    gt__sequence_free(&worker, &sequence);
    worker_close(&worker);
}

typedef struct norm_case {
    int64_t rows, columns;
    gt_dtype dtype;
    bool bias, whole;
} norm_case;

/* The gradients of layer norm are one kernel. In one run its eps differs between them: then they are several. */
static void test_norm_gradients(const void *context)
{
    const norm_case *c = context;
    static program p;
    gt_worker worker = {.name = "test"};
    gt_plan *plan;
    gt_sequence *sequence = NULL;
    if (!worker_open(&worker, tested_engine()))
        return;
    p = (program){.rows = c->rows, .columns = c->columns, .next = FIRST, .smooth = true};
    p.dtypes[0] = p.dtypes[1] = p.dtypes[2] = c->dtype;
    norm_gradients_sequence(&p, c->bias);
    if (prepare(&worker, &p, &plan, &sequence)) {
        CHECK_EQ(plan->steps[0].group, 0);
        for (unsigned k = 1; k < plan->step_count && is_tested("cuda"); k++)
            CHECK_EQ(plan->steps[k].group, c->whole ? 0 : k);
        for (int round = 0; round < 6; round++) {
            for (unsigned k = 0; k < 2; k++) /* changed for both; for one */
                p.records[k].ins.imm[1].f = plan->records[k].ins.imm[1].f = round == 3   ? 0.5
                                                                            : round == 4 ? 0.1 * k
                                                                                         : 1e-5;
            compare_run(&worker, &p, plan, sequence, (uint64_t[]){20, 21, 22}, c->bias ? 3 : 2);
        }
    }
    gt__sequence_free(&worker, &sequence);
    worker_close(&worker);
}

int main(int argc, char **argv)
{
    static const variant variants[] = {{1, false}, {1, true}, {3, false}, {3, true}};
    bool cpu = is_tested("cpu");
    check_begin(argc, argv);
    for (size_t k = 0; k < (cpu ? sizeof variants / sizeof *variants : 2); k++) {
        char name[64];
        snprintf(name, sizeof name, "%s, %d threads", variants[k].smooth ? "rows" : "elements",
                 variants[k].threads);
        check_run(name, test_random, &variants[k]);
    }
    check_run("Adam's update is one pass", test_groups, &(expected){adam_sequence, 1, 10, true});
    if (cpu)
        check_run("Adam's update in another order", test_groups, &(expected){mixed_sequence, 1, 13, true});
    check_run("read across, not written over", test_groups, &(expected){across_sequence, cpu ? 2 : 3, 0, true});
    check_run("written over what is read", test_groups, &(expected){over_sequence, 1, 1, true});
    check_run("equal updates", test_groups, &(expected){updates_sequence, 5, 8, true});
    check_run("a number from numbers", test_groups, &(expected){scalar_sequence, cpu ? 4 : 1, cpu ? 1 : 3, true});
    check_run("reduced to one number", test_groups, &(expected){reduced_sequence, cpu ? 2 : 3, 3, false});
    check_run("random numbers", test_groups, &(expected){random_sequence, cpu ? 7 : 1, cpu ? 2 : 6, true});
    check_run("casts around rows", test_groups, &(expected){casts_sequence, cpu ? 3 : 4, 3, false});
    check_run("one element in each row", test_groups,
              &(expected){sparse_sequence, cpu ? 4 : 2, cpu ? 1 : 2, false});
    if (!is_tested("cudahost"))
        check_run("other zeros", test_other_fill, NULL);
    if (!is_tested("cudahost")) {
        check_run("gradients in halves", test_left_out,
                  &(left_out_case){half_gradients_sequence, GT_BFLOAT16, 21, {26, 27, 28, 29}, 4});
        check_run("a cast with another reader", test_left_out,
                  &(left_out_case){hidden_reader_sequence, GT_BFLOAT16, 21, {23, 24}, 2});
        check_run("logits with another reader", test_left_out,
                  &(left_out_case){hidden_logits_sequence, GT_FLOAT32, 21, {23, 24}, 2});
        check_run("attention and its gradients", test_attention_pair, &(bool){false});
        check_run("attention of copies", test_attention_pair, &(bool){true});
        check_run("attention of three parts", test_heads, NULL);
        check_run("cross entropy", test_cross_entropy, (int64_t[]){5, 40});
        check_run("cross entropy of long rows", test_cross_entropy, (int64_t[]){3, 9000});
        check_run("gradients of norm", test_norm_gradients, &(norm_case){700, 36, GT_FLOAT32, true, true});
        check_run("gradients of norm without bias", test_norm_gradients,
                  &(norm_case){90, 31, GT_BFLOAT16, false, true});
        check_run("gradients of norm of long rows", test_norm_gradients,
                  &(norm_case){20, 1500, GT_FLOAT32, true, true});
        check_run("gradients of norm of longer rows", test_norm_gradients,
                  &(norm_case){9, 8192, GT_BFLOAT16, true, true});
        check_run("gradients of norm of rows that are too long", test_norm_gradients,
                  &(norm_case){4, 9000, GT_FLOAT32, true, false});
    }
    if (!cpu)
        return check_end();
    check_run("norm and its gradients are one pass", test_groups, &(expected){norm_sequence, 1, 4, false});
    check_run("pairs of steps", test_groups, &(expected){pairs_sequence, 2, 64, true});
    check_run("relu in a chain", test_groups, &(expected){relu_sequence, 2, 55, true});
    check_run("other axes", test_other_axis, NULL);
    return check_end();
}
