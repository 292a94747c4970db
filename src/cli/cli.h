/*
 * cli.h: the `gt` command. One subcommand is one file with one function; commands.c lists them.
 */
#ifndef GT_CLI_CLI_H
#define GT_CLI_CLI_H

enum { GT_DEFAULT_PORT = 12345 }; /* of a server, unless -p says otherwise */

typedef struct gt_command {
    const char *name, *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the subcommand's name */
} gt_command;

/* Run `gt argv[1] ...`; returns the exit status. `python -m gt.server` runs it too. `tools`: further commands,
 * ended by one without a name; may be NULL. */
int gt__cli_main(int argc, char **argv, const gt_command *tools);

/* log, top, trace, visualize, simulate, drain, reload, up and down (tools.c), linked only into programs that run them. */
extern const gt_command gt__tools[];

int gt__command_server(int argc, char **argv);
int gt__command_drain(int argc, char **argv);
int gt__command_reload(int argc, char **argv);
int gt__command_log(int argc, char **argv);
int gt__command_top(int argc, char **argv);
int gt__command_trace(int argc, char **argv);
int gt__command_visualize(int argc, char **argv);
int gt__command_simulate(int argc, char **argv);
int gt__command_up(int argc, char **argv);
int gt__command_down(int argc, char **argv);
int gt__command_worker(int argc, char **argv);
int gt__command_keygen(int argc, char **argv);
int gt__command_replay(int argc, char **argv);

/* Call `stop(argument)` from the signal handler on SIGINT, SIGTERM and SIGHUP, until gt__signals_restore. `reload`: for SIGHUP,
 * also under nohup; NULL: it stops. */
void gt__signals_catch(void (*stop)(void *argument), void (*reload)(void *argument), void *argument);
void gt__signals_restore(void);

#endif
