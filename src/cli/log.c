/*
 * log.c: `gt log`: prints an instruction log of either form (log_file.h) as text, all of it or the lines of a client, a worker
 * or an op.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/log_file.h"
#include "cli/options.h"

enum { POLL_NS = 50 * 1000 * 1000 };

typedef struct log_arguments {
    const char *client, *worker, *event, *op;
    bool follow;
    char **paths;
    int count;
} log_arguments;

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, log_arguments *arguments)
{
    const gt_option options[] = {
        {.name = "client",
         .letter = 'c',
         .kind = GT_OPTION_TEXT,
         .target = &arguments->client,
         .value = "N",
         .help = "only lines of client N, and what workers did for it"},
        {.name = "worker",
         .letter = 'w',
         .kind = GT_OPTION_TEXT,
         .target = &arguments->worker,
         .value = "NAME",
         .help = "only lines of this worker"},
        {.name = "event",
         .letter = 'e',
         .kind = GT_OPTION_TEXT,
         .target = &arguments->event,
         .value = "EVENT",
         .help = "only this event: RECV, SEND, WORKER_SEND, WORKER_RECV, CONNECT, DISCONNECT, SIGNAL, ERROR"},
        {.name = "op",
         .kind = GT_OPTION_TEXT,
         .target = &arguments->op,
         .value = "OP",
         .help = "only lines of this op: matmul"},
        {.name = "follow",
         .letter = 'f',
         .target = &arguments->follow,
         .help = "wait for more lines at the end, until Ctrl-C"},
        {0},
    };
    const gt_usage usage = {
        .command = "gt log",
        .line = "LOG... [OPTIONS]",
        .about =
            "Prints instruction logs as text: compact ones (GT_INSTRUCTION_LOG=run.gtlog), and those that are "
            "text.\n",
        .options = options,
        .operands = &arguments->paths,
        .operand_count = &arguments->count,
    };
    int status = gt__options_parse(&usage, argc, argv);
    if (status < 0 && !arguments->count)
        return gt__options_wrong(&usage, "which log? name at least one");
    if (status < 0 && arguments->follow && arguments->count > 1)
        return gt__options_wrong(&usage, "--follow takes one log");
    return status;
}

/* ---- the choice of lines ------------------------------------------------------------------------------------ */

/* The k-th column, from 0, without the blanks around it. */
static const char *column(const char *line, const char *end, unsigned k, size_t *length)
{
    for (; k; k--) {
        line = memmem(line, (size_t)(end - line), " | ", 3);
        if (!line)
            return NULL;
        line += 3;
    }
    const char *next = memmem(line, (size_t)(end - line), " | ", 3);
    next = next ? next : end;
    while (next > line && next[-1] == ' ')
        next--;
    *length = (size_t)(next - line);
    return line;
}

static bool column_is(const char *line, const char *end, unsigned k, const char *kind, const char *name)
{
    size_t length, prefix = strlen(kind);
    const char *text = column(line, end, k, &length);
    return text && length == prefix + strlen(name) && memcmp(text, kind, prefix) == 0 &&
           memcmp(text + prefix, name, strlen(name)) == 0;
}

/* Whether the details have this key with this value; `open`: with a value that begins like that. */
static bool has_detail(const char *line, const char *end, const char *key, const char *value, bool open)
{
    char wanted[160];
    int length = snprintf(wanted, sizeof wanted, "%s=%.100s%s", key, value, open ? "_" : "");
    for (const char *at = line; (at = memmem(at, (size_t)(end - at), wanted, (size_t)length)); at++)
        if (at > line && at[-1] == ' ' && (open || at + length == end || at[length] == ' '))
            return true;
    return false;
}

static bool chosen(const log_arguments *arguments, const char *line, const char *end)
{
    if (arguments->event && !column_is(line, end, 2, "", arguments->event))
        return false;
    if (arguments->worker && !column_is(line, end, 3, "WORKER ", arguments->worker))
        return false;
    if (arguments->op && !has_detail(line, end, "op", arguments->op, false))
        return false;
    return !arguments->client || column_is(line, end, 3, "CLIENT ", arguments->client) ||
           has_detail(line, end, "result", arguments->client, true) ||
           has_detail(line, end, "tensor_id", arguments->client, true) ||
           has_detail(line, end, "path", arguments->client, true);
}

static void print(const log_arguments *arguments, const char *text, size_t size)
{
    bool all = !arguments->client && !arguments->worker && !arguments->event && !arguments->op;
    for (const char *end = text + size; text < end;) {
        const char *next = all ? end - 1 : memchr(text, '\n', (size_t)(end - text));
        next = next ? next : end - 1;
        if (all || chosen(arguments, text, next))
            fwrite(text, 1, (size_t)(next + 1 - text), stdout);
        text = next + 1;
    }
}

/* ---- the command -------------------------------------------------------------------------------------------- */

static atomic_bool stop_requested;

static void stop(void *flag)
{
    atomic_store((atomic_bool *)flag, true);
}

static gt_err print_file(const log_arguments *arguments, const char *path)
{
    gt_log_file *file;
    gt_err err = GT_OK;
    GT_TRY(gt__log_file_open(path, &file));
    while (err == GT_OK && !atomic_load(&stop_requested) && !ferror(stdout)) {
        const char *text;
        size_t size;
        err = gt__log_file_next(file, &text, &size);
        print(arguments, text, size);
        if (size)
            continue;
        fflush(stdout);
        if (!arguments->follow)
            break;
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    size_t rest = gt__log_file_rest(file);
    gt__log_file_close(&file);
    if (err == GT_OK && rest && !arguments->follow)
        fprintf(stderr, "gt log: %s: the end is cut off: the last %zu bytes are incomplete\n", path, rest);
    return err;
}

int gt__command_log(int argc, char **argv)
{
    log_arguments arguments = {0};
    int status = parse(argc, argv, &arguments);
    if (status >= 0)
        return status;
    status = 0;
    atomic_store(&stop_requested, false);
    gt__signals_catch(stop, NULL, &stop_requested);
    for (int k = 0; k < arguments.count && !atomic_load(&stop_requested); k++)
        if (print_file(&arguments, arguments.paths[k]) != GT_OK) {
            fprintf(stderr, "gt log: %s: %s\n", arguments.paths[k], gt_error_text());
            status = 1;
        }
    gt__signals_restore();
    return fflush(stdout) || ferror(stdout) ? 1 : status;
}
