/* hotpath_learn.c: see hotpath_state.h: what is learned as a template, and when. Read next: hotpath_detect.c. */
#include <stdlib.h>
#include <string.h>

#include "client/hotpath_state.h"
#include "core/record.h"

/* ---- learning ----------------------------------------------------------------------------------------------- */

void gt__hotpath_stop_learning(gt_hotpath *hot)
{
    hot->state = GT_HOT_WATCHING;
    hot->segments = hot->segment_next = hot->halves = 0;
    hot->ending = hot->suspended = false;
    hot->replaced = NULL;
    hot->freed.count = 0; /* these frees have been sent */
}

/* Take it from those that begin alike. */
static void take_out(gt_hotpath *hot, gt_template *template)
{
    gt_template **where = &hot->entry[gt__template_entry(template) % GT_HOT_ENTRIES];
    while (*where != template)
        where = &(*where)->next;
    *where = template->next;
}

void gt__hotpath_forget(gt_hotpath *hot, gt_template *template)
{
    take_out(hot, template);
    for (unsigned k = 0; k < GT_HOT_ENTRIES; k++)
        for (gt_template *t = hot->entry[k]; t; t = t->next)
            t->follower = t->follower == template ? NULL : t->follower;
    hot->ended = hot->ended == template ? NULL : hot->ended;
    hot->replaced = hot->replaced == template ? NULL : hot->replaced;
    for (unsigned k = 0; k < GT_PATHS; k++)
        if (hot->named[k] == template)
            hot->named[k] = NULL;
    gt__template_free(template);
    hot->stats.hot_sequences--;
}

/* Forget the template that was used longest ago. */
static void drop_oldest(gt_hotpath *hot)
{
    gt_template *oldest = NULL;
    for (unsigned k = 0; k < GT_HOT_ENTRIES; k++)
        for (gt_template *t = hot->entry[k]; t; t = t->next)
            if (!oldest || t->used < oldest->used)
                oldest = t;
    if (oldest)
        gt__hotpath_forget(hot, oldest);
}

/* Whether there is a template of the same records, after which the same values are dead. */
static bool is_known(const gt_hotpath *hot, const gt_template *template)
{
    for (const gt_template *t = hot->entry[gt__template_entry(template) % GT_HOT_ENTRIES]; t; t = t->next)
        if (gt__template_same(t, template))
            return true;
    return false;
}

/* Put it before those that begin alike, if it need not be behind some. */
static void put_first(gt_hotpath *hot, gt_template *template)
{
    gt_template **entry = &hot->entry[gt__template_entry(template) % GT_HOT_ENTRIES];
    for (gt_template **t = entry; *t; t = &(*t)->next) {
        bool more_dies = (*t)->count == template->count && (*t)->deaths > template->deaths;
        bool longer = (*t)->at_leave && !template->at_leave; /* a whole call, of which this is a part */
        if (more_dies || longer)
            entry = &(*t)->next; /* this one fits as well where that one does: try that one first */
    }
    template->next = *entry;
    *entry = template;
}

void gt__hotpath_try_first(gt_hotpath *hot, gt_template *template)
{
    take_out(hot, template);
    put_first(hot, template);
}

void gt__hotpath_add(gt_hotpath *hot, gt_template *template, uint64_t work)
{
    if (is_known(hot, template)) {
        gt__template_free(template);
        return;
    }
    template->serial = ++hot->next_serial;
    template->work = work;
    template->aligned = hot->replaced != NULL;
    template->used = hot->stats.instructions;
    put_first(hot, template);
    hot->stats.hot_sequences++;
    hot->fruitless = 0; /* there may be more to find */
    gt__hotpath_say_found(hot, template);
}

bool gt__hotpath_collect_frees(const gt_client *client, gt_ids *freed)
{
    const gt_hotpath *hot = client->hotpath;
    for (size_t k = hot->due_next; k < hot->due_count; k++)
        if (!gt__ids_add(freed, hot->due[k].id))
            return false;
    for (size_t k = 0; k < client->free_count; k++)
        if (!gt__ids_add(freed, client->frees[k]))
            return false;
    return true;
}

/* A program may free without end and issue no more of these records: the batches of a data loader, or a function marked by gt.compile
 * that is a whole training run. */
void gt__hotpath_learn_frees(gt_hotpath *hot, const gt_instruction *ins, bool learning)
{
    const uint64_t *ids = gt__free_ids(ins);
    bool in_region = hot->recording.region != NULL;
    if (in_region ? hot->recording.broken : !learning)
        return;
    for (unsigned k = 0; k < GT_FREE_IDS; k++)
        if (ids[k] && (hot->freed.count == GT_HOT_FREES || !gt__ids_add(&hot->freed, ids[k]))) {
            if (in_region)
                hot->recording.broken = true;
            else
                gt__hotpath_stop_learning(hot);
            return;
        }
}

void gt__hotpath_collect(gt_hotpath *hot)
{
    hot->staged = hot->records = 0;
    hot->freed.count = 0;
    hot->work = 0;
}

/* Most clients of a server never repeat themselves, so the stage is made when there is something to learn. */
static bool stage_make(gt_hotpath *hot)
{
    hot->cell = hot->cell ? hot->cell : calloc(GT_CELLS, sizeof *hot->cell);
    hot->live = hot->live ? hot->live : malloc(GT_HOT_STAGE * sizeof *hot->live);
    gt_slot *memory =
        hot->cell && hot->live ? malloc((GT_HOT_HEADROOM + GT_HOT_STAGE) * sizeof *hot->stage) : NULL;
    hot->stage = memory ? memory + GT_HOT_HEADROOM : NULL;
    return memory != NULL;
}

bool gt__hotpath_collect_record(gt_client *client, const gt_slot *record, unsigned slots, int64_t work)
{
    gt_hotpath *hot = client->hotpath;
    if (hot->staged + slots > GT_PATH_SLOTS / 2 || (!hot->stage && !stage_make(hot)))
        return false;
    memmove(hot->stage + hot->staged, record, slots * sizeof *record); /* it may be there already */
    hot->staged += slots;
    hot->work += work;
    hot->live[hot->records++] = (uint32_t)client->live;
    return true;
}

/* Of the records that were collected. NULL: see gt__template_new. */
static gt_template *collected(const gt_hotpath *hot, bool at_leave)
{
    return gt__template_new(&(gt_template_source){.records = hot->stage,
                                                  .slots = hot->staged,
                                                  .count = hot->records,
                                                  .live = hot->live,
                                                  .freed = hot->freed.id,
                                                  .freed_count = hot->freed.count,
                                                  .at_leave = at_leave});
}

bool gt__hotpath_collect_end(gt_hotpath *hot, bool at_leave, uint32_t late)
{
    gt_template *template = collected(hot, at_leave);
    bool made = template != NULL;
    if (template)
        template->late = late;
    while (template && hot->stats.hot_sequences >= GT_HOT_TEMPLATES)
        drop_oldest(hot);
    if (template)
        gt__hotpath_add(hot, template, (uint64_t)hot->work);
    if (template && hot->replaced)
        gt__hotpath_forget(hot, hot->replaced);
    gt__hotpath_collect(hot);
    return made;
}

void gt__hotpath_learn_staged(gt_hotpath *hot, uint32_t count)
{
    gt__detector_wake(&hot->detector);
    uint64_t begin = hot->detector.position - hot->records;
    hot->segment[0] = (gt_segment_plan){.begin = begin, .end = begin + count};
    hot->segments = 1;
    hot->segment_next = 0;
}

bool gt__hotpath_may_add_alike(const gt_hotpath *hot, uint32_t shape)
{
    unsigned alike = 0;
    for (const gt_template *t = NULL; (t = gt__hotpath_find(hot, shape, t));)
        alike++;
    return alike < GT_HOT_ALIKE;
}

bool gt__hotpath_is_variant(const gt_hotpath *hot, uint32_t fitted, gt_canonical canonical)
{
    gt_template *template = hot->holding;
    if (!hot->automatic || hot->recording.region || fitted + 1 >= template->count ||
        canonical.shape != template->canonical[fitted].shape)
        return false;
    return gt__template_odd_again(template, fitted, canonical) &&
           gt__hotpath_may_add_alike(hot, gt__template_entry(template));
}

void gt__hotpath_learn_odd_begin(gt_hotpath *hot, const gt_slot *record, uint32_t shape)
{
    gt_template *template = gt__hotpath_find(hot, shape, NULL);
    if (!template || template->at_leave || !hot->automatic || hot->recording.region ||
        hot->state != GT_HOT_WATCHING)
        return;
    gt_canonical canonical = gt__canonical(record);
    if (canonical.exact == template->canonical->exact || !gt__template_odd_again(template, 0, canonical) ||
        !gt__hotpath_may_add_alike(hot, shape))
        return;
    gt__detector_wake(&hot->detector);
    if (!gt__detector_expects_all(&hot->detector, template->canonical, template->count))
        return; /* the record is another one of the step, from the same line */
    hot->records = 0;
    gt__hotpath_learn_staged(hot, template->count);
    hot->state = GT_HOT_LEARNING;
}

/* Deaths until now; 0: none, or they are not known. */
static uint32_t count_deaths(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    size_t sent = hot->freed.count;
    gt_template *template = gt__hotpath_collect_frees(client, &hot->freed) ? collected(hot, false) : NULL;
    uint32_t deaths = template ? template->deaths : 0;
    gt__template_free(template);
    hot->freed.count = sent; /* those in the queue are looked at again at the end */
    return deaths;
}

/* The segment has more inputs and results than a path may have: divide it where few tensors are alive. */
static void divide(gt_hotpath *hot, gt_segment_plan whole, uint32_t middle)
{
    if (hot->replaced || hot->halves + 2 > GT_HOT_SEGMENTS ||
        whole.end - whole.begin < 2u * hot->detector.shortest)
        return;
    hot->half[hot->halves++] = (gt_segment_plan){.begin = whole.begin, .end = whole.begin + middle};
    hot->half[hot->halves++] = (gt_segment_plan){.begin = whole.begin + middle, .end = whole.end};
}

/* The one of so many records, around their middle, before which the fewest tensors are alive. */
static uint32_t find_middle(const uint32_t *live, uint32_t records)
{
    uint32_t best = records / 2;
    for (uint32_t k = records / 4; k < records - records / 4; k++)
        best = live[k] < live[best] ? k : best;
    return best;
}

/* Learn the template's records in two halves instead, beginning with the next one. */
static void learn_divided(gt_hotpath *hot, gt_template *template)
{
    uint64_t begin = hot->detector.position;
    uint32_t middle = find_middle(template->live, template->count);
    hot->segment[0] = (gt_segment_plan){.begin = begin, .end = begin + middle};
    hot->segment[1] = (gt_segment_plan){.begin = begin + middle, .end = begin + template->count};
    hot->segments = 2;
    hot->segment_next = 0;
    hot->replaced = template;
    hot->state = GT_HOT_LEARNING;
}

/* A short loop that was unrolled, and whose turns are equal: wherever one of them begins, it begins well. */
static bool turns_are_equal(const gt_template *template, uint32_t period)
{
    for (uint32_t k = period; k < template->count; k++)
        if (template->canonical[k].exact != template->canonical[k - period].exact)
            return false;
    return true;
}

bool gt__hotpath_learn_anew(gt_hotpath *hot, gt_template *template)
{
    gt_detector *detector = &hot->detector;
    uint32_t period = detector->period, offset = template->align;
    gt__detector_wake(detector);
    if (detector->matched < template->count ||
        !gt__detector_expects_all(detector, template->canonical, template->count))
        return false;
    if (template->full) {
        learn_divided(hot, template);
        return true;
    }
    template->align = template->stopped = 0; /* else the detector would not rest as long as there are runs of it */
    if (template->count % period || (offset % period == 0 && turns_are_equal(template, period)))
        return false;
    uint64_t begin = detector->position + offset;
    hot->segment[0] = (gt_segment_plan){.begin = begin, .end = begin + template->count};
    hot->segments = 1;
    hot->segment_next = 0;
    hot->replaced = template;
    hot->state = GT_HOT_LEARNING;
    return true;
}

/* Learn the halves when they come again. */
static void learn_halves(gt_hotpath *hot)
{
    const gt_detector *d = &hot->detector;
    uint64_t periods = d->period ? (d->position - hot->half[0].begin + d->period - 1) / d->period : 0;
    hot->segments = hot->halves;
    hot->segment_next = hot->halves = 0;
    for (unsigned k = 0; k < hot->segments; k++)
        hot->segment[k] = (gt_segment_plan){.begin = hot->half[k].begin + periods * d->period,
                                            .end = hot->half[k].end + periods * d->period};
}

void gt__hotpath_learn_end(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    uint32_t early = hot->early, deaths = count_deaths(client), middle = find_middle(hot->live, hot->records);
    hot->ending = false;
    if (gt__hotpath_collect_frees(client, &hot->freed) &&
        !gt__hotpath_collect_end(hot, false, deaths > early ? deaths - early : 0))
        divide(hot, hot->segment[hot->segment_next], middle);
    if (++hot->segment_next < hot->segments)
        return;
    if (hot->halves)
        learn_halves(hot);
    else
        gt__hotpath_stop_learning(hot);
}

void gt__hotpath_suspend_learning(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    if (hot->ending)
        gt__hotpath_learn_end(client);
    if (hot->state != GT_HOT_LEARNING)
        return;
    bool between = hot->detector.position <= hot->segment[hot->segment_next].begin;
    if (!between || hot->replaced) /* a path of the region must not take the place of the replaced one */
        gt__hotpath_stop_learning(hot);
    else {
        hot->suspended = true;
        hot->state = GT_HOT_WATCHING;
    }
}

void gt__hotpath_resume_learning(gt_hotpath *hot)
{
    if (!hot->suspended)
        return;
    hot->suspended = false;
    if (hot->state == GT_HOT_WATCHING)
        hot->state = GT_HOT_LEARNING;
    else if (hot->state != GT_HOT_LEARNING) {
        /* Records are held back, or wait for room: the loop is found again. */
        hot->segments = hot->segment_next = hot->halves = 0;
        gt__detector_tell_later(&hot->detector, false);
    }
}

/* The record is one of a segment that is learned; it has been committed. */
static void learn(gt_client *client, const gt_slot *record, unsigned slots, int64_t work)
{
    gt_hotpath *hot = client->hotpath;
    const gt_segment_plan *segment = &hot->segment[hot->segment_next];
    uint64_t position = hot->detector.position - 1; /* of this record, which was seen just now */
    if (position < segment->begin)
        return;
    if (position == segment->begin)
        gt__hotpath_collect(hot);
    if (!gt__hotpath_collect_record(client, record, slots, work)) {
        gt__hotpath_stop_learning(hot);
        return;
    }
    if (position + 1 < segment->end)
        return;
    hot->ending = true;
    hot->early = count_deaths(client);
}

/* ---- watching ----------------------------------------------------------------------------------------------- */

void gt__hotpath_watch(gt_client *client, const gt_slot *record, unsigned slots, gt_canonical canonical,
                       int64_t work)
{
    gt_hotpath *hot = client->hotpath;
    gt__hotpath_see_single(hot);
    if (!hot->automatic)
        return;
    if (hot->state == GT_HOT_LEARNING && !gt__detector_foresees(&hot->detector, canonical))
        gt__hotpath_stop_learning(hot);
    uint32_t body = gt__bodies_see(&hot->bodies, &hot->detector, canonical);
    bool found = gt__detector_see(&hot->detector, canonical, client->live, work, 0);
    gt__detector_reach(&hot->detector, &record->ins, gt__op_operands((gt_opcode)record->ins.op));
    if (hot->state == GT_HOT_LEARNING)
        learn(client, record, slots, work);
    else if (found || gt__detector_resumes(&hot->detector)) {
        hot->stats.sequences++;
        hot->segments = gt__detector_cut(&hot->detector, hot->segment);
        hot->segment_next = 0;
        if (hot->segments)
            hot->state = GT_HOT_LEARNING;
        else if (hot->detector.hot.period == hot->detector.period)
            gt__detector_idle(&hot->detector);
    } else if (body) {
        uint64_t begin = hot->detector.position - 1;
        hot->segment[0] = (gt_segment_plan){.begin = begin, .end = begin + body};
        hot->segments = 1;
        hot->segment_next = 0;
        hot->state = GT_HOT_LEARNING;
        learn(client, record, slots, work);
    }
}
