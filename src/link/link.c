/*
 * link.c: common to all links: death with a reason, and waiting.
 *
 * The transports (link/memory.c, link/zmq.c) implement how to check and how to prepare for sleep. The pattern is here:
 * check, yield-spin briefly because most answers arrive within microseconds, then sleep in the kernel. Spinning yields
 * the processor in every iteration, so it does not delay a thread that has work (BLAS).
 */
#include "link/link.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "link/address.h"
#include "link/liveness.h"

uint64_t gt__now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t gt__deadline_ns(int timeout_ms)
{
    return timeout_ms < 0 ? 0 : gt__now_ns() + (uint64_t)timeout_ms * 1000000u;
}

int gt__remaining_ms(uint64_t deadline_ns)
{
    if (!deadline_ns)
        return -1;
    uint64_t now = gt__now_ns(), left_ms = now >= deadline_ns ? 0 : (deadline_ns - now - 1) / 1000000u + 1;
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

static void stop_writing(gt_link *link, const char *format, va_list args)
{
    if (!link->reason[0])
        vsnprintf(link->reason, sizeof link->reason, format, args);
    link->gone = true;
    link->write_end = link->write_next;
    link->unflushed = 0;
}

void gt__link_lose(gt_link *link, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    stop_writing(link, format, args);
    va_end(args);
}

void gt__link_kill(gt_link *link, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    stop_writing(link, format, args);
    va_end(args);
    link->dead = true;
    link->read_next = link->read_end;
}

/* A server that was killed left its files. */
void gt__link_close(gt_link *link)
{
    int port = link->gone ? link->port : 0;
    link->ops->close(link);
    if (port)
        gt__address_sweep_port(port);
}

void gt__link_same_user(gt_link *link)
{
    link->trust = GT_TRUST_USER;
    snprintf(link->user, sizeof link->user, "uid %u", (unsigned)geteuid());
}

enum { UNREAD_LOOKS = 1024 }; /* slots that are looked at: few enough to ask for a thousand clients at once */

void gt__unread_add(gt_unread *unread, const void *slots, uint64_t count)
{
    uint64_t at = 0;
    uint16_t tail; /* the peer may write to it meanwhile */
    unread->slots += count;
    for (; at < count && unread->looked_at + at < UNREAD_LOOKS; unread->records++, at += 1u + tail)
        memcpy(&tail, (const char *)slots + at * sizeof(gt_slot) + offsetof(gt_instruction, tail), sizeof tail);
    unread->looked_at += at < count ? at : count;
}

uint64_t gt__unread_records(const gt_unread *unread)
{
    return unread->looked_at ? unread->records * unread->slots / unread->looked_at : 0;
}

/* True when the wait is over; *err says how. */
static bool settled(gt_link *link, gt_wait what, const gt_waiter *waiter, gt_err *err)
{
    *err = GT_OK;
    if (waiter->ready(link, what))
        return true;
    if (!link->dead && !(link->gone && what == GT_WAIT_WRITE))
        return false;
    *err = gt__fail(GT_ERR_CONNECTION, "%s", link->reason);
    return true;
}

gt_err gt__link_wait_with(gt_link *link, gt_wait what, int timeout_ms, const gt_waiter *waiter)
{
    gt_err err;
    gt__link_flush(link); /* an answer can only come to what was sent */
    if (settled(link, what, waiter, &err))
        return err;
    uint64_t deadline = gt__deadline_ns(timeout_ms);
    uint64_t spin_end = gt__now_ns() + (timeout_ms ? GT_SPIN_US * 1000u : 0);
    while (gt__now_ns() < spin_end) {
        for (int turn = 0; turn < 8; turn++) {
            sched_yield();
            if (settled(link, what, waiter, &err))
                return err;
        }
    }
    for (;;) {
        int rc = 1;
        if (waiter->arm(link, what)) {
            struct pollfd wake = {.fd = waiter->fd, .events = POLLIN};
            int left = gt__remaining_ms(deadline), most = link->watched ? GT_LIVENESS_MS : left;
            rc = poll(&wake, 1, left < 0 || left > most ? most : left);
        }
        int error = errno;
        if (rc == 0 && link->watched)
            link->ops->look(link);
        if (settled(link, what, waiter, &err))
            return err;
        if (rc < 0 && error == EINTR)
            return gt__fail(GT_ERR_INTERRUPTED, "interrupted by a signal");
        if (rc < 0)
            return gt__fail(GT_ERR_INTERNAL, "poll: %s", strerror(error));
        if (deadline && gt__now_ns() >= deadline)
            return gt__fail(GT_ERR_TIMEOUT, "nothing came from %s within %d ms", link->peer, timeout_ms);
    }
}
