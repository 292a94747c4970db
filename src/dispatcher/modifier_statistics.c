/* modifier_statistics.c: counts the records that pass, by operation. Changes nothing. */
#include "dispatcher/modifier.h"

typedef struct statistics {
    gt_modifier base;
    uint64_t tail_slots, syncs;
    uint64_t by_op[GT_OP_COUNT];
} statistics;

static gt_err step(gt_modifier *modifier, const gt_slot *record)
{
    statistics *s = (statistics *)modifier;
    s->by_op[record->ins.op]++;
    s->tail_slots += record->ins.tail;
    return gt__modifier_emit(modifier, record);
}

static void repeat(gt_modifier *modifier, const gt_path *path)
{
    statistics *s = (statistics *)modifier;
    for (uint32_t at = 0; at < path->slots; at += 1u + path->records[at].ins.tail) {
        s->by_op[path->records[at].ins.op]++;
        s->tail_slots += path->records[at].ins.tail;
    }
}

static gt_err flush(gt_modifier *modifier, gt_flush why)
{
    ((statistics *)modifier)->syncs += why == GT_FLUSH_SYNC;
    return GT_OK;
}

static void stats(const gt_modifier *modifier, FILE *json)
{
    const statistics *s = (const statistics *)modifier;
    uint64_t records = 0;
    for (unsigned op = 1; op < GT_OP_COUNT; op++)
        records += s->by_op[op];
    fprintf(json, "{\"records\": %llu, \"bytes\": %llu, \"syncs\": %llu, \"ops\": {", (unsigned long long)records,
            (unsigned long long)(records + s->tail_slots) * sizeof(gt_slot), (unsigned long long)s->syncs);
    const char *separator = "";
    for (unsigned op = 1; op < GT_OP_COUNT; op++)
        if (s->by_op[op]) {
            fprintf(json, "%s\"%s\": %llu", separator, gt__op_table[op].name, (unsigned long long)s->by_op[op]);
            separator = ", ";
        }
    fputs("}}", json);
}

const gt_modifier_ops gt__modifier_statistics = {
    .name = "statistics",
    .size = sizeof(statistics),
    .step = step,
    .flush = flush,
    .repeat = repeat,
    .stats = stats,
};
