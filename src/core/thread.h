/* thread.h: threads beside those of the program. */
#ifndef GT_CORE_THREAD_H
#define GT_CORE_THREAD_H

#include <pthread.h>

#include "core/error.h"

/* Start a thread that takes no signals: they are for the program's own threads. */
gt_err gt__thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
