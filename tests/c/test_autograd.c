/*
 * test_autograd.c: the gradient functions of gt.h, on an embedded server: every differentiable op of the table,
 * the others and a small network against finite differences in float64; what is refused; and that nothing is
 * left behind. Hooks are not in gt.h: they are tested through autograd.h. tests/python/test_autograd.py compares
 * with PyTorch.
 */
#include "client/autograd.h"
#include "autograd_windows.h"
#include "client_fixture.h"

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

/* ---- leaving nothing behind --------------------------------------------------------------------------------- */

static bool server_is_empty(gt_client *client)
{
    char *json = NULL;
    if (!OK(gt_synchronize(client)) || !OK(gt__client_stats(client, false, &json)))
        return false;
    const char *count = strstr(json, "\"tensors\": ");
    bool empty = CHECK(count != NULL) && CHECK_EQ(atoi(count + strlen("\"tensors\": ")), 0);
    free(json);
    return empty;
}

/* Everything of a test must be released by now, on both sides. */
static void close_clean(gt_client *client)
{
    CHECK_EQ(client->live, 0);
    CHECK(!client->oldest_node);
    server_is_empty(client);
    gt_client_close(&client);
}

static void release_all(gt_tensor **tensors, int count)
{
    for (int k = 0; k < count; k++)
        gt_tensor_release(tensors[k]);
}

static void replace(gt_tensor **tensor, gt_tensor *successor)
{
    gt_tensor_release(*tensor);
    *tensor = successor;
}

/* ---- finite differences ------------------------------------------------------------------------------------- */

enum { MOST_INPUTS = 5, MOST_ELEMENTS = 64 };

typedef struct input {
    int rank;
    int64_t shape[4];
} input;

/* A function of up to five tensors, and the shapes to differentiate it at. */
typedef struct function {
    const char *name;
    gt_err (*run)(gt_tensor **in, gt_tensor **out);
    gt_err (*unary)(gt_tensor *a, gt_tensor **out);
    gt_err (*unary_pq)(gt_tensor *a, double p, double q, gt_tensor **out);
    gt_err (*binary)(gt_tensor *a, gt_tensor *b, gt_tensor **out);
    gt_err (*binary_pq)(gt_tensor *a, gt_tensor *b, double p, double q, gt_tensor **out);
    gt_err (*reduce)(gt_tensor *a, uint32_t axes, bool keepdims, gt_tensor **out);
    uint32_t axes;
    input inputs[MOST_INPUTS];
} function;

static gt_err call(const function *f, gt_tensor **in, gt_tensor **out)
{
    if (f->unary)
        return f->unary(in[0], out);
    if (f->unary_pq)
        return f->unary_pq(in[0], 0.8, 1.4, out);
    if (f->binary)
        return f->binary(in[0], in[1], out);
    if (f->binary_pq)
        return f->binary_pq(in[0], in[1], 0.8, 1.4, out);
    return f->reduce ? f->reduce(in[0], f->axes, f->axes != 0, out) : f->run(in, out);
}

/* Inputs end at the first without axes. */
static int input_count(const function *f)
{
    int count = 0;
    while (count < MOST_INPUTS && f->inputs[count].rank)
        count++;
    return count;
}

static int64_t elements(const input *in)
{
    int64_t count = 1;
    for (int axis = 0; axis < in->rank; axis++)
        count *= in->shape[axis];
    return count;
}

/* Between 0.55 and 1.95: every op is smooth there, if 1 and 1.5 are avoided, and no two elements are equal. */
static double value_at(int which, int64_t element)
{
    double value = 0.55 + fmod(0.137 + 0.618033988749895 * (double)(element + 17 * which), 1.0) * 1.4;
    return fabs(value * 2 - rint(value * 2)) < 0.02 ? value + 0.03 : value;
}

/* Some are defined on one side of 1 only: below it, or above. */
static double value_for(const function *f, int which, int64_t element)
{
    static const char *const below[] = {"asin", "acos", "atanh", "erfinv", "ndtri"};
    double value = value_at(which, element);
    for (int k = 0; k < COUNT(below); k++)
        value = strcmp(f->name, below[k]) == 0 ? value / 2 : value;
    return strcmp(f->name, "acosh") == 0 ? value + 1 : value;
}

static double weight_at(int64_t element)
{
    return 0.3 + fmod(0.7548776662466927 * (double)(element + 1), 1.0);
}

/* sum(weights * f(inputs)), weights different for every element. */
static bool weighted_sum(const function *f, gt_tensor **in, gt_tensor **loss)
{
    gt_tensor *out, *weights = NULL, *product = NULL;
    double numbers[MOST_VALUES];
    if (!OK(call(f, in, &out)))
        return false;
    for (int64_t k = 0; k < gt_tensor_numel(out); k++)
        numbers[k] = weight_at(k);
    bool fine = OK(gt_from_data(gt_tensor_client(out), GT_FLOAT64, gt_tensor_rank(out), gt_tensor_shape(out),
                                numbers, &weights)) &&
                OK(gt_mul(out, weights, &product)) && OK(gt_sum(product, 0, false, loss));
    gt_tensor_release(out);
    gt_tensor_release(weights);
    gt_tensor_release(product);
    return fine;
}

typedef double values[MOST_INPUTS][MOST_ELEMENTS];

static int make_inputs(gt_client *client, const function *f, values numbers, gt_tensor **in)
{
    int count = input_count(f);
    for (int k = 0; k < count; k++)
        OK(gt_from_data(client, GT_FLOAT64, f->inputs[k].rank, f->inputs[k].shape, numbers[k], &in[k]));
    return count;
}

static double loss_at(gt_client *client, const function *f, values numbers)
{
    gt_tensor *in[MOST_INPUTS], *loss;
    double value = NAN;
    bool recorded = gt_set_grad_enabled(false);
    int count = make_inputs(client, f, numbers, in);
    if (weighted_sum(f, in, &loss)) {
        OK(gt_item(loss, &value));
        gt_tensor_release(loss);
    }
    release_all(in, count);
    gt_set_grad_enabled(recorded);
    return value;
}

static void check_slopes(gt_client *client, const function *f, values numbers, int which, const double *gradient)
{
    const double step = 1e-5;
    for (int64_t k = 0; k < elements(&f->inputs[which]); k++) {
        double here = numbers[which][k];
        numbers[which][k] = here + step;
        double above = loss_at(client, f, numbers);
        numbers[which][k] = here - step;
        double slope = (above - loss_at(client, f, numbers)) / (2 * step);
        numbers[which][k] = here;
        if (!CHECK(fabs(slope - gradient[k]) <= 1e-6 * (1 + fabs(slope))))
            fprintf(stderr, "  %s: input %d, element %d: %.9g instead of %.9g\n", f->name, which, (int)k,
                    gradient[k], slope);
    }
}

/* Rows whose rule refuses the gradient of some operand, as in PyTorch. */
static bool refuses(const function *f)
{
    static const char *const names[] = {"nextafter",           "zeta",      "igamma",
                                        "standard_gamma_grad", "heaviside", "floor_divide"};
    for (int k = 0; k < COUNT(names); k++)
        if (strncmp(f->name, names[k], strlen(names[k])) == 0)
            return true;
    return false;
}

static void check_function(gt_client *client, const function *f)
{
    values numbers;
    gt_tensor *in[MOST_INPUTS], *loss, *gradient;
    for (int k = 0; k < MOST_INPUTS; k++)
        for (int64_t element = 0; element < MOST_ELEMENTS; element++)
            numbers[k][element] = value_for(f, k, element);
    int count = make_inputs(client, f, numbers, in);
    for (int k = 0; k < count; k++)
        OK(gt_tensor_set_requires_grad(in[k], true));
    if (refuses(f) && weighted_sum(f, in, &loss))
        CHECK_EQ(gt_backward(loss, NULL, false), GT_ERR_UNSUPPORTED);
    else if (weighted_sum(f, in, &loss) && OK(gt_backward(loss, NULL, false)))
        for (int k = 0; k < count; k++) {
            double got[MOST_ELEMENTS];
            OK(gt_tensor_grad(in[k], &gradient));
            if (CHECK(gradient != NULL) && CHECK_EQ(gt_tensor_numel(gradient), elements(&f->inputs[k])) &&
                OK(gt_fetch(gradient, got, (size_t)elements(&f->inputs[k]) * sizeof *got)))
                check_slopes(client, f, numbers, k, got);
            gt_tensor_release(gradient);
        }
    gt_tensor_release(loss);
    release_all(in, count);
}

/* ---- the functions ------------------------------------------------------------------------------------------ */

#define ROW_NONE(...)
#define ROW_DIFF(...) {__VA_ARGS__},
static const function rows[] = {
#define UNARY(row, types, expr, grad) ROW_##grad(.name = #row, .unary = gt_##row, .inputs = {{2, {2, 3}}})
#define UNARY_PQ(row, types, expr, grad) ROW_##grad(.name = #row, .unary_pq = gt_##row, .inputs = {{2, {2, 3}}})
#define BINARY_PQ(row, types, expr, grad)                                                                         \
    ROW_##grad(.name = #row, .binary_pq = gt_##row, .inputs = {{2, {2, 3}}, {2, {2, 3}}})
#define BINARY(row, types, expr, grad)                                                                            \
    ROW_##grad(.name = #row, .binary = gt_##row, .inputs = {{2, {2, 3}}, {2, {2, 3}}})                            \
        ROW_##grad(.name = #row ", broadcast", .binary = gt_##row, .inputs = {{2, {2, 1}}, {1, {3}}})
#define REDUCE(row, types, grad)                                                                                  \
    ROW_##grad(.name = #row, .reduce = gt_##row, .inputs = {{2, {2, 3}}})                                         \
        ROW_##grad(.name = #row ", one axis", .reduce = gt_##row, .axes = 1u << 1, .inputs = {{3, {2, 3, 2}}})
#include "gt/ops.def"
};

#include "autograd_functions.h"

static void test_rows(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    for (int k = 0; k < COUNT(rows); k++)
        check_function(client, &rows[k]);
    close_clean(client);
}

static void test_others(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    for (int k = 0; k < COUNT(others); k++)
        check_function(client, &others[k]);
    close_clean(client);
}

/* ---- a server that goes away in the middle ------------------------------------------------------------------ */

static gt_err close_client(void *context, gt_tensor **gradient)
{
    (void)gradient;
    gt_client_close(context);
    return GT_OK;
}

/* The first step of every rule fails, and the rest of it has to live with that. */
static void test_failing_rules(const void *argument)
{
    (void)argument;
    for (int which = 0; which < COUNT(rows) + COUNT(others); which++) {
        const function *f = which < COUNT(rows) ? &rows[which] : &others[which - COUNT(rows)];
        gt_client *client = open_client(1);
        gt_tensor *in[MOST_INPUTS], *out = NULL, *ones = NULL;
        gt_hook_entry *entry;
        values numbers = {{0}};
        int count = make_inputs(client, f, numbers, in);
        for (int k = 0; k < count; k++)
            OK(gt_tensor_set_requires_grad(in[k], true));
        if (OK(call(f, in, &out)) &&
            OK(gt_full(client, GT_FLOAT64, gt_tensor_rank(out), gt_tensor_shape(out), 1, &ones)) &&
            OK(gt__tensor_hook(out, close_client, &client, NULL, false, &entry))) {
            gt_backward(out, ones, false);
            gt__hook_release(entry);
        }
        CHECK(client == NULL);
        gt_tensor_release(out);
        gt_tensor_release(ones);
        release_all(in, count);
    }
}

/* ---- the rules of the game ---------------------------------------------------------------------------------- */

static gt_tensor *leaf(gt_client *client, double first, double second)
{
    gt_tensor *tensor = NULL;
    if (!OK(gt_from_data(client, GT_FLOAT64, SHAPE(2), (double[]){first, second}, &tensor)) ||
        !OK(gt_tensor_set_requires_grad(tensor, true)))
        abort();
    return tensor;
}

static void check_grad(gt_tensor *tensor, double first, double second)
{
    gt_tensor *gradient = NULL;
    if (OK(gt_tensor_grad(tensor, &gradient)) && CHECK(gradient != NULL))
        holds(gradient, SHAPE(2), VALUES(first, second));
}

static bool has_grad(gt_tensor *tensor)
{
    gt_tensor *gradient;
    OK(gt_tensor_grad(tensor, &gradient));
    gt_tensor_release(gradient);
    return gradient != NULL;
}

static void test_requires_grad(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *whole, *x, *y, *flags;
    OK(gt_full(client, GT_INT64, SHAPE(2), 1, &whole));
    CHECK_EQ(gt_tensor_set_requires_grad(whole, true), GT_ERR_TYPE);
    OK(gt_full(client, GT_FLOAT32, SHAPE(2), 1, &x));
    CHECK(!gt_tensor_requires_grad(x));
    OK(gt_tensor_set_requires_grad(x, false));
    OK(gt_tensor_set_requires_grad(x, true));
    OK(gt_tensor_set_requires_grad(x, true));
    OK(gt_mul(x, whole, &y));
    OK(gt_gt_scalar(x, 0, &flags));
    CHECK(gt_tensor_requires_grad(x) && gt_tensor_requires_grad(y) && !gt_tensor_requires_grad(flags));
    CHECK_EQ(gt_tensor_set_requires_grad(y, false), GT_ERR_VALUE);
    OK(gt_tensor_set_requires_grad(y, true));
    OK(gt_tensor_set_requires_grad(x, false));
    CHECK(!gt_tensor_requires_grad(x) && gt_tensor_requires_grad(y) && !has_grad(x));
    gt_tensor_clear_grad(x);
    release_all((gt_tensor *[]){whole, x, y, flags}, 4);
    close_clean(client);
}

static void test_modes(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *x = leaf(client, 1, 2), *y, *z, *detached;
    CHECK(gt_set_grad_enabled(false));
    OK(gt_mul_scalar(x, 2, &y));
    CHECK(!gt_set_grad_enabled(true));
    CHECK(!gt_tensor_requires_grad(y));
    OK(gt_mul_scalar(x, 3, &z));
    OK(gt_detach(z, &detached));
    CHECK(gt_tensor_requires_grad(z) && !gt_tensor_requires_grad(detached));
    holds(gt_tensor_retain(detached), SHAPE(2), VALUES(3, 6));
    release_all((gt_tensor *[]){x, y, z, detached}, 4);
    close_clean(client);
}

static void test_refusals(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *x = leaf(client, 1, 2), *y, *wrong, *plain, *mine = x;
    OK(gt_square(x, &y));
    OK(gt_full(client, GT_FLOAT64, SHAPE(3), 1, &wrong));
    OK(gt_full(client, GT_FLOAT64, 0, NULL, 1, &plain));
    CHECK_EQ(gt_backward(y, NULL, false), GT_ERR_VALUE);
    CHECK_EQ(gt_backward(y, wrong, false), GT_ERR_VALUE);
    CHECK_EQ(gt_backward(plain, NULL, false), GT_ERR_VALUE);
    CHECK(!has_grad(x));
    CHECK_EQ(gt_grad(&y, NULL, 1, &x, 1, false, false, &mine), GT_ERR_VALUE);
    CHECK(!mine);
    mine = x;
    CHECK_EQ(gt_grad(&y, NULL, 1, &plain, 1, false, false, &mine), GT_ERR_VALUE);
    CHECK(!mine);
    CHECK_EQ(gt_grad(&y, NULL, 1, NULL, 0, false, false, NULL), GT_ERR_VALUE);
    release_all((gt_tensor *[]){x, y, wrong, plain}, 4);
    close_clean(client);
}

static void test_retain_graph(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *x = leaf(client, 1, 2), *y, *loss;
    OK(gt_square(x, &y));
    OK(gt_sum(y, 0, false, &loss));
    OK(gt_backward(loss, NULL, true));
    check_grad(x, 2, 4);
    OK(gt_backward(loss, NULL, false));
    check_grad(x, 4, 8);
    CHECK_EQ(gt_backward(loss, NULL, false), GT_ERR_VALUE);
    gt_tensor_clear_grad(x);
    CHECK(!has_grad(x));
    release_all((gt_tensor *[]){x, y, loss}, 3);
    close_clean(client);
}

/* "In place" is a new value for the same name: what was computed, or saved, before does not change with it. */
static void test_in_place(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *x = leaf(client, 1, 2), *y, *product, *changed, *sum, *loss;
    int64_t start = 0, step = 1, count = 1;
    gt_imm hundred = {.f = 100};
    OK(gt_mul_scalar(x, 3, &y));
    OK(gt_mul(y, y, &product)); /* saves y */
    /* As y[0] = 100 does in Python, which lets the worker write into y if nobody else needs it. */
    OK(gt__emit_assign(y, &start, &step, &count, NULL, GT_LITERAL_FLOAT, hundred, true, &changed));
    replace(&y, changed);
    holds(gt_tensor_retain(y), SHAPE(2), VALUES(100, 6));
    OK(gt_add(product, y, &sum));
    OK(gt_sum(sum, 0, false, &loss));
    OK(gt_backward(loss, NULL, false));
    check_grad(x, 18, 36 + 3); /* 9 x^2, and 3 x where y was not overwritten */

    /* A leaf keeps its value and its gradient, whatever is made of it. */
    OK(gt__emit_assign(x, &start, &step, &count, NULL, GT_LITERAL_FLOAT, hundred, true, &changed));
    CHECK(gt_tensor_requires_grad(changed) && !has_grad(changed));
    holds(gt_tensor_retain(x), SHAPE(2), VALUES(1, 2));
    check_grad(x, 18, 39);
    release_all((gt_tensor *[]){x, y, product, sum, loss, changed}, 6);
    close_clean(client);
}

static void test_dtypes(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *narrow, *wide = leaf(client, 3, 4), *product, *ones, *gradient;
    OK(gt_from_data(client, GT_FLOAT32, SHAPE(1), (float[]){2}, &narrow));
    OK(gt_tensor_set_requires_grad(narrow, true));
    OK(gt_mul(narrow, wide, &product));
    OK(gt_full(client, GT_FLOAT32, SHAPE(2), 1, &ones));
    OK(gt_backward(product, ones, false)); /* float32 for a float64 product */
    OK(gt_tensor_grad(narrow, &gradient));
    CHECK_EQ(gt_tensor_dtype(gradient), GT_FLOAT32);
    holds(gradient, SHAPE(1), VALUES(7));
    OK(gt_tensor_grad(wide, &gradient));
    CHECK_EQ(gt_tensor_dtype(gradient), GT_FLOAT64);
    holds(gradient, SHAPE(2), VALUES(2, 2));
    release_all((gt_tensor *[]){narrow, wide, product, ones}, 4);
    close_clean(client);
}

/* ---- gt_grad ------------------------------------------------------------------------------------------------ */

static void test_grad(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *a = leaf(client, 1, 2), *b = leaf(client, 3, 4), *unused = leaf(client, 5, 6);
    gt_tensor *product, *total, *weights, *gradients[3];
    OK(gt_mul(a, b, &product));
    OK(gt_sum(a, 0, false, &total));
    OK(gt_from_data(client, GT_FLOAT64, SHAPE(2), (double[]){10, 100}, &weights));
    OK(gt_grad((gt_tensor *[]){product, total}, (gt_tensor *[]){weights, NULL}, 2, (gt_tensor *[]){a, b, unused},
               3, true, false, gradients));
    CHECK(gradients[2] == NULL && !has_grad(a) && !has_grad(b));
    holds(gradients[0], SHAPE(2), VALUES(31, 401));
    holds(gradients[1], SHAPE(2), VALUES(10, 200));
    OK(gt_grad(&total, NULL, 1, &a, 1, false, false, gradients));
    holds(gradients[0], SHAPE(2), VALUES(1, 1));
    release_all((gt_tensor *[]){a, b, unused, product, total, weights}, 6);
    close_clean(client);
}

/* Only what leads to the inputs is computed and used up: from an input in the middle another pass may go on. */
static void test_grad_in_stages(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *x = leaf(client, 3, 4), *other = leaf(client, 5, 6), *middle, *branch, *product, *total, *gradient;
    OK(gt_square(x, &middle));
    OK(gt_log(other, &branch));
    OK(gt_mul(middle, branch, &product));
    OK(gt_sum(product, 0, false, &total));
    uint64_t before = client->next_id;
    OK(gt_grad(&total, NULL, 1, &middle, 1, false, false, &gradient));
    CHECK(client->next_id - before <= 5); /* what sum and mul need, and nothing of x and `other` */
    OK(gt_backward(middle, gradient, false));
    check_grad(x, 6 * log(5), 8 * log(6));
    CHECK(!has_grad(other));
    CHECK_EQ(gt_backward(total, NULL, false), GT_ERR_VALUE); /* the product was used up */
    release_all((gt_tensor *[]){x, other, middle, branch, product, total, gradient}, 7);
    close_clean(client);
}

/* The third derivative of x^4 is 24 x; that of exp(x) is exp(x). */
static void test_higher_derivatives(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *x = leaf(client, 1, 2), *power, *exponential, *value, *sum;
    OK(gt_pow_scalar(x, 4, &power));
    OK(gt_exp(x, &exponential));
    OK(gt_add(power, exponential, &value));
    for (int order = 1; order <= 3; order++) {
        gt_tensor *derivative;
        OK(gt_sum(value, 0, false, &sum));
        OK(gt_grad(&sum, NULL, 1, &x, 1, false, order < 3, &derivative));
        CHECK_EQ(gt_tensor_requires_grad(derivative), order < 3);
        gt_tensor_release(sum);
        replace(&value, derivative);
    }
    holds(value, SHAPE(2), VALUES(24 + exp(1), 48 + exp(2)));
    release_all((gt_tensor *[]){x, power, exponential}, 3);
    close_clean(client);
}

/* ---- hooks -------------------------------------------------------------------------------------------------- */

typedef struct hooked {
    gt_hook_entry *remove; /* what the hook removes */
    gt_tensor *from, *by;  /* what it differentiates, once; NULL: nothing */
    gt_tensor *derivative;
    int calls, freed;
} hooked;

static gt_err count_call(void *context, gt_tensor **gradient)
{
    hooked *state = context;
    gt_tensor *from = state->from;
    (void)gradient;
    state->calls++;
    if (state->remove)
        gt__hook_remove(state->remove);
    state->from = NULL;
    return from ? gt_grad(&from, NULL, 1, &state->by, 1, true, false, &state->derivative) : GT_OK;
}

static void count_freed(void *context)
{
    ((hooked *)context)->freed++;
}

static gt_err tenfold(void *context, gt_tensor **gradient)
{
    (void)context;
    return gt_mul_scalar(*gradient, 10, gradient);
}

static void test_hooks(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *x = leaf(client, 1, 2), *y, *loss;
    hooked states[3] = {0};
    gt_hook_entry *entries[3], *replaces;
    OK(gt_square(x, &y));
    OK(gt_sum(y, 0, false, &loss));
    OK(gt__tensor_hook(y, tenfold, NULL, NULL, false, &replaces));
    for (int k = 0; k < 3; k++)
        OK(gt__tensor_hook(x, count_call, &states[k], count_freed, false, &entries[k]));
    states[0].remove = entries[1]; /* the next */
    states[2].remove = entries[2]; /* itself */
    OK(gt_backward(loss, NULL, true));
    check_grad(x, 20, 40);
    OK(gt_backward(loss, NULL, true));
    CHECK(states[0].calls == 2 && states[1].calls == 0 && states[2].calls == 1);
    CHECK(states[0].freed == 0 && states[1].freed == 1 && states[2].freed == 1);
    gt__hook_remove(entries[1]);
    CHECK_EQ(states[1].freed, 1);
    release_all((gt_tensor *[]){x, y, loss}, 3);
    CHECK_EQ(states[0].freed, 1); /* with its node */
    gt__hook_remove(entries[0]);
    gt__hook_release(replaces);
    for (int k = 0; k < 3; k++)
        gt__hook_release(entries[k]);
    close_clean(client);
}

/* A pass inside a hook of another, with gradients of both under way at x and y. */
static void test_nested_passes(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(1);
    gt_tensor *x = leaf(client, 1, 2), *y, *product, *sum, *total, *loss;
    hooked state = {0};
    gt_hook_entry *entry;
    OK(gt_square(x, &y));
    OK(gt_mul_scalar(y, 3, &product));
    OK(gt_add(product, x, &sum)); /* x has a gradient waiting when y's hook runs */
    OK(gt_sum(sum, 0, false, &total));
    OK(gt_sum(y, 0, false, &loss));
    OK(gt__tensor_hook(y, count_call, &state, NULL, false, &entry));
    state.from = loss;
    state.by = x;
    OK(gt_backward(total, NULL, false));
    CHECK_EQ(state.calls, 2);
    if (CHECK(state.derivative != NULL))
        holds(state.derivative, SHAPE(2), VALUES(2, 4)); /* of x^2 */
    check_grad(x, 6 + 1, 12 + 1);                        /* of 3 x^2 + x */
    gt__hook_release(entry);
    release_all((gt_tensor *[]){x, y, product, sum, total, loss}, 6);
    close_clean(client);
}

/* ---- a training loop ---------------------------------------------------------------------------------------- */

static double train_step(gt_tensor **in, const function *f)
{
    gt_tensor *out, *squares, *loss, *gradient, *step, *successor;
    double value = NAN;
    OK(call(f, in, &out));
    OK(gt_square(out, &squares));
    OK(gt_mean(squares, 0, false, &loss));
    OK(gt_backward(loss, NULL, false));
    OK(gt_item(loss, &value));
    gt_set_grad_enabled(false);
    for (int k = 1; k < MOST_INPUTS; k++) {
        OK(gt_tensor_grad(in[k], &gradient));
        OK(gt_mul_scalar(gradient, 0.1, &step));
        OK(gt_sub(in[k], step, &successor));
        OK(gt_tensor_set_requires_grad(successor, true));
        replace(&in[k], successor);
        gt_tensor_release(gradient);
        gt_tensor_release(step);
    }
    gt_set_grad_enabled(true);
    release_all((gt_tensor *[]){out, squares, loss}, 3);
    return value;
}

static void test_training(const void *argument)
{
    (void)argument;
    const function *network = &others[COUNT(others) - 1];
    gt_client *client = open_client(1);
    values numbers;
    gt_tensor *in[MOST_INPUTS];
    for (int k = 0; k < MOST_INPUTS; k++)
        for (int64_t element = 0; element < MOST_ELEMENTS; element++)
            numbers[k][element] = value_at(k, element);
    make_inputs(client, network, numbers, in);
    for (int k = 1; k < MOST_INPUTS; k++)
        OK(gt_tensor_set_requires_grad(in[k], true));
    double first = train_step(in, network), last = first;
    uint64_t live = client->live;
    for (int step = 0; step < 50; step++)
        last = train_step(in, network);
    CHECK(last < first / 10);
    CHECK_EQ(client->live, live); /* nothing piles up */
    release_all(in, MOST_INPUTS);
    close_clean(client);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("table rows against finite differences", test_rows, NULL);
    check_run("other ops and a network against finite differences", test_others, NULL);
    check_run("a server that goes away during backward", test_failing_rules, NULL);
    check_run("requires_grad", test_requires_grad, NULL);
    check_run("recording off, and detach", test_modes, NULL);
    check_run("refusals", test_refusals, NULL);
    check_run("retain_graph", test_retain_graph, NULL);
    check_run("in place", test_in_place, NULL);
    check_run("dtypes", test_dtypes, NULL);
    check_run("gt_grad", test_grad, NULL);
    check_run("gt_grad in stages", test_grad_in_stages, NULL);
    check_run("higher derivatives", test_higher_derivatives, NULL);
    check_run("hooks", test_hooks, NULL);
    check_run("nested passes", test_nested_passes, NULL);
    check_run("training", test_training, NULL);
    return check_end();
}
