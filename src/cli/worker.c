/* worker.c: `gt worker`. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "core/settings.h"
#include "worker/worker.h"

typedef struct worker_arguments {
    const char *host;
    int port;
    uint64_t threads, number; /* number: the index plus one; 0: any */
    double timeout;           /* seconds */
    gt_worker_options worker;
} worker_arguments;

static const char *take_index(void *target, const char *text)
{
    double index;
    if (!gt__number_parse(text, GT_NUMBER_COUNT, 0, GT_MAX_PARTIES - 1, &index))
        return "the number of a worker";
    *(uint64_t *)target = (uint64_t)index + 1;
    return NULL;
}

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, worker_arguments *arguments)
{
    const gt_option options[] = {
        {.name = "host",
         .kind = GT_OPTION_TEXT,
         .target = &arguments->host,
         .value = "HOST",
         .help = "the server's host, also as memory://HOST, ipc://HOST or tcp://HOST (default %)"},
        {.name = "port",
         .letter = 'p',
         .kind = GT_OPTION_PORT,
         .target = &arguments->port,
         .value = "PORT",
         .help = "the server's port (default %)"},
        {.name = "backend",
         .kind = GT_OPTION_TEXT,
         .target = &arguments->worker.backend,
         .value = "B",
         .help = "engine: cpu (default), reference, null (computes nothing), or the name of a plug-in; with "
                 "python -m gt.worker also numpy, pytorch and others in Python (also GT_BACKEND)"},
        {.name = "name",
         .kind = GT_OPTION_TEXT,
         .target = &arguments->worker.name,
         .value = "NAME",
         .help = "this worker's name at the server (default worker_<pid>); it replaces a worker of the same name"},
        {.name = "index",
         .kind = GT_OPTION_OWN,
         .target = &arguments->number,
         .take = take_index,
         .value = "N",
         .help =
             "this worker's number, by which signals name it (default: the one its name had, or the first free)"},
        {.name = "key-file",
         .kind = GT_OPTION_TEXT,
         .target = &arguments->worker.key_file,
         .value = "F",
         .help = "keys for a server on another host, made with `gt keygen F --server KEY` (also GT_KEY_FILE)"},
        {.name = "threads",
         .kind = GT_OPTION_COUNT,
         .target = &arguments->threads,
         .least = 1,
         .most = 1024,
         .value = "N",
         .help = "threads of the engine (default: one per core)"},
        {.name = "max-op-seconds",
         .kind = GT_OPTION_NUMBER,
         .target = &arguments->worker.max_op_seconds,
         .least = 0.001,
         .most = 1e9,
         .value = "S",
         .help = "cancel an operation that runs longer than S seconds (also GT_MAX_OP_SECONDS; gt server has "
                 "the same for all workers)"},
        {.name = "timeout",
         .kind = GT_OPTION_NUMBER,
         .target = &arguments->timeout,
         .least = 0.001,
         .most = 1e6,
         .value = "S",
         .help = "seconds to wait for the server (default GT_CONNECT_TIMEOUT, else 10)"},
        {0},
    };
    const gt_usage usage = {
        .command = "gt worker",
        .line = "[--host HOST] [-p PORT] [OPTIONS]",
        .about = "Joins a server (`gt server`) and executes the instructions it sends.\n",
        .options = options,
    };
    int status = gt__options_parse(&usage, argc, argv);
    arguments->worker.threads = (int)arguments->threads;
    arguments->worker.number = (int)arguments->number;
    arguments->worker.named = arguments->worker.name || arguments->number;
    arguments->worker.timeout_ms = (int)(arguments->timeout * 1000);
    return status;
}

static atomic_bool stop_requested;

static void stop(void *flag)
{
    atomic_store((atomic_bool *)flag, true);
}

int gt__command_worker(int argc, char **argv)
{
    worker_arguments arguments = {.host = "localhost", .port = GT_DEFAULT_PORT};
    int status = parse(argc, argv, &arguments);
    if (status >= 0)
        return status;
    char address[320];
    if (snprintf(address, sizeof address, "%s:%d", arguments.host, arguments.port) >= (int)sizeof address) {
        fprintf(stderr, "gt worker: '%.40s...' is too long for a host\n", arguments.host);
        return 1;
    }
    atomic_store(&stop_requested, false);
    arguments.worker.address = address;
    arguments.worker.stop = &stop_requested;
    arguments.worker.stop_poll_ms = 200;
    gt__descriptors_raise();
    gt__signals_catch(stop, NULL, &stop_requested);
    gt_err err = gt__worker_run(&arguments.worker, NULL);
    gt__signals_restore();
    if (err == GT_OK || atomic_load(&stop_requested))
        return 0;
    fprintf(stderr, "gt worker: %s\n", gt_error_text());
    return 1;
}
