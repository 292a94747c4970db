/* tape_writer.c: see tape_writer.h. Entries collect in a block, which is written when it is full and when the loop goes to
 * sleep. */
#include "dispatcher/observe/tape_writer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dispatcher/session.h"
#include "dispatcher/observe/file_writer.h"

struct gt_tape_writer {
    gt_file_writer *file;
    uint64_t blocks, records;
    uint64_t first_session; /* those with smaller numbers are left out */
    size_t used;            /* bytes of entries */
    uint8_t entries[GT_TAPE_BLOCK];
};

static void write_block(gt_tape_writer *writer)
{
    gt_tape_block block = {.magic = GT_TAPE_BLOCK_MAGIC, .number = writer->blocks, .bytes = writer->used};
    block.checksum = gt__tape_block_checksum(&block, writer->entries);
    char *to = gt__file_reserve(writer->file, sizeof block + writer->used);
    if (to) {
        memcpy(to, &block, sizeof block);
        memcpy(to + sizeof block, writer->entries, writer->used);
        gt__file_commit(writer->file, sizeof block + writer->used);
    }
    writer->blocks++;
    writer->used = 0;
}

/* Room for an entry's slots, its head written. */
static gt_slot *entry_new(gt_tape_writer *writer, gt_tape_kind kind, uint64_t session, uint64_t line,
                          unsigned slots)
{
    gt_tape_entry entry = {.kind = kind, .slots = slots, .session = session, .line = line};
    if (writer->used + sizeof entry + slots * sizeof(gt_slot) > sizeof writer->entries)
        write_block(writer);
    entry.number = writer->records += kind == GT_TAPE_RECORD;
    memcpy(writer->entries + writer->used, &entry, sizeof entry);
    uint8_t *at = writer->entries + writer->used + sizeof entry;
    writer->used += sizeof entry + slots * sizeof(gt_slot);
    return (gt_slot *)(void *)at; /* only copied to */
}

/* An upload whose bytes are in a segment of the client, as records with its bytes. */
static void write_upload(gt_tape_writer *writer, const gt_session *session, uint64_t line, const gt_slot *upload)
{
    const gt_segment *segment = gt__relay_segment(session, upload);
    gt_slot piece[1 + GT_MAX_TAIL];
    for (uint64_t offset = 0; segment && offset < upload->ins.imm[0].u;) {
        offset = gt__relay_piece(segment, upload, offset, piece);
        if (!offset)
            return;
        unsigned length = 1u + piece->ins.tail;
        memcpy(entry_new(writer, GT_TAPE_RECORD, session->number, line, length), piece, length * sizeof *piece);
    }
}

static gt_tape_kind kind_of(gt_opcode op)
{
    bool does =
        op < GT_OP_FIRST_CONTROL || op == GT_OP_data || op == GT_OP_free || op == GT_OP_fetch || op == GT_OP_sync;
    return does ? GT_TAPE_RECORD : GT_TAPE_NOTE;
}

void gt__tape_writer_record(gt_tape_writer *writer, const gt_session *session, uint64_t line,
                            const gt_slot *record)
{
    gt_opcode op = (gt_opcode)record->ins.op;
    unsigned length = 1u + record->ins.tail;
    if (op == GT_OP_stats || op == GT_OP_forget || op == GT_OP_goodbye || op == GT_OP_share ||
        op == GT_OP_detach || op == GT_OP_attach || session->number < writer->first_session)
        return; /* not needed for a replay */
    if (op == GT_OP_upload && record->ins.imm[1].u)
        write_upload(writer, session, line, record);
    else
        memcpy(entry_new(writer, kind_of(op), session->number, line, length), record, length * sizeof *record);
}

void gt__tape_writer_client(gt_tape_writer *writer, const gt_session *session, bool left)
{
    gt_slot name = {0};
    if (session->number < writer->first_session)
        return;
    if (left) {
        entry_new(writer, GT_TAPE_CLOSE, session->number, 0, 0);
        return;
    }
    memcpy(name.bytes, session->name, strnlen(session->name, sizeof name.bytes - 1));
    memcpy(entry_new(writer, GT_TAPE_OPEN, session->number, 0, 1), &name, sizeof name);
}

void gt__tape_writer_from(gt_tape_writer *writer, uint64_t session)
{
    writer->first_session = session;
}

bool gt__tape_writer_failed(const gt_tape_writer *writer)
{
    return gt__file_failed(writer->file);
}

void gt__tape_writer_flush(gt_tape_writer *writer)
{
    if (writer->used)
        write_block(writer);
    gt__file_flush(writer->file);
}

gt_err gt__tape_writer_new(const char *path, unsigned keep, gt_tape_writer **out)
{
    gt_tape_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_file_options options = {
        .path = path, .what = "tape", .exclusive = true, .keep = keep, .keep_old = keep > 0};
    gt_err err = gt__file_open(&options, &writer->file);
    if (err != GT_OK) {
        free(writer);
        return err;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    gt_tape_header header = {
        .magic = GT_TAPE_MAGIC, .version = GT_TAPE_VERSION, .table_hash = gt__op_table_hash()};
    header.wall_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    header.checksum = gt__tape_checksum(0, &header, offsetof(gt_tape_header, checksum));
    char *to = gt__file_reserve(writer->file, sizeof header);
    if (to) {
        memcpy(to, &header, sizeof header);
        gt__file_commit(writer->file, sizeof header);
    }
    *out = writer;
    return GT_OK;
}

void gt__tape_writer_free(gt_tape_writer **where)
{
    gt_tape_writer *writer = *where;
    *where = NULL;
    if (!writer)
        return;
    gt__tape_writer_flush(writer);
    gt__file_close(&writer->file);
    free(writer);
}
