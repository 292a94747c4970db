/*
 * mesh_link.c: messages on one link of the mesh, written and read piece by piece by the mesh's thread.
 *
 * Large messages go through shared segments where the link has them: one copy in, and the receiver reads it there.
 * A segment is used again once the receiver is done. See exchange_mesh.c for the records.
 */
#include <stdlib.h>
#include <string.h>

#include "worker/peers/exchange_mesh.h"

enum {
    SEGMENT_FROM = 64 << 10, /* bytes: smaller ones go in the stream */
    SEGMENT_SMALLEST = 1 << 20,
    MOST_SEGMENTS = 64, /* of a link; beyond, data goes in the stream */
    BUDGET = 256,       /* records to read, and to write, before the next link's turn */
};

#define MESSAGE_MAX_BYTES ((uint64_t)1 << 46)

/* ---- writing ----------------------------------------------------------------------------------------------- */

static void message_sent(gt_mesh *mesh, gt_message *message)
{
    pthread_mutex_lock(&mesh->mutex);
    gt__mesh_return(mesh, message);
    pthread_mutex_unlock(&mesh->mutex);
}

/* With the mutex: an exposed message can go only by a lane. If this link has none, another may have one; if none has any more, or our
 * thread cannot use the memory, it becomes a failure. True: it may go by this link. */
static bool may_go(gt_mesh *mesh, const gt_mesh_link *end, gt_message *message)
{
    bool enters = !message->exposed || gt__mesh_lane_enter(mesh);
    if (!message->exposed || (enters && gt__mesh_lane_takes(mesh, end, message)))
        return true;
    for (const gt_mesh_link *other = mesh->links; other && enters; other = other->next)
        if (other != end && other->worker == end->worker && other->life == end->life && !other->link->gone &&
            gt__mesh_lane_takes(mesh, other, message))
            return false;
    message->exposed = false;
    message->err = GT_ERR_CONNECTION;
    message->bytes = 0;
    return true;
}

static gt_message *next_message(gt_mesh *mesh, gt_mesh_link *end)
{
    gt_message *message = NULL;
    pthread_mutex_lock(&mesh->mutex);
    gt_mesh_peer *peer = end->worker >= 0 && end->worker < mesh->peer_count ? mesh->peers[end->worker] : NULL;
    if (peer && gt__mesh_leads_to(end, peer) && peer->queue && may_go(mesh, end, peer->queue)) {
        message = peer->queue;
        peer->queue = message->next;
        if (!peer->queue)
            peer->last = &peer->queue;
    }
    pthread_mutex_unlock(&mesh->mutex);
    return message;
}

/* A segment with the message's bytes, shared with the peer; 0: send them in the stream. */
static uint64_t fill_segment(gt_mesh_link *end, const gt_message *message)
{
    gt_link *link = end->link;
    unsigned count = 0;
    gt_mesh_segment *use = NULL;
    if (!link->ops->share || message->bytes < SEGMENT_FROM)
        return 0;
    for (gt_mesh_segment *s = end->segments; s && !use; s = s->next, count++)
        if (s->segment->bytes >= message->bytes && s->segment->bytes / 2 <= message->bytes + SEGMENT_SMALLEST &&
            !gt__segment_busy(s->segment))
            use = s;
    if (!use) {
        size_t bytes = message->bytes < SEGMENT_SMALLEST ? SEGMENT_SMALLEST : message->bytes;
        if (count >= MOST_SEGMENTS || !(use = calloc(1, sizeof *use)))
            return 0;
        if (gt__segment_new(bytes, &use->segment) != GT_OK || link->ops->share(link, use->segment) != GT_OK) {
            gt__segment_release(use->segment);
            free(use);
            return 0;
        }
        use->next = end->segments;
        end->segments = use;
    }
    memcpy(use->segment->data, message->data, message->bytes);
    gt__segment_give(use->segment);
    return use->segment->id;
}

static bool write_header(gt_mesh_link *end, const gt_message *message)
{
    gt_slot *out = gt__link_reserve(end->link, 1);
    if (!out)
        return false;
    uint64_t segment = fill_segment(end, message);
    out->ins = (gt_instruction){
        .op = GT_OP_send, .result = message->key.tag, .operand = {message->key.number, message->bytes}};
    out->ins.imm[0].i = message->err;
    out->ins.imm[1].u = segment;
    gt__link_commit(end->link, 1);
    end->sent = segment ? message->bytes : 0;
    return true;
}

static bool write_bytes(gt_mesh_link *end)
{
    const gt_message *message = end->sending;
    size_t left = message->bytes - end->sent, piece = left < GT_MAX_CHUNK ? left : GT_MAX_CHUNK;
    unsigned tail = gt__slots_for(piece);
    gt_slot *out = gt__link_reserve(end->link, 1 + tail);
    if (!out)
        return false;
    out->ins = (gt_instruction){.op = GT_OP_data, .tail = (uint16_t)tail};
    out->ins.imm[0].u = end->sent;
    out->ins.imm[1].u = piece;
    memcpy(out + 1, (const uint8_t *)message->data + end->sent, piece);
    gt__link_commit(end->link, 1 + tail);
    end->sent += piece;
    return true;
}

bool gt__mesh_write(gt_mesh *mesh, gt_mesh_link *end)
{
    bool progress = false;
    for (unsigned k = 0; k < BUDGET && !end->link->gone; k++) {
        if (!end->sending) {
            gt_message *message = next_message(mesh, end);
            if (!message)
                return progress;
            if (gt__mesh_lane_takes(mesh, end, message)) {
                atomic_fetch_add_explicit(&mesh->by_lane, 1, memory_order_relaxed);
                mesh->lane_ops->send(end->lane, message);
                progress = true;
                continue;
            }
            end->sending = message;
            end->sent = SIZE_MAX; /* its header is not written yet */
        }
        if (end->sent == SIZE_MAX ? !write_header(end, end->sending)
                                  : end->sent < end->sending->bytes && !write_bytes(end))
            return progress;
        progress = true;
        if (end->link->unflushed >= end->link->batch)
            gt__link_flush(end->link);
        if (end->sent != SIZE_MAX && end->sent == end->sending->bytes) {
            message_sent(mesh, end->sending);
            end->sending = NULL;
        }
    }
    return progress;
}

/* ---- reading ----------------------------------------------------------------------------------------------- */

void gt__mesh_arrived(gt_mesh *mesh, gt_message *message)
{
    pthread_mutex_lock(&mesh->mutex);
    gt__mailbox_put(&mesh->arrived, message);
    gt__mesh_news(mesh);
    pthread_mutex_unlock(&mesh->mutex);
}

/* Our own stream may introduce that worker much later, behind earlier records. So the key is enough to accept it. */
static const char *read_hello(gt_mesh *mesh, gt_mesh_link *end, const gt_instruction *ins)
{
    pthread_mutex_lock(&mesh->mutex);
    bool knows = ins->op == GT_OP_hello && ins->imm[1].u == mesh->key && ins->result <= INT32_MAX;
    gt_mesh_peer *peer = knows ? gt__mesh_peer(mesh, (int32_t)ins->result) : NULL;
    bool lost = peer && gt__mesh_lost(peer, ins->operand[0]);
    if (peer && !lost) {
        end->worker = (int32_t)ins->result;
        end->life = ins->operand[0];
        if (end->life >= peer->newest) {
            peer->newest = end->life;
            *peer->gone = 0;
            gt__mesh_news(mesh); /* a wait for its predecessor ends */
        }
    }
    pthread_mutex_unlock(&mesh->mutex);
    return !peer  ? "it is not a worker of this server"
           : lost ? "a link with it was lost before, and what was in it"
                  : NULL;
}

static bool has_joined(gt_mesh *mesh)
{
    pthread_mutex_lock(&mesh->mutex);
    bool joined = mesh->joined;
    pthread_mutex_unlock(&mesh->mutex);
    return joined;
}

/* A new message; its bytes follow it, or are in the segment. NULL: out of memory. */
static gt_message *message_with(const gt_message *content, gt_segment *segment)
{
    size_t room = segment ? 0 : content->bytes;
    gt_message *message = malloc(sizeof *message + room);
    if (!message)
        return NULL;
    *message = *content;
    message->data = segment ? (const void *)segment->data : message + 1;
    message->owner = segment ? gt__segment_retain(segment) : NULL;
    return message;
}

/* Out of memory: the receiver gets a failure in place of the message, and its bytes are dropped. */
static gt_message *message_without(const gt_message *content)
{
    gt_message *message = malloc(sizeof *message);
    if (message)
        *message = (gt_message){.key = content->key, .err = GT_ERR_MEMORY};
    return message;
}

static const char *read_header(gt_mesh_link *end, const gt_instruction *ins)
{
    gt_link *link = end->link;
    gt_segment *segment = NULL;
    gt_message content = {.key = {.from = end->worker, .tag = ins->result, .number = (uint32_t)ins->operand[0]},
                          .err = gt__error_kind(ins->imm[0].i),
                          .bytes = ins->operand[1]};
    if (end->arriving || content.bytes > MESSAGE_MAX_BYTES)
        return "a message inside another, or too large a one";
    bool mapped = true;
    if (ins->imm[1].u) {
        segment = link->ops->segment ? link->ops->segment(link, ins->imm[1].u) : NULL;
        mapped = segment && gt__segment_map(segment) == GT_OK;
        if (!segment || (mapped && segment->bytes < content.bytes))
            return "a message in a segment that is not there";
        if (mapped)
            gt__segment_busy(segment); /* the sender wrote the data before it set the word */
    }
    end->arriving = mapped ? message_with(&content, segment) : NULL;
    end->dropping = !end->arriving;
    if (end->dropping && segment)
        gt__segment_done(segment);
    if (end->dropping && !(end->arriving = message_without(&content)))
        return "no memory for a message";
    end->expected = segment ? 0 : content.bytes;
    end->arrived = 0;
    return NULL;
}

static const char *read_bytes(gt_mesh_link *end, const gt_slot *record)
{
    uint64_t bytes = record->ins.imm[1].u;
    if (!end->arriving || record->ins.imm[0].u != end->arrived || bytes > end->expected - end->arrived)
        return "pieces of a message out of order";
    if (!end->dropping)
        memcpy((uint8_t *)(end->arriving + 1) + end->arrived, record + 1, bytes);
    end->arrived += bytes;
    return NULL;
}

static const char *read_record(gt_mesh *mesh, gt_mesh_link *end, const gt_slot *record)
{
    const char *wrong;
    if (end->worker < 0) {
        if (!(wrong = read_hello(mesh, end, &record->ins)))
            gt__mesh_lane_offer(mesh, end);
        return wrong;
    }
    if (record->ins.op == GT_OP_hello)
        return NULL; /* of a worker that connected at the same time */
    if (record->ins.op == GT_OP_data && record->ins.operand[0] == GT_MESH_OFFER)
        return gt__mesh_lane_offered(mesh, end, record);
    if (record->ins.op == GT_OP_send)
        wrong = read_header(end, &record->ins);
    else
        wrong =
            record->ins.op == GT_OP_data ? read_bytes(end, record) : "a record that has no place between workers";
    if (!wrong && end->arriving && end->arrived == end->expected) {
        gt_message *message = end->arriving;
        end->arriving = NULL;
        gt__mesh_arrived(mesh, message);
    }
    return wrong;
}

bool gt__mesh_read(gt_mesh *mesh, gt_mesh_link *end)
{
    gt_slot record[1 + GT_MAX_TAIL];
    size_t available;
    const gt_slot *slots;
    if (end->worker < 0 && !has_joined(mesh))
        return false; /* a hello is read once we have the key: other workers may connect before we have joined */
    for (unsigned k = 0; k < BUDGET; k++) {
        if (!(slots = gt__link_peek(end->link, &available)))
            return k > 0;
        unsigned length;
        record[0] = slots[0];
        if (gt__instruction_check(record, available, &length) != GT_OK) {
            gt__link_kill(end->link, "it sent a bad record");
            return true;
        }
        memcpy(record + 1, slots + 1, (length - 1) * sizeof *record);
        gt__link_consume(end->link, length);
        const char *wrong = read_record(mesh, end, record);
        if (wrong) {
            gt__link_kill(end->link, "%s", wrong);
            return true;
        }
    }
    return true;
}

void gt__mesh_link_free(gt_mesh *mesh, gt_mesh_link *end)
{
    if (end->sending)
        message_sent(mesh, end->sending);
    if (end->arriving) {
        if (end->arriving->owner)
            gt__segment_release(end->arriving->owner);
        free(end->arriving);
    }
    if (end->lane && mesh->lane)
        mesh->lane_ops->disconnect(end->lane);
    gt__link_close(end->link);
    while (end->segments) {
        gt_mesh_segment *next = end->segments->next;
        gt__segment_release(end->segments->segment);
        free(end->segments);
        end->segments = next;
    }
    free(end);
}
