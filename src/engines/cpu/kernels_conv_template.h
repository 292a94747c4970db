/*
 * kernels_conv_template.h: a template: the two inner loops of convolutions. kernels_template.h includes it for every type with
 * FOLDS and lends it its macros. kernels.h says what the arguments mean, conv.h how a convolution becomes such loops.
 *
 * Both keep a block of accumulators in registers: CHANNELS times a few vectors, as many as the instruction set
 * has registers for. The loops over the block have constant bounds and are unrolled completely. A panel reads a vector
 * of the source for the next tap as soon as its register is free: a Neoverse V1 multiplies a quarter faster then. The forms
 * for one channel are for depthwise convolutions and for the channels that are left over.
 */

/* Store the first `count` lanes, `step` elements apart; add: add them to the elements there. */
static inline void KERNEL(put_lanes)(T *to, VECTOR value, int count, int64_t step, bool add)
{
    if (count == LANES && step == 1) {
        if (add)
            value += *(VECTOR *)to;
        *(VECTOR *)to = value;
        return;
    }
    for (int lane = 0; lane < count; lane++)
        to[lane * step] = add ? to[lane * step] + value[lane] : value[lane];
}

/* A vector `bytes` from a pointer: one instruction on machines that address by the sum of two registers. */
static inline VECTOR KERNEL(vector_at)(const T *pointer, int64_t bytes)
{
    return *(const VECTOR *)((const char *)pointer + bytes);
}

/*
 * Weight i of a tap. ARM multiplies by one lane of a register, so there a tap's weights are read as vectors;
 * elsewhere each is broadcast from memory.
 */
#if defined(__aarch64__)
static inline void KERNEL(read_weights)(VECTOR *vectors, const T *weight, int count)
{
    if (count == 1)
        vectors[0] = (VECTOR){0} + weight[0];
    for (int i = 0; i < count / LANES; i++)
        vectors[i] = *(const VECTOR *)(weight + i * LANES);
}
#define TAP_WEIGHTS(count)                                                                                        \
    VECTOR weights[((count) + LANES - 1) / LANES];                                                                \
    KERNEL(read_weights)(weights, weight, count)
#define TAP_WEIGHT(i) weights[(i) / LANES][(i) % LANES]
#else
#define TAP_WEIGHTS(count)
#define TAP_WEIGHT(i) weight[i]
#endif

#define CONV_PANEL(name, channels_, vectors_)                                                                     \
    static void KERNEL(name)(const gt_conv_panel *p)                                                              \
    {                                                                                                             \
        enum { C = (channels_), N = (vectors_) };                                                                 \
        for (int64_t v = 0; v < p->vectors; v += N) {                                                             \
            const gt_conv_place *place[N];                                                                        \
            const T *from[N];                                                                                     \
            VECTOR sum[C][N];                                                                                     \
            for (int j = 0; j < N; j++) {                                                                         \
                place[j] = &p->places[v + j < p->vectors ? v + j : p->vectors - 1];                               \
                from[j] = (const T *)p->source + place[j]->source;                                                \
            }                                                                                                     \
            for (int i = 0; i < C; i++)                                                                           \
                for (int j = 0; j < N; j++)                                                                       \
                    sum[i][j] = (VECTOR){0} + (p->start ? ((const T *)p->start)[i] : (T)0);                       \
            const T *weight = p->weights;                                                                         \
            VECTOR x[N];                                                                                          \
            for (int j = 0; j < N && C > 1; j++)                                                                  \
                x[j] = p->taps ? KERNEL(vector_at)(from[j], p->offsets[0]) : (VECTOR){0};                         \
            for (int64_t k = 0; k < p->taps; k++, weight += C) {                                                  \
                int64_t next = p->offsets[k + 1 < p->taps ? k + 1 : k];                                           \
                TAP_WEIGHTS(C);                                                                                   \
                for (int j = 0; j < N && C == 1; j++)                                                             \
                    x[j] = KERNEL(vector_at)(from[j], p->offsets[k]);                                             \
                for (int j = 0; j < N; j++) {                                                                     \
                    for (int i = 0; i < C; i++)                                                                   \
                        sum[i][j] += x[j] * TAP_WEIGHT(i);                                                        \
                    if (C > 1)                                                                                    \
                        x[j] = KERNEL(vector_at)(from[j], next);                                                  \
                }                                                                                                 \
            }                                                                                                     \
            bool whole = p->step == 1 && p->channels == C && v + N <= p->vectors;                                 \
            for (int j = 0; j < N; j++)                                                                           \
                whole &= place[j]->lanes == LANES;                                                                \
            for (int i = 0; i < C && whole; i++)                                                                  \
                for (int j = 0; j < N; j++) {                                                                     \
                    VECTOR *to = (VECTOR *)((T *)p->out + i * p->channel_stride + place[j]->out);                 \
                    if (p->add)                                                                                   \
                        sum[i][j] += *to;                                                                         \
                    *to = sum[i][j];                                                                              \
                }                                                                                                 \
            for (int i = 0; i < C && i < p->channels && !whole; i++) {                                            \
                T *out = (T *)p->out + i * p->channel_stride;                                                     \
                for (int j = 0; j < N && v + j < p->vectors; j++)                                                 \
                    KERNEL(put_lanes)(out + place[j]->out, sum[i][j], place[j]->lanes, p->step, p->add);          \
            }                                                                                                     \
        }                                                                                                         \
    }
CONV_PANEL(conv_panel, GT_CONV_CHANNELS, 3)
CONV_PANEL(conv_panel_one, 1, 8)
#undef CONV_PANEL

/*
 * For many channels, which are the lanes: at each position, the channels' vector times the taps' elements. As many taps as
 * the registers allow.
 */
#if defined(__aarch64__)
#define SOURCE_LANE(j, lane) x[j][lane]
#else
#define SOURCE_LANE(j, lane) ((const T *)((const char *)source[j] + at))[lane]
#endif

static void KERNEL(conv_dot)(const gt_conv_dot *d)
{
    enum { C = DOT_CHANNELS(T), V = C / LANES, N = V <= 2 ? 6 : 4 };
    for (int64_t k = 0; k < d->taps; k += N) {
        const T *source[N];
        VECTOR sum[N][V];
        for (int j = 0; j < N; j++) {
            source[j] = (const T *)((const char *)d->source + d->offsets[k + j < d->taps ? k + j : d->taps - 1]);
            for (int c = 0; c < V; c++)
                sum[j][c] = (VECTOR){0};
        }
        for (int64_t v = 0; v < d->vectors; v++) {
            int64_t at = d->places[v].source * (int64_t)sizeof(T);
            const T *y = (const T *)d->gradient + d->places[v].out * C;
#if defined(__aarch64__)
            VECTOR x[N];
            for (int j = 0; j < N; j++)
                x[j] = KERNEL(vector_at)(source[j], at);
#endif
            for (int lane = 0; lane < LANES; lane++)
                for (int c = 0; c < V; c++) {
                    VECTOR channels = *(const VECTOR *)(y + lane * C + c * LANES);
                    for (int j = 0; j < N; j++)
                        sum[j][c] += channels * SOURCE_LANE(j, lane);
                }
        }
        for (int j = 0; j < N && k + j < d->taps; j++)
            for (int i = 0; i < C && i < d->channels; i++)
                ((T *)d->out)[i * d->out_stride + k + j] += sum[j][i / LANES][i % LANES];
    }
}

/* For one channel: vectors of positions of both factors, with as many taps at once as a 3x3 kernel has. */
static void KERNEL(conv_dot_one)(const gt_conv_dot *d)
{
    enum { N = 9 };
    for (int64_t k = 0; k < d->taps; k += N) {
        const T *source[N], *y = d->gradient;
        VECTOR sum[N];
        for (int j = 0; j < N; j++) {
            source[j] = (const T *)((const char *)d->source + d->offsets[k + j < d->taps ? k + j : d->taps - 1]);
            sum[j] = (VECTOR){0};
        }
        for (int64_t v = 0; v < d->vectors; v++) {
            VECTOR channel = *(const VECTOR *)(y + d->places[v].out);
            for (int j = 0; j < N; j++)
                sum[j] += channel * KERNEL(vector_at)(source[j], d->places[v].source * (int64_t)sizeof(T));
        }
        for (int j = 0; j < N && k + j < d->taps; j++)
            for (int lane = 0; lane < LANES; lane++)
                ((T *)d->out)[k + j] += sum[j][lane];
    }
}

#undef SOURCE_LANE
#undef TAP_WEIGHTS
#undef TAP_WEIGHT
