/*
 * test_plugins.c: engines that are plug-ins: how they are found, what is refused and in which words, and what a plug-in
 * learns from its host. GT_TEST_PLUGINS is where tests/plugins/ was built.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "engines/engine.h"

/* The error of looking for an engine; NULL, and the test has failed, if there is none. One line. */
static const char *refusal(const char *name)
{
    const gt_engine_ops *ops;
    gt_err err = gt__engine_find(name, &ops);
    if (!CHECK(err != GT_OK))
        return NULL;
    CHECK_EQ(err, GT_ERR_VALUE);
    CHECK(strchr(gt_error_text(), '\n') == NULL);
    return gt_error_text();
}

static void check_refusal(const char *name, const char *words)
{
    const char *text = refusal(name);
    if (text && !CHECK(strstr(text, words) != NULL))
        fprintf(stderr, "not '%s' but: %s\n", words, text);
}

/* ---- finding ------------------------------------------------------------------------------------------------- */

enum { THREADS = 8 };

static pthread_barrier_t together;

static void *find_far(void *found)
{
    pthread_barrier_wait(&together);
    CHECK_EQ(gt__engine_find("far", found), GT_OK);
    return NULL;
}

/* Before anything else has loaded it. */
static void test_threads_find_one_engine(const void *argument)
{
    (void)argument;
    pthread_t threads[THREADS];
    const gt_engine_ops *found[THREADS] = {NULL};
    pthread_barrier_init(&together, NULL, THREADS);
    for (int k = 0; k < THREADS; k++)
        pthread_create(&threads[k], NULL, find_far, &found[k]);
    for (int k = 0; k < THREADS; k++)
        pthread_join(threads[k], NULL);
    pthread_barrier_destroy(&together);
    for (int k = 0; k < THREADS; k++)
        CHECK(found[k] && found[k] == found[0]);
    CHECK(strcmp(found[0]->name, "far") == 0);
}

static void test_built_in_engines(const void *argument)
{
    (void)argument;
    static const char *const names[][2] = {
        {"cpu", "cpu"}, {"reference", "reference"}, {"null", "null"}, {"", "cpu"}, {NULL, "cpu"}};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const gt_engine_ops *ops = NULL;
        CHECK_EQ(gt__engine_find(names[k][0], &ops), GT_OK);
        CHECK(ops && strcmp(ops->name, names[k][1]) == 0);
    }
}

static void test_unknown_names(const void *argument)
{
    (void)argument;
    char words[1024];
    check_refusal("quux", "unknown backend 'quux'; there are cpu, reference, null, and plug-ins ");
    check_refusal("quux", "far, late (gt-engine-quux.so is not in /");
    setenv("GT_ENGINE_PATH", "/nowhere:::/nor/here:", true);
    check_refusal("quux", "far, late (gt-engine-quux.so is not in /nowhere, /nor/here, /");
    setenv("GT_ENGINE_PATH", getenv("GT_TEST_PLUGINS"), true);
    check_refusal("quux", "failing, far, incomplete, late, misnamed, ");
    snprintf(words, sizeof words, "is not in %s", getenv("GT_TEST_PLUGINS"));
    check_refusal("quux", words);
    unsetenv("GT_ENGINE_PATH");
    check_refusal("numpy",
                  "is written in Python, and there is no Python in this process; start a worker with `python -m ");
}

static void test_names_are_not_paths(const void *argument)
{
    (void)argument;
    static const char *const names[] = {"../far",   "/far", "far.so", "a b", "far\n",
                                        "\xc3\xa9", "%s%n", ".",      " ",   "far:late"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        check_refusal(names[k], "is not the name of a backend");
    const gt_engine_ops *ops;
    char longest[4096];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    CHECK_EQ(gt__engine_find(longest, &ops), GT_ERR_VALUE);
}

/* ---- what is refused ----------------------------------------------------------------------------------------- */

static void test_faults(const void *argument)
{
    (void)argument;
    setenv("GT_ENGINE_PATH", getenv("GT_TEST_PLUGINS"), true);
    for (int times = 0; times < 2; times++) { /* again: a failure is not remembered wrongly */
        check_refusal("no_symbol", "is not an engine: it has no symbol gt_engine_plugin");
        char words[96];
        snprintf(words, sizeof words, "is built for version 1 of the engine interface, this is version %d",
                 GT_ENGINE_VERSION);
        check_refusal("other_version", words);
        check_refusal("no_hash", "is not an engine: it has no table_hash function");
        check_refusal("no_init", "is not an engine: it has no init function");
        check_refusal("other_sizes", "is built with another gt_view: ");
        check_refusal("other_table", "is built with another op table");
        check_refusal("failing", "cannot start: there is no device of this kind");
        check_refusal("misnamed", "has another name");
        check_refusal("incomplete", "lacks functions");
        check_refusal("undefined", "backend 'undefined' cannot be loaded: "); /* in the linker's words */
        CHECK(strstr(gt_error_text(), "function_that_is_nowhere") != NULL);
        CHECK(strstr(gt_error_text(), getenv("GT_TEST_PLUGINS")) != NULL);
    }
    unsetenv("GT_ENGINE_PATH");
}

/* How often the init of a plug-in in GT_TEST_PLUGINS was called; -1: the plug-in is not loaded. */
static int init_calls(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/gt-engine-%s.so", getenv("GT_TEST_PLUGINS"), name);
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        return -1;
    const int *calls = dlsym(library, "init_calls");
    int count = CHECK(calls != NULL) ? *calls : -1;
    dlclose(library);
    return count;
}

/* Code of which init may have started a thread stays, and an init that was called is not called again. A plug-in that is
 * refused before goes. */
static void test_refused_after_init(const void *argument)
{
    (void)argument;
    static const char *const after[] = {"failing", "misnamed", "incomplete"};
    static const char *const before[] = {"no_hash", "no_init", "other_version", "other_sizes", "other_table"};
    setenv("GT_ENGINE_PATH", getenv("GT_TEST_PLUGINS"), true);
    for (int times = 0; times < 2; times++) {
        for (size_t k = 0; k < sizeof after / sizeof *after; k++) {
            refusal(after[k]);
            CHECK_EQ(init_calls(after[k]), 1);
        }
        for (size_t k = 0; k < sizeof before / sizeof *before; k++) {
            refusal(before[k]);
            CHECK_EQ(init_calls(before[k]), -1);
        }
        check_refusal("another", "unknown backend 'another'"); /* the engine in misnamed calls itself so */
    }
    unsetenv("GT_ENGINE_PATH");
}

/* Two engines that look for each other in their inits. */
static void test_a_ring(const void *argument)
{
    (void)argument;
    setenv("GT_ENGINE_PATH", getenv("GT_TEST_PLUGINS"), true);
    for (int times = 0; times < 2; times++) {
        check_refusal("ring_a", "cannot start: backend 'ring_a' is being loaded");
        check_refusal("ring_b", "cannot start: backend 'ring_a' is being loaded");
        CHECK_EQ(init_calls("ring_a"), 1);
        CHECK_EQ(init_calls("ring_b"), 1);
    }
    unsetenv("GT_ENGINE_PATH");
}

/* One file may have two names, and the wrong one may be used first. On late, which nothing has loaded yet. */
static void test_a_second_name(const void *argument)
{
    (void)argument;
    char folder[] = "/tmp/gt-plugins-XXXXXX", file[64], path[4096];
    if (!CHECK(mkdtemp(folder) != NULL))
        return;
    snprintf(file, sizeof file, "%s/gt-engine-second.so", folder);
    snprintf(path, sizeof path, "%s/../../gt-engine-late.so", getenv("GT_TEST_PLUGINS"));
    CHECK_EQ(symlink(path, file), 0);
    setenv("GT_ENGINE_PATH", folder, true);
    const gt_engine_ops *ops;
    for (int times = 0; times < 2; times++) {
        check_refusal("second", "has another name");
        CHECK_EQ(gt__engine_find("late", &ops), GT_OK);
    }
    unlink(file);
    rmdir(folder);
    unsetenv("GT_ENGINE_PATH");
}

/* GT_ENGINE_PATH comes first, and its first folder before the second; what is found there and is wrong is an error, not
 * passed over. */
static void test_the_first_file_counts(const void *argument)
{
    (void)argument;
    char folder[] = "/tmp/gt-plugins-XXXXXX", file[64], path[1024];
    if (!CHECK(mkdtemp(folder) != NULL))
        return;
    snprintf(file, sizeof file, "%s/gt-engine-probe.so", folder);
    FILE *written = fopen(file, "w");
    fputs("this is not a library\n", written);
    fclose(written);
    snprintf(path, sizeof path, "%s:%s", folder, getenv("GT_TEST_PLUGINS"));
    setenv("GT_ENGINE_PATH", path, true);
    check_refusal("probe", "backend 'probe' cannot be loaded: ");
    CHECK(strstr(gt_error_text(), file) != NULL);
    snprintf(path, sizeof path, "%s:%s", getenv("GT_TEST_PLUGINS"), folder);
    setenv("GT_ENGINE_PATH", path, true);
    const gt_engine_ops *ops;
    CHECK_EQ(gt__engine_find("probe", &ops), GT_OK);
    unlink(file);
    rmdir(folder);
    unsetenv("GT_ENGINE_PATH");
}

/* ---- the host, seen from a plug-in --------------------------------------------------------------------------- */

static void test_the_host_answers(const void *argument)
{
    (void)argument;
    const gt_engine_ops *ops;
    gt_engine *engine;
    setenv("GT_ENGINE_PATH", getenv("GT_TEST_PLUGINS"), true);
    setenv("GT_NUM_THREADS", "3", true);
    setenv("GT_WORKER_MEMORY", "64K", true);
    if (CHECK_EQ(gt__engine_find("probe", &ops), GT_OK)) {
        CHECK_EQ(ops->open(NULL, &engine), GT_ERR_UNSUPPORTED);
        CHECK(strcmp(gt_error_text(), "threads 3, limit 65536, engine cpu, error invalid value 1, number 0.5, "
                                      "op matmul, shape (3,4)") == 0);
        unsetenv("GT_ENGINE_PATH"); /* what is loaded stays */
        const gt_engine_ops *again = NULL;
        CHECK(gt__engine_find("probe", &again) == GT_OK && again == ops);
    }
    unsetenv("GT_ENGINE_PATH");
    unsetenv("GT_NUM_THREADS");
    unsetenv("GT_WORKER_MEMORY");
}

/* A second copy of the host in this process, libgt.so, has error texts of its own: a plug-in serves one of them. */
static void test_two_hosts(const void *argument)
{
    (void)argument;
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 16);
    if (!CHECK(length > 0))
        return;
    path[length] = 0;
    strcpy(strrchr(path, '/') + 1, "libgt.so");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!CHECK(library != NULL)) {
        fprintf(stderr, "%s\n", dlerror());
        return;
    }
    gt_err (*open_embedded)(int, gt_client **) =
        (gt_err(*)(int, gt_client **))dlsym(library, "gt_client_open_embedded");
    const char *(*error_text)(void) = (const char *(*)(void))dlsym(library, "gt_error_text");
    const gt_engine_ops *ops;
    gt_client *client = NULL;
    CHECK_EQ(gt__engine_find("far", &ops), GT_OK);
    gt__error_set("mine");
    setenv("GT_BACKEND", "far", true);
    CHECK_EQ(open_embedded(1, &client), GT_ERR_VALUE);
    unsetenv("GT_BACKEND");
    CHECK(strstr(error_text(), "cannot start: another copy of gt in this process uses it") != NULL);
    CHECK(strcmp(gt_error_text(), "mine") == 0);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    if (!getenv("GT_TEST_PLUGINS")) {
        fprintf(stderr, "GT_TEST_PLUGINS is not set: run this by meson test\n");
        return 1;
    }
    unsetenv("GT_ENGINE_PATH");
    check_run("threads find one engine", test_threads_find_one_engine, NULL);
    check_run("built-in engines", test_built_in_engines, NULL);
    check_run("unknown names", test_unknown_names, NULL);
    check_run("names are not paths", test_names_are_not_paths, NULL);
    check_run("faults", test_faults, NULL);
    check_run("refused after init", test_refused_after_init, NULL);
    check_run("a ring", test_a_ring, NULL);
    check_run("a second name", test_a_second_name, NULL);
    check_run("the first file counts", test_the_first_file_counts, NULL);
    check_run("the host answers", test_the_host_answers, NULL);
    check_run("two hosts", test_two_hosts, NULL);
    return check_end();
}
