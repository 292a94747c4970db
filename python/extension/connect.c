/*
 * connect.c: which client a thread uses, how waits release the GIL, how failures become exceptions.
 *
 * A thread that called connect has its own client, kept in the thread state's dictionary. All other threads share
 * the process's default client, an embedded server that is started with the first tensor. The thread that holds
 * the GIL may use any client that is not `waiting`. A thread that waits releases the GIL in the wait hooks;
 * other threads that want the same client queue for it in gt__py_client_turn, and get it in order.
 */
#include "extension.h"
#include "client/hotpath.h"
#include "pyengine.h"

#include <pthread.h>
#include <structmember.h>
#include <time.h>
#include <unistd.h>

typedef struct ConnectionObject {
    PyObject_HEAD gt_client *client; /* NULL once closed */
    PyObject *device;                /* of its tensors, once client/device.py has asked for it */
} ConnectionObject;

/* All open clients, to be closed at exit; some have outlived their ConnectionObject. */
typedef struct OpenClient {
    struct OpenClient *next;
    gt_client *client;
    ConnectionObject *connection; /* borrowed; NULL if it was freed before the client's last tensor */
} OpenClient;

PyTypeObject *gt__py_connection_type;
static OpenClient *open_clients;
static ConnectionObject *default_connection;
static int default_workers = 1;
static bool default_opening; /* a thread is starting the default client's server */
static PyObject *value_error, *type_error, *index_error, *linalg_error, *connection_error, *timeout_error,
    *current_key, *memory_error;

/* ---- errors ---------------------------------------------------------------------------------------------- */

/* Whether the current exception is a KeyboardInterrupt without a text. */
static bool is_plain_interrupt(void)
{
    PyObject *type, *value, *traceback;
    if (PyErr_Occurred() != PyExc_KeyboardInterrupt)
        return false;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *arguments = value ? PyObject_GetAttrString(value, "args") : NULL;
    bool plain = arguments && PyTuple_Check(arguments) && PyTuple_GET_SIZE(arguments) == 0;
    Py_XDECREF(arguments);
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    return plain;
}

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
        type = index_error;
        break;
    case GT_ERR_MEMORY:
        type = memory_error;
        break;
    case GT_ERR_CONNECTION:
    case GT_ERR_PROTOCOL:
        type = connection_error;
        break;
    case GT_ERR_TIMEOUT:
        type = timeout_error;
        break;
    case GT_ERR_INTERRUPTED:
        type = PyExc_KeyboardInterrupt;
        break;
    case GT_ERR_LINALG:
        type = linalg_error;
        break;
    case GT_ERR_UNSUPPORTED:
        type = PyExc_NotImplementedError;
        break;
    default:
        break;
    }
    /* Keep the exception of the signal handler, unless it is Python's own, which says nothing. */
    if (err != GT_ERR_INTERRUPTED || !PyErr_Occurred() || is_plain_interrupt())
        PyErr_SetString(type, gt_error_text());
    return NULL;
}

/* ---- waiting --------------------------------------------------------------------------------------------- */

enum { LOOK_UP_MS = 100 }; /* how often a thread that sleeps here handles signals */

static _Thread_local int own_waits; /* nested waits of this thread */

static void *wait_before(void)
{
    own_waits++;
    return PyEval_SaveThread();
}

static void wait_after(void *state)
{
    PyEval_RestoreThread(state);
    own_waits--;
}

static bool wait_interrupted(void)
{
    PyGILState_STATE state = PyGILState_Ensure();
    own_waits++; /* the client stays locked while the handler runs */
    bool interrupted = PyErr_CheckSignals() != 0;
    own_waits--;
    PyGILState_Release(state);
    return interrupted;
}

/* Notebooks, tests and log files replace sys.stderr: it knows whether a person reads it. */
static bool wait_has_terminal(void)
{
    PyGILState_STATE state = PyGILState_Ensure();
    own_waits++;
    PyObject *type, *value, *traceback, *answer = NULL, *number = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *stream = PySys_GetObject("stderr"); /* borrowed */
    if (stream && stream != Py_None && (number = PyObject_CallMethod(stream, "fileno", NULL)) &&
        PyLong_AsLong(number) == STDERR_FILENO)
        answer = PyObject_CallMethod(stream, "isatty", NULL);
    bool terminal = answer && PyObject_IsTrue(answer) == 1;
    Py_XDECREF(number);
    Py_XDECREF(answer);
    PyErr_Clear(); /* a stream without these methods is no terminal */
    PyErr_Restore(type, value, traceback);
    own_waits--;
    PyGILState_Release(state);
    return terminal;
}

/* In a signal handler the interrupted wait cannot end before the handler does. */
static int refuse_in_handler(void)
{
    if (!own_waits)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "a signal handler cannot use a client that its thread is waiting for");
    return -1;
}

/* A forked child leaves the parent's clients alone: their threads and sockets belong to the parent. */
static bool is_foreign(const gt_client *client)
{
    return client->generation != gt__fork_generation;
}

/* A thread that waited when the process forked does not exist in the child. */
static bool is_taken(const gt_client *client)
{
    return client->waiting && !is_foreign(client);
}

/* Queue for a client. Other threads run meanwhile. */
static int await_turn(gt_client *client)
{
    gt_turn turn;
    int status = refuse_in_handler();
    if (status < 0)
        return status;
    if (gt__embedded_serves()) {
        gt__py_raise(gt__embedded_refuse());
        return -1;
    }
    gt__turn_join(client, &turn);
    for (;;) {
        PyThreadState *state = PyEval_SaveThread();
        gt__turn_wait(client, &turn, LOOK_UP_MS);
        PyEval_RestoreThread(state);
        if (gt__turn_take(client, &turn))
            return 0;
        gt__turn_away(client, &turn, true); /* a signal handler may want the client, too */
        status = PyErr_CheckSignals();
        gt__turn_away(client, &turn, false);
        if (status < 0) {
            gt__turn_leave(client, &turn);
            return status;
        }
    }
}

int gt__py_client_turn(gt_client *client)
{
    gt__py_pin(client);
    int status = is_taken(client) ? await_turn(client) : 0;
    if (status == 0 && client->closed) {
        PyErr_SetString(connection_error, gt__client_end(client));
        status = -1;
    }
    gt__py_unpin(client);
    return status;
}

gt_tensor *gt__py_use_later(PyObject *self)
{
    gt_tensor *tensor;
    /* Meanwhile the object may have got a tensor of another client, or an alias. */
    while (tensor = ((TensorObject *)self)->tensor, is_taken(tensor->client))
        if (gt__py_client_turn(tensor->client) < 0)
            return NULL;
    return ((TensorObject *)self)->alias ? gt__py_cut(self) : tensor;
}

/* ---- opening and closing --------------------------------------------------------------------------------- */

/* Remove a client from the list; false: it was closed before. */
static bool forget_client(gt_client *client)
{
    OpenClient **link = &open_clients;
    while (*link && (*link)->client != client)
        link = &(*link)->next;
    OpenClient *entry = *link;
    if (!entry)
        return false;
    *link = entry->next;
    if (entry->connection)
        entry->connection->client = NULL;
    PyMem_Free(entry);
    return true;
}

/* Closing joins the threads of an embedded server, without the GIL. Other threads no longer find the client in the list. */
static void close_client(gt_client *client)
{
    if (!forget_client(client) || is_foreign(client))
        return;
    gt_client *closing = client;
    gt__py_pin(client);
    client->usable = false;
    client->waiting = true;
    PyThreadState *state = PyEval_SaveThread();
    gt_client_close(&closing);
    PyEval_RestoreThread(state);
    gt__client_unlock(client);
    gt__py_unpin(client);
}

/* Close clients of ended threads that have no tensors left. */
static void reap_orphans(void)
{
    OpenClient *entry = open_clients;
    while (entry)
        if (!entry->connection && !is_taken(entry->client) && entry->client->live == 0) {
            close_client(entry->client);
            entry = open_clients; /* other threads ran: the list may have changed */
        } else {
            entry = entry->next;
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
    connection->device = NULL;
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
    Py_XDECREF(((ConnectionObject *)self)->device);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *connection_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    ConnectionObject *connection = (ConnectionObject *)self;
    if (connection->client && gt__py_enter(connection->client) < 0) {
        if (connection->client || !PyErr_ExceptionMatches(connection_error))
            return NULL;
        PyErr_Clear(); /* another thread closed it while we waited */
    }
    if (connection->client)
        close_client(connection->client);
    Py_RETURN_NONE;
}

/* A client that can be closed at exit: no thread waits on it. */
static gt_client *next_to_close(void)
{
    OpenClient *entry = open_clients;
    while (entry && (is_foreign(entry->client) || (entry->client->waiting && !entry->client->reserved)))
        entry = entry->next;
    return entry ? entry->client : NULL;
}

/* At exit, without releasing the GIL: other threads could only fail on a closed client. But workers whose engine is in Python,
 * and dispatchers with a modifier in Python, need it to end. A client on which a thread still waits is left to the end of the process. */
static PyObject *close_all(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    for (gt_client *client; (client = next_to_close());)
        if (gt__py_code_open)
            close_client(client);
        else if (forget_client(client))
            gt_client_close(&client);
    Py_RETURN_NONE;
}

/* ---- the current client ---------------------------------------------------------------------------------- */

/* Connect, to the session that is detached under `token` unless that is NULL, or without an address start an embedded server. Other
 * threads run meanwhile. NULL: exception. */
static gt_client *open_client(const char *address, const char *key_file, int timeout_ms, const char *token,
                              int workers)
{
    for (;;) {
        gt_client *client;
        PyThreadState *state = PyEval_SaveThread();
        gt_err err = address ? gt__client_open(address, key_file, timeout_ms, token, &client)
                             : gt_client_open_embedded(workers, &client);
        PyEval_RestoreThread(state);
        if (err == GT_OK)
            return client;
        if (err != GT_ERR_INTERRUPTED) {
            gt__py_raise(err);
            return NULL;
        }
        if (PyErr_Occurred() || PyErr_CheckSignals() < 0)
            return NULL;
        /* A signal handler ran and did not raise: try again. */
    }
}

/* The seed of the next embedded client, so that a data-loading process that computes nothing starts no server. */
static uint64_t first_seed;
static bool has_first_seed;

static bool has_default(void)
{
    return default_connection && default_connection->client && !is_foreign(default_connection->client);
}

static pthread_mutex_t opening_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opening_ended = PTHREAD_COND_INITIALIZER;
static uint64_t openings; /* that ended; written with the GIL and the mutex held */

/* Another thread opens the default client: let it run until it has ended, or for a short time. The caller checks again. */
static int await_opening(void)
{
    if (refuse_in_handler() < 0)
        return -1;
    uint64_t seen = openings;
    PyThreadState *state = PyEval_SaveThread();
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_UP_MS * 1000 * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&opening_mutex);
    int status = 0;
    while (openings == seen && status == 0)
        status = pthread_cond_timedwait(&opening_ended, &opening_mutex, &until);
    pthread_mutex_unlock(&opening_mutex);
    PyEval_RestoreThread(state);
    return PyErr_CheckSignals();
}

static int open_default(void)
{
    default_opening = true;
    gt_client *client = open_client(NULL, NULL, 0, NULL, default_workers);
    if (client && has_first_seed)
        gt_manual_seed(client, first_seed);
    ConnectionObject *connection = client ? connection_new(client) : NULL;
    if (connection)
        Py_XSETREF(default_connection, connection);
    default_opening = has_first_seed = false;
    pthread_mutex_lock(&opening_mutex);
    openings++;
    pthread_cond_broadcast(&opening_ended);
    pthread_mutex_unlock(&opening_mutex);
    return connection ? 0 : -1;
}

static gt_client *default_client(void)
{
    while (!has_default())
        if ((default_opening ? await_opening() : open_default()) < 0)
            return NULL;
    return default_connection->client;
}

/* A forked child has one thread: no other could wake it. */
static void reset_in_child(void)
{
    pthread_mutex_init(&opening_mutex, NULL);
    pthread_cond_init(&opening_ended, NULL);
    own_waits = 0;
    default_opening = false;
}

/* Borrowed; NULL without an exception if this thread never connected. */
static ConnectionObject *thread_connection(void)
{
    PyObject *state = PyThreadState_GetDict();
    return state ? (ConnectionObject *)PyDict_GetItemWithError(state, current_key) : NULL;
}

bool gt__py_waiting_seed(uint64_t *seed)
{
    *seed = first_seed;
    return has_first_seed;
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
    static const char *const names[] = {"address", "timeout", "key_file", "weight", "token"};
    PyObject *values[5];
    if (gt__py_parse("open", args, nargs, kwnames, names, 5, 5, values) < 0)
        return NULL;
    if (!values[0] || !PyUnicode_Check(values[0]))
        return PyErr_Format(PyExc_TypeError, "connect() needs an address, 'host:port', not %s",
                            values[0] ? Py_TYPE(values[0])->tp_name : "nothing");
    const char *address = PyUnicode_AsUTF8(values[0]);
    if (!address)
        return NULL;
    double seconds = values[1] && values[1] != Py_None ? PyFloat_AsDouble(values[1]) : 0;
    if (seconds == -1 && PyErr_Occurred())
        return NULL;
    if (!(seconds >= 0 && seconds < 1e6)) {
        PyErr_SetString(PyExc_ValueError, "timeout must be a number of seconds, not negative");
        return NULL;
    }
    bool weighs = values[3] && values[3] != Py_None;
    double weight = weighs ? PyFloat_AsDouble(values[3]) : 1;
    if (weight == -1 && PyErr_Occurred())
        return NULL;
    if (!(weight > 0 && weight <= 1e6)) {
        PyErr_SetString(PyExc_ValueError, "weight must be a number above 0 and up to 1000000");
        return NULL;
    }
    int timeout_ms = seconds > 0 && seconds < 0.001 ? 1 : (int)(seconds * 1000);
    PyObject *key_file = NULL; /* bytes */
    if (values[2] && values[2] != Py_None && !PyUnicode_FSConverter(values[2], &key_file))
        return NULL;
    const char *token = values[4] && values[4] != Py_None ? PyUnicode_AsUTF8(values[4]) : NULL;
    gt_client *client = PyErr_Occurred() ? NULL
                                         : open_client(address, key_file ? PyBytes_AS_STRING(key_file) : NULL,
                                                       timeout_ms, token, 0);
    Py_XDECREF(key_file);
    if (!client)
        return NULL;
    gt_err err = weighs ? gt_client_set_weight(client, weight) : GT_OK;
    if (err != GT_OK) {
        gt__py_raise(err);
        close_client(client);
        return NULL;
    }
    reap_orphans();
    return (PyObject *)connection_new(client);
}

static PyObject *py_open_embedded(PyObject *module, PyObject *workers)
{
    (void)module;
    int64_t count;
    if (gt__py_int64(workers, &count) < 0)
        return NULL;
    gt_client *client = open_client(NULL, NULL, 0, NULL, count >= 0 && count <= INT_MAX ? (int)count : -1);
    return client ? (PyObject *)connection_new(client) : NULL;
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
    if (count < 1 || count > GT_MAX_EMBEDDED_WORKERS)
        return PyErr_Format(PyExc_ValueError, "an embedded server has 1 to %d workers, not %lld",
                            GT_MAX_EMBEDDED_WORKERS, (long long)count);
    if (has_default() || default_opening) {
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
    if (!number)
        return NULL;
    uint64_t value = PyLong_AsUnsignedLongLongMask(number);
    Py_DECREF(number);
    if (has_first_seed) {
        first_seed = value;
        return Py_NewRef(Py_None);
    }
    gt_client *client = gt__py_client();
    if (!client)
        return NULL;
    gt_manual_seed(client, value);
    return Py_NewRef(Py_None);
}

static PyObject *py_seed_later(PyObject *module, PyObject *seed)
{
    first_seed = PyLong_AsUnsignedLongLongMask(seed);
    has_first_seed = !PyErr_Occurred();
    (void)module;
    return has_first_seed ? Py_NewRef(Py_None) : NULL;
}

static ConnectionObject *connection_if_open(void);

/* The client of this thread while another thread waits for an answer to it. NULL: none, or it is free. Borrowed. */
static gt_client *client_in_use(void)
{
    const ConnectionObject *connection = connection_if_open();
    gt_client *client = connection ? connection->client : NULL;
    return client && !client->closed && __atomic_load_n(&client->waiting, __ATOMIC_ACQUIRE) ? client : NULL;
}

static PyObject *py_stats(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    static const char *const names[] = {"workers", "wait"};
    PyObject *values[2];
    bool workers = false, wait = true;
    if (gt__py_parse("stats", args, nargs, kwnames, names, 2, 2, values) < 0 ||
        gt__py_flag(values[0], &workers) < 0 || gt__py_flag(values[1], &wait) < 0)
        return NULL;
    gt_client *client = wait ? NULL : client_in_use();
    char *json;
    if (!client && !(client = gt__py_client()))
        return NULL;
    gt__py_pin(client); /* other threads run meanwhile, and may close it */
    gt_err err = wait ? gt__client_stats(client, workers, &json) : gt__client_stats_now(client, workers, &json);
    gt__py_unpin(client);
    if (err != GT_OK)
        return gt__py_raise(err);
    PyObject *text = PyUnicode_FromString(json);
    free(json);
    return text;
}

/* _progress(show): whether progress was shown so far. */
static PyObject *py_progress(PyObject *module, PyObject *show)
{
    (void)module;
    int wanted = PyObject_IsTrue(show);
    return wanted < 0 ? NULL : PyBool_FromLong(gt__progress_show(wanted));
}

static PyObject *py_hot_paths(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    gt_client *client = client_in_use();
    if (!client && !(client = gt__py_client()))
        return NULL;
    char *json = gt__hotpath_json(client);
    if (!json)
        return PyErr_NoMemory();
    PyObject *text = PyUnicode_FromString(json);
    free(json);
    return text;
}

static gt_client *usable_client(const ConnectionObject *connection)
{
    return connection && connection->client && !is_foreign(connection->client) ? connection->client : NULL;
}

/* The connection that this thread uses, if it is open already; never opens one. Borrowed. */
static ConnectionObject *connection_if_open(void)
{
    ConnectionObject *connection = thread_connection();
    if (!connection && !PyErr_Occurred() && has_default())
        connection = default_connection;
    PyErr_Clear();
    return usable_client(connection) ? connection : NULL;
}

static PyObject *py_region_enter(PyObject *module, PyObject *number)
{
    (void)module;
    unsigned long region = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return NULL;
    ConnectionObject *connection = connection_if_open();
    if (!connection)
        Py_RETURN_NONE;
    Py_INCREF(connection);
    gt_err err = gt__hotpath_enter(connection->client, region);
    if (err != GT_OK) {
        Py_DECREF(connection);
        return gt__py_raise(err);
    }
    return (PyObject *)connection;
}

/* The thread may use another connection by now than when it entered. */
static PyObject *py_region_leave(PyObject *module, PyObject *entered)
{
    (void)module;
    if (entered == Py_None)
        Py_RETURN_NONE;
    if (!PyObject_TypeCheck(entered, gt__py_connection_type))
        return PyErr_Format(PyExc_TypeError, "_region_leave takes what _region_enter returned, not %s",
                            Py_TYPE(entered)->tp_name);
    gt_client *client = usable_client((ConnectionObject *)entered);
    gt_err err = client ? gt__hotpath_leave(client) : GT_OK;
    if (err != GT_OK)
        return gt__py_raise(err);
    Py_RETURN_NONE;
}

static PyObject *py_site(PyObject *module, PyObject *number)
{
    (void)module;
    char text[256] = "";
    unsigned long site = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return NULL;
    if (site && site <= UINT32_MAX && gt__site_hooks.name)
        gt__site_hooks.name((uint32_t)site, text, sizeof text);
    return PyUnicode_FromString(text);
}

PyMethodDef gt__py_connect_functions[] = {
    FAST("open", py_open,
         "open(address, timeout=None, key_file=None, weight=None, token=None): a Connection to the server at "
         "host:port; token: to the session that is detached under it."),
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
    {.ml_name = "_seed_later",
     .ml_meth = py_seed_later,
     .ml_flags = METH_O,
     .ml_doc =
         "_seed_later(seed): the seed of the embedded client that the next operation opens. Opens none itself."},
    {.ml_name = "manual_seed",
     .ml_meth = py_manual_seed,
     .ml_flags = METH_O,
     .ml_doc = "manual_seed(seed): make random numbers repeat from here."},
    FAST("stats", py_stats,
         "stats(workers=False, wait=True): the dispatcher's statistics as JSON, once it has taken this client's "
         "instructions; if workers, once they have executed them; unless wait, 20 ms later at most."),
    {.ml_name = "_progress", .ml_meth = py_progress, .ml_flags = METH_O},
    NOARGS("_hot_paths", py_hot_paths, "What the client knows of its hot paths, as JSON."),
    {.ml_name = "_region_enter",
     .ml_meth = py_region_enter,
     .ml_flags = METH_O,
     .ml_doc = "_region_enter(number): what is issued until _region_leave() should become a hot path. Returns the "
               "connection, None if there is none yet."},
    {.ml_name = "_region_leave",
     .ml_meth = py_region_leave,
     .ml_flags = METH_O,
     .ml_doc = "_region_leave(entered): the end of the region; what _region_enter returned."},
    {.ml_name = "_site",
     .ml_meth = py_site,
     .ml_flags = METH_O,
     .ml_doc = "_site(number): the place in the program, file:line."},
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

static PyObject *connection_waiting(PyObject *self, void *closure)
{
    (void)closure;
    const gt_client *client = ((ConnectionObject *)self)->client;
    return PyBool_FromLong(client && is_taken(client));
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
        {.name = "waiting", .get = connection_waiting, .doc = "Whether some thread waits for its server now."},
        {.name = NULL},
    };
    static PyMemberDef members[] = {
        {.name = "_device", .type = T_OBJECT, .offset = offsetof(ConnectionObject, device)},
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
        SLOT(Py_tp_members, members),
        SLOT(Py_tp_methods, methods),
        SLOT(Py_tp_doc, "Connection()\n--\n\nA client's connection to a server, or its embedded server."),
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
    /* Shape errors are RuntimeErrors in PyTorch and ValueErrors in NumPy: these are both. An index out of range is a RuntimeError
     * in some of PyTorch's functions (gather, scatter), an IndexError in others. A server that does not answer
     * in time is a connection that failed. */
    if (add_exception(module, "GtError", PyExc_RuntimeError, PyExc_ValueError, &value_error) < 0 ||
        add_exception(module, "GtTypeError", PyExc_TypeError, PyExc_RuntimeError, &type_error) < 0 ||
        add_exception(module, "GtIndexError", PyExc_IndexError, PyExc_RuntimeError, &index_error) < 0 ||
        add_exception(module, "OutOfMemoryError", PyExc_RuntimeError, PyExc_MemoryError, &memory_error) < 0 ||
        add_exception(module, "LinAlgError", PyExc_RuntimeError, PyExc_ValueError, &linalg_error) < 0 ||
        add_exception(module, "GtConnectionError", PyExc_ConnectionError, PyExc_RuntimeError, &connection_error) <
            0 ||
        add_exception(module, "GtTimeoutError", connection_error, PyExc_TimeoutError, &timeout_error) < 0)
        return -1;
    pthread_atfork(NULL, NULL, reset_in_child);
    gt__wait_hooks = (gt_wait_hooks){.before = wait_before,
                                     .after = wait_after,
                                     .interrupted = wait_interrupted,
                                     .has_terminal = wait_has_terminal};
    return register_at_exit(module);
}
