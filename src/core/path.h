/*
 * path.h: hot paths: a sequence of records that a client emits again and again, defined once and then named.
 *
 * A definition is a list of computing records and frees in which tensors have numbers of the path's own: its results are
 * locals, counted in the order they are made, and all other tensors are inputs, counted in the order of their first use.
 * Words that differ from run to run without changing a shape (literals, seeds, where a slice begins) are parameters. A local that the
 * definition does not free lives on after the path: it is an output. An input that it frees or consumes dies with it.
 *
 * A run names the path, the ids of the inputs, the values of the parameters, and the id of the first local: the id
 * of every other local is at a fixed distance from that. So a run can always be expanded into the records that it
 * stands for (gt__path_expand), and this is what the dispatcher does where it cannot be executed as one: docs/compilation.md.
 *
 *   path    client -> disp. -> worker   result: its number, imm[0] which slots of the definition, from there on,
 *                                       GT_PATH_PIECE at most; imm[1] slots of all of it. To a worker: imm[1] 0: forget it
 *   repeat  client -> disp.             result: the path, operand[0] id of the first local, imm[0] words in the tail:
 *                                       ids of the inputs, parameters, ids to free afterwards
 *           disp. -> worker             imm[0] words in the tail: slots of the inputs, slots of the outputs, parameters
 *   path    worker -> disp.             result: its number, tail: a gt_path_news. Sent when the path was planned
 */
#ifndef GT_CORE_PATH_H
#define GT_CORE_PATH_H

#include "core/instruction.h"

/* Ids in a definition: locals are 1, 2, ...; inputs are GT_PATH_INPUT, GT_PATH_INPUT + 1, ... */
#define GT_PATH_INPUT ((uint64_t)1 << 32)

enum {
    GT_PATH_SLOTS = 1 << 15, /* the longest definition */
    GT_PATH_WORDS = 8 * 512, /* the most words of a run */
    GT_PATHS = 256,          /* that a client may have defined at a time; their numbers are below this */
    GT_PATH_ROOM = 1 + GT_PATH_WORDS / 8, /* slots of the longest run */
};

_Static_assert((int)GT_PATH_ROOM <= (int)GT_MAX_TAIL + 1, "a run is one record");

/* Words of a record, 8 bytes each. Those from GT_WORD_TAIL on are of the first slot of its tail. */
enum {
    GT_WORD_HEAD = 0,
    GT_WORD_RESULT = 1,
    GT_WORD_OPERAND = 2,
    GT_WORD_IMM = 5,
    GT_WORD_PLACE = 7,
    GT_WORD_TAIL = 8,
    GT_PARAMETER_WORDS = 16 /* later words are no parameters */
};

static inline uint64_t *gt__record_word(const gt_slot *record, unsigned word)
{
    return (uint64_t *)&record[word / 8].u64[word % 8];
}

_Static_assert(offsetof(gt_instruction, op) == 0 && offsetof(gt_instruction, flags) == 3 &&
                   offsetof(gt_instruction, literals) == 4 && offsetof(gt_instruction, scope) == 56 &&
                   offsetof(gt_instruction, site) == 60,
               "the words of an instruction");

/* The first and last word of an op without dtype and tail. */
static inline uint64_t gt__word_head(gt_opcode op, uint8_t literals, uint8_t flags)
{
    return (uint64_t)op | (uint64_t)flags << 24 | (uint64_t)literals << 32;
}

static inline uint64_t gt__word_place(uint32_t scope, uint32_t site)
{
    return scope | (uint64_t)site << 32;
}

/* Word `word` of the record at slot `slot` is a parameter. */
typedef struct gt_path_word {
    uint32_t slot, word;
} gt_path_word;

typedef struct gt_path {
    uint64_t serial;  /* of this process: no other path has it; not 0 */
    gt_slot *records; /* frees included */
    uint32_t slots;
    uint32_t count; /* computing records, each of which makes a local */
    uint32_t inputs, outputs, parameters;
    bool marked;      /* the program asked for it: gt.compile, `compile: true` */
    bool one_signal;  /* all its computing records have the same scope, and are gradients or are not */
    uint32_t *offset; /* by local: its id less that of the first */
    uint32_t *maker;  /* by local: where the record that makes it begins in `records` */
    uint32_t *output; /* locals that live on, in the order they are made */
    bool *dies;       /* by input */
    gt_path_word *parameter;
} gt_path;

/* A definition, or a run. */
static inline bool gt__path_is(const gt_instruction *ins)
{
    return ins->op == GT_OP_path || ins->op == GT_OP_repeat;
}

/* The instruction that makes a local, which is counted from 0. */
static inline const gt_instruction *gt__path_maker(const gt_path *path, uint64_t local)
{
    return &path->records[path->maker[local]].ins;
}

/* Bits of the words of a record that may be parameters: those that change no shape, dtype or place. Where a slice begins is
 * checked in each run: it may leave its tensor. */
unsigned gt__path_parameter_words(const gt_instruction *ins);
/* It says where a slice or an assignment begins. */
static inline bool gt__path_word_moves(const gt_path_word *parameter)
{
    return parameter->word >= GT_WORD_TAIL;
}

/* Slots of the definition made of these parts. */
static inline size_t gt__path_definition_slots(uint32_t slots, uint32_t count, uint32_t parameters)
{
    return 1 + slots + gt__slots_for(((size_t)count + parameters) * sizeof(uint64_t));
}
/* Write the definition, so many slots. offset: by local. */
void gt__path_define(const gt_slot *records, uint32_t slots, uint32_t count, const uint32_t *offset,
                     const gt_path_word *parameter, uint32_t parameters, gt_slot *definition);
/* The program asked for this path. */
static inline void gt__path_mark(gt_slot *definition, bool marked)
{
    definition->u64[3] = marked;
}
/* Read a definition, and check everything: GT_ERR_PROTOCOL if a path like that cannot be. */
gt_err gt__path_new(const gt_slot *definition, size_t slots, gt_path **path);
void gt__path_free(gt_path **path);

/* Words that the tail of a run has, from the client, before the ids to be freed. */
static inline uint32_t gt__path_run_words(const gt_path *path)
{
    return path->inputs + path->parameters;
}

/*
 * The records that a run stands for: calls emit for each, in order, with a record of the caller's own to change. `run` was
 * checked against the path (gt__path_check_run). Ends with the first error.
 */
gt_err gt__path_expand(const gt_path *path, const gt_slot *run, gt_err (*emit)(void *context, gt_slot *record),
                       void *context);
/* The same, with frees as a client packs them: as many ids in each as there is room for. */
gt_err gt__path_expand_packed(const gt_path *path, const gt_slot *run,
                              gt_err (*emit)(void *context, gt_slot *record), void *context);
/* GT_ERR_PROTOCOL unless the run has the words that the path needs. */
gt_err gt__path_check_run(const gt_path *path, const gt_slot *run);

/* How a worker runs a path: which of its computing records run as one. */
typedef struct gt_path_news {
    uint64_t compile_ns; /* 0: the engine did not compile it */
    uint32_t count, unused;
    uint16_t group[]; /* by record: the first one of its group */
} gt_path_news;

/* Word k of the tail of a run. */
static inline uint64_t gt__path_word(const gt_slot *run, uint32_t k)
{
    return run[1 + k / 8].u64[k % 8];
}

/* Definitions on their way: pieces are put together until the last has come. */
typedef struct gt_path_pieces {
    gt_slot *slots;
    size_t have, whole;
} gt_path_pieces;

/* Add a piece, a `path` record. *path is set when the definition is complete. */
gt_err gt__path_piece(gt_path_pieces *pieces, const gt_slot *record, gt_path **path);
void gt__path_pieces_free(gt_path_pieces *pieces);

#endif
