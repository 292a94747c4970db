/*
 * fuzz.h: what the fuzz targets share. A target is one file, whose LLVMFuzzerTestOneInput gets bytes that libFuzzer makes; a crash,
 * a report of a sanitizer, a call of abort() or too much time or memory is a finding. `make fuzz` builds and runs all of them.
 */
#ifndef GT_TESTS_FUZZ_FUZZ_H
#define GT_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most); /* libFuzzer's own */

/* The run ends here if a thing that must hold does not. */
#define FUZZ_EXPECT(condition)                                                                                    \
    do {                                                                                                          \
        if (!(condition)) {                                                                                       \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                             \
            abort();                                                                                              \
        }                                                                                                         \
    } while (0)

/* The bytes as a file that has no name, for readers that take a path. One at a time. */
static inline const char *fuzz_file(const uint8_t *data, size_t size)
{
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    FUZZ_EXPECT(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    return path;
}

/* Complaints about malformed input are many: where they may go. */
static inline FILE *fuzz_nowhere(void)
{
    static FILE *nowhere;
    if (!nowhere)
        nowhere = fopen("/dev/null", "w");
    FUZZ_EXPECT(nowhere);
    return nowhere;
}

#endif
