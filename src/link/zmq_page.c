/* link/zmq_page.c: answers questions for a link's page. See zmq_page.h; link/zmq_router.c asks. */
#include "link/zmq_page.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/thread.h"
#include "link/zmq.h"

enum {
    OPEN_MS = 50,    /* the router may hear of the link's number later than this connection shows it */
    AGAIN_MS = 5000, /* in case that the connection was lost meanwhile */
};

struct gt_zmq_page {
    _Alignas(64) _Atomic uint64_t words[GT_LINK_PAGE / sizeof(uint64_t)];
    pthread_t thread;
    void *socket;
    uint64_t token;
    int stop; /* eventfd */
};

static void send_open(const gt_zmq_page *page)
{
    gt_zmq_control control = gt__zmq_control_of(GT_ZMQ_PAGE_OPEN, page->token);
    zmq_send(page->socket, &control, sizeof control, ZMQ_DONTWAIT);
}

static void answer(gt_zmq_page *page, uint64_t asked)
{
    zmq_msg_t message;
    if (zmq_msg_init_size(&message, sizeof(gt_zmq_page_frame)))
        return;
    gt_zmq_page_frame *frame = zmq_msg_data(&message); /* large messages are aligned: ZeroMQ allocates them */
    frame->asked = asked;
    frame->at_ns = gt__now_ns();
    for (size_t k = 0; k < sizeof frame->words / sizeof frame->words[0]; k++)
        frame->words[k] = atomic_load_explicit(&page->words[k], memory_order_relaxed);
    if (zmq_msg_send(&message, page->socket, ZMQ_DONTWAIT) < 0)
        zmq_msg_close(&message);
}

/* Whether anything came. */
static bool receive(gt_zmq_page *page)
{
    bool heard = false;
    zmq_msg_t frame;
    gt_zmq_control control;
    zmq_msg_init(&frame);
    while (zmq_msg_recv(&frame, page->socket, ZMQ_DONTWAIT) >= 0) {
        heard = true;
        if (gt__zmq_control(&frame, &control) && control.kind == GT_ZMQ_PAGE_ASK)
            answer(page, control.value);
    }
    zmq_msg_close(&frame);
    return heard;
}

static void *page_main(void *argument)
{
    gt_zmq_page *page = argument;
    bool heard = false;
    zmq_pollitem_t items[] = {{.socket = page->socket, .events = ZMQ_POLLIN},
                              {.fd = page->stop, .events = ZMQ_POLLIN}};
    send_open(page);
    for (;;) {
        int ready = zmq_poll(items, 2, heard ? AGAIN_MS : OPEN_MS);
        if (ready > 0 && items[1].revents)
            return NULL;
        if (ready == 0)
            send_open(page);
        heard |= receive(page);
    }
}

static void page_close(gt_zmq_page *page)
{
    int linger = 0;
    zmq_setsockopt(page->socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_close(page->socket);
    gt__zmq_page_abandon(page);
}

gt_zmq_page *gt__zmq_page_new(void *socket, uint64_t token)
{
    gt_zmq_page *page = aligned_alloc(_Alignof(gt_zmq_page), sizeof *page);
    if (!page) {
        zmq_close(socket);
        return NULL;
    }
    memset(page, 0, sizeof *page);
    page->socket = socket;
    page->token = token;
    page->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (page->stop >= 0 && gt__thread_start(&page->thread, page_main, page) == GT_OK)
        return page;
    page_close(page);
    return NULL;
}

void *gt__zmq_page_bytes(gt_zmq_page *page)
{
    return page->words;
}

void gt__zmq_page_free(gt_zmq_page *page)
{
    if (!page)
        return;
    eventfd_write(page->stop, 1);
    pthread_join(page->thread, NULL);
    page_close(page);
}

void gt__zmq_page_abandon(gt_zmq_page *page)
{
    if (page && page->stop >= 0)
        close(page->stop);
    free(page);
}
