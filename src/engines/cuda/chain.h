/*
 * chain.h: elementwise steps of a plan that run as one generated kernel. Knows nothing of the driver, as generate.h.
 *
 * A chain walks `count` positions: the elements of its members' results in row-major order. A thread loads a vector of each
 * input, computes all members for it, and stores the results that are needed later; the others exist in registers only. Each
 * member rounds its result to its dtype, so a chain gives what its steps give one by one, bit for bit.
 *
 * Steps of other kinds may lie between the members: those that need nothing of the chain run before it, others after it, if
 * no later member needs them.
 *
 * A reduction of everything that a member makes may be part of the chain: each block keeps a state, and a second launch merges
 * these if there are several.
 *
 * Chains with equal kernels and equal numbers that come one after another run as one launch, over a table of their addresses and
 * counts: the updates of many parameters of different sizes. In a recorded sequence these are neighbouring chains (chain_batch
 * below); otherwise they may be of several sequences (batch.c).
 *
 *     chain_form.c       which steps of a plan are chains
 *     cast_form.c        casts that need not run
 *     row_form.c         steps around operations on rows that need not run
 *     pair_form.c        attention and its gradients
 *     spread_form.c      where the gradients of attention go
 *     pick_form.c        log_softmax and what is picked from it
 *     norm_form.c        the gradients of layer norm
 *     generate_chain.c   source and launches
 */
#ifndef GT_ENGINES_CUDA_CHAIN_H
#define GT_ENGINES_CUDA_CHAIN_H

#include "engines/cuda/generate_family.h"
#include "engines/plan.h"

enum {
    GT_CHAIN_MEMBERS = 64,
    GT_CHAIN_INPUTS = 24,
    GT_CHAIN_OUTPUTS = 16,
    GT_CHAIN_NUMBERS = 96,
    GT_CHAIN_OTHERS = 12, /* steps of other kinds */
    GT_CHAIN_NONE = 0xffff,
    /* What a number is: below GT_MAX_OPERANDS a literal; */
    GT_CHAIN_IMMEDIATE = GT_MAX_OPERANDS,       /* imm[0]; imm[1] is the next; */
    GT_CHAIN_WHICH_POWER = GT_MAX_OPERANDS + 2, /* which row a power with this literal is: gt__cuda_power */
    GT_CHAIN_FIRST,                             /* the number of a random tensor's first element */
};

/* How an input is read. */
typedef enum gt_chain_mode {
    GT_CHAIN_FLAT,   /* position k is element k: a vector at once */
    GT_CHAIN_ONE,    /* one element for all positions */
    GT_CHAIN_VECTOR, /* along axes; the positions of a vector are neighbours */
    GT_CHAIN_REPEAT, /* along axes; the positions of a vector are one element */
    GT_CHAIN_GATHER, /* along axes, element by element */
} gt_chain_mode;

typedef struct gt_chain_input {
    uint32_t value; /* of the plan */
    gt_dtype dtype;
    gt_chain_mode mode;
    gt_access access;
} gt_chain_input;

typedef enum gt_chain_source { GT_CHAIN_READ, GT_CHAIN_MADE, GT_CHAIN_NUMBER } gt_chain_source;

typedef struct gt_chain_operand {
    gt_chain_source source;
    uint16_t number; /* of the input, the member or the number */
    gt_dtype dtype;
    bool rounds; /* to the compute dtype first */
} gt_chain_operand;

/* A number that may change from run to run. */
typedef struct gt_chain_number {
    uint32_t step;
    uint8_t what;
    gt_dtype dtype;
} gt_chain_number;

typedef enum gt_chain_kind { GT_CHAIN_EXPRESSION, GT_CHAIN_MOVE, GT_CHAIN_FILL, GT_CHAIN_RANDOM } gt_chain_kind;

typedef struct gt_chain_member {
    uint32_t step;
    gt_chain_kind kind;
    gt_dtype compute, out;
    unsigned operands;
    gt_chain_operand operand[GT_MAX_OPERANDS];
    uint16_t which;  /* the number that tells a power from others; or GT_CHAIN_NONE */
    uint16_t pq;     /* the number p, which q follows; or GT_CHAIN_NONE. RANDOM: seed, stream, first */
    uint16_t output; /* which it is stored to; or GT_CHAIN_NONE */
    bool needed;     /* by a step that runs after the chain */
    bool scalar;     /* one number for all positions, that follows from numbers alone: every thread computes it */
} gt_chain_member;

struct gt_cuda_chain {
    const gt_plan *plan;
    int64_t count;
    unsigned members, inputs, outputs, numbers, before_count, after_count;
    unsigned vector; /* positions that a thread computes */
    bool wide;       /* positions or offsets need 64 bits */
    bool many;       /* the kernel takes a table of chains */
    bool random;     /* members are random numbers */
    bool reduces;    /* the step `reduction` reduces what the member `reduced` makes */
    uint32_t reduction;
    uint16_t reduced;
    gt_cuda_key key;
    gt_chain_member member[GT_CHAIN_MEMBERS];
    gt_chain_input input[GT_CHAIN_INPUTS];
    uint32_t output[GT_CHAIN_OUTPUTS]; /* values of the plan */
    gt_chain_number number[GT_CHAIN_NUMBERS];
    uint32_t before[GT_CHAIN_OTHERS], after[GT_CHAIN_OTHERS]; /* steps of other kinds, in order */
};

/* Steps up to `step` read the buffer, which other operands of theirs stand for in the plan. */
static inline void gt__cuda_read_until(gt_plan_buffer *buffer, uint32_t step)
{
    if (buffer->last_use < step) /* GT_PLAN_LIVES is the largest number */
        buffer->last_use = step;
    buffer->read_elsewhere = true;
}

/* ---- casts: cast_form.c -------------------------------------------------------------------------------------------- */

#define GT_CAST_NONE UINT32_MAX

typedef struct gt_cuda_casts {
    bool *left_out;    /* by step */
    uint32_t *instead; /* by value: that which is read instead of it; or GT_CAST_NONE */
} gt_cuda_casts;

/* GT_ERR_MEMORY. Free it in any case. */
gt_err gt__cuda_casts_find(const gt_plan *plan, gt_cuda_casts *casts);
void gt__cuda_casts_free(gt_cuda_casts *casts);
/* They will not run: what is read instead lives as long. Before the parts of the plan are found. */
void gt__cuda_casts_settle(gt_plan *plan, const gt_cuda_casts *casts);
/* Let the operands of a step's call, which gt__plan_call made, be read elsewhere. */
void gt__cuda_casts_change(const gt_cuda_casts *casts, const gt_plan *plan, const gt_plan_step *step,
                           void *const *buffer, gt_view *in);

/* ---- operations on rows: row_form.c ---------------------------------------------------------------------------- */

enum { GT_ROW_CHANGES = 8 };

typedef enum gt_row_change_kind {
    GT_ROW_READS,  /* the step is a cast: steps that read its result `of` read `instead` */
    GT_ROW_STORES, /* the step is a cast: the step that makes `of` stores `instead` */
    GT_ROW_ZEROS,  /* the step fills `of` with zeros */
    GT_ROW_SPARSE, /* the step scatters one element into each row of them: the step that reads `of` gets elements and positions */
} gt_row_change_kind;

/* A step that does not run. */
typedef struct gt_row_change {
    gt_row_change_kind kind;
    uint32_t step, of, instead; /* values */
} gt_row_change;

typedef struct gt_cuda_rows {
    unsigned count;
    gt_row_change change[GT_ROW_CHANGES];
} gt_cuda_rows;

/* From step `first` on. No changes: there is nothing to gain. */
void gt__cuda_rows_form(const gt_plan *plan, uint32_t first, gt_cuda_rows *rows, uint32_t *last);
bool gt__cuda_rows_skip(const gt_cuda_rows *rows, uint32_t step);
/* Whether the numbers of a run are those that it was formed for. */
bool gt__cuda_rows_hold(const gt_cuda_rows *rows, const gt_plan *plan);
/* Change a call that gt__plan_call made, with room for three operands. True: it is for launches only, as other dtypes than
 * those of the plan come and go; and log_softmax_backward may have three operands: the elements of the gradient, the result,
 * and the elements' positions in its rows. */
bool gt__cuda_rows_change(const gt_cuda_rows *rows, const gt_plan *plan, const gt_plan_step *step,
                          void *const *buffer, gt_view *in, const gt_view **views, gt_view *out, gt_call *call);
void gt__cuda_rows_settle(gt_plan *plan, const gt_cuda_rows *rows);

/* Both values are read as the same elements. Neither may be GT_PLAN_LITERAL's: then it is false. */
bool gt__cuda_same_operand(const gt_plan *plan, uint32_t a, uint32_t b);

/* ---- attention and its gradients: pair_form.c ------------------------------------------------------------------- */

/* spread_form.c: steps that put the gradients of attention together, and do not run. */
typedef struct gt_cuda_spread {
    uint32_t end;      /* the last of them */
    uint32_t result;   /* its value, which is stored at once: */
    int64_t at[3];     /* where the gradients of queries, keys and values begin, in elements */
    int64_t stride[4]; /* of each: batch, head, row, column, which is 1 */
} gt_cuda_spread;

bool gt__cuda_spread_find(const gt_plan *plan, uint32_t backward, gt_cuda_spread *spread);
/* The steps are one group from now on. */
void gt__cuda_spread_settle(gt_plan *plan, uint32_t backward, const gt_cuda_spread *spread);

typedef struct gt_cuda_pair {
    uint32_t forward, cat,
        backward; /* steps; cat: puts the queries and the gradient side by side for the last one */
    bool apart;   /* that does not run: the last step reads them where they are */
    bool spreads; /* the steps behind it do not run: it stores the gradients where they belong */
    gt_cuda_spread spread;
    size_t bytes;     /* of what the first keeps for the second: two float32 for each query */
    uint64_t moments; /* their address, which the caller sets */
} gt_cuda_pair;

/* Whether the plan has the step that a step computes the gradients of. */
bool gt__cuda_pair_find(const gt_plan *plan, uint32_t backward, gt_cuda_pair *pair);
/* It will run so: the first step's result lives until the second. */
void gt__cuda_pair_settle(gt_plan *plan, const gt_cuda_pair *pair);
/* Whether they are a pair with the numbers and addresses of this run. */
bool gt__cuda_pair_holds(const gt_cuda_pair *pair, const gt_plan *plan, void *const *buffer);
/* Change the call of one of its steps, with room for seven operands: the fourth is what is kept. The gradients have three more: the
 * result of attention, its gradient, without data if that is packed behind the queries, and where the result goes, without data if
 * that is as usual: `at` of a gt_cuda_spread in its shape, and the strides. */
void gt__cuda_pair_change(const gt_cuda_pair *pair, const gt_plan *plan, uint32_t step, void *const *buffer,
                          gt_view *in, const gt_view **views, gt_view *out, gt_call *call);

/* ---- log_softmax that is only picked from: pick_form.c ------------------------------------------------------------- */

enum { GT_PICK_READERS = 4 };

typedef struct gt_cuda_picks {
    uint32_t forward, last;           /* steps; last: the last reader */
    uint32_t reader[GT_PICK_READERS]; /* steps that read the result of the first one */
    unsigned readers;
    uint32_t logits;  /* a value */
    size_t bytes;     /* of what the first keeps for the others: two float32 for each row */
    uint64_t moments; /* their address, which the caller sets */
} gt_cuda_picks;

/* rows: of the step's part, or NULL. */
bool gt__cuda_picks_find(const gt_plan *plan, uint32_t forward, const gt_cuda_rows *rows, gt_cuda_picks *picks);
/* It will run so: the logits live until the last reader, and the result is never in memory. */
void gt__cuda_picks_settle(gt_plan *plan, const gt_cuda_picks *picks);
/* Change the call of one of its steps, after gt__cuda_rows_change, with room for four operands: the call is one of log_softmax with the
 * operands x, x, positions and what is kept; or one of its gradient with g, x, positions and what is kept. Positions without data:
 * the first step, or a gradient g of all elements. */
void gt__cuda_picks_change(const gt_cuda_picks *picks, const gt_plan *plan, void *const *buffer, gt_view *in,
                           const gt_view **views, gt_call *call);

/* ---- the gradients of layer norm: norm_form.c ------------------------------------------------------------------------ */

typedef struct gt_cuda_norm {
    uint32_t backward, weight,
        last; /* steps: the gradients of operand and weight; last: that of the bias, or `weight` */
    bool has_bias;
} gt_cuda_norm;

/* Whether these steps follow the first of them, with nothing but views between them. */
bool gt__cuda_norm_find(const gt_plan *plan, uint32_t backward, gt_cuda_norm *norm);
/* They will run as one, in the place of the last. */
void gt__cuda_norm_settle(gt_plan *plan, const gt_cuda_norm *norm);
/* Whether they can with the numbers of this run. */
bool gt__cuda_norm_holds(const gt_cuda_norm *norm, const gt_plan *plan);
/* Change the call of the first step, with room for five operands: the last two are the results of the others, without data if there is
 * no bias. */
void gt__cuda_norm_change(const gt_cuda_norm *norm, const gt_plan *plan, void *const *buffer, gt_view *in,
                          const gt_view **views, gt_call *call);

/* ---- parts of a plan ------------------------------------------------------------------------------------------- */

/* Steps first to last, without the views among them: a chain, or run one by one, without some of them. */
typedef struct gt_cuda_part {
    uint32_t first, last;
    gt_cuda_chain *chain; /* owned; NULL: one by one */
    gt_cuda_rows *rows;   /* owned; NULL: all of them */
} gt_cuda_part;

/* Divide a plan into parts, in order, without the casts that are left out. The plan stays as it is: gt__cuda_part_drop gives up a part whose kernel cannot be made, and
 * then its steps run one by one. */
gt_err gt__cuda_parts_new(const gt_plan *plan, const gt_cuda_casts *casts, gt_cuda_part **parts, unsigned *count);
void gt__cuda_parts_free(gt_cuda_part *parts, unsigned count);
void gt__cuda_part_drop(gt_cuda_part *part);
/* It will run as it is: its steps become a group, and buffers that it does without are dropped. */
void gt__cuda_part_settle(gt_plan *plan, const gt_cuda_part *part);

/* Whether its parameters fit into a launch. */
bool gt__cuda_chain_fits(const gt_cuda_chain *chain);
/* The key of its kernel, after `many` is set. GT_ERR_MEMORY. */
gt_err gt__cuda_chain_key(gt_cuda_chain *chain);
/* How many of the parts from the first on can be one launch: 0 if it is not a chain. Addresses and numbers are those of a run. */
unsigned gt__cuda_chain_batch(const gt_cuda_part *parts, unsigned count, void *const *buffer);
/* One launch for so many chains. GT_ERR_UNSUPPORTED: with these numbers they cannot be one launch. */
gt_err gt__cuda_lower_chains(const gt_cuda_part *parts, unsigned count, void *const *buffer, gt_cuda_work *work);

/* Memory that a chain reads or writes. */
typedef struct gt_chain_span {
    uint64_t start, end;
    bool written;
} gt_chain_span;
enum { GT_CHAIN_SPANS = GT_CHAIN_INPUTS + GT_CHAIN_OUTPUTS };

/* Of a chain whose kernel takes many: its memory; returns how many spans. */
unsigned gt__cuda_chain_spans(const gt_cuda_chain *chain, void *const *buffer, gt_chain_span *spans);
/* Let a launch that gt__cuda_lower_chains made for equal chains compute this one, too. False: there is no room, or its numbers are
 * others. */
bool gt__cuda_chain_append(const gt_cuda_chain *chain, void *const *buffer, gt_cuda_launch *launch);

#endif
