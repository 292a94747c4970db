/*
 * pyengine_program.c: planned sequences on an engine in Python.
 *
 * The class's method `compile` gets the steps of a plan and returns parts: neighbouring steps that one function runs. The
 * package describes plans and parts to it (gt.engines._compile). All other steps run one by one.
 *
 * A part's function returns its results, which are stored when it has read all its operands: values of the plan may share
 * memory. A part runs step by step if an immediate is another one than when it was compiled, and a slice or an assignment that
 * begins elsewhere in each run is in no part. If its function fails, it is not
 * called again, and the steps run one by one too: what is wrong then shows where it happens.
 */
#include "pyengine.h"

#include "core/log.h"
#include "core/path.h"
#include "engines/plan.h"

typedef struct part {
    unsigned first, count;
    uint32_t *values; /* those it writes, then those it reads */
    unsigned writes, reads;
    PyObject *function; /* NULL: it failed */
} part;

struct gt_program {
    const gt_plan *plan;
    gt_imm (*imms)[2]; /* by step: its immediates when it was compiled */
    part *parts;
    unsigned count;
    unsigned most_operands;
};

/* ---- the plan as Python sees it ---------------------------------------------------------------------------------- */

/* A literal that may change from run to run, which the function of a part gets in each call. */
static bool is_number(const gt_plan_step *step, unsigned k)
{
    return step->operand[k] == GT_PLAN_LITERAL && k < GT_MAX_OPERANDS &&
           gt__path_parameter_words(&step->record->ins) >> (GT_WORD_OPERAND + k) & 1;
}

/* (dtype, shape, stride, buffer, offset, last use or None) */
static PyObject *describe_value(const gt_plan_value *value)
{
    const gt_meta *meta = &value->view.meta;
    PyObject *last =
        value->last_use == GT_PLAN_LIVES ? Py_NewRef(Py_None) : PyLong_FromUnsignedLong(value->last_use);
    return Py_BuildValue("(ONNINN)", gt__py_dtype_text((gt_dtype)meta->dtype),
                         gt__py_integers(meta->rank, meta->shape), gt__py_integers(meta->rank, value->view.stride),
                         value->buffer, PyLong_FromLongLong(value->offset), last);
}

/* ("value", number), ("number", it) or ("constant", it) */
static PyObject *describe_operand(const gt_plan_step *step, const gt_call *call, unsigned k)
{
    if (step->operand[k] != GT_PLAN_LITERAL)
        return Py_BuildValue("(sI)", "value", step->operand[k]);
    return Py_BuildValue("(sN)", is_number(step, k) ? "number" : "constant", gt__py_call_literal(call, k));
}

static PyObject *describe_attributes(const gt_call *call)
{
    PyObject *values[GT_PY_ATTRIBUTES], *names = NULL, *all = PyDict_New();
    int count = all ? gt__py_call_attributes(call, values, &names) : -1;
    for (int k = 0; k < count; k++) {
        if (all && PyDict_SetItem(all, PyTuple_GET_ITEM(names, k), values[k]) < 0)
            Py_CLEAR(all);
        Py_DECREF(values[k]);
    }
    if (count < 0)
        Py_CLEAR(all);
    return all;
}

/* A step that begins elsewhere in each run, and computes: its attributes are those of the run that it is planned for. */
static bool is_moving(const gt_plan_step *step)
{
    return step->moves && step->kind != GT_STEP_VIEW;
}

/* (op, kind, moves, result, operands, attributes) */
static PyObject *describe_step(const gt_plan *plan, const gt_plan_step *step, void *const *buffer, gt_view *in,
                               const gt_view **views)
{
    static const char *const kinds[] = {
        [GT_STEP_RUN] = "run", [GT_STEP_IN_PLACE] = "in_place", [GT_STEP_VIEW] = "view"};
    gt_view out;
    gt_call call = gt__plan_call(plan, step, buffer, in, views, &out);
    PyObject *operands = PyTuple_New(step->operands);
    for (unsigned k = 0; operands && k < step->operands; k++) {
        PyObject *operand = describe_operand(step, &call, k);
        if (!operand)
            Py_CLEAR(operands);
        else
            PyTuple_SET_ITEM(operands, k, operand);
    }
    PyObject *attributes =
        operands ? step->kind == GT_STEP_VIEW ? PyDict_New() : describe_attributes(&call) : NULL;
    if (!attributes) {
        Py_XDECREF(operands);
        return NULL;
    }
    return Py_BuildValue("(ssOINN)", gt__op_table[step->op].name, kinds[step->kind],
                         is_moving(step) ? Py_True : Py_False, step->result, operands, attributes);
}

static char no_address; /* of buffers, in descriptions */

/* A list, or NULL: exception. */
static PyObject *describe_steps(const gt_plan *plan, unsigned most_operands)
{
    gt_view *in = calloc(most_operands + 1, sizeof *in);
    const gt_view **views = calloc(most_operands + 1, sizeof *views);
    void **buffer = calloc(plan->buffer_count + 1, sizeof *buffer);
    PyObject *list = in && views && buffer ? PyList_New(plan->step_count) : PyErr_NoMemory();
    for (uint32_t k = 0; list && k < plan->buffer_count; k++)
        buffer[k] = &no_address;
    for (unsigned k = 0; list && k < plan->step_count; k++) {
        PyObject *step = describe_step(plan, &plan->steps[k], buffer, in, views);
        if (!step)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, k, step);
    }
    free(in);
    free(views);
    free(buffer);
    return list;
}

static PyObject *describe_values(const gt_plan *plan)
{
    PyObject *list = PyList_New(plan->value_count);
    for (uint32_t k = 0; list && k < plan->value_count; k++) {
        PyObject *value = describe_value(&plan->values[k]);
        if (!value)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, k, value);
    }
    return list;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* Append the values of a tuple. False: exception. */
static bool read_values(const gt_plan *plan, PyObject *tuple, part *p)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++) {
        unsigned long value = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(tuple, k));
        if (PyErr_Occurred())
            return false;
        if (value >= plan->value_count) {
            PyErr_SetString(PyExc_ValueError, "compile: a part has a value that is not in the plan");
            return false;
        }
        p->values[p->writes + p->reads++] = (uint32_t)value;
    }
    return true;
}

/* (first, count, writes, reads, function), after the part before it. False: exception. */
static bool read_part(const gt_plan *plan, unsigned begin, PyObject *told, part *p)
{
    PyObject *writes, *reads, *function;
    if (!PyArg_ParseTuple(told, "IIO!O!O:compile", &p->first, &p->count, &PyTuple_Type, &writes, &PyTuple_Type,
                          &reads, &function))
        return false;
    if (p->first < begin || !p->count || p->first >= plan->step_count || p->count > plan->step_count - p->first) {
        PyErr_SetString(PyExc_ValueError,
                        "compile: parts are not in order, or have steps that are not in the plan");
        return false;
    }
    for (unsigned k = p->first; k < p->first + p->count; k++)
        if (is_moving(&plan->steps[k])) {
            PyErr_Format(PyExc_ValueError, "compile: a part has step %u, which moves", k);
            return false;
        }
    size_t values = (size_t)(PyTuple_GET_SIZE(writes) + PyTuple_GET_SIZE(reads));
    p->values = malloc((values + 1) * sizeof *p->values);
    if (!p->values) {
        PyErr_NoMemory();
        return false;
    }
    if (!read_values(plan, writes, p))
        return false;
    p->writes = p->reads;
    p->reads = 0;
    if (!read_values(plan, reads, p))
        return false;
    p->function = Py_NewRef(function);
    return true;
}

static bool read_parts(gt_program *program, PyObject *list)
{
    Py_ssize_t count = PyList_Check(list) ? PyList_GET_SIZE(list) : -1;
    if (count < 0) {
        PyErr_SetString(PyExc_TypeError, "compile: it must return a list of parts");
        return false;
    }
    program->parts = calloc((size_t)count + 1, sizeof *program->parts);
    if (!program->parts) {
        PyErr_NoMemory();
        return false;
    }
    unsigned begin = 0;
    for (Py_ssize_t k = 0; k < count; k++) {
        part *p = &program->parts[program->count++];
        if (!read_part(program->plan, begin, PyList_GET_ITEM(list, k), p))
            return false;
        begin = p->first + p->count;
    }
    return true;
}

/* With the GIL. */
static void program_free(gt_program *program)
{
    for (unsigned k = 0; k < program->count; k++) {
        Py_XDECREF(program->parts[k].function);
        free(program->parts[k].values);
    }
    free(program->parts);
    free(program->imms);
    free(program);
}

/* With the GIL. NULL: exception, or, with *declined, nothing of it is compiled. */
static gt_program *program_new(const gt_py_engine *e, const gt_plan *plan, bool *declined)
{
    gt_program *program = calloc(1, sizeof *program);
    gt_imm(*imms)[2] = malloc((plan->step_count + 1) * sizeof *imms);
    if (!program || !imms) {
        free(program);
        free(imms);
        PyErr_NoMemory();
        return NULL;
    }
    program->plan = plan;
    program->imms = imms;
    for (unsigned k = 0; k < plan->step_count; k++) {
        memcpy(imms[k], plan->steps[k].record->ins.imm, sizeof imms[k]);
        if (plan->steps[k].operands > program->most_operands)
            program->most_operands = plan->steps[k].operands;
    }
    PyObject *package = PyImport_ImportModule("gt.engines");
    PyObject *values = package ? describe_values(plan) : NULL;
    PyObject *steps = values ? describe_steps(plan, program->most_operands) : NULL;
    PyObject *parts = steps ? PyObject_CallMethod(package, "_compile", "OOOO", e->object, values, steps,
                                                  plan->marked ? Py_True : Py_False)
                            : NULL;
    bool read = parts && read_parts(program, parts);
    *declined = read && !program->count;
    Py_XDECREF(parts);
    Py_XDECREF(steps);
    Py_XDECREF(values);
    Py_XDECREF(package);
    if (read && program->count)
        return program;
    program_free(program);
    return NULL;
}

gt_err gt__py_program_compile(gt_engine *engine, gt_plan *plan, gt_program **program)
{
    gt_py_engine *e = (gt_py_engine *)engine;
    bool declined = false;
    PyEval_RestoreThread(e->thread);
    *program = program_new(e, plan, &declined);
    if (!*program && !declined) {
        gt__py_engine_fail("");
        gt__log_error("backend %s: a path is not compiled: %s", engine->ops->name, gt_error_text());
    }
    PyEval_SaveThread();
    return *program ? GT_OK : gt__fail(GT_ERR_UNSUPPORTED, "it is not compiled");
}

void gt__py_program_free(gt_engine *engine, gt_program *program)
{
    gt_py_engine *e = (gt_py_engine *)engine;
    PyEval_RestoreThread(e->thread);
    program_free(program);
    PyEval_SaveThread();
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* A tuple of the numbers of a part's steps. NULL: exception. */
static PyObject *numbers_of(const gt_plan *plan, const part *p)
{
    Py_ssize_t count = 0, at = 0;
    for (unsigned s = p->first; s < p->first + p->count; s++)
        for (unsigned k = 0; k < plan->steps[s].operands; k++)
            count += is_number(&plan->steps[s], k);
    PyObject *numbers = PyTuple_New(count);
    for (unsigned s = p->first; numbers && s < p->first + p->count; s++)
        for (unsigned k = 0; numbers && k < plan->steps[s].operands; k++)
            if (is_number(&plan->steps[s], k)) {
                gt_view view;
                const gt_view *in[GT_MAX_OPERANDS] = {[0] = &view, [1] = &view, [2] = &view};
                gt_call call = {.op = plan->steps[s].op, .ins = &plan->steps[s].record->ins, .in = in};
                call.value[k] = gt__literal_operand(call.ins, k, &view);
                PyObject *number = gt__py_call_literal(&call, k);
                if (!number)
                    Py_CLEAR(numbers);
                else
                    PyTuple_SET_ITEM(numbers, at++, number);
            }
    return numbers;
}

/* A tuple of views of values. NULL: exception. */
static PyObject *views_of(const gt_py_engine *e, const gt_plan *plan, const uint32_t *values, unsigned count,
                          void *const *buffer, bool writable)
{
    PyObject *views = PyTuple_New(count);
    for (unsigned k = 0; views && k < count; k++) {
        gt_view view = gt__plan_view(plan, values[k], buffer);
        PyObject *object = gt__py_engine_operand(e, &view, writable);
        if (!object)
            Py_CLEAR(views);
        else
            PyTuple_SET_ITEM(views, k, object);
    }
    return views;
}

/* The call is over; drops the tuple. */
static bool end_views(PyObject *views)
{
    bool kept = false;
    for (Py_ssize_t k = 0; views && k < PyTuple_GET_SIZE(views); k++) {
        PyObject *view = PyTuple_GET_ITEM(views, k);
        if (view)
            kept |= gt__py_engine_view_end((EngineView *)Py_NewRef(view));
    }
    Py_XDECREF(views);
    return kept;
}

/* Copy a part's results into the views of its writes; `results` has one for each. */
static gt_err store_results(const gt_py_engine *e, PyObject *writes, PyObject *results)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(writes); k++) {
        PyObject *stored = PyObject_CallFunctionObjArgs(e->store, PyTuple_GET_ITEM(writes, k),
                                                        PySequence_Fast_GET_ITEM(results, k), NULL);
        if (!stored)
            return gt__py_engine_fail("");
        Py_DECREF(stored);
    }
    return GT_OK;
}

/* What a part's function returns, a list or tuple of the right length. NULL: it failed, and the error's text is set. */
static PyObject *compute_part(const gt_plan *plan, const part *p, PyObject *reads)
{
    PyObject *numbers = reads ? numbers_of(plan, p) : NULL;
    PyObject *returned = numbers ? PyObject_CallFunctionObjArgs(p->function, reads, numbers, NULL) : NULL;
    PyObject *results =
        returned ? PySequence_Fast(returned, "the function of a part must return its results") : NULL;
    Py_XDECREF(numbers);
    Py_XDECREF(returned);
    if (results && PySequence_Fast_GET_SIZE(results) != (Py_ssize_t)p->writes) {
        PyErr_Format(PyExc_ValueError, "the function of a part returned %zd results instead of %u",
                     PySequence_Fast_GET_SIZE(results), p->writes);
        Py_CLEAR(results);
    }
    if (!results)
        gt__py_engine_fail("");
    return results;
}

/* *ran: false if its steps have to run one by one: nothing has been written then. */
static gt_err run_part(gt_py_engine *e, const gt_program *program, part *p, void *const *buffer, bool *ran)
{
    const gt_plan *plan = program->plan;
    *ran = false;
    for (unsigned k = p->first; k < p->first + p->count; k++)
        if (memcmp(program->imms[k], plan->steps[k].record->ins.imm, sizeof program->imms[k]) != 0)
            return GT_OK;
    PyEval_RestoreThread(e->thread);
    PyObject *writes = views_of(e, plan, p->values, p->writes, buffer, true);
    PyObject *reads = writes ? views_of(e, plan, p->values + p->writes, p->reads, buffer, false) : NULL;
    PyObject *results = compute_part(plan, p, reads);
    gt_err err = results ? store_results(e, writes, results) : GT_OK;
    *ran = results != NULL;
    Py_XDECREF(results);
    bool kept = end_views(reads);
    kept |= end_views(writes);
    if (!*ran || kept) {
        gt__log_error("backend %s: a part of %u steps runs step by step from now on: %s", e->engine.ops->name,
                      p->count, *ran ? "its function keeps an array of its operands or results" : gt_error_text());
        Py_CLEAR(p->function);
    }
    PyEval_SaveThread();
    return err;
}

static gt_err run_steps(gt_py_engine *e, const gt_program *program, void *const *buffer, unsigned begin,
                        unsigned end, unsigned *failed)
{
    const gt_plan *plan = program->plan;
    gt_view out, *in = calloc(program->most_operands + 1, sizeof *in);
    const gt_view **views = calloc(program->most_operands + 1, sizeof *views);
    gt_err err = in && views ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
    *failed = begin;
    for (unsigned k = begin; k < end && err == GT_OK; k++) {
        if (plan->steps[k].kind == GT_STEP_VIEW)
            continue;
        gt_call call = gt__plan_call(plan, &plan->steps[k], buffer, in, views, &out);
        *failed = k;
        err = e->engine.ops->run(&e->engine, &call, &(gt_token){0});
    }
    free(in);
    free(views);
    return err;
}

gt_err gt__py_program_run(gt_engine *engine, gt_program *program, void *const *buffer, bool timed, unsigned *step,
                          gt_token *token)
{
    (void)timed;
    (void)token;
    gt_py_engine *e = (gt_py_engine *)engine;
    unsigned at = 0;
    for (unsigned k = 0; k < program->count; k++) {
        part *p = &program->parts[k];
        if (p->first > at)
            GT_TRY(run_steps(e, program, buffer, at, p->first, step));
        at = p->first + p->count;
        bool ran = false;
        *step = at - 1; /* if it fails, any of its results may be stored */
        if (p->function)
            GT_TRY(run_part(e, program, p, buffer, &ran));
        if (!ran)
            GT_TRY(run_steps(e, program, buffer, p->first, at, step));
    }
    return run_steps(e, program, buffer, at, program->plan->step_count, step);
}
