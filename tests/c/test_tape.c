/*
 * test_tape.c: tapes that are whole, cut short, damaged, and made by an enemy who knows the checksum. Whatever the file,
 * reading ends with what came before the damage and says where it is; replaying it never does more than fail.
 */
#include <stdlib.h>
#include <unistd.h>

#include "client_fixture.h"
#include "link/link.h"
#include "random_numbers.h"
#include "cli/replay/replay.h"
#include "core/tape.h"

static char path[64];
static uint8_t *original;
static size_t original_bytes;
static uint64_t original_records;

/* ---- files -------------------------------------------------------------------------------------------------- */

static void write_file(const uint8_t *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(data, 1, bytes, file) == bytes);
    if (file)
        fclose(file);
}

static void read_file(void)
{
    FILE *file = fopen(path, "rb");
    if (!CHECK(file != NULL))
        abort();
    fseek(file, 0, SEEK_END);
    original_bytes = (size_t)ftell(file);
    rewind(file);
    original = malloc(original_bytes);
    CHECK_EQ(fread(original, 1, original_bytes, file), original_bytes);
    fclose(file);
}

/* A program worth recording: uploads small and large, ops of several forms, frees, a failure. */
static void record(void)
{
    setenv("GT_TAPE", path, 1);
    gt_client *client = open_client(1);
    unsetenv("GT_TAPE");
    gt_tensor *a = two_rows(client), *big = NULL, *sum = NULL, *index = NULL, *wrong = NULL;
    float *values = malloc(100000 * sizeof *values);
    for (int k = 0; k < 100000; k++)
        values[k] = (float)k;
    OK(gt_from_data(client, GT_FLOAT32, SHAPE(100000), values, &big));
    OK(gt_sum(big, 0, false, &sum));
    index = computed_index(client, 1, (int64_t[]){9});
    OK(gt_take(a, index, 0, &wrong));
    float total;
    OK(gt_fetch(sum, &total, sizeof total));
    CHECK(total > 4.9e9f && total < 5.1e9f);
    for (int k = 0; k < 50; k++) {
        gt_tensor *next = NULL;
        OK(gt_mul(a, a, &next));
        gt_tensor_release(a);
        a = next;
    }
    OK(gt_synchronize(client));
    gt_tensor *const all[] = {a, big, sum, index, wrong};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        gt_tensor_release(all[k]);
    free(values);
    gt_client_close(&client);
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

/* Records until the end or the damage; with a machine, executed too. */
static gt_err read_all(gt_machine *machine, uint64_t *records)
{
    gt_tape *tape = NULL;
    *records = 0;
    gt_err err = gt__tape_open(path, &tape);
    while (err == GT_OK) {
        const gt_tape_entry *entry;
        const gt_slot *slots;
        err = gt__tape_next(tape, &entry, &slots);
        if (err != GT_OK || !entry)
            break;
        gt_entry *result;
        *records += entry->kind == GT_TAPE_RECORD;
        if (machine && gt__machine_step(machine, entry, slots, &result) != GT_OK)
            break;
    }
    gt__tape_close(&tape);
    return err;
}

static void test_whole(const void *argument)
{
    (void)argument;
    gt_machine *machine = NULL;
    uint64_t records;
    if (!OK(gt__machine_new("cpu", &machine)))
        return;
    write_file(original, original_bytes);
    OK(read_all(machine, &records));
    CHECK_EQ(records, original_records);
    CHECK(records > 100000 * sizeof(float) / GT_MAX_CHUNK); /* the large upload is there, in pieces */
    gt__machine_free(&machine);
}

static void test_cut_short(const void *argument)
{
    (void)argument;
    uint64_t records, before = 0;
    for (size_t bytes = 0; bytes < original_bytes; bytes += bytes < 4096 ? 1 : 997) {
        write_file(original, bytes);
        gt_err err = read_all(NULL, &records);
        if (bytes < sizeof(gt_tape_header))
            CHECK_EQ(err, GT_ERR_VALUE);
        else if (err != GT_OK) /* between two blocks it only seems shorter */
            CHECK(err == GT_ERR_PROTOCOL && strstr(gt_error_text(), "the tape is damaged at byte ") &&
                  strstr(gt_error_text(), "it ends in the middle of a block"));
        CHECK(records >= before && records <= original_records);
        before = records;
    }
}

static void test_damaged(const void *argument)
{
    (void)argument;
    uint8_t *copy = malloc(original_bytes);
    for (size_t at = 0; at < original_bytes; at += at < 2048 ? 1 : 1009) {
        uint64_t records;
        memcpy(copy, original, original_bytes);
        copy[at] ^= (uint8_t)(1 << at % 8);
        write_file(copy, original_bytes);
        gt_err err = read_all(NULL, &records);
        if (!CHECK_EQ(err, at < sizeof(gt_tape_header) ? GT_ERR_VALUE : GT_ERR_PROTOCOL))
            fprintf(stderr, "  byte %zu\n", at);
        CHECK(records < original_records);
    }
    free(copy);
}

/* Bytes changed at random and the checksums made right again: everything is possible, nothing may break. */
static void test_forged(const void *argument)
{
    (void)argument;
    uint8_t *copy = malloc(original_bytes);
    numbers random = {.state = 1};
    for (int round = 0; round < 400; round++) {
        memcpy(copy, original, original_bytes);
        for (unsigned changes = 1 + (unsigned)numbers_below(&random, 8); changes; changes--) {
            size_t at = sizeof(gt_tape_header) + numbers_below(&random, original_bytes - sizeof(gt_tape_header));
            if (numbers_below(&random, 2))
                at = sizeof(gt_tape_header) + at % 4096; /* where the records are not mere numbers */
            copy[at] = (uint8_t)numbers_below(&random, 256);
        }
        for (size_t at = sizeof(gt_tape_header); at + sizeof(gt_tape_block) <= original_bytes;) {
            gt_tape_block block;
            memcpy(&block, original + at, sizeof block); /* the true head */
            block.checksum = gt__tape_block_checksum(&block, copy + at + sizeof block);
            memcpy(copy + at, &block, sizeof block);
            at += sizeof block + block.bytes;
        }
        write_file(copy, original_bytes);
        gt_machine *machine = NULL;
        uint64_t records;
        if (!OK(gt__machine_new("cpu", &machine)))
            break;
        gt_err err = read_all(machine, &records);
        CHECK(err == GT_OK || err == GT_ERR_PROTOCOL);
        gt__machine_free(&machine);
    }
    free(copy);
}

/* What a tape calls its places is printed: it must not speak to the terminal. */
static void test_places_are_only_text(const void *unused)
{
    (void)unused;
    gt_machine *machine = NULL;
    gt_entry *result;
    gt_slot place[1 + GT_SITE_TAIL] = {0};
    OK(gt__machine_new("reference", &machine));
    gt_tape_entry entry = {.kind = GT_TAPE_OPEN, .slots = 1, .session = 7};
    OK(gt__machine_step(machine, &entry, place, &result));
    entry = (gt_tape_entry){.kind = GT_TAPE_NOTE, .slots = 1 + GT_SITE_TAIL, .session = 7};
    place->ins = (gt_instruction){.op = GT_OP_site, .tail = GT_SITE_TAIL};
    strcpy((char *)place[1].bytes, "/home/\033]0;me\007/a b.py:1\n");
    OK(gt__machine_step(machine, &entry, place, &result));
    memset(place + 1, 127, GT_SITE_TAIL * sizeof *place); /* no end */
    OK(gt__machine_step(machine, &entry, place, &result));
    CHECK(strcmp(gt__machine_site(machine, 7, 1), "/home/?]0;me?/a b.py:1?") == 0);
    CHECK_EQ(strspn(gt__machine_site(machine, 7, 2), "?"), GT_SITE_TAIL * sizeof *place);
    CHECK(gt__machine_site(machine, 7, 3) == NULL && gt__machine_site(machine, 8, 1) == NULL);
    gt__machine_free(&machine);
}

/* A tape of before records had names. */
static void test_older_table(const void *unused)
{
    (void)unused;
    gt_tape_header header;
    memcpy(&header, original, sizeof header);
    header.table_hash = gt__op_table_hash_below(GT_OP_name);
    header.checksum = gt__tape_checksum(0, &header, offsetof(gt_tape_header, checksum));
    uint8_t *copy = malloc(original_bytes);
    memcpy(copy, original, original_bytes);
    memcpy(copy, &header, sizeof header);
    write_file(copy, original_bytes);
    uint64_t records;
    OK(read_all(NULL, &records));
    CHECK_EQ(records, original_records);
    header.table_hash ^= 1;
    header.checksum = gt__tape_checksum(0, &header, offsetof(gt_tape_header, checksum));
    memcpy(copy, &header, sizeof header);
    write_file(copy, original_bytes);
    CHECK_EQ(read_all(NULL, &records), GT_ERR_VALUE);
    free(copy);
}

static void step_name(gt_machine *machine, uint64_t id, bool again, const char *text)
{
    gt_entry *result;
    gt_slot name[1 + GT_NAME_SLOTS] = {0};
    gt_tape_entry entry = {.kind = GT_TAPE_NOTE, .slots = 1 + GT_NAME_SLOTS, .session = 7};
    name->ins = (gt_instruction){.op = GT_OP_name, .tail = GT_NAME_SLOTS, .operand = {id}, .imm = {{.u = again}}};
    memcpy(name + 1, text, strlen(text));
    OK(gt__machine_step(machine, &entry, name, &result));
}

/* a + 1 as tensor `id`. */
static void step_add(gt_machine *machine, uint64_t id, uint64_t a, uint8_t flags)
{
    gt_entry *result;
    gt_slot add = {.ins = {.op = GT_OP_add, .flags = flags, .result = id, .operand = {a}}};
    gt_tape_entry entry = {.kind = GT_TAPE_RECORD, .slots = 1, .session = 7};
    add.ins.literals = GT_LITERAL_FLOAT << 2;
    add.ins.literal[1].f = 1;
    OK(gt__machine_step(machine, &entry, &add, &result));
}

static const char *name_of(const gt_machine *machine, uint64_t id)
{
    const gt_handle *handle = gt__handles_find(&machine->clients->handles, id);
    return handle ? gt__machine_name_text(machine, 7, gt__machine_name(machine, handle->slot)) : NULL;
}

static void test_names_of_tensors(const void *unused)
{
    (void)unused;
    gt_machine *machine = NULL;
    gt_entry *result;
    gt_slot slots[2] = {0};
    OK(gt__machine_new("reference", &machine));
    gt_tape_entry entry = {.kind = GT_TAPE_OPEN, .slots = 1, .session = 7};
    OK(gt__machine_step(machine, &entry, slots, &result));
    entry = (gt_tape_entry){.kind = GT_TAPE_RECORD, .slots = 2, .session = 7};
    slots->ins = (gt_instruction){.op = GT_OP_full, .dtype = GT_FLOAT32, .rank = 1, .tail = 1, .result = 1};
    slots[1].i64[0] = 3;
    OK(gt__machine_step(machine, &entry, slots, &result));
    CHECK(!name_of(machine, 1));
    step_name(machine, 1, false, "layer\0332\n");
    step_name(machine, 99, false, "of no tensor");
    CHECK(name_of(machine, 1) && strcmp(name_of(machine, 1), "layer?2?") == 0);
    step_add(machine, 2, 1, 0); /* computed from it, but another tensor */
    step_add(machine, 3, 1, GT_FLAG_UPDATES);
    CHECK(!name_of(machine, 2) && strcmp(name_of(machine, 3), "layer?2?") == 0);
    step_name(machine, 3, true, "renamed");
    CHECK(strcmp(name_of(machine, 3), "renamed") == 0 && strcmp(name_of(machine, 1), "layer?2?") == 0);
    step_name(machine, 1, false, "another"); /* of a second tensor that has the value */
    CHECK(!name_of(machine, 1));
    step_add(machine, 4, 1, GT_FLAG_UPDATES);
    CHECK(!name_of(machine, 4));
    gt_slot gone = {.ins = {.op = GT_OP_free, .result = 3}};
    entry.slots = 1;
    OK(gt__machine_step(machine, &entry, &gone, &result));
    step_add(machine, 5, 1, 0); /* in the slot of the freed one */
    CHECK(!name_of(machine, 5));
    char endless[GT_NAME_SLOTS * sizeof(gt_slot) + 1];
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = 0;
    step_name(machine, 5, false, endless);
    CHECK_EQ(strlen(name_of(machine, 5)), GT_MAX_NAME);
    gt__machine_free(&machine);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    snprintf(path, sizeof path, "/tmp/gt-test-tape-%d", (int)getpid());
    setenv("GT_WORKER_MEMORY", "256M", 1); /* a forged shape may ask for anything */
    record();
    read_file();
    CHECK_EQ(read_all(NULL, &original_records), GT_OK);
    unlink(path);
    check_run("whole", test_whole, NULL);
    check_run("cut short", test_cut_short, NULL);
    check_run("damaged", test_damaged, NULL);
    check_run("forged", test_forged, NULL);
    check_run("places", test_places_are_only_text, NULL);
    check_run("older table", test_older_table, NULL);
    check_run("names of tensors", test_names_of_tensors, NULL);
    unlink(path);
    free(original);
    return check_end();
}
