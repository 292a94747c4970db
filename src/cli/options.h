/*
 * options.h: the options of a command, as a table. Parsing, targets and --help all come from the same rows, so they
 * agree.
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
 * Every command also has -h, --help. An error is one line on standard error that begins with the command's name, and one
 * that points to --help; the exit status is then 2.
 */
#ifndef GT_CLI_OPTIONS_H
#define GT_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum gt_option_kind {
    GT_OPTION_FLAG,       /* bool; takes no value */
    GT_OPTION_TEXT,       /* const char *: borrowed from argv */
    GT_OPTION_PORT,       /* int, 0 to 65535 */
    GT_OPTION_MAYBE_PORT, /* the same, or no value: 0 */
    GT_OPTION_NUMBER,     /* double, least to most */
    GT_OPTION_COUNT,      /* uint64_t, a whole number */
    GT_OPTION_BYTES,      /* uint64_t, also as 64M */
    GT_OPTION_OWN,        /* parsed by `take` */
} gt_option_kind;

typedef struct gt_option {
    const char *name; /* "port" for --port; NULL ends the table */
    char letter;      /* 'p' for -p; 0: no letter */
    gt_option_kind kind;
    void *target;
    double least, most; /* of a number */
    /* GT_OPTION_OWN: put the text into the target. Returns NULL, or on error what was expected: "a tensor". Called for
     * each occurrence. */
    const char *(*take)(void *target, const char *text);
    const char *value; /* the value's name in --help */
    const char *help;  /* a % is replaced by the target's value before parsing: the default */
} gt_option;

typedef struct gt_usage {
    const char *command;       /* "gt server" */
    const char *line;          /* follows the command in the usage line */
    const char *about, *after; /* whole lines, before and after the options; after may be NULL */
    const gt_option *options;
    char ***operands;   /* gets the remaining arguments, in order; NULL: none are allowed */
    int *operand_count; /* set together with operands */
} gt_usage;

/* -1: go on; else the exit status, after printing help or an error. */
int gt__options_parse(const gt_usage *usage, int argc, char **argv);
/* Report an error that the table cannot check; returns the exit status. */
int gt__options_wrong(const gt_usage *usage, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
