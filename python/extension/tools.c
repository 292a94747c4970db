/*
 * tools.c: the extension gt._tools: top, trace and visualize, for python -m gt.scripts. Separate from gt._gt, so that
 * `import gt` loads neither Cairo nor ncurses.
 */
#include "command.h"

static PyObject *py_main(PyObject *module, PyObject *arguments)
{
    (void)module;
    return gt__py_command(arguments, gt__tools);
}

static PyMethodDef functions[] = {
    {.ml_name = "main",
     .ml_meth = py_main,
     .ml_flags = METH_O,
     .ml_doc =
         "main(arguments): run the gt command, as in main(['visualize', 'run.log']); returns its exit status."},
    {.ml_name = NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "gt._tools",
    .m_doc = "The gt command's tools.",
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__tools(void)
{
    return PyModuleDef_Init(&definition);
}
