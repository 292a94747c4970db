/*
 * link/zmq_page.h: the page of a ZeroMQ link (link.h), which the peer may read at any moment, whatever our thread does.
 *
 * The side that has connected answers questions for its page from a thread of its own, over a connection of its own: a socket
 * belongs to one thread. The two belong together by a random number, which both connections show to the router. The router asks, and
 * keeps a copy of what came last.
 */
#ifndef GT_LINK_ZMQ_PAGE_H
#define GT_LINK_ZMQ_PAGE_H

#include <zmq.h>

#include "link/link.h"

/* The answer to a GT_ZMQ_PAGE_ASK. */
typedef struct gt_zmq_page_frame {
    uint64_t asked; /* the value of the question */
    uint64_t at_ns; /* the sender's clock */
    uint64_t words[GT_LINK_PAGE / sizeof(uint64_t)];
} gt_zmq_page_frame;

_Static_assert(sizeof(gt_zmq_page_frame) == 16 + GT_LINK_PAGE, "no padding");

typedef struct gt_zmq_page gt_zmq_page;

/* Start to answer by this socket, which is connecting, and is taken, also on failure. NULL: it failed. */
gt_zmq_page *gt__zmq_page_new(void *socket, uint64_t token);
/* GT_LINK_PAGE bytes. */
void *gt__zmq_page_bytes(gt_zmq_page *page);
/* Ends the thread and closes the socket. NULL: nothing happens. */
void gt__zmq_page_free(gt_zmq_page *page);
/* In a forked child: the thread and the socket are the parent's. */
void gt__zmq_page_abandon(gt_zmq_page *page);

#endif
