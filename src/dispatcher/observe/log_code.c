/* log_code.c: see log_code.h. */
#include "dispatcher/observe/log_code.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/tape.h"
#include "dispatcher/observe/log_run.h"

enum {
    WORDS = 7, /* of a record: its head, result, operands, immediates. Scope and site are in the notes */
    TEXT_ENTRY = 15,
    PATH_ENTRY = 14,
    RUN_ENTRY = 13,
    KNOWN_PATHS = 64, /* of which a block has the code */
    TIMED = 1 << 4,
    FAILED = 1 << 5,
    NOTED = 1 << 6,
    WITH_TEXT = 1 << 7,
    OTHER_BYTES = 1 << 7, /* of a record's mask */
    MOST_TEXTS = 1 << 18, /* of a block */
};

/* What differences of a block are taken to. */
typedef struct code_state {
    uint64_t at_ns, tensor, start_ns;
    uint64_t block;
    struct {
        uint64_t block; /* in which the words were set; another one: they count as 0 */
        uint64_t word[WORDS];
    } last[GT_OP_COUNT]; /* by op */
} code_state;

static void state_begin(code_state *state, uint64_t at_ns)
{
    state->at_ns = at_ns;
    state->tensor = state->start_ns = 0;
    state->block++;
}

/* The words that a record of this op is compared with. */
static uint64_t *last_words(code_state *state, unsigned op)
{
    if (state->last[op].block != state->block) {
        state->last[op].block = state->block;
        memset(state->last[op].word, 0, sizeof state->last[op].word);
    }
    return state->last[op].word;
}

bool gt__log_is_compact(const char *path)
{
    static const char ending[] = ".gtlog";
    size_t length = strlen(path);
    return length >= sizeof ending - 1 && strcmp(path + length - (sizeof ending - 1), ending) == 0;
}

gt_log_head gt__log_head_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (gt_log_head){.magic = GT_LOG_MAGIC,
                         .version = GT_LOG_VERSION,
                         .table_hash = gt__op_table_hash(),
                         .wall_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec};
}

/* The bytes of a record that are sent in the stream itself. */
static uint64_t stream_bytes(const gt_instruction *ins)
{
    return (1u + ins->tail) * sizeof(gt_slot);
}

static unsigned slots_shown(const gt_instruction *ins)
{
    return ins->tail < GT_LOG_RECORD ? 1u + ins->tail : GT_LOG_RECORD;
}

static uint64_t checksum(const gt_log_block *head, const char *block, size_t bytes)
{
    gt_log_block zeroed = *head;
    zeroed.checksum = 0;
    uint64_t sum = gt__tape_checksum(0, &zeroed, sizeof zeroed), last = 0;
    size_t body = bytes - sizeof zeroed, whole = body / 8 * 8;
    sum = gt__tape_checksum(sum, block + sizeof zeroed, whole);
    memcpy(&last, block + sizeof zeroed + whole, body - whole);
    return gt__tape_checksum(sum, &last, sizeof last);
}

/* ---- writing ------------------------------------------------------------------------------------------------ */

struct gt_log_encoder {
    code_state state;
    const char *next;               /* where the last event ended */
    uint32_t texts, paths;          /* of the block */
    gt_log_path known[KNOWN_PATHS]; /* by serial */
};

gt_log_encoder *gt__log_encoder_new(void)
{
    gt_log_encoder *encoder = calloc(1, sizeof *encoder);
    if (encoder)
        encoder->state.block = 1; /* texts and paths that no block has yet have 0 */
    return encoder;
}

void gt__log_encoder_free(gt_log_encoder *encoder)
{
    for (unsigned k = 0; encoder && k < KNOWN_PATHS; k++)
        gt__log_path_drop(&encoder->known[k]);
    free(encoder);
}

/* The number of a shared text in this block; it is written where it is used for the first time. */
static inline uint8_t *name_text(gt_log_encoder *encoder, uint8_t *at, gt_log_text *text)
{
    if (__builtin_expect(!text || text->block == encoder->state.block, 1))
        return at;
    text->block = encoder->state.block;
    text->number = encoder->texts++;
    *at++ = TEXT_ENTRY;
    at = gt__put_varint(at, text->length);
    memcpy(at, text->text, text->length);
    return at + text->length;
}

static inline uint8_t *put_record(code_state *state, uint8_t *at, const gt_log_event *event)
{
    const gt_instruction *ins = &event->record->ins;
    const uint64_t *word = event->record->u64;
    uint64_t *last = last_words(state, ins->op);
    uint8_t *mask = at++;
    *mask = 0;
    for (unsigned k = 0; k < WORDS; k++)
        if (word[k] != last[k]) {
            *mask |= (uint8_t)(1u << k);
            at = gt__put_difference(at, word[k], last[k]);
            last[k] = word[k];
        }
    if (event->bytes != stream_bytes(ins)) {
        *mask |= OTHER_BYTES;
        at = gt__put_varint(at, event->bytes);
    }
    for (unsigned slot = 1; slot < event->slots; slot++) {
        mask = at++;
        *mask = 0;
        for (unsigned k = 0; k < 8; k++)
            if (event->record[slot].u64[k]) {
                *mask |= (uint8_t)(1u << k);
                at = gt__put_varint(at, event->record[slot].u64[k]);
            }
    }
    return at;
}

static inline uint8_t *put_subject(code_state *state, uint8_t *at, const gt_log_event *event)
{
    at = gt__put_difference(gt__put_varint(at, event->session), event->tensor, state->tensor);
    state->tensor = event->tensor;
    if (event->event != GT_EVENT_WORKER_RECV)
        return at;
    uint64_t duration = event->duration_ns <= UINT64_MAX >> 1 ? event->duration_ns : UINT64_MAX >> 1;
    at = gt__put_varint(at, duration << 1 | (event->start_ns != 0));
    if (!event->start_ns)
        return at;
    at = gt__put_difference(at, event->start_ns, state->start_ns);
    state->start_ns = event->start_ns;
    return at;
}

/* Where the next entry goes; if the last one did not end here, behind the head of a new block. */
static inline uint8_t *begin_entry(gt_log_encoder *encoder, uint64_t sequence, uint64_t at_ns, char *room)
{
    if (__builtin_expect(room == encoder->next, 1))
        return (uint8_t *)room;
    gt_log_block block = {.magic = GT_LOG_BLOCK_MAGIC, .sequence = sequence, .at_ns = at_ns};
    memcpy(room, &block, sizeof block);
    state_begin(&encoder->state, at_ns);
    encoder->texts = encoder->paths = 0;
    return (uint8_t *)room + sizeof block;
}

char *gt__log_encode(gt_log_encoder *encoder, const gt_log_event *event, char *room)
{
    code_state *state = &encoder->state;
    uint8_t *at = begin_entry(encoder, event->sequence, event->at_ns, room);
    at = name_text(encoder, at, event->source);
    for (unsigned k = 0; k < GT_LOG_NOTES; k++)
        at = name_text(encoder, at, event->notes[k]);
    bool timed = event->at_ns != state->at_ns;
    *at++ = (uint8_t)(event->event | (timed ? TIMED : 0) | (event->failed ? FAILED : 0) |
                      (event->notes[0] ? NOTED : 0) | (event->text_length ? WITH_TEXT : 0));
    if (timed)
        at = gt__put_varint(at, event->at_ns - state->at_ns);
    state->at_ns = event->at_ns;
    at = gt__put_varint(at, event->source ? event->source->number + 1u : 0);
    at = gt__put_varint(at, event->op);
    if (event->event == GT_EVENT_RECV)
        at = put_record(state, at, event);
    else
        at = gt__put_varint(at, event->bytes);
    if (event->event == GT_EVENT_SEND)
        at = gt__put_varint(at, event->tensor);
    else if (event->event == GT_EVENT_WORKER_SEND || event->event == GT_EVENT_WORKER_RECV)
        at = put_subject(state, at, event);
    for (unsigned k = 0; k < GT_LOG_NOTES && event->notes[k]; k++) {
        bool more = k + 1 < GT_LOG_NOTES && event->notes[k + 1];
        at = gt__put_varint(at, (uint64_t)event->notes[k]->number << 1 | more);
    }
    if (event->text_length) {
        size_t length = event->text_length < GT_LOG_OWN ? event->text_length : GT_LOG_OWN;
        at = gt__put_varint(at, length);
        memcpy(at, event->text, length);
        at += length;
    }
    encoder->next = (char *)at;
    return (char *)at;
}

/* The path as this encoder writes it; NULL: it cannot. */
static gt_log_path *known_path(gt_log_encoder *encoder, const gt_path *path)
{
    gt_log_path *known = &encoder->known[path->serial % KNOWN_PATHS];
    if (known->serial != path->serial && !gt__log_path_make(known, path))
        return NULL;
    return known->code ? known : NULL;
}

size_t gt__log_run_bytes(gt_log_encoder *encoder, const gt_path *path, const gt_slot *run, uint32_t *lines)
{
    gt_log_path *known = known_path(encoder, path);
    if (!known)
        return 0;
    if (known->block != encoder->state.block) {
        bool again = known->seen == encoder->state.block;
        known->seen = encoder->state.block;
        if (!again || encoder->paths == GT_LOG_PATHS)
            return 0;
    }
    *lines = gt__log_run_lines(known, path, run);
    return GT_LOG_ENTRY + known->bytes + known->places * (size_t)(GT_LOG_TEXT + 2 * GT_LOG_VARINT) +
           run->ins.imm[0].u * GT_LOG_VARINT;
}

/* The path's code, unless the block has it. */
static uint8_t *name_path(gt_log_encoder *encoder, uint8_t *at, gt_log_path *known, const gt_log_run *run)
{
    uint32_t number[GT_LOG_PLACES];
    if (known->block == encoder->state.block)
        return at;
    for (uint32_t k = 0; k < known->places; k++) {
        gt_log_text *place = run->place(run->context, known->place[k].scope, known->place[k].site);
        at = name_text(encoder, at, place);
        number[k] = place ? place->number + 1 : 0;
    }
    *at++ = PATH_ENTRY;
    at = gt__put_varint(at, known->bytes);
    memcpy(at, known->code, known->bytes);
    at = gt__put_varint(at + known->bytes, known->places);
    for (uint32_t k = 0; k < known->places; k++)
        at = gt__put_varint(at, number[k]);
    known->block = encoder->state.block;
    known->number = encoder->paths++;
    known->first = 0;
    memset(known->word, 0, gt__path_run_words(run->path) * sizeof *known->word);
    return at;
}

char *gt__log_encode_run(gt_log_encoder *encoder, const gt_log_run *run, char *room)
{
    gt_log_path *known = known_path(encoder, run->path);
    code_state *state = &encoder->state;
    uint8_t *at = begin_entry(encoder, run->sequence, run->at_ns, room);
    at = name_text(encoder, at, run->source);
    at = name_path(encoder, at, known, run);
    *at++ = RUN_ENTRY;
    at = gt__put_varint(at, run->at_ns - state->at_ns);
    state->at_ns = run->at_ns;
    at = gt__put_varint(at, run->source ? run->source->number + 1u : 0);
    at = gt__put_varint(at, known->number);
    at = gt__log_run_put(known, run->path, run->run, at);
    encoder->next = (char *)at;
    return (char *)at;
}

void gt__log_seal(void *unused, char *block, size_t bytes)
{
    (void)unused;
    gt_log_block head;
    memcpy(&head, block, sizeof head);
    head.bytes = (uint32_t)bytes;
    head.checksum = 0;
    head.checksum = checksum(&head, block, bytes);
    memcpy(block, &head, sizeof head);
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

struct gt_log_decoder {
    code_state state;
    gt_log_input in; /* broken: an entry of this block has been damaged */
    uint64_t sequence;
    gt_log_text **texts;
    uint32_t count, capacity;
    gt_slot record[GT_LOG_RECORD];
    char own[GT_LOG_OWN];
    gt_log_path_read paths[GT_LOG_PATHS]; /* of this block */
    uint32_t path_count;
    gt_log_path_read *run; /* whose records are the next events; NULL: none is */
    gt_log_text *run_source;
    gt_slot *records; /* of the run: `slots` of them, of which `shown` are done */
    size_t slots, shown, room;
};

gt_log_decoder *gt__log_decoder_new(void)
{
    return calloc(1, sizeof(gt_log_decoder));
}

/* What the entries of a block name. */
static void drop_names(gt_log_decoder *decoder)
{
    while (decoder->count)
        free(decoder->texts[--decoder->count]);
    while (decoder->path_count)
        gt__log_path_read_drop(&decoder->paths[--decoder->path_count]);
    decoder->run = NULL;
}

void gt__log_decoder_free(gt_log_decoder *decoder)
{
    if (!decoder)
        return;
    drop_names(decoder);
    free(decoder->texts);
    free(decoder->records);
    free(decoder);
}

gt_err gt__log_block_open(gt_log_decoder *decoder, const char *block, size_t bytes, bool sealed)
{
    gt_log_block head;
    drop_names(decoder);
    decoder->in.at = decoder->in.end = NULL;
    if (bytes < sizeof head)
        return gt__fail(GT_ERR_PROTOCOL, "a block is too short");
    memcpy(&head, block, sizeof head);
    if (head.magic != GT_LOG_BLOCK_MAGIC || (sealed && head.bytes != bytes))
        return gt__fail(GT_ERR_PROTOCOL, "there is no block");
    if (sealed && head.checksum != checksum(&head, block, bytes))
        return gt__fail(GT_ERR_PROTOCOL, "the checksum of a block is wrong");
    state_begin(&decoder->state, head.at_ns);
    decoder->in.at = (const uint8_t *)block + sizeof head;
    decoder->in.end = (const uint8_t *)block + bytes;
    decoder->sequence = head.sequence;
    decoder->in.broken = false;
    return GT_OK;
}

/* A text that is printed: without what would break a line or change a terminal. */
static void clean(char *text, size_t length)
{
    for (size_t k = 0; k < length; k++)
        if ((unsigned char)text[k] < ' ' || text[k] == 127)
            text[k] = '?';
}

/* The bytes of a text of at most `most`; NULL: broken. */
static const char *get_bytes(gt_log_decoder *decoder, size_t most, size_t *length)
{
    uint64_t count = gt__get_varint(&decoder->in);
    if (decoder->in.broken || count > most || count > (size_t)(decoder->in.end - decoder->in.at)) {
        decoder->in.broken = true;
        return NULL;
    }
    const char *text = (const char *)decoder->in.at;
    decoder->in.at += count;
    *length = count;
    return text;
}

static gt_err get_text_entry(gt_log_decoder *decoder)
{
    size_t length;
    const char *bytes = get_bytes(decoder, GT_LOG_TEXT, &length);
    if (!bytes || decoder->count == MOST_TEXTS) {
        decoder->in.broken = true;
        return GT_OK;
    }
    if (decoder->count == decoder->capacity) {
        uint32_t capacity = decoder->capacity ? 2 * decoder->capacity : 64;
        gt_log_text **texts = realloc(decoder->texts, capacity * sizeof(*texts));
        if (!texts)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        decoder->texts = texts;
        decoder->capacity = capacity;
    }
    gt_log_text *text = gt__log_text_new(bytes, length);
    if (!text)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    clean(text->text, length);
    decoder->texts[decoder->count++] = text;
    return GT_OK;
}

static gt_log_text *text_of(gt_log_decoder *decoder, uint64_t number)
{
    if (number < decoder->count)
        return decoder->texts[number];
    decoder->in.broken = true;
    return NULL;
}

static inline void get_record(gt_log_decoder *decoder, gt_log_event *event)
{
    gt_instruction *ins = &decoder->record->ins;
    uint64_t *last = last_words(&decoder->state, event->op);
    uint8_t mask = gt__get_byte(&decoder->in);
    for (unsigned k = 0; k < WORDS; k++)
        if (mask >> k & 1)
            last[k] = gt__get_difference(&decoder->in, last[k]);
    memset(decoder->record, 0, sizeof decoder->record);
    memcpy(decoder->record, last, sizeof decoder->state.last[0].word);
    event->bytes = mask & OTHER_BYTES ? gt__get_varint(&decoder->in) : stream_bytes(ins);
    event->slots = (uint8_t)slots_shown(ins);
    for (unsigned slot = 1; slot < event->slots; slot++) {
        mask = gt__get_byte(&decoder->in);
        for (unsigned k = 0; k < 8; k++)
            if (mask >> k & 1)
                decoder->record[slot].u64[k] = gt__get_varint(&decoder->in);
    }
    event->record = decoder->record;
    if (ins->op != event->op || !gt__dtype_valid(ins->dtype) || ins->rank > GT_MAX_RANK)
        decoder->in.broken = true;
}

static inline void get_subject(gt_log_decoder *decoder, gt_log_event *event)
{
    code_state *state = &decoder->state;
    event->session = gt__get_varint(&decoder->in);
    event->tensor = state->tensor = gt__get_difference(&decoder->in, state->tensor);
    if (event->event != GT_EVENT_WORKER_RECV)
        return;
    uint64_t duration = gt__get_varint(&decoder->in);
    event->duration_ns = duration >> 1;
    if (duration & 1)
        event->start_ns = state->start_ns = gt__get_difference(&decoder->in, state->start_ns);
}

static void get_notes(gt_log_decoder *decoder, gt_log_event *event)
{
    bool more = true;
    for (unsigned k = 0; more && !decoder->in.broken; k++) {
        uint64_t code = gt__get_varint(&decoder->in);
        if (k == GT_LOG_NOTES) {
            decoder->in.broken = true;
            return;
        }
        event->notes[k] = text_of(decoder, code >> 1);
        more = code & 1;
    }
}

static void get_event(gt_log_decoder *decoder, uint8_t tag, gt_log_event *event)
{
    code_state *state = &decoder->state;
    *event = (gt_log_event){.event = tag & 15, .failed = tag & FAILED, .sequence = decoder->sequence++};
    if (tag & TIMED)
        state->at_ns += gt__get_varint(&decoder->in);
    event->at_ns = state->at_ns;
    uint64_t source = gt__get_varint(&decoder->in), op = gt__get_varint(&decoder->in);
    if (source)
        event->source = text_of(decoder, source - 1);
    if (event->event >= GT_EVENT_COUNT || op >= GT_OP_COUNT) {
        decoder->in.broken = true;
        return;
    }
    event->op = (uint16_t)op;
    if (event->event == GT_EVENT_RECV)
        get_record(decoder, event);
    else
        event->bytes = gt__get_varint(&decoder->in);
    if (event->event == GT_EVENT_SEND)
        event->tensor = gt__get_varint(&decoder->in);
    else if (event->event == GT_EVENT_WORKER_SEND || event->event == GT_EVENT_WORKER_RECV)
        get_subject(decoder, event);
    if (tag & NOTED)
        get_notes(decoder, event);
    if (tag & WITH_TEXT) {
        const char *text = get_bytes(decoder, GT_LOG_OWN, &event->text_length);
        if (!text)
            return;
        memcpy(decoder->own, text, event->text_length);
        clean(decoder->own, event->text_length);
        event->text = decoder->own;
    }
}

static gt_err get_path_entry(gt_log_decoder *decoder)
{
    if (decoder->path_count == GT_LOG_PATHS) {
        decoder->in.broken = true;
        return GT_OK;
    }
    gt_log_path_read *read = &decoder->paths[decoder->path_count];
    GT_TRY(gt__log_path_get(&decoder->in, read));
    for (uint32_t k = 0; k < read->places; k++)
        if (read->place[k] > decoder->count)
            decoder->in.broken = true;
    decoder->path_count++;
    return GT_OK;
}

/* A record of the run that is being read. */
static gt_err keep_record(void *context, gt_slot *record)
{
    gt_log_decoder *decoder = context;
    unsigned length = 1u + record->ins.tail;
    if (decoder->slots + length > decoder->room) {
        size_t room = 2 * (decoder->slots + length);
        gt_slot *records = realloc(decoder->records, room * sizeof *records);
        if (!records)
            return gt__fail(GT_ERR_MEMORY, "out of memory");
        decoder->records = records;
        decoder->room = room;
    }
    memcpy(decoder->records + decoder->slots, record, length * sizeof *record);
    decoder->slots += length;
    return GT_OK;
}

static gt_err get_run_entry(gt_log_decoder *decoder)
{
    gt_slot run[GT_PATH_ROOM];
    decoder->state.at_ns += gt__get_varint(&decoder->in);
    uint64_t source = gt__get_varint(&decoder->in), number = gt__get_varint(&decoder->in);
    decoder->run_source = source ? text_of(decoder, source - 1) : NULL;
    if (decoder->in.broken || number >= decoder->path_count) {
        decoder->in.broken = true;
        return GT_OK;
    }
    GT_TRY(gt__log_run_get(&decoder->in, &decoder->paths[number], run));
    decoder->run = &decoder->paths[number];
    decoder->slots = decoder->shown = 0;
    return gt__path_expand_packed(decoder->run->path, run, keep_record, decoder);
}

/* The next record of the run. */
static void get_run_event(gt_log_decoder *decoder, gt_log_event *event)
{
    const gt_slot *record = decoder->records + decoder->shown;
    const gt_log_path_read *run = decoder->run;
    uint32_t place = record->ins.site;
    *event = (gt_log_event){.event = GT_EVENT_RECV,
                            .op = record->ins.op,
                            .sequence = decoder->sequence++,
                            .at_ns = decoder->state.at_ns,
                            .source = decoder->run_source,
                            .bytes = stream_bytes(&record->ins),
                            .slots = (uint8_t)slots_shown(&record->ins),
                            .record = decoder->record};
    memset(decoder->record, 0, sizeof decoder->record);
    memcpy(decoder->record, record, event->slots * sizeof *record);
    decoder->record->ins.scope = decoder->record->ins.site = 0;
    if (place > run->places || record->ins.scope || !gt__dtype_valid(record->ins.dtype) ||
        record->ins.rank > GT_MAX_RANK)
        decoder->in.broken = true;
    else if (place && run->place[place - 1])
        event->notes[0] = text_of(decoder, run->place[place - 1] - 1);
    decoder->shown += 1u + record->ins.tail;
    if (decoder->shown == decoder->slots)
        decoder->run = NULL;
}

gt_err gt__log_block_next(gt_log_decoder *decoder, gt_log_event *event, bool *there)
{
    *there = false;
    while (!decoder->run && decoder->in.at < decoder->in.end && !decoder->in.broken) {
        uint8_t tag = *decoder->in.at++;
        if (tag == TEXT_ENTRY) {
            GT_TRY(get_text_entry(decoder));
            continue;
        }
        if (tag == PATH_ENTRY) {
            GT_TRY(get_path_entry(decoder));
            continue;
        }
        if (tag == RUN_ENTRY) {
            GT_TRY(get_run_entry(decoder));
            continue;
        }
        get_event(decoder, tag, event);
        *there = !decoder->in.broken;
        break;
    }
    if (decoder->run && !decoder->in.broken) {
        get_run_event(decoder, event);
        *there = !decoder->in.broken;
    }
    return decoder->in.broken ? gt__fail(GT_ERR_PROTOCOL, "an entry of a block is damaged") : GT_OK;
}
