/* failures.h: the last failures that clients were told of, for monitors. */
#ifndef GT_DISPATCHER_OBSERVE_FAILURES_H
#define GT_DISPATCHER_OBSERVE_FAILURES_H

#include <stdio.h>

#include "core/instruction.h"

typedef struct gt_dispatcher gt_dispatcher;
typedef struct gt_session gt_session;
typedef struct gt_peer gt_peer;

enum { GT_FAILURES = 32 };

/* The client may be gone when it is shown: all of it is copied. */
typedef struct gt_told_failure {
    uint64_t at_ns, client;
    char program[64], user[64], line[128], scope[GT_MAX_NAME + 1], text[256];
} gt_told_failure;

typedef struct gt_failures {
    uint64_t count; /* ever; the last GT_FAILURES are in `told`, by number modulo GT_FAILURES */
    gt_told_failure told[GT_FAILURES];
} gt_failures;

/* The client is sent this `failure`. */
void gt__failures_note(const gt_session *session, const gt_slot *record);
/* A JSON array of those that `viewer` may see, the latest first. */
void gt__failures_write(const gt_dispatcher *dispatcher, const gt_peer *viewer, FILE *json);

#endif
