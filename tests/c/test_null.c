/*
 * test_null.c: NULL for each pointer of each public function, one at a time: an error that names the argument, outputs that
 * are NULL, and a session that goes on. Elementwise ops and reductions come from the table; tests/python/test_public_header.py
 * sees to it that the others are all here.
 */
#include "client_fixture.h"

/* ---- the functions ------------------------------------------------------------------------------------------ */

/*
 * Pointers of a call, a letter each: c client, t tensor, n numbers, x axes, d data, s text, l list of tensors, o output; a ?
 * before one says that NULL has a meaning there. p[k] is the k-th of them.
 */
#define FUNCTIONS(F)                                                                                              \
    F(client_connect, "so", p[0], 1, p[1])                                                                        \
    F(client_connect_key, "s?so", p[0], p[1], 1, p[2])                                                            \
    F(client_open_embedded, "o", 1, p[0])                                                                         \
    F(synchronize, "c", p[0])                                                                                     \
    F(client_set_weight, "c", p[0], 1)                                                                            \
    F(fetch, "td", p[0], p[1], 24)                                                                                \
    F(item, "td", p[0], p[1])                                                                                     \
    F(from_data, "cndo", p[0], GT_FLOAT32, 2, p[1], p[2], p[3])                                                   \
    F(full, "cno", p[0], GT_FLOAT32, 2, p[1], 1, p[2])                                                            \
    F(arange, "co", p[0], GT_FLOAT32, 0, 3, 1, p[1])                                                              \
    F(eye, "co", p[0], GT_FLOAT32, 2, 2, p[1])                                                                    \
    F(rand, "cno", p[0], GT_FLOAT32, 2, p[1], p[2])                                                               \
    F(randn, "cno", p[0], GT_FLOAT32, 2, p[1], p[2])                                                              \
    F(randint, "cno", p[0], GT_INT64, 2, p[1], 0, 9, p[2])                                                        \
    F(randperm, "co", p[0], GT_INT64, 4, p[1])                                                                    \
    F(bernoulli, "to", p[0], p[1])                                                                                \
    F(poisson, "to", p[0], p[1])                                                                                  \
    F(binomial, "to", p[0], p[1])                                                                                 \
    F(standard_gamma, "to", p[0], p[1])                                                                           \
    F(dirichlet, "to", p[0], p[1])                                                                                \
    F(multinomial, "to", p[0], 1, true, p[1])                                                                     \
    F(argmax, "to", p[0], 0, false, p[1])                                                                         \
    F(argmin, "to", p[0], 0, false, p[1])                                                                         \
    F(norm, "to", p[0], 2, 0, false, p[1])                                                                        \
    F(cumsum, "to", p[0], 0, p[1])                                                                                \
    F(cumprod, "to", p[0], 0, p[1])                                                                               \
    F(logcumsumexp, "to", p[0], 0, p[1])                                                                          \
    F(cummax, "to", p[0], 0, p[1])                                                                                \
    F(cummin, "to", p[0], 0, p[1])                                                                                \
    F(softmax, "to", p[0], 0, p[1])                                                                               \
    F(log_softmax, "to", p[0], 0, p[1])                                                                           \
    F(matmul, "tto", p[0], p[1], p[2])                                                                            \
    F(linear, "tt?to", p[0], p[1], p[2], p[3])                                                                    \
    F(full_complex, "cno", p[0], GT_COMPLEX64, 2, p[1], 1, 2, p[2])                                               \
    F(sparse_mm, "ttto", p[0], p[1], p[2], 2, false, p[3])                                                        \
    F(sampled_mm, "ttto", p[0], p[1], p[2], p[3])                                                                 \
    F(attention, "ttto", p[0], p[1], p[2], 1, 0, p[3])                                                            \
    F(view_as_real, "to", p[0], p[1])                                                                             \
    F(view_as_complex, "to", p[0], p[1])                                                                          \
    F(fft, "to", p[0], 1, false, 1, p[1])                                                                         \
    F(fft_real, "to", p[0], 1, 0, false, 1, p[1])                                                                 \
    F(fft_to_real, "to", p[0], 1, 0, false, false, 1, p[1])                                                       \
    F(batch_moments, "to", p[0], p[1])                                                                            \
    F(batch_norm, "tt?t?to", p[0], p[1], p[2], p[3], true, 1e-5, p[4])                                            \
    F(layer_norm, "t?t?to", p[0], p[1], p[2], 1, 1e-5, p[3])                                                      \
    F(cast, "to", p[0], GT_FLOAT64, p[1])                                                                         \
    F(copy, "to", p[0], p[1])                                                                                     \
    F(reshape, "tno", p[0], 2, p[1], p[2])                                                                        \
    F(permute, "txo", p[0], p[1], p[2])                                                                           \
    F(transpose, "to", p[0], 0, 1, p[1])                                                                          \
    F(expand, "tno", p[0], 2, p[1], p[2])                                                                         \
    F(slice, "tnnno", p[0], p[1], p[2], p[3], p[4])                                                               \
    F(assign, "tnnnto", p[0], p[1], p[2], p[3], p[4], p[5])                                                       \
    F(cat, "lo", p[0], 2, 0, p[1])                                                                                \
    F(tril, "to", p[0], 0, p[1])                                                                                  \
    F(triu, "to", p[0], 0, p[1])                                                                                  \
    F(take, "tto", p[0], p[1], 0, p[2])                                                                           \
    F(gather, "tto", p[0], p[1], 0, p[2])                                                                         \
    F(scatter, "ttto", p[0], p[1], p[2], 0, p[3])                                                                 \
    F(scatter_add, "ttto", p[0], p[1], p[2], 0, p[3])                                                             \
    F(scatter_reduce, "ttto", p[0], p[1], p[2], 0, 0, true, p[3])                                                 \
    F(searchsorted, "tto", p[0], p[1], false, p[2])                                                               \
    F(diagonal, "to", p[0], 0, 0, 1, p[1])                                                                        \
    F(unfold, "to", p[0], 0, 1, 1, p[1])                                                                          \
    F(argsort, "to", p[0], 0, false, p[1])                                                                        \
    F(topk, "to", p[0], 1, 0, true, p[1])                                                                         \
    F(conv, "tt?tnnno", p[0], p[1], p[2], 1, p[3], p[4], p[5], 1, p[6])                                           \
    F(conv_transpose, "tt?tnnnno", p[0], p[1], p[2], 1, p[3], p[4], p[5], 1, p[6], p[7])                          \
    F(max_pool, "tnnnno", p[0], 1, p[1], p[2], p[3], p[4], false, p[5])                                           \
    F(max_pool_index, "tnnnno", p[0], 1, p[1], p[2], p[3], p[4], false, p[5])                                     \
    F(avg_pool, "tnnno", p[0], 1, p[1], p[2], p[3], false, true, 0, p[4])                                         \
    F(adaptive_avg_pool, "tno", p[0], 1, p[1], p[2])                                                              \
    F(adaptive_max_pool, "tno", p[0], 1, p[1], p[2])                                                              \
    F(adaptive_max_pool_index, "tno", p[0], 1, p[1], p[2])                                                        \
    F(im2col, "tnnnno", p[0], 1, p[1], p[2], p[3], p[4], p[5])                                                    \
    F(col2im, "tnnnnno", p[0], 1, p[1], p[2], p[3], p[4], p[5], p[6])                                             \
    F(resample, "to", p[0], 0, 4, GT_RESAMPLE_NEAREST, false, 0, p[1])                                            \
    F(inverse, "to", p[0], p[1])                                                                                  \
    F(pinv, "to", p[0], -1, 0, p[1])                                                                              \
    F(det, "to", p[0], p[1])                                                                                      \
    F(slogdet, "too", p[0], p[1], p[2])                                                                           \
    F(cholesky, "to", p[0], p[1])                                                                                 \
    F(qr, "too", p[0], false, p[1], p[2])                                                                         \
    F(svd, "tooo", p[0], false, p[1], p[2], p[3])                                                                 \
    F(svdvals, "to", p[0], p[1])                                                                                  \
    F(eig, "too", p[0], p[1], p[2])                                                                               \
    F(eigvals, "to", p[0], p[1])                                                                                  \
    F(eigh, "too", p[0], false, p[1], p[2])                                                                       \
    F(eigvalsh, "to", p[0], false, p[1])                                                                          \
    F(solve, "tto", p[0], p[1], p[2])                                                                             \
    F(solve_triangular, "tto", p[0], p[1], false, false, p[2])                                                    \
    F(tensor_set_requires_grad, "t", p[0], true)                                                                  \
    F(tensor_grad, "to", p[0], p[1])                                                                              \
    F(backward, "t?t", p[0], p[1], false)                                                                         \
    F(grad, "l?llo", p[0], p[1], 1, p[2], 1, false, false, p[3])                                                  \
    F(detach, "to", p[0], p[1])                                                                                   \
    F(config_load, "s", p[0])                                                                                     \
    F(signal_enter, "cs?s", p[0], p[1], p[2])                                                                     \
    F(signal_exit, "s", p[0])                                                                                     \
    F(signal_tensor, "tso", p[0], p[1], p[2])

typedef struct function {
    const char *name, *pointers;
    gt_err (*call)(void **p);
} function;

#define CALL(name, pointers, ...)                                                                                 \
    static gt_err call_##name(void **p)                                                                           \
    {                                                                                                             \
        return gt_##name(__VA_ARGS__);                                                                            \
    }
FUNCTIONS(CALL)
#define UNARY(name, types, expr, grad) CALL(name, "to", p[0], p[1])
#define UNARY_PQ(name, types, expr, grad) CALL(name, "to", p[0], 0, 1, p[1])
#define BINARY(name, types, expr, grad)                                                                           \
    CALL(name, "tto", p[0], p[1], p[2])                                                                           \
    CALL(name##_scalar, "to", p[0], 1, p[1])
#define BINARY_PQ(name, types, expr, grad) CALL(name, "tto", p[0], p[1], 0, 1, p[2])
#define TERNARY(name, types, expr, grad) CALL(name, "ttto", p[0], p[1], p[2], p[3])
#define REDUCE(name, types, grad) CALL(name, "to", p[0], 0, false, p[1])
#include "gt/ops.def"

static const function functions[] = {
#define ENTRY(function, letters, ...) {.name = "gt_" #function, .pointers = letters, .call = call_##function},
    FUNCTIONS(ENTRY)
#define UNARY(name, types, expr, grad) ENTRY(name, "to")
#define UNARY_PQ(name, types, expr, grad) ENTRY(name, "to")
#define BINARY(name, types, expr, grad) ENTRY(name, "tto") ENTRY(name##_scalar, "to")
#define BINARY_PQ(name, types, expr, grad) ENTRY(name, "tto")
#define TERNARY(name, types, expr, grad) ENTRY(name, "ttto")
#define REDUCE(name, types, grad) ENTRY(name, "to")
#include "gt/ops.def"
};

/* ---- calling them ------------------------------------------------------------------------------------------- */

enum { MOST_POINTERS = 8 };

typedef struct arguments {
    gt_client *client;
    gt_tensor *tensor, *list[2];
    void *outputs[MOST_POINTERS];
} arguments;

static void *argument_for(char letter, unsigned k, arguments *a)
{
    static int64_t numbers[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    static int axes[2] = {0, 1};
    static float data[6];
    static char text[] = "nothing";
    switch (letter) {
    case 'c':
        return a->client;
    case 't':
        return a->tensor;
    case 'n':
        return numbers;
    case 'x':
        return axes;
    case 'd':
        return data;
    case 's':
        return text;
    case 'l':
        return a->list;
    default:
        a->outputs[k] = a; /* what was there before */
        return &a->outputs[k];
    }
}

/* Call with the pointer `missing` NULL. */
static void call_without(const function *f, const char *letters, const bool *optional, unsigned missing,
                         arguments *a)
{
    void *p[MOST_POINTERS];
    unsigned count = (unsigned)strlen(letters);
    if (optional[missing])
        return;
    for (unsigned k = 0; k < count; k++)
        p[k] = k == missing ? NULL : argument_for(letters[k], k, a);
    gt_err err = f->call(p);
    char begin[64];
    int length = snprintf(begin, sizeof begin, "%s: ", f->name);
    bool right = CHECK_EQ(err, GT_ERR_VALUE) && CHECK(strstr(gt_error_text(), "is NULL"));
    /* The shape of a new tensor is missed by the op that makes it. */
    right = right && CHECK(strncmp(gt_error_text(), begin, (size_t)length) == 0 ||
                           strncmp(gt_error_text(), begin + 3, (size_t)length - 3) == 0);
    for (unsigned k = 0; k < count; k++)
        if (letters[k] == 'o' && k != missing)
            right &= CHECK(!a->outputs[k]);
    if (!right)
        fprintf(stderr, "  %s without its pointer %u: %s\n", f->name, missing + 1, gt_error_text());
}

static void test_every_function(const void *argument)
{
    (void)argument;
    arguments a = {.client = open_client(1)};
    a.tensor = a.list[0] = a.list[1] = two_rows(a.client);
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        char letters[MOST_POINTERS + 1] = "";
        bool optional[MOST_POINTERS] = {false};
        unsigned count = 0;
        for (const char *at = functions[k].pointers; *at; at++)
            if (*at == '?')
                optional[count] = true;
            else
                letters[count++] = *at;
        for (unsigned missing = 0; missing < count; missing++)
            call_without(&functions[k], letters, optional, missing, &a);
    }
    CHECK(client_works(a.client)); /* the server heard of none of it */
    CHECK(holds(a.tensor, SHAPE(2, 3), VALUES(0, 1, 2, 3, 4, 5)));
    gt_client_close(&a.client);
}

static void test_lists(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *a = two_rows(client), *gap[2] = {a, NULL}, *both[2] = {a, a}, *out[2] = {a, a};
    CHECK_EQ(gt_cat(gap, 2, 0, out), GT_ERR_VALUE);
    CHECK(!out[0] && strstr(gt_error_text(), "tensors[1] is NULL"));
    CHECK_EQ(gt_cat(both, 0, 0, out), GT_ERR_VALUE);
    for (int round = 0; round < 2; round++) {
        out[0] = out[1] = a;
        CHECK_EQ(gt_grad(round ? gap : both, NULL, 2, round ? both : gap, 2, false, false, out), GT_ERR_VALUE);
        CHECK(!out[0] && !out[1] && strstr(gt_error_text(), "puts[1] is NULL"));
    }
    OK(gt_cat(both, 2, 0, &both[0])); /* the result may take the place of a tensor */
    CHECK(holds(both[0], SHAPE(4, 3), VALUES(0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5)));
    gt_tensor_release(a);
    CHECK(client_works(client));
    gt_client_close(&client);
}

/* Functions that return no gt_err. */
static void test_without_an_error(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1), *none = NULL;
    uint32_t site = 0;
    CHECK_EQ(gt_tensor_dtype(NULL), GT_DTYPE_COUNT);
    CHECK_EQ(gt_tensor_rank(NULL), 0);
    CHECK_EQ(gt_tensor_numel(NULL), 0);
    CHECK(!gt_tensor_shape(NULL));
    CHECK(!gt_tensor_client(NULL));
    CHECK(!gt_tensor_retain(NULL));
    CHECK(!gt_tensor_requires_grad(NULL));
    gt_tensor_release(NULL);
    gt_tensor_clear_grad(NULL);
    CHECK_EQ(strlen(gt_client_description(NULL)), 0);
    gt_manual_seed(NULL, 1);
    gt_client_close(NULL);
    gt_client_close(&none);
    gt_parcel_free(NULL);
    gt_here(NULL, "here.c", 1);
    gt_here(&site, NULL, 1);
    CHECK_EQ(site, 0);
    CHECK(client_works(client));
    gt_client_close(&client);
}

static void test_handover(const void *argument)
{
    (void)argument;
    char token[GT_TOKEN_SIZE];
    gt_parcel parcel;
    gt_client *none = NULL, *client = NULL;
    OK(gt_client_open_embedded(1, &client));
    CHECK_EQ(gt_client_detach(NULL, NULL, 0, NULL, 0, token), GT_ERR_VALUE);
    CHECK_EQ(gt_client_detach(&none, NULL, 0, NULL, 0, token), GT_ERR_VALUE);
    CHECK_EQ(gt_client_detach(&client, NULL, 0, NULL, 0, NULL), GT_ERR_VALUE);
    CHECK_EQ(gt_client_detach(&client, NULL, 1, NULL, 0, token), GT_ERR_VALUE);
    CHECK_EQ(gt_client_detach(&client, NULL, 0, NULL, 1, token), GT_ERR_VALUE);
    CHECK_EQ(gt_client_attach(NULL, NULL, NULL, 0, &parcel, &none), GT_ERR_VALUE);
    CHECK_EQ(gt_client_attach("token", NULL, NULL, 0, NULL, &none), GT_ERR_VALUE);
    CHECK_EQ(gt_client_attach("token", NULL, NULL, 0, &parcel, NULL), GT_ERR_VALUE);
    CHECK(client_works(client));
    gt_client_close(&client);
}

/* Failures for other reasons leave NULL, too. */
static void test_outputs_of_failures(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1), *another = client;
    gt_tensor *a = two_rows(client), *five, *out = a, *second = a, *third = a;
    OK(gt_full(client, GT_FLOAT32, SHAPE(5), 1, &five));
    CHECK(gt_add(a, five, &out) != GT_OK && !out);
    CHECK(gt_qr(five, false, &second, &third) != GT_OK && !second && !third);
    out = second = third = a;
    CHECK(gt_svd(five, false, &out, &second, &third) != GT_OK && !out && !second && !third);
    out = a;
    CHECK(gt_reshape(a, 1, (int64_t[]){5}, &out) != GT_OK && !out);
    out = a;
    CHECK(gt_full(client, GT_FLOAT32, 99, (int64_t[]){1}, 0, &out) != GT_OK && !out);
    out = a;
    CHECK(gt_from_data(client, GT_FLOAT32, 1, (int64_t[]){-1}, &out, &out) != GT_OK && !out);
    CHECK(gt_client_connect("nonsense", 1, &another) != GT_OK && !another);
    another = client;
    CHECK(gt_client_open_embedded(0, &another) != GT_OK && !another);
    gt_tensor_release(a);
    gt_tensor_release(five);
    CHECK(client_works(client));
    gt_client_close(&client);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("every function refuses NULL", test_every_function, NULL);
    check_run("lists with gaps", test_lists, NULL);
    check_run("functions without an error", test_without_an_error, NULL);
    check_run("outputs of failures", test_outputs_of_failures, NULL);
    check_run("handover", test_handover, NULL);
    return check_end();
}
