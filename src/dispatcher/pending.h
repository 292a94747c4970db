/*
 * pending.h: the answers that a worker owes, in the order of the questions.
 *
 * Answers come in that order, but for those that wait for another worker: they come later than the answers to other sessions. So
 * questions are numbered, as the `result` of their records, and answers have the numbers of their questions. Marks, whose answers wait
 * for none, have no number.
 */
#ifndef GT_DISPATCHER_PENDING_H
#define GT_DISPATCHER_PENDING_H

#include "core/instruction.h"

typedef struct gt_session gt_session;
typedef struct gt_download gt_download;
typedef struct gt_inquiry gt_inquiry;
typedef struct gt_saved_part gt_saved_part;

typedef struct gt_pending {
    uint64_t number;       /* of the question; 0: a mark */
    gt_session *session;   /* NULL: it left meanwhile */
    uint64_t ticket;       /* the client's */
    gt_download *download; /* the answer is a part of this; NULL: it is whole */
    gt_saved_part *save;   /* the answer is for a snapshot (recover/snapshot.h); NULL: it is for the client */
    gt_opcode op;          /* the question: fetch, sync, or ours: stats (the answer is a report), mark (share.h) */
    uint64_t tensor;       /* the client's id, of a fetch */
    uint64_t bytes;        /* of the answer, so far */
    uint64_t asked_ns;     /* of a report */
    gt_inquiry *inquiry;   /* of a report that a client waits for */
    uint64_t placed_ns;    /* of a mark: see share.h */
    uint32_t charges;
    uint64_t
        departed; /* the life of the worker whose tensors came before this question (live/evacuate.h); 0: it is another question */
    uint64_t
        settles; /* the number of a question behind all that a session has sent to a worker (live/evacuate.h); 0: as above */
    uint64_t
        clears; /* the number of a question behind all that a recovery has repeated (recover/suspect.h); 0: as above */
    uint64_t record; /* of a mark: its number in the worker's stream */
} gt_pending;

typedef struct gt_pendings {
    gt_pending *ring;
    uint32_t first, count, capacity;
    uint64_t asked; /* the number of the last question */
} gt_pendings;

/* A question, which gets a number: in `record`, too. */
gt_err gt__pendings_add(gt_pendings *pendings, const gt_pending *pending, gt_instruction *record);
/* The k-th of `count`, oldest first. */
static inline gt_pending *gt__pendings_at(const gt_pendings *pendings, uint32_t k)
{
    return &pendings->ring[(pendings->first + k) % pendings->capacity];
}
/* The place of the first question with this number; UINT32_MAX: none has it. */
uint32_t gt__pendings_find(const gt_pendings *pendings, uint64_t number);
/* Remove the k-th. */
gt_pending gt__pendings_take(gt_pendings *pendings, uint32_t k);
void gt__pendings_free(gt_pendings *pendings);

#endif
