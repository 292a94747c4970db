/* cli/http/shared.c: what the dashboard's threads share: texts, and how they begin. See http.h. */
#include <stdlib.h>
#include <string.h>

#include "cli/array.h"
#include "cli/http/http.h"
#include "dispatcher/dispatcher.h"

gt_shared_text *gt__shared_text_new(const char *text, size_t bytes)
{
    gt_shared_text *shared = gt__zeroed(1, sizeof *shared + bytes + 1);
    atomic_init(&shared->readers, 1);
    shared->bytes = bytes;
    memcpy(shared->text, text, bytes);
    return shared;
}

gt_shared_text *gt__shared_text_retain(gt_shared_text *shared)
{
    atomic_fetch_add(&shared->readers, 1);
    return shared;
}

void gt__shared_text_release(void *text)
{
    gt_shared_text *shared = (gt_shared_text *)(void *)((char *)text - offsetof(gt_shared_text, text));
    if (atomic_fetch_sub(&shared->readers, 1) == 1)
        free(shared);
}

gt_err gt__monitor_link(gt_dispatcher *dispatcher, gt_link **link)
{
    gt_link *server_end;
    GT_TRY(gt__link_memory_pair(&server_end, link));
    gt_err err = gt__dispatcher_adopt(dispatcher, server_end);
    if (err != GT_OK)
        gt__link_close(*link);
    return err;
}
