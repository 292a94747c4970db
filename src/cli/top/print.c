/* cli/top/print.c: `gt top --once` and `--json`: the model as text, for scripts and without a terminal. */
#include <string.h>

#include "cli/json.h"
#include "cli/top/top.h"

static const double LONG = 0.1; /* seconds of an operation that is named */

char *gt__card_line(const gt_card *card, char text[128])
{
    char used[16] = "-", memory[16] = "-", busy[8] = "-", celsius[16] = "-", watts[16] = "-";
    if (card->known & GT_CARD_BUSY)
        snprintf(busy, sizeof busy, "%.0f%%", 100 * card->busy);
    if (card->known & GT_CARD_MEMORY) {
        gt__short_number((double)card->used, true, used);
        gt__short_number((double)card->memory, true, memory);
    }
    if (card->known & GT_CARD_CELSIUS)
        snprintf(celsius, sizeof celsius, "%.0f", card->celsius);
    if (card->known & GT_CARD_WATTS)
        snprintf(watts, sizeof watts, "%.0f", card->watts);
    snprintf(text, 128, "%-24.24s %4s  memory %s/%s  %s C  %s W", card->name, busy, used, memory, celsius, watts);
    return text;
}

static void print_cards(const gt_top *top, FILE *out)
{
    const char *heading = "\nWORKER               GPU\n";
    char name[72], line[128];
    for (size_t k = 0; k < top->worker_count; k++) {
        const gt_top_worker *worker = &top->workers[k];
        if (!(worker->card.known & GT_CARD_THERE))
            continue;
        fprintf(out, "%s%-20s %s\n", heading, gt__top_short_name(top, worker->name, 20, name),
                gt__card_line(&worker->card, line));
        heading = "";
    }
}

void gt__top_print(const gt_top *top, const gt_top_view *view, FILE *out)
{
    char a[16], b[16], c[16], d[16], name[72];
    fprintf(out,
            "gt top  %s  up %.0fs  %zu worker%s  %zu client%s  %s instructions/s  dispatcher %.0f%% cpu  "
            "(activity and rates of the last %.2f s)\n\n",
            view->address, top->seconds, top->worker_count, top->worker_count == 1 ? "" : "s", top->client_count,
            top->client_count == 1 ? "" : "s", gt__short_number(top->rate, false, a), 100 * top->cpu, top->sample);
    fprintf(out, "%-20s %-13s %6s %7s %8s %7s %7s %6s  %s\n", "WORKER", "ENGINE", "IDLE", "OPS/S", "BYTES/S",
            "MEMORY", "LIMIT", "QUEUE", "ACTIVITY");
    for (size_t k = 0; k < top->worker_count; k++) {
        const gt_top_worker *worker = &top->workers[k];
        char engine[sizeof worker->engine + sizeof worker->exchange];
        const char *more = strchr(worker->exchange, '+'); /* "local+nccl" */
        bool ucx = strncmp(worker->exchange, "ucx", strlen("ucx")) == 0;
        snprintf(engine, sizeof engine, "%s%s%s", worker->engine, ucx ? "+ucx" : "", more ? more : "");
        fprintf(out, "%-20s %-13.13s %5.0f%% %7s %8s %7s %7s %6.0f ",
                gt__top_short_name(top, worker->name, 20, name), engine, 100 * worker->idle,
                gt__short_number(worker->ops, false, a), gt__short_number(worker->bytes, true, b),
                gt__short_number(worker->memory, true, c), gt__short_number(worker->limit, true, d),
                worker->queue);
        for (int category = 0; category < GT_CATEGORY_COUNT; category++)
            if (worker->share[category] >= 0.005)
                fprintf(out, " %s %.0f%%", gt__category_table[category].name, 100 * worker->share[category]);
        if (worker->doing_seconds >= LONG && worker->doing_path.instructions > 0)
            fprintf(out, "  (path %.0f for %.1f s)", worker->doing_path.number, worker->doing_seconds);
        else if (worker->doing_seconds >= LONG)
            fprintf(out, "  (%s for %.1f s)", worker->doing, worker->doing_seconds);
        fputc('\n', out);
    }
    print_cards(top, out);
    fprintf(out, "\n%-6s %-24s %-12s %6s %8s %8s %8s  %s\n", "CLIENT", "NAME", "USER", "SHARE", "TENSORS", "BYTES",
            "INSTR/S", "WORKER");
    for (size_t k = 0; k < top->client_count; k++) {
        const gt_top_client *client = &top->clients[k];
        fprintf(out, "%-6.0f %-24.24s %-12.12s %5.0f%% %8s %8s %8s  %s\n", client->number, client->name,
                client->user, 100 * client->share, gt__short_number(client->tensors, false, a),
                gt__short_number(client->bytes, true, b), gt__short_number(client->rate, false, c),
                client->worker);
    }
    fflush(out);
}

/* ---- JSON: members without the braces around them, as others show more of them (http/state.c) ------------------ */

static void write_text(const char *key, const char *text, FILE *out)
{
    fprintf(out, ", \"%s\": ", key);
    gt__json_string(out, text);
}

static void write_path(const gt_top_path *path, FILE *out)
{
    if (path->instructions > 0)
        fprintf(out, ", \"path\": {\"number\": %.0f, \"instructions\": %.0f}", path->number, path->instructions);
    else
        fputs(", \"path\": null", out);
}

static void write_sensor(const char *key, bool known, double value, FILE *out)
{
    if (known)
        fprintf(out, ", \"%s\": %.15g", key, value);
    else
        fprintf(out, ", \"%s\": null", key);
}

static void write_card(const gt_card *card, FILE *out)
{
    if (!(card->known & GT_CARD_THERE)) {
        fputs(", \"device\": null", out);
        return;
    }
    fputs(", \"device\": {\"name\": ", out);
    gt__json_string(out, card->name);
    write_sensor("utilisation", card->known & GT_CARD_BUSY, card->busy, out);
    write_sensor("celsius", card->known & GT_CARD_CELSIUS, card->celsius, out);
    write_sensor("watts", card->known & GT_CARD_WATTS, card->watts, out);
    write_sensor("memory_used", card->known & GT_CARD_MEMORY, (double)card->used, out);
    write_sensor("memory_total", card->known & GT_CARD_MEMORY, (double)card->memory, out);
    fputc('}', out);
}

void gt__top_write_worker(const gt_top_worker *worker, FILE *out)
{
    fputs("\"name\": ", out);
    gt__json_string(out, worker->name);
    write_text("engine", worker->engine, out);
    write_text("link", worker->link, out);
    write_text("exchange", worker->exchange, out);
    fprintf(out,
            ", \"index\": %.0f, \"idle\": %.4f, \"ops_per_second\": %.1f, \"bytes_per_second\": "
            "%.1f, "
            "\"memory\": %.0f, \"memory_limit\": %.0f, \"tensors\": %.0f, \"queue\": %.0f, \"activity\": {",
            worker->index, worker->idle, worker->ops, worker->bytes, worker->memory, worker->limit,
            worker->tensors, worker->queue);
    const char *separator = "";
    for (int k = 0; k < GT_CATEGORY_COUNT; k++)
        if (worker->share[k] > 0) {
            fprintf(out, "%s\"%s\": %.4f", separator, gt__category_table[k].name, worker->share[k]);
            separator = ", ";
        }
    fputs("}, \"doing\": ", out);
    if (*worker->doing) {
        fputs("{\"op\": ", out);
        gt__json_string(out, worker->doing);
        fprintf(out, ", \"seconds\": %.6f, \"client\": %.0f, \"line\": ", worker->doing_seconds,
                worker->doing_client);
        gt__json_string(out, worker->doing_line);
        write_path(&worker->doing_path, out);
        fputc('}', out);
    } else
        fputs("null", out);
    write_card(&worker->card, out);
}

void gt__top_write_client(const gt_top_client *client, FILE *out)
{
    fprintf(out, "\"number\": %.0f", client->number);
    write_text("name", client->name, out);
    write_text("link", client->link, out);
    write_text("user", client->user, out);
    write_text("worker", client->worker, out);
    write_text("line", client->line, out);
    write_text("scope", client->scope, out);
    write_path(&client->path, out);
    fprintf(out,
            ", \"share\": %.4f, \"tensors\": %.0f, \"bytes\": %.0f, "
            "\"instructions_per_second\": %.1f",
            client->share, client->tensors, client->bytes, client->rate);
}

void gt__top_write_summary(const gt_top *top, FILE *out)
{
    fprintf(out,
            "\"seconds\": %.3f, \"sample_seconds\": %.3f, \"instructions_per_second\": %.1f, \"dispatcher_cpu\": "
            "%.4f",
            top->seconds, top->sample, top->rate, top->cpu);
}

void gt__top_print_json(const gt_top *top, const gt_top_view *view, FILE *out)
{
    fputs("{\"address\": ", out);
    gt__json_string(out, view->address);
    fputs(", ", out);
    gt__top_write_summary(top, out);
    fputs(", \"workers\": [", out);
    for (size_t k = 0; k < top->worker_count; k++) {
        fputs(k ? ", {" : "{", out);
        gt__top_write_worker(&top->workers[k], out);
        fputc('}', out);
    }
    fputs("], \"clients\": [", out);
    for (size_t k = 0; k < top->client_count; k++) {
        fputs(k ? ", {" : "{", out);
        gt__top_write_client(&top->clients[k], out);
        fputc('}', out);
    }
    fputs("]}\n", out);
    fflush(out);
}

void gt__detail_print(const gt_top_detail *detail, FILE *out)
{
    char a[16], b[16], c[16];
    fprintf(out, "client %.0f  %s tensors  %s bytes  %.3f s of device time by line\n\n", detail->number,
            gt__short_number(detail->tensors, false, a), gt__short_number(detail->bytes, true, b),
            detail->seconds);
    fprintf(out, "%10s %6s %8s %8s %8s  %s\n", "SECONDS", "SHARE", "COUNT", "TENSORS", "BYTES", "LINE");
    for (size_t k = 0; k < detail->line_count; k++) {
        const gt_top_line *line = &detail->lines[k];
        fprintf(out, "%10.3f %5.1f%% %8s %8s %8s  %s%s\n", line->seconds,
                detail->seconds > 0 ? 100 * line->seconds / detail->seconds : 0,
                gt__short_number(line->count, false, a), gt__short_number(line->tensors, false, b),
                gt__short_number(line->bytes, true, c), *line->line ? line->line : "?",
                line->path ? " (hot path)" : "");
    }
    fprintf(out, "\n%8s %-10s %-20s %-20s  %s\n", "BYTES", "DTYPE", "SHAPE", "PLACE", "LINE");
    for (size_t k = 0; k < detail->largest_count; k++) {
        const gt_top_tensor *tensor = &detail->largest[k];
        fprintf(out, "%8s %-10s %-20s %-20s  %s%s%s\n", gt__short_number(tensor->bytes, true, a), tensor->dtype,
                tensor->shape, tensor->place, *tensor->line ? tensor->line : "?", *tensor->scope ? "  " : "",
                tensor->scope);
    }
    fflush(out);
}
