/* listen.h: where peers of the dispatcher arrive, and who may. */
#ifndef GT_DISPATCHER_LISTEN_H
#define GT_DISPATCHER_LISTEN_H

#include "dispatcher/dispatcher.h"

/* Open dispatcher->acceptors. Those that were opened stay in case of an error. */
gt_err gt__dispatcher_listen(gt_dispatcher *dispatcher, const gt_dispatcher_options *options);

#endif
