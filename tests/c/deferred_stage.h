/*
 * deferred_stage.h: several workers whose streams a test writes, and executes in any order.
 */
#ifndef GT_TESTS_DEFERRED_STAGE_H
#define GT_TESTS_DEFERRED_STAGE_H

#include <stdlib.h>

#include "worker/answer.h"
#include "worker_fixture.h"

enum {
    WORKERS = 3,
    SESSIONS = 3,
    SLOTS = 4096,
    TENSORS = 256,
    ANSWERS = 4096,
    SMALL = 3,
    LARGE = 3000,
    ROUNDS = 10000
};

/* One worker, its stream, and what it answered. */
typedef struct player {
    gt_worker worker;
    gt_link *link; /* the dispatcher's end */
    gt_slot *stream;
    size_t count, at; /* slots written and taken */
    uint64_t owner;   /* that the stream has told */
    uint64_t *free;   /* slot numbers, the last is used next */
    unsigned free_count;
    uint64_t last_slot;
    unsigned told[SLOTS]; /* by number in the stream: how many timings came */
} player;

typedef struct stage {
    gt_board *board;
    player players[WORKERS];
    uint64_t next_tag, next_question;
    int64_t expected[ANSWERS]; /* by question */
    int64_t heard[ANSWERS];    /* -1: not yet */
    uint64_t session_of[ANSWERS], last_heard[SESSIONS + 1];
} stage;

static const gt_worker_options no_options;

static inline bool stage_open(stage *s, const char *engine)
{
    memset(s, 0, sizeof *s);
    s->board = gt__board_new();
    s->next_tag = 1;
    for (int32_t k = 0; k < WORKERS; k++) {
        player *p = &s->players[k];
        gt_worker *worker = &p->worker;
        if (!worker_open(worker, engine))
            return false;
        worker->options = &no_options;
        CHECK_EQ(gt__link_memory_pair(&worker->link, &p->link), GT_OK);
        CHECK_EQ(gt__exchange_local(s->board, NULL, &worker->exchange), GT_OK);
        CHECK_EQ(worker->exchange->ops->join(worker->exchange, k, 1u + (unsigned)k, 1), GT_OK);
        CHECK_EQ(gt__collective_host(worker->exchange, worker->engine, worker->store, &worker->collective), GT_OK);
        if (worker->engine->ops->lend) { /* they read each other's memory */
            CHECK_EQ(gt__collective_lent(worker, &worker->collective), GT_OK);
            worker->group = worker->engine->ops->group(worker->engine);
            for (int32_t other = 0; other < WORKERS; other++)
                worker->introduced[other].group = worker->group;
        }
        gt__timing_init(worker);
        p->stream = calloc(64 * SLOTS, sizeof *p->stream);
        p->free = calloc(SLOTS, sizeof *p->free);
        p->owner = UINT64_MAX;
    }
    return true;
}

static inline void stage_close(stage *s)
{
    for (unsigned k = 0; k < WORKERS; k++) {
        gt_worker *worker = &s->players[k].worker;
        gt__late_drain(worker);
        gt__deferred_free(worker);
        gt__peers_forget(worker);
        worker->collective->ops->close(worker->collective);
    }
    for (unsigned k = 0; k < WORKERS; k++)
        s->players[k].worker.exchange->ops->leave(s->players[k].worker.exchange);
    for (unsigned k = 0; k < WORKERS; k++) {
        player *p = &s->players[k];
        gt__peers_reclaim(&p->worker);
        p->worker.exchange->ops->close(p->worker.exchange);
        gt__link_close(p->worker.link);
        worker_close(&p->worker);
        gt__link_close(p->link);
        free(p->stream);
        free(p->free);
    }
    gt__board_free(s->board);
}

/* ---- writing streams ------------------------------------------------------------------------------------------ */

static inline void write_record(player *p, uint64_t owner, const gt_slot *record)
{
    unsigned length = 1u + record->ins.tail;
    if (owner && owner != p->owner) {
        gt_slot *share = &p->stream[p->count++];
        share->ins = (gt_instruction){.op = GT_OP_share};
        share->ins.imm[0].u = p->owner = owner;
        share->ins.imm[1].u = GT_SHARE_OWNER;
    }
    memcpy(p->stream + p->count, record, length * sizeof *record);
    p->count += length;
}

static inline void write_ins(player *p, uint64_t owner, gt_instruction ins)
{
    write_record(p, owner, &(gt_slot){.ins = ins});
}

static inline uint64_t new_slot(player *p)
{
    return p->free_count ? p->free[--p->free_count] : ++p->last_slot;
}

static inline void write_full(player *p, uint64_t owner, uint64_t slot, int64_t size, int64_t value)
{
    gt_slot record[2] = {{.ins = {.op = GT_OP_full, .dtype = GT_INT64, .rank = 1, .tail = 1, .result = slot}}};
    record->ins.imm[0].i = value;
    record[1].i64[0] = size;
    write_record(p, owner, record);
}

/* The sum of one tensor of each worker. */
static inline void write_sum(stage *s, uint64_t owner, int64_t size, const uint64_t *in, const uint64_t *out)
{
    enum { PARTNERS = (WORKERS + 1) / 2 };
    for (unsigned k = 0; k < WORKERS; k++) {
        gt_slot record[2 + PARTNERS] = {
            {.ins = {.op = GT_OP_all_reduce, .dtype = GT_INT64, .rank = 1, .tail = 1 + PARTNERS}}};
        record->ins.result = out[k];
        record->ins.operand[0] = in[k];
        record->ins.operand[1] = k;
        record->ins.imm[0].u = s->next_tag;
        record->ins.imm[1].u = WORKERS;
        record[1].i64[0] = size;
        for (int64_t other = 0; other < WORKERS; other++)
            ((gt_partner *)(void *)(record + 2))[other] = (gt_partner){.worker = other};
        write_record(&s->players[k], owner, record);
    }
    s->next_tag++;
}

static inline void write_move(stage *s, uint64_t owner, unsigned from, uint64_t in, unsigned to, uint64_t out,
                              int64_t size)
{
    gt_instruction send = {.op = GT_OP_send, .operand = {in}};
    gt_slot recv[2] = {{.ins = {.op = GT_OP_recv, .dtype = GT_INT64, .rank = 1, .tail = 1, .result = out}}};
    send.imm[0].i = to;
    recv->ins.imm[0].i = from;
    send.imm[1].u = recv->ins.imm[1].u = s->next_tag++;
    recv[1].i64[0] = size;
    write_ins(&s->players[from], owner, send);
    write_record(&s->players[to], owner, recv);
}

/* Its answer must be this value, in every element. */
static inline void write_fetch(stage *s, uint64_t owner, unsigned worker, uint64_t slot, int64_t value)
{
    uint64_t question = ++s->next_question;
    if (!CHECK(question < ANSWERS))
        return;
    s->expected[question] = value;
    s->heard[question] = -1;
    s->session_of[question] = owner;
    write_ins(&s->players[worker], owner,
              (gt_instruction){.op = GT_OP_fetch, .result = question, .operand = {slot}});
}

/* ---- executing them ------------------------------------------------------------------------------------------- */

static inline void hear(stage *s, player *p)
{
    const gt_slot *answer;
    size_t available;
    gt__link_flush(p->worker.link);
    while ((answer = gt__link_peek(p->link, &available))) {
        uint64_t question = answer->ins.result;
        if (answer->ins.op == GT_OP_reply && question && question < ANSWERS) {
            const int64_t *values = answer[1].i64;
            size_t count = answer->ins.imm[1].u / sizeof *values;
            CHECK(count && values[0] == values[count - 1]);
            s->heard[question] = count ? values[0] : -2;
            if (!(answer->ins.flags & GT_FLAG_LAST))
                CHECK(false); /* the tensors are short enough for one piece */
        } else if (answer->ins.op == GT_OP_timing) {
            for (uint64_t k = 0; k < answer->ins.imm[1].u && CHECK(answer->ins.result + k < SLOTS); k++)
                p->told[answer->ins.result + k]++;
        } else
            CHECK_EQ(answer->ins.op, GT_OP_share);
        gt__link_consume(p->link, 1u + answer->ins.tail);
    }
}

/* As run_window in worker.c. */
static inline void take_one(stage *s, player *p)
{
    const gt_slot *record = p->stream + p->at;
    gt_worker *worker = &p->worker;
    unsigned length;
    CHECK_EQ(gt__instruction_check(record, p->count - p->at, &length), GT_OK);
    gt__late_poll(worker);
    if (!(worker->deferred.count || gt__deferred_may_wait(record->ins.op)) || !gt__deferred_takes(worker, record))
        gt__worker_run_record(worker, record);
    p->at += length;
    hear(s, p);
}

static inline bool is_done(const stage *s)
{
    for (unsigned k = 0; k < WORKERS; k++)
        if (s->players[k].at < s->players[k].count || s->players[k].worker.deferred.count)
            return false;
    return true;
}

/* As run_stream in worker.c, if the stream is empty. */
static inline void idle(player *p)
{
    if (p->worker.deferred.count)
        gt__deferred_idle(&p->worker);
    else
        gt__late_drain(&p->worker);
}

static inline void finish(stage *s)
{
    for (int rounds = 0; !is_done(s) && CHECK(rounds < ROUNDS); rounds++)
        for (unsigned k = 0; k < WORKERS; k++) {
            player *p = &s->players[k];
            while (p->at < p->count)
                take_one(s, p);
            idle(p);
        }
    for (unsigned k = 0; k < WORKERS; k++) {
        gt__late_drain(&s->players[k].worker);
        hear(s, &s->players[k]);
    }
}

static inline int64_t value_in(player *p, uint64_t slot)
{
    size_t bytes = 0;
    int64_t *values = read_tensor(&p->worker, slot, &bytes), value = -3;
    if (CHECK(values && bytes) && CHECK(values[0] == values[bytes / sizeof *values - 1]))
        value = values[0];
    free(values);
    return value;
}

#endif
