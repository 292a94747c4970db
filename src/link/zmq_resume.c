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
                            .given = link->arrived - link->received};
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

/* Send the kept frames behind the first `arrived` slots, with their receipts. False: no frame ends there. */
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
        if (before < arrived)
            return false;
        zmq_msg_init(&copy);
        zmq_msg_copy(&copy, frame);
        link->sent = at;
        if (link->side->send(link, &copy))
            gt__zmq_send_receipt(link);
    }
    link->sent = all;
    return true;
}

void gt__zmq_resumed(gt_zmq_link *link, const gt_zmq_resume *peer)
{
    bool possible = peer->arrived >= link->kept_from && peer->arrived <= link->sent &&
                    peer->given >= link->returned && peer->given <= peer->arrived;
    link->cut = false;
    link->got = link->proof = 0;
    link->receipt_count = 0;
    if (possible) {
        link->returned = peer->given;
        link->proven = peer->arrived;
        link->credit = GT_ZMQ_WINDOW - (unsigned)(link->sent - link->returned);
        gt__zmq_keep_less(link);
        possible = send_again(link, peer->arrived);
        gt__zmq_give_credit(link);
    }
    if (!possible)
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
