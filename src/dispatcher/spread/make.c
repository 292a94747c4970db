/* make.c: steps of records that take several, and the tensors between them. See make.h. */
#include "dispatcher/spread/make.h"

#include <assert.h>
#include <string.h>

#include "core/record.h"
#include "dispatcher/worker_stream.h"

gt_maker gt__make_begin(gt_session *session)
{
    return (gt_maker){.session = session};
}

/* Not one of the client's. */
static bool is_made(const gt_maker *m, const gt_handle *handle)
{
    return handle >= m->made && handle < m->made + m->count;
}

void gt__make_drop(gt_maker *m, gt_handle *made)
{
    if (!made || !is_made(m, made))
        return;
    if (made->worker == GT_SPREAD)
        gt__spread_drop(m->session, made->slot);
    else if (made->worker != GT_NO_WORKER)
        gt__worker_free_tensor(gt__spread_worker(m->session, made->worker), made->slot);
    made->worker = GT_NO_WORKER;
}

gt_err gt__make_end(gt_maker *m, gt_handle *made, gt_handle *result)
{
    if (m->err == GT_OK) {
        result->worker = made->worker;
        result->slot = made->slot;
        made->worker = GT_NO_WORKER;
    }
    for (unsigned k = 0; k < m->count; k++)
        gt__make_drop(m, &m->made[k]);
    return m->err;
}

/* The operands are there; the layouts are the step's or chosen by the rules. */
static gt_err run_step(gt_task *task, const gt_step *step, gt_layout **operand, gt_handle *made)
{
    if (!step->at)
        return gt__spread_run(task, operand, made);
    gt_plan plan = {.operand = operand, .result = step->result, .parts = step->parts, .localize = step->localize};
    for (unsigned k = 0; k < step->count; k++)
        operand[k] = step->at[k];
    return gt__spread_run_plan(task, &plan, made);
}

gt_handle *gt__make(gt_maker *m, const gt_step *step)
{
    gt_source source[GT_MAX_CAT];
    const gt_meta *metas[GT_MAX_CAT];
    gt_layout *operand[GT_MAX_CAT] = {NULL};
    gt_dtype unused;
    for (unsigned k = 0; k < step->count && m->err == GT_OK; k++) {
        source[k] = step->operand[k] ? gt__spread_source(m->session, step->operand[k]) : (gt_source){0};
        metas[k] = source[k].meta;
        if (step->operand[k] && !source[k].layout)
            m->err = gt__spread_no_memory();
    }
    if (m->err != GT_OK)
        return NULL;
    if (m->count == GT_MAKE_MOST) {
        m->err = gt__fail(GT_ERR_INTERNAL, "a record of more than %d steps", GT_MAKE_MOST);
        return NULL;
    }
    gt_handle *made = &m->made[m->count++];
    *made = (gt_handle){.worker = GT_NO_WORKER};
    if (step->out)
        made->meta = *step->out;
    else
        m->err = gt__op_infer(&step->record->ins, step->record + 1, metas, &made->meta, &unused);
    if (m->err != GT_OK)
        return NULL;
    /* A failure is reported with the scope and the site of the record being placed. */
    gt_slot record[1 + GT_MAX_CAT / 8];
    assert(step->record->ins.tail < sizeof record / sizeof record[0]);
    memcpy(record, step->record, (1u + step->record->ins.tail) * sizeof *record);
    record->ins.scope = m->session->spreading->scope;
    record->ins.site = m->session->spreading->site;
    gt_task task = {.session = m->session,
                    .record = record,
                    .ins = &record->ins,
                    .out = made->meta,
                    .count = step->count,
                    .source = source};
    m->err = run_step(&task, step, operand, made);
    gt__spread_free_temporaries(m->session);
    return m->err == GT_OK ? made : NULL;
}

/* ---- single steps -------------------------------------------------------------------------------------------- */

/* An instruction without a tail. */
static gt_handle *simple(gt_maker *m, gt_instruction ins, unsigned count, gt_handle *const *operand)
{
    gt_slot record = {.ins = ins};
    return gt__make(m, &(gt_step){.record = &record, .count = count, .operand = operand});
}

gt_handle *gt__make_unary(gt_maker *m, gt_opcode op, gt_handle *a)
{
    return simple(m, (gt_instruction){.op = (uint16_t)op}, 1, &a);
}

gt_handle *gt__make_binary(gt_maker *m, gt_opcode op, gt_handle *a, gt_handle *b)
{
    return simple(m, (gt_instruction){.op = (uint16_t)op}, 2, (gt_handle *[]){a, b});
}

gt_handle *gt__make_reduced(gt_maker *m, gt_opcode op, gt_handle *a, unsigned axis)
{
    gt_instruction ins = {.op = (uint16_t)op, .flags = GT_FLAG_KEEPDIM};
    ins.imm[0].u = (uint64_t)1 << axis;
    return simple(m, ins, 1, &a);
}

gt_handle *gt__make_cast(gt_maker *m, gt_handle *a, gt_dtype dtype)
{
    if (m->err != GT_OK || a->meta.dtype == dtype)
        return a;
    return simple(m, (gt_instruction){.op = GT_OP_cast, .dtype = (uint8_t)dtype}, 1, &a);
}

gt_handle *gt__make_reshaped(gt_maker *m, gt_handle *a, const gt_meta *like)
{
    if (m->err != GT_OK || gt__meta_same_shape(&a->meta, like))
        return a;
    gt_slot record[2] = {{.ins = {.op = GT_OP_reshape, .tail = 1, .rank = like->rank}}};
    memcpy(record[1].i64, like->shape, like->rank * sizeof like->shape[0]);
    return gt__make(m, &(gt_step){.record = record, .count = 1, .operand = &a});
}

gt_handle *gt__make_here(gt_maker *m, gt_instruction ins, gt_handle *const *operand, gt_layout *const *at,
                         gt_layout *result, const gt_meta *out)
{
    gt_slot record = {.ins = ins};
    return gt__make(m, &(gt_step){.record = &record,
                                  .count = gt__op_operands((gt_opcode)ins.op),
                                  .operand = operand,
                                  .at = at,
                                  .result = result,
                                  .out = out});
}

gt_handle *gt__make_moved(gt_maker *m, gt_handle *a, gt_layout *layout)
{
    if (m->err != GT_OK)
        return NULL;
    gt_source source = gt__spread_source(m->session, a);
    if (source.layout && gt__layout_equal(source.layout, layout))
        return a;
    if (source.layout && is_made(m, a) && gt__spread_can_turn(source.layout, layout)) {
        m->err = gt__spread_turn(m->session, &source, layout);
        gt__spread_free_temporaries(m->session);
        return m->err == GT_OK ? a : NULL;
    }
    return gt__make_here(m, (gt_instruction){.op = GT_OP_copy}, &a, &layout, layout, &a->meta);
}

gt_handle *gt__make_operand(gt_maker *m, const gt_task *task, const gt_plan *plan, unsigned k)
{
    return gt__make_moved(m, task->source[k].handle, plan->operand[k]);
}

/* ---- shapes and layouts -------------------------------------------------------------------------------------- */

gt_meta gt__make_meta(const gt_meta *like, unsigned axis, int64_t size, gt_dtype dtype)
{
    gt_meta meta = *like;
    meta.dtype = (uint8_t)dtype;
    meta.shape[axis] = size;
    meta.numel = 1;
    for (unsigned d = 0; d < meta.rank; d++)
        meta.numel *= meta.shape[d];
    return meta;
}

static gt_layout *checked(gt_maker *m, gt_layout *layout)
{
    if (!layout && m->err == GT_OK)
        m->err = gt__spread_no_memory();
    return layout;
}

gt_layout *gt__make_whole(gt_maker *m, const gt_layout *like)
{
    return checked(m, gt__layout_like(like, GT_REPLICATED, 0));
}

gt_layout *gt__make_ones(gt_maker *m, const gt_layout *like)
{
    gt_layout *ones = checked(m, gt__layout_like(like, GT_SPLIT, like->axis));
    for (unsigned k = 0; ones && k < ones->count; k++) {
        ones->member[k].start = k;
        ones->member[k].count = 1;
    }
    return ones;
}
