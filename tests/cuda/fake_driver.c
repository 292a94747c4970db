/*
 * fake_driver.c: a libcuda.so.1 for tests without a card. It executes what the CUDA engine queues on the host, and is strict
 * about what a card would forgive now and then:
 *
 *   - the addresses it hands out fault when the host touches them;
 *   - a thread of its own executes the stream, later and with pauses, so that a missing wait shows;
 *   - copies must lie within one allocation, and their host side in pinned memory, as asynchronous copies need it;
 *   - memory is filled with 0xdb when it is allocated and when it is freed; pinned memory that was freed faults.
 *
 * A violation prints a line and aborts. Variables: FAKE_CUDA_MEMORY (bytes of the card), FAKE_CUDA_DELAY (the longest
 * pause, in microseconds), FAKE_CUDA_BREAK (the number of the stream operation from which the card is broken),
 * FAKE_CUDA_PROCESSORS (multiprocessors), FAKE_CUDA_CARDS (how many cards there are; they share their memory), FAKE_CUDA_REFUSE (n: every
 * n-th download is refused), FAKE_CUDA_REFUSE_EVENTS (n: every n-th record of an event), FAKE_CUDA_REFUSE_CALL (n: the n-th call of
 * a function that can fail is refused, with the result FAKE_CUDA_REFUSE_RESULT, usually 2: out of memory), FAKE_CUDA_NONE
 * (there is no card), FAKE_CUDA_KERNELS (fake_compiler.c: kernels run, and so the host may touch the card's memory), FAKE_CUDA_EMPTY
 * (kernels and products do nothing: to measure the host).
 */
#include "fake_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "engines/cuda/api.h"
#include "engines/cuda/generate.h"

#define API __attribute__((visibility("default")))
#define PROTOTYPE(member, symbol, arguments) API int symbol arguments;
GT_CUDA_DRIVER_FUNCTIONS(PROTOTYPE)

enum { RANGE_BITS = 33, POISON = 0xdb, UNIT = 2 << 20, MOST_BLOCKS = 4096 };

typedef struct block {
    uint64_t start, bytes; /* 0 bytes: unused */
} block;

typedef struct operation {
    struct operation *next;
    const struct operation *origin; /* in an executable graph: of the graph */
    fake_work work;
    max_align_t argument[];
} operation;

struct CUstream_st {
    operation *first, **end;
    operation *current; /* that is executed */
    bool executing, closing, capturing;
    CUgraph graph;
    pthread_t thread;
};

struct CUgraph_st {
    operation *first, **end;
    CUgraphNode last;
};

struct CUgraphExec_st {
    struct CUgraph_st graph;
};

struct CUevent_st {
    uint64_t ns;
    bool pending;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all that follows */
static pthread_cond_t work_comes = PTHREAD_COND_INITIALIZER, work_done = PTHREAD_COND_INITIALIZER;
static char *near_range, *far_range;
static block device_blocks[MOST_BLOCKS], pinned_blocks[MOST_BLOCKS];
static uint64_t used_bytes, operations;
static bool broken;
static pid_t started_in;
static CUstream streams[64];

/* Calls of the driver that steady state might make. */
static atomic_uint_fast64_t calls;

API uint64_t fake_driver_calls(void)
{
    return atomic_load(&calls);
}

static void stop(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "fake_driver: ");
    vfprintf(stderr, format, list);
    fprintf(stderr, "\n");
    va_end(list);
    abort();
}

static uint64_t variable(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : fallback;
}

static atomic_int_fast64_t until_refused; /* calls that may be refused; 0: none is */
static atomic_int refusal;

API void fake_driver_refuse(int64_t call, int result)
{
    atomic_store(&refusal, result);
    atomic_store(&until_refused, call);
}

/* The result of a call that is refused, else 0. */
static int refused(void)
{
    return atomic_load(&until_refused) > 0 && atomic_fetch_sub(&until_refused, 1) == 1 ? atomic_load(&refusal) : 0;
}

#define MAY_BE_REFUSED()                                                                                          \
    do {                                                                                                          \
        int result_ = refused();                                                                                  \
        if (result_)                                                                                              \
            return result_;                                                                                       \
    } while (0)

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

static bool inside(const block *blocks, int count, uint64_t address, uint64_t bytes)
{
    for (int k = 0; k < count; k++)
        if (blocks[k].bytes && address >= blocks[k].start && address - blocks[k].start <= blocks[k].bytes &&
            bytes <= blocks[k].bytes - (address - blocks[k].start))
            return true;
    return false;
}

static block *free_block(block *blocks)
{
    for (int k = 0; k < MOST_BLOCKS; k++)
        if (!blocks[k].bytes)
            return &blocks[k];
    stop("too many allocations");
    return NULL;
}

API void *fake_address(CUdeviceptr address, size_t bytes)
{
    pthread_mutex_lock(&mutex);
    bool device = inside(device_blocks, MOST_BLOCKS, address, bytes),
         host = inside(pinned_blocks, MOST_BLOCKS, address, bytes);
    pthread_mutex_unlock(&mutex);
    if (host)
        return (void *)(uintptr_t)address; /* pinned memory that the card may use */
    if (!device)
        stop("%zu bytes at %#llx are not memory of the card", bytes, (unsigned long long)address);
    return near_range + (address - (uintptr_t)far_range);
}

API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    *total = variable("FAKE_CUDA_MEMORY", (uint64_t)4 << 30);
    *free_bytes = *total - used_bytes;
    return 0;
}

API int cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    MAY_BE_REFUSED();
    calls++;
    uint64_t at = 0, rounded = (bytes + UNIT - 1) / UNIT * UNIT;
    pthread_mutex_lock(&mutex);
    for (bool moved = true; moved;) { /* the first gap */
        moved = false;
        for (int k = 0; k < MOST_BLOCKS; k++) {
            uint64_t start = device_blocks[k].start - (uintptr_t)far_range;
            uint64_t size = (device_blocks[k].bytes + UNIT - 1) / UNIT * UNIT;
            if (device_blocks[k].bytes && at < start + size && start < at + rounded) {
                at = start + size;
                moved = true;
            }
        }
    }
    bool dead = broken;
    bool fits = used_bytes + bytes <= variable("FAKE_CUDA_MEMORY", (uint64_t)4 << 30) &&
                at + rounded <= (uint64_t)1 << RANGE_BITS;
    if (fits && !dead) {
        *free_block(device_blocks) = (block){.start = (uintptr_t)far_range + at, .bytes = bytes};
        used_bytes += bytes;
        memset(near_range + at, POISON, bytes);
    }
    pthread_mutex_unlock(&mutex);
    *address = (uintptr_t)far_range + at;
    return dead ? 700 : fits ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

static void wait_for_everything(void);

API int cuMemFree_v2(CUdeviceptr address)
{
    wait_for_everything();
    pthread_mutex_lock(&mutex);
    int k = 0;
    while (k < MOST_BLOCKS && !(device_blocks[k].bytes && device_blocks[k].start == address))
        k++;
    if (k == MOST_BLOCKS)
        stop("cuMemFree of %#llx, which was not allocated", (unsigned long long)address);
    memset(near_range + (address - (uintptr_t)far_range), POISON, device_blocks[k].bytes);
    used_bytes -= device_blocks[k].bytes;
    device_blocks[k].bytes = 0;
    pthread_mutex_unlock(&mutex);
    return 0;
}

/* There are no handles, as on some systems: the fake card's memory is that of one process. */
API int cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    (void)handle;
    (void)address;
    return 801;
}

API int cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    (void)address;
    (void)handle;
    stop("cuIpcOpenMemHandle with flags %u: there are no handles", flags);
    return 801;
}

API int cuIpcCloseMemHandle(CUdeviceptr address)
{
    stop("cuIpcCloseMemHandle of %#llx: there are no handles", (unsigned long long)address);
    return 801;
}

API int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    MAY_BE_REFUSED();
    (void)flags;
    *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*memory == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(*memory, POISON, bytes);
    pthread_mutex_lock(&mutex);
    *free_block(pinned_blocks) = (block){.start = (uintptr_t)*memory, .bytes = bytes};
    pthread_mutex_unlock(&mutex);
    return 0;
}

API int cuMemFreeHost(void *memory)
{
    wait_for_everything();
    pthread_mutex_lock(&mutex);
    int k = 0;
    while (k < MOST_BLOCKS && !(pinned_blocks[k].bytes && pinned_blocks[k].start == (uintptr_t)memory))
        k++;
    if (k == MOST_BLOCKS)
        stop("cuMemFreeHost of %p, which was not allocated", memory);
    munmap(memory, pinned_blocks[k].bytes);
    pinned_blocks[k].bytes = 0;
    pthread_mutex_unlock(&mutex);
    return 0;
}

API int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    MAY_BE_REFUSED();
    (void)flags;
    pthread_mutex_lock(&mutex);
    bool there = inside(pinned_blocks, MOST_BLOCKS, (uintptr_t)memory, 1);
    if (!there)
        *free_block(pinned_blocks) = (block){.start = (uintptr_t)memory, .bytes = bytes};
    pthread_mutex_unlock(&mutex);
    return there ? 712 : 0;
}

API int cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *memory, unsigned flags)
{
    MAY_BE_REFUSED();
    (void)flags;
    *address = (uintptr_t)memory;
    return 0;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static void pause_now_and_then(uint64_t *random, uint64_t longest_us)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    if (longest_us && *random >> 60 == 0)
        nanosleep(
            &(struct timespec){.tv_nsec = (long)(*random >> 20 & 0xffff) * (long)longest_us * 1000 / 0x10000},
            NULL);
    else if (*random >> 60 < 4)
        sched_yield();
}

static void *execute_stream(void *argument)
{
    CUstream stream = argument;
    uint64_t random = 88172645463325252u, delay = variable("FAKE_CUDA_DELAY", 20);
    uint64_t last = variable("FAKE_CUDA_BREAK", UINT64_MAX);
    pthread_mutex_lock(&mutex);
    for (;;) {
        while (!stream->first && !stream->closing)
            pthread_cond_wait(&work_comes, &mutex);
        operation *op = stream->first;
        if (!op)
            break;
        stream->first = op->next;
        if (!stream->first)
            stream->end = &stream->first;
        stream->executing = true;
        op->next = NULL;
        stream->current = op;
        broken = broken || ++operations >= last;
        bool dead = broken;
        pthread_mutex_unlock(&mutex);
        pause_now_and_then(&random, delay);
        if (!dead)
            op->work(op->argument);
        pthread_mutex_lock(&mutex);
        free(op);
        stream->current = NULL;
        stream->executing = false;
        pthread_cond_broadcast(&work_done);
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}

API int fake_enqueue(CUstream stream, fake_work work, const void *argument, size_t bytes)
{
    calls++;
    operation *op = calloc(1, sizeof *op + FAKE_ARGUMENT); /* graphs copy all of it */
    op->next = NULL;
    op->work = work;
    memcpy(op->argument, argument, bytes);
    pthread_mutex_lock(&mutex);
    bool dead = broken;
    if (stream->capturing) {
        *stream->graph->end = op;
        stream->graph->end = &op->next;
        stream->graph->last = (CUgraphNode)op;
    } else {
        *stream->end = op;
        stream->end = &op->next;
        pthread_cond_broadcast(&work_comes);
    }
    pthread_mutex_unlock(&mutex);
    return dead ? 700 : 0;
}

static void wait_for_stream(CUstream stream)
{
    while (stream->first || stream->executing)
        pthread_cond_wait(&work_done, &mutex);
}

static void wait_for_everything(void)
{
    pthread_mutex_lock(&mutex);
    for (int k = 0; k < 64; k++)
        if (streams[k])
            wait_for_stream(streams[k]);
    pthread_mutex_unlock(&mutex);
}

API int cuStreamCreate(CUstream *stream, unsigned flags)
{
    MAY_BE_REFUSED();
    (void)flags;
    CUstream made = calloc(1, sizeof *made);
    made->end = &made->first;
    pthread_mutex_lock(&mutex);
    int k = 0;
    while (k < 63 && streams[k])
        k++;
    streams[k] = made;
    pthread_mutex_unlock(&mutex);
    pthread_create(&made->thread, NULL, execute_stream, made);
    *stream = made;
    return 0;
}

API int cuStreamDestroy_v2(CUstream stream)
{
    pthread_mutex_lock(&mutex);
    wait_for_stream(stream);
    stream->closing = true;
    for (int k = 0; k < 64; k++)
        if (streams[k] == stream)
            streams[k] = NULL;
    pthread_cond_broadcast(&work_comes);
    pthread_mutex_unlock(&mutex);
    pthread_join(stream->thread, NULL);
    free(stream);
    return 0;
}

API int cuStreamQuery(CUstream stream)
{
    pthread_mutex_lock(&mutex);
    if (stream->capturing)
        stop("cuStreamQuery of a stream that is captured");
    int result = broken ? 700 : stream->first || stream->executing ? CUDA_ERROR_NOT_READY : 0;
    pthread_mutex_unlock(&mutex);
    return result;
}

API int cuStreamSynchronize(CUstream stream)
{
    pthread_mutex_lock(&mutex);
    wait_for_stream(stream);
    int result = broken ? 700 : 0;
    pthread_mutex_unlock(&mutex);
    return result;
}

typedef struct copy {
    CUdeviceptr device;
    void *host;
    size_t bytes;
    int byte;
} copy;

static void check_pinned(const void *host, size_t bytes)
{
    pthread_mutex_lock(&mutex);
    if (!inside(pinned_blocks, MOST_BLOCKS, (uintptr_t)host, bytes))
        stop("an asynchronous copy with %p, which is not pinned", host);
    pthread_mutex_unlock(&mutex);
}

static void copy_in(void *argument)
{
    const copy *c = argument;
    memcpy(fake_address(c->device, c->bytes), c->host, c->bytes);
}

static void copy_out(void *argument)
{
    const copy *c = argument;
    memcpy(c->host, fake_address(c->device, c->bytes), c->bytes);
}

static void set_bytes(void *argument)
{
    const copy *c = argument;
    memset(fake_address(c->device, c->bytes), c->byte, c->bytes);
}

/* Does one of these copies use a block of pinned memory? */
static bool uses(const operation *op, const block *pinned)
{
    for (; op; op = op->next) {
        const copy *c = (const copy *)op->argument;
        if ((op->work == copy_in || op->work == copy_out) && inside(pinned, 1, (uintptr_t)c->host, c->bytes))
            return true;
    }
    return false;
}

API int cuMemHostUnregister(void *memory)
{
    pthread_mutex_lock(&mutex);
    int k = 0;
    while (k < MOST_BLOCKS && !(pinned_blocks[k].bytes && pinned_blocks[k].start == (uintptr_t)memory))
        k++;
    if (k == MOST_BLOCKS)
        stop("cuMemHostUnregister of %p, which was not registered", memory);
    for (int s = 0; s < 64; s++)
        if (streams[s] &&
            (uses(streams[s]->current, &pinned_blocks[k]) || uses(streams[s]->first, &pinned_blocks[k])))
            stop("a copy uses pinned memory that is released");
    pinned_blocks[k].bytes = 0;
    pthread_mutex_unlock(&mutex);
    return 0;
}

API int cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    MAY_BE_REFUSED();
    copy c = {.device = to, .host = (void *)(uintptr_t)from, .bytes = bytes};
    check_pinned(from, bytes);
    fake_address(to, bytes);
    return fake_enqueue(stream, copy_in, &c, sizeof c);
}

API int cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    MAY_BE_REFUSED();
    static atomic_uint_fast64_t downloads;
    copy c = {.device = from, .host = to, .bytes = bytes};
    check_pinned(to, bytes);
    fake_address(from, bytes);
    if (++downloads % variable("FAKE_CUDA_REFUSE", UINT64_MAX) == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return fake_enqueue(stream, copy_out, &c, sizeof c);
}

API int cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream)
{
    MAY_BE_REFUSED();
    copy c = {.device = to, .byte = byte, .bytes = bytes};
    fake_address(to, bytes);
    return fake_enqueue(stream, set_bytes, &c, sizeof c);
}

typedef struct number {
    CUdeviceptr to;
    uint64_t value;
} number;

static void write_number(void *argument)
{
    const number *n = argument;
    uint64_t *to = fake_address(n->to, sizeof *to);
    if (*to >= n->value)
        stop("the counter goes from %llu to %llu", (unsigned long long)*to, (unsigned long long)n->value);
    __atomic_store_n(to, n->value, __ATOMIC_RELEASE);
}

API int cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags)
{
    MAY_BE_REFUSED();
    (void)flags;
    number n = {.to = address, .value = value};
    if (stream->capturing)
        stop("a number is written while the stream is captured");
    return fake_enqueue(stream, write_number, &n, sizeof n);
}

/* ---- events -------------------------------------------------------------------------------------------------------- */

API int cuEventCreate(CUevent *event, unsigned flags)
{
    MAY_BE_REFUSED();
    (void)flags;
    calls++;
    *event = calloc(1, sizeof **event);
    return 0;
}

API int cuEventDestroy_v2(CUevent event)
{
    wait_for_everything();
    free(event);
    return 0;
}

static void stamp(void *argument)
{
    CUevent event = *(CUevent *)argument;
    pthread_mutex_lock(&mutex);
    event->ns = now_ns();
    event->pending = false;
    pthread_cond_broadcast(&work_done);
    pthread_mutex_unlock(&mutex);
}

API int cuEventRecord(CUevent event, CUstream stream)
{
    MAY_BE_REFUSED();
    static atomic_uint_fast64_t records;
    if (++records % variable("FAKE_CUDA_REFUSE_EVENTS", UINT64_MAX) == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&mutex);
    event->pending = true;
    pthread_mutex_unlock(&mutex);
    return fake_enqueue(stream, stamp, &event, sizeof event);
}

API int cuEventSynchronize(CUevent event)
{
    pthread_mutex_lock(&mutex);
    while (event->pending && !broken)
        pthread_cond_wait(&work_done, &mutex);
    int result = broken ? 700 : 0;
    pthread_mutex_unlock(&mutex);
    return result;
}

API int cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    MAY_BE_REFUSED();
    calls++;
    pthread_mutex_lock(&mutex);
    if (start->pending || end->pending || !start->ns || !end->ns)
        stop("the time of an event that was not recorded or is not done");
    *milliseconds = (float)((double)((int64_t)end->ns - (int64_t)start->ns) * 1e-6);
    pthread_mutex_unlock(&mutex);
    return 0;
}

/* ---- graphs ---------------------------------------------------------------------------------------------------------- */

API int cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    MAY_BE_REFUSED();
    (void)mode;
    CUgraph graph = calloc(1, sizeof *graph);
    graph->end = &graph->first;
    pthread_mutex_lock(&mutex);
    stream->graph = graph;
    stream->capturing = true;
    pthread_mutex_unlock(&mutex);
    return 0;
}

API int cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    pthread_mutex_lock(&mutex);
    stream->capturing = false;
    *graph = stream->graph;
    pthread_mutex_unlock(&mutex);
    return 0;
}

API int cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id, CUgraph *graph,
                                  const CUgraphNode **last, size_t *count)
{
    MAY_BE_REFUSED();
    (void)id;
    (void)graph;
    if (!stream->capturing)
        stop("the stream is not captured");
    *status = 1;
    *last = &stream->graph->last;
    *count = stream->graph->first ? 1 : 0;
    return 0;
}

static operation *copy_operations(const operation *first, operation **end)
{
    operation *copied = NULL, **link = &copied;
    for (; first; first = first->next) {
        size_t bytes = sizeof *first + FAKE_ARGUMENT;
        *link = malloc(bytes);
        memcpy(*link, first, bytes);
        (*link)->next = NULL;
        (*link)->origin = first;
        link = &(*link)->next;
    }
    *end = copied;
    return copied;
}

static void free_operations(operation *first)
{
    for (operation *next; first; first = next) {
        next = first->next;
        free(first);
    }
}

API int cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    MAY_BE_REFUSED();
    (void)flags;
    operation *end;
    *executable = calloc(1, sizeof **executable);
    (*executable)->graph.first = copy_operations(graph->first, &end);
    return 0;
}

API int cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    MAY_BE_REFUSED();
    int result = 0;
    for (const operation *op = executable->graph.first; op; op = op->next)
        result = fake_enqueue(stream, op->work, op->argument, FAKE_ARGUMENT);
    return result;
}

API int cuGraphDestroy(CUgraph graph)
{
    free_operations(graph->first);
    free(graph);
    return 0;
}

API int cuGraphExecDestroy(CUgraphExec executable)
{
    free_operations(executable->graph.first);
    free(executable);
    return 0;
}

/* ---- kernels: libraries that fake_compiler.c made, whose names are the images ------------------------------------------- */

struct CUmod_st {
    void *library;
};

struct CUfunc_st {
    void (*entry)(const void *parameter);
    void (*run)(void (*entry)(const void *), const unsigned *grid, const unsigned *block, unsigned shared,
                const void *parameter, bool waits);
    size_t parameter_bytes; /* the caller's memory may end behind them */
    struct CUfunc_st *next;
};

static CUfunction functions; /* all that there are */

API int cuModuleLoadData(CUmodule *module, const void *image)
{
    MAY_BE_REFUSED();
    void *library = getenv("FAKE_CUDA_KERNELS") && strncmp(image, FAKE_IMAGE, strlen(FAKE_IMAGE)) == 0
                        ? dlopen((const char *)image + strlen(FAKE_IMAGE), RTLD_NOW | RTLD_LOCAL)
                        : NULL;
    if (!library)
        return 200;
    *module = malloc(sizeof **module);
    (*module)->library = library;
    return 0;
}

API int cuModuleUnload(CUmodule module)
{
    free(module);
    return 0;
}

API int cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    MAY_BE_REFUSED();
    void *entry = dlsym(module->library, name), *run = dlsym(module->library, "shim_run");
    const unsigned long *bytes = dlsym(module->library, "shim_parameter_bytes");
    if (!entry || !run || !bytes || *bytes > GT_CUDA_PARAM_MAX)
        return 500;
    *function = calloc(1, sizeof **function);
    *(void **)&(*function)->entry = entry;
    *(void **)&(*function)->run = run;
    (*function)->parameter_bytes = *bytes;
    pthread_mutex_lock(&mutex);
    (*function)->next = functions;
    functions = *function;
    pthread_mutex_unlock(&mutex);
    return 0;
}

API int cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    MAY_BE_REFUSED();
    (void)function;
    (void)attribute;
    (void)value;
    return 0;
}

typedef struct launch {
    CUfunction function;
    unsigned grid[3], block[3], shared;
    _Alignas(16) uint8_t parameter[GT_CUDA_PARAM_MAX];
} launch;

_Static_assert(sizeof(launch) <= FAKE_ARGUMENT, "it is copied");

API bool fake_is_empty(void)
{
    static int empty = -1;
    if (empty < 0)
        empty = getenv("FAKE_CUDA_EMPTY") != NULL;
    return empty;
}

static void run_kernel(void *argument)
{
    const launch *l = argument;
    if (fake_is_empty())
        return;
    l->function->run(l->function->entry, l->grid, l->block, l->shared, l->parameter, true);
}

API int cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                       unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **parameters,
                       void **extra)
{
    MAY_BE_REFUSED();
    (void)extra;
    launch l = {.function = function,
                .grid = {grid_x, grid_y, grid_z},
                .block = {block_x, block_y, block_z},
                .shared = shared};
    if (!grid_x || !grid_y || !grid_z || block_x * block_y * block_z > 1024 || !block_x || shared > 232448)
        return 1;
    memcpy(l.parameter, parameters[0], function->parameter_bytes);
    return fake_enqueue(stream, run_kernel, &l, sizeof l);
}

API int cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                          const CUDA_KERNEL_NODE_PARAMS *parameters)
{
    MAY_BE_REFUSED();
    operation *op = executable->graph.first;
    while (op && op->origin != (const operation *)node)
        op = op->next;
    if (!op || op->work != run_kernel)
        stop("an update of what is not a kernel of this graph");
    launch *l = (launch *)op->argument;
    if (l->function != parameters->func)
        return 1;
    l->grid[0] = parameters->gridDimX;
    l->grid[1] = parameters->gridDimY;
    l->grid[2] = parameters->gridDimZ;
    l->block[0] = parameters->blockDimX;
    l->block[1] = parameters->blockDimY;
    l->block[2] = parameters->blockDimZ;
    l->shared = parameters->sharedMemBytes;
    memcpy(l->parameter, parameters->kernelParams[0], l->function->parameter_bytes);
    return 0;
}

/* ---- the card ---------------------------------------------------------------------------------------------------------- */

API int cuInit(unsigned flags)
{
    (void)flags;
    pthread_mutex_lock(&mutex);
    if (!near_range) {
        size_t range = (size_t)1 << RANGE_BITS;
        char *both = mmap(NULL, 2 * range, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (both == MAP_FAILED || mprotect(both, range, PROT_READ | PROT_WRITE) != 0)
            stop("no addresses");
        near_range = both;
        started_in = getpid();
        fake_driver_refuse((int64_t)variable("FAKE_CUDA_REFUSE_CALL", 0),
                           (int)variable("FAKE_CUDA_REFUSE_RESULT", CUDA_ERROR_OUT_OF_MEMORY));
        far_range = getenv("FAKE_CUDA_KERNELS") ? both : both + range;
    }
    pthread_mutex_unlock(&mutex);
    return getenv("FAKE_CUDA_NONE") ? CUDA_ERROR_NO_DEVICE : 0;
}

API int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

API int cuGetErrorName(int error, const char **text)
{
    *text = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR";
    return 0;
}

API int cuGetErrorString(int error, const char **text)
{
    *text = error == 700 ? "an illegal memory access was encountered" : "an error";
    return 0;
}

API int cuDeviceGetCount(int *count)
{
    if (getpid() != started_in)
        return 3; /* not initialized: a card does not survive fork */
    *count = (int)variable("FAKE_CUDA_CARDS", 1);
    return 0;
}

API int cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return 0;
}

API int cuDeviceGetName(char *name, int length, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)length, "Fake GPU");
    return 0;
}

API int cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    memset(uuid, 1 + device, sizeof *uuid);
    return 0;
}

/* Not in the order of fake_nvml.c, as with CUDA_VISIBLE_DEVICES. */
API int cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    snprintf(text, (size_t)length, "0000:%02x:00.0", 0x5a - device);
    return 0;
}

API int cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    (void)device;
    *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? (int)variable("FAKE_CUDA_PROCESSORS", 132)
             : attribute == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR    ? 2048
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR          ? 9
             : attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? 232448
             : attribute == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS     ? 1
                                                                                  : 0;
    return 0;
}

API int cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    *context = (CUcontext)(uintptr_t)(device + 1);
    return 0;
}

API int cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    (void)device;
    return 0;
}

static _Thread_local int current_device = -1;

API int cuCtxSetCurrent(CUcontext context)
{
    current_device = (int)(uintptr_t)context - 1;
    return 0;
}

API int fake_current_device(void)
{
    return current_device;
}
