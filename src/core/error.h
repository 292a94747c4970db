/*
 * error.h: how the library reports failures.
 *
 * A fallible function returns a gt_err and leaves the text in a per-thread buffer, written by the thing that
 * failed: return gt__fail(GT_ERR_VALUE, "shapes %s and %s cannot be broadcast", ...). gt_error_text() reads it.
 */
#ifndef GT_CORE_ERROR_H
#define GT_CORE_ERROR_H

#include <stdarg.h>

#include "gt.h"

/* Record a formatted message (cut at 1023 bytes) for this thread and return `err`. */
gt_err gt__fail(gt_err err, const char *format, ...) __attribute__((format(printf, 2, 3)));
gt_err gt__fail_va(gt_err err, const char *format, va_list args);

/* Put `format` and ": " before the message already recorded; returns `err`. */
gt_err gt__fail_prefix(gt_err err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define GT_TRY(expression)                                                                                     \
    do {                                                                                                       \
        gt_err try_err_ = (expression);                                                                        \
        if (__builtin_expect(try_err_ != GT_OK, 0))                                                            \
            return try_err_;                                                                                   \
    } while (0)

#endif
