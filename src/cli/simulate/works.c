/*
 * cli/simulate/works.c: which instructions cost the same: a work for each op, shapes and dtypes of its operands, and whatever else
 * decides how much there is to do. Its key says all of that, and is its name in files of costs.
 *
 * Moves and collectives between workers whose memory the processor reads are made of copies and sums, as collective_host.c does
 * them: such a work consists of parts, which are works themselves.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/simulate/simulate.h"
#include "core/record.h"
#include "dispatcher/share.h"

/* ---- keys ---------------------------------------------------------------------------------------------------- */

typedef struct text {
    char at[GT_SIM_KEY];
    size_t length;
} text;

static void add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(t->at + t->length, sizeof t->at - t->length, format, arguments);
    va_end(arguments);
    t->length += length > 0 ? (size_t)length : 0;
    if (t->length >= sizeof t->at)
        t->length = sizeof t->at - 1;
}

static void add_tensor(text *t, const gt_meta *meta)
{
    char shape[128];
    add(t, " %s%s", gt__dtype_name((gt_dtype)meta->dtype),
        gt__shape_text(meta->rank, meta->shape, shape, sizeof shape));
}

static uint64_t hash_of(const void *data, size_t bytes)
{
    const uint8_t *at = data;
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t k = 0; k < bytes; k++)
        hash = (hash ^ at[k]) * 1099511628211u;
    return hash;
}

/* Whether the immediates are numbers of the program, such as a seed, which do not change how much there is to do. */
static bool ignores_immediates(gt_form form)
{
    return form <= GT_FORM_TERNARY || (form >= GT_FORM_SAMPLE && form <= GT_FORM_UPLOAD);
}

/* Whether the tail says more than the shape of the result. */
static bool has_window(gt_form form)
{
    return form >= GT_FORM_CONV && form <= GT_FORM_IM2COL;
}

static void write_key(text *t, const gt_slot *record, const gt_sim_tensor *const *operands, unsigned count,
                      const gt_meta *out)
{
    const gt_instruction *ins = &record->ins;
    gt_form form = (gt_form)gt__op_table[ins->op].form;
    enum { NAMED = 4 }; /* operands of a long cat: the others are the same, or told apart by a number */
    uint64_t others = 0;
    add(t, "%s", gt__op_table[ins->op].name);
    for (unsigned k = 0; k < count; k++) {
        if (k >= NAMED && operands[k]) {
            others = 31 * others + hash_of(operands[k]->meta.shape, operands[k]->meta.rank * sizeof(int64_t));
            continue;
        }
        if (!operands[k]) {
            add(t, " number");
            continue;
        }
        add_tensor(t, &operands[k]->meta);
        if (operands[k]->permuted)
            add(t, "/%llx", (unsigned long long)operands[k]->permuted);
    }
    if (count > NAMED)
        add(t, " and %u more %llx", count - NAMED, (unsigned long long)others);
    add(t, " =");
    add_tensor(t, out);
    if (!ignores_immediates(form) && (ins->imm[0].u || ins->imm[1].u))
        add(t, " %llx,%llx", (unsigned long long)ins->imm[0].u, (unsigned long long)ins->imm[1].u);
    if (has_window(form))
        add(t, " window %llx", (unsigned long long)hash_of(record + 1, ins->tail * sizeof *record));
    if (gt__record_consumed(ins))
        add(t, " in place");
}

/* ---- the table ----------------------------------------------------------------------------------------------- */

static uint32_t *place_of(gt_streams *s, const char *key)
{
    size_t at = hash_of(key, strlen(key)) % s->work_index_size;
    while (s->work_index[at] && strcmp(s->works[s->work_index[at] - 1].key, key) != 0)
        at = (at + 1) % s->work_index_size;
    return &s->work_index[at];
}

static void grow_index(gt_streams *s)
{
    if (2 * (s->work_count + 1) < s->work_index_size)
        return;
    free(s->work_index);
    s->work_index_size = s->work_index_size ? 4 * s->work_index_size : 1024;
    s->work_index = gt__zeroed(s->work_index_size, sizeof *s->work_index);
    for (size_t k = 0; k < s->work_count; k++)
        *place_of(s, s->works[k].key) = (uint32_t)k + 1;
}

/* The work of this key; *fresh: it is new, and empty. */
static gt_sim_work *find_or_add(gt_streams *s, const char *key, bool *fresh)
{
    grow_index(s);
    uint32_t *place = place_of(s, key);
    *fresh = !*place;
    if (!*place) {
        gt_sim_work *work = GT_PUSH(s->works, s->work_count, s->work_capacity);
        *work = (gt_sim_work){.key = strdup(key), .ns = -1};
        if (!work->key)
            gt__out_of_memory();
        *place = (uint32_t)s->work_count;
    }
    return &s->works[*place - 1];
}

void gt__work_free(gt_sim_work *work)
{
    free(work->key);
    free(work->record);
    free(work->operands);
    free(work->outputs);
    free(work->parts);
}

/* ---- instructions -------------------------------------------------------------------------------------------- */

/* Bytes that pass through memory. */
static double bytes_of(const gt_instruction *ins, const gt_sim_tensor *const *operands, unsigned count,
                       const gt_meta *out)
{
    gt_form form = (gt_form)gt__op_table[ins->op].form;
    double bytes = (double)gt__meta_bytes(out);
    if (form == GT_FORM_TAKE || form == GT_FORM_GATHER) /* reads as much as it writes, and the index */
        return 2 * bytes + (operands[1] ? (double)gt__meta_bytes(&operands[1]->meta) : 0);
    if (form == GT_FORM_ASSIGN && gt__record_consumed(ins))
        return operands[1] ? 2 * (double)gt__meta_bytes(&operands[1]->meta) : 0;
    for (unsigned k = 0; k < count; k++)
        bytes += operands[k] ? (double)gt__meta_bytes(&operands[k]->meta) : 0;
    return bytes;
}

static void keep_operands(gt_sim_work *work, const gt_sim_tensor *const *operands, unsigned count)
{
    work->operands = gt__zeroed(count ? count : 1, sizeof *work->operands);
    work->operand_count = count;
    for (unsigned k = 0; k < count; k++)
        work->operands[k] = operands[k] ? *operands[k] : (gt_sim_tensor){.meta.numel = -1};
}

uint32_t gt__work_of(gt_streams *s, const gt_slot *record, const gt_sim_tensor *const *operands, unsigned count,
                     const gt_meta *out)
{
    const gt_instruction *ins = &record->ins;
    gt_form form = (gt_form)gt__op_table[ins->op].form;
    if (form == GT_FORM_UPLOAD)
        return gt__work_of_move(s, GT_OP_upload, out, 1, (double)gt__meta_bytes(out));
    text key = {.length = 0};
    bool fresh;
    write_key(&key, record, operands, count, out);
    gt_sim_work *work = find_or_add(s, key.at, &fresh);
    work->count++;
    if (!fresh)
        return (uint32_t)(work - s->works);
    const gt_meta *meta[GT_MAX_CAT];
    for (unsigned k = 0; k < count; k++)
        meta[k] = operands[k] ? &operands[k]->meta : NULL;
    work->op = ins->op;
    work->dtype = out->dtype;
    work->view = form >= GT_FORM_RESHAPE && form <= GT_FORM_UNFOLD;
    work->bytes = work->view ? 0 : bytes_of(ins, operands, count, out);
    work->fast = (form == GT_FORM_MATMUL || form == GT_FORM_LINEAR) && ins->imm[0].i == GT_PRODUCT_FAST;
    work->flops = gt__share_flops(ins, meta, count, out);
    size_t slots = 1u + ins->tail;
    work->record = gt__zeroed(slots, sizeof *record);
    memcpy(work->record, record, slots * sizeof *record);
    keep_operands(work, operands, count);
    return (uint32_t)(work - s->works);
}

/* ---- moves --------------------------------------------------------------------------------------------------- */

/* A vector of so many elements. */
static gt_sim_tensor vector_of(gt_dtype dtype, double elements)
{
    int64_t count = elements < 1 ? 1 : (int64_t)elements;
    return (gt_sim_tensor){.meta = {.numel = count, .dtype = (uint8_t)dtype, .rank = 1, .shape = {count}}};
}

/* A part: `times` copies, or sums of two, of vectors of so many bytes. */
static gt_sim_part part_of(gt_streams *s, gt_opcode op, gt_dtype dtype, double bytes, double times)
{
    gt_sim_tensor vector = vector_of(dtype, bytes / (double)gt__dtype_size(dtype));
    const gt_sim_tensor *operands[] = {&vector, &vector};
    gt_slot record = {.ins = {.op = (uint16_t)op, .result = 3, .operand = {1, 2}}};
    uint32_t work = gt__work_of(s, &record, operands, op == GT_OP_copy ? 1 : 2, &vector.meta);
    s->works[work].count--; /* no instruction of the program */
    return (gt_sim_part){.work = work, .times = times};
}

static void add_part(gt_streams *s, uint32_t work, gt_sim_part part)
{
    gt_sim_work *whole = &s->works[work];
    *GT_PUSH(whole->parts, whole->part_count, whole->part_capacity) = part;
}

enum { SMALL_SUM = 16 << 10 }; /* bytes: below, each party adds up everything (collective_host.c) */

typedef struct move_cost {
    double sent;     /* bytes that a party gives to others */
    unsigned steps;  /* of messages */
    double sums;     /* that a party computes, of */
    double sum_size; /* bytes each */
    double copied;   /* bytes that it copies */
} move_cost;

static move_cost cost_of_move(gt_opcode op, double bytes, unsigned parties, double part)
{
    double n = parties, others = n - 1;
    switch (op) {
    case GT_OP_all_reduce:
        if (bytes <= SMALL_SUM)
            return (move_cost){.sent = others * bytes, .steps = 1, .sums = others, .sum_size = bytes};
        return (move_cost){.sent = 2 * bytes * others / n,
                           .steps = 2,
                           .sums = others,
                           .sum_size = bytes / n,
                           .copied = bytes * others / n};
    case GT_OP_reduce_scatter:
        return (move_cost){.sent = bytes * others / n, .steps = 1, .sums = others, .sum_size = part};
    case GT_OP_all_gather:
        return (move_cost){.sent = bytes * others / n, .steps = 1, .copied = bytes};
    case GT_OP_all_to_all:
        return (move_cost){.sent = part * others / n, .steps = 1, .copied = part};
    case GT_OP_broadcast:
        return (move_cost){.sent = bytes, .steps = 1, .copied = bytes};
    case GT_OP_send:
        return (move_cost){.sent = bytes, .steps = 1};
    case GT_OP_recv:
    case GT_OP_upload:
    case GT_OP_fetch:
        return (move_cost){.copied = part};
    default:
        return (move_cost){0};
    }
}

uint32_t gt__work_of_move(gt_streams *s, gt_opcode op, const gt_meta *whole, unsigned parties, double part)
{
    text key = {.length = 0};
    bool fresh;
    add(&key, "%s", gt__op_table[op].name);
    if (part > 0)
        add_tensor(&key, whole);
    if (parties > 1)
        add(&key, " parties %u", parties);
    if (op == GT_OP_reduce_scatter || op == GT_OP_all_to_all)
        add(&key, " part %.0f", part);
    gt_sim_work *work = find_or_add(s, key.at, &fresh);
    uint32_t number = (uint32_t)(work - s->works);
    work->count++;
    if (!fresh)
        return number;
    move_cost cost = cost_of_move(op, (double)gt__meta_bytes(whole), parties, part);
    gt_dtype dtype = (gt_dtype)whole->dtype;
    if (cost.sums > 0)
        add_part(s, number, part_of(s, GT_OP_add, dtype, cost.sum_size, cost.sums));
    if (cost.copied > 0)
        add_part(s, number, part_of(s, GT_OP_copy, dtype, cost.copied, 1));
    work = &s->works[number]; /* the parts may have moved it */
    work->op = (uint16_t)op;
    work->dtype = whole->dtype;
    work->parties = parties;
    work->sent = cost.sent;
    work->steps = cost.steps;
    work->bytes = part;
    return number;
}

/* ---- hot paths ----------------------------------------------------------------------------------------------- */

uint64_t gt__path_hash(const gt_path *path)
{
    uint64_t hash = path->count;
    for (uint32_t at = 0; at < path->slots; at += 1u + path->records[at].ins.tail) {
        gt_instruction ins = path->records[at].ins;
        ins.scope = ins.site = 0;
        for (unsigned k = 0; k < GT_MAX_OPERANDS && ins.op < GT_OP_FIRST_CONTROL; k++)
            if (gt__literal(&ins, k) != GT_LITERAL_NONE)
                ins.operand[k] = 0;
        if (ins.op < GT_OP_FIRST_CONTROL && ignores_immediates((gt_form)gt__op_table[ins.op].form))
            ins.imm[0].u = ins.imm[1].u = 0;
        hash = 31 * hash + hash_of(&ins, sizeof ins);
        /* Where a worker's part begins is no other work: the start of a slice, and numbers behind the shape of what is made. */
        gt_form form = (gt_form)gt__op_table[ins.op].form;
        unsigned from = form == GT_FORM_SLICE, to = form >= GT_FORM_FULL && form <= GT_FORM_RANDOM ? 1 : ins.tail;
        for (unsigned k = from; k < to; k++)
            hash = 31 * hash + hash_of(&path->records[at + 1 + k], sizeof(gt_slot));
    }
    return hash;
}

/* Infer the locals of a path one by one, and add its parts: instructions that engines do not compute with those around them. */
static gt_err add_locals(gt_streams *s, uint32_t number, const gt_path *path, const gt_sim_tensor *const *inputs,
                         gt_sim_tensor *locals)
{
    uint32_t made = 0;
    for (uint32_t at = 0; at < path->slots; at += 1u + path->records[at].ins.tail) {
        const gt_slot *record = path->records + at;
        const gt_sim_tensor *tensor[GT_MAX_CAT];
        const gt_meta *meta[GT_MAX_CAT];
        gt_dtype compute;
        if (record->ins.op >= GT_OP_FIRST_CONTROL)
            continue;
        gt_operands operands = gt__record_operands(&record->ins, record + 1);
        for (unsigned k = 0; k < operands.count; k++) {
            uint64_t id = operands.id[k];
            tensor[k] = !gt__operand_is_tensor(&operands, k) ? NULL
                        : id >= GT_PATH_INPUT                ? inputs[id - GT_PATH_INPUT]
                                                             : &locals[id - 1];
            meta[k] = tensor[k] ? &tensor[k]->meta : NULL;
        }
        gt_sim_tensor *out = &locals[made++];
        GT_TRY(gt__op_infer(&record->ins, record + 1, meta, &out->meta, &compute));
        gt_form form = (gt_form)gt__op_table[record->ins.op].form;
        if (form <= GT_FORM_TERNARY || (form >= GT_FORM_RESHAPE && form <= GT_FORM_COPY))
            continue;
        uint32_t part = gt__work_of(s, record, tensor, operands.count, &out->meta);
        s->works[part].count--;
        add_part(s, number, (gt_sim_part){.work = part, .times = 1});
    }
    return GT_OK;
}

static gt_err fill_path(gt_streams *s, uint32_t number, const gt_path *path, const gt_sim_tensor *const *inputs)
{
    gt_sim_tensor *locals = gt__zeroed(path->count + 1, sizeof *locals);
    gt_err err = add_locals(s, number, path, inputs, locals);
    gt_sim_work *work = &s->works[number];
    work->op = GT_OP_repeat;
    work->dtype = path->inputs ? inputs[0]->meta.dtype : GT_FLOAT32;
    work->path = path;
    work->outputs = gt__zeroed(path->outputs + 1, sizeof *work->outputs);
    for (uint32_t k = 0; k < path->outputs; k++) {
        work->outputs[k] = locals[path->output[k]].meta;
        work->bytes += (double)gt__meta_bytes(&work->outputs[k]);
    }
    for (uint32_t k = 0; k < path->inputs; k++)
        work->bytes += (double)gt__meta_bytes(&inputs[k]->meta);
    keep_operands(work, inputs, path->inputs);
    free(locals);
    return err;
}

gt_err gt__work_of_path(gt_streams *s, const struct gt_sim_path *known, const gt_sim_tensor *const *inputs,
                        uint32_t *number)
{
    text key = {.length = 0};
    bool fresh;
    uint64_t hash = known->hash;
    for (uint32_t k = 0; k < known->path->inputs; k++) {
        const gt_meta *meta = &inputs[k]->meta;
        hash = 31 * hash + hash_of(meta->shape, meta->rank * sizeof meta->shape[0]);
        hash = 31 * hash + meta->dtype + 256 * inputs[k]->permuted;
    }
    add(&key, "repeat %u instructions %016llx", known->path->count, (unsigned long long)hash);
    gt_sim_work *work = find_or_add(s, key.at, &fresh);
    *number = (uint32_t)(work - s->works);
    work->count++;
    return fresh ? fill_path(s, *number, known->path, inputs) : GT_OK;
}
