/* hotpath.c: see hotpath.h. Read next: hotpath_detect.c, hotpath_template.c, core/path.h. */
#include "client/hotpath.h"

#include <stdlib.h>
#include <string.h>

#include "client/hotpath_state.h"
#include "core/log.h"
#include "core/record.h"
#include "core/settings.h"

/* ---- life --------------------------------------------------------------------------------------------------- */

/* NULL: out of memory. */
static gt_hotpath *hotpath_make(bool automatic)
{
    unsigned threshold =
        gt__setting(GT_SETTING_COMPILE) != 0 ? 2 : (unsigned)gt__setting(GT_SETTING_HOTPATH_THRESHOLD);
    gt_hotpath *hot = calloc(1, sizeof *hot);
    if (!hot)
        return NULL;
    hot->automatic = automatic;
    bool good = !automatic || gt__detector_init(&hot->detector, (unsigned)gt__setting(GT_SETTING_HOTPATH_WINDOW),
                                                threshold, (unsigned)gt__setting(GT_SETTING_HOTPATH_MIN_SEQ));
    if (!good)
        gt__hotpath_free(&hot);
    else if (automatic)
        gt__log(GT_LOG_COMPILE, "[HotPath] Stream-based hot path detection enabled");
    return hot;
}

gt_hotpath *gt__hotpath_new(void)
{
    bool automatic = gt__setting(GT_SETTING_AUTO_COMPILE) != 0 || gt__setting(GT_SETTING_COMPILE) != 0;
    return automatic ? hotpath_make(true) : NULL;
}

void gt__hotpath_free(gt_hotpath **where)
{
    gt_hotpath *hot = *where;
    if (!hot)
        return;
    for (unsigned k = 0; k < GT_HOT_ENTRIES; k++)
        while (hot->entry[k])
            gt__hotpath_forget(hot, hot->entry[k]);
    gt__region_free_all(&hot->recording);
    gt__detector_free(&hot->detector);
    free(hot->freed.id);
    free(hot->cell);
    free(hot->live);
    free(hot->due);
    free(hot->stage ? hot->stage - GT_HOT_HEADROOM : NULL);
    free(hot);
    *where = NULL;
}

gt_hotpath_stats gt__hotpath_stats(const gt_client *client)
{
    return client->hotpath ? client->hotpath->stats : (gt_hotpath_stats){0};
}

/* ---- frees ---------------------------------------------------------------------------------------------------- */

/* As many as there is memory for, or as the end of the path leaves to come. */
void gt__hotpath_set_free_room(gt_client *client)
{
    size_t room = client->finish_at && client->finish_at <= client->free_capacity ? client->finish_at - 1
                                                                                  : client->free_capacity;
    client->free_room = gt__hotpath_holds(client) ? room : 0;
}

static void finish_at(gt_client *client, size_t frees)
{
    client->finish_at = frees;
    gt__hotpath_set_free_room(client);
}

/* ---- the stage ---------------------------------------------------------------------------------------------- */

/* Records go to the stage instead of the link, and are compared with the template from its record `fitted` on. */
static void open_stage(gt_client *client, gt_template *template, uint32_t fitted)
{
    gt_hotpath *hot = client->hotpath;
    gt_link *link = client->link;
    hot->write_next = link->write_next;
    hot->write_end = link->write_end;
    link->write_next = hot->stage + (fitted < template->count ? template->at[fitted] : template->slots);
    link->write_end = hot->stage + GT_HOT_STAGE;
    hot->state = GT_HOT_HOLDING;
    hot->holding = template;
    client->expected = template->expected + fitted;
    client->cell = hot->cell;
    finish_at(client, 0);
}

static void close_stage(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    gt_link *link = client->link;
    link->write_next = hot->write_next;
    link->write_end = link->gone ? hot->write_next : hot->write_end; /* it may have been lost meanwhile */
    hot->state = GT_HOT_WATCHING;
    hot->holding = NULL;
    client->expected = NULL;
    finish_at(client, 0);
}

/* Records that have fitted. */
static uint32_t fitted_now(const gt_client *client)
{
    return (uint32_t)(client->expected - client->hotpath->holding->expected);
}

/* ---- holding ------------------------------------------------------------------------------------------------ */

/* Records, the staged ones or the first, against the templates after `template`, but not `other`: the first that they fit,
 * and how many they are. */
static gt_template *find_fitting(gt_hotpath *hot, gt_template *template, const gt_template *other,
                                 const gt_slot *records, uint32_t slots, uint32_t entry, uint32_t *fitted)
{
    while ((template = gt__hotpath_find(hot, entry, template)))
        if (template != other && (!template->at_leave || hot->recording.region) &&
            gt__template_fits(template, hot->cell, records, slots, fitted))
            return template;
    return NULL;
}

/* Tensors alive now, after the first `fitted` records of a template, less those that were when it was learned. May wrap. */
static uint32_t more_alive(const gt_client *client, const gt_template *template, uint32_t fitted)
{
    return fitted ? (uint32_t)client->live - (template->live[fitted - 1] + 1) : 0;
}

/* The detector goes on while records are held back: a path may be part of a longer one. What it finds with them it finds
 * again with the next record. */
static void see_run(const gt_client *client, gt_template *template)
{
    gt_hotpath *hot = client->hotpath;
    gt_detector *detector = &hot->detector;
    uint32_t more = more_alive(client, template, template->count);
    if (hot->recording.region)
        gt__region_skip(hot, template);
    if (!hot->automatic || hot->recording.region)
        return;
    if (gt__detector_follow_run(detector, template->serial, template->count))
        return;
    if (hot->fruitless >= GT_HOT_FRUITLESS) /* paths in random order */
        return;
    hot->fruitless += template->count;
    bool told = detector->told;
    for (uint32_t k = 0; k < template->count; k++)
        told &= !gt__detector_see(detector, template->canonical[k], template->live[k] + more, 0,
                                  k ? GT_WITHIN_RUN : template->serial);
    gt__detector_tell_later(detector, told);
    gt__detector_rest(detector, template->serial, template->count);
}

/* Tensors older than the staged records that were freed since, as by zero_grad() behind them: they were alive before. */
static uint32_t older_frees(const gt_client *client)
{
    uint32_t count = 0;
    for (size_t k = client->hotpath->frees_before; k < client->free_count; k++)
        count += client->frees[k] < client->hotpath->stage[0].ins.result;
    return count;
}

/* The same for staged records that were not a path. */
static void see_staged(gt_client *client, const gt_template *template, uint32_t fitted)
{
    gt_hotpath *hot = client->hotpath;
    gt_detector *detector = &hot->detector;
    uint32_t more = more_alive(client, template, fitted) + older_frees(client);
    bool told = detector->told;
    if (hot->recording.region)
        gt__region_take_back(client, template, fitted);
    if (!hot->automatic || hot->recording.region)
        return;
    for (uint32_t at = 0, k = 0; at < hot->staged; at += 1u + hot->stage[at].ins.tail, k++) {
        const gt_slot *record = hot->stage + at;
        if (record->ins.op >= GT_OP_FIRST_CONTROL || record->ins.op == GT_OP_upload)
            break; /* the last one */
        gt_canonical canonical = k < fitted ? template->canonical[k] : gt__canonical(record);
        if (!gt__detector_follow_record(detector, canonical.shape))
            told &=
                !gt__detector_see(detector, canonical, k < fitted ? template->live[k] + more : client->live, 0, 0);
    }
    gt__detector_tell_later(detector, told);
}

/* The records held back, `staged` slots, do not become a path. The first `fitted` are those of the template. */
static void give_up(gt_client *client, uint32_t fitted)
{
    gt_hotpath *hot = client->hotpath;
    int64_t work = (int64_t)hot->holding->work, end = hot->staged;
    see_staged(client, hot->holding, fitted);
    close_stage(client);
    gt__hotpath_spread_frees(client, end, work);
    gt__hotpath_send_staged(client, 0, end, work);
}

/* So many records were held back in vain. */
static void count_miss(gt_hotpath *hot, gt_template *template, uint32_t fitted)
{
    hot->stats.misses++;
    template->misses++;
    template->since++;
    template->wasted += fitted;
}

/* A template misses again and again. A long one may begin at many places like the one that it was made of: a miss after a few records
 * is cheap. */
static bool is_useless(const gt_template *template)
{
    return template->since >= GT_HOT_PATIENCE && template->wasted >= (uint64_t)GT_HOT_WASTE * template->count &&
           (template->at_leave || template->misses > template->hits);
}

/* Something else is alive after the records than after those of the templates: that is another path. */
static void add_sibling(gt_client *client, gt_template *template)
{
    gt_hotpath *hot = client->hotpath;
    count_miss(hot, template, template->count);
    bool room = hot->stats.hot_sequences < GT_HOT_TEMPLATES;
    if (room && gt__hotpath_may_add_alike(hot, gt__template_entry(template))) {
        gt_template *sibling = gt__template_new(&(gt_template_source){.records = hot->stage,
                                                                      .slots = hot->staged,
                                                                      .count = template->count,
                                                                      .live = template->live,
                                                                      .freed = client->frees,
                                                                      .freed_count = client->free_count,
                                                                      .at_leave = template->at_leave});
        if (sibling) {
            uint32_t more = template->deaths > sibling->deaths ? template->deaths - sibling->deaths : 0;
            sibling->late = template->late > more ? template->late - more : template->late != 0;
            gt__hotpath_add(hot, sibling, template->work);
        }
    } else if (is_useless(template)) {
        give_up(client, template->count);
        gt__hotpath_forget(hot, template);
        return;
    }
    give_up(client, template->count);
}

static void count_hit(gt_hotpath *hot, gt_template *template)
{
    hot->stats.instructions += template->count;
    template->hits++;
    template->since = template->wasted = 0;
    template->used = hot->stats.instructions;
    hot->stats.runs++;
    hot->stats.hot_instructions += template->count;
}

/* The template that began right after the one that has just ended, if it may be held at once; NULL: none. */
static gt_template *follower_of(const gt_template *ended)
{
    gt_template *next = ended ? ended->follower : NULL;
    return next && !next->align && !next->full && !next->at_leave ? next : NULL;
}

/* The records of a path are all in the stage, and it ends. known: gt__template_ends has said that its template fits. */
static void finish(gt_client *client, bool known)
{
    gt_hotpath *hot = client->hotpath;
    gt_template *template = hot->holding, *first = template;
    uint32_t fitted = template->count, entry = gt__template_entry(first);
    hot->staged = template->slots;
    if (!known && !gt__template_ends(template, hot->cell, client->frees, client->free_count))
        for (template = NULL;
             (template = find_fitting(hot, template, first, hot->stage, hot->staged, entry, &fitted));)
            if (fitted == template->count &&
                gt__template_ends(template, hot->cell, client->frees, client->free_count))
                break;
    if (!template) {
        hot->stats.instructions += first->count;
        add_sibling(client, first);
        return;
    }
    close_stage(client);
    if (!gt__hotpath_send_run(client, template)) {
        hot->stats.instructions += template->count;
        open_stage(client, template, template->count);
        give_up(client, template->count);
        return;
    }
    count_hit(hot, template);
    see_run(client, template);
    hot->ended = template;
    if (hot->state == GT_HOT_WATCHING && follower_of(template))
        open_stage(client, template->follower, 0);
}

static void reach_last(gt_client *client)
{
    const gt_template *template = client->hotpath->holding;
    if (template->late)
        finish_at(client, client->free_count + template->late);
    else
        finish(client, false);
}

void gt__hotpath_turn(gt_client *client, const gt_expected *expected)
{
    if (expected->first)
        client->hotpath->frees_before = client->free_count;
    if (expected->last)
        reach_last(client);
    else
        gt__hotpath_set_free_room(client);
}

void gt__hotpath_last_free(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    finish_at(client, 0); /* if something else died, the next record ends the path */
    if (client->usable && client->generation == gt__fork_generation &&
        gt__template_ends(hot->holding, hot->cell, client->frees, client->free_count))
        finish(client, true);
}

/* The staged records do not go on as the template does, of which `fitted` have fitted. */
static void miss(gt_client *client, uint32_t fitted)
{
    gt_hotpath *hot = client->hotpath;
    gt_template *template = hot->holding;
    give_up(client, fitted);
    hot->ended = NULL;
    hot->stats.instructions += fitted;
    count_miss(hot, template, fitted);
    if (is_useless(template))
        gt__hotpath_forget(hot, template);
}

/* A record in the stage is not the one after the first `fitted` of the template. If it is a variant, those in the stage and those
 * that follow become a path of their own. */
static void miss_by_record(gt_client *client, uint32_t fitted, const gt_slot *record)
{
    gt_hotpath *hot = client->hotpath;
    const gt_template *template = hot->holding;
    bool variant = gt__hotpath_is_variant(hot, fitted, gt__canonical(record));
    uint32_t count = template->count, more = more_alive(client, template, fitted);
    if (variant) {
        hot->live[0] = (uint32_t)client->live;
        for (uint32_t k = 0; fitted && k <= fitted; k++)
            hot->live[k] = template->live[k] + more;
        hot->records = fitted + 1;
        hot->freed.count = 0;
        hot->work = (int64_t) template->work;
        hot->drained_state = GT_HOT_LEARNING;
    }
    miss(client, fitted);
    if (variant)
        gt__hotpath_learn_staged(hot, count);
    if (hot->recording.region)
        gt__region_record(client, record, 1u + record->ins.tail, gt__canonical(record), 0);
}

/* The client waits after the first `fitted` records of a template: if it did so there before, the loop should begin there. */
static void miss_by_waiting(gt_client *client, uint32_t fitted)
{
    const gt_hotpath *hot = client->hotpath;
    gt_template *template = hot->holding;
    if (hot->automatic && !hot->recording.region && template->stopped == fitted && !template->aligned)
        template->align = fitted;
    template->stopped = fitted;
    miss(client, fitted);
}

/* The staged records fit the template so far, and are held back. The stage is open. */
static void hold_on(gt_client *client, gt_template *template, uint32_t fitted)
{
    gt_hotpath *hot = client->hotpath;
    hot->holding = template;
    client->expected = template->expected + fitted;
    client->link->write_next = hot->stage + hot->staged;
    finish_at(client, 0);
    if (fitted == template->count && !template->at_leave)
        reach_last(client);
}

/* A computing record in the stage is not the expected one. */
static void hold_other(gt_client *client, unsigned slots)
{
    gt_hotpath *hot = client->hotpath;
    uint32_t fitted_before = fitted_now(client), fitted;
    gt_template *template = hot->holding;
    uint32_t entry = gt__canonical(hot->stage).shape;
    hot->staged += slots;
    if (entry != gt__template_entry(template) ||
        !gt__template_fits(template, hot->cell, hot->stage, hot->staged, &fitted))
        template = find_fitting(hot, NULL, template, hot->stage, hot->staged, entry, &fitted);
    if (template) {
        if (hot->recording.region && template->hits > hot->holding->hits)
            gt__hotpath_try_first(hot, template);
        hold_on(client, template, fitted);
        return;
    }
    hot->stats.instructions++;
    miss_by_record(client, fitted_before, hot->stage + hot->staged - slots);
}

/* The template that is expected to begin now, if it begins with this record. The stage is not open for it while a path waits for room, nor
 * after frees were sent: both are a matter of time, and must not decide which template is tried first. */
static gt_template *expected_one(gt_hotpath *hot, const gt_slot *record, uint32_t slots, uint32_t entry,
                                 uint32_t *fitted)
{
    gt_template *next = follower_of(hot->ended);
    bool fits =
        next && gt__template_entry(next) == entry && gt__template_fits(next, hot->cell, record, slots, fitted);
    return fits ? next : NULL;
}

/* A record that may begin a path; it is still in the link's window. */
static bool begin(gt_client *client, const gt_slot *record, unsigned slots, uint32_t shape)
{
    gt_hotpath *hot = client->hotpath;
    uint32_t fitted;
    gt_template *template = expected_one(hot, record, slots, shape, &fitted);
    if (!template)
        do {
            template = find_fitting(hot, template, NULL, record, slots, shape, &fitted);
            if (!template || ((template->align || template->full) && gt__hotpath_learn_anew(hot, template)))
                return false;
        } while (template->full);
    hot->frees_before = client->free_count;
    hot->staged = slots;
    memcpy(hot->stage, record, slots * sizeof *record);
    if (hot->ended)
        hot->ended->follower = template;
    open_stage(client, template, fitted);
    if (fitted == template->count && !template->at_leave)
        reach_last(client);
    return true;
}

/* ---- records ------------------------------------------------------------------------------------------------ */

/* All records of a path have come: it waits for the end of its region, or for its last frees. */
static bool is_complete(const gt_client *client)
{
    return fitted_now(client) == client->hotpath->holding->count;
}

/* The call of a region waits or ends before the template that is held does. True: another one, which is held now, ends here. */
static bool hold_shorter(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    gt_template *template = NULL, *longer = hot->holding;
    uint32_t fitted = fitted_now(client), count = fitted, entry = gt__template_entry(longer);
    if (!hot->recording.region || hot->recording.broken || !count)
        return false;
    do
        template = find_fitting(hot, template, longer, hot->stage, hot->staged, entry, &fitted);
    while (template && template->count != count);
    if (!template)
        return false;
    hot->holding = template;
    client->expected = template->expected + count;
    return true;
}

/* A path is complete, and the record that the client waits for, of so many slots, is in the stage after those of the path. */
static void finish_before(gt_client *client, unsigned slots)
{
    gt_hotpath *hot = client->hotpath;
    int64_t at = hot->staged;
    finish(client, false);
    if (hot->state == GT_HOT_HOLDING)
        close_stage(client);
    if (hot->state == GT_HOT_DRAINING)
        gt__hotpath_send_staged(client, hot->drained, at + slots, hot->drain_work);
    else
        gt__hotpath_send_staged(client, at, at + slots, 0);
}

/* A record that is in the stage, and not part of what is held there: it may begin another path. False: commit it. */
static bool take_again(gt_client *client, int64_t at, unsigned slots, int64_t work)
{
    gt_hotpath *hot = client->hotpath;
    gt_slot *out = hot->state == GT_HOT_DRAINING ? NULL : gt__link_reserve(client->link, slots);
    if (!out) {
        hot->fresh = (gt_fresh){.slots = slots, .work = work, .live = client->live, .frees = client->free_count};
        gt__hotpath_send_staged(client, hot->state == GT_HOT_DRAINING ? hot->drained : at, at, hot->drain_work);
        return true;
    }
    memmove(out, hot->stage + at,
            slots * sizeof *out); /* to the link, or to where the next path begins in the stage */
    return (client->expected && gt__hotpath_hold(client)) || gt__hotpath_take(client, slots, work);
}

/* A path is complete, and a computing record comes after it. */
static bool take_next(gt_client *client, unsigned slots, int64_t work)
{
    int64_t at = client->hotpath->staged;
    finish(client, false);
    return take_again(client, at, slots, work);
}

/* A path was expected to begin, and another record comes: it is taken as if the stage had not been open. */
static bool take_unexpected(gt_client *client, unsigned slots, int64_t work)
{
    close_stage(client);
    return take_again(client, 0, slots, work);
}

/* A record that cannot be part of a path. */
static bool take_other(gt_client *client, unsigned slots)
{
    gt_hotpath *hot = client->hotpath;
    bool held = hot->state == GT_HOT_HOLDING;
    if (held && (is_complete(client) || hold_shorter(client)))
        finish_before(client, slots);
    else if (held) {
        hot->staged += slots;
        miss_by_waiting(client, fitted_now(client));
    }
    gt__region_wait(client);
    if (hot->ended && !held) /* nothing is expected there next time */
        hot->ended->follower = NULL;
    hot->ended = NULL;
    hot->detector.separator = true; /* before the next record, and not before those that were held back */
    return held;
}

/* Whether there may be paths that begin with a record of this shape. */
static inline bool may_begin(const gt_hotpath *hot, uint32_t shape)
{
    return hot->stats.hot_sequences && hot->entry[shape % GT_HOT_ENTRIES];
}

/* The same as gt__hotpath_take for every record: that one first looks for the usual case. */
static __attribute__((noinline)) bool take_any(gt_client *client, unsigned slots, int64_t work)
{
    gt_hotpath *hot = client->hotpath;
    const gt_slot *record = client->link->write_next;
    if (hot->state == GT_HOT_HOLDING && !fitted_now(client))
        return take_unexpected(client, slots, work);
    if (hot->state == GT_HOT_HOLDING)
        hot->staged = (uint32_t)(record - hot->stage);
    if (__builtin_expect(hot->ending, 0) && record->ins.op != GT_OP_free)
        gt__hotpath_learn_end(client);
    if (__builtin_expect(record->ins.op >= GT_OP_FIRST_CONTROL, 0)) {
        if (record->ins.op == GT_OP_free)
            gt__hotpath_learn_frees(hot, &record->ins, hot->state == GT_HOT_LEARNING);
        bool names = record->ins.op == GT_OP_site || record->ins.op == GT_OP_name;
        if (record->ins.op == GT_OP_free || (names && hot->state != GT_HOT_HOLDING))
            return false;
        return take_other(client, slots);
    }
    if (__builtin_expect(record->ins.op == GT_OP_upload, 0))
        return take_other(client, slots);
    if (hot->state == GT_HOT_HOLDING) {
        if (is_complete(client) && !hot->holding->at_leave)
            return take_next(client, slots, work);
        hold_other(client, slots);
        return true;
    }
    uint32_t shape = gt__canonical_shape(record);
    if (hot->state == GT_HOT_WATCHING && may_begin(hot, shape) && !gt__region_collects(hot)) {
        if (begin(client, record, slots, shape))
            return true;
        gt__hotpath_learn_odd_begin(hot, record, shape);
    }
    hot->stats.instructions++;
    if (hot->recording.region)
        gt__region_record(client, record, slots, gt__canonical(record), work);
    else if (hot->detector.turn && gt__detector_follow_record(&hot->detector, shape))
        hot->ended = NULL;
    else
        gt__hotpath_watch(client, record, slots, gt__canonical(record), work);
    return false;
}

bool gt__hotpath_take(gt_client *client, unsigned slots, int64_t work)
{
    gt_hotpath *hot = client->hotpath;
    gt_detector *detector = &hot->detector;
    const gt_slot *record = client->link->write_next;
    uint32_t shape = gt__canonical_shape(record);
    if (hot->state != GT_HOT_WATCHING || hot->recording.region)
        return take_any(client, slots, work);
    if (record->ins.op == GT_OP_free)
        return false;
    if (may_begin(hot, shape) || !gt__detector_goes_on(detector, shape) ||
        !gt__bodies_go_on(&hot->bodies, detector, shape))
        return take_any(client, slots, work);
    gt__hotpath_see_single(hot);
    hot->stats.instructions++;
    gt__bodies_note(&hot->bodies, detector, shape);
    gt__detector_note(detector, gt__canonical(record), client->live, work);
    return false;
}

void gt__hotpath_idle(gt_client *client)
{
    close_stage(client);
}

void gt__hotpath_flush(gt_client *client)
{
    client->hotpath->fresh.released = true;
    gt__hotpath_release(client);
}

void gt__hotpath_release(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    if (hot->state != GT_HOT_HOLDING || client->generation != gt__fork_generation)
        return;
    hot->staged = (uint32_t)(client->link->write_next - hot->stage);
    if (is_complete(client) || hold_shorter(client))
        finish(client, false);
    else if (hot->staged)
        miss_by_waiting(client, fitted_now(client));
    if (hot->state == GT_HOT_HOLDING) /* a path was expected to begin */
        close_stage(client);
}

/* ---- regions ------------------------------------------------------------------------------------------------ */

/*
 * What waits for room goes first: how long that takes must not decide what is learned. Fails if the wait is interrupted, and if another
 * thread has closed the client, which then may be gone.
 */
static gt_err wait_until_drained(gt_client *client)
{
    gt_slot *slot;
    if (!client->draining || client->waiting) /* another thread waits */
        return GT_OK;
    client->live++;
    gt_err err = gt__client_reserve(client, 1, &slot);
    client->live--;
    if (!client->closed)
        return err == GT_ERR_INTERRUPTED ? err : GT_OK;
    gt__client_maybe_destroy(client);
    return err;
}

/* The program is about to enter a region. Another thread may do so while this one waits. */
static gt_err settle(gt_client *client)
{
    const gt_hotpath *hot = client->hotpath;
    GT_TRY(wait_until_drained(client));
    bool complete = !hot->recording.depth && hot->state == GT_HOT_HOLDING && is_complete(client);
    if (complete && client->generation == gt__fork_generation)
        finish(client, false);
    return wait_until_drained(client);
}

static void enter(gt_client *client, uint64_t region)
{
    gt_hotpath *hot = client->hotpath;
    if (hot->recording.depth++)
        return;
    hot->drained_state = GT_HOT_WATCHING;
    gt__hotpath_suspend_learning(client);
    hot->detector.separator = true;
    gt__region_begin(hot, region, client->draining || gt__hotpath_holds(client));
}

gt_err gt__hotpath_enter(gt_client *client, uint64_t region)
{
    client->hotpath = client->hotpath ? client->hotpath : hotpath_make(false);
    if (!client->hotpath)
        return GT_OK;
    if (!client->hotpath->recording.depth)
        GT_TRY(settle(client));
    enter(client, region);
    return GT_OK;
}

/* The region is left, and records are held back. */
static void end_held(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    hot->staged = (uint32_t)(client->link->write_next - hot->stage);
    if (is_complete(client) || hold_shorter(client))
        finish(client, false);
    else if (!hot->recording.broken && fitted_now(client))
        miss(client, fitted_now(client));
}

static void leave(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    if (!hot->recording.depth || --hot->recording.depth || client->generation != gt__fork_generation)
        return;
    if (hot->state == GT_HOT_HOLDING && !gt__hotpath_holds(client))
        close_stage(client); /* what is learned goes on as if a path had not been expected to begin */
    gt__region_end(client);
    gt__hotpath_resume_learning(hot);
    hot->detector.separator = true;
}

gt_err gt__hotpath_leave(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    if (!hot)
        return GT_OK;
    gt_err err = GT_OK;
    if (hot->recording.depth == 1 && client->generation == gt__fork_generation) {
        err = wait_until_drained(client);
        if (err != GT_OK && err != GT_ERR_INTERRUPTED)
            return err;
        if (hot->recording.depth == 1 && hot->state == GT_HOT_HOLDING)
            end_held(client);
        err = err == GT_OK ? wait_until_drained(client) : err;
        if (err != GT_OK && err != GT_ERR_INTERRUPTED)
            return err;
    }
    leave(client);
    return err;
}
