/* log.c: status and debug lines on standard error. */
#include "core/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "core/settings.h"

static const struct {
    gt_setting setting;
    const char *prefix;
} topics[GT_LOG_TOPICS] = {
    [GT_LOG_STATUS] = {.setting = GT_SETTING_VERBOSE, .prefix = "gt"},
    [GT_LOG_CLIENT] = {.setting = GT_SETTING_DEBUG_CLIENT, .prefix = "gt client"},
    [GT_LOG_DISPATCHER] = {.setting = GT_SETTING_DEBUG_DISPATCHER, .prefix = "gt dispatcher"},
    [GT_LOG_WORKER] = {.setting = GT_SETTING_DEBUG_WORKER, .prefix = "gt worker"},
    [GT_LOG_COMPILE] = {.setting = GT_SETTING_DEBUG_COMPILE, .prefix = "gt"},
};

bool gt__log_enabled[GT_LOG_TOPICS];
static bool timed; /* set before there are threads */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_environment(void)
{
    for (int topic = 0; topic < GT_LOG_TOPICS; topic++)
        gt__log_enabled[topic] = gt__setting(topics[topic].setting) != 0;
}

void gt__log_init(void)
{
    pthread_once(&once, read_environment);
}

void gt__log_times(void)
{
    timed = true;
}

/* "2026-11-16 20:01:47.123 ": the local time. */
static int put_time(char *text, size_t size)
{
    struct timespec now;
    struct tm local;
    char seconds[32];
    clock_gettime(CLOCK_REALTIME, &now);
    strftime(seconds, sizeof seconds, "%Y-%m-%d %H:%M:%S", localtime_r(&now.tv_sec, &local));
    return snprintf(text, size, "%s.%03d ", seconds, (int)(now.tv_nsec / 1000000));
}

/* One write per line, so that lines of several threads and processes do not mix. */
static void print_line(const char *prefix, bool with_time, const char *format, va_list args)
{
    char line[1024];
    int length = with_time ? put_time(line, sizeof line) : 0;
    length += snprintf(line + length, sizeof line - (size_t)length, "[%s] ", prefix);
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
    print_line(topics[topic].prefix, timed || topic == GT_LOG_STATUS || topic == GT_LOG_DISPATCHER, format, args);
    va_end(args);
}

void gt__log_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line("gt error", timed, format, args);
    va_end(args);
}

void gt__log_warning(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line("gt warning", timed, format, args);
    va_end(args);
}
