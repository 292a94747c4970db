/*
 * names.h: what the program calls its tensors, such as "layer2.weight". The server does nothing with a name, but a tape has it, so
 * that `gt replay` can say which parameter an infinity went into.
 *
 * A name belongs to an object of the program, not to a value: p and q have the same value after p.copy_(q). So it is kept with the
 * object's gt_tensor, and goes on to the next one when the object gets another value. Most updates tell that by a flag of their own
 * record, GT_FLAG_UPDATES, at no cost. After others the name is sent again, but only a few times: a program that replaces its
 * parameters in every step loses the names.
 */
#ifndef GT_CLIENT_NAMES_H
#define GT_CLIENT_NAMES_H

#include "client/client.h"

/* Name the tensor of an object, or rename it. A long name loses its beginning. Without an effect if the client is
 * closed, on a tensor that has no value of its own (a consumed one, or one inside a vmap), and after very many names. */
gt_err gt__name_give(gt_tensor *tensor, const char *text);
/* An object that had the value `old`, which has a name, has the value `next` now. Never waits. */
void gt__name_follow(gt_tensor *old, gt_tensor *next);

#endif
