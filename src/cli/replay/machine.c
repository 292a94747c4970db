/*
 * cli/replay/machine.c: executes a tape's records one after another, without a dispatcher or links: ids become slots, and the
 * worker's own code executes them. The file is not trusted: unknown ids are errors, and the worker checks the records.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/replay/replay.h"
#include "core/record.h"
#include "worker/upload.h"

/* Also one that has left. */
static gt_machine_client *find_any(const gt_machine *machine, uint64_t session)
{
    gt_machine_client *client = machine->clients;
    while (client && client->session != session)
        client = client->next;
    return client;
}

static gt_machine_client *find_client(const gt_machine *machine, uint64_t session)
{
    gt_machine_client *client = find_any(machine, session);
    return client && !client->left ? client : NULL;
}

static gt_err client_open(gt_machine *machine, uint64_t session)
{
    if (find_any(machine, session))
        return gt__fail(GT_ERR_PROTOCOL, "client %llu connects twice", (unsigned long long)session);
    gt_machine_client *client = calloc(1, sizeof *client);
    if (!client)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    client->session = session;
    gt_err err = gt__handles_init(&client->handles);
    if (err != GT_OK) {
        free(client);
        return err;
    }
    client->next = machine->clients;
    machine->clients = client;
    return GT_OK;
}

/* ---- slots -------------------------------------------------------------------------------------------------- */

static uint64_t slot_new(gt_machine *machine)
{
    return machine->free_count ? machine->free_slots[--machine->free_count] : ++machine->next_slot;
}

static void slot_free(gt_machine *machine, uint64_t slot)
{
    gt_entry *entry = gt__store_find(machine->worker.store, slot);
    if (entry)
        gt__store_clear(machine->worker.store, entry);
    if (machine->free_count == machine->free_capacity) {
        size_t capacity = machine->free_capacity ? 2 * machine->free_capacity : 256;
        uint64_t *slots = realloc(machine->free_slots, capacity * sizeof *slots);
        if (!slots)
            return; /* slot numbers are not reused */
        machine->free_slots = slots;
        machine->free_capacity = capacity;
    }
    machine->free_slots[machine->free_count++] = slot;
}

static gt_err drop(gt_machine *machine, gt_machine_client *client, uint64_t id)
{
    int32_t worker;
    uint32_t slot;
    if (!gt__handles_remove(&client->handles, id, &worker, &slot))
        return gt__fail(GT_ERR_PROTOCOL, "there is no tensor %llu", (unsigned long long)id);
    slot_free(machine, slot);
    return GT_OK;
}

/* The client leaves. Its names and lines stay, for what is told at the end. */
static void client_close(gt_machine *machine, gt_machine_client *client)
{
    uint32_t cursor = 0;
    const gt_handle *handle;
    while ((handle = gt__handles_next(&client->handles, &cursor)))
        slot_free(machine, handle->slot);
    gt__handles_free(&client->handles);
    client->left = true;
}

static void client_free(gt_machine_client *client)
{
    for (uint64_t k = 0; k < client->site_count; k++)
        free(client->sites[k]);
    free(client->sites);
    free(client->scopes);
    free(client->names);
    free(client);
}

/* ---- names of tensors --------------------------------------------------------------------------------------- */

enum { NAME_AMBIGUOUS = UINT32_MAX, MOST_NAMES = 1 << 16 };

/* The text comes from a file and will be printed. */
static void keep_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            *text = '?';
}

static gt_err set_name(gt_machine *machine, uint64_t slot, uint32_t name)
{
    if (slot >= machine->slot_name_count) {
        if (!name)
            return GT_OK;
        uint64_t count = 2 * slot + 64;
        uint32_t *names = realloc(machine->slot_names, count * sizeof *names);
        if (!names)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        memset(names + machine->slot_name_count, 0, (count - machine->slot_name_count) * sizeof *names);
        machine->slot_names = names;
        machine->slot_name_count = count;
    }
    machine->slot_names[slot] = name;
    return GT_OK;
}

static uint32_t slot_name(const gt_machine *machine, uint64_t slot)
{
    return slot < machine->slot_name_count ? machine->slot_names[slot] : 0;
}

/* A value that two tensors of the program have under different names has none: which of them goes on with it is not known. */
static gt_err learn_name(gt_machine *machine, gt_machine_client *client)
{
    const gt_slot *record = machine->record;
    const gt_handle *handle = gt__handles_find(&client->handles, record->ins.operand[0]);
    uint32_t before = handle ? slot_name(machine, handle->slot) : 0;
    if (!handle || before == NAME_AMBIGUOUS || client->name_count >= MOST_NAMES)
        return GT_OK;
    if ((client->name_count & (client->name_count - 1)) == 0) {
        size_t capacity = client->name_count ? 2 * (size_t)client->name_count : 1;
        char(*names)[GT_MAX_NAME + 1] = realloc(client->names, capacity * sizeof *names);
        if (!names)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        client->names = names;
    }
    char *name = client->names[client->name_count];
    memcpy(name, record + 1, GT_MAX_NAME);
    name[GT_MAX_NAME] = 0;
    keep_printable(name);
    if (before && strcmp(name, client->names[before - 1]) == 0)
        return GT_OK; /* told again: another number would be another tensor (gt__machine_name_shared) */
    if (before && !record->ins.imm[0].u)
        return set_name(machine, handle->slot, NAME_AMBIGUOUS);
    return set_name(machine, handle->slot, ++client->name_count);
}

uint32_t gt__machine_name(const gt_machine *machine, uint64_t slot)
{
    uint32_t name = slot_name(machine, slot);
    return name == NAME_AMBIGUOUS ? 0 : name;
}

/* The same number is another value of the same tensor. */
bool gt__machine_name_shared(const gt_machine *machine, uint64_t session, uint32_t name)
{
    gt_machine_client *client = find_client(machine, session);
    uint32_t cursor = 0;
    const gt_handle *handle;
    while (client && (handle = gt__handles_next(&client->handles, &cursor))) {
        uint32_t other = slot_name(machine, handle->slot);
        if (other && other != name && other != NAME_AMBIGUOUS &&
            strcmp(client->names[other - 1], client->names[name - 1]) == 0)
            return true;
    }
    return false;
}

const char *gt__machine_name_text(const gt_machine *machine, uint64_t session, uint32_t name)
{
    const gt_machine_client *client = find_any(machine, session);
    return client && name && name <= client->name_count ? client->names[name - 1] : NULL;
}

/* ---- records ------------------------------------------------------------------------------------------------ */

static gt_err resolve(const gt_machine_client *client, uint64_t *id)
{
    const gt_handle *handle = gt__handles_find(&client->handles, *id);
    if (!handle)
        return gt__fail(GT_ERR_PROTOCOL, "there is no tensor %llu", (unsigned long long)*id);
    *id = handle->slot;
    return GT_OK;
}

static gt_err resolve_operands(const gt_machine_client *client, gt_slot *record)
{
    gt_operands operands = gt__record_operands(&record->ins, record + 1);
    for (unsigned k = 0; k < operands.count; k++)
        if (gt__operand_is_tensor(&operands, k))
            GT_TRY(resolve(client, &operands.id[k]));
    return GT_OK;
}

static gt_err compute(gt_machine *machine, gt_machine_client *client, gt_entry **result)
{
    gt_instruction *ins = &machine->record->ins;
    uint64_t consumed = gt__record_consumed(ins);
    if (ins->op == GT_OP_upload && ins->imm[1].u)
        return gt__fail(GT_ERR_PROTOCOL, "upload: the data is missing");
    GT_TRY(resolve_operands(client, machine->record));
    gt_handle *handle;
    GT_TRY(gt__handles_insert(&client->handles, ins->result, &handle));
    uint64_t slot = slot_new(machine);
    handle->slot = (uint32_t)slot;
    ins->result = slot;
    bool updates = ins->flags & GT_FLAG_UPDATES && gt__op_operands((gt_opcode)ins->op) &&
                   gt__literal(ins, 0) == GT_LITERAL_NONE && ins->op != GT_OP_cat;
    GT_TRY(set_name(machine, slot, updates ? slot_name(machine, ins->operand[0]) : 0));
    gt__worker_execute(&machine->worker, ins, machine->record + 1);
    gt__late_drain(&machine->worker); /* results are looked at one by one */
    *result = gt__store_find(machine->worker.store, slot);
    if (*result)
        gt__store_settle(machine->worker.store, *result);
    return consumed ? drop(machine, client, consumed) : GT_OK;
}

static gt_err learn_scope(gt_machine_client *client, const gt_slot *record)
{
    enum { MOST_SCOPES = 1 << 16 };
    if (record->ins.imm[0].u != client->scope_count + 1 || client->scope_count >= MOST_SCOPES)
        return gt__fail(GT_ERR_PROTOCOL, "scope %llu comes out of order",
                        (unsigned long long)record->ins.imm[0].u);
    char(*scopes)[GT_MAX_NAME + 1] = realloc(client->scopes, (client->scope_count + 1) * sizeof *scopes);
    if (!scopes)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    client->scopes = scopes;
    char *name = scopes[client->scope_count++];
    memcpy(name, record + 1, GT_MAX_NAME);
    name[GT_MAX_NAME] = 0;
    keep_printable(name);
    return GT_OK;
}

static gt_err learn_site(gt_machine_client *client, const gt_slot *record)
{
    char **sites = realloc(client->sites, (client->site_count + 1) * sizeof *sites);
    if (!sites)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    client->sites = sites;
    char *place = strndup((const char *)record[1].bytes, GT_SITE_TAIL * sizeof(gt_slot));
    if (!place)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    keep_printable(place);
    sites[client->site_count++] = place;
    return GT_OK;
}

static gt_err control(gt_machine *machine, gt_machine_client *client, gt_entry **result)
{
    gt_instruction *ins = &machine->record->ins;
    const uint64_t *freed = gt__free_ids(ins);
    switch ((gt_opcode)ins->op) {
    case GT_OP_free:
        for (unsigned k = 0; k < GT_FREE_IDS; k++)
            if (freed[k])
                GT_TRY(drop(machine, client, freed[k]));
        return GT_OK;
    case GT_OP_data:
        GT_TRY(resolve(client, &ins->operand[0]));
        gt__upload_append(&machine->worker, ins, machine->record + 1);
        gt__late_drain(&machine->worker);
        *result = gt__store_find(machine->worker.store, ins->operand[0]);
        if (*result)
            gt__store_settle(machine->worker.store, *result);
        return GT_OK;
    case GT_OP_site:
        return learn_site(client, machine->record);
    case GT_OP_scope:
        return learn_scope(client, machine->record);
    case GT_OP_name:
        return learn_name(machine, client);
    case GT_OP_mark:
        client->mark = ins->scope;
        return GT_OK;
    default:
        return GT_OK; /* requests for values, and records about placement */
    }
}

gt_err gt__machine_step(gt_machine *machine, const gt_tape_entry *entry, const gt_slot *slots, gt_entry **result)
{
    *result = NULL;
    if (entry->kind == GT_TAPE_OPEN)
        return client_open(machine, entry->session);
    gt_machine_client *client = find_client(machine, entry->session);
    if (!client)
        return gt__fail(GT_ERR_PROTOCOL, "client %llu never connected", (unsigned long long)entry->session);
    if (entry->kind == GT_TAPE_CLOSE) {
        client_close(machine, client);
        return GT_OK;
    }
    memcpy(machine->record, slots, entry->slots * sizeof *slots);
    machine->worker.timing.records++;
    gt_err err =
        slots->ins.op < GT_OP_FIRST_CONTROL ? compute(machine, client, result) : control(machine, client, result);
    if (*result && (*result)->state == GT_ENTRY_FILLING)
        *result = NULL; /* its bytes follow */
    return err;
}

gt_err gt__machine_read(gt_machine *machine, const gt_entry *tensor, void **data)
{
    gt_worker *worker = &machine->worker;
    gt_engine *engine = worker->engine;
    gt_whole whole;
    gt_token token = 0;
    GT_TRY(gt__worker_whole(worker, tensor, &whole));
    size_t bytes = gt__meta_bytes(&whole.view.meta);
    *data = malloc(bytes + 1);
    gt_err err = *data ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
    if (err == GT_OK && bytes)
        err = engine->ops->read(engine, whole.view.data, *data, bytes, false, &token);
    gt__late_given(&worker->late, token);
    if (err == GT_OK)
        err = gt__late_wait(worker, token);
    gt__whole_release(worker, &whole);
    if (err != GT_OK) {
        free(*data);
        *data = NULL;
    }
    return err;
}

const char *gt__machine_site(const gt_machine *machine, uint64_t session, uint32_t site)
{
    const gt_machine_client *client = find_any(machine, session);
    return client && site && site <= client->site_count ? client->sites[site - 1] : NULL;
}

const char *gt__machine_scope(const gt_machine *machine, uint64_t session, uint32_t scope)
{
    const gt_machine_client *client = find_any(machine, session);
    return client && scope && scope <= client->scope_count ? client->scopes[scope - 1] : NULL;
}

gt_moment gt__machine_moment(const gt_machine *machine, const gt_tape_entry *entry, uint32_t site)
{
    const gt_machine_client *client = find_client(machine, entry->session);
    return (gt_moment){.step = gt__steps_at(machine->steps, entry, site), .mark = client ? client->mark : 0};
}

/* ---- life --------------------------------------------------------------------------------------------------- */

gt_err gt__machine_new(const char *engine, gt_machine **out)
{
    const gt_engine_ops *ops;
    GT_TRY(gt__engine_find(engine, &ops));
    gt_machine *machine = calloc(1, sizeof *machine);
    if (!machine)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_engine_options options = {0};
    machine->worker.name = "replay";
    gt_err err = ops->open(&options, &machine->worker.engine);
    if (err == GT_OK)
        err = gt__store_new(machine->worker.engine, &machine->worker.store);
    if (err == GT_OK && machine->worker.engine->ops->asynchronous)
        gt__store_set_late(machine->worker.store, &machine->worker);
    if (err != GT_OK)
        gt__machine_free(&machine);
    *out = machine;
    return err;
}

void gt__machine_free(gt_machine **where)
{
    gt_machine *machine = *where;
    *where = NULL;
    if (!machine)
        return;
    for (gt_machine_client *client = machine->clients, *next; client; client = next) {
        next = client->next;
        if (!client->left)
            client_close(machine, client);
        client_free(client);
    }
    gt__store_free(&machine->worker.store);
    gt__late_free(&machine->worker.late);
    if (machine->worker.engine)
        machine->worker.engine->ops->close(machine->worker.engine);
    free(machine->free_slots);
    free(machine->slot_names);
    free(machine);
}
