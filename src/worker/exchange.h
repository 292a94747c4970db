/*
 * exchange.h: how workers pass data to each other, directly.
 *
 * A message is bytes under a key: who sent it, the tag of its transfer and a number within that. To post one never
 * waits; to take one waits until it is there. Messages are found by their keys, so they may arrive in any order.
 * Two implementations: exchange_local.c between the threads of one process, where bytes are passed by reference,
 * and exchange_mesh.c between processes and hosts, over links.
 *
 * Threads: an exchange belongs to its worker's thread.
 */
#ifndef GT_WORKER_EXCHANGE_H
#define GT_WORKER_EXCHANGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "origin.h"

typedef struct gt_exchange gt_exchange;

typedef struct gt_message_key {
    int32_t from;
    uint32_t number; /* within the transfer */
    uint64_t tag;
} gt_message_key;

/* A message that was taken. A failure has an error; gt__exchange_failure reads it. */
typedef struct gt_message {
    gt_message_key key;
    gt_err err;
    const void *data;
    size_t bytes;
    struct gt_message *next;
    void *owner;          /* the implementation's */
    void *lent;           /* the sender's, given back to it by reclaim */
    atomic_bool returned; /* the receiver is done */
} gt_message;

typedef struct gt_exchange_ops {
    const char *name;
    bool by_reference; /* the receiver reads the sender's memory: posting the same bytes to many costs nothing */
    /*
     * Post bytes, or a failure (by gt__exchange_post_failure). `lent`, if not NULL, keeps `data` alive: reclaim hands it back
     * when the receiver is done; without it the bytes are copied before post returns.
     */
    gt_err (*post)(gt_exchange *exchange, int32_t to, uint64_t tag, uint32_t number, gt_err err, const void *data,
                   size_t bytes, void *lent);
    /* Wait for a message; GT_ERR_CONNECTION: its sender is gone, or this worker is to stop. */
    gt_err (*take)(gt_exchange *exchange, int32_t from, uint64_t tag, uint32_t number, gt_message **message);
    /* Whether take would return at once, or does so within timeout_ms (-1: as long as it takes). */
    bool (*ready)(gt_exchange *exchange, int32_t from, uint64_t tag, uint32_t number, int timeout_ms);
    void (*done)(gt_exchange *exchange, gt_message *message);
    /* Something that was lent and is not needed any more; NULL: nothing. Never waits. */
    void *(*reclaim)(gt_exchange *exchange);
    /* Where another worker is to be found. */
    void (*introduce)(gt_exchange *exchange, int32_t worker, const char *name, const char *address);
    /* What other workers are to be told about where we are; "": nothing. */
    const char *(*address)(gt_exchange *exchange);
    /* The dispatcher has given us a number, and a key that others have too. */
    gt_err (*join)(gt_exchange *exchange, int32_t self, uint64_t key);
    void (*close)(
        gt_exchange *exchange); /* after the last reclaim: what is still lent stays valid until this returns */
} gt_exchange_ops;

struct gt_exchange {
    const gt_exchange_ops *ops;
    int32_t self;
    const atomic_bool *stop; /* may be NULL */
    gt_origin failed;        /* where the failure of the present instruction began, should it fail */
};

/* Tell a worker that there is nothing for it: the failure `failed`, and why. */
gt_err gt__exchange_post_failure(gt_exchange *exchange, int32_t to, uint64_t tag, uint32_t number, gt_err err,
                                 const char *text);
/* Fail as a message says; its origin is in `failed` then. */
gt_err gt__exchange_failure(gt_exchange *exchange, const gt_message *message);

/* The place where the workers of one process meet. */
typedef struct gt_board gt_board;
gt_board *gt__board_new(void);
void gt__board_free(gt_board *board); /* after the last exchange on it is closed; NULL is fine */
gt_err gt__exchange_local(gt_board *board, const atomic_bool *stop, gt_exchange **exchange);

/* `server` is where the dispatcher was found, "host:port" (the address others see is on the way there). */
gt_err gt__exchange_mesh(const char *server, const atomic_bool *stop, gt_exchange **exchange);

#endif
