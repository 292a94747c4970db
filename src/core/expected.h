/*
 * expected.h: the comparison of one record with one that is expected. It runs for every record that a client holds back
 * (client/hotpath.h), so it is a few word comparisons without a call.
 *
 * Each word of a record is compared after the value of a cell was subtracted from it: of cell 0 (always 0) for words that must
 * be the same, of cell 1 (the first id of this run) for its own results, of the input's cell for an input. The first use
 * of an input puts its id into the cell, a parameter puts its value into its own. So after the last record the cells are the
 * words of the run.
 */
#ifndef GT_CORE_EXPECTED_H
#define GT_CORE_EXPECTED_H

#include "core/path.h"

enum { GT_CELL_ZERO, GT_CELL_FIRST, GT_CELL_WORDS, GT_CELLS = GT_CELL_WORDS + GT_PATH_WORDS };

/* Words that are relative to a cell: the result, the operands, the immediates. */
enum { GT_CELL_FROM = GT_WORD_RESULT, GT_CELL_TO = GT_WORD_PLACE, GT_CELL_COUNT = GT_CELL_TO - GT_CELL_FROM };

/* An operand of a cat, which is in its tail. */
typedef struct gt_expected_id {
    uint64_t word;
    uint16_t cell;
    bool binds;
} gt_expected_id;

typedef struct gt_expected {
    uint64_t word[8];             /* less their cells */
    uint16_t cell[GT_CELL_COUNT]; /* of words GT_CELL_FROM on */
    uint8_t binds;                /* bits of words that are the first use of an input, counted from GT_CELL_FROM */
    uint8_t stores;               /* bits of words that are parameters; and the first result */
    bool first, last;             /* of the path */
    bool tail;
    uint8_t tail_stores; /* bits of words of the tail's first slot that are parameters, */
    uint16_t tail_cell;  /* the first of them in this cell, the others in the next ones */
    bool
        plain; /* all but head, result, two operands and place is zero, and no parameter: see gt__expected_fits_plain */
    uint8_t learned; /* how often client/quick.h has learned the next two */
    uint16_t slots;
    uint16_t kind; /* gt_meta.kind of the operand whose metadata the result has */
    const void
        *at; /* the instruction of the program that emits it; NULL: unknown, or it is not for client/quick.h */
    union {  /* of a record with a tail */
        const gt_slot *slot;
        const gt_expected_id *id; /* cat */
    } tails;
} gt_expected;

/* The same for tails: what the record's first slot says was compared before. */
bool gt__expected_tail_fits(const gt_expected *expected, uint64_t *cell, const gt_slot *record);

static inline bool gt__expected_fits(const gt_expected *e, uint64_t *cell, const gt_slot *record)
{
    const uint64_t *word = record->u64 + GT_CELL_FROM;
    uint64_t different = (record->u64[GT_WORD_HEAD] ^ e->word[GT_WORD_HEAD]) |
                         (record->u64[GT_WORD_PLACE] ^ e->word[GT_WORD_PLACE]);
    for (unsigned bits = e->stores; bits; bits &= bits - 1)
        cell[e->cell[__builtin_ctz(bits)]] = word[__builtin_ctz(bits)];
    for (unsigned bits = e->binds; bits; bits &= bits - 1) {
        unsigned k = (unsigned)__builtin_ctz(bits);
        cell[e->cell[k]] = word[k];
        different |= word[k] >= cell[GT_CELL_FIRST]; /* an input is older than the run */
    }
#pragma GCC unroll 8
    for (unsigned k = 0; k < GT_CELL_COUNT; k++)
        different |= (word[k] - cell[e->cell[k]]) ^ e->word[GT_CELL_FROM + k];
    return !different && (!e->tail || gt__expected_tail_fits(e, cell, record));
}

/* The same for a record of these words alone, without tail, and an expected one that is plain: its inputs used for the first time and
 * its parameters are among these words. Emission has the words at hand, and need not read what it has just written. */
static inline bool gt__expected_fits_plain(const gt_expected *e, uint64_t *cell, uint64_t head, uint64_t result,
                                           uint64_t first, uint64_t second, uint64_t place)
{
    uint64_t different = (head ^ e->word[GT_WORD_HEAD]) | (place ^ e->word[GT_WORD_PLACE]);
    unsigned kept = e->binds | e->stores;
    if (kept) {
        if (kept & 1)
            cell[e->cell[0]] = result;
        if (kept & 2)
            cell[e->cell[1]] = first;
        if (kept & 4)
            cell[e->cell[2]] = second;
        different |=
            (e->binds & 2 && first >= cell[GT_CELL_FIRST]) | (e->binds & 4 && second >= cell[GT_CELL_FIRST]);
    }
    different |= (result - cell[e->cell[0]]) ^ e->word[GT_WORD_RESULT];
    different |= (first - cell[e->cell[1]]) ^ e->word[GT_WORD_OPERAND];
    different |= (second - cell[e->cell[2]]) ^ e->word[GT_WORD_OPERAND + 1];
    return !different;
}

#endif
