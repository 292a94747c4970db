/*
 * fuzz/session.c: a whole session. A server with two workers runs in this process; each input is what a client says after its
 * greeting. Beside it another client computes, and must get what it asked for.
 */
#include "server_fixture.h"
#include "gt.h"
#include "patience.h"
#include "records.h"

enum {
    EVERY = 32,      /* inputs between looks at the other client */
    ANSWER_MS = 200, /* a session may wait for ever for what it never sends: the rest of an upload */
    ATTEMPT_MS = 2000,
    ADMISSION_MS = 10000, /* that the server may take for a new client, while it is run */
};

static server the_server;
static gt_client *other;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    char address[64];
    setenv("GT_WORKER_MEMORY", "32M", 1);
    setenv("GT_CONNECT_TIMEOUT", "600", 1); /* of the workers and the other client, on a busy machine */
    /* Sessions that inputs detach must not fill the workers' memory. */
    server_new_from(&the_server, &(gt_dispatcher_options){.listen = true, .detached_s = 0.05});
    server_start(&the_server);
    server_add_worker(&the_server, true);
    server_add_worker(&the_server, true);
    snprintf(address, sizeof address, "memory://localhost:%d", gt__dispatcher_port(the_server.dispatcher));
    FUZZ_EXPECT(gt_client_connect(address, 0, &other) == GT_OK);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    return records_mutate(data, size, most, seed);
}

static void expect_other_is_well(void)
{
    static double value = 1;
    double sum = 0;
    gt_tensor *a, *b;
    value += 1;
    FUZZ_EXPECT(gt_full(other, GT_FLOAT32, 1, (int64_t[]){100}, value, &a) == GT_OK);
    FUZZ_EXPECT(gt_sum(a, 0, false, &b) == GT_OK && gt_item(b, &sum) == GT_OK);
    FUZZ_EXPECT(sum == 100 * value);
    gt_tensor_release(a);
    gt_tensor_release(b);
}

/* One attempt. A hello that comes late, because this thread was not run, is refused. */
static gt_err try_to_join(const char *address, patience *p, gt_link **link)
{
    gt_welcome welcome = {0};
    GT_TRY(gt__address_connect(address, NULL, ATTEMPT_MS, link));
    gt_err err = gt__hello_send(*link, GT_ROLE_CLIENT, "raw", "");
    while (err == GT_OK && !welcome.workers) {
        err = gt__hello_wait(*link, ATTEMPT_MS, &welcome);
        if (err == GT_ERR_TIMEOUT && !patience_is_over(p, ATTEMPT_MS, ADMISSION_MS))
            err = GT_OK;
    }
    if (err != GT_OK)
        gt__link_close(*link);
    return err;
}

/* The next client. Inputs before it must not keep the server from admitting it. */
static gt_link *admit(void)
{
    char address[64];
    gt_link *link = NULL;
    gt_err err;
    patience p = patience_begin(the_server.thread_id);
    snprintf(address, sizeof address, "memory://localhost:%d", gt__dispatcher_port(the_server.dispatcher));
    while ((err = try_to_join(address, &p, &link)) != GT_OK) {
        bool again = err == GT_ERR_TIMEOUT || err == GT_ERR_CONNECTION;
        if (!again || patience_is_over(&p, ATTEMPT_MS, ADMISSION_MS)) {
            fprintf(stderr, "the next client was not admitted: %s\n", gt_error_text());
            abort();
        }
    }
    return link;
}

/* Read what comes until the answer to our last question, or until the server has ended the session. */
static void read_to_the_end(gt_link *link, uint64_t ticket)
{
    const gt_slot *slots;
    size_t available;
    unsigned length;
    for (bool last = false; !last; gt__link_consume(link, length)) {
        gt__link_flush(link);
        while (!(slots = gt__link_peek(link, &available)))
            if (gt__link_wait(link, GT_WAIT_READ, ANSWER_MS) != GT_OK)
                return;
        FUZZ_EXPECT(gt__instruction_check(slots, available, &length) == GT_OK);
        bool answer = slots->ins.op == GT_OP_reply || slots->ins.op == GT_OP_failure;
        last = slots->ins.op == GT_OP_goodbye || (answer && slots->ins.result == ticket);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned inputs;
    size_t count = size / sizeof(gt_slot), at = 0;
    uint64_t next = 1, ticket = 0x7fffffff;
    unsigned length;
    gt_slot *slots = malloc((count + 1) * sizeof *slots);
    memcpy(slots, data, count * sizeof *slots);
    gt_link *link = admit();
    bool alive = true;
    for (; alive && records_next(slots, count, &at, &length); at += length) {
        records_number(slots + at, &next);
        alive = send_slots(link, slots + at, length);
    }
    if (alive && send_ins(link, (gt_instruction){.op = GT_OP_sync, .result = ticket}))
        read_to_the_end(link, ticket);
    gt__link_close(link);
    free(slots);
    if (++inputs % EVERY == 0)
        expect_other_is_well();
    return 0;
}
