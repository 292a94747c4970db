/* trim.c: see trim.h. Place in the flow: worker.c and answer.c -> here -> store.c. */
#include "worker/trim.h"

static const uint64_t AFTER_CLIENT_NS = 1000000000, AFTER_WORK_NS = 5000000000;
enum { KEPT_BYTES = 16 << 20 }; /* an idle worker keeps pools that are smaller */

void gt__trim_soon(gt_worker *worker)
{
    if (worker->trim_ns) {
        worker->trim_again = true;
        return;
    }
    worker->trim_again = false;
    worker->trim_ns = gt__now_ns() + AFTER_CLIENT_NS;
    gt__store_note_unused(worker->store);
}

void gt__trim_look(gt_worker *worker)
{
    if (!worker->trim_ns || gt__now_ns() < worker->trim_ns)
        return;
    worker->trim_ns = 0;
    gt__store_shrink(worker->store);
    gt__store_trim_unused(worker->store);
    if (worker->trim_again)
        gt__trim_soon(worker);
}

/* When an idle worker gives its pool back; 0: it keeps it. */
static uint64_t idle_deadline_ns(const gt_worker *worker, uint64_t quiet_ns)
{
    bool large = worker->store->bytes_held - worker->store->bytes_used >= KEPT_BYTES;
    return large ? quiet_ns + AFTER_WORK_NS : 0;
}

int gt__trim_patience_ms(const gt_worker *worker, uint64_t quiet_ns, int patience_ms)
{
    uint64_t due_ns = idle_deadline_ns(worker, quiet_ns);
    if (worker->trim_ns && (!due_ns || worker->trim_ns < due_ns))
        due_ns = worker->trim_ns;
    int due_ms = gt__remaining_ms(due_ns);
    return due_ms >= 0 && (patience_ms < 0 || due_ms < patience_ms) ? due_ms : patience_ms;
}

void gt__trim_idle(gt_worker *worker, uint64_t quiet_ns)
{
    uint64_t due_ns = idle_deadline_ns(worker, quiet_ns);
    gt__trim_look(worker);
    if (due_ns && gt__now_ns() >= due_ns)
        gt__store_trim(worker->store);
}
