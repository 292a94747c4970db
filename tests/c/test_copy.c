/* test_copy.c: gt__copy_large copies all bytes and no others, by one thread or by several. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/copy.h"

static void test_sizes(const void *argument)
{
    (void)argument;
    static const size_t sizes[] = {
        0, 1, 4095, 8 << 20, (16 << 20) - 1, (16 << 20) + 1, (70 << 20) + 4097, (130 << 20) + 77};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t bytes = sizes[s];
        uint8_t *from = malloc(bytes + 1), *to = malloc(bytes + 2);
        if (!CHECK(from && to))
            return;
        for (size_t k = 0; k < bytes; k++)
            from[k] = (uint8_t)(k * 2654435761u >> 11);
        to[0] = to[bytes + 1] = 0x5a;
        gt__copy_large(to + 1, from, bytes);
        CHECK(memcmp(to + 1, from, bytes) == 0);
        CHECK(to[0] == 0x5a && to[bytes + 1] == 0x5a);
        free(from);
        free(to);
    }
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("sizes", test_sizes, NULL);
    return check_end();
}
