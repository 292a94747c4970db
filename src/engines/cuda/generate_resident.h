/*
 * generate_resident.h: the resident kernel's source, and launches as slots of its ring. The kernel itself is in
 * device/resident.cuh; resident.c runs it. It executes small work of some families, with the parameters that their own kernels
 * get: elementwise rows, copies and fills with any strides, reductions, in the commonest dtypes, and softmax and layer norm of
 * short lines of float32.
 */
#ifndef GT_ENGINES_CUDA_GENERATE_RESIDENT_H
#define GT_ENGINES_CUDA_GENERATE_RESIDENT_H

#include "engines/cuda/generate.h"

/* Must agree with device/resident.cuh. */
enum {
    GT_CUDA_SLOT_NUMBER, /* nothing but its number */
    GT_CUDA_SLOT_LEAVE,
    GT_CUDA_SLOT_ELEMENTWISE,
    GT_CUDA_SLOT_REDUCE,
    GT_CUDA_SLOT_COPY, /* from, to, bytes */
    GT_CUDA_SLOT_PUT,  /* to, bytes, and then these */
    GT_CUDA_SLOT_ROWS,
    GT_CUDA_SLOT_MAIL, /* from, to, bytes (1, 2, 4 or 8), tag */
};
enum { GT_CUDA_SLOT_PARAM = 480 };

typedef struct gt_cuda_slot {
    uint8_t kind, type, operands, variant;
    uint16_t op;
    uint8_t literals, out;
    uint8_t in[3];
    uint8_t fence;       /* the host reads what it writes */
    uint32_t stamp;      /* not 0: the place of its times, counted from 1 */
    uint64_t number;     /* work up to this number is done when this is; 0: no news */
    uint64_t generation; /* leave: of the kernel that is to leave */
    uint64_t param[GT_CUDA_SLOT_PARAM / 8];
} gt_cuda_slot;

_Static_assert(sizeof(gt_cuda_slot) == 512, "slots have no padding");

/* The kernel's one parameter. */
typedef struct gt_cuda_resident_params {
    uint64_t ring, head, tail, exited, counter, position, stamps; /* addresses */
    uint64_t generation, mask;
    uint64_t idle_ns, life_ns;
} gt_cuda_resident_params;

enum {
    GT_CUDA_RESIDENT_MOST = 4095, /* elements of the largest operand */
    GT_CUDA_RESIDENT_THREADS = 512,
};

/* Source of the kernel, to be freed with free(), and its entry point. */
gt_err gt__cuda_resident_source(char **source, const char **entry);
/* Calls whose launches may fit: a quick look. */
bool gt__cuda_resident_covers(const gt_call *call);
/* Fill in a slot: what it does, nothing else. False: the kernel does not execute this launch. */
bool gt__cuda_resident_slot(const gt_cuda_launch *launch, gt_cuda_slot *slot);

#endif
