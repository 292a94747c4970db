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
    int fd;        /* -1: closed (an adopted segment is mapped), or lost (see adopt) */
    bool adopted;
    _Atomic uint32_t
        *busy;      /* in the shared mapping: busy[0] is 1 while the other end uses the data, busy[1] while a party
                                 * between them may need it again (gt__segment_hold) */
    int references; /* to this struct; guarded by segment.c */
    struct gt_mapping *mapping; /* this process's one mapping of the memory; NULL until mapped */
} gt_segment;

/* Create and map a segment of at least `bytes` usable bytes. */
gt_err gt__segment_new(size_t bytes, gt_segment **segment);
/* Adopt a descriptor received from a peer (takes fd); not mapped yet. Checks the size and seals. -1: the descriptor was
 * lost in transit, because this process or one before it is at its limit of open files; mapping then fails and says so. */
gt_err gt__segment_adopt(uint64_t id, int fd, gt_segment **segment);
/* Map it, or find this process's mapping of the same memory. Idempotent. An adopted segment's descriptor is closed:
 * only the creator and a party that passes the segment on unmapped need it. */
gt_err gt__segment_map(gt_segment *segment);
/* Copy bytes out of a segment, mapped or not, without mapping it; false: they could not be read. */
bool gt__segment_read(const gt_segment *segment, size_t offset, void *to, size_t bytes);
/*
 * The busy word orders access to the data: set it with give after writing, clear it with done after reading, and check it
 * before touching the data. Records order the accesses as well, but only for the parties that see the records.
 */
void gt__segment_give(gt_segment *segment);
/* Also while it is held. */
bool gt__segment_busy(const gt_segment *segment);
/* The data must stay, or need not any more, whether the other end uses it or not. Set before the other end may be done. The
 * segment need not be mapped. */
void gt__segment_hold(gt_segment *segment, bool held);
/* The segment need not be mapped. */
void gt__segment_done(gt_segment *segment);
gt_segment *gt__segment_retain(gt_segment *segment);
void gt__segment_release(gt_segment *segment);

/* Close a descriptor that a peer sent and that is not what it should be. Closing may block for as long as the peer likes (a
 * socket that lingers, a file of a file system of its own), so a thread does it. */
void gt__descriptor_discard(int fd);
/* Several, one after the other. */
void gt__descriptors_discard(const int *fds, int count);

/* A connection was refused because this process has no descriptor for it: say so, now and then. From any thread. */
void gt__descriptors_exhausted(void);

/* Segments take descriptors: raise this process's limit as far as it may. */
void gt__descriptors_raise(void);

#endif
