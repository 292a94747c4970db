/* remote.c: see remote.h. Used by up.c. */
#include "cli/up/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/array.h"
#include "link/link.h"

extern char **environ;

enum { TO, FROM, ERRORS, STREAMS, PIECE = 4096, MOST_OUTPUT = 16 << 20 };

/* A running process. */
typedef struct child {
    pid_t pid;
    int fd[STREAMS]; /* our ends; -1: closed */
    size_t written;
    char *text[STREAMS];
    size_t filled[STREAMS], capacity[STREAMS];
} child;

/* ssh asks for nothing: a host that wants a password is an error. */
static void make_arguments(const gt_cluster *cluster, const gt_up_host *host, gt_texts *arguments)
{
    static const char *const always[] = {"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"};
#define ADD(text) *GT_PUSH(arguments->items, arguments->count, arguments->capacity) = (text)
    if (!host->local) {
        ADD(cluster->ssh);
        for (size_t k = 0; k < cluster->ssh_options.count; k++) /* the first of two equal options counts */
            ADD(cluster->ssh_options.items[k]);
        for (size_t k = 0; k < sizeof always / sizeof always[0]; k++)
            ADD(always[k]);
        ADD("--");
        ADD(host->name);
    }
    ADD("sh");
    ADD("-s");
    ADD(NULL);
#undef ADD
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static gt_err spawn(const gt_cluster *cluster, const gt_up_host *host, child *made)
{
    int pipes[STREAMS][2];
    for (int k = 0; k < STREAMS; k++)
        made->fd[k] = pipes[k][0] = pipes[k][1] = -1;
    for (int k = 0; k < STREAMS; k++)
        if (pipe2(pipes[k], O_CLOEXEC)) {
            for (int other = 0; other < k; other++) {
                close(pipes[other][0]);
                close(pipes[other][1]);
            }
            return gt__fail(GT_ERR_INTERNAL, "cannot make a pipe: %s", strerror(errno));
        }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[TO][0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipes[FROM][1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipes[ERRORS][1], STDERR_FILENO);
    gt_texts arguments = {0};
    make_arguments(cluster, host, &arguments);
    posix_spawnattr_t attributes; /* servers and workers of this host must not inherit that SIGPIPE is ignored */
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    int error = posix_spawnp(&made->pid, arguments.items[0], &actions, &attributes, (char *const *)arguments.items,
                             environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    for (int k = 0; k < STREAMS; k++) {
        int ours = k == TO;
        close(pipes[k][!ours]);
        made->fd[k] = pipes[k][ours];
        fcntl(made->fd[k], F_SETFL, O_NONBLOCK);
    }
    gt_err err =
        error ? gt__fail(GT_ERR_VALUE, "cannot start %s: %s", arguments.items[0], strerror(error)) : GT_OK;
    free(arguments.items);
    for (int k = 0; error && k < STREAMS; k++)
        close_end(&made->fd[k]);
    return err;
}

static void feed(child *c, const gt_remote *remote)
{
    ssize_t bytes = write(c->fd[TO], remote->script + c->written, remote->length - c->written);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (bytes > 0)
        c->written += (size_t)bytes;
    if (bytes <= 0 || c->written == remote->length)
        close_end(&c->fd[TO]);
}

static void drain(child *c, int k)
{
    while (c->capacity[k] < c->filled[k] + PIECE + 1)
        gt__array_room((void **)&c->text[k], c->capacity[k], &c->capacity[k], 1);
    ssize_t bytes = read(c->fd[k], c->text[k] + c->filled[k], PIECE);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (bytes > 0)
        c->filled[k] += (size_t)bytes;
    if (bytes <= 0 || c->filled[k] > MOST_OUTPUT)
        close_end(&c->fd[k]);
}

/* Wait for one of the streams, and serve those that are ready. False: all are closed, or the time is over. */
static bool serve(child *children, const gt_remote *remotes, size_t count, uint64_t deadline)
{
    struct pollfd *polled = gt__zeroed(count * STREAMS, sizeof *polled);
    bool open = false;
    for (size_t k = 0; k < count * STREAMS; k++) {
        polled[k].fd = children[k / STREAMS].fd[k % STREAMS]; /* poll ignores -1 */
        polled[k].events = k % STREAMS == TO ? POLLOUT : POLLIN;
        open = open || polled[k].fd >= 0;
    }
    int left = gt__remaining_ms(deadline);
    if (open && left > 0 && poll(polled, count * STREAMS, left) > 0)
        for (size_t k = 0; k < count * STREAMS; k++)
            if (polled[k].fd >= 0 && polled[k].revents) {
                if (k % STREAMS == TO)
                    feed(&children[k / STREAMS], &remotes[k / STREAMS]);
                else
                    drain(&children[k / STREAMS], (int)(k % STREAMS));
            }
    free(polled);
    return open && left > 0;
}

static char *text_of(child *c, int k)
{
    if (!c->text[k])
        return gt__zeroed(1, 1);
    c->text[k][c->filled[k]] = 0;
    return c->text[k];
}

static void finish(child *c, gt_remote *remote, bool late)
{
    int status = 0;
    if (late)
        kill(c->pid, SIGKILL);
    for (int k = 0; k < STREAMS; k++)
        close_end(&c->fd[k]);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        ;
    remote->late = late;
    remote->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    remote->output = text_of(c, FROM);
    remote->errors = text_of(c, ERRORS);
}

gt_err gt__remote_run(const gt_cluster *cluster, gt_remote *remotes, size_t count, int timeout_ms)
{
    child *children = gt__zeroed(count ? count : 1, sizeof *children);
    uint64_t deadline = gt__deadline_ns(timeout_ms);
    gt_err err = GT_OK;
    size_t started = 0;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before; /* an ssh that has ended reads no script */
    sigaction(SIGPIPE, &ignore, &before);
    for (; started < count && err == GT_OK; started += err == GT_OK)
        err = spawn(cluster, remotes[started].host, &children[started]);
    while (serve(children, remotes, started, deadline))
        ;
    for (size_t k = 0; k < started; k++) {
        bool open = children[k].fd[FROM] >= 0 || children[k].fd[ERRORS] >= 0;
        finish(&children[k], &remotes[k], open);
    }
    sigaction(SIGPIPE, &before, NULL);
    free(children);
    return err;
}

void gt__remote_free(gt_remote *remote)
{
    if (remote->script)
        explicit_bzero(remote->script, remote->length);
    free(remote->script);
    free(remote->output);
    free(remote->errors);
    *remote = (gt_remote){0};
}
