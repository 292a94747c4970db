/*
 * link/zmq.c: slots in ZeroMQ frames, with credit: the part of a ZeroMQ link that is the same at both ends.
 *
 * Writing fills a frame, which is sent when it is full or flushed. Reading returns windows inside the received messages.
 * Flow control is by credit: a side may have GT_ZMQ_WINDOW slots in flight, and gets them back in quarters as the peer
 * consumes them, so a peer that stops reading stops its sender and holds a bounded amount of memory. ZeroMQ's own limit
 * counts messages, not bytes, and does not report which peer hit it; it is switched off for sending. So that a peer cannot
 * return credit for slots that it never read, which would pile up in ZeroMQ, credit comes with a proof: the sum of random
 * numbers that are sent among the slots.
 *
 * Read link.h first, then this, then link/zmq_dealer.c and link/zmq_router.c.
 */
#include "link/zmq.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "link/address.h"
#include "link/zmq_guard.h"
#include "link/zmq_resume.h"
#include "core/settings.h"

#define CONTROL_MAGIC 0x7167747au

enum { FIRST_QUEUE = 4, FIRST_FRAME = 16 };

_Static_assert(GT_ZMQ_FRAME_SLOTS % FIRST_FRAME == 0 && !(GT_ZMQ_FRAME_SLOTS & (GT_ZMQ_FRAME_SLOTS - 1)),
               "a frame grows by doubling");
_Static_assert(sizeof(gt_zmq_control) % sizeof(gt_slot) != 0, "a control frame is not an array of slots");

/* ---- controls ----------------------------------------------------------------------------------------------- */

gt_zmq_control gt__zmq_control_of(gt_zmq_kind kind, uint64_t value)
{
    return (gt_zmq_control){.magic = CONTROL_MAGIC, .kind = (uint32_t)kind, .value = value};
}

bool gt__zmq_send_control(gt_zmq_link *link, gt_zmq_kind kind, uint64_t value)
{
    gt_zmq_control control = gt__zmq_control_of(kind, value);
    zmq_msg_t frame;
    if (link->cut || zmq_msg_init_size(&frame, sizeof control))
        return false;
    memcpy(zmq_msg_data(&frame), &control, sizeof control);
    return link->side->send(link, &frame);
}

bool gt__zmq_control(zmq_msg_t *frame, gt_zmq_control *control)
{
    if (zmq_msg_size(frame) != sizeof *control)
        return false;
    memcpy(control, zmq_msg_data(frame), sizeof *control);
    return control->magic == CONTROL_MAGIC;
}

/* The peer shows the sum of the receipts that it got: it has received all that was sent before the last of them. False: no
 * such sum was sent. */
static bool confirm(gt_zmq_link *link, uint32_t proof)
{
    if (proof == link->proof)
        return true;
    for (unsigned k = 0; k < link->receipt_count; k++)
        if (link->receipts[k].proof == proof) {
            link->proven = link->receipts[k].sent;
            link->proof = proof;
            link->receipt_count -= k + 1;
            memmove(link->receipts, link->receipts + k + 1, link->receipt_count * sizeof link->receipts[0]);
            return true;
        }
    return false;
}

static void credit_received(gt_zmq_link *link, uint64_t value)
{
    uint32_t slots = (uint32_t)value;
    bool proven = slots <= GT_ZMQ_WINDOW - link->credit && confirm(link, (uint32_t)(value >> 32));
    /* A receipt follows each quarter, by a frame at most. */
    if (!proven || link->returned + slots > link->proven + GT_ZMQ_WINDOW / 2) {
        gt__link_kill(&link->base, "protocol error: %s returned more credit than it received slots",
                      link->base.peer);
        return;
    }
    link->credit += slots;
    link->returned += slots;
    if (link->keeps)
        gt__zmq_keep_less(link);
}

static void control_received(gt_zmq_link *link, const gt_zmq_control *control)
{
    switch (control->kind) {
    case GT_ZMQ_ACCEPT:
        link->accepted = true;
        link->journal = control->value & GT_ZMQ_JOURNAL;
        link->life = control->value >> GT_ZMQ_LIFE_SHIFT;
        break;
    case GT_ZMQ_CREDIT:
        credit_received(link, control->value);
        break;
    case GT_ZMQ_RECEIPT:
        link->got += (uint32_t)control->value;
        break;
    case GT_ZMQ_URGENT:
        if (link->urgent_count < GT_LINK_URGENT)
            link->urgent[(link->urgent_first + link->urgent_count++) % GT_LINK_URGENT] = control->value;
        break;
    case GT_ZMQ_PAGE:
        link->page_token = control->value;
        break;
    case GT_ZMQ_UNKNOWN:
        gt__link_lose(
            &link->base,
            "the connection to %s was lost, and it does not know this client any more: it was restarted, or the "
            "client was away for longer than the server's GT_RESUME; the server's log says more",
            link->base.peer);
        break;
    case GT_ZMQ_CLOSE:
        gt__link_lose(&link->base, "%s closed the connection", link->base.peer);
        break;
    default:
        gt__link_kill(&link->base, "protocol error: %s sent an unknown control", link->base.peer);
    }
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

static bool frames_grow(gt_zmq_frames *ring)
{
    unsigned size = ring->size ? 2 * ring->size : FIRST_QUEUE;
    zmq_msg_t *grown = malloc(size * sizeof *grown);
    if (!grown)
        return false;
    for (unsigned k = 0; k < ring->count; k++) {
        zmq_msg_init(&grown[k]);
        zmq_msg_move(&grown[k], gt__zmq_frame(ring, k));
    }
    free(ring->frames);
    ring->frames = grown;
    ring->size = size;
    ring->first = 0;
    return true;
}

bool gt__zmq_frames_push(gt_zmq_frames *ring, zmq_msg_t *frame)
{
    bool room = ring->count < ring->size || frames_grow(ring);
    if (room) {
        zmq_msg_t *at = gt__zmq_frame(ring, ring->count++);
        zmq_msg_init(at);
        zmq_msg_move(at, frame);
    }
    zmq_msg_close(frame);
    return room;
}

void gt__zmq_frames_pop(gt_zmq_frames *ring)
{
    ring->first = (ring->first + 1) & (ring->size - 1);
    ring->count--;
}

void gt__zmq_frames_drop(gt_zmq_frames *ring)
{
    for (; ring->count; gt__zmq_frames_pop(ring))
        zmq_msg_close(gt__zmq_frame(ring, 0));
}

static void frames_clear(gt_zmq_frames *ring)
{
    gt__zmq_frames_drop(ring);
    free(ring->frames);
}

static void resume_received(gt_zmq_link *link, gt_zmq_resume *resume)
{
    if (resume->kind == GT_ZMQ_SECRET)
        memcpy(link->secret, resume->secret, sizeof link->secret);
    else if (resume->kind == GT_ZMQ_RESUMED && link->cut) {
        if (resume->life != link->life)
            gt__zmq_restarted(link, resume->life);
        gt__zmq_resumed(link, resume);
    } else
        gt__link_kill(&link->base, "protocol error: %s resumed a link that was not cut", link->base.peer);
    explicit_bzero(resume, sizeof *resume);
}

void gt__zmq_receive(gt_zmq_link *link, zmq_msg_t *frame, bool more)
{
    gt_zmq_control control;
    gt_zmq_resume resume;
    size_t bytes = zmq_msg_size(frame), slots = bytes / sizeof(gt_slot);
    if (link->base.dead) {
        /* Drop it: a dead link is not read. */
    } else if (more || bytes > GT_ZMQ_FRAME_BYTES) {
        gt__link_kill(&link->base, "protocol error: %s sent a malformed frame", link->base.peer);
    } else if (gt__zmq_control(frame, &control)) {
        control_received(link, &control);
    } else if (gt__zmq_resume_read(frame, &resume)) {
        resume_received(link, &resume);
    } else if (bytes % sizeof(gt_slot)) {
        gt__link_kill(&link->base, "protocol error: %s sent a frame of %zu bytes", link->base.peer, bytes);
    } else if (slots > GT_ZMQ_WINDOW - link->received) {
        gt__link_kill(&link->base, "protocol error: %s sent more than it had credit for", link->base.peer);
    } else if (slots) {
        link->received += (unsigned)slots;
        link->arrived += slots;
        if (!gt__zmq_frames_push(&link->queue, frame))
            gt__link_kill(&link->base, "out of memory");
        return;
    }
    zmq_msg_close(frame);
}

/* Not while the link is cut: the peer is told once how much it got back, when the link is resumed. */
void gt__zmq_give_credit(gt_zmq_link *link)
{
    uint64_t given = link->arrived - link->received, most = link->durable > given ? link->durable - given : 0;
    unsigned slots = link->consumed < most ? link->consumed : (unsigned)most;
    if (slots < link->returns || link->base.gone || link->cut)
        return;
    link->received -= slots;
    link->consumed -= slots;
    gt__zmq_send_control(link, GT_ZMQ_CREDIT, slots | (uint64_t)link->got << 32);
}

void gt__zmq_durable(gt_link *base, uint64_t slots)
{
    gt_zmq_link *link = (gt_zmq_link *)base;
    link->durable = slots;
    gt__zmq_give_credit(link);
}

/* The frame has been read: give credit for its slots back. */
static void retire(gt_zmq_link *link)
{
    link->consumed += (unsigned)(zmq_msg_size(&link->reading) / sizeof(gt_slot));
    zmq_msg_close(&link->reading);
    zmq_msg_init(&link->reading);
    gt__zmq_give_credit(link);
}

/* The slots of the frame being read, at an aligned address. ZeroMQ puts short messages anywhere in its receive
 * buffer. */
static const gt_slot *straighten(gt_zmq_link *link)
{
    void *data = zmq_msg_data(&link->reading);
    if ((uintptr_t)data % _Alignof(gt_slot) == 0)
        return data;
    if (!link->straight)
        link->straight = aligned_alloc(sizeof(gt_slot), GT_ZMQ_FRAME_BYTES);
    if (link->straight)
        memcpy(link->straight, data, zmq_msg_size(&link->reading));
    return link->straight;
}

bool gt__zmq_refill(gt_link *base)
{
    gt_zmq_link *link = (gt_zmq_link *)base;
    if (base->dead)
        return false;
    retire(link);
    if (!link->queue.count && link->side->pump_on_refill)
        link->side->pump(link);
    if (!link->queue.count) {
        if (base->gone)
            gt__link_kill(base, "closed");
        return false;
    }
    zmq_msg_move(&link->reading, gt__zmq_frame(&link->queue, 0));
    gt__zmq_frames_pop(&link->queue);
    const gt_slot *slots = straighten(link);
    if (!slots) {
        gt__link_kill(base, "out of memory");
        return false;
    }
    base->read_next = slots;
    base->read_end = slots + zmq_msg_size(&link->reading) / sizeof(gt_slot);
    return true;
}

/* ---- beside the stream -------------------------------------------------------------------------------------- */

void gt__zmq_urge(gt_link *base, uint64_t word)
{
    if (!base->gone)
        gt__zmq_send_control((gt_zmq_link *)base, GT_ZMQ_URGENT, word);
}

/* The word came behind frames of the stream: pump those into our queue, which the peer's credit bounds. */
bool gt__zmq_urged(gt_link *base, uint64_t *word)
{
    gt_zmq_link *link = (gt_zmq_link *)base;
    if (!link->urgent_count && !base->gone)
        link->side->pump(link);
    if (!link->urgent_count)
        return false;
    *word = link->urgent[link->urgent_first];
    link->urgent_first = (link->urgent_first + 1) % GT_LINK_URGENT;
    link->urgent_count--;
    return true;
}

void gt__zmq_slots(gt_link *base, gt_link_slots *slots)
{
    gt_zmq_link *link = (gt_zmq_link *)base;
    slots->sent = link->sent + base->unflushed;
    slots->received = link->arrived - (uint64_t)(base->read_end - base->read_next);
    for (unsigned k = 0; k < link->queue.count; k++)
        slots->received -= zmq_msg_size(gt__zmq_frame(&link->queue, k)) / sizeof(gt_slot);
}

uint64_t gt__zmq_unread(gt_link *base)
{
    gt_zmq_link *link = (gt_zmq_link *)base;
    gt_unread unread = {0};
    gt__unread_add(&unread, base->read_next, (uint64_t)(base->read_end - base->read_next));
    for (unsigned k = 0; k < link->queue.count; k++) {
        zmq_msg_t *frame = gt__zmq_frame(&link->queue, k);
        gt__unread_add(&unread, zmq_msg_data(frame), zmq_msg_size(frame) / sizeof(gt_slot));
    }
    return gt__unread_records(&unread);
}

/* ---- writing ------------------------------------------------------------------------------------------------ */

/* Slots that may be written behind those of the frame: none of those that are kept for the last record. */
static unsigned room(const gt_zmq_link *link)
{
    unsigned used = link->base.unflushed + gt__link_kept(&link->base);
    return link->credit > used ? link->credit - used : 0;
}

static void open_window(gt_zmq_link *link)
{
    unsigned slots = link->base.unflushed + room(link);
    link->base.write_next = link->frame + link->base.unflushed;
    link->base.write_end = link->frame + (slots < link->frame_slots ? slots : link->frame_slots);
}

void gt__zmq_send_receipt(gt_zmq_link *link)
{
    unsigned count = link->receipt_count;
    uint64_t before = count ? link->receipts[count - 1].sent : link->proven;
    uint32_t number, sum = count ? link->receipts[count - 1].proof : link->proof;
    if (link->sent - before < GT_ZMQ_WINDOW / 4)
        return;
    assert(count < GT_ZMQ_RECEIPTS);
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        gt__link_kill(&link->base, "no random numbers: %s", strerror(errno));
        return;
    }
    number |= 1; /* not 0: each sum is another one */
    link->receipts[count].sent = link->sent;
    link->receipts[count].proof = sum + number;
    link->receipt_count++;
    gt__zmq_send_control(link, GT_ZMQ_RECEIPT, number);
}

void gt__zmq_flush(gt_link *base)
{
    gt_zmq_link *link = (gt_zmq_link *)base;
    zmq_msg_t message;
    size_t bytes = base->unflushed * sizeof(gt_slot);
    if (base->gone || !bytes)
        return;
    if (zmq_msg_init_size(&message, bytes)) {
        gt__link_kill(base, "out of memory");
        return;
    }
    memcpy(zmq_msg_data(&message), link->frame, bytes);
    if (link->keeps && !gt__zmq_keep_frame(link, &message)) {
        zmq_msg_close(&message);
        gt__link_kill(base, "out of memory");
        return;
    }
    link->credit -= base->unflushed;
    link->sent += base->unflushed;
    base->unflushed = 0;
    if (link->cut)
        zmq_msg_close(&message); /* it is sent when there is a connection again */
    else if (link->side->send(link, &message))
        gt__zmq_send_receipt(link);
    if (!base->gone)
        open_window(link);
}

static bool grow_frame(gt_zmq_link *link, unsigned slots)
{
    unsigned size = link->frame_slots ? link->frame_slots : FIRST_FRAME;
    while (size < slots)
        size *= 2;
    gt_slot *grown = aligned_alloc(sizeof *grown, size * sizeof *grown);
    if (!grown)
        return false;
    if (link->base.unflushed)
        memcpy(grown, link->frame, link->base.unflushed * sizeof *grown);
    free(link->frame);
    link->frame = grown;
    link->frame_slots = size;
    return true;
}

gt_slot *gt__zmq_reserve(gt_link *base, unsigned slots)
{
    gt_zmq_link *link = (gt_zmq_link *)base;
    assert(slots <= GT_ZMQ_FRAME_SLOTS);
    if (base->unflushed + slots > GT_ZMQ_FRAME_SLOTS)
        gt__link_flush(base);
    if (room(link) < slots) {
        gt__link_flush(base); /* the peer returns credit only for slots it has received */
        link->side->pump(link);
    }
    if (base->gone)
        return NULL;
    if (base->unflushed + slots > link->frame_slots && !grow_frame(link, base->unflushed + slots)) {
        gt__link_kill(base, "out of memory");
        return NULL;
    }
    bool enough = room(link) >= slots;
    link->wanted = enough ? 0 : slots;
    open_window(link);
    return enough ? base->write_next : NULL;
}

/* ---- waiting ------------------------------------------------------------------------------------------------ */

bool gt__zmq_has(gt_link *base, gt_wait what)
{
    gt_zmq_link *link = (gt_zmq_link *)base;
    if ((what & GT_WAIT_READ) && !base->dead) {
        if (base->read_next != base->read_end || link->queue.count)
            return true;
        if (base->gone)
            gt__link_kill(base, "closed");
    }
    return (what & GT_WAIT_WRITE) && !base->gone && room(link) >= (link->wanted ? link->wanted : 1);
}

bool gt__zmq_readable(void *socket)
{
    int events = 0;
    size_t size = sizeof events;
    return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size) || (events & ZMQ_POLLIN);
}

gt_wait gt__zmq_interest(const gt_link *base)
{
    return ((const gt_zmq_link *)base)->wanted ? GT_WAIT_READ | GT_WAIT_WRITE : GT_WAIT_READ;
}

/* ---- beginning and end -------------------------------------------------------------------------------------- */

void gt__zmq_link_init(gt_zmq_link *link)
{
    link->base.batch = GT_ZMQ_FRAME_SLOTS;
    link->base.fd = -1;
    link->credit = GT_ZMQ_WINDOW;
    link->durable = UINT64_MAX;
    link->returns = GT_ZMQ_WINDOW / 4;
    zmq_msg_init(&link->reading);
}

void gt__zmq_link_clear(gt_zmq_link *link)
{
    frames_clear(&link->queue);
    frames_clear(&link->kept);
    explicit_bzero(link->secret, sizeof link->secret);
    zmq_msg_close(&link->reading);
    free(link->frame);
    free(link->straight);
}

/* An event is a frame of 16 bits of event and 32 bits of value, and a frame with the address. */
bool gt__zmq_event(void *monitor, unsigned *event, int *connection)
{
    zmq_msg_t part;
    for (;;) {
        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, monitor, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&part);
            return false;
        }
        uint16_t what = 0;
        int32_t value = 0;
        bool first = zmq_msg_more(&part) && zmq_msg_size(&part) == sizeof what + sizeof value;
        if (first) {
            memcpy(&what, zmq_msg_data(&part), sizeof what);
            memcpy(&value, (char *)zmq_msg_data(&part) + sizeof what, sizeof value);
        }
        zmq_msg_close(&part);
        if (!first)
            continue;
        *event = what;
        *connection = value;
        return true;
    }
}

void gt__zmq_socket_options(void *socket)
{
    /* ZeroMQ compares what comes over the wire: a frame that CURVE encrypts has a name, a nonce, a code and flags besides. The frame's
     * own size is checked when it is read. */
    enum { CURVE_BYTES = 8 + 8 + 16 + 1 };
    int64_t largest = GT_ZMQ_FRAME_BYTES + CURVE_BYTES;
    /* The end of a process is noticed at once; heartbeats are for stopped processes and unreachable hosts. A ping goes
     * out every quarter of GT_TIMEOUT and may take half of it. ZeroMQ's thread does both, even while ours computes. */
    int timeout_ms = gt__setting_ms(GT_SETTING_TIMEOUT);
    const struct {
        int option, value;
    } options[] = {
        {.option = ZMQ_SNDHWM, .value = 0},
        {.option = ZMQ_LINGER, .value = GT_ZMQ_LINGER_MS},
        {.option = ZMQ_IPV6, .value = 1},
        {.option = ZMQ_HEARTBEAT_IVL, .value = timeout_ms / 4},
        {.option = ZMQ_HEARTBEAT_TIMEOUT, .value = timeout_ms / 2},
    };
    for (size_t k = 0; k < sizeof options / sizeof *options; k++)
        zmq_setsockopt(socket, options[k].option, &options[k].value, sizeof options[k].value);
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest);
}

gt_err gt__zmq_endpoint(const char *transport, const char *host, int port, char *endpoint, size_t size)
{
    if (!strcmp(transport, "ipc")) {
        char path[GT_ADDRESS_MAX];
        GT_TRY(gt__address_path(port, "ipc", path));
        snprintf(endpoint, size, "ipc://%s", path);
        return GT_OK;
    }
    char numeric[64];
    GT_TRY(gt__address_resolve(host, numeric, sizeof numeric));
    if (port)
        snprintf(endpoint, size, "tcp://%s:%d", numeric, port);
    else
        snprintf(endpoint, size, "tcp://%s:*", numeric);
    return GT_OK;
}
