/* reload.c: see reload.h. Place in the flow: loop.c -> here -> quota.c. */
#include "dispatcher/reload.h"

#include "core/log.h"
#include "dispatcher/session.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"

static gt_err reload_config(gt_dispatcher *dispatcher)
{
    gt_config fresh = {0};
    if (!dispatcher->config_file)
        return GT_OK;
    GT_TRY(gt__config_load(&fresh, dispatcher->config_file));
    gt__config_free(&dispatcher->config);
    dispatcher->config = fresh;
    for (gt_peer *peer = dispatcher->peers, *next; peer; peer = next) {
        next = peer->next;
        if (peer->session && gt__signals_reconsider(peer->session) != GT_OK)
            gt__peer_end(peer, "no memory for the signals of the new configuration");
    }
    return gt__quota_configure(dispatcher);
}

/* Peers whose keys are not in the list any more, or are there under another name, are disconnected. */
static gt_err reload_keys(gt_dispatcher *dispatcher)
{
    if (!dispatcher->allowed)
        return GT_OK;
    GT_TRY(gt__allowed_reread(dispatcher->allowed, dispatcher->allowed_file));
    for (gt_peer *peer = dispatcher->peers, *next; peer; peer = next) {
        next = peer->next;
        bool worker = peer->link->trust == GT_TRUST_WORKER, client = peer->link->trust == GT_TRUST_KEY;
        if ((worker || client) &&
            !gt__allowed_knows(dispatcher->allowed, peer->link->key, peer->link->user, worker))
            gt__peer_end(peer, "this key is not allowed any more");
    }
    return GT_OK;
}

void gt__reload(gt_dispatcher *dispatcher)
{
    gt_err config = reload_config(dispatcher);
    if (config != GT_OK)
        gt__log_error("the config is not read again: %s", gt_error_text());
    gt_err keys = reload_keys(dispatcher);
    if (keys != GT_OK)
        gt__log_error("the list of keys is not read again: %s", gt_error_text());
    if (config == GT_OK && keys == GT_OK)
        gt__log(GT_LOG_STATUS, "the server has read its files again");
}
