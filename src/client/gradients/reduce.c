/* reduce.c: gradient rules of reductions, scans and products. Read steps.h first. */
#include "client/gradients/steps.h"

/* ---- reductions -------------------------------------------------------------------------------------------- */

static uint32_t reduced_axes(const gt_frame *f)
{
    uint32_t all = (1u << f->node->operands[0].meta.rank) - 1, axes = (uint32_t)f->node->ins.imm[0].u;
    return axes ? axes : all;
}

/* The operand's shape with size 1 along the reduced axes. */
static void kept_shape(const gt_frame *f, int64_t *shape)
{
    const gt_meta *in = &f->node->operands[0].meta;
    for (unsigned axis = 0; axis < in->rank; axis++)
        shape[axis] = reduced_axes(f) >> axis & 1 ? 1 : in->shape[axis];
}

/* A reduced tensor, stretched back over the operand's shape. */
static gt_tensor *stretch(gt_frame *f, gt_tensor *a)
{
    const gt_meta *in = &f->node->operands[0].meta;
    int64_t shape[GT_MAX_RANK];
    kept_shape(f, shape);
    return EXPAND(RESHAPE(a, in->rank, shape), in->rank, in->shape);
}

static double reduced_count(const gt_frame *f)
{
    const gt_meta *in = &f->node->operands[0].meta;
    double count = 1;
    for (unsigned axis = 0; axis < in->rank; axis++)
        if (reduced_axes(f) >> axis & 1)
            count *= (double)in->shape[axis];
    return count;
}

RULE(sum, 0)
{
    GX(stretch(f, f->g));
}
RULE(mean, 0)
{
    GX(stretch(f, SCALE(f->g, 1 / reduced_count(f))));
}

RULE(var, X)
{
    double count = reduced_count(f), correction = f->node->ins.imm[1].f;
    gt_tensor *centred = SUB(f->x, REDUCED(mean, f->x, reduced_axes(f), true));
    GX(MUL(stretch(f, SCALE(f->g, 2 / (count - correction))), centred));
}

/* The product of the other elements. With one zero, only that element has a slope; with two, none has. */
RULE(prod, X)
{
    gt_tensor *is_zero = NUMBER(eq, f->x, 0);
    gt_tensor *filled = WHERE(is_zero, PLUS(SCALE(f->x, 0), 1), f->x);
    gt_tensor *rest = REDUCED(prod, filled, reduced_axes(f), true);
    gt_tensor *zeros_there = REDUCED(sum, is_zero, reduced_axes(f), true);
    gt_tensor *others = SUB(zeros_there, CAST(is_zero, GT_INT64));
    gt_tensor *slope = WHERE_OR_ZERO(NUMBER(eq, others, 0), DIV(rest, filled));
    GX(MUL(stretch(f, f->g), slope));
}

/* An extreme's gradient is shared evenly between all elements that reach it. They are counted as integers: float16
 * and bfloat16 cannot count far. */
static gt_tensor *shares(gt_frame *f, gt_tensor *reached)
{
    gt_tensor *count = REDUCED(sum, reached, reduced_axes(f), true);
    return DIV(CAST(reached, (gt_dtype)f->g->meta.dtype), count);
}

/* Of x.max() and x.median(): NaN reaches NaN, and where no element reaches the result any more (x.data was written) the gradient is 0. */
static gt_tensor *even_shares(gt_frame *f)
{
    int64_t kept[GT_MAX_RANK];
    kept_shape(f, kept);
    gt_tensor *out = stretch(f, f->out), *both_nan = EMIT2(logical_and, EMIT(isnan, f->x), EMIT(isnan, out));
    gt_tensor *reached = EMIT2(logical_or, EMIT2(eq, f->x, out), both_nan);
    gt_tensor *count = REDUCED(sum, reached, reduced_axes(f), true);
    gt_tensor *share = DIV(RESHAPE(f->g, f->node->operands[0].meta.rank, kept), count);
    return WHERE_OR_ZERO(reached, stretch(f, share));
}

static void extreme_rule(gt_frame *f)
{
    if (f->node->ins.imm[1].f >= GT_EXTREME_OF_ALL)
        GX(even_shares(f));
    else
        GX(MUL(stretch(f, f->g), shares(f, EMIT2(eq, f->x, stretch(f, f->out)))));
}

RULE(amax, X | OUT)
{
    extreme_rule(f);
}
RULE(amin, X | OUT)
{
    extreme_rule(f);
}

RULE(logsumexp, X | OUT)
{
    GX(MUL(stretch(f, f->g), EMIT(exp, SUB(f->x, stretch(f, f->out)))));
}

/* sign(x) |x|^(p-1) g / norm^(p-1), and 0 where there is no slope: at the origin. */
static gt_tensor *norm_slope(gt_frame *f, double p)
{
    gt_tensor *sign = EMIT(sign, f->x), *norm = stretch(f, f->out), *g = stretch(f, f->g);
    if (p == 1)
        return MUL(g, sign);
    if (isinf(p))
        return MUL(g, MUL(sign, shares(f, EMIT2(eq, EMIT(abs, f->x), norm))));
    gt_tensor *nowhere = NUMBER(eq, norm, 0);
    if (p == 2)
        return ZERO_WHERE(nowhere, MUL(g, DIV(f->x, norm)));
    gt_tensor *power = NUMBER(pow, EMIT(abs, f->x), p - 1);
    gt_tensor *slope = MUL(sign, ZERO_WHERE(NUMBER(eq, f->x, 0), power));
    return ZERO_WHERE(nowhere, MUL(DIV(g, NUMBER(pow, norm, p - 1)), slope));
}

RULE(norm, X | OUT)
{
    double p = f->node->ins.imm[1].f;
    if (p != 0) /* the number of elements that are not 0 has no gradient, as in PyTorch */
        GX(norm_slope(f, p));
}

/* ---- along an axis ----------------------------------------------------------------------------------------- */

/* A row of form SCAN or SOFTMAX. */
static gt_tensor *along(gt_frame *f, gt_opcode op, gt_tensor *a, int64_t axis)
{
    STEP(gt__emit_along(op, a, NULL, (int)axis, &result_));
}

/* a with one axis reversed */
static gt_tensor *flip(gt_frame *f, gt_tensor *a, int64_t axis)
{
    gt_slot spec[3];
    if (f->err != GT_OK)
        return NULL;
    for (unsigned d = 0; d < a->meta.rank; d++) {
        bool reversed = d == axis && a->meta.shape[d] > 0;
        spec[0].i64[d] = reversed ? a->meta.shape[d] - 1 : 0;
        spec[1].i64[d] = reversed ? -1 : 1;
        spec[2].i64[d] = a->meta.shape[d];
    }
    return SLICE(a, spec);
}

/* A scan from the end. */
static gt_tensor *along_reversed(gt_frame *f, gt_opcode op, gt_tensor *a, int64_t axis)
{
    return flip(f, along(f, op, flip(f, a, axis), axis), axis);
}

RULE(cumsum, 0)
{
    GX(along_reversed(f, GT_OP_cumsum, f->g, f->node->ins.imm[0].i));
}

/*
 * Before the first zero: the sum of g_j out_j over all j >= i, divided by x_i. At it: the same sum with that zero left out
 * of the products. After it every product contains it, so the gradient is 0.
 */
RULE(cumprod, X | OUT)
{
    int64_t axis = f->node->ins.imm[0].i;
    gt_tensor *is_zero = NUMBER(eq, f->x, 0), *before = along(f, GT_OP_cumsum, is_zero, axis);
    gt_tensor *first = EMIT2(logical_and, is_zero, NUMBER(eq, before, 1));
    gt_tensor *ones = FILLED(&f->node->operands[0].meta, 1);
    gt_tensor *without = along(f, GT_OP_cumprod, WHERE(first, ones, f->x), axis);
    gt_tensor *at_zero = along_reversed(f, GT_OP_cumsum, MUL(f->g, without), axis);
    gt_tensor *elsewhere =
        DIV(along_reversed(f, GT_OP_cumsum, MUL(f->g, f->out), axis), WHERE(is_zero, ones, f->x));
    GX(WHERE(NUMBER(eq, before, 0), elsewhere, WHERE_OR_ZERO(first, at_zero)));
}

/* sum over j >= i of g_j exp(x_i - out_j) for the positive (or, negated, the negative) g, in logarithms. */
static gt_tensor *log_scan_slope(gt_frame *f, bool positive)
{
    int64_t axis = f->node->ins.imm[0].i;
    gt_tensor *g = positive ? f->g : NEG(f->g), *none = FILLED(&f->node->out, -INFINITY);
    gt_tensor *logs = WHERE(NUMBER(gt, g, 0), EMIT(log, EMIT(abs, g)), none);
    gt_tensor *sums = along_reversed(f, GT_OP_logcumsumexp, SUB(logs, f->out), axis);
    return EMIT(exp, ADD(sums, f->x));
}

RULE(logcumsumexp, X | OUT)
{
    GX(SUB(log_scan_slope(f, true), log_scan_slope(f, false)));
}

static gt_tensor *softmax_backward(gt_frame *f, gt_opcode op, gt_tensor *g, gt_tensor *out)
{
    STEP(gt__emit_along(op, g, out, (int)f->node->ins.imm[0].i, &result_));
}

static gt_tensor *line_sum(gt_frame *f, gt_tensor *a)
{
    return REDUCED(sum, a, f->node->out.rank ? 1u << f->node->ins.imm[0].i : 0, true);
}

RULE(softmax, OUT)
{
    GX(softmax_backward(f, GT_OP_softmax_backward, f->g, f->out));
}
RULE(log_softmax, OUT)
{
    GX(softmax_backward(f, GT_OP_log_softmax_backward, f->g, f->out));
}

/* of y (x - sum(x y)) by x, the first gradient, and y, the first result */
RULE(softmax_backward, X | Y)
{
    GX(softmax_backward(f, GT_OP_softmax_backward, f->g, f->y));
    if (f->wanted[1])
        GY(SUB(MUL(f->g, SUB(f->x, line_sum(f, MUL(f->x, f->y)))), MUL(f->x, line_sum(f, MUL(f->g, f->y)))));
}

/* of x - exp(y) sum(x) */
RULE(log_softmax_backward, X | Y)
{
    gt_tensor *product = MUL(f->g, EMIT(exp, f->y));
    GX(SUB(f->g, line_sum(f, product)));
    if (f->wanted[1])
        GY(NEG(MUL(product, line_sum(f, f->x))));
}

/* ---- products ---------------------------------------------------------------------------------------------- */

/* A 1-d operand is a row (left) or a column (right) of a matrix. */
static gt_tensor *as_matrix(gt_frame *f, gt_tensor *a, bool left)
{
    if (!a || a->meta.rank != 1)
        return a;
    int64_t size = a->meta.shape[0];
    return RESHAPE(a, 2, left ? (int64_t[]){1, size} : (int64_t[]){size, 1});
}

/* Whether operand k is a transposed matrix, as weights are in x @ w.t(). */
static bool is_transposed(const gt_frame *f, unsigned k)
{
    const gt_node *maker = f->node->operands[k].node;
    unsigned rank = f->node->operands[k].meta.rank;
    return maker && maker->op == GT_OP_permute && rank >= 2 &&
           (maker->ins.imm[0].u >> (8 * (rank - 1)) & 0xff) == rank - 2;
}

/* (..., rows, n) as (all the rows, n): a product with one matrix is one product, whatever the batch. */
static gt_tensor *flatten_rows(gt_frame *f, gt_tensor *a)
{
    if (!a || a->meta.rank <= 2)
        return a;
    int64_t rows = 1, columns = a->meta.shape[a->meta.rank - 1];
    for (unsigned axis = 0; axis + 1 < a->meta.rank; axis++)
        rows *= a->meta.shape[axis];
    return RESHAPE(a, 2, (int64_t[]){rows, columns});
}

/* transpose(a) @ b. For a transposed operand it is computed as transpose(transpose(b) @ a): the permute's rule undoes the
 * outer transpose, and the gradient has the same memory order as the operand. */
static gt_tensor *transposed_product(gt_frame *f, gt_tensor *a, gt_tensor *b, bool is_transposed_operand)
{
    return is_transposed_operand ? T(MATMUL(T(b), a)) : MATMUL(T(a), b);
}

/* The sparse matrix of `values` at the node's indices, or its transpose, times a dense one. */
static gt_tensor *sparse_product(gt_frame *f, gt_tensor *values, gt_tensor *dense, int64_t rows, bool transposed)
{
    STEP(gt_sparse_mm(f->x, values, dense, rows, transposed, &result_));
}

static gt_tensor *samples(gt_frame *f, gt_tensor *a, gt_tensor *b)
{
    STEP(gt_sampled_mm(f->x, a, b, &result_));
}

RULE(sparse_mm, X | Y | Z)
{
    bool transposed = f->node->ins.imm[1].i;
    if (f->wanted[1])
        GY(transposed ? samples(f, f->z, f->g) : samples(f, f->g, f->z));
    if (f->wanted[2])
        GZ(sparse_product(f, f->y, f->g, f->node->operands[2].meta.shape[0], !transposed));
}

RULE(sampled_mm, X | Y | Z)
{
    if (f->wanted[1])
        GY(sparse_product(f, f->g, f->z, f->node->operands[1].meta.shape[0], false));
    if (f->wanted[2])
        GZ(sparse_product(f, f->g, f->y, f->node->operands[2].meta.shape[0], true));
}

RULE(matmul, FOR_X(Y) | FOR_Y(X))
{
    const gt_meta *a = &f->node->operands[0].meta, *b = &f->node->operands[1].meta;
    gt_tensor *left = as_matrix(f, f->x, true), *right = as_matrix(f, f->y, false);
    gt_tensor *g =
        f->g->meta.dtype == a->dtype ? f->g : CAST(f->g, (gt_dtype)a->dtype); /* a wide product's is float32 */
    if (a->rank == 1 || b->rank == 1) {
        /* give the gradient back the row and column that the 1-d operands took away */
        int64_t shape[GT_MAX_RANK + 2];
        unsigned rank = f->node->out.rank, batch = rank - (a->rank > 1) - (b->rank > 1);
        memcpy(shape, f->node->out.shape, batch * sizeof shape[0]);
        shape[batch] = a->rank == 1 ? 1 : a->shape[a->rank - 2];
        shape[batch + 1] = b->rank == 1 ? 1 : b->shape[b->rank - 1];
        g = RESHAPE(g, batch + 2, shape);
    }
    if (f->wanted[0] && f->err == GT_OK) {
        gt_tensor *gx = MATMUL(g, T(right));
        if (a->rank == 1 && f->err == GT_OK) { /* (..., 1, k): sum the batch, drop the row */
            uint32_t batch = (1u << (gx->meta.rank - 1)) - 1;
            gx = REDUCED(sum, gx, batch, false);
        }
        GX(gx);
    }
    if (f->wanted[1] && f->err == GT_OK) {
        bool one_matrix = b->rank == 2;
        gt_tensor *rows = one_matrix ? flatten_rows(f, left) : left, *g_rows = one_matrix ? flatten_rows(f, g) : g;
        gt_tensor *gy = transposed_product(f, rows, g_rows, is_transposed(f, 1));
        if (b->rank == 1 && f->err == GT_OK) {
            uint32_t batch = ((1u << gy->meta.rank) - 1) & ~(1u << (gy->meta.rank - 2));
            gy = REDUCED(sum, gy, batch, false);
        }
        GY(gy);
    }
}
