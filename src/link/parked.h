/* parked.h: the link of a session that has no client for now (dispatcher/live/handover.h): nothing comes, and what is sent is dropped. */
#ifndef GT_LINK_PARKED_H
#define GT_LINK_PARKED_H

#include "link/link.h"

/* It has the user, the host and the key of the link `before`, which it takes the place of. */
gt_err gt__link_parked(const gt_link *before, gt_link **link);

#endif
