/*
 * test_store.c: the worker's tensors: the pool and its limit, poison, views, and what execute.c makes of them.
 * Views are compared with lists of element numbers, which need no strides.
 */
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "engines/host_memory.h"
#include "random_numbers.h"
#include "worker/store.h"
#include "worker/views.h"

/* ---- an engine that only has memory ------------------------------------------------------------------------- */

typedef struct counting_engine {
    gt_engine base;
    uint64_t allocations, bytes; /* bytes: allocated now */
    size_t last;
    bool empty; /* out of memory */
} counting_engine;

static gt_err counting_alloc(gt_engine *engine, size_t bytes, void **memory)
{
    counting_engine *counting = (counting_engine *)engine;
    if (counting->empty || bytes > (size_t)1 << 30 || posix_memalign(memory, 64, bytes))
        return gt__fail(GT_ERR_MEMORY, "the engine is full");
    counting->allocations++;
    counting->bytes += bytes;
    counting->last = bytes;
    return GT_OK;
}

static void counting_release(gt_engine *engine, void *memory, size_t bytes)
{
    ((counting_engine *)engine)->bytes -= bytes;
    free(memory);
}

static uint64_t counting_limit(gt_engine *engine, unsigned sharers)
{
    (void)engine;
    return gt__memory_limit(sharers);
}

static const gt_engine_ops counting_ops = {.name = "counting",
                                           .host_memory = true,
                                           .memory_limit = counting_limit,
                                           .alloc = counting_alloc,
                                           .release = counting_release};

static gt_err allocate(gt_store *store, size_t bytes, gt_view *view, gt_buffer **buffer)
{
    CHECK_EQ(gt__meta_set(&view->meta, GT_UINT8, 1, (int64_t[]){(int64_t)bytes}), GT_OK);
    return gt__store_allocate(store, view, buffer);
}

static gt_store_stats stats_of(gt_store *store)
{
    gt_store_stats stats;
    gt__store_stats(store, &stats);
    return stats;
}

/* ---- the pool ----------------------------------------------------------------------------------------------- */

static void test_size_classes(const void *argument)
{
    (void)argument;
    counting_engine engine = {.base = {.ops = &counting_ops}};
    gt_store *store;
    numbers n = {.state = 1};
    CHECK_EQ(gt__store_new(&engine.base, &store), GT_OK);
    for (int round = 0; round < 3000; round++) {
        gt_view view;
        gt_buffer *buffer;
        size_t bytes = round < 300 ? (size_t)round : (size_t)(numbers_next(&n) >> (44 + numbers_below(&n, 18)));
        uint64_t before = stats_of(store).bytes_used;
        if (!CHECK_EQ(allocate(store, bytes, &view, &buffer), GT_OK))
            break;
        uint64_t got = stats_of(store).bytes_used - before;
        CHECK(got >= bytes && (got <= 64 || got <= bytes + bytes / 4));
        CHECK((uintptr_t)view.data % 64 == 0 && view.contiguous);
        if (bytes)
            memset(view.data, 1, got); /* all of it is ours */
        gt__buffer_release(store, buffer);
        CHECK_EQ(stats_of(store).bytes_used, before);
    }
    gt__store_free(&store);
    CHECK_EQ(engine.bytes, 0);
}

static void test_reuse(const void *argument)
{
    (void)argument;
    counting_engine engine = {.base = {.ops = &counting_ops}};
    gt_store *store;
    gt_view view;
    gt_buffer *first, *second;
    CHECK_EQ(gt__store_new(&engine.base, &store), GT_OK);
    CHECK_EQ(allocate(store, 5000, &view, &first), GT_OK);
    const void *memory = view.data;
    gt__buffer_release(store, first);
    CHECK_EQ(stats_of(store).bytes_used, 0);
    CHECK(stats_of(store).bytes_pooled >= 5000);
    CHECK_EQ(allocate(store, 4999, &view, &second), GT_OK);
    CHECK(view.data == memory);
    CHECK_EQ(stats_of(store).bytes_pooled, 0);
    CHECK_EQ(engine.allocations, 1);
    CHECK_EQ(allocate(store, 5000, &view, &first), GT_OK);
    CHECK(view.data != memory);
    CHECK_EQ(engine.allocations, 2);
    gt__buffer_release(store, first);
    gt__buffer_release(store, second);
    for (int round = 0; round < 1000; round++) {
        CHECK_EQ(allocate(store, 5000, &view, &first), GT_OK);
        CHECK_EQ(allocate(store, 5000, &view, &second), GT_OK);
        gt__buffer_release(store, first);
        gt__buffer_release(store, second);
    }
    CHECK_EQ(engine.allocations, 2);
    gt__store_free(&store);
    CHECK_EQ(engine.bytes, 0);
}

static bool is_all(const gt_view *view, uint8_t byte)
{
    const uint8_t *bytes = view->data;
    for (int64_t k = 0; k < view->meta.numel; k++)
        if (bytes[k] != byte)
            return false;
    return true;
}

/* Memory that goes to another session is cleared; a session that gets its own again pays nothing. */
static void test_owners(const void *argument)
{
    (void)argument;
    enum { BYTES = 5000, MANY = 8 };
    counting_engine engine = {.base = {.ops = &counting_ops}};
    gt_store *store;
    gt_view view;
    gt_buffer *buffer, *many[MANY];
    CHECK_EQ(gt__store_new(&engine.base, &store), GT_OK);
    for (uint64_t session = 1; session <= 3; session++) {
        gt__store_set_owner(store, session);
        for (int k = 0; k < 2; k++) {
            CHECK_EQ(allocate(store, BYTES, &view, &buffer), GT_OK);
            if (session > 1 || k)
                CHECK(is_all(&view, k ? (uint8_t)session : 0));
            memset(view.data, (int)session, BYTES);
            gt__buffer_release(store, buffer);
        }
    }
    CHECK_EQ(engine.allocations, 1);
    gt__store_set_owner(store, GT_STORE_NOBODY); /* who that is may change from record to record */
    for (int k = 0; k < 2; k++) {
        CHECK_EQ(allocate(store, BYTES, &view, &buffer), GT_OK);
        CHECK(is_all(&view, 0));
        memset(view.data, 9, BYTES);
        gt__buffer_release(store, buffer);
    }
    /* Each finds its own among those of others. */
    for (uint64_t session = 1; session <= MANY; session++) {
        gt__store_set_owner(store, session);
        CHECK_EQ(allocate(store, BYTES, &view, &many[session - 1]), GT_OK);
        CHECK(is_all(&view, 0)); /* also if it is new: there were several sessions */
        memset(view.data, (int)session, BYTES);
    }
    for (int k = 0; k < MANY; k++)
        gt__buffer_release(store, many[k]);
    for (uint64_t session = 1; session <= MANY; session++) {
        gt__store_set_owner(store, session);
        CHECK_EQ(allocate(store, BYTES, &view, &buffer), GT_OK);
        CHECK(is_all(&view, (uint8_t)session));
        gt__buffer_release(store, buffer);
    }
    CHECK_EQ(engine.allocations, MANY);
    gt__store_free(&store);
    CHECK_EQ(engine.bytes, 0);
}

static void test_limit(const void *argument)
{
    (void)argument;
    counting_engine engine = {.base = {.ops = &counting_ops}};
    gt_store *store;
    gt_view view;
    gt_buffer *buffers[100];
    unsigned count = 0;
    setenv("GT_WORKER_MEMORY", "1M", 1);
    CHECK_EQ(gt__store_new(&engine.base, &store), GT_OK);
    while (count < 100 && allocate(store, 65536, &view, &buffers[count]) == GT_OK)
        count++;
    CHECK_EQ(count, 16);
    CHECK(strstr(gt_error_text(), "65536 bytes"));
    CHECK_EQ(stats_of(store).bytes_used, 1 << 20);
    /* What is only pooled gives way to another size. */
    for (unsigned k = 0; k < count; k++)
        gt__buffer_release(store, buffers[k]);
    CHECK_EQ(stats_of(store).bytes_pooled, 1 << 20);
    CHECK_EQ(allocate(store, 1 << 20, &view, &buffers[0]), GT_OK);
    CHECK_EQ(engine.bytes, 1 << 20);
    CHECK_EQ(stats_of(store).bytes_pooled, 0);
    CHECK_EQ(allocate(store, 1, &view, &buffers[1]), GT_ERR_MEMORY);
    CHECK_EQ(allocate(store, (size_t)1 << 58, &view, &buffers[1]), GT_ERR_MEMORY);
    gt__buffer_release(store, buffers[0]);
    CHECK_EQ(allocate(store, 64, &view, &buffers[0]), GT_OK);
    /* An engine without memory: the pool is given back, then the failure is said. */
    engine.empty = true;
    CHECK_EQ(allocate(store, 100, &view, &buffers[1]), GT_ERR_MEMORY);
    engine.empty = false;
    CHECK_EQ(allocate(store, 100, &view, &buffers[1]), GT_OK);
    gt__buffer_release(store, buffers[0]);
    gt__buffer_release(store, buffers[1]);
    gt__store_free(&store);
    CHECK_EQ(engine.bytes, 0);
    unsetenv("GT_WORKER_MEMORY");
}

/* Uploads that are used in place count as any other memory does. */
static void test_segments_count(const void *argument)
{
    (void)argument;
    counting_engine engine = {.base = {.ops = &counting_ops}};
    gt_store *store;
    gt_segment *segment;
    gt_buffer *first, *second, *third;
    gt_view view;
    CHECK_EQ(gt__store_new(&engine.base, &store), GT_OK);
    CHECK_EQ(gt__segment_new(1 << 20, &segment), GT_OK);
    store->limit = 5 << 19;
    CHECK_EQ(gt__store_wrap_segment(store, segment, &first), GT_OK);
    CHECK_EQ(gt__store_wrap_segment(store, segment, &second), GT_OK);
    CHECK(stats_of(store).bytes_used >= 2 << 20 && stats_of(store).bytes_pooled == 0);
    CHECK_EQ(gt__store_wrap_segment(store, segment, &third), GT_ERR_MEMORY);
    CHECK_EQ(allocate(store, 1 << 20, &view, &third), GT_ERR_MEMORY);
    gt__buffer_release(store, first);
    CHECK_EQ(allocate(store, 1 << 20, &view, &first), GT_OK);
    gt__buffer_release(store, first);
    CHECK_EQ(gt__store_wrap_segment(store, segment, &first), GT_OK); /* the pool makes room */
    CHECK_EQ(engine.bytes, 0);
    gt__buffer_release(store, first);
    gt__buffer_release(store, second);
    CHECK_EQ(stats_of(store).bytes_used, 0);
    gt__segment_release(segment);
    gt__store_free(&store);
}

/* Blocks that are not used between two looks are given back, the others stay. */
static void test_trim_unused(const void *argument)
{
    (void)argument;
    counting_engine engine = {.base = {.ops = &counting_ops}};
    gt_store *store;
    gt_view view;
    gt_buffer *buffer[8], *used;
    CHECK_EQ(gt__store_new(&engine.base, &store), GT_OK);
    for (int k = 0; k < 8; k++)
        CHECK_EQ(allocate(store, 4096, &view, &buffer[k]), GT_OK);
    for (int k = 0; k < 8; k++)
        gt__buffer_release(store, buffer[k]);
    gt__store_note_unused(store);
    CHECK_EQ(allocate(store, 4096, &view, &used), GT_OK);
    CHECK_EQ(allocate(store, 4096, &view, &buffer[0]), GT_OK);
    gt__buffer_release(store, buffer[0]);
    gt__store_trim_unused(store);
    CHECK_EQ(engine.bytes, 2 * 4096);
    CHECK_EQ(stats_of(store).bytes_used, 4096);
    gt__store_trim_unused(store); /* nothing is noted */
    CHECK_EQ(engine.bytes, 2 * 4096);
    gt__buffer_release(store, used);
    /* The table of entries, too, is given back but for those in use. */
    gt_entry *entry = gt__store_entry(store, 300);
    entry->state = GT_ENTRY_POISON;
    entry->poison = gt__poison_new(GT_ERR_VALUE, "kept");
    CHECK(gt__store_entry(store, 100000) != NULL && store->capacity > 100000);
    gt__store_shrink(store);
    CHECK_EQ(store->capacity, 512);
    CHECK(strcmp(gt__store_entry(store, 300)->poison->text, "kept") == 0);
    CHECK_EQ(gt__store_entry(store, 100000)->state, GT_ENTRY_EMPTY);
    gt__store_free(&store);
    CHECK_EQ(engine.bytes, 0);
}

/* Statistics do not count a large table each time: a count that took long is kept for a while. */
static void test_counts_are_kept(const void *argument)
{
    (void)argument;
    counting_engine engine = {.base = {.ops = &counting_ops}};
    gt_store *store;
    CHECK_EQ(gt__store_new(&engine.base, &store), GT_OK);
    for (uint64_t slot = 1; slot <= 3; slot++) {
        gt_entry *entry = gt__store_entry(store, slot);
        entry->state = GT_ENTRY_POISON;
        entry->poison = gt__poison_new(GT_ERR_VALUE, "");
        CHECK_EQ(stats_of(store).tensors, slot < 3 ? slot : 2);
        if (slot == 2)
            store->counted.took_ns = UINT32_MAX; /* as if it had */
    }
    store->counted.took_ns = 1; /* the clock may have begun a minute ago, when the machine was started */
    CHECK_EQ(stats_of(store).tensors, 3);
    gt__store_free(&store);
}

static void test_limit_text(const void *argument)
{
    (void)argument;
    unsetenv("GT_WORKER_MEMORY");
    uint64_t automatic = gt__memory_limit(1);
    CHECK(automatic > 1 << 20);
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {{"4096", 4096},
                 {"2k", 2048},
                 {"500M", 500u << 20},
                 {"4G", (uint64_t)4 << 30},
                 {"1.5g", (uint64_t)3 << 29},
                 {"2T", (uint64_t)2 << 40}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        setenv("GT_WORKER_MEMORY", cases[k].text, 1);
        CHECK_EQ(gt__memory_limit(1), cases[k].bytes);
    }
    static const char *const nonsense[] = {"", "lots", "-1", "0", "1e30", "nan"};
    for (size_t k = 0; k < sizeof nonsense / sizeof nonsense[0]; k++) {
        setenv("GT_WORKER_MEMORY", nonsense[k], 1);
        CHECK_EQ(gt__memory_limit(1), automatic);
    }
    unsetenv("GT_WORKER_MEMORY");
}

static void test_entries(const void *argument)
{
    (void)argument;
    counting_engine engine = {.base = {.ops = &counting_ops}};
    gt_store *store;
    CHECK_EQ(gt__store_new(&engine.base, &store), GT_OK);
    CHECK(!gt__store_entry(store, UINT64_MAX));
    CHECK(!gt__store_entry(store, (uint64_t)1 << 32));
    gt_poison *poison = gt__poison_new(GT_ERR_INDEX, "why");
    for (uint64_t slot = 1; slot <= 1000; slot++) {
        gt_entry *entry = gt__store_entry(store, slot);
        if (!CHECK(entry && entry->state == GT_ENTRY_EMPTY))
            break;
        if (slot % 2) {
            entry->state = GT_ENTRY_TENSOR;
            CHECK_EQ(allocate(store, slot, &entry->view, &entry->buffer), GT_OK);
        } else {
            entry->state = GT_ENTRY_POISON;
            entry->poison = poison;
            poison->references++;
        }
    }
    CHECK_EQ(stats_of(store).tensors, 1000);
    CHECK_EQ(poison->references, 501);
    for (uint64_t slot = 1; slot <= 900; slot++)
        gt__store_clear(store, gt__store_entry(store, slot));
    gt__store_clear(store, gt__store_entry(store, 5)); /* empty: nothing to do */
    CHECK_EQ(stats_of(store).tensors, 100);
    CHECK_EQ(poison->references, 51);
    gt__store_free(&store); /* clears the rest */
    CHECK(!store);
    CHECK_EQ(engine.bytes, 0);
    CHECK_EQ(poison->references, 1);
    gt__poison_release(poison);
}

/* ---- what the host has left ---------------------------------------------------------------------------------- */

enum { MEBIBYTE = 1 << 20 };
static const char *const host_files[] = {"/proc/meminfo", "/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"};

static void put_file(const char *root, const char *path, const char *text)
{
    char whole[256];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    FILE *file = fopen(whole, "w");
    if (CHECK(file != NULL)) {
        fputs(text, file);
        fclose(file);
    }
}

/* A host that says what the test wants it to say. */
static void host_begin(char *root)
{
    static const char *const folders[] = {"/proc", "/sys", "/sys/fs", "/sys/fs/cgroup"};
    char whole[256];
    CHECK(mkdtemp(root) != NULL);
    for (size_t k = 0; k < sizeof folders / sizeof *folders; k++) {
        snprintf(whole, sizeof whole, "%s%s", root, folders[k]);
        CHECK_EQ(mkdir(whole, 0700), 0);
    }
    gt__memory_set_root(root);
}

static void host_end(const char *root)
{
    static const char *const all[] = {"/sys/fs/cgroup", "/sys/fs", "/sys", "/proc", ""};
    char whole[256];
    gt__memory_set_root("");
    for (size_t k = 0; k < sizeof host_files / sizeof *host_files; k++) {
        snprintf(whole, sizeof whole, "%s%s", root, host_files[k]);
        unlink(whole);
    }
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        snprintf(whole, sizeof whole, "%s%s", root, all[k]);
        CHECK_EQ(rmdir(whole), 0);
    }
}

static gt_err take(gt_engine *engine, size_t mebibytes)
{
    void *memory;
    GT_TRY(engine->ops->alloc(engine, mebibytes * MEBIBYTE, &memory));
    engine->ops->release(engine, memory, mebibytes * MEBIBYTE);
    return GT_OK;
}

/* A worker stays within its limit, and still fails while the host has memory for the others. */
static void test_host_without_memory(const void *argument)
{
    (void)argument;
    char root[] = "/tmp/gt-test-host-XXXXXX";
    gt_engine *engine;
    gt_store *store;
    gt_view view;
    gt_buffer *buffer;
    if (!CHECK_EQ(gt__engine_cpu.open(&(gt_engine_options){.threads = 1}, &engine), GT_OK))
        return;
    host_begin(root);
    CHECK_EQ(take(engine, 64), GT_OK); /* a host that does not say */
    put_file(root, "/proc/meminfo",
             "MemTotal:        1024000 kB\nMemFree:             100 kB\nMemAvailable:     307200 kB\n");
    CHECK_EQ(take(engine, 200), GT_OK); /* 1000 MiB, of which 300 are left: 100 stay */
    CHECK_EQ(take(engine, 201), GT_ERR_MEMORY);
    CHECK(strstr(gt_error_text(), "the host has only 314572800 bytes left"));
    CHECK_EQ(take(engine, 400), GT_ERR_MEMORY);
    CHECK_EQ(gt__store_new(engine, &store), GT_OK);
    CHECK_EQ(allocate(store, 220 * MEBIBYTE, &view, &buffer), GT_ERR_MEMORY);
    CHECK(strstr(gt_error_text(), "cannot allocate") && strstr(gt_error_text(), "the host has only 314572800"));
    CHECK_EQ(stats_of(store).bytes_used, 0);
    gt__store_free(&store);
    put_file(root, "/proc/meminfo", "MemTotal: 1024000 kB\nMemAvailable: 102400 kB\n");
    int small = 0; /* many of them count as well */
    while (small < 100 && take(engine, 1) == GT_OK)
        small++;
    CHECK(small < 64);
    CHECK_EQ(take(engine, 1), GT_ERR_MEMORY); /* and go on failing */
    put_file(root, "/proc/meminfo", "MemTotal: 1024000 kB\nMemAvailable: 1000000 kB\n");
    CHECK_EQ(take(engine, 1), GT_OK);
    host_end(root);
    engine->ops->close(engine);
}

static void test_control_group_without_memory(const void *argument)
{
    (void)argument;
    char root[] = "/tmp/gt-test-host-XXXXXX";
    host_begin(root);
    put_file(root, "/proc/meminfo", "MemTotal: 1024000 kB\nMemAvailable: 1000000 kB\n");
    put_file(root, "/sys/fs/cgroup/memory.max", "max\n");
    put_file(root, "/sys/fs/cgroup/memory.current", "500000000\n");
    CHECK_EQ(gt__memory_check(400000000), GT_OK);
    put_file(root, "/sys/fs/cgroup/memory.max", "600000000\n");
    CHECK_EQ(gt__memory_check(40000000), GT_OK);
    CHECK_EQ(gt__memory_check(40000001), GT_ERR_MEMORY);
    CHECK(strstr(gt_error_text(), "the control group has only 100000000 bytes left"));
    /* Cached files do not count: the kernel drops them. */
    put_file(root, "/sys/fs/cgroup/memory.stat",
             "anon 100000000\nfile 400000000\nslab_reclaimable 1000000\ninactive_file 299000000\nactive_file "
             "100000000\n");
    CHECK_EQ(gt__memory_check(440000000), GT_OK);
    CHECK_EQ(gt__memory_check(440000001), GT_ERR_MEMORY);
    host_end(root);
}

/* ---- views -------------------------------------------------------------------------------------------------- */

enum { BASE_ELEMENTS = 512, MOST_ELEMENTS = 2000 };

/* A view, and by list which elements of the base it shows, row-major. */
typedef struct listed {
    gt_view view;
    int64_t list[MOST_ELEMENTS];
} listed;

static int64_t base[BASE_ELEMENTS];

static int64_t element_of(const int64_t *index, const gt_meta *meta)
{
    int64_t position = 0;
    for (unsigned axis = 0; axis < meta->rank; axis++)
        position = position * meta->shape[axis] + index[axis];
    return position;
}

static void index_of(int64_t position, const gt_meta *meta, int64_t *index)
{
    for (unsigned axis = meta->rank; axis-- > 0; position /= meta->shape[axis])
        index[axis] = position % meta->shape[axis];
}

/* The view shows what the list says, all of it inside the base; `contiguous` is true if and only if it is. */
static bool listed_right(const listed *l)
{
    const gt_view *view = &l->view;
    bool right = true, row_major = true;
    for (int64_t position = 0; position < view->meta.numel && right; position++) {
        int64_t index[GT_MAX_RANK], offset = 0;
        index_of(position, &view->meta, index);
        for (unsigned axis = 0; axis < view->meta.rank; axis++)
            offset += index[axis] * view->stride[axis];
        const int64_t *at = (const int64_t *)view->data + offset;
        right = at >= base && at < base + BASE_ELEMENTS && *at == l->list[position];
        row_major &= offset == position;
    }
    return right && row_major == view->contiguous;
}

/* Whether these elements in this shape can be a view at all: whether places depend linearly on indices. */
static bool is_linear(const int64_t *list, const gt_meta *meta)
{
    int64_t stride[GT_MAX_RANK] = {0};
    for (unsigned axis = 0; axis < meta->rank; axis++)
        if (meta->shape[axis] > 1) {
            int64_t one[GT_MAX_RANK] = {0};
            one[axis] = 1;
            stride[axis] = list[element_of(one, meta)] - list[0];
        }
    for (int64_t position = 0; position < meta->numel; position++) {
        int64_t index[GT_MAX_RANK], place = list[0];
        index_of(position, meta, index);
        for (unsigned axis = 0; axis < meta->rank; axis++)
            place += index[axis] * stride[axis];
        if (place != list[position])
            return false;
    }
    return true;
}

/* Random factors of numel, with ones strewn in. */
static unsigned random_factors(numbers *n, int64_t numel, int64_t *shape)
{
    unsigned rank = 0;
    while (rank < GT_MAX_RANK - 1 && (numel > 1 || numbers_below(n, 3) == 0)) {
        int64_t size = 1 + (int64_t)numbers_below(n, 6);
        if (numel % size == 0 || numel == 0) {
            shape[rank++] = size;
            numel /= size;
        }
    }
    if (numel != 1)
        shape[rank++] = numel;
    return rank;
}

static void random_diagonal(numbers *n, const gt_meta *from, gt_instruction *ins)
{
    uint64_t axis1 = numbers_below(n, from->rank), axis2 = numbers_below(n, from->rank - 1u);
    axis2 += axis2 >= axis1;
    ins->imm[1].u = axis1 | axis2 << 8;
    ins->imm[0].i = (int64_t)numbers_below(n, 7) - 3;
    if (numbers_below(n, 16) == 0)
        ins->imm[0].i = numbers_below(n, 2) ? INT64_MAX : INT64_MIN; /* empty */
}

static void random_windows(numbers *n, const gt_meta *from, gt_slot *tail)
{
    int64_t axis = from->rank ? (int64_t)numbers_below(n, from->rank) : 0,
            size = from->rank ? from->shape[axis] : 1;
    tail->i64[0] = axis;
    tail->i64[1] = (int64_t)numbers_below(n, (uint64_t)(size < 3 ? size : 3) + 1);
    tail->i64[2] = numbers_below(n, 16) ? 1 + (int64_t)numbers_below(n, 4) : INT64_MAX;
    if (from->numel >= MOST_ELEMENTS / 4)
        tail->i64[2] = INT64_MAX; /* one window: overlapping ones would be too many elements */
}

/* Where an element of a diagonal, or of a window, came from. */
static void source_of(const gt_instruction *ins, const gt_slot *tail, const gt_meta *in, const int64_t *index,
                      int64_t *source)
{
    unsigned axis1 = ins->imm[1].u & 0xff, axis2 = ins->imm[1].u >> 8 & 0xff, from = 0;
    int64_t offset = ins->imm[0].i;
    for (unsigned axis = 0; axis < in->rank; axis++)
        if (ins->op == GT_OP_unfold)
            source[axis] = axis == tail->i64[0] ? index[axis] * (index[axis] ? tail->i64[2] : 0) + index[in->rank]
                                                : index[axis];
        else if (axis != axis1 && axis != axis2)
            source[axis] = index[from++];
    if (ins->op == GT_OP_diagonal) {
        source[axis1] = index[from] + (offset < 0 ? -offset : 0);
        source[axis2] = index[from] + (offset > 0 ? offset : 0);
    }
}

static void random_op(numbers *n, const gt_meta *from, gt_instruction *ins, gt_slot *tail)
{
    static const gt_opcode ops[] = {GT_OP_reshape, GT_OP_permute,  GT_OP_expand,
                                    GT_OP_slice,   GT_OP_diagonal, GT_OP_unfold};
    memset(tail, 0, 3 * sizeof *tail);
    *ins = (gt_instruction){.op = (uint16_t)ops[numbers_below(n, 6)]};
    if ((ins->op == GT_OP_diagonal && from->rank < 2) || (ins->op == GT_OP_unfold && from->rank == GT_MAX_RANK))
        ins->op = GT_OP_permute;
    if (ins->op == GT_OP_diagonal)
        random_diagonal(n, from, ins);
    if (ins->op == GT_OP_unfold)
        random_windows(n, from, tail);
    if (ins->op == GT_OP_reshape)
        ins->rank = (uint8_t)random_factors(n, from->numel, tail->i64);
    if (ins->op == GT_OP_expand) {
        unsigned extra = from->rank < GT_MAX_RANK ? (unsigned)numbers_below(n, 2) : 0;
        ins->rank = (uint8_t)(from->rank + extra);
        for (unsigned axis = 0; axis < ins->rank; axis++) {
            int64_t size = axis < extra ? 1 : from->shape[axis - extra];
            tail->i64[axis] = size == 1 && from->numel < MOST_ELEMENTS / 4 ? (int64_t)numbers_below(n, 4) : size;
        }
    }
    unsigned left[GT_MAX_RANK];
    for (unsigned axis = 0; axis < from->rank; axis++)
        left[axis] = axis;
    for (unsigned axis = 0, count = from->rank; axis < from->rank; axis++, count--) {
        unsigned pick = (unsigned)numbers_below(n, count);
        if (ins->op == GT_OP_permute)
            ins->imm[0].u |= (uint64_t)left[pick] << (8 * axis);
        left[pick] = left[count - 1];
        int64_t size = from->shape[axis], start = (int64_t)numbers_below(n, (uint64_t)size + 1), most = 0;
        int64_t step = (int64_t)numbers_below(n, 7) - 3;
        if (ins->op != GT_OP_slice)
            continue;
        if (step == 0)
            step = numbers_below(n, 2) ? INT64_MAX : INT64_MIN; /* right, as long as only one is taken */
        if (start < size)
            most = step == INT64_MAX || step == INT64_MIN ? 1
                   : step > 0                             ? (size - 1 - start) / step + 1
                                                          : start / -step + 1;
        tail[0].i64[axis] = start;
        tail[1].i64[axis] = step;
        tail[2].i64[axis] = numbers_below(n, 16) ? most : (int64_t)numbers_below(n, (uint64_t)most + 1);
    }
}

/* The list of the result, from the list of the operand. */
static void apply_to_list(const gt_instruction *ins, const gt_slot *tail, const listed *from, listed *to)
{
    const gt_meta *in = &from->view.meta, *out = &to->view.meta;
    for (int64_t position = 0; position < out->numel; position++) {
        int64_t index[GT_MAX_RANK], source[GT_MAX_RANK] = {0};
        index_of(position, out, index);
        for (unsigned axis = 0; axis < in->rank; axis++)
            if (ins->op == GT_OP_slice)
                source[axis] = tail[0].i64[axis] + (index[axis] ? index[axis] * tail[1].i64[axis] : 0);
            else if (ins->op == GT_OP_expand)
                source[axis] = in->shape[axis] == 1 ? 0 : index[axis + out->rank - in->rank];
        if (ins->op == GT_OP_diagonal || ins->op == GT_OP_unfold)
            source_of(ins, tail, in, index, source);
        for (unsigned axis = 0; ins->op == GT_OP_permute && axis < in->rank; axis++)
            source[ins->imm[0].u >> (8 * axis) & 0xff] = index[axis];
        to->list[position] = from->list[ins->op == GT_OP_reshape ? position : element_of(source, in)];
    }
}

static void start_list(numbers *n, listed *l)
{
    int64_t shape[GT_MAX_RANK];
    int64_t numel = 1 + (int64_t)numbers_below(n, BASE_ELEMENTS);
    CHECK_EQ(gt__meta_set(&l->view.meta, GT_INT64, random_factors(n, numel, shape), shape), GT_OK);
    l->view.data = base;
    gt__view_set_contiguous(&l->view);
    for (int64_t position = 0; position < numel; position++)
        l->list[position] = position;
}

static void test_views(const void *argument)
{
    (void)argument;
    static listed from, to;
    numbers n = {.state = 7};
    unsigned reshaped = 0, refused = 0;
    for (int k = 0; k < BASE_ELEMENTS; k++)
        base[k] = k;
    for (int round = 0; round < 30000; round++) {
        gt_instruction ins;
        gt_slot tail[3];
        gt_dtype compute;
        if (round % 6 == 0 || from.view.meta.numel == 0)
            start_list(&n, &from);
        random_op(&n, &from.view.meta, &ins, tail);
        gt_err err = gt__op_infer(&ins, tail, (const gt_meta *[]){&from.view.meta}, &to.view.meta, &compute);
        if (!CHECK_EQ(err, GT_OK))
            return;
        if (to.view.meta.numel > MOST_ELEMENTS)
            continue;
        apply_to_list(&ins, tail, &from, &to);
        bool is_view = gt__view_of(&from.view, &ins, tail, &to.view);
        reshaped += ins.op == GT_OP_reshape;
        refused += !is_view;
        if (is_view)
            CHECK(listed_right(&to));
        else
            CHECK(ins.op == GT_OP_reshape && !is_linear(to.list, &to.view.meta));
        if (is_view)
            from = to;
    }
    CHECK(reshaped > 1000 && refused > 100 && refused < reshaped);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("size classes", test_size_classes, NULL);
    check_run("reuse", test_reuse, NULL);
    check_run("memory of other sessions is cleared", test_owners, NULL);
    check_run("limit", test_limit, NULL);
    check_run("segments count", test_segments_count, NULL);
    check_run("unused blocks go back", test_trim_unused, NULL);
    check_run("counts are kept", test_counts_are_kept, NULL);
    check_run("limit text", test_limit_text, NULL);
    check_run("a host without memory", test_host_without_memory, NULL);
    check_run("a control group without memory", test_control_group_without_memory, NULL);
    check_run("entries", test_entries, NULL);
    check_run("views", test_views, NULL);
    return check_end();
}
