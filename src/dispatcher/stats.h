/* stats.h: the dispatcher's statistics as JSON; the fields are listed in stats.c. */
#ifndef GT_DISPATCHER_STATS_H
#define GT_DISPATCHER_STATS_H

#include <stdbool.h>
#include <stdio.h>

typedef struct gt_dispatcher gt_dispatcher;
typedef struct gt_peer gt_peer;

/* Whether a peer may see what the clients of all users do: those of the server's own user, and holders of a worker's key,
 * who have the data of all clients. The others see clients of the same user only. */
bool gt__stats_of_all(const gt_peer *viewer);
/* Whether `viewer` may see what this peer, a client, does. */
bool gt__stats_may_see(const gt_peer *viewer, const gt_peer *peer);
/* Names and other texts come from peers: write them for the inside of a JSON string, as UTF-8. Control characters are dropped, and
 * what is not UTF-8 becomes U+FFFD. */
void gt__stats_name(FILE *json, const char *name);
/* What `viewer` may see. malloc'ed; NULL: out of memory. */
char *gt__dispatcher_stats(const gt_dispatcher *dispatcher, const gt_peer *viewer);

#endif
