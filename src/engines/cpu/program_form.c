/*
 * program_form.c: chooses which neighbouring steps of a plan run as one pass over tiles. Read program.h first.
 *
 * A step joins the group if its positions are those of the group (or its rows), if it reads what the group makes only at
 * the position where that is made.
 */
#include <stdlib.h>

#include "engines/cpu/program.h"

/* What the group has done to a buffer. */
typedef struct trace {
    uint32_t made;  /* the number of a group; 0: none */
    gt_level level; /* at which it is made */
} trace;

struct gt_forming {
    const gt_cpu *cpu;
    gt_plan *plan;
    uint32_t number; /* of the group */
    trace buffer[];
};

gt_err gt__forming_new(const gt_cpu *cpu, gt_plan *plan, gt_forming **out)
{
    gt_forming *f = calloc(1, sizeof *f + plan->buffer_count * sizeof f->buffer[0]);
    *out = f;
    if (!f)
        return gt__fail(GT_ERR_MEMORY, "no memory for a program");
    f->cpu = cpu;
    f->plan = plan;
    return GT_OK;
}

void gt__forming_free(gt_forming *forming)
{
    free(forming);
}

gt_level gt__group_made(const gt_forming *forming, uint32_t buffer)
{
    const trace *t = &forming->buffer[buffer];
    return t->made == forming->number ? t->level : GT_LEVEL_COUNT;
}

/* ---- access -------------------------------------------------------------------------------------------------- */

bool gt__access_column(const gt_access *access, int64_t row)
{
    return access->rank == 2 && access->shape[1] == row && access->stride[0] == 0 && access->stride[1] == 1;
}

bool gt__access_row(const gt_access *access, int64_t row)
{
    return access->rank == 2 && access->shape[1] == row && access->stride[0] == 1 && access->stride[1] == 0;
}

const gt_meta *gt__member_space(const gt_plan *plan, const gt_plan_step *step, gt_fusible kind)
{
    bool reduces = kind == GT_FUSIBLE_REDUCE || gt__fusible_sums(kind);
    uint32_t value = reduces ? step->operand[0] : step->result;
    return &plan->values[value].view.meta;
}

/* ---- what a step is ------------------------------------------------------------------------------------------ */

static bool is_complex(const gt_plan *plan, const gt_plan_step *step)
{
    bool complex = gt__dtype_is_complex((gt_dtype)plan->values[step->result].view.meta.dtype);
    for (unsigned k = 0; k < step->operands; k++)
        if (step->operand[k] != GT_PLAN_LITERAL)
            complex |= gt__dtype_is_complex((gt_dtype)plan->values[step->operand[k]].view.meta.dtype);
    return complex;
}

/* A copy of elements that lie far apart is left to movement.c, which moves squares of them. */
static bool moves_runs(const gt_plan *plan, const gt_plan_step *step)
{
    gt_access access;
    if (step->operand[0] == GT_PLAN_LITERAL)
        return false;
    gt__access_find(&plan->values[step->operand[0]].view, &plan->values[step->operand[0]].view.meta, &access);
    int64_t stride = access.stride[access.rank - 1];
    return stride == 0 || stride == 1;
}

static int64_t product(const gt_meta *meta, int64_t first)
{
    int64_t count = 1;
    for (int64_t axis = first; axis < meta->rank; axis++)
        count *= meta->shape[axis];
    return count;
}

/* The last axes are reduced and others are kept: the elements of a row. 0: not so. */
static int64_t reduced_row(const gt_meta *meta, uint64_t mask)
{
    int axis = meta->rank;
    while (axis > 0 && mask >> (axis - 1) & 1)
        axis--;
    if (axis == 0 || axis == meta->rank || mask & (((uint64_t)1 << axis) - 1))
        return 0;
    return product(meta, axis);
}

/* The first axes are reduced and others are kept: the elements of a row. 0: not so. */
static int64_t summed_row(const gt_meta *meta, uint64_t mask)
{
    int axis = 0;
    while (axis < meta->rank && mask >> axis & 1)
        axis++;
    return axis == 0 || axis == meta->rank || mask >> axis ? 0 : product(meta, axis);
}

static gt_fusible kind_of_reduction(gt_opcode op, const gt_meta *in, uint64_t mask, int64_t *row)
{
    bool one_pass = op == GT_OP_sum || op == GT_OP_mean || op == GT_OP_amax || op == GT_OP_amin ||
                    op == GT_OP_prod || op == GT_OP_any || op == GT_OP_all;
    *row = 0;
    if (in->numel == 0)
        return GT_FUSIBLE_NOT;
    if (one_pass && (mask == 0 || mask == ((uint64_t)1 << in->rank) - 1))
        return GT_FUSIBLE_SUM;
    *row = reduced_row(in, mask);
    bool truths = op == GT_OP_any || op == GT_OP_all;
    if (*row) /* short rows of truths lose more as integers of 8 bytes in a tile than the pass saves */
        return truths && *row < GT_SHORTEST_ROW ? GT_FUSIBLE_NOT : GT_FUSIBLE_REDUCE;
    *row = one_pass ? summed_row(in, mask) : 0;
    return *row ? GT_FUSIBLE_SUM : GT_FUSIBLE_NOT;
}

/* *row: of the rows that it works on; 0: none. */
static gt_fusible kind_of(const gt_plan *plan, const gt_plan_step *step, int64_t *row)
{
    const gt_instruction *ins = &step->record->ins;
    const gt_meta *out = &plan->values[step->result].view.meta;
    *row = 0;
    if (step->kind != GT_STEP_RUN || out->numel == 0 || is_complex(plan, step))
        return GT_FUSIBLE_NOT;
    const gt_meta *first =
        step->operands && step->operand[0] != GT_PLAN_LITERAL ? &plan->values[step->operand[0]].view.meta : NULL;
    switch ((gt_form)gt__op_table[step->op].form) {
    case GT_FORM_UNARY:
    case GT_FORM_BINARY:
    case GT_FORM_TERNARY:
        return gt__elementwise_divides(step->op, gt__elementwise_compute(step->op, step->compute))
                   ? GT_FUSIBLE_NOT
                   : GT_FUSIBLE_ELEMENTWISE;
    case GT_FORM_RESHAPE:
    case GT_FORM_CAST:
    case GT_FORM_COPY:
        return moves_runs(plan, step) ? GT_FUSIBLE_MOVE : GT_FUSIBLE_NOT;
    case GT_FORM_REDUCE:
        return first ? kind_of_reduction(step->op, first, ins->imm[0].u, row) : GT_FUSIBLE_NOT;
    case GT_FORM_SOFTMAX:
    case GT_FORM_SOFTMAX_BACKWARD:
        *row = out->rank && ins->imm[0].i == out->rank - 1 ? out->shape[out->rank - 1] : 0;
        return *row ? GT_FUSIBLE_SOFTMAX : GT_FUSIBLE_NOT;
    case GT_FORM_LAYER_NORM:
        if (!first || first->numel == 0)
            return GT_FUSIBLE_NOT;
        *row = product(first, ins->imm[0].i);
        return step->op == GT_OP_layer_norm_backward_weight ? GT_FUSIBLE_NORM_SUM : GT_FUSIBLE_NORM;
    default:
        return GT_FUSIBLE_NOT;
    }
}

/* ---- joining ------------------------------------------------------------------------------------------------- */

static bool row_fits(const gt_group *g, int64_t row)
{
    if (row < 2 || row > GT_LONGEST_ROW || g->aligned)
        return false;
    return !g->needs_row || g->row == row;
}

/* The kernel's results depend on where it begins. */
static bool wants_aligned(const gt_forming *f, const gt_plan_step *step)
{
    bool angle = step->op == GT_OP_sin || step->op == GT_OP_cos || step->op == GT_OP_tan || step->op == GT_OP_sinc;
    return angle && gt__elementwise_compute(step->op, step->compute) == GT_COMPUTE_F32 &&
           f->cpu->kernels->guarded[step->op];
}

/* Operands that are not elements of the iteration space: the weights of a normalisation. */
static bool is_weight(gt_fusible kind, gt_opcode op, unsigned k)
{
    bool norm = kind == GT_FUSIBLE_NORM || kind == GT_FUSIBLE_NORM_SUM;
    return norm && k >= (op == GT_OP_layer_norm ? 1u : 2u);
}

/* The positions that a member walks. */
static gt_level space_of(const gt_member *m)
{
    return m->kind == GT_FUSIBLE_REDUCE || gt__fusible_sums(m->kind) ? GT_LEVEL_FULL : m->level;
}

/*
 * Whether an operand that lies by column is better read in rows of a tile than by a step on its own, which reads it in the order of
 * memory or in squares. To convert elements on the way takes many rows.
 */
static bool reads_across(const gt_group *g, const gt_member *m, const gt_access *access, gt_dtype dtype)
{
    enum { LONGEST_CONVERTED = 128 };
    bool reduces = m->kind == GT_FUSIBLE_REDUCE || m->kind == GT_FUSIBLE_SUM;
    bool converted = gt__native_dtype(gt__cpu_compute(dtype)) != dtype;
    return !reduces && !g->aligned &&
           access->shape[access->rank - 1] <= (converted ? LONGEST_CONVERTED : GT_LONGEST_ACROSS);
}

/* Whether operand k can be read; `own`: it is read at the reader's position. */
static bool operand_fits(const gt_forming *f, const gt_group *g, const gt_plan_step *step, const gt_member *m,
                         unsigned k, int64_t row, gt_access *access, bool *own)
{
    const gt_plan *plan = f->plan;
    const gt_plan_value *value = &plan->values[step->operand[k]];
    gt_level made = gt__group_made(f, value->buffer);
    bool one = value->view.meta.numel == 1, weight = is_weight(m->kind, step->op, k);
    if (weight) {
        *access = (gt_access){.rank = 1};
        *own = false;
        return made == GT_LEVEL_COUNT;
    }
    gt__access_find(&value->view, gt__member_space(plan, step, m->kind), access);
    if (gt__access_crosses(access) && !reads_across(g, m, access, (gt_dtype)value->view.meta.dtype))
        return false;
    gt_level space = space_of(m);
    bool flat = gt__access_flat(access) && value->view.meta.numel > 0 && (!one || access->shape[0] == 1);
    *own = flat;
    if (made == GT_LEVEL_COUNT)
        return true;
    if (value->offset != 0 || (one && step->op == GT_OP_pow && k == 1))
        return false;
    if (made == space)
        return flat;
    if (made != GT_LEVEL_ROW || space != GT_LEVEL_FULL)
        return false;
    return gt__access_row(access, row) || (one && g->count == row);
}

typedef struct reading {
    gt_access access;
    bool own;
} reading;

static bool readings_fit(const gt_forming *f, const gt_group *g, const gt_plan_step *step, const gt_member *m,
                         int64_t row, reading *r)
{
    for (unsigned k = 0; k < step->operands; k++)
        if (step->operand[k] != GT_PLAN_LITERAL && !operand_fits(f, g, step, m, k, row, &r[k].access, &r[k].own))
            return false;
    return true;
}

/*
 * Rows that nothing needs save gathering a broadcast operand, or are gathered together from an operand that lies by column.
 * Short ones have to be spread, so that others are better.
 */
static bool may_walk(const gt_group *g, int64_t row)
{
    bool better = !g->row || (!g->needs_row && g->row < GT_SHORTEST_ROW && row >= GT_SHORTEST_ROW);
    return better && row >= 2 && row <= GT_LONGEST_ROW && !g->aligned;
}

static void note(gt_forming *f, gt_group *g, const gt_plan_step *step, const gt_member *m, const reading *r)
{
    gt_level space = space_of(m);
    for (unsigned k = 0; k < step->operands; k++) {
        if (step->operand[k] == GT_PLAN_LITERAL)
            continue;
        const gt_access *a = &r[k].access;
        int64_t period = space == GT_LEVEL_FULL ? a->shape[a->rank - 1] : 0;
        bool crosses = gt__access_crosses(a);
        g->across |= crosses;
        if (may_walk(g, period) && (crosses || gt__access_column(a, period) || gt__access_row(a, period)))
            g->row = period;
    }
    trace *t = &f->buffer[f->plan->values[step->result].buffer];
    t->made = f->number;
    t->level = m->level;
}

/* Add a step to the group, if it fits. */
static bool join(gt_forming *f, gt_group *g, uint32_t number)
{
    const gt_plan_step *step = &f->plan->steps[number];
    int64_t row;
    gt_member m = {.step = number, .kind = kind_of(f->plan, step, &row)};
    if (m.kind == GT_FUSIBLE_NOT)
        return false;
    gt_group next = *g;
    int64_t count = gt__member_space(f->plan, step, m.kind)->numel;
    if (!g->members)
        next.count = count;
    if (row) {
        if (!row_fits(g, row) || count != next.count)
            return false;
        next.row = row;
        next.needs_row = true;
    }
    bool elementwise = m.kind == GT_FUSIBLE_ELEMENTWISE;
    bool on_rows = next.needs_row && count != next.count && (elementwise || m.kind == GT_FUSIBLE_MOVE) && !row;
    if (on_rows ? count * next.row != next.count : count != next.count)
        return false;
    m.level = gt__fusible_sums(m.kind)                 ? GT_LEVEL_COLUMN
              : on_rows || m.kind == GT_FUSIBLE_REDUCE ? GT_LEVEL_ROW
                                                       : GT_LEVEL_FULL;
    if (elementwise && wants_aligned(f, step)) {
        if (next.needs_row || next.across)
            return false;
        next.row = 0;
        next.aligned = true;
    }
    reading r[GT_MAX_OPERANDS];
    if (!readings_fit(f, &next, step, &m, next.row, r) || (elementwise && wants_aligned(f, step) && !r[0].own))
        return false;
    *g = next;
    note(f, g, step, &m, r);
    g->member[g->members++] = m;
    return true;
}

static void form(gt_forming *f, uint32_t first, unsigned most, gt_group *g)
{
    const gt_plan *plan = f->plan;
    f->number++;
    g->members = 0;
    g->count = g->row = 0;
    g->needs_row = g->across = g->aligned = false;
    for (uint32_t k = first; k < plan->step_count && g->members < most; k++)
        if (plan->steps[k].kind != GT_STEP_VIEW && !join(f, g, k))
            break;
}

/* How many members a full group keeps, so that no inner value lives on beyond them; all, if there is no such number. */
static unsigned last_boundary(const gt_plan *plan, const gt_group *g)
{
    unsigned boundary = g->members;
    uint32_t needed = 0; /* the last step that uses what members up to here make */
    for (unsigned k = 0; k < g->members; k++) {
        uint32_t step = g->member[k].step;
        const gt_plan_buffer *buffer = &plan->buffers[plan->values[plan->steps[step].result].buffer];
        if (buffer->role == GT_PLAN_INNER && buffer->last_use > needed)
            needed = buffer->last_use;
        if (k > 0 && needed <= step)
            boundary = k + 1;
    }
    return boundary;
}

void gt__group_form(gt_forming *forming, uint32_t first, gt_group *group)
{
    form(forming, first, GT_FUSED_MEMBERS, group);
    unsigned boundary = group->members == GT_FUSED_MEMBERS ? last_boundary(forming->plan, group) : group->members;
    if (boundary < group->members)
        form(forming, first, boundary, group);
}
