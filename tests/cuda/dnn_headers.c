/* dnn_headers.c: engines/cuda/api.h agrees with cuDNN's headers. Compiled where they are found; there is nothing to run. */
#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>
#include <nvrtc.h>

#define GT_CUDA_HEADERS
#define GT_CUDNN_HEADERS
#include "engines/cuda/api.h"

#define SAME(name, value) _Static_assert((int)name == value, #name);
GT_CUDA_DNN_CONSTANTS(SAME)

_Static_assert(sizeof(cudnnStatus_t) == sizeof(int) && sizeof(cudnnDataType_t) == sizeof(int32_t), "enumerations");
_Static_assert(sizeof(cudnnBackendNumericalNote_t) == sizeof(int32_t) &&
                   sizeof(cudnnBackendHeurMode_t) == sizeof(int32_t),
               "enumerations");
