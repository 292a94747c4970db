/*
 * transfer.c: the waits of a client, and bulk data.
 *
 * A wait reads answers until the one with its ticket is complete. Data larger than a chunk goes through recycled shared
 * segments if the link has them (one copy, and no fresh pages in steady state), else in pieces through the stream.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/batch.h"
#include "client/bounds.h"
#include "client/client.h"
#include "client/handover.h"
#include "client/hotpath.h"
#include "client/signals.h"
#include "core/copy.h"

enum {
    MAX_TRANSFERS = 256,        /* segments a client keeps */
    SMALLEST_SEGMENT = 1 << 20, /* bytes */
    LOOK_UP_MS = 100,           /* how often a wait asks whether it was interrupted */
    SOON_MS = 20,               /* how long statistics may wait for the dispatcher and the workers */
    MOST_AHEAD = 256 << 20,     /* bytes in segments that the workers may not have taken yet */
    MOST_IDLE = 4 * MOST_AHEAD, /* bytes of unused segments that a client keeps for later */
    LONGEST_QUEUE_NS = 2000000, /* after this a thread that queues for the client gets it next */
};

gt_wait_hooks gt__wait_hooks;

/* ---- the lock ---------------------------------------------------------------------------------------------- */

/* One pair for all clients, used only when two threads want the same client. */
static pthread_mutex_t turn_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_over = PTHREAD_COND_INITIALIZER;

void gt__client_reset_lock(void)
{
    pthread_mutex_init(&turn_mutex, NULL);
    pthread_cond_init(&turn_over, NULL);
}

static void *hooks_before(void)
{
    return gt__wait_hooks.before ? gt__wait_hooks.before() : NULL;
}

static void hooks_after(void *state)
{
    if (gt__wait_hooks.after)
        gt__wait_hooks.after(state);
}

/* With the mutex: whether it is this thread's turn. */
static bool is_first(const gt_client *client, const gt_turn *turn)
{
    const gt_turn *first = client->turns;
    while (first && first->away)
        first = first->next;
    return first == turn && (client->reserved || !__atomic_load_n(&client->waiting, __ATOMIC_ACQUIRE));
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * With the mutex: the client is free. If a thread has queued for long, it stays reserved for that one. Not at once: to hand it
 * over each time, the threads would wait for the language's lock more than they work.
 */
static void pass_on(gt_client *client)
{
    const gt_turn *first = client->turns;
    while (first && first->away)
        first = first->next;
    client->reserved = first && now_ns() - first->since_ns > LONGEST_QUEUE_NS;
    __atomic_store_n(&client->waiting, client->reserved, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&turn_over);
}

static void unlink_turn(gt_client *client, const gt_turn *turn)
{
    gt_turn **where = &client->turns;
    while (*where != turn)
        where = &(*where)->next;
    *where = turn->next;
}

void gt__turn_join(gt_client *client, gt_turn *turn)
{
    *turn = (gt_turn){.since_ns = now_ns()};
    pthread_mutex_lock(&turn_mutex);
    gt_turn **end = &client->turns;
    while (*end)
        end = &(*end)->next;
    *end = turn;
    pthread_mutex_unlock(&turn_mutex);
}

void gt__turn_wait(gt_client *client, const gt_turn *turn, int timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)timeout_ms % 1000 * 1000000;
    until.tv_sec += timeout_ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    int status = 0;
    pthread_mutex_lock(&turn_mutex);
    while (status == 0 && !is_first(client, turn))
        status = timeout_ms < 0 ? pthread_cond_wait(&turn_over, &turn_mutex)
                                : pthread_cond_timedwait(&turn_over, &turn_mutex, &until);
    pthread_mutex_unlock(&turn_mutex);
}

bool gt__turn_take(gt_client *client, gt_turn *turn)
{
    pthread_mutex_lock(&turn_mutex);
    bool ours = is_first(client, turn);
    if (ours) {
        unlink_turn(client, turn);
        client->reserved = false;
        __atomic_store_n(&client->waiting, false, __ATOMIC_RELEASE);
        pthread_cond_broadcast(&turn_over); /* the next one tries, too, as soon as it has the language's lock */
    }
    pthread_mutex_unlock(&turn_mutex);
    return ours;
}

void gt__turn_away(gt_client *client, gt_turn *turn, bool away)
{
    pthread_mutex_lock(&turn_mutex);
    turn->away = away;
    if (client->reserved)
        pass_on(client);
    pthread_mutex_unlock(&turn_mutex);
}

void gt__turn_leave(gt_client *client, gt_turn *turn)
{
    pthread_mutex_lock(&turn_mutex);
    unlink_turn(client, turn);
    if (client->reserved)
        pass_on(client);
    pthread_mutex_unlock(&turn_mutex);
}

gt_err gt__client_lock(gt_client *client)
{
    if (gt__embedded_serves())
        return gt__embedded_refuse();
    if (client->waiting && client->generation == gt__fork_generation) {
        gt_turn turn;
        gt__turn_join(client, &turn);
        do {
            void *state = hooks_before();
            gt__turn_wait(client, &turn, -1);
            hooks_after(state);
        } while (!gt__turn_take(client, &turn));
    }
    GT_TRY(gt__client_check(client));
    client->usable = false;
    __atomic_store_n(&client->waiting, true, __ATOMIC_RELEASE);
    return GT_OK;
}

void gt__client_unlock(gt_client *client)
{
    if (__builtin_expect(client->progress.began_ns != 0, 0))
        gt__progress_end(client);
    pthread_mutex_lock(&turn_mutex);
    pass_on(client);
    pthread_mutex_unlock(&turn_mutex);
    client->usable = !client->closed && !client->link->dead;
}

static void hear_out(gt_client *client);

static gt_err wait_at_most(gt_client *client, gt_wait what, int timeout_ms)
{
    if (gt__embedded_serves())
        return gt__embedded_refuse();
    if (client->hotpath)
        gt__hotpath_release(client);
    if (client->draining && !gt__hotpath_drain(client))
        what |= GT_WAIT_WRITE;
    void *state = hooks_before();
    gt_err err = gt__link_wait(client->link, what, timeout_ms);
    hooks_after(state);
    if (err == GT_ERR_INTERRUPTED || err == GT_ERR_TIMEOUT) {
        if (gt__wait_hooks.interrupted && gt__wait_hooks.interrupted())
            return gt__progress_interrupted(client);
        if (err == GT_ERR_TIMEOUT && timeout_ms == LOOK_UP_MS)
            gt__progress_look(client, LOOK_UP_MS);
        return GT_OK;
    }
    if (err == GT_ERR_CONNECTION || client->link->dead) {
        hear_out(client);
        return gt__fail(GT_ERR_CONNECTION, "%s", client->link->reason);
    }
    return GT_OK;
}

gt_err gt__client_wait(gt_client *client, gt_wait what)
{
    return wait_at_most(client, what, LOOK_UP_MS);
}

/* ---- answers ----------------------------------------------------------------------------------------------- */

/* Where the bytes of an answer go. With `grow` memory is allocated as they arrive; otherwise they must fit. */
typedef struct sink {
    uint8_t *memory;
    size_t bytes, received;
    bool grow;
    uint16_t op; /* of the question */
    gt_instruction
        question;          /* to be asked again by another ticket if the server is restarted; op 0: it cannot be */
    unsigned restarts;     /* of the link, before it was asked */
    const gt_meta *tensor; /* whose value it is; NULL: it is none */
} sink;

/* A client that was closed has no link: it finds out when it asks. */
static unsigned restarts_of(const gt_client *client)
{
    return client->link ? client->link->restarts : 0;
}

static gt_err receive(sink *to, const gt_slot *record)
{
    uint64_t offset = record->ins.imm[0].u, bytes = record->ins.imm[1].u;
    if (offset != to->received || (!to->grow && bytes > to->bytes - to->received))
        return gt__fail(GT_ERR_PROTOCOL, "the server sent too many bytes");
    if (to->grow && bytes) {
        uint8_t *memory = realloc(to->memory, to->received + bytes + 1);
        if (!memory)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        to->memory = memory;
    }
    if (bytes)
        memcpy(to->memory + to->received, record + 1, bytes);
    to->received += bytes;
    return GT_OK;
}

/* The origin of a failed instruction: ", issued at train.py:12 in signal 'layer1', instruction #0042 of the log"; may be
 * "". */
static void origin_text(const gt_client *client, const gt_instruction *failed, char *text, size_t size)
{
    char place[512];
    size_t used = 0;
    text[0] = 0;
    gt__client_site_name(client, failed->site, place, sizeof place);
    if (*place)
        used += (size_t)snprintf(text, size, ", issued at %s", place);
    char signal[GT_MAX_NAME + 1];
    gt__client_scope_name(client, failed->scope, signal);
    if (signal[0] && used < size)
        used += (size_t)snprintf(text + used, size - used, "%s in signal '%s'", used ? "" : ",", signal);
    if (failed->operand[1] && used < size)
        snprintf(text + used, size - used, ", instruction #%04llu of the log",
                 (unsigned long long)failed->operand[1]);
}

static gt_err failure(const gt_client *client, const gt_slot *record)
{
    size_t bytes = record->ins.imm[1].u;
    gt_err err = record->ins.imm[0].i ? gt__error_kind(record->ins.imm[0].i) : GT_ERR_INTERNAL;
    char origin[640];
    origin_text(client, &record->ins, origin, sizeof origin);
    return gt__fail(err, "%.*s%s", (int)bytes, (const char *)(record + 1), origin);
}

/* A record that is not the awaited answer: news of the server, or the answer to an interrupted wait. */
static void handle_other(gt_client *client, const gt_slot *record)
{
    if (record->ins.op == GT_OP_welcome) {
        client->workers = (int)record->ins.imm[1].i;
        client->worker_entries = (int)record->ins.operand[0];
        client->segments = record->ins.flags & GT_FLAG_SEGMENTS;
    } else if (record->ins.op == GT_OP_goodbye) {
        char reason[GT_GOODBYE_TAIL * sizeof(gt_slot)];
        memcpy(reason, record + 1, sizeof reason);
        reason[sizeof reason - 1] = 0;
        /* It says more than the end of the connection, which may have been noticed before. */
        client->link->reason[0] = 0;
        gt__link_kill(client->link, "the server closed the connection: %s", reason);
    } else if (record->ins.op == GT_OP_failure || record->ins.flags & GT_FLAG_LAST) {
        client->stats_ticket = record->ins.result == client->stats_ticket ? 0 : client->stats_ticket;
        client->uploads.ticket = record->ins.result == client->uploads.ticket ? 0 : client->uploads.ticket;
        for (gt_transfer *transfer = client->transfers; transfer; transfer = transfer->next)
            if (transfer->abandoned == record->ins.result) {
                transfer->abandoned = 0;
                gt__segment_done(transfer->segment);
            }
    }
}

/* The link is lost while we write: the last record that came may say why. */
static void hear_out(gt_client *client)
{
    size_t available;
    unsigned length;
    const gt_slot *slots;
    while ((slots = gt__link_peek(client->link, &available)) &&
           gt__instruction_check(slots, available, &length) == GT_OK) {
        handle_other(client, slots);
        gt__link_consume(client->link, length);
    }
}

/* Handle one record; *done is set when the answer to `ticket` is complete, and the result is its outcome. */
static gt_err handle_answer(gt_client *client, const gt_slot *record, uint64_t ticket, sink *to, bool *done)
{
    bool ours = record->ins.result == ticket && (record->ins.op == GT_OP_reply || record->ins.op == GT_OP_failure);
    if (!ours) {
        handle_other(client, record);
        return GT_OK;
    }
    *done = record->ins.op == GT_OP_failure || record->ins.flags & GT_FLAG_LAST;
    return record->ins.op == GT_OP_failure ? failure(client, record) : receive(to, record);
}

/*
 * The server was killed and started again: what it goes on from is its journal, which has no questions. If the link has sent ours again,
 * its answer comes as well, and is dropped like that of an interrupted wait. False: there is no room on the link yet.
 */
static bool ask_again(gt_client *client, sink *to, uint64_t *ticket)
{
    gt_slot *slot = client->draining ? NULL : gt__link_reserve(client->link, 1);
    if (!slot)
        return false;
    *ticket = to->question.result = client->next_ticket++;
    slot->ins = to->question;
    gt__link_commit(client->link, 1);
    gt__link_flush(client->link);
    to->received = 0;
    return true;
}

/* deadline_ns: GT_ERR_TIMEOUT after that; 0: never. */
static gt_err await_locked(gt_client *client, uint64_t ticket, sink *to, uint64_t deadline_ns)
{
    gt_err outcome = GT_OK;
    bool again = false;
    for (bool done = false; !done;) {
        size_t available;
        unsigned length;
        if (__builtin_expect(again, 0))
            again = !ask_again(client, to, &ticket);
        const gt_slot *slots = gt__link_peek(client->link, &available);
        if (__builtin_expect(client->link->restarts != to->restarts, 0)) {
            if (!to->question.op) {
                gt__link_kill(client->link, "the server was restarted while the session was handed over");
                return gt__fail(GT_ERR_CONNECTION, "%s", client->link->reason);
            }
            to->restarts = client->link->restarts;
            to->received = 0;
            again = true;
        }
        if (!slots) {
            if (client->link->dead)
                return gt__fail(GT_ERR_CONNECTION, "%s", client->link->reason);
            int left_ms = deadline_ns ? gt__remaining_ms(deadline_ns) : LOOK_UP_MS;
            if (!left_ms)
                return gt__fail(GT_ERR_TIMEOUT, "the server did not answer in time");
            gt_wait what = again ? GT_WAIT_READ | GT_WAIT_WRITE : GT_WAIT_READ;
            GT_TRY(wait_at_most(client, what, left_ms < LOOK_UP_MS ? left_ms : LOOK_UP_MS));
            continue;
        }
        gt_err err = gt__instruction_check(slots, available, &length);
        if (err != GT_OK) {
            gt__link_kill(client->link, "the server sent a bad record");
            return err;
        }
        err = handle_answer(client, slots, ticket, to, &done);
        if (err != GT_OK && outcome == GT_OK)
            outcome = err;
        if (!client->link->dead)
            gt__link_consume(client->link, length);
    }
    return outcome;
}

/* Publish everything and wait for the answer to `ticket`. */
static gt_err await_until(gt_client *client, uint64_t ticket, sink *to, uint64_t deadline_ns)
{
    gt__client_flush(client);
    GT_TRY(gt__client_lock(client));
    client->progress.op = to->op;
    client->progress.tensor = to->tensor;
    gt_err err = await_locked(client, ticket, to, deadline_ns);
    gt__client_unlock(client);
    return err;
}

static gt_err await(gt_client *client, uint64_t ticket, sink *to)
{
    return await_until(client, ticket, to, 0);
}

/* *ticket, unless NULL, is set when the question is sent: from then on an answer comes, even if the wait is interrupted. */
static gt_err ask(gt_client *client, gt_instruction question, sink *to, uint64_t *ticket)
{
    gt_slot *slot;
    to->restarts = restarts_of(client);
    GT_TRY(gt__client_reserve(client, 1, &slot));
    question.result = client->next_ticket++;
    to->op = question.op;
    to->question = question;
    if (ticket)
        *ticket = question.result;
    slot->ins = question;
    gt__client_commit(client, 1, 0);
    return await(client, question.result, to);
}

gt_err gt_synchronize(gt_client *client)
{
    GT_REQUIRE(client);
    sink nothing = {0};
    return ask(client, (gt_instruction){.op = GT_OP_sync}, &nothing, NULL);
}

static gt_err take_text(gt_err err, const sink *text, char **out)
{
    if (err != GT_OK || !text->memory) {
        free(text->memory);
        return err != GT_OK ? err : gt__fail(GT_ERR_INTERNAL, "the server sent no text");
    }
    text->memory[text->received] = 0;
    *out = (char *)text->memory;
    return GT_OK;
}

/* Ask a question that is answered by text, malloc'ed. */
static gt_err ask_text(gt_client *client, gt_instruction question, char **out)
{
    sink text = {.grow = true};
    gt_err err = ask(client, question, &text, NULL);
    return take_text(err, &text, out);
}

gt_err gt__client_await(gt_client *client, gt_opcode op, uint64_t ticket, char **bytes, size_t *count)
{
    sink data = {.grow = true, .op = op, .restarts = restarts_of(client)};
    gt_err err = await(client, ticket, &data);
    *count = data.received;
    return take_text(err, &data, bytes);
}

gt_err gt__client_stats(gt_client *client, bool workers, char **json)
{
    gt_instruction question = {.op = GT_OP_stats, .flags = workers ? GT_FLAG_WORKERS : 0};
    return ask_text(client, question, json);
}

/* The answer to a question that is given up is dropped when it comes, as after an interrupted wait. */
gt_err gt__client_stats_now(gt_client *client, bool workers, char **json)
{
    gt_instruction question = {.op = GT_OP_stats, .flags = workers ? GT_FLAG_WORKERS : 0};
    sink text = {.grow = true, .restarts = restarts_of(client)};
    if (client->stats_restarts != text.restarts)
        client->stats_ticket = 0; /* its answer does not come any more */
    client->stats_restarts = text.restarts;
    gt_slot *slot = client->stats_ticket ? NULL : gt__client_room(client, 1);
    gt_err err = GT_ERR_TIMEOUT;
    if (slot) {
        uint64_t ticket = question.result = client->stats_ticket = client->next_ticket++;
        text.question = question;
        slot->ins = question;
        gt__client_commit(client, 1, 0);
        err = await_until(client, ticket, &text, gt__deadline_ns(SOON_MS));
        ticket = text.question.result; /* another one, perhaps */
        client->stats_ticket = err == GT_ERR_TIMEOUT || err == GT_ERR_INTERRUPTED ? ticket : 0;
        err = take_text(err, &text, json);
    }
    if (err == GT_ERR_TIMEOUT)
        err = gt__client_glance(client, json);
    bool no_way = err == GT_ERR_CONNECTION || err == GT_ERR_TIMEOUT; /* the server takes no monitor */
    return no_way ? gt__client_stats(client, workers, json) : err;
}

gt_err gt__tensor_placement(gt_tensor *tensor, char **text)
{
    GT_TRY(gt__client_check(tensor->client));
    if (tensor->batch)
        return gt__batch_refuse_value();
    gt_tensor_retain(tensor);
    gt_err err = ask_text(tensor->client, (gt_instruction){.op = GT_OP_placement, .operand = {tensor->id}}, text);
    gt_tensor_release(tensor);
    return err;
}

/* ---- segments ---------------------------------------------------------------------------------------------- */

static void transfer_drop(gt_client *client, gt_transfer *transfer)
{
    for (gt_transfer **where = &client->transfers; *where; where = &(*where)->next)
        if (*where == transfer) {
            *where = transfer->next;
            break;
        }
    gt_slot *slot;
    if (transfer->shared && client->usable && gt__client_reserve(client, 1, &slot) == GT_OK) {
        slot->ins = (gt_instruction){.op = GT_OP_forget};
        slot->ins.imm[0].u = transfer->segment->id;
        gt__client_commit(client, 1, 0);
        client->link->ops->forget(client->link, transfer->segment->id);
    }
    gt__segment_release(transfer->segment);
    free(transfer);
}

static bool transfer_idle(const gt_transfer *transfer)
{
    return !transfer->lent && !transfer->abandoned && !gt__segment_busy(transfer->segment);
}

/* Drop the oldest idle segments as long as there are too many of them. False: there still are. */
static bool transfers_trim(gt_client *client)
{
    for (;;) {
        unsigned count = 0;
        size_t idle_bytes = 0;
        gt_transfer *oldest = NULL; /* idle; new ones are put first */
        for (gt_transfer *transfer = client->transfers; transfer; transfer = transfer->next, count++)
            if (transfer_idle(transfer)) {
                idle_bytes += transfer->segment->bytes;
                oldest = transfer;
            }
        if (count < MAX_TRANSFERS && idle_bytes <= MOST_IDLE)
            return true;
        if (!oldest)
            return false;
        transfer_drop(client, oldest);
    }
}

/* A segment of at least `bytes` that the server knows. NULL: none can be made (descriptors, memory); do without. */
static gt_transfer *transfer_get(gt_client *client, size_t bytes)
{
    for (gt_transfer *transfer = client->transfers; transfer; transfer = transfer->next)
        if (transfer->segment->bytes >= bytes && transfer->segment->bytes / 2 <= bytes && transfer_idle(transfer))
            return transfer;
    if (!transfers_trim(client))
        return NULL;
    gt_transfer *transfer = calloc(1, sizeof *transfer);
    size_t size = bytes < SMALLEST_SEGMENT ? SMALLEST_SEGMENT : bytes;
    if (!transfer || gt__segment_new(size, &transfer->segment) != GT_OK) {
        free(transfer);
        return NULL;
    }
    if (client->link->ops->share(client->link, transfer->segment) != GT_OK) {
        gt__segment_release(transfer->segment);
        free(transfer);
        return NULL;
    }
    transfer->shared = true;
    transfer->next = client->transfers;
    client->transfers = transfer;
    return transfer;
}

static bool through_segment(const gt_client *client, size_t bytes)
{
    return client->segments && client->link->ops->share && bytes > GT_MAX_CHUNK;
}

/* ---- uploads ----------------------------------------------------------------------------------------------- */

static gt_err send_pieces(gt_client *client, const gt_tensor *tensor, const uint8_t *data, size_t bytes)
{
    uint32_t site = gt__site_hooks.current ? gt__site_hooks.current() : 0; /* told with the upload */
    for (size_t offset = GT_MAX_CHUNK; offset < bytes;) {
        size_t piece = bytes - offset < GT_MAX_CHUNK ? bytes - offset : GT_MAX_CHUNK;
        unsigned tail = gt__slots_for(piece);
        gt_slot *slots;
        GT_TRY(gt__client_reserve(client, 1 + tail, &slots));
        slots->ins =
            (gt_instruction){.op = GT_OP_data, .tail = (uint16_t)tail, .operand = {tensor->id}, .site = site};
        slots->ins.imm[0].u = offset;
        slots->ins.imm[1].u = piece;
        memcpy(slots + 1, data + offset, piece);
        gt__slots_pad(slots + 1, piece);
        gt__client_commit(client, 1 + tail, (int64_t)piece / 8);
        offset += piece;
    }
    return GT_OK;
}

/* Wait for the answer to the last question about uploads, unless it came with others. If it is that the worker was lost, so are the
 * uploads, and a read of one of them gets the error. */
static gt_err await_uploads(gt_client *client)
{
    sink nothing = {.op = GT_OP_sync,
                    .restarts = restarts_of(client)}; /* which has segments, and ends with the server */
    gt__client_flush(client);
    GT_TRY(gt__client_lock(client));
    client->progress.op = GT_OP_sync;
    gt_err err = client->uploads.ticket ? await_locked(client, client->uploads.ticket, &nothing, 0) : GT_OK;
    if (err != GT_ERR_INTERRUPTED)
        client->uploads.ticket = 0;
    gt__client_unlock(client);
    return err == GT_ERR_INTERRUPTED || client->link->dead ? err : GT_OK;
}

/*
 * The ring holds the records of many uploads, whose data would fill the host's memory while the worker is busy with something else. So
 * there is a question behind every half of what may be ahead, and a wait for the answer one half later: not at once, which would keep the
 * worker idle. That a segment is busy says less: it may be a tensor's memory for as long as that lives.
 */
static gt_err limit_uploads(gt_client *client, size_t bytes)
{
    gt_slot *slot;
    if (client->uploads.bytes >= MOST_AHEAD / 2) {
        GT_TRY(await_uploads(client));
        GT_TRY(gt__client_reserve(client, 1, &slot));
        client->uploads.ticket = client->next_ticket++;
        client->uploads.bytes = 0;
        slot->ins = (gt_instruction){.op = GT_OP_sync, .result = client->uploads.ticket};
        gt__client_commit(client, 1, 0);
    }
    client->uploads.bytes += bytes;
    return GT_OK;
}

gt_err gt_from_data(gt_client *client, gt_dtype dtype, int rank, const int64_t *shape, const void *data,
                    gt_tensor **out)
{
    gt_meta meta;
    GT_ARGUMENTS(out, client);
    if (rank > 0)
        GT_REQUIRE(shape);
    GT_TRY(gt__client_check(client));
    GT_TRY(gt__meta_set(&meta, dtype, (unsigned)rank, shape));
    size_t bytes = gt__meta_bytes(&meta);
    if (bytes)
        GT_REQUIRE(data);
    gt_instruction upload = {.op = GT_OP_upload, .dtype = (uint8_t)dtype, .rank = (uint8_t)rank, .tail = 1};
    upload.imm[0].u = bytes;
    gt_slot tail[GT_MAX_TAIL];
    tail[0] = (gt_slot){.i64 = {0}};
    memcpy(tail[0].i64, meta.shape, meta.rank * sizeof *meta.shape);
    if (through_segment(client, bytes))
        GT_TRY(limit_uploads(client, bytes));
    gt_transfer *transfer = through_segment(client, bytes) ? transfer_get(client, bytes) : NULL;
    if (transfer) {
        gt__copy_large(transfer->segment->data, data, bytes);
        gt__segment_give(transfer->segment);
        upload.imm[1].u = transfer->segment->id;
        gt_err err = gt__emit(client, upload, tail, NULL, 0, out);
        if (err != GT_OK)
            gt__segment_done(transfer->segment);
        else
            gt__bounds_scan(*out, data);
        return err;
    }
    size_t first = bytes < GT_MAX_CHUNK ? bytes : GT_MAX_CHUNK;
    upload.tail = (uint16_t)(1 + gt__slots_for(first));
    if (first)
        memcpy(tail + 1, data, first);
    gt__slots_pad(tail + 1, first);
    gt_tensor *tensor;
    GT_TRY(gt__emit(client, upload, tail, NULL, 0, &tensor));
    gt_err err = send_pieces(client, tensor, data, bytes);
    if (err != GT_OK) {
        gt_tensor_release(tensor);
        return err;
    }
    gt__bounds_scan(tensor, data);
    *out = tensor;
    return GT_OK;
}

/* ---- fetches ----------------------------------------------------------------------------------------------- */

struct gt_lease {
    gt_client *client;
    gt_transfer *transfer; /* NULL: the elements follow this struct */
};

static gt_err fetch_plain(gt_tensor *tensor, void *data, size_t bytes)
{
    sink to = {.memory = data, .bytes = bytes, .tensor = &tensor->meta};
    gt_instruction question = {.op = GT_OP_fetch, .operand = {tensor->id}};
    GT_TRY(ask(tensor->client, question, &to, NULL));
    return to.received == bytes ? GT_OK : gt__fail(GT_ERR_PROTOCOL, "the server sent too few bytes");
}

static gt_err fetch_segment(gt_tensor *tensor, gt_transfer *transfer)
{
    gt_client *client = tensor->client;
    sink nothing = {.tensor = &tensor->meta};
    gt_instruction question = {.op = GT_OP_fetch, .operand = {tensor->id}};
    question.imm[0].u = transfer->segment->id;
    uint64_t ticket = 0;
    transfer->lent = true; /* no other transfer uses it from here on */
    gt__segment_give(transfer->segment);
    gt_err err = ask(client, question, &nothing, &ticket);
    if (err == GT_OK) {
        gt__segment_busy(transfer->segment); /* the worker wrote the data before it cleared the word */
        return GT_OK;
    }
    transfer->lent = false;
    if (err == GT_ERR_INTERRUPTED && ticket)
        transfer->abandoned = ticket;
    else if (err == GT_ERR_CONNECTION) /* a worker that was taken for dead may still write to it */
        transfer_drop(client, transfer);
    else
        gt__segment_done(transfer->segment);
    return err;
}

static gt_err fetch(gt_tensor *tensor, void *data, size_t bytes)
{
    gt_client *client = tensor->client;
    GT_TRY(gt__client_check(client));
    if (tensor->batch)
        return gt__batch_refuse_value();
    if (bytes != gt__meta_bytes(&tensor->meta))
        return gt__fail(GT_ERR_VALUE, "the tensor has %zu bytes, not %zu", gt__meta_bytes(&tensor->meta), bytes);
    gt_transfer *transfer = through_segment(client, bytes) ? transfer_get(client, bytes) : NULL;
    if (!transfer)
        return fetch_plain(tensor, data, bytes);
    GT_TRY(fetch_segment(tensor, transfer));
    gt__copy_large(data, transfer->segment->data, bytes);
    transfer->lent = false;
    return GT_OK;
}

/* Retains the tensor: other threads may release it during the wait. */
gt_err gt_fetch(gt_tensor *tensor, void *data, size_t bytes)
{
    GT_REQUIRE(tensor);
    if (bytes)
        GT_REQUIRE(data);
    gt_tensor_retain(tensor);
    gt_err err = fetch(tensor, data, bytes);
    gt_tensor_release(tensor);
    return err;
}

static gt_err fetch_lease(gt_tensor *tensor, void **data, gt_lease **out)
{
    gt_client *client = tensor->client;
    size_t bytes = gt__meta_bytes(&tensor->meta);
    GT_TRY(gt__client_check(client));
    if (tensor->batch)
        return gt__batch_refuse_value();
    gt_transfer *transfer = through_segment(client, bytes) ? transfer_get(client, bytes) : NULL;
    gt_lease *lease = malloc(sizeof *lease + (transfer ? 0 : bytes));
    if (!lease)
        return gt__fail(GT_ERR_MEMORY, "out of memory: cannot allocate %zu bytes for elements", bytes);
    *lease = (gt_lease){.client = client, .transfer = transfer};
    gt_err err = transfer ? fetch_segment(tensor, transfer) : fetch_plain(tensor, lease + 1, bytes);
    if (err != GT_OK) {
        free(lease);
        return err;
    }
    client->live++;
    *data = transfer ? (void *)transfer->segment->data : (void *)(lease + 1);
    *out = lease;
    return GT_OK;
}

gt_err gt__fetch_lease(gt_tensor *tensor, void **data, gt_lease **out)
{
    gt_tensor_retain(tensor);
    gt_err err = fetch_lease(tensor, data, out);
    gt_tensor_release(tensor);
    return err;
}

void gt__lease_end(gt_lease *lease)
{
    gt_client *client = lease->client;
    if (lease->transfer)
        lease->transfer->lent = false;
    client->live--;
    free(lease);
    gt__client_maybe_destroy(client);
}

gt_err gt_item(gt_tensor *tensor, double *value)
{
    GT_REQUIRE(tensor, value);
    if (tensor->meta.numel != 1)
        return gt__fail(GT_ERR_VALUE, "a tensor with %lld elements cannot be converted to a scalar",
                        (long long)tensor->meta.numel);
    gt_tensor *wide;
    GT_TRY(gt_cast(tensor, GT_FLOAT64, &wide));
    gt_err err = gt_fetch(wide, value, sizeof *value);
    gt_tensor_release(wide);
    return err;
}
