/*
 * test_wire.c: records as a peer may send them: every form of the op table, cut short, damaged, or random; and
 * what inference says of shapes and dtypes. Nothing here needs a link. Read record_examples.h first.
 */
#include <math.h>
#include <stdlib.h>

#include "random_numbers.h"
#include "record_examples.h"

enum { MANY = 1000000 };

static gt_err infer(const example *e, gt_meta *out)
{
    gt_dtype compute;
    memset(out, 0xee, sizeof *out);
    return gt__op_infer(&e->record->ins, e->record + 1, e->in, out, &compute);
}

/* ---- valid records ------------------------------------------------------------------------------------------ */

static void test_examples(const void *argument)
{
    (void)argument;
    for (unsigned op = 1; op < GT_OP_COUNT; op++) {
        example e;
        unsigned length = 0;
        gt_meta out;
        example_make((gt_opcode)op, &e);
        bool right = CHECK_EQ(gt__instruction_check(e.record, 1u + e.record->ins.tail, &length), GT_OK);
        right &= CHECK_EQ(length, 1u + e.record->ins.tail);
        if (gt__op_table[op].form != GT_FORM_CONTROL) {
            right &= CHECK_EQ(infer(&e, &out), GT_OK);
            right &= CHECK(meta_equal(&out, &e.expected));
        }
        if (!right)
            fprintf(stderr, "  in the example of %s: %s\n", gt__op_table[op].name, gt_error_text());
    }
}

/* Each length but the right one is refused, and nothing past it is read (the copy has exactly that size). */
static void test_truncation(const void *argument)
{
    (void)argument;
    for (unsigned op = 1; op < GT_OP_COUNT; op++) {
        example e;
        unsigned length;
        example_make((gt_opcode)op, &e);
        unsigned whole = 1u + e.record->ins.tail;
        CHECK_EQ(gt__instruction_check(e.record, 0, &length), GT_ERR_PROTOCOL);
        for (unsigned available = 1; available < whole; available++) {
            gt_slot *cut = malloc(available * sizeof *cut);
            memcpy(cut, e.record, available * sizeof *cut);
            CHECK_EQ(gt__instruction_check(cut, available, &length), GT_ERR_PROTOCOL);
            free(cut);
        }
        for (unsigned tail = 0; tail <= GT_MAX_TAIL + 2; tail++) {
            static gt_slot wrong[GT_MAX_TAIL + 4];
            memcpy(wrong, e.record, sizeof e.record);
            wrong->ins.tail = (uint16_t)tail;
            gt_err err = gt__instruction_check(wrong, GT_MAX_TAIL + 4, &length);
            CHECK_EQ(err, tail + 1 == whole ? GT_OK : GT_ERR_PROTOCOL);
        }
    }
}

static void test_bad_fields(const void *argument)
{
    (void)argument;
    for (unsigned op = 1; op < GT_OP_COUNT; op++) {
        example good, bad;
        unsigned length;
        example_make((gt_opcode)op, &good);
        bad = good;
        bad.record->ins.dtype = GT_DTYPE_COUNT;
        CHECK_EQ(gt__instruction_check(bad.record, EXAMPLE_SLOTS, &length), GT_ERR_PROTOCOL);
        bad = good;
        bad.record->ins.rank = GT_MAX_RANK + 1;
        CHECK_EQ(gt__instruction_check(bad.record, EXAMPLE_SLOTS, &length), GT_ERR_PROTOCOL);
        bad = good;
        bad.record->ins.literals = 1 << 6;
        CHECK_EQ(gt__instruction_check(bad.record, EXAMPLE_SLOTS, &length), GT_ERR_PROTOCOL);
    }
    gt_slot slot = {0};
    unsigned length;
    const unsigned unknown[] = {GT_OP_INVALID, GT_OP_COUNT, GT_OP_COUNT + 1, UINT16_MAX};
    for (unsigned k = 0; k < 4; k++) {
        slot.ins.op = (uint16_t)unknown[k];
        CHECK_EQ(gt__instruction_check(&slot, 1, &length), GT_ERR_PROTOCOL);
    }
    const int64_t cat_counts[] = {0, -1, GT_MAX_CAT + 1, INT64_MIN, INT64_MAX};
    for (unsigned k = 0; k < 5; k++) {
        example e;
        example_make(GT_OP_cat, &e);
        e.record->ins.imm[1].i = cat_counts[k];
        CHECK_EQ(gt__instruction_check(e.record, EXAMPLE_SLOTS, &length), GT_ERR_PROTOCOL);
    }
}

/* Only an instruction with a tensor in operand 0 can consume it: any other would name what was never looked up. */
static void test_consumes(const void *argument)
{
    (void)argument;
    for (unsigned op = 1; op < GT_OP_COUNT; op++) {
        example e;
        gt_meta out;
        if (gt__op_table[op].form == GT_FORM_CONTROL)
            continue;
        example_make((gt_opcode)op, &e);
        e.record->ins.flags |= GT_FLAG_CONSUMES;
        CHECK_EQ(infer(&e, &out), gt__op_table[op].operands ? GT_OK : GT_ERR_PROTOCOL);
    }
    example e;
    gt_meta out;
    example_make(GT_OP_add, &e);
    e.record->ins.flags = GT_FLAG_CONSUMES;
    e.record->ins.literals = GT_LITERAL_INT;
    e.in[0] = NULL;
    CHECK_EQ(infer(&e, &out), GT_ERR_PROTOCOL);
}

/* ---- damaged and random records ----------------------------------------------------------------------------- */

static void random_meta(numbers *n, gt_meta *meta)
{
    int64_t shape[GT_MAX_RANK];
    unsigned rank = (unsigned)numbers_below(n, GT_MAX_RANK + 1);
    for (unsigned axis = 0; axis < rank; axis++)
        shape[axis] =
            (int64_t)(numbers_below(n, 20) ? numbers_below(n, 4) : numbers_next(n) >> (4 + numbers_below(n, 60)));
    gt_dtype dtype = (gt_dtype)numbers_below(n, GT_DTYPE_COUNT);
    if (gt__meta_set(meta, dtype, rank, shape) != GT_OK)
        gt__meta_set(meta, dtype, 0, NULL);
}

/* What inference accepts must be a possible tensor: later stages allocate and index by it. */
static bool meta_sane(const gt_meta *meta, gt_dtype compute)
{
    if (!gt__dtype_valid(meta->dtype) || !gt__dtype_valid(compute) || meta->rank > GT_MAX_RANK)
        return false;
    int64_t numel = 1;
    for (unsigned axis = 0; axis < meta->rank; axis++)
        if (meta->shape[axis] < 0 || __builtin_mul_overflow(numel, meta->shape[axis], &numel))
            return false;
    return numel == meta->numel;
}

/* A record that passed the check is inferred with operands that exist. True if that was accepted too. */
static bool try_infer(numbers *n, const gt_slot *record)
{
    static gt_meta metas[GT_MAX_CAT];
    const gt_meta *in[GT_MAX_CAT];
    const gt_instruction *ins = &record->ins;
    if (gt__op_table[ins->op].form == GT_FORM_CONTROL)
        return false;
    unsigned count = ins->op == GT_OP_cat ? (unsigned)ins->imm[1].i : gt__op_operands((gt_opcode)ins->op);
    bool alike = numbers_below(n, 4) != 0;
    for (unsigned k = 0; k < count; k++) {
        if (k && alike)
            metas[k] = metas[k - 1];
        else
            random_meta(n, &metas[k]);
        in[k] = ins->op != GT_OP_cat && gt__literal(ins, k) ? NULL : &metas[k];
    }
    gt_meta out;
    gt_dtype compute;
    if (gt__op_infer(ins, record + 1, in, &out, &compute) != GT_OK)
        return false;
    if (!CHECK(meta_sane(&out, compute)))
        fprintf(stderr, "  by %s\n", gt__op_table[ins->op].name);
    return true;
}

static void test_random_bytes(const void *argument)
{
    (void)argument;
    static gt_slot slots[GT_MAX_TAIL + 1];
    numbers n = {.state = 1};
    unsigned passed = 0;
    numbers_fill(&n, slots, sizeof slots);
    for (int round = 0; round < 2 * MANY; round++) {
        gt_slot *record = &slots[numbers_below(&n, GT_MAX_TAIL)];
        size_t available = (size_t)(slots + GT_MAX_TAIL + 1 - record);
        unsigned length;
        numbers_fill(&n, record, sizeof *record);
        if (round % 2) { /* bytes that look better get further */
            record->ins.op %= GT_OP_COUNT + 1;
            record->ins.tail %= 4;
            record->ins.dtype %= GT_DTYPE_COUNT + 1;
            record->ins.rank %= GT_MAX_RANK + 2;
            record->ins.literals &= 0x7f;
            record->ins.imm[0].u >>= numbers_below(&n, 64);
            record->ins.imm[1].u >>= numbers_below(&n, 64);
        }
        if (gt__instruction_check(record, available, &length) != GT_OK)
            continue;
        passed += CHECK(length <= available);
        try_infer(&n, record);
    }
    CHECK(passed > MANY / 20);
}

static void test_bit_flips(const void *argument)
{
    (void)argument;
    numbers n = {.state = 2};
    unsigned accepted = 0;
    for (int round = 0; round < 2 * MANY; round++) {
        static example e;
        unsigned length, op = 1 + (unsigned)numbers_below(&n, GT_OP_COUNT - 1);
        example_make((gt_opcode)op, &e);
        uint64_t bits = 8 * sizeof(gt_slot) * (1u + e.record->ins.tail);
        for (uint64_t flips = 1 + numbers_below(&n, 3); flips; flips--) {
            uint64_t bit = numbers_below(&n, bits);
            e.record[bit / 512].bytes[bit % 512 / 8] ^= (uint8_t)(1 << bit % 8);
        }
        if (gt__instruction_check(e.record, 1 + bits / 512 - 1, &length) == GT_OK)
            accepted += try_infer(&n, e.record);
    }
    CHECK(accepted > MANY / 100);
}

static void test_text(const void *argument)
{
    (void)argument;
    numbers n = {.state = 3};
    for (int round = 0; round < 200000; round++) {
        gt_slot slot;
        numbers_fill(&n, &slot, sizeof slot);
        if (round % 2)
            slot.ins.op %= GT_OP_COUNT;
        size_t size = 1 + numbers_below(&n, 200);
        char *text = malloc(size);
        memset(text, 1, size);
        CHECK(gt__instruction_text(&slot.ins, text, size) == text);
        CHECK(memchr(text, 0, size));
        free(text);
    }
    char text[64];
    gt_instruction add = {.op = GT_OP_add, .result = 7, .operand = {3, 4}};
    CHECK(strcmp(gt__instruction_text(&add, text, sizeof text), "add 7 = 3, 4") == 0);
    gt_instruction scaled = {.op = GT_OP_mul, .result = 8, .literals = GT_LITERAL_FLOAT << 2, .operand = {3}};
    scaled.literal[1].f = 0.5;
    CHECK(strcmp(gt__instruction_text(&scaled, text, sizeof text), "mul 8 = 3, (0.5)") == 0);
    /* Control records: the tensors that are meant, wherever the record has them. */
    static const struct {
        gt_instruction ins;
        const char *text;
    } records[] = {
        {.ins = {.op = GT_OP_full, .result = 7}, .text = "full 7"},
        {.ins = {.op = GT_OP_cat, .result = 7, .imm = {{.i = 0}, {.i = 3}}}, .text = "cat 7 = 3 tensors"},
        {.ins = {.op = GT_OP_fetch, .result = 1, .operand = {4}}, .text = "fetch 4 (ticket 1)"},
        {.ins = {.op = GT_OP_placement, .result = 2, .operand = {4}}, .text = "placement 4 (ticket 2)"},
        {.ins = {.op = GT_OP_sync, .result = 3}, .text = "sync (ticket 3)"},
        {.ins = {.op = GT_OP_data, .operand = {4}, .imm = {{.u = 32}, {.u = 8}}}, .text = "data 4"},
        {.ins = {.op = GT_OP_free, .result = 5, .operand = {6, 7, 8}, .imm = {{.u = 9}}},
         .text = "free 5, 6, 7, 8, 9"},
        {.ins = {.op = GT_OP_send, .operand = {4}, .imm = {{.i = 1}, {.i = 99}}}, .text = "send 4"},
        {.ins = {.op = GT_OP_recv, .result = 5, .imm = {{.i = 1}, {.i = 99}}}, .text = "recv 5"},
        {.ins = {.op = GT_OP_all_reduce, .result = 9, .operand = {8, 1}}, .text = "all_reduce 9 = 8"},
        {.ins = {.op = GT_OP_mark, .scope = 3}, .text = "mark"},
        {.ins = {.op = GT_OP_reply, .result = 1}, .text = "reply (ticket 1)"},
        {.ins = {.op = GT_OP_COUNT}, .text = "invalid"},
    };
    for (size_t k = 0; k < sizeof records / sizeof *records; k++)
        if (!CHECK(strcmp(gt__instruction_text(&records[k].ins, text, sizeof text), records[k].text) == 0))
            fprintf(stderr, "  %s, not %s\n", text, records[k].text);
}

/* ---- the table ---------------------------------------------------------------------------------------------- */

static void test_table(const void *argument)
{
    (void)argument;
    for (unsigned op = 1; op < GT_OP_COUNT; op++) {
        gt_opcode found = GT_OP_INVALID;
        CHECK(gt__op_find(gt__op_table[op].name, &found) == &gt__op_table[op]);
        CHECK_EQ(found, op);
    }
    CHECK(!gt__op_find("", NULL));
    CHECK(!gt__op_find("adds", NULL));
}

static uint64_t hash_rows(const gt_op_row *rows)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (unsigned op = 1; op < GT_OP_COUNT; op++) {
        char text[80];
        int length = snprintf(text, sizeof text, "%s%c%c%c", rows[op].name, 0, rows[op].form, rows[op].types);
        for (int k = 0; k < length; k++)
            hash = (hash ^ (uint8_t)text[k]) * 0x100000001b3u;
    }
    const uint32_t sizes[] = {64, 32 * 1024, 12}; /* an instruction, a chunk, dtypes */
    for (size_t k = 0; k < sizeof sizes; k++)
        hash = (hash ^ ((const uint8_t *)sizes)[k]) * 0x100000001b3u;
    return hash;
}

/* The hash is that of names, forms and types in order, then the sizes: any change to a row makes another one. */
static void test_table_hash(const void *argument)
{
    (void)argument;
    static gt_op_row rows[GT_OP_COUNT];
    CHECK(gt__op_table_hash() == hash_rows(gt__op_table));
    for (unsigned op = 1; op < GT_OP_COUNT; op++) {
        memcpy(rows, gt__op_table, sizeof rows);
        rows[op].name = "other";
        CHECK(gt__op_table_hash() != hash_rows(rows));
        rows[op] = gt__op_table[op];
        rows[op].form++;
        CHECK(gt__op_table_hash() != hash_rows(rows));
        rows[op] = gt__op_table[op];
        rows[op].types++;
        CHECK(gt__op_table_hash() != hash_rows(rows));
    }
}

/* ---- dtypes ------------------------------------------------------------------------------------------------- */

/* torch.promote_types. */
static void test_promotion(const void *argument)
{
    (void)argument;
    enum { B = GT_BOOL, U = GT_UINT8, C = GT_INT8, S = GT_INT16, I = GT_INT32, L = GT_INT64 };
    enum { H = GT_FLOAT16, G = GT_BFLOAT16, F = GT_FLOAT32, D = GT_FLOAT64, Y = GT_COMPLEX64, Z = GT_COMPLEX128 };
    static const uint8_t table[GT_DTYPE_COUNT][GT_DTYPE_COUNT] = {
        [B] = {B, U, C, S, I, L, H, G, F, D, Y, Z}, [U] = {U, U, S, S, I, L, H, G, F, D, Y, Z},
        [C] = {C, S, C, S, I, L, H, G, F, D, Y, Z}, [S] = {S, S, S, S, I, L, H, G, F, D, Y, Z},
        [I] = {I, I, I, I, I, L, H, G, F, D, Y, Z}, [L] = {L, L, L, L, L, L, H, G, F, D, Y, Z},
        [H] = {H, H, H, H, H, H, H, F, F, D, Y, Z}, [G] = {G, G, G, G, G, G, F, G, F, D, Y, Z},
        [F] = {F, F, F, F, F, F, F, F, F, D, Y, Z}, [D] = {D, D, D, D, D, D, D, D, D, D, Z, Z},
        [Y] = {Y, Y, Y, Y, Y, Y, Y, Y, Y, Z, Y, Z}, [Z] = {Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z},
    };
    for (unsigned a = 0; a < GT_DTYPE_COUNT; a++)
        for (unsigned b = 0; b < GT_DTYPE_COUNT; b++)
            CHECK_EQ(gt__dtype_promote((gt_dtype)a, (gt_dtype)b), table[a][b]);
    static const struct {
        const char *name;
        size_t size;
    } dtypes[] = {{"bool", 1},    {"uint8", 1},   {"int8", 1},      {"int16", 2},
                  {"int32", 4},   {"int64", 8},   {"float16", 2},   {"bfloat16", 2},
                  {"float32", 4}, {"float64", 8}, {"complex64", 8}, {"complex128", 16}};
    for (unsigned k = 0; k < GT_DTYPE_COUNT; k++) {
        CHECK(strcmp(gt__dtype_name((gt_dtype)k), dtypes[k].name) == 0);
        CHECK_EQ(gt__dtype_size((gt_dtype)k), dtypes[k].size);
    }
}

/* Tensors with dimensions decide, then 0-d ones, then numbers; a lower one counts only by a higher category. */
static void test_mixed_promotion(const void *argument)
{
    (void)argument;
    enum { VECTOR, SCALAR, NUMBER };
    static const struct {
        gt_dtype a;
        int b_kind;
        unsigned b; /* gt_dtype, or gt_literal */
        gt_dtype add;
    } cases[] = {
        {GT_INT32, VECTOR, GT_FLOAT16, GT_FLOAT16},
        {GT_FLOAT16, SCALAR, GT_FLOAT64, GT_FLOAT16},
        {GT_INT64, SCALAR, GT_FLOAT16, GT_FLOAT16},
        {GT_INT8, SCALAR, GT_INT64, GT_INT8},
        {GT_BOOL, SCALAR, GT_UINT8, GT_UINT8},
        {GT_UINT8, NUMBER, GT_LITERAL_INT, GT_UINT8},
        {GT_UINT8, NUMBER, GT_LITERAL_FLOAT, GT_FLOAT32},
        {GT_BOOL, NUMBER, GT_LITERAL_INT, GT_INT64},
        {GT_BOOL, NUMBER, GT_LITERAL_BOOL, GT_BOOL},
        {GT_BOOL, NUMBER, GT_LITERAL_FLOAT, GT_FLOAT32},
        {GT_BFLOAT16, NUMBER, GT_LITERAL_FLOAT, GT_BFLOAT16},
        {GT_INT64, NUMBER, GT_LITERAL_FLOAT, GT_FLOAT32},
        {GT_FLOAT64, NUMBER, GT_LITERAL_FLOAT, GT_FLOAT64},
        {GT_INT32, NUMBER, GT_LITERAL_BOOL, GT_INT32},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        gt_meta a, b, out;
        gt_dtype compute;
        gt_instruction add = {.op = GT_OP_add};
        META(&a, cases[k].a, 3);
        const gt_meta *in[2] = {&a, cases[k].b_kind == NUMBER ? NULL : &b};
        if (cases[k].b_kind == NUMBER)
            add.literals = (uint8_t)(cases[k].b << 2);
        else
            CHECK_EQ(gt__meta_set(&b, (gt_dtype)cases[k].b, cases[k].b_kind == VECTOR, (int64_t[]){1}), GT_OK);
        CHECK_EQ(gt__op_infer(&add, NULL, in, &out, &compute), GT_OK);
        CHECK_EQ(out.dtype, cases[k].add);
        CHECK_EQ(compute, cases[k].add);
    }
}

static void test_types_column(const void *argument)
{
    (void)argument;
    static const struct {
        gt_opcode op;
        gt_dtype in, out, compute;
    } cases[] = {
        {GT_OP_exp, GT_INT32, GT_FLOAT32, GT_FLOAT32},      {GT_OP_exp, GT_FLOAT16, GT_FLOAT16, GT_FLOAT16},
        {GT_OP_div, GT_INT64, GT_FLOAT32, GT_FLOAT32},      {GT_OP_lt, GT_INT64, GT_BOOL, GT_INT64},
        {GT_OP_sum, GT_BOOL, GT_INT64, GT_INT64},           {GT_OP_sum, GT_UINT8, GT_INT64, GT_INT64},
        {GT_OP_sum, GT_BFLOAT16, GT_BFLOAT16, GT_BFLOAT16}, {GT_OP_mean, GT_INT64, GT_FLOAT32, GT_FLOAT32},
        {GT_OP_argmax, GT_FLOAT64, GT_INT64, GT_INT64},     {GT_OP_cumsum, GT_INT32, GT_INT64, GT_INT64},
        {GT_OP_neg, GT_UINT8, GT_UINT8, GT_UINT8},          {GT_OP_logical_not, GT_FLOAT64, GT_BOOL, GT_FLOAT64},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        gt_meta a, out;
        gt_dtype compute;
        gt_instruction ins = {.op = (uint16_t)cases[k].op};
        META(&a, cases[k].in, 3);
        const gt_meta *in[2] = {&a, &a};
        CHECK_EQ(gt__op_infer(&ins, NULL, in, &out, &compute), GT_OK);
        CHECK_EQ(out.dtype, cases[k].out);
        CHECK_EQ(compute, cases[k].compute);
    }
    const struct {
        gt_opcode op;
        gt_err err;
    } refused[] = {{GT_OP_neg, GT_ERR_TYPE}, {GT_OP_sub, GT_ERR_TYPE}, {GT_OP_matmul, GT_ERR_UNSUPPORTED}};
    for (int k = 0; k < 3; k++) {
        gt_meta a, out;
        gt_dtype compute;
        gt_instruction ins = {.op = (uint16_t)refused[k].op};
        META(&a, GT_BOOL, 3);
        CHECK_EQ(gt__op_infer(&ins, NULL, (const gt_meta *[]){&a, &a}, &out, &compute), refused[k].err);
    }
}

/* ---- shapes ------------------------------------------------------------------------------------------------- */

/* Where gt__op_result_like says what the result looks like, inference says the same, and computes in that dtype. */
static void check_like(gt_opcode op, unsigned literals, const gt_meta *a, const gt_meta *b, long *said)
{
    gt_slot record = {.ins = {.op = (uint16_t)op, .literals = (uint8_t)literals}};
    const gt_meta *like = gt__op_result_like(op, literals, a, b), *in[] = {a, b};
    gt_meta out;
    gt_dtype compute;
    if (!like)
        return;
    ++*said;
    if (!CHECK_EQ(gt__op_infer(&record.ins, NULL, in, &out, &compute), GT_OK))
        fprintf(stderr, "%s: %s\n", gt__op_table[op].name, gt_error_text());
    else if (out.dtype != like->dtype || compute != (gt_dtype)like->dtype || !gt__meta_same_shape(&out, like))
        CHECK(!gt__op_table[op].name);
}

static void test_result_like(const void *argument)
{
    (void)argument;
    long said = 0;
    for (unsigned op = 1; op < GT_OP_FIRST_CONTROL; op++)
        for (unsigned first = 0; first < GT_DTYPE_COUNT; first++) {
            gt_meta a, b, wide;
            META(&a, (gt_dtype)first, 2, 3);
            META(&wide, (gt_dtype)first, 4, 2, 3);
            if (gt__op_table[op].operands == 1)
                check_like((gt_opcode)op, 0, &a, NULL, &said);
            if (gt__op_table[op].operands != 2)
                continue;
            for (unsigned second = 0; second < GT_DTYPE_COUNT; second++) {
                META(&b, (gt_dtype)second, 2, 3);
                check_like((gt_opcode)op, 0, &a, &b, &said);
                CHECK(first == second || !gt__op_result_like((gt_opcode)op, 0, &a, &b));
            }
            CHECK(!gt__op_result_like((gt_opcode)op, 0, &a, &wide));
            for (unsigned kind = GT_LITERAL_BOOL; kind <= GT_LITERAL_FLOAT; kind++) {
                check_like((gt_opcode)op, kind << 2, &a, NULL, &said);
                check_like((gt_opcode)op, kind, NULL, &a, &said);
            }
        }
    CHECK(said > 500);
}

static void test_broadcast(const void *argument)
{
    (void)argument;
    numbers n = {.state = 4};
    unsigned agreed = 0;
    for (int round = 0; round < 200000; round++) {
        gt_meta meta[2], out = {.dtype = GT_INT8};
        int64_t wanted[GT_MAX_RANK], numel = 1;
        unsigned rank = 0;
        bool fits = true;
        for (int k = 0; k < 2; k++) {
            int64_t shape[GT_MAX_RANK];
            unsigned own = (unsigned)numbers_below(&n, GT_MAX_RANK + 1);
            for (unsigned axis = 0; axis < own; axis++)
                shape[axis] = (int64_t)(numbers_below(&n, 8) ? 1 + numbers_below(&n, 2) * numbers_below(&n, 2)
                                                             : numbers_below(&n, 4));
            gt__meta_set(&meta[k], GT_FLOAT32, own, shape);
            rank = own > rank ? own : rank;
        }
        for (unsigned back = 1; back <= rank; back++) { /* axes counted from the last */
            int64_t a = back <= meta[0].rank ? meta[0].shape[meta[0].rank - back] : 1;
            int64_t b = back <= meta[1].rank ? meta[1].shape[meta[1].rank - back] : 1;
            fits &= a == b || a == 1 || b == 1;
            wanted[rank - back] = a == 1 ? b : a;
            numel *= wanted[rank - back];
        }
        gt_err err = gt__meta_broadcast(&meta[0], &meta[1], &out);
        CHECK_EQ(err, fits ? GT_OK : GT_ERR_VALUE);
        if (!fits)
            continue;
        agreed++;
        CHECK(out.rank == rank && out.numel == numel && out.dtype == GT_INT8);
        CHECK(memcmp(out.shape, wanted, rank * sizeof wanted[0]) == 0);
    }
    CHECK(agreed > 10000);
}

static void test_huge(const void *argument)
{
    (void)argument;
    const int64_t most = (int64_t)1 << 58, big = INT64_MAX;
    gt_meta meta;
    CHECK_EQ(gt__meta_set(&meta, GT_COMPLEX128, 1, &most), GT_OK);
    CHECK_EQ(meta.numel, most);
    CHECK_EQ(gt__meta_set(&meta, GT_COMPLEX128, 1, (int64_t[]){most + 1}), GT_ERR_MEMORY);
    CHECK_EQ(gt__meta_set(&meta, GT_BOOL, 2, (int64_t[]){most, 2}), GT_ERR_MEMORY);
    CHECK_EQ(gt__meta_set(&meta, GT_BOOL, 3, (int64_t[]){0, big, big}), GT_ERR_MEMORY);
    CHECK_EQ(gt__meta_set(&meta, GT_BOOL, 8, (int64_t[]){256, 256, 256, 256, 256, 256, 256, 256}), GT_ERR_MEMORY);
    CHECK_EQ(gt__meta_set(&meta, GT_BOOL, 2, (int64_t[]){3, -1}), GT_ERR_VALUE);
    CHECK_EQ(gt__meta_set(&meta, GT_BOOL, GT_MAX_RANK + 1, NULL), GT_ERR_VALUE);
    CHECK_EQ(gt__meta_set(&meta, GT_DTYPE_COUNT, 0, NULL), GT_ERR_TYPE);
    gt_dtype compute;
    gt_meta column, row, out;
    META(&column, GT_FLOAT32, (int64_t)1 << 30, 1);
    META(&row, GT_FLOAT32, 1, (int64_t)1 << 30);
    const gt_meta *in[3] = {&column, &row, &row};
    gt_instruction matmul = {.op = GT_OP_matmul}, add = {.op = GT_OP_add};
    CHECK_EQ(gt__op_infer(&matmul, NULL, in, &out, &compute), GT_ERR_MEMORY);
    CHECK_EQ(gt__op_infer(&add, NULL, in, &out, &compute), GT_ERR_MEMORY);
    gt_instruction cat = {.op = GT_OP_cat, .tail = 1, .imm = {{.i = 0}, {.i = 3}}};
    gt_slot ids = {0};
    META(&row, GT_FLOAT32, most / 2);
    CHECK_EQ(gt__op_infer(&cat, &ids, (const gt_meta *[]){&row, &row, &row}, &out, &compute), GT_ERR_MEMORY);
}

static gt_err infer_slice(int64_t size, int64_t start, int64_t step, int64_t count)
{
    gt_meta a, out;
    gt_dtype compute;
    META(&a, GT_FLOAT32, size);
    gt_slot tail[3] = {{.i64 = {start}}, {.i64 = {step}}, {.i64 = {count}}};
    gt_instruction slice = {.op = GT_OP_slice, .tail = 3};
    return gt__op_infer(&slice, tail, (const gt_meta *[]){&a}, &out, &compute);
}

static void test_slices(const void *argument)
{
    (void)argument;
    CHECK_EQ(infer_slice(10, 9, -3, 4), GT_OK);
    CHECK_EQ(infer_slice(10, 9, -3, 5), GT_ERR_INDEX);
    CHECK_EQ(infer_slice(10, 10, 1, 0), GT_OK);
    CHECK_EQ(infer_slice(10, 10, 1, 1), GT_ERR_INDEX);
    CHECK_EQ(infer_slice(10, 11, 1, 0), GT_ERR_INDEX);
    CHECK_EQ(infer_slice(10, -1, 1, 1), GT_ERR_INDEX);
    CHECK_EQ(infer_slice(10, 0, 0, 1), GT_ERR_INDEX);
    CHECK_EQ(infer_slice(10, 0, 1, -1), GT_ERR_INDEX);
    CHECK_EQ(infer_slice(10, 1, INT64_MAX, 3), GT_ERR_INDEX);
    CHECK_EQ(infer_slice(10, 1, INT64_MIN, 2), GT_ERR_INDEX);
    CHECK_EQ(infer_slice(10, 1, INT64_MIN, 1), GT_OK);
    CHECK_EQ(infer_slice(10, 0, 1, INT64_MAX), GT_ERR_INDEX);
}

static void test_error_texts(const void *argument)
{
    (void)argument;
    CHECK_EQ(gt__fail(GT_ERR_VALUE, "%d of %s", 3, "four"), GT_ERR_VALUE);
    CHECK(strcmp(gt_error_text(), "3 of four") == 0);
    char longest[3000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    gt__fail(GT_ERR_VALUE, "%s", longest);
    CHECK_EQ(strlen(gt_error_text()), 1023);
    CHECK(strcmp(gt_error_name(GT_ERR_MEMORY), "out of memory") == 0);
    CHECK(strcmp(gt_error_name((gt_err)99), "unknown error") == 0);
    char text[8];
    CHECK(strcmp(gt__shape_text(1, (int64_t[]){3}, text, sizeof text), "(3,)") == 0);
    gt__shape_text(3, (int64_t[]){INT64_MAX, INT64_MAX, 1}, text, sizeof text);
    CHECK_EQ(strlen(text), sizeof text - 1);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("examples", test_examples, NULL);
    check_run("truncation", test_truncation, NULL);
    check_run("bad fields", test_bad_fields, NULL);
    check_run("consumes", test_consumes, NULL);
    check_run("random bytes", test_random_bytes, NULL);
    check_run("bit flips", test_bit_flips, NULL);
    check_run("text", test_text, NULL);
    check_run("table", test_table, NULL);
    check_run("table hash", test_table_hash, NULL);
    check_run("promotion", test_promotion, NULL);
    check_run("mixed promotion", test_mixed_promotion, NULL);
    check_run("types column", test_types_column, NULL);
    check_run("result like", test_result_like, NULL);
    check_run("broadcast", test_broadcast, NULL);
    check_run("huge shapes", test_huge, NULL);
    check_run("slices", test_slices, NULL);
    check_run("error texts", test_error_texts, NULL);
    return check_end();
}
