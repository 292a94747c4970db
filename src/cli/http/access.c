/* cli/http/access.c: who may ask the dashboard. See http.h. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/http/http.h"
#include "link/address.h"

/* ---- the token ---------------------------------------------------------------------------------------------- */

gt_err gt__token_read(const char *path, char token[GT_TOKEN_MOST + 1])
{
    char text[GT_TOKEN_MOST + 3] = "";
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status)) {
        gt_err err = gt__fail(GT_ERR_VALUE, "the token file %s: %s", path, strerror(errno));
        if (file >= 0)
            close(file);
        return err;
    }
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    size_t bytes = length > 0 ? strcspn(text, "\r\n") : 0;
    gt_err err = GT_OK;
    if (status.st_mode & 077)
        err = gt__fail(GT_ERR_VALUE, "the token file %s can be read by others: chmod 600", path);
    else if (bytes < GT_TOKEN_LEAST || bytes > GT_TOKEN_MOST)
        err = gt__fail(GT_ERR_VALUE, "the token file %s must have one line of %d to %d characters", path,
                       GT_TOKEN_LEAST, GT_TOKEN_MOST);
    for (size_t k = 0; err == GT_OK && k < bytes; k++)
        if (!isgraph((unsigned char)text[k]))
            err =
                gt__fail(GT_ERR_VALUE, "the token in %s may only have printable characters, without spaces", path);
    memset(token, 0, GT_TOKEN_MOST + 1);
    if (err == GT_OK)
        memcpy(token, text, bytes);
    explicit_bzero(text, sizeof text);
    return err;
}

bool gt__access_token(const gt_access *access, const char *authorization)
{
    static const char scheme[] = "Bearer ";
    char given[GT_TOKEN_MOST + 1] = "";
    unsigned differences = 0;
    if (!*access->token || !authorization || strncasecmp(authorization, scheme, sizeof scheme - 1))
        return false;
    authorization += sizeof scheme - 1;
    size_t length = strlen(authorization);
    if (length > GT_TOKEN_MOST)
        return false;
    memcpy(given, authorization, length);
    for (size_t k = 0; k <= GT_TOKEN_MOST; k++) /* all of it, also behind the first difference */
        differences |= (unsigned)(given[k] ^ access->token[k]);
    explicit_bzero(given, sizeof given);
    return !differences;
}

/* ---- the name that the client used -------------------------------------------------------------------------- */

/* An address cannot be made to point elsewhere, as a name can. */
static bool is_address(const char *name)
{
    struct in6_addr address;
    return inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1;
}

bool gt__access_host(const gt_access *access, const char *host)
{
    char name[256], self[256] = "";
    const char *colon = host ? strrchr(host, ':') : NULL, *bracket = host ? strchr(host, ']') : NULL;
    if (!host || !*host || strlen(host) >= sizeof name)
        return false;
    if (bracket) { /* [::1]:8080 */
        if (*host != '[' || (bracket[1] && bracket[1] != ':'))
            return false;
        colon = bracket[1] ? bracket + 1 : NULL;
        memcpy(name, host + 1, (size_t)(bracket - host) - 1);
        name[bracket - host - 1] = 0;
    } else {
        size_t length = colon ? (size_t)(colon - host) : strlen(host);
        memcpy(name, host, length);
        name[length] = 0;
    }
    if (colon && (!colon[1] || strspn(colon + 1, "0123456789") != strlen(colon + 1)))
        return false;
    if (gt__address_is_loopback(name))
        return true;
    if (!strcasecmp(name, access->host))
        return true;
    if (access->loopback)
        return false;
    return is_address(name) || (!gethostname(self, sizeof self - 1) && !strcasecmp(name, self));
}

/* ---- the process at the other end --------------------------------------------------------------------------- */

/* Ports and addresses of the peer's own socket: what is remote to us is its source. */
static bool name_socket(int connection, struct inet_diag_sockid *id, uint8_t *family)
{
    struct sockaddr_storage peer, own;
    socklen_t peer_size = sizeof peer, own_size = sizeof own;
    if (getpeername(connection, (struct sockaddr *)&peer, &peer_size) ||
        getsockname(connection, (struct sockaddr *)&own, &own_size) || peer.ss_family != own.ss_family)
        return false;
    *family = (uint8_t)peer.ss_family;
    id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    if (peer.ss_family == AF_INET) {
        const struct sockaddr_in *from = (struct sockaddr_in *)&peer, *to = (struct sockaddr_in *)&own;
        id->idiag_sport = from->sin_port;
        id->idiag_dport = to->sin_port;
        id->idiag_src[0] = from->sin_addr.s_addr;
        id->idiag_dst[0] = to->sin_addr.s_addr;
        return ntohl(from->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *from = (struct sockaddr_in6 *)&peer, *to = (struct sockaddr_in6 *)&own;
    if (peer.ss_family != AF_INET6)
        return false;
    id->idiag_sport = from->sin6_port;
    id->idiag_dport = to->sin6_port;
    memcpy(id->idiag_src, &from->sin6_addr, sizeof from->sin6_addr);
    memcpy(id->idiag_dst, &to->sin6_addr, sizeof to->sin6_addr);
    return IN6_IS_ADDR_LOOPBACK(&from->sin6_addr);
}

bool gt__access_same_user(int connection)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 question;
    } ask = {.head = {.nlmsg_len = sizeof ask, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST}};
    union {
        struct nlmsghdr head;
        char bytes[4096];
    } answer;
    ask.question.sdiag_protocol = IPPROTO_TCP;
    ask.question.idiag_states = ~0u;
    if (!name_socket(connection, &ask.question.id, &ask.question.sdiag_family))
        return false;
    int kernel = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    ssize_t length = -1;
    if (kernel >= 0 && send(kernel, &ask, sizeof ask, 0) == (ssize_t)sizeof ask)
        length = recv(kernel, &answer, sizeof answer, 0);
    if (kernel >= 0)
        close(kernel);
    if (length < (ssize_t)NLMSG_LENGTH(sizeof(struct inet_diag_msg)) ||
        answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return false;
    const struct inet_diag_msg *found = NLMSG_DATA(&answer.head);
    return found->idiag_uid == geteuid();
}
