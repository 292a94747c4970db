/* engine.c: the list of engines. A new engine is one line here, or a plug-in (plugin.h). */
#include "engines/engine.h"

#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "engines/loader.h"

static const gt_engine_ops *const engines[] = {
    &gt__engine_cpu,
    &gt__engine_reference,
    &gt__engine_null,
};

/* Engine names of earlier programs, and the engines that replace them. */
static const struct {
    const char *alias, *name;
} aliases[] = {
    {.alias = "pytorch", .name = "cpu"},
    {.alias = "numpy", .name = "reference"},
};

static gt_err fail_unknown(const char *name)
{
    char plugins[256], folders[512];
    gt__plugin_names(plugins, sizeof plugins);
    return gt__fail(GT_ERR_VALUE,
                    "unknown backend '%s'; there are cpu, reference%s%s (gt-engine-%s.so is not in %s)", name,
                    *plugins ? ", null, and plug-ins " : " and null", plugins, name,
                    gt__plugin_folders(folders, sizeof folders));
}

/* Where a GPU is found, the engine for it is the default. Other machines pay for a look at one file. */
static bool find_for_gpu(const gt_engine_ops **ops)
{
    static const char control[] = "/dev/nvidiactl";
    if (access(control, F_OK) != 0)
        return false;
    gt_err err = gt__plugin_find("cuda", ops);
    if (err == GT_OK && *ops)
        return true;
    gt__log(GT_LOG_STATUS, "there is %s, but the cpu engine computes: %s", control,
            err == GT_OK ? "the plug-in gt-engine-cuda.so is not installed" : gt_error_text());
    return false;
}

gt_err gt__engine_find(const char *name, const gt_engine_ops **ops)
{
    if ((!name || !*name) && find_for_gpu(ops))
        return GT_OK;
    if (!name || !*name)
        name = engines[0]->name;
    for (size_t k = 0; k < sizeof aliases / sizeof aliases[0]; k++)
        if (strcmp(aliases[k].alias, name) == 0) {
            gt__log(GT_LOG_STATUS, "backend %s is served by the %s engine", name, aliases[k].name);
            name = aliases[k].name;
        }
    for (size_t k = 0; k < sizeof engines / sizeof engines[0]; k++)
        if (strcmp(engines[k]->name, name) == 0) {
            *ops = engines[k];
            return GT_OK;
        }
    if (!gt__plugin_name_valid(name))
        return gt__fail(GT_ERR_VALUE, "'%.*s' is not the name of a backend: it takes letters, digits, - and _",
                        (int)strcspn(name, "\r\n"), name);
    GT_TRY(gt__plugin_find(name, ops));
    return *ops ? GT_OK : fail_unknown(name);
}
