/* link_traffic.h: what goes over the links of clients and workers, for statistics. */
#ifndef GT_DISPATCHER_OBSERVE_LINK_TRAFFIC_H
#define GT_DISPATCHER_OBSERVE_LINK_TRAFFIC_H

#include <stdint.h>
#include <stdio.h>

typedef struct gt_dispatcher gt_dispatcher;
typedef struct gt_peer gt_peer;

/* Sent by the dispatcher, received from the peer. Bulk data in shared memory does not go over a link. */
typedef struct gt_link_traffic {
    uint64_t sent_bytes, received_bytes, sent_records, received_records;
} gt_link_traffic;

enum { GT_TRANSPORTS = 3, GT_TRAFFIC_CLIENT = 0, GT_TRAFFIC_WORKER = 1 };

/* A peer leaves: what went over its link stays in the sums. */
void gt__link_traffic_keep(gt_dispatcher *dispatcher, const gt_peer *peer);
/* "traffic": {...} of a peer. */
void gt__link_traffic_write(const gt_peer *peer, FILE *json);
/* "links": [{"link": "tcp", "role": "worker", ...}, ...]: all peers that are and were there. */
void gt__link_traffic_write_all(const gt_dispatcher *dispatcher, FILE *json);

#endif
