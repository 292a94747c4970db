/*
 * share_fixture.h: a server whose workers are raw links that answer marks when the test says so: the order of their records does not
 * depend on time.
 */
#ifndef GT_TESTS_SHARE_FIXTURE_H
#define GT_TESTS_SHARE_FIXTURE_H

#include "server_fixture.h"

enum {
    LARGE = 1 << 26, /* elements: one pass over them is more than a window */
    PASS_NS = LARGE / 10 * 3,
    SMALL = 4,
    BACKLOG = 20,
};

typedef struct shared_server {
    server server;
    gt_link *worker, *heavy, *light, *watcher; /* clients 1, 2 and 3 */
} shared_server;

/* Records of a client that the dispatcher has taken; -1: it has left. */
static inline int64_t taken(shared_server *s, int client)
{
    char section[32];
    snprintf(section, sizeof section, "\"number\": %d,", client);
    return server_statistic(s->watcher, 1, section, "instructions");
}

static inline bool wait_taken(shared_server *s, int client, int64_t least)
{
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    while (least < 0 ? taken(s, client) >= 0 : taken(s, client) < least)
        if (!CHECK(gt__remaining_ms(deadline)))
            return false;
    return true;
}

/* All but the server are new. */
static inline void join_new(shared_server *s)
{
    s->worker = server_link(&s->server);
    s->heavy = server_link(&s->server);
    s->light = server_link(&s->server);
    s->watcher = server_link(&s->server);
    server_start(&s->server);
    join_worker(s->worker, "raw");
    join_client(s->heavy);
    join_client(s->light);
    join_client(s->watcher);
}

static inline void join(shared_server *s)
{
    server_new(&s->server, false);
    join_new(s);
}

static inline void end(shared_server *s)
{
    gt__link_close(s->watcher);
    if (s->heavy)
        gt__link_close(s->heavy);
    gt__link_close(s->light);
    server_stop(&s->server);
    gt__link_close(s->worker);
}

static inline void send_light(shared_server *s)
{
    send_full(s->light, 1, SMALL, 1.0);
    send_ins(s->light, (gt_instruction){.op = GT_OP_exp, .result = 2, .operand = {1}});
    gt__link_flush(s->light);
    wait_taken(s, 2, 1);
}

/* Everything up to a record of this op; marks are not answered. */
static inline bool receive_until(gt_link *link, gt_opcode op)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    do
        if (!receive_any(link, record))
            return false;
    while (record->ins.op != op);
    return true;
}

/* Answer a mark: the worker has worked for so long since the last one. */
static inline void answer_worked(gt_link *worker, uint64_t *busy_ns, uint64_t ns)
{
    gt_instruction reply = {.op = GT_OP_reply, .flags = GT_FLAG_LAST};
    reply.imm[0].u = *busy_ns += ns;
    send_ins(worker, reply);
    gt__link_flush(worker);
}

static inline void send_fulls(gt_link *client, int64_t size, int count)
{
    for (int k = 1; k <= count; k++) {
        gt_slot full[2] = {
            {.ins = {
                 .op = GT_OP_full, .dtype = GT_FLOAT32, .rank = 1, .tail = 1, .result = (uint64_t)k, .scope = 1}}};
        full[1].i64[0] = size;
        send_slots(client, full, 2);
    }
    gt__link_flush(client);
}

static inline void send_spread_fulls(gt_link *client, int64_t size, int count)
{
    send_rows_scope(client);
    send_fulls(client, size, count);
}

static inline void send_spread_full(gt_link *client, int64_t size)
{
    send_spread_fulls(client, size, 1);
}

/* Read what the client is told until only one worker is left. */
static inline bool is_told_of_one_worker(gt_link *client)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    do
        if (!receive_any(client, record))
            return false;
    while (record->ins.op != GT_OP_welcome || record->ins.imm[1].i != 1);
    return true;
}

/* Work for a long time. */
static inline void send_backlog(gt_link *client)
{
    for (uint64_t k = 1; k <= BACKLOG; k++)
        send_full(client, k, LARGE, 1.0);
    gt__link_flush(client);
}

#endif
