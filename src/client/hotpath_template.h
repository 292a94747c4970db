/*
 * hotpath_template.h: a sequence of records as it was once emitted, and the comparison of others with it.
 *
 * In a template tensors are numbered as in a path (core/path.h). Records are compared by core/expected.h, with the cells that
 * the caller keeps; after the last one, what has died is compared as well.
 */
#ifndef GT_CLIENT_HOTPATH_TEMPLATE_H
#define GT_CLIENT_HOTPATH_TEMPLATE_H

#include "client/hotpath_detect.h"
#include "core/expected.h"

/* Ids, in no order. */
typedef struct gt_ids {
    uint64_t *id;
    size_t count, capacity;
} gt_ids;

bool gt__ids_add(gt_ids *ids, uint64_t id); /* false: out of memory */

/* An id that was freed while a path was emitted, less its cell. */
typedef struct gt_expected_free {
    uint64_t word;
    uint16_t cell;
} gt_expected_free;

/* A record that came instead of one of a template's. */
typedef struct gt_odd_record {
    uint32_t place; /* of that one, counted from 1; 0: unused */
    uint32_t exact; /* gt_canonical.exact */
} gt_odd_record;

/* Places of a template where such records are remembered. A smaller batch may differ in two: if the path begins in the middle of a
 * step, both the run before the batch and the one after it miss. */
enum { GT_TEMPLATE_ODD = 4 };

typedef struct gt_template {
    struct gt_template *next;     /* another one that begins alike */
    struct gt_template *follower; /* the one that began right after this one last time; NULL: unknown */
    uint32_t serial;              /* no other template ever had it; not 0 */
    uint32_t number;              /* of the path at the server, plus one; 0: not defined yet */
    gt_slot *records;             /* computing records, one after the other */
    uint32_t slots, count;
    uint32_t inputs, parameter_count;
    bool at_leave;           /* it ends when the program leaves a region; else with its last record, */
    uint32_t late;           /* and so many deaths after it */
    gt_expected *expected;   /* by record, and one that no record fits */
    gt_expected_id *cat_ids; /* of expected cats */
    gt_canonical *canonical; /* by record */
    uint32_t *live;          /* by record: tensors alive before it, when it was learned */
    uint64_t work;           /* elements that its records touched then */
    uint32_t *at;            /* by record: its slot */
    uint32_t *offset;        /* by local: its id less that of the first */
    uint32_t *local;         /* by that difference: the local plus one; 0: not one of ours */
    uint32_t span;
    uint16_t *parameters;   /* by record: bits of words that are parameters */
    uint32_t deaths;        /* locals and inputs that are: */
    bool *dead;             /* by local: freed by the end of the sequence */
    bool *dying;            /* by input: the same */
    bool *sole;             /* by input: it dies or is overwritten, so it may not be another input as well */
    bool any_sole;          /* one of them */
    gt_expected_free *free; /* what was freed in the last run, in order */
    size_t frees, free_capacity;
    uint32_t *other;  /* of these: no tensors of the path, which are freed after it */
    uint32_t others;  /* how many */
    uint32_t stopped; /* records that had fitted when the client waited last; 0: it never did */
    uint32_t
        align; /* the record that it should begin with, because the client waits before it; 0: the present one */
    bool aligned;                       /* it does begin where the client waits */
    bool full;                          /* its runs would have too many words, with all their parameters */
    gt_odd_record odd[GT_TEMPLATE_ODD]; /* that were others when it missed; written in turn */
    unsigned odd_next;
    uint64_t hits, misses;
    uint64_t since, wasted;            /* since the last hit: misses, and the records that had fitted then */
    uint64_t used;                     /* the client's instructions when it was made, or hit */
    uint32_t tree, tree_from, tree_to; /* where its last run in a region was, in gt_region.came; tree 0: unknown */
} gt_template;

/* What a template is made of; all of it is borrowed. */
typedef struct gt_template_source {
    const gt_slot *records; /* `count` of them, in `slots` slots */
    uint32_t slots, count;
    const uint32_t *live;  /* by record: tensors alive before it */
    const uint64_t *freed; /* ids that were freed since the first record */
    size_t freed_count;
    bool at_leave; /* see gt_template */
} gt_template_source;

/* NULL: out of memory, or there is something that cannot be in a path. */
gt_template *gt__template_new(const gt_template_source *source);
void gt__template_free(gt_template *template);
/* Of the same records, with the same values dead at the end. */
bool gt__template_same(const gt_template *a, const gt_template *b);
/* The shape of its first record, by which it is found. */
static inline uint32_t gt__template_entry(const gt_template *template)
{
    return template->canonical->shape;
}

/*
 * Whether the records in `slots` slots begin like the template; *fitted: how many they are. A literal that differs becomes
 * a parameter. cell: GT_CELLS of them.
 */
bool gt__template_fits(gt_template *template, uint64_t *cell, const gt_slot *records, uint32_t slots,
                       uint32_t *fitted);
/* A record came instead of record `at`. True: the same one came there before. */
bool gt__template_odd_again(gt_template *template, uint32_t at, gt_canonical canonical);
/* After the last record: whether what is dead at the end of the template is in `freed`, and can be. template->other
 * then says which of them are none of the path's. */
bool gt__template_ends(gt_template *template, const uint64_t *cell, const uint64_t *freed, size_t count);
/* The definition of its path; *slots long, the caller's to free. NULL: out of memory or too long. */
gt_slot *gt__template_define(const gt_template *template, size_t *slots);

#endif
