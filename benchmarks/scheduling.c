/*
 * scheduling.c: what dividing a worker's time (dispatcher/share.c) costs a client that has the worker to itself.
 *
 * The work of share.c for a stream of small records, as session.c and workers.c call it: each run of RUN records is charged, marks
 * are written, and their answers correct the accounts. The test of the worker's window is done for each record. Prints the
 * nanoseconds for a record; benchmarks/safety.py runs it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "dispatcher/session.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"
#include "link/link.h"

/* A client flushes its link every 64 records, and the dispatcher takes what is there: this is the shortest run of a stream. */
enum { RUN = 64, BETWEEN = 256, RUNS = 80 * BETWEEN, ROUNDS = 15 };
static const uint64_t MEASURED_NS = 100; /* of a record on the worker, as its answers say */

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* The worker answers its marks. */
static void answer(gt_dispatch_worker *worker, uint64_t done)
{
    while (worker->pendings.count) {
        gt_pending asked = gt__pendings_take(&worker->pendings, 0);
        gt__share_marked(worker, asked.charges, asked.placed_ns, done * MEASURED_NS, false);
    }
}

/* The other end of the worker's link, so that marks find room. */
static void drain(gt_link *link)
{
    size_t available;
    while (gt__link_peek(link, &available))
        gt__link_consume(link, (unsigned)available);
}

int main(void)
{
    gt_link *ours = NULL, *theirs = NULL;
    gt_dispatcher *dispatcher = calloc(1, sizeof *dispatcher);
    gt_dispatch_worker *worker = calloc(1, sizeof *worker);
    gt_session *session = calloc(1, sizeof *session);
    gt_peer *peer = calloc(1, sizeof *peer);
    if (!dispatcher || !worker || !session || !peer || gt__link_memory_pair(&ours, &theirs) != GT_OK)
        return 1;
    peer->dispatcher = session->dispatcher = dispatcher;
    worker->peer = peer;
    worker->link = ours;
    session->home = worker;
    session->account.weight = session->account.inverse = 1;
    gt__share_reset(worker);
    double best = 0;
    uint64_t open = 0, records = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double spent = 0;
        for (int run = 0; run < RUNS; run++) {
            double began = run % BETWEEN ? 0 : now_ns();
            for (int k = 0; k < RUN; k++)
                open += !*(volatile bool *)&worker->closed;
            gt__share_records(session, worker, RUN);
            records += RUN;
            if (worker->pendings.count) /* the worker is as fast as its stream */
                answer(worker, records);
            if (began > 0)
                spent -= began;
            if (run % BETWEEN == BETWEEN - 1) {
                spent += now_ns();
                gt__link_flush(ours);
                drain(theirs);
            }
        }
        spent /= (double)RUNS * RUN;
        best = round == 0 || spent < best ? spent : best;
    }
    if (open != records) {
        fprintf(stderr, "the window was closed for %llu records\n", (unsigned long long)(records - open));
        return 1;
    }
    printf("%.3f\n", best);
    return 0;
}
