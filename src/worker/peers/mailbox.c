/* mailbox.c: see mailbox.h. */
#include "worker/peers/mailbox.h"

#include <stdlib.h>

enum {
    FIRST_BITS = 6,
    MORE_BITS = 2, /* when there is a message for each list, on average */
    MOST_IDLE = 10 /* bits: a larger table is freed when it is empty */
};

static size_t list_count(const gt_mailbox *mailbox)
{
    return (size_t)1 << mailbox->bits;
}

static gt_message **list_of(const gt_mailbox *mailbox, const gt_message_key *key)
{
    if (!mailbox->chains)
        return (gt_message **)&mailbox->few;
    uint64_t hash = key->tag * 0x9E3779B97F4A7C15u ^ ((uint64_t)(uint32_t)key->from << 32 | key->number);
    return &mailbox->chains[hash * 0xD6E8FEB86659FD93u >> (64 - mailbox->bits)];
}

static void add(gt_mailbox *mailbox, gt_message *message)
{
    gt_message **list = list_of(mailbox, &message->key);
    message->next = *list;
    *list = message;
}

static void grow(gt_mailbox *mailbox)
{
    gt_mailbox grown = {.bits = mailbox->chains ? mailbox->bits + MORE_BITS : FIRST_BITS, .count = mailbox->count};
    if (!(grown.chains = calloc(list_count(&grown), sizeof(*grown.chains))))
        return;
    for (gt_message *message = gt__mailbox_empty(mailbox), *next; message; message = next) {
        next = message->next;
        add(&grown, message);
    }
    *mailbox = grown;
}

void gt__mailbox_put(gt_mailbox *mailbox, gt_message *message)
{
    enum { FEW = 8 };
    if (mailbox->count >= (mailbox->chains ? list_count(mailbox) : FEW))
        grow(mailbox);
    add(mailbox, message);
    mailbox->count++;
}

gt_message *gt__mailbox_find(const gt_mailbox *mailbox, const gt_message_key *key, gt_message_state state)
{
    gt_message *message = *list_of(mailbox, key);
    while (message && (message->key.tag != key->tag || message->key.number != key->number ||
                       message->key.from != key->from || message->state != state))
        message = message->next;
    return message;
}

void gt__mailbox_remove(gt_mailbox *mailbox, gt_message *message)
{
    gt_message **where = list_of(mailbox, &message->key);
    while (*where && *where != message)
        where = &(*where)->next;
    if (!*where)
        return;
    *where = message->next;
    if (--mailbox->count == 0 && mailbox->bits > MOST_IDLE)
        gt__mailbox_empty(mailbox);
}

gt_message *gt__mailbox_empty(gt_mailbox *mailbox)
{
    gt_message *all = mailbox->few;
    for (size_t k = 0; mailbox->chains && k < list_count(mailbox); k++)
        for (gt_message *message = mailbox->chains[k], *next; message; message = next) {
            next = message->next;
            message->next = all;
            all = message;
        }
    free(mailbox->chains);
    *mailbox = (gt_mailbox){0};
    return all;
}
