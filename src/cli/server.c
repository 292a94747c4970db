/* server.c: `gt server`. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "cli.h"
#include "dispatcher.h"
#include "settings.h"

static const char help[] =
    "usage: gt server [-p PORT] [--host HOST] [OPTIONS]\n"
    "\n"
    "Runs a dispatcher. Workers join it with `gt worker`, programs with gt.connect('host:port').\n"
    "\n"
    "  -p, --port PORT     port to listen on (default 12345; 0 picks a free one)\n"
    "      --host HOST     address to listen on (default localhost)\n"
    "      --config FILE   YAML: what signals mean to clients that do not say it themselves (also GT_CONFIG)\n"
    "      --insecure      allow an address that other machines can reach: anyone there may connect\n"
    "      --log FILE      write the instruction log to FILE (also GT_INSTRUCTION_LOG)\n"
    "      --log-size N    begin a new log when it has N bytes (64M, 1G); the last four are kept as FILE.1 ...\n"
    "      --tape FILE     record everything that clients send in FILE, for `gt replay` (also GT_TAPE)\n"
    "      --port-file F   write the port to file F once the server is ready\n"
    "  -q, --quiet         do not print where the server listens\n"
    "  -h, --help          this text\n";

enum { OPTION_HOST = 256, OPTION_CONFIG, OPTION_INSECURE, OPTION_LOG, OPTION_LOG_SIZE, OPTION_PORT_FILE, OPTION_TAPE };

typedef struct server_arguments {
    const char *host, *port_file, *config;
    gt_observer_options observer;
    int port;
    bool insecure, quiet;
} server_arguments;

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, server_arguments *arguments)
{
    static const struct option options[] = {
        {.name = "port", .has_arg = required_argument, .val = 'p'},
        {.name = "host", .has_arg = required_argument, .val = OPTION_HOST},
        {.name = "config", .has_arg = required_argument, .val = OPTION_CONFIG},
        {.name = "insecure", .val = OPTION_INSECURE},
        {.name = "log", .has_arg = required_argument, .val = OPTION_LOG},
        {.name = "log-size", .has_arg = required_argument, .val = OPTION_LOG_SIZE},
        {.name = "tape", .has_arg = required_argument, .val = OPTION_TAPE},
        {.name = "port-file", .has_arg = required_argument, .val = OPTION_PORT_FILE},
        {.name = "quiet", .val = 'q'},
        {.name = "help", .val = 'h'},
        {0},
    };
    double bytes;
    optind = 0; /* glibc: start afresh, we may run more than once in a process */
    for (int option; (option = getopt_long(argc, argv, "p:qh", options, NULL)) != -1;)
        switch (option) {
        case 'p':
            if ((arguments->port = gt__parse_port(optarg)) < 0)
                return 2;
            break;
        case OPTION_HOST:
            arguments->host = optarg;
            break;
        case OPTION_CONFIG:
            arguments->config = optarg;
            break;
        case OPTION_INSECURE:
            arguments->insecure = true;
            break;
        case OPTION_LOG:
            arguments->observer.log = optarg;
            break;
        case OPTION_LOG_SIZE:
            if (!gt__parse_number(argv[0], "--log-size", optarg, GT_NUMBER_BYTES, 4096, 9e18, &bytes))
                return 2;
            arguments->observer.log_bytes = (uint64_t)bytes;
            break;
        case OPTION_TAPE:
            arguments->observer.tape = optarg;
            break;
        case OPTION_PORT_FILE:
            arguments->port_file = optarg;
            break;
        case 'q':
            arguments->quiet = true;
            break;
        case 'h':
            fputs(help, stdout);
            return 0;
        default:
            fputs("try `gt server --help`\n", stderr);
            return 2;
        }
    if (optind == argc)
        return -1;
    fprintf(stderr, "gt server: unexpected '%s'; try `gt server --help`\n", argv[optind]);
    return 2;
}

/* Written under another name first, so that whoever waits for the file never reads half a number. */
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

int gt__command_server(int argc, char **argv)
{
    server_arguments arguments = {.host = "localhost", .port = 12345};
    int status = parse(argc, argv, &arguments);
    if (status >= 0)
        return status;
    if (!gt__address_is_loopback(arguments.host) && !arguments.insecure) {
        fprintf(stderr, "gt server: %s can be reached from other machines, and there is no authentication; "
                        "say --insecure if that is meant\n", arguments.host);
        return 1;
    }
    gt__descriptors_raise();
    gt_dispatcher *dispatcher;
    gt_dispatcher_options options = {.host = arguments.host, .port = arguments.port, .listen = true};
    options.observer = arguments.observer;
    options.config = arguments.config ? arguments.config : getenv("GT_CONFIG");
    if (gt__dispatcher_new(&options, &dispatcher) != GT_OK) {
        fprintf(stderr, "gt server: %s\n", gt_error_text());
        return 1;
    }
    gt__signals_catch(stop, dispatcher);
    if (!arguments.quiet) {
        printf("gt server listening on %s:%d\n", arguments.host, gt__dispatcher_port(dispatcher));
        fflush(stdout);
    }
    if (arguments.port_file && !write_port_file(arguments.port_file, gt__dispatcher_port(dispatcher))) {
        fprintf(stderr, "gt server: cannot write %s\n", arguments.port_file);
        status = 1;
    } else
        status = gt__dispatcher_run(dispatcher) == GT_OK ? 0 : 1;
    gt__signals_restore();
    gt__dispatcher_free(&dispatcher);
    return status;
}
