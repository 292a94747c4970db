/*
 * limits.h: what clients and users may use of a server: names, values and their text. dispatcher/quota.h enforces them.
 *
 * A limit comes from the command line (`gt server --max-memory 4G`) or from the section `limits` of the server's config
 * (config.h), where users may have limits of their own. docs/security.md is the user's guide.
 */
#ifndef GT_CORE_LIMITS_H
#define GT_CORE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, option, what it is, of whom, help). All clients of one user count together in the limits of a user. */
#define GT_LIMITS(X)                                                                                              \
    X(MEMORY, "max-memory", BYTES, "one client", "bytes of tensors that one client may have, such as 4G")         \
    X(TENSORS, "max-tensors", COUNT, "one client", "tensors that one client may have")                            \
    X(QUEUED, "max-queued", COUNT, "one client",                                                                  \
      "instructions of one client that may wait in the server and its workers; the client then waits, too")       \
    X(CONNECTIONS, "max-connections", COUNT, "this server", "clients and monitors that may be connected")         \
    X(USER_MEMORY, "max-user-memory", BYTES, "one user",                                                          \
      "bytes of tensors that the clients of one user may have")                                                   \
    X(USER_TENSORS, "max-user-tensors", COUNT, "one user", "tensors that the clients of one user may have")       \
    X(USER_CONNECTIONS, "max-user-connections", COUNT, "one user", "clients and monitors of one user")

typedef enum gt_limit {
#define GT_LIMIT_NAME(name, option, kind, whom, help) GT_LIMIT_##name,
    GT_LIMITS(GT_LIMIT_NAME)
#undef GT_LIMIT_NAME
        GT_LIMIT_COUNT
} gt_limit;

#define GT_UNLIMITED UINT64_MAX /* said to be without a limit */

typedef struct gt_limits {
    uint64_t most[GT_LIMIT_COUNT]; /* 0: nothing was said */
} gt_limits;

typedef struct gt_user_limits {
    char name[48]; /* "uid 1000", or the name that goes with a key */
    gt_limits limits;
} gt_user_limits;

typedef struct gt_limit_table {
    gt_limits all;
    gt_user_limits *users;
    size_t user_count;
} gt_limit_table;

void gt__limit_table_free(gt_limit_table *table);
/* The limits of a user; NULL: there is no entry, or no memory for a new one (`add`). */
gt_limits *gt__limit_table_user(gt_limit_table *table, const char *name, bool add);

/* The limit with this option's name; GT_LIMIT_COUNT: none has it. */
gt_limit gt__limit_find(const char *option);
const char *gt__limit_option(gt_limit which);
const char *gt__limit_help(gt_limit which);
bool gt__limit_is_bytes(gt_limit which);
/* Parse "4G", "1000" or "none". */
bool gt__limit_parse(gt_limit which, const char *text, uint64_t *most);
/* "4.0 GiB", "1000": an amount of what the limit counts. */
enum { GT_AMOUNT_SIZE = 32 };
const char *gt__limit_amount(gt_limit which, uint64_t amount, char text[GT_AMOUNT_SIZE]);
/* "limit of 4.0 GiB for one client (--max-memory)". */
const char *gt__limit_text(gt_limit which, uint64_t most, char *text, size_t size);

#endif
