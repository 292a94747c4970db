/*
 * cudahost.c: an engine for tests, cudahost: calls become launches as on a card (engines/cuda/generate.h), and the kernels run
 * on the host (shim.h). tests/cuda/kernels.py uses it in two runs, with the folder in CUDAHOST_FOLDER:
 *
 *     without kernels.so there: calls run on the CPU engine, and `close` writes the source of all kernels that they
 *     would have launched to kernels.cc; then
 *     with kernels.so: kernels run.
 *
 * What the generator declines runs on the CPU engine, too; `close` writes how often, by op, to declined.txt, and the ops that it
 * always declines to never.txt.
 *
 * Chains of plans (engines/cuda/chain.h) are kernels as well. With CUDAHOST_CHAINS there are no others, and single calls run
 * on the CPU engine.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engines/cuda/chain.h"
#include "engines/cuda/generate_resident.h"
#include "engines/host_memory.h"
#include "engines/plugin.h"

typedef struct kernel {
    gt_cuda_key key;
    void (*entry)(const void *param);
} kernel;

typedef struct wanted {
    gt_cuda_key key;
    char *source; /* of a chain: its kernel is named after its key */
} wanted;

typedef struct cudahost {
    gt_engine base;
    gt_engine *fallback; /* the CPU's */
    const char *folder;
    void *library;       /* NULL: collecting */
    const kernel *ready; /* of the library, sorted by key */
    long ready_count;
    void (*run)(void (*entry)(const void *), const unsigned *grid, const unsigned *block, unsigned shared,
                const void *param, bool waits);
    bool only_chains;
    long declined[GT_OP_COUNT], launched, chains, chain_launches, rows;
} cudahost;

/* Kernels that were collected, sorted by key; of all engines of the process, one after the other. */
static struct {
    wanted *at;
    long count, room;
} all;

/* The launches of a call, one for each sequence of kernels that an op becomes: those of which a limit leaves some out could not run. */
typedef struct sequence {
    uint64_t kind, hash;
    gt_cuda_key key[GT_CUDA_LAUNCHES];
    unsigned count;
} sequence;

enum { MOST_SEQUENCES = 1024 };
static sequence sequences[MOST_SEQUENCES];
static unsigned sequence_count;

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(gt_cuda_key));
}

/* ---- collecting --------------------------------------------------------------------------------------------- */

static void kernel_name(const wanted *w, long number, char *name, size_t size)
{
    if (w->source)
        snprintf(name, size, "c%016llx", (unsigned long long)w->key.word[3]);
    else
        snprintf(name, size, "k%ld", number);
}

static wanted wanted_new(const gt_cuda_key *key, const gt_cuda_chain *chain)
{
    wanted new = {.key = *key};
    gt_cuda_text text = {0};
    char name[32];
    if (chain) {
        new.source = "";
        kernel_name(&new, 0, name, sizeof name);
        gt__cuda_write_chain(chain, name, &text);
        new.source = text.data;
    }
    return new;
}

static void want(const gt_cuda_key *key, const gt_cuda_chain *chain)
{
    long low = 0, high = all.count;
    while (low < high) {
        long middle = (low + high) / 2;
        int order = compare_keys(&all.at[middle].key, key);
        if (order == 0)
            return;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (all.count == all.room) {
        all.room = all.room ? 2 * all.room : 1024;
        all.at = realloc(all.at, (size_t)all.room * sizeof *all.at);
        if (!all.at)
            abort();
    }
    memmove(&all.at[low + 1], &all.at[low], (size_t)(all.count - low) * sizeof *all.at);
    all.at[low] = wanted_new(key, chain);
    all.count++;
}

static FILE *open_file(const cudahost *h, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", h->folder, name);
    FILE *file = fopen(path, "w");
    if (!file) {
        fprintf(stderr, "cannot write %s\n", path);
        abort();
    }
    return file;
}

static uint64_t hash_of(const gt_cuda_key *key)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t byte = 0; byte < sizeof *key; byte++)
        hash = (hash ^ ((const uint8_t *)key)[byte]) * 0x100000001b3u;
    return hash ^ hash >> 31;
}

static int compare_hashes(const void *a, const void *b)
{
    uint64_t x = hash_of(a), y = hash_of(b);
    int x_op = ((const gt_cuda_key *)a)->op, y_op = ((const gt_cuda_key *)b)->op;
    return x_op != y_op ? (x_op > y_op) - (x_op < y_op) : (x > y) - (x < y);
}

/* The part of a key that says which function of a template it is. */
static uint64_t function_of(const gt_cuda_key *key)
{
    if (key->family == GT_CUDA_ELEMENTWISE || key->family == GT_CUDA_SPECIAL)
        return key->family;
    unsigned by_vector = key->family == GT_CUDA_TRANSPOSE ? key->vector : 0;
    unsigned tensor_cores = key->family == GT_CUDA_ATTENTION && key->option[3];
    return key->family + 100u * key->variant + 100000u * by_vector + 10000000u * tensor_cores;
}

/* Of all calls of an op with the same functions, one: the one with the smallest hash. */
static void want_sequence(gt_opcode op, const gt_cuda_work *work)
{
    sequence new = {.kind = op, .count = work->count};
    unsigned k = 0;
    for (unsigned at = 0; at < work->count; at++) {
        new.key[at] = work->launch[at].key;
        new.kind = new.kind * 0x100000001b3u ^ function_of(&new.key[at]);
        new.hash = new.hash * 31 + hash_of(&new.key[at]);
    }
    while (k < sequence_count && sequences[k].kind != new.kind)
        k++;
    if (k == MOST_SEQUENCES)
        abort();
    if (k == sequence_count || new.hash < sequences[k].hash)
        sequences[k] = new;
    sequence_count += k == sequence_count;
}

static bool is_in_sequence(const gt_cuda_key *key)
{
    for (unsigned k = 0; k < sequence_count; k++)
        for (unsigned at = 0; at < sequences[k].count; at++)
            if (compare_keys(&sequences[k].key[at], key) == 0)
                return true;
    return false;
}

/* CUDAHOST_LIMIT: at most so many kernels of an op, chosen by their hashes, and those of one call for each sequence of functions. Calls
 * that need others run on the reference engine. */
static void choose_kernels(void)
{
    const char *text = getenv("CUDAHOST_LIMIT");
    long limit = text ? atol(text) : 0, of_op = 0, kept = 0;
    if (limit <= 0)
        return;
    qsort(all.at, (size_t)all.count, sizeof *all.at, compare_hashes);
    for (long k = 0; k < all.count; k++) {
        of_op = k > 0 && all.at[k].key.op == all.at[k - 1].key.op ? of_op + 1 : 0;
        if (of_op < limit || is_in_sequence(&all.at[k].key))
            all.at[kept++] = all.at[k];
    }
    all.count = kept;
    qsort(all.at, (size_t)all.count, sizeof *all.at, compare_keys);
}

/* All kernels in one translation unit: kernels.cu for cards, kernels.cc for the host. And the resident kernel, resident.cu. */
static void write_kernels(const cudahost *h)
{
    gt_cuda_text text = {0};
    for (gt_cuda_family family = GT_CUDA_NO_FAMILY; family < GT_CUDA_FAMILIES; family++)
        gt__cuda_add_plain(&text, gt__cuda_device_text(family));
    for (long k = 0; k < all.count; k++) {
        char name[32];
        const wanted *w = &all.at[k];
        kernel_name(w, k, name, sizeof name);
        gt__cuda_add(&text, "// kernel %llu %s\n", (unsigned long long)function_of(&w->key),
                     w->source ? "chain" : gt__op_table[w->key.op].name);
        if (w->source)
            gt__cuda_add_plain(&text, w->source);
        else if (gt__cuda_add_kernel(&w->key, NULL, name, &text) != GT_OK)
            abort();
    }
    size_t kernels = text.size;
    gt__cuda_add_plain(&text, "struct shim_kernel { uint64_t key[4]; void *entry; };\n"
                              "extern \"C\" const shim_kernel shim_kernels[] = {\n");
    for (long k = 0; k < all.count; k++) {
        const uint64_t *word = all.at[k].key.word;
        char name[32];
        kernel_name(&all.at[k], k, name, sizeof name);
        gt__cuda_add(&text, "{{%lluu, %lluu, %lluu, %lluu}, (void *)%s},\n", (unsigned long long)word[0],
                     (unsigned long long)word[1], (unsigned long long)word[2], (unsigned long long)word[3], name);
    }
    gt__cuda_add(&text, "};\nextern \"C\" const long shim_kernel_count = %ld;\n", all.count);
    FILE *source = open_file(h, "kernels.cu");
    fwrite(text.data, 1, kernels, source);
    fclose(source);
    source = open_file(h, "kernels.cc");
    fprintf(source, "#include \"shim.h\"\n%s", text.data);
    fclose(source);
    free(text.data);
    char *resident;
    const char *entry;
    if (gt__cuda_resident_source(&resident, &entry) != GT_OK)
        abort();
    source = open_file(h, "resident.cu");
    fputs(resident, source);
    fclose(source);
    free(resident);
}

/* ---- running ------------------------------------------------------------------------------------------------ */

static const kernel *find_kernel(const cudahost *h, const gt_cuda_launch *launch)
{
    return bsearch(&launch->key, h->ready, (size_t)h->ready_count, sizeof(kernel), compare_keys);
}

static void run_launch(cudahost *h, gt_cuda_launch *launch, char *scratch, gt_cuda_errors *errors)
{
    const kernel *found = find_kernel(h, launch);
    for (unsigned k = 0; k < launch->scratch_count; k++) {
        uint64_t offset;
        memcpy(&offset, launch->param + launch->scratch_at[k], sizeof offset);
        memcpy(launch->param + launch->scratch_at[k], &(char *){scratch + offset}, sizeof offset);
    }
    if (launch->errors_at != GT_CUDA_NOWHERE)
        memcpy(launch->param + launch->errors_at, &errors, sizeof errors);
    h->run(found->entry, launch->grid, launch->block, launch->shared, launch->param,
           launch->key.family != GT_CUDA_ELEMENTWISE && launch->key.family != GT_CUDA_SPECIAL &&
               (launch->key.family != GT_CUDA_CHAIN || launch->chain->reduces));
    h->launched++;
}

static gt_err run_work(cudahost *h, gt_cuda_work *work)
{
    gt_cuda_errors errors = {0};
    char *scratch = aligned_alloc(256, (work->scratch + 511) / 256 * 256);
    gt_err err = scratch ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
    if (scratch)
        memset(scratch, 0xa5, work->scratch);
    for (unsigned k = 0; err == GT_OK && k < work->count; k++)
        run_launch(h, &work->launch[k], scratch, &errors);
    free(scratch);
    return err ? err : gt__cuda_check(&errors);
}

/* Of the engine that runs; a card like the H200, with one processor so that small tensors fill it. */
static const gt_cuda_device device = {
    .processors = 1, .shared_limit = 227 * 1024, .capability = 90, .resident_limit = 2048};

static gt_err run_on_cpu(cudahost *h, const gt_call *call, gt_token *token)
{
    return h->fallback->ops->run(h->fallback, call, token);
}

static void want_launches(const gt_call *call)
{
    static gt_cuda_work work;
    work.more = 0;
    if (gt__cuda_lower(call, &device, &work) != GT_OK)
        return;
    for (unsigned k = 0; k < work.count; k++)
        want(&work.launch[k].key, NULL);
    want_sequence(call->op, &work);
}

/* The kernels that plans have for such a call, where it follows another: pair_form.c, pick_form.c and norm_form.c. They are compiled for
 * cards here; test_program runs them on the fake driver. */
static void want_planned(const gt_call *call)
{
    gt_view memory = {.data = (void *)256, .contiguous = true, .meta = {.dtype = GT_FLOAT32}}, nothing = {0};
    gt_view x, positions = {.contiguous = true};
    const gt_view *in[7] = {NULL, NULL, NULL, &memory, &memory, &nothing, &nothing};
    gt_call planned = *call;
    if (call->operands == 0)
        return;
    for (unsigned k = 0; k < call->operands && k < 3; k++)
        in[k] = call->in[k];
    planned.in = in;
    x = *in[0];
    if (call->op == GT_OP_attention || call->op == GT_OP_attention_backward) {
        planned.operands = call->op == GT_OP_attention ? 4 : 7;
        want_launches(&planned);
    } else if (call->op == GT_OP_layer_norm_backward && !call->literals) {
        in[3] = in[4] = call->in[2];
        planned.operands = 5;
        want_launches(&planned);
    } else if (call->op == GT_OP_log_softmax && x.contiguous && x.meta.rank == 2 && call->ins->imm[0].i == 1 &&
               x.meta.numel) {
        positions.meta = (gt_meta){.dtype = GT_INT64, .rank = 1, .numel = x.meta.shape[0]};
        positions.meta.shape[0] = x.meta.shape[0];
        positions.stride[0] = 1;
        planned.compute = GT_FLOAT32;
        planned.operands = 4;
        in[1] = &x;
        in[2] = &positions;
        want_launches(&planned);
        positions.data = memory.data;
        want_launches(&planned);
    }
}

static gt_err cudahost_run(gt_engine *engine, const gt_call *call, gt_token *token)
{
    cudahost *h = (cudahost *)engine;
    static gt_cuda_work work; /* one thread opens this engine */
    work.more = 0;
    if (h->only_chains)
        return run_on_cpu(h, call, token);
    do {
        gt_err err = gt__cuda_lower(call, &device, &work);
        if (err == GT_ERR_UNSUPPORTED) {
            h->declined[call->op]++;
            return run_on_cpu(h, call, token);
        }
        GT_TRY(err);
        for (unsigned k = 0; k < work.count; k++) {
            if (!h->library)
                want(&work.launch[k].key, NULL);
            else if (!find_kernel(h, &work.launch[k]))
                return run_on_cpu(h, call, token);
        }
        if (h->library)
            GT_TRY(run_work(h, &work));
        else
            want_sequence(call->op, &work);
    } while (work.more);
    if (!h->library)
        want_planned(call);
    return h->library ? GT_OK : run_on_cpu(h, call, token);
}

/* ---- programs ----------------------------------------------------------------------------------------------- */

struct gt_program {
    const gt_plan *plan;
    gt_cuda_casts casts;
    gt_cuda_part *parts;
    unsigned count;
};

static void cudahost_free_program(gt_engine *engine, gt_program *program)
{
    (void)engine;
    gt__cuda_parts_free(program->parts, program->count);
    gt__cuda_casts_free(&program->casts);
    free(program);
}

/* Run the launches of a call; or, while kernels are collected, want them. */
static gt_err run_launches(cudahost *h, const gt_call *call)
{
    static gt_cuda_work work;
    work.more = 0;
    do {
        GT_TRY(gt__cuda_lower(call, &device, &work));
        for (unsigned k = 0; k < work.count; k++) {
            if (!h->library)
                want(&work.launch[k].key, NULL);
            else if (!find_kernel(h, &work.launch[k]))
                return gt__fail(GT_ERR_INTERNAL, "a kernel was not collected");
        }
        if (h->library)
            GT_TRY(run_work(h, &work));
    } while (work.more);
    return GT_OK;
}

/* A step; `rows`: its part leaves steps out. */
static gt_err run_plan_step(cudahost *h, const gt_program *program, const gt_cuda_rows *rows, uint32_t step,
                            void *const *buffer)
{
    const gt_plan *plan = program->plan;
    gt_view in[GT_MAX_CAT], out;
    const gt_view *views[GT_MAX_CAT];
    gt_token token = 0;
    if (plan->steps[step].kind == GT_STEP_VIEW || (rows && gt__cuda_rows_skip(rows, step)) ||
        (h->library && program->casts.left_out[step]))
        return GT_OK;
    gt_call call = gt__plan_call(plan, &plan->steps[step], buffer, in, views, &out);
    if (h->library)
        gt__cuda_casts_change(&program->casts, plan, &plan->steps[step], buffer, in);
    if (rows && gt__cuda_rows_change(rows, plan, &plan->steps[step], buffer, in, views, &out, &call)) {
        h->rows++;
        return run_launches(h, &call);
    }
    return cudahost_run(&h->base, &call, &token);
}

/* The kernels of a part; addresses do not matter. */
static void want_part(cudahost *h, const gt_plan *plan, const gt_cuda_part *part)
{
    static gt_cuda_work work;
    void **buffer = malloc((plan->buffer_count + 1) * sizeof *buffer);
    if (!buffer)
        abort();
    for (uint32_t k = 0; k < plan->buffer_count; k++)
        buffer[k] = (void *)((uintptr_t)1 << 20);
    if (part->chain && gt__cuda_lower_chains(part, 1, buffer, &work) == GT_OK)
        for (unsigned k = 0; k < work.count; k++)
            want(&work.launch[k].key, work.launch[k].chain);
    for (uint32_t step = part->first; part->rows && step <= part->last; step++) {
        gt_view in[GT_MAX_CAT], out;
        const gt_view *views[GT_MAX_CAT];
        if (plan->steps[step].kind == GT_STEP_VIEW || gt__cuda_rows_skip(part->rows, step))
            continue;
        gt_call call = gt__plan_call(plan, &plan->steps[step], buffer, in, views, &out);
        if (gt__cuda_rows_change(part->rows, plan, &plan->steps[step], buffer, in, views, &out, &call))
            run_launches(h, &call);
    }
    free(buffer);
}

/* While kernels are collected, steps run one by one. */
static gt_err cudahost_compile(gt_engine *engine, gt_plan *plan, gt_program **out)
{
    cudahost *h = (cudahost *)engine;
    gt_program *program = *out = calloc(1, sizeof *program);
    if (!program)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    program->plan = plan;
    GT_TRY(gt__cuda_casts_find(plan, &program->casts));
    gt__cuda_casts_settle(plan, &program->casts);
    GT_TRY(gt__cuda_parts_new(plan, &program->casts, &program->parts, &program->count));
    for (uint32_t k = 0; k < plan->step_count && !h->library; k++)
        if (program->casts.left_out[k])
            plan->buffers[plan->values[plan->steps[k].result].buffer].role = GT_PLAN_INNER;
    for (unsigned k = 0; k < program->count; k++) {
        gt_cuda_part *part = &program->parts[k];
        if (h->library)
            gt__cuda_part_settle(plan, part);
        else
            want_part(h, plan, part);
    }
    return GT_OK;
}

static gt_err run_chains(cudahost *h, const gt_program *program, const gt_cuda_part *part, unsigned count,
                         void *const *buffer)
{
    static gt_cuda_work work;
    const gt_cuda_chain *chain = part->chain;
    for (unsigned k = 0; k < chain->before_count; k++)
        GT_TRY(run_plan_step(h, program, NULL, chain->before[k], buffer));
    GT_TRY(gt__cuda_lower_chains(part, count, buffer, &work));
    for (unsigned k = 0; k < work.count; k++)
        if (!find_kernel(h, &work.launch[k]))
            return gt__fail(GT_ERR_INTERNAL, "the kernel of a chain was not collected");
    GT_TRY(run_work(h, &work));
    h->chains += count;
    h->chain_launches++;
    for (unsigned k = 0; k < chain->after_count; k++)
        GT_TRY(run_plan_step(h, program, NULL, chain->after[k], buffer));
    return GT_OK;
}

static gt_err cudahost_run_program(gt_engine *engine, gt_program *program, void *const *buffer, bool timed,
                                   unsigned *step, gt_token *token)
{
    cudahost *h = (cudahost *)engine;
    (void)timed;
    (void)token;
    for (unsigned k = 0, count; k < program->count; k += count) {
        const gt_cuda_part *part = &program->parts[k];
        count = h->library ? gt__cuda_chain_batch(part, program->count - k, buffer) : 0;
        *step = part->first;
        if (count) {
            GT_TRY(run_chains(h, program, part, count, buffer));
            continue;
        }
        for (; *step <= part->last; ++*step)
            GT_TRY(run_plan_step(h, program, h->library ? part->rows : NULL, *step, buffer));
        count = 1;
    }
    return GT_OK;
}

/* ---- the engine --------------------------------------------------------------------------------------------- */

static gt_err load_kernels(cudahost *h)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/kernels.so", h->folder);
    FILE *there = fopen(path, "r");
    if (!there)
        return GT_OK;
    fclose(there);
    h->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!h->library)
        return gt__fail(GT_ERR_VALUE, "%s", dlerror());
    h->ready = dlsym(h->library, "shim_kernels");
    h->ready_count = *(const long *)dlsym(h->library, "shim_kernel_count");
    *(void **)&h->run = dlsym(h->library, "shim_run");
    return h->ready && h->run ? GT_OK : gt__fail(GT_ERR_VALUE, "%s has no kernels", path);
}

static gt_err cudahost_open(const gt_engine_options *options, gt_engine **engine);

/* Views, data from the client, and products, which are cuBLASLt's. */
static bool needs_no_kernel(gt_form form)
{
    return (form >= GT_FORM_PERMUTE && form <= GT_FORM_UNFOLD) || form == GT_FORM_UPLOAD ||
           form == GT_FORM_MATMUL || form == GT_FORM_LINEAR;
}

static void cudahost_close(gt_engine *engine)
{
    cudahost *h = (cudahost *)engine;
    if (!h->library) {
        choose_kernels();
        write_kernels(h);
    }
    FILE *declined = open_file(h, "declined.txt");
    for (gt_opcode op = 1; op < GT_OP_COUNT; op++)
        if (h->declined[op])
            fprintf(declined, "%s %ld\n", gt__op_table[op].name, h->declined[op]);
    fclose(declined);
    FILE *never = open_file(h, "never.txt");
    for (gt_opcode op = 1; op < GT_OP_FIRST_CONTROL; op++)
        if (!gt__cuda_covers(op) && !needs_no_kernel((gt_form)gt__op_table[op].form))
            fprintf(never, "%s\n", gt__op_table[op].name);
    fclose(never);
    printf("cudahost: %ld kernels, %ld launches; %ld chains in %ld of them, %ld steps on rows that take more in\n",
           h->library ? h->ready_count : all.count, h->launched, h->chains, h->chain_launches, h->rows);
    h->fallback->ops->close(h->fallback);
    free(h);
}

static uint64_t cudahost_memory_limit(gt_engine *engine, unsigned sharers)
{
    cudahost *h = (cudahost *)engine;
    return h->fallback->ops->memory_limit(h->fallback, sharers);
}

static gt_err cudahost_alloc(gt_engine *engine, size_t bytes, void **memory)
{
    cudahost *h = (cudahost *)engine;
    return h->fallback->ops->alloc(h->fallback, bytes, memory);
}

static void cudahost_release(gt_engine *engine, void *memory, size_t bytes)
{
    cudahost *h = (cudahost *)engine;
    h->fallback->ops->release(h->fallback, memory, bytes);
}

static gt_err cudahost_write(gt_engine *engine, void *to, const void *from, size_t bytes, bool timed,
                             gt_token *token)
{
    cudahost *h = (cudahost *)engine;
    return h->fallback->ops->write(h->fallback, to, from, bytes, timed, token);
}

static gt_err cudahost_read(gt_engine *engine, const void *from, void *to, size_t bytes, bool timed,
                            gt_token *token)
{
    cudahost *h = (cudahost *)engine;
    return h->fallback->ops->read(h->fallback, from, to, bytes, timed, token);
}

static const gt_engine_ops engine_ops = {
    .name = "cudahost",
    .host_memory = true,
    .open = cudahost_open,
    .close = cudahost_close,
    .memory_limit = cudahost_memory_limit,
    .alloc = cudahost_alloc,
    .release = cudahost_release,
    .write = cudahost_write,
    .read = cudahost_read,
    .run = cudahost_run,
    .compile = cudahost_compile,
    .run_program = cudahost_run_program,
    .free_program = cudahost_free_program,
};

static gt_err cudahost_open(const gt_engine_options *options, gt_engine **engine)
{
    const gt_engine_ops *ops;
    const char *folder = getenv("CUDAHOST_FOLDER");
    if (!folder)
        return gt__fail(GT_ERR_VALUE, "CUDAHOST_FOLDER is not set");
    cudahost *h = calloc(1, sizeof *h);
    if (!h)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    h->base.ops = &engine_ops;
    h->folder = folder;
    h->only_chains = getenv("CUDAHOST_CHAINS") != NULL;
    gt_err err = gt__engine_find("cpu", &ops);
    err = err ? err : ops->open(options, &h->fallback);
    err = err ? err : load_kernels(h);
    if (err)
        free(h);
    else
        *engine = &h->base;
    return err;
}

GT_ENGINE_PLUGIN(engine_ops);
