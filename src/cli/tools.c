/*
 * tools.c: the commands that look at GT from outside. They need libraries of their own (Cairo, ncurses), so they
 * are not in libgt nor in the Python extension but in a library that the gt command and python -m gt.scripts use.
 */
#include "cli.h"

const gt_command gt__tools[] = {
    {.name = "visualize", .summary = "draw the timeline of an instruction log", .run = gt__command_visualize},
    {0},
};
