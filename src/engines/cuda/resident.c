/*
 * resident.c: small work without launches. A kernel of one block stays in the stream and executes slots of a ring that the host
 * writes: it costs a fraction of a launch. Read "Small operations" in docs/engines.md, and device/resident.cuh.
 *
 * The kernel is queued on the stream like everything else, so there is one order: what was queued before is done when it starts,
 * and what is queued behind it starts when it has left. It is told to leave before other work is queued (a slot in the ring), and
 * leaves by itself when it had nothing to do for a while, or was there for long. Each start is a generation. A generation that
 * leaves by itself first writes its number to `exited`, and then looks at the ring once more. The host writes slots first and
 * then looks at `exited`. So slots are either seen by that generation, or the host starts the next one, which goes on where the last
 * one stopped.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "engines/cuda/cuda.h"
#include "engines/cuda/generate_resident.h"

enum {
    SLOTS = 1024, /* a power of two */
    LONG_RUN = 3, /* small operations in a row from which the kernel pays */
    MOST_NEED = 1024,
    LONG_STAY = 256,  /* slots: the stream is made of small operations */
    MAKE_AFTER = 256, /* operations that it would have paid for */
    PUBLISH_EVERY = 4,
    COPY_MOST = 4096, /* bytes */
    IDLE_NS = 60000,
    LIFE_NS = 20000000,
};

/* What host and kernel tell each other; pinned. Each writes lines of its own. */
typedef struct board {
    _Alignas(128) uint64_t head;
    _Alignas(128) uint64_t tail;
    uint64_t exited;
    uint64_t mail[2]; /* four bytes of it and its tag, each */
} board;

typedef enum stage { UNMADE, MAKING, MADE, READY, FAILED } stage;

struct gt_cuda_resident {
    stage stage;
    CUmodule module;
    CUfunction function;
    pthread_t maker;
    atomic_bool made;
    void *binary; /* that the maker made; NULL: it failed */
    gt_cuda *cuda;

    gt_cuda_slot *ring; /* pinned */
    board *board;
    gt_cuda_stamp *stamps; /* pinned, a ring */
    CUdeviceptr ring_address, board_address, stamps_address;
    uint64_t position;                /* the kernel's memory */
    uint64_t pushed, published, done; /* slots; done: at the last look */
    uint64_t generation;
    bool always;                         /* also where it does not pay */
    bool alive;                          /* the last generation was not told to leave */
    unsigned run, expected;              /* small operations in a row: now, and before other work came */
    unsigned need;                       /* so many in a row start it: more after short stays */
    uint64_t slots, starts, stayed_from; /* stayed_from: slots before the last start */
    uint32_t mail_tag;
    size_t mail_bytes;
    uint64_t too_early, too_few,
        busy;            /* small operations that were launched: the kernel was not ready; the run was short;
                                          * the card was busy */
    gt_cuda_device card; /* for lowering: vectors never pay */
    gt_cuda_work work;
};

/* ---- the kernel --------------------------------------------------------------------------------------------------- */

static void *make(void *argument)
{
    gt_cuda_resident *r = argument;
    char *source;
    const char *entry;
    if (gt__cuda_resident_source(&source, &entry) == GT_OK) {
        if (!gt__cuda_binary(r->cuda, source, "small operations are launched one by one", &r->binary))
            r->binary = NULL;
        free(source);
    }
    atomic_store(&r->made, true);
    return NULL;
}

static gt_err start(gt_cuda *cuda, gt_cuda_resident *r)
{
    gt_cuda_resident_params p = {.ring = r->ring_address,
                                 .head = r->board_address + offsetof(board, head),
                                 .tail = r->board_address + offsetof(board, tail),
                                 .exited = r->board_address + offsetof(board, exited),
                                 .counter = cuda->counter_address,
                                 .position = r->position,
                                 .stamps = r->stamps_address,
                                 .generation = r->generation + 1,
                                 .mask = SLOTS - 1,
                                 .idle_ns = IDLE_NS,
                                 .life_ns = LIFE_NS};
    void *parameters[] = {&p};
    int result = cuda->driver->launch(r->function, 1, 1, 1, GT_CUDA_RESIDENT_THREADS, 1, 1, 0, cuda->stream,
                                      parameters, NULL);
    if (result != CUDA_SUCCESS)
        return gt__cuda_fail(cuda, result, "the resident kernel");
    r->generation++;
    r->alive = true;
    r->starts++;
    r->stayed_from = r->slots;
    cuda->launches++;
    return GT_OK;
}

static gt_err load(gt_cuda *cuda, gt_cuda_resident *r)
{
    const gt_cuda_driver *driver = cuda->driver;
    gt__cuda_comms_wait(cuda);
    GT_CUDA_TRY(cuda, "the resident kernel", driver->module_load(&r->module, r->binary));
    GT_CUDA_TRY(cuda, "the resident kernel", driver->module_function(&r->function, r->module, "gt_kernel"));
    if (driver->function_load)
        GT_CUDA_TRY(cuda, "the resident kernel", driver->function_load(r->function));
    GT_TRY(gt__cuda_pinned(cuda, SLOTS * sizeof *r->ring, true, (void **)&r->ring, &r->ring_address));
    GT_TRY(gt__cuda_pinned(cuda, sizeof *r->board, true, (void **)&r->board, &r->board_address));
    GT_TRY(
        gt__cuda_pinned(cuda, GT_CUDA_STAMPS * sizeof *r->stamps, true, (void **)&r->stamps, &r->stamps_address));
    GT_TRY(gt__cuda_take(cuda, sizeof r->position, &r->position));
    gt__cuda_settle(cuda); /* what waits to be launched may use this memory: it was released behind that */
    GT_CUDA_TRY(cuda, "the resident kernel", driver->memory_set(r->position, 0, sizeof(uint64_t), cuda->stream));
    /* Once now, while nothing depends on it: the driver may need memory for the first launch. */
    if (start(cuda, r) == GT_OK)
        return GT_OK;
    gt__cuda_heap_trim(&cuda->heap);
    return start(cuda, r);
}

/* Is the kernel there? A thread makes it when it would have paid for a while; until then, operations are launched. */
static bool is_ready(gt_cuda *cuda, gt_cuda_resident *r)
{
    if (__builtin_expect(r->stage == READY, 1))
        return true;
    if (r->stage == UNMADE && (r->always || r->too_early >= MAKE_AFTER))
        r->stage = pthread_create(&r->maker, NULL, make, r) == 0 ? MAKING : FAILED;
    if (r->stage != MAKING || !atomic_load(&r->made))
        return false;
    pthread_join(r->maker, NULL);
    r->stage = r->binary && load(cuda, r) == GT_OK ? READY : FAILED;
    if (r->binary && r->stage == FAILED)
        gt__log_error("cuda: small operations are launched one by one: %s", gt_error_text());
    free(r->binary);
    r->binary = NULL;
    return r->stage == READY;
}

/* ---- the ring ------------------------------------------------------------------------------------------------------ */

static bool has_exited(const gt_cuda_resident *r)
{
    return __atomic_load_n(&r->board->exited, __ATOMIC_ACQUIRE) >= r->generation;
}

/* Let the kernel see the slots, and see to it that there is one. */
static gt_err publish(gt_cuda *cuda, gt_cuda_resident *r)
{
    if (r->published == r->pushed)
        return GT_OK;
    __atomic_store_n(&r->board->head, r->pushed, __ATOMIC_RELEASE);
    atomic_thread_fence(memory_order_seq_cst);                     /* before the look at `exited` */
    if ((!r->alive || has_exited(r)) && start(cuda, r) != GT_OK) { /* tokens of these slots may have been given */
        gt__cuda_queue_break(cuda, gt_error_text());
        return gt__fail(GT_ERR_INTERNAL, "%s", cuda->broken_text);
    }
    r->published = r->pushed;
    return GT_OK;
}

/* The next slot, to be filled in and pushed. */
static gt_err reserve(gt_cuda *cuda, gt_cuda_resident *r, gt_cuda_slot **slot)
{
    gt_cuda_patience p = {0};
    gt__cuda_batch_flush(cuda);
    while (r->pushed - r->done >= SLOTS) {
        r->done = __atomic_load_n(&r->board->tail, __ATOMIC_ACQUIRE);
        if (r->pushed - r->done < SLOTS)
            break;
        GT_TRY(publish(cuda, r));
        gt__cuda_wait_a_little(cuda, &p);
        if (cuda->broken)
            return gt__fail(GT_ERR_INTERNAL, "%s", cuda->broken_text);
    }
    *slot = &r->ring[r->pushed & (SLOTS - 1)];
    memset(*slot, 0, offsetof(gt_cuda_slot, param));
    return GT_OK;
}

/* The slot's work is a whole call: if that is timed, the kernel measures it. */
static void time_slot(gt_cuda *cuda, gt_cuda_resident *r, gt_cuda_slot *slot)
{
    if (!cuda->running.timed || cuda->running.start)
        return;
    gt_cuda_timing *timing = &cuda->running;
    if (!timing->stamp) {
        timing->stamp_number = cuda->stamp_head++;
        timing->stamp = &r->stamps[timing->stamp_number % GT_CUDA_STAMPS];
    }
    slot->stamp = 1 + (uint32_t)(timing->stamp - r->stamps);
    gt__cuda_mark_forget(cuda);
}

static gt_err push(gt_cuda *cuda, gt_cuda_resident *r, gt_cuda_slot *slot)
{
    slot->number = cuda->last; /* what was numbered before is done when this is: there is one order */
    r->pushed++;
    r->slots++;
    return r->pushed - r->published >= PUBLISH_EVERY ? publish(cuda, r) : GT_OK;
}

/* ---- work ------------------------------------------------------------------------------------------------------------ */

/* A short run among long ones changes little. */
static void end_run(gt_cuda_resident *r)
{
    if (!r->run)
        return;
    r->expected = r->run > r->expected / 2 ? r->run : r->expected / 2;
    r->run = 0;
}

/* Other work makes it leave: was it worth the start? If not, it stays away longer and longer. */
static void judge_stay(gt_cuda_resident *r)
{
    uint64_t stay = r->slots - r->stayed_from;
    if (stay <= LONG_RUN)
        r->need = 2 * r->need < MOST_NEED ? 2 * r->need : MOST_NEED;
    else if (stay >= LONG_STAY || r->need < 2 * LONG_RUN)
        r->need = LONG_RUN;
    else
        r->need -= r->need / 4;
}

/* It pays for runs of small operations, if the card waits for the host: when one is long enough, or when the last ones were, since
 * programs repeat themselves. While the card is busy with what is queued a launch costs nothing, and the kernel would keep the stream from
 * what comes next. */
static bool pays(const gt_cuda *cuda, gt_cuda_resident *r)
{
    if (r->alive || r->always)
        return true;
    if (r->run <= r->need && r->expected < r->need) {
        r->too_few++;
        return false;
    }
    bool busy = gt__cuda_queue_done(cuda) < cuda->written;
    r->busy += busy;
    return !busy;
}

/* One more operation: does it go to the kernel? A small operation that is launched does not end the run. */
static bool takes(gt_cuda *cuda, gt_cuda_resident *r, bool small)
{
    cuda->running.small = small;
    if (!small || !r || cuda->recording || cuda->capturing)
        return false;
    if (r->alive && r->published == r->pushed && has_exited(r)) { /* a pause ends a run, too */
        end_run(r);
        r->alive = false;
    }
    r->run++;
    if (!pays(cuda, r))
        return false;
    if (is_ready(cuda, r))
        return true;
    r->too_early++;
    return false;
}

static gt_err run_slot(gt_cuda *cuda, gt_cuda_resident *r, const gt_call *call)
{
    gt_cuda_slot *slot;
    r->work.more = 0;
    GT_TRY(gt__cuda_lower(call, &r->card, &r->work));
    if (r->work.count == 0)
        return GT_OK;
    if (r->work.count > 1 || r->work.more)
        return GT_ERR_UNSUPPORTED;
    GT_TRY(reserve(cuda, r, &slot));
    if (!gt__cuda_resident_slot(&r->work.launch[0], slot))
        return GT_ERR_UNSUPPORTED;
    time_slot(cuda, r, slot);
    return push(cuda, r, slot);
}

gt_err gt__cuda_resident_run(gt_cuda *cuda, const gt_call *call)
{
    gt_cuda_resident *r = cuda->resident;
    if (!r || !takes(cuda, r, gt__cuda_resident_covers(call)))
        return GT_ERR_UNSUPPORTED;
    gt_err err = run_slot(cuda, r, call);
    cuda->running.small = err != GT_ERR_UNSUPPORTED;
    return err;
}

gt_err gt__cuda_resident_copy(gt_cuda *cuda, CUdeviceptr to, CUdeviceptr from, size_t bytes, bool fence)
{
    gt_cuda_resident *r = cuda->resident;
    gt_cuda_slot *slot;
    if (!takes(cuda, r, bytes <= COPY_MOST))
        return GT_ERR_UNSUPPORTED;
    GT_TRY(reserve(cuda, r, &slot));
    slot->kind = GT_CUDA_SLOT_COPY;
    slot->fence = fence;
    slot->param[0] = from;
    slot->param[1] = to;
    slot->param[2] = bytes;
    time_slot(cuda, r, slot);
    return push(cuda, r, slot);
}

gt_err gt__cuda_resident_mail(gt_cuda *cuda, CUdeviceptr from, size_t bytes)
{
    gt_cuda_resident *r = cuda->resident;
    gt_cuda_slot *slot;
    bool number = bytes && bytes <= 8 && (bytes & (bytes - 1)) == 0 && (bytes < 4 || from % 4 == 0);
    /* What is measured, and what may have failed, is told by memory that needs the fence. */
    if (!number || cuda->mail || cuda->running.timed || cuda->item_count || !r || !r->alive || r->stage != READY ||
        cuda->recording || cuda->capturing || !takes(cuda, r, true))
        return GT_ERR_UNSUPPORTED;
    GT_TRY(reserve(cuda, r, &slot));
    r->mail_tag = (uint32_t)(cuda->last + 1);
    r->mail_bytes = bytes;
    r->board->mail[0] = r->board->mail[1] = (uint64_t)~r->mail_tag << 32;
    slot->kind = GT_CUDA_SLOT_MAIL;
    slot->param[0] = from;
    slot->param[1] = r->board_address + offsetof(board, mail);
    slot->param[2] = bytes;
    slot->param[3] = r->mail_tag;
    cuda->mail = cuda->last + 1;
    return push(cuda, r, slot);
}

bool gt__cuda_resident_arrived(const gt_cuda *cuda, uint8_t bytes[8])
{
    const gt_cuda_resident *r = cuda->resident;
    for (size_t k = 0; 4 * k < r->mail_bytes; k++) {
        uint64_t word = __atomic_load_n(&r->board->mail[k], __ATOMIC_ACQUIRE);
        uint32_t half = (uint32_t)word;
        if (word >> 32 != r->mail_tag)
            return false;
        memcpy(bytes + 4 * k, &half, sizeof half);
    }
    return true;
}

gt_err gt__cuda_resident_put(gt_cuda *cuda, CUdeviceptr to, const void *host, size_t bytes)
{
    gt_cuda_resident *r = cuda->resident;
    gt_cuda_slot *slot;
    if (!takes(cuda, r, bytes <= sizeof slot->param - 2 * sizeof slot->param[0]))
        return GT_ERR_UNSUPPORTED;
    GT_TRY(reserve(cuda, r, &slot));
    slot->kind = GT_CUDA_SLOT_PUT;
    slot->param[0] = to;
    slot->param[1] = bytes;
    memcpy(slot->param + 2, host, bytes);
    time_slot(cuda, r, slot);
    return push(cuda, r, slot);
}

bool gt__cuda_resident_flush(gt_cuda *cuda)
{
    gt_cuda_resident *r = cuda->resident;
    gt_cuda_slot *slot;
    if (!r || (!r->alive && r->published == r->pushed) || reserve(cuda, r, &slot) != GT_OK)
        return false;
    slot->kind = GT_CUDA_SLOT_NUMBER;
    return push(cuda, r, slot) == GT_OK && publish(cuda, r) == GT_OK;
}

void gt__cuda_resident_leave(gt_cuda *cuda)
{
    gt_cuda_resident *r = cuda->resident;
    gt_cuda_slot *slot;
    if (!r)
        return;
    if (!cuda->running.small)
        end_run(r);
    if (!r->alive && r->published == r->pushed)
        return;
    if (r->alive)
        judge_stay(r);
    if (publish(cuda, r) == GT_OK && !has_exited(r) && reserve(cuda, r, &slot) == GT_OK) {
        /* If it leaves by itself meanwhile, a later generation skips this. */
        slot->kind = GT_CUDA_SLOT_LEAVE;
        slot->generation = r->generation;
        r->published = ++r->pushed;
        __atomic_store_n(&r->board->head, r->pushed, __ATOMIC_RELEASE);
    }
    r->alive = false;
}

/* ---- opening and closing ------------------------------------------------------------------------------------------------ */

/* What GT_CUDA_RESIDENT says. Another value is reported once in a process. */
typedef enum residence { RESIDENT_SOMETIMES, RESIDENT_NEVER, RESIDENT_ALWAYS, RESIDENT_MODES } residence;

static residence residence_wanted(void)
{
    static const char *const names[] = {
        [RESIDENT_SOMETIMES] = "1", [RESIDENT_NEVER] = "0", [RESIDENT_ALWAYS] = "always"};
    static atomic_bool said;
    const char *text = getenv("GT_CUDA_RESIDENT");
    if (!text || !*text)
        return RESIDENT_SOMETIMES;
    for (residence mode = RESIDENT_SOMETIMES; mode < RESIDENT_MODES; mode++)
        if (strcmp(text, names[mode]) == 0)
            return mode;
    if (!atomic_exchange(&said, true))
        gt__log_error("GT_CUDA_RESIDENT=%.64s is not valid: expected 0, 1 or always; using the default", text);
    return RESIDENT_SOMETIMES;
}

gt_err gt__cuda_resident_open(gt_cuda *cuda)
{
    residence wanted = residence_wanted();
    if (wanted == RESIDENT_NEVER)
        return GT_OK;
    gt_cuda_resident *r = cuda->resident = calloc(1, sizeof *r);
    if (!r)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    r->cuda = cuda;
    r->card = cuda->card;
    r->card.processors = 1 << 20;
    r->need = LONG_RUN;
    r->always = wanted == RESIDENT_ALWAYS;
    gt_cuda_patience p = {0};
    while (r->always && !is_ready(cuda, r) && r->stage == MAKING)
        gt__cuda_wait_a_little(cuda, &p);
    return GT_OK;
}

void gt__cuda_resident_close(gt_cuda *cuda)
{
    gt_cuda_resident *r = cuda->resident;
    if (!r)
        return;
    if (r->stage == MAKING)
        pthread_join(r->maker, NULL);
    gt__log(GT_LOG_STATUS,
            "cuda: %llu small operations by %llu starts of the resident kernel; %llu were launched before it was "
            "ready, %llu in short runs, %llu while the card was busy",
            (unsigned long long)r->slots, (unsigned long long)r->starts, (unsigned long long)r->too_early,
            (unsigned long long)r->too_few, (unsigned long long)r->busy);
    if (r->module)
        cuda->driver->module_unload(r->module);
    if (r->ring)
        cuda->driver->host_free(r->ring);
    if (r->board)
        cuda->driver->host_free(r->board);
    if (r->stamps)
        cuda->driver->host_free(r->stamps);
    if (r->position)
        gt__cuda_heap_give(&cuda->heap, r->position);
    free(r->binary);
    free(r);
    cuda->resident = NULL;
}
