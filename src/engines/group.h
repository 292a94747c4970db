/* group.h: numbers for engines that can reach each other's memory: gt_engine_ops.group. */
#ifndef GT_ENGINES_GROUP_H
#define GT_ENGINES_GROUP_H

#include <stdint.h>

/* The same in all threads of this process, and in no other process. 0: no random number was to be had. */
uint64_t gt__process_identity(void);

/* The same in the processes of one user on one host that see each other's process ids: they may exchange handles of a
 * device's memory. 0: not known. */
uint64_t gt__neighbours_identity(void);

#endif
