/*
 * module.c: gt._gt, put together. Read extension.h first.
 *
 * The names here are the raw material of the package: python/gt/__init__.py decides what users see.
 */
#include "extension.h"

/* The names of the table's rows, which are methods of Tensor and become functions of the package. */
static int add_op_names(PyObject *module)
{
    static const char *const names[] = {
#define UNARY(name, types, expr, grad) #name,
#define UNARY_PQ(name, types, expr, grad) #name,
#define BINARY(name, types, expr, grad) #name,
#define REDUCE(name, types, grad) #name,
#include "ops.def"
    };
    size_t count = sizeof names / sizeof *names;
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (size_t k = 0; tuple && k < count; k++) {
        PyObject *name = PyUnicode_InternFromString(names[k]);
        if (!name)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)k, name);
    }
    int status = tuple ? PyModule_AddObjectRef(module, "op_names", tuple) : -1;
    Py_XDECREF(tuple);
    return status;
}

static int module_exec(PyObject *module)
{
    static bool loaded;
    if (loaded) { /* types, clients and hooks are process-wide */
        PyErr_SetString(PyExc_ImportError, "gt._gt can be loaded once in a process, not in a second interpreter");
        return -1;
    }
    loaded = true;
    PyMethodDef *const tables[] = {gt__py_create_functions, gt__py_movement_functions, gt__py_interop_functions,
                                   gt__py_connect_functions, gt__py_server_functions};
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++)
        if (PyModule_AddFunctions(module, tables[k]) < 0)
            return -1;
    if (gt__py_dtype_init(module) < 0 || gt__py_tensor_init(module) < 0 || gt__py_interop_init(module) < 0 ||
        gt__py_connect_init(module) < 0 || gt__py_server_init(module) < 0)
        return -1;
    return add_op_names(module);
}

PyMODINIT_FUNC PyInit__gt(void);

PyMODINIT_FUNC PyInit__gt(void)
{
    static PyModuleDef_Slot slots[] = {
        {.slot = Py_mod_exec, .value = (void *)module_exec},
        {.slot = 0},
    };
    static PyModuleDef definition = {
        PyModuleDef_HEAD_INIT,
        .m_name = "gt._gt",
        .m_doc = "The C core of the gt package.",
        .m_slots = slots,
    };
    return PyModuleDef_Init(&definition);
}
