/* quota.c: see quota.h. Place in the flow: place.c, paths.c and spread/ ask here before they place a record. */
#include "dispatcher/quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/record.h"
#include "dispatcher/recover/recover.h"
#include "dispatcher/session.h"
#include "dispatcher/spread/spread.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

enum {
    MOST_TEXT = 200,    /* bytes of a refusal */
    MOST_REFUSED = 4096 /* tensors beyond twice the limit: further results that are refused are left out */
};

/* ---- limits ------------------------------------------------------------------------------------------------- */

static uint64_t pick(uint64_t first, uint64_t second)
{
    return first ? first : second;
}

/* The limits of a user: its own entry in the config, else the command line, else the entry for all. */
static void resolve(gt_dispatcher *dispatcher, gt_user_account *user)
{
    gt_limit_table *table = &dispatcher->config.limits;
    const gt_limits *own = gt__limit_table_user(table, user->name, false);
    for (unsigned k = 0; k < GT_LIMIT_COUNT; k++) {
        uint64_t most = pick(own ? own->most[k] : 0, pick(dispatcher->limits.most[k], table->all.most[k]));
        user->limits.most[k] = most ? most : GT_UNLIMITED;
    }
}

static gt_user_account *user_find(gt_dispatcher *dispatcher, const char *name)
{
    gt_user_account *user = dispatcher->users;
    while (user && strcmp(user->name, name) != 0)
        user = user->next;
    if (user || !(user = calloc(1, sizeof *user)))
        return user;
    snprintf(user->name, sizeof user->name, "%s", name);
    resolve(dispatcher, user);
    user->next = dispatcher->users;
    dispatcher->users = user;
    return user;
}

gt_err gt__quota_configure(gt_dispatcher *dispatcher)
{
    for (gt_user_account *user = dispatcher->users; user; user = user->next)
        resolve(dispatcher, user);
    for (gt_peer *peer = dispatcher->peers; peer; peer = peer->next)
        if (peer->session)
            GT_TRY(gt__quota_apply(peer->session));
    return GT_OK;
}

void gt__quota_users_free(gt_dispatcher *dispatcher)
{
    while (dispatcher->users) {
        gt_user_account *next = dispatcher->users->next;
        free(dispatcher->users);
        dispatcher->users = next;
    }
}

/* ---- connections -------------------------------------------------------------------------------------------- */

gt_err gt__quota_connect(gt_peer *peer)
{
    gt_dispatcher *dispatcher = peer->dispatcher;
    gt_user_account *user = user_find(dispatcher, *peer->link->user ? peer->link->user : "unknown");
    char text[MOST_TEXT];
    if (!user)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_limit passed = dispatcher->connections >= user->limits.most[GT_LIMIT_CONNECTIONS] ? GT_LIMIT_CONNECTIONS
                      : user->connections >= user->limits.most[GT_LIMIT_USER_CONNECTIONS]
                          ? GT_LIMIT_USER_CONNECTIONS
                          : GT_LIMIT_COUNT;
    if (passed != GT_LIMIT_COUNT)
        return gt__fail(GT_ERR_CONNECTION, "the connections have reached the %s",
                        gt__limit_text(passed, user->limits.most[passed], text, sizeof text));
    user->connections++;
    dispatcher->connections++;
    peer->user = user;
    return GT_OK;
}

void gt__quota_disconnect(gt_peer *peer)
{
    if (!peer->user)
        return;
    peer->user->connections--;
    peer->dispatcher->connections--;
    peer->user = NULL;
}

/* ---- holdings ----------------------------------------------------------------------------------------------- */

static void *grown(void *old, uint32_t had, uint32_t capacity, size_t size)
{
    char *memory = realloc(old, capacity * size);
    if (memory)
        memset(memory + had * size, 0, (capacity - had) * size);
    return memory;
}

static gt_err make_room(gt_quota *quota, uint32_t index)
{
    if (index < quota->holding_capacity)
        return GT_OK;
    uint32_t capacity = quota->holding_capacity ? quota->holding_capacity : 128;
    while (capacity <= index)
        capacity *= 2;
    gt_holding *holdings = grown(quota->holdings, quota->holding_capacity, capacity, sizeof *holdings);
    if (!holdings)
        return gt__fail(GT_ERR_MEMORY, "too many tensors");
    quota->holdings = holdings;
    quota->holding_capacity = capacity;
    return GT_OK;
}

static gt_err storage_new(gt_quota *quota, uint64_t bytes, uint32_t *number)
{
    if (quota->storage_free) {
        *number = quota->storage_free;
        quota->storage_free = quota->storages[*number - 1].references;
    } else {
        if (quota->storage_used == quota->storage_capacity) {
            uint32_t capacity = quota->storage_capacity ? 2 * quota->storage_capacity : 128;
            gt_storage *storages = grown(quota->storages, quota->storage_capacity, capacity, sizeof *storages);
            if (!storages)
                return gt__fail(GT_ERR_MEMORY, "too many tensors");
            quota->storages = storages;
            quota->storage_capacity = capacity;
        }
        *number = ++quota->storage_used;
    }
    quota->storages[*number - 1] = (gt_storage){.bytes = bytes};
    quota->bytes += bytes;
    quota->user->bytes += bytes;
    return GT_OK;
}

/* storage: 0: no memory. */
static void hold(gt_quota *quota, uint32_t index, uint32_t storage, bool whole)
{
    quota->holdings[index] = (gt_holding){.storage = storage, .counted = true, .whole = whole};
    quota->user->tensors++;
    if (storage)
        quota->storages[storage - 1].references++;
}

void gt__quota_drop(gt_quota *quota, uint32_t index)
{
    gt_holding *holding = index < quota->holding_capacity ? &quota->holdings[index] : NULL;
    if (!holding || !holding->counted)
        return;
    quota->user->tensors--;
    if (holding->storage && !--quota->storages[holding->storage - 1].references) {
        gt_storage *storage = &quota->storages[holding->storage - 1];
        quota->bytes -= storage->bytes;
        quota->user->bytes -= storage->bytes;
        storage->references = quota->storage_free;
        quota->storage_free = holding->storage;
    }
    *holding = (gt_holding){0};
}

static uint32_t index_of(const gt_session *session, const gt_handle *handle)
{
    return (uint32_t)(handle - session->handles.handles);
}

gt_err gt__quota_hold(gt_session *session, gt_handle *handle)
{
    gt_quota *quota = session->quota;
    uint32_t index = index_of(session, handle), storage;
    GT_TRY(make_room(quota, index));
    GT_TRY(storage_new(quota, gt__meta_bytes(&handle->meta), &storage));
    hold(quota, index, storage, true);
    return GT_OK;
}

static const gt_holding *holding_of(const gt_session *session, const gt_handle *handle)
{
    uint32_t index = index_of(session, handle);
    return index < session->quota->holding_capacity ? &session->quota->holdings[index] : NULL;
}

uint64_t gt__quota_frees(const gt_session *session, const gt_handle *handle)
{
    const gt_holding *holding = holding_of(session, handle);
    const gt_storage *storage =
        holding && holding->storage ? &session->quota->storages[holding->storage - 1] : NULL;
    return storage && storage->references == 1 ? storage->bytes : 0;
}

/* ---- records ------------------------------------------------------------------------------------------------ */

/* The limit that so many more tensors and bytes would pass; GT_LIMIT_COUNT: none. `present`: the session's tensors without
 * them; *used: what counts towards that limit. */
static gt_limit passed_limit(const gt_session *session, uint64_t tensors, uint64_t bytes, uint64_t freed,
                             uint64_t present, uint64_t *used)
{
    const gt_quota *quota = session->quota;
    const gt_user_account *user = quota->user;
    const uint64_t *most = quota->limits.most;
    const struct {
        gt_limit limit;
        uint64_t used, more;
    } rows[] = {
        {GT_LIMIT_TENSORS, present, tensors},
        {GT_LIMIT_USER_TENSORS, user->tensors, tensors},
        {GT_LIMIT_MEMORY, quota->bytes - freed, bytes},
        {GT_LIMIT_USER_MEMORY, user->bytes - freed, bytes},
    };
    *used = 0;
    for (unsigned k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        uint64_t limit = most[rows[k].limit];
        *used = rows[k].used;
        if (rows[k].more && (rows[k].used > limit || rows[k].more > limit - rows[k].used))
            return rows[k].limit;
    }
    return GT_LIMIT_COUNT;
}

bool gt__quota_admits(const gt_session *session, uint64_t tensors, uint64_t bytes, uint64_t freed)
{
    uint64_t used;
    if (gt__recover_active(
            session)) /* what was within the limits is so again; if something was not, each record is asked for */
        return !gt__recover_refuses(session);
    return passed_limit(session, tensors, bytes, freed, session->handles.count, &used) == GT_LIMIT_COUNT;
}

/* The tensor whose memory the result of a record shares; NULL: it has memory of its own. A reshape may be a copy, unless its
 * operand lies in order. Of spread tensors, only expansions are known to be views. */
static const gt_handle *view_of(const gt_session *session, const gt_instruction *ins)
{
    unsigned form = gt__op_table[ins->op].form;
    if (form < GT_FORM_RESHAPE || form > GT_FORM_UNFOLD || gt__literal(ins, 0) != GT_LITERAL_NONE ||
        (session->spreading && form != GT_FORM_EXPAND))
        return NULL;
    const gt_handle *operand = gt__handles_find(&session->handles, ins->operand[0]);
    const gt_holding *holding = operand ? holding_of(session, operand) : NULL;
    bool copies = form == GT_FORM_RESHAPE || form == GT_FORM_AS_COMPLEX;
    return holding && holding->storage && (holding->whole || !copies) ? operand : NULL;
}

static gt_err fail(const gt_session *session, gt_limit limit, uint64_t used, uint64_t more)
{
    char text[MOST_TEXT], in_use[GT_AMOUNT_SIZE], wanted[GT_AMOUNT_SIZE];
    gt__limit_text(limit, session->quota->limits.most[limit], text, sizeof text);
    gt__limit_amount(limit, used, in_use);
    if (!gt__limit_is_bytes(limit))
        return gt__fail(GT_ERR_MEMORY, "%s: there are %s; free some first", text, in_use);
    return gt__fail(GT_ERR_MEMORY, "%s: %s in use, the result needs %s", text, in_use,
                    gt__limit_amount(limit, more, wanted));
}

/* The limit that refuses a record; GT_LIMIT_COUNT: none. In a recovery, the one that refused it before. */
static gt_limit refusing_limit(gt_session *session, uint64_t id, uint64_t *bytes, uint64_t freed, uint64_t *used)
{
    if (gt__recover_active(session)) {
        const gt_refusal *refusal = gt__recover_refusal(session, id);
        *used = refusal ? refusal->used : 0;
        *bytes = refusal ? refusal->more : *bytes;
        return refusal ? refusal->limit : GT_LIMIT_COUNT;
    }
    gt_limit limit = passed_limit(session, 1, *bytes, freed, session->handles.count - 1u, used);
    if (limit != GT_LIMIT_COUNT && session->recovery)
        gt__recover_note_refusal(session, &(gt_refusal){.id = id, .limit = limit, .used = *used, .more = *bytes});
    return limit;
}

gt_err gt__quota_charge(gt_session *session, const gt_slot *record, gt_handle *handle, bool *refused)
{
    gt_quota *quota = session->quota;
    const gt_handle *from = view_of(session, &record->ins);
    const gt_handle *consumed = gt__record_consumed(&record->ins)
                                    ? gt__handles_find(&session->handles, gt__record_consumed(&record->ins))
                                    : NULL;
    uint64_t bytes = from ? 0 : gt__meta_bytes(&handle->meta), used;
    uint32_t index = index_of(session, handle), storage = from ? holding_of(session, from)->storage : 0;
    bool whole =
        !from || (holding_of(session, from)->whole && gt__op_table[record->ins.op].form == GT_FORM_RESHAPE);
    uint64_t freed = consumed ? gt__quota_frees(session, consumed) : 0;
    gt_limit limit = refusing_limit(session, record->ins.result, &bytes, freed, &used);
    GT_TRY(make_room(quota, index));
    *refused = limit != GT_LIMIT_COUNT;
    if (*refused) {
        quota->refusals++;
        hold(quota, index, 0, false);
        fail(session, limit, used, bytes); /* its text is for gt__quota_refuse */
        return GT_OK;
    }
    if (!from)
        GT_TRY(storage_new(quota, bytes, &storage));
    hold(quota, index, storage, whole);
    return GT_OK;
}

bool gt__quota_misses(const gt_session *session, const gt_slot *record)
{
    gt_operands operands = gt__record_operands(&record->ins, record + 1);
    for (unsigned k = 0; session->left_out && k < operands.count; k++)
        if (gt__operand_is_tensor(&operands, k) && !gt__handles_find(&session->handles, operands.id[k]))
            return true;
    return false;
}

/* Whether the session has so many handles that no more results can be refused. Those of a recovery were there before. */
static bool is_full(const gt_session *session)
{
    const uint64_t *limits = session->quota->limits.most;
    uint64_t most = limits[GT_LIMIT_TENSORS] < limits[GT_LIMIT_USER_TENSORS] ? limits[GT_LIMIT_TENSORS]
                                                                             : limits[GT_LIMIT_USER_TENSORS];
    return !gt__recover_active(session) && session->handles.count > most &&
           session->handles.count - most > most + MOST_REFUSED;
}

static gt_err leave_out(gt_session *session, uint64_t id, const char *text)
{
    int32_t worker;
    uint32_t slot;
    if (!session->left_out && !(session->left_out = strdup(text)))
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    if (session->recovery) { /* the journal alone does not say which were left out */
        session->recovery->hopeless = true;
        session->recovery->look_ns = 0;
    }
    gt__handles_remove(&session->handles, id, &worker, &slot);
    return GT_OK;
}

gt_err gt__quota_refuse(gt_session *session, const gt_slot *record, gt_handle *handle)
{
    gt_dispatch_worker *worker = session->home;
    const gt_instruction *ins = &record->ins;
    char text[MOST_TEXT];
    snprintf(text, sizeof text, "%s", gt_error_text());
    if (ins->op == GT_OP_upload && ins->imm[1].u)
        gt__relay_unused(session, ins->imm[1].u);
    if (is_full(session))
        return leave_out(session, ins->result, text);
    size_t bytes = strlen(text);
    unsigned tail = gt__slots_for(bytes);
    uint32_t slot = worker ? gt__slot_number_new(&worker->slots) : 0;
    gt_slot *out = slot ? gt__worker_reserve(worker, 1 + tail) : NULL;
    if (!out) {
        handle->slot = gt__session_reason(session, text);
        return GT_OK;
    }
    out->ins = (gt_instruction){.op = GT_OP_failure, .tail = (uint16_t)tail, .result = slot};
    out->ins.scope = ins->scope;
    out->ins.site = ins->site;
    out->ins.operand[0] = ins->op;
    out->ins.imm[0].i = GT_ERR_MEMORY;
    out->ins.imm[1].u = bytes;
    memcpy(out + 1, text, bytes);
    gt__slots_pad(out + 1, bytes);
    gt__worker_put(worker, 1 + tail);
    handle->worker = worker->index;
    handle->slot = slot;
    return GT_OK;
}

/* ---- sessions ----------------------------------------------------------------------------------------------- */

static bool is_counted(const gt_limits *limits)
{
    static const gt_limit counted[] = {GT_LIMIT_MEMORY, GT_LIMIT_TENSORS, GT_LIMIT_USER_MEMORY,
                                       GT_LIMIT_USER_TENSORS};
    for (unsigned k = 0; k < sizeof counted / sizeof counted[0]; k++)
        if (limits->most[counted[k]] != GT_UNLIMITED)
            return true;
    return false;
}

gt_err gt__quota_apply(gt_session *session)
{
    gt_user_account *user = session->peer->user;
    session->account.most_queued = user ? user->limits.most[GT_LIMIT_QUEUED] : GT_UNLIMITED;
    if (!user || !is_counted(&user->limits)) {
        gt__quota_free(session);
        return GT_OK;
    }
    bool fresh = !session->quota;
    if (fresh && !(session->quota = calloc(1, sizeof *session->quota)))
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    session->quota->user = user;
    session->quota->limits = user->limits;
    session->handles.quota = session->quota;
    uint32_t cursor = 0;
    gt_handle *handle;
    while (fresh && (handle = gt__handles_next(&session->handles, &cursor)))
        GT_TRY(gt__quota_hold(session, handle)); /* which of them are views is not known any more */
    return GT_OK;
}

void gt__quota_release(gt_quota *quota)
{
    if (!quota)
        return;
    for (uint32_t index = 0; index < quota->holding_capacity; index++)
        gt__quota_drop(quota, index);
    free(quota->holdings);
    free(quota->storages);
    free(quota);
}

void gt__quota_free(gt_session *session)
{
    gt__quota_release(session->quota);
    session->quota = NULL;
    session->handles.quota = NULL;
}
