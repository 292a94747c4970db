/*
 * test_tools.c: what the tools compute without a dispatcher: JSON, and gt top's rates, shares, order and bars.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "cli/json.h"
#include "cli/top/top.h"

#define CHECK_NEAR(a, b) check_near((a), (b), #a " is about " #b, __FILE__, __LINE__)

static void check_near(double a, double b, const char *text, const char *file, int line)
{
    if (!(fabs(a - b) <= 1e-6 * fmax(1, fabs(b)))) {
        fprintf(stderr, "%s:%d: %g and %g\n", file, line, a, b);
        check_that(false, text, file, line);
    }
}

/* ---- JSON --------------------------------------------------------------------------------------------------- */

static void test_json_values(const void *unused)
{
    (void)unused;
    gt_json *json =
        gt__json_parse(" {\"a\": [1, -2.5e1, true, false, null], \"t\": \"x\\n\\u00e9\\\"\\\\\", \"o\": {}} ");
    if (!CHECK(json != NULL))
        return;
    CHECK_EQ(json->kind, GT_JSON_OBJECT);
    const gt_json *item = gt__json_member(json, "a")->child;
    CHECK_NEAR(item->number, 1);
    CHECK_NEAR(item->next->number, -25);
    CHECK_EQ(item->next->next->kind, GT_JSON_BOOL);
    CHECK_NEAR(item->next->next->number, 1);
    CHECK_EQ(item->next->next->next->next->kind, GT_JSON_NULL);
    CHECK(strcmp(gt__json_text(json, "t"), "x\n\xc3\xa9\"\\") == 0);
    CHECK(gt__json_member(json, "o")->child == NULL);
    CHECK(gt__json_member(json, "missing") == NULL);
    CHECK_NEAR(gt__json_number(json, "missing"), 0);
    CHECK(strcmp(gt__json_text(json, "a"), "") == 0);
    gt__json_free(json);
}

static void test_json_refuses(const void *unused)
{
    (void)unused;
    static const char *const wrong[] = {
        "",     "{",       "[1,]",      "{\"a\"}", "{\"a\": }",   "\"open",      "[1 2]", "tru",    "{a: 1}",
        "[1]x", "\"\\x\"", "\"\\u12\"", "\"\n\"",  "-",           "[\"a\": 1]",  "}",     "-inf",   "1e999",
        "0x10", "nan",     "+1",        ".5",      "\"\\u 1ab\"", "\"\\u-001\"", "1e21",  "-1e300",
    };
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++)
        if (!CHECK(gt__json_parse(wrong[k]) == NULL))
            fprintf(stderr, "  accepted: %s\n", wrong[k]);
    char deep[1000];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    CHECK(gt__json_parse(deep) == NULL);
}

/* Every beginning of a text is either refused or read, and never read beyond. */
static void test_json_cut_anywhere(const void *unused)
{
    (void)unused;
    const char *text = "{\"k\\u0041\": [\"a\\\\b\", {\"n\": -1.5e-3}, \"\\\"\"], \"t\": true}";
    for (size_t length = 0; length <= strlen(text); length++) {
        char *part = strndup(text, length);
        gt_json *json = gt__json_parse(part);
        CHECK_EQ(json != NULL, length == strlen(text));
        gt__json_free(json);
        free(part);
    }
}

static void test_json_strings(const void *unused)
{
    (void)unused;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    gt__json_string(out, "a\"\\\n\x01é");
    fclose(out);
    CHECK(strcmp(text, "\"a\\\"\\\\\\u000a\\u0001é\"") == 0);
    gt_json *json = gt__json_parse(text);
    CHECK(json && strcmp(json->text, "a\"\\\n\x01é") == 0);
    gt__json_free(json);
    free(text);
}

/* ---- names ---------------------------------------------------------------------------------------------------- */

static void test_short_names(const void *argument)
{
    (void)argument;
    char text[72];
    gt_top_worker workers[] = {{.name = "short", .index = 0},
                               {.name = "node-17.cluster.example.org_0", .index = 1},
                               {.name = "node-17.cluster.example.org_1", .index = 2},
                               {.name = "node-17.one.in_the_middle.org_1", .index = 31}};
    gt_top top = {.workers = workers, .worker_count = 4};
    CHECK(!strcmp(gt__top_short_name(&top, "short", 17, text), "short"));
    CHECK(!strcmp(gt__top_short_name(&top, "short+", 17, text), "short+"));
    CHECK(!strcmp(gt__top_short_name(&top, workers[1].name, 17, text), "node-17.~le.org_0"));
    CHECK(!strcmp(gt__top_short_name(&top, workers[1].name, 64, text), workers[1].name));
    CHECK(!strcmp(gt__top_short_name(&top, workers[2].name, 12, text), "node-1~org~2"));
    CHECK(!strcmp(gt__top_short_name(&top, workers[3].name, 12, text), "node-1~or~31"));
    CHECK(!strcmp(gt__top_short_name(&top, "node-17.one.in_the_middle.org_1+", 12, text), "node-~or~31+"));
}

/* ---- top ---------------------------------------------------------------------------------------------------- */

/* Statistics of one worker and two clients at a second: so far busy with matmul and add for these seconds. */
static void update(gt_top *top, double second, double matmul, double add, double instructions)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"instructions\": %g, \"seconds\": %g, \"cpu_seconds\": %g, \"workers\": [{\"name\": \"w\", "
             "\"engine\": \"cpu\", "
             "\"index\": 0, \"link\": \"memory\", \"tensors\": 7, \"queue\": 3, \"up_seconds\": %g, "
             "\"idle_seconds\": %g, "
             "\"memory\": {\"used\": 100, \"limit\": 1000}, \"ops\": {\"matmul\": {\"count\": %g, \"seconds\": "
             "%g, \"bytes\": "
             "%g}, \"add\": {\"count\": %g, \"seconds\": %g, \"bytes\": 0}}}], \"clients\": [{\"number\": 1, "
             "\"name\": \"a\", "
             "\"instructions\": %g, \"tensors\": 2, \"bytes\": 50}, {\"number\": 2, \"instructions\": %g}]}",
             instructions, second, 0.5 * second, second, second - matmul - add, 10 * matmul, matmul, 1000 * matmul,
             100 * add, add, 0.75 * instructions, 0.25 * instructions);
    CHECK(gt__top_update(top, text));
}

static void test_rates_and_shares(const void *unused)
{
    (void)unused;
    gt_top top = {0};
    CHECK(!gt__top_measured(&top));
    update(&top, 10, 1, 1, 1000);
    CHECK(!gt__top_measured(&top));
    update(&top, 11, 1.5, 1.25, 5000); /* in one second: half matmul, a quarter add */
    CHECK(gt__top_measured(&top));
    const gt_top_worker *worker = &top.workers[0];
    CHECK_NEAR(worker->share[GT_CATEGORY_MATMUL], 0.5);
    CHECK_NEAR(worker->share[GT_CATEGORY_BINARY], 0.25);
    CHECK_NEAR(worker->idle, 0.25);
    CHECK_NEAR(worker->ops, 10 * 0.5 + 100 * 0.25);
    CHECK_NEAR(worker->bytes, 500);
    CHECK_NEAR(worker->memory, 100);
    CHECK_NEAR(worker->queue, 3);
    CHECK_NEAR(top.rate, 4000);
    CHECK_NEAR(top.cpu, 0.5);
    CHECK_NEAR(top.clients[0].rate, 3000);
    CHECK_NEAR(top.clients[0].share, 0.75);
    CHECK_NEAR(top.clients[1].share, 0.25);
    gt__top_clear(&top);
}

/* An exponential moving average: after two seconds 1/e of what was is left. */
static void test_smoothing(const void *unused)
{
    (void)unused;
    gt_top top = {0};
    update(&top, 10, 0, 0, 0);
    update(&top, 11, 1, 0, 0); /* nothing but matmul */
    CHECK_NEAR(top.workers[0].share[GT_CATEGORY_MATMUL], 1);
    update(&top, 13, 1, 0, 0); /* nothing at all, for two seconds */
    CHECK_NEAR(top.workers[0].share[GT_CATEGORY_MATMUL], exp(-1));
    CHECK_NEAR(top.workers[0].idle, 1 - exp(-1));
    double before = top.workers[0].idle;
    update(&top, 13, 1, 0, 0); /* the same report again says nothing new */
    CHECK_NEAR(top.workers[0].idle, before);
    /* In many small steps the same as in one. */
    for (int step = 1; step <= 20; step++)
        update(&top, 13 + 0.1 * step, 1, 0, 0);
    CHECK_NEAR(top.workers[0].share[GT_CATEGORY_MATMUL], exp(-2));
    gt__top_clear(&top);
}

static void test_who_leaves_is_gone_and_who_starts_again_counts_anew(const void *unused)
{
    (void)unused;
    gt_top top = {0};
    update(&top, 10, 1, 1, 1000);
    update(&top, 11, 2, 1, 2000);
    CHECK(gt__top_update(&top, "{\"seconds\": 12, \"workers\": [], \"clients\": []}"));
    CHECK_EQ(top.worker_count, 0);
    CHECK_EQ(top.client_count, 0);
    update(&top, 2, 0, 0, 10); /* a new dispatcher: its clock is behind */
    CHECK_EQ(top.samples, 1);
    CHECK(!gt__top_measured(&top));
    CHECK(!gt__top_update(&top, "{\"seconds\": 3}"));
    CHECK(!gt__top_update(&top, "no JSON"));
    gt__top_clear(&top);
}

/* What a dispatcher says may be nonsense: shares stay shares. */
static void test_absurd_statistics(const void *unused)
{
    (void)unused;
    gt_top top = {0};
    static const char *const rows[] = {"1e20", "-1e20", "0", "1e20"};
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"instructions\": %s, \"seconds\": %.17g, \"workers\": [{\"name\": \"w\", \"index\": %s, "
                 "\"up_seconds\": "
                 "%.17g, \"ops\": {\"add\": {\"seconds\": %s, \"count\": %s}}}], \"clients\": [{\"number\": 1, "
                 "\"instructions\": %s}, {\"number\": %s, \"instructions\": %s}]}",
                 rows[k], 1 + 1e-15 * (double)k, rows[k], 1 + 1e-15 * (double)k, rows[k], rows[k], rows[k],
                 rows[k], rows[k]);
        CHECK(gt__top_update(&top, text));
        for (size_t client = 0; client < top.client_count; client++)
            CHECK(top.clients[client].share >= 0 && top.clients[client].share <= 1);
        for (size_t worker = 0; worker < top.worker_count; worker++) {
            char amount[16];
            unsigned char cells[16];
            CHECK(strlen(gt__short_number(top.workers[worker].ops, false, amount)) < sizeof amount);
            gt__top_bar(&top.workers[worker], sizeof cells, cells);
            for (size_t cell = 0; cell < sizeof cells; cell++)
                CHECK(cells[cell] <= GT_CATEGORY_COUNT);
        }
    }
    gt__top_clear(&top);
}

/* Names go to terminals and into JSON: they are text there, whatever they were. */
static void test_names_are_only_text(const void *unused)
{
    (void)unused;
    gt_top top = {0};
    gt_top_view view = {.address = "here"};
    static const char strange[] =
        "\\u001b[2J\\\"}, {\\u007f\\n0123456789012345678901234567890123456789012345678901234567890";
    char statistics[1024], *printed = NULL;
    size_t size;
    snprintf(statistics, sizeof statistics,
             "{\"seconds\": 1, \"workers\": [{\"name\": \"%s\", \"engine\": \"%s\", \"link\": \"%s\"}], "
             "\"clients\": [{\"number\": 1, \"name\": \"%s\", \"link\": \"%s\"}]}",
             strange, strange, strange, strange, strange);
    CHECK(gt__top_update(&top, statistics) && gt__top_update(&top, statistics));
    CHECK_EQ(top.worker_count, 1); /* known again by a name that was cut */
    FILE *out = open_memstream(&printed, &size);
    gt__top_print(&top, &view, out);
    gt__top_print_json(&top, &view, out);
    fclose(out);
    for (const char *at = printed; *at; at++)
        CHECK((unsigned char)*at >= ' ' || *at == '\n');
    const char *from = strstr(printed, "{\"address\"");
    gt_json *json = gt__json_parse(from ? from : "");
    const gt_json *list = gt__json_member(json, "workers");
    if (CHECK(list && list->child))
        CHECK(strncmp(gt__json_text(list->child, "link"), "?[2J\"}, {??01234", 15) == 0);
    gt__json_free(json);
    free(printed);
    gt__top_clear(&top);
}

static void test_order(const void *unused)
{
    (void)unused;
    gt_top top = {0};
    static const char text[] =
        "{\"seconds\": 1, \"workers\": [{\"name\": \"worker_10\", \"index\": 0, \"memory\": {\"used\": 1}}, "
        "{\"name\": \"worker_9\", \"index\": 1, \"memory\": {\"used\": 5}}, {\"name\": \"worker_1\", \"index\": "
        "2}], "
        "\"clients\": [{\"number\": 3, \"bytes\": 1}, {\"number\": 1, \"bytes\": 2}]}";
    CHECK(gt__top_update(&top, text));
    gt__top_sort(&top, GT_TOP_BY_NAME, false);
    CHECK(strcmp(top.workers[0].name, "worker_1") == 0 && strcmp(top.workers[2].name, "worker_10") == 0);
    CHECK_EQ((int)top.clients[0].number, 1);
    gt__top_sort(&top, GT_TOP_BY_NAME, true);
    CHECK(strcmp(top.workers[0].name, "worker_10") == 0);
    CHECK_EQ((int)top.clients[0].number, 3);
    gt__top_sort(&top, GT_TOP_BY_MEMORY, false);
    CHECK(strcmp(top.workers[0].name, "worker_9") == 0 && strcmp(top.workers[2].name, "worker_1") == 0);
    gt__top_sort(&top, GT_TOP_BY_MEMORY, true);
    CHECK(strcmp(top.workers[0].name, "worker_1") == 0);
    CHECK_EQ((int)top.clients[0].number, 3);
    gt__top_clear(&top);
}

static void test_bars_and_numbers(const void *unused)
{
    (void)unused;
    gt_top_worker worker = {0};
    unsigned char cells[20];
    worker.share[GT_CATEGORY_MATMUL] = 0.5;
    worker.share[GT_CATEGORY_SUM] = 0.25;
    gt__top_bar(&worker, 20, cells);
    for (int k = 0; k < 20; k++)
        CHECK_EQ(cells[k], k < 10 ? GT_CATEGORY_MATMUL : k < 15 ? GT_CATEGORY_SUM : GT_CATEGORY_COUNT);
    worker.share[GT_CATEGORY_OTHER] = 7; /* nonsense stays within the bar */
    gt__top_bar(&worker, 20, cells);
    CHECK_EQ(cells[19], GT_CATEGORY_OTHER);
    static const struct {
        double value;
        bool binary;
        const char *text;
    } numbers[] = {
        {0, false, "0"},
        {7, false, "7"},
        {999, false, "999"},
        {1000, false, "1.0k"},
        {12345, false, "12k"},
        {1e6, false, "1.0M"},
        {999.6, false, "1.0k"},
        {1024, true, "1.0K"},
        {1536, true, "1.5K"},
        {21.15 * 1073741824, true, "21G"},
        {1e30, false, "1000000000000E"},
        {1e31, false, "?"}, /* longer texts would have no room */
        {1e300, true, "?"},
        {-1e300, false, "?"},
        {INFINITY, true, "?"},
        {NAN, false, "?"},
    };
    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
        char text[16];
        if (!CHECK(strcmp(gt__short_number(numbers[k].value, numbers[k].binary, text), numbers[k].text) == 0))
            fprintf(stderr, "  %g: %s, expected %s\n", numbers[k].value, text, numbers[k].text);
    }
}

/* Every op of the table has a kind, and the log's commands lead to the same one. */
static void test_categories(const void *unused)
{
    (void)unused;
    for (int op = 1; op < GT_OP_COUNT; op++) {
        gt_category category = gt__category_of_op((gt_opcode)op);
        CHECK(category < GT_CATEGORY_COUNT);
        if (op < GT_OP_FIRST_CONTROL)
            CHECK_EQ(gt__category_of_command("WorkerUnaryOp", gt__op_table[op].name), category);
    }
    CHECK_EQ(gt__category_of_op(GT_OP_relu), GT_CATEGORY_RELU);
    CHECK_EQ(gt__category_of_op(GT_OP_exp), GT_CATEGORY_UNARY);
    CHECK_EQ(gt__category_of_op(GT_OP_mean), GT_CATEGORY_MEAN);
    CHECK_EQ(gt__category_of_op(GT_OP_fetch), GT_CATEGORY_GET_DATA);
    CHECK_EQ(gt__category_of_command("free", NULL), GT_CATEGORY_FREE);
    CHECK_EQ(gt__category_of_command("GetData", NULL), GT_CATEGORY_GET_DATA);
    CHECK_EQ(gt__category_of_command("WorkerFreeTensor", NULL), GT_CATEGORY_FREE);
    CHECK_EQ(gt__category_of_command("BinaryOp", "matmul"), GT_CATEGORY_MATMUL);
    CHECK_EQ(gt__category_of_command("BinaryOp", "unheard_of"), GT_CATEGORY_BINARY);
    CHECK_EQ(gt__category_of_command("Whatever", NULL), GT_CATEGORY_OTHER);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("short names", test_short_names, NULL);
    check_run("json: values", test_json_values, NULL);
    check_run("json: refuses", test_json_refuses, NULL);
    check_run("json: cut anywhere", test_json_cut_anywhere, NULL);
    check_run("json: strings", test_json_strings, NULL);
    check_run("top: rates and shares", test_rates_and_shares, NULL);
    check_run("top: smoothing", test_smoothing, NULL);
    check_run("top: leaving and starting again", test_who_leaves_is_gone_and_who_starts_again_counts_anew, NULL);
    check_run("top: absurd statistics", test_absurd_statistics, NULL);
    check_run("top: names", test_names_are_only_text, NULL);
    check_run("top: order", test_order, NULL);
    check_run("top: bars and numbers", test_bars_and_numbers, NULL);
    check_run("categories", test_categories, NULL);
    return check_end();
}
