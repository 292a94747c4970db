/* host_memory.h: how many bytes of tensors a worker on host memory may hold. */
#ifndef GT_ENGINES_HOST_MEMORY_H
#define GT_ENGINES_HOST_MEMORY_H

#include <stdint.h>

/* GT_WORKER_MEMORY (bytes, or 500M, 4G) if set; else nine tenths of what the machine or the control group has, divided
 * by the workers that share it. */
uint64_t gt__memory_limit(unsigned sharers);

/* A number for the memory that gt__memory_limit divides: the host's, or that of the control group if it has a limit. */
uint64_t gt__memory_identity(void);

#endif
