/* peer.c: who a peer is, for the server's lines on standard error. See peer.h. */
#include "dispatcher/peer.h"

#include <stdarg.h>
#include <stdio.h>

#include "dispatcher/session.h"
#include "dispatcher/workers.h"

char *gt__peer_who(const gt_peer *peer, char *text, size_t size)
{
    const gt_link *link = peer->link;
    const char *user = *link->user ? link->user : "unknown user", *host = *link->host ? link->host : "this host";
    if (peer->session)
        snprintf(text, size, "client %llu (%s, %s, %s)", (unsigned long long)peer->session->number,
                 *peer->session->name ? peer->session->name : "unknown program", user, host);
    else if (peer->worker)
        snprintf(text, size, "worker %s (%s, %s, %s)", peer->worker->name, peer->worker->engine, user, host);
    else
        snprintf(text, size, "%s (%s, %s)", peer->monitor ? "monitor" : "connection", user, host);
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 127)
            *at = '?';
    return text;
}

void gt__peer_log(const gt_peer *peer, gt_log_topic topic, const char *format, ...)
{
    char who[288], what[512];
    if (topic != GT_LOG_WARNING && !gt__log_on(topic))
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    gt__peer_who(peer, who, sizeof who);
    if (topic == GT_LOG_WARNING)
        gt__log_warning("%s %s", who, what);
    else
        gt__log(topic, "%s %s", who, what);
}
