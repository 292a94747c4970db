/*
 * category.h: the kinds of work that the monitoring tools distinguish, and the colour of each.
 *
 * visualize draws with these colours and top fills its bars with them, so that a picture and a terminal read
 * alike.
 */
#ifndef GT_CLI_CATEGORY_H
#define GT_CLI_CATEGORY_H

#include <stdint.h>

#include "core/op.h"

/* CATEGORY(constant, name, 0xRRGGBB, the nearest of a terminal's 256 colours, the letter used without colours) */
#define GT_CATEGORIES(CATEGORY)                                                                                   \
    CATEGORY(MATMUL, "MatMul", 0xd62728, 160, 'M')                                                                \
    CATEGORY(CONV, "Conv", 0xff7f50, 209, 'K')                                                                    \
    CATEGORY(LINALG, "LinAlg", 0x556b2f, 58, 'D')                                                                 \
    CATEGORY(BINARY, "BinaryOp", 0x1f77b4, 32, 'B')                                                               \
    CATEGORY(UNARY, "UnaryOp", 0x2ca02c, 34, 'U')                                                                 \
    CATEGORY(RELU, "ReLU", 0x4d4d4d, 240, 'R')                                                                    \
    CATEGORY(SUM, "Sum", 0x8e44ad, 97, 'S')                                                                       \
    CATEGORY(MEAN, "Mean", 0x159a9c, 37, 'A')                                                                     \
    CATEGORY(REDUCE, "Reduce", 0xc39bd3, 176, 'E')                                                                \
    CATEGORY(CREATE, "Create", 0xe5b80b, 178, 'C')                                                                \
    CATEGORY(VIEW, "View", 0xa67c52, 137, 'V')                                                                    \
    CATEGORY(INDEX, "Index", 0x9aa62c, 106, 'I')                                                                  \
    CATEGORY(HOT_PATH, "HotPath", 0x3f51b5, 61, 'H')                                                              \
    CATEGORY(GET_DATA, "GetData", 0xe67700, 172, 'G')                                                             \
    CATEGORY(MOVE, "Move", 0xe377c2, 211, 'T')                                                                    \
    CATEGORY(ALL_REDUCE, "AllReduce", 0xc2185b, 161, 'X')                                                         \
    CATEGORY(ALL_GATHER, "AllGather", 0x8b0000, 88, 'L')                                                          \
    CATEGORY(FREE, "FreeTensor", 0xc8c8c8, 251, 'F')                                                              \
    CATEGORY(SYNC, "Sync", 0x7f97b2, 110, 'Y')                                                                    \
    CATEGORY(OTHER, "Other", 0x9e8fb2, 139, 'O')

typedef enum gt_category {
#define CATEGORY(constant, name, rgb, terminal, letter) GT_CATEGORY_##constant,
    GT_CATEGORIES(CATEGORY)
#undef CATEGORY
        GT_CATEGORY_COUNT
} gt_category;

typedef struct gt_category_row {
    const char *name;
    uint32_t rgb;
    short terminal;
    char letter;
} gt_category_row;

extern const gt_category_row gt__category_table[GT_CATEGORY_COUNT];

gt_category gt__category_of_op(gt_opcode op);

/* The category of a log line, from its command ("BinaryOp", "WorkerBinaryOp") and the op in its details ("matmul"; NULL:
 * no op). An op that the table knows takes precedence. */
gt_category gt__category_of_command(const char *command, const char *op);

#endif
