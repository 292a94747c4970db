/* cards.c: see cards.h. NVML is part of the driver, so it is loaded at run time; its few functions are declared here. */
#include "core/cards.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

typedef struct nvml_device *nvml_device;
/* nvmlMemory_v2_t: what the driver keeps for itself is no part of `used`, as in nvidia-smi. */
typedef struct nvml_memory {
    unsigned version;
    unsigned long long total, reserved, available, used;
} nvml_memory;
enum { MEMORY_VERSION = sizeof(nvml_memory) | 2 << 24 };
typedef struct nvml_utilization {
    unsigned gpu, memory; /* percent */
} nvml_utilization;

static struct {
    bool open;
    int (*count)(unsigned *);
    int (*by_index)(unsigned, nvml_device *);
    int (*by_bus_id)(const char *, nvml_device *);
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
    int (*init)(void);
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    nvml.open = library && find(library, "nvmlInit_v2", &init) &&
                find(library, "nvmlDeviceGetCount_v2", &nvml.count) &&
                find(library, "nvmlDeviceGetHandleByIndex_v2", &nvml.by_index) &&
                find(library, "nvmlDeviceGetHandleByPciBusId_v2", &nvml.by_bus_id) &&
                find(library, "nvmlDeviceGetName", &nvml.name) &&
                find(library, "nvmlDeviceGetUtilizationRates", &nvml.utilization) &&
                find(library, "nvmlDeviceGetMemoryInfo_v2", &nvml.memory) &&
                find(library, "nvmlDeviceGetTemperature", &nvml.temperature) &&
                find(library, "nvmlDeviceGetPowerUsage", &nvml.power) && init() == 0;
}

static bool library_is_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_library);
    return nvml.open;
}

static void read_device(nvml_device device, gt_card *card)
{
    nvml_utilization utilization = {0};
    nvml_memory memory = {.version = MEMORY_VERSION};
    unsigned celsius = 0, milliwatts = 0;
    *card = (gt_card){.known = GT_CARD_THERE};
    if (nvml.name(device, card->name, sizeof card->name))
        snprintf(card->name, sizeof card->name, "?");
    if (!nvml.utilization(device, &utilization)) {
        card->known |= GT_CARD_BUSY;
        card->busy = utilization.gpu / 100.0;
    }
    if (!nvml.memory(device, &memory)) {
        card->known |= GT_CARD_MEMORY;
        card->used = memory.used;
        card->memory = memory.total;
    }
    if (!nvml.temperature(device, 0, &celsius)) {
        card->known |= GT_CARD_CELSIUS;
        card->celsius = celsius;
    }
    if (!nvml.power(device, &milliwatts)) {
        card->known |= GT_CARD_WATTS;
        card->watts = milliwatts / 1000.0;
    }
}

unsigned gt__cards_count(void)
{
    unsigned found = 0;
    return library_is_open() && !nvml.count(&found) ? found : 0;
}

unsigned gt__cards_read(gt_card cards[GT_MOST_CARDS])
{
    unsigned found = gt__cards_count(), count = 0;
    nvml_device device;
    for (unsigned k = 0; k < found && count < GT_MOST_CARDS; k++)
        if (!nvml.by_index(k, &device))
            read_device(device, &cards[count++]);
    return count;
}

bool gt__card_read(const char *bus_id, gt_card *card)
{
    nvml_device device;
    if (!library_is_open() || nvml.by_bus_id(bus_id, &device))
        return false;
    read_device(device, card);
    return true;
}

/* ---- in one word: known 8 bits, percent 8, degrees 16, milliwatts 32 --------------------------------------------- */

static uint64_t field(double value, uint64_t most, unsigned shift)
{
    uint64_t number = value <= 0 ? 0 : value >= (double)most ? most : (uint64_t)(value + 0.5);
    return number << shift;
}

uint64_t gt__card_pack(const gt_card *card)
{
    return card->known | field(card->busy * 100, 100, 8) | field(card->celsius, UINT16_MAX, 16) |
           field(card->watts * 1000, UINT32_MAX, 32);
}

void gt__card_unpack(uint64_t packed, gt_card *card)
{
    card->known = packed & 0xff;
    card->busy = (double)(packed >> 8 & 0xff) / 100;
    card->celsius = (double)(packed >> 16 & 0xffff);
    card->watts = (double)(packed >> 32) / 1000;
}
