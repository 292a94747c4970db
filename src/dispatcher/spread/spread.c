/* spread.c: a session's spread tensors, and one record on them from plan to instructions. See spread.h. */
#include "dispatcher/spread/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/record.h"
#include "core/settings.h"
#include "dispatcher/answers.h"
#include "dispatcher/download.h"
#include "dispatcher/spread/moving.h"
#include "dispatcher/worker_stream.h"

/* ---- the table --------------------------------------------------------------------------------------------- */

gt_layout *gt__spread_alone(gt_session *session, int32_t worker)
{
    gt_spreading *s = session->spreading;
    if (worker >= s->alone_capacity) {
        int32_t capacity = session->dispatcher->worker_count;
        gt_layout **alone = realloc(s->alone, (size_t)capacity * sizeof(*alone));
        if (!alone)
            return NULL;
        memset(alone + s->alone_capacity, 0, (size_t)(capacity - s->alone_capacity) * sizeof(*alone));
        s->alone = alone;
        s->alone_capacity = capacity;
    }
    if (!s->alone[worker])
        s->alone[worker] = gt__layout_replicated(&worker, 1);
    return s->alone[worker];
}

gt_source gt__spread_source(gt_session *session, gt_handle *handle)
{
    gt_source source = {.handle = handle, .meta = &handle->meta};
    if (handle->worker == GT_SPREAD) {
        source.spread = session->spreading->table[handle->slot];
        source.layout = source.spread->layout;
    } else
        source.layout = gt__spread_alone(session, handle->worker);
    return source;
}

/* Frees the parts and copies of a spread tensor, with the temporaries or, if there is no memory for that, at once. */
static void spread_free(gt_session *session, gt_spread *spread)
{
    gt__sums_leave(session, spread);
    for (unsigned k = 0; k < spread->layout->count; k++)
        gt__spread_temporary(session, spread->layout->member[k].worker, spread->slot[k]);
    while (spread->copies) {
        gt_whole_copy *copy = spread->copies;
        gt__spread_temporary(session, copy->worker, copy->slot);
        spread->copies = copy->next;
        free(copy);
    }
    gt__layout_release(spread->layout);
    free(spread);
}

gt_err gt__spread_make_room(gt_session *session, uint32_t count)
{
    gt_spreading *s = session->spreading;
    if (s->free_count + (s->capacity - s->count) >= count)
        return GT_OK;
    uint32_t capacity = 2 * s->capacity > s->capacity + count ? 2 * s->capacity : s->capacity + count;
    capacity = capacity > 64 ? capacity : 64;
    gt_spread **table = realloc(s->table, capacity * sizeof(*table));
    if (!table)
        return gt__spread_no_memory();
    s->table = table;
    uint32_t *numbers = realloc(s->free_numbers, capacity * sizeof *numbers);
    if (!numbers)
        return gt__spread_no_memory();
    s->free_numbers = numbers;
    s->capacity = capacity;
    return GT_OK;
}

gt_err gt__spread_set(gt_session *session, gt_handle *handle, gt_layout *layout, const uint32_t *slots)
{
    gt_spreading *s = session->spreading;
    bool alone = layout->kind == GT_REPLICATED && layout->count == 1;
    gt_spread *old = handle->worker == GT_SPREAD ? s->table[handle->slot] : NULL;
    if (alone && !old && handle->worker == GT_NO_WORKER) {
        handle->worker = layout->member[0].worker;
        handle->slot = slots[0];
        gt__layout_release(layout);
        return GT_OK;
    }
    gt_spread *spread = malloc(sizeof *spread + layout->count * sizeof spread->slot[0]);
    gt_err err = spread ? GT_OK : gt__spread_no_memory();
    if (err == GT_OK && !old)
        err = gt__spread_make_room(session, 1);
    if (err != GT_OK) {
        gt__layout_release(layout);
        free(spread);
        return err;
    }
    *spread = (gt_spread){.layout = layout};
    memcpy(spread->slot, slots, layout->count * sizeof slots[0]);
    if (!old) {
        gt__spread_put(session, handle, spread);
        return GT_OK;
    }
    s->table[handle->slot] = spread;
    spread_free(session, old);
    return GT_OK;
}

void gt__spread_put(gt_session *session, gt_handle *handle, gt_spread *spread)
{
    gt_spreading *s = session->spreading;
    uint32_t number = s->free_count ? s->free_numbers[--s->free_count] : s->count++;
    s->table[number] = spread;
    handle->worker = GT_SPREAD;
    handle->slot = number;
}

gt_spread *gt__spread_take(gt_session *session, uint32_t number)
{
    gt_spreading *s = session->spreading;
    gt_spread *spread = s->table[number];
    s->table[number] = NULL;
    s->free_numbers[s->free_count++] = number;
    return spread;
}

void gt__spread_drop(gt_session *session, uint32_t number)
{
    spread_free(session, gt__spread_take(session, number));
    gt__spread_free_temporaries(session);
}

gt_err gt__spreading_new(gt_session *session)
{
    if (session->spreading)
        return GT_OK;
    session->plain_scope = 0;
    session->spreading = calloc(1, sizeof *session->spreading);
    if (!session->spreading)
        return gt__spread_no_memory();
    if (gt__setting(GT_SETTING_SUM_AHEAD) == 0)
        session->spreading->sums.when = GT_SUMS_ALONE;
    return GT_OK;
}

void gt__spread_turn_over(gt_session *session)
{
    const gt_spreading *s = session->spreading;
    for (int32_t worker = 0; worker < s->reached_capacity; worker++)
        if (s->reached[worker] && gt__spread_worker(session, worker)->peer)
            gt__worker_flush_frees(gt__spread_worker(session, worker));
}

void gt__spreading_free(gt_session *session)
{
    gt_spreading *s = session->spreading;
    if (!s)
        return;
    gt__share_gather(session);
    uint32_t cursor = 0;
    gt_handle *handle;
    while ((handle = gt__handles_next(&session->handles, &cursor)))
        if (handle->worker == GT_SPREAD)
            gt__spread_drop(session, handle->slot);
        else if (handle->worker != GT_NO_WORKER && handle->worker != (session->home ? session->home->index : -1))
            gt__worker_free_tensor(gt__spread_worker(session, handle->worker), handle->slot);
    for (int32_t worker = 0; worker < session->dispatcher->worker_count; worker++)
        if (gt__spread_worker(session, worker)->peer)
            gt__worker_flush_frees(gt__spread_worker(session, worker));
    for (int32_t worker = 0; worker < s->alone_capacity; worker++)
        gt__layout_release(s->alone[worker]);
    while (s->unplaced) {
        gt_unplaced *next = s->unplaced->next;
        free(s->unplaced);
        s->unplaced = next;
    }
    gt__target_release(s->target);
    free(s->table);
    free(s->free_numbers);
    free(s->reached);
    free(s->alone);
    free(s->temporaries);
    gt__sums_free(&s->sums);
    free(s);
    session->spreading = NULL;
}

bool gt__spread_has_room(const gt_session *session)
{
    const gt_spreading *s = session->spreading;
    for (int32_t worker = 0; worker < s->reached_capacity; worker++)
        if (s->reached[worker] && !gt__slot_queue_empty(&session->dispatcher->workers[worker]->backlog.outbox))
            return false;
    return true;
}

/* The layout lost a member, and whole copies are left: they are the tensor now. False: out of memory. */
static bool become_copies(gt_session *session, gt_handle *handle, gt_spread *spread)
{
    unsigned count = 0;
    for (const gt_whole_copy *copy = spread->copies; copy; copy = copy->next)
        count++;
    int32_t *workers = malloc(count * sizeof *workers);
    uint32_t *slots = malloc(count * sizeof *slots);
    gt_layout *layout = NULL;
    if (workers && slots) {
        count = 0;
        for (const gt_whole_copy *copy = spread->copies; copy; copy = copy->next, count++) {
            workers[count] = copy->worker;
            slots[count] = copy->slot;
        }
        layout = gt__layout_replicated(workers, count);
    }
    gt_whole_copy *copies = spread->copies;
    spread->copies = NULL; /* gt__spread_set frees what the tensor was */
    bool kept = layout && gt__spread_set(session, handle, layout, slots) == GT_OK;
    if (!kept)
        spread->copies = copies;
    while (kept && copies) {
        gt_whole_copy *next = copies->next;
        free(copies);
        copies = next;
    }
    free(workers);
    free(slots);
    return kept;
}

bool gt__spread_lose(gt_session *session, gt_handle *handle, int32_t worker)
{
    gt_spread *spread = session->spreading->table[handle->slot];
    for (gt_whole_copy **where = &spread->copies; *where;)
        if ((*where)->worker == worker) {
            gt_whole_copy *lost = *where;
            *where = lost->next;
            free(lost);
        } else
            where = &(*where)->next;
    int member = gt__layout_find(spread->layout, worker);
    if (member < 0)
        return false;
    gt_layout *left = NULL;
    if (spread->layout->kind == GT_REPLICATED && spread->layout->count > 1)
        left = gt__layout_new(GT_REPLICATED, 0, spread->layout->count - 1u);
    if (!left && spread->copies && become_copies(session, handle, spread)) {
        gt__spread_free_temporaries(session);
        return false;
    }
    if (!left) {
        gt__spread_drop(session, handle->slot);
        return true;
    }
    for (unsigned k = 0, to = 0; k < spread->layout->count; k++)
        if (k != (unsigned)member) {
            left->member[to] = spread->layout->member[k];
            spread->slot[to++] = spread->slot[k];
        }
    gt__layout_release(spread->layout);
    spread->layout = left;
    return false;
}

char *gt__spread_text(gt_session *session, const gt_handle *handle, char *text, size_t size)
{
    if (handle->worker == GT_NO_WORKER)
        snprintf(text, size, "lost");
    else if (handle->worker != GT_SPREAD)
        snprintf(text, size, "single(worker=%d)", handle->worker);
    else
        gt__layout_text(session->spreading->table[handle->slot]->layout, text, size);
    return text;
}

/* ---- one record -------------------------------------------------------------------------------------------- */

/* A copy of the record for one member in its worker's stream: operands in slots[operand][member]. */
static gt_err emit_member(const gt_task *task, const gt_plan *plan, unsigned member, const uint32_t *slots,
                          uint32_t *result)
{
    const gt_instruction *ins = task->ins;
    unsigned length = 1u + ins->tail, members = plan->result->count;
    int32_t index = plan->result->member[member].worker;
    gt_dispatch_worker *worker = gt__spread_worker(task->session, index);
    gt_slot *out;
    GT_TRY(gt__spread_reserve(task->session, index, length, &out));
    GT_TRY(gt__spread_slot(task->session, index, result));
    out[0] = task->record[0];
    if (length > 1)
        memcpy(out + 1, task->record + 1, (length - 1) * sizeof *out);
    out->ins.flags &= (uint8_t) ~(GT_FLAG_CONSUMES | GT_FLAG_BACKWARD | GT_FLAG_INNER);
    uint64_t *ids = gt__record_operands(&out->ins, out + 1).id;
    for (unsigned k = 0; k < task->count; k++)
        if (task->source[k].meta)
            ids[k] = plan->operand[k] ? slots[k * members + member] : 0;
    if (plan->combine == GT_COMBINE_AGAIN)
        out->ins.flags |= GT_FLAG_KEEPDIM;
    if (plan->combine == GT_COMBINE_VARYING)
        out->ins.imm[1].f = 0; /* the correction is applied once, to the whole: reduce.c */
    if (plan->localize)
        plan->localize(task, plan, member, out);
    out->ins.result = *result;
    if (worker->observed && plan->combine == GT_COMBINE_NOTHING)
        gt__observe_part(worker, *result, plan->result, member, &task->out);
    gt__moving_note_copy(task, index, *result);
    gt__worker_put(worker, 1u + out->ins.tail);
    worker->instructions++;
    const gt_meta *metas[GT_MAX_CAT];
    for (unsigned k = 0; k < task->count; k++)
        metas[k] = task->source[k].meta;
    double ns = gt__share_estimate(ins, metas, task->count, &task->out) / gt__layout_parts(plan->result);
    if (ns > 0)
        gt__share_charge(task->session, worker, gt__share_work(ins->op), ns, members);
    return GT_OK;
}

/* All but the first member add to zeros; on a mesh: all but the first of each line. */
static gt_err zero_others(const gt_task *task, const gt_plan *plan, uint32_t *slots)
{
    gt_meta meta;
    gt__layout_part(plan->operand[0], 0, task->source[0].meta, &meta);
    for (unsigned k = 0; k < plan->result->count; k++) {
        int32_t worker = plan->result->member[k].worker;
        gt_slot *out;
        if (plan->mesh ? gt__mesh_is_first(plan, k) : k == 0)
            continue;
        GT_TRY(gt__spread_slot(task->session, worker, &slots[k]));
        GT_TRY(gt__spread_temporary(task->session, worker, slots[k]));
        GT_TRY(gt__spread_reserve(task->session, worker, 2, &out));
        out[0].ins = (gt_instruction){.op = GT_OP_full,
                                      .tail = 1,
                                      .dtype = meta.dtype,
                                      .rank = meta.rank,
                                      .result = slots[k],
                                      .scope = task->ins->scope,
                                      .site = task->ins->site};
        out[1] = (gt_slot){0};
        memcpy(out[1].i64, meta.shape, meta.rank * sizeof meta.shape[0]);
        gt__worker_put(gt__spread_worker(task->session, worker), 2);
    }
    return GT_OK;
}

/* Bring one operand where the plan wants it: a slot for each member of the result, 0 for those that the layout leaves out. */
static gt_err arrange_operand(gt_task *task, const gt_plan *plan, unsigned k, uint32_t *slots)
{
    const gt_layout *result = plan->result;
    gt_layout *wanted = plan->operand[k];
    uint32_t some[GT_MAX_PARTIES];
    /* The same tensor twice: arranging it as the first operand may have changed it. */
    if (task->source[k].handle->worker == GT_SPREAD)
        task->source[k] = gt__spread_source(task->session, task->source[k].handle);
    if (gt__layout_same_workers(wanted, result))
        return gt__spread_arrange(task->session, &task->source[k], wanted, slots);
    GT_TRY(gt__spread_arrange(task->session, &task->source[k], wanted, some));
    memset(slots, 0, result->count * sizeof *slots);
    for (unsigned j = 0; j < wanted->count; j++)
        slots[gt__layout_find(result, wanted->member[j].worker)] = some[j];
    return GT_OK;
}

/* Bring the operands where the plan wants them: slots[operand][member]. */
static gt_err arrange_operands(gt_task *task, const gt_plan *plan, uint32_t *slots)
{
    unsigned members = plan->result->count;
    for (unsigned k = 0; k < task->count; k++) {
        if (task->source[k].meta && plan->operand[k])
            GT_TRY(arrange_operand(task, plan, k, slots + k * members));
        if (k == 0 && plan->only_first)
            GT_TRY(zero_others(task, plan, slots));
    }
    return GT_OK;
}

gt_err gt__spread_run_plan(gt_task *task, const gt_plan *plan, gt_handle *result)
{
    uint32_t few[4 * GT_MAX_PARTIES], out[GT_MAX_PARTIES];
    unsigned members = plan->result->count;
    size_t needed = (size_t)task->count * members;
    uint32_t *slots = needed <= sizeof few / sizeof few[0] ? few : malloc(needed * sizeof *slots);
    gt_err err = slots ? arrange_operands(task, plan, slots) : gt__spread_no_memory();
    unsigned emitted = 0;
    bool copies = task->ins->op == GT_OP_copy && !plan->localize; /* what was made for it is the copy */
    while (emitted < members && err == GT_OK) {
        out[emitted] = slots[emitted];
        if (!copies || !gt__spread_keep(task->session, plan->result->member[emitted].worker, slots[emitted]))
            err = emit_member(task, plan, emitted, slots, &out[emitted]);
        emitted += err == GT_OK;
    }
    if (err == GT_OK && plan->combine != GT_COMBINE_NOTHING) {
        err = gt__spread_combine(task, plan, slots, out);
        emitted = err == GT_OK ? members : 0; /* on failure they are gt__spread_combine's */
    }
    if (slots != few)
        free(slots);
    if (err == GT_OK)
        err = gt__spread_set(task->session, result, gt__layout_retain(plan->result), out);
    for (unsigned k = 0; k < emitted && err != GT_OK; k++)
        gt__worker_free_tensor(gt__spread_worker(task->session, plan->result->member[k].worker), out[k]);
    return err;
}

static void plan_release(const gt_task *task, gt_plan *plan)
{
    for (unsigned k = 0; k < task->count; k++)
        gt__layout_release(plan->operand[k]);
    gt__layout_release(plan->result);
    gt__mesh_plan_free(plan->mesh);
}

/* Fill the task's operands. *lost: why one of them is lost (gt__session_reason); -1: all are there. */
static gt_err find_sources(gt_task *task, const gt_meta **metas, int64_t *lost)
{
    gt_operands operands = gt__record_operands(task->ins, task->record + 1);
    *lost = -1;
    for (unsigned k = 0; k < task->count; k++) {
        gt_source *source = &task->source[k];
        uint64_t id = operands.id[k];
        *source = (gt_source){0};
        metas[k] = NULL;
        if (!gt__operand_is_tensor(&operands, k))
            continue;
        gt_handle *handle = gt__handles_find(&task->session->handles, id);
        if (!handle || id == task->ins->result)
            return gt__session_unknown(task->ins, id);
        metas[k] = &handle->meta;
        if (handle->worker == GT_NO_WORKER)
            *lost = handle->slot;
        else
            *source = gt__spread_source(task->session, handle);
        if (handle->worker != GT_NO_WORKER && !source->layout)
            return gt__spread_no_memory();
    }
    return GT_OK;
}

/* Take the entry of an upload under way off the list; the caller frees it. NULL: it is complete, or is not to be placed. */
static gt_unplaced *take_unplaced(gt_spreading *s, uint64_t id)
{
    gt_unplaced **where = &s->unplaced;
    while (*where && (*where)->id != id)
        where = &(*where)->next;
    gt_unplaced *found = *where;
    if (found)
        *where = found->next;
    return found;
}

/* Drop a tensor; its slots are freed with the next records. False: there is no such tensor. */
static bool drop_tensor(gt_session *session, uint64_t id)
{
    int32_t worker;
    uint32_t slot;
    if (!gt__handles_remove(&session->handles, id, &worker, &slot))
        return false;
    if (session->spreading->unplaced)
        free(take_unplaced(session->spreading, id));
    if (worker == GT_SPREAD)
        gt__spread_drop(session, slot);
    else if (worker != GT_NO_WORKER)
        gt__worker_free_tensor(gt__spread_worker(session, worker), slot);
    return true;
}

gt_err gt__spread_free(gt_session *session, const gt_slot *record)
{
    const uint64_t *ids = gt__free_ids(&record->ins);
    for (unsigned k = 0; k < GT_FREE_IDS; k++)
        if (ids[k] && !drop_tensor(session, ids[k]) && !session->left_out)
            return gt__session_unknown(&record->ins, ids[k]);
    return GT_OK;
}

gt_err gt__spread_run(gt_task *task, gt_layout **operand, gt_handle *result)
{
    gt_plan plan = {.operand = operand};
    gt_err err = gt__spread_plan(task, &plan);
    if (err == GT_OK)
        err = plan.run ? plan.run(task, &plan, result) : gt__spread_run_plan(task, &plan, result);
    plan_release(task, &plan);
    return err;
}

static gt_err compute(gt_task *task, gt_handle *result)
{
    gt_layout *layouts[GT_MAX_OPERANDS] = {NULL}, **operand = layouts;
    if (task->count > GT_MAX_OPERANDS && !(operand = calloc(task->count, sizeof(*operand))))
        return gt__spread_no_memory();
    gt_err err = gt__spread_run(task, operand, result);
    if (operand != layouts)
        free(operand);
    return err;
}

/* ---- uploads ----------------------------------------------------------------------------------------------- */

/* An upload has arrived at the home worker: bring it where its scope wants it. */
static gt_err place_upload(gt_session *session, gt_handle *handle, gt_target *target, uint8_t flags)
{
    gt_layout *layout = gt__target_layout(target, flags, &handle->meta);
    if (!layout)
        return GT_ERR_VALUE;
    gt_err err = gt__spread_place(session, handle, layout);
    gt__layout_release(layout);
    return err;
}

gt_err gt__spread_place(gt_session *session, gt_handle *handle, gt_layout *layout)
{
    gt_source source = gt__spread_source(session, handle);
    if (!source.layout || gt__layout_equal(source.layout, layout))
        return source.layout ? GT_OK : gt__spread_no_memory();
    gt_instruction copy = {.op = GT_OP_copy, .result = handle->id, .operand = {handle->id}};
    gt_slot record = {.ins = copy};
    gt_task task = {.session = session, .record = &record, .ins = &record.ins, .out = handle->meta, .count = 1};
    task.source = &source;
    gt_plan plan = {.operand = (gt_layout *[]){layout}, .result = layout};
    gt_handle placed = {.id = handle->id, .worker = GT_NO_WORKER, .meta = handle->meta};
    GT_TRY(gt__spread_run_plan(&task, &plan, &placed));
    if (handle->worker == GT_SPREAD) /* copies of it were made while it was placed */
        gt__spread_drop(session, handle->slot);
    else
        GT_TRY(gt__spread_temporary(session, handle->worker, handle->slot));
    handle->worker = placed.worker;
    handle->slot = placed.slot;
    return GT_OK;
}

/* Whether to place this tensor as the target says: an automatic target must pay. */
static bool wants_placed(const gt_target *target, const gt_meta *meta)
{
    return target && (!target->automatic || gt__meta_bytes(meta) >= GT_AUTOMATIC_BYTES);
}

static gt_err upload(gt_session *session, const gt_slot *record, gt_target *target, gt_handle *handle)
{
    const gt_instruction *ins = &record->ins;
    unsigned length = 1u + ins->tail;
    int32_t home = session->home->index;
    uint64_t segment = ins->imm[1].u;
    gt_slot *out;
    uint32_t slot;
    if (segment && !gt__relay_name(session, &segment)) {
        gt__relay_unused(session, ins->imm[1].u);
        return GT_OK;
    }
    GT_TRY(gt__spread_slot(session, home, &slot));
    GT_TRY(gt__spread_reserve(session, home, length, &out));
    memcpy(out, record, length * sizeof *out);
    out->ins.result = slot;
    out->ins.imm[1].u = segment;
    gt__worker_put(session->home, length);
    session->home->instructions++;
    handle->worker = home;
    handle->slot = slot;
    if (!wants_placed(target, &handle->meta))
        return GT_OK;
    if (segment || gt__meta_bytes(&handle->meta) <= GT_MAX_CHUNK)
        return place_upload(session, handle, target, ins->flags);
    gt_unplaced *unplaced = malloc(sizeof *unplaced);
    if (!unplaced)
        return gt__spread_no_memory();
    *unplaced = (gt_unplaced){.next = session->spreading->unplaced, .id = handle->id, .scope = ins->scope};
    unplaced->flags = ins->flags;
    session->spreading->unplaced = unplaced;
    return GT_OK;
}

gt_err gt__spread_data(gt_session *session, gt_handle *handle, const gt_instruction *ins)
{
    if (!session->spreading->unplaced || ins->imm[0].u + ins->imm[1].u < gt__meta_bytes(&handle->meta))
        return GT_OK;
    gt_unplaced *unplaced = take_unplaced(session->spreading, handle->id);
    if (!unplaced)
        return GT_OK;
    const gt_instruction asked = {.scope = unplaced->scope, .flags = unplaced->flags};
    gt_target *target;
    free(unplaced);
    gt_err err = gt__spread_target(session, &asked, &target);
    if (err == GT_OK && wants_placed(target, &handle->meta))
        err = place_upload(session, handle, target, asked.flags);
    gt__spread_free_temporaries(session);
    return err == GT_ERR_VALUE ? GT_OK : err; /* it stays where it is */
}

/* ------------------------------------------------------------------------------------------------------------- */

static gt_err compute_record(gt_session *session, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    gt_source few[GT_MAX_OPERANDS], *sources = few;
    const gt_meta *metas_few[GT_MAX_OPERANDS], **metas = metas_few;
    gt_task task = {
        .session = session, .record = record, .ins = ins, .count = gt__record_operands(ins, record + 1).count};
    gt_handle *result;
    gt_dtype unused;
    int64_t lost;
    GT_TRY(gt__handles_insert(&session->handles, ins->result,
                              &result)); /* first: a table that grows moves the others */
    *result = (gt_handle){.id = ins->result, .worker = GT_NO_WORKER, .scope = ins->scope, .site = ins->site};
    if (task.count > GT_MAX_OPERANDS) {
        sources = malloc(task.count * sizeof *sources);
        metas = malloc(task.count * sizeof(*metas));
    }
    task.source = sources;
    gt_err err = sources && metas ? find_sources(&task, metas, &lost) : gt__spread_no_memory();
    if (err == GT_OK)
        err = gt__op_infer(ins, record + 1, metas, &result->meta, &unused);
    if (err == GT_OK && ins->flags & GT_FLAG_REFUSED && lost < 0)
        lost = ins->site;
    task.out = result->meta;
    bool refused = false;
    if (err == GT_OK && session->quota && lost < 0)
        err = gt__quota_charge(session, record, result, &refused);
    if (err == GT_OK && refused)
        err = gt__quota_refuse(session, record, result);
    else if (err == GT_OK && lost >= 0)
        result->slot = (uint32_t)lost;
    else if (err == GT_OK && session->home) {
        err = gt__spread_target(session, ins, &task.target);
        if (err == GT_OK)
            err = ins->op == GT_OP_upload ? upload(session, record, task.target, result) : compute(&task, result);
        if (err == GT_OK)
            err = gt__sums_after(session, record, result);
        if (err == GT_ERR_VALUE &&
            result->worker != GT_SPREAD) { /* the target is impossible: the tensor is lost, with that reason */
            if (result->worker != GT_NO_WORKER)
                gt__worker_free_tensor(gt__spread_worker(session, result->worker), result->slot);
            result->worker = GT_NO_WORKER;
            result->slot = gt__session_reason(session, gt_error_text());
            err = GT_OK;
        }
    } else if (err == GT_OK && ins->op == GT_OP_upload && ins->imm[1].u)
        gt__relay_unused(session, ins->imm[1].u);
    if (sources != few)
        free(sources);
    if (metas != metas_few)
        free(metas);
    return err;
}

gt_err gt__spread_compute(gt_session *session, const gt_slot *record)
{
    session->spreading->scope = record->ins.scope;
    session->spreading->site = record->ins.site;
    gt_err err = session->home ? gt__sums_before(session, record) : GT_OK;
    if (err == GT_OK && !gt__quota_misses(session, record))
        err = compute_record(session, record);
    gt__spread_free_temporaries(session);
    if (err == GT_OK && gt__record_consumed(&record->ins))
        drop_tensor(session, gt__record_consumed(&record->ins));
    return err;
}

/* ---- reading ----------------------------------------------------------------------------------------------- */

gt_err gt__spread_fetch(gt_session *session, gt_handle *handle, const gt_slot *record)
{
    gt_dispatch_worker *home = session->home;
    uint32_t slot;
    GT_TRY(gt__sums_need(session, handle));
    gt_source source = gt__spread_source(session, handle);
    gt_layout *alone = gt__spread_alone(session, home->index);
    if (!source.layout || !alone)
        return gt__spread_no_memory();
    GT_TRY(gt__spread_arrange(session, &source, alone, &slot));
    gt_handle whole = {.id = handle->id, .worker = home->index, .slot = slot, .meta = handle->meta};
    uint64_t segment = record->ins.imm[0].u;
    gt_err err = GT_OK;
    if (!segment && gt__meta_bytes(&whole.meta) > GT_DOWNLOAD_PART)
        err = gt__download_start(session, &whole, record->ins.result);
    else if (segment && !gt__relay_name(session, &segment))
        gt__answer_failure(session, record->ins.result, GT_ERR_CONNECTION, GT_HOME_LOST);
    else {
        gt_slot *out;
        err = gt__spread_reserve(session, home->index, 1, &out);
        if (err == GT_OK) {
            *out = *record;
            err = gt__session_expect(session, record, &out->ins);
        }
        if (err == GT_OK) {
            out->ins.operand[0] = slot;
            out->ins.imm[0].u = segment;
            gt__worker_put(home, 1);
        }
    }
    gt__spread_free_temporaries(session);
    gt__spread_turn_over(session);
    return err;
}

/* Every other worker sends the home worker a token when it gets here; the home worker answers after the last. */
gt_err gt__spread_sync(gt_session *session, const gt_slot *record)
{
    gt_spreading *s = session->spreading;
    gt_dispatch_worker *home = session->home;
    gt_slot *out;
    gt_layout *alone = gt__spread_alone(session, home->index);
    if (!alone)
        return gt__spread_no_memory();
    for (int32_t worker = 0; worker < s->reached_capacity; worker++) {
        if (!s->reached[worker] || worker == home->index || !gt__spread_worker(session, worker)->peer)
            continue;
        gt_handle token = {.worker = worker, .meta = {.numel = 1, .dtype = GT_BOOL}};
        uint32_t here;
        GT_TRY(gt__spread_slot(session, worker, &token.slot));
        GT_TRY(gt__spread_reserve(session, worker, 2, &out));
        out[0].ins = (gt_instruction){.op = GT_OP_full, .tail = 1, .dtype = GT_BOOL, .result = token.slot};
        out[1] = (gt_slot){0};
        gt__worker_put(gt__spread_worker(session, worker), 2);
        gt_source source = gt__spread_source(session, &token);
        if (!source.layout)
            return gt__spread_no_memory();
        s->syncs = true;
        gt_err err = gt__spread_arrange(session, &source, alone, &here);
        s->syncs = false;
        GT_TRY(err);
        gt__spread_drop(session, token.slot); /* it has a copy now, so it is a spread tensor */
    }
    GT_TRY(gt__spread_reserve(session, home->index, 1, &out));
    *out = *record;
    GT_TRY(gt__session_expect(session, record, &out->ins));
    gt__worker_put(home, 1);
    gt__spread_turn_over(session);
    return GT_OK;
}
