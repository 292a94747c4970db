/*
 * scan.c: cumsum along an axis.
 *
 * Sums are kept wider than the result: double for float32, float for the 16-bit floats, 64 bits for the integers.
 * Where the axis is the last in memory a line is one run; otherwise a group of neighbouring lines advances
 * together, one accumulator each, so that memory is walked in order and the additions vectorise. Threads share the
 * lines.
 */
#include "convert.h"
#include "movement.h"

enum { GROUP = 256 };

typedef struct scanning {
    gt_loop lines; /* views: out, in */
    int64_t n;
    int64_t to_stride; /* along the axis */
    int64_t from_stride;
    gt_dtype to_dtype;
    gt_dtype from_dtype;
    char *to;
    char *from;
} scanning;

/* `width` lines, to_step and from_step apart. */
typedef void (*scan_kernel)(const scanning *s, void *to, int64_t to_step, const void *from, int64_t from_step,
                            int64_t width);

#define SCAN_KERNEL(name, from_type, to_name, to_type, sum_type)                                                  \
    static void scan_##name(const scanning *s, void *to, int64_t to_step, const void *from, int64_t from_step,    \
                            int64_t width)                                                                        \
    {                                                                                                             \
        sum_type sum[GROUP] = {0}, one = 0;                                                                       \
        to_type *t = to;                                                                                          \
        const from_type *f = from;                                                                                \
        for (int64_t k = 0; width == 1 && k < s->n; k++) { /* one line: the sum stays in a register */            \
            one += (sum_type)gt__load_##name(f[k * s->from_stride]);                                              \
            t[k * s->to_stride] = GT_STORE_FROM(to_name, one);                                                    \
        }                                                                                                         \
        for (int64_t k = 0; width > 1 && k < s->n; k++, t += s->to_stride, f += s->from_stride) {                 \
            for (int64_t j = 0; j < width; j++) {                                                                 \
                sum[j] += (sum_type)gt__load_##name(f[j * from_step]);                                            \
                t[j * to_step] = GT_STORE_FROM(to_name, sum[j]);                                                  \
            }                                                                                                     \
        }                                                                                                         \
    }
SCAN_KERNEL(boolean, uint8_t, int64, int64_t, uint64_t)
SCAN_KERNEL(uint8, uint8_t, int64, int64_t, uint64_t)
SCAN_KERNEL(int8, int8_t, int64, int64_t, uint64_t)
SCAN_KERNEL(int32, int32_t, int64, int64_t, uint64_t)
SCAN_KERNEL(int64, int64_t, int64, int64_t, uint64_t)
SCAN_KERNEL(float16, uint16_t, float16, uint16_t, float)
SCAN_KERNEL(bfloat16, uint16_t, bfloat16, uint16_t, float)
SCAN_KERNEL(float32, float, float32, float, double)
SCAN_KERNEL(float64, double, float64, double, double)

/* Positions are lines. */
static void scan_lines(void *context, int64_t begin, int64_t end)
{
    static const scan_kernel kernels[] = {
#define SCAN_ENTRY(name, dtype, type) [dtype] = scan_##name,
        GT_STORED_TYPES(SCAN_ENTRY)
#undef SCAN_ENTRY
    };
    const scanning *s = context;
    int last = s->lines.rank - 1;
    int64_t side_by_side = s->to_stride == 1 ? 1 : GROUP;
    while (begin < end) {
        int64_t offset[GT_LOOP_VIEWS];
        int64_t width = s->lines.shape[last] - begin % s->lines.shape[last];
        width = gt__min(gt__min(width, side_by_side), end - begin);
        gt__loop_offsets(&s->lines, s->lines.rank, begin, offset);
        kernels[s->from_dtype](s, gt__at(s->to, s->to_dtype, offset[0]), s->lines.stride[0][last],
                               gt__at(s->from, s->from_dtype, offset[1]), s->lines.stride[1][last], width);
        begin += width;
    }
}

gt_err gt__cpu_scan(gt_engine *engine, const gt_call *call)
{
    const gt_view *in = call->in[0], *out = call->out;
    int64_t axis = call->ins->imm[0].i;
    scanning s = {
        .n = gt__view_size(in, axis),
        .to_stride = gt__view_stride(out, axis),
        .from_stride = gt__view_stride(in, axis),
        .to_dtype = (gt_dtype)out->meta.dtype,
        .from_dtype = (gt_dtype)in->meta.dtype,
        .to = out->data,
        .from = in->data,
    };
    if (out->meta.numel == 0)
        return GT_OK;
    int64_t count = gt__lines_start(&s.lines, &in->meta, axis);
    gt__lines_add(&s.lines, out, axis);
    gt__lines_add(&s.lines, in, axis);
    gt__loop_collapse(&s.lines);
    gt_cpu *cpu = gt__cpu(engine);
    int64_t grain = s.to_stride == 1 ? gt__grain(s.n) : gt__lines_across(cpu, count, s.n);
    gt__parallel_for(cpu->parallel, count, grain, scan_lines, &s);
    return GT_OK;
}
