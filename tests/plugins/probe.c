/*
 * probe.c: an engine that cannot be opened: it tells instead, as its error, what it learns from the host. For
 * test_plugins.c.
 */
#include "core/random.h"
#include "engines/host_memory.h"
#include "engines/plugin.h"

static gt_err tell(const gt_engine_options *options, gt_engine **engine)
{
    const gt_engine_ops *found[2] = {NULL, NULL};
    double number = 0;
    char shape[32];
    (void)options;
    (void)engine;
    GT_TRY(gt__engine_find("cpu", &found[0]));
    gt_err unknown = gt__engine_find("no-such-engine", &found[1]);
    bool told = strstr(gt_error_text(), "no-such-engine") != NULL;
    gt__number_parse("0.5", GT_NUMBER_SECONDS, 0, 1, &number);
    gt__log(GT_LOG_STATUS, "the probe says %d", 7);
    return gt__fail(GT_ERR_UNSUPPORTED,
                    "threads %g, limit %llu, engine %s, error %s %d, number %g, op %s, shape %s",
                    gt__setting(GT_SETTING_NUM_THREADS), (unsigned long long)gt__memory_limit(1), found[0]->name,
                    gt_error_name(unknown), told, number, gt__op_table[GT_OP_matmul].name,
                    gt__shape_text(2, (const int64_t[]){3, 4}, shape, sizeof shape));
}

static gt_engine_ops engine;

static gt_err init(const gt_host *host, const gt_engine_ops **ops)
{
    const gt_engine_ops *cpu;
    GT_TRY(gt__plugin_begin(host));
    GT_TRY(gt__engine_find("cpu", &cpu));
    engine = *cpu;
    engine.name = "probe";
    engine.open = tell;
    *ops = &engine;
    return GT_OK;
}

GT_ENGINE_PLUGIN_INIT(init);
