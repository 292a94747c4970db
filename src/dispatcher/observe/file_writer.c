/* file_writer.c: see file_writer.h. The buffers circulate between the side that fills them and the thread; the lock is taken
 * once a buffer. A writer that translates has no file: its thread fills the buffers of another one, whose thread writes. About as
 * much time goes into the system's copy of a text as into making it. */
#include "dispatcher/observe/file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"
#include "core/settings.h"
#include "core/thread.h"

enum {
    BUFFERS = 8,
    REMEMBERED = 16,
    TEXT_BYTES = 128 * 1024, /* of text in a buffer: stays in the cache until it is written */
};

typedef struct buffer {
    char *data;
    size_t used;
} buffer;

struct gt_file_writer {
    gt_file_room room; /* in the buffer `filling`; empty if no buffer is free */
    int fd;
    char *path;
    const char *what;
    uint64_t rotate_bytes, written; /* to the present file */
    unsigned keep;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t (*translate)(void *context, const char **from, const char *end, char *to, size_t room);
    void (*seal)(void *context, char *data, size_t bytes);
    void *context;
    char head[64]; /* head_bytes of it */
    size_t head_bytes, buffer_bytes;
    gt_file_writer *texts; /* if it translates: the writer of what comes out */
    unsigned buffers;
    buffer *ring;
    unsigned filling;        /* index; the filling side's own */
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
static pid_t remembered_by; /* a child does not write to its parent's files */
static pthread_mutex_t remembered_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Whether this process has written to the file before; it has, from now on. */
static bool remember(const struct stat *info)
{
    bool known = false;
    pthread_mutex_lock(&remembered_mutex);
    if (remembered_by != getpid())
        memset(remembered, 0, sizeof remembered);
    remembered_by = getpid();
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

/* Empties the file, unless this process has written to it before. EBUSY: it has, and must not; EWOULDBLOCK: another process
 * writes to it now, and holds its lock. */
static int open_file(const char *path, bool exclusive, uint64_t *size)
{
    struct stat info;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600); /* a tape has the clients' data */
    *size = 0;
    if (fd < 0 || fstat(fd, &info) || !S_ISREG(info.st_mode))
        return fd;
    bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; /* some file systems have no locks */
    bool known = remember(&info);
    int problem = known && exclusive ? EBUSY : !known && !locked ? EWOULDBLOCK : 0;
    if (!problem && !known && ftruncate(fd, 0))
        problem = errno;
    if (problem) {
        close(fd);
        errno = problem;
        return -1;
    }
    *size = known ? (uint64_t)info.st_size : 0;
    return fd;
}

/* The file becomes path.1, path.1 becomes path.2, ... False: it did not. */
static bool shift_files(const char *path, unsigned keep)
{
    size_t size = strlen(path) + 16;
    char *from = malloc(size), *to = malloc(size);
    bool shifted = false;
    for (unsigned k = keep; from && to && k > 0; k--) {
        snprintf(from, size, k > 1 ? "%s.%u" : "%s", path, k - 1);
        snprintf(to, size, "%s.%u", path, k);
        shifted = rename(from, to) == 0; /* fails at first: there are no old files yet */
    }
    free(from);
    free(to);
    return shifted;
}

/* Whether a process that ended has left something in this file, besides its head: not if it could not start. */
static bool is_left_behind(const char *path)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool left = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
                info.st_size > (off_t)sizeof((gt_file_writer *)0)->head &&
                (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK);
    if (fd >= 0)
        close(fd);
    return left;
}

static bool rotate(gt_file_writer *writer)
{
    shift_files(writer->path, writer->keep);
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

static bool write_plainly(gt_file_writer *writer, const char *data, size_t bytes)
{
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

/* In one file, at its beginning after the head. */
static bool write_all(gt_file_writer *writer, const char *data, size_t bytes)
{
    if (writer->rotate_bytes && writer->written && writer->written + bytes > writer->rotate_bytes &&
        !rotate(writer))
        return false;
    if (!writer->written && !write_plainly(writer, writer->head, writer->head_bytes))
        return false;
    return write_plainly(writer, data, bytes);
}

static void hand_over(gt_file_writer *writer, bool patient);

/* False: the texts cannot be written, and the writer of these has said so. */
static bool translate_buffer(gt_file_writer *writer, const buffer *full)
{
    gt_file_writer *texts = writer->texts;
    for (const char *from = full->data, *end = from + full->used; from < end;) {
        if (!texts->room.at && !gt__file_next_buffer(texts))
            return false;
        texts->room.at += writer->translate(writer->context, &from, end, texts->room.at,
                                            (size_t)(texts->room.end - texts->room.at));
        hand_over(texts, true);
    }
    return true;
}

static bool write_buffer(gt_file_writer *writer, const buffer *full)
{
    if (writer->seal)
        writer->seal(writer->context, full->data, full->used);
    return write_all(writer, full->data, full->used);
}

static void take_buffer(gt_file_writer *writer, const buffer *full)
{
    if (atomic_load(&writer->failed))
        return;
    if (writer->texts) {
        if (!translate_buffer(writer, full))
            atomic_store(&writer->failed, true);
    } else if (!write_buffer(writer, full)) {
        gt__log_error("the %s stops: %s: %s", writer->what, writer->path, strerror(errno));
        atomic_store(&writer->failed, true);
    }
}

static void *writer_main(void *argument)
{
    gt_file_writer *writer = argument;
    pthread_setname_np(pthread_self(), "gt log");
    uselocale(gt__plain_locale()); /* for writers that translate */
    pthread_mutex_lock(&writer->mutex);
    for (;;) {
        while (!writer->waiting && !writer->closing)
            pthread_cond_wait(&writer->changed, &writer->mutex);
        if (!writer->waiting)
            break;
        buffer *next = &writer->ring[writer->first];
        pthread_mutex_unlock(&writer->mutex);
        take_buffer(writer, next);
        pthread_mutex_lock(&writer->mutex);
        next->used = 0;
        writer->first = (writer->first + 1) % writer->buffers;
        writer->waiting--;
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writer->mutex);
    return NULL;
}

/* ---- the filling side --------------------------------------------------------------------------------------- */

static void hand_over(gt_file_writer *writer, bool patient)
{
    buffer *filling = &writer->ring[writer->filling];
    filling->used = (size_t)(writer->room.at - filling->data);
    pthread_mutex_lock(&writer->mutex);
    while (patient && writer->waiting == writer->buffers - 1)
        pthread_cond_wait(&writer->changed, &writer->mutex);
    if (writer->waiting < writer->buffers - 1) {
        writer->waiting++;
        writer->filling = (writer->filling + 1) % writer->buffers;
        writer->room.at = writer->room.end = NULL;
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writer->mutex);
}

char *gt__file_next_buffer(gt_file_writer *writer)
{
    if (writer->room.at)
        hand_over(writer, true);
    if (atomic_load(&writer->failed))
        return NULL;
    buffer *filling = &writer->ring[writer->filling];
    if (!filling->data && !(filling->data = malloc(writer->buffer_bytes))) {
        gt__log_error("the %s stops: out of memory", writer->what);
        atomic_store(&writer->failed, true);
        return NULL;
    }
    writer->room = (gt_file_room){.at = filling->data, .end = filling->data + writer->buffer_bytes};
    return writer->room.at;
}

size_t gt__file_most(const gt_file_writer *writer)
{
    return writer->buffer_bytes;
}

bool gt__file_failed(const gt_file_writer *writer)
{
    return atomic_load(&writer->failed) || (writer->texts && atomic_load(&writer->texts->failed));
}

static bool has_something(const gt_file_writer *writer)
{
    return writer->room.at && writer->room.at > writer->ring[writer->filling].data;
}

void gt__file_flush(gt_file_writer *writer)
{
    if (has_something(writer))
        hand_over(writer, false);
}

void gt__file_drain(gt_file_writer *writer)
{
    if (has_something(writer))
        hand_over(writer, true);
    pthread_mutex_lock(&writer->mutex);
    pthread_cond_broadcast(&writer->changed);
    while (writer->waiting)
        pthread_cond_wait(&writer->changed, &writer->mutex);
    pthread_mutex_unlock(&writer->mutex);
    if (writer->texts)
        gt__file_drain(writer->texts); /* its filling side waits for more */
}

/* ---- life --------------------------------------------------------------------------------------------------- */

static void writer_free(gt_file_writer *writer)
{
    if (writer->fd >= 0)
        close(writer->fd);
    for (unsigned k = 0; k < writer->buffers && writer->ring; k++)
        free(writer->ring[k].data);
    free(writer->ring);
    pthread_mutex_destroy(&writer->mutex);
    pthread_cond_destroy(&writer->changed);
    free(writer->path);
    free(writer);
}

/* The file, or, where another process writes to that, one beside it. */
static bool open_somewhere(gt_file_writer *writer, const gt_file_options *options)
{
    bool others = false;
    for (unsigned k = 2; writer->path; k++) {
        writer->fd = open_file(writer->path, options->exclusive, &writer->written);
        if (writer->fd >= 0 || (errno != EBUSY && errno != EWOULDBLOCK))
            break;
        others |= errno == EWOULDBLOCK;
        free(writer->path);
        /* a log may be rotated, and then the small numbers are its old files */
        if (asprintf(&writer->path, "%s.%u", options->path, options->exclusive ? k : (unsigned)getpid() + k - 2) <
            0)
            writer->path = NULL;
    }
    if (writer->fd >= 0 && others)
        gt__log_error("another process writes the %s %s; this one's is %s", options->what, options->path,
                      writer->path);
    return writer->fd >= 0;
}

/* Bytes of a buffer: a text, or with `seal` a buffer, is in one file. */
static size_t buffer_bytes_for(const gt_file_options *options, bool text)
{
    size_t most = text ? TEXT_BYTES : GT_FILE_BUFFER, least = text ? GT_FILE_TEXT : GT_FILE_LEAST;
    size_t head = text ? 0 : sizeof((gt_file_writer *)0)->head;
    if (!options->rotate_bytes || options->rotate_bytes >= most + head || (!text && !options->seal))
        return most;
    return options->rotate_bytes > least + head ? options->rotate_bytes - head : least;
}

/* `text`: the writer of what another one translates. */
static gt_err writer_open(const gt_file_options *options, bool text, gt_file_writer **out)
{
    gt_file_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    writer->fd = -1;
    writer->path = strdup(options->path);
    writer->what = options->what;
    writer->rotate_bytes = options->rotate_bytes;
    writer->keep = options->keep;
    writer->translate = text ? NULL : options->translate;
    writer->seal = options->seal;
    writer->head_bytes = options->head_bytes <= sizeof writer->head ? options->head_bytes : 0;
    if (writer->head_bytes)
        memcpy(writer->head, options->head, writer->head_bytes);
    writer->buffer_bytes = buffer_bytes_for(options, text);
    writer->context = options->context;
    writer->buffers = options->buffers && !text ? options->buffers : BUFFERS;
    writer->ring = calloc(writer->buffers, sizeof *writer->ring);
    pthread_mutex_init(&writer->mutex, NULL);
    pthread_cond_init(&writer->changed, NULL);
    gt_err err = GT_OK;
    if (!writer->path || !writer->ring)
        err = gt__fail(GT_ERR_MEMORY, "out of memory");
    else if (writer->translate)
        err = writer_open(options, true, &writer->texts);
    else if (options->keep_old && is_left_behind(options->path) && !shift_files(options->path, options->keep))
        err = gt__fail(GT_ERR_VALUE, "the %s %s of the server before cannot be kept as %s.1: %s", options->what,
                       options->path, options->path, strerror(errno));
    else if (!open_somewhere(writer, options))
        err =
            gt__fail(GT_ERR_VALUE, "cannot write the %s to %s: %s", options->what, options->path, strerror(errno));
    if (err == GT_OK)
        err = gt__thread_start(&writer->thread, writer_main, writer);
    if (err != GT_OK) {
        gt__file_close(&writer->texts);
        writer_free(writer);
        return err;
    }
    *out = writer;
    return GT_OK;
}

gt_err gt__file_open(const gt_file_options *options, gt_file_writer **out)
{
    return writer_open(options, false, out);
}

void gt__file_close(gt_file_writer **where)
{
    gt_file_writer *writer = *where;
    *where = NULL;
    if (!writer)
        return;
    if (has_something(writer))
        hand_over(writer, true);
    pthread_mutex_lock(&writer->mutex);
    writer->closing = true;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
    pthread_join(writer->thread, NULL);
    gt__file_close(&writer->texts);
    writer_free(writer);
}
