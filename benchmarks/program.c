/*
 * program.c: how long sequences take on the CPU engine, step by step and compiled. `ninja -C build bench_program` builds it;
 * build/bench_program [threads] runs it. Not part of the tests.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../tests/c/worker_fixture.h"
#include "core/record.h"
#include "engines/plan.h"

enum { MOST_SLOTS = 4096, MOST_INPUTS = 8, ROUNDS = 15 };

typedef struct work {
    const char *name;
    gt_slot records[MOST_SLOTS];
    size_t slots;
    unsigned inputs;
    int64_t shape[MOST_INPUTS][2];
    unsigned updates; /* the last inputs, which die: outputs replace them */
    uint64_t updated[MOST_INPUTS];
    uint64_t kept[MOST_INPUTS]; /* other outputs */
    unsigned keeps;
} work;

static gt_instruction *add(work *w, gt_opcode op, uint64_t result, uint64_t a, uint64_t b)
{
    gt_slot *record = &w->records[w->slots++];
    memset(record, 0, sizeof *record);
    record->ins = (gt_instruction){.op = (uint16_t)op, .result = result, .operand = {a, b}};
    return &record->ins;
}

static void add_number(work *w, gt_opcode op, uint64_t result, uint64_t a, double number)
{
    gt_instruction *ins = add(w, op, result, a, 0);
    ins->literals = GT_LITERAL_FLOAT << 2;
    ins->literal[1].f = number;
}

static void add_free(work *w, uint64_t id)
{
    add(w, GT_OP_free, 0, 0, id);
}

/* relu(x * 2 + 1) * x */
static void chain(work *w)
{
    add_number(w, GT_OP_mul, 20, 1, 2);
    add_number(w, GT_OP_add, 21, 20, 1);
    add_free(w, 20);
    add(w, GT_OP_relu, 22, 21, 0);
    add_free(w, 21);
    add(w, GT_OP_mul, 23, 22, 1);
    add_free(w, 22);
    w->kept[w->keeps++] = 23;
}

/* gelu(layer_norm(x)) + x; inputs: x, the gradient, weight, bias */
static void norm_forward(work *w)
{
    gt_instruction *ins = add(w, GT_OP_layer_norm, 20, 1, 3);
    ins->operand[2] = 4;
    ins->imm[0].i = 1;
    ins->imm[1].f = 1e-5;
    add(w, GT_OP_gelu, 21, 20, 0);
    add(w, GT_OP_add, 22, 21, 1);
    add_free(w, 21);
    w->kept[w->keeps++] = 22;
}

static void norm_backward(work *w)
{
    add(w, GT_OP_gelu_backward, 23, 2, 20);
    add_free(w, 20);
    gt_instruction *ins = add(w, GT_OP_layer_norm_backward, 24, 23, 1);
    ins->operand[2] = 3;
    ins->imm[0].i = 1;
    ins->imm[1].f = 1e-5;
    ins = add(w, GT_OP_layer_norm_backward_weight, 25, 23, 1);
    ins->literals = GT_LITERAL_FLOAT << 4;
    ins->literal[2].f = 1;
    ins->imm[0].i = 1;
    ins->imm[1].f = 1e-5;
    ins = add(w, GT_OP_sum, 26, 23, 0);
    ins->imm[0].u = 1;
    add_free(w, 23);
    add(w, GT_OP_add, 27, 24, 2);
    add_free(w, 24);
    for (uint64_t id = 25; id <= 27; id++)
        w->kept[w->keeps++] = id;
}

/* One parameter: the gradient is input 1, the state 2 and 3, the parameter 4. */
static void adamw(work *w)
{
    add_number(w, GT_OP_mul, 20, 2, 0.9);
    add_number(w, GT_OP_mul, 21, 1, 0.1);
    add(w, GT_OP_add, 22, 20, 21);
    add_number(w, GT_OP_mul, 23, 3, 0.999);
    add(w, GT_OP_square, 24, 1, 0);
    add_number(w, GT_OP_mul, 25, 24, 0.001);
    add(w, GT_OP_add, 26, 23, 25);
    add_number(w, GT_OP_mul, 27, 22, 1e-3);
    add(w, GT_OP_sqrt, 28, 26, 0);
    add_number(w, GT_OP_add, 29, 28, 1e-8);
    add(w, GT_OP_div, 30, 27, 29);
    add_number(w, GT_OP_mul, 31, 4, 0.9999);
    add(w, GT_OP_sub, 32, 31, 30);
    static const uint64_t dead[] = {20, 21, 23, 24, 25, 27, 28, 29, 30, 31, 2, 3, 4};
    for (size_t k = 0; k < sizeof dead / sizeof *dead; k++)
        add_free(w, dead[k]);
    w->updates = 3;
    w->updated[0] = 22;
    w->updated[1] = 26;
    w->updated[2] = 32;
}

/* Many steps, for what each of them costs. */
static void many(work *w)
{
    uint64_t id = 1;
    for (uint64_t k = 20; k < 1020; k++) {
        if (k % 3)
            add_number(w, k % 2 ? GT_OP_mul : GT_OP_add, k, id, 0.5);
        else
            add(w, GT_OP_tanh, k, id, 0);
        if (id != 1)
            add_free(w, id);
        id = k;
    }
    w->kept[w->keeps++] = id;
}

/* ---- running -------------------------------------------------------------------------------------------------- */

static clockid_t the_clock = CLOCK_MONOTONIC;

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(the_clock, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void make_inputs(gt_worker *worker, const work *w)
{
    for (uint64_t id = 1; id <= w->inputs; id++) {
        const int64_t *shape = w->shape[id - 1];
        gt_slot record[8] = {{.ins = {.op = GT_OP_randn, .dtype = GT_FLOAT32, .tail = 2, .result = id}}};
        record->ins.rank = shape[1] ? 2 : 1;
        record->ins.imm[1].i = (int64_t)id;
        record[1].i64[0] = shape[0];
        record[1].i64[1] = shape[1];
        execute(worker, record);
        if (w->updates && id == 2) { /* the next is a mean of squares */
            gt_slot square[8] = {{.ins = {.op = GT_OP_square, .result = 3, .operand = {id}}}};
            execute(worker, square);
            id = 3;
        }
    }
}

static void clear(gt_worker *worker, uint64_t id)
{
    gt__store_clear(worker->store, gt__store_entry(worker->store, id));
}

static void step_by_step(gt_worker *worker, const work *w)
{
    for (size_t at = 0; at < w->slots; at++) {
        const gt_instruction *ins = &w->records[at].ins;
        if (ins->op == GT_OP_free)
            clear(worker, ins->operand[1]);
        else
            gt__worker_execute(worker, ins, NULL);
    }
}

/* What was made becomes the next round's state. */
static void rename_updated(gt_worker *worker, const work *w)
{
    for (unsigned k = 0; k < w->updates; k++) {
        gt_slot view[8] = {{.ins = {.op = GT_OP_reshape, .rank = 2, .tail = 1, .operand = {w->updated[k]}}}};
        view->ins.result = 1 + w->inputs - w->updates + k;
        view[1].i64[0] = w->shape[0][0];
        view[1].i64[1] = w->shape[0][1];
        execute(worker, view);
        clear(worker, w->updated[k]);
    }
    for (unsigned k = 0; k < w->keeps; k++)
        clear(worker, w->kept[k]);
}

static double median(double *times)
{
    for (int a = 0; a < ROUNDS; a++)
        for (int b = a + 1; b < ROUNDS; b++)
            if (times[b] < times[a]) {
                double swapped = times[a];
                times[a] = times[b];
                times[b] = swapped;
            }
    return times[ROUNDS / 2];
}

static const char *only; /* works whose names contain it */

static void measure(const work *w, int threads, int repeat)
{
    if (!strstr(w->name, only))
        return;
    gt_worker worker = {.name = "bench"};
    if (!worker_open_threads(&worker, "cpu", threads))
        return;
    gt_plan_input given[MOST_INPUTS];
    gt_plan *plan;
    gt_sequence *sequence = NULL;
    double plain[ROUNDS], compiled[ROUNDS];
    make_inputs(&worker, w);
    for (uint64_t id = 1; id <= w->inputs; id++)
        given[id - 1] = (gt_plan_input){.id = id, .view = &gt__store_find(worker.store, id)->view};
    CHECK_EQ(gt__plan_new(w->records, w->slots, given, w->inputs, &plan), GT_OK);
    double start = now_ms();
    CHECK_EQ(gt__sequence_new(&worker, plan, &sequence), GT_OK);
    double compile = now_ms() - start;
    uint64_t inputs[MOST_INPUTS], outputs[MOST_SLOTS];
    for (uint32_t k = 0; k < plan->input_count; k++)
        inputs[k] = plan->values[plan->inputs[k]].id;
    for (uint32_t k = 0; k < plan->output_count; k++)
        outputs[k] = plan->values[plan->outputs[k]].id;
    for (int round = -2; round < ROUNDS; round++) {
        double times[2] = {0, 0};
        for (int kind = 0; kind < 2; kind++)
            for (int r = 0; r < repeat; r++) {
                start = now_ms();
                if (kind == 0)
                    step_by_step(&worker, w);
                else
                    CHECK_EQ(gt__sequence_run(&worker, sequence, inputs, outputs), GT_OK);
                times[kind] += (now_ms() - start) / repeat;
                rename_updated(&worker, w);
            }
        for (uint64_t id = 1; id <= w->inputs; id++)
            CHECK(gt__entry_is_tensor(gt__store_find(worker.store, id)));
        if (round >= 0) {
            plain[round] = times[0];
            compiled[round] = times[1];
        }
    }
    double a = median(plain), b = median(compiled);
    printf("%-40s %9.4f ms step by step, %9.4f ms compiled: %.2f (compile %.3f ms)\n", w->name, a, b, b / a,
           compile);
    gt__sequence_free(&worker, &sequence);
    worker_close(&worker);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    the_clock = threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC; /* others may use the machine */
    only = argc > 2 ? argv[2] : "";
    static work w;
    w = (work){.name = "relu(x * 2 + 1) * x, 4 M", .inputs = 1, .shape = {{2048, 2048}}};
    chain(&w);
    measure(&w, threads, 1);
    w = (work){.name = "relu(x * 2 + 1) * x, 8x8", .inputs = 1, .shape = {{8, 8}}};
    chain(&w);
    measure(&w, threads, 1000);
    w = (work){.name = "norm, gelu, residual 4096x1024",
               .inputs = 4,
               .shape = {{4096, 1024}, {4096, 1024}, {1024}, {1024}}};
    norm_forward(&w);
    add_free(&w, 20);
    measure(&w, threads, 1);
    w.name = "the same, forward and backward";
    w.slots--;
    norm_backward(&w);
    measure(&w, threads, 1);
    w = (work){
        .name = "AdamW, 10 M", .inputs = 4, .shape = {{2500, 4000}, {2500, 4000}, {2500, 4000}, {2500, 4000}}};
    adamw(&w);
    measure(&w, threads, 1);
    w = (work){.name = "AdamW, 784x256", .inputs = 4, .shape = {{784, 256}, {784, 256}, {784, 256}, {784, 256}}};
    adamw(&w);
    measure(&w, threads, 20);
    w = (work){.name = "AdamW, 64x64", .inputs = 4, .shape = {{64, 64}, {64, 64}, {64, 64}, {64, 64}}};
    adamw(&w);
    measure(&w, threads, 100);
    w = (work){.name = "AdamW, 16x16", .inputs = 4, .shape = {{16, 16}, {16, 16}, {16, 16}, {16, 16}}};
    adamw(&w);
    measure(&w, threads, 1000);
    w = (work){.name = "1000 steps, 16x16", .inputs = 1, .shape = {{16, 16}}};
    many(&w);
    measure(&w, threads, 10);
    return 0;
}
