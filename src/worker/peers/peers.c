/*
 * peers.c: the instructions that involve other workers: send, recv and the collectives.
 *
 * Place in the flow: worker.c -> here -> exchange (moves) or collective.h. Poison travels: a worker that
 * receives a poisoned tensor gets its failure.
 */
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "worker/worker.h"

/* Release buffers that other workers are done with. */
void gt__peers_reclaim(gt_worker *worker)
{
    void *buffer;
    while (worker->exchange && (buffer = worker->exchange->ops->reclaim(worker->exchange)))
        gt__buffer_release(worker->store, buffer);
    if (worker->loans.first)
        gt__loans_reclaim(worker);
}

static void keep(const gt_worker *worker, gt_entry *entry, gt_err err)
{
    entry->poison = gt__poison_new(err, gt_error_text());
    entry->poison->origin = worker->exchange->failed;
    entry->state = GT_ENTRY_POISON;
}

/* The entry for a result, empty. NULL: the slot number is out of range. */
static gt_entry *result_entry(gt_worker *worker, const gt_instruction *ins)
{
    gt_entry *entry = gt__store_entry(worker->store, ins->result);
    if (entry && entry->state != GT_ENTRY_EMPTY)
        gt__store_clear(worker->store, entry);
    return entry;
}

/* ---- moves -------- */

/* A tensor on its way to another worker. */
typedef struct posting {
    int32_t to;
    uint64_t tag;
    gt_origin origin; /* of the send */
    uint64_t record;  /* the same: gt_exchange.record */
    gt_whole whole;
    bool loan;       /* its engine reads ours */
    bool direct;     /* the exchange does: direct.h */
    void *host;      /* a copy of its bytes; NULL if other workers can read the engine's memory */
    unsigned weight; /* the time of making that copy counts so often for the send; 0: it is not measured */
} posting;

/* The tensor is complete or has failed: post its bytes or the failure. Takes the posting. */
static void post(gt_worker *worker, void *object, const gt_completion *done)
{
    posting *p = object;
    gt_exchange *exchange = worker->exchange;
    const gt_poison *poison = p->whole.flight ? p->whole.flight->poison : NULL;
    gt_err err = poison ? poison->err : done ? done->err : GT_OK;
    const char *why = poison ? poison->text : done ? done->text : "";
    worker->late.posts--;
    if (p->weight && done)
        gt__timing_measured(worker, &p->origin, GT_OP_send, 0, p->weight, true, done);
    worker->late.host_bytes -= p->host ? gt__meta_bytes(&p->whole.view.meta) : 0;
    gt_origin before = exchange->failed; /* of the current record, which may be another one */
    uint64_t at_hand = exchange->record;
    exchange->failed = poison ? poison->origin : p->origin;
    exchange->record = p->record;
    if (err == GT_OK && p->loan) {
        err = gt__loan_post(worker, p->to, p->tag, p->whole.view.data, gt__meta_bytes(&p->whole.view.meta),
                            p->whole.buffer);
        why = gt_error_text();
    } else if (err == GT_OK && p->direct) {
        err = gt__direct_post(worker, p->to, p->tag, p->whole.view.data, gt__meta_bytes(&p->whole.view.meta),
                              p->whole.buffer);
        why = gt_error_text();
    } else if (err == GT_OK) {
        size_t bytes = gt__meta_bytes(&p->whole.view.meta);
        gt_buffer *lent = p->host ? NULL : p->whole.buffer;
        if (lent)
            lent->references++;
        err = gt__exchange_post_tensor(exchange, p->to, p->tag, p->host ? p->host : p->whole.view.data, bytes,
                                       lent, false);
        if (err != GT_OK && lent)
            lent->references--;
        why = gt_error_text();
    }
    if (err != GT_OK)
        gt__exchange_post_failure(exchange, p->to, p->tag, 0, err, why);
    exchange->failed = before;
    exchange->record = at_hand;
    gt__whole_release(worker, &p->whole);
    free(p->host);
    free(p);
}

static gt_err post_tensor(gt_worker *worker, const gt_instruction *ins, const gt_entry *entry)
{
    gt_engine *engine = worker->engine;
    posting *p = calloc(1, sizeof *p);
    if (!p)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    *p = (posting){.to = (int32_t)ins->imm[0].i,
                   .tag = ins->imm[1].u,
                   .origin = gt__worker_origin(worker, ins),
                   .record = worker->exchange->record};
    p->loan = gt__loans_with(worker, p->to);
    gt_token token = 0;
    gt_err err = gt__worker_whole(worker, entry, &p->whole);
    size_t bytes = err == GT_OK ? gt__meta_bytes(&p->whole.view.meta) : 0;
    p->direct = err == GT_OK && !p->loan && gt__direct_to(worker, p->to, bytes);
    if (err == GT_OK && !engine->ops->host_memory && !p->loan && !p->direct) {
        gt__late_make_room(worker, bytes);
        p->host = malloc(bytes + 1);
        err = p->host ? engine->ops->read(engine, p->whole.view.data, p->host, bytes,
                                          gt__timing_on(&worker->timing), &token)
                      : gt__fail(GT_ERR_MEMORY, "out of memory");
        gt__late_given(&worker->late, token);
        p->weight = token && gt__timing_on(&worker->timing) ? worker->timing.weight : 0;
        worker->late.record_is_late |= token != 0;
    }
    if (err != GT_OK) {
        gt__whole_release(worker, &p->whole);
        free(p->host);
        free(p);
        return err;
    }
    if (!token && p->whole.flight)
        token = p->whole.flight->token;
    worker->late.posts++;
    worker->late.host_bytes += p->host ? bytes : 0;
    if (token <= worker->late.done) /* messages need no order: it goes before what waits */
        post(worker, p, NULL);
    else
        worker->late.last_owed = gt__late_when(worker, token, post, p);
    return GT_OK;
}

static void send_tensor(gt_worker *worker, const gt_instruction *ins)
{
    gt_exchange *exchange = worker->exchange;
    gt_entry *entry = gt__store_find(worker->store, ins->operand[0]);
    gt_err err = GT_OK;
    const char *why = "the sender has no such tensor";
    if (entry)
        gt__store_settle(worker->store, entry);
    if (!entry || (!gt__entry_is_tensor(entry) && entry->state != GT_ENTRY_POISON))
        err = GT_ERR_INTERNAL;
    else if (entry->state == GT_ENTRY_POISON) {
        err = entry->poison->err;
        why = entry->poison->text;
        exchange->failed = entry->poison->origin;
    } else if ((err = post_tensor(worker, ins, entry)) != GT_OK)
        why = gt_error_text();
    if (err != GT_OK)
        gt__exchange_post_failure(exchange, (int32_t)ins->imm[0].i, ins->imm[1].u, 0, err, why);
}

/* The engine has read a message's bytes. */
static void message_read(gt_worker *worker, void *object, const gt_completion *done)
{
    (void)done;
    worker->exchange->ops->done(worker->exchange, object);
}

/* The entry has memory; its bytes are complete with this token. */
static gt_err keep_result(gt_worker *worker, const gt_instruction *ins, gt_token token, gt_entry *entry)
{
    gt_origin origin = gt__worker_origin(worker, ins);
    gt_err err = GT_OK;
    entry->flight = token ? gt__late_fly(worker, token, &origin, NULL, 0, &err) : NULL;
    entry->state = entry->flight ? GT_ENTRY_LATE : GT_ENTRY_TENSOR;
    if (token)
        gt__timing_fly(worker, entry->flight, ins->op, true);
    return err;
}

/* Copy a tensor that another worker lends to the entry's memory. */
static gt_err take_loan(gt_worker *worker, const gt_instruction *ins, gt_entry *entry)
{
    gt_borrowed borrowed;
    gt_token token = 0;
    GT_TRY(gt__loan_take(worker, (int32_t)ins->imm[0].i, ins->imm[1].u, gt__meta_bytes(&entry->view.meta),
                         &borrowed));
    gt_err err = gt__store_allocate(worker->store, &entry->view, &entry->buffer);
    bool allocated = err == GT_OK;
    entry->flight = NULL;
    if (allocated && entry->view.meta.numel) {
        gt_view lent = entry->view;
        lent.data = borrowed.memory;
        err = gt__worker_copy(worker, &lent, &entry->view, gt__timing_on(&worker->timing), &token);
    }
    gt__loan_return(worker, token, &borrowed);
    if (err == GT_OK)
        err = keep_result(worker, ins, token, entry);
    if (err != GT_OK && allocated)
        gt__buffer_release(worker->store, entry->buffer);
    return err;
}

/* Write the message's bytes to the entry's memory, and return the message when that is done. */
static gt_err take_bytes(gt_worker *worker, const gt_instruction *ins, gt_message *message, gt_entry *entry)
{
    gt_engine *engine = worker->engine;
    gt_token token = 0;
    GT_TRY(gt__store_allocate(worker->store, &entry->view, &entry->buffer));
    entry->flight = NULL;
    gt_err err = message->bytes ? engine->ops->write(engine, entry->view.data, message->data, message->bytes,
                                                     gt__timing_on(&worker->timing), &token)
                                : GT_OK;
    gt__late_given(&worker->late, token);
    if (err == GT_OK)
        err = keep_result(worker, ins, token, entry);
    if (err != GT_OK) {
        gt__buffer_release(worker->store, entry->buffer);
        return err;
    }
    gt__late_when(worker, token, message_read, message);
    return GT_OK;
}

/* Large bytes that came in a segment of our own become the tensor's memory, if the engine works on the host's. */
static gt_segment *segment_to_keep(gt_worker *worker, gt_message *message)
{
    enum { KEEP_BYTES = 1 << 20 };
    gt_exchange *exchange = worker->exchange;
    const gt_engine_ops *engine = worker->engine->ops;
    if (!exchange->ops->keep || message->bytes < KEEP_BYTES || !engine->host_memory || engine->asynchronous)
        return NULL;
    return exchange->ops->keep(exchange, message);
}

static gt_err keep_bytes(gt_worker *worker, gt_segment *segment, gt_entry *entry)
{
    gt_err err = gt__store_wrap_segment(worker->store, segment, &entry->buffer);
    if (err != GT_OK)
        gt__segment_done(segment);
    gt__segment_release(segment);
    if (err != GT_OK)
        return err;
    entry->view.data = entry->buffer->memory;
    gt__view_set_contiguous(&entry->view);
    entry->flight = NULL;
    entry->state = GT_ENTRY_TENSOR;
    return GT_OK;
}

/* It came to memory of the engine. */
static void keep_place(gt_exchange *exchange, gt_message *message, gt_entry *entry)
{
    entry->buffer = message->lent;
    message->lent = NULL;
    entry->view.data = entry->buffer->memory;
    gt__view_set_contiguous(&entry->view);
    entry->flight = NULL;
    entry->state = GT_ENTRY_TENSOR;
    exchange->ops->done(exchange, message);
}

static gt_err receive_tensor(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail, gt_entry *entry)
{
    gt_exchange *exchange = worker->exchange;
    gt_message *message;
    gt_view *view = &entry->view;
    GT_TRY(gt__meta_set(&view->meta, (gt_dtype)ins->dtype, ins->rank, tail[0].i64));
    gt__late_pay(worker);
    if (gt__loans_with(worker, ins->imm[0].i))
        return take_loan(worker, ins, entry);
    gt__direct_await(worker, (int32_t)ins->imm[0].i, ins->imm[1].u, gt__meta_bytes(&view->meta));
    GT_TRY(gt__exchange_take(exchange, (int32_t)ins->imm[0].i, ins->imm[1].u, 0, &message));
    gt_err err = message->err != GT_OK ? gt__exchange_failure(exchange, message) : GT_OK;
    if (err == GT_OK && message->bytes != gt__meta_bytes(&view->meta))
        err = gt__fail(GT_ERR_PROTOCOL, "recv: %zu bytes came for a tensor of %zu", message->bytes,
                       gt__meta_bytes(&view->meta));
    if (err == GT_OK && exchange->direct && message->lent) {
        keep_place(exchange, message, entry);
        return GT_OK;
    }
    gt_segment *segment = err == GT_OK ? segment_to_keep(worker, message) : NULL;
    if (segment)
        return keep_bytes(worker, segment, entry);
    if (err == GT_OK)
        err = take_bytes(worker, ins, message, entry);
    if (err != GT_OK)
        exchange->ops->done(exchange, message);
    return err;
}

/* ---- collectives -------- */

static gt_meta part_of(const gt_collective_call *call, bool after, unsigned axis)
{
    int64_t start, count;
    gt__party_part(call, call->self, after, axis, &start, &count);
    return gt__meta_narrowed(call->whole, axis, count);
}

/* The shape and dtype of a collective's result. */
static gt_meta result_meta(const gt_collective_call *call)
{
    bool parts = call->op == GT_OP_reduce_scatter || call->op == GT_OP_all_to_all;
    return parts ? part_of(call, true, call->axis_after) : *call->whole;
}

static gt_err check_call(const gt_collective_call *call)
{
    bool in_parts = call->op != GT_OP_all_reduce && call->op != GT_OP_broadcast;
    if (call->self >= call->count ||
        (in_parts && (call->axis >= call->whole->rank || call->axis_after >= call->whole->rank)))
        return gt__fail(GT_ERR_PROTOCOL, "%s: party %u of %u, axes %u and %u", gt__op_table[call->op].name,
                        call->self, call->count, call->axis, call->axis_after);
    return GT_OK;
}

/* The operand for the call, contiguous; or an error if it failed. A receiver of a broadcast has no operand. */
static gt_err take_operand(gt_worker *worker, const gt_instruction *ins, gt_collective_call *call, gt_whole *in)
{
    bool expected = call->op != GT_OP_broadcast || call->self == 0;
    gt_entry *entry = expected ? gt__store_find(worker->store, ins->operand[0]) : NULL;
    if (!expected)
        return GT_OK;
    if (entry)
        gt__store_settle(worker->store, entry);
    if (entry && entry->state == GT_ENTRY_POISON) {
        worker->exchange->failed = entry->poison->origin;
        return gt__fail(entry->poison->err, "%s", entry->poison->text);
    }
    if (!entry || !gt__entry_is_tensor(entry))
        return gt__fail(GT_ERR_INTERNAL, "%s: the worker has no such tensor", gt__op_table[call->op].name);
    GT_TRY(gt__worker_whole(worker, entry, in));
    call->in = &in->view;
    call->buffer = in->buffer;
    gt_err err = gt__whole_wait(worker, in);
    if (err != GT_OK && in->flight->poison)
        worker->exchange->failed = in->flight->poison->origin;
    return err;
}

/* A collective between its start and its end. */
struct gt_under_way {
    struct gt_under_way *next, **where; /* in a list; where NULL: in none */
    gt_collective_call call;
    gt_passage *passage; /* NULL: it is over, */
    gt_err err;          /* with this result, */
    char *why;           /* and for this reason */
    gt_meta whole;
    gt_whole in;
    gt_view out;
    gt_poison *poison;
    gt_token token;
    gt_origin failed; /* gt_exchange.failed, and */
    uint64_t record;  /* .record, while it is not at hand */
    uint64_t ticks;   /* that it took so far */
    gt_partner party[];
};

static gt_err read_call(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail, gt_under_way *u)
{
    GT_TRY(gt__meta_set(&u->whole, (gt_dtype)ins->dtype, ins->rank, tail[0].i64));
    u->call = (gt_collective_call){.op = (gt_opcode)ins->op,
                                   .tag = ins->imm[0].u,
                                   .self = (unsigned)ins->operand[1],
                                   .count = (unsigned)ins->imm[1].u,
                                   .party = (const gt_partner *)(tail + 1),
                                   .axis = ins->operand[2] & 0xff,
                                   .axis_after = ins->operand[2] >> 8 & 0xff,
                                   .whole = &u->whole,
                                   .timed = gt__timing_on(&worker->timing),
                                   .token = &u->token};
    return check_call(&u->call);
}

/* Everything that the call needs: its operand, and memory for the result. A failure of ours is one for the other parties. */
static void prepare(gt_worker *worker, const gt_instruction *ins, gt_under_way *u)
{
    gt_err err = gt__store_entry(worker->store, ins->result)
                     ? take_operand(worker, ins, &u->call, &u->in)
                     : gt__fail(GT_ERR_MEMORY, "the worker has no room for another tensor");
    if (err == GT_OK) {
        u->out.meta = result_meta(&u->call);
        err = gt__store_allocate(worker->store, &u->out, &u->call.out_buffer);
    }
    if (err == GT_OK)
        u->call.out = &u->out;
    else
        u->call.poison = u->poison = gt__poison_new(err, gt_error_text());
    gt__late_pay(worker);
}

static void release(gt_worker *worker, gt_under_way *u)
{
    if (u->call.out)
        gt__buffer_release(worker->store, u->call.out_buffer);
    if (u->poison)
        gt__poison_release(u->poison);
    gt__whole_release(worker, &u->in);
}

/* It is over: keep its result. */
static gt_err keep_collective(gt_worker *worker, const gt_instruction *ins, gt_under_way *u, gt_err err,
                              gt_entry *entry)
{
    if (err == GT_OK && entry) {
        entry->view = u->out;
        entry->buffer = u->call.out_buffer;
        err = keep_result(worker, ins, u->token, entry);
        if (err == GT_OK)
            u->call.out = NULL; /* the entry has its memory */
    }
    release(worker, u);
    return err;
}

static gt_err run_collective(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail, gt_entry *entry)
{
    gt_under_way u = {0};
    GT_TRY(read_call(worker, ins, tail, &u));
    prepare(worker, ins, &u);
    gt_err err = worker->collective->ops->run(worker->collective, &u.call);
    return keep_collective(worker, ins, &u, err, entry);
}

bool gt__peers_keep_order(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail, uint64_t number)
{
    gt_under_way u = {0};
    const gt_collective_ops *ops = worker->collective->ops;
    worker->exchange->record = number;
    return ops->keeps_order && read_call(worker, ins, tail, &u) == GT_OK &&
           ops->keeps_order(worker->collective, &u.call);
}

gt_under_way *gt__peers_start(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail, uint64_t number)
{
    gt_exchange *exchange = worker->exchange;
    uint64_t before = gt__ticks();
    size_t parties = ins->imm[1].u * sizeof(gt_partner);
    gt_under_way *u = ins->imm[1].u <= GT_MAX_PARTIES ? calloc(1, sizeof *u + parties) : NULL;
    if (!u || read_call(worker, ins, tail, u) != GT_OK) {
        free(u);
        return NULL;
    }
    memcpy(u->party, u->call.party, parties);
    u->call.party = u->party;
    exchange->failed = gt__worker_origin(worker, ins);
    exchange->failed.number = number; /* it is not counted yet */
    exchange->record = number;
    prepare(worker, ins, u);
    u->passage = worker->collective->ops->start(worker->collective, &u->call);
    if (!u->passage) {
        release(worker, u);
        free(u);
        return NULL;
    }
    u->failed = exchange->failed;
    u->record = number;
    u->ticks = gt__ticks() - before;
    return u;
}

void gt__peers_list(gt_under_way *u, gt_under_way **list)
{
    while (*list)
        list = &(*list)->next;
    *list = u;
    u->where = list;
}

static void unlist(gt_under_way *u)
{
    if (!u->where)
        return;
    *u->where = u->next;
    if (u->next)
        u->next->where = u->where;
    u->next = NULL;
    u->where = NULL;
}

void gt__peers_advance_all(gt_worker *worker, gt_under_way *list)
{
    for (gt_under_way *next; list; list = next) {
        next = list->next;
        gt__peers_advance(worker, list);
    }
}

bool gt__peers_advance(gt_worker *worker, gt_under_way *u)
{
    gt_exchange *exchange = worker->exchange;
    if (!u->passage)
        return true;
    uint64_t before = gt__ticks();
    exchange->failed = u->failed;
    exchange->record = u->record;
    bool over = u->passage->advance(u->passage, &u->err);
    u->failed = exchange->failed;
    u->ticks += gt__ticks() - before;
    if (!over)
        return false;
    unlist(u);
    u->passage = NULL;
    u->why = u->err == GT_OK ? NULL : strdup(gt_error_text());
    gt__peers_reclaim(worker);
    return true;
}

void gt__peers_finish(gt_worker *worker, gt_under_way *u, const gt_instruction *ins)
{
    gt_entry *entry = result_entry(worker, ins);
    worker->exchange->failed = u->failed;
    if (u->err != GT_OK)
        gt__error_set("%s", u->why ? u->why : "out of memory");
    gt_err err = keep_collective(worker, ins, u, u->err, entry);
    if (err != GT_OK && entry)
        keep(worker, entry, err);
    if (!worker->timing.watched) /* then each record has all the time since the one before it */
        gt__timing_more(&worker->timing, ins->op, u->ticks);
    free(u->why);
    free(u);
}

void gt__peers_abandon(gt_worker *worker, gt_under_way *u)
{
    unlist(u);
    if (u->passage)
        u->passage->abandon(u->passage);
    release(worker, u);
    free(u->why);
    free(u);
}

/* -------- */

/* Forget those that no record means: neither one that was put aside nor a later one. */
static void forget_before(gt_predecessor **where, uint64_t oldest)
{
    while (*where && (*where)->until > oldest)
        where = &(*where)->before;
    while (*where) {
        gt_predecessor *gone = *where;
        *where = gone->before;
        free(gone);
    }
}

void gt__peers_forget(gt_worker *worker)
{
    for (unsigned index = 0; index < GT_MAX_PARTIES; index++)
        forget_before(&worker->predecessor[index], UINT64_MAX);
}

/* Another worker takes an index. Records that were put aside mean the one that had it. */
static void replace(gt_worker *worker, uint64_t index, const gt_introduced *known)
{
    gt_predecessor **last = &worker->predecessor[index], *one = malloc(sizeof *one);
    worker->exchange->replaced[index] = worker->exchange->record;
    if (!one) {
        gt__link_kill(worker->link, "the worker is out of memory");
        return;
    }
    *one = (gt_predecessor){.before = *last, .worker = *known, .until = worker->exchange->record};
    *last = one;
    forget_before(last, gt__deferred_oldest(&worker->deferred));
}

static void introduce(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail)
{
    char name[sizeof(gt_slot)], address[sizeof(gt_slot)];
    memcpy(name, tail, sizeof name);
    memcpy(address, tail + 1, sizeof address);
    name[sizeof name - 1] = address[sizeof address - 1] = 0;
    if (ins->result < GT_MAX_PARTIES) {
        gt_introduced *known = &worker->introduced[ins->result];
        if (known->life && known->life != ins->operand[0])
            replace(worker, ins->result, known);
        *known = (gt_introduced){
            .group = ins->operand[1], .league = ins->operand[2], .host = ins->imm[0].u, .life = ins->operand[0]};
    }
    worker->exchange->ops->introduce(worker->exchange, (int32_t)ins->result, ins->operand[0], name, address);
}

bool gt__peers_handle(gt_worker *worker, const gt_instruction *ins, const gt_slot *tail)
{
    gt_entry *entry;
    gt_err err;
    gt__peers_reclaim(worker);
    if (worker->exchange) {
        worker->exchange->failed = gt__worker_origin(worker, ins);
        worker->exchange->record = gt__deferred_number(&worker->deferred, worker->timing.records);
    }
    switch ((gt_opcode)ins->op) {
    case GT_OP_peer:
        introduce(worker, ins, tail);
        return true;
    case GT_OP_send:
        send_tensor(worker, ins);
        return true;
    case GT_OP_recv:
        if (!(entry = result_entry(worker, ins)))
            return true;
        err = receive_tensor(worker, ins, tail, entry);
        break;
    case GT_OP_all_reduce:
    case GT_OP_reduce_scatter:
    case GT_OP_all_gather:
    case GT_OP_broadcast:
    case GT_OP_all_to_all:
        entry = result_entry(worker, ins);
        err = run_collective(worker, ins, tail, entry);
        break;
    default:
        return false;
    }
    if (err != GT_OK && entry)
        keep(worker, entry, err);
    gt__peers_reclaim(worker);
    return true;
}
