/* cards.c: see cards.h. NVML is part of the driver, so it is loaded at run time; its few functions are declared here. */
#include "cli/cards.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct nvml_device *nvml_device;
typedef struct nvml_memory {
    unsigned long long total, available, used;
} nvml_memory;
typedef struct nvml_utilization {
    unsigned gpu, memory; /* percent */
} nvml_utilization;

static struct {
    bool tried;
    unsigned count;
    nvml_device device[GT_MOST_CARDS];
    int (*name)(nvml_device, char *, unsigned);
    int (*utilization)(nvml_device, nvml_utilization *);
    int (*memory)(nvml_device, nvml_memory *);
    int (*temperature)(nvml_device, int sensor, unsigned *celsius);
    int (*power)(nvml_device, unsigned *milliwatts);
} nvml;

/* Look up a function; POSIX wants this way of writing to a pointer to a function. */
static bool find(void *library, const char *name, void *function)
{
    *(void **)function = dlsym(library, name);
    return *(void **)function != NULL;
}

static void open_library(void)
{
    int (*init)(void), (*count_devices)(unsigned *), (*get_device)(unsigned, nvml_device *);
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    unsigned found = 0;
    nvml.tried = true;
    if (!library || !find(library, "nvmlInit_v2", &init) ||
        !find(library, "nvmlDeviceGetCount_v2", &count_devices) ||
        !find(library, "nvmlDeviceGetHandleByIndex_v2", &get_device) ||
        !find(library, "nvmlDeviceGetName", &nvml.name) ||
        !find(library, "nvmlDeviceGetUtilizationRates", &nvml.utilization) ||
        !find(library, "nvmlDeviceGetMemoryInfo", &nvml.memory) ||
        !find(library, "nvmlDeviceGetTemperature", &nvml.temperature) ||
        !find(library, "nvmlDeviceGetPowerUsage", &nvml.power) || init() || count_devices(&found))
        return;
    for (unsigned k = 0; k < found && nvml.count < GT_MOST_CARDS; k++)
        nvml.count += get_device(k, &nvml.device[nvml.count]) == 0;
}

unsigned gt__cards_read(gt_card cards[GT_MOST_CARDS])
{
    if (!nvml.tried)
        open_library();
    for (unsigned k = 0; k < nvml.count; k++) {
        nvml_utilization utilization = {0};
        nvml_memory memory = {0};
        unsigned celsius = 0, milliwatts = 0;
        gt_card *card = &cards[k];
        *card = (gt_card){.name = "?"};
        if (nvml.name(nvml.device[k], card->name, sizeof card->name))
            snprintf(card->name, sizeof card->name, "?");
        if (!nvml.utilization(nvml.device[k], &utilization))
            card->busy = utilization.gpu / 100.0;
        if (!nvml.memory(nvml.device[k], &memory)) {
            card->used = (double)memory.used;
            card->memory = (double)memory.total;
        }
        if (!nvml.temperature(nvml.device[k], 0, &celsius))
            card->celsius = celsius;
        if (!nvml.power(nvml.device[k], &milliwatts))
            card->watts = milliwatts / 1000.0;
    }
    return nvml.count;
}
