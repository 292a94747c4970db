/*
 * collective.c: the worker's collectives by NCCL, whose communicators nccl.c has. NCCL moves contiguous parts, and adds up parts of equal
 * size. Parts that are not contiguous are packed before and unpacked after, by the engine's own kernels; parts of unequal size
 * go by sends and receives, or as one sum for each party.
 *
 * Whether NCCL does a collective is decided from what all parties know: its op, dtype, shape and parts.
 */
#include "engines/cuda/cuda.h"

/* How an axis is cut into the parties' parts. */
typedef struct cut {
    unsigned axis;
    bool even; /* parts of one size, in the order of the parties */
    int64_t start[GT_MAX_PARTIES], count[GT_MAX_PARTIES];
} cut;

typedef struct passage {
    gt_cuda *cuda;
    const gt_group_call *call;
    struct gt_cuda_comm *kept;
    ncclComm_t comm;
    int type;            /* of sums */
    size_t size, terms;  /* bytes of an element, and how many of NCCL's it is */
    cut before, after;   /* where there are parts */
    CUdeviceptr room[2]; /* packed parts: to send, received; 0: they need no packing */
} passage;

/* ---- parts ------------------------------------------------------------------------------------------------------------- */

/* False: the parts do not make up the whole. */
static bool make_cut(const gt_group_call *call, bool after, cut *c)
{
    int64_t extent, sum = 0;
    c->axis = after ? call->axis_after : call->axis;
    extent = call->whole->shape[c->axis];
    c->even = true;
    for (unsigned k = 0; k < call->count; k++) {
        gt__partner_part(call->party, call->count, k, after, extent, &c->start[k], &c->count[k]);
        sum += c->count[k];
        c->even = c->even && c->count[k] == c->count[0] && c->start[k] == (int64_t)k * c->count[0];
    }
    return sum == extent;
}

static int64_t product(const int64_t *shape, unsigned from, unsigned to)
{
    int64_t count = 1;
    for (unsigned d = from; d < to; d++)
        count *= shape[d];
    return count;
}

/* The elements of one index along an axis, and whether parts along it are contiguous. */
static int64_t slice(const gt_meta *meta, unsigned axis)
{
    return product(meta->shape, 0, axis) * product(meta->shape, axis + 1, meta->rank);
}

static bool in_one_piece(const gt_meta *meta, unsigned axis)
{
    return product(meta->shape, 0, axis) == 1;
}

static gt_view part_view(const gt_meta *meta, unsigned axis, int64_t count, CUdeviceptr address)
{
    gt_view view = {.data = (void *)(uintptr_t)address, .meta = *meta, .contiguous = true};
    int64_t step = 1;
    view.meta.numel = slice(meta, axis) * count;
    view.meta.shape[axis] = count;
    for (unsigned d = meta->rank; d-- > 0; step *= view.meta.shape[d])
        view.stride[d] = step;
    return view;
}

static gt_err compute(passage *p, gt_instruction ins, const gt_view *const *in, unsigned operands,
                      const gt_view *out)
{
    gt_call call = {.op = (gt_opcode)ins.op,
                    .compute = (gt_dtype)out->meta.dtype,
                    .ins = &ins,
                    .operands = operands,
                    .in = in,
                    .out = out,
                    .timed = p->call->timed};
    ins.dtype = out->meta.dtype;
    return gt__cuda_execute(p->cuda, &call, 0);
}

/* Where the parts of a contiguous tensor are, one behind the other by their starts: in it, or packed. */
static gt_err pack(passage *p, const gt_view *whole, const cut *c, CUdeviceptr *at)
{
    *at = (CUdeviceptr)(uintptr_t)whole->data;
    if (in_one_piece(&whole->meta, c->axis) || whole->meta.numel == 0)
        return GT_OK;
    GT_TRY(gt__cuda_scratch_take(p->cuda, (size_t)whole->meta.numel * p->size, &p->room[0]));
    *at = p->room[0];
    for (unsigned k = 0; k < p->call->count; k++) {
        size_t offset = (size_t)(c->start[k] * slice(&whole->meta, c->axis)) * p->size;
        gt_view to = part_view(&whole->meta, c->axis, c->count[k], *at + offset), from = *whole;
        if (c->count[k] == 0)
            continue;
        from.data = (uint8_t *)whole->data + (size_t)(c->start[k] * whole->stride[c->axis]) * p->size;
        from.meta = to.meta;
        from.contiguous = false;
        GT_TRY(compute(p, (gt_instruction){.op = GT_OP_copy}, (const gt_view *[]){&from}, 1, &to));
    }
    return GT_OK;
}

/* Where parts of the result arrive: in it, or packed, for unpack. */
static gt_err receive_at(passage *p, const cut *c, CUdeviceptr *at)
{
    const gt_view *out = p->call->out;
    *at = (CUdeviceptr)(uintptr_t)out->data;
    if (in_one_piece(&out->meta, c->axis) || out->meta.numel == 0)
        return GT_OK;
    GT_TRY(gt__cuda_scratch_take(p->cuda, (size_t)out->meta.numel * p->size, &p->room[1]));
    *at = p->room[1];
    return GT_OK;
}

static gt_err unpack(passage *p, const cut *c)
{
    const gt_view *out = p->call->out;
    gt_view views[GT_MAX_PARTIES];
    const gt_view *in[GT_MAX_PARTIES] = {NULL};
    unsigned joined = 0;
    if (!p->room[1])
        return GT_OK;
    for (unsigned k = 0; k < p->call->count; k++) {
        unsigned at = joined;
        size_t offset = (size_t)(c->start[k] * slice(&out->meta, c->axis)) * p->size;
        if (c->count[k] == 0)
            continue;
        views[k] = part_view(&out->meta, c->axis, c->count[k], p->room[1] + offset);
        for (joined++; at > 0 && c->start[in[at - 1] - views] > c->start[k]; at--)
            in[at] = in[at - 1];
        in[at] = &views[k];
    }
    gt_instruction ins = {.op = GT_OP_cat, .imm = {{.i = c->axis}, {.i = joined}}};
    return compute(p, ins, in, joined, out);
}

/* ---- NCCL's calls -------------------------------------------------------------------------------------------------------- */

static void *address(CUdeviceptr base, int64_t elements, size_t size)
{
    return (void *)(uintptr_t)(base + (CUdeviceptr)elements * size);
}

static gt_err end_group(passage *p, int result)
{
    const gt_cuda_nccl *nccl = p->cuda->nccl;
    int ended = nccl->group_end();
    result = result != ncclSuccess && result != ncclInProgress ? result : ended;
    return gt__cuda_comm_settle(p->cuda, p->kept, p->call->tag, result, gt__op_table[p->call->op].name);
}

/* After packing, before NCCL: is the communicator still there? */
static gt_err begin_group(passage *p)
{
    if (!gt__cuda_comm_stands(p->cuda, p->call, p->kept))
        return gt__fail(GT_ERR_CONNECTION, "this worker has given up the communicator");
    gt__cuda_launching(p->cuda);
    int result = p->cuda->nccl->group_start();
    return result == ncclSuccess ? GT_OK : gt__cuda_nccl_fail(p->cuda, result, "a group of calls");
}

/* Parts to and from all parties, ourselves included: `sent` and `received` are their bytes and where they are. */
typedef struct parcel {
    void *memory;
    size_t bytes;
} parcel;

static gt_err exchange(passage *p, const parcel *sent, const parcel *received)
{
    const gt_cuda_nccl *nccl = p->cuda->nccl;
    int result = ncclSuccess;
    GT_TRY(begin_group(p));
    for (unsigned k = 0; k < p->call->count && result == ncclSuccess; k++) {
        if (sent[k].bytes)
            result = nccl->send(sent[k].memory, sent[k].bytes, ncclInt8, (int)k, p->comm, p->cuda->stream);
        if (received[k].bytes && result == ncclSuccess)
            result =
                nccl->receive(received[k].memory, received[k].bytes, ncclInt8, (int)k, p->comm, p->cuda->stream);
    }
    return end_group(p, result);
}

static gt_err all_reduce(passage *p)
{
    const gt_group_call *call = p->call;
    GT_TRY(begin_group(p));
    return end_group(p, p->cuda->nccl->all_reduce(call->in->data, call->out->data,
                                                  (size_t)call->whole->numel * p->terms, p->type, ncclSum, p->comm,
                                                  p->cuda->stream));
}

static gt_err broadcast(passage *p)
{
    const gt_group_call *call = p->call;
    GT_TRY(begin_group(p));
    return end_group(p, p->cuda->nccl->broadcast(call->in ? call->in->data : call->out->data, call->out->data,
                                                 (size_t)call->whole->numel * p->size, ncclInt8, 0, p->comm,
                                                 p->cuda->stream));
}

static gt_err all_gather(passage *p)
{
    const gt_group_call *call = p->call;
    const cut *c = &p->before;
    parcel sent[GT_MAX_PARTIES], received[GT_MAX_PARTIES];
    int64_t elements = slice(call->whole, c->axis);
    CUdeviceptr to;
    GT_TRY(receive_at(p, c, &to));
    if (c->even) {
        GT_TRY(begin_group(p));
        GT_TRY(end_group(p, p->cuda->nccl->all_gather(call->in->data, (void *)(uintptr_t)to,
                                                      (size_t)(c->count[0] * elements) * p->size, ncclInt8,
                                                      p->comm, p->cuda->stream)));
        return unpack(p, c);
    }
    for (unsigned k = 0; k < call->count; k++) {
        sent[k] = (parcel){call->in->data, (size_t)call->in->meta.numel * p->size};
        received[k] =
            (parcel){address(to, c->start[k] * elements, p->size), (size_t)(c->count[k] * elements) * p->size};
    }
    GT_TRY(exchange(p, sent, received));
    return unpack(p, c);
}

static gt_err reduce_scatter(passage *p)
{
    const gt_group_call *call = p->call;
    const gt_cuda_nccl *nccl = p->cuda->nccl;
    const cut *c = &p->after;
    int64_t elements = slice(call->whole, c->axis);
    int result = ncclSuccess;
    CUdeviceptr from;
    GT_TRY(pack(p, call->in, c, &from));
    GT_TRY(begin_group(p));
    if (c->even)
        return end_group(p, nccl->reduce_scatter((void *)(uintptr_t)from, call->out->data,
                                                 (size_t)(c->count[0] * elements) * p->terms, p->type, ncclSum,
                                                 p->comm, p->cuda->stream));
    for (unsigned k = 0; k < call->count && result == ncclSuccess; k++)
        if (c->count[k])
            result = nccl->reduce(address(from, c->start[k] * elements, p->size), call->out->data,
                                  (size_t)(c->count[k] * elements) * p->terms, p->type, ncclSum, (int)k, p->comm,
                                  p->cuda->stream);
    return end_group(p, result);
}

static gt_err all_to_all(passage *p)
{
    const gt_group_call *call = p->call;
    const cut *before = &p->before, *after = &p->after;
    parcel sent[GT_MAX_PARTIES], received[GT_MAX_PARTIES];
    int64_t ours = slice(&call->in->meta, after->axis), theirs = slice(&call->out->meta, before->axis);
    CUdeviceptr from, to;
    GT_TRY(pack(p, call->in, after, &from));
    GT_TRY(receive_at(p, before, &to));
    for (unsigned k = 0; k < call->count; k++) {
        sent[k] =
            (parcel){address(from, after->start[k] * ours, p->size), (size_t)(after->count[k] * ours) * p->size};
        received[k] = (parcel){address(to, before->start[k] * theirs, p->size),
                               (size_t)(before->count[k] * theirs) * p->size};
    }
    GT_TRY(exchange(p, sent, received));
    return unpack(p, before);
}

/* ---- the call -------------------------------------------------------------------------------------------------------------- */

/* NCCL's type for sums; -1: it has none. */
static int sum_type(gt_dtype dtype)
{
    static const int types[GT_DTYPE_COUNT] = {
        [GT_BOOL] = -1,
        [GT_UINT8] = ncclUint8,
        [GT_INT8] = ncclInt8,
        [GT_INT16] = -1,
        [GT_INT32] = ncclInt32,
        [GT_INT64] = ncclInt64,
        [GT_FLOAT16] = ncclFloat16,
        [GT_BFLOAT16] = ncclBfloat16,
        [GT_FLOAT32] = ncclFloat32,
        [GT_FLOAT64] = ncclFloat64,
        [GT_COMPLEX64] = ncclFloat32,
        [GT_COMPLEX128] = ncclFloat64,
    };
    return types[dtype];
}

/* Whether NCCL does it, the same at all parties. */
static bool prepare(passage *p)
{
    const gt_group_call *call = p->call;
    gt_dtype dtype = (gt_dtype)call->whole->dtype;
    bool adds = call->op == GT_OP_all_reduce || call->op == GT_OP_reduce_scatter;
    p->type = sum_type(dtype);
    p->size = gt__dtype_size(dtype);
    p->terms = gt__dtype_is_complex(dtype) ? 2 : 1;
    if ((adds && p->type < 0) || call->count > GT_MAX_PARTIES)
        return false;
    switch (call->op) {
    case GT_OP_all_reduce:
    case GT_OP_broadcast:
        return true;
    case GT_OP_all_gather:
        return make_cut(call, false, &p->before);
    case GT_OP_reduce_scatter:
        return make_cut(call, true, &p->after);
    case GT_OP_all_to_all:
        return call->axis != call->axis_after && make_cut(call, false, &p->before) &&
               make_cut(call, true, &p->after);
    default:
        return false;
    }
}

static gt_err queue_call(passage *p)
{
    gt_err err;
    switch (p->call->op) {
    case GT_OP_all_reduce:
        err = all_reduce(p);
        break;
    case GT_OP_reduce_scatter:
        err = reduce_scatter(p);
        break;
    case GT_OP_all_gather:
        err = all_gather(p);
        break;
    case GT_OP_all_to_all:
        err = all_to_all(p);
        break;
    default:
        err = broadcast(p);
    }
    for (int k = 0; k < 2; k++)
        if (p->room[k])
            gt__cuda_scratch_release(p->cuda, p->room[k]);
    return err;
}

gt_err gt__cuda_collective(gt_engine *engine, const gt_group_call *call, gt_token *token)
{
    gt_cuda *cuda = gt__cuda(engine);
    passage p = {.cuda = cuda, .call = call};
    if (!prepare(&p))
        return GT_ERR_UNSUPPORTED;
    bool empty = call->whole->numel == 0;
    if (!empty)
        GT_TRY(gt__cuda_comm(cuda, call, &p.kept));
    gt_err err = gt__cuda_begin(cuda, call->timed);
    if (err == GT_OK && !empty) {
        p.comm = gt__cuda_comm_handle(p.kept);
        err = gt__cuda_item_comm(cuda, p.kept, call->tag);
        if (err == GT_OK)
            err = queue_call(&p);
        if (err == GT_ERR_UNSUPPORTED) /* the others have queued it */
            err = GT_ERR_INTERNAL;
    }
    if (err != GT_OK && !empty && gt__cuda_comm_stands(cuda, call, p.kept))
        gt__cuda_comm_drop(cuda, p.kept, err, true); /* part of it may be queued, and would wait for ever */
    return gt__cuda_end(cuda, err, 0, token);
}
