/*
 * hotpath_region.c: see hotpath_state.h: paths of regions that the program marks, by gt.compile or `compile: true`.
 *
 * The records of each call are compared with those of the last one. Those that come again, between records that are never quite
 * the same and between waits, become templates; the last of these ends when the region is left, after the values that the
 * region's function kept for itself have died.
 */
#include <stdlib.h>
#include <string.h>

#include "client/hotpath_state.h"

enum { SHORTEST = 2, MOST_REGIONS = 256 };

static void region_free(gt_region *region)
{
    free(region->canonical);
    free(region->varies);
    free(region);
}

/* The region, first in the list from now on. The one that was used longest ago goes if there are too many: a program may make
 * compiled functions again and again. */
static gt_region *find_region(gt_recording *r, uint64_t number)
{
    gt_region **where = &r->regions, *region;
    unsigned before = 0;
    for (; *where && (*where)->number != number && before < MOST_REGIONS - 1; before++)
        where = &(*where)->next;
    region = *where;
    if (region)
        *where = region->next;
    if (region && region->number != number) {
        region_free(region);
        region = NULL;
    }
    if (!region && (region = calloc(1, sizeof *region)))
        region->number = number;
    if (region) {
        region->next = r->regions;
        r->regions = region;
    }
    return region;
}

void gt__region_free_all(gt_recording *r)
{
    while (r->regions) {
        gt_region *next = r->regions->next;
        region_free(r->regions);
        r->regions = next;
    }
    free(r->queued.id);
}

static void begin_piece(gt_hotpath *hot)
{
    gt__hotpath_collect(hot);
    hot->recording.known = true;
    hot->recording.sent = hot->recording.queued.count = 0;
}

void gt__region_begin(gt_hotpath *hot, uint64_t number, bool broken)
{
    gt_recording *r = &hot->recording;
    r->region = find_region(r, number);
    r->index = 0;
    r->broken = broken;
    if (!broken)
        begin_piece(hot);
}

void gt__region_cut(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    gt_recording *r = &hot->recording;
    if (r->broken)
        return;
    if (r->known && hot->records >= SHORTEST) {
        hot->freed.count = r->sent;
        bool good = true;
        for (size_t k = 0; k < r->queued.count; k++)
            good &= gt__ids_add(&hot->freed, r->queued.id[k]);
        if (good)
            gt__hotpath_collect_end(hot, false, 0);
    }
    begin_piece(hot);
}

void gt__region_end(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    gt_recording *r = &hot->recording;
    if (r->region && !r->broken && hot->state == GT_HOT_WATCHING) {
        if (r->known && hot->records >= SHORTEST && gt__hotpath_collect_frees(client, &hot->freed))
            gt__hotpath_collect_end(hot, true, 0);
        r->region->count = r->index < r->region->count ? r->index : r->region->count;
        hot->freed.count = 0;
    }
    r->region = NULL;
}

void gt__region_skip(gt_hotpath *hot, uint32_t records, bool broken)
{
    gt_recording *r = &hot->recording;
    r->index += records;
    r->broken |= broken || r->index > r->region->count;
    if (!r->broken)
        begin_piece(hot);
}

/* Room for one more record of the region. */
static bool grow(gt_region *region)
{
    if (region->count < region->capacity)
        return true;
    uint32_t capacity = region->capacity ? 2 * region->capacity : 64;
    gt_canonical *canonical = realloc(region->canonical, capacity * sizeof *canonical);
    if (canonical)
        region->canonical = canonical;
    bool *varies = realloc(region->varies, capacity * sizeof *varies);
    if (varies)
        region->varies = varies;
    if (!canonical || !varies)
        return false;
    region->capacity = capacity;
    return true;
}

/* Compare the record at `index` with that of the last call, and remember it. False: it is not exactly the same, or new. */
static bool compare(gt_region *region, uint32_t index, gt_canonical canonical)
{
    gt_canonical *last = &region->canonical[index];
    bool there = index < region->count, same = there && last->shape == canonical.shape;
    if (!same) { /* another call from here on */
        region->count = index + 1;
        region->varies[index] = false;
    } else
        region->varies[index] |= last->exact != canonical.exact;
    *last = canonical;
    return same && !region->varies[index];
}

void gt__region_record(gt_client *client, const gt_slot *record, unsigned slots, gt_canonical canonical,
                       int64_t work)
{
    gt_hotpath *hot = client->hotpath;
    gt_recording *r = &hot->recording;
    hot->ended = NULL;
    if (r->broken)
        return;
    r->broken = r->index > r->region->count || !grow(r->region);
    if (r->broken)
        return;
    bool same = compare(r->region, r->index, canonical);
    if (r->region->varies[r->index++]) {
        gt__region_cut(client);
        return;
    }
    r->known &= same;
    r->broken = !gt__hotpath_collect_record(client, record, slots, work);
    r->sent = hot->freed.count;
    r->queued.count = 0;
    r->broken |= !gt__hotpath_collect_frees(client, &r->queued);
}
