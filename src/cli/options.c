/* options.c: parses the command line by a table, with getopt. See options.h. */
#include "cli/options.h"

#include <assert.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/settings.h"

enum {
    MOST_OPTIONS = 40,
    HELP_COLUMN = 22,
    FIRST_ROW = 256
}; /* FIRST_ROW: getopt's code of the first row, above all letters */

/* ---- values ------------------------------------------------------------------------------------------------- */

int gt__options_wrong(const gt_usage *usage, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", usage->command);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\ntry `%s --help`\n", usage->command);
    va_end(arguments);
    return 2;
}

static int take_port(const gt_usage *usage, const gt_option *option, const char *text)
{
    long port = strspn(text, "0123456789") == strlen(text) && *text ? strtol(text, NULL, 10) : -1;
    if (port < 0 || port > 65535)
        return gt__options_wrong(usage, "--%s: '%s' is not a port number", option->name, text);
    *(int *)option->target = (int)port;
    return -1;
}

/* "16M" for 16777216, as it is given. */
static const char *bytes_text(double bytes, char *text, size_t size)
{
    static const char units[] = "KMGT";
    const char *unit = "";
    for (const char *next = units; *next && bytes >= 1024 && fmod(bytes, 1024) == 0; next++) {
        bytes /= 1024;
        unit = next;
    }
    snprintf(text, size, "%.0f%.1s", bytes, unit);
    return text;
}

static int take_number(const gt_usage *usage, const gt_option *option, const char *text)
{
    gt_number_kind kind = option->kind == GT_OPTION_COUNT   ? GT_NUMBER_COUNT
                          : option->kind == GT_OPTION_BYTES ? GT_NUMBER_BYTES
                                                            : GT_NUMBER_SECONDS;
    double number;
    bool taken = gt__number_parse(text, kind, option->least, option->most, &number);
    char least[32];
    if (!taken && kind == GT_NUMBER_BYTES)
        return gt__options_wrong(usage, "--%s: '%s' is not a number of bytes (64M, 1G), %s at least", option->name,
                                 text, bytes_text(option->least, least, sizeof least));
    if (!taken)
        return gt__options_wrong(usage, "--%s: '%s' is not a number from %g to %g", option->name, text,
                                 option->least, option->most);
    if (option->kind == GT_OPTION_NUMBER)
        *(double *)option->target = number;
    else
        *(uint64_t *)option->target = (uint64_t)number;
    return -1;
}

/* -1: go on; else the exit status. */
static int take(const gt_usage *usage, const gt_option *option, const char *text)
{
    const char *not_this;
    switch (option->kind) {
    case GT_OPTION_FLAG:
        *(bool *)option->target = true;
        return -1;
    case GT_OPTION_TEXT:
        *(const char **)option->target = text;
        return -1;
    case GT_OPTION_PORT:
        return take_port(usage, option, text);
    case GT_OPTION_MAYBE_PORT:
        return take_port(usage, option, text ? text : "0");
    case GT_OPTION_OWN:
        not_this = option->take(option->target, text);
        return not_this ? gt__options_wrong(usage, "--%s: '%s' is not %s", option->name, text, not_this) : -1;
    default:
        return take_number(usage, option, text);
    }
}

/* ---- help --------------------------------------------------------------------------------------------------- */

static void print_default(const gt_option *option)
{
    switch (option->kind) {
    case GT_OPTION_TEXT:
        fputs(*(const char **)option->target, stdout);
        break;
    case GT_OPTION_PORT:
    case GT_OPTION_MAYBE_PORT:
        printf("%d", *(int *)option->target);
        break;
    case GT_OPTION_NUMBER:
        printf("%g", *(double *)option->target);
        break;
    default:
        printf("%llu", (unsigned long long)*(uint64_t *)option->target);
    }
}

static void print_option(const gt_option *option)
{
    int width =
        option->letter ? printf("  -%c, --%s", option->letter, option->name) : printf("      --%s", option->name);
    if (option->value)
        width += printf(" %s", option->value);
    printf("%*s", width + 2 <= HELP_COLUMN ? HELP_COLUMN - width : 2, "");
    for (const char *at = option->help; *at; at++)
        if (*at == '%')
            print_default(option);
        else
            putchar(*at);
    putchar('\n');
}

static void print_help(const gt_usage *usage)
{
    printf("usage: %s %s\n\n%s\n", usage->command, usage->line, usage->about);
    for (const gt_option *option = usage->options; option->name; option++)
        print_option(option);
    print_option(&(gt_option){.name = "help", .letter = 'h', .help = "this text"});
    if (usage->after)
        printf("\n%s", usage->after);
}

/* ---- all of it ---------------------------------------------------------------------------------------------- */

/* Fill getopt's tables: long_options, and the letters. */
static void tell_getopt(const gt_usage *usage, struct option long_options[MOST_OPTIONS + 2],
                        char letters[2 * MOST_OPTIONS + 2])
{
    int count = 0;
    for (const gt_option *option = usage->options; option->name; option++, count++) {
        assert(count < MOST_OPTIONS);
        bool has_value = option->kind != GT_OPTION_FLAG;
        int value = option->kind == GT_OPTION_MAYBE_PORT ? optional_argument : required_argument;
        long_options[count] = (struct option){
            .name = option->name, .has_arg = has_value ? value : no_argument, .val = FIRST_ROW + count};
        if (option->letter)
            *letters++ = option->letter;
        if (option->letter && has_value)
            *letters++ = ':';
    }
    long_options[count++] = (struct option){.name = "help", .val = 'h'};
    long_options[count] = (struct option){0};
    *letters++ = 'h';
    *letters = 0;
}

static const gt_option *find_option(const gt_usage *usage, int chosen)
{
    if (chosen >= FIRST_ROW)
        return &usage->options[chosen - FIRST_ROW];
    for (const gt_option *option = usage->options; option->name; option++)
        if (option->letter == chosen)
            return option;
    return NULL;
}

/* getopt, but for a value that may be missing and is the next argument: getopt knows only --http=8080. */
static int next_option(const gt_usage *usage, int argc, char **argv, const struct option *long_options,
                       const char *letters)
{
    int chosen = getopt_long(argc, argv, letters, long_options, NULL);
    const gt_option *option = chosen >= FIRST_ROW ? find_option(usage, chosen) : NULL;
    if (option && option->kind == GT_OPTION_MAYBE_PORT && !optarg && optind < argc && *argv[optind] >= '0' &&
        *argv[optind] <= '9')
        optarg = argv[optind++];
    return chosen;
}

/* Checked before options are parsed, while the targets hold their defaults. */
static bool asks_for_help(const gt_usage *usage, int argc, char **argv, const struct option *long_options,
                          const char *letters)
{
    int chosen;
    optind = opterr = 0; /* glibc: reset, since this may run more than once in a process */
    do
        chosen = next_option(usage, argc, argv, long_options, letters);
    while (chosen != -1 && chosen != '?' && chosen != 'h');
    optind = 0;
    opterr = 1;
    return chosen == 'h';
}

int gt__options_parse(const gt_usage *usage, int argc, char **argv)
{
    struct option long_options[MOST_OPTIONS + 2];
    char letters[2 * MOST_OPTIONS + 2];
    tell_getopt(usage, long_options, letters);
    if (asks_for_help(usage, argc, argv, long_options, letters)) {
        print_help(usage);
        return 0;
    }
    for (int chosen; (chosen = next_option(usage, argc, argv, long_options, letters)) != -1;) {
        const gt_option *option = find_option(usage, chosen);
        if (!option) { /* getopt has printed the error */
            fprintf(stderr, "try `%s --help`\n", usage->command);
            return 2;
        }
        int status = take(usage, option, optarg);
        if (status >= 0)
            return status;
    }
    if (!usage->operands && optind < argc)
        return gt__options_wrong(usage, "unexpected '%s'", argv[optind]);
    if (usage->operands) {
        *usage->operands = argv + optind;
        *usage->operand_count = argc - optind;
    }
    return -1;
}
