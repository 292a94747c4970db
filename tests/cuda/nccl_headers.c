/* nccl_headers.c: engines/cuda/api.h agrees with NCCL's headers. Compiled where they are found; there is nothing to run. */
#include <cublasLt.h>
#include <cuda.h>
#include <nccl.h>
#include <nvrtc.h>

#define GT_CUDA_HEADERS
#define GT_NCCL_HEADERS
#include "engines/cuda/api.h"

#define SAME(name, value) _Static_assert((int)name == value, #name);
GT_CUDA_NCCL_CONSTANTS(SAME)

_Static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int), "enumerations");
_Static_assert(sizeof(ncclUniqueId) == 128, "ids");
#ifdef NCCL_API_MAGIC /* a plain number in older headers */
_Static_assert(NCCL_API_MAGIC == GT_NCCL_MAGIC, "the configuration");
#endif
_Static_assert(offsetof(ncclConfig_t, magic) == offsetof(gt_nccl_config, magic) &&
                   offsetof(ncclConfig_t, version) == offsetof(gt_nccl_config, version) &&
                   offsetof(ncclConfig_t, blocking) == offsetof(gt_nccl_config, blocking),
               "the configuration");
