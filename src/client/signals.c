/* signals.c: scopes and the process's config. See signals.h. */
#include "client/signals.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/hotpath.h"
#include "core/log.h"
#include "core/settings.h"

enum { MAX_SCOPES = 1 << 16, MAX_DEPTH = 256 };

/* A scope, by its number. */
typedef struct scope {
    char name[GT_MAX_NAME + 1], backward[GT_MAX_NAME + 1];
    uint32_t parent;
} scope;

typedef struct entered {
    uint32_t scope;
    gt_signal_state before;
    gt_client *compiles; /* where the scope is a region of hot paths, kept allocated; NULL: nowhere */
} entered;

_Atomic int gt__signals_active, gt__modes_active;
static _Thread_local gt_signal_state state; /* what instructions of this thread carry now */
static _Thread_local entered *stack;        /* the entered scopes, with the state before each; NULL: none is */
static _Thread_local unsigned depth;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards everything below */
static scope **scopes;                                    /* by number minus one */
static uint32_t scope_count, scope_capacity;
static uint32_t scopes_reserved; /* the first so many are not entered any more */
static gt_config config;
static bool config_read;
static _Atomic uint64_t config_version; /* config.version, for those without the mutex */

/* ---- scopes ------------------------------------------------------------------------------------------------- */

static gt_err check_name(const char *name)
{
    if (!name || !*name)
        return gt__fail(GT_ERR_VALUE, "a signal needs a name");
    if (strlen(name) > GT_MAX_NAME)
        return gt__fail(GT_ERR_VALUE, "the name of a signal has at most %d bytes", GT_MAX_NAME);
    return GT_OK;
}

/* With the mutex held. */
static gt_err scope_new(const char *name, const char *backward, uint32_t parent, uint32_t *number)
{
    if (scope_count == MAX_SCOPES)
        return gt__fail(GT_ERR_VALUE, "more than %d different scopes", MAX_SCOPES);
    if (scope_count == scope_capacity) {
        uint32_t capacity = scope_capacity ? 2 * scope_capacity : 16;
        scope **grown = realloc(scopes, capacity * sizeof(*grown));
        if (!grown)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        scopes = grown;
        scope_capacity = capacity;
    }
    scope *new = calloc(1, sizeof *new);
    if (!new)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    strcpy(new->name, name);
    strcpy(new->backward, backward);
    new->parent = parent;
    scopes[scope_count++] = new;
    *number = scope_count;
    return GT_OK;
}

/* With the mutex held. */
static gt_err scope_number(const char *name, const char *backward, uint32_t parent, uint32_t *number)
{
    for (uint32_t k = scope_count; k-- > scopes_reserved;)
        if (scopes[k]->parent == parent && strcmp(scopes[k]->name, name) == 0 &&
            strcmp(scopes[k]->backward, backward) == 0) {
            *number = k + 1;
            return GT_OK;
        }
    return scope_new(name, backward, parent, number);
}

void gt__modes_count(int change)
{
    atomic_fetch_add_explicit(&gt__modes_active, change, memory_order_relaxed);
    atomic_fetch_add_explicit(&gt__signals_active, change, memory_order_relaxed);
}

gt_signal_state gt__signal_current(void)
{
    return state;
}

gt_signal_state gt__signal_replace(gt_signal_state new)
{
    gt_signal_state before = state;
    if ((new.scope != 0) != (before.scope != 0))
        gt__signals_active += new.scope ? 1 : -1;
    state = new;
    return before;
}

bool gt__signal_inner(bool inner)
{
    bool before = state.inner;
    state.inner = inner;
    return before;
}

bool gt__signal_any_entered(void)
{
    return gt__signals_active != gt__modes_active;
}

gt_err gt__signal_reserve(uint32_t count)
{
    gt_err err = GT_OK;
    uint32_t number;
    pthread_mutex_lock(&mutex);
    while (err == GT_OK && scope_count < count)
        err = scope_new("", "", 0, &number);
    scopes_reserved = scope_count;
    pthread_mutex_unlock(&mutex);
    return err;
}

/* The workers that a config names must be connected. */
static gt_err check_workers(gt_client *client, const gt_signal_config *signal)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        int missing = -1;
        for (unsigned k = 0; k < signal->worker_count && missing < 0; k++)
            if (signal->workers[k] >= client->worker_entries)
                missing = signal->workers[k];
        if (missing < 0)
            return GT_OK;
        if (attempt && signal->mesh.rank)
            return gt__fail(GT_ERR_VALUE, "%s%s%s: the mesh needs worker %d: the server has %d worker%s",
                            signal->origin, *signal->origin ? ": " : "", signal->name, missing,
                            client->worker_entries, client->worker_entries == 1 ? "" : "s");
        if (attempt)
            return gt__fail(GT_ERR_VALUE, "%s%s%s: worker %d is not there: the server has %d worker%s",
                            signal->origin, *signal->origin ? ": " : "", signal->name, missing,
                            client->worker_entries, client->worker_entries == 1 ? "" : "s");
        GT_TRY(gt_synchronize(client)); /* answers bring the news of workers that joined */
    }
    return GT_OK;
}

/* Check the workers of a signal, and those of its gradients: of `backward`, or of the backward signal in the config. */
static gt_err check_signal(gt_client *client, const char *name, const char *backward)
{
    gt_signal_config signal;
    if (gt__signal_config_get(name, &signal)) {
        GT_TRY(check_workers(client, &signal));
        backward = *backward ? backward : signal.backward;
    }
    gt_signal_config gradients;
    return *backward && gt__signal_config_get(backward, &gradients) ? check_workers(client, &gradients) : GT_OK;
}

static bool compiles(const char *name)
{
    gt_signal_config signal;
    return gt__signal_config_get(name, &signal) && signal.flags & GT_CONFIG_COMPILE;
}

/* The caller has the mutex. */
static void warn_if_missing(const char *name)
{
    char warning[GT_CONFIG_WARNING];
    if (gt__config_misses(&config, name, warning, sizeof warning))
        gt__log_warning("%s", warning);
}

static gt_err leave_region(gt_client *client)
{
    gt_err err = gt__hotpath_leave(client);
    client->live--;
    gt__client_maybe_destroy(client);
    return err;
}

/* It may wait, and a handler that runs meanwhile may enter and leave scopes of this thread. */
static gt_err enter_region(gt_client *client, uint32_t number)
{
    client->live++;
    gt_err err = gt__hotpath_enter(client, GT_REGION_SCOPE + number);
    if (err != GT_OK) {
        client->live--;
        gt__client_maybe_destroy(client);
    }
    return err;
}

gt_err gt__signal_enter(gt_client *client, const char *name, const char *backward)
{
    backward = backward ? backward : "";
    GT_TRY(check_name(name));
    if (*backward)
        GT_TRY(check_name(backward));
    if (depth == MAX_DEPTH)
        return gt__fail(GT_ERR_VALUE, "signal scopes are nested more than %d deep", MAX_DEPTH);
    if (client)
        GT_TRY(check_signal(client, name, backward));
    uint32_t number;
    pthread_mutex_lock(&mutex);
    warn_if_missing(name);
    if (*backward)
        warn_if_missing(backward);
    gt_err err = scope_number(name, backward, state.scope, &number);
    pthread_mutex_unlock(&mutex);
    GT_TRY(err);
    gt_client *compiling = client && compiles(name) ? client : NULL;
    if (compiling)
        GT_TRY(enter_region(compiling, number));
    if (!stack && !(stack = malloc(MAX_DEPTH * sizeof *stack))) {
        if (compiling)
            leave_region(compiling);
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    stack[depth].scope = number;
    stack[depth].compiles = compiling;
    stack[depth++].before = gt__signal_replace((gt_signal_state){.scope = number, .inner = state.inner});
    return GT_OK;
}

/* The innermost scope is left. */
static gt_err leave(void)
{
    gt_client *client = stack[--depth].compiles;
    gt__signal_replace(stack[depth].before);
    if (!depth) {
        free(stack);
        stack = NULL;
    }
    return client ? leave_region(client) : GT_OK;
}

void gt__signal_name(uint32_t number, char name[GT_MAX_NAME + 1])
{
    pthread_mutex_lock(&mutex);
    snprintf(name, GT_MAX_NAME + 1, "%s", number && number <= scope_count ? scopes[number - 1]->name : "");
    pthread_mutex_unlock(&mutex);
}

gt_err gt__signal_exit(const char *name)
{
    bool found = false, innermost = false;
    char inner[GT_MAX_NAME + 1] = "";
    GT_TRY(check_name(name));
    pthread_mutex_lock(&mutex);
    for (unsigned k = 0; k < depth; k++) {
        strcpy(inner, scopes[stack[k].scope - 1]->name);
        innermost = strcmp(inner, name) == 0;
        found |= innermost;
    }
    pthread_mutex_unlock(&mutex);
    if (!found)
        return gt__fail(GT_ERR_VALUE, "signal '%s' is exited but was never entered", name);
    if (!innermost)
        return gt__fail(GT_ERR_VALUE, "signal '%s' is exited inside '%s', which was entered after it", name,
                        inner);
    return leave();
}

/* ---- telling the server ------------------------------------------------------------------------------------- */

static gt_err send_record(gt_client *client, const gt_slot *record)
{
    gt_slot *slots;
    unsigned length = 1u + record->ins.tail;
    GT_TRY(gt__client_reserve(client, length, &slots));
    memcpy(slots, record, length * sizeof *slots);
    gt__client_commit(client, length, 0);
    return GT_OK;
}

/* Write the next record that the server needs before it sees scope `number`; false: it has all. With the mutex held. */
static bool next_untold(gt_client *client, uint32_t number, gt_slot *record)
{
    if (client->config_version != config.version) {
        client->config_version = config.version;
        client->config_sent = 0;
    }
    if (client->config_sent < config.count) {
        gt__config_write(config.signals[client->config_sent++], record);
        return true;
    }
    client->config_told = config.version;
    if (client->scopes_sent >= number)
        return false;
    const scope *next = scopes[client->scopes_sent++];
    memset(record, 0, (1 + 2 * GT_NAME_SLOTS) * sizeof *record);
    record->ins = (gt_instruction){.op = GT_OP_scope, .tail = 2 * GT_NAME_SLOTS};
    record->ins.imm[0].u = client->scopes_sent;
    record->ins.imm[1].u = next->parent;
    memcpy(record + 1, next->name, sizeof next->name);
    memcpy(record + 1 + GT_NAME_SLOTS, next->backward, sizeof next->backward);
    return true;
}

bool gt__signal_untold(const gt_client *client)
{
    return state.scope && (client->scopes_sent < state.scope ||
                           client->config_told != atomic_load_explicit(&config_version, memory_order_acquire));
}

bool gt__signal_plain(const gt_client *client, uint32_t *number)
{
    *number = state.scope;
    return !state.backward && !gt__modes_on() && !gt__signal_untold(client);
}

/* Waits for room first: the wait may be interrupted, and another thread may send the same meanwhile. */
gt_err gt__signal_tell(gt_client *client)
{
    while (gt__signal_untold(client)) {
        gt_slot *slots;
        GT_TRY(gt__client_reserve(client, GT_CONFIG_SLOTS, &slots));
        pthread_mutex_lock(&mutex);
        bool written = next_untold(client, state.scope, slots);
        pthread_mutex_unlock(&mutex);
        if (written)
            gt__client_commit(client, 1u + slots->ins.tail, 0);
    }
    return GT_OK;
}

void gt__signal_stamp(gt_instruction *ins)
{
    ins->scope = state.scope;
    if (state.scope && state.backward)
        ins->flags |= GT_FLAG_BACKWARD;
}

/* The config of the innermost scope, from `number` outwards, that has a shard entry; NULL: none. With the mutex held. */
static const gt_signal_config *shard_config(uint32_t number)
{
    for (; number; number = scopes[number - 1]->parent) {
        const gt_signal_config *signal = gt__config_find(&config, scopes[number - 1]->name);
        if (signal && signal->flags & GT_CONFIG_SHARD)
            return signal;
    }
    return NULL;
}

/* Whether a new tensor of this shape can be placed as the signal says. */
static gt_err check_shape(const gt_signal_config *signal, const gt_meta *meta)
{
    const char *place = signal->origin, *gap = *place ? ": " : "", *name = signal->name;
    char shape[128];
    gt__shape_text(meta->rank, meta->shape, shape, sizeof shape);
    if (signal->flags & GT_CONFIG_AXIS && signal->worker_count != 1 &&
        (signal->axis >= meta->rank || signal->axis < -(int)meta->rank))
        return gt__fail(GT_ERR_VALUE, "%s%s%s: axis %lld is out of range for a tensor of shape %s", place, gap,
                        name, (long long)signal->axis, shape);
    unsigned taken = 0;
    for (unsigned d = 0; d < signal->mesh.rank; d++) {
        const gt_mesh_axis *axis = &signal->mesh.axis[d];
        int dimension = axis->axis < 0 ? axis->axis + meta->rank : axis->axis;
        if (axis->kind != GT_SPLIT || axis->size == 1)
            continue;
        if (dimension < 0 || dimension >= meta->rank)
            return gt__fail(GT_ERR_VALUE, "%s%s%s: axis %d is out of range for a tensor of shape %s", place, gap,
                            name, axis->axis, shape);
        if (meta->shape[dimension] % axis->size)
            return gt__fail(
                GT_ERR_VALUE,
                "%s%s%s: axis %d of a tensor of shape %s does not divide into %d equal parts along '%s'", place,
                gap, name, axis->axis, shape, axis->size, axis->name);
        if (taken >> dimension & 1)
            return gt__fail(GT_ERR_VALUE, "%s%s%s: axis %d of a tensor of shape %s would be split twice", place,
                            gap, name, axis->axis, shape);
        taken |= 1u << dimension;
    }
    return GT_OK;
}

gt_err gt__signal_check(gt_instruction *ins, const gt_meta *meta)
{
    gt_form form = (gt_form)gt__op_table[ins->op].form;
    bool places = form == GT_FORM_COPY || form == GT_FORM_FULL || form == GT_FORM_ARANGE || form == GT_FORM_EYE ||
                  form == GT_FORM_RANDOM || form == GT_FORM_UPLOAD;
    if (!ins->scope || !places || ins->flags & GT_FLAG_BACKWARD || !meta->rank)
        return GT_OK;
    bool asked =
        form == GT_FORM_COPY ? state.exact : !state.inner && !(gt__site_hooks.inner && gt__site_hooks.inner());
    if (!asked) {
        ins->flags |= GT_FLAG_INNER;
        return GT_OK;
    }
    gt_err err = GT_OK;
    pthread_mutex_lock(&mutex);
    const gt_signal_config *signal = shard_config(ins->scope);
    if (signal)
        err = check_shape(signal, meta);
    pthread_mutex_unlock(&mutex);
    return err;
}

gt_err gt__signal_introduce(gt_client *client)
{
    if (gt__setting(GT_SETTING_AUTO_SHARD) == 0)
        return GT_OK;
    gt_slot record[GT_CONFIG_SLOTS];
    gt__config_write(&(gt_signal_config){.flags = GT_CONFIG_AUTOMATIC}, record);
    return send_record(client, record);
}

/* The state of a scope that is nested in no other. */
static gt_err scoped_state(const char *name, gt_signal_state *alone)
{
    GT_TRY(check_name(name));
    pthread_mutex_lock(&mutex);
    gt_err err = scope_number(name, "", 0, &alone->scope);
    pthread_mutex_unlock(&mutex);
    *alone = (gt_signal_state){.scope = alone->scope};
    return err;
}

gt_err gt__signal_tensor(gt_tensor *tensor, const char *name, gt_tensor **out)
{
    gt_signal_state alone;
    GT_TRY(scoped_state(name, &alone));
    GT_TRY(check_signal(tensor->client, name, ""));
    pthread_mutex_lock(&mutex);
    warn_if_missing(name);
    pthread_mutex_unlock(&mutex);
    alone.exact = true;
    gt_signal_state before = gt__signal_replace(alone);
    gt_err err = gt_copy(tensor, out);
    gt__signal_replace(before);
    return err;
}

gt_err gt__signal_mark(gt_client *client, const char *name)
{
    gt_signal_state alone;
    GT_TRY(scoped_state(name, &alone));
    gt_slot record = {.ins = {.op = GT_OP_mark}};
    gt_signal_state before = gt__signal_replace(alone);
    gt__signal_stamp(&record.ins);
    gt_err err = gt__signal_tell(client);
    gt__signal_replace(before);
    return err == GT_OK ? send_record(client, &record) : err;
}

/* ---- the process's config ----------------------------------------------------------------------------------- */

gt_err gt__signal_config_init(void)
{
    const char *path = getenv("GT_CONFIG");
    pthread_mutex_lock(&mutex);
    bool first = !config_read;
    config_read = true;
    gt_err err = first && path && *path ? gt__config_load(&config, path) : GT_OK;
    config_version = config.version;
    if (err != GT_OK)
        config_read = false; /* the next call tries again and reports the error, too */
    pthread_mutex_unlock(&mutex);
    return err;
}

gt_err gt__signal_config_set(const gt_signal_config *signal)
{
    pthread_mutex_lock(&mutex);
    gt_err err = gt__config_set(&config, signal);
    config_version = config.version;
    pthread_mutex_unlock(&mutex);
    return err;
}

bool gt__signal_config_get(const char *name, gt_signal_config *signal)
{
    pthread_mutex_lock(&mutex);
    const gt_signal_config *found = gt__config_find(&config, name);
    if (found)
        *signal = *found;
    pthread_mutex_unlock(&mutex);
    return found;
}

bool gt__signal_config_name(size_t index, char name[GT_MAX_NAME + 1])
{
    pthread_mutex_lock(&mutex);
    bool there = index < config.count;
    if (there)
        strcpy(name, config.signals[index]->name);
    pthread_mutex_unlock(&mutex);
    return there;
}

/* ---- gt.h --------------------------------------------------------------------------------------------------- */

gt_err gt_config_load(const char *path)
{
    GT_REQUIRE(path);
    GT_TRY(gt__signal_config_init()); /* first, so that `path` replaces what GT_CONFIG says */
    pthread_mutex_lock(&mutex);
    gt_err err = gt__config_load(&config, path);
    config_version = config.version;
    pthread_mutex_unlock(&mutex);
    return err;
}

gt_err gt_signal_enter(gt_client *client, const char *name, const char *backward)
{
    GT_REQUIRE(client, name);
    GT_TRY(gt__client_check(client));
    return gt__signal_enter(client, name, backward);
}

gt_err gt_signal_exit(const char *name)
{
    GT_REQUIRE(name);
    return gt__signal_exit(name);
}

gt_err gt_signal_tensor(gt_tensor *a, const char *name, gt_tensor **out)
{
    GT_ARGUMENTS(out, a, name);
    return gt__signal_tensor(a, name, out);
}
