/*
 * watcher.h: the tools' end of a dispatcher's monitoring (the dispatcher's monitor.h): find one, connect, receive.
 */
#ifndef GT_CLI_WATCHER_H
#define GT_CLI_WATCHER_H

#include <stdint.h>

#include "core/error.h"
#include "link/link.h"
#include "dispatcher/observe/monitor.h"

enum { GT_MAX_SERVERS = 64 };

/* Whom to look at, as the options say it. */
typedef struct gt_watch_options {
    const char *host; /* NULL: localhost */
    int port;         /* 0: whichever dispatcher runs on this host; on another, where they listen by default */
} gt_watch_options;

typedef struct gt_watcher {
    gt_link *link; /* NULL: it is not connected */
    char address[320];
    int servers[GT_MAX_SERVERS]; /* ports of this user's dispatchers on this host, where no port was given */
    unsigned server_count;
    char *text; /* the message under way, and room for its end */
    size_t filled, capacity;
    uint64_t lost; /* lines that the dispatcher could not send us */
} gt_watcher;

/* Connect and ask for topics (GT_TOPIC_*). `which`: of several dispatchers that run here, where no port is given.
 * */
gt_err gt__watcher_open(gt_watcher *watcher, const gt_watch_options *options, unsigned which, uint64_t topics,
                        int interval_ms);
void gt__watcher_close(gt_watcher *watcher);

/*
 * The next message that is whole: its topic in *topic, its text (NUL-ended) in watcher->text. GT_ERR_TIMEOUT:
 * there was none; GT_ERR_INTERRUPTED: a signal came; GT_ERR_CONNECTION: the dispatcher is gone.
 */
gt_err gt__watcher_next(gt_watcher *watcher, int timeout_ms, uint64_t *topic);

#endif
