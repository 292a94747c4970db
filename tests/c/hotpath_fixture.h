/*
 * hotpath_fixture.h: a client whose server is the test: it reads the link, expands the paths, and checks that every tensor is
 * made once, and freed once after its last use. Used by test_hotpath.c and test_hotpath_programs.c.
 */
#ifndef GT_TESTS_HOTPATH_FIXTURE_H
#define GT_TESTS_HOTPATH_FIXTURE_H

#include <sched.h>
#include <stdlib.h>

#include "check.h"
#include "client/client.h"
#include "client/hotpath.h"
#include "core/path.h"
#include "core/record.h"
#include "gt.h"
#include "link/hello.h"

enum { MOST_IDS = 1 << 21 };

/* What the server gets, paths expanded. */
typedef struct observed {
    gt_link *link;
    gt_path *path[GT_PATHS];
    gt_path_pieces pieces;
    uint8_t *state; /* by id: 0 new, 1 alive, 2 gone */
    uint64_t hash;  /* of the computing records, */
    uint64_t sent;  /* and of what was sent for them: single ones, and numbers of paths */
    uint64_t records, runs, alive;
    const gt_client *waits_for; /* NULL: it reads what comes */
    bool trickles;              /* it reads one record at a time */
    bool said_goodbye;
    _Atomic bool stop;
} observed;

static inline uint64_t add_word(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * 0x100000001b3u;
}

static inline void end_tensor(observed *o, uint64_t id)
{
    if (!CHECK(id < MOST_IDS && o->state[id] == 1))
        return;
    o->state[id] = 2;
    o->alive--;
}

static inline gt_err observe(void *context, gt_slot *record)
{
    observed *o = context;
    for (gt_record_ids ids = gt__record_ids(record); gt__record_ids_next(&ids);) {
        CHECK(*ids.id < MOST_IDS);
        if (ids.use == GT_ID_WRITTEN) {
            CHECK_EQ(o->state[*ids.id], 0);
            o->state[*ids.id] = 1;
            o->alive++;
        } else if (ids.use & GT_ID_FREED)
            end_tensor(o, *ids.id);
        else
            CHECK_EQ(o->state[*ids.id], 1);
    }
    if (record->ins.op == GT_OP_free)
        return GT_OK;
    for (unsigned k = record->ins.rank; record->ins.op == GT_OP_upload && k < GT_MAX_RANK; k++)
        CHECK_EQ(record[1].i64[k], 0); /* not what the client has in its memory */
    o->records++;
    for (unsigned k = 0; k < 8u * (1u + record->ins.tail); k++)
        o->hash = add_word(o->hash, record->u64[k]);
    return GT_OK;
}

/* All that has come; false: nothing. */
static inline bool read_link(observed *o)
{
    size_t available;
    const gt_slot *slots = gt__link_peek(o->link, &available);
    if (!slots)
        return false;
    while (available) {
        static gt_slot record[1 + GT_MAX_TAIL];
        unsigned length;
        gt_path *path = NULL;
        if (!CHECK_EQ(gt__instruction_check(slots, available, &length), GT_OK))
            abort();
        CHECK(!o->said_goodbye);
        memcpy(record, slots, length * sizeof *record);
        uint64_t number = record->ins.result;
        if (record->ins.op == GT_OP_path) {
            CHECK_EQ(gt__path_piece(&o->pieces, record, &path), GT_OK);
            if (path)
                gt__path_free(&o->path[number]);
            o->path[number] = path ? path : o->path[number];
        } else if (record->ins.op == GT_OP_repeat) {
            o->runs++;
            o->sent = add_word(o->sent, number << 16 | GT_OP_repeat);
            if (CHECK(o->path[number]) && CHECK_EQ(gt__path_check_run(o->path[number], record), GT_OK))
                gt__path_expand(o->path[number], record, observe, o);
        } else if (record->ins.op == GT_OP_goodbye)
            o->said_goodbye = true;
        else {
            o->sent = record->ins.op == GT_OP_free ? o->sent : add_word(o->sent, record->ins.op);
            observe(o, record);
        }
        slots += length;
        available = o->trickles ? 0 : available - length;
        gt__link_consume(o->link, length);
    }
    return true;
}

/* The server's side in a thread. A slow one reads only when the client waits for room. */
static inline void *read_all(void *argument)
{
    observed *o = argument;
    while (!atomic_load(&o->stop)) {
        if (o->waits_for && !__atomic_load_n(&o->waits_for->waiting, __ATOMIC_ACQUIRE))
            sched_yield();
        else if (!read_link(o))
            gt__link_wait(o->link, GT_WAIT_READ, 5);
    }
    while (read_link(o))
        continue;
    return NULL;
}

static inline gt_client *client_of(gt_link *link, bool hot)
{
    gt_client *client = calloc(1, sizeof *client);
    setenv("GT_AUTO_COMPILE", "0", 1);
    setenv("GT_COMPILE", hot ? "1" : "0", 1);
    setenv("GT_HOTPATH_MIN_SEQ", "2", 1);
    client->link = link;
    client->usable = true;
    client->generation = gt__fork_generation;
    client->next_id = client->next_ticket = 1;
    client->seed = 1;
    client->hotpath = gt__hotpath_new();
    CHECK((client->hotpath != NULL) == hot);
    return client;
}

static inline observed observed_new(gt_link *link)
{
    return (observed){.link = link, .state = calloc(MOST_IDS, 1), .hash = 1};
}

static inline void observed_free(observed *o)
{
    for (unsigned k = 0; k < GT_PATHS; k++)
        gt__path_free(&o->path[k]);
    gt__path_pieces_free(&o->pieces);
    free(o->state);
    gt__link_close(o->link);
}

/* A tensor of the client's data, which is freed at once. */
static inline void upload_and_free(gt_client *client)
{
    gt_tensor *batch;
    CHECK_EQ(gt_from_data(client, GT_FLOAT32, 1, (int64_t[]){2}, (float[]){1, 2}, &batch), GT_OK);
    gt_tensor_release(batch);
}

#endif
