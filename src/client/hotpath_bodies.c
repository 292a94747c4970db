/* hotpath_bodies.c: see hotpath_bodies.h. Read next: hotpath_learn.c. */
#include "client/hotpath_bodies.h"

enum {
    WAYS = 4,   /* places among which one of a hash is looked for */
    ENOUGH = 8, /* surprises, after which a record is an entry and those before it an exit */
    MOST_DOUBT = 8,
};

/* The first of its places. */
static unsigned place_of(uint32_t hash)
{
    return hash % (GT_BODY_PLACES / WAYS) * WAYS;
}

/* How often there was a surprise at this shape. */
static uint32_t surprises(gt_body_shape *shapes, uint32_t shape, bool again)
{
    gt_body_shape *first = &shapes[place_of(shape)], *least = first;
    for (gt_body_shape *known = first; known < first + WAYS; known++) {
        if (known->shape == shape)
            return known->count += again && known->count < ENOUGH;
        least = known->count < least->count ? known : least;
    }
    if (again)
        *least = (gt_body_shape){.shape = shape, .count = 1};
    return again;
}

/* Whether a body begins with the record. surprise: another one was expected, after some that were. Most shapes are no entries. */
static bool is_between(gt_bodies *b, uint32_t shape, bool surprise)
{
    uint32_t count = surprises(b->entry, shape, surprise);
    b->entries |= (uint64_t)(count == ENOUGH) << shape % 64;
    if (count < ENOUGH && !surprise)
        return false;
    return surprises(b->exit, b->last, surprise) == ENOUGH && surprises(b->entry, shape, false) == ENOUGH;
}

/* Where the body is known, or becomes so in the place of the one that came least often. */
static gt_body *find_body(gt_bodies *b, const gt_body *now)
{
    gt_body *first = &b->body[place_of(now->hash)], *least = first;
    for (gt_body *body = first; body < first + WAYS; body++) {
        if (body->hash == now->hash && body->length == now->length && body->first == now->first)
            return body;
        least = body->count < least->count ? body : least;
    }
    if (least == b->wanted)
        b->wanted = NULL;
    *least = *now;
    return least;
}

/* The body that had begun is at its end. */
static void end_body(gt_bodies *b, const gt_detector *d)
{
    if (b->now.length < d->shortest || !b->entered)
        return;
    gt_body *body = find_body(b, &b->now);
    if (++body->count >= (uint64_t)d->threshold << body->doubt)
        b->wanted = body;
}

uint32_t gt__bodies_between(gt_bodies *b, const gt_detector *d, uint32_t shape, bool surprise)
{
    uint32_t length = 0;
    if (!is_between(b, shape, surprise) && !d->separator && d->position == b->next)
        return 0;
    end_body(b, d);
    b->now = (gt_body){.first = shape};
    b->entered = surprises(b->entry, shape, false) == ENOUGH;
    gt_body *wanted = b->wanted;
    if (wanted && wanted->first == shape) {
        length = wanted->length;
        wanted->count = 0;
        wanted->doubt += wanted->doubt < MOST_DOUBT;
        b->wanted = NULL;
    }
    return length;
}
