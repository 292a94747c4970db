/* cli/visualize/canvas_cairo.c: PNG and PDF, with Cairo. See canvas.h. */
#include "cli/visualize/canvas.h"

#include <cairo-pdf.h>
#include <cairo.h>
#include <math.h>
#include <stdlib.h>

typedef struct cairo_canvas {
    gt_canvas base;
    gt_picture_format format;
    cairo_surface_t *surface;
    cairo_t *cairo;
} cairo_canvas;

static cairo_t *cairo_of(gt_canvas *canvas)
{
    return ((cairo_canvas *)canvas)->cairo;
}

static void ink(cairo_t *cairo, uint32_t rgb, double alpha)
{
    cairo_set_source_rgba(cairo, (rgb >> 16 & 255) / 255.0, (rgb >> 8 & 255) / 255.0, (rgb & 255) / 255.0, alpha);
}

/* Fill the path, draw its line, forget it. */
static void paint_path(cairo_t *cairo, const gt_paint *paint)
{
    if (paint->fill_alpha > 0) {
        ink(cairo, paint->fill, paint->fill_alpha);
        cairo_fill_preserve(cairo);
    }
    if (paint->line_alpha > 0) {
        ink(cairo, paint->line, paint->line_alpha);
        cairo_set_line_width(cairo, paint->line_width);
        cairo_stroke_preserve(cairo);
    }
    cairo_new_path(cairo);
}

static void draw_rectangle(gt_canvas *canvas, double x, double y, double width, double height,
                           const gt_paint *paint)
{
    cairo_rectangle(cairo_of(canvas), x, y, width, height);
    paint_path(cairo_of(canvas), paint);
}

static void draw_polygon(gt_canvas *canvas, const gt_point *points, unsigned count, const gt_paint *paint)
{
    for (unsigned k = 0; k < count; k++)
        cairo_line_to(cairo_of(canvas), points[k].x, points[k].y);
    cairo_close_path(cairo_of(canvas));
    paint_path(cairo_of(canvas), paint);
}

static void draw_circle(gt_canvas *canvas, double x, double y, double radius, const gt_paint *paint)
{
    cairo_arc(cairo_of(canvas), x, y, radius, 0, 2 * M_PI);
    paint_path(cairo_of(canvas), paint);
}

static void draw_line(gt_canvas *canvas, gt_point from, gt_point to, const gt_paint *paint)
{
    cairo_move_to(cairo_of(canvas), from.x, from.y);
    cairo_line_to(cairo_of(canvas), to.x, to.y);
    paint_path(cairo_of(canvas), paint);
}

static void draw_text(gt_canvas *canvas, const char *text, const gt_lettering *how)
{
    cairo_t *cairo = cairo_of(canvas);
    cairo_text_extents_t extents;
    cairo_select_font_face(cairo, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                           how->bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, how->size);
    cairo_text_extents(cairo, text, &extents);
    double x = how->x - how->anchor * extents.x_advance, y = how->y + 0.36 * how->size;
    if (how->over) {
        cairo_move_to(cairo, x, y);
        cairo_text_path(cairo, text);
        cairo_set_line_join(cairo, CAIRO_LINE_JOIN_ROUND);
        paint_path(cairo, &(gt_paint){.line = 0xffffff, .line_alpha = 0.85, .line_width = 0.35 * how->size});
        cairo_set_line_join(cairo, CAIRO_LINE_JOIN_MITER);
    }
    ink(cairo, how->rgb, 1);
    cairo_move_to(cairo, x, y);
    cairo_show_text(cairo, text);
    cairo_new_path(cairo);
}

/* Neither format has titles. */
static void begin(gt_canvas *canvas, const char *title)
{
    (void)canvas;
    (void)title;
}

static void end(gt_canvas *canvas)
{
    (void)canvas;
}

static gt_err finish(gt_canvas *canvas)
{
    cairo_canvas *c = (cairo_canvas *)canvas;
    cairo_status_t status = cairo_status(c->cairo);
    cairo_destroy(c->cairo);
    if (status == CAIRO_STATUS_SUCCESS && c->format == GT_PICTURE_PNG)
        status = cairo_surface_write_to_png(c->surface, canvas->path);
    cairo_surface_finish(c->surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(c->surface);
    cairo_surface_destroy(c->surface);
    gt_err err = status == CAIRO_STATUS_SUCCESS
                     ? GT_OK
                     : gt__fail(GT_ERR_VALUE, "cannot write %s: %s", canvas->path, cairo_status_to_string(status));
    free(c);
    return err;
}

gt_err gt__canvas_cairo(gt_picture_format format, const char *path, double width, double height, double scale,
                        gt_canvas **canvas)
{
    static const gt_canvas_ops ops = {.rectangle = draw_rectangle,
                                      .polygon = draw_polygon,
                                      .circle = draw_circle,
                                      .line = draw_line,
                                      .text = draw_text,
                                      .begin = begin,
                                      .end = end,
                                      .finish = finish};
    cairo_canvas *c = gt__zeroed(1, sizeof *c);
    *c = (cairo_canvas){.base = {.ops = &ops, .path = path}, .format = format};
    c->surface =
        format == GT_PICTURE_PDF
            ? cairo_pdf_surface_create(path, width, height)
            : cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(width * scale), (int)ceil(height * scale));
    c->cairo = cairo_create(c->surface);
    cairo_scale(c->cairo, scale, scale);
    ink(c->cairo, 0xffffff, 1);
    cairo_paint(c->cairo);
    *canvas = &c->base;
    return GT_OK;
}
