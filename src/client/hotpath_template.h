/*
 * hotpath_template.h: a sequence of records as it was once emitted, and the comparison of others with it.
 *
 * In a template tensors are numbered as in a path (core/path.h). An occurrence is a sequence that has fitted so far: its first
 * id, and the ids of its inputs.
 */
#ifndef GT_CLIENT_HOTPATH_TEMPLATE_H
#define GT_CLIENT_HOTPATH_TEMPLATE_H

#include "client/hotpath_detect.h"
#include "core/path.h"

/* Ids, in no order. */
typedef struct gt_ids {
    uint64_t *id;
    size_t count, capacity;
} gt_ids;

bool gt__ids_add(gt_ids *ids, uint64_t id); /* false: out of memory */

typedef struct gt_template {
    struct gt_template *next; /* another one that begins alike */
    uint32_t number;          /* of the path at the server, plus one; 0: not defined yet */
    uint32_t entry;           /* the shape of its first record */
    gt_slot *records;         /* computing records, one after the other */
    uint32_t slots, count;
    uint32_t inputs;
    uint32_t *at;     /* by record: its slot */
    uint32_t *offset; /* by local: its id less that of the first */
    uint32_t *local;  /* by that difference: the local plus one; 0: not one of ours */
    uint32_t span;
    uint8_t *parameters;          /* by record: bits of words that are parameters */
    bool *dead;                   /* by local: freed by the end of the sequence */
    bool *dying;                  /* by input: the same */
    uint64_t hits, misses, since; /* since: misses since the last hit */
    uint64_t used;                /* the client's instructions when it was made, or hit */
} gt_template;

/*
 * Make a template of `count` records in `slots` slots. freed: ids that were freed since the first of them. NULL: out of memory, or
 * there is something that cannot be in a path.
 */
gt_template *gt__template_new(const gt_slot *records, uint32_t slots, uint32_t count, const gt_ids *freed);
void gt__template_free(gt_template *template);
/* Of the same records, with the same values dead at the end. */
bool gt__template_same(const gt_template *a, const gt_template *b);

typedef struct gt_occurrence {
    uint32_t fitted; /* records */
    uint64_t first;  /* id of its first result */
    uint64_t *input; /* by input: its id, 0: not seen yet; room for GT_PATH_WORDS */
} gt_occurrence;

/* Whether the record continues the occurrence; if not, that is of no use any more. A literal that differs becomes a
 * parameter. */
bool gt__template_fits(gt_template *template, gt_occurrence *occurrence, const gt_slot *record);
/* After the last record: whether all that is dead at the end of the template is in `freed`. The other ids of `freed`
 * are moved to its front, *others of them. */
bool gt__template_ends(const gt_template *template, const gt_occurrence *occurrence, gt_ids *freed,
                       size_t *others);
/* The definition of its path; *slots long, the caller's to free. NULL: out of memory or too long. */
gt_slot *gt__template_define(const gt_template *template, size_t *slots);
/* Words of a run: inputs, then parameters from the records of the occurrence. Returns their number; more than
 * GT_PATH_WORDS: there would be too many. */
uint32_t gt__template_words(const gt_template *template, const gt_occurrence *occurrence, const gt_slot *records,
                            uint64_t *word);

#endif
