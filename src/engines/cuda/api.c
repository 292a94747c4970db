/* api.c: opens NVIDIA's libraries. See api.h. */
#include "engines/cuda/api.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct symbol {
    const char *name;
    size_t offset; /* of its pointer in the table */
    bool optional; /* NULL where the library has none */
} symbol;

#define ROW(type, member, symbol) {.name = #symbol, .offset = offsetof(type, member)},
#define DRIVER_ROW(member, symbol, arguments) ROW(gt_cuda_driver, member, symbol)
#define COMPILER_ROW(member, symbol, arguments) ROW(gt_cuda_compiler, member, symbol)
#define BLAS_ROW(member, symbol, arguments) ROW(gt_cuda_blas, member, symbol)
#define DNN_ROW(member, symbol, arguments) ROW(gt_cuda_dnn, member, symbol)
#define NCCL_ROW(member, symbol, arguments) ROW(gt_cuda_nccl, member, symbol)
static const symbol driver_symbols[] = {
    GT_CUDA_DRIVER_FUNCTIONS(DRIVER_ROW){
        .name = "cuFuncLoad", .offset = offsetof(gt_cuda_driver, function_load), .optional = true},
    {0}};
static const symbol compiler_symbols[] = {GT_CUDA_COMPILER_FUNCTIONS(COMPILER_ROW){0}};
static const symbol blas_symbols[] = {GT_CUDA_BLAS_FUNCTIONS(BLAS_ROW){0}};
static const symbol dnn_symbols[] = {GT_CUDA_DNN_FUNCTIONS(DNN_ROW){0}};
static const symbol nccl_symbols[] = {
    GT_CUDA_NCCL_FUNCTIONS(NCCL_ROW){.name = "ncclGetErrorString", .offset = offsetof(gt_cuda_nccl, text)}, {0}};

static const char *const driver_files[] = {"libcuda.so.1", NULL};
static const char *const compiler_files[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
static const char *const blas_files[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};
static const char *const dnn_files[] = {"libcudnn.so.9", NULL}; /* its version is not that of CUDA */
static const char *const nccl_files[] = {"libnccl.so.2", NULL};

/* A library, opened at most once. */
typedef struct library {
    const char *const *files;
    const symbol *symbols;
    const char *purpose;
    int version; /* of the driver, which does not run newer libraries; 0: of any version */
    bool tried;
    char why[512]; /* "": it is open */
} library;

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static void *open_in(const char *folder, size_t length, const char *below, const char *file)
{
    char path[PATH_MAX];
    int written = snprintf(path, sizeof path, "%.*s/%s%s", (int)length, folder, below, file);
    return written < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* By its name, as the system's linker finds it, then in the folders of GT_CUDA_PATH, then where toolkits are installed. */
static void *open_file(const char *file)
{
    const char *homes[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
    static const char *const folders[] = {"lib64/", "lib/", "targets/x86_64-linux/lib/",
                                          "targets/sbsa-linux/lib/"};
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    for (const char *at = getenv("GT_CUDA_PATH"); at && *at && !handle;) {
        size_t length = strcspn(at, ":");
        handle = length ? open_in(at, length, "", file) : NULL;
        at += length + (at[length] == ':');
    }
    for (size_t h = 0; !handle && h < sizeof homes / sizeof homes[0]; h++)
        for (size_t f = 0; homes[h] && *homes[h] && !handle && f < sizeof folders / sizeof folders[0]; f++)
            handle = open_in(homes[h], strlen(homes[h]), folders[f], file);
    return handle;
}

/* Is the file's version newer than the driver's? Driver 12.8 is 12080. */
static bool too_new(const library *l, const char *file)
{
    const char *major = strstr(file, ".so.");
    return l->version && major && 1000 * atoi(major + strlen(".so.")) > l->version;
}

static void open_library(library *l, void *table)
{
    void *handle = NULL;
    const char *const *file = l->files;
    while (*file && too_new(l, *file))
        file++;
    const char *name = *file;
    for (; *file && !handle; file++)
        if ((handle = open_file(*file)))
            name = *file;
    if (!handle) {
        snprintf(l->why, sizeof l->why, "%s is not found (%s)", name, l->purpose);
        return;
    }
    for (const symbol *s = l->symbols; s->name; s++) {
        void *address = dlsym(handle, s->name);
        if (!address && !s->optional) {
            snprintf(l->why, sizeof l->why, "%s has no %s: it is too old (%s)", name, s->name, l->purpose);
            return; /* it stays open: threads of its own may run */
        }
        *(void **)((char *)table + s->offset) = address;
    }
}

/* `driver`: NULL for the driver itself. */
static gt_err open_once(library *l, const gt_cuda_driver *driver, void *table)
{
    pthread_mutex_lock(&opening);
    if (!l->tried) {
        if (driver)
            driver->driver_version(&l->version);
        open_library(l, table);
    }
    l->tried = true;
    pthread_mutex_unlock(&opening);
    return *l->why ? gt__fail(GT_ERR_UNSUPPORTED, "%s", l->why) : GT_OK;
}

gt_err gt__cuda_open_driver(const gt_cuda_driver **driver)
{
    static library driver_library = {
        .files = driver_files, .symbols = driver_symbols, .purpose = "NVIDIA's driver"};
    static gt_cuda_driver table;
    GT_TRY(open_once(&driver_library, NULL, &table));
    *driver = &table;
    return GT_OK;
}

gt_err gt__cuda_open_compiler(const gt_cuda_compiler **compiler)
{
    static library compiler_library = {
        .files = compiler_files, .symbols = compiler_symbols, .purpose = "the CUDA toolkit's run-time compiler"};
    static gt_cuda_compiler table;
    const gt_cuda_driver *driver;
    GT_TRY(gt__cuda_open_driver(&driver));
    GT_TRY(open_once(&compiler_library, driver, &table));
    *compiler = &table;
    return GT_OK;
}

gt_err gt__cuda_open_blas(const gt_cuda_blas **blas)
{
    static library blas_library = {
        .files = blas_files, .symbols = blas_symbols, .purpose = "the CUDA toolkit's matrix products"};
    static gt_cuda_blas table;
    const gt_cuda_driver *driver;
    GT_TRY(gt__cuda_open_driver(&driver));
    GT_TRY(open_once(&blas_library, driver, &table));
    *blas = &table;
    return GT_OK;
}

gt_err gt__cuda_open_dnn(const gt_cuda_dnn **dnn)
{
    static library dnn_library = {
        .files = dnn_files, .symbols = dnn_symbols, .purpose = "NVIDIA's convolutions, a library beside CUDA"};
    static gt_cuda_dnn table;
    GT_TRY(open_once(&dnn_library, NULL, &table));
    *dnn = &table;
    return GT_OK;
}

gt_err gt__cuda_open_nccl(const gt_cuda_nccl **nccl)
{
    static library nccl_library = {
        .files = nccl_files, .symbols = nccl_symbols, .purpose = "NVIDIA's collectives, a library beside CUDA"};
    static gt_cuda_nccl table;
    GT_TRY(open_once(&nccl_library, NULL, &table));
    *nccl = &table;
    return GT_OK;
}

char *gt__cuda_result_text(const gt_cuda_driver *driver, int result, char *text, size_t size)
{
    const char *name = NULL, *words = NULL;
    driver->error_name(result, &name);
    driver->error_string(result, &words);
    if (name)
        snprintf(text, size, "%s (%s)", name, words ? words : "unknown");
    else
        snprintf(text, size, "CUDA error %d", result);
    return text;
}
