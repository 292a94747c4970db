/* fuzz/log.c: instruction logs, from the file to the picture and the Chrome trace. */
#include "fuzz.h"

#include "cli/visualize/visualize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gt_timeline timeline = {0};
    if (gt__timeline_read(&timeline, fuzz_file(data, size), fuzz_nowhere()) == GT_OK) {
        gt__timeline_finish(&timeline, -1e300, 1e300);
        for (size_t k = 0; k < timeline.count; k++) {
            FUZZ_EXPECT(timeline.events[k].party >= 0 && (size_t)timeline.events[k].party < timeline.party_count);
            FUZZ_EXPECT(timeline.events[k].partner < (int32_t)timeline.count);
        }
    }
    gt__timeline_free(&timeline);
    return 0;
}
