/*
 * link/zmq_listen.c: where the listening end of ZeroMQ links is found: a tcp port, the socket file of the same number, or both.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "link/zmq_router.h"

enum { ENDPOINT_MAX = 256 };

static gt_err watch_door(gt_zmq_router *r)
{
    if (!r->door.socket || gt__zmq_router_watch(r, r->door.socket))
        return GT_OK;
    return gt__fail(GT_ERR_CONNECTION, "cannot set up authentication: %s", strerror(errno));
}

/* Bind, and write the endpoint with the port that it has. Returns an errno. */
static int bind_at(gt_zmq_router *r, const char *endpoint, char actual[ENDPOINT_MAX])
{
    size_t size = ENDPOINT_MAX;
    if (zmq_bind(r->socket, endpoint))
        return zmq_errno();
    zmq_getsockopt(r->socket, ZMQ_LAST_ENDPOINT, actual, &size);
    return 0;
}

static int port_of(const char *endpoint)
{
    const char *colon = strrchr(endpoint, ':');
    return colon ? atoi(colon + 1) : 0;
}

/* Any port of which we can have the socket files, too. Those who listen at other addresses of this host have the files of their ports,
 * and the system gives us the same port. The ports passed over are held until one is found, so that each attempt has another. */
static int bind_any(gt_zmq_router *r, const char *endpoint, char actual[ENDPOINT_MAX])
{
    enum { ATTEMPTS = 32 };
    char passed[ATTEMPTS][ENDPOINT_MAX];
    int count = 0, error;
    while (!(error = bind_at(r, endpoint, actual)) && gt__address_is_held(port_of(actual)) && count < ATTEMPTS)
        memcpy(passed[count++], actual, ENDPOINT_MAX);
    gt__zmq_router_take_events(r); /* before the descriptors that they name are closed */
    while (count)
        zmq_unbind(r->socket, passed[--count]);
    return error;
}

static gt_err bind_tcp(gt_zmq_router *r, const char *host, int port, const gt_guard *guard, int *bound)
{
    char endpoint[GT_ADDRESS_MAX + 16], actual[ENDPOINT_MAX] = "";
    GT_TRY(gt__zmq_endpoint("tcp", host, port, endpoint, sizeof endpoint));
    GT_TRY(gt__door_open(&r->door, r->context, r->socket, guard));
    GT_TRY(watch_door(r));
    int error = port ? bind_at(r, endpoint, actual) : bind_any(r, endpoint, actual);
    gt__door_pass(r->socket, guard);
    if (port && error == EADDRINUSE)
        return gt__fail(GT_ERR_CONNECTION, "port %d is already in use", port);
    if (error)
        return gt__fail(GT_ERR_CONNECTION, "cannot listen at %s: %s", endpoint, zmq_strerror(error));
    gt__zmq_router_take_events(r); /* it listens: connections are watched from now on */
    *bound = port_of(actual);
    return GT_OK;
}

static gt_err bind_ipc(gt_zmq_router *r, int port)
{
    char endpoint[GT_ADDRESS_MAX + 16];
    int lock;
    GT_TRY(gt__zmq_endpoint("ipc", NULL, port, endpoint, sizeof endpoint));
    GT_TRY(gt__address_lock(&lock));
    /* ZeroMQ would remove the socket file of a running server. */
    gt_err err = gt__address_clear(endpoint + strlen("ipc://"), SOCK_STREAM, port);
    if (err == GT_OK && zmq_bind(r->socket, endpoint))
        err = gt__fail(GT_ERR_CONNECTION, "cannot listen at %s: %s", endpoint, zmq_strerror(zmq_errno()));
    if (err == GT_OK) {
        gt__zmq_router_take_events(r); /* as above */
        gt__address_own(&r->file, endpoint + strlen("ipc://"));
    }
    close(lock);
    return err;
}

static gt_err finish(gt_zmq_router *r, gt_err err, gt_acceptor **acceptor)
{
    if (err == GT_OK)
        *acceptor = &r->base;
    else
        r->base.ops->close(&r->base);
    return err;
}

gt_err gt__tcp_listen(const char *host, int port, const gt_guard *guard, gt_acceptor **acceptor, int *bound)
{
    gt_zmq_router *r = NULL;
    GT_TRY(gt__zmq_router_new(&r));
    return finish(r, bind_tcp(r, host, port, guard, bound), acceptor);
}

gt_err gt__tcp_serve_ipc(gt_acceptor *acceptor, const char *host, int port)
{
    return gt__address_is_local(host) ? bind_ipc((gt_zmq_router *)acceptor, port) : GT_OK;
}

static gt_err listen_tcp(const char *host, int port, gt_acceptor **acceptor, int *bound)
{
    GT_TRY(gt__tcp_listen(host, port, NULL, acceptor, bound));
    gt_err err = gt__tcp_serve_ipc(*acceptor, host, *bound);
    if (err != GT_OK)
        (*acceptor)->ops->close(*acceptor);
    return err;
}

static gt_err listen_ipc(const char *host, int port, gt_acceptor **acceptor, int *bound)
{
    gt_zmq_router *r = NULL;
    (void)host; /* only this host can reach the socket */
    GT_TRY(gt__zmq_router_new(&r));
    *bound = port;
    gt_err err = port ? bind_ipc(r, port) : GT_ERR_CONNECTION;
    for (int k = 0; !port && err != GT_OK && k < GT_ADDRESS_ATTEMPTS; k++) {
        *bound = gt__address_candidate(k);
        err = bind_ipc(r, *bound);
    }
    return finish(r, err, acceptor);
}

const gt_transport gt__transport_tcp = {
    .name = "tcp", .same_host_only = false, .listen = listen_tcp, .connect = gt__zmq_connect_tcp};

const gt_transport gt__transport_ipc = {
    .name = "ipc", .same_host_only = true, .listen = listen_ipc, .connect = gt__zmq_connect_ipc};
