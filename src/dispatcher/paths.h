/*
 * paths.h: a session's hot paths (core/path.h): their definitions, and their runs.
 *
 * A run goes to the worker as one record if all its inputs are on the home worker, no observer wants to see
 * every instruction, and the modifiers agree. Otherwise it is expanded into the records that it stands for.
 */
#ifndef GT_DISPATCHER_PATHS_H
#define GT_DISPATCHER_PATHS_H

#include <stdio.h>

#include "core/path.h"

typedef struct gt_session gt_session;
typedef struct gt_dispatch_worker gt_dispatch_worker;
typedef struct gt_paths gt_paths;

enum { GT_WORKER_PATHS = 1024 /* that one worker has at a time; their numbers there are below this */ };

/* A client's `path` record. */
gt_err gt__paths_define(gt_session *session, const gt_slot *record);
/* A client's `repeat` record, before the modifiers. */
gt_err gt__paths_run(gt_session *session, const gt_slot *run);
/* The same, behind them: there is room for GT_PATH_ROOM slots in the link of the home worker. */
gt_err gt__paths_place(gt_session *session, const gt_slot *run);
void gt__paths_free(gt_session *session);
/* The session is back at the end of this epoch: forget the paths that were defined later. */
void gt__paths_rollback(gt_session *session, uint64_t epoch);

/* A worker's `path` record: how it runs one. */
void gt__paths_news(const gt_dispatch_worker *worker, const gt_slot *record);
/* What is known of the session's paths, as a JSON object: by number, "seconds" to compile, and "groups" by instruction. */
void gt__paths_stats(const gt_session *session, FILE *json);
/* The session's paths with their ops, as a JSON array: for inspect.c. */
void gt__paths_inspect(const gt_session *session, FILE *json);

/* A number for a path on the worker that no other has; GT_WORKER_PATHS: there is none. */
uint32_t gt__worker_path_number(const gt_dispatch_worker *worker);
/* Send the definition of a path, and that it is gone. False: out of memory. */
bool gt__worker_tell_path(gt_dispatch_worker *worker, uint32_t number, const gt_slot *definition, size_t slots);
void gt__worker_forget_path(gt_dispatch_worker *worker, uint32_t number);

/* Whether the results of a run are within the limits of the session. If not, its records are placed one by one, so that
 * those that pass a limit are refused. The run's inputs are there. */
bool gt__paths_within_limits(const gt_session *session, const gt_path *path, const gt_slot *run, uint64_t tensors,
                             uint64_t bytes);

/* The number of the session's path that the worker has under this number, as a whole or in parts; -1: there is none. */
int32_t gt__paths_on(const gt_session *session, const gt_dispatch_worker *worker, uint32_t number);
/* The number of the session's only path that begins at this site; -1: there is none, or several do. */
int32_t gt__paths_from(const gt_session *session, uint32_t site);
/* The path of a run; NULL: it is not defined. */
const gt_path *gt__paths_find(const gt_session *session, const gt_slot *run);
/* Where the place of a path in the program is kept (observe/path_place.h), as long as the path is defined; NULL: it is not. */
struct gt_path_place **gt__paths_shown(const gt_session *session, uint32_t number);

#endif
