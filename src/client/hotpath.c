/* hotpath.c: see hotpath.h. Read next: hotpath_detect.c, hotpath_template.c, core/path.h. */
#include "client/hotpath.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/hotpath_template.h"
#include "core/log.h"
#include "core/record.h"
#include "core/settings.h"

enum {
    ENTRIES = 256,
    STAGE_SLOTS = GT_PATH_SLOTS / 2 + GT_LINK_MAX_RESERVE,
    PATIENCE = 16, /* misses in a row after which a template is dropped */
    MOST_TEMPLATES = 128,
    MOST_ALIKE = 8, /* templates that begin with the same record */
};

typedef enum state {
    WATCHING,
    LEARNING, /* the present records become a template */
    HOLDING,  /* they have fitted a template so far, and are in the stage */
    DRAINING, /* they did not fit: the stage goes to the link */
} state;

struct gt_hotpath {
    state state;
    gt_detector detector;
    gt_segment_plan segment[GT_HOT_SEGMENTS]; /* to be learned, in order */
    unsigned segments, segment_next;
    gt_template *entry[ENTRIES]; /* by the shape of their first record */
    gt_template *holding;
    gt_occurrence occurrence;
    gt_slot *stage; /* records that are learned, held back or drained */
    uint32_t staged, drained, records;
    uint32_t *live;                  /* by record held back: tensors alive before it */
    int64_t work;                    /* of the records held back */
    gt_ids freed;                    /* since the first of the staged records */
    gt_slot *write_next, *write_end; /* of the link, while its window is the stage */
    uint32_t next_number;
    gt_template *named[GT_PATHS]; /* by path number */
    gt_hotpath_stats stats;
};

/* ---- life --------------------------------------------------------------------------------------------------- */

gt_hotpath *gt__hotpath_new(void)
{
    if (gt__setting(GT_SETTING_AUTO_COMPILE) == 0 && gt__setting(GT_SETTING_COMPILE) == 0)
        return NULL;
    unsigned threshold =
        gt__setting(GT_SETTING_COMPILE) != 0 ? 2 : (unsigned)gt__setting(GT_SETTING_HOTPATH_THRESHOLD);
    gt_hotpath *hot = calloc(1, sizeof *hot);
    if (!hot)
        return NULL;
    hot->stage = malloc(STAGE_SLOTS * sizeof *hot->stage);
    hot->live = malloc(STAGE_SLOTS * sizeof *hot->live);
    hot->occurrence.input = malloc(GT_PATH_WORDS * sizeof *hot->occurrence.input);
    bool good = gt__detector_init(&hot->detector, (unsigned)gt__setting(GT_SETTING_HOTPATH_WINDOW), threshold,
                                  (unsigned)gt__setting(GT_SETTING_HOTPATH_MIN_SEQ));
    if (!good || !hot->stage || !hot->live || !hot->occurrence.input)
        gt__hotpath_free(&hot);
    return hot;
}

static void forget_template(gt_hotpath *hot, gt_template *template)
{
    gt_template **where = &hot->entry[template->entry % ENTRIES];
    while (*where != template)
        where = &(*where)->next;
    *where = template->next;
    for (unsigned k = 0; k < GT_PATHS; k++)
        if (hot->named[k] == template)
            hot->named[k] = NULL;
    gt__template_free(template);
    hot->stats.hot_sequences--;
}

void gt__hotpath_free(gt_hotpath **where)
{
    gt_hotpath *hot = *where;
    if (!hot)
        return;
    for (unsigned k = 0; k < ENTRIES; k++)
        while (hot->entry[k])
            forget_template(hot, hot->entry[k]);
    gt__detector_free(&hot->detector);
    free(hot->freed.id);
    free(hot->occurrence.input);
    free(hot->live);
    free(hot->stage);
    free(hot);
    *where = NULL;
}

gt_hotpath_stats gt__hotpath_stats(const gt_client *client)
{
    return client->hotpath ? client->hotpath->stats : (gt_hotpath_stats){0};
}

/* ---- the stage ---------------------------------------------------------------------------------------------- */

/* Records go to the stage instead of the link. */
static void open_stage(gt_hotpath *hot, gt_link *link)
{
    hot->write_next = link->write_next;
    hot->write_end = link->write_end;
    link->write_next = hot->stage + hot->staged;
    link->write_end = hot->stage + STAGE_SLOTS;
}

static void close_stage(gt_hotpath *hot, gt_link *link)
{
    link->write_next = hot->write_next;
    link->write_end = link->gone ? hot->write_next : hot->write_end; /* it may have been lost meanwhile */
}

/* The frees that were collected go the usual way. */
static void return_frees(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    for (size_t k = 0; k < hot->freed.count; k++)
        gt__client_free_id(client, hot->freed.id[k], 0);
    hot->freed.count = 0;
}

bool gt__hotpath_drain(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    while (hot->drained < hot->staged) {
        const gt_slot *record = hot->stage + hot->drained;
        unsigned length = 1u + record->ins.tail;
        gt_slot *out = gt__link_reserve(client->link, length);
        if (!out)
            return false;
        memcpy(out, record, length * sizeof *out);
        hot->drained += length;
        gt__client_publish(client, length, hot->drained == hot->staged ? hot->work : 0);
    }
    hot->state = WATCHING;
    client->draining = false;
    return_frees(client);
    return true;
}

/* The records held back do not become a path. */
static void give_up(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    close_stage(hot, client->link);
    hot->holding = NULL;
    hot->drained = 0;
    hot->state = DRAINING;
    client->draining = true;
    gt__hotpath_drain(client);
}

/* ---- learning ----------------------------------------------------------------------------------------------- */

static void stop_learning(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    hot->state = WATCHING;
    hot->segments = hot->segment_next = 0;
    hot->freed.count = 0; /* these frees have been sent */
}

/* Frees that wait in the client's queue are as good as sent. */
static bool collect_queued(gt_client *client)
{
    gt_ids *freed = &client->hotpath->freed;
    size_t before = freed->count;
    for (size_t k = 0; k < client->free_count; k++)
        if (!gt__ids_add(freed, client->frees[k])) {
            freed->count = before;
            return false;
        }
    return true;
}

static void say_found(const gt_hotpath *hot, const gt_template *template)
{
    char text[512] = "";
    size_t length = 0;
    if (!gt__log_on(GT_LOG_COMPILE))
        return;
    for (uint32_t k = 0; k < template->count && length < sizeof text - 40; k++) {
        const gt_instruction *ins = &template->records[template->at[k]].ins;
        length += (size_t)snprintf(text + length, sizeof text - length, k ? " -> %s:in%u" : "%s:in%u",
                                   gt__op_table[ins->op].name, gt__op_operands((gt_opcode)ins->op));
    }
    gt__log(GT_LOG_COMPILE, "[HotPath] Detected hot sequence after %u reps: Stream(%06x:%uops)",
            hot->detector.threshold, template->entry >> 8, template->count);
    gt__log(GT_LOG_COMPILE, "    %s%s", text, length >= sizeof text - 40 ? " -> ..." : "");
}

/* Whether there is a template of the same records, after which the same values are dead. */
static bool is_known(const gt_hotpath *hot, const gt_template *template, uint32_t entry)
{
    for (const gt_template *t = hot->entry[entry % ENTRIES]; t; t = t->next)
        if (gt__template_same(t, template))
            return true;
    return false;
}

static void add_template(gt_hotpath *hot, gt_template *template, uint32_t entry)
{
    if (is_known(hot, template, entry)) {
        gt__template_free(template);
        return;
    }
    template->entry = entry;
    template->used = hot->stats.instructions;
    template->next = hot->entry[entry % ENTRIES];
    hot->entry[entry % ENTRIES] = template;
    hot->stats.hot_sequences++;
    say_found(hot, template);
}

/* The record is one of a segment that is learned; it has been committed. */
static void learn(gt_client *client, const gt_slot *record, unsigned slots)
{
    gt_hotpath *hot = client->hotpath;
    const gt_segment_plan *segment = &hot->segment[hot->segment_next];
    uint64_t position = hot->detector.position - 1; /* of this record, which was seen just now */
    if (position < segment->begin)
        return;
    if (position == segment->begin) {
        hot->staged = hot->records = 0;
        hot->freed.count = 0;
    }
    if (hot->staged + slots > GT_PATH_SLOTS / 4) {
        stop_learning(client);
        return;
    }
    memcpy(hot->stage + hot->staged, record, slots * sizeof *record);
    hot->staged += slots;
    hot->records++;
    if (position + 1 < segment->end)
        return;
    gt_template *template =
        collect_queued(client) ? gt__template_new(hot->stage, hot->staged, hot->records, &hot->freed) : NULL;
    hot->freed.count = 0;
    if (template)
        add_template(hot, template, gt__canonical(hot->stage).shape);
    if (++hot->segment_next == hot->segments)
        stop_learning(client);
}

/* ---- watching ----------------------------------------------------------------------------------------------- */

/* Forget the template that was used longest ago. */
static void drop_oldest(gt_hotpath *hot)
{
    gt_template *oldest = NULL;
    for (unsigned k = 0; k < ENTRIES; k++)
        for (gt_template *t = hot->entry[k]; t; t = t->next)
            if (!oldest || t->used < oldest->used)
                oldest = t;
    if (oldest)
        forget_template(hot, oldest);
}

static void watch(gt_client *client, const gt_slot *record, unsigned slots, gt_canonical canonical, int64_t work)
{
    gt_hotpath *hot = client->hotpath;
    if (hot->state == LEARNING && !gt__detector_expects(&hot->detector, canonical))
        stop_learning(client);
    bool found = gt__detector_see(&hot->detector, canonical, client->live, work, false);
    if (hot->state == LEARNING)
        learn(client, record, slots);
    else if (found) {
        while (hot->stats.hot_sequences >= MOST_TEMPLATES)
            drop_oldest(hot);
        hot->stats.sequences++;
        hot->segments = gt__detector_cut(&hot->detector, hot->segment);
        hot->segment_next = 0;
        if (hot->segments)
            hot->state = LEARNING;
    }
}

/* ---- holding ------------------------------------------------------------------------------------------------ */

static gt_template *find_template(const gt_hotpath *hot, uint32_t shape, gt_template *after)
{
    gt_template *template = after ? after->next : hot->entry[shape % ENTRIES];
    while (template && template->entry != shape)
        template = template->next;
    return template;
}

/* The staged records, the last one included, against the templates after `template`: the first that they fit. */
static gt_template *find_fitting(gt_hotpath *hot, gt_template *template, uint32_t entry)
{
    while ((template = find_template(hot, entry, template))) {
        uint32_t at = 0;
        hot->occurrence.fitted = 0;
        while (at < hot->staged && hot->occurrence.fitted < template->count &&
               gt__template_fits(template, &hot->occurrence, hot->stage + at))
            at += 1u + hot->stage[at].ins.tail;
        if (at == hot->staged)
            return template;
    }
    return NULL;
}

/* Send a definition. False: there is no room for it now. */
static bool send_definition(gt_client *client, uint32_t number, const gt_slot *definition, size_t slots)
{
    for (size_t at = 0; at < slots;) {
        size_t length = slots - at < GT_PATH_PIECE ? slots - at : GT_PATH_PIECE;
        gt_slot *out = gt__link_reserve(client->link, 1 + (unsigned)length);
        if (!out)
            return false;
        memset(out, 0, sizeof *out);
        out->ins.op = GT_OP_path;
        out->ins.result = number;
        out->ins.imm[0].u = at;
        out->ins.imm[1].u = slots;
        out->ins.tail = (uint16_t)length;
        memcpy(out + 1, definition + at, length * sizeof *out);
        at += length;
        gt__client_publish(client, 1 + (unsigned)length, 0);
    }
    return true;
}

/* Have the server know the template's path. Numbers are used in turn: the template that had it before gets another one. */
static bool define(gt_client *client, gt_template *template)
{
    gt_hotpath *hot = client->hotpath;
    size_t slots;
    gt_slot *definition = gt__template_define(template, &slots);
    uint32_t number = hot->next_number++ % GT_PATHS;
    if (!definition)
        return false;
    if (hot->named[number])
        hot->named[number]->number = 0;
    hot->named[number] = NULL;
    bool sent = send_definition(client, number, definition, slots);
    free(definition);
    if (!sent)
        return false;
    hot->named[number] = template;
    template->number = number + 1;
    return true;
}

/* The run of a path that has fitted to its end. False: there is no room for it. `others`: ids to be freed after it. */
static bool send_run(gt_client *client, gt_template *template, const uint64_t *others, size_t other_count)
{
    gt_hotpath *hot = client->hotpath;
    uint64_t word[GT_PATH_WORDS];
    uint32_t words = gt__template_words(template, &hot->occurrence, hot->stage, word);
    if (words + other_count > GT_PATH_WORDS || (!template->number && !define(client, template)))
        return false;
    if (other_count)
        memcpy(word + words, others, other_count * sizeof *word);
    words += (uint32_t)other_count;
    unsigned tail = gt__slots_for(words * sizeof *word);
    gt_slot *out = gt__link_reserve(client->link, 1 + tail);
    if (!out)
        return false;
    memset(out, 0, sizeof *out);
    out->ins.op = GT_OP_repeat;
    out->ins.tail = (uint16_t)tail;
    out->ins.result = template->number - 1;
    out->ins.operand[0] = hot->occurrence.first;
    out->ins.imm[0].u = words;
    memcpy(out + 1, word, words * sizeof *word);
    gt__slots_pad(out + 1, words * sizeof *word);
    gt__client_publish(client, 1 + tail, hot->work);
    if (hot->staged > 1 + tail)
        hot->stats.bytes_saved += (hot->staged - 1 - tail) * sizeof *out;
    return true;
}

/* Take the frees that wait in the client's queue, which ones is decided later. */
static void take_queued(gt_client *client)
{
    if (collect_queued(client)) {
        client->free_count = 0;
        client->free_bytes = 0;
    }
}

/* The detector goes on while records are held back: a path may be part of a longer one. What it finds with them it finds
 * again with the next record. */
static void see_staged(gt_hotpath *hot, bool in_path)
{
    bool told = hot->detector.told;
    for (uint32_t at = 0, k = 0; at < hot->staged; at += 1u + hot->stage[at].ins.tail) {
        const gt_slot *record = hot->stage + at;
        if (record->ins.op < GT_OP_FIRST_CONTROL && record->ins.op != GT_OP_upload)
            told &= !gt__detector_see(&hot->detector, gt__canonical(record), hot->live[k++], 0, in_path);
    }
    hot->detector.told &= told;
}

/* Something else is alive after the records than after those of the templates: that is another path. Where that
 * is another one each time, only a few are kept: all that begin alike are compared with the records. */
static void add_sibling(gt_hotpath *hot, gt_template *template)
{
    unsigned alike = 0;
    template->misses++;
    template->since++;
    hot->stats.misses++;
    for (gt_template *t = NULL; (t = find_template(hot, template->entry, t));)
        alike++;
    if (alike < MOST_ALIKE && hot->stats.hot_sequences < MOST_TEMPLATES) {
        gt_template *sibling = gt__template_new(hot->stage, hot->staged, template->count, &hot->freed);
        if (sibling)
            add_template(hot, sibling, template->entry);
    } else if (template->since >= PATIENCE && template->misses > template->hits)
        forget_template(hot, template);
}

/* All records of the template have come. */
static void finish(gt_client *client)
{
    gt_hotpath *hot = client->hotpath;
    gt_template *template = hot->holding, *first = template;
    size_t others = 0;
    take_queued(client);
    while (template && (hot->occurrence.fitted != template->count ||
                        !gt__template_ends(template, &hot->occurrence, &hot->freed, &others)))
        template = find_fitting(hot, template, template->entry);
    if (!template) {
        add_sibling(hot, first);
        give_up(client);
        return;
    }
    close_stage(hot, client->link);
    if (!send_run(client, template, hot->freed.id, others)) {
        open_stage(hot, client->link);
        give_up(client);
        return;
    }
    template->hits++;
    template->since = 0;
    template->used = hot->stats.instructions;
    hot->stats.runs++;
    hot->stats.hot_instructions += template->count;
    hot->freed.count = 0;
    hot->holding = NULL;
    hot->state = WATCHING;
    see_staged(hot, true);
}

static void miss(gt_client *client, gt_template *template)
{
    gt_hotpath *hot = client->hotpath;
    template->misses++;
    hot->stats.misses++;
    if (++template->since >= PATIENCE && template->misses > template->hits)
        forget_template(hot, template);
    see_staged(hot, false);
    give_up(client);
}

/* One more computing record is in the stage. */
static void hold(gt_client *client, const gt_slot *record, unsigned slots, int64_t work)
{
    gt_hotpath *hot = client->hotpath;
    gt_template *template = hot->holding;
    hot->staged += slots;
    client->link->write_next = hot->stage + hot->staged;
    hot->work += work;
    hot->live[hot->records++] = (uint32_t)client->live;
    if (!gt__template_fits(template, &hot->occurrence, record)) {
        gt_template *other = find_fitting(hot, template, template->entry);
        if (!other) {
            miss(client, template);
            return;
        }
        hot->holding = template = other;
    }
    if (hot->occurrence.fitted == template->count)
        finish(client);
}

/* A record that may begin a path; it is still in the link's window. */
static bool begin(gt_client *client, const gt_slot *record, unsigned slots, uint32_t shape, int64_t work)
{
    gt_hotpath *hot = client->hotpath;
    hot->staged = slots;
    memcpy(hot->stage, record, slots * sizeof *record);
    gt_template *template = find_fitting(hot, NULL, shape);
    if (!template)
        return false;
    hot->holding = template;
    hot->state = HOLDING;
    hot->freed.count = 0;
    hot->work = work;
    hot->live[0] = (uint32_t)client->live;
    hot->records = 1;
    open_stage(hot, client->link);
    if (hot->occurrence.fitted == template->count)
        finish(client);
    return true;
}

/* ---- records ------------------------------------------------------------------------------------------------ */

static bool take_free(gt_client *client, const gt_instruction *ins)
{
    gt_hotpath *hot = client->hotpath;
    if (hot->state != LEARNING && hot->state != HOLDING)
        return false;
    const uint64_t *ids = gt__free_ids(ins);
    for (unsigned k = 0; k < GT_FREE_IDS; k++)
        if (ids[k] && !gt__ids_add(&hot->freed, ids[k]))
            hot->freed.count = 0; /* out of memory: the tensors stay until the client leaves */
    return hot->state == HOLDING;
}

/* A record that cannot be part of a path. */
static bool take_other(gt_client *client, unsigned slots)
{
    gt_hotpath *hot = client->hotpath;
    bool held = hot->state == HOLDING;
    if (held) {
        hot->staged += slots;
        miss(client, hot->holding);
    }
    hot->detector.separator = true; /* before the next record, and not before those that were held back */
    return held;
}

bool gt__hotpath_take(gt_client *client, unsigned slots, int64_t work)
{
    gt_hotpath *hot = client->hotpath;
    const gt_slot *record = client->link->write_next;
    if (__builtin_expect(record->ins.op >= GT_OP_FIRST_CONTROL, 0)) {
        if (record->ins.op == GT_OP_free)
            return take_free(client, &record->ins);
        if (record->ins.op == GT_OP_site && hot->state != HOLDING)
            return false;
        return take_other(client, slots);
    }
    if (__builtin_expect(record->ins.op == GT_OP_upload, 0))
        return take_other(client, slots);
    hot->stats.instructions++;
    if (hot->state == HOLDING) {
        hold(client, record, slots, work);
        return true;
    }
    gt_canonical canonical = gt__canonical(record);
    if (hot->entry[canonical.shape % ENTRIES] && hot->state == WATCHING &&
        begin(client, record, slots, canonical.shape, work))
        return true;
    watch(client, record, slots, canonical, work);
    return false;
}

void gt__hotpath_release(gt_client *client)
{
    if (client->hotpath->state == HOLDING && client->generation == gt__fork_generation)
        miss(client, client->hotpath->holding);
}

/* ---- texts -------------------------------------------------------------------------------------------------- */

static void write_path(const gt_template *t, FILE *json)
{
    uint32_t parameters = 0, dead = 0;
    for (uint32_t k = 0; k < t->count; k++) {
        parameters += (uint32_t)__builtin_popcount(t->parameters[k]);
        dead += t->dead[k];
    }
    fprintf(json,
            "{\"name\": \"%06x\", \"instructions\": %u, \"runs\": %llu, \"misses\": %llu, \"inputs\": %u, "
            "\"parameters\": %u, \"intermediates\": %u, \"steps\": [",
            t->entry >> 8, t->count, (unsigned long long)t->hits, (unsigned long long)t->misses, t->inputs,
            parameters, dead);
    for (uint32_t k = 0; k < t->count; k++) {
        const gt_instruction *ins = &t->records[t->at[k]].ins;
        fprintf(json, "%s[\"%s\", %u]", k ? ", " : "", gt__op_table[ins->op].name, ins->site);
    }
    fputs("]}", json);
}

char *gt__hotpath_json(const gt_client *client)
{
    static const gt_hotpath off;
    const gt_hotpath *hot = client->hotpath ? client->hotpath : &off;
    const gt_hotpath_stats *s = &hot->stats;
    char *text = NULL;
    size_t size;
    const char *separator = "";
    FILE *json = open_memstream(&text, &size);
    if (!json)
        return NULL;
    fprintf(
        json,
        "{\"enabled\": %s, \"total_instructions\": %llu, \"hot_instructions\": %llu, \"unique_sequences\": %llu, "
        "\"hot_sequences\": %llu, \"hot_threshold\": %u, \"window_size\": %u, \"min_sequence_length\": %u, "
        "\"runs\": %llu, \"misses\": %llu, \"bytes_saved\": %llu, \"paths\": [",
        client->hotpath ? "true" : "false", (unsigned long long)s->instructions,
        (unsigned long long)s->hot_instructions, (unsigned long long)s->sequences,
        (unsigned long long)s->hot_sequences, hot->detector.threshold, hot->detector.window,
        hot->detector.shortest, (unsigned long long)s->runs, (unsigned long long)s->misses,
        (unsigned long long)s->bytes_saved);
    for (unsigned k = 0; k < ENTRIES; k++)
        for (const gt_template *t = hot->entry[k]; t; t = t->next) {
            fputs(separator, json);
            write_path(t, json);
            separator = ", ";
        }
    fputs("]}", json);
    return fclose(json) == 0 ? text : (free(text), NULL);
}
