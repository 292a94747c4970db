/* hello.c: finding a server, and the first two records of every connection. */
#include "link/hello.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/settings.h"
#include "link/address.h"
#include "link/zmq_guard.h"

int gt__connect_timeout_ms(int timeout_ms)
{
    return timeout_ms > 0 ? timeout_ms : gt__setting_ms(GT_SETTING_CONNECT_TIMEOUT);
}

/* ---- addresses --------------------------------------------------------------------------------------------- */

typedef struct server_address {
    const gt_transport *transport; /* NULL: any */
    char host[64];
    int port;
} server_address;

static const gt_transport *const transports[] = {
    &gt__transport_memory, /* fastest first */
    &gt__transport_ipc,
    &gt__transport_tcp,
};
enum { TRANSPORTS = sizeof transports / sizeof transports[0] };

static gt_err parse_address(const char *text, server_address *address)
{
    const char *rest = text, *scheme_end = strstr(text, "://");
    address->transport = NULL;
    if (scheme_end) {
        for (int k = 0; k < TRANSPORTS; k++)
            if (strlen(transports[k]->name) == (size_t)(scheme_end - text) &&
                strncmp(transports[k]->name, text, (size_t)(scheme_end - text)) == 0)
                address->transport = transports[k];
        if (!address->transport)
            return gt__fail(GT_ERR_VALUE, "'%s': unknown transport; use memory, ipc or tcp", text);
        rest = scheme_end + 3;
    }
    const char *colon = strrchr(rest, ':');
    char *end = NULL;
    long port = colon ? strtol(colon + 1, &end, 10) : 0;
    if (!colon || colon == rest || (size_t)(colon - rest) >= sizeof address->host || *end || end == colon + 1 ||
        port < 1 || port > 65535)
        return gt__fail(GT_ERR_VALUE, "'%s' is not an address of the form host:port", text);
    snprintf(address->host, sizeof address->host, "%.*s", (int)(colon - rest), rest);
    address->port = (int)port;
    return GT_OK;
}

static gt_err connect_by(const gt_transport *transport, const server_address *address, const gt_keys *keys,
                         int timeout_ms, gt_link **link)
{
    return transport == &gt__transport_tcp ? gt__tcp_connect(address->host, address->port, keys, timeout_ms, link)
                                           : transport->connect(address->host, address->port, timeout_ms, link);
}

/* A server that was starting had no socket for the faster transports when they were tried, and has them all by the time it
 * accepts: a worker that starts with its server would stay on a slow link for its life. */
static void connect_faster(int slower, const server_address *address, const gt_keys *keys, int timeout_ms,
                           gt_link **link)
{
    for (int k = 0; k < slower; k++) {
        gt_link *faster;
        if (transports[k]->same_host_only && !gt__address_is_local(address->host))
            continue;
        if (connect_by(transports[k], address, keys, timeout_ms, &faster) != GT_OK)
            continue;
        gt__link_close(*link);
        *link = faster;
        return;
    }
}

/* Try each suitable transport once. */
static gt_err connect_once(const server_address *address, const gt_keys *keys, int timeout_ms, gt_link **link)
{
    if (address->transport)
        return connect_by(address->transport, address, keys, timeout_ms, link);
    gt_err err = GT_ERR_CONNECTION;
    for (int k = 0; k < TRANSPORTS; k++) {
        if (transports[k]->same_host_only && !gt__address_is_local(address->host))
            continue;
        err = connect_by(transports[k], address, keys, timeout_ms, link);
        if (err == GT_OK)
            connect_faster(k, address, keys, timeout_ms, link);
        if (err != GT_ERR_CONNECTION)
            break;
    }
    return err;
}

gt_err gt__address_connect_with(const char *text, const gt_keys *keys, int timeout_ms, gt_link **link)
{
    server_address address;
    GT_TRY(parse_address(text, &address));
    bool local = gt__address_is_local(address.host);
    gt_err err = connect_once(&address, keys, gt__connect_timeout_ms(timeout_ms), link);
    if (err != GT_OK) {
        if (local)
            gt__address_sweep_port(address.port); /* of a server that was killed, perhaps */
        return err;
    }
    (*link)->port = local ? address.port : 0;
    gt__log(GT_LOG_STATUS, "connected to %s:%d by %s", address.host, address.port, (*link)->transport->name);
    return GT_OK;
}

gt_err gt__address_connect(const char *text, const char *key_file, int timeout_ms, gt_link **link)
{
    gt_keys keys;
    if (!key_file || !*key_file)
        key_file = getenv("GT_KEY_FILE");
    if (!key_file || !*key_file)
        return gt__address_connect_with(text, NULL, timeout_ms, link);
    GT_TRY(gt__keys_read(key_file, &keys));
    gt_err err = *keys.server ? gt__address_connect_with(text, &keys, timeout_ms, link)
                              : gt__fail(GT_ERR_VALUE,
                                         "%s does not name the server's key; add a line `server KEY`", key_file);
    explicit_bzero(&keys, sizeof keys);
    return err;
}

/* ---- hello ------------------------------------------------------------------------------------------------- */

static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

const char *const gt__exchange_names[GT_EXCHANGE_NAMES] = {"",           "local",     "mesh",     "ucx",
                                                           "local+nccl", "mesh+nccl", "ucx+nccl", ""};

static uint64_t exchange_bits(const char *name)
{
    uint64_t index = 0;
    for (uint64_t k = 1; name && k < GT_EXCHANGE_NAMES; k++)
        if (strcmp(gt__exchange_names[k], name) == 0)
            index = k;
    return index << GT_HELLO_EXCHANGE_SHIFT;
}

static gt_err send_hello(gt_link *link, gt_role role, const gt_worker_hello *self)
{
    gt_slot *hello = gt__link_reserve(link, 1 + GT_HELLO_TAIL);
    if (!hello)
        return gt__fail(GT_ERR_CONNECTION, "%s", link->dead ? link->reason : "the link is full");
    memset(hello, 0, (1 + GT_HELLO_TAIL) * sizeof *hello);
    hello->ins.op = GT_OP_hello;
    hello->ins.tail = GT_HELLO_TAIL;
    hello->ins.flags = (uint8_t)role;
    hello->ins.result = role == GT_ROLE_WORKER ? self->host : (uint64_t)getpid();
    hello->ins.operand[0] = (uint64_t)(self->number + 1) | (self->named ? GT_HELLO_NAMED : 0) |
                            (self->stand_in ? GT_HELLO_STAND_IN : 0) | exchange_bits(self->exchange);
    hello->ins.operand[1] = self->memory;
    hello->ins.operand[2] = self->group;
    hello->ins.scope = (uint32_t)(self->league >> 32);
    hello->ins.site = (uint32_t)self->league;
    hello->ins.imm[0].i = GT_PROTOCOL_VERSION;
    hello->ins.imm[1].u = gt__op_table_hash();
    copy_text((char *)hello[1].bytes, sizeof hello[1].bytes, self->name);
    copy_text((char *)hello[2].bytes, sizeof hello[2].bytes, self->engine);
    copy_text((char *)hello[3].bytes, sizeof hello[3].bytes, self->listens);
    gt_secrets secrets;
    if (role == GT_ROLE_WORKER && link->port && link->trust != GT_TRUST_NONE &&
        gt__secrets_find(link->port, &secrets)) {
        memcpy(hello[4].bytes, secrets.worker, GT_SECRET_SIZE - 1);
        explicit_bzero(&secrets, sizeof secrets);
    }
    if (self->token)
        memcpy(hello[4].bytes, self->token, strnlen(self->token, GT_SECRET_SIZE - 1));
    gt__link_commit(link, 1 + GT_HELLO_TAIL);
    gt__link_flush(link);
    return GT_OK;
}

gt_err gt__hello_send(gt_link *link, gt_role role, const char *name, const char *more)
{
    return send_hello(link, role, &(gt_worker_hello){.name = name, .engine = more, .number = -1});
}

gt_err gt__hello_send_client(gt_link *link, const char *name, const char *more, const char *token)
{
    return send_hello(link, GT_ROLE_CLIENT,
                      &(gt_worker_hello){.name = name, .engine = more, .token = token, .number = -1});
}

gt_err gt__hello_send_worker(gt_link *link, const gt_worker_hello *hello)
{
    return send_hello(link, GT_ROLE_WORKER, hello);
}

_Static_assert((int)GT_GOODBYE_TAIL + 1 <= (int)GT_LINK_LAST_ROOM, "a goodbye has room in a full link");

void gt__goodbye_send(gt_link *link, const char *reason)
{
    link->ending = true;
    gt_slot *goodbye = link->dead ? NULL : gt__link_reserve(link, 1 + GT_GOODBYE_TAIL);
    if (!goodbye)
        return;
    memset(goodbye, 0, (1 + GT_GOODBYE_TAIL) * sizeof *goodbye);
    goodbye->ins.op = GT_OP_goodbye;
    goodbye->ins.tail = GT_GOODBYE_TAIL;
    copy_text((char *)goodbye[1].bytes, GT_GOODBYE_TAIL * sizeof(gt_slot), reason);
    gt__link_commit(link, 1 + GT_GOODBYE_TAIL);
    gt__link_flush(link);
}

static gt_err read_answer(gt_link *link, const gt_slot *slots, size_t available, gt_welcome *welcome)
{
    unsigned length;
    GT_TRY(gt__instruction_check(slots, available, &length));
    if (slots->ins.op == GT_OP_goodbye) {
        char reason[GT_GOODBYE_TAIL * sizeof(gt_slot)];
        memcpy(reason, slots + 1, sizeof reason);
        reason[sizeof reason - 1] = 0;
        if (!strcmp(reason, GT_SERVER_PAUSES))
            gt__link_consume(link, length);
        return gt__fail(GT_ERR_CONNECTION, "the server refused the connection: %s", reason);
    }
    if (slots->ins.op != GT_OP_welcome)
        return gt__fail(GT_ERR_PROTOCOL, "the server did not answer the greeting");
    welcome->number = slots->ins.result;
    welcome->workers = (int)slots->ins.imm[1].i;
    welcome->max_op_seconds = slots->ins.imm[1].f;
    welcome->worker_entries = (int)slots->ins.operand[0];
    welcome->key = slots->ins.operand[1];
    welcome->life = slots->ins.operand[2];
    welcome->segments = slots->ins.flags & GT_FLAG_SEGMENTS;
    gt__link_consume(link, length);
    return GT_OK;
}

gt_err gt__hello_wait(gt_link *link, int timeout_ms, gt_welcome *welcome)
{
    uint64_t deadline = gt__deadline_ns(gt__connect_timeout_ms(timeout_ms));
    for (;;) {
        size_t available;
        const gt_slot *slots = gt__link_peek(link, &available);
        if (slots)
            return read_answer(link, slots, available, welcome);
        if (link->dead)
            return gt__fail(GT_ERR_CONNECTION, "%s", link->reason);
        int left = gt__remaining_ms(deadline);
        if (left <= 0)
            return gt__fail(GT_ERR_TIMEOUT, "the server did not answer the greeting in time");
        if (gt__link_wait(link, GT_WAIT_READ, left) == GT_ERR_INTERRUPTED)
            return GT_ERR_INTERRUPTED;
    }
}
