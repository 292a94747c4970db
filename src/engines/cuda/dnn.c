/*
 * dnn.c: cuDNN's backend interface: everything is a descriptor with attributes, finalized before it is used. A convolution is an
 * operation on three tensors, the operation is a graph, heuristics list engine configurations for the graph, and a
 * configuration that the library can build is a plan. See dnn.h.
 */
#include "engines/cuda/dnn.h"

#include <string.h>

enum { CONFIGS = 16, NOTES = 16, ALIGNMENT = 16 };

static void descriptor_free(const gt_cuda_dnn *dnn, cudnnBackendDescriptor_t *descriptor)
{
    if (*descriptor)
        dnn->descriptor_free(*descriptor);
    *descriptor = NULL;
}

static bool make(const gt_cuda_dnn *dnn, int type, cudnnBackendDescriptor_t *descriptor)
{
    *descriptor = NULL;
    return dnn->descriptor_new(type, descriptor) == CUDNN_STATUS_SUCCESS;
}

static bool set(const gt_cuda_dnn *dnn, cudnnBackendDescriptor_t descriptor, int name, int type, int64_t count,
                const void *elements)
{
    return dnn->set(descriptor, name, type, count, elements) == CUDNN_STATUS_SUCCESS;
}

static bool set_descriptor(const gt_cuda_dnn *dnn, cudnnBackendDescriptor_t descriptor, int name,
                           const cudnnBackendDescriptor_t *value)
{
    return set(dnn, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, value);
}

static bool finish(const gt_cuda_dnn *dnn, cudnnBackendDescriptor_t descriptor)
{
    return dnn->finalize(descriptor) == CUDNN_STATUS_SUCCESS;
}

/* ---- the operation ------------------------------------------------------------------------------------------ */

static int32_t data_type(uint8_t dtype)
{
    return dtype == GT_FLOAT64    ? CUDNN_DATA_DOUBLE
           : dtype == GT_FLOAT16  ? CUDNN_DATA_HALF
           : dtype == GT_BFLOAT16 ? CUDNN_DATA_BFLOAT16
                                  : CUDNN_DATA_FLOAT;
}

/* Strides of a dense tensor in the order (0, 1, 2, ...), or (0, 2, ..., 1). */
static void dense_strides(const int64_t *shape, int rank, bool channels_last, int64_t *stride)
{
    int64_t next = 1;
    if (channels_last) {
        stride[1] = 1;
        next = shape[1];
    }
    for (int axis = rank - 1; axis >= 0; axis--)
        if (axis != 1 || !channels_last) {
            stride[axis] = next;
            next *= shape[axis];
        }
}

static bool describe_tensor(const gt_cuda_dnn *dnn, const gt_cuda_conv *conv, int role, bool channels_last,
                            cudnnBackendDescriptor_t *tensor)
{
    int rank = conv->spatial + 2;
    int64_t stride[GT_CUDA_CONV_RANK], id = role + 1, alignment = ALIGNMENT;
    int32_t type = data_type(conv->dtype);
    dense_strides(conv->shape[role], rank, channels_last, stride);
    return make(dnn, CUDNN_BACKEND_TENSOR_DESCRIPTOR, tensor) &&
           set(dnn, *tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type) &&
           set(dnn, *tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, conv->shape[role]) &&
           set(dnn, *tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, stride) &&
           set(dnn, *tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id) &&
           set(dnn, *tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment) &&
           finish(dnn, *tensor);
}

static bool describe_window(const gt_cuda_dnn *dnn, const gt_cuda_conv *conv, cudnnBackendDescriptor_t *window)
{
    int64_t spatial = conv->spatial;
    int32_t compute = conv->dtype == GT_FLOAT64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    int32_t mode = CUDNN_CROSS_CORRELATION;
    return make(dnn, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, window) &&
           set(dnn, *window, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute) &&
           set(dnn, *window, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode) &&
           set(dnn, *window, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial) &&
           set(dnn, *window, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, spatial, conv->before) &&
           set(dnn, *window, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, spatial, conv->after) &&
           set(dnn, *window, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, spatial, conv->stride) &&
           set(dnn, *window, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, spatial, conv->dilation) &&
           finish(dnn, *window);
}

static bool describe_operation(const gt_cuda_dnn *dnn, const gt_cuda_conv *conv, gt_cuda_dnn_graph *g)
{
    static const struct {
        int type, alpha, beta, window, role[GT_CUDA_CONV_ROLES];
    } kinds[] = {
        [GT_CUDA_CONV_FORWARD] = {.type = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                  .alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                  .beta = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                                  .window = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                  .role = {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W}},
        [GT_CUDA_CONV_INPUT] = {.type = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                .alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                .beta = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                                .window = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                .role = {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W}},
        [GT_CUDA_CONV_WEIGHT] = {.type = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                 .alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                 .beta = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                                 .window = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                 .role = {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW}},
    };
    static const double one = 1, zero = 0;
    static const float one_f = 1, zero_f = 0;
    bool wide = conv->dtype == GT_FLOAT64;
    int scale = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT, kind = conv->kind;
    bool made = make(dnn, kinds[kind].type, &g->operation) &&
                set_descriptor(dnn, g->operation, kinds[kind].window, &g->window) &&
                set(dnn, g->operation, kinds[kind].alpha, scale, 1, wide ? (const void *)&one : &one_f) &&
                set(dnn, g->operation, kinds[kind].beta, scale, 1, wide ? (const void *)&zero : &zero_f);
    for (int role = 0; made && role < GT_CUDA_CONV_ROLES; role++)
        made = set_descriptor(dnn, g->operation, kinds[kind].role[role], &g->tensor[role]);
    return made && finish(dnn, g->operation);
}

bool gt__cuda_dnn_describe(const gt_cuda_dnn *dnn, cudnnHandle_t handle, const gt_cuda_conv *conv,
                           bool channels_last, gt_cuda_dnn_graph *g)
{
    *g = (gt_cuda_dnn_graph){0};
    for (int role = 0; role < GT_CUDA_CONV_ROLES; role++)
        if (!describe_tensor(dnn, conv, role, channels_last, &g->tensor[role]))
            return false;
    return describe_window(dnn, conv, &g->window) && describe_operation(dnn, conv, g) &&
           make(dnn, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &g->graph) &&
           set(dnn, g->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle) &&
           set_descriptor(dnn, g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, &g->operation) && finish(dnn, g->graph);
}

void gt__cuda_dnn_graph_free(const gt_cuda_dnn *dnn, gt_cuda_dnn_graph *g)
{
    descriptor_free(dnn, &g->graph);
    descriptor_free(dnn, &g->operation);
    descriptor_free(dnn, &g->window);
    for (int role = 0; role < GT_CUDA_CONV_ROLES; role++)
        descriptor_free(dnn, &g->tensor[role]);
}

/* ---- plans --------------------------------------------------------------------------------------------------- */

/* What the library says of an engine's numbers: bit n is note n. */
static uint32_t notes_of(const gt_cuda_dnn *dnn, cudnnBackendDescriptor_t config)
{
    cudnnBackendDescriptor_t engine;
    int32_t note[NOTES];
    int64_t count = 0;
    uint32_t notes = UINT32_MAX; /* unknown: nothing may be assumed */
    if (make(dnn, CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) &&
        dnn->get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine) ==
            CUDNN_STATUS_SUCCESS &&
        dnn->get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, NOTES, &count, note) ==
            CUDNN_STATUS_SUCCESS) {
        notes = 0;
        for (int64_t k = 0; k < count && k < NOTES; k++)
            if (note[k] >= 0 && note[k] < 32)
                notes |= UINT32_C(1) << note[k];
    }
    descriptor_free(dnn, &engine);
    return notes;
}

/* May results have these properties? Sums in a fixed order, and in float32, are wanted, but not at any price. */
static bool acceptable(const gt_cuda_conv *conv, uint32_t notes, bool any_sum)
{
    const uint32_t sums =
        1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC | 1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    bool rounds = notes >> CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS & 1;
    bool tensor_core = notes >> CUDNN_NUMERICAL_NOTE_TENSOR_CORE & 1;
    if (conv->dtype == GT_FLOAT32 && (rounds || (conv->exact && tensor_core)))
        return false;
    return any_sum || !(notes & sums);
}

static bool build(const gt_cuda_dnn *dnn, cudnnHandle_t handle, gt_cuda_dnn_plan *p)
{
    int64_t count = 0, workspace = 0;
    if (!make(dnn, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p->plan) ||
        !set(dnn, p->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle) ||
        !set_descriptor(dnn, p->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &p->config) ||
        !finish(dnn, p->plan) ||
        dnn->get(p->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &workspace) !=
            CUDNN_STATUS_SUCCESS ||
        workspace < 0)
        return false;
    p->workspace = (size_t)workspace;
    return true;
}

/* Engine configurations for the graph, the most promising first. Returns their number. */
static int64_t list_configs(const gt_cuda_dnn *dnn, const gt_cuda_dnn_graph *g, int32_t mode,
                            cudnnBackendDescriptor_t *heuristics, cudnnBackendDescriptor_t *configs)
{
    int64_t room = 0, count = 0;
    if (!make(dnn, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, heuristics) ||
        !set_descriptor(dnn, *heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &g->graph) ||
        !set(dnn, *heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode) ||
        !finish(dnn, *heuristics))
        return 0;
    while (room < CONFIGS && make(dnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[room]))
        room++;
    if (dnn->get(*heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, room, &count,
                 configs) != CUDNN_STATUS_SUCCESS)
        return 0;
    return count < room ? count : room;
}

static unsigned propose(const gt_cuda_dnn *dnn, cudnnHandle_t handle, const gt_cuda_conv *conv,
                        const gt_cuda_dnn_graph *g, int32_t mode, bool any_sum, size_t workspace, unsigned most,
                        gt_cuda_dnn_plan *plans)
{
    cudnnBackendDescriptor_t heuristics = NULL, configs[CONFIGS] = {NULL};
    int64_t listed = list_configs(dnn, g, mode, &heuristics, configs);
    unsigned count = 0;
    for (int64_t k = 0; k < listed && count < most; k++) {
        if (!acceptable(conv, notes_of(dnn, configs[k]), any_sum))
            continue;
        gt_cuda_dnn_plan p = {.config = configs[k]};
        configs[k] = NULL;
        if (build(dnn, handle, &p) && p.workspace <= workspace)
            plans[count++] = p;
        else
            gt__cuda_dnn_plan_free(dnn, &p);
    }
    for (int k = 0; k < CONFIGS; k++)
        descriptor_free(dnn, &configs[k]);
    descriptor_free(dnn, &heuristics);
    return count;
}

unsigned gt__cuda_dnn_propose(const gt_cuda_dnn *dnn, cudnnHandle_t handle, const gt_cuda_conv *conv,
                              const gt_cuda_dnn_graph *graph, size_t workspace, unsigned most,
                              gt_cuda_dnn_plan *plans)
{
    static const int32_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    unsigned count = 0;
    for (int any_sum = 0; any_sum < 2; any_sum++)
        for (int m = 0; m < 2 && count == 0; m++)
            count = propose(dnn, handle, conv, graph, modes[m], any_sum, workspace, most, plans);
    return count;
}

int gt__cuda_dnn_run(const gt_cuda_dnn *dnn, cudnnHandle_t handle, const gt_cuda_dnn_plan *plan,
                     const CUdeviceptr address[GT_CUDA_CONV_ROLES], CUdeviceptr workspace)
{
    cudnnBackendDescriptor_t pack;
    int64_t id[GT_CUDA_CONV_ROLES];
    void *data[GT_CUDA_CONV_ROLES], *room = (void *)(uintptr_t)workspace;
    for (int role = 0; role < GT_CUDA_CONV_ROLES; role++) {
        id[role] = role + 1;
        data[role] = (void *)(uintptr_t)address[role];
    }
    int status = -1;
    if (make(dnn, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack) &&
        set(dnn, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, GT_CUDA_CONV_ROLES, id) &&
        set(dnn, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, GT_CUDA_CONV_ROLES, data) &&
        set(dnn, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &room) && finish(dnn, pack))
        status = dnn->execute(handle, plan->plan, pack);
    descriptor_free(dnn, &pack);
    return status;
}

void gt__cuda_dnn_plan_free(const gt_cuda_dnn *dnn, gt_cuda_dnn_plan *plan)
{
    descriptor_free(dnn, &plan->plan);
    descriptor_free(dnn, &plan->config);
}
