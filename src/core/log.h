/*
 * log.h: what GT prints on standard error: warnings and errors, and more only on request.
 *
 * GT_VERBOSE=1: start-up and connections. GT_DEBUG_CLIENT, GT_DEBUG_DISPATCHER, GT_DEBUG_WORKER=1: each part's
 * instructions and decisions. GT_DEBUG_COMPILE=1: hot paths. The environment is read once.
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
    GT_LOG_TOPICS
} gt_log_topic;

/* Read the environment; called at the start of every client, dispatcher and worker. Idempotent. */
void gt__log_init(void);
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
