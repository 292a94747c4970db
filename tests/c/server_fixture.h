/*
 * server_fixture.h: a dispatcher in a thread of the test, workers in other threads, and the little that a raw link
 * needs to play a client: it says exactly what the test wants, right or wrong.
 */
#ifndef GT_TESTS_SERVER_FIXTURE_H
#define GT_TESTS_SERVER_FIXTURE_H

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "core/config.h"
#include "core/report.h"
#include "dispatcher/dispatcher.h"
#include "link/hello.h"
#include "worker/worker.h"

enum { PATIENCE_MS = 20000, MAX_WORKERS = 4 };

/* ---- the server --------------------------------------------------------------------------------------------- */

typedef struct server_worker {
    pthread_t thread;
    gt_link *link;
    char name[32], address[64];
    const char *backend;
} server_worker;

typedef struct server {
    gt_dispatcher *dispatcher;
    pthread_t thread;
    server_worker worker[MAX_WORKERS];
    int workers;
    const char *backend;     /* of workers that are added; NULL: cpu */
    _Atomic pid_t thread_id; /* of the dispatcher's thread, once it runs */
} server;

static inline void *server_thread(void *argument)
{
    server *s = argument;
    s->thread_id = gettid();
    CHECK_EQ(gt__dispatcher_run(s->dispatcher), GT_OK);
    return NULL;
}

static inline void *server_worker_thread(void *argument)
{
    server_worker *w = argument;
    gt_worker_options options = {.name = w->name, .backend = w->backend, .threads = 1, .address = w->address};
    gt__worker_run(&options, w->link);
    return NULL;
}

/* Both ends of a pair: one for the dispatcher, one for us. Before server_start only. */
static inline gt_link *server_link(server *s)
{
    gt_link *ours = NULL, *theirs = NULL;
    if (!CHECK_EQ(gt__link_memory_pair(&ours, &theirs), GT_OK))
        abort();
    CHECK_EQ(gt__dispatcher_adopt(s->dispatcher, theirs), GT_OK);
    return ours;
}

/* A real worker, in a thread. By a pair before server_start; by connecting (listening servers) afterwards. */
static inline void server_add_worker(server *s, bool connecting)
{
    server_worker *w = &s->worker[s->workers];
    snprintf(w->name, sizeof w->name, "real_%d", s->workers++);
    snprintf(w->address, sizeof w->address, "localhost:%d", gt__dispatcher_port(s->dispatcher));
    w->backend = s->backend ? s->backend : "cpu";
    w->link = connecting ? NULL : server_link(s);
    CHECK_EQ(pthread_create(&w->thread, NULL, server_worker_thread, w), 0);
}

static inline void server_new_from(server *s, const gt_dispatcher_options *options)
{
    memset(s, 0, sizeof *s);
    if (!CHECK_EQ(gt__dispatcher_new(options, &s->dispatcher), GT_OK))
        abort();
}

static inline void server_new_with(server *s, bool listening, const char *modifiers)
{
    server_new_from(s, &(gt_dispatcher_options){.listen = listening, .modifiers = modifiers});
}

static inline void server_new(server *s, bool listening)
{
    server_new_with(s, listening, "identity,statistics");
}

static inline void server_start(server *s)
{
    CHECK_EQ(pthread_create(&s->thread, NULL, server_thread, s), 0);
}

static inline void server_stop(server *s)
{
    gt__dispatcher_stop(s->dispatcher);
    pthread_join(s->thread, NULL);
    gt__dispatcher_free(&s->dispatcher);
    for (int k = 0; k < s->workers; k++)
        pthread_join(s->worker[k].thread, NULL);
}

static inline gt_link *server_connect(server *s, const char *transport)
{
    char address[64];
    gt_link *link = NULL;
    snprintf(address, sizeof address, "%s://localhost:%d", transport, gt__dispatcher_port(s->dispatcher));
    if (!CHECK_EQ(gt__address_connect(address, NULL, PATIENCE_MS, &link), GT_OK))
        abort();
    return link;
}

/* ---- raw records -------------------------------------------------------------------------------------------- */

static inline bool send_slots(gt_link *link, const gt_slot *slots, unsigned count)
{
    gt_slot *out;
    while (!(out = gt__link_reserve(link, count)))
        if (gt__link_wait(link, GT_WAIT_WRITE, PATIENCE_MS) != GT_OK)
            return false;
    memcpy(out, slots, count * sizeof *out);
    gt__link_commit(link, count);
    return true;
}

static inline bool send_ins(gt_link *link, gt_instruction ins)
{
    gt_slot slot = {.ins = ins};
    return send_slots(link, &slot, 1);
}

/* What every worker does with a mark: the dispatcher waits for it before it sends more. */
static inline void answer_mark(gt_link *link)
{
    gt_instruction reply = {.op = GT_OP_reply, .flags = GT_FLAG_LAST};
    reply.imm[0].u = gt__now_ns();
    send_ins(link, reply);
    gt__link_flush(link);
}

/* The next record, copied; false when the link died first. Those that tell a worker whose records follow are left out. */
static inline bool receive_any(gt_link *link, gt_slot *record)
{
    const gt_slot *slots;
    size_t available;
    unsigned length;
    gt__link_flush(link);
    do {
        while (!(slots = gt__link_peek(link, &available)))
            if (gt__link_wait(link, GT_WAIT_READ, PATIENCE_MS) != GT_OK)
                return false;
        if (!CHECK_EQ(gt__instruction_check(slots, available, &length), GT_OK))
            return false;
        memcpy(record, slots, length * sizeof *record);
        gt__link_consume(link, length);
    } while (record->ins.op == GT_OP_share && record->ins.imm[1].u == GT_SHARE_OWNER);
    return true;
}

/* The same, without records between the dispatcher and a worker only; marks are answered. */
static inline bool receive(gt_link *link, gt_slot *record)
{
    do {
        if (!receive_any(link, record))
            return false;
        if (record->ins.op == GT_OP_mark)
            answer_mark(link);
    } while (record->ins.op == GT_OP_peer || record->ins.op == GT_OP_share || record->ins.op == GT_OP_mark);
    return true;
}

/* Say hello as a client and wait until there is a worker. */
static inline bool join_client(gt_link *link)
{
    gt_welcome welcome = {0};
    bool joined = CHECK_EQ(gt__hello_send(link, GT_ROLE_CLIENT, "raw", ""), GT_OK);
    while (joined && !welcome.workers)
        joined = CHECK_EQ(gt__hello_wait(link, PATIENCE_MS, &welcome), GT_OK);
    return joined;
}

/* A worker's answer to `stats`, without rows. */
static inline void send_report(gt_link *worker, uint64_t question, const gt_report *report)
{
    gt_slot answer[1 + (sizeof *report + sizeof(gt_slot) - 1) / sizeof(gt_slot)] = {0};
    answer->ins = (gt_instruction){.op = GT_OP_reply, .flags = GT_FLAG_LAST, .result = question};
    answer->ins.tail = (uint16_t)gt__slots_for(sizeof *report);
    answer->ins.imm[1].u = sizeof *report;
    memcpy(answer + 1, report, sizeof *report);
    send_slots(worker, answer, 1u + answer->ins.tail);
    gt__link_flush(worker);
}

static inline bool join_worker(gt_link *link, const char *name)
{
    gt_welcome welcome;
    return CHECK_EQ(gt__hello_send(link, GT_ROLE_WORKER, name, "raw"), GT_OK) &&
           CHECK_EQ(gt__hello_wait(link, PATIENCE_MS, &welcome), GT_OK);
}

/* Read on until the server's goodbye, which must say `reason`. */
static inline void expect_goodbye(gt_link *link, const char *reason)
{
    static _Thread_local gt_slot record[1 + GT_MAX_TAIL];
    while (receive(link, record))
        if (record->ins.op == GT_OP_goodbye) {
            if (!CHECK(strstr((const char *)record[1].bytes, reason)))
                fprintf(stderr, "  it said: %.128s; expected: %s\n", (const char *)record[1].bytes, reason);
            return;
        }
    if (!CHECK(!"the link ended without a goodbye"))
        fprintf(stderr, "  expected: %s\n", reason);
}

/* ---- instructions ------------------------------------------------------------------------------------------- */

static inline bool send_full(gt_link *link, uint64_t id, int64_t size, double value)
{
    gt_slot record[2] = {{.ins = {.op = GT_OP_full, .dtype = GT_FLOAT32, .rank = 1, .tail = 1, .result = id}}};
    record->ins.imm[0].f = value;
    record[1].i64[0] = size;
    return send_slots(link, record, 2);
}

static inline bool send_free(gt_link *link, uint64_t id)
{
    return send_ins(link, (gt_instruction){.op = GT_OP_free, .result = id});
}

/* The answer to `ticket`: GT_OK and the text or bytes, or the failure's code and text. */
static inline gt_err receive_answer(gt_link *link, uint64_t ticket, char *text, size_t size)
{
    static _Thread_local gt_slot record[1 + GT_MAX_TAIL];
    size_t filled = 0;
    while (receive(link, record)) {
        if (record->ins.op != GT_OP_reply && record->ins.op != GT_OP_failure)
            continue;
        CHECK_EQ(record->ins.result, ticket);
        size_t bytes = record->ins.imm[1].u;
        CHECK(bytes < size - filled);
        memcpy(text + filled, record + 1, bytes);
        filled += bytes;
        text[filled] = 0;
        if (record->ins.op == GT_OP_failure)
            return (gt_err)record->ins.imm[0].i;
        if (record->ins.flags & GT_FLAG_LAST)
            return GT_OK;
    }
    text[0] = 0;
    return GT_ERR_CONNECTION;
}

static inline gt_err fetch_text(gt_link *link, uint64_t id, uint64_t ticket, char *text, size_t size)
{
    send_ins(link, (gt_instruction){.op = GT_OP_fetch, .result = ticket, .operand = {id}});
    return receive_answer(link, ticket, text, size);
}

/* Whether a session gets right answers: 2 + 3 on ids from `id` on, which are freed again. */
static inline bool session_works(gt_link *link, uint64_t id)
{
    char bytes[64];
    float sum = 0;
    send_full(link, id, 1, 2.0);
    send_full(link, id + 1, 1, 3.0);
    send_ins(link, (gt_instruction){.op = GT_OP_add, .result = id + 2, .operand = {id, id + 1}});
    gt_err err = fetch_text(link, id + 2, id, bytes, sizeof bytes);
    memcpy(&sum, bytes, sizeof sum);
    send_ins(link, (gt_instruction){.op = GT_OP_free, .result = id, .operand = {id + 1, id + 2}});
    return err == GT_OK && sum == 5.0f;
}

/* A number in the dispatcher's statistics: the first after `section` that has this key. */
static inline int64_t server_statistic(gt_link *link, uint64_t ticket, const char *section, const char *key)
{
    static _Thread_local char json[1 << 16];
    char quoted[64];
    send_ins(link, (gt_instruction){.op = GT_OP_stats, .result = ticket});
    if (receive_answer(link, ticket, json, sizeof json) != GT_OK)
        return -1;
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(json, section);
    at = at ? strstr(at, quoted) : NULL;
    return at ? strtoll(at + strlen(quoted), NULL, 10) : -1;
}

/* Wait until the worker has this many tensors: each question is a round trip through the dispatcher. */
static inline bool tensors_become(gt_link *link, int64_t count)
{
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    int64_t now;
    while ((now = server_statistic(link, 1, "\"workers\"", "tensors")) != count)
        if (now < 0 || !gt__remaining_ms(deadline))
            return false;
    return true;
}

/* The client's scope 1, "rows": tensors are split along their first axis over these workers, one or two. */
static inline void send_rows_scope_on(gt_link *client, int first, int second)
{
    gt_slot record[GT_CONFIG_SLOTS];
    gt_signal_config rows = {.name = "rows",
                             .flags = GT_CONFIG_SHARD | GT_CONFIG_AXIS,
                             .worker_count = 1 + (first != second),
                             .workers = {first, second}};
    gt__config_write(&rows, record);
    send_slots(client, record, 1u + record->ins.tail);
    gt_slot scope[1 + 2 * GT_NAME_SLOTS] = {{.ins = {.op = GT_OP_scope, .tail = 2 * GT_NAME_SLOTS}}};
    scope->ins.imm[0].u = 1;
    memcpy(scope + 1, "rows", strlen("rows"));
    send_slots(client, scope, 1 + 2 * GT_NAME_SLOTS);
}

static inline void send_rows_scope(gt_link *client)
{
    send_rows_scope_on(client, 0, 1);
}

#endif
