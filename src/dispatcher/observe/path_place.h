/* path_place.h: where in the program a hot path is: what monitors show of a worker that runs one. */
#ifndef GT_DISPATCHER_OBSERVE_PATH_PLACE_H
#define GT_DISPATCHER_OBSERVE_PATH_PLACE_H

#include <stdint.h>

typedef struct gt_session gt_session;

typedef struct gt_path_place {
    uint32_t instructions;
    char lines[256];  /* "train.py:41-58": of the file in which it begins; "": not known */
    char scopes[128]; /* "forward, update": of the signals, in the order of their first instructions; "": none */
} gt_path_place;

/* Of the session's path with this number, until it is defined anew; NULL: it has none. The path is read at the first call only: monitors
 * ask often, and paths may be long. */
const gt_path_place *gt__path_place(const gt_session *session, uint32_t number);

#endif
