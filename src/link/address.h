/*
 * address.h: the paths of the sockets of a server on this host, and which host names mean this host.
 *
 * They are files PORT.memory and PORT.ipc in a directory private to the user: $XDG_RUNTIME_DIR/gt, or /tmp/gt-UID
 * if that variable is not set. Only that user can enter the directory.
 *
 * Only monitors connect to the server inside a program. It has no file there but a socket of the same name in the abstract
 * namespace, which the kernel removes when the program ends, even by a crash.
 */
#ifndef GT_LINK_ADDRESS_H
#define GT_LINK_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

enum { GT_ADDRESS_MAX = 108 }; /* bytes in sun_path, the terminating 0 included */

/* DIRECTORY/PORT.suffix; creates the directory and checks that it is private to this user. */
gt_err gt__address_path(int port, const char *suffix, char path[GT_ADDRESS_MAX]);

/* Whether a server of this user listens at this port by ipc. */
bool gt__address_has_ipc(int port);
/* Whether a server or worker of this user has a socket file of this number. */
bool gt__address_is_held(int port);

/* Lock the directory against servers that start at the same moment. Close *lock to unlock. */
gt_err gt__address_lock(int *lock);

/* With the lock: remove a stale socket at `path`. GT_ERR_CONNECTION if a server listens there. */
gt_err gt__address_clear(const char *path, int socket_type, int port);

/* With the lock: remove the sockets and secrets of servers that were killed. */
void gt__address_sweep(void);
/* Those of a server or worker at this port, if it was killed. Without the lock, which must be free; never blocks. */
void gt__address_sweep_port(int port);

/* Turn a path into the abstract name with the same text; returns the length of sun_path. */
unsigned gt__address_hide(char path[GT_ADDRESS_MAX]);

/* The ports of this user's servers on this host, including those inside programs, in no order; returns how many, at most
 * `most`. Some servers may have ended since. */
int gt__address_servers(int *ports, int most);

/* A socket file that we bound, identified so that we never remove another server's. */
typedef struct gt_address_file {
    char path[GT_ADDRESS_MAX];
    uint64_t inode; /* 0: no file */
} gt_address_file;

void gt__address_own(gt_address_file *file, const char *path);
void gt__address_remove(gt_address_file *file);

/* The port to try in the given attempt, from 0 to GT_ADDRESS_ATTEMPTS - 1, when any free port will do. */
enum { GT_ADDRESS_ATTEMPTS = 20000 };
int gt__address_candidate(int attempt);

/* Can only this machine reach a server that listens there? */
bool gt__address_is_loopback(const char *host);

/* Does this name (or address) mean the machine we are on? */
bool gt__address_is_local(const char *host);
/* Does it mean every address of this host? */
bool gt__address_is_any(const char *host);

/* "127.0.0.1" or "[::1]" for a host name, IPv4 first; "*" and "" stay "*". */
gt_err gt__address_resolve(const char *host, char *numeric, size_t size);

#endif
