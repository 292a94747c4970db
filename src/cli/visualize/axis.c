/*
 * cli/visualize/axis.c: maps time to positions on the page.
 *
 * The axis is linear, with breaks: a long time without events (the program was reading its data, say) would squeeze the
 * events into a corner. Part of the layout (cli/visualize/layout.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/visualize/visualize.h"

/* Gaps are cut if each is longer than this share of the shown time, and this many times longer than any gap that
 * stays. */
static const double LONG = 0.35, LONGER = 8;

enum { MOST_TICKS = 1000 }; /* of a stretch; a bound that a page never reaches */

typedef struct gap {
    double begin, end;
} gap;

static int longest_first(const void *left, const void *right)
{
    const gap *a = left, *b = right;
    double difference = (b->end - b->begin) - (a->end - a->begin);
    return (difference > 0) - (difference < 0);
}

static int earliest_first(const void *left, const void *right)
{
    double difference = ((const gap *)left)->begin - ((const gap *)right)->begin;
    return (difference > 0) - (difference < 0);
}

/* The start of the activity that this event ends; of a client's answer, the wait for it is looked at as such. */
static double activity_start(const gt_timeline *timeline, const gt_timeline_event *event)
{
    if (event->event != GT_EVENT_WORKER_RECV)
        return event->time;
    return fmin(event->time, event->partner >= 0 ? timeline->events[event->partner].time : event->start);
}

/* The times without activity, longest first. Walks from the end, to know the earliest start of all that comes later. */
static gap *find_gaps(const gt_timeline *timeline, size_t *count)
{
    gap *gaps = NULL;
    size_t capacity = 0, waits = timeline->wait_count;
    *count = 0;
    double quiet_after = INFINITY; /* the earliest start of all later activity */
    for (size_t k = timeline->count; k-- > 0;) {
        const gt_timeline_event *event = &timeline->events[k];
        for (; waits && timeline->waits[waits - 1].end >= event->time; waits--)
            quiet_after = fmin(quiet_after, timeline->waits[waits - 1].start);
        if (event->time < quiet_after && quiet_after < INFINITY)
            *GT_PUSH(gaps, *count, capacity) = (gap){.begin = event->time, .end = quiet_after};
        quiet_after = fmin(quiet_after, activity_start(timeline, event));
    }
    if (gaps)
        qsort(gaps, *count, sizeof *gaps, longest_first);
    return gaps;
}

/* How many of the longest gaps to cut; subtracts them from *shown. */
static size_t choose_cuts(const gap *gaps, size_t count, double *shown)
{
    size_t cuts = 0;
    double rest = *shown, left = *shown;
    for (size_t k = 0; k + 1 < count && k + 1 < GT_MAX_STRETCHES; k++) {
        double length = gaps[k].end - gaps[k].begin, next = gaps[k + 1].end - gaps[k + 1].begin;
        rest -= length;
        if (length >= LONG * rest && length >= LONGER * next) {
            cuts = k + 1;
            left = rest;
        }
    }
    *shown = left;
    return cuts;
}

void gt__picture_axis(gt_picture *picture, const gt_timeline *timeline)
{
    double begin = gt__timeline_begin(timeline), end = gt__timeline_end(timeline), f = picture->font;
    double shown = end > begin ? end - begin : 1e-3, width = picture->right - picture->left;
    size_t count;
    gap *gaps = find_gaps(timeline, &count);
    size_t cuts = choose_cuts(gaps, count, &shown);
    if (cuts)
        qsort(gaps, cuts, sizeof *gaps, earliest_first);
    /* A margin on both sides of each stretch. */
    double air = 0.02 * shown, total = fmax(shown, 1e-7) + 2 * air * (double)(cuts + 1);
    picture->seconds_per_point = total / (width - GT_BREAK_WIDTH * f * (double)cuts);
    picture->begin = begin - air;
    picture->end = fmax(end, begin + shown) + air;
    double x = picture->left;
    for (size_t k = 0; k <= cuts; k++) {
        gt_stretch *stretch = &picture->stretches[picture->stretch_count++];
        stretch->begin = k ? gaps[k - 1].end - air : picture->begin;
        stretch->end = k < cuts ? gaps[k].begin + air : picture->end;
        stretch->x = x;
        x += (stretch->end - stretch->begin) / picture->seconds_per_point + GT_BREAK_WIDTH * f;
    }
    free(gaps);
}

double gt__picture_x(const gt_picture *picture, double time)
{
    const gt_stretch *stretch = picture->stretches;
    for (int k = 1; k < picture->stretch_count && time >= picture->stretches[k].begin; k++)
        stretch = &picture->stretches[k];
    return stretch->x + (fmin(time, stretch->end) - stretch->begin) / picture->seconds_per_point;
}

double gt__picture_time(const gt_picture *picture, double x)
{
    const gt_stretch *stretch = picture->stretches;
    for (int k = 1; k < picture->stretch_count && x >= picture->stretches[k].x; k++)
        stretch = &picture->stretches[k];
    return stretch->begin + (x - stretch->x) * picture->seconds_per_point;
}

/* 1, 2 or 5 times a power of ten, and at least `about`. */
static double round_step(double about)
{
    static const double multiples[] = {1, 2, 5, 10};
    double power = pow(10, floor(log10(about)));
    for (int k = 0; k < 3; k++)
        if (multiples[k] * power >= about)
            return multiples[k] * power;
    return 10 * power;
}

/* Add a tick, unless it would touch the previous one, which ends at *last. */
static bool add_tick(gt_picture *picture, double time, double shown, int decimals, double *last)
{
    gt_tick tick = {.x = gt__picture_x(picture, time)};
    snprintf(tick.text, sizeof tick.text, "%.*f", decimals, shown);
    double half = 0.5 * gt__text_width(tick.text, 0.9 * picture->font) + 0.3 * picture->font;
    if (tick.x - half < *last)
        return false;
    *last = tick.x + half;
    *GT_PUSH(picture->ticks, picture->tick_count, picture->tick_capacity) = tick;
    return true;
}

void gt__picture_ticks(gt_picture *picture)
{
    double width = picture->right - picture->left, f = picture->font;
    double span = width * picture->seconds_per_point, last = -1e9;
    double factor = span < 2e-3 ? 1e6 : span < 2 ? 1e3 : 1;
    snprintf(picture->axis, sizeof picture->axis, "Time since dispatcher start (%s)",
             factor == 1e6   ? "µs"
             : factor == 1e3 ? "ms"
                             : "s");
    double step = round_step(9 * f * picture->seconds_per_point * factor);
    int decimals = (int)fmax(0, -floor(log10(step) + 1e-9));
    for (int k = 0; k < picture->stretch_count; k++) {
        const gt_stretch *stretch = &picture->stretches[k];
        double first = ceil(stretch->begin * factor / step - 1e-9), number = floor(stretch->end * factor / step);
        bool any = false;
        first = fmax(first, 0);
        for (double tick = 0; tick <= fmin(number - first, MOST_TICKS);
             tick++) /* within the range where doubles count exactly */
            any |= add_tick(picture, (first + tick) * step / factor, (first + tick) * step, decimals, &last);
        double middle = 0.5 * (stretch->begin + stretch->end);
        if (!any) /* a short stretch between two round times */
            add_tick(picture, middle, middle * factor, decimals, &last);
    }
}
