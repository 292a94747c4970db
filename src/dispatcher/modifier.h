/*
 * modifier.h: stream modifiers, the dispatcher's way to rewrite instruction streams.
 *
 * Each session has a chain of modifiers. Each reads a record and emits zero or more to the next; the last stage of every
 * chain is the session's placement (place.c), which turns client ids into worker slots. A modifier does no I/O, never
 * waits, and its state belongs to one session. One modifier, one file, one symbol: modifier_identity.c is the smallest.
 *
 * A modifier may emit several records for one: those that the workers have no room for wait behind the chain (output.h).
 * It may hold records back until `flush`, as long as it keeps the order of those that depend on each other. Tensors of its
 * own get ids with GT_MODIFIER_ID, which clients do not use; the modifier frees them. An upload from a shared segment
 * (imm[1]) must not be dropped: the client would wait for the segment.
 *
 * A record that the modifier cannot do, gt__modifier_refuse emits: its result is lost, for a reason that a reader gets.
 */
#ifndef GT_DISPATCHER_MODIFIER_H
#define GT_DISPATCHER_MODIFIER_H

#include <stdio.h>

#include "core/path.h"

typedef struct gt_session gt_session;
typedef struct gt_modifier gt_modifier;

#define GT_MODIFIER_ID ((uint64_t)1 << 63)

/* Why the modifiers must emit the records that they hold back. */
typedef enum gt_flush {
    GT_FLUSH_SYNC,  /* the client waits for an answer */
    GT_FLUSH_ORDER, /* a record follows that changes how those before it are placed */
    GT_FLUSH_IDLE,  /* the client has sent nothing more, for now */
    GT_FLUSH_CLOSE, /* the client has left; its tensors are freed next */
} gt_flush;

typedef struct gt_modifier_ops {
    const char *name;
    size_t size; /* of the modifier's struct, whose first member is a gt_modifier; allocated zeroed */
    gt_err (*open)(gt_modifier *modifier);                        /* optional */
    gt_err (*step)(gt_modifier *modifier, const gt_slot *record); /* a checked record: header, then its tail */
    gt_err (*flush)(gt_modifier *modifier, gt_flush why);         /* optional: emit all records held back */
    /* Optional: the records of a hot path pass, all at once, and are not changed (paths.h). Without it, paths are expanded
     * into single records. */
    void (*repeat)(gt_modifier *modifier, const gt_path *path);
    void (*stats)(const gt_modifier *modifier, FILE *json); /* optional: write one JSON object */
    void (*close)(gt_modifier *modifier);                   /* optional */
} gt_modifier_ops;

struct gt_modifier {
    const gt_modifier_ops *ops;
    gt_session *session;
    gt_modifier *next;
};

extern const gt_modifier_ops gt__modifier_identity;
extern const gt_modifier_ops gt__modifier_statistics;
extern const gt_modifier_ops gt__modifier_place;

/* The modifiers that chains are built of, by number; NULL: there are no more. */
const gt_modifier_ops *gt__modifier_at(unsigned number);
/* Add one to them, for as long as the process lives. Before dispatchers run: there is no lock. */
gt_err gt__modifier_register(const gt_modifier_ops *ops);

/* Hand a record to the next stage. */
static inline gt_err gt__modifier_emit(gt_modifier *modifier, const gt_slot *record)
{
    return modifier->next->ops->step(modifier->next, record);
}

/* Hand a computing record to the next stage, not to be computed: reading its result, or what is computed from it, fails with
 * `why`, to which the line of the program is added. */
gt_err gt__modifier_refuse(gt_modifier *modifier, const gt_slot *record, const char *why);

/*
 * Build a chain by names, comma-separated ("identity,statistics"; NULL: the default), then `last` unless it is NULL, ending
 * in placement. An unknown name is an error that lists the known ones.
 */
gt_err gt__chain_open(const char *names, const gt_modifier_ops *last, gt_session *session, gt_modifier **chain);
/* GT_ERR_VALUE unless there are modifiers of all these names. */
gt_err gt__chain_check(const char *names);
void gt__chain_close(gt_modifier **chain);
/* Whether records of paths pass all modifiers as they are. */
bool gt__chain_passes(const gt_modifier *chain);
/* Have every stage, first to last, emit the records that it holds back. */
gt_err gt__chain_flush(gt_modifier *chain, gt_flush why);
/* {"statistics": {...}, ...} */
void gt__chain_stats(const gt_modifier *chain, FILE *json);

#endif
