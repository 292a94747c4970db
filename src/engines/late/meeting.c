/* meeting.c: see meeting.h. */
#include "engines/late/meeting.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE_S = 30 }; /* for a party that does not come: its worker was killed in between */

typedef struct meeting {
    struct meeting *next;
    uint64_t tag;
    unsigned count, arrived, left;
    unsigned inside; /* parties that use this; the last one frees it */
    gt_view in[GT_MAX_PARTIES];
} meeting;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static meeting *meetings;

/* With the mutex: the meeting of a tag; NULL: no memory. */
static meeting *find(uint64_t tag, unsigned count)
{
    meeting *m = meetings;
    while (m && m->tag != tag)
        m = m->next;
    if (m)
        return m;
    m = calloc(1, sizeof *m);
    if (m) {
        *m = (meeting){.next = meetings, .tag = tag, .count = count};
        meetings = m;
    }
    return m;
}

/* With the mutex: wait until `*number` is `count`. */
static gt_err await(const unsigned *number, unsigned count)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    while (*number < count)
        if (pthread_cond_timedwait(&changed, &mutex, &until) != 0 && *number < count)
            return gt__fail(GT_ERR_CONNECTION, "a party of the collective did not come");
    return GT_OK;
}

static gt_err add(gt_engine *cpu, const gt_view *a, const gt_view *b, const gt_view *out)
{
    gt_instruction ins = {.op = GT_OP_add};
    const gt_view *in[] = {a, b};
    gt_call call = {
        .op = GT_OP_add, .compute = (gt_dtype)out->meta.dtype, .ins = &ins, .operands = 2, .in = in, .out = out};
    return cpu->ops->run(cpu, &call, &(gt_token){0});
}

/* Sums alternate between `out` and a spare, so that no sum is written over its operand. */
static gt_err add_all(gt_engine *cpu, const meeting *m, const gt_view *out)
{
    size_t bytes = gt__meta_bytes(&out->meta);
    gt_view spare = *out, sum = m->in[0];
    if (m->count == 1)
        return memcpy(out->data, sum.data, bytes), GT_OK;
    gt_err err = GT_OK;
    GT_TRY(cpu->ops->alloc(cpu, bytes, &spare.data));
    for (unsigned k = 1; k < m->count && err == GT_OK; k++) {
        const gt_view *to = (m->count - k) % 2 ? out : &spare;
        err = add(cpu, &sum, &m->in[k], to);
        sum = *to;
    }
    cpu->ops->release(cpu, spare.data, bytes);
    return err;
}

/* With the mutex: a party leaves. */
static void leave(meeting *m)
{
    if (--m->inside)
        return;
    meeting **where = &meetings;
    while (*where != m)
        where = &(*where)->next;
    *where = m->next;
    free(m);
}

gt_err gt__meeting_add(gt_engine *cpu, uint64_t tag, unsigned self, unsigned count, const gt_view *in,
                       const gt_view *out)
{
    pthread_mutex_lock(&mutex);
    meeting *m = find(tag, count);
    if (!m) {
        pthread_mutex_unlock(&mutex);
        return gt__fail(GT_ERR_MEMORY, "no memory for a collective");
    }
    m->in[self] = *in;
    m->arrived++;
    m->inside++;
    pthread_cond_broadcast(&changed);
    gt_err err = await(&m->arrived, count);
    if (err == GT_OK) {
        pthread_mutex_unlock(&mutex);
        err = add_all(cpu, m, out);
        pthread_mutex_lock(&mutex);
        m->left++;
        pthread_cond_broadcast(&changed);
        await(&m->left, count); /* the others still read our operand */
    }
    leave(m);
    pthread_mutex_unlock(&mutex);
    return err;
}
