/* memory_limit.c: see memory_limit.h. */
#include "memory_limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t parse_bytes(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    switch (*end) {
    case 'k': case 'K': value *= 1024; break;
    case 'm': case 'M': value *= 1024 * 1024; break;
    case 'g': case 'G': value *= 1024.0 * 1024 * 1024; break;
    case 't': case 'T': value *= 1024.0 * 1024 * 1024 * 1024; break;
    default: break;
    }
    return end != text && value >= 1 && value < 9e18 ? (uint64_t)value : 0;
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

uint64_t gt__memory_limit(void)
{
    const char *text = getenv("GT_WORKER_MEMORY");
    uint64_t limit = text ? parse_bytes(text) : 0;
    if (limit)
        return limit;
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t group = control_group_limit();
    if (group && group < machine)
        machine = group;
    return machine / 10 * 9;
}
