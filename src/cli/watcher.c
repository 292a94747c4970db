/* watcher.c: see watcher.h. Used by top/top.c and trace.c. */
#include "cli/watcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link/address.h"
#include "cli/array.h"
#include "cli/cli.h"
#include "link/hello.h"

enum {
    MOST_BYTES = 64 << 20, /* of one message */
    LOOK_UP_MS = 100 /* how often a wait looks at watcher->stop: a signal just before the wait does not end it */
};

static gt_err choose_address(gt_watcher *watcher, const gt_watch_options *options, unsigned which)
{
    const char *host = options->host ? options->host : "localhost", *scheme = strstr(host, "://");
    int port = options->port;
    watcher->server_count = 0;
    if (!port && !gt__address_is_local(scheme ? scheme + 3 : host))
        port = GT_DEFAULT_PORT; /* the servers of another host cannot be listed */
    if (!port) {
        watcher->server_count = gt__servers_find(watcher->servers, options->hurry);
        if (!watcher->server_count)
            return gt__fail(GT_ERR_CONNECTION,
                            "no dispatcher runs here; start a program that uses GT, or `gt server`");
        port = watcher->servers[which % watcher->server_count];
    }
    int length = snprintf(watcher->address, sizeof watcher->address, "%s:%d", host, port);
    return length < (int)sizeof watcher->address
               ? GT_OK
               : gt__fail(GT_ERR_VALUE, "'%.40s...' is too long for a host", host);
}

gt_err gt__watcher_ask(gt_watcher *watcher, uint64_t topics, int interval_ms, uint64_t client)
{
    gt_slot *slot = gt__link_reserve(watcher->link, 1);
    if (!slot)
        return gt__fail(GT_ERR_CONNECTION, "%s", watcher->link->reason);
    slot->ins = (gt_instruction){.op = GT_OP_watch};
    slot->ins.imm[0].u = topics;
    slot->ins.imm[1].i = interval_ms;
    slot->ins.operand[0] = client;
    gt__link_commit(watcher->link, 1);
    gt__link_flush(watcher->link);
    return GT_OK;
}

static gt_err greet_and_ask(gt_watcher *watcher, uint64_t topics, int interval_ms)
{
    gt_welcome welcome;
    GT_TRY(gt__hello_send(watcher->link, GT_ROLE_MONITOR, "monitor", NULL));
    GT_TRY(gt__hello_wait(watcher->link, gt__connect_timeout_ms(0), &welcome));
    return gt__watcher_ask(watcher, topics, interval_ms, 0);
}

gt_err gt__watcher_open(gt_watcher *watcher, const gt_watch_options *options, unsigned which, uint64_t topics,
                        int interval_ms)
{
    gt__watcher_close(watcher);
    GT_TRY(choose_address(watcher, options, which));
    gt_err err = gt__address_connect(watcher->address, NULL, 0, &watcher->link);
    if (err != GT_OK) {
        watcher->link = NULL;
        return err;
    }
    watcher->filled = 0;
    watcher->lost = 0;
    err = greet_and_ask(watcher, topics, interval_ms);
    if (err != GT_OK)
        gt__watcher_close(watcher);
    return err;
}

gt_err gt__watcher_adopt(gt_watcher *watcher, gt_link *link, uint64_t topics, int interval_ms)
{
    gt__watcher_close(watcher);
    watcher->link = link;
    gt_err err = greet_and_ask(watcher, topics, interval_ms);
    if (err != GT_OK)
        gt__watcher_close(watcher);
    return err;
}

gt_err gt__watcher_unique(const gt_watcher *watcher)
{
    if (watcher->server_count < 2)
        return GT_OK;
    char list[512] = "";
    for (unsigned k = 0; k < watcher->server_count; k++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%d", k ? ", " : "", watcher->servers[k]);
    return gt__fail(GT_ERR_VALUE, "several dispatchers run here (%s); choose one with --port", list);
}

void gt__watcher_close(gt_watcher *watcher)
{
    if (watcher->link) {
        gt__goodbye_send(watcher->link, "");
        gt__link_close(watcher->link);
    }
    watcher->link = NULL;
    free(watcher->text);
    watcher->text = NULL;
    watcher->filled = watcher->capacity = 0;
}

/* Add a piece; true: the message is complete. Pieces of a text whose beginning was lost are dropped. */
static bool take_piece(gt_watcher *watcher, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    size_t bytes = (size_t)ins->imm[1].u;
    if (ins->imm[0].u == 0)
        watcher->filled = 0;
    if (ins->imm[0].u != watcher->filled || bytes > ins->tail * sizeof(gt_slot) || watcher->filled > MOST_BYTES)
        return false;
    while (watcher->capacity < watcher->filled + bytes + 1)
        gt__array_room((void **)&watcher->text, watcher->capacity, &watcher->capacity, 1);
    memcpy(watcher->text + watcher->filled, record + 1, bytes);
    watcher->filled += bytes;
    watcher->text[watcher->filled] = 0;
    return ins->flags & GT_FLAG_LAST;
}

gt_err gt__watcher_next(gt_watcher *watcher, int timeout_ms, uint64_t *topic)
{
    uint64_t deadline = gt__deadline_ns(timeout_ms);
    for (;;) {
        size_t available;
        const gt_slot *slots;
        while ((slots = gt__link_peek(watcher->link, &available))) {
            gt_slot record[1 + GT_MAX_TAIL];
            unsigned length;
            record[0] = slots[0];
            gt_err err = gt__instruction_check(record, available, &length);
            if (err != GT_OK) { /* where the next one begins is not known */
                gt__link_kill(watcher->link, "malformed record of the server: %s", gt_error_text());
                return err;
            }
            memcpy(record + 1, slots + 1, (length - 1) * sizeof *record);
            gt__link_consume(watcher->link, length);
            if (record->ins.op == GT_OP_goodbye)
                return gt__fail(GT_ERR_CONNECTION, "the server is stopping");
            if (record->ins.op != GT_OP_reply || !take_piece(watcher, record))
                continue;
            watcher->lost = record->ins.operand[0];
            watcher->filled = 0;
            *topic = record->ins.result;
            return GT_OK;
        }
        if (watcher->link->dead)
            return gt__fail(GT_ERR_CONNECTION, "%s", watcher->link->reason);
        int remaining = gt__remaining_ms(deadline);
        if (remaining == 0)
            return GT_ERR_TIMEOUT;
        if (watcher->stop && atomic_load(watcher->stop))
            return GT_ERR_INTERRUPTED;
        if (watcher->stop && (remaining < 0 || remaining > LOOK_UP_MS))
            remaining = LOOK_UP_MS;
        gt_err err = gt__link_wait(watcher->link, GT_WAIT_READ, remaining);
        if (err == GT_ERR_INTERRUPTED)
            return err;
    }
}
