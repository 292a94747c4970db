/* servers.h: which dispatchers of this user run on this host, also inside programs. */
#ifndef GT_CLI_SERVERS_H
#define GT_CLI_SERVERS_H

#include <stdbool.h>

enum { GT_MAX_SERVERS = 64 };

/* Their ports in ascending order; returns how many. `hurry`: do not wait for those that are slower to answer than others. */
unsigned gt__servers_find(int ports[GT_MAX_SERVERS], bool hurry);

#endif
