/*
 * answers.h: the records that a client is sent: answers of workers passed on, and those that the dispatcher makes itself.
 *
 * Nothing here waits for the client. Answers that its link has no room for are kept in session->unread, up to a bound; a
 * client that leaves more than that unread is disconnected, and told so: the link has room for a goodbye.
 */
#ifndef GT_DISPATCHER_ANSWERS_H
#define GT_DISPATCHER_ANSWERS_H

#include "dispatcher/session.h"

void gt__answers_init(gt_session *session);
/* Send one answer record, behind those that wait. */
void gt__answer_send(gt_session *session, const gt_slot *record);
/* Send the answers that wait, as far as there is room; true if some were sent. */
bool gt__answers_flush(gt_session *session);

void gt__answer_failure(gt_session *session, uint64_t ticket, gt_err err, const char *text);
/* A question names a tensor that the session does not have: it was left out (quota.h), or there is none. */
gt_err gt__answer_unknown(gt_session *session, const gt_instruction *question);
/* Bytes, in as many records as they need. */
void gt__answer_bytes(gt_session *session, uint64_t ticket, const void *data, size_t bytes);
/* The dispatcher's statistics. */
void gt__answer_stats(gt_session *session, uint64_t ticket);
/* The placement of the tensor that the record asks about. */
gt_err gt__answer_placement(gt_session *session, const gt_instruction *ins);

#endif
