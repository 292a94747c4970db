/* log.c: status and debug lines on standard error. */
#include "core/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *variable, *prefix;
} topics[GT_LOG_TOPICS] = {
    [GT_LOG_STATUS] = {.variable = "GT_VERBOSE", .prefix = "gt"},
    [GT_LOG_CLIENT] = {.variable = "GT_DEBUG_CLIENT", .prefix = "gt client"},
    [GT_LOG_DISPATCHER] = {.variable = "GT_DEBUG_DISPATCHER", .prefix = "gt dispatcher"},
    [GT_LOG_WORKER] = {.variable = "GT_DEBUG_WORKER", .prefix = "gt worker"},
};

bool gt__log_enabled[GT_LOG_TOPICS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_environment(void)
{
    for (int topic = 0; topic < GT_LOG_TOPICS; topic++) {
        const char *value = getenv(topics[topic].variable);
        gt__log_enabled[topic] = value && value[0] && !(value[0] == '0' && !value[1]);
    }
}

void gt__log_init(void)
{
    pthread_once(&once, read_environment);
}

/* One write per line, so that lines of several threads and processes do not mix. */
static void print_line(const char *prefix, const char *format, va_list args)
{
    char line[1024];
    int length = snprintf(line, sizeof line, "[%s] ", prefix);
    int more = vsnprintf(line + length, sizeof line - (size_t)length - 1, format, args);
    if (more < 0)
        return;
    length += more;
    if ((size_t)length > sizeof line - 2)
        length = (int)sizeof line - 2;
    line[length] = '\n';
    fwrite(line, 1, (size_t)length + 1, stderr);
}

void gt__log(gt_log_topic topic, const char *format, ...)
{
    if (!gt__log_enabled[topic])
        return;
    va_list args;
    va_start(args, format);
    print_line(topics[topic].prefix, format, args);
    va_end(args);
}

void gt__log_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line("gt error", format, args);
    va_end(args);
}

void gt__log_warning(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line("gt warning", format, args);
    va_end(args);
}
