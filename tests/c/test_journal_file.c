/*
 * test_journal_file.c: the files of the dispatcher's journal: what is written comes back; what is damaged comes back as it was before the
 * damage, never as something else.
 *
 * `summary` writes all that was restored as text. The expected texts of the round trip are written by hand; prefixes and flipped bits
 * are compared with the text after so many whole frames.
 */
#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "core/crc32c.h"
#include "dispatcher/journal/codec.h"
#include "dispatcher/journal/restored.h"
#include "dispatcher/journal/writer.h"

enum { PORT = 4711, TEXT = 16384, MOST_FRAMES = 256 };

/* ---- a folder and a writer ------------------------------------------------------------------------------------ */

typedef struct fixture {
    char directory[64];
    gt_journal_writer *writer;
    sem_t rang;
} fixture;

static void ring(void *context)
{
    sem_post(&((fixture *)context)->rang);
}

static bool begin(fixture *f, gt_journal_sync sync)
{
    *f = (fixture){.directory = "/tmp/gt-journal-XXXXXX"};
    int lock;
    sem_init(&f->rang, 0, 0);
    if (!CHECK(mkdtemp(f->directory)) || !CHECK_EQ(gt__journal_lock(f->directory, &lock), GT_OK))
        return false;
    gt_journal_writer_options options = {.directory = f->directory,
                                         .lock = lock,
                                         .port = PORT,
                                         .sync = sync,
                                         .generation = 1,
                                         .oldest = 1,
                                         .sequence = 1,
                                         .notify = ring,
                                         .context = f};
    return CHECK_EQ(gt__journal_writer_new(&options, &f->writer), GT_OK);
}

static char *path_of(const fixture *f, unsigned generation)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/journal.%u", f->directory, generation);
    return path;
}

static unsigned files_in(const fixture *f)
{
    unsigned count = 0;
    DIR *listing = opendir(f->directory);
    for (const struct dirent *entry; listing && (entry = readdir(listing));)
        count += *entry->d_name != '.';
    if (listing)
        closedir(listing);
    return count;
}

static void end(fixture *f)
{
    gt__journal_writer_free(&f->writer);
    for (unsigned generation = 1; generation < 8; generation++)
        unlink(path_of(f, generation));
    CHECK_EQ(rmdir(f->directory), 0);
    sem_destroy(&f->rang);
}

/* Until all that was put is safe, or the writer has failed. */
static void settle(fixture *f)
{
    gt__journal_flush(f->writer);
    for (;;) {
        gt__journal_await(f->writer);
        if (gt__journal_safe(f->writer) >= gt__journal_mark(f->writer) || gt__journal_failure(f->writer))
            break;
        sem_wait(&f->rang);
    }
    gt__journal_reap(f->writer);
}

/* The bytes of a file, which the caller frees. */
static uint8_t *load(const char *path, size_t *size)
{
    struct stat about;
    int fd = open(path, O_RDONLY);
    uint8_t *bytes = fd >= 0 && fstat(fd, &about) == 0 ? malloc((size_t)about.st_size + 1) : NULL;
    *size = bytes ? (size_t)read(fd, bytes, (size_t)about.st_size) : 0;
    if (fd >= 0)
        close(fd);
    CHECK(bytes);
    return bytes;
}

static void store(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    close(fd);
}

/* ---- frames --------------------------------------------------------------------------------------------------- */

static void put_session(fixture *f, uint64_t number, const char *name, uint64_t first_record)
{
    gt_frame_session *session = gt__journal_put(f->writer, GT_FRAME_SESSION, number, sizeof *session);
    if (!CHECK(session))
        return;
    memset(session->secret, (int)number, sizeof session->secret);
    snprintf(session->user, sizeof session->user, "uid 1000");
    snprintf(session->host, sizeof session->host, "10.0.0.%u", (unsigned)number);
    snprintf(session->name, sizeof session->name, "%s", name);
    session->first_record = first_record;
}

static uint8_t *put_text(uint8_t *to, const char *text)
{
    gt_frame_text *head = (gt_frame_text *)to;
    head->bytes = strlen(text);
    memcpy(head + 1, text, head->bytes);
    return to + sizeof *head + (head->bytes + 7) / 8 * 8;
}

/* What one turn of a session is in these tests: records of one slot with these results, op add; of ops below zero: a scope. */
typedef struct turn {
    uint64_t consumed, first;
    const int *records;
    unsigned count;
    bool unfinished;
    const char *site, *reason, *left_out;
    uint64_t refused; /* the id; 0: none */
    int home, worker; /* -1: none */
} turn;

static void put_turn(fixture *f, uint64_t number, const turn *t)
{
    size_t bytes = sizeof(gt_frame_turn) + t->count * sizeof(gt_slot) + 1024;
    uint8_t *whole = calloc(1, bytes), *at = whole;
    gt_frame_turn *head = (gt_frame_turn *)at;
    *head = (gt_frame_turn){.consumed = t->consumed,
                            .first = t->first,
                            .slots = t->count,
                            .last = !t->unfinished,
                            .weight = 1.5,
                            .home = t->home,
                            .workers = t->worker >= 0,
                            .refusals = t->refused != 0,
                            .sites = t->site != NULL,
                            .reasons = t->reason != NULL,
                            .left_out = t->left_out != NULL};
    gt_slot *slots = (gt_slot *)(head + 1);
    for (unsigned k = 0; k < t->count; k++) {
        slots[k].ins.op = t->records[k] < 0 ? GT_OP_config : GT_OP_add;
        slots[k].ins.result = (uint64_t)abs(t->records[k]);
    }
    at = (uint8_t *)(slots + t->count);
    if (t->worker >= 0) {
        memcpy(at, &t->worker, sizeof t->worker);
        at += 8;
    }
    if (t->refused) {
        *(gt_frame_refusal *)at =
            (gt_frame_refusal){.id = t->refused, .limit = GT_LIMIT_USER_MEMORY, .used = 7, .more = 8};
        at += sizeof(gt_frame_refusal);
    }
    at = t->site ? put_text(at, t->site) : at;
    at = t->reason ? put_text(at, t->reason) : at;
    at = t->left_out ? put_text(at, t->left_out) : at;
    void *to = gt__journal_put(f->writer, GT_FRAME_TURN, number, (size_t)(at - whole));
    if (CHECK(to))
        memcpy(to, whole, (size_t)(at - whole));
    free(whole);
}

static unsigned released;
static void release(void *saved)
{
    released++;
    for (unsigned k = 0; k < ((gt_saved *)saved)->part_count; k++)
        free(((gt_saved *)saved)->part[k].data);
    gt__layout_release(((gt_saved *)saved)->layout);
    free(saved);
}

/* float32 (2, 3): 0, 1, 2, ... on one worker, or its rows on two, as a signal asked for. */
static void put_tensor(fixture *f, uint64_t session, uint64_t number, uint64_t id, bool split)
{
    gt_saved *saved = calloc(1, sizeof *saved + 2 * sizeof saved->part[0]);
    saved->id = id;
    saved->scope = 3;
    saved->part_count = split ? 2 : 1;
    gt__meta_set(&saved->meta, GT_FLOAT32, 2, (int64_t[]){2, 3});
    if (split) {
        gt_target *target = calloc(1, sizeof *target);
        *target = (gt_target){.references = 1, .scope = 3, .split = true, .count = 2, .worker = {1, 0}};
        saved->layout = gt__layout_even(0, 2, target->worker, 2);
        gt__layout_asked(saved->layout, target);
        gt__target_release(target);
    }
    void *frame = gt__journal_put(f->writer, GT_FRAME_TENSOR, session, gt__saved_frame_bytes(saved));
    for (unsigned k = 0; k < saved->part_count; k++) {
        saved->part[k].worker = split ? saved->layout->member[k].worker : 1;
        saved->part[k].meta = saved->meta;
        if (split)
            gt__layout_part(saved->layout, k, &saved->meta, &saved->part[k].meta);
        size_t bytes = gt__meta_bytes(&saved->part[k].meta);
        float *data = malloc(bytes);
        for (unsigned e = 0; e < bytes / sizeof *data; e++)
            data[e] = (float)(id + k * 3 + e);
        saved->part[k].data = (uint8_t *)data;
    }
    gt__saved_encode(saved, number, frame);
    for (unsigned k = 0; k < saved->part_count; k++) {
        gt_journal_source source = {.data = saved->part[k].data, .bytes = gt__meta_bytes(&saved->part[k].meta)};
        if (k + 1 == saved->part_count) { /* with the last of its data, all of it */
            source.release = release;
            source.context = saved;
        }
        CHECK(gt__journal_put_data(f->writer, session, number, k, &source));
    }
}

/* One that could not be computed, of so many elements. */
static void put_failed(fixture *f, uint64_t session, uint64_t number, uint64_t id, int64_t size)
{
    gt_saved *saved = calloc(1, sizeof *saved + sizeof saved->part[0]);
    saved->id = id;
    saved->part_count = 1;
    saved->part[0].worker = 1;
    gt__meta_set(&saved->meta, GT_FLOAT32, 1, &size);
    void *to = gt__journal_put(f->writer, GT_FRAME_TENSOR, session, gt__saved_frame_bytes(saved));
    gt__saved_encode(saved, number, to);
    free(saved);
    gt_frame_failure *frame =
        gt__journal_put(f->writer, GT_FRAME_FAILURE, session, sizeof *frame + 2 * sizeof(gt_slot));
    if (!CHECK(frame))
        return;
    gt_slot *slots = memset(frame + 1, 0, 2 * sizeof(gt_slot));
    *frame = (gt_frame_failure){.number = number};
    slots->ins = (gt_instruction){.op = GT_OP_failure, .tail = 1, .flags = GT_FLAG_POISON};
    slots->ins.imm[0].i = GT_ERR_LINALG;
    slots->ins.imm[1].u = strlen("singular");
    memcpy(slots + 1, "singular", strlen("singular"));
}

/* One that is lost, for the first reason. */
static void put_lost(fixture *f, uint64_t session, uint64_t number, uint64_t id)
{
    gt_saved saved = {.id = id, .reason = 1};
    gt__meta_set(&saved.meta, GT_FLOAT32, 0, NULL);
    void *frame = gt__journal_put(f->writer, GT_FRAME_TENSOR, session, gt__saved_frame_bytes(&saved));
    gt__saved_encode(&saved, number, frame);
}

static void put_cut(fixture *f, uint64_t session, uint64_t record, uint64_t refusal, const uint64_t *numbers,
                    unsigned count)
{
    gt_frame_cut *cut = gt__journal_put(f->writer, GT_FRAME_CUT, session, sizeof *cut + count * sizeof *numbers);
    if (!CHECK(cut))
        return;
    *cut = (gt_frame_cut){.record = record, .refusal = refusal, .epoch = 5, .sums_when = -1, .tensors = count};
    memcpy(cut + 1, numbers, count * sizeof *numbers);
}

static void put_workers(fixture *f)
{
    struct {
        gt_frame_workers head;
        gt_frame_worker worker[2];
    } *frame = gt__journal_put(f->writer, GT_FRAME_WORKERS, 0, sizeof *frame);
    if (!CHECK(frame))
        return;
    frame->head = (gt_frame_workers){
        .worker_key = 99, .lives = 4, .next_session = 2, .next_segment = 1, .next_tag = 1, .count = 2};
    frame->worker[0] = (gt_frame_worker){.life = 1, .present = 1, .name = "left", .engine = "cpu"};
    frame->worker[1] = (gt_frame_worker){.life = 4, .relief = 1, .name = "right", .engine = "cpu"};
}

/* A little of everything. The results of records are their numbers. */
static void put_story(fixture *f)
{
    put_workers(f);
    put_session(f, 1, "alice", 0);
    put_turn(f, 1, &(turn){.consumed = 5, .home = -1, .worker = -1});
    put_turn(f, 1,
             &(turn){.consumed = 9, .records = (int[]){10, -11, 12}, .count = 3, .worker = -1, .site = "a.py:1"});
    put_session(f, 2, "bob", 0);
    put_turn(f, 2, &(turn){.consumed = 5, .home = 1, .worker = 0});
    put_turn(f, 1,
             &(turn){.consumed = 10,
                     .first = 3,
                     .records = (int[]){13},
                     .count = 1,
                     .worker = 1,
                     .refused = 13,
                     .reason = "it died"});
    put_tensor(f, 1, 1, 100, true);
    put_tensor(f, 1, 2, 101, false);
    put_lost(f, 1, 3, 102);
    put_turn(f, 2, &(turn){.consumed = 6, .home = 1, .worker = 0, .left_out = "too many"});
    put_cut(f, 1, 3, 0, (uint64_t[]){3, 1, 2}, 3);
    put_turn(f, 1,
             &(turn){.consumed = 10,
                     .first = 4,
                     .records = (int[]){14, -15},
                     .count = 2,
                     .unfinished = true,
                     .worker = -1,
                     .site = "a.py:2"});
    put_turn(f, 1, &(turn){.consumed = 13, .first = 6, .records = (int[]){16}, .count = 1, .worker = 1});
    gt__journal_put(f->writer, GT_FRAME_END, 2, 0);
    put_tensor(f, 1, 4, 103, false);
    put_failed(f, 1, 5, 104, 1000);
    put_failed(f, 1, 6, 105, 0);
    put_cut(f, 1, 6, 1, (uint64_t[]){1, 4, 5, 6}, 4);
}

/* ---- what came back --------------------------------------------------------------------------------------------- */

typedef struct text {
    char *at, *end;
} text;

__attribute__((format(printf, 2, 3))) static void add(text *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(to->at, (size_t)(to->end - to->at), format, arguments);
    va_end(arguments);
    to->at += length < to->end - to->at ? length : to->end - to->at - 1;
}

static void add_tensors(text *to, const gt_snapshot *saved)
{
    char where[256];
    add(to, " saved(epoch %u, state %zu:", (unsigned)saved->epoch, saved->state);
    for (uint32_t k = 0; k < saved->count; k++) {
        const gt_saved *tensor = saved->tensor[k];
        add(to, " %u", (unsigned)tensor->id);
        if (tensor->layout)
            add(to, " %s%s", gt__layout_text(tensor->layout, where, sizeof where),
                tensor->layout->asked ? " asked" : "");
        if (!tensor->part_count)
            add(to, " lost %u", tensor->reason);
        for (unsigned part = 0; part < tensor->part_count; part++) {
            const float *data = (const float *)tensor->part[part].data;
            const gt_slot *failure = tensor->part[part].failure;
            add(to, " @%d:", tensor->part[part].worker);
            if (failure)
                add(to, " error %d %.*s", (int)failure->ins.imm[0].i, (int)failure->ins.imm[1].u,
                    (const char *)(failure + 1));
            for (size_t e = 0; data && e < gt__meta_bytes(&tensor->part[part].meta) / sizeof *data; e++)
                add(to, "%g,", data[e]);
        }
    }
    add(to, ")");
}

static void add_session(text *to, const gt_restored_session *session)
{
    add(to, "%u %s %s %s secret %u weight %g consumed %u home %d", (unsigned)session->number, session->name,
        session->user, session->host, session->secret[31], session->weight, (unsigned)session->consumed,
        session->home);
    for (uint32_t k = 0; k < session->worker_count; k++)
        add(to, " uses %d", session->workers[k]);
    for (uint32_t k = 0; k < session->sites.count; k++)
        add(to, " site %s", session->sites.text[k]);
    for (uint32_t k = 0; k < session->reasons.count; k++)
        add(to, " reason %s", session->reasons.text[k]);
    if (session->left_out)
        add(to, " left out: %s", session->left_out);
    if (session->saved)
        add_tensors(to, session->saved);
    add(to, " state");
    for (size_t k = 0; k < session->state.end; k++)
        add(to, " %u", (unsigned)session->state.slots[k].ins.result);
    add(to, " records");
    for (size_t k = 0; k < session->slots; k++)
        add(to, " %u", (unsigned)session->records[k].ins.result);
    for (uint32_t k = 0; k < session->refusal_count; k++)
        add(to, " refused %u %d %u %u", (unsigned)session->refusals[k].id,
            session->refusals[k].limit == GT_LIMIT_USER_MEMORY, (unsigned)session->refusals[k].used,
            (unsigned)session->refusals[k].more);
    add(to, "\n");
}

static char *summary(const gt_restored *restored, char *out)
{
    text to = {out, out + TEXT};
    add(&to, "next %u lives %u key %u", (unsigned)restored->next_session, (unsigned)restored->lives,
        (unsigned)restored->worker_key);
    for (uint32_t k = 0; k < restored->worker_count; k++)
        add(&to, " %s/%s life %u%s%s", restored->worker[k].name, restored->worker[k].engine,
            (unsigned)restored->worker[k].life, restored->worker[k].present ? " there" : "",
            restored->worker[k].relief ? " relief" : "");
    add(&to, "\n");
    for (uint32_t k = 0; k < restored->session_count; k++)
        add_session(&to, restored->session[k]);
    return out;
}

/* Of all that the folder has; "" and a failed check: it cannot be read. */
static char *read_all(const fixture *f, char *out)
{
    gt_restored *restored;
    *out = 0;
    if (CHECK_EQ(gt__restored_read(f->directory, PORT, &restored), GT_OK))
        summary(restored, out);
    gt__restored_free(&restored);
    return out;
}

#define WORKERS " left/cpu life 1 there right/cpu life 4 relief\n"
#define ALICE "1 alice uid 1000 10.0.0.1 secret 1 weight 1.5 "
#define SPLIT "100 split(axis=0, workers=[1,0]) asked @1:100,101,102, @0:103,104,105,"

static bool is_text(const char *got, const char *expected)
{
    if (strcmp(got, expected) == 0)
        return true;
    fprintf(stderr, "got:\n%sexpected:\n%s", got, expected);
    return false;
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static void test_checksum(const void *unused)
{
    (void)unused;
    uint8_t bytes[64];
    CHECK_EQ(gt__crc32c(0, "123456789", 9), 0xE3069283u); /* of the standard */
    memset(bytes, 0, 32);
    CHECK_EQ(gt__crc32c(0, bytes, 32), 0x8A9136AAu); /* RFC 3720, B.4 */
    memset(bytes, 0xff, 32);
    CHECK_EQ(gt__crc32c(0, bytes, 32), 0x62A8AB43u);
    for (unsigned k = 0; k < 32; k++)
        bytes[k] = (uint8_t)k;
    CHECK_EQ(gt__crc32c(0, bytes, 32), 0x46DD794Eu);
    for (unsigned k = 0; k <= 32; k++)
        CHECK_EQ(gt__crc32c(gt__crc32c(0, bytes, k), bytes + k, 32 - k), 0x46DD794Eu);
}

static void test_round_trip(const void *policy)
{
    fixture f;
    char got[TEXT];
    if (!begin(&f, *(const gt_journal_sync *)policy))
        return;
    released = 0;
    put_story(&f);
    settle(&f);
    CHECK_EQ(released, 3);
    CHECK_EQ(gt__journal_behind(f.writer), 0);
    struct stat about;
    CHECK_EQ(stat(path_of(&f, 1), &about), 0);
    CHECK_EQ(about.st_size, gt__journal_bytes(f.writer));
    gt__journal_writer_free(&f.writer);
    CHECK(is_text(read_all(&f, got),
                  "next 3 lives 4 key 99" WORKERS ALICE
                  "consumed 13 home 0 uses 1 site a.py:1 site a.py:2 reason it died saved(epoch 5, state 2: " SPLIT
                  " 103 @1:103,104,105,106,107,108, 104 @1: error 9 singular 105 @1: error 9 singular) state 11 "
                  "15 records 16\n"));
    end(&f);
}

/* Where each frame of a file ends, the header first. */
static unsigned ends_of(const uint8_t *bytes, size_t size, size_t *ends)
{
    unsigned count = 0;
    for (size_t at = sizeof(gt_journal_header); at <= size && count < MOST_FRAMES;) {
        ends[count++] = at;
        if (at < size)
            at += gt__frame_size(((const gt_frame *)(bytes + at))->bytes);
        else
            break;
    }
    return count;
}

/* The text of the first `size` bytes; "": refused. */
static char *parse(const uint8_t *bytes, size_t size, size_t *good, char *out)
{
    gt_restored *restored;
    *out = 0;
    if (gt__restored_parse(bytes, size, PORT, good, &restored) == GT_OK)
        summary(restored, out);
    gt__restored_free(&restored);
    return out;
}

static void test_damage(const void *unused)
{
    (void)unused;
    fixture f;
    size_t size, good, ends[MOST_FRAMES];
    char got[TEXT];
    static char after[MOST_FRAMES][TEXT];
    if (!begin(&f, GT_JOURNAL_NEVER))
        return;
    put_story(&f);
    gt__journal_writer_free(&f.writer);
    uint8_t *bytes = load(path_of(&f, 1), &size);
    unsigned count = ends_of(bytes, size, ends), frame = 0, distinct = 0;
    CHECK(count > 15);
    CHECK_EQ(ends[count - 1], size);
    for (unsigned k = 0; k < count; k++) {
        parse(bytes, ends[k], &good, after[k]);
        CHECK_EQ(good, ends[k]);
        distinct += k && strcmp(after[k], after[k - 1]) != 0;
    }
    CHECK(distinct >= 10); /* frames of which nothing can be seen yet are among them */
    CHECK(is_text(after[3], "next 2 lives 4 key 99" WORKERS ALICE "consumed 5 home -1 state records\n"));
    for (size_t cut = 0; cut <= size; cut++) {
        while (frame + 1 < count && ends[frame + 1] <= cut)
            frame++;
        if (!CHECK(!strcmp(parse(bytes, cut, &good, got), after[frame])) ||
            !CHECK_EQ(good, cut < ends[0] ? 0 : ends[frame]))
            break;
    }
    frame = 0;
    for (size_t bit = 0; bit < 8 * size; bit += CHECK_SANITIZED ? 7 : 1) {
        while (frame < count && ends[frame] <= bit / 8)
            frame++;
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        parse(bytes, size, &good, got);
        if (!CHECK(!strcmp(got, bit / 8 < ends[0] ? "" : after[frame - 1])) ||
            !CHECK_EQ(good, bit / 8 < ends[0] ? 0 : ends[frame - 1]))
            break;
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free(bytes);
    end(&f);
}

static void test_a_torn_file_is_cut(const void *unused)
{
    (void)unused;
    fixture f;
    size_t size, ends[MOST_FRAMES];
    char before[TEXT], got[TEXT];
    struct stat about;
    if (!begin(&f, GT_JOURNAL_NEVER))
        return;
    put_story(&f);
    gt__journal_writer_free(&f.writer);
    uint8_t *bytes = load(path_of(&f, 1), &size);
    unsigned count = ends_of(bytes, size, ends);
    store(path_of(&f, 1), bytes, ends[count - 2] + 9);
    read_all(&f, before);
    CHECK_EQ(stat(path_of(&f, 1), &about), 0);
    CHECK_EQ(about.st_size, ends[count - 2]);
    CHECK(is_text(read_all(&f, got), before));
    free(bytes);
    end(&f);
}

/* Alice as the story has left her, in a new description. */
static void describe_anew(fixture *f)
{
    put_session(f, 1, "alice", 6);
    gt_slot *state = gt__journal_put(f->writer, GT_FRAME_STATE, 1, sizeof *state);
    state->ins = (gt_instruction){.op = GT_OP_config, .result = 11};
    put_tensor(f, 1, 9, 103, false);
    put_cut(f, 1, 6, 0, (uint64_t[]){9}, 1);
    put_turn(
        f, 1,
        &(turn){.consumed = 13, .first = 6, .records = (int[]){16}, .count = 1, .worker = 1, .site = "a.py:1"});
}

static void test_generations(const void *unused)
{
    (void)unused;
    static const char anew[] = "consumed 13 home 0 uses 1 site a.py:1 saved(epoch 5, state 1: 103 "
                               "@1:103,104,105,106,107,108,) state 11 records 16\n";
    fixture f;
    char got[TEXT], expected[TEXT];
    size_t size, first_size, ends[MOST_FRAMES];
    if (!begin(&f, GT_JOURNAL_ALWAYS))
        return;
    put_story(&f);
    put_session(&f, 3, "carol", 0);
    put_turn(&f, 3, &(turn){.consumed = 5, .home = -1, .worker = -1});
    CHECK(!gt__journal_has_old(f.writer));
    gt__journal_put_generation(f.writer);
    describe_anew(&f);
    settle(&f);
    CHECK(gt__journal_has_old(f.writer));
    CHECK_EQ(files_in(&f), 2);
    snprintf(expected, sizeof expected, "next 4 lives 4 key 99%s%s%s%s", WORKERS, ALICE, anew,
             "3 carol uid 1000 10.0.0.3 secret 3 weight 1.5 consumed 5 home -1 state records\n");
    CHECK(is_text(read_all(&f, got), expected));

    /* The second file is damaged before Alice's new description is complete: the one of before counts. */
    uint8_t *first = load(path_of(&f, 1), &first_size), *second = load(path_of(&f, 2), &size);
    unsigned count = ends_of(second, size, ends);
    store(path_of(&f, 2), second, ends[count - 2]);
    CHECK(strstr(read_all(&f, got), "reason it died saved(epoch 5, state 2: " SPLIT));
    CHECK(strstr(got, "3 carol"));
    store(path_of(&f, 2), second, size);

    /* The first is: Alice is in the second, Carol lacks frames. */
    store(path_of(&f, 1), first, first_size - 8);
    snprintf(expected, sizeof expected, "next 4 lives 4 key 99%s%s%s", WORKERS, ALICE, anew);
    CHECK(is_text(read_all(&f, got), expected));

    /* Without the first. */
    gt__journal_put_removal(f.writer);
    settle(&f);
    CHECK(!gt__journal_has_old(f.writer));
    CHECK_EQ(files_in(&f), 1);
    snprintf(expected, sizeof expected, "next 2 lives 0 key 0\n%s%s", ALICE, anew);
    CHECK(is_text(read_all(&f, got), expected));
    free(first);
    free(second);
    end(&f);
}

/* A session that does not fit into a new generation is given up there, before it is described, and the file that knew it is removed. */
static void test_the_end_of_an_unknown_session(const void *unused)
{
    (void)unused;
    fixture f;
    char got[TEXT];
    if (!begin(&f, GT_JOURNAL_INTERVAL))
        return;
    put_session(&f, 3, "carol", 0);
    put_turn(&f, 3, &(turn){.consumed = 5, .home = -1, .worker = -1});
    gt__journal_put_generation(f.writer);
    CHECK(gt__journal_put(f.writer, GT_FRAME_END, 3, 0));
    put_session(&f, 4, "dora", 0);
    put_turn(&f, 4, &(turn){.consumed = 6, .home = -1, .worker = -1});
    settle(&f);
    CHECK(!strstr(read_all(&f, got), "carol") && strstr(got, "4 dora"));
    gt__journal_put_removal(f.writer);
    settle(&f);
    CHECK_EQ(files_in(&f), 1);
    CHECK(!strstr(read_all(&f, got), "carol") && strstr(got, "4 dora"));
    end(&f);
}

/* What is wrong with the header, as the error says it. */
static bool is_refused(fixture *f, const gt_journal_header *header, const char *words, const char *ours)
{
    gt_journal_header changed = *header;
    gt_restored *restored;
    changed.crc = gt__crc32c(0, &changed, offsetof(gt_journal_header, crc));
    store(path_of(f, 1), &changed, sizeof changed);
    bool refused = gt__restored_read(f->directory, PORT, &restored) == GT_ERR_VALUE && !restored &&
                   strstr(gt_error_text(), words) && strstr(gt_error_text(), ours) &&
                   strstr(gt_error_text(), f->directory);
    if (!refused)
        fprintf(stderr, "%s\n", gt_error_text());
    return refused;
}

static void test_foreign_files(const void *unused)
{
    (void)unused;
    fixture f;
    gt_journal_header ours, header;
    char words[64], hash[32];
    if (!begin(&f, GT_JOURNAL_NEVER))
        return;
    gt__journal_writer_free(&f.writer);
    gt__journal_header_make(&ours, 1, 1, PORT);
    header = ours;
    header.magic = 0x1234;
    CHECK(is_refused(&f, &header, "0000000000001234", "not a journal"));
    header = ours;
    header.layout = 77;
    snprintf(words, sizeof words, "layout %d", GT_JOURNAL_LAYOUT);
    CHECK(is_refused(&f, &header, "layout 77", words));
    header = ours;
    header.protocol = 78;
    snprintf(words, sizeof words, "version %d", GT_PROTOCOL_VERSION);
    CHECK(is_refused(&f, &header, "version 78", words));
    header = ours;
    header.table_hash ^= 1;
    snprintf(words, sizeof words, "%016llx", (unsigned long long)header.table_hash);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)gt__op_table_hash());
    CHECK(is_refused(&f, &header, words, hash));
    header = ours;
    header.port = 4712;
    CHECK(is_refused(&f, &header, "port 4712", "port 4711"));
    end(&f);
}

static void test_one_server_a_folder(const void *unused)
{
    (void)unused;
    fixture f;
    int lock;
    if (!begin(&f, GT_JOURNAL_INTERVAL))
        return;
    CHECK_EQ(gt__journal_lock(f.directory, &lock), GT_ERR_VALUE);
    CHECK(strstr(gt_error_text(), "another server") && strstr(gt_error_text(), f.directory));
    gt__journal_writer_free(&f.writer);
    if (CHECK_EQ(gt__journal_lock(f.directory, &lock), GT_OK))
        close(lock);
    CHECK_EQ(gt__journal_lock("/proc/no/such/folder", &lock), GT_ERR_VALUE);
    end(&f);
}

/* Others must not be able to read what is in the folder, nor to put something there. */
static void test_the_folder_is_ours(const void *unused)
{
    (void)unused;
    fixture f;
    struct stat about;
    char inner[128];
    int lock;
    if (!begin(&f, GT_JOURNAL_INTERVAL))
        return;
    CHECK(!stat(path_of(&f, 1), &about) && (about.st_mode & 07777) == 0600);
    gt__journal_writer_free(&f.writer);
    snprintf(inner, sizeof inner, "%s/made", f.directory);
    if (CHECK_EQ(gt__journal_lock(inner, &lock), GT_OK))
        close(lock);
    CHECK(!stat(inner, &about) && (about.st_mode & 07777) == 0700);
    rmdir(inner);
    for (unsigned k = 0; k < 2; k++) {
        CHECK_EQ(chmod(f.directory, k ? 0720 : 0702), 0);
        CHECK_EQ(gt__journal_lock(f.directory, &lock), GT_ERR_VALUE);
        CHECK(strstr(gt_error_text(), "other users may write") && strstr(gt_error_text(), f.directory));
    }
    CHECK_EQ(chmod(f.directory, 0700), 0);
    if (geteuid() || !chown(f.directory, 65534, (gid_t)-1)) {
        CHECK_EQ(gt__journal_lock(geteuid() ? "/" : f.directory, &lock), GT_ERR_VALUE);
        CHECK(strstr(gt_error_text(), "belongs to user"));
        CHECK(geteuid() || !chown(f.directory, 0, (gid_t)-1));
    } else
        fprintf(stderr, "not tested here: a folder of another user, which root may not make\n");
    end(&f);
}

/* A limit to the size of files is a disk that is full. */
static void test_a_full_disk(const void *unused)
{
    (void)unused;
    fixture f;
    struct rlimit before, small;
    if (!begin(&f, GT_JOURNAL_INTERVAL))
        return;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 4096;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    put_session(&f, 1, "alice", 0);
    put_turn(&f, 1, &(turn){.consumed = 5, .home = -1, .worker = -1});
    settle(&f);
    CHECK(!gt__journal_failure(f.writer));
    uint64_t safe = gt__journal_safe(f.writer);
    released = 0;
    for (uint64_t number = 1; number < 200; number++)
        put_tensor(&f, 1, number, number, true);
    settle(&f);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    const char *why = gt__journal_failure(f.writer);
    CHECK(why && strstr(why, f.directory) && strstr(why, "File too large"));
    CHECK_EQ(gt__journal_safe(f.writer), safe); /* what was not written is not safe */
    CHECK_EQ(released, 199);
    CHECK_EQ(files_in(&f), 0);
    CHECK(!gt__journal_put(f.writer, GT_FRAME_END, 1, 0));
    CHECK(!gt__journal_put_generation(f.writer));
    CHECK_EQ(gt__journal_behind(f.writer), 0);
    /* It rests from now on: what it had still to sync is gone. (A slow machine makes this see less, never more.) */
    unsigned rang = 0;
    struct timespec until;
    while (!sem_trywait(&f.rang))
        continue;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    while (rang < 10 && !sem_timedwait(&f.rang, &until))
        rang++;
    CHECK(rang < 10);
    end(&f);
}

static void test_policies(const void *unused)
{
    (void)unused;
    gt_journal_sync sync;
    CHECK(gt__journal_sync_read("always", &sync) && sync == GT_JOURNAL_ALWAYS);
    CHECK(gt__journal_sync_read("interval", &sync) && sync == GT_JOURNAL_INTERVAL);
    CHECK(gt__journal_sync_read("never", &sync) && sync == GT_JOURNAL_NEVER);
    CHECK(!gt__journal_sync_read("sometimes", &sync));
}

int main(int argc, char **argv)
{
    static const gt_journal_sync policies[] = {GT_JOURNAL_ALWAYS, GT_JOURNAL_INTERVAL, GT_JOURNAL_NEVER};
    check_begin(argc, argv);
    check_run("checksum", test_checksum, NULL);
    check_run("round trip, always", test_round_trip, &policies[0]);
    check_run("round trip, interval", test_round_trip, &policies[1]);
    check_run("round trip, never", test_round_trip, &policies[2]);
    check_run("prefixes and flipped bits", test_damage, NULL);
    check_run("a torn file is cut", test_a_torn_file_is_cut, NULL);
    check_run("generations", test_generations, NULL);
    check_run("the end of an unknown session", test_the_end_of_an_unknown_session, NULL);
    check_run("foreign files", test_foreign_files, NULL);
    check_run("one server a folder", test_one_server_a_folder, NULL);
    check_run("the folder is ours", test_the_folder_is_ours, NULL);
    check_run("a full disk", test_a_full_disk, NULL);
    check_run("policies", test_policies, NULL);
    return check_end();
}
