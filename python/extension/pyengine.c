/*
 * pyengine.c: an engine that is a Python class: gt_engine_ops on top of a Python object. Read pyengine.h first.
 *
 * The worker's thread takes the GIL for each call and releases it afterwards. Everything that the worker waits for it waits
 * for without the GIL. An op that the class has no method for, and a call that its method declines, is computed by the
 * reference engine on the host and counted. A method declines by returning NotImplemented or raising NotImplementedError, as
 * PyTorch does for dtypes that a function does not take.
 */
#include "pyengine.h"

#include <limits.h>

#include "core/log.h"
#include "engines/host_memory.h"
#include "engines/loader.h"

/* A registered class. Never freed: workers use the table. */
typedef struct registration {
    struct registration *next;
    gt_engine_ops ops;
    char name[80];
    PyObject *type;
} registration;

static registration *registrations; /* guarded by the GIL */
unsigned gt__py_code_open;

static gt_py_engine *python_of(gt_engine *engine)
{
    return (gt_py_engine *)engine;
}

/* ---- exceptions ------------------------------------------------------------------------------------------------ */

static gt_err error_of(PyObject *type)
{
    const struct {
        PyObject *type;
        gt_err err;
    } known[] = {
        {.type = PyExc_MemoryError, .err = GT_ERR_MEMORY},
        {.type = PyExc_IndexError, .err = GT_ERR_INDEX},
        {.type = PyExc_TypeError, .err = GT_ERR_TYPE},
    };
    const char *name = ((PyTypeObject *)type)->tp_name;
    if (strstr(name, "OutOfMemoryError"))
        return GT_ERR_MEMORY;
    if (strstr(name, "LinAlgError"))
        return GT_ERR_LINALG;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (PyErr_GivenExceptionMatches(type, known[k].type))
            return known[k].err;
    return PyErr_GivenExceptionMatches(type, PyExc_ValueError) ? GT_ERR_VALUE : GT_ERR_INTERNAL;
}

/* A str as bytes in UTF-8 that are a C string: lone surrogates and NULs are escaped. NULL with an exception if that fails. */
static PyObject *plain_bytes(PyObject *text)
{
    PyObject *nul = PyUnicode_FromOrdinal(0), *escape = PyUnicode_FromString("\\x00");
    PyObject *whole = nul && escape ? PyUnicode_Replace(text, nul, escape, -1) : NULL;
    PyObject *bytes = whole ? PyUnicode_AsEncodedString(whole, "utf-8", "backslashreplace") : NULL;
    Py_XDECREF(whole);
    Py_XDECREF(escape);
    Py_XDECREF(nul);
    return bytes;
}

/* " (file.py:12)" */
static void write_place(PyCodeObject *code, long line, char *text, size_t size)
{
    PyObject *file = plain_bytes(code->co_filename);
    if (file)
        PyOS_snprintf(text, size, " (%s:%ld)", PyBytes_AS_STRING(file), line);
    PyErr_Clear();
    Py_XDECREF(file);
}

/* The frame that says most: the innermost of the folder that the engine is in, or of all. NULL: there is none. */
static PyTracebackObject *telling_frame(PyTracebackObject *trace, PyObject *folder)
{
    PyTracebackObject *last = folder ? NULL : trace;
    for (; trace; trace = trace->tb_next) {
        PyCodeObject *code = PyFrame_GetCode(trace->tb_frame);
        if (!folder ||
            (PyUnicode_Tailmatch(code->co_filename, folder, 0, PY_SSIZE_T_MAX, -1) == 1 &&
             PyUnicode_FindChar(code->co_filename, '/', PyUnicode_GET_LENGTH(folder), PY_SSIZE_T_MAX, 1) < 0))
            last = trace;
        Py_DECREF(code);
    }
    return last;
}

/* The folder of the file that a method is defined in, with its slash. NULL: it is not a function of Python's. */
static PyObject *folder_of(PyObject *method)
{
    PyObject *code = method ? PyObject_GetAttrString(method, "__code__") : NULL, *folder = NULL;
    if (code && PyCode_Check(code)) {
        PyObject *file = ((PyCodeObject *)code)->co_filename;
        Py_ssize_t slash = PyUnicode_FindChar(file, '/', 0, PyUnicode_GET_LENGTH(file), -1);
        folder = PyUnicode_Substring(file, 0, slash + 1);
    }
    PyErr_Clear();
    Py_XDECREF(code);
    return folder;
}

/* Where the exception was raised, in the engine of this method if it came from there. */
static void place_of(PyObject *trace, PyObject *method, char *text, size_t size)
{
    PyObject *folder = folder_of(method);
    PyTracebackObject *last = telling_frame((PyTracebackObject *)trace, folder);
    Py_XDECREF(folder);
    text[0] = 0;
    if (!last)
        return;
    PyCodeObject *code = PyFrame_GetCode(last->tb_frame);
    PyObject *line = PyObject_GetAttrString((PyObject *)last, "tb_lineno");
    if (line)
        write_place(code, PyLong_AsLong(line), text, size);
    PyErr_Clear();
    Py_XDECREF(line);
    Py_DECREF(code);
}

/* Where a method is defined; "" if it is not a function of Python's. */
static void place_of_method(PyObject *method, char *text, size_t size)
{
    PyObject *code = PyObject_GetAttrString(method, "__code__");
    text[0] = 0;
    if (code && PyCode_Check(code))
        write_place((PyCodeObject *)code, ((PyCodeObject *)code)->co_firstlineno, text, size);
    PyErr_Clear();
    Py_XDECREF(code);
}

/* The current exception as a failure: `what` was done, its type, text and line; where no line of the engine raised it, that of
 * `method`, which may be NULL. */
static gt_err fail_in(const char *what, PyObject *method)
{
    PyObject *type, *value, *trace;
    char place[512];
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    place_of(trace, method, place, sizeof place);
    if (!place[0] && method)
        place_of_method(method, place, sizeof place);
    PyObject *words = value ? PyObject_Str(value) : NULL;
    PyObject *text = words ? plain_bytes(words) : NULL;
    gt_err err = error_of(type);
    const char *name = ((PyTypeObject *)type)->tp_name;
    gt__error_set("%s%s: %.600s%s", what, name, text ? PyBytes_AS_STRING(text) : "", place);
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(words);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return err;
}

gt_err gt__py_engine_fail(const char *what)
{
    return fail_in(what, NULL);
}

/* ---- calls that the class does not run --------------------------------------------------------------------------- */

/* Call the class's method `write` or `read` with bytes of the host, which it may use during the call only. */
static gt_err lend_bytes(gt_py_engine *e, const char *method, const gt_py_block *block, size_t offset, void *host,
                         size_t bytes)
{
    gt_view all = {.data = host, .contiguous = true, .stride = {1}};
    gt__meta_set(&all.meta, GT_UINT8, 1, (int64_t[]){(int64_t)bytes});
    gt_err err = GT_OK;
    PyObject *memory = Py_NewRef(block->memory);
    EngineView *view = gt__py_engine_view(&all, strcmp(method, "read") == 0, NULL);
    PyObject *data = view ? PyMemoryView_FromObject((PyObject *)view) : NULL;
    PyObject *done = data ? PyObject_CallMethod(e->object, method, "OnO", memory, (Py_ssize_t)offset, data) : NULL;
    if (!done)
        err = gt__py_engine_fail("");
    PyObject *released = data ? PyObject_CallMethod(data, "release", NULL) : NULL;
    PyErr_Clear(); /* a memoryview with exports: the view knows of them too */
    if (view && gt__py_engine_view_end(view) && err == GT_OK)
        err = gt__fail(GT_ERR_INTERNAL, "%s keeps its data", method);
    Py_XDECREF(released);
    Py_XDECREF(done);
    Py_XDECREF(data);
    Py_DECREF(memory);
    return err;
}

/* Copy `bytes` between the engine's own memory and the host's. */
static gt_err transfer(gt_py_engine *e, const char *method, void *address, void *host, size_t bytes)
{
    if (!bytes)
        return GT_OK;
    PyEval_RestoreThread(e->thread);
    const gt_py_block *block = gt__py_memory_find(&e->memory, address);
    gt_err err = block ? lend_bytes(e, method, block, (uintptr_t)address - block->address, host, bytes)
                       : gt__fail(GT_ERR_INTERNAL, "%s: not an address of this engine", method);
    PyEval_SaveThread();
    return err;
}

/* A copy of a view's memory on the host, from its lowest address to its highest; free() *copy. `host` is a view on it. */
static gt_err fetch_view(gt_py_engine *e, const gt_view *view, gt_view *host, void **copy)
{
    int64_t size = (int64_t)gt__dtype_size((gt_dtype)view->meta.dtype), low = 0, high = 0;
    for (unsigned axis = 0; axis < view->meta.rank && view->meta.numel; axis++) {
        int64_t reach = view->stride[axis] * (view->meta.shape[axis] - 1);
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    size_t bytes = view->meta.numel ? (size_t)((high - low + 1) * size) : 0;
    *host = *view;
    *copy = malloc(bytes + 1);
    if (!*copy)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    host->data = (char *)*copy - low * size;
    return transfer(e, "read", (char *)view->data + low * size, *copy, bytes);
}

static gt_err run_far(gt_py_engine *e, const gt_call *call)
{
    gt_call host = *call;
    gt_view out, *in = calloc(call->operands + 1, sizeof *in);
    const gt_view **views = calloc(call->operands + 1, sizeof *views);
    void **copies = calloc(call->operands + 1, sizeof *copies);
    gt_err err = in && views && copies ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
    size_t bytes = gt__meta_bytes(&call->out->meta);
    for (unsigned k = 0; k < call->operands && err == GT_OK; k++) {
        views[k] = call->in[k];
        if (k >= GT_MAX_OPERANDS || !(call->literals >> k & 1)) {
            err = fetch_view(e, call->in[k], &in[k], &copies[k]);
            views[k] = &in[k];
        }
    }
    void *result = err == GT_OK ? malloc(bytes + 1) : NULL;
    if (err == GT_OK && !result)
        err = gt__fail(GT_ERR_MEMORY, "out of memory");
    if (err == GT_OK) {
        out = *call->out;
        out.data = result;
        host.in = views;
        host.out = &out;
        err = e->reference->ops->run(e->reference, &host, &(gt_token){0});
    }
    if (err == GT_OK)
        err = transfer(e, "write", call->out->data, result, bytes);
    for (unsigned k = 0; copies && k < call->operands; k++)
        free(copies[k]);
    free(result);
    free(copies);
    free(views);
    free(in);
    return err;
}

static gt_err run_on_host(gt_py_engine *e, const gt_call *call)
{
    if (e->host_calls[call->op]++ == 0)
        gt__log(GT_LOG_WORKER, "%s: %s runs on the host", e->engine.ops->name, gt__op_table[call->op].name);
    return e->engine.ops->host_memory ? e->reference->ops->run(e->reference, call, &(gt_token){0})
                                      : run_far(e, call);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

PyObject *gt__py_engine_operand(const gt_py_engine *e, const gt_view *view, bool writable)
{
    const gt_py_block *block = NULL;
    if (!e->engine.ops->host_memory && !(block = gt__py_memory_find(&e->memory, view->data))) {
        PyErr_SetString(PyExc_SystemError, "an operand is not in the engine's memory");
        return NULL;
    }
    return (PyObject *)gt__py_engine_view(view, writable, block);
}

/* Fill args with the result, the operands and the attributes; *count: those that were made. -1: exception. */
static int make_arguments(const gt_py_engine *e, const gt_call *call, PyObject **args, unsigned *count,
                          PyObject **names)
{
    if (!(args[0] = gt__py_engine_operand(e, call->out, true)))
        return -1;
    *count = 1;
    for (unsigned k = 0; k < call->operands; k++) {
        bool literal = call->literals && k < GT_MAX_OPERANDS && call->literals >> k & 1;
        if (!(args[*count] =
                  literal ? gt__py_call_literal(call, k) : gt__py_engine_operand(e, call->in[k], false)))
            return -1;
        ++*count;
    }
    int attributes = gt__py_call_attributes(call, &args[*count], names);
    *count += attributes > 0 ? (unsigned)attributes : 0;
    return attributes < 0 ? -1 : 0;
}

/* True: an array still uses the memory of a view. */
static bool end_arguments(const gt_call *call, PyObject **args, unsigned count)
{
    bool kept = false;
    for (unsigned k = 0; k < count; k++) {
        bool literal = k > call->operands || (k && k <= GT_MAX_OPERANDS && call->literals >> (k - 1) & 1);
        if (literal)
            Py_DECREF(args[k]);
        else
            kept |= gt__py_engine_view_end((EngineView *)args[k]);
    }
    return kept;
}

static int store_result(const gt_py_engine *e, PyObject *out, PyObject *result)
{
    PyObject *stored = PyObject_CallFunctionObjArgs(e->store, out, result, NULL);
    Py_XDECREF(stored);
    return stored ? 0 : -1;
}

/* With the GIL. *declined: the method did not compute it. */
static gt_err call_method(gt_py_engine *e, const gt_call *call, bool *declined)
{
    PyObject *room[2 + GT_MAX_CAT + GT_PY_ATTRIBUTES], **args = room + 1, *names = NULL, *result = NULL;
    unsigned count = 0;
    gt_err err = GT_OK;
    if (make_arguments(e, call, args, &count, &names) == 0)
        result = PyObject_Vectorcall(e->methods[call->op], args,
                                     (1 + call->operands) | PY_VECTORCALL_ARGUMENTS_OFFSET, names);
    bool failed = !result;
    if (result && result != Py_None && result != Py_NotImplemented)
        failed = store_result(e, args[0], result) < 0;
    *declined = result == Py_NotImplemented || (failed && PyErr_ExceptionMatches(PyExc_NotImplementedError));
    if (failed && *declined)
        PyErr_Clear();
    else if (failed)
        err = fail_in("", e->methods[call->op]);
    Py_XDECREF(result);
    if (UNLIKELY(end_arguments(call, args, count)) && !e->told[call->op]) {
        e->told[call->op] = true;
        gt__log_warning(
            "backend %s: the method %s keeps an array of its operands or result, whose memory gets other "
            "contents now",
            e->engine.ops->name, gt__op_table[call->op].name);
    }
    return err;
}

static gt_err python_run(gt_engine *engine, const gt_call *call, gt_token *token)
{
    (void)token;
    gt_py_engine *e = python_of(engine);
    bool declined = true;
    gt_err err = GT_OK;
    if (e->methods[call->op]) {
        PyEval_RestoreThread(e->thread);
        err = call_method(e, call, &declined);
        PyEval_SaveThread();
    }
    return declined ? run_on_host(e, call) : err;
}

static uint32_t python_host_calls(gt_engine *engine, gt_opcode op)
{
    return python_of(engine)->host_calls[op];
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static gt_err host_alloc(gt_engine *engine, size_t bytes, void **memory)
{
    gt_engine *reference = python_of(engine)->reference;
    return reference->ops->alloc(reference, bytes, memory);
}

static void host_release(gt_engine *engine, void *memory, size_t bytes)
{
    gt_engine *reference = python_of(engine)->reference;
    reference->ops->release(reference, memory, bytes);
}

static gt_err host_write(gt_engine *engine, void *to, const void *host, size_t bytes, bool timed, gt_token *token)
{
    gt_engine *reference = python_of(engine)->reference;
    return reference->ops->write(reference, to, host, bytes, timed, token);
}

static gt_err host_read(gt_engine *engine, const void *from, void *host, size_t bytes, bool timed, gt_token *token)
{
    gt_engine *reference = python_of(engine)->reference;
    return reference->ops->read(reference, from, host, bytes, timed, token);
}

static uint64_t host_memory_limit(gt_engine *engine, unsigned sharers)
{
    (void)engine;
    return gt__memory_limit(sharers);
}

static gt_err own_alloc(gt_engine *engine, size_t bytes, void **memory)
{
    gt_py_engine *e = python_of(engine);
    PyEval_RestoreThread(e->thread);
    PyObject *object = PyObject_CallMethod(e->object, "allocate", "n", (Py_ssize_t)bytes);
    gt_err err = object ? gt__py_memory_add(&e->memory, bytes, object, memory) : gt__py_engine_fail("");
    PyEval_SaveThread();
    return err;
}

static void own_release(gt_engine *engine, void *memory, size_t bytes)
{
    (void)bytes;
    gt_py_engine *e = python_of(engine);
    PyEval_RestoreThread(e->thread);
    Py_XDECREF(gt__py_memory_remove(&e->memory, memory));
    PyEval_SaveThread();
}

static gt_err own_write(gt_engine *engine, void *to, const void *host, size_t bytes, bool timed, gt_token *token)
{
    (void)timed;
    (void)token;
    return transfer(python_of(engine), "write", to, (void *)host, bytes);
}

static gt_err own_read(gt_engine *engine, const void *from, void *host, size_t bytes, bool timed, gt_token *token)
{
    (void)timed;
    (void)token;
    return transfer(python_of(engine), "read", (void *)from, host, bytes);
}

/* A number that a method of the class returns; `fallback` if it fails, which is printed. */
static uint64_t ask_number(gt_py_engine *e, const char *method, unsigned argument, uint64_t fallback)
{
    PyEval_RestoreThread(e->thread);
    PyObject *bound = PyObject_GetAttrString(e->object, method);
    PyObject *number = bound ? PyObject_CallFunction(bound, "I", argument) : NULL;
    uint64_t answer = fallback;
    if (number && PyIndex_Check(number))
        answer = PyLong_AsUnsignedLongLongMask(number);
    else if (number) {
        char place[512];
        place_of_method(bound, place, sizeof place);
        gt__log_error("backend %s: %s must return an int, not %.100s%s", e->engine.ops->name, method,
                      Py_TYPE(number)->tp_name, place);
    }
    if (PyErr_Occurred()) {
        gt__py_engine_fail("");
        gt__log_error("backend %s: %s: %s", e->engine.ops->name, method, gt_error_text());
        answer = fallback;
    }
    Py_XDECREF(number);
    Py_XDECREF(bound);
    PyEval_SaveThread();
    return answer;
}

static uint64_t own_memory_limit(gt_engine *engine, unsigned sharers)
{
    return ask_number(python_of(engine), "memory_limit", sharers, gt__memory_limit(sharers));
}

static uint64_t own_memory_identity(gt_engine *engine)
{
    return ask_number(python_of(engine), "memory_identity", 0, gt__memory_identity());
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* An attribute that may be missing; NULL without an exception if it is. */
static PyObject *optional_attribute(PyObject *object, const char *name)
{
    PyObject *value = PyObject_GetAttrString(object, name);
    if (!value && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return value;
}

static int find_methods(gt_py_engine *e)
{
    for (unsigned op = 1; op < GT_OP_FIRST_CONTROL; op++) {
        PyObject *method = optional_attribute(e->object, gt__op_table[op].name);
        if (PyErr_Occurred())
            return -1;
        if (method == Py_None)
            Py_CLEAR(method);
        e->methods[op] = method;
        if (method && !PyCallable_Check(method)) {
            PyErr_Format(PyExc_TypeError, "%s is not a method", gt__op_table[op].name);
            return -1;
        }
    }
    e->store = PyObject_GetAttrString(e->object, "store");
    return e->store ? 0 : -1;
}

/* With the GIL: drop everything of Python's. */
static void drop_objects(gt_py_engine *e)
{
    gt__py_memory_clear(&e->memory);
    for (unsigned op = 0; op < GT_OP_COUNT; op++)
        Py_CLEAR(e->methods[op]);
    Py_CLEAR(e->store);
    Py_CLEAR(e->object);
}

static void python_close(gt_engine *engine)
{
    gt_py_engine *e = python_of(engine);
    PyEval_RestoreThread(e->thread);
    PyObject *done = PyObject_CallMethod(e->object, "close", NULL);
    if (!done) {
        gt__py_engine_fail("");
        gt__log_error("backend %s: close: %s", engine->ops->name, gt_error_text());
    }
    Py_XDECREF(done);
    drop_objects(e);
    gt__py_code_open--;
    PyGILState_Release(e->gil);
    e->reference->ops->close(e->reference);
    free(e);
}

static gt_err python_open(const gt_engine_options *options, gt_engine **engine)
{
    const gt_engine_ops *ops = options->ops;
    if (!ops || ops->open != python_open)
        return gt__fail(GT_ERR_INTERNAL, "an engine in Python is opened without its table");
    const registration *r = (const registration *)(const void *)((const char *)ops - offsetof(registration, ops));
    gt_py_engine *e = calloc(1, sizeof *e);
    if (!e)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_engine_options for_reference = *options;
    for_reference.ops = &gt__engine_reference;
    gt_err err = gt__engine_reference.open(&for_reference, &e->reference);
    if (err != GT_OK) {
        free(e);
        return err;
    }
    e->engine.ops = ops;
    e->gil = PyGILState_Ensure();
    e->object = PyObject_CallFunction(r->type, "i", options->threads);
    if (e->object && find_methods(e) == 0) {
        *engine = &e->engine;
        gt__py_code_open++;
        e->thread = PyEval_SaveThread();
        return GT_OK;
    }
    char what[128];
    PyOS_snprintf(what, sizeof what, "backend '%s' cannot be opened: ", r->name);
    err = gt__py_engine_fail(what);
    drop_objects(e);
    PyGILState_Release(e->gil);
    e->reference->ops->close(e->reference);
    free(e);
    return err;
}

/* ---- registration ------------------------------------------------------------------------------------------------ */

static registration *find_registration(const char *name)
{
    registration *r = registrations;
    while (r && strcmp(r->name, name) != 0)
        r = r->next;
    return r;
}

static gt_engine_ops table_of(const char *name, bool host_memory, bool compiles)
{
    return (gt_engine_ops){.name = name,
                           .host_memory = host_memory,
                           .open = python_open,
                           .close = python_close,
                           .memory_limit = host_memory ? host_memory_limit : own_memory_limit,
                           .memory_identity = host_memory ? NULL : own_memory_identity,
                           .alloc = host_memory ? host_alloc : own_alloc,
                           .release = host_memory ? host_release : own_release,
                           .write = host_memory ? host_write : own_write,
                           .read = host_memory ? host_read : own_read,
                           .run = python_run,
                           .compile = compiles ? gt__py_program_compile : NULL,
                           .run_program = compiles ? gt__py_program_run : NULL,
                           .free_program = compiles ? gt__py_program_free : NULL,
                           .host_calls = python_host_calls};
}

static bool is_built_in(const char *name)
{
    return strcmp(name, gt__engine_cpu.name) == 0 || strcmp(name, gt__engine_reference.name) == 0 ||
           strcmp(name, gt__engine_null.name) == 0 || strcmp(name, "cuda") == 0;
}

/* Whether the class uses the host's memory. -1: exception. */
static int uses_host_memory(PyObject *type)
{
    if (!PyType_Check(type)) {
        PyErr_Format(PyExc_TypeError, "an engine is a class, not %R", type);
        return -1;
    }
    PyObject *host = PyObject_GetAttrString(type, "host_memory");
    int host_memory = host ? PyObject_IsTrue(host) : -1;
    Py_XDECREF(host);
    if (!host && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Format(PyExc_TypeError, "%R is no engine, it has no host_memory: derive it from gt.engines.Engine",
                     type);
    return host_memory;
}

static PyObject *py_register(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name;
    PyObject *type;
    if (!PyArg_ParseTuple(args, "sO:register", &name, &type))
        return NULL;
    if (!gt__plugin_name_valid(name) || is_built_in(name))
        return PyErr_Format(PyExc_ValueError, "'%s' cannot be the name of an engine: %s", name,
                            is_built_in(name) ? "there is a built-in one" : "it takes letters, digits, - and _");
    if (find_registration(name)) /* a worker may use its table, so it cannot change */
        return PyErr_Format(PyExc_ValueError, "there is an engine '%s' already", name);
    int host_memory = uses_host_memory(type);
    if (host_memory < 0)
        return NULL;
    PyObject *compile = optional_attribute(type, "compile");
    bool compiles = compile && compile != Py_None;
    Py_XDECREF(compile);
    if (PyErr_Occurred())
        return NULL;
    registration *r = PyMem_Calloc(1, sizeof *r);
    if (!r)
        return PyErr_NoMemory();
    PyOS_snprintf(r->name, sizeof r->name, "%s", name);
    r->ops = table_of(r->name, host_memory != 0, compiles);
    r->type = Py_NewRef(type);
    r->next = registrations;
    registrations = r;
    Py_RETURN_NONE;
}

/* A function of python/gt/engines. NULL: exception. */
static PyObject *call_package(const char *function, const char *argument)
{
    PyObject *package = PyImport_ImportModule("gt.engines");
    PyObject *result = NULL;
    if (package)
        result = argument ? PyObject_CallMethod(package, function, "s", argument)
                          : PyObject_CallMethod(package, function, NULL);
    Py_XDECREF(package);
    return result;
}

/* Any thread, with or without the GIL. */
static gt_err find_engine(const char *name, const gt_engine_ops **ops)
{
    gt_err err = GT_OK;
    PyGILState_STATE gil = PyGILState_Ensure();
    registration *r = find_registration(name);
    if (!r) {
        PyObject *done = call_package("_load", name); /* registers it, if there is such a module */
        r = find_registration(name);
        if (!done && !r) {
            char what[128];
            PyOS_snprintf(what, sizeof what, "backend '%s' cannot be loaded: ", name);
            gt__py_engine_fail(what);
            err = GT_ERR_VALUE;
        }
        PyErr_Clear(); /* another thread registered it meanwhile */
        Py_XDECREF(done);
    }
    if (r)
        *ops = &r->ops;
    PyGILState_Release(gil);
    return err;
}

static void list_names(char *text, size_t size)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *names = call_package("_listed", NULL);
    const char *list = names ? PyUnicode_AsUTF8(names) : NULL;
    PyOS_snprintf(text, size, "%s", list ? list : "");
    PyErr_Clear();
    Py_XDECREF(names);
    PyGILState_Release(gil);
}

static PyObject *py_registered(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *names = PyList_New(0);
    for (const registration *r = registrations; names && r; r = r->next) {
        PyObject *name = PyUnicode_FromString(r->name);
        if (!name || PyList_Append(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

PyMethodDef gt__py_engine_functions[] = {
    {.ml_name = "_engine_register",
     .ml_meth = py_register,
     .ml_flags = METH_VARARGS,
     .ml_doc = "_engine_register(name, cls): make a class an engine."},
    NOARGS("_engine_names", py_registered, "_engine_names(): the names of registered engines."),
    {.ml_name = NULL},
};

int gt__py_engine_init(PyObject *module)
{
    gt__engine_finder = (gt_engine_finder){.find = find_engine, .names = list_names};
    return gt__py_engine_view_init(module);
}
