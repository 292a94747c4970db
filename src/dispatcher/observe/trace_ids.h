/*
 * trace_ids.h: ids by which lines of the log are found again in other systems, in the form of OpenTelemetry (W3C Trace Context).
 *
 * Each client is a trace: the one named in its TRACEPARENT ("00-<32 hex digits>-<16>-<2>"), else one of its own. Each of its
 * instructions is a span: all lines that it caused have the same. A client's id outlives it, for the lines of workers that come
 * after its end.
 */
#ifndef GT_DISPATCHER_OBSERVE_TRACE_IDS_H
#define GT_DISPATCHER_OBSERVE_TRACE_IDS_H

#include "dispatcher/observe/log_text.h"

typedef struct gt_trace_ids gt_trace_ids;

gt_trace_ids *gt__trace_ids_new(void); /* NULL: out of memory */
void gt__trace_ids_free(gt_trace_ids *ids);

/* A client comes; the number of its id, 0: out of memory. `context`: its TRACEPARENT, "" if it has none; anything else is as
 * none. *parent is set to " parent=<span>", which ends with a NUL, or to "". */
enum { GT_TRACE_PARENT = 32 };
uint32_t gt__trace_join(gt_trace_ids *ids, uint64_t session, const char *context, char parent[GT_TRACE_PARENT]);
void gt__trace_leave(gt_trace_ids *ids, uint32_t number);
/* " trace=<32 hex digits>" of that client; NULL: no longer known. */
gt_log_text *gt__trace_text(const gt_trace_ids *ids, uint32_t number, uint64_t session);
/* Writes " span=<16 hex digits>" for the instruction in this line of the log, and returns its end. */
char *gt__trace_span(const gt_trace_ids *ids, char *at, uint32_t number, uint64_t line);

#endif
