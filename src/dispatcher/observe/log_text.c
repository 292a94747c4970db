/*
 * log_text.c: turns events into lines of the instruction log, without printf: a log has three lines for every instruction,
 * and printf would take longer than the instruction. Text that repeats is kept and copied: the columns between the number
 * and the details, and the numbers of tensors.
 */
#include "dispatcher/observe/log_text.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/record.h"

enum { COMMAND_WIDTH = 19, SOURCE_WIDTH = 27, BYTES_WIDTH = 10, MOST_IDS = 16 };

/* ---- pieces ------------------------------------------------------------------------------------------------- */

static inline char *put(char *at, const char *text, size_t length)
{
    memcpy(at, text, length);
    return at + length;
}

#define PUT(at, literal) put(at, literal, sizeof(literal) - 1)

/* "000" to "999", made once: numbers are put together from these. */
static char three_digits[1000][4];

static inline unsigned digits_of(uint64_t value)
{
    unsigned digits = 1;
    for (; value >= 1000; value /= 1000)
        digits += 3;
    return digits + (value >= 10) + (value >= 100);
}

/* In decimal, with zeros in front up to `width` digits; written in place, from its end. */
static inline char *put_number(char *at, uint64_t value, unsigned width)
{
    unsigned digits = digits_of(value);
    digits = digits > width ? digits : width;
    char *end = at + digits, *from = end;
    for (; from - at >= 3; value /= 1000)
        memcpy(from -= 3, three_digits[value % 1000], 3);
    for (unsigned left = (unsigned)(from - at); left > 0; left--)
        at[left - 1] = three_digits[value % 1000][2 - (from - at - left)];
    return end;
}

/* Nine digits of a second: three lookups that do not wait for each other. */
static inline char *put_nanoseconds(char *at, uint32_t ns)
{
    memcpy(at, three_digits[ns / 1000000], 3);
    memcpy(at + 3, three_digits[ns / 1000 % 1000], 3);
    memcpy(at + 6, three_digits[ns % 1000], 3);
    return at + 9;
}

typedef struct number_text {
    uint64_t value;
    unsigned length; /* 0: no text yet */
    char text[20];
} number_text;

/* A number that mostly grows by one, kept as text. */
static char *put_counter(char *at, number_text *counter, uint64_t value)
{
    if (counter->length && value == counter->value + 1 && counter->text[counter->length - 1] != '9')
        counter->text[counter->length - 1]++;
    else if (value != counter->value || !counter->length)
        counter->length = (unsigned)(put_number(counter->text, value, 4) - counter->text);
    counter->value = value;
    memcpy(at, counter->text, sizeof counter->text);
    return at + counter->length;
}

/* The columns from the event to the size, which many lines have in common. */
typedef struct middle_text {
    uint64_t key, bytes;
    unsigned length; /* 0: no text yet */
    char text[188];
} middle_text;

enum { IDS = 256, MIDDLES = 64, MIDDLE_SHORT = 96 };

struct gt_log_format {
    number_text sequence;
    uint64_t elapsed_us;
    unsigned elapsed_length;
    char elapsed[32]; /* "1.608113s" */
    number_text ids[IDS];
    middle_text middles[MIDDLES];
};

/* The number of a tensor, often one of a recent line. */
static inline char *put_id(gt_log_format *format, char *at, uint64_t value)
{
    if (!format)
        return put_number(at, value, 1);
    number_text *id = &format->ids[value % IDS];
    if (id->value != value || !id->length) {
        id->value = value;
        id->length = (unsigned)(put_number(id->text, value, 1) - id->text);
    }
    memcpy(at, id->text, sizeof id->text);
    return at + id->length;
}

static char *put_signed(char *at, int64_t value)
{
    if (value < 0)
        *at++ = '-';
    return put_number(at, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 1);
}

static inline char *put_text(char *at, const char *text)
{
    return put(at, text, strlen(text));
}

char *gt__log_shape(char *at, unsigned rank, const int64_t *shape)
{
    at = PUT(at, " shape=(");
    for (unsigned axis = 0; axis < rank && axis < GT_MAX_RANK; axis++) {
        if (axis)
            *at++ = ',';
        at = put_signed(at, shape[axis]);
    }
    if (rank == 1)
        *at++ = ',';
    *at++ = ')';
    return at;
}

/* "64B", "1.5KB", "123KB", right-aligned. Peers may send any size: all above a million TB look the same. */
static char *put_size(char *at, uint64_t bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    const uint64_t MOST_BYTES = 1ull << 60;
    if (bytes >= 10 && bytes < 100) { /* most records are one slot */
        memcpy(at, "         B", BYTES_WIDTH);
        memcpy(at + BYTES_WIDTH - 3, three_digits[bytes] + 1, 2);
        return at + BYTES_WIDTH;
    }
    char text[32], *end = text;
    unsigned unit = 0;
    uint64_t tenths = (bytes < MOST_BYTES ? bytes : MOST_BYTES) * 10;
    for (; tenths >= 10240 && unit < 4; unit++)
        tenths = (tenths + 512) / 1024;
    end = put_number(end, tenths / 10, 1);
    if (unit && tenths < 100) {
        *end++ = '.';
        *end++ = (char)('0' + tenths % 10);
    }
    end = put_text(end, units[unit]);
    for (ptrdiff_t space = BYTES_WIDTH - (end - text); space > 0; space--)
        *at++ = ' ';
    return put(at, text, (size_t)(end - text));
}

/* ---- names -------------------------------------------------------------------------------------------------- */

static const char *compute_command(const gt_op_row *row)
{
    switch ((gt_form)row->form) {
    case GT_FORM_RESHAPE:
    case GT_FORM_PERMUTE:
    case GT_FORM_EXPAND:
        return "WorkerReshapeOp";
    case GT_FORM_SLICE:
        return "WorkerSliceOp";
    case GT_FORM_CAT:
        return "WorkerConcatOp";
    default: {
        static const char *const by_operands[] = {"WorkerCreateTensor", "WorkerUnaryOp", "WorkerBinaryOp",
                                                  "WorkerTernaryOp"};
        return by_operands[row->operands];
    }
    }
}

const char *gt__log_command(gt_opcode op, bool worker)
{
    const char *name;
    switch (op) {
    case GT_OP_data:
        name = "WorkerUploadData";
        break;
    case GT_OP_free:
        name = "WorkerFreeTensor";
        break;
    case GT_OP_fetch:
        name = "WorkerGetData";
        break;
    case GT_OP_sync:
        name = "WorkerSynchronize";
        break;
    case GT_OP_stats:
        name = "WorkerGetStats";
        break;
    case GT_OP_placement:
        name = "WorkerGetPlacement"; /* never sent to workers */
        break;
    case GT_OP_forget:
        name = "WorkerForgetSegment";
        break;
    case GT_OP_path:
        name = "WorkerDefinePath";
        break;
    case GT_OP_repeat:
        name = "WorkerRunPath";
        break;
    case GT_OP_send:
    case GT_OP_recv:
        name = "WorkerMove";
        break;
    case GT_OP_all_reduce:
        name = "WorkerAllReduce";
        break;
    case GT_OP_reduce_scatter:
        name = "WorkerReduceScatter";
        break;
    case GT_OP_all_gather:
        name = "WorkerAllGather";
        break;
    case GT_OP_broadcast:
        name = "WorkerBroadcast";
        break;
    case GT_OP_all_to_all:
        name = "WorkerAllToAll";
        break;
    case GT_OP_hello:
        return worker ? "RegisterWorker" : "RegisterClient";
    case GT_OP_goodbye:
        return "Disconnect";
    case GT_OP_INVALID:
        return "Connection"; /* not an instruction */
    default:
        name = op > 0 && op < GT_OP_FIRST_CONTROL ? compute_command(&gt__op_table[op]) : NULL;
    }
    return !name ? gt__op_table[op].name : worker ? name : name + sizeof "Worker" - 1;
}

gt_log_text *gt__log_text_new(const char *text, size_t length)
{
    static atomic_uint serials;
    length = length < GT_LOG_TEXT ? length : GT_LOG_TEXT;
    gt_log_text *shared = malloc(sizeof *shared + length);
    if (!shared)
        return NULL;
    *shared = (gt_log_text){.serial = atomic_fetch_add(&serials, 1), .length = (uint16_t)length};
    memcpy(shared->text, text, length);
    return shared;
}

gt_log_text *gt__log_source(const char *kind, const char *name)
{
    char text[GT_LOG_SOURCE];
    int length = snprintf(text, sizeof text, "%s %.63s", kind, name);
    for (int k = 0; k < length; k++)
        if ((unsigned char)text[k] < ' ' || text[k] == '|' || text[k] == 127)
            text[k] = '_'; /* names come from peers */
    return gt__log_text_new(text, (size_t)length);
}

const char gt__event_columns[GT_EVENT_COUNT][GT_EVENT_WIDTH + 1] = {
    [GT_EVENT_RECV] = "RECV        ",        [GT_EVENT_SEND] = "SEND        ",
    [GT_EVENT_WORKER_SEND] = "WORKER_SEND ", [GT_EVENT_WORKER_RECV] = "WORKER_RECV ",
    [GT_EVENT_CONNECT] = "CONNECT     ",     [GT_EVENT_DISCONNECT] = "DISCONNECT  ",
    [GT_EVENT_SIGNAL] = "SIGNAL      ",      [GT_EVENT_ERROR] = "ERROR       ",
};

/* Commands padded to their column, by op and whether a worker is meant. */
typedef struct gt_log_column {
    char text[28];
    unsigned length;
} gt_log_column;

static gt_log_column columns[GT_OP_COUNT][2];
/* " op=add" */
static gt_log_column op_details[GT_OP_COUNT];
static const gt_log_column signal_column = {.text = "Signal             ", .length = COMMAND_WIDTH};

static void make_tables(void)
{
    for (unsigned k = 0; k < 1000; k++) {
        const char digits[] = {(char)('0' + k / 100), (char)('0' + k / 10 % 10), (char)('0' + k % 10)};
        memcpy(three_digits[k], digits, sizeof digits);
    }
    for (unsigned op = 0; op < GT_OP_COUNT; op++)
        for (unsigned worker = 0; worker < 2; worker++) {
            gt_log_column *column = &columns[op][worker];
            int length = snprintf(column->text, sizeof column->text, "%-*s", COMMAND_WIDTH,
                                  gt__log_command((gt_opcode)op, worker));
            column->length = length < (int)sizeof column->text ? (unsigned)length : sizeof column->text - 1;
        }
    for (unsigned op = 0; op < GT_OP_COUNT; op++) {
        int length = snprintf(op_details[op].text, sizeof op_details[op].text, " op=%s", gt__op_table[op].name);
        op_details[op].length =
            length < (int)sizeof op_details[op].text ? (unsigned)length : sizeof op_details[op].text - 1;
    }
}

void gt__log_text_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_tables);
}

/* ---- details ------------------------------------------------------------------------------------------------- */

char *gt__log_number(char *at, const char *key, uint64_t value)
{
    return put_number(put_text(at, key), value, 1);
}

char *gt__log_line_number(char *at, const char *key, uint64_t sequence)
{
    at = put_text(at, key);
    *at++ = '#';
    return put_number(at, sequence, 4);
}

/* A name as one word. */
static char *put_name(char *at, const char *name)
{
    for (; *name; name++)
        *at++ = (unsigned char)*name <= ' ' || *name == '|' || *name == 127 ? '_' : *name;
    return at;
}

void gt__log_place_make(const char *place, char *name, size_t size)
{
    const char *slash = strrchr(place, '/');
    snprintf(name, size, "%s", slash ? slash + 1 : place);
    put_name(name, name);
}

char *gt__log_place(char *at, const char *name)
{
    return put_text(PUT(at, " at="), name);
}

char *gt__log_scope(char *at, const char *name)
{
    return put_name(PUT(at, " scope="), name);
}

char *gt__log_word(char *at, const char *text)
{
    return put_text(at, text);
}

char *gt__log_quoted(char *at, const char *key, const char *text, size_t length)
{
    at = put_text(at, key);
    *at++ = '"';
    for (size_t k = 0; k < length && k < 1024 && text[k]; k++)
        *at++ = (unsigned char)text[k] < ' ' || text[k] == '"' || text[k] == 127 ? '\'' : text[k];
    *at++ = '"';
    return at;
}

static inline char *put_operand(gt_log_format *format, char *at, const gt_instruction *ins, unsigned k,
                                const char *key)
{
    gt_literal literal = gt__literal(ins, k);
    at = put_text(at, key);
    if (literal == GT_LITERAL_NONE)
        return put_id(format, at, ins->operand[k]);
    *at++ = '('; /* a number, not a tensor's */
    at = literal == GT_LITERAL_FLOAT ? at + snprintf(at, 40, "%.9g", ins->literal[k].f)
                                     : put_signed(at, ins->literal[k].i);
    *at++ = ')';
    return at;
}

static inline char *put_operands(gt_log_format *format, char *at, const gt_instruction *ins, const gt_op_row *row)
{
    switch (row->operands) {
    case 0:
        return at;
    case 1:
        return put_operand(format, at, ins, 0, " input=");
    case 2:
        return put_operand(format, put_operand(format, at, ins, 0, " left="), ins, 1, " right=");
    default: {
        bool where = row->form == GT_FORM_TERNARY;
        at = put_operand(format, at, ins, 0, where ? " condition=" : " input=");
        at = put_operand(format, at, ins, 1, where ? " left=" : " index=");
        return put_operand(format, at, ins, 2, where ? " right=" : " source=");
    }
    }
}

static char *put_axes(char *at, uint64_t mask)
{
    at = PUT(at, " axes=");
    if (!mask)
        return PUT(at, "all");
    const char *separator = "";
    for (unsigned axis = 0; axis < GT_MAX_RANK; axis++)
        if (mask >> axis & 1) {
            at = put_number(put_text(at, separator), axis, 1);
            separator = ",";
        }
    return at;
}

static char *put_ids(gt_log_format *format, char *at, const uint64_t *ids, size_t count)
{
    const char *separator = "";
    for (size_t k = 0; k < count && k < MOST_IDS; k++) {
        if (!ids[k])
            continue;
        at = put_id(format, put_text(at, separator), ids[k]);
        separator = ",";
    }
    return count > MOST_IDS ? PUT(at, ",...") : at;
}

/* Details of the op's form: shapes, axes, dtypes. */
static char *put_form(gt_log_format *format, char *at, const gt_slot *record, const gt_op_row *row)
{
    const gt_instruction *ins = &record->ins;
    switch ((gt_form)row->form) {
    case GT_FORM_REDUCE:
        return put_axes(at, ins->imm[0].u);
    case GT_FORM_ARGREDUCE:
    case GT_FORM_SCAN:
    case GT_FORM_ARGSORT:
    case GT_FORM_TOPK:
    case GT_FORM_TAKE:
    case GT_FORM_GATHER:
    case GT_FORM_SCATTER:
        return put_signed(PUT(at, " axis="), ins->imm[0].i);
    case GT_FORM_CAT:
        at = put_signed(PUT(at, " axis="), ins->imm[0].i);
        return put_ids(format, PUT(at, " inputs="), gt__record_operands(ins, record + 1).id,
                       (size_t)ins->imm[1].i);
    case GT_FORM_CAST:
        return put_text(PUT(at, " dtype="), gt__dtype_name((gt_dtype)ins->dtype));
    case GT_FORM_RESHAPE:
    case GT_FORM_EXPAND:
        return gt__log_shape(at, ins->rank, record[1].i64);
    case GT_FORM_FULL:
    case GT_FORM_ARANGE:
    case GT_FORM_EYE:
    case GT_FORM_RANDOM:
    case GT_FORM_UPLOAD:
        at = gt__log_shape(at, ins->rank, record[1].i64);
        return put_text(PUT(at, " dtype="), gt__dtype_name((gt_dtype)ins->dtype));
    default:
        return at;
    }
}

static char *put_control(gt_log_format *format, char *at, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    switch ((gt_opcode)ins->op) {
    case GT_OP_free:
        return put_ids(format, PUT(at, "tensor_id="), gt__free_ids(ins), GT_FREE_IDS);
    case GT_OP_fetch:
        return gt__log_number(at, "tensor_id=", ins->operand[0]);
    case GT_OP_data:
        at = gt__log_number(at, "tensor_id=", ins->operand[0]);
        return gt__log_number(at, " offset=", ins->imm[0].u);
    case GT_OP_forget:
        return gt__log_number(at, "segment=", ins->imm[0].u);
    case GT_OP_path:
    case GT_OP_repeat:
        return gt__log_number(at, "path=", ins->result);
    case GT_OP_sync:
    case GT_OP_stats:
        return gt__log_number(at, "ticket=", ins->result);
    default:
        return at;
    }
}

char *gt__log_path(char *at, const gt_path *path)
{
    const char *separator = " ops=", *end = at + 512;
    at = gt__log_number(at, " instructions=", path->count);
    for (uint32_t slot = 0; slot < path->slots && at < end; slot += 1u + path->records[slot].ins.tail)
        if (path->records[slot].ins.op != GT_OP_free) {
            at = put_text(put_text(at, separator), gt__op_table[path->records[slot].ins.op].name);
            separator = ",";
        }
    return at < end ? at : PUT(at, ",...");
}

char *gt__log_received(gt_log_format *format, char *at, const gt_slot *record)
{
    const gt_instruction *ins = &record->ins;
    if (ins->op >= GT_OP_FIRST_CONTROL)
        return put_control(format, at, record);
    const gt_op_row *row = &gt__op_table[ins->op];
    at = row->operands || row->form == GT_FORM_CAT ? PUT(at, "result=") : PUT(at, "tensor_id=");
    at = put_id(format, at, ins->result);
    memcpy(at, op_details[ins->op].text, sizeof op_details[0].text); /* copies of fixed length are inlined */
    at = put_operands(format, at + op_details[ins->op].length, ins, row);
    return row->form <= GT_FORM_BINARY ? at : put_form(format, at, record, row);
}

/* The subject of a record to a worker: "op=add result=1_2"; without a session, the worker's slot. */
static char *put_subject(gt_log_format *format, char *at, const gt_log_event *event)
{
    bool computes = event->op < GT_OP_FIRST_CONTROL || (event->op >= GT_OP_send && event->op <= GT_OP_all_to_all);
    if (computes) {
        memcpy(at, op_details[event->op].text + 1, sizeof op_details[0].text - 1);
        at += op_details[event->op].length - 1;
    }
    if (!event->tensor)
        return at;
    if (event->op == GT_OP_repeat || event->op == GT_OP_path) { /* the tensor is a path's number, plus one */
        at = put_id(format, PUT(at, "path="), event->session);
        *at++ = '_';
        return put_id(format, at, event->tensor - 1);
    }
    if (!event->session)
        return put_id(format, computes ? PUT(at, " slot=") : PUT(at, "slot="), event->tensor);
    at = put_id(format, computes ? PUT(at, " result=") : PUT(at, "tensor_id="), event->session);
    *at++ = '_';
    return put_id(format, at, event->tensor);
}

static inline char *put_seconds(char *at, uint64_t ns)
{
    at = put_number(at, ns / 1000000000, 1);
    *at++ = '.';
    at = put_nanoseconds(at, (uint32_t)(ns % 1000000000));
    *at++ = 's';
    return at;
}

/* ---- lines -------------------------------------------------------------------------------------------------- */

gt_log_format *gt__log_format_new(void)
{
    gt__log_text_init();
    return calloc(1, sizeof(gt_log_format));
}

void gt__log_format_free(gt_log_format *format)
{
    free(format);
}

static void make_middle(const gt_log_event *event, middle_text *middle)
{
    const gt_log_text *source = event->source;
    unsigned length = !source ? 7 : source->length < GT_LOG_SOURCE ? source->length : GT_LOG_SOURCE;
    bool worker = source && length && source->text[0] == 'W';
    const gt_log_column *command = event->event == GT_EVENT_SIGNAL ? &signal_column : &columns[event->op][worker];
    char *at = PUT(middle->text, " | ");
    at = PUT(put(at, gt__event_columns[event->event], GT_EVENT_WIDTH), " | ");
    at = put(at, source ? source->text : "UNKNOWN", length);
    for (; length < SOURCE_WIDTH; length++)
        *at++ = ' ';
    at = PUT(at, " | ");
    at = PUT(put(at, command->text, command->length), " | ");
    at = PUT(put_size(at, event->bytes), " | ");
    middle->length = (unsigned)(at - middle->text);
}

static inline char *put_head(gt_log_format *format, char *at, const gt_log_event *event)
{
    uint64_t us = event->at_ns / 1000;
    if (us != format->elapsed_us || !format->elapsed_length) {
        char *end = put_number(format->elapsed, us / 1000000, 1);
        *end++ = '.';
        end = PUT(put_number(end, us % 1000000, 6), "s | #");
        format->elapsed_us = us;
        format->elapsed_length = (unsigned)(end - format->elapsed);
    }
    memcpy(at, format->elapsed, sizeof format->elapsed);
    at = put_counter(at + format->elapsed_length, &format->sequence, event->sequence);

    uint32_t source = event->source ? event->source->serial : UINT32_MAX;
    uint64_t key = (uint64_t)source << 32 | (uint64_t)event->op << 8 | event->event;
    middle_text *middle =
        &format->middles[(event->op * 5u + event->event + source * 11u + event->bytes / 64) % MIDDLES];
    if (middle->key != key || middle->bytes != event->bytes || !middle->length) {
        middle->key = key;
        middle->bytes = event->bytes;
        make_middle(event, middle);
    }
    memcpy(at, middle->text, MIDDLE_SHORT);
    if (middle->length > MIDDLE_SHORT)
        memcpy(at + MIDDLE_SHORT, middle->text + MIDDLE_SHORT, sizeof middle->text - MIDDLE_SHORT);
    return at + middle->length;
}

static inline char *put_notes(char *at, const gt_log_event *event)
{
    for (unsigned k = 0; k < GT_LOG_NOTES && event->notes[k]; k++)
        at = put(at, event->notes[k]->text, event->notes[k]->length);
    return at;
}

char *gt__log_line(gt_log_format *format, const gt_log_event *event, char *at)
{
    at = put_head(format, at, event);
    switch ((gt_event)event->event) {
    case GT_EVENT_RECV:
        at = gt__log_received(format, at, event->record);
        break;
    case GT_EVENT_SEND:
        at = event->failed ? PUT(at, "success=False") : PUT(at, "success=True");
        if (event->tensor)
            at = put_id(format, PUT(at, " tensor_id="), event->tensor);
        break;
    case GT_EVENT_WORKER_SEND:
        at = put_subject(format, at, event);
        break;
    case GT_EVENT_WORKER_RECV:
        at = put_subject(format, event->failed ? PUT(at, "success=False ") : PUT(at, "success=True "), event);
        break;
    default:
        break;
    }
    at = put_notes(at, event);
    if (event->event == GT_EVENT_WORKER_RECV && event->start_ns)
        at = put_seconds(PUT(put_seconds(PUT(at, " start="), event->start_ns), " duration="), event->duration_ns);
    if (event->text_length)
        at = put(at, event->text, event->text_length);
    *at++ = '\n';
    return at;
}
