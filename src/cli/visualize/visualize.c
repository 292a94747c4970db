/*
 * cli/visualize/visualize.c: `gt visualize`: a picture of an instruction log. visualize.h lists the stages; this file is the
 * command.
 */
#include "cli/visualize/visualize.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"
#include "cli/options.h"

enum { FORMAT_CHROME = GT_PICTURE_PDF + 1, FORMAT_NONE };

typedef struct visualize_arguments {
    const char *output;
    double dpi, from, to;
    int format; /* gt_picture_format or FORMAT_* */
    gt_arrow_choice arrows;
    bool dump;
    char **logs;
    int log_count;
} visualize_arguments;

static int format_named(const char *name)
{
    static const char *const names[] = {"png", "svg", "pdf", "chrome"};
    for (int k = 0; k < 4; k++)
        if (strcasecmp(name, names[k]) == 0)
            return k;
    return FORMAT_NONE;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name), more = strlen(suffix);
    return length >= more && strcasecmp(name + length - more, suffix) == 0;
}

/* By the suffix of the output's name. */
static int format_of(const char *output)
{
    const char *dot = strrchr(output, '.');
    if (ends_with(output, ".json") || ends_with(output, ".json.gz"))
        return FORMAT_CHROME;
    int format = dot && !strchr(dot, '/') ? format_named(dot + 1) : FORMAT_NONE;
    return format < FORMAT_CHROME ? format : FORMAT_NONE;
}

static const char *take_format(void *target, const char *text)
{
    int format = format_named(text);
    *(int *)target = format;
    return format == FORMAT_NONE ? "png, svg, pdf or chrome" : NULL;
}

static const char *take_arrows(void *target, const char *text)
{
    static const char *const names[] = {
        [GT_ARROWS_BATCHES] = "batches", [GT_ARROWS_ALL] = "all", [GT_ARROWS_NONE] = "none"};
    for (int k = 0; k < 3; k++)
        if (strcasecmp(text, names[k]) == 0) {
            *(gt_arrow_choice *)target = (gt_arrow_choice)k;
            return NULL;
        }
    return "batches, all or none";
}

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, visualize_arguments *arguments)
{
    const gt_option options[] = {
        {.name = "output",
         .letter = 'o',
         .kind = GT_OPTION_TEXT,
         .target = &arguments->output,
         .value = "FILE",
         .help = "output file (default tape_timeline.png); the suffix .png, .svg, .pdf, .json or "
                 ".json.gz sets the format"},
        {.name = "dpi",
         .kind = GT_OPTION_NUMBER,
         .target = &arguments->dpi,
         .least = 1,
         .most = 1e9,
         .value = "DPI",
         .help = "resolution of a PNG (default %)"},
        {.name = "format",
         .kind = GT_OPTION_OWN,
         .target = &arguments->format,
         .take = take_format,
         .value = "F",
         .help = "png, svg, pdf or chrome: a trace for Perfetto and chrome://tracing"},
        {.name = "from",
         .kind = GT_OPTION_NUMBER,
         .target = &arguments->from,
         .most = 1e9,
         .value = "S",
         .help = "leave out events before S seconds"},
        {.name = "to",
         .kind = GT_OPTION_NUMBER,
         .target = &arguments->to,
         .most = 1e9,
         .value = "S",
         .help = "leave out events after S seconds"},
        {.name = "arrows",
         .kind = GT_OPTION_OWN,
         .target = &arguments->arrows,
         .take = take_arrows,
         .value = "A",
         .help = "which messages have arrows: batches (default; one for what is sent at once), all, none"},
        {.name = "dump-layout", .target = &arguments->dump, .help = "print the layout as JSON"},
        {0},
    };
    const gt_usage usage = {
        .command = "gt visualize",
        .line = "LOG... [--output FILE] [OPTIONS]",
        .about = "Draws the timeline of an instruction log (GT_INSTRUCTION_LOG=LOG, `gt server --log LOG`, `gt "
                 "trace`): a "
                 "lane for\n"
                 "each client, the dispatcher and each worker; operations as bars, messages as arrows. Several "
                 "logs of one "
                 "dispatcher\n"
                 "make one picture.\n",
        .options = options,
        .operands = &arguments->logs,
        .operand_count = &arguments->log_count,
    };
    int status = gt__options_parse(&usage, argc, argv);
    if (status < 0 && !arguments->log_count)
        return gt__options_wrong(&usage, "which log? name at least one");
    if (status < 0 && arguments->from > arguments->to)
        return gt__options_wrong(&usage, "--from %g is after --to %g", arguments->from, arguments->to);
    return status;
}

static void choose_output(visualize_arguments *arguments)
{
    static const char *const defaults[] = {"tape_timeline.png", "tape_timeline.svg", "tape_timeline.pdf",
                                           "tape_timeline.json"};
    if (!arguments->output)
        arguments->output = defaults[arguments->format == FORMAT_NONE ? GT_PICTURE_PNG : arguments->format];
    if (arguments->format == FORMAT_NONE)
        arguments->format = format_of(arguments->output);
}

static void print_summary(const visualize_arguments *arguments, const gt_timeline *timeline, int width, int height)
{
    bool png = arguments->format == GT_PICTURE_PNG;
    FILE *out = arguments->dump ? stderr : stdout; /* --dump-layout uses standard output */
    fprintf(out, "✓ Visualization saved to: %s\n", arguments->output);
    if (arguments->format != FORMAT_CHROME)
        fprintf(out, "  Resolution: %d x %d %s\n", width, height, png ? "pixels" : "points");
    fprintf(out, "  Events: %zu\n", timeline->count);
    fprintf(out, "  Workers: %zu\n", gt__timeline_workers(timeline));
    fprintf(out, "  Duration: %.3fs\n", gt__timeline_end(timeline) - gt__timeline_begin(timeline));
}

static gt_err empty_window(const visualize_arguments *arguments, double begin, double end)
{
    char to[32];
    snprintf(to, sizeof to, arguments->to < INFINITY ? "%g s" : "the end", arguments->to);
    return gt__fail(GT_ERR_VALUE,
                    "there are no events from %g s to %s: those of the log are from %.6g s to %.6g s",
                    arguments->from, to, begin, end);
}

static gt_err visualize(const visualize_arguments *arguments, gt_timeline *timeline)
{
    for (int k = 0; k < arguments->log_count; k++)
        GT_TRY(gt__timeline_read(timeline, arguments->logs[k], stderr));
    size_t read = timeline->count;
    double begin = gt__timeline_begin(timeline), end = gt__timeline_end(timeline);
    gt__timeline_finish(timeline, arguments->from, arguments->to);
    if (!timeline->count && read)
        return empty_window(arguments, begin, end);
    if (!timeline->count)
        return gt__fail(GT_ERR_VALUE,
                        "there are no events in %s; was GT_INSTRUCTION_LOG set when the program ran?",
                        arguments->logs[0]);
    gt_picture picture = {0};
    int width = 0, height = 0;
    gt_err err = GT_OK;
    if (arguments->format != FORMAT_CHROME || arguments->dump)
        gt__picture_layout(&picture, timeline, arguments->arrows);
    if (arguments->format == FORMAT_CHROME)
        err = gt__timeline_chrome(timeline, arguments->output);
    else
        err = gt__picture_draw(&picture, (gt_picture_format)arguments->format, arguments->dpi, arguments->output,
                               &width, &height);
    if (err == GT_OK) {
        if (arguments->dump)
            gt__picture_dump(&picture, stdout);
        print_summary(arguments, timeline, width, height);
    }
    gt__picture_free(&picture);
    return err;
}

int gt__command_visualize(int argc, char **argv)
{
    visualize_arguments arguments = {.dpi = 150, .to = INFINITY, .format = FORMAT_NONE};
    int status = parse(argc, argv, &arguments);
    if (status >= 0)
        return status;
    choose_output(&arguments);
    if (arguments.format == FORMAT_NONE) {
        fprintf(stderr, "gt visualize: %s ends with none of .png, .svg, .pdf, .json and .json.gz: give --format\n",
                arguments.output);
        return 2;
    }
    gt_timeline timeline = {0};
    gt_err err = visualize(&arguments, &timeline);
    gt__timeline_free(&timeline);
    fflush(stdout);
    if (err == GT_OK)
        return 0;
    fprintf(stderr, "gt visualize: %s\n", gt_error_text());
    return 1;
}
