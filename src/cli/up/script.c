/* script.c: see script.h. Used by up.c. */
#include "cli/up/script.h"

#include <string.h>

#define FILE_END "END-OF-A-FILE-OF-GT"

/* Fields 3 and 22 of /proc/PID/stat: the state, and the time of the start in ticks since the host's. Nothing is reaped in containers
 * without an init, so a zombie counts as ended. */
static const char functions[] =
    "umask 077\n"
    "fail() { echo \"error $*\"; exit 0; }\n"
    "born() {\n"
    "    set -- $(sed 's/.*) //' \"/proc/$1/stat\" 2>/dev/null)\n"
    "    [ \"${1:-Z}\" = Z ] || echo \"${20}\"\n"
    "}\n"
    "lives() {\n"
    "    pid= start=\n"
    "    [ -r \"$1.pid\" ] && read -r pid start <\"$1.pid\" && [ -n \"$start\" ] && [ \"$(born \"$pid\")\" = "
    "\"$start\" ]\n"
    "}\n"
    "last_line() { tail -n 1 \"$1.log\" 2>/dev/null | tr -d '\\r'; }\n"
    "report() {\n"
    "    if lives \"$1\"; then echo \"runs $1 $pid\"; echo \"says $1 $(last_line \"$1\")\"\n"
    "    elif [ -e \"$1.pid\" ]; then echo \"ended $1 $(last_line \"$1\")\"\n"
    "    else echo \"absent $1\"; fi\n"
    "}\n"
    "launch() {\n"
    "    part=$1; shift\n"
    "    if [ -e \"$part.log\" ]; then mv -f \"$part.log\" \"$part.log.1\"; fi\n"
    "    setsid \"$@\" </dev/null >\"$part.log\" 2>&1 &\n"
    "    echo \"$! $(born $!)\" >\"$part.pid\"\n"
    "    echo \"started $part $!\"\n"
    "}\n"
    "share_cores() {\n"
    "    if [ -n \"${GT_NUM_THREADS:-}${OPENBLAS_NUM_THREADS:-}${OMP_NUM_THREADS:-}\" ]; then return; fi\n"
    "    cores=$(nproc 2>/dev/null || echo 1)\n"
    "    export GT_NUM_THREADS=$((cores > $1 ? cores / $1 : 1))\n"
    "}\n"
    "take_card() {\n"
    "    if [ -n \"${GT_CUDA_DEVICE:-}${CUDA_VISIBLE_DEVICES:-}\" ]; then return; fi\n"
    "    cards=$(ls /proc/driver/nvidia/gpus 2>/dev/null | wc -l)\n"
    "    if [ \"$cards\" -gt 1 ]; then export GT_CUDA_DEVICE=$(($1 % cards)); fi\n"
    "}\n"
    "pause() { sleep 0.1 2>/dev/null || sleep 1; }\n"
    "stop() {\n"
    "    for part in \"$@\"; do\n"
    "        if lives \"$part\"; then kill \"$pid\" 2>/dev/null\n"
    "        else echo \"ended $part $(last_line \"$part\")\"; rm -f \"$part.pid\"; fi\n"
    "    done\n"
    "    for part in \"$@\"; do\n"
    "        if [ ! -e \"$part.pid\" ]; then continue; fi\n"
    "        tries=0\n"
    "        while lives \"$part\"; do\n"
    "            tries=$((tries + 1))\n"
    "            if [ $tries -gt 100 ]; then kill -9 \"$pid\" 2>/dev/null; fi\n"
    "            if [ $tries -gt 200 ]; then fail \"$part (process $pid) does not end\"; fi\n"
    "            pause\n"
    "        done\n"
    "        echo \"stopped $part $pid\"\n"
    "        rm -f \"$part.pid\" \"$part.port\"\n"
    "    done\n"
    "}\n";

/* One word of a shell's line. */
static void quoted(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);
    fputc('\'', out);
}

/* The same of a path: ~/ is the user's home there. */
static void quoted_path(FILE *out, const char *path)
{
    if (!strncmp(path, "~/", 2)) {
        fputs("\"$HOME\"/", out);
        path += 2;
    }
    quoted(out, path);
}

void gt__script_begin(FILE *out, const gt_cluster *cluster, const gt_up_host *host, bool make)
{
    fputs(functions, out);
    fputs("cd 2>/dev/null || fail 'this user has no home folder'\nhome=$PWD\nfolder=", out);
    quoted_path(out, cluster->directory);
    fputc('/', out);
    quoted(out, cluster->name);
    fputc('/', out);
    quoted(out, host->folder);
    fputc('\n', out);
    fputs(make ? "{ mkdir -p \"$folder\" && chmod 700 \"$folder\" && cd \"$folder\"; } 2>/dev/null || fail "
                 "\"cannot make "
                 "the folder $folder\"\n"
               : "cd \"$folder\" 2>/dev/null || exit 0\n",
          out);
}

void gt__script_file(FILE *out, const char *name, const char *text)
{
    if (strstr(text, FILE_END)) { /* the shell would take what is behind it for commands */
        fprintf(out, "fail '%s cannot be sent: it has the words %s'\n", name, FILE_END);
        return;
    }
    fprintf(out, "cat >%s.new <<'" FILE_END "' && mv -f %s.new %s || fail 'cannot write %s'\n%s%s", name, name,
            name, name, text, *text && text[strlen(text) - 1] != '\n' ? "\n" : "");
    fputs(FILE_END "\n", out);
}

/* In a subshell: $gt is the program. Relative paths begin at the home folder. */
static void find_program(FILE *out, const gt_cluster *cluster, const gt_up_entry *entry)
{
    fputs("    gt=", out);
    quoted_path(out, entry->gt ? entry->gt : cluster->gt);
    fputs("\n    case $gt in /*) ;; */*) gt=$home/$gt ;; esac\n", out);
}

static void export_variables(FILE *out, const gt_variables *variables)
{
    for (size_t k = 0; k < variables->count; k++) {
        fprintf(out, "    export %s=", variables->items[k].name);
        quoted(out, variables->items[k].value);
        fputc('\n', out);
    }
}

/*
 * A login's XDG_RUNTIME_DIR is removed when the user's last session ends, and with it the sockets: over ssh, the parts use the folder
 * in /tmp.
 */
static void set_environment(FILE *out, const gt_cluster *cluster, const gt_up_part *part)
{
    if (!part->host->local)
        fputs("    unset XDG_RUNTIME_DIR\n", out);
    fputs("    unset GT_KEY_FILE\n", out);
    export_variables(out, &cluster->environment);
    export_variables(out, &part->entry->environment);
}

static void option(FILE *out, const char *name, const char *value)
{
    fprintf(out, " --%s ", name);
    quoted(out, value);
}

static void server_arguments(FILE *out, const gt_cluster *cluster)
{
    const gt_up_entry *server = &cluster->server;
    fprintf(out, " server --quiet --port %d --port-file server.port", server->port);
    option(out, "host", server->bind);
    if (server->config)
        fputs(" --config config.yaml", out);
    if (cluster->secure)
        fputs(" --key-file server.key --allow-keys allowed", out);
}

/* Workers of the server's host need no keys, and no port: of two workers on different hosts one must listen, and those of other hosts do. */
static void worker_arguments(FILE *out, const gt_cluster *cluster, const gt_up_part *part, int port)
{
    const gt_up_entry *entry = part->entry;
    bool beside = part->host == cluster->parts[0].host;
    fprintf(out, " worker --wait --port %d --name %s --index %d", port, part->name, part->index);
    option(out, "host", beside ? "localhost" : cluster->server.address);
    if (!beside)
        fputs(" --key-file worker.key", out);
    if (entry->backend)
        option(out, "backend", entry->backend);
    if (entry->threads)
        fprintf(out, " --threads %d", entry->threads);
    const char *listen = entry->listen ? entry->listen : beside ? "none" : "auto";
    if (strcmp(listen, "none") != 0)
        option(out, "listen", listen);
}

void gt__script_start(FILE *out, const gt_cluster *cluster, const gt_up_part *part, int port)
{
    const gt_up_entry *entry = part->entry;
    fprintf(out, "if lives %s; then echo \"runs %s $pid\"; else (\n", part->name, part->name);
    find_program(out, cluster, entry);
    fputs("    command -v \"$gt\" >/dev/null || fail \"there is no program $gt; set gt: in the file of hosts\"\n"
          "    said=$(\"$gt\" version 2>&1) || fail \"$gt does not run: $(echo \"$said\" | tail -n 1)\"\n",
          out);
    set_environment(out, cluster, part);
    if (part->index < 0)
        fputs("    rm -f server.port\n", out);
    if (part->index >= 0 && !entry->threads && part->host->workers > 1)
        fprintf(out, "    share_cores %u\n", part->host->workers);
    if (part->index >= 0 && (!entry->backend || !strcmp(entry->backend, "cuda")))
        fprintf(out, "    take_card %u\n", part->nth);
    fprintf(out, "    launch %s \"$gt\"", part->name);
    if (part->index < 0)
        server_arguments(out, cluster);
    else
        worker_arguments(out, cluster, part, port);
    for (size_t k = 0; k < entry->options.count; k++) {
        fputc(' ', out);
        quoted(out, entry->options.items[k]);
    }
    fputs("\n) fi\n", out);
}

void gt__script_await_server(FILE *out)
{
    fputs("while lives server && [ ! -s server.port ]; do pause; done\n"
          "if lives server; then echo \"port $(cat server.port)\"; else echo \"ended server $(last_line "
          "server)\"; fi\n",
          out);
}

void gt__script_report(FILE *out, const gt_cluster *cluster, const gt_up_part *part)
{
    fprintf(out, "report %s\n", part->name);
    if (part->index >= 0)
        return;
    fputs("if lives server && [ -s server.port ]; then (\n    echo \"port $(cat server.port)\"\n", out);
    find_program(out, cluster, part->entry);
    set_environment(out, cluster, part);
    fputs("    echo \"top $(GT_CONNECT_TIMEOUT=5 \"$gt\" top --once --json -i 0.1 -p \"$(cat server.port)\" "
          "2>&1)\"\n"
          ") fi\n",
          out);
}

void gt__script_stop(FILE *out, const gt_up_part *part, bool server)
{
    if (part) {
        fprintf(out, "stop %s\n", part->name);
        return;
    }
    fputs(
        server
            ? "if [ -e server.pid ]; then stop server; fi\n"
            : "set --\nfor file in worker_*.pid; do if [ -e \"$file\" ]; then set -- \"$@\" \"${file%.pid}\"; fi; "
              "done\nstop \"$@\"\n",
        out);
    fputs("rm -f worker.key\n", out);
    if (server)
        fputs("rm -f server.key allowed config.yaml\n", out);
}
