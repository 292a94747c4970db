/* hotpath_detect.c: see hotpath_detect.h. */
#include "client/hotpath_detect.h"

#include <stdlib.h>

enum {
    TIES = 256, /* the longest period whose equal places are compared: takes the square of it */
    LEAST_PAST = 1 << 9,
    MOST_PAST = 1 << 15,
    MOST_INDEX_BITS = 13,
    MANY_RUNS = 6,          /* between two separators, of a period that becomes one path instead */
    MOST_TRIES = 20,        /* that are counted */
    COMPARED = 8,           /* periods, to see which records are never quite the same */
    UNROLLED = 64,          /* records of a path that is made of a short period, at most */
    UNROLLED_WORK = 1 << 15 /* and elements that it touches: more would keep the worker waiting */
};

/* ---- canonical form ------------------------------------------------------------------------------------------ */

static uint32_t hash_tail(const gt_slot *record, unsigned free_words, uint64_t hash)
{
    const uint64_t *tail = record[1].u64;
    if (record->ins.op != GT_OP_cat) /* whose tail has ids */
        for (unsigned k = free_words >> GT_WORD_TAIL ? 8 : 0; k < 8u * record->ins.tail; k++)
            hash = gt__hash_mix(hash ^ hash >> 29, tail[k]);
    return (uint32_t)(hash >> 32);
}

gt_canonical gt__canonical_any(const gt_slot *record)
{
    uint64_t hash = gt__hash_shape(record);
    gt_canonical canonical = {.shape = (uint32_t)(hash >> 32)};
    unsigned free_words = gt__path_parameter_words(&record->ins);
    if (!(free_words >> GT_WORD_IMM & 1))
        hash =
            gt__hash_mix(gt__hash_mix(hash ^ hash >> 29, record->u64[GT_WORD_IMM]), record->u64[GT_WORD_IMM + 1]);
    if (record->ins.literals)
        for (unsigned k = 0; k < gt__op_operands((gt_opcode)record->ins.op); k++)
            if (gt__literal(&record->ins, k) != GT_LITERAL_NONE && !(free_words >> (GT_WORD_OPERAND + k) & 1))
                hash = gt__hash_mix(hash ^ hash >> 29, record->u64[GT_WORD_OPERAND + k]);
    canonical.exact = record->ins.tail ? hash_tail(record, free_words, hash) : (uint32_t)(hash >> 32);
    return canonical;
}

/* ---- periods ------------------------------------------------------------------------------------------------- */

/* A record's shape moves out of the hash as others are added to it. */
static inline uint64_t add_context(uint64_t context, uint32_t shape)
{
    return (context << 64 / GT_CONTEXT) + shape * 0x9E3779B97F4A7C15u;
}

static inline uint32_t *behind(const gt_detector *d)
{
    return &d->behind[d->context >> (64 - d->index_bits)];
}

/* Add the records up to this position to the index. */
static void index_to(gt_detector *d, uint64_t end)
{
    for (; d->indexed < end; d->indexed++) {
        uint32_t shape = gt__detector_past(d, d->indexed)->canonical.shape;
        d->context = add_context(d->context, shape);
        d->last[shape >> (32 - d->index_bits)] = *behind(d) = (uint32_t)d->indexed + 1u;
    }
}

/* The same for all that were only noted. Of many turns the last one takes the places of the others. */
static void index_noted(gt_detector *d)
{
    if (d->position - d->indexed > d->period) {
        d->indexed = d->position - d->period;
        for (unsigned k = GT_CONTEXT; k > 0; k--)
            d->context = add_context(d->context, gt__detector_past(d, d->indexed - k)->canonical.shape);
    }
    index_to(d, d->position);
}

/* A ring of so many records, none of which was overwritten so far. False: out of memory; all is as before. */
static bool resize(gt_detector *d, uint64_t capacity)
{
    unsigned bits = (unsigned)__builtin_ctzll(capacity);
    bits = bits < MOST_INDEX_BITS ? bits : MOST_INDEX_BITS;
    uint32_t *last = calloc((size_t)2 << bits, sizeof *last);
    struct gt_past *grown = last ? realloc(d->past, capacity * sizeof *grown) : NULL;
    if (!grown) {
        free(last);
        return false;
    }
    free(d->last);
    d->past = grown;
    d->last = last;
    d->behind = last + ((size_t)1 << bits);
    d->capacity = capacity;
    d->index_bits = bits;
    d->context = d->indexed = 0;
    index_to(d, d->position);
    return true;
}

bool gt__detector_init(gt_detector *d, unsigned window, unsigned threshold, unsigned shortest)
{
    *d = (gt_detector){.window = window < MOST_PAST / 2 - 1 ? window : MOST_PAST / 2 - 1,
                       .threshold = threshold < 2 ? 2 : threshold,
                       .shortest = shortest < 1 ? 1 : shortest};
    return resize(d, LEAST_PAST);
}

/* The ring is full for the first time. Without memory for a larger one it stays, and longer periods are not found. */
static void grow(gt_detector *d)
{
    if (d->capacity == MOST_PAST || resize(d, 2 * d->capacity))
        return;
    d->window = d->window < d->capacity / 2 - 1 ? d->window : (unsigned)(d->capacity / 2 - 1);
    d->period = d->lapsed.period = 0;
}

void gt__detector_free(gt_detector *d)
{
    free(d->past);
    free(d->last);
}

bool gt__detector_expects_all(const gt_detector *d, const gt_canonical *canonical, uint32_t count)
{
    if (!d->period || d->matched < d->period)
        return false;
    for (uint32_t k = 0; k < count; k++)
        if (gt__detector_past(d, d->position - d->period + k % d->period)->canonical.shape != canonical[k].shape)
            return false;
    return true;
}

/* Records of one repetition. */
static uint64_t length_of(const gt_detector *d, uint32_t period)
{
    return period < d->shortest ? d->shortest : period;
}

/* Records that must match before a sequence counts as hot: the repetitions after the first. */
static uint64_t enough(const gt_detector *d)
{
    return length_of(d, d->period) * (d->threshold - 1);
}

/* The path of which most runs are in the last period, if they are most of it; else 0. A short one does not count: it is a loop that
 * was unrolled, such as the updates of an optimizer, and becomes part of the step. */
static uint32_t find_kept(const gt_detector *d)
{
    uint32_t serial = 0, votes = 0, records = 0, runs = 0;
    for (uint32_t k = d->hot.period; k > 0; k--) {
        uint32_t run = gt__detector_past(d, d->position - k)->run;
        if (!run || run == GT_WITHIN_RUN)
            continue;
        serial = votes ? serial : run;
        votes = serial == run ? votes + 1 : votes - 1;
    }
    bool inside = false;
    for (uint32_t k = d->hot.period; serial && k > 0; k--) {
        uint32_t run = gt__detector_past(d, d->position - k)->run;
        inside = run == serial || (inside && run == GT_WITHIN_RUN);
        records += inside;
        runs += run == serial;
    }
    return runs > 1 && records / runs > UNROLLED && records > d->hot.period - d->hot.period / 4 ? serial : 0;
}

/* Nearly all of the last period was sent as a few paths already: making one of them all would only keep the worker waiting. Many, as
 * those of a model's layers, are worth one path: a device may replay it at once, and what is between them becomes part of it. */
static bool runs_in_paths(const gt_detector *d)
{
    uint32_t inside = 0, runs = 0, separators = 0;
    for (uint32_t k = 1; k <= d->hot.period; k++) {
        const struct gt_past *record = gt__detector_past(d, d->position - k);
        inside += record->run != 0;
        runs += record->run && record->run != GT_WITHIN_RUN;
        separators += record->separated;
    }
    if (d->kept)
        return d->hot.period - inside < d->shortest;
    return inside > d->hot.period - d->hot.period / 16 && runs < MANY_RUNS * (separators + 1);
}

/* How far back the present record, which is in the ring, was seen, if it was at `where` (a position plus one), and the `count` - 1
 * before it were the same there; 0: it was not. */
static uint32_t distance_to(const gt_detector *d, uint32_t where, unsigned count)
{
    uint64_t position = d->position, distance = (uint32_t)position + 1u - where;
    if (!where || !distance || distance > d->window || distance + count > position + 1)
        return 0;
    for (unsigned k = 0; k < count; k++)
        if (gt__detector_past(d, position - k)->canonical.shape !=
            gt__detector_past(d, position - distance - k)->canonical.shape)
            return 0;
    return (uint32_t)distance;
}

/* The period ends. It is remembered if it has come twice in a row, and more often than the one that is; but not if it runs in paths, or is
 * so short that the context tells more. */
static __attribute__((noinline)) void lapse(gt_detector *d)
{
    gt_lapsed *lapsed = &d->lapsed;
    if (d->matched < length_of(d, d->period) || d->period < GT_CONTEXT)
        return;
    if (d->told && runs_in_paths(d))
        lapsed->period = lapsed->period == d->period ? 0 : lapsed->period;
    else if (d->period != lapsed->period &&
             (!lapsed->period || d->matched / d->period > lapsed->credit / lapsed->period))
        *lapsed = (gt_lapsed){.period = d->period, .credit = d->matched, .needed = enough(d)};
}

bool gt__detector_resume(gt_detector *d)
{
    gt_lapsed *lapsed = &d->lapsed;
    if (d->told || lapsed->told || lapsed->run < length_of(d, lapsed->period))
        return false;
    lapsed->told = true;
    /* If a detour comes before it is learned, it is tried again soon; if it can be no path, that becomes rare. */
    lapsed->needed = lapsed->credit + (length_of(d, lapsed->period) << lapsed->tries);
    lapsed->tries += lapsed->tries < MOST_TRIES;
    d->told = d->period == lapsed->period;
    d->hot = (gt_hot_period){.period = lapsed->period, .resumed = true, .since = d->position - lapsed->run};
    d->kept = find_kept(d);
    return !runs_in_paths(d);
}

/* The same as quiet_until, for the lapsed period. */
static uint64_t resumes_until(const gt_detector *d)
{
    const gt_lapsed *lapsed = &d->lapsed;
    if (!lapsed->period || d->told || lapsed->told)
        return UINT64_MAX;
    uint64_t length = length_of(d, lapsed->period), wait = lapsed->run < length ? length - lapsed->run : 0;
    if (lapsed->credit + wait < lapsed->needed)
        wait = lapsed->needed - lapsed->credit;
    return wait > lapsed->period ? d->position + wait - lapsed->period : 0;
}

/* The position up to which records of this period are only noted. Its first records are not: the contexts of those a period before may
 * be others, and index_noted could not skip them. Nor is the last turn before it is hot: it will be cut, so its reach is needed. */
static uint64_t quiet_until(const gt_detector *d)
{
    uint64_t needed = enough(d), known = d->matched + d->period, until = UINT64_MAX;
    if (!d->period || d->matched < GT_CONTEXT)
        return 0;
    if (!d->told)
        until = needed > known ? d->position + needed - known : 0;
    uint64_t resumes = resumes_until(d);
    until = until < resumes ? until : resumes;
    bool grows = d->position <= d->capacity;
    return grows && until > d->capacity ? d->capacity : until;
}

bool gt__detector_see(gt_detector *d, gt_canonical canonical, uint64_t live, int64_t work, uint32_t run)
{
    uint64_t position = d->position;
    index_noted(d);
    if (__builtin_expect(position == d->capacity, 0))
        grow(d);
    d->context = add_context(d->context, canonical.shape);
    uint32_t *last = &d->last[canonical.shape >> (32 - d->index_bits)], *context = behind(d);
    bool same = gt__detector_expects(d, canonical);
    gt__detector_compare_lapsed(d, canonical.shape);
    struct gt_past *past = gt__detector_past(d, position);
    *past = gt__past(canonical, live, work);
    past->separated = d->separator;
    past->run = run;
    if (same)
        d->matched++;
    else {
        if (d->matched >= GT_CONTEXT)
            lapse(d);
        d->period = distance_to(d, *context, GT_CONTEXT);
        d->period = d->period ? d->period : distance_to(d, *last, 1);
        d->matched = d->period != 0;
        d->told = false;
        if (__builtin_expect(d->lapsed.told, 0))
            d->told = d->period == d->lapsed.period;
    }
    if (d->separator) {
        d->stretch = position - d->separated_at;
        d->separated_at = position;
    }
    d->separator = false;
    *last = *context = (uint32_t)position + 1u;
    d->indexed = ++d->position;
    bool hot = d->period && !d->told && d->matched >= enough(d);
    d->told |= hot;
    if (hot) {
        d->hot = (gt_hot_period){.period = d->period, .since = d->position - d->matched};
        d->kept = find_kept(d);
    }
    d->quiet_until = quiet_until(d);
    return hot && !runs_in_paths(d);
}

/* ---- resting ------------------------------------------------------------------------------------------------- */

/* The record of the last turn that is at the present place. */
static inline struct gt_past *last_turn(const gt_detector *d)
{
    return gt__detector_past(d, d->position - d->turn + d->phase);
}

static inline void advance(gt_detector *d, uint64_t count)
{
    d->phase += count;
    d->phase -= d->phase >= d->turn ? d->turn : 0;
    d->separator = false;
}

void gt__detector_rest(gt_detector *d, uint32_t run, uint32_t count)
{
    uint64_t turn = d->period < count ? count : d->period;
    if (d->period && d->told && turn % d->period == 0 && d->matched >= turn + count &&
        turn + count <= d->position && gt__detector_past(d, d->position - count - turn)->run == run) {
        d->turn = turn;
        d->phase = 0;
        d->quiet_until = 0;
    }
}

/* See again what came of the present turn. */
void gt__detector_wake(gt_detector *d)
{
    uint64_t first = d->position - d->turn, phase = d->turn ? d->phase : 0;
    bool separator = d->separator, told = d->told;
    d->turn = 0;
    d->idle = false;
    for (uint64_t k = 0; k < phase; k++) {
        struct gt_past record = *gt__detector_past(d, first + k);
        d->separator = record.separated;
        gt__detector_see(d, record.canonical, record.live, record.work, record.run);
    }
    d->separator = separator;
    d->told = told;
    d->quiet_until = 0;
}

void gt__detector_idle(gt_detector *d)
{
    d->turn = d->period;
    d->phase = 0;
    d->idle = true;
    d->quiet_until = 0;
}

bool gt__detector_follow_record(gt_detector *d, uint32_t shape)
{
    if (!d->turn)
        return false;
    const struct gt_past *expected = last_turn(d);
    bool same = expected->canonical.shape == shape && !expected->run;
    bool otherwise = d->idle && expected->separated != d->separator; /* it may be cut in another way now */
    if (same && !otherwise) {
        advance(d, 1);
        return true;
    }
    gt__detector_wake(d);
    if (otherwise) {
        d->told = false;
        d->matched = 0;
    }
    return false;
}

bool gt__detector_follow_run(gt_detector *d, uint32_t run, uint32_t count)
{
    if (!d->turn)
        return false;
    if (last_turn(d)->run == run && d->phase + count <= d->turn) {
        advance(d, count);
        return true;
    }
    gt__detector_wake(d);
    return false;
}

/* ---- cutting ------------------------------------------------------------------------------------------------- */

/* Records that equal the one a period before. */
static uint64_t matched(const gt_detector *d)
{
    return d->position - d->hot.since;
}

/* The record `offset` into the last period is another most of the time, and not just in the last batch of an epoch. */
static bool varies(const gt_detector *d, uint32_t offset)
{
    uint64_t position = d->position - d->hot.period + offset, known = matched(d) + d->hot.period;
    known = known < d->capacity ? known : d->capacity;
    known = known < d->position ? known : d->position;
    uint32_t changes = 0, periods = (uint32_t)(known / d->hot.period) - 1;
    periods = periods < COMPARED ? periods : COMPARED;
    for (uint32_t k = 0; k < periods; k++, position -= d->hot.period)
        changes += gt__detector_past(d, position)->canonical.exact !=
                   gt__detector_past(d, position - d->hot.period)->canonical.exact;
    return 2 * changes > periods;
}

static bool cuts(const gt_detector *d, uint32_t offset)
{
    uint64_t position = d->position - d->hot.period + offset;
    return (gt__detector_past(d, position)->separated &&
            gt__detector_past(d, position - d->hot.period)->separated) ||
           varies(d, offset) || varies(d, (offset + d->hot.period - 1) % d->hot.period);
}

static const struct gt_past *of_period(const gt_detector *d, uint32_t offset)
{
    return gt__detector_past(d, d->position - d->hot.period + offset % d->hot.period);
}

/* Records of a period from this offset on that use what was made less than a period ago, before it. */
static uint32_t crossings(const gt_detector *d, uint32_t offset)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < d->hot.period; k++) {
        uint32_t reach = of_period(d, offset + k)->reach;
        count += reach > k && reach <= d->hot.period;
    }
    return count;
}

/* The offset before which the fewest tensors are alive. In a loop over an optimizer's parameters there are several, and the loop's
 * begin is best: the update of a parameter becomes one kernel. */
static uint32_t least_alive(const gt_detector *d)
{
    uint32_t best = 0;
    for (uint32_t k = 1; k < d->hot.period; k++) {
        uint32_t live = of_period(d, k)->live, least = of_period(d, best)->live;
        if (live < least || (live == least && d->hot.period <= TIES && crossings(d, k) < crossings(d, best)))
            best = k;
    }
    return best;
}

/* Where to begin a period that nothing cuts: where something came between last, as it may again, be it records or not, or else where the fewest
 * tensors are alive. */
static uint64_t natural_begin(const gt_detector *d)
{
    uint64_t behind = d->position - (d->hot.resumed ? d->hot.since : d->separated_at);
    if (d->hot.resumed || (d->separated_at && behind <= matched(d)))
        return d->position + (d->hot.period - behind % d->hot.period) % d->hot.period;
    return d->position + least_alive(d);
}

/* How often a period that nothing cuts is repeated in one path: not beyond where something has come between lately. */
static uint32_t unrolled(const gt_detector *d)
{
    uint64_t work = 1, least = (d->shortest + d->hot.period - 1) / d->hot.period, most = UNROLLED / d->hot.period;
    for (uint32_t k = 0; k < d->hot.period; k++)
        work += gt__detector_past(d, d->position - d->hot.period + k)->work;
    most = most < UNROLLED_WORK / work ? most : UNROLLED_WORK / work;
    uint64_t undisturbed = matched(d);
    if (d->separated_at > d->hot.since) {
        uint64_t since = d->position - d->separated_at;
        undisturbed = since > d->stretch ? since : d->stretch;
    }
    most = most < undisturbed / d->hot.period ? most : undisturbed / d->hot.period;
    return (uint32_t)(most > least ? most : least);
}

/* Whether the record at this offset is another kind than the one before it: of a run that is kept, or not. */
static bool changes_side(const gt_detector *d, uint32_t offset, bool kept)
{
    uint32_t run = of_period(d, offset)->run;
    return kept ? run != GT_WITHIN_RUN : d->kept && run == d->kept;
}

unsigned gt__detector_cut(const gt_detector *d, gt_segment_plan segments[GT_HOT_SEGMENTS])
{
    uint32_t first = 0, period = d->hot.period, count = 0;
    while (first < period && !changes_side(d, first, false) && (d->kept || !cuts(d, first)))
        first++;
    if (first == period) {
        uint64_t begin = natural_begin(d);
        segments[0] = (gt_segment_plan){.begin = begin, .end = begin + (uint64_t)period * unrolled(d)};
        return 1;
    }
    for (uint32_t at = first, next; at < first + period && count < GT_HOT_SEGMENTS; at = next) {
        bool kept = changes_side(d, at, false);
        next = at + 1;
        while (next < first + period && !changes_side(d, next, kept) && !cuts(d, next % period))
            next++;
        if (next - at >= d->shortest && !kept && !varies(d, at % period))
            segments[count++] = (gt_segment_plan){.begin = d->position + at, .end = d->position + next};
    }
    return count;
}
