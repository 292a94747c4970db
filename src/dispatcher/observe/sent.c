/* sent.c: see sent.h. */
#include "dispatcher/observe/sent.h"

#include <stdlib.h>

enum { MOST_SENT = 1 << 20 }; /* records kept of a worker that does not send their timing */

void gt__sent_remember(gt_watched *watched, const gt_sent *sent)
{
    if (watched->sent_count == MOST_SENT) {
        watched->sent_first = (watched->sent_first + 1) & (watched->sent_capacity - 1);
        watched->sent_count--;
    }
    if (watched->sent_count == watched->sent_capacity) {
        uint32_t capacity = watched->sent_capacity ? watched->sent_capacity * 2 : 1024;
        gt_sent *ring = malloc(capacity * sizeof *ring);
        if (!ring)
            return; /* its line will be missing */
        for (uint32_t k = 0; k < watched->sent_count; k++)
            ring[k] = *gt__sent_at(watched, k);
        free(watched->sent);
        watched->sent = ring;
        watched->sent_capacity = capacity;
        watched->sent_first = 0;
    }
    watched->sent[(watched->sent_first + watched->sent_count++) & (watched->sent_capacity - 1)] = *sent;
}

const gt_sent *gt__sent_recall(gt_watched *watched, uint64_t number)
{
    uint32_t from = 0, to = watched->sent_count;
    if (to &&
        gt__sent_at(watched, 0)->number < number) /* the first that is not smaller; most are told of in order */
        while (from < to) {
            uint32_t middle = from + (to - from) / 2;
            if (gt__sent_at(watched, middle)->number < number)
                from = middle + 1;
            else
                to = middle;
        }
    gt_sent *sent = from < watched->sent_count ? gt__sent_at(watched, from) : NULL;
    if (!sent || sent->number != number)
        return NULL;
    sent->told = true;
    while (watched->sent_count && gt__sent_at(watched, 0)->told) {
        watched->sent_first = (watched->sent_first + 1) & (watched->sent_capacity - 1);
        watched->sent_count--;
    }
    return sent;
}
