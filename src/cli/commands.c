/* commands.c: dispatches subcommands, and has their shared signal handling. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/version.h"

static const gt_command commands[] = {
    {.name = "server",
     .summary = "run a dispatcher that clients and workers connect to",
     .run = gt__command_server},
    {.name = "worker", .summary = "run a worker and join a server", .run = gt__command_worker},
    {.name = "keygen", .summary = "make keys for connections between hosts", .run = gt__command_keygen},
    {.name = "replay",
     .summary = "execute a recorded tape again and inspect its tensors",
     .run = gt__command_replay},
    {0},
};

static void print_help(FILE *out, const gt_command *tools)
{
    fprintf(out, "usage: gt COMMAND [OPTIONS]\n\nGT, a multiplexing tensor framework.\n\ncommands:\n");
    for (const gt_command *command = commands; command->name; command++)
        fprintf(out, "  %-10s %s\n", command->name, command->summary);
    for (const gt_command *command = tools; command && command->name; command++)
        fprintf(out, "  %-10s %s\n", command->name, command->summary);
    fprintf(out, "  %-10s %s\n\n", "version", "print the version");
    fprintf(out, "`gt COMMAND --help` lists a command's options.\n");
}

static const gt_command *find(const gt_command *list, const char *name)
{
    for (; list && list->name; list++)
        if (strcmp(name, list->name) == 0)
            return list;
    return NULL;
}

int gt__cli_main(int argc, char **argv, const gt_command *tools)
{
    if (argc < 2) {
        print_help(stderr, tools);
        return 2;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout, tools);
        return 0;
    }
    if (strcmp(name, "version") == 0 || strcmp(name, "--version") == 0) {
        printf("gt %s\n", GT_VERSION);
        return 0;
    }
    const gt_command *command = find(commands, name);
    if (!command)
        command = find(tools, name);
    if (command) {
        char title[64]; /* the program's name in getopt's messages */
        snprintf(title, sizeof title, "gt %s", name);
        argv[1] = title;
        return command->run(argc - 1, argv + 1);
    }
    fprintf(stderr, "gt: unknown command '%s'; try `gt --help`\n", name);
    return 2;
}

/* ---- signals ----------------------------------------------------------------------------------------------- */

static void (*stop_function)(void *), (*reload_function)(void *);
static void *stop_argument;
static const int stopping[] = {SIGINT, SIGTERM, SIGHUP}; /* SIGHUP: the terminal is gone */
enum { STOPPING = sizeof stopping / sizeof stopping[0] };
static struct sigaction before[STOPPING];

/* The terminal has written ^C: what comes next, such as the shell's prompt, begins a line. */
static void end_line(void)
{
    struct termios terminal;
    if (tcgetattr(STDERR_FILENO, &terminal) == 0 && (terminal.c_lflag & (ECHO | ECHOCTL)) == (ECHO | ECHOCTL)) {
        ssize_t written = write(STDERR_FILENO, "\n", 1);
        (void)written; /* it is for looks only */
    }
}

static void on_signal(int number)
{
    int error = errno;
    if (number == SIGINT)
        end_line();
    errno = error;
    (number == SIGHUP && reload_function ? reload_function : stop_function)(stop_argument);
}

void gt__signals_catch(void (*stop)(void *), void (*reload)(void *), void *argument)
{
    stop_function = stop;
    reload_function = reload;
    stop_argument = argument;
    struct sigaction action = {.sa_handler = on_signal};
    for (int k = 0; k < STOPPING; k++) {
        sigaction(stopping[k], &action, &before[k]);
        if (stopping[k] == SIGHUP && !reload && before[k].sa_handler == SIG_IGN)
            sigaction(SIGHUP, &before[k], NULL); /* nohup */
    }
}

void gt__signals_restore(void)
{
    for (int k = 0; k < STOPPING; k++)
        sigaction(stopping[k], &before[k], NULL);
}
