/*
 * cuda.c: the CUDA engine's table: opening and closing, memory, and calls.
 *
 * The plug-in loads anywhere. Its init looks for a driver and a card, and says in one line what is missing. Workers of one
 * process that open the engine in turn get the cards in turn. Read cuda.h first.
 */
#include "engines/cuda/cuda.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/settings.h"
#include "engines/plugin.h"

static const gt_engine_ops engine_cuda;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static uint64_t take_segment(void *context, size_t bytes)
{
    gt_cuda *cuda = context;
    CUdeviceptr address = 0;
    gt__cuda_settle(cuda);
    gt__cuda_comms_wait(cuda);
    gt__cuda_mappings_close(cuda, false);
    if ((address = gt__cuda_lent_take(cuda, bytes)))
        return address;
    int result = cuda->driver->memory_alloc(&address, bytes);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY)
        gt__cuda_queue_check(cuda);
    return result == CUDA_SUCCESS ? address : 0;
}

/* Waits for everything that is queued. */
static void give_segment(void *context, uint64_t address)
{
    gt_cuda *cuda = context;
    gt__cuda_settle(cuda);
    gt__cuda_comms_wait(cuda);
    if (!gt__cuda_lent_give(cuda, address))
        cuda->driver->memory_free(address);
}

gt_err gt__cuda_take(gt_cuda *cuda, size_t bytes, uint64_t *address)
{
    gt_err err = gt__cuda_heap_take(&cuda->heap, bytes, address);
    return err && cuda->broken ? gt__fail(GT_ERR_INTERNAL, "%s", cuda->broken_text) : err;
}

static uint64_t cuda_memory_limit(gt_engine *engine, unsigned sharers)
{
    uint64_t limit = (uint64_t)gt__setting(GT_SETTING_WORKER_MEMORY);
    return limit ? limit : gt__cuda(engine)->card_bytes / 10 * 9 / (sharers > 1 ? sharers : 1);
}

static uint64_t cuda_memory_identity(gt_engine *engine)
{
    return gt__cuda(engine)->identity;
}

static gt_err cuda_alloc(gt_engine *engine, size_t bytes, void **memory)
{
    uint64_t address;
    GT_TRY(gt__cuda_take(gt__cuda(engine), bytes, &address));
    *memory = (void *)(uintptr_t)address;
    return GT_OK;
}

static void cuda_release(gt_engine *engine, void *memory, size_t bytes)
{
    (void)bytes;
    if (memory && !gt__cuda_heap_give(&gt__cuda(engine)->heap, (uint64_t)(uintptr_t)memory))
        gt__log_error("cuda: %p is not memory of this engine", memory);
}

static gt_err cuda_clear(gt_engine *engine, void *memory, size_t bytes)
{
    gt_cuda *cuda = gt__cuda(engine);
    if (__builtin_expect(cuda->broken, 0))
        return gt__fail(GT_ERR_INTERNAL, "%s", cuda->broken_text);
    gt__cuda_settle(cuda); /* behind the work that waits to be launched, which may use the memory */
    GT_CUDA_TRY(cuda, "clearing memory",
                cuda->driver->memory_set((CUdeviceptr)(uintptr_t)memory, 0, bytes, cuda->stream));
    return GT_OK;
}

/* ---- calls --------------------------------------------------------------------------------------------------------- */

gt_err gt__cuda_begin(gt_cuda *cuda, bool timed)
{
    cuda->running = (gt_cuda_timing){.before = cuda->last, .part = 1};
    if (__builtin_expect(cuda->broken, 0))
        return gt__fail(GT_ERR_INTERNAL, "%s", cuda->broken_text);
    if (timed) { /* it starts with the first work that is queued */
        cuda->running.queued_ns = gt__cuda_now_ns();
        cuda->running.timed = true;
        return GT_OK;
    }
    gt__cuda_mark_forget(cuda);
    return GT_OK;
}

void gt__cuda_launching(gt_cuda *cuda)
{
    gt__cuda_settle(cuda);
    if (__builtin_expect(cuda->running.timed && !cuda->running.start, 0))
        gt__cuda_item_start(cuda, &cuda->running.start); /* a failure shows at the end of the call */
}

/* A timed call is complete. */
static gt_err end_timing(gt_cuda *cuda, gt_cuda_timing *timing)
{
    if (timing->stamp && !timing->start)
        return gt__cuda_item_stamp(cuda, timing);
    if (!timing->start) /* nothing was queued */
        GT_TRY(gt__cuda_item_start(cuda, &timing->start));
    return gt__cuda_item_end(cuda, timing->start, timing->part, timing->queued_ns);
}

gt_err gt__cuda_end(gt_cuda *cuda, gt_err err, gt_token number, gt_token *token)
{
    gt_cuda_timing timing = cuda->running;
    cuda->running.timed = false;
    if (timing.timed) {
        gt_err timed = end_timing(cuda, &timing);
        err = err ? err : timed;
    }
    if (err != GT_OK) {
        gt__cuda_batch_flush(cuda); /* a chain of this call may wait */
        gt__cuda_items_drop(cuda);
        gt__cuda_transfer_forget(cuda, timing.before);
        if (number) /* the card may still copy from or to pinned memory of the caller */
            gt__cuda_queue_wait(cuda, cuda->last);
        return err;
    }
    gt__cuda_queue_give(cuda, number && !timing.timed ? number : gt__cuda_queue_number(cuda), token);
    return GT_OK;
}

static gt_err cuda_write(gt_engine *engine, void *to, const void *host, size_t bytes, bool timed, gt_token *token)
{
    gt_cuda *cuda = gt__cuda(engine);
    gt_token number = 0;
    GT_TRY(gt__cuda_begin(cuda, timed));
    gt_err err = gt__cuda_upload(cuda, (CUdeviceptr)(uintptr_t)to, host, bytes, &number);
    return gt__cuda_end(cuda, err, number, token);
}

static gt_err cuda_read(gt_engine *engine, const void *from, void *host, size_t bytes, bool timed, gt_token *token)
{
    gt_cuda *cuda = gt__cuda(engine);
    gt_token number = 0;
    GT_TRY(gt__cuda_begin(cuda, timed));
    gt_err err = gt__cuda_download(cuda, (CUdeviceptr)(uintptr_t)from, host, bytes, &number);
    return gt__cuda_end(cuda, err, number, token);
}

gt_err gt__cuda_execute(gt_cuda *cuda, const gt_call *call, unsigned step)
{
    gt_err err = gt__cuda_resident_run(cuda, call);
    unsigned form = gt__op_table[call->op].form;
    if (err != GT_ERR_UNSUPPORTED)
        return err;
    gt__cuda_launching(cuda);
    err = form == GT_FORM_MATMUL                                ? gt__cuda_product(cuda, call)
          : form == GT_FORM_LINEAR                              ? gt__cuda_linear(cuda, call)
          : form == GT_FORM_CONV || form == GT_FORM_CONV_WEIGHT ? gt__cuda_convolution(cuda, call)
                                                                : GT_ERR_UNSUPPORTED;
    if (err == GT_ERR_UNSUPPORTED)
        err = gt__cuda_run_kernels(cuda, call, step);
    if (err == GT_ERR_UNSUPPORTED)
        err = gt__cuda_fallback(cuda, call, step);
    return err;
}

static gt_err cuda_run(gt_engine *engine, const gt_call *call, gt_token *token)
{
    gt_cuda *cuda = gt__cuda(engine);
    GT_TRY(gt__cuda_begin(cuda, call->timed));
    gt_err err = gt__cuda_execute(cuda, call, 0);
    return gt__cuda_end(cuda, err, 0, token);
}

static bool cuda_completed(gt_engine *engine, bool wait, gt_completion *completion)
{
    return gt__cuda_queue_completed(gt__cuda(engine), wait, completion);
}

static void cuda_flush(gt_engine *engine)
{
    gt__cuda_queue_flush(gt__cuda(engine));
}

static bool cuda_pin(gt_engine *engine, void *memory, size_t bytes)
{
    return gt__cuda_pin(gt__cuda(engine), memory, bytes);
}

static void cuda_unpin(gt_engine *engine, void *memory)
{
    gt__cuda_unpin(gt__cuda(engine), memory);
}

static uint32_t cuda_host_calls(gt_engine *engine, gt_opcode op)
{
    return gt__cuda(engine)->fallbacks[op];
}

static bool cuda_card(gt_engine *engine, char bus_id[GT_CARD_BUS_ID])
{
    gt_cuda *cuda = gt__cuda(engine);
    return cuda->driver->device_bus_id(bus_id, GT_CARD_BUS_ID, cuda->device) == CUDA_SUCCESS;
}

/* ---- opening and closing --------------------------------------------------------------------------------------------- */

static void cuda_close(gt_engine *engine)
{
    gt_cuda *cuda = gt__cuda(engine);
    if (!cuda)
        return;
    gt__cuda_fallback_report(cuda);
    gt__cuda_transfer_report(cuda);
    gt__log(GT_LOG_STATUS, "cuda: %llu launches", (unsigned long long)cuda->launches);
    gt__cuda_settle(cuda);
    gt__cuda_comms_close(cuda);
    gt__cuda_queue_close(cuda);
    gt__cuda_resident_close(cuda);
    gt__cuda_products_close(cuda);
    gt__cuda_convolutions_close(cuda);
    gt__cuda_kernels_close(cuda);
    gt__cuda_transfer_close(cuda);
    gt__cuda_mappings_close(cuda, true);
    gt__cuda_heap_clear(&cuda->heap);
    if (cuda->host)
        cuda->host->ops->close(cuda->host);
    if (cuda->context)
        cuda->driver->context_release(cuda->device);
    free(cuda->batch);
    free(cuda);
}

static pid_t started_in; /* the process that started the driver */

/* At least one. `result`: of starting the driver. */
static gt_err count_devices(const gt_cuda_driver *driver, int result, int *count)
{
    char text[200];
    *count = 0;
    if (result == CUDA_SUCCESS)
        result = driver->device_count(count);
    if (result == CUDA_ERROR_NO_DEVICE || (result == CUDA_SUCCESS && *count < 1))
        return gt__fail(GT_ERR_UNSUPPORTED, "there is no NVIDIA GPU");
    if (result != CUDA_SUCCESS && started_in != getpid())
        return gt__fail(GT_ERR_UNSUPPORTED, "CUDA does not survive fork: use spawn");
    if (result != CUDA_SUCCESS)
        return gt__fail(GT_ERR_UNSUPPORTED, "NVIDIA's driver does not start: %s",
                        gt__cuda_result_text(driver, result, text, sizeof text));
    return GT_OK;
}

/* The card's number: GT_CUDA_DEVICE, else the cards in turn. */
static gt_err choose_device(const gt_cuda_driver *driver, int *number)
{
    static atomic_uint opened;
    const char *text = getenv("GT_CUDA_DEVICE");
    double value;
    int count;
    GT_TRY(count_devices(driver, CUDA_SUCCESS, &count));
    if (!text || !*text) {
        *number = (int)(atomic_fetch_add(&opened, 1) % (unsigned)count);
        return GT_OK;
    }
    if (!gt__number_parse(text, GT_NUMBER_COUNT, 0, count - 1, &value))
        return gt__fail(GT_ERR_VALUE, "GT_CUDA_DEVICE=%.32s is not the number of a GPU; there are 0 to %d", text,
                        count - 1);
    *number = (int)value;
    return GT_OK;
}

static int attribute(gt_cuda *cuda, int which)
{
    int value = 0;
    cuda->driver->device_attribute(&value, which, cuda->device);
    return value;
}

static gt_err describe_card(gt_cuda *cuda)
{
    const gt_cuda_driver *driver = cuda->driver;
    CUuuid uuid = {{0}};
    size_t free_bytes;
    driver->device_name(cuda->card_name, sizeof cuda->card_name, cuda->device);
    driver->device_uuid(&uuid, cuda->device);
    for (size_t k = 0; k < sizeof uuid.bytes; k++)
        cuda->identity = (cuda->identity ^ (uint8_t)uuid.bytes[k]) * 0x100000001b3u + 1;
    GT_CUDA_TRY(cuda, "memory", driver->memory_info(&free_bytes, &cuda->card_bytes));
    cuda->card = (gt_cuda_device){
        .processors = (unsigned)attribute(cuda, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        .shared_limit = (unsigned)attribute(cuda, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        .capability = 10 * (unsigned)attribute(cuda, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                      (unsigned)attribute(cuda, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        .resident_limit = (unsigned)attribute(cuda, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
    };
    if (!attribute(cuda, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS))
        return gt__fail(GT_ERR_UNSUPPORTED, "%s: the driver cannot write numbers from a stream", cuda->card_name);
    return GT_OK;
}

static gt_err open_parts(gt_cuda *cuda, const gt_engine_options *options)
{
    const gt_engine_ops *cpu;
    int number;
    GT_TRY(gt__cuda_open_driver(&cuda->driver));
    GT_TRY(choose_device(cuda->driver, &number));
    GT_CUDA_TRY(cuda, "a GPU", cuda->driver->device_get(&cuda->device, number));
    GT_CUDA_TRY(cuda, "a context", cuda->driver->context_retain(&cuda->context, cuda->device));
    GT_CUDA_TRY(cuda, "a context", cuda->driver->context_set(cuda->context));
    GT_TRY(describe_card(cuda));
    gt__cuda_heap_init(&cuda->heap,
                       &(gt_cuda_heap_source){.take = take_segment, .give = give_segment, .context = cuda});
    GT_TRY(gt__engine_find("cpu", &cpu));
    GT_TRY(cpu->open(options, &cuda->host));
    GT_TRY(gt__cuda_queue_open(cuda));
    GT_TRY(gt__cuda_transfer_open(cuda));
    GT_TRY(gt__cuda_kernels_open(cuda));
    return gt__cuda_resident_open(cuda);
}

static gt_err cuda_open(const gt_engine_options *options, gt_engine **engine)
{
    gt_cuda *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    cuda->engine.ops = &engine_cuda;
    gt_err err = open_parts(cuda, options);
    if (err != GT_OK) {
        char why[512];
        snprintf(why, sizeof why, "%s", gt_error_text());
        cuda_close(&cuda->engine);
        return gt__fail(err, "%s", why);
    }
    gt__log(GT_LOG_STATUS, "cuda: %s, %u multiprocessors, %.1f GiB", cuda->card_name, cuda->card.processors,
            (double)cuda->card_bytes / (1 << 30));
    *engine = &cuda->engine;
    return GT_OK;
}

static const char *cuda_broken(gt_engine *engine)
{
    const gt_cuda *cuda = gt__cuda(engine);
    return cuda->broken ? cuda->broken_text : NULL;
}

static const gt_engine_ops engine_cuda = {
    .name = "cuda",
    .host_memory = false,
    .asynchronous = true,
    .open = cuda_open,
    .close = cuda_close,
    .memory_limit = cuda_memory_limit,
    .memory_identity = cuda_memory_identity,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .clear = cuda_clear,
    .write = cuda_write,
    .read = cuda_read,
    .run = cuda_run,
    .completed = cuda_completed,
    .broken = cuda_broken,
    .flush = cuda_flush,
    .compile = gt__cuda_compile,
    .run_program = gt__cuda_run_program,
    .free_program = gt__cuda_free_program,
    .fixed_addresses = true,
    .league = gt__cuda_league,
    .league_name = "nccl",
    .collective = gt__cuda_collective,
    .circle = gt__cuda_circle,
    .group = gt__cuda_group,
    .lend = gt__cuda_lend,
    .borrow = gt__cuda_borrow,
    .give_back = gt__cuda_give_back,
    .memory_type = "cuda",
    .expose = gt__cuda_expose,
    .enter = gt__cuda_enter,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .host_calls = cuda_host_calls,
    .card = cuda_card,
};

/* Is there a driver with a card? */
static gt_err init(const gt_host *host, const gt_engine_ops **ops)
{
    const gt_cuda_driver *driver;
    int count;
    GT_TRY(gt__plugin_begin(host));
    GT_TRY(gt__cuda_open_driver(&driver));
    if (!started_in)
        started_in = getpid();
    GT_TRY(count_devices(driver, driver->init(0), &count));
    *ops = &engine_cuda;
    return GT_OK;
}

GT_ENGINE_PLUGIN_INIT(init);
