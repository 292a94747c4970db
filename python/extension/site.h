/* site.h: the instruction that Python executes, for site.c and for operations that ask first whether it is the one expected. */
#ifndef GT_PYTHON_SITE_H
#define GT_PYTHON_SITE_H

#if !defined(Py_BUILD_CORE) && defined(Py_PYTHON_H)
#error "include site.h before Python.h"
#endif
#define Py_BUILD_CORE
#include "extension.h"

#if PY_VERSION_HEX < 0x030C0000
#include <internal/pycore_frame.h>
#include <internal/pycore_pystate.h>
#define GT_PY_FRAMES_IN_PLACE 1
#endif

/* NULL: there is none, or it takes longer to find out. */
static inline const void *gt__py_at(void)
{
#ifdef GT_PY_FRAMES_IN_PLACE
    const _PyInterpreterFrame *frame = _PyThreadState_GET()->cframe->current_frame;
    return LIKELY(frame != NULL) ? frame->prev_instr : NULL;
#else
    return NULL;
#endif
}

#endif
