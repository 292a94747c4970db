/* restored.c: see restored.h. Place in the flow: the files -> here -> read.c. */
#include "dispatcher/journal/restored.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"
#include "dispatcher/journal/read.h"

enum { PATH_BYTES = 4096 };

/* The reading so far. */
typedef struct journal_reading {
    gt_journal_reader *reader;
    int port;
    uint64_t sequence; /* that the next frame has; 0: any */
    uint64_t generation;
} journal_reading;

static void name_lost(const gt_restored_session *session)
{
    gt__log_warning("client %llu (%s) cannot be restored: frames of the journal are missing",
                    (unsigned long long)session->number, session->name);
}

/* A file of which nothing was written, or only zeros: the server ended when it had made it. */
static bool is_unwritten(const uint8_t *bytes, size_t size)
{
    for (size_t k = 0; size >= sizeof(gt_journal_header) && k < sizeof(gt_journal_header); k++)
        if (bytes[k])
            return false;
    return true;
}

/* *good: the bytes up to the end of the last frame that counts. */
static gt_err read_bytes(journal_reading *reading, const char *path, const uint8_t *bytes, size_t size,
                         size_t *good)
{
    gt_journal_header header;
    const gt_frame *frame;
    *good = 0;
    if (is_unwritten(bytes, size))
        return GT_OK;
    memcpy(&header, bytes, sizeof header);
    GT_TRY(gt__journal_header_check(&header, path, reading->port));
    if (header.sequence < reading->sequence || header.generation <= reading->generation)
        return gt__fail(GT_ERR_VALUE,
                        "%s: generation %llu of the journal begins with frame %llu, but frame %llu is the next; "
                        "move the folder away",
                        path, (unsigned long long)header.generation, (unsigned long long)header.sequence,
                        (unsigned long long)reading->sequence);
    gt__journal_reader_begin(reading->reader, reading->sequence && header.sequence > reading->sequence);
    reading->sequence = header.sequence;
    reading->generation = header.generation;
    for (*good = sizeof header; (frame = gt__frame_check(bytes + *good, size - *good, reading->sequence));
         *good += gt__frame_size(frame->bytes)) {
        gt_err err = gt__journal_reader_frame(reading->reader, frame);
        if (err == GT_ERR_MEMORY)
            return gt__fail(err, "%s: memory is short at byte %zu of the journal, which stays as it is", path,
                            *good);
        if (err != GT_OK)
            break;
        reading->sequence++;
    }
    return GT_OK;
}

static gt_err read_file(journal_reading *reading, const char *path, bool newest)
{
    struct stat about;
    size_t good = 0;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &about) < 0 || !S_ISREG(about.st_mode)) {
        gt_err err =
            gt__fail(GT_ERR_VALUE, "%s cannot be read: %s", path, fd < 0 ? strerror(errno) : "not a file");
        if (fd >= 0)
            close(fd);
        return err;
    }
    size_t size = (size_t)about.st_size;
    const uint8_t *bytes = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    gt_err err = bytes == MAP_FAILED ? gt__fail(GT_ERR_VALUE, "%s cannot be read: %s", path, strerror(errno))
                                     : read_bytes(reading, path, bytes, size, &good);
    if (bytes && bytes != MAP_FAILED)
        munmap((void *)bytes, size);
    if (err == GT_OK && good < size) {
        gt__log_warning("%s: the journal ends at byte %zu; the %zu bytes behind it are not whole%s", path, good,
                        size - good, newest ? ", and are cut off" : "");
        if (newest && ftruncate(fd, (off_t)good) < 0)
            err = gt__fail(GT_ERR_VALUE, "%s cannot be cut off at byte %zu: %s", path, good, strerror(errno));
    }
    /* What was read may be in the system's memory only, and clients are told at once that it is safe. */
    if (err == GT_OK && fsync(fd) < 0)
        err = gt__fail(GT_ERR_VALUE, "%s cannot be synced to the disk: %s", path, strerror(errno));
    close(fd);
    return err;
}

/* The generations in the directory, in order. */
static gt_err find_files(const char *directory, uint64_t **generations, unsigned *count)
{
    DIR *listing = opendir(directory);
    const struct dirent *entry;
    unsigned capacity = 0;
    if (!listing)
        return gt__fail(GT_ERR_VALUE, "the folder %s of the journal cannot be read: %s", directory,
                        strerror(errno));
    gt_err err = GT_OK;
    while (err == GT_OK && (entry = readdir(listing))) {
        unsigned long long generation;
        int end = 0;
        if (sscanf(entry->d_name, "journal.%llu%n", &generation, &end) < 1 || entry->d_name[end])
            continue;
        if (*count == capacity) {
            capacity = capacity ? 2 * capacity : 8;
            uint64_t *grown = realloc(*generations, capacity * sizeof *grown);
            if (!grown) {
                err = gt__fail(GT_ERR_MEMORY, "out of memory");
                break;
            }
            *generations = grown;
        }
        unsigned at = (*count)++;
        for (; at && (*generations)[at - 1] > generation; at--)
            (*generations)[at] = (*generations)[at - 1];
        (*generations)[at] = generation;
    }
    closedir(listing);
    return err;
}

/* What was read, or the error. Frees the reader. */
static gt_err result(const journal_reading *reading, gt_err err, gt_restored **out)
{
    gt_restored *restored = err == GT_OK ? calloc(1, sizeof *restored) : NULL;
    if (err == GT_OK)
        err = restored ? gt__journal_reader_result(reading->reader, name_lost, restored)
                       : gt__fail(GT_ERR_MEMORY, "out of memory");
    gt__journal_reader_free(reading->reader);
    if (err != GT_OK) {
        gt__restored_free(&restored);
        return err;
    }
    restored->sequence = reading->sequence ? reading->sequence : 1;
    restored->oldest = restored->generation = reading->generation + 1;
    *out = restored;
    return GT_OK;
}

gt_err gt__restored_read(const char *directory, int port, gt_restored **out)
{
    journal_reading reading = {.reader = gt__journal_reader_new(), .port = port};
    uint64_t *generations = NULL;
    unsigned count = 0;
    char path[PATH_BYTES];
    *out = NULL;
    if (!reading.reader)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_err err = find_files(directory, &generations, &count);
    for (unsigned k = 0; k < count && err == GT_OK; k++) {
        snprintf(path, sizeof path, "%s/journal.%llu", directory, (unsigned long long)generations[k]);
        err = read_file(&reading, path, k + 1 == count);
    }
    err = result(&reading, err, out);
    if (err == GT_OK && count) {
        (*out)->files = count;
        (*out)->oldest = generations[0];
        uint64_t newest = generations[count - 1]; /* perhaps one that was not written */
        (*out)->generation = newest >= (*out)->generation ? newest + 1 : (*out)->generation;
    }
    free(generations);
    return err;
}

gt_err gt__restored_parse(const void *bytes, size_t size, int port, size_t *good, gt_restored **out)
{
    journal_reading reading = {.reader = gt__journal_reader_new(), .port = port};
    *out = NULL;
    if (!reading.reader)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    return result(&reading, read_bytes(&reading, "journal", bytes, size, good), out);
}

gt_restored_session *gt__restored_find(const gt_restored *restored, uint64_t number)
{
    for (uint32_t k = 0; k < restored->session_count; k++)
        if (restored->session[k] && restored->session[k]->number == number)
            return restored->session[k];
    return NULL;
}

void gt__restored_free(gt_restored **where)
{
    gt_restored *restored = *where;
    *where = NULL;
    if (!restored)
        return;
    for (uint32_t k = 0; k < restored->session_count; k++)
        gt__restored_session_free(restored->session[k]);
    free(restored->session);
    free(restored->worker);
    free(restored);
}
