/* reload.c: `gt reload`: a running server reads its files again. */
#include "cli/cli.h"
#include "cli/order.h"

int gt__command_reload(int argc, char **argv)
{
    gt_order_arguments arguments = {0};
    gt_option options[GT_ORDER_OPTIONS];
    gt__order_options(&arguments, options);
    const gt_usage usage = {
        .command = "gt reload",
        .line = "[-p PORT] [--host HOST]",
        .about = "Has a running server read its --config and --allow-keys again, as SIGHUP does. If one of them "
                 "is wrong,\n"
                 "what was read from it before stays. Tensors of running programs are placed as their signals say "
                 "now.\n",
        .options = options,
    };
    int status = gt__options_parse(&usage, argc, argv);
    return status >= 0 ? status : gt__order_run("gt reload", &arguments, GT_ORDERS_RELOAD, "");
}
