/* deferred.c: see deferred.h. */
#include "worker/peers/deferred.h"

#include <stdlib.h>
#include <string.h>

#include "worker/worker.h"

enum {
    MOST_SLOTS = 64 << 10,  /* of records put aside: 4 MiB; then the first of them is waited for */
    MOST_TENSORS = 1 << 27, /* more than a store has slots */
};

/* ---- which tensors a record touches ------------------------------------------------------------------------ */

typedef struct touched {
    uint64_t read[GT_MAX_CAT], written[6];
    unsigned reads, writes;
} touched;

static void add_write(touched *t, uint64_t slot)
{
    if (slot)
        t->written[t->writes++] = slot;
}

static void look_at(const gt_slot *record, touched *t)
{
    const gt_instruction *ins = &record->ins;
    t->reads = t->writes = 0;
    if (ins->op == GT_OP_free) {
        const uint64_t freed[] = {ins->result,     ins->operand[0], ins->operand[1],
                                  ins->operand[2], ins->imm[0].u,   ins->imm[1].u};
        for (size_t k = 0; k < sizeof freed / sizeof freed[0]; k++)
            add_write(t, freed[k]);
    } else if (ins->op == GT_OP_data)
        add_write(t, ins->operand[0]);
    else if (ins->op == GT_OP_send)
        t->read[t->reads++] = ins->operand[0];
    else if (ins->op == GT_OP_recv)
        add_write(t, ins->result);
    if (ins->op >= GT_OP_FIRST_CONTROL)
        return;
    add_write(t, ins->result);
    if (ins->flags & GT_FLAG_CONSUMES)
        add_write(t, ins->operand[0]);
    if (ins->op == GT_OP_cat) {
        for (int64_t k = 0; k < ins->imm[1].i; k++)
            t->read[t->reads++] = record[1 + k / 8].u64[k % 8];
        return;
    }
    for (unsigned k = 0; k < gt__op_operands((gt_opcode)ins->op); k++)
        if (gt__literal(ins, k) == GT_LITERAL_NONE)
            t->read[t->reads++] = ins->operand[k];
}

static uint32_t uses(const gt_deferred *d, const uint32_t *counts, uint64_t slot)
{
    return slot < d->tensor_capacity ? counts[slot] : 0;
}

/* Whether a record has to come after one that was put aside. */
static bool conflicts(const gt_deferred *d, const touched *t)
{
    for (unsigned k = 0; k < t->reads; k++)
        if (uses(d, d->writes, t->read[k]))
            return true;
    for (unsigned k = 0; k < t->writes; k++)
        if (uses(d, d->writes, t->written[k]) || uses(d, d->reads, t->written[k]))
            return true;
    return false;
}

static bool make_room(gt_deferred *d, const touched *t)
{
    uint64_t last = 0;
    for (unsigned k = 0; k < t->reads; k++)
        last = t->read[k] > last ? t->read[k] : last;
    for (unsigned k = 0; k < t->writes; k++)
        last = t->written[k] > last ? t->written[k] : last;
    if (last < d->tensor_capacity)
        return true;
    size_t capacity = d->tensor_capacity ? d->tensor_capacity : 256;
    while (capacity <= last && capacity < MOST_TENSORS)
        capacity *= 2;
    if (capacity <= last)
        return false; /* an absurd number: it is executed, and refused, in its turn */
    uint32_t *reads = realloc(d->reads, capacity * sizeof *reads);
    if (reads)
        d->reads = reads;
    uint32_t *writes = reads ? realloc(d->writes, capacity * sizeof *writes) : NULL;
    if (!writes)
        return false;
    d->writes = writes;
    memset(d->reads + d->tensor_capacity, 0, (capacity - d->tensor_capacity) * sizeof *reads);
    memset(d->writes + d->tensor_capacity, 0, (capacity - d->tensor_capacity) * sizeof *writes);
    d->tensor_capacity = capacity;
    return true;
}

static void count(gt_deferred *d, const touched *t, int change)
{
    for (unsigned k = 0; k < t->reads; k++)
        d->reads[t->read[k]] += (uint32_t)change;
    for (unsigned k = 0; k < t->writes; k++)
        d->writes[t->written[k]] += (uint32_t)change;
}

/* ---- putting aside ----------------------------------------------------------------------------------------- */

static bool put_aside(gt_deferred *d, const gt_slot *record, const touched *t)
{
    unsigned length = 1u + record->ins.tail;
    if (d->first > d->end / 2) { /* rarely, so that each is moved once or twice */
        memmove(d->slots, d->slots + d->first, (d->end - d->first) * sizeof *d->slots);
        d->end -= d->first;
        d->first = 0;
    }
    if (d->end + length > d->capacity) {
        size_t capacity = d->capacity ? d->capacity : 256;
        while (capacity < d->end + length)
            capacity *= 2;
        gt_slot *slots = realloc(d->slots, capacity * sizeof *slots);
        if (!slots)
            return false;
        d->slots = slots;
        d->capacity = capacity;
    }
    if (!make_room(d, t))
        return false;
    memcpy(d->slots + d->end, record, length * sizeof *record);
    d->end += length;
    d->count++;
    count(d, t, 1);
    return true;
}

static bool arrived(gt_worker *worker, const gt_instruction *recv, int wait_ms)
{
    gt_exchange *exchange = worker->exchange;
    return gt__exchange_ready(exchange, (int32_t)recv->imm[0].i, recv->imm[1].u, 0, wait_ms);
}

/* Records that may overtake others, or be overtaken. */
static bool is_movable(unsigned op)
{
    return op < GT_OP_FIRST_CONTROL || op == GT_OP_free || op == GT_OP_data || op == GT_OP_send ||
           op == GT_OP_recv;
}

bool gt__deferred_takes(gt_worker *worker, const gt_slot *record)
{
    gt_deferred *d = &worker->deferred;
    touched t;
    if (d->count)
        gt__deferred_run(worker, 0);
    if (worker->timing.watched) /* logs tell of records in their order */
        gt__deferred_run(worker, -1);
    if (!is_movable(record->ins.op)) {
        if (record->ins.op != GT_OP_stats && record->ins.op != GT_OP_forget)
            gt__deferred_run(worker, -1);
        return false;
    }
    if (worker->timing.watched)
        return false;
    look_at(record, &t);
    bool waits = record->ins.op == GT_OP_recv && !arrived(worker, &record->ins, 0);
    if (!waits && !(d->count && conflicts(d, &t)))
        return false;
    if (d->end - d->first > MOST_SLOTS || !put_aside(d, record, &t)) {
        gt__deferred_run(worker, -1);
        return false;
    }
    return true;
}

/* ---- running ----------------------------------------------------------------------------------------------- */

void gt__deferred_run(gt_worker *worker, int wait_ms)
{
    gt_deferred *d = &worker->deferred;
    if (wait_ms && d->count)
        gt__late_finish_posts(worker);
    while (d->count) {
        const gt_slot *record = d->slots + d->first;
        if (record->ins.op == GT_OP_recv && !arrived(worker, &record->ins, wait_ms))
            return;
        touched t;
        look_at(record, &t);
        gt__worker_run_record(worker, record);
        gt__late_return_window(worker); /* the record goes */
        count(d, &t, -1);
        d->first += 1u + record->ins.tail;
        d->count--;
        if (wait_ms > 0)
            wait_ms = 0;
    }
    d->first = d->end = 0;
}

void gt__deferred_free(gt_deferred *deferred)
{
    free(deferred->slots);
    free(deferred->reads);
    free(deferred->writes);
    *deferred = (gt_deferred){0};
}
