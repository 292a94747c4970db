/*
 * cli/top/model.c: turns statistics, which are totals, into smoothed rates and shares.
 *
 * Smoothing is an exponential moving average: a measurement SMOOTHING seconds ago has the weight 1/e. See top.h.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/array.h"
#include "cli/json.h"
#include "cli/top/top.h"

static const double SMOOTHING = 2; /* seconds */

const char *const gt__top_orders[GT_TOP_ORDERS] = {
    [GT_TOP_BY_NAME] = "name",   [GT_TOP_BY_ACTIVITY] = "activity", [GT_TOP_BY_OPS] = "ops/s",
    [GT_TOP_BY_BYTES] = "bytes", [GT_TOP_BY_MEMORY] = "memory",
};

/* Move `value` towards `now`, which was measured over `seconds`; the first measurement counts in full. */
static void smooth(double *value, double now, double seconds, bool first)
{
    *value += (now - *value) * (first ? 1 : 1 - exp(-seconds / SMOOTHING));
}

/* Never negative: a worker that rejoins counts from zero again. */
static double increase(double now, double before)
{
    return now > before ? now - before : 0;
}

/* Truncated to the buffer, between two characters of UTF-8, without control characters, which a terminal would interpret. */
static void copy_text(char *to, size_t size, const char *text)
{
    size_t length = strlen(text);
    for (length = length < size ? length : size - 1; length && ((unsigned char)text[length] & 0xc0) == 0x80;)
        length--;
    snprintf(to, size, "%.*s", (int)length, text);
    for (; *to; to++)
        if ((unsigned char)*to < ' ' || *to == 127)
            *to = '?';
}

/* ---- workers ------------------------------------------------------------------------------------------------ */

static gt_top_worker *find_worker(gt_top *top, double index, const char *name)
{
    char kept[sizeof top->workers->name] = "";
    copy_text(kept, sizeof kept, name);
    for (size_t k = 0; k < top->worker_count; k++)
        if (top->workers[k].index == index && strcmp(top->workers[k].name, kept) == 0)
            return &top->workers[k];
    gt_top_worker *worker = GT_PUSH(top->workers, top->worker_count, top->worker_capacity);
    *worker = (gt_top_worker){.index = index};
    memcpy(worker->name, kept, sizeof kept);
    return worker;
}

/* The time of each op and each category since the last report; returns the total in seconds. */
static double take_ops(gt_top_worker *worker, const gt_json *ops, double elapsed,
                       double seconds[GT_CATEGORY_COUNT])
{
    double sum = 0;
    for (const gt_json *row = ops ? ops->child : NULL; row; row = row->next) {
        gt_opcode op;
        if (!row->key || !gt__op_find(row->key, &op))
            continue;
        gt_top_op now = {.count = gt__json_number(row, "count"),
                         .seconds = gt__json_number(row, "seconds"),
                         .bytes = gt__json_number(row, "bytes")};
        gt_top_op *total = &worker->total[op], *rate = &worker->rate[op];
        if (elapsed > 0) {
            double spent = increase(now.seconds, total->seconds);
            seconds[gt__category_of_op(op)] += spent;
            sum += spent;
            smooth(&rate->count, increase(now.count, total->count) / elapsed, elapsed, !worker->measured);
            smooth(&rate->seconds, spent / elapsed, elapsed, !worker->measured);
            smooth(&rate->bytes, increase(now.bytes, total->bytes) / elapsed, elapsed, !worker->measured);
        }
        *total = now;
    }
    return sum;
}

static void take_path(gt_top_path *path, const gt_json *from)
{
    path->instructions = gt__json_number(from, "instructions");
    path->number = gt__json_number(from, "number");
}

static double take_sensor(const gt_json *device, const char *key, unsigned flag, unsigned *known)
{
    const gt_json *value = gt__json_member(device, key);
    if (!value || value->kind != GT_JSON_NUMBER)
        return 0;
    *known |= flag;
    return value->number;
}

static void take_card(gt_card *card, const gt_json *device)
{
    *card = (gt_card){0};
    if (!device || device->kind != GT_JSON_OBJECT)
        return;
    card->known = GT_CARD_THERE;
    copy_text(card->name, sizeof card->name, gt__json_text(device, "name"));
    card->busy = take_sensor(device, "utilisation", GT_CARD_BUSY, &card->known);
    card->celsius = take_sensor(device, "celsius", GT_CARD_CELSIUS, &card->known);
    card->watts = take_sensor(device, "watts", GT_CARD_WATTS, &card->known);
    card->used = (uint64_t)take_sensor(device, "memory_used", GT_CARD_MEMORY, &card->known);
    card->memory = (uint64_t)take_sensor(device, "memory_total", GT_CARD_MEMORY, &card->known);
}

/*
 * Idle and busy time between two reports are exact; the times of the ops are partly estimated. So the shares of the ops
 * are scaled to the busy time.
 */
static void take_worker(gt_top *top, const gt_json *from)
{
    gt_top_worker *worker = find_worker(top, gt__json_number(from, "index"), gt__json_text(from, "name"));
    const gt_json *memory = gt__json_member(from, "memory");
    copy_text(worker->engine, sizeof worker->engine, gt__json_text(from, "engine"));
    copy_text(worker->link, sizeof worker->link, gt__json_text(from, "link"));
    copy_text(worker->exchange, sizeof worker->exchange, gt__json_text(from, "exchange"));
    worker->present = true;
    worker->memory = gt__json_number(memory, "used");
    worker->limit = gt__json_number(memory, "limit");
    worker->tensors = gt__json_number(from, "tensors");
    worker->queue = gt__json_number(from, "queue");
    const gt_json *doing = gt__json_member(from, "doing");
    copy_text(worker->doing, sizeof worker->doing, gt__json_text(doing, "op"));
    worker->doing_seconds = gt__json_number(doing, "seconds");
    copy_text(worker->doing_line, sizeof worker->doing_line, gt__json_text(doing, "line"));
    worker->doing_client = gt__json_number(doing, "client");
    take_path(&worker->doing_path, gt__json_member(doing, "path"));
    take_card(&worker->card, gt__json_member(from, "device"));
    double up = gt__json_number(from, "up_seconds"), idle_seconds = gt__json_number(from, "idle_seconds");
    double elapsed = worker->up > 0 ? increase(up, worker->up) : 0, seconds[GT_CATEGORY_COUNT] = {0};
    double sum = take_ops(worker, gt__json_member(from, "ops"), elapsed, seconds);
    if (elapsed > 0) {
        double idle = fmin(increase(idle_seconds, worker->idle_seconds) / elapsed, 1);
        smooth(&worker->idle, idle, elapsed, !worker->measured);
        gt__history_add(&worker->busy, 1 - idle);
        gt__history_add(&worker->used, worker->memory);
        for (int k = 0; k < GT_CATEGORY_COUNT; k++)
            smooth(&worker->share[k], sum > 0 ? seconds[k] / sum * (1 - idle) : 0, elapsed, !worker->measured);
        worker->measured = true;
    }
    worker->ops = worker->bytes = 0;
    for (int op = 1; op < GT_OP_COUNT; op++) {
        worker->ops += op < GT_OP_FIRST_CONTROL ? worker->rate[op].count : 0;
        worker->bytes += worker->rate[op].bytes;
    }
    worker->up = up;
    worker->idle_seconds = idle_seconds;
}

/* ---- clients and the rest ----------------------------------------------------------------------------------- */

static void take_client(gt_top *top, const gt_json *from, double elapsed)
{
    double number = gt__json_number(from, "number"), instructions = gt__json_number(from, "instructions");
    double seconds = gt__json_number(from, "seconds");
    gt_top_client *client = NULL;
    for (size_t k = 0; k < top->client_count && !client; k++)
        if (top->clients[k].number == number)
            client = &top->clients[k];
    bool first = !client;
    if (first) {
        client = GT_PUSH(top->clients, top->client_count, top->client_capacity);
        *client = (gt_top_client){.number = number,
                                  .instructions = top->samples ? 0 : instructions,
                                  .seconds = top->samples ? 0 : seconds};
    }
    client->present = true;
    copy_text(client->name, sizeof client->name, gt__json_text(from, "name")); /* these may change: gt.attach() */
    copy_text(client->link, sizeof client->link, gt__json_text(from, "link"));
    copy_text(client->user, sizeof client->user, gt__json_text(from, "user"));
    copy_text(client->worker, sizeof client->worker, gt__json_text(from, "worker"));
    copy_text(client->line, sizeof client->line, gt__json_text(from, "line"));
    copy_text(client->scope, sizeof client->scope, gt__json_text(from, "scope"));
    take_path(&client->path, gt__json_member(from, "path"));
    client->tensors = gt__json_number(from, "tensors");
    client->bytes = gt__json_number(from, "bytes");
    if (elapsed > 0) {
        bool fresh = first || top->samples == 1;
        smooth(&client->rate, increase(instructions, client->instructions) / elapsed, elapsed, fresh);
        smooth(&client->time, increase(seconds, client->seconds) / elapsed, elapsed, fresh);
        gt__history_add(&client->spent, increase(seconds, client->seconds) / elapsed);
    }
    client->instructions = instructions;
    client->seconds = seconds;
}

static void free_worker(gt_top_worker *worker)
{
    free(worker->busy);
    free(worker->used);
}

/* Drop parties that left, and compute the clients' shares. */
static void drop_absent(gt_top *top)
{
    size_t kept = 0;
    for (size_t k = 0; k < top->worker_count; k++)
        if (top->workers[k].present)
            top->workers[kept++] = top->workers[k];
        else
            free_worker(&top->workers[k]);
    top->worker_count = kept;
    kept = 0;
    double instructions = 0, time = 0;
    for (size_t k = 0; k < top->client_count; k++)
        if (top->clients[k].present) {
            top->clients[kept++] = top->clients[k];
            instructions += top->clients[kept - 1].rate;
            time += top->clients[kept - 1].time;
        } else
            free(top->clients[k].spent);
    top->client_count = kept;
    for (size_t k = 0; k < kept; k++)
        top->clients[k].share = time > 0           ? top->clients[k].time / time
                                : instructions > 0 ? top->clients[k].rate / instructions
                                                   : 0;
}

/* The latest of all workers together. */
static void add_histories(gt_top *top)
{
    double busy = 0, used = 0;
    for (size_t k = 0; k < top->worker_count; k++) {
        double share = gt__history_mean(top->workers[k].busy, 0, 1);
        busy += isnan(share) ? 0 : share;
        used += top->workers[k].memory;
    }
    gt__history_add(&top->busy, top->worker_count ? busy / (double)top->worker_count : 0);
    gt__history_add(&top->used, used);
}

bool gt__top_take(gt_top *top, const gt_json *json)
{
    if (!gt__json_member(json, "workers"))
        return false;
    double seconds = gt__json_number(json, "seconds"), cpu = gt__json_number(json, "cpu_seconds");
    double instructions = gt__json_number(json, "instructions");
    if (seconds < top->seconds)
        gt__top_clear(top); /* another dispatcher on the same port */
    double elapsed = top->samples ? seconds - top->seconds : 0;
    top->sample = elapsed;
    if (elapsed > 0) {
        smooth(&top->cpu, increase(cpu, top->cpu_seconds) / elapsed, elapsed, top->samples == 1);
        smooth(&top->rate, increase(instructions, top->instructions) / elapsed, elapsed, top->samples == 1);
    }
    for (size_t k = 0; k < top->worker_count; k++)
        top->workers[k].present = false;
    for (size_t k = 0; k < top->client_count; k++)
        top->clients[k].present = false;
    const gt_json *list = gt__json_member(json, "workers");
    for (const gt_json *worker = list->child; worker; worker = worker->next)
        take_worker(top, worker);
    list = gt__json_member(json, "clients");
    for (const gt_json *client = list ? list->child : NULL; client; client = client->next)
        take_client(top, client, elapsed);
    drop_absent(top);
    if (elapsed > 0)
        add_histories(top);
    top->seconds = seconds;
    top->cpu_seconds = cpu;
    top->instructions = instructions;
    top->samples++;
    return true;
}

bool gt__top_update(gt_top *top, const char *text)
{
    gt_json *json = gt__json_parse(text);
    bool taken = gt__top_take(top, json);
    gt__json_free(json);
    return taken;
}

bool gt__top_measured(const gt_top *top)
{
    for (size_t k = 0; k < top->worker_count; k++)
        if (!top->workers[k].measured)
            return false;
    return top->samples >= 2;
}

void gt__top_clear(gt_top *top)
{
    for (size_t k = 0; k < top->worker_count; k++)
        free_worker(&top->workers[k]);
    for (size_t k = 0; k < top->client_count; k++)
        free(top->clients[k].spent);
    free(top->busy);
    free(top->used);
    free(top->workers);
    free(top->clients);
    *top = (gt_top){0};
}

/* ---- in order, and in short --------------------------------------------------------------------------------- */

/* The sort order; qsort_r's argument. */
typedef struct sort_key {
    gt_top_order order;
    int sign;
} sort_key;

static int compare(double a, double b, const sort_key *key)
{
    return key->sign * ((a < b) - (a > b)); /* large ones first */
}

static int compare_workers(const void *left, const void *right, void *argument)
{
    const gt_top_worker *a = left, *b = right;
    const sort_key *key = argument;
    const double values[GT_TOP_ORDERS][2] = {
        [GT_TOP_BY_ACTIVITY] = {1 - a->idle, 1 - b->idle},
        [GT_TOP_BY_OPS] = {a->ops, b->ops},
        [GT_TOP_BY_BYTES] = {a->bytes, b->bytes},
        [GT_TOP_BY_MEMORY] = {a->memory, b->memory},
    };
    int order = compare(values[key->order][0], values[key->order][1], key);
    if (order)
        return order;
    order = strverscmp(a->name, b->name);
    return key->order == GT_TOP_BY_NAME ? key->sign * order : order;
}

static int compare_clients(const void *left, const void *right, void *argument)
{
    const gt_top_client *a = left, *b = right;
    const sort_key *key = argument;
    const double values[GT_TOP_ORDERS][2] = {
        [GT_TOP_BY_NAME] = {-a->number, -b->number}, [GT_TOP_BY_ACTIVITY] = {a->share, b->share},
        [GT_TOP_BY_OPS] = {a->rate, b->rate},        [GT_TOP_BY_BYTES] = {a->bytes, b->bytes},
        [GT_TOP_BY_MEMORY] = {a->bytes, b->bytes},
    };
    int order = compare(values[key->order][0], values[key->order][1], key);
    return order ? order : (a->number > b->number) - (a->number < b->number);
}

void gt__top_sort(gt_top *top, gt_top_order order, bool reversed)
{
    sort_key key = {.order = order, .sign = reversed ? -1 : 1};
    if (top->worker_count)
        qsort_r(top->workers, top->worker_count, sizeof *top->workers, compare_workers, &key);
    if (top->client_count)
        qsort_r(top->clients, top->client_count, sizeof *top->clients, compare_clients, &key);
}

bool gt__top_passes(const gt_top_view *view, const gt_top_client *client)
{
    char number[24];
    snprintf(number, sizeof number, "%.0f", client->number);
    return !*view->filter || strcasestr(client->name, view->filter) || strcasestr(client->user, view->filter) ||
           strcasestr(client->worker, view->filter) || strcasestr(client->line, view->filter) ||
           !strcmp(number, view->filter);
}

static int compare_ops(const void *left, const void *right, void *rates)
{
    gt_opcode a = *(const gt_opcode *)left, b = *(const gt_opcode *)right;
    double seconds_a = ((gt_top_op *)rates)[a].seconds, seconds_b = ((gt_top_op *)rates)[b].seconds;
    return seconds_a != seconds_b ? (seconds_a < seconds_b) - (seconds_a > seconds_b) : (int)a - (int)b;
}

size_t gt__top_ops(const gt_top *top, gt_opcode ops[GT_OP_COUNT], gt_top_op rates[GT_OP_COUNT])
{
    size_t count = 0;
    for (int op = 1; op < GT_OP_COUNT; op++) {
        rates[op] = (gt_top_op){0};
        double ever = 0;
        for (size_t k = 0; k < top->worker_count; k++) {
            const gt_top_worker *worker = &top->workers[k];
            rates[op].count += worker->rate[op].count;
            rates[op].bytes += worker->rate[op].bytes;
            rates[op].seconds += worker->rate[op].seconds / (double)top->worker_count;
            ever += worker->total[op].count;
        }
        if (ever > 0)
            ops[count++] = (gt_opcode)op;
    }
    if (count)
        qsort_r(ops, count, sizeof *ops, compare_ops, rates);
    return count;
}

void gt__top_bar(const gt_top_worker *worker, int width, unsigned char *cells)
{
    double sum = 0;
    int at = 0;
    for (int k = 0; k < GT_CATEGORY_COUNT; k++) {
        sum += worker->share[k];
        for (int end = (int)lround(fmin(sum, 1) * width); at < end; at++)
            cells[at] = (unsigned char)k;
    }
    for (; at < width; at++)
        cells[at] = GT_CATEGORY_COUNT;
}

char *gt__short_number(double value, bool binary, char text[16])
{
    static const char units[] = " kMGTPE";
    if (!(fabs(value) <= 1e30))
        return strcpy(text, "?");
    double thousand = binary ? 1024 : 1000;
    int unit = 0;
    for (; value >= 999.5 && unit < 6; unit++)
        value /= thousand;
    char letter = unit == 1 && binary ? 'K' : units[unit];
    int length = snprintf(text, 16, unit && value < 9.95 ? "%.1f" : "%.0f", value);
    if (unit)
        snprintf(text + length, 16 - (size_t)length, "%c", letter);
    return text;
}

/* "a_very_long_name" in 9 columns: "a_ve~name". */
static void cut_middle(const char *name, size_t length, size_t width, char text[72])
{
    if (length <= width) {
        snprintf(text, 72, "%.*s", (int)length, name);
        return;
    }
    size_t tail = (width - 1) / 2;
    snprintf(text, 72, "%.*s~%.*s", (int)(width - 1 - tail), name, (int)tail, name + length - tail);
}

char *gt__top_short_name(const gt_top *top, const char *name, int width, char text[72])
{
    char other[72];
    size_t length = strlen(name), plus = length && name[length - 1] == '+', room = (size_t)width - plus;
    const gt_top_worker *self = NULL;
    bool same = false;
    length -= plus;
    cut_middle(name, length, room, text);
    for (size_t k = 0; k < top->worker_count && length > room; k++) {
        const gt_top_worker *worker = &top->workers[k];
        bool is_self = strlen(worker->name) == length && !memcmp(worker->name, name, length);
        cut_middle(worker->name, strlen(worker->name), room, other);
        self = is_self ? worker : self;
        same |= !is_self && !strcmp(text, other);
    }
    if (same && self) {
        int digits = snprintf(other, sizeof other, "~%.0f", self->index);
        snprintf(text + room - (size_t)digits, 72 - room + (size_t)digits, "%s", other);
    }
    return strcat(text, plus ? "+" : "");
}
