/*
 * cli/http/state.c: the JSON that the page shows. See http.h.
 *
 *   sequence, version, seconds, cpu, rate      these statistics, the server
 *   workers[]  as `gt top --json`, and busy_seconds, pooled, paths{}, draining
 *   clients[]  as `gt top --json`, and host, seconds, queued, waiting
 *   ops[]      name, family, per second, share of the workers' time, bytes per second: those that took time
 *   errors[]   as in the dispatcher's statistics
 *
 * Texts in it come from clients: the page must not take them for HTML.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/http/http.h"

enum { MOST_OPS = 40 };

/* Copy a value of the statistics as it is. */
static void write_value(const gt_json *value, FILE *out)
{
    const char *separator = "";
    if (!value || value->kind == GT_JSON_NULL)
        fputs("null", out);
    else if (value->kind == GT_JSON_BOOL)
        fputs(value->number ? "true" : "false", out);
    else if (value->kind == GT_JSON_NUMBER)
        fprintf(out, "%.15g", value->number);
    else if (value->kind == GT_JSON_STRING)
        gt__json_string(out, value->text);
    else {
        fputc(value->kind == GT_JSON_ARRAY ? '[' : '{', out);
        for (const gt_json *member = value->child; member; member = member->next) {
            fputs(separator, out);
            if (member->key) {
                gt__json_string(out, member->key);
                fputs(": ", out);
            }
            write_value(member, out);
            separator = ", ";
        }
        fputc(value->kind == GT_JSON_ARRAY ? ']' : '}', out);
    }
}

/* Members of `from`, those that are there, as `, "key": value`. */
static void copy_members(const gt_json *from, const char *const *keys, FILE *out)
{
    for (; *keys; keys++) {
        const gt_json *value = gt__json_member(from, *keys);
        if (!value)
            continue;
        fprintf(out, ", \"%s\": ", *keys);
        write_value(value, out);
    }
}

static void write_workers(const gt_json *stats, const gt_top *top, FILE *out)
{
    static const char *const more[] = {"sessions", "busy_seconds", "paths", "draining", NULL};
    const gt_json *list = gt__json_member(stats, "workers");
    const char *separator = "";
    for (const gt_json *from = list ? list->child : NULL; from; from = from->next)
        for (size_t k = 0; k < top->worker_count; k++) {
            const gt_top_worker *worker = &top->workers[k];
            if (worker->index != gt__json_number(from, "index"))
                continue;
            fprintf(out, "%s{", separator);
            gt__top_write_worker(worker, out);
            copy_members(from, more, out);
            fprintf(out, ", \"pooled\": %.0f}", gt__json_number(gt__json_member(from, "memory"), "pooled"));
            separator = ", ";
            break;
        }
}

static int by_number(const void *left, const void *right)
{
    double a = ((const gt_top_client *)left)->number, b = ((const gt_top_client *)right)->number;
    return (a > b) - (a < b);
}

static void write_clients(const gt_json *stats, const gt_top *top, FILE *out)
{
    static const char *const more[] = {"host", "seconds", "queued", "waiting", "weight", NULL};
    const gt_json *list = gt__json_member(stats, "clients");
    const char *separator = "";
    if (!top->client_count)
        return;
    for (const gt_json *from = list ? list->child : NULL; from; from = from->next) {
        gt_top_client key = {.number = gt__json_number(from, "number")};
        const gt_top_client *client = bsearch(&key, top->clients, top->client_count, sizeof key, by_number);
        if (!client)
            continue;
        fprintf(out, "%s{", separator);
        gt__top_write_client(client, out);
        copy_members(from, more, out);
        fputc('}', out);
        separator = ", ";
    }
}

static void write_ops(const gt_top *top, FILE *out)
{
    gt_opcode ops[GT_OP_COUNT];
    gt_top_op rates[GT_OP_COUNT];
    size_t count = gt__top_ops(top, ops, rates);
    for (size_t k = 0; k < count && k < MOST_OPS; k++)
        fprintf(out,
                "%s{\"name\": \"%s\", \"family\": \"%s\", \"per_second\": %.1f, \"share\": %.4f, "
                "\"bytes_per_second\": %.1f}",
                k ? ", " : "", gt__op_table[ops[k]].name, gt__category_table[gt__category_of_op(ops[k])].name,
                rates[ops[k]].count, rates[ops[k]].seconds, rates[ops[k]].bytes);
}

void gt__families_write(FILE *out)
{
    fputs("{\"colour\": {", out);
    for (int k = 0; k < GT_CATEGORY_COUNT; k++)
        fprintf(out, "%s\"%s\": \"#%06x\"", k ? ", " : "", gt__category_table[k].name,
                (unsigned)gt__category_table[k].rgb);
    fputs("}, \"family\": {", out);
    for (int op = 1; op < GT_OP_COUNT; op++)
        fprintf(out, "%s\"%s\": \"%s\"", op > 1 ? ", " : "", gt__op_table[op].name,
                gt__category_table[gt__category_of_op((gt_opcode)op)].name);
    fputs("}}\n", out);
}

/* ---- the timeline ------------------------------------------------------------------------------------------- */

static const gt_top_worker *find_worker(const gt_top *top, const gt_json *from)
{
    for (size_t k = 0; k < top->worker_count; k++)
        if (top->workers[k].index == gt__json_number(from, "index") &&
            !strcmp(top->workers[k].name, gt__json_text(from, "name")))
            return &top->workers[k];
    return NULL;
}

/* Times of ops are partly estimated, busy time is not: the shares are scaled to it. */
static void write_shares(const gt_json *from, const gt_top_worker *worker, double busy, FILE *out)
{
    const gt_json *ops = gt__json_member(from, "ops");
    double sum = 0;
    const char *separator = "";
    for (int pass = 0; pass < 2; pass++)
        for (const gt_json *row = ops ? ops->child : NULL; row; row = row->next) {
            gt_opcode op;
            if (!row->key || !gt__op_find(row->key, &op))
                continue;
            double spent = gt__json_number(row, "seconds") - worker->total[op].seconds;
            spent = spent > 0 ? spent : 0;
            if (pass == 0)
                sum += spent;
            else if (spent / sum * busy >= 0.001) {
                fprintf(out, "%s\"%s\": %.3f", separator, row->key, spent / sum * busy);
                separator = ", ";
            }
        }
}

void gt__sample_write(const gt_json *stats, const gt_top *before, uint64_t sequence, FILE *out)
{
    const gt_json *list = gt__json_member(stats, "workers");
    const char *separator = "";
    fprintf(out, "{\"sequence\": %llu, \"seconds\": %.3f, \"workers\": [", (unsigned long long)sequence,
            gt__json_number(stats, "seconds"));
    for (const gt_json *from = list ? list->child : NULL; from; from = from->next) {
        const gt_top_worker *worker = find_worker(before, from);
        double elapsed = worker ? gt__json_number(from, "up_seconds") - worker->up : 0;
        if (elapsed <= 0)
            continue;
        double idle = (gt__json_number(from, "idle_seconds") - worker->idle_seconds) / elapsed;
        double busy = idle > 1 ? 0 : idle < 0 ? 1 : 1 - idle;
        fprintf(out, "%s{\"index\": %.0f, \"name\": ", separator, worker->index);
        gt__json_string(out, worker->name);
        fprintf(out, ", \"span\": %.3f, \"busy\": %.3f, \"queue\": %.0f, \"memory\": %.0f, \"ops\": {", elapsed,
                busy, gt__json_number(from, "queue"), gt__json_number(gt__json_member(from, "memory"), "used"));
        write_shares(from, worker, busy, out);
        fputs("}}", out);
        separator = ", ";
    }
    fputs("]}", out);
}

/* ---- the page ----------------------------------------------------------------------------------------------- */

void gt__state_write(const gt_json *stats, const gt_top *top, uint64_t sequence, FILE *out)
{
    const gt_json *errors = gt__json_member(stats, "errors");
    fprintf(out, "{\"sequence\": %llu, \"version\": \"%s\", ", (unsigned long long)sequence, GT_VERSION);
    gt__top_write_summary(top, out);
    fputs(", \"workers\": [", out);
    write_workers(stats, top, out);
    fputs("], \"clients\": [", out);
    write_clients(stats, top, out);
    fputs("], \"ops\": [", out);
    write_ops(top, out);
    fputs("], \"errors\": ", out);
    if (errors)
        write_value(errors, out);
    else
        fputs("[]", out);
    fputs("}\n", out);
}
