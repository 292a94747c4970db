/* worker.c: `gt worker`. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "settings.h"
#include "worker.h"

static const char help[] =
    "usage: gt worker [--host HOST] [-p PORT] [OPTIONS]\n"
    "\n"
    "Joins a server (`gt server`) and executes what it is sent.\n"
    "\n"
    "      --host HOST     the server's host, also as memory://HOST, ipc://HOST or tcp://HOST (default localhost)\n"
    "  -p, --port PORT     the server's port (default 12345)\n"
    "      --backend B     engine: cpu (default), reference, or null, which computes nothing; also GT_BACKEND\n"
    "      --name NAME     what the server calls this worker (default worker_<pid>)\n"
    "      --threads N     threads of the engine (default: the cores)\n"
    "      --timeout S     seconds to wait for the server (default GT_CONNECT_TIMEOUT, else 10)\n"
    "  -h, --help          this text\n";

enum { OPTION_HOST = 256, OPTION_BACKEND, OPTION_NAME, OPTION_THREADS, OPTION_TIMEOUT };

typedef struct worker_arguments {
    const char *host;
    int port;
    gt_worker_options worker;
} worker_arguments;

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, worker_arguments *arguments)
{
    static const struct option options[] = {
        {.name = "port", .has_arg = required_argument, .val = 'p'},
        {.name = "host", .has_arg = required_argument, .val = OPTION_HOST},
        {.name = "backend", .has_arg = required_argument, .val = OPTION_BACKEND},
        {.name = "name", .has_arg = required_argument, .val = OPTION_NAME},
        {.name = "threads", .has_arg = required_argument, .val = OPTION_THREADS},
        {.name = "timeout", .has_arg = required_argument, .val = OPTION_TIMEOUT},
        {.name = "help", .val = 'h'},
        {0},
    };
    double number;
    optind = 0; /* glibc: start afresh, we may run more than once in a process */
    for (int option; (option = getopt_long(argc, argv, "p:h", options, NULL)) != -1;)
        switch (option) {
        case 'p':
            if ((arguments->port = gt__parse_port(optarg)) < 0)
                return 2;
            break;
        case OPTION_HOST:
            arguments->host = optarg;
            break;
        case OPTION_BACKEND:
            arguments->worker.backend = optarg;
            break;
        case OPTION_NAME:
            arguments->worker.name = optarg;
            break;
        case OPTION_THREADS:
            if (!gt__parse_number(argv[0], "--threads", optarg, GT_NUMBER_COUNT, 1, 1024, &number))
                return 2;
            arguments->worker.threads = (int)number;
            break;
        case OPTION_TIMEOUT:
            if (!gt__parse_number(argv[0], "--timeout", optarg, GT_NUMBER_SECONDS, 0.001, 1e6, &number))
                return 2;
            arguments->worker.timeout_ms = (int)(number * 1000);
            break;
        case 'h':
            fputs(help, stdout);
            return 0;
        default:
            fputs("try `gt worker --help`\n", stderr);
            return 2;
        }
    if (optind == argc)
        return -1;
    fprintf(stderr, "gt worker: unexpected '%s'; try `gt worker --help`\n", argv[optind]);
    return 2;
}

static atomic_bool stop_requested;

static void stop(void *flag)
{
    atomic_store((atomic_bool *)flag, true);
}

int gt__command_worker(int argc, char **argv)
{
    worker_arguments arguments = {.host = "localhost", .port = 12345};
    int status = parse(argc, argv, &arguments);
    if (status >= 0)
        return status;
    char address[256];
    snprintf(address, sizeof address, "%s:%d", arguments.host, arguments.port);
    atomic_store(&stop_requested, false);
    arguments.worker.address = address;
    arguments.worker.stop = &stop_requested;
    arguments.worker.stop_poll_ms = 200;
    gt__descriptors_raise();
    gt__signals_catch(stop, &stop_requested);
    gt_err err = gt__worker_run(&arguments.worker, NULL);
    gt__signals_restore();
    if (err == GT_OK || atomic_load(&stop_requested))
        return 0;
    fprintf(stderr, "gt worker: %s\n", gt_error_text());
    return 1;
}
