/*
 * read.c: from the frames of a journal to the sessions they tell of. See restored.h for the result, frame.h for what the frames mean.
 * restored.c finds the files.
 *
 * A frame that is whole but says something impossible ends the reading like one that is not whole.
 */
#include "dispatcher/journal/read.h"

#include <errno.h>
#include <stdlib.h>

#include "dispatcher/journal/codec.h"

/* A tensor that the next CUT may name. */
typedef struct table_entry {
    uint64_t number;
    gt_saved *saved;
    uint32_t part;   /* the next bytes belong to this one, */
    uint64_t offset; /* here */
    bool named;
} table_entry;

/* A list that grows. */
typedef struct growing {
    void *items;
    size_t count, capacity;
} growing;

/* What the frames say of one session. */
typedef struct session_story {
    struct session_story *next;
    gt_restored_session *session; /* its strings, texts, workers and state; the rest is here until the end */
    uint64_t first_record, first_refusal;
    growing records, refusals; /* of slots, gt_refusals */
    size_t whole_slots;        /* of the records, those of turns that are complete */
    uint32_t whole_refusals, whole_sites, whole_reasons;
    growing table; /* of table_entries, by number */
    size_t *cut;   /* places in the table, in the snapshot's order */
    size_t cut_count;
    gt_frame_cut snapshot; /* what the last CUT said */
    bool has_cut;
    bool doubtful; /* frames are missing behind what it is now */
} session_story;

struct gt_journal_reader {
    session_story *stories; /* sessions as they are */
    session_story *staged;  /* the one that is described anew; NULL: none is */
    growing workers;
    gt_frame_workers numbers;
    bool has_workers;
    uint64_t frames, last_session;
};

/* Room for `more` items at the end, or none; NULL: out of memory. */
static void *grow(growing *list, size_t more, size_t size)
{
    if (!list->items || list->capacity - list->count < more) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        capacity = capacity < list->count + more ? list->count + more : capacity;
        void *grown = realloc(list->items, capacity * size);
        if (!grown)
            return NULL;
        list->items = grown;
        list->capacity = capacity;
    }
    return (char *)list->items + list->count * size;
}

static table_entry *entries(const session_story *story)
{
    return story->table.items;
}

/* ---- life --------------------------------------------------------------------------------------------------- */

void gt__restored_session_free(gt_restored_session *session)
{
    if (!session)
        return;
    gt__snapshot_free(&session->saved);
    gt__slot_queue_free(&session->state);
    gt__texts_free(&session->sites);
    gt__texts_free(&session->reasons);
    explicit_bzero(session->secret, sizeof session->secret);
    free(session->records);
    free(session->refusals);
    free(session->workers);
    free(session->left_out);
    gt__successors_free(&session->successors);
    explicit_bzero(session->token, sizeof session->token);
    free(session->parcel);
    free(session);
}

static void story_free(session_story *story)
{
    if (!story)
        return;
    for (size_t k = 0; k < story->table.count; k++)
        gt__saved_release(entries(story)[k].saved);
    gt__restored_session_free(story->session);
    free(story->records.items);
    free(story->refusals.items);
    free(story->table.items);
    free(story->cut);
    free(story);
}

gt_journal_reader *gt__journal_reader_new(void)
{
    return calloc(1, sizeof(gt_journal_reader));
}

void gt__journal_reader_free(gt_journal_reader *reader)
{
    while (reader->stories) {
        session_story *next = reader->stories->next;
        story_free(reader->stories);
        reader->stories = next;
    }
    story_free(reader->staged);
    free(reader->workers.items);
    free(reader);
}

static session_story **find(gt_journal_reader *reader, uint64_t number)
{
    session_story **at = &reader->stories;
    while (*at && (*at)->session->number != number)
        at = &(*at)->next;
    return at;
}

/* The one that a frame is about; NULL: there is none. */
static session_story *story_of(gt_journal_reader *reader, const gt_frame *frame)
{
    bool staged = reader->staged && reader->staged->session->number == frame->session;
    return staged ? reader->staged : *find(reader, frame->session);
}

static void forget(gt_journal_reader *reader, uint64_t number)
{
    session_story **at = find(reader, number), *gone = *at;
    if (gone)
        *at = gone->next;
    story_free(gone);
}

/* ---- frames ------------------------------------------------------------------------------------------------- */

static bool read_session(gt_journal_reader *reader, const gt_frame *frame, gt_frame_cursor cursor)
{
    const gt_frame_session *who = gt__frame_take(&cursor, 1, sizeof *who);
    if (!who || cursor.left || !frame->session || !memchr(who->user, 0, sizeof who->user) ||
        !memchr(who->host, 0, sizeof who->host) || !memchr(who->key, 0, sizeof who->key) ||
        !memchr(who->name, 0, sizeof who->name))
        return false;
    session_story *story = calloc(1, sizeof *story);
    gt_restored_session *session = story ? calloc(1, sizeof *session) : NULL;
    if (!session) {
        free(story);
        return false;
    }
    story->session = session;
    story->first_record = who->first_record;
    story->first_refusal = who->first_refusal;
    session->number = frame->session;
    session->home = -1;
    memcpy(session->secret, who->secret, sizeof session->secret);
    memcpy(session->user, who->user, sizeof session->user);
    memcpy(session->host, who->host, sizeof session->host);
    memcpy(session->key, who->key, sizeof session->key);
    memcpy(session->name, who->name, sizeof session->name);
    story_free(reader->staged);
    reader->staged = story;
    reader->last_session = frame->session > reader->last_session ? frame->session : reader->last_session;
    return true;
}

/* Whether these slots are whole records. */
static bool are_records(const gt_slot *slots, size_t count)
{
    size_t at = 0;
    while (at < count)
        at += 1u + slots[at].ins.tail;
    return at == count;
}

/* Add those of the records that belong to the state, or all of them. */
static bool add_state(session_story *story, const gt_slot *slots, size_t count, bool all)
{
    for (size_t at = 0; at < count; at += 1u + slots[at].ins.tail)
        if ((all || gt__recover_is_state((gt_opcode)slots[at].ins.op)) &&
            !gt__slot_queue_append(&story->session->state, slots + at))
            return false;
    return true;
}

static bool read_state(const gt_journal_reader *reader, session_story *story, gt_frame_cursor cursor)
{
    size_t count = cursor.left / sizeof(gt_slot);
    const gt_slot *slots = gt__frame_take(&cursor, count, sizeof *slots);
    return story == reader->staged && !story->has_cut && !cursor.left && are_records(slots, count) &&
           add_state(story, slots, count, true);
}

/* Of a new description, before its tensors. */
static bool read_detached(const gt_journal_reader *reader, session_story *story, gt_frame_cursor cursor,
                          uint32_t bytes)
{
    gt_restored_session *session = story->session;
    const gt_frame_detached *frame = gt__frame_take(&cursor, 1, sizeof *frame);
    if (!frame || story != reader->staged || *session->token || !*frame->token ||
        !memchr(frame->token, 0, sizeof frame->token) || frame->bytes > GT_MOST_PARCEL ||
        frame->bytes != bytes - sizeof *frame || frame->kept > frame->bytes / sizeof(uint64_t) ||
        !(session->parcel = malloc(frame->bytes + 1)))
        return false;
    memcpy(session->parcel, cursor.at, frame->bytes);
    memcpy(session->token, frame->token, sizeof session->token);
    session->parcel_bytes = frame->bytes;
    session->parcel_kept = frame->kept;
    session->until_ns = frame->until_ns;
    return true;
}

static bool read_successors(const gt_journal_reader *reader, session_story *story, gt_frame_cursor cursor)
{
    size_t count = cursor.left / sizeof(gt_frame_successor);
    const gt_frame_successor *list = gt__frame_take(&cursor, count, sizeof *list);
    gt_successors *successors = &story->session->successors;
    if (story != reader->staged || successors->count || cursor.left || count > GT_MAX_PARTIES)
        return false;
    for (size_t k = 0; k < count; k++)
        if (list[k].number < 0 || list[k].number >= GT_MAX_PARTIES || list[k].worker < 0 ||
            list[k].worker >= GT_MAX_PARTIES || list[k].worker == list[k].number)
            return false;
    gt_successor *copy = malloc((count + 1) * sizeof *copy);
    if (!copy)
        return false;
    for (size_t k = 0; k < count; k++)
        copy[k] = (gt_successor){.number = list[k].number, .worker = list[k].worker};
    free(successors->list);
    *successors = (gt_successors){.list = copy, .count = (unsigned)count, .capacity = (unsigned)count + 1};
    return true;
}

/* Parts without bytes have no DATA. */
static void skip_empty(table_entry *entry)
{
    while (entry->part < entry->saved->part_count &&
           entry->offset == gt__meta_bytes(&entry->saved->part[entry->part].meta)) {
        entry->part++;
        entry->offset = 0;
    }
}

static bool read_tensor(session_story *story, gt_frame_cursor cursor)
{
    size_t count = story->table.count;
    table_entry *entry = grow(&story->table, 1, sizeof *entry);
    uint64_t number;
    gt_saved *saved = entry ? gt__saved_decode(cursor, &number) : NULL;
    if (!saved)
        return false;
    if (count && entries(story)[count - 1].number >= number) {
        gt__saved_release(saved);
        return false;
    }
    *entry = (table_entry){.number = number, .saved = saved};
    story->table.count++;
    skip_empty(entry);
    return true;
}

static table_entry *find_entry(const session_story *story, uint64_t number)
{
    size_t first = 0, end = story->table.count;
    while (first < end) {
        size_t middle = (first + end) / 2;
        if (entries(story)[middle].number < number)
            first = middle + 1;
        else
            end = middle;
    }
    bool found = first < story->table.count && entries(story)[first].number == number;
    return found ? &entries(story)[first] : NULL;
}

static bool read_data(session_story *story, gt_frame_cursor cursor, uint32_t bytes)
{
    const gt_frame_data *head = gt__frame_take(&cursor, 1, sizeof *head);
    table_entry *entry = head ? find_entry(story, head->number) : NULL;
    if (!entry || entry->part != head->part || entry->offset != head->offset ||
        entry->part >= entry->saved->part_count)
        return false;
    gt_saved_part *part = &entry->saved->part[entry->part];
    uint64_t piece = bytes - sizeof *head;
    if (!piece || piece > gt__meta_bytes(&part->meta) - entry->offset)
        return false;
    /* As much as came: memory for all that a damaged frame wants may not be there. */
    uint8_t *data = realloc(part->data, entry->offset + piece);
    if (!data)
        return false;
    part->data = data;
    memcpy(data + entry->offset, head + 1, piece);
    entry->offset += piece;
    skip_empty(entry);
    return true;
}

/* Whether the part has not come yet: it is the next one, or has no bytes, for which nothing but a failure comes. */
static bool may_fail(const table_entry *entry, uint32_t part)
{
    if (part >= entry->saved->part_count || entry->saved->part[part].failure)
        return false;
    return !gt__meta_bytes(&entry->saved->part[part].meta) || (part == entry->part && !entry->offset);
}

/* In the place of all data of the part. */
static bool read_failure(session_story *story, gt_frame_cursor cursor)
{
    const gt_frame_failure *head = gt__frame_take(&cursor, 1, sizeof *head);
    table_entry *entry = head ? find_entry(story, head->number) : NULL;
    size_t slots = cursor.left / sizeof(gt_slot), bytes = slots * sizeof(gt_slot);
    const gt_slot *failure = gt__frame_take(&cursor, slots, sizeof *failure);
    unsigned length;
    if (!entry || !failure || cursor.left || !may_fail(entry, head->part) || !slots ||
        failure->ins.op != GT_OP_failure || !(failure->ins.flags & GT_FLAG_POISON) ||
        failure->ins.imm[0].i <= GT_OK || failure->ins.imm[0].i >= GT_ERROR_COUNT ||
        gt__instruction_check(failure, slots, &length) != GT_OK || length != slots)
        return false;
    gt_saved_part *part = &entry->saved->part[head->part];
    if (!(part->failure = malloc(bytes)))
        return false;
    memcpy(part->failure, failure, bytes);
    entry->part += entry->part == head->part;
    skip_empty(entry);
    return true;
}

/* Records before the cut are void, but for those that belong to the state. */
static bool drop_before(session_story *story, const gt_frame_cut *cut)
{
    gt_slot *slots = story->records.items;
    gt_refusal *refusals = story->refusals.items;
    uint64_t gone = cut->record - story->first_record, refused = cut->refusal - story->first_refusal;
    if (cut->record < story->first_record || gone > story->whole_slots || cut->refusal < story->first_refusal ||
        refused > story->whole_refusals || story->records.count != story->whole_slots ||
        !are_records(slots, gone) || !add_state(story, slots, gone, false))
        return false;
    story->first_record += gone;
    story->records.count = story->whole_slots -= gone;
    if (gone && story->records.count)
        memmove(slots, slots + gone, story->records.count * sizeof *slots);
    story->first_refusal += refused;
    story->refusals.count = story->whole_refusals -= (uint32_t)refused;
    if (refused && story->refusals.count)
        memmove(refusals, refusals + refused, story->refusals.count * sizeof *refusals);
    return true;
}

/* Mark the tensors that it names. False: one of them is not there, not complete, or named twice. */
static bool name_tensors(const session_story *story, const uint64_t *numbers, size_t count)
{
    for (size_t k = 0; k < story->table.count; k++)
        entries(story)[k].named = false;
    for (size_t k = 0; k < count; k++) {
        table_entry *entry = find_entry(story, numbers[k]);
        if (!entry || entry->named || entry->part < entry->saved->part_count)
            return false;
        entry->named = true;
    }
    return true;
}

static bool read_cut(session_story *story, gt_frame_cursor cursor)
{
    const gt_frame_cut *cut = gt__frame_take(&cursor, 1, sizeof *cut);
    const uint64_t *numbers = cut ? gt__frame_take(&cursor, cut->tensors, sizeof *numbers) : NULL;
    if (!numbers || cursor.left || !name_tensors(story, numbers, cut->tensors))
        return false;
    size_t *places = malloc(((size_t)cut->tensors + 1) * sizeof *places), kept = 0;
    if (!places || !drop_before(story, cut)) {
        free(places);
        return false;
    }
    for (size_t k = 0; k < story->table.count; k++)
        if (entries(story)[k].named)
            entries(story)[kept++] = entries(story)[k];
        else
            gt__saved_release(entries(story)[k].saved);
    story->table.count = kept;
    for (size_t k = 0; k < cut->tensors; k++)
        places[k] = (size_t)(find_entry(story, numbers[k]) - entries(story));
    free(story->cut);
    story->cut = places;
    story->cut_count = cut->tensors;
    story->snapshot = *cut;
    story->has_cut = true;
    return true;
}

/* A text that the frame has next. NULL: malformed, or out of memory. */
static char *take_text(gt_frame_cursor *cursor)
{
    const gt_frame_text *text = gt__frame_take(cursor, 1, sizeof *text);
    const char *bytes = text ? gt__frame_take(cursor, text->bytes, 1) : NULL;
    return bytes && !memchr(bytes, 0, text->bytes) ? strndup(bytes, text->bytes) : NULL;
}

static bool take_texts(gt_frame_cursor *cursor, gt_texts *texts, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        char *text = take_text(cursor);
        bool added = text && gt__texts_add(texts, text);
        free(text);
        if (!added)
            return false;
    }
    return true;
}

static bool add_refusals(session_story *story, const gt_frame_refusal *refusals, uint32_t count)
{
    gt_refusal *to = grow(&story->refusals, count, sizeof *to);
    for (uint32_t k = 0; to && k < count; k++) {
        if (refusals[k].limit >= GT_LIMIT_COUNT)
            return false;
        to[k] = (gt_refusal){.id = refusals[k].id,
                             .limit = (gt_limit)refusals[k].limit,
                             .used = refusals[k].used,
                             .more = refusals[k].more};
    }
    story->refusals.count += to ? count : 0;
    return to;
}

static bool set_workers(gt_restored_session *session, const int32_t *workers, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++)
        if (workers[k] < 0 || workers[k] >= GT_MAX_PARTIES)
            return false;
    int32_t *copy = malloc((count + 1) * sizeof *copy);
    if (!copy)
        return false;
    memcpy(copy, workers, count * sizeof *copy);
    free(session->workers);
    session->workers = copy;
    session->worker_count = count;
    return true;
}

/* The turn is complete: all of it counts. */
static void end_turn(gt_journal_reader *reader, session_story *story)
{
    story->whole_slots = story->records.count;
    story->whole_refusals = (uint32_t)story->refusals.count;
    story->whole_sites = story->session->sites.count;
    story->whole_reasons = story->session->reasons.count;
    if (story != reader->staged)
        return;
    forget(reader, story->session->number);
    reader->staged = NULL;
    story->next = reader->stories;
    reader->stories = story;
}

static bool read_turn(gt_journal_reader *reader, session_story *story, gt_frame_cursor cursor)
{
    gt_restored_session *session = story->session;
    const gt_frame_turn *turn = gt__frame_take(&cursor, 1, sizeof *turn);
    const gt_slot *slots = turn ? gt__frame_take(&cursor, turn->slots, sizeof *slots) : NULL;
    const int32_t *workers = slots ? gt__frame_take(&cursor, turn->workers, sizeof *workers) : NULL;
    const gt_frame_refusal *refusals = workers ? gt__frame_take(&cursor, turn->refusals, sizeof *refusals) : NULL;
    if (!refusals || turn->first != story->first_record + story->records.count || turn->home < -1 ||
        turn->home >= GT_MAX_PARTIES || turn->last > 1 || turn->left_out > turn->last || !(turn->weight > 0) ||
        (turn->workers && !turn->last) || !are_records(slots, turn->slots) ||
        !add_refusals(story, refusals, turn->refusals))
        return false;
    gt_slot *to = grow(&story->records, turn->slots, sizeof *to);
    if (!to || !take_texts(&cursor, &session->sites, turn->sites) ||
        !take_texts(&cursor, &session->reasons, turn->reasons))
        return false;
    char *left_out = turn->left_out ? take_text(&cursor) : NULL;
    if ((turn->left_out && !left_out) || cursor.left ||
        (turn->last && !set_workers(session, workers, turn->workers))) {
        free(left_out);
        return false;
    }
    memcpy(to, slots, turn->slots * sizeof *to);
    story->records.count += turn->slots;
    if (!turn->last)
        return true;
    if (left_out) {
        free(session->left_out);
        session->left_out = left_out;
    }
    session->home = turn->home;
    session->weight = turn->weight;
    session->consumed = turn->consumed;
    end_turn(reader, story);
    return true;
}

static bool read_workers(gt_journal_reader *reader, gt_frame_cursor cursor)
{
    const gt_frame_workers *numbers = gt__frame_take(&cursor, 1, sizeof *numbers);
    const gt_frame_worker *worker = numbers ? gt__frame_take(&cursor, numbers->count, sizeof *worker) : NULL;
    if (!worker || cursor.left || numbers->count > GT_MAX_PARTIES)
        return false;
    for (uint64_t k = 0; k < numbers->count; k++)
        if (!memchr(worker[k].name, 0, sizeof worker[k].name) ||
            !memchr(worker[k].engine, 0, sizeof worker[k].engine))
            return false;
    reader->workers.count = 0;
    gt_restored_worker *to = grow(&reader->workers, numbers->count + 1, sizeof *to);
    if (!to)
        return false;
    for (uint64_t k = 0; k < numbers->count; k++) {
        to[k] =
            (gt_restored_worker){.life = worker[k].life, .present = worker[k].present, .relief = worker[k].relief};
        memcpy(to[k].name, worker[k].name, sizeof to[k].name);
        memcpy(to[k].engine, worker[k].engine, sizeof to[k].engine);
    }
    reader->workers.count = numbers->count;
    reader->numbers = *numbers;
    reader->has_workers = true;
    return true;
}

void gt__journal_reader_begin(gt_journal_reader *reader, bool missing)
{
    for (session_story *story = reader->stories; missing && story; story = story->next)
        story->doubtful = true;
    if (missing) {
        story_free(reader->staged);
        reader->staged = NULL;
    }
}

static bool read_frame(gt_journal_reader *reader, const gt_frame *frame)
{
    gt_frame_cursor cursor = {.at = (const uint8_t *)(frame + 1),
                              .left = gt__frame_size(frame->bytes) - sizeof *frame};
    reader->frames++;
    if (frame->kind == GT_FRAME_WORKERS)
        return read_workers(reader, cursor);
    if (frame->kind == GT_FRAME_SESSION)
        return read_session(reader, frame, cursor);
    session_story *story = story_of(reader, frame);
    if (!story) /* one that was given up before this generation described it; the file that knew it is removed */
        return frame->kind == GT_FRAME_END && frame->session;
    if (story->doubtful && frame->kind != GT_FRAME_END)
        return true; /* its next frames do not fit what is missing */
    switch ((gt_frame_kind)frame->kind) {
    case GT_FRAME_STATE:
        return read_state(reader, story, cursor);
    case GT_FRAME_DETACHED:
        return read_detached(reader, story, cursor, frame->bytes);
    case GT_FRAME_SUCCESSORS:
        return read_successors(reader, story, cursor);
    case GT_FRAME_TENSOR:
        return read_tensor(story, cursor);
    case GT_FRAME_DATA:
        return read_data(story, cursor, frame->bytes);
    case GT_FRAME_FAILURE:
        return read_failure(story, cursor);
    case GT_FRAME_CUT:
        return read_cut(story, cursor);
    case GT_FRAME_TURN:
        return read_turn(reader, story, cursor);
    case GT_FRAME_END:
        if (story == reader->staged) {
            story_free(story);
            reader->staged = NULL;
        }
        forget(reader, frame->session);
        return true;
    default:
        return false;
    }
}

/* Many functions of this file and codec.c fail for one reason or the other. An allocation that fails sets errno. */
gt_err gt__journal_reader_frame(gt_journal_reader *reader, const gt_frame *frame)
{
    errno = 0;
    if (read_frame(reader, frame))
        return GT_OK;
    return errno == ENOMEM ? GT_ERR_MEMORY : GT_ERR_PROTOCOL;
}

/* ---- the result --------------------------------------------------------------------------------------------- */

static void shorten(gt_texts *texts, uint32_t count)
{
    while (texts->count > count)
        free(texts->text[--texts->count]);
}

/* The snapshot of the last CUT. False: out of memory. */
static bool make_snapshot(session_story *story)
{
    gt_restored_session *session = story->session;
    gt_saved **tensors = malloc((story->cut_count + 1) * sizeof(*tensors));
    if (!tensors)
        return false;
    for (size_t k = 0; k < story->table.count; k++) /* a malformed CUT may have changed it */
        entries(story)[k].named = false;
    for (size_t k = 0; k < story->cut_count; k++) {
        entries(story)[story->cut[k]].named = true;
        tensors[k] = entries(story)[story->cut[k]].saved;
    }
    gt_err err = gt__snapshot_of(tensors, (uint32_t)story->cut_count, &session->saved);
    free(tensors);
    if (err != GT_OK)
        return false;
    /* The others came behind the CUT. */
    for (size_t k = 0; k < story->table.count; k++)
        if (!entries(story)[k].named)
            gt__saved_release(entries(story)[k].saved);
    story->table.count = 0;
    session->saved->epoch = story->snapshot.epoch;
    session->saved->sums_when = story->snapshot.sums_when;
    session->saved->state = gt__recover_compact_state(&session->state, session->state.end);
    return true;
}

/* All that counts, as the result has it. NULL: out of memory. */
static gt_restored_session *finish(session_story *story)
{
    gt_restored_session *session = story->session;
    shorten(&session->sites, story->whole_sites);
    shorten(&session->reasons, story->whole_reasons);
    session->records = story->records.items;
    session->slots = story->whole_slots;
    session->refusals = story->refusals.items;
    session->refusal_count = story->whole_refusals;
    story->records.items = story->refusals.items = NULL;
    if ((story->has_cut && !make_snapshot(story)) || !add_state(story, session->records, session->slots, false))
        return NULL;
    story->session = NULL;
    return session;
}

static int by_number(const void *a, const void *b)
{
    const gt_restored_session *first = *(gt_restored_session *const *)a,
                              *second = *(gt_restored_session *const *)b;
    return first->number < second->number ? -1 : first->number > second->number;
}

gt_err gt__journal_reader_result(gt_journal_reader *reader, void (*lost)(const gt_restored_session *session),
                                 gt_restored *restored)
{
    size_t count = 0;
    for (const session_story *story = reader->stories; story; story = story->next)
        count++;
    if (!(restored->session = calloc(count + 1, sizeof(*restored->session))))
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    for (session_story *story = reader->stories; story; story = story->next) {
        if (story->doubtful) {
            lost(story->session);
            continue;
        }
        gt_restored_session *session = finish(story);
        if (!session)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        restored->session[restored->session_count++] = session;
    }
    qsort(restored->session, restored->session_count, sizeof(*restored->session), by_number);
    restored->worker = reader->workers.items;
    restored->worker_count = (uint32_t)reader->workers.count;
    reader->workers = (growing){0};
    restored->worker_key = reader->has_workers ? reader->numbers.worker_key : 0;
    restored->lives = reader->numbers.lives;
    restored->next_segment = reader->numbers.next_segment;
    restored->next_tag = reader->numbers.next_tag;
    uint64_t next = reader->numbers.next_session;
    restored->next_session = next > reader->last_session ? next : reader->last_session + 1;
    restored->frames = reader->frames;
    return GT_OK;
}
