/*
 * path_plans.h: what a worker planned and compiled for hot paths, by their structure, for its life.
 *
 * The plans of a path that its client has forgotten are kept for the next one that defines the same, up to a number of paths, and
 * until an engine that has memory of its own runs out of it. Clients never share plans at a time: none can disturb what another one
 * runs.
 */
#ifndef GT_WORKER_PATH_PLANS_H
#define GT_WORKER_PATH_PLANS_H

#include "core/path.h"
#include "worker/run.h"

/* The path, planned for certain shapes and strides of the inputs. */
typedef struct gt_path_variant {
    gt_sequence *sequence;
    uint64_t key; /* of these shapes and strides */
} gt_path_variant;

typedef struct gt_path_plans {
    struct gt_path_plans *next;
    gt_path *path;
    uint64_t structure;        /* a hash of it */
    bool used;                 /* by a client's path; else it is kept for the next one */
    unsigned held;             /* by runs that are put aside (peers/deferred.h), */
    bool left;                 /* which are the last: its path was forgotten */
    gt_path_variant *variants; /* NULL until it runs */
    unsigned count;
    unsigned last, oldest; /* the one that ran last; the one to be replaced next, if there is no room */
    bool moves; /* inputs that share memory do not always lie in it in the same way: plans do not rely on it */
} gt_path_plans;

/* All of them; of those that are not used, the one that was used last comes first. */
typedef struct gt_path_cache {
    gt_path_plans *first;
} gt_path_cache;

/* The plans of this path, which it takes: kept ones of the same structure, or new ones. NULL: out of memory. */
gt_path_plans *gt__path_plans_take(gt_path_cache *cache, gt_path *path);
/* They are not used any more. */
void gt__path_plans_leave(gt_worker *worker, gt_path_cache *cache, gt_path_plans *plans);
/* Keep a sequence for inputs with this key, which it takes; the oldest goes if there is no room. False: there is no
 * memory. */
bool gt__path_plans_add(gt_worker *worker, gt_path_plans *plans, gt_sequence *sequence, uint64_t key);
/* Free the plans that are not used, except for the `kept` that were used last. */
void gt__path_plans_trim(gt_worker *worker, gt_path_cache *cache, unsigned kept);

#endif
