/* hosts.c: see hosts.h. Place in the flow: hosts.yaml -> here -> up.c. */
#include "cli/up/hosts.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/array.h"
#include "cli/cli.h"
#include "core/instruction.h"

typedef struct reader {
    const char *path;
    gt_cluster *cluster;
} reader;

static gt_err refuse(const reader *r, const yaml_node_t *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static gt_err refuse(const reader *r, const yaml_node_t *node, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gt__fail(GT_ERR_VALUE, "%s:%zu: %s", r->path, node->start_mark.line + 1, text);
}

/* ---- values ------------------------------------------------------------------------------------------------- */

/* Put the value of `key` at the target. */
typedef gt_err (*take_value)(reader *r, const char *key, const yaml_node_t *node, void *target);

typedef struct field {
    const char *key;
    take_value take;
    size_t offset; /* of the target in its structure */
} field;

static yaml_node_t *node_at(const reader *r, int id)
{
    return yaml_document_get_node(&r->cluster->document, id);
}

/* A text of one line: names, paths and options end up in scripts and in lines of output. */
static const char *line_of(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE)
        return NULL;
    const char *text = (const char *)node->data.scalar.value;
    return strlen(text) == node->data.scalar.length && !strpbrk(text, "\r\n") ? text : NULL;
}

static gt_err take_text(reader *r, const char *key, const yaml_node_t *node, void *target)
{
    const char *text = line_of(node);
    if (!text || !*text)
        return refuse(r, node, "%s must be a text of one line", key);
    *(const char **)target = text;
    return GT_OK;
}

static gt_err take_host(reader *r, const char *key, const yaml_node_t *node, void *target)
{
    GT_TRY(take_text(r, key, node, target));
    const char *host = *(const char **)target;
    if (*host == '-' || strlen(host) > 120)
        return refuse(r, node, "%s: '%.60s' is not the name of a host", key, host);
    for (const char *at = host; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("@._-:[]%", *at))
            return refuse(r, node, "%s: '%.60s' is not the name of a host", key, host);
    return GT_OK;
}

static bool whole_number(const char *text, size_t length, long most, int *value)
{
    long number = 0;
    for (size_t k = 0; k < length; k++) {
        if (!isdigit((unsigned char)text[k]) || (number = 10 * number + (text[k] - '0')) > most)
            return false;
    }
    *value = (int)number;
    return length > 0;
}

static gt_err take_number(reader *r, const char *key, const yaml_node_t *node, int least, int most, void *target)
{
    const char *text = line_of(node);
    int value = 0;
    if (!text || !whole_number(text, strlen(text), most, &value) || value < least)
        return refuse(r, node, "%s must be a number from %d to %d", key, least, most);
    *(int *)target = value;
    return GT_OK;
}

static gt_err take_port(reader *r, const char *key, const yaml_node_t *node, void *target)
{
    return take_number(r, key, node, 0, 65535, target);
}

static gt_err take_count(reader *r, const char *key, const yaml_node_t *node, void *target)
{
    return take_number(r, key, node, 1, GT_MAX_PARTIES, target);
}

static gt_err take_threads(reader *r, const char *key, const yaml_node_t *node, void *target)
{
    return take_number(r, key, node, 1, 1024, target);
}

/* `4` or `4-7`, into an entry. */
static gt_err take_index(reader *r, const char *key, const yaml_node_t *node, void *target)
{
    gt_up_entry *entry = target;
    const char *text = line_of(node), *dash = text ? strchr(text, '-') : NULL;
    int most = GT_MAX_PARTIES - 1;
    bool good = text && whole_number(text, dash ? (size_t)(dash - text) : strlen(text), most, &entry->first);
    if (good && dash)
        good = whole_number(dash + 1, strlen(dash + 1), most, &entry->last) && entry->last >= entry->first;
    return good ? GT_OK : refuse(r, node, "%s must be a number or a range such as 0-3, up to %d", key, most);
}

static gt_err take_texts(reader *r, const char *key, const yaml_node_t *node, void *target)
{
    gt_texts *texts = target;
    if (node->type != YAML_SEQUENCE_NODE)
        return refuse(r, node, "%s must be a list: [a, b]", key);
    for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++) {
        const char *text = line_of(node_at(r, *item));
        if (!text)
            return refuse(r, node_at(r, *item), "%s must be a list of texts of one line", key);
        *GT_PUSH(texts->items, texts->count, texts->capacity) = text;
    }
    return GT_OK;
}

static bool variable_name(const char *text)
{
    if (!text || (!isalpha((unsigned char)*text) && *text != '_'))
        return false;
    while (isalnum((unsigned char)*text) || *text == '_')
        text++;
    return !*text;
}

static gt_err take_variables(reader *r, const char *key, const yaml_node_t *node, void *target)
{
    gt_variables *variables = target;
    if (node->type != YAML_MAPPING_NODE)
        return refuse(r, node, "%s must be a mapping: {NAME: value}", key);
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
        const char *name = line_of(node_at(r, pair->key)), *value = line_of(node_at(r, pair->value));
        if (!variable_name(name) || !value)
            return refuse(r, node_at(r, pair->key), "%s must have names of variables and texts of one line", key);
        *GT_PUSH(variables->items, variables->count, variables->capacity) =
            (gt_variable){.name = name, .value = value};
    }
    return GT_OK;
}

/* ---- mappings ----------------------------------------------------------------------------------------------- */

static gt_err read_mapping(reader *r, const yaml_node_t *node, const char *what, const field *fields, void *target)
{
    if (node->type != YAML_MAPPING_NODE)
        return refuse(r, node, "%s must be a mapping", what);
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = node_at(r, pair->key);
        const char *name = line_of(key);
        const field *found = fields;
        while (found->key && (!name || strcmp(name, found->key)))
            found++;
        if (!found->key)
            return refuse(r, key, "%s: unknown key '%.40s'", what, name ? name : "");
        GT_TRY(found->take(r, found->key, node_at(r, pair->value), (char *)target + found->offset));
    }
    return GT_OK;
}

#define FIELD(name, take_)                                                                                        \
    {                                                                                                             \
        .key = #name, .take = take_, .offset = offsetof(gt_up_entry, name)                                        \
    }

static gt_err take_server(reader *r, const char *key, const yaml_node_t *node, void *target)
{
    static const field fields[] = {
        FIELD(host, take_host),     FIELD(gt, take_text),
        FIELD(options, take_texts), FIELD(environment, take_variables),
        FIELD(address, take_host),  FIELD(bind, take_host),
        FIELD(config, take_text),   FIELD(allow, take_text),
        FIELD(port, take_port),     {0},
    };
    gt_up_entry *server = target;
    GT_TRY(read_mapping(r, node, key, fields, server));
    return server->host ? GT_OK : refuse(r, node, "server needs a host");
}

static gt_err read_worker(reader *r, const yaml_node_t *node)
{
    static const field fields[] = {
        FIELD(host, take_host),
        FIELD(gt, take_text),
        FIELD(options, take_texts),
        FIELD(environment, take_variables),
        FIELD(backend, take_text),
        FIELD(listen, take_host),
        FIELD(count, take_count),
        FIELD(threads, take_threads),
        {.key = "index", .take = take_index, .offset = 0},
        {0},
    };
    gt_cluster *cluster = r->cluster;
    gt_up_entry *entry = GT_PUSH(cluster->entries, cluster->entry_count, cluster->entry_capacity);
    *entry = (gt_up_entry){.first = -1, .last = -1};
    GT_TRY(read_mapping(r, node, "an entry of workers", fields, entry));
    if (!entry->host)
        return refuse(r, node, "an entry of workers needs a host");
    int in_range = entry->last < 0 ? 0 : entry->last - entry->first + 1;
    if (in_range && entry->count && entry->count != in_range)
        return refuse(r, node, "index %d-%d are %d workers, but count is %d", entry->first, entry->last, in_range,
                      entry->count);
    if (!entry->count)
        entry->count = in_range ? in_range : 1;
    return GT_OK;
}

static gt_err take_workers(reader *r, const char *key, const yaml_node_t *node, void *target)
{
    (void)target;
    if (node->type != YAML_SEQUENCE_NODE)
        return refuse(r, node, "%s must be a list: [{host: ...}]", key);
    for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++)
        GT_TRY(read_worker(r, node_at(r, *item)));
    return GT_OK;
}

static gt_err take_ssh(reader *r, const char *key, const yaml_node_t *node, void *target)
{
    static const field fields[] = {
        {.key = "program", .take = take_text, .offset = offsetof(gt_cluster, ssh)},
        {.key = "options", .take = take_texts, .offset = offsetof(gt_cluster, ssh_options)},
        {0},
    };
    return read_mapping(r, node, key, fields, target);
}

static gt_err take_name(reader *r, const char *key, const yaml_node_t *node, void *target)
{
    GT_TRY(take_text(r, key, node, target));
    const char *name = *(const char **)target;
    for (const char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-", *at))
            name = ".";
    return *name != '.' && strlen(name) < 64
               ? GT_OK
               : refuse(r, node, "%s must be a short name of letters, digits, _ and -", key);
}

static gt_err read_top(reader *r, const yaml_node_t *node)
{
    static const field fields[] = {
        {.key = "name", .take = take_name, .offset = offsetof(gt_cluster, name)},
        {.key = "gt", .take = take_text, .offset = offsetof(gt_cluster, gt)},
        {.key = "directory", .take = take_text, .offset = offsetof(gt_cluster, directory)},
        {.key = "keys", .take = take_text, .offset = offsetof(gt_cluster, keys)},
        {.key = "environment", .take = take_variables, .offset = offsetof(gt_cluster, environment)},
        {.key = "server", .take = take_server, .offset = offsetof(gt_cluster, server)},
        {.key = "workers", .take = take_workers, .offset = 0},
        {.key = "ssh", .take = take_ssh, .offset = 0},
        {0},
    };
    gt_cluster *cluster = r->cluster;
    GT_TRY(read_mapping(r, node, "the file", fields, cluster));
    if (!cluster->server.host)
        return refuse(r, node, "the key server is missing");
    return cluster->entry_count ? GT_OK : refuse(r, node, "there are no workers");
}

/* ---- what follows from it ----------------------------------------------------------------------------------- */

/* The host of this name, made at its first use. The array has room for all, so that pointers stay. */
static gt_up_host *host_of(gt_cluster *cluster, const char *name)
{
    for (size_t k = 0; k < cluster->host_count; k++)
        if (!strcmp(cluster->hosts[k].name, name))
            return &cluster->hosts[k];
    gt_up_host *host = &cluster->hosts[cluster->host_count++];
    *host = (gt_up_host){.name = name, .local = !strcmp(name, "localhost")};
    snprintf(host->folder, sizeof host->folder, "%s", name);
    for (char *at = host->folder; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-", *at))
            *at = '_';
    return host;
}

/* The next `count` indices that no entry has asked for. */
static int free_index(const bool taken[GT_MAX_PARTIES], int count)
{
    for (int first = 0, length = 0; first + length < GT_MAX_PARTIES;)
        if (taken[first + length]) {
            first += length + 1;
            length = 0;
        } else if (++length == count)
            return first;
    return -1;
}

static gt_err number_workers(gt_cluster *cluster)
{
    bool taken[GT_MAX_PARTIES] = {0};
    for (int said = 1; said >= 0; said--) /* first those whose indices the file has */
        for (size_t k = 0; k < cluster->entry_count; k++) {
            gt_up_entry *entry = &cluster->entries[k];
            if ((entry->first >= 0) != said)
                continue;
            if (!said)
                entry->first = free_index(taken, entry->count);
            if (entry->first < 0 || entry->first + entry->count > GT_MAX_PARTIES)
                return gt__fail(GT_ERR_VALUE, "%s: there are more than %d workers", cluster->path, GT_MAX_PARTIES);
            for (int index = entry->first; index < entry->first + entry->count; index++) {
                if (taken[index])
                    return gt__fail(GT_ERR_VALUE, "%s: two workers have the index %d", cluster->path, index);
                taken[index] = true;
            }
            entry->last = -1;
        }
    return GT_OK;
}

static void make_parts(gt_cluster *cluster)
{
    size_t count = 1;
    for (size_t k = 0; k < cluster->entry_count; k++)
        count += (size_t)cluster->entries[k].count;
    cluster->hosts = gt__zeroed(cluster->entry_count + 1, sizeof *cluster->hosts);
    cluster->parts = gt__zeroed(count, sizeof *cluster->parts);
    cluster->parts[cluster->part_count++] = (gt_up_part){
        .entry = &cluster->server, .host = host_of(cluster, cluster->server.host), .name = "server", .index = -1};
    for (size_t k = 0; k < cluster->entry_count; k++) {
        const gt_up_entry *entry = &cluster->entries[k];
        gt_up_host *host = host_of(cluster, entry->host);
        for (int index = entry->first; index < entry->first + entry->count; index++) {
            gt_up_part *part = &cluster->parts[cluster->part_count++];
            *part = (gt_up_part){.entry = entry, .host = host, .index = index, .nth = host->workers++};
            snprintf(part->name, sizeof part->name, "worker_%d", index);
        }
    }
}

/* The file's name without folder and ending names the cluster; the keys lie beside the file. */
static void set_defaults(gt_cluster *cluster)
{
    const char *slash = strrchr(cluster->path, '/'), *base = slash ? slash + 1 : cluster->path;
    const char *dot = strrchr(base, '.');
    int stem = (int)(dot && dot > base ? dot - cluster->path : (long)strlen(cluster->path));
    snprintf(cluster->default_name, sizeof cluster->default_name, "%.*s", stem - (int)(base - cluster->path),
             base);
    for (char *at = cluster->default_name; *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '-')
            *at = '_';
    snprintf(cluster->default_keys, sizeof cluster->default_keys, "%.*s.keys", stem, cluster->path);
    if (!cluster->name)
        cluster->name = cluster->default_name;
    if (!cluster->keys)
        cluster->keys = cluster->default_keys;
}

/* How the server is reached: without keys only if everything is on this host. */
static void set_address(gt_cluster *cluster)
{
    gt_up_entry *server = &cluster->server;
    bool local = true;
    for (size_t k = 0; k < cluster->host_count; k++)
        local = local && cluster->hosts[k].local;
    if (!server->bind)
        server->bind = local ? "localhost" : "0.0.0.0";
    cluster->secure = !local || strcmp(server->bind, "localhost") != 0;
    if (server->address)
        return;
    const char *at = strrchr(server->host, '@');
    server->address = at ? at + 1 : server->host;
    if (cluster->hosts[0].local && cluster->secure &&
        !gethostname(cluster->default_address, sizeof cluster->default_address - 1))
        server->address = cluster->default_address;
}

gt_err gt__cluster_read(const char *path, gt_cluster *cluster)
{
    *cluster = (gt_cluster){.path = path, .gt = "gt", .directory = ".gt", .ssh = "ssh"};
    cluster->server.port = GT_DEFAULT_PORT;
    FILE *file = fopen(path, "re");
    if (!file)
        return gt__fail(GT_ERR_VALUE, "cannot read %s: %s", path, strerror(errno));
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        gt__out_of_memory();
    yaml_parser_set_input_file(&parser, file);
    reader r = {.path = path, .cluster = cluster};
    gt_err err = GT_OK;
    if (!yaml_parser_load(&parser, &cluster->document))
        err = gt__fail(GT_ERR_VALUE, "%s:%zu: %s", path, parser.problem_mark.line + 1,
                       parser.problem ? parser.problem : "not YAML");
    yaml_parser_delete(&parser);
    fclose(file);
    GT_TRY(err);
    const yaml_node_t *root = yaml_document_get_root_node(&cluster->document);
    if (!root)
        return gt__fail(GT_ERR_VALUE, "%s is empty", path);
    GT_TRY(read_top(&r, root));
    GT_TRY(number_workers(cluster));
    set_defaults(cluster);
    make_parts(cluster);
    set_address(cluster);
    return GT_OK;
}

static void free_entry(gt_up_entry *entry)
{
    free(entry->options.items);
    free(entry->environment.items);
}

void gt__cluster_free(gt_cluster *cluster)
{
    free_entry(&cluster->server);
    for (size_t k = 0; k < cluster->entry_count; k++)
        free_entry(&cluster->entries[k]);
    free(cluster->entries);
    free(cluster->environment.items);
    free(cluster->ssh_options.items);
    free(cluster->hosts);
    free(cluster->parts);
    yaml_document_delete(&cluster->document);
}
