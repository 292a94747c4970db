/* reload.c: see reload.h. Place in the flow: loop.c -> here -> quota.c. */
#include "dispatcher/reload.h"

#include <stdio.h>

#include "core/log.h"
#include "dispatcher/live/drain.h"
#include "dispatcher/observe/monitor.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/session.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"

static void reconsider(gt_dispatcher *dispatcher)
{
    for (gt_peer *peer = dispatcher->peers, *next; peer; peer = next) {
        next = peer->next;
        if (peer->session && gt__signals_reconsider(peer->session) != GT_OK)
            gt__peer_end(peer, "no memory for the signals of the new configuration");
    }
}

static gt_err reload_config(gt_dispatcher *dispatcher)
{
    gt_config fresh = {0}, before = dispatcher->config;
    if (!dispatcher->config_file)
        return GT_OK;
    GT_TRY(gt__config_load(&fresh, dispatcher->config_file));
    dispatcher->config = fresh;
    reconsider(dispatcher);
    gt_err err = GT_OK;
    for (const gt_peer *peer = dispatcher->peers; peer && err == GT_OK; peer = peer->next)
        err = peer->session ? gt__signals_check(peer->session) : GT_OK;
    if (err != GT_OK) {
        dispatcher->config = before;
        reconsider(dispatcher);
        gt__config_free(&fresh);
        return err;
    }
    gt__config_free(&before);
    for (const gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        if (peer->session)
            peer->session->moving.resharded = dispatcher->changing = true;
    return gt__quota_configure(dispatcher);
}

/* Whether the key of a peer may still be used for what it is. What a peer of the process before was is known when it resumes. */
static bool is_allowed(const gt_dispatcher *dispatcher, const gt_link *link)
{
    bool client = link->trust != GT_TRUST_WORKER, worker = link->trust != GT_TRUST_KEY;
    return !*link->key || (client && gt__allowed_knows(dispatcher->allowed, link->key, link->user, false)) ||
           (worker && gt__allowed_knows(dispatcher->allowed, link->key, link->user, true));
}

/* Peers whose keys are not in the list any more, or are there under another name, are disconnected. */
static gt_err reload_keys(gt_dispatcher *dispatcher)
{
    if (!dispatcher->allowed)
        return GT_OK;
    GT_TRY(gt__allowed_reread(dispatcher->allowed, dispatcher->allowed_file));
    for (gt_peer *peer = dispatcher->peers, *next; peer; peer = next) {
        next = peer->next;
        if (!is_allowed(dispatcher, peer->link))
            gt__peer_end(peer, "this key is not allowed any more");
    }
    return GT_OK;
}

/* Of two failures, the first is told to those who ordered it. */
static void report(const char *what, char *failure, size_t size)
{
    char line[512];
    snprintf(line, sizeof line, "the %s is not read again: %s", what, gt_error_text());
    gt__log_error("%s", line);
    if (!*failure)
        snprintf(failure, size, "%s", line);
}

/* What its signals are is known again when its journal is placed. */
static bool one_recovers(const gt_dispatcher *dispatcher)
{
    for (const gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        if (peer->session && gt__recover_active(peer->session))
            return true;
    return false;
}

static void read_files(gt_dispatcher *dispatcher)
{
    char failure[512] = "";
    gt_err config = reload_config(dispatcher);
    if (config != GT_OK)
        report("config", failure, sizeof failure);
    gt_err keys = reload_keys(dispatcher);
    if (keys != GT_OK)
        report("list of keys", failure, sizeof failure);
    if (config == GT_OK && keys == GT_OK)
        gt__log(GT_LOG_STATUS, "the server has read its files again");
    dispatcher->resharded = (gt_moved){0};
    if (dispatcher->changing) /* at once, where that is possible: those who ordered it can count on it */
        gt__live_turn(dispatcher);
    gt__monitors_reloaded(dispatcher, *failure ? failure : NULL);
}

void gt__reload(gt_dispatcher *dispatcher)
{
    bool waited = dispatcher->reload_waits;
    if (!one_recovers(dispatcher)) {
        dispatcher->reload_waits = false;
        read_files(dispatcher);
        return;
    }
    dispatcher->reload_waits = dispatcher->changing = true;
    if (!waited)
        gt__log(GT_LOG_STATUS, "the server reads its config again when all programs are recovered");
    if (reload_keys(dispatcher) != GT_OK)
        gt__log_error("the list of keys is not read again: %s", gt_error_text());
}

void gt__reload_later(gt_dispatcher *dispatcher)
{
    dispatcher->reload_waits = one_recovers(dispatcher);
    if (!dispatcher->reload_waits)
        read_files(dispatcher);
}
