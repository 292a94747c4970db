/* log_bytes.h: the bytes and varints of a compact log (log_code.h), written and read. */
#ifndef GT_DISPATCHER_OBSERVE_LOG_BYTES_H
#define GT_DISPATCHER_OBSERVE_LOG_BYTES_H

#include <stdbool.h>
#include <stdint.h>

enum { GT_LOG_VARINT = 10 /* the most bytes of one */ };

static inline uint8_t *gt__put_varint(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

static inline uint8_t *gt__put_difference(uint8_t *at, uint64_t value, uint64_t before)
{
    uint64_t difference = value - before;
    return gt__put_varint(at, difference << 1 ^ (0 - (difference >> 63)));
}

/* Bytes that are read. Past their end, or in a varint of more than 64 bits, it is broken and the values are 0. */
typedef struct gt_log_input {
    const uint8_t *at, *end;
    bool broken;
} gt_log_input;

static inline uint8_t gt__get_byte(gt_log_input *in)
{
    if (in->at < in->end)
        return *in->at++;
    in->broken = true;
    return 0;
}

static inline uint64_t gt__get_varint(gt_log_input *in)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = gt__get_byte(in);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    in->broken = true;
    return 0;
}

static inline uint64_t gt__get_difference(gt_log_input *in, uint64_t before)
{
    uint64_t code = gt__get_varint(in);
    return before + (code >> 1 ^ (0 - (code & 1)));
}

#endif
