/*
 * sums.h: gradients whose summands are added up ahead of time, many at once.
 *
 * In a data-parallel program each worker has a summand of each gradient, and an optimizer needs their sum. A sum that is
 * started when the optimizer asks for it cannot overlap with the backward pass, and a sum for each of many small
 * gradients is a message for each. So gradients wait here, in the order in which they were made, and are added up
 *
 *     ahead    while the backward pass goes on: a large one at once, small ones when a megabyte waits, or the pass ends
 *     joined   small ones in a bucket: laid end to end, added up by one collective, and cut into views again
 *
 * An element is the sum of the same summands in the same order, joined or not: the bits are the same.
 *
 * A tensor that another gradient is computed from leaves the list: it is not a result of the pass. Sums ahead of time can be a
 * waste, so a session learns from its program. If gradients of several passes are accumulated, they are added up once, when the
 * accumulated gradient is needed. If gradients are needed in parts (a reduce-scatter), nothing waits here. What is learned
 * depends on the stream alone, so a program has the same results in each run.
 *
 * Place in the flow: spread.c tells of each record and its result. move.c has the collectives.
 */
#ifndef GT_DISPATCHER_SPREAD_SUMS_H
#define GT_DISPATCHER_SPREAD_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/instruction.h"

typedef struct gt_session gt_session;
typedef struct gt_handle gt_handle;
typedef struct gt_spread gt_spread;
typedef struct gt_path gt_path;

typedef enum gt_sums_when {
    GT_SUMS_UNKNOWN, /* until the first gradient is needed */
    GT_SUMS_AHEAD,
    GT_SUMS_WHEN_NEEDED, /* with all others that wait */
    GT_SUMS_ALONE        /* each when it is needed, and nothing waits */
} gt_sums_when;

typedef struct gt_sums {
    gt_sums_when when;
    uint64_t *ids; /* of tensors that wait, or waited: gt_spread.waits tells */
    size_t count, capacity;
    size_t waiting, large; /* tensors that wait, and how many of them are added up alone */
    size_t bytes;          /* of the others, on each worker */
    bool accumulates;      /* gradients of several passes are added */
    bool passes_on;        /* the result of the record at hand waits instead of its operands */
} gt_sums;

/* Before a record is planned: some of what waits may be added up now. */
gt_err gt__sums_before(gt_session *session, const gt_slot *record);
/* It was computed, to this tensor. */
gt_err gt__sums_after(gt_session *session, const gt_slot *record, const gt_handle *result);
/* The program reads this tensor: if it waits, it is added up with all others. */
gt_err gt__sums_need(gt_session *session, const gt_handle *handle);
/* The tensor is freed: it waits no more. */
void gt__sums_leave(gt_session *session, gt_spread *spread);
/* It is added up because it is needed, whole or in parts. */
void gt__sums_settled(gt_session *session, gt_spread *spread, bool in_parts);
/* Parts of this tensor are needed, and it is whole. */
void gt__sums_parted(gt_session *session, const gt_spread *spread);
/* Before a run of a path is placed. */
gt_err gt__sums_before_run(gt_session *session, const gt_path *path, const gt_slot *run);
/* A run is recorded: of all tensors, its inputs may wait. At its end, sums ahead of time are a part of it. */
gt_err gt__sums_record(gt_session *session, const gt_path *path, const gt_slot *run);
gt_err gt__sums_recorded(gt_session *session);
/* A run was placed: its results may wait. */
gt_err gt__sums_after_run(gt_session *session, const gt_path *path, const gt_slot *run);
void gt__sums_free(gt_sums *sums);

#endif
