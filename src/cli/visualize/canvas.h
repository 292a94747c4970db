/*
 * cli/visualize/canvas.h: what draw.c draws on. canvas_cairo.c makes PNG and PDF of it, canvas_svg.c SVG whose text stays text and
 * whose parts have titles. Lengths are in points, y goes down.
 */
#ifndef GT_CLI_VISUALIZE_CANVAS_H
#define GT_CLI_VISUALIZE_CANVAS_H

#include "cli/visualize/visualize.h"

/* Colours are 0xrrggbb; alpha 0: not filled, or no line. */
typedef struct gt_paint {
    uint32_t fill, line;
    double fill_alpha, line_alpha, line_width;
} gt_paint;

typedef struct gt_point {
    double x, y;
} gt_point;

/* y: the middle of the letters. anchor 0: the text begins at x, 0.5: is centred there, 1: ends there. */
typedef struct gt_lettering {
    double x, y, size, anchor;
    uint32_t rgb;
    bool bold;
    bool over; /* a pale outline separates the letters from what is behind them */
} gt_lettering;

typedef struct gt_canvas gt_canvas;

typedef struct gt_canvas_ops {
    void (*rectangle)(gt_canvas *canvas, double x, double y, double width, double height, const gt_paint *paint);
    void (*polygon)(gt_canvas *canvas, const gt_point *points, unsigned count, const gt_paint *paint);
    void (*circle)(gt_canvas *canvas, double x, double y, double radius, const gt_paint *paint);
    void (*line)(gt_canvas *canvas, gt_point from, gt_point to, const gt_paint *paint);
    void (*text)(gt_canvas *canvas, const char *text, const gt_lettering *how);
    /* What is drawn between the two belongs together and is called `title`. */
    void (*begin)(gt_canvas *canvas, const char *title);
    void (*end)(gt_canvas *canvas);
    /* Write the file and free the canvas. */
    gt_err (*finish)(gt_canvas *canvas);
} gt_canvas_ops;

struct gt_canvas {
    const gt_canvas_ops *ops;
    const char *path; /* borrowed */
};

/* A white page. `scale`: pixels of a PNG per point. */
gt_err gt__canvas_cairo(gt_picture_format format, const char *path, double width, double height, double scale,
                        gt_canvas **canvas);
gt_err gt__canvas_svg(const char *path, double width, double height, gt_canvas **canvas);

#endif
