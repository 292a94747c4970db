/* drain.c: `gt drain`: a worker leaves, and its tensors go to others. */
#include "cli/cli.h"
#include "cli/order.h"

int gt__command_drain(int argc, char **argv)
{
    gt_order_arguments arguments = {0};
    gt_option options[GT_ORDER_OPTIONS];
    char **operands;
    int count;
    gt__order_options(&arguments, options);
    const gt_usage usage = {
        .command = "gt drain",
        .line = "[-p PORT] [--host HOST] WORKER",
        .about = "Moves the tensors of a worker, given by name or number, to the other workers of its server, and "
                 "lets it\n"
                 "go. Programs that use it go on. If the others cannot take them, the worker stays, and so does "
                 "what it has.\n"
                 "Interrupted, this command ends; the worker leaves all the same.\n",
        .options = options,
        .operands = &operands,
        .operand_count = &count,
    };
    int status = gt__options_parse(&usage, argc, argv);
    if (status >= 0)
        return status;
    if (count != 1)
        return gt__options_wrong(&usage, "one worker is needed, by its name or number");
    return gt__order_run("gt drain", &arguments, GT_ORDERS_DRAIN, operands[0]);
}
