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
#include "dispatcher/observe/log_code.h"
#include "random_numbers.h"

static char path[64];

/* ---- lines -------------------------------------------------------------------------------------------------- */

enum { LONGEST_OWN = 1024 + 64 }; /* a quoted text with its keys */

/* A shared text as long as they come. */
static gt_log_text *long_text(char letter)
{
    char text[GT_LOG_TEXT + 100];
    memset(text, letter, sizeof text);
    gt_log_text *shared = gt__log_text_new(text, sizeof text);
    CHECK_EQ(shared->length, GT_LOG_TEXT);
    return shared;
}

static gt_log_text *long_source(void)
{
    char name[256];
    memset(name, 'w', sizeof name);
    name[sizeof name - 1] = 0;
    name[3] = '|';
    name[4] = '\n';
    gt_log_text *source = gt__log_source("WORKER", name);
    CHECK(source->length < GT_LOG_SOURCE && !memchr(source->text, '|', source->length) &&
          !memchr(source->text, '\n', source->length));
    return source;
}

/* The line of an event, in as much room as it is promised; NUL-ended, the caller frees it. */
static char *line_of(gt_log_format *format, const gt_log_event *event)
{
    char *text = malloc(GT_LOG_LINE + 1), *room = malloc(GT_LOG_LINE); /* of the heap: sanitizers see its end */
    size_t length = (size_t)(gt__log_line(format, event, room) - room);
    length = CHECK(length <= GT_LOG_LINE) ? length : 0;
    memcpy(text, room, length);
    text[length] = 0;
    CHECK(!length || text[length - 1] == '\n');
    free(room);
    return text;
}

/* The event as a block of its own, decoded again: the same line. */
static void check_code(gt_log_format *format, const gt_log_event *event, const char *line)
{
    gt_log_encoder *encoder = gt__log_encoder_new();
    gt_log_decoder *decoder = gt__log_decoder_new();
    char *room = malloc(GT_LOG_ENTRY);
    gt_log_event again;
    bool there = false;
    size_t bytes = (size_t)(gt__log_encode(encoder, event, room) - room);
    CHECK(bytes <= GT_LOG_ENTRY);
    gt__log_seal(NULL, room, bytes);
    char *block = memcpy(malloc(bytes), room, bytes);
    if (CHECK_EQ(gt__log_block_open(decoder, block, bytes, true), GT_OK) &&
        CHECK_EQ(gt__log_block_next(decoder, &again, &there), GT_OK) && CHECK(there)) {
        char *decoded = line_of(format, &again);
        if (!CHECK(strcmp(line, decoded) == 0))
            fprintf(stderr, "  %s  %s", line, decoded);
        free(decoded);
        CHECK(gt__log_block_next(decoder, &again, &there) == GT_OK && !there);
    }
    free(block);
    free(room);
    gt__log_encoder_free(encoder);
    gt__log_decoder_free(decoder);
    for (unsigned k = 0; k < GT_LOG_NOTES; k++)
        if (event->notes[k])
            event->notes[k]->block = 0; /* another encoder has not seen it */
    if (event->source)
        event->source->block = 0;
}

/* Whatever a record that was let in says, in all its numbers. */
static void test_no_line_is_too_long(const void *unused)
{
    (void)unused;
    gt_log_format *format = gt__log_format_new();
    char own[LONGEST_OWN];
    memset(own, 'x', sizeof own);
    gt_log_event event = {.sequence = UINT64_MAX, .at_ns = UINT64_MAX, .bytes = UINT64_MAX, .failed = true};
    event.session = event.tensor = event.start_ns = UINT64_MAX;
    event.duration_ns = UINT64_MAX >> 1;
    event.source = long_source();
    event.notes[0] = long_text('n');
    event.notes[1] = long_text('m');
    event.text = own;
    event.text_length = sizeof own;
    gt_slot record[GT_LOG_RECORD];
    for (unsigned op = 1; op < GT_OP_COUNT; op++)
        for (unsigned literals = 0; literals < 64; literals += 21) {
            memset(record, 0xff, sizeof record);
            record->ins.op = event.op = (uint16_t)op;
            record->ins.dtype = GT_FLOAT64;
            record->ins.rank = GT_MAX_RANK;
            record->ins.literals = (uint8_t)literals;
            record->ins.tail = GT_LOG_RECORD - 1;
            for (unsigned k = 0; k < GT_MAX_OPERANDS; k++)
                if (gt__literal(&record->ins, k) == GT_LITERAL_FLOAT)
                    record->ins.literal[k].f = -1.2345678901234567e-301;
                else if (gt__literal(&record->ins, k) != GT_LITERAL_NONE)
                    record->ins.literal[k].i = INT64_MIN;
            if (op == GT_OP_cat)
                record->ins.imm[1].i = GT_MAX_CAT;
            for (unsigned k = 0; k < 8; k++)
                record[1].i64[k] = op == GT_OP_cat ? -1 : INT64_MIN + k;
            event.event = GT_EVENT_RECV;
            event.record = record;
            event.slots = GT_LOG_RECORD;
            char *line = line_of(format, &event);
            CHECK(strncmp(line, "18446744073.709551s | #18446744073709551615 | RECV         | WORKER www__www",
                          60) == 0);
            check_code(format, &event, line);
            free(line);
        }
    for (int kind = GT_EVENT_SEND; kind < GT_EVENT_COUNT; kind++)
        for (unsigned op = 0; op < GT_OP_COUNT; op++) {
            event.event = (uint8_t)kind;
            event.op = (uint16_t)op;
            char *line = line_of(format, &event);
            CHECK(strlen(line) > LONGEST_OWN + 2 * GT_LOG_TEXT);
            if (kind == GT_EVENT_CONNECT || kind == GT_EVENT_WORKER_SEND || kind == GT_EVENT_WORKER_RECV)
                check_code(format, &event, line);
            free(line);
        }
    free(event.source);
    free(event.notes[0]);
    free(event.notes[1]);
    gt__log_format_free(format);
}

static void test_sizes(const void *unused)
{
    (void)unused;
    gt_log_format *format = gt__log_format_new();
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
        gt_log_event event = {.event = GT_EVENT_CONNECT, .op = GT_OP_hello, .bytes = sizes[k].bytes};
        char *line = line_of(format, &event);
        if (!CHECK(strstr(line, sizes[k].text) != NULL))
            fprintf(stderr, "  %s: %s", sizes[k].text, line);
        free(line);
    }
    gt__log_format_free(format);
}

/* ---- the compact form --------------------------------------------------------------------------------------- */

enum { EVENTS = 3000, SHARED = 40, ROOM = EVENTS * 200 };

static gt_log_event random_event(numbers *n, uint64_t sequence, gt_slot *record, gt_log_text **shared)
{
    gt_log_event event = {.sequence = sequence, .event = (uint8_t)numbers_below(n, GT_EVENT_COUNT)};
    event.at_ns = sequence / 10 * 12345;
    event.op = (uint16_t)(1 + numbers_below(n, GT_OP_COUNT - 1));
    event.bytes = numbers_next(n) >> numbers_below(n, 64);
    event.failed = numbers_below(n, 2);
    if (event.event == GT_EVENT_RECV) {
        memset(record, 0, GT_LOG_RECORD * sizeof *record);
        record->ins.op = event.op;
        record->ins.result = numbers_below(n, 1000);
        record->ins.operand[0] = numbers_below(n, 1000);
        record->ins.imm[0].u = numbers_next(n) >> numbers_below(n, 64);
        record->ins.rank = (uint8_t)numbers_below(n, GT_MAX_RANK + 1);
        record->ins.tail = (uint16_t)(1 + numbers_below(n, 4)); /* room for a shape */
        record[1].u64[numbers_below(n, 8)] = numbers_below(n, 100);
        event.record = record;
        event.slots = record->ins.tail < GT_LOG_RECORD ? 1 + (uint8_t)record->ins.tail : GT_LOG_RECORD;
    } else
        event.tensor = numbers_below(n, 5000);
    event.session = event.event == GT_EVENT_WORKER_SEND || event.event == GT_EVENT_WORKER_RECV ? 7 : 0;
    event.start_ns = event.event == GT_EVENT_WORKER_RECV ? numbers_below(n, 1u << 30) : 0;
    event.duration_ns = event.start_ns ? numbers_below(n, 1u << 20) : 0;
    event.source = shared[numbers_below(n, SHARED)];
    unsigned notes = (unsigned)numbers_below(n, GT_LOG_NOTES + 1);
    for (unsigned k = 0; k < notes; k++)
        event.notes[k] = shared[numbers_below(n, SHARED)];
    event.text = "error=\"x\"";
    event.text_length = numbers_below(n, 4) ? 0 : 9;
    return event;
}

/* Blocks of many events, each decoded without the others: the lines are those of the events. */
static void test_blocks(const void *unused)
{
    (void)unused;
    numbers n = {.state = 5};
    gt_log_text *shared[SHARED];
    for (unsigned k = 0; k < SHARED; k++) {
        char name[16];
        snprintf(name, sizeof name, k % 2 ? "CLIENT %u" : " at=file.py:%u", k);
        shared[k] = gt__log_text_new(name, strlen(name));
    }
    gt_log_encoder *encoder = gt__log_encoder_new();
    gt_log_decoder *decoder = gt__log_decoder_new();
    gt_log_format *format = gt__log_format_new();
    char *room = malloc(ROOM), **lines = malloc(EVENTS * sizeof *lines);
    uint64_t sequence = 1;
    for (unsigned block = 0; block < 3; block++) {
        char *start = room + block, *at = start; /* another place: another block */
        for (unsigned k = 0; k < EVENTS; k++) {
            gt_slot record[GT_LOG_RECORD];
            gt_log_event event = random_event(&n, sequence++, record, shared);
            lines[k] = line_of(format, &event);
            at = gt__log_encode(encoder, &event, at);
        }
        size_t bytes = (size_t)(at - start);
        gt__log_seal(NULL, start, bytes);
        CHECK(bytes < ROOM - GT_LOG_ENTRY);
        CHECK_EQ(gt__log_block_open(decoder, start, bytes, true), GT_OK);
        gt_log_event event;
        bool there, same = true;
        for (unsigned k = 0; k < EVENTS; k++) {
            same &= gt__log_block_next(decoder, &event, &there) == GT_OK && there;
            char *line = same ? line_of(format, &event) : NULL;
            same = same && strcmp(line, lines[k]) == 0;
            free(line);
            free(lines[k]);
        }
        CHECK(same);
        CHECK(gt__log_block_next(decoder, &event, &there) == GT_OK && !there);
        for (size_t cut = 0; cut < bytes; cut += bytes / 50)
            CHECK_EQ(gt__log_block_open(decoder, start, cut, true), GT_ERR_PROTOCOL);
        for (size_t flip = 0; flip < bytes; flip += bytes / 50) {
            start[flip] ^= 4;
            CHECK_EQ(gt__log_block_open(decoder, start, bytes, true), GT_ERR_PROTOCOL);
            start[flip] ^= 4;
        }
    }
    free(lines);
    free(room);
    for (unsigned k = 0; k < SHARED; k++)
        free(shared[k]);
    gt__log_format_free(format);
    gt__log_encoder_free(encoder);
    gt__log_decoder_free(decoder);
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
    check_run("code: blocks", test_blocks, NULL);
    check_run("files: everything arrives", test_everything_arrives, NULL);
    check_run("files: rotation", test_rotation, NULL);
    check_run("files: a full disk", test_a_full_disk, NULL);
    check_run("files: a pipe", test_a_pipe, NULL);
    unlink(path);
    return check_end();
}
