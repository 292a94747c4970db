/*
 * log_run.h: runs of hot paths in a compact log (log_code.h): one entry for all their lines, which the reader makes again.
 *
 *     path     length of its code, the code; how many places it has, of each the number of a text, plus one (0: none)
 *     code     slots of the definition (core/path.h); of each slot a mask of the words that are not 0, and these words. In the
 *              records the word of scope and site has the number of the record's place, counted from 1 (0: none)
 *     run      time since the event before; number of the source's text, plus one; number of the path in this block;
 *              id of the first local, as a difference to that of the path's last run in the block; how many words, and each
 *              as a difference to the same word of that run. Ids to be freed: to the first local
 */
#ifndef GT_DISPATCHER_OBSERVE_LOG_RUN_H
#define GT_DISPATCHER_OBSERVE_LOG_RUN_H

#include "core/path.h"
#include "dispatcher/observe/log_bytes.h"

enum {
    GT_LOG_PATH_CODE =
        1 << 16,        /* the most bytes of a code that is written; longer paths are logged record by record */
    GT_LOG_PLACES = 64, /* of a path that is written so */
    GT_LOG_PATHS = 256, /* of a block */
};

/* A path as it is written. */
typedef struct gt_log_path {
    uint64_t serial; /* of the path; 0: unused */
    uint64_t block;  /* the last one that has it, under this number */
    uint32_t number;
    uint64_t
        seen; /* the last block in which it was run. Its first run there is written record by record: many blocks have one */
    uint8_t *code; /* NULL: it is too long */
    size_t bytes;
    uint32_t records, frees; /* its lines, and how many ids it frees */
    uint32_t places;
    struct {
        uint32_t scope, site;
    } place[GT_LOG_PLACES];
    uint64_t first, *word; /* of the last run: the id of the first local, and words */
} gt_log_path;

/* Make it that of this path. False: out of memory. */
bool gt__log_path_make(gt_log_path *known, const gt_path *path);
void gt__log_path_drop(gt_log_path *known);
/* The lines of a run. */
uint32_t gt__log_run_lines(const gt_log_path *known, const gt_path *path, const gt_slot *run);
/* The first local and the words of a run; `known` is in this block. */
uint8_t *gt__log_run_put(gt_log_path *known, const gt_path *path, const gt_slot *run, uint8_t *at);

/* A path that was read. */
typedef struct gt_log_path_read {
    gt_path *path;
    uint32_t places;
    uint32_t *place; /* numbers of texts, plus one; 0: none */
    uint64_t first, *word;
} gt_log_path_read;

/* GT_ERR_PROTOCOL: it cannot be a path. */
gt_err gt__log_path_get(gt_log_input *in, gt_log_path_read *read);
void gt__log_path_read_drop(gt_log_path_read *read);
/* Read a run into `run`, which has room for GT_PATH_ROOM slots. GT_ERR_PROTOCOL: its words do not fit the path. */
gt_err gt__log_run_get(gt_log_input *in, gt_log_path_read *read, gt_slot *run);

#endif
