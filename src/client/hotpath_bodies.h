/*
 * hotpath_bodies.h: bodies of loops that come in an order which cannot be foreseen, as experts and layers that are chosen at
 * random. The detector (hotpath_detect.h) finds no period in them.
 *
 * It does follow each body, because that came before, until another one comes than last time. A record where this happened a few
 * times is an entry, and those before it are an exit: between the two a body ends and the next one begins. Bodies also end at waits,
 * and where a path was run. A body that has come GT_HOTPATH_THRESHOLD times is learned when the next one with the same first
 * record begins. Constant time for each record.
 */
#ifndef GT_CLIENT_HOTPATH_BODIES_H
#define GT_CLIENT_HOTPATH_BODIES_H

#include "client/hotpath_detect.h"

enum {
    GT_BODY_PLACES = 64,
    GT_BODY_EXIT =
        4, /* records that make an exit: statements on one line, and loops, have many records of one shape */
};

typedef struct gt_body {
    uint32_t first; /* the shape of its first record */
    uint32_t hash, length;
    uint32_t count; /* how often it came since it was learned last */
    uint32_t doubt; /* how often that was: it must come twice as often each time */
} gt_body;

/* A record's shape, and how often there was a surprise at it. */
typedef struct gt_body_shape {
    uint32_t shape, count;
} gt_body_shape;

typedef struct gt_bodies {
    gt_body now;  /* the one that has begun, without counts; its hash and length only if it has `entered` */
    bool entered; /* with an entry; otherwise it is part of a loop that goes on as expected, and is not learned */
    gt_body *wanted;  /* to be learned; NULL: none is */
    uint32_t last;    /* a hash of the shapes of the last GT_BODY_EXIT records */
    uint64_t next;    /* the position of the next record, if it follows */
    uint64_t entries; /* bits of shapes, modulo 64, of which one is or was an entry */
    gt_body_shape entry[GT_BODY_PLACES], exit[GT_BODY_PLACES]; /* by shape */
    gt_body body[GT_BODY_PLACES];                              /* by hash */
} gt_bodies;

/* gt__bodies_see where a body may begin. surprise: another record was expected, after some that were. */
uint32_t gt__bodies_between(gt_bodies *bodies, const gt_detector *detector, uint32_t shape, bool surprise);

/* Whether a record of this shape, which is no surprise and has no separator before it, is part of the present body. */
static inline bool gt__bodies_go_on(const gt_bodies *b, const gt_detector *d, uint32_t shape)
{
    return d->position == b->next && !(b->entries >> shape % 64 & 1);
}

/* Such a record, or the first of a body, before the detector sees it. */
static inline void gt__bodies_note(gt_bodies *b, const gt_detector *d, uint32_t shape)
{
    b->next = d->position + 1;
    b->last = (b->last << 32 / GT_BODY_EXIT) + shape * 0x9E3779B1u; /* older shapes move out of it */
    if (b->entered) {
        b->now.hash = (b->now.hash ^ shape) * 0x9E3779B1u;
        b->now.hash ^= b->now.hash >> 15;
        b->now.length++;
    }
}

/* A record that is not part of a path, before the detector sees it. Returns how many records to learn, of which it is the first;
 * 0: none. */
static inline uint32_t gt__bodies_see(gt_bodies *b, const gt_detector *d, gt_canonical canonical)
{
    uint32_t shape = canonical.shape, length = 0;
    bool surprise = d->matched >= d->shortest && !gt__detector_expects(d, canonical);
    if (surprise || d->separator || !gt__bodies_go_on(b, d, shape))
        length = gt__bodies_between(b, d, shape, surprise);
    gt__bodies_note(b, d, shape);
    return length;
}

#endif
