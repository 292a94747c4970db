/*
 * signals.h: signals in the client: named scopes around code. Every instruction carries the scope in which it was issued.
 *
 * Each thread has a stack of scopes. A scope is a number for a triple: name, backward name, enclosing scope. Numbers belong to
 * the process; a client describes a scope to its server before the first instruction that carries it. What a signal means for
 * placement is in a config (core/config.h). The process has one config, and each client sends it to its server.
 *
 * Gradients: a node of the tape keeps the scope of its instruction. What its rule emits carries the same scope with
 * GT_FLAG_BACKWARD, so that the dispatcher applies the backward signal of the scope. Read next: emit.c, autograd.c.
 */
#ifndef GT_CLIENT_SIGNALS_H
#define GT_CLIENT_SIGNALS_H

#include "client/client.h"
#include "core/config.h"

typedef struct gt_signal_state {
    uint32_t scope; /* 0: none */
    bool backward;  /* the instructions compute gradients of ops of the scope */
    bool inner;     /* tensors made now are intermediate results, not the user's */
    bool exact;     /* a copy is placed as the scope says */
} gt_signal_state;

/* Threads that are in a scope, and modes (intercept.h). While it is 0, emissions skip signals. */
extern _Atomic int gt__signals_active __attribute__((visibility("hidden")));
/* Of these, the modes. */
extern _Atomic int gt__modes_active __attribute__((visibility("hidden")));
void gt__modes_count(int change);

/* A thread sees what it entered itself, and that is all that concerns its emissions: no barrier. */
static inline bool gt__signals_on(void)
{
    return __builtin_expect(atomic_load_explicit(&gt__signals_active, memory_order_relaxed), 0);
}

static inline bool gt__modes_on(void)
{
    return __builtin_expect(atomic_load_explicit(&gt__modes_active, memory_order_relaxed), 0);
}

gt_signal_state gt__signal_current(void);
/* Set this thread's state; returns the previous one. For the backward walk. */
gt_signal_state gt__signal_replace(gt_signal_state state);

/* Set `inner` of this thread's state; returns the previous value. */
bool gt__signal_inner(bool inner);

/* Enter a scope. `backward` may be NULL. With a client, its workers are checked against the signal's config. */
gt_err gt__signal_enter(gt_client *client, const char *name, const char *backward);
/* Leave the innermost scope, which must have this name. */
gt_err gt__signal_exit(const char *name);
/* Whether a thread is in a scope. */
bool gt__signal_any_entered(void);
/* The numbers up to `count` belong to earlier clients of a session (handover.h): scopes get new numbers, behind those. */
gt_err gt__signal_reserve(uint32_t count);
/* A copy of the tensor placed as the signal says. */
gt_err gt__signal_tensor(gt_tensor *tensor, const char *name, gt_tensor **out);
/* The name of a scope's signal, cut to fit; "" for none. For errors. */
void gt__signal_name(uint32_t scope, char name[GT_MAX_NAME + 1]);
/* Put a mark into the stream, for logs. */
gt_err gt__signal_mark(gt_client *client, const char *name);

/* For emit.c, while gt__signals_active: whether scopes or signals must be sent before a record of this thread; send them,
 * which may wait for room; stamp a record with this thread's scope. */
bool gt__signal_untold(const gt_client *client);
gt_err gt__signal_tell(gt_client *client);
/* Whether a record of this thread needs nothing but the number of its scope (0: it has none). */
bool gt__signal_plain(const gt_client *client, uint32_t *scope);
void gt__signal_stamp(gt_instruction *ins);
/* An error if a tensor that the user makes cannot be placed as its scope says, so that it is raised at the user's line. Marks
 * intermediate results with GT_FLAG_INNER. */
gt_err gt__signal_check(gt_instruction *ins, const gt_meta *meta);
/* Send the options of the environment (GT_AUTO_SHARD), when a client has connected. */
gt_err gt__signal_introduce(gt_client *client);

/* ---- the process's config --------------------------------------------------------------------------------- */

/* Read the file of GT_CONFIG, unless that was done. */
gt_err gt__signal_config_init(void);
gt_err gt__signal_config_set(const gt_signal_config *signal);
/* A copy of the signal's entry; false: the config has none. */
bool gt__signal_config_get(const char *name, gt_signal_config *signal);
/* Name of the signal at `index`, in the order they were added; false: past the end. */
bool gt__signal_config_name(size_t index, char name[GT_MAX_NAME + 1]);

#endif
