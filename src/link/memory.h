/*
 * link/memory.h: shared by the two halves of the memory transport: link/memory_socket.c sets connections up and
 * passes descriptors, link/memory.c moves slots through the rings.
 */
#ifndef GT_LINK_MEMORY_H
#define GT_LINK_MEMORY_H

#include "link/link.h"

/* Messages on the unix socket, one packet each. Slots never go there. */
typedef enum gt_memory_kind {
    GT_MEMORY_HELLO = 1,   /* from the connecting side, with its version */
    GT_MEMORY_WELCOME = 2, /* from the accepting side, with the descriptors of a gt_memory_parts */
    GT_MEMORY_SEGMENT = 3, /* from either side: one segment's descriptor; value: its id */
} gt_memory_kind;

typedef struct gt_memory_message {
    uint64_t magic;
    uint32_t version;
    uint32_t kind;
    uint64_t value;
} gt_memory_message;

/*
 * The descriptors of a connection. The accepting side creates them, so the server maps only memory of its own making.
 *
 * A bell is an eventfd: one side rings it, the other watches it with an edge-triggered epoll and never reads it. The
 * accepting side must not block in a call on an eventfd that the peer can fill or make blocking. So the peer never gets
 * the bell that we ring, only an epoll that reports it. The one that the peer rings, we neither read nor write.
 */
enum { GT_MEMORY_PARTS = 3 };

typedef struct gt_memory_parts {
    int rings; /* memfd */
    int ring;  /* eventfd: wakes the peer */
    int watch; /* readable when the peer rang: an eventfd, or an epoll over one */
} gt_memory_parts;

/* The parts of both sides: [0] connecting, [1] accepting. Both have the same rings. */
gt_err gt__memory_parts_new(gt_memory_parts parts[2]);
void gt__memory_parts_close(gt_memory_parts *parts);

/* The end of a connection for `side`; takes the socket and the parts, also on failure. */
gt_err gt__memory_link_new(int side, int socket, gt_memory_parts *parts, const char *peer, gt_link **link);

typedef enum gt_memory_received {
    GT_MEMORY_RECEIVED,
    GT_MEMORY_NOTHING, /* no message waits */
    GT_MEMORY_GONE,    /* the peer closed, or died */
    GT_MEMORY_GARBAGE, /* malformed message */
} gt_memory_received;

/* Neither blocks. `fds` holds `count` descriptors, -1 where none came. send: GT_ERR_TIMEOUT when the socket is
 * full. */
gt_err gt__memory_send(int socket, gt_memory_kind kind, uint64_t value, const int *fds, int count);
gt_memory_received gt__memory_receive(int socket, gt_memory_message *message, int *fds, int count);
/* Close a connection to a peer. Descriptors that it sent and we did not take would be closed by the kernel in our thread,
 * which may block (segment.h): takes them first. */
void gt__memory_hang_up(int socket);

#endif
