/* version.h: the version, given by the build. */
#ifndef GT_CORE_VERSION_H
#define GT_CORE_VERSION_H

#ifndef GT_VERSION
#define GT_VERSION "unknown"
#endif

#endif
