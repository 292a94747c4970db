/*
 * failures.c: keeps the last failures. See failures.h. Each is written as
 *
 *   {"seconds_ago", "client", "program", "user", "line", "scope", "text"}     line, scope: "" if they are not known
 */
#include "dispatcher/observe/failures.h"

#include <string.h>

#include "dispatcher/session.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/stats.h"

void gt__failures_note(const gt_session *session, const gt_slot *record)
{
    gt_failures *failures = &session->dispatcher->failures;
    gt_told_failure *told = &failures->told[failures->count++ % GT_FAILURES];
    const char *line = gt__session_site(session, record->ins.site);
    const char *scope = gt__spread_scope_name(session, record->ins.scope);
    uint64_t bytes = record->ins.imm[1].u, most = record->ins.tail * sizeof *record;
    *told = (gt_told_failure){.at_ns = gt__now_ns(), .client = session->number};
    snprintf(told->program, sizeof told->program, "%s", session->name);
    snprintf(told->user, sizeof told->user, "%s", session->link->user);
    snprintf(told->line, sizeof told->line, "%s", line ? line : "");
    snprintf(told->scope, sizeof told->scope, "%s", scope ? scope : "");
    snprintf(told->text, sizeof told->text, "%.*s", (int)(bytes < most ? bytes : most),
             (const char *)(record + 1));
}

static void write_text(FILE *json, const char *key, const char *text)
{
    fprintf(json, ", \"%s\": \"", key);
    gt__stats_name(json, text);
    fputc('"', json);
}

void gt__failures_write(const gt_dispatcher *dispatcher, const gt_peer *viewer, FILE *json)
{
    const gt_failures *failures = &dispatcher->failures;
    uint64_t kept = failures->count < GT_FAILURES ? failures->count : GT_FAILURES, now = gt__now_ns();
    const char *separator = "";
    fputc('[', json);
    for (uint64_t k = 1; k <= kept; k++) {
        const gt_told_failure *told = &failures->told[(failures->count - k) % GT_FAILURES];
        if (!gt__stats_of_all(viewer) && strcmp(viewer->link->user, told->user))
            continue;
        fprintf(json, "%s{\"seconds_ago\": %.3f, \"client\": %llu", separator, (double)(now - told->at_ns) * 1e-9,
                (unsigned long long)told->client);
        write_text(json, "program", told->program);
        write_text(json, "user", told->user);
        write_text(json, "line", told->line);
        write_text(json, "scope", told->scope);
        write_text(json, "text", told->text);
        fputc('}', json);
        separator = ", ";
    }
    fputc(']', json);
}
