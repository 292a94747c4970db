/* op.c: the op table as data, metadata helpers, and the table's hash. Read ops.def and op.h first. */
#include "core/op.h"

#include <stdio.h>
#include <string.h>

#include "core/instruction.h"

/* Fixed by the form alone: operands, and slots of tail (-1: depends on the record; see instruction.c). */
#define OPERANDS_UNARY 1
#define OPERANDS_BINARY 2
#define OPERANDS_TERNARY 3
#define OPERANDS_REDUCE 1
#define OPERANDS_ARGREDUCE 1
#define OPERANDS_SCAN 1
#define OPERANDS_SOFTMAX 1
#define OPERANDS_SOFTMAX_BACKWARD 2
#define OPERANDS_MATMUL 2
#define OPERANDS_LINEAR 3
#define OPERANDS_SPARSE 3
#define OPERANDS_ATTENTION 3
#define OPERANDS_FFT 1
#define OPERANDS_LAYER_NORM 3
#define OPERANDS_MOMENTS 1
#define OPERANDS_BATCH_NORM 3
#define OPERANDS_CONV 3
#define OPERANDS_CONV_WEIGHT 2
#define OPERANDS_MAX_POOL 2
#define OPERANDS_MAX_INDEX 1
#define OPERANDS_POOL 1
#define OPERANDS_IM2COL 1
#define OPERANDS_RESAMPLE 1
#define OPERANDS_MATRIX 1
#define OPERANDS_SOLVE 2
#define OPERANDS_RESHAPE 1
#define OPERANDS_PERMUTE 1
#define OPERANDS_EXPAND 1
#define OPERANDS_SLICE 1
#define OPERANDS_DIAGONAL 1
#define OPERANDS_AS_REAL 1
#define OPERANDS_AS_COMPLEX 1
#define OPERANDS_UNFOLD 1
#define OPERANDS_CAST 1
#define OPERANDS_COPY 1
#define OPERANDS_CAT 0
#define OPERANDS_TRIANGLE 1
#define OPERANDS_TAKE 2
#define OPERANDS_GATHER 2
#define OPERANDS_SCATTER 3
#define OPERANDS_ASSIGN 2
#define OPERANDS_WRAP_INDEX 1
#define OPERANDS_MASK_INDEX 1
#define OPERANDS_ARGSORT 1
#define OPERANDS_TOPK 1
#define OPERANDS_SAMPLE 1
#define OPERANDS_SEARCH 2
#define OPERANDS_FULL 0
#define OPERANDS_ARANGE 0
#define OPERANDS_EYE 0
#define OPERANDS_RANDOM 0
#define OPERANDS_UPLOAD 0

#define TAIL_OF(form)                                                                                             \
    ((form) == GT_FORM_RESHAPE || (form) == GT_FORM_EXPAND || (form) == GT_FORM_FULL ||                           \
             (form) == GT_FORM_ARANGE || (form) == GT_FORM_EYE || (form) == GT_FORM_SAMPLE ||                     \
             (form) == GT_FORM_UNFOLD || (form) == GT_FORM_RESAMPLE                                               \
         ? 1                                                                                                      \
     : (form) == GT_FORM_RANDOM                            ? 2                                                    \
     : (form) == GT_FORM_SLICE || (form) == GT_FORM_ASSIGN ? 3                                                    \
     : (form) >= GT_FORM_CONV && (form) <= GT_FORM_IM2COL  ? 3 /* a window */                                     \
     : (form) == GT_FORM_CAT || (form) == GT_FORM_UPLOAD   ? -1                                                   \
                                                           : 0)

/* Dtypes that the result of an elementwise row has where its operands have them, a bit each. Complex ones are left to
 * inference: some rows refuse them. */
#define REAL_DTYPES ((1u << GT_REAL_DTYPES) - 1)
#define KEEPS(form, types)                                                                                        \
    ((form) != GT_FORM_UNARY && (form) != GT_FORM_BINARY ? 0                                                      \
     : (types) == GT_TYPES_NUM                           ? REAL_DTYPES                                            \
     : (types) == GT_TYPES_ARITH                         ? REAL_DTYPES & ~(1u << GT_BOOL)                         \
     : (types) == GT_TYPES_FLT                           ? REAL_DTYPES & ~((1u << GT_FLOAT16) - 1)                \
                                                         : 0)

/* See gt_op_row. What the kernels of one CPU core take, roughly: the scheduler measures the rest. Products and decompositions
 * have estimates of their own (dispatcher/share.c). */
#define IS_SPECIAL(op) ((op) >= GT_OP_lgamma && (op) <= GT_OP_dirichlet_grad)
#define IS_FUNCTION(op, types)                                                                                    \
    (((op) >= GT_OP_exp && (op) <= GT_OP_elu && (types) == GT_TYPES_FLT) || (op) == GT_OP_pow ||                  \
     ((op) >= GT_OP_remainder && (op) <= GT_OP_lcm) ||                                                            \
     ((op) >= GT_OP_gelu_backward && (op) <= GT_OP_mish_backward) || (op) == GT_OP_logsumexp ||                   \
     (op) == GT_OP_norm)
#define SLOWNESS(op, form, types)                                                                                 \
    (IS_SPECIAL(op)             ? 8                                                                               \
     : (form) == GT_FORM_SAMPLE ? 6                                                                               \
     : (form) == GT_FORM_ARGSORT || (form) == GT_FORM_TOPK || (form) == GT_FORM_SEARCH ||                         \
             (form) == GT_FORM_FFT || (form) == GT_FORM_RANDOM                                                    \
         ? 5                                                                                                      \
     : (form) == GT_FORM_SCAN || ((form) >= GT_FORM_MAX_POOL && (form) <= GT_FORM_POOL) ? 4                       \
     : IS_FUNCTION(op, types) || (form) == GT_FORM_SOFTMAX || (form) == GT_FORM_SOFTMAX_BACKWARD ||               \
             (form) == GT_FORM_RESAMPLE || ((form) >= GT_FORM_TAKE && (form) <= GT_FORM_SCATTER)                  \
         ? 3                                                                                                      \
         : 0)

#define DIFFERENTIABLE_DIFF true
#define DIFFERENTIABLE_NONE false

const gt_op_row gt__op_table[GT_OP_COUNT] = {
#define OP(op_name, op_form, op_types, grad)                                                                      \
    [GT_OP_##op_name] = {.name = #op_name,                                                                        \
                         .form = GT_FORM_##op_form,                                                               \
                         .types = GT_TYPES_##op_types,                                                            \
                         .operands = OPERANDS_##op_form,                                                          \
                         .differentiable = DIFFERENTIABLE_##grad,                                                 \
                         .tail = TAIL_OF(GT_FORM_##op_form),                                                      \
                         .slowness = SLOWNESS(GT_OP_##op_name, GT_FORM_##op_form, GT_TYPES_##op_types),           \
                         .keeps = KEEPS(GT_FORM_##op_form, GT_TYPES_##op_types)},
#define CONTROL(op_name, op_tail) [GT_OP_##op_name] = {.name = #op_name, .form = GT_FORM_CONTROL, .tail = op_tail},
#include "core/ops.def"
};

const uint8_t gt__op_complex[GT_OP_COUNT] = {
#define COMPLEX(name, rule, expr) [GT_OP_##name] = GT_COMPLEX_##rule,
#define COMPLEX_REAL(name, rule, expr) [GT_OP_##name] = GT_COMPLEX_##rule,
#define COMPLEX_TRUTH(name, expr) [GT_OP_##name] = GT_COMPLEX_ASIS,
#define COMPLEX_OTHER(name, rule) [GT_OP_##name] = GT_COMPLEX_##rule,
#include "core/complex.def"
};

const gt_op_row *gt__op_find(const char *name, gt_opcode *opcode)
{
    for (unsigned op = 1; op < GT_OP_COUNT; op++)
        if (strcmp(gt__op_table[op].name, name) == 0) {
            if (opcode)
                *opcode = (gt_opcode)op;
            return &gt__op_table[op];
        }
    return NULL;
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
    for (const uint8_t *byte = data, *end = byte + size; byte < end; byte++)
        hash = (hash ^ *byte) * 0x100000001b3u;
    return hash;
}

uint64_t gt__op_table_hash_below(gt_opcode end)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (unsigned op = 1; op < (unsigned)end; op++) {
        const gt_op_row *row = &gt__op_table[op];
        hash = hash_bytes(hash, row->name, strlen(row->name) + 1);
        hash = hash_bytes(hash, &row->form, sizeof row->form);
        hash = hash_bytes(hash, &row->types, sizeof row->types);
    }
    const uint32_t sizes[] = {sizeof(gt_instruction), GT_MAX_CHUNK, GT_DTYPE_COUNT};
    return hash_bytes(hash, sizes, sizeof sizes);
}

uint64_t gt__op_table_hash(void)
{
    return gt__op_table_hash_below(GT_OP_COUNT);
}

bool gt__op_table_extends(uint64_t hash)
{
    return hash == gt__op_table_hash() || hash == gt__op_table_hash_below(GT_OP_name);
}

gt_err gt__meta_set(gt_meta *meta, gt_dtype dtype, unsigned rank, const int64_t *shape)
{
    if (rank > GT_MAX_RANK)
        return gt__fail(GT_ERR_VALUE, "a tensor has at most %d dimensions, not %u", GT_MAX_RANK, rank);
    if (!gt__dtype_valid(dtype))
        return gt__fail(GT_ERR_TYPE, "unknown dtype %d", (int)dtype);
    /* The product of the non-zero sizes must fit as well: the strides of an empty tensor must not overflow. */
    int64_t numel = 1, most = ((int64_t)1 << 62) / 16;
    bool empty = false;
    for (unsigned axis = 0; axis < rank; axis++) {
        int64_t size = shape[axis];
        if (size < 0)
            return gt__fail(GT_ERR_VALUE, "Trying to create tensor with negative dimension %lld", (long long)size);
        if (size == 0)
            empty = true;
        else if (__builtin_mul_overflow(numel, size, &numel) || numel > most) {
            char text[128];
            return gt__fail(GT_ERR_MEMORY, "a tensor of shape %s is too large",
                            gt__sizes_text(rank, shape, text, sizeof text));
        }
        meta->shape[axis] = size;
    }
    meta->numel = empty ? 0 : numel;
    meta->dtype = (uint8_t)dtype;
    meta->rank = (uint8_t)rank;
    return GT_OK;
}

static char *shape_text(const char *open, const char *between, const char *close, unsigned rank,
                        const int64_t *shape, char *text, size_t size)
{
    size_t length = (size_t)snprintf(text, size, "%s", open);
    for (unsigned axis = 0; axis < rank && length < size; axis++)
        length +=
            (size_t)snprintf(text + length, size - length, "%s%lld", axis ? between : "", (long long)shape[axis]);
    if (length < size)
        snprintf(text + length, size - length, "%s", close);
    return text;
}

char *gt__shape_text(unsigned rank, const int64_t *shape, char *text, size_t size)
{
    return shape_text("(", ",", rank == 1 ? ",)" : ")", rank, shape, text, size);
}

char *gt__sizes_text(unsigned rank, const int64_t *shape, char *text, size_t size)
{
    return shape_text("[", ", ", "]", rank, shape, text, size);
}

gt_err gt__meta_broadcast(const gt_meta *a, const gt_meta *b, gt_meta *out)
{
    unsigned rank = a->rank > b->rank ? a->rank : b->rank;
    int64_t shape[GT_MAX_RANK];
    for (unsigned axis = rank; axis-- > 0;) { /* from the last one: of several that differ, PyTorch names that */
        int64_t size_a = axis + a->rank < rank ? 1 : a->shape[axis + a->rank - rank];
        int64_t size_b = axis + b->rank < rank ? 1 : b->shape[axis + b->rank - rank];
        if (size_a != size_b && size_a != 1 && size_b != 1)
            return gt__fail(GT_ERR_VALUE,
                            "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton "
                            "dimension %u",
                            (long long)size_a, (long long)size_b, axis);
        shape[axis] = size_a == 1 ? size_b : size_a;
    }
    return gt__meta_set(out, (gt_dtype)out->dtype, rank, shape);
}
