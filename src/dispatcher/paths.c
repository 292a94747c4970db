/* paths.c: see paths.h. Place in the flow: session.c -> modifiers -> place.c -> here. */
#include "dispatcher/paths.h"

#include <stdlib.h>
#include <string.h>

#include "core/record.h"
#include "dispatcher/place.h"
#include "dispatcher/session.h"
#include "dispatcher/spread/replay.h"
#include "dispatcher/state.h"
#include "dispatcher/worker_stream.h"

enum {
    VARIANTS = 4,
    SLICE_NS = 2000000, /* of a run on a worker that others use: they are served between two slices */
    MOST_SLICES = 64,
    MOST_SHOWN = 1000, /* ops of a path, to monitors */
    FIRST_PATHS = 4,
};

/* What the outputs look like for inputs that look like this. */
typedef struct variant {
    gt_meta *inputs, *outputs; /* one allocation; NULL: unused */
    double ns;                 /* the estimate of its records (share.h) */
    uint64_t bytes;            /* of the outputs */
} variant;

typedef struct known_path {
    gt_path *path;
    variant variants[VARIANTS];
    unsigned last, next;         /* variants: the one that served last, the one to be replaced next */
    uint64_t life;               /* of the worker that knows it; 0: none does */
    int32_t worker;              /* its index */
    uint32_t number;             /* there */
    gt_path_news *news;          /* of that worker; NULL: none came */
    gt_replays replays;          /* of runs on spread tensors */
    uint64_t epoch;              /* of the session, when it was defined */
    struct gt_path_place *place; /* for monitors; NULL: none asked for it */
} known_path;

struct gt_paths {
    known_path **known; /* by number; NULL: it is not defined */
    unsigned count;     /* numbers below this have a place */
    gt_path_pieces pieces;
    gt_replay_scratch scratch;
};

/* ---- paths on a worker ---------------------------------------------------------------------------------------- */

uint32_t gt__worker_path_number(const gt_dispatch_worker *worker)
{
    uint32_t number = 0;
    while (number < GT_WORKER_PATHS && worker->paths[number])
        number++;
    return number;
}

bool gt__worker_tell_path(gt_dispatch_worker *worker, uint32_t number, const gt_slot *definition, size_t slots)
{
    for (size_t at = 0; at < slots; at += GT_PATH_PIECE) {
        unsigned length = slots - at < GT_PATH_PIECE ? (unsigned)(slots - at) : GT_PATH_PIECE;
        gt_slot *out = gt__worker_reserve(worker, 1 + length);
        if (!out)
            return false;
        out->ins = (gt_instruction){.op = GT_OP_path, .result = number, .tail = (uint16_t)length};
        out->ins.imm[0].u = at;
        out->ins.imm[1].u = slots;
        memcpy(out + 1, definition + at, length * sizeof *out);
        gt__worker_put(worker, 1 + length);
    }
    worker->paths[number] = true;
    return true;
}

void gt__worker_forget_path(gt_dispatch_worker *worker, uint32_t number)
{
    gt_slot *out = gt__worker_reserve(worker, 1);
    if (!out)
        return;
    out->ins = (gt_instruction){.op = GT_OP_path, .result = number};
    gt__worker_put(worker, 1);
    worker->paths[number] = false;
}

/* ---- definitions -------------------------------------------------------------------------------------------- */

/* The worker that knows the path, if it still does. */
static gt_dispatch_worker *knowing_worker(const gt_session *session, const known_path *known)
{
    gt_dispatch_worker *worker = known->life ? session->dispatcher->workers[known->worker] : NULL;
    return worker && worker->peer && worker->life == known->life ? worker : NULL;
}

static known_path *find_path(const gt_session *session, uint64_t number)
{
    const gt_paths *paths = session->paths;
    return paths && number < paths->count ? paths->known[number] : NULL;
}

static void forget(gt_session *session, unsigned number)
{
    known_path *known = find_path(session, number);
    if (!known)
        return;
    gt_dispatch_worker *worker = knowing_worker(session, known);
    if (worker)
        gt__worker_forget_path(worker, known->number);
    gt__replays_free(session, &known->replays);
    free(known->news);
    free(known->place);
    gt__path_free(&known->path);
    for (unsigned k = 0; k < VARIANTS; k++)
        free(known->variants[k].inputs);
    free(known);
    session->paths->known[number] = NULL;
}

void gt__paths_free(gt_session *session)
{
    if (!session->paths)
        return;
    for (unsigned k = 0; k < session->paths->count; k++)
        forget(session, k);
    free(session->paths->known);
    gt__path_pieces_free(&session->paths->pieces);
    free(session->paths->scratch.source);
    free(session->paths);
    session->paths = NULL;
}

void gt__paths_rollback(gt_session *session, uint64_t epoch)
{
    for (unsigned k = 0; session->paths && k < session->paths->count; k++) {
        known_path *known = session->paths->known[k];
        if (known && known->epoch > epoch)
            forget(session, k);
        else if (known)
            gt__replays_rollback(session, &known->replays, epoch);
    }
}

/* An entry for a path of this number, in the place of the one before. NULL: out of memory. */
static known_path *new_path(gt_session *session, unsigned number)
{
    gt_paths *paths = session->paths;
    if (number >= paths->count) {
        unsigned count = paths->count ? paths->count : FIRST_PATHS;
        while (count <= number)
            count *= 2;
        known_path **grown = realloc(paths->known, count * sizeof(*grown));
        if (!grown)
            return NULL;
        memset(grown + paths->count, 0, (count - paths->count) * sizeof(*grown));
        paths->known = grown;
        paths->count = count;
    }
    known_path *known = calloc(1, sizeof *known);
    if (!known)
        return NULL;
    forget(session, number);
    return paths->known[number] = known;
}

gt_err gt__paths_define(gt_session *session, const gt_slot *record)
{
    gt_path *path;
    if (record->ins.result >= GT_PATHS)
        return gt__fail(GT_ERR_PROTOCOL, "path %llu is not a number of one",
                        (unsigned long long)record->ins.result);
    if (!session->paths && !(session->paths = calloc(1, sizeof *session->paths)))
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    GT_TRY(gt__path_piece(&session->paths->pieces, record, &path));
    if (!path)
        return GT_OK;
    known_path *known = new_path(session, (unsigned)record->ins.result);
    if (!known) {
        gt__path_free(&path);
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    }
    known->path = path;
    known->epoch = session->epoch;
    return GT_OK;
}

const gt_path *gt__paths_find(const gt_session *session, const gt_slot *run)
{
    const known_path *known = find_path(session, run->ins.result);
    return known ? known->path : NULL;
}

struct gt_path_place **gt__paths_shown(const gt_session *session, uint32_t number)
{
    known_path *known = find_path(session, number);
    return known ? &known->place : NULL;
}

int32_t gt__paths_on(const gt_session *session, const gt_dispatch_worker *worker, uint32_t number)
{
    for (unsigned k = 0; session->paths && k < session->paths->count; k++) {
        const known_path *known = session->paths->known[k];
        if (known && ((knowing_worker(session, known) == worker && known->number == number) ||
                      gt__replays_have(&known->replays, worker->index, number)))
            return (int32_t)k;
    }
    return -1;
}

int32_t gt__paths_from(const gt_session *session, uint32_t site)
{
    int32_t found = -1;
    for (unsigned k = 0; session->paths && k < session->paths->count; k++) {
        const known_path *known = session->paths->known[k];
        if (!known || known->path->records->ins.site != site)
            continue;
        if (found >= 0)
            return -1;
        found = (int32_t)k;
    }
    return found;
}

/* ---- expanding ---------------------------------------------------------------------------------------------- */

static gt_err pass_on(void *context, gt_slot *record)
{
    gt_session *session = context;
    if (session->dispatcher->observing)
        gt__observe_received(session, record);
    return session->chain->ops->step(session->chain, record);
}

/* Log the record; it is not sent. */
static gt_err show(void *context, gt_slot *record)
{
    gt__observe_received(context, record);
    return GT_OK;
}

static gt_err put(void *context, gt_slot *record)
{
    gt_session *session = context;
    uint64_t line, tensor;
    if (__builtin_expect(session->dispatcher->observing, 0)) {
        gt__observe_cause(session->dispatcher, &line, &tensor);
        gt__observe_resume(session, line, gt__record_subject(&record->ins));
    }
    return gt__output_put(session, record);
}

/* A log and a tape have every record, whether it is sent alone or not. The lines of workers are those of the run. */
static gt_err show_all(gt_session *session, const gt_path *path, const gt_slot *run)
{
    uint64_t line, tensor;
    if (gt__observe_run(session, path, run))
        return GT_OK;
    gt__observe_cause(session->dispatcher, &line, &tensor);
    GT_TRY(gt__path_expand_packed(path, run, show, session));
    gt__observe_resume(session, line, tensor);
    return GT_OK;
}

gt_err gt__paths_run(gt_session *session, const gt_slot *run)
{
    const gt_path *path = gt__paths_find(session, run);
    if (!path)
        return gt__fail(GT_ERR_PROTOCOL, "repeat: path %llu is not defined", (unsigned long long)run->ins.result);
    GT_TRY(gt__path_check_run(path, run));
    if (run->ins.imm[1].u) /* ours: see place_slice */
        return gt__fail(GT_ERR_PROTOCOL, "repeat: it names slices");
    session->instructions += path->count - 1; /* the run itself is counted as one */
    if (!gt__chain_passes(session->chain))
        return gt__path_expand(path, run, pass_on, session);
    if (session->dispatcher->observing)
        GT_TRY(show_all(session, path, run));
    for (gt_modifier *modifier = session->chain; modifier->next; modifier = modifier->next)
        modifier->ops->repeat(modifier, path);
    return gt__output_put(session, run);
}

/* ---- placing ------------------------------------------------------------------------------------------------ */

/* The record of a path at slot `at`, or a copy in `room` that begins where it does in this run. *parameter: the first one to look
 * at. */
static const gt_slot *record_in_run(const gt_path *path, const gt_slot *run, uint32_t at, uint32_t *parameter,
                                    gt_slot room[4])
{
    const gt_slot *record = path->records + at;
    for (; *parameter < path->parameters && path->parameter[*parameter].slot <= at; ++*parameter) {
        const gt_path_word *p = &path->parameter[*parameter];
        if (p->slot < at || !gt__path_word_moves(p))
            continue;
        if (record != room)
            memcpy(room, record, (1u + record->ins.tail) * sizeof *room);
        record = room;
        *gt__record_word(room, p->word) = gt__path_word(run, path->inputs + *parameter);
    }
    return record;
}

/* The shapes of the outputs, and what the records cost: each is checked as it would be on its own. */
static gt_err infer(const gt_path *path, const gt_slot *run, const gt_meta *inputs, gt_meta *outputs, double *ns)
{
    gt_meta *locals = malloc(path->count * sizeof *locals);
    gt_err err = locals ? GT_OK : gt__fail(GT_ERR_MEMORY, "out of memory");
    uint32_t made = 0, parameter = 0;
    *ns = 0;
    for (uint32_t at = 0; at < path->slots && err == GT_OK; at += 1u + path->records[at].ins.tail) {
        gt_slot room[4]; /* slices and assignments have a tail of three */
        const gt_slot *record = record_in_run(path, run, at, &parameter, room);
        const gt_meta *metas[GT_MAX_CAT];
        gt_dtype compute;
        if (record->ins.op == GT_OP_free)
            continue;
        gt_operands operands = gt__record_operands(&record->ins, record + 1);
        for (unsigned k = 0; k < operands.count; k++)
            metas[k] = !gt__operand_is_tensor(&operands, k) ? NULL
                       : operands.id[k] >= GT_PATH_INPUT    ? &inputs[operands.id[k] - GT_PATH_INPUT]
                                                            : &locals[operands.id[k] - 1];
        err = gt__op_infer(&record->ins, record + 1, metas, &locals[made], &compute);
        if (err == GT_OK)
            *ns += gt__share_estimate(&record->ins, metas, operands.count, &locals[made++]);
    }
    for (uint32_t k = 0; k < path->outputs && err == GT_OK; k++)
        outputs[k] = locals[path->output[k]];
    free(locals);
    return err;
}

static bool looks_alike(const gt_session *session, const gt_path *path, const gt_slot *run, const variant *v)
{
    for (uint32_t k = 0; k < path->inputs; k++) {
        const gt_meta *meta = &gt__handles_find(&session->handles, gt__path_word(run, k))->meta;
        if (meta->dtype != v->inputs[k].dtype || !gt__meta_same_shape(meta, &v->inputs[k]))
            return false;
    }
    return true;
}

/* The shapes of the run's outputs, and its cost; NULL: they cannot be inferred. */
static const variant *find_variant(gt_session *session, known_path *known, const gt_slot *run)
{
    const gt_path *path = known->path;
    for (unsigned k = 0; k < VARIANTS; k++) {
        unsigned which = (known->last + k) % VARIANTS;
        if (known->variants[which].inputs && looks_alike(session, path, run, &known->variants[which])) {
            known->last = which;
            return &known->variants[which];
        }
    }
    variant *v = &known->variants[known->next];
    gt_meta *metas = malloc(((size_t)path->inputs + path->outputs + 1) * sizeof *metas);
    if (!metas)
        return NULL;
    for (uint32_t k = 0; k < path->inputs; k++)
        metas[k] = gt__handles_find(&session->handles, gt__path_word(run, k))->meta;
    double ns;
    if (infer(path, run, metas, metas + path->inputs, &ns) != GT_OK) {
        free(metas);
        return NULL;
    }
    free(v->inputs);
    *v = (variant){.inputs = metas, .outputs = metas + path->inputs, .ns = ns};
    for (uint32_t k = 0; k < path->outputs; k++)
        v->bytes += gt__meta_bytes(&v->outputs[k]);
    known->last = known->next;
    known->next = (known->next + 1) % VARIANTS;
    return v;
}

/* Have the home worker know the path. False: it has too many, or there is no memory. */
static bool tell_worker(gt_session *session, known_path *known)
{
    gt_dispatch_worker *worker = session->home;
    const gt_path *path = known->path;
    if (knowing_worker(session, known) == worker)
        return true;
    uint32_t number = gt__worker_path_number(worker);
    size_t slots = gt__path_definition_slots(path->slots, path->count, path->parameters);
    gt_slot *definition = number < GT_WORKER_PATHS ? malloc(slots * sizeof *definition) : NULL;
    if (!definition)
        return false;
    gt__path_define(path->records, path->slots, path->count, path->offset, path->parameter, path->parameters,
                    definition);
    gt__path_mark(definition, path->marked);
    bool sent = gt__worker_tell_path(worker, number, definition, slots);
    free(definition);
    if (!sent)
        return false;
    known->life = worker->life;
    known->worker = worker->index;
    known->number = number;
    return true;
}

static bool inputs_at_home(const gt_session *session, const gt_path *path, const gt_slot *run)
{
    for (uint32_t k = 0; k < path->inputs; k++) {
        const gt_handle *handle = gt__handles_find(&session->handles, gt__path_word(run, k));
        if (!handle || handle->worker != session->home->index)
            return false;
    }
    return true;
}

/* Handles and slots for the outputs; the slots go to words[]. */
static gt_err make_outputs(gt_session *session, const gt_path *path, const gt_slot *run, const gt_meta *metas,
                           uint64_t *words)
{
    gt_dispatch_worker *worker = session->home;
    for (uint32_t k = 0; k < path->outputs; k++) {
        gt_handle *handle;
        uint64_t id = run->ins.operand[0] + path->offset[path->output[k]];
        GT_TRY(gt__handles_insert(&session->handles, id, &handle));
        handle->worker = GT_NO_WORKER;
        handle->slot = 0;
        handle->scope = gt__path_maker(path, path->output[k])->scope;
        handle->site = gt__path_maker(path, path->output[k])->site;
        handle->meta = metas[k];
        uint32_t slot = gt__slot_number_new(&worker->slots);
        if (!slot)
            return gt__fail(GT_ERR_MEMORY, "too many tensors on worker %s", worker->name);
        handle->worker = worker->index;
        handle->slot = slot;
        words[k] = slot;
        if (__builtin_expect(worker->observed, 0))
            gt__observe_path_result(worker, slot, &handle->meta);
        if (__builtin_expect(session->quota != NULL, 0))
            GT_TRY(gt__quota_hold(session, handle));
    }
    return GT_OK;
}

/* Tensors that are gone after the run. The worker frees the dying inputs with it. */
static gt_err free_after(gt_session *session, const gt_path *path, const gt_slot *run)
{
    gt_dispatch_worker *worker = session->home;
    gt_err err = GT_OK;
    for (uint32_t k = 0; k < run->ins.imm[0].u; k++) {
        int32_t index;
        uint32_t slot;
        bool dies = k < path->inputs && path->dies[k];
        if (!dies && k < gt__path_run_words(path))
            continue;
        if (!gt__handles_remove(&session->handles, gt__path_word(run, k), &index, &slot))
            err = session->left_out ? err : gt__session_unknown(&run->ins, gt__path_word(run, k));
        else if (!worker || index != worker->index)
            continue; /* the worker was lost */
        else if (dies)
            gt__slot_number_free(&worker->slots, slot);
        else
            gt__worker_free_tensor(worker, slot);
    }
    if (worker)
        gt__worker_flush_frees(worker);
    return err;
}

bool gt__paths_within_limits(const gt_session *session, const gt_path *path, const gt_slot *run, uint64_t tensors,
                             uint64_t bytes)
{
    uint64_t freed = 0;
    if (__builtin_expect(!session->quota, 1))
        return true;
    for (uint32_t k = 0; k < path->inputs; k++)
        if (path->dies[k])
            freed += gt__quota_frees(session, gt__handles_find(&session->handles, gt__path_word(run, k)));
    return gt__quota_admits(session, tensors, bytes, freed);
}

/* Place the records that a run stands for, one by one. */
static gt_err expand(gt_session *session, known_path *known, const gt_slot *run)
{
    gt_slot copy[GT_PATH_ROOM]; /* the run may lie in the queue that the records go to */
    memcpy(copy, run, (1u + run->ins.tail) * sizeof *copy);
    if (!session->spreading || session->dispatcher->observing || session->left_out)
        return gt__path_expand(known->path, copy, put, session);
    return gt__replay_place(session, &known->replays, &session->paths->scratch, known->path, copy);
}

/* ---- slices ------------------------------------------------------------------------------------------------- */

/*
 * In how many slices to run a path: one if the worker has no other sessions, or the run is short. A log has a line for each run.
 * A slice has at least one step. The estimate may be too low, and the last slice has all that is left: so there are twice as
 * many as it says. Those that find the run at its end cost next to nothing.
 */
static unsigned count_slices(const gt_session *session, const gt_path *path, double ns)
{
    const gt_dispatch_worker *worker = session->home;
    double cost = gt__share_cost(worker, GT_WORK_PATH, ns), slices = 2 * cost / SLICE_NS;
    if (!worker->share.shared || worker->share.late || session->dispatcher->observing || cost < 2 * SLICE_NS)
        return 1;
    unsigned most = path->count < MOST_SLICES ? path->count : MOST_SLICES;
    return slices < most ? (unsigned)slices : most;
}

/* The rest of the run waits as records of the client do. imm[1] has the number of slices. */
static gt_err put_rest(gt_session *session, const gt_slot *run, unsigned slices)
{
    gt_slot copy[GT_PATH_ROOM]; /* the run may lie in the queue that the rest goes to */
    memcpy(copy, run, (1u + run->ins.tail) * sizeof *copy);
    copy->ins.imm[1].u = slices;
    return gt__output_put_back(session, copy);
}

/* The next slice of a run. The last one has all that is left. */
static gt_err place_slice(gt_session *session, const known_path *known, const gt_slot *run)
{
    gt_dispatch_worker *worker = session->home;
    unsigned slices = (unsigned)run->ins.imm[1].u;
    gt_slot *out = worker && knowing_worker(session, known) == worker ? gt__worker_reserve(worker, 1) : NULL;
    if (out) {
        out->ins = (gt_instruction){.op = GT_OP_repeat, .result = known->number, .operand = {1}}; /* go on */
        out->ins.imm[1].u = slices > 1 ? SLICE_NS : 0;
        gt__worker_put(worker, 1);
        gt__share_charge(session, worker, GT_WORK_SLICE, SLICE_NS, 1);
    }
    return slices > 1 ? put_rest(session, run, slices - 1) : free_after(session, known->path, run);
}

gt_err gt__paths_place(gt_session *session, const gt_slot *run)
{
    known_path *known = find_path(session, run->ins.result);
    if (run->ins.imm[1].u)
        return place_slice(session, known, run);
    const gt_path *path = known->path;
    gt_dispatch_worker *worker = session->home;
    const variant *v = worker && !session->spreading && inputs_at_home(session, path, run)
                           ? find_variant(session, known, run)
                           : NULL;
    if (!v || !gt__paths_within_limits(session, path, run, path->outputs, v->bytes) ||
        !tell_worker(session, known))
        return expand(session, known, run);
    uint32_t words = path->inputs + path->outputs + path->parameters;
    unsigned tail = gt__slots_for(words * sizeof(uint64_t));
    gt_slot *out = gt__worker_reserve(worker, 1 + tail);
    if (!out)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    out->ins = (gt_instruction){.op = GT_OP_repeat, .result = known->number, .tail = (uint16_t)tail};
    unsigned slices = count_slices(session, path, v->ns);
    out->ins.imm[0].u = words;
    out->ins.imm[1].u = slices > 1 ? SLICE_NS : 0;
    uint64_t *word = out[1].u64;
    for (uint32_t k = 0; k < path->inputs; k++)
        *word++ = gt__handles_find(&session->handles, gt__path_word(run, k))->slot;
    GT_TRY(make_outputs(session, path, run, v->outputs, word));
    word += path->outputs;
    for (uint32_t k = 0; k < path->parameters; k++)
        *word++ = gt__path_word(run, path->inputs + k);
    gt__slots_pad(out + 1, words * sizeof *word);
    gt__worker_put(worker, 1 + tail);
    worker->instructions += path->count;
    gt__share_charge(session, worker, slices > 1 ? GT_WORK_SLICE : GT_WORK_PATH, slices > 1 ? SLICE_NS : v->ns, 1);
    return slices > 1 ? put_rest(session, run, slices - 1) : free_after(session, path, run);
}

/* ---- news --------------------------------------------------------------------------------------------------- */

/* The path that the worker knows by this number; NULL: it is gone, or part of a sharded one. */
static known_path *find_known(const gt_dispatch_worker *worker, uint64_t number)
{
    for (gt_peer *peer = worker->peer->dispatcher->peers; peer; peer = peer->next) {
        const gt_paths *paths = peer->session ? peer->session->paths : NULL;
        for (unsigned k = 0; paths && k < paths->count; k++) {
            known_path *known = paths->known[k];
            if (known && known->number == number && known->life == worker->life)
                return known;
        }
    }
    return NULL;
}

void gt__paths_news(const gt_dispatch_worker *worker, const gt_slot *record)
{
    const gt_path_news *news = (const gt_path_news *)(const void *)(record + 1);
    size_t bytes = record->ins.tail * sizeof *record;
    known_path *known = find_known(worker, record->ins.result);
    if (!known || bytes < sizeof *news || news->count > (bytes - sizeof *news) / sizeof news->group[0])
        return;
    gt_path_news *copy = malloc(bytes);
    if (!copy)
        return;
    memcpy(copy, news, bytes);
    free(known->news);
    known->news = copy;
}

/* The ops of each path, and for those that were compiled which group each op runs in. */
void gt__paths_inspect(const gt_session *session, FILE *json)
{
    const char *separator = "";
    fputc('[', json);
    for (unsigned k = 0; session->paths && k < session->paths->count; k++) {
        const known_path *known = session->paths->known[k];
        uint32_t ops = 0;
        if (!known)
            continue;
        fprintf(json, "%s{\"number\": %u, \"ops\": [", separator, k);
        for (uint32_t at = 0; at < known->path->slots && ops < MOST_SHOWN;
             at += 1u + known->path->records[at].ins.tail)
            if (known->path->records[at].ins.op < GT_OP_FIRST_CONTROL)
                fprintf(json, "%s\"%s\"", ops++ ? ", " : "", gt__op_table[known->path->records[at].ins.op].name);
        fprintf(json, "], \"instructions\": %u, \"compiled\": %s, \"seconds\": %.9f, \"group\": [",
                known->path->count,
                !known->news              ? "null"
                : known->news->compile_ns ? "true"
                                          : "false",
                known->news ? (double)known->news->compile_ns * 1e-9 : 0);
        for (uint32_t group = 0; known->news && group < known->news->count && group < ops; group++)
            fprintf(json, group ? ", %u" : "%u", known->news->group[group]);
        fputs("]}", json);
        separator = ", ";
    }
    fputc(']', json);
}

void gt__paths_stats(const gt_session *session, FILE *json)
{
    const char *separator = "";
    fputc('{', json);
    for (unsigned k = 0; session->paths && k < session->paths->count; k++) {
        const gt_path_news *news = session->paths->known[k] ? session->paths->known[k]->news : NULL;
        if (!news)
            continue;
        fprintf(json, "%s\"%u\": {\"seconds\": %.9f, \"groups\": [", separator, k,
                (double)news->compile_ns * 1e-9);
        for (uint32_t group = 0; group < news->count; group++)
            fprintf(json, group ? ", %u" : "%u", news->group[group]);
        fputs("]}", json);
        separator = ", ";
    }
    fputc('}', json);
}
