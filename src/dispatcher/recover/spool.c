/*
 * spool.c: see spool.h. Place in the flow: snapshot.c -> here -> disk.
 *
 * Values are written one behind the other into files of FILE_BYTES, a new one when the last is full. A value that is released
 * gives its space back by a hole; a file is closed with the last of its values.
 */
#include "dispatcher/recover/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/log.h"
#include "core/thread.h"

enum { READY_BYTES = 32 << 10 };
#define FILE_BYTES ((off_t)1 << 30)

typedef struct spool_file {
    int fd;
    unsigned values; /* and one while new ones are put into it */
    off_t end;
} spool_file;

/* Of the fields, those above the line change under the spool's lock. */
struct gt_spooled {
    struct gt_spooled *next; /* in the queue */
    uint8_t *data;           /* NULL: written */
    spool_file *file;        /* NULL: not written */
    off_t at;
    bool queued;   /* the thread will look at it, or does */
    bool writing;  /* the thread reads `data`, unlocked */
    bool released; /* the thread frees it */
    /* ---- */
    gt_spool *spool;
    size_t bytes;
};

struct gt_spool {
    char *directory;
    uint64_t most;
    pthread_t thread;
    pthread_mutex_t lock; /* for all below */
    pthread_cond_t changed;
    gt_spooled *first, *last; /* values to be written or freed */
    spool_file *file;         /* that new values go to; NULL: none yet. Only the thread uses it */
    uint64_t bytes, memory;   /* of all values; of those that are not written */
    bool stopping, failed;
};

/* ---- files -------------------------------------------------------------------------------------------------- */

/* A file that has no name; -1: errno says why. */
static int open_nameless(const char *directory)
{
    int fd = open(directory, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    char path[4096]; /* a file system that has no nameless files */
    if ((size_t)snprintf(path, sizeof path, "%s/gt-snapshots-XXXXXX", directory) >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

/* One value less. Closing a file waits for the disk: not locked, and in the thread. */
static void file_release(gt_spool *spool, spool_file *file)
{
    pthread_mutex_lock(&spool->lock);
    bool last = !--file->values;
    pthread_mutex_unlock(&spool->lock);
    if (!last)
        return;
    close(file->fd);
    free(file);
}

/* A file with room, with one more value in it; NULL: there is none. In the thread. */
static spool_file *file_for_next(gt_spool *spool)
{
    if (spool->file && spool->file->end >= FILE_BYTES) {
        file_release(spool, spool->file);
        spool->file = NULL;
    }
    if (!spool->file) {
        int fd = open_nameless(spool->directory);
        spool->file = fd >= 0 ? malloc(sizeof *spool->file) : NULL;
        if (!spool->file) {
            if (fd >= 0)
                close(fd);
            return NULL;
        }
        *spool->file = (spool_file){.fd = fd, .values = 1};
    }
    pthread_mutex_lock(&spool->lock);
    spool->file->values++;
    pthread_mutex_unlock(&spool->lock);
    return spool->file;
}

static bool write_all(int fd, const uint8_t *data, size_t bytes, off_t at)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t wrote = pwrite(fd, data + done, bytes - done, at + (off_t)done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        done += (size_t)wrote;
    }
    return true;
}

static bool read_all(int fd, void *to, size_t bytes, off_t at)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, (char *)to + done, bytes - done, at + (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

/* Give the space back. A file system that cannot do it keeps it until the file is closed. */
static void punch(const spool_file *file, off_t at, size_t bytes)
{
    int rc = fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, (off_t)bytes);
    (void)rc;
}

/* Locked. */
static void enqueue(gt_spool *spool, gt_spooled *value)
{
    *(spool->last ? &spool->last->next : &spool->first) = value;
    spool->last = value;
    value->queued = true;
    pthread_cond_signal(&spool->changed);
}

/* ---- the thread --------------------------------------------------------------------------------------------- */

/* A value that was released: nothing else refers to it. Not locked. */
static void dispose(gt_spool *spool, gt_spooled *value)
{
    if (value->file) {
        punch(value->file, value->at, value->bytes);
        file_release(spool, value->file);
    }
    pthread_mutex_lock(&spool->lock);
    spool->bytes -= value->bytes;
    spool->memory -= value->data ? value->bytes : 0;
    pthread_mutex_unlock(&spool->lock);
    free(value->data);
    free(value);
}

/* Not locked. False: the value stays in memory. */
static bool write_value(gt_spool *spool, gt_spooled *value)
{
    spool_file *file = file_for_next(spool);
    if (!file)
        return false;
    if (!write_all(file->fd, value->data, value->bytes, file->end)) {
        int error = errno;
        file_release(spool, file);
        errno = error;
        return false;
    }
    pthread_mutex_lock(&spool->lock);
    value->file = file;
    value->at = file->end;
    file->end += (off_t)value->bytes;
    uint8_t *data = value->data;
    value->data = NULL;
    spool->memory -= value->bytes;
    pthread_mutex_unlock(&spool->lock);
    free(data);
    return true;
}

static void *write_values(void *context)
{
    gt_spool *spool = context;
    pthread_mutex_lock(&spool->lock);
    for (;;) {
        while (!spool->first && !spool->stopping)
            pthread_cond_wait(&spool->changed, &spool->lock);
        gt_spooled *value = spool->first;
        if (!value)
            break;
        spool->first = value->next;
        spool->last = spool->first ? spool->last : NULL;
        value->next = NULL;
        bool released = value->released, wanted = !released && !spool->failed;
        value->queued = value->writing = wanted;
        pthread_mutex_unlock(&spool->lock);
        if (released)
            dispose(spool, value);
        bool failed = wanted && !write_value(spool, value);
        if (failed)
            gt__log_warning("snapshots cannot be written to %s, and stay in memory: %s", spool->directory,
                            strerror(errno));
        pthread_mutex_lock(&spool->lock);
        spool->failed |= failed;
        if (wanted) {
            value->queued = value->writing = false;
            if (value->released)
                enqueue(spool, value);
        }
    }
    pthread_mutex_unlock(&spool->lock);
    return NULL;
}

/* ---- life --------------------------------------------------------------------------------------------------- */

gt_err gt__spool_new(const char *directory, uint64_t most, gt_spool **out)
{
    gt_spool *spool = calloc(1, sizeof *spool);
    char *copy = strdup(directory);
    if (!spool || !copy) {
        free(spool);
        free(copy);
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    spool->directory = copy;
    spool->most = most;
    pthread_mutex_init(&spool->lock, NULL);
    pthread_cond_init(&spool->changed, NULL);
    int fd = open_nameless(directory);
    gt_err err = fd >= 0
                     ? GT_OK
                     : gt__fail(GT_ERR_VALUE, "snapshots cannot be written to %s: %s", directory, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (err == GT_OK)
        err = gt__thread_start(&spool->thread, write_values, spool);
    if (err != GT_OK) {
        pthread_cond_destroy(&spool->changed);
        pthread_mutex_destroy(&spool->lock);
        free(copy);
        free(spool);
        return err;
    }
    *out = spool;
    return GT_OK;
}

void gt__spool_free(gt_spool **where)
{
    gt_spool *spool = *where;
    *where = NULL;
    if (!spool)
        return;
    pthread_mutex_lock(&spool->lock);
    spool->stopping = true;
    pthread_cond_signal(&spool->changed);
    pthread_mutex_unlock(&spool->lock);
    pthread_join(spool->thread, NULL);
    if (spool->file)
        file_release(spool, spool->file);
    pthread_cond_destroy(&spool->changed);
    pthread_mutex_destroy(&spool->lock);
    free(spool->directory);
    free(spool);
}

/* ---- values ------------------------------------------------------------------------------------------------- */

gt_spooled *gt__spool_put(gt_spool *spool, uint8_t *data, size_t bytes)
{
    gt_spooled *value = malloc(sizeof *value);
    if (!value)
        return NULL;
    *value = (gt_spooled){.data = data, .spool = spool, .bytes = bytes};
    pthread_mutex_lock(&spool->lock);
    spool->bytes += bytes;
    spool->memory += bytes;
    if (!spool->failed)
        enqueue(spool, value);
    pthread_mutex_unlock(&spool->lock);
    return value;
}

bool gt__spool_has_room(gt_spool *spool, uint64_t bytes)
{
    pthread_mutex_lock(&spool->lock);
    bool fits = bytes <= spool->most && spool->bytes <= spool->most - bytes;
    pthread_mutex_unlock(&spool->lock);
    return fits;
}

uint64_t gt__spool_memory(gt_spool *spool)
{
    pthread_mutex_lock(&spool->lock);
    uint64_t memory = spool->memory;
    pthread_mutex_unlock(&spool->lock);
    return memory;
}

/* Whether the value is in a file, and has been copied otherwise. A value that is written stays so. */
static bool is_written(gt_spooled *value, uint64_t offset, void *to, size_t bytes)
{
    pthread_mutex_lock(&value->spool->lock);
    bool written = !value->data;
    if (!written && to)
        memcpy(to, value->data + offset, bytes);
    pthread_mutex_unlock(&value->spool->lock);
    return written;
}

bool gt__spooled_ready(gt_spooled *value, uint64_t offset, size_t bytes)
{
    uint8_t scratch[READY_BYTES];
    if (!is_written(value, 0, NULL, 0))
        return true;
    off_t at = value->at + (off_t)offset;
    for (size_t done = 0; done < bytes;) {
        size_t length = bytes - done < sizeof scratch ? bytes - done : sizeof scratch;
        struct iovec vector = {.iov_base = scratch, .iov_len = length};
        ssize_t got = preadv2(value->file->fd, &vector, 1, at + (off_t)done, RWF_NOWAIT);
        if (got < 0 && errno != EAGAIN)
            return true; /* a file system that cannot tell, or an error that the read will find */
        if (got < (ssize_t)length) {
            posix_fadvise(value->file->fd, at, (off_t)bytes, POSIX_FADV_WILLNEED);
            return false;
        }
        done += length;
    }
    return true;
}

bool gt__spooled_read(gt_spooled *value, uint64_t offset, void *to, size_t bytes)
{
    return !is_written(value, offset, to, bytes) ||
           read_all(value->file->fd, to, bytes, value->at + (off_t)offset);
}

void gt__spooled_release(gt_spooled *value)
{
    if (!value)
        return;
    gt_spool *spool = value->spool;
    uint8_t *data = NULL;
    pthread_mutex_lock(&spool->lock);
    value->released = true;
    if (value->data && !value->writing) { /* its memory at once: the thread may be behind */
        data = value->data;
        value->data = NULL;
        spool->memory -= value->bytes;
    }
    if (!value->queued)
        enqueue(spool, value);
    pthread_mutex_unlock(&spool->lock);
    free(data);
}
