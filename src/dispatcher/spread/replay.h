/*
 * replay.h: runs of a path on spread tensors, without placing each instruction again.
 *
 * What the workers are sent for such a run follows from the path, from the workers and signals that there are, and from how
 * its inputs are placed (layouts, shapes, dtypes). From run to run only slots, tags of moves and values of parameters
 * differ. So a run is recorded (replay_record.c): it is expanded, and what each worker gets becomes a stream of records
 * with gaps for these words. Stretches of computing records between two moves become paths that only this worker has.
 * Later runs whose inputs are placed in the same way fill the gaps and send the streams (replay.c).
 */
#ifndef GT_DISPATCHER_SPREAD_REPLAY_H
#define GT_DISPATCHER_SPREAD_REPLAY_H

#include "core/path.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/workers.h"

/* Where a part of a tensor is. */
typedef struct gt_place {
    int32_t worker;
    uint32_t source; /* its slot is this source of the run */
} gt_place;

/* A tensor, and where it is. */
typedef struct gt_placed {
    uint64_t which; /* the path's local or input (core/path.h) */
    gt_meta meta;
    gt_layout *layout; /* NULL: on one worker */
    uint32_t count;    /* places: by member of the layout, then whole copies */
    gt_place *place;
} gt_placed;

/* Word `word` of a stream is a source of the run, plus a constant. */
typedef struct gt_gap {
    uint32_t word, source;
    int64_t plus;
} gt_gap;

/* Where a slice begins, a parameter of the run, decides which workers have a part of it (moving.h). */
typedef struct gt_start {
    uint32_t parameter;
    int64_t least, most; /* for which the replay holds */
} gt_start;

/* A path of the worker. */
typedef struct gt_told {
    uint32_t number;
    uint32_t slots;      /* of the definition */
    gt_slot *definition; /* for a worker that replaces it; NULL: the session is not recoverable */
} gt_told;

/* What one worker gets. */
typedef struct gt_stream {
    int32_t worker;
    uint64_t life; /* of the worker */
    gt_slot *records;
    uint32_t slots;
    gt_gap *gaps;
    uint32_t gap_count;
    uint32_t fresh, fresh_count; /* sources: slots that are new in this run */
    uint32_t *gone, gone_count;  /* sources: slots that are free after it, because they die in a path */
    gt_told *told;
    uint32_t told_count;
    uint64_t instructions; /* that count for the worker */
    uint64_t estimated_ns; /* its time, when it was recorded */
    gt_traffic traffic;
} gt_stream;

/*
 * A way to place the inputs, and what a run is then. Sources of a run: its parameters, tags, slots of the inputs in the
 * order of their places, slots that are new.
 */
typedef struct gt_replay {
    uint64_t workers, config; /* the state of both that it holds for */
    uint64_t epoch;           /* of the session, when it was made */
    gt_placed *input;
    uint32_t input_count;
    uint32_t tags, first_input, sources; /* counts of sources, and which is the first of the inputs */
    bool recorded;                       /* what follows is there */
    gt_start *start;
    uint32_t starts;
    bool cannot; /* be recorded */
    bool alone;  /* an input dies or is placed in another way afterwards: no other input may be the same tensor */
    gt_stream *stream;
    uint32_t streams;
    gt_placed *result; /* outputs, and inputs that are placed in another way afterwards */
    uint32_t results;
} gt_replay;

enum {
    GT_REPLAYS =
        16 /* of one path: its inputs may be placed in several ways, and its slices begin on several workers */
};

typedef struct gt_replays {
    gt_replay *replay[GT_REPLAYS];
    unsigned last, added; /* the one that served last; how many there were */
} gt_replays;

/* Memory that the runs of a session use in turn. */
typedef struct gt_replay_scratch {
    uint64_t *source;
    size_t capacity;
} gt_replay_scratch;

/* A run, checked against its path, of a session with spread tensors that is not observed. */
gt_err gt__replay_place(gt_session *session, gt_replays *replays, gt_replay_scratch *scratch, const gt_path *path,
                        const gt_slot *run);
/* Whether the worker's path of this number is a part of one of these. */
bool gt__replays_have(const gt_replays *replays, int32_t worker, uint32_t number);
void gt__replays_free(gt_session *session, gt_replays *replays);
/* The session is back at the end of this epoch, with the workers that it had or their replacements: forget what was recorded
 * later, and have the replacements know the paths of the rest. So the runs that follow are sent as they were before. */
void gt__replays_rollback(gt_session *session, gt_replays *replays, uint64_t epoch);

/* replay_record.c: expand the run and record it, if that is possible. slots: of the inputs, by place. */
gt_err gt__replay_record(gt_session *session, gt_replay *replay, const gt_path *path, const gt_slot *run,
                         const uint64_t *slots);
/* Where a tensor is now, with slots in the place of sources. False: out of memory. */
bool gt__placed_get(gt_session *session, const gt_handle *handle, uint64_t which, gt_placed *placed);
void gt__placed_free(gt_placed *placed);

#endif
