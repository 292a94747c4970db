/* listen.c: see listen.h. Place in the flow: loop.c, once, before it runs -> here. */
#include "dispatcher/listen.h"

#include <string.h>

#include "dispatcher/state.h"
#include "link/address.h"
#include "link/expected.h"
#include "link/zmq_guard.h"

static void add_acceptor(gt_dispatcher *dispatcher, gt_acceptor *acceptor)
{
    dispatcher->acceptors[dispatcher->acceptor_count++] = acceptor;
}

/* Listen by tcp, which chooses the port if none was given, and by ipc. Peers need a key, or on the loopback
 * interface the password in the file of secrets. */
static gt_err open_tcp(gt_dispatcher *dispatcher, const gt_dispatcher_options *options, const char *host)
{
    gt_keys keys;
    gt_guard guard = {0};
    gt_acceptor *acceptor;
    if (!options->key_file != !options->allow_keys)
        return gt__fail(GT_ERR_VALUE, "a server needs both a key file and a list of allowed keys, or neither");
    if (options->key_file) {
        GT_TRY(gt__keys_read(options->key_file, &keys));
        GT_TRY(gt__allowed_read(options->allow_keys, &dispatcher->allowed));
        if (!(dispatcher->allowed_file = strdup(options->allow_keys)))
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        guard = (gt_guard){.secret_key = keys.secret, .allowed = dispatcher->allowed};
    } else if (gt__address_is_loopback(host) && !options->insecure) {
        GT_TRY(gt__secret_make(dispatcher->secrets.password));
        guard.password = dispatcher->secrets.password;
    } else if (!options->insecure)
        return gt__fail(
            GT_ERR_VALUE,
            "%s can be reached from other machines: use keys (`gt keygen`, --key-file, --allow-keys), or "
            "--insecure if everyone there may connect",
            host);
    bool guarded = guard.password || guard.secret_key;
    gt_err err = gt__tcp_listen(host, options->port, guarded ? &guard : NULL, &acceptor, &dispatcher->port);
    explicit_bzero(&keys, sizeof keys);
    GT_TRY(err);
    if (options->journal)
        gt__acceptor_outlives(acceptor);
    add_acceptor(dispatcher, acceptor);
    GT_TRY(gt__secret_make(dispatcher->secrets.worker));
    GT_TRY(gt__zmq_endpoint("tcp", host, dispatcher->port, dispatcher->secrets.endpoint,
                            sizeof dispatcher->secrets.endpoint));
    /* Published before ipc is served: a worker of this host that gets there shows the secret in its greeting. Not over those of a
     * server with the same port at another address, which keeps us from serving ipc. */
    if (gt__address_is_local(host) && gt__address_has_ipc(dispatcher->port))
        return gt__fail(GT_ERR_CONNECTION, "port %d is already in use", dispatcher->port);
    GT_TRY(gt__secrets_publish(dispatcher->port, &dispatcher->secrets, &dispatcher->secrets_file));
    return gt__tcp_serve_ipc(acceptor, host, dispatcher->port);
}

gt_err gt__dispatcher_listen(gt_dispatcher *dispatcher, const gt_dispatcher_options *options)
{
    const char *host = options->host ? options->host : "localhost";
    gt_acceptor *acceptor;
    if (options->journal && !options->port)
        return gt__fail(GT_ERR_VALUE,
                        "--journal needs a port of your choice (-p): a server that is started again must "
                        "have the same one, so that its clients find it");
    dispatcher->monitors_only = !options->listen;
    dispatcher->port = GT_PORT_HIDDEN;
    if (options->listen)
        GT_TRY(open_tcp(dispatcher, options, host));
    if (options->journal) /* links by shared memory end with the server */
        return GT_OK;
    GT_TRY(gt__transport_memory.listen(host, dispatcher->port, &acceptor, &dispatcher->port));
    add_acceptor(dispatcher, acceptor);
    return GT_OK;
}
