/*
 * transfer.c: bytes between host memory and the card, through a ring of pinned memory.
 *
 * A transfer is cut into pieces, so that the host copies one piece while the card copies another. An upload is done with
 * the host's memory when it returns. A download's pieces lie in the ring until the stream has passed them and a drain
 * copies them out. Host memory that is pinned is used directly: memory that the worker pinned because clients use it
 * again, as their shared segments.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "engines/cuda/cuda.h"

enum {
    RING = 64 << 20,
    SMALLEST_PIECE = 1 << 20,
    LARGEST_PIECE = 16 << 20,
    DIRECT = 1 << 20,          /* bytes from which it pays to copy from pinned memory directly */
    SEVERAL_THREADS = 4 << 20, /* bytes from which several threads copy */
    ALIGNMENT = 256,
};

enum { UP, DOWN };

/* ---- pinned memory ---------------------------------------------------------------------------------------------- */

/* Memory that is pinned in this process: the driver pins a place once for all contexts, and workers may share it. */
typedef struct pinning {
    void *memory;
    unsigned references;
    struct pinning *next;
} pinning;

static pthread_mutex_t pinnings_mutex = PTHREAD_MUTEX_INITIALIZER;
static pinning *pinnings;

/* With the mutex: where the memory is, or would be, in the list. */
static pinning **find_pinning(const void *memory)
{
    pinning **where = &pinnings;
    while (*where && (*where)->memory != memory)
        where = &(*where)->next;
    return where;
}

static bool pin_in_process(gt_cuda *cuda, void *memory, size_t bytes)
{
    pthread_mutex_lock(&pinnings_mutex);
    pinning *p = *find_pinning(memory), *fresh = p ? NULL : malloc(sizeof *fresh);
    uint64_t began_ns = gt__cuda_now_ns();
    if (fresh && cuda->driver->host_register(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS) {
        *fresh = (pinning){.memory = memory, .next = pinnings};
        pinnings = p = fresh;
        gt__log(GT_LOG_STATUS, "cuda: pinned %zu MiB in %.1f ms", bytes >> 20,
                (double)(gt__cuda_now_ns() - began_ns) / 1e6);
    } else
        free(fresh);
    if (p)
        p->references++;
    pthread_mutex_unlock(&pinnings_mutex);
    return p != NULL;
}

static void unpin_in_process(gt_cuda *cuda, void *memory)
{
    pthread_mutex_lock(&pinnings_mutex);
    pinning **where = find_pinning(memory), *p = *where;
    if (p && --p->references == 0) {
        cuda->driver->host_unregister(memory);
        *where = p->next;
        free(p);
    }
    pthread_mutex_unlock(&pinnings_mutex);
}

bool gt__cuda_pin(gt_cuda *cuda, void *memory, size_t bytes)
{
    gt_cuda_pin_range *grown = realloc(cuda->pins, (cuda->pin_count + 1) * sizeof *grown);
    if (!grown)
        return false;
    cuda->pins = grown;
    gt__cuda_comms_wait(cuda);
    if (!pin_in_process(cuda, memory, bytes))
        return false;
    grown[cuda->pin_count++] = (gt_cuda_pin_range){.memory = memory, .bytes = bytes};
    return true;
}

void gt__cuda_unpin(gt_cuda *cuda, void *memory)
{
    gt__cuda_comms_wait(cuda);
    for (unsigned k = 0; k < cuda->pin_count; k++)
        if (cuda->pins[k].memory == memory) {
            cuda->pins[k] = cuda->pins[--cuda->pin_count];
            unpin_in_process(cuda, memory);
            return;
        }
}

/* Whether this worker has pinned the memory. Another worker's pin does not count: it may end while a copy is queued here. */
static bool is_pinned(const gt_cuda *cuda, const void *host, size_t bytes)
{
    const uint8_t *begin = host;
    for (unsigned k = 0; bytes >= DIRECT && k < cuda->pin_count; k++) {
        const gt_cuda_pin_range *pin = &cuda->pins[k];
        if (begin >= pin->memory && bytes <= pin->bytes && (size_t)(begin - pin->memory) <= pin->bytes - bytes)
            return true;
    }
    return false;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------- */

gt_err gt__cuda_transfer_open(gt_cuda *cuda)
{
    return gt__cuda_pinned(cuda, RING, false, (void **)&cuda->ring, &cuda->ring_address);
}

void gt__cuda_transfer_close(gt_cuda *cuda)
{
    if (cuda->ring)
        cuda->driver->host_free(cuda->ring);
    free(cuda->pins);
}

void gt__cuda_transfer_report(const gt_cuda *cuda)
{
    static const char *const names[] = {[UP] = "to", [DOWN] = "from"};
    for (int k = UP; k <= DOWN; k++) {
        const gt_cuda_traffic *t = &cuda->traffic[k];
        if (t->direct_bytes + t->staged_bytes >= DIRECT)
            gt__log(GT_LOG_STATUS,
                    "cuda: %s the card: %llu MiB directly, %llu MiB through pinned memory, which took the host "
                    "%.1f ms "
                    "and %.1f ms of waiting",
                    names[k], (unsigned long long)t->direct_bytes >> 20, (unsigned long long)t->staged_bytes >> 20,
                    (double)t->staged_ns / 1e6, (double)t->waited_ns / 1e6);
    }
}

static void copy_on_host(gt_cuda *cuda, int way, void *to, const void *from, size_t bytes)
{
    bool several = bytes >= SEVERAL_THREADS;
    uint64_t began_ns = several ? gt__cuda_now_ns() : 0;
    if (!several || cuda->host->ops->write(cuda->host, to, from, bytes, false, &(gt_token){0}) != GT_OK)
        memcpy(to, from, bytes);
    cuda->traffic[way].staged_bytes += bytes;
    cuda->traffic[way].staged_ns += several ? gt__cuda_now_ns() - began_ns : 0;
}

/* The card has passed it, so it is here, or about to be. */
static void open_mail(gt_cuda *cuda, const gt_cuda_piece *piece)
{
    uint8_t bytes[8];
    gt_cuda_patience p = {0};
    while (!gt__cuda_resident_arrived(cuda, bytes) && !cuda->broken)
        gt__cuda_wait_a_little(cuda, &p);
    if (piece->host && !cuda->broken)
        memcpy(piece->host, bytes, piece->bytes);
    cuda->mail = 0;
}

void gt__cuda_transfer_drain(gt_cuda *cuda, gt_token done)
{
    while (cuda->piece_count && cuda->pieces[cuda->piece_first].token <= done) {
        const gt_cuda_piece *piece = &cuda->pieces[cuda->piece_first];
        if (cuda->mail && piece->token == cuda->mail)
            open_mail(cuda, piece);
        else if (piece->host)
            copy_on_host(cuda, DOWN, piece->host, piece->staged, piece->bytes);
        cuda->ring_tail = piece->ring_end;
        cuda->piece_first = (cuda->piece_first + 1) % GT_CUDA_PIECES;
        cuda->piece_count--;
    }
}

void gt__cuda_transfer_forget(gt_cuda *cuda, gt_token since)
{
    for (unsigned k = 0; k < cuda->piece_count; k++) {
        gt_cuda_piece *piece = &cuda->pieces[(cuda->piece_first + k) % GT_CUDA_PIECES];
        if (piece->token > since)
            piece->host = NULL;
    }
}

static gt_err drain_first(gt_cuda *cuda)
{
    gt_token token = cuda->pieces[cuda->piece_first].token;
    GT_TRY(gt__cuda_queue_wait(cuda, token));
    gt__cuda_transfer_drain(cuda, token);
    return GT_OK;
}

/* Room for a piece in the ring, which ends at *end. */
static gt_err reserve(gt_cuda *cuda, int way, size_t bytes, uint8_t **room, uint64_t *end)
{
    for (;;) {
        if (!cuda->piece_count)
            cuda->ring_head = cuda->ring_tail = 0;
        uint64_t start = (cuda->ring_head + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (start % RING + bytes > RING) /* it would wrap */
            start = (start / RING + 1) * RING;
        if (cuda->piece_count < GT_CUDA_PIECES && start + bytes - cuda->ring_tail <= RING) {
            *room = cuda->ring + start % RING;
            *end = start + bytes;
            return GT_OK;
        }
        uint64_t began_ns = gt__cuda_now_ns();
        gt_err err = drain_first(cuda);
        cuda->traffic[way].waited_ns += gt__cuda_now_ns() - began_ns;
        GT_TRY(err);
    }
}

/* A piece was queued: it has its place until its number is passed. */
static gt_token add_piece(gt_cuda *cuda, void *host, const uint8_t *staged, size_t bytes, uint64_t end)
{
    gt_token number = gt__cuda_queue_number(cuda);
    cuda->pieces[(cuda->piece_first + cuda->piece_count++) % GT_CUDA_PIECES] =
        (gt_cuda_piece){.token = number, .host = host, .staged = staged, .bytes = bytes, .ring_end = end};
    cuda->ring_head = end;
    return number;
}

static size_t piece_size(size_t bytes)
{
    size_t piece = (bytes / 4 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return piece < SMALLEST_PIECE ? SMALLEST_PIECE : piece > LARGEST_PIECE ? LARGEST_PIECE : piece;
}

/* By the resident kernel if that takes it, else by the driver. */
static gt_err copy_piece(gt_cuda *cuda, int way, CUdeviceptr card, uint8_t *room, size_t bytes)
{
    CUdeviceptr staged = cuda->ring_address + (CUdeviceptr)(room - cuda->ring);
    gt_err err =
        gt__cuda_resident_copy(cuda, way == UP ? card : staged, way == UP ? staged : card, bytes, way == DOWN);
    if (err != GT_ERR_UNSUPPORTED)
        return err;
    gt__cuda_launching(cuda);
    if (way == UP)
        GT_CUDA_TRY(cuda, "upload", cuda->driver->copy_to_device(card, room, bytes, cuda->stream));
    else
        GT_CUDA_TRY(cuda, "download", cuda->driver->copy_to_host(room, card, bytes, cuda->stream));
    return GT_OK;
}

gt_err gt__cuda_upload(gt_cuda *cuda, CUdeviceptr to, const void *host, size_t bytes, gt_token *number)
{
    const uint8_t *from = host;
    if (is_pinned(cuda, host, bytes)) {
        gt__cuda_launching(cuda);
        GT_CUDA_TRY(cuda, "upload", cuda->driver->copy_to_device(to, host, bytes, cuda->stream));
        *number = gt__cuda_queue_number(cuda);
        cuda->traffic[UP].direct_bytes += bytes;
        return GT_OK;
    }
    gt_err err = bytes ? gt__cuda_resident_put(cuda, to, host, bytes) : GT_OK;
    if (err == GT_OK && bytes)
        *number = gt__cuda_queue_number(cuda);
    if (err != GT_ERR_UNSUPPORTED)
        return err;
    for (size_t at = 0, size = piece_size(bytes), part; at < bytes; at += part) {
        uint8_t *room;
        uint64_t end;
        part = bytes - at < size ? bytes - at : size;
        GT_TRY(reserve(cuda, UP, part, &room, &end));
        copy_on_host(cuda, UP, room, from + at, part);
        GT_TRY(copy_piece(cuda, UP, to + at, room, part));
        *number = add_piece(cuda, NULL, room, part, end);
        if (bytes > size) /* so that its place is free as soon as possible */
            gt__cuda_queue_flush(cuda);
    }
    return GT_OK;
}

gt_err gt__cuda_download(gt_cuda *cuda, CUdeviceptr from, void *host, size_t bytes, gt_token *number)
{
    uint8_t *to = host;
    if (is_pinned(cuda, host, bytes)) {
        gt__cuda_launching(cuda);
        GT_CUDA_TRY(cuda, "download", cuda->driver->copy_to_host(host, from, bytes, cuda->stream));
        *number = gt__cuda_queue_number(cuda);
        cuda->traffic[DOWN].direct_bytes += bytes;
        return GT_OK;
    }
    gt_err err = cuda->piece_count ? GT_ERR_UNSUPPORTED : gt__cuda_resident_mail(cuda, from, bytes);
    if (err != GT_ERR_UNSUPPORTED) {
        *number = err ? 0 : add_piece(cuda, host, NULL, bytes, cuda->ring_head);
        return err;
    }
    for (size_t at = 0, size = piece_size(bytes), part; at < bytes; at += part) {
        uint8_t *room;
        uint64_t end;
        part = bytes - at < size ? bytes - at : size;
        GT_TRY(reserve(cuda, DOWN, part, &room, &end));
        GT_TRY(copy_piece(cuda, DOWN, from + at, room, part));
        *number = add_piece(cuda, to + at, room, part, end);
        if (bytes > size)
            gt__cuda_queue_flush(cuda);
    }
    return GT_OK;
}
