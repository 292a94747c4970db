/*
 * test_emit.c: what a client writes into its link, read at the other end by the test itself: nothing is computed. So the
 * test decides when the link is full and what other threads do while the client waits.
 */
#include "client/autograd.h"
#include "client/hotpath_state.h"
#include "client_fixture.h"

/* ---- a client whose link ends here -------------------------------------------------------------------------- */

static gt_client *client;
static gt_link *server_link, *far_end; /* where the link of the client led, and where it leads now */

static void open_here(void)
{
    gt_link *near_end = NULL;
    client = open_client(1);
    if (!CHECK_EQ(gt__link_memory_pair(&near_end, &far_end), GT_OK))
        abort();
    server_link = client->link;
    client->link = near_end;
}

/* After every tensor was released. */
static void close_here(void)
{
    gt__client_flush(client);
    gt__link_close(client->link);
    gt__link_close(far_end);
    client->link = server_link;
    gt_client_close(&client);
}

static void fill_link(void)
{
    gt_slot *slot;
    while ((slot = gt__link_reserve(client->link, 1))) {
        slot->ins = (gt_instruction){.op = GT_OP_sync};
        gt__link_commit(client->link, 1);
    }
}

/* Read all that was sent, but what is still to be freed; *last is the last record that computes something. Returns how many
 * do. */
static int drain_link(gt_instruction *last)
{
    const gt_slot *slots;
    size_t available;
    unsigned length;
    int count = 0;
    gt__link_flush(client->link);
    while ((slots = gt__link_peek(far_end, &available))) {
        if (!CHECK_EQ(gt__instruction_check(slots, available, &length), GT_OK))
            abort();
        if (slots->ins.op < GT_OP_FIRST_CONTROL) {
            *last = slots->ins;
            count++;
        }
        gt__link_consume(far_end, length);
    }
    return count;
}

/* ---- waiting ------------------------------------------------------------------------------------------------ */

static gt_tensor *dropped;

/* What another thread does while the client waits for room: it releases the operand; the server reads on. */
static void *drop_operand(void)
{
    gt_instruction last;
    gt_tensor_release(dropped);
    dropped = NULL;
    drain_link(&last);
    return NULL;
}

/* An operand that is released while the client waits keeps its place: the result does not take it, with its gradient. */
static void test_operand_held(const void *argument)
{
    const char *signal = argument; /* NULL: none, the wait is for the record itself */
    gt_tensor *product = NULL;
    gt_instruction last = {0};
    open_here();
    OK(gt_full(client, GT_FLOAT32, SHAPE(2, 3), 1, &dropped));
    OK(gt_tensor_set_requires_grad(dropped, true));
    uint64_t id = dropped->id;
    fill_link();
    if (signal)
        OK(gt_signal_enter(client, signal, NULL));
    gt__wait_hooks = (gt_wait_hooks){.before = drop_operand};
    OK(gt_mul_scalar(dropped, 2, &product));
    gt__wait_hooks = (gt_wait_hooks){0};
    if (signal)
        OK(gt_signal_exit(signal));
    CHECK(!dropped); /* it did wait */
    CHECK(gt_tensor_requires_grad(product));
    CHECK_EQ(drain_link(&last), 1);
    CHECK_EQ(last.op, GT_OP_mul);
    CHECK_EQ(last.operand[0], id);
    CHECK_EQ(last.result, product->id);
    CHECK_EQ(last.scope != 0, signal != NULL);
    gt_tensor_release(product);
    close_here();
}

/* ---- updates in place --------------------------------------------------------------------------------------- */

static gt_tensor *six(void)
{
    gt_tensor *a = NULL;
    OK(gt_full(client, GT_FLOAT32, SHAPE(6), 1, &a));
    return a;
}

/* Whether a[0] = 1 by a holder of `held` references consumes a. */
static bool assign_consumes(gt_tensor *a, unsigned held)
{
    gt_tensor *out = NULL;
    gt_instruction last = {0};
    OK(gt__emit_assign(a, (int64_t[]){0}, (int64_t[]){1}, (int64_t[]){1}, NULL, GT_LITERAL_FLOAT, (gt_imm){.f = 1},
                       held, &out));
    drain_link(&last);
    CHECK_EQ(last.op, GT_OP_assign);
    bool consumes = last.flags & GT_FLAG_CONSUMES;
    CHECK_EQ(a->id == 0, consumes); /* what the server has freed is not freed again */
    gt_tensor_release(out);
    return consumes;
}

static void test_one_owner(const void *argument)
{
    (void)argument;
    open_here();
    gt_tensor *a = six(), *alias = NULL;
    CHECK(!assign_consumes(a, 0)); /* not offered */
    gt_tensor_retain(a);
    CHECK(!assign_consumes(a, 1)); /* another reference, */
    gt_tensor_release(a);
    OK(gt_detach(a, &alias)); /* another name of the value, */
    CHECK(!assign_consumes(a, 1));
    CHECK(!assign_consumes(alias, 1));
    gt_tensor_retain(a); /* or both */
    CHECK(!assign_consumes(a, 2));
    gt_tensor_release(a);
    gt_tensor_release(a);
    CHECK(assign_consumes(alias, 1)); /* the last name */
    gt_tensor_release(alias);
    a = six();
    gt_tensor_retain(a);
    CHECK(assign_consumes(a, 2)); /* all references are the caller's */
    gt_tensor_release(a);
    gt_tensor_release(a);
    close_here();
}

static void test_one_owner_with_gradients(const void *argument)
{
    (void)argument;
    open_here();
    gt_tensor *weight = six(), *a = six(), *product, *power, *index, *out;
    gt_instruction last = {0};
    OK(gt_tensor_set_requires_grad(weight, true));
    CHECK(!assign_consumes(weight, 1)); /* a leaf keeps its value: the update will be refused */
    OK(gt_mul(weight, a, &product));
    CHECK(!assign_consumes(a, 1)); /* saved for the gradient of weight */
    OK(gt_exp(product, &power));
    CHECK(!assign_consumes(power, 1)); /* saved for its own */
    CHECK(assign_consumes(product, 1));
    gt_set_grad_enabled(false);
    CHECK(assign_consumes(weight, 1)); /* a step of training */
    gt_set_grad_enabled(true);
    gt_tensor_release(product);
    OK(gt_full(client, GT_INT64, SHAPE(6), 0, &index));
    OK(gt_mul_scalar(power, 2, &product));
    for (int round = 0; round < 2;
         round++) { /* the rule of scatter_reduce wants the operand, that of scatter does not */
        gt_opcode op = round ? GT_OP_scatter : GT_OP_scatter_reduce;
        OK(gt__emit_scatter(op, product, index, a, 0, 0, 1, &out));
        drain_link(&last);
        CHECK_EQ(last.op, op);
        CHECK_EQ((last.flags & GT_FLAG_CONSUMES) != 0, round);
        gt_tensor_release(out); /* and with it what it saved */
    }
    gt_tensor_release(index);
    gt_tensor_release(product);
    gt_tensor_release(power);
    gt_tensor_release(a);
    gt_tensor_release(weight);
    close_here();
}

static gt_tensor *shared;

/* Another thread takes a reference while the client waits. */
static void *take_reference(void)
{
    gt_instruction last;
    gt_tensor_retain(shared);
    drain_link(&last);
    return NULL;
}

static void test_owner_gained_by_waiting(const void *argument)
{
    (void)argument;
    open_here();
    shared = six();
    fill_link();
    gt__wait_hooks = (gt_wait_hooks){.before = take_reference};
    CHECK(!assign_consumes(shared, 1));
    CHECK(shared->references > 1); /* it did wait */
    while (shared->references > 1)
        gt_tensor_release(shared);
    /* Room that was made before is there: nothing waits, and the tensor is consumed. */
    fill_link();
    OK(gt__client_prepare_update(client, 4));
    CHECK(shared->references > 1);
    while (shared->references > 1)
        gt_tensor_release(shared);
    CHECK(assign_consumes(shared, 1));
    CHECK_EQ(shared->references, 1);
    gt__wait_hooks = (gt_wait_hooks){0};
    gt_tensor_release(shared);
    close_here();
}

/* A view that was released is freed on the server before the update, which would copy otherwise. */
static void test_frees_come_first(const void *argument)
{
    (void)argument;
    open_here();
    gt_tensor *a = six(), *view, *out;
    gt_instruction last;
    size_t available;
    OK(gt_slice(a, (int64_t[]){0}, (int64_t[]){1}, (int64_t[]){2}, &view));
    uint64_t id = view->id;
    drain_link(&last);
    gt_tensor_release(view);
    OK(gt__client_prepare_update(client, 4));
    OK(gt__emit_assign(a, (int64_t[]){0}, (int64_t[]){1}, (int64_t[]){1}, NULL, GT_LITERAL_FLOAT, (gt_imm){.f = 1},
                       1, &out));
    gt__link_flush(client->link);
    const gt_slot *slots = gt__link_peek(far_end, &available);
    CHECK(slots && slots->ins.op == GT_OP_free && slots->ins.result == id);
    drain_link(&last);
    CHECK_EQ(last.op, GT_OP_assign);
    gt_tensor_release(out);
    gt_tensor_release(a);
    close_here();
}

/* A loop of one op that stops at the same place of an unrolled path each time: the detector rests while paths are sent, and does
 * not see all their records. */
static void test_rest_in_rounds(const void *argument)
{
    (void)argument;
    setenv("GT_AUTO_COMPILE", "1", 1);
    gt_client *embedded = open_client(1);
    gt_tensor *a, *b;
    OK(gt_full(embedded, GT_FLOAT32, SHAPE(8, 8), 1, &a));
    for (int round = 0; round < 8; round++) {
        for (int k = 0; k < 2000; k++) {
            OK(gt_add(a, a, &b));
            gt_tensor_release(b);
        }
        const gt_detector *detector = &embedded->hotpath->detector;
        CHECK(gt__hotpath_stats(embedded).runs > 0);
        CHECK(detector->turn != 0);
        OK(gt_synchronize(embedded));
    }
    gt_tensor_release(a);
    gt_client_close(&embedded);
    unsetenv("GT_AUTO_COMPILE");
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("operands are held while the client waits for room", test_operand_held, NULL);
    check_run("operands are held while a scope is told", test_operand_held, "a new signal");
    check_run("a tensor with one owner is updated in place", test_one_owner, NULL);
    check_run("a value kept for gradients is not", test_one_owner_with_gradients, NULL);
    check_run("nor one that gains an owner while the client waits", test_owner_gained_by_waiting, NULL);
    check_run("released views are freed before an update", test_frees_come_first, NULL);
    check_run("the detector of hot paths rests in rounds of a loop", test_rest_in_rounds, NULL);
    return check_end();
}
