/*
 * rules_mesh.c: records on a mesh of workers.
 *
 * The rules know workers in a line. On a mesh they are applied to one axis after the other. Along the first axis each group of
 * workers (a column of the grid, say) counts as one: the rule says which part of each operand the group gets, and what the
 * record is for it. That record, on those parts, is the one that the rule sees along the next axis. So a tensor that is split
 * along `data` by rows times one that is split along `model` by columns is split along both, without communication; and a
 * product over a dimension that is split along `data` is partial along `data`, whatever it is along `model`.
 *
 * A rule that takes several steps (gt_plan.run), or that makes parts of different sizes, is not used on a mesh: along that axis
 * the operands become whole, and all workers of a line compute the same. The split along the other axes stays. Softmax, sort,
 * slices and others along a split dimension are rules_mesh_along.c's. Read rules.c first.
 */
#include <stdlib.h>
#include <string.h>

#include "core/record.h"
#include "dispatcher/spread/make.h"
#include "dispatcher/spread/rules.h"

/* The record as a group of workers sees it that are a line along one axis. */
typedef struct axis_plan {
    gt_task task;
    gt_plan plan;
    bool used; /* else the operands are whole along the axis */
} axis_plan;

struct gt_mesh_plan {
    unsigned rank, count; /* operands */
    unsigned first;       /* by axis: plan.only_first */
    axis_plan axis[GT_MESH_AXES];
    gt_mesh *placed; /* by operand, then the result */
    /* By axis and operand, or record. */
    gt_source *source;
    gt_meta *meta;
    gt_layout **operand;
    gt_slot *record;
};

/* ---- life ---------------------------------------------------------------------------------------------------- */

static void axis_release(gt_mesh_plan *mesh, axis_plan *axis)
{
    for (unsigned k = 0; k < mesh->count; k++) {
        gt__layout_release(axis->plan.operand[k]);
        gt__layout_release(axis->task.source[k].layout);
        axis->plan.operand[k] = NULL;
        axis->task.source[k].layout = NULL;
    }
    gt__layout_release(axis->plan.result);
    axis->plan.result = NULL;
}

void gt__mesh_plan_free(gt_mesh_plan *mesh)
{
    if (!mesh)
        return;
    for (unsigned d = 0; d < mesh->rank; d++)
        if (mesh->axis[d].plan.operand)
            axis_release(mesh, &mesh->axis[d]);
    free(mesh->placed);
    free(mesh->source);
    free(mesh->meta);
    free(mesh->operand);
    free(mesh->record);
    free(mesh);
}

/* NULL: out of memory. */
static gt_mesh_plan *mesh_plan_new(const gt_task *task, const gt_layout *grid)
{
    gt_mesh_plan *mesh = calloc(1, sizeof *mesh);
    unsigned rank = grid->mesh.rank, count = task->count, length = 1u + task->ins->tail;
    if (!mesh)
        return NULL;
    mesh->rank = rank;
    mesh->count = count;
    mesh->placed = malloc((count + 1) * sizeof *mesh->placed);
    mesh->source = calloc(rank * count + 1, sizeof *mesh->source);
    mesh->meta = calloc(rank * count + 1, sizeof *mesh->meta);
    mesh->operand = calloc(rank * count + 1, sizeof(*mesh->operand));
    mesh->record = malloc(rank * length * sizeof *mesh->record);
    if (!mesh->placed || !mesh->source || !mesh->meta || !mesh->operand || !mesh->record) {
        mesh->rank = 0;
        gt__mesh_plan_free(mesh);
        return NULL;
    }
    for (unsigned k = 0; k <= count; k++) {
        mesh->placed[k] = grid->mesh;
        for (unsigned d = 0; d < rank; d++) {
            mesh->placed[k].axis[d].kind = GT_REPLICATED;
            mesh->placed[k].axis[d].axis = 0;
        }
    }
    return mesh;
}

/* ---- one axis ------------------------------------------------------------------------------------------------ */

/* The first line along an axis stands for all. */
static void line_workers(const gt_layout *grid, unsigned d, int32_t *line)
{
    unsigned stride = gt__mesh_stride(&grid->mesh, d);
    for (unsigned k = 0; k < (unsigned)grid->mesh.axis[d].size; k++)
        line[k] = grid->member[k * stride].worker;
}

/* What a line along axis d has of an operand, which is like `now` as the groups have it. An operand that is not on this mesh
 * will be moved to it, and is seen as a tensor on one worker. */
static gt_layout *along_axis(const gt_layout *grid, unsigned d, const gt_source *source, const gt_meta *now,
                             const int32_t *line)
{
    const gt_layout *layout = source->layout;
    unsigned size = (unsigned)grid->mesh.axis[d].size;
    bool whole = layout->kind == GT_REPLICATED;
    for (unsigned k = 0; whole && k < grid->count; k++)
        whole = gt__layout_find(layout, grid->member[k].worker) >= 0;
    if (!gt__layout_same_grid(layout, grid))
        return gt__layout_replicated(line, whole ? size : 1);
    const gt_mesh_axis *axis = &layout->mesh.axis[d];
    if (axis->kind == GT_SPLIT && now->shape[axis->axis] >= size && now->shape[axis->axis] % size == 0)
        return gt__layout_even((unsigned)axis->axis, now->shape[axis->axis], line, size);
    gt_layout *along = gt__layout_replicated(line, size);
    if (along && axis->kind == GT_PARTIAL && gt__layout_same_workers(layout, grid))
        along->kind = GT_PARTIAL;
    return along;
}

/* Over the whole line, in parts of the same size, along a dimension that no other axis splits. */
static bool fits_mesh(const gt_layout *layout, const gt_meta *meta, const gt_mesh *placed, const int32_t *line,
                      unsigned size)
{
    if (!layout || layout->count != size)
        return false;
    int64_t extent = layout->kind == GT_SPLIT ? meta->shape[layout->axis] : 0;
    bool fits = layout->kind != GT_SPLIT || (extent >= size && extent % size == 0);
    for (unsigned k = 0; fits && k < size; k++)
        fits = layout->member[k].worker == line[k] &&
               (layout->kind != GT_SPLIT ||
                (layout->member[k].start == extent / size * k && layout->member[k].count == extent / size));
    for (unsigned d = 0; fits && layout->kind == GT_SPLIT && d < placed->rank; d++)
        fits = placed->axis[d].kind != GT_SPLIT || placed->axis[d].axis != layout->axis;
    return fits;
}

static bool plan_fits(const gt_mesh_plan *mesh, const axis_plan *axis, const int32_t *line, unsigned size)
{
    const gt_plan *plan = &axis->plan;
    if (plan->run || !fits_mesh(plan->result, &axis->task.out, &mesh->placed[mesh->count], line, size))
        return false;
    for (unsigned k = plan->only_first ? 1 : 0; k < mesh->count; k++)
        if (axis->task.source[k].meta &&
            !fits_mesh(plan->operand[k], axis->task.source[k].meta, &mesh->placed[k], line, size))
            return false;
    return true;
}

static void place(gt_mesh *placed, unsigned d, const gt_layout *layout)
{
    placed->axis[d].kind = layout->kind;
    placed->axis[d].axis = layout->kind == GT_SPLIT ? (int8_t)layout->axis : 0;
}

/* The record as the groups along an axis get it. A group that an assignment does not meet gets another one: the next axis is
 * planned for those that it meets. */
static void narrow_record(const axis_plan *axis, gt_slot *record)
{
    unsigned length = 1u + axis->task.ins->tail, k = 0;
    do {
        memcpy(record, axis->task.record, length * sizeof *record);
        if (axis->plan.localize)
            axis->plan.localize(&axis->task, &axis->plan, k, record);
    } while (record->ins.op != axis->task.ins->op && ++k < axis->plan.result->count);
}

/* What the groups along axis d see: the task, or what those along the axis before it have of it. */
static gt_err see(const gt_task *task, gt_mesh_plan *mesh, const gt_layout *grid, unsigned d, const int32_t *line)
{
    axis_plan *axis = &mesh->axis[d];
    unsigned length = 1u + task->ins->tail;
    gt_slot *record = mesh->record + d * length;
    gt_source *source = mesh->source + d * mesh->count;
    gt_meta *meta = mesh->meta + d * mesh->count;
    const axis_plan *before = d ? &mesh->axis[d - 1] : NULL;
    axis->plan = (gt_plan){.operand = mesh->operand + d * mesh->count};
    axis->task = (gt_task){
        .session = task->session, .record = record, .ins = &record->ins, .count = mesh->count, .source = source};
    if (!before || !before->used)
        memcpy(record, before ? before->task.record : task->record, length * sizeof *record);
    else
        narrow_record(before, record);
    axis->task.out = before ? before->task.out : task->out;
    if (before && before->used)
        gt__layout_part(before->plan.result, 0, &before->task.out, &axis->task.out);
    for (unsigned k = 0; k < mesh->count; k++) {
        const gt_source *whole = before ? &before->task.source[k] : &task->source[k];
        if (!whole->meta)
            continue;
        meta[k] = *whole->meta;
        if (before && before->used && !(k == 0 && before->plan.only_first))
            gt__layout_part(before->plan.operand[k], 0, whole->meta, &meta[k]);
        source[k].meta = &meta[k];
        if (!(source[k].layout = along_axis(grid, d, &task->source[k], &meta[k], line)))
            return gt__spread_no_memory();
    }
    return GT_OK;
}

/* What the scope asks for along axis d; NULL: nothing. */
static gt_target *target_along(const gt_task *task, const gt_layout *grid, const gt_layout *wish, unsigned d,
                               const int32_t *line, gt_target *target)
{
    const gt_mesh *mesh = wish ? &wish->mesh : task->target ? &task->target->mesh : NULL;
    if (!mesh || mesh->rank != grid->mesh.rank || mesh->axis[d].size != grid->mesh.axis[d].size)
        return NULL;
    *target = (gt_target){.count = (unsigned)mesh->axis[d].size,
                          .split = mesh->axis[d].kind == GT_SPLIT,
                          .axis = mesh->axis[d].axis};
    memcpy(target->worker, line, target->count * sizeof *line);
    return target;
}

/* Ask the rule; axis->used says whether its plan can be used. */
static gt_err ask_rule(gt_mesh_plan *mesh, axis_plan *axis, gt_target *target, const int32_t *line, unsigned size)
{
    for (unsigned k = 0; k < mesh->count; k++) {
        gt__layout_release(axis->plan.operand[k]);
        axis->plan.operand[k] = NULL;
    }
    gt__layout_release(axis->plan.result);
    axis->plan = (gt_plan){.operand = axis->plan.operand};
    axis->task.target = target;
    gt_err err = gt__rule_apply(&axis->task, &axis->plan);
    axis->task.target = NULL;
    axis->used = err == GT_OK && plan_fits(mesh, axis, line, size);
    return err;
}

static gt_err plan_axis(const gt_task *task, gt_plan *plan, const gt_layout *grid, const gt_layout *wish,
                        unsigned d)
{
    gt_mesh_plan *mesh = plan->mesh;
    axis_plan *axis = &mesh->axis[d];
    unsigned size = (unsigned)grid->mesh.axis[d].size;
    int32_t line[GT_MAX_PARTIES];
    gt_target target;
    line_workers(grid, d, line);
    GT_TRY(see(task, mesh, grid, d, line));
    gt_target *asked = target_along(task, grid, wish, d, line, &target);
    GT_TRY(ask_rule(mesh, axis, asked, line, size));
    if (!axis->used && mesh->count > 1 && gt__rule_is_split(&axis->task.source[0])) {
        /* A table that is indexed along its split: once the table is whole, the index may be split. */
        gt__layout_release(axis->task.source[0].layout);
        plan->gathers = true;
        if (!(axis->task.source[0].layout = gt__layout_replicated(line, size)))
            return gt__spread_no_memory();
        GT_TRY(ask_rule(mesh, axis, asked, line, size));
    }
    for (unsigned k = 0; k < mesh->count; k++)
        plan->gathers |= gt__rule_is_split(&axis->task.source[k]) && (!axis->used || axis->plan.gathers);
    if (!axis->used)
        return GT_OK;
    for (unsigned k = 0; k < mesh->count; k++)
        if (axis->plan.operand[k] && !(k == 0 && axis->plan.only_first))
            place(&mesh->placed[k], d, axis->plan.operand[k]);
    place(&mesh->placed[mesh->count], d, axis->plan.result);
    mesh->first |= axis->plan.only_first ? 1u << d : 0;
    plan->only_first |= axis->plan.only_first;
    if (axis->plan.combine != GT_COMBINE_NOTHING)
        plan->combine = axis->plan.combine;
    return GT_OK;
}

/* ---- all axes ------------------------------------------------------------------------------------------------ */

bool gt__mesh_is_first(const gt_plan *plan, unsigned member)
{
    bool first = true;
    for (unsigned d = 0; d < plan->mesh->rank; d++)
        first &= !(plan->mesh->first >> d & 1) || gt__mesh_at(&plan->mesh->placed[0], d, member) == 0;
    return first;
}

static void localize_axes(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record)
{
    (void)task;
    for (unsigned d = 0; d < plan->mesh->rank; d++) {
        const axis_plan *axis = &plan->mesh->axis[d];
        if (axis->used && axis->plan.localize)
            axis->plan.localize(&axis->task, &axis->plan, gt__mesh_at(&plan->mesh->placed[0], d, member), record);
    }
}

/* Each member reduces its part. What they have is a tensor with an element for each part: its lines are gathered, and reduced
 * again. */
static gt_err run_again(gt_task *task, const gt_plan *plan, gt_handle *result)
{
    gt_maker m = gt__make_begin(task->session);
    gt_layout *parts = plan->operand[0], *lines = NULL;
    gt_mesh mesh = parts->mesh;
    int32_t workers[GT_MAX_PARTIES];
    gt_meta reduced = *task->source[0].meta;
    gt_instruction ins = *task->ins;
    uint64_t mask = ins.imm[0].u ? ins.imm[0].u : ((uint64_t)1 << reduced.rank) - 1;
    for (unsigned d = 0; d < reduced.rank; d++)
        reduced.shape[d] = mask >> d & 1 ? 1 : reduced.shape[d];
    for (unsigned d = 0; d < mesh.rank; d++)
        if (mesh.axis[d].kind == GT_SPLIT && mask >> mesh.axis[d].axis & 1) {
            reduced.shape[mesh.axis[d].axis] = mesh.axis[d].size;
            mesh.axis[d].kind = GT_REPLICATED;
        }
    for (unsigned k = 0; k < parts->count; k++)
        workers[k] = parts->member[k].worker;
    m.err = gt__meta_set(&reduced, (gt_dtype)task->out.dtype, reduced.rank, reduced.shape);
    if (m.err == GT_OK && !(lines = gt__layout_meshed(&mesh, workers)))
        m.err = gt__spread_no_memory();
    gt_handle *a = gt__make_operand(&m, task, plan, 0);
    ins.flags = GT_FLAG_KEEPDIM;
    gt_handle *of_parts = m.err == GT_OK ? gt__make_here(&m, ins, &a, &parts, parts, &reduced) : NULL;
    ins.flags = task->ins->flags & GT_FLAG_KEEPDIM;
    gt_handle *of_all =
        m.err == GT_OK ? gt__make_here(&m, ins, &of_parts, &lines, plan->result, &task->out) : NULL;
    gt__layout_release(lines);
    return gt__make_end(&m, of_all, result);
}

/* The layouts of all axes together. */
static gt_err compose(const gt_task *task, gt_plan *plan, const gt_layout *grid)
{
    const gt_mesh_plan *mesh = plan->mesh;
    int32_t workers[GT_MAX_PARTIES];
    for (unsigned k = 0; k < grid->count; k++)
        workers[k] = grid->member[k].worker;
    for (unsigned k = 0; k <= task->count; k++) {
        if (k < task->count && !task->source[k].meta)
            continue;
        gt_layout *layout = gt__layout_meshed(&mesh->placed[k], workers);
        if (!layout)
            return gt__spread_no_memory();
        if (k < task->count && gt__layout_equal(layout, task->source[k].layout)) {
            gt__layout_release(layout);
            layout = gt__layout_retain(task->source[k].layout);
        }
        *(k < task->count ? &plan->operand[k] : &plan->result) = layout;
    }
    for (unsigned d = 0; d < mesh->rank; d++)
        if (mesh->axis[d].used && mesh->axis[d].plan.localize)
            plan->localize = localize_axes;
    if (plan->combine == GT_COMBINE_AGAIN)
        plan->run = run_again;
    return GT_OK;
}

/* ---- which mesh ---------------------------------------------------------------------------------------------- */

static bool is_creation(const gt_task *task)
{
    gt_form form = (gt_form)gt__op_table[task->ins->op].form;
    return form == GT_FORM_FULL || form == GT_FORM_ARANGE || form == GT_FORM_EYE || form == GT_FORM_RANDOM;
}

/* The largest operand on a mesh of workers of the target decides, else the target; NULL: none of them is on a mesh, or out of
 * memory. */
static gt_layout *choose_grid(const gt_task *task)
{
    const gt_source *lead = NULL;
    for (unsigned k = 0; k < task->count; k++) {
        const gt_source *source = &task->source[k];
        if (source->meta && source->layout->kind == GT_MESHED && gt__rule_within(task, source->layout) &&
            (!lead || source->meta->numel > lead->meta->numel))
            lead = source;
    }
    if (lead)
        return gt__layout_retain(lead->layout);
    if (!task->target || !task->target->mesh.rank)
        return NULL;
    gt_layout *grid = gt__layout_replicated(task->target->worker, task->target->count);
    if (grid) {
        grid->kind = GT_MESHED;
        grid->mesh = task->target->mesh;
    }
    return grid;
}

/* Numbers of a tensor that is split twice: those of the first split, of which each member then keeps its part. The elements of
 * a member are numbered in runs (op.h), which have one length. */
static gt_err run_random(gt_task *task, const gt_plan *plan, gt_handle *result)
{
    gt_maker m = gt__make_begin(task->session);
    gt_target once = *task->target;
    once.references = 0;
    gt_task first = *task;
    gt_layout *none = NULL;
    bool split = false;
    for (unsigned d = 0; d < once.mesh.rank; d++) {
        if (split)
            once.mesh.axis[d].kind = GT_REPLICATED;
        split |= plan->result->mesh.axis[d].kind == GT_SPLIT;
    }
    first.target = &once;
    gt_handle *made = &m.made[m.count++];
    *made = (gt_handle){.worker = GT_NO_WORKER, .meta = task->out};
    m.err = gt__spread_run(&first, &none, made);
    return gt__make_end(&m, gt__make_moved(&m, made, plan->result), result);
}

static bool is_split_twice(const gt_layout *layout)
{
    unsigned splits = 0;
    for (unsigned d = 0; d < layout->mesh.rank; d++)
        splits += layout->mesh.axis[d].kind == GT_SPLIT;
    return splits > 1;
}

/* New tensors and copies are where the scope says. *wish: the layout of a new tensor whose parts are to be planned. */
static gt_err plan_wish(const gt_task *task, gt_plan *plan, gt_layout **wish, bool *planned)
{
    if (!task->target->mesh.rank)
        return GT_OK;
    gt_layout *layout = gt__target_layout(task->target, task->ins->flags, &task->out);
    if (!layout)
        return GT_ERR_VALUE;
    bool meshed = layout->kind == GT_MESHED, copies = !is_creation(task);
    if (copies)
        plan->operand[0] = gt__layout_retain(layout);
    if (copies || (meshed && gt__op_table[task->ins->op].form == GT_FORM_RANDOM && is_split_twice(layout))) {
        plan->result = layout;
        plan->run = copies ? NULL : run_random;
        *planned = true;
    } else if (meshed)
        *wish = layout;
    else
        gt__layout_release(layout);
    return GT_OK;
}

gt_err gt__mesh_plan(gt_task *task, gt_plan *plan, bool *planned)
{
    bool copies = gt__op_table[task->ins->op].form == GT_FORM_COPY && !(task->ins->flags & GT_FLAG_BACKWARD);
    bool places = task->target && !task->target->automatic && (copies || is_creation(task));
    gt_layout *wish = NULL, *grid = NULL;
    if (places) {
        GT_TRY(plan_wish(task, plan, &wish, planned));
        grid = wish ? gt__layout_retain(wish) : NULL;
    } else {
        GT_TRY(gt__mesh_plan_along(task, plan, planned));
        grid = *planned ? NULL : choose_grid(task);
    }
    if (!grid)
        return GT_OK;
    *planned = true;
    plan->mesh = mesh_plan_new(task, grid);
    gt_err err = plan->mesh ? GT_OK : gt__spread_no_memory();
    for (unsigned d = 0; d < grid->mesh.rank && err == GT_OK; d++)
        err = plan_axis(task, plan, grid, wish, d);
    if (err == GT_OK)
        err = compose(task, plan, grid);
    gt__layout_release(grid);
    gt__layout_release(wish);
    return err;
}
