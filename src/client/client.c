/* client.c: opening and closing clients. Read emit.c next. */
#include "client/client.h"
#include "client/hotpath.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/autograd.h"
#include "client/intercept.h"
#include "link/hello.h"
#include "core/log.h"
#include "client/program.h"
#include "core/settings.h"
#include "client/signals.h"

unsigned gt__fork_generation;

static void after_fork_in_child(void)
{
    gt__fork_generation++;
    gt__client_reset_lock();
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

static gt_err client_new(gt_client **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    gt__log_init();
    GT_TRY(gt__signal_config_init());
    if (gt__setting(GT_SETTING_SYNC) != 0)
        gt__synchronous_set(true);
    gt_client *client = calloc(1, sizeof *client);
    if (!client)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    client->generation = gt__fork_generation;
    client->next_id = 1;
    client->next_ticket = 1;
    client->seed = gt__now_ns() ^ (uint64_t)(uintptr_t)client;
    client->hotpath = gt__hotpath_new();
    *out = client;
    return GT_OK;
}

gt_err gt__null_argument(const char *function, const char *arguments, unsigned which)
{
    for (; which; which--)
        arguments = strchr(arguments, ',') + 2;
    return gt__fail(GT_ERR_VALUE, "%s: %.*s is NULL", function, (int)strcspn(arguments, ","), arguments);
}

void gt__client_maybe_destroy(gt_client *client)
{
    if (!client->closed || client->live)
        return;
    gt__node_free_spares(client);
    while (client->spare) {
        gt_tensor *next = client->spare->next_spare;
        free(client->spare);
        client->spare = next;
    }
    while (client->transfers) {
        gt_transfer *next = client->transfers->next;
        gt__segment_release(client->transfers->segment);
        free(client->transfers);
        client->transfers = next;
    }
    gt__hotpath_free(&client->hotpath);
    free(client->frees);
    free(client->names);
    free(client->key_file);
    free(client->inherited);
    free(client);
}

/* The server's next answer to the hello; an error if a worker of our embedded server ends instead of joining. */
static gt_err await_answer(gt_client *client, uint64_t deadline, gt_welcome *welcome)
{
    enum { LOOK_MS = 20 }; /* between looks at the embedded server's workers */
    gt_err err;
    do {
        int left = gt__remaining_ms(deadline);
        if (left <= 0)
            return gt__fail(GT_ERR_TIMEOUT, "the server did not answer the greeting in time");
        err = gt__hello_wait(client->link, client->embedded && left > LOOK_MS ? LOOK_MS : left, welcome);
        if (client->embedded)
            GT_TRY(gt__embedded_failure(client->embedded));
    } while (err == GT_ERR_TIMEOUT);
    return err;
}

/* Send the hello and wait until the server has `workers` workers. `token`: of a session that is attached; NULL: none. */
static gt_err introduce(gt_client *client, const char *token, int workers, int timeout_ms)
{
    uint64_t deadline = gt__deadline_ns(gt__connect_timeout_ms(timeout_ms));
    gt_welcome welcome = {0};
    char name[sizeof(gt_slot)];
    gt__program_name(name, sizeof name);
    gt__link_resumes(client->link, gt__setting_ms(GT_SETTING_RESUME));
    GT_TRY(gt__hello_send_client(client->link, name, getenv("TRACEPARENT"), token));
    while (!welcome.number || welcome.workers < workers) {
        gt_err err = await_answer(client, deadline, &welcome);
        if (err == GT_ERR_INTERRUPTED && !(gt__wait_hooks.interrupted && gt__wait_hooks.interrupted()))
            continue; /* a signal handler ran and did not ask to stop */
        if (err == GT_ERR_TIMEOUT && welcome.number)
            return gt__fail(GT_ERR_TIMEOUT, "the server at %s has no worker; start one with `gt worker`",
                            client->address);
        GT_TRY(err);
    }
    client->number = welcome.number;
    client->workers = welcome.workers;
    client->worker_entries = welcome.worker_entries;
    client->segments = welcome.segments;
    client->usable = true;
    return gt__signal_introduce(client);
}

gt_err gt_client_connect(const char *address, int timeout_ms, gt_client **out)
{
    GT_ARGUMENTS(out, address);
    return gt_client_connect_key(address, NULL, timeout_ms, out);
}

gt_err gt__client_open(const char *address, const char *key_file, int timeout_ms, const char *token,
                       gt_client **out)
{
    gt_client *client;
    GT_TRY(client_new(&client));
    snprintf(client->address, sizeof client->address, "%s", address);
    client->key_file = key_file ? strdup(key_file) : NULL;
    gt_err err = gt__address_connect(address, key_file, timeout_ms, &client->link);
    /* Who attaches a session waits for no worker: if none came in time, the session would be lost. */
    if (err == GT_OK)
        err = introduce(client, token, token ? 0 : 1, timeout_ms);
    if (err != GT_OK) {
        gt_client_close(&client);
        return err;
    }
    const char *plain = strstr(address, "://");
    snprintf(client->description, sizeof client->description, "%s://%s", client->link->transport->name,
             plain ? plain + 3 : address);
    *out = client;
    return GT_OK;
}

gt_err gt_client_connect_key(const char *address, const char *key_file, int timeout_ms, gt_client **out)
{
    GT_ARGUMENTS(out, address);
    return gt__client_open(address, key_file, timeout_ms, NULL, out);
}

gt_err gt_client_set_weight(gt_client *client, double weight)
{
    gt_slot *record;
    GT_REQUIRE(client);
    if (!(weight > 0 && weight <= GT_MOST_WEIGHT))
        return gt__fail(GT_ERR_VALUE, "a weight is a number above 0 and up to %d, not %g", GT_MOST_WEIGHT, weight);
    GT_TRY(gt__client_reserve(client, 1, &record));
    record->ins = (gt_instruction){.op = GT_OP_share};
    record->ins.imm[0].f = weight;
    gt__client_commit(client, 1, 0);
    return GT_OK;
}

gt_err gt_client_open_embedded(int workers, gt_client **out)
{
    GT_CLEAR(out);
    GT_REQUIRE(out);
    gt_client *client;
    if (gt__embedded_serves())
        return gt__embedded_refuse();
    GT_TRY(client_new(&client));
    snprintf(client->address, sizeof client->address, "embedded");
    gt_err err = gt__embedded_start(workers, NULL, &client->embedded, &client->link);
    if (err == GT_OK)
        err = introduce(client, NULL, workers, 0);
    if (err != GT_OK) {
        gt_client_close(&client);
        return err;
    }
    snprintf(client->description, sizeof client->description, "embedded server, %d worker%s", workers,
             workers == 1 ? "" : "s");
    *out = client;
    return GT_OK;
}

void gt_client_close(gt_client **where)
{
    gt_client *client = where ? *where : NULL;
    GT_CLEAR(where);
    if (!client || client->closed)
        return;
    bool ours = client->generation == gt__fork_generation;
    if (client->link && ours && client->hotpath)
        gt__hotpath_release(client);
    client->closed = true;
    client->usable = false;
    client->free_room = 0;
    if (client->link && ours) {
        gt__goodbye_send(client->link, "");
        gt__link_close(client->link);
    } else if (client->link)
        gt__link_abandon(client->link);
    client->link = NULL;
    if (client->embedded && ours)
        gt__embedded_stop(&client->embedded);
    gt__client_maybe_destroy(client);
}

const char *gt_client_description(const gt_client *client)
{
    return client ? client->description : "";
}

void gt_manual_seed(gt_client *client, uint64_t seed)
{
    if (!client)
        return;
    client->seed = seed;
    client->stream = 0;
}
