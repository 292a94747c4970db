/*
 * link/zmq_guard.h: who may open a ZeroMQ connection: the authentication of tcp listeners, before ZeroMQ gives a peer
 * an identity.
 *
 * A ROUTER numbers its peers, and libzmq aborts the process when a peer has announced the number that comes next as its
 * own identity. So no stranger may get as far as that: ZeroMQ authenticates first. On the loopback interface by a
 * password from a private file (keys.h; PLAIN, which costs nothing per byte, and only root can listen there), elsewhere
 * by CURVE keys. The ipc socket needs neither: only its user can reach it.
 */
#ifndef GT_LINK_ZMQ_GUARD_H
#define GT_LINK_ZMQ_GUARD_H

#include "link/keys.h"
#include "link/link.h"

/* What a tcp listener asks of its peers; at most one of the first two. */
typedef struct gt_guard {
    const char *password;      /* NULL: no password */
    const char *secret_key;    /* of the listener; NULL: no encryption */
    const gt_allowed *allowed; /* with secret_key: the peers' keys; NULL: who knows the public key may connect */
} gt_guard;

/* Listen by tcp alone, with a guard; NULL: any peer is accepted. Borrows guard->allowed while the acceptor lives. */
gt_err gt__tcp_listen(const char *host, int port, const gt_guard *guard, gt_acceptor **acceptor, int *bound);
/* Serve ipc as well if `host` is this one. gt__transport_tcp.listen does both at once. */
gt_err gt__tcp_serve_ipc(gt_acceptor *acceptor, const char *host, int port);
/* As gt__transport_tcp.connect, with keys; NULL: the password of a server on this host, or nothing. */
gt_err gt__tcp_connect(const char *host, int port, const gt_keys *keys, int timeout_ms, gt_link **link);

/* "tcp://127.0.0.1:12345" for connecting to (or, port 0, binding at) host and port. */
gt_err gt__zmq_endpoint(const char *transport, const char *host, int port, char *endpoint, size_t size);

/* The answers to ZeroMQ's questions whether a peer may connect. */
typedef struct gt_door {
    void *socket; /* NULL: no peer is asked for anything */
    char password[GT_SECRET_SIZE];
    const gt_allowed *allowed;
} gt_door;

/* Before the tcp bind: set up the listening socket and the door. */
gt_err gt__door_open(gt_door *door, void *context, void *socket, const gt_guard *guard);
/* After the tcp bind: later binds of the same socket (ipc) admit every peer. */
void gt__door_pass(void *socket, const gt_guard *guard);
/* Answer what has been asked. Never blocks. */
void gt__door_answer(gt_door *door);
void gt__door_close(gt_door *door);
/* Who the sender of this frame is, as the door found out. */
void gt__door_user(const gt_door *door, void *frame, gt_link *link);
/* The connecting side: sets link->trust to how far the other end is known once connected. */
void gt__door_keys(gt_link *link, void *socket, const char *endpoint, int port, const gt_keys *keys);
/* Make the identities that ROUTERs give out hard to predict. */
void gt__identities_seed(void);

#endif
