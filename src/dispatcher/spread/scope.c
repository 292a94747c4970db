/*
 * scope.c: from the scope of a record to its target: which workers, split along which axis.
 *
 * The innermost scope with a shard entry decides, in the client's config or, by default, in the server's. A gradient has
 * the backward signal of its forward scope: the one that the scope was entered with, else the config's, else the same
 * signal.
 */
#include <stdlib.h>
#include <string.h>

#include "dispatcher/live/evacuate.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/workers.h"

enum { MAX_SCOPES = 1 << 16, MAX_DEPTH = 1024 }; /* clients nest 256 themselves */

const char *gt__spread_scope_name(const gt_session *session, uint32_t scope)
{
    const gt_signals *s = session->signals;
    return s && scope && scope <= s->count ? s->scopes[scope - 1].name : NULL;
}

static gt_err signals_new(gt_session *session)
{
    if (!session->signals && !(session->signals = calloc(1, sizeof *session->signals)))
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    if (!session->signals->version)
        session->signals->version = 1;
    return GT_OK;
}

void gt__signals_free(gt_session *session)
{
    gt_signals *s = session->signals;
    if (!s)
        return;
    gt__config_free(&s->config);
    for (uint32_t k = 0; k < s->count; k++) {
        gt__target_release(s->scopes[k].target[false]);
        gt__target_release(s->scopes[k].target[true]);
    }
    free(s->scopes);
    free(s);
    session->signals = NULL;
}

static const gt_signal_config *find_signal(const gt_session *session, const char *name)
{
    const gt_signal_config *signal = gt__config_find(&session->signals->config, name);
    return signal ? signal : gt__config_find(&session->dispatcher->config, name);
}

/* The signal of a scope's gradients: the one it was entered with, or the config's; "": the scope's own. */
static const char *backward_name(const gt_scope *scope, const gt_signal_config *signal)
{
    return *scope->backward ? scope->backward : signal ? signal->backward : "";
}

const char *gt__spread_backward_name(const gt_session *session, uint32_t scope)
{
    const gt_scope *entered = &session->signals->scopes[scope - 1];
    return backward_name(entered, find_signal(session, entered->name));
}

/* The scope's own shard entry; NULL: it has none. */
static const gt_signal_config *own_shard(const gt_session *session, const gt_scope *scope, bool backward)
{
    const gt_signal_config *signal = find_signal(session, scope->name);
    const char *other = backward_name(scope, signal);
    if (backward && *other) {
        const gt_signal_config *gradient = find_signal(session, other);
        if (gradient && gradient->flags & GT_CONFIG_SHARD)
            return gradient;
    }
    return signal && signal->flags & GT_CONFIG_SHARD ? signal : NULL;
}

/* The shard entry that decides for a scope; NULL: none does. Kept in the scopes: a client may use another one for each record. */
static const gt_signal_config *find_shard(const gt_session *session, uint32_t number, bool backward)
{
    const gt_signals *s = session->signals;
    uint32_t chain[MAX_DEPTH], count = 0;
    const gt_signal_config *found = NULL;
    for (; number && !found; number = s->scopes[number - 1].parent) {
        gt_scope *scope = &s->scopes[number - 1];
        if (scope->decided[backward] == s->version) {
            found = scope->shard[backward];
            break;
        }
        chain[count++] = number;
        found = own_shard(session, scope, backward);
    }
    while (count-- > 0) {
        gt_scope *scope = &s->scopes[chain[count] - 1];
        scope->shard[backward] = found;
        scope->decided[backward] = s->version;
    }
    return found;
}

static gt_err consider_scope(gt_session *session, uint32_t number)
{
    bool spreads = find_shard(session, number, false) || find_shard(session, number, true);
    return spreads ? gt__spreading_new(session) : GT_OK;
}

gt_err gt__spread_scope(gt_session *session, const gt_slot *record)
{
    GT_TRY(signals_new(session));
    gt_signals *s = session->signals;
    uint64_t number = record->ins.imm[0].u, parent = record->ins.imm[1].u;
    if (number != (uint64_t)s->count + 1 || number > MAX_SCOPES || parent >= number)
        return gt__fail(GT_ERR_PROTOCOL, "scope %llu inside %llu comes out of order", (unsigned long long)number,
                        (unsigned long long)parent);
    uint32_t depth = parent ? s->scopes[parent - 1].depth + 1 : 1;
    if (depth > MAX_DEPTH)
        return gt__fail(GT_ERR_PROTOCOL, "more than %d scopes inside each other", MAX_DEPTH);
    if (s->count == s->capacity) {
        uint32_t capacity = s->capacity ? 2 * s->capacity : 16;
        gt_scope *scopes = realloc(s->scopes, capacity * sizeof *scopes);
        if (!scopes)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        s->scopes = scopes;
        s->capacity = capacity;
    }
    gt_scope *scope = &s->scopes[s->count++];
    *scope = (gt_scope){.parent = (uint32_t)parent, .depth = depth};
    memcpy(scope->name, record + 1, GT_MAX_NAME);
    memcpy(scope->backward, record + 1 + GT_NAME_SLOTS, GT_MAX_NAME);
    return consider_scope(session, s->count);
}

gt_err gt__spread_config(gt_session *session, const gt_slot *record)
{
    gt_signal_config signal;
    if (gt__config_read(record, &signal) != GT_OK)
        return gt__fail(GT_ERR_PROTOCOL, "malformed config record");
    if (signal.flags & (GT_CONFIG_AUTOMATIC | GT_CONFIG_SHARD))
        GT_TRY(gt__spreading_new(session));
    if (session->spreading) {
        session->spreading->target_valid = false;
        session->spreading->config_changes++;
    }
    if (signal.flags & GT_CONFIG_AUTOMATIC) {
        session->spreading->automatic = true;
        return GT_OK;
    }
    GT_TRY(signals_new(session));
    session->signals->version++;
    return gt__config_set(&session->signals->config, &signal);
}

gt_err gt__signals_reconsider(gt_session *session)
{
    session->plain_scope = 0;
    if (session->signals)
        session->signals->version++;
    for (uint32_t number = 1; session->signals && number <= session->signals->count; number++)
        GT_TRY(consider_scope(session, number));
    if (session->spreading) {
        session->spreading->target_valid = false;
        session->spreading->config_changes++;
    }
    return GT_OK;
}

void gt__signals_look_up(const gt_session *session, uint32_t number)
{
    const gt_signals *s = session->signals;
    for (; s && number && number <= s->count; number = s->scopes[number - 1].parent) {
        char warning[GT_CONFIG_WARNING];
        const char *name = s->scopes[number - 1].name;
        if (s->scopes[number - 1].looked == s->version)
            return;
        s->scopes[number - 1].looked = s->version;
        const gt_signal_config *signal = find_signal(session, name);
        if (signal && signal->flags & GT_CONFIG_SHARD)
            return; /* this one decides */
        if (!signal && gt__config_misses(&session->dispatcher->config, name, warning, sizeof warning))
            gt__peer_log(session->peer, GT_LOG_WARNING, "is warned: %s", warning);
    }
}

/* ---- which workers they name --------------------------------------------------------------------------------- */

/* Whether the signal lists a number that means this worker. */
static bool lists(const gt_successors *successors, const gt_signal_config *signal, int32_t worker)
{
    for (unsigned k = 0; signal->flags & GT_CONFIG_SHARD && k < signal->worker_count; k++)
        if (gt__successors_find(successors, signal->workers[k]) == worker)
            return true;
    return false;
}

static bool config_means(const gt_config *config, int32_t number)
{
    static const gt_successors none;
    for (size_t k = 0; k < config->count; k++)
        if ((config->signals[k]->flags & GT_CONFIG_SHARD && !config->signals[k]->worker_count) ||
            lists(&none, config->signals[k], number))
            return true;
    return false;
}

bool gt__signals_mean(const gt_session *session, int32_t number)
{
    return (session->spreading && session->spreading->automatic) ||
           (session->signals && config_means(&session->signals->config, number)) ||
           config_means(&session->dispatcher->config, number);
}

static bool config_parts(const gt_session *session, const gt_config *config, int32_t one, int32_t other)
{
    const gt_successors *successors = &session->successors;
    for (size_t k = 0; k < config->count; k++)
        if (lists(successors, config->signals[k], one) && lists(successors, config->signals[k], other))
            return true;
    return false;
}

bool gt__signals_part(const gt_session *session, int32_t one, int32_t other)
{
    return (session->signals && config_parts(session, &session->signals->config, one, other)) ||
           config_parts(session, &session->dispatcher->config, one, other);
}

/* ---- targets -------------------------------------------------------------------------------------------------- */

static bool has(const gt_target *target, int32_t worker)
{
    for (unsigned k = 0; k < target->count; k++)
        if (target->worker[k] == worker)
            return true;
    return false;
}

/* Whether new tensors may go to a worker by its own number. */
static bool is_nameable(const gt_dispatch_worker *worker)
{
    return worker->peer && !worker->relief && !worker->leaving.dismissed;
}

/* But for those that get nothing new. One that leaves is used until the session's tensors are moved away. */
static void all_workers(const gt_session *session, gt_target *target)
{
    const gt_dispatcher *dispatcher = session->dispatcher;
    for (int32_t index = 0; index < dispatcher->worker_count && target->count < GT_MAX_PARTIES; index++) {
        int32_t meant = gt__successors_find(&session->successors, index);
        const gt_dispatch_worker *worker = dispatcher->workers[meant];
        bool new_ones = is_nameable(worker) && !worker->draining &&
                        (!worker->leaving.wanted || gt__session_uses(session, worker));
        if (worker->peer && (meant != index || new_ones) && !has(target, meant))
            target->worker[target->count++] = meant;
    }
}

/* The axes of more than one worker. One of them is a line of workers, as without a mesh. */
static void fill_mesh(const gt_mesh *mesh, gt_target *target)
{
    bool split = false;
    for (unsigned d = 0; d < mesh->rank; d++)
        if (mesh->axis[d].size > 1) {
            target->mesh.axis[target->mesh.rank++] = mesh->axis[d];
            split |= mesh->axis[d].kind == GT_SPLIT;
        }
    target->split = split;
    if (target->mesh.rank == 1) {
        target->axis = target->mesh.axis[0].axis;
        target->even = split;
    }
    if (target->mesh.rank == 1 || !split)
        target->mesh.rank = 0;
}

static gt_err fill_target(const gt_session *session, const gt_signal_config *signal, gt_target *target)
{
    const gt_dispatcher *dispatcher = session->dispatcher;
    *target = (gt_target){.split = !(signal->flags & GT_CONFIG_REPLICATED), .axis = signal->axis};
    if (!signal->worker_count)
        all_workers(session, target);
    for (unsigned k = 0; k < signal->worker_count; k++) {
        int32_t named = signal->workers[k], worker = gt__successors_find(&session->successors, named);
        if (worker >= dispatcher->worker_count || !dispatcher->workers[worker]->peer ||
            (worker == named && !is_nameable(dispatcher->workers[worker])))
            return gt__fail(GT_ERR_VALUE, "signal %s: worker %d is not there", signal->name, named);
        if (has(target, worker))
            return gt__fail(GT_ERR_VALUE, "signal %s: worker %d has taken the place of another one that it names",
                            signal->name, worker);
        target->worker[target->count++] = worker;
    }
    if (signal->mesh.rank)
        fill_mesh(&signal->mesh, target);
    return target->count ? GT_OK : gt__fail(GT_ERR_VALUE, "signal %s: no worker is there", signal->name);
}

gt_err gt__signals_check(const gt_session *session)
{
    const gt_signals *s = session->signals;
    for (uint32_t number = 1; s && number <= s->count; number++)
        for (unsigned backward = 0; backward < 2; backward++) {
            const gt_signal_config *signal = find_shard(session, number, backward);
            gt_target unused;
            if (signal)
                GT_TRY(fill_target(session, signal, &unused));
        }
    return GT_OK;
}

/* A target that is shared: the one that the scope asked for before, if it is the same. Takes the reference in *kept. */
static gt_err keep_target(const gt_target *wanted, gt_target **kept)
{
    if (*kept && gt__target_equal(*kept, wanted))
        return GT_OK;
    gt_target *target = malloc(sizeof *target);
    if (!target)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    *target = *wanted;
    target->references = 1;
    gt__target_release(*kept);
    *kept = target;
    return GT_OK;
}

gt_err gt__scope_target(gt_session *session, uint32_t scope, bool backward, gt_target **target)
{
    const gt_signal_config *signal = find_shard(session, scope, backward);
    gt_target wanted;
    *target = NULL;
    if (!signal)
        return GT_OK;
    GT_TRY(fill_target(session, signal, &wanted));
    wanted.scope = scope;
    wanted.backward = backward;
    gt_target **kept = &session->signals->scopes[scope - 1].target[backward];
    GT_TRY(keep_target(&wanted, kept));
    *target = *kept;
    return GT_OK;
}

gt_err gt__spread_target(gt_session *session, const gt_instruction *ins, gt_target **target)
{
    gt_spreading *s = session->spreading;
    bool backward = ins->flags & GT_FLAG_BACKWARD;
    *target = NULL;
    if (!ins->scope && !s->automatic)
        return GT_OK;
    if (ins->scope > (session->signals ? session->signals->count : 0))
        return gt__fail(GT_ERR_PROTOCOL, "scope %u does not exist", ins->scope);
    if (!s->target_valid || s->target_scope != ins->scope || s->target_backward != backward) {
        gt_target *asked;
        gt__signals_look_up(session, ins->scope);
        s->target_valid = false;
        GT_TRY(gt__scope_target(session, ins->scope, backward, &asked));
        s->target_there = asked || s->automatic;
        if (asked) {
            gt__target_retain(asked);
            gt__target_release(s->target);
            s->target = asked;
        } else if (s->automatic) {
            gt_target all = {.split = true, .automatic = true};
            all_workers(session, &all);
            GT_TRY(keep_target(&all, &s->target));
        }
        s->target_valid = true;
        s->target_scope = ins->scope;
        s->target_backward = backward;
    }
    if (s->target_there)
        *target = s->target;
    return GT_OK;
}

/* On the mesh of the target. A dimension of no elements cannot be split. */
static gt_layout *mesh_layout(const gt_target *target, bool may_miss, const gt_meta *meta)
{
    gt_mesh mesh = target->mesh;
    char shape[128];
    gt__shape_text(meta->rank, meta->shape, shape, sizeof shape);
    for (unsigned d = 0; d < mesh.rank; d++) {
        gt_mesh_axis *axis = &mesh.axis[d];
        if (axis->kind != GT_SPLIT)
            continue;
        int dimension = axis->axis < 0 ? axis->axis + meta->rank : axis->axis;
        bool missing = dimension < 0 || dimension >= meta->rank;
        bool uneven = !missing && meta->shape[dimension] % axis->size != 0, twice = false;
        for (unsigned other = 0; other < d; other++)
            twice |= mesh.axis[other].kind == GT_SPLIT && mesh.axis[other].axis == dimension;
        if ((missing || uneven || twice) && !may_miss && meta->rank) {
            gt__error_set("axis %d of a tensor of shape %s %s along mesh axis '%s' of %d", axis->axis, shape,
                          missing  ? "is out of range, to be split"
                          : uneven ? "does not divide"
                                   : "cannot be split once more,",
                          axis->name, axis->size);
            return NULL;
        }
        bool splits = !missing && !uneven && !twice && meta->shape[dimension] > 0;
        axis->kind = splits ? GT_SPLIT : GT_REPLICATED;
        axis->axis = splits ? (int8_t)dimension : 0;
    }
    gt_layout *layout = gt__layout_meshed(&mesh, target->worker);
    if (!layout)
        gt__error_set("out of memory");
    return layout;
}

gt_layout *gt__target_layout(gt_target *target, uint8_t flags, const gt_meta *meta)
{
    int64_t axis = target->axis < 0 ? target->axis + meta->rank : target->axis;
    bool missing = axis < 0 || axis >= meta->rank, may_miss = flags & (GT_FLAG_BACKWARD | GT_FLAG_INNER);
    bool uneven = target->even && !missing && meta->shape[axis] % target->count;
    gt_layout *layout;
    if (target->mesh.rank)
        return gt__layout_asked(mesh_layout(target, may_miss, meta), target);
    if (!target->split || meta->rank == 0 || target->count == 1 || (missing && may_miss))
        layout = gt__layout_replicated(target->worker, target->count);
    else if (missing || (uneven && !may_miss)) {
        char shape[128];
        gt__error_set(missing
                          ? "axis %lld of the signal is out of range for a tensor of shape %s"
                          : "axis %lld of the signal's mesh does not divide a tensor of shape %s into equal parts",
                      (long long)target->axis, gt__shape_text(meta->rank, meta->shape, shape, sizeof shape));
        return NULL;
    } else
        layout = gt__layout_even((unsigned)axis, meta->shape[axis], target->worker, target->count);
    if (!layout)
        gt__error_set("out of memory");
    return gt__layout_asked(layout, target);
}
