/*
 * cli/top/screen.c: `gt top` in a terminal, with ncurses: the terminal, and the pieces that pages are made of.
 *
 * With 256 colours a worker's activity is a coloured bar, with fewer or none the bar is made of letters. Graphs are made of
 * braille characters, of ASCII where the locale is not UTF-8.
 * Everything is redrawn each time; ncurses sends only what changed.
 */
#include "cli/top/screen.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BAR = 512 };

static struct {
    SCREEN *screen;
    bool colours;
    bool braille; /* graphs are made of braille characters, otherwise of ASCII */
} state;

/* ---- life --------------------------------------------------------------------------------------------------- */

/* Restore the terminal however this process ends. */
static const int fatal[] = {SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
enum { FATAL = sizeof fatal / sizeof fatal[0] };
static struct sigaction before_fatal[FATAL];

static void leave(void)
{
    if (state.screen && !isendwin())
        endwin();
}

static void on_fatal(int number) /* once: the second signal has its default effect */
{
    leave();
    raise(number);
}

gt_err gt__screen_open(bool plain)
{
    setlocale(LC_CTYPE, ""); /* numbers stay as they are */
    state.braille = !strcmp(nl_langinfo(CODESET), "UTF-8");
    state.screen = newterm(NULL, stdout, stdin);
    if (!state.screen)
        return gt__fail(GT_ERR_VALUE, "unknown terminal '%s'; try --once", getenv("TERM") ? getenv("TERM") : "");
    set_term(state.screen);
    static bool registered;
    if (!registered)
        atexit(leave); /* cli/array.c exits when memory runs out */
    registered = true;
    struct sigaction action = {.sa_handler = on_fatal, .sa_flags = (int)SA_RESETHAND};
    for (int k = 0; k < FATAL; k++)
        sigaction(fatal[k], &action, &before_fatal[k]);
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(25);
    state.colours = !plain && has_colors() && start_color() == OK && COLORS >= 256;
    if (state.colours) {
        use_default_colors();
        for (int k = 0; k < GT_CATEGORY_COUNT; k++) {
            uint32_t rgb = gt__category_table[k].rgb;
            unsigned light = 299 * (rgb >> 16 & 255) + 587 * (rgb >> 8 & 255) + 114 * (rgb & 255);
            init_pair((short)(k + 1), light > 150 * 1000 ? 16 : 231, gt__category_table[k].terminal);
        }
        init_pair(GT_PAIR_HEADER, 231, 24);
        init_pair(GT_PAIR_ERROR, 231, 160);
        init_pair(GT_PAIR_CURSOR, 16, 252);
        init_pair(GT_PAIR_BUSY, 71, -1);
        init_pair(GT_PAIR_MEMORY, 74, -1);
    }
    return GT_OK;
}

void gt__screen_close(void)
{
    for (int k = 0; k < FATAL; k++)
        sigaction(fatal[k], &before_fatal[k], NULL);
    leave();
    delscreen(state.screen);
    state.screen = NULL;
}

/* ---- pieces ------------------------------------------------------------------------------------------------- */

void gt__put_band(int y, int pair, const char *text)
{
    int look = state.colours ? COLOR_PAIR(pair) : A_REVERSE;
    attron(look);
    mvhline(y, 0, ' ', COLS);
    mvaddnstr(y, 0, text, COLS);
    attroff(look);
}

void gt__put_part(int y, int x, int pair, const char *text, int length)
{
    int look = !pair ? A_NORMAL : state.colours ? COLOR_PAIR(pair) : A_REVERSE;
    attron(look);
    if (x < COLS)
        mvaddnstr(y, x, text, length < COLS - x ? length : COLS - x);
    attroff(look);
}

void gt__put_run(int y, int x, int length, int category)
{
    const gt_category_row *row = &gt__category_table[category];
    if (!state.colours) {
        mvhline(y, x, (chtype)row->letter, length);
        return;
    }
    attron(COLOR_PAIR(category + 1));
    mvhline(y, x, ' ', length);
    int name = (int)strlen(row->name);
    if (length >= name + 2)
        mvaddstr(y, x + (length - name) / 2, row->name);
    attroff(COLOR_PAIR(category + 1));
}

void gt__put_bar(int y, int x, int width, const gt_top_worker *worker, bool used[GT_CATEGORY_COUNT])
{
    unsigned char cells[MOST_BAR];
    width = width > MOST_BAR ? MOST_BAR : width;
    gt__top_bar(worker, width, cells);
    mvaddch(y, x - 1, '[');
    mvaddch(y, x + width, ']');
    for (int from = 0, to; from < width; from = to) {
        for (to = from; to < width && cells[to] == cells[from]; to++)
            ;
        if (cells[from] < GT_CATEGORY_COUNT) {
            gt__put_run(y, x + from, to - from, cells[from]);
            used[cells[from]] = true;
        }
    }
}

void gt__put_legend(int y, const bool used[GT_CATEGORY_COUNT])
{
    int x = 0;
    for (int k = 0; k < GT_CATEGORY_COUNT; k++) {
        int length = (int)strlen(gt__category_table[k].name) + 4;
        if (!used[k] || x + length > COLS)
            continue;
        gt__put_run(y, x, state.colours ? 2 : 1, k);
        mvaddstr(y, x + (state.colours ? 3 : 2), gt__category_table[k].name);
        x += length + (state.colours ? 1 : 0);
    }
}

/* ---- graphs ------------------------------------------------------------------------------------------------- */

int gt__graph_columns(int width)
{
    return state.braille ? 2 * width : width;
}

/* Steps of a column that are filled, of `steps`; a little shows, too. */
static int filled_steps(const gt_history *history, double full, unsigned ago, unsigned per, int steps)
{
    double value = gt__history_mean(history, ago, per);
    if (isnan(value) || value <= 0 || full <= 0)
        return 0;
    int filled = (int)lround(value / full * steps);
    return filled < 1 ? 1 : filled > steps ? steps : filled;
}

/* Two columns of four dots: the cell whose lowest dots are `left` and `right` steps below the tops of the columns. */
static void put_braille(int y, int x, int left, int right)
{
    static const unsigned char dots[2][4] = {{0x40, 0x04, 0x02, 0x01}, {0x80, 0x20, 0x10, 0x08}};
    unsigned cell = 0;
    for (int k = 0; k < 4; k++)
        cell |= (k < left ? dots[0][k] : 0u) | (k < right ? dots[1][k] : 0u);
    if (cell) {
        const char text[] = {(char)0xe2, (char)(0xa0 | cell >> 6), (char)(0x80 | (cell & 0x3f)), 0};
        mvaddstr(y, x, text);
    }
}

void gt__put_graph(int y, int x, int width, int height, int pair, const gt_history *history, double full,
                   unsigned per)
{
    int steps = state.braille ? 4 : 2; /* of a cell */
    int look = state.colours ? COLOR_PAIR(pair) : A_NORMAL;
    attron(look);
    for (int column = 0; column < width; column++) {
        unsigned ago = (unsigned)(gt__graph_columns(width - column) - 1) * per;
        int first = filled_steps(history, full, ago, per, steps * height);
        int second = state.braille ? filled_steps(history, full, ago - per, per, steps * height) : 0;
        for (int row = 0; row < height; row++) {
            int below = steps * (height - 1 - row);
            if (state.braille)
                put_braille(y + row, x + column, first - below, second - below);
            else if (first > below)
                mvaddch(y + row, x + column, first - below > 1 ? '#' : '.');
        }
    }
    attroff(look);
}

/* ---- the whole ---------------------------------------------------------------------------------------------- */

static void draw_header(const gt_top *top, const gt_top_view *view)
{
    char line[512], rate[16], server[32] = "", load[32];
    int up = (int)fmin(fmax(top->seconds, 0), 1e9);
    if (view->servers > 1)
        snprintf(server, sizeof server, " (%u of %u)", view->which % view->servers + 1, view->servers);
    snprintf(line, sizeof line, "gt top%s  %s%s  up %d:%02d:%02d  %zu worker%s  %zu client%s  %s instr/s",
             view->paused ? "  PAUSED" : "", view->address, server, up / 3600, up / 60 % 60, up % 60,
             top->worker_count, top->worker_count == 1 ? "" : "s", top->client_count,
             top->client_count == 1 ? "" : "s", gt__short_number(top->rate, false, rate));
    size_t used = strlen(line);
    int length = snprintf(load, sizeof load, "  dispatcher %.0f%%", 100 * top->cpu);
    if ((int)used + length <= COLS)
        snprintf(line + used, sizeof line - used, "%s", load);
    attron(A_BOLD);
    mvaddnstr(0, 0, line, COLS);
    attroff(A_BOLD);
}

/* The last line: the keys, or the filter while it is typed. */
static void draw_keys(const gt_top_view *view)
{
    char line[160];
    if (view->typing)
        snprintf(line, sizeof line, "filter: %s_   Enter: done   Esc: no filter", view->filter);
    else if (view->shown)
        snprintf(line, sizeof line, "q back  Tab lines/tensors  Up Down scroll  + - graph  p pause  F10 quit");
    else if (snprintf(line, sizeof line,
                      "q quit  h help  s sort: %s%s  r reverse  v view  / filter  Enter detail  p pause",
                      gt__top_orders[view->order], view->reversed ? " (reversed)" : "") > COLS)
        snprintf(line, sizeof line, "q quit h help s sort: %s%s r reverse v view / filter Enter detail p pause",
                 view->reversed ? "-" : "", gt__top_orders[view->order]);
    gt__put_band(LINES - 1, GT_PAIR_HEADER, line);
}

void gt__screen_draw(gt_top *top, const gt_top_detail *detail, gt_top_view *view)
{
    bool used[GT_CATEGORY_COUNT] = {false};
    int last = LINES - 3; /* below are the legend and the keys */
    erase();
    draw_header(top, view);
    gt__top_sort(top, view->order, view->reversed);
    if (view->help)
        gt__draw_help(2);
    else if (*view->message)
        gt__put_band(2, GT_PAIR_ERROR, view->message);
    else if (view->shown)
        gt__draw_client(top, detail, view, 2, LINES - 2);
    else if (view->page == GT_TOP_OPERATIONS)
        gt__draw_ops(top, 2, last);
    else {
        gt__draw_overview(top, view, 2, last, used);
        gt__put_legend(LINES - 2, used);
    }
    draw_keys(view);
    refresh();
}
