/*
 * site.c: the statement of user code that issues an instruction: a number in the record, and file:line on request. Statements on one
 * line have numbers of their own, so that hot paths can tell them apart (src/client/hotpath_detect.h).
 *
 * The client asks for each op that it emits (gt__site_hooks), so this is on the hot path: the frame and its instruction are one
 * pointer, which a small table maps to the number. Only a new site takes longer. Frames of this package's own Python files are
 * skipped: an op of model(x) is issued at that line, or in the user's own forward().
 */
#include "site.h"

#include <opcode.h>
#include <string.h>

enum {
    SITES = 1 << 16, /* the most sites; further ones are unknown */
    CACHED_BITS = 12,
    CODE_UNIT = 2,     /* bytes: an instruction, its argument */
    OURS = UINT32_MAX, /* not user code */
};

/* A site. It is never freed, so that its code object keeps its address. */
typedef struct Site {
    PyCodeObject *code; /* strong */
    int line, statement;
} Site;

static Site *sites; /* number minus one; grows */
static uint32_t site_count, site_capacity;
static struct {
    const void *at; /* the instruction */
    uint32_t site;
} cache[1 << CACHED_BITS];
static const char *package; /* the directory of gt's own Python files */
static size_t package_length;

/* The place of an instruction in the cache. Mixed, because the instructions of a loop lie in a few code objects, whose addresses
 * have the same low bits more often than not. */
static inline uint32_t place_of(const void *at)
{
    return (uint32_t)((uint64_t)(uintptr_t)at * 0x9E3779B97F4A7C15u >> (64 - CACHED_BITS));
}

/* Hash table of the sites, behind the cache: open addressing, at most half full. */
static uint32_t buckets[2 * SITES];

static uint32_t hash_of(const Site *site)
{
    uint64_t key = ((uint64_t)(uintptr_t)site->code * 31 + (uint64_t)site->line) * 31 + (uint64_t)site->statement;
    return (uint32_t)(key * 0x9E3779B97F4A7C15u >> 47); /* 17 bits: 2 * SITES */
}

static bool is_ours(PyCodeObject *code)
{
    const char *file = PyUnicode_AsUTF8(code->co_filename);
    if (!file) {
        PyErr_Clear();
        return false;
    }
    return package && strncmp(file, package, package_length) == 0;
}

/* The number of a new site; 0: there are too many. */
static uint32_t add_site(Site site)
{
    if (site_count == SITES)
        return 0;
    if (site_count == site_capacity) {
        uint32_t capacity = site_capacity ? 2 * site_capacity : 256;
        Site *grown = PyMem_Realloc(sites, capacity * sizeof *grown);
        if (!grown)
            return 0;
        sites = grown;
        site_capacity = capacity;
    }
    sites[site_count++] = site;
    return site_count;
}

/* The number of a site, which may be new; 0: there are too many. */
static uint32_t intern(Site site)
{
    uint32_t bucket = hash_of(&site);
    for (; buckets[bucket]; bucket = (bucket + 1) % (2 * SITES)) {
        const Site *known = &sites[buckets[bucket] - 1];
        if (known->code == site.code && known->line == site.line && known->statement == site.statement)
            return buckets[bucket];
    }
    Py_INCREF((PyObject *)site.code);
    uint32_t number = add_site(site);
    if (number)
        buckets[bucket] = number;
    else
        Py_DECREF((PyObject *)site.code);
    return number;
}

static bool ends_statement(unsigned op)
{
    switch (op) {
    case POP_TOP:
    case STORE_ATTR:
    case STORE_DEREF:
    case STORE_FAST:
    case STORE_GLOBAL:
    case STORE_NAME:
    case STORE_SUBSCR:
#ifdef STORE_SLICE
    case STORE_SLICE:
#endif
#ifdef STORE_FAST_LOAD_FAST
    case STORE_FAST_LOAD_FAST:
    case STORE_FAST_STORE_FAST:
#endif
        return true;
    default:
        return false;
    }
}

/* How many statements of the code object end before the instruction at this offset. Their results are stored, or dropped. */
static int statement_of(PyCodeObject *code, int offset)
{
    PyObject *bytes = PyCode_GetCode(code);
    int count = 0;
    if (!bytes) {
        PyErr_Clear();
        return 0;
    }
    const uint8_t *op = (const uint8_t *)PyBytes_AS_STRING(bytes);
    int end = offset < (int)PyBytes_GET_SIZE(bytes) ? offset : (int)PyBytes_GET_SIZE(bytes);
    for (int k = 0; k < end; k += CODE_UNIT)
        count += ends_statement(op[k]);
    Py_DECREF(bytes);
    return count;
}

static __attribute__((noinline)) uint32_t look_up(PyCodeObject *code, const void *at, int offset)
{
    /* By statement: which instruction of a call is the current one changes as the interpreter specialises it. */
    uint32_t where = place_of(at),
             site = intern((Site){
                 .code = code, .line = PyCode_Addr2Line(code, offset), .statement = statement_of(code, offset)});
    bool ours = is_ours(code);
    if (site) { /* keeps the code object, so that its address is not reused */
        cache[where].at = at;
        cache[where].site = ours ? OURS : site;
    }
    return ours ? OURS : site;
}

#ifdef GT_PY_FRAMES_IN_PLACE

/* See gt__py_site_pin. Every call that pins clears it at its end, so the frame exists. */
static struct {
    const _PyInterpreterFrame *frame;
    uint32_t site;
} pinned;

/* The site of a frame, or of the first behind it that is not ours. */
static __attribute__((noinline)) uint32_t site_behind(const _PyInterpreterFrame *frame)
{
    for (; frame; frame = frame->previous) {
        const void *at = frame->prev_instr;
        uint32_t where = place_of(at);
        uint32_t site = cache[where].site;
        if (UNLIKELY(cache[where].at != at))
            site = look_up(frame->f_code, at, _PyInterpreterFrame_LASTI(frame) * (int)sizeof(_Py_CODEUNIT));
        if (LIKELY(site != OURS))
            return site;
    }
    return 0;
}

/* Most ops come from the user's own frame, from a place that is known. */
static uint32_t current_site(void)
{
    const _PyInterpreterFrame *frame = _PyThreadState_GET()->cframe->current_frame;
    if (UNLIKELY(!frame))
        return 0;
    if (frame == pinned.frame)
        return pinned.site;
    const void *at = frame->prev_instr;
    uint32_t where = place_of(at), site = cache[where].site;
    return LIKELY(cache[where].at == at && site != OURS) ? site : site_behind(frame);
}

/* Of frames that are not the user's own, the site depends on those behind. */
static const void *current_at(void)
{
    const void *at = gt__py_at();
    uint32_t where = place_of(at);
    return cache[where].at == at && cache[where].site != OURS ? at : NULL;
}

void gt__py_site_pin(void)
{
    pinned.site = current_site();
    pinned.frame = _PyThreadState_GET()->cframe->current_frame;
}

void gt__py_site_unpin(void)
{
    pinned.frame = NULL;
}

#else

static const void *current_at(void)
{
    return NULL;
}

void gt__py_site_pin(void)
{
}

void gt__py_site_unpin(void)
{
}

/* Frame objects are made on demand in later versions, and kept while their function runs. */
static uint32_t current_site(void)
{
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    uint32_t site = 0;
    while (frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        int offset = PyFrame_GetLasti(frame);
        const char *at = (const char *)code + offset; /* as unique as the address of the instruction */
        uint32_t where = place_of(at);
        site = cache[where].at == at ? cache[where].site : look_up(code, at, offset);
        Py_DECREF(code);
        PyFrameObject *next = site == OURS ? PyFrame_GetBack(frame) : NULL;
        Py_DECREF(frame);
        frame = next;
        site = site == OURS ? 0 : site;
    }
    return site;
}

#endif

static size_t site_name(uint32_t number, char *text, size_t size)
{
    if (!number || number > site_count)
        return 0;
    const Site *site = &sites[number - 1];
    if (!site->code) /* reserved */
        return 0;
    const char *file = PyUnicode_AsUTF8(site->code->co_filename);
    if (!file)
        PyErr_Clear();
    char whole[4096];
    int length = snprintf(whole, sizeof whole, "%s:%d", file ? file : "?", site->line);
    size_t bytes = length < (int)sizeof whole ? (size_t)length : sizeof whole - 1,
           skip = bytes < size ? 0 : bytes - size + 1;
    memcpy(text, whole + skip, bytes - skip + 1); /* cut at the front */
    return bytes - skip;
}

/* See gt__sites_reserve. */
static void reserve_sites(uint32_t count)
{
    while (site_count < count && add_site((Site){0}))
        continue;
    memset(buckets, 0, sizeof buckets);
    memset(cache, 0, sizeof cache);
}

static bool is_inner(void)
{
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    PyCodeObject *code = frame ? PyFrame_GetCode(frame) : NULL;
    bool ours = code && is_ours(code);
    Py_XDECREF(code);
    Py_XDECREF(frame);
    return ours;
}

/* _site_package(directory): the directory of gt's own files, set when the package is loaded. None: sites are no longer
 * recorded; a benchmark measures what that saves. */
static PyObject *py_site_package(PyObject *module, PyObject *directory)
{
    (void)module;
    if (directory == Py_None) {
        gt__site_hooks.current = NULL;
        gt__site_hooks.at = NULL;
        Py_RETURN_NONE;
    }
    const char *text = PyUnicode_AsUTF8(directory);
    if (!text)
        return NULL;
    Py_INCREF(directory); /* never freed */
    package = text;
    package_length = strlen(text);
    gt__site_hooks = (gt_site_hooks){
        .current = current_site, .at = current_at, .name = site_name, .inner = is_inner, .reserve = reserve_sites};
    Py_RETURN_NONE;
}

PyMethodDef gt__py_site_functions[] = {
    {.ml_name = "_site_package", .ml_meth = py_site_package, .ml_flags = METH_O},
    {.ml_name = NULL},
};
