/* link_traffic.c: see link_traffic.h. Links count slots (link.h), those who read and write them count records. */
#include "dispatcher/observe/link_traffic.h"

#include <string.h>

#include "dispatcher/state.h"
#include "dispatcher/workers.h"

static const gt_transport *const transports[GT_TRANSPORTS] = {&gt__transport_memory, &gt__transport_ipc,
                                                              &gt__transport_tcp};

static gt_link_traffic traffic_of(const gt_peer *peer)
{
    gt_link_slots slots;
    peer->link->ops->slots(peer->link, &slots);
    return (gt_link_traffic){.sent_bytes = slots.sent * sizeof(gt_slot),
                             .received_bytes = slots.received * sizeof(gt_slot),
                             .sent_records = peer->worker ? peer->worker->records : peer->link->records_sent,
                             .received_records = peer->link->records_received};
}

static void add(gt_link_traffic *sums, const gt_link_traffic *more)
{
    sums->sent_bytes += more->sent_bytes;
    sums->received_bytes += more->received_bytes;
    sums->sent_records += more->sent_records;
    sums->received_records += more->received_records;
}

/* Where the peer's traffic belongs to; NULL: it is a monitor, or has not said hello. */
static gt_link_traffic *sums_of(gt_link_traffic sums[GT_TRANSPORTS][2], const gt_peer *peer)
{
    if (!peer->worker && !peer->session)
        return NULL;
    unsigned transport = 0;
    while (transport < GT_TRANSPORTS && strcmp(transports[transport]->name, gt__link_name(peer->link)) != 0)
        transport++;
    return transport < GT_TRANSPORTS ? &sums[transport][peer->worker ? GT_TRAFFIC_WORKER : GT_TRAFFIC_CLIENT]
                                     : NULL;
}

void gt__link_traffic_keep(gt_dispatcher *dispatcher, const gt_peer *peer)
{
    gt_link_traffic *sums = sums_of(dispatcher->past_traffic, peer);
    if (!sums)
        return;
    gt_link_traffic traffic = traffic_of(peer);
    add(sums, &traffic);
}

static void write(const gt_link_traffic *traffic, FILE *json)
{
    fprintf(json,
            "\"sent_bytes\": %llu, \"received_bytes\": %llu, \"sent_records\": %llu, \"received_records\": %llu}",
            (unsigned long long)traffic->sent_bytes, (unsigned long long)traffic->received_bytes,
            (unsigned long long)traffic->sent_records, (unsigned long long)traffic->received_records);
}

void gt__link_traffic_write(const gt_peer *peer, FILE *json)
{
    gt_link_traffic traffic = traffic_of(peer);
    fputs("\"traffic\": {", json);
    write(&traffic, json);
}

void gt__link_traffic_write_all(const gt_dispatcher *dispatcher, FILE *json)
{
    static const char *const roles[] = {[GT_TRAFFIC_CLIENT] = "client", [GT_TRAFFIC_WORKER] = "worker"};
    gt_link_traffic sums[GT_TRANSPORTS][2];
    memcpy(sums, dispatcher->past_traffic, sizeof sums);
    for (const gt_peer *peer = dispatcher->peers; peer; peer = peer->next) {
        gt_link_traffic *sum = sums_of(sums, peer);
        if (!sum)
            continue;
        gt_link_traffic traffic = traffic_of(peer);
        add(sum, &traffic);
    }
    fputs("\"links\": [", json);
    for (unsigned transport = 0; transport < GT_TRANSPORTS; transport++)
        for (unsigned role = 0; role < 2; role++) {
            fprintf(json, "%s{\"link\": \"%s\", \"role\": \"%s\", ", transport || role ? ", " : "",
                    transports[transport]->name, roles[role]);
            write(&sums[transport][role], json);
        }
    fputc(']', json);
}
