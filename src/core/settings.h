/*
 * settings.h: the numbers that the environment may set, read in one place. An invalid value is reported once in a process,
 * in a line on standard error with the variable and its value, and the default is used. docs/environment.md lists them.
 */
#ifndef GT_CORE_SETTINGS_H
#define GT_CORE_SETTINGS_H

#include <locale.h>
#include <stdbool.h>

/* X(name, variable, what it is, least, most, default). The kinds: seconds, a whole number, bytes (with K, M, G, T). */
#define GT_SETTINGS(X)                                                                                            \
    X(AUTO_COMPILE, "GT_AUTO_COMPILE", COUNT, 0, 1, 1)                                                            \
    X(AUTO_SHARD, "GT_AUTO_SHARD", COUNT, 0, 1, 0)                                                                \
    X(COMPILE, "GT_COMPILE", COUNT, 0, 1, 0)                                                                      \
    X(DEBUG_CLIENT, "GT_DEBUG_CLIENT", COUNT, 0, 1, 0)                                                            \
    X(DEBUG_COMPILE, "GT_DEBUG_COMPILE", COUNT, 0, 1, 0)                                                          \
    X(DEBUG_DISPATCHER, "GT_DEBUG_DISPATCHER", COUNT, 0, 1, 0)                                                    \
    X(DEBUG_WORKER, "GT_DEBUG_WORKER", COUNT, 0, 1, 0)                                                            \
    X(HOTPATH_MIN_SEQ, "GT_HOTPATH_MIN_SEQ", COUNT, 1, 1e6, 5)                                                    \
    X(HOTPATH_THRESHOLD, "GT_HOTPATH_THRESHOLD", COUNT, 2, 1e6, 10)                                               \
    X(HOTPATH_WINDOW, "GT_HOTPATH_WINDOW", COUNT, 1, 1e6, 8192)                                                   \
    X(PROGRESS, "GT_PROGRESS", COUNT, 0, 1, 1)                                                                    \
    X(TIMEOUT, "GT_TIMEOUT", SECONDS, 1, 1e6, 60)                                                                 \
    X(CONNECT_TIMEOUT, "GT_CONNECT_TIMEOUT", SECONDS, 0.001, 1e6, 10)                                             \
    X(INSTRUCTION_LOG_SIZE, "GT_INSTRUCTION_LOG_SIZE", BYTES, 4096, 9e18, 0)                                      \
    X(MAX_OP_SECONDS, "GT_MAX_OP_SECONDS", SECONDS, 0, 1e9, 0)                                                    \
    X(NUM_THREADS, "GT_NUM_THREADS", COUNT, 0, 1024, 0)                                                           \
    X(TIERS, "GT_TIERS", COUNT, 0, 1, 0)                                                                          \
    X(TRACE_IDS, "GT_TRACE_IDS", COUNT, 0, 1, 0)                                                                  \
    X(TRUST_NETWORK, "GT_TRUST_NETWORK", COUNT, 0, 1, 0)                                                          \
    X(VERBOSE, "GT_VERBOSE", COUNT, 0, 1, 0)                                                                      \
    X(RESUME, "GT_RESUME", SECONDS, 0, 1e6, -1)                                                                   \
    X(SUM_AHEAD, "GT_SUM_AHEAD", COUNT, 0, 1, 1)                                                                  \
    X(SYNC, "GT_SYNC", COUNT, 0, 1, 0)                                                                            \
    X(WORKER_BATCH_SIZE, "GT_WORKER_BATCH_SIZE", COUNT, 0, 1e9, 0)                                                \
    X(WORKER_MEMORY, "GT_WORKER_MEMORY", BYTES, 1, 9e18, 0)

typedef enum gt_setting {
#define GT_SETTING_NAME(name, variable, kind, least, most, fallback) GT_SETTING_##name,
    GT_SETTINGS(GT_SETTING_NAME)
#undef GT_SETTING_NAME
        GT_SETTING_COUNT
} gt_setting;

/* Its present value; the default if the variable is not set, empty or invalid. */
double gt__setting(gt_setting which);
int gt__setting_ms(gt_setting which);

typedef enum gt_number_kind { GT_NUMBER_SECONDS, GT_NUMBER_COUNT, GT_NUMBER_BYTES } gt_number_kind;

/* The C locale, in which 0.5 is written with a point, whatever locale the host program has set. For GT's own threads
 * (uselocale) and for all machine-readable text. */
locale_t gt__plain_locale(void);

/* Parse the whole of `text` as a number of that kind from least to most; false if it is not a number. */
bool gt__number_parse(const char *text, gt_number_kind kind, double least, double most, double *value);

#endif
