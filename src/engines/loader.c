/*
 * loader.c: plug-ins: where they are looked for, how they are checked, and the table of functions they are given. Read
 * plugin.h first.
 */
#include "engines/loader.h"

#include <dirent.h>
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engines/plugin.h"

#define FILE_PREFIX "gt-engine-"
#define FILE_SUFFIX ".so"

enum { MAX_NAME = 64, MAX_LISTED = 32 };

/* ---- the host's functions ------------------------------------------------------------------------------------ */

static void host_error_set(const char *text)
{
    gt__error_set("%s", text);
}

static bool host_log_on(gt_log_topic topic)
{
    return gt__log_on(topic);
}

static void host_log(gt_log_topic topic, const char *line)
{
    gt__log(topic, "%s", line);
}

static void host_log_error(const char *line)
{
    gt__log_error("%s", line);
}

static bool host_setting(const char *variable, double *value)
{
    static const char *const variables[] = {
#define GT_SETTING_VARIABLE(name, text, kind, least, most, fallback) text,
        GT_SETTINGS(GT_SETTING_VARIABLE)
#undef GT_SETTING_VARIABLE
    };
    for (int which = 0; which < GT_SETTING_COUNT; which++)
        if (strcmp(variables[which], variable) == 0) {
            *value = gt__setting((gt_setting)which);
            return true;
        }
    return false;
}

static const gt_host host = {
    .version = GT_ENGINE_VERSION,
    .size = sizeof(gt_host),
    .error_set = host_error_set,
    .error_text = gt_error_text,
    .error_name = gt_error_name,
    .log_on = host_log_on,
    .log = host_log,
    .log_error = host_log_error,
    .setting = host_setting,
    .number_parse = gt__number_parse,
    .engine_find = gt__engine_find,
};

/* ---- where plug-ins are -------------------------------------------------------------------------------------- */

/* True: look no further. */
typedef bool (*visit_folder)(const char *folder, void *context);

/* Each of a list of folders with colons between them. */
static bool each_listed(const char *list, visit_folder visit, void *context)
{
    while (list && *list) {
        size_t length = strcspn(list, ":");
        char folder[PATH_MAX];
        if (length && length < sizeof folder) {
            memcpy(folder, list, length);
            folder[length] = 0;
            if (visit(folder, context))
                return true;
        }
        list += length + (list[length] == ':');
    }
    return false;
}

/* A folder beside which others are looked for, by relative names. */
typedef struct base {
    const char *folder;
    visit_folder visit;
    void *context;
} base;

static bool visit_beside(const char *name, void *context)
{
    const base *b = context;
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", b->folder, name) >= (int)sizeof path)
        return false;
    char *folder = realpath(path, NULL); /* most are not there */
    bool done = folder && b->visit(folder, b->context);
    free(folder);
    return done;
}

/* The binary that contains this code; free() it. *program: it is the program, not a library. */
static char *own_file(bool *program)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1((const void *)&host, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return NULL;
    *program = !map->l_name || !*map->l_name;
    return realpath(*program ? "/proc/self/exe" : map->l_name, NULL);
}

/* GT_ENGINE_PATH; beside this binary; and where an installation has the library and the package, since the gt command
 * is not beside them. GT_ENGINE_FOLDERS is relative to the command. */
static bool each_folder(visit_folder visit, void *context)
{
    if (each_listed(getenv("GT_ENGINE_PATH"), visit, context))
        return true;
    bool program;
    char *file = own_file(&program);
    if (!file)
        return false;
    base b = {.folder = dirname(file), .visit = visit, .context = context};
    bool done = visit(b.folder, context) || (program && each_listed(GT_ENGINE_FOLDERS, visit_beside, &b));
    free(file);
    return done;
}

typedef struct search {
    const char *file;
    char path[PATH_MAX];
} search;

static bool look_for(const char *folder, void *context)
{
    search *s = context;
    int length = snprintf(s->path, sizeof s->path, "%s/%s", folder, s->file);
    return length < (int)sizeof s->path && access(s->path, F_OK) == 0;
}

bool gt__plugin_file(const char *file, char path[PATH_MAX])
{
    search s = {.file = file};
    if (!each_folder(look_for, &s))
        return false;
    memcpy(path, s.path, sizeof s.path);
    return true;
}

bool gt__plugin_name_valid(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
    return length > 0 && length <= MAX_NAME && !name[length];
}

/* ---- what there is, for error messages ----------------------------------------------------------------------- */

typedef struct listing {
    char names[MAX_LISTED][MAX_NAME + 1];
    int count;
} listing;

static void list_name(listing *l, const char *name)
{
    for (int k = 0; k < l->count; k++)
        if (strcmp(l->names[k], name) == 0)
            return;
    if (l->count < MAX_LISTED)
        memcpy(l->names[l->count++], name, strlen(name) + 1);
}

static bool list_folder(const char *folder, void *context)
{
    DIR *files = opendir(folder);
    for (struct dirent *file; files && (file = readdir(files));) {
        size_t prefix = strlen(FILE_PREFIX), suffix = strlen(FILE_SUFFIX), length = strlen(file->d_name);
        if (length <= prefix + suffix || strncmp(file->d_name, FILE_PREFIX, prefix) != 0 ||
            strcmp(file->d_name + length - suffix, FILE_SUFFIX) != 0)
            continue;
        file->d_name[length - suffix] = 0;
        if (gt__plugin_name_valid(file->d_name + prefix))
            list_name(context, file->d_name + prefix);
    }
    if (files)
        closedir(files);
    return false;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

char *gt__plugin_names(char *text, size_t size)
{
    listing l = {0};
    size_t length = 0;
    each_folder(list_folder, &l);
    qsort(l.names, (size_t)l.count, sizeof l.names[0], by_name);
    text[0] = 0;
    for (int k = 0; k < l.count && length < size; k++)
        length += (size_t)snprintf(text + length, size - length, "%s%s", k ? ", " : "", l.names[k]);
    return text;
}

typedef struct folders_text {
    char *text;
    size_t size, length;
} folders_text;

static bool add_folder(const char *folder, void *context)
{
    folders_text *t = context;
    if (t->length < t->size)
        t->length +=
            (size_t)snprintf(t->text + t->length, t->size - t->length, "%s%s", t->length ? ", " : "", folder);
    return false;
}

char *gt__plugin_folders(char *text, size_t size)
{
    folders_text t = {.text = text, .size = size};
    text[0] = 0;
    each_folder(add_folder, &t);
    return text;
}

/* ---- loading ------------------------------------------------------------------------------------------------- */

static bool is_complete(const gt_engine_ops *ops)
{
    int program_parts = (ops->compile != NULL) + (ops->run_program != NULL) + (ops->free_program != NULL);
    return ops->open && ops->close && ops->memory_limit && ops->alloc && ops->release && ops->write && ops->read &&
           ops->run && (ops->completed || !ops->asynchronous) && (program_parts == 0 || program_parts == 3);
}

/* The handshake, before any code of the plug-in runs. `path` and `name` are for messages. Whatever is wrong, it is the
 * user's choice of a backend that is. */
static gt_err check_plugin(const gt_plugin *plugin, const char *name, const char *path)
{
    static const struct {
        const char *name;
        uint32_t size;
    } types[] = {
#define GT_PLUGIN_TYPE_ROW(type) {.name = #type, .size = sizeof(type)},
        GT_PLUGIN_TYPES(GT_PLUGIN_TYPE_ROW)
#undef GT_PLUGIN_TYPE_ROW
    };
    if (!plugin)
        return gt__fail(GT_ERR_VALUE, "backend '%s': %s is not an engine: it has no symbol " GT_PLUGIN_SYMBOL,
                        name, path);
    if (plugin->version != GT_ENGINE_VERSION)
        return gt__fail(GT_ERR_VALUE,
                        "backend '%s': %s is built for version %u of the engine interface, this is version %d",
                        name, path, (unsigned)plugin->version, GT_ENGINE_VERSION);
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
        if (plugin->sizes[k] != types[k].size)
            return gt__fail(GT_ERR_VALUE, "backend '%s': %s is built with another %s: %u bytes instead of %u",
                            name, path, types[k].name, (unsigned)plugin->sizes[k], (unsigned)types[k].size);
    if (!plugin->table_hash || !plugin->init)
        return gt__fail(GT_ERR_VALUE, "backend '%s': %s is not an engine: it has no %s function", name, path,
                        plugin->init ? "table_hash" : "init");
    if (plugin->table_hash() != gt__op_table_hash())
        return gt__fail(GT_ERR_VALUE, "backend '%s': %s is built with another op table", name, path);
    return GT_OK;
}

/* A library whose init was called. It is never unloaded, whatever came of it: threads that init started, engines and
 * their programs have code in it. */
typedef struct image {
    struct image *next;
    void *library;
    enum { IMAGE_STARTING, IMAGE_STARTED, IMAGE_FAILED } state;
    bool accepted; /* `ops` can be used */
    const gt_engine_ops *ops;
    char why[512]; /* FAILED: what init said */
} image;

static image *images;
/* Recursive: an engine that wraps another plug-in may look for it in its init. So an image that is STARTING while this
 * is locked is being started by this thread. */
static pthread_mutex_t loading = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

/* Check the plug-in and call its init. An error: init was not called. */
static gt_err start(void *library, const char *name, const char *path, image **started)
{
    const gt_plugin *plugin = dlsym(library, GT_PLUGIN_SYMBOL);
    GT_TRY(check_plugin(plugin, name, path));
    image *i = calloc(1, sizeof *i);
    if (!i)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    i->library = library;
    i->next = images;
    images = i; /* before init, which may come back here */
    gt__log_init();
    if (plugin->init(&host, &i->ops) == GT_OK) {
        i->state = IMAGE_STARTED;
    } else {
        i->state = IMAGE_FAILED;
        snprintf(i->why, sizeof i->why, "%s", gt_error_text());
    }
    *started = i;
    return GT_OK;
}

/* Whether the engine of a library can be used under this name. One file may have several names. */
static gt_err accept_engine(image *i, const char *name, const char *path)
{
    if (i->state == IMAGE_STARTING)
        return gt__fail(GT_ERR_VALUE, "backend '%s' is being loaded: it is not there before its init returns",
                        name);
    if (i->state == IMAGE_FAILED)
        return gt__fail(GT_ERR_VALUE, "backend '%s': %s cannot start: %s", name, path, i->why);
    if (!i->ops || !i->ops->name || strcmp(i->ops->name, name) != 0)
        return gt__fail(GT_ERR_VALUE, "backend '%s': the engine in %s has another name", name, path);
    if (!is_complete(i->ops))
        return gt__fail(GT_ERR_VALUE, "backend '%s': the engine in %s lacks functions", name, path);
    i->accepted = true;
    gt__log(GT_LOG_STATUS, "backend %s is the plug-in %s", name, path);
    return GT_OK;
}

static gt_err load(const char *name, const char *path, const gt_engine_ops **ops)
{
    struct stat file;
    if (stat(path, &file) == 0 && !S_ISREG(file.st_mode)) /* opening a pipe would block */
        return gt__fail(GT_ERR_VALUE, "backend '%s' cannot be loaded: %s is not a regular file", name, path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return gt__fail(GT_ERR_VALUE, "backend '%s' cannot be loaded: %s", name, dlerror());
    image *i = images;
    while (i && i->library != library)
        i = i->next;
    gt_err err = i ? GT_OK : start(library, name, path, &i);
    if (err)
        dlclose(library);
    else
        err = accept_engine(i, name, path);
    if (!err)
        *ops = i->ops;
    return err;
}

static gt_err find_or_load(const char *name, const gt_engine_ops **ops)
{
    for (const image *i = images; i; i = i->next)
        if (i->accepted && strcmp(i->ops->name, name) == 0) {
            *ops = i->ops;
            return GT_OK;
        }
    char file[sizeof FILE_PREFIX + MAX_NAME + sizeof FILE_SUFFIX], path[PATH_MAX];
    snprintf(file, sizeof file, FILE_PREFIX "%s" FILE_SUFFIX, name);
    return gt__plugin_file(file, path) ? load(name, path, ops) : GT_OK;
}

gt_err gt__plugin_find(const char *name, const gt_engine_ops **ops)
{
    *ops = NULL;
    pthread_mutex_lock(&loading);
    gt_err err = find_or_load(name, ops);
    pthread_mutex_unlock(&loading);
    return err;
}
