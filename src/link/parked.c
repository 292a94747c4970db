/* parked.c: see parked.h. Both ends belong to the dispatcher's thread, which never waits on a link. */
#include "link/parked.h"

#include <stdlib.h>
#include <string.h>

typedef struct parked_link {
    gt_link link;
    gt_slot dropped[GT_LINK_MAX_RESERVE + GT_LINK_LAST_ROOM];
} parked_link;

static gt_slot *parked_reserve(gt_link *link, unsigned slots)
{
    parked_link *parked = (parked_link *)link;
    if (link->dead || slots > sizeof parked->dropped / sizeof *parked->dropped)
        return NULL;
    link->write_next = parked->dropped;
    link->write_end = parked->dropped + sizeof parked->dropped / sizeof *parked->dropped;
    return link->write_next;
}

static void parked_flush(gt_link *link)
{
    link->unflushed = 0;
}

static bool parked_refill(gt_link *link)
{
    (void)link;
    return false;
}

static gt_err parked_wait(gt_link *link, gt_wait what, int timeout_ms)
{
    (void)link, (void)what, (void)timeout_ms;
    return gt__fail(GT_ERR_TIMEOUT, "nothing comes from a session without a client");
}

static bool parked_arm(gt_link *link)
{
    (void)link;
    return true;
}

static void parked_urge(gt_link *link, uint64_t word)
{
    (void)link, (void)word;
}

static bool parked_urged(gt_link *link, uint64_t *word)
{
    (void)link, (void)word;
    return false;
}

static void parked_slots(gt_link *link, gt_link_slots *slots)
{
    (void)link;
    *slots = (gt_link_slots){0};
}

static uint64_t parked_unread(gt_link *link)
{
    (void)link;
    return 0;
}

static void parked_close(gt_link *link)
{
    free(link);
}

static const gt_link_ops parked_ops = {
    .reserve = parked_reserve,
    .flush = parked_flush,
    .refill = parked_refill,
    .wait = parked_wait,
    .arm = parked_arm,
    .urge = parked_urge,
    .urged = parked_urged,
    .slots = parked_slots,
    .unread = parked_unread,
    .close = parked_close,
    .abandon = parked_close,
};

gt_err gt__link_parked(const gt_link *before, gt_link **out)
{
    parked_link *parked = calloc(1, sizeof *parked);
    if (!parked)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_link *link = &parked->link;
    link->ops = &parked_ops;
    link->transport = before->transport;
    link->batch = before->batch;
    link->origin = link->passes_on = -1;
    link->fd = -1;
    link->lean = before->lean;
    link->trust = before->trust;
    memcpy(link->peer, before->peer, sizeof link->peer);
    memcpy(link->user, before->user, sizeof link->user);
    memcpy(link->host, before->host, sizeof link->host);
    memcpy(link->key, before->key, sizeof link->key);
    *out = link;
    return GT_OK;
}
