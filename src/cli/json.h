/* json.h: as much JSON as the tools need: a tree of what they read, and strings for what they write. */
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
    double number;         /* and 0 or 1 of a bool */
    char *key, *text;      /* its name in an object, else NULL; a string's */
    struct gt_json *child; /* the first, of an array or object */
    struct gt_json *next;  /* in the array or object that it is in */
} gt_json;

/* NULL: it is not JSON. To be freed. */
gt_json *gt__json_parse(const char *text);
void gt__json_free(gt_json *value);

/* A member of an object; NULL if there is none, or no object. */
const gt_json *gt__json_member(const gt_json *object, const char *key);
/* The same as a number or a text, with what it is where there is none. */
double gt__json_number(const gt_json *object, const char *key);    /* 0 */
const char *gt__json_text(const gt_json *object, const char *key); /* "" */

/* A JSON string with its quotes; `text` is UTF-8. */
void gt__json_string(FILE *json, const char *text);

#endif
