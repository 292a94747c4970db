/* error.c: the per-thread error text. */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char text[1024] = "no error";

void gt__error_set(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
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
