/*
 * signals.c: signal scopes, the process's config, and the placement of tensors. The public interface is in
 * python/gt/signal.py and config.py, the implementation behind src/client/signals.h.
 */
#include "extension.h"

#include <stdlib.h>
#include <string.h>

#include "client/signals.h"

/* ---- scopes ---------------------------------------------------------------------------------------------- */

static PyObject *py_enter(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name, *backward = NULL;
    gt_signal_config unused;
    if (!PyArg_ParseTuple(args, "s|z:signal_enter", &name, &backward))
        return NULL;
    gt_err err = gt__signal_config_init();
    if (err != GT_OK)
        return gt__py_raise(err);
    /* A server is needed only to check that it has the workers that the config names. */
    bool named = gt__signal_config_get(name, &unused) || (backward && gt__signal_config_get(backward, &unused));
    gt_client *client = named ? gt__py_client() : NULL;
    if (named && !client)
        return NULL;
    err = gt__signal_enter(client, name, backward);
    return err == GT_OK ? Py_NewRef(Py_None) : gt__py_raise(err);
}

static PyObject *py_exit(PyObject *module, PyObject *name)
{
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    if (!text)
        return NULL;
    gt_err err = gt__signal_exit(text);
    return err == GT_OK ? Py_NewRef(Py_None) : gt__py_raise(err);
}

static PyObject *py_tensor(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object;
    const char *name;
    if (!PyArg_ParseTuple(args, "O!s:signal_tensor", gt__py_tensor_type, &object, &name))
        return NULL;
    gt_tensor *tensor = gt__py_use(object), *copy;
    if (!tensor)
        return NULL;
    gt_tensor_retain(tensor);
    gt_err err = gt__signal_tensor(tensor, name, &copy);
    gt_tensor_release(tensor);
    return gt__py_result(err, copy);
}

static PyObject *py_mark(PyObject *module, PyObject *name)
{
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    gt_client *client = text ? gt__py_client() : NULL;
    if (!client)
        return NULL;
    gt_err err = gt__signal_mark(client, text);
    return err == GT_OK ? Py_NewRef(Py_None) : gt__py_raise(err);
}

static PyObject *py_placement(PyObject *module, PyObject *object)
{
    (void)module;
    if (!gt__py_is_tensor(object))
        return PyErr_Format(PyExc_TypeError, "expected a Tensor, not %s", Py_TYPE(object)->tp_name);
    gt_tensor *tensor = gt__py_use(object);
    char *text = NULL;
    if (!tensor)
        return NULL;
    gt_err err = gt__tensor_placement(tensor, &text);
    if (err != GT_OK)
        return gt__py_raise(err);
    PyObject *result = PyUnicode_FromString(text);
    free(text);
    return result;
}

/* ---- config ---------------------------------------------------------------------------------------------- */

static PyObject *py_load(PyObject *module, PyObject *path)
{
    (void)module;
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    gt_err err = gt_config_load(PyBytes_AS_STRING(bytes));
    Py_DECREF(bytes);
    return err == GT_OK ? Py_NewRef(Py_None) : gt__py_raise(err);
}

static int read_workers(PyObject *workers, gt_signal_config *signal)
{
    PyObject *given = PySequence_Fast(workers, "workers must be a list of numbers");
    PyObject *sequence = given ? PySequence_Tuple(given) : NULL; /* an element's __index__ may shrink a list */
    Py_XDECREF(given);
    if (!sequence)
        return -1;
    Py_ssize_t count = PyTuple_GET_SIZE(sequence);
    int status = 0;
    if (count < 1 || count > GT_MAX_PARTIES) {
        PyErr_Format(PyExc_ValueError, "workers must name 1 to %d workers", GT_MAX_PARTIES);
        status = -1;
    }
    for (Py_ssize_t k = 0; k < count && status == 0; k++) {
        int64_t worker = -1;
        status = gt__py_int64(PyTuple_GET_ITEM(sequence, k), &worker);
        signal->workers[signal->worker_count++] = worker >= 0 && worker <= INT32_MAX ? (int32_t)worker : -1;
    }
    Py_DECREF(sequence);
    return status;
}

/* [(name, size, dimension or None), ...] */
static int read_mesh(PyObject *given, gt_mesh *mesh)
{
    PyObject *axes = PySequence_Tuple(given);
    int status = axes ? 0 : -1;
    if (axes && PyTuple_GET_SIZE(axes) > GT_MESH_AXES) {
        PyErr_Format(PyExc_ValueError, "a mesh has at most %d axes", GT_MESH_AXES);
        status = -1;
    }
    for (Py_ssize_t k = 0; status == 0 && k < PyTuple_GET_SIZE(axes); k++) {
        const char *name;
        int size;
        PyObject *dimension;
        int64_t axis = 0;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(axes, k), "siO", &name, &size, &dimension) ||
            (dimension != Py_None && gt__py_int64(dimension, &axis) < 0))
            status = -1;
        else if (strlen(name) > GT_MESH_NAME || axis < -GT_MAX_RANK || axis >= GT_MAX_RANK) {
            PyErr_Format(PyExc_ValueError, "mesh axis '%s': a name has at most %d bytes, a tensor %d dimensions",
                         name, GT_MESH_NAME, GT_MAX_RANK);
            status = -1;
        } else {
            gt_mesh_axis *to = &mesh->axis[mesh->rank++];
            *to = (gt_mesh_axis){.size = size, .axis = (int8_t)axis};
            to->kind = dimension == Py_None ? GT_REPLICATED : GT_SPLIT;
            strcpy(to->name, name);
        }
    }
    Py_XDECREF(axes);
    return status;
}

static PyObject *py_set(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name, *backward, *schedule = NULL;
    PyObject *shard, *axis = Py_None, *workers = Py_None, *mesh = Py_None;
    int compile, replicated = 0;
    gt_signal_config signal = {0};
    if (!PyArg_ParseTuple(args, "sOzp|z:config_set", &name, &shard, &backward, &compile, &schedule))
        return NULL;
    if (shard != Py_None && !PyArg_ParseTuple(shard, "OOp|O", &axis, &workers, &replicated, &mesh))
        return NULL;
    if (strlen(name) > GT_MAX_NAME || (backward && strlen(backward) > GT_MAX_NAME))
        return PyErr_Format(PyExc_ValueError, "the name of a signal has at most %d bytes", GT_MAX_NAME);
    strcpy(signal.name, name);
    if (backward)
        strcpy(signal.backward, backward);
    signal.flags = (uint8_t)((compile ? GT_CONFIG_COMPILE : 0) | (replicated ? GT_CONFIG_REPLICATED : 0) |
                             (shard != Py_None ? GT_CONFIG_SHARD : 0));
    if (schedule && strcmp(schedule, "gpipe") && strcmp(schedule, "1f1b"))
        return PyErr_Format(PyExc_ValueError, "schedule must be 'gpipe' or '1f1b', not '%s'", schedule);
    if (schedule)
        signal.flags |= *schedule == 'g' ? GT_CONFIG_GPIPE : GT_CONFIG_1F1B;
    if (axis != Py_None) {
        if (gt__py_int64(axis, &signal.axis) < 0)
            return NULL;
        signal.flags |= GT_CONFIG_AXIS;
    }
    if ((workers != Py_None && read_workers(workers, &signal) < 0) ||
        (mesh != Py_None && read_mesh(mesh, &signal.mesh) < 0))
        return NULL;
    gt_err err = gt__signal_config_set(&signal);
    return err == GT_OK ? Py_NewRef(Py_None) : gt__py_raise(err);
}

static PyObject *mesh_list(const gt_mesh *mesh)
{
    if (!mesh->rank)
        return Py_NewRef(Py_None);
    PyObject *list = PyList_New(0);
    for (unsigned d = 0; list && d < mesh->rank; d++) {
        const gt_mesh_axis *axis = &mesh->axis[d];
        PyObject *one = axis->kind == GT_SPLIT ? Py_BuildValue("(sii)", axis->name, axis->size, axis->axis)
                                               : Py_BuildValue("(siO)", axis->name, axis->size, Py_None);
        if (!one || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

/* (shard or None, backward or None, compile, schedule or None), shard being (axis or None, workers or None, replicated, mesh or None), mesh a
 * list of (name, size, dimension or None). */
static PyObject *py_get(PyObject *module, PyObject *name)
{
    (void)module;
    gt_signal_config signal;
    const char *text = PyUnicode_AsUTF8(name);
    if (!text)
        return NULL;
    gt_err err = gt__signal_config_init();
    if (err != GT_OK)
        return gt__py_raise(err);
    if (!gt__signal_config_get(text, &signal))
        Py_RETURN_NONE;
    PyObject *shard = Py_NewRef(Py_None), *workers = Py_NewRef(Py_None), *axis = Py_NewRef(Py_None);
    PyObject *mesh = mesh_list(&signal.mesh);
    if (signal.worker_count) {
        Py_SETREF(workers, PyList_New(signal.worker_count));
        for (unsigned k = 0; workers && k < signal.worker_count; k++)
            PyList_SET_ITEM(workers, k, PyLong_FromLong(signal.workers[k]));
    }
    if (signal.flags & GT_CONFIG_AXIS)
        Py_SETREF(axis, PyLong_FromLongLong(signal.axis));
    if (signal.flags & GT_CONFIG_SHARD && workers && axis && mesh)
        Py_SETREF(shard, Py_BuildValue("(OOOO)", axis, workers,
                                       signal.flags & GT_CONFIG_REPLICATED ? Py_True : Py_False, mesh));
    const char *schedule = signal.flags & GT_CONFIG_GPIPE  ? "gpipe"
                           : signal.flags & GT_CONFIG_1F1B ? "1f1b"
                                                           : NULL;
    PyObject *result = shard && mesh
                           ? Py_BuildValue("(OzOz)", shard, *signal.backward ? signal.backward : NULL,
                                           signal.flags & GT_CONFIG_COMPILE ? Py_True : Py_False, schedule)
                           : NULL;
    Py_XDECREF(shard);
    Py_XDECREF(workers);
    Py_XDECREF(axis);
    Py_XDECREF(mesh);
    return result;
}

static PyObject *py_names(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    char name[GT_MAX_NAME + 1];
    gt_err err = gt__signal_config_init();
    PyObject *names = err == GT_OK ? PyList_New(0) : gt__py_raise(err);
    for (size_t k = 0; names && gt__signal_config_name(k, name); k++) {
        PyObject *text = PyUnicode_FromString(name);
        if (!text || PyList_Append(names, text) < 0)
            Py_CLEAR(names);
        Py_XDECREF(text);
    }
    return names;
}

#define ONE(name, function, doc)                                                                                  \
    {                                                                                                             \
        .ml_name = name, .ml_meth = function, .ml_flags = METH_O, .ml_doc = doc                                   \
    }
#define SOME(name, function, doc)                                                                                 \
    {                                                                                                             \
        .ml_name = name, .ml_meth = function, .ml_flags = METH_VARARGS, .ml_doc = doc                             \
    }

PyMethodDef gt__py_signal_functions[] = {
    SOME("signal_enter", py_enter, "signal_enter(name, backward=None)"),
    ONE("signal_exit", py_exit, "signal_exit(name)"),
    SOME("signal_tensor", py_tensor, "signal_tensor(tensor, name): a copy placed as the signal says."),
    ONE("signal_mark", py_mark, "signal_mark(name): a mark in the stream, for logs."),
    ONE("placement", py_placement, "placement(tensor): where it lives, as text; waits for the answer."),
    ONE("config_load", py_load, "config_load(path): read signals from a YAML file."),
    SOME("config_set", py_set, "config_set(name, shard, backward, compile, schedule=None)"),
    ONE("config_get", py_get, "config_get(name): (shard, backward, compile, schedule) or None."),
    NOARGS("config_names", py_names, "config_names(): the signals that have a config."),
    {.ml_name = NULL},
};
