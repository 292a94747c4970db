/*
 * link/zmq_guard.c: see zmq_guard.h. ZeroMQ asks who may connect over an internal socket (ZAP, rfc.zeromq.org/spec/27);
 * link/zmq_router.c calls gt__door_answer in its loop, link/zmq_dealer.c is the other end.
 */
#include "link/zmq_guard.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zmq.h>

/* The frames of a question. */
enum {
    ASKED_VERSION,
    ASKED_NUMBER,
    ASKED_DOMAIN,
    ASKED_ADDRESS,
    ASKED_IDENTITY,
    ASKED_MECHANISM,
    ASKED_FIRST, /* PLAIN: the user name; CURVE: the public key, 32 bytes */
    ASKED_PASSWORD,
    ASKED_FRAMES,
};
enum { FRAME_SIZE = 256, ANSWERS = 64 /* in one call */ };

#define SAME_USER "user"
#define KEY_CLIENT "client "
#define KEY_WORKER "worker "
_Static_assert(sizeof((gt_link *)0)->key == GT_KEY_SIZE, "room for a key");

typedef struct question {
    uint8_t frame[ASKED_FRAMES][FRAME_SIZE];
    size_t length[ASKED_FRAMES];
    int count;
} question;

static bool receive(void *socket, question *asked)
{
    int more = 1;
    size_t size = sizeof more;
    asked->count = 0;
    while (more) {
        uint8_t extra[FRAME_SIZE];
        bool fits = asked->count < ASKED_FRAMES;
        int got = zmq_recv(socket, fits ? asked->frame[asked->count] : extra, FRAME_SIZE - 1, ZMQ_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return false;
        if (fits) {
            size_t length = (size_t)got < FRAME_SIZE - 1 ? (size_t)got : FRAME_SIZE - 1;
            asked->frame[asked->count][length] = 0;
            asked->length[asked->count++] = length;
        }
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
    }
    return true;
}

/* Who asks; false: refused. */
static bool admit(const gt_door *door, const question *asked, char *user, size_t size)
{
    char key[GT_KEY_SIZE];
    if (asked->count > ASKED_FIRST && !strcmp((const char *)asked->frame[ASKED_MECHANISM], "CURVE")) {
        if (asked->length[ASKED_FIRST] != 32 || !zmq_z85_encode(key, asked->frame[ASKED_FIRST], 32))
            return false;
        if (!door->allowed) {
            snprintf(user, size, SAME_USER);
            return true;
        }
        const gt_user *found = gt__allowed_find(door->allowed, key);
        if (found)
            snprintf(user, size, "%s%s%s", found->worker ? KEY_WORKER : KEY_CLIENT, key, found->name);
        return found;
    }
    snprintf(user, size, SAME_USER);
    return asked->count > ASKED_PASSWORD && !strcmp((const char *)asked->frame[ASKED_MECHANISM], "PLAIN") &&
           gt__secret_equal((const char *)asked->frame[ASKED_PASSWORD], door->password);
}

static void send_text(void *socket, const char *text, int flags)
{
    zmq_send(socket, text, strlen(text), flags | ZMQ_DONTWAIT);
}

void gt__door_answer(gt_door *door)
{
    question asked;
    for (int k = 0; door->socket && k < ANSWERS && receive(door->socket, &asked); k++) {
        char user[GT_KEY_SIZE + GT_USER_SIZE + 16] = "";
        bool good = admit(door, &asked, user, sizeof user);
        send_text(door->socket, "1.0", ZMQ_SNDMORE);
        zmq_send(door->socket, asked.frame[ASKED_NUMBER],
                 asked.count > ASKED_NUMBER ? asked.length[ASKED_NUMBER] : 0, ZMQ_SNDMORE | ZMQ_DONTWAIT);
        send_text(door->socket, good ? "200" : "400", ZMQ_SNDMORE);
        send_text(door->socket, good ? "" : "not allowed", ZMQ_SNDMORE);
        send_text(door->socket, good ? user : "", ZMQ_SNDMORE);
        send_text(door->socket, "", 0);
        explicit_bzero(&asked, sizeof asked);
    }
}

gt_err gt__door_open(gt_door *door, void *context, void *socket, const gt_guard *guard)
{
    const int on = 1;
    if (!guard)
        return GT_OK;
    door->allowed = guard->allowed;
    snprintf(door->password, sizeof door->password, "%s", guard->password ? guard->password : "");
    door->socket = zmq_socket(context, ZMQ_REP);
    bool set = guard->secret_key
                   ? !zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &on, sizeof on) &&
                         !zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, guard->secret_key, GT_KEY_SIZE - 1)
                   : !zmq_setsockopt(socket, ZMQ_PLAIN_SERVER, &on, sizeof on);
    if (door->socket && set && !zmq_bind(door->socket, "inproc://zeromq.zap.01"))
        return GT_OK;
    return gt__fail(GT_ERR_CONNECTION, "cannot set up authentication: %s", zmq_strerror(zmq_errno()));
}

void gt__door_pass(void *socket, const gt_guard *guard)
{
    const int off = 0;
    if (guard)
        zmq_setsockopt(socket, guard->secret_key ? ZMQ_CURVE_SERVER : ZMQ_PLAIN_SERVER, &off, sizeof off);
}

void gt__door_close(gt_door *door)
{
    const int linger = 0;
    if (!door->socket)
        return;
    zmq_setsockopt(door->socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_close(door->socket);
    door->socket = NULL;
}

/* The text of `admit`: the role, the key (it has no spaces), the name. */
void gt__door_user(const gt_door *door, void *frame, gt_link *link)
{
    /* Without a door no key was checked, and ZeroMQ passes on whatever the peer sent as its User-Id. */
    const char *user = door->socket ? zmq_msg_gets(frame, "User-Id") : NULL;
    bool local = link->transport == &gt__transport_ipc || (user && !strcmp(user, SAME_USER));
    bool worker = user && !strncmp(user, KEY_WORKER, strlen(KEY_WORKER));
    bool client = user && !strncmp(user, KEY_CLIENT, strlen(KEY_CLIENT));
    if (local)
        gt__link_same_user(link);
    else if (worker || client) {
        link->trust = worker ? GT_TRUST_WORKER : GT_TRUST_KEY;
        const char *key = user + strlen(worker ? KEY_WORKER : KEY_CLIENT);
        size_t length = strnlen(key, GT_KEY_SIZE - 1);
        snprintf(link->key, sizeof link->key, "%.*s", (int)length, key);
        snprintf(link->user, sizeof link->user, "%s", key + length);
    }
}

void gt__door_keys(gt_link *link, void *socket, const char *endpoint, int port, const gt_keys *keys)
{
    gt_secrets secrets;
    if (gt__secrets_find(port, &secrets) && *secrets.password && !strcmp(secrets.endpoint, endpoint)) {
        zmq_setsockopt(socket, ZMQ_PLAIN_USERNAME, SAME_USER, strlen(SAME_USER));
        zmq_setsockopt(socket, ZMQ_PLAIN_PASSWORD, secrets.password, GT_SECRET_SIZE - 1);
        link->trust = GT_TRUST_USER;
    } else if (keys && *keys->server) {
        zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, keys->server, GT_KEY_SIZE - 1);
        zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->public_key, GT_KEY_SIZE - 1);
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->secret, GT_KEY_SIZE - 1);
        link->trust = GT_TRUST_KEY;
    }
    explicit_bzero(&secrets, sizeof secrets);
}

static void seed(void)
{
    unsigned value;
    if (getrandom(&value, sizeof value, GRND_NONBLOCK) == (ssize_t)sizeof value)
        srand(value);
}

void gt__identities_seed(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, seed);
}
