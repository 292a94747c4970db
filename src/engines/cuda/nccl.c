/*
 * nccl.c: NCCL's communicators, one for each set of workers that hold collectives together. They are made when they are first
 * needed, and kept. collective.c moves the data.
 *
 * NCCL's kernels wait for the other workers' cards, without a limit. So a worker that waits for the stream checks now
 * and then whether all parties of the first collective that is not done are still there (gt__cuda_comms_look). If one is gone, or
 * has given up, the communicator is aborted: its kernels end, and what was queued on it fails with that party's name. The next
 * collective of the others is among other parties, and makes another communicator. The same holds while one is made.
 *
 * Communicators are not destroyed but aborted, since NCCL's destruction waits for the other workers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/log.h"
#include "engines/cuda/cuda.h"

enum {
    MOST_COMMS = 16,        /* of a worker: each takes memory of the card */
    LOOK_NS = 10000000,     /* between looks at the parties */
    GRACE_NS = 200000000,   /* of a party that is gone: what it has sent may still arrive */
    NAP_NS = 50000,         /* while NCCL works on the host */
    PATIENCE_SECONDS = 120, /* with the making of a communicator */
};

struct gt_cuda_comm {
    struct gt_cuda_comm *next;
    ncclComm_t comm; /* NULL: it could not be made, and is not tried again */
    uint64_t number; /* the same at all parties */
    unsigned self, count;
    gt_err (*lost)(void *context, uint64_t tag, int64_t worker, uint64_t life);
    void (*give_up)(void *context, uint64_t tag, int64_t worker, gt_err err);
    void *context;
    gt_err doubt; /* a party is gone, since doubt_ns */
    char doubt_text[256];
    uint64_t doubt_ns;
    struct {
        int64_t worker;
        uint64_t life;
    } party[];
};
typedef struct gt_cuda_comm comm;

gt_err gt__cuda_nccl_fail(const gt_cuda *cuda, int result, const char *what)
{
    return gt__fail(GT_ERR_INTERNAL, "NCCL: %s: %s", what, cuda->nccl->text(result));
}

/* ---- who may take part --------------------------------------------------------------------------------------------- */

uint64_t gt__cuda_league(gt_engine *engine)
{
    gt_cuda *cuda = gt__cuda(engine);
    int version = 0;
    if (gt__cuda_open_nccl(&cuda->nccl) != GT_OK)
        return 0;
    int result = cuda->nccl->version(&version);
    if (result != ncclSuccess || version <= 0) {
        gt__cuda_nccl_fail(cuda, result, "its version");
        return 0;
    }
    gt__log(GT_LOG_STATUS, "cuda: NCCL %d for collectives with other cards", version);
    uint32_t seat = (uint32_t)(cuda->identity ^ cuda->identity >> 32);
    return (uint64_t)version << 32 | (seat ? seat : 1); /* versions do not mix, and NCCL has one rank on a card */
}

/* ---- the list ------------------------------------------------------------------------------------------------------- */

static comm *find(const gt_cuda *cuda, const gt_group_call *call)
{
    for (comm *c = cuda->comms; c; c = c->next) {
        bool same = c->count == call->count && c->self == call->self;
        for (unsigned k = 0; same && k < c->count; k++)
            same = c->party[k].life == call->life[k] && c->party[k].worker == call->party[k].worker;
        if (same)
            return c;
    }
    return NULL;
}

static bool is_pending(const gt_cuda *cuda, const gt_cuda_item *item)
{
    return item->comm && (!item->token || item->token > gt__cuda_queue_done(cuda));
}

/* The first collective that is not done, or NULL. */
static gt_cuda_item *first_pending(const gt_cuda *cuda)
{
    for (size_t k = 0; k < cuda->item_count; k++)
        if (is_pending(cuda, gt__cuda_item_at(cuda, k)))
            return gt__cuda_item_at(cuda, k);
    return NULL;
}

static void tell_parties(const comm *c, uint64_t tag, gt_err err)
{
    for (unsigned k = 0; k < c->count; k++)
        if (k != c->self)
            c->give_up(c->context, tag, c->party[k].worker, err);
}

void gt__cuda_comm_drop(gt_cuda *cuda, comm *c, gt_err err, bool tell)
{
    char text[256];
    snprintf(text, sizeof text, "%s", gt_error_text());
    for (size_t k = 0; k < cuda->item_count; k++) {
        gt_cuda_item *item = gt__cuda_item_at(cuda, k);
        if (item->comm != c)
            continue;
        if (is_pending(cuda, item) && !item->err) {
            item->err = err;
            item->text = strdup(text);
            gt__fail(err, "%s", text);
            if (tell)
                tell_parties(c, item->tag, err);
        }
        item->comm = NULL;
    }
    comm **where = &cuda->comms;
    while (*where != c)
        where = &(*where)->next;
    *where = c->next;
    cuda->comm_count--;
    if (c->comm && !cuda->broken)
        cuda->nccl->comm_abort(c->comm);
    free(c);
    gt__fail(err, "%s", text);
}

void gt__cuda_comms_close(gt_cuda *cuda)
{
    gt__fail(GT_ERR_CONNECTION, "the worker ends");
    while (cuda->comms)
        gt__cuda_comm_drop(cuda, cuda->comms, GT_ERR_CONNECTION, false);
}

/* Room for one more: forget those of whose parties one is gone. */
static bool make_room(gt_cuda *cuda)
{
    for (comm *c = cuda->comms, *next; c && cuda->comm_count >= MOST_COMMS; c = next) {
        gt_err err = GT_OK;
        next = c->next;
        for (unsigned k = 0; k < c->count && !err; k++)
            err = k == c->self ? GT_OK : c->lost(c->context, 0, c->party[k].worker, c->party[k].life);
        if (err)
            gt__cuda_comm_drop(cuda, c, err, false);
    }
    return cuda->comm_count < MOST_COMMS;
}

uint64_t gt__cuda_circle(gt_engine *engine, const gt_group_call *call)
{
    gt_cuda *cuda = gt__cuda(engine);
    const comm *c = find(cuda, call);
    if (cuda->broken || !cuda->nccl || (c && !c->comm) || (!c && !make_room(cuda)))
        return GT_NO_CIRCLE;
    return c ? c->number : 0;
}

/* ---- parties that never come ------------------------------------------------------------------------------------------ */

/* Why a collective on this communicator will not come to its end; *own: we are the first to know. */
static gt_err doubt(const gt_cuda *cuda, const comm *c, uint64_t tag, bool *own)
{
    int state = ncclSuccess, asked = cuda->nccl->comm_state(c->comm, &state);
    *own = asked != ncclSuccess || (state != ncclSuccess && state != ncclInProgress);
    if (*own)
        return gt__cuda_nccl_fail(cuda, asked ? asked : state, "a collective");
    for (unsigned k = 0; k < c->count; k++)
        if (k != c->self)
            GT_TRY(c->lost(c->context, tag, c->party[k].worker, c->party[k].life));
    return GT_OK;
}

void gt__cuda_comms_look_now(gt_cuda *cuda)
{
    uint64_t now = gt__cuda_now_ns();
    if (now - cuda->looked_ns < LOOK_NS || cuda->broken || cuda->capturing)
        return;
    cuda->looked_ns = now;
    gt_cuda_item *item = first_pending(cuda);
    if (!item)
        return;
    if (item->token && cuda->written < item->token) { /* it may be done, and the stream was not told to say so */
        gt__cuda_queue_flush(cuda);
        return;
    }
    comm *c = item->comm;
    bool own = false;
    if (!c->doubt && (c->doubt = doubt(cuda, c, item->tag, &own)) != GT_OK) {
        snprintf(c->doubt_text, sizeof c->doubt_text, "%s", gt_error_text());
        c->doubt_ns = now;
    }
    if (!c->doubt || (!own && now - c->doubt_ns < GRACE_NS) || !is_pending(cuda, item))
        return;
    gt__log_error("cuda: a collective is given up: %s", c->doubt_text);
    gt_err err = gt__fail(c->doubt, "%s", c->doubt_text);
    gt__cuda_comm_drop(cuda, c, err, own);
}

void gt__cuda_comms_wait(gt_cuda *cuda)
{
    for (gt_cuda_item *item; cuda->comms && !cuda->capturing && (item = first_pending(cuda)) && item->token;)
        if (gt__cuda_queue_wait(cuda, item->token) != GT_OK)
            return;
}

void gt__cuda_comms_give_up(gt_cuda *cuda)
{
    for (size_t k = 0; k < cuda->item_count; k++) {
        const gt_cuda_item *item = gt__cuda_item_at(cuda, k);
        if (item->comm) {
            gt_err err = gt__fail(GT_ERR_INTERNAL, "%s", cuda->broken_text);
            tell_parties(item->comm, item->tag, err);
        }
    }
}

/* ---- making one -------------------------------------------------------------------------------------------------------- */

gt_err gt__cuda_comm_settle(gt_cuda *cuda, comm *c, uint64_t tag, int result, const char *what)
{
    uint64_t began = gt__cuda_now_ns(), looked = began, now = began;
    bool own;
    while (result == ncclInProgress) {
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        now = gt__cuda_now_ns();
        int asked = cuda->nccl->comm_state(c->comm, &result);
        result = asked ? asked : result;
        if (result != ncclInProgress || now - looked < LOOK_NS)
            continue;
        looked = now;
        GT_TRY(doubt(cuda, c, tag, &own));
        if (now - began > PATIENCE_SECONDS * 1000000000ull)
            return gt__fail(GT_ERR_TIMEOUT, "NCCL: %s takes more than %d s", what, PATIENCE_SECONDS);
    }
    return result == ncclSuccess ? GT_OK : gt__cuda_nccl_fail(cuda, result, what);
}

/* What party 0 shares. */
typedef struct offer {
    ncclUniqueId id;
    uint64_t number; /* 0: NCCL gave no id */
} offer;

static gt_err meet(gt_cuda *cuda, const gt_group_call *call, comm *c, const offer *o)
{
    gt_nccl_config config = {
        .size = sizeof config, .magic = GT_NCCL_MAGIC, .version = GT_NCCL_CONFIG_VERSION, .blocking = 0};
    if (!o->number)
        return gt__fail(GT_ERR_INTERNAL, "NCCL gives no id for a communicator");
    GT_CUDA_TRY(cuda, "a context", cuda->driver->context_set(cuda->context));
    int result = cuda->nccl->comm_new(&c->comm, (int)call->count, o->id, (int)call->self, &config);
    if (!c->comm)
        return gt__cuda_nccl_fail(cuda, result, "a communicator");
    return gt__cuda_comm_settle(cuda, c, call->tag, result, "a communicator");
}

static comm *comm_new(const gt_group_call *call)
{
    comm *c = calloc(1, sizeof *c + call->count * sizeof c->party[0]);
    if (!c)
        return NULL;
    c->self = call->self;
    c->count = call->count;
    c->lost = call->lost;
    c->give_up = call->give_up;
    c->context = call->context;
    for (unsigned k = 0; k < call->count; k++) {
        c->party[k].worker = call->party[k].worker;
        c->party[k].life = call->life[k];
    }
    return c;
}

/* All parties come here or none, and all go through every step. GT_ERR_UNSUPPORTED: it went wrong at one, and all know. */
static gt_err make(gt_cuda *cuda, const gt_group_call *call, comm **out)
{
    comm *c = comm_new(call);
    offer o = {.number = 0};
    uint64_t began = gt__cuda_now_ns();
    if (call->self == 0 && cuda->nccl->id_new(&o.id) == ncclSuccess)
        o.number = gt__cuda_hash(&o.id, sizeof o.id) >> 1 | 1;
    gt_err err = call->share(call, &o, sizeof o);
    if (err == GT_OK)
        err = c ? meet(cuda, call, c, &o) : gt__fail(GT_ERR_MEMORY, "out of memory");
    for (unsigned k = 0; err && k < call->count; k++)
        if (k != call->self) /* who waits in NCCL */
            call->give_up(call->context, call->tag, call->party[k].worker, err);
    err = call->agree(call, err);
    if (err != GT_OK) {
        gt__log_error("cuda: collectives among these %u workers go without NCCL: %s", call->count,
                      gt_error_text());
        if (c && c->comm)
            cuda->nccl->comm_abort(c->comm);
        if (c)
            c->comm = NULL;
    } else
        gt__log(GT_LOG_STATUS, "cuda: a communicator of %u workers in %.1f ms", call->count,
                (double)(gt__cuda_now_ns() - began) / 1e6);
    if (c) {
        c->number = o.number;
        c->next = cuda->comms;
        cuda->comms = c;
        cuda->comm_count++;
    }
    *out = c;
    return err ? GT_ERR_UNSUPPORTED : GT_OK;
}

gt_err gt__cuda_comm(gt_cuda *cuda, const gt_group_call *call, comm **out)
{
    comm *known = find(cuda, call);
    if (call->anew) {
        if (known) {
            gt__fail(GT_ERR_CONNECTION, "another worker has given up the communicator");
            gt__cuda_comm_drop(cuda, known, GT_ERR_CONNECTION, false);
        }
        return make(cuda, call, out);
    }
    *out = known;
    return known ? GT_OK : gt__fail(GT_ERR_CONNECTION, "this worker has given up the communicator");
}

bool gt__cuda_comm_stands(const gt_cuda *cuda, const gt_group_call *call, const comm *c)
{
    return find(cuda, call) == c;
}

ncclComm_t gt__cuda_comm_handle(const comm *c)
{
    return c->comm;
}
