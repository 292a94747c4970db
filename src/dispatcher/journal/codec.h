/* codec.h: tensors of snapshots as frames of the journal, and back. The bytes of a journal are checked like those of a stranger: a
 * malformed one is refused, and never read out of bounds. */
#ifndef GT_DISPATCHER_JOURNAL_CODEC_H
#define GT_DISPATCHER_JOURNAL_CODEC_H

#include "dispatcher/journal/frame.h"
#include "dispatcher/recover/snapshot.h"

/* What follows in a frame. */
typedef struct gt_frame_cursor {
    const uint8_t *at;
    size_t left;
} gt_frame_cursor;

/* The next `count` times `size` bytes and their padding; NULL: there are not so many. */
const void *gt__frame_take(gt_frame_cursor *cursor, uint64_t count, size_t size);

/* Bytes of a TENSOR frame, and the frame itself, without its data. */
size_t gt__saved_frame_bytes(const gt_saved *saved);
void gt__saved_encode(const gt_saved *saved, uint64_t number, void *to);
/* The tensor, whose parts have no data yet. NULL: the frame is malformed, or out of memory. */
gt_saved *gt__saved_decode(gt_frame_cursor cursor, uint64_t *number);

#endif
