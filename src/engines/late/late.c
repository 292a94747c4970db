/*
 * late.c: an engine for tests: a queue with a thread of its own, which executes on the cpu engine and finishes later, as
 * a device does. Its caller waits for the tokens it needs, and gets failures by token.
 *
 * Every call is copied into a job, since all of it is borrowed. Jobs are executed in order; so is `release`, because the
 * jobs before it may use the memory. The thread pauses at random. Variables for tests:
 *
 *   GT_LATE_DELAY   the longest pause before a job, in microseconds (20; 0: none)
 *   GT_LATE_SEED    of the pauses (1)
 *   GT_LATE_QUEUE   how many jobs may wait; more block the caller (256)
 *   GT_LATE_HOLD    1: start nothing before flush, a wait or a full queue (0)
 *   GT_LATE_FIRST   what the first job of each operation takes more, in microseconds, as on a device that loads its kernel (0)
 *   GT_LATE_HOST    the longest pause of the caller before an operation or a program is queued, in microseconds, as on a busy host (0)
 *   GT_LATE_LENDS   1: engines lend each other memory, also between processes; they add by the worker's collectives, and the host
 *                   does not touch their memory (0)
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "engines/group.h"
#include "engines/late/lending.h"
#include "engines/late/meeting.h"
#include "engines/plan.h"
#include "engines/plugin.h"

typedef enum job_kind { JOB_RUN, JOB_WRITE, JOB_READ, JOB_RELEASE, JOB_PROGRAM, JOB_FREE, JOB_GROUP } job_kind;

/* A call, copied. The views and pointers that it needs follow the job in the same memory. */
typedef struct job {
    struct job *next;
    job_kind kind;
    bool timed;
    gt_token token; /* 0 if the caller has no token for it */
    gt_err err;
    char *text;    /* err: why */
    unsigned step; /* err of a program: which */
    uint64_t start_ns, end_ns;
    union {
        struct {
            void *to;
            const void *from;
            size_t bytes;
        } transfer; /* WRITE, READ; RELEASE: `to` */
        struct {
            gt_call call;
            gt_instruction ins;
            gt_view out;
        } run;
        struct {
            gt_program *program;
            void **buffer;
            gt_view *in; /* room for the operands of a step */
            const gt_view **views;
            gt_slot *records; /* as they were when the program was run */
        } program;            /* FREE: `program` */
        struct {
            uint64_t tag;
            unsigned self, count;
            gt_view in, out;
        } group;
    };
} job;

/* A plan of our own: steps and values as in the plan, with operands copied. Records are copied for each run. */
struct gt_program {
    const gt_plan *plan;
    unsigned step_count, most_operands;
    uint32_t buffer_count;
    gt_plan_step *steps;
    gt_plan_value *values;
    size_t *record; /* by step: where it is in a job's records */
    size_t slots;   /* of these */
    uint32_t *operands;
};

typedef struct late_engine {
    gt_engine engine;
    gt_engine_ops ops;   /* the engine's */
    gt_engine *cpu;      /* computes on our thread only */
    gt_lending *lending; /* has the memory; NULL: the cpu engine has */
    pthread_t thread;
    bool hold;
    unsigned capacity;
    double delay_us, first_us, host_us;
    uint64_t random;        /* the thread's */
    uint64_t host_random;   /* the caller's */
    bool seen[GT_OP_COUNT]; /* the thread's: these operations were executed before */
    job *told;              /* whose text the last completion has */

    pthread_mutex_t mutex;  /* guards what follows */
    pthread_cond_t work;    /* the thread waits for jobs */
    pthread_cond_t advance; /* the caller waits for jobs to be done */
    job *first, **end;      /* waiting */
    unsigned waiting;
    bool executing, started, closing;
    gt_token next;               /* that nothing has yet */
    gt_token given, done, known; /* the last token given out; executed; reported */
    job *special, **special_end; /* executed: failures and timed work, with completions of their own */
} late_engine;

static const gt_engine_ops engine_late;

static late_engine *late_of(gt_engine *engine)
{
    return (late_engine *)engine;
}

static void job_free(job *j)
{
    if (!j)
        return;
    free(j->text);
    free(j);
}

static void pause_us(double us)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(us * 1000)}, NULL);
}

/* Mostly go on, at times let others run, now and then sleep. */
static void pause_at_random(uint64_t *random, double longest_us)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    unsigned choice = *random >> 60;
    if (longest_us <= 0 || choice >= 4)
        return;
    double fraction = (double)(*random >> 20 & 0xffff) / 0x10000;
    if (choice > 0)
        sched_yield();
    else
        pause_us(fraction * longest_us);
}

/* On the thread. */
static gt_err compute(late_engine *late, const gt_call *call)
{
    if (late->first_us > 0 && !late->seen[call->op])
        pause_us(late->first_us);
    late->seen[call->op] = true;
    return late->cpu->ops->run(late->cpu, call, &(gt_token){0});
}

/* ---- programs ------------------------------------------------------------------------------------------------ */

static void program_free(gt_program *program)
{
    if (!program)
        return;
    free(program->steps);
    free(program->values);
    free(program->record);
    free(program->operands);
    free(program);
}

static void copy_steps(gt_program *program, const gt_plan *plan)
{
    uint32_t *operand = program->operands;
    for (unsigned k = 0; k < plan->step_count; k++) {
        gt_plan_step *step = &program->steps[k];
        memcpy(operand, step->operand, step->operands * sizeof *operand);
        step->operand = operand;
        operand += step->operands;
        program->record[k] = program->slots;
        program->slots += 1 + (size_t)step->record->ins.tail;
    }
}

static gt_err late_compile(gt_engine *engine, gt_plan *plan, gt_program **out)
{
    (void)engine;
    size_t operands = 0;
    gt_program *program = calloc(1, sizeof *program);
    if (!program)
        return gt__fail(GT_ERR_MEMORY, "no memory for a program");
    for (unsigned k = 0; k < plan->step_count; k++) {
        const gt_plan_step *step = &plan->steps[k];
        operands += step->operands;
        if (step->operands > program->most_operands)
            program->most_operands = step->operands;
    }
    program->plan = plan;
    program->step_count = plan->step_count;
    program->buffer_count = plan->buffer_count;
    program->steps = malloc(plan->step_count * sizeof *program->steps + 1);
    program->values = malloc(plan->value_count * sizeof *program->values + 1);
    program->record = malloc(plan->step_count * sizeof *program->record + 1);
    program->operands = malloc(operands * sizeof *program->operands + 1);
    if (!program->steps || !program->values || !program->record || !program->operands) {
        program_free(program);
        return gt__fail(GT_ERR_MEMORY, "no memory for a program");
    }
    memcpy(program->steps, plan->steps, plan->step_count * sizeof *program->steps);
    memcpy(program->values, plan->values, plan->value_count * sizeof *program->values);
    copy_steps(program, plan);
    *out = program;
    return GT_OK;
}

static gt_view place(const job *j, uint32_t value)
{
    const gt_plan_value *v = &j->program.program->values[value];
    gt_view view = v->view;
    view.data = (char *)j->program.buffer[v->buffer] + v->offset;
    return view;
}

static gt_err run_step(late_engine *late, const job *j, const gt_plan_step *step)
{
    const gt_slot *record = j->program.records + j->program.program->record[j->step];
    const gt_instruction *ins = &record->ins;
    gt_view out = place(j, step->result);
    gt_call call = {.op = step->op,
                    .compute = step->compute,
                    .ins = ins,
                    .tail = record + 1,
                    .operands = step->operands,
                    .in = j->program.views,
                    .out = &out};
    for (unsigned k = 0; k < step->operands; k++) {
        gt_view *in = &j->program.in[k];
        j->program.views[k] = in;
        if (step->operand[k] != GT_PLAN_LITERAL) {
            *in = place(j, step->operand[k]);
            continue;
        }
        call.literals |= (uint8_t)(1 << k);
        call.value[k] = gt__literal_operand(ins, k, in);
    }
    if (gt__plan_copies(step)) {
        call.op = GT_OP_copy;
        gt__plan_cut(call.tail, &out.meta, &j->program.in[0]);
    }
    return compute(late, &call);
}

static gt_err run_steps(late_engine *late, job *j)
{
    const gt_program *program = j->program.program;
    for (j->step = 0; j->step < program->step_count; j->step++) {
        const gt_plan_step *step = &program->steps[j->step];
        if (step->kind != GT_STEP_VIEW)
            GT_TRY(run_step(late, j, step));
    }
    return GT_OK;
}

/* ---- the thread ---------------------------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void release_now(late_engine *late, void *memory, size_t bytes)
{
    if (late->lending)
        gt__lending_release(late->lending, memory, bytes);
    else
        late->cpu->ops->release(late->cpu, memory, bytes);
}

static gt_err execute(late_engine *late, job *j)
{
    gt_engine *cpu = late->cpu;
    gt_token none = 0;
    switch (j->kind) {
    case JOB_RUN:
        return compute(late, &j->run.call);
    case JOB_WRITE:
        return cpu->ops->write(cpu, j->transfer.to, j->transfer.from, j->transfer.bytes, false, &none);
    case JOB_READ:
        return cpu->ops->read(cpu, j->transfer.from, j->transfer.to, j->transfer.bytes, false, &none);
    case JOB_RELEASE:
        release_now(late, j->transfer.to, j->transfer.bytes);
        return GT_OK;
    case JOB_PROGRAM:
        return run_steps(late, j);
    case JOB_GROUP:
        return gt__meeting_add(cpu, j->group.tag, j->group.self, j->group.count, &j->group.in, &j->group.out);
    case JOB_FREE:
        program_free(j->program.program);
        return GT_OK;
    }
    return gt__fail(GT_ERR_INTERNAL, "unknown job %d", (int)j->kind);
}

static void execute_and_measure(late_engine *late, job *j)
{
    pause_at_random(&late->random, late->delay_us);
    j->start_ns = j->timed ? now_ns() : 0;
    j->err = execute(late, j);
    j->end_ns = j->timed ? now_ns() : 0;
    if (j->err)
        j->text = strdup(gt_error_text());
}

/* With the mutex: the job is executed. */
static void conclude(late_engine *late, job *j)
{
    if (j->token)
        late->done = j->token;
    if (j->err || j->timed) {
        j->next = NULL;
        *late->special_end = j;
        late->special_end = &j->next;
    } else
        job_free(j);
    pthread_cond_signal(&late->advance);
}

static void *thread_main(void *argument)
{
    late_engine *late = argument;
    pthread_mutex_lock(&late->mutex);
    for (;;) {
        while (!(late->first && late->started) && !(late->closing && !late->first))
            pthread_cond_wait(&late->work, &late->mutex);
        job *j = late->first;
        if (!j)
            break;
        late->first = j->next;
        if (!late->first)
            late->end = &late->first;
        late->waiting--;
        late->executing = true;
        pthread_mutex_unlock(&late->mutex);
        execute_and_measure(late, j);
        pthread_mutex_lock(&late->mutex);
        late->executing = false;
        conclude(late, j);
        if (!late->first)
            late->started = !late->hold;
    }
    pthread_mutex_unlock(&late->mutex);
    return NULL;
}

/* ---- the queue ----------------------------------------------------------------------------------------------- */

/* With the mutex: jobs that were held back may run. */
static void start(late_engine *late)
{
    if (late->first)
        late->started = true;
    pthread_cond_signal(&late->work);
}

/* With the mutex: until every job is executed. */
static void finish(late_engine *late)
{
    start(late);
    while (late->first || late->executing)
        pthread_cond_wait(&late->advance, &late->mutex);
}

static job *job_new(job_kind kind, size_t more)
{
    job *j = malloc(sizeof *j + more);
    if (j)
        *j = (job){.kind = kind};
    return j;
}

/* Takes the job. token NULL: the caller does not learn of its end. */
static gt_err enqueue(late_engine *late, job *j, gt_token *token)
{
    if (!j)
        return gt__fail(GT_ERR_MEMORY, "no memory for a call");
    pthread_mutex_lock(&late->mutex);
    while (late->waiting >= late->capacity) {
        start(late);
        pthread_cond_wait(&late->advance, &late->mutex);
    }
    gt_token number = late->next++;
    if (token)
        *token = late->given = j->token = number;
    j->next = NULL;
    *late->end = j;
    late->end = &j->next;
    late->waiting++;
    if (late->started)
        pthread_cond_signal(&late->work);
    pthread_mutex_unlock(&late->mutex);
    return GT_OK;
}

static bool late_completed(gt_engine *engine, bool wait, gt_completion *completion)
{
    late_engine *late = late_of(engine);
    job_free(late->told);
    late->told = NULL;
    pthread_mutex_lock(&late->mutex);
    while (wait && late->done == late->known && late->given > late->known) {
        start(late);
        pthread_cond_wait(&late->advance, &late->mutex);
    }
    bool found = late->done > late->known;
    job *j = late->special;
    if (j) {
        late->special = j->next;
        if (!late->special)
            late->special_end = &late->special;
        late->known = j->token;
        *completion = (gt_completion){
            .token = j->token,
            .err = j->err,
            .text = j->err ? (j->text ? j->text : "out of memory") : NULL,
            .step = j->step,
            .start_ns = j->start_ns,
            .end_ns = j->end_ns,
        };
        late->told = j;
    } else if (found) {
        late->known = late->done;
        *completion = (gt_completion){.token = late->done};
    }
    pthread_mutex_unlock(&late->mutex);
    return found;
}

static void late_flush(gt_engine *engine)
{
    late_engine *late = late_of(engine);
    pthread_mutex_lock(&late->mutex);
    start(late);
    pthread_mutex_unlock(&late->mutex);
}

/* ---- calls --------------------------------------------------------------------------------------------------- */

static gt_err late_run(gt_engine *engine, const gt_call *call, gt_token *token)
{
    late_engine *late = late_of(engine);
    pause_at_random(&late->host_random, late->host_us);
    size_t views = call->operands * sizeof(gt_view), pointers = call->operands * sizeof(gt_view *);
    size_t tail = (size_t)call->ins->tail * sizeof(gt_slot);
    job *j = job_new(JOB_RUN, views + pointers + tail);
    if (j) {
        gt_view *in = (gt_view *)(j + 1);
        const gt_view **in_pointers = (const gt_view **)(in + call->operands);
        gt_slot *slots = (gt_slot *)(in_pointers + call->operands);
        for (unsigned k = 0; k < call->operands; k++) {
            in[k] = *call->in[k];
            in_pointers[k] = &in[k];
        }
        if (tail)
            memcpy(slots, call->tail, tail);
        j->timed = call->timed;
        j->run.ins = *call->ins;
        j->run.out = *call->out;
        j->run.call = *call;
        j->run.call.ins = &j->run.ins;
        j->run.call.tail = slots;
        j->run.call.in = in_pointers;
        j->run.call.out = &j->run.out;
    }
    return enqueue(late, j, token);
}

/* Those of one process can meet; they need no seats. */
static uint64_t late_league(gt_engine *engine)
{
    (void)engine;
    return (gt__process_identity() | 1) << 32;
}

/* Sums only: the worker's own collectives serve for the rest. */
static gt_err late_collective(gt_engine *engine, const gt_group_call *call, gt_token *token)
{
    if (call->op != GT_OP_all_reduce)
        return gt__fail(GT_ERR_UNSUPPORTED, "the late engine only adds");
    job *j = job_new(JOB_GROUP, 0);
    if (j) {
        j->timed = call->timed;
        j->group.tag = call->tag;
        j->group.self = call->self;
        j->group.count = call->count;
        j->group.in = *call->in;
        j->group.out = *call->out;
    }
    return enqueue(late_of(engine), j, token);
}

static gt_err late_run_program(gt_engine *engine, gt_program *program, void *const *buffer, bool timed,
                               unsigned *step, gt_token *token)
{
    (void)step; /* steps fail later */
    late_engine *late = late_of(engine);
    pause_at_random(&late->host_random, late->host_us);
    size_t buffers = program->buffer_count * sizeof *buffer;
    size_t views = program->most_operands * (sizeof(gt_view) + sizeof(gt_view *));
    job *j = job_new(JOB_PROGRAM, buffers + views + (program->slots + 1) * sizeof(gt_slot));
    if (j) {
        j->program.in = (gt_view *)(j + 1);
        j->program.views = (const gt_view **)(j->program.in + program->most_operands);
        j->program.buffer = (void **)(j->program.views + program->most_operands);
        if (buffers)
            memcpy(j->program.buffer, buffer, buffers);
        j->program.records =
            (gt_slot *)(((uintptr_t)(j->program.buffer + program->buffer_count) + 7) & ~(uintptr_t)7);
        for (unsigned k = 0; k < program->step_count; k++) {
            const gt_slot *record = program->plan->steps[k].record;
            memcpy(j->program.records + program->record[k], record, (1u + record->ins.tail) * sizeof *record);
        }
        j->program.program = program;
        j->timed = timed;
    }
    return enqueue(late, j, token);
}

/* Jobs that use it may wait. */
static void late_free_program(gt_engine *engine, gt_program *program)
{
    late_engine *late = late_of(engine);
    job *j = job_new(JOB_FREE, 0);
    if (j) {
        j->program.program = program;
        enqueue(late, j, NULL);
        return;
    }
    pthread_mutex_lock(&late->mutex);
    finish(late);
    pthread_mutex_unlock(&late->mutex);
    program_free(program);
}

static job *job_transfer(job_kind kind, void *to, const void *from, size_t bytes, bool timed)
{
    job *j = job_new(kind, 0);
    if (j) {
        j->timed = timed;
        j->transfer.to = to;
        j->transfer.from = from;
        j->transfer.bytes = bytes;
    }
    return j;
}

static gt_err late_write(gt_engine *engine, void *to, const void *host, size_t bytes, bool timed, gt_token *token)
{
    return enqueue(late_of(engine), job_transfer(JOB_WRITE, to, host, bytes, timed), token);
}

static gt_err late_read(gt_engine *engine, const void *from, void *host, size_t bytes, bool timed, gt_token *token)
{
    return enqueue(late_of(engine), job_transfer(JOB_READ, host, from, bytes, timed), token);
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

static void wait_for_all(late_engine *late)
{
    pthread_mutex_lock(&late->mutex);
    finish(late);
    pthread_mutex_unlock(&late->mutex);
}

static gt_err alloc_now(late_engine *late, size_t bytes, void **memory)
{
    return late->lending ? gt__lending_alloc(late->lending, bytes, memory)
                         : late->cpu->ops->alloc(late->cpu, bytes, memory);
}

/* At once: what is free is not in use by any job. Memory whose release waits may be what is lacking. */
static gt_err late_alloc(gt_engine *engine, size_t bytes, void **memory)
{
    late_engine *late = late_of(engine);
    if (alloc_now(late, bytes, memory) == GT_OK)
        return GT_OK;
    wait_for_all(late);
    return alloc_now(late, bytes, memory);
}

static void late_release(gt_engine *engine, void *memory, size_t bytes)
{
    late_engine *late = late_of(engine);
    job *j = job_transfer(JOB_RELEASE, memory, NULL, bytes, false);
    if (j) {
        enqueue(late, j, NULL);
        return;
    }
    wait_for_all(late);
    release_now(late, memory, bytes);
}

/* Not while the thread computes: kernels read the limit. */
static uint64_t late_memory_limit(gt_engine *engine, unsigned sharers)
{
    late_engine *late = late_of(engine);
    wait_for_all(late);
    uint64_t limit = late->cpu->ops->memory_limit(late->cpu, sharers);
    return late->lending && limit > gt__lending_limit() ? gt__lending_limit() : limit;
}

static uint64_t late_group(gt_engine *engine)
{
    (void)engine;
    return gt__neighbours_identity();
}

static gt_err late_lend(gt_engine *engine, const void *memory, size_t bytes, bool outside, gt_loan *loan)
{
    (void)bytes;
    (void)outside; /* inside a process it is the same */
    return gt__lending_lend(late_of(engine)->lending, memory, loan);
}

static gt_err late_expose(gt_engine *engine, void *memory, size_t bytes, void **address)
{
    (void)engine;
    (void)bytes;
    *address = memory;
    return GT_OK;
}

static gt_err late_borrow(gt_engine *engine, const gt_loan *loan, void **memory)
{
    return gt__lending_borrow(late_of(engine)->lending, loan, memory);
}

static void late_give_back(gt_engine *engine, const gt_loan *loan)
{
    gt__lending_give_back(late_of(engine)->lending, loan);
}

/* ---- opening and closing ------------------------------------------------------------------------------------- */

static double variable(const char *name, double least, double most, double fallback)
{
    const char *text = getenv(name);
    double value;
    if (!text || !*text)
        return fallback;
    if (gt__number_parse(text, GT_NUMBER_COUNT, least, most, &value))
        return value;
    gt__log_error("%s=%.64s is not a whole number from %g to %g; %g is used", name, text, least, most, fallback);
    return fallback;
}

static void late_free(late_engine *late)
{
    job_free(late->told);
    for (job *j = late->special, *next; j; j = next) {
        next = j->next;
        job_free(j);
    }
    if (late->cpu)
        late->cpu->ops->close(late->cpu);
    gt__lending_close(late->lending);
    pthread_cond_destroy(&late->work);
    pthread_cond_destroy(&late->advance);
    pthread_mutex_destroy(&late->mutex);
    free(late);
}

static gt_engine_ops ops_that_lend(void)
{
    gt_engine_ops ops = engine_late;
    ops.host_memory = false; /* memory of elsewhere, used in place, could not be lent */
    ops.league = NULL;
    ops.collective = NULL;
    ops.group = late_group;
    ops.lend = late_lend;
    ops.borrow = late_borrow;
    ops.give_back = late_give_back;
    ops.memory_type = "host";
    ops.expose = late_expose;
    return ops;
}

static gt_err late_open(const gt_engine_options *options, gt_engine **engine)
{
    const gt_engine_ops *cpu;
    GT_TRY(gt__engine_find("cpu", &cpu));
    late_engine *late = calloc(1, sizeof *late);
    if (!late)
        return gt__fail(GT_ERR_MEMORY, "out of memory");
    bool lends = variable("GT_LATE_LENDS", 0, 1, 0) > 0;
    late->ops = lends ? ops_that_lend() : engine_late;
    late->engine.ops = &late->ops;
    late->hold = variable("GT_LATE_HOLD", 0, 1, 0) > 0;
    late->started = !late->hold;
    late->capacity = (unsigned)variable("GT_LATE_QUEUE", 1, 1e6, 256);
    late->delay_us = variable("GT_LATE_DELAY", 0, 1e5, 20);
    late->first_us = variable("GT_LATE_FIRST", 0, 1e5, 0);
    late->host_us = variable("GT_LATE_HOST", 0, 1e5, 0);
    late->random = late->host_random = 2 * (uint64_t)variable("GT_LATE_SEED", 0, 1e15, 1) + 1;
    late->next = 1;
    late->end = &late->first;
    late->special_end = &late->special;
    pthread_mutex_init(&late->mutex, NULL);
    pthread_cond_init(&late->work, NULL);
    pthread_cond_init(&late->advance, NULL);
    gt_engine_options for_cpu = *options;
    for_cpu.cancel = NULL; /* it is called by our thread, which may not ask */
    gt_err err = cpu->open(&for_cpu, &late->cpu);
    if (err == GT_OK && lends)
        err = gt__lending_open(&late->lending);
    if (err == GT_OK && pthread_create(&late->thread, NULL, thread_main, late) != 0)
        err = gt__fail(GT_ERR_MEMORY, "the late engine cannot start its thread");
    if (err) {
        late_free(late);
        return err;
    }
    *engine = &late->engine;
    return GT_OK;
}

static void late_close(gt_engine *engine)
{
    late_engine *late = late_of(engine);
    if (!late)
        return;
    pthread_mutex_lock(&late->mutex);
    late->closing = true;
    start(late);
    pthread_mutex_unlock(&late->mutex);
    pthread_join(late->thread, NULL);
    late_free(late);
}

static const gt_engine_ops engine_late = {
    .name = "late",
    .host_memory = true,
    .asynchronous = true,
    .open = late_open,
    .close = late_close,
    .memory_limit = late_memory_limit,
    .alloc = late_alloc,
    .release = late_release,
    .write = late_write,
    .read = late_read,
    .run = late_run,
    .completed = late_completed,
    .flush = late_flush,
    .compile = late_compile,
    .run_program = late_run_program,
    .free_program = late_free_program,
    .league = late_league,
    .collective = late_collective,
};

GT_ENGINE_PLUGIN(engine_late);
