/*
 * chain_form.c: chooses which neighbouring steps of a plan run as one kernel. Read chain.h first.
 *
 * Steps join while their results have as many elements as the chain has positions, and while they read what the chain
 * makes only at the position where it is made. Steps that have nothing to do with the ones before begin a chain of their own.
 *
 * The steps between the first and the last member are one group of the plan. plan_memory.c lets an elementwise step of a group
 * write over what steps before it have read element by element. So an elementwise step that is no member may run before the
 * chain only if it has another number of elements, and never after it.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "engines/cuda/chain.h"
#include "engines/cuda/generate_family.h"

enum {
    BOUNDARY = 64, /* of buffers, in bytes: engine.h */
    LATER = 0xfffe,
    FEW = 32, /* positions: a chain of so few is not worth that other steps cannot be chains */
    SMALL =
        1
        << 16, /* elements. All results in a group need memory at the same time, so that of other steps is to be little */
};

typedef struct forming {
    const gt_plan *plan;
    const gt_cuda_casts *casts;
    gt_cuda_chain *chain;
    uint16_t
        *member; /* by buffer: the member that makes it, GT_CHAIN_NONE, or LATER: a step after the chain does */
    uint16_t component; /* number of the last one that was begun */
    uint16_t component_of[GT_CHAIN_MEMBERS];
    uint16_t reader[GT_CHAIN_INPUTS]; /* the first member that reads an input */
} forming;

/* Views, and casts that are left out, compute nothing. */
static bool computes(const forming *f, uint32_t step)
{
    return f->plan->steps[step].kind != GT_STEP_VIEW && !f->casts->left_out[step];
}

/* What is read instead of a value, or itself. */
static uint32_t read_value(const forming *f, uint32_t value)
{
    return f->casts->instead[value] != GT_CAST_NONE ? f->casts->instead[value] : value;
}

static uint32_t result_buffer(const gt_plan *plan, uint32_t step)
{
    return plan->values[plan->steps[step].result].buffer;
}

/* ---- what a step is ------------------------------------------------------------------------------------------ */

/* Elements that lie far apart are left to kernels that move squares of them. */
static bool moves_runs(const gt_plan *plan, const gt_plan_step *step)
{
    gt_access access;
    if (step->operand[0] == GT_PLAN_LITERAL)
        return false;
    const gt_view *view = &plan->values[step->operand[0]].view;
    gt__access_find(view, &view->meta, &access);
    int64_t stride = access.stride[access.rank - 1];
    return stride == 0 || stride == 1;
}

static bool has_complex_operand(const gt_plan *plan, const gt_plan_step *step)
{
    for (unsigned k = 0; k < step->operands; k++)
        if (step->operand[k] != GT_PLAN_LITERAL &&
            gt__dtype_is_complex((gt_dtype)plan->values[step->operand[k]].view.meta.dtype))
            return true;
    return false;
}

/* False: it is no member of a chain. */
static bool kind_of(const gt_plan *plan, const gt_plan_step *step, gt_chain_kind *kind)
{
    const gt_view *out = &plan->values[step->result].view;
    if (step->kind != GT_STEP_RUN || out->meta.numel == 0 || !out->contiguous)
        return false;
    switch ((gt_form)gt__op_table[step->op].form) {
    case GT_FORM_UNARY:
    case GT_FORM_BINARY:
    case GT_FORM_TERNARY:
        *kind = GT_CHAIN_EXPRESSION;
        return gt__cuda_chains(step->op, step->compute) &&
               (gt__dtype_is_complex(step->compute) || !has_complex_operand(plan, step));
    case GT_FORM_RESHAPE:
    case GT_FORM_CAST:
    case GT_FORM_COPY:
        *kind = GT_CHAIN_MOVE;
        return moves_runs(plan, step);
    case GT_FORM_FULL:
        *kind = GT_CHAIN_FILL;
        return !gt__dtype_is_complex((gt_dtype)out->meta.dtype);
    case GT_FORM_RANDOM: /* numbers in a row, that begin where a vector does */
        *kind = GT_CHAIN_RANDOM;
        return (step->op == GT_OP_rand || step->op == GT_OP_randn) && out->meta.dtype != GT_FLOAT64 &&
               step->record[2].i64[3] == 0 && step->record[2].i64[2] % 8 == 0;
    default:
        return false;
    }
}

/* ---- operands ------------------------------------------------------------------------------------------------ */

static bool is_one(const gt_access *access)
{
    return access->rank == 1 && access->stride[0] == 0 && access->shape[0] > 1;
}

/* The number of an input that is read this way; GT_CHAIN_NONE if there is no room. */
static uint16_t input_add(forming *f, uint32_t value, const gt_access *access)
{
    gt_cuda_chain *chain = f->chain;
    const gt_plan_value *v = &f->plan->values[value];
    for (unsigned k = 0; k < chain->inputs; k++) {
        const gt_plan_value *known = &f->plan->values[chain->input[k].value];
        if (known->buffer == v->buffer && known->offset == v->offset &&
            chain->input[k].dtype == v->view.meta.dtype && gt__access_same(&chain->input[k].access, access))
            return (uint16_t)k;
    }
    if (chain->inputs == GT_CHAIN_INPUTS)
        return GT_CHAIN_NONE;
    f->reader[chain->inputs] = GT_CHAIN_NONE;
    chain->input[chain->inputs] =
        (gt_chain_input){.value = value, .dtype = (gt_dtype)v->view.meta.dtype, .access = *access};
    return (uint16_t)chain->inputs++;
}

static bool number_add(forming *f, uint32_t step, unsigned what, gt_dtype dtype, uint16_t *number)
{
    gt_cuda_chain *chain = f->chain;
    if (chain->numbers == GT_CHAIN_NUMBERS)
        return false;
    chain->number[chain->numbers] = (gt_chain_number){.step = step, .what = (uint8_t)what, .dtype = dtype};
    *number = (uint16_t)chain->numbers++;
    return true;
}

/* Members of two components belong together from now on. */
static void unite(forming *f, uint16_t a, uint16_t b)
{
    uint16_t from = f->component_of[a], to = f->component_of[b];
    for (unsigned k = 0; k <= f->chain->members && from != to; k++)
        if (f->component_of[k] == from)
            f->component_of[k] = to;
}

/* Operand k of the member that is being added. */
static bool operand_add(forming *f, gt_chain_member *m, unsigned k)
{
    gt_cuda_chain *chain = f->chain;
    const gt_plan_step *step = &f->plan->steps[m->step];
    gt_chain_operand *operand = &m->operand[k];
    uint16_t self = (uint16_t)chain->members;
    gt_access access;
    if (step->operand[k] == GT_PLAN_LITERAL) {
        operand->source = GT_CHAIN_NUMBER;
        gt_dtype dtype = gt__number_dtype(step->op, k, true, m->compute);
        return number_add(f, m->step, k, gt__dtype_real(dtype), &operand->number);
    }
    uint32_t number = step->operand[k];
    const gt_plan_value *value = &f->plan->values[number];
    const gt_meta *over = m->kind == GT_CHAIN_MOVE ? &value->view.meta : &f->plan->values[step->result].view.meta;
    operand->rounds =
        m->kind == GT_CHAIN_EXPRESSION && gt__cuda_rounds(step->op, k, &value->view.meta, m->compute);
    gt__access_find(&value->view, over, &access);
    number = read_value(f, number);
    value = &f->plan->values[number];
    operand->dtype = (gt_dtype)value->view.meta.dtype;
    uint16_t made = f->member[value->buffer];
    if (made == LATER)
        return false;
    if (made != GT_CHAIN_NONE) {
        operand->source = GT_CHAIN_MADE;
        operand->number = made;
        unite(f, self, made);
        bool same = chain->member[made].scalar ? m->scalar || value->view.meta.numel == 1 || is_one(&access)
                                               : !m->scalar && gt__access_flat(&access) && value->offset == 0;
        return same && operand->dtype == chain->member[made].out;
    }
    if (m->scalar)
        return false;
    operand->source = GT_CHAIN_READ;
    operand->number = input_add(f, number, &access);
    if (operand->number == GT_CHAIN_NONE)
        return false;
    if (f->reader[operand->number] == GT_CHAIN_NONE)
        f->reader[operand->number] = self;
    else if (!is_one(&access))
        unite(f, self, f->reader[operand->number]);
    return true;
}

/* ---- joining ------------------------------------------------------------------------------------------------- */

/* A power with a number: which expression it is depends on the number. */
static bool is_power(const gt_plan_step *step)
{
    return step->op == GT_OP_pow && step->operand[1] == GT_PLAN_LITERAL && step->operand[0] != GT_PLAN_LITERAL;
}

/* Add a step to the chain, if it fits. */
static bool join(forming *f, uint32_t number)
{
    const gt_plan *plan = f->plan;
    const gt_plan_step *step = &plan->steps[number];
    gt_cuda_chain *chain = f->chain;
    const gt_plan_value *result = &plan->values[step->result];
    gt_chain_member m = {.step = number,
                         .compute = step->compute,
                         .out = (gt_dtype)result->view.meta.dtype,
                         .operands = step->operands,
                         .which = GT_CHAIN_NONE,
                         .pq = GT_CHAIN_NONE,
                         .output = GT_CHAIN_NONE};
    if (!kind_of(plan, step, &m.kind))
        return false;
    m.scalar = chain->members && chain->count > 1 && result->view.meta.numel == 1;
    if ((m.scalar && m.kind == GT_CHAIN_RANDOM) ||
        (chain->members && !m.scalar && result->view.meta.numel != chain->count))
        return false;
    f->component_of[chain->members] = f->component++;
    for (unsigned k = 0; k < m.operands; k++)
        if (!operand_add(f, &m, k))
            return false;
    if (m.kind == GT_CHAIN_FILL && !number_add(f, number, GT_CHAIN_IMMEDIATE, m.out, &m.operand[0].number))
        return false;
    uint16_t q, first;
    if (m.kind == GT_CHAIN_RANDOM && (!number_add(f, number, GT_CHAIN_IMMEDIATE, GT_INT64, &m.pq) ||
                                      !number_add(f, number, GT_CHAIN_IMMEDIATE + 1, GT_INT64, &q) ||
                                      !number_add(f, number, GT_CHAIN_FIRST, GT_INT64, &first)))
        return false;
    if (is_power(step) && !number_add(f, number, GT_CHAIN_WHICH_POWER, m.compute, &m.which))
        return false;
    if (m.kind == GT_CHAIN_EXPRESSION && gt__cuda_has_numbers(step->op) &&
        (!number_add(f, number, GT_CHAIN_IMMEDIATE, gt__dtype_real(m.compute), &m.pq) ||
         !number_add(f, number, GT_CHAIN_IMMEDIATE + 1, gt__dtype_real(m.compute), &q)))
        return false;
    chain->count = m.scalar ? chain->count : result->view.meta.numel;
    f->member[result->buffer] = (uint16_t)chain->members;
    chain->member[chain->members++] = m;
    return true;
}

static bool is_elementwise(const gt_plan_step *step)
{
    gt_form form = (gt_form)gt__op_table[step->op].form;
    return form == GT_FORM_UNARY || form == GT_FORM_BINARY || form == GT_FORM_TERNARY;
}

/* The member that makes an operand; GT_CHAIN_NONE or LATER. */
static uint16_t made_by(const forming *f, uint32_t operand)
{
    return operand == GT_PLAN_LITERAL ? GT_CHAIN_NONE : f->member[f->plan->values[read_value(f, operand)].buffer];
}

/* Leave out a step that did not join. False: the chain ends before it. */
static bool pass_by(forming *f, uint32_t number)
{
    const gt_plan *plan = f->plan;
    const gt_plan_step *step = &plan->steps[number];
    gt_cuda_chain *chain = f->chain;
    bool depends = false;
    if (!chain->members || chain->count < FEW || step->kind != GT_STEP_RUN ||
        chain->before_count + chain->after_count == GT_CHAIN_OTHERS)
        return false;
    for (unsigned k = 0; k < step->operands; k++)
        depends |= made_by(f, step->operand[k]) != GT_CHAIN_NONE;
    int64_t numel = plan->values[step->result].view.meta.numel;
    if (numel > (chain->count > SMALL ? chain->count : SMALL) ||
        (is_elementwise(step) && (depends || numel == chain->count)))
        return false;
    if (!depends) {
        chain->before[chain->before_count++] = number;
        return true;
    }
    for (unsigned k = 0; k < step->operands; k++) {
        uint16_t made = made_by(f, step->operand[k]);
        if (made < chain->members)
            chain->member[made].needed = true;
    }
    f->member[result_buffer(plan, number)] = LATER;
    chain->after[chain->after_count++] = number;
    return true;
}

static void clear(forming *f)
{
    gt_cuda_chain *chain = f->chain;
    for (unsigned k = 0; k < chain->members; k++)
        f->member[result_buffer(f->plan, chain->member[k].step)] = GT_CHAIN_NONE;
    for (unsigned k = 0; k < chain->after_count; k++)
        f->member[result_buffer(f->plan, chain->after[k])] = GT_CHAIN_NONE;
    if (chain->reduces)
        f->member[result_buffer(f->plan, chain->reduction)] = GT_CHAIN_NONE;
    chain->reduces = false;
    chain->members = chain->inputs = chain->outputs = chain->numbers = 0;
    chain->before_count = chain->after_count = 0;
    f->component = 0;
}

/* Members from step `first` on, at most so many. */
static void form(forming *f, uint32_t first, unsigned most)
{
    uint16_t before[GT_CHAIN_MEMBERS];
    clear(f);
    for (uint32_t k = first; k < f->plan->step_count && f->chain->members < most; k++) {
        unsigned inputs = f->chain->inputs, numbers = f->chain->numbers;
        memcpy(before, f->component_of, sizeof before);
        if (!computes(f, k) || join(f, k))
            continue;
        memcpy(f->component_of, before, sizeof before);
        f->chain->inputs = inputs;
        f->chain->numbers = numbers;
        if (!pass_by(f, k))
            break;
    }
}

/* How many members are of components that end before the next one begins: the first such number. */
static unsigned first_boundary(const forming *f)
{
    unsigned members = f->chain->members, last = 0;
    for (unsigned k = 0; k <= last && k < members; k++)
        for (unsigned other = k + 1; other < members; other++)
            if (f->component_of[other] == f->component_of[k] && other > last)
                last = other;
    return members ? last + 1 : 0;
}

/* Of a chain without room for the next step: how many members it keeps, so that few values are handed over in memory. */
static unsigned best_boundary(const forming *f)
{
    const gt_cuda_chain *chain = f->chain;
    const gt_plan *plan = f->plan;
    unsigned best = chain->members, fewest = UINT_MAX;
    for (unsigned cut = chain->members / 2; cut <= chain->members; cut++) {
        unsigned crossing = 0;
        uint32_t step = cut ? chain->member[cut - 1].step : 0;
        for (unsigned k = 0; k < cut; k++) {
            const gt_plan_buffer *buffer = &plan->buffers[result_buffer(plan, chain->member[k].step)];
            crossing += buffer->role == GT_PLAN_INNER && buffer->last_use > step;
        }
        if (crossing <= fewest) {
            fewest = crossing;
            best = cut;
        }
    }
    return best;
}

/* ---- the finished chain -------------------------------------------------------------------------------------- */

static uint32_t last_step(const gt_cuda_chain *chain)
{
    uint32_t last = chain->member[chain->members - 1].step;
    return chain->reduces && chain->reduction > last ? chain->reduction : last;
}

/* It need not be in memory. */
static bool is_inside(const gt_plan *plan, const gt_cuda_chain *chain, uint32_t buffer)
{
    return plan->buffers[buffer].role == GT_PLAN_INNER && plan->buffers[buffer].last_use <= last_step(chain);
}

static bool reads_buffer(const gt_plan *plan, uint32_t step, uint32_t buffer)
{
    for (unsigned k = 0; k < plan->steps[step].operands; k++)
        if (plan->steps[step].operand[k] != GT_PLAN_LITERAL &&
            plan->values[plan->steps[step].operand[k]].buffer == buffer)
            return true;
    return false;
}

/* A step that reduces everything that a member makes. */
static bool is_reduction(const forming *f, uint32_t number)
{
    const gt_plan *plan = f->plan;
    const gt_plan_step *step = &plan->steps[number];
    if (step->kind != GT_STEP_RUN || !gt__cuda_reduces_simply(step->op) || step->operand[0] == GT_PLAN_LITERAL)
        return false;
    const gt_plan_value *value = &plan->values[step->operand[0]];
    uint64_t mask = step->record->ins.imm[0].u, all = ((uint64_t)1 << value->view.meta.rank) - 1;
    uint16_t made = f->member[value->buffer];
    return made < f->chain->members && !f->chain->member[made].scalar && (mask == 0 || (mask & all) == all) &&
           value->offset == 0 && value->view.contiguous && value->view.meta.numel == f->chain->count &&
           f->chain->count > 1 && value->view.meta.dtype == f->chain->member[made].out &&
           !gt__dtype_is_complex((gt_dtype)value->view.meta.dtype) && value->view.meta.rank > 0;
}

/* The reduction among the steps after the chain, or the one that follows it. */
static void find_reduction(forming *f)
{
    gt_cuda_chain *chain = f->chain;
    const gt_plan *plan = f->plan;
    unsigned at = 0;
    uint32_t number;
    while (at < chain->after_count && !is_reduction(f, chain->after[at]))
        at++;
    if (at < chain->after_count) {
        number = chain->after[at];
        memmove(chain->after + at, chain->after + at + 1, (--chain->after_count - at) * sizeof chain->after[0]);
    } else {
        number = chain->member[chain->members - 1].step + 1;
        while (number < plan->step_count && !computes(f, number))
            number++;
        if (number == plan->step_count || !is_reduction(f, number))
            return;
    }
    uint32_t buffer = plan->values[plan->steps[number].operand[0]].buffer;
    chain->reduces = true;
    chain->reduction = number;
    chain->reduced = f->member[buffer];
    chain->member[chain->reduced].needed = false;
    for (unsigned k = 0; k < chain->after_count; k++)
        chain->member[chain->reduced].needed |= reads_buffer(plan, chain->after[k], buffer);
}

/* False: it has too many. */
static bool find_outputs(forming *f)
{
    gt_cuda_chain *chain = f->chain;
    chain->outputs = 0;
    for (unsigned k = 0; k < chain->members; k++) {
        gt_chain_member *m = &chain->member[k];
        if (!m->needed && is_inside(f->plan, chain, result_buffer(f->plan, m->step)))
            continue;
        if (chain->outputs == GT_CHAIN_OUTPUTS)
            return false;
        m->output = (uint16_t)chain->outputs;
        chain->output[chain->outputs++] = f->plan->steps[m->step].result;
    }
    return true;
}

static int64_t reach(const gt_access *access)
{
    int64_t sum = 0;
    for (int axis = 0; axis < access->rank; axis++) {
        int64_t stride = access->stride[axis];
        sum += (access->shape[axis] - 1) * (stride < 0 ? -stride : stride);
    }
    return sum;
}

static gt_chain_mode choose_mode(const gt_plan *plan, const gt_chain_input *in, int64_t vector)
{
    const gt_access *access = &in->access;
    int last = access->rank - 1;
    int64_t bytes = (int64_t)gt__dtype_size(in->dtype) * vector;
    if (is_one(access))
        return GT_CHAIN_ONE;
    bool aligned = plan->values[in->value].offset % (bytes < 16 ? bytes : 16) == 0;
    if (gt__access_flat(access))
        return aligned ? GT_CHAIN_FLAT : GT_CHAIN_GATHER;
    if (access->shape[last] % vector != 0)
        return GT_CHAIN_GATHER;
    for (int axis = 0; axis < last; axis++)
        aligned &= access->stride[axis] % vector == 0;
    return access->stride[last] == 0              ? GT_CHAIN_REPEAT
           : access->stride[last] == 1 && aligned ? GT_CHAIN_VECTOR
                                                  : GT_CHAIN_GATHER;
}

/* Buffers begin on a boundary, so the plan tells what is aligned. */
static void choose_vector(gt_cuda_chain *chain)
{
    size_t least = 16;
    _Static_assert(BOUNDARY % 16 == 0, "vectors of 16 bytes");
    for (unsigned k = 0; k < chain->inputs; k++)
        if (!is_one(&chain->input[k].access) && gt__dtype_size(chain->input[k].dtype) < least)
            least = gt__dtype_size(chain->input[k].dtype);
    for (unsigned k = 0; k < chain->members; k++)
        if (chain->member[k].output != GT_CHAIN_NONE && gt__dtype_size(chain->member[k].out) < least)
            least = gt__dtype_size(chain->member[k].out);
    chain->vector = 16 / least < 8 ? (unsigned)(16 / least) : 8;
    chain->wide = chain->count >= INT32_MAX / 2;
    chain->random = false;
    for (unsigned k = 0; k < chain->members; k++)
        chain->random |= chain->member[k].kind == GT_CHAIN_RANDOM;
    for (unsigned k = 0; k < chain->inputs; k++) {
        chain->input[k].mode = choose_mode(chain->plan, &chain->input[k], chain->vector);
        chain->wide |= reach(&chain->input[k].access) >= INT32_MAX;
    }
}

/* The chain from a step on; NULL if it has no members. */
static gt_err chain_form(forming *f, uint32_t first, gt_cuda_chain **out)
{
    gt_cuda_chain *chain = f->chain;
    *out = NULL;
    form(f, first, GT_CHAIN_MEMBERS);
    bool full = chain->members == GT_CHAIN_MEMBERS || chain->inputs == GT_CHAIN_INPUTS ||
                chain->numbers + 3 >= GT_CHAIN_NUMBERS;
    unsigned boundary = first_boundary(f);
    if (full && boundary == chain->members)
        boundary = best_boundary(f);
    while (boundary > 0) {
        form(f, first, boundary);
        find_reduction(f);
        if (find_outputs(f)) {
            choose_vector(chain);
            if (gt__cuda_chain_fits(chain))
                break;
        }
        boundary /= 2;
    }
    if (boundary == 0)
        return GT_OK;
    gt_cuda_chain *copy = malloc(sizeof *copy);
    if (!copy)
        return gt__fail(GT_ERR_MEMORY, "no memory for a program");
    *copy = *chain;
    *out = copy;
    return GT_OK;
}

/* ---- parts --------------------------------------------------------------------------------------------------- */

void gt__cuda_part_drop(gt_cuda_part *part)
{
    free(part->chain);
    free(part->rows);
    part->chain = NULL;
    part->rows = NULL;
}

void gt__cuda_parts_free(gt_cuda_part *parts, unsigned count)
{
    for (unsigned k = 0; parts && k < count; k++)
        gt__cuda_part_drop(&parts[k]);
    free(parts);
}

void gt__cuda_part_settle(gt_plan *plan, const gt_cuda_part *part)
{
    for (uint32_t k = part->first; k <= part->last; k++)
        plan->steps[k].group = part->first;
    if (part->rows)
        gt__cuda_rows_settle(plan, part->rows);
    for (unsigned k = 0; part->chain && k < part->chain->members; k++) {
        uint32_t buffer = result_buffer(plan, part->chain->member[k].step);
        if (part->chain->member[k].output == GT_CHAIN_NONE)
            plan->buffers[buffer].role = GT_PLAN_NONE;
    }
}

/* A table has room for several of it. */
static bool is_flat(const gt_cuda_chain *chain)
{
    if (chain->before_count || chain->after_count || chain->reduces)
        return false;
    for (unsigned k = 0; k < chain->inputs; k++)
        if (chain->input[k].mode != GT_CHAIN_FLAT && chain->input[k].mode != GT_CHAIN_ONE)
            return false;
    return true;
}

/* Neighbours with the same kernel share launches: these have kernels that take many. The first and the last part may share one with
 * other runs. A step without such a neighbour is no chain. */
static gt_err find_neighbours(gt_cuda_part *parts, unsigned count)
{
    for (unsigned k = 0; k < count; k++)
        if (parts[k].chain)
            GT_TRY(gt__cuda_chain_key(parts[k].chain));
    for (unsigned k = 0; k + 1 < count; k++) {
        gt_cuda_chain *a = parts[k].chain, *b = parts[k + 1].chain;
        if (a && b && is_flat(a) && is_flat(b) && memcmp(&a->key, &b->key, sizeof a->key) == 0)
            a->many = b->many = true;
    }
    for (unsigned k = 0; k<count; k += count> 1 ? count - 1 : 1) {
        gt_cuda_chain *chain = parts[k].chain;
        if (chain && chain->members > 1 && is_flat(chain))
            chain->many = true;
    }
    for (unsigned k = 0; k < count; k++) {
        if (parts[k].chain && parts[k].chain->many)
            GT_TRY(gt__cuda_chain_key(parts[k].chain));
        else if (parts[k].chain && parts[k].chain->members < 2 && !parts[k].chain->reduces)
            gt__cuda_part_drop(&parts[k]);
    }
    return GT_OK;
}

static gt_err rows_form(const gt_plan *plan, gt_cuda_part *part)
{
    gt_cuda_rows rows;
    gt__cuda_rows_form(plan, part->first, &rows, &part->last);
    if (!rows.count)
        return GT_OK;
    gt__cuda_part_drop(part);
    part->rows = malloc(sizeof *part->rows);
    if (!part->rows)
        return gt__fail(GT_ERR_MEMORY, "no memory for a program");
    *part->rows = rows;
    return GT_OK;
}

static gt_err add_parts(forming *f, gt_cuda_part *parts, unsigned *count)
{
    for (uint32_t k = 0; k < f->plan->step_count; k++) {
        if (!computes(f, k))
            continue;
        gt_cuda_part *part = &parts[(*count)++];
        *part = (gt_cuda_part){.first = k, .last = k};
        GT_TRY(chain_form(f, k, &part->chain));
        if (!part->chain || part->chain->members < 2)
            GT_TRY(rows_form(f->plan, part));
        if (part->chain)
            part->last = last_step(part->chain);
        k = part->last;
    }
    return find_neighbours(parts, *count);
}

gt_err gt__cuda_parts_new(const gt_plan *plan, const gt_cuda_casts *casts, gt_cuda_part **parts, unsigned *count)
{
    forming f = {.plan = plan, .casts = casts, .chain = calloc(1, sizeof *f.chain)};
    f.member = malloc((plan->buffer_count + 1) * sizeof *f.member);
    *count = 0;
    *parts = calloc(plan->step_count + 1, sizeof **parts);
    gt_err err = f.chain && f.member && *parts ? GT_OK : gt__fail(GT_ERR_MEMORY, "no memory for a program");
    if (err == GT_OK) {
        f.chain->plan = plan;
        for (uint32_t k = 0; k < plan->buffer_count; k++)
            f.member[k] = GT_CHAIN_NONE;
        err = add_parts(&f, *parts, count);
    }
    free(f.chain);
    free(f.member);
    return err;
}
