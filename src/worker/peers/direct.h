/*
 * direct.h: tensors that leave from and arrive in the engine's memory, where the exchange reaches it (exchange.h: attach) and the
 * host does not. All others are copied through the host's memory.
 *
 * A tensor leaves when it is complete, and its memory stays as it is until the receiver has it. One that comes is announced; when
 * its record is at hand it gets memory, and is fetched once everything that the engine had queued before is done: that may
 * still use the memory.
 */
#ifndef GT_WORKER_PEERS_DIRECT_H
#define GT_WORKER_PEERS_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/peers/exchange.h"

typedef struct gt_worker gt_worker;
typedef struct gt_buffer gt_buffer;

/* Whether a tensor of so many bytes can leave for that worker from the engine's memory now. */
bool gt__direct_to(const gt_worker *worker, int32_t to, size_t bytes);
/* Post one that is complete: message 0 of the transfer. Takes a reference of the buffer. An error: nothing was posted. */
gt_err gt__direct_post(gt_worker *worker, int32_t to, uint64_t tag, void *memory, size_t bytes, gt_buffer *buffer);
/* Whether message 0 of a transfer is here, a tensor of so many bytes. Never waits: gives one that is announced memory. */
bool gt__direct_has_come(gt_worker *worker, int32_t from, uint64_t tag, size_t bytes);
/* Wait for that; or until it will not come. */
void gt__direct_await(gt_worker *worker, int32_t from, uint64_t tag, size_t bytes);

#endif
