/*
 * program.c: the name of this program in `gt top` and in logs: the script or program and the process id,
 * "train.py:4711". client.c sends it in the hello.
 */
#include "client/program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The script or module among an interpreter's NUL-terminated arguments, up to `end`; NULL: none. */
static const char *script_of(const char *argument, const char *end)
{
    for (; argument < end; argument += strlen(argument) + 1) {
        const char *next = argument + strlen(argument) + 1;
        if (strcmp(argument, "-m") == 0)
            return next < end ? next : NULL;
        if (strcmp(argument, "-c") == 0)
            return NULL;
        if (strcmp(argument, "-W") == 0 || strcmp(argument, "-X") == 0)
            argument = next < end ? next : argument; /* the option has a value */
        else if (argument[0] != '-')
            return base_name(argument);
    }
    return NULL;
}

void gt__program_name(char *name, size_t size)
{
    char line[4096] = "";
    FILE *file = fopen("/proc/self/cmdline", "r");
    size_t length = file ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file)
        fclose(file);
    const char *program = length && *line ? base_name(line) : program_invocation_short_name;
    const char *script =
        strncmp(program, "python", 6) == 0 ? script_of(line + strlen(line) + 1, line + length) : NULL;
    snprintf(name, size, "%.40s:%ld", script && *script ? script : program, (long)getpid());
}
