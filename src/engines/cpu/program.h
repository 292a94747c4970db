/*
 * program.h: plans that the CPU engine has compiled; shared by the files of that part.
 *
 * A program is a list of parts that run one after the other. A part is one step, run as in eager mode with its views
 * prepared, or a group of neighbouring steps that runs as one pass over tiles: the positions of the iteration space are cut
 * into tiles that fit in the cache, and for each tile every member computes its elements before the next tile begins. Values
 * that live only inside of the group exist only as tiles, in scratch memory that threads reuse for every tile.
 *
 * The iteration space has `count` positions, the elements of the members' results in row-major order. If members reduce or
 * normalise rows (the last axes), tiles are whole rows, and values may have one element for each row (GT_LEVEL_ROW).
 *
 * program_form.c chooses the groups, program_lower.c translates a group into tile operations, program_compound.c finds members
 * that one loop computes, program_place.c gives the operations memory, program_tile.c runs them, program.c holds it all together.
 */
#ifndef GT_ENGINES_CPU_PROGRAM_H
#define GT_ENGINES_CPU_PROGRAM_H

#include "engines/cpu/elementwise.h"
#include "engines/cpu/movement.h"
#include "engines/plan.h"

enum {
    GT_FUSED_MEMBERS = 64,      /* steps in a group, at most */
    GT_LONGEST_ROW = 16 * 1024, /* elements of a row that tiles consist of */
    GT_ROWS_ACROSS = 4,         /* rows in a tile, at least, if an operand lies by column */
    GT_LONGEST_ACROSS = 2048,   /* elements of such a row */
    GT_SHORTEST_ROW = 32,       /* shorter rows are not worth a kernel call each */
};

/* What the positions of a value are. */
typedef enum gt_level {
    GT_LEVEL_FULL,   /* those of the iteration space */
    GT_LEVEL_ROW,    /* its rows */
    GT_LEVEL_COLUMN, /* its columns: the same numbers for every row */
    GT_LEVEL_COUNT
} gt_level;

/* ---- forming ------------------------------------------------------------------------------------------------- */

typedef enum gt_fusible {
    GT_FUSIBLE_NOT,
    GT_FUSIBLE_ELEMENTWISE,
    GT_FUSIBLE_MOVE,
    GT_FUSIBLE_REDUCE, /* of rows: one number for each */
    GT_FUSIBLE_SOFTMAX,
    GT_FUSIBLE_NORM,
    GT_FUSIBLE_SUM,      /* a reduction of columns, or of everything: known when all tiles are done */
    GT_FUSIBLE_NORM_SUM, /* the gradient of a normalisation's weight */
} gt_fusible;

/* Its result is known at the end. */
static inline bool gt__fusible_sums(gt_fusible kind)
{
    return kind >= GT_FUSIBLE_SUM;
}

typedef struct gt_member {
    uint32_t step;
    gt_fusible kind;
    gt_level level; /* of its result */
} gt_member;

typedef struct gt_group {
    gt_member member[GT_FUSED_MEMBERS];
    unsigned members;
    int64_t count;
    int64_t row;    /* elements in a row; 0: no rows */
    bool needs_row; /* members work on rows; if not, rows are only the period of a broadcast */
    bool across;    /* an operand lies by column: tiles are to be rows of it */
    bool aligned;   /* results depend on where tiles begin (guarded kernels): no rows, tiles of GT_TILE elements */
} gt_group;

typedef struct gt_forming gt_forming;

/* By buffer: the group that makes it now, and at which level. */
gt_err gt__forming_new(const gt_cpu *cpu, gt_plan *plan, gt_forming **forming);
void gt__forming_free(gt_forming *forming);
/* The group that begins with step `first`, as long as possible; none if it has no members. Views in between belong to it. */
void gt__group_form(gt_forming *forming, uint32_t first, gt_group *group);
/* The level at which the group being formed, or formed last, makes a buffer; GT_LEVEL_COUNT: it does not make it. */
gt_level gt__group_made(const gt_forming *forming, uint32_t buffer);

/* In rows of `row` elements: every row is the same run; every row is one element. */
bool gt__access_column(const gt_access *access, int64_t row);
bool gt__access_row(const gt_access *access, int64_t row);
/* It lies by column. */
static inline bool gt__access_crosses(const gt_access *access)
{
    int last = access->rank - 1;
    return last > 0 && access->stride[last] > 1 && access->stride[last - 1] == 1;
}
/* The shape whose elements are the positions that a member walks. */
const gt_meta *gt__member_space(const gt_plan *plan, const gt_plan_step *step, gt_fusible kind);

/* ---- compounds ------------------------------------------------------------------------------------------------- */

/* Members that one loop computes. It runs at the place of the last one. */
typedef struct gt_compound_match {
    const gt_compound *compound;
    uint64_t members;                  /* by number */
    uint8_t member[GT_COMPOUND_STEPS]; /* by step of the compound */
    unsigned inputs, numbers;
    uint32_t input[GT_COMPOUND_INPUTS]; /* values */
    const gt_plan_step *number_step[GT_COMPOUND_NUMBERS];
    unsigned number_operand[GT_COMPOUND_NUMBERS];
} gt_compound_match;

/* The first of `compounds` (a list) that fits members of which `first` is the earliest, none of them in `taken`. */
bool gt__compound_find(const gt_compound *compounds, const gt_plan *plan, const gt_forming *forming,
                       const gt_group *group, uint64_t taken, unsigned first, gt_compound_match *match);

/* ---- tiles --------------------------------------------------------------------------------------------------- */

typedef enum gt_slot_place {
    GT_PLACE_SCRATCH,
    GT_PLACE_MEMORY,
    GT_PLACE_NUMBER, /* one number, prepared at the start of a run */
} gt_slot_place;

#define GT_NO_REGION UINT32_MAX

/* An operand or a result of tile operations. */
typedef struct gt_tile_slot {
    gt_slot_place place;
    gt_level level;
    uint8_t size;    /* bytes of an element */
    uint32_t buffer; /* MEMORY */
    int64_t offset;  /* MEMORY: bytes in the buffer; SCRATCH: bytes in the scratch; NUMBER: which */
    char *base;      /* MEMORY, NUMBER: during a run */
    uint32_t region, first,
        last; /* SCRATCH, while a group is lowered: its place, the operations that make and use it */
} gt_tile_slot;

typedef struct gt_tile {
    void **at; /* by slot */
    int64_t begin[GT_LEVEL_COUNT], count[GT_LEVEL_COUNT];
    const gt_cpu *cpu;
    int64_t row;
    char *sums; /* of the part of the tiles that it belongs to */
} gt_tile;

/* A strided operand that is gathered into a tile, or used where it lies if it is one run there. */
typedef struct gt_tile_gather {
    gt_load_kernel load; /* or */
    gt_row_mover move;
    int64_t from_size, to_size;
    bool as_is;     /* needs no conversion */
    uint16_t slot;  /* where it goes */
    int64_t offset; /* of the slot in the scratch */
    gt_access access;
} gt_tile_gather;

typedef struct gt_tile_op gt_tile_op;
struct gt_tile_op {
    void (*run)(const gt_tile_op *op, gt_tile *tile);
    uint16_t out, in[GT_COMPOUND_INPUTS];
    uint16_t more_out[GT_COMPOUND_OUTPUTS - 1]; /* compounds */
    uint8_t more_outs;                          /* used in more_out[] */
    uint8_t level;                              /* of its positions */
    uint8_t inputs;                             /* used in in[] */
    bool over_operand;                          /* the result may be written over an operand of the same size */
    gt_opcode op;
    gt_compute compute;
    gt_dtype dtype; /* of the result, where kernels convert it */
    const gt_instruction *ins;
    union {
        struct {
            gt_elementwise_kernel kernel;
            const double *pq;
            int64_t out_step, in_step[3]; /* bytes from row to row */
        } apply;
        struct {
            gt_compound_kernel kernel;
            uint16_t number[GT_COMPOUND_NUMBERS]; /* slots */
            uint8_t numbers;
        } compound;
        struct {
            int64_t results;
            size_t offset; /* in the sums */
        } sum;
        bool beside; /* reductions: rows are folded side by side */
        gt_load_kernel load;
        gt_store_kernel store;
        gt_row_mover move;
        gt_tile_gather *gather;
    };
};

void gt__tile_apply(const gt_tile_op *op, gt_tile *tile);
void gt__tile_compound(const gt_tile_op *op, gt_tile *tile);
void gt__tile_apply_rows(const gt_tile_op *op, gt_tile *tile);
void gt__tile_load(const gt_tile_op *op, gt_tile *tile);
void gt__tile_store(const gt_tile_op *op, gt_tile *tile);
void gt__tile_move(const gt_tile_op *op, gt_tile *tile);
void gt__tile_gather_run(const gt_tile_op *op, gt_tile *tile);
void gt__tile_spread_rows(const gt_tile_op *op, gt_tile *tile);    /* an element to a row of them */
void gt__tile_spread_columns(const gt_tile_op *op, gt_tile *tile); /* a row to all rows */
void gt__tile_fill(const gt_tile_op *op, gt_tile *tile);           /* one number to all positions */
void gt__tile_reduce(const gt_tile_op *op, gt_tile *tile);
void gt__tile_softmax(const gt_tile_op *op, gt_tile *tile);
void gt__tile_norm(const gt_tile_op *op, gt_tile *tile);
void gt__tile_sum_columns(const gt_tile_op *op, gt_tile *tile);
void gt__tile_sum_all(const gt_tile_op *op, gt_tile *tile);
void gt__tile_norm_sum(const gt_tile_op *op, gt_tile *tile);

/* Whether an operation adds to sums. */
static inline bool gt__tile_sums(const gt_tile_op *op)
{
    return op->run == gt__tile_sum_columns || op->run == gt__tile_sum_all || op->run == gt__tile_norm_sum;
}

/* Threads must not share cache lines. */
static inline size_t gt__line_aligned(size_t bytes)
{
    enum { LINE = 64 };
    return (bytes + LINE - 1) / LINE * LINE;
}

/* A literal, or a tensor of one element, as the kernels read it. */
typedef struct gt_tile_number {
    const gt_instruction *ins; /* NULL: a tensor */
    unsigned operand;
    uint32_t buffer;
    int64_t offset;
    gt_dtype dtype;
    gt_compute compute;
    gt_dtype narrow; /* rounded to this dtype first; the compute type's own: not */
    gt_scalar value;
} gt_tile_number;

/* An operation whose kernel depends on a number. */
typedef struct gt_tile_choice {
    uint32_t op, number, constants;
} gt_tile_choice;

typedef struct gt_fused {
    int64_t count, row;
    int64_t tile, tiles; /* positions in a tile: elements, or rows if there are rows */
    int64_t grain;       /* tiles worth a thread */
    gt_tile_slot *slots;
    gt_tile_op *ops;
    gt_tile_gather *gathers;
    gt_tile_number *numbers;
    gt_tile_choice *choices;
    unsigned slot_count, op_count, gather_count, number_count, choice_count;
    unsigned before; /* the first operations run once for many tiles: they prepare what all tiles share */
    size_t scratch;  /* bytes for each thread */
    /* Sums are made in parts of the tiles, each with its own, and added up in order: the result does not depend on the
     * number of threads. */
    int64_t parts;
    size_t sums; /* bytes for each part; 0: there are none */
} gt_fused;

/* Translate a group; buffers that only the group uses get the role NONE. */
gt_err gt__group_lower(const gt_cpu *cpu, gt_plan *plan, const gt_forming *forming, const gt_group *group,
                       gt_fused **fused);
void gt__fused_free(gt_fused *fused);
/* Scratch and tiles for its operations: program_place.c. */
gt_err gt__fused_place(gt_fused *fused, const gt_plan *plan, const gt_group *group);
/* Make sure that the engine's scratch has `bytes` for each thread, and `sums` for sums. */
gt_err gt__scratch_reserve(gt_cpu *cpu, size_t bytes, size_t sums);
void gt__scratch_free(gt_scratch *scratch);
/* GT_ERR_CANCELLED: it was cancelled. */
gt_err gt__fused_run(gt_cpu *cpu, gt_fused *fused, void *const *buffer);

/* ---- vtable -------------------------------------------------------------------------------------------------- */

gt_err gt__cpu_compile(gt_engine *engine, gt_plan *plan, gt_program **program);
gt_err gt__cpu_run_program(gt_engine *engine, gt_program *program, void *const *buffer, bool timed, unsigned *step,
                           gt_token *token);
void gt__cpu_free_program(gt_engine *engine, gt_program *program);

#endif
