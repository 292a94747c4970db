/* json.h: the JSON that the tools need: a parser to a tree, and quoting of strings. */
#ifndef GT_CLI_JSON_H
#define GT_CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum gt_json_kind {
    GT_JSON_NULL,
    GT_JSON_BOOL,
    GT_JSON_NUMBER,
    GT_JSON_STRING,
    GT_JSON_ARRAY,
    GT_JSON_OBJECT,
} gt_json_kind;

typedef struct gt_json {
    gt_json_kind kind;
    double number;         /* also of a bool: 0 or 1 */
    char *key, *text;      /* key: its name in an object, else NULL; text: of a string */
    struct gt_json *child; /* the first element of an array or object */
    struct gt_json *next;  /* in the same array or object */
} gt_json;

/* NULL: not JSON. The caller frees it. */
gt_json *gt__json_parse(const char *text);
void gt__json_free(gt_json *value);

/* A member of an object; NULL: no such member, or not an object. */
const gt_json *gt__json_member(const gt_json *object, const char *key);
/* The same as a number or a text; if missing, the default at the right. */
double gt__json_number(const gt_json *object, const char *key);    /* 0 */
const char *gt__json_text(const gt_json *object, const char *key); /* "" */

/* A JSON string with its quotes; `text` is UTF-8. */
void gt__json_string(FILE *json, const char *text);

#endif
