/*
 * fake_nccl.c: a libnccl.so.2 whose ranks are threads of one process, over fake_driver.c's memory. Work waits in each rank's
 * stream until the other ranks' streams come to theirs, as on cards, and for ever if one never comes, until the communicator is
 * aborted. Sums are in the order of the ranks. What NCCL forbids is refused: two ranks on one card, calls of another size at
 * another rank, and calls before a communicator is made. FAKE_NCCL_REFUSE: no communicator can be made.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/half.h"
#include "engines/cuda/api.h"
#include "fake_driver.h"

#define API __attribute__((visibility("default")))
#define PROTOTYPE(member, symbol, arguments) API int symbol arguments;
GT_CUDA_NCCL_FUNCTIONS(PROTOTYPE)
API const char *ncclGetErrorString(int result);

enum { INVALID_ARGUMENT = 4, INVALID_USAGE = 5, MOST_RANKS = 16, MOST_CALLS = 64, MOST_MEETINGS = 256 };

typedef enum kind { ALL_REDUCE, REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SEND, RECEIVE } kind;

typedef struct call {
    kind what;
    const void *in;
    void *out;
    size_t count;
    int type, peer; /* the root, or the other rank */
} call;

/* The ranks of one id. */
typedef struct meeting {
    ncclUniqueId id;
    int ranks, came;
    bool refused; /* two are on one card */
    int device[MOST_RANKS];
    /* One collective at a time: who is there, with what, and how many are done. */
    const call *there[MOST_RANKS];
    int arrived, done;
    uint64_t turn;
    /* Sends that wait for their receivers, by sender and receiver. */
    const call *letter[MOST_RANKS][MOST_RANKS];
} meeting;

struct ncclComm {
    meeting *met;
    int rank;
    bool aborted;
    int queued; /* groups in the stream */
};

typedef struct group {
    ncclComm_t comm;
    CUstream stream;
    int count;
    call calls[MOST_CALLS];
} group;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all that follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static meeting *meetings[MOST_MEETINGS];
static int meeting_count;
static _Thread_local int depth;
static _Thread_local group open_group;

/* ---- communicators ------------------------------------------------------------------------------------------------ */

API int ncclGetVersion(int *version)
{
    *version = 22703;
    return ncclSuccess;
}

API const char *ncclGetErrorString(int result)
{
    return result == INVALID_USAGE      ? "invalid usage"
           : result == INVALID_ARGUMENT ? "invalid argument"
                                        : "an error";
}

API int ncclGetUniqueId(ncclUniqueId *id)
{
    static uint64_t last;
    memset(id, 0, sizeof *id);
    pthread_mutex_lock(&mutex);
    last++;
    memcpy(id->internal, &last, sizeof last);
    pthread_mutex_unlock(&mutex);
    return ncclSuccess;
}

/* With the mutex. */
static meeting *meeting_of(const ncclUniqueId *id, int ranks)
{
    for (int k = 0; k < meeting_count; k++)
        if (memcmp(&meetings[k]->id, id, sizeof *id) == 0)
            return meetings[k];
    if (meeting_count == MOST_MEETINGS)
        return NULL;
    meeting *m = calloc(1, sizeof *m);
    m->id = *id;
    m->ranks = ranks;
    return meetings[meeting_count++] = m;
}

API int ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId id, int rank, gt_nccl_config *config)
{
    *out = NULL;
    if (config->magic != GT_NCCL_MAGIC || config->size != sizeof *config || config->blocking != 0)
        return INVALID_ARGUMENT;
    if (ranks > MOST_RANKS || getenv("FAKE_NCCL_REFUSE"))
        return INVALID_USAGE;
    ncclComm_t comm = calloc(1, sizeof *comm);
    pthread_mutex_lock(&mutex);
    comm->met = meeting_of(&id, ranks);
    comm->rank = rank;
    if (!comm->met || comm->met->ranks != ranks)
        abort();
    meeting *m = comm->met;
    for (int k = 0; k < m->came; k++)
        m->refused = m->refused || m->device[k] == fake_current_device();
    m->device[m->came++] = fake_current_device();
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    *out = comm;
    return ncclInProgress;
}

API int ncclCommGetAsyncError(ncclComm_t comm, int *state)
{
    pthread_mutex_lock(&mutex);
    const meeting *m = comm->met;
    *state = m->refused ? INVALID_USAGE : m->came < m->ranks ? ncclInProgress : ncclSuccess;
    pthread_mutex_unlock(&mutex);
    return ncclSuccess;
}

/* Its own work ends at once; that of the other ranks waits on. */
API int ncclCommAbort(ncclComm_t comm)
{
    pthread_mutex_lock(&mutex);
    comm->aborted = true;
    pthread_cond_broadcast(&changed);
    while (comm->queued)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    free(comm);
    return ncclSuccess;
}

/* ---- on the stream's thread ------------------------------------------------------------------------------------------ */

static size_t type_size(int type)
{
    return type == ncclInt8 || type == ncclUint8         ? 1
           : type == ncclFloat16 || type == ncclBfloat16 ? 2
           : type == ncclInt32 || type == ncclFloat32    ? 4
                                                         : 8;
}

static void *memory_at(const void *pointer, size_t bytes)
{
    return bytes ? fake_address((uintptr_t)pointer, bytes) : NULL;
}

#define ADD(T) ((T *)to)[i] = (T)(((T *)to)[i] + ((const T *)from)[i])
static void add(void *to, const void *from, size_t count, int type)
{
    for (size_t i = 0; i < count; i++)
        switch (type) {
        case ncclInt8:
        case ncclUint8:
            ADD(uint8_t);
            break;
        case ncclInt32:
            ADD(uint32_t);
            break;
        case ncclInt64:
            ADD(uint64_t);
            break;
        case ncclFloat32:
            ADD(float);
            break;
        case ncclFloat64:
            ADD(double);
            break;
        case ncclBfloat16:
            ((uint16_t *)to)[i] = gt__float_to_bfloat16(gt__bfloat16_to_float(((uint16_t *)to)[i]) +
                                                        gt__bfloat16_to_float(((const uint16_t *)from)[i]));
            break;
        case ncclFloat16:
            ((uint16_t *)to)[i] = gt__float_to_half(gt__half_to_float(((uint16_t *)to)[i]) +
                                                    gt__half_to_float(((const uint16_t *)from)[i]));
            break;
        default:
            fprintf(stderr, "fake_nccl: no sums of type %d\n", type);
            abort();
        }
}
#undef ADD

/* All ranks are there: make this one's result in memory of its own, since others may read what it overwrites. */
static void *compute(const meeting *m, const call *mine, int rank, size_t *bytes)
{
    size_t size = type_size(mine->type), part = mine->count * size;
    bool gathers = mine->what == ALL_GATHER;
    *bytes = gathers ? part * (size_t)m->ranks : part;
    if (mine->what == REDUCE && rank != mine->peer)
        *bytes = 0;
    uint8_t *result = calloc(1, *bytes + 1);
    for (int k = 0; k < m->ranks && *bytes; k++) {
        const call *theirs = m->there[k];
        size_t offset = mine->what == REDUCE_SCATTER ? (size_t)rank * part : 0;
        if (gathers)
            memcpy(result + (size_t)k * part, memory_at(theirs->in, part), part);
        else if (mine->what == BROADCAST && k == mine->peer)
            memcpy(result, memory_at(theirs->in, part), part);
        else if (mine->what != BROADCAST && k == 0)
            memcpy(result, (const uint8_t *)memory_at(theirs->in, offset + part) + offset, part);
        else if (mine->what != BROADCAST)
            add(result, (const uint8_t *)memory_at(theirs->in, offset + part) + offset, mine->count, mine->type);
    }
    return result;
}

/* With the mutex. Wait until *number is `count`, or the turn is over. */
static bool await(ncclComm_t comm, const int *number, int count, uint64_t turn)
{
    while (!comm->aborted && *number < count && comm->met->turn == turn)
        pthread_cond_wait(&changed, &mutex);
    return !comm->aborted;
}

static bool run_collective(ncclComm_t comm, const call *mine)
{
    meeting *m = comm->met;
    uint64_t turn = m->turn;
    while (!comm->aborted && m->there[comm->rank]) /* the others are not done with the last one */
        pthread_cond_wait(&changed, &mutex);
    turn = m->turn;
    if (comm->aborted)
        return false;
    m->there[comm->rank] = mine;
    m->arrived++;
    pthread_cond_broadcast(&changed);
    if (!await(comm, &m->arrived, m->ranks, turn))
        return false;
    for (int k = 0; k < m->ranks; k++)
        if (m->there[k]->what != mine->what || m->there[k]->count != mine->count ||
            m->there[k]->type != mine->type || m->there[k]->peer != mine->peer) {
            fprintf(stderr, "fake_nccl: rank %d calls something else than rank %d\n", k, comm->rank);
            abort();
        }
    pthread_mutex_unlock(&mutex);
    size_t bytes;
    void *result = compute(m, mine, comm->rank, &bytes);
    pthread_mutex_lock(&mutex);
    m->done++;
    pthread_cond_broadcast(&changed);
    bool all = await(comm, &m->done, m->ranks, turn);
    if (all && m->turn == turn) { /* the first to see it */
        memset(m->there, 0, sizeof m->there);
        m->arrived = m->done = 0;
        m->turn++;
        pthread_cond_broadcast(&changed);
    }
    if (all && bytes)
        memcpy(memory_at(mine->out, bytes), result, bytes);
    free(result);
    return all;
}

static bool run_transfers(ncclComm_t comm, const group *g)
{
    meeting *m = comm->met;
    for (int k = 0; k < g->count; k++)
        if (g->calls[k].what == SEND) {
            while (!comm->aborted && m->letter[comm->rank][g->calls[k].peer])
                pthread_cond_wait(&changed, &mutex);
            m->letter[comm->rank][g->calls[k].peer] = &g->calls[k];
        }
    pthread_cond_broadcast(&changed);
    for (int k = 0; k < g->count && !comm->aborted; k++) {
        const call *c = &g->calls[k];
        if (c->what != RECEIVE)
            continue;
        while (!comm->aborted && !m->letter[c->peer][comm->rank])
            pthread_cond_wait(&changed, &mutex);
        if (comm->aborted)
            break;
        const call *letter = m->letter[c->peer][comm->rank];
        if (letter->count != c->count || letter->type != c->type) {
            fprintf(stderr, "fake_nccl: rank %d sends %zu to rank %d, which expects %zu\n", c->peer, letter->count,
                    comm->rank, c->count);
            abort();
        }
        size_t bytes = c->count * type_size(c->type);
        memcpy(memory_at(c->out, bytes), memory_at(letter->in, bytes), bytes);
        m->letter[c->peer][comm->rank] = NULL;
        pthread_cond_broadcast(&changed);
    }
    for (int k = 0; k < g->count; k++)
        while (!comm->aborted && g->calls[k].what == SEND &&
               m->letter[comm->rank][g->calls[k].peer] == &g->calls[k])
            pthread_cond_wait(&changed, &mutex);
    return !comm->aborted;
}

static void run_group(void *argument)
{
    group *g = *(group **)argument;
    ncclComm_t comm = g->comm;
    pthread_mutex_lock(&mutex);
    bool goes_on = run_transfers(comm, g);
    for (int k = 0; k < g->count && goes_on; k++)
        if (g->calls[k].what != SEND && g->calls[k].what != RECEIVE)
            goes_on = run_collective(comm, &g->calls[k]);
    comm->queued--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    if (goes_on)
        free(g); /* otherwise other ranks may still refer to it */
}

/* ---- calls ------------------------------------------------------------------------------------------------------------- */

API int ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

API int ncclGroupEnd(void)
{
    if (depth == 0)
        return INVALID_USAGE;
    if (--depth || open_group.count == 0)
        return ncclSuccess;
    group *g = malloc(sizeof *g);
    *g = open_group;
    open_group = (group){.count = 0};
    pthread_mutex_lock(&mutex);
    g->comm->queued++;
    pthread_mutex_unlock(&mutex);
    fake_enqueue(g->stream, run_group, &g, sizeof g);
    return ncclSuccess;
}

static int add_call(ncclComm_t comm, CUstream stream, call c)
{
    int state;
    ncclCommGetAsyncError(comm, &state);
    if (state != ncclSuccess || open_group.count == MOST_CALLS || (open_group.count && open_group.comm != comm))
        return INVALID_USAGE;
    ncclGroupStart();
    open_group.comm = comm;
    open_group.stream = stream;
    open_group.calls[open_group.count++] = c;
    return ncclGroupEnd();
}

API int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, ncclComm_t comm, CUstream stream)
{
    if (op != ncclSum)
        return INVALID_ARGUMENT;
    return add_call(comm, stream, (call){ALL_REDUCE, in, out, count, type, 0});
}

API int ncclReduce(const void *in, void *out, size_t count, int type, int op, int root, ncclComm_t comm,
                   CUstream stream)
{
    if (op != ncclSum)
        return INVALID_ARGUMENT;
    return add_call(comm, stream, (call){REDUCE, in, out, count, type, root});
}

API int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, ncclComm_t comm,
                          CUstream stream)
{
    if (op != ncclSum)
        return INVALID_ARGUMENT;
    return add_call(comm, stream, (call){REDUCE_SCATTER, in, out, count, type, 0});
}

API int ncclAllGather(const void *in, void *out, size_t count, int type, ncclComm_t comm, CUstream stream)
{
    return add_call(comm, stream, (call){ALL_GATHER, in, out, count, type, 0});
}

API int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, ncclComm_t comm,
                      CUstream stream)
{
    return add_call(comm, stream, (call){BROADCAST, in, out, count, type, root});
}

API int ncclSend(const void *in, size_t count, int type, int to, ncclComm_t comm, CUstream stream)
{
    return add_call(comm, stream, (call){SEND, in, NULL, count, type, to});
}

API int ncclRecv(void *out, size_t count, int type, int from, ncclComm_t comm, CUstream stream)
{
    return add_call(comm, stream, (call){RECEIVE, NULL, out, count, type, from});
}
