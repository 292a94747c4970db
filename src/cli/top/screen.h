/* cli/top/screen.h: what the pages of `gt top` are drawn with: screen.c. */
#ifndef GT_CLI_TOP_SCREEN_H
#define GT_CLI_TOP_SCREEN_H

#include <ncurses.h>

#include "cli/top/top.h"

/* Pairs of colours: a category's number plus one, and these. */
enum { GT_PAIR_HEADER = GT_CATEGORY_COUNT + 1, GT_PAIR_ERROR, GT_PAIR_CURSOR, GT_PAIR_BUSY, GT_PAIR_MEMORY };

enum { GT_LEAST_BAR = 8 };

/* A line of text over the whole width, in reverse video without colours. */
void gt__put_band(int y, int pair, const char *text);
/* Part of a text, in a band's colours (pair; 0: plain). */
void gt__put_part(int y, int x, int pair, const char *text, int length);
/* A run of cells of one category: its colour, with its name if that fits, or its letter. */
void gt__put_run(int y, int x, int length, int category);
void gt__put_bar(int y, int x, int width, const gt_top_worker *worker, bool used[GT_CATEGORY_COUNT]);
void gt__put_legend(int y, const bool used[GT_CATEGORY_COUNT]);
/* The graph of a history, the latest at the right; `full` fills the height, `per` measurements share a column. */
void gt__put_graph(int y, int x, int width, int height, int pair, const gt_history *history, double full,
                   unsigned per);
/* Columns of a graph so wide, each with its own measurements. */
int gt__graph_columns(int width);

/* pages.c */
void gt__draw_overview(const gt_top *top, gt_top_view *view, int y, int last, bool used[GT_CATEGORY_COUNT]);
void gt__draw_ops(const gt_top *top, int y, int last);
void gt__draw_help(int y);
/* Two graphs beside each other from `x` on, with titles: share of the time, and bytes. */
void gt__draw_graphs(int y, int x, int width, int height, const char *name, const gt_history *busy,
                     const gt_history *used, const gt_top_view *view);
/* client_page.c */
void gt__draw_client(const gt_top *top, const gt_top_detail *detail, gt_top_view *view, int y, int last);

#endif
