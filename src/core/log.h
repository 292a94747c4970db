/*
 * log.h: what GT prints on standard error: warnings and errors, and more only on request.
 *
 * GT_VERBOSE=1: start-up and connections. GT_DEBUG_CLIENT, GT_DEBUG_DISPATCHER, GT_DEBUG_WORKER=1: each part's
 * instructions and decisions. GT_DEBUG_COMPILE=1: hot paths. The environment is read once.
 *
 *     2026-11-16 20:01:47.123 [gt] client 1 (train.py:4711, uid 1000, 10.0.0.5) connected by tcp
 *
 * The lines of a process that is a server begin with the time, and so do the dispatcher's in a program with a server inside.
 * What a program is told about itself does not. Lines about a peer of the dispatcher are written by gt__peer_log (dispatcher/peer.h), which says who it is.
 */
#ifndef GT_CORE_LOG_H
#define GT_CORE_LOG_H

#include <stdbool.h>

typedef enum gt_log_topic {
    GT_LOG_STATUS,
    GT_LOG_CLIENT,
    GT_LOG_DISPATCHER,
    GT_LOG_WORKER,
    GT_LOG_COMPILE,
    GT_LOG_TOPICS,
    GT_LOG_WARNING = GT_LOG_TOPICS /* for gt__peer_log: always printed */
} gt_log_topic;

/* Read the environment; called at the start of every client, dispatcher and worker. Idempotent. */
void gt__log_init(void);
/* This process is a server: all its lines have the time. Called before it starts threads. */
void gt__log_times(void);
extern bool gt__log_enabled[GT_LOG_TOPICS];

static inline bool gt__log_on(gt_log_topic topic)
{
    return __builtin_expect(gt__log_enabled[topic], 0);
}

void gt__log(gt_log_topic topic, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Always printed: for a failure that no caller can report. */
void gt__log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Always printed: something that goes on, but hardly as the user means it. */
void gt__log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
