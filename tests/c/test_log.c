/*
 * test_log.c: how the instruction log is written: that no event becomes a line longer than it may be, and that the file's
 * thread loses nothing, keeps whole lines together, and gives up on a disk or a reader that does.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "dispatcher/observe/file_writer.h"
#include "dispatcher/observe/log_text.h"

static char path[64];

/* ---- lines -------------------------------------------------------------------------------------------------- */

/* An event of the heap's, so that sanitizers see its end; `text` follows the record. */
static gt_log_event *event_new(gt_event kind, gt_opcode op, unsigned slots, size_t text)
{
    size_t bytes = sizeof(gt_log_event) + slots * sizeof(gt_slot) + text;
    gt_log_event *event = malloc(bytes);
    memset(event, 0xff, bytes);
    event->event = (uint8_t)kind;
    event->op = (uint16_t)op;
    event->source = 3;
    event->failed = true;
    event->slots = (uint8_t)slots;
    event->text = (uint16_t)text;
    memset(gt__log_event_payload(event) + slots * sizeof(gt_slot), 'x', text);
    return event;
}

/* The line of an event, in as much room as it is promised; NUL-ended. */
static const char *line_of(gt_log_format *format, gt_log_event *event)
{
    static char text[GT_LOG_LINE + 1];
    char *room = malloc(GT_LOG_LINE);
    size_t length = (size_t)(gt__log_line(format, event, room) - room);
    length = CHECK(length <= GT_LOG_LINE) ? length : 0;
    memcpy(text, room, length);
    text[length] = 0;
    CHECK(!length || text[length - 1] == '\n');
    free(room);
    free(event);
    return text;
}

static gt_log_format *format_new(void)
{
    gt_log_format *format = gt__log_format_new();
    char name[256], text[GT_LOG_SOURCE];
    memset(name, 'w', sizeof name);
    name[sizeof name - 1] = 0;
    name[3] = '|';
    name[4] = '\n';
    unsigned length = gt__log_source_text(text, "WORKER", name);
    CHECK(length < GT_LOG_SOURCE && !strpbrk(text, "|\n"));
    gt_log_event *event = event_new(GT_EVENT_SOURCE, GT_OP_INVALID, 0, length);
    memcpy(gt__log_event_payload(event), text, length);
    CHECK(*line_of(format, event) == 0);
    return format;
}

/* Whatever a record that was let in says, in all its numbers. */
static void test_no_line_is_too_long(const void *unused)
{
    (void)unused;
    gt_log_format *format = format_new();
    enum { LONGEST_TEXT = 1024 + 64 }; /* a quoted text with its keys */
    for (unsigned op = 1; op < GT_OP_COUNT; op++)
        for (unsigned literals = 0; literals < 64; literals += 21) {
            gt_log_event *event = event_new(GT_EVENT_RECV, (gt_opcode)op, GT_LOG_RECORD, LONGEST_TEXT);
            gt_slot *record = (gt_slot *)(void *)gt__log_event_payload(event);
            record->ins.op = (uint16_t)op;
            record->ins.dtype = GT_FLOAT64;
            record->ins.rank = GT_MAX_RANK;
            record->ins.literals = (uint8_t)literals;
            for (unsigned k = 0; k < GT_MAX_OPERANDS; k++)
                if (gt__literal(&record->ins, k) == GT_LITERAL_FLOAT)
                    record->ins.literal[k].f = -1.2345678901234567e-301;
                else if (gt__literal(&record->ins, k) != GT_LITERAL_NONE)
                    record->ins.literal[k].i = INT64_MIN;
            if (op == GT_OP_cat)
                record->ins.imm[1].i = GT_MAX_CAT;
            for (unsigned k = 0; k < 8; k++)
                record[1].i64[k] = op == GT_OP_cat ? -1 : INT64_MIN + k;
            const char *line = line_of(format, event);
            CHECK(strncmp(line, "18446744073.709551s | #18446744073709551615 | RECV         | WORKER www__www",
                          60) == 0);
        }
    for (int kind = GT_EVENT_SEND; kind < GT_EVENT_COUNT; kind++)
        for (unsigned op = 0; op < GT_OP_COUNT; op++)
            CHECK(strlen(line_of(format, event_new((gt_event)kind, (gt_opcode)op, 0, LONGEST_TEXT))) >
                  LONGEST_TEXT);
    gt__log_format_free(format);
}

static void test_sizes(const void *unused)
{
    (void)unused;
    gt_log_format *format = format_new();
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {
        {0, "|         0B |"},          {64, "|        64B |"},
        {1023, "|      1023B |"},       {1024, "|      1.0KB |"},
        {1ull << 40, "|      1.0TB |"}, {1ull << 60, "|  1048576TB |"},
        {UINT64_MAX, "|  1048576TB |"}, {UINT64_MAX / 10 + 1, "|  1048576TB |"},
    };
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        gt_log_event *event = event_new(GT_EVENT_CONNECT, GT_OP_hello, 0, 0);
        event->bytes = sizes[k].bytes;
        const char *line = line_of(format, event);
        if (!CHECK(strstr(line, sizes[k].text) != NULL))
            fprintf(stderr, "  %s: %s", sizes[k].text, line);
    }
    gt__log_format_free(format);
}

/* ---- files -------------------------------------------------------------------------------------------------- */

/* Numbers become lines: what the file must have is known without reading the writer's mind. */
static size_t write_numbers(void *context, const char **from, const char *end, char *to, size_t room)
{
    size_t filled = 0;
    (void)context;
    for (; *from < end && filled + GT_FILE_TEXT <= room; *from += sizeof(uint64_t)) {
        uint64_t number;
        memcpy(&number, *from, sizeof number);
        filled += (size_t)sprintf(to + filled, "number %llu\n", (unsigned long long)number);
    }
    return filled;
}

static gt_file_options options_of(bool translated)
{
    gt_file_options options = {.path = path, .what = "test", .buffers = 4};
    options.translate = translated ? write_numbers : NULL;
    return options;
}

/* How many were taken; all, unless the writing failed. */
static uint64_t fill(gt_file_writer *writer, uint64_t from, uint64_t count, uint64_t flush_every)
{
    for (uint64_t k = 0; k < count; k++) {
        char *room = gt__file_reserve(writer, sizeof k);
        if (!room)
            return k;
        memcpy(room, &(uint64_t){from + k}, sizeof k);
        gt__file_commit(writer, sizeof k);
        if (flush_every && k % flush_every == 0)
            gt__file_flush(writer);
    }
    return count;
}

/* The numbers of a file, which must follow each other; returns how many, *last is the last. */
static uint64_t read_numbers(const char *file_path, uint64_t *last)
{
    FILE *file = fopen(file_path, "r");
    unsigned long long number;
    uint64_t count = 0;
    while (file && fscanf(file, "number %llu\n", &number) == 1) {
        if (count && !CHECK_EQ(number, *last + 1))
            break;
        *last = number;
        count++;
    }
    if (file)
        fclose(file);
    return count;
}

static void test_everything_arrives(const void *unused)
{
    (void)unused;
    static const uint64_t flushes[] = {0, 1, 7, 1000};
    for (size_t k = 0; k < sizeof flushes / sizeof flushes[0]; k++) {
        gt_file_options options = options_of(true);
        gt_file_writer *writer = NULL;
        uint64_t count = CHECK_SANITIZED ? 200000 : 1000000, last = 0;
        unlink(path);
        if (!CHECK_EQ(gt__file_open(&options, &writer), GT_OK))
            return;
        CHECK_EQ(fill(writer, 0, count, flushes[k]), count);
        gt__file_close(&writer);
        CHECK_EQ(read_numbers(path, &last), count);
        CHECK_EQ(last, count - 1);
    }
    unlink(path);
}

/* Files of the size that was asked for, of whole lines, in order; also where hardly one line fits. */
static void test_rotation(const void *unused)
{
    (void)unused;
    static const uint64_t sizes[] = {100, 4096, 5000, 200000};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        gt_file_options options = options_of(true);
        gt_file_writer *writer = NULL;
        char rotated[80];
        uint64_t last = 0, oldest = 0;
        options.rotate_bytes = sizes[k];
        options.keep = 2;
        unlink(path);
        if (!CHECK_EQ(gt__file_open(&options, &writer), GT_OK))
            return;
        CHECK_EQ(fill(writer, 0, 50000, 100), 50000);
        gt__file_close(&writer);
        for (int file = 2; file >= 0; file--) {
            snprintf(rotated, sizeof rotated, file ? "%s.%d" : "%s", path, file);
            struct stat info = {0};
            CHECK(stat(rotated, &info) == 0 && info.st_size > 0);
            CHECK((uint64_t)info.st_size <= (sizes[k] > GT_FILE_TEXT ? sizes[k] : GT_FILE_TEXT));
            uint64_t before = last, count = read_numbers(rotated, &last);
            CHECK(count > 0 && (file == 2 || last == before + count));
            oldest += count;
            unlink(rotated);
        }
        CHECK_EQ(last, 49999);
        CHECK(oldest < 50000);
    }
}

/* Whoever fills goes on; it is told that nobody writes; closing does not wait. */
static void test_a_full_disk(const void *unused)
{
    (void)unused;
    for (int translated = 0; translated < 2; translated++) {
        gt_file_options options = options_of(translated);
        gt_file_writer *writer = NULL;
        options.path = "/dev/full";
        if (!CHECK_EQ(gt__file_open(&options, &writer), GT_OK))
            return;
        CHECK(!gt__file_failed(writer));
        while (!gt__file_failed(writer))
            fill(writer, 0, 1, 1);
        uint64_t taken = fill(writer, 0, 1000000, 1000);
        CHECK(taken < 8 * GT_FILE_BUFFER / sizeof(uint64_t)); /* what had been reserved, and no more */
        CHECK_EQ(fill(writer, 0, 1, 0), 0);
        gt__file_flush(writer);
        gt__file_close(&writer);
        CHECK(writer == NULL);
    }
}

typedef struct reader {
    pthread_t thread;
    int fd;
    uint64_t most, bytes; /* bytes to read at most; read */
} reader;

static void *reader_main(void *argument)
{
    reader *r = argument;
    char data[4096];
    ssize_t got = 1;
    while (got > 0 && r->bytes < r->most)
        if ((got = read(r->fd, data, sizeof data)) > 0)
            r->bytes += (uint64_t)got;
    close(r->fd);
    return NULL;
}

/* A reader that goes away is a failed disk, not a signal; one that is slow is waited for, and misses nothing. */
static void test_a_pipe(const void *unused)
{
    (void)unused;
    for (int leaves = 0; leaves < 2; leaves++) {
        gt_file_options options = options_of(false);
        gt_file_writer *writer = NULL;
        unlink(path);
        CHECK_EQ(mkfifo(path, 0600), 0);
        reader r = {.fd = open(path, O_RDONLY | O_NONBLOCK), .most = leaves ? 100000 : UINT64_MAX};
        if (!CHECK_EQ(gt__file_open(&options, &writer), GT_OK))
            return;
        fcntl(r.fd, F_SETFL, 0);
        /* More than a pipe and all but the last buffer have room for, before anybody reads. */
        uint64_t count = 3 * GT_FILE_BUFFER / sizeof(uint64_t), taken = fill(writer, 0, count, 0);
        CHECK_EQ(taken, count);
        pthread_create(&r.thread, NULL, reader_main, &r);
        taken += fill(writer, count, 4 * count, 999);
        gt__file_close(&writer);
        pthread_join(r.thread, NULL);
        CHECK(leaves ? r.bytes >= 100000 : r.bytes == taken * sizeof(uint64_t) && taken == 5 * count);
        unlink(path);
    }
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    snprintf(path, sizeof path, "/tmp/gt-test-log-%d", (int)getpid());
    check_run("lines: none is too long", test_no_line_is_too_long, NULL);
    check_run("lines: sizes", test_sizes, NULL);
    check_run("files: everything arrives", test_everything_arrives, NULL);
    check_run("files: rotation", test_rotation, NULL);
    check_run("files: a full disk", test_a_full_disk, NULL);
    check_run("files: a pipe", test_a_pipe, NULL);
    unlink(path);
    return check_end();
}
