/*
 * test_detach.c: work that cannot be interrupted and is cancelled: the caller goes on while it runs (detach.h), and long
 * decompositions and transforms computed that way have the results of the ordinary way.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/fft.h"
#include "core/linalg.h"
#include "engines/cpu/cpu.h"
#include "engines/cpu/detach.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* Cancels after `looks` looks; negative: never. */
static const char *look(void *context)
{
    int *looks = context;
    if (*looks == 0)
        return "never mind";
    *looks -= *looks > 0;
    return NULL;
}

/* ---- jobs that end when the test says so --------------------------------------------------------------------- */

typedef struct job {
    sem_t go, dropped;
    atomic_bool has_run;
} job;

static void job_init(job *j)
{
    sem_init(&j->go, 0, 0);
    sem_init(&j->dropped, 0, 0);
    atomic_init(&j->has_run, false);
}

static void work(void *argument)
{
    job *j = argument;
    while (sem_wait(&j->go) != 0)
        ;
    atomic_store(&j->has_run, true);
}

static void drop(void *argument)
{
    sem_post(&((job *)argument)->dropped);
}

static bool is_dropped(job *j)
{
    return sem_trywait(&j->dropped) == 0;
}

static void test_done(const void *argument)
{
    int looks = -1;
    gt_cancel cancel = {.look = look, .context = &looks};
    gt_parallel *pool;
    job j;
    (void)argument;
    job_init(&j);
    sem_post(&j.go);
    if (!CHECK(gt__parallel_new(1, &cancel, &pool) == GT_OK))
        return;
    CHECK(gt__detach_run(pool, work, drop, &j));
    CHECK(atomic_load(&j.has_run) && !is_dropped(&j));
    CHECK_EQ(gt__detach_left(), 0);
    gt__parallel_free(pool);
}

/* Work that is cancelled already is not begun. */
static void test_cancelled_before(const void *argument)
{
    int looks = 0;
    gt_cancel cancel = {.look = look, .context = &looks};
    gt_parallel *pool;
    job j;
    (void)argument;
    job_init(&j);
    if (!CHECK(gt__parallel_new(1, &cancel, &pool) == GT_OK))
        return;
    CHECK(!gt__detach_run(pool, work, drop, &j));
    CHECK(is_dropped(&j) && gt__detach_left() == 0);
    gt__parallel_free(pool);
}

/* The caller is free while the jobs run. With too many of them it works itself. The pool may be gone when they end. */
static void test_left(const void *argument)
{
    int looks;
    gt_cancel cancel = {.look = look, .context = &looks};
    gt_parallel *pool;
    static job jobs[GT_DETACH_MOST], next;
    (void)argument;
    job_init(&next);
    if (!CHECK(gt__parallel_new(1, &cancel, &pool) == GT_OK))
        return;
    for (int k = 0; k < GT_DETACH_MOST; k++) {
        job_init(&jobs[k]);
        looks = 1; /* before it is begun */
        CHECK(!gt__detach_run(pool, work, drop, &jobs[k]));
        CHECK(!atomic_load(&jobs[k].has_run) && !is_dropped(&jobs[k]));
        CHECK_EQ(gt__detach_left(), k + 1);
        gt__parallel_resume(pool);
    }
    sem_post(&next.go);
    looks = -1;
    CHECK(gt__detach_run(pool, work, drop, &next));
    CHECK(atomic_load(&next.has_run) && !is_dropped(&next));
    CHECK_EQ(gt__detach_left(), GT_DETACH_MOST);
    gt__parallel_free(pool);
    for (int k = 0; k < GT_DETACH_MOST; k++) {
        sem_post(&jobs[k].go);
        while (sem_wait(&jobs[k].dropped) != 0)
            ;
        CHECK(atomic_load(&jobs[k].has_run));
    }
    while (gt__detach_left()) /* until the last thread has ended */
        sched_yield();
}

static int told[2]; /* a pipe */

static void drop_and_tell(void *argument)
{
    (void)argument;
    CHECK(write(told[1], "d", 1) == 1);
}

static void *post(void *argument)
{
    sem_post(&((job *)argument)->go);
    return NULL;
}

/* Leaves a job behind, which goes on while this process exits. */
static int leave_and_exit(void)
{
    static job j;
    int looks = 1, status;
    gt_cancel cancel = {.look = look, .context = &looks};
    gt_parallel *pool;
    pthread_t thread;
    job_init(&j);
    if (gt__parallel_new(1, &cancel, &pool) != GT_OK || gt__detach_run(pool, work, drop_and_tell, &j))
        return 2;
    gt__parallel_free(pool);
    pid_t child = fork();
    if (child == 0) {
        if (CHECK_SANITIZED) /* a search for leaks would not find the threads that the parent has */
            _exit(gt__detach_left());
        exit(gt__detach_left()); /* it would never end if it waited for the job */
    }
    if (waitpid(child, &status, 0) != child || status != 0 || gt__detach_left() != 1)
        _exit(3);
    return pthread_create(&thread, NULL, post, &j) || pthread_detach(thread) ? 4 : 0;
}

/* A process that exits waits for what it has left behind; a child of fork has nothing to wait for. */
static void test_exit(const void *argument)
{
    int status;
    char what = 0;
    (void)argument;
    if (!CHECK(pipe(told) == 0))
        return;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        exit(leave_and_exit());
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    close(told[1]);
    CHECK(read(told[0], &what, 1) == 1 && what == 'd');
    close(told[0]);
}

/* ---- the engine ---------------------------------------------------------------------------------------------- */

static gt_view view_new(gt_dtype dtype, unsigned rank, const int64_t *shape)
{
    gt_view view = {.contiguous = true};
    int64_t stride = 1;
    if (gt__meta_set(&view.meta, dtype, rank, shape) != GT_OK)
        abort();
    for (int axis = (int)rank - 1; axis >= 0; axis--) {
        view.stride[axis] = stride;
        stride *= shape[axis];
    }
    view.data = calloc((size_t)view.meta.numel + 1, gt__dtype_size(dtype));
    if (!view.data)
        abort();
    return view;
}

static gt_engine *open_engine(int threads, gt_cancel *cancel)
{
    gt_engine *engine;
    gt_engine_options options = {.threads = threads, .cancel = cancel};
    if (gt__engine_cpu.open(&options, &engine) != GT_OK)
        abort();
    return engine;
}

static gt_err run(gt_engine *engine, gt_opcode op, gt_imm imm, const gt_view *a, const gt_view *b,
                  const gt_view *out)
{
    gt_instruction ins = {.op = (uint16_t)op, .imm = {imm, {.f = 1}}};
    const gt_view *in[] = {a, b};
    gt_call call = {.op = op, .ins = &ins, .operands = b ? 2 : 1, .in = in, .out = out};
    return engine->ops->run(engine, &call, &(gt_token){0});
}

/* Random numbers, and a diagonal that keeps the matrices (n, n) well conditioned. */
static void fill(gt_view *a, int64_t n)
{
    uint64_t state = 1;
    double *data = a->data;
    for (int64_t k = 0; k < a->meta.numel; k++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data[k] = (double)(state >> 11) * 0x1p-53 - 0.5 + (k % (n * n) % (n + 1) == 0 ? 20 : 0);
    }
}

/* The two engines agree: one computes aside, the other has nothing that could be cancelled. */
static void check_same(gt_engine *aside, gt_engine *plain, gt_opcode op, gt_imm imm, const gt_view *a,
                       const gt_view *b, unsigned rank, const int64_t *shape)
{
    gt_view out[2] = {view_new(GT_FLOAT64, rank, shape), view_new(GT_FLOAT64, rank, shape)};
    CHECK_EQ(run(aside, op, imm, a, b, &out[0]), GT_OK);
    CHECK_EQ(run(plain, op, imm, a, b, &out[1]), GT_OK);
    double worst = 0, *x = out[0].data, *y = out[1].data;
    for (int64_t k = 0; k < out[0].meta.numel; k++)
        worst = fmax(worst, isnan(x[k]) ? HUGE_VAL : fabs(x[k] - y[k]));
    CHECK(worst < 1e-9);
    free(out[0].data);
    free(out[1].data);
}

/* Matrices just above the sizes from which they are computed aside, in each layout. */
static void test_matrices(const void *argument)
{
    enum { BATCH = 2, N = 1032, M = 516 };
    int looks = -1;
    gt_cancel cancel = {.look = look, .context = &looks};
    gt_engine *aside = open_engine(*(const int *)argument, &cancel), *plain = open_engine(2, NULL);
    gt_view a = view_new(GT_FLOAT64, 3, (int64_t[]){BATCH, N, N}), b = view_new(GT_FLOAT64, 2, (int64_t[]){N, 5});
    int64_t square[] = {BATCH, N, N}, system[] = {BATCH, N, 5}, factors[] = {BATCH, M + 1 + M + 7, M},
            vectors[] = {BATCH, 1 + M, M};
    fill(&a, N);
    fill(&b, N);
    gt_view turned = a, backward = a, same = a, small = a, systems = b;
    turned.contiguous = backward.contiguous = same.contiguous = small.contiguous = systems.contiguous = false;
    turned.stride[1] = 1;
    turned.stride[2] = N;
    backward.data = (double *)a.data + N - 1;
    backward.stride[2] = -1;
    same.stride[0] = 0;
    small.meta.shape[1] = M + 7;
    small.meta.shape[2] = M;
    small.meta.numel = BATCH * (M + 7) * M;
    systems.meta.rank = 3; /* the same one for all */
    memcpy(systems.meta.shape, system, sizeof system);
    systems.meta.numel = BATCH * N * 5;
    memcpy(systems.stride, (int64_t[]){0, 5, 1}, 3 * sizeof(int64_t));
    gt_imm none = {.i = 0};
    check_same(aside, plain, GT_OP_inverse, none, &turned, NULL, 3, square);
    check_same(aside, plain, GT_OP_inverse, none, &same, NULL, 3, square);
    check_same(aside, plain, GT_OP_solve, none, &backward, &systems, 3, system);
    check_same(aside, plain, GT_OP_svd, none, &small, NULL, 3, factors);
    small.meta.shape[1] = M;
    small.meta.numel = BATCH * M * M;
    check_same(aside, plain, GT_OP_eigh, none, &small, NULL, 3, vectors);

    memset((double *)a.data + N * N, 0, N * N * sizeof(double)); /* the second one is singular */
    gt_view out = view_new(GT_FLOAT64, 3, square);
    CHECK_EQ(run(aside, GT_OP_inverse, none, &a, NULL, &out), GT_ERR_LINALG);
    CHECK(strstr(gt_error_text(), "Batch element 1") != NULL);
    free(a.data), free(b.data), free(out.data);
    aside->ops->close(aside);
    plain->ops->close(plain);
}

/* The call ends with the reason, and the engine computes and closes, whatever was left behind. */
static void test_cancelled_matrices(const void *argument)
{
    enum { BATCH = 2, N = 700 };
    int looks = 1; /* the first one is before the first matrix */
    gt_cancel cancel = {.look = look, .context = &looks};
    gt_engine *engine = open_engine(*(const int *)argument, &cancel);
    gt_view a = view_new(GT_FLOAT64, 3, (int64_t[]){BATCH, N, N}),
            out = view_new(GT_FLOAT64, 3, (int64_t[]){BATCH, 2 * N + 1, N}), total = view_new(GT_FLOAT64, 0, NULL);
    fill(&a, N);
    CHECK_EQ(run(engine, GT_OP_svd, (gt_imm){.i = 0}, &a, NULL, &out), GT_ERR_CANCELLED);
    CHECK(!strcmp(gt_error_text(), "never mind"));
    free(a.data), free(out.data);
    gt_view few = view_new(GT_FLOAT64, 1, (int64_t[]){3});
    for (int k = 0; k < 3; k++)
        ((double *)few.data)[k] = 2;
    CHECK_EQ(run(engine, GT_OP_sum, (gt_imm){.i = 0}, &few, NULL, &total), GT_OK);
    CHECK(*(double *)total.data == 6);
    free(few.data), free(total.data);
    engine->ops->close(engine);
}

/* ---- transforms ---------------------------------------------------------------------------------------------- */

/* Complex lines: a prime, and one that the library transforms itself. */
static void test_lines(const void *argument)
{
    static const int64_t sizes[] = {131101, 17 * 10000};
    int looks = -1;
    gt_cancel cancel = {.look = look, .context = &looks};
    gt_engine *aside = open_engine(*(const int *)argument, &cancel), *plain = open_engine(2, NULL);
    gt_imm spec = {.u = gt__fft_pack((gt_fft_spec){.kind = GT_FFT_COMPLEX, .axes = 1u << 1})};
    for (int k = 0; k < COUNT(sizes); k++) {
        int64_t shape[] = {2, sizes[k]};
        gt_view a = view_new(GT_COMPLEX128, 2, shape),
                out[2] = {view_new(GT_COMPLEX128, 2, shape), view_new(GT_COMPLEX128, 2, shape)};
        for (int64_t at = 0; at < 2 * a.meta.numel; at++)
            ((double *)a.data)[at] = (double)(at * 7919 % 1009) / 1009 - 0.5;
        CHECK_EQ(run(aside, GT_OP_fft, spec, &a, NULL, &out[0]), GT_OK);
        CHECK_EQ(run(plain, GT_OP_fft, spec, &a, NULL, &out[1]), GT_OK);
        CHECK(!memcmp(out[0].data, out[1].data, gt__meta_bytes(&out[0].meta)));
        CHECK(*(double *)out[0].data != 0);
        free(a.data), free(out[0].data), free(out[1].data);
    }
    aside->ops->close(aside);
    plain->ops->close(plain);
}

/* During the plan, and during a line: its plan is kept from the call before. */
static void test_cancelled_lines(const void *argument)
{
    int64_t shape[] = {1, 262147};
    int looks = 1;
    gt_cancel cancel = {.look = look, .context = &looks};
    gt_engine *engine = open_engine(*(const int *)argument, &cancel);
    gt_imm spec = {.u = gt__fft_pack((gt_fft_spec){.kind = GT_FFT_COMPLEX, .axes = 1u << 1})};
    gt_view a = view_new(GT_COMPLEX128, 2, shape), out = view_new(GT_COMPLEX128, 2, shape);
    CHECK_EQ(run(engine, GT_OP_fft, spec, &a, NULL, &out), GT_ERR_CANCELLED);
    looks = -1;
    CHECK_EQ(run(engine, GT_OP_fft, spec, &a, NULL, &out), GT_OK);
    looks = 1;
    CHECK_EQ(run(engine, GT_OP_fft, spec, &a, NULL, &out), GT_ERR_CANCELLED);
    free(a.data), free(out.data);
    engine->ops->close(engine);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("done", test_done, NULL);
    check_run("exit", test_exit, NULL);
    check_run("cancelled before", test_cancelled_before, NULL);
    check_run("left behind", test_left, NULL);
    check_run("matrices, one thread", test_matrices, &(int){1});
    check_run("matrices, several threads", test_matrices, &(int){3});
    check_run("cancelled matrices, one thread", test_cancelled_matrices, &(int){1});
    check_run("cancelled matrices, several threads", test_cancelled_matrices, &(int){3});
    check_run("lines, one thread", test_lines, &(int){1});
    check_run("lines, several threads", test_lines, &(int){3});
    check_run("cancelled lines, one thread", test_cancelled_lines, &(int){1});
    check_run("cancelled lines, several threads", test_cancelled_lines, &(int){3});
    return check_end();
}
