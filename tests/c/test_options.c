/*
 * test_options.c: the command line of the gt commands: every kind of option, what is refused and how, and that
 * --help says what the table says.
 */
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "cli/options.h"

typedef struct values {
    bool flag;
    const char *text;
    int port;
    double number;
    uint64_t count, bytes;
    const char *words[4];
    int word_count;
    char **operands;
    int operand_count;
} values;

static const char *take_word(void *target, const char *text)
{
    values *v = target;
    if (strlen(text) != 4 || v->word_count == 4)
        return "a word of four letters";
    v->words[v->word_count++] = text;
    return NULL;
}

static char said[8192]; /* on standard output and error */

/* What a command with one option of each kind makes of a line of words. */
static int parse(values *v, bool takes_operands, const char *line)
{
    const gt_option options[] = {
        {.name = "flag", .letter = 'f', .target = &v->flag, .help = "a flag"},
        {.name = "text",
         .letter = 't',
         .kind = GT_OPTION_TEXT,
         .target = &v->text,
         .value = "T",
         .help = "text (default %)"},
        {.name = "port",
         .letter = 'p',
         .kind = GT_OPTION_PORT,
         .target = &v->port,
         .value = "PORT",
         .help = "port (default %)"},
        {.name = "number",
         .kind = GT_OPTION_NUMBER,
         .target = &v->number,
         .least = 0.5,
         .most = 2,
         .value = "S",
         .help = "seconds (default %)"},
        {.name = "count",
         .letter = 'n',
         .kind = GT_OPTION_COUNT,
         .target = &v->count,
         .least = 1,
         .most = 1e12,
         .value = "N",
         .help = "how many (default %)"},
        {.name = "bytes-with-a-long-name",
         .kind = GT_OPTION_BYTES,
         .target = &v->bytes,
         .least = 64 << 10,
         .most = 9e18,
         .value = "N",
         .help = "bytes"},
        {.name = "word", .kind = GT_OPTION_OWN, .target = v, .take = take_word, .value = "W", .help = "a word"},
        {0},
    };
    const gt_usage usage = {
        .command = "gt try",
        .line = "[OPTIONS]",
        .about = "Tries options.\n",
        .after = "That is all.\n",
        .options = options,
        .operands = takes_operands ? &v->operands : NULL,
        .operand_count = &v->operand_count,
    };
    static char copy[1024], *argv[64];
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    argv[argc++] = "gt try";
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    *v = (values){.text = "none", .port = 12345, .number = 1.5, .count = 7};
    fflush(stdout);
    FILE *file = tmpfile();
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    int status = gt__options_parse(&usage, argc, argv);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = 0;
    fclose(file);
    return status;
}

static void test_values(const void *unused)
{
    (void)unused;
    values v;
    CHECK_EQ(parse(&v, false, ""), -1);
    CHECK(!v.flag && strcmp(v.text, "none") == 0 && v.port == 12345 && v.number == 1.5 && v.count == 7);
    CHECK_EQ(parse(&v, false,
                   "-f --text=x=y -p 0 --number 5e-1 -n1000000000000 --bytes-with-a-long-name 64M --word four "
                   "--word more"),
             -1);
    CHECK(v.flag && strcmp(v.text, "x=y") == 0 && v.port == 0 && v.number == 0.5);
    CHECK(v.count == 1000000000000 && v.bytes == 64 << 20);
    CHECK(v.word_count == 2 && strcmp(v.words[0], "four") == 0 && strcmp(v.words[1], "more") == 0);
    CHECK(!*said);
    CHECK_EQ(parse(&v, false, "--text a --text b --port 65535"), -1); /* the last counts */
    CHECK(strcmp(v.text, "b") == 0 && v.port == 65535);
}

static void test_operands(const void *unused)
{
    (void)unused;
    values v;
    CHECK_EQ(parse(&v, true, "one -f two -- --flag"), -1);
    CHECK(v.flag && v.operand_count == 3);
    CHECK(strcmp(v.operands[0], "one") == 0 && strcmp(v.operands[1], "two") == 0 &&
          strcmp(v.operands[2], "--flag") == 0);
    CHECK_EQ(parse(&v, true, ""), -1);
    CHECK_EQ(v.operand_count, 0);
    CHECK_EQ(parse(&v, false, "-f two"), 2);
    CHECK(strcmp(said, "gt try: unexpected 'two'\ntry `gt try --help`\n") == 0);
}

static void test_mistakes(const void *unused)
{
    (void)unused;
    static const struct {
        const char *line, *says;
    } wrong[] = {
        {"--nonsense", "gt try: unrecognized option '--nonsense'\n"},
        {"-x", "gt try: invalid option -- 'x'\n"},
        {"--port", "gt try: option '--port' requires an argument\n"},
        {"--flag=1", "gt try: option '--flag' doesn't allow an argument\n"},
        {"-p x", "gt try: --port: 'x' is not a port number\n"},
        {"-p 65536", "gt try: --port: '65536' is not a port number\n"},
        {"-p -1", "gt try: --port: '-1' is not a port number\n"},
        {"-p 99999999999999999999", "is not a port number\n"},
        {"--number 3", "gt try: --number: '3' is not a number from 0.5 to 2\n"},
        {"--number nan", "gt try: --number: 'nan' is not a number from 0.5 to 2\n"},
        {"--number 1s", "is not a number"},
        {"-n 1.5", "gt try: --count: '1.5' is not a number from 1 to 1e+12\n"},
        {"-n 0", "is not a number"},
        {"-n 2e12", "is not a number"},
        {"--bytes-with-a-long-name 1X", "is not a number"},
        {"--bytes-with-a-long-name 1K", "'1K' is not a number of bytes (64M, 1G), 64K at least\n"},
        {"--word five5", "gt try: --word: 'five5' is not a word of four letters\n"},
        {"--word four -p x --flag", "gt try: --port: 'x' is not a port number\n"},
    };
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        values v;
        CHECK_EQ(parse(&v, false, wrong[k].line), 2);
        const char *end = strstr(said, "\ntry `gt try --help`\n");
        if (!CHECK(strstr(said, wrong[k].says) != NULL) ||
            !CHECK(end && strlen(end) == strlen("\ntry `gt try --help`\n")))
            fprintf(stderr, "  %s: %s", wrong[k].line, said);
        CHECK(strncmp(said, "gt try: ", 8) == 0);
        CHECK(!v.flag);
    }
}

static void test_help(const void *unused)
{
    (void)unused;
    static const char expected[] = "usage: gt try [OPTIONS]\n"
                                   "\n"
                                   "Tries options.\n"
                                   "\n"
                                   "  -f, --flag          a flag\n"
                                   "  -t, --text T        text (default none)\n"
                                   "  -p, --port PORT     port (default 12345)\n"
                                   "      --number S      seconds (default 1.5)\n"
                                   "  -n, --count N       how many (default 7)\n"
                                   "      --bytes-with-a-long-name N  bytes\n"
                                   "      --word W        a word\n"
                                   "  -h, --help          this text\n"
                                   "\n"
                                   "That is all.\n";
    /* The defaults are told, whatever else is on the line. */
    static const char *const lines[] = {"--help", "-h", "--port 1 --help", "-p 1 -n 2 -t x -fh", "operand -h"};
    for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++) {
        values v;
        CHECK_EQ(parse(&v, false, lines[k]), 0);
        if (!CHECK(strcmp(said, expected) == 0))
            fprintf(stderr, "  %s:\n%s", lines[k], said);
    }
    values v;
    CHECK_EQ(parse(&v, false, "--nonsense --help"), 2);
    CHECK_EQ(parse(&v, false, "--text --help"), -1); /* its value */
    CHECK(strcmp(v.text, "--help") == 0);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_run("values", test_values, NULL);
    check_run("operands", test_operands, NULL);
    check_run("mistakes", test_mistakes, NULL);
    check_run("help", test_help, NULL);
    return check_end();
}
