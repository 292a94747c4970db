/* log_code.c: see log_code.h. */
#include "dispatcher/observe/log_code.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/tape.h"

enum {
    WORDS = 7, /* of a record: its head, result, operands, immediates. Scope and site are in the notes */
    TEXT_ENTRY = 15,
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
    const char *next; /* where the last event ended */
    uint32_t texts;   /* of the block */
};

gt_log_encoder *gt__log_encoder_new(void)
{
    return calloc(1, sizeof(gt_log_encoder));
}

void gt__log_encoder_free(gt_log_encoder *encoder)
{
    free(encoder);
}

static inline uint8_t *put_varint(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

static inline uint8_t *put_difference(uint8_t *at, uint64_t value, uint64_t before)
{
    uint64_t difference = value - before;
    return put_varint(at, difference << 1 ^ (0 - (difference >> 63)));
}

/* The number of a shared text in this block; it is written where it is used for the first time. */
static inline uint8_t *name_text(gt_log_encoder *encoder, uint8_t *at, gt_log_text *text)
{
    if (__builtin_expect(!text || text->block == encoder->state.block, 1))
        return at;
    text->block = encoder->state.block;
    text->number = encoder->texts++;
    *at++ = TEXT_ENTRY;
    at = put_varint(at, text->length);
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
            at = put_difference(at, word[k], last[k]);
            last[k] = word[k];
        }
    if (event->bytes != stream_bytes(ins)) {
        *mask |= OTHER_BYTES;
        at = put_varint(at, event->bytes);
    }
    for (unsigned slot = 1; slot < event->slots; slot++) {
        mask = at++;
        *mask = 0;
        for (unsigned k = 0; k < 8; k++)
            if (event->record[slot].u64[k]) {
                *mask |= (uint8_t)(1u << k);
                at = put_varint(at, event->record[slot].u64[k]);
            }
    }
    return at;
}

static inline uint8_t *put_subject(code_state *state, uint8_t *at, const gt_log_event *event)
{
    at = put_difference(put_varint(at, event->session), event->tensor, state->tensor);
    state->tensor = event->tensor;
    if (event->event != GT_EVENT_WORKER_RECV)
        return at;
    uint64_t duration = event->duration_ns <= UINT64_MAX >> 1 ? event->duration_ns : UINT64_MAX >> 1;
    at = put_varint(at, duration << 1 | (event->start_ns != 0));
    if (!event->start_ns)
        return at;
    at = put_difference(at, event->start_ns, state->start_ns);
    state->start_ns = event->start_ns;
    return at;
}

static uint8_t *begin_block(gt_log_encoder *encoder, const gt_log_event *event, char *room)
{
    gt_log_block block = {.magic = GT_LOG_BLOCK_MAGIC, .sequence = event->sequence, .at_ns = event->at_ns};
    memcpy(room, &block, sizeof block);
    state_begin(&encoder->state, event->at_ns);
    encoder->texts = 0;
    return (uint8_t *)room + sizeof block;
}

char *gt__log_encode(gt_log_encoder *encoder, const gt_log_event *event, char *room)
{
    code_state *state = &encoder->state;
    uint8_t *at = room == encoder->next ? (uint8_t *)room : begin_block(encoder, event, room);
    at = name_text(encoder, at, event->source);
    for (unsigned k = 0; k < GT_LOG_NOTES; k++)
        at = name_text(encoder, at, event->notes[k]);
    bool timed = event->at_ns != state->at_ns;
    *at++ = (uint8_t)(event->event | (timed ? TIMED : 0) | (event->failed ? FAILED : 0) |
                      (event->notes[0] ? NOTED : 0) | (event->text_length ? WITH_TEXT : 0));
    if (timed)
        at = put_varint(at, event->at_ns - state->at_ns);
    state->at_ns = event->at_ns;
    at = put_varint(at, event->source ? event->source->number + 1u : 0);
    at = put_varint(at, event->op);
    if (event->event == GT_EVENT_RECV)
        at = put_record(state, at, event);
    else
        at = put_varint(at, event->bytes);
    if (event->event == GT_EVENT_SEND)
        at = put_varint(at, event->tensor);
    else if (event->event == GT_EVENT_WORKER_SEND || event->event == GT_EVENT_WORKER_RECV)
        at = put_subject(state, at, event);
    for (unsigned k = 0; k < GT_LOG_NOTES && event->notes[k]; k++) {
        bool more = k + 1 < GT_LOG_NOTES && event->notes[k + 1];
        at = put_varint(at, (uint64_t)event->notes[k]->number << 1 | more);
    }
    if (event->text_length) {
        size_t length = event->text_length < GT_LOG_OWN ? event->text_length : GT_LOG_OWN;
        at = put_varint(at, length);
        memcpy(at, event->text, length);
        at += length;
    }
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
    const uint8_t *at, *end;
    uint64_t sequence;
    gt_log_text **texts;
    uint32_t count, capacity;
    gt_slot record[GT_LOG_RECORD];
    char own[GT_LOG_OWN];
    bool broken; /* an entry of this block has been damaged */
};

gt_log_decoder *gt__log_decoder_new(void)
{
    return calloc(1, sizeof(gt_log_decoder));
}

static void drop_texts(gt_log_decoder *decoder)
{
    while (decoder->count)
        free(decoder->texts[--decoder->count]);
}

void gt__log_decoder_free(gt_log_decoder *decoder)
{
    if (!decoder)
        return;
    drop_texts(decoder);
    free(decoder->texts);
    free(decoder);
}

gt_err gt__log_block_open(gt_log_decoder *decoder, const char *block, size_t bytes, bool sealed)
{
    gt_log_block head;
    drop_texts(decoder);
    decoder->at = decoder->end = NULL;
    if (bytes < sizeof head)
        return gt__fail(GT_ERR_PROTOCOL, "a block is too short");
    memcpy(&head, block, sizeof head);
    if (head.magic != GT_LOG_BLOCK_MAGIC || (sealed && head.bytes != bytes))
        return gt__fail(GT_ERR_PROTOCOL, "there is no block");
    if (sealed && head.checksum != checksum(&head, block, bytes))
        return gt__fail(GT_ERR_PROTOCOL, "the checksum of a block is wrong");
    state_begin(&decoder->state, head.at_ns);
    decoder->at = (const uint8_t *)block + sizeof head;
    decoder->end = (const uint8_t *)block + bytes;
    decoder->sequence = head.sequence;
    decoder->broken = false;
    return GT_OK;
}

/* Past the end, or in a varint of more than 64 bits, the decoder is broken and the values are 0. */
static inline uint8_t get_byte(gt_log_decoder *decoder)
{
    if (decoder->at < decoder->end)
        return *decoder->at++;
    decoder->broken = true;
    return 0;
}

static inline uint64_t get_varint(gt_log_decoder *decoder)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = get_byte(decoder);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    decoder->broken = true;
    return 0;
}

static inline uint64_t get_difference(gt_log_decoder *decoder, uint64_t before)
{
    uint64_t code = get_varint(decoder);
    return before + (code >> 1 ^ (0 - (code & 1)));
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
    uint64_t count = get_varint(decoder);
    if (decoder->broken || count > most || count > (size_t)(decoder->end - decoder->at)) {
        decoder->broken = true;
        return NULL;
    }
    const char *text = (const char *)decoder->at;
    decoder->at += count;
    *length = count;
    return text;
}

static gt_err get_text_entry(gt_log_decoder *decoder)
{
    size_t length;
    const char *bytes = get_bytes(decoder, GT_LOG_TEXT, &length);
    if (!bytes || decoder->count == MOST_TEXTS) {
        decoder->broken = true;
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
    decoder->broken = true;
    return NULL;
}

static inline void get_record(gt_log_decoder *decoder, gt_log_event *event)
{
    gt_instruction *ins = &decoder->record->ins;
    uint64_t *last = last_words(&decoder->state, event->op);
    uint8_t mask = get_byte(decoder);
    for (unsigned k = 0; k < WORDS; k++)
        if (mask >> k & 1)
            last[k] = get_difference(decoder, last[k]);
    memset(decoder->record, 0, sizeof decoder->record);
    memcpy(decoder->record, last, sizeof decoder->state.last[0].word);
    event->bytes = mask & OTHER_BYTES ? get_varint(decoder) : stream_bytes(ins);
    event->slots = (uint8_t)slots_shown(ins);
    for (unsigned slot = 1; slot < event->slots; slot++) {
        mask = get_byte(decoder);
        for (unsigned k = 0; k < 8; k++)
            if (mask >> k & 1)
                decoder->record[slot].u64[k] = get_varint(decoder);
    }
    event->record = decoder->record;
    if (ins->op != event->op || !gt__dtype_valid(ins->dtype) || ins->rank > GT_MAX_RANK)
        decoder->broken = true;
}

static inline void get_subject(gt_log_decoder *decoder, gt_log_event *event)
{
    code_state *state = &decoder->state;
    event->session = get_varint(decoder);
    event->tensor = state->tensor = get_difference(decoder, state->tensor);
    if (event->event != GT_EVENT_WORKER_RECV)
        return;
    uint64_t duration = get_varint(decoder);
    event->duration_ns = duration >> 1;
    if (duration & 1)
        event->start_ns = state->start_ns = get_difference(decoder, state->start_ns);
}

static void get_notes(gt_log_decoder *decoder, gt_log_event *event)
{
    bool more = true;
    for (unsigned k = 0; more && !decoder->broken; k++) {
        uint64_t code = get_varint(decoder);
        if (k == GT_LOG_NOTES) {
            decoder->broken = true;
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
        state->at_ns += get_varint(decoder);
    event->at_ns = state->at_ns;
    uint64_t source = get_varint(decoder), op = get_varint(decoder);
    if (source)
        event->source = text_of(decoder, source - 1);
    if (event->event >= GT_EVENT_COUNT || op >= GT_OP_COUNT) {
        decoder->broken = true;
        return;
    }
    event->op = (uint16_t)op;
    if (event->event == GT_EVENT_RECV)
        get_record(decoder, event);
    else
        event->bytes = get_varint(decoder);
    if (event->event == GT_EVENT_SEND)
        event->tensor = get_varint(decoder);
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

gt_err gt__log_block_next(gt_log_decoder *decoder, gt_log_event *event, bool *there)
{
    *there = false;
    while (decoder->at < decoder->end && !decoder->broken) {
        uint8_t tag = *decoder->at++;
        if (tag == TEXT_ENTRY) {
            GT_TRY(get_text_entry(decoder));
            continue;
        }
        get_event(decoder, tag, event);
        *there = !decoder->broken;
        break;
    }
    return decoder->broken ? gt__fail(GT_ERR_PROTOCOL, "an entry of a block is damaged") : GT_OK;
}
