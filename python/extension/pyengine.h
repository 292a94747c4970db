/*
 * pyengine.h: engines that are Python classes: what the files pyengine*.c share.
 *
 *     pyengine.c         the engine: registration, the vtable, exceptions, calls that the class does not implement
 *     pyengine_call.c    the arguments of a call: operands, and immediates by name
 *     pyengine_memory.c  memory that the class allocates, and the host cannot read
 *     pyengine_program.c planned sequences, parts of which the class compiles
 *     pyengine_view.c    gt._gt.EngineView: an operand as Python sees it
 *
 * docs/engines.md has the Python side. All functions here need the GIL unless they say otherwise.
 */
#ifndef GT_PYTHON_PYENGINE_H
#define GT_PYTHON_PYENGINE_H

#include "extension.h"

#include "engines/engine.h"

/* A block of an engine's own memory. Addresses are numbers that name it; nothing dereferences them. */
typedef struct gt_py_block {
    uintptr_t address;
    size_t bytes;
    PyObject *memory; /* what the class's `allocate` returned */
} gt_py_block;

typedef struct gt_py_memory {
    gt_py_block *blocks; /* by address */
    size_t count, capacity;
    uintptr_t next; /* addresses are not used again */
} gt_py_memory;

/* ---- pyengine_memory.c --------------------------------------------------------------------------------------- */

/* Takes the reference to `memory`, also on failure. */
gt_err gt__py_memory_add(gt_py_memory *memory, size_t bytes, PyObject *object, void **address);
/* The object of the block, a reference of the caller's; NULL: there is no such block. */
PyObject *gt__py_memory_remove(gt_py_memory *memory, void *address);
/* The block that contains this address; NULL: none. */
const gt_py_block *gt__py_memory_find(const gt_py_memory *memory, const void *address);
void gt__py_memory_clear(gt_py_memory *memory);

/* ---- pyengine_view.c ------------------------------------------------------------------------------------------ */

typedef struct EngineView {
    PyObject_HEAD gt_view view;
    Py_ssize_t strides[GT_MAX_RANK]; /* in bytes */
    PyObject *memory;                /* of the engine's own memory; NULL: the host's */
    size_t offset;                   /* in it */
    struct EngineView *lender; /* of what ascending() returned: the view of the call, a reference; else NULL */
    unsigned exports;          /* arrays that use the memory now */
    bool writable;             /* the result; operands are read-only */
    bool ended;                /* the call is over, and the memory may have other contents */
} EngineView;

/* `block` is NULL for the host's memory. */
EngineView *gt__py_engine_view(const gt_view *view, bool writable, const gt_py_block *block);
/* The call is over. Drops the reference; true: an array still uses the memory. */
bool gt__py_engine_view_end(EngineView *view);
int gt__py_engine_view_init(PyObject *module);
/* A tuple. */
PyObject *gt__py_integers(unsigned count, const int64_t *numbers);
/* "float32": the same object each time. Borrowed. */
PyObject *gt__py_dtype_text(gt_dtype dtype);

/* ---- pyengine_call.c ------------------------------------------------------------------------------------------ */

enum { GT_PY_ATTRIBUTES = 12 };

/* Immediates and flags of a call as keyword arguments: their values, references of the caller's, at most GT_PY_ATTRIBUTES.
 * Returns how many; -1: exception. *names: a tuple, borrowed; NULL if there are none. */
int gt__py_call_attributes(const gt_call *call, PyObject **values, PyObject **names);
/* A literal operand as bool, int or float; a new reference. */
PyObject *gt__py_call_literal(const gt_call *call, unsigned k);

/* ---- pyengine_program.c --------------------------------------------------------------------------------------- */

/* Functions of gt_engine_ops for classes with a method `compile`; without the GIL. */
gt_err gt__py_program_compile(gt_engine *engine, gt_plan *plan, gt_program **program);
gt_err gt__py_program_run(gt_engine *engine, gt_program *program, void *const *buffer, bool timed, unsigned *step,
                          gt_token *token);
void gt__py_program_free(gt_engine *engine, gt_program *program);

/* ---- pyengine.c ----------------------------------------------------------------------------------------------- */

typedef struct gt_py_engine {
    gt_engine engine;
    gt_engine *reference;  /* for calls that the class does not run */
    PyThreadState *thread; /* of the worker's thread, while it does not hold the GIL */
    PyGILState_STATE gil;  /* to be released by close */
    PyObject *object;
    PyObject *store; /* its method: copies a returned result into `out` */
    gt_py_memory memory;
    uint32_t host_calls[GT_OP_COUNT];
    bool told[GT_OP_COUNT];         /* that the op's method keeps an operand */
    PyObject *methods[GT_OP_COUNT]; /* NULL: the class has none */
} gt_py_engine;

/* The current exception as a failure: `what` was done, its type, text and line. */
gt_err gt__py_engine_fail(const char *what);
/* An EngineView of an operand or result. */
PyObject *gt__py_engine_operand(const gt_py_engine *e, const gt_view *view, bool writable);

extern unsigned gt__py_code_open; /* engines and modifiers in Python, in this process; guarded by the GIL */
extern PyMethodDef gt__py_engine_functions[];
int gt__py_engine_init(PyObject *module);

#endif
