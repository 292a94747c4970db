/*
 * plugin.c: the plug-in's side of plugin.h: functions that src/core declares, answered by the host. Part of
 * gt_plugin_core, which plug-ins link; not of the host.
 */
#include "engines/plugin.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static _Atomic(const gt_host *) host;

bool gt__log_enabled[GT_LOG_TOPICS];

gt_err gt__plugin_begin(const gt_host *table)
{
    if (table->version != GT_ENGINE_VERSION || table->size < sizeof *table) {
        table->error_set("it is built for another version of the host");
        return GT_ERR_UNSUPPORTED;
    }
    /* A process may hold two copies of the host, such as libgt.so and the Python extension. Errors, which are a
     * thread's, would reach the wrong one. */
    const gt_host *none = NULL;
    if (!atomic_compare_exchange_strong(&host, &none, table) && none != table) {
        table->error_set("another copy of gt in this process uses it");
        return GT_ERR_UNSUPPORTED;
    }
    for (int topic = 0; topic < GT_LOG_TOPICS; topic++)
        gt__log_enabled[topic] = table->log_on((gt_log_topic)topic);
    return GT_OK;
}

/* ---- core/error.h -------------------------------------------------------------------------------------------- */

/* The message of a failure is cut at 1023 bytes, as in the host; so is a line of the log. */
enum { TEXT_BYTES = 1024 };

void gt__error_set(const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    host->error_set(text);
}

const char *gt_error_text(void)
{
    return host->error_text();
}

const char *gt_error_name(gt_err err)
{
    return host->error_name(err);
}

/* ---- core/log.h ---------------------------------------------------------------------------------------------- */

void gt__log_init(void)
{
    /* gt__plugin_begin did; the host reads the environment once. */
}

void gt__log(gt_log_topic topic, const char *format, ...)
{
    if (!gt__log_on(topic))
        return;
    char line[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    host->log(topic, line);
}

void gt__log_error(const char *format, ...)
{
    char line[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    host->log_error(line);
}

/* ---- core/settings.h ----------------------------------------------------------------------------------------- */

double gt__setting(gt_setting which)
{
    static const struct {
        const char *variable;
        double fallback;
    } settings[GT_SETTING_COUNT] = {
#define GT_SETTING_ROW(name, text, number, from, to, otherwise) {.variable = text, .fallback = otherwise},
        GT_SETTINGS(GT_SETTING_ROW)
#undef GT_SETTING_ROW
    };
    double value;
    return host->setting(settings[which].variable, &value) ? value : settings[which].fallback;
}

int gt__setting_ms(gt_setting which)
{
    return (int)(gt__setting(which) * 1000);
}

bool gt__number_parse(const char *text, gt_number_kind kind, double least, double most, double *value)
{
    return host->number_parse(text, kind, least, most, value);
}

/* ---- engines/engine.h ---------------------------------------------------------------------------------------- */

gt_err gt__engine_find(const char *name, const gt_engine_ops **ops)
{
    return host->engine_find(name, ops);
}
