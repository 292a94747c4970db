/* link/zmq_resume.c: see zmq_resume.h. Place in the flow: zmq.c, zmq_dealer.c and zmq_router.c -> here. */
#include "link/zmq_resume.h"

#include <string.h>

_Static_assert(sizeof(gt_zmq_resume) % sizeof(gt_slot) != 0 && sizeof(gt_zmq_resume) != sizeof(gt_zmq_control),
               "it is told from other frames by its size");

static uint64_t slots_of(zmq_msg_t *frame)
{
    return zmq_msg_size(frame) / sizeof(gt_slot);
}

bool gt__zmq_resume_send(gt_zmq_link *link, gt_zmq_kind kind)
{
    gt_zmq_resume resume = {.magic = gt__zmq_control_of(kind, 0).magic,
                            .kind = (uint32_t)kind,
                            .arrived = link->arrived,
                            .given = link->arrived - link->received,
                            .sent = link->sent,
                            .life = link->life};
    zmq_msg_t frame;
    if (kind != GT_ZMQ_RESUMED) /* who asked for it has shown that it knows the secret */
        memcpy(resume.secret, link->secret, sizeof resume.secret);
    if (zmq_msg_init_size(&frame, sizeof resume))
        return false;
    memcpy(zmq_msg_data(&frame), &resume, sizeof resume);
    explicit_bzero(&resume, sizeof resume);
    return link->side->send(link, &frame);
}

bool gt__zmq_resume_read(zmq_msg_t *frame, gt_zmq_resume *resume)
{
    if (zmq_msg_size(frame) != sizeof *resume)
        return false;
    memcpy(resume, zmq_msg_data(frame), sizeof *resume);
    return resume->magic == gt__zmq_control_of(GT_ZMQ_RESUME, 0).magic;
}

/* ---- keeping ------------------------------------------------------------------------------------------------ */

void gt__zmq_keep(gt_zmq_link *link)
{
    link->keeps = true;
    link->kept_from = link->sent;
}

bool gt__zmq_keep_frame(gt_zmq_link *link, zmq_msg_t *frame)
{
    zmq_msg_t copy; /* of the reference */
    zmq_msg_init(&copy);
    return !zmq_msg_copy(&copy, frame) && gt__zmq_frames_push(&link->kept, &copy);
}

void gt__zmq_keep_less(gt_zmq_link *link)
{
    while (link->kept.count) {
        zmq_msg_t *first = gt__zmq_frame(&link->kept, 0);
        if (link->kept_from + slots_of(first) > link->returned)
            return;
        link->kept_from += slots_of(first);
        zmq_msg_close(first);
        gt__zmq_frames_pop(&link->kept);
    }
}

/* ---- resuming ----------------------------------------------------------------------------------------------- */

/* The slots of the frame from the first on that the peer does not have. A server that was restarted may have a part of a frame: its
 * journal ends behind any record. */
static bool copy_rest(zmq_msg_t *frame, uint64_t had, zmq_msg_t *copy)
{
    if (!had) {
        zmq_msg_init(copy);
        return !zmq_msg_copy(copy, frame);
    }
    size_t skipped = had * sizeof(gt_slot), bytes = zmq_msg_size(frame) - skipped;
    if (zmq_msg_init_size(copy, bytes))
        return false;
    memcpy(zmq_msg_data(copy), (uint8_t *)zmq_msg_data(frame) + skipped, bytes);
    return true;
}

/* Send the kept frames behind the first `arrived` slots, with their receipts. False: out of memory. */
static bool send_again(gt_zmq_link *link, uint64_t arrived)
{
    uint64_t all = link->sent, at = link->kept_from;
    link->sent = arrived;
    for (unsigned k = 0; k < link->kept.count && !link->cut; k++) {
        zmq_msg_t copy, *frame = gt__zmq_frame(&link->kept, k);
        uint64_t before = at;
        at += slots_of(frame);
        if (at <= arrived)
            continue;
        if (!copy_rest(frame, before < arrived ? arrived - before : 0, &copy))
            return false;
        link->sent = at;
        if (link->side->send(link, &copy))
            gt__zmq_send_receipt(link);
    }
    link->sent = all;
    return true;
}

void gt__zmq_restarted(gt_zmq_link *link, uint64_t life)
{
    gt__zmq_frames_drop(&link->queue);
    zmq_msg_close(&link->reading);
    zmq_msg_init(&link->reading);
    link->base.read_next = link->base.read_end = NULL;
    link->arrived = 0;
    link->received = link->consumed = 0;
    link->life = life;
    link->base.restarts++;
}

void gt__zmq_resumed(gt_zmq_link *link, const gt_zmq_resume *peer)
{
    bool forgot = peer->arrived < link->kept_from || peer->given < link->returned;
    bool possible =
        !forgot && peer->arrived <= link->sent && peer->given <= peer->arrived && peer->sent >= link->arrived;
    link->cut = false;
    link->got = link->proof = 0;
    link->receipt_count = 0;
    if (possible) {
        link->returned = peer->given;
        link->proven = peer->arrived;
        link->credit = GT_ZMQ_WINDOW - (unsigned)(link->sent - link->returned);
        gt__zmq_keep_less(link);
        if (!send_again(link, peer->arrived))
            gt__link_kill(&link->base, "out of memory");
        gt__zmq_give_credit(link);
    } else if (forgot)
        gt__link_kill(&link->base, "%s came back without records that it had confirmed: its journal has lost them",
                      link->base.peer);
    else
        gt__link_kill(&link->base, "protocol error: %s came back, and says that it got what was not sent",
                      link->base.peer);
}

bool gt__zmq_knows_secret(const gt_zmq_link *link, const uint8_t *secret)
{
    uint8_t any = 0, differs = 0;
    for (unsigned k = 0; k < GT_ZMQ_SECRET_BYTES; k++) {
        any |= link->secret[k];
        differs |= link->secret[k] ^ secret[k];
    }
    return any && !differs;
}
