/* command.c: a sequence of Python strings becomes a command line. */
#include "command.h"

PyObject *gt__py_command(PyObject *object, const gt_command *tools)
{
    PyObject *list = PySequence_Tuple(object);
    if (!list)
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(list);
    char **arguments = PyMem_Calloc((size_t)count + 2, sizeof *arguments);
    char program[] = "gt";
    if (!arguments) {
        Py_DECREF(list);
        return PyErr_NoMemory();
    }
    arguments[0] = program;
    for (Py_ssize_t k = 0; k < count; k++) {
        arguments[k + 1] = (char *)PyUnicode_AsUTF8(PyTuple_GET_ITEM(list, k));
        if (!arguments[k + 1]) {
            PyMem_Free(arguments);
            Py_DECREF(list);
            return NULL;
        }
    }
    int status;
    Py_BEGIN_ALLOW_THREADS status = gt__cli_main((int)count + 1, arguments, tools);
    Py_END_ALLOW_THREADS PyMem_Free(arguments);
    Py_DECREF(list);
    return PyLong_FromLong(status);
}
