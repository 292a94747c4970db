/*
 * hello.h: how a client or worker introduces itself over a fresh link, and where to find a server.
 */
#ifndef GT_LINK_HELLO_H
#define GT_LINK_HELLO_H

#include "link/keys.h"
#include "link/link.h"

typedef struct gt_welcome {
    uint64_t number;    /* our number at the dispatcher */
    int workers;        /* connected now */
    int worker_entries; /* all worker numbers are below this */
    uint64_t key;       /* to workers: the secret that they show each other */
    uint64_t life;      /* to workers: the generation of this worker number */
    double
        max_op_seconds; /* to workers, instead of `workers`: an operation that runs longer is cancelled; 0: no limit */
    bool segments;      /* bulk data may go through shared memory */
} gt_welcome;

/* In operand[0] of a hello, besides the number: the user chose the worker's name. */
#define GT_HELLO_NAMED ((uint64_t)1 << 63)
/* The same: it stands in for a dead worker, until a replacement comes. */
#define GT_HELLO_STAND_IN ((uint64_t)1 << 62)
/* The same, three bits: by which exchange it passes data to other workers, an index of gt__exchange_names. */
#define GT_HELLO_EXCHANGE_SHIFT 59
#define GT_HELLO_EXCHANGE ((uint64_t)7 << GT_HELLO_EXCHANGE_SHIFT)
#define GT_HELLO_BITS (GT_HELLO_NAMED | GT_HELLO_STAND_IN | GT_HELLO_EXCHANGE)

enum { GT_EXCHANGE_NAMES = 8 };
extern const char *const gt__exchange_names[GT_EXCHANGE_NAMES];

/* What a worker says of itself. */
typedef struct gt_worker_hello {
    const char *name, *engine;
    bool named;           /* the user chose the name: a worker that has it now is replaced */
    bool stand_in;        /* it stands in for the worker of that number */
    const char *exchange; /* one of gt__exchange_names */
    const char *listens;  /* where other workers reach it, "host:port"; NULL: they cannot */
    const char *token;    /* of a client that attaches a session; NULL: of a worker, or a new session */
    int number;           /* the worker number it asks for; -1: any */
    uint64_t memory;      /* which memory it draws on */
    uint64_t group;       /* with whose engines its own shares memory (engine.h) */
    uint64_t league;      /* with whose engines its own holds collectives (engine.h) */
    uint64_t host;        /* on which it is */
} gt_worker_hello;

/* timeout_ms if positive, else GT_CONNECT_TIMEOUT. */
int gt__connect_timeout_ms(int timeout_ms);

/* "host:port" or "transport://host:port": connect by the transport named, or the fastest that works. `key_file`: see
 * keys.h; NULL: GT_KEY_FILE, else none. */
gt_err gt__address_connect(const char *address, const char *key_file, int timeout_ms, gt_link **link);
/* The same with keys; NULL: none. */
gt_err gt__address_connect_with(const char *address, const gt_keys *keys, int timeout_ms, gt_link **link);

/* Introduce ourselves. `name` and `more` are cut at 63 bytes; NULL is "". more: of a worker its engine, of a client its
 * TRACEPARENT (the dispatcher's trace_ids.h). */
gt_err gt__hello_send(gt_link *link, gt_role role, const char *name, const char *more);
/* The same for a client. `token`: of the detached session that it wants; NULL: it begins one. */
gt_err gt__hello_send_client(gt_link *link, const char *name, const char *more, const char *token);
/* The same for a worker, which also shows the secret of a server on this host (keys.h), by which it may join. */
gt_err gt__hello_send_worker(gt_link *link, const gt_worker_hello *hello);
/* What a server says to its peers when it ends; one with a journal may be started again. */
#define GT_SERVER_STOPS "the server is stopping"
#define GT_SERVER_PAUSES "the server is stopping, and may be started again"
/* Wait for the answer: a welcome, or a refusal whose reason becomes the error. A refusal stays in the link, but for GT_SERVER_PAUSES, which is
 * no answer to the greeting. GT_ERR_INTERRUPTED: a signal arrived; call it again to go on waiting. */
gt_err gt__hello_wait(gt_link *link, int timeout_ms, gt_welcome *welcome);
/* Say that we leave; the link is flushed. */
void gt__goodbye_send(gt_link *link, const char *reason);

#endif
