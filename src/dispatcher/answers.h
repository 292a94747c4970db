/*
 * answers.h: what a client is sent: answers of workers passed on, and those that the dispatcher makes itself.
 *
 * Nothing here waits for the client. What its link has no room for is kept in session->unread, up to a bound; a client
 * that leaves more than that unread is disconnected.
 */
#ifndef GT_DISPATCHER_ANSWERS_H
#define GT_DISPATCHER_ANSWERS_H

#include "dispatcher/session.h"

void gt__answers_init(gt_session *session);
/* Send one answer record, behind those that wait. */
void gt__answer_send(gt_session *session, const gt_slot *record);
/* Send what waits, as far as there is room; true if some of it went. */
bool gt__answers_flush(gt_session *session);

void gt__answer_failure(gt_session *session, uint64_t ticket, gt_err err, const char *text);
/* The dispatcher's statistics. */
void gt__answer_stats(gt_session *session, uint64_t ticket);
/* Where the tensor lives that the record asks for. */
gt_err gt__answer_placement(gt_session *session, const gt_instruction *ins);

#endif
