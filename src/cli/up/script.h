/*
 * script.h: the shell scripts that `gt up` and `gt down` run on the hosts. Each host has a private folder for the cluster,
 * DIRECTORY/NAME/HOST, with the keys, PART.pid and PART.log of each part. PART.pid has the process's number and the time of its start, so
 * that another process with the same number is never taken for it.
 *
 * A script prints lines; `error` comes alone:
 *     runs PART PID           it runs
 *     says PART TEXT          ... with this as the last line of its log; TEXT may be empty
 *     started PART PID        the script has started it
 *     stopped PART PID        the script has ended it
 *     ended PART TEXT         it ran once and does not now; TEXT: the last line of its log
 *     absent PART             it was never started, or `gt down` ended it
 *     port PORT               of the server
 *     top JSON                what `gt top --json` says of the server
 *     error TEXT              the host cannot run the cluster
 */
#ifndef GT_CLI_UP_SCRIPT_H
#define GT_CLI_UP_SCRIPT_H

#include <stdio.h>

#include "cli/up/hosts.h"

/* The beginning of every script: functions, and the private folder. `make`: make it; else a host
 * without one prints nothing. */
void gt__script_begin(FILE *out, const gt_cluster *cluster, const gt_up_host *host, bool make);
/* A private file in that folder. */
void gt__script_file(FILE *out, const char *name, const char *text);
/* Start a part unless it runs. `port`: of the server, for workers. */
void gt__script_start(FILE *out, const gt_cluster *cluster, const gt_up_part *part, int port);
/* Wait until the server that was started listens, and print its port. */
void gt__script_await_server(FILE *out);
/* Print what is with the part; with the server also its port and what it says of its workers. */
void gt__script_report(FILE *out, const gt_cluster *cluster, const gt_up_part *part);
/* End a part that runs; NULL: all workers that have a file, then the server if `server`. */
void gt__script_stop(FILE *out, const gt_up_part *part, bool server);

#endif
