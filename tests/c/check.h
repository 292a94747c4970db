/*
 * check.h: the little that a C test needs. A test is a function that CHECKs things; a program is a main like
 *
 *     int main(int argc, char **argv)
 *     {
 *         check_begin(argc, argv);
 *         check_run("addition", test_addition, NULL);
 *         return check_end();
 *     }
 *
 * Arguments select tests whose name contains one of them. The last line printed is "N passed, N failed".
 */
#ifndef GT_TESTS_CHECK_H
#define GT_TESTS_CHECK_H

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Sanitizers make everything an order of magnitude slower: tests that move much data move less under them. */
#if defined(__has_feature)
#define CHECK_HAS_FEATURE(name) __has_feature(name)
#else
#define CHECK_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || CHECK_HAS_FEATURE(address_sanitizer) ||      \
    CHECK_HAS_FEATURE(thread_sanitizer)
#define CHECK_SANITIZED 1
#else
#define CHECK_SANITIZED 0
#endif

static struct {
    char **filters;
    int filter_count, passed, failed;
    _Atomic int failures; /* of the running test; threads may CHECK too */
} check_state;

/* True when `condition` holds, so that a test can stop where going on makes no sense: if (!CHECK(p)) return; */
#define CHECK(condition) check_that((condition), #condition, __FILE__, __LINE__)
#define CHECK_EQ(a, b) check_equal((intmax_t)(a), (intmax_t)(b), #a " == " #b, __FILE__, __LINE__)

static inline bool check_that(bool holds, const char *text, const char *file, int line)
{
    if (!holds && atomic_fetch_add(&check_state.failures, 1) < 20)
        fprintf(stderr, "%s:%d: failed: %s\n", file, line, text);
    return holds;
}

static inline bool check_equal(intmax_t a, intmax_t b, const char *text, const char *file, int line)
{
    if (a != b && atomic_fetch_add(&check_state.failures, 1) < 20)
        fprintf(stderr, "%s:%d: failed: %s (%" PRIdMAX " and %" PRIdMAX ")\n", file, line, text, a, b);
    return a == b;
}

static inline void check_begin(int argc, char **argv)
{
    check_state.filters = argv + 1;
    check_state.filter_count = argc - 1;
}

static inline void check_run(const char *name, void (*test)(const void *argument), const void *argument)
{
    bool selected = check_state.filter_count == 0;
    for (int k = 0; k < check_state.filter_count; k++)
        selected |= strstr(name, check_state.filters[k]) != NULL;
    if (!selected)
        return;
    atomic_store(&check_state.failures, 0);
    test(argument);
    bool passed = atomic_load(&check_state.failures) == 0;
    *(passed ? &check_state.passed : &check_state.failed) += 1;
    printf("%s %s\n", passed ? "ok  " : "FAIL", name);
    fflush(stdout);
}

static inline int check_end(void)
{
    printf("%d passed, %d failed\n", check_state.passed, check_state.failed);
    return check_state.failed != 0;
}

#endif
