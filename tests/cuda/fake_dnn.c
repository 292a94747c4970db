/*
 * fake_dnn.c: a libcudnn.so.9 for tests without a card: convolutions by plain loops, queued on the fake driver's stream. It is strict
 * about descriptors: attributes must be known, of the right type and set before the descriptor is finalized, strides must be those of a
 * dense tensor, and the sizes must fit each other.
 *
 * Every graph has three engines: the first one's plans cannot be built, the second one rounds float32 as tensor cores do not, the third one works; its
 * workspace is the size of the result. Variables: FAKE_CUDNN_LAYOUT (last, first: the only order of axes that has plans), FAKE_CUDNN_FAIL (1:
 * nothing can be executed).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/half.h"
#include "engines/cuda/api.h"
#include "fake_driver.h"

#define API __attribute__((visibility("default")))
#define PROTOTYPE(member, symbol, arguments) API int symbol arguments;
GT_CUDA_DNN_FUNCTIONS(PROTOTYPE)

enum { RANK = 5, ENGINES = 3, BAD_PARAMETER = 2000, REFUSED = 3000, ATTRIBUTES = 12 };

struct cudnnContext {
    CUstream stream;
};

extern API unsigned fake_dnn_executed[2];
unsigned fake_dnn_executed[2]; /* executions with the channels first, and with the channels last */

/* A value of an attribute: numbers, or references to other descriptors. */
typedef struct attribute {
    int name, type;
    int64_t count;
    union {
        int64_t number[RANK + 3];
        int32_t small[2 * (RANK + 3)];
        float real;
        double real64;
        void *pointer[RANK + 3];
    };
} attribute;

typedef struct descriptor {
    int type;
    bool finished;
    int64_t engine; /* of a configuration or an engine */
    unsigned count;
    attribute attributes[ATTRIBUTES];
} descriptor;

/* ---- attributes ----------------------------------------------------------------------------------------------- */

static int complain(const char *what, int number)
{
    fprintf(stderr, "fake_dnn: %s (%d)\n", what, number);
    return BAD_PARAMETER;
}

static size_t size_of_type(int type)
{
    switch (type) {
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_FLOAT:
        return 4;
    default:
        return 8;
    }
}

/* The descriptors that have this attribute, and its type; 0: unknown. Scales of convolutions are floats or doubles. */
static bool known(int of, int name, int type)
{
    static const struct {
        int of, first, last, type;
    } rows[] = {
        {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_DATA_TYPE,
         CUDNN_TYPE_DATA_TYPE},
        {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_ATTR_TENSOR_UNIQUE_ID,
         CUDNN_TYPE_INT64},
        {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_ATTR_CONVOLUTION_COMP_TYPE,
         CUDNN_TYPE_DATA_TYPE},
        {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
         CUDNN_TYPE_CONVOLUTION_MODE},
        {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_DILATIONS,
         CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
         CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
         CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
         CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
         CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE},
        {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_ATTR_OPERATIONGRAPH_OPS,
         CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_ATTR_ENGINEHEUR_MODE,
         CUDNN_TYPE_HEUR_MODE},
        {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
         CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
         CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE},
        {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
         CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
         CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64},
        {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
         CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR},
    };
    bool scale = of >= CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR &&
                 of <= CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR && name >= 700 && name < 718 &&
                 (name - 700) % 6 < 2;
    if (scale)
        return type == CUDNN_TYPE_FLOAT || type == CUDNN_TYPE_DOUBLE;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        if (rows[k].of == of && name >= rows[k].first && name <= rows[k].last && rows[k].type == type)
            return true;
    return false;
}

static const attribute *find(const descriptor *d, int name)
{
    for (unsigned k = 0; k < d->count; k++)
        if (d->attributes[k].name == name)
            return &d->attributes[k];
    return NULL;
}

static const descriptor *refer(const descriptor *d, int name)
{
    const attribute *a = find(d, name);
    return a ? a->pointer[0] : NULL;
}

/* ---- what is computed --------------------------------------------------------------------------------------------- */

typedef struct tensor {
    int64_t shape[RANK], stride[RANK];
    int64_t id, count;
    bool last;
} tensor;

typedef struct convolution {
    int kind, rank; /* kind: the type of the operation */
    int32_t type;
    int64_t stride[3], dilation[3], before[3], after[3];
    tensor x, y, w;
    CUdeviceptr at_x, at_y, at_w;
} convolution;

_Static_assert(sizeof(convolution) <= FAKE_ARGUMENT, "it is copied");

/* Dense, with the channels before or behind the spatial axes. */
static bool read_tensor(const descriptor *d, tensor *t, int32_t *type, int *rank)
{
    const attribute *shape = find(d, CUDNN_ATTR_TENSOR_DIMENSIONS), *stride = find(d, CUDNN_ATTR_TENSOR_STRIDES);
    const attribute *id = find(d, CUDNN_ATTR_TENSOR_UNIQUE_ID), *element = find(d, CUDNN_ATTR_TENSOR_DATA_TYPE);
    const attribute *alignment = find(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    if (!shape || !stride || !id || !element || !alignment || shape->count != stride->count || shape->count < 4 ||
        shape->count > RANK)
        return false;
    memset(t, 0, sizeof *t);
    *rank = (int)shape->count;
    *type = element->small[0];
    t->id = id->number[0];
    t->count = 1;
    t->last = stride->number[1] == 1 && stride->number[*rank - 1] == shape->number[1];
    int64_t next = t->last ? shape->number[1] : 1;
    for (int axis = *rank - 1; axis >= 0; axis--) {
        t->shape[axis] = shape->number[axis];
        t->stride[axis] = stride->number[axis];
        t->count *= shape->number[axis];
        if (axis == 1 && t->last)
            continue;
        if (stride->number[axis] != next || shape->number[axis] < 1)
            return false;
        next *= shape->number[axis];
    }
    return true;
}

static bool sizes_fit(const convolution *c)
{
    bool fits = c->x.shape[0] == c->y.shape[0] && c->y.shape[1] == c->w.shape[0] &&
                c->x.shape[1] % c->w.shape[1] == 0 && c->w.shape[0] % (c->x.shape[1] / c->w.shape[1]) == 0;
    for (int axis = 2; axis < c->rank; axis++) {
        int64_t span = (c->w.shape[axis] - 1) * c->dilation[axis - 2] + 1;
        int64_t padded = c->x.shape[axis] + c->before[axis - 2] + c->after[axis - 2];
        fits &= c->after[axis - 2] >= 0 && padded >= span &&
                (padded - span) / c->stride[axis - 2] + 1 == c->y.shape[axis];
    }
    return fits;
}

/* The numbers of an operation; false: something is missing or does not fit. */
static bool read_operation(const descriptor *d, convolution *c)
{
    int first = d->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR         ? 700
                : d->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? 706
                                                                                          : 712;
    const descriptor *window = refer(d, first + 2), *w = refer(d, first + 3), *x = refer(d, first + 4),
                     *y = refer(d, first + 5);
    int32_t types[2];
    int ranks[2];
    memset(c, 0, sizeof *c);
    c->kind = d->type;
    if (!find(d, first) || !find(d, first + 1) || !window || !w || !x || !y || !window->finished ||
        !read_tensor(x, &c->x, &c->type, &c->rank) || !read_tensor(y, &c->y, &types[0], &ranks[0]) ||
        !read_tensor(w, &c->w, &types[1], &ranks[1]) || types[0] != c->type || types[1] != c->type ||
        ranks[0] != c->rank || ranks[1] != c->rank)
        return false;
    const struct {
        int name;
        int64_t *to;
    } lists[] = {{CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, c->stride},
                 {CUDNN_ATTR_CONVOLUTION_DILATIONS, c->dilation},
                 {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, c->before},
                 {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, c->after}};
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        const attribute *a = find(window, lists[k].name);
        if (!a || a->count != c->rank - 2)
            return false;
        memcpy(lists[k].to, a->number, (size_t)a->count * sizeof(int64_t));
    }
    const attribute *spatial = find(window, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
    const attribute *compute = find(window, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
    return spatial && spatial->number[0] == c->rank - 2 && compute &&
           (compute->small[0] == CUDNN_DATA_DOUBLE) == (c->type == CUDNN_DATA_DOUBLE) && sizes_fit(c);
}

static size_t element_size(int type)
{
    return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}

static double element(int type, const char *data, int64_t at)
{
    const char *from = data + at * (int64_t)element_size(type);
    return type == CUDNN_DATA_FLOAT    ? (double)*(const float *)from
           : type == CUDNN_DATA_DOUBLE ? *(const double *)from
           : type == CUDNN_DATA_HALF   ? (double)gt__half_to_float(*(const uint16_t *)from)
                                       : (double)gt__bfloat16_to_float(*(const uint16_t *)from);
}

static void put(int type, char *data, int64_t at, double value)
{
    char *to = data + at * (int64_t)element_size(type);
    if (type == CUDNN_DATA_FLOAT)
        *(float *)to = (float)value;
    else if (type == CUDNN_DATA_DOUBLE)
        *(double *)to = value;
    else if (type == CUDNN_DATA_HALF)
        *(uint16_t *)to = gt__float_to_half((float)value);
    else
        *(uint16_t *)to = gt__float_to_bfloat16((float)value);
}

static int64_t offset(const tensor *t, const int64_t *index, int rank)
{
    int64_t at = 0;
    for (int axis = 0; axis < rank; axis++)
        at += index[axis] * t->stride[axis];
    return at;
}

/* The position of an element by its number. */
static void split(const tensor *t, int rank, int64_t number, int64_t *index)
{
    for (int axis = rank - 1; axis >= 0; axis--) {
        index[axis] = number % t->shape[axis];
        number /= t->shape[axis];
    }
}

/* Add up what an element of y and an element of the weight for its channel have in common; `sums` has the result's elements. */
static void combine(const convolution *c, const char *x, const char *y, const char *w, double *sums,
                    const int64_t *in_y, int64_t number)
{
    int64_t in_w[RANK], in_x[RANK], groups = c->x.shape[1] / c->w.shape[1];
    split(&c->w, c->rank, number, in_w);
    in_x[0] = in_y[0];
    in_x[1] = in_w[0] / (c->w.shape[0] / groups) * c->w.shape[1] + in_w[1];
    for (int axis = 2; axis < c->rank; axis++) {
        in_x[axis] = in_y[axis] * c->stride[axis - 2] - c->before[axis - 2] + in_w[axis] * c->dilation[axis - 2];
        if (in_x[axis] < 0 || in_x[axis] >= c->x.shape[axis])
            return;
    }
    int64_t ox = offset(&c->x, in_x, c->rank), oy = offset(&c->y, in_y, c->rank),
            ow = offset(&c->w, in_w, c->rank);
    if (c->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
        sums[oy] += element(c->type, x, ox) * element(c->type, w, ow);
    else if (c->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
        sums[ox] += element(c->type, y, oy) * element(c->type, w, ow);
    else
        sums[ow] += element(c->type, y, oy) * element(c->type, x, ox);
}

static const tensor *result_of(const convolution *c)
{
    return c->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR         ? &c->y
           : c->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? &c->x
                                                                                     : &c->w;
}

static void compute(void *argument)
{
    const convolution *c = argument;
    size_t size = element_size(c->type);
    char *x = fake_address(c->at_x, (size_t)c->x.count * size),
         *y = fake_address(c->at_y, (size_t)c->y.count * size),
         *w = fake_address(c->at_w, (size_t)c->w.count * size);
    const tensor *result = result_of(c);
    char *out = result == &c->x ? x : result == &c->y ? y : w;
    double *sums = calloc((size_t)result->count, sizeof *sums);
    int64_t each = c->w.count / c->w.shape[0], in_y[RANK];
    for (int64_t i = 0; i < c->y.count; i++) {
        split(&c->y, c->rank, i, in_y);
        for (int64_t k = 0; k < each; k++)
            combine(c, x, y, w, sums, in_y, in_y[1] * each + k);
    }
    for (int64_t i = 0; i < result->count; i++)
        put(c->type, out, i, sums[i]);
    free(sums);
}

/* ---- the interface ------------------------------------------------------------------------------------------------- */

API int cudnnCreate(cudnnHandle_t *handle)
{
    *handle = calloc(1, sizeof **handle);
    return 0;
}

API int cudnnDestroy(cudnnHandle_t handle)
{
    free(handle);
    return 0;
}

API int cudnnSetStream(cudnnHandle_t handle, CUstream stream)
{
    handle->stream = stream;
    return 0;
}

API int cudnnBackendCreateDescriptor(int type, cudnnBackendDescriptor_t *made)
{
    descriptor *d = *made = calloc(1, sizeof *d);
    d->type = type;
    return 0;
}

API int cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    free(d);
    return 0;
}

API int cudnnBackendSetAttribute(cudnnBackendDescriptor_t of, int name, int type, int64_t count,
                                 const void *elements)
{
    descriptor *d = of;
    if (d->finished)
        return complain("an attribute of a finished descriptor", name);
    if (!known(d->type, name, type))
        return complain("an unknown attribute, or of another type", name);
    if (count < 1 || (size_t)count * size_of_type(type) > sizeof d->attributes[0].number || d->count == ATTRIBUTES)
        return complain("too many elements", name);
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && !(*(descriptor *const *)elements)->finished)
        return complain("a reference to a descriptor that is not finished", name);
    attribute *a = &d->attributes[d->count++];
    *a = (attribute){.name = name, .type = type, .count = count};
    memcpy(a->number, elements, (size_t)count * size_of_type(type));
    return 0;
}

/* Which order of axes has plans. */
static bool layout_served(const convolution *c)
{
    const char *only = getenv("FAKE_CUDNN_LAYOUT");
    bool mixed = c->x.count > 1 && c->y.last != c->x.last && c->x.shape[1] > 1 && c->y.shape[1] > 1;
    return !mixed && (!only || !*only || (strcmp(only, "last") == 0) == c->x.last);
}

static const descriptor *operation_of(const descriptor *d)
{
    return refer(refer(d, d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR
                              ? CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH
                              : CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
                 CUDNN_ATTR_OPERATIONGRAPH_OPS);
}

API int cudnnBackendFinalize(cudnnBackendDescriptor_t of)
{
    descriptor *d = of;
    convolution c;
    tensor t;
    int32_t type;
    int rank;
    switch (d->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        if (!read_tensor(d, &t, &type, &rank))
            return complain("a tensor that is not dense, or not described", d->type);
        break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        if (!read_operation(d, &c))
            return complain("an operation whose sizes do not fit", d->type);
        break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        if (!read_operation(operation_of(d), &c) || !layout_served(&c))
            return REFUSED;
        break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
        const descriptor *config = refer(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
        if (!find(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE) || !config)
            return complain("a plan without a configuration", d->type);
        if (config->engine == 0)
            return REFUSED;
        break;
    }
    default:
        break;
    }
    d->finished = true;
    return 0;
}

static int read_configs(const descriptor *heuristics, int64_t wanted, int64_t *count, descriptor **configs)
{
    *count = wanted < ENGINES ? wanted : ENGINES;
    for (int64_t k = 0; k < *count; k++) {
        if (configs[k]->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
            return complain("a place that is not for a configuration", configs[k]->type);
        configs[k]->finished = true;
        configs[k]->engine = k;
        attribute *graph = &configs[k]->attributes[configs[k]->count++];
        *graph = *find(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
        *graph = (attribute){.name = CUDNN_ATTR_OPERATIONGRAPH_OPS,
                             .pointer = {(void *)(uintptr_t)operation_of(heuristics)}};
    }
    return 0;
}

API int cudnnBackendGetAttribute(cudnnBackendDescriptor_t of, int name, int type, int64_t wanted, int64_t *count,
                                 void *elements)
{
    descriptor *d = of;
    convolution c;
    (void)type;
    if (!d->finished)
        return complain("a descriptor is read before it is finished", name);
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS)
        return read_configs(d, wanted, count, elements);
    *count = 1;
    if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
        descriptor *engine = *(descriptor **)elements;
        engine->engine = d->engine;
        engine->finished = true;
        return 0;
    }
    if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
        *count = d->engine == 1;
        if (wanted && *count)
            *(int32_t *)elements = CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
        return 0;
    }
    if (name != CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
        return complain("an attribute that is not read", name);
    if (!read_operation(operation_of(d), &c))
        return complain("a plan of what is gone", name);
    *(int64_t *)elements = result_of(&c)->count * (int64_t)element_size(c.type);
    return 0;
}

API int cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    const attribute *ids = find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
                    *data = find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS),
                    *workspace = find(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    convolution c;
    if (!((descriptor *)pack)->finished || !((descriptor *)plan)->finished || !ids || !data || !workspace ||
        ids->count != 3 || data->count != 3 || !read_operation(operation_of(plan), &c))
        return complain("an execution without its parts", 0);
    if (getenv("FAKE_CUDNN_FAIL"))
        return 5000;
    for (int k = 0; k < 3; k++) {
        uint64_t address = (uintptr_t)data->pointer[k];
        if (address % 16)
            return complain("an address that is not aligned", k);
        *(ids->number[k] == c.x.id ? &c.at_x : ids->number[k] == c.y.id ? &c.at_y : &c.at_w) = address;
    }
    fake_address((uintptr_t)workspace->pointer[0], (size_t)result_of(&c)->count * element_size(c.type));
    fake_dnn_executed[c.x.last || c.y.last]++;
    return fake_enqueue(handle->stream, compute, &c, sizeof c);
}
