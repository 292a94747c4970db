/* host_memory.c: see host_memory.h. */
#include "engines/host_memory.h"

#include <stdio.h>
#include <unistd.h>

#include "core/settings.h"

/* Text of a file, mixed into a hash. */
static uint64_t hash_file(uint64_t hash, const char *path)
{
    FILE *file = fopen(path, "r");
    for (int byte; file && (byte = fgetc(file)) != EOF;)
        hash = (hash ^ (uint64_t)byte) * 0x100000001b3u;
    if (file)
        fclose(file);
    return hash;
}

static uint64_t control_group_limit(void)
{
    unsigned long long limit = 0;
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "r");
    if (!file)
        return 0;
    if (fscanf(file, "%llu", &limit) != 1)
        limit = 0;
    fclose(file);
    return limit;
}

uint64_t gt__memory_limit(unsigned sharers)
{
    uint64_t limit = (uint64_t)gt__setting(GT_SETTING_WORKER_MEMORY);
    if (limit)
        return limit;
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t group = control_group_limit();
    if (group && group < machine)
        machine = group;
    return machine / 10 * 9 / (sharers > 1 ? sharers : 1);
}

uint64_t gt__memory_identity(void)
{
    uint64_t hash = hash_file(0xcbf29ce484222325u, "/proc/sys/kernel/random/boot_id");
    return control_group_limit() ? hash_file(hash, "/proc/self/cgroup") : hash;
}
