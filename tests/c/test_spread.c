/*
 * test_spread.c: tensors spread over workers, through the C interface: layouts, configs, and programs on workers
 * that are threads of this process and meet on a board, or by links as other processes do. The Python tests
 * compare far more; this one runs under the sanitizers.
 */
#include <pthread.h>
#include <unistd.h>

#include "client_fixture.h"
#include "core/record.h"
#include "dispatcher/spread/layout.h"
#include "shortage.h"
#include "client/signals.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"
#include "worker/worker.h"

enum { WORKERS = 4, ROWS = 10, COLUMNS = 6 };

/* ---- layouts -------- */

static void test_layouts(const void *argument)
{
    (void)argument;
    const int32_t workers[] = {3, 1, 0};
    char text[128];
    gt_layout *split = gt__layout_even(1, 7, workers, 3), *same = gt__layout_even(1, 7, workers, 3);
    gt_layout *few = gt__layout_even(0, 2, workers, 3), *one = gt__layout_even(0, 1, workers, 3);
    gt_layout *partial = gt__layout_like(split, GT_PARTIAL, 1);
    CHECK(!strcmp(gt__layout_text(split, text, sizeof text), "split(axis=1, workers=[3,1,0])"));
    CHECK(split->member[0].count == 3 && split->member[1].start == 3 && split->member[2].count == 2);
    CHECK(gt__layout_equal(split, same) && !gt__layout_equal(split, partial) &&
          gt__layout_same_set(split, partial));
    CHECK_EQ(few->count, 2);
    CHECK(!strcmp(gt__layout_text(one, text, sizeof text), "single(worker=3)"));
    CHECK(!strcmp(gt__layout_text(partial, text, sizeof text), "partial(workers=[3,1,0])"));
    CHECK_EQ(partial->axis, 0);
    gt_meta whole, part;
    CHECK_EQ(gt__meta_set(&whole, GT_FLOAT32, 2, (int64_t[]){4, 7}), GT_OK);
    gt__layout_part(split, 2, &whole, &part);
    CHECK(part.shape[1] == 2 && part.numel == 8);
    CHECK(!strcmp(gt__layout_text(split, text, 20), "split(axis=1, worke"));
    gt_layout *const all[] = {split, same, few, one, partial};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        gt__layout_release(all[k]);
}

/* Two lines of three workers. */
static gt_mesh grid(gt_layout_kind data, int data_axis, gt_layout_kind model, int model_axis)
{
    return (gt_mesh){.rank = 2,
                     .axis = {{.name = "data", .size = 2, .kind = (uint8_t)data, .axis = (int8_t)data_axis},
                              {.name = "model", .size = 3, .kind = (uint8_t)model, .axis = (int8_t)model_axis}}};
}

static void test_meshes(const void *argument)
{
    (void)argument;
    const int32_t workers[] = {5, 4, 3, 2, 1, 0};
    char text[128];
    int64_t starts[2];
    const gt_mesh two = grid(GT_SPLIT, 1, GT_SPLIT, 0), one = grid(GT_PARTIAL, 0, GT_SPLIT, 0),
                  none = grid(GT_REPLICATED, 0, GT_REPLICATED, 0);
    gt_layout *both = gt__layout_meshed(&two, workers), *same = gt__layout_meshed(&two, workers);
    gt_layout *summed = gt__layout_meshed(&one, workers), *whole = gt__layout_meshed(&none, workers);
    CHECK(!strcmp(gt__layout_text(both, text, sizeof text),
                  "mesh(data=2 split(axis=1), model=3 split(axis=0), workers=[5,4,3,2,1,0])"));
    CHECK(!strcmp(gt__layout_text(summed, text, sizeof text),
                  "mesh(data=2 partial, model=3 split(axis=0), workers=[5,4,3,2,1,0])"));
    CHECK(!strcmp(gt__layout_text(whole, text, sizeof text), "replicated(workers=[5,4,3,2,1,0])"));
    CHECK(gt__layout_equal(both, same) && !gt__layout_equal(both, summed) && gt__layout_same_mesh(both, summed));
    CHECK(gt__layout_parts(both) == 6 && gt__layout_parts(summed) == 6 && gt__layout_parts(whole) == 1);
    CHECK(gt__layout_is_partial(summed) && !gt__layout_is_partial(both) && !gt__layout_same_grid(both, whole));
    gt_meta tensor, part;
    OK(gt__meta_set(&tensor, GT_FLOAT32, 2, (int64_t[]){6, 8}));
    gt__layout_part(both, 5, &tensor, &part);
    gt__layout_starts(both, 5, &tensor, starts); /* data 1, model 2 */
    CHECK(part.shape[0] == 2 && part.shape[1] == 4 && part.numel == 8 && starts[0] == 4 && starts[1] == 4);
    gt__layout_part(summed, 3, &tensor, &part);
    gt__layout_starts(summed, 3, &tensor, starts); /* data 1, model 0 */
    CHECK(part.shape[0] == 2 && part.shape[1] == 8 && starts[0] == 0 && starts[1] == 0);
    gt_layout *const all[] = {both, same, summed, whole};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        gt__layout_release(all[k]);
}

/* ---- configs -------- */

static void test_config_records(const void *argument)
{
    (void)argument;
    gt_slot record[GT_CONFIG_SLOTS];
    gt_signal_config signal = {.name = "a",
                               .backward = "b",
                               .flags = GT_CONFIG_SHARD | GT_CONFIG_AXIS,
                               .axis = -1},
                     back;
    signal.worker_count = 3;
    memcpy(signal.workers, (int32_t[]){5, 0, 2}, 3 * sizeof signal.workers[0]);
    gt__config_write(&signal, record);
    unsigned length;
    CHECK_EQ(gt__instruction_check(record, GT_CONFIG_SLOTS, &length), GT_OK);
    CHECK_EQ(gt__config_read(record, &back), GT_OK);
    CHECK(!strcmp(back.name, "a") && !strcmp(back.backward, "b") && back.axis == -1 && back.worker_count == 3 &&
          back.workers[0] == 5 && back.flags == signal.flags);
    record->ins.imm[0].i = 99;
    CHECK_EQ(gt__config_read(record, &back), GT_ERR_VALUE);
    record->ins.imm[1].u = GT_MAX_PARTIES + 1;
    CHECK_EQ(gt__instruction_check(record, GT_CONFIG_SLOTS, &length), GT_ERR_PROTOCOL);
}

/* What a client may send: a mesh that fits its workers, and nothing else. */
static void test_mesh_records(const void *argument)
{
    (void)argument;
    gt_slot record[GT_CONFIG_SLOTS];
    gt_signal_config signal = {.name = "a",
                               .flags = GT_CONFIG_SHARD,
                               .mesh = grid(GT_REPLICATED, 0, GT_SPLIT, -1)},
                     back;
    unsigned length;
    gt__config_write(&signal, record);
    CHECK_EQ(gt__instruction_check(record, GT_CONFIG_SLOTS, &length), GT_OK);
    CHECK_EQ(gt__config_read(record, &back), GT_OK);
    CHECK(back.mesh.rank == 2 && !strcmp(back.mesh.axis[1].name, "model") && back.mesh.axis[1].axis == -1 &&
          back.mesh.axis[1].kind == GT_SPLIT && back.mesh.axis[0].size == 2 && gt__mesh_count(&back.mesh) == 6);
    const gt_mesh wrong[] = {grid(GT_PARTIAL, 0, GT_SPLIT, 0), grid(GT_SPLIT, 0, GT_SPLIT, 0),
                             grid(GT_SPLIT, 0, GT_SPLIT, 100), grid(GT_MESHED, 0, GT_SPLIT, 1)};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        signal.mesh = wrong[k];
        gt__config_write(&signal, record);
        CHECK_EQ(gt__config_read(record, &back), GT_ERR_VALUE);
    }
    signal.mesh = grid(GT_REPLICATED, 0, GT_SPLIT, 0);
    signal.mesh.axis[0].size = INT32_MAX;
    gt__config_write(&signal, record);
    CHECK_EQ(gt__config_read(record, &back), GT_ERR_VALUE);
    signal.mesh.axis[0].size = -2;
    gt__config_write(&signal, record);
    CHECK_EQ(gt__config_read(record, &back), GT_ERR_VALUE);
    signal.mesh.axis[0].size = 2;
    memset(signal.mesh.axis[0].name, 'x', sizeof signal.mesh.axis[0].name); /* not ended */
    gt__config_write(&signal, record);
    CHECK_EQ(gt__config_read(record, &back), GT_OK);
    CHECK_EQ(strlen(back.mesh.axis[0].name), GT_MESH_NAME);
    record->ins.rank = GT_MESH_AXES + 1;
    CHECK_EQ(gt__instruction_check(record, GT_CONFIG_SLOTS, &length), GT_ERR_PROTOCOL);
}

static void set_signal(const char *name, unsigned flags, int64_t axis, unsigned count)
{
    gt_signal_config signal = {.flags = (uint8_t)(GT_CONFIG_SHARD | flags), .axis = axis, .worker_count = count};
    strcpy(signal.name, name);
    for (unsigned k = 0; k < count; k++)
        signal.workers[k] = (int32_t)k;
    OK(gt__signal_config_set(&signal));
}

/* ---- programs -------- */

static bool placed(gt_tensor *tensor, const char *expected)
{
    char *text;
    if (!OK(gt__tensor_placement(tensor, &text)))
        return false;
    bool right = CHECK(!strcmp(text, expected));
    if (!right)
        fprintf(stderr, "  it is %s, not %s\n", text, expected);
    free(text);
    return right;
}

/* Element (i, j) is i + j. */
static gt_tensor *table(gt_client *client)
{
    float values[ROWS * COLUMNS];
    gt_tensor *out = NULL;
    for (int k = 0; k < ROWS * COLUMNS; k++)
        values[k] = (float)(k / COLUMNS + k % COLUMNS);
    OK(gt_from_data(client, GT_FLOAT32, SHAPE(ROWS, COLUMNS), values, &out));
    return out;
}

static double expect_item(gt_tensor *tensor)
{
    double value = NAN;
    OK(gt_item(tensor, &value));
    gt_tensor_release(tensor);
    return value;
}

/* Forward and backward, collectives and moves of every kind; `client` has WORKERS workers. */
static void run_program(gt_client *client)
{
    gt_tensor *whole = table(client), *rows, *columns, *w, *product, *back, *loss, *gradient, *t;
    if (!OK(gt_signal_tensor(whole, "rows", &rows)) || !OK(gt__signal_tensor(rows, "columns", &columns)))
        return;
    placed(rows, "split(axis=0, workers=[0,1,2,3])");
    placed(columns, "split(axis=1, workers=[0,1,2,3])");
    OK(gt_sub(rows, columns, &t));
    OK(gt_sum(t, 0, false, &back));
    gt_tensor_release(t);
    CHECK_EQ(expect_item(back), 0);
    OK(gt_amax(rows, 3, false, &t));
    CHECK_EQ(expect_item(t), ROWS + COLUMNS - 2);
    OK(gt_full(client, GT_FLOAT32, SHAPE(COLUMNS, 3), 0.5, &w));
    OK(gt_tensor_set_requires_grad(w, true));
    OK(gt_signal_enter(client, "rows", "stage"));
    OK(gt_matmul(rows, w, &product));
    OK(gt_mean(product, 0, false, &loss));
    OK(gt_signal_exit("rows"));
    CHECK_EQ(gt_signal_exit("rows"), GT_ERR_VALUE);
    placed(product, "split(axis=0, workers=[0,1,2,3])");
    placed(loss, "partial(workers=[0,1,2,3])");
    OK(gt_backward(loss, NULL, false));
    OK(gt_tensor_grad(w, &gradient));
    placed(gradient, "single(worker=1)");
    OK(gt_sum(gradient, 0, false, &t));
    CHECK(close_enough(expect_item(t), 420.0 / ROWS)); /* the sum of the table, over 30 elements, three times */
    CHECK(close_enough(expect_item(loss), 420.0 / ROWS * 0.5));
    OK(gt_synchronize(client));
    gt_tensor *const all[] = {whole, rows, columns, w, product, gradient};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        gt_tensor_release(all[k]);
}

enum { WEIGHTS = 3, PASSES = 4 };

/* One backward pass: the gradient of each weight is the sum of the table's columns, three times. */
static void run_pass(gt_client *client, gt_tensor *rows, gt_tensor *const *w)
{
    gt_tensor *product, *part, *loss = NULL, *more;
    OK(gt_signal_enter(client, "data", NULL));
    for (unsigned k = 0; k < WEIGHTS; k++) {
        OK(gt_matmul(rows, w[k], &product));
        OK(gt_sum(product, 0, false, &part));
        gt_tensor_release(product);
        if (loss) {
            OK(gt_add(loss, part, &more));
            gt_tensor_release(loss);
            gt_tensor_release(part);
        }
        loss = loss ? more : part;
    }
    OK(gt_signal_exit("data"));
    OK(gt_backward(loss, NULL, false));
    gt_tensor_release(loss);
}

/* Gradients that are added up early, together, or after several passes (sums.h). */
static void run_gradients(gt_client *client, bool accumulates)
{
    gt_tensor *whole = table(client), *rows, *w[WEIGHTS], *gradient, *sum;
    OK(gt_signal_tensor(whole, "data", &rows));
    for (int pass = 0; pass < PASSES; pass++) {
        for (unsigned k = 0; k < WEIGHTS && (pass == 0 || !accumulates); k++) {
            OK(gt_full(client, GT_FLOAT32, SHAPE(COLUMNS, 3), 0.5, &w[k]));
            OK(gt_tensor_set_requires_grad(w[k], true));
        }
        run_pass(client, rows, w);
        for (unsigned k = 0; k < WEIGHTS && (pass == PASSES - 1 || !accumulates); k++) {
            OK(gt_tensor_grad(w[k], &gradient));
            OK(gt_sum(gradient, 0, false, &sum));
            CHECK_EQ(expect_item(sum), 3 * 420 * (accumulates ? PASSES : 1));
            gt_tensor_release(gradient);
            gt_tensor_release(w[k]);
        }
    }
    gt_tensor_release(whole);
    gt_tensor_release(rows);
}

/* An index that is out of range on one worker poisons what all of them add up. */
static void run_poison(gt_client *client)
{
    int64_t indices[8] = {0, 1, 2, 3, 4, 5, 99, 7};
    gt_tensor *whole = table(client), *index = computed_index(client, 8, indices), *split, *taken, *sum, *more;
    double value;
    OK(gt__signal_tensor(index, "rows", &split));
    OK(gt_take(whole, split, 0, &taken));
    OK(gt_sum(taken, 0, false, &sum));
    OK(gt_mul(sum, sum, &more));
    CHECK(gt_item(more, &value) != GT_OK);
    CHECK(strstr(gt_error_text(), "99"));
    CHECK(client_works(client));
    gt_tensor *const all[] = {whole, index, split, taken, sum, more};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        gt_tensor_release(all[k]);
}

/* A step that is larger than the tensor, and diagonals outside of it. */
static void run_extremes(gt_client *client)
{
    const int64_t from[] = {6, 0}, step[] = {INT64_MAX, 1}, count[] = {1, COLUMNS};
    gt_tensor *whole = table(client), *rows, *columns, *t, *sum;
    OK(gt_signal_tensor(whole, "rows", &rows));
    OK(gt__signal_tensor(whole, "columns", &columns));
    OK(gt_slice(rows, from, step, count, &t));
    OK(gt_sum(t, 0, false, &sum));
    CHECK_EQ(expect_item(sum), 6 * COLUMNS + COLUMNS * (COLUMNS - 1) / 2);
    gt_tensor_release(t);
    for (int k = 0; k < 2; k++) {
        OK(gt_tril(k ? columns : rows, INT64_MAX, &t));
        OK(gt_sum(t, 0, false, &sum));
        CHECK_EQ(expect_item(sum), 420);
        gt_tensor_release(t);
        OK(gt_triu(k ? columns : rows, INT64_MIN, &t));
        OK(gt_sum(t, 0, false, &sum));
        CHECK_EQ(expect_item(sum), 420);
        gt_tensor_release(t);
    }
    gt_tensor *const all[] = {whole, rows, columns};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        gt_tensor_release(all[k]);
}

static void set_signals(void)
{
    set_signal("rows", GT_CONFIG_AXIS, 0, WORKERS);
    set_signal("data", GT_CONFIG_AXIS, 0, WORKERS);
    set_signal("columns", GT_CONFIG_AXIS, -1, WORKERS);
    gt_signal_config stage = {.name = "stage", .flags = GT_CONFIG_SHARD, .worker_count = 1, .workers = {1}};
    OK(gt__signal_config_set(&stage));
}

static void test_embedded(const void *argument)
{
    (void)argument;
    gt_client *client = open_client(WORKERS);
    set_signals();
    for (int round = 0; round < 3; round++)
        run_program(client);
    run_gradients(client, false);
    run_gradients(client, true);
    run_poison(client);
    run_extremes(client);
    gt_client_close(&client);
}

/* ---- workers that meet by links -------- */

typedef struct member {
    pthread_t thread;
    gt_worker_options options;
    char name[16];
} member;

static void *member_main(void *argument)
{
    member *m = argument;
    gt__worker_run(&m->options, NULL);
    return NULL;
}

static void *dispatcher_main(void *argument)
{
    gt__dispatcher_run(argument);
    return NULL;
}

static void test_links(const void *argument)
{
    static member members[WORKERS];
    gt_dispatcher *dispatcher;
    gt_dispatcher_options options = {.listen = true};
    pthread_t thread;
    char address[64], server[64];
    atomic_bool stop = false;
    if (!OK(gt__dispatcher_new(&options, &dispatcher)))
        return;
    pthread_create(&thread, NULL, dispatcher_main, dispatcher);
    snprintf(server, sizeof server, "localhost:%d", gt__dispatcher_port(dispatcher));
    snprintf(address, sizeof address, "%s%s", (const char *)argument, server);
    for (int k = 0; k < WORKERS; k++) {
        snprintf(members[k].name, sizeof members[k].name, "worker %d", k);
        members[k].options = (gt_worker_options){.name = members[k].name,
                                                 .backend = "reference",
                                                 .address = address,
                                                 .threads = 1,
                                                 .number = k + 1,
                                                 .stop = &stop,
                                                 .stop_poll_ms = 50};
        pthread_create(&members[k].thread, NULL, member_main, &members[k]);
    }
    gt_client *client = NULL;
    if (OK(gt_client_connect(server, 0, &client))) {
        set_signals();
        while (client->workers < WORKERS)
            OK(gt_synchronize(client)); /* the news comes with answers */
        run_program(client);
        run_gradients(client, true);
        run_gradients(client, false);
        run_poison(client);
        gt_client_close(&client);
    }
    atomic_store(&stop, true);
    for (int k = 0; k < WORKERS; k++)
        pthread_join(members[k].thread, NULL);
    gt__dispatcher_stop(dispatcher);
    pthread_join(thread, NULL);
    gt__dispatcher_free(&dispatcher);
}

/* ---- waiting for another worker ------------------------------------------------------------------------------- */

typedef struct lone_worker {
    gt_worker_options options;
    gt_link *link;
} lone_worker;

static void *lone_main(void *argument)
{
    lone_worker *w = argument;
    gt__worker_run(&w->options, w->link);
    return NULL;
}

static void say(gt_link *link, gt_instruction ins, int64_t size)
{
    gt_slot *out = gt__link_reserve(link, 1u + ins.tail);
    out[0].ins = ins;
    if (ins.tail)
        out[1] = (gt_slot){.i64 = {size}};
    gt__link_commit(link, 1u + ins.tail);
}

static gt_instruction with(gt_instruction ins, int64_t first, uint64_t second)
{
    ins.imm[0].i = first;
    ins.imm[1].u = second;
    return ins;
}

static const gt_slot *hear(gt_link *link)
{
    size_t available;
    const gt_slot *slots;
    while (!(slots = gt__link_peek(link, &available)))
        if (!CHECK_EQ(gt__link_wait(link, GT_WAIT_READ, 20000), GT_OK))
            return NULL;
    gt__link_consume(link, 1u + slots->ins.tail);
    return slots;
}

/* We are the dispatcher, and worker 1. What worker 0 waits for comes after what it was asked to send later: it has to go
 * on meanwhile. What depends on the data runs in order: slot 2 is used for something else afterwards. */
static void test_a_worker_goes_on(const void *argument)
{
    (void)argument;
    gt_board *board = gt__board_new();
    gt_exchange *peer = NULL;
    gt_link *link = NULL, *theirs = NULL;
    gt_message *message;
    pthread_t thread;
    if (!OK(gt__exchange_local(board, NULL, &peer)) || !OK(gt__link_memory_pair(&link, &theirs)))
        return;
    OK(peer->ops->join(peer, 1, 1, 0));
    lone_worker w = {.options = {.name = "zero", .backend = "cpu", .threads = 1, .board = board}, .link = theirs};
    pthread_create(&thread, NULL, lone_main, &w);
    const gt_slot *hello = hear(link);
    CHECK(hello && hello->ins.op == GT_OP_hello);
    say(link, with((gt_instruction){.op = GT_OP_welcome}, GT_PROTOCOL_VERSION, 1), 0);
    say(link,
        with((gt_instruction){.op = GT_OP_recv, .tail = 1, .rank = 1, .dtype = GT_FLOAT32, .result = 1}, 1, 7), 2);
    say(link, (gt_instruction){.op = GT_OP_neg, .result = 2, .operand = {1}}, 0);
    gt_instruction full = {.op = GT_OP_full, .tail = 1, .rank = 1, .dtype = GT_FLOAT32, .result = 3};
    full.imm[0].f = 5;
    say(link, full, 2);
    say(link, with((gt_instruction){.op = GT_OP_send, .operand = {3}}, 1, 8), 0);
    say(link, (gt_instruction){.op = GT_OP_add, .result = 4, .operand = {2, 3}}, 0);
    say(link, (gt_instruction){.op = GT_OP_free, .result = 2}, 0);
    say(link, (gt_instruction){.op = GT_OP_abs, .result = 2, .operand = {3}}, 0);
    gt__link_flush(link);
    if (OK(gt__exchange_take(peer, 0, 8, 0, &message))) {
        CHECK(message->bytes == 8 && ((const float *)message->data)[1] == 5);
        peer->ops->done(peer, message);
    }
    OK(gt__exchange_post(peer, 0, 7, 0, (float[]){1, 2}, 8, NULL));
    for (uint64_t slot = 4; slot; slot = slot == 4 ? 2 : 0) {
        say(link, (gt_instruction){.op = GT_OP_fetch, .result = slot, .operand = {slot}}, 0);
        const gt_slot *answer = hear(link);
        const float *values = answer ? (const float *)(answer + 1) : NULL;
        CHECK(values && answer->ins.op == GT_OP_reply && values[0] == (slot == 4 ? 4 : 5) &&
              values[1] == (slot == 4 ? 3 : 5));
    }
    gt__link_close(link);
    pthread_join(thread, NULL);
    peer->ops->close(peer);
    gt__board_free(board);
}

/* ---- a dispatcher that runs out of memory -------- */

/* The dispatcher's side of workers, whose streams we read. */
typedef struct streams {
    gt_dispatcher dispatcher;
    gt_session session;
    gt_dispatch_worker worker[WORKERS], *workers[WORKERS];
    gt_peer peer[WORKERS];
    gt_link *ends[WORKERS];
    int32_t all[WORKERS];
} streams;

static streams *streams_new(void)
{
    streams *s = calloc(1, sizeof *s);
    s->dispatcher = (gt_dispatcher){.workers = s->workers, .worker_count = WORKERS, .next_tag = 1};
    s->session = (gt_session){.dispatcher = &s->dispatcher, .home = &s->worker[0]};
    OK(gt__handles_init(&s->session.handles));
    OK(gt__spreading_new(&s->session));
    for (int32_t k = 0; k < WORKERS; k++) {
        s->peer[k].dispatcher = &s->dispatcher;
        s->worker[k].index = s->all[k] = k;
        s->worker[k].peer = &s->peer[k];
        s->workers[k] = &s->worker[k];
        OK(gt__link_memory_pair(&s->worker[k].link, &s->ends[k]));
    }
    return s;
}

static void streams_free(streams *s)
{
    gt__spreading_free(&s->session);
    gt__handles_free(&s->session.handles);
    for (int k = 0; k < WORKERS; k++) {
        gt__link_close(s->worker[k].link);
        gt__link_close(s->ends[k]);
        gt__slot_numbers_free(&s->worker[k].slots);
        gt__slot_queue_free(&s->worker[k].backlog.outbox);
    }
    free(s);
}

/* How many records of an op have been written for a worker. */
static unsigned written(streams *s, int worker, gt_opcode op)
{
    const gt_slot *slots;
    size_t available;
    unsigned count = 0;
    gt__link_flush(s->worker[worker].link);
    while ((slots = gt__link_peek(s->ends[worker], &available))) {
        count += slots->ins.op == op;
        gt__link_consume(s->ends[worker], 1u + slots->ins.tail);
    }
    return count;
}

static uint32_t slots_in_use(gt_dispatch_worker *worker)
{
    gt__worker_flush_frees(worker);
    return gt__slot_numbers_used(&worker->slots);
}

/* From one layout to another, with memory that runs out; true: it did. Every worker gets its record, or none does.
 * */
static bool arrange_short(gt_layout *(*before)(const streams *), gt_layout *(*after)(const streams *),
                          unsigned allowed, unsigned members, gt_opcode ops[2])
{
    streams *s = streams_new();
    gt_handle *handle;
    uint32_t slots[WORKERS];
    gt_layout *from = before(s), *to = after(s);
    int started = from->count;
    for (int k = 0; k < WORKERS; k++)
        do /* until the next one needs memory */
            slots[k] = gt__slot_number_new(&s->worker[k].slots);
        while (s->worker[k].slots.last < s->worker[k].slots.free_capacity);
    OK(gt__handles_insert(&s->session.handles, 1, &handle));
    *handle = (gt_handle){.id = 1, .worker = GT_NO_WORKER};
    OK(gt__meta_set(&handle->meta, GT_FLOAT32, 2, (int64_t[]){WORKERS, WORKERS}));
    OK(gt__spread_set(&s->session, handle, from, slots));
    gt_source source = gt__spread_source(&s->session, handle);
    uint32_t slots_before = slots_in_use(&s->worker[0]);
    shortage_begin(allowed, false);
    gt_err err = gt__spread_arrange(&s->session, &source, to, slots);
    bool struck = shortage_end();
    CHECK(err == GT_OK || (struck && err == GT_ERR_MEMORY));
    unsigned sent = written(s, 0, ops[0]);
    for (unsigned k = 1; k < members; k++)
        CHECK_EQ(written(s, (int)k, ops[1]), sent);
    CHECK(sent == 1 || (err != GT_OK && !sent));
    gt__layout_release(to);
    gt__spread_free_temporaries(&s->session);
    if (handle->worker == GT_SPREAD)
        gt__spread_drop(&s->session, handle->slot);
    else
        gt__worker_free_tensor(s->workers[handle->worker], handle->slot);
    handle->worker = GT_NO_WORKER;
    for (int k = 0; k < WORKERS; k++) /* as before, less what the tensor had to begin with */
        CHECK_EQ(slots_in_use(&s->worker[k]), slots_before - (k < started));
    streams_free(s);
    return struck;
}

static gt_layout *split_rows(const streams *s)
{
    return gt__layout_even(0, WORKERS, s->all, WORKERS);
}

static gt_layout *split_columns(const streams *s)
{
    return gt__layout_even(1, WORKERS, s->all, WORKERS);
}

static gt_layout *owed(const streams *s)
{
    gt_layout *like = split_rows(s), *layout = gt__layout_like(like, GT_PARTIAL, 0);
    gt__layout_release(like);
    return layout;
}

static gt_layout *everywhere(const streams *s)
{
    return gt__layout_replicated(s->all, WORKERS);
}

static gt_layout *on_first(const streams *s)
{
    return gt__layout_replicated(s->all, 1);
}

static gt_layout *on_second(const streams *s)
{
    return gt__layout_replicated(s->all + 1, 1);
}

static void test_half_sent(const void *argument)
{
    (void)argument;
    static const struct {
        gt_layout *(*before)(const streams *), *(*after)(const streams *);
        unsigned members;
        gt_opcode ops[2]; /* to the first, and to the others */
    } cases[] = {
        {split_rows, everywhere, WORKERS, {GT_OP_all_gather, GT_OP_all_gather}},
        {split_rows, split_columns, WORKERS, {GT_OP_all_to_all, GT_OP_all_to_all}},
        {owed, everywhere, WORKERS, {GT_OP_all_reduce, GT_OP_all_reduce}},
        {owed, split_columns, WORKERS, {GT_OP_reduce_scatter, GT_OP_reduce_scatter}},
        {on_first, everywhere, WORKERS, {GT_OP_broadcast, GT_OP_broadcast}},
        {on_first, on_second, 2, {GT_OP_send, GT_OP_recv}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        unsigned allowed = 0;
        gt_opcode ops[] = {cases[k].ops[0], cases[k].ops[1]};
        while (arrange_short(cases[k].before, cases[k].after, allowed, cases[k].members, ops))
            allowed++;
        CHECK(allowed > 2);
    }
}

/* ---- records of several steps ------------------------------------------------------------------------------- */

/* Every exchange was written for each of its parties. */
static void check_exchanges(streams *s)
{
    enum { TAGS = 64 };
    unsigned parties[TAGS] = {0}, seen[TAGS] = {0};
    for (int k = 0; k < WORKERS; k++) {
        const gt_slot *slots;
        size_t available;
        gt__link_flush(s->worker[k].link);
        while ((slots = gt__link_peek(s->ends[k], &available))) {
            uint64_t tag = slots->ins.imm[0].u;
            if (slots->ins.op >= GT_OP_all_reduce && slots->ins.op <= GT_OP_all_to_all && CHECK(tag < TAGS)) {
                parties[tag] = (unsigned)slots->ins.imm[1].u;
                seen[tag]++;
            }
            gt__link_consume(s->ends[k], 1u + slots->ins.tail);
        }
    }
    for (unsigned tag = 0; tag < TAGS; tag++)
        CHECK_EQ(seen[tag], parties[tag]);
}

static gt_handle *new_rows(streams *s, uint64_t id, gt_dtype dtype, gt_layout *layout)
{
    gt_handle *handle;
    uint32_t slots[WORKERS];
    for (unsigned k = 0; k < layout->count; k++)
        slots[k] = gt__slot_number_new(&s->worker[layout->member[k].worker].slots);
    OK(gt__handles_insert(&s->session.handles, id, &handle));
    *handle = (gt_handle){.id = id, .worker = GT_NO_WORKER};
    OK(gt__meta_set(&handle->meta, dtype, 2, (int64_t[]){WORKERS, WORKERS}));
    OK(gt__spread_set(&s->session, handle, layout, slots));
    return handle;
}

static void drop(streams *s, gt_handle *handle)
{
    if (handle->worker == GT_SPREAD)
        gt__spread_drop(&s->session, handle->slot);
    else if (handle->worker != GT_NO_WORKER)
        gt__worker_free_tensor(s->workers[handle->worker], handle->slot);
    handle->worker = GT_NO_WORKER;
}

/* A record on a spread tensor, an index on one worker and a tensor that is split by rows, with memory that runs out; true: it did.
 * Exchanges have all their parties, and nothing is kept. */
static bool compute_short(const gt_slot *record, gt_layout *(*spread)(const streams *), unsigned allowed)
{
    streams *s = streams_new();
    gt_handle *operand[3] = {new_rows(s, 1, GT_FLOAT32, spread(s)), NULL, NULL};
    operand[1] = new_rows(s, 2, record->ins.op == GT_OP_cat ? GT_FLOAT64 : GT_INT64, on_first(s));
    operand[2] = new_rows(s, 3, GT_FLOAT32, split_rows(s));
    gt_handle result = {.worker = GT_NO_WORKER};
    gt_source sources[3];
    const gt_meta *metas[3];
    gt_layout *layouts[3] = {NULL};
    gt_dtype unused;
    gt_task task = {.session = &s->session, .record = record, .ins = &record->ins, .source = sources};
    task.count = gt__record_operands(&record->ins, record + 1).count;
    for (unsigned k = 0; k < task.count; k++) {
        operand[k] = gt__handles_find(&s->session.handles, k + 1);
        sources[k] = gt__spread_source(&s->session, operand[k]);
        metas[k] = sources[k].meta;
    }
    OK(gt__op_infer(&record->ins, record + 1, metas, &task.out, &unused));
    result.meta = task.out;
    shortage_begin(allowed, false);
    gt_err err = gt__spread_run(&task, layouts, &result);
    bool struck = shortage_end();
    CHECK(err == GT_OK ? result.worker != GT_NO_WORKER : struck && err == GT_ERR_MEMORY);
    gt__spread_free_temporaries(&s->session);
    drop(s, &result);
    for (uint64_t id = 1; id <= 3; id++)
        drop(s, gt__handles_find(&s->session.handles, id));
    for (int k = 0; k < WORKERS; k++)
        CHECK_EQ(slots_in_use(&s->worker[k]), 0);
    check_exchanges(s);
    streams_free(s);
    return struck;
}

static void test_steps_without_memory(const void *argument)
{
    (void)argument;
    static const gt_opcode ops[] = {GT_OP_softmax, GT_OP_log_softmax, GT_OP_cumsum, GT_OP_cummax, GT_OP_argsort,
                                    GT_OP_argmax,  GT_OP_topk,        GT_OP_take,   GT_OP_gather, GT_OP_scatter,
                                    GT_OP_cat,     GT_OP_argmin,      GT_OP_mean};
    for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++) {
        gt_slot record[2] = {{.ins = {.op = (uint16_t)ops[k], .operand = {1, 2, 3}}}, {.u64 = {1, 2, 3}}};
        unsigned allowed = 0;
        if (ops[k] == GT_OP_topk)
            record->ins.imm[1].i = 2;
        if (ops[k] == GT_OP_argmin)
            record->ins.imm[0].i = -1;
        if (ops[k] == GT_OP_cat) {
            record->ins.tail = 1;
            record->ins.imm[1].i = 3;
        }
        while (compute_short(record, split_rows, allowed))
            allowed++;
        CHECK(allowed > 2);
    }
}

/* A square of workers: rows along one axis, columns or sums along the other. */
static gt_layout *squared(const streams *s)
{
    gt_mesh mesh = grid(GT_SPLIT, 0, GT_SPLIT, 1);
    mesh.axis[1].size = 2;
    return gt__layout_meshed(&mesh, s->all);
}

static gt_layout *squared_sums(const streams *s)
{
    gt_mesh mesh = grid(GT_PARTIAL, 0, GT_SPLIT, 0);
    mesh.axis[1].size = 2;
    return gt__layout_meshed(&mesh, s->all);
}

static void test_meshes_without_memory(const void *argument)
{
    (void)argument;
    static const gt_opcode ops[] = {GT_OP_softmax, GT_OP_amax, GT_OP_mean,   GT_OP_exp,     GT_OP_take,
                                    GT_OP_gather,  GT_OP_norm, GT_OP_argmax, GT_OP_scatter, GT_OP_cat};
    for (size_t k = 0; k < 2 * (sizeof ops / sizeof ops[0]); k++) {
        gt_opcode op = ops[k / 2];
        gt_slot record[2] = {{.ins = {.op = (uint16_t)op, .operand = {1, 2, 3}}}, {.u64 = {1, 2, 3}}};
        unsigned allowed = 0;
        if (op == GT_OP_norm)
            record->ins.imm[1].f = 2;
        if (op == GT_OP_cat) {
            record->ins.tail = 1;
            record->ins.imm[1].i = 3;
        }
        while (compute_short(record, k % 2 ? squared : squared_sums, allowed))
            allowed++;
        CHECK(allowed > 2);
    }
}

int main(int argc, char **argv)
{
    char runtime[] = "/tmp/gt-test-XXXXXX";
    if (!mkdtemp(runtime))
        return 1;
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    check_begin(argc, argv);
    check_run("layouts", test_layouts, NULL);
    check_run("meshes", test_meshes, NULL);
    check_run("config records", test_config_records, NULL);
    check_run("config records with a mesh", test_mesh_records, NULL);
    check_run("a worker goes on while it waits", test_a_worker_goes_on, NULL);
    check_run("memory that runs out between two records", test_half_sent, NULL);
    check_run("memory that runs out between two steps", test_steps_without_memory, NULL);
    check_run("memory that runs out on a mesh", test_meshes_without_memory, NULL);
    check_run("embedded workers", test_embedded, NULL);
    check_run("workers that meet by memory", test_links, "");
    check_run("workers that meet by tcp", test_links, "tcp://");
    int status = check_end();
    char path[64];
    snprintf(path, sizeof path, "%s/gt", runtime);
    rmdir(path);
    rmdir(runtime);
    return status;
}
