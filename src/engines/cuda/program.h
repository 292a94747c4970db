/*
 * program.h: a compiled plan. program_make.c divides a plan into parts and finds what need not run; program.c runs, records and replays
 * them. Read chain.h first.
 */
#ifndef GT_ENGINES_CUDA_PROGRAM_H
#define GT_ENGINES_CUDA_PROGRAM_H

#include "engines/cuda/chain.h"
#include "engines/cuda/cuda.h"

enum { GT_CUDA_RECORDINGS = 64 };

/* Scratch memory that belongs to a program: the steps of all its recordings run in one order, so they share it. */
typedef struct gt_cuda_scratch_block {
    CUdeviceptr address;
    size_t bytes;
    bool free;
} gt_cuda_scratch_block;

/* The numbers of a step that may change from run to run. */
typedef struct gt_cuda_step_numbers {
    gt_imm literal[GT_MAX_OPERANDS], imm[2];
} gt_cuda_step_numbers;

/* A kernel of a step, in the graph. */
typedef struct gt_cuda_node {
    CUgraphNode node;
    unsigned step;
    gt_cuda_key key;
    CUfunction function;
    CUdeviceptr scratch, errors;
    unsigned parts; /* that it runs, if it is of chains */
} gt_cuda_node;

typedef struct gt_cuda_recording {
    uint8_t *inputs;   /* addresses, then numbers, that it was made with; NULL: an empty place */
    uint64_t used;     /* the program's run that used it last */
    gt_token token;    /* of that run */
    CUgraphExec graph; /* NULL: seen once, not recorded */
    CUgraph original;  /* that the nodes are of */
    gt_cuda_node *nodes;
    size_t node_count, node_room;
    size_t *node_of;       /* by step: its first node, if it has one */
    gt_cuda_errors *slots; /* pinned, one for each step that may fail */
    CUdeviceptr slots_address;
    unsigned slot_count, *slot_step;
} gt_cuda_recording;

struct gt_program {
    const gt_plan *plan;
    gt_cuda_casts casts;
    gt_cuda_part *parts;
    unsigned part_count;
    unsigned most_operands;
    gt_view *in; /* room for the operands of a step */
    const gt_view **views;
    size_t inputs_bytes;
    uint8_t *inputs; /* of the present run */
    uint64_t runs, replays, recorded;
    unsigned lost;
    bool never; /* it cannot be recorded */
    gt_cuda_recording recordings[GT_CUDA_RECORDINGS];
    gt_cuda_recording *open; /* while one is recorded */
    gt_cuda_scratch_block *scratches;
    size_t scratch_count;
    gt_cuda_pair *pairs;
    unsigned pair_count;
    uint32_t *pair_of; /* by step: the number of its pair plus one */
    gt_cuda_picks *picks;
    unsigned picks_count;
    uint32_t *picks_of; /* by step: the number of its picks plus one */
    gt_cuda_norm *norms;
    unsigned norm_count;
    uint32_t *norm_of; /* by step: the number of its norm plus one */
};

static inline const gt_cuda_pair *gt__cuda_pair_of(const gt_program *program, unsigned step)
{
    return program->pair_of[step] ? &program->pairs[program->pair_of[step] - 1] : NULL;
}

static inline const gt_cuda_norm *gt__cuda_norm_of(const gt_program *program, unsigned step)
{
    return program->norm_of[step] ? &program->norms[program->norm_of[step] - 1] : NULL;
}

/* The call of a step, in the program's room for one. True: it is for launches only. */
bool gt__cuda_program_call(gt_program *program, const gt_cuda_part *part, unsigned number, void *const *buffer,
                           gt_view *out, gt_call *call);

#endif
