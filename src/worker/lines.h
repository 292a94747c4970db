/*
 * lines.h: which lines of the clients' programs a worker's time goes to: a small hash table in its statement (core/report.h),
 * which the dispatcher reads at any moment. When there are more lines than it holds, those that were not executed for longest
 * make room.
 */
#ifndef GT_WORKER_LINES_H
#define GT_WORKER_LINES_H

#include "core/report.h"

typedef struct gt_line_ages {
    uint64_t now;            /* counts what was added */
    uint64_t used[GT_LINES]; /* by line: when it was last added to */
} gt_line_ages;

/* `key`: gt__line_key. */
void gt__line_time_add(gt_statement *statement, gt_line_ages *ages, uint64_t key, uint64_t ns, uint64_t count);

#endif
