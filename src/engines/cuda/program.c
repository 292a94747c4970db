/*
 * program.c: planned sequences. A plan that runs a second time with the same addresses is recorded as a CUDA graph, and from then
 * on such runs are one launch. Numbers (literals and immediates) that differ from the last run are put into the graph's
 * kernels first. Runs with other addresses queue the steps one by one. A program keeps a few recordings, since buffers often
 * alternate between a few places. Steps that run on the host cannot be recorded.
 */
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "engines/cuda/cuda.h"
#include "engines/plan.h"

enum { RECORDINGS = 8 };

/* Scratch memory that belongs to a recording: its steps run in order, so they share it. */
typedef struct scratch_block {
    CUdeviceptr address;
    size_t bytes;
    bool free;
} scratch_block;

/* The numbers of a step that may change from run to run. */
typedef struct step_numbers {
    gt_imm literal[GT_MAX_OPERANDS], imm[2];
} step_numbers;

/* A kernel of a step, in the graph. */
typedef struct node {
    CUgraphNode node;
    unsigned step;
    gt_cuda_key key;
    CUfunction function;
    CUdeviceptr scratch, errors;
} node;

typedef struct recording {
    uint8_t *inputs;   /* addresses, then numbers, that it was made with; NULL: an empty place */
    uint64_t used;     /* the program's run that used it last */
    gt_token token;    /* of that run */
    CUgraphExec graph; /* NULL: seen once, not recorded */
    CUgraph original;  /* that the nodes are of */
    node *nodes;       /* by step */
    size_t node_count, node_room;
    scratch_block *scratches;
    size_t scratch_count;
    gt_cuda_errors *slots; /* pinned, one for each step that may fail */
    CUdeviceptr slots_address;
    unsigned slot_count, *slot_step;
} recording;

struct gt_program {
    const gt_plan *plan;
    unsigned most_operands;
    gt_view *in; /* room for the operands of a step */
    const gt_view **views;
    size_t inputs_bytes;
    uint8_t *inputs; /* of the present run */
    uint64_t runs, replays;
    bool never; /* it cannot be recorded */
    recording recordings[RECORDINGS];
    recording *open; /* while one is recorded */
};

/* ---- recordings ---------------------------------------------------------------------------------------------------- */

static void recording_free(gt_cuda *cuda, recording *r)
{
    if (r->slots && r->token) /* it may still run, and items have its slots */
        gt__cuda_items_collect(cuda, r->token);
    if (r->graph)
        cuda->driver->executable_free(r->graph);
    if (r->original)
        cuda->driver->graph_free(r->original);
    for (size_t k = 0; k < r->scratch_count; k++)
        gt__cuda_heap_give(&cuda->heap, r->scratches[k].address);
    if (r->slots)
        cuda->driver->host_free(r->slots);
    free(r->scratches);
    free(r->nodes);
    free(r->slot_step);
    free(r->inputs);
    *r = (recording){0};
}

gt_err gt__cuda_scratch_take(gt_cuda *cuda, size_t bytes, CUdeviceptr *address)
{
    recording *r = cuda->recording ? cuda->recording->open : NULL;
    uint64_t taken;
    for (size_t k = 0; r && k < r->scratch_count; k++)
        if (r->scratches[k].free && r->scratches[k].bytes >= bytes) {
            r->scratches[k].free = false;
            *address = r->scratches[k].address;
            return GT_OK;
        }
    GT_TRY(gt__cuda_take(cuda, bytes, &taken));
    *address = taken;
    if (!r)
        return GT_OK;
    scratch_block *more = realloc(r->scratches, (r->scratch_count + 1) * sizeof *more);
    if (!more) {
        gt__cuda_heap_give(&cuda->heap, taken);
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    r->scratches = more;
    r->scratches[r->scratch_count++] = (scratch_block){.address = taken, .bytes = bytes};
    return GT_OK;
}

void gt__cuda_scratch_release(gt_cuda *cuda, CUdeviceptr address)
{
    recording *r = cuda->recording ? cuda->recording->open : NULL;
    if (!r) {
        gt__cuda_heap_give(&cuda->heap, address);
        return;
    }
    for (size_t k = 0; k < r->scratch_count; k++)
        if (r->scratches[k].address == address)
            r->scratches[k].free = true;
}

CUdeviceptr gt__cuda_recorded_slot(gt_cuda *cuda, unsigned step)
{
    recording *r = cuda->recording->open;
    r->slot_step[r->slot_count] = step;
    return r->slots_address + r->slot_count++ * sizeof(gt_cuda_errors);
}

gt_err gt__cuda_recorded_launch(gt_cuda *cuda, unsigned step, const gt_cuda_launch *launch, CUfunction function,
                                CUdeviceptr scratch, CUdeviceptr errors)
{
    recording *r = cuda->recording->open;
    const CUgraphNode *last = NULL;
    size_t count = 0;
    int status;
    if (step == GT_CUDA_NO_STEP)
        return GT_OK;
    GT_CUDA_TRY(cuda, "a recording", cuda->driver->capture_info(cuda->stream, &status, NULL, NULL, &last, &count));
    if (count != 1)
        return gt__fail(GT_ERR_UNSUPPORTED, "a graph with branches");
    if (r->node_count == r->node_room) {
        size_t room = r->node_room ? 2 * r->node_room : 64;
        node *more = realloc(r->nodes, room * sizeof *more);
        if (!more)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        r->nodes = more;
        r->node_room = room;
    }
    r->nodes[r->node_count++] = (node){.node = last[0],
                                       .step = step,
                                       .key = launch->key,
                                       .function = function,
                                       .scratch = scratch,
                                       .errors = errors};
    return GT_OK;
}

/* ---- steps --------------------------------------------------------------------------------------------------------------- */

static gt_view place(const gt_program *program, uint32_t value, void *const *buffer)
{
    const gt_plan_value *v = &program->plan->values[value];
    gt_view view = v->view;
    view.data = (char *)buffer[v->buffer] + v->offset;
    return view;
}

/* The call of a step, in the program's room for one. */
static void set_call(gt_program *program, unsigned number, void *const *buffer, gt_view *out, gt_call *call)
{
    const gt_plan_step *step = &program->plan->steps[number];
    const gt_instruction *ins = &step->record->ins;
    *out = place(program, step->result, buffer);
    *call = (gt_call){.op = step->op,
                      .compute = step->compute,
                      .ins = ins,
                      .tail = step->record + 1,
                      .operands = step->operands,
                      .in = program->views,
                      .out = out};
    for (unsigned k = 0; k < step->operands; k++) {
        gt_view *in = &program->in[k];
        program->views[k] = in;
        if (step->operand[k] != GT_PLAN_LITERAL) {
            *in = place(program, step->operand[k], buffer);
            continue;
        }
        call->literals |= (uint8_t)(1 << k);
        call->value[k] = gt__literal_operand(ins, k, in);
    }
}

static gt_err run_step(gt_cuda *cuda, gt_program *program, unsigned number, void *const *buffer)
{
    gt_view out;
    gt_call call;
    set_call(program, number, buffer, &out, &call);
    return gt__cuda_execute(cuda, &call, number);
}

static gt_err run_steps(gt_cuda *cuda, gt_program *program, void *const *buffer, unsigned *step)
{
    for (*step = 0; *step < program->plan->step_count; ++*step)
        if (program->plan->steps[*step].kind != GT_STEP_VIEW)
            GT_TRY(run_step(cuda, program, *step, buffer));
    return GT_OK;
}

/* ---- recording -------------------------------------------------------------------------------------------------------------- */

static void collect_inputs(gt_program *program, void *const *buffer)
{
    const gt_plan *plan = program->plan;
    uint8_t *to = program->inputs;
    memcpy(to, buffer, plan->buffer_count * sizeof *buffer);
    to += plan->buffer_count * sizeof *buffer;
    for (unsigned k = 0; k < plan->step_count; k++, to += sizeof(step_numbers)) {
        const gt_instruction *ins = &plan->steps[k].record->ins;
        step_numbers numbers = {.imm = {ins->imm[0], ins->imm[1]}};
        for (unsigned operand = 0; operand < GT_MAX_OPERANDS; operand++)
            if (gt__literal(ins, operand) != GT_LITERAL_NONE)
                numbers.literal[operand] = ins->literal[operand];
        memcpy(to, &numbers, sizeof numbers);
    }
}

/* The recording of this run's addresses; else an empty or the oldest place, made empty. */
static recording *find_recording(gt_cuda *cuda, gt_program *program)
{
    recording *oldest = &program->recordings[0];
    size_t addresses = program->plan->buffer_count * sizeof(void *);
    for (int k = 0; k < RECORDINGS; k++) {
        recording *r = &program->recordings[k];
        if (r->inputs && memcmp(r->inputs, program->inputs, addresses) == 0)
            return r;
        if (r->used < oldest->used)
            oldest = r;
    }
    recording_free(cuda, oldest);
    return oldest;
}

static gt_err slots_new(gt_cuda *cuda, const gt_program *program, recording *r)
{
    size_t bytes = (program->plan->step_count + 1) * sizeof *r->slots;
    r->slot_step = calloc(program->plan->step_count + 1, sizeof *r->slot_step);
    if (!r->slot_step)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    GT_CUDA_TRY(
        cuda, "pinned memory",
        cuda->driver->host_alloc((void **)&r->slots, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    memset(r->slots, 0, bytes);
    GT_CUDA_TRY(cuda, "pinned memory", cuda->driver->host_address(&r->slots_address, r->slots, 0));
    return GT_OK;
}

static gt_err capture(gt_cuda *cuda, gt_program *program, recording *r, void *const *buffer)
{
    CUgraph graph = NULL;
    unsigned step;
    GT_TRY(slots_new(cuda, program, r));
    GT_CUDA_TRY(cuda, "a recording", cuda->driver->capture_begin(cuda->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    cuda->capturing = true;
    cuda->recording = program;
    program->open = r;
    gt_err err = run_steps(cuda, program, buffer, &step);
    program->open = NULL;
    cuda->recording = NULL;
    cuda->capturing = false;
    int result = cuda->driver->capture_end(cuda->stream, &graph);
    if (err == GT_OK && (result != CUDA_SUCCESS || !graph))
        err = gt__cuda_fail(cuda, result, "a recording");
    if (err == GT_OK && (result = cuda->driver->graph_instantiate(&r->graph, graph, 0)) != CUDA_SUCCESS) {
        r->graph = NULL;
        err = gt__cuda_fail(cuda, result, "a recording");
    }
    r->original = graph;
    return err;
}

/* Make the recording, if it can be, with the numbers of this run. */
static void record(gt_cuda *cuda, gt_program *program, recording *r, void *const *buffer)
{
    if (capture(cuda, program, r, buffer) == GT_OK) {
        memcpy(r->inputs, program->inputs, program->inputs_bytes);
        return;
    }
    gt__log(GT_LOG_COMPILE, "cuda: a sequence is not recorded: %s", gt_error_text());
    program->never = true;
    recording_free(cuda, r);
}

/* ---- other numbers --------------------------------------------------------------------------------------------- */

/* Put a kernel's new parameters into the graph. Runs of it that are queued already keep theirs. */
static gt_err update_node(gt_cuda *cuda, recording *r, const node *n, gt_cuda_launch *l)
{
    void *parameters[] = {l->param};
    if (memcmp(&n->key, &l->key, sizeof l->key) != 0)
        return gt__fail(GT_ERR_UNSUPPORTED, "another number makes another kernel");
    gt__cuda_patch(l, n->scratch, n->errors);
    CUDA_KERNEL_NODE_PARAMS update = {.func = n->function,
                                      .gridDimX = l->grid[0],
                                      .gridDimY = l->grid[1],
                                      .gridDimZ = l->grid[2],
                                      .blockDimX = l->block[0],
                                      .blockDimY = l->block[1],
                                      .blockDimZ = l->block[2],
                                      .sharedMemBytes = l->shared,
                                      .kernelParams = parameters};
    GT_CUDA_TRY(cuda, "a graph", cuda->driver->node_update(r->graph, n->node, &update));
    return GT_OK;
}

/* The kernels of one step, which start at nodes[*at] or later. */
static gt_err update_step(gt_cuda *cuda, gt_program *program, recording *r, unsigned step, void *const *buffer,
                          size_t *at)
{
    gt_view out;
    gt_call call;
    gt_cuda_work *work = &cuda->work;
    while (*at < r->node_count && r->nodes[*at].step < step)
        ++*at;
    set_call(program, step, buffer, &out, &call);
    work->more = 0;
    do {
        GT_TRY(gt__cuda_lower(&call, &cuda->card, work));
        for (unsigned k = 0; k < work->count; k++, ++*at) {
            if (*at >= r->node_count || r->nodes[*at].step != step)
                return gt__fail(GT_ERR_UNSUPPORTED, "another number makes more kernels");
            GT_TRY(update_node(cuda, r, &r->nodes[*at], &work->launch[k]));
        }
    } while (work->more);
    return *at < r->node_count && r->nodes[*at].step == step
               ? gt__fail(GT_ERR_UNSUPPORTED, "another number makes fewer kernels")
               : GT_OK;
}

/* Numbers that differ from those in the graph. An error: it has some of the new ones, and must not run. */
static gt_err update(gt_cuda *cuda, gt_program *program, recording *r, void *const *buffer)
{
    size_t at = 0, offset = program->plan->buffer_count * sizeof(void *);
    for (unsigned k = 0; k < program->plan->step_count; k++, offset += sizeof(step_numbers))
        if (memcmp(r->inputs + offset, program->inputs + offset, sizeof(step_numbers)) != 0)
            GT_TRY(update_step(cuda, program, r, k, buffer, &at));
    memcpy(r->inputs, program->inputs, program->inputs_bytes);
    return GT_OK;
}

static gt_err replay(gt_cuda *cuda, recording *r)
{
    if (r->slot_count && r->token) /* its slots are those of the run before, too */
        GT_TRY(gt__cuda_items_collect(cuda, r->token));
    GT_CUDA_TRY(cuda, "a graph", cuda->driver->graph_launch(r->graph, cuda->stream));
    cuda->launches++;
    for (unsigned k = 0; k < r->slot_count; k++)
        GT_TRY(gt__cuda_item_slot(cuda, r->slot_step[k], &r->slots[k]));
    return GT_OK;
}

/* Queue the whole sequence. *r: the recording that ran, or NULL. */
static gt_err run_whole(gt_cuda *cuda, gt_program *program, void *const *buffer, unsigned *step, recording **used)
{
    *used = NULL;
    program->runs++;
    if (program->never)
        return run_steps(cuda, program, buffer, step);
    collect_inputs(program, buffer);
    recording *r = find_recording(cuda, program);
    r->used = program->runs;
    if (r->inputs && !r->graph)
        record(cuda, program, r, buffer);
    else if (r->graph && update(cuda, program, r, buffer) != GT_OK) {
        gt__log(GT_LOG_COMPILE, "cuda: a sequence is not recorded: %s", gt_error_text());
        recording_free(cuda, r);
        program->never = true;
    }
    if (r->graph) {
        *used = r;
        program->replays++;
        return replay(cuda, r);
    }
    if (!program->never && (r->inputs = malloc(program->inputs_bytes)))
        memcpy(r->inputs, program->inputs, program->inputs_bytes);
    return run_steps(cuda, program, buffer, step);
}

/* ---- the interface -------------------------------------------------------------------------------------------------------------- */

gt_err gt__cuda_run_program(gt_engine *engine, gt_program *program, void *const *buffer, bool timed,
                            unsigned *step, gt_token *token)
{
    gt_cuda *cuda = gt__cuda(engine);
    gt_cuda_timing timing;
    recording *used;
    *step = 0;
    GT_TRY(gt__cuda_begin(cuda, timed, &timing));
    gt__cuda_launching(cuda);
    gt_err err = run_whole(cuda, program, buffer, step, &used);
    GT_TRY(gt__cuda_end(cuda, &timing, err, 0, token));
    if (used)
        used->token = *token;
    return GT_OK;
}

void gt__cuda_free_program(gt_engine *engine, gt_program *program)
{
    gt_cuda *cuda = gt__cuda(engine);
    if (!program)
        return;
    gt__log(GT_LOG_COMPILE, "cuda: a sequence of %u steps was run %llu times, %llu of them as a graph",
            program->plan->step_count, (unsigned long long)program->runs, (unsigned long long)program->replays);
    for (int k = 0; k < RECORDINGS; k++)
        recording_free(cuda, &program->recordings[k]);
    free(program->in);
    free(program->views);
    free(program->inputs);
    free(program);
}

gt_err gt__cuda_compile(gt_engine *engine, gt_plan *plan, gt_program **out)
{
    (void)engine;
    gt_program *program = calloc(1, sizeof *program);
    if (!program)
        return gt__fail(GT_ERR_MEMORY, "no memory for a program");
    for (unsigned k = 0; k < plan->step_count; k++)
        if (plan->steps[k].operands > program->most_operands)
            program->most_operands = plan->steps[k].operands;
    program->plan = plan;
    program->inputs_bytes = plan->buffer_count * sizeof(void *) + plan->step_count * sizeof(step_numbers);
    program->in = malloc((program->most_operands + 1) * sizeof *program->in);
    program->views = malloc((program->most_operands + 1) * sizeof *program->views);
    program->inputs = malloc(program->inputs_bytes + 1);
    if (!program->in || !program->views || !program->inputs) {
        gt__cuda_free_program(engine, program);
        return gt__fail(GT_ERR_MEMORY, "no memory for a program");
    }
    *out = program;
    return GT_OK;
}
