/*
 * hotpath_state.h: what a client knows of its hot paths, for the files that share it: hotpath.c holds records back,
 * hotpath_learn.c finds what to hold back, hotpath_region.c does so where the program marks it, hotpath_text.c tells of it.
 */
#ifndef GT_CLIENT_HOTPATH_STATE_H
#define GT_CLIENT_HOTPATH_STATE_H

#include "client/hotpath.h"
#include "client/hotpath_bodies.h"
#include "client/hotpath_template.h"

/* A record that came in a call of a region, after another one or first. */
typedef struct gt_came {
    gt_canonical canonical;
    uint32_t next;  /* what came after it: the one that came last, in gt_region.came; 0: nothing */
    uint32_t other; /* another record that came in its place; 0: none */
    bool varies;    /* it is not exactly the same each time */
    bool waits;     /* something that cannot be part of a path came after it */
    bool leaves;    /* a call ended with it */
    uint8_t doubt;  /* how often a path that ends with it was learned: */
    uint8_t skips;  /* it must come so many times before the next one is */
} gt_came;

/* What came in the calls of a region: a tree, since calls take different branches. */
typedef struct gt_region {
    struct gt_region *next;
    uint64_t number;
    gt_came *came;            /* the first one is none: calls begin there */
    uint32_t count, capacity; /* 0: there is nothing yet */
    uint32_t tree;            /* its number; 0: none */
    unsigned refused;         /* calls in which there was no room for a record */
} gt_region;

/* The call of a region that is under way: see hotpath_region.c. */
typedef struct gt_recording {
    gt_region *regions;
    gt_region *region; /* NULL: none */
    unsigned depth;    /* regions that were entered */
    uint32_t at;       /* the last record, in region->came */
    uint32_t trees;    /* made so far */
    bool broken;       /* what follows in this call is not remembered */
    bool known;        /* all records in the stage came before, and a path began with them then */
    bool varied;       /* one that varies has come in this call */
    size_t sent;       /* frees that had been sent when the last record came, */
    gt_ids queued;     /* and those that waited in the client's queue */
} gt_recording;

enum {
    GT_HOT_ENTRIES = 256,
    GT_HOT_STAGE = GT_PATH_SLOTS / 2 + GT_LINK_MAX_RESERVE,
    GT_HOT_HEADROOM = 2 * GT_PATH_SLOTS, /* before it: a definition and a run that wait for room */
    GT_HOT_FREES = 1 << 16,              /* while records are learned, at most */
    GT_HOT_PATIENCE = 16,                /* misses in a row after which a template is dropped, */
    GT_HOT_WASTE = 2,                    /* if in them so many times its records were held back */
    GT_HOT_TEMPLATES = 128,
    GT_HOT_ALIKE = 8,           /* templates that begin with the same record */
    GT_HOT_FRUITLESS = 1 << 17, /* records of paths alone, after which the detector no longer sees these, */
    GT_HOT_CREDIT = 8,          /* but so many more for each record that is part of none */
};

typedef enum gt_hotpath_state {
    GT_HOT_WATCHING,
    GT_HOT_LEARNING, /* the present records become a template */
    GT_HOT_HOLDING,  /* they have fitted a template so far, and are in the stage */
    GT_HOT_DRAINING, /* they did not fit, or there is no room for their run: what is in the stage goes to the link */
} gt_hotpath_state;

/* A record that came behind those that wait for room, and may begin a path: it is taken when these have gone, as if it had been at once. */
typedef struct gt_fresh {
    uint32_t slots; /* 0: there is none */
    bool released;  /* the client was flushed since then */
    int64_t work;
    uint64_t live; /* tensors that were alive when it came, */
    size_t frees;  /* and frees that were queued */
} gt_fresh;

/* A tensor that died while records were held back, and where its free belongs: behind its last use, before this slot of the stage. */
typedef struct gt_due {
    uint64_t id;
    int64_t at;
} gt_due;

/* What every record touches comes first, and the tables come last: a client that waits for each value finds its caches cold. */
struct gt_hotpath {
    gt_hotpath_state state;
    bool automatic; /* it looks for loops itself; else there are only the regions that the program marks */
    bool ending; /* the last of the records that are learned has come; what dies before the next belongs to them */
    bool suspended;                 /* while the program is in a region: what is learned goes on behind it */
    uint32_t early;                 /* deaths before it */
    uint32_t fruitless;             /* records of paths that the detector has seen, less the credit of others */
    gt_hotpath_state drained_state; /* after GT_HOT_DRAINING: watching, or learning what did not fit */
    gt_template *ended;             /* the records before the next one were a run of it; NULL: they were not */
    gt_hotpath_stats stats;
    gt_detector detector;
    gt_recording recording;
    gt_template *holding;
    uint64_t *cell; /* GT_CELLS, of the records that are held back. These three: NULL until a record is learned */
    gt_slot *stage; /* records that are learned, held back or drained */
    uint32_t *live; /* by record that is learned: tensors alive before it */
    uint32_t staged, records;
    size_t frees_before;        /* that were queued when the first of the records that are held back came */
    int64_t drained, drain_end; /* slots of the stage that wait for room; below 0: of its headroom */
    int64_t drain_work;
    gt_due *due; /* frees that go between them, in order; those before due_next have gone */
    size_t due_count, due_next, due_capacity;
    unsigned due_least; /* so many are sent at once, except at the end */
    gt_fresh fresh;     /* the record behind them */
    uint32_t next_number, next_serial;
    int64_t work;                    /* of the records that are learned */
    gt_ids freed;                    /* since the first of those that are learned */
    gt_slot *write_next, *write_end; /* of the link, while its window is the stage */
    gt_template *replaced; /* by the one that is learned, which begins where the client waits; NULL: none */
    unsigned segments, segment_next, halves;
    gt_segment_plan segment[GT_HOT_SEGMENTS]; /* to be learned, in order */
    gt_segment_plan half[GT_HOT_SEGMENTS];    /* of those that cannot be one path: to be learned after them */
    gt_template *entry[GT_HOT_ENTRIES];       /* by the shape of their first record */
    gt_template *named[GT_PATHS];             /* by path number */
    gt_bodies bodies;
};

/* The next template after `after`, or the first, that begins with a record of this shape; NULL: there is none. */
static inline gt_template *gt__hotpath_find(const gt_hotpath *hot, uint32_t shape, const gt_template *after)
{
    gt_template *template = after ? after->next : hot->entry[shape % GT_HOT_ENTRIES];
    while (template && gt__template_entry(template) != shape)
        template = template->next;
    return template;
}

/* Forget a template, and the path's number if it has one. */
void gt__hotpath_forget(gt_hotpath *hot, gt_template *template);

/* ---- hotpath_learn.c: finding what to hold back --------------------------------------------------------------- */

/* Begin to collect records for a template. */
void gt__hotpath_collect(gt_hotpath *hot);
/* Frees are sent while records are learned. */
void gt__hotpath_learn_frees(gt_hotpath *hot, const gt_instruction *ins, bool learning);
/* Add one. False: there are too many, or there is no memory. */
bool gt__hotpath_collect_record(gt_client *client, const gt_slot *record, unsigned slots, int64_t work);
/* Frees that wait in the client's queue are as good as sent. False: out of memory. */
bool gt__hotpath_collect_frees(const gt_client *client, gt_ids *freed);
/* Make the template, and begin anew. It ends when the program leaves a region; or with its last record and so many deaths after
 * it. False: they cannot be one path, or there is no memory. */
bool gt__hotpath_collect_end(gt_hotpath *hot, bool at_leave, uint32_t late);
/* While hot->ending: the next record comes. */
void gt__hotpath_learn_end(gt_client *client);
/* Put a template among the others, unless it is known; takes it. */
void gt__hotpath_add(gt_hotpath *hot, gt_template *template, uint64_t work);
/* Try this template before others that begin alike, as it fits more often. */
void gt__hotpath_try_first(gt_hotpath *hot, gt_template *template);
/* Whether a template may be added that begins with a record of this shape. Where each time something else differs,
 * only a few are kept: all that begin alike are compared with the records. */
bool gt__hotpath_may_add_alike(const gt_hotpath *hot, uint32_t shape);
/* The record after the first `fitted` ones of the template that is held is another, or reads other values. True: the same came there
 * before, as in the smaller last batch of every epoch, or where a layer may be followed by itself. */
bool gt__hotpath_is_variant(const gt_hotpath *hot, uint32_t fitted, gt_canonical canonical);
/* A record of this shape begins no path, while those of some begin so. If the same came before, as where a path begins with the slice
 * that is a batch, it and those that follow are learned. */
void gt__hotpath_learn_odd_begin(gt_hotpath *hot, const gt_slot *record, uint32_t shape);
/* The record that is sent is not part of a path. */
static inline void gt__hotpath_see_single(gt_hotpath *hot)
{
    hot->ended = NULL;
    hot->fruitless -= hot->fruitless < GT_HOT_CREDIT ? hot->fruitless : GT_HOT_CREDIT;
}
/* Such a record. */
void gt__hotpath_watch(gt_client *client, const gt_slot *record, unsigned slots, gt_canonical canonical,
                       int64_t work);
void gt__hotpath_stop_learning(gt_hotpath *hot);
/* The program enters a region, and leaves it. Segments that are learned lie before and behind regions. */
void gt__hotpath_suspend_learning(gt_client *client);
void gt__hotpath_resume_learning(gt_hotpath *hot);
/* A template begins that should be divided, or begin later in its loop: learn it anew. False: not now, or it begins well already. */
bool gt__hotpath_learn_anew(gt_hotpath *hot, gt_template *template);
/* Learn so many records, of which the first ones are in the stage and were seen by the detector. */
void gt__hotpath_learn_staged(gt_hotpath *hot, uint32_t count);

/* ---- hotpath_run.c: what leaves the stage ---------------------------------------------------------------------- */

/* The records in the stage up to `end` will be sent one by one: the frees that the client has queued go between them, each behind the
 * last use of its tensor. All of them behind the records, a whole training step would keep what it no longer needs. */
void gt__hotpath_spread_frees(gt_client *client, int64_t end, int64_t work);
/* What is in the stage from `begin` to `end` goes to the link before all else, now or when there is room. */
void gt__hotpath_send_staged(gt_client *client, int64_t begin, int64_t end, int64_t work);
/* The run of a path whose records are in the stage, which is closed. False: it cannot be sent. */
bool gt__hotpath_send_run(gt_client *client, gt_template *template);

/* ---- hotpath_region.c: regions that the program marks --------------------------------------------------------- */

/* The program enters a region, and leaves it. broken: records are held back already, or wait
 * for room. */
void gt__region_begin(gt_hotpath *hot, uint64_t number, bool broken);
void gt__region_end(gt_client *client);
/* The same as gt__hotpath_watch, inside a region. */
void gt__region_record(gt_client *client, const gt_slot *record, unsigned slots, gt_canonical canonical,
                       int64_t work);
/* Something came that cannot be part of a path. */
void gt__region_wait(gt_client *client);
/* Records were sent as a path. */
void gt__region_skip(gt_hotpath *hot, gt_template *template);
/* The first `fitted` records of the template were held back in vain. They are in the stage, which remains as it is. */
void gt__region_take_back(gt_client *client, const gt_template *template, uint32_t fitted);
/* The present records are kept together: no path begins among them. */
static inline bool gt__region_collects(const gt_hotpath *hot)
{
    return hot->recording.region && !hot->recording.broken && hot->records;
}
void gt__region_free_all(gt_recording *recording);

/* ---- hotpath_text.c ------------------------------------------------------------------------------------------- */

/* With GT_DEBUG_COMPILE. */
void gt__hotpath_say_found(const gt_hotpath *hot, const gt_template *template);

#endif
