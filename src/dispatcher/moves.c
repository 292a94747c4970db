/* moves.c: see moves.h. Place in the flow: spread/move.c and live/evacuate.c -> here -> the streams of both workers. */
#include "dispatcher/moves.h"

#include <string.h>

#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

/* Both records are reserved before one of them is written: a send without its recv would leave its data in memory. */
gt_err gt__worker_move(const gt_move *move)
{
    const gt_meta *meta = move->meta;
    gt_slot *send = gt__worker_reserve(move->from, 1), *recv = send ? gt__worker_reserve(move->to, 2) : NULL;
    if (!recv)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    uint64_t tag = move->from->peer->dispatcher->next_tag++;
    send->ins = (gt_instruction){.op = GT_OP_send, .operand = {move->slot}, .scope = move->scope};
    send->ins.site = move->site;
    send->ins.flags = move->flags;
    send->ins.imm[0].i = move->to->index;
    send->ins.imm[1].u = tag;
    gt__worker_put(move->from, 1);
    recv->ins = (gt_instruction){.op = GT_OP_recv, .tail = 1, .result = move->arrives, .scope = move->scope};
    recv->ins.site = move->site;
    recv->ins.dtype = meta->dtype;
    recv->ins.rank = meta->rank;
    recv->ins.imm[0].i = move->from->index;
    recv->ins.imm[1].u = tag;
    recv[1] = (gt_slot){0};
    memcpy(recv[1].i64, meta->shape, meta->rank * sizeof meta->shape[0]);
    gt__worker_put(move->to, 2);
    move->to->traffic.moves++;
    move->to->traffic.bytes += gt__meta_bytes(meta);
    return GT_OK;
}
