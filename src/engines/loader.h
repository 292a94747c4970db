/* loader.h: the host's side of plugin.h: finds, loads and checks plug-ins. For engine.c. */
#ifndef GT_ENGINES_LOADER_H
#define GT_ENGINES_LOADER_H

#include <limits.h>

#include "engines/engine.h"

/* A plug-in's name: letters, digits, - and _, so that it is never a path. */
bool gt__plugin_name_valid(const char *name);

/* The engine of the plug-in with this valid name, loaded on first use and for good. *ops is NULL, without an error,
 * where there is no such file; GT_ERR_VALUE where it cannot be used. Threads may call it at once. An init that looks for
 * an engine whose init has not returned, such as its own, gets an error. */
gt_err gt__plugin_find(const char *name, const gt_engine_ops **ops);

/* The first file of that name in the folders that are looked into; false: none. */
bool gt__plugin_file(const char *file, char path[PATH_MAX]);

/* "far, late": the plug-ins that can be found; returns `text`, empty if none. */
char *gt__plugin_names(char *text, size_t size);
/* "/a, /usr/lib": the folders that are looked into. */
char *gt__plugin_folders(char *text, size_t size);

#endif
