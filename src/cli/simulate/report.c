/* cli/simulate/report.c: prints what a simulated run took, as text and as JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "cli/simulate/simulate.h"

/* ---- numbers ------------------------------------------------------------------------------------------------- */

static const char *time_text(double ns, char text[32])
{
    const char *unit = ns < 1e3 ? "ns" : ns < 1e6 ? "us" : ns < 1e9 ? "ms" : "s";
    double scale = ns < 1e3 ? 1 : ns < 1e6 ? 1e3 : ns < 1e9 ? 1e6 : 1e9;
    snprintf(text, 32, "%.4g %s", ns / scale, unit);
    return text;
}

static const char *bytes_text(double bytes, char text[32])
{
    const char *unit = bytes < 1e3 ? "B" : bytes < 1e6 ? "KB" : bytes < 1e9 ? "MB" : bytes < 1e12 ? "GB" : "TB";
    double scale = bytes < 1e3 ? 1 : bytes < 1e6 ? 1e3 : bytes < 1e9 ? 1e6 : bytes < 1e12 ? 1e9 : 1e12;
    snprintf(text, 32, "%.4g %s", bytes / scale, unit);
    return text;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* When the last work of each step was done; *count: steps, from 1. */
static double *step_ends(const gt_streams *streams, const gt_outcome *outcome, uint32_t *count)
{
    *count = 0;
    for (size_t k = 0; k < streams->cause_count; k++)
        *count = streams->causes[k].step > *count ? streams->causes[k].step : *count;
    double *ends = gt__zeroed(*count + 1, sizeof *ends);
    for (unsigned w = 0; w < streams->workers; w++)
        for (size_t k = 0; k < streams->stream[w].count; k++) {
            uint32_t step = streams->causes[streams->stream[w].items[k].cause].step;
            if (step)
                ends[step] = fmax(ends[step], outcome->end[w][k]);
        }
    return ends;
}

double gt__step_ns(const gt_streams *streams, const gt_outcome *outcome, unsigned *count)
{
    uint32_t steps;
    double *ends = step_ends(streams, outcome, &steps), median = 0;
    uint32_t first =
        steps / 2 + 1; /* before that, hot paths are not known yet, and tensors are where they were made */
    *count = steps > first ? steps - first : 0;
    for (uint32_t k = 0; k < *count; k++)
        ends[k] = ends[first + k + 1] - ends[first + k];
    if (*count) {
        qsort(ends, *count, sizeof *ends, compare);
        median = ends[*count / 2];
    }
    free(ends);
    return median;
}

/* ---- what moved ---------------------------------------------------------------------------------------------- */

typedef struct moved {
    uint64_t count;
    double bytes;
} moved;

static moved moved_by(const gt_streams *streams, unsigned op)
{
    moved sum = {0};
    for (unsigned w = 0; w < streams->workers; w++)
        for (size_t k = 0; k < streams->stream[w].count; k++) {
            const gt_sim_item *item = &streams->stream[w].items[k];
            if (streams->works[item->work].op != op)
                continue;
            sum.count++;
            sum.bytes += (double)item->bytes;
        }
    return sum;
}

static double share_of(const gt_outcome *outcome, double ns)
{
    return outcome->total_ns > 0 ? 100 * ns / outcome->total_ns : 0;
}

static double bubbles(const gt_sim_report *r)
{
    double sum = 0;
    for (unsigned w = 0; w < r->streams->workers; w++)
        sum += r->outcome->usage[w].waits_workers;
    return share_of(r->outcome, sum / r->streams->workers);
}

/* ---- the timeline -------------------------------------------------------------------------------------------- */

enum { COLUMNS = 60 };

/* Add the part of start..end that lies in each column. */
static void fill_columns(double columns[COLUMNS], double width, double start, double end)
{
    for (unsigned k = (unsigned)(start / width); k < COLUMNS && k * width < end; k++)
        columns[k] += fmin(end, (k + 1) * width) - fmax(start, k * width);
}

/* What a worker does, over the whole time: # computes, = data comes from others or is awaited, and nothing. */
static void timeline_of(const gt_sim_report *r, unsigned w, char text[COLUMNS + 1])
{
    const gt_sim_stream *stream = &r->streams->stream[w];
    double computes[COLUMNS] = {0}, moves[COLUMNS] = {0}, width = r->outcome->total_ns / COLUMNS;
    for (size_t k = 0; k < stream->count && width > 0; k++) {
        uint8_t kind = stream->items[k].kind;
        bool between = kind == GT_SIM_SEND || kind == GT_SIM_RECV || kind == GT_SIM_COLLECTIVE;
        fill_columns(between ? moves : computes, width, r->outcome->start[w][k], r->outcome->end[w][k]);
    }
    for (unsigned k = 0; k < COLUMNS; k++)
        text[k] = computes[k] >= width / 2 ? '#' : computes[k] + moves[k] >= width / 2 ? '=' : ' ';
    for (unsigned k = 0; k < COLUMNS && width == 0; k++)
        text[k] = ' ';
    text[COLUMNS] = 0;
}

/* ---- text ---------------------------------------------------------------------------------------------------- */

static size_t instructions(const gt_streams *streams)
{
    size_t count = 0;
    for (size_t k = 0; k < streams->cause_count; k++)
        count += !streams->causes[k].left;
    return count;
}

static void print_worker(const gt_sim_report *r, unsigned w, FILE *out)
{
    const gt_sim_usage *u = &r->outcome->usage[w];
    char name[32], bytes[32];
    snprintf(name, sizeof name, "worker_%u", w);
    fprintf(out, "%-12s %8.1f%% %8.1f%% %8.1f%% %8.1f%% %8.1f%%  %s\n", name, share_of(r->outcome, u->compute),
            share_of(r->outcome, u->transfer), share_of(r->outcome, u->waits_data),
            share_of(r->outcome, u->waits_workers), share_of(r->outcome, u->waits_program),
            bytes_text(u->bytes, bytes));
}

void gt__report_text(const gt_sim_report *r, FILE *out)
{
    enum { MOST_ROWS = 16 };
    const gt_streams *s = r->streams;
    char text[32];
    unsigned steps, rows = s->workers <= MOST_ROWS ? s->workers : MOST_ROWS;
    double step = gt__step_ns(s, r->outcome, &steps);
    fprintf(out, "%s on %u worker%s: device %s, link %s, config %s\n", r->tape, s->workers,
            s->workers == 1 ? "" : "s", r->device, r->link, r->config ? r->config : "of the tape");
    fprintf(out, "time     %s for %zu instructions of %u client%s\n", time_text(r->outcome->total_ns, text),
            instructions(s), s->sessions, s->sessions == 1 ? "" : "s");
    if (steps)
        fprintf(out, "step     %s, the median of %u\n", time_text(step, text), steps);
    fprintf(out, "bubbles  %.1f%% of the workers' time: waiting for other workers\n", bubbles(r));
    for (unsigned op = GT_OP_recv; op <= GT_OP_all_to_all; op++) {
        moved sum = moved_by(s, op);
        if (sum.count)
            fprintf(out, "moved    %s to workers by %llu %s\n", bytes_text(sum.bytes, text),
                    (unsigned long long)sum.count, gt__op_table[op].name);
    }
    fprintf(out, "\n%-12s %9s %9s %9s %9s %9s  %s\n", "", "computes", "moves", "for data", "workers", "program",
            "bytes in");
    for (unsigned w = 0; w < rows; w++)
        print_worker(r, w, out);
    if (rows < s->workers)
        fprintf(out, "and %u more: --json has all\n", s->workers - rows);
    fprintf(out, "\n%-12s |0%*s|\n", "", COLUMNS - 1, time_text(r->outcome->total_ns, text));
    for (unsigned w = 0; w < rows; w++) {
        char name[32], bar[COLUMNS + 1];
        snprintf(name, sizeof name, "worker_%u", w);
        timeline_of(r, w, bar);
        fprintf(out, "%-12s |%s|\n", name, bar);
    }
    fprintf(out, "%-12s  # computes, = moves data or waits for it; --timeline FILE draws all of it\n", "");
}

/* ---- JSON ---------------------------------------------------------------------------------------------------- */

void gt__report_json(const gt_sim_report *r, FILE *out)
{
    const gt_streams *s = r->streams;
    unsigned steps;
    double step = gt__step_ns(s, r->outcome, &steps);
    fprintf(out, "{\"tape\": ");
    gt__json_string(out, r->tape);
    fprintf(out, ", \"device\": ");
    gt__json_string(out, r->device);
    fprintf(out, ", \"link\": ");
    gt__json_string(out, r->link);
    fprintf(out, ",\n \"seconds\": %.9f, \"instructions\": %zu, \"clients\": %u, \"steps\": %u, ",
            r->outcome->total_ns / 1e9, instructions(s), s->sessions, steps);
    fprintf(out, "\"step_seconds\": %.9f, \"bubbles\": %.6f,\n \"moved\": {", step / 1e9, bubbles(r) / 100);
    const char *comma = "";
    for (unsigned op = GT_OP_recv; op <= GT_OP_all_to_all; op++) {
        moved sum = moved_by(s, op);
        if (!sum.count)
            continue;
        fprintf(out, "%s\"%s\": {\"count\": %llu, \"bytes\": %.0f}", comma, gt__op_table[op].name,
                (unsigned long long)sum.count, sum.bytes);
        comma = ", ";
    }
    fprintf(out, "},\n \"workers\": [");
    for (unsigned w = 0; w < s->workers; w++) {
        const gt_sim_usage *u = &r->outcome->usage[w];
        fprintf(out,
                "%s\n  {\"name\": \"worker_%u\", \"compute_seconds\": %.9f, \"move_seconds\": %.9f, "
                "\"data_seconds\": %.9f, \"workers_seconds\": %.9f, \"program_seconds\": %.9f, "
                "\"bytes\": %.0f, \"instructions\": %llu, \"moves\": %llu, \"collectives\": %llu}",
                w ? "," : "", w, u->compute / 1e9, u->transfer / 1e9, u->waits_data / 1e9, u->waits_workers / 1e9,
                u->waits_program / 1e9, u->bytes, (unsigned long long)u->instructions,
                (unsigned long long)u->moves, (unsigned long long)u->collectives);
    }
    fprintf(out, "\n ]}\n");
}
