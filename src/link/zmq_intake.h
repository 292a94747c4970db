/*
 * link/zmq_intake.h: what libzmq takes from peers that connect: descriptors and bytes.
 *
 * libzmq limits whole messages only, so a peer that sends the parts of one without end takes any amount of memory. It keeps
 * connections that say nothing as long as they answer its heartbeats. And it aborts the process if it has no descriptor for a connection by ipc.
 * It has no option against any of this, so the gt program puts functions of its own before the C library's (cli/interposed.c), which
 * call these. They let go of a peer that goes too far as if it had closed the connection. In programs that only link
 * libgt, nothing calls them, and libzmq behaves as it does.
 *
 * Connections are known by their descriptor. libzmq's thread accepts and reads them; the router's thread says what was delivered.
 */
#ifndef GT_LINK_ZMQ_INTAKE_H
#define GT_LINK_ZMQ_INTAKE_H

#include <stdbool.h>
#include <sys/socket.h>

/* The descriptor is libzmq's listener: its connections are watched. */
void gt__intake_watch(int listener);
/* A whole message of this connection was delivered. `known`: of a peer that has a link. */
void gt__intake_delivered(int connection, bool known);

/* In the place of the functions of these names, which are passed. */
typedef int gt_accept_function(int, struct sockaddr *, socklen_t *, int);
typedef ssize_t gt_receive_function(int, void *, size_t, int);
int gt__intake_accept(gt_accept_function *system_accept, int listener, struct sockaddr *address, socklen_t *length,
                      int flags);
ssize_t gt__intake_receive(gt_receive_function *system_receive, int connection, void *to, size_t bytes, int flags);

#endif
