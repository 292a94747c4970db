/*
 * half.h: the two 16-bit float formats, as bits in a uint16_t, to and from float.
 *
 * float16 is IEEE binary16, bfloat16 is the high half of a float32; both round to nearest even, overflow to
 * infinity and keep NaNs. No branches, only selects: a loop over any of these becomes vector code. All
 * engines on the host use these functions, so a cast gives the same bits everywhere (only a NaN's payload may differ).
 * Next: convert.h.
 */
#ifndef GT_CORE_HALF_H
#define GT_CORE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t gt__float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float gt__float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#if defined(__aarch64__)

/* Every arm64 processor converts in hardware, and compilers vectorise it. */
static inline float gt__half_to_float(uint16_t half)
{
    __fp16 value;
    memcpy(&value, &half, sizeof value);
    return (float)value;
}

static inline uint16_t gt__float_to_half(float value)
{
    __fp16 half = (__fp16)value;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

#else

static inline float gt__half_to_float(uint16_t half)
{
    /* After the shift the exponent is too small by 127 - 15: a multiplication corrects it, subnormals included. */
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    float magnitude = gt__float_from_bits((uint32_t)(half & 0x7fffu) << 13) * 0x1p112f;
    uint32_t infinite_or_nan = magnitude >= 65536.0f ? 0x7f800000u : 0;
    return gt__float_from_bits(gt__float_bits(magnitude) | infinite_or_nan | sign);
}

static inline uint16_t gt__float_to_half(float value)
{
    uint32_t bits = gt__float_bits(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;

    /* Normal: rebias, then round to nearest even on the 13 dropped bits. A carry into the exponent is correct. */
    uint32_t half = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1)) >> 13;
    /* Below 2^-14: one unit of a subnormal is one unit of 0.5f, so the addition does the rounding. */
    uint32_t subnormal = gt__float_bits(gt__float_from_bits(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t nan = 0x7e00u | (magnitude >> 13 & 0x3ffu);

    half = magnitude < 0x38800000u ? subnormal : half;
    half = magnitude >= 0x477ff000u ? 0x7c00u : half; /* 65520 and above round to infinity */
    half = magnitude > 0x7f800000u ? nan : half;
    return (uint16_t)(half | sign);
}

#endif

static inline float gt__bfloat16_to_float(uint16_t value)
{
    return gt__float_from_bits((uint32_t)value << 16);
}

static inline uint16_t gt__float_to_bfloat16(float value)
{
    uint32_t bits = gt__float_bits(value);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    uint32_t nan = bits >> 16 | 0x40u;
    return (uint16_t)(value != value ? nan : rounded);
}

#endif
