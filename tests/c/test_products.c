/*
 * test_products.c: products of float32 matrices against sums in double, by every table of kernels that this machine can run: sides
 * beside and across the sizes of tiles and panels, transposed operands, gaps between rows, batches, several threads.
 *
 * Operands end where their memory ends: a loop that reads or writes beyond them crashes. test_cpu_kernels.c has odd layouts.
 */
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "engines/cpu/product.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static uint64_t random_state = 1;

static float draw(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(random_state >> 11) * 0x1p-52 - 1);
}

/* ---- memory that ends at a page which cannot be touched ------------------------------------------------------ */

typedef struct guarded {
    char *pages;
    size_t bytes;
    float *data;
} guarded;

static guarded guarded_new(int64_t count)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), used = (size_t)count * sizeof(float);
    guarded g = {.bytes = (used + page - 1) / page * page + page};
    g.pages = mmap(NULL, g.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.pages == MAP_FAILED || mprotect(g.pages + g.bytes - page, page, PROT_NONE))
        abort();
    g.data = (float *)(void *)(g.pages + g.bytes - page - used);
    for (int64_t i = 0; i < count; i++)
        g.data[i] = draw();
    return g;
}

static void guarded_free(guarded *g)
{
    munmap(g->pages, g->bytes);
}

/* ---- one product ---------------------------------------------------------------------------------------------- */

typedef struct sizes {
    int64_t batch, m, k, n;
    int64_t gap; /* behind the rows of both operands */
} sizes;

static gt_view view_of(guarded *g, int64_t batch, int64_t rows, int64_t columns, int64_t gap, bool transposed)
{
    gt_view view = {.data = g->data, .contiguous = gap == 0 && !transposed};
    int64_t line = (transposed ? rows : columns) + gap, lines = transposed ? columns : rows;
    int64_t shape[] = {batch, rows, columns};
    if (gt__meta_set(&view.meta, GT_FLOAT32, 3, shape) != GT_OK)
        abort();
    view.stride[0] = line * lines;
    view.stride[1] = transposed ? 1 : line;
    view.stride[2] = transposed ? line : 1;
    return view;
}

/* Elements up to the last one: there is no gap behind it. */
static int64_t extent(int64_t batch, int64_t rows, int64_t columns, int64_t gap, bool transposed)
{
    int64_t line = (transposed ? rows : columns) + gap, lines = transposed ? columns : rows;
    return batch * line * lines - gap;
}

static float at(const gt_view *x, int64_t batch, int64_t i, int64_t j)
{
    return ((const float *)x->data)[batch * x->stride[0] + i * x->stride[1] + j * x->stride[2]];
}

/* Every element of a small product; of a large one the last row and column, and some between. */
static double worst_error(const sizes *s, const gt_view *a, const gt_view *b, const gt_view *out)
{
    bool large = s->batch * s->m * s->n * s->k > 10000000;
    double worst = 0;
    for (int64_t q = 0; q < s->batch; q++)
        for (int64_t i = 0; i < s->m; i = large && i + 29 < s->m ? i + 29 : i + 1)
            for (int64_t j = 0; j < s->n; j = large && j + 17 < s->n ? j + 17 : j + 1) {
                double exact = 0;
                for (int64_t l = 0; l < s->k; l++)
                    exact += (double)at(a, q, i, l) * (double)at(b, q, l, j);
                double error = fabs((double)at(out, q, i, j) - exact);
                worst = error <= worst ? worst : error; /* not fmax: NaN is an error */
            }
    return worst;
}

static gt_err multiply(gt_cpu *cpu, const gt_view *a, const gt_view *b, const gt_view *out)
{
    gt_instruction ins = {.op = GT_OP_matmul};
    const gt_view *in[] = {a, b};
    return gt__cpu_matmul(
        &cpu->engine,
        &(gt_call){.op = GT_OP_matmul, .compute = GT_FLOAT32, .ins = &ins, .operands = 2, .in = in, .out = out});
}

/* The product by one thread is right, and by several it has the same bits. */
static void check_product(const gt_kernels *kernels, gt_parallel *const *pools, int count, const sizes *s,
                          bool crossed_a, bool crossed_b)
{
    guarded a_memory = guarded_new(extent(s->batch, s->m, s->k, s->gap, crossed_a));
    guarded b_memory = guarded_new(extent(s->batch, s->k, s->n, s->gap, crossed_b));
    guarded out_memory = guarded_new(s->batch * s->m * s->n), more_memory = guarded_new(s->batch * s->m * s->n);
    gt_view a = view_of(&a_memory, s->batch, s->m, s->k, s->gap, crossed_a);
    gt_view b = view_of(&b_memory, s->batch, s->k, s->n, s->gap, crossed_b);
    gt_view out = view_of(&out_memory, s->batch, s->m, s->n, 0, false), more = out;
    more.data = more_memory.data;
    gt_cpu cpu = {.kernels = kernels, .parallel = pools[0], .memory_limit = (uint64_t)1 << 40};
    CHECK(multiply(&cpu, &a, &b, &out) == GT_OK);
    bool right = CHECK(worst_error(s, &a, &b, &out) <= 2e-7 * (double)(s->k + 20));
    for (int i = 1; i < count; i++) {
        memset(more.data, 255, (size_t)(s->batch * s->m * s->n) * sizeof(float));
        cpu.parallel = pools[i];
        CHECK(multiply(&cpu, &a, &b, &more) == GT_OK);
        /* OpenBLAS may round differently if threads divide the product. */
        right &= gt__product_pays(&cpu, s->m, s->n)
                     ? CHECK(!memcmp(out.data, more.data, (size_t)(s->batch * s->m * s->n) * sizeof(float)))
                     : CHECK(worst_error(s, &a, &b, &more) <= 2e-7 * (double)(s->k + 20));
    }
    if (!right)
        fprintf(stderr, "  %s: (%lld, %lld, %lld) @ (%lld, %lld)%s%s\n", kernels->name, (long long)s->batch,
                (long long)s->m, (long long)s->k, (long long)s->k, (long long)s->n, crossed_a ? ", a'" : "",
                crossed_b ? ", b'" : "");
    guarded_free(&a_memory), guarded_free(&b_memory), guarded_free(&out_memory), guarded_free(&more_memory);
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static const sizes cases[] = {
    /* sides of tiles: 6, 8 and 14 rows, 8, 12, 16 and 32 columns */
    {.batch = 1, .m = 6, .k = 40, .n = 16},
    {.batch = 1, .m = 7, .k = 41, .n = 17},
    {.batch = 1, .m = 14, .k = 40, .n = 32},
    {.batch = 1, .m = 15, .k = 3, .n = 33},
    {.batch = 1, .m = 29, .k = 385, .n = 49},
    {.batch = 1, .m = 3, .k = 70, .n = 100, .gap = 3},
    {.batch = 1, .m = 100, .k = 70, .n = 3, .gap = 5},
    {.batch = 1, .m = 2, .k = 900, .n = 2},
    {.batch = 1, .m = 64, .k = 1, .n = 70},
    {.batch = 1, .m = 13, .k = 5, .n = 300, .gap = 1},
    /* more than one panel, for one thread */
    {.batch = 1, .m = 150, .k = 800, .n = 530},
    /* panels that threads share: one, and more than one along each side */
    {.batch = 1, .m = 300, .k = 400, .n = 500, .gap = 4},
    {.batch = 1, .m = 2900, .k = 390, .n = 260},
    {.batch = 1, .m = 260, .k = 390, .n = 2900},
    {.batch = 1, .m = 300, .k = 4000, .n = 310},
    /* batches: few large ones, some, many */
    {.batch = 2, .m = 270, .k = 300, .n = 280},
    {.batch = 7, .m = 90, .k = 130, .n = 75, .gap = 2},
    {.batch = 64, .m = 33, .k = 20, .n = 18},
};

/* Tables with loops for products of their own, or the one without. */
static int tables(const gt_kernels **out)
{
    int count = 0;
    out[count++] = gt__kernels_choose();
#if defined(__x86_64__)
    if (out[0] == &gt__kernels_avx512)
        out[count++] = &gt__kernels_avx2;
#endif
    return count;
}

static void test_products(const void *argument)
{
    static const int threads[] = {1, 4, 16};
    const gt_kernels *kernels[2];
    gt_parallel *pools[COUNT(threads)] = {NULL};
    (void)argument;
    for (int i = 0; i < COUNT(threads); i++)
        if (!CHECK(gt__parallel_new(threads[i], NULL, &pools[i]) == GT_OK))
            return;
    for (int t = tables(kernels) - 1; t >= 0; t--)
        for (int i = 0; i < COUNT(cases); i++)
            for (int crossed = 0; crossed < 4; crossed++)
                check_product(kernels[t], pools, COUNT(threads), &cases[i], crossed & 1, crossed & 2);
    for (int i = 0; i < COUNT(threads); i++)
        gt__parallel_free(pools[i]);
}

/* Both instruction sets add in the same order. */
static void test_same_bits(const void *argument)
{
    enum { SIDE = 75, TERMS = 900 };
    const gt_kernels *kernels[2];
    guarded a = guarded_new(SIDE * TERMS), b = guarded_new(SIDE * TERMS), out[2];
    int count = tables(kernels);
    (void)argument;
    for (int t = 0; t < count; t++) {
        gt_cpu cpu = {.kernels = kernels[t], .memory_limit = (uint64_t)1 << 40};
        gt_view left = view_of(&a, 1, SIDE, TERMS, 0, false), right = view_of(&b, 1, TERMS, SIDE, 0, true);
        out[t] = guarded_new(SIDE * SIDE);
        gt_view result = view_of(&out[t], 1, SIDE, SIDE, 0, false);
        if (CHECK(gt__parallel_new(1, NULL, &cpu.parallel) == GT_OK))
            CHECK(multiply(&cpu, &left, &right, &result) == GT_OK);
        gt__parallel_free(cpu.parallel);
    }
    CHECK(!memcmp(out[0].data, out[count - 1].data, SIDE * SIDE * sizeof(float)));
    for (int t = 0; t < count; t++)
        guarded_free(&out[t]);
    guarded_free(&a), guarded_free(&b);
}

/* What attention needs: a factor, and sums with what is there. The last column, which lies in a tile of another width, is the first again:
 * it has the same bits. */
static void test_scale_and_add(const void *argument)
{
    enum { M = 31, N = 45, K = 400 };
    const gt_kernels *kernels[2];
    (void)argument;
    for (int t = tables(kernels) - 1; t >= 0; t--) {
        gt_cpu cpu = {.kernels = kernels[t], .memory_limit = (uint64_t)1 << 40};
        float scale = kernels[t]->tiles ? 0.3f : 1;
        double worst = 0;
        if (!gt__product_pays(&cpu, M, N)) {
            printf("  skipped: no loops of our own for this processor\n");
            return;
        }
        guarded a = guarded_new(M * K), b = guarded_new(K * N), out = guarded_new(M * N);
        float before[M * N];
        for (int l = 0; l < K; l++)
            b.data[l * N + N - 1] = b.data[l * N];
        for (int i = 0; i < M; i++)
            out.data[i * N + N - 1] = out.data[i * N];
        memcpy(before, out.data, sizeof before);
        CHECK(gt__product(&cpu, &(gt_product){.m = M,
                                              .n = N,
                                              .k = K,
                                              .a = a.data,
                                              .b = b.data,
                                              .a_row = K,
                                              .a_column = 1,
                                              .b_row = N,
                                              .b_column = 1,
                                              .out = out.data,
                                              .out_row = N,
                                              .scale = scale,
                                              .adds = true}));
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                double exact = 0;
                for (int l = 0; l < K; l++)
                    exact += (double)a.data[i * K + l] * (double)b.data[l * N + j];
                exact = exact * (double)scale + (double)before[i * N + j];
                double error = fabs((double)out.data[i * N + j] - exact);
                worst = error <= worst ? worst : error;
            }
        CHECK(worst <= 1e-4);
        for (int i = 0; i < M; i++)
            CHECK(out.data[i * N + N - 1] == out.data[i * N]);
        guarded_free(&a), guarded_free(&b), guarded_free(&out);
    }
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    printf("kernels: %s\n", gt__kernels_choose()->name);
    check_run("products", test_products, NULL);
    check_run("the same bits by every table", test_same_bits, NULL);
    check_run("scale and add", test_scale_and_add, NULL);
    return check_end();
}
