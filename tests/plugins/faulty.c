/*
 * faulty.c: plug-ins that must be refused, for one fault each, which the build defines. For test_plugins.c and
 * test_engine_plugins.py.
 */
#include "engines/plugin.h"

#ifndef NO_SYMBOL

gt_err function_that_is_nowhere(void);

/* Unused where the fault is that it is missing; so is init. */
__attribute__((unused)) static uint64_t table_hash(void)
{
#ifdef OTHER_TABLE
    return gt__op_table_hash() + 1;
#else
    return gt__op_table_hash();
#endif
}

static gt_engine_ops engine;

GT_PLUGIN_EXPORT int init_calls; /* for the test to read */

__attribute__((unused)) static gt_err init(const gt_host *host, const gt_engine_ops **ops)
{
    const gt_engine_ops *cpu;
    init_calls++;
    GT_TRY(gt__plugin_begin(host));
#ifdef RING_A
    GT_TRY(gt__engine_find("ring_b", &cpu));
#endif
#ifdef RING_B
    GT_TRY(gt__engine_find("ring_a", &cpu));
#endif
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

#ifdef OTHER_SIZES
#define SIZES sizeof(gt_meta), sizeof(gt_instruction), sizeof(gt_slot), sizeof(gt_view) + 8, sizeof(gt_call)
#else
#define SIZES GT_PLUGIN_SIZES
#endif

GT_PLUGIN_EXPORT const gt_plugin gt_engine_plugin = {
    .version = VERSION,
    .sizes = {SIZES},
#ifndef NO_HASH
    .table_hash = table_hash,
#endif
#ifndef NO_INIT
    .init = init,
#endif
};

#endif
