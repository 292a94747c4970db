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

/* Types that the host and a plug-in share. Their layout depends on headers of src/core, which GT_ENGINE_VERSION does not
 * cover. */
#define GT_PLUGIN_TYPES(X) X(gt_meta) X(gt_instruction) X(gt_slot) X(gt_view) X(gt_call)

#define GT_PLUGIN_TYPE_SIZE(type) sizeof(type),
#define GT_PLUGIN_TYPE_COUNT(type) +1
#define GT_PLUGIN_SIZES GT_PLUGIN_TYPES(GT_PLUGIN_TYPE_SIZE)

/* What a plug-in exports as gt_engine_plugin. The host looks at `version` first, then at `sizes`, and if one differs, at
 * nothing else. */
typedef struct gt_plugin {
    uint32_t version;                                      /* GT_ENGINE_VERSION */
    uint32_t sizes[GT_PLUGIN_TYPES(GT_PLUGIN_TYPE_COUNT)]; /* GT_PLUGIN_SIZES */
    uint64_t (*table_hash)(void);                          /* gt__op_table_hash */
    /* Called once by a host, before anything else. The host's table stays valid for ever. An error has its text set
     * by host->error_set, and the engine cannot be used. The plug-in stays loaded either way. A look-up of an engine
     * whose own init has not returned fails. */
    gt_err (*init)(const gt_host *host, const gt_engine_ops **ops);
} gt_plugin;

#define GT_PLUGIN_SYMBOL "gt_engine_plugin"

/* For init functions: from here on gt__fail, gt__setting, ... reach the host. */
gt_err gt__plugin_begin(const gt_host *host);

/* For an engine with an init function of its own. */
#define GT_ENGINE_PLUGIN_INIT(function)                                                                           \
    GT_PLUGIN_EXPORT const gt_plugin gt_engine_plugin = {.version = GT_ENGINE_VERSION,                            \
                                                         .sizes = {GT_PLUGIN_SIZES},                              \
                                                         .table_hash = gt__op_table_hash,                         \
                                                         .init = function}

/* One line makes an engine a plug-in: GT_ENGINE_PLUGIN(gt__engine_far) */
#define GT_ENGINE_PLUGIN(engine)                                                                                  \
    static gt_err plugin_init_(const gt_host *host, const gt_engine_ops **ops)                                    \
    {                                                                                                             \
        GT_TRY(gt__plugin_begin(host));                                                                           \
        *ops = &(engine);                                                                                         \
        return GT_OK;                                                                                             \
    }                                                                                                             \
    GT_ENGINE_PLUGIN_INIT(plugin_init_)

#define GT_PLUGIN_EXPORT __attribute__((visibility("default")))
extern GT_PLUGIN_EXPORT const gt_plugin gt_engine_plugin;

#endif
