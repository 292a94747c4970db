/* shapes.c: see shapes.h. */
#include "dispatcher/observe/shapes.h"

#include <stdlib.h>
#include <string.h>

#include "core/record.h"
#include "dispatcher/spread/layout.h"

enum {
    MOST_SHAPES = 4096, /* then all are forgotten: a program that has so many makes new ones all the time */
    BUCKETS = 4096,
};

#define ANNOUNCED (1u << 31) /* in gt_slot_shapes.number: what the next record makes, not what the slot has */

typedef struct known_shape {
    gt_meta meta;
    gt_shape_part part;
    uint32_t next; /* of the bucket; 0: none */
    gt_log_text *text;
} known_shape;

struct gt_shapes {
    known_shape *known; /* number minus one */
    uint32_t count, capacity, generation;
    uint32_t bucket[BUCKETS];
};

gt_shapes *gt__shapes_new(void)
{
    gt_shapes *shapes = calloc(1, sizeof *shapes);
    if (shapes)
        shapes->generation = 1;
    return shapes;
}

static void forget_all(gt_shapes *shapes)
{
    for (uint32_t k = 0; k < shapes->count; k++)
        free(shapes->known[k].text);
    memset(shapes->bucket, 0, sizeof shapes->bucket);
    shapes->count = 0;
    shapes->generation++;
}

void gt__shapes_free(gt_shapes *shapes)
{
    if (!shapes)
        return;
    forget_all(shapes);
    free(shapes->known);
    free(shapes);
}

void gt__slot_shapes_free(gt_slot_shapes *slots)
{
    free(slots->number);
    *slots = (gt_slot_shapes){0};
}

uint32_t gt__shapes_generation(const gt_shapes *shapes)
{
    return shapes->generation;
}

gt_log_text *gt__shapes_text(const gt_shapes *shapes, uint32_t number, uint32_t generation)
{
    return number && generation == shapes->generation ? shapes->known[number - 1].text : NULL;
}

/* ---- shapes by number ---------------------------------------------------------------------------------------- */

static gt_log_text *text_new(const gt_meta *meta, const gt_shape_part *part)
{
    static const char *const kinds[] = {
        [GT_REPLICATED] = " copy=", [GT_SPLIT] = " shard=", [GT_PARTIAL] = " summand=", [GT_MESHED] = " shard="};
    char text[GT_LOG_TEXT], *at = gt__log_shape(text, meta->rank, meta->shape);
    if (part->members > 1) {
        at = gt__log_number(at, kinds[part->kind], part->member + 1u);
        at = gt__log_number(at, "/", part->members);
        if (part->kind == GT_SPLIT)
            at = gt__log_number(at, " axis=", part->axis);
        unsigned before = 0;
        for (unsigned axis = 0; part->kind == GT_MESHED && axis < meta->rank; axis++)
            if (part->axis >> axis & 1)
                at = gt__log_number(at, before++ ? "," : " axes=", axis);
    }
    return gt__log_text_new(text, (size_t)(at - text));
}

static bool is_same(const known_shape *known, const gt_meta *meta, const gt_shape_part *part)
{
    return known->meta.dtype == meta->dtype && gt__meta_same_shape(&known->meta, meta) &&
           known->part.member == part->member && known->part.members == part->members &&
           known->part.kind == part->kind && known->part.axis == part->axis;
}

static uint32_t hash(const gt_meta *meta, const gt_shape_part *part)
{
    uint64_t h = (uint64_t)meta->dtype << 40 ^ (uint64_t)meta->rank << 32 ^ (uint64_t)part->member << 16 ^
                 part->members ^ (uint64_t)part->axis << 48;
    for (unsigned axis = 0; axis < meta->rank; axis++)
        h = (h ^ (uint64_t)meta->shape[axis]) * 0x9E3779B97F4A7C15u ^ h >> 29;
    return (uint32_t)(h * 0x9E3779B97F4A7C15u >> 40) % BUCKETS;
}

/* The number of a shape; 0: out of memory. */
static uint32_t number_of(gt_shapes *shapes, const gt_meta *meta, const gt_shape_part *part)
{
    uint32_t at = hash(meta, part), number = shapes->bucket[at];
    while (number && !is_same(&shapes->known[number - 1], meta, part))
        number = shapes->known[number - 1].next;
    if (number)
        return number;
    if (shapes->count == MOST_SHAPES)
        forget_all(shapes);
    if (shapes->count == shapes->capacity) {
        uint32_t capacity = shapes->capacity ? 2 * shapes->capacity : 64;
        known_shape *grown = realloc(shapes->known, capacity * sizeof *grown);
        if (!grown)
            return 0;
        shapes->known = grown;
        shapes->capacity = capacity;
    }
    gt_log_text *text = text_new(meta, part);
    if (!text)
        return 0;
    known_shape *fresh = &shapes->known[shapes->count++];
    *fresh = (known_shape){.meta = *meta, .part = *part, .next = shapes->bucket[at], .text = text};
    return shapes->bucket[at] = shapes->count;
}

/* ---- shapes by slot ------------------------------------------------------------------------------------------ */

/* Where the number of a slot is kept; NULL: out of memory. */
static uint32_t *place_of(const gt_shapes *shapes, gt_slot_shapes *slots, uint64_t slot)
{
    if (slots->generation != shapes->generation) {
        if (slots->capacity)
            memset(slots->number, 0, slots->capacity * sizeof *slots->number);
        slots->generation = shapes->generation;
    }
    if (slot >= UINT32_MAX / 2)
        return NULL;
    if (slot >= slots->capacity) {
        uint32_t capacity = slots->capacity ? slots->capacity : 1024;
        while (capacity <= slot)
            capacity *= 2;
        uint32_t *grown = realloc(slots->number, capacity * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + slots->capacity, 0, (capacity - slots->capacity) * sizeof *grown);
        slots->number = grown;
        slots->capacity = capacity;
    }
    return &slots->number[slot];
}

static uint32_t shape_in(const gt_slot_shapes *slots, uint64_t slot)
{
    return slot < slots->capacity ? slots->number[slot] & ~ANNOUNCED : 0;
}

void gt__shapes_announce(gt_shapes *shapes, gt_slot_shapes *slots, uint32_t slot, const gt_meta *meta,
                         const gt_shape_part *part)
{
    uint32_t number = number_of(shapes, meta, part), *place = place_of(shapes, slots, slot);
    if (place)
        *place = number ? number | ANNOUNCED : 0;
}

void gt__shapes_note(gt_shapes *shapes, gt_slot_shapes *slots, uint32_t slot, const gt_meta *meta)
{
    uint32_t number = number_of(shapes, meta, &(gt_shape_part){0}), *place = place_of(shapes, slots, slot);
    if (place)
        *place = number;
}

/* What a computing record makes of tensors whose shapes are known; 0: some are not. */
static uint32_t infer(gt_shapes *shapes, const gt_slot_shapes *slots, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    gt_operands operands = gt__record_operands(ins, record + 1);
    const gt_meta *meta[GT_MAX_CAT];
    for (unsigned k = 0; k < operands.count; k++) {
        meta[k] = NULL;
        if (!gt__operand_is_tensor(&operands, k))
            continue;
        uint32_t number = shape_in(slots, operands.id[k]);
        if (!number)
            return 0;
        meta[k] = &shapes->known[number - 1].meta;
    }
    gt_meta out;
    gt_dtype compute;
    return gt__op_infer(ins, record + 1, meta, &out, &compute) == GT_OK
               ? number_of(shapes, &out, &(gt_shape_part){0})
               : 0;
}

/* The same for most records: the result looks like an operand, and is the same part of its tensor. 0: use infer. */
static inline uint32_t infer_alike(const gt_shapes *shapes, const gt_slot_shapes *slots, const gt_instruction *ins)
{
    const gt_op_row *row = &gt__op_table[ins->op];
    const gt_meta *meta[2] = {NULL, NULL};
    uint32_t number[2] = {0, 0};
    if (!row->keeps || row->operands > 2)
        return 0;
    for (unsigned k = 0; k < row->operands; k++) {
        if (gt__literal(ins, k) != GT_LITERAL_NONE)
            continue;
        number[k] = shape_in(slots, ins->operand[k]);
        if (!number[k])
            return 0;
        meta[k] = &shapes->known[number[k] - 1].meta;
    }
    if (!gt__op_result_like((gt_opcode)ins->op, ins->literals, meta[0], meta[1]))
        return 0;
    bool one = !number[0] || !number[1] || number[0] == number[1];
    return one ? number[0] | number[1] : 0; /* two different parts: a part of neither */
}

uint32_t gt__shapes_follow(gt_shapes *shapes, gt_slot_shapes *slots, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    if (ins->op == GT_OP_send || ins->op == GT_OP_fetch)
        return slots->generation == shapes->generation ? shape_in(slots, ins->operand[0]) : 0;
    bool arrives = ins->op >= GT_OP_recv && ins->op <= GT_OP_all_to_all;
    if (ins->op >= GT_OP_FIRST_CONTROL && !arrives)
        return 0;
    uint32_t *place = place_of(shapes, slots, ins->result), number = 0;
    if (!place)
        return 0;
    gt_meta meta;
    if (*place & ANNOUNCED)
        number = *place & ~ANNOUNCED;
    else if (!arrives && !(number = infer_alike(shapes, slots, ins)))
        number = infer(shapes, slots, record);
    else if (arrives && gt__meta_set(&meta, (gt_dtype)ins->dtype, ins->rank, record[1].i64) == GT_OK)
        number = number_of(shapes, &meta, &(gt_shape_part){0});
    place = place_of(shapes, slots, ins->result); /* all others may have been forgotten meanwhile */
    if (place)
        *place = number;
    return number;
}
