/*
 * spread.h: tensors spread over workers, and the instructions on them.
 *
 * Ordinary sessions never come here: their tensors are on one worker, and place.c serves them. A session gets a
 * gt_spreading when a signal that it names has a shard entry, or with GT_AUTO_SHARD. This is a path of placement, not a
 * modifier: place.c says why. From then on the records that place.c's fast path does not take come to gt__spread_compute:
 *
 *     scope.c   which workers and which axis the signal of the record asks for    -> gt_target
 *     rules*.c  from the op and the operands' layouts: the layout of each operand -> gt_plan
 *     move.c    bring the operands there: slices, moves and collectives; mesh_move.c on a mesh of workers
 *     spread.c  the record itself, once for each member, with local shapes and slots
 *     reduce.c  the instructions that follow where it reduces the split axis
 *     sums.c    gradients, added up together and before they are needed
 *     make.c    the steps of a record that takes several; along.c, pick.c and join.c are made of them
 *
 * One client record becomes records for several workers, written together: every worker's stream has moves and
 * collectives in the same order, and a send comes before its recv. Sends do not wait, so the first of them that is not
 * done can always be done: the order is deadlock-free. Records that a worker's link has no room for wait in the worker's
 * outbox (worker_stream.h), and the session waits with them.
 */
#ifndef GT_DISPATCHER_SPREAD_SPREAD_H
#define GT_DISPATCHER_SPREAD_SPREAD_H

#include "core/config.h"
#include "dispatcher/session.h"
#include "dispatcher/spread/layout.h"
#include "dispatcher/spread/sums.h"
#include "dispatcher/state.h"

/* A whole copy of the tensor on a worker that its layout does not name, kept because it was needed there once. */
typedef struct gt_whole_copy {
    struct gt_whole_copy *next;
    int32_t worker;
    uint32_t slot;
} gt_whole_copy;

/* A tensor on several workers; handle->worker is GT_SPREAD, handle->slot its number in the session's table. */
typedef struct gt_spread {
    gt_layout *layout;
    gt_whole_copy *copies;
    size_t waits;    /* these bytes of each member, to be added up with others (sums.h); 0: it does not wait */
    bool ahead;      /* it was added up before it was needed */
    uint32_t slot[]; /* by member */
} gt_spread;

typedef struct gt_scope {
    char name[GT_MAX_NAME + 1], backward[GT_MAX_NAME + 1];
    uint32_t parent, depth;
    /* The entries that decide for its records and for their gradients, or NULL; and whether a name that is not in the config was
     * warned of. Of this version of the config. */
    uint64_t decided[2], looked;
    const struct gt_signal_config *shard[2];
    gt_target *target[2]; /* what it asked for last; NULL: nothing yet */
} gt_scope;

/* The signals that a session names: its scopes, and what its own config says of them. */
struct gt_signals {
    gt_scope *scopes; /* number minus one */
    uint32_t count, capacity;
    uint64_t version; /* of the session's config and the server's together */
    gt_config config;
};

/* An upload that is not complete, and the scope that will place it. The scope's workers are looked up then: some may have
 * left meanwhile. */
typedef struct gt_unplaced {
    struct gt_unplaced *next;
    uint64_t id;
    uint32_t scope;
    uint8_t flags;
} gt_unplaced;

typedef struct gt_temporary {
    int32_t worker;
    uint32_t slot;
    bool own; /* it has memory of its own: a copy of it needs none */
} gt_temporary;

struct gt_spreading {
    gt_spread **table;
    uint32_t count, capacity, *free_numbers, free_count;
    uint64_t config_changes; /* how often it or the server's was changed */
    gt_target *target;       /* of the last scope that had one; the cache of gt__spread_target */
    uint32_t target_scope;
    bool target_backward, target_valid, target_there;
    bool syncs; /* a sync is placed: what its sends tell comes behind all records before it */
    bool automatic;
    bool *reached; /* by worker: this session has written to it */
    int32_t reached_capacity;
    gt_layout **alone; /* by worker: the layout of tensors on that worker only */
    int32_t alone_capacity;
    gt_temporary *temporaries; /* freed after the record */
    size_t temporary_count, temporary_capacity;
    gt_unplaced *unplaced;
    gt_sums sums;
    struct gt_moving
        *moving; /* of the record at hand, while a run is recorded (moving.h); NULL: it begins where it does */
    uint32_t scope, site; /* of the record being placed; moves made for it get the same */
};

/* An operand. */
typedef struct gt_source {
    gt_handle *handle;
    const gt_meta *meta; /* NULL: a literal */
    gt_spread *spread;   /* NULL: on one worker, and no copies */
    gt_layout *layout;
} gt_source;

/* One computing record. */
typedef struct gt_task {
    gt_session *session;
    const gt_slot *record;
    const gt_instruction *ins;
    gt_target *target; /* NULL: the record has no target */
    gt_meta out;
    unsigned count;
    gt_source *source; /* count operands */
} gt_task;

/* How the reductions of the parts become the reduction of the whole. */
typedef enum gt_combine {
    GT_COMBINE_NOTHING,
    GT_COMBINE_WEIGHED,
    GT_COMBINE_VARYING,
    GT_COMBINE_MOMENTS,
    GT_COMBINE_AGAIN
} gt_combine;

typedef struct gt_plan gt_plan;
typedef struct gt_mesh_plan gt_mesh_plan; /* rules_mesh.c */

/* Adapt the copy of a record for one member: shapes, starts. It may become another op, and shorter. */
typedef void gt_localize(const gt_task *task, const gt_plan *plan, unsigned member, gt_slot *record);

/* How to execute it: each operand in a layout, all over the workers of the result; the record runs on each of them. The layout of
 * an operand may leave out workers, where `localize` leaves out the operand. */
struct gt_plan {
    gt_layout *result;
    gt_layout **operand;    /* NULL: a literal, or not used */
    gt_localize *localize;  /* NULL: all copies are equal */
    const gt_layout *parts; /* borrowed, for `localize`: of which tensor the members have parts, if not of these */
    gt_combine combine;     /* a reduction over the split axis: what follows */
    bool only_first;        /* scatter_add to a partial sum: the others start from zeros */
    bool gathers;           /* a split operand is made whole: counted in the statistics */
    gt_mesh_plan *mesh;     /* on a mesh: what each of its axes contributes */
    /* It takes several steps (make.h): this makes the result. `operand` is where it wants the operands. */
    gt_err (*run)(gt_task *task, const gt_plan *plan, gt_handle *result);
};

/* spread.c */
gt_err gt__spreading_new(gt_session *session);
void gt__spreading_free(gt_session *session); /* frees its tensors on the workers too */
gt_err gt__spread_compute(gt_session *session, const gt_slot *record);
/* Plan and run a record whose operands are found; `operand` has room for the layouts of all, NULL at first. */
gt_err gt__spread_run(gt_task *task, gt_layout **operand, gt_handle *result);
gt_err gt__spread_run_plan(gt_task *task, const gt_plan *plan, gt_handle *result);
gt_err gt__spread_free(gt_session *session, const gt_slot *record);
/* The session's turn is over: send the frees that are left. */
void gt__spread_turn_over(gt_session *session);
gt_err gt__spread_fetch(gt_session *session, gt_handle *handle, const gt_slot *record);
gt_err gt__spread_sync(gt_session *session, const gt_slot *record);
/* A piece of an upload was passed on: place it if it was the last. */
gt_err gt__spread_data(gt_session *session, gt_handle *handle, const gt_instruction *ins);
void gt__spread_drop(gt_session *session, uint32_t number);
/* Where a tensor lives. */
char *gt__spread_text(gt_session *session, const gt_handle *handle, char *text, size_t size);
/* A worker is gone. True: the tensor is lost with it. */
bool gt__spread_lose(gt_session *session, gt_handle *handle, int32_t worker);
/* Whether everything this session wrote is in its workers' links. */
bool gt__spread_has_room(const gt_session *session);
/* Give a handle a layout and slots; what it had is freed. Takes the layout. */
gt_err gt__spread_set(gt_session *session, gt_handle *handle, gt_layout *layout, const uint32_t *slots);
/* Room for `count` more spread tensors. */
gt_err gt__spread_make_room(gt_session *session, uint32_t count);
/* Make a handle's tensor this one, for which there is room; takes it. What the handle had is not freed. */
void gt__spread_put(gt_session *session, gt_handle *handle, gt_spread *spread);
/* Take a spread tensor out of the table; the caller frees it. On the workers it stays. */
gt_spread *gt__spread_take(gt_session *session, uint32_t number);
gt_layout *gt__spread_alone(gt_session *session, int32_t worker); /* borrowed; NULL: out of memory */
gt_source gt__spread_source(gt_session *session, gt_handle *handle);
static inline uint32_t gt__source_slot(const gt_source *source, unsigned member)
{
    return source->spread ? source->spread->slot[member] : source->handle->slot;
}

static inline gt_dispatch_worker *gt__spread_worker(const gt_session *session, int32_t index)
{
    return session->dispatcher->workers[index];
}
static inline gt_err gt__spread_no_memory(void)
{
    return gt__fail(GT_ERR_MEMORY, "out of memory");
}

/* scope.c */
void gt__signals_free(gt_session *session);
/* The server's config has changed. */
gt_err gt__signals_reconsider(gt_session *session);
/* GT_ERR_VALUE: by the config as it is now, a scope that was used before, with or without effect, names a worker that is not there. */
gt_err gt__signals_check(const gt_session *session);
/* Whether the configs of the session, its own or the server's, may mean the worker of this number. */
bool gt__signals_mean(const gt_session *session, int32_t number);
/* Whether a signal has parts on both workers, so that neither can take what the other has. */
bool gt__signals_part(const gt_session *session, int32_t one, int32_t other);
/* A record of this scope is placed: warn if there is a config that does not have its signal. */
void gt__signals_look_up(const gt_session *session, uint32_t scope);
/* The name of one of the session's scopes; NULL: there is no such scope. */
const char *gt__spread_scope_name(const gt_session *session, uint32_t scope);
/* The signal of a scope's gradients; "": the same as its own. */
const char *gt__spread_backward_name(const gt_session *session, uint32_t scope);
gt_err gt__spread_scope(gt_session *session, const gt_slot *record);
gt_err gt__spread_config(gt_session *session, const gt_slot *record);
/* The target of the record's scope; NULL: it has none. GT_ERR_VALUE: it names a worker that is not connected. */
gt_err gt__spread_target(gt_session *session, const gt_instruction *ins, gt_target **target);
/* What a scope asks for now; NULL: nothing. Borrowed until it asks for something else. GT_ERR_VALUE as above. */
gt_err gt__scope_target(gt_session *session, uint32_t scope, bool backward, gt_target **target);
/* The layout of a new tensor made by an instruction with these flags. NULL and an error: the axis is out of range (of
 * gradients and with GT_FLAG_INNER the tensor is replicated instead), or out of memory. */
gt_layout *gt__target_layout(gt_target *target, uint8_t flags, const gt_meta *meta);
/* Place a tensor as a layout says, which is the caller's. What it had is freed after the record. */
gt_err gt__spread_place(gt_session *session, gt_handle *handle, gt_layout *layout);

/* rules.c: releases nothing on failure; plan->operand has room for task->count. */
gt_err gt__spread_plan(gt_task *task, gt_plan *plan);
/* rules_mesh.c: NULL is fine. */
void gt__mesh_plan_free(gt_mesh_plan *mesh);
/* Whether plan->only_first leaves this member what operand 0 is. */
bool gt__mesh_is_first(const gt_plan *plan, unsigned member);

/* reduce.c */
/* Each member has reduced its part of operand 0, parts[member], to slots[member]: make the result of them. */
gt_err gt__spread_combine(const gt_task *task, const gt_plan *plan, const uint32_t *parts, uint32_t *slots);
/* How many elements of operand 0 become one element of the result. */
double gt__reduced_elements(const gt_task *task);

/* move.c */
/* The session writes to this worker, from now on. */
gt_err gt__spread_reach(gt_session *session, int32_t worker);
/* Write `slots` slots into a worker's stream; gt__worker_commit follows. */
gt_err gt__spread_reserve(gt_session *session, int32_t worker, unsigned slots, gt_slot **out);
gt_err gt__spread_slot(gt_session *session, int32_t worker, uint32_t *slot);
/* Free a tensor after the record being placed. Out of memory: it is freed at once, and the record that would use it is
 * not written. */
gt_err gt__spread_temporary(gt_session *session, int32_t worker, uint32_t slot);
/* The same for one with memory of its own, which gt__spread_keep may take. */
gt_err gt__spread_temporary_own(gt_session *session, int32_t worker, uint32_t slot);
/* Instead of a copy of a temporary: it becomes the caller's. False: it is none, or shares its memory. */
bool gt__spread_keep(gt_session *session, int32_t worker, uint32_t slot);
void gt__spread_free_temporaries(gt_session *session);
/* The slots of a tensor in another layout, by its members: the tensor's own, copies that stay with it, or
 * temporaries. */
gt_err gt__spread_arrange(gt_session *session, gt_source *source, gt_layout *wanted, uint32_t *slots);
/* Add up a partial tensor, which is not partial afterwards. `wanted` is split over the same workers: leave the sum in
 * parts. */
gt_err gt__spread_settle(gt_session *session, gt_source *source, gt_layout *wanted);
/* From parts along one axis to parts along another, of the same workers: whether it is that, and in place, by an all-to-all. */
bool gt__spread_can_turn(const gt_layout *from, const gt_layout *to);
gt_err gt__spread_turn(gt_session *session, gt_source *source, gt_layout *wanted);
/* Slots that the caller owns (temporaries or kept) from one layout to another; `meta` is the whole tensor. */
gt_err gt__spread_gather_all(gt_session *session, const gt_layout *from, const gt_meta *meta, const uint32_t *in,
                             uint32_t *out);
/* The sum of the tensors of a partial layout, on every member, or in parts where a mesh splits it; out[] are temporaries. */
gt_err gt__spread_sum_all(gt_session *session, const gt_layout *from, const gt_meta *meta, const uint32_t *in,
                          uint32_t *out);

#endif
