/* exchange_mesh.h: what the two files of the mesh share: exchange_mesh.c who talks to whom, mesh_link.c messages
 * on a link. */
#ifndef GT_WORKER_PEERS_EXCHANGE_MESH_H
#define GT_WORKER_PEERS_EXCHANGE_MESH_H

#include <pthread.h>

#include "worker/peers/exchange.h"
#include "link/link.h"

/* Shared memory for messages on one link, used again and again. */
typedef struct gt_mesh_segment {
    struct gt_mesh_segment *next;
    gt_segment *segment;
} gt_mesh_segment;

/* One link, for the mesh's thread alone. */
typedef struct gt_mesh_link {
    struct gt_mesh_link *next;
    gt_link *link;
    int32_t worker;      /* at the other end; -1: it has not said */
    gt_life life;        /* of that worker */
    gt_message *sending; /* off the peer's queue, its header written */
    size_t sent;         /* bytes of it */
    gt_message *arriving;
    size_t arrived, expected; /* bytes of it in the stream */
    bool dropping;            /* they are: there was no memory for them */
    gt_mesh_segment *segments;
} gt_mesh_link;

/* Another worker, with the mutex. */
typedef struct gt_mesh_peer {
    char name[64], address[128];
    gt_life life;      /* the one that our stream has been told of; 0: none yet */
    gt_life newest;    /* the last one we have heard of, if only from itself: those before it are gone */
    gt_life gone_life; /* the one that `gone` is about */
    char gone[160];    /* why; "": it is not, as far as we know */
    gt_message *queue, **last;
    bool wanted; /* somebody waits for a message of it */
    bool connecting;
    gt_link *fresh; /* what an attempt has got, to `life` */
    uint64_t deadline, again_ns;
} gt_mesh_peer;

typedef struct gt_mesh {
    gt_exchange base;
    pthread_t thread;
    bool running;
    atomic_bool ending;
    int bell; /* eventfd: wakes the thread */
    gt_acceptor *acceptors[2];
    unsigned acceptor_count;
    char address[128], server_host[128];
    gt_mesh_link *links;   /* the thread's */
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t changed;
    bool joined;
    gt_life life;
    uint64_t key;
    gt_mesh_peer **peers; /* by worker */
    int32_t peer_count;
    gt_message *arrived;      /* that nobody has taken */
    gt_message *returned;     /* sent: what they lent can be given back */
    atomic_bool any_returned; /* to be seen without the mutex */
    unsigned attempts;        /* threads that connect */
} gt_mesh;

/* With the mutex: whether a link leads to the worker that our stream means. */
static inline bool gt__mesh_leads_to(const gt_mesh_link *end, const gt_mesh_peer *peer)
{
    return !peer->life || !end->life || end->life == peer->life;
}

/* With the mutex: the message is sent, or will never be. */
static inline void gt__mesh_return(gt_mesh *mesh, gt_message *message)
{
    message->next = mesh->returned;
    mesh->returned = message;
    atomic_store_explicit(&mesh->any_returned, true, memory_order_relaxed);
}

/* exchange_mesh.c. What we know of a worker, perhaps nothing yet. With the mutex; NULL: out of memory, or an absurd
 * number. */
gt_mesh_peer *gt__mesh_peer(gt_mesh *mesh, int32_t worker);

/* mesh_link.c. Whether there was something to do; a link that sends nonsense is killed. */
bool gt__mesh_read(gt_mesh *mesh, gt_mesh_link *end);
bool gt__mesh_write(gt_mesh *mesh, gt_mesh_link *end);
void gt__mesh_link_free(gt_mesh *mesh, gt_mesh_link *end);

#endif
