/*
 * cli/http/metrics.c: the statistics in Prometheus' text format, version 0.0.4. See http.h.
 *
 * Counters end in _total and only grow while their worker or client is there; times are in seconds, sizes in bytes. All samples
 * of a name follow its TYPE line, so each name walks the list that it is about.
 */
#include <string.h>

#include "cli/http/http.h"

/* A number of the statistics: its name here, and where it is there. "memory/used": a member of a member. */
typedef struct metric {
    const char *name, *member, *help;
    bool counter;
} metric;

#define GAUGE(called, from, text)                                                                                 \
    {                                                                                                             \
        .name = called, .member = from, .help = text                                                              \
    }
#define COUNTER(called, from, text)                                                                               \
    {                                                                                                             \
        .name = called, .member = from, .help = text, .counter = true                                             \
    }

static const metric server_metrics[] = {
    GAUGE("gt_server_uptime_seconds", "seconds", "Time since the dispatcher started."),
    COUNTER("gt_server_cpu_seconds_total", "cpu_seconds", "Processor time of the dispatcher's thread."),
    COUNTER("gt_server_instructions_total", "instructions", "Instructions received from clients."),
    COUNTER("gt_server_turns_total", "turns", "Turns of the dispatcher's loop."),
    COUNTER("gt_server_sleeps_total", "sleeps", "Times that the dispatcher's loop slept."),
    COUNTER("gt_server_recoveries_total", "recoveries", "Clients that went on after a worker was lost."),
    COUNTER("gt_server_snapshots_total", "snapshots", "Snapshots of clients' tensors."),
    {0},
};

static const metric worker_metrics[] = {
    GAUGE("gt_worker_up_seconds", "up_seconds", "Time since the worker joined."),
    COUNTER("gt_worker_busy_seconds_total", "busy_seconds", "Time in which the worker executed."),
    COUNTER("gt_worker_idle_seconds_total", "idle_seconds", "Time in which the worker waited for instructions."),
    COUNTER("gt_worker_instructions_total", "total_instructions", "Instructions that the worker executed."),
    COUNTER("gt_worker_result_bytes_total", "bytes", "Bytes of the results of its instructions."),
    GAUGE("gt_worker_queue_instructions", "queue",
          "Instructions for the worker that are not executed yet; a run of a hot path is one."),
    COUNTER("gt_worker_link_sent_bytes_total", "traffic/sent_bytes",
            "Bytes that the dispatcher sent over the worker's link. Bulk data in shared memory is not counted."),
    COUNTER("gt_worker_link_received_bytes_total", "traffic/received_bytes",
            "Bytes that the dispatcher received over the worker's link."),
    COUNTER("gt_worker_link_sent_records_total", "traffic/sent_records", "Records sent over the worker's link."),
    COUNTER("gt_worker_link_received_records_total", "traffic/received_records",
            "Records received over the worker's link."),
    GAUGE("gt_worker_sessions", "sessions", "Clients whose tensors live on the worker."),
    GAUGE("gt_worker_tensors", "memory/tensors", "Tensors on the worker."),
    GAUGE("gt_worker_memory_used_bytes", "memory/used", "Memory of tensors."),
    GAUGE("gt_worker_memory_pooled_bytes", "memory/pooled", "Memory that is kept for later tensors."),
    GAUGE("gt_worker_memory_limit_bytes", "memory/limit", "Memory that the worker may use."),
    COUNTER("gt_worker_moves_total", "moves", "Tensors, or parts of them, that came from other workers."),
    COUNTER("gt_worker_collectives_total", "collectives", "Collective operations that the worker took part in."),
    COUNTER("gt_worker_gathers_total", "gathers",
            "Operations without a sharding rule, for which tensors were gathered."),
    COUNTER("gt_worker_moved_bytes_total", "bytes_moved",
            "Bytes that moves and collectives brought to the worker."),
    COUNTER("gt_worker_hot_path_runs_total", "paths/runs", "Runs of hot paths."),
    COUNTER("gt_worker_hot_path_fallbacks_total", "paths/fallbacks",
            "Runs of hot paths, instruction by instruction."),
    COUNTER("gt_worker_hot_path_compiled_total", "paths/compiled", "Hot paths that the engine compiled."),
    COUNTER("gt_worker_hot_path_compile_seconds_total", "paths/compile_seconds", "Time to compile hot paths."),
    GAUGE("gt_worker_device_utilisation_ratio", "device/utilisation",
          "Share of the time in which a kernel ran on the worker's graphics card."),
    GAUGE("gt_worker_device_temperature_celsius", "device/celsius", "Temperature of the worker's graphics card."),
    GAUGE("gt_worker_device_power_watts", "device/watts", "Power that the worker's graphics card draws."),
    GAUGE("gt_worker_device_memory_used_bytes", "device/memory_used",
          "Memory of the worker's graphics card that is in use, by all processes."),
    GAUGE("gt_worker_device_memory_total_bytes", "device/memory_total", "Memory of the worker's graphics card."),
    GAUGE("gt_worker_draining", "draining", "1: the worker gets no new clients."),
    {0},
};

static const metric client_metrics[] = {
    COUNTER("gt_client_instructions_total", "instructions", "Instructions received from the client."),
    COUNTER("gt_client_device_seconds_total", "seconds", "Time of workers that the client used."),
    GAUGE("gt_client_queued_instructions", "queued",
          "Its instructions that the dispatcher has taken and that are not executed yet."),
    GAUGE("gt_client_waiting_instructions", "waiting", "Its instructions that the dispatcher has not taken yet."),
    COUNTER("gt_client_link_sent_bytes_total", "traffic/sent_bytes",
            "Bytes that the dispatcher sent over the client's link. Bulk data in shared memory is not counted."),
    COUNTER("gt_client_link_received_bytes_total", "traffic/received_bytes",
            "Bytes that the dispatcher received over the client's link."),
    COUNTER("gt_client_link_sent_records_total", "traffic/sent_records", "Records sent over the client's link."),
    COUNTER("gt_client_link_received_records_total", "traffic/received_records",
            "Records received over the client's link."),
    GAUGE("gt_client_tensors", "tensors", "Tensors of the client."),
    GAUGE("gt_client_memory_bytes", "bytes", "Bytes of its tensors."),
    {0},
};

static const metric link_metrics[] = {
    COUNTER("gt_link_sent_bytes_total", "sent_bytes",
            "Bytes that the dispatcher sent to clients and workers, by transport, also to those that have left."),
    COUNTER("gt_link_received_bytes_total", "received_bytes", "Bytes that it received from them."),
    COUNTER("gt_link_sent_records_total", "sent_records", "Records that it sent to them."),
    COUNTER("gt_link_received_records_total", "received_records", "Records that it received from them."),
    {0},
};

/* ---- writing ------------------------------------------------------------------------------------------------ */

static void write_head(const char *name, const char *help, bool counter, FILE *out)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, counter ? "counter" : "gauge");
}

static void write_label(const char *name, const char *value, const char *separator, FILE *out)
{
    fprintf(out, "%s%s=\"", separator, name);
    for (; *value; value++)
        if (*value == '\n')
            fputs("\\n", out);
        else {
            if (*value == '"' || *value == '\\')
                fputc('\\', out);
            fputc(*value, out);
        }
    fputc('"', out);
}

static const gt_json *find(const gt_json *object, const char *path)
{
    const char *slash = strchr(path, '/');
    char outer[16];
    if (!slash)
        return gt__json_member(object, path);
    snprintf(outer, sizeof outer, "%.*s", (int)(slash - path), path);
    return gt__json_member(gt__json_member(object, outer), slash + 1);
}

static const gt_json *first_of(const gt_json *stats, const char *list)
{
    const gt_json *members = gt__json_member(stats, list);
    return members ? members->child : NULL;
}

static void write_labels(const gt_json *item, bool client, FILE *out)
{
    if (client) {
        fprintf(out, "{client=\"%.0f\"", gt__json_number(item, "number"));
        write_label("program", gt__json_text(item, "name"), ",", out);
        write_label("user", gt__json_text(item, "user"), ",", out);
    } else {
        write_label("worker", gt__json_text(item, "name"), "{", out);
        fprintf(out, ",index=\"%.0f\"", gt__json_number(item, "index")); /* names need not be unique */
    }
}

/* Each metric with a sample of each member of the list. */
static void write_list(const gt_json *stats, const char *list, const metric *metrics, bool client, FILE *out)
{
    for (; metrics->name; metrics++) {
        bool begun = false;
        for (const gt_json *item = first_of(stats, list); item; item = item->next) {
            const gt_json *value = find(item, metrics->member);
            if (!value || value->kind == GT_JSON_NULL)
                continue;
            if (!begun)
                write_head(metrics->name, metrics->help, metrics->counter, out);
            begun = true;
            fputs(metrics->name, out);
            write_labels(item, client, out);
            fprintf(out, "} %.15g\n", value->number);
        }
    }
}

/* ---- families of ops ---------------------------------------------------------------------------------------- */

typedef struct family_sums {
    double count, seconds, bytes;
} family_sums;

static void sum_families(const gt_json *worker, family_sums sums[GT_CATEGORY_COUNT])
{
    memset(sums, 0, GT_CATEGORY_COUNT * sizeof *sums);
    const gt_json *ops = gt__json_member(worker, "ops");
    for (const gt_json *row = ops ? ops->child : NULL; row; row = row->next) {
        gt_opcode op;
        if (!row->key || !gt__op_find(row->key, &op))
            continue;
        family_sums *sum = &sums[gt__category_of_op(op)];
        sum->count += gt__json_number(row, "count");
        sum->seconds += gt__json_number(row, "seconds");
        sum->bytes += gt__json_number(row, "bytes");
    }
}

static void write_family(const gt_json *stats, const char *name, const char *help, size_t member, FILE *out)
{
    family_sums sums[GT_CATEGORY_COUNT];
    write_head(name, help, true, out);
    for (const gt_json *worker = first_of(stats, "workers"); worker; worker = worker->next) {
        sum_families(worker, sums);
        for (int k = 0; k < GT_CATEGORY_COUNT; k++) {
            double value;
            memcpy(&value, (const char *)&sums[k] + member, sizeof value);
            if (!sums[k].count)
                continue;
            fputs(name, out);
            write_labels(worker, false, out);
            write_label("family", gt__category_table[k].name, ",", out);
            fprintf(out, "} %.15g\n", value);
        }
    }
}

/* ---- links -------------------------------------------------------------------------------------------------- */

static void write_links(const gt_json *stats, FILE *out)
{
    static const char *const links[] = {"memory", "ipc", "tcp"};
    static const char *const lists[] = {"clients", "workers"}, *const roles[] = {"client", "worker"};
    write_head("gt_link_peers", "Clients and workers that are connected, by transport.", false, out);
    for (size_t role = 0; role < 2; role++)
        for (size_t link = 0; link < sizeof links / sizeof links[0]; link++) {
            unsigned count = 0;
            for (const gt_json *item = first_of(stats, lists[role]); item; item = item->next)
                count += !strcmp(gt__json_text(item, "link"), links[link]);
            fprintf(out, "gt_link_peers{link=\"%s\",role=\"%s\"} %u\n", links[link], roles[role], count);
        }
    for (const metric *row = link_metrics; row->name; row++) {
        write_head(row->name, row->help, row->counter, out);
        for (const gt_json *sums = first_of(stats, "links"); sums; sums = sums->next)
            fprintf(out, "%s{link=\"%s\",role=\"%s\"} %.15g\n", row->name, gt__json_text(sums, "link"),
                    gt__json_text(sums, "role"), gt__json_number(sums, row->member));
    }
    write_head("gt_worker_info", "1: the worker is there; its engine and its link.", false, out);
    for (const gt_json *worker = first_of(stats, "workers"); worker; worker = worker->next) {
        fputs("gt_worker_info", out);
        write_labels(worker, false, out);
        write_label("engine", gt__json_text(worker, "engine"), ",", out);
        write_label("link", gt__json_text(worker, "link"), ",", out);
        fputs("} 1\n", out);
    }
}

void gt__metrics_write(const gt_json *stats, FILE *out)
{
    for (const metric *row = server_metrics; row->name; row++) {
        write_head(row->name, row->help, row->counter, out);
        fprintf(out, "%s %.15g\n", row->name, gt__json_number(stats, row->member));
    }
    write_links(stats, out);
    write_list(stats, "workers", worker_metrics, false, out);
    write_family(stats, "gt_op_executions_total", "Instructions that a worker executed, by family of operations.",
                 offsetof(family_sums, count), out);
    write_family(stats, "gt_op_seconds_total", "Time of a worker, by family of operations.",
                 offsetof(family_sums, seconds), out);
    write_family(stats, "gt_op_result_bytes_total", "Bytes of results, by family of operations.",
                 offsetof(family_sums, bytes), out);
    write_list(stats, "clients", client_metrics, true, out);
}
