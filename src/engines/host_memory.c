/* host_memory.c: see host_memory.h. */
#include "engines/host_memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/settings.h"

static const char *root = "";

void gt__memory_set_root(const char *folder)
{
    root = folder;
}

static FILE *open_file(const char *path)
{
    char whole[512];
    return (size_t)snprintf(whole, sizeof whole, "%s%s", root, path) < sizeof whole ? fopen(whole, "r") : NULL;
}

/* Text of a file, mixed into a hash. */
static uint64_t hash_file(uint64_t hash, const char *path)
{
    FILE *file = open_file(path);
    for (int byte; file && (byte = fgetc(file)) != EOF;)
        hash = (hash ^ (uint64_t)byte) * 0x100000001b3u;
    if (file)
        fclose(file);
    return hash;
}

/* The number that a file holds; 0 if it does not exist or holds another text ("max"). */
static uint64_t read_number(const char *path)
{
    unsigned long long number = 0;
    FILE *file = open_file(path);
    if (!file)
        return 0;
    if (fscanf(file, "%llu", &number) != 1)
        number = 0;
    fclose(file);
    return number;
}

/* Add up the numbers of a file's lines `NAME NUMBER` whose names are given; false if there are none. */
static bool add_lines(const char *path, const char *const *names, unsigned count, uint64_t *sum)
{
    char line[256], name[64];
    unsigned long long number;
    unsigned found = 0;
    FILE *file = open_file(path);
    *sum = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%63s %llu", name, &number) != 2)
            continue;
        for (unsigned k = 0; k < count; k++)
            if (strcmp(name, names[k]) == 0) {
                *sum += number;
                found++;
            }
    }
    if (file)
        fclose(file);
    return found != 0;
}

static uint64_t control_group_limit(void)
{
    return read_number("/sys/fs/cgroup/memory.max");
}

/* What the group uses, without file contents that the kernel would drop. */
static uint64_t control_group_usage(void)
{
    static const char *const reclaimable[] = {"active_file", "inactive_file", "slab_reclaimable"};
    uint64_t used = read_number("/sys/fs/cgroup/memory.current"), cache;
    add_lines("/sys/fs/cgroup/memory.stat", reclaimable, 3, &cache);
    return used > cache ? used - cache : 0;
}

static uint64_t machine_memory(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t gt__memory_limit(unsigned sharers)
{
    uint64_t limit = (uint64_t)gt__setting(GT_SETTING_WORKER_MEMORY);
    if (limit)
        return limit;
    uint64_t machine = machine_memory();
    uint64_t group = control_group_limit();
    if (group && group < machine)
        machine = group;
    return machine / 10 * 9 / (sharers > 1 ? sharers : 1);
}

/* `left` of `all` are available. */
static gt_err check_left(const char *whose, uint64_t left, uint64_t all, size_t bytes)
{
    if (left >= bytes && left - bytes >= all / 10)
        return GT_OK;
    return gt__fail(GT_ERR_MEMORY, "%s has only %llu bytes left, and a tenth of its %llu must stay free", whose,
                    (unsigned long long)left, (unsigned long long)all);
}

gt_err gt__memory_check(size_t bytes)
{
    static const char *const total = "MemTotal:", *const available = "MemAvailable:";
    uint64_t all, left, limit = control_group_limit();
    if (limit) {
        uint64_t used = control_group_usage();
        GT_TRY(check_left("the control group", limit > used ? limit - used : 0, limit, bytes));
    }
    /* In KiB. A kernel that does not say is not asked. */
    if (!add_lines("/proc/meminfo", &total, 1, &all) || !add_lines("/proc/meminfo", &available, 1, &left))
        return GT_OK;
    return check_left("the host", left * 1024, all * 1024, bytes);
}

uint64_t gt__host_identity(void)
{
    return hash_file(0xcbf29ce484222325u, "/proc/sys/kernel/random/boot_id");
}

uint64_t gt__memory_identity(void)
{
    uint64_t hash = gt__host_identity();
    return control_group_limit() ? hash_file(hash, "/proc/self/cgroup") : hash;
}
