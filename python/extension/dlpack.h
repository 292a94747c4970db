/* dlpack.h: DLPack's structures, for interop.c (tensors) and engine_view.c (operands of engines in Python). */
#ifndef GT_PYTHON_DLPACK_H
#define GT_PYTHON_DLPACK_H

#include "extension.h"

/* DLPack's own layout (version 0.x, which every producer still speaks). */
typedef struct DLTensor {
    void *data;
    struct {
        int32_t device_type, device_id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides; /* strides in elements; NULL: packed */
    uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
    DLTensor tensor;
    void *manager;
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

enum {
    DL_CPU = 1,
    DL_CUDA_HOST = 3,
    DL_INT = 0,
    DL_UINT = 1,
    DL_FLOAT = 2,
    DL_BFLOAT = 4,
    DL_COMPLEX = 5,
    DL_BOOL = 6
};

typedef struct gt_py_dlpack_dtype {
    uint8_t code, bits;
} gt_py_dlpack_dtype;

extern const gt_py_dlpack_dtype gt__py_dlpack_dtypes[GT_DTYPE_COUNT];

/* The destructor of a capsule "dltensor": calls the tensor's deleter if it was not consumed. */
void gt__py_dlpack_capsule_delete(PyObject *capsule);

#endif
