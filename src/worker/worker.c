/*
 * worker.c: the worker's loop: introduce itself, then take records in order until the dispatcher leaves.
 *
 * Place in the flow: dispatcher -> link -> here -> execute.c -> engine. Answers (fetch, sync) go back on the same link.
 */
#include "worker/worker.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/record.h"
#include "core/settings.h"
#include "engines/host_memory.h"
#include "link/hello.h"
#include "worker/answer.h"
#include "worker/peers/lane.h"
#include "worker/paths.h"
#include "worker/stand_in.h"
#include "worker/trim.h"
#include "worker/upload.h"

static bool stopping(const gt_worker_options *options)
{
    return options->stop && atomic_load_explicit(options->stop, memory_order_relaxed);
}

bool gt__worker_stopping(const gt_worker *worker)
{
    return stopping(worker->options);
}

/* Milliseconds that a wait may take before the next check of *stop; -1: no limit. */
static int patience_ms(const gt_worker_options *options)
{
    return options->stop_poll_ms ? options->stop_poll_ms : -1;
}

int gt__worker_patience_ms(const gt_worker *worker)
{
    return patience_ms(worker->options);
}

enum {
    RETRY_MS = 50, /* between attempts to reach a server that is not up yet, doubled each time */
    MOST_RETRY_MS = 400,
    LATE_WAIT_MS = 1,  /* for records, before the next poll of the engine */
    LATE_EVERY = 16,   /* records between polls of the engine */
    WAY_SIZE = 32,     /* of the text that says how data goes */
    ATTEMPT_MS = 1000, /* timeout of one attempt: *stop is not checked meanwhile */
};

/* ---- the stream -------------------------------------------------------------------------------------------- */

static void free_slots(gt_worker *worker, const gt_instruction *ins)
{
    const uint64_t *slots = gt__free_ids(ins);
    for (unsigned k = 0; k < GT_FREE_IDS; k++) {
        gt_entry *entry = slots[k] ? gt__store_find(worker->store, slots[k]) : NULL;
        if (entry)
            gt__store_clear(worker->store, entry);
    }
}

static void take_share(gt_worker *worker, const gt_instruction *ins)
{
    if (ins->imm[1].u == GT_SHARE_OWNER)
        gt__store_set_owner(worker->store, ins->imm[0].u ? ins->imm[0].u : GT_STORE_NOBODY);
    else if (ins->imm[1].u == GT_SHARE_LEFT) {
        gt__deferred_leave(worker, ins->imm[0].u);
        gt__trim_soon(worker);
    } else
        worker->store->limit = worker->engine->ops->memory_limit(worker->engine, (unsigned)ins->imm[0].u);
}

/* False: the dispatcher said goodbye. */
static bool handle_control(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail)
{
    switch ((gt_opcode)ins->op) {
    case GT_OP_free:
        free_slots(worker, ins);
        gt__peers_reclaim(worker);
        return true;
    case GT_OP_data:
        gt__upload_append(worker, ins, tail);
        return true;
    case GT_OP_fetch:
        gt__worker_answer_fetch(worker, ins);
        return true;
    case GT_OP_sync:
        gt__worker_answer_sync(worker, ins);
        return true;
    case GT_OP_failure:
        gt__worker_refuse(worker, ins, tail);
        return true;
    case GT_OP_stats:
        gt__worker_answer_stats(worker, ins);
        return true;
    case GT_OP_mark:
        gt__worker_answer_mark(worker, ins);
        gt__trim_look(worker);
        gt__stand_ins_check(worker, 0);
        return true;
    case GT_OP_share:
        take_share(worker, ins);
        return true;
    case GT_OP_stand_in:
        gt__stand_in_start(worker, ins, tail);
        return true;
    case GT_OP_watch:
        gt__timing_watch(worker, ins->imm[0].u != 0);
        return true;
    case GT_OP_forget:
        gt__pins_forget(worker, ins->imm[0].u);
        if (worker->link->ops->forget)
            worker->link->ops->forget(worker->link, ins->imm[0].u);
        return true;
    case GT_OP_path:
        gt__worker_define_path(worker, tail - 1);
        return true;
    case GT_OP_repeat:
        gt__worker_run_path(worker, tail - 1);
        return true;
    case GT_OP_goodbye:
        return false;
    default:
        worker->cancel.held++; /* other workers wait for their parts */
        bool handled = gt__peers_handle(worker, ins, tail);
        worker->cancel.held--;
        if (handled)
            return true;
    }
    gt__log_error("worker %s: unexpected %s record", worker->name, gt__op_table[ins->op].name);
    return true;
}

static void debug_record(const gt_worker *worker, const gt_instruction *ins)
{
    char text[128];
    gt__log(GT_LOG_WORKER, "%s: %s", worker->name, gt__instruction_text(ins, text, sizeof text));
}

bool gt__worker_run_record(gt_worker *worker, const gt_slot *record)
{
    bool more = true;
    bool large = gt__timing_before(worker, &worker->timing, worker->store, &record->ins);
    if (__builtin_expect(record->ins.op < GT_OP_FIRST_CONTROL, 1)) {
        if (__builtin_expect(large, 0) && record->ins.op != GT_OP_upload && gt__cancel_skips(worker))
            gt__worker_fail(worker, &record->ins, GT_ERR_CANCELLED);
        else
            gt__worker_execute(worker, &record->ins, record + 1);
    } else
        more = handle_control(worker, &record->ins, record + 1);
    gt__timing_after(worker, &worker->timing, &record->ins);
    return more;
}

/* Take the records of one window in turn. *more is false once the dispatcher said goodbye. */
static gt_err run_window(gt_worker *worker, const gt_slot *slots, size_t available, bool *more)
{
    const gt_slot *end = slots + available;
    bool debug = gt__log_on(GT_LOG_WORKER);
    unsigned length, until_look = LATE_EVERY;
    for (; slots < end && *more && !stopping(worker->options); slots += length) {
        GT_TRY(gt__instruction_check(slots, (size_t)(end - slots), &length));
        if (__builtin_expect(gt__late_busy(&worker->late), 0) && --until_look == 0) {
            gt__late_poll(worker);
            until_look = LATE_EVERY;
        }
        if (debug)
            debug_record(worker, &slots->ins);
        bool taken = __builtin_expect(worker->deferred.count || gt__deferred_may_wait(slots->ins.op), 0) &&
                     gt__deferred_takes(worker, slots);
        if (!taken)
            *more = gt__worker_run_record(worker, slots);
        gt__link_consume(worker->link, length);
    }
    return GT_OK;
}

/* The stream is empty and the engine is busy. With pending answers or messages, wait for the engine's next completion,
 * since other processes wait for them. Otherwise wait for records, which keep the engine busy. */
static void await_engine(gt_worker *worker)
{
    gt_engine *engine = worker->engine;
    gt__timing_flush(worker);
    gt__timing_engine_wait(worker);
    gt__link_flush(worker->link);
    if (worker->late.answers > worker->late.marks || worker->late.posts) {
        gt__late_step(worker);
        return;
    }
    if (engine->ops->flush)
        engine->ops->flush(engine);
    gt__link_wait(worker->link, GT_WAIT_READ, LATE_WAIT_MS);
}

/* There is nothing to do. *quiet_ns: since when; 0: since now. */
static void await_records(gt_worker *worker, uint64_t *quiet_ns)
{
    uint64_t began_ns = gt__timing_wait_begin(worker);
    *quiet_ns = *quiet_ns ? *quiet_ns : began_ns;
    int wait_ms = gt__trim_patience_ms(worker, *quiet_ns, gt__worker_patience_ms(worker));
    wait_ms = gt__stand_ins_check(worker, wait_ms);
    gt_err err = gt__link_wait(worker->link, GT_WAIT_READ, wait_ms);
    gt__timing_wait_end(worker, began_ns);
    if (err == GT_ERR_TIMEOUT)
        gt__trim_idle(worker, *quiet_ns);
}

const char *gt__worker_broken(const gt_worker *worker)
{
    return worker->engine->ops->broken ? worker->engine->ops->broken(worker->engine) : NULL;
}

static gt_err run_stream(gt_worker *worker, const gt_worker_options *options)
{
    bool more = true;
    uint64_t quiet_ns = 0;
    while (more && !stopping(options)) {
        size_t available;
        const char *broken = gt__worker_broken(worker);
        if (broken)
            return gt__fail(GT_ERR_INTERNAL, "%s", broken);
        if (__builtin_expect(gt__late_busy(&worker->late), 0))
            gt__late_poll(worker);
        const gt_slot *slots = gt__link_peek(worker->link, &available);
        if (slots) {
            quiet_ns = 0;
            GT_TRY(run_window(worker, slots, available, &more));
        } else if (worker->deferred.count && !worker->link->gone) {
            if (worker->engine->ops->flush)
                worker->engine->ops->flush(worker->engine);
            gt__deferred_idle(worker);
        } else if (worker->link->dead)
            return gt__fail(GT_ERR_CONNECTION, "%s", worker->link->reason);
        else if (gt__late_busy(&worker->late))
            await_engine(worker);
        else
            await_records(worker, &quiet_ns);
    }
    return GT_OK;
}

/* ---- life -------------------------------------------------------------------------------------------------- */

static gt_err open_engine(const gt_worker_options *options, gt_cancel *cancel, gt_engine **engine)
{
    const char *backend = options->backend && *options->backend ? options->backend : getenv("GT_BACKEND");
    const gt_engine_ops *ops;
    GT_TRY(gt__engine_find(backend, &ops));
    gt_engine_options engine_options = {.threads = options->threads, .ops = ops, .cancel = cancel};
    return ops->open(&engine_options, engine);
}

/* Whether to try again after a failure, for which there must be `needed_ms`. With --wait always: a line says so, once. */
static bool may_wait(const gt_worker_options *options, uint64_t deadline, int needed_ms, bool *told)
{
    if (gt__remaining_ms(deadline) > needed_ms)
        return true;
    if (options->wait && !*told)
        gt__log_warning("worker: waiting for the server at %s: %s", options->address, gt_error_text());
    *told = true;
    return options->wait;
}

/* Whether to use a library (NCCL) for collectives that was not asked for. It opens ports without encryption: on the network if
 * that is trusted, else on the loopback interface, which is set for the process. So not in a process of the user's. */
static bool may_choose_library(const gt_worker *worker)
{
    if (worker->exchange->ops->by_reference)
        return false;
    if (worker->options->listen)
        return gt__setting(GT_SETTING_TRUST_NETWORK) != 0;
    if (gt__cards_of_host() < 2) /* no other worker that it could be used with */
        return false;
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    return true;
}

/* With whom our engine holds collectives, and how data goes, for people. */
static gt_err choose_league(gt_worker *worker, char way[WAY_SIZE])
{
    const gt_engine_ops *engine = worker->engine->ops;
    gt_exchange_choice choice;
    GT_TRY(gt__exchange_choose(&choice));
    bool named = engine->league && engine->league_name, asked = choice == GT_CHOOSE_NCCL;
    bool chosen = engine->league && choice == GT_CHOOSE_AUTO && (!named || may_choose_library(worker));
    worker->league = chosen || (named && asked) ? engine->league(worker->engine) : 0;
    if (chosen && named && !worker->league)
        gt__log(GT_LOG_STATUS, "collectives without %s: %s", engine->league_name, gt_error_text());
    if (asked && !worker->league)
        return gt__fail(GT_ERR_VALUE, "GT_EXCHANGE=nccl cannot be used: %s",
                        named ? gt_error_text() : "it is for workers of the cuda engine");
    bool shown = named && worker->league;
    snprintf(way, WAY_SIZE, "%s%s%s", worker->exchange->way, shown ? "+" : "", shown ? engine->league_name : "");
    return GT_OK;
}

/* A number for this host, or for the name that GT_HOST gives it. */
static uint64_t own_host(void)
{
    const char *name = getenv("GT_HOST");
    bool named = name && *name;
    uint64_t host = named ? 0xcbf29ce484222325u : gt__host_identity();
    for (; named && *name; name++)
        host = (host ^ (uint8_t)*name) * 0x100000001b3u;
    return (host & ~(uint64_t)GT_HOST_TIERS) | (gt__setting(GT_SETTING_TIERS) ? GT_HOST_TIERS : 0);
}

/* Whether our engine and others read each other's memory; not where GT_EXCHANGE says that UCX does it. */
static bool may_lend(const gt_worker *worker)
{
    gt_exchange_choice choice;
    bool forced = gt__exchange_choose(&choice) == GT_OK && choice == GT_CHOOSE_UCX;
    return worker->engine->ops->group && !(forced && worker->exchange->direct);
}

static gt_err serve(gt_worker *worker, const gt_worker_options *options)
{
    gt_welcome welcome;
    char way[WAY_SIZE];
    const char *listens = worker->exchange->ops->address(worker->exchange);
    const gt_engine_ops *engine = worker->engine->ops;
    uint64_t memory = engine->memory_identity ? engine->memory_identity(worker->engine) : gt__memory_identity();
    GT_TRY(choose_league(worker, way));
    worker->host = own_host();
    worker->group = may_lend(worker) ? engine->group(worker->engine) : 0;
    const gt_worker_hello hello = {
        .name = worker->name,
        .engine = engine->name,
        .named = options->named,
        .exchange = way,
        .listens = listens,
        .number = options->number - 1,
        .stand_in = options->stand_in,
        .memory = memory,
        .group = worker->group,
        .league = worker->league,
        .host = worker->host,
    };
    GT_TRY(gt__hello_send_worker(worker->link, &hello));
    uint64_t deadline = gt__deadline_ns(gt__connect_timeout_ms(options->timeout_ms));
    gt_err err;
    bool again, told = false;
    do {
        int left = gt__remaining_ms(deadline), look_ms = patience_ms(options);
        err = gt__hello_wait(worker->link,
                             look_ms > 0 && left > look_ms ? look_ms
                             : left > 0                    ? left
                             : options->wait               ? ATTEMPT_MS
                                                           : 1,
                             &welcome);
        if (err != GT_OK && stopping(options))
            return GT_OK;
        again = err == GT_ERR_INTERRUPTED || (err == GT_ERR_TIMEOUT && may_wait(options, deadline, 0, &told));
    } while (again);
    size_t answered; /* a refusal stays in the link */
    if (err == GT_ERR_CONNECTION && !gt__link_peek(worker->link, &answered))
        worker->joining = GT_JOINING_CUT;
    GT_TRY(err);
    gt__canceller_limit(worker, welcome.max_op_seconds);
    gt__timing_init(worker);
    GT_TRY(worker->exchange->ops->join(worker->exchange, (int32_t)welcome.number, welcome.life, welcome.key));
    worker->joining = GT_JOINING_DONE;
    if (welcome.number < GT_MAX_PARTIES)
        worker->introduced[welcome.number].life = welcome.life;
    gt__log(GT_LOG_STATUS, "worker %s (%s) joined %s", worker->name, worker->engine->ops->name,
            worker->link->peer);
    gt__card_watch_start(worker);
    err = run_stream(worker, options);
    gt__late_drain(worker);
    gt__timing_flush(worker);
    gt__goodbye_send(worker->link, err == GT_OK ? "" : gt_error_text());
    gt__card_watch_end(worker);
    return err;
}

/* A worker may be started before its server: it tries until the server is up. */
static gt_err connect_patiently(const gt_worker_options *options, gt_link **link)
{
    uint64_t deadline = gt__deadline_ns(gt__connect_timeout_ms(options->timeout_ms));
    char why[256] = ""; /* the last attempt failed that had time enough */
    bool told = false;
    for (int pause_ms = RETRY_MS;; pause_ms = pause_ms < MOST_RETRY_MS ? 2 * pause_ms : pause_ms) {
        int left = gt__remaining_ms(deadline), look_ms = patience_ms(options);
        int attempt_ms = look_ms > 0 && left > ATTEMPT_MS ? ATTEMPT_MS
                         : left > 0                       ? left
                         : options->wait                  ? ATTEMPT_MS
                                                          : 1;
        gt_err err = gt__address_connect(options->address, options->key_file, attempt_ms, link);
        bool again = err == GT_ERR_CONNECTION || err == GT_ERR_TIMEOUT || err == GT_ERR_INTERRUPTED;
        if (err == GT_ERR_TIMEOUT && attempt_ms < ATTEMPT_MS && *why)
            err = gt__fail(GT_ERR_CONNECTION, "%s", why);
        if (!again || stopping(options) || !may_wait(options, deadline, pause_ms, &told))
            return err;
        snprintf(why, sizeof why, "%s", gt_error_text());
        poll(NULL, 0, pause_ms);
    }
}

static gt_err meet_peers(gt_worker *worker, const gt_worker_options *options)
{
    GT_TRY(options->board
               ? gt__exchange_local(options->board, options->stop, &worker->exchange)
               : gt__exchange_mesh(options->address, options->listen, options->stop, &worker->exchange));
    if (worker->exchange->ops->attach)
        worker->exchange->ops->attach(worker->exchange, worker->engine);
    GT_TRY(gt__collective_host(worker->exchange, worker->engine, worker->store, &worker->collective));
    if (worker->engine->ops->lend)
        GT_TRY(gt__collective_lent(worker, &worker->collective));
    if (worker->engine->ops->collective)
        GT_TRY(gt__collective_engine(worker, &worker->collective));
    return gt__collective_tiers(worker, &worker->collective);
}

/* Before the store is freed: other workers may still read its memory. */
static void leave_peers(gt_worker *worker)
{
    if (worker->collective)
        worker->collective->ops->close(worker->collective);
    gt__peers_forget(worker);
    if (!worker->exchange)
        return;
    gt__loans_end(worker);
    worker->exchange->ops->leave(worker->exchange);
    gt__peers_reclaim(worker);
    worker->exchange->ops->close(worker->exchange);
}

void gt__worker_default_name(char *name, size_t size)
{
    char host[48] = "";
    bool in_container = getpid() == 1 && !gethostname(host, sizeof host - 1) && *host;
    if (in_container)
        snprintf(name, size, "worker_%s", host);
    else
        snprintf(name, size, "worker_%d", (int)getpid());
}

/* From joining to the end of the link, which is taken. */
static gt_err run_once(const gt_worker_options *options, gt_link *link, gt_joining *joining)
{
    char name[64];
    if (options->name && *options->name)
        snprintf(name, sizeof name, "%s", options->name);
    else if (options->named)
        snprintf(name, sizeof name, "worker_%d", options->number - 1);
    else
        gt__worker_default_name(name, sizeof name);
    gt_worker worker = {.link = link, .name = name, .options = options};
    gt__canceller_init(&worker);
    gt__canceller_limit(&worker, options->max_op_seconds > 0 ? options->max_op_seconds
                                                             : gt__setting(GT_SETTING_MAX_OP_SECONDS));
    gt_err err = open_engine(options, &worker.cancel.engine, &worker.engine);
    if (options->opened)
        options->opened(options->context, err);
    if (err == GT_OK)
        err = gt__store_new(worker.engine, &worker.store);
    if (err == GT_OK && worker.engine->ops->asynchronous)
        gt__store_set_late(worker.store, &worker);
    if (err == GT_OK && !worker.link)
        err = connect_patiently(options, &worker.link);
    if (err == GT_OK)
        err = meet_peers(&worker, options);
    if (err == GT_OK)
        err = serve(&worker, options);
    gt__stand_ins_end(&worker);
    gt__deferred_free(&worker); /* before the paths: runs that are put aside hold theirs */
    gt__worker_paths_free(&worker);
    leave_peers(&worker);
    gt__pins_free(&worker);
    /* The store before the link: buffers may lie in segments that the link maps. */
    gt__store_free(&worker.store);
    gt__late_free(&worker.late);
    if (worker.link)
        gt__link_close(worker.link);
    if (worker.engine)
        worker.engine->ops->close(worker.engine);
    *joining = worker.joining;
    return err;
}

int gt__threads_per_worker(int workers)
{
    if (gt__setting(GT_SETTING_NUM_THREADS) > 0 || getenv("OPENBLAS_NUM_THREADS") || getenv("OMP_NUM_THREADS"))
        return 0; /* the engine reads them */
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return cores > workers ? cores / workers : 1;
}

gt_err gt__worker_run(const gt_worker_options *options, gt_link *link)
{
    bool told = false, ours = link || options->stand_in; /* given: a server of this process */
    gt__log_init();
    int timeout_ms = gt__connect_timeout_ms(options->timeout_ms);
    for (uint64_t deadline = gt__deadline_ns(timeout_ms);;) {
        gt_joining joining;
        gt_err err = run_once(options, link, &joining);
        if (err != GT_ERR_CONNECTION || joining == GT_JOINING_FAILED || ours || stopping(options))
            return err;
        if (joining == GT_JOINING_DONE) {
            gt__log_warning(
                "worker: the server at %s is gone: %s; its tensors are lost. Waiting %.3g s%s for it to come back",
                options->address, gt_error_text(), timeout_ms / 1e3, options->wait ? " and longer" : "");
            deadline = gt__deadline_ns(timeout_ms);
            told = false;
        } else if (!may_wait(options, deadline, RETRY_MS, &told))
            return err;
        else
            poll(NULL, 0, RETRY_MS);
    }
}
