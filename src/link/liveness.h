/*
 * liveness.h: is a process of this host that says nothing busy, or stopped?
 *
 * A process that ends closes its sockets, which every link notices at once. One that is stopped (SIGSTOP, Ctrl-Z, a
 * debugger) keeps them open and is silent for ever; one that computes is silent too, perhaps for minutes, and must not
 * be taken for dead. The kernel knows the difference. Memory links ask it, while somebody waits and never on the way
 * of a record; ZeroMQ links have heartbeats, which ZeroMQ's own thread answers while the worker computes.
 */
#ifndef GT_LINK_LIVENESS_H
#define GT_LINK_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gt_liveness {
    int pid; /* of the process that is watched; 0: none, or ourselves */
    uint64_t looked_ns;
    uint64_t stopped_ns; /* how long it has been seen stopped */
} gt_liveness;

/* How often gt__liveness_lost must be called at least, by whoever wants to know in time. */
enum { GT_LIVENESS_MS = 500 };

/* Watch the process at the other end of a unix socket. */
void gt__liveness_watch(gt_liveness *watched, int socket);

/* Has it been stopped for GT_TIMEOUT? Looks now and then only, however often it is called. Time in which nobody asked,
 * because we did not wait or were stopped ourselves, does not count. */
bool gt__liveness_lost(gt_liveness *watched);

#endif
