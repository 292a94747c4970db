/* fuzz/config.c: YAML files of signals. What is accepted must survive the way to the dispatcher and back. */
#include "fuzz.h"

#include "core/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gt_slot record[GT_CONFIG_SLOTS];
    gt_config config = {0};
    if (gt__config_load(&config, fuzz_file(data, size)) == GT_OK)
        for (size_t k = 0; k < config.count; k++) {
            gt_signal_config back;
            gt__config_write(config.signals[k], record);
            FUZZ_EXPECT(gt__config_read(record, &back) == GT_OK);
            FUZZ_EXPECT(strcmp(back.name, config.signals[k]->name) == 0);
            FUZZ_EXPECT(back.worker_count == config.signals[k]->worker_count &&
                        back.axis == config.signals[k]->axis);
            FUZZ_EXPECT(gt__config_find(&config, back.name) == config.signals[k]);
        }
    gt__config_free(&config);
    return 0;
}
