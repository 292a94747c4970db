/*
 * fft.c: runs FFT: one transform along each axis in turn, each over contiguous lines.
 *
 * Lines along the last axis of contiguous memory are read and written where they are; for another axis the tensor is turned,
 * transformed, and turned back (movement.c), which is faster than lines with large strides. Threads divide the lines. Real
 * lines of even length n are transformed as n / 2 complex numbers. Lines of float numbers are transformed several at a time,
 * side by side. fft_library.h says which library does the rest.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/fft.h"
#include "engines/cpu/complex.h"
#include "engines/cpu/fft_library.h"
#include "engines/cpu/movement.h"

/* What one thread needs for a line. */
typedef struct slot {
    atomic_flag busy;
    gt_fft_plan *plan;
    void *memory; /* of all that follows */
    double *line, *result, *work;
    float (*lanes_in)[GT_FFT_LANES], (*lanes_out)[GT_FFT_LANES]; /* lines side by side */
    float *narrow;                                               /* and one after the other */
} slot;

typedef struct pass {
    gt_fft_kind kind;
    bool flip;     /* conjugate: a real transform in the other direction */
    bool packed;   /* real lines as half as many complex numbers */
    bool lanes;    /* several lines at a time, in float */
    int64_t n;     /* of the transform */
    double scale;  /* of the results */
    double *turns; /* packed: exp(-2 pi i k / n) for k <= n / 2 */
    const char *from;
    char *to;
    int64_t from_count, to_count; /* elements in a line */
    gt_dtype from_dtype, to_dtype;
    gt_row_mover load, store;
    slot *slots;
    int slot_count;
} pass;

/* ---- one line ----------------------------------------------------------------------------------------------- */

/* y[0..n/2] from the transform z of the n / 2 pairs (x[2k], x[2k+1]): the even and the odd elements' transforms are
 * recovered from the symmetry, and combined. */
static void unpack_spectrum(const pass *p, const double *restrict z, double *restrict y)
{
    int64_t half = p->n / 2;
    y[0] = z[0] + z[1];
    y[2 * half] = z[0] - z[1];
    y[1] = y[2 * half + 1] = 0;
    for (int64_t k = 1; k < half; k++) {
        const double *a = z + 2 * k, *b = z + 2 * (half - k), *w = p->turns + 2 * k;
        double even_re = 0.5 * (a[0] + b[0]), even_im = 0.5 * (a[1] - b[1]);
        double odd_re = 0.5 * (a[1] + b[1]), odd_im = 0.5 * (b[0] - a[0]);
        y[2 * k] = even_re + w[0] * odd_re - w[1] * odd_im;
        y[2 * k + 1] = even_im + w[0] * odd_im + w[1] * odd_re;
    }
}

/* The reverse: the spectrum of the pairs. The imaginary parts of the ends do not count. */
static void pack_spectrum(const pass *p, const double *y, double *z)
{
    int64_t half = p->n / 2;
    for (int64_t k = 0; k < half; k++) {
        const double *a = y + 2 * k, *b = y + 2 * (half - k), *w = p->turns + 2 * k;
        double a_im = k ? a[1] : 0, b_im = k ? b[1] : 0;
        double even_re = a[0] + b[0], even_im = a_im - b_im, re = a[0] - b[0], im = a_im + b_im;
        double odd_re = re * w[0] + im * w[1], odd_im = im * w[0] - re * w[1];
        z[2 * k] = even_re - odd_im;
        z[2 * k + 1] = even_im + odd_re;
    }
}

static void conjugate(double *numbers, int64_t count)
{
    for (int64_t k = 0; k < count; k++)
        numbers[2 * k + 1] = -numbers[2 * k + 1];
}

/* The transform of the pairs in s->result to the spectrum. */
static void finish_real(const pass *p, slot *s)
{
    double *spectrum = s->line;
    unpack_spectrum(p, s->result, spectrum);
    s->line = s->result; /* exchange the two instead of copying */
    s->result = spectrum;
    if (p->flip)
        conjugate(s->result, p->to_count);
}

/* The real line in s->line to the spectrum in s->result. */
static void transform_real(const pass *p, slot *s)
{
    if (p->packed) {
        gt__fft_plan_run(s->plan, s->line, s->result, s->work);
        finish_real(p, s);
    } else {
        for (int64_t k = p->n - 1; k >= 0; k--) { /* to complex numbers, in place */
            s->line[2 * k] = s->line[k];
            s->line[2 * k + 1] = 0;
        }
        gt__fft_plan_run(s->plan, s->line, s->result, s->work);
        if (p->flip)
            conjugate(s->result, p->to_count);
    }
}

/* The half spectrum in s->line to the real line in s->result. */
static void transform_to_real(const pass *p, slot *s)
{
    if (p->flip)
        conjugate(s->line, p->from_count);
    if (p->packed) {
        pack_spectrum(p, s->line, s->result);
        memcpy(s->line, s->result, (size_t)p->n * sizeof(double));
        gt__fft_plan_run(s->plan, s->line, s->result, s->work);
        return;
    }
    s->line[1] = 0;
    for (int64_t k = p->from_count; k < p->n; k++) {
        s->line[2 * k] = s->line[2 * (p->n - k)];
        s->line[2 * k + 1] = -s->line[2 * (p->n - k) + 1];
    }
    gt__fft_plan_run(s->plan, s->line, s->result, s->work);
    for (int64_t k = 0; k < p->n; k++)
        s->result[k] = s->result[2 * k];
}

/* ---- several lines ------------------------------------------------------------------------------------------ */

static void load_lanes(const float *const *lines, int64_t numbers, float (*to)[GT_FFT_LANES])
{
    for (int64_t k = 0; k < numbers; k++)
        for (int l = 0; l < GT_FFT_LANES; l++)
            to[k][l] = lines[l][k];
}

static void store_lanes(const float (*from)[GT_FFT_LANES], int64_t numbers, float scale, float *const *lines,
                        int count)
{
    for (int l = 0; l < count; l++)
        for (int64_t k = 0; k < numbers; k++)
            lines[l][k] = from[k][l] * scale;
}

/* Scale the result of one line and store it. */
static void store_line(const pass *p, slot *s, int64_t line)
{
    int64_t doubles = p->to_count * (p->kind == GT_FFT_TO_REAL ? 1 : 2);
    for (int64_t k = 0; p->scale != 1 && k < doubles; k++)
        s->result[k] *= p->scale;
    p->store(p->to + line * p->to_count * (int64_t)gt__dtype_size(p->to_dtype), 1, s->result, 1, p->to_count);
}

/* `count` lines from `first`; unused lanes repeat the last of them. */
static void transform_side_by_side(const pass *p, slot *s, int64_t first, int count)
{
    int64_t numbers = p->packed ? p->n : 2 * p->n; /* real ones in a line while it is transformed */
    int64_t from_bytes = p->from_count * (int64_t)gt__dtype_size(p->from_dtype);
    int64_t to_bytes = p->to_count * (int64_t)gt__dtype_size(p->to_dtype);
    const float *in[GT_FFT_LANES];
    float *out[GT_FFT_LANES];
    for (int l = 0; l < GT_FFT_LANES; l++) {
        int64_t line = first + (l < count ? l : count - 1);
        const char *from = p->from + line * from_bytes;
        float *narrow = s->narrow + l * numbers;
        in[l] = p->kind == GT_FFT_TO_REAL ? narrow : (const float *)from;
        out[l] = p->kind == GT_FFT_REAL ? narrow : (float *)(p->to + line * to_bytes);
        if (p->kind == GT_FFT_TO_REAL) {
            p->load(s->line, 1, from, 1, p->from_count);
            if (p->flip)
                conjugate(s->line, p->from_count);
            pack_spectrum(p, s->line, s->result);
            for (int64_t k = 0; k < numbers; k++)
                narrow[k] = (float)s->result[k];
        }
    }
    load_lanes(in, numbers, s->lanes_in);
    gt__fft_plan_run_lanes(s->plan, s->lanes_in, s->lanes_out);
    store_lanes(s->lanes_out, numbers, p->kind == GT_FFT_REAL ? 1 : (float)p->scale, out, count);
    for (int l = 0; p->kind == GT_FFT_REAL && l < count; l++) {
        for (int64_t k = 0; k < numbers; k++)
            s->result[k] = out[l][k];
        finish_real(p, s);
        store_line(p, s, first + l);
    }
}

/* ---- all of them -------------------------------------------------------------------------------------------- */

static slot *take_slot(const pass *p)
{
    for (int k = 0;; k = (k + 1) % p->slot_count) /* there is one for each thread */
        if (!atomic_flag_test_and_set(&p->slots[k].busy))
            return &p->slots[k];
}

/* Positions are lines. */
static void transform_lines(void *context, int64_t begin, int64_t end)
{
    const pass *p = context;
    slot *s = take_slot(p);
    int64_t from_bytes = p->from_count * (int64_t)gt__dtype_size(p->from_dtype);
    for (; p->lanes && end - begin > 1; begin += gt__min(end - begin, GT_FFT_LANES))
        transform_side_by_side(p, s, begin, (int)gt__min(end - begin, GT_FFT_LANES));
    for (int64_t line = begin; line < end; line++) {
        p->load(s->line, 1, p->from + line * from_bytes, 1, p->from_count);
        if (p->kind == GT_FFT_COMPLEX)
            gt__fft_plan_run(s->plan, s->line, s->result, s->work);
        else if (p->kind == GT_FFT_REAL)
            transform_real(p, s);
        else
            transform_to_real(p, s);
        store_line(p, s, line);
    }
    atomic_flag_clear(&s->busy);
}

/* ---- plans kept for the next call ---------------------------------------------------------------------------- */

/* Making a plan takes longer than a short transform. The least recently used one makes room. */
enum { KEPT_PLANS = 16, LARGEST_KEPT = 1 << 20 };

struct gt_cpu_plans {
    struct {
        gt_fft_plan *plan;
        int64_t n;
        bool inverse;
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

/* A plan that the caller releases; NULL: no memory. */
static gt_fft_plan *find_plan(gt_cpu *cpu, int64_t n, bool inverse)
{
    if (!cpu->plans)
        cpu->plans = calloc(1, sizeof *cpu->plans);
    gt_cpu_plans *plans = cpu->plans;
    if (!plans || n > LARGEST_KEPT)
        return gt__fft_plan_new(n, inverse);
    int oldest = 0;
    for (int k = 0; k < KEPT_PLANS; k++) {
        if (plans->entry[k].plan && plans->entry[k].n == n && plans->entry[k].inverse == inverse) {
            plans->entry[k].used = ++plans->clock;
            return gt__fft_plan_retain(plans->entry[k].plan);
        }
        oldest = plans->entry[k].used < plans->entry[oldest].used ? k : oldest;
    }
    gt_fft_plan *plan = gt__fft_plan_new(n, inverse);
    if (!plan)
        return NULL;
    gt__fft_plan_release(plans->entry[oldest].plan);
    plans->entry[oldest].plan = gt__fft_plan_retain(plan);
    plans->entry[oldest].n = n;
    plans->entry[oldest].inverse = inverse;
    plans->entry[oldest].used = ++plans->clock;
    return plan;
}

/* ---- what threads need -------------------------------------------------------------------------------------------------- */

static void free_slots(pass *p)
{
    for (int k = 0; k < p->slot_count; k++) {
        gt__fft_plan_release(p->slots[k].plan);
        free(p->slots[k].memory);
    }
    free(p->slots);
    free(p->turns);
}

static gt_err make_slots(gt_cpu *cpu, pass *p, bool inverse, int64_t lines)
{
    int64_t size = p->packed ? p->n / 2 : p->n;
    gt_fft_plan *plan = find_plan(cpu, size, p->kind == GT_FFT_COMPLEX ? inverse : p->kind == GT_FFT_TO_REAL);
    int threads = gt__parallel_threads(cpu->parallel);
    int wanted = lines < threads ? (int)lines : threads;
    p->slots = calloc((size_t)wanted, sizeof *p->slots);
    gt_err err =
        plan && p->slots ? GT_OK : gt__fail(GT_ERR_MEMORY, "no memory for a transform of %lld", (long long)p->n);
    size_t room = ((size_t)p->n + 2) * 2 * sizeof(double), work = plan ? (size_t)gt__fft_plan_work(plan) * 16 : 0;
    bool narrow = gt__dtype_real(p->from_dtype) == GT_FLOAT32 && gt__dtype_real(p->to_dtype) == GT_FLOAT32;
    p->lanes =
        plan && lines > 1 && narrow && (p->packed || p->kind == GT_FFT_COMPLEX) && gt__fft_plan_has_lanes(plan);
    size_t lanes = p->lanes ? (size_t)size * 2 * sizeof *p->slots->lanes_in : 0;
    for (int k = 0; k < wanted && err == GT_OK; k++) {
        slot *s = &p->slots[k];
        void *memory = NULL;
        atomic_flag_clear(&s->busy);
        p->slot_count = k + 1;
        err = gt__cpu_scratch(cpu, 2 * room + work + 3 * lanes, &memory);
        s->memory = memory;
        s->line = memory;
        if (err != GT_OK)
            break;
        s->result = s->line + room / sizeof(double);
        s->work = s->result + room / sizeof(double);
        s->lanes_in = (void *)((char *)memory + 2 * room + work);
        s->lanes_out = (void *)((char *)s->lanes_in + lanes);
        s->narrow = (void *)((char *)s->lanes_out + lanes);
        s->plan = gt__fft_plan_for_thread(plan);
        if (!s->plan)
            err = gt__fail(GT_ERR_MEMORY, "no memory for a transform of %lld", (long long)p->n);
    }
    gt__fft_plan_release(plan);
    if (err == GT_OK && p->packed && !(p->turns = malloc((size_t)(p->n + 2) * sizeof(double))))
        err = gt__fail(GT_ERR_MEMORY, "no memory for a transform of %lld", (long long)p->n);
    for (int64_t k = 0; err == GT_OK && p->packed && k <= p->n / 2; k++) {
        double angle = -2 * M_PI * (double)k / (double)p->n;
        p->turns[2 * k] = cos(angle);
        p->turns[2 * k + 1] = sin(angle);
    }
    return err;
}

/* ---- one axis ----------------------------------------------------------------------------------------------- */

/* Contiguous lines to contiguous lines. */
static gt_err run_lines(gt_cpu *cpu, pass *p, bool inverse, const void *from, void *to, int64_t lines)
{
    bool wide_in = p->kind == GT_FFT_REAL;
    p->n = p->kind == GT_FFT_TO_REAL ? p->to_count : p->from_count;
    p->packed = p->kind != GT_FFT_COMPLEX && p->n % 2 == 0;
    p->flip = p->kind == GT_FFT_REAL ? inverse : p->kind == GT_FFT_TO_REAL && !inverse;
    p->from = from;
    p->to = to;
    p->load = gt__cpu_row_mover(wide_in ? GT_FLOAT64 : GT_COMPLEX128, p->from_dtype);
    p->store = gt__cpu_row_mover(p->to_dtype, p->kind == GT_FFT_TO_REAL ? GT_FLOAT64 : GT_COMPLEX128);
    gt_err err = make_slots(cpu, p, inverse, lines);
    if (err == GT_OK)
        gt__parallel_for(cpu->parallel, lines, gt__grain(8 * p->n), transform_lines, p);
    free_slots(p);
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
    pass p = {.kind = kind,
              .scale = scale,
              .from_count = source.meta.shape[last],
              .to_count = target.meta.shape[last],
              .from_dtype = (gt_dtype)from->meta.dtype,
              .to_dtype = (gt_dtype)to->meta.dtype};
    void *turned = NULL, *result = to->data;
    gt_err err = GT_OK;
    if (!source.contiguous) {
        err = gt__cpu_scratch(cpu, gt__meta_bytes(&source.meta), &turned);
        if (err == GT_OK)
            gt__cpu_copy_view(cpu, &source, p.from_dtype, turned);
    }
    if (err == GT_OK && axis != last)
        err = gt__cpu_scratch(cpu, gt__meta_bytes(&target.meta), &result);
    if (err == GT_OK)
        err = run_lines(cpu, &p, inverse, turned ? turned : source.data, result, target.meta.numel / p.to_count);
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
