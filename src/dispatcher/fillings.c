/* fillings.c: see fillings.h. */
#include "dispatcher/fillings.h"

#include <stdlib.h>

enum { MOST = 1024 }; /* every piece is looked for among them */

bool gt__fillings_any(gt_fillings *fillings, const gt_handles *handles)
{
    for (uint32_t k = 0; k < fillings->count; k++)
        if (!gt__handles_find(handles, fillings->filling[k].id))
            fillings->filling[k--] = fillings->filling[--fillings->count];
    return fillings->count;
}

/* Clients send the pieces of one upload after the other, so it is the last one, most often. */
static void note_piece(gt_fillings *fillings, const gt_instruction *ins)
{
    uint64_t end = ins->imm[0].u + ins->imm[1].u;
    for (uint32_t k = fillings->count; k-- > 0;)
        if (fillings->filling[k].id == ins->operand[0]) {
            if (fillings->filling[k].bytes <= end)
                fillings->filling[k] = fillings->filling[--fillings->count];
            return;
        }
}

void gt__fillings_note(gt_fillings *fillings, const gt_handles *handles, const gt_instruction *ins)
{
    if (ins->op == GT_OP_data)
        note_piece(fillings, ins);
    if (ins->op != GT_OP_upload || ins->imm[1].u || ins->imm[0].u <= GT_MAX_CHUNK)
        return;
    if (fillings->count == MOST && gt__fillings_any(fillings, handles) && fillings->count > MOST / 2) {
        fillings->lost_count = true;
        return;
    }
    if (fillings->count == fillings->capacity) {
        uint32_t capacity = fillings->capacity ? 2 * fillings->capacity : 4;
        gt_filling *filling = realloc(fillings->filling, capacity * sizeof *filling);
        if (!filling) {
            fillings->lost_count = true;
            return;
        }
        fillings->filling = filling;
        fillings->capacity = capacity;
    }
    fillings->filling[fillings->count++] = (gt_filling){.id = ins->result, .bytes = ins->imm[0].u};
}

void gt__fillings_free(gt_fillings *fillings)
{
    free(fillings->filling);
    *fillings = (gt_fillings){0};
}
