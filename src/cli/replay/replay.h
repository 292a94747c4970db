/*
 * cli/replay/replay.h: shared by the files of `gt replay`. replay.c has the options and reads the tape, machine.c executes,
 * steps.c numbers the steps of loops, look.c inspects results, nonfinite.c finds out where a NaN came from.
 */
#ifndef GT_CLI_REPLAY_REPLAY_H
#define GT_CLI_REPLAY_REPLAY_H

#include "dispatcher/handles.h"
#include "core/tape.h"
#include "worker/worker.h"

/* ---- cli/replay/steps.c: which step of the program's loop a record belongs to ------------------------------------- */

typedef struct gt_steps gt_steps;

/* Reads the tape, as far as it is intact. */
gt_err gt__steps_new(const char *path, gt_steps **steps);
void gt__steps_free(gt_steps **steps);
/* From 1; 0: none is certain. `site`: of the record. */
uint32_t gt__steps_at(const gt_steps *steps, const gt_tape_entry *entry, uint32_t site);

/* ---- cli/replay/machine.c: one engine and the tensors of a tape's clients ---------------------------------------- */

typedef struct gt_machine_client {
    struct gt_machine_client *next;
    uint64_t session;
    bool left;
    gt_handles handles; /* id -> slot; the rest is not used */
    char **sites;
    uint64_t site_count;
    uint32_t mark; /* gt_moment */
    char (*scopes)[GT_MAX_NAME + 1];
    uint64_t scope_count;
    char (*names)[GT_MAX_NAME + 1]; /* of tensors */
    uint32_t name_count;
} gt_machine_client;

typedef struct gt_machine {
    gt_worker worker;
    const gt_steps *steps; /* of the tape, borrowed; NULL: not known */
    gt_machine_client *clients;
    uint64_t *free_slots;
    size_t free_count, free_capacity;
    uint64_t next_slot;
    uint32_t *slot_names; /* by slot: of its client's names, see machine.c */
    uint64_t slot_name_count;
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
/* The name of a signal, or NULL. */
const char *gt__machine_scope(const gt_machine *machine, uint64_t session, uint32_t scope);

/* What the program calls the tensor in a slot, as a number for gt__machine_name_text; 0: not known for certain. */
uint32_t gt__machine_name(const gt_machine *machine, uint64_t slot);
/* Whether another tensor that exists now has the same name, as in two models of a class. */
bool gt__machine_name_shared(const gt_machine *machine, uint64_t session, uint32_t name);
/* "layer2.weight", or NULL. */
const char *gt__machine_name_text(const gt_machine *machine, uint64_t session, uint32_t name);

/* Where a client's stream is. */
typedef struct gt_moment {
    uint32_t step; /* of the program's loop (steps.c); 0: not certain */
    uint32_t mark; /* the last signal('...'), by the number of its name; 0: none */
} gt_moment;

gt_moment gt__machine_moment(const gt_machine *machine, const gt_tape_entry *entry, uint32_t site);

/* ---- cli/replay/replay.c ----------------------------------------------------------------------------------------- */

/* An entry that a machine has just executed, and the tensor that it made or completed. */
typedef struct gt_replayed {
    gt_machine *machine;
    const gt_tape_entry *entry;
    const gt_slot *slots;
    const gt_entry *result;
} gt_replayed;

/* "instruction 12 (line #0034 of the log): result=5 op=log input=4, issued at train.py:7 in signal 'layer1', step 3" */
void gt__replay_print(const gt_machine *machine, const gt_tape_entry *entry, const gt_slot *slots,
                      gt_moment moment);

/* ---- cli/replay/nonfinite.c -------------------------------------------------------------------------------------- */

typedef struct gt_nonfinite gt_nonfinite;

gt_nonfinite *gt__nonfinite_new(void);
void gt__nonfinite_free(gt_nonfinite **nonfinite);
/* After each entry that made a tensor. *found: it has the first NaN, which has been told with its history. A value that the
 * program asked for (full of infinities) does not count. */
gt_err gt__nonfinite_look(gt_nonfinite *nonfinite, const gt_replayed *replayed, bool *found);
/* At the end, if there was no NaN: tell of the first infinity, also of one that came from a constant, unless it is a mask's -inf.
 * Returns whether there was one. */
bool gt__nonfinite_end(const gt_nonfinite *nonfinite, const gt_machine *machine);
/* Whether results have a -inf that came from a constant of the program. */
bool gt__nonfinite_masks(const gt_nonfinite *nonfinite);

/* ---- cli/replay/look.c ------------------------------------------------------------------------------------------- */

double gt__element(gt_dtype dtype, const void *data, int64_t index);
/* An infinity of any sign is GT_HAS_INFINITY. */
enum { GT_HAS_NAN = 1, GT_HAS_INFINITY = 2, GT_HAS_POSITIVE_INFINITY = 4 };
/* Which of these a tensor has; *first: the first position. */
unsigned gt__look_nonfinite(const gt_meta *meta, const void *data, int64_t *first);
/* The first element in which two tensors of one shape and dtype differ by more than the tolerance (0: the dtype's
 * default); -1: they do not differ. `cancels`: elements may be sums that cancel. */
int64_t gt__look_difference(const gt_meta *meta, const void *a, const void *b, double tolerance, bool cancels);
/* "[1, 2, 3, ...] (2,3) float32" on standard output. */
void gt__look_print(const gt_meta *meta, const void *data);
/* As NumPy's .npy; bfloat16 becomes float32. */
gt_err gt__look_save(const char *path, const gt_meta *meta, const void *data);
/* "(1,2)": the position of an element. */
char *gt__look_position(const gt_meta *meta, int64_t index, char *text, size_t size);

#endif
