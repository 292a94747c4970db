/* category.c: maps an op or a command of the log to its kind of work. */
#include "cli/category.h"

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
    case GT_FORM_SOFTMAX:
    case GT_FORM_SOFTMAX_BACKWARD:
    case GT_FORM_LAYER_NORM:
    case GT_FORM_MOMENTS:
    case GT_FORM_BATCH_NORM:
        return GT_CATEGORY_REDUCE;
    case GT_FORM_MATMUL:
    case GT_FORM_LINEAR:
    case GT_FORM_SPARSE:
    case GT_FORM_ATTENTION:
    case GT_FORM_FFT:
        return GT_CATEGORY_MATMUL;
    case GT_FORM_RESHAPE:
    case GT_FORM_PERMUTE:
    case GT_FORM_EXPAND:
    case GT_FORM_SLICE:
    case GT_FORM_DIAGONAL:
    case GT_FORM_AS_REAL:
    case GT_FORM_AS_COMPLEX:
    case GT_FORM_UNFOLD:
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
    case GT_FORM_SEARCH:
        return GT_CATEGORY_INDEX;
    case GT_FORM_FULL:
    case GT_FORM_ARANGE:
    case GT_FORM_EYE:
    case GT_FORM_RANDOM:
    case GT_FORM_SAMPLE:
    case GT_FORM_UPLOAD:
        return GT_CATEGORY_CREATE;
    default:
        return GT_CATEGORY_OTHER;
    }
}

/* Names are matched by prefix, ignoring case; the first match counts. */
typedef struct name_row {
    const char *beginning;
    gt_category category;
} name_row;

static bool find_name(const name_row *rows, size_t count, const char *name, gt_category *category)
{
    for (size_t k = 0; k < count; k++)
        if (strncasecmp(name, rows[k].beginning, strlen(rows[k].beginning)) == 0) {
            *category = rows[k].category;
            return true;
        }
    return false;
}

/* Ops whose name says more than their form. */
static const name_row op_names[] = {
    {"relu", GT_CATEGORY_RELU},
    {"sum", GT_CATEGORY_SUM},
    {"mean", GT_CATEGORY_MEAN},
    {"data", GT_CATEGORY_CREATE},
    {"repeat", GT_CATEGORY_HOT_PATH},
    {"fetch", GT_CATEGORY_GET_DATA},
    {"free", GT_CATEGORY_FREE},
    {"forget", GT_CATEGORY_FREE},
    {"sync", GT_CATEGORY_SYNC},
    {"conv", GT_CATEGORY_CONV},
    {"max_pool", GT_CATEGORY_CONV},
    {"avg_pool", GT_CATEGORY_CONV},
    {"im2col", GT_CATEGORY_CONV},
    {"col2im", GT_CATEGORY_CONV},
    {"resample", GT_CATEGORY_CONV},
    {"inverse", GT_CATEGORY_LINALG},
    {"pinv", GT_CATEGORY_LINALG},
    {"cofactor", GT_CATEGORY_LINALG},
    {"det", GT_CATEGORY_LINALG},
    {"slogdet", GT_CATEGORY_LINALG},
    {"cholesky", GT_CATEGORY_LINALG},
    {"lu", GT_CATEGORY_LINALG},
    {"qr", GT_CATEGORY_LINALG},
    {"svd", GT_CATEGORY_LINALG},
    {"eigh", GT_CATEGORY_LINALG},
    {"solve", GT_CATEGORY_LINALG},
    {"send", GT_CATEGORY_MOVE},
    {"recv", GT_CATEGORY_MOVE},
    {"broadcast", GT_CATEGORY_MOVE},
    {"all_to_all", GT_CATEGORY_MOVE},
    {"all_reduce", GT_CATEGORY_ALL_REDUCE},
    {"reduce_scatter", GT_CATEGORY_ALL_REDUCE},
    {"all_gather", GT_CATEGORY_ALL_GATHER},
};

/* Commands of the log without an op. */
static const name_row command_names[] = {
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
    {"Concat", GT_CATEGORY_INDEX},
    {"Index", GT_CATEGORY_INDEX},
    {"RunPath", GT_CATEGORY_HOT_PATH},
    {"GetData", GT_CATEGORY_GET_DATA},
    {"Move", GT_CATEGORY_MOVE},
    {"AllReduce", GT_CATEGORY_ALL_REDUCE},
    {"AllGather", GT_CATEGORY_ALL_GATHER},
    {"Free", GT_CATEGORY_FREE},
    {"Sync", GT_CATEGORY_SYNC},
};

gt_category gt__category_of_op(gt_opcode op)
{
    gt_category category;
    if (find_name(op_names, sizeof op_names / sizeof op_names[0], gt__op_table[op].name, &category))
        return category;
    return of_form((gt_form)gt__op_table[op].form);
}

gt_category gt__category_of_command(const char *command, const char *op)
{
    gt_opcode opcode;
    gt_category category;
    if (strncasecmp(command, "Worker", 6) == 0)
        command += 6;
    if ((op && gt__op_find(op, &opcode)) || gt__op_find(command, &opcode))
        return gt__category_of_op(opcode);
    if (find_name(command_names, sizeof command_names / sizeof command_names[0], command, &category))
        return category;
    return GT_CATEGORY_OTHER;
}
