/* moving.c: see moving.h. Read next: join.c, which plans slices and assignments, and replay_record.c. */
#include "dispatcher/spread/moving.h"

bool gt__moving_begin(gt_moving *moving, gt_session *session, const gt_slot *record, const gt_path_word *parameter,
                      uint32_t count)
{
    uint32_t axes = 0;
    for (uint32_t k = 0; k < count; k++)
        if (gt__path_word_moves(&parameter[k]))
            axes |= 1u << (parameter[k].word - GT_WORD_TAIL);
    const gt_handle *whole = gt__handles_find(&session->handles, record->ins.operand[0]);
    *moving = (gt_moving){.result = record->ins.result, .axes = axes, .unknown = !whole};
    for (unsigned axis = 0; axes && whole && axis < whole->meta.rank; axis++) {
        int64_t start = record[1].i64[axis], step = record[2].i64[axis], taken = record[3].i64[axis];
        int64_t extent = whole->meta.shape[axis], length; /* inference has not checked these numbers yet */
        bool stays = step == 0 || step < -extent || step > extent || taken < 1 || taken > extent ||
                     __builtin_mul_overflow(taken - 1, step, &length);
        moving->least[axis] = stays ? start : length < 0 ? -length : 0;
        moving->most[axis] = stays ? start : extent - 1 - (length > 0 ? length : 0);
    }
    return axes;
}

static gt_moving *of_task(const gt_task *task)
{
    gt_moving *moving = task->session->spreading->moving;
    return moving && moving->result == task->ins->result ? moving : NULL;
}

void gt__moving_parts(const gt_task *task, unsigned axis, const gt_layout *parts)
{
    gt_moving *moving = of_task(task);
    if (!moving || !(moving->axes >> axis & 1))
        return;
    const gt_slot *record = task->record;
    int64_t start = record[1].i64[axis], step = record[2].i64[axis], count = record[3].i64[axis];
    int64_t least = start, most = start; /* over two parts, or with a step: the pieces differ with every start */
    for (unsigned k = 0; k < parts->count && step == 1; k++) {
        const gt_member *part = &parts->member[k];
        if (start >= part->start && start + count <= part->start + part->count) {
            least = part->start;
            most = part->start + part->count - count;
        }
    }
    moving->least[axis] = least > moving->least[axis] ? least : moving->least[axis];
    moving->most[axis] = most < moving->most[axis] ? most : moving->most[axis];
}

void gt__moving_unknown(const gt_task *task)
{
    gt_moving *moving = of_task(task);
    if (moving)
        moving->unknown = true;
}

void gt__moving_note_copy(const gt_task *task, int32_t worker, uint32_t slot)
{
    gt_moving *moving = of_task(task);
    if (!moving)
        return;
    if (moving->copies == GT_MAX_PARTIES)
        moving->unknown = true;
    else
        moving->copy[moving->copies++] = (gt_moving_copy){.worker = worker, .slot = slot};
}

bool gt__moving_is_copy(const gt_moving *moving, int32_t worker, uint64_t slot)
{
    for (unsigned k = 0; k < moving->copies; k++)
        if (moving->copy[k].worker == worker && moving->copy[k].slot == slot)
            return true;
    return false;
}
