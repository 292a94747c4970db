/* cli/top/client_page.c: the page of one client: its history, the lines that cost device time, its largest tensors. */
#include <math.h>
#include <string.h>

#include "cli/top/screen.h"

/* The end of a line's path: what people know it by. */
static void put_place(int y, int x, const char *place, const char *note)
{
    char text[256];
    snprintf(text, sizeof text, "%s%s", *place ? place : "?", note);
    int room = COLS - x, length = (int)strlen(text);
    if (room > 0)
        mvaddnstr(y, x, text + (length > room ? length - room : 0), room);
}

/* The first of `count` rows to show when the list was scrolled; how far it can be scrolled is noted in *scroll. */
static size_t first_row(size_t count, int rows, int *scroll)
{
    int most = (int)count - rows > 0 ? (int)count - rows : 0;
    *scroll = *scroll > most ? most : *scroll;
    return (size_t)*scroll;
}

static void put_rest(int y, size_t rest)
{
    if (rest)
        mvprintw(y, 0, "... and %zu more", rest);
}

static void draw_lines(const gt_top_detail *detail, int y, int last, int *scroll)
{
    enum { PLACE = 48 };
    char line[128], a[16], b[16], c[16];
    snprintf(line, sizeof line, "%9s %7s %9s %8s %8s   LINE", "SECONDS", "SHARE", "COUNT", "TENSORS", "BYTES");
    gt__put_band(y++, GT_PAIR_HEADER, line);
    int rows = last - y + 1 - (detail->line_count > (size_t)(last - y + 1));
    size_t k = first_row(detail->line_count, rows, scroll), end = k + (size_t)(rows > 0 ? rows : 0);
    for (; k < detail->line_count && k < end; k++) {
        const gt_top_line *row = &detail->lines[k];
        snprintf(line, sizeof line, "%9.3f %6.1f%% %9s %8s %8s", row->seconds,
                 detail->seconds > 0 ? 100 * row->seconds / detail->seconds : 0,
                 gt__short_number(row->count, false, a), gt__short_number(row->tensors, false, b),
                 gt__short_number(row->bytes, true, c));
        mvaddnstr(y, 0, line, COLS);
        put_place(y++, PLACE, row->line, row->path ? " (hot path)" : "");
    }
    put_rest(y, detail->line_count - k);
}

static void draw_tensors(const gt_top_detail *detail, int y, int last, int *scroll)
{
    int shape = COLS >= 120 ? 24 : 16, place = COLS >= 120 ? 26 : 0, at = 21 + shape + place;
    char line[256], a[16];
    snprintf(line, sizeof line, "%8s  %-10s %-*s%-*sLINE", "BYTES", "DTYPE", shape, "SHAPE", place,
             place ? "PLACE" : "");
    gt__put_band(y++, GT_PAIR_HEADER, line);
    int rows = last - y + 1 - (detail->largest_count > (size_t)(last - y + 1));
    size_t k = first_row(detail->largest_count, rows, scroll), end = k + (size_t)(rows > 0 ? rows : 0);
    for (; k < detail->largest_count && k < end; k++) {
        const gt_top_tensor *row = &detail->largest[k];
        snprintf(line, sizeof line, "%8s  %-10.10s %-*.*s%-*.*s", gt__short_number(row->bytes, true, a),
                 row->dtype, shape, shape - 1, row->shape, place, place ? place - 1 : 0, row->place);
        mvaddnstr(y, 0, line, COLS);
        put_place(y++, at, row->line, "");
    }
    put_rest(y, detail->largest_count - k);
}

static const gt_top_client *find_client(const gt_top *top, double number)
{
    for (size_t k = 0; k < top->client_count; k++)
        if (top->clients[k].number == number)
            return &top->clients[k];
    return NULL;
}

static void draw_history(const gt_top_client *client, const gt_top_view *view, int y, int height)
{
    unsigned columns = (unsigned)gt__graph_columns(COLS);
    unsigned per = (unsigned)fmax(1, ceil(view->span / view->interval / columns));
    double peak = gt__history_peak(client->spent, columns * per);
    mvprintw(y, 0, "device time: %.2f s per second, %d:%02d min", client->time,
             (int)(columns * per * view->interval) / 60, (int)(columns * per * view->interval) % 60);
    gt__put_graph(y + 1, 0, COLS, height, GT_PAIR_BUSY, client->spent, peak > 1 ? peak : 1, per);
}

void gt__draw_client(const gt_top *top, const gt_top_detail *detail, gt_top_view *view, int y, int last)
{
    const gt_top_client *client = find_client(top, view->shown);
    char line[512], a[16], b[16];
    if (!client || (detail->number == view->shown && !detail->found)) {
        snprintf(line, sizeof line, "client %.0f is gone", view->shown);
        gt__put_band(y, GT_PAIR_ERROR, line);
        return;
    }
    snprintf(line, sizeof line, "client %.0f  %s  %s  on %s  %.0f%%  %s tensors  %s", client->number, client->name,
             client->user, *client->worker ? client->worker : "no worker", 100 * client->share,
             gt__short_number(client->tensors, false, a), gt__short_number(client->bytes, true, b));
    gt__put_band(y++, GT_PAIR_HEADER, line);
    if (client->path.instructions > 0)
        snprintf(line, sizeof line, "now in path %.0f: %s, %.0f instructions", client->path.number, client->line,
                 client->path.instructions);
    else
        snprintf(line, sizeof line, "%s%s", *client->line ? "now at " : "", client->line);
    snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s%s", *client->scope ? "  in signal" : "",
             strchr(client->scope, ',') ? "s " : " ", client->scope);
    mvaddnstr(y++, 0, line, COLS);
    if (last - y >= 18) {
        draw_history(client, view, y, 4);
        y += 6;
    }
    if (detail->number != view->shown) {
        mvaddnstr(y, 0, "waiting for its lines and tensors", COLS);
        return;
    }
    int wanted = (int)detail->line_count + 2, half = (last - y) / 2, still = 0;
    int middle = y + (wanted < half ? wanted : half);
    draw_lines(detail, y, middle - 1, view->tensors ? &still : &view->scroll);
    draw_tensors(detail, middle, last, view->tensors ? &view->scroll : &still);
}
