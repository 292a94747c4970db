/*
 * exchange.h: how workers pass data to each other, directly.
 *
 * A message is bytes under a key: who sent it, the tag of its transfer and a number within that. Posting never
 * waits; taking waits for the message. Messages are found by their keys, so they may arrive in any order.
 * exchange.c has the common code. Two implementations: exchange_local.c between the threads of one
 * process, where bytes are passed by reference, and exchange_mesh.c between processes and hosts, over links.
 *
 * Threads: an exchange belongs to its worker's thread.
 */
#ifndef GT_WORKER_PEERS_EXCHANGE_H
#define GT_WORKER_PEERS_EXCHANGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/instruction.h"
#include "worker/origin.h"

typedef struct gt_exchange gt_exchange;
typedef struct gt_mailbox gt_mailbox;
typedef struct gt_engine gt_engine;

/* The generation of a worker index: the dispatcher counts all workers that ever joined, from 1. */
typedef uint64_t gt_life;

typedef struct gt_message_key {
    int32_t from;
    uint32_t number; /* within the transfer */
    uint64_t tag;
} gt_message_key;

/* The numbers of messages within a transfer. Tensors have those from 0 on: a move one, a collective one for each step of each of its
 * pieces (collective_host.c). Notes have these. No number means two things: one that was not taken would be taken for the other. */
enum {
    GT_FIRST_NOTE = 64,
    GT_NOTE_RECEIPT = GT_FIRST_NOTE, /* the other way: loans.c */
    GT_NOTE_STATUS,                  /* the rest: collective_engine.c */
    GT_NOTE_SHARED,
    GT_NOTE_AGREED,
    GT_NOTE_GIVEN_UP
};

/* What a receiver has of a message. */
typedef enum gt_message_state {
    GT_MESSAGE_HERE,      /* its bytes, or its failure */
    GT_MESSAGE_ANNOUNCED, /* it lies in the sender's memory, until the worker says where to put it */
    GT_MESSAGE_CLAIMED,   /* the worker looks for a place */
    GT_MESSAGE_FETCHED,   /* it is on its way to that place */
    GT_MESSAGE_LOST,      /* it was claimed, and then the sender was gone */
} gt_message_state;

/* A message that was taken. A failure has an error; gt__exchange_failure reads it. */
typedef struct gt_message {
    gt_message_key key;
    gt_err err;
    const void *data;
    size_t bytes;
    struct gt_message *next;
    void *owner;  /* the implementation's */
    void *lent;   /* the sender's, given back to it by reclaim; of one that was fetched: what keeps its place */
    bool tensor;  /* a whole one, which the receiver may put into its engine's memory */
    bool exposed; /* the sender's data is memory of its engine, which the host cannot read (engine.h: expose) */
    gt_message_state state;
    void *pending;              /* a lane's, from announced until it is here */
    struct gt_message *fetched; /* the next one that is to be fetched */
} gt_message;

typedef struct gt_exchange_ops {
    const char *name;
    bool by_reference; /* the receiver reads the sender's memory: posting the same bytes to many costs nothing */
    /* Deliver a message, or return it if its receiver is gone, or -1. Never waits or fails. */
    void (*put)(gt_exchange *exchange, int32_t to, gt_message *message);
    /* With the mutex: we wait for a message of that worker. GT_ERR_CONNECTION: it is gone. */
    gt_err (*expect)(gt_exchange *exchange, int32_t from);
    /* The receiver is done with a message that it took. A place that is still in it (`fetch`) comes back by reclaim. */
    void (*done)(gt_exchange *exchange, gt_message *message);
    /* Instead of done: the segment that has the bytes, for the receiver to keep; it gives it back by gt__segment_done and release.
     * NULL: they are not in one that may be kept. May be NULL. */
    struct gt_segment *(*keep)(gt_exchange *exchange, gt_message *message);
    /* Something lent that its receiver is done with; NULL if none. Never waits. */
    void *(*reclaim)(gt_exchange *exchange);
    /* The next three may be NULL. From now on tensors may leave from and arrive in this engine's memory, if it can be exposed and
     * the way allows it. Before join. */
    void (*attach)(gt_exchange *exchange, gt_engine *engine);
    /* Whether so many bytes of exposed memory can be posted to that worker now. */
    bool (*takes_exposed)(gt_exchange *exchange, int32_t to, size_t bytes);
    /* Fetch a message that was claimed to exposed memory, which `lent` keeps alive: it is in the message when that is here, and
     * handed back by reclaim if it is lost. NULL: there is no place, and it arrives as a failure, out of memory. Never waits. */
    void (*fetch)(gt_exchange *exchange, gt_message *message, void *to, void *lent);
    /* The address of another worker. The same worker may be introduced again. */
    void (*introduce)(gt_exchange *exchange, int32_t worker, gt_life life, const char *name, const char *address);
    /* Our address for other workers; "" if none. */
    const char *(*address)(gt_exchange *exchange);
    /* The dispatcher has given us an index, a generation, and the key that all its workers share. */
    gt_err (*join)(gt_exchange *exchange, int32_t self, gt_life life, uint64_t key);
    /* Before close: exchange nothing more. Memory that is lent must stay valid until this returns; then reclaim hands all of
     * it back. Once. */
    void (*leave)(gt_exchange *exchange);
    void (*close)(gt_exchange *exchange); /* after the last reclaim; leaves first if that was not done */
} gt_exchange_ops;

struct gt_exchange {
    const gt_exchange_ops *ops;
    const char *way; /* how data goes, for people: ops->name, or a lane's (lane.h) */
    int32_t self;
    const atomic_bool *stop; /* may be NULL */
    bool direct;             /* tensors may leave from and arrive in the engine's memory: attach */
    gt_origin failed;        /* the origin of a failure of the current instruction */
    uint64_t record;         /* the current instruction's number in the worker's stream */
    uint64_t replaced
        [GT_MAX_PARTIES]; /* by worker: the record that named a successor; 0: none. Earlier ones wait and send in vain */
    /* Messages for us, from join on. `arrived` is signalled, and *news counts, when one arrives or its sender is gone. */
    pthread_mutex_t *mutex;
    pthread_cond_t *arrived;
    uint64_t *news;
    gt_mailbox *mailbox;
    gt_message *stock, *spare; /* preallocated messages, to report failures when out of memory; the unused ones */
};

/* ---- using one ---------------------------------------------------------------------------------------------- */

/*
 * Post bytes. `lent`, if not NULL, keeps `data` alive: reclaim hands it back when the receiver is done; without it
 * the bytes are copied before post returns. GT_ERR_MEMORY: nothing was posted.
 */
gt_err gt__exchange_post(gt_exchange *exchange, int32_t to, uint64_t tag, uint32_t number, const void *data,
                         size_t bytes, void *lent);
/* The same for message 0 of a transfer, a whole tensor. `exposed`: in memory that takes_exposed has agreed to. */
gt_err gt__exchange_post_tensor(gt_exchange *exchange, int32_t to, uint64_t tag, const void *data, size_t bytes,
                                void *lent, bool exposed);
/* Send a failure, with its origin `failed` and its text, instead of data: the receiver waits for one of the two. If
 * out of memory it goes without the text. */
void gt__exchange_post_failure(gt_exchange *exchange, int32_t to, uint64_t tag, uint32_t number, gt_err err,
                               const char *text);
/* The failure in a message, as our error; sets `failed` to its origin. */
gt_err gt__exchange_failure(gt_exchange *exchange, const gt_message *message);
/* Wait for a message; GT_ERR_CONNECTION: its sender is gone, or this worker should end. */
gt_err gt__exchange_take(gt_exchange *exchange, int32_t from, uint64_t tag, uint32_t number, gt_message **message);
/* GT_ERR_CONNECTION: that worker is gone, and messages of it may be lost. */
gt_err gt__exchange_reaches(gt_exchange *exchange, int32_t worker);
/* Whether take would return at once, or does so within timeout_ms (-1: no limit). */
bool gt__exchange_ready(gt_exchange *exchange, int32_t from, uint64_t tag, uint32_t number, int timeout_ms);
/* The same as take without waiting: *message is NULL if it is not there yet. */
gt_err gt__exchange_look(gt_exchange *exchange, int32_t from, uint64_t tag, uint32_t number, gt_message **message);
/* A message that is announced, for `fetch`: no other call finds it until it is here. NULL: there is none. */
gt_message *gt__exchange_claim(gt_exchange *exchange, int32_t from, uint64_t tag, uint32_t number);
/* Wait until there is news after *seen, or for so long. Sets *seen; false: there is none. */
bool gt__exchange_wait(gt_exchange *exchange, uint64_t *seen, int timeout_ms);

/* ---- implementing one --------------------------------------------------------------------------------------- */

/* Initialise the common part. */
gt_err gt__exchange_init(gt_exchange *exchange, const gt_exchange_ops *ops, const atomic_bool *stop);
/* After the last message; frees the exchange, which was malloc'ed. */
void gt__exchange_free(gt_exchange *exchange);
/* Free a message that this exchange posted, when it is returned. */
void gt__message_free(gt_exchange *exchange, gt_message *message);
/* A condition on the monotonic clock. */
void gt__condition_init(pthread_cond_t *condition);

/* The place where the workers of one process meet. */
typedef struct gt_board gt_board;
gt_board *gt__board_new(void);
void gt__board_free(gt_board *board); /* after the last exchange on it is closed; NULL is fine */
gt_err gt__exchange_local(gt_board *board, const atomic_bool *stop, gt_exchange **exchange);

/* `server` is where the dispatcher was found, "host:port". `listen`: where workers that are not of this host and user reach us,
 * by a tcp port with CURVE keys; "auto": our address on the way to the server. NULL: there is none. */
gt_err gt__exchange_mesh(const char *server, const char *listen, const atomic_bool *stop, gt_exchange **exchange);

#endif
