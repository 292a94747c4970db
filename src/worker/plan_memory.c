/*
 * plan_memory.c: where the buffers of a planned sequence lie. See engines/plan.h; read run.c next.
 *
 * An item is a stretch of bytes that is needed from one group to another. A buffer that is computed over another one that dies
 * there shares its item. Outputs come first: each has a memory of its own, that of an input which dies before if one of its size
 * is left. Inner items follow, the largest first: at the lowest offset where nothing else lies at that time, in one of those
 * memories while it is not in use, or else in the one block that all other inner items share.
 */
#include <stdlib.h>

#include "core/record.h"
#include "worker/plan.h"
#include "worker/store.h"

enum { LINE = 64 };

#define NO_ITEM UINT32_MAX
#define FOREVER UINT32_MAX

typedef struct item {
    size_t bytes, offset;
    uint32_t first, last; /* groups */
    uint32_t memory;
    uint32_t next; /* in its memory, by offset */
    bool output;
} item;

typedef struct placing {
    gt_plan *plan;
    item *items;
    uint32_t item_count;
    uint32_t *item_of; /* by buffer */
    uint32_t *head;    /* by memory: its first item */
    uint32_t *order;   /* items that are placed one by one */
    size_t *bytes;     /* by buffer: what a donor has */
} placing;

static size_t line_aligned(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* ---- over a buffer that dies ---------------------------------------------------------------------------------- */

static bool is_elementwise(const gt_plan_step *step)
{
    gt_form form = (gt_form)gt__op_table[step->op].form;
    return form == GT_FORM_UNARY || form == GT_FORM_BINARY || form == GT_FORM_TERNARY;
}

/* The step updates operand 0, which no other operand reads. */
static bool is_update(const gt_plan *plan, const gt_plan_step *step)
{
    gt_form form = (gt_form)gt__op_table[step->op].form;
    if ((form != GT_FORM_ASSIGN && form != GT_FORM_SCATTER) || !gt__record_consumed(&step->record->ins) ||
        step->operand[0] == GT_PLAN_LITERAL)
        return false;
    for (unsigned k = 1; k < step->operands; k++)
        if (step->operand[k] != GT_PLAN_LITERAL &&
            plan->values[step->operand[k]].buffer == plan->values[step->operand[0]].buffer)
            return false;
    return true;
}

static bool is_whole(const gt_plan_value *value)
{
    return value->offset == 0 && value->view.contiguous;
}

/* Two contiguous tensors at the beginning of one buffer have their elements in the same places. */
static bool same_places(const gt_plan_value *a, const gt_plan_value *b)
{
    const gt_meta *x = &a->view.meta, *y = &b->view.meta;
    return is_whole(a) && is_whole(b) && x->numel == y->numel &&
           gt__dtype_size((gt_dtype)x->dtype) == gt__dtype_size((gt_dtype)y->dtype);
}

/* A step reads a buffer, if at all, element by element in the order in which `result` is made. */
static bool reads_in_order(const gt_plan *plan, const gt_plan_step *step, uint32_t buffer,
                           const gt_plan_value *result)
{
    int64_t numel = plan->values[step->result].view.meta.numel;
    for (unsigned k = 0; k < step->operands; k++) {
        const gt_plan_value *value = step->operand[k] == GT_PLAN_LITERAL ? NULL : &plan->values[step->operand[k]];
        if (value && value->buffer == buffer &&
            !(is_elementwise(step) && same_places(value, result) && result->view.meta.numel == numel))
            return false;
    }
    return true;
}

/* Step `number` may write its result over a buffer whose last use is there, or before it in its group. */
static bool may_replace(const gt_plan *plan, uint32_t number, uint32_t buffer)
{
    const gt_plan_step *step = &plan->steps[number];
    const gt_plan_value *result = &plan->values[step->result];
    if (plan->buffers[buffer].last_use > number || plan->buffers[buffer].read_elsewhere)
        return false;
    if (is_update(plan, step) && plan->values[step->operand[0]].buffer == buffer)
        return same_places(&plan->values[step->operand[0]], result) && step->group == number;
    for (uint32_t k = step->group; k <= number; k++)
        if (plan->steps[k].kind != GT_STEP_VIEW && !reads_in_order(plan, &plan->steps[k], buffer, result))
            return false;
    return is_elementwise(step);
}

/* ---- items ---------------------------------------------------------------------------------------------------- */

static uint32_t group_of(const gt_plan *plan, uint32_t step)
{
    return step == GT_PLAN_LIVES ? FOREVER : plan->steps[step].group;
}

static uint32_t item_add(placing *p, item new)
{
    new.next = NO_ITEM;
    p->items[p->item_count] = new;
    return p->item_count++;
}

/* The item of an inner operand of the step that dies there, and over which the result may be written. */
static uint32_t replaced_item(const placing *p, uint32_t number)
{
    const gt_plan *plan = p->plan;
    const gt_plan_step *step = &plan->steps[number];
    for (unsigned k = 0; k < step->operands; k++) {
        if (step->operand[k] == GT_PLAN_LITERAL)
            continue;
        const gt_plan_value *value = &plan->values[step->operand[k]];
        const gt_plan_buffer *buffer = &plan->buffers[value->buffer];
        uint32_t old = p->item_of[value->buffer];
        if (buffer->role == GT_PLAN_INNER && old != NO_ITEM && p->items[old].last == step->group &&
            group_of(plan, buffer->last_use) == step->group && may_replace(plan, number, value->buffer))
            return old;
    }
    return NO_ITEM;
}

/* One for each buffer that is made, or for several of which each is made over the one before. */
static void make_items(placing *p)
{
    gt_plan *plan = p->plan;
    for (uint32_t k = 0; k < plan->step_count; k++) {
        uint32_t made = plan->values[plan->steps[k].result].buffer;
        const gt_plan_buffer *buffer = &plan->buffers[made];
        if (plan->steps[k].kind != GT_STEP_RUN || buffer->role == GT_PLAN_NONE)
            continue;
        uint32_t number = replaced_item(p, k);
        if (number == NO_ITEM)
            number = item_add(p, (item){.bytes = buffer->bytes, .first = plan->steps[k].group});
        p->items[number].last = group_of(plan, buffer->last_use);
        p->items[number].output = buffer->role == GT_PLAN_OUTPUT;
        p->item_of[made] = number;
    }
}

/* ---- places --------------------------------------------------------------------------------------------------- */

/* The lowest offset in a memory at which the item can lie. *before: the item after which it would come in the list. */
static size_t find_offset(const placing *p, uint32_t memory, const item *new, uint32_t *before)
{
    size_t offset = 0;
    *before = NO_ITEM;
    for (uint32_t k = p->head[memory]; k != NO_ITEM; k = p->items[k].next) {
        const item *placed = &p->items[k];
        bool together = placed->first <= new->last &&new->first <= placed->last;
        if (together && offset + new->bytes <= placed->offset)
            break;
        if (together && placed->offset + placed->bytes > offset)
            offset = line_aligned(placed->offset + placed->bytes);
    }
    for (uint32_t k = p->head[memory]; k != NO_ITEM && p->items[k].offset <= offset; k = p->items[k].next)
        *before = k;
    return offset;
}

static void place_at(placing *p, uint32_t number, uint32_t memory, size_t offset, uint32_t before)
{
    item *new = &p->items[number];
    uint32_t *link = before == NO_ITEM ? &p->head[memory] : &p->items[before].next;
    new->memory = memory;
    new->offset = offset;
    new->next = *link;
    *link = number;
}

static uint32_t memory_add(placing *p, size_t bytes, uint32_t donor)
{
    gt_plan *plan = p->plan;
    p->head[plan->memory_count] = NO_ITEM;
    plan->memories[plan->memory_count] = (gt_plan_memory){.bytes = bytes, .donor = donor};
    return plan->memory_count++;
}

/* Bytes from the beginning of an input's memory on that the input surely covers. */
static size_t covered(const gt_plan_value *value)
{
    size_t last = 0, size = gt__dtype_size((gt_dtype)value->view.meta.dtype);
    if (value->offset != 0 || !value->view.meta.numel)
        return 0;
    for (unsigned axis = 0; axis < value->view.meta.rank; axis++) {
        if (value->view.stride[axis] < 0)
            return 0;
        last += (size_t)(value->view.stride[axis] * (value->view.meta.shape[axis] - 1));
    }
    return (last + 1) * size;
}

/* Buffers whose inputs all die give their memory when they have been used. */
static void add_donors(placing *p)
{
    gt_plan *plan = p->plan;
    size_t *bytes = p->bytes;
    for (uint32_t k = 0; k < plan->input_count; k++) {
        const gt_plan_value *value = &plan->values[plan->inputs[k]];
        size_t more = covered(value);
        bytes[value->buffer] = more > bytes[value->buffer] ? more : bytes[value->buffer];
    }
    for (uint32_t k = 0; k < plan->buffer_count; k++) {
        const gt_plan_buffer *buffer = &plan->buffers[k];
        if (buffer->role != GT_PLAN_INPUT || buffer->last_use == GT_PLAN_LIVES || !bytes[k])
            continue;
        item used = {.bytes = bytes[k], .last = group_of(plan, buffer->last_use)};
        uint32_t number = item_add(p, used);
        place_at(p, number, memory_add(p, bytes[k], k), 0, NO_ITEM);
    }
}

/* An output takes the memory of the donor of its size that was used last: earlier ones serve earlier outputs. */
static void place_output(placing *p, uint32_t number, uint32_t step)
{
    gt_plan *plan = p->plan;
    const item *new = &p->items[number];
    uint32_t best = plan->memory_count, best_use = 0;
    for (uint32_t m = 0; m < plan->memory_count; m++) {
        uint32_t donor = plan->memories[m].donor;
        const item *used = &p->items[p->head[m]];
        if (donor == GT_PLAN_NO_DONOR || used->next != NO_ITEM || new->bytes > used->bytes ||
            gt__store_class(new->bytes) != gt__store_class(used->bytes))
            continue;
        bool before = used->last < new->first;
        bool there =
            used->last == new->first && plan->steps[step].group == new->first &&may_replace(plan, step, donor);
        if ((before || there) && (best == plan->memory_count || used->last >= best_use)) {
            best = m;
            best_use = used->last;
        }
    }
    if (best == plan->memory_count)
        memory_add(p, new->bytes, GT_PLAN_NO_DONOR);
    place_at(p, number, best, 0, p->head[best]);
}

static void place_outputs(placing *p)
{
    gt_plan *plan = p->plan;
    for (uint32_t k = 0; k < plan->step_count; k++) {
        uint32_t number = p->item_of[plan->values[plan->steps[k].result].buffer];
        bool makes = plan->steps[k].kind == GT_STEP_RUN && number != NO_ITEM;
        if (makes && p->items[number].output && p->items[number].first == plan->steps[k].group &&
            p->items[number].memory == GT_PLAN_NO_MEMORY)
            place_output(p, number, k);
    }
}

/* The smallest memory of an input or output in which it has a place, or the block. */
static void place_inner(placing *p, uint32_t number, uint32_t block)
{
    gt_plan *plan = p->plan;
    const item *new = &p->items[number];
    uint32_t best = block, before;
    for (uint32_t m = 0; m < block; m++) {
        size_t bytes = plan->memories[m].bytes;
        if (bytes >= new->bytes && (best == block || bytes < plan->memories[best].bytes) &&
            find_offset(p, m, new, &before) + new->bytes <= bytes)
            best = m;
    }
    size_t offset = find_offset(p, best, new, &before);
    if (best == block && offset + new->bytes > plan->memories[block].bytes)
        plan->memories[block].bytes = offset + new->bytes;
    place_at(p, number, best, offset, before);
}

/* Order by size, the largest first; of one size, that which is made last. */
static void sort_by_size(const placing *p, uint32_t *order, uint32_t count)
{
    for (uint32_t gap = count / 2; gap > 0; gap /= 2)
        for (uint32_t k = gap; k < count; k++) {
            uint32_t moved = order[k], at = k;
            for (; at >= gap; at -= gap) {
                const item *a = &p->items[order[at - gap]], *b = &p->items[moved];
                if (a->bytes > b->bytes || (a->bytes == b->bytes && order[at - gap] > moved))
                    break;
                order[at] = order[at - gap];
            }
            order[at] = moved;
        }
}

static void place_items(placing *p)
{
    gt_plan *plan = p->plan;
    uint32_t made = p->item_count, count = 0;
    for (uint32_t k = 0; k < made; k++)
        p->items[k].memory = GT_PLAN_NO_MEMORY;
    add_donors(p);
    place_outputs(p);
    for (uint32_t k = 0; k < made; k++)
        if (!p->items[k].output)
            p->order[count++] = k;
    sort_by_size(p, p->order, count);
    uint32_t block = memory_add(p, 0, GT_PLAN_NO_DONOR);
    for (uint32_t k = 0; k < count; k++)
        place_inner(p, p->order[k], block);
    for (uint32_t k = 0; k < plan->buffer_count; k++)
        if (p->item_of[k] != NO_ITEM) {
            plan->buffers[k].memory = p->items[p->item_of[k]].memory;
            plan->buffers[k].offset = p->items[p->item_of[k]].offset;
        }
}

/* Leave out memories that hold nothing. */
static void drop_unused(placing *p)
{
    gt_plan *plan = p->plan;
    uint32_t *renumbered = p->order, count = 0;
    for (uint32_t m = 0; m < plan->memory_count; m++)
        renumbered[m] = GT_PLAN_NO_MEMORY;
    for (uint32_t k = 0; k < plan->buffer_count; k++)
        if (p->item_of[k] != NO_ITEM)
            renumbered[plan->buffers[k].memory] = 0;
    for (uint32_t m = 0; m < plan->memory_count; m++)
        if (renumbered[m] == 0) {
            plan->memories[count] = plan->memories[m];
            renumbered[m] = count++;
        }
    plan->memory_count = count;
    for (uint32_t k = 0; k < plan->buffer_count; k++)
        if (p->item_of[k] != NO_ITEM)
            plan->buffers[k].memory = renumbered[plan->buffers[k].memory];
}

gt_err gt__plan_place(gt_plan *plan)
{
    size_t most = (size_t)plan->buffer_count + 2; /* items, and memories: a buffer each, and the block */
    placing p = {.plan = plan};
    p.items = calloc(most, sizeof *p.items);
    p.item_of = malloc(most * sizeof *p.item_of);
    p.head = calloc(most, sizeof *p.head);
    p.order = calloc(most, sizeof *p.order);
    p.bytes = calloc(most, sizeof *p.bytes);
    plan->memories = calloc(most, sizeof *plan->memories);
    bool all = p.items && p.item_of && p.head && p.order && p.bytes && plan->memories;
    if (all) {
        for (uint32_t k = 0; k < plan->buffer_count; k++)
            p.item_of[k] = NO_ITEM;
        make_items(&p);
        place_items(&p);
        drop_unused(&p);
    }
    free(p.items);
    free(p.item_of);
    free(p.head);
    free(p.order);
    free(p.bytes);
    return all ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
}
