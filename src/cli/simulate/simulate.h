/*
 * cli/simulate/simulate.h: the data that the stages of `gt simulate` pass on.
 *
 *     tape --feed, follow--> gt_streams --costs, measure--> a time for each work --run--> gt_outcome --report, timeline-->
 *
 * feed.c runs the real dispatcher: it plays the clients of the tape and any number of workers that compute nothing, all in one
 * thread. So placement, sharding and collectives are those of a real run. follow.c turns what each worker is sent into items:
 * which of the worker's earlier results one needs, and what it costs (a work: all instructions that cost the same are one).
 * costs.c knows or estimates the time of works, measure.c measures it on this machine. run.c lets time pass: workers take items
 * in order, wait for each other's data and share cores. simulate.c is the command, search.c tries configs.
 */
#ifndef GT_CLI_SIMULATE_SIMULATE_H
#define GT_CLI_SIMULATE_SIMULATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/array.h"
#include "core/config.h"
#include "core/path.h"

enum { GT_SIM_KEY = 512 };

/* ---- streams: what the workers are sent ---------------------------------------------------------------------- */

typedef enum gt_sim_kind {
    GT_SIM_COMPUTE,
    GT_SIM_SEND,
    GT_SIM_RECV,
    GT_SIM_COLLECTIVE,
    GT_SIM_ANSWER, /* a client waits for it */
    GT_SIM_FREE,
} gt_sim_kind;

/* A number of times the time of another work. */
typedef struct gt_sim_part {
    uint32_t work;
    double times;
} gt_sim_part;

/* What one or many instructions are, as far as their cost goes. */
typedef struct gt_sim_work {
    char *key; /* "matmul float32(64,32) float32(32,10) = float32(64,10)": its name in a file of costs */
    uint16_t op;
    uint8_t dtype;    /* in which it computes */
    bool view;        /* it moves no elements */
    bool fast;        /* a product that may be rounded to fewer digits (TF32) */
    double bytes;     /* read and written */
    double flops;     /* of products */
    double sent;      /* collectives: bytes that each party gives to others, over links */
    unsigned steps;   /* of messages, one after the other */
    unsigned parties; /* collectives */
    gt_sim_part
        *parts; /* of a collective on the host, what each party computes; of a hot path, what is not elementwise */
    size_t part_count, part_capacity;
    uint64_t count; /* instructions */
    /* For measure.c: an instruction like it, or the path of a run, and what its operands are. */
    gt_slot *record;
    const gt_path *path;
    struct gt_sim_tensor *operands; /* numel < 0: a literal */
    unsigned operand_count;
    gt_meta *outputs; /* of a path */
    double ns;        /* its cost; < 0: not known yet */
} gt_sim_work;

typedef struct gt_sim_item {
    uint32_t cause; /* of streams->causes */
    uint32_t work;
    uint32_t needs, need_count; /* of the worker's needs: items before it whose results it reads */
    uint64_t tag;               /* of a send, recv or collective */
    uint64_t bytes; /* as the log counts them: of what arrives at this worker from others, else of the record */
    int32_t peer;   /* to whom or from whom */
    uint32_t shape; /* of streams->shapes: of the result, plus one; 0: none */
    uint8_t kind;   /* gt_sim_kind */
    bool last;      /* it comes behind all items before it */
} gt_sim_item;

typedef struct gt_sim_stream {
    gt_sim_item *items;
    size_t count, capacity;
    uint32_t *needs;
    size_t need_count, need_capacity;
} gt_sim_stream;

/* An instruction of a client. */
typedef struct gt_sim_cause {
    uint32_t session; /* number of the client, from 1 */
    uint16_t op;
    bool waits;       /* the client waits for the answer */
    bool left;        /* the client leaves here */
    uint32_t answers; /* items that answer it, of */
    uint32_t items;   /* those that it caused */
    uint32_t step;    /* of the program's loop (cli/replay/steps.c); 0: not certain */
    uint64_t tensor;  /* what it is about */
    size_t record;    /* of streams->records: its first slots, for the log; SIZE_MAX: not kept */
} gt_sim_cause;

typedef struct gt_streams {
    unsigned workers;
    gt_sim_stream *stream; /* by worker */
    gt_sim_work *works;
    size_t work_count, work_capacity;
    uint32_t *work_index; /* hash table of the keys: index plus one */
    size_t work_index_size;
    gt_sim_cause *causes;
    size_t cause_count, cause_capacity;
    gt_slot *records;
    size_t record_count, record_capacity;
    struct gt_sim_path {
        gt_path *path;
        uint64_t hash; /* of what it does */
    } * paths;         /* that workers were told */
    size_t path_count, path_capacity;
    gt_meta *shapes;
    size_t shape_count, shape_capacity;
    unsigned sessions;
    uint64_t tags; /* all tags are below this */
} gt_streams;

typedef struct gt_feed_options {
    const char *tape;
    unsigned workers;
    const char *config; /* YAML instead of the configs that the tape has; NULL: these */
    bool keep_records;  /* for a log */
} gt_feed_options;

/* Run the tape's clients through a dispatcher. GT_ERR_VALUE, GT_ERR_PROTOCOL: the tape, or the config. */
gt_err gt__streams_new(const gt_feed_options *options, gt_streams **streams);
void gt__streams_free(gt_streams **streams);

/* ---- works.c: what instructions cost the same -------------------------------------------------------------------- */

/* A tensor as an operand. */
typedef struct gt_sim_tensor {
    gt_meta meta;
    uint64_t
        permuted; /* it is a view: the axes of the `permute` that made it from a contiguous tensor; 0: it is not */
} gt_sim_tensor;

/* The work of an instruction; operands[k] NULL: a literal. It is added if there was none like it. */
uint32_t gt__work_of(gt_streams *streams, const gt_slot *record, const gt_sim_tensor *const *operands,
                     unsigned count, const gt_meta *out);
/* The work of a send, recv or collective, of data to or from a client, and of records that do nothing with elements. whole: the
 * tensor; parties: 1 if it is no collective; part: what this worker has of it, or gets. */
uint32_t gt__work_of_move(gt_streams *streams, gt_opcode op, const gt_meta *whole, unsigned parties, double part);
/* The work of a run of a hot path. GT_ERR_PROTOCOL and others: it cannot be run on these inputs. */
gt_err gt__work_of_path(gt_streams *streams, const struct gt_sim_path *path, const gt_sim_tensor *const *inputs,
                        uint32_t *work);
/* A hash of what a path does, whatever its place in a program and its parameters are. */
uint64_t gt__path_hash(const gt_path *path);
void gt__work_free(gt_sim_work *work);

/* ---- follow.c, for feed.c ------------------------------------------------------------------------------------- */

typedef struct gt_follower gt_follower; /* what is known of the tensors of one worker */

gt_follower *gt__follower_new(gt_streams *streams, unsigned worker);
void gt__follower_free(gt_follower **follower);
/* A record that the worker was sent because of a client's. GT_ERR_PROTOCOL: it makes no sense. */
gt_err gt__follow(gt_follower *follower, uint32_t cause, const gt_slot *record);

/* ---- costs ---------------------------------------------------------------------------------------------------- */

/* How data goes from one worker to another. */
typedef struct gt_sim_link {
    double latency_ns;
    double bytes_per_ns; /* 0: they read each other's memory */
} gt_sim_link;

typedef struct gt_costs {
    struct gt_cost_table *table; /* of works: costs.c */
    gt_sim_link link;
    double client_ns;   /* an instruction takes in the program */
    double dispatch_ns; /* a record of a worker in the dispatcher */
    double answer_ns;   /* from the worker to the program */
    bool in_order;      /* workers keep to the order of their streams: engines with collectives of their own */
    double crowded;     /* what is left of a core's speed where workers take turns on it; 0: all */
    bool on_device;     /* moves and sums are not the work of a worker's processor */
    bool measures;      /* works without an exact time are measured */
    unsigned
        at_once; /* workers that run at the same time: works are measured so, and times of as many are taken */
} gt_costs;

/* The table of a device; "this" has only what its links and parties take. GT_ERR_VALUE: there is none of that name. */
gt_err gt__costs_new(const char *device, gt_costs *costs);
/* Add what a file says. GT_ERR_VALUE: it cannot be read, or is wrong; the text names the line. */
gt_err gt__costs_read(gt_costs *costs, const char *path);
void gt__costs_free(gt_costs *costs);
/* The time of a work, as a file has it or as it was measured with so many at once, or if it cannot be measured with another number; < 0:
 * there is none. */
double gt__costs_exact(const gt_costs *costs, const gt_sim_work *work);
/* The name under which its measured time is kept. */
void gt__costs_measured_key(const gt_sim_work *work, unsigned at_once, char *key, size_t size);
void gt__costs_set_exact(gt_costs *costs, const char *key, double ns);
/* Set the time of all works: exact, of their parts, or by the rates of their kind. GT_ERR_VALUE: there is no rate for one. */
gt_err gt__costs_apply(const gt_costs *costs, gt_streams *streams);
/* measure.c: measure the works that have no exact time, on workers of so many threads, and add them to the file; NULL: none. */
gt_err gt__measure(const gt_streams *streams, unsigned threads, gt_costs *costs, const char *path);
/* "400Gb" (bits a second), "50GB" (bytes), with ",2us" behind it: latency; or "memory". */
gt_err gt__link_parse(const char *text, gt_sim_link *link);

/* ---- the passing of time -------------------------------------------------------------------------------------- */

typedef struct gt_run_options {
    double cores;     /* of each host; 0: as many as are needed */
    unsigned threads; /* of a worker */
} gt_run_options;

/* What a worker did with its time, in ns. */
typedef struct gt_sim_usage {
    double compute, transfer; /* its own time: instructions, moving data */
    double waits_data;        /* for data on its way, and */
    double waits_workers;     /* for other workers, which are not as far: bubbles */
    double waits_program;
    double bytes; /* that arrived from other workers */
    uint64_t instructions, moves, collectives;
} gt_sim_usage;

typedef struct gt_outcome {
    double total_ns;
    gt_sim_usage *usage;   /* by worker */
    double **start, **end; /* by worker and item */
    double *emitted;       /* by cause */
    double *answered;      /* by cause: when a client that waits has its answer */
} gt_outcome;

/* GT_ERR_INTERNAL: the workers wait for each other. */
gt_err gt__outcome_new(const gt_streams *streams, const gt_costs *costs, const gt_run_options *options,
                       gt_outcome **outcome);
void gt__outcome_free(const gt_streams *streams, gt_outcome **outcome);

/* ---- results -------------------------------------------------------------------------------------------------- */

typedef struct gt_sim_report {
    const char *tape, *device, *link, *config;
    const gt_streams *streams;
    const gt_outcome *outcome;
} gt_sim_report;

/* The time of a step of the program's loop, the median of *count; 0: it has no steps that are certain. */
double gt__step_ns(const gt_streams *streams, const gt_outcome *outcome, unsigned *count);
void gt__report_text(const gt_sim_report *report, FILE *out);
void gt__report_json(const gt_sim_report *report, FILE *out);
typedef struct gt_search_options {
    gt_feed_options feed; /* without a config */
    gt_run_options run;
    const gt_costs *costs;
    gt_err (*price)(void *context, gt_streams *streams); /* sets the times of works */
    void *context;
} gt_search_options;

/* search.c: try configs, and print the best: as YAML with comments, or JSON. */
gt_err gt__search(const gt_search_options *options, bool json, FILE *out);
/* As an instruction log; the records of the tape were kept. GT_ERR_VALUE: the file cannot be written. */
gt_err gt__timeline_write(const gt_streams *streams, const gt_outcome *outcome, const char *path);

#endif
