/* revive.h: a server that is started again goes on with the sessions of its journal (journaled.h). */
#ifndef GT_DISPATCHER_JOURNAL_REVIVE_H
#define GT_DISPATCHER_JOURNAL_REVIVE_H

#include "dispatcher/dispatcher.h"

/* Open the journal, once the server listens and before it serves anyone. Its sessions wait for their clients and workers from now on.
 * GT_ERR_VALUE: the journal cannot be used. */
gt_err gt__dispatcher_revive(gt_dispatcher *dispatcher, const gt_dispatcher_options *options);

#endif
