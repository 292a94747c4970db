/*
 * generate_chain.c: the source of a chain's kernel, and its launches. Read chain.h first; device/chain.cuh has what kernels call.
 *
 * All parameters are words of eight bytes: the numbers, the sizes and strides of inputs that are read along axes, how many chains
 * there are, and for each its addresses (inputs, outputs, and of a reduction its result or the states of its blocks), its count
 * and the number of its first block.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "engines/cuda/chain.h"

enum {
    WORDS = GT_CUDA_PARAM_MAX / 8,
    REDUCED_BY_BLOCK = 4 * GT_CUDA_BLOCK, /* vectors, at least, if there are several blocks */
    REDUCING_BLOCKS = 1024,               /* at most */
    ROUNDS_INPUTS = 6,                    /* vectors of more would leave a processor few threads */
};

static bool has_axes(const gt_chain_input *in)
{
    return in->mode >= GT_CHAIN_VECTOR;
}

/* Where the sizes and strides of an input are among the words for axes. */
typedef struct axes_place {
    unsigned shape, stride;
} axes_place;

static bool same_numbers_of(const int64_t *a, const int64_t *b, int count)
{
    return memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

/* Inputs with the same sizes share them, so that the compiler divides positions once. Returns the number of words. */
static unsigned place_axes(const gt_cuda_chain *chain, axes_place *places)
{
    unsigned words = 0;
    for (unsigned k = 0; k < chain->inputs; k++) {
        const gt_access *access = &chain->input[k].access;
        unsigned rank = (unsigned)access->rank, none = UINT_MAX;
        places[k] = (axes_place){none, none};
        if (!has_axes(&chain->input[k]))
            continue;
        for (unsigned before = 0; before < k; before++) {
            const gt_access *other = &chain->input[before].access;
            if (!has_axes(&chain->input[before]) || other->rank != access->rank ||
                !same_numbers_of(other->shape, access->shape, access->rank))
                continue;
            places[k].shape = places[before].shape;
            if (same_numbers_of(other->stride, access->stride, access->rank))
                places[k].stride = places[before].stride;
        }
        if (places[k].shape == none)
            places[k].shape = words, words += rank;
        if (places[k].stride == none)
            places[k].stride = words, words += rank;
    }
    return words;
}

static unsigned axis_words(const gt_cuda_chain *chain)
{
    axes_place places[GT_CHAIN_INPUTS];
    return place_axes(chain, places);
}

/* Arrays of the kernel's struct have at least one element. */
static unsigned at_least_one(unsigned size)
{
    return size ? size : 1;
}

static unsigned first_unit(const gt_cuda_chain *chain)
{
    return at_least_one(chain->numbers) + at_least_one(axis_words(chain)) + 1;
}

static unsigned addresses(const gt_cuda_chain *chain)
{
    return chain->inputs + chain->outputs + chain->reduces;
}

static unsigned unit_words(const gt_cuda_chain *chain)
{
    return addresses(chain) + 2;
}

bool gt__cuda_chain_fits(const gt_cuda_chain *chain)
{
    return first_unit(chain) + unit_words(chain) <= WORDS;
}

/* Chains that the kernel's table has room for. */
static unsigned room(const gt_cuda_chain *chain)
{
    return chain->many ? (WORDS - first_unit(chain)) / unit_words(chain) : 1;
}

/* Vectors that a thread reads before it computes the first: more reads are under way. Updates of parameters in place need that,
 * where what is read and what is written are in the same rows of the memory: 3.94 and 4.06 TB/s of AdamW on an H200. */
static unsigned rounds(const gt_cuda_chain *chain)
{
    return chain->many && !chain->reduces && chain->vector > 1 && chain->inputs <= ROUNDS_INPUTS ? 2 : 1;
}

/* ---- source ------------------------------------------------------------------------------------------------- */

static void write_params(const gt_cuda_chain *chain, const char *name, gt_cuda_text *text)
{
    gt__cuda_add(text, "struct %s_unit {\nvoid *at[%u];\nint64_t count;\nint32_t first, single;\n};\n", name,
                 addresses(chain));
    gt__cuda_add(
        text,
        "struct %s_params {\nuint64_t number[%u];\nint64_t axes[%u];\nint64_t units;\n%s_unit unit[%u];\n};\n",
        name, at_least_one(chain->numbers), at_least_one(axis_words(chain)), name, room(chain));
}

static void write_load(const gt_chain_input *in, unsigned k, const axes_place *place, gt_cuda_text *text)
{
    bool one = in->mode == GT_CHAIN_ONE || in->mode == GT_CHAIN_REPEAT;
    if (in->mode == GT_CHAIN_GATHER)
        gt__cuda_add(text,
                     "gt_chain_gather<%d, I>(unit.at[%u], params.axes + %u, params.axes + %u, i, &in.a%u);\n",
                     in->access.rank, k, place->shape, place->stride, k);
    else if (has_axes(in))
        gt__cuda_add(
            text,
            "gt_chain_%s(unit.at[%u], gt_chain_offset<%d, I>(params.axes + %u, params.axes + %u, i), &in.a%u);\n",
            one ? "repeat" : "flat", k, in->access.rank, place->shape, place->stride, k);
    else
        gt__cuda_add(text, "gt_chain_%s(unit.at[%u], %s, &in.a%u);\n", one ? "repeat" : "flat", k, one ? "0" : "i",
                     k);
}

/* An input's or a member's element. */
static void write_element(const gt_chain_operand *operand, gt_cuda_text *text)
{
    gt__cuda_add(text, operand->source == GT_CHAIN_READ ? "in.a%u.at[j]" : "s%u", operand->number);
}

/* Operand x, y or z of a member. */
static void write_operand(const gt_chain_member *m, unsigned k, gt_cuda_text *text)
{
    const gt_chain_operand *operand = &m->operand[k];
    gt__cuda_add(text, "const T %c = ", "xyz"[k]);
    if (operand->source == GT_CHAIN_NUMBER) {
        gt__cuda_add(text, "gt_number<T, L>(&params.number[%u]);\n", operand->number);
        return;
    }
    gt__cuda_add(text, "gt_read<T, %s, %s>(", gt__cuda_dtype(operand->dtype),
                 operand->rounds ? gt__cuda_dtype(m->compute) : "gt_exact<T>");
    write_element(operand, text);
    gt__cuda_add_plain(text, ");\n");
}

/* Rows that a power with a number may be; the last one always is. */
static const gt_opcode powers[] = {GT_OP_square, GT_OP_sqrt, GT_OP_rsqrt, GT_OP_reciprocal, GT_OP_pow};
enum { POWERS = sizeof powers / sizeof powers[0] };

static void write_power(const gt_chain_member *m, gt_cuda_text *text)
{
    const char *type;
    unsigned rows = gt__dtype_is_float(m->compute) ? POWERS - 1 : 1;
    gt__cuda_add(text, "const int which = (int)gt_number<T, L>(&params.number[%u]);\nconst T power = ", m->which);
    for (unsigned k = 0; k < rows; k++)
        gt__cuda_add(text, "which == %u ? (T)(%s) : ", k, gt__cuda_expression(powers[k], m->compute, &type));
    gt__cuda_add(text, "(T)(%s);\n", gt__cuda_expression(GT_OP_pow, m->compute, &type));
}

static void write_member(const gt_plan *plan, const gt_chain_member *m, unsigned number, gt_cuda_text *text)
{
    const char *out = gt__cuda_dtype(m->out), *result = "T", *expression = "x";
    gt_dtype compute = m->kind == GT_CHAIN_EXPRESSION ? m->compute
                       : m->kind == GT_CHAIN_FILL     ? m->out
                                                      : m->operand[0].dtype;
    const char *type = gt__cuda_type_name(gt__cuda_type(compute));
    if (m->kind == GT_CHAIN_RANDOM) {
        gt__cuda_add(text, "const %s::raw s%u = r%u.at[j];\n", out, number, number);
        return;
    }
    if (m->kind == GT_CHAIN_MOVE && compute == m->out) { /* as it is: not even a NaN changes */
        gt__cuda_add(text, "const %s::raw s%u = ", out, number);
        write_element(&m->operand[0], text);
        gt__cuda_add_plain(text, ";\n");
        return;
    }
    gt__cuda_add(text, "%s::raw s%u;\n{\ntypedef %s T;\n", out, number, type);
    if (gt__dtype_is_complex(compute))
        gt__cuda_add(text, "typedef %s R;\ntypedef R L;\n", compute == GT_COMPLEX64 ? "float" : "double");
    else
        gt__cuda_add(text, "typedef T L;\n");
    for (unsigned k = 0; k < m->operands; k++)
        write_operand(m, k, text);
    if (m->kind == GT_CHAIN_FILL)
        gt__cuda_add(text, "const T x = gt_number<T, L>(&params.number[%u]);\n", m->operand[0].number);
    if (m->pq != GT_CHAIN_NONE)
        gt__cuda_add(text,
                     "const T p = gt_number<T, L>(&params.number[%u]), q = gt_number<T, L>(&params.number[%u]);\n",
                     m->pq, m->pq + 1u);
    if (m->which != GT_CHAIN_NONE) {
        write_power(m, text);
        expression = "power";
    } else if (m->kind == GT_CHAIN_EXPRESSION) {
        expression = gt__cuda_expression(plan->steps[m->step].op, m->compute, &result);
    }
    gt__cuda_add(text, "s%u = %s::store((%s)(%s));\n}\n", number, out, result, expression);
}

/* Random numbers are made a vector at a time. */
static void write_random(const gt_plan *plan, const gt_chain_member *m, unsigned number, gt_cuda_text *text)
{
    const char *out = gt__cuda_dtype(m->out);
    gt__cuda_add(text,
                 "gt_vector<%s::raw, V> r%u;\ngt_random_vector<%s, %s>(params.number[%u], params.number[%u], "
                 "(int64_t)params.number[%u] + i, &r%u);\n",
                 out, number, out, plan->steps[m->step].op == GT_OP_randn ? "true" : "false", m->pq, m->pq + 1u,
                 m->pq + 2u, number);
}

static gt_dtype reduced_dtype(const gt_cuda_chain *chain)
{
    return (gt_dtype)chain->plan->values[chain->plan->steps[chain->reduction].result].view.meta.dtype;
}

/* Template parameters and parameters that functions of a chain which reduces have as well, and what is passed for these. */
static const char *reducing_class(const gt_cuda_chain *chain)
{
    return chain->reduces ? ", class S" : "";
}
static const char *reducing_parameters(const gt_cuda_chain *chain)
{
    return chain->reduces ? ", const gt_reduce_params &reducing, S &state" : "";
}

/* What is read for V positions, and the function that reads it. */
static void write_reads(const gt_cuda_chain *chain, const char *name, gt_cuda_text *text)
{
    axes_place places[GT_CHAIN_INPUTS];
    place_axes(chain, places);
    gt__cuda_add(text, "template <int V> struct %s_in {\n", name);
    for (unsigned k = 0; k < chain->inputs; k++)
        gt__cuda_add(text, "gt_vector<%s::raw, V> a%u;\n", gt__cuda_dtype(chain->input[k].dtype), k);
    gt__cuda_add(
        text,
        "};\ntemplate <int V> GT_F void %s_read(const %s_params &params, const %s_unit &unit, %s_index i, "
        "%s_in<V> &in)\n{\ntypedef %s_index I;\n",
        name, name, name, name, name, name);
    for (unsigned k = 0; k < chain->inputs; k++)
        write_load(&chain->input[k], k, &places[k], text);
    gt__cuda_add_plain(text, "}\n");
}

/* The function that computes V positions. */
static void write_body(const gt_cuda_chain *chain, const char *name, gt_cuda_text *text)
{
    gt__cuda_add(text,
                 "template <int V%s> GT_F void %s_make(const %s_params &params, const %s_unit &unit, %s_index i, "
                 "const %s_in<V> &in%s)\n{\n",
                 reducing_class(chain), name, name, name, name, name, reducing_parameters(chain));
    for (unsigned k = 0; k < chain->members; k++) {
        if (chain->member[k].output != GT_CHAIN_NONE)
            gt__cuda_add(text, "gt_vector<%s::raw, V> o%u;\n", gt__cuda_dtype(chain->member[k].out),
                         chain->member[k].output);
        if (chain->member[k].kind == GT_CHAIN_RANDOM)
            write_random(chain->plan, &chain->member[k], k, text);
    }
    gt__cuda_add_plain(text, "#pragma unroll\nfor (int j = 0; j < V; j++) {\n");
    for (unsigned k = 0; k < chain->members; k++) {
        write_member(chain->plan, &chain->member[k], k, text);
        if (chain->member[k].output != GT_CHAIN_NONE)
            gt__cuda_add(text, "o%u.at[j] = s%u;\n", chain->member[k].output, k);
    }
    if (chain->reduces)
        gt__cuda_add(text, "%s_r::add(reducing, state, gt_convert<%s_a>::from(%s::load(s%u)), i + j);\n", name,
                     name, gt__cuda_dtype(chain->member[chain->reduced].out), chain->reduced);
    gt__cuda_add_plain(text, "}\n");
    for (unsigned k = 0; k < chain->members; k++) {
        const gt_chain_member *m = &chain->member[k];
        if (m->output != GT_CHAIN_NONE && m->scalar)
            gt__cuda_add(text, "if (i == 0)\n*(%s::raw *)unit.at[%u] = o%u.at[0];\n", gt__cuda_dtype(m->out),
                         chain->inputs + m->output, m->output);
        else if (m->output != GT_CHAIN_NONE)
            gt__cuda_add(text, "gt_chain_store(unit.at[%u], i, o%u);\n", chain->inputs + m->output, m->output);
    }
    gt__cuda_add_plain(text, "}\n");
}

/* The function that does both. */
static void write_one(const gt_cuda_chain *chain, const char *name, gt_cuda_text *text)
{
    gt__cuda_add(
        text,
        "template <int V%s> GT_F void %s_at(const %s_params &params, const %s_unit &unit, %s_index i%s)\n{\n"
        "%s_in<V> in;\n%s_read<V>(params, unit, i, in);\n%s_make<V>(params, unit, i, in%s);\n}\n",
        reducing_class(chain), name, name, name, name, reducing_parameters(chain), name, name, name,
        chain->reduces ? ", reducing, state" : "");
}

/* The kernel of a chain that reduces: its blocks walk over all positions, and each leaves a state. */
static void write_reducing(const gt_cuda_chain *chain, const char *name, gt_cuda_text *text)
{
    gt__cuda_add(text,
                 "const %s_unit &unit = params.unit[0];\nconst int64_t whole = unit.single ? 0 : unit.count / V, "
                 "first = (int64_t)blockIdx.x * %u + threadIdx.x;\ngt_reduce_params reducing;\n"
                 "reducing.divisor = (double)unit.count;\n%s_r::S state = %s_r::first(reducing);\n",
                 name, GT_CUDA_BLOCK, name, name);
    gt__cuda_add(
        text,
        "#pragma unroll 4\nfor (int64_t vector = first; vector < whole; vector += (int64_t)gridDim.x * %u)\n"
        "%s_at<V>(params, unit, vector * V, reducing, state);\n"
        "if (V > 1)\n"
        "for (int64_t i = whole * V + first; i < unit.count; i += (int64_t)gridDim.x * %u)\n"
        "%s_at<1>(params, unit, i, reducing, state);\n",
        GT_CUDA_BLOCK, name, GT_CUDA_BLOCK, name);
    gt__cuda_add(text,
                 "state = gt_merge_block<%s_r>(reducing, state);\nif (threadIdx.x != 0)\nreturn;\n"
                 "if (gridDim.x == 1)\n*(%s::raw *)unit.at[%u] = %s::store(%s_r::finish(reducing, state));\n"
                 "else\n((%s_r::S *)unit.at[%u])[blockIdx.x] = state;\n}\n",
                 name, gt__cuda_dtype(reduced_dtype(chain)), addresses(chain) - 1,
                 gt__cuda_dtype(reduced_dtype(chain)), name, name, addresses(chain) - 1);
}

void gt__cuda_write_chain(const gt_cuda_chain *chain, const char *name, gt_cuda_text *text)
{
    if (chain->reduces) {
        gt_opcode op = chain->plan->steps[chain->reduction].op;
        gt_cuda_type type = gt__cuda_accumulator(op, chain->member[chain->reduced].out);
        gt__cuda_add(text, "typedef %s %s_a;\ntypedef gt_reduce_%s<%s_a> %s_r;\n", gt__cuda_type_name(type), name,
                     gt__op_table[op].name, name, name);
    }
    gt__cuda_add(text, "typedef %s %s_index;\n", chain->wide ? "int64_t" : "int32_t", name);
    write_params(chain, name, text);
    write_reads(chain, name, text);
    write_body(chain, name, text);
    write_one(chain, name, text);
    gt__cuda_add(text, "GT_ENTRY(%u) %s(GT_PARAM(%s_params) params)\n{\nenum { V = %u };\n", GT_CUDA_BLOCK, name,
                 name, chain->vector);
    if (chain->reduces) {
        write_reducing(chain, name, text);
        return;
    }
    gt__cuda_add(text, "const %s_unit &unit = params.unit[%s];\n", name,
                 chain->many ? "gt_chain_find(params.unit, params.units)" : "0");
    gt__cuda_add(text,
                 "enum { R = %u };\n%s_in<V> in[R];\n"
                 "const int64_t block = (int64_t)blockIdx.x - unit.first, first = block * (%u * R) + threadIdx.x, "
                 "whole = unit.single ? 0 : unit.count / V;\n"
                 "#pragma unroll\nfor (int r = 0; r < R; r++)\nif (first + r * %u < whole)\n"
                 "%s_read<V>(params, unit, (first + r * %u) * V, in[r]);\n"
                 "#pragma unroll\nfor (int r = 0; r < R; r++)\nif (first + r * %u < whole)\n"
                 "%s_make<V>(params, unit, (first + r * %u) * V, in[r]);\n",
                 rounds(chain), name, GT_CUDA_BLOCK, GT_CUDA_BLOCK, name, GT_CUDA_BLOCK, GT_CUDA_BLOCK, name,
                 GT_CUDA_BLOCK);
    gt__cuda_add(text,
                 "if (V == 1)\nreturn;\n"
                 "int64_t i = whole * V + (unit.single ? block * (%u * R * V) + threadIdx.x : first);\n"
                 "#pragma unroll 1\nfor (int r = unit.single ? R * V : 1; r > 0 && i < unit.count; r--, i += %u)\n"
                 "%s_at<1>(params, unit, i);\n}\n",
                 GT_CUDA_BLOCK, GT_CUDA_BLOCK, name);
}

/* ---- keys --------------------------------------------------------------------------------------------------- */

static uint64_t hash_text(uint64_t hash, const gt_cuda_text *text)
{
    for (size_t k = 0; k < text->size; k++)
        hash = (hash ^ (uint8_t)text->data[k]) * 0x100000001b3u, hash ^= hash >> 29;
    return hash;
}

gt_err gt__cuda_chain_key(gt_cuda_chain *chain)
{
    gt_cuda_text text = {0};
    gt__cuda_write_chain(chain, "chain", &text);
    memset(&chain->key, 0, sizeof chain->key);
    if (!text.failed) {
        uint64_t hash[] = {hash_text(0xcbf29ce484222325u, &text), hash_text(0x9ae16a3b2f90404fu, &text)};
        chain->key.family = GT_CUDA_CHAIN;
        chain->key.vector = (uint8_t)chain->vector;
        memcpy(chain->key.option, hash, sizeof hash);
    }
    free(text.data);
    return text.failed ? gt__fail(GT_ERR_MEMORY, "no memory for the source of a kernel") : GT_OK;
}

/* ---- launches ----------------------------------------------------------------------------------------------- */

static uint64_t which_power(gt_dtype literal, gt_imm value, gt_dtype compute)
{
    gt_opcode op = gt__cuda_power(compute, literal, value);
    unsigned which = 0;
    while (powers[which] != op)
        which++;
    return gt__cuda_real(which, compute);
}

static uint64_t number_now(const gt_plan *plan, const gt_chain_number *number)
{
    const gt_plan_step *step = &plan->steps[number->step];
    const gt_instruction *ins = &step->record->ins;
    gt_view view;
    if (number->what < GT_MAX_OPERANDS || number->what == GT_CHAIN_WHICH_POWER) {
        bool power = number->what == GT_CHAIN_WHICH_POWER;
        gt_imm value = gt__literal_operand(ins, power ? 1 : number->what, &view);
        gt_dtype literal = (gt_dtype)view.meta.dtype;
        return power ? which_power(literal, value, number->dtype) : gt__cuda_number(literal, value, number->dtype);
    }
    if (number->what == GT_CHAIN_FIRST)
        return step->record[2].u64[2];
    if (gt__op_table[step->op].form == GT_FORM_RANDOM)
        return ins->imm[number->what - GT_CHAIN_IMMEDIATE].u;
    if (step->op == GT_OP_full)
        return gt__cuda_number(gt__dtype_is_float(number->dtype) ? GT_FLOAT64 : GT_INT64, ins->imm[0],
                               number->dtype);
    return gt__cuda_real(ins->imm[number->what - GT_CHAIN_IMMEDIATE].f, number->dtype);
}

static uint64_t address_of(const gt_plan *plan, uint32_t value, void *const *buffer)
{
    const gt_plan_value *v = &plan->values[value];
    return (uintptr_t)buffer[v->buffer] + (uint64_t)v->offset;
}

/* Addresses of inputs, then outputs. */
static void find_addresses(const gt_cuda_chain *chain, void *const *buffer, uint64_t *at)
{
    for (unsigned k = 0; k < chain->inputs; k++)
        at[k] = address_of(chain->plan, chain->input[k].value, buffer);
    for (unsigned k = 0; k < chain->outputs; k++)
        at[chain->inputs + k] = address_of(chain->plan, chain->output[k], buffer);
}

/* Whether every vector lies on a multiple of its size, as choose_mode of chain_form.c expects of buffers. Where a buffer is part of
 * another one it may not: then positions are computed one by one. */
static bool are_aligned(const gt_cuda_chain *chain, void *const *buffer)
{
    bool aligned = true;
    for (unsigned k = 0; k < chain->inputs; k++)
        if (chain->input[k].mode == GT_CHAIN_FLAT || chain->input[k].mode == GT_CHAIN_VECTOR)
            aligned &= (uintptr_t)buffer[chain->plan->values[chain->input[k].value].buffer] % 16 == 0;
    for (unsigned k = 0; k < chain->outputs; k++)
        aligned &= (uintptr_t)buffer[chain->plan->values[chain->output[k]].buffer] % 16 == 0;
    return aligned;
}

static int64_t blocks_of(const gt_cuda_chain *chain)
{
    if (chain->reduces) {
        int64_t blocks = chain->count / chain->vector / REDUCED_BY_BLOCK;
        return blocks < 1 ? 1 : blocks < REDUCING_BLOCKS ? blocks : REDUCING_BLOCKS;
    }
    int64_t block = GT_CUDA_BLOCK * (int64_t)rounds(chain) * chain->vector;
    return (chain->count + block - 1) / block + (chain->count == 0);
}

static bool same_numbers(const gt_cuda_chain *a, const gt_cuda_chain *b)
{
    for (unsigned k = 0; k < a->numbers; k++)
        if (number_now(a->plan, &a->number[k]) != number_now(b->plan, &b->number[k]))
            return false;
    return true;
}

/* Where the data of a flat chain's operand ends. */
static uint64_t end_of(const gt_cuda_chain *chain, unsigned k, uint64_t address)
{
    bool output = k >= chain->inputs;
    gt_dtype dtype = output ? (gt_dtype)chain->plan->values[chain->output[k - chain->inputs]].view.meta.dtype
                            : chain->input[k].dtype;
    int64_t count = !output && chain->input[k].mode == GT_CHAIN_ONE ? 1 : chain->count;
    return address + (uint64_t)count * gt__dtype_size(dtype);
}

/* Whether one of the two writes what the other one uses. */
static bool interfere(const gt_cuda_chain *a, const uint64_t *at_a, const gt_cuda_chain *b, const uint64_t *at_b)
{
    for (unsigned k = 0; k < a->inputs + a->outputs; k++)
        for (unsigned l = k < a->inputs ? b->inputs : 0; l < b->inputs + b->outputs; l++)
            if (at_a[k] < end_of(b, l, at_b[l]) && at_b[l] < end_of(a, k, at_a[k]))
                return true;
    return false;
}

unsigned gt__cuda_chain_batch(const gt_cuda_part *parts, unsigned count, void *const *buffer)
{
    const gt_cuda_chain *first = parts[0].chain;
    uint64_t at[WORDS];
    if (!first)
        return 0;
    unsigned size = unit_words(first), most = room(first) < count ? room(first) : count;
    find_addresses(first, buffer, at);
    for (unsigned k = 1; k < most; k++) {
        const gt_cuda_chain *next = parts[k].chain;
        if (!next || memcmp(&next->key, &first->key, sizeof first->key) != 0 || !same_numbers(first, next))
            return k;
        find_addresses(next, buffer, at + k * size);
        for (unsigned before = 0; before < k; before++)
            if (interfere(parts[before].chain, at + before * size, next, at + k * size))
                return k;
    }
    return most ? most : 1;
}

/* Where the first launch leaves its result, or its states for a second one. */
static void finish_reduction(const gt_cuda_chain *chain, void *const *buffer, gt_cuda_launch *launch,
                             gt_cuda_work *work)
{
    const gt_plan_step *step = &chain->plan->steps[chain->reduction];
    gt_view out = gt__plan_view(chain->plan, step->result, buffer);
    size_t at = (first_unit(chain) + addresses(chain) - 1) * sizeof(uint64_t);
    int64_t blocks = launch->grid[0];
    gt_cuda_operand to = {.address = (uintptr_t)out.data};
    if (blocks > 1)
        to = gt__cuda_scratch(work, (size_t)blocks * GT_CUDA_LARGEST_STATE);
    gt__cuda_bind(launch, at, &to);
    if (blocks > 1)
        gt__cuda_merge_states(work, step->op, chain->member[chain->reduced].out, &out, chain->count, &to, blocks);
}

/* The words of a chain in the table; returns its blocks, of which `first` is the first. */
static int64_t write_unit(const gt_cuda_chain *chain, void *const *buffer, int64_t first, uint64_t *word)
{
    find_addresses(chain, buffer, word);
    word += addresses(chain);
    word[0] = (uint64_t)chain->count;
    word[1] = (uint64_t)first | (uint64_t)!are_aligned(chain, buffer) << 32;
    return blocks_of(chain);
}

gt_err gt__cuda_lower_chains(const gt_cuda_part *parts, unsigned count, void *const *buffer, gt_cuda_work *work)
{
    const gt_cuda_chain *first = parts[0].chain;
    uint64_t words[WORDS] = {0}, *word = words;
    axes_place places[GT_CHAIN_INPUTS];
    int64_t blocks = 0;
    for (unsigned k = 1; k < count; k++)
        if (!same_numbers(first, parts[k].chain))
            return gt__fail(GT_ERR_UNSUPPORTED, "chains that were equal have different numbers now");
    for (unsigned k = 0; k < first->numbers; k++)
        word[k] = number_now(first->plan, &first->number[k]);
    word += at_least_one(first->numbers);
    place_axes(first, places);
    for (unsigned k = 0; k < first->inputs; k++) {
        const gt_access *access = &first->input[k].access;
        size_t bytes = (size_t)access->rank * sizeof(int64_t);
        if (!has_axes(&first->input[k]))
            continue;
        memcpy(word + places[k].shape, access->shape, bytes);
        memcpy(word + places[k].stride, access->stride, bytes);
    }
    word = words + first_unit(first);
    word[-1] = count;
    for (unsigned k = 0; k < count; k++, word += unit_words(first))
        blocks += write_unit(parts[k].chain, buffer, blocks, word);
    size_t size = first_unit(first) + (size_t)room(first) * unit_words(first);
    work->count = 0;
    work->more = 0;
    work->scratch = 0;
    gt_cuda_launch *launch = gt__cuda_launch(work, GT_CUDA_CHAIN, words, size * sizeof *words);
    launch->key = first->key;
    launch->chain = first;
    launch->grid[0] = (uint32_t)blocks;
    if (first->reduces)
        finish_reduction(first, buffer, launch, work);
    return GT_OK;
}

/* ---- one launch for chains of several sequences ------------------------------------------------------------------ */

unsigned gt__cuda_chain_spans(const gt_cuda_chain *chain, void *const *buffer, gt_chain_span *spans)
{
    uint64_t at[GT_CHAIN_SPANS];
    unsigned count = chain->inputs + chain->outputs;
    find_addresses(chain, buffer, at);
    for (unsigned k = 0; k < count; k++)
        spans[k] = (gt_chain_span){.start = at[k], .end = end_of(chain, k, at[k]), .written = k >= chain->inputs};
    return count;
}

bool gt__cuda_chain_append(const gt_cuda_chain *chain, void *const *buffer, gt_cuda_launch *launch)
{
    uint64_t *words = (uint64_t *)(void *)launch->param;
    unsigned first = first_unit(chain), count = (unsigned)words[first - 1];
    if (count >= room(chain))
        return false;
    for (unsigned k = 0; k < chain->numbers; k++)
        if (words[k] != number_now(chain->plan, &chain->number[k]))
            return false;
    launch->grid[0] +=
        (uint32_t)write_unit(chain, buffer, launch->grid[0], words + first + count * unit_words(chain));
    words[first - 1] = count + 1;
    return true;
}
