/*
 * engines/reference/sample.c: the reference engine's draws with given probabilities, element by element. core/random.h
 * specifies the numbers; reference.h says how elements are addressed.
 */
#include <math.h>
#include <stdlib.h>

#include "core/draws.h"
#include "engines/reference/reference.h"

static gt_random key_of(const gt_call *call)
{
    return (gt_random){.seed = call->ins->imm[0].u, .stream = call->ins->imm[1].u};
}

static double uniform(const gt_call *call, int64_t element, bool wide)
{
    float narrow;
    double number;
    if (!wide) {
        gt__random_uniform_float(key_of(call), element, 1, &narrow);
        return narrow;
    }
    gt__random_uniform_double(key_of(call), element, 1, &number);
    return number;
}

static gt_err bernoulli(const gt_call *call)
{
    const gt_view *p = call->in[0];
    for (int64_t k = 0; k < p->meta.numel; k++) {
        double probability = gt__reference_real(p, k);
        if (!(probability >= 0 && probability <= 1))
            return gt__fail(GT_ERR_VALUE, "Expected p_in >= 0 && p_in <= 1 to be true, but got %g", probability);
        bool wide = p->meta.dtype == GT_FLOAT64;
        gt__reference_put_integer(call->out, k, uniform(call, k, wide) < probability);
    }
    return GT_OK;
}

/* Check n weights from `first` on, and add them up. */
static gt_err sum_weights(const gt_view *a, int64_t first, int64_t n, double *sum)
{
    *sum = 0;
    for (int64_t k = first; k < first + n; k++) {
        double weight = gt__reference_real(a, k);
        if (!(weight >= 0) || isinf(weight))
            return gt__fail(GT_ERR_VALUE, "probability tensor contains either `inf`, `nan` or element < 0");
        *sum += weight;
    }
    if (*sum <= 0)
        return gt__fail(GT_ERR_VALUE, "invalid multinomial distribution (sum of probabilities <= 0)");
    return GT_OK;
}

static int64_t draw_replaced(const gt_view *a, int64_t first, int64_t n, double threshold)
{
    double sum = 0;
    int64_t last = 0;
    for (int64_t k = 0; k < n; k++) {
        double weight = gt__reference_real(a, first + k);
        sum += weight;
        if (sum > threshold)
            return k;
        last = weight > 0 ? k : last;
    }
    return last; /* rounding: the threshold equals the whole sum */
}

/* The category with the smallest key among those not taken yet; -1: all are taken. */
static int64_t draw_next(const double *wait, int64_t n)
{
    int64_t best = -1;
    for (int64_t k = 0; k < n; k++)
        if (!isnan(wait[k]) && (best < 0 || wait[k] < wait[best]))
            best = k;
    return best;
}

static gt_err draw_distinct(const gt_call *call, int64_t row, int64_t n, int64_t samples)
{
    double *wait = malloc((size_t)n * sizeof *wait); /* NAN: taken already */
    if (!wait)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    for (int64_t k = 0; k < n; k++) {
        double weight = gt__reference_real(call->in[0], row * n + k);
        wait[k] = weight > 0 ? -log(1 - uniform(call, row * n + k, true)) / weight : NAN;
    }
    for (int64_t j = 0; j < samples; j++) {
        int64_t best = draw_next(wait, n);
        if (best < 0) {
            free(wait);
            return gt__fail(GT_ERR_VALUE, "invalid multinomial distribution (with replacement=False, not enough "
                                          "non-negative category to sample)");
        }
        gt__reference_put_integer(call->out, row * samples + j, best);
        wait[best] = NAN;
    }
    free(wait);
    return GT_OK;
}

static gt_err multinomial(const gt_call *call)
{
    const gt_view *a = call->in[0];
    int64_t n = a->meta.shape[a->meta.rank - 1], rows = a->meta.numel / n, samples = call->tail[0].i64[0];
    bool replacement = call->tail[0].i64[1] != 0;
    for (int64_t row = 0; row < rows; row++) {
        double sum;
        GT_TRY(sum_weights(a, row * n, n, &sum));
        if (!replacement)
            GT_TRY(draw_distinct(call, row, n, samples));
        for (int64_t j = row * samples; replacement && j < (row + 1) * samples; j++)
            gt__reference_put_integer(call->out, j, draw_replaced(a, row * n, n, uniform(call, j, true) * sum));
    }
    return GT_OK;
}

static gt_err draw_numbers(const gt_call *call)
{
    const gt_view *a = call->in[0];
    for (int64_t k = 0; k < call->out->meta.numel; k++) {
        double x = gt__reference_real(a, k);
        if (call->op == GT_OP_poisson && x < 0)
            return gt__fail(GT_ERR_VALUE, "invalid Poisson rate, expected rate to be non-negative");
        double drawn =
            call->op == GT_OP_poisson ? gt__draw_poisson(key_of(call), k, x)
            : call->op == GT_OP_standard_gamma
                ? gt__draw_gamma(key_of(call), k, x, (gt_dtype)a->meta.dtype)
                : gt__draw_binomial(key_of(call), k, x, gt__reference_real(a, k + call->out->meta.numel));
        gt__reference_put_real(call->out, k, drawn);
    }
    return GT_OK;
}

static gt_err dirichlet(const gt_call *call)
{
    const gt_view *a = call->in[0];
    int64_t n = a->meta.shape[a->meta.rank - 1];
    double *numbers = malloc(((size_t)n + 1) * sizeof *numbers);
    if (!numbers)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    for (int64_t first = 0; first < a->meta.numel; first += n) {
        for (int64_t k = 0; k < n; k++)
            numbers[k] = gt__reference_real(a, first + k);
        gt__draw_dirichlet(key_of(call), first, n, (gt_dtype)a->meta.dtype, numbers);
        for (int64_t k = 0; k < n; k++)
            gt__reference_put_real(call->out, first + k, numbers[k]);
    }
    free(numbers);
    return GT_OK;
}

gt_err gt__reference_sample(const gt_call *call)
{
    switch ((unsigned)call->op) {
    case GT_OP_bernoulli:
        return bernoulli(call);
    case GT_OP_multinomial:
        return multinomial(call);
    case GT_OP_dirichlet:
        return dirichlet(call);
    default:
        return draw_numbers(call);
    }
}
