/* program_make.c: compiling a plan: its parts, the steps that need not run, and their kernels. Read program.h first. */
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "engines/cuda/program.h"

enum { FEW = 2 }; /* launches that are not worth a recording */

/* The kernels of what was lowered last. */
static gt_err make_kernels(gt_cuda *cuda)
{
    CUfunction function;
    for (unsigned k = 0; k < cuda->work.count; k++)
        GT_TRY(gt__cuda_kernel(cuda, &cuda->work.launch[k], &function));
    return GT_OK;
}

static gt_err make_chain(gt_cuda *cuda, const gt_cuda_part *part, void *const *buffer)
{
    GT_TRY(gt__cuda_lower_chains(part, 1, buffer, &cuda->work));
    return make_kernels(cuda);
}

/* The kernels of steps on rows that are not run as the plan has them. */
static gt_err make_rows(gt_cuda *cuda, gt_program *program, const gt_cuda_part *part, void *const *buffer)
{
    gt_cuda_work *work = &cuda->work;
    for (uint32_t step = part->first; step <= part->last; step++) {
        gt_view out;
        gt_call call;
        if (program->plan->steps[step].kind == GT_STEP_VIEW || gt__cuda_rows_skip(part->rows, step) ||
            !gt__cuda_program_call(program, part, step, buffer, &out, &call))
            continue;
        work->more = 0;
        GT_TRY(gt__cuda_lower(&call, &cuda->card, work));
        GT_TRY(make_kernels(cuda));
    }
    return GT_OK;
}

/* The kernels of a pair's steps. GT_ERR_UNSUPPORTED: they cannot be a pair. */
static gt_err make_pair(gt_cuda *cuda, gt_program *program, const gt_cuda_pair *pair, void *const *buffer)
{
    const uint32_t steps[] = {pair->forward, pair->backward};
    const gt_plan *plan = program->plan;
    for (unsigned k = 0; k < 2; k++) {
        gt_view out;
        gt_call call = gt__plan_call(plan, &plan->steps[steps[k]], buffer, program->in, program->views, &out);
        if (!gt__cuda_pair_holds(pair, plan, buffer))
            return GT_ERR_UNSUPPORTED;
        gt__cuda_pair_change(pair, plan, steps[k], buffer, program->in, program->views, &out, &call);
        cuda->work.more = 0;
        GT_TRY(gt__cuda_lower(&call, &cuda->card, &cuda->work));
        GT_TRY(make_kernels(cuda));
    }
    return GT_OK;
}

/* Steps of attention that keep something for their gradients. What has no memory or no kernels is left as it is. */
static void make_pairs(gt_cuda *cuda, gt_program *program, gt_plan *plan, void *const *buffer)
{
    for (uint32_t step = 0; step < plan->step_count; step++) {
        gt_cuda_pair pair;
        if (!gt__cuda_pair_find(plan, step, &pair) || program->pair_of[pair.forward])
            continue;
        gt_cuda_pair *more = realloc(program->pairs, (program->pair_count + 1) * sizeof *more);
        if (!more)
            return;
        program->pairs = more;
        if (gt__cuda_take(cuda, pair.bytes, &pair.moments) != GT_OK)
            return;
        if (make_pair(cuda, program, &pair, buffer) != GT_OK) {
            gt__cuda_heap_give(&cuda->heap, pair.moments);
            continue;
        }
        more[program->pair_count++] = pair;
        program->pair_of[pair.forward] = program->pair_of[pair.backward] = program->pair_count;
        if (pair.apart)
            program->pair_of[pair.cat] = program->pair_count;
        for (uint32_t k = pair.backward + 1; pair.spreads && k <= pair.spread.end; k++)
            program->pair_of[k] = program->pair_count;
        gt__cuda_pair_settle(plan, &pair);
    }
}

/* The kernels of the steps of the last picks. */
static gt_err make_picks_kernels(gt_cuda *cuda, gt_program *program, const gt_cuda_picks *picks,
                                 void *const *buffer)
{
    for (unsigned k = 0; k <= picks->readers; k++) {
        gt_view out;
        gt_call call;
        uint32_t step = k ? picks->reader[k - 1] : picks->forward;
        const gt_cuda_part *part = program->parts;
        while (part->last < step)
            part++;
        gt__cuda_program_call(program, part, step, buffer, &out, &call);
        cuda->work.more = 0;
        GT_TRY(gt__cuda_lower(&call, &cuda->card, &cuda->work));
        GT_TRY(make_kernels(cuda));
    }
    return GT_OK;
}

static void mark_picks(gt_program *program, const gt_cuda_picks *picks, uint32_t number)
{
    program->picks_of[picks->forward] = number;
    for (unsigned k = 0; k < picks->readers; k++)
        program->picks_of[picks->reader[k]] = number;
}

/* Steps of log_softmax whose results are only picked from. What has no memory or no kernels is left as it is. */
static void make_picks(gt_cuda *cuda, gt_program *program, gt_plan *plan, void *const *buffer)
{
    for (unsigned k = 0; k < program->part_count; k++)
        for (uint32_t step = program->parts[k].first; step <= program->parts[k].last; step++) {
            gt_cuda_picks *more, picks;
            if (!gt__cuda_picks_find(plan, step, program->parts[k].rows, &picks))
                continue;
            if (!(more = realloc(program->picks, (program->picks_count + 1) * sizeof *more)))
                return;
            program->picks = more;
            if (gt__cuda_take(cuda, picks.bytes, &picks.moments) != GT_OK)
                return;
            more[program->picks_count] = picks;
            mark_picks(program, &picks, program->picks_count + 1);
            if (make_picks_kernels(cuda, program, &picks, buffer) != GT_OK) {
                mark_picks(program, &picks, 0);
                gt__cuda_heap_give(&cuda->heap, picks.moments);
                continue;
            }
            program->picks_count++;
            gt__cuda_picks_settle(plan, &picks);
        }
}

/* Whether the steps of a norm, from this part on, run one behind the other, and store their results where the plan has them. */
static bool run_together(const gt_cuda_part *part, const gt_plan *plan, const gt_cuda_norm *norm)
{
    const gt_cuda_chain *chain = part->chain;
    unsigned before = 0;
    for (unsigned k = 0; part->rows && k < part->rows->count; k++)
        if (part->rows->change[k].of == plan->steps[norm->weight].result ||
            part->rows->change[k].of == plan->steps[norm->last].result)
            return false;
    for (; part->last < norm->last; part++)
        if (part->chain || part->rows || part[1].chain || part[1].rows)
            return false;
    for (unsigned k = 0; chain && k < chain->before_count; k++)
        before += chain->before[k] == norm->backward || chain->before[k] == norm->weight ||
                  chain->before[k] == norm->last;
    return before == 0 || before == (norm->has_bias ? 3 : 2);
}

/* The gradients of layer norm. What has no kernels is left as it is. */
static void make_norms(gt_cuda *cuda, gt_program *program, gt_plan *plan, void *const *buffer)
{
    for (unsigned k = 0; k < program->part_count; k++)
        for (uint32_t step = program->parts[k].first; step <= program->parts[k].last; step++) {
            gt_cuda_norm norm, *more;
            gt_view out;
            gt_call call;
            if (!gt__cuda_norm_find(plan, step, &norm) || !run_together(&program->parts[k], plan, &norm) ||
                !gt__cuda_norm_holds(&norm, plan))
                continue;
            if (!(more = realloc(program->norms, (program->norm_count + 1) * sizeof *more)))
                return;
            program->norms = more;
            more[program->norm_count] = norm;
            program->norm_of[norm.backward] = program->norm_of[norm.weight] = program->norm_of[norm.last] =
                program->norm_count + 1;
            gt__cuda_program_call(program, &program->parts[k], norm.last, buffer, &out, &call);
            cuda->work.more = 0;
            if (gt__cuda_lower(&call, &cuda->card, &cuda->work) != GT_OK || make_kernels(cuda) != GT_OK) {
                program->norm_of[norm.backward] = program->norm_of[norm.weight] = program->norm_of[norm.last] = 0;
                continue;
            }
            program->norm_count++;
            gt__cuda_norm_settle(plan, &norm);
        }
}

static void log_forms(const gt_program *program)
{
    unsigned apart = 0, spread = 0, casts = 0;
    for (unsigned k = 0; k < program->pair_count; k++) {
        apart += program->pairs[k].apart;
        spread += program->pairs[k].spreads;
    }
    for (unsigned k = 0; program->casts.left_out && k < program->plan->step_count; k++)
        casts += program->casts.left_out[k];
    if (program->pair_count + program->picks_count + program->norm_count + casts)
        gt__log(GT_LOG_COMPILE,
                "cuda: %u steps of attention keep what their gradients need, %u of these read operands and %u "
                "store results "
                "where they belong; %u losses keep no probabilities; %u layer norms have one kernel for their "
                "gradients; %u casts "
                "are left out",
                program->pair_count, apart, spread, program->picks_count, program->norm_count, casts);
}

/* Parts whose kernels can be made are groups of the plan. The steps of others run one by one. */
static gt_err make_parts(gt_cuda *cuda, gt_program *program, gt_plan *plan)
{
    gt_err err = GT_OK;
    void **buffer = malloc((plan->buffer_count + 1) * sizeof *buffer);
    if (!buffer)
        return gt__fail(GT_ERR_MEMORY, "no memory for a program");
    for (uint32_t k = 0; k < plan->buffer_count; k++) /* addresses that stand for others */
        buffer[k] = (void *)((uintptr_t)1 << 20);
    err = gt__cuda_casts_find(plan, &program->casts);
    if (err == GT_OK) {
        gt__cuda_casts_settle(plan, &program->casts);
        err = gt__cuda_parts_new(plan, &program->casts, &program->parts, &program->part_count);
    }
    for (unsigned k = 0; k < program->part_count && err == GT_OK; k++) {
        gt_cuda_part *part = &program->parts[k];
        if (!part->chain && !part->rows)
            continue;
        err = part->chain ? make_chain(cuda, part, buffer) : make_rows(cuda, program, part, buffer);
        if (err == GT_OK)
            gt__cuda_part_settle(plan, part);
        else if (err == GT_ERR_UNSUPPORTED) {
            gt__cuda_part_drop(part);
            err = GT_OK;
        }
    }
    if (err == GT_OK) {
        make_pairs(cuda, program, plan, buffer);
        make_picks(cuda, program, plan, buffer);
        make_norms(cuda, program, plan, buffer);
    }
    log_forms(program);
    free(buffer);
    return err;
}

/* Chains that wait for others are few launches anyway, with those of other runs (batch.c). */
static bool is_worth_recording(const gt_program *program)
{
    unsigned launches = 0;
    for (unsigned k = 0; k < program->part_count; k++) {
        const gt_cuda_chain *chain = program->parts[k].chain, *before = k ? program->parts[k - 1].chain : NULL;
        if (!chain || !chain->many)
            return true;
        launches += !before || memcmp(&chain->key, &before->key, sizeof chain->key) != 0;
    }
    return launches > FEW;
}

gt_err gt__cuda_compile(gt_engine *engine, gt_plan *plan, gt_program **out)
{
    gt_program *program = calloc(1, sizeof *program);
    if (!program)
        return gt__fail(GT_ERR_MEMORY, "no memory for a program");
    program->most_operands = GT_MAX_OPERANDS + 4; /* a pair's steps have more */
    for (unsigned k = 0; k < plan->step_count; k++)
        if (plan->steps[k].operands > program->most_operands)
            program->most_operands = plan->steps[k].operands;
    program->plan = plan;
    program->inputs_bytes = plan->buffer_count * sizeof(void *) + plan->step_count * sizeof(gt_cuda_step_numbers);
    program->in = malloc((program->most_operands + 1) * sizeof *program->in);
    program->views = malloc((program->most_operands + 1) * sizeof *program->views);
    program->inputs = malloc(program->inputs_bytes + 1);
    program->pair_of = calloc(plan->step_count + 1, sizeof *program->pair_of);
    program->picks_of = calloc(plan->step_count + 1, sizeof *program->picks_of);
    program->norm_of = calloc(plan->step_count + 1, sizeof *program->norm_of);
    gt_err err = program->in && program->views && program->inputs && program->pair_of && program->picks_of &&
                         program->norm_of
                     ? make_parts(gt__cuda(engine), program, plan)
                     : gt__fail(GT_ERR_MEMORY, "no memory for a program");
    if (err != GT_OK) {
        gt__cuda_free_program(engine, program);
        return err;
    }
    program->never = !is_worth_recording(program);
    *out = program;
    return GT_OK;
}
