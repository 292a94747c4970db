/*
 * generate.c: the table of kernel families: which lowers a call, which writes a key's source. generate.h is the interface;
 * read generate_elementwise.c for an example of a family.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/convert.h"
#include "engines/cuda/chain.h"
#include "engines/cuda/device_texts.h"

/* ---- text --------------------------------------------------------------------------------------------------- */

static bool has_room(gt_cuda_text *text, size_t more)
{
    if (text->failed || text->size + more + 1 <= text->room)
        return !text->failed;
    size_t room = 2 * text->room + more + 1;
    char *data = realloc(text->data, room);
    text->failed = !data;
    if (data) {
        text->data = data;
        text->room = room;
    }
    return data != NULL;
}

void gt__cuda_add_plain(gt_cuda_text *text, const char *plain)
{
    size_t size = strlen(plain);
    if (!has_room(text, size))
        return;
    memcpy(text->data + text->size, plain, size + 1);
    text->size += size;
}

void gt__cuda_add(gt_cuda_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (size < 0 || !has_room(text, (size_t)size))
        return;
    va_start(arguments, format);
    vsnprintf(text->data + text->size, (size_t)size + 1, format, arguments);
    va_end(arguments);
    text->size += (size_t)size;
}

/* ---- types -------------------------------------------------------------------------------------------------- */

const char *gt__cuda_dtype(gt_dtype dtype)
{
    static const char *const names[GT_DTYPE_COUNT] = {
        [GT_BOOL] = "gt_bool",
        [GT_UINT8] = "gt_u8",
        [GT_INT8] = "gt_i8",
        [GT_INT16] = "gt_i16",
        [GT_INT32] = "gt_i32",
        [GT_INT64] = "gt_i64",
        [GT_FLOAT16] = "gt_f16",
        [GT_BFLOAT16] = "gt_bf16",
        [GT_FLOAT32] = "gt_f32",
        [GT_FLOAT64] = "gt_f64",
        [GT_COMPLEX64] = "gt_complex64",
        [GT_COMPLEX128] = "gt_complex128",
    };
    return names[dtype];
}

const char *gt__cuda_moved(size_t size)
{
    return size == 1 ? "gt_b1" : size == 2 ? "gt_b2" : size == 4 ? "gt_b4" : size == 8 ? "gt_b8" : "gt_b16";
}

gt_cuda_type gt__cuda_type(gt_dtype compute)
{
    switch (compute) {
    case GT_INT64:
        return GT_CUDA_I64;
    case GT_FLOAT16:
    case GT_BFLOAT16:
    case GT_FLOAT32:
        return GT_CUDA_F32;
    case GT_FLOAT64:
        return GT_CUDA_F64;
    case GT_COMPLEX64:
        return GT_CUDA_C64;
    case GT_COMPLEX128:
        return GT_CUDA_C128;
    default:
        return GT_CUDA_I32;
    }
}

const char *gt__cuda_type_name(gt_cuda_type type)
{
    static const char *const names[] = {"int32_t", "int64_t", "float", "double", "gt_c64", "gt_c128"};
    return names[type];
}

/* ---- numbers in parameters ---------------------------------------------------------------------------------- */

static uint64_t slot_of_integer(gt_cuda_type type, int64_t integer)
{
    uint64_t slot = 0;
    if (type == GT_CUDA_I32)
        memcpy(&slot, &(int32_t){(int32_t)integer}, sizeof(int32_t));
    else
        memcpy(&slot, &integer, sizeof integer);
    return slot;
}

static uint64_t slot_of_real(gt_cuda_type type, double real)
{
    uint64_t slot = 0;
    if (type == GT_CUDA_F32)
        memcpy(&slot, &(float){(float)real}, sizeof(float));
    else
        memcpy(&slot, &real, sizeof real);
    return slot;
}

uint64_t gt__cuda_real(double number, gt_dtype dtype)
{
    gt_cuda_type type = gt__cuda_type(dtype);
    if (type == GT_CUDA_I64)
        return slot_of_integer(type, gt__double_to_int64(number));
    if (type == GT_CUDA_I32)
        return slot_of_integer(type, gt__double_to_int32(number));
    return slot_of_real(type, number);
}

/* Stored as an element of the dtype and loaded again, from an integer or from a double. */
#define ROUNDED_INTEGER(name, dtype, type)                                                                        \
    case dtype:                                                                                                   \
        integer = (int64_t)gt__load_##name(is_real ? gt__store_##name##_from_double(real)                         \
                                                   : gt__store_##name##_from_integer(integer));                   \
        return slot_of_integer(gt__cuda_type(dtype), integer);
#define ROUNDED_REAL(name, dtype, type)                                                                           \
    case dtype:                                                                                                   \
        real = (double)gt__load_##name(is_real ? gt__store_##name##_from_double(real)                             \
                                               : gt__store_##name##_from_integer(integer));                       \
        return slot_of_real(gt__cuda_type(dtype), real);

uint64_t gt__cuda_number(gt_dtype literal, gt_imm value, gt_dtype dtype)
{
    bool is_real = literal == GT_FLOAT64;
    double real = is_real ? value.f : 0;
    int64_t integer = is_real ? 0 : literal == GT_BOOL ? *(const uint8_t *)&value : value.i;
    switch (dtype) {
        ROUNDED_INTEGER(boolean, GT_BOOL, )
        ROUNDED_INTEGER(uint8, GT_UINT8, )
        ROUNDED_INTEGER(int8, GT_INT8, )
        ROUNDED_INTEGER(int16, GT_INT16, )
        ROUNDED_INTEGER(int32, GT_INT32, )
        ROUNDED_INTEGER(int64, GT_INT64, )
        ROUNDED_REAL(float16, GT_FLOAT16, )
        ROUNDED_REAL(bfloat16, GT_BFLOAT16, )
        ROUNDED_REAL(float32, GT_FLOAT32, )
        ROUNDED_REAL(float64, GT_FLOAT64, )
    default:
        return 0;
    }
}

/* ---- launches ----------------------------------------------------------------------------------------------- */

gt_cuda_launch *gt__cuda_launch(gt_cuda_work *work, gt_cuda_family family, const void *param, size_t size)
{
    gt_cuda_launch *launch = &work->launch[work->count++];
    memset(&launch->key, 0, sizeof launch->key);
    launch->chain = NULL;
    launch->key.family = (uint8_t)family;
    launch->grid[0] = launch->grid[1] = launch->grid[2] = 1;
    launch->block[0] = GT_CUDA_BLOCK;
    launch->block[1] = launch->block[2] = 1;
    launch->shared = 0;
    launch->param_size = (uint16_t)size;
    launch->errors_at = GT_CUDA_NOWHERE;
    launch->scratch_count = 0;
    memcpy(launch->param, param, size);
    return launch;
}

gt_cuda_operand gt__cuda_scratch(gt_cuda_work *work, size_t bytes)
{
    gt_cuda_operand place = {.address = work->scratch, .in_scratch = true};
    work->scratch += (bytes + 255) / 256 * 256;
    return place;
}

void gt__cuda_bind(gt_cuda_launch *launch, size_t at, const gt_cuda_operand *operand)
{
    memcpy(launch->param + at, &operand->address, sizeof operand->address);
    if (operand->in_scratch)
        launch->scratch_at[launch->scratch_count++] = (uint16_t)at;
}

uint32_t gt__cuda_blocks(int64_t items, unsigned threads)
{
    const int64_t most = 1 << 22;
    int64_t blocks = (items + threads - 1) / threads;
    return (uint32_t)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

typedef gt_err (*lowering)(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work);

static const lowering lowerings[] = {
    [GT_FORM_UNARY] = gt__cuda_lower_elementwise,
    [GT_FORM_BINARY] = gt__cuda_lower_elementwise,
    [GT_FORM_TERNARY] = gt__cuda_lower_elementwise,
    [GT_FORM_REDUCE] = gt__cuda_lower_reduce,
    [GT_FORM_ARGREDUCE] = gt__cuda_lower_reduce,
    [GT_FORM_SOFTMAX] = gt__cuda_lower_softmax,
    [GT_FORM_SOFTMAX_BACKWARD] = gt__cuda_lower_softmax,
    [GT_FORM_LAYER_NORM] = gt__cuda_lower_layer_norm,
    [GT_FORM_MOMENTS] = gt__cuda_lower_channels,
    [GT_FORM_BATCH_NORM] = gt__cuda_lower_channels,
    [GT_FORM_RESHAPE] = gt__cuda_lower_copy,
    [GT_FORM_CAST] = gt__cuda_lower_copy,
    [GT_FORM_COPY] = gt__cuda_lower_copy,
    [GT_FORM_CAT] = gt__cuda_lower_cat,
    [GT_FORM_TRIANGLE] = gt__cuda_lower_create,
    [GT_FORM_TAKE] = gt__cuda_lower_take,
    [GT_FORM_GATHER] = gt__cuda_lower_gather,
    [GT_FORM_SCATTER] = gt__cuda_lower_scatter,
    [GT_FORM_ASSIGN] = gt__cuda_lower_assign,
    [GT_FORM_WRAP_INDEX] = gt__cuda_lower_wrap_index,
    [GT_FORM_SAMPLE] = gt__cuda_lower_create,
    [GT_FORM_ARANGE] = gt__cuda_lower_create,
    [GT_FORM_EYE] = gt__cuda_lower_create,
    [GT_FORM_RANDOM] = gt__cuda_lower_create,
    [GT_FORM_FULL] = gt__cuda_lower_full,
    [GT_FORM_ATTENTION] = gt__cuda_lower_attention,
    [GT_FORM_CONV] = gt__cuda_lower_conv,
    [GT_FORM_CONV_WEIGHT] = gt__cuda_lower_conv,
    [GT_FORM_MAX_POOL] = gt__cuda_lower_max_pool,
    [GT_FORM_MAX_INDEX] = gt__cuda_lower_max_pool,
    [GT_FORM_POOL] = gt__cuda_lower_pool,
    [GT_FORM_IM2COL] = gt__cuda_lower_im2col,
    [GT_FORM_SCAN] = gt__cuda_lower_scan,
    [GT_FORM_ARGSORT] = gt__cuda_lower_sort,
    [GT_FORM_TOPK] = gt__cuda_lower_sort,
    [GT_FORM_SEARCH] = gt__cuda_lower_search,
    [GT_FORM_MASK_INDEX] = gt__cuda_lower_mask_index,
    [GT_FORM_RESAMPLE] = gt__cuda_lower_resample,
    [GT_FORM_CONTROL] = NULL,
};

gt_err gt__cuda_lower(const gt_call *call, const gt_cuda_device *device, gt_cuda_work *work)
{
    unsigned form = gt__op_table[call->op].form;
    work->count = 0;
    work->scratch = 0;
    work->fewest = 16 * (int64_t)device->processors;
    if (call->out->meta.numel == 0) /* indices are checked even where there is nothing to take */
        return form == GT_FORM_TAKE || form == GT_FORM_GATHER || form == GT_FORM_SCATTER ||
                       form == GT_FORM_MASK_INDEX
                   ? GT_CUDA_DECLINE
                   : GT_OK;
    return lowerings[form] ? lowerings[form](call, device, work) : GT_CUDA_DECLINE;
}

bool gt__cuda_covers(gt_opcode op)
{
    unsigned form = gt__op_table[op].form;
    if (form == GT_FORM_UNARY || form == GT_FORM_BINARY || form == GT_FORM_TERNARY)
        return gt__cuda_elementwise_covers(op);
    if (form == GT_FORM_SAMPLE)
        return op == GT_OP_bernoulli;
    return form < GT_FORM_CONTROL && lowerings[form];
}

/* ---- source ------------------------------------------------------------------------------------------------- */

static const struct {
    const char *device; /* the template */
    void (*write)(const gt_cuda_key *key, const char *name, gt_cuda_text *text);
} families[GT_CUDA_FAMILIES] = {
    [GT_CUDA_NO_FAMILY] = {.device = gt__cuda_text_prelude},
    [GT_CUDA_ELEMENTWISE] = {.device = gt__cuda_text_elementwise, .write = gt__cuda_write_elementwise},
    [GT_CUDA_SPECIAL] = {.device = gt__cuda_text_special, .write = gt__cuda_write_elementwise},
    [GT_CUDA_REDUCE] = {.device = gt__cuda_text_reduce, .write = gt__cuda_write_reduce},
    [GT_CUDA_ROWS] = {.device = gt__cuda_text_rows, .write = gt__cuda_write_rows},
    [GT_CUDA_INDEX] = {.device = gt__cuda_text_index, .write = gt__cuda_write_index},
    [GT_CUDA_CREATE] = {.device = gt__cuda_text_create, .write = gt__cuda_write_create},
    [GT_CUDA_ATTENTION] = {.device = gt__cuda_text_attention, .write = gt__cuda_write_attention},
    [GT_CUDA_WINDOW] = {.device = gt__cuda_text_window, .write = gt__cuda_write_window},
    [GT_CUDA_LINES] = {.device = gt__cuda_text_lines, .write = gt__cuda_write_lines},
    [GT_CUDA_TRANSPOSE] = {.device = gt__cuda_text_transpose, .write = gt__cuda_write_transpose},
    [GT_CUDA_RESAMPLE] = {.device = gt__cuda_text_resample, .write = gt__cuda_write_resample},
    [GT_CUDA_CHANNELS] = {.device = gt__cuda_text_channels, .write = gt__cuda_write_channels},
    [GT_CUDA_JOIN] = {.device = gt__cuda_text_join, .write = gt__cuda_write_join},
    [GT_CUDA_CHAIN] = {.device = gt__cuda_text_chain},
};

const char *gt__cuda_device_text(gt_cuda_family family)
{
    return families[family].device;
}

gt_err gt__cuda_add_kernel(const gt_cuda_key *key, const gt_cuda_chain *chain, const char *name,
                           gt_cuda_text *text)
{
    if (chain)
        gt__cuda_write_chain(chain, name, text);
    else if (key->family < GT_CUDA_FAMILIES && families[key->family].write)
        families[key->family].write(key, name, text);
    else
        return gt__fail(GT_ERR_INTERNAL, "there is no kernel family %u", key->family);
    return text->failed ? gt__fail(GT_ERR_MEMORY, "no memory for the source of a kernel") : GT_OK;
}

gt_err gt__cuda_source(const gt_cuda_launch *launch, char **source, const char **entry)
{
    unsigned family = launch->key.family;
    gt_cuda_text text = {0};
    gt__cuda_add_plain(&text, families[GT_CUDA_NO_FAMILY].device);
    if (family == GT_CUDA_SPECIAL || family == GT_CUDA_CHAIN)
        gt__cuda_add_plain(&text, families[GT_CUDA_ELEMENTWISE].device);
    if (launch->chain && launch->chain->random)
        gt__cuda_add_plain(&text, families[GT_CUDA_CREATE].device);
    if (launch->chain && launch->chain->reduces)
        gt__cuda_add_plain(&text, families[GT_CUDA_REDUCE].device);
    if (family < GT_CUDA_FAMILIES)
        gt__cuda_add_plain(&text, families[family].device);
    gt_err err = gt__cuda_add_kernel(&launch->key, launch->chain, "gt_kernel", &text);
    if (err) {
        free(text.data);
        return err;
    }
    *source = text.data;
    *entry = "gt_kernel";
    return GT_OK;
}

bool gt__cuda_contracts(const gt_cuda_key *key)
{
    return key->family != GT_CUDA_ELEMENTWISE && key->family != GT_CUDA_CHAIN && key->family != GT_CUDA_REDUCE &&
           key->family != GT_CUDA_ROWS;
}

/* ---- errors ------------------------------------------------------------------------------------------------- */

gt_err gt__cuda_check(const gt_cuda_errors *errors)
{
    switch (errors->code) {
    case GT_CUDA_ERROR_NONE:
        return GT_OK;
    case GT_CUDA_ERROR_ZERO_DIVISION:
        return gt__fail(GT_ERR_VALUE, "ZeroDivisionError: integer division or remainder by zero");
    case GT_CUDA_ERROR_INDEX:
        return gt__fail(GT_ERR_INDEX, "index %lld is out of bounds for dimension %lld with size %lld",
                        (long long)errors->value[0], (long long)errors->value[1], (long long)errors->value[2]);
    case GT_CUDA_ERROR_MASK:
        return gt__fail(GT_ERR_INTERNAL, "mask_index: %lld elements are true, not %lld",
                        (long long)errors->value[0], (long long)errors->value[1]);
    case GT_CUDA_ERROR_PROBABILITY:
        return gt__fail(GT_ERR_VALUE, "Expected p_in >= 0 && p_in <= 1 to be true");
    default:
        return gt__fail(GT_ERR_INTERNAL, "a kernel reported the unknown error %u", errors->code);
    }
}
