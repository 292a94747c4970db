/*
 * cli/http/http.c: the dashboard's http server: one thread of libmicrohttpd. See http.h.
 *
 *   GET  /, /page.js, ...       the page: no data, for everyone who can connect
 *   GET  /healthz               200 while the dispatcher's statistics come
 *   GET  /metrics, /api/state,  for processes of this user on this host, and for holders of the token
 *        /api/families, /api/clients/N, /api/timeline?after=N
 *   GET  /api/token             whether the token is right
 *   POST /api/clients/N/disconnect, /api/workers/N/drain, /api/workers/N/resume   for holders of the token
 *
 * Requests, connections and their memory are bounded. A response is a text that is complete, and shared: a slow reader holds
 * one reference. The token is in a header, which a page of another site cannot set, so there is nothing to forge; the Host header
 * must name this server, so that such a page cannot read anything either.
 */
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cli/array.h"
#include "cli/dashboard.h"
#include "cli/http/http.h"
#include "cli/http/page_texts.h"
#include "dispatcher/orders.h"
#include "link/address.h"

enum {
    MOST_CONNECTIONS = 64,
    MOST_PER_ADDRESS = 48,
    CONNECTION_BYTES = 32 * 1024, /* for a request's headers, and to send from */
    IDLE_S = 15,                  /* of a connection on which nothing moves */
    MOST_BODY = 4096,             /* bytes that come with a POST; they are not used */
    HEALTHY_S = 5,                /* age of the last statistics */
};

struct gt_dashboard {
    gt_dispatcher *dispatcher;
    gt_collector *collector;
    gt_inspector *inspector;
    struct MHD_Daemon *daemon;
    gt_access access;
    atomic_bool
        ready; /* the collector and the inspector run; its thread listens before that, so that a port in use is known */
};

/* A connection, for as long as it lives. */
enum { SAME_USER = 1, STRANGER = 2 };
static char contexts[3];

/* A request, until its answer. */
typedef struct http_request {
    size_t body; /* bytes so far */
} http_request;

/* ---- responses ---------------------------------------------------------------------------------------------- */

/* Scripts and styles of this server only, nothing inline: a name of a client can never become code. */
static const char *const headers[][2] = {
    {"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                                "img-src 'self'; base-uri 'none'; "
                                "form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cache-Control", "no-store"},
};

/* Takes `response`. */
static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
                              struct MHD_Response *response)
{
    if (!response)
        return MHD_NO;
    for (size_t k = 0; k < sizeof headers / sizeof headers[0]; k++)
        MHD_add_response_header(response, headers[k][0], headers[k][1]);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD, POST");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

/* A text that lives for ever. */
static enum MHD_Result answer_static(struct MHD_Connection *connection, unsigned status, const char *type,
                                     const char *text, size_t bytes)
{
    return answer(connection, status, type,
                  MHD_create_response_from_buffer(bytes, (void *)text, MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result answer_line(struct MHD_Connection *connection, unsigned status, const char *text)
{
    return answer_static(connection, status, "text/plain; charset=utf-8", text, strlen(text));
}

/* Takes the reader's part of a shared text; NULL: there is none yet. */
static enum MHD_Result answer_shared(struct MHD_Connection *connection, const char *type, char *text, size_t bytes)
{
    if (!text)
        return answer_line(connection, MHD_HTTP_ACCEPTED, "it comes soon: ask again\n");
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(bytes, text, gt__shared_text_release);
    if (!response)
        gt__shared_text_release(text);
    return answer(connection, MHD_HTTP_OK, type, response);
}

static enum MHD_Result answer_view(gt_dashboard *dashboard, struct MHD_Connection *connection, gt_http_view view)
{
    size_t bytes;
    char *text = gt__collector_text(dashboard->collector, view, &bytes);
    if (!text) /* 503, for Prometheus */
        return answer_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "no statistics yet\n");
    return answer_shared(connection,
                         view == GT_VIEW_METRICS ? "text/plain; version=0.0.4; charset=utf-8" : "application/json",
                         text, bytes);
}

static enum MHD_Result answer_client(gt_dashboard *dashboard, struct MHD_Connection *connection, uint64_t number)
{
    size_t bytes;
    char *text = gt__inspector_text(dashboard->inspector, number, &bytes);
    return answer_shared(connection, "application/json", text, bytes);
}

/* The digits at the beginning of a text; 0: it has none, or too many for a number of ours. */
static size_t read_number(const char *text, uint64_t *number)
{
    enum { MOST_DIGITS = 15 };
    size_t digits = strspn(text, "0123456789");
    *number = digits <= MOST_DIGITS ? strtoull(text, NULL, 10) : 0;
    return digits <= MOST_DIGITS ? digits : 0;
}

static enum MHD_Result answer_samples(gt_dashboard *dashboard, struct MHD_Connection *connection)
{
    const char *after = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "after");
    uint64_t number = 0;
    size_t bytes = 0, digits = after ? read_number(after, &number) : 0;
    if (after && (!digits || after[digits]))
        return answer_line(connection, MHD_HTTP_BAD_REQUEST, "after: not the number of a sample\n");
    char *text = gt__collector_samples(dashboard->collector, number, &bytes);
    if (!text)
        return MHD_NO;
    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_MUST_FREE);
    if (!response)
        free(text);
    return answer(connection, MHD_HTTP_OK, "application/json", response);
}

static enum MHD_Result answer_health(gt_dashboard *dashboard, struct MHD_Connection *connection)
{
    if (gt__collector_age(dashboard->collector) < HEALTHY_S)
        return answer_line(connection, MHD_HTTP_OK, "ok\n");
    return answer_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "the dispatcher does not answer\n");
}

/* ---- requests ----------------------------------------------------------------------------------------------- */

typedef enum right { MAY_NOTHING, MAY_VIEW, MAY_ADMINISTER } right;

static right right_of(const gt_dashboard *dashboard, struct MHD_Connection *connection)
{
    const char *authorization =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (gt__access_token(&dashboard->access, authorization))
        return MAY_ADMINISTER;
    /* A wrong token is an error, not a visitor without one. */
    return !authorization && info && info->socket_context == &contexts[SAME_USER] ? MAY_VIEW : MAY_NOTHING;
}

static enum MHD_Result refuse(const gt_dashboard *dashboard, struct MHD_Connection *connection, bool orders)
{
    if (*dashboard->access.token && MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization"))
        return answer_line(connection, MHD_HTTP_UNAUTHORIZED,
                           "wrong token: it is the line in the server's --http-token-file\n");
    if (*dashboard->access.token)
        return answer_line(
            connection, MHD_HTTP_UNAUTHORIZED,
            orders ? "this needs the token (Authorization: Bearer TOKEN)\n"
                   : "this needs the token (Authorization: Bearer TOKEN), or a process of the server's "
                     "own user on its host\n");
    return answer_line(connection, MHD_HTTP_FORBIDDEN,
                       orders ? "the server was started without --http-token-file: it has no administrator\n"
                              : "only processes of the server's own user are served (--http-token-file admits "
                                "others)\n");
}

/* The number in "/api/clients/12/disconnect", between what is before and after it. */
static bool find_number(const char *path, const char *before, const char *after, uint64_t *number)
{
    size_t length = strlen(before);
    if (strncmp(path, before, length))
        return false;
    size_t digits = read_number(path + length, number);
    return digits && !strcmp(path + length + digits, after);
}

typedef enum question { VIEW, SAMPLES, CLIENT, TOKEN, NOTHING } question;

/* What is asked for: for VIEW the gt_http_view in *number, for CLIENT its number. */
static question find_question(const char *path, uint64_t *number)
{
    static const char *const views[GT_VIEW_COUNT] = {
        [GT_VIEW_STATE] = "/api/state", [GT_VIEW_METRICS] = "/metrics", [GT_VIEW_FAMILIES] = "/api/families"};
    for (int view = 0; view < GT_VIEW_COUNT; view++)
        if (!strcmp(path, views[view])) {
            *number = (uint64_t)view;
            return VIEW;
        }
    if (find_number(path, "/api/clients/", "", number) && *number) /* clients are numbered from 1 */
        return CLIENT;
    return !strcmp(path, "/api/timeline") ? SAMPLES : !strcmp(path, "/api/token") ? TOKEN : NOTHING;
}

static enum MHD_Result serve_get(gt_dashboard *dashboard, struct MHD_Connection *connection, const char *path)
{
    for (const gt_page_file *file = gt__page_files; file->path; file++)
        if (!strcmp(path, file->path))
            return answer_static(connection, MHD_HTTP_OK, file->type, file->text, file->bytes);
    if (!strcmp(path, "/healthz"))
        return answer_health(dashboard, connection);
    uint64_t number = 0;
    question asked = find_question(path, &number);
    if (asked == NOTHING)
        return answer_line(connection, MHD_HTTP_NOT_FOUND, "there is no such page\n");
    if (right_of(dashboard, connection) < (asked == TOKEN ? MAY_ADMINISTER : MAY_VIEW))
        return refuse(dashboard, connection, asked == TOKEN);
    switch (asked) {
    case SAMPLES:
        return answer_samples(dashboard, connection);
    case CLIENT:
        return answer_client(dashboard, connection, number);
    case VIEW:
        return answer_view(dashboard, connection, (gt_http_view)number);
    default:
        return answer_line(connection, MHD_HTTP_OK, "ok\n");
    }
}

/* "/api/clients/12/disconnect": an order. */
typedef struct order_path {
    const char *before, *after;
    gt_order_kind order;
    const char *list, *key; /* where the number must be in the statistics */
} order_path;

static const order_path order_paths[] = {
    {.before = "/api/clients/",
     .after = "/disconnect",
     .order = GT_ORDER_DISCONNECT,
     .list = "clients",
     .key = "number"},
    {.before = "/api/workers/", .after = "/drain", .order = GT_ORDER_DRAIN, .list = "workers", .key = "index"},
    {.before = "/api/workers/", .after = "/resume", .order = GT_ORDER_RESUME, .list = "workers", .key = "index"},
};

static const order_path *find_order(const char *path, uint64_t *number)
{
    for (size_t k = 0; k < sizeof order_paths / sizeof order_paths[0]; k++)
        if (find_number(path, order_paths[k].before, order_paths[k].after, number))
            return &order_paths[k];
    return NULL;
}

static enum MHD_Result serve_post(gt_dashboard *dashboard, struct MHD_Connection *connection, const char *path)
{
    uint64_t number = 0;
    const order_path *order = find_order(path, &number);
    if (!order)
        return answer_line(connection, MHD_HTTP_NOT_FOUND, "there is no such order\n");
    if (right_of(dashboard, connection) < MAY_ADMINISTER)
        return refuse(dashboard, connection, true);
    if (!gt__collector_has(dashboard->collector, order->list, order->key, number))
        return answer_line(connection, MHD_HTTP_NOT_FOUND, "there is no client or worker of this number\n");
    if (!gt__dispatcher_order(dashboard->dispatcher, order->order, number))
        return answer_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "too many orders wait for the dispatcher\n");
    return answer_line(connection, MHD_HTTP_ACCEPTED, "ok\n");
}

/* libmicrohttpd calls it for the head of a request, for each piece of its body, and at its end. */
static enum MHD_Result serve(void *argument, struct MHD_Connection *connection, const char *path,
                             const char *method, const char *version, const char *body, size_t *bytes,
                             void **state)
{
    gt_dashboard *dashboard = argument;
    http_request *request = *state;
    (void)version;
    (void)body;
    if (!request) {
        *state = request = calloc(1, sizeof *request);
        return request ? MHD_YES : MHD_NO;
    }
    request->body += *bytes;
    if (*bytes) {
        *bytes = 0;
        return request->body <= MOST_BODY ? MHD_YES : MHD_NO;
    }
    if (!gt__access_host(&dashboard->access,
                         MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST)))
        return answer_line(connection, MHD_HTTP_MISDIRECTED_REQUEST,
                           "the Host header names another server: use localhost, or an address\n");
    if (!atomic_load(&dashboard->ready))
        return answer_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is starting\n");
    if (!strcmp(method, MHD_HTTP_METHOD_GET) || !strcmp(method, MHD_HTTP_METHOD_HEAD))
        return serve_get(dashboard, connection, path);
    if (!strcmp(method, MHD_HTTP_METHOD_POST))
        return serve_post(dashboard, connection, path);
    return answer_line(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET, HEAD and POST\n");
}

static void request_ends(void *argument, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    (void)argument;
    (void)connection;
    (void)code;
    free(*state);
    *state = NULL;
}

static void connection_changes(void *argument, struct MHD_Connection *connection, void **context,
                               enum MHD_ConnectionNotificationCode code)
{
    (void)argument;
    if (code != MHD_CONNECTION_NOTIFY_STARTED)
        return;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *context = &contexts[info && gt__access_same_user(info->connect_fd) ? SAME_USER : STRANGER];
}

static void be_silent(void *argument, const char *format, va_list arguments)
{
    (void)argument; /* broken requests of others are not news */
    (void)format;
    (void)arguments;
}

/* ---- life --------------------------------------------------------------------------------------------------- */

static gt_err listen_on(gt_dashboard *dashboard, const gt_dashboard_options *options)
{
    char port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    /* A name may have addresses of both kinds: one of them is enough, the older kind where there is one. */
    hints.ai_family = dashboard->access.loopback && !strchr(options->host, ':') ? AF_INET : AF_UNSPEC;
    snprintf(port, sizeof port, "%d", options->port);
    int failed = getaddrinfo(options->host, port, &hints, &found);
    if (failed)
        return gt__fail(GT_ERR_VALUE, "--http-host %s: %s", options->host, gai_strerror(failed));
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG;
    if (found->ai_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    sigset_t all, before;
    sigfillset(&all); /* signals are for the main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    dashboard->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, serve, dashboard, MHD_OPTION_EXTERNAL_LOGGER, be_silent, NULL, MHD_OPTION_SOCK_ADDR,
        found->ai_addr, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)MOST_PER_ADDRESS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_NOTIFY_COMPLETED,
        request_ends, NULL, MHD_OPTION_NOTIFY_CONNECTION, connection_changes, NULL, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    freeaddrinfo(found);
    const union MHD_DaemonInfo *info =
        dashboard->daemon ? MHD_get_daemon_info(dashboard->daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    if (!info)
        return gt__fail(GT_ERR_CONNECTION, "--http: cannot listen on %s port %d: it is in use, or not allowed",
                        options->host, options->port);
    dashboard->access.port = info->port;
    return GT_OK;
}

static void stop(gt_dashboard **where)
{
    gt_dashboard *dashboard = *where;
    if (dashboard->daemon)
        MHD_stop_daemon(dashboard->daemon);
    if (dashboard->collector)
        gt__collector_stop(&dashboard->collector);
    if (dashboard->inspector)
        gt__inspector_stop(&dashboard->inspector);
    explicit_bzero(dashboard->access.token, sizeof dashboard->access.token);
    free(dashboard);
    *where = NULL;
}

static gt_err start(gt_dispatcher *dispatcher, const gt_dashboard_options *options, gt_dashboard **out)
{
    bool loopback = gt__address_is_loopback(options->host);
    if (!loopback && !options->token_file)
        return gt__fail(
            GT_ERR_VALUE,
            "--http-host %s can be reached from other machines: that needs a token (--http-token-file)",
            options->host);
    gt_dashboard *dashboard = gt__zeroed(1, sizeof *dashboard);
    dashboard->dispatcher = dispatcher;
    dashboard->access.loopback = loopback;
    snprintf(dashboard->access.host, sizeof dashboard->access.host, "%s", options->host);
    gt_err err = options->token_file ? gt__token_read(options->token_file, dashboard->access.token) : GT_OK;
    if (err == GT_OK)
        err = listen_on(dashboard, options);
    if (err == GT_OK)
        err = gt__inspector_start(dispatcher, &dashboard->inspector);
    if (err == GT_OK)
        err = gt__collector_start(dispatcher, &dashboard->collector);
    if (err != GT_OK)
        stop(&dashboard);
    else
        atomic_store(&dashboard->ready, true);
    *out = dashboard;
    return err;
}

static int port_of(const gt_dashboard *dashboard)
{
    return dashboard->access.port;
}

const gt_dashboard_ops gt__dashboard_http = {.start = start, .port = port_of, .stop = stop};
