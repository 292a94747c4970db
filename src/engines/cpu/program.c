/*
 * program.c: compiles a plan into a program, and runs it. Read program.h first.
 *
 * A step outside of groups is a call that was prepared: a run fills in addresses and literals.
 */
#include "engines/cpu/program.h"

#include <stdlib.h>

/* A step on its own. */
typedef struct single {
    gt_call call;
    const gt_plan_step *step;
    gt_view *views; /* the operands', then the result's */
    const gt_view **in;
} single;

/* A group, or a step. */
typedef struct part {
    gt_fused *fused;
    single *single;
    uint32_t step;
} part;

/* An immediate that decides what a group does. If it changes, the program does not hold. */
typedef struct fixed {
    const gt_imm *where;
    uint64_t value;
    uint32_t step;
} fixed;

struct gt_program {
    const gt_plan *plan;
    part *parts;
    unsigned part_count;
    fixed *fixed;
    unsigned fixed_count;
};

/* ---- steps on their own --------------------------------------------------------------------------------------- */

static gt_err single_new(const gt_plan *plan, const gt_plan_step *step, single **out)
{
    size_t views = (step->operands + 1) * sizeof(gt_view), in = (step->operands + 1) * sizeof(gt_view *);
    single *s = *out = malloc(sizeof *s + views + in);
    if (!s)
        return gt__fail(GT_ERR_MEMORY, "no memory for a program");
    *s = (single){.step = step};
    s->views = (gt_view *)(s + 1);
    s->in = (const gt_view **)(s->views + step->operands + 1);
    gt_view *result = &s->views[step->operands];
    *result = plan->values[step->result].view;
    for (unsigned k = 0; k < step->operands; k++) {
        s->in[k] = &s->views[k];
        if (step->operand[k] == GT_PLAN_LITERAL)
            s->call.literals |= (uint8_t)(1u << k);
        else
            s->views[k] = plan->values[step->operand[k]].view;
    }
    s->call.op = gt__plan_copies(step) ? GT_OP_copy : step->op;
    s->call.compute = step->compute;
    s->call.ins = &step->record->ins;
    s->call.tail = step->record + 1;
    s->call.operands = step->operands;
    s->call.in = s->in;
    s->call.out = result;
    return GT_OK;
}

static gt_err single_run(gt_engine *engine, const gt_plan *plan, single *s, void *const *buffer)
{
    gt_token token = 0;
    for (unsigned k = 0; k < s->call.operands; k++) {
        if (s->call.literals >> k & 1) {
            s->call.value[k] = gt__literal_operand(s->call.ins, k, &s->views[k]);
            continue;
        }
        const gt_plan_value *value = &plan->values[s->step->operand[k]];
        s->views[k].data = (char *)buffer[value->buffer] + value->offset;
    }
    const gt_plan_value *value = &plan->values[s->step->result];
    s->views[s->call.operands].data = (char *)buffer[value->buffer] + value->offset;
    if (gt__plan_copies(s->step)) {
        s->views[0] = gt__plan_view(plan, s->step->operand[0], buffer);
        gt__plan_cut(s->call.tail, &value->view.meta, &s->views[0]);
    }
    return engine->ops->run(engine, &s->call, &token);
}

/* ---- compiling ------------------------------------------------------------------------------------------------ */

void gt__cpu_free_program(gt_engine *engine, gt_program *program)
{
    (void)engine;
    if (!program)
        return;
    for (unsigned k = 0; k < program->part_count; k++) {
        gt__fused_free(program->parts[k].fused);
        free(program->parts[k].single);
    }
    free(program->parts);
    free(program->fixed);
    free(program);
}

/* The group's steps, and the views between them, have its number. */
static void number_steps(gt_plan *plan, const gt_group *group)
{
    uint32_t first = group->member[0].step, last = group->member[group->members - 1].step;
    for (uint32_t k = first; k <= last; k++)
        plan->steps[k].group = first;
}

/* Axes of members that work on rows. */
static void note_fixed(gt_program *program, const gt_plan *plan, const gt_group *group)
{
    for (unsigned k = 0; k < group->members; k++) {
        gt_fusible kind = group->member[k].kind;
        uint32_t step = group->member[k].step;
        if (kind == GT_FUSIBLE_ELEMENTWISE || kind == GT_FUSIBLE_MOVE)
            continue;
        const gt_imm *imm = &plan->steps[step].record->ins.imm[0];
        program->fixed[program->fixed_count++] = (fixed){.where = imm, .value = imm->u, .step = step};
    }
}

static gt_err add_parts(gt_cpu *cpu, gt_program *program, gt_plan *plan, gt_forming *forming)
{
    gt_group group;
    for (uint32_t k = 0; k < plan->step_count;) {
        if (plan->steps[k].kind == GT_STEP_VIEW) {
            k++;
            continue;
        }
        part *p = &program->parts[program->part_count++];
        *p = (part){.step = k};
        gt__group_form(forming, k, &group);
        if (group.members < 2) {
            GT_TRY(single_new(plan, &plan->steps[k++], &p->single));
            continue;
        }
        GT_TRY(gt__group_lower(cpu, plan, forming, &group, &p->fused));
        number_steps(plan, &group);
        note_fixed(program, plan, &group);
        k = group.member[group.members - 1].step + 1;
    }
    return GT_OK;
}

gt_err gt__cpu_compile(gt_engine *engine, gt_plan *plan, gt_program **out)
{
    gt_cpu *cpu = gt__cpu(engine);
    gt_forming *forming = NULL;
    gt_program *program = calloc(1, sizeof *program);
    *out = NULL;
    if (!program)
        return gt__fail(GT_ERR_MEMORY, "no memory for a program");
    program->plan = plan;
    program->parts = calloc(plan->step_count + 1, sizeof *program->parts);
    program->fixed = calloc(plan->step_count + 1, sizeof *program->fixed);
    gt_err err = program->parts && program->fixed ? gt__forming_new(cpu, plan, &forming)
                                                  : gt__fail(GT_ERR_MEMORY, "no memory for a program");
    if (err == GT_OK)
        err = add_parts(cpu, program, plan, forming);
    size_t scratch = 0, sums = 0;
    for (unsigned k = 0; k < program->part_count && err == GT_OK; k++) {
        const gt_fused *fused = program->parts[k].fused;
        if (fused && fused->scratch > scratch)
            scratch = fused->scratch;
        if (fused && fused->sums * (size_t)fused->parts > sums)
            sums = fused->sums * (size_t)fused->parts;
    }
    if (err == GT_OK)
        err = gt__scratch_reserve(cpu, scratch, sums);
    gt__forming_free(forming);
    if (err != GT_OK) {
        gt__cpu_free_program(engine, program);
        return err;
    }
    *out = program;
    return GT_OK;
}

/* ---- running -------------------------------------------------------------------------------------------------- */

gt_err gt__cpu_run_program(gt_engine *engine, gt_program *program, void *const *buffer, bool timed, unsigned *step,
                           gt_token *token)
{
    (void)timed;
    (void)token;
    unsigned first = *step, begun = 0;
    for (unsigned k = 0; k < program->fixed_count && !first; k++) {
        *step = program->fixed[k].step;
        if (program->fixed[k].where->u != program->fixed[k].value)
            return gt__fail(GT_ERR_UNSUPPORTED, "a compiled step has other axes now");
    }
    gt_cpu *cpu = gt__cpu(engine);
    for (unsigned k = 0; k < program->part_count; k++) {
        part *p = &program->parts[k];
        if (p->step < first)
            continue;
        *step = p->step;
        if (begun++ && gt__cancel_pauses(cpu->cancel))
            return GT_ERR_INTERRUPTED;
        gt__cancel_step(cpu->cancel, program->plan->steps[p->step].op);
        if (p->fused)
            GT_TRY(gt__fused_run(cpu, p->fused, buffer));
        else
            GT_TRY(single_run(engine, program->plan, p->single, buffer));
    }
    return GT_OK;
}
