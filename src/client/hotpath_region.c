/*
 * hotpath_region.c: see hotpath_state.h: paths of regions that the program marks, by gt.compile or `compile: true`.
 *
 * The records of all calls are kept as a tree, since calls take different branches. What comes again, between waits and records
 * that are never quite the same, becomes a template; the last one of a call ends when the region is left, after the values that the
 * region's function kept for itself have died. The tree only says what is worth learning: a template is made of the
 * records in the stage, which are those of the present call.
 */
#include <stdlib.h>
#include <string.h>

#include "client/hotpath_state.h"

enum {
    SHORTEST = 2,
    MOST_REGIONS = 256,
    MOST_CAME = 1 << 15, /* records of a region that are remembered, */
    MOST_OTHERS = 16,    /* those that came in one place, */
    MOST_SHAPES = 4, /* and those among them that differ in nothing but tensors' shapes and the like: more vary */
    PATIENCE = 16,   /* calls with others, after which all are forgotten */
    MOST_DOUBT = 7,
};

/* ---- regions ------------------------------------------------------------------------------------------------ */

static void region_free(gt_region *region)
{
    free(region->came);
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

/* ---- what came ---------------------------------------------------------------------------------------------- */

/* The place of one more record; 0: there is none. */
static uint32_t add_came(gt_region *region)
{
    if (region->count == region->capacity) {
        uint32_t capacity = region->capacity ? 2 * region->capacity : 64;
        gt_came *came = region->capacity < MOST_CAME ? realloc(region->came, capacity * sizeof *came) : NULL;
        if (!came)
            return 0;
        region->came = came;
        region->capacity = capacity;
    }
    region->came[region->count] = (gt_came){.next = 0};
    return region->count++;
}

/* Begin the tree, if there is none yet or it has become useless. False: out of memory. */
static bool plant(gt_recording *r)
{
    gt_region *region = r->region;
    if (region->refused >= PATIENCE)
        region->count = region->refused = 0;
    if (region->count)
        return true;
    region->tree = ++r->trees;
    add_came(region);
    return region->count != 0;
}

/* Records of this shape are another one each time: only the last of them is kept. */
static void let_vary(gt_came *came, uint32_t *where, uint32_t shape)
{
    bool kept = false;
    while (*where) {
        gt_came *one = &came[*where];
        if (one->canonical.shape == shape && kept)
            *where = one->other;
        else {
            if (one->canonical.shape == shape)
                kept = one->varies = true;
            where = &one->other;
        }
    }
}

/* Where the record is, if it came after the last one before. Counts those that came in its place, and the ones like it. */
static uint32_t *find_came(gt_came *came, uint32_t *where, gt_canonical canonical, unsigned *others,
                           unsigned *alike)
{
    for (; *where; where = &came[*where].other, ++*others) {
        const gt_came *one = &came[*where];
        bool is_alike = one->canonical.shape == canonical.shape;
        if (is_alike && (one->varies || one->canonical.exact == canonical.exact))
            return where;
        *alike += is_alike;
    }
    return NULL;
}

/* The record that comes after the last one; 0: there is no room, and what follows is not remembered. *again: it came there before. */
static uint32_t follow(gt_recording *r, gt_canonical canonical, bool *again)
{
    gt_region *region = r->region;
    unsigned others = 0, alike = 0;
    uint32_t *first = &region->came[r->at].next, *where, place;
    where = find_came(region->came, first, canonical, &others, &alike);
    if (!where && alike && alike >= (r->varied ? 1 : MOST_SHAPES)) {
        let_vary(region->came, first, canonical.shape);
        where = find_came(region->came, first, canonical, &others, &alike);
    }
    *again = where != NULL;
    if (where) { /* to the front */
        place = *where;
        *where = region->came[place].other;
    } else {
        place = others < MOST_OTHERS ? add_came(region) : 0;
        region->refused += !place;
        r->broken = !place;
        if (!place)
            return 0;
        first = &region->came[r->at].next;
        region->came[place].canonical = canonical;
    }
    region->came[place].other = *first;
    *first = place;
    return place;
}

/* ---- pieces of calls ---------------------------------------------------------------------------------------- */

static void begin_piece(gt_hotpath *hot, bool known)
{
    gt__hotpath_collect(hot);
    hot->recording.known = known;
    hot->recording.sent = hot->recording.queued.count = 0;
}

/* Whether a path that ends with the last record should be made now. If it was made before and is of no use, or does not stay, it should
 * not be made again each time. */
static bool is_due(gt_recording *r)
{
    gt_came *last = &r->region->came[r->at];
    if (last->skips) {
        last->skips--;
        return false;
    }
    last->doubt += last->doubt < MOST_DOUBT;
    last->skips = (uint8_t)((1u << last->doubt) - 1);
    return true;
}

/* A piece ends, as it did before: make a template of it. The frees until then are in hot->freed, or wait in `queued`. */
static void learn_piece(gt_hotpath *hot, const gt_ids *queued, bool at_leave)
{
    if (!hot->recording.known || hot->records < SHORTEST ||
        !gt__hotpath_may_add_alike(hot, gt__canonical_shape(hot->stage)) || !is_due(&hot->recording))
        return;
    for (size_t k = 0; k < queued->count; k++)
        if (!gt__ids_add(&hot->freed, queued->id[k]))
            return;
    gt__hotpath_collect_end(hot, at_leave, 0);
}

/* A piece ends with the last record, and not with the region. */
static void cut(gt_hotpath *hot)
{
    hot->freed.count = hot->recording.sent;
    learn_piece(hot, &hot->recording.queued, false);
}

/* Frees that were sent until the last record, and those that wait. */
static void note_frees(gt_client *client)
{
    gt_recording *r = &client->hotpath->recording;
    r->sent = client->hotpath->freed.count;
    r->queued.count = 0;
    r->broken |= !gt__hotpath_collect_frees(client, &r->queued);
}

void gt__region_begin(gt_hotpath *hot, uint64_t number, bool broken)
{
    gt_recording *r = &hot->recording;
    r->region = find_region(r, number);
    r->broken = broken || !r->region || !plant(r);
    r->at = 0;
    r->varied = false;
    if (!r->broken)
        begin_piece(hot, true);
}

void gt__region_wait(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    gt_recording *r = &hot->recording;
    if (!r->region || r->broken)
        return;
    gt_came *last = &r->region->came[r->at];
    bool again = last->waits;
    last->waits = true;
    r->known &= again;
    cut(hot);
    begin_piece(hot, again);
}

void gt__region_end(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    gt_recording *r = &hot->recording;
    if (r->region && !r->broken && hot->state == GT_HOT_WATCHING) {
        gt_came *last = &r->region->came[r->at];
        r->known &= last->leaves;
        last->leaves = true;
        r->queued.count = 0;
        if (gt__hotpath_collect_frees(client, &r->queued))
            learn_piece(hot, &r->queued, true);
        hot->freed.count = 0;
    }
    r->region = NULL;
}

void gt__region_skip(gt_hotpath *hot, gt_template *template)
{
    gt_recording *r = &hot->recording;
    if (r->broken)
        return;
    if (template->tree == r->region->tree && template->tree_from == r->at)
        r->at = template->tree_to;
    else {
        uint32_t from = r->at;
        bool again;
        for (uint32_t k = 0; k < template->count && !r->broken; k++)
            r->at = follow(r, template->canonical[k], &again);
        template->tree = r->broken ? 0 : r->region->tree;
        template->tree_from = from;
        template->tree_to = r->at;
    }
    begin_piece(hot, true);
}

void gt__region_take_back(gt_client *client, const gt_template *template, uint32_t fitted)
{
    gt_hotpath *hot = client->hotpath;
    gt_recording *r = &hot->recording;
    if (r->broken)
        return;
    uint32_t more = (uint32_t)client->live - (template->live[fitted - 1] + 1);
    gt__hotpath_collect(hot);
    for (uint32_t k = 0; k < fitted && !r->broken; k++) {
        bool again;
        r->at = follow(r, template->canonical[k], &again);
        r->known &= again && !r->region->came[r->at].varies;
        hot->live[k] = template->live[k] + more;
    }
    hot->records = fitted;
    hot->staged = fitted < template->count ? template->at[fitted] : template->slots;
    hot->work = (int64_t) template->work;
    note_frees(client);
}

void gt__region_record(gt_client *client, const gt_slot *record, unsigned slots, gt_canonical canonical,
                       int64_t work)
{
    gt_hotpath *hot = client->hotpath;
    gt_recording *r = &hot->recording;
    hot->ended = NULL;
    if (r->broken)
        return;
    bool again;
    uint32_t place = follow(r, canonical, &again);
    if (!place)
        return;
    if (r->region->came[place].varies) {
        cut(hot);
        r->at = place;
        r->varied = true;
        begin_piece(hot, true);
        return;
    }
    r->at = place;
    r->known &= again;
    r->broken = !gt__hotpath_collect_record(client, record, slots, work);
    note_frees(client);
}
