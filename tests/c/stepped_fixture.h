/*
 * stepped_fixture.h: a dispatcher whose turns the test takes itself, in its own thread: what happens between two turns, and what one turn
 * does, does not depend on time. Use server_link for peers by memory.
 */
#ifndef GT_TESTS_STEPPED_FIXTURE_H
#define GT_TESTS_STEPPED_FIXTURE_H

#include <sched.h>

#include "dispatcher/session.h"
#include "dispatcher/state.h"
#include "server_fixture.h"

typedef struct stepped_connection {
    server *server;
    const char *transport;
    gt_link *link;
    _Atomic bool done;
} stepped_connection;

static inline void *stepped_connect_thread(void *argument)
{
    stepped_connection *c = argument;
    c->link = server_connect(c->server, c->transport);
    c->done = true;
    return NULL;
}

/* A peer by any transport, of a listening server. */
static inline gt_link *stepped_connect(server *s, const char *transport)
{
    stepped_connection c = {.server = s, .transport = transport};
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, stepped_connect_thread, &c), 0);
    while (!c.done)
        gt__dispatcher_turn(s->dispatcher);
    pthread_join(thread, NULL);
    return c.link;
}

/* Turns until the peer has something to read. */
static inline bool stepped_hear(server *s, gt_link *link)
{
    uint64_t deadline = gt__deadline_ns(PATIENCE_MS);
    size_t available;
    gt__link_flush(link);
    while (!gt__link_peek(link, &available)) {
        if (!CHECK(gt__remaining_ms(deadline)) || !CHECK(!link->dead))
            return false;
        gt__dispatcher_turn(s->dispatcher);
        gt__link_wait(link, GT_WAIT_READ, 0);
    }
    return true;
}

/* Clients join after a worker. */
static inline void stepped_join(server *s, gt_link *link, gt_role role, const char *name)
{
    gt_welcome welcome = {0};
    CHECK_EQ(gt__hello_send(link, role, name, "raw"), GT_OK);
    CHECK(stepped_hear(s, link) && gt__hello_wait(link, PATIENCE_MS, &welcome) == GT_OK);
}

/* The session of the client that joined last, or NULL. */
static inline gt_session *stepped_session(const server *s, uint64_t number)
{
    for (const gt_peer *peer = s->dispatcher->peers; peer; peer = peer->next)
        if (peer->session && peer->session->number == number)
            return peer->session;
    return NULL;
}

/* Turns until nothing is left to do. */
static inline void stepped_settle(server *s)
{
    enum { QUIET = 4 };
    for (int quiet = 0; quiet < QUIET;)
        quiet = gt__dispatcher_turn(s->dispatcher) ? 0 : quiet + 1;
}

static inline void stepped_end(server *s)
{
    gt__dispatcher_free(&s->dispatcher);
}

#endif
