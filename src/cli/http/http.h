/*
 * cli/http/http.h: shared by the parts of the dashboard.
 *
 *     dispatcher --statistics, once a second--> collect.c --> state.c: JSON for the page
 *                                                         '-> metrics.c: Prometheus
 *     dispatcher --one client, on request--> inspect.c
 *     browsers, Prometheus <--> http.c: requests, with access.c: who may ask
 *
 * Three threads. The collector is a monitor like `gt top`: it reads the dispatcher's statistics once a second, however many
 * browsers there are, and makes one text for all of them. The inspector does the same for clients that browsers look at. The third
 * serves http from these texts. None waits for another, nor the dispatcher for any. page/ has what browsers get; page_texts.cc makes strings of it.
 */
#ifndef GT_CLI_HTTP_HTTP_H
#define GT_CLI_HTTP_HTTP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include "cli/json.h"
#include "cli/top/top.h"
#include "core/error.h"
#include "link/link.h"

typedef struct gt_dispatcher gt_dispatcher;

/* ---- shared.c ----------------------------------------------------------------------------------------------- */

/* A text that several responses may be sending: the last one frees it. */
typedef struct gt_shared_text {
    atomic_uint readers;
    size_t bytes;
    char text[]; /* NUL-ended */
} gt_shared_text;

gt_shared_text *gt__shared_text_new(const char *text, size_t bytes); /* copies; one reader */
gt_shared_text *gt__shared_text_retain(gt_shared_text *shared);
void gt__shared_text_release(void *text); /* shared->text */

/* A link to the dispatcher, before it runs, for a monitor of this process (gt__watcher_adopt). It needs no key, and takes no
 * connection of those that are limited. */
gt_err gt__monitor_link(gt_dispatcher *dispatcher, gt_link **link);

/* ---- collect.c ---------------------------------------------------------------------------------------------- */

typedef enum gt_http_view { GT_VIEW_STATE, GT_VIEW_METRICS, GT_VIEW_FAMILIES, GT_VIEW_COUNT } gt_http_view;

typedef struct gt_collector gt_collector;

/* Before the dispatcher runs. */
gt_err gt__collector_start(gt_dispatcher *dispatcher, gt_collector **collector);
/* After it has run: it has said goodbye. */
void gt__collector_stop(gt_collector **collector);
/* The latest text; NULL: there is none yet. It stays as it is until gt__shared_text_release. From any thread. */
char *gt__collector_text(gt_collector *collector, gt_http_view view, size_t *bytes);
/* What the workers did, second by second, as a JSON array: samples behind the one of number `after`, the oldest first. malloc'ed;
 * NULL: out of memory. From any thread. */
char *gt__collector_samples(gt_collector *collector, uint64_t after, size_t *bytes);
/* Seconds since the dispatcher's last statistics. From any thread. */
double gt__collector_age(gt_collector *collector);
/* Whether the last statistics have a client of this number ("clients", "number"), or a worker ("workers", "index"). From any
 * thread. */
bool gt__collector_has(gt_collector *collector, const char *list, const char *key, uint64_t number);

/* ---- inspect.c ---------------------------------------------------------------------------------------------- */

typedef struct gt_inspector gt_inspector;

/* As the collector. */
gt_err gt__inspector_start(gt_dispatcher *dispatcher, gt_inspector **inspector);
void gt__inspector_stop(gt_inspector **inspector);
/* A client in detail, as the dispatcher's inspect.c writes it; NULL: it comes soon. As gt__collector_text. */
char *gt__inspector_text(gt_inspector *inspector, uint64_t number, size_t *bytes);

/* ---- texts of one set of statistics -------------------------------------------------------------------------- */

/* state.c: the JSON of the page. `stats`: what the dispatcher sent; `top`: rates and shares made of it. */
void gt__state_write(const gt_json *stats, const gt_top *top, uint64_t sequence, FILE *out);
/* The families of ops: the colour of each, and the family of each op. */
void gt__families_write(FILE *out);
/* What the workers did since the statistics before, which `before` has: a line of the timeline. */
void gt__sample_write(const gt_json *stats, const gt_top *before, uint64_t sequence, FILE *out);
/* metrics.c: Prometheus' text format. */
void gt__metrics_write(const gt_json *stats, FILE *out);

/* ---- access.c ----------------------------------------------------------------------------------------------- */

enum { GT_TOKEN_LEAST = 16, GT_TOKEN_MOST = 256 };

typedef struct gt_access {
    char token[GT_TOKEN_MOST + 1]; /* empty: there is none */
    char host[256];                /* that we listen on */
    bool loopback;                 /* and that no other machine can reach */
    int port;
} gt_access;

/* Read the token file: one line, readable by its owner only. */
gt_err gt__token_read(const char *path, char token[GT_TOKEN_MOST + 1]);
/* Whether an Authorization header has the token. Takes the same time for all wrong ones of the same length. */
bool gt__access_token(const gt_access *access, const char *authorization);
/* Whether a Host header names this server. A page of another site that has its name point to our address sends its own
 * name: DNS rebinding. */
bool gt__access_host(const gt_access *access, const char *host);
/* Whether the peer of this connection is a process of this user on this host. */
bool gt__access_same_user(int connection);

#endif
