/* stats.h: the dispatcher's statistics as JSON; the fields are listed in stats.c. */
#ifndef GT_DISPATCHER_STATS_H
#define GT_DISPATCHER_STATS_H

typedef struct gt_dispatcher gt_dispatcher;

/* malloc'ed; NULL: out of memory. */
char *gt__dispatcher_stats(const gt_dispatcher *dispatcher);

#endif
