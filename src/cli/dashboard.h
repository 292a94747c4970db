/*
 * dashboard.h: what `gt server --http` starts. The dashboard (http/http.c) needs a library that those who compute do not, so
 * it is part of the tools: programs that link it put its table into gt__dashboard.
 */
#ifndef GT_CLI_DASHBOARD_H
#define GT_CLI_DASHBOARD_H

#include "dispatcher/dispatcher.h"

typedef struct gt_dashboard gt_dashboard;

typedef struct gt_dashboard_options {
    const char *host;       /* to listen on */
    int port;               /* 0: any free one */
    const char *token_file; /* NULL: no token, so no administrator, and only processes of this user are served */
} gt_dashboard_options;

typedef struct gt_dashboard_ops {
    /* Before the dispatcher runs, which must live until `stop` has returned. */
    gt_err (*start)(gt_dispatcher *dispatcher, const gt_dashboard_options *options, gt_dashboard **dashboard);
    int (*port)(const gt_dashboard *dashboard);
    /* After the dispatcher has run: it has said goodbye to its monitors. */
    void (*stop)(gt_dashboard **dashboard);
} gt_dashboard_ops;

extern const gt_dashboard_ops *gt__dashboard; /* NULL: this program has none */
extern const gt_dashboard_ops gt__dashboard_http;

#endif
