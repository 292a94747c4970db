/* path_plans.c: see path_plans.h. Place in the flow: paths.c -> here -> run.c. */
#include "worker/path_plans.h"

#include <stdlib.h>
#include <string.h>

#include "worker/worker.h"

enum { VARIANTS = 64, KEPT = 64 };

/* ---- structure ---------------------------------------------------------------------------------------------- */

/* The path's records without what may differ between paths of the same structure: parameters, and lines of the program. The
 * caller's to free. NULL: out of memory. */
static gt_slot *essence(const gt_path *path)
{
    gt_slot *records = malloc(path->slots * sizeof *records);
    if (!records)
        return NULL;
    memcpy(records, path->records, path->slots * sizeof *records);
    for (uint32_t k = 0; k < path->parameters; k++)
        *gt__record_word(records + path->parameter[k].slot, path->parameter[k].word) = 0;
    for (uint32_t at = 0; at < path->slots; at += 1u + records[at].ins.tail)
        records[at].u64[GT_WORD_PLACE] = 0;
    return records;
}

static uint64_t hash_structure(const gt_path *path)
{
    uint64_t hash = path->slots ^ (uint64_t)path->parameters << 32;
    gt_slot *records = essence(path);
    for (size_t k = 0; records && k < 8 * (size_t)path->slots; k++)
        hash = (hash ^ hash >> 29 ^ records->u64[k]) * 0x9E3779B97F4A7C15u;
    free(records);
    return hash;
}

static bool same_structure(const gt_path *a, const gt_path *b)
{
    if (a->slots != b->slots || a->count != b->count || a->inputs != b->inputs || a->outputs != b->outputs ||
        a->parameters != b->parameters || a->marked != b->marked ||
        memcmp(a->parameter, b->parameter, a->parameters * sizeof *a->parameter) != 0)
        return false;
    gt_slot *ours = essence(a), *theirs = essence(b);
    bool same = ours && theirs && memcmp(ours, theirs, a->slots * sizeof *ours) == 0;
    free(ours);
    free(theirs);
    return same;
}

/* ---- life --------------------------------------------------------------------------------------------------- */

static void plans_free(gt_worker *worker, gt_path_plans *plans)
{
    for (unsigned k = 0; k < plans->count; k++)
        gt__sequence_free(worker, &plans->variants[k].sequence);
    free(plans->variants);
    gt__path_free(&plans->path);
    free(plans);
}

/* Kept plans serve a path with other lines of the program: failures name these from now on. */
static void adopt(gt_path_plans *plans, gt_path *path)
{
    for (unsigned k = 0; k < plans->count; k++)
        for (uint32_t at = 0; at < path->slots; at += 1u + path->records[at].ins.tail)
            gt__sequence_set_word(plans->variants[k].sequence, at, GT_WORD_PLACE,
                                  path->records[at].u64[GT_WORD_PLACE]);
    gt__path_free(&plans->path);
    plans->path = path;
}

gt_path_plans *gt__path_plans_take(gt_path_cache *cache, gt_path *path)
{
    uint64_t structure = hash_structure(path);
    gt_path_plans **where = &cache->first, *plans;
    while (*where && ((*where)->used || (*where)->structure != structure || !same_structure((*where)->path, path)))
        where = &(*where)->next;
    plans = *where;
    if (plans) {
        *where = plans->next;
        adopt(plans, path);
    } else if ((plans = calloc(1, sizeof *plans))) {
        plans->path = path;
        plans->structure = structure;
    } else {
        gt__path_free(&path);
        return NULL;
    }
    plans->used = true;
    plans->left = false;
    plans->next = cache->first;
    cache->first = plans;
    return plans;
}

void gt__path_plans_leave(gt_worker *worker, gt_path_cache *cache, gt_path_plans *plans)
{
    gt_path_plans **where = &cache->first;
    plans->left = plans->held != 0;
    if (plans->left)
        return;
    for (unsigned k = 0; k < plans->count; k++)
        gt__sequence_rest(worker, plans->variants[k].sequence);
    while (*where != plans)
        where = &(*where)->next;
    *where = plans->next;
    if (!plans->count) { /* it never ran */
        plans_free(worker, plans);
        return;
    }
    plans->used = plans->moves = false;
    plans->next = cache->first;
    cache->first = plans;
    gt__path_plans_trim(worker, cache, KEPT);
}

void gt__path_plans_trim(gt_worker *worker, gt_path_cache *cache, unsigned kept)
{
    gt_path_plans **where = &cache->first;
    while (*where) {
        gt_path_plans *plans = *where;
        if (plans->used || kept) {
            kept -= !plans->used;
            where = &plans->next;
        } else {
            *where = plans->next;
            plans_free(worker, plans);
        }
    }
}

bool gt__path_plans_add(gt_worker *worker, gt_path_plans *plans, gt_sequence *sequence, uint64_t key)
{
    if (!plans->variants)
        plans->variants = calloc(VARIANTS, sizeof *plans->variants);
    if (!plans->variants) {
        gt__sequence_free(worker, &sequence);
        return false;
    }
    unsigned number = plans->count < VARIANTS ? plans->count++ : plans->oldest++ % VARIANTS;
    gt__sequence_free(worker, &plans->variants[number].sequence);
    plans->variants[number] = (gt_path_variant){.sequence = sequence, .key = key};
    plans->last = number;
    return true;
}
