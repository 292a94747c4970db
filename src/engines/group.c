/* group.c: see group.h. */
#include "engines/group.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Drawn at random: process ids are not unique, in containers they are often all 1. A forked process draws its own. */
uint64_t gt__process_identity(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pid_t drawn_by;
    static uint64_t identity;
    pthread_mutex_lock(&mutex);
    if (drawn_by != getpid()) {
        drawn_by = getpid();
        if (getrandom(&identity, sizeof identity, 0) != (ssize_t)sizeof identity)
            identity = 0;
    }
    uint64_t ours = identity;
    pthread_mutex_unlock(&mutex);
    return ours;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t count)
{
    for (size_t k = 0; k < count; k++)
        hash = (hash ^ ((const uint8_t *)bytes)[k]) * 0x100000001b3u;
    return hash;
}

static bool mix_namespace(uint64_t *hash, const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return false;
    uint64_t inode = status.st_ino;
    *hash = mix(*hash, &inode, sizeof inode);
    return true;
}

uint64_t gt__neighbours_identity(void)
{
    char boot[64];
    uid_t user = getuid();
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, boot, sizeof boot) : -1;
    if (file >= 0)
        close(file);
    if (length <= 0)
        return 0;
    uint64_t hash = mix(0xcbf29ce484222325u, boot, (size_t)length);
    hash = mix(hash, &user, sizeof user);
    return mix_namespace(&hash, "/proc/self/ns/pid") && mix_namespace(&hash, "/proc/self/ns/ipc") ? hash : 0;
}
