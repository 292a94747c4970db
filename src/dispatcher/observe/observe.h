/*
 * observe.h: the dispatcher's observer: the instruction log (log_text.h), the lines that monitors trace (monitor.h) and the
 * tape (tape.h).
 *
 * Observing does not change the streams, and no stream waits for it, except for a disk that stays slower than the work
 * (file_writer.h); a failing log is switched off. While neither log, tape nor monitor is wanted it costs one branch a
 * record, on a flag in a cache line that the record needs anyway. While lines are wanted, workers get a `watch`: they
 * send how long each record took (the worker's timing.h), and the observer keeps, for each worker, the records sent whose
 * timing has not come yet, to put the two together. A record is known by its number in that worker's stream.
 *
 * A line begins as an event (log_text.h), which is encoded in about ten bytes (log_code.h). A file whose name ends in .gtlog gets
 * these as they are. For other names the log's own thread turns them into text when the dispatcher is idle, or when
 * 28 MiB of them wait: a burst of a million small instructions does not share its processors with its log.
 */
#ifndef GT_DISPATCHER_OBSERVE_OBSERVE_H
#define GT_DISPATCHER_OBSERVE_OBSERVE_H

#include "dispatcher/observe/log_code.h"
#include "dispatcher/observe/shapes.h"
#include "dispatcher/observe/trace_ids.h"

typedef struct gt_dispatcher gt_dispatcher;
typedef struct gt_dispatch_worker gt_dispatch_worker;
typedef struct gt_session gt_session;
typedef struct gt_observer gt_observer;
typedef struct gt_layout gt_layout;

typedef struct gt_observer_options {
    const char *
        log; /* path of the instruction log, compact if it ends in .gtlog; NULL: GT_INSTRUCTION_LOG; none: no log */
    uint64_t log_bytes; /* rotate beyond; 0: GT_INSTRUCTION_LOG_SIZE, else never */
    const char *tape;   /* path of the tape; NULL: GT_TAPE; none: no tape */
    bool keep_old;  /* the files of a process before this one become path.1, path.2, ...: the last four are kept */
    bool console;   /* the same lines on standard output */
    bool trace_ids; /* lines have trace= and span= (trace_ids.h); also with GT_TRACE_IDS */
} gt_observer_options;

/* The observer's state of a client. */
typedef struct gt_watched_client {
    gt_log_text *source; /* "CLIENT 1" */
    uint32_t trace;      /* its number in trace_ids.h; 0: none */
    uint32_t last_scope; /* of the last record in the log; and whether it was a gradient */
    bool last_backward;
    struct gt_watched_place {
        uint32_t scope, site;
        gt_log_text *text;  /* " scope=layer1 at=train.py:12"; NULL: not known yet */
    } * places;             /* GT_WATCHED_PLACES of them, by a hash; NULL: none yet */
    uint64_t path;          /* serial of the path whose text this is; 0: none */
    gt_log_text *path_text; /* " instructions=3 ops=mul,add,relu" */
    gt_slot held;           /* an answer (synced.h); */
    uint64_t held_by;       /* its deadline; 0: none is held */
} gt_watched_client;

enum { GT_WATCHED_FAILURES = 64, GT_WATCHED_PLACES = 256 };

/* The observer's state of a worker. */
typedef struct gt_watched {
    gt_log_text *source;  /* "WORKER auto_worker" */
    struct gt_sent *sent; /* ring: records in its stream whose timing has not come yet */
    uint32_t sent_first, sent_count, sent_capacity;
    gt_slot_shapes shapes;
    uint64_t awaited;        /* number of the last record whose timing an answer is held for */
    int64_t clock_offset_ns; /* the worker's clock minus ours */
    struct gt_failed {
        uint64_t number, sequence; /* of a record that failed: in its stream, in the log */
    } last_failed,
        failures[GT_WATCHED_FAILURES]; /* the last of all; the last ones that this worker caused itself */
    unsigned failure_next;
} gt_watched;

gt_err gt__observer_new(gt_dispatcher *dispatcher, const gt_observer_options *options);
void gt__observer_free(gt_dispatcher *dispatcher);

/* Clients with smaller numbers than this began before this process: the tape could not be replayed with them. */
void gt__observer_tape_from(gt_dispatcher *dispatcher, uint64_t number);

/* Monitors begin or cease to want lines: called once for each change. */
void gt__observer_trace(gt_dispatcher *dispatcher, bool wanted);
/* Before the loop sleeps: make the log and the tape readable up to here. */
void gt__observer_flush(gt_dispatcher *dispatcher);
/* Waits until the log is written up to here. */
void gt__observer_write(gt_dispatcher *dispatcher);
/* Whether timings up to watched.awaited are missing. */
bool gt__observer_awaits(const gt_dispatch_worker *worker);

/* ---- events; only while dispatcher->observing (received) or ->watching (the others) -------------------------- */

void gt__observe_received(gt_session *session, const gt_slot *record);
/* A run of a path: its records, all at once. False: this must be done one by one. */
bool gt__observe_run(gt_session *session, const gt_path *path, const gt_slot *run);
/* The record being handled, as its line in the log and its tensor (0: none is): kept with records that wait, and given
 * back when they are placed. */
void gt__observe_cause(const gt_dispatcher *dispatcher, uint64_t *line, uint64_t *tensor);
void gt__observe_resume(const gt_session *session, uint64_t line, uint64_t tensor);
/* Records sent from now on are not caused by a client's record. */
void gt__observe_handled(gt_dispatcher *dispatcher);
/* The record that makes this slot of the worker is going to be sent: it makes a member's part of a tensor like `whole`. Call it
 * while the worker is observed. */
void gt__observe_part(gt_dispatch_worker *worker, uint32_t slot, const gt_layout *layout, unsigned member,
                      const gt_meta *whole);
/* The slot becomes a result of a path, like `meta`. Call it while the worker is observed. */
void gt__observe_path_result(gt_dispatch_worker *worker, uint32_t slot, const gt_meta *meta);
/* A record that was just committed to a worker's link. */
void gt__observe_sent(gt_dispatch_worker *worker, const gt_slot *record);
void gt__observe_answered(gt_session *session, gt_opcode op, uint64_t tensor, uint64_t bytes, bool failed);
/* A worker's answer, complete: `answer` is its last piece. */
void gt__observe_worker_answer(gt_dispatch_worker *worker, gt_opcode op, const gt_session *session,
                               uint64_t tensor, uint64_t bytes, const gt_slot *answer);
/* Records that a worker sends without a question: timing, and failures with GT_FLAG_UNASKED. */
void gt__observe_timing(gt_dispatch_worker *worker, const gt_slot *record);
void gt__observe_failure(gt_dispatch_worker *worker, const gt_slot *record);
/* For a worker's failure on its way to the client: the log's number of the instruction that failed first. 0: unknown. */
uint64_t gt__observe_log_number(const gt_dispatch_worker *worker, const gt_instruction *failure);

/* These may be called at any time. */
void gt__observe_refused(gt_session *session, uint64_t ticket, const char *text); /* no worker could be asked */
/* left: NULL: it connected; else why it left. `context`: its TRACEPARENT (trace_ids.h), if it connected. */
void gt__observe_client(gt_session *session, const char *left, const char *context);
void gt__observe_worker(gt_dispatch_worker *worker, const char *left);

#endif
