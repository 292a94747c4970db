/*
 * answer.h: the worker's answers to the dispatcher: fetched tensors, syncs, reports and failures, in the order of the
 * questions. An answer that waits for the engine (late.h) delays later answers, but not the execution of records.
 */
#ifndef GT_WORKER_ANSWER_H
#define GT_WORKER_ANSWER_H

#include "worker/store.h"

/* Room for an answer; waits while the link is full. NULL: the dispatcher is gone, or the worker should end. */
gt_slot *gt__worker_reserve_answer(gt_worker *worker, unsigned slots);
/* Say why a tensor does not exist: with GT_FLAG_UNASKED, to the log; else in answer to `ticket`. */
void gt__worker_answer_poison(gt_worker *worker, uint64_t ticket, const gt_poison *poison, uint8_t flags);
void gt__worker_answer_fetch(gt_worker *worker, const gt_instruction *ins);
void gt__worker_answer_sync(gt_worker *worker, const gt_instruction *ins);
void gt__worker_answer_stats(gt_worker *worker, const gt_instruction *ins);
/* When the engine has done all work before it: how long the worker has been busy. */
void gt__worker_answer_mark(gt_worker *worker, const gt_instruction *ins);

#endif
