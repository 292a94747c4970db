/* keys.h: the keys of a cluster, in a folder of the one who starts it. They are made at the first `gt up` and stay. */
#ifndef GT_CLI_UP_KEYS_H
#define GT_CLI_UP_KEYS_H

#include "cli/up/hosts.h"

enum { GT_UP_PATH = 4400 };

/* Make what is missing: server.key, client.key, and one for the workers of each host but the server's. Sets the hosts' keys. */
gt_err gt__up_keys(gt_cluster *cluster);
/* The path of a file of keys. `host`: the one of its workers; NULL: `name`. */
void gt__up_key_path(const gt_cluster *cluster, const gt_up_host *host, const char *name, char path[GT_UP_PATH]);
/* The list of keys that the server admits, with those of server.allow; the caller frees it. */
gt_err gt__up_allowed(const gt_cluster *cluster, char **text);
/* A whole file; the caller frees it. */
gt_err gt__up_read_file(const char *path, char **text);

#endif
