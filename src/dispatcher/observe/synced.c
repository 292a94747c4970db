/* synced.c: see synced.h. Place in the flow: workers.c -> here -> answers.c. */
#include "dispatcher/observe/synced.h"

#include "dispatcher/answers.h"
#include "dispatcher/session.h"
#include "dispatcher/state.h"
#include "dispatcher/workers.h"

enum { PATIENCE_MS = 2000 }; /* with workers that do not send their timings */

bool gt__synced_hold(gt_session *session, const gt_dispatch_worker *home, const gt_slot *answer)
{
    gt_dispatcher *dispatcher = session->dispatcher;
    if (!dispatcher->monitors_only || !dispatcher->logs || answer->ins.tail || session->watched.held_by)
        return false;
    session->watched.held = *answer;
    session->watched.held_by = gt__deadline_ns(PATIENCE_MS);
    dispatcher->held++;
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        gt_dispatch_worker *worker = dispatcher->workers[index];
        if (worker != home) /* that one sends its timings before its answer */
            worker->watched.awaited = worker->records;
    }
    return true;
}

void gt__synced_forget(gt_session *session)
{
    session->dispatcher->held -= session->watched.held_by != 0;
    session->watched.held_by = 0;
}

static bool is_complete(const gt_dispatcher *dispatcher)
{
    for (int32_t index = 0; index < dispatcher->worker_count; index++) {
        const gt_dispatch_worker *worker = dispatcher->workers[index];
        if (worker->peer && worker->observed && gt__observer_awaits(worker))
            return false;
    }
    return true;
}

void gt__synced_release(gt_dispatcher *dispatcher)
{
    bool complete = is_complete(dispatcher), written = false;
    for (gt_peer *peer = dispatcher->peers; peer; peer = peer->next) {
        gt_session *session = peer->session;
        if (!session || !session->watched.held_by || (!complete && gt__remaining_ms(session->watched.held_by)))
            continue;
        if (!written)
            gt__observer_write(dispatcher);
        written = true;
        gt__synced_forget(session);
        gt__answer_send(session, &session->watched.held);
    }
}
