/*
 * fake_nvml.c: a stand-in for NVIDIA's management library (libnvidia-ml.so.1): two cards, of which the second in its order is the
 * one that fake_driver.c computes on. Each question for its temperature finds it one degree warmer. With FAKE_NVML_BARE, the cards
 * tell their names and nothing else. With FAKE_NVML_SILENT they never answer.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

typedef struct card {
    const char *bus_id, *name;
    unsigned percent, milliwatts;
    unsigned long long total, used;
    atomic_uint celsius;
} card;

typedef struct memory_info {
    unsigned version;
    unsigned long long total, reserved, available, used;
} memory_info;

API int nvmlInit_v2(void);
API int nvmlDeviceGetCount_v2(unsigned *count);
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, card **device);
API int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, card **device);
API int nvmlDeviceGetName(const card *device, char *name, unsigned size);
API int nvmlDeviceGetUtilizationRates(const card *device, unsigned percent[2]);
API int nvmlDeviceGetMemoryInfo_v2(const card *device, memory_info *memory);
API int nvmlDeviceGetTemperature(card *device, int sensor, unsigned *celsius);
API int nvmlDeviceGetPowerUsage(const card *device, unsigned *milliwatts);

static card cards[] = {
    {.bus_id = "0000:11:00.0", .name = "Other GPU", .percent = 99, .milliwatts = 1, .total = 2, .used = 1},
    {.bus_id = "0000:5a:00.0",
     .name = "Fake GPU 80GB",
     .percent = 37,
     .milliwatts = 250500,
     .total = 80000000000,
     .used = 3000000000,
     .celsius = 60},
};

enum { COUNT = sizeof cards / sizeof cards[0] };

static int unless_bare(void)
{
    return getenv("FAKE_NVML_BARE") ? NOT_SUPPORTED : SUCCESS;
}

API int nvmlInit_v2(void)
{
    return SUCCESS;
}

API int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = COUNT;
    return SUCCESS;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, card **device)
{
    if (index >= COUNT)
        return INVALID_ARGUMENT;
    *device = &cards[index];
    return SUCCESS;
}

API int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, card **device)
{
    for (unsigned k = 0; k < COUNT; k++)
        if (strcmp(cards[k].bus_id, bus_id) == 0)
            return nvmlDeviceGetHandleByIndex_v2(k, device);
    return NOT_FOUND;
}

API int nvmlDeviceGetName(const card *device, char *name, unsigned size)
{
    while (getenv("FAKE_NVML_SILENT"))
        pause();
    snprintf(name, size, "%s", device->name);
    return SUCCESS;
}

API int nvmlDeviceGetUtilizationRates(const card *device, unsigned percent[2])
{
    percent[0] = device->percent;
    percent[1] = 0;
    return unless_bare();
}

API int nvmlDeviceGetMemoryInfo_v2(const card *device, memory_info *memory)
{
    if (memory->version != (sizeof *memory | 2 << 24))
        return INVALID_ARGUMENT;
    memory->total = device->total;
    memory->reserved = 600000000;
    memory->used = device->used;
    memory->available = memory->total - memory->reserved - memory->used;
    return unless_bare();
}

API int nvmlDeviceGetTemperature(card *device, int sensor, unsigned *celsius)
{
    if (sensor != 0)
        return INVALID_ARGUMENT;
    *celsius = atomic_fetch_add(&device->celsius, 1) + 1;
    return unless_bare();
}

API int nvmlDeviceGetPowerUsage(const card *device, unsigned *milliwatts)
{
    *milliwatts = device->milliwatts;
    return unless_bare();
}
