/*
 * queue.c: what is queued on the stream, and what of it is done.
 *
 * Every piece of work has a number, and the stream writes numbers into a counter in pinned memory as it passes them: not
 * each one, but the last before a flush, a wait or a number of calls. So reading the counter is all it takes to learn what
 * is done. Items add what a number cannot say: errors that a kernel wrote into its slot, failures, and times.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/log.h"
#include "engines/cuda/cuda.h"

enum {
    WRITE_EVERY = 32,      /* numbers between two writes of the counter, while nothing asks for one */
    SPINS = 64,            /* looks at the counter before the waiting thread yields */
    NAP_AFTER_NS = 200000, /* of waiting: sleep between looks */
    NAP_NS = 20000,
    QUERY_EVERY = 16, /* naps between questions whether the card still works */
};

static const uint64_t clock_life_ns = 10000000000u; /* elapsed times are floats, and clocks drift */

uint64_t gt__cuda_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- failures of the driver -------------------------------------------------------------------------------------- */

gt_err gt__cuda_fail(gt_cuda *cuda, int result, const char *what)
{
    char text[200];
    gt__cuda_result_text(cuda->driver, result, text, sizeof text);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return gt__fail(GT_ERR_MEMORY, "cuda: %s: %s", what, text);
    if (!gt__cuda_queue_check(cuda))
        return gt__fail(GT_ERR_INTERNAL, "%s", cuda->broken_text);
    return gt__fail(GT_ERR_INTERNAL, "cuda: %s: %s", what, text);
}

void gt__cuda_queue_break(gt_cuda *cuda, const char *why)
{
    if (cuda->broken)
        return;
    cuda->broken = true;
    snprintf(cuda->broken_text, sizeof cuda->broken_text,
             "the GPU %s failed: %s; this worker cannot compute any more", cuda->card_name, why);
    gt__log_error("%s", cuda->broken_text);
    gt__cuda_transfer_forget(cuda, 0);
    gt__cuda_comms_give_up(cuda);
}

bool gt__cuda_queue_check(gt_cuda *cuda)
{
    char text[160];
    bool ask = cuda->stream && !cuda->broken && !cuda->capturing;
    int result = ask ? cuda->driver->stream_query(cuda->stream) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        gt__cuda_queue_break(cuda, gt__cuda_result_text(cuda->driver, result, text, sizeof text));
    return !cuda->broken;
}

/* ---- numbers -------------------------------------------------------------------------------------------------------- */

gt_token gt__cuda_queue_done(const gt_cuda *cuda)
{
    gt_token done = __atomic_load_n(cuda->counter, __ATOMIC_ACQUIRE);
    uint8_t bytes[8];
    return __builtin_expect(cuda->mail > done, 0) && gt__cuda_resident_arrived(cuda, bytes) ? cuda->mail : done;
}

gt_cuda_item *gt__cuda_item_at(const gt_cuda *cuda, size_t k)
{
    return &cuda->items[(cuda->item_first + k) & (cuda->item_capacity - 1)];
}

gt_token gt__cuda_queue_number(gt_cuda *cuda)
{
    gt_token number = ++cuda->last;
    if (number - cuda->written >= WRITE_EVERY)
        gt__cuda_queue_flush(cuda);
    return number;
}

void gt__cuda_queue_give(gt_cuda *cuda, gt_token number, gt_token *token)
{
    for (; cuda->item_open; cuda->item_open--)
        gt__cuda_item_at(cuda, cuda->item_count - cuda->item_open)->token = number;
    *token = cuda->given = number;
}

void gt__cuda_queue_flush(gt_cuda *cuda)
{
    if (cuda->written == cuda->last || cuda->broken || cuda->capturing)
        return;
    gt__cuda_batch_flush(cuda);
    if (gt__cuda_resident_flush(cuda)) {
        cuda->written = cuda->last;
        return;
    }
    int result =
        cuda->driver->stream_write(cuda->stream, cuda->counter_address, cuda->last, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (result == CUDA_SUCCESS)
        cuda->written = cuda->last;
    else
        gt__cuda_queue_check(cuda);
}

void gt__cuda_wait_a_little(gt_cuda *cuda, gt_cuda_patience *p)
{
    if (p->turns++ < SPINS) {
        atomic_signal_fence(memory_order_seq_cst);
        return;
    }
    uint64_t now = gt__cuda_now_ns();
    if (!p->since_ns)
        p->since_ns = now;
    if (now - p->since_ns < NAP_AFTER_NS) {
        sched_yield();
        return;
    }
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    if (p->naps++ % QUERY_EVERY == 0) {
        gt__cuda_queue_check(cuda);
        gt__cuda_comms_look(cuda);
    }
}

gt_err gt__cuda_queue_wait(gt_cuda *cuda, gt_token token)
{
    gt_cuda_patience p = {0};
    while (gt__cuda_queue_done(cuda) < token && !cuda->broken) {
        if (cuda->written < token) /* again, if the driver refused it */
            gt__cuda_queue_flush(cuda);
        gt__cuda_wait_a_little(cuda, &p);
    }
    return cuda->broken ? gt__fail(GT_ERR_INTERNAL, "%s", cuda->broken_text) : GT_OK;
}

/* ---- items ----------------------------------------------------------------------------------------------------------- */

static gt_err item_new(gt_cuda *cuda, gt_cuda_item **item)
{
    if (cuda->item_count == cuda->item_capacity) {
        size_t capacity = cuda->item_capacity ? 2 * cuda->item_capacity : 256;
        gt_cuda_item *items = malloc(capacity * sizeof *items);
        if (!items)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        for (size_t k = 0; k < cuda->item_count; k++)
            items[k] = *gt__cuda_item_at(cuda, k);
        free(cuda->items);
        cuda->items = items;
        cuda->item_capacity = capacity;
        cuda->item_first = 0;
    }
    *item = gt__cuda_item_at(cuda, cuda->item_count++);
    **item = (gt_cuda_item){0};
    cuda->item_open++;
    return GT_OK;
}

static void mark_release(gt_cuda *cuda, gt_cuda_mark *mark)
{
    if (mark && --mark->references == 0) {
        mark->next = cuda->spare_marks;
        cuda->spare_marks = mark;
    }
}

/* The slots are a ring, and items release them in order. */
static void slot_release(gt_cuda *cuda, gt_cuda_item *item)
{
    if (!item->errors || item->keep_slot)
        return;
    cuda->error_first = (cuda->error_first + 1) % GT_CUDA_ERROR_SLOTS;
    cuda->error_count--;
}

static void item_clear(gt_cuda *cuda, gt_cuda_item *item)
{
    if (item->errors)
        *item->errors = (gt_cuda_errors){0};
    slot_release(cuda, item);
    mark_release(cuda, item->start);
    mark_release(cuda, item->end);
    free(item->text);
}

void gt__cuda_items_drop(gt_cuda *cuda)
{
    bool waited = false;
    for (; cuda->item_open; cuda->item_open--) {
        gt_cuda_item *item = gt__cuda_item_at(cuda, --cuda->item_count);
        if (item->errors && !waited) { /* kernels of the call's first part may still write there */
            gt__cuda_queue_wait(cuda, gt__cuda_queue_number(cuda));
            waited = true;
        }
        if (item->errors && !item->keep_slot) { /* the last of the ring */
            *item->errors = (gt_cuda_errors){0};
            item->errors = NULL;
            cuda->error_count--;
        }
        item_clear(cuda, item);
    }
}

/* Take an item's failure into `text`: that of the host, or what a kernel wrote. */
static gt_err item_failure(gt_cuda_item *item, char **text)
{
    gt_err err = item->err;
    if (err) {
        *text = item->text;
        item->text = NULL;
    } else if (item->errors && (err = gt__cuda_check(item->errors)) != GT_OK)
        *text = strdup(gt_error_text());
    return err;
}

static uint64_t time_of(gt_cuda *cuda, const gt_cuda_mark *mark)
{
    float ms = 0;
    cuda->driver->event_elapsed(&ms, cuda->base, mark->event);
    return cuda->base_ns + (uint64_t)((double)(ms > 0 ? ms : 0) * 1e6);
}

/* The card's clock of stamps against the host's. A stamp is seen after it was made, soon if the host waits for it: the least
 * difference is the best. Clocks drift, so it is found anew now and then. */
static void set_stamp_clock(gt_cuda *cuda, const gt_cuda_stamp *stamp, uint64_t now)
{
    int64_t offset = (int64_t)(now - stamp->end);
    if (offset < cuda->stamp_offset || now - cuda->stamp_since_ns > clock_life_ns) {
        cuda->stamp_offset = offset;
        cuda->stamp_since_ns = now;
    }
}

/* The item's work is done: when it started and ended, while its marks count from the present base, and its stamp is its own. */
static void measure(gt_cuda *cuda, gt_cuda_item *item)
{
    if (item->measured || (!item->start && !item->stamp))
        return;
    item->measured = true;
    if (item->stamp) {
        set_stamp_clock(cuda, item->stamp, gt__cuda_now_ns());
        item->start_ns = item->stamp->start + (uint64_t)cuda->stamp_offset;
        item->end_ns = item->stamp->end + (uint64_t)cuda->stamp_offset;
        cuda->stamp_tail = item->stamp_number + 1;
        return;
    }
    item->start_ns = time_of(cuda, item->start);
    item->end_ns = time_of(cuda, item->end);
    if (item->end_ns > item->start_ns)
        item->start_ns = item->end_ns - (uint64_t)((double)(item->end_ns - item->start_ns) * item->part);
}

static void item_times(gt_cuda *cuda, gt_cuda_item *item, gt_completion *completion)
{
    measure(cuda, item);
    uint64_t start = item->start_ns, end = item->end_ns, now = gt__cuda_now_ns();
    uint64_t least = item->queued_ns > cuda->last_end_ns ? item->queued_ns : cuda->last_end_ns;
    least = least < now ? least : now;
    start = start < least ? least : start > now ? now : start; /* the two clocks differ a little */
    end = end < start ? start : end > now ? now : end;
    cuda->last_end_ns = end;
    completion->start_ns = start;
    completion->end_ns = end;
}

/* Settle the items of the first token, which the stream has passed. True: they make a completion. */
static bool settle_first(gt_cuda *cuda, gt_completion *completion)
{
    gt_token token = gt__cuda_item_at(cuda, 0)->token;
    bool timed = false;
    *completion = (gt_completion){.token = token};
    while (cuda->item_count > cuda->item_open && gt__cuda_item_at(cuda, 0)->token == token) {
        gt_cuda_item *item = gt__cuda_item_at(cuda, 0);
        if (!completion->err) {
            completion->err = item_failure(item, &cuda->told);
            completion->text = completion->err ? (cuda->told ? cuda->told : "out of memory") : NULL;
            completion->step = item->step;
        }
        if (item->start || item->stamp) {
            item_times(cuda, item, completion);
            timed = true;
        }
        item_clear(cuda, item);
        cuda->item_first = (cuda->item_first + 1) & (cuda->item_capacity - 1);
        cuda->item_count--;
    }
    return completion->err || timed;
}

/* The slot of the oldest item that has one becomes free: wait for that work and keep what the kernel wrote. */
static gt_err free_slot(gt_cuda *cuda)
{
    gt_cuda_item *item = gt__cuda_item_at(cuda, 0);
    for (size_t k = 0; !item->errors || item->keep_slot; k++)
        item = gt__cuda_item_at(cuda, k);
    if (item->token == 0) /* of the call that is being queued */
        return gt__fail(GT_ERR_UNSUPPORTED, "more than %d steps that may fail", GT_CUDA_ERROR_SLOTS);
    GT_TRY(gt__cuda_queue_wait(cuda, item->token));
    item->err = item_failure(item, &item->text);
    *item->errors = (gt_cuda_errors){0};
    slot_release(cuda, item);
    item->errors = NULL;
    return GT_OK;
}

gt_err gt__cuda_item_errors(gt_cuda *cuda, unsigned step, CUdeviceptr *address)
{
    gt_cuda_item *item;
    if (cuda->recording) {
        *address = gt__cuda_recorded_slot(cuda, step);
        return GT_OK;
    }
    if (cuda->error_count == GT_CUDA_ERROR_SLOTS)
        GT_TRY(free_slot(cuda));
    GT_TRY(item_new(cuda, &item));
    unsigned slot = (cuda->error_first + cuda->error_count++) % GT_CUDA_ERROR_SLOTS;
    item->errors = &cuda->errors[slot];
    item->step = step;
    *address = cuda->errors_address + slot * sizeof(gt_cuda_errors);
    return GT_OK;
}

gt_err gt__cuda_item_comm(gt_cuda *cuda, struct gt_cuda_comm *comm, uint64_t tag)
{
    gt_cuda_item *item;
    GT_TRY(item_new(cuda, &item));
    item->comm = comm;
    item->tag = tag;
    return GT_OK;
}

gt_err gt__cuda_item_slot(gt_cuda *cuda, unsigned step, gt_cuda_errors *slot)
{
    gt_cuda_item *item;
    GT_TRY(item_new(cuda, &item));
    item->errors = slot;
    item->keep_slot = true;
    item->step = step;
    return GT_OK;
}

gt_err gt__cuda_items_collect(gt_cuda *cuda, gt_token token)
{
    gt_err waited = gt__cuda_queue_wait(cuda, token);
    for (size_t k = 0; k < cuda->item_count; k++) {
        gt_cuda_item *item = gt__cuda_item_at(cuda, k);
        if (item->token != token || !item->keep_slot || !item->errors)
            continue;
        if (waited == GT_OK) {
            item->err = item_failure(item, &item->text);
            *item->errors = (gt_cuda_errors){0};
        }
        item->errors = NULL;
    }
    return waited;
}

/* A new item with this failure and the text of the last one. */
static gt_err failed_item_new(gt_cuda *cuda, gt_err err, gt_cuda_item **item)
{
    char *text = strdup(gt_error_text());
    gt_err made = item_new(cuda, item);
    if (made != GT_OK) {
        free(text);
        return made;
    }
    (*item)->err = err;
    (*item)->text = text;
    return GT_OK;
}

gt_err gt__cuda_item_failed(gt_cuda *cuda, unsigned step, gt_err err)
{
    gt_cuda_item *item;
    GT_TRY(failed_item_new(cuda, err, &item));
    item->step = step;
    return GT_OK;
}

gt_err gt__cuda_item_failed_later(gt_cuda *cuda, gt_token token, gt_err err)
{
    gt_cuda_item *item;
    GT_TRY(failed_item_new(cuda, err, &item));
    gt_cuda_item failed = {.token = token, .err = err, .text = item->text};
    size_t place = cuda->item_count - cuda->item_open;
    for (size_t k = cuda->item_count - 1; k > place; k--)
        *gt__cuda_item_at(cuda, k) = *gt__cuda_item_at(cuda, k - 1);
    *gt__cuda_item_at(cuda, place) = failed;
    cuda->item_open--;
    return GT_OK;
}

/* ---- times ------------------------------------------------------------------------------------------------------------ */

gt_err gt__cuda_mark_here(gt_cuda *cuda, gt_cuda_mark **out)
{
    gt_cuda_mark *mark = cuda->spare_marks;
    if (mark)
        cuda->spare_marks = mark->next;
    else {
        mark = calloc(1, sizeof *mark);
        if (!mark)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        int result = cuda->driver->event_new(&mark->event, CU_EVENT_DEFAULT);
        if (result != CUDA_SUCCESS) {
            free(mark);
            return gt__cuda_fail(cuda, result, "an event");
        }
    }
    mark->references = 1;
    gt__cuda_settle(cuda);
    int result = cuda->driver->event_record(mark->event, cuda->stream);
    if (result != CUDA_SUCCESS) {
        mark_release(cuda, mark);
        return gt__cuda_fail(cuda, result, "an event");
    }
    *out = mark;
    return GT_OK;
}

/* Times are counted from the base, so what has used the old one is measured before. */
gt_err gt__cuda_clock_set(gt_cuda *cuda)
{
    if (cuda->base && (cuda->running.start || gt__cuda_now_ns() - cuda->base_ns < clock_life_ns))
        return GT_OK;
    if (!cuda->base)
        GT_CUDA_TRY(cuda, "an event", cuda->driver->event_new(&cuda->base, CU_EVENT_DEFAULT));
    gt__cuda_settle(cuda);
    GT_TRY(gt__cuda_queue_wait(cuda, gt__cuda_queue_number(cuda)));
    for (size_t k = 0; k < cuda->item_count; k++)
        measure(cuda, gt__cuda_item_at(cuda, k));
    GT_CUDA_TRY(cuda, "an event", cuda->driver->event_record(cuda->base, cuda->stream));
    GT_CUDA_TRY(cuda, "an event", cuda->driver->event_wait(cuda->base));
    cuda->base_ns = gt__cuda_now_ns();
    gt__cuda_mark_forget(cuda);
    return GT_OK;
}

void gt__cuda_mark_drop(gt_cuda *cuda)
{
    mark_release(cuda, cuda->last_mark);
    cuda->last_mark = NULL;
}

gt_err gt__cuda_item_start(gt_cuda *cuda, gt_cuda_mark **start)
{
    GT_TRY(gt__cuda_clock_set(cuda));
    if (cuda->last_mark) { /* nothing was queued since */
        *start = cuda->last_mark;
        cuda->last_mark = NULL;
        return GT_OK;
    }
    return gt__cuda_mark_here(cuda, start);
}

/* One stamp at least becomes free: the oldest is read, as soon as its work is done. */
static gt_err free_stamp(gt_cuda *cuda)
{
    const gt_cuda_item *oldest = gt__cuda_item_at(cuda, 0);
    for (size_t k = 1; !oldest->stamp || oldest->measured; k++)
        oldest = gt__cuda_item_at(cuda, k);
    cuda->stamp_tail = oldest->stamp_number; /* stamps before it were of calls that failed */
    if (cuda->stamp_head - cuda->stamp_tail < GT_CUDA_STAMPS)
        return GT_OK;
    gt_token done = oldest->token;
    GT_TRY(gt__cuda_queue_wait(cuda, done));
    for (size_t k = 0; gt__cuda_item_at(cuda, k)->token && gt__cuda_item_at(cuda, k)->token <= done; k++)
        measure(cuda, gt__cuda_item_at(cuda, k));
    return GT_OK;
}

gt_err gt__cuda_item_stamp(gt_cuda *cuda, const gt_cuda_timing *timing)
{
    gt_cuda_item *item;
    GT_TRY(item_new(cuda, &item));
    item->stamp = timing->stamp;
    item->stamp_number = timing->stamp_number;
    item->queued_ns = timing->queued_ns;
    return cuda->stamp_head - cuda->stamp_tail < GT_CUDA_STAMPS ? GT_OK : free_stamp(cuda);
}

gt_err gt__cuda_item_end(gt_cuda *cuda, gt_cuda_mark *start, double part, uint64_t queued_ns)
{
    gt_cuda_item *item;
    gt_cuda_mark *end = NULL;
    gt_err err = gt__cuda_mark_here(cuda, &end);
    if (err == GT_OK)
        err = item_new(cuda, &item);
    if (err != GT_OK) {
        mark_release(cuda, start);
        mark_release(cuda, end);
        return err;
    }
    item->start = start;
    item->end = end;
    item->part = part;
    item->queued_ns = queued_ns;
    end->references++;
    cuda->last_mark = end;
    return GT_OK;
}

/* ---- completions --------------------------------------------------------------------------------------------------------- */

/* The card is broken: everything that was queued has failed, one by one. */
static bool report_broken(gt_cuda *cuda, gt_completion *completion)
{
    if (cuda->known >= cuda->given)
        return false;
    *completion = (gt_completion){.token = ++cuda->known, .err = GT_ERR_INTERNAL, .text = cuda->broken_text};
    return true;
}

bool gt__cuda_queue_completed(gt_cuda *cuda, bool wait, gt_completion *completion)
{
    gt_cuda_patience p = {0};
    free(cuda->told);
    cuda->told = NULL;
    for (;;) {
        if (cuda->broken)
            return report_broken(cuda, completion);
        gt_token done = gt__cuda_queue_done(cuda);
        gt__cuda_transfer_drain(cuda, done);
        while (cuda->item_count > cuda->item_open && gt__cuda_item_at(cuda, 0)->token <= done)
            if (settle_first(cuda, completion)) {
                cuda->known = completion->token;
                return true;
            }
        done = done < cuda->given ? done : cuda->given;
        if (done > cuda->known) {
            cuda->known = done;
            *completion = (gt_completion){.token = done};
            return true;
        }
        if (cuda->given == cuda->known)
            return false;
        if (!wait) {
            gt__cuda_comms_look(cuda);
            return false;
        }
        gt__cuda_queue_flush(cuda);
        gt__cuda_wait_a_little(cuda, &p);
    }
}

/* ---- opening and closing --------------------------------------------------------------------------------------------------- */

gt_err gt__cuda_pinned(gt_cuda *cuda, size_t bytes, bool zero, void **memory, CUdeviceptr *address)
{
    GT_CUDA_TRY(cuda, "pinned memory",
                cuda->driver->host_alloc(memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    GT_CUDA_TRY(cuda, "pinned memory", cuda->driver->host_address(address, *memory, 0));
    if (zero)
        memset(*memory, 0, bytes);
    return GT_OK;
}

gt_err gt__cuda_queue_open(gt_cuda *cuda)
{
    GT_CUDA_TRY(cuda, "a stream", cuda->driver->stream_new(&cuda->stream, CU_STREAM_NON_BLOCKING));
    GT_TRY(gt__cuda_pinned(cuda, sizeof *cuda->counter, true, (void **)&cuda->counter, &cuda->counter_address));
    return gt__cuda_pinned(cuda, GT_CUDA_ERROR_SLOTS * sizeof *cuda->errors, true, (void **)&cuda->errors,
                           &cuda->errors_address);
}

void gt__cuda_queue_close(gt_cuda *cuda)
{
    if (cuda->stream && cuda->counter && gt__cuda_queue_wait(cuda, cuda->last) == GT_OK)
        gt__cuda_transfer_drain(cuda, cuda->last);
    cuda->item_open = 0;
    for (size_t k = 0; k < cuda->item_count; k++)
        item_clear(cuda, gt__cuda_item_at(cuda, k));
    mark_release(cuda, cuda->last_mark);
    for (gt_cuda_mark *mark = cuda->spare_marks, *next; mark; mark = next) {
        next = mark->next;
        cuda->driver->event_free(mark->event);
        free(mark);
    }
    if (cuda->base)
        cuda->driver->event_free(cuda->base);
    if (cuda->stream)
        cuda->driver->stream_free(cuda->stream);
    if (cuda->counter)
        cuda->driver->host_free(cuda->counter);
    if (cuda->errors)
        cuda->driver->host_free(cuda->errors);
    free(cuda->items);
    free(cuda->told);
}
