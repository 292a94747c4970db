/* exchange_mesh.h: shared by the three files of the mesh: exchange_mesh.c connects workers, mesh_link.c moves messages on a
 * link, mesh_lane.c has another way for them. */
#ifndef GT_WORKER_PEERS_EXCHANGE_MESH_H
#define GT_WORKER_PEERS_EXCHANGE_MESH_H

#include <pthread.h>

#include "engines/engine.h"
#include "worker/peers/exchange.h"
#include "worker/peers/lane.h"
#include "worker/peers/mailbox.h"
#include "link/keys.h"
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
    int32_t worker;      /* at the other end; -1: not known yet */
    gt_life life;        /* of that worker */
    gt_message *sending; /* off the peer's queue, its header written */
    size_t sent;         /* bytes of it */
    gt_message *arriving;
    size_t arrived, expected; /* bytes of it in the stream */
    bool dropping;            /* discard them: out of memory */
    gt_mesh_segment *segments;
    gt_lane_end *lane; /* which we have offered; NULL: not */
    bool lane_open;    /* the other has too: messages go there */
    uint64_t ends_by;  /* a deadline: gt__mesh_link_doom; 0: all is well */
    char why[GT_LANE_WHY];
} gt_mesh_link;

/* Another worker, with the mutex. */
typedef struct gt_mesh_peer {
    char name[64], address[128]; /* the address without the key */
    char key[GT_KEY_SIZE];       /* of its tcp port; "": it has none, and is on this host */
    gt_life life;                /* the generation that our stream knows; 0: none yet */
    gt_life newest;    /* the latest generation known, from the stream or a hello: earlier ones are gone */
    gt_life gone_life; /* the generation that `gone` refers to */
    char gone[160];    /* why it is gone; "": it is not, as far as we know */
    bool unreached;    /* we found no way to it: `gone` is where we tried. It may reach us until the deadline */
    unsigned refusals; /* attempts to connect that were refused, one after the other */
    gt_message *queue, **last;
    bool wanted; /* our worker waits for a message of it */
    bool connecting;
    bool linked;    /* there is a link to it, */
    bool lane_open; /* and one of them has a lane that works */
    gt_link *fresh; /* a new link to `life`, from an attempt */
    uint64_t deadline, again_ns;
} gt_mesh_peer;

typedef struct gt_mesh {
    gt_exchange base;
    pthread_t thread;
    bool running, left;
    atomic_bool ending;
    int bell; /* eventfd: wakes the thread */
    gt_acceptor *acceptors[2];
    unsigned acceptor_count;
    char place[80];    /* where we listen, "host:port" */
    char address[128]; /* the same, with the key of the tcp port if there is one */
    char server_host[128];
    gt_keys keys;        /* of our tcp port, and by which we connect to those of others */
    gt_mesh_link *links; /* the thread's, like the lane */
    const gt_lane_ops *lane_ops;
    gt_lane *lane;     /* NULL: messages go by links alone */
    gt_engine *engine; /* whose memory the lane reaches; NULL: none */
    bool entered;      /* the thread may use that memory */
    size_t lane_from;  /* bytes: where a link has shared memory, smaller messages go by that, which is as fast */
    gt_mesh_segment *rooms; /* for what arrives by the lane */
    uint64_t rooms_until;   /* a deadline: then those that are not in use are freed */
    atomic_ullong by_lane;  /* messages that were sent by it */
    pthread_mutex_t mutex;  /* guards all below */
    pthread_cond_t changed;
    bool joined;
    gt_life life;
    uint64_t key;
    gt_mesh_peer **peers; /* by worker */
    int32_t peer_count;
    gt_mailbox arrived;       /* not taken yet; also those that are announced */
    gt_message *fetches;      /* of these, what the thread is to fetch: by `fetched` */
    uint64_t news;            /* gt_exchange.news */
    gt_message *returned;     /* sent: the memory they lent can be reclaimed */
    atomic_bool any_returned; /* readable without the mutex */
    unsigned attempts;        /* threads that connect */
} gt_mesh;

/* With the mutex: whether a link leads to the generation that our stream refers to. */
static inline bool gt__mesh_leads_to(const gt_mesh_link *end, const gt_mesh_peer *peer)
{
    return !peer->life || !end->life || end->life == peer->life;
}

/* With the mutex: a message has arrived, or is not to be expected any more. */
static inline void gt__mesh_news(gt_mesh *mesh)
{
    mesh->news++;
    pthread_cond_broadcast(&mesh->changed);
}

/* With the mutex: whether this generation was linked with us, and its link was lost: so was what was in it, which is not
 * known. Another link would not bring it back, and it would be waited for. */
static inline bool gt__mesh_lost(const gt_mesh_peer *peer, gt_life life)
{
    return *peer->gone && !peer->unreached && peer->gone_life == life;
}

/* Whether messages can go by this link's lane. */
static inline bool gt__mesh_has_lane(const gt_mesh_link *end)
{
    return end->lane_open && !end->ends_by;
}

/* Tell the thread that there is something to do. */
void gt__mesh_wake(gt_mesh *mesh);

/* With the mutex: the message is sent or dropped. */
static inline void gt__mesh_return(gt_mesh *mesh, gt_message *message)
{
    message->next = mesh->returned;
    mesh->returned = message;
    atomic_store_explicit(&mesh->any_returned, true, memory_order_relaxed);
}

/* exchange_mesh.c. The peer with this index, added if new. With the mutex. NULL: out of memory, or the index is out of
 * range. */
gt_mesh_peer *gt__mesh_peer(gt_mesh *mesh, int32_t worker);

/* A way to the worker at the other end is lost, and what was in it: another link or a lane. While this link is left the worker is not gone,
 * and what was lost would be waited for. So it ends as well; not at once: the other may just be leaving, and what it sent comes first. */
void gt__mesh_link_doom(gt_mesh_link *end, const char *why);

/* mesh_link.c. True: it made progress. A malformed record kills the link. */
bool gt__mesh_read(gt_mesh *mesh, gt_mesh_link *end);
bool gt__mesh_write(gt_mesh *mesh, gt_mesh_link *end);
void gt__mesh_link_free(gt_mesh *mesh, gt_mesh_link *end);
void gt__mesh_arrived(gt_mesh *mesh, gt_message *message);

/* mesh_lane.c. `host`: our address; `listens`: others may reach us there. */
gt_err gt__mesh_lane_open(gt_mesh *mesh, const char *host, bool listens);
void gt__mesh_lane_close(gt_mesh *mesh);
/* On a new link, when it is known who the other is. */
void gt__mesh_lane_offer(gt_mesh *mesh, gt_mesh_link *end);
/* An offer came. Returns what is wrong with it. */
const char *gt__mesh_lane_offered(gt_mesh *mesh, gt_mesh_link *end, const gt_slot *record);
bool gt__mesh_lane_takes(const gt_mesh *mesh, const gt_mesh_link *end, const gt_message *message);
/* The exchange's attach, takes_exposed and fetch. */
void gt__mesh_lane_attach(gt_exchange *exchange, gt_engine *engine);
bool gt__mesh_lane_takes_exposed(gt_exchange *exchange, int32_t to, size_t bytes);
void gt__mesh_lane_fetch(gt_exchange *exchange, gt_message *message, void *to, void *lent);
/* Before the thread first uses the engine's memory. False: it cannot. */
bool gt__mesh_lane_enter(gt_mesh *mesh);
/* Start what is to be fetched. True: progress. */
bool gt__mesh_lane_fetch_all(gt_mesh *mesh);
/* With the mutex, when the lane is closed: hand back the places of messages that were not taken. */
void gt__mesh_lane_return_places(gt_mesh *mesh);
/* Nothing has come for a while: free the memory that waits for it. */
void gt__mesh_lane_idle(gt_mesh *mesh);
/* Before a link that is lost is freed: take what arrived. */
void gt__mesh_lane_drain(gt_mesh *mesh, const gt_mesh_link *end);

enum { GT_MESH_OFFER = 1 }; /* operand[0] of a data record */

#endif
