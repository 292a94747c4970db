/*
 * share.c: memory that workers on one card lend to each other: by its address inside a process, where all use the card's primary
 * context, and by handles of the driver between processes. A handle is that of a whole segment of the heap, so a process
 * opens few of them and keeps them open: opening one takes longer than most copies.
 *
 * Memory that is freed and allocated again can have the same handle, and who has that open would go on reading the memory of before. So
 * a segment that was ever lent outside stays allocated as long as its process lives: the next engine of the process uses it.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/log.h"
#include "engines/cuda/cuda.h"
#include "engines/group.h"

/* A segment of another process, open here. */
typedef struct gt_cuda_mapping {
    struct gt_cuda_mapping *next;
    CUipcMemHandle handle;
    CUdeviceptr address;
    uint64_t owner; /* gt__process_identity, and */
    pid_t process;  /* number of the process whose memory it is */
    unsigned loans; /* that are not given back yet */
} mapping;

/* What is in a loan. */
typedef struct contents {
    uint64_t process; /* gt__process_identity */
    int64_t process_id;
    uint64_t address; /* inside that process */
    uint64_t offset;  /* in the segment of the handle */
    CUipcMemHandle handle;
} contents;
_Static_assert(sizeof(contents) <= sizeof(gt_loan), "a loan has room for it");

/* Whether the driver hands out handles. In some containers and on some systems it does not. */
static bool has_handles(gt_cuda *cuda)
{
    uint64_t address;
    CUipcMemHandle handle;
    if (gt__cuda_take(cuda, 1, &address) != GT_OK)
        return false;
    int result = cuda->driver->handle_get(&handle, address);
    gt__cuda_heap_give(&cuda->heap, address);
    return result == CUDA_SUCCESS;
}

uint64_t gt__cuda_group(gt_engine *engine)
{
    gt_cuda *cuda = gt__cuda(engine);
    uint64_t neighbours = gt__neighbours_identity();
    cuda->shares_outside = neighbours && has_handles(cuda);
    if (!cuda->shares_outside) {
        gt__log(GT_LOG_STATUS, "cuda: memory is shared inside this process only");
        neighbours = gt__process_identity();
    }
    uint64_t both[] = {neighbours, cuda->identity};
    return neighbours ? gt__cuda_hash(both, sizeof both) : 0;
}

/* ---- segments that were lent ---------------------------------------------------------------------------------------- */

typedef struct lent {
    struct lent *next;
    CUdevice device;
    uint64_t address;
    size_t bytes;
    bool used; /* by an engine */
} lent;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the list: engines have threads of their own */
static lent *segments;

static lent *find_lent(const gt_cuda *cuda, uint64_t address)
{
    lent *l = segments;
    while (l && (l->device != cuda->device || l->address != address))
        l = l->next;
    return l;
}

/* Before a segment's handle is given away. The context stays as well: memory ends with it. */
static gt_err note_lent(gt_cuda *cuda, uint64_t address, size_t bytes)
{
    CUcontext context;
    gt_err err = GT_OK;
    pthread_mutex_lock(&mutex);
    if (!find_lent(cuda, address)) {
        lent *l = malloc(sizeof *l);
        if (!l)
            err = gt__fail(GT_ERR_MEMORY, "out of memory");
        else if (cuda->driver->context_retain(&context, cuda->device) != CUDA_SUCCESS) {
            err = gt__fail(GT_ERR_INTERNAL, "cuda: the context cannot be kept");
            free(l);
        } else {
            *l =
                (lent){.next = segments, .device = cuda->device, .address = address, .bytes = bytes, .used = true};
            segments = l;
        }
    }
    pthread_mutex_unlock(&mutex);
    return err;
}

uint64_t gt__cuda_lent_take(const gt_cuda *cuda, size_t bytes)
{
    lent *best = NULL;
    pthread_mutex_lock(&mutex);
    for (lent *l = segments; l; l = l->next)
        if (!l->used && l->device == cuda->device && l->bytes >= bytes && l->bytes / 2 <= bytes &&
            (!best || l->bytes < best->bytes))
            best = l;
    if (best)
        best->used = true;
    pthread_mutex_unlock(&mutex);
    return best ? best->address : 0;
}

bool gt__cuda_lent_give(const gt_cuda *cuda, uint64_t address)
{
    pthread_mutex_lock(&mutex);
    lent *l = find_lent(cuda, address);
    if (l)
        l->used = cuda->broken; /* memory of a broken context is never reused */
    pthread_mutex_unlock(&mutex);
    return l;
}

/* ---- lending ------------------------------------------------------------------------------------------------------ */

gt_err gt__cuda_lend(gt_engine *engine, const void *memory, size_t bytes, bool outside, gt_loan *loan)
{
    gt_cuda *cuda = gt__cuda(engine);
    contents c = {.process = gt__process_identity(), .process_id = getpid(), .address = (uintptr_t)memory};
    uint64_t segment;
    size_t size;
    (void)bytes;                           /* a tensor lies in one segment */
    if (outside && cuda->shares_outside) { /* else the group is one process */
        if (!gt__cuda_heap_keep(&cuda->heap, c.address, &segment, &size))
            return gt__fail(GT_ERR_INTERNAL, "%p is not memory of this engine", memory);
        GT_TRY(note_lent(cuda, segment, size));
        GT_CUDA_TRY(cuda, "a handle of memory", cuda->driver->handle_get(&c.handle, segment));
        c.offset = c.address - segment;
    }
    memcpy(loan, &c, sizeof c);
    return GT_OK;
}

/* UCX opens handles in other processes, too, and keeps them. */
gt_err gt__cuda_expose(gt_engine *engine, void *memory, size_t bytes, void **address)
{
    gt_cuda *cuda = gt__cuda(engine);
    uint64_t segment;
    size_t size;
    (void)bytes;
    gt__cuda_settle(cuda); /* as for what is borrowed: the resident kernel would not see what others write */
    if (!gt__cuda_heap_keep(&cuda->heap, (uintptr_t)memory, &segment, &size))
        return gt__fail(GT_ERR_INTERNAL, "%p is not memory of this engine", memory);
    GT_TRY(note_lent(cuda, segment, size));
    *address = memory;
    return GT_OK;
}

gt_err gt__cuda_enter(gt_engine *engine)
{
    const gt_cuda *cuda = gt__cuda(engine);
    return cuda->driver->context_set(cuda->context) == CUDA_SUCCESS
               ? GT_OK
               : gt__fail(GT_ERR_INTERNAL, "cuda: another thread cannot use the context");
}

/* ---- borrowing ---------------------------------------------------------------------------------------------------- */

/* By its handle; NULL: it is not open. */
static mapping *find_handle(const gt_cuda *cuda, const contents *c)
{
    mapping *m = cuda->mappings;
    while (m && memcmp(&m->handle, &c->handle, sizeof c->handle) != 0)
        m = m->next;
    return m;
}

static mapping *find_mapping(const gt_cuda *cuda, const contents *c)
{
    mapping *m = find_handle(cuda, c);
    return m && m->owner == c->process ? m : NULL;
}

/* Whether the driver gave this address to memory that is open under another handle: one of the two is not what it is taken for. */
static bool is_taken(const gt_cuda *cuda, CUdeviceptr address)
{
    const mapping *m = cuda->mappings;
    while (m && m->address != address)
        m = m->next;
    return m;
}

static gt_err open_mapping(gt_cuda *cuda, const contents *c, mapping **out)
{
    mapping *m = malloc(sizeof *m);
    if (!m)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    *m = (mapping){.handle = c->handle, .owner = c->process, .process = (pid_t)c->process_id};
    gt__cuda_mappings_close(cuda, false);
    if (find_handle(cuda, c)) { /* the driver would return the memory of before */
        free(m);
        return gt__fail(GT_ERR_INTERNAL, "cuda: memory of a worker that is gone is still open under this handle");
    }
    int result = cuda->driver->handle_open(&m->address, c->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result != CUDA_SUCCESS) {
        free(m);
        return gt__cuda_fail(cuda, result, "memory of another worker");
    }
    if (is_taken(cuda, m->address)) { /* it stays open: closing it might close the other */
        free(m);
        return gt__fail(GT_ERR_INTERNAL, "cuda: memory of another worker has the address of another one's");
    }
    m->next = cuda->mappings;
    cuda->mappings = *out = m;
    return GT_OK;
}

/* The resident kernel leaves: it might have read that memory before, and does not see what other streams wrote since. */
gt_err gt__cuda_borrow(gt_engine *engine, const gt_loan *loan, void **memory)
{
    gt_cuda *cuda = gt__cuda(engine);
    contents c;
    memcpy(&c, loan, sizeof c);
    gt__cuda_settle(cuda);
    if (c.process == gt__process_identity()) {
        *memory = (void *)(uintptr_t)c.address;
        return GT_OK;
    }
    mapping *m = find_mapping(cuda, &c);
    if (!m)
        GT_TRY(open_mapping(cuda, &c, &m));
    m->loans++;
    *memory = (void *)(uintptr_t)(m->address + c.offset);
    return GT_OK;
}

void gt__cuda_give_back(gt_engine *engine, const gt_loan *loan)
{
    contents c;
    memcpy(&c, loan, sizeof c);
    mapping *m = c.process == gt__process_identity() ? NULL : find_mapping(gt__cuda(engine), &c);
    if (m)
        m->loans--;
}

void gt__cuda_mappings_close(gt_cuda *cuda, bool all)
{
    for (mapping **where = &cuda->mappings; *where;) {
        mapping *m = *where;
        bool ended = m->loans == 0 && kill(m->process, 0) != 0 && errno == ESRCH;
        if (!all && !ended) {
            where = &m->next;
            continue;
        }
        cuda->driver->handle_close(m->address);
        *where = m->next;
        free(m);
    }
}
