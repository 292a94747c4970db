/*
 * site.c: sites of C programs: GT_HERE() of gt.h. A site gets its number when it is first passed; a thread is at the last site
 * that it passed. Language bindings find sites by themselves, with their own hooks (client.h).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"

typedef struct place {
    const char *file;
    int line;
} place;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the table, which only grows */
static place *places;                                     /* number minus one */
static uint32_t place_count, place_capacity;
static _Thread_local uint32_t here;
static uint32_t reserved; /* numbers up to this are not given any more; read without the mutex */

static uint32_t current(void)
{
    return here > __atomic_load_n(&reserved, __ATOMIC_RELAXED) ? here : 0;
}

/* "file:line", cut at the front to fit. */
static size_t name(uint32_t site, char *text, size_t size)
{
    char whole[1024];
    pthread_mutex_lock(&mutex);
    bool known = site && site <= place_count && places[site - 1].file;
    int length = known ? snprintf(whole, sizeof whole, "%s:%d", places[site - 1].file, places[site - 1].line) : 0;
    pthread_mutex_unlock(&mutex);
    size_t all = length < (int)sizeof whole ? (size_t)length : sizeof whole - 1,
           kept = all < size ? all : size - 1;
    memcpy(text, whole + all - kept, kept);
    text[kept] = 0;
    return kept;
}

/* With the mutex held. 0: out of memory, or too many sites. */
static uint32_t number_new(const char *file, int line)
{
    if (place_count == place_capacity) {
        uint32_t capacity = place_capacity ? 2 * place_capacity : 64;
        place *grown = capacity <= GT_MAX_SITES ? realloc(places, capacity * sizeof *grown) : NULL;
        if (!grown)
            return 0;
        places = grown;
        place_capacity = capacity;
    }
    places[place_count] = (place){.file = file, .line = line};
    return ++place_count;
}

void gt_here(uint32_t *site, const char *file, int line)
{
    if (!site || !file)
        return;
    uint32_t number = __atomic_load_n(site, __ATOMIC_ACQUIRE);
    if (number <= __atomic_load_n(&reserved, __ATOMIC_RELAXED)) { /* 0, or one of before */
        pthread_mutex_lock(&mutex);
        if (!gt__site_hooks.current)
            gt__site_hooks = (gt_site_hooks){.current = current, .name = name};
        number = *site;
        if (number <= reserved && gt__site_hooks.current == current)
            __atomic_store_n(site, number = number_new(file, line), __ATOMIC_RELEASE);
        pthread_mutex_unlock(&mutex);
    }
    here = number;
}

void gt__sites_reserve(uint32_t count)
{
    pthread_mutex_lock(&mutex);
    while (place_count < count && number_new(NULL, 0))
        continue;
    __atomic_store_n(&reserved, place_count, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&mutex);
    if (gt__site_hooks.reserve)
        gt__site_hooks.reserve(count);
}
