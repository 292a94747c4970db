/* host_memory.h: how many bytes of tensors a worker on host memory may hold, and how much memory the host has left. */
#ifndef GT_ENGINES_HOST_MEMORY_H
#define GT_ENGINES_HOST_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

/* GT_WORKER_MEMORY (bytes, or 500M, 4G) if set; else nine tenths of what the machine or the control group has, divided
 * by the workers that share it. */
uint64_t gt__memory_limit(unsigned sharers);

/* A number for the memory that gt__memory_limit divides: the host's, or that of the control group if it has a limit. */
uint64_t gt__memory_identity(void);
/* The same number for all processes of this host, since it was booted. */
uint64_t gt__host_identity(void);

/*
 * GT_ERR_MEMORY if the host, or a control group with a limit, would have less than a tenth of its memory left after
 * `bytes` more. The limit above divides memory among the workers of one server. This also counts other servers and
 * everything else on the host. It reads files: call it for large blocks, or once for many small ones.
 */
gt_err gt__memory_check(size_t bytes);
enum { GT_MEMORY_CHECK_BYTES = 64 << 20 }; /* large, or many */

/* For tests: look for the files of /proc and /sys below this folder; "" for the real ones. Borrowed. */
void gt__memory_set_root(const char *root);

#endif
