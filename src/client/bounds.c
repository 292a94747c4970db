/* bounds.c: see bounds.h. Read next: emit.c, which asks before it emits an indexing op. */
#include "client/bounds.h"

#include <math.h>

#include "client/signals.h"

/* Elements of an upload that are worth a look: about 0.3 ms. */
enum { MOST_SCANNED = 1 << 20 };

static void set_bounds(gt_tensor *tensor, gt_bounds_kind kind, int64_t low, int64_t high)
{
    tensor->bounded = (uint8_t)kind;
    tensor->low = low;
    tensor->high = high;
}

/* ---- where bounds come from -------------------------------------------------------------------------------- */

#define SCAN(T)                                                                                                   \
    do {                                                                                                          \
        const T *values = data;                                                                                   \
        T least = values[0], most = values[0];                                                                    \
        for (int64_t k = 1; k < count; k++) {                                                                     \
            least = values[k] < least ? values[k] : least;                                                        \
            most = values[k] > most ? values[k] : most;                                                           \
        }                                                                                                         \
        set_bounds(tensor, GT_BOUNDED_BOTH, (int64_t)least, (int64_t)most);                                       \
    } while (0)

void gt__bounds_scan(gt_tensor *tensor, const void *data)
{
    int64_t count = tensor->meta.numel;
    if (!count || count > MOST_SCANNED)
        return;
    switch ((gt_dtype)tensor->meta.dtype) {
    case GT_UINT8:
        SCAN(uint8_t);
        break;
    case GT_INT8:
        SCAN(int8_t);
        break;
    case GT_INT16:
        SCAN(int16_t);
        break;
    case GT_INT32:
        SCAN(int32_t);
        break;
    case GT_INT64:
        SCAN(int64_t);
        break;
    default:
        break; /* floats, and masks */
    }
}

/* The values of all operands (cat), or of one. */
static void infer_union(gt_tensor *const *in, unsigned count, gt_bounds_kind best, gt_tensor *result)
{
    gt_bounds_kind kind = best;
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (unsigned k = 0; k < count; k++) {
        const gt_tensor *operand = in[k];
        if (!operand || !operand->bounded)
            return;
        kind = operand->bounded < kind ? (gt_bounds_kind)operand->bounded : kind;
        low = operand->low < low ? operand->low : low;
        high = operand->high > high ? operand->high : high;
    }
    if (count)
        set_bounds(result, kind, low, high);
}

/* Unless the values wrap around in the result's dtype. */
static void set_fitting(gt_tensor *result, gt_bounds_kind kind, int64_t low, int64_t high)
{
    static const struct {
        int64_t low, high;
    } ranges[GT_DTYPE_COUNT] = {
        [GT_UINT8] = {0, UINT8_MAX},         [GT_INT8] = {INT8_MIN, INT8_MAX},
        [GT_INT16] = {INT16_MIN, INT16_MAX}, [GT_INT32] = {INT32_MIN, INT32_MAX},
        [GT_INT64] = {INT64_MIN, INT64_MAX},
    };
    gt_dtype dtype = (gt_dtype)result->meta.dtype;
    if (dtype <= GT_INT64 && low >= ranges[dtype].low && high <= ranges[dtype].high)
        set_bounds(result, kind, low, high);
}

static void infer_cast(const gt_tensor *a, gt_tensor *result)
{
    if (a->meta.dtype == GT_BOOL)
        set_bounds(result, GT_BOUNDED, 0, 1);
    else if (a->bounded)
        set_fitting(result, (gt_bounds_kind)a->bounded, a->low, a->high);
}

/* Operand k as one integer: a literal, or a tensor whose elements are all the same. */
static bool constant(const gt_instruction *ins, gt_tensor *const *in, unsigned k, int64_t *value)
{
    gt_literal kind = gt__literal(ins, k);
    if (kind == GT_LITERAL_INT || kind == GT_LITERAL_BOOL) {
        *value = ins->literal[k].i;
        return true;
    }
    if (kind != GT_LITERAL_NONE || !in[k] || !in[k]->bounded || in[k]->low != in[k]->high)
        return false;
    *value = in[k]->low;
    return true;
}

/* x % c has the sign of c. */
static void infer_remainder(const gt_tensor *x, int64_t c, gt_tensor *result)
{
    if (c == 0)
        return;
    int64_t low = c > 0 ? 0 : c + 1, high = c > 0 ? c - 1 : 0;
    if (x->bounded && x->low >= low && x->high <= high)
        set_fitting(result, (gt_bounds_kind)x->bounded, x->low, x->high);
    else
        set_fitting(result, GT_BOUNDED, low, high);
}

static int64_t floor_quotient(int64_t x, int64_t c)
{
    return x / c - (x % c != 0 && (x < 0) != (c < 0));
}

/*
 * x + c, x - c, c - x, x * c, x // c, x % c of a tensor and an integer. All but the last are monotonic, so that exact bounds stay
 * exact. Sums of two tensors are left out: their bounds are loose, and an index that may be out of range costs a wait.
 */
static void infer_arithmetic(const gt_instruction *ins, gt_tensor *const *in, gt_tensor *result)
{
    int64_t c, low, high;
    unsigned other = constant(ins, in, 1, &c) ? 1 : 0;
    if (!other && !constant(ins, in, 0, &c))
        return;
    const gt_tensor *x = in[1 - other];
    if (!x || x->meta.dtype == GT_BOOL || x->meta.dtype > GT_INT64)
        return;
    if (ins->op == GT_OP_remainder && other == 1)
        infer_remainder(x, c, result);
    if (!x->bounded || ins->op == GT_OP_remainder)
        return;
    bool far;
    if (ins->op == GT_OP_add)
        far = __builtin_add_overflow(x->low, c, &low) || __builtin_add_overflow(x->high, c, &high);
    else if (ins->op == GT_OP_mul)
        far = __builtin_mul_overflow(x->low, c, &low) || __builtin_mul_overflow(x->high, c, &high);
    else if (ins->op == GT_OP_sub && other == 1)
        far = __builtin_sub_overflow(x->low, c, &low) || __builtin_sub_overflow(x->high, c, &high);
    else if (ins->op == GT_OP_sub)
        far = __builtin_sub_overflow(c, x->low, &low) || __builtin_sub_overflow(c, x->high, &high);
    else { /* floor_divide */
        far = other == 0 || c == 0 || c == -1 || result->meta.dtype != x->meta.dtype || in[other];
        low = far ? 0 : floor_quotient(x->low, c);
        high = far ? 0 : floor_quotient(x->high, c);
    }
    if (!far)
        set_fitting(result, (gt_bounds_kind)x->bounded, low < high ? low : high, low < high ? high : low);
}

/* The bounds of a clamp are doubles; infinite: none. */
static int64_t clamped(int64_t x, double low, double high)
{
    if (low > -0x1p62 && low < 0x1p62 && x < (int64_t)low)
        x = (int64_t)low;
    return high > -0x1p62 && high < 0x1p62 && x > (int64_t)high ? (int64_t)high : x;
}

static void infer_clamp(const gt_instruction *ins, const gt_tensor *x, gt_tensor *result)
{
    double low = ins->imm[0].f, high = ins->imm[1].f;
    if (!((low == -INFINITY || fabs(low) < 0x1p62) && (high == INFINITY || fabs(high) < 0x1p62)))
        return;
    if (x->bounded)
        set_fitting(result, (gt_bounds_kind)x->bounded, clamped(x->low, low, high), clamped(x->high, low, high));
    else if (low > -0x1p62 && high < 0x1p62 && low <= high)
        set_fitting(result, GT_BOUNDED, (int64_t)low, (int64_t)high);
}

/* where(condition, a, b): each a bounded tensor or an integer. */
static void infer_where(const gt_instruction *ins, gt_tensor *const *in, gt_tensor *result)
{
    int64_t low[2], high[2];
    for (unsigned k = 0; k < 2; k++) {
        if (constant(ins, in, k + 1, &low[k]))
            high[k] = low[k];
        else if (in[k + 1] && in[k + 1]->bounded)
            low[k] = in[k + 1]->low, high[k] = in[k + 1]->high;
        else
            return;
    }
    set_fitting(result, GT_BOUNDED, low[0] < low[1] ? low[0] : low[1], high[0] > high[1] ? high[0] : high[1]);
}

static void infer_arange(const gt_instruction *ins, gt_tensor *result)
{
    int64_t first = ins->imm[0].i, last, span;
    if (!__builtin_mul_overflow(ins->imm[1].i, result->meta.numel - 1, &span) &&
        !__builtin_add_overflow(first, span, &last))
        set_bounds(result, GT_BOUNDED_BOTH, first < last ? first : last, first < last ? last : first);
}

void gt__bounds_infer(const gt_instruction *ins, const gt_slot *tail, gt_tensor *const *in, unsigned count,
                      gt_tensor *result)
{
    if (!result->meta.numel)
        return;
    switch (ins->op) {
    case GT_OP_reshape:
    case GT_OP_permute:
    case GT_OP_expand:
    case GT_OP_copy:
    case GT_OP_cat:
        infer_union(in, count, GT_BOUNDED_BOTH, result);
        break;
    case GT_OP_slice:
    case GT_OP_diagonal:
    case GT_OP_unfold:
    case GT_OP_take:
    case GT_OP_gather:
        infer_union(in, 1, GT_BOUNDED, result);
        break;
    case GT_OP_cast:
        infer_cast(in[0], result);
        break;
    case GT_OP_add:
    case GT_OP_sub:
    case GT_OP_mul:
    case GT_OP_floor_divide:
    case GT_OP_remainder:
        infer_arithmetic(ins, in, result);
        break;
    case GT_OP_clamp:
        infer_clamp(ins, in[0], result);
        break;
    case GT_OP_where:
        infer_where(ins, in, result);
        break;
    case GT_OP_full:
        set_bounds(result, GT_BOUNDED_BOTH, ins->imm[0].i, ins->imm[0].i);
        break;
    case GT_OP_arange:
        infer_arange(ins, result);
        break;
    case GT_OP_randint:
        set_bounds(result, GT_BOUNDED, tail[1].i64[0], tail[1].i64[1] - 1);
        break;
    case GT_OP_wrap_index:
        set_bounds(result, GT_BOUNDED, 0, ins->imm[0].i - 1);
        break;
    case GT_OP_argmax:
    case GT_OP_argmin:
        set_bounds(result, GT_BOUNDED, 0,
                   (ins->imm[0].i < 0 ? in[0]->meta.numel : in[0]->meta.shape[ins->imm[0].i]) - 1);
        break;
    default:
        break;
    }
}

/* ---- checks ------------------------------------------------------------------------------------------------ */

static gt_err fetch_extreme(gt_opcode op, gt_tensor *tensor, int64_t *value)
{
    gt_tensor *extreme, *wide;
    GT_TRY(gt__emit_reduce(op, tensor, 0, false, 0, &extreme));
    gt_err err = gt_cast(extreme, GT_INT64, &wide);
    gt_tensor_release(extreme);
    GT_TRY(err);
    err = gt_fetch(wide, value, sizeof *value);
    gt_tensor_release(wide);
    return err;
}

/* Make the bounds exact. */
static gt_err find_bounds(gt_tensor *tensor)
{
    int64_t low, high;
    bool inner = gt__signal_inner(true);
    gt_err err = fetch_extreme(GT_OP_amin, tensor, &low);
    if (err == GT_OK)
        err = fetch_extreme(GT_OP_amax, tensor, &high);
    gt__signal_inner(inner);
    GT_TRY(err);
    set_bounds(tensor, GT_BOUNDED_BOTH, low, high);
    return GT_OK;
}

static bool below(const gt_tensor *tensor, int64_t low, const int64_t *ignored)
{
    return tensor->low < low && !(ignored && tensor->low == *ignored);
}

gt_err gt__bounds_check(gt_tensor *tensor, int64_t low, int64_t high, const int64_t *ignored, bool *found,
                        int64_t *value)
{
    *found = false;
    if (!tensor->bounded || (!below(tensor, low, ignored) && tensor->high <= high))
        return GT_OK;
    if (tensor->bounded != GT_BOUNDED_BOTH)
        GT_TRY(find_bounds(tensor));
    *found = below(tensor, low, ignored) || tensor->high > high;
    *value = tensor->high > high ? tensor->high : tensor->low;
    return GT_OK;
}

/* The index operand and the range that it must be in; NULL: the op has none. */
static gt_tensor *index_operand(const gt_instruction *ins, gt_tensor *const *in, int64_t *low, int64_t *size,
                                int64_t *axis)
{
    *low = 0;
    switch (ins->op) {
    case GT_OP_take:
        *axis = ins->imm[0].i;
        *size = in[0]->meta.shape[*axis];
        *low = ins->imm[1].i ? 0 : -*size;
        return in[1];
    case GT_OP_gather:
    case GT_OP_scatter:
    case GT_OP_scatter_add:
    case GT_OP_scatter_reduce:
        *axis = ins->imm[0].i;
        *size = in[0]->meta.shape[*axis];
        return in[1];
    case GT_OP_wrap_index:
        *size = ins->imm[0].i;
        *low = -*size;
        *axis = ins->imm[1].i;
        return in[0];
    default:
        return NULL;
    }
}

bool gt__bounds_suspect(const gt_instruction *ins, gt_tensor *const *in)
{
    int64_t low = 0, size = 0, axis = 0;
    const gt_tensor *index = index_operand(ins, in, &low, &size, &axis);
    return index && index->bounded && (index->low < low || index->high >= size);
}

gt_err gt__bounds_check_index(const gt_instruction *ins, gt_tensor *const *in)
{
    int64_t low = 0, size = 0, axis = 0, value = 0;
    bool found;
    gt_tensor *index = index_operand(ins, in, &low, &size, &axis);
    GT_TRY(gt__bounds_check(index, low, size - 1, NULL, &found, &value));
    if (!found)
        return GT_OK;
    if (ins->op == GT_OP_take) /* embedding(), index_select(): PyTorch's words */
        return gt__fail(GT_ERR_INDEX, "index out of range in self");
    return gt__fail(GT_ERR_INDEX, "index %lld is out of bounds for dimension %lld with size %lld",
                    (long long)value, (long long)axis, (long long)size);
}
