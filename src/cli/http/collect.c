/*
 * cli/http/collect.c: the dashboard's monitor: reads the dispatcher's statistics once a second and makes the texts that are
 * served. See http.h.
 *
 * Its link is adopted by the dispatcher before that runs, so it needs no key and no connection of those that are limited.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cli/array.h"
#include "cli/http/http.h"
#include "core/thread.h"
#include "cli/watcher.h"
#include "core/settings.h"

enum { INTERVAL_MS = 1000, SAMPLES = 600 };

struct gt_collector {
    pthread_t thread;
    gt_link *link;
    pthread_mutex_t lock; /* for what follows */
    gt_shared_text *views[GT_VIEW_COUNT];
    gt_json *stats;                   /* the last ones */
    gt_shared_text *samples[SAMPLES]; /* a ring: that of sequence number n is at n % SAMPLES */
    uint64_t sequence;                /* of the last one */
    uint64_t taken_ns;
};

/* ---- texts -------------------------------------------------------------------------------------------------- */

typedef enum text_kind {
    STATE = GT_VIEW_STATE,
    METRICS = GT_VIEW_METRICS,
    FAMILIES = GT_VIEW_FAMILIES,
    SAMPLE
} text_kind;

/* NULL: out of memory. */
static gt_shared_text *write_text(text_kind kind, const gt_json *stats, const gt_top *top, uint64_t sequence)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    if (kind == STATE)
        gt__state_write(stats, top, sequence, out);
    else if (kind == FAMILIES)
        gt__families_write(out);
    else if (kind == SAMPLE)
        gt__sample_write(stats, top, sequence, out);
    else
        gt__metrics_write(stats, out);
    gt_shared_text *shared = fclose(out) == 0 ? gt__shared_text_new(text, bytes) : NULL;
    free(text);
    return shared;
}

/* Takes `stats` and `sample`. */
static void publish(gt_collector *collector, gt_json *stats, const gt_top *top, gt_shared_text *sample)
{
    gt_shared_text *views[GT_VIEW_FAMILIES]; /* those that change */
    for (int view = 0; view < GT_VIEW_FAMILIES; view++)
        views[view] = write_text((text_kind)view, stats, top, top->samples);
    pthread_mutex_lock(&collector->lock);
    for (int view = 0; view < GT_VIEW_FAMILIES; view++)
        if (views[view]) {
            gt_shared_text *before = collector->views[view];
            collector->views[view] = views[view];
            views[view] = before;
        }
    gt_shared_text **place = &collector->samples[top->samples % SAMPLES], *old = *place;
    *place = sample;
    collector->sequence = top->samples;
    gt_json *before = collector->stats;
    collector->stats = stats;
    collector->taken_ns = gt__now_ns();
    pthread_mutex_unlock(&collector->lock);
    for (int view = 0; view < GT_VIEW_FAMILIES; view++)
        if (views[view])
            gt__shared_text_release(views[view]->text);
    if (old)
        gt__shared_text_release(old->text);
    gt__json_free(before);
}

/* ---- the thread --------------------------------------------------------------------------------------------- */

static void *collect(void *argument)
{
    gt_collector *collector = argument;
    gt_watcher watcher = {0};
    gt_top top = {0};
    uint64_t topic;
    locale_t before = uselocale(gt__plain_locale()); /* browsers and Prometheus read the numbers */
    gt_err err = gt__watcher_adopt(&watcher, collector->link, GT_TOPIC_STATS, INTERVAL_MS);
    while (err == GT_OK || err == GT_ERR_INTERRUPTED) {
        err = gt__watcher_next(&watcher, -1, &topic);
        gt_json *stats = err == GT_OK && topic == GT_TOPIC_STATS ? gt__json_parse(watcher.text) : NULL;
        if (!stats)
            continue;
        gt_shared_text *sample = write_text(SAMPLE, stats, &top, top.samples + 1);
        if (gt__top_take(&top, stats)) {
            gt__top_sort(&top, GT_TOP_BY_NAME, false);
            publish(collector, stats, &top, sample);
            continue;
        }
        if (sample)
            gt__shared_text_release(sample->text);
        gt__json_free(stats);
    }
    gt__watcher_close(&watcher);
    gt__top_clear(&top);
    uselocale(before);
    return NULL;
}

static void collector_free(gt_collector *collector)
{
    for (int view = 0; view < GT_VIEW_COUNT; view++)
        if (collector->views[view])
            gt__shared_text_release(collector->views[view]->text);
    for (int k = 0; k < SAMPLES; k++)
        if (collector->samples[k])
            gt__shared_text_release(collector->samples[k]->text);
    gt__json_free(collector->stats);
    pthread_mutex_destroy(&collector->lock);
    free(collector);
}

gt_err gt__collector_start(gt_dispatcher *dispatcher, gt_collector **out)
{
    gt_collector *collector = gt__zeroed(1, sizeof *collector);
    gt_err err = gt__monitor_link(dispatcher, &collector->link);
    if (err != GT_OK) {
        free(collector);
        return err;
    }
    pthread_mutex_init(&collector->lock, NULL);
    collector->views[GT_VIEW_FAMILIES] = write_text(FAMILIES, NULL, NULL, 0);
    collector->taken_ns = gt__now_ns();
    err = gt__thread_start(&collector->thread, collect, collector);
    if (err != GT_OK) {
        gt__link_close(collector->link);
        collector_free(collector);
        return err;
    }
    *out = collector;
    return GT_OK;
}

void gt__collector_stop(gt_collector **where)
{
    pthread_join((*where)->thread, NULL);
    collector_free(*where);
    *where = NULL;
}

/* ---- for other threads -------------------------------------------------------------------------------------- */

char *gt__collector_text(gt_collector *collector, gt_http_view view, size_t *bytes)
{
    pthread_mutex_lock(&collector->lock);
    gt_shared_text *shared = collector->views[view];
    if (shared)
        gt__shared_text_retain(shared);
    pthread_mutex_unlock(&collector->lock);
    *bytes = shared ? shared->bytes : 0;
    return shared ? shared->text : NULL;
}

char *gt__collector_samples(gt_collector *collector, uint64_t after, size_t *bytes)
{
    gt_shared_text *found[SAMPLES];
    size_t count = 0;
    pthread_mutex_lock(&collector->lock);
    uint64_t last = collector->sequence, first = last >= SAMPLES ? last - SAMPLES + 1 : 1;
    if (after > last) /* of a server before this one */
        after = 0;
    for (uint64_t k = after + 1 > first ? after + 1 : first; k <= last; k++) {
        gt_shared_text *sample = collector->samples[k % SAMPLES];
        if (!sample)
            continue;
        found[count++] = gt__shared_text_retain(sample);
    }
    pthread_mutex_unlock(&collector->lock);
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    for (size_t k = 0; k < count; k++) {
        if (out)
            fprintf(out, "%c\n%s", k ? ',' : '[', found[k]->text);
        gt__shared_text_release(found[k]->text);
    }
    if (out)
        fputs(count ? "]\n" : "[]\n", out);
    if (out && fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

double gt__collector_age(gt_collector *collector)
{
    pthread_mutex_lock(&collector->lock);
    uint64_t taken_ns = collector->taken_ns;
    pthread_mutex_unlock(&collector->lock);
    return (double)(gt__now_ns() - taken_ns) * 1e-9;
}

bool gt__collector_has(gt_collector *collector, const char *list, const char *key, uint64_t number)
{
    bool found = false;
    pthread_mutex_lock(&collector->lock);
    const gt_json *members = gt__json_member(collector->stats, list);
    for (const gt_json *member = members ? members->child : NULL; member && !found; member = member->next)
        found = gt__json_number(member, key) == (double)number;
    pthread_mutex_unlock(&collector->lock);
    return found;
}
