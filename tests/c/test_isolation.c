/*
 * test_isolation.c: several clients issue random programs, some of them hostile: they name the tensors of the others, free
 * them, redefine their signals, leave uploads incomplete, ask for too much memory, and leave in the middle. The honest ones
 * know what each of their tensors holds and find nothing else; the hostile ones never see a number of an honest one.
 *
 * Memory that goes from one client to another is cleared: with an engine that leaves results unwritten, a client sees zeros and
 * what it wrote itself.
 */
#include <math.h>
#include <stdatomic.h>

#include "core/config.h"
#include "dispatcher/state.h"
#include "random_numbers.h"
#include "server_fixture.h"

enum { HONEST = 3, HOSTILE = 3, TENSORS = 24, SIZES = 3, DRAWN = 64 };
#define STEPS (CHECK_SANITIZED ? 6000 : 30000)
#define SECRET 1e6f /* numbers of honest clients are larger, those of hostile ones are smaller */

static const int64_t sizes[SIZES] = {5, 300, 4000};

/* What an honest client knows of one of its tensors. */
typedef struct known {
    bool there, poison;
    double value; /* of all its elements */
    unsigned size;
} known;

typedef struct party {
    gt_link *link;
    int number;
    numbers n;
    known tensor[TENSORS + 1]; /* by number; the id is `base` more */
    uint64_t base[TENSORS + 1];
    uint64_t next_id, ticket;
    uint32_t scope; /* entered */
    float drawn[DRAWN];
    int deaths;
} party;

static void expect_all(const char *bytes, int64_t count, double value)
{
    float number;
    for (int64_t k = 0; k < count; k++) {
        memcpy(&number, bytes + k * (int64_t)sizeof number, sizeof number);
        if (!CHECK(number == (float)value))
            return;
    }
}

/* ---- honest clients ----------------------------------------------------------------------------------------- */

static uint64_t draw(const party *p, uint64_t id, int64_t seed)
{
    gt_slot record[3] = {{.ins = {.op = GT_OP_rand, .dtype = GT_FLOAT32, .rank = 1, .tail = 2, .result = id}}};
    record->ins.imm[0].i = seed;
    record->ins.imm[1].i = 7;
    record[1].i64[0] = DRAWN;
    send_slots(p->link, record, 3);
    return id;
}

static void check_drawn(party *p, bool first)
{
    char bytes[1 << 12];
    uint64_t id = draw(p, p->next_id++, 1000 + p->number);
    if (!CHECK_EQ(fetch_text(p->link, id, p->ticket++, bytes, sizeof bytes), GT_OK))
        return;
    if (first)
        memcpy(p->drawn, bytes, sizeof p->drawn);
    CHECK(memcmp(p->drawn, bytes, sizeof p->drawn) == 0);
    send_free(p->link, id);
}

static void make_tensor(party *p, unsigned k)
{
    known *t = &p->tensor[k];
    *t = (known){.there = true, .size = (unsigned)numbers_below(&p->n, SIZES)};
    p->base[k] = p->next_id++;
    t->poison = numbers_below(&p->n, 10) == 0;
    t->value = (double)SECRET * (1 + p->number) + (double)numbers_below(&p->n, 1000);
    /* Too large for any worker: its failure names the size, which no other client has. */
    send_full(p->link, p->base[k], t->poison ? (int64_t)1 << (45 + p->number) : sizes[t->size], t->value);
    if (t->poison)
        t->size = SIZES;
}

static void add_tensors(party *p, unsigned k, unsigned a, unsigned b)
{
    known *t = &p->tensor[k];
    gt_instruction add = {.op = GT_OP_add, .operand = {p->base[a], p->base[b]}, .scope = p->scope};
    if (!p->tensor[a].there || !p->tensor[b].there || p->tensor[a].size != p->tensor[b].size || k == a || k == b)
        return;
    *t = (known){.there = true, .size = p->tensor[a].size};
    t->poison = p->tensor[a].poison;
    t->value = (double)((float)p->tensor[a].value + (float)p->tensor[b].value);
    add.result = p->base[k] = p->next_id++;
    send_ins(p->link, add);
}

static void read_tensor(party *p, const known *t, uint64_t id)
{
    static char bytes[1 << 16];
    char size[32];
    gt_err err = fetch_text(p->link, id, p->ticket++, bytes, sizeof bytes);
    if (!t->poison) {
        if (CHECK_EQ(err, GT_OK))
            expect_all(bytes, sizes[t->size], t->value);
        return;
    }
    snprintf(size, sizeof size, " %llu bytes", 4ull << (45 + p->number));
    CHECK_EQ(err, GT_ERR_MEMORY);
    if (!CHECK(strstr(bytes, size)))
        fprintf(stderr, "  %s, not%s\n", bytes, size);
}

/* A signal of one's own: all honest clients give it the same name and another meaning. */
static void enter_scope(party *p)
{
    static gt_slot record[GT_CONFIG_SLOTS + 5];
    gt_signal_config signal = {.name = "mine", .flags = GT_CONFIG_SHARD | GT_CONFIG_REPLICATED, .worker_count = 1};
    signal.workers[0] = p->number % 2;
    gt__config_write(&signal, record);
    send_slots(p->link, record, 1u + record->ins.tail);
    memset(record, 0, 5 * sizeof *record);
    record->ins = (gt_instruction){.op = GT_OP_scope, .tail = 4};
    record->ins.imm[0].u = p->scope = 1;
    strcpy((char *)record[1].bytes, "mine");
    send_slots(p->link, record, 5);
}

static void check_scope(party *p)
{
    gt_slot record[2] = {{.ins = {.op = GT_OP_full, .dtype = GT_FLOAT32, .rank = 1, .tail = 1}}};
    char text[256], expected[64];
    record->ins.result = p->next_id++;
    record->ins.scope = p->scope;
    record[1].i64[0] = 3;
    send_slots(p->link, record, 2);
    send_ins(p->link,
             (gt_instruction){.op = GT_OP_placement, .result = p->ticket, .operand = {record->ins.result}});
    CHECK_EQ(receive_answer(p->link, p->ticket++, text, sizeof text), GT_OK);
    snprintf(expected, sizeof expected, "single(worker=%d)", p->number % 2);
    CHECK(strcmp(text, expected) == 0);
    send_free(p->link, record->ins.result);
}

static void step_honest(party *p)
{
    unsigned k = 1 + (unsigned)numbers_below(&p->n, TENSORS);
    known *t = &p->tensor[k];
    switch (numbers_below(&p->n, 8)) {
    case 0:
        if (t->there)
            read_tensor(p, t, p->base[k]);
        return;
    case 1:
        if (t->there)
            send_free(p->link, p->base[k]);
        t->there = false;
        return;
    case 2:
        numbers_below(&p->n, 4) ? check_drawn(p, false) : check_scope(p);
        return;
    case 3:
    case 4:
        if (!t->there)
            make_tensor(p, k);
        return;
    default:
        if (!t->there)
            add_tensors(p, k, 1 + (unsigned)numbers_below(&p->n, TENSORS),
                        1 + (unsigned)numbers_below(&p->n, TENSORS));
    }
}

/* ---- hostile clients ---------------------------------------------------------------------------------------- */

/* An answer has no number of an honest client. */
static void expect_no_secret(const gt_slot *record)
{
    float number;
    size_t bytes = record->ins.op == GT_OP_reply ? record->ins.imm[1].u : 0;
    for (size_t at = 0; at + sizeof number <= bytes; at += sizeof number) {
        memcpy(&number, record[1].bytes + at, sizeof number);
        if (!CHECK(!(number >= SECRET && number < 100 * SECRET)))
            return;
    }
}

static void read_answers(party *p)
{
    static gt_slot record[1 + GT_MAX_TAIL];
    const gt_slot *slots;
    size_t available;
    unsigned length;
    gt__link_flush(p->link);
    while ((slots = gt__link_peek(p->link, &available))) {
        if (!CHECK_EQ(gt__instruction_check(slots, available, &length), GT_OK))
            return;
        memcpy(record, slots, length * sizeof *record);
        gt__link_consume(p->link, length);
        expect_no_secret(record);
    }
}

/* The beginning of an upload whose rest never comes, and what is computed from it. */
static void upload_half(party *p)
{
    static gt_slot record[2 + GT_MAX_CHUNK / sizeof(gt_slot)];
    int64_t count = 4000;
    uint64_t id = p->next_id++;
    memset(record, 0, sizeof record);
    record->ins = (gt_instruction){.op = GT_OP_upload, .dtype = GT_FLOAT32, .rank = 1, .result = id};
    record->ins.imm[0].i = count * (int64_t)sizeof(float);
    uint64_t first = (uint64_t)record->ins.imm[0].i < GT_MAX_CHUNK ? (uint64_t)record->ins.imm[0].i : GT_MAX_CHUNK;
    record->ins.tail = (uint16_t)(1 + gt__slots_for(first));
    record[1].i64[0] = count;
    send_slots(p->link, record, 1u + record->ins.tail);
    send_ins(p->link, (gt_instruction){.op = GT_OP_neg, .result = p->next_id, .operand = {id}});
    send_ins(p->link, (gt_instruction){.op = GT_OP_fetch, .result = p->ticket++, .operand = {p->next_id++}});
    send_ins(p->link, (gt_instruction){.op = GT_OP_fetch, .result = p->ticket++, .operand = {id}});
}

static void steal_signal(party *p)
{
    static gt_slot record[GT_CONFIG_SLOTS];
    gt_signal_config signal = {.name = "mine", .flags = GT_CONFIG_SHARD | GT_CONFIG_AXIS, .worker_count = 2};
    signal.workers[1] = 1 + (int32_t)numbers_below(&p->n, 2); /* 2 is not there */
    gt__config_write(&signal, record);
    send_slots(p->link, record, 1u + record->ins.tail);
}

static void step_hostile(party *p, const party *victims)
{
    const party *victim = &victims[numbers_below(&p->n, HONEST)];
    uint64_t id =
        victim->base[1 + numbers_below(&p->n, TENSORS)]; /* not its own: ids of hostile ones are larger */
    uint64_t own = p->next_id++;
    switch (numbers_below(&p->n, 40)) {
    case 0:
        send_free(p->link, id);
        break;
    case 1:
        send_ins(p->link, (gt_instruction){.op = GT_OP_fetch, .result = p->ticket++, .operand = {id}});
        break;
    case 2:
        send_ins(p->link, (gt_instruction){.op = GT_OP_add, .result = own, .operand = {id, id}});
        break;
    case 3:
        send_ins(p->link,
                 (gt_instruction){.op = GT_OP_neg, .flags = GT_FLAG_CONSUMES, .result = own, .operand = {id}});
        break;
    case 4:
        send_ins(p->link, (gt_instruction){.op = GT_OP_failure, .result = id});
        break;
    case 5:
    case 6:
        steal_signal(p);
        break;
    case 7:
        send_full(p->link, own, (int64_t)1 << 44, 1);
        send_ins(p->link, (gt_instruction){.op = GT_OP_fetch, .result = p->ticket++, .operand = {own}});
        break;
    case 8:
    case 9:
        upload_half(p);
        break;
    case 10:
        draw(p, own, 1000 + victim->number); /* the same seed: the same numbers for both */
        break;
    default:
        send_full(p->link, own, sizes[numbers_below(&p->n, SIZES)], (double)(own % 1000));
        send_ins(p->link, (gt_instruction){.op = GT_OP_fetch, .result = p->ticket++, .operand = {own}});
        if (own % 2)
            send_free(p->link, own);
    }
    read_answers(p);
}

static void join(server *s, party *p, const char *transport)
{
    p->link = server_connect(s, transport);
    join_client(p->link);
}

static void test_cross_talk(const void *transport)
{
    static party honest[HONEST], hostile[HOSTILE];
    server s;
    memset(honest, 0, sizeof honest);
    memset(hostile, 0, sizeof hostile);
    server_new(&s, true);
    server_start(&s);
    server_add_worker(&s, true);
    server_add_worker(&s, true);
    for (int k = 0; k < HONEST; k++) {
        honest[k] = (party){.number = k, .n.state = (uint64_t)k + 1, .next_id = 1, .ticket = 1};
        join(&s, &honest[k], transport);
        while (server_statistic(honest[k].link, honest[k].ticket++, "\"index\": 1", "records") < 0)
            continue; /* until both workers are there */
        enter_scope(&honest[k]);
        check_drawn(&honest[k], true);
    }
    for (int k = 0; k < HOSTILE; k++) {
        hostile[k] = (party){.number = HONEST + k, .n.state = (uint64_t)k + 100, .next_id = 1u << 30, .ticket = 1};
        join(&s, &hostile[k], transport);
    }
    numbers n = {.state = 5};
    for (int step = 0; step < STEPS; step++) {
        party *bad = &hostile[numbers_below(&n, HOSTILE)];
        step_honest(&honest[numbers_below(&n, HONEST)]);
        if (numbers_below(&n, 4) == 0)
            step_hostile(bad, honest);
        if (step % 64 == 0)
            bad->link->ops->arm(bad->link); /* notices if the server has ended it */
        if (bad->link->dead || bad->link->gone) {
            gt__link_close(bad->link);
            join(&s, bad, transport);
            bad->deaths++;
        }
    }
    int deaths = 0;
    for (int k = 0; k < HONEST; k++) {
        for (unsigned t = 1; t <= TENSORS; t++)
            if (honest[k].tensor[t].there)
                read_tensor(&honest[k], &honest[k].tensor[t], honest[k].base[t]);
        gt__link_close(honest[k].link);
    }
    for (int k = 0; k < HOSTILE; k++) {
        deaths += hostile[k].deaths;
        gt__link_close(hostile[k].link);
    }
    CHECK(deaths > (CHECK_SANITIZED ? 0 : 10)); /* they were found out; how soon depends on time */
    server_stop(&s);
}

/* ---- memory of others --------------------------------------------------------------------------------------- */

enum { OTHERS = 0xEE, SHARERS = 3, SHARED_STEPS = 3000, MOST_BYTES = 70000 };
static const int64_t byte_sizes[] = {40, 64, 300, 5000, MOST_BYTES};
static atomic_bool heap_is_used; /* the engine's heap holds what others have left there */

static gt_err lazy_open(const gt_engine_options *options, gt_engine **engine)
{
    *engine = calloc(1, sizeof **engine);
    (*engine)->ops = options->ops;
    return GT_OK;
}

static void lazy_close(gt_engine *engine)
{
    free(engine);
}

static uint64_t lazy_limit(gt_engine *engine, unsigned sharers)
{
    (void)engine;
    (void)sharers;
    return 1 << 24;
}

static gt_err lazy_alloc(gt_engine *engine, size_t bytes, void **memory)
{
    (void)engine;
    *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(*memory, atomic_load(&heap_is_used) ? OTHERS : 0, bytes);
    return GT_OK;
}

static void lazy_release(gt_engine *engine, void *memory, size_t bytes)
{
    (void)engine;
    (void)bytes;
    free(memory);
}

static gt_err lazy_write(gt_engine *engine, void *to, const void *host, size_t bytes, bool timed, gt_token *token)
{
    (void)engine;
    (void)timed;
    (void)token;
    memcpy(to, host, bytes);
    return GT_OK;
}

static gt_err lazy_read(gt_engine *engine, const void *from, void *host, size_t bytes, bool timed, gt_token *token)
{
    return lazy_write(engine, host, from, bytes, timed, token);
}

static gt_err lazy_run(gt_engine *engine, const gt_call *call, gt_token *token)
{
    (void)engine;
    (void)call;
    (void)token;
    return GT_OK;
}

#define LAZY(...)                                                                                                 \
    {                                                                                                             \
        .open = lazy_open, .close = lazy_close, .memory_limit = lazy_limit, .alloc = lazy_alloc,                  \
        .release = lazy_release, .write = lazy_write, .read = lazy_read, .run = lazy_run, __VA_ARGS__             \
    }
static const gt_engine_ops lazy_engines[] = {
    LAZY(.name = "lazy", .host_memory = true),
    LAZY(.name = "lazy_far"),
};

static gt_err find_lazy(const char *name, const gt_engine_ops **ops)
{
    *ops = NULL;
    for (size_t k = 0; k < sizeof lazy_engines / sizeof lazy_engines[0]; k++)
        if (strcmp(name, lazy_engines[k].name) == 0)
            *ops = &lazy_engines[k];
    return GT_OK;
}

/* All bytes of the tensor are zero or the client's own. */
static void expect_own(party *p, uint64_t id, uint8_t own)
{
    static char bytes[MOST_BYTES + 64];
    int64_t size = p->tensor[id % TENSORS].there ? (int64_t)p->tensor[id % TENSORS].value : 0;
    if (!CHECK_EQ(fetch_text(p->link, id, p->ticket++, bytes, sizeof bytes), GT_OK))
        return;
    for (int64_t k = 0; k < size; k++)
        if (!CHECK(bytes[k] == 0 || (uint8_t)bytes[k] == own)) {
            fprintf(stderr, "  byte %lld of %lld is %u, not 0 or %u\n", (long long)k, (long long)size,
                    (uint8_t)bytes[k], own);
            return;
        }
}

static void upload_own(const party *p, uint64_t id, int64_t size, uint8_t own)
{
    static gt_slot record[2 + GT_MAX_CHUNK / sizeof(gt_slot)];
    for (int64_t at = 0; at < size; at += GT_MAX_CHUNK) {
        int64_t piece = size - at < GT_MAX_CHUNK ? size - at : GT_MAX_CHUNK;
        unsigned head = at ? 1 : 2;
        memset(record, own, sizeof record);
        memset(record, 0, head * sizeof *record);
        record->ins = (gt_instruction){.op = at ? GT_OP_data : GT_OP_upload};
        record->ins.imm[0].i = at ? at : size;
        if (at) {
            record->ins.operand[0] = id;
            record->ins.imm[1].i = piece;
        } else {
            record->ins.dtype = GT_UINT8;
            record->ins.rank = 1;
            record->ins.result = id;
            record[1].i64[0] = size;
        }
        record->ins.tail = (uint16_t)(head - 1 + gt__slots_for((size_t)piece));
        send_slots(p->link, record, 1u + record->ins.tail);
    }
}

/* Tensors are named by id % TENSORS; `value` is their bytes. */
static void step_sharer(party *p, uint8_t own)
{
    uint64_t id = p->next_id++;
    known *t = &p->tensor[id % TENSORS];
    if (t->there)
        send_free(p->link, id - TENSORS);
    int64_t size = byte_sizes[numbers_below(&p->n, sizeof byte_sizes / sizeof byte_sizes[0])];
    *t = (known){.there = true, .value = (double)size};
    gt_slot full[2] = {{.ins = {.op = GT_OP_full, .dtype = GT_UINT8, .rank = 1, .tail = 1, .result = id}}};
    full[1].i64[0] = size;
    const known *before = &p->tensor[(id - 1) % TENSORS];
    switch (numbers_below(&p->n, 3)) {
    case 0:
        upload_own(p, id, size, own);
        return;
    case 1:
        if (before->there) {
            t->value = before->value;
            send_ins(p->link, (gt_instruction){.op = GT_OP_bitwise_not, .result = id, .operand = {id - 1}});
            break;
        } /* fall through */
    default:
        send_slots(p->link, full, 2);
    }
    expect_own(p, id, own);
}

static void test_memory_of_others(const void *backend)
{
    static party sharer[SHARERS];
    uint8_t own[SHARERS];
    unsigned joined = 0;
    server s;
    numbers n = {.state = 9};
    atomic_store(&heap_is_used, false);
    gt__engine_finder = (gt_engine_finder){.find = find_lazy};
    memset(sharer, 0, sizeof sharer);
    server_new(&s, true);
    s.backend = backend;
    server_start(&s);
    server_add_worker(&s, true);
    for (int step = 0; step < SHARED_STEPS; step++) {
        unsigned k = (unsigned)numbers_below(&n, SHARERS);
        party *p = &sharer[k];
        if (p->link && numbers_below(&n, 50) == 0) {
            gt__link_close(p->link);
            p->link = NULL;
        }
        if (!p->link) {
            *p = (party){.n.state = (uint64_t)step + 1, .next_id = TENSORS, .ticket = 1};
            own[k] = (uint8_t)(1 + joined++ % 200);
            join(&s, p, "memory");
        }
        step_sharer(p, own[k]);
        if (step == 100)
            atomic_store(&heap_is_used, true); /* several clients were there: the heap is cleared, too */
    }
    for (int k = 0; k < SHARERS; k++)
        if (sharer[k].link)
            gt__link_close(sharer[k].link);
    server_stop(&s);
    gt__engine_finder = (gt_engine_finder){0};
}

/* ---- connections without end ---------------------------------------------------------------------------------- */

/* Always has another one, whose peer is gone already. */
typedef struct endless_acceptor {
    gt_acceptor base;
    const gt_dispatcher *dispatcher;
    atomic_bool open;
    atomic_uint came;
    uint64_t turn;             /* of the loop: */
    unsigned in_turn, at_most; /* those that came in it, and in any */
} endless_acceptor;

static gt_link *endless_poll(gt_acceptor *acceptor)
{
    endless_acceptor *a = (endless_acceptor *)acceptor;
    gt_link *theirs = NULL, *ours = NULL;
    if (!atomic_load(&a->open) || gt__link_memory_pair(&theirs, &ours) != GT_OK)
        return NULL;
    gt__link_close(ours);
    a->in_turn = a->turn == a->dispatcher->turns ? a->in_turn + 1 : 1;
    a->turn = a->dispatcher->turns;
    a->at_most = a->in_turn > a->at_most ? a->in_turn : a->at_most;
    atomic_fetch_add(&a->came, 1);
    return theirs;
}

static bool endless_arm(gt_acceptor *acceptor)
{
    return !atomic_load(&((endless_acceptor *)acceptor)->open);
}

static void endless_close(gt_acceptor *acceptor)
{
    (void)acceptor;
}

/* They come as fast as they are taken: clients are served between them. */
static void test_connections_without_end(const void *argument)
{
    enum { CAME = 500, MOST_IN_A_TURN = 100 };
    static const gt_acceptor_ops ops = {.poll = endless_poll, .arm = endless_arm, .close = endless_close};
    server s;
    (void)argument;
    server_new(&s, false);
    endless_acceptor acceptor = {.base = {.ops = &ops, .fd = -1}, .dispatcher = s.dispatcher};
    s.dispatcher->acceptors[s.dispatcher->acceptor_count++] = &acceptor.base;
    server_add_worker(&s, false);
    gt_link *client = server_link(&s);
    server_start(&s);
    CHECK(join_client(client));
    atomic_store(&acceptor.open, true);
    for (uint64_t id = 1; atomic_load(&acceptor.came) < CAME; id += 3)
        if (!CHECK(session_works(client, id)))
            break;
    atomic_store(&acceptor.open, false);
    gt__link_close(client);
    server_stop(&s);
    CHECK(acceptor.at_most <= MOST_IN_A_TURN);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("no cross-talk by memory", test_cross_talk, "memory");
    check_run("no cross-talk by tcp", test_cross_talk, "tcp");
    check_run("connections without end", test_connections_without_end, NULL);
    check_run("memory of others is cleared", test_memory_of_others, "lazy");
    check_run("memory of others is cleared where the host cannot", test_memory_of_others, "lazy_far");
    return check_end();
}
