/*
 * hotpath.h: finds the loop in a client's stream and sends it as one record.
 *
 * Every record that the client commits passes here. The detector (hotpath_detect.c) finds sequences that repeat, and where
 * they should be cut. Such a sequence is learned while it is emitted once more, as a template (hotpath_template.c). From then
 * on records that begin like a template are held back and compared with it, one by one. After the last of them one
 * `repeat` record goes out in their place (core/path.h); a record that does not fit sends all those held back, as if
 * nothing had happened.
 *
 * Frees are not part of a sequence: when a tensor dies says nothing about the order of work. They stay in the client's queue
 * while records are held back; what must be dead at the end of a path is compared with what is. What a program computes on the way
 * to its last result dies right after the last record, so a path waits for these frees, until the next record comes.
 */
#ifndef GT_CLIENT_HOTPATH_H
#define GT_CLIENT_HOTPATH_H

#include "client/client.h"
#include "core/expected.h"

typedef struct gt_hotpath gt_hotpath;

/* NULL if GT_AUTO_COMPILE is 0, or there is no memory. */
gt_hotpath *gt__hotpath_new(void);
void gt__hotpath_free(gt_hotpath **hot);

/* A record was written at the link's write_next. True: it is held back; false: commit it. */
bool gt__hotpath_take(gt_client *client, unsigned slots, int64_t work);
/* The first or last record of a path was held back. After the last one the path ends now, or with the frees that follow. */
void gt__hotpath_turn(gt_client *client, const gt_expected *expected);
/* client->frees has grown. */
void gt__hotpath_set_free_room(gt_client *client);
/* client->finish_at was reached. */
void gt__hotpath_last_free(gt_client *client);
/* The record at the link's write_next is the expected one: it is held back. */
static inline void gt__hotpath_held(gt_client *client, gt_expected *expected, gt_slot *record)
{
    client->link->write_next = record + expected->slots;
    client->expected = expected + 1;
    if (__builtin_expect(expected->first || expected->last, 0))
        gt__hotpath_turn(client, expected);
}
/* The same as take, for a client that holds records back (client->expected). False: the record is not the expected one. */
static inline bool gt__hotpath_hold(gt_client *client)
{
    gt_expected *expected = client->expected;
    gt_slot *record = client->link->write_next;
    if (__builtin_expect(!gt__expected_fits(expected, client->cell, record), 0))
        return false;
    gt__hotpath_held(client, expected, record);
    return true;
}
/* Whether records are held back now: frees have to wait. */
static inline bool gt__hotpath_holds(const gt_client *client)
{
    return client->expected && !client->expected->first;
}
/* None is, but a path was expected to begin: it no longer is. */
void gt__hotpath_idle(gt_client *client);
/* Records were held back and must go to the link first, for which there was no room. True: they are all there now. */
bool gt__hotpath_drain(gt_client *client);
/* Send the records that are held back, as far as there is room. */
void gt__hotpath_release(gt_client *client);
/* The same, and what waits for room so far is not held back when there is some. */
void gt__hotpath_flush(gt_client *client);

/*
 * A region that the program marks: a function (gt.compile), a scope (`compile: true`). What it sends between enter and leave
 * is a path once it came twice. Regions with the same number are the same; inner ones are part of the outermost one.
 */
#define GT_REGION_SCOPE ((uint64_t)1 << 32) /* plus a scope: its region; smaller numbers are those of functions */
/* Both wait until what waits for room has been sent, and fail only if that is interrupted, or another thread closes the client meanwhile: then
 * the region is not entered, but left. */
gt_err gt__hotpath_enter(gt_client *client, uint64_t region);
gt_err gt__hotpath_leave(gt_client *client);

typedef struct gt_hotpath_stats {
    uint64_t instructions, hot_instructions; /* computing records: all, and those sent as paths */
    uint64_t sequences, hot_sequences;       /* repetitions found; templates in use */
    uint64_t runs, misses;                   /* paths sent; records that did not fit a path that had begun */
    uint64_t bytes_saved;                    /* of records not sent */
} gt_hotpath_stats;

/* Zeros if hot paths are off. */
gt_hotpath_stats gt__hotpath_stats(const gt_client *client);
/* What gt.debug shows of them, as one JSON object; the caller frees it. NULL: out of memory. */
char *gt__hotpath_json(const gt_client *client);

#endif
