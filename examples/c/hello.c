/*
 * hello.c: GT from C in one page: create, compute, fetch, release, and what an error looks like.
 *
 *     cc -Iinclude -Ibuild/include examples/c/hello.c -Lbuild -lgt -Wl,-rpath,$PWD/build -o hello && ./hello
 *
 * in the project's folder. If GT is installed, `cc hello.c -lgt` is enough.
 *
 * Read next: linear_regression.c, which trains a model.
 */
#include <gt.h>
#include <stdio.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, gt_error_text());
    return 1;
}

int main(void)
{
    gt_client *client;
    if (gt_client_open_embedded(1, &client))
        return failed("starting the embedded server");

    /* a (2,3), b (3): b is added to each row of a. Only gt_fetch waits. */
    gt_tensor *a, *b, *c;
    float sums[2][3];
    if (gt_from_data(client, GT_FLOAT32, 2, (int64_t[]){2, 3}, (float[]){1, 2, 3, 4, 5, 6}, &a) ||
        gt_from_data(client, GT_FLOAT32, 1, (int64_t[]){3}, (float[]){10, 20, 30}, &b) || gt_add(a, b, &c) ||
        gt_fetch(c, sums, sizeof sums))
        return failed("adding");
    for (int row = 0; row < 2; row++)
        printf("%5g %5g %5g\n", sums[row][0], sums[row][1], sums[row][2]);

    /* A wrong shape is an error at once. The client goes on. */
    gt_tensor *d = NULL;
    gt_err err = gt_matmul(a, c, &d);
    printf("a @ c: %s (%s)\n", gt_error_text(), gt_error_name(err));

    double total;
    if (gt_sum(c, 0, false, &d) || gt_item(d, &total))
        return failed("summing");
    printf("sum of a + b: %g, on %s\n", total, gt_client_description(client));

    gt_tensor_release(a);
    gt_tensor_release(b);
    gt_tensor_release(c);
    gt_tensor_release(d);
    gt_client_close(&client);
    return 0;
}
