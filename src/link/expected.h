/*
 * link/expected.h: links of a server with a journal, which outlive its process.
 *
 * The journal names the clients. A server that is started again on the same port expects those clients:
 * each has a link that is cut, and the client makes another connection by its secret (zmq_resume.h). What it has sent behind the slots
 * that the journal has comes again. What the server sends begins anew.
 */
#ifndef GT_LINK_EXPECTED_H
#define GT_LINK_EXPECTED_H

#include "link/link.h"

/* What the link was, and how its peer is known again. All texts are borrowed. */
typedef struct gt_link_expected {
    const uint8_t *secret; /* gt__link_secret */
    const char *user, *host, *key;
    uint64_t arrived; /* slots of its records that are not needed again */
    int within_ms;    /* the peer must come; negative: GT_RESTART_MS */
} gt_link_expected;

/* Tell the clients of this ZeroMQ acceptor that the server may be started again, before they say hello. */
void gt__acceptor_outlives(gt_acceptor *acceptor);
/* A link that waits for its peer. Not returned by poll; the caller closes it. */
gt_err gt__acceptor_expect(gt_acceptor *acceptor, const gt_link_expected *expected, gt_link **link);

#endif
