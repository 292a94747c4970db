/*
 * server.c: dispatchers and workers that live in a Python process, and the `gt` command.
 *
 * They run without the GIL, in the thread that calls run(), until stop() from another thread. The classes of
 * python/gt/dispatcher and python/gt/worker are built on these.
 */
#include "extension.h"

#include "command.h"
#include "dispatcher/dispatcher.h"
#include "worker/worker.h"

/* ---- dispatcher ------------------------------------------------------------------------------------------ */

typedef struct DispatcherObject {
    PyObject_HEAD gt_dispatcher *dispatcher;
    bool running;
} DispatcherObject;

static PyObject *dispatcher_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"host", "port", "log", "console", "insecure", "key_file", "allow_keys", NULL};
    const char *host = NULL, *log = NULL, *key_file = NULL, *allow_keys = NULL;
    int port = 0, console = 0, insecure = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|zizppzz:Dispatcher", names, &host, &port, &log, &console,
                                     &insecure, &key_file, &allow_keys))
        return NULL;
    if (port < 0 || port > 65535)
        return PyErr_Format(PyExc_ValueError, "a port is a number from 0 to 65535, not %d", port);
    DispatcherObject *self = (DispatcherObject *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    gt_dispatcher_options options = {.host = host,
                                     .port = port,
                                     .listen = true,
                                     .insecure = insecure,
                                     .key_file = key_file,
                                     .allow_keys = allow_keys};
    options.observer = (gt_observer_options){.log = log, .console = console};
    gt_err err = gt__dispatcher_new(&options, &self->dispatcher);
    if (err == GT_OK)
        return (PyObject *)self;
    Py_DECREF(self);
    return gt__py_raise(err);
}

static void dispatcher_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    gt__dispatcher_free(&((DispatcherObject *)object)->dispatcher);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *dispatcher_run(PyObject *object, PyObject *unused)
{
    (void)unused;
    DispatcherObject *self = (DispatcherObject *)object;
    if (self->running)
        return PyErr_Format(PyExc_RuntimeError, "this dispatcher is running already");
    gt_err err;
    self->running = true;
    Py_BEGIN_ALLOW_THREADS err = gt__dispatcher_run(self->dispatcher);
    Py_END_ALLOW_THREADS self->running = false;
    return err == GT_OK ? Py_NewRef(Py_None) : gt__py_raise(err);
}

static PyObject *dispatcher_stop(PyObject *object, PyObject *unused)
{
    (void)unused;
    gt__dispatcher_stop(((DispatcherObject *)object)->dispatcher);
    Py_RETURN_NONE;
}

static PyObject *dispatcher_port(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromLong(gt__dispatcher_port(((DispatcherObject *)object)->dispatcher));
}

/* ---- worker ---------------------------------------------------------------------------------------------- */

typedef struct WorkerObject {
    PyObject_HEAD atomic_bool stop;
} WorkerObject;

static PyObject *worker_run(PyObject *object, PyObject *args)
{
    WorkerObject *self = (WorkerObject *)object;
    const char *address, *name = NULL, *backend = NULL, *key_file = NULL;
    double seconds = 0;
    if (!PyArg_ParseTuple(args, "s|zzdz:run", &address, &name, &backend, &seconds, &key_file))
        return NULL;
    if (!(seconds >= 0 && seconds < 1e6))
        return PyErr_Format(PyExc_ValueError, "timeout must be a number of seconds, not negative");
    gt_worker_options options = {
        .name = name,
        .backend = backend,
        .address = address,
        .key_file = key_file,
        .timeout_ms = (int)(seconds * 1000),
        .stop = &self->stop,
        .stop_poll_ms = 200,
    };
    gt_err err;
    Py_BEGIN_ALLOW_THREADS err = gt__worker_run(&options, NULL);
    Py_END_ALLOW_THREADS return err == GT_OK ? Py_NewRef(Py_None) : gt__py_raise(err);
}

static PyObject *worker_stop(PyObject *object, PyObject *unused)
{
    (void)unused;
    atomic_store(&((WorkerObject *)object)->stop, true);
    Py_RETURN_NONE;
}

static void plain_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
}

/* ---- the command ----------------------------------------------------------------------------------------- */

static PyObject *py_main(PyObject *module, PyObject *arguments)
{
    (void)module;
    return gt__py_command(arguments, NULL);
}

PyMethodDef gt__py_server_functions[] = {
    {.ml_name = "main",
     .ml_meth = py_main,
     .ml_flags = METH_O,
     .ml_doc =
         "main(arguments): run the gt command, as in main(['server', '-p', '12345']); returns its exit status."},
    {.ml_name = NULL},
};

static int add_type(PyObject *module, const char *name, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);
    int status = type ? PyModule_AddObjectRef(module, name, type) : -1;
    Py_XDECREF(type);
    return status;
}

int gt__py_server_init(PyObject *module)
{
    static PyMethodDef dispatcher_methods[] = {
        NOARGS("run", dispatcher_run, "run(): serve until stop()."),
        NOARGS("stop", dispatcher_stop, "stop(): end run(), from any thread."),
        {.ml_name = NULL},
    };
    static PyGetSetDef dispatcher_attributes[] = {
        {.name = "port", .get = dispatcher_port, .doc = "The port it listens on."},
        {.name = NULL},
    };
    static PyType_Slot dispatcher_slots[] = {
        SLOT(Py_tp_new, dispatcher_new),
        SLOT(Py_tp_dealloc, dispatcher_dealloc),
        SLOT(Py_tp_methods, dispatcher_methods),
        SLOT(Py_tp_getset, dispatcher_attributes),
        SLOT(Py_tp_doc, "Dispatcher(host=None, port=0, log=None, console=False, insecure=False): listens from now "
                        "on, serves in run()."),
        {.slot = 0},
    };
    static PyType_Spec dispatcher_spec = {
        .name = "gt._gt.Dispatcher",
        .basicsize = sizeof(DispatcherObject),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = dispatcher_slots,
    };
    static PyMethodDef worker_methods[] = {
        {.ml_name = "run",
         .ml_meth = worker_run,
         .ml_flags = METH_VARARGS,
         .ml_doc = "run(address, name=None, backend=None, timeout=0): work until the server goes or stop()."},
        NOARGS("stop", worker_stop, "stop(): end run(), from any thread."),
        {.ml_name = NULL},
    };
    static PyType_Slot worker_slots[] = {
        SLOT(Py_tp_dealloc, plain_dealloc),
        SLOT(Py_tp_methods, worker_methods),
        SLOT(Py_tp_doc, "Worker(): executes for a server in run()."),
        {.slot = 0},
    };
    static PyType_Spec worker_spec = {
        .name = "gt._gt.Worker",
        .basicsize = sizeof(WorkerObject),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = worker_slots,
    };
    return add_type(module, "Dispatcher", &dispatcher_spec) < 0 || add_type(module, "Worker", &worker_spec) < 0
               ? -1
               : 0;
}
