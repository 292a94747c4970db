/*
 * pymodifier.c: one stream modifier (dispatcher/modifier.h) for all functions of gt.register_modifier.
 *
 * It is the last of the chain in embedded servers, before placement. python/gt/modifier.py has the functions and turns records
 * into instructions and back: here is only the call, from the dispatcher's thread with the GIL, and the check of what comes
 * back. The functions see computing records and frees. Uploads and their data are not shown: a client waits for its segments.
 * Read next: python/gt/modifier.py.
 */
#include "pymodifier.h"

#include "client/client.h"
#include "dispatcher/modifier.h"
#include "dispatcher/session.h"
#include "pyengine.h"

typedef struct python_modifier {
    gt_modifier base;
    PyObject *chain; /* a gt.modifier._Chain */
    gt_slot record[1 + GT_MAX_TAIL];
} python_modifier;

static PyObject *make_chain; /* called for each session; guarded by the GIL */

static bool is_shown(const gt_instruction *ins)
{
    return (ins->op < GT_OP_FIRST_CONTROL && ins->op != GT_OP_upload) || ins->op == GT_OP_free;
}

/* Copy record `k` of a list to m->record and check it. False: exception. */
static bool take_record(python_modifier *m, PyObject *list, Py_ssize_t k)
{
    char *bytes;
    Py_ssize_t size;
    unsigned length = 0;
    if (PyBytes_AsStringAndSize(PyList_GET_ITEM(list, k), &bytes, &size) < 0)
        return false;
    if (!size || size % (Py_ssize_t)sizeof(gt_slot) || (size_t)size > sizeof m->record) {
        PyErr_Format(PyExc_ValueError, "a record of %zd bytes", size);
        return false;
    }
    size_t slots = (size_t)size / sizeof(gt_slot);
    memcpy(m->record, bytes, (size_t)size);
    if (gt__instruction_check(m->record, slots, &length) != GT_OK)
        PyErr_SetString(PyExc_ValueError, gt_error_text());
    else if (length != slots || !is_shown(&m->record->ins))
        PyErr_Format(PyExc_ValueError, "a modifier cannot emit '%s'", gt__op_table[m->record->ins.op].name);
    return !PyErr_Occurred();
}

/* A call of the chain: the list of records to emit, all of them well-formed. NULL: exception. */
static PyObject *checked(python_modifier *m, PyObject *list)
{
    if (list && !PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "the chain returned no list");
        Py_CLEAR(list);
    }
    for (Py_ssize_t k = 0; list && k < PyList_GET_SIZE(list); k++)
        if (!take_record(m, list, k))
            Py_CLEAR(list);
    return list;
}

static gt_err emit_all(python_modifier *m, PyObject *list)
{
    gt_err err = GT_OK;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list) && err == GT_OK; k++) {
        if (!take_record(m, list, k)) /* it was right a moment ago: another thread changed the list */
            return gt__py_engine_fail("");
        err = gt__modifier_emit(&m->base, m->record);
    }
    return err;
}

static gt_err step(gt_modifier *modifier, const gt_slot *record)
{
    python_modifier *m = (python_modifier *)modifier;
    const gt_instruction *ins = &record->ins;
    if (!is_shown(ins))
        return gt__modifier_emit(modifier, record);
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_ssize_t size = (Py_ssize_t)((1u + ins->tail) * sizeof *record);
    PyObject *list = PyObject_CallMethod(m->chain, "step", "y#z", (const char *)record, size,
                                         gt__session_site(modifier->session, ins->site));
    list = checked(m, list);
    gt_err err = list ? emit_all(m, list) : gt__py_engine_fail("a modifier raised ");
    bool raised = !list;
    Py_XDECREF(list);
    PyGILState_Release(gil);
    if (!raised || ins->op >= GT_OP_FIRST_CONTROL) /* a free has no result that could tell of the error */
        return err;
    char why[768];
    PyOS_snprintf(why, sizeof why, "%s", gt_error_text());
    return gt__modifier_refuse(modifier, record, why);
}

static gt_err flush(gt_modifier *modifier, gt_flush why)
{
    (void)why;
    python_modifier *m = (python_modifier *)modifier;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *list = checked(m, PyObject_CallMethod(m->chain, "flush", NULL));
    gt_err err = list ? emit_all(m, list) : gt__py_engine_fail("flush of a modifier raised ");
    Py_XDECREF(list);
    PyGILState_Release(gil);
    return err;
}

static gt_err open_chain(gt_modifier *modifier)
{
    python_modifier *m = (python_modifier *)modifier;
    PyGILState_STATE gil = PyGILState_Ensure();
    m->chain = make_chain ? PyObject_CallNoArgs(make_chain) : NULL;
    gt_err err = m->chain     ? GT_OK
                 : make_chain ? gt__py_engine_fail("gt.register_modifier: ")
                              : gt__fail(GT_ERR_INTERNAL, "gt.register_modifier: there are no functions");
    gt__py_code_open += err == GT_OK;
    PyGILState_Release(gil);
    return err;
}

static void close_chain(gt_modifier *modifier)
{
    python_modifier *m = (python_modifier *)modifier;
    if (!m->chain) /* it could not be opened */
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_CLEAR(m->chain);
    gt__py_code_open--;
    PyGILState_Release(gil);
}

static const gt_modifier_ops modifier_python = {
    .name = "python",
    .size = sizeof(python_modifier),
    .open = open_chain,
    .step = step,
    .flush = flush,
    .close = close_chain,
};

static PyObject *py_embedded_modifier(PyObject *module, PyObject *make)
{
    (void)module;
    bool on = make != Py_None;
    Py_XSETREF(make_chain, on ? Py_NewRef(make) : NULL);
    atomic_store(&gt__embedded_modifier, on ? &modifier_python : NULL);
    Py_RETURN_NONE;
}

static PyObject *py_operand_counts(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *counts = PyTuple_New(GT_OP_COUNT);
    for (unsigned op = 0; counts && op < GT_OP_COUNT; op++) {
        PyObject *count = PyLong_FromUnsignedLong(op ? gt__op_operands((gt_opcode)op) : 0);
        if (!count)
            Py_CLEAR(counts);
        else
            PyTuple_SET_ITEM(counts, (Py_ssize_t)op, count);
    }
    return counts;
}

PyMethodDef gt__py_modifier_functions[] = {
    NOARGS("_operand_counts", py_operand_counts, "_operand_counts(): of each op, by its number in records."),
    {.ml_name = "_embedded_modifier",
     .ml_meth = py_embedded_modifier,
     .ml_flags = METH_O,
     .ml_doc = "_embedded_modifier(make): make() is the chain of a session of an embedded server from now on; "
               "None: none."},
    {.ml_name = NULL},
};
