/*
 * fuzz/tape.c: tapes, read and replayed. The bytes are records; the target writes the tape around them, with checksums that are
 * right, since a wrong one ends the reading at once. An input whose size is odd is the file itself.
 */
#include "records.h"

#include "cli/replay/replay.h"

enum { CHECKED_FIELDS = offsetof(gt_tape_header, checksum) };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    return size % 2 ? LLVMFuzzerMutate(data, size, most) : records_mutate(data, size, most, seed);
}

static void entry_put(uint8_t *block, uint64_t *bytes, gt_tape_kind kind, uint64_t number, const gt_slot *slots,
                      uint32_t count)
{
    gt_tape_entry entry = {.kind = kind, .slots = count, .session = 1, .number = number};
    if (*bytes + sizeof entry + count * sizeof *slots > GT_TAPE_BLOCK)
        return;
    memcpy(block + *bytes, &entry, sizeof entry);
    *bytes += sizeof entry;
    if (count)
        memcpy(block + *bytes, slots, count * sizeof *slots);
    *bytes += count * sizeof *slots;
}

/* A tape of one block around the records. Returns its size. */
static size_t tape_write(gt_slot *slots, size_t count, uint8_t *tape)
{
    gt_tape_header header = {
        .magic = GT_TAPE_MAGIC, .version = GT_TAPE_VERSION, .table_hash = gt__op_table_hash()};
    gt_tape_block block = {.magic = GT_TAPE_BLOCK_MAGIC};
    uint8_t *entries = tape + sizeof header + sizeof block;
    uint64_t next = 1, number = 0;
    unsigned length;
    header.checksum = gt__tape_checksum(0, &header, CHECKED_FIELDS);
    entry_put(entries, &block.bytes, GT_TAPE_OPEN, 0, &(gt_slot){.bytes = "fuzz"}, 1);
    for (size_t at = 0; records_next(slots, count, &at, &length); at += length) {
        records_number(slots + at, &next);
        entry_put(entries, &block.bytes, GT_TAPE_RECORD, ++number, slots + at, length);
    }
    entry_put(entries, &block.bytes, GT_TAPE_CLOSE, number, NULL, 0);
    block.checksum = gt__tape_block_checksum(&block, entries);
    memcpy(tape, &header, sizeof header);
    memcpy(tape + sizeof header, &block, sizeof block);
    return sizeof header + sizeof block + block.bytes;
}

static void replay(const char *path)
{
    gt_tape *tape;
    gt_machine *machine;
    const gt_tape_entry *entry;
    const gt_slot *slots;
    gt_entry *result;
    if (gt__tape_open(path, &tape) != GT_OK)
        return;
    FUZZ_EXPECT(gt__machine_new("cpu", &machine) == GT_OK);
    machine->worker.store->limit = 16 << 20;
    while (gt__tape_next(tape, &entry, &slots) == GT_OK && entry)
        if (gt__machine_step(machine, entry, slots, &result) != GT_OK)
            break;
    gt__machine_free(&machine);
    gt__tape_close(&tape);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t tape[sizeof(gt_tape_header) + sizeof(gt_tape_block) + GT_TAPE_BLOCK];
    size_t count = size / sizeof(gt_slot);
    if (size % 2) {
        replay(fuzz_file(data, size));
        return 0;
    }
    gt_slot *slots = malloc((count + 1) * sizeof *slots);
    memcpy(slots, data, count * sizeof *slots);
    size = tape_write(slots, count, tape);
    free(slots);
    replay(fuzz_file(tape, size));
    return 0;
}
