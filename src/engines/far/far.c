/*
 * far.c: an engine for tests: the cpu engine behind addresses that fault when the host touches them, as those of a
 * device may. What works on it works without looking into an engine's memory.
 *
 * Two ranges of addresses have the same size. Blocks lie in the near one, which can be read and written; the engine hands
 * out the same place in the far one, which cannot. So one constant difference leads from any far address, at whatever
 * offset in its block, to the near one. Addresses that are not of this engine, nor borrowed, are refused. Engines of one
 * process lend each other memory.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engines/group.h"
#include "engines/plugin.h"

static const size_t most_range = (size_t)1 << 38; /* addresses, not memory */
static const size_t least_range = (size_t)1 << 30;

enum { ALIGNMENT = 64, PAGE = 64 * 1024 /* a whole number of the system's, whatever they are */ };

/* Blocks of one size that are free: places in the ranges. There is room for all of that size. */
typedef struct pile {
    struct pile *next;
    size_t block;
    size_t count, capacity, blocks;
    size_t *free;
} pile;

typedef struct ranges {
    char *near, *far;
    size_t range;
} ranges;

/* The ranges of another engine, while this one borrows from it. */
typedef struct lender {
    struct lender *next;
    ranges theirs;
    unsigned loans;
} lender;

typedef struct far_engine {
    gt_engine engine;
    gt_engine *cpu;
    char *near, *far;
    size_t range, used;
    pile *piles;
    lender *lenders;
    gt_view out;
    gt_view in[GT_MAX_CAT]; /* of the running call */
    const gt_view *views[GT_MAX_CAT];
} far_engine;

static const gt_engine_ops engine_far;

static far_engine *far_of(gt_engine *engine)
{
    return (far_engine *)engine;
}

static void far_close(gt_engine *engine)
{
    far_engine *far = far_of(engine);
    if (!far)
        return;
    for (pile *p = far->piles, *next; p; p = next) {
        next = p->next;
        free(p->free);
        free(p);
    }
    if (far->near)
        munmap(far->near, 2 * far->range);
    if (far->cpu)
        far->cpu->ops->close(far->cpu);
    free(far);
}

static gt_err reserve(far_engine *far)
{
    for (size_t range = most_range; range >= least_range; range /= 2) {
        char *both = mmap(NULL, 2 * range, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (both == MAP_FAILED)
            continue;
        far->near = both;
        far->far = both + range;
        far->range = range;
        if (mprotect(both, range, PROT_READ | PROT_WRITE) == 0)
            return GT_OK;
        munmap(both, 2 * range);
        far->near = NULL;
    }
    return gt__fail(GT_ERR_MEMORY, "the far engine cannot reserve addresses");
}

static gt_err far_open(const gt_engine_options *options, gt_engine **engine)
{
    const gt_engine_ops *cpu;
    GT_TRY(gt__engine_find("cpu", &cpu));
    far_engine *far = calloc(1, sizeof *far);
    if (!far)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    far->engine.ops = &engine_far;
    gt_err err = reserve(far);
    if (err == GT_OK)
        err = cpu->open(options, &far->cpu);
    if (err) {
        far_close(&far->engine);
        return err;
    }
    *engine = &far->engine;
    return GT_OK;
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

static uint64_t far_memory_limit(gt_engine *engine, unsigned sharers)
{
    far_engine *far = far_of(engine);
    uint64_t limit = far->cpu->ops->memory_limit(far->cpu, sharers);
    return limit < far->range ? limit : far->range;
}

/* Of a block for so many bytes; large ones have pages of their own. */
static size_t block_size(size_t bytes)
{
    size_t unit = bytes < PAGE ? ALIGNMENT : PAGE;
    return bytes ? (bytes + unit - 1) / unit * unit : ALIGNMENT;
}

static pile *find_pile(const far_engine *far, size_t block)
{
    pile *p = far->piles;
    while (p && p->block != block)
        p = p->next;
    return p;
}

/* The pile of a size that there was none of. NULL: no memory for it. */
static pile *new_pile(far_engine *far, size_t block)
{
    pile *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->block = block;
    p->next = far->piles;
    return far->piles = p;
}

/* Room on the pile for one more block, so that release does not need any. */
static bool grow_pile(pile *p)
{
    if (p->blocks == p->capacity) {
        size_t capacity = p->capacity ? 2 * p->capacity : 8;
        size_t *more = realloc(p->free, capacity * sizeof *more);
        if (!more)
            return false;
        p->free = more;
        p->capacity = capacity;
    }
    p->blocks++;
    return true;
}

static void *take_block(far_engine *far, size_t bytes)
{
    if (bytes > far->range)
        return NULL;
    size_t block = block_size(bytes);
    pile *p = find_pile(far, block);
    if (p && p->count)
        return far->far + p->free[--p->count];
    size_t at = block < PAGE ? far->used : (far->used + PAGE - 1) / PAGE * PAGE;
    if (at > far->range || block > far->range - at)
        return NULL;
    if (!p)
        p = new_pile(far, block);
    if (!p || !grow_pile(p))
        return NULL;
    far->used = at + block;
    return far->far + at;
}

static gt_err far_alloc(gt_engine *engine, size_t bytes, void **memory)
{
    *memory = take_block(far_of(engine), bytes);
    return *memory ? GT_OK : gt__fail(GT_ERR_MEMORY, "the far engine has no addresses left");
}

static void far_release(gt_engine *engine, void *memory, size_t bytes)
{
    far_engine *far = far_of(engine);
    if (!memory)
        return;
    pile *p = find_pile(far, block_size(bytes));
    size_t at = (size_t)((char *)memory - far->far);
    if (p->block >= PAGE)
        madvise(far->near + at, p->block, MADV_DONTNEED);
    p->free[p->count++] = at;
}

/* The near address of a far one. */
static gt_err come_near(const far_engine *far, const void *address, void **near)
{
    size_t at = (uintptr_t)address - (uintptr_t)far->far;
    if (at <= far->used) {
        *near = far->near + at;
        return GT_OK;
    }
    for (const lender *l = far->lenders; l; l = l->next) {
        at = (uintptr_t)address - (uintptr_t)l->theirs.far;
        *near = l->theirs.near + at;
        if (at < l->theirs.range)
            return GT_OK;
    }
    return gt__fail(GT_ERR_INTERNAL, "%p is not an address of the far engine", address);
}

/* ---- loans --------------------------------------------------------------------------------------------------- */

/* What is in a loan. */
typedef struct contents {
    ranges ours;
    const void *memory;
} contents;
_Static_assert(sizeof(contents) <= sizeof(gt_loan), "a loan has room for it");

static uint64_t far_group(gt_engine *engine)
{
    (void)engine;
    return gt__process_identity();
}

static gt_err far_lend(gt_engine *engine, const void *memory, size_t bytes, bool outside, gt_loan *loan)
{
    (void)bytes;
    (void)outside; /* the group is one process */
    const far_engine *far = far_of(engine);
    contents c = {.ours = {.near = far->near, .far = far->far, .range = far->range}, .memory = memory};
    memcpy(loan, &c, sizeof c);
    return GT_OK;
}

static lender **find_lender(far_engine *far, const contents *c)
{
    lender **where = &far->lenders;
    while (*where && (*where)->theirs.far != c->ours.far)
        where = &(*where)->next;
    return where;
}

static gt_err far_borrow(gt_engine *engine, const gt_loan *loan, void **memory)
{
    far_engine *far = far_of(engine);
    contents c;
    memcpy(&c, loan, sizeof c);
    lender **where = find_lender(far, &c);
    if (!*where && !(*where = calloc(1, sizeof **where)))
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    (*where)->theirs = c.ours;
    (*where)->loans++;
    *memory = (void *)c.memory;
    return GT_OK;
}

static void far_give_back(gt_engine *engine, const gt_loan *loan)
{
    contents c;
    memcpy(&c, loan, sizeof c);
    lender **where = find_lender(far_of(engine), &c), *l = *where;
    if (l && --l->loans == 0) {
        *where = l->next;
        free(l);
    }
}

static gt_err far_write(gt_engine *engine, void *to, const void *host, size_t bytes, bool timed, gt_token *token)
{
    far_engine *far = far_of(engine);
    void *near;
    GT_TRY(come_near(far, to, &near));
    return far->cpu->ops->write(far->cpu, near, host, bytes, timed, token);
}

static gt_err far_read(gt_engine *engine, const void *from, void *host, size_t bytes, bool timed, gt_token *token)
{
    far_engine *far = far_of(engine);
    void *near;
    GT_TRY(come_near(far, from, &near));
    return far->cpu->ops->read(far->cpu, near, host, bytes, timed, token);
}

/* To a library that works on the host's memory. */
static gt_err far_expose(gt_engine *engine, void *memory, size_t bytes, void **address)
{
    (void)bytes;
    return come_near(far_of(engine), memory, address);
}

/* ---- computing ----------------------------------------------------------------------------------------------- */

static gt_err far_run(gt_engine *engine, const gt_call *call, gt_token *token)
{
    far_engine *far = far_of(engine);
    gt_call near = *call;
    for (unsigned k = 0; k < call->operands; k++) {
        far->views[k] = call->in[k];
        if (k < GT_MAX_OPERANDS && call->literals >> k & 1)
            continue; /* it has no data */
        far->in[k] = *call->in[k];
        GT_TRY(come_near(far, call->in[k]->data, &far->in[k].data));
        far->views[k] = &far->in[k];
    }
    far->out = *call->out;
    GT_TRY(come_near(far, call->out->data, &far->out.data));
    near.in = far->views;
    near.out = &far->out;
    return far->cpu->ops->run(far->cpu, &near, token);
}

static const gt_engine_ops engine_far = {
    .name = "far",
    .host_memory = false,
    .open = far_open,
    .close = far_close,
    .memory_limit = far_memory_limit,
    .alloc = far_alloc,
    .release = far_release,
    .write = far_write,
    .read = far_read,
    .run = far_run,
    .group = far_group,
    .lend = far_lend,
    .borrow = far_borrow,
    .give_back = far_give_back,
    .memory_type = "host",
    .expose = far_expose,
};

GT_ENGINE_PLUGIN(engine_far);
