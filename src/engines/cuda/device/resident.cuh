R"cuda(
/*
 * resident.cuh: one kernel of one block that executes small work from a ring in memory of the host, until it is told to leave or
 * has nothing to do. engines/cuda/resident.c writes the ring; docs/engines.md describes the protocol. The families that it
 * executes are those of other kernels, with the same parameters, so results are the same bit by bit.
 */

enum { GT_RESIDENT_WORDS = 64, GT_RESIDENT_THREADS = 512, GT_RESIDENT_BATCH = 2 * GT_RESIDENT_THREADS / GT_RESIDENT_WORDS };
enum { GT_RESIDENT_NUMBER, GT_RESIDENT_LEAVE, GT_RESIDENT_ELEMENTWISE, GT_RESIDENT_REDUCE, GT_RESIDENT_COPY, GT_RESIDENT_PUT, GT_RESIDENT_ROWS, GT_RESIDENT_MAIL };
enum { GT_RESIDENT_EXPRESSION, GT_RESIDENT_CONVERT, GT_RESIDENT_MOVE };

/* gt_cuda_slot of generate_resident.h. */
struct gt_resident_slot {
    uint8_t kind, type, operands, variant;
    uint16_t op;
    uint8_t literals, out;
    uint8_t in[3], fence;
    uint32_t stamp;
    uint64_t number, generation;
    uint64_t param[60];
};

struct gt_resident_params {
    const uint64_t *ring; /* slots of GT_RESIDENT_WORDS words */
    uint64_t *head;       /* slots that the host has written */
    uint64_t *tail;       /* and that are done */
    uint64_t *exited;     /* the last generation that has left or is about to */
    uint64_t *counter;
    uint64_t *position; /* of the next slot; in the card's memory, from one generation to the next */
    uint64_t *stamps;   /* pairs: when slots with a stamp started and ended */
    uint64_t generation, mask;
    uint64_t idle_ns, life_ns;
};

#ifdef __CUDACC_RTC__
GT_F uint64_t gt_clock_ns()
{
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}
GT_F uint64_t gt_system_load(const uint64_t *from)
{
    uint64_t x;
    asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(x) : "l"(from) : "memory");
    return x;
}
GT_F void gt_system_load2(const uint64_t *from, uint64_t *to)
{
    asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(to[0]), "=l"(to[1]) : "l"(from) : "memory");
}
GT_F void gt_system_store(uint64_t *to, uint64_t x)
{
    asm volatile("st.volatile.global.u64 [%0], %1;" ::"l"(to), "l"(x) : "memory");
}
GT_F void gt_pause() {}
#endif

/* ---- elementwise --------------------------------------------------------------------------------------------- */

template <class T> __device__ __noinline__ T gt_resident_load(uint32_t dtype, const void *from, int32_t at)
{
    switch (dtype) {
#define GT_CASE(number, D)                                                                                        \
    case number:                                                                                                  \
        return gt_convert<T>::from(D::load(((const D::raw *)from)[at]));
        GT_RESIDENT_DTYPES(GT_CASE)
#undef GT_CASE
    }
    return 0;
}

template <class T> __device__ __noinline__ void gt_resident_store(uint32_t dtype, void *to, int32_t at, T x)
{
    switch (dtype) {
#define GT_CASE(number, D)                                                                                        \
    case number:                                                                                                  \
        ((D::raw *)to)[at] = D::store(x);                                                                         \
        break;
        GT_RESIDENT_DTYPES(GT_CASE)
#undef GT_CASE
    }
}

GT_F int32_t gt_resident_offset(const gt_elementwise_params &p, int rank, int view, int32_t i)
{
    int32_t offset = 0;
    for (int axis = rank - 1; axis > 0; axis--) {
        int32_t size = (int32_t)p.shape[axis], next = i / size;
        offset += (i - next * size) * (int32_t)p.stride[view][axis];
        i = next;
    }
    return offset + i * (int32_t)p.stride[view][0];
}

/* Operands of the type that numbers are computed in are loaded without a call, so that loads overlap. */
template <class T> GT_F T gt_resident_operand(const gt_resident_slot &s, const gt_elementwise_params &p, int k, int32_t i)
{
    if (s.literals >> k & 1)
        return gt_slot<T>(&p.value[k]);
    int32_t at = gt_resident_offset(p, (int)p.rank, k, i);
    if (s.in[k] == gt_resident_own((T)0))
        return ((const T *)p.in[k])[at];
    return gt_resident_load<T>(s.in[k], p.in[k], at);
}

/* Operand k is a literal, or lies as it is computed: one axis, neighbours next to each other, of type T. */
template <class T> GT_F bool gt_resident_is_flat(const gt_resident_slot &s, const gt_elementwise_params &p, int k)
{
    return (s.literals >> k & 1) | ((s.in[k] == gt_resident_own((T)0)) & (p.stride[k][0] == 1)) | (k >= s.operands);
}

/* The commonest work: few parameters are needed, and they are all loaded at once. */
template <class T> GT_F void gt_resident_flat(const gt_resident_slot &s, const gt_elementwise_params &p)
{
    int32_t count = (int32_t)p.count;
    uint32_t op = s.op, operands = s.operands, literals = s.literals;
    const T *a = (const T *)p.in[0], *b = (const T *)p.in[1], *c = (const T *)p.in[2];
    T *out = (T *)p.out, x0 = gt_slot<T>(&p.value[0]), y0 = gt_slot<T>(&p.value[1]), z0 = gt_slot<T>(&p.value[2]);
    T pp = gt_slot<T>(&p.pq[0]), qq = gt_slot<T>(&p.pq[1]);
    bool load_b = operands > 1 && !(literals & 2), load_c = operands > 2 && !(literals & 4);
    for (int32_t i = threadIdx.x; i < count; i += blockDim.x) {
        T x = literals & 1 ? x0 : a[i], y = load_b ? b[i] : y0, z = load_c ? c[i] : z0;
        out[i] = s.variant == GT_RESIDENT_EXPRESSION ? gt_resident_apply(op, x, y, z, pp, qq) : x;
    }
}

template <class T> GT_F void gt_resident_elementwise(const gt_resident_slot &s)
{
    const gt_elementwise_params &p = *(const gt_elementwise_params *)s.param;
    int32_t count = (int32_t)p.count;
    T pp = gt_slot<T>(&p.pq[0]), qq = gt_slot<T>(&p.pq[1]);
    if ((p.rank == 1) & (p.stride[3][0] == 1) & (s.out == gt_resident_own((T)0)) & gt_resident_is_flat<T>(s, p, 0) &
        gt_resident_is_flat<T>(s, p, 1) & gt_resident_is_flat<T>(s, p, 2)) {
        gt_resident_flat<T>(s, p);
        return;
    }
    for (int32_t i = threadIdx.x; i < count; i += blockDim.x) {
        T x = gt_resident_operand<T>(s, p, 0, i), y = 0, z = 0;
        if (s.operands > 1)
            y = gt_resident_operand<T>(s, p, 1, i);
        if (s.operands > 2)
            z = gt_resident_operand<T>(s, p, 2, i);
        if (s.variant == GT_RESIDENT_EXPRESSION)
            x = gt_resident_apply(s.op, x, y, z, pp, qq);
        int32_t at = gt_resident_offset(p, (int)p.rank, 3, i);
        if (s.out == gt_resident_own((T)0))
            ((T *)p.out)[at] = x;
        else
            gt_resident_store<T>(s.out, p.out, at, x);
    }
}

template <class D> GT_F void gt_resident_move(const gt_elementwise_params &p)
{
    int32_t count = (int32_t)p.count;
    for (int32_t i = threadIdx.x; i < count; i += blockDim.x)
        ((typename D::raw *)p.out)[gt_resident_offset(p, (int)p.rank, 3, i)] =
            ((const typename D::raw *)p.in[0])[gt_resident_offset(p, (int)p.rank, 0, i)];
}

GT_F void gt_resident_elements(const gt_resident_slot &s)
{
    const gt_elementwise_params &p = *(const gt_elementwise_params *)s.param;
    if (s.variant != GT_RESIDENT_MOVE) {
        switch (s.type) {
#define GT_CASE(number, T)                                                                                        \
    case number:                                                                                                  \
        gt_resident_elementwise<T>(s);                                                                            \
        break;
            GT_RESIDENT_TYPES(GT_CASE)
#undef GT_CASE
        }
        return;
    }
    switch (s.out) {
    case 1:
        gt_resident_move<gt_b1>(p);
        break;
    case 2:
        gt_resident_move<gt_b2>(p);
        break;
    case 4:
        gt_resident_move<gt_b4>(p);
        break;
    case 8:
        gt_resident_move<gt_b8>(p);
        break;
    case 16:
        gt_resident_move<gt_b16>(p);
        break;
    }
}

/* ---- reductions: the sums of reduce.cuh, in the same order ------------------------------------------------------- */

__device__ __noinline__ int32_t gt_resident_walk(int rank, const int64_t *shape, const int64_t *stride, int32_t i)
{
    int32_t offset = 0;
#pragma unroll 1
    for (int axis = rank - 1; axis > 0; axis--) {
        int32_t size = (int32_t)shape[axis], next = i / size;
        offset += (i - next * size) * (int32_t)stride[axis];
        i = next;
    }
    return offset + i * (int32_t)stride[0];
}

/* a / b of numbers that are not negative; b is a power of two as a rule. */
GT_F int32_t gt_resident_quotient(int32_t a, int32_t b)
{
    return b & (b - 1) ? a / b : a >> (31 - __clz(b));
}

/* What one thread of `width` adds for a result: vectors in turn, then the elements behind the last whole vector. Four elements are
 * read before they are added. */
template <class R, class A>
GT_F typename R::S gt_resident_share(const gt_resident_slot &s, const gt_reduce_params &p, int32_t result, int lane,
                                     int width)
{
    typename R::S state = R::first(p);
    int shift = s.variant; /* of vectors: 2^shift elements */
    int32_t elements = (int32_t)p.elements, vectors = elements >> shift, rest = elements - (vectors << shift);
    int32_t in_vectors = gt_resident_quotient(vectors + width - 1 - lane, width) << shift;
    int32_t count = in_vectors + gt_resident_quotient(rest + width - 1 - lane, width);
    int32_t from = result ? gt_resident_walk((int)p.kept_rank, p.kept_shape, p.kept_stride, result) : 0;
#pragma unroll 1
    for (int32_t first = 0; first < count; first += 4) {
        int32_t element[4];
        A x[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int32_t k = first + j < count ? first + j : first;
            element[j] = k < in_vectors ? (((k >> shift) * width + lane) << shift) + (k & ((1 << shift) - 1))
                                        : (vectors << shift) + lane + (k - in_vectors) * width;
            int32_t at = from + (p.reduced_rank == 1
                                     ? element[j] * (int32_t)p.reduced_stride[0]
                                     : gt_resident_walk((int)p.reduced_rank, p.reduced_shape, p.reduced_stride, element[j]));
            x[j] = s.in[0] == gt_resident_own((A)0) ? ((const A *)p.in)[at] : gt_resident_load<A>(s.in[0], p.in, at);
        }
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (first + j < count)
                R::add(p, state, x[j], element[j]);
    }
    return state;
}

/* `room`: for a state of each thread. */
template <class R, class A> __device__ __noinline__ void gt_resident_reduce(const gt_resident_slot &s, double *room)
{
    typedef typename R::S S;
    const gt_reduce_params &p = *(const gt_reduce_params *)s.param;
    bool columns = s.literals; /* else rows */
    int width = columns ? 8 : (int)p.width, groups = blockDim.x / width, thread = threadIdx.x;
    int group = columns ? thread / 256 * 32 + thread % 32 : thread / width;
    int lane = columns ? thread / 32 % 8 : thread % width;
    S *state = (S *)room;
    for (int32_t first = 0; first < (int32_t)p.results; first += groups) {
        int32_t result = first + group;
        S sum = R::first(p);
        if (result < (int32_t)p.results)
            sum = gt_resident_share<R, A>(s, p, result, lane, width);
        if (columns) {
            __syncthreads();
            state[thread] = sum;
            __syncthreads();
            for (int k = 1; k < 8 && lane == 0; k++)
                sum = R::merge(sum, state[thread + 32 * k]);
        } else {
            sum = gt_merge_lanes<R>(sum, width);
        }
        if (lane == 0 && result < (int32_t)p.results)
            gt_resident_store(s.out, p.out, result, R::finish(p, sum));
    }
}

GT_F void gt_resident_reduction(const gt_resident_slot &s)
{
    __shared__ double room[3 * GT_RESIDENT_THREADS];
    switch (s.op) {
#define GT_CASE(number, R, A)                                                                                     \
    case number:                                                                                                  \
        static_assert(sizeof(R::S) <= 24, "states fit");                                                 \
        gt_resident_reduce<R, A>(s, room);                                                                        \
        break;
        GT_RESIDENT_REDUCTIONS(GT_CASE)
#undef GT_CASE
    }
}

/* ---- lines: softmax and layer norm of rows.cuh, where a warp's registers hold a line ------------------------------- */

template <int VECTOR, bool LOG> struct gt_resident_line {
    typedef float T;
    typedef gt_f32 DO, D0, D1, D2;
    enum { V = VECTOR, ITEMS = 1, WIDTH = 32, LITERAL1 = 0, LITERAL2 = 0, LOGARITHM = LOG, BACKWARD = 0, KEPT = 0, SUMS = 0 };
};

#define GT_LINES(name)                                                                                            \
    template <class K> __device__ __noinline__ void gt_resident_##name(const gt_rows_params &p) { gt_##name<K>(p); }
GT_LINES(softmax)
GT_LINES(softmax_backward)
GT_LINES(layer_norm)
GT_LINES(layer_norm_backward)
#undef GT_LINES

GT_F void gt_resident_lines(const gt_resident_slot &s)
{
    const gt_rows_params &p = *(const gt_rows_params *)s.param;
    bool vectors = s.literals != 0;
    switch (s.op) {
#define GT_CASE(number, name, LOG)                                                                                \
    case number:                                                                                                  \
        if (vectors)                                                                                              \
            gt_resident_##name<gt_resident_line<4, LOG>>(p);                                                      \
        else                                                                                                      \
            gt_resident_##name<gt_resident_line<1, LOG>>(p);                                                      \
        break;
        GT_RESIDENT_LINES(GT_CASE)
#undef GT_CASE
    }
}

/* ---- copies between the card's memory and pinned memory --------------------------------------------------------- */

GT_F void gt_resident_copy(const gt_resident_slot &s)
{
    const uint8_t *from = (const uint8_t *)s.param[0];
    uint8_t *to = (uint8_t *)s.param[1];
    uint32_t bytes = (uint32_t)s.param[2], words = ((uint64_t)from | (uint64_t)to) % 8 ? 0 : bytes / 8;
    for (uint32_t k = threadIdx.x; k < words; k += blockDim.x)
        ((uint64_t *)to)[k] = gt_system_load((const uint64_t *)from + k);
    for (uint32_t k = 8 * words + threadIdx.x; k < bytes; k += blockDim.x)
        to[k] = *(const volatile uint8_t *)(from + k);
}

/* A number for the host, 1, 2, 4 or 8 bytes: halves of words, each with a tag, so that the host sees by themselves that they are
 * there and needs no fence. */
GT_F void gt_resident_mail(const gt_resident_slot &s)
{
    const uint8_t *from = (const uint8_t *)s.param[0];
    uint32_t bytes = (uint32_t)s.param[2], words = bytes / 4 + (bytes < 4), half = 0;
    if (threadIdx.x >= words)
        return;
    if (bytes >= 4)
        half = ((const volatile uint32_t *)from)[threadIdx.x];
    else
        for (uint32_t k = 0; k < bytes; k++)
            half |= (uint32_t)((const volatile uint8_t *)from)[k] << 8 * k;
    gt_system_store((uint64_t *)s.param[1] + threadIdx.x, s.param[3] << 32 | half);
}

/* Bytes that came with the slot. */
GT_F void gt_resident_put(const gt_resident_slot &s)
{
    uint8_t *to = (uint8_t *)s.param[0];
    uint32_t bytes = (uint32_t)s.param[1];
    for (uint32_t k = threadIdx.x; k < bytes; k += blockDim.x)
        to[k] = ((const uint8_t *)(s.param + 2))[k];
}

/* ---- the ring ------------------------------------------------------------------------------------------------------ */

/* Wait for slots behind `at`: their end. `at` itself: there are none, and the host knows that this generation leaves. */
GT_F uint64_t gt_resident_wait(const gt_resident_params &p, uint64_t at, uint64_t began, bool &announced)
{
    uint64_t since = gt_clock_ns(), head = gt_system_load(p.head);
    if (announced)
        return at;
    while (head == at) {
        uint64_t now = gt_clock_ns();
        if (now - since > p.idle_ns)
            break;
        gt_pause();
        head = gt_system_load(p.head);
    }
    if (head != at && gt_clock_ns() - began <= p.life_ns)
        return head;
    /* Either the host sees this before it counts on this generation, or this generation sees what the host wrote before. */
    announced = true;
    gt_system_store(p.exited, p.generation);
    __threadfence_system();
    return gt_system_load(p.head);
}

/* One slot. False: it says to leave. */
GT_F bool gt_resident_execute(const gt_resident_params &p, const gt_resident_slot &s)
{
    switch (s.kind) {
    case GT_RESIDENT_LEAVE:
        return s.generation < p.generation;
    case GT_RESIDENT_ELEMENTWISE:
        gt_resident_elements(s);
        break;
    case GT_RESIDENT_REDUCE:
        gt_resident_reduction(s);
        break;
    case GT_RESIDENT_COPY:
        gt_resident_copy(s);
        break;
    case GT_RESIDENT_PUT:
        gt_resident_put(s);
        break;
    case GT_RESIDENT_ROWS:
        gt_resident_lines(s);
        break;
    case GT_RESIDENT_MAIL:
        gt_resident_mail(s);
        break;
    }
    return true;
}

/* Slots on their way from the host's memory: each thread has two words of a batch. */
struct gt_resident_share_of_slots {
    uint64_t word[2];
};

GT_F int gt_resident_count(uint64_t at, uint64_t until)
{
    return until - at < GT_RESIDENT_BATCH ? (int)(until - at) : GT_RESIDENT_BATCH;
}

GT_F void gt_resident_fetch(const gt_resident_params &p, uint64_t at, int count, gt_resident_share_of_slots &share)
{
    int k = 2 * (int)threadIdx.x, slot = k / GT_RESIDENT_WORDS;
    if (slot < count)
        gt_system_load2(p.ring + ((at + slot) & p.mask) * GT_RESIDENT_WORDS + k % GT_RESIDENT_WORDS, share.word);
}

GT_F void gt_resident_unpack(const gt_resident_share_of_slots &share, int count, uint64_t *slots)
{
    int k = 2 * (int)threadIdx.x;
    if (k < count * GT_RESIDENT_WORDS) {
        slots[k] = share.word[0];
        slots[k + 1] = share.word[1];
    }
}

/* Execute a batch. False: this generation leaves. */
GT_F bool gt_resident_batch(const gt_resident_params &p, const gt_resident_slot *slots, int count, uint64_t &at)
{
    uint64_t number = 0;
    bool fence = false, staying = true;
    for (int k = 0; k < count && staying; k++) {
        uint32_t stamp = slots[k].stamp;
        if (stamp && threadIdx.x == 0)
            gt_system_store(p.stamps + 2 * stamp - 2, gt_clock_ns());
        staying = gt_resident_execute(p, slots[k]);
        fence = fence || slots[k].fence || stamp;
        number = slots[k].number > number ? slots[k].number : number;
        at += staying || slots[k].generation == p.generation; /* a leave of a later generation is for that one, too */
        __syncthreads();
        if (stamp && threadIdx.x == 0)
            gt_system_store(p.stamps + 2 * stamp - 1, gt_clock_ns());
    }
    if (threadIdx.x == 0) {
        if (fence)
            __threadfence_system();
        if (number)
            gt_system_store(p.counter, number);
        gt_system_store(p.tail, at);
    }
    return staying;
}

/*
 * The host's memory is a microsecond away. So while a batch is executed the next one is on its way, and after the last known one
 * the head of the ring. Loads of slots are issued when the head's value is there, and volatile loads are not cached, so they see
 * what the host wrote before it wrote the head.
 */
GT_F void gt_resident(const gt_resident_params &p)
{
    __shared__ gt_resident_slot slots[GT_RESIDENT_BATCH];
    __shared__ uint64_t end, ahead; /* two: no thread writes what others may not have read yet */
    gt_resident_share_of_slots share;
    uint64_t at = *p.position, until = at, began = gt_clock_ns();
    bool announced = false;
    for (;;) {
        if (until == at) {
            if (threadIdx.x == 0)
                end = gt_resident_wait(p, at, began, announced);
            __syncthreads();
            until = end;
            if (until == at)
                break;
            gt_resident_fetch(p, at, gt_resident_count(at, until), share);
        }
        int count = gt_resident_count(at, until);
        uint64_t next = at + count, head = next;
        gt_resident_unpack(share, count, (uint64_t *)slots);
        __syncthreads();
        if (next != until)
            gt_resident_fetch(p, next, gt_resident_count(next, until), share);
        else if (threadIdx.x == 0 && !announced)
            head = gt_system_load(p.head);
        if (!gt_resident_batch(p, slots, count, at))
            break;
        if (next == until) {
            if (threadIdx.x == 0)
                ahead = gt_clock_ns() - began > p.life_ns ? at : head;
            __syncthreads();
            until = ahead;
            if (until != at)
                gt_resident_fetch(p, at, gt_resident_count(at, until), share);
        }
    }
    if (threadIdx.x == 0)
        *p.position = at;
}
)cuda"
