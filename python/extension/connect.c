/*
 * connect.c: which client a thread uses, what waiting does to the GIL, how failures become exceptions.
 *
 * A thread that called connect has its own client, kept in the thread state's dictionary; every other thread
 * shares the process's default client, an embedded server started with the first tensor. A client belongs to
 * the GIL: whoever holds it may use any client that is not `waiting`. A thread that waits releases the GIL
 * first (the wait hooks), and the others that want the same client sleep in gt__py_client_turn until it is
 * back.
 */
#include "extension.h"

#include <pthread.h>
#include <time.h>

typedef struct ConnectionObject {
    PyObject_HEAD gt_client *client; /* NULL once closed */
} ConnectionObject;

/* Every client that was opened and not closed, for exit; some have outlived their ConnectionObject. */
typedef struct OpenClient {
    struct OpenClient *next;
    gt_client *client;
    ConnectionObject *connection; /* borrowed; NULL when it is gone but tensors of it are not */
} OpenClient;

PyTypeObject *gt__py_connection_type;
static OpenClient *open_clients;
static ConnectionObject *default_connection;
static int default_workers = 1;
static PyObject *value_error, *type_error, *connection_error, *current_key;

/* ---- errors ---------------------------------------------------------------------------------------------- */

PyObject *gt__py_raise(gt_err err)
{
    PyObject *type = PyExc_RuntimeError;
    switch (err) {
    case GT_ERR_VALUE:
        type = value_error;
        break;
    case GT_ERR_TYPE:
        type = type_error;
        break;
    case GT_ERR_INDEX:
        type = PyExc_IndexError;
        break;
    case GT_ERR_MEMORY:
        type = PyExc_MemoryError;
        break;
    case GT_ERR_CONNECTION:
        type = connection_error;
        break;
    case GT_ERR_TIMEOUT:
        type = PyExc_TimeoutError;
        break;
    case GT_ERR_INTERRUPTED:
        type = PyExc_KeyboardInterrupt;
        break;
    case GT_ERR_UNSUPPORTED:
        type = PyExc_NotImplementedError;
        break;
    default:
        break;
    }
    /* The signal's own exception says more than ours. */
    if (err != GT_ERR_INTERRUPTED || !PyErr_Occurred())
        PyErr_SetString(type, gt_error_text());
    return NULL;
}

/* ---- waiting --------------------------------------------------------------------------------------------- */

static pthread_mutex_t turn_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static uint64_t turns;              /* waits that ended; written with the GIL and the mutex held */
static _Thread_local int own_waits; /* waits this thread is inside of */

static void *wait_before(void)
{
    own_waits++;
    return PyEval_SaveThread();
}

static void wait_after(void *state)
{
    PyEval_RestoreThread(state);
    own_waits--;
    pthread_mutex_lock(&turn_mutex);
    turns++;
    pthread_cond_broadcast(&turn_changed);
    pthread_mutex_unlock(&turn_mutex);
}

static bool wait_interrupted(void)
{
    PyGILState_STATE state = PyGILState_Ensure();
    own_waits++; /* the client still waits while the handler runs */
    bool interrupted = PyErr_CheckSignals() != 0;
    own_waits--;
    PyGILState_Release(state);
    return interrupted;
}

int gt__py_client_turn(gt_client *client)
{
    while (client->waiting) {
        if (own_waits) { /* only a signal handler can get here, and the wait it interrupted cannot end before it */
            PyErr_SetString(PyExc_RuntimeError,
                            "a signal handler cannot use a client that its thread is waiting for");
            return -1;
        }
        uint64_t seen = turns;
        Py_BEGIN_ALLOW_THREADS struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100 * 1000 * 1000; /* wake now and then for signals */
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&turn_mutex);
        int status = 0;
        while (turns == seen && status == 0)
            status = pthread_cond_timedwait(&turn_changed, &turn_mutex, &until);
        pthread_mutex_unlock(&turn_mutex);
        Py_END_ALLOW_THREADS if (PyErr_CheckSignals() < 0) return -1;
    }
    return 0;
}

/* A child of fork has one thread, and no thread that could wake it. */
static void reset_in_child(void)
{
    pthread_mutex_init(&turn_mutex, NULL);
    pthread_cond_init(&turn_changed, NULL);
    own_waits = 0;
}

/* ---- opening and closing --------------------------------------------------------------------------------- */

static bool is_foreign(const gt_client *client)
{
    return client->generation != gt__fork_generation;
}

/* In a forked child the parent's clients are left alone: their threads and sockets are not ours. */
static void close_client(gt_client *client)
{
    OpenClient **link = &open_clients;
    while (*link && (*link)->client != client)
        link = &(*link)->next;
    OpenClient *entry = *link;
    if (!entry)
        return;
    *link = entry->next;
    if (entry->connection)
        entry->connection->client = NULL;
    PyMem_Free(entry);
    if (!is_foreign(client))
        gt_client_close(&client);
}

/* Close the clients of ended threads whose last tensor is gone. */
static void reap_orphans(void)
{
    for (OpenClient *entry = open_clients, *next; entry; entry = next) {
        next = entry->next;
        if (!entry->connection && !entry->client->waiting && entry->client->live == 0)
            close_client(entry->client);
    }
}

/* Takes the client. */
static ConnectionObject *connection_new(gt_client *client)
{
    OpenClient *entry = PyMem_Malloc(sizeof *entry);
    ConnectionObject *connection = entry ? PyObject_New(ConnectionObject, gt__py_connection_type) : NULL;
    if (!connection) {
        PyMem_Free(entry);
        gt_client_close(&client);
        return (ConnectionObject *)PyErr_NoMemory();
    }
    *entry = (OpenClient){.next = open_clients, .client = client, .connection = connection};
    open_clients = entry;
    connection->client = client;
    return connection;
}

static void connection_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    for (OpenClient *entry = open_clients; entry; entry = entry->next)
        if (entry->connection == (ConnectionObject *)self)
            entry->connection = NULL;
    reap_orphans();
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *connection_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    ConnectionObject *connection = (ConnectionObject *)self;
    if (connection->client && !is_foreign(connection->client) && gt__py_enter(connection->client) < 0)
        return NULL;
    if (connection->client)
        close_client(connection->client);
    Py_RETURN_NONE;
}

/* At exit. A client that some thread still waits for cannot be closed under it; the system will. */
static PyObject *close_all(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    for (OpenClient *entry = open_clients, *next; entry; entry = next) {
        next = entry->next;
        if (!is_foreign(entry->client) && !entry->client->waiting)
            close_client(entry->client);
    }
    Py_RETURN_NONE;
}

/* ---- the current client ---------------------------------------------------------------------------------- */

static gt_client *default_client(void)
{
    if (default_connection && default_connection->client && !is_foreign(default_connection->client))
        return default_connection->client;
    gt_client *client;
    gt_err err = gt_client_open_embedded(default_workers, &client);
    if (err != GT_OK) {
        gt__py_raise(err);
        return NULL;
    }
    ConnectionObject *connection = connection_new(client);
    if (!connection)
        return NULL;
    Py_XSETREF(default_connection, connection);
    return client;
}

/* Borrowed; NULL without an exception if this thread never connected. */
static ConnectionObject *thread_connection(void)
{
    PyObject *state = PyThreadState_GetDict();
    return state ? (ConnectionObject *)PyDict_GetItemWithError(state, current_key) : NULL;
}

gt_client *gt__py_client(void)
{
    ConnectionObject *connection = thread_connection();
    gt_client *client;
    if (!connection) {
        client = PyErr_Occurred() ? NULL : default_client();
    } else {
        client = connection->client;
        if (client && is_foreign(client)) {
            PyErr_SetString(PyExc_RuntimeError,
                            "this client was connected before fork(): call gt.connect in the child");
            return NULL;
        }
        if (!client)
            PyErr_SetString(connection_error, "this thread's client is closed: call gt.connect");
    }
    return client && gt__py_enter(client) == 0 ? client : NULL;
}

/* ---- module functions ------------------------------------------------------------------------------------ */

static PyObject *py_open(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    static const char *const names[] = {"address", "timeout"};
    PyObject *values[2];
    if (gt__py_parse("open", args, nargs, kwnames, names, 2, 2, values) < 0)
        return NULL;
    const char *address = values[0] ? PyUnicode_AsUTF8(values[0]) : NULL;
    if (!address) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "open() needs an address, \"host:port\"");
        return NULL;
    }
    double seconds = values[1] && values[1] != Py_None ? PyFloat_AsDouble(values[1]) : 0;
    if (seconds == -1 && PyErr_Occurred())
        return NULL;
    if (!(seconds >= 0 && seconds < 1e6)) {
        PyErr_SetString(PyExc_ValueError, "timeout must be a number of seconds, not negative");
        return NULL;
    }
    gt_client *client;
    gt_err err;
    int timeout_ms = seconds > 0 && seconds < 0.001 ? 1 : (int)(seconds * 1000);
    do {
        Py_BEGIN_ALLOW_THREADS err = gt_client_connect(address, timeout_ms, &client);
        Py_END_ALLOW_THREADS if (PyErr_CheckSignals() < 0)
        {
            if (err == GT_OK)
                gt_client_close(&client);
            return NULL;
        }
    } while (err == GT_ERR_INTERRUPTED); /* by a signal whose handler did not raise */
    reap_orphans();
    return err == GT_OK ? (PyObject *)connection_new(client) : gt__py_raise(err);
}

static PyObject *py_open_embedded(PyObject *module, PyObject *workers)
{
    (void)module;
    int64_t count;
    gt_client *client;
    if (gt__py_int64(workers, &count) < 0)
        return NULL;
    gt_err err = gt_client_open_embedded((int)count, &client);
    return err == GT_OK ? (PyObject *)connection_new(client) : gt__py_raise(err);
}

static PyObject *py_use(PyObject *module, PyObject *connection)
{
    (void)module;
    PyObject *state = PyThreadState_GetDict();
    if (connection != Py_None && Py_TYPE(connection) != gt__py_connection_type)
        return PyErr_Format(PyExc_TypeError, "expected a Connection or None, not %s",
                            Py_TYPE(connection)->tp_name);
    if (!state)
        return PyErr_NoMemory();
    int status = 0;
    if (connection != Py_None)
        status = PyDict_SetItem(state, current_key, connection);
    else if (PyDict_Contains(state, current_key) == 1)
        status = PyDict_DelItem(state, current_key);
    return status < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *py_current(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    ConnectionObject *connection = thread_connection();
    if (!connection && PyErr_Occurred())
        return NULL;
    if (!connection)
        connection = default_connection;
    return Py_NewRef(connection && connection->client ? (PyObject *)connection : Py_None);
}

static PyObject *py_gpu_workers(PyObject *module, PyObject *workers)
{
    (void)module;
    int64_t count;
    if (gt__py_int64(workers, &count) < 0)
        return NULL;
    if (count < 1 || count > 1024)
        return PyErr_Format(PyExc_ValueError, "the number of workers must be between 1 and 1024, not %lld",
                            (long long)count);
    if (default_connection && default_connection->client && !is_foreign(default_connection->client)) {
        PyErr_SetString(PyExc_RuntimeError, "gpu_workers() must be called before the first tensor operation");
        return NULL;
    }
    default_workers = (int)count;
    Py_RETURN_NONE;
}

static PyObject *py_synchronize(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    gt_client *client = gt__py_client();
    if (!client)
        return NULL;
    gt_err err = gt_synchronize(client);
    return err == GT_OK ? Py_NewRef(Py_None) : gt__py_raise(err);
}

static PyObject *py_manual_seed(PyObject *module, PyObject *seed)
{
    (void)module;
    PyObject *number = PyNumber_Index(seed);
    gt_client *client = number ? gt__py_client() : NULL;
    if (client)
        gt_manual_seed(client, PyLong_AsUnsignedLongLongMask(number));
    Py_XDECREF(number);
    return client ? Py_NewRef(Py_None) : NULL;
}

static PyObject *py_stats(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    gt_client *client = gt__py_client();
    char *json;
    if (!client)
        return NULL;
    gt_err err = gt__client_stats(client, &json);
    if (err != GT_OK)
        return gt__py_raise(err);
    PyObject *text = PyUnicode_FromString(json);
    free(json);
    return text;
}

PyMethodDef gt__py_connect_functions[] = {
    FAST("open", py_open, "open(address, timeout=None): a Connection to the server at host:port."),
    {.ml_name = "open_embedded",
     .ml_meth = py_open_embedded,
     .ml_flags = METH_O,
     .ml_doc = "open_embedded(workers): a Connection to a server inside this process."},
    {.ml_name = "use",
     .ml_meth = py_use,
     .ml_flags = METH_O,
     .ml_doc = "use(connection): make it this thread's client; None: the process's default one."},
    NOARGS("current", py_current, "current(): the Connection this thread uses, None before the first."),
    {.ml_name = "gpu_workers",
     .ml_meth = py_gpu_workers,
     .ml_flags = METH_O,
     .ml_doc = "gpu_workers(n): workers of the embedded server; before the first tensor."},
    NOARGS("synchronize", py_synchronize,
           "synchronize(): wait until everything emitted so far has been executed."),
    {.ml_name = "manual_seed",
     .ml_meth = py_manual_seed,
     .ml_flags = METH_O,
     .ml_doc = "manual_seed(seed): make rand, randn and randint repeat from here."},
    NOARGS("stats", py_stats, "stats(): the dispatcher's statistics as JSON text."),
    NOARGS("_close_all", close_all, "Close every client; runs at exit."),
    {.ml_name = NULL},
};

/* ---- the type -------------------------------------------------------------------------------------------- */

static PyObject *connection_description(PyObject *self, void *closure)
{
    (void)closure;
    gt_client *client = ((ConnectionObject *)self)->client;
    return PyUnicode_FromString(client ? gt_client_description(client) : "closed");
}

static PyObject *connection_closed(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((ConnectionObject *)self)->client == NULL);
}

static PyObject *connection_repr(PyObject *self)
{
    gt_client *client = ((ConnectionObject *)self)->client;
    return PyUnicode_FromFormat("<gt.Connection %s>", client ? gt_client_description(client) : "closed");
}

static int add_exception(PyObject *module, const char *name, PyObject *base0, PyObject *base1, PyObject **type)
{
    char full[64];
    PyOS_snprintf(full, sizeof full, "gt.%s", name);
    PyObject *bases = PyTuple_Pack(2, base0, base1);
    *type = bases ? PyErr_NewException(full, bases, NULL) : NULL;
    Py_XDECREF(bases);
    return *type ? PyModule_AddObjectRef(module, name, *type) : -1;
}

static int register_at_exit(PyObject *module)
{
    PyObject *close = PyObject_GetAttrString(module, "_close_all");
    PyObject *atexit = PyImport_ImportModule("atexit");
    PyObject *done = close && atexit ? PyObject_CallMethod(atexit, "register", "O", close) : NULL;
    Py_XDECREF(close);
    Py_XDECREF(atexit);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

int gt__py_connect_init(PyObject *module)
{
    static PyGetSetDef attributes[] = {
        {.name = "description",
         .get = connection_description,
         .doc = "Where this client's tensors live, in words."},
        {.name = "closed", .get = connection_closed, .doc = "Whether it was closed."},
        {.name = NULL},
    };
    static PyMethodDef methods[] = {
        NOARGS("close", connection_close, "Disconnect; tensors of this client cannot be used any more."),
        {.ml_name = NULL},
    };
    static PyType_Slot slots[] = {
        SLOT(Py_tp_dealloc, connection_dealloc),
        SLOT(Py_tp_repr, connection_repr),
        SLOT(Py_tp_getset, attributes),
        SLOT(Py_tp_methods, methods),
        SLOT(Py_tp_doc, "A client's connection to a server, or its embedded server."),
        {.slot = 0},
    };
    static PyType_Spec spec = {
        .name = "gt.Connection",
        .basicsize = sizeof(ConnectionObject),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    gt__py_connection_type = (PyTypeObject *)PyType_FromSpec(&spec);
    current_key = PyUnicode_InternFromString("gt.connection");
    if (!gt__py_connection_type || !current_key)
        return -1;
    if (PyModule_AddObjectRef(module, "Connection", (PyObject *)gt__py_connection_type) < 0)
        return -1;
    /* Shape errors are RuntimeErrors in PyTorch and ValueErrors in NumPy: these are both. */
    if (add_exception(module, "GtError", PyExc_RuntimeError, PyExc_ValueError, &value_error) < 0 ||
        add_exception(module, "GtTypeError", PyExc_TypeError, PyExc_RuntimeError, &type_error) < 0 ||
        add_exception(module, "GtConnectionError", PyExc_ConnectionError, PyExc_RuntimeError, &connection_error) <
            0)
        return -1;
    pthread_atfork(NULL, NULL, reset_in_child);
    gt__wait_hooks = (gt_wait_hooks){.before = wait_before, .after = wait_after, .interrupted = wait_interrupted};
    return register_at_exit(module);
}
