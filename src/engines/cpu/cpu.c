/*
 * cpu.c: the CPU engine's vtable: memory, threads, and the dispatch of a call to the file that computes its form.
 *
 * Memory is ordinary host memory. Big blocks come straight from the system on huge pages, since fresh pages and
 * TLB misses cost more than most arithmetic; the worker's pool recycles them. Read cpu.h next, then elementwise.c.
 */
#include "engines/cpu/cpu.h"

#include <cblas.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engines/cpu/complex.h"
#include "engines/cpu/program.h"
#include "engines/host_memory.h"
#include "core/settings.h"

enum {
    ALIGNMENT = 64,
    HUGE_PAGE = 2 * 1024 * 1024,
    HUGE_SCRATCH = 4 * HUGE_PAGE, /* bytes from which scratch memory is on huge pages */
    MAX_THREADS = 1024,
};

/* Variables of other libraries: values that we cannot parse are ignored. */
static int threads_from(const char *variable)
{
    const char *text = getenv(variable);
    long threads = text ? strtol(text, NULL, 10) : 0;
    return threads < 0 ? 0 : threads > MAX_THREADS ? MAX_THREADS : (int)threads;
}

static int core_count(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int thread_count(const gt_engine_options *options)
{
    static const char *const variables[] = {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"};
    int threads = options ? options->threads : 0;
    if (threads <= 0)
        threads = (int)gt__setting(GT_SETTING_NUM_THREADS);
    for (size_t i = 0; threads <= 0 && i < sizeof variables / sizeof *variables; i++)
        threads = threads_from(variables[i]);
    threads = threads > 0 ? threads : core_count();
    return threads > MAX_THREADS ? MAX_THREADS : threads;
}

const gt_kernels *gt__kernels_choose(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return &gt__kernels_avx512;
    if (avx2)
        return &gt__kernels_avx2;
#endif
    return &gt__kernels_baseline;
}

static void cpu_close(gt_engine *engine)
{
    if (!engine)
        return;
    gt__parallel_free(gt__cpu(engine)->parallel);
    gt__cpu_plans_free(gt__cpu(engine)->plans);
    gt__scratch_free(gt__cpu(engine)->scratch);
    free(engine);
}

static gt_err cpu_open(const gt_engine_options *options, gt_engine **engine)
{
    gt_cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return gt__fail(GT_ERR_MEMORY, "no memory for an engine");
    cpu->engine.ops = &gt__engine_cpu;
    cpu->kernels = gt__kernels_choose();
    cpu->memory_limit = gt__memory_limit(1);
    openblas_set_num_threads(1); /* matmul.c splits products over our own threads */
    cpu->cancel = options ? options->cancel : NULL;
    gt_err err = gt__parallel_new(thread_count(options), cpu->cancel, &cpu->parallel);
    if (err) {
        cpu_close(&cpu->engine);
        return err;
    }
    *engine = &cpu->engine;
    return GT_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------ */

static uint64_t cpu_memory_limit(gt_engine *engine, unsigned sharers)
{
    return gt__cpu(engine)->memory_limit = gt__memory_limit(sharers);
}

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Whole huge pages, aligned to one: map one too many and give the ends back. */
static void *map_huge(size_t bytes)
{
    size_t wanted = round_up(bytes, HUGE_PAGE);
    char *mapped = mmap(NULL, wanted + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    size_t before = (size_t)(-(uintptr_t)mapped % HUGE_PAGE);
    if (before)
        munmap(mapped, before);
    munmap(mapped + before + wanted, HUGE_PAGE - before);
    madvise(mapped + before, wanted, MADV_HUGEPAGE); /* a hint: without it the pages are merely small */
    return mapped + before;
}

/* Large blocks, and many small ones, only if the host keeps enough. */
static gt_err check_host(gt_cpu *cpu, size_t bytes)
{
    if (bytes < GT_MEMORY_CHECK_BYTES && atomic_fetch_add(&cpu->taken, bytes) + bytes < GT_MEMORY_CHECK_BYTES)
        return GT_OK;
    gt_err err = gt__memory_check(bytes);
    atomic_store(&cpu->taken,
                 err == GT_OK ? 0 : GT_MEMORY_CHECK_BYTES); /* refused: the next one is checked, too */
    return err;
}

static gt_err cpu_alloc(gt_engine *engine, size_t bytes, void **memory)
{
    GT_TRY(check_host(gt__cpu(engine), bytes));
    *memory = bytes > SIZE_MAX / 2 ? NULL
              : bytes >= HUGE_PAGE ? map_huge(bytes)
                                   : aligned_alloc(ALIGNMENT, round_up(bytes ? bytes : 1, ALIGNMENT));
    return *memory ? GT_OK : gt__fail(GT_ERR_MEMORY, "the system has no memory for it");
}

static void cpu_release(gt_engine *engine, void *memory, size_t bytes)
{
    (void)engine;
    if (memory && bytes >= HUGE_PAGE)
        munmap(memory, round_up(bytes, HUGE_PAGE));
    else
        free(memory);
}

gt_err gt__cpu_scratch(const gt_cpu *cpu, size_t bytes, void **scratch)
{
    if (bytes >= GT_MEMORY_CHECK_BYTES && bytes <= cpu->memory_limit)
        GT_TRY(gt__memory_check(bytes));
    size_t alignment = bytes >= HUGE_SCRATCH ? HUGE_PAGE : ALIGNMENT;
    *scratch =
        bytes <= cpu->memory_limit ? aligned_alloc(alignment, round_up(bytes ? bytes : 1, alignment)) : NULL;
    if (*scratch && alignment == HUGE_PAGE)
        madvise(*scratch, round_up(bytes, HUGE_PAGE), MADV_HUGEPAGE); /* as map_huge */
    if (*scratch)
        return GT_OK;
    return gt__fail(GT_ERR_MEMORY, "the worker cannot allocate %zu bytes of scratch (the limit is %llu)", bytes,
                    (unsigned long long)cpu->memory_limit);
}

gt_err gt__cpu_cancelled(gt_cpu *cpu)
{
    return gt__fail(GT_ERR_CANCELLED, "%s", gt__parallel_resume(cpu->parallel));
}

typedef struct transfer {
    char *to;
    const char *from;
} transfer;

static void copy_bytes(void *context, int64_t begin, int64_t end)
{
    const transfer *t = context;
    memcpy(t->to + begin, t->from + begin, (size_t)(end - begin));
}

static gt_err transfer_bytes(gt_engine *engine, void *to, const void *from, size_t bytes)
{
    gt_cpu *cpu = gt__cpu(engine);
    transfer t = {.to = to, .from = from};
    gt__parallel_for(cpu->parallel, (int64_t)bytes, HUGE_PAGE, copy_bytes, &t);
    return gt__parallel_cancelled(cpu->parallel) ? gt__cpu_cancelled(cpu) : GT_OK;
}

static gt_err cpu_write(gt_engine *engine, void *to, const void *host, size_t bytes, bool timed, gt_token *token)
{
    (void)timed;
    (void)token;
    return transfer_bytes(engine, to, host, bytes);
}

static gt_err cpu_read(gt_engine *engine, const void *from, void *host, size_t bytes, bool timed, gt_token *token)
{
    (void)timed;
    (void)token;
    return transfer_bytes(engine, host, from, bytes);
}

/* ---- computing --------------------------------------------------------------------------------------------- */

typedef gt_err (*run_form)(gt_engine *engine, const gt_call *call);

static const run_form forms[] = {
    [GT_FORM_UNARY] = gt__cpu_elementwise,
    [GT_FORM_BINARY] = gt__cpu_elementwise,
    [GT_FORM_TERNARY] = gt__cpu_elementwise,
    [GT_FORM_REDUCE] = gt__cpu_reduce,
    [GT_FORM_ARGREDUCE] = gt__cpu_argreduce,
    [GT_FORM_SCAN] = gt__cpu_scan,
    [GT_FORM_SOFTMAX] = gt__cpu_softmax,
    [GT_FORM_SOFTMAX_BACKWARD] = gt__cpu_softmax,
    [GT_FORM_MATMUL] = gt__cpu_matmul,
    [GT_FORM_LINEAR] = gt__cpu_linear,
    [GT_FORM_ATTENTION] = gt__cpu_attention,
    [GT_FORM_SPARSE] = gt__cpu_sparse,
    [GT_FORM_FFT] = gt__cpu_fft,
    [GT_FORM_LAYER_NORM] = gt__cpu_layer_norm,
    [GT_FORM_MOMENTS] = gt__cpu_channels,
    [GT_FORM_BATCH_NORM] = gt__cpu_channels,
    [GT_FORM_CONV] = gt__cpu_conv,
    [GT_FORM_CONV_WEIGHT] = gt__cpu_conv_weight,
    [GT_FORM_MAX_POOL] = gt__cpu_max_pool,
    [GT_FORM_MAX_INDEX] = gt__cpu_max_pool,
    [GT_FORM_POOL] = gt__cpu_average,
    [GT_FORM_IM2COL] = gt__cpu_im2col,
    [GT_FORM_RESAMPLE] = gt__cpu_resample,
    [GT_FORM_MATRIX] = gt__cpu_linalg,
    [GT_FORM_SOLVE] = gt__cpu_linalg,
    [GT_FORM_RESHAPE] = gt__cpu_copy,
    [GT_FORM_CAST] = gt__cpu_copy,
    [GT_FORM_COPY] = gt__cpu_copy,
    [GT_FORM_CAT] = gt__cpu_cat,
    [GT_FORM_TRIANGLE] = gt__cpu_triangle,
    [GT_FORM_TAKE] = gt__cpu_take,
    [GT_FORM_GATHER] = gt__cpu_gather,
    [GT_FORM_SCATTER] = gt__cpu_scatter,
    [GT_FORM_ASSIGN] = gt__cpu_assign,
    [GT_FORM_WRAP_INDEX] = gt__cpu_wrap_index,
    [GT_FORM_MASK_INDEX] = gt__cpu_mask_index,
    [GT_FORM_ARGSORT] = gt__cpu_argsort,
    [GT_FORM_TOPK] = gt__cpu_topk,
    [GT_FORM_SAMPLE] = gt__cpu_sample,
    [GT_FORM_SEARCH] = gt__cpu_search,
    [GT_FORM_FULL] = gt__cpu_full,
    [GT_FORM_ARANGE] = gt__cpu_arange,
    [GT_FORM_EYE] = gt__cpu_eye,
    [GT_FORM_RANDOM] = gt__cpu_random,
    [GT_FORM_CONTROL] = NULL,
};

gt_err gt__cpu_form(gt_engine *engine, const gt_call *call)
{
    const gt_op_row *row = &gt__op_table[call->op];
    run_form run = forms[row->form];
    return run ? run(engine, call) : gt__fail(GT_ERR_UNSUPPORTED, "the cpu engine does not compute %s", row->name);
}

static gt_err cpu_run(gt_engine *engine, const gt_call *call, gt_token *token)
{
    (void)token;
    gt_host_call room;
    bool reads_literals = forms[gt__op_table[call->op].form] == gt__cpu_elementwise;
    gt_err err = __builtin_expect(gt__cpu_is_complex(call), 0)
                     ? gt__cpu_complex(engine, gt__call_on_host(call, &room))
                     : gt__cpu_form(engine, reads_literals ? call : gt__call_on_host(call, &room));
    return __builtin_expect(gt__parallel_cancelled(gt__cpu(engine)->parallel), 0)
               ? gt__cpu_cancelled(gt__cpu(engine))
               : err;
}

const gt_engine_ops gt__engine_cpu = {
    .name = "cpu",
    .host_memory = true,
    .open = cpu_open,
    .close = cpu_close,
    .memory_limit = cpu_memory_limit,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .zeroed_from = HUGE_PAGE,
    .write = cpu_write,
    .read = cpu_read,
    .run = cpu_run,
    .compile = gt__cpu_compile,
    .run_program = gt__cpu_run_program,
    .free_program = gt__cpu_free_program,
};
