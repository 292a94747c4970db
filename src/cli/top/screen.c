/*
 * cli/top/screen.c: `gt top` in a terminal, with ncurses.
 *
 * With 256 colours a worker's activity is a coloured bar, with fewer or none the bar is made of letters.
 * Everything is redrawn each time; ncurses sends only what changed.
 */
#include <math.h>
#include <ncurses.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/top.h"

enum { PAIR_HEADER = GT_CATEGORY_COUNT + 1, PAIR_ERROR, MOST_BAR = 512, LEAST_BAR = 8 };

static struct {
    SCREEN *screen;
    bool colours;
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
        init_pair(PAIR_HEADER, 231, 24);
        init_pair(PAIR_ERROR, 231, 160);
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

/* A line of text over the whole width, in reverse video without colours. */
static void put_band(int y, int pair, const char *text)
{
    int look = state.colours ? COLOR_PAIR(pair) : A_REVERSE;
    attron(look);
    mvhline(y, 0, ' ', COLS);
    mvaddnstr(y, 0, text, COLS);
    attroff(look);
}

/* Part of a text, in a band's colours (pair; 0: plain). */
static void put_part(int y, int x, int pair, const char *text, int length)
{
    int look = !pair ? A_NORMAL : state.colours ? COLOR_PAIR(pair) : A_REVERSE;
    attron(look);
    if (x < COLS)
        mvaddnstr(y, x, text, length < COLS - x ? length : COLS - x);
    attroff(look);
}

/* A run of cells of one category: its colour, with its name if that fits, or its letter. */
static void put_run(int y, int x, int length, int category)
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

static void put_bar(int y, int x, int width, const gt_top_worker *worker, bool used[GT_CATEGORY_COUNT])
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
            put_run(y, x + from, to - from, cells[from]);
            used[cells[from]] = true;
        }
    }
}

static void put_legend(int y, const bool used[GT_CATEGORY_COUNT])
{
    int x = 0;
    for (int k = 0; k < GT_CATEGORY_COUNT; k++) {
        int length = (int)strlen(gt__category_table[k].name) + 4;
        if (!used[k] || x + length > COLS)
            continue;
        put_run(y, x, state.colours ? 2 : 1, k);
        mvaddstr(y, x + (state.colours ? 3 : 2), gt__category_table[k].name);
        x += length + (state.colours ? 1 : 0);
    }
}

/* ---- pages -------------------------------------------------------------------------------------------------- */

/* Columns end at ends[]: the width of those that fit into a line beside `others` and the shortest bar. */
static int fitting(const int *ends, int count, int others)
{
    while (count > 1 && others + LEAST_BAR + ends[count - 1] > COLS)
        count--;
    return ends[count - 1];
}

/* Returns the line after the last worker. On a narrow terminal the bar is short and the last columns are dropped. */
static int draw_workers(const gt_top *top, int y, int last, bool used[GT_CATEGORY_COUNT])
{
    enum { NAME = 18 };
    static const int ends[] = {5, 12, 21, 33, 40};
    int numbers = fitting(ends, 5, NAME + 3), bar = COLS - NAME - numbers - 3;
    bar = bar < LEAST_BAR ? LEAST_BAR : bar;
    char line[512], a[16], b[16], c[16], d[16];
    snprintf(line, sizeof line, "%5s %6s %8s %11s %6s", "IDLE", "OPS/S", "BYTES/S", "MEMORY", "QUEUE");
    put_band(y, PAIR_HEADER, "WORKER");
    put_part(y, NAME, PAIR_HEADER, "ACTIVITY", COLS - NAME);
    put_part(y++, NAME + bar + 3, PAIR_HEADER, line, numbers);
    for (size_t k = 0; k < top->worker_count && y <= last; k++, y++) {
        const gt_top_worker *worker = &top->workers[k];
        mvprintw(y, 0, "%-*.*s", NAME - 1, NAME - 1, worker->name);
        put_bar(y, NAME + 1, bar, worker, used);
        char memory[40];
        snprintf(memory, sizeof memory, "%s/%s", gt__short_number(worker->memory, true, c),
                 gt__short_number(worker->limit, true, d));
        snprintf(line, sizeof line, "%4.0f%% %6s %8s %11s %6.0f", 100 * worker->idle,
                 gt__short_number(worker->ops, false, a), gt__short_number(worker->bytes, true, b), memory,
                 worker->queue);
        put_part(y, NAME + bar + 3, 0, line, numbers);
        if (k + 1 < top->worker_count && y == last) {
            mvprintw(y, 0, "... and %zu more", top->worker_count - k);
            clrtoeol();
        }
    }
    return y;
}

static int draw_clients(const gt_top *top, int y, int last)
{
    enum { MOST = 40 };
    static const int ends[] = {7, 16, 25, 34};
    int name = COLS < 90 ? 16 : 24, user = COLS < 100 ? 0 : 12, names = 8 + name + user,
        numbers = fitting(ends, 4, names + 2), bar = COLS - names - numbers - 2;
    bar = bar < LEAST_BAR ? LEAST_BAR : bar > MOST ? MOST : bar;
    char a[16], b[16], c[16], line[256];
    int length = names + bar + 2 + numbers;
    snprintf(line, sizeof line, "%-7s%-*s%-*s %-*s %6s %8s %8s %8s", "CLIENT", name, "NAME", user,
             user ? " USER" : "", bar + 2, "", "SHARE", "TENSORS", "BYTES", "INSTR/S");
    put_band(y, PAIR_HEADER, "");
    put_part(y++, 0, PAIR_HEADER, line, length);
    for (size_t k = 0; k < top->client_count && y <= last; k++, y++) {
        const gt_top_client *client = &top->clients[k];
        char whose[16];
        snprintf(whose, sizeof whose, " %.11s", client->user);
        snprintf(line, sizeof line, "%-7.0f%-*.*s%-*s [%-*s] %5.0f%% %8s %8s %8s", client->number, name, name,
                 *client->name ? client->name : client->link, user, user ? whose : "", bar, "",
                 100 * client->share, gt__short_number(client->tensors, false, a),
                 gt__short_number(client->bytes, true, b), gt__short_number(client->rate, false, c));
        int filled = (int)(bar * client->share + 0.5);
        memset(line + names + 1, '#', (size_t)(filled < bar ? filled : bar));
        if (k + 1 < top->client_count && y == last)
            snprintf(line, sizeof line, "... and %zu more", top->client_count - k);
        put_part(y, 0, 0, line, length);
    }
    return y;
}

static void draw_ops(const gt_top *top, int y, int last)
{
    gt_opcode ops[GT_OP_COUNT];
    gt_top_op rates[GT_OP_COUNT];
    size_t count = gt__top_ops(top, ops, rates);
    char a[16], b[16], line[256];
    snprintf(line, sizeof line, "%-18s %-12s %6s %8s %8s", "OPERATION", "KIND", "TIME", "CALLS/S", "BYTES/S");
    put_band(y++, PAIR_HEADER, line);
    for (size_t k = 0; k < count && y <= last; k++, y++) {
        gt_category category = gt__category_of_op(ops[k]);
        snprintf(line, sizeof line, "%-18.18s %-12s %5.1f%% %8s %8s", gt__op_table[ops[k]].name,
                 gt__category_table[category].name, 100 * rates[ops[k]].seconds,
                 gt__short_number(rates[ops[k]].count, false, a), gt__short_number(rates[ops[k]].bytes, true, b));
        mvaddnstr(y, 0, line, COLS);
        int room = COLS - 58, length = (int)(rates[ops[k]].seconds * room + 0.5);
        if (length > 0 && room > 0)
            put_run(y, 57, length < room ? length : room, category);
    }
}

static void draw_help(int y)
{
    static const char *const lines[] = {
        "s        sort by the next column: name, activity, ops/s, bytes, memory",
        "r        reverse the order",
        "v, Tab   switch views: workers and clients, operations, clients",
        "p, Space pause and continue",
        "n        the next dispatcher, if several run here",
        "h, ?     this help",
        "q        quit",
        "",
        "ACTIVITY: how a worker spends its time, smoothed over two seconds;",
        "  blank is idle. QUEUE: instructions sent but not executed yet.",
        "SHARE: of the time that the workers spend on clients.",
    };
    for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++)
        mvaddnstr(y + (int)k, 2, lines[k], COLS > 2 ? COLS - 2 : 0);
}

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

void gt__screen_draw(gt_top *top, const gt_top_view *view)
{
    bool used[GT_CATEGORY_COUNT] = {false};
    char line[128];
    int last = LINES - 3; /* below are the legend and the keys */
    erase();
    draw_header(top, view);
    gt__top_sort(top, view->order, view->reversed);
    if (view->help)
        draw_help(2);
    else if (*view->message)
        put_band(2, PAIR_ERROR, view->message);
    else if (view->page == 1)
        draw_ops(top, 2, last);
    else {
        int y = 2;
        if (view->page == 0)
            y = draw_workers(top, y, top->client_count ? last - 3 : last, used) + 1;
        if (y < last)
            draw_clients(top, y, last);
        put_legend(LINES - 2, used);
    }
    snprintf(line, sizeof line, "q quit  h help  s sort: %s%s  r reverse  v view  p pause",
             gt__top_orders[view->order], view->reversed ? " (reversed)" : "");
    put_band(LINES - 1, PAIR_HEADER, line);
    refresh();
}

gt_top_action gt__screen_keys(gt_top_view *view)
{
    gt_top_action action = GT_TOP_NOTHING;
    for (int key; action < GT_TOP_NEXT_SERVER && (key = getch()) != ERR;) {
        action = GT_TOP_REDRAW;
        switch (key) {
        case 'q':
        case 'Q':
            return GT_TOP_QUIT;
        case 's':
            view->order = (view->order + 1) % GT_TOP_ORDERS;
            break;
        case 'r':
            view->reversed = !view->reversed;
            break;
        case 'v':
        case '\t':
            view->page = (view->page + 1) % GT_TOP_PAGES;
            break;
        case 'p':
        case ' ':
            view->paused = !view->paused;
            break;
        case 'h':
        case '?':
            view->help = !view->help;
            break;
        case 'n':
            return GT_TOP_NEXT_SERVER;
        case KEY_RESIZE:
            clear();
            break;
        default:
            action = GT_TOP_NOTHING;
        }
    }
    return action;
}
