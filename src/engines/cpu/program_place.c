/*
 * program_place.c: gives the operations of a group their scratch, and the group its tiles. Read program.h first.
 *
 * A region of scratch is free again after the last operation that uses its slot; then another slot of the same size takes it.
 */
#include <stdlib.h>

#include "engines/cpu/program.h"

enum {
    TILE_BYTES = 32 * 1024, /* that one tile of all operands may have */
    LEAST_TILE = 256,       /* elements */
    MOST_TILE = 8192,
    MOST_PARTS = 32, /* with sums of their own */
};

typedef struct region {
    uint8_t size;
    gt_level level;
    bool busy;
    size_t offset;
} region;

typedef struct placing {
    gt_fused *fused;
    const gt_plan *plan;
    const gt_group *group;
    region *region;
    unsigned regions;
} placing;

static void find_lives(gt_fused *f)
{
    for (unsigned k = 0; k < f->op_count; k++) {
        const gt_tile_op *op = &f->ops[k];
        f->slots[op->out].first = k < f->slots[op->out].first ? k : f->slots[op->out].first;
        f->slots[op->out].last = k;
        for (unsigned i = 0; i < op->inputs; i++)
            f->slots[op->in[i]].last = k < f->before ? f->op_count : k;
        if (k < f->before)
            f->slots[op->out].last = f->op_count; /* made once, for all tiles */
        for (unsigned o = 0; o < op->more_outs; o++)
            f->slots[op->more_out[o]].first = f->slots[op->more_out[o]].last = k;
    }
    for (unsigned k = f->before; k < f->op_count; k++)
        for (unsigned i = 0; i < f->ops[k].inputs; i++) {
            gt_tile_slot *slot = &f->slots[f->ops[k].in[i]];
            slot->last = slot->first < f->before ? f->op_count : slot->last;
        }
}

static void release_operands(placing *p, unsigned number)
{
    gt_fused *f = p->fused;
    const gt_tile_op *op = &f->ops[number];
    for (unsigned i = 0; i < op->inputs; i++) {
        const gt_tile_slot *slot = &f->slots[op->in[i]];
        if (slot->region != GT_NO_REGION && slot->last == number)
            p->region[slot->region].busy = false;
    }
}

static void take_region(placing *p, gt_tile_slot *slot)
{
    if (slot->place != GT_PLACE_SCRATCH || slot->region != GT_NO_REGION)
        return;
    unsigned best = p->regions;
    for (unsigned r = 0; r < p->regions && best == p->regions; r++)
        if (!p->region[r].busy && p->region[r].size == slot->size && p->region[r].level == slot->level)
            best = r;
    if (best == p->regions)
        p->region[p->regions++] = (region){.size = slot->size, .level = slot->level};
    p->region[best].busy = true;
    slot->region = best;
}

static void assign_regions(placing *p)
{
    gt_fused *f = p->fused;
    find_lives(f);
    for (unsigned k = 0; k < f->op_count; k++) {
        const gt_tile_op *op = &f->ops[k];
        if (op->over_operand)
            release_operands(p, k);
        for (unsigned o = 0; o <= op->more_outs; o++)
            take_region(p, &f->slots[o ? op->more_out[o - 1] : op->out]);
        if (!op->over_operand)
            release_operands(p, k);
        for (unsigned o = 0; o <= op->more_outs; o++) {
            const gt_tile_slot *out = &f->slots[o ? op->more_out[o - 1] : op->out];
            if (out->region != GT_NO_REGION && out->last == k)
                p->region[out->region].busy = false;
        }
    }
}

/* Tiles such that all of their operands stay in the nearest cache. */
static void choose_tile(placing *p)
{
    gt_fused *f = p->fused;
    size_t bytes = 0;
    for (unsigned r = 0; r < p->regions; r++)
        bytes += p->region[r].level == GT_LEVEL_FULL ? p->region[r].size : 0;
    for (unsigned s = 0; s < f->slot_count; s++)
        bytes += f->slots[s].place == GT_PLACE_MEMORY && f->slots[s].level == GT_LEVEL_FULL ? f->slots[s].size : 0;
    int64_t elements = (int64_t)(TILE_BYTES / (bytes ? bytes : 1));
    elements = elements < LEAST_TILE ? LEAST_TILE : elements > MOST_TILE ? MOST_TILE : elements;
    if (p->group->aligned)
        elements = elements < GT_TILE ? GT_TILE : elements / GT_TILE * GT_TILE;
    elements = elements / LEAST_TILE * LEAST_TILE;
    int64_t positions = f->row ? f->count / f->row : f->count;
    f->tile = f->row ? elements / f->row : elements;
    for (unsigned g = 0; g < f->gather_count; g++)
        if (f->tile < GT_ROWS_ACROSS && f->row && f->row <= GT_LONGEST_ACROSS &&
            gt__access_crosses(&f->gathers[g].access))
            f->tile = GT_ROWS_ACROSS;
    f->tile = f->tile < 1 ? 1 : f->tile > positions ? positions : f->tile;
    f->tiles = (positions + f->tile - 1) / f->tile;
}

static void lay_out(placing *p)
{
    gt_fused *f = p->fused;
    size_t offset = gt__line_aligned(f->slot_count * sizeof(void *)); /* gt_tile's `at` comes first */
    int64_t count[] = {
        [GT_LEVEL_FULL] = f->tile * (f->row ? f->row : 1), [GT_LEVEL_ROW] = f->tile, [GT_LEVEL_COLUMN] = f->row};
    for (unsigned r = 0; r < p->regions; r++) {
        p->region[r].offset = offset;
        offset += gt__line_aligned((size_t)count[p->region[r].level] * p->region[r].size);
    }
    for (unsigned s = 0; s < f->slot_count; s++)
        if (f->slots[s].place == GT_PLACE_SCRATCH && f->slots[s].region != GT_NO_REGION)
            f->slots[s].offset = (int64_t)p->region[f->slots[s].region].offset;
    for (unsigned g = 0; g < f->gather_count; g++)
        f->gathers[g].offset = f->slots[f->gathers[g].slot].offset;
    f->scratch = offset;
}

/* Work for a thread: as in eager mode, counted in elements that members compute. */
static void choose_grain(placing *p)
{
    gt_fused *f = p->fused;
    int64_t cost = 0, elements = f->tile * (f->row ? f->row : 1);
    for (unsigned k = 0; k < p->group->members; k++) {
        const gt_plan_step *step = &p->plan->steps[p->group->member[k].step];
        cost += p->group->member[k].level != GT_LEVEL_FULL     ? 0
                : gt__op_table[step->op].types == GT_TYPES_FLT ? 4
                                                               : 1;
    }
    cost = cost / 2 ? cost / 2 : 1; /* less than on their own: operands are in the cache, or in registers */
    f->grain = GT_CPU_GRAIN / (elements * cost);
    f->grain = f->grain < 1 ? 1 : f->grain;
    f->parts = f->tiles / f->grain;
    f->parts = f->parts < 1 ? 1 : f->parts > MOST_PARTS ? MOST_PARTS : f->parts;
}

gt_err gt__fused_place(gt_fused *fused, const gt_plan *plan, const gt_group *group)
{
    placing p = {.fused = fused, .plan = plan, .group = group};
    p.region = calloc(fused->slot_count + 1, sizeof *p.region);
    if (!p.region)
        return gt__fail(GT_ERR_MEMORY, "no memory for a program");
    assign_regions(&p);
    choose_tile(&p);
    lay_out(&p);
    choose_grain(&p);
    free(p.region);
    return GT_OK;
}
