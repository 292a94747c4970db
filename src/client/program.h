/* program.h: see program.c. */
#ifndef GT_CLIENT_PROGRAM_H
#define GT_CLIENT_PROGRAM_H

#include <stddef.h>

/* "train.py:4711": the script or program, and its process id. */
void gt__program_name(char *name, size_t size);

#endif
