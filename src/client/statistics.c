/*
 * statistics.c: the server's statistics at any moment, for a client that does not want to wait.
 *
 * A client's own stream is the wrong way to ask: the question would wait behind the client's work. So the client connects once
 * more, as a monitor (dispatcher/observe/monitor.h), takes one answer and leaves. progress.c stays for as long as it waits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "core/report.h"
#include "link/hello.h"

enum {
    PATIENCE_MS = 1000, /* a dispatcher answers within milliseconds, unless the machine is overloaded */
    NEVER_MS = 3600000, /* the interval of further answers, which are not read */
    MOST_BYTES = 64 << 20,
};

typedef struct text {
    char *bytes;
    size_t count;
} text;

/* Add a piece of the answer. *done: it was the last. */
static gt_err take_piece(text *to, const gt_slot *record, bool *done)
{
    const gt_instruction *ins = &record->ins;
    size_t bytes = (size_t)ins->imm[1].u;
    if (ins->op == GT_OP_goodbye)
        return gt__fail(GT_ERR_CONNECTION, "the server is stopping");
    if (ins->op != GT_OP_reply)
        return GT_OK;
    if (ins->imm[0].u != to->count || bytes > ins->tail * sizeof(gt_slot) || to->count > MOST_BYTES)
        return gt__fail(GT_ERR_PROTOCOL, "the server sent malformed statistics");
    char *grown = realloc(to->bytes, to->count + bytes + 1);
    if (!grown)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    memcpy(grown + to->count, record + 1, bytes);
    to->bytes = grown;
    to->count += bytes;
    to->bytes[to->count] = 0;
    *done = ins->flags & GT_FLAG_LAST;
    return GT_OK;
}

static gt_err receive(gt_link *link, uint64_t deadline, text *to)
{
    for (bool done = false; !done;) {
        size_t available;
        unsigned length;
        const gt_slot *slots = gt__link_peek(link, &available);
        if (slots) {
            GT_TRY(gt__instruction_check(slots, available, &length));
            GT_TRY(take_piece(to, slots, &done));
            gt__link_consume(link, length);
            continue;
        }
        int left_ms = gt__remaining_ms(deadline);
        if (link->dead)
            return gt__fail(GT_ERR_CONNECTION, "%s", link->reason);
        if (!left_ms)
            return gt__fail(GT_ERR_TIMEOUT, "the server did not send its statistics in time");
        gt__link_wait(link, GT_WAIT_READ, left_ms);
    }
    return GT_OK;
}

/* Say hello as a monitor, and ask. */
static gt_err ask(gt_link *link, uint64_t topic, uint64_t about, int interval_ms, int patience_ms)
{
    gt_welcome welcome;
    uint64_t deadline = gt__deadline_ns(patience_ms);
    GT_TRY(gt__hello_send(link, GT_ROLE_MONITOR, "client", NULL));
    gt_err err;
    do {
        int left_ms = gt__remaining_ms(deadline);
        err = gt__hello_wait(link, left_ms > 0 ? left_ms : 1, &welcome);
    } while (err == GT_ERR_INTERRUPTED);
    GT_TRY(err);
    gt_slot *slot = gt__link_reserve(link, 1);
    if (!slot)
        return gt__fail(GT_ERR_CONNECTION, "%s", link->reason);
    slot->ins = (gt_instruction){.op = GT_OP_watch, .operand = {about}};
    slot->ins.imm[0].u = topic;
    slot->ins.imm[1].i = interval_ms;
    gt__link_commit(link, 1);
    gt__link_flush(link);
    return GT_OK;
}

gt_err gt__client_monitor(gt_client *client, uint64_t topic, int interval_ms, int patience_ms, gt_link **out)
{
    char address[sizeof client->address];
    memcpy(address, client->address, sizeof address);
    if (client->embedded)
        snprintf(address, sizeof address, "memory://localhost:%d", gt__embedded_port(client->embedded));
    GT_TRY(client->embedded ? gt__address_connect_with(address, NULL, patience_ms, out)
                            : gt__address_connect(address, client->key_file, patience_ms, out));
    gt_err err = ask(*out, topic, client->number, interval_ms, patience_ms);
    if (err != GT_OK)
        gt__link_close(*out);
    return err;
}

gt_err gt__client_glance(gt_client *client, char **json)
{
    text answer = {0};
    gt_link *link;
    void *state = gt__wait_hooks.before ? gt__wait_hooks.before() : NULL;
    gt_err err = gt__client_monitor(client, GT_TOPIC_STATS, NEVER_MS, PATIENCE_MS, &link);
    if (err == GT_OK) {
        err = receive(link, gt__deadline_ns(PATIENCE_MS), &answer);
        gt__goodbye_send(link, "");
        gt__link_close(link);
    }
    if (gt__wait_hooks.after)
        gt__wait_hooks.after(state);
    if (err != GT_OK) {
        free(answer.bytes);
        return err;
    }
    *json = answer.bytes;
    return GT_OK;
}
