/*
 * mlp.c: train a small network from C, with gradients: which points of the plane lie inside a ring?
 *
 *     cc mlp.c -o mlp -lgt && ./mlp [host:port]
 *
 * The network is tanh(x W1 + b1) -> tanh(. W2 + b2) -> . W3 + b3, a logit for each point; the loss is the binary
 * cross entropy, mean(softplus(logit) - target * logit). Operations are only emitted; the program waits only
 * to print. Read linear_regression.c first: there the gradient is written by hand.
 */
#include <gt.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 512, HIDDEN = 32, LAYERS = 3, STEPS = 500, REPORT_EVERY = 50 };

static const double RATE = 0.5;
static const int64_t SIZES[LAYERS + 1] = {2, HIDDEN, HIDDEN, 1};

typedef struct layer {
    gt_tensor *weight, *bias; /* weight (in,out), bias (out) */
} layer;

/* An error ends the program. */
static void must(gt_err err)
{
    if (err) {
        fprintf(stderr, "mlp: %s\n", gt_error_text());
        exit(1);
    }
}

/* Replace *tensor by a new tensor and release the old one, like `w = w - step` in Python. */
static void replace(gt_tensor **tensor, gt_tensor *successor)
{
    gt_tensor_release(*tensor);
    *tensor = successor;
}

/* points (N,2) from the square [-2,2] x [-2,2]; targets (N,1): 1 where 0.7 < |point| < 1.5 */
static void make_points(gt_client *client, gt_tensor **points, gt_tensor **targets)
{
    gt_tensor *random, *squares, *distance, *outer, *inner, *inside;
    must(gt_rand(client, GT_FLOAT32, 2, (int64_t[]){POINTS, 2}, &random));
    must(gt_mul_scalar(random, 4, &squares));
    must(gt_sub_scalar(squares, 2, points));
    gt_tensor_release(random);
    gt_tensor_release(squares);
    must(gt_square(*points, &squares));
    must(gt_sum(squares, 1 << 1, true, &distance)); /* |point|^2 (N,1) */
    must(gt_lt_scalar(distance, 1.5 * 1.5, &outer));
    must(gt_gt_scalar(distance, 0.7 * 0.7, &inner));
    must(gt_logical_and(inner, outer, &inside));
    must(gt_cast(inside, GT_FLOAT32, targets));
    gt_tensor_release(squares);
    gt_tensor_release(distance);
    gt_tensor_release(outer);
    gt_tensor_release(inner);
    gt_tensor_release(inside);
}

/* Small random weights, zero biases; both require gradients. */
static layer make_layer(gt_client *client, int64_t in, int64_t out)
{
    layer made;
    gt_tensor *normal;
    must(gt_randn(client, GT_FLOAT32, 2, (int64_t[]){in, out}, &normal));
    must(gt_mul_scalar(normal, in == 2 ? 1.0 : 0.2, &made.weight));
    must(gt_full(client, GT_FLOAT32, 1, (int64_t[]){out}, 0, &made.bias));
    must(gt_tensor_set_requires_grad(made.weight, true));
    must(gt_tensor_set_requires_grad(made.bias, true));
    gt_tensor_release(normal);
    return made;
}

/* logits (N,1) for points (N,2). The tape keeps the intermediate values that gradients need, so we release them. */
static gt_tensor *forward(const layer *layers, gt_tensor *points)
{
    gt_tensor *value = gt_tensor_retain(points), *next;
    for (int k = 0; k < LAYERS; k++) {
        must(gt_matmul(value, layers[k].weight, &next));
        replace(&value, next);
        must(gt_add(value, layers[k].bias, &next));
        replace(&value, next);
        if (k + 1 < LAYERS) {
            must(gt_tanh(value, &next));
            replace(&value, next);
        }
    }
    return value;
}

/* mean(softplus(logit) - target * logit) */
static gt_tensor *cross_entropy(gt_tensor *logits, gt_tensor *targets)
{
    gt_tensor *softplus, *product, *each, *loss;
    must(gt_softplus(logits, &softplus));
    must(gt_mul(targets, logits, &product));
    must(gt_sub(softplus, product, &each));
    must(gt_mean(each, 0, false, &loss));
    gt_tensor_release(softplus);
    gt_tensor_release(product);
    gt_tensor_release(each);
    return loss;
}

/* The number of logits with the sign of their target. */
static double accuracy(gt_tensor *logits, gt_tensor *targets)
{
    gt_tensor *predicted, *wanted, *right, *count;
    double value;
    must(gt_gt_scalar(logits, 0, &predicted));
    must(gt_gt_scalar(targets, 0, &wanted));
    must(gt_eq(predicted, wanted, &right));
    must(gt_sum(right, 0, false, &count));
    must(gt_item(count, &value)); /* waits */
    gt_tensor_release(predicted);
    gt_tensor_release(wanted);
    gt_tensor_release(right);
    gt_tensor_release(count);
    return value / POINTS;
}

/* parameter - rate * its gradient: a new tensor that requires a gradient */
static void descend(gt_tensor **parameter)
{
    gt_tensor *gradient, *step, *successor;
    bool recorded = gt_set_grad_enabled(false);
    must(gt_tensor_grad(*parameter, &gradient));
    must(gt_mul_scalar(gradient, RATE, &step));
    must(gt_sub(*parameter, step, &successor));
    gt_set_grad_enabled(recorded);
    must(gt_tensor_set_requires_grad(successor, true));
    replace(parameter, successor);
    gt_tensor_release(gradient);
    gt_tensor_release(step);
}

int main(int argc, char **argv)
{
    gt_client *client;
    must(argc > 1 ? gt_client_connect(argv[1], 0, &client) : gt_client_open_embedded(1, &client));
    gt_manual_seed(client, 1);

    gt_tensor *points, *targets;
    layer layers[LAYERS];
    make_points(client, &points, &targets);
    for (int k = 0; k < LAYERS; k++)
        layers[k] = make_layer(client, SIZES[k], SIZES[k + 1]);

    for (int step = 0; step <= STEPS; step++) {
        gt_tensor *logits = forward(layers, points), *loss = cross_entropy(logits, targets);
        if (step % REPORT_EVERY == 0) {
            double value;
            must(gt_item(loss, &value)); /* waits */
            printf("step %3d   loss %.4f   accuracy %5.1f%%\n", step, value, 100 * accuracy(logits, targets));
        }
        must(gt_backward(loss, NULL, false));
        for (int k = 0; k < LAYERS; k++) {
            descend(&layers[k].weight);
            descend(&layers[k].bias);
        }
        gt_tensor_release(logits);
        gt_tensor_release(loss);
    }
    printf("ran on %s\n", gt_client_description(client));

    gt_tensor_release(points);
    gt_tensor_release(targets);
    for (int k = 0; k < LAYERS; k++) {
        gt_tensor_release(layers[k].weight);
        gt_tensor_release(layers[k].bias);
    }
    gt_client_close(&client);
    return 0;
}
