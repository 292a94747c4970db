/*
 * program_compound.c: finds members of a group that one loop computes together (compounds.c). Read program.h first.
 *
 * Members are matched by what they read, not by their order: the last step of a compound is a member, and the steps that it
 * reads are the members that made its operands. Other members may lie between them if they do not depend on the compound and
 * write to scratch only: the loop runs at the place of the last member, and what it reads must still be there.
 */
#include "engines/cpu/program.h"

enum {
    MOST_BETWEEN = 16, /* members that may lie between those of a compound */
    UNKNOWN = 255,     /* instead of a member */
};

typedef struct matching {
    const gt_plan *plan;
    const gt_forming *forming;
    const gt_group *group;
    uint64_t taken;
    gt_compound_match *match;
} matching;

static const gt_plan_step *step_of(const matching *m, unsigned member)
{
    return &m->plan->steps[m->group->member[member].step];
}

static uint32_t result_of(const matching *m, unsigned member)
{
    return m->plan->values[step_of(m, member)->result].buffer;
}

static bool computes_floats(const matching *m, unsigned number)
{
    const gt_member *member = &m->group->member[number];
    const gt_plan_step *step = step_of(m, number);
    const gt_meta *out = &m->plan->values[step->result].view.meta;
    return member->kind == GT_FUSIBLE_ELEMENTWISE && member->level == GT_LEVEL_FULL &&
           step->compute == GT_FLOAT32 && out->dtype == GT_FLOAT32 && out->numel > 1 && step->operands <= 2;
}

/* The member before `end` that makes a value. */
static unsigned maker_of(const matching *m, uint32_t value, unsigned end)
{
    for (unsigned k = end; k-- > 0;)
        if (result_of(m, k) == m->plan->values[value].buffer)
            return k;
    return UNKNOWN;
}

/* Member `number` is step s of the compound; so the members that it reads are those that s reads. */
static bool assign(matching *m, unsigned s, unsigned number)
{
    const gt_compound *c = m->match->compound;
    uint8_t *member = m->match->member;
    if (number == UNKNOWN || m->taken >> number & 1)
        return false;
    if (member[s] != UNKNOWN)
        return member[s] == number;
    const gt_plan_step *step = step_of(m, number);
    if (step->op != c->step[s].op || !computes_floats(m, number) || m->match->members >> number & 1)
        return false;
    member[s] = (uint8_t)number;
    m->match->members |= (uint64_t)1 << number;
    for (unsigned k = 0; k < step->operands; k++) {
        unsigned wanted = c->step[s].operand[k];
        if (wanted < GT_COMPOUND_IN &&
            (step->operand[k] == GT_PLAN_LITERAL || !assign(m, wanted, maker_of(m, step->operand[k], number))))
            return false;
    }
    return true;
}

static bool makes(const matching *m, uint32_t buffer)
{
    for (unsigned s = 0; s < m->match->compound->steps; s++)
        if (result_of(m, m->match->member[s]) == buffer)
            return true;
    return false;
}

/* Whether operand k of a step is what the compound wants there. */
static bool operand_fits(matching *m, const gt_plan_step *step, unsigned k, unsigned wanted)
{
    gt_compound_match *match = m->match;
    const gt_plan_value *v = step->operand[k] == GT_PLAN_LITERAL ? NULL : &m->plan->values[step->operand[k]];
    bool number = !v || (v->view.meta.numel == 1 && gt__group_made(m->forming, v->buffer) == GT_LEVEL_COUNT);
    if (number != (wanted == GT_COMPOUND_NUMBER))
        return false;
    if (number) {
        match->number_step[match->numbers] = step;
        match->number_operand[match->numbers++] = k;
        return true;
    }
    if (v->view.meta.dtype != GT_FLOAT32)
        return false;
    if (wanted < GT_COMPOUND_IN)
        return true; /* assigned */
    gt_access access;
    gt__access_find(&v->view, gt__member_space(m->plan, step, GT_FUSIBLE_ELEMENTWISE), &access);
    if (!gt__access_flat(&access) || makes(m, v->buffer))
        return false;
    unsigned input = wanted - GT_COMPOUND_IN;
    if (input < match->inputs)
        return match->input[input] == step->operand[k];
    match->input[match->inputs++] = step->operand[k];
    return true;
}

/* Members between may not need the compound's results, nor write where it reads. */
static bool may_lie_between(const matching *m, unsigned number)
{
    const gt_plan_step *step = step_of(m, number);
    if (m->plan->buffers[result_of(m, number)].role != GT_PLAN_NONE)
        return false;
    for (unsigned k = 0; k < step->operands; k++)
        if (step->operand[k] != GT_PLAN_LITERAL && makes(m, m->plan->values[step->operand[k]].buffer))
            return false;
    return true;
}

/* Whether the compound fits members that end with `last`. */
static bool fits(matching *m, unsigned first, unsigned last)
{
    gt_compound_match *match = m->match;
    const gt_compound *c = match->compound;
    *match = (gt_compound_match){.compound = c};
    for (unsigned s = 0; s < c->steps; s++)
        match->member[s] = UNKNOWN;
    if (!assign(m, c->steps - 1u, last) || match->members & (((uint64_t)1 << first) - 1) ||
        !(match->members >> first & 1) || __builtin_popcountll(match->members) != c->steps)
        return false;
    for (unsigned s = 0; s < c->steps; s++) {
        const gt_plan_step *step = step_of(m, match->member[s]);
        const gt_plan_buffer *buffer = &m->plan->buffers[result_of(m, match->member[s])];
        bool inner = buffer->role == GT_PLAN_NONE && buffer->last_use <= m->group->member[last].step;
        if (!c->step[s].output && !inner)
            return false;
        for (unsigned k = 0; k < step->operands; k++)
            if (!operand_fits(m, step, k, c->step[s].operand[k]))
                return false;
    }
    for (unsigned k = first; k < last; k++)
        if (!(match->members >> k & 1) && !may_lie_between(m, k))
            return false;
    return true;
}

bool gt__compound_find(const gt_compound *compounds, const gt_plan *plan, const gt_forming *forming,
                       const gt_group *group, uint64_t taken, unsigned first, gt_compound_match *match)
{
    matching m = {.plan = plan, .forming = forming, .group = group, .taken = taken, .match = match};
    if (!computes_floats(&m, first))
        return false;
    for (const gt_compound *c = compounds; c->kernel; c++) {
        unsigned end = first + c->steps + MOST_BETWEEN;
        end = end < group->members ? end : group->members;
        for (unsigned last = first + c->steps - 1; last < end; last++) {
            if (step_of(&m, last)->op != c->step[c->steps - 1].op)
                continue;
            match->compound = c;
            if (fits(&m, first, last))
                return true;
        }
    }
    return false;
}
