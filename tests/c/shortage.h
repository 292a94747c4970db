/*
 * shortage.h: memory that runs out where a test wants it to: allocations of the calling thread fail, or large ones
 * do. For programs that meson.build links with --wrap for malloc, calloc and realloc.
 */
#ifndef GT_TESTS_SHORTAGE_H
#define GT_TESTS_SHORTAGE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);

static _Thread_local struct {
    bool on, lasts; /* it goes on, or is of one allocation */
    unsigned after; /* so many that succeed */
    unsigned failures;
} shortage;

static _Atomic size_t shortage_over; /* bytes: an allocation of so many fails, whoever's it is; 0: none does */

static inline void shortage_begin(unsigned after, bool lasts)
{
    shortage.on = true;
    shortage.lasts = lasts;
    shortage.after = after;
    shortage.failures = 0;
}

/* Whether anything failed. */
static inline bool shortage_end(void)
{
    shortage.on = false;
    return shortage.failures != 0;
}

static bool shortage_strikes(size_t bytes)
{
    size_t over = atomic_load(&shortage_over);
    if (over && bytes >= over) {
        errno = ENOMEM;
        return true;
    }
    if (!shortage.on || shortage.after--)
        return false;
    shortage.after = 0;
    shortage.on = shortage.lasts;
    shortage.failures++;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t bytes)
{
    return shortage_strikes(bytes) ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return shortage_strikes(count * bytes) ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    return shortage_strikes(bytes) ? NULL : __real_realloc(memory, bytes);
}

#endif
