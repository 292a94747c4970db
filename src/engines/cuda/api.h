/*
 * api.h: the parts of NVIDIA's libraries that the engine uses: the driver (libcuda), the run-time compiler (NVRTC), cuBLASLt,
 * cuDNN and NCCL. They are opened when they are first needed, so the plug-in builds without a toolkit and loads without a driver.
 *
 * The declarations are written out here, since the interfaces are stable and a toolkit is a gigabyte. Where a toolkit's
 * headers are found, the build compares them with this file (tests/cuda/headers.c, dnn_headers.c and nccl_headers.c).
 */
#ifndef GT_ENGINES_CUDA_API_H
#define GT_ENGINES_CUDA_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

/* ---- constants: X(name, value) ------------------------------------------------------------------------------- */

#define GT_CUDA_DRIVER_CONSTANTS(X)                                                                               \
    X(CUDA_SUCCESS, 0)                                                                                            \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2)                                                                                \
    X(CUDA_ERROR_NO_DEVICE, 100)                                                                                  \
    X(CUDA_ERROR_NOT_READY, 600)                                                                                  \
    X(CU_STREAM_NON_BLOCKING, 1)                                                                                  \
    X(CU_EVENT_DEFAULT, 0)                                                                                        \
    X(CU_STREAM_WRITE_VALUE_DEFAULT, 0)                                                                           \
    X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)                                                                          \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                                                               \
    X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 39)                                                     \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                                                           \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                                                           \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97)                                                  \
    X(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 122)                                                     \
    X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)                                                         \
    X(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, 1)                                                                      \
    X(CU_MEMHOSTREGISTER_PORTABLE, 1)                                                                             \
    X(CU_MEMHOSTALLOC_PORTABLE, 1)                                                                                \
    X(CU_MEMHOSTALLOC_DEVICEMAP, 2)

#define GT_CUDA_BLAS_CONSTANTS(X)                                                                                 \
    X(CUBLAS_STATUS_SUCCESS, 0)                                                                                   \
    X(CUBLAS_OP_N, 0)                                                                                             \
    X(CUBLAS_OP_T, 1)                                                                                             \
    X(CUBLAS_COMPUTE_32F, 68)                                                                                     \
    X(CUBLAS_COMPUTE_64F, 70)                                                                                     \
    X(CUBLAS_COMPUTE_32F_FAST_TF32, 77)                                                                           \
    X(CUDA_R_32F, 0)                                                                                              \
    X(CUDA_R_64F, 1)                                                                                              \
    X(CUDA_R_16F, 2)                                                                                              \
    X(CUDA_C_32F, 4)                                                                                              \
    X(CUDA_C_64F, 5)                                                                                              \
    X(CUDA_R_16BF, 14)                                                                                            \
    X(CUBLASLT_MATMUL_DESC_TRANSA, 3)                                                                             \
    X(CUBLASLT_MATMUL_DESC_TRANSB, 4)                                                                             \
    X(CUBLASLT_MATMUL_DESC_EPILOGUE, 7)                                                                           \
    X(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8)                                                                       \
    X(CUBLASLT_EPILOGUE_BIAS, 4)                                                                                  \
    X(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5)                                                                      \
    X(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6)                                                             \
    X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)                                                                \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5)                                                              \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6)                                                              \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7)                                                              \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)

#define GT_CUDA_NCCL_CONSTANTS(X)                                                                                 \
    X(ncclSuccess, 0)                                                                                             \
    X(ncclInProgress, 7)                                                                                          \
    X(ncclSum, 0)                                                                                                 \
    X(ncclInt8, 0)                                                                                                \
    X(ncclUint8, 1)                                                                                               \
    X(ncclInt32, 2)                                                                                               \
    X(ncclInt64, 4)                                                                                               \
    X(ncclFloat16, 6)                                                                                             \
    X(ncclFloat32, 7)                                                                                             \
    X(ncclFloat64, 8)                                                                                             \
    X(ncclBfloat16, 9)

#define GT_CUDA_DNN_CONSTANTS(X)                                                                                  \
    X(CUDNN_STATUS_SUCCESS, 0)                                                                                    \
    X(CUDNN_DATA_FLOAT, 0)                                                                                        \
    X(CUDNN_DATA_DOUBLE, 1)                                                                                       \
    X(CUDNN_DATA_HALF, 2)                                                                                         \
    X(CUDNN_DATA_BFLOAT16, 9)                                                                                     \
    X(CUDNN_CROSS_CORRELATION, 1)                                                                                 \
    X(CUDNN_TYPE_HANDLE, 0)                                                                                       \
    X(CUDNN_TYPE_DATA_TYPE, 1)                                                                                    \
    X(CUDNN_TYPE_INT64, 3)                                                                                        \
    X(CUDNN_TYPE_FLOAT, 4)                                                                                        \
    X(CUDNN_TYPE_DOUBLE, 5)                                                                                       \
    X(CUDNN_TYPE_VOID_PTR, 6)                                                                                     \
    X(CUDNN_TYPE_CONVOLUTION_MODE, 7)                                                                             \
    X(CUDNN_TYPE_HEUR_MODE, 8)                                                                                    \
    X(CUDNN_TYPE_NUMERICAL_NOTE, 11)                                                                              \
    X(CUDNN_TYPE_BACKEND_DESCRIPTOR, 15)                                                                          \
    X(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, 1)                                                                    \
    X(CUDNN_BACKEND_ENGINE_DESCRIPTOR, 2)                                                                         \
    X(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 3)                                                                      \
    X(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 4)                                                                     \
    X(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5)                                                                 \
    X(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 10)                                                 \
    X(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, 11)                                         \
    X(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, 12)                                           \
    X(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15)                                                                \
    X(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 16)                                                                  \
    X(CUDNN_BACKEND_TENSOR_DESCRIPTOR, 17)                                                                        \
    X(CUDNN_HEUR_MODE_FALLBACK, 2)                                                                                \
    X(CUDNN_HEUR_MODE_A, 3)                                                                                       \
    X(CUDNN_NUMERICAL_NOTE_TENSOR_CORE, 0)                                                                        \
    X(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, 1)                                                                \
    X(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, 2)                                                        \
    X(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, 4)                                                                   \
    X(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 100)                                                                      \
    X(CUDNN_ATTR_CONVOLUTION_CONV_MODE, 101)                                                                      \
    X(CUDNN_ATTR_CONVOLUTION_DILATIONS, 102)                                                                      \
    X(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 103)                                                                 \
    X(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 104)                                                                  \
    X(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 105)                                                                   \
    X(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 106)                                                                   \
    X(CUDNN_ATTR_ENGINEHEUR_MODE, 200)                                                                            \
    X(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 201)                                                                 \
    X(CUDNN_ATTR_ENGINEHEUR_RESULTS, 202)                                                                         \
    X(CUDNN_ATTR_ENGINECFG_ENGINE, 300)                                                                           \
    X(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 400)                                                                      \
    X(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401)                                                               \
    X(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402)                                                              \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 700)                                                        \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 701)                                                         \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 702)                                                    \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, 703)                                                            \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, 704)                                                            \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, 705)                                                            \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 706)                                                       \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 707)                                                        \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, 708)                                                   \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, 709)                                                           \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, 710)                                                          \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, 711)                                                          \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 712)                                                     \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 713)                                                      \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, 714)                                                 \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, 715)                                                        \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, 716)                                                         \
    X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, 717)                                                        \
    X(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 800)                                                                      \
    X(CUDNN_ATTR_OPERATIONGRAPH_OPS, 801)                                                                         \
    X(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 900)                                                                      \
    X(CUDNN_ATTR_TENSOR_DATA_TYPE, 901)                                                                           \
    X(CUDNN_ATTR_TENSOR_DIMENSIONS, 902)                                                                          \
    X(CUDNN_ATTR_TENSOR_STRIDES, 903)                                                                             \
    X(CUDNN_ATTR_TENSOR_UNIQUE_ID, 906)                                                                           \
    X(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 1000)                                                                   \
    X(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 1001)                                                                \
    X(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1003)                                                                    \
    X(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, 1303)

/* ---- types ---------------------------------------------------------------------------------------------------- */

#define GT_CUDA_CONSTANT(name, value) name = value,

#ifndef GT_CUDA_HEADERS /* the toolkit's headers are not included before this one */

enum { GT_CUDA_DRIVER_CONSTANTS(GT_CUDA_CONSTANT) GT_CUDA_BLAS_CONSTANTS(GT_CUDA_CONSTANT) };

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUDA_KERNEL_NODE_PARAMS {
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void **kernelParams, **extra;
    void *kern;
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;
typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;
typedef struct CUipcMemHandle_st {
    char reserved[64];
} CUipcMemHandle;

typedef struct _nvrtcProgram *nvrtcProgram;

typedef struct cublasLtContext *cublasLtHandle_t;
typedef void *cublasLtMatmulDesc_t;
typedef void *cublasLtMatrixLayout_t;
typedef void *cublasLtMatmulPreference_t;
typedef struct cublasLtMatmulAlgo_t {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct cublasLtMatmulHeuristicResult_t {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    int state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;

#endif

#ifndef GT_CUDNN_HEADERS /* cuDNN's are not, either */

enum { GT_CUDA_DNN_CONSTANTS(GT_CUDA_CONSTANT) };

typedef struct cudnnContext *cudnnHandle_t;
typedef void *cudnnBackendDescriptor_t;

#endif

#ifndef GT_NCCL_HEADERS /* nor are NCCL's */

enum { GT_CUDA_NCCL_CONSTANTS(GT_CUDA_CONSTANT) };

typedef struct ncclComm *ncclComm_t;
typedef struct ncclUniqueId {
    char internal[128];
} ncclUniqueId;

#endif

/* ncclConfig_t of version 2.14, which is the beginning of those of later versions. */
typedef struct gt_nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking;
} gt_nccl_config;
enum { GT_NCCL_CONFIG_VERSION = 21400 };
#define GT_NCCL_MAGIC 0xcafebeefu

/* ---- functions: X(member, symbol, arguments). All return an int, 0 for success. ----------------------------------- */

#define GT_CUDA_DRIVER_FUNCTIONS(X)                                                                               \
    X(init, cuInit, (unsigned flags))                                                                             \
    X(driver_version, cuDriverGetVersion, (int *version))                                                         \
    X(error_name, cuGetErrorName, (int error, const char **text))                                                 \
    X(error_string, cuGetErrorString, (int error, const char **text))                                             \
    X(device_count, cuDeviceGetCount, (int *count))                                                               \
    X(device_get, cuDeviceGet, (CUdevice * device, int ordinal))                                                  \
    X(device_name, cuDeviceGetName, (char *name, int length, CUdevice device))                                    \
    X(device_uuid, cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                                          \
    X(device_bus_id, cuDeviceGetPCIBusId, (char *text, int length, CUdevice device))                              \
    X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                       \
    X(context_retain, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                           \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                           \
    X(context_set, cuCtxSetCurrent, (CUcontext context))                                                          \
    X(memory_info, cuMemGetInfo_v2, (size_t * free, size_t * total))                                              \
    X(memory_alloc, cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))                                         \
    X(memory_free, cuMemFree_v2, (CUdeviceptr address))                                                           \
    X(handle_get, cuIpcGetMemHandle, (CUipcMemHandle * handle, CUdeviceptr address))                              \
    X(handle_open, cuIpcOpenMemHandle_v2, (CUdeviceptr * address, CUipcMemHandle handle, unsigned flags))         \
    X(handle_close, cuIpcCloseMemHandle, (CUdeviceptr address))                                                   \
    X(host_alloc, cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                                  \
    X(host_free, cuMemFreeHost, (void *memory))                                                                   \
    X(host_register, cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))                          \
    X(host_unregister, cuMemHostUnregister, (void *memory))                                                       \
    X(host_address, cuMemHostGetDevicePointer_v2, (CUdeviceptr * address, void *memory, unsigned flags))          \
    X(copy_to_device, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))    \
    X(copy_to_host, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))            \
    X(memory_set, cuMemsetD8Async, (CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream))           \
    X(stream_new, cuStreamCreate, (CUstream * stream, unsigned flags))                                            \
    X(stream_free, cuStreamDestroy_v2, (CUstream stream))                                                         \
    X(stream_query, cuStreamQuery, (CUstream stream))                                                             \
    X(stream_wait, cuStreamSynchronize, (CUstream stream))                                                        \
    X(stream_write, cuStreamWriteValue64_v2,                                                                      \
      (CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags))                                     \
    X(event_new, cuEventCreate, (CUevent * event, unsigned flags))                                                \
    X(event_free, cuEventDestroy_v2, (CUevent event))                                                             \
    X(event_record, cuEventRecord, (CUevent event, CUstream stream))                                              \
    X(event_wait, cuEventSynchronize, (CUevent event))                                                            \
    X(event_elapsed, cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))                       \
    X(module_load, cuModuleLoadData, (CUmodule * module, const void *image))                                      \
    X(module_unload, cuModuleUnload, (CUmodule module))                                                           \
    X(module_function, cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))           \
    X(function_attribute, cuFuncSetAttribute, (CUfunction function, int attribute, int value))                    \
    X(launch, cuLaunchKernel,                                                                                     \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,                  \
       unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **parameters, void **extra))    \
    X(capture_begin, cuStreamBeginCapture_v2, (CUstream stream, int mode))                                        \
    X(capture_end, cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                        \
    X(capture_info, cuStreamGetCaptureInfo_v2,                                                                    \
      (CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **last, size_t *count))      \
    X(node_update, cuGraphExecKernelNodeSetParams_v2,                                                             \
      (CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *parameters))                      \
    X(graph_instantiate, cuGraphInstantiateWithFlags,                                                             \
      (CUgraphExec * executable, CUgraph graph, unsigned long long flags))                                        \
    X(graph_launch, cuGraphLaunch, (CUgraphExec executable, CUstream stream))                                     \
    X(graph_free, cuGraphDestroy, (CUgraph graph))                                                                \
    X(executable_free, cuGraphExecDestroy, (CUgraphExec executable))

#define GT_CUDA_COMPILER_FUNCTIONS(X)                                                                             \
    X(version, nvrtcVersion, (int *major, int *minor))                                                            \
    X(program_new, nvrtcCreateProgram,                                                                            \
      (nvrtcProgram * program, const char *source, const char *name, int headers, const char *const *header,      \
       const char *const *header_name))                                                                           \
    X(program_free, nvrtcDestroyProgram, (nvrtcProgram * program))                                                \
    X(program_compile, nvrtcCompileProgram, (nvrtcProgram program, int options, const char *const *option))       \
    X(binary_size, nvrtcGetCUBINSize, (nvrtcProgram program, size_t * bytes))                                     \
    X(binary, nvrtcGetCUBIN, (nvrtcProgram program, char *binary))                                                \
    X(log_size, nvrtcGetProgramLogSize, (nvrtcProgram program, size_t * bytes))                                   \
    X(log, nvrtcGetProgramLog, (nvrtcProgram program, char *log))

#define GT_CUDA_BLAS_FUNCTIONS(X)                                                                                 \
    X(handle_new, cublasLtCreate, (cublasLtHandle_t * handle))                                                    \
    X(handle_free, cublasLtDestroy, (cublasLtHandle_t handle))                                                    \
    X(product_new, cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t * product, int compute, int scale))            \
    X(product_free, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t product))                                    \
    X(product_set, cublasLtMatmulDescSetAttribute,                                                                \
      (cublasLtMatmulDesc_t product, int attribute, const void *value, size_t size))                              \
    X(layout_new, cublasLtMatrixLayoutCreate,                                                                     \
      (cublasLtMatrixLayout_t * layout, int type, uint64_t rows, uint64_t columns, int64_t leading))              \
    X(layout_free, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout))                                  \
    X(layout_set, cublasLtMatrixLayoutSetAttribute,                                                               \
      (cublasLtMatrixLayout_t layout, int attribute, const void *value, size_t size))                             \
    X(preference_new, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference))                  \
    X(preference_free, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference))                  \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute,                                                       \
      (cublasLtMatmulPreference_t preference, int attribute, const void *value, size_t size))                     \
    X(heuristic, cublasLtMatmulAlgoGetHeuristic,                                                                  \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, \
       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted,     \
       cublasLtMatmulHeuristicResult_t *results, int *count))                                                     \
    X(multiply, cublasLtMatmul,                                                                                   \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void *alpha, const void *a,                   \
       cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,         \
       const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,                  \
       const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes, CUstream stream))

#define GT_CUDA_DNN_FUNCTIONS(X)                                                                                  \
    X(handle_new, cudnnCreate, (cudnnHandle_t * handle))                                                          \
    X(handle_free, cudnnDestroy, (cudnnHandle_t handle))                                                          \
    X(set_stream, cudnnSetStream, (cudnnHandle_t handle, CUstream stream))                                        \
    X(descriptor_new, cudnnBackendCreateDescriptor, (int type, cudnnBackendDescriptor_t *descriptor))             \
    X(descriptor_free, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor))                      \
    X(finalize, cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor))                                      \
    X(set, cudnnBackendSetAttribute,                                                                              \
      (cudnnBackendDescriptor_t descriptor, int name, int type, int64_t count, const void *elements))             \
    X(get, cudnnBackendGetAttribute,                                                                              \
      (cudnnBackendDescriptor_t descriptor, int name, int type, int64_t wanted, int64_t *count, void *elements))  \
    X(execute, cudnnBackendExecute,                                                                               \
      (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack))

#define GT_CUDA_NCCL_FUNCTIONS(X)                                                                                 \
    X(version, ncclGetVersion, (int *version))                                                                    \
    X(id_new, ncclGetUniqueId, (ncclUniqueId * id))                                                               \
    X(comm_new, ncclCommInitRankConfig,                                                                           \
      (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, gt_nccl_config *config))                          \
    X(comm_abort, ncclCommAbort, (ncclComm_t comm))                                                               \
    X(comm_state, ncclCommGetAsyncError, (ncclComm_t comm, int *state))                                           \
    X(group_start, ncclGroupStart, (void))                                                                        \
    X(group_end, ncclGroupEnd, (void))                                                                            \
    X(all_reduce, ncclAllReduce,                                                                                  \
      (const void *in, void *out, size_t count, int type, int op, ncclComm_t comm, CUstream stream))              \
    X(reduce, ncclReduce,                                                                                         \
      (const void *in, void *out, size_t count, int type, int op, int root, ncclComm_t comm, CUstream stream))    \
    X(reduce_scatter, ncclReduceScatter,                                                                          \
      (const void *in, void *out, size_t count, int type, int op, ncclComm_t comm, CUstream stream))              \
    X(all_gather, ncclAllGather,                                                                                  \
      (const void *in, void *out, size_t count, int type, ncclComm_t comm, CUstream stream))                      \
    X(broadcast, ncclBroadcast,                                                                                   \
      (const void *in, void *out, size_t count, int type, int root, ncclComm_t comm, CUstream stream))            \
    X(send, ncclSend, (const void *in, size_t count, int type, int to, ncclComm_t comm, CUstream stream))         \
    X(receive, ncclRecv, (void *out, size_t count, int type, int from, ncclComm_t comm, CUstream stream))

#define GT_CUDA_MEMBER(member, symbol, arguments) int(*member) arguments;
typedef struct gt_cuda_driver {
    GT_CUDA_DRIVER_FUNCTIONS(GT_CUDA_MEMBER)
    int (*function_load)(CUfunction function); /* cuFuncLoad; NULL in drivers before 12.4 */
} gt_cuda_driver;
typedef struct gt_cuda_compiler {
    GT_CUDA_COMPILER_FUNCTIONS(GT_CUDA_MEMBER)
} gt_cuda_compiler;
typedef struct gt_cuda_blas {
    GT_CUDA_BLAS_FUNCTIONS(GT_CUDA_MEMBER)
} gt_cuda_blas;
typedef struct gt_cuda_dnn {
    GT_CUDA_DNN_FUNCTIONS(GT_CUDA_MEMBER)
} gt_cuda_dnn;
typedef struct gt_cuda_nccl {
    GT_CUDA_NCCL_FUNCTIONS(GT_CUDA_MEMBER)
    const char *(*text)(int result); /* ncclGetErrorString */
} gt_cuda_nccl;
#undef GT_CUDA_MEMBER

/* Each library is opened once in a process, by the first call, and stays open. From several threads. An error says in one
 * line what is missing; it is the same each time. */
gt_err gt__cuda_open_driver(const gt_cuda_driver **driver);
gt_err gt__cuda_open_compiler(const gt_cuda_compiler **compiler);
gt_err gt__cuda_open_blas(const gt_cuda_blas **blas);
gt_err gt__cuda_open_dnn(const gt_cuda_dnn **dnn);
gt_err gt__cuda_open_nccl(const gt_cuda_nccl **nccl);

/* The driver's name and text of a result, such as "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)". Returns
 * `text`. */
char *gt__cuda_result_text(const gt_cuda_driver *driver, int result, char *text, size_t size);

#endif
