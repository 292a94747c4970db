/*
 * path_plans.h: what a worker planned and compiled for hot paths, by their structure, for its life.
 *
 * Clients that define the same path, one after the other or at a time, use the same plans. The plans of a path that all clients
 * have forgotten are kept for the next one that defines it, up to a number of paths, and until memory runs out.
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
    unsigned users;            /* paths of clients; 0: it is kept for the next one */
    gt_path_variant *variants; /* NULL until it runs */
    unsigned count;
    unsigned last, oldest; /* the one that ran last; the one to be replaced next, if there is no room */
    bool moves; /* inputs that share memory do not always lie in it in the same way: plans do not rely on it */
} gt_path_plans;

/* Those without users: the one that was used last comes first. */
typedef struct gt_path_cache {
    gt_path_plans *first;
} gt_path_cache;

/* The plans of this path, which it takes: other ones of the same structure, or new ones. NULL: out of memory. */
gt_path_plans *gt__path_plans_take(gt_worker *worker, gt_path_cache *cache, gt_path *path);
/* The user leaves. */
void gt__path_plans_leave(gt_worker *worker, gt_path_cache *cache, gt_path_plans *plans);
/* Keep a sequence for inputs with this key, which it takes; the oldest goes if there is no room. False: there is no
 * memory. */
bool gt__path_plans_add(gt_worker *worker, gt_path_plans *plans, gt_sequence *sequence, uint64_t key);
/* Free the plans that have no users, except for the `kept` that were used last. */
void gt__path_plans_trim(gt_worker *worker, gt_path_cache *cache, unsigned kept);

#endif
