/* fake_blas.c: a libcublasLt.so.13 for tests without a card: plain loops, queued on the fake driver's stream. It checks that
 * leading dimensions fit, as cuBLASLt does, and that matrices are aligned as the algorithm was promised. */
#include <complex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/half.h"
#include "engines/cuda/api.h"
#include "fake_driver.h"

#define API __attribute__((visibility("default")))
#define PROTOTYPE(member, symbol, arguments) API int symbol arguments;
GT_CUDA_BLAS_FUNCTIONS(PROTOTYPE)

typedef struct layout {
    int type;
    int64_t rows, columns, leading, stride;
    int32_t batch;
} layout;

typedef struct product {
    int32_t transpose_a, transpose_b;
    uint32_t epilogue;
    CUdeviceptr bias;
} product;

/* What an algorithm may rely on, in bytes, of a, b, c and the result. An algorithm is such a record. */
typedef struct preference {
    uint32_t alignment[4];
} preference;

typedef struct work {
    product p;
    layout a, b, out;
    CUdeviceptr at_a, at_b, at_out;
} work;

_Static_assert(sizeof(work) <= FAKE_ARGUMENT, "it is copied");

API int cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = malloc(1);
    return 0;
}

API int cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return 0;
}

API int cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *p, int compute, int scale)
{
    (void)(compute + scale);
    *p = calloc(1, sizeof(product));
    return 0;
}

API int cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t p)
{
    free(p);
    return 0;
}

API int cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t p, int attribute, const void *value, size_t size)
{
    product *described = p;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        memcpy(&described->transpose_a, value, size);
        break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
        memcpy(&described->transpose_b, value, size);
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        memcpy(&described->epilogue, value, size);
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        memcpy(&described->bias, value, size);
        break;
    default:
        return 7;
    }
    return 0;
}

API int cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, int type, uint64_t rows, uint64_t columns,
                                   int64_t leading)
{
    layout *made = *l = calloc(1, sizeof *made);
    *made =
        (layout){.type = type, .rows = (int64_t)rows, .columns = (int64_t)columns, .leading = leading, .batch = 1};
    return 0;
}

API int cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return 0;
}

API int cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, int attribute, const void *value, size_t size)
{
    layout *described = l;
    void *to = attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? (void *)&described->batch : &described->stride;
    memcpy(to, value, size);
    return 0;
}

API int cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *made)
{
    preference *fresh = *made = malloc(sizeof *fresh);
    *fresh = (preference){.alignment = {256, 256, 256, 256}};
    return 0;
}

API int cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t made)
{
    free(made);
    return 0;
}

API int cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t made, int attribute, const void *value,
                                             size_t size)
{
    preference *described = made;
    int k = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (k >= 0 && k < 4)
        memcpy(&described->alignment[k], value, size);
    return 0;
}

API int cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t p, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t promised, int wanted,
                                       cublasLtMatmulHeuristicResult_t *results, int *count)
{
    (void)handle;
    (void)c;
    const product *described = p;
    if (described->epilogue && (!described->bias || described->bias % 16))
        return 7;
    const layout *layouts[] = {a, b, d};
    for (int k = 0; k < 3; k++)
        if (layouts[k]->leading < layouts[k]->rows || layouts[k]->rows < 1 || layouts[k]->columns < 1)
            return 7;
    *count = wanted < 2 ? wanted : 2;
    memset(results, 0, (size_t)*count * sizeof *results);
    for (int k = 0; k < *count; k++)
        memcpy(&results[k].algo, promised, sizeof(preference));
    return 0;
}

static size_t element_size(int type)
{
    return type == CUDA_C_64F ? 16 : type == CUDA_R_64F || type == CUDA_C_32F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

static double _Complex element(int type, const char *data, int64_t at)
{
    const char *from = data + at * (int64_t)element_size(type);
    switch (type) {
    case CUDA_R_32F:
        return *(const float *)from;
    case CUDA_R_64F:
        return *(const double *)from;
    case CUDA_C_32F:
        return *(const float _Complex *)from;
    case CUDA_C_64F:
        return *(const double _Complex *)from;
    case CUDA_R_16F:
        return gt__half_to_float(*(const uint16_t *)from);
    default:
        return gt__bfloat16_to_float(*(const uint16_t *)from);
    }
}

static void put(int type, char *data, int64_t at, double _Complex value)
{
    char *to = data + at * (int64_t)element_size(type);
    if (type == CUDA_R_32F)
        *(float *)to = (float)creal(value);
    else if (type == CUDA_R_64F)
        *(double *)to = creal(value);
    else if (type == CUDA_C_32F)
        *(float _Complex *)to = (float _Complex)value;
    else if (type == CUDA_C_64F)
        *(double _Complex *)to = value;
    else if (type == CUDA_R_16F)
        *(uint16_t *)to = gt__float_to_half((float)creal(value));
    else
        *(uint16_t *)to = gt__float_to_bfloat16((float)creal(value));
}

static char *memory_of(const layout *l, CUdeviceptr address)
{
    int64_t last = (l->columns - 1) * l->leading + l->rows + (l->batch - 1) * l->stride;
    return fake_address(address, (size_t)last * element_size(l->type));
}

static void compute(void *argument)
{
    const work *w = argument;
    if (fake_is_empty())
        return;
    const char *a = memory_of(&w->a, w->at_a), *b = memory_of(&w->b, w->at_b);
    char *out = memory_of(&w->out, w->at_out);
    const char *bias = w->p.epilogue == CUBLASLT_EPILOGUE_BIAS
                           ? fake_address(w->p.bias, (size_t)w->out.rows * element_size(w->out.type))
                           : NULL;
    int64_t k = w->p.transpose_a ? w->a.rows : w->a.columns;
    int64_t row_a = w->p.transpose_a ? w->a.leading : 1, step_a = w->p.transpose_a ? 1 : w->a.leading;
    int64_t column_b = w->p.transpose_b ? 1 : w->b.leading, step_b = w->p.transpose_b ? w->b.leading : 1;
    for (int64_t t = 0; t < w->out.batch; t++)
        for (int64_t j = 0; j < w->out.columns; j++)
            for (int64_t i = 0; i < w->out.rows; i++) {
                double _Complex sum = bias ? element(w->out.type, bias, i) : 0;
                for (int64_t l = 0; l < k; l++)
                    sum += element(w->a.type, a, t * w->a.stride + i * row_a + l * step_a) *
                           element(w->b.type, b, t * w->b.stride + j * column_b + l * step_b);
                put(w->out.type, out, t * w->out.stride + j * w->out.leading + i, sum);
            }
}

API int cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t p, const void *alpha, const void *a,
                       cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                       const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                       cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,
                       size_t workspace_bytes, CUstream stream)
{
    (void)handle;
    (void)alpha;
    (void)beta;
    (void)c_layout;
    const preference *promised = (const preference *)algo;
    const void *const addresses[] = {a, b, c, d};
    for (int k = 0; k < 4; k++)
        if ((uintptr_t)addresses[k] % promised->alignment[k])
            return 7;
    work w = {.p = *(product *)p,
              .a = *(layout *)a_layout,
              .b = *(layout *)b_layout,
              .out = *(layout *)d_layout,
              .at_a = (uintptr_t)a,
              .at_b = (uintptr_t)b,
              .at_out = (uintptr_t)d};
    fake_address((uintptr_t)workspace, workspace_bytes);
    return fake_enqueue(stream, compute, &w, sizeof w) ? 13 : 0;
}
