/* suspect.c: see suspect.h. Place in the flow: recover.c -> here; workers.c passes the answers. */
#include "dispatcher/recover/suspect.h"

#include "dispatcher/live/evacuate.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

enum {
    SUSPICIOUS = 2,    /* attempts */
    PATIENCE_MS = 5000 /* that others wait for one suspect: its worker may have been stopped */
};

bool gt__suspect_may_begin(const gt_session *session)
{
    const gt_dispatcher *dispatcher = session->dispatcher;
    const gt_session *suspect = dispatcher->recovery.suspect;
    return session->recovery->attempts < SUSPICIOUS || !suspect || suspect == session ||
           !gt__remaining_ms(dispatcher->recovery.suspect_until_ns);
}

void gt__suspect_begin(gt_session *session)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    if (session->recovery->attempts < SUSPICIOUS)
        return;
    dispatcher->recovery.suspect = session;
    dispatcher->recovery.suspect_until_ns = gt__deadline_ns(PATIENCE_MS);
}

void gt__suspect_end(gt_session *session)
{
    if (session->dispatcher->recovery.suspect == session)
        session->dispatcher->recovery.suspect = NULL;
}

/* False: out of memory. */
static bool ask(gt_session *session, gt_dispatch_worker *worker)
{
    gt_slot *out = gt__worker_reserve(worker, 1);
    gt_pending pending = {.session = session, .op = GT_OP_sync, .clears = session->recovery->asked};
    gt_instruction question = {.op = GT_OP_sync};
    if (!out || gt__pendings_add(&worker->pendings, &pending, &question) != GT_OK)
        return false;
    out->ins = question;
    gt__worker_put(worker, 1);
    session->recovery->unexecuted++;
    return true;
}

void gt__suspect_ask(gt_session *session)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    gt_recovery *recovery = session->recovery;
    recovery->asked = dispatcher->next_tag++;
    recovery->unexecuted = 0;
    bool asked = true;
    for (int32_t index = 0; index < dispatcher->worker_count && asked; index++)
        if (dispatcher->workers[index]->peer && gt__session_uses(session, dispatcher->workers[index]))
            asked = ask(session, dispatcher->workers[index]);
    if (!asked) /* the attempt counts */
        recovery->asked = 0;
    if (!recovery->asked || !recovery->unexecuted)
        gt__suspect_end(session);
}

void gt__suspect_answered(const gt_pending *asked, bool executed)
{
    gt_session *session = asked->session;
    gt_recovery *recovery = session ? session->recovery : NULL;
    if (!recovery || recovery->asked != asked->clears)
        return;
    if (!executed)
        recovery->asked = 0;
    else if (--recovery->unexecuted)
        return;
    else
        recovery->attempts = 0;
    gt__suspect_end(session);
}
