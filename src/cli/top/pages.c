/* cli/top/pages.c: the pages of `gt top`: workers, clients, operations, help. client_page.c has the page of one client. */
#include <math.h>
#include <string.h>

#include "cli/top/screen.h"
#include "core/cards.h"

/* Columns end at ends[]: the width of those that fit into a line beside `others` and the shortest bar. */
static int fitting(const int *ends, int count, int others)
{
    while (count > 1 && others + GT_LEAST_BAR + ends[count - 1] > COLS)
        count--;
    return ends[count - 1];
}

/* ---- workers ------------------------------------------------------------------------------------------------ */

static void draw_worker(const gt_top *top, const gt_top_worker *worker, int y, int name, int bar, int numbers,
                        bool used[GT_CATEGORY_COUNT])
{
    char line[256], memory[40], queue[16], a[16], b[16], c[16], d[16], text[72];
    mvprintw(y, 0, "%-*s", name - 1, gt__top_short_name(top, worker->name, name - 1, text));
    gt__put_bar(y, name + 1, bar, worker, used);
    snprintf(memory, sizeof memory, "%s/%s", gt__short_number(worker->memory, true, c),
             gt__short_number(worker->limit, true, d));
    snprintf(queue, sizeof queue, "%.0f", worker->queue);
    if (worker->queue > 999999)
        gt__short_number(worker->queue, false, queue);
    snprintf(line, sizeof line, "%4.0f%% %6s %8s %11s %6s", 100 * worker->idle,
             gt__short_number(worker->ops, false, a), gt__short_number(worker->bytes, true, b), memory, queue);
    gt__put_part(y, name + bar + 3, 0, line, numbers);
}

/* Returns the line after the last worker. On a narrow terminal the bar is short and the last columns are dropped. */
static int draw_workers(const gt_top *top, size_t first, int y, int last, bool used[GT_CATEGORY_COUNT])
{
    enum { NAME = 18 };
    static const int ends[] = {5, 12, 21, 33, 40};
    int numbers = fitting(ends, 5, NAME + 3), bar = COLS - NAME - numbers - 3;
    bar = bar < GT_LEAST_BAR ? GT_LEAST_BAR : bar;
    char line[256];
    snprintf(line, sizeof line, "%5s %6s %8s %11s %6s", "IDLE", "OPS/S", "BYTES/S", "MEMORY", "QUEUE");
    gt__put_band(y, GT_PAIR_HEADER, "WORKER");
    gt__put_part(y, NAME, GT_PAIR_HEADER, "ACTIVITY", COLS - NAME);
    gt__put_part(y++, NAME + bar + 3, GT_PAIR_HEADER, line, numbers);
    for (size_t k = first; k < top->worker_count && y <= last; k++, y++) {
        draw_worker(top, &top->workers[k], y, NAME, bar, numbers, used);
        if (k + 1 < top->worker_count && y == last) {
            mvprintw(y, 0, "... and %zu more", top->worker_count - k);
            clrtoeol();
        }
    }
    return y;
}

/* A line for each graphics card of this host. Returns the line after them. */
static int draw_cards(int y, int last)
{
    gt_card cards[GT_MOST_CARDS];
    unsigned count = gt__cards_read(cards);
    for (unsigned k = 0; k < count && y <= last; k++, y++) {
        char line[160], text[128];
        snprintf(line, sizeof line, "GPU %u %s", k, gt__card_line(&cards[k], text));
        mvaddnstr(y, 0, line, COLS);
    }
    return y;
}

/* ---- history ------------------------------------------------------------------------------------------------ */

void gt__draw_graphs(int y, int x, int width, int height, const char *name, const gt_history *busy,
                     const gt_history *used, const gt_top_view *view)
{
    int half = (width - 1) / 2;
    unsigned columns = (unsigned)gt__graph_columns(half);
    unsigned per = (unsigned)fmax(1, ceil(view->span / view->interval / columns));
    double now = gt__history_mean(busy, 0, 1), bytes = gt__history_mean(used, 0, 1);
    double peak = gt__history_peak(used, columns * per), seconds = columns * per * view->interval;
    char title[128], a[16], b[16];
    snprintf(title, sizeof title, "%.24s busy %.0f%%, %d:%02d min", name, isnan(now) ? 0 : 100 * now,
             (int)seconds / 60, (int)seconds % 60);
    mvaddnstr(y, x, title, half);
    snprintf(title, sizeof title, "memory %s, peak %s", gt__short_number(isnan(bytes) ? 0 : bytes, true, a),
             gt__short_number(peak, true, b));
    mvaddnstr(y, x + half + 1, title, half);
    gt__put_graph(y + 1, x, half, height, GT_PAIR_BUSY, busy, 1, per);
    gt__put_graph(y + 1, x + half + 1, half, height, GT_PAIR_MEMORY, used, peak, per);
}

/* Graphs of each worker if there is room for all, else of all together. Returns the line after them. */
static int draw_history(const gt_top *top, const gt_top_view *view, int y, int room)
{
    enum { LEAST_WIDTH = 64, LEAST_HEIGHT = 2, MOST_HEIGHT = 6 };
    int across = COLS / LEAST_WIDTH > 1 ? COLS / LEAST_WIDTH : 1, workers = (int)top->worker_count;
    across = across < workers ? across : workers;
    int rows = across ? (workers + across - 1) / across : 0;
    bool each = rows && room / rows >= 1 + LEAST_HEIGHT;
    if (!workers || room < 1 + LEAST_HEIGHT)
        return y;
    rows = each ? rows : 1;
    across = each ? across : 1;
    int height = room / rows - 1 < MOST_HEIGHT ? room / rows - 1 : MOST_HEIGHT;
    char name[72];
    if (!each) {
        gt__draw_graphs(y, 0, COLS, height, "all workers", top->busy, top->used, view);
        return y + 1 + height;
    }
    for (int k = 0; k < workers; k++) {
        const gt_top_worker *worker = &top->workers[k];
        gt__draw_graphs(y + k / across * (1 + height), k % across * (COLS / across), COLS / across, height,
                        gt__top_short_name(top, worker->name, COLS / across > 90 ? 24 : 12, name), worker->busy,
                        worker->used, view);
    }
    return y + rows * (1 + height);
}

/* ---- clients ------------------------------------------------------------------------------------------------ */

enum { MOST_CLIENT_BAR = 40, LINE_ROOM = 22 };

/* The widths of the columns of clients. */
typedef struct client_columns {
    int name, worker, user, names, numbers, bar, length;
} client_columns;

static client_columns measure_clients(void)
{
    static const int ends[] = {7, 16, 25, 34};
    bool wide = COLS >= 112;
    client_columns c = {.name = wide ? 24 : 16,
                        .worker = wide         ? 16
                                  : COLS >= 80 ? 12
                                               : 0,
                        .user = COLS < 100 ? 0 : 12};
    c.names = 8 + c.name + c.worker + c.user;
    c.numbers = fitting(ends, 4, c.names + 2);
    c.bar = COLS - c.names - c.numbers - 2 - (wide ? LINE_ROOM : 0);
    c.bar = c.bar < GT_LEAST_BAR ? GT_LEAST_BAR : c.bar > MOST_CLIENT_BAR ? MOST_CLIENT_BAR : c.bar;
    c.length = c.names + c.bar + 2 + c.numbers;
    return c;
}

static void draw_client_row(const gt_top *top, const gt_top_client *client, int y, const client_columns *c,
                            bool selected)
{
    char line[256], whose[16], where[80] = "", text[72], a[16], b[16], d[16];
    snprintf(whose, sizeof whose, " %.11s", client->user);
    if (c->worker)
        snprintf(where, sizeof where, " %s",
                 *client->worker ? gt__top_short_name(top, client->worker, c->worker - 1, text) : "-");
    snprintf(line, sizeof line, "%-7.0f%-*.*s%-*s%-*s [%-*s] %5.0f%% %8s %8s %8s", client->number, c->name,
             c->name, *client->name ? client->name : client->link, c->worker, where, c->user, c->user ? whose : "",
             c->bar, "", 100 * client->share, gt__short_number(client->tensors, false, a),
             gt__short_number(client->bytes, true, b), gt__short_number(client->rate, false, d));
    int filled = (int)(c->bar * client->share + 0.5);
    memset(line + c->names + 1, '#', (size_t)(filled < c->bar ? filled : c->bar));
    if (selected)
        gt__put_band(y, GT_PAIR_CURSOR, "");
    gt__put_part(y, 0, selected ? GT_PAIR_CURSOR : 0, line, c->length);
    int room = COLS - c->length - 2, length = (int)strlen(client->line);
    if (room >= 12 && length) /* the end of the path is what people know it by */
        gt__put_part(y, c->length + 2, selected ? GT_PAIR_CURSOR : 0,
                     client->line + (length > room ? length - room : 0), room);
}

/* The place of the cursor among the clients that pass the filter; -1: none passes. */
static int find_selected(const gt_top *top, gt_top_view *view, int *count)
{
    int selected = -1;
    double first = 0;
    *count = 0;
    for (size_t k = 0; k < top->client_count; k++)
        if (gt__top_passes(view, &top->clients[k])) {
            first = *count ? first : top->clients[k].number;
            selected = top->clients[k].number == view->selected ? *count : selected;
            ++*count;
        }
    if (selected >= 0)
        return selected;
    view->selected = first; /* 0 if none passes */
    return *count ? 0 : -1;
}

static void draw_clients(const gt_top *top, gt_top_view *view, int y, int last)
{
    client_columns c = measure_clients();
    char line[256];
    int count, selected = find_selected(top, view, &count), rows = last - y, at = 0;
    snprintf(line, sizeof line, "%-7s%-*s%-*s%-*s %-*s %6s %8s %8s %8s", "CLIENT", c.name, "NAME", c.worker,
             c.worker ? " WORKER" : "", c.user, c.user ? " USER" : "", c.bar + 2, "", "SHARE", "TENSORS", "BYTES",
             "INSTR/S");
    gt__put_band(y, GT_PAIR_HEADER, "");
    gt__put_part(y, 0, GT_PAIR_HEADER, line, c.length);
    if (COLS - c.length >= 14)
        gt__put_part(y, c.length + 2, GT_PAIR_HEADER, "LINE", 4);
    y++;
    if (*view->filter && count < (int)top->client_count && y <= last) {
        mvprintw(y++, 0, "%d of %zu, with '%s'", count, top->client_count, view->filter);
        rows--;
    }
    rows = count > rows ? rows - 1 : rows; /* the last line says how many there are */
    rows = rows < 1 ? 1 : rows;
    int first = (int)view->first_client;
    first = selected < first ? selected : selected >= first + rows ? selected - rows + 1 : first;
    first = first > count - rows ? count - rows : first;
    view->first_client = (size_t)(first = first < 0 ? 0 : first);
    for (size_t k = 0; k < top->client_count && y <= last; k++) {
        if (!gt__top_passes(view, &top->clients[k]) || at++ < first)
            continue;
        if (at > first + rows)
            break;
        draw_client_row(top, &top->clients[k], y++, &c, at - 1 == selected);
    }
    if (count > rows && y <= last)
        mvprintw(y, 0, "... and %d more, %d above", count - rows - first, first);
}

/* ---- pages -------------------------------------------------------------------------------------------------- */

void gt__draw_overview(const gt_top *top, gt_top_view *view, int y, int last, bool used[GT_CATEGORY_COUNT])
{
    int rows = last - y + 1, clients = view->page == GT_TOP_WORKERS ? 0 : (int)top->client_count;
    if (view->page != GT_TOP_CLIENTS) {
        int most = (int)top->worker_count - 1;
        view->scroll = view->page != GT_TOP_WORKERS || most < 0 ? 0 : view->scroll > most ? most : view->scroll;
        y = draw_workers(top, (size_t)view->scroll, y, clients ? y + (rows - 3) * 2 / 3 : last, used);
        y = draw_cards(y, clients ? last - 3 : last);
        int wanted = clients ? 2 + (clients < rows / 3 ? clients : rows / 3) : 0;
        y = draw_history(top, view, y + (last - y > 8), last - y - wanted) + 1;
    }
    if (y < last && view->page != GT_TOP_WORKERS)
        draw_clients(top, view, y, last);
}

void gt__draw_ops(const gt_top *top, int y, int last)
{
    gt_opcode ops[GT_OP_COUNT];
    gt_top_op rates[GT_OP_COUNT];
    size_t count = gt__top_ops(top, ops, rates);
    char a[16], b[16], line[256];
    snprintf(line, sizeof line, "%-18s %-12s %6s %8s %8s", "OPERATION", "KIND", "TIME", "CALLS/S", "BYTES/S");
    gt__put_band(y++, GT_PAIR_HEADER, line);
    for (size_t k = 0; k < count && y <= last; k++, y++) {
        gt_category category = gt__category_of_op(ops[k]);
        snprintf(line, sizeof line, "%-18.18s %-12s %5.1f%% %8s %8s", gt__op_table[ops[k]].name,
                 gt__category_table[category].name, 100 * rates[ops[k]].seconds,
                 gt__short_number(rates[ops[k]].count, false, a), gt__short_number(rates[ops[k]].bytes, true, b));
        mvaddnstr(y, 0, line, COLS);
        int room = COLS - 58, length = (int)(rates[ops[k]].seconds * room + 0.5);
        if (length > 0 && room > 0)
            gt__put_run(y, 57, length < room ? length : room, category);
    }
}

void gt__draw_help(int y)
{
    static const char *const lines[] = {
        "Up, Down, PgUp, PgDn, Home, End  move the cursor, or scroll",
        "Enter, F5  the client under the cursor: its lines and tensors",
        "/, F3, F4  show only clients with a text: name, user, worker, line",
        "s, F6      sort by the next column: name, activity, ops/s, bytes, memory",
        "r          reverse the order",
        "v, Tab     switch views: both, operations, clients, workers",
        "+, -       graphs of a shorter, a longer time",
        "p, Space   pause and continue",
        "n          the next dispatcher, if several run here",
        "h, ?, F1   this help",
        "q, Esc     back; q, F10: quit",
        "",
        "ACTIVITY: how a worker spends its time, smoothed over two seconds;",
        "  blank is idle. QUEUE: instructions that are not executed yet.",
        "WORKER: a client's home; with +, it uses others as well.",
        "SHARE: of the time that the workers spend on clients.",
        "LINE: of the program, that a worker was last seen executing.",
    };
    for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++)
        mvaddnstr(y + (int)k, 2, lines[k], COLS > 2 ? COLS - 2 : 0);
}
