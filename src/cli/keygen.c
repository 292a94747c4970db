/* keygen.c: `gt keygen`. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "link/keys.h"

static const char *take_server(void *target, const char *text)
{
    gt_keys *keys = target;
    if (!gt__key_valid(text))
        return "a public key";
    snprintf(keys->server, sizeof keys->server, "%s", text);
    return NULL;
}

int gt__command_keygen(int argc, char **argv)
{
    gt_keys keys = {0};
    char **operands;
    int operand_count;
    const gt_option options[] = {
        {.name = "server",
         .kind = GT_OPTION_OWN,
         .target = &keys,
         .take = take_server,
         .value = "KEY",
         .help = "the public key of the server to connect to, for the file of a client or a worker"},
        {0},
    };
    const gt_usage usage = {
        .command = "gt keygen",
        .line = "FILE [--server KEY]",
        .about = "Writes a new pair of keys to FILE, which only you can read, and prints the public key.\n",
        .after =
            "The server's list (--allow-keys) has a line `client KEY NAME` or `worker KEY NAME` for each public "
            "key.\n",
        .options = options,
        .operands = &operands,
        .operand_count = &operand_count,
    };
    int status = gt__options_parse(&usage, argc, argv);
    if (status >= 0)
        return status;
    if (operand_count != 1)
        return gt__options_wrong(&usage, "one file is needed");
    if (gt__keys_make(&keys) != GT_OK || gt__keys_write(operands[0], &keys) != GT_OK) {
        fprintf(stderr, "gt keygen: %s\n", gt_error_text());
        return 1;
    }
    printf("%s\n", keys.public_key);
    return 0;
}
