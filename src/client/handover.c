/* handover.c: see handover.h. Place in the flow: beside client.c. The parcel is read by builds with the same layout only. */
#include "client/handover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/autograd.h"
#include "client/signals.h"
#include "link/keys.h"

enum { LAYOUT = 1 }; /* of a parcel */

/* A parcel: a head, a parcel_tensor each, the names of sites and scopes, config records, the note, the ids of the tensors. */
typedef struct parcel_head {
    uint64_t layout;
    uint64_t next_id, next_ticket, seed, stream;
    uint64_t tensors, sites, scopes, signals, note_bytes;
} parcel_head;

typedef struct parcel_tensor {
    uint64_t same; /* the first tensor of the parcel that has this id */
    gt_meta meta;
} parcel_tensor;

/* ---- names -------------------------------------------------------------------------------------------------- */

void gt__client_site_name(const gt_client *client, uint32_t site, char *text, size_t size)
{
    const struct gt_inherited *before = client->inherited;
    *text = 0;
    if (site && before && site <= before->sites)
        snprintf(text, size, "%s", before->names[site - 1]);
    else if (site && gt__site_hooks.name)
        gt__site_hooks.name(site, text, size);
}

void gt__client_scope_name(const gt_client *client, uint32_t scope, char name[GT_MAX_NAME + 1])
{
    const struct gt_inherited *before = client->inherited;
    if (scope && before && scope <= before->scopes)
        memcpy(name, before->names[before->sites + scope - 1], GT_INHERITED_NAME);
    else
        gt__signal_name(scope, name);
}

/* ---- detaching ---------------------------------------------------------------------------------------------- */

static gt_err check_tensors(const gt_client *client, gt_tensor *const *tensors, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        if (!tensors[k] || tensors[k]->client != client)
            return gt__fail(GT_ERR_VALUE, "tensor %zu is not of the session that is detached", k);
        if (tensors[k]->batch || !tensors[k]->id)
            return gt__fail(GT_ERR_VALUE, "tensor %zu has no value that can be handed over: it is of a vmap", k);
    }
    return GT_OK;
}

typedef struct numbered {
    uint64_t id, index;
} numbered;

static int compare_numbered(const void *a, const void *b)
{
    const numbered *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : (x->index > y->index) - (x->index < y->index);
}

static gt_err write_tensors(FILE *parcel, gt_tensor *const *tensors, size_t count)
{
    numbered *order = malloc((count + 1) * sizeof *order);
    uint64_t *same = malloc((count + 1) * sizeof *same);
    gt_err err = order && same ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
    for (size_t k = 0; err == GT_OK && k < count; k++)
        order[k] = (numbered){.id = tensors[k]->id, .index = k};
    if (err == GT_OK)
        qsort(order, count, sizeof *order, compare_numbered);
    for (size_t k = 0; err == GT_OK && k < count; k++)
        same[order[k].index] = k && order[k - 1].id == order[k].id ? same[order[k - 1].index] : order[k].index;
    for (size_t k = 0; err == GT_OK && k < count; k++) {
        parcel_tensor tensor;
        memset(&tensor, 0, sizeof tensor);
        tensor.same = same[k];
        gt__meta_copy(&tensor.meta, &tensors[k]->meta);
        fwrite(&tensor, sizeof tensor, 1, parcel);
    }
    free(order);
    free(same);
    return err;
}

static void write_names(FILE *parcel, const gt_client *client)
{
    for (uint32_t site = 1; site <= client->sites_told; site++) {
        char name[GT_INHERITED_NAME] = "";
        gt__client_site_name(client, site, name, sizeof name);
        fwrite(name, sizeof name, 1, parcel);
    }
    for (uint32_t scope = 1; scope <= client->scopes_sent; scope++) {
        char name[GT_INHERITED_NAME] = "";
        gt__client_scope_name(client, scope, name);
        fwrite(name, sizeof name, 1, parcel);
    }
}

static uint64_t write_signals(FILE *parcel)
{
    uint64_t count = 0;
    char name[GT_MAX_NAME + 1];
    for (; gt__signal_config_name(count, name); count++) {
        gt_signal_config signal;
        gt_slot record[GT_CONFIG_SLOTS];
        if (!gt__signal_config_get(name, &signal))
            break;
        gt__config_write(&signal, record);
        fwrite(record, sizeof *record, 1u + record->ins.tail, parcel);
    }
    return count;
}

static gt_err write_parcel(const gt_client *client, gt_tensor *const *tensors, size_t count, const void *note,
                           size_t note_bytes, char **bytes, size_t *size)
{
    FILE *parcel = open_memstream(bytes, size);
    if (!parcel)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    parcel_head head = {.layout = LAYOUT,
                        .next_id = client->next_id,
                        .next_ticket = client->next_ticket,
                        .seed = client->seed,
                        .stream = client->stream,
                        .tensors = count,
                        .sites = client->sites_told,
                        .scopes = client->scopes_sent,
                        .note_bytes = note_bytes};
    fwrite(&head, sizeof head, 1, parcel);
    gt_err err = write_tensors(parcel, tensors, count);
    write_names(parcel, client);
    head.signals = write_signals(parcel);
    if (note_bytes)
        fwrite(note, note_bytes, 1, parcel);
    for (size_t k = 0; k < count; k++)
        fwrite(&tensors[k]->id, sizeof tensors[k]->id, 1, parcel);
    bool written = !ferror(parcel);
    if (fclose(parcel) || !written)
        err = gt__fail(GT_ERR_MEMORY, "out of memory");
    else
        memcpy(*bytes, &head, sizeof head); /* now that it is complete */
    if (err == GT_OK && *size > GT_MOST_PARCEL)
        err = gt__fail(GT_ERR_VALUE, "%zu tensors and their names take %zu bytes; at most %d can be handed over",
                       count, *size, GT_MOST_PARCEL);
    if (err != GT_OK)
        free(*bytes);
    return err;
}

static gt_err send_parcel(gt_client *client, const char *parcel, size_t bytes, size_t count, uint64_t ticket)
{
    for (size_t offset = 0; offset < bytes;) {
        size_t piece = bytes - offset < GT_MAX_CHUNK ? bytes - offset : GT_MAX_CHUNK;
        unsigned tail = gt__slots_for(piece);
        gt_slot *slots;
        GT_TRY(gt__client_reserve(client, 1 + tail, &slots));
        slots->ins = (gt_instruction){
            .op = GT_OP_detach, .tail = (uint16_t)tail, .result = ticket, .operand = {bytes, count}};
        slots->ins.imm[0].u = offset;
        slots->ins.imm[1].u = piece;
        memcpy(slots + 1, parcel + offset, piece);
        gt__slots_pad(slots + 1, piece);
        gt__client_commit(client, 1 + tail, 0);
        offset += piece;
    }
    return GT_OK;
}

gt_err gt__client_detach(gt_client *client, gt_tensor *const *tensors, size_t count, const void *note,
                         size_t note_bytes, char token[GT_TOKEN_SIZE])
{
    char *parcel, *secret;
    size_t bytes;
    GT_TRY(gt__client_check(client));
    if (client->embedded)
        return gt__fail(GT_ERR_VALUE, "the session is in a server of this program, which ends with it, so that "
                                      "there is nothing to attach to: start `gt server` and connect to it first");
    GT_TRY(check_tensors(client, tensors, count));
    GT_TRY(gt_synchronize(client));
    GT_TRY(write_parcel(client, tensors, count, note, note_bytes, &parcel, &bytes));
    uint64_t ticket = client->next_ticket++;
    gt_err err = send_parcel(client, parcel, bytes, count, ticket);
    free(parcel);
    GT_TRY(err);
    GT_TRY(gt__client_await(client, GT_OP_detach, ticket, &secret, &bytes));
    snprintf(token, GT_TOKEN_SIZE, "%s#%s", client->address, secret);
    explicit_bzero(secret, bytes);
    free(secret);
    client->detached = true;
    return GT_OK;
}

gt_err gt_client_detach(gt_client **where, gt_tensor *const *tensors, size_t count, const void *note,
                        size_t note_bytes, char token[GT_TOKEN_SIZE])
{
    GT_REQUIRE(where, token);
    GT_REQUIRE(*where);
    if ((count && !tensors) || (note_bytes && !note))
        return gt__fail(GT_ERR_VALUE, "gt_client_detach: %s is NULL", count && !tensors ? "tensors" : "note");
    GT_TRY(gt__client_detach(*where, tensors, count, note, note_bytes, token));
    gt_client_close(where);
    return GT_OK;
}

/* ---- attaching ---------------------------------------------------------------------------------------------- */

/* What is left of a parcel. */
typedef struct reader {
    const char *at;
    size_t left;
} reader;

static gt_err damaged(void)
{
    return gt__fail(GT_ERR_PROTOCOL, "what the session's last client left for the next is malformed");
}

static gt_err take(reader *from, size_t size, uint64_t count, const char **at)
{
    if (count > from->left / size)
        return damaged();
    *at = from->at;
    from->at += size * count;
    from->left -= size * count;
    return GT_OK;
}

static gt_err make_tensors(gt_client *client, const char *ids, const char *described, size_t count,
                           gt_tensor **tensors)
{
    for (size_t k = 0; k < count; k++) {
        parcel_tensor tensor;
        gt_meta meta;
        uint64_t id;
        memcpy(&id, ids + k * sizeof id, sizeof id);
        memcpy(&tensor, described + k * sizeof tensor, sizeof tensor);
        if (!id || tensor.same > k || !gt__dtype_valid(tensor.meta.dtype) || tensor.meta.rank > GT_MAX_RANK)
            return damaged();
        GT_TRY(gt__meta_set(&meta, (gt_dtype)tensor.meta.dtype, tensor.meta.rank, tensor.meta.shape));
        GT_TRY(tensor.same == k ? gt__tensor_inherit(client, id, &meta, &tensors[k])
                                : gt__tensor_alias(tensors[tensor.same], NULL, &tensors[k]));
    }
    return GT_OK;
}

static gt_err take_names(gt_client *client, const parcel_head *head, reader *from)
{
    const char *names;
    if (head->sites > GT_MAX_SITES || head->scopes > UINT32_MAX / 2)
        return damaged();
    GT_TRY(take(from, GT_INHERITED_NAME, head->sites + head->scopes, &names));
    size_t bytes = (head->sites + head->scopes) * GT_INHERITED_NAME;
    struct gt_inherited *inherited = malloc(sizeof *inherited + bytes);
    if (!inherited)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    inherited->sites = (uint32_t)head->sites;
    inherited->scopes = (uint32_t)head->scopes;
    if (bytes)
        memcpy(inherited->names, names, bytes);
    for (size_t k = 0; k < head->sites + head->scopes; k++)
        inherited->names[k][GT_INHERITED_NAME - 1] = 0;
    client->inherited = inherited;
    client->sites_told = inherited->sites;
    client->scopes_sent = inherited->scopes;
    gt__sites_reserve(inherited->sites);
    return gt__signal_reserve(inherited->scopes);
}

/* Signals that this process has not configured itself mean what they meant. */
static gt_err take_signals(uint64_t count, reader *from)
{
    for (uint64_t k = 0; k < count; k++) {
        gt_slot record[GT_CONFIG_SLOTS];
        gt_signal_config signal, own;
        const char *at;
        unsigned length;
        reader ahead = *from;
        GT_TRY(take(&ahead, sizeof *record, 1, &at));
        memcpy(record, at, sizeof *record);
        if (record->ins.op != GT_OP_config || record->ins.tail >= GT_CONFIG_SLOTS)
            return damaged();
        GT_TRY(take(from, sizeof *record, 1u + record->ins.tail, &at));
        memcpy(record, at, (1u + record->ins.tail) * sizeof *record);
        GT_TRY(gt__instruction_check(record, 1u + record->ins.tail, &length));
        GT_TRY(gt__config_read(record, &signal));
        if (!gt__signal_config_get(signal.name, &own))
            GT_TRY(gt__signal_config_set(&signal));
    }
    return GT_OK;
}

static gt_err read_parcel(gt_client *client, const char *parcel, size_t bytes, gt_parcel *out)
{
    parcel_head head;
    reader from = {.at = parcel, .left = bytes};
    const char *at, *ids, *note;
    GT_TRY(take(&from, sizeof head, 1, &at));
    memcpy(&head, at, sizeof head);
    if (head.layout != LAYOUT)
        return damaged();
    GT_TRY(take(&from, sizeof(parcel_tensor), head.tensors, &at));
    GT_TRY(take_names(client, &head, &from));
    GT_TRY(take_signals(head.signals, &from));
    GT_TRY(take(&from, 1, head.note_bytes, &note));
    GT_TRY(take(&from, sizeof(uint64_t), head.tensors, &ids));
    out->tensors = calloc(head.tensors + 1, sizeof(gt_tensor *));
    out->note = malloc(head.note_bytes + 1);
    if (!out->tensors || !out->note)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    out->count = head.tensors;
    out->note_bytes = head.note_bytes;
    memcpy(out->note, note, head.note_bytes);
    GT_TRY(make_tensors(client, ids, at, head.tensors, out->tensors));
    client->next_id = head.next_id;
    client->next_ticket = head.next_ticket;
    client->seed = head.seed;
    client->stream = head.stream;
    return GT_OK;
}

void gt_parcel_free(gt_parcel *parcel)
{
    if (!parcel)
        return;
    for (size_t k = 0; parcel->tensors && k < parcel->count; k++)
        gt_tensor_release(parcel->tensors[k]);
    free(parcel->tensors);
    free(parcel->note);
    *parcel = (gt_parcel){0};
}

/* "host:port#secret". */
gt_err gt__handover_token(const char *token, char address[GT_TOKEN_SIZE], char secret[GT_TOKEN_SIZE])
{
    const char *mark = strrchr(token, '#');
    size_t before = mark ? (size_t)(mark - token) : 0;
    if (!mark || before >= GT_TOKEN_SIZE || strlen(mark + 1) != GT_SECRET_SIZE - 1 ||
        strspn(mark + 1, "0123456789abcdef") != GT_SECRET_SIZE - 1)
        return gt__fail(GT_ERR_VALUE, "this is not a token of gt.detach()");
    if (gt__signal_any_entered())
        return gt__fail(GT_ERR_VALUE,
                        "a session can be attached only while no thread is in a signal scope: the process numbers "
                        "its scopes anew");
    memcpy(address, token, before);
    address[before] = 0;
    memcpy(secret, mark + 1, GT_SECRET_SIZE);
    return GT_OK;
}

gt_err gt__client_collect(gt_client *client, gt_parcel *parcel)
{
    char *bytes;
    size_t count;
    gt_slot *slot;
    *parcel = (gt_parcel){0};
    uint64_t ticket = client->next_ticket++;
    GT_TRY(gt__client_reserve(client, 1, &slot));
    slot->ins = (gt_instruction){.op = GT_OP_attach, .result = ticket};
    gt__client_commit(client, 1, 0);
    GT_TRY(gt__client_await(client, GT_OP_attach, ticket, &bytes, &count));
    gt_err err = read_parcel(client, bytes, count, parcel);
    free(bytes);
    if (err != GT_OK)
        gt_parcel_free(parcel);
    return err;
}

gt_err gt_client_attach(const char *token, const char *address, const char *key_file, int timeout_ms,
                        gt_parcel *parcel, gt_client **out)
{
    GT_ARGUMENTS(out, token, parcel);
    char named[GT_TOKEN_SIZE], secret[GT_TOKEN_SIZE];
    gt_client *client;
    *parcel = (gt_parcel){0};
    GT_TRY(gt__handover_token(token, named, secret));
    gt_err err = gt__client_open(address ? address : named, key_file, timeout_ms, secret, &client);
    explicit_bzero(secret, sizeof secret);
    GT_TRY(err);
    err = gt__client_collect(client, parcel);
    if (err != GT_OK)
        gt_client_close(&client);
    else
        *out = client;
    return err;
}
