/*
 * tools.c: the commands that observe, change and start GT from outside. Some need libraries of their own (Cairo, ncurses), so they are not in
 * libgt or the Python extension but in a library that the gt command and python -m gt.scripts use.
 */
#include "cli/cli.h"

const gt_command gt__tools[] = {
    {.name = "log", .summary = "print an instruction log as text", .run = gt__command_log},
    {.name = "top", .summary = "show what workers and clients are doing", .run = gt__command_top},
    {.name = "trace", .summary = "record a running dispatcher for a while", .run = gt__command_trace},
    {.name = "visualize", .summary = "draw the timeline of an instruction log", .run = gt__command_visualize},
    {.name = "simulate",
     .summary = "predict what a tape takes on other workers, links and configs",
     .run = gt__command_simulate},
    {.name = "drain",
     .summary = "move the tensors of a worker to others, and let it go",
     .run = gt__command_drain},
    {.name = "reload", .summary = "have a server read its config and its keys again", .run = gt__command_reload},
    {.name = "up", .summary = "start a server and workers on the hosts of a file", .run = gt__command_up},
    {.name = "down", .summary = "end what gt up has started", .run = gt__command_down},
    {0},
};
