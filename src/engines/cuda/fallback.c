/*
 * fallback.c: calls that the card has no kernel for: the operands come to the host, the cpu engine computes, and the result
 * goes back. Slow and always right. The engine counts these calls and names their ops.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "engines/cuda/cuda.h"

enum { ALIGNMENT = 64, SPARSE_BYTES = 64 * 1024 };

/* A call on the host. */
typedef struct host_call {
    gt_call call;
    gt_view out;
    gt_view *in;
    const gt_view **views;
    void **memory; /* of each operand; the result's is last */
} host_call;

static void *host_memory(size_t bytes)
{
    return aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
}

/* The bytes from the first to the last element of a view, and how far element (0,...,0) is from the first. */
static size_t span(const gt_view *view, int64_t *first)
{
    int64_t low = 0, high = 0, size = (int64_t)gt__dtype_size((gt_dtype)view->meta.dtype);
    *first = 0;
    if (view->meta.numel == 0)
        return 0;
    for (unsigned axis = 0; axis < view->meta.rank; axis++) {
        int64_t reach = view->stride[axis] * (view->meta.shape[axis] - 1);
        *(reach < 0 ? &low : &high) += reach;
    }
    *first = -low * size;
    return (size_t)((high - low + 1) * size);
}

static void set_contiguous(gt_view *view)
{
    int64_t stride = 1;
    for (unsigned axis = view->meta.rank; axis-- > 0;) {
        view->stride[axis] = stride;
        stride *= view->meta.shape[axis] ? view->meta.shape[axis] : 1;
    }
    view->contiguous = true;
}

/* A view with few elements in a long stretch of memory: copy it on the card first. The scratch holds the copy. */
static gt_err gather(gt_cuda *cuda, gt_view *view, CUdeviceptr *scratch)
{
    gt_instruction copy = {.op = GT_OP_copy, .dtype = view->meta.dtype};
    const gt_view *in = view;
    gt_view packed = {.meta = view->meta};
    set_contiguous(&packed);
    GT_TRY(gt__cuda_scratch_take(cuda, gt__meta_bytes(&view->meta), scratch));
    packed.data = (void *)(uintptr_t)*scratch;
    gt_call call = {.op = GT_OP_copy,
                    .compute = (gt_dtype)view->meta.dtype,
                    .ins = &copy,
                    .operands = 1,
                    .in = &in,
                    .out = &packed};
    GT_TRY(gt__cuda_run_kernels(cuda, &call, GT_CUDA_NO_STEP));
    *view = packed;
    return GT_OK;
}

/* Queue the download of one operand; `view` becomes a view of the host's copy. */
static gt_err fetch_operand(gt_cuda *cuda, gt_view *view, void **memory, gt_token *number)
{
    int64_t first;
    CUdeviceptr scratch = 0;
    size_t bytes = span(view, &first);
    if (bytes > SPARSE_BYTES && bytes / 2 > gt__meta_bytes(&view->meta) && gather(cuda, view, &scratch) == GT_OK)
        bytes = span(view, &first);
    gt_err err = (*memory = host_memory(bytes)) ? GT_OK : gt__fail(GT_ERR_MEMORY, "the host has no memory for it");
    if (err == GT_OK && bytes)
        err = gt__cuda_download(cuda, (CUdeviceptr)(uintptr_t)view->data - (CUdeviceptr)first, *memory, bytes,
                                number);
    if (scratch)
        gt__cuda_scratch_release(cuda, scratch);
    view->data = (uint8_t *)*memory + first;
    return err;
}

static gt_err fetch_operands(gt_cuda *cuda, const gt_call *call, host_call *h)
{
    gt_token number = 0;
    size_t out_bytes = gt__meta_bytes(&call->out->meta);
    for (unsigned k = 0; k < call->operands; k++) {
        h->in[k] = *call->in[k];
        h->views[k] = &h->in[k];
        if (!(k < GT_MAX_OPERANDS && call->literals >> k & 1))
            GT_TRY(fetch_operand(cuda, &h->in[k], &h->memory[k], &number));
    }
    h->out = *call->out;
    if (call->operands && call->out->data == call->in[0]->data && call->in[0]->contiguous && h->memory[0] &&
        out_bytes)
        h->out.data = h->in[0].data; /* in place */
    else if (!(h->out.data = h->memory[call->operands] = host_memory(out_bytes)))
        return gt__fail(GT_ERR_MEMORY, "the host has no memory for it");
    if (number) {
        GT_TRY(gt__cuda_queue_wait(cuda, number));
        gt__cuda_transfer_drain(cuda, number);
    }
    return GT_OK;
}

static void count(gt_cuda *cuda, gt_opcode op)
{
    if (cuda->fallbacks[op]++ == 0)
        gt__log(GT_LOG_WORKER, "cuda: %s runs on the host", gt__op_table[op].name);
}

/* Errors of the call itself go into an item: operands may have failed, and their failure comes first. */
gt_err gt__cuda_fallback(gt_cuda *cuda, const gt_call *call, unsigned step)
{
    host_call h = {.call = *call};
    unsigned operands = call->operands;
    gt_token number = 0, before = cuda->last;
    if (cuda->capturing)
        return gt__fail(GT_ERR_UNSUPPORTED, "%s runs on the host", gt__op_table[call->op].name);
    count(cuda, call->op);
    h.in = malloc((operands + 1) * sizeof *h.in);
    h.views = malloc((operands + 1) * sizeof *h.views);
    h.memory = calloc(operands + 1, sizeof *h.memory);
    gt_err err =
        h.in && h.views && h.memory ? fetch_operands(cuda, call, &h) : gt__fail(GT_ERR_MEMORY, "out of memory");
    if (err == GT_OK) {
        h.call.in = h.views;
        h.call.out = &h.out;
        gt_err failure = cuda->host->ops->run(cuda->host, &h.call, &number);
        if (failure != GT_OK)
            err = gt__cuda_item_failed(cuda, step, failure);
        else if (gt__meta_bytes(&h.out.meta))
            err = gt__cuda_upload(cuda, (CUdeviceptr)(uintptr_t)call->out->data, h.out.data,
                                  gt__meta_bytes(&h.out.meta), &number);
    }
    if (err != GT_OK)
        gt__cuda_transfer_forget(cuda, before);
    for (unsigned k = 0; h.memory && k <= operands; k++)
        free(h.memory[k]);
    free(h.in);
    free(h.views);
    free(h.memory);
    return err;
}

void gt__cuda_fallback_report(const gt_cuda *cuda)
{
    char text[1024];
    size_t length = 0;
    for (gt_opcode op = 1; op < GT_OP_COUNT && length < sizeof text; op++)
        if (cuda->fallbacks[op])
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%s %u", length ? ", " : "",
                                       gt__op_table[op].name, (unsigned)cuda->fallbacks[op]);
    if (length)
        gt__log(GT_LOG_STATUS, "cuda: calls that ran on the host: %s", text);
}
