/*
 * test_pressure.c: peers that do not keep up. Clients that do not read, workers that do not take what they are sent,
 * either of them gone in the middle: nobody else waits, nothing is lost, and nothing grows without bound.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include "dispatcher/remains.h"
#include "server_fixture.h"

/* ---- short answers, long streams ---------------------------------------------------------------------------- */

enum { ANSWER_FLOATS = GT_MAX_CHUNK / (int)sizeof(float) };

static void test_unread_answers(const void *argument)
{
    int asked = *(const int *)argument;
    bool too_many = (size_t)asked * GT_MAX_CHUNK > (size_t)64 << 20;
    static gt_slot record[1 + GT_MAX_TAIL];
    server s;
    server_new(&s, false);
    server_add_worker(&s, false);
    gt_link *deaf = server_link(&s), *good = server_link(&s);
    server_start(&s);
    join_client(deaf);
    join_client(good);
    for (int k = 0; k < asked; k++) {
        uint64_t id = 1 + (uint64_t)k;
        send_full(deaf, id, ANSWER_FLOATS, k);
        send_ins(deaf, (gt_instruction){.op = GT_OP_fetch, .result = id, .operand = {id}});
        if (!send_free(deaf, id))
            break;
        if (k % 100 == 0)
            CHECK(session_works(good, 1 + 3 * (uint64_t)k));
    }
    gt__link_flush(deaf);
    CHECK(session_works(good, 1000000));
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS); /* nothing is read before the server has had enough */
    while (too_many && server_statistic(good, 1, "\"workers\"", "sessions") != 1)
        if (!CHECK(gt__remaining_ms(deadline)))
            break;
    int answers = 0;
    while (receive(deaf, record) && record->ins.op == GT_OP_reply && answers < asked) {
        float value;
        memcpy(&value, record[1].bytes, sizeof value);
        if (!CHECK(record->ins.result == (uint64_t)answers + 1 && value == (float)answers))
            break;
        if (++answers == asked)
            break;
    }
    CHECK(too_many ? answers < asked : answers == asked);
    if (too_many && CHECK_EQ(record->ins.op, GT_OP_goodbye)) /* though its link was full */
        CHECK(strstr((const char *)record[1].bytes, "64 MiB of answers unread"));
    CHECK(session_works(good, 2000000));
    gt__link_close(deaf);
    CHECK(session_works(good, 3000000));
    gt__link_close(good);
    server_stop(&s);
}

/* The same with answers that the dispatcher makes itself, in the middle of reading what the client sent. */
static void test_unread_statistics(const void *argument)
{
    enum { IDLE = 13, ASKED = 200000 }; /* idle clients: their rows make the answers long */
    server s;
    gt_link *idle[IDLE];
    server_new(&s, true);
    server_add_worker(&s, false);
    for (int k = 0; k < IDLE; k++)
        idle[k] = server_link(&s);
    gt_link *good = server_link(&s);
    server_start(&s);
    for (int k = 0; k < IDLE; k++)
        join_client(idle[k]);
    join_client(good);
    gt_link *deaf = server_connect(&s, argument);
    join_client(deaf);
    int asked = 0;
    while (asked < ASKED && send_ins(deaf, (gt_instruction){.op = GT_OP_stats, .result = 1 + (uint64_t)asked}))
        asked++;
    CHECK(asked < ASKED); /* the server has had enough of it */
    CHECK(session_works(good, 1));
    CHECK_EQ(server_statistic(good, 1, "\"workers\"", "sessions"), IDLE + 1);
    expect_goodbye(deaf, "64 MiB of answers unread");
    gt__link_close(deaf);
    CHECK(session_works(good, 100));
    for (int k = 0; k < IDLE; k++)
        gt__link_close(idle[k]);
    gt__link_close(good);
    server_stop(&s);
}

typedef struct slow_worker {
    gt_link *link;
    uint64_t records;
    bool in_order;
} slow_worker;

/* Takes one record at a time and gives the processor away after each few. */
static void *slow_worker_thread(void *argument)
{
    slow_worker *w = argument;
    gt_slot record[1 + GT_MAX_TAIL];
    while (receive(w->link, record)) {
        if (record->ins.op == GT_OP_goodbye)
            break;
        w->records++;
        if (record->ins.op == GT_OP_sync) {
            send_ins(w->link,
                     (gt_instruction){.op = GT_OP_reply, .flags = GT_FLAG_LAST, .result = record->ins.result});
            gt__link_flush(w->link);
        }
        if (w->records % 512 == 0)
            sched_yield();
    }
    return NULL;
}

static long peak_kilobytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void test_back_pressure(const void *argument)
{
    (void)argument;
    enum { INSTRUCTIONS = 1000000, MOST_QUEUED = 4 * 8192 };
    server s;
    slow_worker w = {0};
    pthread_t thread;
    server_new(&s, false);
    w.link = server_link(&s);
    gt_link *client = server_link(&s);
    server_start(&s);
    join_worker(w.link, "slow");
    join_client(client);
    send_full(client, 1, 4, 1.0);
    /* Nobody takes anything yet: the stream must come to a halt, not pile up. */
    uint64_t sent = 1;
    gt_slot *out;
    while (sent < INSTRUCTIONS) {
        while (!(out = gt__link_reserve(client, 1)))
            if (gt__link_wait(client, GT_WAIT_WRITE, 100) != GT_OK)
                break;
        if (!out)
            break;
        out->ins = (gt_instruction){.op = GT_OP_sign, .result = 1 + sent, .operand = {sent}};
        out->ins.flags = GT_FLAG_CONSUMES;
        gt__link_commit(client, 1);
        sent++;
    }
    CHECK(sent <= MOST_QUEUED);
    long before = peak_kilobytes();
    pthread_create(&thread, NULL, slow_worker_thread, &w);
    for (; sent < INSTRUCTIONS; sent++)
        if (!CHECK(send_ins(
                client, (gt_instruction){
                            .op = GT_OP_sign, .flags = GT_FLAG_CONSUMES, .result = 1 + sent, .operand = {sent}})))
            break;
    char text[64];
    send_ins(client, (gt_instruction){.op = GT_OP_sync, .result = 77});
    CHECK_EQ(receive_answer(client, 77, text, sizeof text), GT_OK);
    CHECK(peak_kilobytes() - before < 32 * 1024);
    CHECK_EQ(server_statistic(client, 1, "\"workers\"", "tensors"), 1);
    gt__link_close(client);
    server_stop(&s);
    pthread_join(thread, NULL);
    CHECK(w.records >= INSTRUCTIONS + 1);
    gt__link_close(w.link);
}

/* ---- a full ring -------------------------------------------------------------------------------------------- */

/* A worker that keeps account of its slots. */
typedef struct accountant {
    gt_link *link;
    bool used[1 << 16];
    uint64_t live, largest;
    int64_t forgotten;
} accountant;

static void account_free(accountant *a, uint64_t slot)
{
    if (slot && CHECK(slot < 1 << 16)) {
        a->live -= a->used[slot];
        a->used[slot] = false;
    }
}

static void *accountant_thread(void *argument)
{
    accountant *a = argument;
    gt_slot record[1 + GT_MAX_TAIL];
    while (receive(a->link, record) && record->ins.op != GT_OP_goodbye) {
        const gt_instruction *ins = &record->ins;
        if (ins->op == GT_OP_free) {
            const uint64_t slots[] = {ins->result,     ins->operand[0], ins->operand[1],
                                      ins->operand[2], ins->imm[0].u,   ins->imm[1].u};
            for (int k = 0; k < 6; k++)
                account_free(a, slots[k]);
        } else if (ins->op == GT_OP_forget)
            a->forgotten++;
        else if (ins->op < GT_OP_FIRST_CONTROL && CHECK(ins->result < 1 << 16)) {
            CHECK(!a->used[ins->result]); /* handed out again before it was freed */
            a->used[ins->result] = true;
            a->live++;
            a->largest = ins->result > a->largest ? ins->result : a->largest;
        }
    }
    return NULL;
}

static int64_t turns_in_silence(gt_link *link)
{
    int64_t before = server_statistic(link, 1, "{", "turns");
    poll(NULL, 0, 100);
    return server_statistic(link, 1, "{", "turns") - before;
}

/* Share a segment and upload it as tensor `id`. */
static void upload_segment(gt_link *link, gt_segment *segment, uint64_t id)
{
    gt_slot upload[2] = {{.ins = {.op = GT_OP_upload, .dtype = GT_UINT8, .rank = 1, .tail = 1, .result = id}}};
    gt_err err;
    gt__link_flush(link);
    while ((err = link->ops->share(link, segment)) == GT_ERR_TIMEOUT)
        sched_yield();
    CHECK_EQ(err, GT_OK);
    atomic_store(segment->busy, 1);
    upload->ins.imm[0].i = upload[1].i64[0] = 4096;
    upload->ins.imm[1].u = segment->id;
    send_slots(link, upload, 2);
}

static bool becomes_idle(const gt_segment *segment)
{
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (gt__segment_busy(segment) && gt__remaining_ms(deadline))
        poll(NULL, 0, 1);
    return !gt__segment_busy(segment);
}

/* Clients leave, one of them while it is held up, and the worker has no room to be told: it hears of it later. */
static void test_leaving_a_full_ring(const void *argument)
{
    (void)argument;
    enum { TENSORS = 1000, FLOOD = 2 * 8192 };
    static accountant a;
    pthread_t thread;
    server s;
    gt_segment *segment;
    gt_slot *out;
    server_new(&s, false);
    a = (accountant){.link = server_link(&s)};
    gt_link *good = server_link(&s), *leaver = server_link(&s), *flooder = server_link(&s);
    server_start(&s);
    join_worker(a.link, "accountant");
    join_client(good);
    join_client(leaver);
    join_client(flooder);
    CHECK_EQ(gt__segment_new(4096, &segment), GT_OK);
    upload_segment(leaver, segment, TENSORS);
    for (uint64_t id = 1; id < TENSORS; id++)
        send_full(leaver, id, 16, 1.0);
    gt__link_flush(leaver);
    CHECK(tensors_become(good, TENSORS));
    send_full(flooder, 1, 16, 1.0);
    uint64_t flooded = 1;
    while (flooded < FLOOD && (out = gt__link_reserve(flooder, 1))) {
        out->ins = (gt_instruction){.op = GT_OP_neg, .result = flooded + 1, .operand = {flooded}};
        gt__link_commit(flooder, 1);
        flooded++;
    }
    gt__link_flush(flooder);
    int64_t silent = turns_in_silence(good); /* time to fill the ring, too; a full one holds up no question */
    int64_t tensors = server_statistic(good, 1, "\"workers\"", "tensors");
    CHECK(tensors > TENSORS && tensors < FLOOD);
    gt__link_close(flooder);
    CHECK(turns_in_silence(good) < silent + 1000); /* its end has been noticed, and does not ring on */
    gt__goodbye_send(leaver, "");
    gt__link_close(leaver);
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (server_statistic(good, 1, "\"workers\"", "sessions") != 1) /* the flooder left without its backlog */
        if (!CHECK(gt__remaining_ms(deadline)))
            break;
    CHECK_EQ(server_statistic(good, 1, "\"workers\"", "tensors"),
             tensors); /* not given back before they are free */
    pthread_create(&thread, NULL, accountant_thread, &a);
    CHECK(tensors_become(good, 0));
    for (uint64_t id = 1; id <= TENSORS; id++)
        send_full(good, id, 16, 1.0);
    CHECK(tensors_become(good, TENSORS));
    server_stop(&s);
    pthread_join(thread, NULL);
    CHECK(a.largest <= TENSORS + flooded); /* the last ones got numbers that had been used before */
    CHECK_EQ(a.live, 0);
    CHECK_EQ(a.forgotten, 1);
    gt__link_close(good);
    gt__link_close(a.link);
    gt__segment_release(segment);
}

/* ---- long answers ------------------------------------------------------------------------------------------- */

enum { LONG_FLOATS = CHECK_SANITIZED ? 6 << 20 : 32 << 20 }; /* 128 MiB; under sanitizers 24: still many parts */

/* The answer to `ticket`, all of it `value`. Another answer may come in between. */
static bool receive_long(gt_link *link, uint64_t ticket, float value)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    uint64_t received = 0;
    while (receive(link, record)) {
        if (record->ins.op == GT_OP_reply && record->ins.result != ticket)
            continue;
        const float *elements = (const float *)record[1].f64;
        if (!CHECK_EQ(record->ins.op, GT_OP_reply) || !CHECK_EQ(record->ins.imm[0].u, received) ||
            !CHECK(elements[0] == value))
            return false;
        received += record->ins.imm[1].u;
        if (record->ins.flags & GT_FLAG_LAST)
            return CHECK_EQ(received, LONG_FLOATS * sizeof(float));
    }
    return CHECK(!"the link ended");
}

/* A client asks for much and reads nothing: that costs little, and holds up nobody. Then it reads after all. */
static void test_long_answers(const void *argument)
{
    const char *transport = argument;
    server s;
    char text[256];
    server_new(&s, true);
    server_start(&s);
    server_add_worker(&s, true);
    gt_link *deaf = server_connect(&s, transport), *good = server_connect(&s, transport);
    join_client(deaf);
    join_client(good);
    send_full(deaf, 1, LONG_FLOATS, 3.0);
    send_ins(deaf, (gt_instruction){.op = GT_OP_sync, .result = 1});
    CHECK_EQ(receive_answer(deaf, 1, text, sizeof text), GT_OK);
    long before = peak_kilobytes();
    for (uint64_t ticket = 2; ticket <= 3; ticket++)
        send_ins(deaf, (gt_instruction){.op = GT_OP_fetch, .result = ticket, .operand = {1}});
    /* What happens to the tensor after the question does not change the answer. */
    gt_slot assign[4] = {{.ins = {.op = GT_OP_assign,
                                  .flags = GT_FLAG_CONSUMES,
                                  .literals = GT_LITERAL_FLOAT << 2,
                                  .tail = 3,
                                  .result = 2,
                                  .operand = {1}}}};
    assign->ins.literal[1].f = 9.0;
    assign[2].i64[0] = 1;
    assign[3].i64[0] = 1;
    send_slots(deaf, assign, 4);
    send_free(deaf, 2);
    gt__link_flush(deaf);
    for (uint64_t round = 0; round < 50; round++) {
        CHECK(session_works(good, 1 + 3 * round));
        poll(NULL, 0, 2);
    }
    CHECK_EQ(server_statistic(good, 1, "\"workers\"", "sessions"), 2);
    long grown = peak_kilobytes() - before;
    CHECK(CHECK_SANITIZED ||
          grown < (128 + 64) * 1024); /* 128 MiB: the assign's. Sanitizers have memory of their own */
    CHECK(receive_long(deaf, 2, 3.0f));
    CHECK(receive_long(deaf, 3, 3.0f));
    CHECK(session_works(deaf, 100));
    gt__link_flush(deaf);
    CHECK(tensors_become(good, 0));
    /* Or it never does. */
    send_full(deaf, 200, LONG_FLOATS, 4.0);
    send_ins(deaf, (gt_instruction){.op = GT_OP_fetch, .result = 4, .operand = {200}});
    gt__link_flush(deaf);
    CHECK(session_works(good, 1000));
    gt__link_close(deaf);
    CHECK(tensors_become(good, 0));
    gt__link_close(good);
    server_stop(&s);
}

static bool cleared(const gt_slot *slot, size_t from)
{
    for (; from < sizeof *slot; from++)
        if (slot->bytes[from])
            return false;
    return true;
}

/* Answers end in the middle of a slot: the rest of it does not tell what others were answered before. */
static void test_nothing_left_over(const void *argument)
{
    (void)argument;
    static gt_slot record[1 + GT_MAX_TAIL];
    server s;
    server_new(&s, false);
    server_add_worker(&s, false);
    gt_link *other = server_link(&s), *client = server_link(&s);
    server_start(&s);
    join_client(other);
    join_client(client);
    send_full(other, 1, 16, 3.0); /* a slot of threes, in every place of the rings */
    for (uint64_t ticket = 2; ticket < 5000; ticket++) {
        send_ins(other, (gt_instruction){.op = GT_OP_fetch, .result = ticket, .operand = {1}});
        gt__link_flush(other);
        if (!CHECK(receive(other, record)))
            break;
    }
    send_full(client, 1, 3, 2.0);
    send_ins(client, (gt_instruction){.op = GT_OP_fetch, .result = 2, .operand = {1}});
    gt__link_flush(client);
    CHECK(receive(client, record) && record->ins.imm[1].u == 3 * sizeof(float));
    CHECK(cleared(record + 1, 3 * sizeof(float)));
    send_ins(client, (gt_instruction){.op = GT_OP_stats, .result = 3});
    gt__link_flush(client);
    if (CHECK(receive(client, record)) && record->ins.imm[1].u % sizeof(gt_slot))
        CHECK(cleared(record + record->ins.tail, record->ins.imm[1].u % sizeof(gt_slot)));
    gt__link_close(client);
    gt__link_close(other);
    server_stop(&s);
}

/* A worker that answers in the order in which it was asked, fetches and marks alike, and later. */
typedef struct late_worker {
    gt_link *link;
    unsigned owed;
    uint64_t questions[64]; /* their numbers */
} late_worker;

/* Its stream up to the next fetch of a part, which is of *row. */
static bool receive_fetch(late_worker *w, uint64_t *row)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    do {
        if (!receive_any(w->link, record))
            return false;
        if (record->ins.op == GT_OP_slice)
            *row = record->ins.operand[0];
        if (record->ins.op == GT_OP_mark && !w->owed)
            answer_mark(w->link);
        else if ((record->ins.op == GT_OP_fetch || record->ins.op == GT_OP_mark) && CHECK(w->owed < 64))
            w->questions[w->owed++] = record->ins.result;
    } while (record->ins.op != GT_OP_fetch);
    return true;
}

static void answer_all(late_worker *w)
{
    for (unsigned k = 0; k < w->owed;
         k++) { /* the last, and empty, piece of a part looks as the answer to a mark */
        gt_instruction reply = {.op = GT_OP_reply, .flags = GT_FLAG_LAST, .result = w->questions[k]};
        reply.imm[0].u = w->questions[k] ? 0 : gt__now_ns();
        send_ins(w->link, reply);
    }
    gt__link_flush(w->link);
    w->owed = 0;
}

static void ask_for_long(gt_link *client, int64_t floats)
{
    join_client(client);
    send_full(client, 1, floats, 1.0);
    send_ins(client, (gt_instruction){.op = GT_OP_fetch, .result = 7, .operand = {1}});
    gt__link_flush(client);
}

/* Two clients wait for room in their worker's link to be asked for the next part: the one that came first gets it first. */
static void test_long_answers_in_order(const void *argument)
{
    (void)argument;
    enum { FILLERS = 60, AT_ONCE = 16, PARTS = 64, FLOATS = PARTS * (4 << 20) / (int)sizeof(float) };
    static gt_slot record[1 + GT_MAX_TAIL];
    server s;
    server_new(&s, false);
    late_worker w = {.link = server_link(&s)};
    gt_link *fillers[FILLERS], *first = server_link(&s), *second = server_link(&s);
    for (int f = 0; f < FILLERS; f++)
        fillers[f] = server_link(&s);
    server_start(&s);
    join_worker(w.link, "late");
    for (int f = 0; f < FILLERS; f++) { /* so few tensors of each that they are freed at once */
        join_client(fillers[f]);
        for (uint64_t id = 1; id <= GT_REMAINS_PIECE; id += AT_ONCE) {
            for (uint64_t k = id; k < id + AT_ONCE; k++)
                send_full(fillers[f], k, 1, 1.0);
            gt__link_flush(fillers[f]);
            for (int k = 0; k < AT_ONCE; k++)
                CHECK(receive(w.link, record) && record->ins.op == GT_OP_full);
        }
    }
    uint64_t row_of_second = 0, row = 0, ticket = 8;
    ask_for_long(second, FLOATS);
    CHECK(receive_fetch(&w, &row_of_second));
    ask_for_long(first, FLOATS);
    do /* until both have asked for a part, the one of `first` before the other */
        answer_all(&w);
    while (CHECK(receive_fetch(&w, &row)) && row == row_of_second);
    CHECK(receive_fetch(&w, &row) && row == row_of_second);
    for (int f = 0; f < FILLERS; f++) /* the frees of their tensors fill the worker's link */
        gt__link_close(fillers[f]);
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (server_statistic(first, ticket++, "\"workers\"", "sessions") != 2)
        if (!CHECK(gt__remaining_ms(deadline)))
            break;
    answer_all(&w);
    CHECK(receive_fetch(&w, &row) && row != row_of_second);
    CHECK(receive_fetch(&w, &row) && row == row_of_second);
    gt__link_close(first);
    gt__link_close(second);
    gt__link_close(w.link);
    server_stop(&s);
}

/* Two long fetches, and the worker dies in the first: the client hears of both, once. */
static void test_long_answer_lost(const void *argument)
{
    (void)argument;
    static gt_slot record[1 + GT_MAX_TAIL];
    server s;
    char text[256];
    server_new(&s, false);
    gt_link *fragile = server_link(&s), *client = server_link(&s);
    server_start(&s);
    join_worker(fragile, "fragile");
    join_client(client);
    send_full(client, 1, LONG_FLOATS, 3.0);
    for (uint64_t ticket = 2; ticket <= 3; ticket++)
        send_ins(client, (gt_instruction){.op = GT_OP_fetch, .result = ticket, .operand = {1}});
    gt__link_flush(client);
    do
        CHECK(receive(fragile, record));
    while (record->ins.op != GT_OP_fetch && !fragile->dead);
    gt__link_close(fragile);
    for (uint64_t ticket = 2; ticket <= 3; ticket++) {
        CHECK_EQ(receive_answer(client, ticket, text, sizeof text), GT_ERR_CONNECTION);
        CHECK(strstr(text, "fragile"));
    }
    CHECK_EQ(server_statistic(client, 4, "\"clients\"", "tensors"), 1);
    gt__link_close(client);
    server_stop(&s);
}

/* ---- a worker alone ----------------------------------------------------------------------------------------- */

typedef struct lonely_worker {
    gt_link *link;
    atomic_bool stop;
} lonely_worker;

static void *lonely_worker_thread(void *argument)
{
    lonely_worker *w = argument;
    gt_worker_options options = {.name = "lonely", .threads = 1, .stop = &w->stop, .stop_poll_ms = 20};
    gt__worker_run(&options, w->link);
    return NULL;
}

/* In the middle of a long answer that nobody takes, the dispatcher vanishes, or the worker is told to stop. */
static void test_unheard_worker(const void *argument)
{
    bool vanishes = argument != NULL;
    static gt_slot record[1 + GT_MAX_TAIL];
    lonely_worker w = {0};
    gt_link *dispatcher = NULL;
    pthread_t thread;
    CHECK_EQ(gt__link_memory_pair(&w.link, &dispatcher), GT_OK);
    pthread_create(&thread, NULL, lonely_worker_thread, &w);
    CHECK(receive(dispatcher, record) && record->ins.op == GT_OP_hello);
    send_ins(dispatcher, (gt_instruction){.op = GT_OP_welcome, .result = 1});
    send_full(dispatcher, 1, 4 << 20, 1.0);
    send_ins(dispatcher, (gt_instruction){.op = GT_OP_fetch, .result = 1, .operand = {1}});
    gt__link_flush(dispatcher);
    CHECK_EQ(gt__link_wait(dispatcher, GT_WAIT_READ, PATIENCE_MS), GT_OK);
    poll(NULL, 0, 20); /* the ring is full by now */
    if (vanishes)
        gt__link_close(dispatcher);
    else
        atomic_store(&w.stop, true);
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 5;
    if (!CHECK_EQ(pthread_timedjoin_np(thread, NULL, &deadline), 0))
        exit(1); /* it spins for ever, on our stack */
    if (!vanishes)
        gt__link_close(dispatcher);
}

/* ---- segments ----------------------------------------------------------------------------------------------- */

/* The new worker is elsewhere: the client is told that segments are over, and what it had sent in one is lost. */
static void test_segments_end(const void *argument)
{
    (void)argument;
    static gt_slot record[1 + GT_MAX_TAIL];
    server s;
    char text[256];
    gt_segment *segment;
    server_new(&s, true);
    server_start(&s);
    gt_link *near = server_connect(&s, "memory"), *far = server_connect(&s, "tcp");
    gt_link *client = server_connect(&s, "memory");
    gt_welcome welcome;
    join_worker(near, "near");
    CHECK_EQ(gt__hello_send(client, GT_ROLE_CLIENT, "raw", ""), GT_OK);
    CHECK_EQ(gt__hello_wait(client, PATIENCE_MS, &welcome), GT_OK);
    CHECK(welcome.segments && welcome.workers == 1);
    join_worker(far, "far");
    CHECK(receive(client, record) && record->ins.op == GT_OP_welcome && record->ins.imm[1].i == 2);
    CHECK_EQ(gt__segment_new(4096, &segment), GT_OK);
    upload_segment(client, segment, 1);
    gt__link_flush(client);
    CHECK(receive(near, record) && record->ins.op == GT_OP_upload);
    gt__link_close(near);
    CHECK(receive(client, record) && record->ins.op == GT_OP_welcome);
    CHECK_EQ(record->ins.imm[1].i, 1);
    CHECK_EQ(record->ins.flags & GT_FLAG_SEGMENTS, 0);
    CHECK(becomes_idle(segment)); /* the worker that had it is gone */
    upload_segment(client, segment, 2);
    for (uint64_t id = 1; id <= 2; id++) {
        CHECK_EQ(fetch_text(client, id, id, text, sizeof text), GT_ERR_CONNECTION);
        CHECK(strstr(text, "near"));
    }
    CHECK_EQ(atomic_load(segment->busy), 0);
    send_full(client, 3, 4, 1.0);
    gt_instruction fetch = {.op = GT_OP_fetch, .result = 3, .operand = {3}};
    fetch.imm[0].u = segment->id;
    send_ins(client, fetch);
    CHECK_EQ(receive_answer(client, 3, text, sizeof text), GT_ERR_CONNECTION);
    CHECK(strstr(text, "no shared memory"));
    /* And without any worker. */
    gt__link_close(far);
    CHECK(receive(client, record) && record->ins.op == GT_OP_welcome);
    CHECK_EQ(record->ins.imm[1].i, 0);
    upload_segment(client, segment, 4);
    CHECK_EQ(fetch_text(client, 4, 4, text, sizeof text), GT_ERR_CONNECTION);
    CHECK_EQ(atomic_load(segment->busy), 0);
    gt__link_close(client);
    server_stop(&s);
    gt__segment_release(segment);
}

/* A worker that takes no descriptors holds up the sessions that want to share some with it, and nobody else. */
static void test_untaken_segments(const void *argument)
{
    (void)argument;
    enum { SEGMENTS = 300 };
    static gt_segment *segments[SEGMENTS];
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    server s;
    server_new(&s, false);
    gt_link *idle = server_link(&s), *sharer = server_link(&s), *other = server_link(&s);
    server_start(&s);
    join_worker(idle, "idle");
    join_client(sharer);
    join_client(other);
    for (unsigned k = 0; k < SEGMENTS; k++) {
        gt_slot upload[2] = {{.ins = {.op = GT_OP_upload, .rank = 1, .tail = 1, .result = k + 1}}};
        if (!CHECK_EQ(gt__segment_new(4096, &segments[k]), GT_OK))
            return;
        gt_err err;
        while ((err = sharer->ops->share(sharer, segments[k])) == GT_ERR_TIMEOUT)
            sched_yield();
        CHECK_EQ(err, GT_OK);
        upload->ins.imm[0].i = upload[1].i64[0] = 4096;
        upload->ins.imm[1].u = segments[k]->id;
        send_slots(sharer, upload, 2);
        gt__link_flush(sharer);
    }
    for (uint64_t ticket = 1; ticket <= 10;
         ticket++) { /* each after a silence in which the dispatcher would sleep */
        CHECK_EQ(gt__link_wait(other, GT_WAIT_READ, 2), GT_ERR_TIMEOUT);
        CHECK(server_statistic(other, ticket, "\"workers\"", "tensors") >= 0);
    }
    gt__link_close(idle); /* and when it goes, the sharer only hears that its tensors are lost */
    char text[256];
    CHECK_EQ(fetch_text(sharer, SEGMENTS, 1, text, sizeof text), GT_ERR_CONNECTION);
    CHECK(strstr(text, "idle"));
    gt__link_close(sharer);
    gt__link_close(other);
    server_stop(&s);
    for (unsigned k = 0; k < SEGMENTS; k++)
        gt__segment_release(segments[k]);
}

/* Clients that share all they may fill the table of their worker's link: no other client is harmed, nor are they. */
static void test_crowded_segments(const void *argument)
{
    (void)argument;
    enum { CLIENTS = 8, EACH = 1024 };
    server s;
    gt_segment *segment;
    gt_link *crowd[CLIENTS];
    char text[8192];
    _Atomic uint32_t words[2] = {0};
    server_new(&s, false);
    for (int k = 0; k < CLIENTS; k++)
        crowd[k] = server_link(&s);
    gt_link *client = server_link(&s);
    server_add_worker(&s, false);
    server_start(&s);
    CHECK(join_client(client));
    CHECK_EQ(gt__segment_new(4096, &segment), GT_OK);
    for (uint64_t id = 1; id <= 2; id++) { /* before, and when the worker has forgotten the segment */
        memset(segment->data, (int)id, 4096);
        upload_segment(client, segment, id);
        CHECK_EQ(fetch_text(client, id, id, text, sizeof text), GT_OK);
        CHECK_EQ(text[0], (char)id);
        for (int k = 0; id == 1 && k < CLIENTS; k++) {
            CHECK(join_client(crowd[k]));
            for (uint64_t number = 1; number <= EACH;
                 number++) { /* without descriptors: the worker reads none of them */
                gt_segment bare = {.id = number, .fd = -1, .busy = words};
                upload_segment(crowd[k], &bare, number);
            }
            CHECK_EQ(fetch_text(crowd[k], 1, 1, text, sizeof text), GT_ERR_MEMORY);
        }
    }
    for (int k = 0; k < CLIENTS; k++) {
        CHECK(session_works(crowd[k], 2 * EACH));
        gt__link_close(crowd[k]);
    }
    gt__link_close(client);
    server_stop(&s);
    gt__segment_release(segment);
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* With any number of descriptors left a pair is whole, or there is none, and nothing stays open. */
static void test_pair_descriptors(const void *argument)
{
    (void)argument;
    gt_link *a, *b;
    struct rlimit before, few;
    int open_before = open_descriptors();
    gt_err err = GT_ERR_MEMORY;
    getrlimit(RLIMIT_NOFILE, &before);
    for (rlim_t more = 0; more < 64 && err != GT_OK; more++) {
        few = before;
        few.rlim_cur = (rlim_t)open_before + more; /* low numbers are taken first */
        setrlimit(RLIMIT_NOFILE, &few);
        err = gt__link_memory_pair(&a, &b);
        setrlimit(RLIMIT_NOFILE, &before);
        CHECK(err == GT_OK || open_descriptors() == open_before);
    }
    if (!CHECK_EQ(err, GT_OK))
        return;
    gt_slot record[1 + GT_MAX_TAIL];
    CHECK(send_free(a, 7) && (gt__link_flush(a), receive(b, record)) && record->ins.result == 7);
    gt__link_close(a);
    gt__link_close(b);
    CHECK_EQ(open_descriptors(), open_before);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("unread answers", test_unread_answers, &(int){1000});
    check_run("too many unread answers", test_unread_answers, &(int){3000});
    check_run("unread statistics by memory", test_unread_statistics, "memory");
    check_run("unread statistics by tcp", test_unread_statistics, "tcp");
    check_run("back-pressure", test_back_pressure, NULL);
    check_run("leaving a full ring", test_leaving_a_full_ring, NULL);
    check_run("long answers by memory", test_long_answers, "memory");
    check_run("long answers by tcp", test_long_answers, "tcp");
    check_run("long answers in order", test_long_answers_in_order, NULL);
    check_run("a long answer is lost", test_long_answer_lost, NULL);
    check_run("nothing left over", test_nothing_left_over, NULL);
    check_run("an unheard worker stops", test_unheard_worker, NULL);
    check_run("an unheard worker is left", test_unheard_worker, "");
    check_run("segments end", test_segments_end, NULL);
    check_run("untaken segments", test_untaken_segments, NULL);
    check_run("crowded segments", test_crowded_segments, NULL);
    check_run("descriptors of a pair", test_pair_descriptors, NULL);
    return check_end();
}
