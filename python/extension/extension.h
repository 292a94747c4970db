/*
 * extension.h: shared by the files of the Python extension.
 *
 * gt._gt is a thin layer: it converts Python arguments, calls include/gt.h and src/client/client.h, and wraps the
 * resulting tensors. It does no arithmetic on elements. Read next: tensor.c (the type),
 * operators.c (the hot path), convert.c (arguments), connect.c (which client, waiting, the GIL).
 *
 * Conventions: functions that return int give -1 with a Python exception set; PyObject * functions give NULL.
 */
#ifndef GT_PYTHON_EXTENSION_H
#define GT_PYTHON_EXTENSION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/client.h"
#include "core/random.h"

/* Nothing here is for others than this extension, so data is found without a table of addresses. */
#pragma GCC visibility push(hidden)

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

typedef struct TensorObject {
    /* Replaced by in-place operations; NULL only before initialisation. If the object has an alias, that one's shell: metadata
     * without a value. So read metadata here, and the value with gt__py_use. */
    PyObject_HEAD gt_tensor *tensor;
    struct gt_alias *alias; /* views and what they are views of (alias.h); nearly always NULL */
    PyObject *weakrefs;
    PyObject *dict; /* attributes that the user set (tensor.c); nearly always NULL */
} TensorObject;

/* The types are process-wide: the extension refuses a second interpreter (module.c). */
extern PyTypeObject *gt__py_tensor_type, *gt__py_dtype_type, *gt__py_connection_type, *gt__py_lease_type;

/* Vectorcall arguments, as METH_FASTCALL | METH_KEYWORDS passes them. */
typedef PyObject *const *gt_py_args;
#define FAST(name, function, doc)                                                                                 \
    {                                                                                                             \
        .ml_name = name, .ml_meth = (PyCFunction)(void (*)(void))(function),                                      \
        .ml_flags = METH_FASTCALL | METH_KEYWORDS, .ml_doc = doc                                                  \
    }
#define NOARGS(name, function, doc)                                                                               \
    {                                                                                                             \
        .ml_name = name, .ml_meth = (PyCFunction)(function), .ml_flags = METH_NOARGS, .ml_doc = doc               \
    }
#define SLOT(kind, function)                                                                                      \
    {                                                                                                             \
        .slot = kind, .pfunc = (void *)(function)                                                                 \
    }

/* ---- tensor.c -------------------------------------------------------------------------------------------- */

/* Freed objects, kept for reuse: each has its reference to the type. */
enum { GT_PY_SPARES = 1024 };
extern TensorObject *gt__py_spares[GT_PY_SPARES];
extern int gt__py_spare_count, gt__py_spare_room; /* both 0 while a thread is in inference mode */

/* Enter or leave inference mode on this thread: objects made there are marked. */
void gt__py_inference_enable(bool wanted);

PyObject *gt__py_wrap_new(gt_tensor *tensor);

/* A Tensor object; takes the tensor, also on failure. */
static inline PyObject *gt__py_wrap(gt_tensor *tensor)
{
    if (UNLIKELY(gt__py_spare_count == 0))
        return gt__py_wrap_new(tensor);
    TensorObject *self = gt__py_spares[--gt__py_spare_count];
    Py_SET_REFCNT((PyObject *)self, 1);
    self->tensor = tensor;
    return (PyObject *)self;
}

int gt__py_tensor_init(PyObject *module);

static inline bool gt__py_is_tensor(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return type == gt__py_tensor_type || type->tp_base == gt__py_tensor_type || /* such as nn.Parameter */
           PyType_IsSubtype(type, gt__py_tensor_type);
}

/* A tensor that autograd follows. */
static inline bool gt__py_is_recorded(PyObject *object)
{
    return gt__py_is_tensor(object) && ((TensorObject *)object)->tensor->node;
}

/* ---- autograd.c -------------------------------------------------------------------------------------------- */

/* The last step of an in-place operation: give the object a new value (taken, also on failure). -1: it is a leaf that requires
 * a gradient, and operations are being recorded. */
int gt__py_rebind(PyObject *self, gt_tensor *tensor);
/* What PyTorch refuses to change in place, while operations are recorded. `source_tracked`: an operand requires a gradient. */
int gt__py_check_write(PyObject *self, bool source_tracked);
/* A tensor that was made in inference mode changes there only. gt__py_check_write looks at this, too. */
int gt__py_check_inference(PyObject *self);
/* An expanded tensor, whose elements share memory, takes one value for all of them only. */
int gt__py_refuse_overlap(PyObject *self);
/*
 * The first step of one that may consume the old value `a`: *held becomes the number of references that the caller passes to
 * gt__emit_assign or gt__emit_scatter. It is 2, self's and one that the caller retained, or 0 if self is NULL or has another
 * value by now. After this, `slots` slots are emitted without a wait, so no other code runs before gt__py_rebind and sees a
 * consumed value.
 */
gt_err gt__py_held(PyObject *self, gt_tensor *a, unsigned slots, unsigned *held);
/* `x.data = value`: x shares its memory from now on. A leaf keeps its node. `counted`: it is a write to x, as of set_(), so a
 * gradient that needs x's old value is refused. */
int gt__py_set_value(PyObject *self, PyObject *value, bool counted);
int gt__py_set_requires_grad(PyObject *self, bool wanted);
bool gt__py_requires_grad(PyObject *self);
/* The node whose gradient x.grad is, borrowed; NULL: none, or an exception. */
gt_node *gt__py_node(PyObject *self);
/* ---- alias.c: see alias.h, too ------------------------------------------------------------------------------ */

/* gt__py_use for an object with an alias: cuts its value, if necessary. */
gt_tensor *gt__py_use_alias(PyObject *self);
gt_tensor *gt__py_cut(PyObject *self); /* the same, when its client can be used */
/* A new object that shares self's memory, without a gradient. `counted`: the gradients of either know of writes through the
 * other, as for detach(); not so for .data. */
PyObject *gt__py_detached(PyObject *self, bool counted);
/* Before an in-place operation on self: none of its operands may share a part of self's memory. */
int gt__py_check_operands(PyObject *self, gt_py_args args, Py_ssize_t count);
/* An in-place operation failed after gt__py_check_operands: forget what that prepared. NULL. */
PyObject *gt__py_fail_write(PyObject *self);
/* How many arguments a call has, with those by keyword. */
static inline Py_ssize_t gt__py_argument_count(Py_ssize_t nargs, PyObject *kwnames)
{
    return nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
}
/* -1: an operand has memory of self, which PyTorch's writes by index refuse. */
int gt__py_check_apart(PyObject *self, PyObject *const *operands, Py_ssize_t count);

/* ---- operators.c ------------------------------------------------------------------------------------------ */

/* where(condition, a, b), each a tensor or a number. */
PyObject *gt__py_where(PyObject *const *objects);
/* x op y, as the operators do it, and op x. */
PyObject *gt__py_binary(gt_opcode op, PyObject *x, PyObject *y);
PyObject *gt__py_unary(gt_opcode op, PyObject *self);
/* self.name_(...): the result of self.name(...) (taken; NULL: exception) becomes self's value, if it fits. Returns self. */
PyObject *gt__py_adopt(PyObject *self, PyObject *result);
/* The same for a tensor, the result of a call that returned err. */
int gt__py_become(PyObject *self, gt_err err, gt_tensor *result);
/* self op= other (taken), or op= number if that is NULL. */
int gt__py_update(gt_opcode op, PyObject *self, gt_tensor *other, double number);

/* ---- connect.c: clients, waiting, errors ----------------------------------------------------------------- */

/* Raise the exception of a failed call; returns NULL. */
PyObject *gt__py_raise(gt_err err);
/* This thread's client, or the process's default one, started if necessary. Borrowed. */
gt_client *gt__py_client(void);
/* The seed of a client that is not open yet; false: none was set. */
bool gt__py_waiting_seed(uint64_t *seed);
/* Another thread waits on this client: let it finish. -1 also if it was closed meanwhile. */
int gt__py_client_turn(gt_client *client);
/* The same for the client of a Tensor object; returns the tensor that the object has then. NULL: exception. */
gt_tensor *gt__py_use_later(PyObject *self);
int gt__py_connect_init(PyObject *module);

static inline int gt__py_enter(gt_client *client)
{
    return LIKELY(!client->waiting) ? 0 : gt__py_client_turn(client);
}

/*
 * The tensor of a Tensor object, when its client can be used; NULL: exception. Borrowed: any Python code may give
 * the object another tensor, and any emission may let other threads run. So call this last, after the arguments
 * were converted, or retain the tensor.
 */
static inline gt_tensor *gt__py_use(PyObject *self)
{
    gt_tensor *tensor = ((TensorObject *)self)->tensor;
    if (UNLIKELY(((TensorObject *)self)->alias != NULL))
        return gt__py_use_alias(self);
    return LIKELY(!tensor->client->waiting) ? tensor : gt__py_use_later(self);
}

/* The same, retained: for operations on several tensors. */
static inline gt_tensor *gt__py_hold(PyObject *self)
{
    gt_tensor *tensor = gt__py_use(self);
    return tensor ? gt_tensor_retain(tensor) : NULL;
}

/* A client that is borrowed while other Python code runs: it may be closed meanwhile, but stays allocated. */
static inline void gt__py_pin(gt_client *client)
{
    client->live++;
}

static inline void gt__py_unpin(gt_client *client)
{
    client->live--;
    gt__client_maybe_destroy(client);
}

/* The new object of `tensor` (taken) if err is GT_OK, else the exception. */
static inline PyObject *gt__py_result(gt_err err, gt_tensor *tensor)
{
    return LIKELY(err == GT_OK) ? gt__py_wrap(tensor) : gt__py_raise(err);
}

/* ---- convert.c: arguments -------------------------------------------------------------------------------- */

/*
 * Distribute arguments over `count` parameters: values[k] is borrowed, NULL where absent. The first `positional`
 * may be given by position. A name may have aliases: "dim|axis".
 */
int gt__py_parse(const char *function, gt_py_args args, Py_ssize_t nargs, PyObject *kwnames,
                 const char *const *names, int count, int positional, PyObject **values);
int gt__py_int64(PyObject *object, int64_t *value);
int gt__py_flag(PyObject *object, bool *value); /* NULL: *value is kept */
/* An argument device=, which has no effect: -1 unless it is a gt.device, or a text or number that names one. */
int gt__py_check_device(PyObject *object);
bool gt__py_is_device(PyObject *object); /* a gt.device */
/* 1: a Python or NumPy number; 0: something else; -1: a number that does not fit. */
int gt__py_literal(PyObject *object, gt_literal *kind, gt_imm *value);
int gt__py_number(PyObject *object, gt_literal *kind, gt_imm *value); /* the same, but anything else raises */
int gt__py_check_number(PyObject *object, gt_dtype dtype); /* -1: an element of this dtype cannot be this number */
/* 1: a complex number, of Python, NumPy or a 0-d tensor; 0: something else; -1: exception. */
int gt__py_complex(PyObject *object, double *real, double *imaginary);
/* -1: a complex number, which a tensor of this dtype cannot hold. */
int gt__py_check_parts(PyObject *object, gt_dtype dtype);
double gt__py_literal_double(gt_literal kind, gt_imm value);
/*
 * Axes are read in two steps. The first runs Python code (__index__), which may give the tensor's object another
 * tensor. So call gt__py_use between the steps; the second needs the tensor's rank.
 */
int gt__py_dim(PyObject *object, int64_t *given);              /* NULL: *given is kept */
int gt__py_dims(PyObject *object, int *count, int64_t *given); /* one or more; None or NULL: *count is 0 */
/* An axis of a tensor of this rank, negative ones wrapped. Rank 0 counts as 1. */
int gt__py_wrap_axis(int64_t given, int rank, int *axis);
/* As a mask; no axes give 0, which means all. */
int gt__py_wrap_axes(const int64_t *given, int count, int rank, uint32_t *axes);
/* An int or a sequence of ints, at most GT_MAX_RANK. */
int gt__py_ints(PyObject *object, int *count, int64_t *values);
/* A gt.Size, a tuple of sizes (size.c). */
PyObject *gt__py_sizes(int rank, const int64_t *shape);
int gt__py_size_init(PyObject *module);
/* Sizes given one by one, or as one sequence. */
int gt__py_shape(gt_py_args args, Py_ssize_t nargs, int *rank, int64_t *shape);

/*
 * The other operand of a binary operation: 1: *tensor is set (a reference of the caller's), or *kind and *value;
 * 0: not ours to convert; -1: exception. `other`: the dtype of the operand that there is.
 */
int gt__py_operand(PyObject *object, gt_client *client, gt_dtype other, gt_tensor **tensor, gt_literal *kind,
                   gt_imm *value);
/* The same, but always a tensor, and anything inconvertible raises TypeError. */
int gt__py_tensor_argument(PyObject *object, gt_client *client, const char *what, gt_tensor **tensor);

/* ---- training.c: layers ------------------------------------------------------------------------------------- */

/* args: input, weight, and bias or None. None: the caller composes it. */
PyObject *gt__py_linear(gt_py_args args);
/* Whether nn.functional has its own linear() and relu(), and no functions of the program's in their place. */
bool gt__py_functions_are_ours(void);

/* ---- site.c: lines of user code ---------------------------------------------------------------------------- */

/*
 * A function that emits many operations finds their line once: until unpin, operations that are issued from this frame have the
 * line that it has now. Other frames, of code that the function calls or of other threads, have their own. One frame is pinned
 * at a time, the last one.
 */
void gt__py_site_pin(void);
void gt__py_site_unpin(void);

/* ---- random.c: gt.Generator ------------------------------------------------------------------------------ */

/* Make the client draw from the generator; and from its own numbers again, saving the generator's position. */
int gt__py_generator_enter(PyObject *generator, gt_client *client);
int gt__py_generator_leave(PyObject *generator, gt_client *client, gt_random ours);

/* ---- dtype.c --------------------------------------------------------------------------------------------- */

PyObject *gt__py_dtype_object(gt_dtype dtype); /* new reference to the singleton */
/* gt.float32, 'float32', numpy.float32, numpy.dtype, torch.float32, float. NULL or None leaves *dtype alone. */
int gt__py_dtype(PyObject *object, gt_dtype *dtype);
int gt__py_dtype_init(PyObject *module);

/* ---- interop.c: other people's arrays -------------------------------------------------------------------- */

/* The dtype of a buffer's elements; -1: TypeError, GT has no such dtype. *swap: the other byte order. */
int gt__py_buffer_dtype(const Py_buffer *view, gt_dtype *dtype, bool *swap);
/* 1: *tensor was made from a buffer, __dlpack__ or __array__; 0: the object has none of these; -1: exception. */
int gt__py_from_array(PyObject *object, gt_client *client, gt_tensor **tensor);
int gt__py_interop_init(PyObject *module);

/* ---- element.c, sequence.c: single elements as Python numbers, nested lists ------------------------------- */

PyObject *gt__py_element(gt_dtype dtype, const void *data);
/* Nested lists of the elements of a fetched tensor. */
PyObject *gt__py_list(const gt_meta *meta, const void *data);
/* A tensor from nested sequences of numbers, arrays and tensors; dtype is the wanted one if `given`. */
int gt__py_from_sequence(PyObject *object, gt_client *client, bool given, gt_dtype dtype, gt_tensor **tensor);

/* ---- tables that tensor.c and module.c collect ----------------------------------------------------------- */

extern PyMethodDef gt__py_operator_methods[], gt__py_number_methods[], gt__py_reduce_methods[],
    gt__py_shape_methods[];
extern PyMethodDef gt__py_index_write_methods[], gt__py_alias_methods[], gt__py_gather_methods[],
    gt__py_layout_methods[], gt__py_movement_methods[], gt__py_index_methods[], gt__py_interop_methods[],
    gt__py_bounds_methods[], gt__py_product_methods[];
extern PyMethodDef gt__py_create_functions[], gt__py_movement_functions[], gt__py_interop_functions[];
extern PyMethodDef gt__py_connect_functions[], gt__py_handover_functions[], gt__py_server_functions[],
    gt__py_site_functions[], gt__py_random_functions[];
extern PyMethodDef gt__py_signal_functions[];
extern PyMethodDef gt__py_spatial_functions[];
extern PyMethodDef gt__py_spectral_functions[];
extern PyMethodDef gt__py_caller_functions[], gt__py_optimise_functions[], gt__py_training_functions[];
extern PyMethodDef gt__py_linalg_functions[];
extern PyMethodDef gt__py_function_functions[];
extern PyMethodDef gt__py_batch_functions[], gt__py_mode_functions[], gt__py_node_functions[];
extern PyMethodDef gt__py_autograd_methods[], gt__py_autograd_functions[], gt__py_checkpoint_functions[];
extern PyMethodDef gt__py_inplace_methods[];
extern PyGetSetDef gt__py_alias_attributes[], gt__py_autograd_attributes[], gt__py_inplace_attributes[];
extern const PyType_Slot gt__py_number_slots[], gt__py_index_slots[];
int gt__py_server_init(PyObject *module);
int gt__py_functions_init(PyObject *module);
int gt__py_caller_init(PyObject *module);
int gt__py_optimise_init(PyObject *module);

#pragma GCC visibility pop

#endif
