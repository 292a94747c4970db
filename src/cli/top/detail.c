/* cli/top/detail.c: what the dispatcher says of one client, as structs. See top.h. */
#include <stdlib.h>
#include <string.h>

#include "cli/array.h"
#include "cli/json.h"
#include "cli/top/top.h"

/* Truncated, the end if `tail`, and without control characters, which a terminal would interpret. */
static void copy_text(char *to, size_t size, const char *text, bool tail)
{
    size_t length = strlen(text);
    snprintf(to, size, "%s", tail && length >= size ? text + length - size + 1 : text);
    for (; *to; to++)
        if ((unsigned char)*to < ' ' || *to == 127)
            *to = '?';
}

static void take_line(gt_top_detail *detail, const gt_json *from)
{
    gt_top_line *line = GT_PUSH(detail->lines, detail->line_count, detail->line_capacity);
    const gt_json *path = gt__json_member(from, "path");
    *line = (gt_top_line){.path = path && path->number != 0,
                          .seconds = gt__json_number(from, "seconds"),
                          .count = gt__json_number(from, "count"),
                          .tensors = gt__json_number(from, "tensors"),
                          .bytes = gt__json_number(from, "bytes")};
    copy_text(line->line, sizeof line->line, gt__json_text(from, "line"), true);
    detail->seconds += line->seconds;
}

static void take_tensor(gt_top_detail *detail, const gt_json *from)
{
    gt_top_tensor *tensor = GT_PUSH(detail->largest, detail->largest_count, detail->largest_capacity);
    *tensor = (gt_top_tensor){.id = gt__json_number(from, "id"), .bytes = gt__json_number(from, "bytes")};
    copy_text(tensor->dtype, sizeof tensor->dtype, gt__json_text(from, "dtype"), false);
    copy_text(tensor->place, sizeof tensor->place, gt__json_text(from, "place"), false);
    copy_text(tensor->line, sizeof tensor->line, gt__json_text(from, "line"), true);
    copy_text(tensor->scope, sizeof tensor->scope, gt__json_text(from, "scope"), false);
    const gt_json *shape = gt__json_member(from, "shape");
    size_t used = (size_t)snprintf(tensor->shape, sizeof tensor->shape, "(");
    for (const gt_json *size = shape ? shape->child : NULL; size && used < sizeof tensor->shape; size = size->next)
        used += (size_t)snprintf(tensor->shape + used, sizeof tensor->shape - used, size->next ? "%.0f, " : "%.0f",
                                 size->number);
    if (used < sizeof tensor->shape)
        snprintf(tensor->shape + used, sizeof tensor->shape - used, ")");
}

bool gt__detail_update(gt_top_detail *detail, const char *text)
{
    gt_json *json = gt__json_parse(text);
    const gt_json *found = gt__json_member(json, "found");
    if (!found) {
        gt__json_free(json);
        return false;
    }
    detail->number = gt__json_number(json, "number");
    detail->found = found->number != 0;
    detail->tensors = gt__json_number(json, "tensors");
    detail->bytes = gt__json_number(json, "bytes");
    detail->seconds = 0;
    detail->line_count = detail->largest_count = 0;
    const gt_json *list = gt__json_member(json, "lines");
    for (const gt_json *line = list ? list->child : NULL; line; line = line->next)
        take_line(detail, line);
    list = gt__json_member(json, "largest");
    for (const gt_json *tensor = list ? list->child : NULL; tensor; tensor = tensor->next)
        take_tensor(detail, tensor);
    gt__json_free(json);
    return true;
}

void gt__detail_clear(gt_top_detail *detail)
{
    free(detail->lines);
    free(detail->largest);
    *detail = (gt_top_detail){0};
}
