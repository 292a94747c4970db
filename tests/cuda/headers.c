/* headers.c: engines/cuda/api.h agrees with the toolkit's headers. Compiled where they are found; there is nothing to run. */
#include <cublasLt.h>
#include <cuda.h>
#include <nvrtc.h>

#define GT_CUDA_HEADERS
#include "engines/cuda/api.h"

#define SAME(name, value) _Static_assert((int)name == value, #name);
GT_CUDA_DRIVER_CONSTANTS(SAME)
GT_CUDA_BLAS_CONSTANTS(SAME)

_Static_assert(sizeof(CUdeviceptr) == 8, "addresses");
_Static_assert(sizeof(CUresult) == sizeof(int), "results");
_Static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == 72 && offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams) == 40,
               "nodes");
_Static_assert(sizeof(CUipcMemHandle) == 64, "handles");
_Static_assert(sizeof(cublasLtMatmulAlgo_t) == 64, "algorithms");
_Static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 64 + 8 + 4 + 4 + 16, "proposals");
_Static_assert(offsetof(cublasLtMatmulHeuristicResult_t, state) == 72, "proposals");
