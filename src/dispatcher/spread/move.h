/*
 * move.h: single instructions that move tensors between workers, for move.c and mesh_move.c. spread.h has what other files
 * use. Slots are the caller's unless a function says that they are temporaries.
 */
#ifndef GT_DISPATCHER_SPREAD_MOVE_H
#define GT_DISPATCHER_SPREAD_MOVE_H

#include "dispatcher/spread/spread.h"

/* What the last of several records makes: a member's part of a tensor. For the log. */
typedef struct gt_aim {
    const gt_layout *layout;
    unsigned member;
    const gt_meta *whole;
} gt_aim;

/* A part of a tensor, as a temporary view where it is; `made` may be NULL. */
gt_err gt__move_slice(gt_session *session, int32_t worker, uint32_t from, const gt_meta *meta,
                      const int64_t *starts, const int64_t *counts, const gt_aim *made, uint32_t *slot);
/* The same elements in another shape; a view if they are contiguous. */
gt_err gt__move_reshape(gt_session *session, int32_t worker, uint32_t from, unsigned rank, const int64_t *shape,
                        const gt_aim *made, uint32_t *slot);
/* A tensor like `meta` from one worker to another. */
gt_err gt__move_tensor(gt_session *session, int32_t from, uint32_t from_slot, int32_t to, const gt_meta *meta,
                       const gt_aim *made, uint32_t *slot);
/* A temporary. */
gt_err gt__move_cat(gt_session *session, int32_t worker, const uint32_t *slots, unsigned count, unsigned axis,
                    const gt_aim *made, uint32_t *slot);
/* One collective: to every member of `from`, whose slots are in[] (0: the member has no part); the results get new slots,
 * in out[]. It goes to all members or to none: the others would wait for a member that does not get it. */
gt_err gt__move_collective(gt_session *session, gt_opcode op, const gt_layout *from, const gt_layout *to,
                           const gt_meta *meta, const uint32_t *in, uint32_t *out);
/* The slot of a whole copy of the tensor on a worker; 0: there is none. */
uint32_t gt__move_whole_on(const gt_source *source, int32_t worker);

/* mesh_move.c: the sums of the lines along axis d of a mesh; `meta` is what each member has. out[] are the caller's. */
gt_err gt__mesh_sum(gt_session *session, const gt_layout *layout, unsigned d, const gt_meta *meta,
                    const uint32_t *in, uint32_t *out);
/* gt__spread_sum_all where the layout is meshed: along all axes on which it is partial. */
gt_err gt__mesh_sum_all(gt_session *session, const gt_layout *from, const gt_meta *meta, const uint32_t *in,
                        uint32_t *out);
/* Whether summands become parts along an axis of a mesh; `wanted` may be NULL. */
bool gt__mesh_scatters(const gt_layout *from, const gt_layout *wanted);
/* gt__spread_settle and gt__spread_arrange where one of the layouts is meshed. */
gt_err gt__mesh_settle(gt_session *session, gt_source *source, const gt_layout *wanted);
gt_err gt__mesh_arrange(gt_session *session, gt_source *source, const gt_layout *wanted, uint32_t *slots);

#endif
