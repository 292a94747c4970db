/* liveness.c: see liveness.h. Used by link/memory.c. */
#include "link/liveness.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/link.h"
#include "core/settings.h"

enum { LOOK_MS = GT_LIVENESS_MS / 2 };

void gt__liveness_watch(gt_liveness *watched, int socket)
{
    struct ucred who;
    socklen_t size = sizeof who;
    bool known = !getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) && who.pid != getpid();
    *watched = (gt_liveness){.pid = known ? (int)who.pid : 0};
}

/* Is it stopped, by a signal or a debugger? The file is "PID (NAME) STATE ...", and NAME may contain any characters. */
static bool is_stopped(int pid)
{
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    const char *end = strrchr(text, ')');
    return end && (!strncmp(end, ") T", 3) || !strncmp(end, ") t", 3));
}

bool gt__liveness_lost(gt_liveness *watched)
{
    if (!watched->pid)
        return false;
    uint64_t now = gt__now_ns(), since = now - watched->looked_ns;
    if (since < LOOK_MS * 1000000ull)
        return false;
    watched->looked_ns = now;
    if (!is_stopped(watched->pid))
        watched->stopped_ns = 0;
    else
        watched->stopped_ns += since < 2 * GT_LIVENESS_MS * 1000000ull ? since : LOOK_MS * 1000000ull;
    return watched->stopped_ns >= (uint64_t)gt__setting_ms(GT_SETTING_TIMEOUT) * 1000000u;
}
