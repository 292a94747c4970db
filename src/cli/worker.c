/* worker.c: `gt worker`: one worker, or several as threads of one process. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "core/log.h"
#include "core/settings.h"
#include "worker/worker.h"

typedef struct worker_arguments {
    const char *host;
    int port;
    uint64_t threads, number; /* number: the index plus one; 0: any */
    uint64_t workers;         /* in this process */
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
         .help = "engine: cuda (default where there is an NVIDIA GPU), cpu (default elsewhere), reference, null "
                 "(computes nothing), or the name of a plug-in; with python -m gt.worker also numpy, pytorch and "
                 "others in Python (also GT_BACKEND)"},
        {.name = "name",
         .kind = GT_OPTION_TEXT,
         .target = &arguments->worker.name,
         .value = "NAME",
         .help = "this worker's name at the server (default worker_<pid>, in a container worker_<host>); it "
                 "replaces a worker of the same name"},
        {.name = "index",
         .kind = GT_OPTION_OWN,
         .target = &arguments->number,
         .take = take_index,
         .value = "N",
         .help =
             "this worker's number, by which signals name it (default: the one its name had, or the first free)"},
        {.name = "workers",
         .kind = GT_OPTION_COUNT,
         .target = &arguments->workers,
         .least = 1,
         .most = GT_MAX_PARTIES,
         .value = "N",
         .help = "workers in this process (default %), with the names NAME, NAME_1, ... and the numbers from "
                 "--index on; "
                 "on one GPU they work at the same time, which workers of several processes cannot"},
        {.name = "key-file",
         .kind = GT_OPTION_TEXT,
         .target = &arguments->worker.key_file,
         .value = "F",
         .help = "keys for a server on another host, made with `gt keygen F --server KEY` (also GT_KEY_FILE)"},
        {.name = "listen",
         .kind = GT_OPTION_TEXT,
         .target = &arguments->worker.listen,
         .value = "HOST",
         .help = "open a tcp port, encrypted, for workers of other hosts, at this address; auto: the one by which "
                 "this "
                 "worker reaches the server (default: no port)"},
        {.name = "threads",
         .kind = GT_OPTION_COUNT,
         .target = &arguments->threads,
         .least = 1,
         .most = 1024,
         .value = "N",
         .help = "threads of each engine (default: one per core, divided by the number of workers here)"},
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
         .help =
             "seconds to wait for the server, also for one that is restarted (default GT_CONNECT_TIMEOUT, else "
             "10)"},
        {.name = "wait",
         .target = &arguments->worker.wait,
         .help = "wait for the server without an end; after --timeout a line says so"},
        {0},
    };
    const gt_usage usage = {
        .command = "gt worker",
        .line = "[--host HOST] [-p PORT] [OPTIONS]",
        .about = "Joins a server (`gt server`) and executes the instructions it sends.\n",
        .options = options,
    };
    int status = gt__options_parse(&usage, argc, argv);
    arguments->worker.threads = arguments->threads       ? (int)arguments->threads
                                : arguments->workers > 1 ? gt__threads_per_worker((int)arguments->workers)
                                                         : 0;
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

/* One of several workers of this process. */
typedef struct member {
    pthread_t thread;
    char name[64];
    gt_worker_options options;
    bool failed;
} member;

static bool run(const gt_worker_options *options)
{
    gt_err err = gt__worker_run(options, NULL);
    bool ended = err == GT_OK || atomic_load(&stop_requested);
    if (!ended)
        fprintf(stderr, "gt worker: %s\n", gt_error_text());
    return ended;
}

static void *member_main(void *argument)
{
    member *self = argument;
    self->failed = !run(&self->options);
    return NULL;
}

enum { MOST_NAME = 58 }; /* characters of --name, so that _255 can follow */

/* The name of worker k of this process. */
static void name_member(const gt_worker_options *first, int k, char *name, size_t size)
{
    char base[MOST_NAME + 1];
    if (first->name && *first->name)
        snprintf(base, sizeof base, "%s", first->name);
    else
        gt__worker_default_name(base, sizeof base);
    if (first->number && !first->name)
        snprintf(name, size, "worker_%d", first->number - 1 + k);
    else
        snprintf(name, size, k ? "%s_%d" : "%s", base, k);
}

/* A worker that fails leaves the others at work. True: none has failed. */
static bool run_several(const gt_worker_options *first, int count)
{
    member *members = calloc((size_t)count, sizeof *members);
    sigset_t all, before;
    int started = 0;
    if (!members) {
        fprintf(stderr, "gt worker: out of memory\n");
        return false;
    }
    sigfillset(&all); /* signals are for the main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; started < count; started++) {
        member *m = &members[started];
        m->options = *first;
        name_member(first, started, m->name, sizeof m->name);
        m->options.name = m->name;
        m->options.number = first->number ? first->number + started : 0;
        if (pthread_create(&m->thread, NULL, member_main, m) != 0)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    bool well = started == count;
    if (!well) {
        fprintf(stderr, "gt worker: cannot start a thread\n");
        atomic_store(&stop_requested, true);
    }
    for (int k = 0; k < started; k++) {
        pthread_join(members[k].thread, NULL);
        well = well && !members[k].failed;
    }
    free(members);
    return well;
}

int gt__command_worker(int argc, char **argv)
{
    worker_arguments arguments = {.host = "localhost", .port = GT_DEFAULT_PORT, .workers = 1};
    int status = parse(argc, argv, &arguments);
    if (status >= 0)
        return status;
    char address[320];
    if (snprintf(address, sizeof address, "%s:%d", arguments.host, arguments.port) >= (int)sizeof address) {
        fprintf(stderr, "gt worker: '%.40s...' is too long for a host\n", arguments.host);
        return 1;
    }
    if (arguments.number && arguments.number - 1 + arguments.workers > GT_MAX_PARTIES) {
        fprintf(stderr, "gt worker: --index %d and --workers %d: numbers end at %d\n", (int)arguments.number - 1,
                (int)arguments.workers, GT_MAX_PARTIES - 1);
        return 1;
    }
    if (arguments.workers > 1 && arguments.worker.name && strlen(arguments.worker.name) > MOST_NAME) {
        fprintf(stderr, "gt worker: with --workers, a name has at most %d characters\n", MOST_NAME);
        return 1;
    }
    atomic_store(&stop_requested, false);
    arguments.worker.address = address;
    arguments.worker.stop = &stop_requested;
    arguments.worker.stop_poll_ms = 200;
    gt__log_times();
    gt__descriptors_raise();
    gt__signals_catch(stop, NULL, &stop_requested);
    bool well =
        arguments.workers == 1 ? run(&arguments.worker) : run_several(&arguments.worker, (int)arguments.workers);
    gt__signals_restore();
    return well ? 0 : 1;
}
