/*
 * options.h: the options of a command, as a table. What is accepted, where it goes and what --help says all come
 * from the same rows, so that they agree.
 *
 *     const gt_option options[] = {
 *         {.name = "port", .letter = 'p', .kind = GT_OPTION_PORT, .target = &port, .value = "PORT",
 *          .help = "port to listen on (default %)"},
 *         {0},
 *     };
 *     const gt_usage usage = {.command = "gt server", .line = "[-p PORT]", .about = "Runs.\n", .options = options};
 *     int status = gt__options_parse(&usage, argc, argv);
 *     if (status >= 0)
 *         return status;
 *
 * Every command has -h, --help besides. A mistake is one line on standard error that begins with the command's
 * name, and one that names --help; the exit status is then 2.
 */
#ifndef GT_CLI_OPTIONS_H
#define GT_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum gt_option_kind {
    GT_OPTION_FLAG,   /* bool: there is no value */
    GT_OPTION_TEXT,   /* const char *: borrowed from argv */
    GT_OPTION_PORT,   /* int, 0 to 65535 */
    GT_OPTION_NUMBER, /* double, least to most */
    GT_OPTION_COUNT,  /* uint64_t, a whole number */
    GT_OPTION_BYTES,  /* uint64_t, also as 64M */
    GT_OPTION_OWN,    /* whatever `take` makes of it */
} gt_option_kind;

typedef struct gt_option {
    const char *name; /* "port" for --port; NULL ends the table */
    char letter;      /* 'p' for -p; 0: none */
    gt_option_kind kind;
    void *target;
    double least, most; /* of a number */
    /* GT_OPTION_OWN: put the text into the target. NULL, or what it is not: "a tensor". Once for each time it is
     * given. */
    const char *(*take)(void *target, const char *text);
    const char *value; /* what --help calls the value */
    const char *help;  /* a % in it becomes what the target holds before any option is read: the default */
} gt_option;

typedef struct gt_usage {
    const char *command;       /* "gt server" */
    const char *line;          /* what follows it in the usage line */
    const char *about, *after; /* whole lines, before and after the options; after may be NULL */
    const gt_option *options;
    char ***operands;   /* gets what is left in argv, in order; NULL: nothing may be */
    int *operand_count; /* with operands */
} gt_usage;

/* -1: go on; else the exit status, and what there was to say has been said. */
int gt__options_parse(const gt_usage *usage, int argc, char **argv);
/* A mistake that the table cannot know of; returns the exit status. */
int gt__options_wrong(const gt_usage *usage, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
