/*
 * link/zmq_resume.h: a ZeroMQ link that outlives its connection, for clients by tcp.
 *
 * Both ends keep the frames that they have sent until the peer returns credit for them: 4 MiB at most, the window. ZeroMQ counts
 * references to the bytes of a frame, so nothing is copied, and writing a record costs what it did. When the connection is lost, both ends keep the
 * link for a while: what is written goes into the frames that are kept. The end that connects makes a new connection, and its
 * first frame shows the secret that it gave the other end with the first one, and how many slots have come. The other end answers with its
 * own number, and both send what is missing. The users of the link see a pause and no other change.
 *
 * A server with a journal gives credit only for what the journal has. So when it is killed and started again, its clients have kept the
 * rest, and it goes on where the journal ends (link/expected.h). What it sends begins anew: the client drops the answers of the
 * process before, and link->restarts says that its questions must be asked again.
 */
#ifndef GT_LINK_ZMQ_RESUME_H
#define GT_LINK_ZMQ_RESUME_H

#include "link/zmq.h"

/* A frame whose size neither an array of slots nor a control has. */
typedef struct gt_zmq_resume {
    uint32_t magic;
    uint32_t kind;    /* GT_ZMQ_SECRET, GT_ZMQ_RESUME, GT_ZMQ_RESUMED */
    uint64_t arrived; /* slots that came to the sender of this */
    uint64_t given;   /* slots that it has given credit back for */
    uint64_t sent;    /* slots that it has sent */
    uint64_t life;    /* of the server: the one that the sender knows, or its own */
    uint8_t secret[GT_ZMQ_SECRET_BYTES];
} gt_zmq_resume;

/* The numbers of `link` in a frame, sent to its peer even while it is cut. */
bool gt__zmq_resume_send(gt_zmq_link *link, gt_zmq_kind kind);
/* Whether the frame is such a one. */
bool gt__zmq_resume_read(zmq_msg_t *frame, gt_zmq_resume *resume);

/* Keep what is sent from now on. */
void gt__zmq_keep(gt_zmq_link *link);
/* A frame is about to be sent; false: out of memory. */
bool gt__zmq_keep_frame(gt_zmq_link *link, zmq_msg_t *frame);
/* Credit came back: drop the frames before link->returned. */
void gt__zmq_keep_less(gt_zmq_link *link);

/* The server is another process than before, which has sent nothing yet. */
void gt__zmq_restarted(gt_zmq_link *link, uint64_t life);
/* The peer is there again, with those numbers: send it what it has not got. A peer with impossible numbers ends the link. */
void gt__zmq_resumed(gt_zmq_link *link, const gt_zmq_resume *peer);

/* In constant time, and not for a link without one. */
bool gt__zmq_knows_secret(const gt_zmq_link *link, const uint8_t *secret);

#endif
