// shim.h: CUDA's threads, barriers and warps on the host, as much of them as the generated kernels use. A kernel's source is
// compiled behind this file as C++, and shim_run executes it block by block, in one thread.
//
// The threads of a block are fibers: each runs until it waits for the others. They run in the order of their numbers in even
// blocks and backwards in odd ones, so that results that depend on the order differ between the two.
#ifndef GT_TESTS_CUDA_SHIM_H
#define GT_TESTS_CUDA_SHIM_H

#undef _FORTIFY_SOURCE /* its longjmp refuses to go to another stack */
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <math.h>
#include <sched.h>
#include <time.h>
#include <ucontext.h>
#include <vector>

#include "core/convert.h"

struct shim_index {
    unsigned x, y, z;
};
static thread_local shim_index blockIdx, threadIdx, blockDim, gridDim;
static thread_local unsigned char *shim_dynamic;

#define __device__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __noinline__ __attribute__((noinline))
#define __restrict__
#define SHIM_API extern "C" __attribute__((visibility("default")))
#define GT_ENTRY(...) SHIM_API void
#define GT_PARAM(type) const type &
/* The bytes of a kernel's parameter, which a driver knows: fake_compiler.c has SHIM_PARAMETER_OF its kernel. */
template <class P> constexpr unsigned long shim_bytes_of(void (*)(const P &))
{
    return sizeof(P);
}
#define SHIM_PARAMETER_OF(kernel) SHIM_API const unsigned long shim_parameter_bytes = shim_bytes_of(kernel);
#define GT_DYNAMIC_SHARED(type, name) type *name = (type *)shim_dynamic
#define GT_NAN ((double)NAN)

// ---- fibers ---------------------------------------------------------------------------------------------------

enum shim_state { SHIM_IDLE, SHIM_READY, SHIM_AT_BLOCK, SHIM_AT_WARP };
struct shim_fiber {
    ucontext_t start;
    jmp_buf here;
    bool started;
    shim_state state;
    shim_index index;
    unsigned turn; // shuffles done: which half of the slots is in use
    std::vector<char> stack;
};
struct shim_job {
    void (*entry)(const void *);
    const void *param;
};
static thread_local std::vector<shim_fiber *> shim_fibers; // streams are threads
static thread_local jmp_buf shim_scheduler;
static thread_local shim_job shim_now;
static thread_local unsigned shim_self;                  // the running fiber
static thread_local std::vector<uint32_t> shim_slots[2]; // of shuffles, by thread

static void shim_expect(bool right, const char *what)
{
    if (!right) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static void shim_wait(shim_state state)
{
    shim_fiber *self = shim_fibers[shim_self];
    self->state = state;
    if (!_setjmp(self->here))
        _longjmp(shim_scheduler, 1);
}

static void shim_fiber_main()
{
    for (;;) {
        shim_now.entry(shim_now.param);
        shim_wait(SHIM_IDLE);
    }
}

static void shim_resume(unsigned number)
{
    shim_fiber *fiber = shim_fibers[number];
    shim_self = number;
    threadIdx = fiber->index;
    if (_setjmp(shim_scheduler))
        return;
    if (fiber->started)
        _longjmp(fiber->here, 1);
    fiber->started = true;
    setcontext(&fiber->start);
}

static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline void __syncthreads()
{
    shim_wait(SHIM_AT_BLOCK);
}
static inline void __syncwarp(unsigned = 0xffffffffu)
{
    shim_wait(SHIM_AT_WARP);
}

static uint32_t shim_exchange(uint32_t word, unsigned from)
{
    unsigned half = shim_fibers[shim_self]->turn++ & 1, warp = shim_self / 32 * 32;
    shim_slots[half][shim_self] = word;
    shim_wait(SHIM_AT_WARP);
    return shim_slots[half][warp + from];
}
static inline uint32_t __shfl_down_sync(unsigned, uint32_t word, unsigned delta, int width = 32)
{
    unsigned lane = shim_self % 32, from = lane % width + delta < (unsigned)width ? lane + delta : lane;
    return shim_exchange(word, from);
}
static inline uint32_t __shfl_up_sync(unsigned, uint32_t word, unsigned delta, int width = 32)
{
    unsigned lane = shim_self % 32, from = lane % width >= delta ? lane - delta : lane;
    return shim_exchange(word, from);
}
static inline uint32_t __shfl_xor_sync(unsigned, uint32_t word, int mask, int = 32)
{
    return shim_exchange(word, shim_self % 32 ^ mask);
}
static inline uint32_t __shfl_sync(unsigned, uint32_t word, int from, int width = 32)
{
    unsigned lane = shim_self % 32;
    return shim_exchange(word, lane / width * width + from % width);
}
static inline uint32_t __ballot_sync(unsigned, int predicate)
{
    uint32_t ballot = 0;
    unsigned half = shim_fibers[shim_self]->turn++ & 1, warp = shim_self / 32 * 32;
    shim_slots[half][shim_self] = predicate != 0;
    shim_wait(SHIM_AT_WARP);
    for (unsigned lane = 0; lane < 32; lane++)
        ballot |= shim_slots[half][warp + lane] << lane;
    return ballot;
}
static inline uint32_t __match_any_sync(unsigned, uint32_t word)
{
    uint32_t equals = 0;
    unsigned half = shim_fibers[shim_self]->turn++ & 1, warp = shim_self / 32 * 32;
    shim_slots[half][shim_self] = word;
    shim_wait(SHIM_AT_WARP);
    for (unsigned lane = 0; lane < 32; lane++)
        equals |= (uint32_t)(shim_slots[half][warp + lane] == word) << lane;
    return equals;
}
// mma.m16n8k16: where an element of A or B lies is in device/attention_mma.cuh.
template <class Load> static void shim_mma(float *c, const uint32_t *a, uint32_t b0, uint32_t b1, Load load)
{
    struct operands {
        uint32_t a[4], b[2];
    };
    static thread_local std::vector<operands> halves[2];
    unsigned half = shim_fibers[shim_self]->turn++ & 1, warp = shim_self / 32 * 32, lane = shim_self % 32;
    halves[half].resize(shim_fibers.size());
    halves[half][shim_self] = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    shim_wait(SHIM_AT_WARP);
    for (unsigned j = 0; j < 4; j++) {
        unsigned row = lane / 4 + j / 2 * 8, column = lane % 4 * 2 + j % 2;
        for (unsigned k = 0; k < 16; k++) {
            uint32_t x = halves[half][warp + row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2];
            uint32_t y = halves[half][warp + column * 4 + k % 8 / 2].b[k / 8];
            c[j] += load((uint16_t)(x >> k % 2 * 16)) * load((uint16_t)(y >> k % 2 * 16));
        }
    }
}
// ldmatrix.x4: each lane has the address of one row of 8 halves; the rows of a matrix come from 8 neighbouring lanes.
static void shim_load_matrices(uint32_t *m, const uint16_t *row, bool turned)
{
    static std::vector<const uint16_t *> rows[2];
    unsigned half = shim_fibers[shim_self]->turn++ & 1, warp = shim_self / 32 * 32, lane = shim_self % 32;
    shim_expect((uintptr_t)row % 16 == 0, "ldmatrix: an address is not a multiple of 16");
    rows[half].resize(shim_fibers.size());
    rows[half][shim_self] = row;
    shim_wait(SHIM_AT_WARP);
    for (unsigned k = 0; k < 4; k++) {
        const uint16_t *const *of = rows[half].data() + warp + k * 8;
        unsigned g = lane / 4, t = lane % 4 * 2;
        uint16_t low = turned ? of[t][g] : of[g][t], high = turned ? of[t + 1][g] : of[g][t + 1];
        m[k] = (uint32_t)low | (uint32_t)high << 16;
    }
}

// cp.async: the bytes arrive when the thread waits for their group.
struct shim_copy {
    void *to;
    const void *from;
    unsigned size;
    bool inside;
};
static std::vector<std::vector<std::vector<shim_copy>>>
    shim_copies; // by thread: groups; the last is not committed
static std::vector<std::vector<shim_copy>> &shim_groups()
{
    if (shim_copies.size() < shim_fibers.size())
        shim_copies.resize(shim_fibers.size());
    if (shim_copies[shim_self].empty())
        shim_copies[shim_self].emplace_back();
    return shim_copies[shim_self];
}
static void shim_copy_begin(void *to, const void *from, unsigned size, bool inside)
{
    shim_expect(((uintptr_t)to | (uintptr_t)from) % size == 0,
                "cp.async: an address is not a multiple of the size");
    shim_groups().back().push_back({to, from, size, inside});
}
static void shim_copy_commit()
{
    shim_groups().emplace_back();
}
static void shim_copy_wait(unsigned later)
{
    std::vector<std::vector<shim_copy>> &groups = shim_groups();
    while (groups.size() > later + 1) {
        for (const shim_copy &copy : groups.front())
            if (copy.inside)
                memcpy(copy.to, copy.from, copy.size);
            else
                memset(copy.to, 0, copy.size);
        groups.erase(groups.begin());
    }
}
static inline int __popc(uint32_t x)
{
    return __builtin_popcount(x);
}

// Whether all fibers of first..last that are not done wait for each other; then let them go on.
static bool shim_release(unsigned first, unsigned last, shim_state state)
{
    unsigned waiting = 0, live = 0;
    for (unsigned k = first; k < last; k++) {
        live += shim_fibers[k]->state != SHIM_IDLE;
        waiting += shim_fibers[k]->state == state;
    }
    if (waiting == 0 || waiting < live)
        return false;
    for (unsigned k = first; k < last; k++)
        if (shim_fibers[k]->state == state)
            shim_fibers[k]->state = SHIM_READY;
    return true;
}

static void shim_run_block(unsigned threads, bool backwards)
{
    for (;;) {
        unsigned done = 0;
        for (unsigned k = 0; k < threads; k++) {
            unsigned number = backwards ? threads - 1 - k : k;
            if (shim_fibers[number]->state == SHIM_READY)
                shim_resume(number);
            done += shim_fibers[number]->state == SHIM_IDLE;
        }
        if (done == threads)
            return;
        bool released = false;
        for (unsigned warp = 0; warp < threads; warp += 32)
            released |= shim_release(warp, warp + 32 < threads ? warp + 32 : threads, SHIM_AT_WARP);
        if (!released && !shim_release(0, threads, SHIM_AT_BLOCK)) {
            fprintf(stderr, "a kernel's threads wait for each other at different places\n");
            abort();
        }
    }
}

static void shim_make_fibers(unsigned threads)
{
    while (shim_fibers.size() < threads) {
        shim_fiber *fiber = new shim_fiber();
        fiber->stack.resize(256 * 1024);
        getcontext(&fiber->start);
        fiber->start.uc_stack.ss_sp = fiber->stack.data();
        fiber->start.uc_stack.ss_size = fiber->stack.size();
        makecontext(&fiber->start, shim_fiber_main, 0);
        shim_fibers.push_back(fiber);
        shim_slots[0].push_back(0);
        shim_slots[1].push_back(0);
    }
}

// `waits`: its threads use barriers or shuffles; else they are a plain loop.
SHIM_API void shim_run(void (*entry)(const void *), const unsigned *grid, const unsigned *block, unsigned shared,
                       const void *param, bool waits)
{
    static thread_local std::vector<double> memory;
    memory.resize((shared + 127) / 8);
    shim_dynamic = (unsigned char *)(((uintptr_t)memory.data() + 15) / 16 * 16);
    unsigned threads = block[0] * block[1] * block[2];
    shim_make_fibers(threads);
    shim_now.entry = entry;
    shim_now.param = param;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    for (unsigned k = 0; k < threads; k++)
        shim_fibers[k]->index = {k % block[0], k / block[0] % block[1], k / block[0] / block[1]};
    for (unsigned z = 0; z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = grid[0]; x-- > 0;) { /* a card runs blocks in any order */
                blockIdx = {x, y, z};
                if (!waits) {
                    for (unsigned k = 0; k < threads; k++) {
                        threadIdx = shim_fibers[k]->index;
                        entry(param);
                    }
                    continue;
                }
                memset(shim_dynamic, 0xa5, shared);
                for (unsigned k = 0; k < threads; k++)
                    shim_fibers[k]->state = SHIM_READY;
                shim_run_block(threads, (x + y + z) % 2);
            }
}

// ---- functions that CUDA has built in -------------------------------------------------------------------------------

template <class T> static inline T shim_atomic_add(T *at, T x)
{
    T old = *at;
    *at = (T)(old + x);
    return old;
}
#define SHIM_ATOMICS(T)                                                                                           \
    static inline T atomicAdd(T *at, T x)                                                                         \
    {                                                                                                             \
        return shim_atomic_add(at, x);                                                                            \
    }                                                                                                             \
    static inline T atomicCAS(T *at, T compare, T x)                                                              \
    {                                                                                                             \
        T old = *at;                                                                                              \
        if (old == compare)                                                                                       \
            *at = x;                                                                                              \
        return old;                                                                                               \
    }                                                                                                             \
    static inline T atomicMin(T *at, T x)                                                                         \
    {                                                                                                             \
        T old = *at;                                                                                              \
        *at = x < old ? x : old;                                                                                  \
        return old;                                                                                               \
    }                                                                                                             \
    static inline T atomicMax(T *at, T x)                                                                         \
    {                                                                                                             \
        T old = *at;                                                                                              \
        *at = x > old ? x : old;                                                                                  \
        return old;                                                                                               \
    }
SHIM_ATOMICS(int)
SHIM_ATOMICS(unsigned)
SHIM_ATOMICS(unsigned long)
SHIM_ATOMICS(unsigned long long)
SHIM_ATOMICS(unsigned short)
static inline float atomicAdd(float *at, float x)
{
    return shim_atomic_add(at, x);
}
static inline double atomicAdd(double *at, double x)
{
    return shim_atomic_add(at, x);
}

// ---- between the host and a kernel that runs -----------------------------------------------------------------------

static inline uint64_t gt_clock_ns()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
static inline uint64_t gt_system_load(const uint64_t *from)
{
    return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}
static inline void gt_system_load2(const uint64_t *from, uint64_t *to)
{
    to[0] = from[0];
    to[1] = from[1];
}
static inline void gt_system_store(uint64_t *to, uint64_t x)
{
    __atomic_store_n(to, x, __ATOMIC_RELEASE);
}
static inline void gt_pause()
{
    sched_yield();
}
static inline void __threadfence_system()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// The same bits as on the host.
#define gt_half_to_float gt__half_to_float
#define gt_float_to_half gt__float_to_half
#define gt_float_to_bfloat16 gt__float_to_bfloat16
static inline int32_t gt_to_int32(float x)
{
    return gt__float_to_int32(x);
}
static inline int32_t gt_to_int32(double x)
{
    return gt__double_to_int32(x);
}
static inline int64_t gt_to_int64(float x)
{
    return gt__float_to_int64(x);
}
static inline int64_t gt_to_int64(double x)
{
    return gt__double_to_int64(x);
}
// Compile with -ffp-contract=off.
template <class T> static inline T gt_exact_add(T a, T b)
{
    return a + b;
}
template <class T> static inline T gt_exact_product(T a, T b)
{
    return a * b;
}
template <class A, class B> static inline A shim_as(B b)
{
    A a;
    static_assert(sizeof a == sizeof b, "as many bits");
    memcpy(&a, &b, sizeof a);
    return a;
}
static inline uint32_t gt_bits(float f)
{
    return shim_as<uint32_t>(f);
}
static inline float gt_from_bits(uint32_t u)
{
    return shim_as<float>(u);
}
static inline uint64_t gt_bits(double f)
{
    return shim_as<uint64_t>(f);
}
static inline double gt_from_bits(uint64_t u)
{
    return shim_as<double>(u);
}
static inline uint32_t gt_high_product(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}
static inline uint64_t gt_high_product(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

#endif
