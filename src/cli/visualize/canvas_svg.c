/*
 * cli/visualize/canvas_svg.c: SVG whose text is text, to be searched and edited, and whose groups have titles, which browsers
 * show at the pointer. Cairo's own SVG has neither. See canvas.h.
 */
#include "cli/visualize/canvas.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct svg_canvas {
    gt_canvas base;
    FILE *file;
} svg_canvas;

static FILE *file_of(gt_canvas *canvas)
{
    return ((svg_canvas *)canvas)->file;
}

/* The text of a log is UTF-8 without control characters (parse.c). */
static void write_escaped(FILE *file, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '&':
            fputs("&amp;", file);
            break;
        default:
            fputc(*text, file);
        }
}

static void write_colour(FILE *file, const char *name, uint32_t rgb, double alpha)
{
    if (alpha <= 0) {
        fprintf(file, " %s=\"none\"", name);
        return;
    }
    fprintf(file, " %s=\"#%06x\"", name, (unsigned)rgb);
    if (alpha < 1)
        fprintf(file, " %s-opacity=\"%.2f\"", name, alpha);
}

/* The colours, and the end of the element. */
static void write_paint(FILE *file, const gt_paint *paint)
{
    write_colour(file, "fill", paint->fill, paint->fill_alpha);
    if (paint->line_alpha > 0) {
        write_colour(file, "stroke", paint->line, paint->line_alpha);
        fprintf(file, " stroke-width=\"%.2f\"", paint->line_width);
    }
    fputs("/>\n", file);
}

static void draw_rectangle(gt_canvas *canvas, double x, double y, double width, double height,
                           const gt_paint *paint)
{
    fprintf(file_of(canvas), "<rect x=\"%.3f\" y=\"%.3f\" width=\"%.3f\" height=\"%.3f\"", x, y, width, height);
    write_paint(file_of(canvas), paint);
}

static void draw_polygon(gt_canvas *canvas, const gt_point *points, unsigned count, const gt_paint *paint)
{
    fputs("<polygon points=\"", file_of(canvas));
    for (unsigned k = 0; k < count; k++)
        fprintf(file_of(canvas), "%s%.2f,%.2f", k ? " " : "", points[k].x, points[k].y);
    fputc('"', file_of(canvas));
    write_paint(file_of(canvas), paint);
}

static void draw_circle(gt_canvas *canvas, double x, double y, double radius, const gt_paint *paint)
{
    fprintf(file_of(canvas), "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%.2f\"", x, y, radius);
    write_paint(file_of(canvas), paint);
}

static void draw_line(gt_canvas *canvas, gt_point from, gt_point to, const gt_paint *paint)
{
    fprintf(file_of(canvas), "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"", from.x, from.y, to.x, to.y);
    write_paint(file_of(canvas), paint);
}

static void draw_text(gt_canvas *canvas, const char *text, const gt_lettering *how)
{
    FILE *file = file_of(canvas);
    fprintf(file, "<text x=\"%.2f\" y=\"%.2f\" font-size=\"%.2f\" fill=\"#%06x\"", how->x,
            how->y + 0.36 * how->size, how->size, (unsigned)how->rgb);
    if (how->anchor > 0)
        fprintf(file, " text-anchor=\"%s\"", how->anchor < 1 ? "middle" : "end");
    if (how->bold)
        fputs(" font-weight=\"bold\"", file);
    if (how->over)
        fprintf(file, " paint-order=\"stroke\" stroke=\"#ffffff\" stroke-opacity=\"0.85\" stroke-width=\"%.2f\"",
                0.35 * how->size);
    fputc('>', file);
    write_escaped(file, text);
    fputs("</text>\n", file);
}

static void begin(gt_canvas *canvas, const char *title)
{
    fputs("<g><title>", file_of(canvas));
    write_escaped(file_of(canvas), title);
    fputs("</title>\n", file_of(canvas));
}

static void end(gt_canvas *canvas)
{
    fputs("</g>\n", file_of(canvas));
}

static gt_err finish(gt_canvas *canvas)
{
    svg_canvas *c = (svg_canvas *)canvas;
    fputs("</svg>\n", c->file);
    bool failed = ferror(c->file);
    failed |= fclose(c->file) != 0;
    gt_err err = failed ? gt__fail(GT_ERR_VALUE, "cannot write %s: %s", canvas->path, strerror(errno)) : GT_OK;
    free(c);
    return err;
}

gt_err gt__canvas_svg(const char *path, double width, double height, gt_canvas **canvas)
{
    static const gt_canvas_ops ops = {.rectangle = draw_rectangle,
                                      .polygon = draw_polygon,
                                      .circle = draw_circle,
                                      .line = draw_line,
                                      .text = draw_text,
                                      .begin = begin,
                                      .end = end,
                                      .finish = finish};
    FILE *file = fopen(path, "we");
    if (!file)
        return gt__fail(GT_ERR_VALUE, "cannot write %s: %s", path, strerror(errno));
    svg_canvas *c = gt__zeroed(1, sizeof *c);
    *c = (svg_canvas){.base = {.ops = &ops, .path = path}, .file = file};
    fprintf(
        file,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.2fpt\" height=\"%.2fpt\" viewBox=\"0 0 %.2f %.2f\" "
        "font-family=\"DejaVu Sans, Verdana, sans-serif\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
        width, height, width, height);
    *canvas = &c->base;
    return GT_OK;
}
