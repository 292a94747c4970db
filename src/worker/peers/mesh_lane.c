/*
 * mesh_lane.c: the mesh's side of a lane (lane.h): it opens one if GT_EXCHANGE asks for it, offers it on new links, and gives it
 * memory for what arrives.
 *
 * An offer is one data record outside of a message; operand[0] says so. Large messages arrive in segments of our own, which are
 * used again once the worker is done: fresh pages cost as much as the transfer.
 *
 * Where the lane reaches the engine's memory, tensors arrive there. Only the worker's thread can allocate it, in the order of the
 * engine's queue. So such a message is announced first; the worker claims it when its record is at hand, and has it fetched. Until
 * then it lies in the sender's memory.
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "worker/peers/exchange_mesh.h"

enum {
    SEGMENT_FROM = 64 << 10, /* bytes; smaller messages have their bytes behind them */
    MOST_ROOMS = 64,
    ROOMS_MS = 5000, /* rooms are kept so long after the last was used, as a worker keeps memory */
};

/* ---- events ------------------------------------------------------------------------------------------------ */

static void free_room(gt_mesh_segment **where)
{
    gt_mesh_segment *unused = *where;
    *where = unused->next;
    gt__segment_release(unused->segment);
    free(unused);
}

void gt__mesh_lane_idle(gt_mesh *mesh)
{
    if (!mesh->rooms || gt__remaining_ms(mesh->rooms_until))
        return;
    for (gt_mesh_segment **s = &mesh->rooms; *s;)
        if (gt__segment_busy((*s)->segment))
            s = &(*s)->next;
        else
            free_room(s);
}

/* A segment of ours with room for so many bytes, marked as in use; NULL: none. */
static gt_segment *find_room(gt_mesh *mesh, size_t bytes)
{
    unsigned count = 0;
    gt_mesh_segment **idle = NULL;
    mesh->rooms_until = gt__deadline_ns(ROOMS_MS);
    for (gt_mesh_segment **s = &mesh->rooms; *s; s = &(*s)->next, count++) {
        if (gt__segment_busy((*s)->segment))
            continue;
        if ((*s)->segment->bytes >= bytes && (*s)->segment->bytes / 2 <= bytes) {
            gt__segment_give((*s)->segment);
            return (*s)->segment;
        }
        idle = s;
    }
    if (idle) { /* the sizes have changed */
        free_room(idle);
        count--;
    }
    gt_mesh_segment *fresh = count < MOST_ROOMS ? calloc(1, sizeof *fresh) : NULL;
    if (!fresh || gt__segment_new(bytes, &fresh->segment) != GT_OK) {
        free(fresh);
        return NULL;
    }
    fresh->next = mesh->rooms;
    mesh->rooms = fresh;
    gt__segment_give(fresh->segment);
    return fresh->segment;
}

static gt_message *room(void *context, void *link, const gt_message *content, void **data)
{
    gt_mesh *mesh = context;
    const gt_mesh_link *end = link;
    size_t behind = content->bytes;
    gt_segment *segment = content->bytes >= SEGMENT_FROM ? find_room(mesh, content->bytes) : NULL;
    if (segment || behind > SIZE_MAX - sizeof(gt_message))
        behind = 0;
    gt_message *message = malloc(sizeof *message + behind);
    bool fits = message && (segment || behind == content->bytes);
    if (!fits && segment)
        gt__segment_done(segment);
    if (!message && !(message = malloc(sizeof *message)))
        return NULL;
    *message = *content;
    message->key.from = end->worker;
    message->owner = fits && segment ? gt__segment_retain(segment) : NULL;
    message->data = *data = !fits ? NULL : segment ? (void *)segment->data : message + 1;
    if (!fits) {
        message->err = GT_ERR_MEMORY;
        message->bytes = 0;
    }
    return message;
}

static gt_message *announced(void *context, void *link, const gt_message *content, void *pending)
{
    const gt_mesh_link *end = link;
    gt_message *message = malloc(sizeof *message);
    if (!message)
        return NULL;
    *message = *content;
    message->key.from = end->worker;
    message->state = GT_MESSAGE_ANNOUNCED;
    message->pending = pending;
    gt__mesh_arrived(context, message);
    return message;
}

static void arrived(void *context, gt_message *message)
{
    gt_mesh *mesh = context;
    if (message->state == GT_MESSAGE_HERE) {
        gt__mesh_arrived(mesh, message);
        return;
    }
    pthread_mutex_lock(&mesh->mutex);
    message->state = GT_MESSAGE_HERE; /* it is in the list since it was announced */
    gt__mesh_news(mesh);
    pthread_mutex_unlock(&mesh->mutex);
}

/* With the mutex: take it off the lists. */
static void unlist(gt_mesh *mesh, gt_message *message)
{
    gt_message **where = &mesh->fetches;
    gt__mailbox_remove(&mesh->arrived, message);
    while (*where && *where != message)
        where = &(*where)->fetched;
    if (*where)
        *where = message->fetched;
}

/* One that was announced. Its place, if it has one, goes back to the worker. */
static void lost_before_fetched(gt_mesh *mesh, gt_message *message)
{
    pthread_mutex_lock(&mesh->mutex);
    unlist(mesh, message);
    message->pending = NULL;
    if (message->state == GT_MESSAGE_CLAIMED)
        message->state = GT_MESSAGE_LOST; /* the worker frees it */
    else
        gt__mesh_return(mesh, message);
    gt__mesh_news(mesh);
    pthread_mutex_unlock(&mesh->mutex);
}

static void lost(void *context, gt_message *message)
{
    if (message->state != GT_MESSAGE_HERE) {
        lost_before_fetched(context, message);
        return;
    }
    if (message->owner) {
        gt__segment_done(message->owner);
        gt__segment_release(message->owner);
    }
    free(message);
}

static void sent(void *context, gt_message *message)
{
    gt_mesh *mesh = context;
    pthread_mutex_lock(&mesh->mutex);
    gt__mesh_return(mesh, message);
    pthread_mutex_unlock(&mesh->mutex);
}

static void failed(void *context, void *link, const char *why)
{
    const gt_mesh *mesh = context;
    char text[GT_LANE_WHY];
    snprintf(text, sizeof text, "%s: %.140s", mesh->lane_ops->name, why);
    gt__mesh_link_doom(link, text);
}

/* ---- links ------------------------------------------------------------------------------------------------- */

void gt__mesh_lane_offer(gt_mesh *mesh, gt_mesh_link *end)
{
    uint8_t offer[GT_LANE_OFFER];
    size_t bytes = sizeof offer;
    if (!mesh->lane || end->lane)
        return;
    if (!(end->lane = mesh->lane_ops->offer(mesh->lane, end, offer, &bytes)))
        return;
    unsigned tail = gt__slots_for(bytes);
    gt_slot *out = gt__link_reserve(end->link, 1 + tail);
    if (!out) /* the link is lost, or so full that it will not miss a lane */
        return;
    memset(out + 1, 0, tail * sizeof *out);
    out->ins = (gt_instruction){.op = GT_OP_data, .tail = (uint16_t)tail, .operand = {GT_MESH_OFFER}};
    out->ins.imm[1].u = bytes;
    memcpy(out + 1, offer, bytes);
    gt__link_commit(end->link, 1 + tail);
}

const char *gt__mesh_lane_offered(gt_mesh *mesh, gt_mesh_link *end, const gt_slot *record)
{
    if (end->lane_open)
        return "a second offer of a lane";
    end->lane_open = end->lane && mesh->lane_ops->connect(end->lane, record + 1, record->ins.imm[1].u);
    if (end->lane_open)
        gt__log(GT_LOG_STATUS, "worker %d and worker %d exchange by %s", mesh->base.self, end->worker,
                mesh->lane_ops->name);
    return NULL;
}

bool gt__mesh_lane_takes(const gt_mesh *mesh, const gt_mesh_link *end, const gt_message *message)
{
    return gt__mesh_has_lane(end) &&
           (message->exposed || !end->link->ops->share || message->bytes >= mesh->lane_from);
}

/* What the other sent before it left is in the lane. */
void gt__mesh_lane_drain(gt_mesh *mesh, const gt_mesh_link *end)
{
    enum { MOST = 1 << 20 };
    for (int k = 0; end->lane && k < MOST && mesh->lane_ops->progress(mesh->lane); k++)
        ;
}

/* ---- the engine's memory ------------------------------------------------------------------------------------ */

void gt__mesh_lane_attach(gt_exchange *exchange, gt_engine *engine)
{
    gt_mesh *mesh = (gt_mesh *)exchange;
    const gt_engine_ops *ops = engine->ops;
    if (!mesh->lane || ops->host_memory || !ops->memory_type)
        return;
    bool reached = mesh->lane_ops->reach(mesh->lane, ops->memory_type);
    gt__log(GT_LOG_STATUS, "tensors in the memory of the %s engine go by %s %s", ops->name, mesh->lane_ops->name,
            reached ? "directly" : "through the host's, which is all that it reaches");
    if (!reached)
        return;
    pthread_mutex_lock(&mesh->mutex);
    mesh->engine = engine;
    exchange->direct = true;
    pthread_mutex_unlock(&mesh->mutex);
}

bool gt__mesh_lane_takes_exposed(gt_exchange *exchange, int32_t to, size_t bytes)
{
    gt_mesh *mesh = (gt_mesh *)exchange;
    if (!exchange->direct || bytes < SEGMENT_FROM)
        return false;
    pthread_mutex_lock(&mesh->mutex);
    bool open = to >= 0 && to < mesh->peer_count && mesh->peers[to]->lane_open;
    pthread_mutex_unlock(&mesh->mutex);
    return open;
}

void gt__mesh_lane_fetch(gt_exchange *exchange, gt_message *message, void *to, void *lent)
{
    gt_mesh *mesh = (gt_mesh *)exchange;
    pthread_mutex_lock(&mesh->mutex);
    message->data = to;
    message->lent = lent;
    if (message->state == GT_MESSAGE_LOST)
        gt__mesh_return(mesh, message);
    else {
        message->state = GT_MESSAGE_FETCHED;
        message->fetched = mesh->fetches;
        mesh->fetches = message;
    }
    pthread_mutex_unlock(&mesh->mutex);
    gt__mesh_wake(mesh);
}

bool gt__mesh_lane_enter(gt_mesh *mesh)
{
    const gt_engine_ops *ops = mesh->engine->ops;
    if (!mesh->entered && ops->enter && ops->enter(mesh->engine) != GT_OK)
        return false;
    mesh->entered = true;
    return true;
}

bool gt__mesh_lane_fetch_all(gt_mesh *mesh)
{
    bool any = false;
    for (;; any = true) {
        pthread_mutex_lock(&mesh->mutex);
        gt_message *message = mesh->fetches;
        if (message)
            mesh->fetches = message->fetched;
        pthread_mutex_unlock(&mesh->mutex);
        if (!message)
            return any;
        mesh->lane_ops->fetch(mesh->lane, message, gt__mesh_lane_enter(mesh) ? (void *)message->data : NULL);
    }
}

void gt__mesh_lane_return_places(gt_mesh *mesh)
{
    for (gt_message *message = gt__mailbox_empty(&mesh->arrived), *next; message; message = next) {
        next = message->next;
        if (message->lent)
            gt__mesh_return(mesh, message);
        else
            gt__mailbox_put(&mesh->arrived, message);
    }
}

/* ---- life -------------------------------------------------------------------------------------------------- */

/* The interface that has this address; false: none. */
static bool interface_of(const char *host, char name[IF_NAMESIZE])
{
    struct in_addr wanted;
    struct ifaddrs *all;
    if (gt__address_is_local(host))
        host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &wanted) != 1 || getifaddrs(&all))
        return false;
    *name = 0;
    for (const struct ifaddrs *one = all; one && !*name; one = one->ifa_next)
        if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET &&
            ((const struct sockaddr_in *)(const void *)one->ifa_addr)->sin_addr.s_addr == wanted.s_addr)
            snprintf(name, IF_NAMESIZE, "%s", one->ifa_name);
    freeifaddrs(all);
    return *name;
}

gt_err gt__mesh_lane_open(gt_mesh *mesh, const char *host, bool listens)
{
    static const gt_lane_events events = {
        .room = room, .announced = announced, .arrived = arrived, .lost = lost, .sent = sent, .failed = failed};
    char interface[IF_NAMESIZE], why[GT_LANE_WHY] = "";
    bool asked, network = listens && interface_of(host, interface);
    GT_TRY(gt__lane_find(network, &mesh->lane_ops, &asked));
    if (!mesh->lane_ops)
        return GT_OK;
    if (mesh->lane_ops->open(&events, mesh, network ? interface : NULL, why, &mesh->lane) != GT_OK) {
        if (asked)
            return gt__fail(GT_ERR_VALUE, "GT_EXCHANGE=%s cannot be used: %s", mesh->lane_ops->name, why);
        gt__log(GT_LOG_STATUS, "workers exchange without %s: %s", mesh->lane_ops->name, why);
        return GT_OK;
    }
    mesh->lane_from = asked ? SEGMENT_FROM : SIZE_MAX; /* on a host: by segments, if it was not asked for */
    mesh->base.way = mesh->lane_ops->name;
    gt__log(GT_LOG_STATUS, "workers exchange by %s where both have it, %s%s", mesh->lane_ops->name,
            !network ? "on this host"
            : asked  ? "on this host and on the interface "
                     : "on the interface ",
            network ? interface : "");
    return GT_OK;
}

void gt__mesh_lane_close(gt_mesh *mesh)
{
    if (mesh->lane)
        mesh->lane_ops->close(mesh->lane);
    mesh->lane = NULL;
    while (mesh->rooms)
        free_room(&mesh->rooms);
}
