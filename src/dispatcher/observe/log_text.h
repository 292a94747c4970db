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
 * Lines of workers have the shape of what is made or sent there, and which part of a spread tensor it is: shard=2/4 axis=0 is the
 * second of four parts, copy=2/4 a whole copy of it, summand=2/4 one of four whose sum it is.
 * WORKER_RECV has start= and duration= in seconds: when the worker began, on this log's clock, and how long it took.
 */
#ifndef GT_DISPATCHER_OBSERVE_LOG_TEXT_H
#define GT_DISPATCHER_OBSERVE_LOG_TEXT_H

#include "core/path.h"

enum {
    GT_LOG_LINE = 4096,  /* most bytes of a line */
    GT_LOG_SOURCE = 104, /* bytes of "CLIENT 1" */
    GT_LOG_TEXT = 640,   /* bytes of a shared text */
    GT_LOG_OWN = 1152,   /* bytes of a line's own text */
    GT_LOG_RECORD = 3,   /* slots of a record that a line shows */
    GT_LOG_NOTES = 3,    /* shared texts of a line, besides its source */
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
    GT_EVENT_COUNT
} gt_event;

/* "RECV        ": their names, padded to the column. */
enum { GT_EVENT_WIDTH = 12 };
extern const char gt__event_columns[GT_EVENT_COUNT][GT_EVENT_WIDTH + 1];

/* A text that many lines have: the name of a source, a place in the user's code, a shape. Whoever made it frees it. */
typedef struct gt_log_text {
    uint64_t block;  /* of the file (log_code.h): the last that has it, */
    uint32_t number; /* under this number */
    uint32_t serial; /* no other text of this process has it */
    uint16_t length;
    char text[];
} gt_log_text;

gt_log_text *gt__log_text_new(const char *text,
                              size_t length); /* at most GT_LOG_TEXT bytes of it; NULL: out of memory */

/* The content of a line, before it is text. Borrows what it points to. */
typedef struct gt_log_event {
    uint64_t sequence;
    uint64_t at_ns; /* since the dispatcher started */
    uint64_t bytes; /* sent */
    uint16_t op;
    uint8_t event;
    bool failed;
    uint8_t slots;                  /* RECV: of the client's record, at most GT_LOG_RECORD */
    const gt_slot *record;          /* RECV */
    uint64_t session, tensor;       /* SEND, WORKER_SEND, WORKER_RECV: the subject */
    uint64_t start_ns, duration_ns; /* WORKER_RECV: since the dispatcher started; start 0: not known */
    gt_log_text *source;            /* NULL: not known */
    gt_log_text *notes[GT_LOG_NOTES];
    const char *text; /* text_length bytes of its own, at the end */
    size_t text_length;
} gt_log_event;

/* Call it before anything else here; more than once is harmless. */
void gt__log_text_init(void);

/* State kept from line to line: text that is likely to repeat. */
typedef struct gt_log_format gt_log_format;

gt_log_format *gt__log_format_new(void); /* NULL: out of memory */
void gt__log_format_free(gt_log_format *format);
/* The line, with its end of line; at most GT_LOG_LINE bytes. Returns its end. */
char *gt__log_line(gt_log_format *format, const gt_log_event *event, char *at);

/* The name of a source, "CLIENT 1", safe to print. NULL: out of memory. */
gt_log_text *gt__log_source(const char *kind, const char *name);

/* Details; each returns its end. Those of a client's record; without a format (NULL) it takes longer. */
char *gt__log_received(gt_log_format *format, char *at, const gt_slot *record);
char *gt__log_number(char *at, const char *key, uint64_t value);
/* "instruction=#0011": a line of this log. */
char *gt__log_line_number(char *at, const char *key, uint64_t sequence);
/* A place in the user's code as the log names it: without the directories, one word; and " at=train.py:12". */
void gt__log_place_make(const char *place, char *name, size_t size);
char *gt__log_place(char *at, const char *name);
/* " instructions=3 ops=mul,add,relu": what a path does; less than GT_LOG_TEXT bytes. */
char *gt__log_path(char *at, const gt_path *path);
/* " shape=(32,64)" */
char *gt__log_shape(char *at, unsigned rank, const int64_t *shape);
/* " scope=layer1" */
char *gt__log_scope(char *at, const char *name);
char *gt__log_word(char *at, const char *text);
/* ' key="text"', with characters replaced that would break the line. */
char *gt__log_quoted(char *at, const char *key, const char *text, size_t length);

/* "BinaryOp", "GetData", ...; with Worker before it for records to workers. */
const char *gt__log_command(gt_opcode op, bool worker);

#endif
