/*
 * product.c: see product.h. The loops are in product_arm.c and product_x86.c; here is the memory for their copies.
 */
#include "engines/cpu/product.h"

#include <pthread.h>
#include <stdlib.h>

/* Memory for copies, which a thread keeps: to allocate it for each product would scatter the heap. */
typedef struct copies {
    int64_t capacity; /* elements */
    float *data;
} copies;

static pthread_key_t copies_key;
static pthread_once_t copies_once = PTHREAD_ONCE_INIT;
static bool copies_kept;

static void copies_free(void *argument)
{
    copies *kept = argument;
    free(kept->data);
    free(kept);
}

static void copies_init(void)
{
    copies_kept = pthread_key_create(&copies_key, copies_free) == 0;
}

float *gt__product_copies(const gt_cpu *cpu, int64_t elements)
{
    void *memory = NULL;
    pthread_once(&copies_once, copies_init);
    if (!copies_kept)
        return NULL;
    copies *kept = pthread_getspecific(copies_key);
    if (!kept && (!(kept = calloc(1, sizeof *kept)) || pthread_setspecific(copies_key, kept))) {
        free(kept);
        return NULL;
    }
    if (kept->capacity >= elements)
        return kept->data;
    if (gt__cpu_scratch(cpu, (size_t)elements * sizeof(float), &memory) != GT_OK)
        return NULL;
    free(kept->data);
    *kept = (copies){.capacity = elements, .data = memory};
    return kept->data;
}

#if !defined(__aarch64__) && !defined(__x86_64__)

bool gt__product_pays(const gt_cpu *cpu, int64_t m, int64_t n)
{
    (void)cpu;
    (void)m;
    (void)n;
    return false;
}

bool gt__product(const gt_cpu *cpu, const gt_product *p)
{
    (void)cpu;
    (void)p;
    return false;
}

#endif
