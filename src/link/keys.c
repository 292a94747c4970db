/* keys.c: see keys.h. Used by hello.c, link/zmq_guard.c, the dispatcher and `gt keygen`. */
#include "link/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

/* ---- files of words ----------------------------------------------------------------------------------------- */

enum { MOST_WORDS = 3, LINE_SIZE = 256 };

/* Called for each line with words; `word[k]` is "" beyond the last. False: the line is malformed. */
typedef bool (*take_line)(void *context, const char *const word[MOST_WORDS]);

static bool split_line(char *line, const char *word[MOST_WORDS])
{
    char *rest = line, *found;
    int count = 0;
    while ((found = strtok_r(rest, " \t\r\n", &rest))) {
        if (!count && *found == '#') /* not later in a line: a key may start with this character */
            break;
        if (count == MOST_WORDS)
            return false;
        word[count++] = found;
    }
    for (int k = count; k < MOST_WORDS; k++)
        word[k] = "";
    return true;
}

static gt_err read_lines(FILE *file, const char *path, take_line take, void *context)
{
    char line[LINE_SIZE];
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        const char *word[MOST_WORDS];
        bool whole = strchr(line, '\n') || feof(file);
        if (!whole || !split_line(line, word) || (*word[0] && !take(context, word)))
            return gt__fail(GT_ERR_VALUE, "%s, line %d is malformed", path, number);
    }
    return ferror(file) ? gt__fail(GT_ERR_VALUE, "cannot read %s", path) : GT_OK;
}

static gt_err open_file(const char *path, bool private, FILE **out)
{
    struct stat info;
    FILE *file = fopen(path, "re");
    if (!file)
        return gt__fail(GT_ERR_VALUE, "cannot read %s: %s", path, strerror(errno));
    if (fstat(fileno(file), &info) || !S_ISREG(info.st_mode) || (private && info.st_mode & 077)) {
        fclose(file);
        return gt__fail(GT_ERR_VALUE, "%s must be a file that only its owner can read (chmod 600)", path);
    }
    *out = file;
    return GT_OK;
}

/* ---- key files ---------------------------------------------------------------------------------------------- */

bool gt__key_valid(const char *text)
{
    uint8_t bytes[32];
    return strlen(text) == GT_KEY_SIZE - 1 && zmq_z85_decode(bytes, text);
}

gt_err gt__keys_make(gt_keys *keys)
{
    if (zmq_curve_keypair(keys->public_key, keys->secret))
        return gt__fail(GT_ERR_INTERNAL, "this ZeroMQ library was built without CURVE keys");
    return GT_OK;
}

static bool take_key(void *context, const char *const word[MOST_WORDS])
{
    gt_keys *keys = context;
    char *target = !strcmp(word[0], "public")   ? keys->public_key
                   : !strcmp(word[0], "secret") ? keys->secret
                   : !strcmp(word[0], "server") ? keys->server
                                                : NULL;
    if (!target || *target || !gt__key_valid(word[1]) || *word[2])
        return false;
    memcpy(target, word[1], GT_KEY_SIZE);
    return true;
}

gt_err gt__keys_read(const char *path, gt_keys *keys)
{
    FILE *file;
    char derived[GT_KEY_SIZE];
    *keys = (gt_keys){0};
    GT_TRY(open_file(path, true, &file));
    gt_err err = read_lines(file, path, take_key, keys);
    fclose(file);
    GT_TRY(err);
    if (!*keys->secret)
        return gt__fail(GT_ERR_VALUE, "%s has no secret key; make one with `gt keygen`", path);
    if (zmq_curve_public(derived, keys->secret))
        return gt__fail(GT_ERR_INTERNAL, "this ZeroMQ library was built without CURVE keys");
    if (*keys->public_key && strcmp(keys->public_key, derived))
        return gt__fail(GT_ERR_VALUE, "%s: its public key does not belong to its secret key", path);
    memcpy(keys->public_key, derived, sizeof derived);
    return GT_OK;
}

/* Write `text` to a file that did not exist; -1 and errno on failure, else a descriptor. */
static int write_private(const char *path, const char *text)
{
    size_t length = strlen(text);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && write(fd, text, length) == (ssize_t)length)
        return fd;
    if (fd >= 0) {
        int error = errno;
        close(fd);
        unlink(path);
        errno = error;
    }
    return -1;
}

gt_err gt__keys_write(const char *path, const gt_keys *keys)
{
    char text[512];
    snprintf(text, sizeof text, "# A key pair of GT. Keep this file secret.\npublic %s\nsecret %s\n%s%s%s",
             keys->public_key, keys->secret, *keys->server ? "server " : "", keys->server,
             *keys->server ? "\n" : "");
    int fd = write_private(path, text);
    explicit_bzero(text, sizeof text);
    if (fd < 0)
        return gt__fail(GT_ERR_VALUE, "cannot write %s: %s", path, strerror(errno));
    close(fd);
    return GT_OK;
}

/* ---- allowed keys ------------------------------------------------------------------------------------------- */

typedef struct allowed_key {
    char public_key[GT_KEY_SIZE];
    gt_user user;
} allowed_key;

struct gt_allowed {
    allowed_key *keys;
    size_t count;
};

static bool take_allowed(void *context, const char *const word[MOST_WORDS])
{
    gt_allowed *allowed = context;
    bool worker = !strcmp(word[0], "worker");
    if ((!worker && strcmp(word[0], "client")) || !gt__key_valid(word[1]) || !*word[2])
        return false;
    allowed_key *keys = realloc(allowed->keys, (allowed->count + 1) * sizeof *keys);
    if (!keys)
        return false;
    allowed->keys = keys;
    allowed_key *key = &keys[allowed->count++];
    *key = (allowed_key){.user.worker = worker};
    memcpy(key->public_key, word[1], GT_KEY_SIZE);
    snprintf(key->user.name, sizeof key->user.name, "%.*s", GT_USER_SIZE - 1, word[2]);
    return true;
}

gt_err gt__allowed_read(const char *path, gt_allowed **out)
{
    FILE *file;
    GT_TRY(open_file(path, false, &file));
    gt_allowed *allowed = calloc(1, sizeof *allowed);
    gt_err err =
        allowed ? read_lines(file, path, take_allowed, allowed) : gt__fail(GT_ERR_MEMORY, "out of memory");
    fclose(file);
    if (err != GT_OK) {
        gt__allowed_free(allowed);
        return err;
    }
    *out = allowed;
    return GT_OK;
}

void gt__allowed_free(gt_allowed *allowed)
{
    if (allowed)
        free(allowed->keys);
    free(allowed);
}

gt_err gt__allowed_reread(gt_allowed *allowed, const char *path)
{
    gt_allowed *fresh;
    GT_TRY(gt__allowed_read(path, &fresh));
    gt_allowed old = *allowed;
    *allowed = *fresh;
    *fresh = old;
    gt__allowed_free(fresh);
    return GT_OK;
}

const gt_user *gt__allowed_find(const gt_allowed *allowed, const char *public_key)
{
    for (size_t k = 0; k < allowed->count; k++)
        if (!strcmp(allowed->keys[k].public_key, public_key))
            return &allowed->keys[k].user;
    return NULL;
}

bool gt__allowed_knows(const gt_allowed *allowed, const char *public_key, const char *name, bool worker)
{
    const gt_user *user = gt__allowed_find(allowed, public_key);
    return user && !strcmp(user->name, name) && user->worker >= worker;
}

/* ---- the secrets of a server on this host ------------------------------------------------------------------- */

gt_err gt__secret_make(char secret[GT_SECRET_SIZE])
{
    uint8_t bytes[(GT_SECRET_SIZE - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return gt__fail(GT_ERR_INTERNAL, "no random numbers: %s", strerror(errno));
    for (size_t k = 0; k < sizeof bytes; k++)
        snprintf(secret + 2 * k, 3, "%02x", bytes[k]);
    explicit_bzero(bytes, sizeof bytes);
    return GT_OK;
}

bool gt__secret_equal(const char *a, const char *b)
{
    unsigned differences = 0;
    if (strlen(a) != GT_SECRET_SIZE - 1 || strlen(b) != GT_SECRET_SIZE - 1)
        return false;
    for (size_t k = 0; k < GT_SECRET_SIZE - 1; k++)
        differences |= (unsigned)(a[k] ^ b[k]);
    return !differences;
}

gt_err gt__secrets_publish(int port, const gt_secrets *secrets, gt_secrets_file *file)
{
    char path[GT_ADDRESS_MAX], fresh[GT_ADDRESS_MAX + 4], text[512];
    int lock;
    GT_TRY(gt__address_path(port, "keys", path));
    GT_TRY(gt__address_lock(&lock));
    snprintf(text, sizeof text, "endpoint %s\n%s%s%sworker %s\n", secrets->endpoint,
             *secrets->password ? "password " : "", secrets->password, *secrets->password ? "\n" : "",
             secrets->worker);
    /* Locked before it has its name: a client's look at the lock cannot come in between. What has the name is of a server
     * that was killed: the port is ours now. */
    snprintf(fresh, sizeof fresh, "%s.new", path);
    unlink(fresh);
    int fd = write_private(fresh, text);
    explicit_bzero(text, sizeof text);
    gt_err err = GT_OK;
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) || rename(fresh, path))
        err = gt__fail(GT_ERR_CONNECTION, "cannot write %s: %s", path, strerror(errno));
    else {
        gt__address_own(&file->file, path);
        file->lock = fd;
    }
    if (err != GT_OK && fd >= 0) {
        unlink(fresh);
        close(fd);
    }
    close(lock);
    return err;
}

void gt__secrets_withdraw(gt_secrets_file *file)
{
    if (file->lock < 0)
        return;
    gt__address_remove(&file->file);
    close(file->lock);
    file->lock = -1;
}

static bool take_secret(void *context, const char *const word[MOST_WORDS])
{
    gt_secrets *secrets = context;
    bool endpoint = !strcmp(word[0], "endpoint");
    char *target = endpoint                       ? secrets->endpoint
                   : !strcmp(word[0], "password") ? secrets->password
                   : !strcmp(word[0], "worker")   ? secrets->worker
                                                  : NULL;
    size_t size = endpoint ? sizeof secrets->endpoint : GT_SECRET_SIZE;
    if (!target || strlen(word[1]) >= size)
        return false;
    memcpy(target, word[1], strlen(word[1]) + 1);
    return true;
}

bool gt__secrets_find(int port, gt_secrets *secrets)
{
    char path[GT_ADDRESS_MAX];
    struct stat info;
    *secrets = (gt_secrets){0};
    if (gt__address_path(port, "keys", path) != GT_OK)
        return false;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    /* Not locked: its server is dead. Another user's program may listen at that port now and must not get the password. */
    bool good = file && !fstat(fd, &info) && info.st_uid == geteuid() && !(info.st_mode & 077) &&
                flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK &&
                read_lines(file, path, take_secret, secrets) == GT_OK;
    if (file)
        fclose(file);
    else if (fd >= 0)
        close(fd);
    return good;
}
