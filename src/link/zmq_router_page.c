/* link/zmq_router_page.c: the router's side of link/zmq_page.h: a peer's page comes by a connection of its own. */
#include "link/zmq_intake.h"
#include "link/zmq_page.h"
#include "link/zmq_router.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE_LOST_MS = 1000 }; /* a question for a page that is not answered after this was lost */

/* Numbers are the peers' own choice: one who chooses many with the same bucket only finds its own more slowly. */
static gt_zmq_peer **token_bucket(gt_zmq_router *r, uint64_t token)
{
    return &r->tokens[token % GT_ZMQ_BUCKETS];
}

gt_zmq_peer *gt__zmq_page_find(const gt_zmq_router *r, const uint8_t *identity)
{
    gt_zmq_peer *peer = r->pages[gt__zmq_bucket(identity)];
    while (peer && memcmp(peer->page.identity, identity, GT_ZMQ_IDENTITY_BYTES))
        peer = peer->page_next;
    return peer;
}

void gt__zmq_page_remove(gt_zmq_peer *peer)
{
    if (!peer->page.is_open)
        return;
    gt_zmq_peer **at = &peer->router->pages[gt__zmq_bucket(peer->page.identity)];
    while (*at != peer)
        at = &(*at)->page_next;
    *at = peer->page_next;
    peer->page.is_open = false;
}

void gt__zmq_page_number(gt_zmq_peer *peer, uint64_t token)
{
    if (peer->token) {
        gt_zmq_peer **at = token_bucket(peer->router, peer->token);
        while (*at != peer)
            at = &(*at)->token_next;
        *at = peer->token_next;
    }
    peer->token = token;
    if (token) {
        gt_zmq_peer **bucket = token_bucket(peer->router, token);
        peer->token_next = *bucket;
        *bucket = peer;
    }
}

/* To the connection of its page; false: it is gone. */
static bool page_send(const gt_zmq_peer *peer, gt_zmq_kind kind, uint64_t value)
{
    gt_zmq_control control = gt__zmq_control_of(kind, value);
    void *socket = peer->router->socket;
    return zmq_send(socket, peer->page.identity, GT_ZMQ_IDENTITY_BYTES, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
           zmq_send(socket, &control, sizeof control, ZMQ_DONTWAIT) >= 0;
}

void gt__zmq_page_open(gt_zmq_router *r, const uint8_t *identity, uint64_t token, int connection)
{
    gt_zmq_peer *peer = token ? *token_bucket(r, token) : NULL;
    while (peer && peer->token != token)
        peer = peer->token_next;
    if (!peer)
        return;
    gt__intake_delivered(connection, true);
    gt__zmq_page_remove(peer);
    memcpy(peer->page.identity, identity, GT_ZMQ_IDENTITY_BYTES);
    gt_zmq_peer **bucket = &r->pages[gt__zmq_bucket(identity)];
    peer->page_next = *bucket;
    *bucket = peer;
    peer->page.is_open = true;
    peer->page.asked_ns = 0;
    page_send(peer, GT_ZMQ_ACCEPT, 0);
}

void gt__zmq_page_received(gt_zmq_peer *peer, zmq_msg_t *frame)
{
    gt_zmq_peer_page *page = &peer->page;
    if (zmq_msg_size(frame) != sizeof(gt_zmq_page_frame) ||
        (!page->copy && !(page->copy = aligned_alloc(sizeof(gt_slot), GT_LINK_PAGE))))
        return;
    const gt_zmq_page_frame *answer = zmq_msg_data(frame);
    uint64_t asked, at_ns; /* not aligned, perhaps */
    memcpy(&asked, &answer->asked, sizeof asked);
    memcpy(&at_ns, &answer->at_ns, sizeof at_ns);
    memcpy(page->copy, answer->words, GT_LINK_PAGE);
    page->time.at_ns = at_ns;
    if (asked != page->asked_ns || !page->asked_ns)
        return;
    uint64_t took = gt__now_ns() - page->asked_ns;
    if (peer->base.base.transport == &gt__transport_tcp &&
        (!page->time.error_ns || took <= page->time.error_ns)) { /* the quickest exchange so far */
        page->time.error_ns = took;
        page->time.offset_ns = (int64_t)(at_ns - (page->asked_ns + took / 2));
    }
    page->asked_ns = 0;
}

const void *gt__zmq_peer_page(gt_link *link, gt_page_time *time)
{
    const gt_zmq_peer *peer = (gt_zmq_peer *)link;
    *time = peer->page.time;
    time->awaited = peer->page.asked_ns != 0;
    return peer->page.copy;
}

/* A question that was lost is asked again. */
bool gt__zmq_ask_page(gt_link *link)
{
    gt_zmq_peer *peer = (gt_zmq_peer *)link;
    uint64_t now = gt__now_ns();
    if (!peer->router || !peer->page.is_open || link->gone)
        return false;
    if (peer->page.asked_ns && now - peer->page.asked_ns < PAGE_LOST_MS * 1000000ull)
        return true;
    peer->page.asked_ns = now;
    if (!page_send(peer, GT_ZMQ_PAGE_ASK, now))
        gt__zmq_page_remove(peer); /* the connection is lost; its end makes another */
    return peer->page.is_open;
}
