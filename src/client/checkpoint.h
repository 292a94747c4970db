/*
 * checkpoint.h: nodes that give up their saved values after the forward pass, and get them again before the backward pass.
 *
 * A region is all nodes recorded between two positions of the tape. Dropping its values frees the memory of the forward pass.
 * Each of its nodes has a hook, which computes the forward pass again when the first gradient arrives; the new nodes save the
 * same values in the same order, and the old ones take them. Read next: gt/utils/checkpoint.py.
 */
#ifndef GT_CLIENT_CHECKPOINT_H
#define GT_CLIENT_CHECKPOINT_H

#include "client/autograd.h"

/* The position of the next node. */
uint64_t gt__tape_position(const gt_client *client);
/* Drop the saved values of the nodes since `begin`. Each such node gets the hook; `retain` counts its references to the context. */
gt_err gt__checkpoint_drop(gt_client *client, uint64_t begin, gt_hook hook, void *context, void (*retain)(void *),
                           void (*free)(void *));
/* Nodes of [begin, end) without values take those of the nodes recorded since `again`, in order. An error if these differ. */
gt_err gt__checkpoint_restore(gt_client *client, uint64_t begin, uint64_t end, uint64_t again);

#endif
