/* remote.h: run a shell script on several hosts at the same time, by ssh; on this host without it. */
#ifndef GT_CLI_UP_REMOTE_H
#define GT_CLI_UP_REMOTE_H

#include <stddef.h>

#include "cli/up/hosts.h"

/* The script is the standard input of `sh -s`: keys in it are on no command line. */
typedef struct gt_remote {
    const gt_up_host *host;
    char *script; /* the caller frees it */
    size_t length;
    /* results, freed by gt__remote_free */
    char *output, *errors; /* NUL-ended */
    int status;            /* of ssh or sh; -1: ended by a signal */
    bool late;             /* it was killed at the deadline */
} gt_remote;

/* Returns when all have ended, or `timeout_ms` are over. Fails only if a process cannot be started. */
gt_err gt__remote_run(const gt_cluster *cluster, gt_remote *remotes, size_t count, int timeout_ms);
void gt__remote_free(gt_remote *remote); /* the results and the script */

#endif
