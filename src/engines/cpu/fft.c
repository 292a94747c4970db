/*
 * fft.c: runs FFT: one transform along each axis in turn, each over contiguous lines.
 *
 * Lines along the last axis of contiguous memory are read and written where they are, and so are short complex lines along
 * another axis, several columns at a time. Otherwise the tensor is turned, transformed, and turned back (movement.c), which is
 * faster than lines with large strides. Threads divide the lines.
 * fft_library.h transforms them. It cannot be interrupted, so long lines are transformed aside, from a copy (detach.h).
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engines/cpu/complex.h"
#include "engines/cpu/detach.h"
#include "engines/cpu/fft_library.h"
#include "engines/cpu/movement.h"

/* What one thread needs. */
typedef struct slot {
    atomic_flag busy;
    gt_fft_plan *plan;
    void *work;
} slot;

typedef struct pass {
    gt_cpu *cpu;
    gt_fft_use use;
    double scale; /* of the results */
    const char *from;
    char *to;
    int64_t from_bytes, to_bytes; /* of a line */
    int64_t inner;                /* columns: lines that lie side by side */
    int64_t groups;               /* of them, in each block of `inner` */
    slot *slots;
    int slot_count;
} pass;

/* There is one for each thread. A thread takes none after the work was cancelled: its plan may be gone. */
static slot *take_slot(const pass *p)
{
    for (int k = 0;; k = (k + 1) % p->slot_count)
        if (!atomic_flag_test_and_set(&p->slots[k].busy))
            return &p->slots[k];
}

/* ---- long lines --------------------------------------------------------------------------------------------- */

/* Elements of a line that takes some tenths of a second. A large prime factor makes it a hundred times slower (Bluestein). */
enum { LONG_LINE = 1 << 23, LONG_BLUESTEIN = 1 << 17 };

static bool is_long(const gt_cpu *cpu, const gt_fft_use *use)
{
    static const int small[] = {2, 3, 5, 7, 11, 13};
    int64_t rest = use->n;
    if (!cpu->cancel || rest < LONG_BLUESTEIN)
        return false;
    for (size_t k = 0; k < sizeof small / sizeof *small; k++)
        while (rest % small[k] == 0)
            rest /= small[k];
    return rest > 1 || use->n >= LONG_LINE;
}

/* One line with all that it needs, so that it can be left behind. */
typedef struct lone_line {
    gt_fft_plan *plan;
    void *work, *in, *out; /* in and out: one block */
    double scale;
} lone_line;

static void drop_line(void *job)
{
    lone_line *lone = job;
    gt__fft_plan_release(lone->plan);
    free(lone->work);
    free(lone->in);
    free(lone);
}

static void run_lone(void *job)
{
    lone_line *lone = job;
    const void *in[] = {lone->in};
    void *out[] = {lone->out};
    gt__fft_plan_run(lone->plan, in, out, 1, lone->scale, lone->work);
}

/* With the slot's plan and memory, which are gone if the line was left behind. False: there is no memory for a copy. */
static bool transform_aside(const pass *p, slot *s, const void *from, void *to)
{
    lone_line *lone = malloc(sizeof *lone);
    void *copy;
    if (!lone || gt__cpu_scratch(p->cpu, (size_t)(p->from_bytes + p->to_bytes), &copy) != GT_OK) {
        free(lone);
        return false;
    }
    *lone = (lone_line){.plan = s->plan, .work = s->work, .in = copy, .scale = p->scale};
    lone->out = (char *)copy + p->from_bytes;
    memcpy(lone->in, from, (size_t)p->from_bytes);
    if (gt__detach_run(p->cpu->parallel, run_lone, drop_line, lone)) {
        memcpy(to, lone->out, (size_t)p->to_bytes);
        free(copy);
        free(lone);
    } else {
        s->plan = NULL;
        s->work = NULL;
    }
    return true;
}

/* ---- lines -------------------------------------------------------------------------------------------------- */

/* Positions are lines. */
static void transform_long_lines(void *context, int64_t begin, int64_t end)
{
    const pass *p = context;
    slot *s = take_slot(p);
    for (; begin < end && !gt__parallel_poll(p->cpu->parallel); begin++) {
        const void *in[] = {p->from + begin * p->from_bytes};
        void *out[] = {p->to + begin * p->to_bytes};
        if (!transform_aside(p, s, in[0], out[0]))
            gt__fft_plan_run(s->plan, in, out, 1, p->scale, s->work);
    }
    atomic_flag_clear(&s->busy);
}

/* Positions are lines. */
static void transform_lines(void *context, int64_t begin, int64_t end)
{
    const pass *p = context;
    slot *s = take_slot(p);
    int most = gt__fft_plan_lines(s->plan);
    while (begin < end) {
        int count = (int)gt__min(end - begin, most);
        const void *in[GT_FFT_MOST_LINES];
        void *out[GT_FFT_MOST_LINES];
        for (int l = 0; l < count; l++) {
            in[l] = p->from + (begin + l) * p->from_bytes;
            out[l] = p->to + (begin + l) * p->to_bytes;
        }
        gt__fft_plan_run(s->plan, in, out, count, p->scale, s->work);
        begin += count;
    }
    atomic_flag_clear(&s->busy);
}

/* Positions are groups of columns. */
static void transform_columns(void *context, int64_t begin, int64_t end)
{
    const pass *p = context;
    slot *s = take_slot(p);
    int most = gt__fft_plan_columns(s->plan);
    int64_t block = p->from_bytes * p->inner, number = p->from_bytes / p->use.n;
    for (; begin < end; begin++) {
        int64_t first = begin % p->groups * most, at = begin / p->groups * block + first * number;
        int count = (int)gt__min(p->inner - first, most);
        gt__fft_plan_run_columns(s->plan, p->from + at, p->to + at, p->inner, count, p->scale, s->work);
    }
    atomic_flag_clear(&s->busy);
}

/* ---- plans kept for the next call ---------------------------------------------------------------------------- */

/* Making a plan takes longer than a short transform. The least recently used one makes room. */
enum { KEPT_PLANS = 16, LARGEST_KEPT = 1 << 20 };

struct gt_cpu_plans {
    struct {
        gt_fft_plan *plan;
        gt_fft_use use;
        uint64_t used;
    } entry[KEPT_PLANS];
    uint64_t clock;
};

void gt__cpu_plans_free(gt_cpu_plans *plans)
{
    for (int k = 0; plans && k < KEPT_PLANS; k++)
        gt__fft_plan_release(plans->entry[k].plan);
    free(plans);
}

static bool same_use(const gt_fft_use *a, const gt_fft_use *b)
{
    return a->n == b->n && a->kind == b->kind && a->inverse == b->inverse && a->wide == b->wide &&
           a->several == b->several;
}

/* A plan that is made aside. */
typedef struct lone_plan {
    gt_fft_use use;
    gt_fft_plan *plan;
} lone_plan;

static void drop_plan(void *job)
{
    gt__fft_plan_release(((lone_plan *)job)->plan);
    free(job);
}

static void make_plan(void *job)
{
    lone_plan *lone = job;
    lone->plan = gt__fft_plan_new(&lone->use);
}

/* NULL: no memory, or the work was cancelled. A long plan takes as long as a line. */
static gt_fft_plan *new_plan(gt_cpu *cpu, const gt_fft_use *use)
{
    lone_plan *lone = is_long(cpu, use) ? malloc(sizeof *lone) : NULL;
    if (!lone)
        return gt__fft_plan_new(use);
    *lone = (lone_plan){.use = *use};
    if (!gt__detach_run(cpu->parallel, make_plan, drop_plan, lone))
        return NULL;
    gt_fft_plan *plan = lone->plan;
    free(lone);
    return plan;
}

/* A plan that the caller releases; NULL: no memory, or the work was cancelled. */
static gt_fft_plan *find_plan(gt_cpu *cpu, const gt_fft_use *use)
{
    if (!cpu->plans)
        cpu->plans = calloc(1, sizeof *cpu->plans);
    gt_cpu_plans *plans = cpu->plans;
    if (!plans || use->n > LARGEST_KEPT)
        return new_plan(cpu, use);
    int oldest = 0;
    for (int k = 0; k < KEPT_PLANS; k++) {
        if (plans->entry[k].plan && same_use(&plans->entry[k].use, use)) {
            plans->entry[k].used = ++plans->clock;
            return gt__fft_plan_retain(plans->entry[k].plan);
        }
        oldest = plans->entry[k].used < plans->entry[oldest].used ? k : oldest;
    }
    gt_fft_plan *plan = new_plan(cpu, use);
    if (!plan)
        return NULL;
    gt__fft_plan_release(plans->entry[oldest].plan);
    plans->entry[oldest].plan = gt__fft_plan_retain(plan);
    plans->entry[oldest].use = *use;
    plans->entry[oldest].used = ++plans->clock;
    return plan;
}

/* ---- what threads need -------------------------------------------------------------------------------------------------- */

static void free_slots(pass *p)
{
    for (int k = 0; k < p->slot_count; k++) {
        gt__fft_plan_release(p->slots[k].plan);
        free(p->slots[k].work);
    }
    free(p->slots);
}

/* work: of the plan, or of its columns. */
static gt_err make_slots(gt_cpu *cpu, pass *p, gt_fft_plan *plan, size_t work(const gt_fft_plan *), int64_t lines)
{
    int threads = gt__parallel_threads(cpu->parallel);
    int wanted = lines < threads ? (int)lines : threads;
    p->slots = calloc((size_t)wanted, sizeof *p->slots);
    gt_err err = plan && p->slots
                     ? GT_OK
                     : gt__fail(GT_ERR_MEMORY, "no memory for a transform of %lld", (long long)p->use.n);
    for (int k = 0; k < wanted && err == GT_OK; k++) {
        slot *s = &p->slots[k];
        atomic_flag_clear(&s->busy);
        p->slot_count = k + 1;
        err = gt__cpu_scratch(cpu, work(plan), &s->work);
        if (err != GT_OK) {
            s->work = NULL;
            break;
        }
        s->plan = gt__fft_plan_for_thread(plan);
        if (!s->plan)
            err = gt__fail(GT_ERR_MEMORY, "no memory for a transform of %lld", (long long)p->use.n);
    }
    return err;
}

/* ---- one axis ----------------------------------------------------------------------------------------------- */

/* Contiguous lines to contiguous lines. */
static gt_err run_lines(gt_cpu *cpu, pass *p, const void *from, void *to, int64_t lines)
{
    p->use.several = lines > 1;
    p->from = from;
    p->to = to;
    gt_fft_plan *plan = find_plan(cpu, &p->use);
    gt_err err = make_slots(cpu, p, plan, gt__fft_plan_work, lines);
    if (err == GT_OK)
        gt__parallel_for(cpu->parallel, lines, gt__grain(8 * p->use.n),
                         is_long(cpu, &p->use) ? transform_long_lines : transform_lines, p);
    free_slots(p);
    gt__fft_plan_release(plan);
    return err;
}

/* Complex lines along an axis that is not the last, where they are. *done false: this size goes another way. */
static gt_err run_columns(gt_cpu *cpu, pass *p, const gt_view *from, const gt_view *to, unsigned axis, bool *done)
{
    p->use.several = true;
    p->from = from->data;
    p->to = to->data;
    p->inner = 1;
    for (unsigned k = axis + 1; k < from->meta.rank; k++)
        p->inner *= from->meta.shape[k];
    gt_fft_plan *plan = find_plan(cpu, &p->use);
    int most = plan ? gt__fft_plan_columns(plan) : 1;
    gt_err err = GT_OK;
    *done = most > 0 && p->inner > 1;
    if (*done) {
        p->groups = (p->inner + most - 1) / most;
        int64_t all = from->meta.numel / p->use.n / p->inner * p->groups;
        err = make_slots(cpu, p, plan, gt__fft_plan_columns_work, all);
        if (err == GT_OK)
            gt__parallel_for(cpu->parallel, all, gt__grain(8 * p->use.n * most), transform_columns, p);
        free_slots(p);
        p->slots = NULL;
        p->slot_count = 0;
    }
    gt__fft_plan_release(plan);
    return err;
}

/* The view with one axis moved behind the others. */
static gt_view axis_last(const gt_view *view, unsigned axis)
{
    gt_view turned = *view;
    unsigned last = view->meta.rank - 1u;
    for (unsigned k = axis; k < last; k++) {
        turned.meta.shape[k] = view->meta.shape[k + 1];
        turned.stride[k] = view->stride[k + 1];
    }
    turned.meta.shape[last] = view->meta.shape[axis];
    turned.stride[last] = view->stride[axis];
    turned.contiguous = view->contiguous && axis == last;
    return turned;
}

/* Transform `axis` of `from` into `to`, which is contiguous and may be `from` itself. */
static gt_err run_axis(gt_cpu *cpu, gt_fft_kind kind, bool inverse, double scale, unsigned axis,
                       const gt_view *from, const gt_view *to)
{
    gt_view source = axis_last(from, axis), target = axis_last(to, axis), lines = target;
    unsigned last = from->meta.rank - 1u;
    int64_t from_count = source.meta.shape[last], to_count = target.meta.shape[last];
    gt_dtype from_dtype = (gt_dtype)from->meta.dtype, to_dtype = (gt_dtype)to->meta.dtype;
    pass p = {.cpu = cpu,
              .use = {.n = kind == GT_FFT_TO_REAL ? to_count : from_count,
                      .kind = kind,
                      .inverse = inverse,
                      .wide = gt__dtype_real(from_dtype) == GT_FLOAT64},
              .scale = scale,
              .from_bytes = from_count * (int64_t)gt__dtype_size(from_dtype),
              .to_bytes = to_count * (int64_t)gt__dtype_size(to_dtype)};
    void *turned = NULL, *result = to->data;
    gt_err err = GT_OK;
    if (kind == GT_FFT_COMPLEX && axis != last && from->contiguous) {
        bool done;
        GT_TRY(run_columns(cpu, &p, from, to, axis, &done));
        if (done)
            return GT_OK;
    }
    if (!source.contiguous) {
        err = gt__cpu_scratch(cpu, gt__meta_bytes(&source.meta), &turned);
        if (err == GT_OK)
            gt__cpu_copy_view(cpu, &source, from_dtype, turned);
    }
    if (err == GT_OK && axis != last)
        err = gt__cpu_scratch(cpu, gt__meta_bytes(&target.meta), &result);
    if (err == GT_OK)
        err = run_lines(cpu, &p, turned ? turned : source.data, result, target.meta.numel / to_count);
    if (err == GT_OK && axis != last) {
        int64_t stride = 1;
        for (int k = (int)last; k >= 0; k--) {
            lines.stride[k] = stride;
            stride *= lines.meta.shape[k];
        }
        lines.data = result;
        gt__cpu_move(cpu, &target, &lines);
    }
    free(turned);
    if (axis != last)
        free(result);
    return err;
}

/* The complex axes, all but `half`: first from `from`, then in place in `to`. */
static gt_err run_complex_axes(gt_cpu *cpu, gt_fft_spec spec, uint32_t axes, double scale, const gt_view *from,
                               const gt_view *to)
{
    for (unsigned axis = 0; axes; axis++) {
        if (!(axes >> axis & 1))
            continue;
        axes &= ~(1u << axis);
        GT_TRY(run_axis(cpu, GT_FFT_COMPLEX, spec.inverse, axes ? 1 : scale, axis, from, to));
        from = to;
    }
    return GT_OK;
}

static gt_err run_to_real(gt_cpu *cpu, const gt_call *call, gt_fft_spec spec, uint32_t others, double scale)
{
    gt_view middle = *call->in[0];
    void *scratch = NULL;
    gt_err err = GT_OK;
    if (others) {
        GT_TRY(gt__cpu_scratch(cpu, gt__meta_bytes(&middle.meta), &scratch));
        int64_t stride = 1;
        for (int k = middle.meta.rank - 1; k >= 0; k--) {
            middle.stride[k] = stride;
            stride *= middle.meta.shape[k];
        }
        middle.contiguous = true;
        middle.data = scratch;
        err = run_complex_axes(cpu, spec, others, 1, call->in[0], &middle);
    }
    if (err == GT_OK)
        err = run_axis(cpu, GT_FFT_TO_REAL, spec.inverse, scale, spec.half, &middle, call->out);
    free(scratch);
    return err;
}

gt_err gt__cpu_fft(gt_engine *engine, const gt_call *call)
{
    gt_cpu *cpu = gt__cpu(engine);
    gt_fft_spec spec = gt__fft_unpack(call->ins->imm[0].u);
    double scale = call->ins->imm[1].f;
    uint32_t others = spec.axes & ~(1u << spec.half);
    if (call->out->meta.numel == 0)
        return GT_OK;
    if (spec.kind == GT_FFT_COMPLEX)
        return run_complex_axes(cpu, spec, spec.axes, scale, call->in[0], call->out);
    if (spec.kind == GT_FFT_TO_REAL)
        return run_to_real(cpu, call, spec, others, scale);
    GT_TRY(run_axis(cpu, GT_FFT_REAL, spec.inverse, others ? 1 : scale, spec.half, call->in[0], call->out));
    return run_complex_axes(cpu, spec, others, scale, call->out, call->out);
}
