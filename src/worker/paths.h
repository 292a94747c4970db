/* paths.h: a worker's hot paths (core/path.h): each is planned for how its inputs look (path_plans.h), and run as a
 * sequence (run.h). */
#ifndef GT_WORKER_PATHS_H
#define GT_WORKER_PATHS_H

#include "core/instruction.h"

typedef struct gt_worker gt_worker;
typedef struct gt_worker_paths gt_worker_paths;

/* A `path` record: a piece of a definition, or one to forget. */
void gt__worker_define_path(gt_worker *worker, const gt_slot *record);
/* A `repeat` record. */
void gt__worker_run_path(gt_worker *worker, const gt_slot *record);
/* The plans of a `repeat` record that begins a run, for one that is put aside: its number may be another path's when it is
 * executed. NULL: there is no such path. The holder counts in `held`, and lets go. */
struct gt_path_plans *gt__worker_path_plans(gt_worker *worker, const gt_slot *record);
void gt__worker_path_let_go(gt_worker *worker, struct gt_path_plans *plans);
void gt__worker_paths_free(gt_worker *worker);
/* Free the plans that are kept for clients to come. */
void gt__worker_paths_trim(gt_worker *worker);

#endif
