/*
 * emit.c: from an op call to a record on the link. It waits only for room, when the server is far behind.
 *
 * The hot path is gt__emit_binary on two tensors of one shape and dtype: compare, take a tensor from the free list, write
 * 64 bytes. Everything else goes through gt__emit, which runs the same inference that the server will run.
 * Read next: tensor.c (the public ops), transfer.c (the waits).
 */
#include <stdlib.h>
#include <string.h>

#include "client/autograd.h"
#include "client/batch.h"
#include "client/bounds.h"
#include "client/client.h"
#include "client/hotpath.h"
#include "client/intercept.h"
#include "client/quick.h"
#include "core/log.h"
#include "core/record.h"
#include "client/signals.h"

enum { FLUSH_WORK = 32768 }; /* elements: enough queued work to wake the server */

/* ---- room -------------------------------------------------------------------------------------------------- */

const char *gt__client_end(const gt_client *client)
{
    return client->detached ? "the session of this tensor was detached: whoever attaches it has it"
                            : "the client is closed";
}

gt_err gt__client_check(gt_client *client)
{
    if (client->generation != gt__fork_generation)
        return gt__fail(GT_ERR_CONNECTION,
                        "the client belongs to the parent process; a forked child opens its own");
    if (client->closed || !client->link)
        return gt__fail(GT_ERR_CONNECTION, "%s", gt__client_end(client));
    if (client->link->dead)
        return gt__fail(GT_ERR_CONNECTION, "%s", client->link->reason);
    return GT_OK;
}

static gt_err wait_for_room(gt_client *client, unsigned slots)
{
    GT_TRY(gt__client_lock(client));
    gt_err err = GT_OK;
    client->progress.op = GT_OP_INVALID;
    while (err == GT_OK &&
           ((client->draining && !gt__hotpath_drain(client)) || !gt__link_reserve(client->link, slots))) {
        gt__link_flush(client->link);
        client->work = 0;
        err = gt__client_wait(client, GT_WAIT_WRITE);
    }
    gt__client_unlock(client);
    return err;
}

static inline bool is_usable(const gt_client *client)
{
    return __builtin_expect(client->usable && client->generation == gt__fork_generation, 1);
}

/* Room for a record, without waiting; NULL: there is none now, or the client cannot be used. */
static inline gt_slot *room_now(gt_client *client, unsigned slots)
{
    if (!is_usable(client))
        return NULL;
    if (__builtin_expect(client->draining, 0) && !gt__hotpath_drain(client))
        return NULL;
    return gt__link_reserve(client->link, slots);
}

gt_slot *gt__client_room(gt_client *client, unsigned slots)
{
    return room_now(client, slots);
}

gt_err gt__client_reserve(gt_client *client, unsigned slots, gt_slot **out)
{
    while (!(*out = room_now(client, slots)))
        GT_TRY(wait_for_room(client, slots));
    return GT_OK;
}

static void debug_record(const gt_instruction *ins)
{
    char text[128];
    gt__log(GT_LOG_CLIENT, "%s", gt__instruction_text(ins, text, sizeof text));
}

static inline void publish(gt_client *client, unsigned slots, int64_t work)
{
    gt__link_commit(client->link, slots);
    client->work += (uint64_t)work;
    if (__builtin_expect(client->link->unflushed >= client->link->batch || client->work >= FLUSH_WORK, 0)) {
        client->link->ops->flush(client->link);
        client->work = 0;
    }
}

void gt__client_publish(gt_client *client, unsigned slots, int64_t work)
{
    publish(client, slots, work);
}

/* Every record of a client comes through here. */
static inline void commit(gt_client *client, unsigned slots, int64_t work)
{
    if (gt__log_on(GT_LOG_CLIENT))
        debug_record(&client->link->write_next->ins);
    if (client->expected && gt__hotpath_hold(client))
        return;
    if (!client->hotpath || !gt__hotpath_take(client, slots, work))
        publish(client, slots, work);
}

void gt__client_commit(gt_client *client, unsigned slots, int64_t work)
{
    commit(client, slots, work);
}

/* ---- tensors ----------------------------------------------------------------------------------------------- */

/* As every new tensor begins, but for id and meta. */
static inline void tensor_clear(gt_tensor *tensor)
{
    tensor->references = 1;
    tensor->batch = 0;
    tensor->bounded = GT_UNBOUNDED;
    tensor->inference = 0;
    tensor->name = 0;
    tensor->version = 0;
    tensor->overwritten = 0;
    tensor->base = NULL;
    tensor->node = NULL;
    tensor->versions = NULL;
}

static __attribute__((noinline)) gt_tensor *tensor_allocate(gt_client *client)
{
    gt_tensor *tensor = malloc(sizeof *tensor);
    if (tensor) {
        tensor_clear(tensor);
        tensor->client = client;
        tensor->next_spare = NULL;
    }
    return tensor;
}

/* A tensor with a new id; NULL: out of memory. */
static inline gt_tensor *tensor_new(gt_client *client)
{
    gt_tensor *tensor = client->spare;
    if (__builtin_expect(!tensor, 0) && !(tensor = tensor_allocate(client)))
        return NULL;
    client->spare = tensor->next_spare;
    tensor->id = client->next_id++;
    client->live++;
    return tensor;
}

/* Undo tensor_new for a tensor that was never emitted. */
static void tensor_drop(gt_tensor *tensor)
{
    tensor_clear(tensor);
    gt__tensor_spare(tensor);
}

void gt__versions_release(gt_versions *versions)
{
    if (versions && --versions->references == 0)
        free(versions);
}

/* The last reference to the tensor has gone, and with it perhaps that to its base. */
static __attribute__((noinline)) void tensor_end(gt_tensor *tensor)
{
    do {
        gt_client *client = tensor->client;
        gt_tensor *base = tensor->base;
        if (__builtin_expect(tensor->node != NULL, 0))
            gt__node_release(tensor->node);
        if (__builtin_expect(tensor->versions != NULL, 0))
            gt__versions_release(tensor->versions);
        if (__builtin_expect(!base && tensor->id && (client->usable || client->waiting), 1))
            gt__client_free_id(client, tensor->id, gt__meta_bytes(&tensor->meta));
        else if (tensor->batch)
            gt__batch_count(-1);
        tensor_drop(tensor);
        if (__builtin_expect(client->closed, 0) && !base)
            gt__client_maybe_destroy(client);
        tensor = base;
    } while (tensor && --tensor->references == 0);
}

void gt__tensor_release_any(gt_tensor *tensor)
{
    if (--tensor->references == 0)
        tensor_end(tensor);
}

void gt_tensor_release(gt_tensor *tensor)
{
    if (tensor && tensor->references > 1)
        tensor->references--;
    else if (tensor && !gt__quick_release(tensor))
        gt__tensor_release_any(tensor);
}

/* A new tensor of the same value, without a node. Its base is the caller's to set. */
static gt_err tensor_twin(const gt_tensor *tensor, gt_tensor **out)
{
    gt_tensor *twin = tensor_new(tensor->client);
    if (!twin)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    twin->id = tensor->id;
    gt__meta_copy(&twin->meta, &tensor->meta);
    twin->bounded = tensor->bounded;
    twin->inference = tensor->inference;
    twin->low = tensor->low;
    twin->high = tensor->high;
    if (__builtin_expect((twin->batch = tensor->batch) != 0, 0))
        gt__batch_count(1);
    *out = twin;
    return GT_OK;
}

gt_err gt__tensor_inherit(gt_client *client, uint64_t id, const gt_meta *meta, gt_tensor **out)
{
    gt_tensor *tensor = tensor_new(client);
    if (!tensor)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    tensor->id = id;
    gt__meta_settle(&tensor->meta, meta);
    *out = tensor;
    return GT_OK;
}

/* A tensor with a node hands its id to another, without one: its aliases would keep the graph behind the node. */
gt_err gt__tensor_alias(gt_tensor *tensor, gt_node *node, gt_tensor **out)
{
    gt_tensor *alias;
    if (tensor->node && !tensor->base)
        GT_TRY(tensor_twin(tensor, &tensor->base));
    GT_TRY(tensor_twin(tensor, &alias));
    alias->base = gt_tensor_retain(tensor->base ? tensor->base : tensor);
    alias->node = node ? gt__node_retain(node) : NULL;
    *out = alias;
    return GT_OK;
}

/* ---- frees ------------------------------------------------------------------------------------------------- */

/*
 * Called by destructors, so nothing here waits. Ids are queued and sent, six to a record, when there is room. They stay in the
 * queue while a thread waits on this client, and while records are held back.
 */
static void send_frees(gt_client *client, size_t least)
{
    gt_slot *slot;
    if (gt__hotpath_holds(client) || client->free_count < least || !client->free_count)
        return;
    if (client->expected)
        gt__hotpath_idle(client);
    while (client->free_count >= least && client->free_count && (!client->waiting || client->reserved) &&
           (slot = room_now(client, 1))) {
        unsigned count = 0;
        if (__builtin_expect(gt__hotpath_holds(client), 0))
            return; /* to make room, other records went first, and now one is held back: this is its room */
        while (client->free_count && !gt__free_append(&slot->ins, &count, client->frees[--client->free_count]))
            continue;
        if (__builtin_expect(!count, 0))
            return; /* the frees went with the others */
        bool large = client->free_bytes >= GT_FREED_MUCH;
        client->free_bytes = 0;
        commit(client, 1, large ? FLUSH_WORK : 0);
    }
}

void gt__client_send_frees(gt_client *client)
{
    send_frees(client, GT_FREE_IDS);
}

void gt__client_free_id(gt_client *client, uint64_t id, size_t bytes)
{
    if (__builtin_expect(client->free_count == client->free_capacity, 0)) {
        size_t capacity = client->free_capacity ? client->free_capacity * 2 : 64;
        uint64_t *frees = realloc(client->frees, capacity * sizeof *frees);
        if (!frees)
            return; /* the tensor stays on the server until we disconnect */
        client->frees = frees;
        client->free_capacity = capacity;
        gt__hotpath_set_free_room(client);
    }
    client->frees[client->free_count++] = id;
    client->free_bytes += bytes;
    if (gt__hotpath_holds(client)) {
        if (client->finish_at && client->free_count >= client->finish_at)
            gt__hotpath_last_free(client);
        return;
    }
    if (client->free_count >= GT_FREE_IDS)
        send_frees(client, GT_FREE_IDS);
    else if (client->free_bytes >= GT_FREED_MUCH)
        send_frees(client, 1);
}

void gt__client_flush(gt_client *client)
{
    if (client->hotpath)
        gt__hotpath_flush(client);
    send_frees(client, 1);
    if (client->usable)
        gt__link_flush(client->link);
    client->work = 0;
}

/* ---- places ------------------------------------------------------------------------------------------------ */

gt_site_hooks gt__site_hooks;

/* Send the names of new sites, as many as there is room for now. */
static __attribute__((noinline)) void tell_sites(gt_client *client, uint32_t site)
{
    gt_slot *slots;
    while (client->sites_told < site && client->sites_told < GT_MAX_SITES &&
           (slots = room_now(client, 1 + GT_SITE_TAIL))) {
        memset(slots, 0, (1 + GT_SITE_TAIL) * sizeof *slots);
        slots->ins.op = GT_OP_site;
        slots->ins.tail = GT_SITE_TAIL;
        slots->ins.imm[0].u = ++client->sites_told;
        gt__site_hooks.name(client->sites_told, (char *)slots[1].bytes, GT_SITE_TAIL * sizeof *slots);
        commit(client, 1 + GT_SITE_TAIL, 0);
    }
}

static inline uint32_t site_now(gt_client *client)
{
    uint32_t site = gt__site_hooks.current ? gt__site_hooks.current() : 0;
    if (__builtin_expect(site > client->sites_told, 0))
        tell_sites(client, site);
    return site;
}

/* ---- ops --------------------------------------------------------------------------------------------------- */

/* Record the op if an operand needs a gradient (tracked), and deliver the result. */
static gt_err finish(const gt_instruction *ins, const gt_slot *tail, gt_tensor *const *in, unsigned count,
                     bool tracked, gt_tensor *result, gt_tensor **out)
{
    if (tracked && gt__grad_enabled()) {
        gt_err err = gt__autograd_record(ins, tail, in, count, &result);
        if (err != GT_OK) {
            gt_tensor_release(result);
            return err;
        }
    }
    *out = result;
    return GT_OK;
}

static void retain_all(gt_tensor *const *in, unsigned count)
{
    for (unsigned k = 0; k < count; k++)
        gt_tensor_retain(in[k]);
}

static void release_all(gt_tensor *const *in, unsigned count)
{
    for (unsigned k = 0; k < count; k++)
        gt_tensor_release(in[k]);
}

/* Emit an indexing op whose index may be out of range, if it is not. To find out may take a wait: see emit_after_wait. */
static gt_err emit_after_check(gt_client *client, gt_instruction prototype, gt_slot *tail, gt_tensor *const *in,
                               unsigned count, gt_tensor **out)
{
    retain_all(in, count);
    prototype.flags &= (uint8_t)~GT_FLAG_CONSUMES;
    gt_err err = gt__bounds_check_index(&prototype, in);
    if (err == GT_OK)
        err = gt__emit(client, prototype, tail, in, count, out);
    release_all(in, count);
    return err;
}

/*
 * Send new scopes, if `untold`, or wait for room; then emit. Both may let other threads run. Those may release the operands,
 * so they are retained. They may also take references to an operand that was to be consumed, so it no longer is.
 */
static gt_err emit_after_wait(gt_client *client, bool untold, gt_instruction prototype, gt_slot *tail,
                              gt_tensor *const *in, unsigned count, gt_tensor **out)
{
    retain_all(in, count);
    prototype.flags &= (uint8_t)~GT_FLAG_CONSUMES;
    gt_err err = untold ? gt__signal_tell(client) : wait_for_room(client, 1u + prototype.tail);
    if (err == GT_OK)
        err = gt__emit(client, prototype, tail, in, count, out);
    release_all(in, count);
    return err;
}

/* Most tails are one slot: without a call. */
static inline void copy_tail(gt_slot *to, const gt_slot *from, unsigned slots)
{
    if (__builtin_expect(slots == 1, 1))
        *to = *from;
    else
        memcpy(to, from, slots * sizeof *to);
}

gt_err gt__emit(gt_client *client, gt_instruction prototype, gt_slot *tail, gt_tensor *const *in, unsigned count,
                gt_tensor **out)
{
    const gt_meta *metas[GT_MAX_CAT];
    uint64_t *ids = gt__record_operands(&prototype, tail).id;
    gt_err intercepted;
    if (gt__signals_on() && gt__intercept(client, &prototype, tail, in, count, out, &intercepted))
        return intercepted;
    int64_t work = 0;
    bool tracked = false, foreign = false;
    for (unsigned k = 0; k < count; k++) {
        metas[k] = in[k] ? &in[k]->meta : NULL;
        if (!in[k])
            continue;
        ids[k] = in[k]->id;
        work += in[k]->meta.numel;
        tracked |= in[k]->node != NULL;
        foreign |= in[k]->client != client;
    }
    if (__builtin_expect(foreign, 0))
        return gt__fail(GT_ERR_VALUE, "the tensors belong to different clients");
    gt_meta meta;
    gt_dtype compute;
    GT_TRY(gt__op_infer(&prototype, tail, metas, &meta, &compute));
    if (__builtin_expect(gt__bounds_suspect(&prototype, in), 0))
        return emit_after_check(client, prototype, tail, in, count, out);
    uint32_t site = prototype.site = site_now(client);
    bool untold = false;
    if (gt__signals_on()) {
        gt__signal_stamp(&prototype);
        GT_TRY(gt__signal_check(&prototype, &meta));
        untold = gt__signal_untold(client);
    }
    gt_slot *slots = untold ? NULL : room_now(client, 1u + prototype.tail);
    if (!slots)
        return emit_after_wait(client, untold, prototype, tail, in, count, out);
    gt_tensor *result = tensor_new(client);
    if (!result)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt__meta_settle(&result->meta, &meta);
    if (!gt__dtype_is_float((gt_dtype)meta.dtype))
        gt__bounds_infer(&prototype, tail, in, count, result);
    slots->ins = prototype;
    /* Whole words, which the comparison with the expected record reads: see emit_like. */
    slots->u64[GT_WORD_RESULT] = prototype.result = result->id;
    slots->u64[GT_WORD_PLACE] = gt__word_place(prototype.scope, site);
    if (prototype.tail && tail)
        copy_tail(slots + 1, tail, prototype.tail);
    commit(client, 1u + prototype.tail, meta.numel + work);
    if (prototype.flags & GT_FLAG_CONSUMES) {
        in[0]->id = 0; /* the server has freed it: it can only be released */
        if (in[0]->base)
            in[0]->base->id = 0;
    }
    return finish(&prototype, tail, in, count, tracked, result, out);
}

/* ---- updates in place -------------------------------------------------------------------------------------- */

uint8_t gt__consume_flag(gt_opcode op, gt_tensor *const *in, unsigned count, unsigned held)
{
    const gt_tensor *a = in[0];
    if (!held || a->references != held || (a->base && a->base->references != 1))
        return 0;
    if (__builtin_expect(a->inference, 0) && !gt__inference_here)
        return 0; /* the caller will refuse to update it */
    if (!gt__grad_enabled())
        return GT_FLAG_CONSUMES;
    if (a->node && a->node->op == GT_OP_INVALID)
        return 0; /* the caller will refuse to update a leaf while ops are recorded */
    bool tracked = false;
    for (unsigned k = 0; k < count; k++)
        tracked |= in[k] && in[k]->node;
    unsigned saves = tracked ? gt__gradient_saves(op) : 0;
    return (saves | saves >> GT_SAVE_FOR_0 | saves >> GT_SAVE_FOR_1) & GT_SAVE_0 ? 0 : GT_FLAG_CONSUMES;
}

gt_err gt__client_prepare_update(gt_client *client, unsigned slots)
{
    uint32_t told;
    send_frees(client, 1);
    do { /* until nothing had to be sent after room was found */
        gt_slot *room;
        if (gt__signals_on())
            GT_TRY(gt__signal_tell(client));
        GT_TRY(gt__client_reserve(client, slots, &room));
        told = client->sites_told;
        site_now(client);
    } while (told != client->sites_told || (gt__signals_on() && gt__signal_untold(client)));
    return GT_OK;
}

/* ---- elementwise ------------------------------------------------------------------------------------------- */

/* The prototype of an elementwise op; operands are ids or literals. */
static inline gt_instruction elementwise(gt_opcode op, uint8_t literals, uint64_t first, uint64_t second)
{
    return (gt_instruction){.op = (uint16_t)op, .literals = literals, .operand = {first, second}};
}

/* What is rare in emit_like, apart from it: it would need registers and memory there. in1 may be NULL. */
static __attribute__((noinline)) gt_err emit_unlike(gt_client *client, gt_opcode op, uint8_t literals,
                                                    uint8_t flags, gt_imm literal, gt_tensor *in0, gt_tensor *in1,
                                                    gt_tensor **out)
{
    gt_tensor *in[] = {in0, in1};
    gt_instruction ins = elementwise(op, literals, in0 ? in0->id : literal.u, in1 ? in1->id : literal.u);
    ins.flags = flags;
    return gt__emit(client, ins, NULL, in, in1 || literals ? 2 : 1, out);
}

static __attribute__((noinline)) gt_err record_like(gt_opcode op, uint8_t literals, uint64_t first,
                                                    uint64_t second, gt_tensor *in0, gt_tensor *in1,
                                                    gt_tensor **out)
{
    gt_tensor *in[] = {in0, in1};
    gt_err err = gt__autograd_record_elementwise(op, literals, first, second, in, in1 || literals ? 2 : 1, out);
    if (err != GT_OK) {
        gt_tensor_release(*out);
        *out = NULL;
    }
    return err;
}

/* While gt__signals_on: the scope of a record that needs no more of it than its number; below 0: it does. Gradients have the
 * scope of the op: gt__emit records it. */
static __attribute__((noinline)) int64_t scope_like(const gt_client *client, bool tracked)
{
    uint32_t scope;
    return !tracked && gt__signal_plain(client, &scope) ? (int64_t)scope : -1;
}

/* The record came here though it was expected: quick.h takes the next one that comes from the same place. Bounds of integers are found
 * elsewhere, and so are the scopes of signals. */
static __attribute__((noinline)) void learn_quick(gt_expected *expected, const gt_meta *like, bool plain)
{
    bool taken = plain && !expected->first && !expected->last && like->rank <= 2 &&
                 gt__dtype_is_inexact((gt_dtype)like->dtype);
    expected->learned++;
    expected->at = taken && gt__site_hooks.at ? gt__site_hooks.at() : NULL;
    expected->kind = like->kind;
}

/*
 * The fast path: the result has the metadata of `a`, one of the operands; the other one may be a literal, or missing. The record
 * is written in place, word by word: copying a record that was just built on the stack, or comparing words that were written in
 * parts, would stall on store forwarding.
 * A record that is the expected one is known to be before it is written.
 */
__attribute__((always_inline)) static inline gt_err emit_like(gt_tensor *a, gt_opcode op, uint8_t literals,
                                                              uint8_t flags, gt_imm literal, gt_tensor *in0,
                                                              gt_tensor *in1, gt_tensor **out)
{
    gt_client *client = a->client;
    uint32_t site = site_now(client);
    bool tracked = (in0 && in0->node) || (in1 && in1->node);
    int64_t scope = 0;
    if (gt__signals_on() && (scope = scope_like(client, tracked)) < 0)
        return emit_unlike(client, op, literals, flags, literal, in0, in1, out);
    uint64_t first = in0 ? in0->id : literal.u, second = in1 ? in1->id : literal.u;
    uint64_t head = gt__word_head(op, literals, flags), place = gt__word_place((uint32_t)scope, site);
    gt_expected *expected = client->expected;
    bool held = expected && expected->plain && is_usable(client) && gt__link_has_room(client->link) &&
                !gt__log_on(GT_LOG_CLIENT) &&
                gt__expected_fits_plain(expected, client->cell, head, client->next_id, first, second, place);
    gt_slot *slot = held ? client->link->write_next : room_now(client, 1);
    if (__builtin_expect(!slot, 0))
        return emit_unlike(client, op, literals, flags, literal, in0, in1, out);
    gt_tensor *result = tensor_new(client);
    if (!result)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt__meta_copy(&result->meta, &a->meta);
    *slot = (gt_slot){.u64 = {head, result->id, first, second, 0, 0, 0, place}};
    if (held) {
        if (expected->learned < GT_QUICK_LESSONS)
            learn_quick(expected, &a->meta, scope == 0);
        gt__hotpath_held(client, expected, slot);
    } else
        commit(client, 1, a->meta.numel);
    *out = result;
    if (__builtin_expect(!tracked, 1) || !gt__grad_enabled())
        return GT_OK;
    return record_like(op, literals, first, second, in0, in1, out);
}

gt_err gt__emit_unary(gt_opcode op, gt_tensor *a, gt_tensor **out)
{
    if (gt__op_result_like(op, 0, &a->meta, NULL))
        return emit_like(a, op, 0, 0, (gt_imm){0}, a, NULL, out);
    if (op == GT_OP_bitwise_not && a->meta.dtype == GT_BOOL)
        op = GT_OP_logical_not; /* the same on one bit, but not on the byte that stores it */
    return emit_unlike(a->client, op, 0, 0, (gt_imm){0}, a, NULL, out);
}

gt_err gt__emit_binary(gt_opcode op, gt_tensor *a, gt_tensor *b, gt_tensor **out)
{
    if (a->client == b->client && gt__op_result_like(op, 0, &a->meta, &b->meta))
        return emit_like(a, op, 0, 0, (gt_imm){0}, a, b, out);
    return emit_unlike(a->client, op, 0, 0, (gt_imm){0}, a, b, out);
}

gt_err gt__emit_binary_literal(gt_opcode op, gt_tensor *a, gt_literal kind, gt_imm literal, bool literal_first,
                               gt_tensor **out)
{
    uint8_t literals = (uint8_t)(kind << (literal_first ? 0 : 2));
    gt_tensor *in0 = literal_first ? NULL : a, *in1 = literal_first ? a : NULL;
    /* Indices, whose bounds gt__emit finds: index + 1, index % size. */
    bool whole = a->bounded || (op == GT_OP_remainder && !gt__dtype_is_inexact((gt_dtype)a->meta.dtype));
    if (__builtin_expect(!whole, 1) && gt__op_result_like(op, literals, &a->meta, NULL))
        return emit_like(a, op, literals, 0, literal, in0, in1, out);
    return emit_unlike(a->client, op, literals, 0, literal, in0, in1, out);
}

gt_err gt__emit_update(gt_opcode op, gt_tensor *a, bool named, gt_tensor *b, gt_literal kind, gt_imm literal,
                       gt_tensor **out)
{
    uint8_t literals = b ? 0 : (uint8_t)(kind << 2);
    bool passes = named && (!b || b->client == a->client) && !a->bounded &&
                  gt__op_result_like(op, literals, &a->meta, b ? &b->meta : NULL);
    if (!passes)
        return b ? gt__emit_binary(op, a, b, out) : gt__emit_binary_literal(op, a, kind, literal, false, out);
    GT_TRY(emit_like(a, op, literals, GT_FLAG_UPDATES, literal, a, b, out));
    a->client->updated = (*out)->id;
    return GT_OK;
}
