/* reload.h: read the server's files again while it runs: its config, with signals and limits, and the list of allowed keys. */
#ifndef GT_DISPATCHER_RELOAD_H
#define GT_DISPATCHER_RELOAD_H

typedef struct gt_dispatcher gt_dispatcher;

/* A file that cannot be read, or is wrong, is reported on standard error, and what was read from it before stays. So does a config by
 * which a signal in use names a worker that is not there. Tensors are placed as the signals say now (live/reshard.h). While programs
 * are being recovered the config waits, which may take long. The keys do not wait: a peer whose key is withdrawn must leave. */
void gt__reload(gt_dispatcher *dispatcher);
/* In each turn while it waits. */
void gt__reload_later(gt_dispatcher *dispatcher);

#endif
