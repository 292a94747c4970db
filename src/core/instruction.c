/* instruction.c: checks records that came from a peer, and prints them. Layouts are in op.h and instruction.h. */
#include "core/instruction.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/mesh.h"
#include "core/record.h"

/* Slots of tail a record must have whose op does not fix it; -1: no length would be right. */
static int64_t computing_tail(const gt_instruction *ins)
{
    if (ins->op == GT_OP_cat)
        return ins->imm[1].i >= 1 && ins->imm[1].i <= GT_MAX_CAT ? (ins->imm[1].i + 7) / 8 : -1;
    uint64_t bytes = ins->imm[0].u; /* an upload: the shape, then the first bytes unless a segment has them */
    return 1 + (ins->imm[1].u ? 0 : (int64_t)gt__slots_for(bytes < GT_MAX_CHUNK ? bytes : GT_MAX_CHUNK));
}

static int64_t control_tail(const gt_instruction *ins)
{
    switch ((gt_opcode)ins->op) {
    case GT_OP_data:
    case GT_OP_reply:
    case GT_OP_failure:
    case GT_OP_detach:
        return ins->imm[1].u <= GT_MAX_CHUNK ? (int64_t)gt__slots_for(ins->imm[1].u) : -1;
    case GT_OP_timing:
        return ins->imm[1].u >= 1 && ins->imm[1].u <= GT_MAX_TIMINGS
                   ? (int64_t)gt__slots_for(ins->imm[1].u * sizeof(gt_timing_entry))
                   : -1;
    case GT_OP_path:
        if (ins->imm[0].u > ins->imm[1].u)
            return -1;
        return ins->imm[1].u - ins->imm[0].u < GT_PATH_PIECE ? (int64_t)(ins->imm[1].u - ins->imm[0].u)
                                                             : GT_PATH_PIECE;
    case GT_OP_repeat:
        return ins->imm[0].u <= GT_MAX_CHUNK / sizeof(uint64_t)
                   ? (int64_t)gt__slots_for(ins->imm[0].u * sizeof(uint64_t))
                   : -1;
    case GT_OP_hello:
        return GT_HELLO_TAIL;
    case GT_OP_goodbye:
        return GT_GOODBYE_TAIL;
    case GT_OP_config:
        return ins->imm[1].u <= GT_MAX_PARTIES && ins->rank <= GT_MESH_AXES
                   ? 2 * GT_NAME_SLOTS + (ins->imm[1].i + 7) / 8 + (ins->rank + 1) / 2
                   : -1;
    case GT_OP_all_reduce:
    case GT_OP_reduce_scatter:
    case GT_OP_all_gather:
    case GT_OP_broadcast:
    case GT_OP_all_to_all:
        return ins->imm[1].u >= 1 && ins->imm[1].u <= GT_MAX_PARTIES ? 1 + (ins->imm[1].i + 1) / 2 : -1;
    default:
        return 0;
    }
}

gt_err gt__instruction_check_fully(const gt_slot *slots, size_t available, unsigned *length)
{
    const gt_instruction *ins = &slots->ins;
    if (available < 1)
        return gt__fail(GT_ERR_PROTOCOL, "an empty record");
    if (ins->op == GT_OP_INVALID || ins->op >= GT_OP_COUNT)
        return gt__fail(GT_ERR_PROTOCOL, "unknown operation %u", ins->op);
    const gt_op_row *row = &gt__op_table[ins->op];
    if (ins->tail > GT_MAX_TAIL || (size_t)ins->tail + 1 > available)
        return gt__fail(GT_ERR_PROTOCOL, "%s: a tail of %u slots where %zu are left", row->name, ins->tail,
                        available - 1);
    if (!gt__dtype_valid(ins->dtype) || ins->rank > GT_MAX_RANK || ins->literals >> (2 * GT_MAX_OPERANDS))
        return gt__fail(GT_ERR_PROTOCOL, "%s: bad dtype %u, rank %u or literals %u", row->name, ins->dtype,
                        ins->rank, ins->literals);
    int64_t tail = row->tail >= 0                 ? row->tail
                   : row->form == GT_FORM_CONTROL ? control_tail(ins)
                                                  : computing_tail(ins);
    if (tail != ins->tail)
        return gt__fail(GT_ERR_PROTOCOL, "%s: a tail of %u slots instead of %lld", row->name, ins->tail,
                        (long long)tail);
    *length = 1u + ins->tail;
    return GT_OK;
}

/* ---- text --------------------------------------------------------------------------------------------------- */

typedef struct text_buffer {
    char *text;
    size_t size, length;
} text_buffer;

static void append(text_buffer *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(text_buffer *to, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (to->length < to->size)
        to->length += (size_t)vsnprintf(to->text + to->length, to->size - to->length, format, args);
    va_end(args);
}

static void append_operand(text_buffer *to, const gt_instruction *ins, unsigned k)
{
    const char *separator = k ? "," : "";
    if (gt__literal(ins, k) == GT_LITERAL_NONE)
        append(to, "%s %llu", separator, (unsigned long long)ins->operand[k]);
    else if (gt__literal(ins, k) == GT_LITERAL_FLOAT)
        append(to, "%s (%g)", separator, ins->literal[k].f);
    else
        append(to, "%s (%lld)", separator, (long long)ins->literal[k].i);
}

static void append_computing(text_buffer *to, const gt_instruction *ins)
{
    unsigned operands = gt__op_operands((gt_opcode)ins->op);
    append(to, " %llu", (unsigned long long)ins->result);
    if (ins->op == GT_OP_cat)
        append(to, " = %lld tensors", (long long)ins->imm[1].i);
    else if (operands)
        append(to, " =");
    for (unsigned k = 0; k < operands; k++)
        append_operand(to, ins, k);
}

/* The tensors that a control record is about; the ticket, where an answer comes or came. */
static void append_control(text_buffer *to, const gt_instruction *ins)
{
    gt_slot record = {.ins = *ins};
    gt_record_ids ids = gt__record_ids(&record);
    const uint64_t *result = ids.result;
    const char *separator = "";
    if (result)
        append(to, ids.left ? " %llu =" : " %llu", (unsigned long long)*result);
    while (gt__record_ids_next(&ids) && ids.id != result) {
        append(to, "%s %llu", separator, (unsigned long long)*ids.id);
        separator = ",";
    }
    switch ((gt_opcode)ins->op) {
    case GT_OP_fetch:
    case GT_OP_sync:
    case GT_OP_stats:
    case GT_OP_placement:
    case GT_OP_reply:
    case GT_OP_failure:
    case GT_OP_detach:
    case GT_OP_attach:
        append(to, " (ticket %llu)", (unsigned long long)ins->result);
        break;
    default:
        break;
    }
}

char *gt__instruction_text(const gt_instruction *ins, char *text, size_t size)
{
    text_buffer to = {.text = text, .size = size};
    bool known = ins->op && ins->op < GT_OP_COUNT;
    append(&to, "%s", known ? gt__op_table[ins->op].name : "invalid");
    if (known && ins->op < GT_OP_FIRST_CONTROL)
        append_computing(&to, ins);
    else if (known)
        append_control(&to, ins);
    return text;
}
