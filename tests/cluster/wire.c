/*
 * wire.c: the network between hosts that are network namespaces of one machine. bed.py starts it.
 *
 *     wire NAMESPACE ADDRESS [NAMESPACE ADDRESS ...]
 *
 * In each namespace it makes an interface, gt0, with that IPv4 address, and carries packets between them. Orders come as lines on
 * standard input, and each is answered by "ok" when it is in force. A and B are numbers of hosts, from 0 on, or * for all; an order is
 * for both directions.
 *
 *     delay A B MILLISECONDS    packets arrive so much later
 *     rate A B BYTES            at most so many a second; 0: no limit
 *     loss A B FRACTION         of the packets, by a generator that is always seeded alike
 *     cut A B                   none arrives, and neither end is told
 *     reset A B                 each packet of tcp is answered by a reset, as firewalls do
 *     heal A B                  none of all that
 *
 * It ends with its standard input. Then the interfaces are gone, and the names of the namespaces, too, in case whoever made them was killed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_HOSTS = 64, MTU = 9000, PREFIX = 16, BURST = 64, MOST_QUEUED = 8 << 20 };

typedef struct packet {
    struct packet *next;
    int64_t due_ns;
    size_t bytes;
    uint8_t data[];
} packet;

/* From one host to another. */
typedef struct way {
    int64_t delay_ns, busy_until_ns;
    double rate, loss;
    bool cut, reset;
    packet *first, **last;
    size_t queued; /* bytes */
} way;

static int host_count, tun[MOST_HOSTS];
static uint32_t address[MOST_HOSTS];
static way ways[MOST_HOSTS][MOST_HOSTS];

static void die(const char *what)
{
    fprintf(stderr, "wire: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* ---- interfaces ---------------------------------------------------------------------------------------------------- */

static void set_address(const char *text)
{
    struct ifreq r = {.ifr_name = "gt0"};
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&r.ifr_addr;
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    in->sin_family = AF_INET;
    if (s < 0 || inet_pton(AF_INET, text, &in->sin_addr) != 1 || ioctl(s, SIOCSIFADDR, &r) < 0)
        die(text);
    in->sin_addr.s_addr = htonl(0xffffffffu << (32 - PREFIX));
    if (ioctl(s, SIOCSIFNETMASK, &r) < 0)
        die("the netmask");
    r.ifr_mtu = MTU;
    if (ioctl(s, SIOCSIFMTU, &r) < 0)
        die("the mtu");
    for (int k = 0; k < 2; k++) {
        strcpy(r.ifr_name, k ? "lo" : "gt0");
        if (ioctl(s, SIOCGIFFLAGS, &r) < 0)
            die("the flags");
        r.ifr_flags |= IFF_UP | IFF_RUNNING;
        if (ioctl(s, SIOCSIFFLAGS, &r) < 0)
            die("the flags");
    }
    close(s);
}

static void remove_name(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", name);
    umount2(path, MNT_DETACH);
    unlink(path);
}

static void add_host(const char *name, const char *text)
{
    char path[256];
    struct ifreq r = {.ifr_name = "gt0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    snprintf(path, sizeof path, "/run/netns/%s", name);
    int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) < 0)
        die(path);
    close(space);
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &r) < 0)
        die("/dev/net/tun");
    set_address(text);
    struct in_addr in;
    inet_pton(AF_INET, text, &in);
    address[host_count] = in.s_addr;
    tun[host_count++] = fd;
}

/* ---- packets ------------------------------------------------------------------------------------------------------- */

static double chance(void)
{
    static uint64_t state = 0x9E3779B97F4A7C15u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}

static uint32_t sum_of(const void *data, size_t bytes, uint32_t sum)
{
    const uint8_t *at = data;
    for (size_t k = 0; k + 1 < bytes; k += 2)
        sum += (uint32_t)at[k] << 8 | at[k + 1];
    return bytes % 2 ? sum + ((uint32_t)at[bytes - 1] << 8) : sum;
}

static uint16_t checksum(uint32_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return htons((uint16_t)~sum);
}

/* Answer a packet of tcp by a reset that its sender believes. */
static void send_reset(int to, const uint8_t *data, size_t bytes)
{
    struct iphdr ip;
    struct tcphdr tcp;
    memcpy(&ip, data, sizeof ip);
    size_t head = ip.ihl * 4u;
    if (ip.protocol != IPPROTO_TCP || bytes < head + sizeof tcp)
        return;
    memcpy(&tcp, data + head, sizeof tcp);
    if (tcp.rst)
        return;
    size_t payload = bytes - head - tcp.doff * 4u + tcp.syn + tcp.fin;
    struct {
        struct iphdr ip;
        struct tcphdr tcp;
    } answer = {.ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP},
                .tcp = {.doff = 5, .rst = 1, .ack = 1}};
    answer.ip.tot_len = htons(sizeof answer);
    answer.ip.saddr = ip.daddr;
    answer.ip.daddr = ip.saddr;
    answer.ip.check = checksum(sum_of(&answer.ip, sizeof answer.ip, 0));
    answer.tcp.source = tcp.dest;
    answer.tcp.dest = tcp.source;
    answer.tcp.seq = tcp.ack ? tcp.ack_seq : 0;
    answer.tcp.ack_seq = htonl(ntohl(tcp.seq) + (uint32_t)payload);
    uint32_t pseudo = sum_of(&answer.ip.saddr, 8, IPPROTO_TCP + sizeof answer.tcp);
    answer.tcp.check = checksum(sum_of(&answer.tcp, sizeof answer.tcp, pseudo));
    ssize_t written = write(tun[to], &answer, sizeof answer);
    (void)written;
}

static void queue(way *w, const uint8_t *data, size_t bytes, int64_t now)
{
    packet *p = w->queued > MOST_QUEUED ? NULL : malloc(sizeof *p + bytes);
    if (!p)
        return; /* as a full queue does */
    int64_t begin = w->busy_until_ns > now ? w->busy_until_ns : now;
    w->busy_until_ns = begin + (w->rate > 0 ? (int64_t)((double)bytes / w->rate * 1e9) : 0);
    *p = (packet){.due_ns = w->busy_until_ns + w->delay_ns, .bytes = bytes};
    memcpy(p->data, data, bytes);
    *w->last = p;
    w->last = &p->next;
    w->queued += bytes;
}

static void carry(int from, const uint8_t *data, size_t bytes, int64_t now)
{
    struct iphdr ip;
    int to = 0;
    if (bytes < sizeof ip || data[0] >> 4 != 4)
        return;
    memcpy(&ip, data, sizeof ip);
    while (to < host_count && address[to] != ip.daddr)
        to++;
    if (to == host_count)
        return;
    way *w = &ways[from][to];
    if (w->reset)
        send_reset(from, data, bytes);
    if (w->cut || w->reset || (w->loss > 0 && chance() < w->loss))
        return;
    if (w->first || w->delay_ns || w->rate > 0)
        queue(w, data, bytes, now);
    else if (write(tun[to], data, bytes) < 0 && errno != EIO && errno != ENOBUFS && errno != EAGAIN)
        die("a packet");
}

/* What is due goes; returns when the next one is, or -1. */
static int64_t deliver(int64_t now)
{
    int64_t next = -1;
    for (int from = 0; from < host_count; from++)
        for (int to = 0; to < host_count; to++) {
            way *w = &ways[from][to];
            while (w->first && (w->first->due_ns <= now || w->cut)) {
                packet *p = w->first;
                ssize_t written = w->cut ? 0 : write(tun[to], p->data, p->bytes);
                (void)written;
                w->queued -= p->bytes;
                if (!(w->first = p->next))
                    w->last = &w->first;
                free(p);
            }
            if (w->first && (next < 0 || w->first->due_ns < next))
                next = w->first->due_ns;
        }
    return next;
}

/* ---- orders -------------------------------------------------------------------------------------------------------- */

static void change(way *w, const char *verb, double value)
{
    if (!strcmp(verb, "delay"))
        w->delay_ns = (int64_t)(value * 1e6);
    else if (!strcmp(verb, "rate"))
        w->rate = value;
    else if (!strcmp(verb, "loss"))
        w->loss = value;
    else if (!strcmp(verb, "cut"))
        w->cut = true;
    else if (!strcmp(verb, "reset"))
        w->reset = true;
    else if (!strcmp(verb, "heal")) {
        w->delay_ns = 0;
        w->rate = w->loss = 0;
        w->cut = w->reset = false;
    } else {
        fprintf(stderr, "wire: unknown order %s\n", verb);
        exit(1);
    }
}

static bool names(const char *text, int host)
{
    return !strcmp(text, "*") || atoi(text) == host;
}

static void obey(const char *line)
{
    char verb[16], a[16], b[16];
    double value = 0;
    if (sscanf(line, "%15s %15s %15s %lf", verb, a, b, &value) < 3) {
        fprintf(stderr, "wire: an order has a verb and two hosts: %s\n", line);
        exit(1);
    }
    for (int from = 0; from < host_count; from++)
        for (int to = 0; to < host_count; to++)
            if ((names(a, from) && names(b, to)) || (names(a, to) && names(b, from)))
                change(&ways[from][to], verb, value);
    puts("ok");
    fflush(stdout);
}

/* False: standard input has ended. */
static bool read_orders(void)
{
    static char text[4096];
    static size_t used;
    ssize_t got = read(STDIN_FILENO, text + used, sizeof text - 1 - used);
    if (got <= 0)
        return false;
    used += (size_t)got;
    text[used] = 0;
    for (char *end; (end = strchr(text, '\n'));) {
        *end = 0;
        obey(text);
        used -= (size_t)(end + 1 - text);
        memmove(text, end + 1, used + 1);
    }
    return true;
}

int main(int argc, char **argv)
{
    static uint8_t data[1 << 16];
    struct pollfd fds[MOST_HOSTS + 1];
    if (argc < 3 || argc % 2 == 0 || argc / 2 > MOST_HOSTS) {
        fprintf(stderr, "usage: wire NAMESPACE ADDRESS ...\n");
        return 2;
    }
    for (int k = 1; k + 1 < argc; k += 2)
        add_host(argv[k], argv[k + 1]);
    for (int from = 0; from < host_count; from++)
        for (int to = 0; to < host_count; to++)
            ways[from][to].last = &ways[from][to].first;
    for (int k = 0; k < host_count; k++)
        fds[k] = (struct pollfd){.fd = tun[k], .events = POLLIN};
    fds[host_count] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    puts("ok");
    fflush(stdout);
    for (;;) {
        int64_t next = deliver(now_ns()), left = next < 0 ? 0 : next - now_ns();
        struct timespec wait = {.tv_sec = left > 0 ? left / 1000000000 : 0,
                                .tv_nsec = left > 0 ? left % 1000000000 : 0};
        if (ppoll(fds, (nfds_t)host_count + 1, next < 0 ? NULL : &wait, NULL) < 0 && errno != EINTR)
            die("poll");
        if (fds[host_count].revents && !read_orders())
            break;
        for (int k = 0; k < host_count; k++) {
            ssize_t bytes;
            for (int n = 0; n < BURST && fds[k].revents && (bytes = read(tun[k], data, sizeof data)) > 0; n++)
                carry(k, data, (size_t)bytes, now_ns());
        }
    }
    for (int k = 1; k + 1 < argc; k += 2) /* as `ip netns delete` does it */
        remove_name(argv[k]);
    return 0;
}
