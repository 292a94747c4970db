/* config.c: the table of signals and its YAML. See config.h. */
#include "core/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "core/log.h"

enum {
    MAX_SIGNALS = 4096,
    MAX_MISSED = 64, /* a program that makes up names without end is not told of each */
};

/* ---- the table --------------------------------------------------------------------------------------------- */

void gt__config_free(gt_config *config)
{
    for (size_t k = 0; k < config->count; k++)
        free(config->signals[k]);
    free(config->signals);
    for (size_t k = 0; k < config->missed_count; k++)
        free(config->missed[k]);
    free(config->missed);
    gt__limit_table_free(&config->limits);
    *config = (gt_config){0};
}

static size_t find(const gt_config *config, const char *name)
{
    size_t at = 0;
    while (at < config->count && strcmp(config->signals[at]->name, name) != 0)
        at++;
    return at;
}

const gt_signal_config *gt__config_find(const gt_config *config, const char *name)
{
    size_t at = find(config, name);
    return at < config->count ? config->signals[at] : NULL;
}

/* It is shown in placements. */
static bool is_axis_name(const char *name)
{
    return *name &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(name);
}

/* The mesh of a signal: named axes, a worker for each place, and no dimension or axis used twice. */
static gt_err check_mesh(const gt_signal_config *signal)
{
    const char *place = signal->origin, *gap = *place ? ": " : "", *name = signal->name;
    const gt_mesh *mesh = &signal->mesh;
    int64_t count = 1;
    for (unsigned d = 0; d < mesh->rank; d++) {
        const gt_mesh_axis *axis = &mesh->axis[d];
        if (!is_axis_name(axis->name))
            return gt__fail(GT_ERR_VALUE, "%s%s%s: a mesh axis has a name of letters, digits, _ and -", place, gap,
                            name);
        if (axis->kind > GT_SPLIT || axis->size < 1 || axis->size > GT_MAX_PARTIES ||
            (count *= axis->size) > GT_MAX_PARTIES)
            return gt__fail(GT_ERR_VALUE, "%s%s%s: a mesh has axes of 1 to %d workers, and as many in all", place,
                            gap, name, GT_MAX_PARTIES);
        if (axis->kind == GT_SPLIT && (axis->axis < -GT_MAX_RANK || axis->axis >= GT_MAX_RANK))
            return gt__fail(GT_ERR_VALUE, "%s%s%s: axis %d is out of range; tensors have at most %d dimensions",
                            place, gap, name, axis->axis, GT_MAX_RANK);
        for (unsigned other = 0; other < d; other++) {
            if (strcmp(mesh->axis[other].name, axis->name) == 0)
                return gt__fail(GT_ERR_VALUE, "%s%s%s: mesh axis '%s' is there twice", place, gap, name,
                                axis->name);
            if (axis->kind == GT_SPLIT && mesh->axis[other].kind == GT_SPLIT &&
                mesh->axis[other].axis == axis->axis)
                return gt__fail(GT_ERR_VALUE,
                                "%s%s%s: axis %d is split along '%s' and '%s'; one mesh axis at most", place, gap,
                                name, axis->axis, mesh->axis[other].name, axis->name);
        }
    }
    if (signal->flags & (GT_CONFIG_AXIS | GT_CONFIG_REPLICATED))
        return gt__fail(GT_ERR_VALUE, "%s%s%s: a shard names mesh axes, or has axis or replicated, not both",
                        place, gap, name);
    if (signal->worker_count && signal->worker_count != count)
        return gt__fail(GT_ERR_VALUE, "%s%s%s: the mesh has %lld places, and workers lists %u", place, gap, name,
                        (long long)count, signal->worker_count);
    return GT_OK;
}

static gt_err check(const gt_signal_config *signal)
{
    const char *place = signal->origin, *gap = *place ? ": " : "";
    if (!*signal->name)
        return gt__fail(GT_ERR_VALUE, "%s%sa signal needs a name", place, gap);
    if (signal->flags & GT_CONFIG_AXIS && signal->flags & GT_CONFIG_REPLICATED)
        return gt__fail(GT_ERR_VALUE, "%s%s%s: a tensor cannot be replicated and split along an axis", place, gap,
                        signal->name);
    if (signal->flags & GT_CONFIG_AXIS && (signal->axis < -GT_MAX_RANK || signal->axis >= GT_MAX_RANK))
        return gt__fail(GT_ERR_VALUE, "%s%s%s: axis %lld is out of range; tensors have at most %d dimensions",
                        place, gap, signal->name, (long long)signal->axis, GT_MAX_RANK);
    if (signal->mesh.rank)
        GT_TRY(check_mesh(signal));
    for (unsigned k = 0; k < signal->worker_count; k++) {
        if (signal->workers[k] < 0)
            return gt__fail(GT_ERR_VALUE, "%s%s%s: worker %d is not a worker's number", place, gap, signal->name,
                            signal->workers[k]);
        for (unsigned other = 0; other < k; other++)
            if (signal->workers[other] == signal->workers[k])
                return gt__fail(GT_ERR_VALUE, "%s%s%s: worker %d is named twice", place, gap, signal->name,
                                signal->workers[k]);
    }
    return GT_OK;
}

/* A mesh is made of workers 0, 1, ... unless others are listed. */
static void name_workers(gt_signal_config *signal)
{
    if (!signal->mesh.rank || signal->worker_count)
        return;
    signal->worker_count = gt__mesh_count(&signal->mesh);
    for (unsigned k = 0; k < signal->worker_count; k++)
        signal->workers[k] = (int32_t)k;
}

gt_err gt__config_set(gt_config *config, const gt_signal_config *signal)
{
    GT_TRY(check(signal));
    size_t at = find(config, signal->name);
    if (at == config->count) {
        if (config->count == MAX_SIGNALS)
            return gt__fail(GT_ERR_VALUE, "%s%smore than %d signals", signal->origin, *signal->origin ? ": " : "",
                            MAX_SIGNALS);
        if (config->count == config->capacity) {
            size_t capacity = config->capacity ? 2 * config->capacity : 16;
            gt_signal_config **signals = realloc(config->signals, capacity * sizeof(*signals));
            if (!signals)
                return gt__fail(GT_ERR_MEMORY, "out of memory");
            config->signals = signals;
            config->capacity = capacity;
        }
        if (!(config->signals[at] = malloc(sizeof **config->signals)))
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        config->count++;
    }
    *config->signals[at] = *signal;
    name_workers(config->signals[at]);
    config->version++;
    return GT_OK;
}

/* ---- records ----------------------------------------------------------------------------------------------- */

void gt__config_write(const gt_signal_config *signal, gt_slot *record)
{
    unsigned workers = (signal->worker_count + 7) / 8, rank = signal->mesh.rank;
    unsigned tail = 2 * GT_NAME_SLOTS + workers + (rank + 1) / 2;
    memset(record, 0, (1 + tail) * sizeof *record);
    record->ins = (gt_instruction){.op = GT_OP_config, .flags = signal->flags, .tail = (uint16_t)tail};
    record->ins.rank = (uint8_t)rank;
    record->ins.imm[0].i = signal->axis;
    record->ins.imm[1].u = signal->worker_count;
    memcpy(record + 1, signal->name, sizeof signal->name);
    memcpy(record + 1 + GT_NAME_SLOTS, signal->backward, sizeof signal->backward);
    for (unsigned k = 0; k < signal->worker_count; k++)
        record[1 + 2 * GT_NAME_SLOTS + k / 8].i64[k % 8] = signal->workers[k];
    memcpy(record + 1 + 2 * GT_NAME_SLOTS + workers, signal->mesh.axis, rank * sizeof signal->mesh.axis[0]);
}

gt_err gt__config_read(const gt_slot *record, gt_signal_config *signal)
{
    *signal = (gt_signal_config){.flags = record->ins.flags, .axis = record->ins.imm[0].i};
    memcpy(signal->name, record + 1, GT_MAX_NAME);
    memcpy(signal->backward, record + 1 + GT_NAME_SLOTS, GT_MAX_NAME);
    signal->worker_count = (unsigned)record->ins.imm[1].u;
    for (unsigned k = 0; k < signal->worker_count; k++) {
        int64_t worker = record[1 + 2 * GT_NAME_SLOTS + k / 8].i64[k % 8];
        signal->workers[k] = worker >= 0 && worker <= INT32_MAX ? (int32_t)worker : -1;
    }
    signal->mesh.rank = record->ins.rank;
    memcpy(signal->mesh.axis, record + 1 + 2 * GT_NAME_SLOTS + (signal->worker_count + 7) / 8,
           signal->mesh.rank * sizeof signal->mesh.axis[0]);
    for (unsigned d = 0; d < signal->mesh.rank; d++)
        signal->mesh.axis[d].name[GT_MESH_NAME] = 0;
    return signal->flags & GT_CONFIG_AUTOMATIC ? GT_OK : check(signal);
}

/* ---- YAML -------------------------------------------------------------------------------------------------- */

typedef struct reader {
    yaml_document_t *document;
    const char *path;
    gt_config *config;
    gt_signal_config signal; /* the one being read */
    gt_limits *limits;       /* the section being read */
    gt_signal_config mesh;   /* the file's mesh and its workers */
} reader;

/* "config.yaml:12: forward_layer1: " and what is wrong. */
static gt_err refuse(const reader *r, const yaml_node_t *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static gt_err refuse(const reader *r, const yaml_node_t *node, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gt__fail(GT_ERR_VALUE, "%s:%zu: %s%s%s", r->path, node->start_mark.line + 1, r->signal.name,
                    *r->signal.name ? ": " : "", text);
}

/* NULL: a collection, or a text that C cannot hold. */
static const char *scalar(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE ||
        strlen((const char *)node->data.scalar.value) != node->data.scalar.length)
        return NULL;
    return (const char *)node->data.scalar.value;
}

/* What is quoted is a text, neither a number nor true or false. */
static const char *plain(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? scalar(node)
                                                                                                : NULL;
}

/* How an error shows a value of the wrong type. */
static const char *shown(const yaml_node_t *node, char text[64])
{
    if (node->type != YAML_SCALAR_NODE)
        return "a collection";
    snprintf(text, 64, plain(node) ? "'%.60s'" : "the text '%.48s'", (const char *)node->data.scalar.value);
    return text;
}

static gt_err read_name(const reader *r, const yaml_node_t *node, const char *what, char *name)
{
    const char *text = scalar(node);
    if (!text || !*text)
        return refuse(r, node, "%s must be a name", what);
    if (strlen(text) > GT_MAX_NAME)
        return refuse(r, node, "%s is longer than %d bytes", what, GT_MAX_NAME);
    strcpy(name, text);
    return GT_OK;
}

static gt_err read_integer(const reader *r, const yaml_node_t *node, const char *what, int64_t *value)
{
    const char *text = plain(node);
    char *end = NULL, is[64];
    errno = 0;
    *value = text && *text ? strtoll(text, &end, 10) : 0;
    if (!end || *end || errno)
        return refuse(r, node, "%s must be an integer, not %s", what, shown(node, is));
    return GT_OK;
}

static gt_err read_flag(const reader *r, const yaml_node_t *node, const char *what, uint8_t flag, uint8_t *flags)
{
    static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
    const char *text = plain(node);
    char is[64];
    for (size_t k = 0; text && k < sizeof yes / sizeof yes[0]; k++) {
        if (strcasecmp(text, yes[k]) == 0) {
            *flags |= flag;
            return GT_OK;
        }
        if (strcasecmp(text, no[k]) == 0)
            return GT_OK;
    }
    return refuse(r, node, "%s must be true or false, not %s", what, shown(node, is));
}

static gt_err read_workers(reader *r, const yaml_node_t *node, gt_signal_config *signal)
{
    if (node->type != YAML_SEQUENCE_NODE)
        return refuse(r, node, "workers must be a list of numbers, like [0, 1]");
    const yaml_node_item_t *first = node->data.sequence.items.start, *end = node->data.sequence.items.top;
    if (first == end)
        return refuse(r, node, "workers is empty; leave it out for all workers");
    if (end - first > GT_MAX_PARTIES)
        return refuse(r, node, "more than %d workers", GT_MAX_PARTIES);
    signal->worker_count = 0;
    for (const yaml_node_item_t *item = first; item < end; item++) {
        const yaml_node_t *number = yaml_document_get_node(r->document, *item);
        int64_t worker;
        GT_TRY(read_integer(r, number, "a worker", &worker));
        if (worker < 0 || worker > INT32_MAX)
            return refuse(r, number, "worker %lld is not a worker's number", (long long)worker);
        signal->workers[signal->worker_count++] = (int32_t)worker;
    }
    return GT_OK;
}

/* Calls `read` for each key of a mapping. */
static gt_err each_key(reader *r, const yaml_node_t *node, const char *what,
                       gt_err (*read)(reader *r, const yaml_node_t *key, const yaml_node_t *value))
{
    if (node->type != YAML_MAPPING_NODE)
        return refuse(r, node, "%s must be a mapping of keys to values", what);
    const yaml_node_pair_t *first = node->data.mapping.pairs.start, *end = node->data.mapping.pairs.top;
    for (const yaml_node_pair_t *pair = first; pair < end; pair++) {
        const yaml_node_t *key = yaml_document_get_node(r->document, pair->key);
        if (!scalar(key))
            return refuse(r, key, "%s: a key must be a name", what);
        for (const yaml_node_pair_t *before = first; before < pair; before++)
            if (strcmp(scalar(yaml_document_get_node(r->document, before->key)), scalar(key)) == 0)
                return refuse(r, key, "'%s' is there twice", scalar(key));
        GT_TRY(read(r, key, yaml_document_get_node(r->document, pair->value)));
    }
    return GT_OK;
}

static void set_origin(reader *r, const yaml_node_t *node)
{
    snprintf(r->signal.origin, sizeof r->signal.origin, "%s:%zu", r->path, node->start_mark.line + 1);
}

static bool is_dimension(const char *key)
{
    key += *key == '-';
    return *key && strspn(key, "0123456789") == strlen(key);
}

/* "data, model" */
static const char *axis_names(const gt_mesh *mesh, char text[GT_MESH_AXES * (GT_MESH_NAME + 2)])
{
    *text = 0;
    for (unsigned d = 0; d < mesh->rank; d++)
        sprintf(text + strlen(text), "%s%s", d ? ", " : "", mesh->axis[d].name);
    return text;
}

/* 0: data */
static gt_err read_mesh_shard(reader *r, const yaml_node_t *key, const yaml_node_t *value)
{
    gt_signal_config *signal = &r->signal;
    const char *name = scalar(value);
    int64_t dimension;
    unsigned d = 0;
    char names[GT_MESH_AXES * (GT_MESH_NAME + 2)];
    GT_TRY(read_integer(r, key, "a dimension", &dimension));
    if (!name || !*name)
        return refuse(r, value, "dimension %s must be the name of a mesh axis", scalar(key));
    if (!r->mesh.mesh.rank)
        return refuse(r, value, "'%s' is an axis of a mesh, and the file has none, like mesh: {%s: 4}", name,
                      name);
    if (dimension < -GT_MAX_RANK || dimension >= GT_MAX_RANK)
        return refuse(r, key, "axis %lld is out of range; tensors have at most %d dimensions",
                      (long long)dimension, GT_MAX_RANK);
    if (!signal->mesh.rank) {
        signal->mesh = r->mesh.mesh;
        if (!signal->worker_count) {
            signal->worker_count = r->mesh.worker_count;
            memcpy(signal->workers, r->mesh.workers, sizeof signal->workers);
        }
    }
    while (d < signal->mesh.rank && strcmp(signal->mesh.axis[d].name, name) != 0)
        d++;
    if (d == signal->mesh.rank)
        return refuse(r, value, "the mesh has no axis '%s'; there are %s", name, axis_names(&signal->mesh, names));
    if (signal->mesh.axis[d].kind == GT_SPLIT)
        return refuse(r, value, "mesh axis '%s' is used twice", name);
    signal->mesh.axis[d].kind = GT_SPLIT;
    signal->mesh.axis[d].axis = (int8_t)dimension;
    return GT_OK;
}

static gt_err read_shard_value(reader *r, const yaml_node_t *key, const yaml_node_t *value)
{
    const char *name = scalar(key);
    if (strcmp(name, "axis") == 0) {
        r->signal.flags |= GT_CONFIG_AXIS;
        return read_integer(r, value, "axis", &r->signal.axis);
    }
    if (strcmp(name, "workers") == 0)
        return read_workers(r, value, &r->signal);
    if (is_dimension(name))
        return read_mesh_shard(r, key, value);
    if (strcmp(name, "replicated") == 0)
        return read_flag(r, value, "replicated", GT_CONFIG_REPLICATED, &r->signal.flags);
    return refuse(r, key, "unknown key '%s' of shard; there are axis, workers, replicated and dimensions", name);
}

/* Checked at once, so that an error names the line of the key that made it one. */
static gt_err read_shard_key(reader *r, const yaml_node_t *key, const yaml_node_t *value)
{
    GT_TRY(read_shard_value(r, key, value));
    set_origin(r, key);
    return check(&r->signal);
}

static gt_err read_schedule(reader *r, const yaml_node_t *node)
{
    const char *text = scalar(node);
    char is[64];
    if (text && strcasecmp(text, "gpipe") == 0)
        r->signal.flags |= GT_CONFIG_GPIPE;
    else if (text && strcasecmp(text, "1f1b") == 0)
        r->signal.flags |= GT_CONFIG_1F1B;
    else
        return refuse(r, node, "schedule must be gpipe or 1f1b, not %s", shown(node, is));
    return GT_OK;
}

static gt_err read_signal_key(reader *r, const yaml_node_t *key, const yaml_node_t *value)
{
    const char *name = scalar(key);
    if (strcmp(name, "shard") == 0) {
        r->signal.flags |= GT_CONFIG_SHARD;
        return each_key(r, value, "shard", read_shard_key);
    }
    if (strcmp(name, "backward") == 0)
        return read_name(r, value, "backward", r->signal.backward);
    if (strcmp(name, "compile") == 0)
        return read_flag(r, value, "compile", GT_CONFIG_COMPILE, &r->signal.flags);
    if (strcmp(name, "schedule") == 0)
        return read_schedule(r, value);
    return refuse(r, key, "unknown key '%s'; there are shard, backward, compile and schedule", name);
}

/* ---- limits: in YAML ---------------------------------------------------------------------------------------- */

static gt_err read_limit(reader *r, const yaml_node_t *key, const yaml_node_t *value)
{
    gt_limit which = gt__limit_find(scalar(key));
    char is[64];
    if (which == GT_LIMIT_COUNT)
        return refuse(r, key,
                      "unknown limit '%s'; there are max-memory, max-tensors, max-queued, max-connections, "
                      "max-user-memory, max-user-tensors, max-user-connections and users",
                      scalar(key));
    if (!scalar(value) || !gt__limit_parse(which, scalar(value), &r->limits->most[which]))
        return refuse(r, value, "%s must be %s or none, not %s", scalar(key),
                      gt__limit_is_bytes(which) ? "bytes, as 4G or 4096" : "a whole number from 1 on",
                      shown(value, is));
    return GT_OK;
}

static gt_err read_user(reader *r, const yaml_node_t *key, const yaml_node_t *value)
{
    if (!*scalar(key) || strlen(scalar(key)) >= sizeof r->config->limits.users->name)
        return refuse(r, key, "a user has a name of 1 to %zu bytes", sizeof r->config->limits.users->name - 1);
    r->limits = gt__limit_table_user(&r->config->limits, scalar(key), true);
    return r->limits ? each_key(r, value, "the limits of a user", read_limit)
                     : gt__fail(GT_ERR_MEMORY, "out of memory");
}

static gt_err read_limits(reader *r, const yaml_node_t *key, const yaml_node_t *value)
{
    if (strcmp(scalar(key), "users") == 0)
        return each_key(r, value, "users", read_user);
    r->limits = &r->config->limits.all;
    return read_limit(r, key, value);
}

/* ---- mesh: in YAML ------------------------------------------------------------------------------------------ */

static gt_err read_mesh_axis(reader *r, const yaml_node_t *key, const yaml_node_t *value)
{
    gt_mesh *mesh = &r->mesh.mesh;
    const char *name = scalar(key);
    int64_t size;
    if (strcmp(name, "workers") == 0)
        return read_workers(r, value, &r->mesh);
    if (mesh->rank == GT_MESH_AXES)
        return refuse(r, key, "a mesh has at most %d axes", GT_MESH_AXES);
    if (!*name || strlen(name) > GT_MESH_NAME)
        return refuse(r, key, "a mesh axis has a name of 1 to %d bytes", GT_MESH_NAME);
    GT_TRY(read_integer(r, value, name, &size));
    if (size < 1 || gt__mesh_count(mesh) * size > GT_MAX_PARTIES || size > GT_MAX_PARTIES)
        return refuse(r, value, "mesh axis '%s' of %lld: there are 1 to %d workers", name, (long long)size,
                      GT_MAX_PARTIES);
    gt_mesh_axis *axis = &mesh->axis[mesh->rank++];
    *axis = (gt_mesh_axis){.size = (int32_t)size};
    strcpy(axis->name, name);
    return GT_OK;
}

/* Before the signals, which may come before it in the file. */
static gt_err read_mesh(reader *r, const yaml_node_t *root)
{
    const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
    for (; root->type == YAML_MAPPING_NODE && pair < root->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(r->document, pair->key);
        if (!scalar(key) || strcmp(scalar(key), "mesh") != 0)
            continue;
        GT_TRY(each_key(r, yaml_document_get_node(r->document, pair->value), "mesh", read_mesh_axis));
        if (!r->mesh.mesh.rank)
            return refuse(r, key, "a mesh has axes and their sizes, like mesh: {data: 4, model: 2}");
        snprintf(r->mesh.name, sizeof r->mesh.name, "mesh");
        snprintf(r->mesh.origin, sizeof r->mesh.origin, "%s:%zu", r->path, key->start_mark.line + 1);
        return check(&r->mesh);
    }
    return GT_OK;
}

static gt_err read_signal(reader *r, const yaml_node_t *key, const yaml_node_t *value)
{
    r->signal = (gt_signal_config){0};
    if (scalar(key) && strcmp(scalar(key), "limits") == 0)
        return each_key(r, value, "limits", read_limits);
    if (scalar(key) && strcmp(scalar(key), "mesh") == 0)
        return GT_OK; /* read before */
    GT_TRY(read_name(r, key, "a signal", r->signal.name));
    GT_TRY(each_key(r, value, "a signal", read_signal_key));
    set_origin(r, key);
    gt_err err = gt__config_set(r->config, &r->signal);
    *r->signal.name = 0;
    return err;
}

/* *more: there was a document, another one may follow. */
static gt_err read_document(gt_config *config, const char *path, yaml_parser_t *parser, bool first, bool *more)
{
    yaml_document_t document;
    if (!yaml_parser_load(parser, &document))
        return gt__fail(GT_ERR_VALUE, "%s:%zu: %s", path, parser->problem_mark.line + 1,
                        parser->problem ? parser->problem : "this is not YAML");
    reader r = {.document = &document, .path = path, .config = config};
    const yaml_node_t *root = yaml_document_get_root_node(&document);
    gt_err err = GT_OK;
    *more = root;
    if (root && !first)
        err = refuse(&r, root, "a second document; a config is one");
    else if (root && !(plain(root) && !*plain(root))) /* an empty file says nothing */
        err = read_mesh(&r, root) == GT_OK ? each_key(&r, root, "the file", read_signal) : GT_ERR_VALUE;
    yaml_document_delete(&document);
    return err;
}

static gt_err read_file(gt_config *config, const char *path, FILE *file)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    yaml_parser_set_input_file(&parser, file);
    bool more = true, first = true;
    gt_err err = GT_OK;
    for (; more && err == GT_OK; first = false)
        err = read_document(config, path, &parser, first, &more);
    yaml_parser_delete(&parser);
    return err;
}

static void warn_of_backward(const gt_config *config, const gt_config *loaded)
{
    for (size_t k = 0; k < loaded->count; k++) {
        const gt_signal_config *signal = loaded->signals[k];
        if (*signal->backward && !gt__config_find(config, signal->backward))
            gt__log_warning("%s: %s: its backward signal '%s' is not in the config; its gradients are placed as "
                            "'%s' says",
                            signal->origin, signal->name, signal->backward, signal->name);
    }
}

gt_err gt__config_load(gt_config *config, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return gt__fail(GT_ERR_VALUE, "cannot read the config %s: %s", path, strerror(errno));
    gt_config loaded = {0};
    gt_err err = read_file(&loaded, path, file);
    fclose(file);
    if (err == GT_OK && config->count + loaded.count > MAX_SIGNALS)
        err = gt__fail(GT_ERR_VALUE, "%s: more than %d signals", path, MAX_SIGNALS);
    for (size_t k = 0; k < loaded.count && err == GT_OK; k++)
        err = gt__config_set(config, loaded.signals[k]);
    if (err == GT_OK) {
        snprintf(config->file, sizeof config->file, "%s", path);
        gt__limit_table_free(&config->limits);
        config->limits = loaded.limits;
        loaded.limits = (gt_limit_table){0};
        warn_of_backward(config, &loaded);
    }
    gt__config_free(&loaded);
    return err;
}

bool gt__config_misses(gt_config *config, const char *name, char *warning, size_t size)
{
    if (!*config->file || config->missed_count == MAX_MISSED || gt__config_find(config, name))
        return false;
    for (size_t k = 0; k < config->missed_count; k++)
        if (strcmp(config->missed[k], name) == 0)
            return false;
    char **missed = realloc(config->missed, (config->missed_count + 1) * sizeof *missed);
    char *copy = missed ? strdup(name) : NULL;
    config->missed = missed ? missed : config->missed;
    if (!copy)
        return false;
    config->missed[config->missed_count++] = copy;
    snprintf(warning, size, "signal '%s' is not in the config (%s) and has no effect", name, config->file);
    for (char *at = warning; *at; at++) /* a client's name on a server's terminal */
        if ((unsigned char)*at < ' ' || *at == 127)
            *at = '?';
    return true;
}
