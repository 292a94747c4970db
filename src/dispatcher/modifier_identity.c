/* modifier_identity.c: passes every record on unchanged. The example to copy for a new modifier. */
#include "dispatcher/modifier.h"

static gt_err step(gt_modifier *modifier, const gt_slot *record)
{
    return gt__modifier_emit(modifier, record);
}

const gt_modifier_ops gt__modifier_identity = {
    .name = "identity",
    .size = sizeof(gt_modifier),
    .step = step,
};
