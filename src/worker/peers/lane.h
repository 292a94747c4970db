/*
 * lane.h: another way for messages between two workers that have a link of the mesh: a lane, such as UCX's.
 *
 * The mesh keeps what it is good at: who may talk to whom (keys, the dispatcher's introductions, generations), who is alive,
 * and a way that always works. A lane moves messages, by whatever the machines have: shared memory, tcp, RDMA. Each worker
 * that has a lane offers it on a new link, which is authenticated by then; a pair uses it where both offer it. So a worker
 * with a lane and one without understand each other.
 *
 * A lane is a plug-in, gt-exchange-NAME.so, that exports one symbol, gt_exchange_plugin. lane.c finds and loads it; mesh_lane.c
 * connects it with the mesh; ucx/lane_ucx.c is one.
 *
 * Threads: all functions and events are called by the mesh's thread, except open, before that starts, and close, after it has
 * ended.
 */
#ifndef GT_WORKER_PEERS_LANE_H
#define GT_WORKER_PEERS_LANE_H

#include "worker/peers/exchange.h"

typedef struct gt_lane gt_lane;         /* the plug-in's: one of each worker */
typedef struct gt_lane_end gt_lane_end; /* the plug-in's: one of each link */

enum {
    GT_LANE_VERSION = 3,
    GT_LANE_WHY = 160,         /* bytes of a text that says what failed */
    GT_LANE_OFFER = 16 * 1024, /* most bytes of an offer */
};

/* What the mesh does for a lane. `link` is what `connect` was given. */
typedef struct gt_lane_events {
    /* A message of that size is coming: one with room for its bytes, in *data. An `err` in it: there is no room, and its bytes
     * are dropped. NULL: not even for that; the link fails. */
    gt_message *(*room)(void *mesh, void *link, const gt_message *content, void **data);
    /* A tensor is coming that may go to the engine's memory: the message that `fetch` is called with later. NULL: out of memory; the
     * link fails. */
    gt_message *(*announced)(void *mesh, void *link, const gt_message *content, void *pending);
    void (*arrived)(void *mesh, gt_message *message); /* one of room or fetch, with its bytes */
    void (*lost)(void *mesh, gt_message *message);    /* one of room or announced, whose bytes will not come */
    void (*sent)(void *mesh,
                 gt_message *message); /* its memory is not read any more, whether it was sent or not */
    void (*failed)(void *mesh, void *link, const char *why);
} gt_lane_events;

typedef struct gt_lane_ops {
    const char *name;
    /* `interface`: the network interface that may be used; NULL: none, only ways inside this host, for this user. An error
     * has a text in `why`. */
    gt_err (*open)(const gt_lane_events *events, void *mesh, const char *interface, char why[GT_LANE_WHY],
                   gt_lane **lane);
    /* The messages that are being sent are given a moment, then ended; each comes back by `sent`. */
    void (*close)(gt_lane *lane);
    /* Our end of a link, and what the other needs to reach it: secret, only for the other. NULL: out of memory. */
    gt_lane_end *(*offer)(gt_lane *lane, void *link, void *offer, size_t *bytes);
    /* The other's offer. False: there is no such way between the two; the link alone serves. */
    bool (*connect)(gt_lane_end *end, const void *offer, size_t bytes);
    /* Whether messages may lie in memory of this type, by UCX's names ("cuda"), besides the host's. From then on exposed ones are
     * of that type, and tensors are announced. Once, by the worker's thread, before the first message. */
    bool (*reach)(gt_lane *lane, const char *memory_type);
    /* Bring an announced message to memory of that type. NULL: there is none; it arrives without its bytes. */
    void (*fetch)(gt_lane *lane, gt_message *message, void *to);
    /* Never waits; takes the message until `sent`. */
    void (*send)(gt_lane_end *end, gt_message *message);
    /* The link is lost: no more events for it but `sent`. Frees the end. */
    void (*disconnect)(gt_lane_end *end);
    bool (*progress)(gt_lane *lane); /* true: something was done */
    int (*fd)(gt_lane *lane);        /* readable after arm, when there is something to do */
    bool (*arm)(gt_lane *lane);      /* false: there is something to do now */
} gt_lane_ops;

typedef struct gt_lane_plugin {
    uint32_t version, message_bytes; /* GT_LANE_VERSION, sizeof(gt_message) */
    const gt_lane_ops *ops;
} gt_lane_plugin;

#define GT_LANE_SYMBOL "gt_exchange_plugin"

/* lane.c. What GT_EXCHANGE says. An unknown name is an error. */
typedef enum gt_exchange_choice {
    GT_CHOOSE_AUTO, /* NCCL for collectives, UCX for the rest, where they are there and need no trust that was not given */
    GT_CHOOSE_MESH,
    GT_CHOOSE_UCX,
    GT_CHOOSE_NCCL /* the mesh, and NCCL's collectives */
} gt_exchange_choice;
gt_err gt__exchange_choose(gt_exchange_choice *choice);
/* The lane to use; NULL, without an error, if there is none. *asked: GT_EXCHANGE names it. Otherwise it was chosen: for a worker
 * that workers of other hosts reach, by a network that is trusted. */
gt_err gt__lane_find(bool reachable, const gt_lane_ops **ops, bool *asked);

#endif
