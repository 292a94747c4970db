/* cli/visualize/dump.c: the contents of a picture as JSON, for tests and for other drawing programs. */
#include "cli/visualize/visualize.h"

static void text(FILE *json, const char *key, const char *value)
{
    fprintf(json, ", \"%s\": ", key);
    gt__json_string(json, value);
}

static void colour(FILE *json, unsigned category)
{
    text(json, "category", gt__category_table[category].name);
    fprintf(json, ", \"colour\": \"#%06x\"", (unsigned)gt__category_table[category].rgb);
}

static const char *flag(bool value)
{
    return value ? "true" : "false";
}

static void dump_lanes(const gt_picture *picture, FILE *json)
{
    static const char *const kinds[] = {"client", "dispatcher", "worker"};
    for (size_t k = 0; k < picture->lane_count; k++) {
        const gt_lane *lane = &picture->lanes[k];
        fprintf(json,
                "%s\n{\"kind\": \"%s\", \"top\": %.3f, \"height\": %.3f, \"busy\": %.9f, \"waited\": %.9f, "
                "\"events\": %zu",
                k ? "," : "", kinds[lane->kind], lane->top, lane->height, lane->busy, lane->waited, lane->events);
        text(json, "name", lane->name);
        text(json, "note", lane->note);
        fputc('}', json);
    }
}

static void dump_boxes(const gt_picture *picture, FILE *json)
{
    for (size_t k = 0; k < picture->box_count; k++) {
        const gt_box *box = &picture->boxes[k];
        fprintf(json,
                "%s\n{\"lane\": %d, \"x\": %.3f, \"y\": %.3f, \"width\": %.3f, \"height\": %.3f, \"start\": %.9f, "
                "\"duration\": %.9f, \"sequence\": %llu, \"count\": %zu, \"aggregated\": %s, \"waiting\": %s, "
                "\"failed\": %s",
                k ? "," : "", box->lane, box->x, box->y, box->width, box->height, box->start, box->duration,
                (unsigned long long)box->sequence, box->count, flag(box->aggregated), flag(box->waiting),
                flag(box->failed));
        colour(json, box->category);
        text(json, "label", box->label);
        text(json, "id", box->id);
        text(json, "title", box->title);
        fputc('}', json);
    }
}

static void dump_bands(const gt_picture *picture, FILE *json)
{
    for (size_t k = 0; k < picture->band_count; k++) {
        const gt_band *band = &picture->bands[k];
        fprintf(
            json,
            "%s\n{\"lane\": %d, \"x\": %.3f, \"width\": %.3f, \"start\": %.9f, \"end\": %.9f, \"operations\": %zu",
            k ? "," : "", band->lane, band->x, band->width, band->start, band->end, band->operations);
        text(json, "scope", picture->scopes[band->scope].name);
        text(json, "label", band->label);
        fputc('}', json);
    }
}

static void dump_markers(const gt_picture *picture, FILE *json)
{
    for (size_t k = 0; k < picture->marker_count; k++) {
        const gt_marker *marker = &picture->markers[k];
        fprintf(
            json,
            "%s\n{\"lane\": %d, \"x\": %.3f, \"y\": %.3f, \"radius\": %.3f, \"sequence\": %llu, \"count\": %zu, "
            "\"heap\": %s, \"echo\": %s, \"failed\": %s",
            k ? "," : "", marker->lane, marker->x, marker->y, marker->radius, (unsigned long long)marker->sequence,
            marker->count, flag(marker->height > 0), flag(marker->echo), flag(marker->failed));
        if (marker->height == 0)
            text(json, "event", gt__event_name(marker->event));
        colour(json, marker->category);
        text(json, "id", marker->id);
        fputc('}', json);
    }
}

static void dump_crossings(const gt_picture *picture, FILE *json)
{
    fputs("],\n\"arrows\": [", json);
    for (size_t k = 0; k < picture->arrow_count; k++) {
        const gt_arrow *arrow = &picture->arrows[k];
        fprintf(json,
                "%s\n{\"from\": %d, \"to\": %d, \"x0\": %.3f, \"y0\": %.3f, \"x1\": %.3f, \"y1\": %.3f, "
                "\"width\": %.3f, "
                "\"count\": %zu",
                k ? "," : "", arrow->from, arrow->to, arrow->x0, arrow->y0, arrow->x1, arrow->y1, arrow->width,
                arrow->count);
        text(json, "event", gt__event_name(arrow->event));
        colour(json, arrow->category);
        fputc('}', json);
    }
    fputs("],\n\"signals\": [", json);
    for (size_t k = 0; k < picture->signal_count; k++) {
        const gt_signal_line *line = &picture->signals[k];
        fprintf(json, "%s\n{\"x\": %.3f, \"count\": %zu", k ? "," : "", line->x, line->count);
        text(json, "name", line->name);
        fputc('}', json);
    }
}

void gt__picture_dump(const gt_picture *picture, FILE *json)
{
    fprintf(json,
            "{\"width\": %.3f, \"height\": %.3f, \"font\": %.3f, \"left\": %.3f, \"right\": %.3f, \"top\": %.3f, "
            "\"bottom\": %.3f, \"begin\": %.9f, \"end\": %.9f",
            picture->width, picture->height, picture->font, picture->left, picture->right, picture->top,
            picture->bottom, picture->begin, picture->end);
    text(json, "title", picture->title);
    text(json, "axis", picture->axis);
    fputs(",\n\"lanes\": [", json);
    dump_lanes(picture, json);
    fputs("],\n\"bands\": [", json);
    dump_bands(picture, json);
    fputs("],\n\"bars\": [", json);
    dump_boxes(picture, json);
    fputs("],\n\"notes\": [", json);
    for (size_t k = 0; k < picture->note_count; k++) {
        const gt_note *note = &picture->notes[k];
        fprintf(json, "%s\n{\"lane\": %d, \"x\": %.3f, \"y\": %.3f", k ? "," : "", note->lane, note->x, note->y);
        text(json, "text", note->text);
        fputc('}', json);
    }
    fputs("],\n\"markers\": [", json);
    dump_markers(picture, json);
    dump_crossings(picture, json);
    fputs("],\n\"ticks\": [", json);
    for (size_t k = 0; k < picture->tick_count; k++)
        fprintf(json, "%s\n{\"x\": %.3f, \"text\": \"%s\"}", k ? "," : "", picture->ticks[k].x,
                picture->ticks[k].text);
    fputs("],\n\"legend\": [", json);
    for (size_t k = 0; k < picture->legend_count; k++) {
        const gt_legend_item *item = &picture->legend[k];
        fprintf(json, "%s\n{\"x\": %.3f, \"y\": %.3f", k ? "," : "", item->x, item->y);
        text(json, "text", item->text);
        if (item->kind == GT_LEGEND_CATEGORY)
            colour(json, item->which);
        fputc('}', json);
    }
    fputs("]}\n", json);
}
