/*
 * dnn.h: one convolution by cuDNN's backend interface: from its sizes to plans, and from a plan to work on the stream. Which plan is
 * used is convolution.c's business.
 */
#ifndef GT_ENGINES_CUDA_DNN_H
#define GT_ENGINES_CUDA_DNN_H

#include "engines/cuda/api.h"
#include "engines/engine.h"

enum { GT_CUDA_CONV_SPATIAL = 3, GT_CUDA_CONV_RANK = 2 + GT_CUDA_CONV_SPATIAL };

typedef enum gt_cuda_conv_kind {
    GT_CUDA_CONV_FORWARD, /* y of x and weight */
    GT_CUDA_CONV_INPUT,   /* x of y and weight: the gradient, or a transposed convolution */
    GT_CUDA_CONV_WEIGHT,  /* weight of x and y */
} gt_cuda_conv_kind;

/* The operands and the result of any kind. */
typedef enum gt_cuda_conv_role {
    GT_CUDA_CONV_X,
    GT_CUDA_CONV_Y,
    GT_CUDA_CONV_W,
    GT_CUDA_CONV_ROLES
} gt_cuda_conv_role;

/* A convolution, as cuDNN is told of it. Compared and hashed by its bytes, so set it to zeros first. */
typedef struct gt_cuda_conv {
    uint8_t kind, dtype;
    uint8_t exact;   /* float32 is not rounded to TF32 */
    uint8_t spatial; /* 2 or 3 */
    uint8_t frugal;  /* convolution.c: how short memory is */
    uint8_t unused[3];
    int64_t shape[GT_CUDA_CONV_ROLES][GT_CUDA_CONV_RANK]; /* images or output channels, channels, spatial axes */
    int64_t stride[GT_CUDA_CONV_SPATIAL], dilation[GT_CUDA_CONV_SPATIAL];
    int64_t before[GT_CUDA_CONV_SPATIAL], after[GT_CUDA_CONV_SPATIAL]; /* padding */
} gt_cuda_conv;

_Static_assert(sizeof(gt_cuda_conv) == 8 + 27 * sizeof(int64_t), "no padding");

/* A way to compute a convolution, and the descriptors that it refers to. */
typedef struct gt_cuda_dnn_plan {
    cudnnBackendDescriptor_t plan, config;
    size_t workspace;
} gt_cuda_dnn_plan;

typedef struct gt_cuda_dnn_graph {
    cudnnBackendDescriptor_t tensor[GT_CUDA_CONV_ROLES], window, operation, graph;
} gt_cuda_dnn_graph;

/* All tensors have the channels last, or all of them first; addresses must be multiples of 16. False: cuDNN refuses. Free the
 * graph in either case, after its plans. */
bool gt__cuda_dnn_describe(const gt_cuda_dnn *dnn, cudnnHandle_t handle, const gt_cuda_conv *conv,
                           bool channels_last, gt_cuda_dnn_graph *graph);
/* At most `most` plans that need no more workspace than this, the one that cuDNN thinks is the best first. Returns their number. Free
 * them one by one. */
unsigned gt__cuda_dnn_propose(const gt_cuda_dnn *dnn, cudnnHandle_t handle, const gt_cuda_conv *conv,
                              const gt_cuda_dnn_graph *graph, size_t workspace, unsigned most,
                              gt_cuda_dnn_plan *plans);
/* Queue it. Returns a status. */
int gt__cuda_dnn_run(const gt_cuda_dnn *dnn, cudnnHandle_t handle, const gt_cuda_dnn_plan *plan,
                     const CUdeviceptr address[GT_CUDA_CONV_ROLES], CUdeviceptr workspace);
void gt__cuda_dnn_plan_free(const gt_cuda_dnn *dnn, gt_cuda_dnn_plan *plan);
void gt__cuda_dnn_graph_free(const gt_cuda_dnn *dnn, gt_cuda_dnn_graph *graph);

#endif
