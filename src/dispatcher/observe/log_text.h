/*
 * log_text.h: one line of the instruction log.
 *
 *     <elapsed> | #<seq> | <event> | <source> | <command> | <size> | <details>
 *     1.608113s | #0011 | RECV         | CLIENT 1                    | BinaryOp            |        64B | result=2 op=add left=0 right=1
 *
 * elapsed: seconds since the dispatcher started. seq: counts lines. event: RECV (from a client), SEND (the answer to it),
 * WORKER_SEND, WORKER_RECV, CONNECT, DISCONNECT, SIGNAL, ERROR. command: the kind of instruction, with Worker before
 * it for records to workers. size: bytes sent. details: key=value, space-separated; text in quotes comes last. Tensor 5
 * of client 1 is 5 in lines of that client and 1_5 in lines of workers.
 * WORKER_RECV has start= and duration= in seconds: when the worker began, on this log's clock, and how long it took.
 */
#ifndef GT_DISPATCHER_OBSERVE_LOG_TEXT_H
#define GT_DISPATCHER_OBSERVE_LOG_TEXT_H

#include "core/path.h"

enum {
    GT_LOG_LINE = 4096,  /* most bytes of a line, and of an event */
    GT_LOG_SOURCE = 104, /* bytes of "CLIENT 1" */
    GT_LOG_RECORD = 3,   /* slots of a record that a line shows */
    GT_LOG_PATH = 640,   /* bytes of what it shows of a path */
};

typedef enum gt_event {
    GT_EVENT_RECV,
    GT_EVENT_SEND,
    GT_EVENT_WORKER_SEND,
    GT_EVENT_WORKER_RECV,
    GT_EVENT_CONNECT,
    GT_EVENT_DISCONNECT,
    GT_EVENT_SIGNAL,
    GT_EVENT_ERROR,
    GT_EVENT_COUNT,
    GT_EVENT_SOURCE = GT_EVENT_COUNT, /* no line: the text is the name of `source` from now on */
} gt_event;

/* "RECV        ": their names, padded to the column. */
enum { GT_EVENT_WIDTH = 12 };
extern const char gt__event_columns[GT_EVENT_COUNT][GT_EVENT_WIDTH + 1];

/*
 * The content of a line, before it is text: written by the dispatcher, turned into text by the log's thread. It has no
 * pointers. Its length depends on its kind: from `session` on there is a subject, or a subject and a span of time, or
 * `slots` slots of the client's record and then `text` bytes, or such bytes alone.
 */
typedef struct gt_log_event {
    uint64_t sequence;
    uint64_t at_ns; /* since the dispatcher started */
    uint64_t bytes; /* sent */
    uint32_t source;
    uint16_t op;
    uint8_t event;
    bool failed;
    uint16_t length; /* all of it, a multiple of 8 */
    uint16_t text;
    uint8_t slots;
    uint64_t session, tensor;       /* SEND, WORKER_SEND, WORKER_RECV: the subject */
    uint64_t start_ns, duration_ns; /* WORKER_RECV: since the dispatcher started; start 0: not known */
} gt_log_event;

/* The record and the text. */
static inline char *gt__log_event_payload(const gt_log_event *event)
{
    return (char *)&event->session;
}

/* Call it before anything else here; more than once is harmless. */
void gt__log_text_init(void);

/* State kept from line to line: the names of sources, and text that is likely to repeat. */
typedef struct gt_log_format gt_log_format;

gt_log_format *gt__log_format_new(void); /* NULL: out of memory */
void gt__log_format_free(gt_log_format *format);
/* The line, with its end of line; at most GT_LOG_LINE bytes. Returns its end; `at`: the event has no line. */
char *gt__log_line(gt_log_format *format, const gt_log_event *event, char *at);

/* The name of a source, "CLIENT 1", safe to print; `text` has room for GT_LOG_SOURCE. Returns its bytes. */
unsigned gt__log_source_text(char *text, const char *kind, const char *name);

/* Details; each returns its end. Those of a client's record; without a format (NULL) it takes longer. */
char *gt__log_received(gt_log_format *format, char *at, const gt_slot *record);
char *gt__log_number(char *at, const char *key, uint64_t value);
/* "instruction=#0011": a line of this log. */
char *gt__log_line_number(char *at, const char *key, uint64_t sequence);
/* A place in the user's code as the log names it: without the directories, one word; and " at=train.py:12". */
void gt__log_place_make(const char *place, char *name, size_t size);
char *gt__log_place(char *at, const char *name);
/* " instructions=3 ops=mul,add,relu": what a path does. */
char *gt__log_path(char *at, const gt_path *path);
/* " scope=layer1" */
char *gt__log_scope(char *at, const char *name);
char *gt__log_word(char *at, const char *text);
/* ' key="text"', with characters replaced that would break the line. */
char *gt__log_quoted(char *at, const char *key, const char *text, size_t length);

/* "BinaryOp", "GetData", ...; with Worker before it for records to workers. */
const char *gt__log_command(gt_opcode op, bool worker);

#endif
