/* cli/replay/look.c: inspects the elements of replayed tensors: finds NaN and differences, prints and saves. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/half.h"
#include "cli/replay/replay.h"

enum { PRINT_AT_MOST = 8 };

double gt__element(gt_dtype dtype, const void *data, int64_t index)
{
    const uint8_t *at = (const uint8_t *)data + (size_t)index * gt__dtype_size(dtype);
    union {
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint16_t u16;
        float f32;
        double f64;
        float c64[2];
        double c128[2];
    } element;
    memcpy(&element, at, gt__dtype_size(dtype));
    switch (dtype) {
    case GT_BOOL:
    case GT_UINT8:
        return *at;
    case GT_INT8:
        return element.i8;
    case GT_INT16:
        return element.i16;
    case GT_INT32:
        return element.i32;
    case GT_INT64:
        return (double)element.i64;
    case GT_FLOAT16:
        return (double)gt__half_to_float(element.u16);
    case GT_BFLOAT16:
        return (double)gt__bfloat16_to_float(element.u16);
    case GT_FLOAT32:
        return (double)element.f32;
    case GT_COMPLEX64:
        return (double)element.c64[0];
    case GT_COMPLEX128:
        return element.c128[0];
    default:
        return element.f64;
    }
}

/* Complex numbers as twice as many real ones. */
static gt_meta parts_of(const gt_meta *meta)
{
    gt_meta parts = *meta;
    parts.dtype = (uint8_t)gt__dtype_real((gt_dtype)meta->dtype);
    parts.numel *= 2;
    return parts;
}

unsigned gt__look_nonfinite(const gt_meta *meta, const void *data, int64_t *first)
{
    unsigned found = 0;
    if (gt__dtype_is_complex((gt_dtype)meta->dtype)) {
        gt_meta parts = parts_of(meta);
        found = gt__look_nonfinite(&parts, data, first);
        *first /= 2;
        return found;
    }
    if (!gt__dtype_is_float((gt_dtype)meta->dtype))
        return 0;
    for (int64_t k = 0; k < meta->numel; k++) {
        double x = gt__element((gt_dtype)meta->dtype, data, k);
        unsigned kind = isnan(x) ? GT_HAS_NAN : isinf(x) ? GT_HAS_INFINITY : 0;
        if (kind & ~found && (!found || kind == GT_HAS_NAN))
            *first = k;
        found |= kind | (isinf(x) && x > 0 ? GT_HAS_POSITIVE_INFINITY : 0);
    }
    return found;
}

/* The difference allowed between two engines: a few roundings, amplified by the program. */
static double default_tolerance(gt_dtype dtype)
{
    return dtype == GT_FLOAT64 ? 1e-9 : dtype == GT_FLOAT32 ? 1e-4 : gt__dtype_is_float(dtype) ? 3e-2 : 0;
}

/* The largest finite magnitude of both. */
static double largest(const gt_meta *meta, const void *a, const void *b)
{
    double most = 0;
    for (int64_t k = 0; k < meta->numel; k++) {
        double x = fabs(gt__element((gt_dtype)meta->dtype, a, k)),
               y = fabs(gt__element((gt_dtype)meta->dtype, b, k));
        most = fmax(most, fmax(isfinite(x) ? x : 0, isfinite(y) ? y : 0));
    }
    return most;
}

/* Relative to the element and, if it may be a sum that cancels, to a tenth of the largest one: such a sum is less exact than its
 * terms. */
int64_t gt__look_difference(const gt_meta *meta, const void *a, const void *b, double tolerance, bool cancels)
{
    gt_dtype dtype = (gt_dtype)meta->dtype;
    if (gt__dtype_is_complex(dtype)) {
        gt_meta parts = parts_of(meta);
        int64_t at = gt__look_difference(&parts, a, b, tolerance, cancels);
        return at < 0 ? at : at / 2;
    }
    size_t size = gt__dtype_size(dtype);
    double allowed = gt__dtype_is_float(dtype) ? (tolerance > 0 ? tolerance : default_tolerance(dtype)) : 0;
    double cancelled =
        cancels && allowed > 0 && memcmp(a, b, gt__meta_bytes(meta)) ? 0.1 * largest(meta, a, b) : 0;
    for (int64_t k = 0; k < meta->numel; k++) {
        if (memcmp((const uint8_t *)a + (size_t)k * size, (const uint8_t *)b + (size_t)k * size, size) == 0)
            continue;
        if (!gt__dtype_is_float(dtype))
            return k;
        double x = gt__element(dtype, a, k), y = gt__element(dtype, b, k);
        if ((isnan(x) && isnan(y)) || x == y)
            continue;
        if (!(fabs(x - y) <= allowed * (cancelled + fmax(fabs(x), fabs(y)))))
            return k;
    }
    return -1;
}

char *gt__look_position(const gt_meta *meta, int64_t index, char *text, size_t size)
{
    int64_t position[GT_MAX_RANK];
    for (unsigned axis = meta->rank; axis-- > 0; index /= meta->shape[axis])
        position[axis] = index % meta->shape[axis];
    return gt__shape_text(meta->rank, position, text, size);
}

void gt__look_print(const gt_meta *meta, const void *data)
{
    char shape[128];
    printf("[");
    gt_dtype dtype = (gt_dtype)meta->dtype, part = gt__dtype_real(dtype);
    for (int64_t k = 0; k < meta->numel && k < PRINT_AT_MOST; k++)
        if (gt__dtype_is_complex(dtype))
            printf("%s%.9g%+.9gj", k ? ", " : "", gt__element(part, data, 2 * k),
                   gt__element(part, data, 2 * k + 1));
        else
            printf("%s%.9g", k ? ", " : "", gt__element(dtype, data, k));
    printf("%s] %s %s\n", meta->numel > PRINT_AT_MOST ? ", ..." : "",
           gt__shape_text(meta->rank, meta->shape, shape, sizeof shape), gt__dtype_name((gt_dtype)meta->dtype));
}

gt_err gt__look_save(const char *path, const gt_meta *meta, const void *data)
{
    static const char *const kinds[GT_DTYPE_COUNT] = {
        [GT_BOOL] = "|b1",    [GT_UINT8] = "|u1",   [GT_INT8] = "|i1",      [GT_INT16] = "<i2",
        [GT_INT32] = "<i4",   [GT_INT64] = "<i8",   [GT_FLOAT16] = "<f2",   [GT_BFLOAT16] = "<f4",
        [GT_FLOAT32] = "<f4", [GT_FLOAT64] = "<f8", [GT_COMPLEX64] = "<c8", [GT_COMPLEX128] = "<c16",
    };
    char shape[256] = "", head[512];
    for (unsigned axis = 0; axis < meta->rank; axis++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%lld,", (long long)meta->shape[axis]);
    int length = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                          kinds[meta->dtype], shape);
    while ((length + 11) % 64)
        head[length++] = ' ';
    head[length++] = '\n';
    const uint8_t magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)(length & 255), (uint8_t)(length >> 8)};
    FILE *file = fopen(path, "wbe");
    if (!file)
        return gt__fail(GT_ERR_VALUE, "%s: %s", path, strerror(errno));
    fwrite(magic, 1, sizeof magic, file);
    fwrite(head, 1, (size_t)length, file);
    for (int64_t k = 0; meta->dtype == GT_BFLOAT16 && k < meta->numel; k++) {
        float wide = (float)gt__element(GT_BFLOAT16, data, k);
        fwrite(&wide, sizeof wide, 1, file);
    }
    if (meta->dtype != GT_BFLOAT16)
        fwrite(data, 1, gt__meta_bytes(meta), file);
    bool failed = ferror(file);
    failed |= fclose(file) != 0;
    return failed ? gt__fail(GT_ERR_VALUE, "%s: %s", path, strerror(errno)) : GT_OK;
}
