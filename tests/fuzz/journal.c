/*
 * fuzz/journal.c: journals of the dispatcher. The target writes the header, and gives each frame its number, a length that fits and its
 * checksum, since a wrong one ends the reading at once. An input whose size is odd is the file itself.
 */
#include "fuzz.h"

#include "dispatcher/journal/restored.h"

enum { PORT = 1 };

/* Make the bytes a journal; returns its size. */
static size_t repair(uint8_t *file, size_t size)
{
    size_t at = sizeof(gt_journal_header);
    if (size < at)
        return size;
    gt__journal_header_make((gt_journal_header *)file, 1, 1, PORT);
    for (uint64_t sequence = 1; size - at >= sizeof(gt_frame); sequence++) {
        gt_frame *frame = (gt_frame *)(file + at);
        size_t most = (size - at - sizeof *frame) / 8 * 8;
        frame->bytes = frame->bytes < most ? frame->bytes : (uint32_t)most;
        gt__frame_seal(frame, sequence);
        at += gt__frame_size(frame->bytes);
    }
    return at;
}

static uint64_t sum_tensor(const gt_saved *saved)
{
    uint64_t sum = saved->id;
    char text[256];
    for (unsigned k = 0; k < saved->part_count; k++) {
        const gt_saved_part *part = &saved->part[k];
        const uint8_t *data = part->failure ? part->failure->bytes : part->data;
        size_t bytes =
            part->failure ? (1u + part->failure->ins.tail) * sizeof *part->failure : gt__meta_bytes(&part->meta);
        for (size_t at = 0; at < bytes; at++)
            sum = sum * 31 + data[at];
    }
    for (unsigned k = 0; k < saved->copy_count; k++)
        sum = sum * 31 + (uint64_t)saved->copies[k];
    if (saved->layout)
        gt__layout_text(saved->layout, text, sizeof text);
    return sum;
}

/* Of all that a server would read; all must be there. */
static uint64_t sum_session(const gt_restored_session *session)
{
    uint64_t sum = session->number + session->consumed;
    size_t at = 0;
    for (; at < session->slots; at += 1u + session->records[at].ins.tail)
        sum = sum * 31 + session->records[at].ins.result;
    FUZZ_EXPECT(at == session->slots);
    for (at = 0; at < session->state.end; at += 1u + session->state.slots[at].ins.tail)
        sum = sum * 31 + session->state.slots[at].ins.op;
    FUZZ_EXPECT(at == session->state.end);
    for (uint32_t k = 0; k < session->refusal_count; k++)
        sum = sum * 31 + session->refusals[k].id;
    for (uint32_t k = 0; k < session->sites.count; k++)
        sum = sum * 31 + strlen(session->sites.text[k]);
    for (uint32_t k = 0; k < session->worker_count; k++)
        sum = sum * 31 + (uint64_t)session->workers[k];
    for (unsigned k = 0; k < session->successors.count; k++)
        sum =
            sum * 31 + (uint64_t)session->successors.list[k].number + (uint64_t)session->successors.list[k].worker;
    FUZZ_EXPECT(strlen(session->token) < sizeof session->token && session->parcel_bytes <= GT_MOST_PARCEL);
    FUZZ_EXPECT(session->parcel_kept <= session->parcel_bytes / sizeof(uint64_t));
    for (uint64_t k = 0; k < session->parcel_bytes; k++)
        sum = sum * 31 + session->parcel[k];
    for (uint32_t k = 0; session->saved && k < session->saved->count; k++)
        sum = sum * 31 + sum_tensor(session->saved->tensor[k]);
    return sum;
}

/* *good: where the journal ends. */
static uint64_t read_all(const void *file, size_t size, size_t *good)
{
    gt_restored *restored;
    uint64_t sum = 0;
    *good = 0;
    if (gt__restored_parse(file, size, PORT, good, &restored) == GT_OK)
        for (uint32_t k = 0; k < restored->session_count; k++)
            sum = sum * 31 + sum_session(restored->session[k]);
    gt__restored_free(&restored);
    FUZZ_EXPECT(*good <= size);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *file = malloc(size ? size : 1);
    size_t good, again;
    FUZZ_EXPECT(file);
    memcpy(file, data, size);
    uint64_t sum = read_all(file, size % 2 ? size : repair(file, size), &good);
    FUZZ_EXPECT(read_all(file, good, &again) == sum && again == good); /* as after the cut */
    free(file);
    return 0;
}
