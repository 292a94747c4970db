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
#ifndef GT_DISPATCHER_LOG_TEXT_H
#define GT_DISPATCHER_LOG_TEXT_H

#include "instruction.h"

enum {
    GT_LOG_LINE = 4096,   /* bytes that a line never exceeds */
    GT_LOG_SOURCE = 104,
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

/* "CLIENT 1", padded to its column; made once a peer. */
typedef struct gt_log_source {
    char text[GT_LOG_SOURCE];
    unsigned length;
} gt_log_source;

void gt__log_source_set(gt_log_source *source, const char *kind, const char *name);

typedef struct gt_log_counter {
    uint64_t value;
    unsigned length; /* 0: no text yet */
    char text[24];
} gt_log_counter;

/* What the lines share, kept by whoever writes them. */
typedef struct gt_log_clock {
    gt_log_counter sequence;
    uint64_t started_ns;
    char elapsed[32]; /* "1.608113s" */
    unsigned elapsed_length;
} gt_log_clock;

/* Before anything else here is called; more than once does no harm. */
void gt__log_text_init(void);
void gt__log_clock_set(gt_log_clock *clock, uint64_t now_ns);

/* Everything up to the details; returns its end. `op` picks the command. */
char *gt__log_head(char *at, gt_log_clock *clock, uint64_t sequence, gt_event event, const gt_log_source *source,
                   gt_opcode op, uint64_t bytes);

/* Details; each returns its end. */
char *gt__log_received(char *at, const gt_slot *record);
/* What a record is about, as workers know it: "op=add result=1_2"; `session` 0: by the worker's own slots. */
char *gt__log_subject(char *at, gt_opcode op, uint64_t session, uint64_t tensor);
char *gt__log_seconds(char *at, const char *key, uint64_t ns); /* " start=1.608113250s" */
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
/* The tensor that a client's record is about: what it makes, or reads, or frees first. */
uint64_t gt__log_tensor(const gt_instruction *ins);

#endif
