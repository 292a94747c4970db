/* json.c: see json.h. The input is not trusted: nesting and numbers are bounded, every byte is checked. */
#include "cli/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/array.h"

enum { DEEPEST = 64 };
static const double LARGEST = 1e20; /* sums and differences of such numbers stay finite */

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* UTF-8 of a code point; a surrogate becomes a question mark. */
static char *put_code(char *to, unsigned code)
{
    if (code < 0x80)
        *to++ = (char)code;
    else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 63));
    } else if (code >= 0xd800 && code < 0xe000)
        *to++ = '?';
    else {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 63));
        *to++ = (char)(0x80 | (code & 63));
    }
    return to;
}

/* Parse the string after the quote at `at`; returns its end, or NULL. */
static const char *parse_string(const char *at, char **text)
{
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    size_t most = 0; /* an upper bound: an escape is never shorter than its character */
    while (at[most] && at[most] != '"')
        most += at[most] == '\\' && at[most + 1] ? 2 : 1;
    char *to = *text = gt__zeroed(most + 1, 1);
    for (; *at && *at != '"' && (unsigned char)*at >= ' '; at++) {
        if (*at != '\\') {
            *to++ = *at;
            continue;
        }
        const char *name = *++at ? strchr(names, *at) : NULL;
        char digits[5] = "", *end = digits;
        if (name)
            *to++ = meant[name - names];
        else if (*at == 'u' && strspn(at + 1, "0123456789abcdefABCDEF") >= 4) {
            memcpy(digits, at + 1, 4);
            to = put_code(to, (unsigned)strtoul(digits, &end, 16));
            at += 4;
        }
        if (!name && end != digits + 4)
            return NULL;
    }
    return *at == '"' ? at + 1 : NULL;
}

static const char *parse_value(const char *at, gt_json *value, int depth);

static const char *parse_members(const char *at, gt_json *value, int depth)
{
    char close = *at++ == '{' ? '}' : ']';
    value->kind = close == '}' ? GT_JSON_OBJECT : GT_JSON_ARRAY;
    gt_json **link = &value->child;
    if (*(at = skip_space(at)) == close)
        return at + 1;
    for (;; at++) {
        gt_json *member = *link = gt__zeroed(1, sizeof *member);
        link = &member->next;
        at = skip_space(at);
        if (close == '}') {
            if (*at != '"' || !(at = parse_string(at + 1, &member->key)) || *(at = skip_space(at)) != ':')
                return NULL;
            at++;
        }
        if (!(at = parse_value(at, member, depth + 1)))
            return NULL;
        at = skip_space(at);
        if (*at == close)
            return at + 1;
        if (*at != ',')
            return NULL;
    }
}

static const char *parse_value(const char *at, gt_json *value, int depth)
{
    at = skip_space(at);
    if (depth > DEEPEST)
        return NULL;
    if (*at == '{' || *at == '[')
        return parse_members(at, value, depth);
    if (*at == '"') {
        value->kind = GT_JSON_STRING;
        return parse_string(at + 1, &value->text);
    }
    static const char *const words[] = {"null", "false", "true"};
    for (int k = 0; k < 3; k++)
        if (strncmp(at, words[k], strlen(words[k])) == 0) {
            value->kind = k ? GT_JSON_BOOL : GT_JSON_NULL;
            value->number = k == 2;
            return at + strlen(words[k]);
        }
    char *end;
    size_t length = strspn(at, "+-.0123456789eE"); /* strtod accepts more than JSON does: infinity, 0x10 */
    value->kind = GT_JSON_NUMBER;
    value->number = strtod(at, &end);
    bool valid = length && *at != '+' && *at != '.' && end == at + length && fabs(value->number) <= LARGEST;
    return valid ? end : NULL;
}

gt_json *gt__json_parse(const char *text)
{
    gt_json *value = gt__zeroed(1, sizeof *value);
    const char *end = parse_value(text, value, 0);
    if (end && !*skip_space(end))
        return value;
    gt__json_free(value);
    return NULL;
}

void gt__json_free(gt_json *value)
{
    while (value) {
        gt_json *next = value->next;
        gt__json_free(value->child);
        free(value->key);
        free(value->text);
        free(value);
        value = next;
    }
}

const gt_json *gt__json_member(const gt_json *object, const char *key)
{
    for (const gt_json *member = object ? object->child : NULL; member; member = member->next)
        if (member->key && strcmp(member->key, key) == 0)
            return member;
    return NULL;
}

double gt__json_number(const gt_json *object, const char *key)
{
    const gt_json *member = gt__json_member(object, key);
    return member ? member->number : 0;
}

const char *gt__json_text(const gt_json *object, const char *key)
{
    const gt_json *member = gt__json_member(object, key);
    return member && member->text ? member->text : "";
}

void gt__json_string(FILE *json, const char *text)
{
    fputc('"', json);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(json, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            fprintf(json, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, json);
    }
    fputc('"', json);
}
