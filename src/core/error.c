/*
 * error.c: the per-thread error text.
 *
 * It is allocated by a thread's first failure. Variables of threads must be few bytes in all: the loader gives those of a small
 * library places that are found without a call, and each operation reads some (client/autograd.h).
 */
#include "core/error.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_SIZE = 1024 };

static _Thread_local char *text; /* NULL: none yet */
static pthread_key_t key;        /* frees it when its thread ends */
static pthread_once_t key_made = PTHREAD_ONCE_INIT;
static bool has_key;

static void text_free(void *memory)
{
    free(memory);
    text = NULL;
}

static void key_make(void)
{
    has_key = pthread_key_create(&key, text_free) == 0;
}

/* The text of this thread; NULL: out of memory. */
static char *text_get(void)
{
    pthread_once(&key_made, key_make);
    if (!text && (text = malloc(TEXT_SIZE)) && has_key)
        pthread_setspecific(key, text);
    return text;
}

void gt__error_set(const char *format, ...)
{
    char *to = text_get();
    if (!to)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(to, TEXT_SIZE, format, args);
    va_end(args);
}

const char *gt_error_text(void)
{
    return text ? text : "no error";
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
