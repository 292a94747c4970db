/*
 * watcher.h: the tools' end of monitoring (dispatcher/observe/monitor.h): find a dispatcher, connect, receive.
 */
#ifndef GT_CLI_WATCHER_H
#define GT_CLI_WATCHER_H

#include <stdatomic.h>
#include <stdint.h>

#include "cli/servers.h"
#include "core/error.h"
#include "link/link.h"
#include "dispatcher/observe/monitor.h"

/* Which dispatcher to watch, from the options. */
typedef struct gt_watch_options {
    const char *host; /* NULL: localhost */
    int port;         /* 0: any dispatcher on this host; on another host, the default port */
    bool hurry;       /* do not wait for dispatchers that are slower to answer than others */
} gt_watch_options;

typedef struct gt_watcher {
    gt_link *link; /* NULL: not connected */
    char address[320];
    int servers[GT_MAX_SERVERS]; /* ports of this user's dispatchers on this host, if no port was given */
    unsigned server_count;
    char *text; /* the message being received, NUL-ended */
    size_t filled, capacity;
    uint64_t lost;           /* lines that the dispatcher could not send us */
    const atomic_bool *stop; /* set by a handler of signals: waits end soon after; NULL: they do not */
} gt_watcher;

/* Connect and subscribe to topics (GT_TOPIC_*). `which`: the index among several dispatchers here, if no port is given. */
gt_err gt__watcher_open(gt_watcher *watcher, const gt_watch_options *options, unsigned which, uint64_t topics,
                        int interval_ms);
/* The same by a link to a dispatcher of this process, which has adopted its other end; takes it. */
gt_err gt__watcher_adopt(gt_watcher *watcher, gt_link *link, uint64_t topics, int interval_ms);
/* GT_ERR_VALUE: there are several dispatchers, and no port was given. */
gt_err gt__watcher_unique(const gt_watcher *watcher);
void gt__watcher_close(gt_watcher *watcher);

/* Ask for other topics. `client`: the number of the one that GT_TOPIC_CLIENT tells of. */
gt_err gt__watcher_ask(gt_watcher *watcher, uint64_t topics, int interval_ms, uint64_t client);

/*
 * The next complete message: its topic in *topic, its text (NUL-ended) in watcher->text. GT_ERR_TIMEOUT: no message;
 * GT_ERR_INTERRUPTED: a signal arrived, or watcher->stop is set; GT_ERR_CONNECTION: the dispatcher is gone.
 */
gt_err gt__watcher_next(gt_watcher *watcher, int timeout_ms, uint64_t *topic);

#endif
