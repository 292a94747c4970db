/* relays.c: see relays.h. Place in the flow: output.c and place.c -> here -> the worker's link. */
#include "dispatcher/relays.h"

#include <stdlib.h>
#include <string.h>

#include "dispatcher/session.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

enum { MOST_RELAYS = 1024 }; /* segments of one client: its worker's link has a limit for all clients together */

static gt_relay *relay_find(const gt_session *session, uint64_t client_id)
{
    for (gt_relay *relay = session->relays.first; relay; relay = relay->next)
        if (relay->client_id == client_id)
            return relay;
    return NULL;
}

bool gt__relay_name(const gt_session *session, uint64_t *segment)
{
    const gt_relay *relay = relay_find(session, *segment); /* made just before: gt__relay_share */
    *segment = relay->id;
    return relay->shared_with == session->home;
}

static gt_segment *clients_segment(const gt_session *session, uint64_t client_id)
{
    return session->link->ops->segment ? session->link->ops->segment(session->link, client_id) : NULL;
}

void gt__relay_unused(gt_session *session, uint64_t client_id)
{
    gt_segment *segment = clients_segment(session, client_id);
    if (segment)
        gt__segment_done(segment);
}

gt_segment *gt__relay_segment(const gt_session *session, const gt_slot *upload)
{
    uint64_t bytes = upload->ins.imm[0].u;
    gt_segment *segment = clients_segment(session, upload->ins.imm[1].u);
    return segment && bytes && bytes <= segment->bytes ? segment : NULL; /* else the worker will refuse it */
}

static uint64_t piece_bytes(const gt_slot *upload, uint64_t offset)
{
    uint64_t left = upload->ins.imm[0].u - offset;
    return left < GT_MAX_CHUNK ? left : GT_MAX_CHUNK;
}

unsigned gt__relay_piece_slots(const gt_slot *upload, uint64_t offset)
{
    return (offset ? 1 : 2) + gt__slots_for(piece_bytes(upload, offset));
}

uint64_t gt__relay_piece(const gt_segment *segment, const gt_slot *upload, uint64_t offset, gt_slot *record)
{
    uint64_t bytes = piece_bytes(upload, offset);
    unsigned head = offset ? 1 : 2;
    if (offset) {
        record->ins = (gt_instruction){.op = GT_OP_data, .operand = {upload->ins.result}};
        record->ins.imm[0].u = offset;
        record->ins.imm[1].u = bytes;
    } else {
        memcpy(record, upload, 2 * sizeof *record);
        record->ins.imm[1].u = 0;
    }
    record->ins.tail = (uint16_t)(gt__relay_piece_slots(upload, offset) - 1);
    if (!gt__segment_read(segment, offset, record + head, bytes))
        return 0;
    gt__slots_pad(record + head, bytes);
    return offset + bytes;
}

static gt_err relay_new(gt_session *session, uint64_t client_id, gt_relay **out)
{
    if (!clients_segment(session, client_id))
        return gt__fail(GT_ERR_PROTOCOL, "segment %llu was never shared", (unsigned long long)client_id);
    unsigned count = 0;
    for (const gt_relay *other = session->relays.first; other; other = other->next)
        count++;
    if (count >= MOST_RELAYS)
        return gt__fail(GT_ERR_PROTOCOL, "more than %d segments at a time", MOST_RELAYS);
    gt_relay *relay = calloc(1, sizeof *relay);
    if (!relay)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    relay->client_id = client_id;
    relay->next = session->relays.first;
    session->relays.first = relay;
    *out = relay;
    return GT_OK;
}

static void list(gt_relay *relay, gt_dispatch_worker *worker)
{
    relay->shared_with = worker;
    relay->orphaned = false;
    relay->newer = NULL;
    relay->older = worker->relays.newest;
    *(relay->older ? &relay->older->newer : &worker->relays.oldest) = relay;
    worker->relays.newest = relay;
}

static void unlist(gt_relay *relay)
{
    gt_relays_known *known = &relay->shared_with->relays;
    *(relay->older ? &relay->older->newer : &known->oldest) = relay->newer;
    *(relay->newer ? &relay->newer->older : &known->newest) = relay->older;
    relay->shared_with = NULL;
}

/* Records in the worker's stream that name it come before the one that has it forgotten. */
static void take_back(gt_relay *relay)
{
    gt_dispatch_worker *worker = relay->shared_with;
    gt_instruction forget = {.op = GT_OP_forget};
    forget.imm[0].u = relay->id;
    gt__worker_tell(worker, &forget);
    worker->link->ops->forget(worker->link, relay->id);
    unlist(relay);
}

/* The number is new each time: descriptors overtake the records that have an older one forgotten. */
static gt_err share_as(gt_relay *relay, const gt_segment *segment, gt_dispatch_worker *worker, uint64_t id)
{
    gt_segment renamed = *segment;
    renamed.id = id;
    gt_err err = worker->link->ops->share(worker->link, &renamed);
    if (err == GT_ERR_MEMORY && worker->relays.oldest) { /* its link is full */
        take_back(worker->relays.oldest);
        err = worker->link->ops->share(worker->link, &renamed);
    }
    if (err == GT_OK) {
        relay->id = id;
        list(relay, worker);
    }
    return err;
}

gt_err gt__relay_share(gt_session *session, uint64_t client_id, bool *shared)
{
    gt_dispatch_worker *worker = session->home;
    gt_relay *relay = relay_find(session, client_id);
    *shared = true;
    if (!relay)
        GT_TRY(relay_new(session, client_id, &relay));
    if (!worker || relay->shared_with == worker)
        return GT_OK;
    const gt_segment *segment = clients_segment(session, client_id);
    if (!segment)
        return gt__fail(GT_ERR_PROTOCOL, "segment %llu is gone", (unsigned long long)client_id);
    if (!worker->link->ops->share)
        return GT_OK; /* the client does not know yet that its worker was replaced by one without segments; see place.c */
    if (relay->shared_with)
        take_back(relay); /* an earlier home */
    gt_err err = share_as(relay, segment, worker, session->dispatcher->next_segment++);
    *shared = err == GT_OK;
    /* A worker that is gone will be removed in a moment; the session goes on. */
    return err == GT_ERR_TIMEOUT || err == GT_ERR_CONNECTION || worker->link->gone ? GT_OK : err;
}

void gt__relays_release_orphans(gt_session *session)
{
    session->relays.orphans = false;
    for (gt_relay *relay = session->relays.first; relay; relay = relay->next)
        if (relay->orphaned) {
            relay->orphaned = false;
            gt__relay_unused(session, relay->client_id);
        }
}

static void relay_free(gt_relay *relay)
{
    if (relay->shared_with && relay->shared_with->peer)
        take_back(relay);
    else if (relay->shared_with)
        unlist(relay);
    free(relay);
}

void gt__relay_forget(gt_session *session, uint64_t client_id)
{
    for (gt_relay **where = &session->relays.first; *where; where = &(*where)->next)
        if ((*where)->client_id == client_id) {
            gt_relay *relay = *where;
            *where = relay->next;
            relay_free(relay);
            break;
        }
    if (session->link->ops->forget)
        session->link->ops->forget(session->link, client_id);
}

void gt__relays_take_back(gt_session *session, const gt_dispatch_worker *worker)
{
    for (gt_relay *relay = session->relays.first; relay; relay = relay->next)
        if (relay->shared_with == worker)
            take_back(relay);
}

void gt__relays_lose_worker(gt_session *session, const gt_dispatch_worker *worker)
{
    for (gt_relay *relay = session->relays.first; relay; relay = relay->next)
        if (relay->shared_with == worker) {
            unlist(relay);
            relay->orphaned = session->relays.orphans = true;
        }
}

void gt__relays_free(gt_session *session)
{
    while (session->relays.first) {
        gt_relay *next = session->relays.first->next;
        relay_free(session->relays.first);
        session->relays.first = next;
    }
}
