/*
 * up.c: `gt up` and `gt down`: a server and its workers on the hosts of a file. Place in the flow: hosts.c reads the file, keys.c has the
 * keys, script.c writes what each host does, remote.c runs it; here is their order.
 *
 * Everything that is known of the parts comes from what the hosts say: nothing is kept here between two calls but keys.
 */
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/array.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/up/keys.h"
#include "cli/up/remote.h"
#include "cli/up/script.h"
#include "link/link.h"

enum {
    ANSWER_MS = 60000, /* for one script on one host */
    LOOK_MS = 200,     /* between two looks for workers that have not joined */
};

typedef struct up {
    const char *command; /* for errors */
    gt_cluster cluster;
    int port;             /* of the server; 0: not known */
    unsigned troubles;    /* errors that were printed */
    const char *top_said; /* why the server did not tell its workers; NULL: it did */
    char top_text[256];
} up;

/* Write what a host has to do; false: nothing. */
typedef bool (*write_script)(FILE *out, up *u, gt_up_host *host);

static void trouble(up *u, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void trouble(up *u, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", u->command);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    u->troubles++;
}

/* ---- what hosts say ----------------------------------------------------------------------------------------- */

static gt_up_part *part_of(up *u, const char *name)
{
    for (size_t k = 0; k < u->cluster.part_count; k++)
        if (!strcmp(u->cluster.parts[k].name, name))
            return &u->cluster.parts[k];
    return NULL;
}

static void take_top(up *u, const char *text)
{
    gt_json *top = gt__json_parse(text);
    const gt_json *workers = gt__json_member(top, "workers");
    u->top_said = NULL;
    if (!workers) {
        snprintf(u->top_text, sizeof u->top_text, "%s", text);
        u->top_said = u->top_text;
    }
    for (const gt_json *worker = workers ? workers->child : NULL; worker; worker = worker->next) {
        gt_up_part *part = part_of(u, gt__json_text(worker, "name"));
        if (part) {
            part->joined = true;
            snprintf(part->engine, sizeof part->engine, "%s", gt__json_text(worker, "engine"));
        }
    }
    gt__json_free(top);
}

/* A line about a part: its name and the rest. */
static void take_part(up *u, const gt_up_host *host, const char *what, char *rest)
{
    char *name = strtok_r(rest, " ", &rest);
    gt_up_part *part = name ? part_of(u, name) : NULL;
    if (!strcmp(what, "stopped"))
        printf("%-10s %-20s stopped\n", name ? name : "", host->name);
    if (!part)
        return;
    part->runs = !strcmp(what, "runs") || !strcmp(what, "started") || (part->runs && !strcmp(what, "says"));
    part->ended = !strcmp(what, "ended");
    if (!strcmp(what, "started"))
        part->started_now = true;
    if (!strcmp(what, "runs") || !strcmp(what, "started"))
        snprintf(part->pid, sizeof part->pid, "%s", rest);
    else
        snprintf(part->trouble, sizeof part->trouble, "%s", strcmp(what, "absent") ? rest : "");
}

static void take_line(up *u, const gt_up_host *host, char *line)
{
    char *rest = line, *what = strtok_r(rest, " ", &rest);
    if (!what)
        return;
    if (!strcmp(what, "error"))
        trouble(u, "%s: %s", host->name, rest);
    else if (!strcmp(what, "port"))
        u->port = atoi(rest);
    else if (!strcmp(what, "top"))
        take_top(u, rest);
    else if (strchr("rsea", *what)) /* runs, says, started, stopped, ended, absent; a login may print others */
        take_part(u, host, what, rest);
}

/* The last line of a text that is not empty. */
static const char *last_line(char *text)
{
    char *last = text;
    for (char *rest = text, *line; (line = strtok_r(rest, "\r\n", &rest));)
        last = line;
    return last;
}

static void take_answer(up *u, gt_remote *remote)
{
    const char *host = remote->host->name;
    if (remote->late) { /* what it has said until then counts: parts that it has started are to be ended */
        trouble(u, "%s: no answer within %d s", host, ANSWER_MS / 1000);
        char *end = strrchr(remote->output, '\n');
        remote->output[end ? end + 1 - remote->output : 0] = 0;
    } else if (remote->status == 255 && !remote->host->local) {
        trouble(u, "%s cannot be reached: %s", host, last_line(remote->errors));
        return;
    }
    if (remote->status && !remote->late)
        trouble(u, "%s: the shell ended with %d: %s", host, remote->status, last_line(remote->errors));
    for (char *rest = remote->output, *line; (line = strtok_r(rest, "\n", &rest));)
        take_line(u, remote->host, line);
}

/* Let all hosts run their scripts at the same time. False: one of them failed, which has been printed. */
static bool on_hosts(up *u, write_script write)
{
    gt_cluster *cluster = &u->cluster;
    gt_remote *remotes = gt__zeroed(cluster->host_count, sizeof *remotes);
    size_t count = 0;
    unsigned before = u->troubles;
    for (size_t k = 0; k < cluster->host_count; k++) {
        gt_remote *remote = &remotes[count];
        FILE *out = open_memstream(&remote->script, &remote->length);
        if (!out)
            gt__out_of_memory();
        remote->host = &cluster->hosts[k];
        bool used = write(out, u, &cluster->hosts[k]);
        fclose(out);
        if (used)
            count++;
        else
            gt__remote_free(remote);
    }
    if (gt__remote_run(cluster, remotes, count, ANSWER_MS) != GT_OK)
        trouble(u, "%s", gt_error_text());
    for (size_t k = 0; k < count; k++) {
        if (remotes[k].output)
            take_answer(u, &remotes[k]);
        gt__remote_free(&remotes[k]);
    }
    free(remotes);
    return u->troubles == before;
}

/* ---- what they do ------------------------------------------------------------------------------------------- */

/* A local file becomes one of the host. False: it cannot be read, which is printed. */
static bool send_file(FILE *out, up *u, const char *path, const char *name)
{
    char *text;
    if (gt__up_read_file(path, &text) != GT_OK) {
        trouble(u, "%s", gt_error_text());
        return false;
    }
    gt__script_file(out, name, text);
    explicit_bzero(text, strlen(text));
    free(text);
    return true;
}

static bool start_server(FILE *out, up *u, gt_up_host *host)
{
    const gt_cluster *cluster = &u->cluster;
    char path[GT_UP_PATH], *allowed;
    if (host != cluster->parts[0].host)
        return false;
    gt__script_begin(out, cluster, host, true);
    if (cluster->server.config && !send_file(out, u, cluster->server.config, "config.yaml"))
        return false;
    if (cluster->secure) {
        gt__up_key_path(cluster, NULL, "server.key", path);
        if (!send_file(out, u, path, "server.key"))
            return false;
        if (gt__up_allowed(cluster, &allowed) != GT_OK) {
            trouble(u, "%s", gt_error_text());
            return false;
        }
        gt__script_file(out, "allowed", allowed);
        free(allowed);
    }
    gt__script_start(out, cluster, &cluster->parts[0], 0);
    gt__script_await_server(out);
    return true;
}

static bool start_workers(FILE *out, up *u, gt_up_host *host)
{
    const gt_cluster *cluster = &u->cluster;
    char path[GT_UP_PATH];
    if (!host->workers)
        return false;
    gt__script_begin(out, cluster, host, true);
    if (host != cluster->parts[0].host) {
        gt__up_key_path(cluster, host, NULL, path);
        if (!send_file(out, u, path, "worker.key"))
            return false;
    }
    for (size_t k = 1; k < cluster->part_count; k++)
        if (cluster->parts[k].host == host)
            gt__script_start(out, cluster, &cluster->parts[k], u->port);
    return true;
}

static bool report(FILE *out, up *u, gt_up_host *host)
{
    gt__script_begin(out, &u->cluster, host, false);
    for (size_t k = 0; k < u->cluster.part_count; k++)
        if (u->cluster.parts[k].host == host)
            gt__script_report(out, &u->cluster, &u->cluster.parts[k]);
    return true;
}

static bool stop_workers(FILE *out, up *u, gt_up_host *host)
{
    gt__script_begin(out, &u->cluster, host, false);
    gt__script_stop(out, NULL, false);
    return true;
}

static bool stop_server(FILE *out, up *u, gt_up_host *host)
{
    if (host != u->cluster.parts[0].host)
        return false;
    gt__script_begin(out, &u->cluster, host, false);
    gt__script_stop(out, NULL, true);
    return true;
}

/* End what this call has started, workers before the server. */
static bool undo(FILE *out, up *u, gt_up_host *host)
{
    bool any = false;
    gt__script_begin(out, &u->cluster, host, false);
    for (size_t k = u->cluster.part_count; k-- > 0;) {
        const gt_up_part *part = &u->cluster.parts[k];
        if (part->host == host && part->started_now) {
            gt__script_stop(out, part, false);
            any = true;
        }
    }
    return any;
}

/* ---- the commands ------------------------------------------------------------------------------------------- */

/* Ask all hosts how their parts are. */
static bool look(up *u)
{
    for (size_t k = 0; k < u->cluster.part_count; k++)
        u->cluster.parts[k].runs = u->cluster.parts[k].joined = false;
    u->top_said = NULL;
    return on_hosts(u, report);
}

static bool part_well(const gt_up_part *part)
{
    return part->runs && (part->index < 0 || part->joined);
}

static void print_parts(const up *u)
{
    const gt_cluster *cluster = &u->cluster;
    for (size_t k = 0; k < cluster->part_count; k++) {
        const gt_up_part *part = &cluster->parts[k];
        const char *said = part->trouble, *gap = *said ? ": " : "";
        printf("%-10s %-20s ", part->name, part->host->name);
        if (!part->runs)
            printf("%s%s%s\n", part->ended ? "ended" : "not running", gap, said);
        else if (part->index < 0)
            printf("pid %-8s listens at %s:%d\n", part->pid, cluster->server.bind, u->port);
        else if (part->joined)
            printf("pid %-8s joined (%s)\n", part->pid, part->engine);
        else
            printf("pid %-8s not joined%s%s\n", part->pid, gap, said);
    }
}

/* The line that programs need. */
static void print_connect(const up *u)
{
    char path[GT_UP_PATH], whole[PATH_MAX];
    printf("gt.connect(\"%s:%d\"", u->cluster.server.address, u->port);
    gt__up_key_path(&u->cluster, NULL, "client.key", path);
    if (u->cluster.secure)
        printf(", key_file=\"%s\"", realpath(path, whole) ? whole : path);
    printf(")\n");
}

/* Wait until all workers have joined. False: one cannot, which is printed. */
static bool await_workers(up *u, double timeout)
{
    uint64_t deadline = gt__deadline_ns((int)(timeout * 1000));
    const gt_up_part *missing;
    do {
        if (!look(u))
            return false;
        missing = NULL;
        for (size_t k = 0; k < u->cluster.part_count; k++) {
            const gt_up_part *part = &u->cluster.parts[k];
            if (!part->runs) {
                trouble(u, "%s: %s ended: %s", part->host->name, part->name,
                        *part->trouble ? part->trouble : "its log is empty");
                return false;
            }
            if (!part_well(part) && !missing)
                missing = part;
        }
        if (missing)
            poll(NULL, 0, LOOK_MS);
    } while (missing && gt__remaining_ms(deadline) > 0);
    if (missing && u->top_said)
        trouble(u, "%s: the server does not answer: %s", u->cluster.server.host, u->top_said);
    else if (missing)
        trouble(u, "%s: %s has not joined within %g s%s%s", missing->host->name, missing->name, timeout,
                *missing->trouble ? ": " : "", missing->trouble);
    return !missing;
}

static bool start(up *u, double timeout)
{
    gt_up_part *server = &u->cluster.parts[0];
    if (u->cluster.secure && gt__up_keys(&u->cluster) != GT_OK) {
        trouble(u, "%s", gt_error_text());
        return false;
    }
    if (!on_hosts(u, start_server))
        return false;
    if (!server->runs || !u->port) {
        server->started_now = false;
        trouble(u, "%s: the server ended: %s", server->host->name,
                *server->trouble ? server->trouble : "its log is empty");
        return false;
    }
    return on_hosts(u, start_workers) && await_workers(u, timeout);
}

static int run_up(up *u, double timeout)
{
    if (!start(u, timeout)) {
        on_hosts(u, undo);
        return 1;
    }
    print_parts(u);
    print_connect(u);
    return 0;
}

static int run_status(up *u)
{
    bool well = look(u);
    for (size_t k = 0; k < u->cluster.part_count; k++)
        well = part_well(&u->cluster.parts[k]) && well;
    print_parts(u);
    if (u->top_said)
        trouble(u, "%s: the server does not answer: %s", u->cluster.server.host, u->top_said);
    if (u->cluster.parts[0].runs)
        print_connect(u);
    return well ? 0 : 1;
}

static int run_down(up *u)
{
    bool well = on_hosts(u, stop_workers);
    return on_hosts(u, stop_server) && well ? 0 : 1;
}

typedef enum action { UP, STATUS, DOWN } action;

static int run(const char *command, const char *path, action chosen, double timeout)
{
    up u = {.command = command};
    int status = 1;
    if (gt__cluster_read(path, &u.cluster) != GT_OK)
        trouble(&u, "%s", gt_error_text());
    else
        status = chosen == UP ? run_up(&u, timeout) : chosen == STATUS ? run_status(&u) : run_down(&u);
    gt__cluster_free(&u.cluster);
    return status;
}

int gt__command_up(int argc, char **argv)
{
    bool status_only = false;
    double timeout = 60;
    char **operands;
    int operand_count;
    const gt_option options[] = {
        {.name = "status", .target = &status_only, .help = "start nothing; say which parts run and have joined"},
        {.name = "timeout",
         .kind = GT_OPTION_NUMBER,
         .target = &timeout,
         .least = 0.001,
         .most = 1e6,
         .value = "S",
         .help = "seconds in which all workers must have joined (default %)"},
        {0},
    };
    const gt_usage usage = {
        .command = "gt up",
        .line = "HOSTS.yaml [--status]",
        .about = "Starts a server and its workers on the hosts of a file, by ssh, and prints how programs "
                 "connect. Parts that "
                 "run already are left alone.\n",
        .after = "`gt down HOSTS.yaml` ends them. docs/cluster.md has the keys of the file.\n",
        .options = options,
        .operands = &operands,
        .operand_count = &operand_count,
    };
    int status = gt__options_parse(&usage, argc, argv);
    if (status >= 0)
        return status;
    if (operand_count != 1)
        return gt__options_wrong(&usage, "one file of hosts is needed");
    return run(usage.command, operands[0], status_only ? STATUS : UP, timeout);
}

int gt__command_down(int argc, char **argv)
{
    char **operands;
    int operand_count;
    const gt_option options[] = {{0}};
    const gt_usage usage = {
        .command = "gt down",
        .line = "HOSTS.yaml",
        .about = "Ends the server and the workers that `gt up HOSTS.yaml` has started, and removes the keys from "
                 "their hosts.\n",
        .options = options,
        .operands = &operands,
        .operand_count = &operand_count,
    };
    int status = gt__options_parse(&usage, argc, argv);
    if (status >= 0)
        return status;
    if (operand_count != 1)
        return gt__options_wrong(&usage, "one file of hosts is needed");
    return run(usage.command, operands[0], DOWN, 0);
}
