/*
 * link/expected.h: links of a server with a journal, which outlive its process.
 *
 * The journal has the description of each client's link. A server that is started again on the same port expects those clients:
 * each has a link that is cut, and the client makes another connection by its secret (zmq_resume.h). What it has sent behind the slots
 * that the journal has comes again. What the server sends begins anew.
 */
#ifndef GT_LINK_EXPECTED_H
#define GT_LINK_EXPECTED_H

#include "link/link.h"

enum { GT_LINK_SECRET_BYTES = 32 };

/* How the peer of a link is known again. */
typedef struct gt_link_description {
    uint8_t secret[GT_LINK_SECRET_BYTES];
    bool is_local; /* by ipc; else by tcp */
    uint8_t trust; /* gt_trust */
    char user[48], host[64], key[41];
} gt_link_description;

/* Tell the clients of this ZeroMQ acceptor that the server may be started again, before they say hello. */
void gt__acceptor_outlives(gt_acceptor *acceptor);
/* False: the link ends with this process. After gt__link_resumes. */
bool gt__link_describe(const gt_link *link, gt_link_description *description);
/* A link whose peer is to come within this time (negative: GT_RESTART_MS), of whose records the first `arrived` slots are not needed
 * again. Not returned by poll. The caller closes it. */
gt_err gt__acceptor_expect(gt_acceptor *acceptor, const gt_link_description *description, uint64_t arrived,
                           int within_ms, gt_link **link);

#endif
