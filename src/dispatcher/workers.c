/* workers.c: see workers.h. Place in the flow: loop.c -> here -> answers.c. */
#include "dispatcher/workers.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "dispatcher/answers.h"
#include "dispatcher/download.h"
#include "dispatcher/journal/journaled.h"
#include "dispatcher/live/drain.h"
#include "dispatcher/live/evacuate.h"
#include "dispatcher/observe/synced.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/recover/stand_in.h"
#include "dispatcher/recover/suspect.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"
#include "link/address.h"
#include "link/hello.h"

enum { SWEEP_MS = 1000 }; /* a process that ends closes its sockets one after the other */

/* ---- answers ----------------------------------------------------------------------------------------------- */

/* all: or only the questions of its client, not those of the dispatcher itself. */
static void forget(gt_dispatch_worker *worker, gt_session *session, bool all)
{
    for (uint32_t k = 0; k < worker->pendings.count; k++) {
        gt_pending *pending = gt__pendings_at(&worker->pendings, k);
        bool own = pending->save || pending->departed || pending->settles || pending->clears;
        gt__inquiry_take_back(pending->inquiry, session, &(uint64_t){0});
        if (pending->session == session && (all || !own)) {
            pending->session = NULL;
            pending->download = NULL;
            pending->save = NULL;
        }
    }
}

void gt__worker_forget_session(gt_dispatch_worker *worker, gt_session *session)
{
    forget(worker, session, true);
}

void gt__worker_forget_client(gt_dispatch_worker *worker, gt_session *session)
{
    forget(worker, session, false);
}

/* Log an answer that is complete. */
static void observe_answer(gt_dispatch_worker *worker, const gt_pending *answered, const gt_slot *record)
{
    const gt_download *download = answered->download;
    bool failed = record->ins.op == GT_OP_failure, whole = !download || download->asked == download->elements;
    gt__observe_worker_answer(worker, answered->op, answered->session, answered->tensor, answered->bytes, record);
    if (answered->session && (whole || failed))
        gt__observe_answered(answered->session, answered->op, answered->tensor,
                             answered->bytes + (download ? download->offset : 0), failed);
}

/* Records that a worker sends without a question, most of them while it is watched. False: it is an answer. */
static bool take_news(gt_dispatch_worker *worker, const gt_slot *record)
{
    if (record->ins.op == GT_OP_path) {
        gt__paths_news(worker, record);
        return true;
    }
    if (record->ins.op == GT_OP_stand_in) {
        gt__stand_in_refused(worker, record->ins.imm[0].u);
        return true;
    }
    if (record->ins.op == GT_OP_share) {
        gt__share_take_news(worker, &record->ins);
        return true;
    }
    bool failure = record->ins.op == GT_OP_failure && record->ins.flags & GT_FLAG_UNASKED;
    if (!failure && record->ins.op != GT_OP_timing)
        return false;
    if (worker->observed)
        (failure ? gt__observe_failure : gt__observe_timing)(worker, record);
    return true;
}

/* An answer, or a piece of one, that goes into a snapshot. */
static gt_err take_part(gt_dispatch_worker *worker, uint32_t which, const gt_slot *record)
{
    gt_pending asked = *gt__pendings_at(&worker->pendings, which);
    if (record->ins.op == GT_OP_failure || record->ins.flags & GT_FLAG_LAST) {
        gt__pendings_take(&worker->pendings, which);
        if (worker->observed)
            gt__observe_worker_answer(worker, asked.op, NULL, 0, record->ins.imm[1].u, record);
    }
    gt__recover_piece(asked.session, asked.save, record);
    return GT_OK;
}

static gt_err pass_answer(gt_dispatch_worker *worker, gt_slot *record)
{
    if (take_news(worker, record))
        return GT_OK;
    if (record->ins.op != GT_OP_reply && record->ins.op != GT_OP_failure)
        return gt__fail(GT_ERR_PROTOCOL, "unexpected %s record", gt__op_table[record->ins.op].name);
    uint32_t which = gt__pendings_find(&worker->pendings, record->ins.result);
    if (which == UINT32_MAX)
        return gt__fail(GT_ERR_PROTOCOL, "an answer without a question");
    gt_pending *question = gt__pendings_at(&worker->pendings, which);
    if (question->op == GT_OP_mark) {
        gt_pending asked = gt__pendings_take(&worker->pendings, which);
        worker->share.late = record->ins.operand[0] != 0;
        worker->runs.done = asked.record;
        gt__share_marked(worker, asked.charges, asked.placed_ns, record->ins.imm[0].u,
                         record->ins.operand[1] != 0);
        return GT_OK;
    }
    if (question->op == GT_OP_stats) {
        gt_pending asked = gt__pendings_take(&worker->pendings, which);
        return gt__report_take(worker, &asked, record);
    }
    if (question->departed || question->settles) {
        gt_pending asked = gt__pendings_take(&worker->pendings, which);
        gt__evacuation_confirmed(worker->peer->dispatcher, worker, &asked, record->ins.op == GT_OP_reply);
        return GT_OK;
    }
    if (question->clears) {
        gt_pending asked = gt__pendings_take(&worker->pendings, which);
        gt__suspect_answered(&asked, record->ins.op == GT_OP_reply);
        return GT_OK;
    }
    if (question->save)
        return take_part(worker, which, record);
    bool failed = record->ins.op == GT_OP_failure, last = failed || record->ins.flags & GT_FLAG_LAST;
    record->ins.result = question->ticket;
    if (failed && record->ins.imm[0].i == GT_ERR_CONNECTION && question->session && question->session->recovery) {
        gt_pending asked = gt__pendings_take(&worker->pendings, which);
        gt__recover_doubt(asked.session, &asked, record);
        return GT_OK;
    }
    question->bytes += failed ? 0 : record->ins.imm[1].u;
    if (last && worker->observed)
        observe_answer(worker, question, record);
    if (failed)
        record->ins.operand[1] = gt__observe_log_number(worker, &record->ins);
    if (question->download)
        gt__download_piece(question->download, record);
    if (question->session && !(question->session->recovery && gt__recover_has(question->session, record)))
        if (failed || question->op != GT_OP_sync || !gt__synced_hold(question->session, worker, record))
            gt__answer_send(question->session, record);
    if (last) {
        gt_pending answered = gt__pendings_take(&worker->pendings, which);
        if (answered.download)
            gt__download_part_done(answered.session, failed);
    }
    return GT_OK;
}

/* The worker ends, and may have said why. */
static gt_err goodbye(const gt_slot *record)
{
    char reason[GT_GOODBYE_TAIL * sizeof(gt_slot)] = "";
    if (record->ins.tail >= GT_GOODBYE_TAIL)
        memcpy(reason, record + 1, sizeof reason - 1);
    return gt__fail(GT_ERR_CONNECTION, "%s%s", *reason ? "it ended: " : "it shut down", reason);
}

gt_err gt__worker_serve(gt_dispatch_worker *worker, size_t budget, bool *progress)
{
    gt_slot record[1 + GT_MAX_TAIL];
    size_t available;
    const gt_slot *slots;
    while (budget && (slots = gt__link_peek(worker->link, &available))) {
        unsigned length;
        record[0] = slots[0];
        GT_TRY(gt__instruction_check(record, available, &length));
        memcpy(record + 1, slots + 1, (length - 1) * sizeof *record);
        if (record->ins.op == GT_OP_goodbye)
            return goodbye(record);
        gt__link_consume(worker->link, length);
        worker->link->records_received++;
        GT_TRY(pass_answer(worker, record));
        *progress = true;
        budget -= length < budget ? length : budget;
    }
    return worker->link->dead ? gt__fail(GT_ERR_CONNECTION, "%s", worker->link->reason) : GT_OK;
}

/* ---- life -------------------------------------------------------------------------------------------------- */

gt_err gt__worker_entry_add(gt_dispatcher *dispatcher, gt_dispatch_worker **out)
{
    size_t count = (size_t)dispatcher->worker_count + 1;
    gt_dispatch_worker **workers = realloc(dispatcher->workers, count * sizeof(*workers));
    if (workers)
        dispatcher->workers = workers;
    gt_dispatch_worker *worker = workers ? calloc(1, sizeof *worker) : NULL;
    if (!worker)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    worker->index = dispatcher->worker_count;
    dispatcher->workers[dispatcher->worker_count++] = worker;
    *out = worker;
    return GT_OK;
}

/* The worker's place is taken over by another: it is dead and that was not noticed, or it was replaced on purpose. The loop
 * frees the peer when it finds the link dead. */
static void replace_worker(gt_dispatch_worker *worker)
{
    gt_peer *peer = worker->peer;
    static const char reason[] = "another worker of this name has taken its place";
    peer->link->ops->arm(peer->link); /* notices if it is dead */
    peer->link->stopped = !peer->link->gone;
    gt__goodbye_send(peer->link, reason);
    gt__worker_leave(worker, reason);
    gt__link_kill(peer->link, "%s", reason);
    gt__peer_wake(peer);
}

/* The entry of a worker of that name: one that is there, else one that was. */
static gt_dispatch_worker *find_name(const gt_dispatcher *dispatcher, const char *name)
{
    gt_dispatch_worker *found = NULL;
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        if (!strcmp(worker->name, name) && (!found || (worker->peer && !found->peer)))
            found = worker;
    }
    return found;
}

/* A stand-in of this number was asked for, and has not come. */
static bool is_expected(const gt_dispatcher *dispatcher, int32_t number)
{
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        if (dispatcher->workers[index]->leaving.relief == number + 1)
            return true;
    return false;
}

gt_dispatch_worker *gt__worker_vacant(gt_dispatcher *dispatcher)
{
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        if (!worker->peer && worker->relief && !is_expected(dispatcher, index))
            return worker;
    }
    gt_dispatch_worker *added;
    if (dispatcher->worker_count >= GT_MAX_PARTIES || gt__worker_entry_add(dispatcher, &added) != GT_OK)
        return NULL;
    return added;
}

static gt_dispatch_worker *find_free(const gt_dispatcher *dispatcher)
{
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        if (!dispatcher->workers[index]->peer)
            return dispatcher->workers[index];
    return NULL;
}

/*
 * The entry of a worker that joins: the number that it asks for (plus one; 0: any), else the number that its name had before,
 * else the first that is free. Signals name workers by number, so a replacement gets the number of its predecessor, also if
 * the end of that has not been noticed yet.
 */
static gt_err worker_entry(gt_dispatcher *dispatcher, uint64_t wanted, const char *name, bool named,
                           gt_dispatch_worker **out)
{
    if (wanted > GT_MAX_PARTIES)
        return gt__fail(GT_ERR_VALUE, "there are at most %d workers, numbered from 0", GT_MAX_PARTIES);
    gt_dispatch_worker *added;
    while ((uint64_t)dispatcher->worker_count < wanted)
        GT_TRY(gt__worker_entry_add(dispatcher, &added));
    gt_dispatch_worker *same = find_name(dispatcher, name);
    gt_dispatch_worker *worker = wanted ? dispatcher->workers[wanted - 1] : same;
    if (named && same && same->peer)
        replace_worker(same);
    if (wanted && worker->peer)
        return gt__fail(GT_ERR_VALUE, "worker %s has the number %llu", worker->name,
                        (unsigned long long)wanted - 1);
    if (!worker || worker->peer)
        worker = find_free(dispatcher);
    if (!worker)
        GT_TRY(gt__worker_entry_add(dispatcher, &worker));
    *out = worker;
    return GT_OK;
}

/* Statistics, logs and errors name workers: two that are there may not have the same name. It was not chosen, or the other would
 * have been replaced: workers of two hosts may have the same process id. */
static void make_unique(const gt_dispatcher *dispatcher, const gt_dispatch_worker *worker, char *name, size_t size)
{
    char first[sizeof worker->name];
    const gt_dispatch_worker *same;
    snprintf(first, sizeof first, "%.48s", name);
    for (int number = worker->index; (same = find_name(dispatcher, name)) && same->peer && same != worker;
         number++)
        snprintf(name, size, "%s_%d", first, number);
}

/* When its process has ended. */
static void sweep(gt_dispatch_worker *worker)
{
    const char *colon = strrchr(worker->listens, ':');
    int port = colon ? atoi(colon + 1) : 0;
    worker->sweep_ns = 0;
    if (port > 0)
        gt__address_sweep_port(port);
}

gt_err gt__worker_join(gt_peer *peer, const gt_slot *hello)
{
    gt_dispatcher *dispatcher = peer->dispatcher;
    gt_dispatch_worker *worker = NULL;
    char name[sizeof worker->name];
    snprintf(name, sizeof name, "%.63s", (const char *)hello[1].bytes);
    GT_TRY(worker_entry(dispatcher, hello->ins.operand[0] & ~GT_HELLO_BITS, name,
                        hello->ins.operand[0] & GT_HELLO_NAMED, &worker));
    make_unique(dispatcher, worker, name, sizeof name);
    worker->peer = peer;
    worker->stand_in.present = hello->ins.operand[0] & GT_HELLO_STAND_IN;
    worker->stand_in.asked_by = 0;
    worker->relief &= worker->stand_in.present;
    worker->cannot_host = false;
    worker->life = ++dispatcher->lives;
    dispatcher->worker_changes++;
    worker->link = peer->link;
    worker->draining = false;
    worker->instructions = worker->sessions = worker->records = 0;
    gt__share_join(worker);
    gt__runs_reset(&worker->runs);
    worker->owner = GT_OWNER_UNTOLD;
    memset(&worker->reported, 0, sizeof worker->reported);
    memset(&worker->traffic, 0, sizeof worker->traffic);
    memcpy(worker->name, name, sizeof name);
    snprintf(worker->engine, sizeof worker->engine, "%.63s", (const char *)hello[2].bytes);
    if (worker->sweep_ns)
        sweep(worker);
    snprintf(worker->listens, sizeof worker->listens, "%.63s", (const char *)hello[3].bytes);
    worker->exchange = gt__exchange_names[(hello->ins.operand[0] & GT_HELLO_EXCHANGE) >> GT_HELLO_EXCHANGE_SHIFT];
    worker->memory = hello->ins.operand[1];
    worker->group = hello->ins.operand[2];
    worker->league = (uint64_t)hello->ins.scope << 32 | hello->ins.site;
    worker->host = hello->ins.result;
    worker->sharers = 1; /* what it assumes by itself */
    peer->worker = worker;
    gt__peer_log(peer, GT_LOG_STATUS, "joined by %s", gt__link_name(peer->link));
    for (gt_peer *other = dispatcher->peers; other; other = other->next)
        if (other->session)
            gt__session_new_worker(other->session);
    gt__live_joined(worker);
    return GT_OK;
}

/* Tell a worker the address of another. */
static void introduce_peer(gt_dispatch_worker *worker, const gt_dispatch_worker *other)
{
    gt_slot *out = gt__worker_reserve(worker, 3);
    if (!out)
        return; /* out of memory: its sends to that one will fail */
    memset(out, 0, 3 * sizeof *out);
    out->ins = (gt_instruction){.op = GT_OP_peer, .tail = 2, .result = (uint64_t)other->index};
    out->ins.operand[0] = other->life;
    out->ins.operand[1] = other->group;
    out->ins.operand[2] = other->league;
    out->ins.imm[0].u = other->host;
    memcpy(out + 1, other->name, sizeof other->name);
    memcpy(out + 2, other->listens, sizeof other->listens);
    gt__worker_put(worker, 3);
}

void gt__worker_introduce(gt_dispatch_worker *worker)
{
    const gt_dispatcher *dispatcher = worker->peer->dispatcher;
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *other = dispatcher->workers[index];
        if (!other->peer || other == worker)
            continue;
        introduce_peer(worker, other);
        introduce_peer(other, worker);
    }
}

static unsigned count_sharers(const gt_dispatcher *dispatcher, uint64_t memory)
{
    unsigned count = 0;
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        count += dispatcher->workers[index]->peer && dispatcher->workers[index]->memory == memory;
    return count;
}

void gt__workers_divide_memory(gt_dispatcher *dispatcher)
{
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        unsigned sharers = worker->peer ? count_sharers(dispatcher, worker->memory) : 0;
        if (!sharers || sharers == worker->sharers)
            continue;
        worker->sharers = sharers;
        gt_instruction share = {.op = GT_OP_share};
        share.imm[0].u = sharers;
        gt__worker_tell(worker, &share);
    }
}

/* It will not answer any more. */
static void drop_pendings(gt_dispatcher *dispatcher, gt_dispatch_worker *worker, const char *lost)
{
    while (worker->pendings.count) {
        gt_pending pending = gt__pendings_take(&worker->pendings, 0);
        gt__inquiry_settle(pending.inquiry);
        if (pending.departed || pending.settles)
            gt__evacuation_confirmed(dispatcher, worker, &pending, false);
        else if (pending.clears)
            gt__suspect_answered(&pending, false);
        else if (pending.session)
            gt__answer_failure(pending.session, pending.ticket, GT_ERR_CONNECTION, lost);
        if (pending.download && pending.session->home != worker) /* which has moved on */
            gt__download_part_done(pending.session, true);
    }
}

void gt__worker_leave(gt_dispatch_worker *worker, const char *reason)
{
    gt_dispatcher *dispatcher = worker->peer->dispatcher;
    char text[160];
    const char *tensors = worker->leaving.dismissed ? "moved to others" : "lost";
    snprintf(text, sizeof text, "worker %s is gone (%s); its tensors are %s", worker->name, reason, tensors);
    gt__peer_log(worker->peer, GT_LOG_STATUS, "is gone (%s); its tensors are %s", reason, tensors);
    gt__observe_worker(worker, reason);
    worker->sweep_ns = gt__deadline_ns(SWEEP_MS);
    dispatcher->worker_changes++;
    gt__share_leave(worker);
    for (gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        if (peer->session)
            gt__recover_lose(peer->session, worker, text);
    gt__drain_ended(worker, reason);
    worker->peer->worker = NULL;
    worker->peer = NULL;
    worker->stand_in = (gt_stand_in_state){0};
    worker->link = NULL;
    drop_pendings(dispatcher, worker, text);
    worker->leaving = (gt_leaving){0};
    for (gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        if (peer->session)
            gt__session_lose_worker(peer->session, worker, text);
    gt__slot_numbers_clear(&worker->slots);
    memset(worker->paths, 0, sizeof worker->paths);
    gt__worker_drop_backlog(worker);
    gt__workers_divide_memory(dispatcher);
    gt__disk_journal_workers(dispatcher);
}

void gt__workers_look(gt_dispatcher *dispatcher)
{
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_link *link = dispatcher->workers[index]->link;
        if (dispatcher->workers[index]->sweep_ns && !gt__remaining_ms(dispatcher->workers[index]->sweep_ns))
            sweep(dispatcher->workers[index]);
        if (!link || !link->watched)
            continue;
        link->ops->look(link);
        if (link->gone)
            gt__peer_wake(dispatcher->workers[index]->peer);
    }
}

/* What is left to do for one worker at the end: it gets the records that wait for room, then a goodbye, and is heard out meanwhile,
 * since it may have no room for its answers. Stand-ins end with their host, so they leave before it. False: it has left. */
static bool finish(gt_dispatch_worker *worker, bool *told, bool *progress)
{
    enum { BUDGET = 1024 };
    if (!worker->peer)
        return false;
    if (worker->backlog.behind && !worker->link->gone)
        gt__worker_catch_up(worker);
    if (!worker->backlog.behind && !*told && !gt__stand_ins_of(worker)) {
        gt__goodbye_send(worker->link, GT_SERVER_STOPS);
        *told = true;
    }
    if (gt__worker_serve(worker, BUDGET, progress) == GT_OK)
        return true;
    gt__peer_end(worker->peer, "it shut down");
    return false;
}

void gt__workers_finish(gt_dispatcher *dispatcher)
{
    enum { PATIENCE_MS = 5000, PAUSE_MS = 1 };
    bool *told = calloc((size_t)dispatcher->worker_count + 1, sizeof *told);
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    for (bool left = told; left && gt__remaining_ms(deadline);) {
        bool progress = false;
        gt_link *link = NULL;
        left = false;
        for (int32_t index = 0; index < dispatcher->worker_count; index++)
            if (finish(dispatcher->workers[index], &told[index], &progress)) {
                link = dispatcher->workers[index]->link;
                left = true;
            }
        if (left && !progress) /* on one: the sockets of the others are read as well */
            gt__link_wait(link, GT_WAIT_READ, PAUSE_MS);
    }
    free(told);
}

bool gt__worker_dismiss(gt_dispatch_worker *worker)
{
    gt_slot *out = gt__worker_reserve(worker, 1 + GT_GOODBYE_TAIL);
    if (!out)
        return false;
    memset(out, 0, (1 + GT_GOODBYE_TAIL) * sizeof *out);
    out->ins = (gt_instruction){.op = GT_OP_goodbye, .tail = GT_GOODBYE_TAIL};
    gt__worker_put(worker, 1 + GT_GOODBYE_TAIL);
    return true;
}

void gt__workers_session_left(gt_dispatcher *dispatcher, uint64_t session)
{
    gt_instruction share = {.op = GT_OP_share};
    share.imm[0].u = session;
    share.imm[1].u = GT_SHARE_LEFT;
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        if (!worker->peer)
            continue;
        gt__worker_tell(worker, &share);
        /* The next numbers are small again, so that the worker's table can shrink. */
        if (!gt__slot_numbers_used(&worker->slots))
            gt__slot_numbers_free(&worker->slots);
    }
}

gt_dispatch_worker *gt__worker_choose(gt_dispatcher *dispatcher)
{
    gt_dispatch_worker *best = NULL;
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        if (worker->peer && !worker->stand_in.present && !worker->draining && !worker->leaving.wanted &&
            (!best || worker->sessions < best->sessions))
            best = worker;
    }
    return best;
}

int gt__worker_present_count(const gt_dispatcher *dispatcher)
{
    int count = 0;
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        count += dispatcher->workers[index]->peer != NULL;
    return count;
}

void gt__workers_free(gt_dispatcher *dispatcher)
{
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        gt__slot_numbers_free(&worker->slots);
        gt__pendings_free(&worker->pendings);
        gt__slot_queue_free(&worker->backlog.outbox);
        gt__share_free(worker);
        free(worker);
    }
    free(dispatcher->workers);
}
