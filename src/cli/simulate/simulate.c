/*
 * cli/simulate/simulate.c: `gt simulate`: what a recorded program would take on other workers, devices, links, or with another config.
 *
 * Read simulate.h first: it has the stages.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/simulate/simulate.h"

typedef struct simulate {
    const char *tape, *device, *costs_file, *link, *config, *log, *timeline;
    uint64_t workers, threads;
    double cores;
    bool json, search, measures; /* measures: it times works without an exact time, and adds them to `cache` */
    char *cache;
    gt_costs costs;
} simulate;

static int parse(int argc, char **argv, simulate *s)
{
    char **operands;
    int count = 0;
    const gt_option options[] = {
        {.name = "workers",
         .letter = 'w',
         .kind = GT_OPTION_COUNT,
         .target = &s->workers,
         .least = 1,
         .most = GT_MAX_PARTIES,
         .value = "N",
         .help = "how many workers there are, at most 256 (default %)"},
        {.name = "device",
         .kind = GT_OPTION_TEXT,
         .target = &s->device,
         .value = "D",
         .help = "what each of them is: this (default) measures on this machine, h200 is a table"},
        {.name = "link",
         .kind = GT_OPTION_TEXT,
         .target = &s->link,
         .value = "L",
         .help = "between two workers: 400Gb (bits a second), 50GB (bytes), 400Gb,2us (latency), or memory"},
        {.name = "config",
         .kind = GT_OPTION_TEXT,
         .target = &s->config,
         .value = "FILE",
         .help = "YAML: what signals mean, instead of the configs on the tape"},
        {.name = "costs",
         .kind = GT_OPTION_TEXT,
         .target = &s->costs_file,
         .value = "FILE",
         .help = "times and rates of instructions; without --device, only these"},
        {.name = "threads",
         .kind = GT_OPTION_COUNT,
         .target = &s->threads,
         .least = 1,
         .most = 1024,
         .value = "N",
         .help = "threads of a worker (default %)"},
        {.name = "cores",
         .kind = GT_OPTION_NUMBER,
         .target = &s->cores,
         .most = 1e6,
         .value = "C",
         .help = "that all workers share (default: as many as they need)"},
        {.name = "search",
         .target = &s->search,
         .help = "try configs for the signals of the program, and print the fastest as YAML"},
        {.name = "output",
         .letter = 'o',
         .kind = GT_OPTION_TEXT,
         .target = &s->log,
         .value = "FILE",
         .help = "write the simulated run as an instruction log, for gt visualize"},
        {.name = "timeline",
         .kind = GT_OPTION_TEXT,
         .target = &s->timeline,
         .value = "FILE",
         .help = "draw it: .png, .svg or .pdf"},
        {.name = "json", .target = &s->json, .help = "print the result as JSON"},
        {0},
    };
    const gt_usage usage = {
        .command = "gt simulate",
        .line = "TAPE [OPTIONS]",
        .about =
            "Predicts what a recorded program (GT_TAPE=file) takes on other workers, devices, links or configs.\n",
        .after = "Exit status: 0; 1 if the simulation failed; 2 for a tape, config or argument that is wrong.\n",
        .options = options,
        .operands = &operands,
        .operand_count = &count,
    };
    int status = gt__options_parse(&usage, argc, argv);
    if (status >= 0)
        return status;
    if (count == 0)
        return gt__options_wrong(&usage, "a tape is required");
    if (count > 1)
        return gt__options_wrong(&usage, "unexpected '%s': only one tape at a time", operands[1]);
    if (s->search && (s->config || s->log || s->timeline))
        return gt__options_wrong(&usage,
                                 "--search tries configs of its own: not with --config, --output or --timeline");
    s->tape = operands[0];
    return -1;
}

static bool computes(const gt_sim_stream *stream)
{
    for (size_t k = 0; k < stream->count; k++)
        if (stream->items[k].kind == GT_SIM_COMPUTE)
            return true;
    return false;
}

/* How many workers run at the same time: those that have work, on the cores that they may use and this machine has. */
static unsigned count_at_once(const simulate *s, const gt_streams *streams)
{
    cpu_set_t set;
    int online = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    double cores = s->cores > 0 && s->cores < online ? s->cores : online;
    unsigned fit = (unsigned)(cores / (double)s->threads), busy = 0;
    for (unsigned w = 0; w < streams->workers; w++)
        busy += computes(&streams->stream[w]);
    unsigned count = fit < busy ? fit : busy;
    return count ? count : 1;
}

/* Where the times measured on this machine are kept: they depend on the number of threads. NULL: nowhere. */
static char *cache_path(unsigned threads)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char folder[4000], path[4096];
    if (cache && *cache == '/')
        snprintf(folder, sizeof folder, "%s", cache);
    else if (home && *home == '/')
        snprintf(folder, sizeof folder, "%s/.cache", home);
    else
        return NULL;
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/gt", folder);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return NULL;
    snprintf(path, sizeof path, "%s/gt/measured-%u", folder, threads);
    return strdup(path);
}

/* The costs, before works are known. */
static gt_err read_costs(simulate *s)
{
    const char *device = s->device ? s->device : "this";
    s->measures = !strcmp(device, "this") && (s->device || !s->costs_file);
    GT_TRY(gt__costs_new(device, &s->costs));
    s->costs.measures = s->measures;
    if (s->measures)
        s->cache = s->costs_file ? strdup(s->costs_file) : cache_path((unsigned)s->threads);
    const char *file = s->measures ? s->cache : s->costs_file;
    bool none_yet = s->measures && access(file, F_OK) != 0;
    if (file && !none_yet)
        GT_TRY(gt__costs_read(&s->costs, file));
    return s->link ? gt__link_parse(s->link, &s->costs.link) : GT_OK;
}

static void link_text(const gt_sim_link *link, char text[64])
{
    if (link->bytes_per_ns > 0)
        snprintf(text, 64, "%.4g Gbit/s, %.4g us", 8 * link->bytes_per_ns, link->latency_ns / 1e3);
    else
        snprintf(text, 64, "memory");
}

/* Draw the log. */
static gt_err draw(const char *log, const char *picture)
{
    char *arguments[] = {"gt visualize", (char *)log, "--output", (char *)picture, NULL};
    fflush(stdout);
    int before = dup(STDOUT_FILENO); /* what it says of the picture does not belong to our result */
    dup2(STDERR_FILENO, STDOUT_FILENO);
    optind = 0; /* getopt begins anew */
    int failed = gt__command_visualize(4, arguments);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    return failed ? gt__fail(GT_ERR_VALUE, "%s cannot be drawn", picture) : GT_OK;
}

/* The log, if it is wanted, and the picture of it. */
static gt_err write_files(const simulate *s, const gt_streams *streams, const gt_outcome *outcome)
{
    char temporary[] = "/tmp/gt_simulate_XXXXXX";
    if (!s->log && !s->timeline)
        return GT_OK;
    int file = s->log ? -1 : mkstemp(temporary);
    if (!s->log && file < 0)
        return gt__fail(GT_ERR_VALUE, "%s: %s", temporary, strerror(errno));
    const char *log = s->log ? s->log : temporary;
    gt_err err = gt__timeline_write(streams, outcome, log);
    if (err == GT_OK && s->timeline)
        err = draw(log, s->timeline);
    if (file >= 0) {
        close(file);
        unlink(temporary);
    }
    return err;
}

/* Set the times of works. */
static gt_err price(void *context, gt_streams *streams)
{
    simulate *s = context;
    s->costs.at_once = count_at_once(s, streams);
    if (s->measures)
        GT_TRY(gt__measure(streams, (unsigned)s->threads, &s->costs, s->cache));
    return gt__costs_apply(&s->costs, streams);
}

static gt_err search(simulate *s)
{
    gt_search_options options = {.feed = {.tape = s->tape, .workers = (unsigned)s->workers},
                                 .run = {.cores = s->cores, .threads = (unsigned)s->threads},
                                 .costs = &s->costs,
                                 .price = price,
                                 .context = s};
    return gt__search(&options, s->json, stdout);
}

static gt_err simulate_once(simulate *s)
{
    gt_streams *streams = NULL;
    gt_outcome *outcome = NULL;
    gt_feed_options feed = {.tape = s->tape, .workers = (unsigned)s->workers, .config = s->config};
    feed.keep_records = s->log || s->timeline;
    gt_run_options run = {.cores = s->cores, .threads = (unsigned)s->threads};
    char link[64];
    GT_TRY(gt__streams_new(&feed, &streams));
    gt_err err = price(s, streams);
    if (err == GT_OK)
        err = gt__outcome_new(streams, &s->costs, &run, &outcome);
    if (err == GT_OK) {
        link_text(&s->costs.link, link);
        gt_sim_report report = {.tape = s->tape,
                                .device = s->device       ? s->device
                                          : s->costs_file ? s->costs_file
                                                          : "this",
                                .link = link,
                                .config = s->config,
                                .streams = streams,
                                .outcome = outcome};
        (s->json ? gt__report_json : gt__report_text)(&report, stdout);
        err = write_files(s, streams, outcome);
    }
    gt__outcome_free(streams, &outcome);
    gt__streams_free(&streams);
    return err;
}

int gt__command_simulate(int argc, char **argv)
{
    simulate s = {.workers = 1, .threads = 1};
    int status = parse(argc, argv, &s);
    if (status >= 0)
        return status;
    gt_err err = read_costs(&s);
    if (err == GT_OK)
        err = s.search ? search(&s) : simulate_once(&s);
    if (err != GT_OK)
        fprintf(stderr, "gt simulate: %s\n", gt_error_text());
    gt__costs_free(&s.costs);
    free(s.cache);
    return err == GT_OK ? 0 : err == GT_ERR_INTERNAL ? 1 : 2;
}
