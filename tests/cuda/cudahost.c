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
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engines/cuda/generate_family.h"
#include "engines/cuda/generate_resident.h"
#include "engines/host_memory.h"
#include "engines/plugin.h"

typedef struct kernel {
    gt_cuda_key key;
    void (*entry)(const void *param);
} kernel;

typedef struct cudahost {
    gt_engine base;
    gt_engine *fallback; /* the CPU's */
    const char *folder;
    void *library;       /* NULL: collecting */
    const kernel *ready; /* of the library, sorted by key */
    long ready_count;
    void (*run)(void (*entry)(const void *), const unsigned *grid, const unsigned *block, unsigned shared,
                const void *param, bool waits);
    gt_cuda_key *wanted; /* collected, sorted */
    long wanted_count, wanted_room;
    long declined[GT_OP_COUNT], launched;
} cudahost;

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(gt_cuda_key));
}

/* ---- collecting --------------------------------------------------------------------------------------------- */

static void want(cudahost *h, const gt_cuda_key *key)
{
    long low = 0, high = h->wanted_count;
    while (low < high) {
        long middle = (low + high) / 2;
        int order = compare_keys(&h->wanted[middle], key);
        if (order == 0)
            return;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (h->wanted_count == h->wanted_room) {
        h->wanted_room = h->wanted_room ? 2 * h->wanted_room : 1024;
        h->wanted = realloc(h->wanted, (size_t)h->wanted_room * sizeof *h->wanted);
        if (!h->wanted)
            abort();
    }
    memmove(&h->wanted[low + 1], &h->wanted[low], (size_t)(h->wanted_count - low) * sizeof *h->wanted);
    h->wanted[low] = *key;
    h->wanted_count++;
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

/* CUDAHOST_LIMIT: at most so many kernels of an op, chosen by their hashes. Calls that need others run on the reference
 * engine. */
static void choose_kernels(cudahost *h)
{
    const char *text = getenv("CUDAHOST_LIMIT");
    long limit = text ? atol(text) : 0, of_op = 0, kept = 0;
    if (limit <= 0)
        return;
    qsort(h->wanted, (size_t)h->wanted_count, sizeof *h->wanted, compare_hashes);
    for (long k = 0; k < h->wanted_count; k++) {
        of_op = k > 0 && h->wanted[k].op == h->wanted[k - 1].op ? of_op + 1 : 0;
        if (of_op < limit)
            h->wanted[kept++] = h->wanted[k];
    }
    h->wanted_count = kept;
    qsort(h->wanted, (size_t)h->wanted_count, sizeof *h->wanted, compare_keys);
}

/* All kernels in one translation unit: kernels.cu for cards, kernels.cc for the host. And the resident kernel, resident.cu. */
static void write_kernels(const cudahost *h)
{
    gt_cuda_text text = {0};
    for (gt_cuda_family family = GT_CUDA_NO_FAMILY; family < GT_CUDA_FAMILIES; family++)
        gt__cuda_add_plain(&text, gt__cuda_device_text(family));
    for (long k = 0; k < h->wanted_count; k++) {
        char name[32];
        snprintf(name, sizeof name, "k%ld", k);
        bool special =
            h->wanted[k].family == GT_CUDA_SPECIAL; /* they take long to compile, so they count as one op */
        gt__cuda_add(&text, "// kernel %u %s\n", h->wanted[k].family,
                     special ? "special" : gt__op_table[h->wanted[k].op].name);
        if (gt__cuda_add_kernel(&h->wanted[k], name, &text) != GT_OK)
            abort();
    }
    size_t kernels = text.size;
    gt__cuda_add_plain(&text, "struct shim_kernel { uint64_t key[4]; void *entry; };\n"
                              "extern \"C\" const shim_kernel shim_kernels[] = {\n");
    for (long k = 0; k < h->wanted_count; k++) {
        const uint64_t *word = h->wanted[k].word;
        gt__cuda_add(&text, "{{%lluu, %lluu, %lluu, %lluu}, (void *)k%ld},\n", (unsigned long long)word[0],
                     (unsigned long long)word[1], (unsigned long long)word[2], (unsigned long long)word[3], k);
    }
    gt__cuda_add(&text, "};\nextern \"C\" const long shim_kernel_count = %ld;\n", h->wanted_count);
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
           launch->key.family != GT_CUDA_ELEMENTWISE && launch->key.family != GT_CUDA_SPECIAL);
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

static gt_err cudahost_run(gt_engine *engine, const gt_call *call, gt_token *token)
{
    cudahost *h = (cudahost *)engine;
    gt_cuda_work work = {.more = 0};
    do {
        gt_err err = gt__cuda_lower(call, &device, &work);
        if (err == GT_ERR_UNSUPPORTED) {
            h->declined[call->op]++;
            return run_on_cpu(h, call, token);
        }
        GT_TRY(err);
        for (unsigned k = 0; k < work.count; k++) {
            if (!h->library)
                want(h, &work.launch[k].key);
            else if (!find_kernel(h, &work.launch[k]))
                return run_on_cpu(h, call, token);
        }
        if (h->library)
            GT_TRY(run_work(h, &work));
    } while (work.more);
    return h->library ? GT_OK : run_on_cpu(h, call, token);
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
    return (form >= GT_FORM_PERMUTE && form <= GT_FORM_UNFOLD) || form == GT_FORM_UPLOAD || form == GT_FORM_MATMUL;
}

static void cudahost_close(gt_engine *engine)
{
    cudahost *h = (cudahost *)engine;
    if (!h->library) {
        choose_kernels(h);
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
    printf("cudahost: %ld kernels, %ld launches\n", h->library ? h->ready_count : h->wanted_count, h->launched);
    h->fallback->ops->close(h->fallback);
    free(h->wanted);
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
