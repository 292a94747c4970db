/* attention.c: attention and its gradients, as the formulas say. Read core/attention.h first. */
#include <math.h>
#include <stdlib.h>

#include "core/attention.h"
#include "engines/reference/reference.h"

/* One batch: where its operands and results begin, in elements. */
typedef struct head {
    const gt_call *call;
    gt_attention_sizes n;
    int64_t q, k, v, out;
    int64_t q_row; /* elements of a row of the first operand */
} head;

static double element(const head *h, unsigned operand, int64_t flat)
{
    return gt__reference_real(h->call->in[operand], flat);
}

/* The weights that query i gives to the keys; returns how many keys it sees. */
static int64_t weigh(const head *h, int64_t i, double *weight)
{
    int64_t seen = gt__attention_seen(i, h->call->ins->imm[1].i, h->n.keys);
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < seen; j++) {
        double product = 0;
        for (int64_t e = 0; e < h->n.width; e++)
            product += element(h, 0, h->q + i * h->q_row + e) * element(h, 1, h->k + j * h->n.width + e);
        weight[j] = product * h->call->ins->imm[0].f;
        most = weight[j] > most || isnan(weight[j]) ? weight[j] : most;
    }
    for (int64_t j = 0; j < seen; j++)
        sum += weight[j] = exp(weight[j] - most);
    for (int64_t j = 0; j < seen; j++)
        weight[j] /= sum;
    return seen;
}

static void forward(const head *h, double *weight)
{
    int64_t width = h->n.value_width;
    for (int64_t i = 0; i < h->n.queries; i++) {
        int64_t seen = weigh(h, i, weight);
        for (int64_t e = 0; e < width; e++) {
            double sum = 0;
            for (int64_t j = 0; j < seen; j++)
                sum += weight[j] * element(h, 2, h->v + j * width + e);
            gt__reference_put_real(h->call->out, h->out + i * width + e, sum);
        }
    }
}

/* weight and slope (keys each), then the sums for the keys and the values */
static void backward(const head *h, double *weight)
{
    gt_attention_sizes n = h->n;
    double *slope = weight + n.keys, *of_keys = slope + n.keys, *of_values = of_keys + n.keys * n.width;
    double scale = h->call->ins->imm[0].f;
    for (int64_t i = 0; i < n.queries; i++) {
        int64_t seen = weigh(h, i, weight), q = h->q + i * h->q_row, g = q + n.width;
        double mean = 0;
        for (int64_t j = 0; j < seen; j++) {
            slope[j] = 0;
            for (int64_t e = 0; e < n.value_width; e++) {
                slope[j] += element(h, 0, g + e) * element(h, 2, h->v + j * n.value_width + e);
                of_values[j * n.value_width + e] += weight[j] * element(h, 0, g + e);
            }
            mean += weight[j] * slope[j];
        }
        for (int64_t e = 0; e < n.width; e++) {
            double sum = 0;
            for (int64_t j = 0; j < seen; j++) {
                double of_score = weight[j] * (slope[j] - mean) * scale;
                sum += of_score * element(h, 1, h->k + j * n.width + e);
                of_keys[j * n.width + e] += of_score * element(h, 0, q + e);
            }
            gt__reference_put_real(h->call->out, h->out + i * n.width + e, sum);
        }
    }
    for (int64_t e = 0; e < n.keys * (n.width + n.value_width); e++)
        gt__reference_put_real(h->call->out, h->out + n.queries * n.width + e, of_keys[e]);
}

gt_err gt__reference_attention(const gt_call *call)
{
    gt_attention_sizes n = gt__attention_sizes(&call->in[0]->meta, &call->in[1]->meta, &call->in[2]->meta);
    bool is_forward = call->op == GT_OP_attention;
    int64_t result =
        is_forward ? n.queries * n.value_width : n.queries * n.width + n.keys * (n.width + n.value_width);
    if (call->out->meta.numel == 0)
        return GT_OK;
    for (int64_t b = 0; b < n.batches; b++) {
        double *scratch = calloc((size_t)(n.keys * (2 + n.width + n.value_width) + 1), sizeof *scratch);
        if (!scratch)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        head h = {.call = call, .n = n, .q_row = is_forward ? n.width : n.width + n.value_width};
        h.q = b * n.queries * h.q_row;
        h.k = b * n.keys * n.width;
        h.v = b * n.keys * n.value_width;
        h.out = b * result;
        (is_forward ? forward : backward)(&h, scratch);
        free(scratch);
    }
    return GT_OK;
}
