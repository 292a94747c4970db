/*
 * test_emit.c: what a client writes into its link, read at the other end by the test itself: nothing is computed. So the
 * test decides when the link is full and what other threads do while the client waits.
 */
#include "client/client.h"
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

/* Read all that was sent; *last is the last record that computes something. Returns how many computed something. */
static int drain_link(gt_instruction *last)
{
    const gt_slot *slots;
    size_t available;
    unsigned length;
    int count = 0;
    gt__client_flush(client);
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
    gt__link_flush(client->link);
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

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("operands are held while the client waits for room", test_operand_held, NULL);
    check_run("operands are held while a scope is told", test_operand_held, "a new signal");
    return check_end();
}
