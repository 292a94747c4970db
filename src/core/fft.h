/*
 * fft.h: imm[0] of an fft record: which transform, over which axes.
 *
 * A transform of several axes is one of each in turn. In the two real kinds one axis, `half`, is real on one side: there the
 * complex side has n / 2 + 1 of n elements, since the others follow by symmetry. GT_FFT_REAL transforms that axis first,
 * GT_FFT_TO_REAL last.
 */
#ifndef GT_CORE_FFT_H
#define GT_CORE_FFT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum gt_fft_kind {
    GT_FFT_COMPLEX, /* complex to complex */
    GT_FFT_REAL,    /* real to half of a complex tensor */
    GT_FFT_TO_REAL, /* and back */
    GT_FFT_KINDS
} gt_fft_kind;

typedef struct gt_fft_spec {
    gt_fft_kind kind;
    uint32_t axes; /* a bit each */
    unsigned half; /* the axis that is halved; complex to complex: 0 */
    bool inverse;  /* exp(+i...) */
    bool odd;      /* GT_FFT_TO_REAL: 2 (m - 1) + 1 elements of m */
} gt_fft_spec;

static inline uint64_t gt__fft_pack(gt_fft_spec spec)
{
    return (uint64_t)spec.axes | (uint64_t)spec.kind << 8 | (uint64_t)spec.inverse << 10 |
           (uint64_t)spec.odd << 11 | (uint64_t)spec.half << 12;
}

/* kind may be GT_FFT_KINDS, which is none: inference refuses it. */
static inline gt_fft_spec gt__fft_unpack(uint64_t packed)
{
    gt_fft_spec spec;
    spec.kind = (gt_fft_kind)(packed >> 8 & 3);
    spec.axes = packed & 0xff;
    spec.half = packed >> 12 & 7;
    spec.inverse = packed >> 10 & 1;
    spec.odd = packed >> 11 & 1;
    return spec;
}

#endif
