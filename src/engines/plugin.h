/*
 * plugin.h: an engine as a plug-in, gt-engine-NAME.so, loaded when a worker asks for NAME.
 *
 * The host (loader.c) finds the file, checks the one symbol it exports, gt_engine_plugin, and calls init with a table of
 * the host's functions. A plug-in links gt_plugin_core: the parts of src/core that are pure, and plugin.c, which defines
 * gt__error_set, gt__setting, gt__log and gt__engine_find by calling that table. So the source of an engine is the same
 * whether it is built in or loaded, and works in every binary, whichever symbols that hides.
 *
 * docs/engines.md explains it with an example.
 */
#ifndef GT_ENGINES_PLUGIN_H
#define GT_ENGINES_PLUGIN_H

#include "core/log.h"
#include "core/settings.h"
#include "engines/engine.h"

/* The host's functions. Texts are borrowed for the time of the call. */
typedef struct gt_host {
    uint32_t version;                    /* GT_ENGINE_VERSION */
    uint32_t size;                       /* of the host's gt_host; later ones may be longer */
    void (*error_set)(const char *text); /* the calling thread's */
    const char *(*error_text)(void);
    const char *(*error_name)(gt_err err);
    bool (*log_on)(gt_log_topic topic);
    void (*log)(gt_log_topic topic, const char *line);
    void (*log_error)(const char *line);
    /* A setting by its variable's name, such as GT_NUM_THREADS. False: the host does not know it. */
    bool (*setting)(const char *variable, double *value);
    bool (*number_parse)(const char *text, gt_number_kind kind, double least, double most, double *value);
    gt_err (*engine_find)(const char *name, const gt_engine_ops **ops); /* for engines that wrap others */
} gt_host;

/* What a plug-in exports as gt_engine_plugin. The host looks at `version` first and, if it differs, at nothing else. */
typedef struct gt_plugin {
    uint32_t version;             /* GT_ENGINE_VERSION */
    uint64_t (*table_hash)(void); /* gt__op_table_hash */
    /* Called once, before anything else. The host's table stays valid for ever. An error has its text set by
     * host->error_set, and the engine cannot be used. */
    gt_err (*init)(const gt_host *host, const gt_engine_ops **ops);
} gt_plugin;

#define GT_PLUGIN_SYMBOL "gt_engine_plugin"

/* For init functions: from here on gt__fail, gt__setting, ... reach the host. */
gt_err gt__plugin_begin(const gt_host *host);

/* One line makes an engine a plug-in: GT_ENGINE_PLUGIN(gt__engine_far) */
#define GT_ENGINE_PLUGIN(engine)                                                                                  \
    static gt_err plugin_init_(const gt_host *host, const gt_engine_ops **ops)                                    \
    {                                                                                                             \
        GT_TRY(gt__plugin_begin(host));                                                                           \
        *ops = &(engine);                                                                                         \
        return GT_OK;                                                                                             \
    }                                                                                                             \
    GT_PLUGIN_EXPORT const gt_plugin gt_engine_plugin = {                                                         \
        .version = GT_ENGINE_VERSION, .table_hash = gt__op_table_hash, .init = plugin_init_}

#define GT_PLUGIN_EXPORT __attribute__((visibility("default")))
extern GT_PLUGIN_EXPORT const gt_plugin gt_engine_plugin;

#endif
