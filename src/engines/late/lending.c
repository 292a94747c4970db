/* lending.c: see lending.h. */
#include "engines/late/lending.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"

static const size_t range = (size_t)1 << 32; /* addresses, not memory */

enum { SMALLEST = 6 /* 64 bytes */, SIZES = 33 };

/* What stays of a block that is free. */
typedef struct block {
    struct block *next;
    unsigned char gone[(1 << SMALLEST) - sizeof(struct block *)];
} block;

/* The file of another engine, while this one borrows from it. */
typedef struct lender {
    struct lender *next;
    uint64_t inode;
    char *base;
    unsigned loans;
} lender;

struct gt_lending {
    int file;
    uint64_t inode; /* a process may close the file and open another one with the same number */
    char *base;
    lender *lenders;
    pthread_mutex_t mutex; /* guards what follows */
    size_t used;
    block *free[SIZES]; /* by the power of two that is their size */
};

/* What is in a loan. */
typedef struct contents {
    int64_t process;
    int64_t file;
    uint64_t inode;
    uint64_t offset;
} contents;
_Static_assert(sizeof(contents) <= sizeof(gt_loan), "a loan has room for it");

/* Of a file that is open here. */
static gt_err get_inode(int file, uint64_t *inode)
{
    struct stat status;
    if (fstat(file, &status) != 0)
        return gt__fail(GT_ERR_INTERNAL, "fstat: %s", strerror(errno));
    *inode = status.st_ino;
    return GT_OK;
}

static gt_err map(int file, int protection, char **base)
{
    void *memory = mmap(NULL, range, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory == MAP_FAILED)
        return gt__fail(GT_ERR_MEMORY, "the late engine cannot map memory to lend: %s", strerror(errno));
    *base = memory;
    return GT_OK;
}

gt_err gt__lending_open(gt_lending **out)
{
    gt_lending *lending = calloc(1, sizeof *lending);
    if (!lending)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    pthread_mutex_init(&lending->mutex, NULL);
    lending->file = memfd_create("gt-late", MFD_CLOEXEC);
    gt_err err = GT_OK;
    if (lending->file < 0 || ftruncate(lending->file, (off_t)range) != 0)
        err = gt__fail(GT_ERR_MEMORY, "the late engine has no memory to lend: %s", strerror(errno));
    if (err == GT_OK)
        err = get_inode(lending->file, &lending->inode);
    if (err == GT_OK)
        err = map(lending->file, PROT_READ | PROT_WRITE, &lending->base);
    if (err) {
        gt__lending_close(lending);
        return err;
    }
    *out = lending;
    return GT_OK;
}

static void lender_free(lender *l)
{
    munmap(l->base, range);
    free(l);
}

void gt__lending_close(gt_lending *lending)
{
    if (!lending)
        return;
    for (lender *l = lending->lenders, *next; l; l = next) {
        next = l->next;
        lender_free(l);
    }
    if (lending->base)
        munmap(lending->base, range);
    if (lending->file >= 0)
        close(lending->file);
    pthread_mutex_destroy(&lending->mutex);
    free(lending);
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

uint64_t gt__lending_limit(void)
{
    return range;
}

static unsigned size_of(size_t bytes)
{
    unsigned size = SMALLEST;
    while (((size_t)1 << size) < bytes)
        size++;
    return size;
}

gt_err gt__lending_alloc(gt_lending *lending, size_t bytes, void **memory)
{
    *memory = NULL;
    if (bytes <= range) {
        unsigned size = size_of(bytes);
        size_t length = (size_t)1 << size;
        pthread_mutex_lock(&lending->mutex);
        block *b = lending->free[size];
        if (b) {
            lending->free[size] = b->next;
            *memory = b;
        } else if (length <= range - lending->used) {
            *memory = lending->base + lending->used;
            lending->used += length;
        }
        pthread_mutex_unlock(&lending->mutex);
    }
    return *memory ? GT_OK : gt__fail(GT_ERR_MEMORY, "the late engine has no memory to lend left");
}

void gt__lending_release(gt_lending *lending, void *memory, size_t bytes)
{
    block *b = memory;
    unsigned size = size_of(bytes);
    if (!b)
        return;
    memset(b->gone, 0xee, sizeof b->gone);
    pthread_mutex_lock(&lending->mutex);
    b->next = lending->free[size];
    lending->free[size] = b;
    pthread_mutex_unlock(&lending->mutex);
}

/* ---- loans --------------------------------------------------------------------------------------------------- */

gt_err gt__lending_lend(const gt_lending *lending, const void *memory, gt_loan *loan)
{
    contents c = {.process = getpid(),
                  .file = lending->file,
                  .inode = lending->inode,
                  .offset = (uintptr_t)memory - (uintptr_t)lending->base};
    if (c.offset >= range)
        return gt__fail(GT_ERR_INTERNAL, "%p is not memory of this engine", memory);
    memcpy(loan, &c, sizeof c);
    return GT_OK;
}

static lender **find_lender(gt_lending *lending, uint64_t inode)
{
    lender **where = &lending->lenders;
    while (*where && (*where)->inode != inode)
        where = &(*where)->next;
    return where;
}

static gt_err map_theirs(const contents *c, char **base)
{
    char path[64];
    uint64_t inode = 0;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/fd/%" PRId64, c->process, c->file);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return gt__fail(GT_ERR_INTERNAL, "memory of another worker, %s: %s", path, strerror(errno));
    gt_err err = get_inode(file, &inode);
    if (err == GT_OK && inode != c->inode)
        err = gt__fail(GT_ERR_INTERNAL, "memory of another worker, %s: it is gone", path);
    if (err == GT_OK)
        err = map(file, PROT_READ, base);
    close(file);
    return err;
}

gt_err gt__lending_borrow(gt_lending *lending, const gt_loan *loan, void **memory)
{
    contents c;
    memcpy(&c, loan, sizeof c);
    lender **where = find_lender(lending, c.inode);
    if (!*where) {
        lender *l = calloc(1, sizeof *l);
        if (!l)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        gt_err err = map_theirs(&c, &l->base);
        if (err) {
            free(l);
            return err;
        }
        l->inode = c.inode;
        *where = l;
    }
    (*where)->loans++;
    *memory = (*where)->base + c.offset;
    return GT_OK;
}

void gt__lending_give_back(gt_lending *lending, const gt_loan *loan)
{
    contents c;
    memcpy(&c, loan, sizeof c);
    lender **where = find_lender(lending, c.inode), *l = *where;
    if (l && --l->loans == 0) {
        *where = l->next;
        lender_free(l);
    }
}
