/* main.c: the gt program. */
#include "cli/cli.h"
#include "cli/dashboard.h"

int main(int argc, char **argv)
{
#ifdef GT_HTTP
    gt__dashboard = &gt__dashboard_http;
#endif
    return gt__cli_main(argc, argv, gt__tools);
}
