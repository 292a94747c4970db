/*
 * linear_regression.c: find the weights w of y = X w by gradient descent, with the gradient written by hand.
 *
 *     cc linear_regression.c -o linear_regression -lgt && ./linear_regression [host:port]
 *
 * loss = mean((X w - y)^2), so its gradient is X^T (X w - y) * 2 / N. The loop only emits instructions; it waits
 * only to print a loss. Without an argument everything runs in this process. Read next: mlp.c, which uses autograd.
 */
#include <gt.h>
#include <stdio.h>
#include <stdlib.h>

enum { EXAMPLES = 1000, FEATURES = 4, STEPS = 100, REPORT_EVERY = 10 };

static const float RATE = 0.1f;
static const float TRUE_WEIGHTS[FEATURES] = {1.0f, -2.0f, 3.0f, 0.5f};

/* An error ends the program. */
static void must(gt_err err)
{
    if (err) {
        fprintf(stderr, "linear_regression: %s\n", gt_error_text());
        exit(1);
    }
}

/* Replace *tensor by a new tensor and release the old one, like `w = w - step` in Python. */
static void replace(gt_tensor **tensor, gt_tensor *successor)
{
    gt_tensor_release(*tensor);
    *tensor = successor;
}

/* Random x (N,F); y (N,1) = x true_weights plus a little noise. */
static void make_examples(gt_client *client, gt_tensor **x, gt_tensor **y)
{
    gt_tensor *weights, *noise, *product;
    must(gt_from_data(client, GT_FLOAT32, 2, (int64_t[]){FEATURES, 1}, TRUE_WEIGHTS, &weights));
    must(gt_randn(client, GT_FLOAT32, 2, (int64_t[]){EXAMPLES, FEATURES}, x));
    must(gt_randn(client, GT_FLOAT32, 2, (int64_t[]){EXAMPLES, 1}, &noise));
    must(gt_mul_scalar(noise, 0.01, &product));
    replace(&noise, product);
    must(gt_matmul(*x, weights, &product));
    must(gt_add(product, noise, y));
    gt_tensor_release(product);
    gt_tensor_release(noise);
    gt_tensor_release(weights);
}

/* error (N,1) = x w - y */
static gt_tensor *errors(gt_tensor *x, gt_tensor *w, gt_tensor *y)
{
    gt_tensor *prediction, *error;
    must(gt_matmul(x, w, &prediction));
    must(gt_sub(prediction, y, &error));
    gt_tensor_release(prediction);
    return error;
}

static double mean_square(gt_tensor *error)
{
    gt_tensor *squares, *mean;
    double value;
    must(gt_square(error, &squares));
    must(gt_mean(squares, 0, false, &mean));
    must(gt_item(mean, &value)); /* waits */
    gt_tensor_release(squares);
    gt_tensor_release(mean);
    return value;
}

/* w - rate * x^T error * 2 / N; transposed is x^T (F,N) */
static gt_tensor *descend(gt_tensor *transposed, gt_tensor *w, gt_tensor *error)
{
    gt_tensor *gradient, *step, *successor;
    must(gt_matmul(transposed, error, &gradient));
    must(gt_mul_scalar(gradient, RATE * 2 / EXAMPLES, &step));
    must(gt_sub(w, step, &successor));
    gt_tensor_release(gradient);
    gt_tensor_release(step);
    return successor;
}

int main(int argc, char **argv)
{
    gt_client *client;
    must(argc > 1 ? gt_client_connect(argv[1], 0, &client) : gt_client_open_embedded(1, &client));
    gt_manual_seed(client, 1);

    gt_tensor *x, *y, *transposed, *w;
    make_examples(client, &x, &y);
    must(gt_transpose(x, 0, 1, &transposed));
    must(gt_full(client, GT_FLOAT32, 2, (int64_t[]){FEATURES, 1}, 0, &w));
    for (int step = 0; step <= STEPS; step++) {
        gt_tensor *error = errors(x, w, y);
        if (step % REPORT_EVERY == 0)
            printf("step %3d   loss %.6f\n", step, mean_square(error));
        replace(&w, descend(transposed, w, error));
        gt_tensor_release(error);
    }

    float found[FEATURES];
    must(gt_fetch(w, found, sizeof found));
    for (int k = 0; k < FEATURES; k++)
        printf("w[%d] = %8.4f, should be %g\n", k, found[k], TRUE_WEIGHTS[k]);
    printf("ran on %s\n", gt_client_description(client));

    gt_tensor_release(x);
    gt_tensor_release(y);
    gt_tensor_release(transposed);
    gt_tensor_release(w);
    gt_client_close(&client);
    return 0;
}
