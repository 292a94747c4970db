/*
 * monitor.h: peers that only observe: `gt top` and `gt trace`.
 *
 * A monitor connects like any peer, by any transport, to the dispatcher's one port (gt__address_connect), says hello
 * as GT_ROLE_MONITOR (gt__hello_send, gt__hello_wait) and asks for topics with a `watch` record; a later one replaces it:
 *
 *     watch    imm[0] topics (GT_TOPIC_..., added up), imm[1] milliseconds between two statistics,
 *              operand[0]: the number of the client that GT_TOPIC_CLIENT and GT_TOPIC_PROGRESS tell of
 *
 * From then on it gets `reply` records, and need not answer:
 *
 *     result = GT_TOPIC_STATS   the dispatcher's statistics (stats.c) as JSON text, at once and then at every interval.
 *                               A text comes in pieces: imm[0] offset, imm[1] bytes in the tail, GT_FLAG_LAST on the last.
 *                               Those that have no room come later, and texts that are due meanwhile after them
 *     result = GT_TOPIC_CLIENT  one client, its tensors and its lines (inspect.c), in the same way; less often if it has so many
 *                               tensors that it takes long
 *     result = GT_TOPIC_PROGRESS  what the client's instructions wait for, as a line of text, in the same way
 *     result = GT_TOPIC_LINES   lines of the instruction log (log_text.h), always whole ones: imm[1] bytes in the tail;
 *                               operand[0]: lines that were lost so far because the monitor did not keep up
 *
 * A monitor of the server's own user, or with a worker's key, may give orders (`gt drain`, `gt reload`). It then gets lines about
 * what is done (GT_TOPIC_ORDER_NEWS), and how it ended (GT_TOPIC_ORDER_DONE or _FAILED):
 *
 *     order    imm[0] gt_monitor_order, tail: the name or number of a worker
 *
 * Counters in the statistics only grow: rates are differences. An embedded server listens too, for monitors only, at
 * PORT.memory in the socket directory (address.h): gt__address_servers lists the servers.
 *
 * The dispatcher does not wait for monitors: lines that a link has no room for are dropped and counted. Without monitors
 * nothing is done. Statistics wait for no worker: they are what the workers have published (reports.c), which they do anyway;
 * only workers behind ZeroMQ are asked for reports, at the monitor's interval. Only GT_TOPIC_LINES makes workers time every
 * instruction.
 */
#ifndef GT_DISPATCHER_OBSERVE_MONITOR_H
#define GT_DISPATCHER_OBSERVE_MONITOR_H

#include "core/report.h"

typedef struct gt_dispatcher gt_dispatcher;
typedef struct gt_peer gt_peer;
typedef struct gt_monitor gt_monitor;

gt_err gt__monitor_new(gt_peer *peer);
void gt__monitor_free(gt_monitor *monitor);
/* Read the topics that the monitor asks for. */
gt_err gt__monitor_serve(gt_monitor *monitor, bool *progress);

/* Every turn, while there are monitors: send statistics and lines that are due. */
void gt__monitors_turn(gt_dispatcher *dispatcher);
/* Milliseconds until something is due; -1: nothing is. */
int gt__monitors_timeout_ms(const gt_dispatcher *dispatcher);
/* A line about the drain of the worker with this life, for the monitors that ordered it. `topic`: GT_TOPIC_ORDER_... */
void gt__monitors_tell(gt_dispatcher *dispatcher, uint64_t life, uint64_t topic, const char *text);
/* The server has read its files again, for the monitors that ordered it. `failure`: NULL if all is well. */
void gt__monitors_reloaded(gt_dispatcher *dispatcher, const char *failure);
/* A line of the log, for the monitors that asked for lines. */
void gt__monitors_line(gt_dispatcher *dispatcher, const char *line, size_t length);

#endif
