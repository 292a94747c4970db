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

gt_engine_finder gt__engine_finder;

/* The engines that the Python package has. */
static const char *const in_python[] = {"numpy", "pytorch"};

static gt_err fail_unknown(const char *name)
{
    char plugins[256], folders[512], others[256] = "";
    for (size_t k = 0; !gt__engine_finder.find && k < sizeof in_python / sizeof in_python[0]; k++)
        if (strcmp(name, in_python[k]) == 0)
            return gt__fail(GT_ERR_VALUE,
                            "backend '%s' is written in Python, and there is no Python in this process; start a "
                            "worker with `python -m gt.worker --backend %s`",
                            name, name);
    if (gt__engine_finder.names)
        gt__engine_finder.names(others, sizeof others);
    gt__plugin_names(plugins, sizeof plugins);
    return gt__fail(GT_ERR_VALUE,
                    "unknown backend '%s'; there are cpu, reference%s%s%s%s (gt-engine-%s.so is not in %s)", name,
                    *others ? ", " : "", others, *plugins ? ", null, and plug-ins " : " and null", plugins, name,
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
    for (size_t k = 0; k < sizeof engines / sizeof engines[0]; k++)
        if (strcmp(engines[k]->name, name) == 0) {
            *ops = engines[k];
            return GT_OK;
        }
    if (!gt__plugin_name_valid(name))
        return gt__fail(GT_ERR_VALUE, "'%.*s' is not the name of a backend: it takes letters, digits, - and _",
                        (int)strcspn(name, "\r\n"), name);
    *ops = NULL;
    if (gt__engine_finder.find)
        GT_TRY(gt__engine_finder.find(name, ops));
    if (!*ops)
        GT_TRY(gt__plugin_find(name, ops));
    return *ops ? GT_OK : fail_unknown(name);
}
