/*
 * exchange.c: how failures travel: what both exchanges have in common. A failure's message has as its bytes the origin,
 * then the text, NUL-ended. See exchange.h; next: peers.c.
 */
#include "exchange.h"

#include <string.h>

enum { LONGEST = 1024 };

gt_err gt__exchange_post_failure(gt_exchange *exchange, int32_t to, uint64_t tag, uint32_t number, gt_err err,
                                 const char *text)
{
    char bytes[sizeof(gt_origin) + LONGEST] = {0};
    size_t length = strnlen(text, LONGEST - 1);
    memcpy(bytes, &exchange->failed, sizeof(gt_origin));
    memcpy(bytes + sizeof(gt_origin), text, length);
    return exchange->ops->post(exchange, to, tag, number, err, bytes, sizeof(gt_origin) + length + 1, NULL);
}

gt_err gt__exchange_failure(gt_exchange *exchange, const gt_message *message)
{
    if (message->bytes < sizeof(gt_origin))
        return gt__fail(message->err, "worker %d failed and did not say why", message->key.from);
    memcpy(&exchange->failed, message->data, sizeof(gt_origin));
    if (!exchange->failed.worker)
        exchange->failed.worker = (uint32_t)message->key.from + 1;
    return gt__fail(message->err, "%.*s", (int)(message->bytes - sizeof(gt_origin)),
                    (const char *)message->data + sizeof(gt_origin));
}
