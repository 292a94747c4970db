/*
 * test_path.c: hot paths as a peer may write them. A definition is read back as it was made, and a run expands into the
 * records that it stands for; every other definition is refused; and a server whose client sends wrong ones ends that
 * session, and no other. In a compact log a run is one entry, which is read as its records.
 */
#include "core/path.h"
#include "core/record.h"
#include "dispatcher/observe/log_code.h"
#include "random_numbers.h"
#include "server_fixture.h"

enum { CASES = CHECK_SANITIZED ? 20000 : 60000, MOST_SLOTS = 64 };

#define IN(k) (GT_PATH_INPUT + (k))

/* ---- a path ------------------------------------------------------------------------------------------------- */

/* a = in0 * 2; b = cat(a, in1); free a; c = b + b; free b, in1. One parameter: the 2. Outputs: c. */
typedef struct example_path {
    gt_slot records[MOST_SLOTS];
    uint32_t slots, count, offset[MOST_SLOTS];
    gt_path_word parameter[2];
    uint32_t parameters;
} example_path;

static gt_slot *append(example_path *e, gt_opcode op, uint64_t a, uint64_t b, unsigned tail)
{
    gt_slot *record = e->records + e->slots;
    memset(record, 0, (1 + tail) * sizeof *record);
    record->ins = (gt_instruction){.op = (uint16_t)op, .tail = (uint16_t)tail, .operand = {a, b}};
    if (op < GT_OP_FIRST_CONTROL) {
        e->offset[e->count] = 3 * e->count;
        record->ins.result = ++e->count;
    }
    e->slots += 1 + tail;
    return record;
}

static example_path example_new(void)
{
    example_path e = {.parameter = {{.slot = 0, .word = GT_WORD_OPERAND + 1}}, .parameters = 1};
    gt_slot *scaled = append(&e, GT_OP_mul, IN(0), 0, 0);
    scaled->ins.literals = GT_LITERAL_FLOAT << 2;
    scaled->ins.literal[1].f = 2;
    gt_slot *both = append(&e, GT_OP_cat, 0, 0, 1);
    both->ins.imm[1].i = 2;
    both[1].u64[0] = 1;
    both[1].u64[1] = IN(1);
    append(&e, GT_OP_free, 1, 0, 0);
    append(&e, GT_OP_add, 2, 2, 0);
    append(&e, GT_OP_free, 2, IN(1), 0);
    return e;
}

static size_t define(const example_path *e, gt_slot *definition)
{
    gt__path_define(e->records, e->slots, e->count, e->offset, e->parameter, e->parameters, definition);
    return gt__path_definition_slots(e->slots, e->count, e->parameters);
}

static gt_err read_path(const example_path *e, gt_path **path)
{
    gt_slot definition[2 * MOST_SLOTS];
    return gt__path_new(definition, define(e, definition), path);
}

static void expect_refused(const example_path *e, const char *why)
{
    gt_path *path;
    if (CHECK_EQ(read_path(e, &path), GT_ERR_PROTOCOL) && !CHECK(strstr(gt_error_text(), why)))
        fprintf(stderr, "  it said: %s; expected: %s\n", gt_error_text(), why);
    CHECK(!path);
    gt__path_free(&path);
}

static unsigned write_run(gt_slot *run, uint64_t number, uint64_t first, const uint64_t *words, unsigned count)
{
    unsigned tail = gt__slots_for(count * sizeof *words);
    memset(run, 0, (1 + tail) * sizeof *run);
    run->ins = (gt_instruction){
        .op = GT_OP_repeat, .result = number, .tail = (uint16_t)tail, .operand = {first}, .imm = {{.u = count}}};
    memcpy(run + 1, words, count * sizeof *words);
    return 1 + tail;
}

/* ---- definitions -------------------------------------------------------------------------------------------- */

typedef struct collected {
    gt_slot slots[MOST_SLOTS];
    unsigned count, most;
} collected;

static gt_err collect(void *context, gt_slot *record)
{
    collected *c = context;
    if (c->count >= c->most)
        return GT_ERR_INTERRUPTED;
    memcpy(c->slots + c->count, record, (1u + record->ins.tail) * sizeof *record);
    c->count += 1u + record->ins.tail;
    return GT_OK;
}

static void test_round_trip(const void *argument)
{
    (void)argument;
    example_path e = example_new();
    gt_path *path;
    gt_slot run[8];
    double three = 3;
    uint64_t words[16] = {501, 502, 0, 601, 602, 603, 604, 605, 606, 607};
    memcpy(&words[2], &three, sizeof three);
    if (!CHECK_EQ(read_path(&e, &path), GT_OK))
        return;
    CHECK(path->inputs == 2 && path->outputs == 1 && path->count == 3 && path->parameters == 1);
    CHECK(path->output[0] == 2 && !path->dies[0] && path->dies[1]);
    write_run(run, 0, 1000, words, 10);
    CHECK_EQ(gt__path_check_run(path, run), GT_OK);
    collected got = {.most = MOST_SLOTS};
    CHECK_EQ(gt__path_expand(path, run, collect, &got), GT_OK);
    if (CHECK_EQ(got.count, e.slots + 2)) {
        const gt_slot *r = got.slots;
        CHECK(r[0].ins.result == 1000 && r[0].ins.operand[0] == 501 && r[0].ins.literal[1].f == 3);
        CHECK(r[1].ins.result == 1003 && r[2].u64[0] == 1000 && r[2].u64[1] == 502);
        CHECK(r[3].ins.op == GT_OP_free && r[3].ins.operand[0] == 1000);
        CHECK(r[4].ins.result == 1006 && r[4].ins.operand[0] == 1003 && r[4].ins.operand[1] == 1003);
        CHECK(r[5].ins.operand[0] == 1003 && r[5].ins.operand[1] == 502);
        for (unsigned k = 0; k < 7; k++)
            CHECK_EQ(gt__free_ids(&r[6 + k / GT_FREE_IDS].ins)[k % GT_FREE_IDS], 601 + k);
        CHECK(r[7].ins.op == GT_OP_free && !gt__free_ids(&r[7].ins)[1]);
    }
    got = (collected){.most = 3};
    CHECK_EQ(gt__path_expand(path, run, collect, &got),
             GT_ERR_INTERRUPTED); /* the error of the one that takes them */
    gt__path_free(&path);
    CHECK(!path);
    gt__path_free(&path);
}

static void test_runs(const void *argument)
{
    (void)argument;
    example_path e = example_new();
    static gt_slot run[1 + GT_MAX_TAIL];
    static uint64_t words[GT_PATH_WORDS + 1];
    gt_path *path;
    if (!CHECK_EQ(read_path(&e, &path), GT_OK))
        return;
    for (unsigned count = 0; count < 6; count++) {
        write_run(run, 0, 1000, words, count);
        CHECK_EQ(gt__path_check_run(path, run), count < 3 ? GT_ERR_PROTOCOL : GT_OK);
    }
    write_run(run, 0, 1000, words, GT_PATH_WORDS);
    CHECK_EQ(gt__path_check_run(path, run), GT_OK);
    write_run(run, 0, 1000, words, GT_PATH_WORDS + 1); /* a record that is right, but longer than any run */
    CHECK_EQ(gt__path_check_run(path, run), GT_ERR_PROTOCOL);
    write_run(run, 0, 0, words, 3);
    CHECK_EQ(gt__path_check_run(path, run), GT_ERR_PROTOCOL);
    write_run(run, 0, UINT64_MAX, words, 3);
    CHECK_EQ(gt__path_check_run(path, run), GT_ERR_PROTOCOL);
    gt__path_free(&path);
}

/* ---- in the log --------------------------------------------------------------------------------------------- */

enum { LOGGED_RUNS = 20, LOG_ROOM = 1 << 18 };

/* The place of a record's site. */
static gt_log_text *place_of_site(void *context, uint32_t scope, uint32_t site)
{
    gt_log_text **texts = context;
    (void)scope;
    return texts[site];
}

/* Read a block as events; returns how many there were before its end or its first damage. */
static unsigned read_events(gt_log_decoder *decoder, const char *block, size_t bytes, const collected *expected,
                            uint64_t first, gt_log_text *const *places)
{
    unsigned count = 0, at = 0, run = 0;
    gt_log_event event;
    bool there = gt__log_block_open(decoder, block, bytes, false) == GT_OK;
    while (there && gt__log_block_next(decoder, &event, &there) == GT_OK && there) {
        if (expected) {
            gt_slot record = expected[run].slots[at];
            gt_log_text *place = places[record.ins.site];
            CHECK(event.sequence == first + count && event.event == GT_EVENT_RECV && event.op == record.ins.op);
            const gt_log_text *note = event.notes[0];
            CHECK(note ? place && note->length == place->length &&
                             memcmp(note->text, place->text, note->length) == 0
                       : !place);
            at += 1u + record.ins.tail;
            CHECK(event.slots == 1 + record.ins.tail && event.bytes == (1u + record.ins.tail) * sizeof record);
            record.ins.scope = record.ins.site = 0;
            CHECK(memcmp(event.record, &record, sizeof record) == 0);
            if (at == expected[run].count) {
                at = 0;
                run++;
            }
        }
        count++;
    }
    return count;
}

static void test_logged_runs(const void *argument)
{
    (void)argument;
    numbers n = {.state = 17};
    example_path e = example_new();
    e.records[0].ins.site = 1;
    e.records[1].ins.site = 2;
    gt_path *path;
    gt_log_text *places[3] = {NULL, gt__log_text_new(" at=a.py:1", 10), gt__log_text_new(" at=b.py:2", 10)};
    gt_log_encoder *encoder = gt__log_encoder_new();
    gt_log_decoder *decoder = gt__log_decoder_new();
    char *room = malloc(LOG_ROOM), *at = room;
    collected *expected = calloc(LOGGED_RUNS, sizeof *expected);
    unsigned events = 0;
    CHECK_EQ(read_path(&e, &path), GT_OK);
    for (unsigned k = 0; k < LOGGED_RUNS; k++) {
        gt_slot run[8];
        uint64_t words[16];
        uint32_t lines;
        unsigned count = 3 + (unsigned)numbers_below(&n, 10);
        for (unsigned word = 0; word < count; word++)
            words[word] = 1 + numbers_below(&n, 1000000);
        write_run(run, 0, 1000 + 10 * k, words, count);
        expected[k].most = MOST_SLOTS;
        CHECK_EQ(gt__path_expand_packed(path, run, collect, &expected[k]), GT_OK);
        if (!k) /* the first one in a block is written as it is */
            CHECK_EQ(gt__log_run_bytes(encoder, path, run, &lines), 0);
        size_t bytes = gt__log_run_bytes(encoder, path, run, &lines);
        CHECK(bytes && bytes < LOG_ROOM);
        gt_log_run what = {.sequence = 5 + events, .at_ns = 7 * k, .path = path, .run = run};
        what.place = place_of_site;
        what.context = places;
        char *end = gt__log_encode_run(encoder, &what, at);
        CHECK((size_t)(end - at) <= bytes);
        at = end;
        events += lines;
    }
    size_t bytes = (size_t)(at - room);
    gt__log_seal(NULL, room, bytes);
    CHECK_EQ(gt__log_block_open(decoder, room, bytes, true), GT_OK);
    CHECK_EQ(read_events(decoder, room, bytes, expected, 5, places), events);
    for (unsigned k = 0; k < CASES / 10; k++) { /* damaged: it ends somewhere, and nothing else happens */
        char *damaged = memcpy(malloc(bytes), room, bytes);
        for (unsigned change = 1 + (unsigned)numbers_below(&n, 3); change; change--)
            damaged[sizeof(gt_log_block) + numbers_below(&n, bytes - sizeof(gt_log_block))] ^=
                (char)(1u << numbers_below(&n, 8));
        read_events(decoder, damaged, bytes, NULL, 0, places);
        free(damaged);
    }
    gt__log_decoder_free(decoder);
    gt__log_encoder_free(encoder);
    gt__path_free(&path);
    free(places[1]);
    free(places[2]);
    free(expected);
    free(room);
}

/* ---- wrong ones --------------------------------------------------------------------------------------------- */

static void test_refused(const void *argument)
{
    (void)argument;
    example_path e = example_new();
    e.records[0].ins.result = 2;
    expect_refused(&e, "a result out of order");
    e = example_new();
    e.records[0].ins.operand[0] = IN(1);
    expect_refused(&e, "an input out of order");
    e = example_new();
    e.records[0].ins.operand[0] = 0;
    expect_refused(&e, "an operand without a tensor");
    e = example_new();
    e.records[2].u64[1] = 0;
    expect_refused(&e, "an operand without a tensor");
    e = example_new();
    e.records[4].ins.operand[1] = 1; /* which was freed */
    expect_refused(&e, "a tensor that is not there");
    e = example_new();
    e.records[4].ins.operand[1] = 3; /* its own result */
    expect_refused(&e, "a tensor that is not there");
    e = example_new();
    e.records[5].ins.operand[2] = IN(2); /* which nothing uses */
    expect_refused(&e, "an input out of order");
    e = example_new();
    append(&e, GT_OP_neg, IN(1), 0, 0);
    expect_refused(&e, "an input that is gone");
    e = example_new();
    e.records[3].ins = (gt_instruction){.op = GT_OP_sync};
    expect_refused(&e, "cannot be part");
    e = example_new();
    e.offset[1] = 0;
    expect_refused(&e, "ids out of order");
    e = example_new();
    e.offset[0] = 1;
    expect_refused(&e, "ids out of order");
    e = example_new();
    e.slots--;
    e.records[3].ins.op = GT_OP_INVALID;
    expect_refused(&e, "unknown operation");
    e = example_new();
    e.slots = 2; /* a cat without its tail */
    e.count = 2;
    expect_refused(&e, "a tail of 1 slots where 0 are left");
    e = example_new();
    e.count = 2;
    expect_refused(&e, "a result out of order");
    e = example_new();
    e.count = 4;
    e.offset[3] = 100;
    expect_refused(&e, "fewer results");
    static const gt_path_word wrong[] = {{.slot = 0, .word = GT_WORD_HEAD},    {.slot = 0, .word = GT_WORD_RESULT},
                                         {.slot = 0, .word = GT_WORD_OPERAND}, {.slot = 1, .word = GT_WORD_IMM},
                                         {.slot = 2, .word = GT_WORD_IMM},     {.slot = 3, .word = GT_WORD_RESULT},
                                         {.slot = 6, .word = GT_WORD_IMM},     {.slot = 0, .word = 8},
                                         {.slot = UINT32_MAX, .word = 5}};
    for (unsigned k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        e = example_new();
        e.parameter[0] = wrong[k];
        expect_refused(&e, "a parameter that cannot be one");
    }
    e = example_new();
    e.parameters = 2;
    e.parameter[0] = (gt_path_word){.slot = 4, .word = GT_WORD_IMM};
    e.parameter[1] = (gt_path_word){.slot = 0, .word = GT_WORD_IMM};
    expect_refused(&e, "a parameter that cannot be one");
}

/* Numbers that inference looks at are no parameters: a run is not inferred again. */
static void test_parameters(const void *argument)
{
    (void)argument;
    gt_instruction ins = {.op = GT_OP_add, .literals = GT_LITERAL_INT << 2};
    CHECK_EQ(gt__path_parameter_words(&ins), 1u << (GT_WORD_OPERAND + 1) | 3u << GT_WORD_IMM);
    ins.op = GT_OP_clamp;
    CHECK_EQ(gt__path_parameter_words(&ins), 0);
    ins.op = GT_OP_where;
    CHECK_EQ(gt__path_parameter_words(&ins), 0);
    ins.op = GT_OP_slice;
    CHECK_EQ(gt__path_parameter_words(&ins), 0xff00); /* where it begins: this is checked in each run */
}

/* What is accepted can be expanded. */
static void use_if_good(const gt_slot *definition, size_t slots)
{
    gt_path *path;
    static uint64_t words[GT_PATH_WORDS];
    gt_slot run[1 + GT_PATH_WORDS / 8];
    if (gt__path_new(definition, slots, &path) != GT_OK) {
        CHECK(!path);
        return;
    }
    write_run(run, 0, 1000, words, gt__path_run_words(path));
    collected got = {.most = MOST_SLOTS - 1};
    CHECK_EQ(gt__path_check_run(path, run), GT_OK);
    gt__path_expand(path, run, collect, &got);
    gt__path_free(&path);
}

static void test_mutations(const void *argument)
{
    (void)argument;
    static const uint64_t values[] = {0,     1,        2,          3,          4,   IN(0), IN(1),
                                      IN(2), IN(5000), UINT64_MAX, UINT32_MAX, 255, 256};
    numbers n = {11};
    example_path e = example_new();
    gt_slot good[2 * MOST_SLOTS], *definition;
    size_t slots = define(&e, good);
    for (int k = 0; k < CASES; k++) {
        /* As long as it says, so that a sanitizer sees each step beyond it. */
        size_t length = numbers_below(&n, 8) ? slots : numbers_below(&n, slots + 1);
        definition = malloc(length * sizeof *definition + 1);
        memcpy(definition, good, length * sizeof *definition);
        if (numbers_below(&n, 16) == 0 && length > 1)
            numbers_fill(&n, definition + 1, (length - 1) * sizeof *definition);
        for (uint64_t changes = numbers_below(&n, 4); changes && length; changes--) {
            gt_slot *slot = &definition[numbers_below(&n, length)];
            if (numbers_below(&n, 2))
                slot->u64[numbers_below(&n, 8)] = values[numbers_below(&n, sizeof values / sizeof *values)];
            else
                slot->bytes[numbers_below(&n, 64)] = (uint8_t)numbers_next(&n);
        }
        use_if_good(definition, length);
        free(definition);
    }
}

/* ---- pieces ------------------------------------------------------------------------------------------------- */

static gt_err send_piece(gt_path_pieces *pieces, const gt_slot *definition, size_t at, size_t whole,
                         gt_path **path)
{
    static gt_slot record[1 + GT_PATH_PIECE];
    size_t length = whole - at < GT_PATH_PIECE ? whole - at : GT_PATH_PIECE;
    record->ins = (gt_instruction){.op = GT_OP_path, .tail = (uint16_t)length, .imm = {{.u = at}, {.u = whole}}};
    memcpy(record + 1, definition + at, length * sizeof *record);
    return gt__path_piece(pieces, record, path);
}

static void test_pieces(const void *argument)
{
    (void)argument;
    enum { RECORDS = 1000 };
    static gt_slot records[RECORDS], definition[2 * RECORDS];
    static uint32_t offset[RECORDS];
    gt_path_pieces pieces = {0};
    gt_path *path;
    for (uint32_t k = 0; k < RECORDS; k++) {
        records[k].ins = (gt_instruction){.op = GT_OP_neg, .result = k + 1, .operand = {k ? k : IN(0)}};
        offset[k] = k;
    }
    size_t slots = gt__path_definition_slots(RECORDS, RECORDS, 0);
    gt__path_define(records, RECORDS, RECORDS, offset, NULL, 0, definition);
    for (int given_up = 0; given_up < 2; given_up++) {
        if (given_up) { /* one that was begun is forgotten when another begins */
            CHECK_EQ(send_piece(&pieces, definition, 0, slots, &path), GT_OK);
            CHECK_EQ(send_piece(&pieces, definition, GT_PATH_PIECE, slots, &path), GT_OK);
        }
        for (size_t at = 0; at < slots; at += GT_PATH_PIECE) {
            CHECK_EQ(send_piece(&pieces, definition, at, slots, &path), GT_OK);
            CHECK((path != NULL) == (at + GT_PATH_PIECE >= slots));
        }
        CHECK(path && path->count == RECORDS && path->outputs == RECORDS && !pieces.slots);
        gt__path_free(&path);
    }
    CHECK_EQ(send_piece(&pieces, definition, GT_PATH_PIECE, slots, &path), GT_ERR_PROTOCOL); /* the second first */
    CHECK_EQ(send_piece(&pieces, definition, 0, slots, &path), GT_OK);
    CHECK_EQ(send_piece(&pieces, definition, 2 * GT_PATH_PIECE, slots, &path),
             GT_ERR_PROTOCOL); /* one is missing */
    CHECK_EQ(send_piece(&pieces, definition, GT_PATH_PIECE, slots - 1, &path),
             GT_ERR_PROTOCOL); /* another length */
    CHECK_EQ(send_piece(&pieces, definition, 0, 0, &path), GT_ERR_PROTOCOL);
    gt_slot huge = {.ins = {.op = GT_OP_path, .imm = {{.u = 0}, {.u = UINT64_MAX}}}};
    CHECK_EQ(gt__path_piece(&pieces, &huge, &path), GT_ERR_PROTOCOL);
    CHECK_EQ(send_piece(&pieces, definition, 0, slots, &path), GT_OK);
    gt__path_pieces_free(&pieces);
}

/* ---- a server ----------------------------------------------------------------------------------------------- */

static void send_definition(gt_link *link, uint64_t number, const example_path *e)
{
    gt_slot record[1 + 2 * MOST_SLOTS];
    size_t slots = define(e, record + 1);
    record->ins = (gt_instruction){
        .op = GT_OP_path, .result = number, .tail = (uint16_t)slots, .imm = {{.u = 0}, {.u = slots}}};
    send_slots(link, record, 1 + (unsigned)slots);
}

static void send_run(gt_link *link, uint64_t number, uint64_t first, const uint64_t *words, unsigned count)
{
    static gt_slot run[1 + GT_MAX_TAIL];
    send_slots(link, run, write_run(run, number, first, words, count));
}

static uint64_t number_word(double number)
{
    uint64_t word;
    memcpy(&word, &number, sizeof word);
    return word;
}

/* in0 1 element, in1 1 element of 5: the run gives (2 * factor * 2, 10), and in1 is gone. */
static bool run_works(gt_link *link, uint64_t number, uint64_t id, double factor)
{
    char bytes[64];
    float sum[2] = {0};
    uint64_t words[] = {id, id + 1, number_word(factor), id + 2};
    send_full(link, id, 1, 2);
    send_full(link, id + 1, 1, 5);
    send_full(link, id + 2, 1, 7);
    send_run(link, number, id + 10, words, 4);
    gt_err err = fetch_text(link, id + 16, id, bytes, sizeof bytes);
    memcpy(sum, bytes, sizeof sum);
    send_ins(link, (gt_instruction){.op = GT_OP_free, .result = id, .operand = {id + 16}});
    return CHECK_EQ(err, GT_OK) && CHECK(sum[0] == (float)(4 * factor) && sum[1] == 10);
}

typedef struct attack {
    const char *name, *reason;
    unsigned words;
    uint64_t number, first, word[8];
} attack;

static const attack attacks[] = {
    {"a path that is not defined", "not defined", .number = 7, .first = 100, .words = 3, .word = {1, 2}},
    {"a number beyond all", "not defined", .number = UINT64_MAX, .first = 100, .words = 3, .word = {1, 2}},
    {"too few words", "words where the path has", .first = 100, .words = 2, .word = {1, 2}},
    {"too many words", "a tail of", .first = 100, .words = GT_PATH_WORDS + 1, .word = {1, 2}},
    {"no id", "a bad id", .words = 3, .word = {1, 2}},
    {"a huge id", "a bad id", .first = UINT64_MAX, .words = 3, .word = {1, 2}},
    {"an unknown input", "does not exist", .first = 100, .words = 3, .word = {1, 99}},
    {"no input", "does not exist", .first = 100, .words = 3, .word = {1, 0}},
    {"an output that exists", "not a new one", .first = 1, .words = 3, .word = {1, 2}},
    {"an output that is an input", "not a new one", .first = 2, .words = 3, .word = {1, 8}},
    {"an id to be freed that is not there", "does not exist", .first = 100, .words = 4, .word = {1, 2, 0, 99}},
    {"an id to be freed twice", "does not exist", .first = 100, .words = 5, .word = {1, 2, 0, 3, 3}},
    {"a dying input to be freed", "does not exist", .first = 100, .words = 4, .word = {1, 2, 0, 2}},
    {"one tensor as two inputs, freed again", "does not exist", .first = 100, .words = 4, .word = {2, 2, 0, 2}},
};

/* Sessions that do wrong are ended, each for its reason, and another one on the same worker goes on. */
static void test_server(const void *argument)
{
    const char *modifiers = argument;
    enum { ATTACKS = sizeof attacks / sizeof *attacks };
    static uint64_t words[GT_PATH_WORDS + 1];
    server s;
    gt_link *links[ATTACKS + 2];
    example_path e = example_new();
    server_new_with(&s, false, modifiers);
    server_add_worker(&s, false);
    for (int k = 0; k < ATTACKS + 2; k++)
        links[k] = server_link(&s);
    server_start(&s);
    gt_link *honest = links[ATTACKS], *redefining = links[ATTACKS + 1];
    CHECK(join_client(honest));
    send_definition(honest, 0, &e);
    CHECK(run_works(honest, 0, 100, 3));
    for (int k = 0; k < ATTACKS; k++) {
        const attack *a = &attacks[k];
        CHECK(join_client(links[k]));
        for (uint64_t id = 1; id <= 8; id++)
            send_full(links[k], id, 1, 1);
        send_definition(links[k], 0, &e);
        memcpy(words, a->word, sizeof a->word);
        send_run(links[k], a->number, a->first ? a->first : 0, words, a->words);
        expect_goodbye(links[k], a->reason);
        gt__link_close(links[k]);
        if (!CHECK(run_works(honest, 0, 200 + 100 * (uint64_t)k, k)))
            fprintf(stderr, "  after: %s\n", a->name);
    }
    CHECK(join_client(redefining));
    for (int k = 0; k < 600; k++) { /* numbers are used again, also at the worker */
        append(&e, GT_OP_neg, 3, 0, 0);
        if (k % 8 == 0)
            e = example_new();
        send_definition(redefining, (uint64_t)k % GT_PATHS, &e);
        if (k % 8 == 0)
            CHECK(run_works(redefining, (uint64_t)k % GT_PATHS, 1000 + 100 * (uint64_t)k, k));
    }
    gt__link_flush(redefining);
    CHECK(tensors_become(honest, 0));
    gt__link_close(redefining);
    CHECK(run_works(honest, 0, 50000, 2));
    CHECK(session_works(honest, 60000));
    CHECK(tensors_become(honest, 0));
    gt__link_close(honest);
    server_stop(&s);
}

/* An input has failed before a worker ran the path: what does not come from it is computed, and the failure is told as it
 * was. in0 * 2 and in1 + in1 live on; what is between is freed. */
static void test_failed_input(const void *argument)
{
    (void)argument;
    server s;
    char text[1024];
    float sum = 0;
    example_path e = {.parameters = 0};
    gt_slot index[2] = {
        {.ins = {.op = GT_OP_full, .dtype = GT_INT64, .rank = 1, .tail = 1, .result = 1, .imm = {{.i = 99}}}},
        {.i64 = {1}}};
    append(&e, GT_OP_add, IN(0), IN(0), 0);
    append(&e, GT_OP_neg, IN(1), 0, 0);
    append(&e, GT_OP_sub, IN(1), 2, 0);
    append(&e, GT_OP_free, 2, IN(1), 0);
    server_new_with(&s, false, "statistics");
    server_add_worker(&s, false);
    gt_link *link = server_link(&s);
    server_start(&s);
    CHECK(join_client(link));
    send_definition(link, 3, &e);
    for (uint64_t id = 10; id <= 110; id += 50) {
        send_slots(link, index, 2);
        send_full(link, id, 1, 2);
        send_full(link, id + 2, 1, 7);
        send_ins(link, (gt_instruction){.op = GT_OP_take, .result = id + 1, .operand = {id, 1}});
        send_run(link, 3, id + 10, (uint64_t[]){id + (id < 110), id + 2}, 2); /* the last one has not failed */
        CHECK_EQ(fetch_text(link, id + 10, id, text, sizeof text), id < 110 ? GT_ERR_INDEX : GT_OK);
        CHECK(id == 110 || strncmp(text, "take: ", 6) == 0);
        CHECK_EQ(fetch_text(link, id + 16, id, text, sizeof text), GT_OK);
        memcpy(&sum, text, sizeof sum);
        CHECK(sum == 14);
        send_ins(link, (gt_instruction){.op = GT_OP_free, .result = 1, .operand = {id, id + 1, id + 10}});
        send_free(link, id + 16);
    }
    CHECK(tensors_become(link, 0));
    gt__link_close(link);
    server_stop(&s);
}

/* in0 of six elements; two of them from a place on that is a parameter; its sum with itself. What leaves the tensor fails, as it
 * would alone, and nothing else does. */
static void test_slices_that_move(const void *argument)
{
    (void)argument;
    static const uint64_t starts[] = {0, 4, 1, 5, 2, UINT64_MAX, 3, (uint64_t)1 << 62, 4};
    server s;
    char text[1024];
    float sums[2];
    example_path e = {.parameter = {{.slot = 1, .word = GT_WORD_TAIL}}, .parameters = 1};
    append(&e, GT_OP_neg, IN(0), 0, 0);
    gt_slot *slice = append(&e, GT_OP_slice, IN(0), 0, 3);
    slice[2].i64[0] = 1;
    slice[3].i64[0] = 2;
    append(&e, GT_OP_add, 2, 2, 0);
    append(&e, GT_OP_free, 2, 0, 0);
    server_new_with(&s, false, "statistics");
    server_add_worker(&s, false);
    gt_link *link = server_link(&s);
    server_start(&s);
    CHECK(join_client(link));
    send_definition(link, 3, &e);
    gt_slot range[2] = {{.ins = {.op = GT_OP_arange,
                                 .dtype = GT_FLOAT32,
                                 .rank = 1,
                                 .tail = 1,
                                 .result = 1,
                                 .imm = {{.f = 0}, {.f = 1}}}},
                        {.i64 = {6}}};
    send_slots(link, range, 2);
    for (uint64_t k = 0; k < sizeof starts / sizeof *starts; k++) {
        uint64_t id = 100 + 20 * k;
        send_run(link, 3, id, (uint64_t[]){1, starts[k]}, 2);
        bool inside = starts[k] <= 4;
        CHECK_EQ(fetch_text(link, id + 6, id, text, sizeof text), inside ? GT_OK : GT_ERR_INDEX);
        memcpy(sums, text, sizeof sums);
        CHECK(inside ? sums[0] == 2 * (float)starts[k] && sums[1] == 2 * (float)starts[k] + 2
                     : strstr(text, "leaves dimension 0 of size 6") != NULL);
        CHECK_EQ(fetch_text(link, id, id + 1, text, sizeof text), GT_OK);
        send_ins(link, (gt_instruction){.op = GT_OP_free, .result = id, .operand = {id + 6}});
    }
    send_free(link, 1);
    CHECK(tensors_become(link, 0));
    gt__link_close(link);
    server_stop(&s);
}

/* Definitions and runs of random words: the session may end, the server goes on. */
static void test_noise(const void *argument)
{
    (void)argument;
    enum { ROUNDS = 24 };
    static uint64_t words[64];
    numbers n = {5};
    server s;
    gt_link *links[ROUNDS + 1];
    server_new(&s, false);
    server_add_worker(&s, false);
    for (int k = 0; k <= ROUNDS; k++)
        links[k] = server_link(&s);
    server_start(&s);
    gt_link *honest = links[ROUNDS];
    CHECK(join_client(honest));
    for (int k = 0; k < ROUNDS; k++) {
        CHECK(join_client(links[k]));
        for (uint64_t id = 1; id <= 8; id++)
            send_full(links[k], id, (int64_t)numbers_below(&n, 3), 1);
        for (int turn = 0; turn < 20 && !links[k]->gone; turn++) {
            example_path e = example_new();
            gt_slot *record = &e.records[numbers_below(&n, e.slots)];
            record->u64[1 + numbers_below(&n, 6)] =
                numbers_below(&n, 3) ? numbers_below(&n, 4) : IN(numbers_below(&n, 2));
            record->ins.flags = (uint8_t)numbers_next(&n);
            send_definition(links[k], numbers_below(&n, 4), &e);
            for (unsigned w = 0; w < 64; w++)
                words[w] = numbers_below(&n, 12);
            send_run(links[k], numbers_below(&n, 4), 20 + numbers_below(&n, 40), words,
                     (unsigned)numbers_below(&n, 20));
        }
        gt__link_flush(links[k]);
        gt__link_close(links[k]);
        CHECK(session_works(honest, 100 + 10 * (uint64_t)k));
    }
    CHECK(tensors_become(honest, 0));
    gt__link_close(honest);
    server_stop(&s);
}

/* The next `path` or `repeat` that the worker gets. */
static gt_instruction next_of_path(gt_link *worker)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    while (receive(worker, record))
        if (record->ins.op == GT_OP_path || record->ins.op == GT_OP_repeat)
            return record->ins;
    CHECK(!"the worker got no path");
    return (gt_instruction){.op = GT_OP_INVALID};
}

static void run_once(gt_link *client, uint64_t id)
{
    send_full(client, id, 1, 2);
    send_full(client, id + 1, 1, 5);
    send_run(client, 0, id + 10, (uint64_t[]){id, id + 1, 0}, 3);
    gt__link_flush(client);
}

/* A worker is told a path before its first run there, again if it is another worker, and when to forget it. */
static void test_workers(const void *argument)
{
    (void)argument;
    server s;
    example_path e = example_new();
    server_new_with(&s, false, "statistics");
    gt_link *first = server_link(&s), *second = server_link(&s), *client = server_link(&s),
            *other = server_link(&s);
    server_start(&s);
    CHECK(join_worker(first, "first") && join_client(client));
    send_definition(client, 0, &e);
    for (uint64_t run = 0; run < 2; run++)
        run_once(client, 100 + 100 * run);
    CHECK_EQ(next_of_path(first).op, GT_OP_path);
    CHECK_EQ(next_of_path(first).op, GT_OP_repeat);
    CHECK_EQ(next_of_path(first).op, GT_OP_repeat);
    gt__link_close(first);
    gt_welcome welcome = {.workers = 1};
    while (welcome.workers &&
           CHECK_EQ(gt__hello_wait(client, PATIENCE_MS, &welcome), GT_OK)) /* its loss is known */
        continue;
    CHECK(join_worker(second, "second"));
    while (!welcome.workers && CHECK_EQ(gt__hello_wait(client, PATIENCE_MS, &welcome), GT_OK))
        continue;
    CHECK(join_client(other)); /* whose path gets another number */
    run_once(client, 1000);
    gt_instruction told = next_of_path(second);
    CHECK(told.op == GT_OP_path && told.result == 0 && told.imm[1].u);
    CHECK_EQ(next_of_path(second).op, GT_OP_repeat);
    send_definition(other, 0, &e);
    run_once(other, 100);
    told = next_of_path(second);
    CHECK(told.op == GT_OP_path && told.result == 1 && told.imm[1].u);
    CHECK_EQ(next_of_path(second).result, 1);
    send_definition(client, 0, &e); /* the same again: the worker forgets it, and is told at the next run */
    run_once(client, 2000);
    told = next_of_path(second);
    CHECK(told.op == GT_OP_path && told.result == 0 && !told.imm[1].u);
    told = next_of_path(second);
    CHECK(told.op == GT_OP_path && told.result == 0 && told.imm[1].u);
    CHECK_EQ(next_of_path(second).op, GT_OP_repeat);
    gt__link_close(other);
    told = next_of_path(second);
    CHECK(told.op == GT_OP_path && told.result == 1 && !told.imm[1].u);
    gt__link_close(client);
    told = next_of_path(second);
    CHECK(told.op == GT_OP_path && told.result == 0 && !told.imm[1].u);
    gt__link_close(second);
    server_stop(&s);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("round trip", test_round_trip, NULL);
    check_run("runs", test_runs, NULL);
    check_run("runs in a log", test_logged_runs, NULL);
    check_run("refused", test_refused, NULL);
    check_run("parameters", test_parameters, NULL);
    check_run("mutations", test_mutations, NULL);
    check_run("pieces", test_pieces, NULL);
    check_run("server", test_server, "statistics");
    check_run("server that expands", test_server, "identity,statistics"); /* a modifier that wants each record */
    check_run("failed input", test_failed_input, NULL);
    check_run("slices that move", test_slices_that_move, NULL);
    check_run("workers", test_workers, NULL);
    check_run("server noise", test_noise, NULL);
    return check_end();
}
