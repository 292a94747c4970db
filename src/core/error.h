/*
 * error.h: how the library reports failures.
 *
 * A fallible function returns a gt_err and leaves the text in a per-thread buffer, written by the thing that
 * failed: return gt__fail(GT_ERR_VALUE, "shapes %s and %s cannot be broadcast", ...). gt_error_text() reads it.
 */
#ifndef GT_CORE_ERROR_H
#define GT_CORE_ERROR_H

#include "gt.h"

/* Record a formatted message (cut at 1023 bytes) for this thread. */
void gt__error_set(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Record a message; the value is `err`. A macro, so that compilers see the constant and know that it is not GT_OK. */
#define gt__fail(err, ...)                                                                                        \
    __extension__({                                                                                               \
        gt__error_set(__VA_ARGS__);                                                                               \
        (err);                                                                                                    \
    })

/* How many kinds there are, GT_OK among them. */
enum {
#define GT_ERROR_ONE(name, text) +1
    GT_ERROR_COUNT = 0 GT_ERRORS(GT_ERROR_ONE)
#undef GT_ERROR_ONE
};

/* The kind that a peer names by its number. One that we do not know is an internal error. */
static inline gt_err gt__error_kind(int64_t number)
{
    return number >= GT_OK && number < GT_ERROR_COUNT ? (gt_err)number : GT_ERR_INTERNAL;
}

#define GT_TRY(expression)                                                                                        \
    do {                                                                                                          \
        gt_err try_err_ = (expression);                                                                           \
        if (__builtin_expect(try_err_ != GT_OK, 0))                                                               \
            return try_err_;                                                                                      \
    } while (0)

#endif
