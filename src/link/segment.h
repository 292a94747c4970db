/*
 * segment.h: shared memory for bulk data, used in place by both ends of a memory link.
 *
 * The client creates segments (memfd), copies an array in and names the segment in an upload, or names one as the
 * target of a fetch; the worker uses that memory directly. When the worker is done with an upload it clears `busy`
 * and the client may use the segment again: recycled pages are several times faster than fresh ones. Inside one
 * process (the embedded server) both ends find the same mapping.
 */
#ifndef GT_LINK_SEGMENT_H
#define GT_LINK_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

typedef struct gt_segment {
    uint64_t id;   /* unique in its creator; on a link, in that link's peer */
    uint8_t *data; /* NULL until mapped */
    size_t bytes;  /* usable bytes at data */
    int fd;        /* -1: closed; an adopted segment needs none once it is mapped. Or lost: see adopt */
    bool adopted;
    _Atomic uint32_t *busy;     /* in the shared mapping: 1 while the other end uses the data */
    int references;             /* to this struct; guarded by segment.c */
    struct gt_mapping *mapping; /* this process's one mapping of the memory; NULL until mapped */
} gt_segment;

/* Create and map a segment of at least `bytes` usable bytes. */
gt_err gt__segment_new(size_t bytes, gt_segment **segment);
/* Adopt a descriptor received from a peer (takes fd); not mapped yet. Checks the size and seals. -1: the descriptor got
 * lost on the way, because this process or one before it has as many as it may; mapping fails and says so. */
gt_err gt__segment_adopt(uint64_t id, int fd, gt_segment **segment);
/* Map it, or find this process's mapping of the same memory. Idempotent. An adopted segment's descriptor is closed:
 * only its creator, and who passes it on without looking at it, needs one. */
gt_err gt__segment_map(gt_segment *segment);
/* Copy bytes out of a segment that is mapped or not, and stays so; false: they could not be read. */
bool gt__segment_read(const gt_segment *segment, size_t offset, void *to, size_t bytes);
/*
 * The data goes with the busy word, whoever wrote it last: give it (busy) or be done with it (idle) after writing or
 * reading, look at the word before the other end touches it. The records that go back and forth order this too, but
 * not in the eyes of those who see only the segment.
 */
void gt__segment_give(gt_segment *segment);
bool gt__segment_busy(const gt_segment *segment);
/* Of a segment that is mapped or not. */
void gt__segment_done(gt_segment *segment);
gt_segment *gt__segment_retain(gt_segment *segment);
void gt__segment_release(gt_segment *segment);

/* Segments take descriptors: allow this process as many as it may have. */
void gt__descriptors_raise(void);

#endif
