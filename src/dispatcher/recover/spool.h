/*
 * spool.h: values of snapshots on disk, so that the server's memory stays small: `gt server --recover-snapshots DIR`.
 *
 * A thread of the server writes them. The dispatcher never waits for the disk: a value lies in memory until it is written, and
 * is read back in pieces, each only when the system has it in memory. The files have no names: no other process can open
 * them, and the system removes them when the server ends, by SIGKILL, too. What cannot be written (a full disk) stays in memory.
 */
#ifndef GT_DISPATCHER_RECOVER_SPOOL_H
#define GT_DISPATCHER_RECOVER_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

typedef struct gt_spool gt_spool;
/* One value. */
typedef struct gt_spooled gt_spooled;

/* `most`: bytes of all values on disk. GT_ERR_VALUE: no file can be made in the directory. */
gt_err gt__spool_new(const char *directory, uint64_t most, gt_spool **spool);
/* Without values, or none of them is used any more. May be NULL inside. */
void gt__spool_free(gt_spool **spool);

/* Keep `bytes` (more than 0) of data; takes the memory, which malloc gave. NULL: out of memory, and it is not taken. */
gt_spooled *gt__spool_put(gt_spool *spool, uint8_t *data, size_t bytes);
/* Values of so many bytes would still fit. */
bool gt__spool_has_room(gt_spool *spool, uint64_t bytes);
/* Bytes of values that are not written yet. */
uint64_t gt__spool_memory(gt_spool *spool);

/* Whether a part of the value can be read without waiting for the disk. If not, it can be soon. */
bool gt__spooled_ready(gt_spooled *spooled, uint64_t offset, size_t bytes);
/* Copy a part of the value. False: the disk has failed. */
bool gt__spooled_read(gt_spooled *spooled, uint64_t offset, void *to, size_t bytes);
/* Not needed any more. May be NULL. */
void gt__spooled_release(gt_spooled *spooled);

#endif
