/* order.c: see order.h. */
#include "cli/order.h"

#include <stdio.h>
#include <string.h>

void gt__order_options(gt_order_arguments *arguments, gt_option options[GT_ORDER_OPTIONS])
{
    options[0] =
        (gt_option){.name = "port",
                    .letter = 'p',
                    .kind = GT_OPTION_PORT,
                    .target = &arguments->watch.port,
                    .value = "PORT",
                    .help = "the server's port (default: the server on this host; 12345 on another host)"};
    options[1] = (gt_option){.name = "host",
                             .kind = GT_OPTION_TEXT,
                             .target = &arguments->watch.host,
                             .value = "HOST",
                             .help = "the server's host (default localhost)"};
    options[2] = (gt_option){.name = "quiet",
                             .letter = 'q',
                             .kind = GT_OPTION_FLAG,
                             .target = &arguments->quiet,
                             .help = "print errors only"};
    options[3] = (gt_option){0};
}

static gt_err send_order(gt_watcher *watcher, gt_monitor_order order, const char *text)
{
    gt_slot *slots = gt__link_reserve(watcher->link, 2);
    if (!slots)
        return gt__fail(GT_ERR_CONNECTION, "%s", watcher->link->reason);
    memset(slots, 0, 2 * sizeof *slots);
    slots->ins = (gt_instruction){.op = GT_OP_order, .tail = 1};
    slots->ins.imm[0].u = order;
    memcpy(slots + 1, text, strlen(text));
    gt__link_commit(watcher->link, 2);
    gt__link_flush(watcher->link);
    return GT_OK;
}

static gt_err follow(gt_watcher *watcher, bool quiet)
{
    for (uint64_t topic = 0; topic != GT_TOPIC_ORDER_DONE;) {
        gt_err err = gt__watcher_next(watcher, -1, &topic);
        if (err == GT_ERR_INTERRUPTED || err == GT_ERR_TIMEOUT)
            continue;
        GT_TRY(err);
        if (topic == GT_TOPIC_ORDER_FAILED)
            return gt__fail(GT_ERR_VALUE, "%s", watcher->text);
        if (quiet)
            continue;
        printf("%s\n", watcher->text);
        fflush(stdout);
    }
    return GT_OK;
}

int gt__order_run(const char *command, const gt_order_arguments *arguments, gt_monitor_order order,
                  const char *text)
{
    gt_watcher watcher = {0};
    gt_err err = strlen(text) < sizeof(gt_slot) ? gt__watcher_open(&watcher, &arguments->watch, 0, 0, 0)
                                                : gt__fail(GT_ERR_VALUE, "'%.40s...' is too long", text);
    if (err == GT_OK)
        err = gt__watcher_unique(&watcher);
    if (err == GT_OK)
        err = send_order(&watcher, order, text);
    if (err == GT_OK)
        err = follow(&watcher, arguments->quiet);
    if (err != GT_OK)
        fprintf(stderr, "%s: %s\n", command, gt_error_text());
    gt__watcher_close(&watcher);
    return err == GT_OK ? 0 : 1;
}
