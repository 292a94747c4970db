/* command.h: the `gt` command from Python; for the extension itself (server.c) and the tools' (tools.c). */
#ifndef GT_EXTENSION_COMMAND_H
#define GT_EXTENSION_COMMAND_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "cli/cli.h"

/* Run `gt ARGUMENTS...` without the GIL; the exit status. `tools`: as in gt__cli_main. */
PyObject *gt__py_command(PyObject *arguments, const gt_command *tools);

#endif
