/* log_file.c: see log_file.h. */
#include "cli/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/array.h"
#include "dispatcher/observe/log_code.h"

enum { PIECE = 1 << 18 }; /* bytes of text that are read at a time */

struct gt_log_file {
    int fd;
    bool known, compact; /* known: the form, from the first bytes */
    char *data;          /* what was read and not passed on yet */
    size_t used, capacity;
    char *text; /* of a block */
    size_t text_capacity;
    uint64_t last; /* number of the last line of a compact log */
    gt_log_decoder *decoder;
    gt_log_format *format;
    size_t passed; /* bytes at the beginning of data that the last call has passed on */
};

gt_err gt__log_file_open(const char *path, gt_log_file **out)
{
    gt_log_file *file = gt__zeroed(1, sizeof *file);
    *out = file;
    file->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (file->fd < 0) {
        gt__log_file_close(out);
        return gt__fail(GT_ERR_VALUE, "cannot read %s: %s", path, strerror(errno));
    }
    file->decoder = gt__log_decoder_new();
    file->format = gt__log_format_new();
    if (!file->decoder || !file->format)
        gt__out_of_memory();
    return GT_OK;
}

void gt__log_file_close(gt_log_file **where)
{
    gt_log_file *file = *where;
    *where = NULL;
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    gt__log_decoder_free(file->decoder);
    gt__log_format_free(file->format);
    free(file->data);
    free(file->text);
    free(file);
}

static void make_room(char **data, size_t *capacity, size_t wanted)
{
    while (*capacity < wanted)
        gt__array_room((void **)data, *capacity, capacity, 1);
}

/* Have `wanted` bytes, if the file has as many. */
static gt_err fill(gt_log_file *file, size_t wanted)
{
    make_room(&file->data, &file->capacity, wanted);
    while (file->used < wanted) {
        ssize_t got = read(file->fd, file->data + file->used, wanted - file->used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return gt__fail(GT_ERR_VALUE, "the log cannot be read: %s", strerror(errno));
        if (!got)
            break;
        file->used += (size_t)got;
    }
    return GT_OK;
}

static void drop(gt_log_file *file, size_t bytes)
{
    if (!bytes)
        return;
    memmove(file->data, file->data + bytes, file->used - bytes);
    file->used -= bytes;
}

/* Find out which form it is. */
static gt_err read_head(gt_log_file *file)
{
    gt_log_head head;
    GT_TRY(fill(file, sizeof head));
    uint64_t magic = GT_LOG_MAGIC;
    size_t compare = file->used < sizeof magic ? file->used : sizeof magic;
    if (!file->used || (file->used < sizeof head && memcmp(file->data, &magic, compare) == 0))
        return GT_OK; /* empty, or not written yet */
    file->known = true;
    file->compact = compare == sizeof magic && memcmp(file->data, &magic, sizeof magic) == 0;
    if (!file->compact)
        return GT_OK;
    memcpy(&head, file->data, sizeof head);
    drop(file, sizeof head);
    return head.version == GT_LOG_VERSION && gt__op_table_extends(head.table_hash)
               ? GT_OK
               : gt__fail(GT_ERR_VALUE,
                          "the log was written by another version of GT: read it with that version's "
                          "`gt log`");
}

static gt_err next_block(gt_log_file *file, const char **text, size_t *size)
{
    gt_log_block head;
    GT_TRY(fill(file, sizeof head));
    if (file->used < sizeof head)
        return GT_OK;
    memcpy(&head, file->data, sizeof head);
    gt_err err = head.magic == GT_LOG_BLOCK_MAGIC && head.bytes >= sizeof head && head.bytes <= GT_LOG_MOST_BLOCK
                     ? GT_OK
                     : gt__fail(GT_ERR_PROTOCOL, "there is no block");
    if (err == GT_OK)
        GT_TRY(fill(file, head.bytes));
    if (err == GT_OK && file->used < head.bytes)
        return GT_OK; /* it was cut, or is being written */
    if (err == GT_OK)
        err = gt__log_block_open(file->decoder, file->data, head.bytes, true);
    bool there = err == GT_OK;
    while (there) {
        gt_log_event event;
        make_room(&file->text, &file->text_capacity, *size + GT_LOG_LINE);
        err = gt__log_block_next(file->decoder, &event, &there);
        if (err != GT_OK || !there)
            break;
        *size += (size_t)(gt__log_line(file->format, &event, file->text + *size) - (file->text + *size));
        file->last = event.sequence;
    }
    *text = file->text;
    file->passed = err == GT_OK ? head.bytes : 0;
    if (err == GT_ERR_PROTOCOL) {
        char problem[128];
        snprintf(problem, sizeof problem, "%s", gt_error_text());
        return gt__fail(err, "the log is damaged after line #%04llu: %s", (unsigned long long)file->last, problem);
    }
    return err;
}

static gt_err next_lines(gt_log_file *file, const char **text, size_t *size)
{
    const char *end = NULL;
    for (size_t before = SIZE_MAX; !end && file->used != before;) { /* damage may be longer than a piece */
        before = file->used;
        GT_TRY(fill(file, file->used + PIECE));
        end = memrchr(file->data, '\n', file->used);
    }
    *text = file->data;
    *size = file->passed = end ? (size_t)(end + 1 - file->data) : 0;
    return GT_OK;
}

gt_err gt__log_file_next(gt_log_file *file, const char **text, size_t *size)
{
    *text = "";
    *size = 0;
    drop(file, file->passed);
    file->passed = 0;
    if (!file->known)
        GT_TRY(read_head(file));
    if (!file->known)
        return GT_OK;
    return file->compact ? next_block(file, text, size) : next_lines(file, text, size);
}

size_t gt__log_file_rest(const gt_log_file *file)
{
    return file->used - file->passed;
}

/* What is left at the end: the last line of a text may lack its end; a block that was cut is not read. */
static void read_rest(gt_log_file *file, const char *path, FILE *complaints, char **text, size_t *size)
{
    size_t rest = gt__log_file_rest(file);
    if (rest && !file->compact && file->known) {
        memcpy(*text + *size, file->data, rest);
        *size += rest;
    } else if (rest)
        fprintf(complaints, "%s: the end is cut off after line #%04llu\n", path, (unsigned long long)file->last);
}

gt_err gt__log_file_read(const char *path, FILE *complaints, char **text, size_t *size)
{
    gt_log_file *file;
    const char *piece;
    size_t capacity = 0, bytes = 0;
    *text = NULL;
    *size = 0;
    GT_TRY(gt__log_file_open(path, &file));
    gt_err err;
    do {
        err = gt__log_file_next(file, &piece, &bytes);
        make_room(text, &capacity, *size + bytes + 1);
        if (bytes)
            memcpy(*text + *size, piece, bytes);
        *size += bytes;
    } while (err == GT_OK && bytes);
    if (err == GT_ERR_PROTOCOL) {
        fprintf(complaints, "%s: %s\n", path, gt_error_text());
        err = GT_OK;
    } else if (err == GT_OK) {
        make_room(text, &capacity, *size + gt__log_file_rest(file) + 1);
        read_rest(file, path, complaints, text, size);
    }
    (*text)[*size] = 0;
    gt__log_file_close(&file);
    return err;
}
