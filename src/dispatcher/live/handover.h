/*
 * handover.h: a session goes from one client to another: gt.detach() and gt.attach().
 *
 * A client that detaches sends a parcel: bytes that only the next client reads, then the ids of the tensors that stay. When all its
 * records are placed it gets a token, its link is closed and the session gets a link that nothing comes from (link/parked.h). To
 * everything else it is a session whose client is idle: its workers may leave, die and come back meanwhile. A client that shows the
 * token in its hello gets the session, and asks for the parcel.
 *
 * A token is good for one client of the same user, and for a limited time; then the session ends. A detached session counts as a
 * connection of its user.
 */
#ifndef GT_DISPATCHER_LIVE_HANDOVER_H
#define GT_DISPATCHER_LIVE_HANDOVER_H

#include "dispatcher/session.h"
#include "link/keys.h"

typedef struct gt_handover {
    enum {
        GT_HANDOVER_PARCEL,
        GT_HANDOVER_MARKS, /* which tensors stay */
        GT_HANDOVER_FREES, /* the others */
        GT_HANDOVER_WANTED,
        GT_HANDOVER_WRITTEN, /* to the server's journal, with the token, which the client has not got yet */
        GT_HANDOVER_TOLD,
        GT_HANDOVER_DETACHED,
        GT_HANDOVER_TAKEN
    } phase;
    uint8_t *parcel;
    uint64_t received, bytes; /* of the parcel */
    uint64_t kept, marked;    /* ids at its end; those that were looked at */
    uint8_t *stays;           /* a bit for each of the session's handles */
    uint32_t cursor;          /* in these */
    uint64_t ticket;          /* of the question for a token */
    gt_link *parked;          /* for the time without a client; NULL: it is in use, or was */
    char token[GT_SECRET_SIZE];
    uint64_t expires_ns;
} gt_handover;

/* A piece of a parcel: a client's `detach`. */
gt_err gt__handover_piece(gt_session *session, const gt_slot *record);
/* A client's `attach`: answer with the parcel. */
gt_err gt__handover_collect(gt_session *session, const gt_slot *record);
/* Whether the client has said all that it will say: nothing more is taken from it. */
static inline bool gt__handover_begun(const gt_session *session)
{
    return __builtin_expect(session->handover != NULL, 0) && session->handover->phase != GT_HANDOVER_PARCEL &&
           session->handover->phase != GT_HANDOVER_TAKEN;
}
static inline bool gt__session_is_detached(const gt_session *session)
{
    return session->handover && session->handover->phase == GT_HANDOVER_DETACHED;
}
/* Its token is in the journal, and told when it is safe there: the journal wakes it. */
static inline bool gt__handover_waits_for_journal(const gt_session *session)
{
    return session->handover && session->handover->phase == GT_HANDOVER_WRITTEN;
}
/* After the session was served: go on with its handover. *progress is set if there is more to do. An error ends it. */
gt_err gt__handover_turn(gt_session *session, bool *progress);
/* A client has said hello with a token: give its link to the session, whose peer it is from now on. The client's peer of before has
 * nothing to do any more and must end, on GT_OK as well. */
gt_err gt__handover_take(gt_peer *newcomer, const gt_slot *hello);
/* Seconds until the token expires. */
double gt__handover_left_s(const gt_session *session);
/* Now and then: end the sessions whose tokens have expired. */
void gt__handovers_look(gt_dispatcher *dispatcher);
/* The server ends: name the sessions that are lost with it. */
void gt__handovers_name(const gt_dispatcher *dispatcher);
void gt__handover_free(gt_session *session);

#endif
