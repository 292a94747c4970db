/*
 * generate_family.h: what the files of the generator share. A family is a set of kernels with one parameter struct: a file
 * generate_<family>.c that lowers calls and writes the few lines that instantiate a template, and the template itself in
 * device/<family>.cuh. generate.c is the table of families.
 */
#ifndef GT_ENGINES_CUDA_GENERATE_FAMILY_H
#define GT_ENGINES_CUDA_GENERATE_FAMILY_H

#include "engines/cuda/generate.h"
#include "engines/loop.h"

typedef enum gt_cuda_family {
    GT_CUDA_NO_FAMILY,
    GT_CUDA_ELEMENTWISE,
    GT_CUDA_SPECIAL, /* elementwise, with functions of engines/special.h */
    GT_CUDA_REDUCE,
    GT_CUDA_ROWS,
    GT_CUDA_INDEX,
    GT_CUDA_CREATE,
    GT_CUDA_ATTENTION,
    GT_CUDA_WINDOW,
    GT_CUDA_LINES,
    GT_CUDA_TRANSPOSE,
    GT_CUDA_RESAMPLE,
    GT_CUDA_CHANNELS,
    GT_CUDA_JOIN,
    GT_CUDA_CHAIN,
    GT_CUDA_FAMILIES,
} gt_cuda_family;

/* ---- source ------------------------------------------------------------------------------------------------- */

/* A growing text; `failed`: there was no memory. */
typedef struct gt_cuda_text {
    char *data;
    size_t size, room;
    bool failed;
} gt_cuda_text;

void gt__cuda_add(gt_cuda_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gt__cuda_add_plain(gt_cuda_text *text, const char *plain);

/* Add the kernel of a key under this name, without what it is made from: the texts of gt__cuda_device_text. */
gt_err gt__cuda_add_kernel(const gt_cuda_key *key, const gt_cuda_chain *chain, const char *name,
                           gt_cuda_text *text);
/* The template of a family; of GT_CUDA_NO_FAMILY: the prelude that goes before all others. */
const char *gt__cuda_device_text(gt_cuda_family family);

/* The type of a dtype in device source: "gt_f32". */
const char *gt__cuda_dtype(gt_dtype dtype);
/* The type whose elements are only moved, by their size in bytes: "gt_b4". */
const char *gt__cuda_moved(size_t size);

/* Types that numbers are computed in. */
typedef enum gt_cuda_type {
    GT_CUDA_I32,
    GT_CUDA_I64,
    GT_CUDA_F32,
    GT_CUDA_F64,
    GT_CUDA_C64,
    GT_CUDA_C128
} gt_cuda_type;
gt_cuda_type gt__cuda_type(gt_dtype compute);
const char *gt__cuda_type_name(gt_cuda_type type);

/* The kernels of generate_rows.c. */
typedef enum gt_rows_variant {
    GT_ROWS_SOFTMAX,
    GT_ROWS_SOFTMAX_LONG,
    GT_ROWS_SOFTMAX_BACKWARD,
    GT_ROWS_SOFTMAX_BACKWARD_LONG,
    GT_ROWS_ACROSS,
    GT_ROWS_NORM,
    GT_ROWS_NORM_BACKWARD,
    GT_ROWS_NORM_MOMENTS,
    GT_ROWS_NORM_COLUMNS,
    GT_ROWS_NORM_FINISH,
    GT_ROWS_NORM_SUMS_FINISH,
    GT_ROWS_SPARSE,
    GT_ROWS_MOMENTS,
    GT_ROWS_PICK,
} gt_rows_variant;

/* ---- launches ----------------------------------------------------------------------------------------------- */

/* What gt_cuda_errors.code says. */
typedef enum gt_cuda_error {
    GT_CUDA_ERROR_NONE,
    GT_CUDA_ERROR_ZERO_DIVISION,
    GT_CUDA_ERROR_INDEX, /* the index, the axis, its size */
    GT_CUDA_ERROR_MASK,  /* the number of true elements, the expected number */
    GT_CUDA_ERROR_PROBABILITY,
} gt_cuda_error;

enum { GT_CUDA_BLOCK = 256 };

/* The next launch of the work, with a key of zeros and one dimension of threads. */
gt_cuda_launch *gt__cuda_launch(gt_cuda_work *work, gt_cuda_family family, const void *param, size_t size);
/* Blocks of `threads` for `items`, one each at most; kernels loop over what is beyond the limit. */
uint32_t gt__cuda_blocks(int64_t items, unsigned threads);
/* A number as an element of `dtype`, then as the type it is computed in: the eight bytes of a literal in parameters. */
uint64_t gt__cuda_number(gt_dtype literal, gt_imm value, gt_dtype dtype);
/* A double in the compute type of `dtype`; integers saturate. */
uint64_t gt__cuda_real(double number, gt_dtype dtype);

/* A contiguous operand: where it is in memory, or in the scratch. */
typedef struct gt_cuda_operand {
    uint64_t address;
    bool in_scratch;
} gt_cuda_operand;

/* The view itself if it is contiguous and of this dtype; else a copy in the scratch, which a launch of its own makes. */
gt_cuda_operand gt__cuda_operand(gt_cuda_work *work, const gt_view *view, gt_dtype dtype);
/* Bytes of scratch. */
gt_cuda_operand gt__cuda_scratch(gt_cuda_work *work, size_t bytes);
/* Put its address at this place in the launch's parameters. */
void gt__cuda_bind(gt_cuda_launch *launch, size_t at, const gt_cuda_operand *operand);

/* ---- families ----------------------------------------------------------------------------------------------- */

/* GT_ERR_UNSUPPORTED without a text: the host runs it. */
#define GT_CUDA_DECLINE GT_ERR_UNSUPPORTED

gt_err gt__cuda_lower_elementwise(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
gt_err gt__cuda_lower_copy(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
gt_err gt__cuda_lower_cat(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
gt_err gt__cuda_lower_assign(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
gt_err gt__cuda_lower_full(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
/* out = in, converted. */
gt_cuda_launch *gt__cuda_move(gt_cuda_work *work, const gt_view *out, const gt_view *in);
/* out = the number, a literal of this dtype. */
gt_cuda_launch *gt__cuda_fill(gt_cuda_work *work, const gt_view *out, gt_dtype dtype, gt_imm number);
/* The result or the operand of such a launch is in the scratch; NULL: it is not. */
void gt__cuda_bind_move(gt_cuda_launch *launch, const gt_cuda_operand *out, const gt_cuda_operand *in);
void gt__cuda_write_elementwise(const gt_cuda_key *key, const char *name, gt_cuda_text *text);
bool gt__cuda_elementwise_covers(gt_opcode op);
/* For chains: whether a row can be a member; whether it has the numbers p and q; its expression in x, y, z, p and q, and the
 * type of that. */
bool gt__cuda_chains(gt_opcode op, gt_dtype compute);
bool gt__cuda_has_numbers(gt_opcode op);
const char *gt__cuda_expression(gt_opcode op, gt_dtype compute, const char **type);
gt_opcode gt__cuda_power(gt_dtype compute, gt_dtype literal, gt_imm number);
/* Operands of another dtype are rounded to a compute dtype that is narrower than the kernels' types. */
bool gt__cuda_rounds(gt_opcode op, unsigned k, const gt_meta *operand, gt_dtype compute);

/* The axes of a view that the mask selects, collapsed; returns the number of positions. */
int64_t gt__cuda_select_axes(const gt_view *view, uint64_t mask, gt_loop *loop);
gt_err gt__cuda_lower_reduce(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
/* What elements of this dtype are accumulated in. */
gt_cuda_type gt__cuda_accumulator(gt_opcode op, gt_dtype dtype);
void gt__cuda_write_reduce(const gt_cuda_key *key, const char *name, gt_cuda_text *text);
/* For chains: whether a reduction has no numbers of its own; the type of its sums; and a launch that merges the states of
 * `parts` blocks into one result. LARGEST_STATE: bytes of a state, at most. */
enum { GT_CUDA_LARGEST_STATE = 24 };
bool gt__cuda_reduces_simply(gt_opcode op);
gt_cuda_type gt__cuda_accumulator(gt_opcode op, gt_dtype dtype);
void gt__cuda_merge_states(gt_cuda_work *work, gt_opcode op, gt_dtype in, const gt_view *out, int64_t elements,
                           const gt_cuda_operand *states, int64_t parts);

gt_err gt__cuda_lower_softmax(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
gt_err gt__cuda_lower_layer_norm(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
void gt__cuda_write_rows(const gt_cuda_key *key, const char *name, gt_cuda_text *text);

gt_err gt__cuda_lower_take(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
gt_err gt__cuda_lower_gather(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
gt_err gt__cuda_lower_scatter(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
gt_err gt__cuda_lower_wrap_index(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
void gt__cuda_write_index(const gt_cuda_key *key, const char *name, gt_cuda_text *text);

gt_err gt__cuda_lower_create(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
void gt__cuda_write_create(const gt_cuda_key *key, const char *name, gt_cuda_text *text);

gt_err gt__cuda_lower_attention(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
void gt__cuda_write_attention(const gt_cuda_key *key, const char *name, gt_cuda_text *text);

gt_err gt__cuda_lower_conv(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
gt_err gt__cuda_lower_max_pool(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
gt_err gt__cuda_lower_pool(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
gt_err gt__cuda_lower_im2col(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
void gt__cuda_write_window(const gt_cuda_key *key, const char *name, gt_cuda_text *text);

gt_err gt__cuda_lower_scan(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
/* Positions (lines, n), int64, in ascending order of a contiguous operand's lines; equals keep their order. */
void gt__cuda_sort(gt_cuda_work *work, const gt_cuda_operand *in, gt_dtype dtype, int64_t lines, int64_t n,
                   const gt_cuda_operand *out);
gt_err gt__cuda_lower_sort(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
gt_err gt__cuda_lower_search(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
gt_err gt__cuda_lower_mask_index(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
void gt__cuda_write_lines(const gt_cuda_key *key, const char *name, gt_cuda_text *text);

/* out = in by tiles; NULL: that would not be faster than gt__cuda_move's other way. */
gt_cuda_launch *gt__cuda_transpose(gt_cuda_work *work, const gt_view *out, const gt_view *in);
void gt__cuda_write_transpose(const gt_cuda_key *key, const char *name, gt_cuda_text *text);

gt_err gt__cuda_lower_resample(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
void gt__cuda_write_resample(const gt_cuda_key *key, const char *name, gt_cuda_text *text);

gt_err gt__cuda_lower_channels(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);
void gt__cuda_write_channels(const gt_cuda_key *key, const char *name, gt_cuda_text *text);

/* A cat in one launch; false: it does not fit that kernel. */
bool gt__cuda_join(const gt_call *call, gt_cuda_work *work);
void gt__cuda_write_join(const gt_cuda_key *key, const char *name, gt_cuda_text *text);

void gt__cuda_write_chain(const gt_cuda_chain *chain, const char *name, gt_cuda_text *text);

#endif
