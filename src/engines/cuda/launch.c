/* launch.c: a call as kernel launches. What they are is generate.h's business; here they get memory and a place in the
 * stream. */
#include <string.h>

#include "engines/cuda/cuda.h"

void gt__cuda_patch(gt_cuda_launch *launch, CUdeviceptr scratch, CUdeviceptr errors)
{
    for (unsigned k = 0; k < launch->scratch_count; k++) {
        uint64_t address;
        memcpy(&address, launch->param + launch->scratch_at[k], sizeof address);
        address += scratch;
        memcpy(launch->param + launch->scratch_at[k], &address, sizeof address);
    }
    if (launch->errors_at != GT_CUDA_NOWHERE) {
        uint64_t address = errors;
        memcpy(launch->param + launch->errors_at, &address, sizeof address);
    }
}

static int launch(gt_cuda *cuda, CUfunction function, gt_cuda_launch *l)
{
    void *parameters[] = {l->param}; /* one struct by value, of which the driver knows the size */
    return cuda->driver->launch(function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                                l->block[2], l->shared, cuda->stream, parameters, NULL);
}

gt_err gt__cuda_launch_now(gt_cuda *cuda, CUfunction function, gt_cuda_launch *l)
{
    int result = launch(cuda, function, l);
    if (__builtin_expect(result == CUDA_ERROR_OUT_OF_MEMORY, 0) && !cuda->capturing) {
        gt__cuda_heap_trim(&cuda->heap);
        result = launch(cuda, function, l);
    }
    cuda->launches++;
    return __builtin_expect(result == CUDA_SUCCESS, 1) ? GT_OK : gt__cuda_fail(cuda, result, "a kernel launch");
}

static gt_err launch_all(gt_cuda *cuda, gt_cuda_work *work, const CUfunction *functions, unsigned step,
                         CUdeviceptr scratch, CUdeviceptr errors)
{
    gt__cuda_launching(cuda);
    for (unsigned k = 0; k < work->count; k++) {
        gt_cuda_launch *l = &work->launch[k];
        gt__cuda_patch(l, scratch, errors);
        GT_TRY(gt__cuda_launch_now(cuda, functions[k], l));
        if (__builtin_expect(cuda->recording != NULL, 0))
            GT_TRY(gt__cuda_recorded_launch(cuda, step, l, functions[k], scratch, errors));
    }
    return GT_OK;
}

static bool may_fail(const gt_cuda_work *work)
{
    for (unsigned k = 0; k < work->count; k++)
        if (work->launch[k].errors_at != GT_CUDA_NOWHERE)
            return true;
    return false;
}

/* One part of a call: the launches that work has room for. *errors: the call's slot, taken when it is first needed. */
static gt_err launch_part(gt_cuda *cuda, gt_cuda_work *work, unsigned step, CUdeviceptr *errors)
{
    CUfunction functions[GT_CUDA_LAUNCHES];
    CUdeviceptr scratch = 0;
    for (unsigned k = 0; k < work->count; k++)
        GT_TRY(gt__cuda_kernel(cuda, &work->launch[k], &functions[k]));
    if (!*errors && may_fail(work))
        GT_TRY(gt__cuda_item_errors(cuda, step, errors));
    if (work->scratch)
        GT_TRY(gt__cuda_scratch_take(cuda, work->scratch, &scratch));
    gt_err err = launch_all(cuda, work, functions, step, scratch, *errors);
    if (scratch)
        gt__cuda_scratch_release(cuda, scratch);
    return err;
}

gt_err gt__cuda_run_kernels(gt_cuda *cuda, const gt_call *call, unsigned step)
{
    gt_cuda_work *work = &cuda->work;
    CUdeviceptr errors = 0;
    work->more = 0;
    do {
        GT_TRY(gt__cuda_lower(call, &cuda->card, work));
        GT_TRY(launch_part(cuda, work, step, &errors));
    } while (work->more);
    return GT_OK;
}

gt_err gt__cuda_run_chains(gt_cuda *cuda, const gt_cuda_part *parts, unsigned count, void *const *buffer)
{
    CUdeviceptr errors = 0;
    GT_TRY(gt__cuda_lower_chains(parts, count, buffer, &cuda->work));
    return launch_part(cuda, &cuda->work, parts[0].first, &errors);
}
