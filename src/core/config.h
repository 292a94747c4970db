/*
 * config.h: what signals mean: a table from names to settings, read from YAML or filled by a program.
 *
 *     forward_layer1:
 *       shard:
 *         axis: 0                  # which dimension is split; negative ones count from the end
 *         workers: [0, 1, 2, 3]    # over which workers; all of them if left out
 *         replicated: true         # instead of axis: every worker has the whole tensor
 *       backward: backward_layer1  # the signal under which gradients are computed; the same if left out
 *       compile: true              # an engine may compile what runs under it
 *       schedule: 1f1b             # or gpipe: the order of micro-batches, where it is a stage of a pipeline
 *
 *     mesh: {data: 4, model: 2}    # not a signal: a grid of workers (mesh.h), for shard: {0: data, 1: model}
 *
 *     limits:                      # not a signal: what clients of a server may use (limits.h)
 *       max-memory: 4G
 *       users:
 *         alice: {max-memory: 16G}
 *
 * A client has a table and sends it to the dispatcher, whose own table is the default. docs/sharding.md is the
 * user's guide.
 */
#ifndef GT_CORE_CONFIG_H
#define GT_CORE_CONFIG_H

#include "core/instruction.h"
#include "core/limits.h"
#include "core/mesh.h"

typedef struct gt_signal_config {
    char name[GT_MAX_NAME + 1];
    char backward[GT_MAX_NAME + 1]; /* "": not set */
    uint8_t flags;                  /* gt_config_flags */
    int64_t axis;
    unsigned worker_count; /* 0: all */
    int32_t workers[GT_MAX_PARTIES];
    gt_mesh mesh;     /* rank 0: none; otherwise its workers are `workers`, and `axis` is not used */
    char origin[160]; /* "config.yaml:12", for errors */
} gt_signal_config;

typedef struct gt_config {
    gt_signal_config **signals;
    size_t count, capacity;
    uint64_t version; /* grows with every change */
    char file[128];   /* the last file that was loaded; "": none */
    char **missed;    /* names that a warning was printed for */
    size_t missed_count;
    gt_limit_table limits; /* of the last file; only a server uses them */
} gt_config;

void gt__config_free(gt_config *config);
/* Borrowed until the next change of that signal; NULL: no signal of that name. */
const gt_signal_config *gt__config_find(const gt_config *config, const char *name);
/* Add or replace a signal, after checking it; copies. */
gt_err gt__config_set(gt_config *config, const gt_signal_config *signal);
/* Read a YAML file. On failure the table is unchanged and the error names file, line and signal. A `backward` that names no
 * signal of the table is warned of on standard error. */
gt_err gt__config_load(gt_config *config, const char *path);
/* A program uses this signal. If files were loaded and none has it, that is probably a mistake in writing: true, once a name,
 * and `warning` is a text about it without control characters. */
enum { GT_CONFIG_WARNING = 384 }; /* bytes of that text */
bool gt__config_misses(gt_config *config, const char *name, char *warning, size_t size);

/* A signal as a config record, and back. `record` has room for GT_CONFIG_SLOTS. */
enum { GT_CONFIG_SLOTS = 1 + 2 * GT_NAME_SLOTS + GT_MAX_PARTIES / 8 + GT_MESH_AXES / 2 };
void gt__config_write(const gt_signal_config *signal, gt_slot *record);
gt_err gt__config_read(const gt_slot *record, gt_signal_config *signal);

#endif
