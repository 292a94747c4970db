/*
 * trace.c: `gt trace`: records a running dispatcher for a while as an instruction log, which `gt visualize` draws.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/watcher.h"

typedef struct trace_arguments {
    gt_watch_options watch;
    double seconds;
    uint64_t most; /* events; 0: no limit */
    const char *directory;
} trace_arguments;

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, trace_arguments *arguments)
{
    const gt_option options[] = {
        {.name = "seconds",
         .letter = 's',
         .kind = GT_OPTION_NUMBER,
         .target = &arguments->seconds,
         .least = 0.001,
         .most = 1e9,
         .value = "S",
         .help = "the longest time to record"},
        {.name = "max-events",
         .letter = 'n',
         .kind = GT_OPTION_COUNT,
         .target = &arguments->most,
         .least = 1,
         .most = 1e12,
         .value = "N",
         .help = "stop after N events"},
        {.name = "port",
         .letter = 'p',
         .kind = GT_OPTION_PORT,
         .target = &arguments->watch.port,
         .value = "PORT",
         .help = "the dispatcher's port (default: the dispatcher on this host; 12345 on another host)"},
        {.name = "host",
         .kind = GT_OPTION_TEXT,
         .target = &arguments->watch.host,
         .value = "HOST",
         .help = "the dispatcher's host (default localhost)"},
        {.name = "dir",
         .kind = GT_OPTION_TEXT,
         .target = &arguments->directory,
         .value = "DIR",
         .help = "directory to write to (default: the current one)"},
        {0},
    };
    const gt_usage usage = {
        .command = "gt trace",
        .line = "-s SECONDS [-n MAX] [--port PORT] [--dir DIR]",
        .about =
            "Records a running dispatcher and writes an instruction log, DIR/trace_<time>_<port>.log, which `gt "
            "visualize` "
            "draws.\n",
        .options = options,
    };
    int status = gt__options_parse(&usage, argc, argv);
    return status < 0 && arguments->seconds <= 0 ? gt__options_wrong(&usage, "-s SECONDS is required") : status;
}

static gt_err open_file(const trace_arguments *arguments, const char *address, char *path, size_t size,
                        FILE **file)
{
    char stamp[32];
    time_t now = time(NULL);
    struct tm local;
    strftime(stamp, sizeof stamp, "%Y%m%d_%H%M%S", localtime_r(&now, &local));
    if (mkdir(arguments->directory, 0777) && errno != EEXIST)
        return gt__fail(GT_ERR_VALUE, "cannot create %s: %s", arguments->directory, strerror(errno));
    const char *port = strrchr(address, ':') + 1;
    *file = NULL;
    for (int attempt = 0; attempt < 100 && !*file;
         attempt++) { /* never overwrite another trace of the same second */
        snprintf(path, size, attempt ? "%s/trace_%s_%s_%d.log" : "%s/trace_%s_%s.log", arguments->directory, stamp,
                 port, attempt);
        *file = fopen(path, "wx");
        if (!*file && errno != EEXIST)
            break;
    }
    return *file ? GT_OK : gt__fail(GT_ERR_VALUE, "cannot write %s: %s", path, strerror(errno));
}

/* At most `room` lines of the text; returns how many. */
static uint64_t write_lines(FILE *file, const char *text, uint64_t room)
{
    uint64_t lines = 0;
    const char *end = text;
    for (const char *next; lines < room && (next = strchr(end, '\n')); lines++)
        end = next + 1;
    fwrite(text, 1, (size_t)(end - text), file);
    return lines;
}

static atomic_bool stop_requested;

static void stop(void *flag)
{
    atomic_store((atomic_bool *)flag, true);
}

static gt_err record(gt_watcher *watcher, const trace_arguments *arguments, FILE *file, uint64_t *lines)
{
    uint64_t deadline = gt__now_ns() + (uint64_t)(arguments->seconds * 1e9);
    uint64_t most = arguments->most ? arguments->most : UINT64_MAX, topic;
    gt_err err = GT_OK;
    while ((err == GT_OK || err == GT_ERR_INTERRUPTED) && *lines < most && gt__now_ns() < deadline &&
           !atomic_load(&stop_requested) && !ferror(file)) {
        err = gt__watcher_next(watcher, gt__remaining_ms(deadline), &topic);
        if (err == GT_OK && topic == GT_TOPIC_LINES)
            *lines += write_lines(file, watcher->text, most - *lines);
    }
    if (err == GT_ERR_TIMEOUT || err == GT_ERR_INTERRUPTED)
        return GT_OK;
    /* A dispatcher that ends also ends the trace; it is an error only if nothing was recorded. */
    return err == GT_ERR_CONNECTION && *lines ? GT_OK : err;
}

static gt_err trace(gt_watcher *watcher, const trace_arguments *arguments)
{
    char path[4096];
    FILE *file;
    uint64_t lines = 0;
    GT_TRY(gt__watcher_open(watcher, &arguments->watch, 0, GT_TOPIC_LINES, 0));
    GT_TRY(gt__watcher_unique(watcher));
    GT_TRY(open_file(arguments, watcher->address, path, sizeof path, &file));
    uint64_t began = gt__now_ns();
    gt_err err = record(watcher, arguments, file, &lines);
    double seconds = (double)(gt__now_ns() - began) * 1e-9;
    bool failed = ferror(file);
    if (fclose(file) || failed)
        return gt__fail(GT_ERR_VALUE, "cannot write %s: %s", path, strerror(errno));
    GT_TRY(err);
    printf("✓ Trace saved to: %s\n  Events: %llu\n  Duration: %.3fs\n", path, (unsigned long long)lines, seconds);
    if (watcher->lost)
        printf("  Lost: %llu (events arrived faster than they could be recorded)\n",
               (unsigned long long)watcher->lost);
    return GT_OK;
}

int gt__command_trace(int argc, char **argv)
{
    trace_arguments arguments = {.directory = "."};
    int status = parse(argc, argv, &arguments);
    if (status >= 0)
        return status;
    gt_watcher watcher = {.stop = &stop_requested};
    atomic_store(&stop_requested, false);
    gt__signals_catch(stop, NULL, &stop_requested);
    gt_err err = trace(&watcher, &arguments);
    gt__signals_restore();
    gt__watcher_close(&watcher);
    fflush(stdout);
    if (err == GT_OK)
        return 0;
    fprintf(stderr, "gt trace: %s\n", gt_error_text());
    return 1;
}
