/* cli/top/keys.c: the keys of `gt top`, as htop has them. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "cli/top/screen.h"

enum { ESCAPE = 27, DELETE = 127, PAGE = 10 };

/* Move the cursor by so many clients of those that pass the filter. */
static void move_cursor(const gt_top *top, gt_top_view *view, int by)
{
    double before = 0;
    int count = 0, at = 0, to;
    for (size_t k = 0; k < top->client_count; k++)
        if (gt__top_passes(view, &top->clients[k])) {
            at = top->clients[k].number == view->selected ? count : at;
            count++;
        }
    to = at + by < 0 ? 0 : at + by >= count ? count - 1 : at + by;
    for (size_t k = 0; k < top->client_count; k++)
        if (gt__top_passes(view, &top->clients[k]) && to-- == 0)
            before = top->clients[k].number;
    view->selected = before;
}

static void move_by(const gt_top *top, gt_top_view *view, int by)
{
    if (!view->shown && view->page != GT_TOP_WORKERS)
        move_cursor(top, view, by);
    else if (by < 0)
        view->scroll = view->scroll + by < 0 ? 0 : view->scroll + by;
    else
        view->scroll = view->scroll + by > 1 << 20 ? 1 << 20 : view->scroll + by; /* drawing limits it */
}

/* A key while the filter is typed. */
static void type(gt_top_view *view, int key)
{
    size_t length = strlen(view->filter);
    if (key == ESCAPE)
        view->filter[0] = 0;
    if (key == ESCAPE || key == '\n' || key == '\r' || key == KEY_ENTER)
        view->typing = false;
    else if ((key == KEY_BACKSPACE || key == DELETE || key == '\b') && length)
        view->filter[length - 1] = 0;
    else if (key < 128 && isprint(key) && length + 1 < sizeof view->filter) {
        view->filter[length] = (char)key;
        view->filter[length + 1] = 0;
    }
}

/* Out of what is shown above the rest. False: nothing is. */
static bool go_back(gt_top_view *view)
{
    bool above = view->help || view->shown || *view->filter;
    if (view->help)
        view->help = false;
    else if (view->shown)
        view->shown = 0;
    else
        view->filter[0] = 0;
    view->scroll = 0;
    return above;
}

static bool handle_movement(const gt_top *top, gt_top_view *view, int key)
{
    static const struct {
        int key, by;
    } moves[] = {{KEY_UP, -1},      {KEY_DOWN, 1},          {'k', -1},         {'j', 1}, {KEY_PPAGE, -PAGE},
                 {KEY_NPAGE, PAGE}, {KEY_HOME, -(1 << 20)}, {KEY_END, 1 << 20}};
    for (size_t k = 0; k < sizeof moves / sizeof moves[0]; k++)
        if (moves[k].key == key) {
            move_by(top, view, moves[k].by);
            return true;
        }
    return false;
}

static void next_page(gt_top_view *view)
{
    if (view->shown)
        view->tensors = !view->tensors;
    else
        view->page = (view->page + 1) % GT_TOP_PAGES;
    view->scroll = 0;
}

static void open_client(gt_top_view *view)
{
    view->shown = view->shown || view->page == GT_TOP_OPERATIONS ? 0 : view->selected;
    view->scroll = 0;
    view->tensors = false;
}

/* Keys that change what is shown and how. False: it is none of them. */
static bool handle_view(gt_top_view *view, int key)
{
    switch (key) {
    case 's':
    case KEY_F(6):
        view->order = (view->order + 1) % GT_TOP_ORDERS;
        return true;
    case 'r':
        view->reversed = !view->reversed;
        return true;
    case 'v':
    case '\t':
        next_page(view);
        return true;
    case 'p':
    case ' ':
        view->paused = !view->paused;
        return true;
    case 'h':
    case '?':
    case KEY_F(1):
        view->help = !view->help;
        return true;
    case '/':
    case KEY_F(3):
    case KEY_F(4):
        view->typing = true;
        view->help = false;
        view->shown = 0;
        return true;
    case '\n':
    case '\r':
    case KEY_ENTER:
    case KEY_F(5):
        open_client(view);
        return true;
    case '+':
        view->span = fmax(view->span / 2, 15);
        return true;
    case '-':
        view->span = fmin(view->span * 2, GT_HISTORY * view->interval);
        return true;
    case KEY_RESIZE:
        clear();
        return true;
    default:
        return false;
    }
}

gt_top_action gt__screen_keys(const gt_top *top, gt_top_view *view)
{
    gt_top_action action = GT_TOP_NOTHING;
    for (int key; (key = getch()) != ERR;) {
        if (key == KEY_F(10))
            return GT_TOP_QUIT;
        if (view->typing && key != KEY_RESIZE)
            type(view, key);
        else if (key == 'q' || key == 'Q' || key == ESCAPE) {
            bool back = key == ESCAPE || view->help || view->shown ? go_back(view) : false;
            if (!back && key != ESCAPE)
                return GT_TOP_QUIT;
        } else if (key == 'n')
            return GT_TOP_NEXT_SERVER;
        else if (!handle_movement(top, view, key) && !handle_view(view, key))
            continue;
        action = GT_TOP_REDRAW;
    }
    return action;
}
