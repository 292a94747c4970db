/*
 * kernel.c: kernels by key: in memory, else on disk, else compiled.
 *
 * Compiled kernels are kept in $XDG_CACHE_HOME/gt/cuda (~/.cache/gt/cuda), named by a hash of the source and the options,
 * the card's architecture and the compiler's version. Only a folder and files of this user that others cannot write to are
 * used, and a file ends with its size and a hash, so that a damaged one is compiled again. A kernel that does not compile is
 * logged once; its calls run on the host, or the steps of a chain one by one.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"
#include "engines/cuda/cuda.h"

enum {
    PLAIN_SHARED = 48 * 1024, /* dynamic shared memory that needs no leave */
    MOST_BINARY = 64 << 20,   /* bytes of a file that is taken for a kernel */
};

/* For the compiler, after the architecture: with products and sums as one operation, and without. */
enum { OPTIONS = 3 };
static const char *const contracting[OPTIONS] = {"--std=c++17", "--fmad=true",
                                                 "--device-as-default-execution-space"};
static const char *const exact[OPTIONS] = {"--std=c++17", "--fmad=false", "--device-as-default-execution-space"};

static const uint64_t hash_start = 0xcbf29ce484222325u;

typedef struct kernel {
    gt_cuda_key key; /* all zero: an empty place */
    CUmodule module;
    CUfunction function; /* NULL: it cannot be compiled */
    unsigned shared;     /* that it may have */
} kernel;

struct gt_cuda_kernels {
    kernel *table; /* open addressing */
    size_t capacity, count;
    const gt_cuda_compiler *compiler; /* NULL: not here */
    int compiler_version;
    char folder[PATH_MAX]; /* "": nothing is kept on disk */
};

/* ---- the table -------------------------------------------------------------------------------------------------- */

static size_t key_hash(const gt_cuda_key *key)
{
    uint64_t hash = 0;
    for (int k = 0; k < 4; k++)
        hash = (hash ^ key->word[k]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
    return (size_t)hash;
}

static bool key_equal(const gt_cuda_key *a, const gt_cuda_key *b)
{
    return a->word[0] == b->word[0] && a->word[1] == b->word[1] && a->word[2] == b->word[2] &&
           a->word[3] == b->word[3];
}

/* The place of a key, which is empty if the key is new. */
static kernel *find(const gt_cuda_kernels *kernels, const gt_cuda_key *key)
{
    size_t at = key_hash(key) & (kernels->capacity - 1);
    while (kernels->table[at].key.family && !key_equal(&kernels->table[at].key, key))
        at = (at + 1) & (kernels->capacity - 1);
    return &kernels->table[at];
}

static gt_err grow(gt_cuda_kernels *kernels)
{
    kernel *old = kernels->table;
    size_t count = kernels->capacity;
    size_t capacity = count ? 2 * count : 256;
    kernel *table = calloc(capacity, sizeof *table);
    if (!table)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    kernels->table = table;
    kernels->capacity = capacity;
    for (size_t k = 0; k < count; k++)
        if (old[k].key.family)
            *find(kernels, &old[k].key) = old[k];
    free(old);
    return GT_OK;
}

/* ---- on disk ------------------------------------------------------------------------------------------------------ */

/* Make a folder and those above it. */
static bool make_folders(char *path)
{
    for (char *c = path + 1; *c; c++)
        if (*c == '/') {
            *c = 0;
            mkdir(path, 0700);
            *c = '/';
        }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* What others can change must not run on the card. */
static bool is_ours(const struct stat *status)
{
    return status->st_uid == geteuid() && !(status->st_mode & (S_IWGRP | S_IWOTH));
}

static void choose_folder(gt_cuda_kernels *kernels)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = cache && *cache == '/' ? snprintf(kernels->folder, PATH_MAX, "%s/gt/cuda", cache)
                 : home && *home == '/' ? snprintf(kernels->folder, PATH_MAX, "%s/.cache/gt/cuda", home)
                                        : 0;
    struct stat status;
    if (length <= 0 || length >= PATH_MAX || !make_folders(kernels->folder) ||
        stat(kernels->folder, &status) != 0 || !S_ISDIR(status.st_mode) || !is_ours(&status))
        kernels->folder[0] = 0;
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t k = 0; k < size; k++)
        hash = (hash ^ ((const uint8_t *)bytes)[k]) * 0x100000001b3u;
    return hash;
}

/* Of a source and the compiler's options. */
static uint64_t hash_source(uint64_t hash, const char *source, const char *const *options)
{
    hash = hash_bytes(hash, source, strlen(source) + 1);
    for (size_t k = 0; k < OPTIONS; k++)
        hash = hash_bytes(hash, options[k], strlen(options[k]) + 1);
    return hash;
}

/* Where a kernel of this source is kept. False: nowhere. */
static bool file_path(const gt_cuda *cuda, const char *source, const char *const *options, char *path, size_t size)
{
    const gt_cuda_kernels *kernels = cuda->kernels;
    int length = snprintf(path, size, "%s/%016llx%016llx-sm%u-%d.cubin", kernels->folder,
                          (unsigned long long)hash_source(hash_start, source, options),
                          (unsigned long long)hash_source(0x9ae16a3b2f90404fu, source, options),
                          cuda->card.capability, kernels->compiler_version);
    return kernels->folder[0] && length > 0 && (size_t)length < size;
}

/* The end of a file: says whether the bytes before it are whole. */
typedef struct trailer {
    uint64_t size, hash;
} trailer;

static trailer trailer_of(const void *bytes, size_t size)
{
    return (trailer){.size = size, .hash = hash_bytes(hash_start, bytes, size)};
}

static bool is_whole(const char *bytes, size_t size)
{
    trailer expected = trailer_of(bytes, size - sizeof expected);
    return memcmp(bytes + size - sizeof expected, &expected, sizeof expected) == 0;
}

static void *read_file(const char *path)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char *bytes = NULL;
    if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) && is_ours(&status) &&
        status.st_size > (off_t)sizeof(trailer) && status.st_size <= MOST_BINARY &&
        (bytes = malloc((size_t)status.st_size)) &&
        (read(file, bytes, (size_t)status.st_size) != (ssize_t)status.st_size ||
         !is_whole(bytes, (size_t)status.st_size))) {
        free(bytes);
        bytes = NULL;
    }
    if (file >= 0)
        close(file);
    return bytes;
}

/* Under another name first, so that other processes see all of it or nothing. */
static void write_file(const char *path, const void *bytes, size_t size)
{
    char temporary[PATH_MAX];
    if (snprintf(temporary, sizeof temporary, "%s.%d.%p", path, (int)getpid(), bytes) >= (int)sizeof temporary)
        return;
    int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    trailer end = trailer_of(bytes, size);
    bool whole = write(file, bytes, size) == (ssize_t)size && write(file, &end, sizeof end) == (ssize_t)sizeof end;
    if (close(file) != 0 || !whole || rename(temporary, path) != 0)
        unlink(temporary);
}

/* ---- compiling ----------------------------------------------------------------------------------------------------- */

static const char *what_then(const kernel *k)
{
    return k->key.family == GT_CUDA_CHAIN ? "its steps run one by one" : "its calls run on the host";
}

static void log_failure(const gt_cuda_compiler *compiler, nvrtcProgram program, const char *then)
{
    size_t size = 0;
    char *text = compiler->log_size(program, &size) == 0 && size ? malloc(size) : NULL;
    if (text && compiler->log(program, text) == 0)
        gt__log_error("cuda: a kernel does not compile, %s:\n%.2000s", then, text);
    else
        gt__log_error("cuda: a kernel does not compile, %s", then);
    free(text);
}

/* The binary of a source, to be freed with free(); NULL if it cannot be made, which is logged: `then` says what happens. */
static char *compile(const gt_cuda *cuda, const char *source, const char *const *options, const char *then,
                     size_t *bytes)
{
    const gt_cuda_compiler *compiler = cuda->kernels->compiler;
    char architecture[40];
    const char *all[OPTIONS + 1] = {architecture};
    nvrtcProgram program;
    char *binary = NULL;
    snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%u", cuda->card.capability);
    memcpy(all + 1, options, OPTIONS * sizeof *options);
    if (compiler->program_new(&program, source, "gt.cu", 0, NULL, NULL) != 0) {
        gt__log_error("cuda: the compiler does not take a kernel, %s", then);
        return NULL;
    }
    if (compiler->program_compile(program, OPTIONS + 1, all) != 0)
        log_failure(compiler, program, then);
    else if (compiler->binary_size(program, bytes) != 0 || !(binary = malloc(*bytes)) ||
             compiler->binary(program, binary) != 0) {
        gt__log_error("cuda: there is no memory for a kernel, %s", then);
        free(binary);
        binary = NULL;
    }
    compiler->program_free(&program);
    return binary;
}

/* The driver's result. */
static int load_once(gt_cuda *cuda, const void *binary, const char *entry, kernel *k)
{
    const gt_cuda_driver *driver = cuda->driver;
    gt__cuda_comms_wait(cuda);
    int result = driver->module_load(&k->module, binary);
    if (result != CUDA_SUCCESS)
        return result;
    result = driver->module_function(&k->function, k->module, entry);
    if (result == CUDA_SUCCESS && driver->function_load)
        result = driver->function_load(k->function);
    if (result == CUDA_SUCCESS)
        return result;
    driver->module_unload(k->module);
    k->module = NULL;
    k->function = NULL;
    return result;
}

/* The heap may hold the memory that the module needs. */
static int load(gt_cuda *cuda, const void *binary, const char *entry, kernel *k)
{
    int result = load_once(cuda, binary, entry, k);
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return result;
    gt__cuda_heap_trim(&cuda->heap);
    return load_once(cuda, binary, entry, k);
}

/* The kernel of a new key. It stays without a function if there is no way to make it. GT_ERR_MEMORY: not now. */
static gt_err make(gt_cuda *cuda, const gt_cuda_launch *launch, kernel *k)
{
    char path[PATH_MAX], *source = NULL;
    const char *entry, *const *options = gt__cuda_contracts(&k->key) ? contracting : exact;
    size_t bytes = 0;
    if (!cuda->kernels->compiler)
        return GT_OK;
    GT_TRY(gt__cuda_source(launch, &source, &entry));
    bool kept = file_path(cuda, source, options, path, sizeof path);
    void *binary = kept ? read_file(path) : NULL;
    int result = binary ? load(cuda, binary, entry, k) : CUDA_SUCCESS;
    if (!binary || (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY)) {
        free(binary);
        binary = compile(cuda, source, options, what_then(k), &bytes);
        result = binary ? load(cuda, binary, entry, k) : CUDA_SUCCESS;
        if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY)
            gt__log_error("cuda: a kernel cannot be loaded, %s", what_then(k));
        if (k->function && kept)
            write_file(path, binary, bytes);
    }
    free(binary);
    free(source);
    return result == CUDA_ERROR_OUT_OF_MEMORY ? gt__cuda_fail(cuda, result, "a kernel") : GT_OK;
}

bool gt__cuda_binary(const gt_cuda *cuda, const char *source, const char *then, void **binary)
{
    char path[PATH_MAX];
    size_t bytes = 0;
    if (!cuda->kernels->compiler)
        return false;
    bool kept = file_path(cuda, source, exact, path, sizeof path);
    *binary = kept ? read_file(path) : NULL;
    if (!*binary && (*binary = compile(cuda, source, exact, then, &bytes)) && kept)
        write_file(path, *binary, bytes);
    return *binary != NULL;
}

gt_err gt__cuda_kernel(gt_cuda *cuda, const gt_cuda_launch *launch, CUfunction *function)
{
    gt_cuda_kernels *kernels = cuda->kernels;
    kernel *k = find(kernels, &launch->key);
    if (__builtin_expect(!k->key.family, 0)) {
        if (kernels->count >= kernels->capacity / 2) {
            GT_TRY(grow(kernels));
            k = find(kernels, &launch->key);
        }
        kernel fresh = {.key = launch->key, .shared = PLAIN_SHARED};
        GT_TRY(make(cuda, launch, &fresh));
        *k = fresh;
        kernels->count++;
    }
    if (!k->function)
        return gt__fail(GT_ERR_UNSUPPORTED, "there is no kernel for it");
    if (launch->shared > k->shared) {
        GT_CUDA_TRY(cuda, "shared memory",
                    cuda->driver->function_attribute(k->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                     (int)launch->shared));
        k->shared = launch->shared;
    }
    *function = k->function;
    return GT_OK;
}

/* ---- opening and closing --------------------------------------------------------------------------------------------- */

gt_err gt__cuda_kernels_open(gt_cuda *cuda)
{
    int major = 0, minor = 0;
    gt_cuda_kernels *kernels = cuda->kernels = calloc(1, sizeof *kernels);
    if (!kernels)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    GT_TRY(grow(kernels));
    if (gt__cuda_open_compiler(&kernels->compiler) != GT_OK) {
        kernels->compiler = NULL;
        gt__log_error("cuda: %s: operations run on the host, which is slow", gt_error_text());
        return GT_OK;
    }
    kernels->compiler->version(&major, &minor);
    kernels->compiler_version = 1000 * major + minor;
    choose_folder(kernels);
    return GT_OK;
}

void gt__cuda_kernels_close(gt_cuda *cuda)
{
    gt_cuda_kernels *kernels = cuda->kernels;
    for (size_t k = 0; kernels && k < kernels->capacity; k++)
        if (kernels->table[k].module)
            cuda->driver->module_unload(kernels->table[k].module);
    if (kernels)
        free(kernels->table);
    free(kernels);
}
