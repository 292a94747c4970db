/* fuzz/log.c: instruction logs, from the file to the picture and the Chrome trace; and the blocks of compact ones. */
#include "fuzz.h"

#include "cli/visualize/visualize.h"
#include "dispatcher/observe/log_code.h"

/* The bytes as a block, whatever its checksum is: all its events become lines. */
static void read_block(const uint8_t *data, size_t size)
{
    gt_log_decoder *decoder = gt__log_decoder_new();
    gt_log_format *format = gt__log_format_new();
    gt_log_event event;
    bool there = gt__log_block_open(decoder, (const char *)data, size, false) == GT_OK;
    while (there && gt__log_block_next(decoder, &event, &there) == GT_OK && there) {
        static char line[GT_LOG_LINE];
        char *end = gt__log_line(format, &event, line);
        FUZZ_EXPECT(end > line && end <= line + sizeof line && end[-1] == '\n');
        FUZZ_EXPECT(memchr(line, '\n', sizeof line) == end - 1);
    }
    gt__log_format_free(format);
    gt__log_decoder_free(decoder);
}

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
    read_block(data, size);
    return 0;
}
