/*
 * cli/replay/replay.h: shared by the files of `gt replay`. replay.c has the options and reads the tape, machine.c executes,
 * look.c inspects results.
 */
#ifndef GT_CLI_REPLAY_REPLAY_H
#define GT_CLI_REPLAY_REPLAY_H

#include "dispatcher/handles.h"
#include "core/tape.h"
#include "worker/worker.h"

/* ---- cli/replay/machine.c: one engine and the tensors of a tape's clients ---------------------------------------- */

typedef struct gt_machine_client {
    struct gt_machine_client *next;
    uint64_t session;
    gt_handles handles; /* id -> slot; the rest is not used */
    char **sites;
    uint64_t site_count;
} gt_machine_client;

typedef struct gt_machine {
    gt_worker worker;
    gt_machine_client *clients;
    uint64_t *free_slots;
    size_t free_count, free_capacity;
    uint64_t next_slot;
    gt_slot record[1 + GT_MAX_TAIL];
} gt_machine;

gt_err gt__machine_new(const char *engine, gt_machine **machine);
void gt__machine_free(gt_machine **machine);
/*
 * Execute one entry. *result: the tensor that it made or completed, or NULL; valid until the next call. An instruction that
 * fails poisons *result, as it did for the client. GT_ERR_PROTOCOL: the tape is malformed here.
 */
gt_err gt__machine_step(gt_machine *machine, const gt_tape_entry *entry, const gt_slot *slots, gt_entry **result);
/* The tensor's elements in host memory, row-major, malloc'ed. */
gt_err gt__machine_read(gt_machine *machine, const gt_entry *tensor, void **data);
/* "train.py:12", or NULL. */
const char *gt__machine_site(const gt_machine *machine, uint64_t session, uint32_t site);

/* ---- cli/replay/look.c ------------------------------------------------------------------------------------------- */

double gt__element(gt_dtype dtype, const void *data, int64_t index);
enum { GT_HAS_NAN = 1, GT_HAS_INFINITY = 2 };
/* Which of these a tensor has; *first: the first position. */
unsigned gt__look_nonfinite(const gt_meta *meta, const void *data, int64_t *first);
/* The first element in which two tensors of one shape and dtype differ by more than the tolerance (0: the dtype's
 * default); -1: they do not differ. */
int64_t gt__look_difference(const gt_meta *meta, const void *a, const void *b, double tolerance);
/* "[1, 2, 3, ...] (2,3) float32" on standard output. */
void gt__look_print(const gt_meta *meta, const void *data);
/* As NumPy's .npy; bfloat16 becomes float32. */
gt_err gt__look_save(const char *path, const gt_meta *meta, const void *data);
/* "(1,2)": the position of an element. */
char *gt__look_position(const gt_meta *meta, int64_t index, char *text, size_t size);

#endif
