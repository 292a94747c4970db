/* stats.c: the dispatcher's statistics as JSON, for gt.debug and the tools. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "dispatcher.h"

/* Names come from peers: keep only what is safe inside a JSON string. */
static void write_name(FILE *json, const char *name)
{
    for (; *name; name++)
        if ((unsigned char)*name >= ' ' && *name != '"' && *name != '\\' && (unsigned char)*name < 127)
            fputc(*name, json);
}

static void write_worker(FILE *json, const gt_dispatch_worker *worker)
{
    fputs("{\"name\": \"", json);
    write_name(json, worker->name);
    fputs("\", \"engine\": \"", json);
    write_name(json, worker->engine);
    fprintf(json,
            "\", \"index\": %d, \"instructions\": %llu, \"sessions\": %llu, \"tensors\": %u, \"pending\": %u, "
            "\"link\": \"%s\"}",
            worker->index, (unsigned long long)worker->instructions, (unsigned long long)worker->sessions,
            worker->next_slot - worker->free_count, worker->pending_count,
            worker->link->transport ? worker->link->transport->name : "memory");
}

static void write_client(FILE *json, const gt_session *session)
{
    fprintf(json, "{\"number\": %llu, \"name\": \"", (unsigned long long)session->number);
    write_name(json, session->name);
    fprintf(json, "\", \"instructions\": %llu, \"tensors\": %u, \"link\": \"%s\", \"modifiers\": ",
            (unsigned long long)session->instructions, session->handles.count,
            session->link->transport ? session->link->transport->name : "memory");
    gt__chain_stats(session->chain, json);
    fputc('}', json);
}

char *gt__dispatcher_stats(const gt_dispatcher *dispatcher)
{
    char *text = NULL;
    size_t size = 0;
    FILE *json = open_memstream(&text, &size);
    if (!json)
        return NULL;
    uint64_t instructions = dispatcher->past_instructions;
    for (const gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        instructions += peer->session ? peer->session->instructions : 0;
    struct timespec cpu;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    fprintf(json,
            "{\"instructions\": %llu, \"turns\": %llu, \"sleeps\": %llu, \"cpu_seconds\": %.6f, \"seconds\": %.6f, "
            "\"workers\": [",
            (unsigned long long)instructions, (unsigned long long)dispatcher->turns,
            (unsigned long long)dispatcher->sleeps, (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9,
            (double)(gt__now_ns() - dispatcher->started_ns) * 1e-9);
    const char *separator = "";
    for (int32_t index = 0; index < dispatcher->worker_count; index++)
        if (dispatcher->workers[index]->peer) {
            fputs(separator, json);
            write_worker(json, dispatcher->workers[index]);
            separator = ", ";
        }
    fputs("], \"clients\": [", json);
    separator = "";
    for (const gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        if (peer->session) {
            fputs(separator, json);
            write_client(json, peer->session);
            separator = ", ";
        }
    fputs("]}", json);
    fclose(json);
    return text;
}
