/*
 * shapes.h: the shapes of what workers compute, for the lines of the log.
 *
 * The observer follows the stream of each worker: the shape of the tensor in every slot is inferred record by record, as the
 * worker itself does it, so it is known for all records, also those that placement adds. Which part of a spread tensor a slot
 * has is said by placement (gt__shapes_announce) before the record is sent. A program uses a handful of shapes: each is kept
 * once, with its text, under a number; 0 is none.
 */
#ifndef GT_DISPATCHER_OBSERVE_SHAPES_H
#define GT_DISPATCHER_OBSERVE_SHAPES_H

#include "core/instruction.h"
#include "dispatcher/observe/log_text.h"

/* Which part of a spread tensor it is. */
typedef struct gt_shape_part {
    uint16_t member, members; /* members 0: it is not spread */
    uint8_t kind;             /* gt_layout_kind */
    uint8_t axis;             /* on a mesh: a bit for each dimension that is split */
} gt_shape_part;

typedef struct gt_shapes gt_shapes;

/* By slot of a worker: the number of its shape. */
typedef struct gt_slot_shapes {
    uint32_t *number;
    uint32_t capacity;
    uint32_t generation; /* of the numbers */
} gt_slot_shapes;

gt_shapes *gt__shapes_new(void); /* NULL: out of memory */
void gt__shapes_free(gt_shapes *shapes);
void gt__slot_shapes_free(gt_slot_shapes *slots);

/* The record that is going to be sent next with this result makes that. */
void gt__shapes_announce(gt_shapes *shapes, gt_slot_shapes *slots, uint32_t slot, const gt_meta *meta,
                         const gt_shape_part *part);
/* The slot has a tensor like that from now on, without a record of its own: a result of a path. */
void gt__shapes_note(gt_shapes *shapes, gt_slot_shapes *slots, uint32_t slot, const gt_meta *meta);
/* A record in the worker's stream: the shape of its result, or of what it sends. */
uint32_t gt__shapes_follow(gt_shapes *shapes, gt_slot_shapes *slots, const gt_slot *record);

/* Numbers are given out again in the next generation. */
uint32_t gt__shapes_generation(const gt_shapes *shapes);
/* " shape=(32,64) shard=1/4 axis=0"; NULL: not known, or of another generation. */
gt_log_text *gt__shapes_text(const gt_shapes *shapes, uint32_t number, uint32_t generation);

#endif
