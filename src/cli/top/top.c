/*
 * cli/top/top.c: `gt top`: what workers and clients are doing, live. The command and its loop; top.h lists the other
 * parts.
 */
#include "cli/top/top.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/watcher.h"

enum {
    KEYS_MS = 50,   /* between polls of the keyboard */
    RETRY_MS = 500, /* between attempts to connect */
    LATE_MS = 1000, /* more than an interval that a worker may take to be measured; then the others are printed */
};

/* Seconds between two statistics, if none are given; also between the two that --once needs for rates. */
static const double INTERVAL = 0.5;
static const double SPAN = 120; /* seconds that graphs show */

typedef struct top_arguments {
    gt_watch_options watch;
    double interval, client;
    bool once, json, plain;
} top_arguments;

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, top_arguments *arguments)
{
    const gt_option options[] = {
        {.name = "host",
         .kind = GT_OPTION_TEXT,
         .target = &arguments->watch.host,
         .value = "HOST",
         .help = "the dispatcher's host (default localhost)"},
        {.name = "port",
         .letter = 'p',
         .kind = GT_OPTION_PORT,
         .target = &arguments->watch.port,
         .value = "PORT",
         .help = "the dispatcher's port (default: the dispatcher on this host; 12345 on another host)"},
        {.name = "interval",
         .letter = 'i',
         .kind = GT_OPTION_NUMBER,
         .target = &arguments->interval,
         .least = 0.05,
         .most = 3600,
         .value = "S",
         .help = "seconds between updates (default 0.5), or that --once measures"},
        {.name = "client",
         .kind = GT_OPTION_NUMBER,
         .target = &arguments->client,
         .least = 1,
         .most = 9e15,
         .value = "N",
         .help = "show client N, its lines and its largest tensors"},
        {.name = "once", .target = &arguments->once, .help = "print once and exit"},
        {.name = "json",
         .target = &arguments->json,
         .help = "print JSON, one line per update; with --once, one line"},
        {.name = "plain", .target = &arguments->plain, .help = "no colours (also NO_COLOR)"},
        {0},
    };
    const gt_usage usage = {
        .command = "gt top",
        .line = "[--host HOST] [--port PORT] [OPTIONS]",
        .about = "Shows what the workers and clients of a running dispatcher are doing. Type h for the keys.\n",
        .options = options,
    };
    int status = gt__options_parse(&usage, argc, argv);
    if (!arguments->interval)
        arguments->interval = INTERVAL;
    arguments->watch.hurry = arguments->once;
    return status;
}

/* ---- the session -------------------------------------------------------------------------------------------- */

static atomic_bool stop_requested;

static void stop(void *flag)
{
    atomic_store((atomic_bool *)flag, true);
}

typedef struct viewer {
    const top_arguments *arguments;
    gt_watcher watcher;
    gt_top top;
    gt_top_detail detail;
    double asked; /* the client that the dispatcher was asked for; 0: none */
    gt_top_view view;
    uint64_t retry_ns; /* when to try to connect again */
} viewer;

static gt_err attach(viewer *session)
{
    gt__top_clear(&session->top);
    gt__detail_clear(&session->detail);
    session->asked = 0;
    gt_err err = gt__watcher_open(&session->watcher, &session->arguments->watch, session->view.which,
                                  GT_TOPIC_STATS, (int)(session->arguments->interval * 1000));
    session->view.servers = session->watcher.server_count;
    return err;
}

/* Ask for the client that is shown, if that is another one than before. */
static gt_err ask_client(viewer *session)
{
    double shown = session->view.shown;
    if (shown == session->asked)
        return GT_OK;
    session->asked = shown;
    return gt__watcher_ask(&session->watcher, GT_TOPIC_STATS | (shown ? GT_TOPIC_CLIENT : 0),
                           (int)(session->arguments->interval * 1000), (uint64_t)shown);
}

/* ---- for scripts -------------------------------------------------------------------------------------------- */

/* What the dispatcher says of a client, once or again and again. */
static gt_err print_client(viewer *session)
{
    const top_arguments *arguments = session->arguments;
    GT_TRY(ask_client(session));
    while (!atomic_load(&stop_requested)) {
        uint64_t topic;
        gt_err err = gt__watcher_next(&session->watcher, -1, &topic);
        if (err == GT_ERR_INTERRUPTED || (err == GT_OK && topic != GT_TOPIC_CLIENT))
            continue;
        GT_TRY(err);
        if (!gt__detail_update(&session->detail, session->watcher.text))
            continue;
        if (!session->detail.found)
            return gt__fail(GT_ERR_VALUE, "there is no client %.0f", arguments->client);
        if (arguments->json)
            puts(session->watcher.text);
        else
            gt__detail_print(&session->detail, stdout);
        fflush(stdout);
        if (arguments->once || ferror(stdout))
            break;
    }
    return GT_OK;
}

static gt_err run_printing(viewer *session)
{
    const top_arguments *arguments = session->arguments;
    GT_TRY(attach(session));
    if (arguments->client)
        return print_client(session);
    uint64_t patience = gt__deadline_ns((int)(1000 * arguments->interval) + LATE_MS);
    while (!atomic_load(&stop_requested)) {
        uint64_t topic;
        gt_err err = gt__watcher_next(&session->watcher, -1, &topic);
        if (err == GT_ERR_INTERRUPTED)
            continue;
        GT_TRY(err);
        if (topic != GT_TOPIC_STATS || !gt__top_update(&session->top, session->watcher.text))
            continue;
        if (!gt__top_measured(&session->top) && (session->top.samples < 2 || gt__remaining_ms(patience)))
            continue;
        gt__top_sort(&session->top, GT_TOP_BY_NAME, false);
        (arguments->json ? gt__top_print_json : gt__top_print)(&session->top, &session->view, stdout);
        if (arguments->once || ferror(stdout))
            return GT_OK;
    }
    return arguments->once ? gt__fail(GT_ERR_INTERRUPTED, "interrupted before the statistics came") : GT_OK;
}

/* ---- in a terminal ------------------------------------------------------------------------------------------ */

/* Show the error, and retry soon. */
static void lose(viewer *session)
{
    snprintf(session->view.message, sizeof session->view.message, "%s: %s", session->view.address,
             gt_error_text());
    gt__watcher_close(&session->watcher);
    gt__top_clear(&session->top);
    session->view.paused = false;
    session->retry_ns = gt__deadline_ns(RETRY_MS);
    gt__screen_draw(&session->top, &session->detail, &session->view);
}

static void look(viewer *session)
{
    uint64_t topic;
    if (!session->watcher.link) {
        if (gt__now_ns() < session->retry_ns)
            usleep(KEYS_MS * 1000);
        else if (attach(session) != GT_OK)
            lose(session);
        return;
    }
    gt_err err = ask_client(session);
    if (err == GT_OK)
        err = gt__watcher_next(&session->watcher, KEYS_MS, &topic);
    if (err == GT_OK && topic == GT_TOPIC_CLIENT && !session->view.paused &&
        gt__detail_update(&session->detail, session->watcher.text))
        gt__screen_draw(&session->top, &session->detail, &session->view);
    if (err == GT_OK && topic == GT_TOPIC_STATS && !session->view.paused &&
        gt__top_update(&session->top, session->watcher.text)) {
        session->view.message[0] = 0;
        gt__screen_draw(&session->top, &session->detail, &session->view);
    }
    if (err != GT_OK && err != GT_ERR_TIMEOUT && err != GT_ERR_INTERRUPTED)
        lose(session);
}

static gt_err run_screen(viewer *session)
{
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
        return gt__fail(GT_ERR_VALUE, "this is not a terminal; use --once or --json");
    GT_TRY(attach(session));
    const char *no_colour = getenv("NO_COLOR");
    GT_TRY(gt__screen_open(session->arguments->plain || (no_colour && *no_colour)));
    snprintf(session->view.message, sizeof session->view.message, "waiting for the first statistics");
    gt__screen_draw(&session->top, &session->detail, &session->view);
    while (!atomic_load(&stop_requested)) {
        gt_top_action action = gt__screen_keys(&session->top, &session->view);
        if (action == GT_TOP_QUIT)
            break;
        if (action == GT_TOP_NEXT_SERVER && session->view.servers > 1) {
            session->view.which++;
            session->view.paused = false; /* show the message at once */
            gt__watcher_close(&session->watcher);
            session->retry_ns = 0;
        } else if (action == GT_TOP_REDRAW)
            gt__screen_draw(&session->top, &session->detail, &session->view);
        look(session);
    }
    gt__screen_close();
    return GT_OK;
}

int gt__command_top(int argc, char **argv)
{
    top_arguments arguments = {0};
    int status = parse(argc, argv, &arguments);
    if (status >= 0)
        return status;
    viewer session = {.arguments = &arguments, .watcher.stop = &stop_requested};
    session.view.address = session.watcher.address;
    session.view.interval = arguments.interval;
    session.view.span = SPAN;
    session.view.shown = arguments.client;
    atomic_store(&stop_requested, false);
    gt__signals_catch(stop, NULL, &stop_requested);
    gt_err err = arguments.once || arguments.json ? run_printing(&session) : run_screen(&session);
    gt__signals_restore();
    gt__watcher_close(&session.watcher);
    gt__top_clear(&session.top);
    gt__detail_clear(&session.detail);
    if (err == GT_OK)
        return 0;
    fprintf(stderr, "gt top: %s\n", gt_error_text());
    return 1;
}
