/*
 * program.c: planned sequences. Chains of elementwise steps become one kernel each (chain.h). A plan that runs a second time with
 * the same addresses is recorded as a CUDA graph, and from then on such runs are one launch. Numbers (literals and immediates)
 * that differ from the last run are put into the graph's kernels first. Runs with other addresses queue the parts one by one.
 * A program keeps several recordings: buffers alternate between a few places, and the layers of a model that run as one sequence have
 * places of their own. Steps that run on the host cannot be recorded.
 */
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "engines/cuda/program.h"

enum {
    TRIALS = 128,      /* recordings that are made even if few of them are used again */
    MOST_UNPAIRED = 8, /* results of steps that a pair leaves out */
    MOST_LOST = 8,     /* recordings that new numbers made useless: then no more are made */
};

/* ---- recordings ---------------------------------------------------------------------------------------------------- */

static void recording_free(gt_cuda *cuda, gt_cuda_recording *r)
{
    if (r->slots && r->token) /* it may still run, and items have its slots */
        gt__cuda_items_collect(cuda, r->token);
    if (r->graph)
        cuda->driver->executable_free(r->graph);
    if (r->original)
        cuda->driver->graph_free(r->original);
    if (r->slots) {
        gt__cuda_comms_wait(cuda);
        cuda->driver->host_free(r->slots);
    }
    free(r->nodes);
    free(r->node_of);
    free(r->slot_step);
    free(r->inputs);
    *r = (gt_cuda_recording){0};
}

gt_err gt__cuda_scratch_take(gt_cuda *cuda, size_t bytes, CUdeviceptr *address)
{
    gt_program *program = cuda->recording;
    uint64_t taken;
    for (size_t k = 0; program && k < program->scratch_count; k++)
        if (program->scratches[k].free && program->scratches[k].bytes >= bytes) {
            program->scratches[k].free = false;
            *address = program->scratches[k].address;
            return GT_OK;
        }
    GT_TRY(gt__cuda_take(cuda, bytes, &taken));
    *address = taken;
    if (!program)
        return GT_OK;
    gt_cuda_scratch_block *more = realloc(program->scratches, (program->scratch_count + 1) * sizeof *more);
    if (!more) {
        gt__cuda_heap_give(&cuda->heap, taken);
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    program->scratches = more;
    program->scratches[program->scratch_count++] = (gt_cuda_scratch_block){.address = taken, .bytes = bytes};
    return GT_OK;
}

void gt__cuda_scratch_release(gt_cuda *cuda, CUdeviceptr address)
{
    gt_program *program = cuda->recording;
    if (!program) {
        gt__cuda_heap_give(&cuda->heap, address);
        return;
    }
    for (size_t k = 0; k < program->scratch_count; k++)
        if (program->scratches[k].address == address)
            program->scratches[k].free = true;
}

CUdeviceptr gt__cuda_recorded_slot(gt_cuda *cuda, unsigned step)
{
    gt_cuda_recording *r = cuda->recording->open;
    r->slot_step[r->slot_count] = step;
    return r->slots_address + r->slot_count++ * sizeof(gt_cuda_errors);
}

gt_err gt__cuda_recorded_launch(gt_cuda *cuda, unsigned step, const gt_cuda_launch *launch, CUfunction function,
                                CUdeviceptr scratch, CUdeviceptr errors)
{
    gt_cuda_recording *r = cuda->recording->open;
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
        gt_cuda_node *more = realloc(r->nodes, room * sizeof *more);
        if (!more)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        r->nodes = more;
        r->node_room = room;
    }
    if (!r->node_count || r->nodes[r->node_count - 1].step != step)
        r->node_of[step] = r->node_count;
    r->nodes[r->node_count++] = (gt_cuda_node){.node = last[0],
                                               .step = step,
                                               .key = launch->key,
                                               .function = function,
                                               .scratch = scratch,
                                               .errors = errors};
    return GT_OK;
}

/* ---- steps --------------------------------------------------------------------------------------------------------------- */

/* Its readers read its operand instead. */
static bool is_left_out(const gt_program *program, unsigned step)
{
    const gt_cuda_pair *pair = gt__cuda_pair_of(program, step);
    const gt_cuda_norm *norm = gt__cuda_norm_of(program, step);
    if (program->casts.left_out[step] || (norm && step < norm->last))
        return true;
    return pair && ((pair->apart && step == pair->cat) || (pair->spreads && step > pair->backward));
}

bool gt__cuda_program_call(gt_program *program, const gt_cuda_part *part, unsigned number, void *const *buffer,
                           gt_view *out, gt_call *call)
{
    const gt_plan *plan = program->plan;
    const gt_cuda_norm *norm = gt__cuda_norm_of(program, number);
    if (norm && gt__cuda_norm_holds(norm, plan))
        number = norm->backward;
    else
        norm = NULL;
    *call = gt__plan_call(plan, &plan->steps[number], buffer, program->in, program->views, out);
    gt__cuda_casts_change(&program->casts, plan, &plan->steps[number], buffer, program->in);
    const gt_cuda_pair *pair = gt__cuda_pair_of(program, number);
    if (pair && gt__cuda_pair_holds(pair, plan, buffer)) {
        gt__cuda_pair_change(pair, plan, number, buffer, program->in, program->views, out, call);
        return true;
    }
    bool changed = part->rows && gt__cuda_rows_change(part->rows, plan, &plan->steps[number], buffer, program->in,
                                                      program->views, out, call);
    if (norm) {
        gt__cuda_norm_change(norm, plan, buffer, program->in, program->views, call);
        return true;
    }
    if (!program->picks_of[number])
        return changed;
    gt__cuda_picks_change(&program->picks[program->picks_of[number] - 1], plan, buffer, program->in,
                          program->views, call);
    return true;
}

/* The pair does not hold in this run: execute its last step by itself, and the steps around it that were left out. Their results
 * get scratch memory. */
static gt_err run_unpaired(gt_cuda *cuda, gt_program *program, const gt_cuda_pair *pair, void *const *buffer)
{
    const gt_plan *plan = program->plan;
    uint32_t first = pair->apart ? pair->cat : pair->backward,
             end = pair->spreads ? pair->spread.end : pair->backward;
    CUdeviceptr taken[MOST_UNPAIRED];
    unsigned count = 0;
    gt_err err = GT_OK;
    void **patched = malloc(plan->buffer_count * sizeof *patched);
    if (!patched)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    memcpy(patched, buffer, plan->buffer_count * sizeof *patched);
    for (uint32_t k = first; k <= end && err == GT_OK; k = k < pair->backward ? pair->backward : k + 1) {
        const gt_plan_step *step = &plan->steps[k];
        uint32_t made = plan->values[step->result].buffer;
        gt_view out;
        if (step->kind == GT_STEP_VIEW)
            continue;
        if (!patched[made]) {
            if (count == MOST_UNPAIRED) {
                err = gt__fail(GT_ERR_INTERNAL, "a pair with more than %d results", MOST_UNPAIRED);
                break;
            }
            err = gt__cuda_scratch_take(cuda, plan->buffers[made].bytes, &taken[count]);
            if (err == GT_OK)
                patched[made] = (void *)(uintptr_t)taken[count++];
        }
        gt_call call = gt__plan_call(plan, step, patched, program->in, program->views, &out);
        if (err == GT_OK)
            err = gt__cuda_execute(cuda, &call, k);
    }
    while (count > 0)
        gt__cuda_scratch_release(cuda, taken[--count]);
    free(patched);
    return err;
}

static gt_err run_call(gt_cuda *cuda, gt_program *program, const gt_cuda_part *part, unsigned number,
                       void *const *buffer)
{
    gt_view out;
    gt_call call;
    bool launches = gt__cuda_program_call(program, part, number, buffer, &out, &call);
    return launches ? gt__cuda_run_kernels(cuda, &call, number) : gt__cuda_execute(cuda, &call, number);
}

static gt_err run_step(gt_cuda *cuda, gt_program *program, const gt_cuda_part *part, unsigned number,
                       void *const *buffer)
{
    const gt_cuda_pair *pair = gt__cuda_pair_of(program, number);
    const gt_cuda_norm *norm = gt__cuda_norm_of(program, number);
    if (is_left_out(program, number))
        return GT_OK;
    if (norm && !gt__cuda_norm_holds(norm, program->plan)) { /* one by one */
        GT_TRY(run_call(cuda, program, part, norm->backward, buffer));
        if (norm->has_bias)
            GT_TRY(run_call(cuda, program, part, norm->weight, buffer));
    }
    if (pair && number == pair->backward && !gt__cuda_pair_holds(pair, program->plan, buffer))
        return run_unpaired(cuda, program, pair, buffer);
    return run_call(cuda, program, part, number, buffer);
}

/* Chains from part `first` on. *count: how many parts that were. Where nothing is recorded, chains wait for more that are equal. */
static gt_err run_chains(gt_cuda *cuda, gt_program *program, unsigned first, void *const *buffer, unsigned *count)
{
    const gt_cuda_part *parts = program->parts + first;
    gt_cuda_recording *r = program->open;
    *count = 1;
    if (!r && parts->chain->many && !cuda->running.timed)
        return gt__cuda_batch_add(cuda, parts, buffer);
    if (!r && parts->chain->many && program->part_count == 1)
        return gt__cuda_batch_add_timed(cuda, parts, buffer);
    if (r)
        *count = gt__cuda_chain_batch(parts, program->part_count - first, buffer);
    GT_TRY(gt__cuda_run_chains(cuda, parts, *count, buffer));
    if (r)
        r->nodes[r->node_of[parts->first]].parts = *count;
    return GT_OK;
}

static gt_err run_listed(gt_cuda *cuda, gt_program *program, const gt_cuda_part *part, const uint32_t *steps,
                         unsigned count, void *const *buffer, unsigned *step)
{
    for (unsigned k = 0; k < count; k++) {
        *step = steps[k];
        GT_TRY(run_step(cuda, program, part, *step, buffer));
    }
    return GT_OK;
}

static gt_err run_range(gt_cuda *cuda, gt_program *program, const gt_cuda_part *part, void *const *buffer,
                        unsigned *step)
{
    for (*step = part->first; *step <= part->last; ++*step)
        if (program->plan->steps[*step].kind != GT_STEP_VIEW &&
            !(part->rows && gt__cuda_rows_skip(part->rows, *step)))
            GT_TRY(run_step(cuda, program, part, *step, buffer));
    return GT_OK;
}

/* The part's parameters do not allow leaving steps out in this run: execute every step. Results without memory of their own get
 * scratch memory. */
static gt_err run_plainly(gt_cuda *cuda, gt_program *program, const gt_cuda_part *part, void *const *buffer,
                          unsigned *step)
{
    const gt_plan *plan = program->plan;
    gt_cuda_part plain = {.first = part->first, .last = part->last};
    CUdeviceptr taken[GT_ROW_CHANGES];
    unsigned count = 0;
    gt_err err = GT_OK;
    void **patched = malloc(plan->buffer_count * sizeof *patched);
    if (!patched)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    memcpy(patched, buffer, plan->buffer_count * sizeof *patched);
    for (unsigned k = 0; k < part->rows->count && err == GT_OK; k++) {
        uint32_t number = plan->values[part->rows->change[k].of].buffer;
        if (patched[number])
            continue;
        err = gt__cuda_scratch_take(cuda, plan->buffers[number].bytes, &taken[count]);
        if (err == GT_OK)
            patched[number] = (void *)(uintptr_t)taken[count++];
    }
    if (err == GT_OK)
        err = run_range(cuda, program, &plain, patched, step);
    while (count > 0)
        gt__cuda_scratch_release(cuda, taken[--count]);
    free(patched);
    return err;
}

static gt_err run_parts(gt_cuda *cuda, gt_program *program, void *const *buffer, unsigned *step)
{
    for (unsigned k = 0, count; k < program->part_count; k += count) {
        const gt_cuda_part *part = &program->parts[k];
        const gt_cuda_chain *chain = part->chain;
        count = 1;
        if (chain) {
            GT_TRY(run_listed(cuda, program, part, chain->before, chain->before_count, buffer, step));
            *step = part->first;
            GT_TRY(run_chains(cuda, program, k, buffer, &count));
            GT_TRY(run_listed(cuda, program, part, chain->after, chain->after_count, buffer, step));
        } else if (part->rows && !gt__cuda_rows_hold(part->rows, program->plan)) {
            GT_TRY(run_plainly(cuda, program, part, buffer, step));
        } else {
            GT_TRY(run_range(cuda, program, part, buffer, step));
        }
    }
    return GT_OK;
}

/* Whether all steps that were left out may be left out in this run. */
static bool numbers_hold(const gt_program *program)
{
    for (unsigned k = 0; k < program->part_count; k++)
        if (program->parts[k].rows && !gt__cuda_rows_hold(program->parts[k].rows, program->plan))
            return false;
    return true;
}

/* ---- recording -------------------------------------------------------------------------------------------------------------- */

/* Where a slice or an assignment begins in its first operand. */
static int64_t first_element(const gt_plan *plan, const gt_plan_step *step)
{
    const gt_meta *meta = &plan->values[step->operand[0]].view.meta;
    int64_t first = 0;
    for (unsigned axis = 0; axis < meta->rank; axis++)
        first = first * meta->shape[axis] + step->record[1].i64[axis];
    return first;
}

static void collect_inputs(gt_program *program, void *const *buffer)
{
    const gt_plan *plan = program->plan;
    uint8_t *to = program->inputs;
    memcpy(to, buffer, plan->buffer_count * sizeof *buffer);
    to += plan->buffer_count * sizeof *buffer;
    for (unsigned k = 0; k < plan->step_count; k++, to += sizeof(gt_cuda_step_numbers)) {
        const gt_instruction *ins = &plan->steps[k].record->ins;
        gt_cuda_step_numbers numbers = {.imm = {ins->imm[0], ins->imm[1]}};
        for (unsigned operand = 0; operand < GT_MAX_OPERANDS; operand++)
            if (gt__literal(ins, operand) != GT_LITERAL_NONE)
                numbers.literal[operand] = ins->literal[operand];
        if (plan->steps[k].moves)
            numbers.imm[0].i = first_element(plan, &plan->steps[k]);
        memcpy(to, &numbers, sizeof numbers);
    }
}

/* The recording of this run's addresses; else an empty or the oldest place, made empty. */
static gt_cuda_recording *find_recording(gt_cuda *cuda, gt_program *program)
{
    gt_cuda_recording *oldest = &program->recordings[0];
    size_t addresses = program->plan->buffer_count * sizeof(void *);
    for (int k = 0; k < GT_CUDA_RECORDINGS; k++) {
        gt_cuda_recording *r = &program->recordings[k];
        if (r->inputs && memcmp(r->inputs, program->inputs, addresses) == 0)
            return r;
        if (r->used < oldest->used)
            oldest = r;
    }
    recording_free(cuda, oldest);
    return oldest;
}

static gt_err slots_new(gt_cuda *cuda, const gt_program *program, gt_cuda_recording *r)
{
    size_t bytes = (program->plan->step_count + 1) * sizeof *r->slots;
    r->slot_step = calloc(program->plan->step_count + 1, sizeof *r->slot_step);
    r->node_of = malloc((program->plan->step_count + 1) * sizeof *r->node_of);
    if (r->node_of)
        memset(r->node_of, 0xff, (program->plan->step_count + 1) * sizeof *r->node_of); /* no node */
    if (!r->slot_step || !r->node_of)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt__cuda_comms_wait(cuda);
    GT_CUDA_TRY(
        cuda, "pinned memory",
        cuda->driver->host_alloc((void **)&r->slots, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    memset(r->slots, 0, bytes);
    GT_CUDA_TRY(cuda, "pinned memory", cuda->driver->host_address(&r->slots_address, r->slots, 0));
    return GT_OK;
}

static gt_err capture(gt_cuda *cuda, gt_program *program, gt_cuda_recording *r, void *const *buffer)
{
    CUgraph graph = NULL;
    unsigned step;
    GT_TRY(slots_new(cuda, program, r));
    gt__cuda_launching(cuda);
    GT_CUDA_TRY(cuda, "a recording", cuda->driver->capture_begin(cuda->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    cuda->capturing = true;
    cuda->recording = program;
    program->open = r;
    program->recorded++;
    for (size_t k = 0; k < program->scratch_count; k++)
        program->scratches[k].free = true;
    gt_err err = run_parts(cuda, program, buffer, &step);
    program->open = NULL;
    cuda->recording = NULL;
    cuda->capturing = false;
    int result = cuda->driver->capture_end(cuda->stream, &graph);
    if (err == GT_OK && (result != CUDA_SUCCESS || !graph))
        err = gt__cuda_fail(cuda, result, "a recording");
    if (err == GT_OK &&
        (result = cuda->driver->graph_instantiate(&r->graph, graph, 0)) == CUDA_ERROR_OUT_OF_MEMORY) {
        gt__cuda_heap_trim(&cuda->heap);
        result = cuda->driver->graph_instantiate(&r->graph, graph, 0);
    }
    if (err == GT_OK && result != CUDA_SUCCESS) {
        r->graph = NULL;
        err = gt__cuda_fail(cuda, result, "a recording");
    }
    r->original = graph;
    return err;
}

/* Make the recording, if it can be, with the numbers of this run. */
static void record(gt_cuda *cuda, gt_program *program, gt_cuda_recording *r, void *const *buffer)
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
static gt_err update_node(gt_cuda *cuda, gt_cuda_recording *r, const gt_cuda_node *n, gt_cuda_launch *l)
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

/* The kernels of one step. */
static gt_err update_step(gt_cuda *cuda, gt_program *program, const gt_cuda_part *part, gt_cuda_recording *r,
                          unsigned step, void *const *buffer)
{
    gt_view out;
    gt_call call;
    gt_cuda_work *work = &cuda->work;
    const gt_cuda_norm *norm = gt__cuda_norm_of(program, step);
    if (norm && !gt__cuda_norm_holds(norm, program->plan))
        return gt__fail(GT_ERR_UNSUPPORTED, "with other numbers layer norm is several steps");
    step = norm ? norm->last : step;
    size_t at = r->node_of[step];
    const gt_cuda_pair *pair = gt__cuda_pair_of(program, step);
    if (pair && !gt__cuda_pair_holds(pair, program->plan, buffer))
        return gt__fail(GT_ERR_UNSUPPORTED, "with other numbers or addresses there is no pair");
    if (is_left_out(program, step))
        return GT_OK;
    gt__cuda_program_call(program, part, step, buffer, &out, &call);
    work->more = 0;
    do {
        GT_TRY(gt__cuda_lower(&call, &cuda->card, work));
        for (unsigned k = 0; k < work->count; k++, at++) {
            if (at >= r->node_count || r->nodes[at].step != step)
                return gt__fail(GT_ERR_UNSUPPORTED, "another number makes more kernels");
            GT_TRY(update_node(cuda, r, &r->nodes[at], &work->launch[k]));
        }
    } while (work->more);
    return at < r->node_count && r->nodes[at].step == step
               ? gt__fail(GT_ERR_UNSUPPORTED, "another number makes fewer kernels")
               : GT_OK;
}

/* The numbers of steps first to last are those in the graph. */
static bool same_numbers(const gt_program *program, const gt_cuda_recording *r, uint32_t first, uint32_t last)
{
    size_t offset = program->plan->buffer_count * sizeof(void *) + first * sizeof(gt_cuda_step_numbers);
    return memcmp(r->inputs + offset, program->inputs + offset,
                  (last - first + 1) * sizeof(gt_cuda_step_numbers)) == 0;
}

/* The kernel of the chain at part `first`, and of those that it runs with it. */
static gt_err update_chains(gt_cuda *cuda, gt_program *program, gt_cuda_recording *r, unsigned first,
                            void *const *buffer)
{
    const gt_cuda_part *parts = program->parts + first;
    const gt_cuda_node *n = &r->nodes[r->node_of[parts->first]];
    GT_TRY(gt__cuda_lower_chains(parts, n->parts, buffer, &cuda->work));
    for (unsigned k = 0; k < cuda->work.count; k++)
        GT_TRY(update_node(cuda, r, n + k, &cuda->work.launch[k]));
    return GT_OK;
}

static gt_err update_listed(gt_cuda *cuda, gt_program *program, const gt_cuda_part *part, gt_cuda_recording *r,
                            const uint32_t *steps, unsigned count, void *const *buffer)
{
    for (unsigned k = 0; k < count; k++)
        if (!same_numbers(program, r, steps[k], steps[k]))
            GT_TRY(update_step(cuda, program, part, r, steps[k], buffer));
    return GT_OK;
}

/* Numbers that differ from those in the graph. An error: it has some of the new ones, and must not run. */
static gt_err update(gt_cuda *cuda, gt_program *program, gt_cuda_recording *r, void *const *buffer)
{
    for (unsigned k = 0, count; k < program->part_count; k += count) {
        const gt_cuda_part *part = &program->parts[k];
        const gt_cuda_chain *chain = part->chain;
        count = chain ? r->nodes[r->node_of[part->first]].parts : 1;
        if (same_numbers(program, r, part->first, part[count - 1].last))
            continue;
        if (chain) {
            GT_TRY(update_listed(cuda, program, part, r, chain->before, chain->before_count, buffer));
            GT_TRY(update_chains(cuda, program, r, k, buffer));
            GT_TRY(update_listed(cuda, program, part, r, chain->after, chain->after_count, buffer));
            continue;
        }
        for (uint32_t step = part->first; step <= part->last; step++)
            if (!same_numbers(program, r, step, step))
                GT_TRY(update_step(cuda, program, part, r, step, buffer));
    }
    memcpy(r->inputs, program->inputs, program->inputs_bytes);
    return GT_OK;
}

static gt_err replay(gt_cuda *cuda, gt_cuda_recording *r)
{
    if (r->slot_count && r->token) /* its slots are those of the run before, too */
        GT_TRY(gt__cuda_items_collect(cuda, r->token));
    for (unsigned k = 0; k < r->slot_count; k++) /* first: what fails has not run */
        GT_TRY(gt__cuda_item_slot(cuda, r->slot_step[k], &r->slots[k]));
    gt__cuda_launching(cuda);
    int result = cuda->driver->graph_launch(r->graph, cuda->stream);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        gt__cuda_heap_trim(&cuda->heap);
        result = cuda->driver->graph_launch(r->graph, cuda->stream);
    }
    cuda->launches++;
    return result == CUDA_SUCCESS ? GT_OK : gt__cuda_fail(cuda, result, "a graph");
}

/* Queue the whole sequence. *r: the recording that ran, or NULL. */
static gt_err run_whole(gt_cuda *cuda, gt_program *program, void *const *buffer, unsigned *step,
                        gt_cuda_recording **used)
{
    *used = NULL;
    program->runs++;
    if (program->never || !numbers_hold(program))
        return run_parts(cuda, program, buffer, step);
    collect_inputs(program, buffer);
    gt_cuda_recording *r = find_recording(cuda, program);
    r->used = program->runs;
    if (r->inputs && !r->graph && (program->recorded < TRIALS || program->replays > 4 * program->recorded))
        record(cuda, program, r, buffer);
    else if (r->graph && update(cuda, program, r, buffer) != GT_OK) {
        program->never = ++program->lost == MOST_LOST;
        gt__log(GT_LOG_COMPILE, "cuda: a sequence %s: %s",
                program->never ? "is not recorded" : "must be recorded again", gt_error_text());
        recording_free(cuda, r);
        r->used = program->runs;
    }
    if (r->graph) {
        *used = r;
        program->replays++;
        return replay(cuda, r);
    }
    if (!program->never && !r->inputs)
        r->inputs = malloc(program->inputs_bytes);
    if (!program->never && r->inputs)
        memcpy(r->inputs, program->inputs, program->inputs_bytes);
    return run_parts(cuda, program, buffer, step);
}

/* ---- the interface -------------------------------------------------------------------------------------------------------------- */

gt_err gt__cuda_run_program(gt_engine *engine, gt_program *program, void *const *buffer, bool timed,
                            unsigned *step, gt_token *token)
{
    gt_cuda *cuda = gt__cuda(engine);
    gt_cuda_recording *used;
    *step = 0;
    GT_TRY(gt__cuda_begin(cuda, timed));
    gt_err err = run_whole(cuda, program, buffer, step, &used);
    if (err == GT_OK && program->plan->step_count) /* what fails from here on fails when all steps are queued */
        *step = program->plan->step_count - 1;
    GT_TRY(gt__cuda_end(cuda, err, 0, token));
    if (used)
        used->token = *token;
    return GT_OK;
}

void gt__cuda_free_program(gt_engine *engine, gt_program *program)
{
    gt_cuda *cuda = gt__cuda(engine);
    if (!program)
        return;
    gt__log(GT_LOG_COMPILE,
            "cuda: a sequence of %u steps was run %llu times, %llu of them as one of %llu recorded graphs",
            program->plan->step_count, (unsigned long long)program->runs, (unsigned long long)program->replays,
            (unsigned long long)program->recorded);
    for (int k = 0; k < GT_CUDA_RECORDINGS; k++)
        recording_free(cuda, &program->recordings[k]);
    for (size_t k = 0; k < program->scratch_count; k++)
        gt__cuda_heap_give(&cuda->heap, program->scratches[k].address);
    free(program->scratches);
    for (unsigned k = 0; k < program->pair_count; k++)
        gt__cuda_heap_give(&cuda->heap, program->pairs[k].moments);
    free(program->pairs);
    free(program->pair_of);
    for (unsigned k = 0; k < program->picks_count; k++)
        gt__cuda_heap_give(&cuda->heap, program->picks[k].moments);
    free(program->picks);
    free(program->picks_of);
    free(program->norms);
    free(program->norm_of);
    gt__cuda_parts_free(program->parts, program->part_count);
    gt__cuda_casts_free(&program->casts);
    free(program->in);
    free(program->views);
    free(program->inputs);
    free(program);
}
