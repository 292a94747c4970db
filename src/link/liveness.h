/*
 * liveness.h: tells a silent process on this host that is busy from one that is stopped.
 *
 * A process that ends closes its sockets, which every link notices at once. A stopped process (SIGSTOP, Ctrl-Z, a debugger)
 * keeps them open and stays silent. A process that computes is silent too, perhaps for minutes, and must not count as
 * dead. The kernel knows the difference. Memory links ask it while they wait, never while records flow. ZeroMQ links have
 * heartbeats, which ZeroMQ's own thread answers while the worker computes.
 */
#ifndef GT_LINK_LIVENESS_H
#define GT_LINK_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gt_liveness {
    int pid; /* of the watched process; 0: no process, or ourselves */
    uint64_t looked_ns;
    uint64_t stopped_ns; /* how long it has been observed stopped */
} gt_liveness;

/* Call gt__liveness_lost at least this often to notice in time. */
enum { GT_LIVENESS_MS = 500 };

/* Watch the process at the other end of a unix socket. */
void gt__liveness_watch(gt_liveness *watched, int socket);

/* Has it been stopped for GT_TIMEOUT? Asks the kernel only now and then, however often it is called. Time without calls,
 * because we did not wait or were stopped ourselves, does not count. */
bool gt__liveness_lost(gt_liveness *watched);

#endif
