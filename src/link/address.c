/*
 * address.c: the private socket directory and host names. Used by link/memory_socket.c and the ZeroMQ links.
 */
#include "link/address.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static gt_err private_directory(char *path, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct stat info;
    int length;
    if (runtime && runtime[0] == '/' && !stat(runtime, &info) && S_ISDIR(info.st_mode))
        length = snprintf(path, size, "%s/gt", runtime);
    else
        length = snprintf(path, size, "/tmp/gt-%u", (unsigned)geteuid());
    if (length < 0 || (size_t)length >= size)
        return gt__fail(GT_ERR_CONNECTION, "the path of XDG_RUNTIME_DIR is too long for a socket: %s", runtime);
    if (mkdir(path, 0700) && errno != EEXIST)
        return gt__fail(GT_ERR_CONNECTION, "cannot create %s: %s", path, strerror(errno));
    /* lstat: a link that another user left in /tmp is not our directory. */
    if (lstat(path, &info))
        return gt__fail(GT_ERR_CONNECTION, "cannot use %s: %s", path, strerror(errno));
    if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077))
        return gt__fail(GT_ERR_CONNECTION, "%s is not a directory of mode 0700 owned by this user", path);
    return GT_OK;
}

gt_err gt__address_path(int port, const char *suffix, char path[GT_ADDRESS_MAX])
{
    char directory[GT_ADDRESS_MAX - 16]; /* room for /65535.memory */
    GT_TRY(private_directory(directory, sizeof directory));
    snprintf(path, GT_ADDRESS_MAX, "%s/%d.%s", directory, port & 0xffff, suffix);
    return GT_OK;
}

gt_err gt__address_lock(int *lock)
{
    char directory[GT_ADDRESS_MAX - 16];
    GT_TRY(private_directory(directory, sizeof directory));
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return gt__fail(GT_ERR_CONNECTION, "cannot open %s: %s", directory, strerror(errno));
    int rc;
    do
        rc = flock(fd, LOCK_EX);
    while (rc && errno == EINTR);
    if (rc) {
        close(fd);
        return gt__fail(GT_ERR_CONNECTION, "cannot lock %s: %s", directory, strerror(errno));
    }
    *lock = fd;
    return GT_OK;
}

/* Try to connect to the socket at `path`: 0 or an errno. ECONNREFUSED: no server listens. */
static int probe(const char *path, int socket_type)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, socket_type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int error = connect(fd, (struct sockaddr *)&address, sizeof address) ? errno : 0;
    close(fd);
    return error;
}

static bool has_listener(int port, const char *suffix, int socket_type)
{
    char path[GT_ADDRESS_MAX];
    if (gt__address_path(port, suffix, path) != GT_OK)
        return false;
    int error = probe(path, socket_type);
    return error == 0 || error == EAGAIN; /* its queue is full */
}

bool gt__address_has_ipc(int port)
{
    return has_listener(port, "ipc", SOCK_STREAM);
}

bool gt__address_is_held(int port)
{
    return has_listener(port, "ipc", SOCK_STREAM) || has_listener(port, "memory", SOCK_SEQPACKET);
}

gt_err gt__address_clear(const char *path, int socket_type, int port)
{
    int error = probe(path, socket_type);
    if (error == EMFILE || error == ENFILE || error == ENOMEM)
        return gt__fail(GT_ERR_CONNECTION, "cannot create a socket: %s", strerror(error));
    if (error == ENOENT)
        return GT_OK;
    /* EAGAIN: the listener's queue is full, so it exists. EPROTOTYPE: a listener of another type. */
    if (error != ECONNREFUSED)
        return gt__fail(GT_ERR_CONNECTION, "port %d is already in use", port);
    if (unlink(path) && errno != ENOENT)
        return gt__fail(GT_ERR_CONNECTION, "cannot remove the stale socket %s: %s", path, strerror(errno));
    return GT_OK;
}

/* Whether a server holds a lock on this file. */
static bool is_locked(const char *path)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool locked = fd < 0 || flock(fd, LOCK_SH | LOCK_NB);
    if (fd >= 0)
        close(fd);
    return locked;
}

/* Whether the process that made this file, with a suffix of ours, is dead. */
static bool is_stale(const char *path, const char *suffix)
{
    int type = !strcmp(suffix, ".memory") ? SOCK_SEQPACKET : !strcmp(suffix, ".ipc") ? SOCK_STREAM : 0;
    return type ? probe(path, type) == ECONNREFUSED : !strcmp(suffix, ".keys") && !is_locked(path);
}

void gt__address_sweep_port(int port)
{
    static const char *const suffixes[] = {".memory", ".ipc", ".keys"};
    char directory[GT_ADDRESS_MAX - 16], path[GT_ADDRESS_MAX];
    bool usable = private_directory(directory, sizeof directory) == GT_OK;
    int lock = usable ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    bool locked = lock >= 0 && !flock(lock, LOCK_EX | LOCK_NB);
    for (size_t k = 0; locked && k < sizeof suffixes / sizeof *suffixes; k++) {
        snprintf(path, sizeof path, "%s/%d%s", directory, port & 0xffff, suffixes[k]);
        if (is_stale(path, suffixes[k]))
            unlink(path);
    }
    if (lock >= 0)
        close(lock);
}

void gt__address_sweep(void)
{
    char directory[GT_ADDRESS_MAX - 16], path[GT_ADDRESS_MAX + 256];
    DIR *files = private_directory(directory, sizeof directory) == GT_OK ? opendir(directory) : NULL;
    for (const struct dirent *file; files && (file = readdir(files));) {
        const char *suffix = file->d_name + strspn(file->d_name, "0123456789");
        snprintf(path, sizeof path, "%s/%s", directory, file->d_name);
        if (suffix > file->d_name && is_stale(path, suffix))
            unlink(path);
    }
    if (files)
        closedir(files);
}

unsigned gt__address_hide(char path[GT_ADDRESS_MAX])
{
    size_t length = strlen(path);
    length = length < GT_ADDRESS_MAX - 1 ? length : GT_ADDRESS_MAX - 1;
    memmove(path + 1, path, length);
    path[0] = 0;
    return (unsigned)length + 1;
}

/* The port in "20468.memory"; 0: not such a name. */
static int named_port(const char *name)
{
    char *end;
    long port = strtol(name, &end, 10);
    return end > name && !strcmp(end, ".memory") && port > 0 && port < 65536 ? (int)port : 0;
}

static void add_port(int *ports, int most, int *count, int port)
{
    for (int k = 0; k < *count; k++)
        if (ports[k] == port)
            return;
    if (port && *count < most)
        ports[(*count)++] = port;
}

int gt__address_servers(int *ports, int most)
{
    char directory[GT_ADDRESS_MAX - 16], line[512];
    int count = 0;
    if (private_directory(directory, sizeof directory) != GT_OK)
        return 0;
    DIR *files = opendir(directory);
    for (const struct dirent *file; files && (file = readdir(files));)
        add_port(ports, most, &count, named_port(file->d_name));
    if (files)
        closedir(files);
    FILE *sockets = fopen("/proc/net/unix", "re");
    size_t length = strlen(directory);
    while (sockets && fgets(line, sizeof line, sockets)) {
        line[strcspn(line, "\n")] = 0;
        const char *name = strchr(line, '@');
        if (name && !strncmp(name + 1, directory, length) && name[1 + length] == '/')
            add_port(ports, most, &count, named_port(name + 1 + length + 1));
    }
    if (sockets)
        fclose(sockets);
    return count;
}

void gt__address_own(gt_address_file *file, const char *path)
{
    struct stat info;
    chmod(path, 0600); /* the directory is private, too */
    snprintf(file->path, sizeof file->path, "%s", path);
    file->inode = lstat(path, &info) ? 0 : info.st_ino;
}

void gt__address_remove(gt_address_file *file)
{
    struct stat info;
    int lock;
    if (!file->inode || gt__address_lock(&lock) != GT_OK)
        return;
    if (!lstat(file->path, &info) && info.st_ino == file->inode)
        unlink(file->path);
    close(lock);
    file->inode = 0;
}

int gt__address_candidate(int attempt)
{
    /* Processes start at different ports, so they seldom collide. */
    return 20000 + (getpid() * 7 + attempt) % GT_ADDRESS_ATTEMPTS;
}

/* A host as it is written in an address, without the brackets of [::1]. */
static void copy_host(const char *host, char *name, size_t size)
{
    size_t length = strlen(host);
    bool brackets = length > 2 && host[0] == '[' && host[length - 1] == ']';
    snprintf(name, size, "%.*s", (int)(brackets ? length - 2 : length), brackets ? host + 1 : host);
}

/* A name may begin with "127." and be anything: only a number is one of 127.0.0.0/8. */
bool gt__address_is_loopback(const char *host)
{
    char name[256];
    struct in_addr four;
    struct in6_addr six;
    copy_host(host, name, sizeof name);
    if (inet_pton(AF_INET, name, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, name, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
    return strcasecmp(name, "localhost") == 0;
}

bool gt__address_is_any(const char *host)
{
    static const char *const any[] = {"", "*", "0.0.0.0", "::", "[::]"};
    for (size_t k = 0; k < sizeof any / sizeof *any; k++)
        if (!strcmp(host, any[k]))
            return true;
    return false;
}

bool gt__address_is_local(const char *host)
{
    if (!host || gt__address_is_loopback(host) || gt__address_is_any(host))
        return true;
    char self[256];
    return !gethostname(self, sizeof self) && !strncasecmp(host, self, sizeof self);
}

gt_err gt__address_resolve(const char *host, char *numeric, size_t size)
{
    if (!host || !*host || !strcmp(host, "*")) {
        snprintf(numeric, size, "*");
        return GT_OK;
    }
    char name[256];
    copy_host(host, name, sizeof name);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list;
    int rc = getaddrinfo(name, NULL, &hints, &list);
    if (rc)
        return gt__fail(GT_ERR_CONNECTION, "cannot find the host '%s': %s", host, gai_strerror(rc));
    const struct addrinfo *best = list;
    for (const struct addrinfo *at = list; at; at = at->ai_next) {
        if (at->ai_family == AF_INET) {
            best = at;
            break;
        }
    }
    char text[INET6_ADDRSTRLEN] = "";
    if (best->ai_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)best->ai_addr)->sin_addr, text, sizeof text);
    else
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)best->ai_addr)->sin6_addr, text, sizeof text);
    snprintf(numeric, size, best->ai_family == AF_INET ? "%s" : "[%s]", text);
    freeaddrinfo(list);
    return GT_OK;
}
