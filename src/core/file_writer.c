/* file_writer.c: see file_writer.h. The buffers go round between the filling side and the thread; the lock is taken once a
 * buffer. */
#include "file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

enum { BUFFERS = 8, REMEMBERED = 16 };

typedef struct buffer {
    char *data;
    size_t used;
} buffer;

struct gt_file_writer {
    int fd;
    char *path;
    const char *what;
    uint64_t rotate_bytes, written; /* to the present file */
    unsigned keep;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    buffer ring[BUFFERS];
    unsigned filling;       /* index; the filling side's own */
    unsigned first, waiting; /* handed over and not written yet; under the mutex */
    bool closing;
    atomic_bool failed;
};

/* ---- files -------------------------------------------------------------------------------------------------- */

static struct {
    dev_t device;
    ino_t inode;
} remembered[REMEMBERED];
static unsigned remembered_next;
static pthread_mutex_t remembered_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Whether this process has written to the file before; it has, from now on. */
static bool remember(const struct stat *info)
{
    bool known = false;
    pthread_mutex_lock(&remembered_mutex);
    for (unsigned k = 0; k < REMEMBERED; k++)
        known |= remembered[k].inode == info->st_ino && remembered[k].device == info->st_dev;
    if (!known) {
        remembered[remembered_next].inode = info->st_ino;
        remembered[remembered_next].device = info->st_dev;
        remembered_next = (remembered_next + 1) % REMEMBERED;
    }
    pthread_mutex_unlock(&remembered_mutex);
    return known;
}

static int open_file(const char *path, bool exclusive, uint64_t *size)
{
    struct stat info;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 || fstat(fd, &info))
        return fd;
    bool append = S_ISREG(info.st_mode) && remember(&info);
    if (append && exclusive) {
        close(fd);
        errno = EBUSY;
        return -1;
    }
    if (!append && S_ISREG(info.st_mode) && ftruncate(fd, 0)) {
        close(fd);
        return -1;
    }
    *size = append ? (uint64_t)info.st_size : 0;
    return fd;
}

static bool rotate(gt_file_writer *writer)
{
    size_t size = strlen(writer->path) + 16;
    char *from = malloc(size), *to = malloc(size);
    for (unsigned k = writer->keep; from && to && k > 0; k--) {
        snprintf(from, size, k > 1 ? "%s.%u" : "%s", writer->path, k - 1);
        snprintf(to, size, "%s.%u", writer->path, k);
        rename(from, to); /* the first times there is none yet */
    }
    free(from);
    free(to);
    if (!writer->keep)
        unlink(writer->path);
    int fd = open_file(writer->path, false, &writer->written);
    if (fd < 0)
        return false;
    close(writer->fd);
    writer->fd = fd;
    return true;
}

/* ---- the thread --------------------------------------------------------------------------------------------- */

static bool write_all(gt_file_writer *writer, const char *data, size_t bytes)
{
    if (writer->rotate_bytes && writer->written && writer->written + bytes > writer->rotate_bytes && !rotate(writer))
        return false;
    while (bytes) {
        ssize_t done = write(writer->fd, data, bytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        data += done;
        bytes -= (size_t)done;
        writer->written += (uint64_t)done;
    }
    return true;
}

static void *writer_main(void *argument)
{
    gt_file_writer *writer = argument;
    pthread_setname_np(pthread_self(), "gt log");
    pthread_mutex_lock(&writer->mutex);
    for (;;) {
        while (!writer->waiting && !writer->closing)
            pthread_cond_wait(&writer->changed, &writer->mutex);
        if (!writer->waiting)
            break;
        buffer *next = &writer->ring[writer->first];
        pthread_mutex_unlock(&writer->mutex);
        if (!atomic_load(&writer->failed) && !write_all(writer, next->data, next->used)) {
            gt__log_error("the %s stops: %s: %s", writer->what, writer->path, strerror(errno));
            atomic_store(&writer->failed, true);
        }
        pthread_mutex_lock(&writer->mutex);
        next->used = 0;
        writer->first = (writer->first + 1) % BUFFERS;
        writer->waiting--;
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writer->mutex);
    return NULL;
}

/* ---- the filling side --------------------------------------------------------------------------------------- */

static void hand_over(gt_file_writer *writer, bool patient)
{
    pthread_mutex_lock(&writer->mutex);
    while (patient && writer->waiting == BUFFERS - 1)
        pthread_cond_wait(&writer->changed, &writer->mutex);
    if (writer->waiting < BUFFERS - 1) {
        writer->waiting++;
        writer->filling = (writer->filling + 1) % BUFFERS;
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writer->mutex);
}

char *gt__file_reserve(gt_file_writer *writer, size_t bytes)
{
    if (__builtin_expect(GT_FILE_BUFFER - writer->ring[writer->filling].used < bytes, 0))
        hand_over(writer, true);
    if (__builtin_expect(atomic_load_explicit(&writer->failed, memory_order_relaxed), 0))
        return NULL;
    buffer *filling = &writer->ring[writer->filling];
    if (!filling->data && !(filling->data = malloc(GT_FILE_BUFFER))) {
        gt__log_error("the %s stops: out of memory", writer->what);
        atomic_store(&writer->failed, true);
        return NULL;
    }
    return filling->data + filling->used;
}

void gt__file_commit(gt_file_writer *writer, size_t bytes)
{
    writer->ring[writer->filling].used += bytes;
}

void gt__file_flush(gt_file_writer *writer)
{
    if (writer->ring[writer->filling].used)
        hand_over(writer, false);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

static void writer_free(gt_file_writer *writer)
{
    if (writer->fd >= 0)
        close(writer->fd);
    for (int k = 0; k < BUFFERS; k++)
        free(writer->ring[k].data);
    pthread_mutex_destroy(&writer->mutex);
    pthread_cond_destroy(&writer->changed);
    free(writer->path);
    free(writer);
}

gt_err gt__file_open(const gt_file_options *options, gt_file_writer **out)
{
    gt_file_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    writer->fd = -1;
    writer->path = strdup(options->path);
    writer->what = options->what;
    writer->rotate_bytes = options->rotate_bytes;
    writer->keep = options->keep;
    pthread_mutex_init(&writer->mutex, NULL);
    pthread_cond_init(&writer->changed, NULL);
    gt_err err = GT_OK;
    for (unsigned k = 2; writer->path && (writer->fd = open_file(writer->path, options->exclusive, &writer->written)) < 0 &&
                         errno == EBUSY; k++) {
        free(writer->path);
        if (asprintf(&writer->path, "%s.%u", options->path, k) < 0)
            writer->path = NULL;
    }
    if (writer->fd < 0)
        err = gt__fail(GT_ERR_VALUE, "cannot write the %s to %s: %s", options->what, options->path, strerror(errno));
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the user's threads */
    if (err == GT_OK && pthread_create(&writer->thread, NULL, writer_main, writer))
        err = gt__fail(GT_ERR_INTERNAL, "no thread could be started for the %s", options->what);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err != GT_OK) {
        writer_free(writer);
        return err;
    }
    *out = writer;
    return GT_OK;
}

void gt__file_close(gt_file_writer **where)
{
    gt_file_writer *writer = *where;
    *where = NULL;
    if (!writer)
        return;
    if (writer->ring[writer->filling].used)
        hand_over(writer, true);
    pthread_mutex_lock(&writer->mutex);
    writer->closing = true;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
    pthread_join(writer->thread, NULL);
    writer_free(writer);
}
