/*
 * test_join.c: a worker and what it hears before its welcome. A server with a journal that ends may be started
 * again, so the worker greets the next one (docs/recovery.md); any other goodbye is for good, and its reason is the error.
 */
#include <pthread.h>
#include <string.h>

#include "link_ends.h"
#include "link/hello.h"
#include "worker/worker.h"

typedef struct joining {
    pthread_t thread;
    gt_worker_options options;
    gt_err err;
    char text[256];
} joining;

static void *worker_main(void *argument)
{
    joining *j = argument;
    j->err = gt__worker_run(&j->options, NULL);
    snprintf(j->text, sizeof j->text, "%s", gt_error_text());
    return NULL;
}

/* Take the next connection and its greeting, and say goodbye. False: no greeting came. */
static bool answer(gt_acceptor *acceptor, const char *reason)
{
    const gt_slot *hello;
    size_t available;
    gt_link *link = accept_one(acceptor);
    if (!link)
        return false;
    while (!(hello = gt__link_peek(link, &available)) && gt__link_wait(link, GT_WAIT_READ, PATIENCE_MS) == GT_OK)
        ;
    bool greeted = hello && hello->ins.op == GT_OP_hello && hello->ins.flags == GT_ROLE_WORKER;
    if (greeted)
        gt__link_consume(link, 1 + GT_HELLO_TAIL);
    gt__goodbye_send(link, reason);
    /* The worker closes its end when it has read that. */
    while (greeted && !link->dead && gt__link_wait(link, GT_WAIT_READ, PATIENCE_MS) == GT_OK)
        ;
    gt__link_close(link);
    return greeted;
}

static void test_server_pauses(const void *argument)
{
    const kind *k = argument;
    enum { PAUSES = 3 };
    gt_acceptor *acceptor;
    char address[64];
    int port;
    atomic_bool stop = false;
    if (!CHECK_EQ(k->transport->listen("localhost", 0, &acceptor, &port), GT_OK))
        return;
    snprintf(address, sizeof address, "%s://localhost:%d", k->name, port);
    joining j = {.options = {.name = "worker",
                             .backend = "reference",
                             .address = address,
                             .threads = 1,
                             .timeout_ms = 4 * PATIENCE_MS,
                             .stop = &stop,
                             .stop_poll_ms = 50}};
    pthread_create(&j.thread, NULL, worker_main, &j);
    for (int n = 0; n < PAUSES; n++)
        CHECK(answer(acceptor, GT_SERVER_PAUSES));
    CHECK(answer(acceptor, GT_SERVER_STOPS));
    pthread_join(j.thread, NULL);
    CHECK_EQ(j.err, GT_ERR_CONNECTION);
    CHECK(strstr(j.text, "the server refused the connection: " GT_SERVER_STOPS));
    acceptor->ops->close(acceptor);
}

int main(int argc, char **argv)
{
    static const link_test tests[] = {
        {"a server that pauses while a worker joins", test_server_pauses, LISTENING}};
    check_begin(argc, argv);
    run_link_tests(tests, sizeof tests / sizeof *tests);
    return check_end();
}
