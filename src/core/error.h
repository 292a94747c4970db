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

#define GT_TRY(expression)                                                                                        \
    do {                                                                                                          \
        gt_err try_err_ = (expression);                                                                           \
        if (__builtin_expect(try_err_ != GT_OK, 0))                                                               \
            return try_err_;                                                                                      \
    } while (0)

#endif
