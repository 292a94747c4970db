/*
 * module.c: the module gt._gt. Read extension.h first.
 *
 * python/gt/__init__.py decides which of its names users see.
 */
#include "extension.h"

#include "pyengine.h"
#include "pymodifier.h"

/* The op table, for the package and the tests. */
static PyObject *py_op_table(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    static const struct {
        const char *name, *form, *types, *grad;
    } rows[] = {
#define OP(name_, form_, types_, grad_) {.name = #name_, .form = #form_, .types = #types_, .grad = #grad_},
#define CONTROL(name_, tail_) {.name = #name_, .form = "CONTROL", .types = "NONE", .grad = "NONE"},
#include "core/ops.def"
    };
    size_t count = sizeof rows / sizeof *rows;
    PyObject *table = PyTuple_New((Py_ssize_t)count);
    for (size_t k = 0; table && k < count; k++) {
        PyObject *row = Py_BuildValue("(ssss)", rows[k].name, rows[k].form, rows[k].types, rows[k].grad);
        if (!row)
            Py_CLEAR(table);
        else
            PyTuple_SET_ITEM(table, (Py_ssize_t)k, row);
    }
    return table;
}

static PyMethodDef own_functions[] = {
    NOARGS("op_table", py_op_table, "op_table(): the rows of ops.def: (name, form, types, grad)."),
    {.ml_name = NULL},
};

static int module_exec(PyObject *module)
{
    static bool loaded;
    if (loaded) { /* types, clients and hooks are process-wide */
        PyErr_SetString(PyExc_ImportError, "gt._gt can be loaded once in a process, not in a second interpreter");
        return -1;
    }
    loaded = true;
    PyMethodDef *const tables[] = {own_functions,
                                   gt__py_create_functions,
                                   gt__py_random_functions,
                                   gt__py_linalg_functions,
                                   gt__py_function_functions,
                                   gt__py_batch_functions,
                                   gt__py_mode_functions,
                                   gt__py_node_functions,
                                   gt__py_autograd_functions,
                                   gt__py_checkpoint_functions,
                                   gt__py_movement_functions,
                                   gt__py_interop_functions,
                                   gt__py_connect_functions,
                                   gt__py_handover_functions,
                                   gt__py_server_functions,
                                   gt__py_engine_functions,
                                   gt__py_modifier_functions,
                                   gt__py_site_functions,
                                   gt__py_signal_functions,
                                   gt__py_spatial_functions,
                                   gt__py_spectral_functions,
                                   gt__py_optimise_functions,
                                   gt__py_training_functions,
                                   gt__py_caller_functions};
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++)
        if (PyModule_AddFunctions(module, tables[k]) < 0)
            return -1;
    if (gt__py_dtype_init(module) < 0 || gt__py_size_init(module) < 0 || gt__py_tensor_init(module) < 0 ||
        gt__py_interop_init(module) < 0 || gt__py_connect_init(module) < 0 || gt__py_server_init(module) < 0 ||
        gt__py_engine_init(module) < 0 || gt__py_functions_init(module) < 0 || gt__py_caller_init(module) < 0 ||
        gt__py_optimise_init(module) < 0)
        return -1;
    return 0;
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
