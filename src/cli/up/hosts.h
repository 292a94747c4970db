/*
 * hosts.h: the file of hosts that `gt up` reads: where the server and the workers run, and how these hosts are reached.
 * docs/cluster.md has its keys. Texts are borrowed from the YAML document that the cluster keeps.
 */
#ifndef GT_CLI_UP_HOSTS_H
#define GT_CLI_UP_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

#include "core/error.h"

typedef struct gt_texts {
    const char **items;
    size_t count, capacity;
} gt_texts;

typedef struct gt_variable {
    const char *name, *value;
} gt_variable;

typedef struct gt_variables {
    gt_variable *items;
    size_t count, capacity;
} gt_variables;

/* The server, or an entry of `workers`; an entry may stand for several workers. */
typedef struct gt_up_entry {
    const char *host; /* as ssh takes it: a name, user@name or an alias; localhost: without ssh */
    const char *gt;   /* the program there; NULL: the cluster's */
    gt_texts options; /* more for gt server or gt worker */
    gt_variables environment;
    /* the server alone */
    const char *address; /* by which workers and clients reach it */
    const char *bind;    /* address it listens at */
    const char *config;  /* local file with the meaning of signals; NULL: none */
    const char *allow;   /* local file with further keys to admit; NULL: none */
    int port;
    /* workers alone */
    const char *backend; /* NULL: the default */
    const char *listen;  /* as gt worker --listen; "none": no port; NULL: chosen */
    int count, threads;  /* 0: not said */
    int first, last;     /* indices; -1: not said */
} gt_up_entry;

typedef struct gt_up_host {
    const char *name;
    bool local;          /* no ssh */
    char folder[128];    /* `name` as a file name */
    unsigned workers;    /* that run there */
    char public_key[64]; /* of its workers; "": they need no key */
} gt_up_host;

/* One process. */
typedef struct gt_up_part {
    const gt_up_entry *entry;
    gt_up_host *host;
    char name[32]; /* server, or worker_<index> */
    int index;     /* -1: the server */
    unsigned nth;  /* of the workers of this host */
    /* what is known of it, see up.c */
    bool runs, ended, joined, started_now;
    char pid[16], engine[32], trouble[512];
} gt_up_part;

typedef struct gt_cluster {
    const char *path;
    const char *name, *gt, *directory, *keys; /* directory: on the hosts; keys: a folder here */
    const char *ssh;
    gt_texts ssh_options;
    gt_variables environment;
    gt_up_entry server;
    gt_up_entry *entries;
    size_t entry_count, entry_capacity;
    gt_up_host *hosts; /* the server's first */
    size_t host_count, host_capacity;
    gt_up_part *parts; /* the server first, then the workers by entry */
    size_t part_count;
    bool secure; /* links need keys */
    char default_name[64], default_keys[4096], default_address[256];
    yaml_document_t document;
} gt_cluster;

/* Read the file; errors name its line. The caller frees the cluster in any case. `path` is borrowed. */
gt_err gt__cluster_read(const char *path, gt_cluster *cluster);
void gt__cluster_free(gt_cluster *cluster);

#endif
