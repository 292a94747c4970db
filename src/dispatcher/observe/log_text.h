/*
 * log_text.h: one line of the instruction log.
 *
 *     <elapsed> | #<seq> | <event> | <source> | <command> | <size> | <details>
 *     1.608113s | #0011 | RECV         | CLIENT 1                    | BinaryOp        |        64B | result=2 op=add left=0 right=1
 *
 * elapsed: seconds since the dispatcher started. seq: counts lines. event: RECV (from a client), SEND (the answer to it),
 * WORKER_SEND, WORKER_RECV, CONNECT, DISCONNECT, SIGNAL, ERROR. command: what kind of instruction, with Worker before
 * it where a worker is spoken to. size: bytes that travelled. details: key=value, space-separated; text in quotes comes
 * last. A client's tensor 5 is 5 in what the client says and 1_5 (client 1) in what workers are told.
 * WORKER_RECV has start= and duration= in seconds: when the worker began, on this log's clock, and how long it took.
 */
#ifndef GT_DISPATCHER_OBSERVE_LOG_TEXT_H
#define GT_DISPATCHER_OBSERVE_LOG_TEXT_H

#include "core/instruction.h"

enum {
    GT_LOG_LINE = 4096,  /* bytes that a line never exceeds; nor an event */
    GT_LOG_SOURCE = 104, /* bytes of "CLIENT 1" */
    GT_LOG_RECORD = 3,   /* slots of a record that a line tells of */
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
    GT_EVENT_SOURCE = GT_EVENT_COUNT, /* no line: the text is what `source` is called from now on */
} gt_event;

/* "RECV        ": their names, padded to the column. */
enum { GT_EVENT_WIDTH = 12 };
extern const char gt__event_columns[GT_EVENT_COUNT][GT_EVENT_WIDTH + 1];

/*
 * What a line says, before it is text: written where the thing happens, turned into text by whoever has the time. It
 * stands for itself, without pointers. It is as long as it needs to be: from `session` on comes what its kind has, a
 * subject, a subject and a span of time, `slots` slots of the client's record and then `text` bytes, or such bytes alone.
 */
typedef struct gt_log_event {
    uint64_t sequence;
    uint64_t at_ns; /* since the dispatcher started */
    uint64_t bytes; /* that travelled */
    uint32_t source;
    uint16_t op;
    uint8_t event;
    bool failed;
    uint16_t length; /* all of it, a multiple of 8 */
    uint16_t text;
    uint8_t slots;
    uint64_t session, tensor;       /* SEND, WORKER_SEND, WORKER_RECV: what it is about */
    uint64_t start_ns, duration_ns; /* WORKER_RECV: since the dispatcher started; start 0: not known */
} gt_log_event;

/* Where the record and the text lie. */
static inline char *gt__log_event_payload(const gt_log_event *event)
{
    return (char *)&event->session;
}

/* Before anything else here is called; more than once does no harm. */
void gt__log_text_init(void);

/* What goes on from one line to the next: the names of sources, and text that is likely to be wanted again. */
typedef struct gt_log_format gt_log_format;

gt_log_format *gt__log_format_new(void); /* NULL: out of memory */
void gt__log_format_free(gt_log_format *format);
/* The line, with its end of line; at most GT_LOG_LINE bytes. Returns its end: `at` if the event is none. */
char *gt__log_line(gt_log_format *format, const gt_log_event *event, char *at);

/* The name of a source, "CLIENT 1", safe to print; `text` has room for GT_LOG_SOURCE. Returns its bytes. */
unsigned gt__log_source_text(char *text, const char *kind, const char *name);

/* Details; each returns its end. What a client's record says; without a format (NULL) it takes longer. */
char *gt__log_received(gt_log_format *format, char *at, const gt_slot *record);
char *gt__log_number(char *at, const char *key, uint64_t value);
/* "instruction=#0011": a line of this log. */
char *gt__log_line_number(char *at, const char *key, uint64_t sequence);
/* A place in the user's code as the log names it: without the directories, one word; and " at=train.py:12". */
void gt__log_place_make(const char *place, char *name, size_t size);
char *gt__log_place(char *at, const char *name);
/* " scope=layer1" */
char *gt__log_scope(char *at, const char *name);
char *gt__log_word(char *at, const char *text);
/* ' key="text"', with what would break a line replaced. */
char *gt__log_quoted(char *at, const char *key, const char *text, size_t length);

/* "BinaryOp", "GetData", ...; with Worker before it for what workers are told. */
const char *gt__log_command(gt_opcode op, bool worker);

#endif
