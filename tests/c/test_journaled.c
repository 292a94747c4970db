/*
 * test_journaled.c: what sessions write to the dispatcher's journal, against what their recoveries have in memory: a server that reads the journal must
 * have just that. The turns of the dispatcher are the test's own; clients are raw links, workers are real.
 */
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "dispatcher/journal/disk_journal.h"
#include "stepped_fixture.h"

#include "random_numbers.h"
#include "shortage.h"

enum { RESUME_MS = 60000, CLIENTS = 2, WORKERS = 2, STEPS = 300, TENSORS = 12, MEMORY = 1 << 20 };

typedef struct client {
    gt_link *link;
    gt_session *session;
    uint64_t next_id, sites;
    bool shards;
    unsigned refused;
    uint64_t alive[TENSORS]; /* 0: none */
} client;

typedef struct fixture {
    server s;
    char directory[64];
    client client[CLIENTS];
} fixture;

/* ---- a server with a journal ------------------------------------------------------------------------------------ */

static void connect_client(fixture *f, client *c)
{
    char name[32];
    *c = (client){.link = stepped_connect(&f->s, "tcp"), .next_id = 1};
    uint64_t number = f->s.dispatcher->next_session;
    gt__link_resumes(c->link, RESUME_MS);
    snprintf(name, sizeof name, "client %u", (unsigned)number);
    stepped_join(&f->s, c->link, GT_ROLE_CLIENT, name);
    c->session = stepped_session(&f->s, number);
    CHECK(c->session && c->session->recovery && c->session->journaled);
}

/* `spooled`: snapshots are on the disk, in the same folder, without names. */
static void begin_with(fixture *f, uint64_t bytes, gt_journal_sync sync, bool spooled)
{
    gt_restored *restored = NULL;
    *f = (fixture){.directory = "/tmp/gt-journaled-XXXXXX"};
    gt_disk_journal_options options = {.directory = f->directory, .bytes = bytes, .sync = sync};
    CHECK(mkdtemp(f->directory));
    gt_dispatcher_options server_options = {
        .listen = true, .recover = true, .recover_snapshots = spooled ? f->directory : NULL};
    server_options.limits.most[GT_LIMIT_MEMORY] = MEMORY;
    server_new_from(&f->s, &server_options);
    CHECK_EQ(gt__disk_journal_open(f->s.dispatcher, &options, &restored), GT_OK);
    CHECK(restored && !restored->session_count && !restored->files);
    gt__restored_free(&restored);
    gt__disk_journal_restored(f->s.dispatcher);
    for (int k = 1; k <= WORKERS; k++) {
        server_add_worker(&f->s, true);
        while (gt__worker_present_count(f->s.dispatcher) < k)
            gt__dispatcher_turn(f->s.dispatcher);
    }
}

static void begin(fixture *f, uint64_t bytes, gt_journal_sync sync)
{
    begin_with(f, bytes, sync, false);
}

/* The names of the files; returns how many there are. With `unlinked`, they are removed. */
static unsigned files_in(const fixture *f, bool unlinked)
{
    unsigned count = 0;
    DIR *listing = opendir(f->directory);
    for (const struct dirent *entry; listing && (entry = readdir(listing));) {
        char path[400];
        if (*entry->d_name == '.')
            continue;
        count++;
        snprintf(path, sizeof path, "%s/%s", f->directory, entry->d_name);
        if (unlinked)
            unlink(path);
    }
    if (listing)
        closedir(listing);
    return count;
}

static void end(fixture *f)
{
    for (int k = 0; k < CLIENTS; k++)
        if (f->client[k].link)
            gt__link_close(f->client[k].link);
    stepped_end(&f->s);
    for (int k = 0; k < f->s.workers; k++)
        pthread_join(f->s.worker[k].thread, NULL);
    files_in(f, true);
    CHECK_EQ(rmdir(f->directory), 0);
}

/* Turns until the dispatcher has taken all that the client sent, and its snapshot, if one was begun, is complete. */
static void take_turns(fixture *f, client *c)
{
    gt_link_slots sent = {0}, taken = {0};
    size_t available;
    for (bool all = false; !all;) {
        gt__link_flush(c->link);
        gt__link_wait(c->link, GT_WAIT_READ, 0);
        while (gt__link_peek(c->link, &available))
            gt__link_consume(c->link, available);
        gt__dispatcher_turn(f->s.dispatcher);
        if (!CHECK(!c->link->dead))
            return;
        c->link->ops->slots(c->link, &sent);
        c->session->link->ops->slots(c->session->link, &taken);
        const gt_recovery *recovery = c->session->recovery;
        all = taken.received == sent.sent && !(recovery && (recovery->saving || recovery->dropped)) &&
              !gt__output_waits(&c->session->output);
        sched_yield();
    }
}

/* Until all that was put is in the file. */
static void write_all(fixture *f)
{
    gt_journal_writer *writer = f->s.dispatcher->journal->writer;
    do {
        gt__dispatcher_turn(f->s.dispatcher);
        sched_yield();
    } while (gt__journal_safe(writer) < gt__journal_mark(writer) && !gt__journal_failure(writer));
    gt__dispatcher_turn(f->s.dispatcher);
}

/* ---- comparison ------------------------------------------------------------------------------------------------- */

static void compare_records(const gt_recovery *recovery, const gt_restored_session *restored)
{
    gt_journal_position at = gt__journal_start(&recovery->journal);
    const gt_slot *record;
    size_t slots = 0;
    while ((record = gt__journal_next(&recovery->journal, &at))) {
        size_t length = 1u + record->ins.tail;
        if (!CHECK(slots + length <= restored->slots) ||
            !CHECK(!memcmp(restored->records + slots, record, length * sizeof *record)))
            return;
        slots += length;
    }
    CHECK_EQ(slots, restored->slots);
}

static bool is_same_failure(const gt_slot *saved, const gt_slot *restored)
{
    return restored && saved->ins.tail == restored->ins.tail &&
           !memcmp(saved, restored, (1u + saved->ins.tail) * sizeof *saved);
}

/* `saved` may be in the spool, `restored` is not. */
static bool is_same_data(const gt_saved_part *saved, const gt_saved_part *restored, size_t bytes)
{
    if (saved->failure || restored->failure)
        return saved->failure && is_same_failure(saved->failure, restored->failure);
    if (!bytes)
        return true;
    uint8_t *copy = saved->spooled ? malloc(bytes) : NULL;
    bool same = (!saved->spooled || (copy && gt__spooled_read(saved->spooled, 0, copy, bytes))) &&
                !memcmp(copy ? copy : saved->data, restored->data, bytes);
    free(copy);
    return same;
}

static void compare_tensor(const gt_saved *a, const gt_saved *b)
{
    CHECK_EQ(a->id, b->id);
    CHECK_EQ(a->scope, b->scope);
    CHECK_EQ(a->site, b->site);
    CHECK(gt__meta_same_shape(&a->meta, &b->meta) && a->meta.dtype == b->meta.dtype);
    CHECK(!a->layout == !b->layout && (!a->layout || gt__layout_equal(a->layout, b->layout)));
    if (!CHECK_EQ(a->part_count, b->part_count))
        return;
    for (unsigned k = 0; k < a->part_count; k++) {
        CHECK_EQ(a->part[k].worker, b->part[k].worker);
        size_t bytes = gt__meta_bytes(&a->part[k].meta);
        CHECK_EQ(bytes, gt__meta_bytes(&b->part[k].meta));
        CHECK(is_same_data(&a->part[k], &b->part[k], bytes));
    }
}

static void compare_texts(const gt_texts *a, const gt_texts *b)
{
    if (!CHECK_EQ(a->count, b->count))
        return;
    for (uint32_t k = 0; k < a->count; k++)
        CHECK(!strcmp(a->text[k], b->text[k]));
}

static void compare_successors(const gt_successors *a, const gt_successors *b)
{
    if (!CHECK_EQ(a->count, b->count))
        return;
    for (unsigned k = 0; k < a->count; k++)
        CHECK(a->list[k].number == b->list[k].number && a->list[k].worker == b->list[k].worker);
}

static void compare_session(const gt_session *session, const gt_restored_session *restored)
{
    const gt_recovery *recovery = session->recovery;
    gt_link_slots slots = {0};
    session->link->ops->slots(session->link, &slots);
    CHECK_EQ(restored->consumed, slots.received);
    CHECK(!memcmp(restored->secret, gt__link_secret(session->link), sizeof restored->secret));
    CHECK(!strcmp(restored->name, session->name));
    CHECK(!strcmp(restored->user, session->link->user));
    CHECK_EQ(restored->home, session->home ? session->home->index : -1);
    CHECK(restored->weight == session->account.weight);
    bool uses[WORKERS] = {false};
    for (uint32_t k = 0; k < restored->worker_count; k++)
        uses[restored->workers[k]] = true;
    for (int32_t k = 0; k < WORKERS; k++)
        CHECK_EQ(uses[k] || k == restored->home, session->spreading || gt__recover_uses(session, k));
    compare_successors(&session->successors, &restored->successors);
    compare_texts(&session->sites, &restored->sites);
    compare_texts(&session->reasons, &restored->reasons);
    compare_records(recovery, restored);
    CHECK_EQ(restored->refusal_count, recovery->refusal_count);
    for (uint32_t k = 0; restored->refusal_count == recovery->refusal_count && k < recovery->refusal_count; k++) {
        const gt_refusal *a = &recovery->refusals[k], *b = &restored->refusals[k];
        CHECK(a->id == b->id && a->limit == b->limit && a->used == b->used && a->more == b->more);
    }
    CHECK_EQ(restored->state.end, recovery->state.end);
    if (restored->state.end == recovery->state.end && restored->state.end)
        CHECK(!memcmp(restored->state.slots, recovery->state.slots, restored->state.end * sizeof(gt_slot)));
    if (!CHECK_EQ(!restored->saved, !recovery->saved) || !recovery->saved)
        return;
    CHECK_EQ(restored->saved->epoch, recovery->saved->epoch);
    CHECK_EQ(restored->saved->state, recovery->saved->state);
    if (CHECK_EQ(restored->saved->count, recovery->saved->count))
        for (uint32_t k = 0; k < recovery->saved->count; k++)
            compare_tensor(recovery->saved->tensor[k], restored->saved->tensor[k]);
}

/* What the files say now is what the sessions have. */
static void compare(fixture *f)
{
    gt_restored *restored = NULL;
    write_all(f);
    if (!CHECK_EQ(gt__restored_read(f->directory, f->s.dispatcher->port, &restored), GT_OK))
        return;
    uint32_t journaled = 0;
    for (const gt_journaled *at = f->s.dispatcher->journal->sessions; at; at = at->next) {
        const gt_restored_session *session = gt__restored_find(restored, at->session->number);
        journaled++;
        if (CHECK(session))
            compare_session(at->session, session);
    }
    CHECK_EQ(restored->session_count, journaled);
    CHECK(restored->next_session >= f->s.dispatcher->next_session);
    CHECK_EQ(restored->worker_key, f->s.dispatcher->worker_key);
    if (CHECK_EQ(restored->worker_count, f->s.dispatcher->worker_count)) {
        CHECK(!strcmp(restored->worker[0].name, f->s.dispatcher->workers[0]->name));
        CHECK_EQ(restored->worker[0].life, f->s.dispatcher->workers[0]->life);
    }
    gt__restored_free(&restored);
}

/* ---- programs --------------------------------------------------------------------------------------------------- */

/* The next occasion is good for a snapshot. */
static void want_snapshot(client *c)
{
    gt_recovery *recovery = c->session->recovery;
    recovery->stage = GT_KEEP_STRIKE;
    recovery->look_ns = recovery->until_ns = 0;
}

static void send_upload(client *c, numbers *n, uint64_t id)
{
    gt_slot record[2 + 4] = {
        {.ins = {.op = GT_OP_upload, .dtype = GT_FLOAT32, .rank = 1, .tail = 5, .result = id}}};
    record->ins.imm[0].u = 4 * sizeof *record;
    record[1].i64[0] = sizeof *record;
    numbers_fill(n, record + 2, 4 * sizeof *record);
    send_slots(c->link, record, 6);
}

static void send_site(client *c)
{
    gt_slot record[1 + GT_SITE_TAIL] = {{.ins = {.op = GT_OP_site, .tail = GT_SITE_TAIL}}};
    record->ins.imm[0].u = ++c->sites;
    snprintf((char *)record[1].bytes, sizeof record[1].bytes, "/home/x/train_%u.py:7", (unsigned)c->sites);
    send_slots(c->link, record, 1 + GT_SITE_TAIL);
}

/* One that says nothing; without numbers, that of the rows. */
static void send_config(client *c, numbers *n)
{
    gt_slot record[GT_CONFIG_SLOTS];
    gt_signal_config signal = {.flags = 0};
    if (n)
        snprintf(signal.name, sizeof signal.name, "signal_%u", (unsigned)numbers_below(n, 100));
    else {
        signal = (gt_signal_config){
            .flags = GT_CONFIG_SHARD | GT_CONFIG_AXIS, .name = "rows", .worker_count = 2, .workers = {0, 1}};
    }
    gt__config_write(&signal, record);
    send_slots(c->link, record, 1u + record->ins.tail);
}

/* What names it in its scope is split over both workers. */
static void send_rows(client *c)
{
    gt_slot scope[5] = {{.ins = {.op = GT_OP_scope, .tail = 4}}};
    scope->ins.imm[0].u = 1;
    snprintf((char *)scope[1].bytes, sizeof scope[1].bytes, "rows");
    send_config(c, NULL);
    send_slots(c->link, scope, 5);
}

static void send_split(client *c, uint64_t id)
{
    gt_slot record[2] = {
        {.ins = {.op = GT_OP_full, .dtype = GT_FLOAT32, .rank = 1, .tail = 1, .result = id, .scope = 1}}};
    record->ins.imm[0].f = (double)id;
    record[1].i64[0] = sizeof(gt_slot);
    send_slots(c->link, record, 2);
}

/* A new tensor in the place of one of those that live. */
static void send_tensor(client *c, numbers *n)
{
    uint64_t *place = &c->alive[numbers_below(n, TENSORS)], other = c->alive[numbers_below(n, TENSORS)];
    uint64_t before = *place, id = c->next_id++;
    if (other && numbers_below(n, 2))
        send_ins(c->link,
                 (gt_instruction){
                     .op = GT_OP_add, .result = id, .site = (uint32_t)c->sites, .operand = {other, other}});
    else if (numbers_below(n, 3) == 0)
        send_upload(c, n, id);
    else if (c->shards && numbers_below(n, 2))
        send_split(c, id);
    else
        send_full(c->link, id, (int64_t)sizeof(gt_slot), (double)id);
    *place = id;
    if (before)
        send_free(c->link, before);
}

/* A tensor that a limit refuses. All of it is freed, but what has none of its elements lives on, and has failed as well: if a snapshot is
 * taken meanwhile, it has these failures. */
static void send_refused(client *c, numbers *n)
{
    gt_slot slice[4] = {
        {.ins = {.op = GT_OP_slice, .tail = 3, .result = c->next_id + 1, .operand = {c->next_id}}}};
    uint64_t *place = &c->alive[numbers_below(n, TENSORS)], before = *place;
    slice[2].i64[0] = 1; /* from 0, in steps of 1, none */
    send_full(c->link, c->next_id, MEMORY, 1);
    send_slots(c->link, slice, 4);
    send_free(c->link, c->next_id);
    *place = c->next_id + 1;
    if (before)
        send_free(c->link, before);
    c->next_id += 2;
    c->refused++;
}

static void step(fixture *f, client *c, numbers *n)
{
    gt_slot share = {.ins = {.op = GT_OP_share}};
    switch (numbers_below(n, 14)) {
    case 0:
        send_site(c);
        break;
    case 1:
        send_config(c, n);
        break;
    case 2:
        want_snapshot(c);
        break;
    case 3:
        share.ins.imm[0].f = numbers_below(n, 2) ? 0.5 : 1;
        send_slots(c->link, &share, 1);
        break;
    case 4:
        take_turns(f, c);
        break;
    case 5: /* more than a block of the journal */
        for (int k = 0; k < 2000; k++)
            send_ins(c->link, (gt_instruction){.op = GT_OP_sync, .result = c->next_id++});
        take_turns(f, c);
        break;
    case 6: /* as when a worker leaves */
        take_turns(f, c);
        gt__journaled_again(c->session);
        break;
    case 7:
        send_refused(c, n);
        break;
    default:
        send_tensor(c, n);
    }
}

static bool has_layouts(const gt_snapshot *saved)
{
    unsigned layouts = 0;
    for (uint32_t k = 0; saved && k < saved->count; k++)
        layouts += saved->tensor[k]->layout != NULL;
    return layouts;
}

/* Whether it has a tensor that failed and is empty. */
static bool has_empty_failures(const gt_snapshot *saved)
{
    unsigned failures = 0;
    for (uint32_t k = 0; saved && k < saved->count; k++)
        failures += saved->tensor[k]->part_count && saved->tensor[k]->part[0].failure &&
                    !gt__meta_bytes(&saved->tensor[k]->meta);
    return failures;
}

typedef struct run {
    uint64_t bytes;
    gt_journal_sync sync;
    uint64_t seed;
    unsigned generations; /* that must have come */
    bool spooled;
} run;

static void test_files_have_what_memory_has(const void *argument)
{
    const run *how = argument;
    fixture f;
    numbers n = {.state = how->seed};
    unsigned snapshots = 0;
    bool empty = false, spread = false;
    begin_with(&f, how->bytes, how->sync, how->spooled);
    for (int k = 0; k < CLIENTS; k++)
        connect_client(&f, &f.client[k]);
    send_rows(&f.client[1]);
    f.client[1].shards = true;
    compare(&f);
    for (int k = 0; k < STEPS; k++) {
        step(&f, &f.client[numbers_below(&n, CLIENTS)], &n);
        if (k % 25)
            continue;
        for (int c = 0; c < CLIENTS; c++) {
            take_turns(&f, &f.client[c]);
            empty |= has_empty_failures(f.client[c].session->recovery->saved);
            spread |= has_layouts(f.client[c].session->recovery->saved);
        }
        compare(&f);
    }
    CHECK(empty && spread);
    for (int k = 0; k < CLIENTS; k++) {
        take_turns(&f, &f.client[k]);
        CHECK(f.client[k].session->journaled);
        snapshots += f.client[k].session->recovery->saved != NULL;
        CHECK(f.client[k].refused && f.client[k].session->quota);
        CHECK_EQ(f.client[k].session->quota->refusals, f.client[k].refused);
    }
    CHECK_EQ(snapshots, CLIENTS);
    compare(&f);
    CHECK(gt__journal_generation(f.s.dispatcher->journal->writer) > how->generations);
    /* One leaves: it is not restored. */
    gt__link_close(f.client[0].link);
    f.client[0].link = NULL;
    while (f.s.dispatcher->session_count == CLIENTS)
        gt__dispatcher_turn(f.s.dispatcher);
    compare(&f);
    /* A server that ends takes no session out of its journal. */
    uint64_t left = f.client[1].session->number;
    int port = f.s.dispatcher->port;
    gt__disk_journal_close(f.s.dispatcher);
    gt_restored *restored = NULL;
    CHECK_EQ(gt__restored_read(f.directory, port, &restored), GT_OK);
    CHECK(restored && restored->session_count == 1 && gt__restored_find(restored, left));
    gt__restored_free(&restored);
    end(&f);
}

/* Memory that is short is an error, and not damage that is cut off: the files stay as they are. */
static void test_reading_without_memory(const void *unused)
{
    (void)unused;
    fixture f;
    numbers n = {.state = 13};
    struct stat before, after;
    char path[128];
    unsigned struck = 0;
    begin(&f, 0, GT_JOURNAL_NEVER);
    for (int k = 0; k < CLIENTS; k++)
        connect_client(&f, &f.client[k]);
    send_rows(&f.client[1]);
    f.client[1].shards = true;
    for (int k = 0; k < STEPS / 3; k++)
        step(&f, &f.client[k % CLIENTS], &n);
    for (int k = 0; k < CLIENTS; k++)
        take_turns(&f, &f.client[k]);
    write_all(&f);
    snprintf(path, sizeof path, "%s/journal.1", f.directory);
    CHECK_EQ(stat(path, &before), 0);
    for (bool all = false; !all; struck += !all) {
        gt_restored *restored = NULL;
        shortage_begin(struck, false);
        gt_err err = gt__restored_read(f.directory, f.s.dispatcher->port, &restored);
        all = !shortage_end();
        if (!CHECK_EQ(err, all ? GT_OK : GT_ERR_MEMORY) || !CHECK_EQ(stat(path, &after), 0) ||
            !CHECK_EQ(after.st_size, before.st_size))
            break;
        gt__restored_free(&restored);
    }
    CHECK(struck > 20);
    compare(&f);
    end(&f);
}

/* The journal's two files are never longer than they may be, and old ones go. */
static void test_the_size_is_bounded(const void *unused)
{
    (void)unused;
    enum { MOST = 1 << 20 };
    fixture f;
    numbers n = {.state = 3};
    uint64_t most = 0;
    begin(&f, MOST, GT_JOURNAL_NEVER);
    connect_client(&f, &f.client[0]);
    client *c = &f.client[0];
    for (int k = 0; k < 200; k++) {
        for (int tensor = 0; tensor < 100; tensor++)
            send_tensor(c, &n);
        want_snapshot(c);
        send_tensor(c, &n);
        take_turns(&f, c);
        write_all(&f);
        uint64_t all = 0;
        for (uint64_t generation = 1; generation < 200; generation++) {
            struct stat about;
            char path[128];
            snprintf(path, sizeof path, "%s/journal.%u", f.directory, (unsigned)generation);
            all += stat(path, &about) == 0 ? (uint64_t)about.st_size : 0;
        }
        most = all > most ? all : most;
    }
    CHECK(most > MOST / 3 && most <= MOST);
    CHECK(gt__journal_generation(f.s.dispatcher->journal->writer) > 3);
    CHECK_EQ(files_in(&f, false), 1);
    CHECK(c->session->journaled);
    compare(&f);
    end(&f);
}

/* Uploads take no time of workers, by which snapshots are planned: those of a long journal are taken all the same. */
static void test_uploads_without_work(const void *unused)
{
    (void)unused;
    fixture f;
    numbers n = {.state = 7};
    begin(&f, 1 << 20, GT_JOURNAL_NEVER);
    connect_client(&f, &f.client[0]);
    client *c = &f.client[0];
    c->session->recovery->look_ns = 1e18; /* nothing that is computed makes one due */
    for (int k = 0; k < 5000; k++) {
        send_upload(c, &n, c->next_id);
        send_free(c->link, c->next_id++);
        if (k % 20 == 0)
            take_turns(&f, c);
    }
    CHECK(c->session->journaled && c->session->recovery->saved);
    CHECK(gt__journal_generation(f.s.dispatcher->journal->writer) > 1);
    compare(&f);
    end(&f);
}

/* Tensors that are too large: the session is not in the journal any more, and goes on. */
static void test_a_session_that_is_too_large(const void *unused)
{
    (void)unused;
    fixture f;
    begin(&f, 1 << 20, GT_JOURNAL_NEVER);
    for (int k = 0; k < CLIENTS; k++)
        connect_client(&f, &f.client[k]);
    client *c = &f.client[0];
    send_full(c->link, 1, 100000, 1);
    want_snapshot(c);
    send_full(c->link, 2, 1, 1);
    take_turns(&f, c);
    CHECK(!c->session->journaled && c->session->recovery && c->session->recovery->saved);
    CHECK(f.client[1].session->journaled);
    compare(&f);
    send_full(c->link, 3, 1, 1);
    take_turns(&f, c);
    CHECK_EQ(c->session->handles.count, 3);
    end(&f);
}

/* What a snapshot replaces does not count: an upload, which is in the records until its tensor is in the snapshot. */
static void test_an_upload_and_its_snapshot(const void *unused)
{
    (void)unused;
    enum {
        DATA = 500,
        LARGE = 52000
    }; /* slots of 64 bytes, numbers of 4: 234 of 256 KiB, and the record has 31 */
    fixture f;
    gt_slot record[2 + DATA] = {
        {.ins = {.op = GT_OP_upload, .dtype = GT_UINT8, .rank = 1, .tail = 1 + DATA, .result = 1}}};
    record->ins.imm[0].u = DATA * sizeof *record;
    record[1].i64[0] = DATA * sizeof *record;
    begin(&f, 1 << 20, GT_JOURNAL_NEVER);
    connect_client(&f, &f.client[0]);
    client *c = &f.client[0];
    send_full(c->link, 2, LARGE, 1);
    take_turns(&f, c);
    c->session->recovery->defining = true; /* no snapshot until all is there */
    send_slots(c->link, record, 2 + DATA);
    take_turns(&f, c);
    c->session->recovery->defining = false;
    want_snapshot(c);
    send_full(c->link, 3, 1, 1);
    take_turns(&f, c);
    CHECK(c->session->journaled && c->session->recovery->saved);
    compare(&f);
    end(&f);
}

/* A tensor without elements takes no room, so it is saved where others find none; and it has no first element to be asked for. */
static void test_nothing_and_no_room(const void *unused)
{
    (void)unused;
    fixture f;
    begin(&f, 1 << 20, GT_JOURNAL_NEVER);
    connect_client(&f, &f.client[0]);
    client *c = &f.client[0];
    gt_dispatcher *dispatcher = f.s.dispatcher;
    send_full(c->link, 1, 0, 1);
    take_turns(&f, c);
    want_snapshot(c);
    send_full(c->link, 2, 0, 1);
    gt__link_flush(c->link);
    while (!c->session->recovery->saving)
        gt__dispatcher_turn(dispatcher);
    dispatcher->recovery.used += dispatcher->recovery.most; /* other programs' snapshots have come meanwhile */
    while (c->session->recovery->saving && c->session->recovery->saving->asking)
        gt__dispatcher_turn(dispatcher);
    dispatcher->recovery.used -= dispatcher->recovery.most;
    take_turns(&f, c);
    const gt_snapshot *saved = c->session->recovery->saved;
    if (CHECK(saved && saved->count))
        for (uint32_t k = 0; k < saved->count; k++)
            CHECK(!saved->tensor[k]->part[0].failure);
    compare(&f);
    end(&f);
}

/* Work of so long since the last snapshot, of a program with 5,000 tensors: is the next one due? */
static bool is_due_after(fixture *f, client *c, double seconds)
{
    gt_recovery *recovery = c->session->recovery;
    recovery->stage = GT_KEEP_REST;
    recovery->since_ns = gt__recover_clock(c->session) - seconds * 1e9;
    recovery->look_ns = 0;
    send_full(c->link, c->next_id++, 1, 1);
    take_turns(f, c);
    return recovery->stage != GT_KEEP_REST || recovery->saved;
}

/* A restart repeats what was computed since the last snapshot: sessions of the journal have more of them. */
static void test_when_snapshots_are_due(const void *unused)
{
    (void)unused;
    fixture f;
    begin(&f, 0, GT_JOURNAL_INTERVAL);
    for (int k = 0; k < CLIENTS; k++)
        connect_client(&f, &f.client[k]);
    for (int k = 0; k < CLIENTS; k++) {
        client *c = &f.client[k];
        c->session->recovery->look_ns = 1e18;
        for (int tensor = 0; tensor < 5000; tensor++) {
            send_full(c->link, c->next_id++, 1, 1);
            if (tensor % 100 == 0)
                take_turns(&f, c);
        }
    }
    gt__journaled_end(f.client[1].session, "the test has one without a journal");
    CHECK(!is_due_after(&f, &f.client[0], 0.03)); /* at least 5 times the 10 ms that it takes, about */
    CHECK(is_due_after(&f, &f.client[0], 0.8));
    CHECK(!is_due_after(&f, &f.client[1], 0.8)); /* at least 100 times */
    CHECK(is_due_after(&f, &f.client[1], 2));
    /* The one after a snapshot has most tensors already. */
    const gt_session *session = f.client[0].session;
    want_snapshot(&f.client[0]);
    send_full(f.client[0].link, f.client[0].next_id++, 1, 1);
    take_turns(&f, &f.client[0]);
    uint64_t newest = f.client[0].next_id++;
    send_full(f.client[0].link, newest, 1, 1);
    take_turns(&f, &f.client[0]);
    CHECK(gt__snapshot_has(session, session->recovery->saved, gt__handles_find(&session->handles, 1)));
    CHECK(!gt__snapshot_has(session, session->recovery->saved, gt__handles_find(&session->handles, newest)));
    end(&f);
}

/* Who has taken the place of a worker is in the journal: the session would place its next tensors elsewhere. */
static void test_a_session_with_a_drained_worker(const void *unused)
{
    (void)unused;
    fixture f;
    begin(&f, 0, GT_JOURNAL_INTERVAL);
    for (int k = 0; k < CLIENTS; k++)
        connect_client(&f, &f.client[k]);
    gt_session *session = f.client[0].session;
    CHECK(gt__successors_pass(&session->successors, 0, 1, true));
    gt__recover_moved(session, 0, 1);
    CHECK(session->journaled);
    compare(&f);
    CHECK(gt__successors_pass(&session->successors, 1, 0, false)); /* it is back */
    CHECK_EQ(session->successors.count, 0);
    gt__recover_moved(session, 1, 0);
    compare(&f);
    end(&f);
}

/* A tensor that could not be written is not kept for the journal any more. */
static void test_a_full_disk_gives_tensors_back(const void *unused)
{
    (void)unused;
    fixture f;
    struct rlimit before, small;
    begin(&f, 0, GT_JOURNAL_INTERVAL);
    connect_client(&f, &f.client[0]);
    client *c = &f.client[0];
    write_all(&f);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 16384;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    send_full(c->link, 1, 100000, 1);
    want_snapshot(c);
    send_full(c->link, 2, 1, 1);
    take_turns(&f, c);
    write_all(&f);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    CHECK(gt__journal_failure(f.s.dispatcher->journal->writer));
    const gt_snapshot *saved = c->session->recovery->saved;
    if (CHECK(saved && saved->count))
        for (uint32_t k = 0; k < saved->count; k++)
            CHECK_EQ(saved->tensor[k]->references, 1);
    end(&f);
}

/* A limit to the size of files is a disk that is full. */
static void test_a_full_disk(const void *unused)
{
    (void)unused;
    fixture f;
    numbers n = {.state = 5};
    struct rlimit before, small;
    begin(&f, 0, GT_JOURNAL_INTERVAL);
    for (int k = 0; k < CLIENTS; k++)
        connect_client(&f, &f.client[k]);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 16384;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    client *c = &f.client[0];
    for (int k = 0; k < 100; k++) {
        send_tensor(c, &n);
        take_turns(&f, c);
    }
    write_all(&f);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    CHECK(gt__journal_failure(f.s.dispatcher->journal->writer));
    CHECK_EQ(files_in(&f, false), 0);
    for (int k = 0; k < CLIENTS; k++)
        CHECK(!f.client[k].session->journaled && f.client[k].session->recovery);
    /* They go on, past what a window of the link has room for, and so may others. */
    for (int k = 0; k < 100000; k++) {
        send_ins(c->link, (gt_instruction){.op = GT_OP_sync, .result = c->next_id++});
        if (k % 1000 == 0)
            take_turns(&f, c);
    }
    take_turns(&f, c);
    gt__link_close(f.client[1].link);
    client late = {.link = stepped_connect(&f.s, "tcp")};
    gt__link_resumes(late.link, RESUME_MS);
    stepped_join(&f.s, late.link, GT_ROLE_CLIENT, "late");
    f.client[1] = late;
    end(&f);
}

int main(int argc, char **argv)
{
    static const run runs[] = {
        {.sync = GT_JOURNAL_INTERVAL, .seed = 1},
        {.sync = GT_JOURNAL_ALWAYS, .seed = 2},
        {.sync = GT_JOURNAL_INTERVAL, .seed = 4, .spooled = true},
        {.bytes = 4 << 20, .sync = GT_JOURNAL_NEVER, .seed = 3, .generations = 1},
    };
    check_begin(argc, argv);
    check_run("files have what memory has, interval", test_files_have_what_memory_has, &runs[0]);
    check_run("files have what memory has, always", test_files_have_what_memory_has, &runs[1]);
    check_run("files have what memory has, spooled", test_files_have_what_memory_has, &runs[2]);
    check_run("files have what memory has, generations", test_files_have_what_memory_has, &runs[3]);
    check_run("reading without memory", test_reading_without_memory, NULL);
    check_run("the size is bounded", test_the_size_is_bounded, NULL);
    check_run("uploads without work", test_uploads_without_work, NULL);
    check_run("a session that is too large", test_a_session_that_is_too_large, NULL);
    check_run("an upload and its snapshot", test_an_upload_and_its_snapshot, NULL);
    check_run("tensors without elements, and no room", test_nothing_and_no_room, NULL);
    check_run("when snapshots are due", test_when_snapshots_are_due, NULL);
    check_run("a session with a drained worker", test_a_session_with_a_drained_worker, NULL);
    check_run("a full disk", test_a_full_disk, NULL);
    check_run("a full disk gives tensors back", test_a_full_disk_gives_tensors_back, NULL);
    return check_end();
}
