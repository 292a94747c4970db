/* late.c: flights (pending operations), and the queue of items that wait for tokens. See late.h. */
#include "worker/late.h"

#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "engines/plan.h"
#include "worker/worker.h"

enum { MOST_HOST_BYTES = 64 << 20 }; /* of pending answers and messages; a single one may be larger */

/* ---- flights ------------------------------------------------------------------------------------------------ */

static gt_flight *flight_new(gt_late *late)
{
    gt_flight *flight = late->spare;
    if (flight)
        late->spare = flight->more;
    else
        flight = malloc(sizeof *flight);
    if (flight)
        *flight = (gt_flight){.references = 1, .weight = 1};
    return flight;
}

static void drop_operands(gt_late *late, gt_flight *flight)
{
    for (unsigned k = 0; k < flight->operands; k++)
        gt__flight_release(late, flight->operand[k]);
    flight->operands = 0;
    if (flight->more)
        gt__flight_release(late, flight->more);
    flight->more = NULL;
}

void gt__flight_release(gt_late *late, gt_flight *flight)
{
    if (!flight || --flight->references)
        return;
    drop_operands(late, flight);
    if (flight->poison)
        gt__poison_release(flight->poison);
    flight->more = late->spare;
    late->spare = flight;
}

/* Hold the flights in operands[]; a list that is too long continues in a flight of its own. False: no memory. */
static bool hold_operands(gt_late *late, gt_flight *flight, gt_flight *const *operands, unsigned count)
{
    for (unsigned k = 0; k < count; k++) {
        if (!operands[k])
            continue;
        if (flight->operands == GT_MAX_OPERANDS) {
            flight->more = flight_new(late);
            return flight->more && hold_operands(late, flight->more, operands + k, count - k);
        }
        operands[k]->references++;
        flight->operand[flight->operands++] = operands[k];
    }
    return true;
}

/* The first failure of the operands, which are all settled; NULL if none failed. */
static gt_poison *operands_poison(const gt_flight *flight)
{
    for (unsigned k = 0; k < flight->operands; k++)
        if (flight->operand[k]->poison)
            return flight->operand[k]->poison;
    return flight->more ? operands_poison(flight->more) : NULL;
}

static void settle(gt_worker *worker, void *object, const gt_completion *done)
{
    gt_flight *flight = object;
    gt_poison *poison = operands_poison(flight);
    flight->settled = true;
    if (poison) {
        poison->references++;
        flight->poison = poison;
    } else if (done && done->err != GT_OK) {
        gt_origin origin = flight->origin;
        if (flight->plan && done->step < flight->plan->step_count)
            origin = gt__worker_origin(worker, &flight->plan->steps[done->step].record->ins);
        origin.number = flight->origin.number;
        flight->poison = gt__worker_failure(worker, &origin, done->err, done->text);
    }
    gt__timing_settle(worker, flight, done);
    drop_operands(&worker->late, flight);
    gt__flight_release(&worker->late, flight);
}

gt_flight *gt__late_fly(gt_worker *worker, gt_token token, const gt_origin *origin, gt_flight *const *operands,
                        unsigned count, gt_err *err)
{
    gt_late *late = &worker->late;
    gt_flight *flight = flight_new(late);
    if (flight && !hold_operands(late, flight, operands, count)) {
        gt__flight_release(late, flight);
        flight = NULL;
    }
    if (!flight) { /* without a flight: wait, and return the first failure */
        *err = gt__late_wait(worker, token);
        for (unsigned k = 0; k < count; k++)
            if (operands[k] && operands[k]->poison)
                *err = gt__fail(operands[k]->poison->err, "%s", operands[k]->poison->text);
        return NULL;
    }
    flight->token = token;
    flight->origin = *origin;
    flight->references++; /* the item's */
    gt__late_when(worker, token, settle, flight);
    *err = GT_OK;
    return flight;
}

/* ---- items -------------------------------------------------------------------------------------------------- */

static bool grow(gt_late *late)
{
    size_t capacity = late->capacity ? 2 * late->capacity : 64;
    gt_late_item *items = malloc(capacity * sizeof *items);
    if (!items)
        return false;
    for (size_t k = 0; k < late->count; k++)
        items[k] = late->items[(late->first + k) & (late->capacity - 1)];
    free(late->items);
    late->items = items;
    late->capacity = capacity;
    late->first = 0;
    return true;
}

gt_token gt__late_when(gt_worker *worker, gt_token token, gt_late_action action, void *object)
{
    gt_late *late = &worker->late;
    gt_token own = token;
    if (late->count) { /* behind earlier items */
        gt_token before = late->items[(late->first + late->count - 1) & (late->capacity - 1)].token;
        token = before > token ? before : token;
    }
    if (token <= late->done && !late->count) {
        action(worker, object, NULL);
        return token;
    }
    if (late->count == late->capacity && !grow(late)) {
        gt_err err = gt__late_wait(worker, own);
        gt_completion done = {.token = own, .err = err, .text = gt_error_text()};
        action(worker, object, err == GT_OK ? NULL : &done);
        return token;
    }
    late->items[(late->first + late->count++) & (late->capacity - 1)] =
        (gt_late_item){.token = token, .own = own, .action = action, .object = object};
    return token;
}

/* All work up to the completion's token is done. `done` advances item by item, so that an action sees its own token. */
static void take(gt_worker *worker, const gt_completion *completion)
{
    gt_late *late = &worker->late;
    while (late->count && late->items[late->first].token <= completion->token) {
        gt_late_item item = late->items[late->first];
        late->first = (late->first + 1) & (late->capacity - 1);
        late->count--;
        late->done = item.token > late->done ? item.token : late->done;
        item.action(worker, item.object, item.own == completion->token ? completion : NULL);
    }
    late->done = completion->token > late->done ? completion->token : late->done;
}

unsigned gt__late_first_op(const gt_late *late)
{
    for (size_t k = 0; k < late->count; k++) {
        const gt_late_item *item = &late->items[(late->first + k) & (late->capacity - 1)];
        if (item->action == settle)
            return ((const gt_flight *)item->object)->origin.op;
    }
    return GT_OP_INVALID;
}

void gt__late_poll(gt_worker *worker)
{
    gt_completion completion;
    gt_engine *engine = worker->engine;
    while (gt__late_busy(&worker->late) && engine->ops->completed(engine, false, &completion))
        take(worker, &completion);
}

static bool step(gt_worker *worker, gt_completion *completion)
{
    gt_engine *engine = worker->engine;
    if (engine->ops->flush)
        engine->ops->flush(engine);
    if (!engine->ops->completed(engine, true, completion)) {
        gt__log_error("worker %s: the engine %s lost a token", worker->name, engine->ops->name);
        *completion = (gt_completion){.token = worker->late.last};
        take(worker, completion);
        return false;
    }
    take(worker, completion);
    return true;
}

void gt__late_step(gt_worker *worker)
{
    gt_completion completion;
    step(worker, &completion);
}

gt_err gt__late_wait(gt_worker *worker, gt_token token)
{
    gt_completion completion;
    while (worker->late.done < token && step(worker, &completion))
        if (completion.token == token && completion.err != GT_OK)
            return gt__fail(completion.err, "%s", completion.text);
    return GT_OK;
}

void gt__late_drain(gt_worker *worker)
{
    gt_completion completion;
    while (gt__late_busy(&worker->late) && step(worker, &completion))
        continue;
}

void gt__late_pay(gt_worker *worker)
{
    if (worker->late.last_owed > worker->late.done)
        gt__late_wait(worker, worker->late.last_owed);
}

void gt__late_make_room(gt_worker *worker, size_t bytes)
{
    gt_late *late = &worker->late;
    while (late->host_bytes && late->host_bytes + bytes > MOST_HOST_BYTES && gt__late_busy(late))
        gt__late_step(worker);
}

gt_token gt__late_latest(gt_flight *const *flights, unsigned count)
{
    gt_token latest = 0;
    for (unsigned k = 0; k < count; k++)
        if (flights[k] && flights[k]->token > latest)
            latest = flights[k]->token;
    return latest;
}

void gt__late_free(gt_late *late)
{
    while (late->spare) {
        gt_flight *next = late->spare->more;
        free(late->spare);
        late->spare = next;
    }
    free(late->items);
    *late = (gt_late){0};
}
