/*
 * segment.c: shared memory for bulk data: memfds, mapped at most once in a process.
 *
 * The file is one header page, of which only the busy word is used, then the data. The size is taken from the file, not
 * from the memory, which the peer can write; the seal against shrinking makes reading safe.
 * Descriptors travel over the memory link (link/memory.c).
 */
#include "link/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/log.h"
#include "link/link.h"

enum { SEGMENT_HEADER = 4096 };

#define SEGMENT_MAX_BYTES ((size_t)1 << 46)

/* One per file in this process, however many segments refer to it: the client and the embedded worker have a segment
 * each. The inode cannot be reused while it is mapped. */
typedef struct gt_mapping {
    dev_t device;
    ino_t inode;
    uint8_t *base;
    size_t length;
    int references;
    struct gt_mapping *next;
} gt_mapping;

static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all below and every reference count */
static gt_mapping *mappings;
static uint64_t last_id;

/* A forked child releases its copies, so it must not inherit a mutex that another thread held. */
static void table_lock(void)
{
    pthread_mutex_lock(&table_mutex);
}

static void table_unlock(void)
{
    pthread_mutex_unlock(&table_mutex);
}

__attribute__((constructor)) static void table_survives_fork(void)
{
    pthread_atfork(table_lock, table_unlock, table_unlock);
}

static gt_err system_failure(const char *what, size_t bytes)
{
    return gt__fail(GT_ERR_MEMORY, "cannot %s a shared segment of %zu bytes: %s", what, bytes, strerror(errno));
}

/* A handle on fd; takes fd, also on failure. */
static gt_err handle_new(uint64_t id, int fd, size_t bytes, gt_segment **out)
{
    gt_segment *segment = calloc(1, sizeof *segment);
    if (!segment) {
        if (fd >= 0)
            close(fd);
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    segment->id = id;
    segment->bytes = bytes;
    segment->fd = fd;
    segment->references = 1;
    *out = segment;
    return GT_OK;
}

gt_err gt__segment_new(size_t bytes, gt_segment **out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SEGMENT_MAX_BYTES)
        return gt__fail(GT_ERR_MEMORY, "a shared segment of %zu bytes is too large", bytes);
    size_t total = (SEGMENT_HEADER + bytes + page - 1) / page * page;
    int fd = memfd_create("gt-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return system_failure("create", bytes);
    if (ftruncate(fd, (off_t)total) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        gt_err err = system_failure("size", bytes);
        close(fd);
        return err;
    }
    table_lock();
    uint64_t id = ++last_id;
    table_unlock();
    gt_segment *segment = NULL;
    GT_TRY(handle_new(id, fd, total - SEGMENT_HEADER, &segment));
    gt_err err = gt__segment_map(segment);
    if (err != GT_OK) {
        gt__segment_release(segment);
        return err;
    }
    *out = segment;
    return GT_OK;
}

/* Is it a memfd of ordinary pages? Huge ones may be missing when they are touched, which ends the process. */
static bool is_plain_memory(int fd)
{
    struct statfs where;
    return fcntl(fd, F_GET_SEALS) >= 0 && !fstatfs(fd, &where) && where.f_type == TMPFS_MAGIC;
}

typedef struct discarded {
    int count, fds[];
} discarded;

static void *close_main(void *argument)
{
    discarded *d = argument;
    for (int k = 0; k < d->count; k++)
        close(d->fds[k]);
    free(d);
    return NULL;
}

void gt__descriptors_discard(const int *fds, int count)
{
    pthread_t thread;
    discarded *d = count ? calloc(1, sizeof *d + (size_t)count * sizeof *fds) : NULL;
    for (int k = 0; k < count; k++)
        if (is_plain_memory(fds[k]))
            close(fds[k]);
        else if (d)
            d->fds[d->count++] = fds[k];
    /* If there is no memory or no thread, the descriptors are lost. */
    if (d && d->count && !pthread_create(&thread, NULL, close_main, d))
        pthread_detach(thread);
    else
        free(d);
}

void gt__descriptor_discard(int fd)
{
    gt__descriptors_discard(&fd, 1);
}

gt_err gt__segment_adopt(uint64_t id, int fd, gt_segment **out)
{
    struct stat info;
    if (fd < 0)
        return handle_new(id, fd, 0, out);
    int seals = fcntl(fd, F_GET_SEALS);
    int needed = F_SEAL_SHRINK | F_SEAL_GROW; /* the mapping is found by inode: its size must never change */
    if (seals < 0 || (seals & needed) != needed || fstat(fd, &info) || !S_ISREG(info.st_mode) ||
        !is_plain_memory(fd) || info.st_size <= SEGMENT_HEADER ||
        (size_t)info.st_size > SEGMENT_MAX_BYTES + SEGMENT_HEADER) {
        gt__descriptor_discard(fd);
        return gt__fail(GT_ERR_PROTOCOL, "segment %llu is not sealed shared memory", (unsigned long long)id);
    }
    gt_segment *segment = NULL;
    GT_TRY(handle_new(id, fd, (size_t)info.st_size - SEGMENT_HEADER, &segment));
    segment->adopted = true;
    *out = segment;
    return GT_OK;
}

/* With the table locked. */
static gt_mapping *mapping_find(const struct stat *info)
{
    for (gt_mapping *mapping = mappings; mapping; mapping = mapping->next)
        if (mapping->inode == info->st_ino && mapping->device == info->st_dev)
            return mapping;
    return NULL;
}

/* With the table locked; NULL and errno on failure. */
static gt_mapping *mapping_new(int fd, const struct stat *info)
{
    gt_mapping *mapping = malloc(sizeof *mapping);
    if (!mapping)
        return NULL;
    size_t length = (size_t)info->st_size;
    void *base = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        free(mapping);
        return NULL;
    }
    *mapping = (gt_mapping){
        .device = info->st_dev, .inode = info->st_ino, .base = base, .length = length, .next = mappings};
    mappings = mapping;
    return mapping;
}

gt_err gt__segment_map(gt_segment *segment)
{
    struct stat info;
    if (segment->data)
        return GT_OK;
    if (segment->fd < 0)
        return gt__fail(GT_ERR_MEMORY, "too many open files: a shared segment was lost (raise ulimit -n)");
    if (fstat(segment->fd, &info))
        return system_failure("map", segment->bytes);
    table_lock();
    gt_mapping *mapping = mapping_find(&info);
    if (!mapping)
        mapping = mapping_new(segment->fd, &info);
    if (mapping)
        mapping->references++;
    table_unlock();
    if (!mapping)
        return system_failure("map", segment->bytes);
    segment->mapping = mapping;
    segment->data = mapping->base + SEGMENT_HEADER;
    segment->busy = (_Atomic uint32_t *)(void *)mapping->base;
    if (segment->adopted) {
        close(segment->fd);
        segment->fd = -1;
    }
    return GT_OK;
}

void gt__segment_give(gt_segment *segment)
{
    atomic_store_explicit(segment->busy, 1, memory_order_release);
}

bool gt__segment_busy(const gt_segment *segment)
{
    return atomic_load_explicit(&segment->busy[0], memory_order_acquire) != 0 ||
           atomic_load_explicit(&segment->busy[1], memory_order_acquire) != 0;
}

bool gt__segment_read(const gt_segment *segment, size_t offset, void *to, size_t bytes)
{
    if (bytes > segment->bytes || offset > segment->bytes - bytes)
        return false;
    if (segment->data) {
        memcpy(to, segment->data + offset, bytes);
        return true;
    }
    return pread(segment->fd, to, bytes, (off_t)(SEGMENT_HEADER + offset)) == (ssize_t)bytes;
}

/* One of the words at its beginning. */
static void set_word(gt_segment *segment, unsigned word, uint32_t value)
{
    if (segment->busy) {
        atomic_store_explicit(&segment->busy[word], value, memory_order_release);
        return;
    }
    ssize_t written = pwrite(segment->fd, &value, sizeof value, (off_t)(word * sizeof value));
    (void)written; /* if its creator made this fail, only that creator loses the segment */
}

void gt__segment_done(gt_segment *segment)
{
    set_word(segment, 0, 0);
}

void gt__segment_hold(gt_segment *segment, bool held)
{
    set_word(segment, 1, held);
}

gt_segment *gt__segment_retain(gt_segment *segment)
{
    table_lock();
    segment->references++;
    table_unlock();
    return segment;
}

void gt__segment_release(gt_segment *segment)
{
    if (!segment)
        return;
    gt_mapping *unused = NULL;
    table_lock();
    bool last = --segment->references == 0;
    if (last && segment->mapping && --segment->mapping->references == 0) {
        unused = segment->mapping;
        gt_mapping **at = &mappings;
        while (*at != unused)
            at = &(*at)->next;
        *at = unused->next;
    }
    table_unlock();
    if (unused) {
        munmap(unused->base, unused->length);
        free(unused);
    }
    if (last) {
        if (segment->fd >= 0)
            close(segment->fd);
        free(segment);
    }
}

void gt__descriptors_exhausted(void)
{
    enum { AGAIN_S = 10 };
    static atomic_ullong again_ns;
    struct rlimit limit;
    unsigned long long due_ns = atomic_load(&again_ns), now = gt__now_ns();
    if (now < due_ns || !atomic_compare_exchange_strong(&again_ns, &due_ns, now + AGAIN_S * 1000000000ull))
        return;
    bool known = !getrlimit(RLIMIT_NOFILE, &limit);
    gt__log_error(
        "connections are refused: all %llu descriptors that this process may open are in use; raise the limit "
        "(`ulimit -n`) or close connections",
        known ? (unsigned long long)limit.rlim_cur : 0);
}

void gt__descriptors_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit); /* if that fails, the present limit stays */
}
