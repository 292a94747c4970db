/*
 * engines/cpu/sample.c: draws with given parameters. core/random.h and core/draws.h specify the numbers.
 *
 * bernoulli works on tiles of probabilities and of uniform numbers. multinomial computes each row's running sums once and
 * searches them by bisection, or, without replacement, selects the categories with the least keys and sorts them (sort.c).
 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "engines/cpu/movement.h"
#include "engines/cpu/sort.h"
#include "core/draws.h"

typedef struct sampling {
    gt_cpu *cpu;
    const gt_call *call;
    gt_random key;
    gt_loop loop;          /* bernoulli: over the probabilities */
    const double *weights; /* multinomial: (rows, n) */
    double *numbers;       /* of the others: the operand, then the result */
    int64_t n, samples;
    bool replacement;
    _Atomic int failure; /* the error of some row; 0: none */
} sampling;

enum { NOT_A_PROBABILITY = 1, NOT_A_RATE, NOT_A_WEIGHT, NO_WEIGHT, TOO_FEW, NO_MEMORY };

static gt_err failed(int failure)
{
    static const char *const texts[] = {
        [NOT_A_PROBABILITY] = "Expected p_in >= 0 && p_in <= 1 to be true",
        [NOT_A_RATE] = "invalid Poisson rate, expected rate to be non-negative",
        [NOT_A_WEIGHT] = "probability tensor contains either `inf`, `nan` or element < 0",
        [NO_WEIGHT] = "invalid multinomial distribution (sum of probabilities <= 0)",
        [TOO_FEW] =
            "invalid multinomial distribution (with replacement=False, not enough non-negative category to "
            "sample)",
        [NO_MEMORY] = "out of memory",
    };
    return failure ? gt__fail(failure == NO_MEMORY ? GT_ERR_MEMORY : GT_ERR_VALUE, "%s", texts[failure]) : GT_OK;
}

/* ---- bernoulli ---------------------------------------------------------------------------------------------- */

enum { TILE = 1024 };

#define COMPARE(name, type)                                                                                       \
    /* Replaces probabilities by 0 and 1; false: one is not a probability. */                                     \
    static bool name(type *restrict p, const type *restrict drawn, int64_t count)                                 \
    {                                                                                                             \
        bool fine = true;                                                                                         \
        for (int64_t k = 0; k < count; k++) {                                                                     \
            fine &= p[k] >= 0 && p[k] <= 1;                                                                       \
            p[k] = drawn[k] < p[k];                                                                               \
        }                                                                                                         \
        return fine;                                                                                              \
    }
COMPARE(compare_float, float)
COMPARE(compare_double, double)

/* Elements first..first+count, which lie in one run of the loop's last axis. */
static bool flip_coins(const sampling *s, int64_t first, int64_t count, const void *p, int64_t stride)
{
    union {
        float narrow[TILE];
        double wide[TILE];
    } chance, drawn;
    gt_dtype dtype = (gt_dtype)s->call->out->meta.dtype;
    gt_compute compute = gt__cpu_compute(dtype);
    bool fine;
    gt__cpu_load_tile(s->cpu, compute, dtype, p, stride, count, &chance);
    if (compute == GT_COMPUTE_F64) {
        gt__random_uniform_double(s->key, first, count, drawn.wide);
        fine = compare_double(chance.wide, drawn.wide, count);
    } else {
        gt__random_uniform_float(s->key, first, count, drawn.narrow);
        fine = compare_float(chance.narrow, drawn.narrow, count);
    }
    gt__cpu_store_tile(s->cpu, compute, dtype, &chance, gt__at(s->call->out->data, dtype, first), 1, count);
    return fine;
}

static void bernoulli_part(void *context, int64_t begin, int64_t end)
{
    sampling *s = context;
    int last = s->loop.rank - 1;
    int64_t run = s->loop.shape[last], stride = s->loop.stride[0][last];
    gt_dtype dtype = (gt_dtype)s->call->in[0]->meta.dtype;
    for (int64_t first = begin; first < end;) {
        int64_t offset, at = first % run, count = gt__min(gt__min(run - at, end - first), TILE);
        gt__loop_offsets(&s->loop, last, first / run, &offset);
        if (!flip_coins(s, first, count, gt__at(s->call->in[0]->data, dtype, offset + at * stride), stride))
            s->failure = NOT_A_PROBABILITY;
        first += count;
    }
}

static gt_err bernoulli(sampling *s)
{
    int64_t numel = s->call->out->meta.numel;
    gt__loop_start(&s->loop, &s->call->out->meta);
    gt__loop_add(&s->loop, s->call->in[0]);
    gt__loop_collapse(&s->loop);
    if (numel > 0)
        gt__parallel_for(s->cpu->parallel, numel, GT_CPU_GRAIN / 8, bernoulli_part, s);
    return failed(s->failure);
}

/* ---- multinomial -------------------------------------------------------------------------------------------- */

/* The running sums of a row's weights. */
static int add_up(const double *weights, int64_t n, double *sums)
{
    double sum = 0;
    bool fine = true;
    for (int64_t k = 0; k < n; k++) {
        fine &= weights[k] >= 0 && !isinf(weights[k]);
        sums[k] = sum += weights[k];
    }
    return !fine ? NOT_A_WEIGHT : sum <= 0 ? NO_WEIGHT : 0;
}

/* The first of the running sums above the threshold, else the first that reaches the whole sum. */
static int64_t search(const double *sums, int64_t n, double threshold)
{
    if (!(threshold < sums[n - 1]))
        threshold = nextafter(sums[n - 1], 0);
    int64_t low = 0, high = n - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (sums[middle] > threshold)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void draw_replaced(const sampling *s, int64_t row, const double *sums, int64_t *out)
{
    double drawn[TILE];
    for (int64_t first = 0; first < s->samples && !gt__parallel_poll(s->cpu->parallel); first += TILE) {
        int64_t count = gt__min(TILE, s->samples - first);
        gt__random_uniform_double(s->key, row * s->samples + first, count, drawn);
        for (int64_t k = 0; k < count; k++)
            out[first + k] = search(sums, s->n, drawn[k] * sums[s->n - 1]);
    }
}

/* The categories that come first, if each comes after an exponentially distributed time. `line` has room for n and as many spare
 * ones. */
static int draw_distinct(const sampling *s, int64_t row, const double *weights, gt_wide_record *line, int64_t *out)
{
    double drawn[TILE];
    int64_t length = 0;
    for (int64_t first = 0; first < s->n && !gt__parallel_poll(s->cpu->parallel); first += TILE) {
        int64_t count = gt__min(TILE, s->n - first);
        gt__random_uniform_double(s->key, row * s->n + first, count, drawn);
        for (int64_t k = 0; k < count; k++)
            if (weights[first + k] > 0)
                line[length++] = (gt_wide_record){.key = gt__sort_key(-log(1 - drawn[k]) / weights[first + k]),
                                                  .index = (uint64_t)(first + k)};
    }
    if (gt__parallel_cancelled(s->cpu->parallel))
        return 0;
    if (length < s->samples)
        return TOO_FEW;
    if (!gt__cpu_sort_least(s->cpu->parallel, line, length, s->samples))
        return 0;
    for (int64_t k = 0; k < s->samples; k++)
        out[k] = (int64_t)line[k].index;
    return 0;
}

static void multinomial_rows(void *context, int64_t begin, int64_t end)
{
    sampling *s = context;
    size_t bytes = (size_t)s->n * (s->replacement ? sizeof(double) : 2 * sizeof(gt_wide_record));
    void *scratch;
    if (gt__cpu_scratch(s->cpu, bytes, &scratch) != GT_OK) {
        s->failure = NO_MEMORY;
        return;
    }
    for (int64_t row = begin; row < end; row++) {
        const double *weights = s->weights + row * s->n;
        int64_t *out = (int64_t *)s->call->out->data + row * s->samples;
        int failure = add_up(weights, s->n, scratch);
        if (!failure && s->replacement)
            draw_replaced(s, row, scratch, out);
        else if (!failure)
            failure = draw_distinct(s, row, weights, scratch, out);
        if (failure)
            s->failure = failure;
    }
    free(scratch);
}

static gt_err multinomial(sampling *s)
{
    const gt_view *a = s->call->in[0];
    s->n = a->meta.shape[a->meta.rank - 1];
    s->samples = s->call->tail[0].i64[0];
    s->replacement = s->call->tail[0].i64[1] != 0;
    void *weights;
    if (a->meta.numel == 0)
        return GT_OK;
    GT_TRY(gt__cpu_scratch(s->cpu, (size_t)a->meta.numel * sizeof(double), &weights));
    gt__cpu_copy_view(s->cpu, a, GT_FLOAT64, weights);
    s->weights = weights;
    enum { DRAW_COST = 16 }; /* of a drawn element, in copied ones */
    gt__parallel_for(s->cpu->parallel, a->meta.numel / s->n, gt__grain(DRAW_COST * (s->n + s->samples)),
                     multinomial_rows, s);
    free(weights);
    return failed(s->failure);
}

/* ---- poisson, binomial, standard_gamma, dirichlet ----------------------------------------------------------- */

/* Result k replaces number k. Of dirichlet: rows of n. */
static void draw_part(void *context, int64_t begin, int64_t end)
{
    sampling *s = context;
    const gt_view *out = s->call->out;
    gt_dtype dtype = (gt_dtype)out->meta.dtype;
    double *x = s->numbers;
    for (int64_t k = begin; k < end; k++) {
        switch ((unsigned)s->call->op) {
        case GT_OP_poisson:
            if (x[k] < 0)
                s->failure = NOT_A_RATE;
            x[k] = gt__draw_poisson(s->key, k, x[k]);
            break;
        case GT_OP_binomial:
            x[k] = gt__draw_binomial(s->key, k, x[k], x[k + out->meta.numel]);
            break;
        case GT_OP_standard_gamma:
            x[k] = gt__draw_gamma(s->key, k, x[k], dtype);
            break;
        default:
            gt__draw_dirichlet(s->key, k * s->n, s->n, dtype, x + k * s->n);
        }
    }
    int64_t first = begin * s->n, count = (end - begin) * s->n;
    gt__cpu_store_tile(s->cpu, GT_COMPUTE_F64, dtype, x + first, gt__at(out->data, dtype, first), 1, count);
}

static gt_err draw_numbers(sampling *s)
{
    const gt_view *a = s->call->in[0];
    void *numbers;
    s->n = s->call->op == GT_OP_dirichlet ? a->meta.shape[a->meta.rank - 1] : 1;
    if (s->call->out->meta.numel == 0)
        return GT_OK;
    GT_TRY(gt__cpu_scratch(s->cpu, (size_t)a->meta.numel * sizeof(double), &numbers));
    gt__cpu_copy_view(s->cpu, a, GT_FLOAT64, numbers);
    s->numbers = numbers;
    enum { DRAW_COST = 64 };
    gt__parallel_for(s->cpu->parallel, s->call->out->meta.numel / s->n, gt__grain(DRAW_COST * s->n), draw_part, s);
    free(numbers);
    return failed(s->failure);
}

gt_err gt__cpu_sample(gt_engine *engine, const gt_call *call)
{
    sampling s = {
        .cpu = gt__cpu(engine), .call = call, .key = {.seed = call->ins->imm[0].u, .stream = call->ins->imm[1].u}};
    return call->op == GT_OP_bernoulli     ? bernoulli(&s)
           : call->op == GT_OP_multinomial ? multinomial(&s)
                                           : draw_numbers(&s);
}
