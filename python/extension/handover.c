/* handover.c: gt.detach() and gt.attach(), as far as they are not Python: gt/client/handover.py has the rest. */
#include "extension.h"
#include "client/handover.h"

static void release_all(gt_tensor **tensors, Py_ssize_t count)
{
    for (Py_ssize_t k = 0; k < count; k++)
        gt_tensor_release(tensors[k]);
    PyMem_Free(tensors);
}

/* The values of a list of Tensor objects, retained. */
static gt_tensor **hold_all(PyObject *list, Py_ssize_t count)
{
    gt_tensor **tensors = PyMem_Malloc(((size_t)count + 1) * sizeof *tensors);
    if (!tensors)
        return (gt_tensor **)PyErr_NoMemory();
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *object = PyList_GET_ITEM(list, k);
        if (!gt__py_is_tensor(object))
            PyErr_Format(PyExc_TypeError, "_detach takes tensors, not %s", Py_TYPE(object)->tp_name);
        if (PyErr_Occurred() || !(tensors[k] = gt__py_hold(object))) {
            release_all(tensors, k);
            return NULL;
        }
    }
    return tensors;
}

/* _detach(tensors, note): leave this thread's session with the server; returns the token. The connection is to be closed. */
static PyObject *py_detach(PyObject *module, gt_py_args args, Py_ssize_t nargs)
{
    (void)module;
    char token[GT_TOKEN_SIZE];
    if (nargs != 2 || !PyList_Check(args[0]) || !PyBytes_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "_detach(list of tensors, bytes)");
    gt_client *client = gt__py_client();
    Py_ssize_t count = PyList_GET_SIZE(args[0]);
    gt_tensor **tensors = client ? hold_all(args[0], count) : NULL;
    if (!tensors)
        return NULL;
    gt__py_pin(client); /* other threads run meanwhile, and may close it */
    gt_err err = gt__client_detach(client, tensors, (size_t)count, PyBytes_AS_STRING(args[1]),
                                   (size_t)PyBytes_GET_SIZE(args[1]), token);
    release_all(tensors, count);
    gt__py_unpin(client);
    return err == GT_OK ? PyUnicode_FromString(token) : gt__py_raise(err);
}

/* _token(token): the server's address and the secret, to open a connection with. */
static PyObject *py_token(PyObject *module, PyObject *token)
{
    (void)module;
    char address[GT_TOKEN_SIZE], secret[GT_TOKEN_SIZE];
    const char *text = PyUnicode_Check(token) ? PyUnicode_AsUTF8(token) : "";
    gt_err err = text ? gt__handover_token(text, address, secret) : GT_OK;
    if (!text)
        return NULL;
    return err == GT_OK ? Py_BuildValue("(ss)", address, secret) : gt__py_raise(err);
}

/* The tensors of a parcel as objects; takes those that become one. */
static PyObject *wrap_all(gt_parcel *parcel)
{
    PyObject *list = PyList_New((Py_ssize_t)parcel->count);
    for (size_t k = 0; list && k < parcel->count; k++) {
        PyObject *object = gt__py_wrap(parcel->tensors[k]);
        parcel->tensors[k] = NULL;
        if (object)
            PyList_SET_ITEM(list, (Py_ssize_t)k, object);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* _collect(): the tensors and the note of the session that this thread's client has attached. */
static PyObject *py_collect(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    gt_parcel parcel;
    gt_client *client = gt__py_client();
    if (!client)
        return NULL;
    gt__py_pin(client);
    gt_err err = gt__client_collect(client, &parcel);
    PyObject *result = NULL, *tensors = err == GT_OK ? wrap_all(&parcel) : gt__py_raise(err);
    if (tensors)
        result = Py_BuildValue("(Ny#)", tensors, (const char *)parcel.note, (Py_ssize_t)parcel.note_bytes);
    gt_parcel_free(&parcel);
    gt__py_unpin(client);
    return result;
}

PyMethodDef gt__py_handover_functions[] = {
    {.ml_name = "_detach", .ml_meth = (PyCFunction)(void (*)(void))py_detach, .ml_flags = METH_FASTCALL},
    {.ml_name = "_token", .ml_meth = py_token, .ml_flags = METH_O},
    NOARGS("_collect", py_collect, NULL),
    {.ml_name = NULL},
};
