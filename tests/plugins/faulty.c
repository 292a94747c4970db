/*
 * faulty.c: plug-ins that must be refused, for one fault each, which the build defines. For test_plugins.c and
 * test_engine_plugins.py.
 */
#include "engines/plugin.h"

#ifndef NO_SYMBOL

gt_err function_that_is_nowhere(void);

static uint64_t table_hash(void)
{
#ifdef OTHER_TABLE
    return gt__op_table_hash() + 1;
#else
    return gt__op_table_hash();
#endif
}

static gt_engine_ops engine;

static gt_err init(const gt_host *host, const gt_engine_ops **ops)
{
    const gt_engine_ops *cpu;
    GT_TRY(gt__plugin_begin(host));
    GT_TRY(gt__engine_find("cpu", &cpu));
    engine = *cpu;
    engine.name = "another";
    *ops = &engine;
#ifdef INCOMPLETE
    engine.name = "incomplete";
    engine.run = NULL;
#endif
#ifdef FAILING
    return gt__fail(GT_ERR_CONNECTION, "there is no device of this kind");
#endif
#ifdef UNDEFINED
    return function_that_is_nowhere();
#endif
    return GT_OK;
}

#ifdef OTHER_VERSION
enum { VERSION = 1 };
#else
enum { VERSION = GT_ENGINE_VERSION };
#endif

GT_PLUGIN_EXPORT const gt_plugin gt_engine_plugin = {.version = VERSION, .table_hash = table_hash, .init = init};

#endif
