/* trace_ids.c: see trace_ids.h. */
#include "dispatcher/observe/trace_ids.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "link/link.h"

enum { MOST_LEFT = 256 }; /* clients that left whose ids are kept */

typedef struct trace {
    uint64_t session, seed; /* seed: of its spans */
    uint32_t next;          /* of those that left */
    gt_log_text *text;
} trace;

struct gt_trace_ids {
    trace *traces; /* number minus one */
    uint32_t count, capacity;
    uint32_t left_first, left_last, left_count; /* the one that left first is used again first */
};

gt_trace_ids *gt__trace_ids_new(void)
{
    return calloc(1, sizeof(gt_trace_ids));
}

void gt__trace_ids_free(gt_trace_ids *ids)
{
    if (!ids)
        return;
    for (uint32_t k = 0; k < ids->count; k++)
        free(ids->traces[k].text);
    free(ids->traces);
    free(ids);
}

static bool is_hex(const char *text, size_t digits)
{
    return strspn(text, "0123456789abcdef") >= digits;
}

static bool is_zero(const char *text, size_t digits)
{
    return strspn(text, "0") >= digits;
}

/* "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"; later versions have more behind it. */
static bool is_context(const char *text)
{
    return strlen(text) >= 55 && is_hex(text, 2) && strncmp(text, "ff", 2) != 0 && text[2] == '-' &&
           is_hex(text + 3, 32) && !is_zero(text + 3, 32) && text[35] == '-' && is_hex(text + 36, 16) &&
           !is_zero(text + 36, 16) && text[52] == '-' && is_hex(text + 53, 2) &&
           (text[55] == 0 || text[55] == '-') && (text[55] == 0 || strncmp(text, "00", 2) != 0);
}

static char *put_hex(char *at, uint64_t value)
{
    for (int shift = 60; shift >= 0; shift -= 4)
        *at++ = "0123456789abcdef"[value >> shift & 15];
    return at;
}

/* A bijection, so spans of one trace differ. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* An entry for a new client: that of the client that left first, if many have. NULL: out of memory. */
static trace *entry_new(gt_trace_ids *ids)
{
    if (ids->left_count > MOST_LEFT) {
        trace *entry = &ids->traces[ids->left_first - 1];
        ids->left_first = entry->next;
        ids->left_count--;
        free(entry->text);
        return entry;
    }
    if (ids->count == ids->capacity) {
        uint32_t capacity = ids->capacity ? 2 * ids->capacity : 16;
        trace *grown = realloc(ids->traces, capacity * sizeof *grown);
        if (!grown)
            return NULL;
        ids->traces = grown;
        ids->capacity = capacity;
    }
    return &ids->traces[ids->count++];
}

uint32_t gt__trace_join(gt_trace_ids *ids, uint64_t session, const char *context, char parent[GT_TRACE_PARENT])
{
    static const char key[] = " trace=";
    char text[sizeof key + 32];
    uint64_t random[3] = {0, 0, 0};
    trace *entry = entry_new(ids);
    parent[0] = 0;
    if (!entry)
        return 0;
    if (getrandom(random, sizeof random, GRND_NONBLOCK) !=
        (ssize_t)sizeof random) /* right after a machine's start */
        for (unsigned k = 0; k < 3; k++)
            random[k] = mix(gt__now_ns() + session * 3 + k);
    memcpy(text, key, sizeof key - 1);
    if (is_context(context)) {
        memcpy(text + sizeof key - 1, context + 3, 32);
        memcpy(parent, " parent=", 8);
        memcpy(parent + 8, context + 36, 16);
        parent[24] = 0;
    } else
        put_hex(put_hex(text + sizeof key - 1, random[0]), random[1] | 1); /* zero is no id */
    *entry = (trace){.session = session, .seed = random[2], .text = gt__log_text_new(text, sizeof key - 1 + 32)};
    return (uint32_t)(entry - ids->traces) + 1;
}

void gt__trace_leave(gt_trace_ids *ids, uint32_t number)
{
    if (!number)
        return;
    ids->traces[number - 1].next = 0;
    if (ids->left_count++)
        ids->traces[ids->left_last - 1].next = number;
    else
        ids->left_first = number;
    ids->left_last = number;
}

gt_log_text *gt__trace_text(const gt_trace_ids *ids, uint32_t number, uint64_t session)
{
    return number && ids->traces[number - 1].session == session ? ids->traces[number - 1].text : NULL;
}

char *gt__trace_span(const gt_trace_ids *ids, char *at, uint32_t number, uint64_t line)
{
    memcpy(at, " span=", 6);
    uint64_t span = mix(ids->traces[number - 1].seed + line);
    return put_hex(at + 6, span ? span : 1);
}
