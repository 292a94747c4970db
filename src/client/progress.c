/* progress.c: see progress.h. Place in the flow: transfer.c (waits) -> here -> statistics.c -> the server's monitor.c. */
#include "client/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/client.h"
#include "core/report.h"
#include "core/settings.h"
#include "link/hello.h"

enum {
    LONG_MS = 2000,    /* a wait that takes longer is shown */
    AGAIN_MS = 500,    /* the line is drawn again after this */
    PATIENCE_MS = 200, /* with the server */
    MOST_COLUMNS = 300,
};

static _Atomic int shown = -1; /* -1: as the environment says */

bool gt__progress_show(bool show)
{
    int before = atomic_exchange(&shown, show);
    return before < 0 ? gt__setting(GT_SETTING_PROGRESS) != 0 : before != 0;
}

static bool is_wanted(void)
{
    int wanted = atomic_load(&shown);
    if (wanted < 0)
        wanted = gt__setting(GT_SETTING_PROGRESS) != 0;
    return wanted && (gt__wait_hooks.has_terminal ? gt__wait_hooks.has_terminal() : isatty(STDERR_FILENO) == 1);
}

/* ---- what is waited for ------------------------------------------------------------------------------------- */

static char *describe(const gt_progress *progress, char *text, size_t size)
{
    char shape[128];
    if (progress->op == GT_OP_fetch && progress->tensor)
        snprintf(text, size, "the value of a %s tensor of shape %s",
                 gt__dtype_name((gt_dtype)progress->tensor->dtype),
                 gt__shape_text(progress->tensor->rank, progress->tensor->shape, shape, sizeof shape));
    else if (progress->op == GT_OP_sync)
        snprintf(text, size, "synchronize()");
    else
        snprintf(text, size, progress->op == GT_OP_INVALID ? "room in the server's queue" : "the server's answer");
    return text;
}

/* Connect, without the language's lock: the server may be slow. */
static void connect_monitor(gt_client *client)
{
    gt_progress *progress = &client->progress;
    void *state = gt__wait_hooks.before ? gt__wait_hooks.before() : NULL;
    progress->asked = true;
    if (gt__client_monitor(client, GT_TOPIC_PROGRESS, AGAIN_MS, PATIENCE_MS, &progress->link) != GT_OK)
        progress->link = NULL;
    else
        gt__link_wait(progress->link, GT_WAIT_READ, PATIENCE_MS);
    if (gt__wait_hooks.after)
        gt__wait_hooks.after(state);
}

static void drop_monitor(gt_progress *progress)
{
    if (progress->link)
        gt__link_close(progress->link);
    progress->link = NULL;
}

/* Take what the server has said since. */
static void listen_to_server(gt_progress *progress)
{
    size_t available;
    const gt_slot *slots;
    while (progress->link && (slots = gt__link_peek(progress->link, &available))) {
        gt_slot head = slots[0];
        unsigned length;
        if (gt__instruction_check(&head, available, &length) != GT_OK || head.ins.op == GT_OP_goodbye) {
            drop_monitor(progress);
            return;
        }
        size_t bytes = (size_t)head.ins.imm[1].u, room = head.ins.tail * sizeof head;
        if (head.ins.op == GT_OP_reply && head.ins.result == GT_TOPIC_PROGRESS)
            snprintf(progress->text, sizeof progress->text, "%.*s", (int)(bytes < room ? bytes : room),
                     (const char *)(slots + 1));
        gt__link_consume(progress->link, length);
    }
    for (char *at = progress->text; *at; at++) /* names come from other parties */
        if ((unsigned char)*at < ' ' || *at == 127)
            *at = '?';
}

/* ---- the line ----------------------------------------------------------------------------------------------- */

static void put(const char *text)
{
    size_t length = strlen(text);
    ssize_t written = write(STDERR_FILENO, text, length);
    (void)written; /* a terminal that is gone reads nothing */
}

static void draw(gt_client *client, uint64_t now)
{
    gt_progress *progress = &client->progress;
    struct winsize window;
    char what[192], line[MOST_COLUMNS + 16];
    int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col ? window.ws_col : 80;
    columns = columns > MOST_COLUMNS ? MOST_COLUMNS : columns;
    double seconds = (double)(now - progress->began_ns) * 1e-9;
    char said[512];
    int length = snprintf(said, sizeof said, "gt: %.0f s for %s%s%s", seconds,
                          describe(progress, what, sizeof what), *progress->text ? ": " : "", progress->text);
    if (length >= columns && *progress->text) /* what runs now tells more than what is waited for */
        snprintf(said, sizeof said, "gt: %.0f s: %s", seconds, progress->text);
    /* One column less than there are: no terminal moves to the next line. */
    snprintf(line, sizeof line, "\r%.*s\033[K", columns - 1, said);
    put(line);
    progress->drawn_ns = now;
}

void gt__progress_look(gt_client *client, int looked_ms)
{
    gt_progress *progress = &client->progress;
    uint64_t now = gt__now_ns();
    if (!progress->began_ns)
        progress->began_ns = now - (uint64_t)looked_ms * 1000000;
    if (now - progress->began_ns < LONG_MS * 1000000ull ||
        (progress->drawn_ns && now - progress->drawn_ns < AGAIN_MS * 1000000ull) || !is_wanted())
        return;
    if (!progress->asked)
        connect_monitor(client);
    listen_to_server(progress);
    draw(client, now);
}

void gt__progress_end(gt_client *client)
{
    gt_progress *progress = &client->progress;
    if (progress->drawn_ns)
        put("\r\033[K");
    drop_monitor(progress);
    *progress = (gt_progress){0};
}

gt_err gt__progress_interrupted(gt_client *client)
{
    gt_progress *progress = &client->progress;
    char what[192], text[sizeof progress->text];
    if (!progress->asked)
        connect_monitor(client);
    listen_to_server(progress);
    memcpy(text, progress->text, sizeof text);
    describe(progress, what, sizeof what);
    gt__progress_end(client);
    return gt__fail(GT_ERR_INTERRUPTED, "interrupted while waiting for %s%s%s", what, *text ? ": " : "", text);
}
