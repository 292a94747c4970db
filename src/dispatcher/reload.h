/* reload.h: read the server's files again while it runs: its config, with signals and limits, and the list of allowed keys. */
#ifndef GT_DISPATCHER_RELOAD_H
#define GT_DISPATCHER_RELOAD_H

typedef struct gt_dispatcher gt_dispatcher;

/* A file that cannot be read, or is wrong, is reported on standard error, and what was read from it before stays. So does a config by
 * which a signal in use names a worker that is not there. Tensors are placed as the signals say now (live/reshard.h). While programs
 * are being recovered it waits for them: gt__live_turn comes back to it. */
void gt__reload(gt_dispatcher *dispatcher);

#endif
