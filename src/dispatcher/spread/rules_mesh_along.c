/*
 * rules_mesh_along.c: ops along a dimension that is split along an axis of a mesh.
 *
 * The operand is not gathered. Softmax is a short program of reductions and elementwise steps, for each of which the mesh has
 * rules (along.c). All others, slices, flip and assignments among them, work on whole lines: along that axis of the mesh another
 * dimension is split instead, by an all-to-all on each line of workers, and the result comes back in the same way, or stays.
 * Where there is no other dimension that divides, rules_mesh.c gathers. Read rules_mesh.c first.
 */
#include "dispatcher/spread/along.h"
#include "dispatcher/spread/make.h"
#include "dispatcher/spread/rules.h"

static bool is_taken_whole(const gt_task *task, int dimension)
{
    const gt_slot *start = task->record + 1, *step = start + 1, *count = start + 2;
    return start->i64[dimension] == 0 && step->i64[dimension] == 1 &&
           count->i64[dimension] == task->source[0].meta->shape[dimension];
}

/* The only split dimension of which a slice or an assignment takes a part, or in another order; -1: there is none, or more than
 * one. */
static int sliced_dimension(const gt_task *task)
{
    int found = -1;
    for (unsigned k = 0; k < task->count; k++) {
        const gt_source *source = &task->source[k];
        if (!source->meta || source->layout->kind != GT_MESHED)
            continue;
        if (source->meta->rank != task->out.rank)
            return -1;
        for (unsigned d = 0; d < source->layout->mesh.rank; d++) {
            const gt_mesh_axis *axis = &source->layout->mesh.axis[d];
            if (axis->kind != GT_SPLIT || is_taken_whole(task, axis->axis))
                continue;
            if (found >= 0 && found != axis->axis)
                return -1;
            found = axis->axis;
        }
    }
    return found;
}

/* The dimension that the record works along; -1: none, or not one. */
static int dimension_of(const gt_task *task)
{
    switch ((gt_form)gt__op_table[task->ins->op].form) {
    case GT_FORM_SOFTMAX:
    case GT_FORM_SOFTMAX_BACKWARD:
    case GT_FORM_SCAN:
    case GT_FORM_ARGSORT:
    case GT_FORM_ARGREDUCE:
    case GT_FORM_TOPK:
    case GT_FORM_GATHER:
    case GT_FORM_CAT:
        return (int)task->ins->imm[0].i;
    case GT_FORM_SLICE:
    case GT_FORM_ASSIGN:
        return sliced_dimension(task);
    default:
        return -1;
    }
}

/* The axis of the mesh along which a dimension is split; -1: it is whole. */
static int axis_of(const gt_mesh *mesh, int dimension)
{
    for (unsigned d = 0; d < mesh->rank; d++)
        if (mesh->axis[d].kind == GT_SPLIT && mesh->axis[d].axis == dimension)
            return (int)d;
    return -1;
}

/* The operand that is split along the dimension; -1: none. */
static int lead_of(const gt_task *task, int dimension)
{
    for (unsigned k = 0; k < task->count; k++) {
        const gt_source *source = &task->source[k];
        if (source->meta && source->layout->kind == GT_MESHED && gt__rule_within(task, source->layout) &&
            axis_of(&source->layout->mesh, dimension) >= 0)
            return (int)k;
    }
    return -1;
}

static bool has_extent(const gt_source *source, unsigned rank, int dimension, int64_t extent)
{
    return !source->meta || (source->meta->rank == rank && source->meta->shape[dimension] == extent);
}

/* The longest dimension but `along` that may be split along axis d: no axis splits it, it divides, and all operands have it. */
static int other_dimension(const gt_task *task, const gt_mesh *mesh, unsigned d, int along)
{
    const gt_meta *first = task->source[0].meta;
    gt_form form = (gt_form)gt__op_table[task->ins->op].form;
    bool slices = form == GT_FORM_SLICE || form == GT_FORM_ASSIGN;
    int best = -1;
    for (int k = 0; k < first->rank; k++) {
        bool split = axis_of(mesh, k) >= 0, alike = k == along || !slices || is_taken_whole(task, k);
        for (unsigned j = 1; j < task->count && k != along; j++)
            alike &= has_extent(&task->source[j], first->rank, k, first->shape[k]);
        if (split && !alike) /* an index that is shorter: its parts are others */
            return -1;
        bool fits = k != along && !split && alike && first->shape[k] >= mesh->axis[d].size &&
                    first->shape[k] % mesh->axis[d].size == 0;
        if (fits && (best < 0 || first->shape[k] > first->shape[best]))
            best = k;
    }
    return best;
}

/* On the workers of a layout as the mesh says. */
static gt_err layout_on(const gt_layout *like, const gt_mesh *mesh, gt_layout **layout)
{
    int32_t workers[GT_MAX_PARTIES];
    for (unsigned k = 0; k < like->count; k++)
        workers[k] = like->member[k].worker;
    *layout = gt__layout_meshed(mesh, workers);
    return *layout ? GT_OK : gt__spread_no_memory();
}

/* All operands in the same layout, which the plan takes. */
static void want_all(const gt_task *task, gt_plan *plan, gt_layout *layout)
{
    for (unsigned k = 0; k < task->count; k++)
        plan->operand[k] = task->source[k].meta ? gt__layout_retain(layout) : NULL;
    gt__layout_release(layout);
}

/* What the operands are like where they are: with what is not added up added up. */
static gt_mesh settled(const gt_layout *layout)
{
    gt_mesh mesh = layout->mesh;
    for (unsigned d = 0; d < mesh.rank; d++)
        if (mesh.axis[d].kind == GT_PARTIAL)
            mesh.axis[d].kind = GT_REPLICATED;
    return mesh;
}

/* Each member reduces its whole lines. */
static gt_err run_reduced(gt_task *task, const gt_plan *plan, gt_handle *result)
{
    gt_maker m = gt__make_begin(task->session);
    gt_handle *operand = task->source[0].handle;
    gt_handle *out = gt__make(&m, &(gt_step){.record = task->record,
                                             .count = 1,
                                             .operand = &operand,
                                             .at = plan->operand,
                                             .result = plan->result,
                                             .out = &task->out});
    return gt__make_end(&m, out, result);
}

/* The dimension `along` is gone from the result of a reduction. */
static gt_mesh reduced(const gt_task *task, gt_mesh mesh, int along)
{
    for (unsigned d = 0; d < mesh.rank && !(task->ins->flags & GT_FLAG_KEEPDIM); d++)
        if (mesh.axis[d].kind == GT_SPLIT && mesh.axis[d].axis > along)
            mesh.axis[d].axis--;
    return mesh;
}

static gt_err plan_elsewhere(const gt_task *task, gt_plan *plan, const gt_layout *like, int along, int other)
{
    gt_mesh mesh = settled(like), there = mesh;
    int d = axis_of(&mesh, along);
    gt_layout *layout;
    there.axis[d].axis = (int8_t)other;
    GT_TRY(layout_on(like, &there, &layout));
    want_all(task, plan, layout);
    if (gt__op_table[task->ins->op].form == GT_FORM_ARGREDUCE) {
        const gt_mesh after = reduced(task, there, along);
        plan->run = run_reduced;
        return layout_on(like, &after, &plan->result);
    }
    plan->run = gt__run_elsewhere;
    int64_t length = task->out.shape[along];
    bool comes_back = gt__op_table[task->ins->op].form != GT_FORM_TOPK && length >= mesh.axis[d].size &&
                      length % mesh.axis[d].size == 0;
    return comes_back ? layout_on(like, &mesh, &plan->result) : GT_OK;
}

gt_err gt__mesh_plan_along(gt_task *task, gt_plan *plan, bool *planned)
{
    int along = dimension_of(task), lead = along < 0 ? -1 : lead_of(task, along);
    if (lead < 0 || !task->out.numel)
        return GT_OK;
    const gt_layout *like = task->source[lead].layout;
    gt_form form = (gt_form)gt__op_table[task->ins->op].form;
    if (form == GT_FORM_SOFTMAX || form == GT_FORM_SOFTMAX_BACKWARD) {
        const gt_mesh mesh = settled(like);
        gt_layout *layout;
        GT_TRY(layout_on(like, &mesh, &layout));
        want_all(task, plan, layout);
        plan->run = form == GT_FORM_SOFTMAX ? gt__run_softmax : gt__run_softmax_backward;
        *planned = true;
        return GT_OK;
    }
    const gt_mesh mesh = settled(like);
    int other = other_dimension(task, &mesh, (unsigned)axis_of(&mesh, along), along);
    if (other < 0)
        return GT_OK;
    *planned = true;
    return plan_elsewhere(task, plan, like, along, other);
}
