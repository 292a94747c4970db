/*
 * signals.h: signals in the client: named scopes around code, which every instruction issued there carries.
 *
 * Each thread has a stack of scopes. A scope is a number that stands for (name, backward name, scope around it);
 * numbers are the process's, and a client tells its server what one means before the first instruction that
 * carries it. What a signal means for placement is a config (core/config.h): the process has one table, and sends
 * it along.
 *
 * Gradients: a node of the tape remembers the scope of its instruction, and what its rule emits carries the same
 * scope with GT_FLAG_BACKWARD, so that the dispatcher can apply the backward signal of the scope. Read next:
 * emit.c, autograd.c.
 */
#ifndef GT_CLIENT_SIGNALS_H
#define GT_CLIENT_SIGNALS_H

#include "client/client.h"
#include "core/config.h"

typedef struct gt_signal_state {
    uint32_t scope; /* 0: none */
    bool backward;  /* the instructions are gradients of what ran under the scope */
    bool inner;     /* what is made now is made on the way to something else */
    bool exact;     /* a copy must be placed as the scope says */
} gt_signal_state;

/* Threads that are in a scope now: while there is none, an emission looks no further. */
extern _Atomic int gt__signals_active;

gt_signal_state gt__signal_current(void);
/* Make `state` this thread's; returns what it was. For the backward walk. */
gt_signal_state gt__signal_replace(gt_signal_state state);

/* Set the state's `inner`; returns what it was. */
bool gt__signal_inner(bool inner);

/* Enter a scope. `backward` may be NULL. With a client, its workers are checked against the signal's config. */
gt_err gt__signal_enter(gt_client *client, const char *name, const char *backward);
/* Leave the innermost scope, which must have this name. */
gt_err gt__signal_exit(const char *name);
/* A copy of the tensor placed as the signal says. */
gt_err gt__signal_tensor(gt_tensor *tensor, const char *name, gt_tensor **out);
/* The name of a scope's signal, cut to fit; "" for none. For errors. */
void gt__signal_name(uint32_t scope, char name[GT_MAX_NAME + 1]);
/* Put a mark into the stream, for logs. */
gt_err gt__signal_mark(gt_client *client, const char *name);

/* For emit.c, while gt__signals_active. Whether the server must hear of scopes or signals before a record that this thread
 * stamps; tell it, which may wait for room; stamp a record with this thread's scope. */
bool gt__signal_untold(const gt_client *client);
gt_err gt__signal_tell(gt_client *client);
void gt__signal_stamp(gt_instruction *ins);
/* Whether a tensor that the user makes can be placed as its scope says; if not, this is the line to complain about. What is
 * made on the way to something else is marked as that (GT_FLAG_INNER). */
gt_err gt__signal_check(gt_instruction *ins, const gt_meta *meta);
/* Send options of the environment (GT_AUTO_SHARD); called once a client is connected. */
gt_err gt__signal_introduce(gt_client *client);

/* ---- the process's config --------------------------------------------------------------------------------- */

/* Read GT_CONFIG, once; an error is told to whoever comes first. */
gt_err gt__signal_config_init(void);
gt_err gt__signal_config_set(const gt_signal_config *signal);
/* A copy; false: there is none. */
bool gt__signal_config_get(const char *name, gt_signal_config *signal);
/* Name of the signal at `index`, in the order they were added; false: past the end. */
bool gt__signal_config_name(size_t index, char name[GT_MAX_NAME + 1]);

#endif
