/* thread.c: see thread.h. */
#include "core/thread.h"

#include <signal.h>
#include <string.h>

gt_err gt__thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? gt__fail(GT_ERR_INTERNAL, "cannot start a thread: %s", strerror(failed)) : GT_OK;
}
