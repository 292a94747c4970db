/*
 * cli/visualize/draw.c: draws a gt_picture on a canvas (cli/visualize/canvas.h): PNG, SVG or PDF. Last stage of `gt visualize`.
 *
 * cli/visualize/layout.c decides all positions.
 */
#include <math.h>
#include <string.h>

#include "cli/visualize/canvas.h"

enum { MAX_PIXELS = 32767 }; /* of a side: Cairo's own limit */

static const uint32_t INK = 0x222222, FAINT = 0x888888, GRID = 0xe4e4e4, BAND = 0xf6f7f9, RED = 0xe02020,
                      MANY = 0x6b7688, NUMBER = 0xb4bcc8;

/* ---- the canvas's functions, in a shorter way --------------------------------------------------------------- */

static gt_paint filled(uint32_t rgb, double alpha)
{
    return (gt_paint){.fill = rgb, .fill_alpha = alpha};
}

static gt_paint lined(uint32_t rgb, double alpha, double width)
{
    return (gt_paint){.line = rgb, .line_alpha = alpha, .line_width = width};
}

static void rectangle(gt_canvas *canvas, double x, double y, double width, double height, gt_paint paint)
{
    canvas->ops->rectangle(canvas, x, y, width, height, &paint);
}

static void polygon(gt_canvas *canvas, const gt_point *points, unsigned count, gt_paint paint)
{
    canvas->ops->polygon(canvas, points, count, &paint);
}

static void line(gt_canvas *canvas, double x0, double y0, double x1, double y1, gt_paint paint)
{
    canvas->ops->line(canvas, (gt_point){.x = x0, .y = y0}, (gt_point){.x = x1, .y = y1}, &paint);
}

static void write_text(gt_canvas *canvas, const char *text, double x, double y, double size, double anchor,
                       uint32_t rgb)
{
    canvas->ops->text(canvas, text, &(gt_lettering){.x = x, .y = y, .size = size, .anchor = anchor, .rgb = rgb});
}

static void write_over(gt_canvas *canvas, const char *text, double x, double y, double size, double anchor,
                       uint32_t rgb)
{
    canvas->ops->text(canvas, text,
                      &(gt_lettering){.x = x, .y = y, .size = size, .anchor = anchor, .rgb = rgb, .over = true});
}

static uint32_t colour(unsigned category)
{
    return gt__category_table[category].rgb;
}

/* ---- background --------------------------------------------------------------------------------------------- */

enum { MOST_WAVES = 2048 };

/* Time left out: a white strip between two wavy edges. */
static void draw_break(gt_canvas *canvas, const gt_picture *picture, double x)
{
    gt_point points[2 * (MOST_WAVES + 1)];
    unsigned count = 0;
    double f = picture->font, half = 0.25 * f, step = 0.5 * f;
    int waves = (int)fmin(ceil((picture->bottom - picture->top + 0.8 * f) / step), MOST_WAVES);
    for (int side = -1; side <= 1; side += 2)
        for (int k = 0; k <= waves; k++) {
            int row = side < 0 ? k : waves - k;
            points[count++] = (gt_point){.x = x + side * half + (row % 2 ? 0.12 : -0.12) * f,
                                         .y = picture->top - 0.4 * f + row * step};
        }
    gt_paint paint = {.fill = 0xffffff, .fill_alpha = 1, .line = FAINT, .line_alpha = 1, .line_width = 0.06 * f};
    polygon(canvas, points, count, paint);
}

static void draw_lane_name(gt_canvas *canvas, const gt_picture *picture, const gt_lane *lane)
{
    double f = picture->font, x = picture->left - 0.8 * f, y = lane->top + 0.5 * lane->height;
    bool two = *lane->note && lane->height > 2.4 * f;
    gt_lettering how = {.x = x,
                        .y = two ? y - 0.55 * f : y,
                        .size = f,
                        .anchor = 1,
                        .rgb = INK,
                        .bold = lane->kind == GT_PARTY_DISPATCHER};
    canvas->ops->text(canvas, lane->name, &how);
    if (two)
        write_text(canvas, lane->note, x, y + 0.65 * f, 0.8 * f, 1, FAINT);
}

static void draw_frame(gt_canvas *canvas, const gt_picture *picture)
{
    double f = picture->font, across = picture->right - picture->left;
    for (size_t k = 0; k < picture->lane_count; k++) {
        const gt_lane *lane = &picture->lanes[k];
        rectangle(canvas, picture->left, lane->top, across, lane->height, filled(k % 2 ? 0xffffff : BAND, 1));
        draw_lane_name(canvas, picture, lane);
    }
    for (size_t k = 0; k < picture->tick_count; k++) {
        const gt_tick *tick = &picture->ticks[k];
        line(canvas, tick->x, picture->top, tick->x, picture->bottom + 0.4 * f, lined(GRID, 1, 0.06 * f));
        write_text(canvas, tick->text, tick->x, picture->bottom + 1.2 * f, 0.9 * f, 0.5, INK);
    }
    rectangle(canvas, picture->left, picture->top, across, picture->bottom - picture->top,
              lined(FAINT, 1, 0.06 * f));
    for (int k = 1; k < picture->stretch_count; k++)
        draw_break(canvas, picture, picture->stretches[k].x - 0.5 * GT_BREAK_WIDTH * f);
    write_text(canvas, picture->axis, 0.5 * (picture->left + picture->right), picture->bottom + 2.8 * f, f, 0.5,
               INK);
    write_text(canvas, picture->title, picture->right, 1.3 * f, 0.9 * f, 1, FAINT);
}

/* ---- bands, bars and arrows --------------------------------------------------------------------------------- */

/* Dark text on light colours, light on dark ones. */
static uint32_t contrast(uint32_t rgb)
{
    unsigned light = 299 * (rgb >> 16 & 255) + 587 * (rgb >> 8 & 255) + 114 * (rgb & 255);
    return light > 150 * 1000 ? INK : 0xffffff;
}

static void draw_band(gt_canvas *canvas, const gt_picture *picture, const gt_band *band)
{
    const gt_lane *lane = &picture->lanes[band->lane];
    double f = picture->font;
    uint32_t rgb = gt__scope_colour(band->scope);
    char name[120], title[256], took[32];
    snprintf(name, sizeof name, "%s", picture->scopes[band->scope].name);
    gt__text_whole(name);
    snprintf(title, sizeof title, "scope %s, %zu operation%s, %s", name, band->operations,
             band->operations == 1 ? "" : "s", gt__duration_text(band->end - band->start, took, sizeof took));
    canvas->ops->begin(canvas, title);
    rectangle(canvas, band->x, lane->top, band->width, lane->height, filled(rgb, 0.16));
    rectangle(canvas, band->x, lane->band_top, band->width, lane->band_height, filled(rgb, 1));
    if (*band->label)
        write_text(canvas, band->label, band->x + 0.5 * band->width, lane->band_top + 0.5 * lane->band_height,
                   0.8 * f, 0.5, contrast(rgb));
    canvas->ops->end(canvas);
}

static void draw_box(gt_canvas *canvas, const gt_picture *picture, const gt_box *box)
{
    double f = picture->font, middle = box->x + 0.5 * box->width;
    uint32_t rgb = colour(box->category);
    gt_paint paint = filled(rgb, box->waiting ? 0.3 : 1);
    if (!box->aggregated && box->width > 0.5 * f) {
        paint.line = box->waiting ? rgb : 0xffffff;
        paint.line_alpha = 0.9;
        paint.line_width = 0.05 * f;
    }
    if (box->failed)
        paint = (gt_paint){
            .fill = rgb, .fill_alpha = paint.fill_alpha, .line = RED, .line_alpha = 1, .line_width = 0.16 * f};
    canvas->ops->begin(canvas, box->title);
    rectangle(canvas, box->x, box->y, box->width, box->height, paint);
    if (*box->label)
        write_text(canvas, box->label, middle, box->y + 0.5 * box->height, 0.9 * f, 0.5,
                   box->waiting ? INK : contrast(rgb));
    if (*box->id)
        write_over(canvas, box->id, middle, box->y + box->height + 0.55 * f, 0.75 * f, 0.5, FAINT);
    canvas->ops->end(canvas);
}

static void draw_arrow(gt_canvas *canvas, const gt_picture *picture, const gt_arrow *arrow)
{
    double f = picture->font, angle = atan2(arrow->y1 - arrow->y0, arrow->x1 - arrow->x0);
    double head = 0.45 * f + 1.2 * arrow->width, alpha = arrow->count > 1 ? 0.4 : 0.6;
    uint32_t rgb = arrow->count > 1 ? MANY : colour(arrow->category);
    line(canvas, arrow->x0, arrow->y0, arrow->x1 - 0.7 * head * cos(angle), arrow->y1 - 0.7 * head * sin(angle),
         lined(rgb, alpha, arrow->width));
    gt_point points[3] = {{.x = arrow->x1, .y = arrow->y1}};
    for (int side = 0; side < 2; side++)
        points[1 + side] = (gt_point){.x = arrow->x1 - head * cos(angle + (side ? 0.38 : -0.38)),
                                      .y = arrow->y1 - head * sin(angle + (side ? 0.38 : -0.38))};
    polygon(canvas, points, 3, filled(rgb, alpha));
}

/* ---- markers ------------------------------------------------------------------------------------------------ */

static void star(gt_canvas *canvas, double x, double y, double r, gt_paint paint)
{
    gt_point points[10];
    for (int k = 0; k < 10; k++) {
        double radius = k % 2 ? 0.45 * r : r, angle = -M_PI / 2 + k * M_PI / 5;
        points[k] = (gt_point){.x = x + radius * cos(angle), .y = y + radius * sin(angle)};
    }
    polygon(canvas, points, 10, paint);
}

/* A triangle that points along `angle`. */
static void triangle(gt_canvas *canvas, double x, double y, double r, double angle, gt_paint paint)
{
    gt_point points[3];
    for (int k = 0; k < 3; k++)
        points[k] = (gt_point){.x = x + 1.15 * r * cos(angle + k * 2 * M_PI / 3),
                               .y = y + 1.15 * r * sin(angle + k * 2 * M_PI / 3)};
    polygon(canvas, points, 3, paint);
}

static void cross(gt_canvas *canvas, double x, double y, double r, gt_paint paint)
{
    static const gt_point corner[12] = {{-1, -.4}, {-.4, -1}, {0, -.6}, {.4, -1}, {1, -.4}, {.6, 0},
                                        {1, .4},   {.4, 1},   {0, .6},  {-.4, 1}, {-1, .4}, {-.6, 0}};
    gt_point points[12];
    for (int k = 0; k < 12; k++)
        points[k] = (gt_point){.x = x + 1.2 * r * corner[k].x, .y = y + 1.2 * r * corner[k].y};
    polygon(canvas, points, 12, paint);
}

static void shape(gt_canvas *canvas, gt_event event, double x, double y, double r, gt_paint paint)
{
    switch (event) {
    case GT_EVENT_SEND:
        rectangle(canvas, x - 0.85 * r, y - 0.85 * r, 1.7 * r, 1.7 * r, paint);
        break;
    case GT_EVENT_WORKER_SEND:
        triangle(canvas, x, y, r, 0, paint);
        break;
    case GT_EVENT_WORKER_RECV:
        triangle(canvas, x, y, r, M_PI, paint);
        break;
    case GT_EVENT_CONNECT:
        triangle(canvas, x, y, r, -M_PI / 2, paint);
        break;
    case GT_EVENT_DISCONNECT:
        triangle(canvas, x, y, r, M_PI / 2, paint);
        break;
    case GT_EVENT_SIGNAL:
        star(canvas, x, y, 1.2 * r, paint);
        break;
    case GT_EVENT_ERROR:
        cross(canvas, x, y, r, paint);
        break;
    default:
        canvas->ops->circle(canvas, x, y, r, &paint);
    }
}

static uint32_t marker_colour(gt_event event, unsigned category)
{
    return event == GT_EVENT_ERROR || event == GT_EVENT_SIGNAL ? RED
           : event >= GT_EVENT_CONNECT                         ? INK
                                                               : colour(category);
}

static void draw_marker(gt_canvas *canvas, const gt_picture *picture, const gt_marker *marker)
{
    const gt_lane *lane = &picture->lanes[marker->lane];
    double f = picture->font;
    if (marker->height > 0) {
        /* A worker's bars already show the category by colour: draw the number in a neutral one. */
        uint32_t rgb = lane->kind == GT_PARTY_WORKER ? NUMBER : colour(marker->category);
        rectangle(canvas, marker->x - 0.9 * marker->radius, marker->y - marker->height, 1.8 * marker->radius,
                  marker->height, filled(rgb, 1));
    } else {
        gt_paint paint = filled(marker_colour(marker->event, marker->category), 1);
        paint.line = marker->failed ? RED : 0xffffff;
        paint.line_alpha = 1;
        paint.line_width = 0.06 * f;
        shape(canvas, marker->event, marker->x, marker->y, marker->radius, paint);
    }
    if (*marker->id) {
        double least = picture->left + 0.5 * gt__text_width(marker->id, 0.75 * f) + 0.3 * f;
        double y = lane->bar_top + lane->bar_height + 0.45 * f;
        write_over(canvas, marker->id, fmax(marker->x, least), y, 0.75 * f, 0.5, 0x555555);
    }
}

/* ---- signals and legend ------------------------------------------------------------------------------------- */

static void draw_signal(gt_canvas *canvas, const gt_picture *picture, const gt_signal_line *signal)
{
    double f = picture->font;
    bool many = picture->signal_count > 12;
    line(canvas, signal->x, signal->label_y - 0.4 * f, signal->x, picture->bottom,
         lined(RED, many ? 0.45 : 0.85, many ? 0.07 * f : 0.1 * f));
    if (!*signal->name)
        return;
    char text[96];
    snprintf(text, sizeof text, signal->joined ? "%s" : "%s ×%zu", signal->name, signal->count);
    shape(canvas, GT_EVENT_SIGNAL, signal->x, signal->label_y, 0.36 * f, filled(RED, 1));
    write_text(canvas, text, signal->label_x + 0.35 * f, signal->label_y, 0.85 * f, 0, RED);
}

static void draw_legend_item(gt_canvas *canvas, const gt_picture *picture, const gt_legend_item *item)
{
    double f = picture->font, x = item->x, y = item->y;
    switch (item->kind) {
    case GT_LEGEND_CATEGORY:
        rectangle(canvas, x, y - 0.5 * f, 1.1 * f, f, filled(colour(item->which), 1));
        break;
    case GT_LEGEND_WAITING:
        rectangle(canvas, x, y - 0.5 * f, 1.1 * f, f, filled(colour(GT_CATEGORY_GET_DATA), 0.3));
        break;
    case GT_LEGEND_SCOPE:
        rectangle(canvas, x, y - 0.5 * f, 1.1 * f, f, filled(gt__scope_colour(item->which), 0.16));
        rectangle(canvas, x, y - 0.5 * f, 1.1 * f, 0.5 * f, filled(gt__scope_colour(item->which), 1));
        break;
    case GT_LEGEND_EVENT:
        shape(canvas, item->which, x + 0.55 * f, y, 0.42 * f,
              filled(item->which >= GT_EVENT_SIGNAL ? RED : 0x555555, 1));
        break;
    case GT_LEGEND_HEAP:
        for (int k = 0; k < 4; k++) {
            static const double heights[] = {0.4, 0.9, 0.65, 1};
            rectangle(canvas, x + 0.28 * f * k, y + (0.5 - heights[k]) * f, 0.25 * f, heights[k] * f,
                      filled(0x777777, 1));
        }
        break;
    }
    write_text(canvas, item->text, x + 1.5 * f, y, 0.9 * f, 0, INK);
}

/* ---- files -------------------------------------------------------------------------------------------------- */

static void draw_all(gt_canvas *canvas, const gt_picture *picture)
{
    draw_frame(canvas, picture);
    for (size_t k = 0; k < picture->band_count; k++)
        draw_band(canvas, picture, &picture->bands[k]);
    for (size_t k = 0; k < picture->arrow_count; k++)
        draw_arrow(canvas, picture, &picture->arrows[k]);
    for (size_t k = 0; k < picture->box_count; k++)
        draw_box(canvas, picture, &picture->boxes[k]);
    for (size_t k = 0; k < picture->note_count; k++)
        write_over(canvas, picture->notes[k].text, picture->notes[k].x, picture->notes[k].y, 0.8 * picture->font,
                   0, INK);
    for (size_t k = 0; k < picture->signal_count; k++)
        draw_signal(canvas, picture, &picture->signals[k]);
    for (size_t k = 0; k < picture->marker_count; k++)
        draw_marker(canvas, picture, &picture->markers[k]);
    for (size_t k = 0; k < picture->legend_count; k++)
        draw_legend_item(canvas, picture, &picture->legend[k]);
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
    gt_canvas *canvas;
    GT_TRY(format == GT_PICTURE_SVG
               ? gt__canvas_svg(path, picture->width, picture->height, &canvas)
               : gt__canvas_cairo(format, path, picture->width, picture->height, scale, &canvas));
    draw_all(canvas, picture);
    return canvas->ops->finish(canvas);
}
