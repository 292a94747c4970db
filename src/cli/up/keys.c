/* keys.c: see keys.h. Used by up.c. */
#include "cli/up/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/array.h"
#include "link/keys.h"

enum { MOST_FILE = 1 << 20 };

void gt__up_key_path(const gt_cluster *cluster, const gt_up_host *host, const char *name, char path[GT_UP_PATH])
{
    if (host)
        snprintf(path, GT_UP_PATH, "%s/worker-%s.key", cluster->keys, host->folder);
    else
        snprintf(path, GT_UP_PATH, "%s/%s", cluster->keys, name);
}

/* Read a file of keys, or make it. `server`: the server's public key, for others than the server; NULL: none. */
static gt_err read_or_make(const char *path, const char *server, gt_keys *keys)
{
    if (!access(path, F_OK)) {
        GT_TRY(gt__keys_read(path, keys));
        if (server && strcmp(keys->server, server) != 0)
            return gt__fail(GT_ERR_VALUE, "%s is for a server with another key; remove it to have a new one",
                            path);
        return GT_OK;
    }
    *keys = (gt_keys){0};
    if (server)
        snprintf(keys->server, sizeof keys->server, "%s", server);
    GT_TRY(gt__keys_make(keys));
    return gt__keys_write(path, keys);
}

gt_err gt__up_keys(gt_cluster *cluster)
{
    char path[GT_UP_PATH];
    gt_keys server, other;
    if (mkdir(cluster->keys, 0700) && errno != EEXIST)
        return gt__fail(GT_ERR_VALUE, "cannot make the folder %s: %s", cluster->keys, strerror(errno));
    gt__up_key_path(cluster, NULL, "server.key", path);
    GT_TRY(read_or_make(path, NULL, &server));
    explicit_bzero(server.secret, sizeof server.secret);
    gt__up_key_path(cluster, NULL, "client.key", path);
    GT_TRY(read_or_make(path, server.public_key, &other));
    for (size_t k = 1; k < cluster->host_count; k++) {
        gt__up_key_path(cluster, &cluster->hosts[k], NULL, path);
        GT_TRY(read_or_make(path, server.public_key, &other));
        snprintf(cluster->hosts[k].public_key, sizeof cluster->hosts[k].public_key, "%s", other.public_key);
    }
    explicit_bzero(other.secret, sizeof other.secret);
    return GT_OK;
}

gt_err gt__up_allowed(const gt_cluster *cluster, char **text)
{
    char path[GT_UP_PATH], *more = NULL;
    gt_keys client;
    gt_allowed *checked; /* a mistake in the user's list is found here and not on the host */
    if (cluster->server.allow) {
        GT_TRY(gt__allowed_read(cluster->server.allow, &checked));
        gt__allowed_free(checked);
        GT_TRY(gt__up_read_file(cluster->server.allow, &more));
    }
    gt__up_key_path(cluster, NULL, "client.key", path);
    gt_err err = gt__keys_read(path, &client);
    if (err != GT_OK) {
        free(more);
        return err;
    }
    explicit_bzero(client.secret, sizeof client.secret);
    size_t length;
    FILE *out = open_memstream(text, &length);
    if (!out)
        gt__out_of_memory();
    fprintf(out, "client %s client\n", client.public_key);
    for (size_t k = 1; k < cluster->host_count; k++)
        fprintf(out, "worker %s %s\n", cluster->hosts[k].public_key, cluster->hosts[k].folder);
    if (more)
        fputs(more, out);
    free(more);
    fclose(out);
    return GT_OK;
}

gt_err gt__up_read_file(const char *path, char **text)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return gt__fail(GT_ERR_VALUE, "cannot read %s: %s", path, strerror(errno));
    char *read = gt__zeroed(MOST_FILE + 1, 1);
    size_t bytes = fread(read, 1, MOST_FILE, file);
    bool whole = !ferror(file) && bytes < MOST_FILE && strlen(read) == bytes;
    fclose(file);
    if (!whole) {
        free(read);
        return gt__fail(GT_ERR_VALUE, "%s is not a text file below 1 MiB", path);
    }
    *text = read;
    return GT_OK;
}
