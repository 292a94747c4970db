/* main.c: the gt program. */
#include "cli/cli.h"

int main(int argc, char **argv)
{
    return gt__cli_main(argc, argv, gt__tools);
}
