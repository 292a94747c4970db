/* pins.c: see pins.h. */
#include "worker/pins.h"

#include <stdlib.h>

#include "worker/worker.h"

#define SMALLEST_PINNED ((size_t)1 << 20) /* bytes of a transfer for which it pays */
#define MOST_PINNED ((size_t)8 << 30)     /* bytes of one worker: pinned memory cannot be swapped out */

static gt_pin *find(gt_pins *pins, uint64_t id)
{
    for (unsigned k = 0; k < pins->count; k++)
        if (pins->pins[k].segment->id == id)
            return &pins->pins[k];
    return NULL;
}

static void remember(gt_pins *pins, gt_segment *segment)
{
    if (pins->count == pins->capacity) {
        unsigned capacity = pins->capacity ? 2 * pins->capacity : 16;
        gt_pin *grown = realloc(pins->pins, capacity * sizeof *grown);
        if (!grown)
            return;
        pins->pins = grown;
        pins->capacity = capacity;
    }
    pins->pins[pins->count++] = (gt_pin){.segment = gt__segment_retain(segment)};
}

void gt__pins_use(gt_worker *worker, gt_segment *segment, size_t bytes)
{
    gt_pins *pins = &worker->pins;
    gt_engine *engine = worker->engine;
    if (!engine->ops->pin || bytes < SMALLEST_PINNED)
        return;
    gt_pin *pin = find(pins, segment->id);
    if (!pin)
        remember(pins, segment);
    else if (!pin->tried && pins->bytes + segment->bytes <= MOST_PINNED) {
        pin->tried = true;
        pin->pinned = engine->ops->pin(engine, segment->data, segment->bytes);
        pins->bytes += pin->pinned ? segment->bytes : 0;
    }
}

static void release(gt_worker *worker, const gt_pin *pin)
{
    if (pin->pinned) {
        worker->engine->ops->unpin(worker->engine, pin->segment->data);
        worker->pins.bytes -= pin->segment->bytes;
    }
    gt__segment_release(pin->segment);
}

static void unpin(gt_worker *worker, void *object, const gt_completion *done)
{
    (void)done;
    release(worker, &(gt_pin){.segment = object, .pinned = true});
}

void gt__pins_forget(gt_worker *worker, uint64_t id)
{
    gt_pins *pins = &worker->pins;
    gt_pin *pin = find(pins, id);
    if (!pin)
        return;
    gt_pin gone = *pin;
    *pin = pins->pins[--pins->count];
    if (gone.pinned)
        gt__late_when(worker, worker->late.last, unpin, gone.segment);
    else
        release(worker, &gone);
}

void gt__pins_free(gt_worker *worker)
{
    gt_pins *pins = &worker->pins;
    for (unsigned k = 0; k < pins->count; k++)
        release(worker, &pins->pins[k]);
    free(pins->pins);
    *pins = (gt_pins){0};
}
