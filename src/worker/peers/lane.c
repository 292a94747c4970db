/* lane.c: which lane to use, and loading it. See lane.h. */
#include "worker/peers/lane.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/settings.h"
#include "engines/loader.h"

/* UCX reads these once, as it is loaded. It would replace handlers of signals, patch functions of libc to see memory go (for
 * networks that need memory registered, which we keep), start a thread, and write to standard output. Ways inside the host must
 * be able to fail, so that the endpoint of a stopped process can be closed. By tcp, endpoints that can fail move large messages in
 * segments of the receiver's size: with 64 KiB, its default, the receiver takes a third more processor time. */
static void tame_ucx(void)
{
    static const char *const variables[][2] = {
        {"UCX_ERROR_SIGNALS", ""},          {"UCX_MEM_EVENTS", "n"},           {"UCX_VFS_ENABLE", "n"},
        {"UCX_LOG_FILE", "stderr"},         {"UCX_LOG_LEVEL", "fatal"},        {"UCX_SYSV_ERROR_HANDLING", "y"},
        {"UCX_CMA_MEMORY_INVALIDATE", "y"}, {"UCX_WARN_UNUSED_ENV_VARS", "n"}, {"UCX_TCP_RX_SEG_SIZE", "512k"}};
    for (size_t k = 0; k < sizeof variables / sizeof variables[0]; k++)
        setenv(variables[k][0], variables[k][1], 0);
}

static gt_err load(const char *name, const gt_lane_ops **ops)
{
    char file[64], path[PATH_MAX], folders[1024];
    snprintf(file, sizeof file, "gt-exchange-%s.so", name);
    if (!gt__plugin_file(file, path))
        return gt__fail(GT_ERR_VALUE, "GT_EXCHANGE=%s: this installation is built without it (%s is not in %s)",
                        name, file, gt__plugin_folders(folders, sizeof folders));
    tame_ucx();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* for good: it has threads and handlers of its own */
    if (!library)
        return gt__fail(GT_ERR_VALUE, "GT_EXCHANGE=%s cannot be loaded: %s", name, dlerror());
    const gt_lane_plugin *plugin = dlsym(library, GT_LANE_SYMBOL);
    if (!plugin || plugin->version != GT_LANE_VERSION || plugin->message_bytes != sizeof(gt_message) ||
        strcmp(plugin->ops->name, name) != 0)
        return gt__fail(GT_ERR_VALUE, "GT_EXCHANGE=%s: %s is of another version", name, path);
    *ops = plugin->ops;
    return GT_OK;
}

gt_err gt__exchange_choose(gt_exchange_choice *choice)
{
    static const char *const names[] = {
        [GT_CHOOSE_AUTO] = "auto", [GT_CHOOSE_MESH] = "mesh", [GT_CHOOSE_UCX] = "ucx", [GT_CHOOSE_NCCL] = "nccl"};
    const char *name = getenv("GT_EXCHANGE");
    *choice = GT_CHOOSE_AUTO;
    if (!name || !*name)
        return GT_OK;
    for (unsigned k = 0; k < sizeof names / sizeof names[0]; k++)
        if (strcmp(name, names[k]) == 0) {
            *choice = (gt_exchange_choice)k;
            return GT_OK;
        }
    return gt__fail(GT_ERR_VALUE, "GT_EXCHANGE is 'auto', 'mesh', 'ucx' or 'nccl', not '%.40s'", name);
}

/* UCX does not encrypt, so it is not chosen unasked where the link would; and on one host the link is as fast. */
gt_err gt__lane_find(bool reachable, const gt_lane_ops **ops, bool *asked)
{
    gt_exchange_choice choice;
    *ops = NULL;
    GT_TRY(gt__exchange_choose(&choice));
    *asked = choice == GT_CHOOSE_UCX;
    if (*asked)
        return load("ucx", ops);
    bool trusted = reachable && gt__setting(GT_SETTING_TRUST_NETWORK) != 0;
    if (choice == GT_CHOOSE_AUTO && trusted && load("ucx", ops) != GT_OK)
        gt__log(GT_LOG_STATUS, "workers exchange without UCX: %s", gt_error_text());
    return GT_OK;
}
