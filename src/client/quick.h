/*
 * quick.h: what most operations of a hot loop do, without a call: an elementwise operation that its path expects, from the same place
 * in the program and on tensors of the same kind as last time; and the free of a tensor that nothing else refers to.
 *
 * Both only append: a record to the stage of hotpath.c, an id to the client's queue. Whatever else there is to do (gradients, scopes,
 * waits, the first and last record of a path) they leave to emit.c, which does all of it. A language binding calls them first.
 */
#ifndef GT_CLIENT_QUICK_H
#define GT_CLIENT_QUICK_H

#include <stddef.h>

#include "client/hotpath.h"
#include "client/signals.h"

enum {
    GT_QUICK_LESSONS = 8
}; /* an instruction of the program may move a little as its interpreter specialises it */

/* To the free list: the tensor is as tensor_clear in emit.c leaves it. */
static inline void gt__tensor_spare(gt_tensor *tensor)
{
    gt_client *client = tensor->client;
    tensor->next_spare = client->spare;
    client->spare = tensor;
    client->live--;
}

/* Release a tensor of one reference that is as new, while frees are only queued. False: nothing was done. */
static inline bool gt__quick_release(gt_tensor *tensor)
{
    gt_client *client = tensor->client;
    size_t count = client->free_count;
    if (count >= client->free_room)
        return false;
    uint64_t flags[2]; /* references, version, overwritten; bounded, inference, batch, name */
    _Static_assert(offsetof(gt_tensor, client) == sizeof flags, "these are the fields before the client");
    memcpy(flags, tensor, sizeof flags);
    bool is_new = flags[0] == 1 && !flags[1] && !tensor->base && !tensor->node && !tensor->versions && tensor->id;
    if (!is_new)
        return false;
    client->frees[count] = tensor->id;
    client->free_count = count + 1;
    gt__tensor_spare(tensor);
    return true;
}

/* gt_tensor_release where gt__quick_release has returned false. */
void gt__tensor_release_any(gt_tensor *tensor);

/* Whether it is worth while to ask where the program is. */
static inline bool gt__quick_may(const gt_tensor *a)
{
    return a->client->expected != NULL;
}

/*
 * The result of an operation on `a`, which has its metadata; b: the other operand, or NULL for a literal, whose word is `second`. head: the
 * first word of its record. at: the instruction of the program (gt_site_hooks). The client expects a record (gt__quick_may). NULL: nothing
 * was done.
 */
__attribute__((always_inline)) static inline gt_tensor *gt__quick_emit(gt_tensor *a, gt_tensor *b, uint64_t head,
                                                                       uint64_t second, const void *at)
{
    gt_client *client = a->client;
    gt_expected *expected = client->expected;
    if (!at || expected->at != at)
        return NULL;
    if (!gt__expected_fits_plain(expected, client->cell, head, client->next_id, a->id, second,
                                 expected->word[GT_WORD_PLACE]) ||
        a->meta.kind != expected->kind || a->node)
        return NULL;
    if (b && (b->client != client || b->node || b->meta.kind != a->meta.kind ||
              b->meta.shape[0] != a->meta.shape[0] || b->meta.shape[1] != a->meta.shape[1]))
        return NULL;
    if (!client->usable || client->waiting || client->generation != gt__fork_generation || gt__signals_on())
        return NULL;
    gt_tensor *result = client->spare;
    if (__builtin_expect(!result, 0))
        return NULL;
    gt_slot *slot = client->link->write_next;
    uint64_t id = client->next_id;
    client->spare = result->next_spare;
    client->next_id = id + 1;
    client->live++;
    client->expected = expected + 1;
    client->link->write_next = slot + 1;
    result->id = id;
    memcpy(&result->meta, &a->meta, offsetof(gt_meta, shape) + 2 * sizeof a->meta.shape[0]);
    *slot = (gt_slot){.u64 = {head, id, a->id, second, 0, 0, 0, expected->word[GT_WORD_PLACE]}};
    return result;
}

#endif
