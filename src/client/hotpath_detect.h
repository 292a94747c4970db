/*
 * hotpath_detect.h: the detector of hot paths: which part of a stream repeats, and where to cut it.
 *
 * Each computing record has two hashes of its canonical form, which has no ids: `shape` of its op, dtypes, flags and place
 * in the program, `exact` of everything else that a path cannot have as a parameter (where a slice begins is one). A period is found by looking up where the
 * last few shapes came before in this order, or else the last one alone: a record of a model's layers comes many times in each
 * step. It is kept as long as every record equals the one a period before. A
 * sequence is hot after GT_HOTPATH_THRESHOLD periods. Amortised constant time for each record: while a period is kept its records are
 * only noted (gt__detector_note). When it ends, the records of its last turn are added to the index.
 *
 * A detour ends a period: an evaluation every ten steps, or the report of a loss. The stream then repeats itself with the longer
 * period of steps and detours, which would take many times as long to become hot. So the period with the most turns so far is compared
 * beside the present one (gt_lapsed). Records that equal the one such a period before count for it, others twice against it: equal layers and
 * updates of parameters, which are a part of a step, are not to be taken for it. It is hot again when it is hot in sum and has come twice in a
 * row.
 *
 * While a loop runs in paths, turn by turn, the detector rests: it only follows where in its last turn the stream is
 * (gt__detector_follow). At the first difference it sees the part of that turn again, as if the turns between had not been.
 *
 * A period is cut into segments where the client waited or sent data in each of the last two periods, and around records
 * that are not exactly the same each time. A period that is many turns of a path and something else, as the steps of an epoch
 * and its evaluation, is cut around these turns. If nothing cuts it, it is cut where the client waited last, if it did, or where the
 * fewest tensors are alive; of several such places, where the fewest records use what was made just before. A period that is hot again after a
 * detour is cut where that ended.
 */
#ifndef GT_CLIENT_HOTPATH_DETECT_H
#define GT_CLIENT_HOTPATH_DETECT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/path.h"

typedef struct gt_canonical {
    uint32_t shape, exact;
} gt_canonical;

gt_canonical gt__canonical_any(const gt_slot *record);
static inline uint64_t gt__hash_mix(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * 0x9E3779B97F4A7C15u;
}
static inline uint64_t gt__hash_shape(const gt_slot *record)
{
    return gt__hash_mix(record->u64[GT_WORD_HEAD], record->u64[GT_WORD_PLACE] << 17);
}
/* The same without `exact`, which takes longer. */
static inline uint32_t gt__canonical_shape(const gt_slot *record)
{
    return (uint32_t)(gt__hash_shape(record) >> 32);
}

static inline gt_canonical gt__canonical(const gt_slot *record)
{
    unsigned form = gt__op_table[record->ins.op].form;
    bool is_plain = form >= GT_FORM_UNARY && form <= GT_FORM_BINARY && record->ins.op != GT_OP_clamp;
    if (!is_plain || record->ins.tail)
        return gt__canonical_any(record);
    uint32_t shape =
        gt__canonical_shape(record); /* all its numbers may be parameters (gt__path_parameter_words) */
    return (gt_canonical){.shape = shape, .exact = shape};
}

typedef struct gt_segment_plan {
    uint64_t begin, end; /* positions in the stream of computing records */
} gt_segment_plan;

enum { GT_HOT_SEGMENTS = 32 };

/* A period that ended, and may go on after a detour. */
typedef struct gt_lapsed {
    uint32_t period; /* 0: there is none */
    uint64_t run;    /* records in a row that equal the one such a period before */
    uint64_t credit,
        needed;     /* all that did, less twice those that did not until they were enough; and how many are */
    unsigned tries; /* how often that was told, */
    bool told;      /* and whether it was in this run */
} gt_lapsed;

/* The period that became hot last. */
typedef struct gt_hot_period {
    uint32_t period;
    bool resumed;   /* after a detour: it was the lapsed one */
    uint64_t since; /* the position of the first record that equals the one such a period before */
} gt_hot_period;

typedef struct gt_detector {
    struct gt_past {
        gt_canonical canonical;
        uint32_t live, work; /* tensors alive before it; elements that it touches */
        bool separated;      /* something that cannot be part of a path came before it */
        uint16_t reach;      /* results since its youngest operand was made; 0: unknown, or many */
        uint32_t run;     /* the path that began with it; GT_WITHIN_RUN: it was a later part of one; 0: single */
    } * past;             /* ring: the last `capacity` records; it grows with the stream, up to a limit */
    uint64_t capacity;    /* a power of 2, more than twice the longest period that is looked for */
    uint64_t position;    /* records seen */
    uint64_t quiet_until; /* see gt__detector_goes_on */
    uint64_t matched;     /* records that equal the one a period before */
    uint32_t period;      /* 0: none */
    bool told;            /* that this period is hot */
    bool separator;       /* one came since the last record */
    gt_lapsed lapsed;
    gt_hot_period hot;
    bool idle;        /* it rests because nothing of the period can be a path */
    uint32_t kept;    /* a path whose runs are most of the hot period, and stay as they are; 0: there is none */
    uint32_t *last;   /* by shape, 1 << index_bits: the position where it was seen last, plus one */
    uint32_t *behind; /* the same by `context` */
    uint64_t indexed; /* from this position on records are in neither: each equals the one a period before */
    uint64_t context; /* a hash of the last GT_CONTEXT shapes before `indexed` */
    unsigned index_bits;
    uint64_t separated_at; /* the position of the last record after a separator, */
    uint64_t stretch;      /* and the records between the last two of these */
    uint64_t turn, phase;  /* while it rests: records of a turn, and of the present one; turn 0: it does not */
    unsigned window, threshold, shortest;
} gt_detector;

#define GT_WITHIN_RUN UINT32_MAX
enum { GT_CONTEXT = 16 };

static inline struct gt_past *gt__detector_past(const gt_detector *detector, uint64_t position)
{
    return &detector->past[position & (detector->capacity - 1)];
}

/* window: the longest period; threshold: repetitions; shortest: the shortest path. */
bool gt__detector_init(gt_detector *detector, unsigned window, unsigned threshold, unsigned shortest);
void gt__detector_free(gt_detector *detector);
/* See one record. run: see gt_past. True: a sequence has become hot with it, most of which was not in paths so far. */
bool gt__detector_see(gt_detector *detector, gt_canonical canonical, uint64_t live, int64_t work, uint32_t run);
/* Whether the lapsed period is hot with the record that was seen, if that did not make the present one hot. True: as above. */
bool gt__detector_resume(gt_detector *detector);
static inline bool gt__detector_resumes(gt_detector *d)
{
    const gt_lapsed *lapsed = &d->lapsed;
    return __builtin_expect(lapsed->period, 0) && lapsed->credit >= lapsed->needed &&
           lapsed->run >= lapsed->period && gt__detector_resume(d);
}
/* A single record with no separator before it. */
static inline struct gt_past gt__past(gt_canonical canonical, uint64_t live, int64_t work)
{
    uint32_t elements = work > UINT32_MAX ? UINT32_MAX : (uint32_t)work;
    return (struct gt_past){.canonical = canonical, .live = (uint32_t)live, .work = elements};
}
/*
 * Whether a record of this shape only has to be noted: it equals the one a period before, there is no separator before it, the ring need
 * not grow, and the period cannot be hot before another whole turn.
 */
static inline bool gt__detector_goes_on(const gt_detector *d, uint32_t shape)
{
    return d->position < d->quiet_until && !d->separator &&
           gt__detector_past(d, d->position - d->period)->canonical.shape == shape;
}
/* Count the record at the present position for the lapsed period, or against it. */
static inline void gt__detector_compare_lapsed(gt_detector *d, uint32_t shape)
{
    gt_lapsed *lapsed = &d->lapsed;
    if (__builtin_expect(!lapsed->period, 1))
        return;
    if (gt__detector_past(d, d->position - lapsed->period)->canonical.shape == shape) {
        lapsed->run++;
        lapsed->credit++;
    } else {
        lapsed->run = 0;
        lapsed->told = false;
        if (lapsed->credit < lapsed->needed)
            lapsed->credit -= lapsed->credit < 2 ? lapsed->credit : 2;
    }
}
/* The same as see, for a record that goes on. */
static inline void gt__detector_note(gt_detector *d, gt_canonical canonical, uint64_t live, int64_t work)
{
    gt__detector_compare_lapsed(d, canonical.shape);
    *gt__detector_past(d, d->position++) = gt__past(canonical, live, work);
    d->matched++;
}
/* What became hot while records that were held back were seen is told with the next one. told: as it was before them. */
static inline void gt__detector_tell_later(gt_detector *d, bool told)
{
    d->told &= told;
    d->quiet_until = 0;
}
/* The record seen last, which was not held back: how far its operands are. */
static inline void gt__detector_reach(gt_detector *detector, const gt_instruction *ins, unsigned operands)
{
    uint64_t least = UINT16_MAX + 1u;
    for (unsigned k = 0; k < operands; k++)
        if (gt__literal(ins, k) == GT_LITERAL_NONE && ins->result - ins->operand[k] < least)
            least = ins->result - ins->operand[k];
    gt__detector_past(detector, detector->position - 1)->reach = (uint16_t)least;
}
/* The last `count` records were a run of path `run`: rest if it ran at the same place of the last turn. */
void gt__detector_rest(gt_detector *detector, uint32_t run, uint32_t count);
/* Nothing of the hot period can be a path: rest until the stream goes on in another way, or is divided in another way. */
void gt__detector_idle(gt_detector *detector);
/* Rest no longer. */
void gt__detector_wake(gt_detector *detector);
/* While it rests: true: the stream goes on as in the last turn, with this single record or a run of so many. */
bool gt__detector_follow_record(gt_detector *detector, uint32_t shape);
bool gt__detector_follow_run(gt_detector *detector, uint32_t run, uint32_t count);
/* Whether the record at the present position, not seen yet, equals the one a period before. */
static inline bool gt__detector_expects(const gt_detector *d, gt_canonical canonical)
{
    return d->period && gt__detector_past(d, d->position - d->period)->canonical.shape == canonical.shape;
}
/* The same, or of the lapsed period. */
static inline bool gt__detector_foresees(const gt_detector *d, gt_canonical canonical)
{
    uint32_t lapsed = d->lapsed.period;
    return gt__detector_expects(d, canonical) ||
           (lapsed && gt__detector_past(d, d->position - lapsed)->canonical.shape == canonical.shape);
}
/* Whether the last period began with these shapes, so that they are expected to come now. */
bool gt__detector_expects_all(const gt_detector *detector, const gt_canonical *canonical, uint32_t count);
/* Cut the hot period: segments that begin at the present position or later, in order. Returns their number. */
unsigned gt__detector_cut(const gt_detector *detector, gt_segment_plan segments[GT_HOT_SEGMENTS]);

#endif
