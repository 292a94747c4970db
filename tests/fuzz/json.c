/* fuzz/json.c: the JSON of statistics and monitors, which `gt top` reads. */
#include "fuzz.h"

#include "cli/json.h"

static void walk(const gt_json *value)
{
    for (; value; value = value->next) {
        if (value->kind == GT_JSON_STRING)
            gt__json_string(fuzz_nowhere(), value->text);
        if (value->kind == GT_JSON_OBJECT && value->child)
            FUZZ_EXPECT(gt__json_member(value, value->child->key));
        walk(value->child);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    gt_json *value = gt__json_parse(text);
    walk(value);
    gt__json_free(value);
    free(text);
    return 0;
}
