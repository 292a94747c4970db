/*
 * cli/simulate/feed.c: runs the clients of a tape through a dispatcher, with workers that compute nothing.
 *
 * The dispatcher is the real one. It, the clients and the workers take turns in this thread: a client's record is sent, then
 * all others go on until there is nothing left to do. So it is known which records of workers a client's record caused, and
 * their order does not depend on time. Workers answer at once; the time that passes is computed later (run.c).
 *
 * The tape has the records of hot paths one by one. The client's own code (client/hotpath.h) finds the paths again.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/replay/replay.h"
#include "cli/simulate/simulate.h"
#include "client/hotpath.h"
#include "core/record.h"
#include "core/tape.h"
#include "dispatcher/dispatcher.h"
#include "link/hello.h"

enum {
    MOST_TRIES = 1000,   /* to write a record, while the others go on */
    MUCH_WORK = 1 << 20, /* elements: a client sends a record of so many at once */
};

typedef struct feed_client {
    uint64_t session; /* of the tape */
    uint32_t step;    /* of its last instruction */
    gt_link *link;    /* NULL: it has left */
    gt_client *hot;   /* finds hot paths, as the client of the program did */
    char failed[512]; /* what it was told; "": all is well */
} feed_client;

typedef struct feeder {
    gt_streams *streams;
    const gt_feed_options *options;
    gt_dispatcher *dispatcher;
    gt_link **workers;
    gt_follower **followers;
    unsigned worker_count; /* that have joined */
    feed_client *clients;
    size_t client_count, client_capacity;
    uint32_t cause; /* of what workers are sent now */
    gt_steps *steps;
} feeder;

/* ---- links --------------------------------------------------------------------------------------------------- */

static gt_err join(feeder *f, gt_link **ours)
{
    gt_link *theirs;
    GT_TRY(gt__link_memory_pair(ours, &theirs));
    return gt__dispatcher_adopt(f->dispatcher, theirs);
}

/* The next record, checked; NULL: there is none now. */
static gt_err peek(gt_link *link, const gt_slot **record, unsigned *length)
{
    size_t available;
    *record = gt__link_peek(link, &available);
    return *record ? gt__instruction_check(*record, available, length) : GT_OK;
}

/* What a worker answers: the value of a tensor is empty, and all work took no time. */
static gt_err answer(gt_link *link, const gt_instruction *question)
{
    gt_slot *out = gt__link_reserve(link, 1);
    if (!out)
        return gt__fail(GT_ERR_INTERNAL, "no room for an answer");
    out->ins = (gt_instruction){.op = GT_OP_reply, .flags = GT_FLAG_LAST, .result = question->result};
    gt__link_commit(link, 1);
    return GT_OK;
}

static gt_err take_worker_record(feeder *f, unsigned worker, const gt_slot *record)
{
    switch ((gt_opcode)record->ins.op) {
    case GT_OP_welcome:
    case GT_OP_peer:
    case GT_OP_share:
    case GT_OP_watch:
    case GT_OP_forget:
    case GT_OP_goodbye:
        return GT_OK;
    case GT_OP_mark:
        return answer(f->workers[worker], &record->ins);
    case GT_OP_failure:
        return gt__fail(GT_ERR_VALUE, "instruction %u would fail: %.*s", f->cause + 1, (int)record->ins.imm[1].u,
                        (const char *)record[1].bytes);
    case GT_OP_fetch:
    case GT_OP_sync:
        GT_TRY(gt__follow(f->followers[worker], f->cause, record));
        return answer(f->workers[worker], &record->ins);
    default:
        return gt__follow(f->followers[worker], f->cause, record);
    }
}

static gt_err drain_worker(feeder *f, unsigned worker, bool *progress)
{
    gt_link *link = f->workers[worker];
    const gt_slot *record;
    unsigned length;
    for (;;) {
        GT_TRY(peek(link, &record, &length));
        if (!record)
            break;
        *progress = true;
        GT_TRY(take_worker_record(f, worker, record));
        gt__link_consume(link, length);
    }
    gt__link_flush(link);
    return GT_OK;
}

static gt_err drain_client(feed_client *client)
{
    const gt_slot *record;
    unsigned length;
    for (;;) {
        GT_TRY(peek(client->link, &record, &length));
        if (!record)
            return GT_OK;
        bool failed = record->ins.op == GT_OP_failure;
        size_t most = sizeof client->failed - 1,
               bytes = failed ? record->ins.imm[1].u : GT_GOODBYE_TAIL * sizeof *record;
        if (failed || record->ins.op == GT_OP_goodbye)
            memcpy(client->failed, record[1].bytes, bytes < most ? bytes : most);
        gt__link_consume(client->link, length);
    }
}

/* All take turns until nothing is left to do. */
static gt_err settle(feeder *f)
{
    bool progress = true;
    while (progress) {
        progress = gt__dispatcher_turn(f->dispatcher);
        for (unsigned worker = 0; worker < f->worker_count; worker++)
            GT_TRY(drain_worker(f, worker, &progress));
    }
    for (size_t k = 0; k < f->client_count; k++)
        if (f->clients[k].link) {
            GT_TRY(drain_client(&f->clients[k]));
            if (*f->clients[k].failed)
                return gt__fail(GT_ERR_VALUE, "instruction %u would fail: %s", f->cause + 1, f->clients[k].failed);
        }
    return GT_OK;
}

/* ---- clients ------------------------------------------------------------------------------------------------- */

static feed_client *find_client(const feeder *f, uint64_t session)
{
    for (size_t k = f->client_count; k-- > 0;)
        if (f->clients[k].session == session && f->clients[k].link)
            return &f->clients[k];
    return NULL;
}

static gt_err open_client(feeder *f, const gt_tape_entry *entry, const gt_slot *slots)
{
    char name[sizeof(gt_slot) + 1] = "";
    if (find_client(f, entry->session))
        return gt__fail(GT_ERR_PROTOCOL, "client %llu connects twice", (unsigned long long)entry->session);
    feed_client *client = GT_PUSH(f->clients, f->client_count, f->client_capacity);
    *client = (feed_client){.session = entry->session};
    f->streams->sessions =
        f->client_count > f->streams->sessions ? (unsigned)f->client_count : f->streams->sessions;
    if (entry->slots)
        memcpy(name, slots->bytes, sizeof(gt_slot));
    GT_TRY(join(f, &client->link));
    client->hot = gt__zeroed(1, sizeof *client->hot);
    *client->hot = (gt_client){.link = client->link, .generation = gt__fork_generation, .usable = true};
    client->hot->hotpath = gt__hotpath_new();
    GT_TRY(gt__hello_send(client->link, GT_ROLE_CLIENT, name, ""));
    gt__link_flush(client->link);
    return settle(f);
}

static gt_sim_cause *cause_new(feeder *f, const feed_client *client, const gt_instruction *ins)
{
    gt_streams *s = f->streams;
    f->cause = (uint32_t)s->cause_count;
    gt_sim_cause *cause = GT_PUSH(s->causes, s->cause_count, s->cause_capacity);
    *cause = (gt_sim_cause){.session = (uint32_t)(client - f->clients) + 1, .op = ins->op, .record = SIZE_MAX};
    cause->tensor = gt__record_subject(ins);
    cause->waits = ins->op == GT_OP_fetch || ins->op == GT_OP_sync;
    return cause;
}

static void free_client(feed_client *client)
{
    if (client->link)
        gt__link_close(client->link);
    client->link = NULL;
    if (client->hot) {
        gt__hotpath_free(&client->hot->hotpath);
        free(client->hot->frees);
    }
    free(client->hot);
    client->hot = NULL;
}

static gt_err close_client(feeder *f, feed_client *client)
{
    gt_sim_cause *cause = cause_new(f, client, &(gt_instruction){.op = GT_OP_goodbye});
    cause->left = true;
    gt__client_flush(client->hot);
    GT_TRY(settle(f));
    gt__goodbye_send(client->link, "");
    free_client(client);
    return settle(f);
}

/* Whether the dispatcher needs the record. A config of ours replaces those of the programs. */
static bool is_wanted(const feeder *f, const gt_instruction *ins)
{
    if (ins->op == GT_OP_config && f->options->config)
        return ins->flags & GT_CONFIG_AUTOMATIC;
    bool told = gt__path_is(ins); /* the tape has their records as well */
    return !told && ins->op != GT_OP_placement && ins->op != GT_OP_name && ins->op != GT_OP_mark;
}

static void keep_record(gt_streams *s, gt_sim_cause *cause, const gt_slot *slots, unsigned count)
{
    enum { MOST = 3 }; /* as many as a line of the log shows */
    cause->record = s->record_count;
    for (unsigned k = 0; k < MOST; k++)
        *GT_PUSH(s->records, s->record_count, s->record_capacity) = k < count ? slots[k] : (gt_slot){0};
}

/* As the client does it: questions end what is held back, and frees are packed anew. */
static gt_err send_record(feeder *f, feed_client *client, const gt_slot *slots, unsigned count)
{
    gt_client *hot = client->hot;
    bool asks = slots->ins.op == GT_OP_fetch || slots->ins.op == GT_OP_sync;
    const uint64_t *freed = gt__free_ids(&slots->ins);
    for (unsigned k = 0; slots->ins.op == GT_OP_free && k < GT_FREE_IDS; k++)
        if (freed[k])
            gt__client_free_id(hot, freed[k], 0);
    if (slots->ins.op != GT_OP_free) {
        gt_slot *out;
        for (unsigned tries = 0; !(out = gt__client_room(hot, count)); tries++) {
            if (tries == MOST_TRIES)
                return gt__fail(GT_ERR_INTERNAL, "the dispatcher takes no more records");
            GT_TRY(settle(f));
        }
        memcpy(out, slots, count * sizeof *out);
        if (out->ins.op == GT_OP_fetch)
            out->ins.imm[0].u = out->ins.imm[1].u = 0; /* the client's segment is not there */
        gt__client_commit(hot, count, MUCH_WORK);
    }
    if (asks)
        gt__client_flush(hot);
    return settle(f);
}

/* No worker was sent anything for a tensor: ask for its value, to hear why it was refused. */
static gt_err ask_why(feeder *f, feed_client *client, uint64_t tensor)
{
    gt_slot fetch = {.ins = {.op = GT_OP_fetch, .result = UINT64_MAX, .operand = {tensor}}};
    return send_record(f, client, &fetch, 1);
}

static gt_err feed_entry(feeder *f, const gt_tape_entry *entry, const gt_slot *slots)
{
    if (entry->kind == GT_TAPE_OPEN)
        return open_client(f, entry, slots);
    feed_client *client = find_client(f, entry->session);
    if (!client)
        return gt__fail(GT_ERR_PROTOCOL, "client %llu never connected", (unsigned long long)entry->session);
    if (entry->kind == GT_TAPE_CLOSE)
        return close_client(f, client);
    if (entry->kind == GT_TAPE_RECORD) {
        gt_sim_cause *cause = cause_new(f, client, &slots->ins);
        uint32_t step = gt__steps_at(f->steps, entry, slots->ins.site);
        client->step =
            step ? step : client->step; /* questions, which have no line, belong to the step before them */
        cause->step = client->step;
        if (f->options->keep_records)
            keep_record(f->streams, cause, slots, entry->slots);
    }
    if (is_wanted(f, &slots->ins))
        GT_TRY(send_record(f, client, slots, entry->slots));
    bool computes = entry->kind == GT_TAPE_RECORD && slots->ins.op < GT_OP_FIRST_CONTROL;
    bool held = client->hot->expected || client->hot->finish_at || client->hot->draining;
    return computes && !held && !f->streams->causes[f->cause].items ? ask_why(f, client, slots->ins.result)
                                                                    : GT_OK;
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

static gt_err open_workers(feeder *f)
{
    unsigned count = f->options->workers;
    f->workers = gt__zeroed(count, sizeof *f->workers);
    f->followers = gt__zeroed(count, sizeof *f->followers);
    for (unsigned k = 0; k < count; k++) {
        char name[32];
        snprintf(name, sizeof name, "worker_%u", k);
        gt_worker_hello hello = {
            .name = name, .engine = "cpu", .exchange = gt__exchange_names[1], .number = (int)k, .memory = k + 1};
        f->followers[k] = gt__follower_new(f->streams, k);
        GT_TRY(join(f, &f->workers[k]));
        f->worker_count++;
        GT_TRY(gt__hello_send_worker(f->workers[k], &hello));
        gt__link_flush(f->workers[k]);
        GT_TRY(settle(f));
    }
    return GT_OK;
}

static gt_err feed(feeder *f, gt_tape *tape)
{
    const gt_tape_entry *entry;
    const gt_slot *slots;
    gt_dispatcher_options options = {
        .unseen = true, .config = f->options->config, .observer = {.log = "", .tape = ""}};
    GT_TRY(gt__dispatcher_new(&options, &f->dispatcher));
    GT_TRY(open_workers(f));
    for (;;) {
        GT_TRY(gt__tape_next(tape, &entry, &slots));
        if (!entry)
            return GT_OK;
        GT_TRY(feed_entry(f, entry, slots));
    }
}

static void close_all(feeder *f)
{
    for (size_t k = 0; k < f->client_count; k++)
        free_client(&f->clients[k]);
    gt__dispatcher_free(&f->dispatcher);
    for (unsigned k = 0; f->workers && k < f->options->workers; k++) {
        if (f->workers[k])
            gt__link_close(f->workers[k]);
        gt__follower_free(&f->followers[k]);
    }
    free(f->workers);
    free(f->followers);
    free(f->clients);
    gt__steps_free(&f->steps);
}

gt_err gt__streams_new(const gt_feed_options *options, gt_streams **out)
{
    gt_tape *tape;
    GT_TRY(gt__tape_open(options->tape, &tape));
    gt_streams *streams = gt__zeroed(1, sizeof *streams);
    streams->workers = options->workers;
    streams->stream = gt__zeroed(options->workers, sizeof *streams->stream);
    feeder f = {.streams = streams, .options = options};
    gt_err err = gt__steps_new(options->tape, &f.steps);
    if (err == GT_OK)
        err = feed(&f, tape);
    close_all(&f);
    gt__tape_close(&tape);
    if (err != GT_OK)
        gt__streams_free(&streams);
    *out = streams;
    return err;
}

void gt__streams_free(gt_streams **where)
{
    gt_streams *streams = *where;
    *where = NULL;
    if (!streams)
        return;
    for (unsigned k = 0; k < streams->workers; k++) {
        free(streams->stream[k].items);
        free(streams->stream[k].needs);
    }
    for (size_t k = 0; k < streams->work_count; k++)
        gt__work_free(&streams->works[k]);
    for (size_t k = 0; k < streams->path_count; k++)
        gt__path_free(&streams->paths[k].path);
    free(streams->paths);
    free(streams->stream);
    free(streams->works);
    free(streams->work_index);
    free(streams->causes);
    free(streams->records);
    free(streams->shapes);
    free(streams);
}
