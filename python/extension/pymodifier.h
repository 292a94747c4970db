/* pymodifier.h: stream modifiers that are Python functions: gt.register_modifier. */
#ifndef GT_PYTHON_PYMODIFIER_H
#define GT_PYTHON_PYMODIFIER_H

#include "extension.h"

extern PyMethodDef gt__py_modifier_functions[];

#endif
