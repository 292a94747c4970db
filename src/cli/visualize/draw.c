/*
 * cli/visualize/draw.c: draws a gt_picture with Cairo: PNG, SVG or PDF. Last stage of `gt visualize`.
 *
 * cli/visualize/layout.c decides all positions.
 */
#include <cairo-pdf.h>
#include <cairo-svg.h>
#include <cairo.h>
#include <math.h>
#include <string.h>

#include "cli/visualize/visualize.h"

enum { MAX_PIXELS = 32767 }; /* of a side: Cairo's own limit */

static const uint32_t INK = 0x222222, FAINT = 0x888888, GRID = 0xe4e4e4, BAND = 0xf6f7f9, RED = 0xe02020,
                      MANY = 0x6b7688, NUMBER = 0xb4bcc8;

static void ink(cairo_t *cairo, uint32_t rgb, double alpha)
{
    cairo_set_source_rgba(cairo, (rgb >> 16 & 255) / 255.0, (rgb >> 8 & 255) / 255.0, (rgb & 255) / 255.0, alpha);
}

static uint32_t colour(unsigned category)
{
    return gt__category_table[category].rgb;
}

/* `anchor`: 0: the text begins at x, 0.5: is centred there, 1: ends there. y: the middle of the letters. */
static void write_text(cairo_t *cairo, const char *text, double x, double y, double size, double anchor, bool bold)
{
    cairo_text_extents_t extents;
    cairo_select_font_face(cairo, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, size);
    cairo_text_extents(cairo, text, &extents);
    cairo_move_to(cairo, x - anchor * extents.x_advance, y + 0.36 * size);
    cairo_show_text(cairo, text);
}

/* The same over other drawing: a pale outline separates the letters from lines behind them. */
static void write_over(cairo_t *cairo, const char *text, double x, double y, double size, double anchor,
                       uint32_t rgb)
{
    cairo_text_extents_t extents;
    cairo_select_font_face(cairo, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, size);
    cairo_text_extents(cairo, text, &extents);
    cairo_move_to(cairo, x - anchor * extents.x_advance, y + 0.36 * size);
    cairo_text_path(cairo, text);
    cairo_set_line_width(cairo, 0.35 * size);
    cairo_set_line_join(cairo, CAIRO_LINE_JOIN_ROUND);
    ink(cairo, 0xffffff, 0.85);
    cairo_stroke(cairo);
    cairo_set_line_join(cairo, CAIRO_LINE_JOIN_MITER);
    ink(cairo, rgb, 1);
    write_text(cairo, text, x, y, size, anchor, false);
}

/* ---- background --------------------------------------------------------------------------------------------- */

/* Time left out: a white strip between two wavy edges. */
static void draw_break(cairo_t *cairo, const gt_picture *picture, double x)
{
    double f = picture->font, half = 0.25 * f, step = 0.5 * f;
    int waves = (int)ceil((picture->bottom - picture->top + 0.8 * f) / step);
    cairo_new_path(cairo);
    for (int side = -1; side <= 1; side += 2)
        for (int k = 0; k <= waves; k++) {
            int row = side < 0 ? k : waves - k;
            cairo_line_to(cairo, x + side * half + (row % 2 ? 0.12 : -0.12) * f,
                          picture->top - 0.4 * f + row * step);
        }
    cairo_close_path(cairo);
    ink(cairo, 0xffffff, 1);
    cairo_fill_preserve(cairo);
    ink(cairo, FAINT, 1);
    cairo_set_line_width(cairo, 0.06 * f);
    cairo_stroke(cairo);
}

static void draw_frame(cairo_t *cairo, const gt_picture *picture)
{
    double f = picture->font;
    ink(cairo, 0xffffff, 1);
    cairo_paint(cairo);
    for (size_t k = 0; k < picture->lane_count; k++) {
        const gt_lane *lane = &picture->lanes[k];
        ink(cairo, k % 2 ? 0xffffff : BAND, 1);
        cairo_rectangle(cairo, picture->left, lane->top, picture->right - picture->left, lane->height);
        cairo_fill(cairo);
        ink(cairo, INK, 1);
        write_text(cairo, lane->name, picture->left - 0.8 * f, lane->top + 0.5 * lane->height, f, 1,
                   lane->kind == GT_PARTY_DISPATCHER);
    }
    cairo_set_line_width(cairo, 0.06 * f);
    for (size_t k = 0; k < picture->tick_count; k++) {
        const gt_tick *tick = &picture->ticks[k];
        ink(cairo, GRID, 1);
        cairo_move_to(cairo, tick->x, picture->top);
        cairo_line_to(cairo, tick->x, picture->bottom + 0.4 * f);
        cairo_stroke(cairo);
        ink(cairo, INK, 1);
        write_text(cairo, tick->text, tick->x, picture->bottom + 1.2 * f, 0.9 * f, 0.5, false);
    }
    ink(cairo, FAINT, 1);
    cairo_rectangle(cairo, picture->left, picture->top, picture->right - picture->left,
                    picture->bottom - picture->top);
    cairo_stroke(cairo);
    for (int k = 1; k < picture->stretch_count; k++)
        draw_break(cairo, picture, picture->stretches[k].x - 0.5 * GT_BREAK_WIDTH * f);
    ink(cairo, INK, 1);
    write_text(cairo, picture->axis, 0.5 * (picture->left + picture->right), picture->bottom + 2.8 * f, f, 0.5,
               false);
    ink(cairo, FAINT, 1);
    write_text(cairo, picture->title, picture->right, 1.3 * f, 0.9 * f, 1, false);
}

/* ---- bars and arrows ---------------------------------------------------------------------------------------- */

/* Dark text on light colours, light on dark ones. */
static uint32_t contrast(uint32_t rgb)
{
    unsigned light = 299 * (rgb >> 16 & 255) + 587 * (rgb >> 8 & 255) + 114 * (rgb & 255);
    return light > 150 * 1000 ? INK : 0xffffff;
}

static void draw_box(cairo_t *cairo, const gt_picture *picture, const gt_box *box)
{
    double f = picture->font;
    cairo_rectangle(cairo, box->x, box->y, box->width, box->height);
    ink(cairo, colour(box->category), box->waiting ? 0.3 : 1);
    cairo_fill(cairo);
    if (!box->aggregated && box->width > 0.5 * f) {
        cairo_set_line_width(cairo, 0.05 * f);
        ink(cairo, box->waiting ? colour(box->category) : 0xffffff, 0.9);
        cairo_rectangle(cairo, box->x, box->y, box->width, box->height);
        cairo_stroke(cairo);
    }
    if (box->failed) {
        cairo_set_line_width(cairo, 0.16 * f);
        ink(cairo, RED, 1);
        cairo_rectangle(cairo, box->x, box->y, box->width, box->height);
        cairo_stroke(cairo);
    }
    ink(cairo, box->waiting ? INK : contrast(colour(box->category)), 1);
    double middle = box->x + 0.5 * box->width;
    if (*box->label)
        write_text(cairo, box->label, middle, box->y + 0.5 * box->height, 0.9 * f, 0.5, false);
    if (*box->id)
        write_over(cairo, box->id, middle, box->y + box->height + 0.55 * f, 0.75 * f, 0.5, FAINT);
}

static void draw_arrow(cairo_t *cairo, const gt_picture *picture, const gt_arrow *arrow)
{
    double f = picture->font, angle = atan2(arrow->y1 - arrow->y0, arrow->x1 - arrow->x0);
    double head = 0.45 * f + 1.2 * arrow->width;
    ink(cairo, arrow->count > 1 ? MANY : colour(arrow->category), arrow->count > 1 ? 0.4 : 0.6);
    cairo_set_line_width(cairo, arrow->width);
    cairo_move_to(cairo, arrow->x0, arrow->y0);
    cairo_line_to(cairo, arrow->x1 - 0.7 * head * cos(angle), arrow->y1 - 0.7 * head * sin(angle));
    cairo_stroke(cairo);
    cairo_move_to(cairo, arrow->x1, arrow->y1);
    for (int side = -1; side <= 1; side += 2)
        cairo_line_to(cairo, arrow->x1 - head * cos(angle + 0.38 * side),
                      arrow->y1 - head * sin(angle + 0.38 * side));
    cairo_close_path(cairo);
    cairo_fill(cairo);
}

/* ---- markers ------------------------------------------------------------------------------------------------ */

static void star(cairo_t *cairo, double x, double y, double r)
{
    for (int k = 0; k < 10; k++) {
        double radius = k % 2 ? 0.45 * r : r, angle = -M_PI / 2 + k * M_PI / 5;
        cairo_line_to(cairo, x + radius * cos(angle), y + radius * sin(angle));
    }
    cairo_close_path(cairo);
}

/* A triangle that points along `angle`. */
static void triangle(cairo_t *cairo, double x, double y, double r, double angle)
{
    for (int k = 0; k < 3; k++)
        cairo_line_to(cairo, x + 1.15 * r * cos(angle + k * 2 * M_PI / 3),
                      y + 1.15 * r * sin(angle + k * 2 * M_PI / 3));
    cairo_close_path(cairo);
}

static void shape(cairo_t *cairo, gt_event event, double x, double y, double r)
{
    cairo_new_path(cairo);
    switch (event) {
    case GT_EVENT_SEND:
        cairo_rectangle(cairo, x - 0.85 * r, y - 0.85 * r, 1.7 * r, 1.7 * r);
        break;
    case GT_EVENT_WORKER_SEND:
        triangle(cairo, x, y, r, 0);
        break;
    case GT_EVENT_WORKER_RECV:
        triangle(cairo, x, y, r, M_PI);
        break;
    case GT_EVENT_CONNECT:
        triangle(cairo, x, y, r, -M_PI / 2);
        break;
    case GT_EVENT_DISCONNECT:
        triangle(cairo, x, y, r, M_PI / 2);
        break;
    case GT_EVENT_SIGNAL:
        star(cairo, x, y, 1.2 * r);
        break;
    case GT_EVENT_ERROR:
        for (int k = 0; k < 12; k++) { /* a cross */
            static const double corner[12][2] = {{-1, -.4}, {-.4, -1}, {0, -.6}, {.4, -1}, {1, -.4}, {.6, 0},
                                                 {1, .4},   {.4, 1},   {0, .6},  {-.4, 1}, {-1, .4}, {-.6, 0}};
            cairo_line_to(cairo, x + 1.2 * r * corner[k][0], y + 1.2 * r * corner[k][1]);
        }
        cairo_close_path(cairo);
        break;
    default:
        cairo_arc(cairo, x, y, r, 0, 2 * M_PI);
    }
}

static uint32_t marker_colour(gt_event event, unsigned category)
{
    return event == GT_EVENT_ERROR || event == GT_EVENT_SIGNAL ? RED
           : event >= GT_EVENT_CONNECT                         ? INK
                                                               : colour(category);
}

static void draw_marker(cairo_t *cairo, const gt_picture *picture, const gt_marker *marker)
{
    const gt_lane *lane = &picture->lanes[marker->lane];
    double f = picture->font;
    if (marker->height > 0) {
        /* A worker's bars already show the category by colour: draw the number in a neutral one. */
        ink(cairo, lane->kind == GT_PARTY_WORKER ? NUMBER : colour(marker->category), 1);
        cairo_rectangle(cairo, marker->x - 0.9 * marker->radius, marker->y - marker->height, 1.8 * marker->radius,
                        marker->height);
        cairo_fill(cairo);
    } else {
        shape(cairo, marker->event, marker->x, marker->y, marker->radius);
        ink(cairo, marker_colour(marker->event, marker->category), 1);
        cairo_fill_preserve(cairo);
        cairo_set_line_width(cairo, 0.06 * f);
        ink(cairo, marker->failed ? RED : 0xffffff, 1);
        cairo_stroke(cairo);
    }
    if (*marker->id) {
        double least = picture->left + 0.5 * gt__text_width(marker->id, 0.75 * f) + 0.3 * f;
        write_over(cairo, marker->id, fmax(marker->x, least), lane->top + 3.15 * f, 0.75 * f, 0.5, 0x555555);
    }
}

/* ---- signals and legend ------------------------------------------------------------------------------------- */

static void draw_signal(cairo_t *cairo, const gt_picture *picture, const gt_signal_line *line)
{
    double f = picture->font;
    bool many = picture->signal_count > 12;
    ink(cairo, RED, many ? 0.45 : 0.85);
    cairo_set_line_width(cairo, many ? 0.07 * f : 0.1 * f);
    cairo_move_to(cairo, line->x, line->label_y - 0.4 * f);
    cairo_line_to(cairo, line->x, picture->bottom);
    cairo_stroke(cairo);
    if (!*line->name)
        return;
    char text[96];
    snprintf(text, sizeof text, line->joined ? "%s" : "%s ×%zu", line->name, line->count);
    ink(cairo, RED, 1);
    shape(cairo, GT_EVENT_SIGNAL, line->x, line->label_y, 0.36 * f);
    cairo_fill(cairo);
    write_text(cairo, text, line->label_x + 0.35 * f, line->label_y, 0.85 * f, 0, false);
}

static void draw_legend_item(cairo_t *cairo, const gt_picture *picture, const gt_legend_item *item)
{
    double f = picture->font;
    switch (item->kind) {
    case GT_LEGEND_CATEGORY:
    case GT_LEGEND_WAITING:
        ink(cairo, item->kind == GT_LEGEND_WAITING ? colour(GT_CATEGORY_GET_DATA) : colour(item->which),
            item->kind == GT_LEGEND_WAITING ? 0.3 : 1);
        cairo_rectangle(cairo, item->x, item->y - 0.5 * f, 1.1 * f, f);
        cairo_fill(cairo);
        break;
    case GT_LEGEND_EVENT:
        shape(cairo, item->which, item->x + 0.55 * f, item->y, 0.42 * f);
        ink(cairo, item->which >= GT_EVENT_SIGNAL ? RED : 0x555555, 1);
        cairo_fill(cairo);
        break;
    case GT_LEGEND_HEAP:
        for (int k = 0; k < 4; k++) {
            static const double heights[] = {0.4, 0.9, 0.65, 1};
            ink(cairo, 0x777777, 1);
            cairo_rectangle(cairo, item->x + 0.28 * f * k, item->y + (0.5 - heights[k]) * f, 0.25 * f,
                            heights[k] * f);
            cairo_fill(cairo);
        }
        break;
    }
    ink(cairo, INK, 1);
    write_text(cairo, item->text, item->x + 1.5 * f, item->y, 0.9 * f, 0, false);
}

/* ---- files -------------------------------------------------------------------------------------------------- */

static void draw_all(cairo_t *cairo, const gt_picture *picture)
{
    draw_frame(cairo, picture);
    cairo_save(cairo);
    for (size_t k = 0; k < picture->arrow_count; k++)
        draw_arrow(cairo, picture, &picture->arrows[k]);
    for (size_t k = 0; k < picture->box_count; k++)
        draw_box(cairo, picture, &picture->boxes[k]);
    for (size_t k = 0; k < picture->note_count; k++)
        write_over(cairo, picture->notes[k].text, picture->notes[k].x, picture->notes[k].y, 0.8 * picture->font, 0,
                   INK);
    for (size_t k = 0; k < picture->signal_count; k++)
        draw_signal(cairo, picture, &picture->signals[k]);
    for (size_t k = 0; k < picture->marker_count; k++)
        draw_marker(cairo, picture, &picture->markers[k]);
    cairo_restore(cairo);
    for (size_t k = 0; k < picture->legend_count; k++)
        draw_legend_item(cairo, picture, &picture->legend[k]);
}

gt_err gt__picture_draw(const gt_picture *picture, gt_picture_format format, double dpi, const char *path,
                        int *width, int *height)
{
    double scale = format == GT_PICTURE_PNG ? dpi / 72 : 1;
    double across = ceil(picture->width * scale), down = ceil(picture->height * scale);
    if (across > MAX_PIXELS || down > MAX_PIXELS)
        return gt__fail(GT_ERR_VALUE, "%.0f x %.0f pixels exceed the limit of %d a side; use a lower --dpi",
                        across, down, MAX_PIXELS);
    *width = (int)across;
    *height = (int)down;
    cairo_surface_t *surface =
        format == GT_PICTURE_SVG   ? cairo_svg_surface_create(path, picture->width, picture->height)
        : format == GT_PICTURE_PDF ? cairo_pdf_surface_create(path, picture->width, picture->height)
                                   : cairo_image_surface_create(CAIRO_FORMAT_RGB24, *width, *height);
    cairo_t *cairo = cairo_create(surface);
    cairo_scale(cairo, scale, scale);
    draw_all(cairo, picture);
    cairo_status_t status = cairo_status(cairo);
    cairo_destroy(cairo);
    if (status == CAIRO_STATUS_SUCCESS && format == GT_PICTURE_PNG)
        status = cairo_surface_write_to_png(surface, path);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        return GT_OK;
    return gt__fail(GT_ERR_VALUE, "cannot write %s: %s", path, cairo_status_to_string(status));
}
