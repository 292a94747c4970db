/* names.c: sends the names of tensors. See names.h. */
#include "client/names.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_TOLD = 1 << 14, /* records of a client: names are for the few tensors that stay */
    MOST_AGAIN = 8,      /* how often one name is sent */
};

/* `again`: in place of the name that the tensor has. */
static void tell(gt_tensor *tensor, uint32_t number, bool again, gt_slot *slots)
{
    gt_client *client = tensor->client;
    gt_name *name = &client->names[number - 1];
    memset(slots, 0, (1 + GT_NAME_SLOTS) * sizeof *slots);
    slots->ins.op = GT_OP_name;
    slots->ins.tail = GT_NAME_SLOTS;
    slots->ins.operand[0] = tensor->id;
    slots->ins.imm[0].u = again;
    memcpy(slots + 1, name->text, sizeof name->text);
    gt__client_commit(client, 1 + GT_NAME_SLOTS, 0);
    client->names_told++;
    name->told++;
    tensor->name = number;
}

/* The last part of a long text, which begins with a whole character. */
static void copy_end(char *to, const char *text)
{
    size_t length = strlen(text);
    if (length <= GT_MAX_NAME) {
        memcpy(to, text, length + 1);
        return;
    }
    const char *from = text + length - (GT_MAX_NAME - 3);
    while ((*from & 0xC0) == 0x80)
        from++;
    memcpy(to, "...", 3);
    strcpy(to + 3, from);
}

/* The number of a name; 0: out of memory. */
static uint32_t number_of(gt_client *client, const char *text)
{
    if ((client->name_count & (client->name_count - 1)) == 0) {
        size_t capacity = client->name_count ? 2 * (size_t)client->name_count : 1;
        gt_name *names = realloc(client->names, capacity * sizeof *names);
        if (!names)
            return 0;
        client->names = names;
    }
    gt_name *name = &client->names[client->name_count++];
    memset(name, 0, sizeof *name);
    copy_end(name->text, text);
    return client->name_count;
}

gt_err gt__name_give(gt_tensor *tensor, const char *text)
{
    gt_client *client = tensor->client;
    gt_slot *slots;
    if (client->names_told >= MOST_TOLD || tensor->batch || gt__client_check(client) != GT_OK)
        return GT_OK;
    uint32_t number = number_of(client, text);
    if (!number)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    gt_tensor_retain(tensor); /* a wait lets other threads run */
    gt_err err = gt__client_reserve(client, 1 + GT_NAME_SLOTS, &slots);
    if (err == GT_OK && tensor->id)
        tell(tensor, number, tensor->name != 0, slots);
    gt_tensor_release(tensor);
    return err;
}

/* Name the next value of an object, unless it has a name, or the object had many. */
static void tell_again(uint32_t number, gt_tensor *next)
{
    gt_client *client = next->client;
    gt_slot *slots;
    if (next->name || next->batch || !next->id || client->names_told >= MOST_TOLD ||
        client->names[number - 1].told >= MOST_AGAIN || !(slots = gt__client_room(client, 1 + GT_NAME_SLOTS)))
        return;
    tell(next, number, false, slots);
}

void gt__name_follow(gt_tensor *old, gt_tensor *next)
{
    uint32_t number = old->name;
    if (next == old)
        return;
    old->name = 0;
    if (next->client != old->client)
        return;
    if (next->id && next->id == next->client->updated)
        next->name = number;
    else
        tell_again(number, next);
}
