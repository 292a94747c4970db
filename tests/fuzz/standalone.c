/*
 * fuzz/standalone.c: runs a fuzz target without libFuzzer, with any compiler: first every file of its corpus, then a number of
 * random changes to them. The same inputs every time. The C tests do that; `make fuzz` looks for more, and for longer.
 *
 *     fuzz_NAME INPUTS [FOLDER]
 */
#include <dirent.h>

#include "fuzz.h"
#include "random_numbers.h"

#pragma weak LLVMFuzzerInitialize
#pragma weak LLVMFuzzerCustomMutator

enum { POOL = 256, MOST_BYTES = 8192, MOST_CHANGES = 8 };

typedef struct input {
    size_t size;
    uint8_t bytes[MOST_BYTES];
} input;

static numbers the_numbers = {.state = 1};

/* A copy of exactly its size, so that a sanitizer sees reads behind it. */
static void run(const input *one)
{
    uint8_t *copy = malloc(one->size ? one->size : 1);
    FUZZ_EXPECT(copy);
    memcpy(copy, one->bytes, one->size);
    LLVMFuzzerTestOneInput(copy, one->size);
    free(copy);
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most)
{
    static const uint8_t ends[] = {0, 1, 0x7f, 0x80, 0xff, ' ', '\n', '"', '{', '[', ':', '-', '9'};
    numbers *n = &the_numbers;
    size_t at = numbers_below(n, size + 1), length = 1 + numbers_below(n, 8);
    length = at + length > size ? size - at : length;
    switch (numbers_below(n, 4)) {
    case 0: /* insert */
        if (size < most) {
            memmove(data + at + 1, data + at, size - at);
            data[at] = (uint8_t)numbers_next(n);
            return size + 1;
        }
        break;
    case 1: /* take away */
        memmove(data + at, data + at + length, size - at - length);
        return size - length;
    case 2: /* repeat */
        if (size + length <= most) {
            memmove(data + at + length, data + at, size - at);
            return size + length;
        }
        break;
    default:
        if (at < size)
            data[at] = numbers_below(n, 2) ? ends[numbers_below(n, sizeof ends)] : (uint8_t)numbers_next(n);
    }
    return size;
}

static void change(input *one)
{
    for (uint64_t k = 1 + numbers_below(&the_numbers, MOST_CHANGES); k; k--)
        one->size = LLVMFuzzerCustomMutator ? LLVMFuzzerCustomMutator(one->bytes, one->size, MOST_BYTES,
                                                                      (unsigned)numbers_next(&the_numbers))
                                            : LLVMFuzzerMutate(one->bytes, one->size, MOST_BYTES);
}

/* The files of a folder, as far as there is room; returns how many. */
static unsigned read_corpus(const char *folder, input *pool)
{
    unsigned count = 0;
    DIR *files = opendir(folder);
    FUZZ_EXPECT(files);
    for (struct dirent *file; (file = readdir(files)) && count < POOL;) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, file->d_name);
        FILE *stream = file->d_name[0] == '.' ? NULL : fopen(path, "rb");
        if (!stream)
            continue;
        pool[count].size = fread(pool[count].bytes, 1, MOST_BYTES, stream);
        fclose(stream);
        run(&pool[count++]);
    }
    closedir(files);
    return count;
}

int main(int argc, char **argv)
{
    FUZZ_EXPECT(argc >= 2);
    input *pool = calloc(POOL, sizeof *pool), *next = malloc(sizeof *next);
    FUZZ_EXPECT(pool && next);
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    unsigned files = argc > 2 ? read_corpus(argv[2], pool) : 0, known = files ? files : 1;
    long inputs = atol(argv[1]);
    for (long k = 0; k < inputs; k++) {
        *next = pool[numbers_below(&the_numbers, known)];
        change(next);
        run(next);
        /* Changes add up: some of the changed inputs are kept, files of the corpus always. */
        if (known < POOL)
            pool[known++] = *next;
        else if (files < POOL && numbers_below(&the_numbers, 4) == 0)
            pool[files + numbers_below(&the_numbers, POOL - files)] = *next;
    }
    printf("%u files and %ld inputs, nothing found\n", files, inputs);
    free(pool);
    free(next);
    return 0;
}
