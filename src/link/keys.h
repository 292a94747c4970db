/*
 * keys.h: who may connect. Key pairs in files, lists of allowed public keys, and the secrets of a server on this host.
 *
 * Links that leave the host use CURVE keys (`gt keygen`): the server has a key pair, and a list of the public keys it
 * admits; each client and worker has a pair of its own and the server's public key. Links within the host need no key
 * files: a server writes its secrets to PORT.keys in the private directory (address.h), which only its user can read.
 *
 * Key files and lists are lines of words; a line that starts with # is a comment:
 *
 *     public KEY                the pair
 *     secret KEY
 *     server KEY                the public key of the server to connect to; not in a server's own file
 *
 *     client KEY NAME           a list: KEY may connect as a client; NAME is for statistics and logs
 *     worker KEY NAME           ... and as a worker
 */
#ifndef GT_LINK_KEYS_H
#define GT_LINK_KEYS_H

#include <stdbool.h>

#include "core/error.h"
#include "link/address.h"

enum {
    GT_KEY_SIZE = 41,    /* 40 characters (Z85) and the terminating 0 */
    GT_SECRET_SIZE = 65, /* 64 hexadecimal digits and the terminating 0 */
    GT_USER_SIZE = 48,
};

typedef struct gt_keys {
    char public_key[GT_KEY_SIZE], secret[GT_KEY_SIZE];
    char server[GT_KEY_SIZE]; /* "": the file has none */
} gt_keys;

/* A new pair; `server` stays as it is. */
gt_err gt__keys_make(gt_keys *keys);
/* Read a key file. Fails if others than its owner can read it. */
gt_err gt__keys_read(const char *path, gt_keys *keys);
/* Write a new key file, mode 0600. Fails if it exists. */
gt_err gt__keys_write(const char *path, const gt_keys *keys);
/* Is this a key as text? */
bool gt__key_valid(const char *text);

typedef struct gt_allowed gt_allowed;

typedef struct gt_user {
    char name[GT_USER_SIZE];
    bool worker; /* it may join as a worker */
} gt_user;

gt_err gt__allowed_read(const char *path, gt_allowed **allowed);
/* Read the list again; on failure it stays as it is. */
gt_err gt__allowed_reread(gt_allowed *allowed, const char *path);
/* Whether this key is in the list, and of a user of this name; `worker`: as a worker. */
bool gt__allowed_knows(const gt_allowed *allowed, const char *public_key, const char *name, bool worker);
void gt__allowed_free(gt_allowed *allowed); /* NULL is fine */
/* The user with this public key; NULL: it is not in the list. Borrowed. */
const gt_user *gt__allowed_find(const gt_allowed *allowed, const char *public_key);

/* The secrets of one server on this host. */
typedef struct gt_secrets {
    char endpoint[64];             /* where it listens by tcp; the password is for that alone */
    char password[GT_SECRET_SIZE]; /* of its tcp port; "": none */
    char worker[GT_SECRET_SIZE];   /* what a worker shows to join */
} gt_secrets;

/* The file of a running server's secrets. The server holds a lock on it, so a file that is not locked is stale. */
typedef struct gt_secrets_file {
    gt_address_file file;
    int lock; /* -1: no file */
} gt_secrets_file;

/* 64 random hexadecimal digits. */
gt_err gt__secret_make(char secret[GT_SECRET_SIZE]);
/* Compares in a time that does not depend on where the texts differ. Two empty ones are not equal. */
bool gt__secret_equal(const char *a, const char *b);
gt_err gt__secrets_publish(int port, const gt_secrets *secrets, gt_secrets_file *file);
void gt__secrets_withdraw(gt_secrets_file *file);
/* The secrets of this user's server at that port of this host; false: there is none. */
bool gt__secrets_find(int port, gt_secrets *secrets);

#endif
