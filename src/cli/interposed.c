/* interposed.c: functions that libzmq finds here before it finds those of the C library: see link/zmq_intake.h. Only in the gt program. */
#include <dlfcn.h>

#include "link/zmq_intake.h"

__attribute__((visibility("default"))) int accept4(int listener, struct sockaddr *address, socklen_t *length,
                                                   int flags)
{
    static gt_accept_function *_Atomic next;
    if (!next)
        next = (gt_accept_function *)dlsym(RTLD_NEXT, "accept4");
    return gt__intake_accept(next, listener, address, length, flags);
}

__attribute__((visibility("default"))) ssize_t recv(int connection, void *to, size_t bytes, int flags)
{
    static gt_receive_function *_Atomic next;
    if (!next)
        next = (gt_receive_function *)dlsym(RTLD_NEXT, "recv");
    return gt__intake_receive(next, connection, to, bytes, flags);
}
