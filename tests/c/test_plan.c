/*
 * test_plan.c: sequences that are planned once and run many times give what their records give one by one, on every
 * engine: with views, updates in place, freed values, failures, and inputs that change from run to run.
 */
#include <stdlib.h>
#include <string.h>

#include "core/record.h"
#include "random_numbers.h"
#include "worker_fixture.h"

enum { MOST_SLOTS = 4096, SIDE = 6, INPUTS = 3 };

/* ---- records ------------------------------------------------------------------------------------------------- */

typedef struct sequence {
    gt_slot records[MOST_SLOTS];
    size_t slots;
} sequence;

static gt_slot *append(sequence *s, unsigned tail)
{
    gt_slot *record = s->records + s->slots;
    memset(record, 0, (1 + tail) * sizeof *record);
    record->ins.tail = (uint16_t)tail;
    s->slots += 1 + tail;
    return record;
}

static void add_op(sequence *s, gt_opcode op, uint64_t result, uint64_t a, uint64_t b)
{
    gt_slot *record = append(s, 0);
    record->ins.op = (uint16_t)op;
    record->ins.result = result;
    record->ins.operand[0] = a;
    record->ins.operand[1] = b;
}

static void add_number(sequence *s, gt_opcode op, uint64_t result, uint64_t a, double number)
{
    gt_slot *record = append(s, 0);
    record->ins = (gt_instruction){.op = (uint16_t)op, .result = result, .operand = {a}};
    record->ins.literals = GT_LITERAL_FLOAT << 2;
    record->ins.literal[1].f = number;
}

static void add_free(sequence *s, uint64_t id)
{
    gt_slot *record = append(s, 0);
    record->ins.op = GT_OP_free;
    record->ins.operand[1] = id;
}

/* Every other row. */
static void add_slice(sequence *s, uint64_t result, uint64_t a)
{
    gt_slot *record = append(s, 3);
    record->ins.op = GT_OP_slice;
    record->ins.result = result;
    record->ins.operand[0] = a;
    record[1] = (gt_slot){.i64 = {1, 0}};
    record[2] = (gt_slot){.i64 = {2, 1}};
    record[3] = (gt_slot){.i64 = {SIDE / 2, SIDE}};
}

/* a[1::2] = src, in place of a. */
static void add_assign(sequence *s, uint64_t result, uint64_t a, uint64_t src)
{
    add_slice(s, result, a);
    gt_instruction *ins = &s->records[s->slots - 4].ins;
    ins->op = GT_OP_assign;
    ins->flags = GT_FLAG_CONSUMES;
    ins->operand[1] = src;
}

static void add_cat(sequence *s, uint64_t result, uint64_t a, uint64_t b)
{
    gt_slot *record = append(s, 1);
    record->ins.op = GT_OP_cat;
    record->ins.result = result;
    record->ins.imm[1].i = 2;
    record[1].u64[0] = a;
    record[1].u64[1] = b;
}

static void add_transpose(sequence *s, uint64_t result, uint64_t a)
{
    add_op(s, GT_OP_permute, result, a, 0);
    s->records[s->slots - 1].ins.imm[0].u = 1;
}

/* ---- running ------------------------------------------------------------------------------------------------- */

/* Inputs are (SIDE, SIDE) floats in slots 1 to INPUTS, other numbers for another seed. */
static void make_inputs(gt_worker *worker, int64_t seed)
{
    for (uint64_t slot = 1; slot <= INPUTS; slot++) {
        gt_slot record[8] = {
            {.ins = {.op = GT_OP_randn, .dtype = GT_FLOAT32, .rank = 2, .tail = 2, .result = slot}}};
        record->ins.imm[0].i = seed;
        record->ins.imm[1].i = (int64_t)slot;
        record[1] = (gt_slot){.i64 = {SIDE, SIDE}};
        execute(worker, record);
    }
}

static void run_directly(gt_worker *worker, const sequence *s)
{
    for (size_t at = 0; at < s->slots; at += 1u + s->records[at].ins.tail) {
        const gt_slot *record = s->records + at;
        if (record->ins.op != GT_OP_free) {
            gt__worker_execute(worker, &record->ins, record + 1);
            continue;
        }
        for (unsigned k = 0; k < GT_FREE_IDS; k++)
            if (gt__free_ids(&record->ins)[k])
                gt__store_clear(worker->store, gt__store_find(worker->store, gt__free_ids(&record->ins)[k]));
    }
}

static gt_err plan_sequence(gt_worker *worker, const sequence *s, gt_sequence **out)
{
    gt_plan_input inputs[INPUTS];
    gt_plan *plan;
    for (uint64_t k = 0; k < INPUTS; k++)
        inputs[k] = (gt_plan_input){.id = k + 1, .view = &gt__store_find(worker->store, k + 1)->view};
    GT_TRY(gt__plan_new(s->records, s->slots, inputs, INPUTS, &plan));
    return gt__sequence_new(worker, plan, out);
}

/* The plan's inputs and outputs under their own ids, outputs moved by `shift`. */
static gt_err run_planned(gt_worker *worker, const gt_plan *plan, gt_sequence *sequence_, uint64_t shift)
{
    uint64_t inputs[INPUTS], outputs[MOST_SLOTS];
    for (uint32_t k = 0; k < plan->input_count; k++)
        inputs[k] = plan->values[plan->inputs[k]].id;
    for (uint32_t k = 0; k < plan->output_count; k++)
        outputs[k] = plan->values[plan->outputs[k]].id + shift;
    return gt__sequence_run(worker, sequence_, inputs, outputs);
}

static bool same_tensor(gt_worker *worker, uint64_t a, uint64_t b)
{
    size_t bytes_a = 0, bytes_b = 1;
    void *data_a = read_tensor(worker, a, &bytes_a), *data_b = read_tensor(worker, b, &bytes_b);
    const gt_entry *entry_a = gt__store_find(worker->store, a), *entry_b = gt__store_find(worker->store, b);
    bool same = data_a && data_b ? bytes_a == bytes_b && memcmp(data_a, data_b, bytes_a) == 0 &&
                                       gt__meta_same_shape(&entry_a->view.meta, &entry_b->view.meta)
                                 : !data_a && !data_b && entry_a->state == GT_ENTRY_POISON &&
                                       strcmp(entry_a->poison->text, entry_b->poison->text) == 0;
    free(data_a);
    free(data_b);
    return same;
}

/* ---- slices that move -------------------------------------------------------------------------------------- */

/* Half of the rows, beginning with one that is a parameter. Returns the record's slot. */
static uint32_t add_moving(sequence *s, gt_opcode op, uint64_t result, uint64_t a, uint64_t src)
{
    gt_slot *record = append(s, 3);
    record->ins = (gt_instruction){.op = (uint16_t)op, .tail = 3, .result = result, .operand = {a, src}};
    record[2] = (gt_slot){.i64 = {1, 1}};
    record[3] = (gt_slot){.i64 = {SIDE / 2, SIDE}};
    return (uint32_t)(record - s->records);
}

/* Parts of inputs, of results and of parts, which are read, kept, written to, and outlive what they are parts of. */
static uint32_t moving_parts(sequence *s, gt_path_word *parameter)
{
    uint32_t count = 0;
    parameter[count++].slot = add_moving(s, GT_OP_slice, 10, 1, 0);
    add_number(s, GT_OP_mul, 11, 10, 3);
    add_op(s, GT_OP_add, 12, 11, 10);
    add_free(s, 11);
    add_op(s, GT_OP_add, 13, 2, 3);
    add_number(s, GT_OP_mul, 14, 13, 0.5);
    parameter[count++].slot = add_moving(s, GT_OP_slice, 15, 14, 0);
    add_op(s, GT_OP_sub, 16, 15, 10);
    add_free(s, 15);
    add_free(s, 14);
    parameter[count++].slot = add_moving(s, GT_OP_assign, 17, 13, 16);
    s->records[s->slots - 4].ins.flags = GT_FLAG_CONSUMES;
    add_transpose(s, 18, 2);
    parameter[count++].slot = add_moving(s, GT_OP_slice, 19, 18, 0);
    add_free(s, 18);
    add_op(s, GT_OP_neg, 20, 19, 0);
    add_free(s, 2);
    for (uint32_t k = 0; k < count; k++)
        parameter[k].word = GT_WORD_TAIL;
    return count;
}

/* Run after run the parts begin elsewhere, at last beyond the end, which is the failure of that part. */
static void test_moving(const void *engine)
{
    static const uint64_t results[] = {10, 12, 16, 17, 19, 20};
    for (int fixed = 0; fixed < 2; fixed++) {
        gt_worker worker;
        sequence s = {.slots = 0};
        gt_path_word parameter[8];
        uint64_t value[8] = {0}, slots[INPUTS] = {1, 2, 3}, outputs[6];
        uint32_t count = moving_parts(&s, parameter);
        gt_plan_input inputs[INPUTS];
        gt_plan *plan;
        gt_sequence *planned = NULL;
        if (!worker_open(&worker, engine))
            return;
        make_inputs(&worker, 1);
        for (uint64_t k = 0; k < INPUTS; k++)
            inputs[k] = (gt_plan_input){.id = k + 1, .view = &gt__store_find(worker.store, k + 1)->view};
        gt_plan_source source = {.records = s.records, .slots = s.slots, .inputs = inputs, .input_count = INPUTS};
        source.parameter = parameter;
        source.parameters = count;
        source.value = value;
        source.fixed_addresses = fixed;
        if (!CHECK_EQ(gt__plan_make(&source, &plan), GT_OK) ||
            !CHECK_EQ(gt__sequence_new(&worker, plan, &planned), GT_OK))
            return;
        CHECK(plan->output_count == 6 && plan->moving_count == count);
        for (int round = 0; round < 20; round++) {
            make_inputs(&worker, round);
            for (uint32_t k = 0; k < count; k++) {
                uint64_t start = round < 15 || k != (uint32_t)round % count ? ((uint64_t)round * (k + 1)) % 4 : 4;
                gt__sequence_set_word(planned, parameter[k].slot, parameter[k].word, start);
                *gt__record_word(s.records + parameter[k].slot, parameter[k].word) = start;
            }
            for (unsigned k = 0; k < 6; k++)
                outputs[k] = 100 + results[k];
            CHECK_EQ(gt__sequence_run(&worker, planned, slots, outputs), GT_OK);
            gt__late_drain(&worker);
            make_inputs(&worker, round); /* 2 has died */
            run_directly(&worker, &s);
            gt__late_drain(&worker);
            for (unsigned k = 0; k < 6; k++) {
                gt__store_settle(worker.store, gt__store_find(worker.store, outputs[k]));
                gt__store_settle(worker.store, gt__store_find(worker.store, results[k]));
                if (!CHECK(same_tensor(&worker, results[k], outputs[k])))
                    fprintf(stderr, "  tensor %d in round %d, %d\n", (int)results[k], round, fixed);
            }
        }
        gt__sequence_free(&worker, &planned);
        worker_close(&worker);
    }
}

/* ---- tests ---------------------------------------------------------------------------------------------------- */

static void layer(sequence *s)
{
    add_op(s, GT_OP_matmul, 10, 1, 2);
    add_op(s, GT_OP_add, 11, 10, 3);
    add_free(s, 10);
    add_op(s, GT_OP_tanh, 12, 11, 0);
    add_free(s, 11);
    add_number(s, GT_OP_mul, 13, 12, 0.5);
    add_free(s, 12);
    add_transpose(s, 14, 13);
    add_op(s, GT_OP_matmul, 15, 14, 1);
    add_slice(s, 16, 15);
    add_cat(s, 17, 16, 13);
    add_free(s, 16);
    add_number(s, GT_OP_add, 18, 15, 1);
    add_slice(s, 19, 13);
    add_assign(s, 20, 18, 19); /* 18 dies: updated in place */
    add_free(s, 19);
}

static void test_repeated(const void *engine)
{
    gt_worker worker;
    sequence s = {.slots = 0};
    gt_sequence *planned = NULL;
    if (!worker_open(&worker, engine))
        return;
    make_inputs(&worker, 1);
    layer(&s);
    gt_plan_input inputs[INPUTS];
    for (uint64_t k = 0; k < INPUTS; k++)
        inputs[k] = (gt_plan_input){.id = k + 1, .view = &gt__store_find(worker.store, k + 1)->view};
    gt_plan *plan;
    if (!CHECK_EQ(gt__plan_new(s.records, s.slots, inputs, INPUTS, &plan), GT_OK))
        return;
    /* What the plan knows: 10, 11, 12 and 16, 18, 19 die; 13, 14, 15, 17 and 20 live on. */
    CHECK_EQ(plan->input_count, 3);
    CHECK_EQ(plan->output_count, 5);
    uint32_t inner = 0, in_place = 0;
    for (uint32_t k = 0; k < plan->buffer_count; k++)
        inner += plan->buffers[k].role == GT_PLAN_INNER;
    for (uint32_t k = 0; k < plan->step_count; k++) {
        in_place += plan->steps[k].kind == GT_STEP_IN_PLACE;
        if (plan->values[plan->steps[k].result].id == 11)
            CHECK_EQ(plan->values[plan->steps[k].result].last_use, k + 1);
    }
    CHECK_EQ(inner, 3);
    CHECK_EQ(in_place, 1);
    if (CHECK_EQ(gt__sequence_new(&worker, plan, &planned), GT_OK)) {
        CHECK_EQ(plan->memory_count, 4); /* of 13, 15, 17 and 20; 10, 11 and 12 become 13 one after the other */
        CHECK_EQ(gt__sequence_compiled(planned), strcmp(engine, "cpu") == 0 || strcmp(engine, "late") == 0);
        uint64_t held = 0;
        for (int round = 0; round < 20; round++) {
            make_inputs(&worker, round);
            CHECK_EQ(run_planned(&worker, plan, planned, 100), GT_OK);
            run_directly(&worker, &s);
            for (uint64_t id = 13; id <= 20; id++)
                if (id != 16 && id != 18 && id != 19)
                    CHECK(same_tensor(&worker, id, 100 + id));
            if (round == 2)
                held = worker.store->bytes_held;
        }
        CHECK_EQ(worker.store->bytes_held, held); /* nothing is allocated in steady state */
    }
    gt__sequence_free(&worker, &planned);
    worker_close(&worker);
}

/* take of an index that is out of range: what comes from it fails with its failure, the rest is computed. */
static void test_failure(const void *engine)
{
    gt_worker worker;
    sequence s = {.slots = 0};
    gt_sequence *planned = NULL;
    if (!worker_open(&worker, engine))
        return;
    make_inputs(&worker, 1);
    gt_slot *index = append(&s, 1);
    index->ins = (gt_instruction){.op = GT_OP_full, .dtype = GT_INT64, .rank = 1, .tail = 1, .result = 10};
    index->ins.imm[0].i = 99;
    index[1].i64[0] = 2;
    add_op(&s, GT_OP_take, 11, 1, 10);
    add_op(&s, GT_OP_neg, 12, 11, 0);
    add_op(&s, GT_OP_add, 13, 2, 3);
    add_transpose(&s, 14, 12);
    add_free(&s, 11);
    if (CHECK_EQ(plan_sequence(&worker, &s, &planned), GT_OK)) {
        uint64_t inputs[INPUTS] = {1, 2, 3}, outputs[] = {110, 112, 113, 114};
        for (int round = 0; round < 3; round++) {
            CHECK_EQ(gt__sequence_run(&worker, planned, inputs, outputs), GT_OK);
            gt__late_drain(&worker);
            run_directly(&worker, &s);
            gt__late_drain(&worker);
            for (uint64_t id = 110; id <= 114; id++)
                gt__store_settle(worker.store, gt__store_find(worker.store, id));
            CHECK_EQ(gt__store_find(worker.store, 112)->state, GT_ENTRY_POISON);
            CHECK_EQ(gt__store_find(worker.store, 114)->state, GT_ENTRY_POISON);
            CHECK(strncmp(gt__store_find(worker.store, 112)->poison->text, "take: ", 6) == 0);
            if (gt__sequence_compiled(planned) &&
                strcmp(engine, "cpu") != 0) /* failures that come later are all outputs' */
                continue;
            CHECK(same_tensor(&worker, 12, 112));
            CHECK(same_tensor(&worker, 13, 113));
            CHECK(same_tensor(&worker, 14, 114));
        }
    }
    gt__sequence_free(&worker, &planned);
    worker_close(&worker);
}

/* Slot 1 becomes rows 1 to SIDE of a tensor with a row more, which is in slot 50; other slots are left. */
static void make_part(gt_worker *worker)
{
    gt_slot whole[8] = {
        {.ins = {.op = GT_OP_randn, .dtype = GT_FLOAT32, .rank = 2, .tail = 2, .result = 50, .imm = {{.i = 5}}}},
        {.i64 = {SIDE + 1, SIDE}}};
    gt_slot rows[8] = {{.ins = {.op = GT_OP_slice, .tail = 3, .result = 1, .operand = {50}}},
                       {.i64 = {1, 0}},
                       {.i64 = {1, 1}},
                       {.i64 = {SIDE, SIDE}}};
    execute(worker, whole);
    execute(worker, rows);
}

/* An output is made over an input that dies, if that owns its memory alone and begins where the memory does. */
static void test_takes(const void *engine)
{
    gt_worker worker;
    sequence s = {.slots = 0};
    gt_sequence *planned = NULL;
    if (!worker_open(&worker, engine))
        return;
    make_inputs(&worker, 1);
    add_number(&s, GT_OP_mul, 10, 1, 0.5);
    gt_slot expected[8] = {s.records[0]};
    expected->ins.result = 20;
    add_free(&s, 1);
    if (CHECK_EQ(plan_sequence(&worker, &s, &planned), GT_OK)) {
        for (int kind = 0; kind < 4; kind++) { /* a tensor; a part; a part whose whole lives; a tensor */
            make_inputs(&worker, kind);
            if (kind == 1 || kind == 2)
                make_part(&worker);
            if (kind == 1)
                gt__store_clear(worker.store, gt__store_find(worker.store, 50));
            gt_buffer *buffer = gt__store_find(worker.store, 1)->buffer;
            execute(&worker, expected);
            size_t bytes = 0, same = 0;
            void *before = kind == 2 ? read_tensor(&worker, 50, &bytes) : NULL;
            CHECK_EQ(gt__sequence_run(&worker, planned, (uint64_t[]){1}, (uint64_t[]){110}), GT_OK);
            CHECK_EQ(gt__store_find(worker.store, 1)->state, GT_ENTRY_EMPTY);
            CHECK_EQ(gt__store_find(worker.store, 110)->buffer == buffer, kind == 0 || kind == 3);
            CHECK(same_tensor(&worker, 20, 110));
            void *after = kind == 2 ? read_tensor(&worker, 50, &same) : NULL;
            CHECK(bytes == same && (!bytes || memcmp(before, after, bytes) == 0));
            free(before);
            free(after);
        }
    }
    gt__sequence_free(&worker, &planned);
    worker_close(&worker);
}

/* Products cannot be made over their operands: two are alive at a time, and one of them lies where the output will be. */
static void test_block(const void *engine)
{
    enum { PRODUCTS = 6 };
    gt_worker worker;
    sequence s = {.slots = 0};
    gt_sequence *planned = NULL;
    if (!worker_open(&worker, engine))
        return;
    make_inputs(&worker, 1);
    for (uint64_t id = 10; id < 10 + PRODUCTS; id++) {
        add_op(&s, GT_OP_matmul, id, id == 10 ? 1 : id - 1, 2);
        if (id > 10)
            add_free(&s, id - 1);
    }
    gt_plan_input inputs[INPUTS];
    for (uint64_t k = 0; k < INPUTS; k++)
        inputs[k] = (gt_plan_input){.id = k + 1, .view = &gt__store_find(worker.store, k + 1)->view};
    gt_plan *plan;
    if (CHECK_EQ(gt__plan_new(s.records, s.slots, inputs, INPUTS, &plan), GT_OK) &&
        CHECK_EQ(gt__sequence_new(&worker, plan, &planned), GT_OK)) {
        size_t bytes = 0;
        for (uint32_t m = 0; m < plan->memory_count; m++)
            bytes += (plan->memories[m].bytes + 63) / 64 * 64;
        CHECK(bytes <= 2 * ((SIDE * SIDE * sizeof(float) + 63) / 64 * 64));
        CHECK_EQ(run_planned(&worker, plan, planned, 100), GT_OK);
        run_directly(&worker, &s);
        CHECK(same_tensor(&worker, 9 + PRODUCTS, 109 + PRODUCTS));
    }
    gt__sequence_free(&worker, &planned);
    worker_close(&worker);
}

/* Two inputs are views of one tensor, and die: the outputs are made in their memory only when neither is needed any more. In the
 * next run the second is a tensor of its own: the plan does not hold. */
static void test_shared(const void *engine)
{
    gt_worker worker;
    sequence s = {.slots = 0};
    gt_sequence *planned = NULL;
    if (!worker_open(&worker, engine))
        return;
    gt_slot across[8] = {{.ins = {.op = GT_OP_permute, .result = 2, .operand = {1}, .imm = {{.u = 1}}}}};
    make_inputs(&worker, 1);
    execute(&worker, across);
    add_op(&s, GT_OP_neg, 10, 1, 0);
    add_op(&s, GT_OP_matmul, 11, 2, 10);
    add_op(&s, GT_OP_matmul, 12, 11, 3);
    add_free(&s, 1);
    add_free(&s, 2);
    add_free(&s, 10);
    add_free(&s, 11);
    gt_plan_input inputs[INPUTS];
    for (uint64_t k = 0; k < INPUTS; k++) {
        const gt_entry *entry = gt__store_find(worker.store, k + 1);
        inputs[k] = (gt_plan_input){.id = k + 1, .view = &entry->view, .memory = entry->buffer};
    }
    gt_plan *plan;
    if (CHECK_EQ(gt__plan_new(s.records, s.slots, inputs, INPUTS, &plan), GT_OK) &&
        CHECK_EQ(gt__sequence_new(&worker, plan, &planned), GT_OK)) {
        for (int round = 0; round < 2; round++) {
            make_inputs(&worker, round);
            execute(&worker, across);
            const gt_buffer *buffer = gt__store_find(worker.store, 1)->buffer;
            CHECK_EQ(run_planned(&worker, plan, planned, 100), GT_OK);
            CHECK(gt__store_find(worker.store, 112)->buffer == buffer);
            make_inputs(&worker, round);
            execute(&worker, across);
            run_directly(&worker, &s);
            CHECK(same_tensor(&worker, 12, 112));
        }
        make_inputs(&worker, 3);
        CHECK_EQ(run_planned(&worker, plan, planned, 100), GT_ERR_VALUE);
    }
    gt__sequence_free(&worker, &planned);
    worker_close(&worker);
}

static void test_surprises(const void *engine)
{
    gt_worker worker;
    sequence s = {.slots = 0};
    gt_sequence *planned = NULL;
    if (!worker_open(&worker, engine))
        return;
    make_inputs(&worker, 1);
    add_op(&s, GT_OP_add, 10, 1, 2);
    if (CHECK_EQ(plan_sequence(&worker, &s, &planned), GT_OK)) {
        uint64_t inputs[] = {1, 2}, output = 110;
        execute_arange(&worker, 2, 5);
        CHECK_EQ(gt__sequence_run(&worker, planned, inputs, &output), GT_ERR_VALUE); /* another shape and dtype */
        CHECK_EQ(gt__store_find(worker.store, 110)->state, GT_ENTRY_EMPTY);
        gt__store_clear(worker.store, gt__store_find(worker.store, 2));
        CHECK_EQ(gt__sequence_run(&worker, planned, inputs, &output), GT_ERR_INTERNAL); /* none at all */
        make_inputs(&worker, 2);
        CHECK_EQ(gt__sequence_run(&worker, planned, inputs, &(uint64_t){1}),
                 GT_OK); /* the output takes an input's slot */
        size_t bytes = 0;
        void *sum = read_tensor(&worker, 1, &bytes);
        CHECK(sum && bytes == SIDE * SIDE * sizeof(float));
        free(sum);
        make_inputs(&worker, 2);
        gt_slot missing[8] = {{.ins = {.op = GT_OP_neg, .result = 2, .operand = {1000}}}};
        execute(&worker, missing);
        CHECK_EQ(gt__sequence_run(&worker, planned, inputs, &output), GT_OK); /* poison passes through */
        gt__late_drain(&worker);
        gt__store_settle(worker.store, gt__store_find(worker.store, 110));
        CHECK_EQ(gt__store_find(worker.store, 110)->state, GT_ENTRY_POISON);
    }
    gt__sequence_free(&worker, &planned);
    make_inputs(&worker, 1);
    gt_slot *upload = append(&s, 1);
    upload->ins = (gt_instruction){.op = GT_OP_upload, .dtype = GT_FLOAT32, .rank = 1, .tail = 1, .result = 11};
    upload->ins.imm[1].u = 1;
    CHECK_EQ(plan_sequence(&worker, &s, &planned), GT_ERR_UNSUPPORTED);
    s.slots = 1;
    add_op(&s, GT_OP_neg, 11, 99, 0);
    CHECK_EQ(plan_sequence(&worker, &s, &planned), GT_ERR_PROTOCOL); /* 99 is neither made nor an input */
    s.slots = 1;
    add_op(&s, GT_OP_neg, 10, 1, 0);
    CHECK_EQ(plan_sequence(&worker, &s, &planned), GT_ERR_PROTOCOL); /* 10 is made twice */
    s.slots = 1;
    add_free(&s, 10);
    add_op(&s, GT_OP_neg, 11, 10, 0);
    CHECK_EQ(plan_sequence(&worker, &s, &planned), GT_ERR_PROTOCOL); /* 10 was freed */
    s.slots = 1;
    add_cat(&s, 11, 1, 10);
    s.records[s.slots - 2].ins.imm[0].i = 7;
    CHECK(plan_sequence(&worker, &s, &planned) != GT_OK); /* no such axis */
    worker_close(&worker);
}

/* Random sequences: what each step makes has the inputs' shape, so that any value fits anywhere. */
static void random_sequence(numbers *n, sequence *s)
{
    /* The loops of sigmoid for moderate arguments round as its others do only if the compiler optimises both. */
    static const gt_opcode unary[] = {GT_OP_neg, GT_OP_abs, GT_OP_relu,
                                      CHECK_SANITIZED ? GT_OP_tanh : GT_OP_sigmoid};
    static const gt_opcode binary[] = {GT_OP_add, GT_OP_sub, GT_OP_mul, GT_OP_matmul, GT_OP_maximum};
    uint64_t live[200], count = 0, next = 10;
    bool made[400] = {false};
    for (uint64_t id = 1; id <= INPUTS; id++)
        live[count++] = id;
    for (int k = 0; k < 40; k++) {
        uint64_t a = live[numbers_below(n, count)], b = live[numbers_below(n, count)], result = next++;
        switch (numbers_below(n, 6)) {
        case 0:
            add_op(s, unary[numbers_below(n, 4)], result, a, 0);
            break;
        case 1:
            add_number(s, GT_OP_mul, result, a, 0.25);
            break;
        case 2:
            add_transpose(s, result, a);
            break;
        case 3:
            add_slice(s, result, b);
            add_assign(s, next, a, result);
            s->records[s->slots - 4].ins.flags = made[a] ? GT_FLAG_CONSUMES : 0;
            add_free(s, result);
            if (made[a])
                for (uint64_t at = 0; at < count; at++)
                    if (live[at] == a)
                        live[at--] = live[--count];
            result = next++;
            break;
        default:
            add_op(s, binary[numbers_below(n, 5)], result, a, b);
        }
        made[result] = true;
        live[count++] = result;
        if (numbers_below(n, 2) && count > INPUTS + 1) {
            uint64_t at = numbers_below(n, count);
            if (made[live[at]]) {
                add_free(s, live[at]);
                live[at] = live[--count];
            }
        }
    }
}

/* The plan's outputs, and those of run_planned with this shift. */
static bool same_outputs(gt_worker *worker, const gt_plan *plan, uint64_t shift)
{
    bool same = true;
    for (uint32_t output = 0; output < plan->output_count; output++) {
        uint64_t id = plan->values[plan->outputs[output]].id;
        same &= same_tensor(worker, id, shift + id);
    }
    return same;
}

/* The same in slices of one step each, with another record between them. Returns how often it paused. */
static unsigned run_in_slices(gt_worker *worker, const gt_plan *plan, gt_sequence *sequence_, uint64_t shift)
{
    unsigned slices = 0;
    worker->cancel.engine.pause_ns = 1;
    CHECK_EQ(run_planned(worker, plan, sequence_, shift), GT_OK);
    for (; gt__sequence_paused(sequence_); slices++) {
        gt_entry *other = execute_arange(worker, 900, 1000 * (slices + 1));
        CHECK(gt__entry_is_tensor(other));
        CHECK_EQ(gt__sequence_resume(worker, sequence_), GT_OK);
    }
    worker->cancel.engine.pause_ns = 0;
    return slices;
}

static void test_random(const void *engine)
{
    enum { SEQUENCES = CHECK_SANITIZED ? 60 : 400 };
    gt_worker worker;
    numbers n = {.state = 7};
    unsigned slices = 0;
    static sequence s;
    if (!worker_open(&worker, engine))
        return;
    for (int k = 0; k < SEQUENCES; k++) {
        s.slots = 0;
        make_inputs(&worker, k);
        random_sequence(&n, &s);
        gt_plan_input inputs[INPUTS];
        gt_plan *plan;
        gt_sequence *planned = NULL;
        for (uint64_t id = 1; id <= INPUTS; id++)
            inputs[id - 1] = (gt_plan_input){.id = id, .view = &gt__store_find(worker.store, id)->view};
        if (!CHECK_EQ(gt__plan_new(s.records, s.slots, inputs, INPUTS, &plan), GT_OK) ||
            !CHECK_EQ(gt__sequence_new(&worker, plan, &planned), GT_OK))
            break;
        CHECK_EQ(run_planned(&worker, plan, planned, 1000), GT_OK);
        slices += run_in_slices(&worker, plan, planned, 1000);
        run_directly(&worker, &s);
        CHECK(same_outputs(&worker, plan, 1000));
        gt__sequence_free(&worker, &planned);
    }
    CHECK(slices > SEQUENCES || worker.engine->ops->asynchronous); /* those are not sliced */
    /* A sequence that is freed while it is paused gives its memory back. */
    gt_sequence *planned = NULL;
    s.slots = 0;
    make_inputs(&worker, 1);
    layer(&s);
    uint64_t used = worker.store->bytes_used, inputs[INPUTS] = {1, 2, 3}, outputs[] = {113, 114, 115, 117, 120};
    worker.cancel.engine.pause_ns = 1;
    if (CHECK_EQ(plan_sequence(&worker, &s, &planned), GT_OK))
        CHECK_EQ(gt__sequence_run(&worker, planned, inputs, outputs), GT_OK);
    bool paused = planned && gt__sequence_paused(planned);
    gt__sequence_free(&worker, &planned);
    CHECK(!paused || worker.store->bytes_used == used);
    worker_close(&worker);
}

static const gt_engine_ops *full_ops; /* of the engine whose memory runs out */
static unsigned compile_calls;

/* It has grouped steps and dropped buffers by then. */
static gt_err compile_without_memory(gt_engine *engine, gt_plan *plan, gt_program **program)
{
    compile_calls++;
    if (full_ops->compile && full_ops->compile(engine, plan, program) == GT_OK)
        full_ops->free_program(engine, *program);
    *program = NULL;
    return gt__fail(GT_ERR_MEMORY, "no memory for a program");
}

/* A plan that cannot be compiled runs step by step, each time. */
static void test_not_compiled(const void *engine)
{
    gt_worker worker;
    numbers n = {.state = 11};
    static sequence s;
    if (!worker_open(&worker, engine))
        return;
    full_ops = worker.engine->ops;
    gt_engine_ops ops = *full_ops;
    ops.compile = compile_without_memory;
    worker.engine->ops = &ops;
    compile_calls = 0;
    for (unsigned k = 1; k <= 20; k++) {
        gt_sequence *planned = NULL;
        s.slots = 0;
        make_inputs(&worker, k);
        random_sequence(&n, &s);
        if (!CHECK_EQ(plan_sequence(&worker, &s, &planned), GT_OK))
            break;
        uint64_t compile_ns;
        const gt_plan *plan = gt__sequence_plan(planned, &compile_ns);
        CHECK(!gt__sequence_compiled(planned) && !compile_ns);
        CHECK_EQ(run_planned(&worker, plan, planned, 1000), GT_OK);
        CHECK_EQ(run_planned(&worker, plan, planned, 1000), GT_OK);
        CHECK_EQ(compile_calls, k);
        run_directly(&worker, &s);
        CHECK(same_outputs(&worker, plan, 1000));
        gt__sequence_free(&worker, &planned);
    }
    worker.engine->ops = full_ops;
    worker_close(&worker);
}

/* An input may lie where a pair of numbers may not: what was a view when it was planned must not be one in every run. What the plan
 * makes lies well. */
static void test_pairs_of_an_input(const void *unused)
{
    (void)unused;
    static float six[6];
    sequence s = {.slots = 0};
    gt_plan *plan;
    gt_view view = {.data = six};
    CHECK_EQ(gt__meta_set(&view.meta, GT_FLOAT32, 2, (int64_t[]){3, 2}), GT_OK);
    gt__view_set_contiguous(&view);
    add_op(&s, GT_OP_view_as_complex, 10, 1, 0);
    add_op(&s, GT_OP_neg, 11, 1, 0);
    add_op(&s, GT_OP_view_as_complex, 12, 11, 0);
    if (!CHECK_EQ(gt__plan_new(s.records, s.slots, &(gt_plan_input){.id = 1, .view = &view}, 1, &plan), GT_OK))
        return;
    CHECK_EQ(plan->steps[0].kind, GT_STEP_RUN);
    CHECK_EQ(plan->steps[2].kind, GT_STEP_VIEW);
    gt__plan_free(&plan);
}

int main(int argc, char **argv)
{
    static const char *const engines[] = {"reference", "cpu", "far", "late"};
    check_begin(argc, argv);
    check_run("pairs of an input", test_pairs_of_an_input, NULL);
    for (size_t k = 0; k < sizeof engines / sizeof engines[0]; k++) {
        static const struct {
            const char *name;
            void (*test)(const void *engine);
        } tests[] = {{"repeated", test_repeated}, {"failure", test_failure}, {"surprises", test_surprises},
                     {"takes", test_takes},       {"block", test_block},     {"shared", test_shared},
                     {"random", test_random},     {"moving", test_moving},   {"not compiled", test_not_compiled}};
        for (size_t t = 0; t < sizeof tests / sizeof tests[0]; t++) {
            char name[64];
            snprintf(name, sizeof name, "%s, %s", tests[t].name, engines[k]);
            check_run(name, tests[t].test, engines[k]);
        }
    }
    return check_end();
}
