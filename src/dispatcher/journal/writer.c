/*
 * writer.c: see writer.h. Place in the flow: journaled.c -> here -> disk.
 *
 * A batch is what the dispatcher puts in one turn, or a buffer full of it: a list of items. An item is a buffer of frames, the data of a tensor, or an
 * order to begin a generation or to remove the old ones. The thread takes them in order.
 */
#include "dispatcher/journal/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/log.h"
#include "core/thread.h"

enum {
    BUFFER = 128 << 10, /* bytes of frames that are written together, about */
    SPARE = 8,          /* buffers that are kept for the next turns */
    SYNC_MS = 100,      /* at GT_JOURNAL_INTERVAL */
    PATH_BYTES = 4096,
};

typedef enum item_kind { FRAMES, DATA, GENERATION, REMOVAL, SPOIL } item_kind;

typedef struct journal_item {
    struct journal_item *next;
    item_kind kind;
    uint64_t batch;
    uint64_t cost;        /* bytes in the file */
    uint64_t generations; /* REMOVAL: see the writer's */
    /* FRAMES */
    uint8_t *bytes;
    size_t used, capacity;
    /* DATA */
    uint64_t session, tensor;
    uint32_t part;
    gt_journal_source source;
} journal_item;

typedef struct item_list {
    journal_item *first, *last;
} item_list;

struct gt_journal_writer {
    char *directory;
    int lock, port;
    gt_journal_sync sync;
    void (*notify)(void *context);
    void *context;
    pthread_t thread;

    /* The dispatcher's. */
    item_list filling;    /* not handed over yet */
    uint64_t batch;       /* the number of that batch */
    uint64_t bytes;       /* of this generation */
    uint64_t generations; /* that were put, and one for the files that were there before */
    journal_item *spare;  /* buffers */
    journal_item *spoil;  /* there must be one when memory is short; NULL: it was put */
    unsigned spare_count;
    atomic_uint_fast64_t safe;    /* batches */
    atomic_uint_fast64_t behind;  /* bytes that wait */
    atomic_uint_fast64_t removed; /* of `generations`, those before which all files are removed */
    atomic_bool awaited, failed;
    char failure[256]; /* constant once `failed` is set */

    /* The thread's. */
    int fd;
    uint64_t generation, oldest, sequence;
    uint64_t dirty_ns; /* since when there is something to sync; 0: there is nothing */
    uint8_t *piece;    /* a DATA frame */

    pthread_mutex_t mutex; /* for all below */
    pthread_cond_t changed;
    item_list queue, done;
    bool stopping;
};

bool gt__journal_sync_read(const char *word, gt_journal_sync *sync)
{
    static const char *const words[] = {
        [GT_JOURNAL_INTERVAL] = "interval", [GT_JOURNAL_ALWAYS] = "always", [GT_JOURNAL_NEVER] = "never"};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (!strcmp(word, words[k])) {
            *sync = (gt_journal_sync)k;
            return true;
        }
    return false;
}

/* ---- lists -------------------------------------------------------------------------------------------------- */

static void append(item_list *list, journal_item *first, journal_item *last)
{
    *(list->last ? &list->last->next : &list->first) = first;
    list->last = last;
}

static void free_items(item_list *list)
{
    while (list->first) {
        journal_item *next = list->first->next;
        if (list->first->source.release)
            list->first->source.release(list->first->source.context);
        free(list->first->bytes);
        free(list->first);
        list->first = next;
    }
    list->last = NULL;
}

/* ---- files -------------------------------------------------------------------------------------------------- */

static void file_path(const gt_journal_writer *writer, uint64_t generation, char *path)
{
    snprintf(path, PATH_BYTES, "%s/journal.%llu", writer->directory, (unsigned long long)generation);
}

/* Names in the directory survive a power failure, too. */
static bool sync_directory(const gt_journal_writer *writer)
{
    if (writer->sync == GT_JOURNAL_NEVER)
        return true;
    int fd = open(writer->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return synced;
}

static bool write_all(int fd, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t wrote = write(fd, (const char *)data + done, bytes - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            errno = wrote ? errno : ENOSPC;
            return false;
        }
        done += (size_t)wrote;
    }
    return true;
}

static bool sync_file(gt_journal_writer *writer)
{
    writer->dirty_ns = 0;
    return writer->sync == GT_JOURNAL_NEVER || fdatasync(writer->fd) == 0;
}

/* The file of the present generation. False: errno says why not. */
static bool open_file(gt_journal_writer *writer)
{
    char path[PATH_BYTES];
    gt_journal_header header;
    file_path(writer, writer->generation, path);
    writer->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (writer->fd < 0)
        return false;
    gt__journal_header_make(&header, writer->generation, writer->sequence, writer->port);
    return write_all(writer->fd, &header, sizeof header) && sync_file(writer) && sync_directory(writer);
}

static bool next_generation(gt_journal_writer *writer)
{
    if (!sync_file(writer))
        return false;
    close(writer->fd);
    writer->generation++;
    return open_file(writer);
}

static bool remove_old(gt_journal_writer *writer)
{
    char path[PATH_BYTES];
    if (!sync_file(writer)) /* before what it replaces is gone */
        return false;
    for (; writer->oldest < writer->generation; writer->oldest++) {
        file_path(writer, writer->oldest, path);
        if (unlink(path) < 0 && errno != ENOENT)
            return false;
    }
    return sync_directory(writer);
}

/* Nothing of it may be read again. Emptied as well as removed: one of the two may be impossible. */
static void destroy_files(gt_journal_writer *writer)
{
    char path[PATH_BYTES];
    for (uint64_t generation = writer->oldest; generation <= writer->generation; generation++) {
        file_path(writer, generation, path);
        bool emptied = truncate(path, 0) == 0;
        if (unlink(path) < 0 && errno != ENOENT && !emptied)
            gt__log_warning("%s cannot be removed (%s): remove it before the server is started again", path,
                            strerror(errno));
    }
    sync_directory(writer);
}

/* ---- the thread --------------------------------------------------------------------------------------------- */

static bool write_frames(gt_journal_writer *writer, journal_item *frames)
{
    for (size_t at = 0; at < frames->used;) {
        gt_frame *frame = (gt_frame *)(frames->bytes + at);
        gt__frame_seal(frame, writer->sequence++);
        at += gt__frame_size(frame->bytes);
    }
    return write_all(writer->fd, frames->bytes, frames->used);
}

static bool write_data(gt_journal_writer *writer, const journal_item *data)
{
    gt_frame *frame = (gt_frame *)writer->piece;
    gt_frame_data *head = (gt_frame_data *)(frame + 1);
    const gt_journal_source *source = &data->source;
    for (uint64_t offset = 0; offset < source->bytes;) {
        uint64_t left = source->bytes - offset, piece = left < GT_JOURNAL_PIECE ? left : GT_JOURNAL_PIECE;
        size_t bytes = sizeof *head + piece, size = gt__frame_size(bytes);
        *frame = (gt_frame){.bytes = (uint32_t)bytes, .kind = GT_FRAME_DATA, .session = data->session};
        *head = (gt_frame_data){.number = data->tensor, .offset = offset, .part = data->part};
        memset(writer->piece + size - 8, 0, 8); /* the padding */
        if (source->data)
            memcpy(head + 1, source->data + offset, piece);
        else if (!gt__spooled_read(source->spooled, offset, head + 1, piece)) {
            errno = EIO;
            return false;
        }
        gt__frame_seal(frame, writer->sequence++);
        if (!write_all(writer->fd, frame, size))
            return false;
        offset += piece;
    }
    return true;
}

static bool write_item(gt_journal_writer *writer, journal_item *item)
{
    bool ok = item->kind == FRAMES       ? write_frames(writer, item)
              : item->kind == DATA       ? write_data(writer, item)
              : item->kind == GENERATION ? next_generation(writer)
              : item->kind == REMOVAL    ? remove_old(writer)
                                         : (errno = ENOMEM, false);
    atomic_fetch_sub(&writer->behind, item->cost);
    if (item->kind == REMOVAL && ok)
        atomic_store(&writer->removed, item->generations);
    return ok;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void fail(gt_journal_writer *writer)
{
    snprintf(writer->failure, sizeof writer->failure, "the journal in %.128s cannot be written: %.80s",
             writer->directory, strerror(errno));
    gt__log_warning("%s. Programs go on, but end with this server", writer->failure);
    destroy_files(writer);
    writer->dirty_ns = 0; /* nothing is left to be synced: the thread would wake for it for ever */
    atomic_store(&writer->failed, true);
}

/* All of the items in order, then what the policy wants. Not locked. False: nothing more is written. */
static bool write_items(gt_journal_writer *writer, const item_list *items)
{
    bool ok = !atomic_load(&writer->failed);
    for (journal_item *item = items->first; item && ok; item = item->next)
        ok = write_item(writer, item);
    if (ok && items->first && !writer->dirty_ns)
        writer->dirty_ns = now_ns();
    bool due = writer->sync == GT_JOURNAL_ALWAYS ||
               (writer->dirty_ns && now_ns() - writer->dirty_ns >= SYNC_MS * (uint64_t)1000000);
    if (ok && due)
        ok = sync_file(writer);
    if (!ok && !atomic_load(&writer->failed))
        fail(writer);
    return ok;
}

/* Wait for items, or until it is time to sync. Locked. False: it is time to end, and there is nothing left. */
static bool await_items(gt_journal_writer *writer)
{
    while (!writer->queue.first && !writer->stopping) {
        if (!writer->dirty_ns || writer->sync != GT_JOURNAL_INTERVAL) {
            pthread_cond_wait(&writer->changed, &writer->mutex);
            continue;
        }
        uint64_t until = writer->dirty_ns + SYNC_MS * (uint64_t)1000000;
        struct timespec when = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
        if (pthread_cond_timedwait(&writer->changed, &writer->mutex, &when) == ETIMEDOUT)
            return true;
    }
    return writer->queue.first;
}

static void *run(void *context)
{
    gt_journal_writer *writer = context;
    pthread_mutex_lock(&writer->mutex);
    while (await_items(writer)) {
        item_list items = writer->queue;
        writer->queue = (item_list){0};
        pthread_mutex_unlock(&writer->mutex);
        bool ok = write_items(writer, &items);
        uint64_t batch = items.last ? items.last->batch : 0;
        pthread_mutex_lock(&writer->mutex);
        if (items.first)
            append(&writer->done, items.first, items.last);
        pthread_mutex_unlock(&writer->mutex);
        if (!ok)
            atomic_store(&writer->behind, 0);
        else if (batch)
            atomic_store(&writer->safe, batch);
        if (!ok || atomic_exchange(&writer->awaited, false))
            writer->notify(writer->context);
        pthread_mutex_lock(&writer->mutex);
    }
    pthread_mutex_unlock(&writer->mutex);
    if (!atomic_load(&writer->failed) && writer->dirty_ns && !sync_file(writer))
        fail(writer);
    return NULL;
}

/* ---- life --------------------------------------------------------------------------------------------------- */

/* Whoever can write to the folder can put a journal there, and with it sessions of others and their secrets. */
static gt_err check_owner(const char *directory, int fd)
{
    struct stat about;
    if (fstat(fd, &about) < 0)
        return gt__fail(GT_ERR_VALUE, "the journal cannot be in %s: %s", directory, strerror(errno));
    if (about.st_uid != geteuid())
        return gt__fail(GT_ERR_VALUE,
                        "the folder %s of the journal belongs to user %u, and this server runs as user %u: "
                        "choose one of its own",
                        directory, (unsigned)about.st_uid, (unsigned)geteuid());
    if (about.st_mode & (S_IWGRP | S_IWOTH))
        return gt__fail(GT_ERR_VALUE,
                        "other users may write to the folder %s of the journal, which has programs and secrets: "
                        "chmod 700 it, or choose another",
                        directory);
    return GT_OK;
}

static gt_err lock_folder(const char *directory, int fd)
{
    GT_TRY(check_owner(directory, fd));
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return GT_OK;
    return errno == EWOULDBLOCK
               ? gt__fail(GT_ERR_VALUE, "another server has its journal in %s", directory)
               : gt__fail(GT_ERR_VALUE, "the journal cannot be in %s: %s", directory, strerror(errno));
}

/* The name of a folder that was just made survives a power failure, too. */
static void sync_parent(int fd)
{
    int parent = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return; /* it may not be readable for us */
    fsync(parent);
    close(parent);
}

gt_err gt__journal_lock(const char *directory, int *lock)
{
    char path[PATH_BYTES];
    if ((size_t)snprintf(path, sizeof path, "%s/journal.18446744073709551615", directory) >= sizeof path)
        return gt__fail(GT_ERR_VALUE, "the name of the folder of the journal is too long");
    bool made = mkdir(directory, 0700) == 0;
    if (!made && errno != EEXIST)
        return gt__fail(GT_ERR_VALUE, "the folder %s of the journal cannot be made: %s", directory,
                        strerror(errno));
    *lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0)
        return gt__fail(GT_ERR_VALUE, "the journal cannot be in %s: %s", directory, strerror(errno));
    if (made)
        sync_parent(*lock);
    gt_err err = lock_folder(directory, *lock);
    if (err != GT_OK) {
        close(*lock);
        *lock = -1;
    }
    return err;
}

static void destroy(gt_journal_writer *writer)
{
    free_items(&(item_list){.first = writer->spare});
    free_items(&writer->filling);
    free_items(&writer->queue);
    free_items(&writer->done);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->mutex);
    if (writer->fd >= 0)
        close(writer->fd);
    close(writer->lock);
    free(writer->spoil);
    free(writer->piece);
    free(writer->directory);
    free(writer);
}

gt_err gt__journal_writer_new(const gt_journal_writer_options *options, gt_journal_writer **out)
{
    pthread_condattr_t monotonic;
    gt_journal_writer *writer = calloc(1, sizeof *writer);
    if (!writer) {
        close(options->lock);
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    writer->lock = options->lock;
    writer->port = options->port;
    writer->sync = options->sync;
    writer->notify = options->notify;
    writer->context = options->context;
    writer->generation = options->generation;
    writer->sequence = options->sequence;
    writer->generations = options->generation > options->oldest;
    writer->oldest = options->oldest;
    writer->batch = 1;
    writer->bytes = sizeof(gt_journal_header);
    writer->fd = -1;
    pthread_mutex_init(&writer->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&writer->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    writer->directory = strdup(options->directory);
    writer->piece = malloc(gt__frame_size(sizeof(gt_frame_data) + GT_JOURNAL_PIECE));
    writer->spoil = calloc(1, sizeof *writer->spoil);
    gt_err err =
        writer->directory && writer->piece && writer->spoil ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
    if (err == GT_OK && !open_file(writer))
        err =
            gt__fail(GT_ERR_VALUE, "the journal in %s cannot be written: %s", options->directory, strerror(errno));
    if (err == GT_OK)
        err = gt__thread_start(&writer->thread, run, writer);
    if (err != GT_OK)
        destroy(writer);
    else
        *out = writer;
    return err;
}

void gt__journal_writer_free(gt_journal_writer **where)
{
    gt_journal_writer *writer = *where;
    *where = NULL;
    if (!writer)
        return;
    gt__journal_flush(writer);
    pthread_mutex_lock(&writer->mutex);
    writer->stopping = true;
    pthread_cond_signal(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
    pthread_join(writer->thread, NULL);
    destroy(writer);
}

/* ---- the dispatcher's side ------------------------------------------------------------------------------------ */

static journal_item *put_item(gt_journal_writer *writer, item_kind kind)
{
    journal_item *item =
        atomic_load_explicit(&writer->failed, memory_order_relaxed) ? NULL : calloc(1, sizeof *item);
    if (!item)
        return NULL;
    item->kind = kind;
    append(&writer->filling, item, item);
    return item;
}

/* A buffer with this much room; NULL: out of memory. */
static journal_item *put_buffer(gt_journal_writer *writer, size_t bytes)
{
    journal_item *buffer = bytes <= BUFFER ? writer->spare : NULL;
    if (buffer) {
        writer->spare = buffer->next;
        writer->spare_count--;
        *buffer = (journal_item){.kind = FRAMES, .bytes = buffer->bytes, .capacity = buffer->capacity};
        append(&writer->filling, buffer, buffer);
        return buffer;
    }
    size_t capacity = bytes > BUFFER ? bytes : BUFFER;
    uint8_t *room = malloc(capacity);
    buffer = room ? put_item(writer, FRAMES) : NULL;
    if (!buffer) {
        free(room);
        return NULL;
    }
    buffer->bytes = room;
    buffer->capacity = capacity;
    return buffer;
}

static void add_cost(gt_journal_writer *writer, journal_item *item, uint64_t bytes)
{
    item->cost += bytes;
    writer->bytes += bytes;
    atomic_fetch_add_explicit(&writer->behind, bytes, memory_order_relaxed);
}

void *gt__journal_put(gt_journal_writer *writer, gt_frame_kind kind, uint64_t session, size_t bytes)
{
    size_t size = gt__frame_size(bytes);
    journal_item *frames = writer->filling.last;
    if (bytes > UINT32_MAX || atomic_load_explicit(&writer->failed, memory_order_relaxed))
        return NULL;
    if ((!frames || frames->kind != FRAMES || frames->capacity - frames->used < size) &&
        !(frames = put_buffer(writer, size)))
        return NULL;
    gt_frame *frame = (gt_frame *)(frames->bytes + frames->used);
    memset(frame, 0, size);
    frame->bytes = (uint32_t)bytes;
    frame->kind = kind;
    frame->session = session;
    frames->used += size;
    add_cost(writer, frames, size);
    return frame + 1;
}

bool gt__journal_put_data(gt_journal_writer *writer, uint64_t session, uint64_t tensor, uint32_t part,
                          const gt_journal_source *source)
{
    journal_item *data = put_item(writer, DATA);
    if (!data)
        return false;
    data->session = session;
    data->tensor = tensor;
    data->part = part;
    data->source = *source;
    uint64_t whole = source->bytes / GT_JOURNAL_PIECE, rest = source->bytes % GT_JOURNAL_PIECE;
    add_cost(writer, data,
             whole * gt__frame_size(sizeof(gt_frame_data) + GT_JOURNAL_PIECE) +
                 (rest ? gt__frame_size(sizeof(gt_frame_data) + rest) : 0));
    return true;
}

bool gt__journal_put_generation(gt_journal_writer *writer)
{
    if (!put_item(writer, GENERATION))
        return false;
    writer->bytes = sizeof(gt_journal_header);
    writer->generations++;
    return true;
}

bool gt__journal_put_removal(gt_journal_writer *writer)
{
    journal_item *removal = put_item(writer, REMOVAL);
    if (removal)
        removal->generations = writer->generations;
    return removal;
}

void gt__journal_spoil(gt_journal_writer *writer)
{
    if (!writer->spoil)
        return;
    writer->spoil->kind = SPOIL;
    append(&writer->filling, writer->spoil, writer->spoil);
    writer->spoil = NULL;
}

void gt__journal_flush(gt_journal_writer *writer)
{
    if (!writer->filling.first)
        return;
    for (journal_item *item = writer->filling.first; item; item = item->next)
        item->batch = writer->batch;
    writer->batch++;
    pthread_mutex_lock(&writer->mutex);
    append(&writer->queue, writer->filling.first, writer->filling.last);
    pthread_cond_signal(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
    writer->filling = (item_list){0};
}

uint64_t gt__journal_mark(const gt_journal_writer *writer)
{
    return writer->filling.first ? writer->batch : writer->batch - 1;
}

uint64_t gt__journal_safe(const gt_journal_writer *writer)
{
    return atomic_load(&writer->safe);
}

void gt__journal_await(gt_journal_writer *writer)
{
    atomic_store(&writer->awaited, true);
}

void gt__journal_reap(gt_journal_writer *writer)
{
    pthread_mutex_lock(&writer->mutex);
    item_list done = writer->done;
    writer->done = (item_list){0};
    pthread_mutex_unlock(&writer->mutex);
    while (done.first && writer->spare_count < SPARE) { /* the first are the most usual: turns */
        journal_item *item = done.first;
        if (item->kind != FRAMES || item->capacity != BUFFER)
            break;
        done.first = item->next;
        item->next = writer->spare;
        writer->spare = item;
        writer->spare_count++;
    }
    free_items(&done);
}

uint64_t gt__journal_bytes(const gt_journal_writer *writer)
{
    return writer->bytes;
}

uint64_t gt__journal_behind(const gt_journal_writer *writer)
{
    return atomic_load(&writer->behind);
}

bool gt__journal_has_old(const gt_journal_writer *writer)
{
    return atomic_load(&writer->removed) < writer->generations;
}

uint64_t gt__journal_generation(const gt_journal_writer *writer)
{
    return writer->generations + 1;
}

const char *gt__journal_failure(const gt_journal_writer *writer)
{
    return atomic_load(&writer->failed) ? writer->failure : NULL;
}
