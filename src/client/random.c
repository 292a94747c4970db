/*
 * random.c: permutations, and draws with given probabilities. rand, randn and randint are in tensor.c.
 *
 * Each call takes a new stream number, so its result depends only on the seed and on the number of random tensors before it.
 * core/random.h has the definitions.
 */
#include "client/client.h"

/* The sorted order of n random 64-bit integers. The sort is stable, so equal ones do no harm. */
gt_err gt_randperm(gt_client *client, gt_dtype dtype, int64_t n, gt_tensor **out)
{
    GT_ARGUMENTS(out, client);
    gt_tensor *keys, *order;
    if (n < 0)
        return gt__fail(GT_ERR_VALUE, "randperm: n must be non-negative, got %lld", (long long)n);
    GT_TRY(gt_randint(client, GT_INT64, 1, &n, INT64_MIN, INT64_MAX, &keys));
    gt_err err = gt_argsort(keys, 0, false, &order);
    gt_tensor_release(keys);
    GT_TRY(err);
    if (dtype == GT_INT64) {
        *out = order;
        return GT_OK;
    }
    err = gt_cast(order, dtype, out);
    gt_tensor_release(order);
    return err;
}

static gt_err emit_sample(gt_opcode op, gt_tensor *a, int64_t samples, bool replacement, gt_tensor **out)
{
    gt_client *client = a->client;
    gt_instruction prototype = {.op = (uint16_t)op, .tail = 1};
    gt_slot tail = {.i64 = {samples, replacement}};
    prototype.imm[0].u = client->seed;
    prototype.imm[1].u = client->stream++;
    return gt__emit(client, prototype, &tail, &a, 1, out);
}

/* One number, or one vector, for each parameter of `a`. */
#define SAMPLE(name)                                                                                              \
    gt_err gt_##name(gt_tensor *a, gt_tensor **out)                                                               \
    {                                                                                                             \
        GT_ARGUMENTS(out, a);                                                                                     \
        return emit_sample(GT_OP_##name, a, 0, false, out);                                                       \
    }
SAMPLE(bernoulli)
SAMPLE(poisson)
SAMPLE(binomial)
SAMPLE(standard_gamma)
SAMPLE(dirichlet)
#undef SAMPLE

gt_err gt_multinomial(gt_tensor *weights, int64_t samples, bool replacement, gt_tensor **out)
{
    GT_ARGUMENTS(out, weights);
    return emit_sample(GT_OP_multinomial, weights, samples, replacement, out);
}
