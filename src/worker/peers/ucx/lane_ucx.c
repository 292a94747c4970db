/*
 * lane_ucx.c: messages between workers by UCX (libucp), which chooses among shared memory, copies between processes, tcp and
 * RDMA. A plug-in, gt-exchange-ucx.so; read ../lane.h first.
 *
 * A message is an active message: a header, and the bytes. UCX sends small ones at once, and larger ones by rendezvous: the
 * receiver fetches them out of the sender's memory into the room it was given, without a copy between. The header begins with a
 * token that the receiver chose at random and told the sender on their link, which is authenticated; anything without it is
 * dropped. An endpoint that fails ends alone.
 *
 * Where UCX reaches the memory of the worker's engine (a CUDA card's), tensors leave from it and arrive in it. Such a message
 * always goes by rendezvous: the sender's memory keeps it until the receiver has a place for it.
 *
 * UCX neither authenticates peers nor encrypts. So it opens sockets only if the worker may listen on a network, and only on that
 * interface. Otherwise it uses shared memory, and copies that the kernel allows between processes of one user.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <ucp/api/ucp.h>

#include "worker/peers/lane.h"

enum {
    MESSAGE_ID = 1,
    TOKEN_BYTES = 16,
    BUDGET = 64,        /* steps of UCX in one turn */
    LEAVE_MS = 500,     /* for what is being sent when the lane closes; as long again to close the endpoints */
    PLACE_MS = 2000,    /* the first of these where receivers look for a place first */
    LEAVE_POLL_MS = 10, /* between looks, when closing */
};

typedef struct header {
    uint8_t token[TOKEN_BYTES]; /* of the receiver */
    uint64_t tag;
    uint32_t number;
    int16_t err;
    uint16_t tensor; /* the receiver may choose where it goes */
} header;

struct gt_lane_end {
    gt_lane_end *next;
    gt_lane *lane;
    void *link; /* NULL: it is lost */
    ucp_ep_h endpoint;
    uint8_t ours[TOKEN_BYTES], theirs[TOKEN_BYTES];
    unsigned uses; /* by operations, and by the endpoint while it is open */
};

/* Something that UCX is at work on. */
typedef struct operation {
    struct operation *next, **where;
    gt_lane_end *end;
    enum { SENDING, ANNOUNCED, RECEIVING, CLOSING } kind;
    gt_message *message;
    header header;
    void *descriptor; /* ANNOUNCED: UCX's */
} operation;

struct gt_lane {
    const gt_lane_events *events;
    void *mesh;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    int fd;
    uint64_t memory_types; /* that UCX reaches, a bit each */
    ucs_memory_type_t
        memory; /* of the engine; UNKNOWN: UCX does not reach it, and tensors go through the host's */
    gt_lane_end *ends;
    operation *operations;
    unsigned sending;
};

/* ---- operations and ends ----------------------------------------------------------------------------------- */

static void end_unused(gt_lane_end *end)
{
    if (--end->uses || end->link)
        return;
    gt_lane_end **where = &end->lane->ends;
    while (*where != end)
        where = &(*where)->next;
    *where = end->next;
    free(end);
}

static void fail(const gt_lane_end *end, ucs_status_t status)
{
    const gt_lane *lane = end->lane;
    if (end->link)
        lane->events->failed(lane->mesh, end->link, ucs_status_string(status));
}

static operation *operation_new(gt_lane_end *end, int kind, gt_message *message)
{
    operation *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    *o = (operation){.end = end, .kind = kind, .message = message, .next = end->lane->operations};
    o->where = &end->lane->operations;
    if (o->next)
        o->next->where = &o->next;
    end->lane->operations = o;
    end->lane->sending += kind == SENDING;
    end->uses++;
    return o;
}

static void operation_free(operation *o)
{
    gt_lane_end *end = o->end;
    *o->where = o->next;
    if (o->next)
        o->next->where = o->where;
    free(o);
    end_unused(end);
}

static void operation_done(operation *o, ucs_status_t status)
{
    gt_lane_end *end = o->end;
    const gt_lane *lane = end->lane;
    if (o->kind == SENDING) {
        end->lane->sending--;
        lane->events->sent(lane->mesh, o->message);
    } else if (o->kind == RECEIVING && status == UCS_OK && end->link)
        lane->events->arrived(lane->mesh, o->message);
    else if (o->kind == RECEIVING)
        lane->events->lost(lane->mesh, o->message);
    else if (o->kind == CLOSING)
        end_unused(end); /* its endpoint */
    if (status != UCS_OK && o->kind != CLOSING)
        fail(end, status);
    operation_free(o);
}

static void sent_or_closed(void *request, ucs_status_t status, void *user_data)
{
    operation_done(user_data, status);
    ucp_request_free(request);
}

static void received(void *request, ucs_status_t status, size_t length, void *user_data)
{
    (void)length;
    operation_done(user_data, status);
    ucp_request_free(request);
}

/* What UCX returned for an operation: it is done, has failed, or will call back. */
static void operation_started(operation *o, ucs_status_ptr_t request)
{
    if (!UCS_PTR_IS_PTR(request))
        operation_done(o, UCS_PTR_STATUS(request));
}

/* ---- messages ---------------------------------------------------------------------------------------------- */

static void send_message(gt_lane_end *end, gt_message *message)
{
    gt_lane *lane = end->lane;
    operation *o = operation_new(end, SENDING, message);
    if (!o) {
        fail(end, UCS_ERR_NO_MEMORY);
        lane->events->sent(lane->mesh, message);
        return;
    }
    o->header = (header){.tag = message->key.tag,
                         .number = message->key.number,
                         .err = (int16_t)message->err,
                         .tensor = message->tensor};
    memcpy(o->header.token, end->theirs, TOKEN_BYTES);
    const ucp_request_param_t how = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                     UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_FLAGS,
                                     .flags = message->exposed ? UCP_AM_SEND_FLAG_RNDV : 0,
                                     .memory_type = message->exposed ? lane->memory : UCS_MEMORY_TYPE_HOST,
                                     .cb.send = sent_or_closed,
                                     .user_data = o};
    operation_started(o, ucp_am_send_nbx(end->endpoint, MESSAGE_ID, &o->header, sizeof o->header, message->data,
                                         message->bytes, &how));
}

static gt_lane_end *end_of(const gt_lane *lane, const uint8_t *token)
{
    gt_lane_end *end = lane->ends;
    while (end && (!end->link || memcmp(end->ours, token, TOKEN_BYTES) != 0))
        end = end->next;
    return end;
}

/* Fetch the bytes of a large message. True: they are on their way. */
static bool receive(operation *o, void *to, void *descriptor, size_t bytes, ucs_memory_type_t memory)
{
    const gt_lane *lane = o->end->lane;
    const ucp_request_param_t how = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                     UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                     .memory_type = memory,
                                     .cb.recv_am = received,
                                     .user_data = o};
    ucs_status_ptr_t request = ucp_am_recv_data_nbx(lane->worker, descriptor, to, bytes, &how);
    bool started = UCS_PTR_IS_PTR(request);
    operation_started(o, request);
    return started;
}

static ucs_status_t receive_later(gt_lane_end *end, gt_message *message, void *to, void *descriptor, size_t bytes)
{
    const gt_lane *lane = end->lane;
    operation *o = operation_new(end, RECEIVING, message);
    if (!o) {
        lane->events->lost(lane->mesh, message);
        fail(end, UCS_ERR_NO_MEMORY);
        return UCS_OK;
    }
    return receive(o, to, descriptor, bytes, UCS_MEMORY_TYPE_HOST) ? UCS_INPROGRESS : UCS_OK;
}

/* A tensor comes whose place only the worker knows. */
static ucs_status_t announce(gt_lane_end *end, const gt_message *content, void *descriptor)
{
    const gt_lane *lane = end->lane;
    operation *o = operation_new(end, ANNOUNCED, NULL);
    if (o)
        o->message = lane->events->announced(lane->mesh, end->link, content, o);
    if (o && o->message) {
        o->descriptor = descriptor;
        return UCS_INPROGRESS; /* UCX keeps the descriptor */
    }
    if (o)
        operation_free(o);
    fail(end, UCS_ERR_NO_MEMORY);
    return UCS_OK;
}

static void fetch(gt_lane *lane, gt_message *message, void *to)
{
    operation *o = message->pending;
    void *descriptor = o->descriptor;
    message->pending = o->descriptor = NULL;
    o->kind = RECEIVING;
    if (to) {
        receive(o, to, descriptor, message->bytes, lane->memory);
        return;
    }
    message->err = GT_ERR_MEMORY;
    message->bytes = 0;
    ucp_am_data_release(lane->worker, descriptor);
    operation_done(o, UCS_OK);
}

/* The link of these is lost, and with it their sender. */
static void drop_announced(const gt_lane_end *end)
{
    const gt_lane *lane = end->lane;
    for (operation *o = lane->operations, *next; o; o = next) {
        next = o->next;
        if (o->end != end || o->kind != ANNOUNCED)
            continue;
        ucp_am_data_release(lane->worker, o->descriptor);
        lane->events->lost(lane->mesh, o->message);
        operation_free(o);
    }
}

static ucs_status_t message_comes(void *argument, const void *head, size_t head_bytes, void *data, size_t bytes,
                                  const ucp_am_recv_param_t *how)
{
    const gt_lane *lane = argument;
    header h;
    if (head_bytes != sizeof h)
        return UCS_OK;
    memcpy(&h, head, sizeof h);
    gt_lane_end *end = end_of(lane, h.token);
    if (!end) /* a wrong token, or a link that is lost */
        return UCS_OK;
    gt_message content = {
        .key = {.tag = h.tag, .number = h.number},
        .err = gt__error_kind(h.err),
        .bytes = bytes,
        .tensor = h.tensor,
    };
    const bool fetched = how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
    if (fetched && h.tensor && lane->memory != UCS_MEMORY_TYPE_UNKNOWN)
        return announce(end, &content, data);
    void *to;
    gt_message *message = lane->events->room(lane->mesh, end->link, &content, &to);
    if (!message) {
        fail(end, UCS_ERR_NO_MEMORY);
        return UCS_OK;
    }
    if (to && fetched)
        return receive_later(end, message, to, data, bytes);
    if (to)
        memcpy(to, data, bytes);
    lane->events->arrived(lane->mesh, message);
    return UCS_OK;
}

/* ---- endpoints --------------------------------------------------------------------------------------------- */

static gt_lane_end *offer(gt_lane *lane, void *link, void *text, size_t *bytes)
{
    gt_lane_end *end = calloc(1, sizeof *end);
    if (!end || TOKEN_BYTES + lane->address_bytes > *bytes ||
        getrandom(end->ours, TOKEN_BYTES, 0) != (ssize_t)TOKEN_BYTES) {
        free(end);
        return NULL;
    }
    end->lane = lane;
    end->link = link;
    end->next = lane->ends;
    lane->ends = end;
    memcpy(text, end->ours, TOKEN_BYTES);
    memcpy((uint8_t *)text + TOKEN_BYTES, lane->address, lane->address_bytes);
    *bytes = TOKEN_BYTES + lane->address_bytes;
    return end;
}

static void endpoint_failed(void *argument, ucp_ep_h endpoint, ucs_status_t status)
{
    (void)endpoint;
    fail(argument, status);
}

static bool connect_end(gt_lane_end *end, const void *text, size_t bytes)
{
    if (bytes <= TOKEN_BYTES)
        return false;
    memcpy(end->theirs, text, TOKEN_BYTES);
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)((const uint8_t *)text + TOKEN_BYTES),
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = endpoint_failed, .arg = end},
    };
    if (ucp_ep_create(end->lane->worker, &params, &end->endpoint) != UCS_OK)
        return false;
    end->uses++;
    return true;
}

static void close_endpoint(gt_lane_end *end, unsigned flags)
{
    ucp_ep_h endpoint = end->endpoint;
    end->endpoint = NULL;
    operation *o = endpoint ? operation_new(end, CLOSING, NULL) : NULL;
    if (!o) /* out of memory: it ends with the lane */
        return;
    const ucp_request_param_t how = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                     UCP_OP_ATTR_FIELD_FLAGS,
                                     .flags = flags,
                                     .cb.send = sent_or_closed,
                                     .user_data = o};
    operation_started(o, ucp_ep_close_nbx(endpoint, &how));
}

static void disconnect(gt_lane_end *end)
{
    end->uses++;
    end->link = NULL;
    drop_announced(end);
    close_endpoint(end, UCP_EP_CLOSE_FLAG_FORCE);
    end_unused(end);
}

/* ---- life -------------------------------------------------------------------------------------------------- */

static bool progress(gt_lane *lane)
{
    int steps = 0;
    while (steps < BUDGET && ucp_worker_progress(lane->worker))
        steps++;
    return steps > 0;
}

static bool reach(gt_lane *lane, const char *memory_type)
{
    for (int type = 0; type < UCS_MEMORY_TYPE_LAST; type++)
        if (lane->memory_types >> type & 1 && strcmp(ucs_memory_type_names[type], memory_type) == 0) {
            lane->memory = (ucs_memory_type_t)type;
            return true;
        }
    return false;
}

static int fd(gt_lane *lane)
{
    return lane->fd;
}

static bool arm(gt_lane *lane)
{
    return ucp_worker_arm(lane->worker) == UCS_OK;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Until there are none, or the time is over. */
static void finish(gt_lane *lane, bool only_sends)
{
    int64_t deadline = now_ms() + (only_sends && lane->memory != UCS_MEMORY_TYPE_UNKNOWN ? PLACE_MS : LEAVE_MS);
    while ((only_sends ? lane->sending > 0 : lane->operations != NULL) && now_ms() < deadline)
        if (!progress(lane) && arm(lane))
            poll(&(struct pollfd){.fd = lane->fd, .events = POLLIN}, 1, LEAVE_POLL_MS);
}

static void close_lane(gt_lane *lane)
{
    if (lane->worker) {
        finish(lane, true);
        for (gt_lane_end *end = lane->ends; end; end = end->next) {
            end->link = NULL;
            end->uses++; /* the list stays until all are closed */
        }
        for (gt_lane_end *end = lane->ends; end; end = end->next)
            drop_announced(end);
        for (gt_lane_end *end = lane->ends; end; end = end->next)
            close_endpoint(end, lane->sending ? UCP_EP_CLOSE_FLAG_FORCE : 0);
        finish(lane, false);
        if (lane->address)
            ucp_worker_release_address(lane->worker, lane->address);
        ucp_worker_destroy(lane->worker);
    }
    while (lane->operations) { /* UCX has ended, and touches no memory any more */
        operation *o = lane->operations;
        lane->operations = o->next;
        if (o->kind == SENDING)
            lane->events->sent(lane->mesh, o->message);
        else if (o->kind == RECEIVING)
            lane->events->lost(lane->mesh, o->message);
        free(o);
    }
    while (lane->ends) {
        gt_lane_end *next = lane->ends->next;
        free(lane->ends);
        lane->ends = next;
    }
    if (lane->context)
        ucp_cleanup(lane->context);
    free(lane);
}

static ucs_status_t configure(ucp_config_t *config, const char *interface)
{
    ucs_status_t status = ucp_config_modify(config, "RNDV_SCHEME", "get_zcopy"); /* peers read, and never write */
    if (!interface)                                                              /* what only this user can open */
        return status == UCS_OK ? ucp_config_modify(config, "TLS", "sysv,cma,self,cuda_copy,cuda_ipc") : status;
    if (status == UCS_OK && !getenv("UCX_TLS"))
        status = ucp_config_modify(config, "TLS", "^posix"); /* its files are readable for others when made */
    if (status == UCS_OK && !getenv("UCX_NET_DEVICES"))
        status = ucp_config_modify(config, "NET_DEVICES", interface);
    return status;
}

static ucs_status_t start(gt_lane *lane, const char *interface)
{
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return status;
    const ucp_params_t features = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                   .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    const ucp_worker_params_t threads = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    const ucp_am_handler_param_t handler = {
        .field_mask =
            UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = MESSAGE_ID,
        .cb = message_comes,
        .arg = lane,
    };
    if ((status = configure(config, interface)) == UCS_OK)
        status = ucp_init(&features, config, &lane->context);
    ucp_config_release(config);
    ucp_context_attr_t attributes = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    if (status == UCS_OK && (status = ucp_context_query(lane->context, &attributes)) == UCS_OK)
        lane->memory_types = attributes.memory_types;
    if (status == UCS_OK)
        status = ucp_worker_create(lane->context, &threads, &lane->worker);
    if (status == UCS_OK)
        status = ucp_worker_set_am_recv_handler(lane->worker, &handler);
    if (status == UCS_OK)
        status = ucp_worker_get_address(lane->worker, &lane->address, &lane->address_bytes);
    return status == UCS_OK ? ucp_worker_get_efd(lane->worker, &lane->fd) : status;
}

static gt_err open_lane(const gt_lane_events *events, void *mesh, const char *interface, char why[GT_LANE_WHY],
                        gt_lane **lane)
{
    gt_lane *made = calloc(1, sizeof *made);
    if (!made) {
        snprintf(why, GT_LANE_WHY, "out of memory");
        return GT_ERR_MEMORY;
    }
    made->events = events;
    made->memory = UCS_MEMORY_TYPE_UNKNOWN;
    made->mesh = mesh;
    ucs_status_t status = start(made, interface);
    if (status != UCS_OK) {
        snprintf(why, GT_LANE_WHY, "%s", ucs_status_string(status));
        close_lane(made);
        return GT_ERR_CONNECTION;
    }
    *lane = made;
    return GT_OK;
}

static const gt_lane_ops ops = {
    .name = "ucx",
    .open = open_lane,
    .close = close_lane,
    .offer = offer,
    .connect = connect_end,
    .reach = reach,
    .fetch = fetch,
    .send = send_message,
    .disconnect = disconnect,
    .progress = progress,
    .fd = fd,
    .arm = arm,
};

__attribute__((visibility("default"))) extern const gt_lane_plugin gt_exchange_plugin;
const gt_lane_plugin gt_exchange_plugin = {
    .version = GT_LANE_VERSION, .message_bytes = sizeof(gt_message), .ops = &ops};
