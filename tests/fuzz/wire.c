/* fuzz/wire.c: records from a stranger: the check, inference, and the text of the log. */
#include "records.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    return records_mutate(data, size, most, seed);
}

/* What inference accepts must be a possible tensor: later stages allocate and index by it. */
static void expect_sane(const gt_meta *meta, gt_dtype compute)
{
    int64_t numel = 1;
    FUZZ_EXPECT(gt__dtype_valid(meta->dtype) && gt__dtype_valid(compute) && meta->rank <= GT_MAX_RANK);
    for (unsigned axis = 0; axis < meta->rank; axis++)
        FUZZ_EXPECT(meta->shape[axis] >= 0 && !__builtin_mul_overflow(numel, meta->shape[axis], &numel));
    FUZZ_EXPECT(numel == meta->numel);
}

enum { TENSORS = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gt_meta metas[TENSORS];
    static const gt_meta *in[GT_MAX_CAT];
    size_t count = size / sizeof(gt_slot), at = 0;
    uint64_t next = 1;
    unsigned length;
    gt_slot *slots = malloc((count + 1) * sizeof *slots);
    memcpy(slots, data, count * sizeof *slots);
    for (; next < TENSORS && records_next(slots, count, &at, &length); at += length) {
        gt_slot *record = slots + at;
        char text[80];
        FUZZ_EXPECT(length <= count - at);
        gt__instruction_text(&record->ins, text, sizeof text);
        if (record->ins.op >= GT_OP_FIRST_CONTROL)
            continue;
        records_number(record, &next);
        gt_operands operands = gt__record_operands(&record->ins, record + 1);
        bool known = true;
        for (unsigned k = 0; k < operands.count; k++) {
            in[k] = gt__operand_is_tensor(&operands, k) ? &metas[operands.id[k] % TENSORS] : NULL;
            known &= !in[k] || (operands.id[k] && operands.id[k] < next - 1);
        }
        gt_dtype compute;
        gt_meta *out = &metas[record->ins.result];
        if (known && gt__op_infer(&record->ins, record + 1, in, out, &compute) == GT_OK)
            expect_sane(out, compute);
        else
            gt__meta_set(out, GT_FLOAT32, 0, NULL);
    }
    free(slots);
    return 0;
}
