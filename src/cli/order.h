/* order.h: what `gt drain` and `gt reload` share: an order to a running server, and what becomes of it. */
#ifndef GT_CLI_ORDER_H
#define GT_CLI_ORDER_H

#include "cli/options.h"
#include "cli/watcher.h"

typedef struct gt_order_arguments {
    gt_watch_options watch;
    bool quiet;
} gt_order_arguments;

/* The options of both: -p, --host, -q. `options` has room for GT_ORDER_OPTIONS, with the end of the table. */
enum { GT_ORDER_OPTIONS = 4 };
void gt__order_options(gt_order_arguments *arguments, gt_option options[GT_ORDER_OPTIONS]);
/* Give the order and print what the server says until it is done or has failed. Returns the exit status. */
int gt__order_run(const char *command, const gt_order_arguments *arguments, gt_monitor_order order,
                  const char *text);

#endif
