/* server.c: `gt server`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/dashboard.h"
#include "dispatcher/dispatcher.h"
#include "cli/options.h"
#include "core/log.h"

enum { NO_HTTP = -1 }; /* as its port */

typedef struct server_arguments {
    const char *host, *port_file, *config, *key_file, *allow_keys;
    gt_dashboard_options http;
    gt_observer_options observer;
    int port;
    double max_weight, recover_wait, recover_stand_in, recover_every, max_op_seconds;
    uint64_t recover_memory, recover_disk;
    const char *recover_snapshots, *journal, *journal_sync;
    uint64_t journal_size;
    const char *attach_by;
    double detached_for;
    bool insecure, quiet, recover;
    gt_limits limits;
} server_arguments;

static gt_option limit_option(gt_limit which, server_arguments *arguments)
{
    return (gt_option){.name = gt__limit_option(which),
                       .kind = gt__limit_is_bytes(which) ? GT_OPTION_BYTES : GT_OPTION_COUNT,
                       .target = &arguments->limits.most[which],
                       .least = 1,
                       .most = 9e18,
                       .value = "N",
                       .help = gt__limit_help(which)};
}

static gt_option text_option(const char *name, const char **target, const char *value, const char *help)
{
    return (gt_option){.name = name, .kind = GT_OPTION_TEXT, .target = target, .value = value, .help = help};
}

static gt_option number_option(const char *name, double *target, double least, double most, const char *value,
                               const char *help)
{
    return (gt_option){.name = name,
                       .kind = GT_OPTION_NUMBER,
                       .target = target,
                       .least = least,
                       .most = most,
                       .value = value,
                       .help = help};
}

static gt_option bytes_option(const char *name, uint64_t *target, double least, const char *help)
{
    return (gt_option){.name = name,
                       .kind = GT_OPTION_BYTES,
                       .target = target,
                       .least = least,
                       .most = 9e18,
                       .value = "N",
                       .help = help};
}

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, server_arguments *arguments)
{
    const gt_option options[] = {
        {.name = "port",
         .letter = 'p',
         .kind = GT_OPTION_PORT,
         .target = &arguments->port,
         .value = "PORT",
         .help = "port to listen on (default %; 0 picks a free port)"},
        text_option("host", &arguments->host, "HOST", "address to listen on (default %)"),
        text_option("config", &arguments->config, "FILE",
                    "YAML file with the meaning of signals, for clients without their own (also GT_CONFIG)"),
        text_option("key-file", &arguments->key_file, "F",
                    "the server's keys, made with `gt keygen F`; peers then need keys too"),
        text_option("allow-keys", &arguments->allow_keys, "F",
                    "who may connect: lines `client KEY NAME` or `worker KEY NAME`"),
        {.name = "insecure",
         .target = &arguments->insecure,
         .help = "let everyone who reaches the port connect as a client, without keys"},
        text_option("log", &arguments->observer.log, "FILE",
                    "write the instruction log to FILE (also GT_INSTRUCTION_LOG)"),
        bytes_option("log-size", &arguments->observer.log_bytes, 4096,
                     "start a new log after N bytes (64M, 1G); the last four are kept as FILE.1 ..."),
        {.name = "trace-ids",
         .target = &arguments->observer.trace_ids,
         .help = "lines of the log have trace= and span=, as OpenTelemetry has them (also GT_TRACE_IDS)"},
        text_option("tape", &arguments->observer.tape, "FILE",
                    "record everything that clients send in FILE, for `gt replay` (also GT_TAPE)"),
        number_option("max-weight", &arguments->max_weight, 1.0 / GT_MOST_WEIGHT, GT_MOST_WEIGHT, "W",
                      "the largest share that a client may ask for, in shares of a usual one (default %)"),
        limit_option(GT_LIMIT_MEMORY, arguments),
        limit_option(GT_LIMIT_TENSORS, arguments),
        limit_option(GT_LIMIT_QUEUED, arguments),
        limit_option(GT_LIMIT_CONNECTIONS, arguments),
        limit_option(GT_LIMIT_USER_MEMORY, arguments),
        limit_option(GT_LIMIT_USER_TENSORS, arguments),
        limit_option(GT_LIMIT_USER_CONNECTIONS, arguments),
        {.name = "recover",
         .target = &arguments->recover,
         .help = "programs go on when a worker dies: what they need is kept, and computed again"},
        number_option("recover-wait", &arguments->recover_wait, 0.001, 1e6, "S",
                      "seconds to wait for the replacement of a dead worker (default %)"),
        number_option(
            "recover-stand-in", &arguments->recover_stand_in, 0.001, 1e6, "S",
            "seconds after which another worker stands in for a dead one that a program needs (default %)"),
        number_option("recover-every", &arguments->recover_every, 0.001, 1e6, "S",
                      "seconds of work between two snapshots of a program's tensors (default %)"),
        bytes_option("recover-memory", &arguments->recover_memory, 1 << 20,
                     "memory for that, of all programs together (default 4G)"),
        text_option("recover-snapshots", &arguments->recover_snapshots, "DIR",
                    "keep snapshots on disk, in files without a name in DIR, instead of in memory"),
        bytes_option("recover-disk", &arguments->recover_disk, 1 << 20,
                     "disk space for --recover-snapshots, of all programs together (default 64G)"),
        text_option(
            "journal", &arguments->journal, "DIR",
            "keep in DIR what programs need to go on when the server is killed and started again with the same "
            "DIR and port; implies --recover"),
        bytes_option("journal-size", &arguments->journal_size, 16 << 20,
                     "disk space for the journal, of all programs together (default 1G)"),
        text_option(
            "journal-sync", &arguments->journal_sync, "WHEN",
            "`always`: programs outlive a power failure, too; `interval`: it is written to the disk every 100 "
            "ms; `never`: when the system does (default %)"),
        number_option(
            "detached-for", &arguments->detached_for, 0.001, 1e6, "S",
            "seconds for which a program that left with gt.detach() is kept for gt.attach() (default %)"),
        text_option(
            "attach-by", &arguments->attach_by, "WHO",
            "who may attach it: `user`, the user who detached it, or `any`, whoever has the token (default %)"),
        number_option("max-op-seconds", &arguments->max_op_seconds, 0.001, 1e9, "S",
                      "workers cancel an operation that runs longer than S seconds (also GT_MAX_OP_SECONDS)"),
        {.name = "http",
         .kind = GT_OPTION_MAYBE_PORT,
         .target = &arguments->http.port,
         .value = "[PORT]",
         .help = "serve a dashboard, /metrics and /healthz by http (without PORT: any free one)"},
        text_option("http-host", &arguments->http.host, "HOST",
                    "address for that (default %); others need a token"),
        text_option("http-token-file", &arguments->http.token_file, "F",
                    "file with a token: its holders may look and disconnect clients; mode 0600"),
        text_option("port-file", &arguments->port_file, "F", "write the port to file F once the server is ready"),
        {.name = "quiet", .letter = 'q', .target = &arguments->quiet, .help = "do not print the address"},
        {0},
    };
    const gt_usage usage = {
        .command = "gt server",
        .line = "[-p PORT] [--host HOST] [OPTIONS]",
        .about = "Runs a dispatcher. Workers join it with `gt worker`, programs with gt.connect('host:port').\n",
        .options = options,
        .after = "SIGHUP and `gt reload` have the server read its config (signals and `limits`) and --allow-keys "
                 "again.\n",
    };
    return gt__options_parse(&usage, argc, argv);
}

/* Written to a temporary file and renamed, so that a reader never sees half a number. */
static bool write_port_file(const char *path, int port)
{
    char temporary[4096];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    FILE *file = fopen(temporary, "w");
    if (!file)
        return false;
    fprintf(file, "%d\n", port);
    return fclose(file) == 0 && rename(temporary, path) == 0;
}

static void stop(void *dispatcher)
{
    gt__dispatcher_stop(dispatcher);
}

static void reload(void *dispatcher)
{
    gt__dispatcher_reload(dispatcher);
}

const gt_dashboard_ops *gt__dashboard;

/* Start what --http asks for, if it does: *dashboard is NULL otherwise. */
static gt_err start_dashboard(const server_arguments *arguments, gt_dispatcher *dispatcher,
                              gt_dashboard **dashboard)
{
    *dashboard = NULL;
    if (arguments->http.port == NO_HTTP)
        return GT_OK;
    if (!gt__dashboard)
        return gt__fail(GT_ERR_VALUE,
                        "--http: this program was built without the dashboard; build with libmicrohttpd "
                        "and use the gt command");
    GT_TRY(gt__dashboard->start(dispatcher, &arguments->http, dashboard));
    if (!arguments->quiet)
        printf("gt server dashboard at http://%s:%d/\n", arguments->http.host, gt__dashboard->port(*dashboard));
    return GT_OK;
}

static const char usual_sync[] = "interval";

/* Whether an option was given without the one that it belongs to; says so. */
static bool is_alone(const char *option, bool given, const char *other, bool other_given)
{
    bool alone = given && !other_given;
    if (alone)
        fprintf(stderr, "gt server: %s has no effect without %s\n", option, other);
    return alone;
}

static bool are_consistent(const server_arguments *a)
{
    bool recovers = a->recover || a->journal;
    return !(is_alone("--journal-sync", a->journal_sync != usual_sync, "--journal DIR", a->journal) ||
             is_alone("--journal-size", a->journal_size, "--journal DIR", a->journal) ||
             is_alone("--recover-wait", a->recover_wait != GT_RECOVER_WAIT_S, "--recover", recovers) ||
             is_alone("--recover-stand-in", a->recover_stand_in != GT_RECOVER_STAND_IN_S, "--recover", recovers) ||
             is_alone("--recover-every", a->recover_every != GT_RECOVER_EVERY_S, "--recover", recovers) ||
             is_alone("--recover-memory", a->recover_memory, "--recover", recovers) ||
             is_alone("--recover-snapshots", a->recover_snapshots, "--recover", recovers) ||
             is_alone("--recover-disk", a->recover_disk, "--recover-snapshots", a->recover_snapshots));
}

int gt__command_server(int argc, char **argv)
{
    server_arguments arguments = {.host = "localhost", .port = GT_DEFAULT_PORT, .max_weight = 1};
    arguments.http = (gt_dashboard_options){.host = "localhost", .port = NO_HTTP};
    arguments.recover_wait = GT_RECOVER_WAIT_S;
    arguments.recover_stand_in = GT_RECOVER_STAND_IN_S;
    arguments.recover_every = GT_RECOVER_EVERY_S;
    arguments.detached_for = GT_DETACHED_S;
    arguments.attach_by = "user";
    arguments.journal_sync = usual_sync;
    int status = parse(argc, argv, &arguments);
    if (status >= 0)
        return status;
    bool attach_by_any = strcmp(arguments.attach_by, "any") == 0;
    if (!attach_by_any && strcmp(arguments.attach_by, "user") != 0) {
        fprintf(stderr, "gt server: --attach-by is user or any, not '%s'\n", arguments.attach_by);
        return 2;
    }
    if (!are_consistent(&arguments))
        return 2;
    gt__log_times();
    gt__descriptors_raise();
    gt_dispatcher *dispatcher;
    gt_dispatcher_options options = {.host = arguments.host, .port = arguments.port, .listen = true};
    options.key_file = arguments.key_file;
    options.allow_keys = arguments.allow_keys;
    options.insecure = arguments.insecure;
    options.observer = arguments.observer;
    options.observer.keep_old = arguments.journal != NULL;
    options.max_weight = arguments.max_weight;
    options.limits = arguments.limits;
    options.recover = arguments.recover;
    options.recover_wait_s = arguments.recover_wait;
    options.recover_stand_in_s = arguments.recover_stand_in;
    options.recover_every_s = arguments.recover_every;
    options.recover_bytes = arguments.recover_memory;
    options.recover_snapshots = arguments.recover_snapshots;
    options.recover_disk = arguments.recover_disk;
    options.journal = arguments.journal;
    options.journal_bytes = arguments.journal_size;
    options.journal_sync = arguments.journal_sync;
    options.detached_s = arguments.detached_for;
    options.attach_by_any = attach_by_any;
    options.max_op_seconds = arguments.max_op_seconds;
    options.config = arguments.config ? arguments.config : getenv("GT_CONFIG");
    if (gt__dispatcher_new(&options, &dispatcher) != GT_OK) {
        fprintf(stderr, "gt server: %s\n", gt_error_text());
        return 1;
    }
    status = 0;
    gt_dashboard *dashboard;
    if (start_dashboard(&arguments, dispatcher, &dashboard) != GT_OK) {
        fprintf(stderr, "gt server: %s\n", gt_error_text());
        gt__dispatcher_free(&dispatcher);
        return 1;
    }
    gt__signals_catch(stop, reload, dispatcher);
    if (!arguments.quiet) {
        printf("gt server listening on %s:%d\n", arguments.host, gt__dispatcher_port(dispatcher));
        fflush(stdout);
    }
    if (arguments.port_file && !write_port_file(arguments.port_file, gt__dispatcher_port(dispatcher))) {
        fprintf(stderr, "gt server: cannot write %s\n", arguments.port_file);
        status = 1;
        gt__dispatcher_stop(dispatcher); /* it runs to say goodbye */
    }
    if (gt__dispatcher_run(dispatcher) != GT_OK)
        status = 1;
    gt__signals_restore();
    if (dashboard)
        gt__dashboard->stop(&dashboard);
    gt__dispatcher_free(&dispatcher);
    return status;
}
