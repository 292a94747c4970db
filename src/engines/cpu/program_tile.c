/* program_tile.c: runs a group's operations tile by tile, threads sharing the tiles. Read program.h first. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engines/cpu/box.h"
#include "engines/cpu/program.h"

/* ---- operations ---------------------------------------------------------------------------------------------- */

void gt__tile_apply(const gt_tile_op *op, gt_tile *tile)
{
    void **at = tile->at;
    op->apply.kernel(at[op->out], at[op->in[0]], at[op->in[1]], at[op->in[2]], op->apply.pq,
                     tile->count[op->level]);
}

void gt__tile_compound(const gt_tile_op *op, gt_tile *tile)
{
    void **at = tile->at;
    const float *in[GT_COMPOUND_INPUTS];
    float *out[GT_COMPOUND_OUTPUTS] = {at[op->out]}, number[GT_COMPOUND_NUMBERS];
    for (unsigned k = 0; k < GT_COMPOUND_INPUTS; k++)
        in[k] = at[op->in[k]];
    for (unsigned k = 0; k < op->more_outs; k++)
        out[1 + k] = at[op->more_out[k]];
    for (unsigned k = 0; k < GT_COMPOUND_NUMBERS; k++)
        number[k] = k < op->compound.numbers ? *(const float *)at[op->compound.number[k]] : 0;
    op->compound.kernel(out, in, number, tile->count[GT_LEVEL_FULL]);
}

void gt__tile_apply_rows(const gt_tile_op *op, gt_tile *tile)
{
    char *out = tile->at[op->out];
    const char *x = tile->at[op->in[0]], *y = tile->at[op->in[1]], *z = tile->at[op->in[2]];
    for (int64_t r = 0; r < tile->count[GT_LEVEL_ROW]; r++) {
        op->apply.kernel(out, x, y, z, op->apply.pq, tile->row);
        out += op->apply.out_step;
        x += op->apply.in_step[0];
        y += op->apply.in_step[1];
        z += op->apply.in_step[2];
    }
}

void gt__tile_load(const gt_tile_op *op, gt_tile *tile)
{
    op->load(tile->at[op->out], tile->at[op->in[0]], 1, tile->count[op->level]);
}

void gt__tile_store(const gt_tile_op *op, gt_tile *tile)
{
    op->store(tile->at[op->out], 1, tile->at[op->in[0]], tile->count[op->level]);
}

void gt__tile_move(const gt_tile_op *op, gt_tile *tile)
{
    op->move(tile->at[op->out], 1, tile->at[op->in[0]], 1, tile->count[op->level]);
}

void gt__tile_fill(const gt_tile_op *op, gt_tile *tile)
{
    op->move(tile->at[op->out], 1, tile->at[op->in[0]], 0, tile->count[op->level]);
}

void gt__tile_spread_rows(const gt_tile_op *op, gt_tile *tile)
{
    char *out = tile->at[op->out];
    const char *in = tile->at[op->in[0]];
    int64_t size = (int64_t)gt__dtype_size(op->dtype);
    if (tile->row < GT_SHORTEST_ROW) {
        gt__spread(size, out, in, tile->count[GT_LEVEL_ROW], tile->row);
        return;
    }
    for (int64_t r = 0; r < tile->count[GT_LEVEL_ROW]; r++)
        op->move(out + r * tile->row * size, 1, in + r * size, 0, tile->row);
}

void gt__tile_spread_columns(const gt_tile_op *op, gt_tile *tile)
{
    size_t bytes = (size_t)tile->row * gt__dtype_size(op->dtype);
    memcpy(tile->at[op->out], tile->at[op->in[0]], bytes);
    gt__repeat(tile->at[op->out], (int64_t)bytes, tile->count[GT_LEVEL_ROW]);
}

/* `rows` whole rows of an operand that lies by column. */
static void gather_across(const gt_tile_gather *g, char *to, const char *from, int64_t rows)
{
    enum { MOST_ROWS = 64 };
    _Alignas(64) char loaded[GT_TILE * sizeof(double)];
    int last = g->access.rank - 1;
    int64_t width = g->access.shape[last], step = g->access.stride[last] * g->from_size;
    if (g->as_is) {
        gt__transpose(g->from_size, to, width, from, g->access.stride[last], rows, width);
        return;
    }
    for (int64_t r = 0; r < rows; r += MOST_ROWS) {
        int64_t high = gt__min(rows - r, MOST_ROWS), most = GT_TILE / high;
        for (int64_t j = 0; j < width; j += most) {
            int64_t wide = gt__min(width - j, most);
            for (int64_t k = 0; k < wide; k++)
                g->load(loaded + k * high * g->to_size, from + (j + k) * step + r * g->from_size, 1, high);
            gt__transpose(g->to_size, to + (r * width + j) * g->to_size, width, loaded, high, high, wide);
        }
    }
}

void gt__tile_gather_run(const gt_tile_op *op, gt_tile *tile)
{
    const gt_tile_gather *g = op->gather;
    const gt_access *a = &g->access;
    int last = a->rank - 1;
    int64_t index[GT_MAX_RANK], width = a->shape[last], step = a->stride[last], offset = 0;
    int64_t begin = tile->begin[op->level], left = tile->count[op->level];
    int64_t rest = begin / width, column = begin % width;
    const char *from = tile->at[op->in[0]];
    char *to = (char *)tile->at + g->offset;
    for (int axis = last - 1; axis >= 0; axis--) {
        index[axis] = rest % a->shape[axis];
        rest /= a->shape[axis];
        offset += index[axis] * a->stride[axis];
    }
    if (g->as_is && step == 1 && width - column >= left) {
        tile->at[op->out] = (void *)(uintptr_t)(from + (offset + column) * g->from_size);
        return;
    }
    tile->at[op->out] = to;
    bool crosses = gt__access_crosses(a);
    while (left > 0) {
        int64_t count = gt__min(width - column, left), rows = 1;
        const char *run = from + (offset + column * step) * g->from_size;
        if (crosses && column == 0 && left >= width) {
            rows = gt__min(left / width, a->shape[last - 1] - index[last - 1]);
            count = rows * width;
            gather_across(g, to, run, rows);
        } else if (g->load)
            g->load(to, run, step, count);
        else
            g->move(to, 1, run, step, count);
        to += count * g->to_size;
        left -= count;
        column = 0;
        for (int axis = last - 1; axis >= 0; axis--) {
            offset += a->stride[axis] * rows;
            index[axis] += rows;
            if (index[axis] < a->shape[axis])
                break;
            index[axis] = 0;
            offset -= a->stride[axis] * a->shape[axis];
            rows = 1;
        }
    }
}

void gt__tile_reduce(const gt_tile_op *op, gt_tile *tile)
{
    gt__cpu_reduce_rows(tile->cpu, op->ins, op->compute, tile->at[op->in[0]], tile->count[GT_LEVEL_ROW], tile->row,
                        op->beside, op->dtype, tile->at[op->out]);
}

void gt__tile_softmax(const gt_tile_op *op, gt_tile *tile)
{
    gt__cpu_softmax_rows(tile->cpu, op->op, op->compute,
                         (const void *[]){tile->at[op->in[0]], tile->at[op->in[1]]}, tile->count[GT_LEVEL_ROW],
                         tile->row, tile->at[op->out]);
}

void gt__tile_norm(const gt_tile_op *op, gt_tile *tile)
{
    gt__cpu_norm_rows(tile->cpu, op->ins, op->compute,
                      (const void *[]){tile->at[op->in[0]], tile->at[op->in[1]], tile->at[op->in[2]]},
                      tile->count[GT_LEVEL_ROW], tile->row, tile->at[op->out]);
}

void gt__tile_sum_columns(const gt_tile_op *op, gt_tile *tile)
{
    gt__cpu_fold_columns(tile->cpu, op->ins, op->compute, tile->at[op->in[0]], tile->count[GT_LEVEL_ROW],
                         tile->row, tile->sums + op->sum.offset);
}

void gt__tile_sum_all(const gt_tile_op *op, gt_tile *tile)
{
    gt__cpu_fold_all(tile->cpu, op->ins, op->compute, tile->at[op->in[0]], tile->count[GT_LEVEL_FULL],
                     tile->sums + op->sum.offset);
}

void gt__tile_norm_sum(const gt_tile_op *op, gt_tile *tile)
{
    gt__cpu_norm_sum(tile->cpu, op->ins, op->compute, tile->at[op->in[0]], tile->at[op->in[1]],
                     tile->count[GT_LEVEL_ROW], tile->row, tile->sums + op->sum.offset);
}

/* ---- scratch ------------------------------------------------------------------------------------------------- */

/* A block for each thread; a thread claims one for the time of a chunk. */
struct gt_scratch {
    unsigned blocks;
    size_t bytes, sum_bytes;
    char *memory;
    char *sums;
    atomic_bool busy[];
};

gt_err gt__scratch_reserve(gt_cpu *cpu, size_t bytes, size_t sums)
{
    enum { PAGE = 4096 };
    const gt_scratch *old = cpu->scratch;
    unsigned threads = (unsigned)gt__parallel_threads(cpu->parallel);
    bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    sums = (sums + PAGE - 1) / PAGE * PAGE;
    if (old && old->bytes >= bytes && old->sum_bytes >= sums)
        return GT_OK;
    bytes = old && old->bytes > bytes ? old->bytes : bytes;
    sums = old && old->sum_bytes > sums ? old->sum_bytes : sums;
    gt_scratch *s = malloc(sizeof *s + threads * sizeof s->busy[0]);
    if (s)
        *s = (gt_scratch){.blocks = threads, .bytes = bytes, .sum_bytes = sums};
    if (s)
        s->memory = aligned_alloc(PAGE, threads * bytes + sums + PAGE);
    if (!s || !s->memory) {
        gt__scratch_free(s);
        return gt__fail(GT_ERR_MEMORY, "no memory for a program");
    }
    s->sums = s->memory + threads * bytes;
    for (unsigned k = 0; k < threads; k++)
        atomic_init(&s->busy[k], false);
    gt__scratch_free(cpu->scratch);
    cpu->scratch = s;
    return GT_OK;
}

void gt__scratch_free(gt_scratch *scratch)
{
    if (scratch)
        free(scratch->memory);
    free(scratch);
}

static unsigned scratch_claim(gt_scratch *s)
{
    for (unsigned k = 0;; k = (k + 1) % s->blocks)
        if (!atomic_exchange_explicit(&s->busy[k], true, memory_order_acquire))
            return k;
}

/* ---- tiles --------------------------------------------------------------------------------------------------- */

typedef struct pass {
    const gt_cpu *cpu;
    const gt_fused *fused;
    gt_scratch *scratch;
} pass;

static void set_tile(const gt_fused *f, gt_tile *tile, int64_t number)
{
    int64_t positions = f->row ? f->count / f->row : f->count, begin = number * f->tile;
    int64_t count = gt__min(f->tile, positions - begin), row = f->row ? f->row : 1;
    tile->begin[GT_LEVEL_ROW] = begin;
    tile->count[GT_LEVEL_ROW] = count;
    tile->begin[GT_LEVEL_FULL] = begin * row;
    tile->count[GT_LEVEL_FULL] = count * row;
    for (unsigned s = 0; s < f->slot_count; s++) {
        const gt_tile_slot *slot = &f->slots[s];
        if (slot->place == GT_PLACE_MEMORY)
            tile->at[s] = slot->base + tile->begin[slot->level] * slot->size;
    }
}

enum { POLL = 64 }; /* tiles between two looks whether the work was cancelled */

/* Tiles begin <= t < end, on this thread. */
static void run_some(const pass *p, int64_t begin, int64_t end, char *sums)
{
    const gt_fused *f = p->fused;
    unsigned block = scratch_claim(p->scratch);
    char *scratch = p->scratch->memory + block * p->scratch->bytes;
    gt_tile tile = {.at = (void **)scratch, .cpu = p->cpu, .row = f->row, .sums = sums};
    tile.count[GT_LEVEL_COLUMN] = f->row;
    for (unsigned s = 0; s < f->slot_count; s++)
        tile.at[s] = f->slots[s].place == GT_PLACE_SCRATCH ? scratch + f->slots[s].offset : f->slots[s].base;
    for (unsigned k = 0; k < f->before; k++)
        f->ops[k].run(&f->ops[k], &tile);
    for (int64_t number = begin; number < end; number++) {
        if (number % POLL == 0 && gt__parallel_poll(p->cpu->parallel))
            break;
        set_tile(f, &tile, number);
        for (unsigned k = f->before; k < f->op_count; k++)
            f->ops[k].run(&f->ops[k], &tile);
    }
    atomic_store_explicit(&p->scratch->busy[block], false, memory_order_release);
}

static void run_tiles(void *context, int64_t begin, int64_t end)
{
    run_some(context, begin, end, NULL);
}

/* ---- sums ---------------------------------------------------------------------------------------------------- */

static void start_sum(const gt_tile_op *op, char *sums)
{
    if (op->run == gt__tile_norm_sum)
        memset(sums + op->sum.offset, 0, (size_t)op->sum.results * gt__compute_size(op->compute));
    else
        gt__cpu_fold_start(op->ins, op->compute, op->sum.results, sums + op->sum.offset);
}

static void finish_sum(const pass *p, const gt_tile_op *op)
{
    const gt_fused *f = p->fused;
    char *first = p->scratch->sums + op->sum.offset, *out = f->slots[op->out].base;
    bool norm = op->run == gt__tile_norm_sum;
    for (int64_t number = 1; number < f->parts; number++) {
        const char *part = first + (size_t)number * f->sums;
        if (norm)
            p->cpu->kernels->elementwise[GT_OP_add][op->compute][0](first, first, part, NULL, NULL,
                                                                    op->sum.results);
        else
            gt__cpu_fold_merge(p->cpu, op->ins, op->compute, op->sum.results, first, part);
    }
    if (norm)
        gt__cpu_store_tile(p->cpu, op->compute, op->dtype, first, out, 1, op->sum.results);
    else
        gt__cpu_fold_finish(p->cpu, op->ins, op->compute, op->sum.results, f->count / op->sum.results, first,
                            op->dtype, out);
}

/* Parts begin <= part < end of the tiles. */
static void run_parts(void *context, int64_t begin, int64_t end)
{
    const pass *p = context;
    const gt_fused *f = p->fused;
    for (int64_t part = begin; part < end; part++) {
        char *sums = p->scratch->sums + (size_t)part * f->sums;
        for (unsigned k = f->before; k < f->op_count; k++)
            if (gt__tile_sums(&f->ops[k]))
                start_sum(&f->ops[k], sums);
        run_some(p, part * f->tiles / f->parts, (part + 1) * f->tiles / f->parts, sums);
    }
}

static void run_with_sums(pass *p)
{
    const gt_fused *f = p->fused;
    gt__parallel_for(p->cpu->parallel, f->parts, 1, run_parts, p);
    for (unsigned k = f->before; k < f->op_count; k++)
        if (gt__tile_sums(&f->ops[k]))
            finish_sum(p, &f->ops[k]);
}

/* ---- groups -------------------------------------------------------------------------------------------------- */

static void prepare_number(const gt_cpu *cpu, gt_tile_number *n, void *const *buffer)
{
    gt_view literal;
    gt_imm value;
    gt_dtype dtype = n->dtype;
    const void *from = &value;
    if (n->ins) {
        value = gt__literal_operand(n->ins, n->operand, &literal);
        dtype = (gt_dtype)literal.meta.dtype;
    } else
        from = (const char *)buffer[n->buffer] + n->offset;
    gt__cpu_load_tile(cpu, n->compute, dtype, from, 1, 1, &n->value);
    if (n->narrow != gt__native_dtype(n->compute)) {
        gt_scalar narrow;
        gt__cpu_store_tile(cpu, n->compute, n->narrow, &n->value, &narrow, 1, 1);
        gt__cpu_load_tile(cpu, n->compute, n->narrow, &narrow, 1, 1, &n->value);
    }
}

gt_err gt__fused_run(gt_cpu *cpu, gt_fused *f, void *const *buffer)
{
    for (unsigned k = 0; k < f->number_count; k++)
        prepare_number(cpu, &f->numbers[k], buffer);
    for (unsigned s = 0; s < f->slot_count; s++) {
        gt_tile_slot *slot = &f->slots[s];
        if (slot->place == GT_PLACE_MEMORY)
            slot->base = (char *)buffer[slot->buffer] + slot->offset;
        else if (slot->place == GT_PLACE_NUMBER)
            slot->base = (char *)&f->numbers[slot->offset].value;
    }
    for (unsigned k = 0; k < f->choice_count; k++) {
        gt_tile_op *op = &f->ops[f->choices[k].op];
        op->apply.kernel = gt__elementwise_kernel(cpu->kernels, op->op, op->compute, f->choices[k].constants,
                                                  &f->numbers[f->choices[k].number].value);
    }
    pass p = {.cpu = cpu, .fused = f, .scratch = cpu->scratch};
    if (f->sums)
        run_with_sums(&p);
    else
        gt__parallel_for(cpu->parallel, f->tiles, f->grain, run_tiles, &p);
    return __builtin_expect(gt__parallel_cancelled(cpu->parallel), 0) ? gt__cpu_cancelled(cpu) : GT_OK;
}
