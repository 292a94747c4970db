/* frame.c: see frame.h. */
#include "dispatcher/journal/frame.h"

#include "core/crc32c.h"

/* The checksum of all before it is that of the first `fields` bytes. */
static uint32_t frame_crc(const gt_frame *frame)
{
    uint32_t crc = gt__crc32c(0, frame, offsetof(gt_frame, crc));
    return gt__crc32c(crc, frame + 1, gt__frame_size(frame->bytes) - sizeof *frame);
}

void gt__frame_seal(gt_frame *frame, uint64_t sequence)
{
    frame->sequence = sequence;
    frame->crc = frame_crc(frame);
}

const gt_frame *gt__frame_check(const void *at, size_t bytes, uint64_t sequence)
{
    const gt_frame *frame = at;
    bool whole = bytes >= sizeof *frame && gt__frame_size(frame->bytes) <= bytes;
    return whole && frame->sequence == sequence && frame->crc == frame_crc(frame) ? frame : NULL;
}

void gt__journal_header_make(gt_journal_header *header, uint64_t generation, uint64_t sequence, int port)
{
    *header = (gt_journal_header){.magic = GT_JOURNAL_MAGIC,
                                  .layout = GT_JOURNAL_LAYOUT,
                                  .protocol = GT_PROTOCOL_VERSION,
                                  .table_hash = gt__op_table_hash(),
                                  .generation = generation,
                                  .sequence = sequence,
                                  .port = (uint32_t)port};
    header->crc = gt__crc32c(0, header, offsetof(gt_journal_header, crc));
}

gt_err gt__journal_header_check(const gt_journal_header *header, const char *path, int port)
{
    static const char advice[] = "move the folder away, or start the server that wrote it";
    if (header->magic != GT_JOURNAL_MAGIC)
        return gt__fail(GT_ERR_VALUE, "%s is not a journal: it begins with %016llx, not %016llx", path,
                        (unsigned long long)header->magic, (unsigned long long)GT_JOURNAL_MAGIC);
    if (header->crc != gt__crc32c(0, header, offsetof(gt_journal_header, crc)))
        return gt__fail(GT_ERR_VALUE, "%s: the header of the journal is damaged; move the folder away", path);
    if (header->layout != GT_JOURNAL_LAYOUT)
        return gt__fail(GT_ERR_VALUE, "%s: the journal has layout %u, this server writes layout %d; %s", path,
                        header->layout, GT_JOURNAL_LAYOUT, advice);
    if (header->protocol != GT_PROTOCOL_VERSION)
        return gt__fail(GT_ERR_VALUE, "%s: the journal has protocol version %u, this server version %d; %s", path,
                        header->protocol, GT_PROTOCOL_VERSION, advice);
    if (header->table_hash != gt__op_table_hash())
        return gt__fail(GT_ERR_VALUE, "%s: the journal has op table %016llx, this server %016llx; %s", path,
                        (unsigned long long)header->table_hash, (unsigned long long)gt__op_table_hash(), advice);
    if (header->port != (uint32_t)port)
        return gt__fail(GT_ERR_VALUE,
                        "%s: the journal is of a server at port %u, this one is at port %d: its "
                        "clients would not find it; start it with -p %u",
                        path, header->port, port, header->port);
    return GT_OK;
}
