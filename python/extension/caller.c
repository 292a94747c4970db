/*
 * caller.c: the base of gt.nn.Module. A call runs forward(), or the path with hooks; attributes that the module does not have are
 * looked up among its parameters, buffers and children. The dictionaries of both are ordinary entries of the module's __dict__,
 * as in PyTorch, so each call reads them anew, unless nothing has been written to them: programs replace them and write into
 * them. Read next: python/gt/nn/module.py.
 */
#include "extension.h"

enum { HOOK_KINDS = 4, TABLES = 3 };
enum { PARAMETERS, BUFFERS, MODULES };                           /* tables */
enum { NATIVE_LINEAR, NATIVE_RELU, NATIVE_SEQUENTIAL, NATIVES }; /* layers whose forward() is here, too */

static PyObject *hook_names[HOOK_KINDS]; /* the dictionaries of hooks that a call looks at */
static PyObject *table_names[TABLES];    /* the dictionaries of members, in the order of the search */
static PyObject *name_weight, *name_bias, *name_inplace;
static PyObject *name_named, *name_forward, *name_call_impl, *name_compiled, *name_getattr, *name_getattribute;
static PyObject *caller_call_impl,
    *caller_getattr; /* the methods of the type, to know whether a subclass has its own */
static PyObject *object_getattribute;
static PyObject *global_hooks[HOOK_KINDS]; /* dictionaries of hooks for every module */
static PyTypeObject *table_type;           /* gt.nn.members.ParameterTable, a dict */
static PyObject *call_with_hooks;          /* gt.nn.hooks.call(module, args, keywords) */
static PyObject *name_members;             /* gt.nn.members.name_parameters(module) */
static PyTypeObject *caller_type;

/* ---- members ----------------------------------------------------------------------------------------------------- */

/* Whether a dictionary finds its entries as dict does: one that a program put there may do so in its own way. */
static bool is_plain(PyObject *table)
{
    return PyDict_CheckExact(table) || Py_IS_TYPE(table, table_type);
}

/* The entry of a mapping of members. NULL without exception: none. */
static PyObject *mapping_find(PyObject *table, PyObject *name)
{
    Py_INCREF(table);
    int known = PySequence_Contains(table, name);
    PyObject *found = known > 0 ? PyObject_GetItem(table, name) : NULL;
    Py_DECREF(table);
    return found;
}

/* The parameter, buffer or child of that name. NULL without exception: none. */
static PyObject *member_find(PyObject *values, PyObject *name)
{
    for (int k = 0; k < TABLES; k++) {
        PyObject *table = PyDict_GetItemWithError(values, table_names[k]), *found = NULL;
        if (LIKELY(table && is_plain(table))) {
            if (PyDict_GET_SIZE(table) && (found = PyDict_GetItemWithError(table, name)))
                return Py_NewRef(found);
        } else if (table && ((found = mapping_find(table, name)) || PyErr_Occurred())) {
            return found;
        }
    }
    return NULL;
}

/* The __dict__ of a module, borrowed; NULL with an exception. */
static PyObject *module_values(PyObject *self)
{
    PyObject **place = _PyObject_GetDictPtr(self);
    if (UNLIKELY(!place || !*place)) {
        PyObject *values = PyObject_GenericGetDict(self, NULL); /* makes an empty one */
        Py_XDECREF(values);
        return values;
    }
    return *place;
}

static PyObject *missing(PyObject *self, PyObject *name)
{
    return PyErr_Format(PyExc_AttributeError, "'%.200s' object has no attribute '%U'", Py_TYPE(self)->tp_name,
                        name);
}

/* module.__getattr__(name), also for super().__getattr__(name) of a subclass that has its own. */
static PyObject *caller_member(PyObject *self, PyObject *name)
{
    PyObject *values = module_values(self), *found = values ? member_find(values, name) : NULL;
    return found || PyErr_Occurred() ? found : missing(self, name);
}

/*
 * An attribute of a module: what Python does with __getattr__, without the exception between both searches. For classes that
 * have no __getattr__ or __getattribute__ of their own.
 */
static PyObject *caller_getattro(PyObject *self, PyObject *name)
{
    PyObject *values = module_values(self), *found;
    if (UNLIKELY(!values))
        return NULL;
    if (_PyType_Lookup(Py_TYPE(self), name)) { /* a method, a property, or a value that the instance may hide */
        found = _PyObject_GenericGetAttrWithDict(self, name, values, 1);
        return found || PyErr_Occurred() ? found : caller_member(self, name);
    }
    if ((found = PyDict_GetItemWithError(values, name)))
        return Py_NewRef(found);
    found = member_find(values, name);
    return found || PyErr_Occurred() ? found : missing(self, name);
}

/* _fast_attributes(cls): let instances of this class of modules find their members without __getattr__, if it may. */
static PyObject *py_fast_attributes(PyObject *module, PyObject *object)
{
    (void)module;
    PyTypeObject *type = (PyTypeObject *)object;
    if (!PyType_Check(object))
        return PyErr_Format(PyExc_TypeError, "_fast_attributes() takes a class");
    if (_PyType_Lookup(type, name_getattr) == caller_getattr &&
        _PyType_Lookup(type, name_getattribute) == object_getattribute) {
        /* A later assignment of either method to the class, or to a base of it, makes Python set the slot anew. */
        type->tp_getattro = caller_getattro;
        PyType_Modified(type);
    }
    Py_RETURN_NONE;
}

/* Whether the name is free to be a plain attribute: 1, or 0, also when the module's __init__() has yet to be called. */
static int is_plain_name(PyObject *values, PyObject *name)
{
    for (int k = 0; k < TABLES; k++) {
        PyObject *table = PyDict_GetItemWithError(values, table_names[k]);
        if (!table || !is_plain(table) || (PyDict_GET_SIZE(table) && PyDict_GetItemWithError(table, name)))
            return 0;
    }
    return PyUnicode_Compare(name, table_names[0]) != 0; /* a list may be assigned to _parameters (members.py) */
}

/*
 * _set_plain(module, name, value): whether module.name = value has been done. It has if that is a plain attribute: the value is no
 * member, and the name that of none.
 */
static PyObject *py_set_plain(PyObject *module, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    if (nargs != 3 || kwnames || !PyObject_TypeCheck(args[0], caller_type))
        return PyErr_Format(PyExc_TypeError, "_set_plain() takes a module, a name and a value");
    PyObject *mro = Py_TYPE(args[0])->tp_mro, *value = args[2];
    /* A class behind this one and before object may have its own way to set attributes. */
    bool last = PyTuple_GET_ITEM(mro, PyTuple_GET_SIZE(mro) - 2) == (PyObject *)caller_type;
    if (UNLIKELY(!last || gt__py_is_tensor(value) || PyObject_TypeCheck(value, caller_type)))
        Py_RETURN_FALSE;
    PyObject *values = module_values(args[0]);
    if (!values)
        return NULL;
    if (is_plain_name(values, args[1]))
        return PyObject_GenericSetAttr(args[0], args[1], value) < 0 ? NULL : Py_NewRef(Py_True);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
}

/* ---- names of parameters ----------------------------------------------------------------------------------------- */

/*
 * The first call of a module names the parameters of it and of all modules below it, and marks these: names are as seen from the
 * outermost module. The mark is the address of the module, so that a copy is no marked one.
 */
static int name_parameters(PyObject *self, PyObject *values)
{
    PyObject *mark = PyDict_GetItemWithError(values, name_named);
    if (LIKELY(mark && PyLong_Check(mark) && PyLong_AsVoidPtr(mark) == self))
        return 0;
    PyObject *parameters = PyDict_GetItemWithError(values, table_names[PARAMETERS]),
             *modules = PyDict_GetItemWithError(values, table_names[MODULES]);
    if (PyErr_Occurred())
        return -1;
    if (!name_members || !parameters || !modules || !is_plain(parameters) || !PyDict_CheckExact(modules) ||
        (!PyDict_GET_SIZE(parameters) && !PyDict_GET_SIZE(modules)))
        return 0;
    PyObject *done = PyObject_CallOneArg(name_members, self);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/*
 * What a call of a module finds in its __dict__ and its class, remembered until either changes. Both have a version, a number
 * that no other state of a dictionary or class has. What is remembered is borrowed from them.
 */
typedef struct Plan Plan;

/* forward(input) of a layer of this package, without a call of the Python function. NULL without exception: call that. */
typedef PyObject *native_forward(Plan *plan, PyObject *input);

struct Plan {
    uint64_t values_version;
    unsigned class_version;
    PyObject *hooks[HOOK_KINDS]; /* dictionaries */
    PyObject *forward;           /* a function of the class; it takes the module first */
    native_forward *native;      /* NULL: none */
    PyObject *table;             /* for native forwards: the parameters, or the children */
    uint64_t table_version;      /* of parameters: when these were found in it */
    PyObject *weight, *bias;
};

static struct {
    PyObject *function; /* strong; NULL: not registered */
    native_forward *native;
} natives[NATIVES];

/* Later interpreters have no versions, or deprecate them. */
#if PY_VERSION_HEX < 0x030C0000

enum { PLAN_BITS = 8 };
static Plan plans[1 << PLAN_BITS];

static inline uint64_t version_of(PyObject *dictionary)
{
    return ((PyDictObject *)dictionary)->ma_version_tag;
}

/* A parameter of a layer that neither its class nor its __dict__ hides; NULL: none, or an exception. */
static PyObject *plain_parameter(PyTypeObject *type, PyObject *values, PyObject *table, PyObject *name)
{
    if (_PyType_Lookup(type, name) || PyDict_GetItemWithError(values, name))
        return NULL;
    return PyDict_GetItemWithError(table, name);
}

/* What the native forward needs to know; false: it cannot be used, or there is an exception. */
static bool plan_native(Plan *plan, PyTypeObject *type, PyObject *values)
{
    if (plan->native == natives[NATIVE_RELU].native) /* not in place */
        return !_PyType_Lookup(type, name_inplace) && PyDict_GetItemWithError(values, name_inplace) == Py_False;
    bool linear = plan->native == natives[NATIVE_LINEAR].native;
    plan->table = PyDict_GetItemWithError(values, table_names[linear ? PARAMETERS : MODULES]);
    if (!plan->table || !is_plain(plan->table))
        return false;
    if (!linear)
        return true;
    plan->table_version = version_of(plan->table);
    plan->weight = plain_parameter(type, values, plan->table, name_weight);
    plan->bias = plan->weight ? plain_parameter(type, values, plan->table, name_bias) : NULL;
    return plan->bias != NULL;
}

static bool plan_make(PyObject *self, PyObject *values, Plan *plan)
{
    PyTypeObject *type = Py_TYPE(self);
    *plan = (Plan){.forward = _PyType_Lookup(type, name_forward)};
    bool own = type->tp_getattro != caller_getattro || PyDict_GetItemWithError(values, name_compiled) ||
               PyDict_GetItemWithError(values, name_call_impl) || PyDict_GetItemWithError(values, name_forward) ||
               _PyType_Lookup(type, name_call_impl) != caller_call_impl || !plan->forward ||
               !PyType_HasFeature(Py_TYPE(plan->forward), Py_TPFLAGS_METHOD_DESCRIPTOR);
    if (own || PyErr_Occurred())
        return false;
    for (int k = 0; k < HOOK_KINDS; k++) {
        PyObject *hooks = PyDict_GetItemWithError(values, hook_names[k]);
        if (!hooks || !PyDict_Check(hooks))
            return false;
        plan->hooks[k] = hooks;
    }
    for (int k = 0; k < NATIVES; k++)
        if (natives[k].function == plan->forward)
            plan->native = natives[k].native;
    if (plan->native && !plan_native(plan, type, values)) {
        plan->native = NULL;
        if (PyErr_Occurred())
            return false;
    }
    plan->values_version = version_of(values);
    plan->class_version = type->tp_version_tag;
    return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG);
}

/* NULL: the module has something of its own, or hooks, or there is an exception. */
static Plan *plan_of(PyObject *self)
{
    PyObject **place = _PyObject_GetDictPtr(self), *values = place ? *place : NULL;
    if (UNLIKELY(!values))
        return NULL;
    PyTypeObject *type = Py_TYPE(self);
    uint64_t version = version_of(values);
    Plan *plan = &plans[version * 0x9E3779B97F4A7C15u >> (64 - PLAN_BITS)];
    if (UNLIKELY(plan->values_version != version || plan->class_version != type->tp_version_tag ||
                 !PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG))) {
        if (name_parameters(self, values) < 0 || !(values = *place)) /* a wait lets other threads run */
            return NULL;
        plan = &plans[version_of(values) * 0x9E3779B97F4A7C15u >> (64 - PLAN_BITS)];
        if (!plan_make(self, values, plan)) {
            plan->values_version = 0;
            return NULL;
        }
    }
    Py_ssize_t hooks = 0;
    for (int k = 0; k < HOOK_KINDS; k++)
        hooks += PyDict_GET_SIZE(global_hooks[k]) + PyDict_GET_SIZE(plan->hooks[k]);
    return LIKELY(!hooks) ? plan : NULL;
}

static PyObject *native_linear(Plan *plan, PyObject *input)
{
    if (UNLIKELY(version_of(plan->table) != plan->table_version)) {
        plan->values_version = 0; /* the next call plans anew */
        return NULL;
    }
    if (UNLIKELY(!gt__py_functions_are_ours()))
        return NULL;
    PyObject *in[] = {input, Py_NewRef(plan->weight), Py_NewRef(plan->bias)};
    PyObject *result = gt__py_linear(in);
    Py_DECREF(in[1]);
    Py_DECREF(in[2]);
    if (UNLIKELY(result == Py_None))
        Py_CLEAR(result);
    return result;
}

#else

static Plan *plan_of(PyObject *self)
{
    (void)self;
    return NULL;
}

static PyObject *native_linear(Plan *plan, PyObject *input)
{
    (void)plan;
    (void)input;
    return NULL;
}

#endif

static PyObject *native_relu(Plan *plan, PyObject *input)
{
    (void)plan;
    return Py_IS_TYPE(input, gt__py_tensor_type) && gt__py_functions_are_ours() ? gt__py_unary(GT_OP_relu, input)
                                                                                : NULL;
}

static PyObject *call_with(PyObject *module, PyObject *input);

static PyObject *native_sequential(Plan *plan, PyObject *input)
{
    PyObject *children = Py_NewRef(plan->table), *name, *child;
    Py_ssize_t place = 0, count = PyDict_GET_SIZE(children);
    Py_INCREF(input);
    if (Py_EnterRecursiveCall(" while calling a module"))
        Py_CLEAR(input);
    else {
        while (input && PyDict_Next(children, &place, &name, &child)) {
            Py_INCREF(child);
            Py_SETREF(input, call_with(child, input));
            Py_DECREF(child);
            if (UNLIKELY(PyDict_GET_SIZE(children) != count) && input) {
                Py_CLEAR(input);
                PyErr_SetString(PyExc_RuntimeError, "dictionary changed size during iteration");
            }
        }
        Py_LeaveRecursiveCall();
    }
    Py_DECREF(children);
    return input;
}

/* _native_forwards(linear, relu, sequential): the forward() functions of these layers. */
static PyObject *py_native_forwards(PyObject *module, PyObject *args)
{
    (void)module;
    native_forward *const by[] = {
        [NATIVE_LINEAR] = native_linear, [NATIVE_RELU] = native_relu, [NATIVE_SEQUENTIAL] = native_sequential};
    PyObject *function[NATIVES];
    if (!PyArg_ParseTuple(args, "OOO", &function[NATIVE_LINEAR], &function[NATIVE_RELU],
                          &function[NATIVE_SEQUENTIAL]))
        return NULL;
    for (int k = 0; k < NATIVES; k++) {
        Py_XSETREF(natives[k].function, Py_NewRef(function[k]));
        natives[k].native = by[k];
    }
    Py_RETURN_NONE;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

enum { ROOM = 8 }; /* arguments of a call that need no allocation, and the module */

/* A function of a class, with the module as its first argument. */
static PyObject *function_call(PyObject *function, PyObject *self, PyObject *const *args, Py_ssize_t count,
                               PyObject *keywords)
{
    PyObject *stack[ROOM] = {self};
    for (Py_ssize_t k = 0; k < count; k++)
        stack[k + 1] = args[k];
    Py_INCREF(function);
    PyObject *result = PyObject_VectorcallDict(function, stack, (size_t)count + 1, keywords);
    Py_DECREF(function);
    return result;
}

static PyObject *plan_call(Plan *plan, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    PyObject *forward = Py_NewRef(plan->forward),
             *result = NULL; /* the call may replace the plan, and its function */
    if (plan->native && count == 1 && !keywords)
        result = plan->native(plan, args[0]);
    if (!result && !PyErr_Occurred())
        result = function_call(forward, self, args, count, keywords);
    Py_DECREF(forward);
    return result;
}

/* module(input) */
static PyObject *call_with(PyObject *module, PyObject *input)
{
    Plan *plan = PyObject_TypeCheck(module, caller_type) ? plan_of(module) : NULL;
    if (LIKELY(plan && Py_TYPE(module)->tp_call == caller_type->tp_call))
        return plan_call(plan, module, &input, 1, NULL);
    return PyErr_Occurred() ? NULL : PyObject_CallOneArg(module, input);
}

static PyObject *forward_call(PyObject *self, PyObject *values, PyObject *args, PyObject *keywords)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    PyTypeObject *type = Py_TYPE(self);
    if (LIKELY(type->tp_getattro == caller_getattro && count < ROOM) &&
        !PyDict_GetItemWithError(values, name_forward)) {
        PyObject *function = _PyType_Lookup(type, name_forward);
        if (LIKELY(function && PyType_HasFeature(Py_TYPE(function), Py_TPFLAGS_METHOD_DESCRIPTOR)))
            return function_call(function, self, PySequence_Fast_ITEMS(args), count, keywords);
    }
    PyObject *forward = PyErr_Occurred() ? NULL : PyObject_GetAttr(self, name_forward);
    PyObject *result = forward ? PyObject_Call(forward, args, keywords) : NULL;
    Py_XDECREF(forward);
    return result;
}

/* Whether a call must look at hooks: 1, 0, or -1 with an exception. */
static int has_hooks(PyObject *self, PyObject *values)
{
    for (int k = 0; k < HOOK_KINDS; k++)
        if (UNLIKELY(PyDict_GET_SIZE(global_hooks[k]) > 0))
            return 1;
    for (int k = 0; k < HOOK_KINDS; k++) {
        PyObject *hooks = PyDict_GetItemWithError(values, hook_names[k]);
        if (LIKELY(hooks && PyDict_Check(hooks))) {
            if (UNLIKELY(PyDict_GET_SIZE(hooks) > 0))
                return 1;
            continue;
        }
        /* No dictionary: __init__() was not called, or the class has an attribute of that name. */
        hooks = PyErr_Occurred() ? NULL : PyObject_GetAttr(self, hook_names[k]);
        int some = hooks ? PyObject_IsTrue(hooks) : -1;
        Py_XDECREF(hooks);
        if (some)
            return some;
    }
    return 0;
}

/* module._call_impl(...): module.forward(...), with hooks if there are any. */
static PyObject *caller_call_hooked(PyObject *self, PyObject *args, PyObject *keywords)
{
    PyObject *values = Py_XNewRef(module_values(self)), *result = NULL; /* forward() may replace it */
    int hooked = values && name_parameters(self, values) == 0 ? has_hooks(self, values) : -1;
    if (LIKELY(hooked == 0)) {
        result = forward_call(self, values, args, keywords);
    } else if (hooked > 0) {
        PyObject *given = keywords ? Py_NewRef(keywords) : PyDict_New();
        result = given ? PyObject_CallFunctionObjArgs(call_with_hooks, self, args, given, NULL) : NULL;
        Py_XDECREF(given);
    }
    Py_XDECREF(values);
    return result;
}

/* module(...): module._compiled_call_impl(...) if that is set, else module._call_impl(...). */
static PyObject *caller_call(PyObject *self, PyObject *args, PyObject *keywords)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    Plan *plan = count < ROOM ? plan_of(self) : NULL;
    if (LIKELY(plan != NULL))
        return plan_call(plan, self, PySequence_Fast_ITEMS(args), count, keywords);
    if (PyErr_Occurred())
        return NULL;
    if (LIKELY(_PyType_Lookup(Py_TYPE(self), name_call_impl) == caller_call_impl)) {
        PyObject *values = module_values(self);
        bool own = !values || PyDict_GetItemWithError(values, name_compiled) ||
                   PyDict_GetItemWithError(values, name_call_impl);
        if (LIKELY(!own))
            return caller_call_hooked(self, args, keywords);
        if (PyErr_Occurred())
            return NULL;
    }
    PyObject *function = PyObject_GetAttr(self, name_compiled);
    if (function == Py_None)
        Py_SETREF(function, PyObject_GetAttr(self, name_call_impl));
    PyObject *result = function ? PyObject_Call(function, args, keywords) : NULL;
    Py_XDECREF(function);
    return result;
}

/* _module_hooks(call, name, table, ...): the function for calls with hooks, the one that names parameters, the type of the dictionary of parameters, and the dictionaries of hooks for every module. */
static PyObject *py_module_hooks(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *call, *name, *table, *hooks[HOOK_KINDS];
    if (!PyArg_ParseTuple(args, "OOO!O!O!O!O!", &call, &name, &PyType_Type, &table, &PyDict_Type, &hooks[0],
                          &PyDict_Type, &hooks[1], &PyDict_Type, &hooks[2], &PyDict_Type, &hooks[3]))
        return NULL;
    Py_XSETREF(call_with_hooks, Py_NewRef(call));
    Py_XSETREF(name_members, Py_NewRef(name));
    Py_XSETREF(table_type, (PyTypeObject *)Py_NewRef(table));
    for (int k = 0; k < HOOK_KINDS; k++)
        Py_XSETREF(global_hooks[k], Py_NewRef(hooks[k]));
    Py_RETURN_NONE;
}

/* ---- the type ---------------------------------------------------------------------------------------------------- */

PyMethodDef gt__py_caller_functions[] = {
    {.ml_name = "_fast_attributes", .ml_meth = py_fast_attributes, .ml_flags = METH_O},
    FAST("_set_plain", py_set_plain, "_set_plain(module, name, value): whether it has been set."),
    {.ml_name = "_module_hooks", .ml_meth = py_module_hooks, .ml_flags = METH_VARARGS},
    {.ml_name = "_native_forwards", .ml_meth = py_native_forwards, .ml_flags = METH_VARARGS},
    {.ml_name = NULL},
};

static int names_make(void)
{
    static const struct {
        PyObject **place;
        const char *text;
    } names[] = {
        {.place = &hook_names[0], .text = "_backward_hooks"},
        {.place = &hook_names[1], .text = "_backward_pre_hooks"},
        {.place = &hook_names[2], .text = "_forward_hooks"},
        {.place = &hook_names[3], .text = "_forward_pre_hooks"},
        {.place = &table_names[PARAMETERS], .text = "_parameters"},
        {.place = &table_names[BUFFERS], .text = "_buffers"},
        {.place = &table_names[MODULES], .text = "_modules"},
        {.place = &name_weight, .text = "weight"},
        {.place = &name_bias, .text = "bias"},
        {.place = &name_inplace, .text = "inplace"},
        {.place = &name_named, .text = "_gt_named"},
        {.place = &name_forward, .text = "forward"},
        {.place = &name_call_impl, .text = "_call_impl"},
        {.place = &name_compiled, .text = "_compiled_call_impl"},
        {.place = &name_getattr, .text = "__getattr__"},
        {.place = &name_getattribute, .text = "__getattribute__"},
    };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (!(*names[k].place = PyUnicode_InternFromString(names[k].text)))
            return -1;
    return 0;
}

int gt__py_caller_init(PyObject *module)
{
    static PyMethodDef methods[] = {
        {.ml_name = "_call_impl",
         .ml_meth = (PyCFunction)(void (*)(void))caller_call_hooked,
         .ml_flags = METH_VARARGS | METH_KEYWORDS},
        {.ml_name = "__getattr__", .ml_meth = caller_member, .ml_flags = METH_O},
        {.ml_name = NULL},
    };
    static PyType_Slot slots[] = {
        SLOT(Py_tp_call, caller_call),
        SLOT(Py_tp_methods, methods),
        SLOT(Py_tp_doc, "The base of gt.nn.Module that calls forward() and keeps members."),
        {.slot = 0},
    };
    static PyType_Spec spec = {
        .name = "gt._gt._Caller",
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
        .slots = slots,
    };
    PyObject *type = names_make() == 0 ? PyType_FromSpec(&spec) : NULL;
    int status = type ? PyModule_AddObjectRef(module, "_Caller", type) : -1;
    if (status == 0) { /* borrowed: the type lives as long as the module */
        caller_type = (PyTypeObject *)type;
        caller_call_impl = _PyType_Lookup((PyTypeObject *)type, name_call_impl);
        caller_getattr = _PyType_Lookup((PyTypeObject *)type, name_getattr);
        object_getattribute = _PyType_Lookup(&PyBaseObject_Type, name_getattribute);
    }
    Py_XDECREF(type);
    return status;
}
