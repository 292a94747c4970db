/*
 * generate.h: turns calls into kernel launches, and the keys of kernels into CUDA C++ source. No CUDA types here: these files
 * build and are tested without a toolkit, and the engine (cuda.c) is the only one that talks to the driver.
 *
 *     gt__cuda_lower    a call to launches: addresses, sizes, grid. In every `run`; no allocation, no source.
 *     gt__cuda_source   the key of a launch to source; only where the engine has no kernel of that key yet.
 *
 * A key says everything the source depends on: the op, the dtypes, how operands are read. Sizes, strides, addresses and
 * numbers are in the launch's parameter block, so steady state compiles nothing.
 */
#ifndef GT_ENGINES_CUDA_GENERATE_H
#define GT_ENGINES_CUDA_GENERATE_H

#include "engines/engine.h"

enum {
    GT_CUDA_PARAM_MAX = 4096, /* of every card and driver */
    GT_CUDA_LAUNCHES = 8,
    GT_CUDA_NOWHERE = 0xffff, /* instead of a place in a parameter block */
};

/* Names a kernel. Padded with zeros: compare and hash the 32 bytes. */
typedef union gt_cuda_key {
    struct {
        uint8_t family; /* gt_cuda_family of generate_family.h; 0 is never a kernel */
        uint8_t compute;
        uint16_t op;
        uint8_t out;
        uint8_t in[3];
        uint8_t mode[4]; /* how each operand, and out, is addressed */
        uint8_t vector;  /* elements that a thread reads at once */
        uint8_t wide;    /* 64-bit offsets */
        uint8_t variant; /* these belong to the family */
        uint8_t unused;
        uint32_t option[4];
    };
    uint64_t word[4];
} gt_cuda_key;

_Static_assert(sizeof(gt_cuda_key) == 32, "keys have no padding");

/* What lowering needs to know of the card. */
typedef struct gt_cuda_device {
    unsigned processors;     /* streaming multiprocessors */
    unsigned shared_limit;   /* dynamic shared memory that a block may have, in bytes, after opting in */
    unsigned capability;     /* 80, 90, 100 */
    unsigned resident_limit; /* threads that a multiprocessor holds at once */
} gt_cuda_device;

/*
 * One kernel launch. The kernel has one parameter, a struct of param_size bytes passed by value. Two addresses are not known here, and the engine puts them into the block before it launches:
 *
 *   scratch   at each place of scratch_at[0..scratch_count): the eight bytes there hold an offset; add the scratch's address.
 *   errors    at the place errors_at, unless that is GT_CUDA_NOWHERE: store the address of a gt_cuda_errors there.
 *
 * shared is the dynamic shared memory; above 48 KiB the engine must raise the function's limit first.
 */
typedef struct gt_cuda_chain gt_cuda_chain; /* chain.h */

typedef struct gt_cuda_launch {
    gt_cuda_key key;
    const gt_cuda_chain *chain; /* that the key is of, for its source; else NULL */
    uint32_t grid[3], block[3];
    uint32_t shared;
    uint16_t param_size;
    uint16_t errors_at;
    uint16_t scratch_count;
    uint16_t scratch_at[5];
    _Alignas(16) uint8_t param[GT_CUDA_PARAM_MAX];
} gt_cuda_launch;

/*
 * The launches of a call, in order; each needs the results of the ones before. The scratch memory is 256-byte aligned, not
 * initialised, and free again after the last of them. A call with many operands (cat) may need more launches than there is
 * room for: then `more` is not 0. Launch these, and call gt__cuda_lower with the same work again for the rest; the scratch is
 * not shared between the parts. Set `more` to 0 before the first call; nothing else needs initialising.
 *
 * count is 0 where there is nothing to do, as for an empty result.
 */
typedef struct gt_cuda_work {
    unsigned count;
    uint32_t more;
    size_t scratch;
    int64_t fewest; /* the generator's own: elements from which vectors pay on this device */
    gt_cuda_launch launch[GT_CUDA_LAUNCHES];
} gt_cuda_work;

/*
 * Where kernels tell what was wrong with the values that they read, 32 bytes in memory that the device may write. Zero at
 * first. The result of such a call does not exist, but nothing outside it was touched.
 */
typedef struct gt_cuda_errors {
    uint32_t code; /* 0: none. Which: private to the generator */
    uint32_t unused;
    int64_t value[3];
} gt_cuda_errors;

/* GT_ERR_UNSUPPORTED: the engine runs it on the host. Views hold device addresses; literals are in the call. */
gt_err gt__cuda_lower(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);

/* Source of a launch's kernel, to be freed with free(), and its entry point, an extern "C" name that lives as long as the
 * program. Compile with --std=c++17, --device-as-default-execution-space and --fmad as gt__cuda_contracts says, without
 * --use_fast_math; no headers are needed. */
gt_err gt__cuda_source(const gt_cuda_launch *launch, char **source, const char **entry);
/* Whether products and sums become one operation, with one rounding. Not in kernels of what chains or the resident kernel may execute
 * instead: results do not depend on which of them did. */
bool gt__cuda_contracts(const gt_cuda_key *key);

/* Report what kernels wrote: GT_OK if nothing, else an error with the text that the CPU engine gives. */
gt_err gt__cuda_check(const gt_cuda_errors *errors);

/* Whether some calls of this op become launches. The others always run on the host; docs/engines.md lists them. */
bool gt__cuda_covers(gt_opcode op);

#endif
