/*
 * lending.h: memory of the test engine that engines of other processes can map, the test engine's stand-in for handles of a device's
 * memory (engines/cuda/share.c). Each engine has a file without a name, which goes with the last process that uses it.
 */
#ifndef GT_ENGINES_LATE_LENDING_H
#define GT_ENGINES_LATE_LENDING_H

#include "engines/engine.h"

typedef struct gt_lending gt_lending;

gt_err gt__lending_open(gt_lending **lending);
void gt__lending_close(gt_lending *lending);

/* The most that it can hold, in bytes. */
uint64_t gt__lending_limit(void);

/* Any thread may call these two. What is released is overwritten at once, so that late readers are seen. */
gt_err gt__lending_alloc(gt_lending *lending, size_t bytes, void **memory);
void gt__lending_release(gt_lending *lending, void *memory, size_t bytes);

/* As in gt_engine_ops. */
gt_err gt__lending_lend(const gt_lending *lending, const void *memory, gt_loan *loan);
gt_err gt__lending_borrow(gt_lending *lending, const gt_loan *loan, void **memory);
void gt__lending_give_back(gt_lending *lending, const gt_loan *loan);

#endif
