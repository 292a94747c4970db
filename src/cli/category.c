/* category.c: which kind of work an op or a command of the log is. */
#include "category.h"

#include <string.h>
#include <strings.h>

const gt_category_row gt__category_table[GT_CATEGORY_COUNT] = {
#define CATEGORY(constant, label, colour, nearest, character)                                                     \
    [GT_CATEGORY_##constant] = {.name = label, .rgb = colour, .terminal = nearest, .letter = character},
    GT_CATEGORIES(CATEGORY)
#undef CATEGORY
};

static gt_category of_form(gt_form form)
{
    switch (form) {
    case GT_FORM_UNARY:
        return GT_CATEGORY_UNARY;
    case GT_FORM_BINARY:
    case GT_FORM_TERNARY:
        return GT_CATEGORY_BINARY;
    case GT_FORM_REDUCE:
    case GT_FORM_ARGREDUCE:
    case GT_FORM_SCAN:
        return GT_CATEGORY_REDUCE;
    case GT_FORM_MATMUL:
        return GT_CATEGORY_MATMUL;
    case GT_FORM_RESHAPE:
    case GT_FORM_PERMUTE:
    case GT_FORM_EXPAND:
    case GT_FORM_SLICE:
    case GT_FORM_CAST:
    case GT_FORM_COPY:
        return GT_CATEGORY_VIEW;
    case GT_FORM_CAT:
    case GT_FORM_TRIANGLE:
    case GT_FORM_TAKE:
    case GT_FORM_GATHER:
    case GT_FORM_SCATTER:
    case GT_FORM_ASSIGN:
    case GT_FORM_WRAP_INDEX:
    case GT_FORM_MASK_INDEX:
    case GT_FORM_ARGSORT:
    case GT_FORM_TOPK:
        return GT_CATEGORY_INDEX;
    case GT_FORM_FULL:
    case GT_FORM_ARANGE:
    case GT_FORM_EYE:
    case GT_FORM_RANDOM:
    case GT_FORM_UPLOAD:
        return GT_CATEGORY_CREATE;
    default:
        return GT_CATEGORY_OTHER;
    }
}

gt_category gt__category_of_op(gt_opcode op)
{
    switch (op) {
    case GT_OP_relu:
        return GT_CATEGORY_RELU;
    case GT_OP_sum:
        return GT_CATEGORY_SUM;
    case GT_OP_mean:
        return GT_CATEGORY_MEAN;
    case GT_OP_data:
        return GT_CATEGORY_CREATE;
    case GT_OP_fetch:
        return GT_CATEGORY_GET_DATA;
    case GT_OP_free:
    case GT_OP_forget:
        return GT_CATEGORY_FREE;
    case GT_OP_sync:
        return GT_CATEGORY_SYNC;
    default:
        return of_form((gt_form)gt__op_table[op].form);
    }
}

gt_category gt__category_of_command(const char *command, const char *op)
{
    gt_opcode opcode;
    if (op && gt__op_find(op, &opcode))
        return gt__category_of_op(opcode);
    static const struct {
        const char *beginning;
        gt_category category;
    } commands[] = {
        {"MatMul", GT_CATEGORY_MATMUL},
        {"BinaryOp", GT_CATEGORY_BINARY},
        {"UnaryOp", GT_CATEGORY_UNARY},
        {"ReLU", GT_CATEGORY_RELU},
        {"Sum", GT_CATEGORY_SUM},
        {"Mean", GT_CATEGORY_MEAN},
        {"Reduce", GT_CATEGORY_REDUCE},
        {"Create", GT_CATEGORY_CREATE},
        {"Upload", GT_CATEGORY_CREATE},
        {"Reshape", GT_CATEGORY_VIEW},
        {"View", GT_CATEGORY_VIEW},
        {"Slice", GT_CATEGORY_VIEW},
        {"Index", GT_CATEGORY_INDEX},
        {"GetData", GT_CATEGORY_GET_DATA},
        {"Move", GT_CATEGORY_MOVE},
        {"AllReduce", GT_CATEGORY_ALL_REDUCE},
        {"AllGather", GT_CATEGORY_ALL_GATHER},
        {"Gather", GT_CATEGORY_ALL_GATHER},
        {"Free", GT_CATEGORY_FREE},
        {"Sync", GT_CATEGORY_SYNC},
    };
    if (strncasecmp(command, "Worker", 6) == 0)
        command += 6;
    for (size_t k = 0; k < sizeof commands / sizeof commands[0]; k++)
        if (strncasecmp(command, commands[k].beginning, strlen(commands[k].beginning)) == 0)
            return commands[k].category;
    return GT_CATEGORY_OTHER;
}
