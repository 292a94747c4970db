/*
 * servers.c: see servers.h. Used by watcher.c.
 *
 * The ports in the socket directory are those of dispatchers, of workers (for each other) and of servers that were killed. A
 * dispatcher welcomes a monitor at once; a worker in the middle of an operation does not even accept the connection. So each
 * port is asked by a thread of its own, and after the first welcome the others have GRACE_MS left. Threads that still wait
 * then are left behind: they end by themselves, or with the process.
 */
#include "cli/servers.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "link/address.h"
#include "link/hello.h"

enum {
    PROBE_MS = 3000,       /* timeout of a dispatcher's answer */
    GRACE_MS = 300,        /* timeout of further answers, after the first; */
    HURRIED_GRACE_MS = 10, /* in a hurry */
    STACK_BYTES = 1 << 18, /* of a thread: a record of the longest kind is on it */
};

/* What the threads and the one that waits share; the last of them frees it. */
typedef struct server_search {
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    int references;
    int asked; /* ports without an outcome */
    unsigned found;
    int ports[GT_MAX_SERVERS];
} server_search;

typedef struct probe {
    server_search *search;
    int port;
} probe;

/* With the mutex, which it unlocks. */
static void leave(server_search *search)
{
    bool last = --search->references == 0;
    pthread_mutex_unlock(&search->mutex);
    if (!last)
        return;
    pthread_cond_destroy(&search->answered);
    pthread_mutex_destroy(&search->mutex);
    free(search);
}

static bool is_dispatcher(int port)
{
    gt_link *link;
    gt_welcome welcome;
    char address[32];
    snprintf(address, sizeof address, "memory://localhost:%d", port);
    if (gt__address_connect(address, NULL, PROBE_MS, &link) != GT_OK)
        return false;
    bool welcomed = gt__hello_send(link, GT_ROLE_MONITOR, "monitor", NULL) == GT_OK &&
                    gt__hello_wait(link, PROBE_MS, &welcome) == GT_OK;
    gt__link_close(link);
    return welcomed;
}

static void *ask_port(void *argument)
{
    probe mine = *(probe *)argument;
    free(argument);
    bool dispatcher = is_dispatcher(mine.port);
    pthread_mutex_lock(&mine.search->mutex);
    if (dispatcher)
        mine.search->ports[mine.search->found++] = mine.port;
    mine.search->asked--;
    pthread_cond_signal(&mine.search->answered);
    leave(mine.search);
    return NULL;
}

/* A thread that asks this port. Without one the port is left out. */
static void start_probe(server_search *search, int port)
{
    probe *asked = malloc(sizeof *asked);
    pthread_t thread;
    pthread_attr_t detached;
    if (!asked || pthread_attr_init(&detached)) {
        free(asked);
        return;
    }
    *asked = (probe){.search = search, .port = port};
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&detached, STACK_BYTES);
    pthread_mutex_lock(&search->mutex);
    bool started = pthread_create(&thread, &detached, ask_port, asked) == 0;
    search->references += started;
    search->asked += started;
    pthread_mutex_unlock(&search->mutex);
    pthread_attr_destroy(&detached);
    if (!started)
        free(asked);
}

static server_search *search_new(void)
{
    server_search *search = calloc(1, sizeof *search);
    pthread_condattr_t monotonic;
    if (!search || pthread_condattr_init(&monotonic)) {
        free(search);
        return NULL;
    }
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&search->answered, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&search->mutex, NULL);
    search->references = 1;
    return search;
}

static struct timespec in_ms(int ms)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_nsec += (long)ms % 1000 * 1000000;
    time.tv_sec += ms / 1000 + time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static int by_port(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

unsigned gt__servers_find(int ports[GT_MAX_SERVERS], bool hurry)
{
    int count = gt__address_servers(ports, GT_MAX_SERVERS);
    server_search *search = count ? search_new() : NULL;
    if (!search)
        return 0;
    sigset_t all, before; /* signals are for the thread that waits */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    for (int k = 0; k < count; k++)
        start_probe(search, ports[k]);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    struct timespec deadline = in_ms(PROBE_MS);
    bool grace = false;
    pthread_mutex_lock(&search->mutex);
    while (search->asked) {
        if (search->found && !grace) {
            deadline = in_ms(hurry ? HURRIED_GRACE_MS : GRACE_MS);
            grace = true;
        }
        if (pthread_cond_timedwait(&search->answered, &search->mutex, &deadline))
            break;
    }
    unsigned found = search->found;
    for (unsigned k = 0; k < found; k++)
        ports[k] = search->ports[k];
    leave(search);
    qsort(ports, found, sizeof *ports, by_port);
    return found;
}
