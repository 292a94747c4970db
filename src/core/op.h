/*
 * op.h: what the op table means: opcodes, forms, tensor metadata, and the one shape-and-dtype inference.
 *
 * Inference runs three times for each instruction: in the client (so a wrong shape raises at the line that wrote
 * it), in the dispatcher (which trusts nobody) and in the worker (to size the result). It is the validation.
 * Read ops.def first; instruction.h next.
 */
#ifndef GT_CORE_OP_H
#define GT_CORE_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/error.h"

enum { GT_MAX_RANK = 8, GT_MAX_OPERANDS = 3 };

/* Opcodes: GT_OP_add, ... in table order; control opcodes follow the computing ones. 0 is never valid. */
typedef enum gt_opcode {
    GT_OP_INVALID = 0,
#define OP(name, form, types, grad) GT_OP_##name,
#define CONTROL(name, tail) GT_OP_##name,
#include "core/ops.def"
    GT_OP_COUNT,
    GT_OP_FIRST_CONTROL = GT_OP_data
} gt_opcode;

/*
 * What each form reads. "literal" operands: see instruction.h. imm[] is .i (int64_t) or .f (double).
 *
 *   form        operands      imm[0]              imm[1]        tail slots (64 bytes each)
 *   UNARY       a             p.f                 q.f
 *   BINARY      a b           p.f                 q.f
 *   TERNARY     a b c                                           (where: a is the condition)
 *   REDUCE      a             axes mask.i         correction.f (var), p.f (norm)  GT_FLAG_KEEPDIM
 *   ARGREDUCE   a             axis.i, -1 = all                                  GT_FLAG_KEEPDIM
 *   SCAN        a             axis.i
 *   SOFTMAX     a             axis.i
 *   SOFTMAX_BACKWARD  g out   axis.i              the gradient of a, from that of the result and the result
 *   MATMUL      a b           gt_product_kind.i
 *   LINEAR      a b bias      gt_product_kind.i                 b is a matrix
 *   SPARSE      index a b     rows.i (sparse_mm)  1 = the second index row names rows (sparse_mm); ops.def has the shapes
 *   ATTENTION   q k v         scale.f             period.i      (attention.h)
 *   FFT         a             (fft.h)             scale.f
 *   LAYER_NORM  x w b         first axis.i        eps.f         over that axis and those after it, whose shape w and b
 *                                                               have, unless they are literals; backward: g x w
 *   MOMENTS     x                                               float32 of halves
 *   BATCH_NORM  x m w         1: m is of x        eps.f         (2,C), float32 for halves: batch_moments of x, or others;
 *                                                               weight and bias, or a literal: 1 and 0
 *               g x m                             eps.f         (batch_norm_backward_affine)
 *               g x s         elements.i          eps.f         (batch_norm_backward) of a channel, or 0: m is not of x.
 *                                                               s (2 to 6,C): m, then w unless it is a literal, then, if m is
 *                                                               of x, what batch_norm_backward_affine gives
 *   CONV        x weight bias gt_product_kind.i                 window (window.h); rank spatial axes; x is (N,C,...), weight
 *                                                               (Cout,C/groups,...), bias (Cout) or a literal 0
 *   CONV_WEIGHT y x           gt_product_kind.i                 window; the result is a weight
 *   MAX_POOL    a x                                             window; axes before the spatial ones are kept
 *   MAX_INDEX   x                                               window; flat positions in x's spatial axes
 *   POOL        a                                               window
 *   IM2COL      a                                               window; (N,C,...) <-> (N,C*kernel,windows)
 *   RESAMPLE    a             axis, mode << 8     step.f        size; 1: corners are aligned. See window.h
 *   MATRIX      a             (linalg.h)          (linalg.h)
 *   SOLVE       a b           gt_triangle.i (solve_triangular)                  a x = b
 *   RESHAPE     a                                               shape
 *   EXPAND      a                                               shape (leading axes may be new)
 *   PERMUTE     a             axes, a byte each
 *   SLICE       a                                               start, step, count (one slot each, by axis)
 *   DIAGONAL    a             offset.i            two axes, a byte each; they go, the diagonal is the last axis
 *   AS_REAL     a                                               a last axis of size 2 is new
 *   AS_COMPLEX  a                                               the last axis, of size 2, goes
 *   UNFOLD      a                                               axis, size, step: windows; their elements are the last axis
 *   CAST        a                                               (dtype field)
 *   COPY        a
 *   CAT         (in the tail) axis.i              count.i       count operand ids, 8 to a slot
 *   TRIANGLE    a             diagonal.i
 *   TAKE        a index       axis.i, gt_take_kind.i  out = a[:axis] + index.shape + a[axis+1:]
 *   GATHER      a index       axis.i              out[..i..] = a[..index[..i..]..]
 *   SCATTER     a index src   axis.i              a with a[..index..] = src (or +=); scatter_reduce: imm[1] is a
 *                                                 gt_scatter_kind, and GT_SCATTER_WITHOUT_SELF where a does not count;
 *                                                 scatter_add: GT_SCATTER_STEPWISE or 0. Sums, products and means of halves
 *                                                 are computed in float32 and rounded once, unless stepwise
 *   ASSIGN      a src                                           start, step, count: a with that slice = src
 *   WRAP_INDEX  index         size.i, axis.i      negative indices wrapped, all checked against size of axis
 *   MASK_INDEX  mask          count.i             flat positions of the count true elements
 *   ARGSORT     a             axis.i              1 = descending; stable
 *   TOPK        a             axis.i              k.i; largest first, GT_FLAG_SMALLEST: smallest first
 *   SAMPLE      a             seed.i              stream.i      {samples, 1 = with replacement} (multinomial);
 *                                                               binomial: a holds trials and probabilities, (2,...)
 *   SEARCH      sorted values 1 = right           where the values would go in the (last axis of the) sorted tensor
 *   FULL                      value (.i or .f)    imaginary.f   shape
 *   ARANGE                    start (.i or .f)    step          shape: start + i * step, in int64 or double
 *   EYE                                                         shape (rank 2)
 *   RANDOM                    seed.i              stream.i      shape, {low, high (randint: .i), first, run, step}
 *   UPLOAD                    bytes.i             segment.i     shape, then the first bytes if segment is 0
 *
 * A part of a created tensor, on one of the workers it is split over, is made of the whole one's numbers: the word after
 * ARANGE's shape is the number of its first element, the word after EYE's the column of the diagonal in its first row; the
 * elements of RANDOM are numbers first, first + 1, ... and after every `run` of them (0: never) `step` further from there.
 */
typedef enum gt_form {
    GT_FORM_NONE = 0,
    GT_FORM_UNARY,
    GT_FORM_BINARY,
    GT_FORM_TERNARY,
    GT_FORM_REDUCE,
    GT_FORM_ARGREDUCE,
    GT_FORM_SCAN,
    GT_FORM_SOFTMAX,
    GT_FORM_SOFTMAX_BACKWARD,
    GT_FORM_MATMUL,
    GT_FORM_LINEAR,
    GT_FORM_SPARSE,
    GT_FORM_ATTENTION,
    GT_FORM_FFT,
    GT_FORM_LAYER_NORM,
    GT_FORM_MOMENTS,
    GT_FORM_BATCH_NORM,
    GT_FORM_CONV,
    GT_FORM_CONV_WEIGHT,
    GT_FORM_MAX_POOL,
    GT_FORM_MAX_INDEX,
    GT_FORM_POOL,
    GT_FORM_IM2COL,
    GT_FORM_RESAMPLE,
    GT_FORM_MATRIX,
    GT_FORM_SOLVE,
    GT_FORM_RESHAPE,
    GT_FORM_PERMUTE,
    GT_FORM_EXPAND,
    GT_FORM_SLICE,
    GT_FORM_DIAGONAL,
    GT_FORM_AS_REAL,
    GT_FORM_AS_COMPLEX,
    GT_FORM_UNFOLD,
    GT_FORM_CAST,
    GT_FORM_COPY,
    GT_FORM_CAT,
    GT_FORM_TRIANGLE,
    GT_FORM_TAKE,
    GT_FORM_GATHER,
    GT_FORM_SCATTER,
    GT_FORM_ASSIGN,
    GT_FORM_WRAP_INDEX,
    GT_FORM_MASK_INDEX,
    GT_FORM_ARGSORT,
    GT_FORM_TOPK,
    GT_FORM_SAMPLE,
    GT_FORM_SEARCH,
    GT_FORM_FULL,
    GT_FORM_ARANGE,
    GT_FORM_EYE,
    GT_FORM_RANDOM,
    GT_FORM_UPLOAD,
    GT_FORM_CONTROL,
} gt_form;

/* How exact a product is; an engine may be more exact. */
typedef enum gt_product_kind {
    GT_PRODUCT_EXACT,
    GT_PRODUCT_FAST, /* float32 operands may be rounded to fewer digits: set_float32_matmul_precision, cudnn.allow_tf32 */
    GT_PRODUCT_WIDE, /* the product of halves is float32: what is added to it comes before the one rounding */
} gt_product_kind;

/* How scatter_reduce combines what meets at one element. */
typedef enum gt_scatter_kind {
    GT_SCATTER_SUM,
    GT_SCATTER_PROD,
    GT_SCATTER_MEAN,
    GT_SCATTER_AMAX,
    GT_SCATTER_AMIN,
    GT_SCATTER_KINDS,
    GT_SCATTER_WITHOUT_SELF = 8, /* added to the kind: elements that are written to start afresh */
    GT_SCATTER_STEPWISE = 16, /* scatter_add: halves are rounded after every addition, and not summed in float32 */
} gt_scatter_kind;

/* Which indices `take` takes. */
typedef enum gt_take_kind {
    GT_TAKE_WRAPPED, /* negative ones count from the end */
    GT_TAKE_PLAIN,   /* negative ones are refused */
    GT_TAKE_SELECTED, /* the same, and gradients of halves are summed in float32 where PyTorch's index_select does so */
} gt_take_kind;

typedef enum gt_types {
    GT_TYPES_NUM,
    GT_TYPES_ARITH,
    GT_TYPES_FLT,
    GT_TYPES_BOOL,
    GT_TYPES_BITS,
    GT_TYPES_INT,
    GT_TYPES_SUM,
    GT_TYPES_INDEX,
    GT_TYPES_SAME,
} gt_types;

typedef struct gt_op_row {
    const char *name;
    uint8_t form;     /* gt_form */
    uint8_t types;    /* gt_types */
    uint8_t operands; /* of operand[] that it uses; CAT: 0, its operands are in the tail */
    bool differentiable;
    int8_t tail; /* slots its records have; -1: it depends on the record */
    uint8_t
        slowness; /* an element takes about 2^slowness times as long as in a pass of additions: for the scheduler */
    /* Elementwise rows only. Bit d: on operands of dtype d and one shape, the result has that dtype and shape. */
    uint16_t keeps;
} gt_op_row;

/* Indexed by opcode, GT_OP_COUNT rows. */
extern const gt_op_row gt__op_table[];

static inline unsigned gt__op_operands(gt_opcode op)
{
    return gt__op_table[op].operands;
}

/* How a row treats complex numbers: core/complex.def. */
typedef enum gt_complex_rule {
    GT_COMPLEX_REFUSED,
    GT_COMPLEX_ASIS,
    GT_COMPLEX_CONJ,
} gt_complex_rule;

extern const uint8_t gt__op_complex[GT_OP_COUNT]; /* gt_complex_rule */

/* NULL if no op has this name. */
const gt_op_row *gt__op_find(const char *name, gt_opcode *opcode);

/* A hash of what two parties must agree on: each op's name, form and types, in order, and the sizes that records are
 * built from. HELLO carries it. */
uint64_t gt__op_table_hash(void);
/* The same without this row and those behind it. */
uint64_t gt__op_table_hash_below(gt_opcode end);
/* Whether the hash is of this table, or of one that only lacks rows at its end: the records of its files mean the same here. */
bool gt__op_table_extends(uint64_t hash);

/* ---- dtypes ------------------------------------------------------------------------------------------------ */

extern const uint8_t gt__dtype_sizes[GT_DTYPE_COUNT];

static inline bool gt__dtype_valid(unsigned dtype)
{
    return dtype < GT_DTYPE_COUNT;
}

static inline size_t gt__dtype_size(gt_dtype dtype)
{
    return gt__dtype_sizes[dtype];
}

/* The dtypes below this one hold real numbers. */
enum { GT_REAL_DTYPES = GT_COMPLEX64 };

static inline bool gt__dtype_is_complex(gt_dtype dtype)
{
    return dtype >= GT_COMPLEX64;
}

static inline bool gt__dtype_is_float(gt_dtype dtype)
{
    return dtype >= GT_FLOAT16 && dtype < GT_COMPLEX64;
}

static inline bool gt__dtype_is_half(gt_dtype dtype)
{
    return dtype == GT_FLOAT16 || dtype == GT_BFLOAT16;
}

/* Float or complex: what has a gradient. */
static inline bool gt__dtype_is_inexact(gt_dtype dtype)
{
    return dtype >= GT_FLOAT16;
}

/* The dtype of a complex dtype's parts; of another: itself. */
static inline gt_dtype gt__dtype_real(gt_dtype dtype)
{
    return dtype == GT_COMPLEX64 ? GT_FLOAT32 : dtype == GT_COMPLEX128 ? GT_FLOAT64 : dtype;
}

/* The complex dtype that holds an inexact dtype's numbers, as PyTorch chooses it. There is none of 32 bits, so float16 gives
 * complex64. */
static inline gt_dtype gt__dtype_complex(gt_dtype dtype)
{
    return dtype == GT_FLOAT64 || dtype == GT_COMPLEX128 ? GT_COMPLEX128 : GT_COMPLEX64;
}

const char *gt__dtype_name(gt_dtype dtype); /* "float32" */
const char *
gt__dtype_kind(gt_dtype dtype); /* "Float", as in PyTorch's messages and the names of its typed tensors */
const char *gt__dtype_c_name(gt_dtype dtype); /* "float", as in some others of its messages */

const char *gt__dtype_scalar_name(gt_dtype dtype); /* "int8_t", as in those about numbers */

/* PyTorch's promotion of two tensor dtypes (no dimension or scalar rules). */
gt_dtype gt__dtype_promote(gt_dtype a, gt_dtype b);

/* ---- metadata and inference -------------------------------------------------------------------------------- */

/* Shape and dtype of a tensor, without data. shape[rank..] is unspecified. */
typedef struct gt_meta {
    int64_t numel;
    union {
        struct {
            uint8_t dtype; /* gt_dtype */
            uint8_t rank;
        };
        uint16_t kind; /* both */
    };
    int64_t shape[GT_MAX_RANK];
} gt_meta;

/* *to = *from, without the sizes that do not exist: most tensors have few, and metadata is copied for every instruction. */
static inline void gt__meta_copy(gt_meta *to, const gt_meta *from)
{
    if (__builtin_expect(from->rank <= 2, 1))
        memcpy(to, from, offsetof(gt_meta, shape) + 2 * sizeof from->shape[0]);
    else
        *to = *from;
}

/* The same for the metadata of a tensor: the first two sizes are comparable, also if they do not exist. */
static inline void gt__meta_settle(gt_meta *to, const gt_meta *from)
{
    gt__meta_copy(to, from);
    to->shape[1] = from->rank > 1 ? from->shape[1] : 0;
    to->shape[0] = from->rank > 0 ? from->shape[0] : 0;
}

/* Rank at most GT_MAX_RANK, no negative size, and the byte size fits in 62 bits; fills meta. */
gt_err gt__meta_set(gt_meta *meta, gt_dtype dtype, unsigned rank, const int64_t *shape);

static inline size_t gt__meta_bytes(const gt_meta *meta)
{
    return (size_t)meta->numel * gt__dtype_size((gt_dtype)meta->dtype);
}

static inline bool gt__meta_same_shape(const gt_meta *a, const gt_meta *b)
{
    if (a->rank != b->rank)
        return false;
    for (unsigned axis = 0; axis < a->rank; axis++)
        if (a->shape[axis] != b->shape[axis])
            return false;
    return true;
}

/* "(3,4)"; writes at most `size` bytes and returns `text`. */
char *gt__shape_text(unsigned rank, const int64_t *shape, char *text, size_t size); /* "(2,3)" */
char *gt__sizes_text(unsigned rank, const int64_t *shape, char *text,
                     size_t size); /* "[2, 3]", as in PyTorch's messages */

/* Broadcast two shapes the NumPy way; numel is set, dtype is left alone. */
gt_err gt__meta_broadcast(const gt_meta *a, const gt_meta *b, gt_meta *out);

/* An elementwise op on a tensor of this dtype and a literal (a record's `literals`): the result has the tensor's dtype. */
static inline bool gt__op_literal_keeps(gt_opcode op, unsigned literals, gt_dtype dtype)
{
    unsigned kind = literals & 3 ? literals & 3 : literals >> 2 & 3; /* gt_literal: 1 bool, 2 int, 3 float */
    if (gt__dtype_is_float(dtype))
        return kind != 1;
    return kind == 2 && dtype != GT_BOOL &&
           op != GT_OP_pow; /* an integer's negative power is an error: infer it */
}

/*
 * Most instructions by far are elementwise on tensors of one shape and dtype, or on one and a literal, and the result looks
 * like the operands. The operand it looks like; NULL: infer it. This is the only place that decides so: client, dispatcher
 * and worker have a fast path for it. a, b: NULL for a literal, and for the second operand of a unary op.
 */
static inline const gt_meta *gt__op_result_like(gt_opcode op, unsigned literals, const gt_meta *a,
                                                const gt_meta *b)
{
    const gt_meta *like = a ? a : b;
    if (!like || !(gt__op_table[op].keeps >> like->dtype & 1))
        return NULL;
    if (a && b)
        return a == b || (a->dtype == b->dtype && gt__meta_same_shape(a, b)) ? like : NULL;
    return !literals || gt__op_literal_keeps(op, literals, (gt_dtype)like->dtype) ? like : NULL;
}

struct gt_instruction;
union gt_slot;

/* op_infer_linalg.c: gt__op_infer's part for the forms MATRIX and SOLVE, whose operands are tensors. */
gt_err gt__infer_linalg(const struct gt_instruction *ins, const gt_meta *const *in, gt_meta *out);

/*
 * Infer the result of one computing instruction. in[k] is operand k's metadata, NULL for a literal; CAT has
 * imm[1].i of them. `compute` gets the dtype an elementwise op is computed in (BOOL rows: the promoted one).
 * Checks everything but ids: ranks, axes, counts, tail length. The instruction and tail may come from a peer.
 */
gt_err gt__op_infer(const struct gt_instruction *ins, const union gt_slot *tail, const gt_meta *const *in,
                    gt_meta *out, gt_dtype *compute);

#endif
