/*
 * client.h: the client's internals, for src/client and the Python extension.
 *
 * A client turns op calls into instructions on its link. It waits only in fetch and sync, and for room on the link. A gt_tensor
 * is an immutable value: an id, a shape, a dtype. Users of the C interface see these values. Tensors of Python can be changed in
 * place and share memory, as in PyTorch: an in-place operation makes the next value of the memory, and everything that shows it
 * takes its new value from there (storage.h). Where nothing else needs the old value, the worker writes into it.
 *
 * Threads: one thread at a time uses a client. In Python the GIL ensures that. A thread that waits releases the GIL but holds
 * the client's lock (client->waiting), which sends other users of the client to the slow path.
 * Read next: tensor.c (the ops), emit.c (the stream), embedded.c.
 */
#ifndef GT_CLIENT_CLIENT_H
#define GT_CLIENT_CLIENT_H

#include "client/progress.h"
#include "core/instruction.h"
#include "link/link.h"

typedef struct gt_embedded gt_embedded;
struct gt_inherited;            /* handover.h */
typedef struct gt_node gt_node; /* autograd.h */

/* Counts the writes to memory that tensors share (storage.h). */
typedef struct gt_versions {
    uint32_t references, count;
} gt_versions;

/* A tensor on the client's free list is as a new one, but for id and meta (tensor_clear in emit.c). */
struct gt_tensor {
    uint32_t references;
    uint32_t version : 31;    /* writes to its object before this value, */
    uint32_t overwritten : 1; /* and whether one has replaced it: a gradient that needs it is refused */
    uint16_t batch;           /* the level of a vmap that hides the first axis of `base` (batch.h); 0: none */
    uint8_t bounded;          /* gt_bounds_kind (bounds.h) of low and high; integers only */
    uint8_t inference;        /* made in inference mode: no gradient may save it (autograd.h) */
    uint32_t name;            /* of the client's names: what the program calls its object (names.h); 0: none */
    gt_client *client;        /* stays allocated while it has tensors */
    union {
        uint64_t id;           /* 0: consumed by an instruction; it can only be released */
        gt_tensor *next_spare; /* while on the client's free list */
    };
    gt_tensor *base; /* of an alias: the tensor that owns the id, retained; NULL: we own it */
    gt_node *node;   /* NULL: no gradient is wanted */
    gt_versions
        *versions; /* of a value of a storage: overwritten, if their count is no longer `version`; else NULL */
    gt_meta
        meta; /* behind the pointers, which every operation reads: most of it is used by tensors of many axes only */
    int64_t low, high;
};

static inline gt_versions *gt__versions_retain(gt_versions *versions)
{
    versions->references++;
    return versions;
}

void gt__versions_release(gt_versions *versions); /* may be NULL */

/* The name of a tensor of the program. */
typedef struct gt_name {
    char text[GT_MAX_NAME + 1];
    unsigned told; /* how often */
} gt_name;

/* A shared-memory segment, reused for uploads and fetches of similar size. */
typedef struct gt_transfer {
    struct gt_transfer *next;
    gt_segment *segment;
    bool lent;          /* a fetched array still uses it */
    bool shared;        /* the link's peer knows it */
    uint64_t abandoned; /* ticket of an interrupted fetch that may still write to it; 0: none */
} gt_transfer;

/* A thread's place in the queue for a client; in the thread's own memory. */
typedef struct gt_turn {
    struct gt_turn *next;
    uint64_t since_ns; /* when it began to queue */
    bool away;         /* the thread does something else: those behind it go first */
} gt_turn;

struct gt_client {
    gt_link *link; /* NULL once closed */
    bool usable;   /* open and alive, as far as we know: one test on the hot path */
    uint64_t next_id;
    gt_tensor *spare; /* free list */
    uint64_t live;    /* tensors, leases and other references that keep a closed client allocated */
    gt_node *spare_nodes, *dying_nodes;
    gt_node *oldest_node, *newest_node; /* the tape */
    uint64_t next_node;
    bool releasing_nodes;
    struct gt_hotpath *hotpath;   /* hotpath.h; NULL: off */
    struct gt_expected *expected; /* while records are held back: what the next one should be; else NULL */
    uint64_t *cell;               /* and what it is compared with */
    bool draining;                /* records that were held back wait for room: nothing else may be written */
    uint64_t work;                /* elements touched by instructions not flushed yet */
    uint64_t *frees;              /* ids waiting to be packed into frees */
    size_t free_count, free_capacity;
    size_t
        free_room; /* while records are held back: frees are only queued as long as there are fewer (quick.h); else 0 */
    size_t finish_at; /* a path is complete but for its last frees: it ends with so many; 0: none is */
    uint64_t free_bytes;
    bool waiting; /* a thread waits on the link without the GIL (the lock of its language) */
    bool closed;
    bool detached; /* closed, or about to be: the session goes on without this client */
    bool
        reserved; /* no thread waits any more, but `waiting` stays set until the first of `turns` has taken its turn */
    gt_turn *turns;      /* threads that queue for the client */
    unsigned generation; /* the value of gt__fork_generation at opening */
    uint64_t next_ticket;
    uint64_t stats_ticket;   /* of a question for statistics whose answer has not come in time; 0: none */
    unsigned stats_restarts; /* of the link, when it was asked */
    bool segments;           /* bulk data may go through shared memory */
    gt_progress progress;    /* of the wait that goes on */
    uint32_t sites_told;     /* sites whose names the server has */
    gt_name *names;          /* names.c */
    uint32_t name_count, names_told;
    struct gt_inherited *inherited; /* names of the session's clients before this one; NULL: it is the first */
    uint64_t updated;               /* the result of the last instruction that passed a name on */
    uint64_t seed;
    uint64_t stream; /* counts random tensors since the seed */
    gt_transfer *transfers;
    struct {
        uint64_t ticket; /* of the last question whether the worker has taken the segments before it; 0: it has */
        uint64_t bytes;  /* in segments since then */
    } uploads;           /* transfer.c limits them */
    gt_embedded *embedded;
    uint64_t number;      /* by which the server knows it */
    int workers;          /* workers of the server now */
    int worker_entries;   /* worker indices are below this */
    uint32_t scopes_sent; /* signals.c: scopes that the server has, */
    size_t config_sent;   /* and signals of this version of the config */
    uint64_t config_version;
    uint64_t config_told; /* the version of which the server has everything */
    char address[96];
    char *key_file; /* that it connected with; NULL: the default */
    char description[128];
};

enum { GT_FREED_MUCH = 64 * 1024 }; /* bytes: enough memory to free soon */

/* Reserve room on the link, waiting if the server is far behind. Commit it, and flush if enough work is queued. */
gt_err gt__client_reserve(gt_client *client, unsigned slots, gt_slot **out);
/* The same without waiting; NULL: there is no room now, or another thread waits for an answer. */
gt_slot *gt__client_room(gt_client *client, unsigned slots);
void gt__client_commit(gt_client *client, unsigned slots, int64_t work);
/* The same for a record that is not held back in any case. */
void gt__client_publish(gt_client *client, unsigned slots, int64_t work);
/* Send the ids that wait in client->frees if they fill a record. Never waits. */
void gt__client_send_frees(gt_client *client);

/* Incremented in a forked child: clients opened before the fork are unusable there. */
extern unsigned gt__fork_generation __attribute__((visibility("hidden")));

/*
 * Hooks of a language binding around a wait: before() releases the GIL, after() takes it back, interrupted() says whether a
 * signal handler asked to stop (Ctrl-C). Each may be NULL.
 */
typedef struct gt_wait_hooks {
    void *(*before)(void);
    void (*after)(void *state);
    bool (*interrupted)(void);
    bool (*has_terminal)(void); /* whether a person reads standard error. NULL: if that is a terminal */
} gt_wait_hooks;
extern gt_wait_hooks gt__wait_hooks;

/*
 * Sites, the places in user code that issue ops. A language binding numbers them from 1 and names them: "file:line", cut at
 * the front to fit; name() returns the length. Each hook may be NULL. Records carry the number; the server gets each name once,
 * for its log and tape. Errors that surface later name the site.
 */
typedef struct gt_site_hooks {
    uint32_t (*current)(void); /* 0: unknown */
    const void *(*at)(
        void); /* what stands for the current site as long as the process lives; NULL: nothing does */
    size_t (*name)(uint32_t site, char *text, size_t size);
    bool (*inner)(void);             /* the binding itself issues the op, not user code */
    void (*reserve)(uint32_t count); /* no number up to this, or that was given until now, is current any more */
} gt_site_hooks;
extern gt_site_hooks gt__site_hooks;
/* The numbers up to `count` belong to earlier clients of a session (handover.h): all places get new numbers, behind those. */
void gt__sites_reserve(uint32_t count);

/* ---- arguments of public functions ------------------------------------------------------------------------- */

/* The error for argument `which` of a list as GT_REQUIRE has it: "gt_add: b is NULL". */
gt_err gt__null_argument(const char *function, const char *arguments, unsigned which) __attribute__((cold));

/* How a public function begins: it clears what it delivers, so that this is NULL if it fails, and refuses NULL where NULL
 * means nothing. GT_ARGUMENTS does both where there is one result. */
#define GT_REQUIRE(...)                                                                                           \
    do {                                                                                                          \
        const void *const required_[] = {__VA_ARGS__};                                                            \
        for (unsigned k_ = 0; k_ < sizeof required_ / sizeof *required_; k_++)                                    \
            if (__builtin_expect(!required_[k_], 0))                                                              \
                return gt__null_argument(__func__, #__VA_ARGS__, k_);                                             \
    } while (0)
#define GT_CLEAR(out)                                                                                             \
    do {                                                                                                          \
        if (__builtin_expect((out) != NULL, 1))                                                                   \
            *(out) = NULL;                                                                                        \
    } while (0)
#define GT_ARGUMENTS(out, ...)                                                                                    \
    do {                                                                                                          \
        GT_CLEAR(out);                                                                                            \
        GT_REQUIRE(out, __VA_ARGS__);                                                                             \
    } while (0)

/* ---- emitting: emit.c -------------------------------------------------------------------------------------- */

/*
 * Emit one computing instruction. `prototype` has everything but result and tensor operands; in[k] is NULL where
 * operand k is a literal; CAT passes all its operands here and leaves room in the tail. Infers the result, allocates *out
 * (the caller's) and writes the record. Every op passes here or through the fast paths of elementwise ops below.
 */
gt_err gt__emit(gt_client *client, gt_instruction prototype, gt_slot *tail, gt_tensor *const *in, unsigned count,
                gt_tensor **out);
gt_err gt__emit_unary(gt_opcode op, gt_tensor *a, gt_tensor **out);
gt_err gt__emit_binary(gt_opcode op, gt_tensor *a, gt_tensor *b, gt_tensor **out);
/* `literal op a` if literal_first, else `a op literal`. */
gt_err gt__emit_binary_literal(gt_opcode op, gt_tensor *a, gt_literal kind, gt_imm literal, bool literal_first,
                               gt_tensor **out);
/* `a op b`, or a literal if b is NULL, as the next value of an object that has the value a. `named`: the object has a name, which
 * goes on (names.h), unless shape or dtype change. */
gt_err gt__emit_update(gt_opcode op, gt_tensor *a, bool named, gt_tensor *b, gt_literal kind, gt_imm literal,
                       gt_tensor **out);
/* The parameter of amax and amin that are PyTorch's x.max() and x.min(). Nodes of x.median() are kept as those of amax: the
 * gradient is the same. */
enum { GT_EXTREME_OF_ALL = 2, GT_MEDIAN_OF_ALL, GT_NANMEDIAN_OF_ALL };
gt_err gt__emit_reduce(gt_opcode op, gt_tensor *a, uint32_t axes, bool keepdims, double parameter,
                       gt_tensor **out);
/* full and arange of an exact integer or double, as kind says. */
gt_err gt__emit_full(gt_client *client, gt_dtype dtype, unsigned rank, const int64_t *shape, gt_literal kind,
                     gt_imm value, gt_tensor **out);
gt_err gt__emit_arange(gt_client *client, gt_dtype dtype, int64_t count, gt_literal kind, gt_imm start,
                       gt_imm step, gt_tensor **out);
/* A ternary row; where b or c is NULL, its literal is used. */
gt_err gt__emit_ternary(gt_opcode op, gt_tensor *a, gt_tensor *b, gt_literal b_kind, gt_imm b_literal,
                        gt_tensor *c, gt_literal c_kind, gt_imm c_literal, gt_tensor **out);
/* _PQ rows, with the numbers p and q. */
gt_err gt__emit_numbers(gt_opcode op, gt_tensor *a, double p, double q, gt_tensor **out);
gt_err gt__emit_binary_numbers(gt_opcode op, gt_tensor *a, gt_tensor *b, double p, double q, gt_tensor **out);
/*
 * Updates in place. A caller that will only release `a` afterwards says how many references to it are `held`, its own. If
 * there are no others (objects, aliases, values saved for gradients), the record consumes a: the worker writes into its
 * memory, and a can only be released. held 0: a stays as it is. assign takes a literal where src is NULL.
 */
gt_err gt__emit_assign(gt_tensor *a, const int64_t *start, const int64_t *step, const int64_t *count,
                       gt_tensor *src, gt_literal kind, gt_imm literal, unsigned held, gt_tensor **out);
/* scatter, scatter_add, scatter_reduce; `how` is imm[1]: gt_scatter_kind. */
gt_err gt__emit_scatter(gt_opcode op, gt_tensor *a, gt_tensor *index, gt_tensor *src, int axis, int64_t how,
                        unsigned held, gt_tensor **out);
/* Replace a -1 in a shape by the size that the others imply. */
gt_err gt__reshape_sizes(const gt_meta *from, int rank, int64_t *shape);
gt_err gt__emit_reshape(gt_tensor *a, int rank, const int64_t *shape, unsigned held, gt_tensor **out);
/* GT_FLAG_CONSUMES or 0, for the prototype of a record whose operand 0 is updated. */
uint8_t gt__consume_flag(gt_opcode op, gt_tensor *const *in, unsigned count, unsigned held);
/* Before an update in place: wait until `slots` slots can be emitted without waiting, so that no other thread takes a
 * reference in between; and send the frees of views of the tensor, which would keep the worker from writing into it. */
gt_err gt__client_prepare_update(gt_client *client, unsigned slots);
/* The two rows of form ATTENTION: core/attention.h. */
gt_err gt__emit_attention(gt_opcode op, gt_tensor *const *in, double scale, int64_t period, gt_tensor **out);
/* layer_norm: x, weight, bias; its two backward rows: g, x, weight. Weight and bias may be NULL. */
gt_err gt__emit_layer_norm(gt_opcode op, gt_tensor *const *in, int64_t first, double eps, gt_tensor **out);
/* The rows of form BATCH_NORM: op.h has the operands and what `elements` is. The last one may be NULL. */
gt_err gt__emit_batch_norm(gt_opcode op, gt_tensor *const *in, int64_t elements, double eps, gt_tensor **out);
/* Two tensors (C) as one (2, C), in the dtype of x's moments; a missing one is full of a number. */
gt_err gt__channel_rows(gt_tensor *x, gt_tensor *first, double without_first, gt_tensor *second,
                        double without_second, gt_tensor **out);
/* A row of form SCAN, SOFTMAX or (b given) SOFTMAX_BACKWARD. */
gt_err gt__emit_along(gt_opcode op, gt_tensor *a, gt_tensor *b, int axis, gt_tensor **out);
/* gt_matmul, but the product of halves is float32. */
gt_err gt__emit_wide_product(gt_tensor *a, gt_tensor *b, gt_tensor **out);
/* a @ b + bias of one dtype, rounded once. */
gt_err gt__emit_biased_product(gt_tensor *a, gt_tensor *b, gt_tensor *bias, gt_tensor **out);
/* gt_take with indices of another kind. */
gt_err gt__emit_pick(gt_tensor *a, gt_tensor *index, int axis, gt_take_kind kind, gt_tensor **out);
/* linalg.c: a MATRIX row; linalg.h says what the two numbers are. */
gt_err gt__emit_matrix(gt_opcode op, gt_tensor *a, gt_imm first, gt_imm second, gt_tensor **out);
gt_err gt__emit_wrap_index(gt_tensor *index, int64_t size, int axis, gt_tensor **out);
gt_err gt__emit_mask_index(gt_tensor *mask, int64_t count, gt_tensor **out);

/* A tensor that the session has under this id already. */
gt_err gt__tensor_inherit(gt_client *client, uint64_t id, const gt_meta *meta, gt_tensor **out);
/* Queue the id of a tensor to be freed. Sends the queue when it is long enough and the link has room. Never waits. */
void gt__client_free_id(gt_client *client, uint64_t id, size_t bytes);
/* Publish everything emitted so far, pending frees included. */
void gt__client_flush(gt_client *client);
/* An error if the client is closed, dead, or belongs to another process. */
gt_err gt__client_check(gt_client *client);

/* Why a client that is closed cannot be used. */
const char *gt__client_end(const gt_client *client);
/* Connect. `token`: to the session that is detached under it (handover.h); NULL: to a new one. */
gt_err gt__client_open(const char *address, const char *key_file, int timeout_ms, const char *token,
                       gt_client **out);
/* Free a closed client if nothing refers to it. */
void gt__client_maybe_destroy(gt_client *client);

/* ---- waiting and bulk data: transfer.c ---------------------------------------------------------------------- */

/*
 * Between these two the calling thread alone uses the client; other threads that want it sleep, inside the wait hooks. The
 * lock is taken only to wait: the language's own lock serialises everything else.
 */
gt_err gt__client_lock(gt_client *client);
void gt__client_unlock(gt_client *client);
/*
 * Threads that find a client `waiting` queue for it, and get it in order. Otherwise a thread that waits again and again would
 * keep it: the others only get to run while it waits. All but gt__turn_wait are called with the language's lock.
 */
void gt__turn_join(gt_client *client, gt_turn *turn);
/* Without the language's lock: sleep until it may be our turn, or for so long (-1: no limit). */
void gt__turn_wait(gt_client *client, const gt_turn *turn, int timeout_ms);
/* True: it is our turn. We have left the queue, and the client is not `waiting`. */
bool gt__turn_take(gt_client *client, gt_turn *turn);
/* Let those behind go first, or not any more. */
void gt__turn_away(gt_client *client, gt_turn *turn, bool away);
void gt__turn_leave(gt_client *client, gt_turn *turn);
/* In a forked child, where no thread waits. */
void gt__client_reset_lock(void);

/*
 * Wait on the link inside the wait hooks; the client must be locked. GT_OK: look again; GT_ERR_INTERRUPTED: the language
 * wants to stop (Ctrl-C); GT_ERR_CONNECTION: the server is gone.
 */
gt_err gt__client_wait(gt_client *client, gt_wait what);

/*
 * Fetch into memory that the client lends: *data points to the elements until gt__lease_end. It is a recycled shared segment
 * if the link has segments, else plain memory. numpy() returns it without another copy.
 */
typedef struct gt_lease gt_lease;
gt_err gt__fetch_lease(gt_tensor *tensor, void **data, gt_lease **lease);
void gt__lease_end(gt_lease *lease); /* the client may be closed; the caller holds the language's lock */

/* Publish everything and wait for the answer to a ticket: bytes, malloc'ed, with a NUL behind them. `op`: the question. */
gt_err gt__client_await(gt_client *client, gt_opcode op, uint64_t ticket, char **bytes, size_t *count);
/* The dispatcher's statistics as JSON text, malloc'ed; it waits for the dispatcher to take this client's records so far. With
 * `workers`, and for each worker to execute them. */
gt_err gt__client_stats(gt_client *client, bool workers, char **json);
/* The same if it comes soon; else what the dispatcher knows and the workers have published: within 50 ms, whatever is queued. */
gt_err gt__client_stats_now(gt_client *client, bool workers, char **json);
/* What the server says to a monitor: it has not to take this client's records first. statistics.c */
gt_err gt__client_glance(gt_client *client, char **json);
/* A connection to this client's server as a monitor that has asked for a topic. Waits without the hooks, about `patience_ms` at
 * most. The caller closes *link. */
gt_err gt__client_monitor(gt_client *client, uint64_t topic, int interval_ms, int patience_ms, gt_link **link);
/* Where a tensor lives, "split(axis=0, workers=[0,1])", malloc'ed. */
gt_err gt__tensor_placement(gt_tensor *tensor, char **text);

/* ---- embedded server: embedded.c ---------------------------------------------------------------------------- */

enum { GT_MAX_EMBEDDED_WORKERS = GT_MAX_PARTIES };

/* A modifier (dispatcher/modifier.h) for the sessions of embedded servers that start from now on; NULL: none. The Python
 * extension sets it, for gt.register_modifier. */
struct gt_modifier_ops;
extern _Atomic(const struct gt_modifier_ops *) gt__embedded_modifier;

gt_err gt__embedded_start(int workers, const char *backend, gt_embedded **embedded, gt_link **link);
/* Why a worker ended, if one did so with an error; GT_OK otherwise. */
gt_err gt__embedded_failure(gt_embedded *embedded);
void gt__embedded_stop(gt_embedded **embedded);
int gt__embedded_port(const gt_embedded *embedded); /* where monitors reach it */
/* Whether this thread is one of an embedded server: an engine's or a modifier's method runs in it. It must not wait for a client, and is
 * refused. */
bool gt__embedded_serves(void);
gt_err gt__embedded_refuse(void);

#endif
