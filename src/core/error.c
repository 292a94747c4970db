/* error.c: the per-thread error text. */
#include "error.h"

#include <stdio.h>
#include <string.h>

static _Thread_local char text[1024] = "no error";

gt_err gt__fail_va(gt_err err, const char *format, va_list args)
{
    vsnprintf(text, sizeof text, format, args);
    return err;
}

gt_err gt__fail(gt_err err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    gt__fail_va(err, format, args);
    va_end(args);
    return err;
}

gt_err gt__fail_prefix(gt_err err, const char *format, ...)
{
    char before[sizeof text];
    memcpy(before, text, sizeof text);
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof text)
        snprintf(text + length, sizeof text - (size_t)length, ": %s", before);
    return err;
}

const char *gt_error_text(void)
{
    return text;
}

const char *gt_error_name(gt_err err)
{
    static const char *const names[] = {
#define GT_ERROR_NAME(name, description) description,
        GT_ERRORS(GT_ERROR_NAME)
#undef GT_ERROR_NAME
    };
    unsigned index = (unsigned)err;
    return index < sizeof names / sizeof names[0] ? names[index] : "unknown error";
}
