/*
 * link/zmq.h: shared by the two ends of a ZeroMQ link. link/zmq.c moves slots in and out of frames and accounts for
 * credit; link/zmq_dealer.c (clients, workers) and link/zmq_router.c (dispatcher) own the sockets.
 */
#ifndef GT_LINK_ZMQ_H
#define GT_LINK_ZMQ_H

#include <zmq.h>

#include "link/link.h"

enum {
    GT_ZMQ_FRAME_SLOTS = GT_LINK_MAX_RESERVE, /* in one frame at most */
    GT_ZMQ_FRAME_BYTES = GT_ZMQ_FRAME_SLOTS * (int)sizeof(gt_slot),
    GT_ZMQ_WINDOW = 64 * 1024, /* slots in flight in one direction at most: 4 MiB */
    GT_RESUME_MS =
        10000, /* how long a session waits for its client after a cut, unless a setting says otherwise */
    GT_RESTART_MS = 60000,  /* the same for a server with a journal that is started again, and for its clients */
    GT_ZMQ_LINGER_MS = 500, /* how long closing waits for a last goodbye to be sent */
    GT_ZMQ_VERSION = 3,
    GT_ZMQ_JOURNAL = 1 << 8, /* a bit of ACCEPT: the server outlives its process (link/expected.h) */
    GT_ZMQ_LIFE_SHIFT = 16,  /* above that: a random number of the server's process */
    GT_ZMQ_SECRET_BYTES = GT_LINK_SECRET,
    GT_ZMQ_RECEIPTS = 8, /* that may be outstanding: more than the window has room for */
};

/*
 * A frame is an array of slots, or empty (a heartbeat), or one of these controls, whose size no array of slots has.
 */
typedef enum gt_zmq_kind {
    GT_ZMQ_OPEN = 1,   /* dealer -> router, the first frame; value: version */
    GT_ZMQ_ACCEPT = 2, /* the answer; value: version, GT_ZMQ_JOURNAL and, from GT_ZMQ_LIFE_SHIFT on, its life */
    /* value: slots consumed (32 bits): the sender may send as many more; above: the sum of all receipts */
    GT_ZMQ_CREDIT = 3,
    GT_ZMQ_CLOSE = 4,   /* the last frame */
    GT_ZMQ_URGENT = 5,  /* value: a word beside the stream */
    GT_ZMQ_RECEIPT = 6, /* value: a random number of 32 bits, after each quarter of a window */
    /* See link/zmq_page.h. */
    GT_ZMQ_PAGE = 7, /* dealer -> router; value: the number by which its page is known */
    GT_ZMQ_PAGE_OPEN =
        8, /* the first frame of the page's own connection, repeated now and then; value: that number */
    GT_ZMQ_PAGE_ASK =
        9, /* router -> page's connection; value: to be repeated in the answer, a gt_zmq_page_frame */
    /* Those with more than a value, see link/zmq_resume.h. */
    GT_ZMQ_SECRET = 10,  /* dealer -> router: by this secret the link can be resumed */
    GT_ZMQ_RESUME = 11,  /* dealer -> router, the first frame of another connection of the link */
    GT_ZMQ_RESUMED = 12, /* the answer; or */
    GT_ZMQ_UNKNOWN = 13, /* a control: no link has this secret, any more */
} gt_zmq_kind;

typedef struct gt_zmq_control {
    uint32_t magic;
    uint32_t kind;
    uint64_t value;
} gt_zmq_control;

typedef struct gt_zmq_link gt_zmq_link;

/* Frames in order: a ring, whose size is a power of two. */
typedef struct gt_zmq_frames {
    zmq_msg_t *frames;
    unsigned size, first, count;
} gt_zmq_frames;

/* What each end implements. */
typedef struct gt_zmq_side {
    bool (*send)(gt_zmq_link *link, zmq_msg_t *frame); /* takes the frame; false: it could not be sent */
    void (*pump)(gt_zmq_link *link);                   /* pass all that has arrived to gt__zmq_receive */
    bool pump_on_refill;
} gt_zmq_side;

struct gt_zmq_link {
    gt_link base;
    const gt_zmq_side *side;
    gt_slot *frame;          /* under construction; base.write_next is in it */
    unsigned frame_slots;    /* that it has room for; grows to GT_ZMQ_FRAME_SLOTS */
    unsigned credit;         /* slots that we may send, including those in the frame */
    unsigned wanted;         /* slots that the last reserve failed to get; 0: it succeeded */
    uint64_t sent, returned; /* slots: all that were sent, and those that credit came back for */
    uint64_t proven;         /* of the sent ones: the peer has received at least those */
    uint32_t proof;          /* the sum of the receipts up to there */
    struct {
        uint64_t sent; /* when it was */
        uint32_t proof;
    } receipts[GT_ZMQ_RECEIPTS]; /* that the peer has not confirmed yet, in order */
    unsigned receipt_count;
    uint32_t got;                    /* the sum of the receipts that we got */
    uint64_t arrived;                /* slots: all that came */
    unsigned received;               /* slots received for which the peer has no credit back yet */
    unsigned consumed;               /* of those, slots that we have read */
    unsigned returns;                /* slots: give credit back for so many at a time */
    gt_zmq_frames queue;             /* to read */
    zmq_msg_t reading;               /* the frame of the read window */
    gt_slot *straight;               /* its slots, if ZeroMQ delivered them misaligned */
    bool accepted;                   /* the peer has answered (or asked, on the router's side) */
    uint64_t page_token;             /* the number of the peer's page; 0: it has none */
    uint64_t urgent[GT_LINK_URGENT]; /* words beside the stream: a ring */
    unsigned urgent_first, urgent_count;
    /* link/zmq_resume.h */
    bool keeps;                          /* it can outlive its connection */
    bool cut;                            /* the connection is lost, and the link waits for another */
    gt_zmq_frames kept;                  /* that were sent, and the peer may not have got */
    uint64_t kept_from;                  /* slots that were sent before those */
    uint64_t life;                       /* of the listening process: another one is a server that was restarted */
    bool journal;                        /* that server has one */
    uint64_t durable;                    /* slots that came and would outlive this process: others get no credit */
    uint8_t secret[GT_ZMQ_SECRET_BYTES]; /* zero: none */
};

static inline zmq_msg_t *gt__zmq_frame(const gt_zmq_frames *ring, unsigned k)
{
    return &ring->frames[(ring->first + k) & (ring->size - 1)];
}

/* Takes the frame, also if it fails: out of memory. */
bool gt__zmq_frames_push(gt_zmq_frames *ring, zmq_msg_t *frame);
/* Close all of them. */
void gt__zmq_frames_drop(gt_zmq_frames *ring);
/* The first one was moved or closed. */
void gt__zmq_frames_pop(gt_zmq_frames *ring);

/* Fill in a zeroed link; the caller sets the side and the ops. */
void gt__zmq_link_init(gt_zmq_link *link);
/* Free what init and the link's life allocated, not the link. */
void gt__zmq_link_clear(gt_zmq_link *link);

/* One frame from the peer; takes it. `more`: other frames follow in the message, which is an error. */
void gt__zmq_receive(gt_zmq_link *link, zmq_msg_t *frame, bool more);
bool gt__zmq_send_control(gt_zmq_link *link, gt_zmq_kind kind, uint64_t value);
/* Give credit for the slots that were read back, if there are many, and as far as they are durable. */
void gt__zmq_give_credit(gt_zmq_link *link);
/* After each quarter of the window: prove later that the peer has got what was sent before. */
void gt__zmq_send_receipt(gt_zmq_link *link);
gt_zmq_control gt__zmq_control_of(gt_zmq_kind kind, uint64_t value);
/* The control in a frame of that size, or false. */
bool gt__zmq_control(zmq_msg_t *frame, gt_zmq_control *control);

/* Ops and waiting that both ends use. */
gt_slot *gt__zmq_reserve(gt_link *link, unsigned slots);
void gt__zmq_flush(gt_link *link);
bool gt__zmq_refill(gt_link *link);
void gt__zmq_urge(gt_link *link, uint64_t word);
bool gt__zmq_urged(gt_link *link, uint64_t *word);
void gt__zmq_durable(gt_link *link, uint64_t slots);
uint64_t gt__zmq_unread(gt_link *link);
void gt__zmq_slots(gt_link *link, gt_link_slots *slots);
/* Checks what was pumped; does not pump itself. */
bool gt__zmq_has(gt_link *link, gt_wait what);
gt_wait gt__zmq_interest(const gt_link *link);

/* Whether a socket has something to read. On error (a signal arrived): true, and the caller checks. */
bool gt__zmq_readable(void *socket);

/* The next event of a socket's monitor: what happened, and to which connection. False: none. */
bool gt__zmq_event(void *monitor, unsigned *event, int *connection);

/* The options of both ends' sockets. */
void gt__zmq_socket_options(void *socket);

/* The connect of each transport; the rest of the transports is in link/zmq_router.c. */
gt_err gt__zmq_connect_tcp(const char *host, int port, int timeout_ms, gt_link **link);
gt_err gt__zmq_connect_ipc(const char *host, int port, int timeout_ms, gt_link **link);

#endif
