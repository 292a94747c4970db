/*
 * kernel_math_angles.h: the part of kernel_math.h with circular and hyperbolic functions of a float, and their inverses.
 * kernel_math.h includes it after the exponentials and logarithms; the same rules hold.
 */
#ifndef GT_ENGINES_CPU_KERNEL_MATH_ANGLES_H
#define GT_ENGINES_CPU_KERNEL_MATH_ANGLES_H

#define GT_HALF_PI 1.57079637f
#define GT_HALF_PI_LOW -4.37113883e-8f /* pi/2 minus its float */

/* ---- sine, cosine, tangent --------------------------------------------------------------------------------- */

/* x = n pi/2 + r; pi/2 in three parts, each product fused, so r is accurate even near zero. */
GT_MATH float gt__sin_reduce_f32(float x, uint32_t *n)
{
    const float magic = 12582912.0f;
    float t = GT_FMA_F32(x, 0.636619747f, magic);
    *n = gt__bits_f32(t) - 0x4b400000u;
    float k = t - magic;
    float r = GT_FMA_F32(k, -1.57079637f, x);
    r = GT_FMA_F32(k, 4.37113883e-08f, r);
    return GT_FMA_F32(k, 1.71512451e-15f, r);
}

/* sin(r + n pi/2) */
GT_MATH float gt__sin_tail_f32(float r, uint32_t n)
{
    float s = r * r;
    float p = 2.72438115e-06f;
    p = GT_FMA_F32(p, s, -0.00019840039f);
    p = GT_FMA_F32(p, s, 0.00833333191f);
    p = GT_FMA_F32(p, s, -0.166666672f);
    float sine = GT_FMA_F32(p * s, r, r);
    float q = -2.72958573e-07f;
    q = GT_FMA_F32(q, s, 2.48005599e-05f);
    q = GT_FMA_F32(q, s, -0.00138888881f);
    q = GT_FMA_F32(q, s, 0.0416666679f);
    float cosine = GT_FMA_F32(q * s, s, GT_FMA_F32(s, -0.5f, 1.0f));
    float y = gt__select_f32(n & 1, cosine, sine);
    return gt__from_bits_f32(gt__bits_f32(y) ^ ((n & 2) << 30));
}

GT_MATH float gt__sin_f32(float x)
{
    uint32_t n;
    float r = gt__sin_reduce_f32(x, &n);
    return gt__select_f32(x == 0.0f, x, gt__sin_tail_f32(r, n));
}

GT_MATH float gt__cos_f32(float x)
{
    uint32_t n;
    float r = gt__sin_reduce_f32(x, &n);
    return gt__sin_tail_f32(r, n + 1);
}

GT_MATH float gt__tan_f32(float x)
{
    uint32_t n;
    float r = gt__sin_reduce_f32(x, &n);
    float y = gt__sin_tail_f32(r, n) / gt__sin_tail_f32(r, n + 1);
    return gt__select_f32(x == 0.0f, x, y);
}

/* ---- their inverses ---------------------------------------------------------------------------------------- */

/* asin(x) / x - 1 for z = x^2 <= 1/4 */
GT_MATH float gt__asin_tail_f32(float z)
{
    float p = 0.0422185622f;
    p = GT_FMA_F32(p, z, 0.0241476037f);
    p = GT_FMA_F32(p, z, 0.0454770997f);
    p = GT_FMA_F32(p, z, 0.0749524161f);
    return GT_FMA_F32(p, z, 0.166667536f) * z;
}

/* Above 1/2, asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)). */
GT_MATH float gt__asin_f32(float x)
{
    float a = __builtin_fabsf(x);
    int far = a > 0.5f;
    float z = gt__select_f32(far, GT_FMA_F32(a, -0.5f, 0.5f), a * a);
    float s = gt__select_f32(far, __builtin_sqrtf(z), a);
    float y = GT_FMA_F32(gt__asin_tail_f32(z), s, s);
    y = gt__select_f32(far, GT_HALF_PI - (2.0f * y - GT_HALF_PI_LOW), y);
    return __builtin_copysignf(y, x);
}

GT_MATH float gt__acos_f32(float x)
{
    float a = __builtin_fabsf(x);
    int far = a > 0.5f;
    float z = gt__select_f32(far, GT_FMA_F32(a, -0.5f, 0.5f), a * a);
    float s = gt__select_f32(far, __builtin_sqrtf(z), x);
    float y = GT_FMA_F32(gt__asin_tail_f32(z), s, s);
    float near = GT_HALF_PI - (y - GT_HALF_PI_LOW);
    float mirrored = gt__select_f32(x < 0.0f, 2.0f * GT_HALF_PI - (2.0f * y - 2.0f * GT_HALF_PI_LOW), 2.0f * y);
    return gt__select_f32(far, mirrored, near);
}

/* atan(t) for 0 <= t <= 1 */
GT_MATH float gt__atan_tail_f32(float t)
{
    float z = t * t, z2 = z * z, z4 = z2 * z2;
    float p0 = GT_FMA_F32(z, 0.199985489f, -0.333332986f);
    float p2 = GT_FMA_F32(z, 0.109521858f, -0.142642424f);
    float p4 = GT_FMA_F32(z, 0.0579575822f, -0.0840344951f);
    float p6 = GT_FMA_F32(z, 0.0109145986f, -0.0311778337f);
    float low = GT_FMA_F32(p2, z2, p0), high = GT_FMA_F32(p6, z2, p4);
    float p = GT_FMA_F32(GT_FMA_F32(z4, -0.00179362018f, high), z4, low);
    return GT_FMA_F32(p * z, t, t);
}

GT_MATH float gt__atan_f32(float x)
{
    float a = __builtin_fabsf(x);
    int far = a > 1.0f;
    float y = gt__atan_tail_f32(gt__select_f32(far, 1.0f / a, a));
    y = gt__select_f32(far, GT_HALF_PI - (y - GT_HALF_PI_LOW), y);
    return __builtin_copysignf(y, x);
}

/* The angle of the point (x, y): atan of the smaller over the larger, then corrected by the octant. */
GT_MATH float gt__atan2_f32(float y, float x)
{
    float a = __builtin_fabsf(y), b = __builtin_fabsf(x);
    int steep = a > b;
    float small = gt__select_f32(steep, b, a), large = gt__select_f32(steep, a, b);
    float t = small / large;
    t = gt__select_f32(large == 0.0f, 0.0f, t);
    t = gt__select_f32((small == HUGE_VALF) & (large == HUGE_VALF), 1.0f, t);
    float angle = gt__atan_tail_f32(t);
    angle = gt__select_f32(steep, GT_HALF_PI - (angle - GT_HALF_PI_LOW), angle);
    int behind = (int)(gt__bits_f32(x) >> 31);
    angle = gt__select_f32(behind, 2.0f * GT_HALF_PI - (angle - 2.0f * GT_HALF_PI_LOW), angle);
    angle = gt__select_f32((x != x) | (y != y), x + y, angle);
    return __builtin_copysignf(angle, y);
}

/* The root of x^2 + y^2, scaled so that no square overflows. */
GT_MATH float gt__hypot_f32(float x, float y)
{
    float a = __builtin_fabsf(x), b = __builtin_fabsf(y);
    float large = gt__select_f32(a > b, a, b), small = gt__select_f32(a > b, b, a);
    float t = small / large;
    float length = gt__select_f32(large == 0.0f, 0.0f, large * __builtin_sqrtf(GT_FMA_F32(t, t, 1.0f)));
    length = gt__select_f32((x != x) | (y != y), x + y, length);
    return gt__select_f32((a == HUGE_VALF) | (b == HUGE_VALF), HUGE_VALF, length);
}

/* ---- hyperbolic -------------------------------------------------------------------------------------------- */

/* With t = e^(2|x|) - 1: tanh |x| = t / (t + 2), which is 1 in float long before t reaches e^30. */
GT_MATH float gt__tanh_f32(float x)
{
    uint32_t m;
    float a = 2.0f * __builtin_fabsf(x);
    float r = gt__exp_reduce_f32(gt__select_f32(a > 30.0f, 30.0f, a), &m);
    float scale = gt__from_bits_f32((m - 127) << 23);
    float t = GT_FMA_F32(scale, gt__exp_tail_f32(r), scale - 1.0f);
    return __builtin_copysignf(t / (t + 2.0f), x);
}

/* e^a / 2 for a >= 0: half, so that it overflows no earlier than cosh and sinh do. */
GT_MATH float gt__half_exp_f32(float a)
{
    uint32_t m;
    float r = gt__exp_reduce_f32(a, &m);
    float p = gt__exp_tail_f32(r) + 1.0f;
    uint32_t half = (m - 1) >> 1;
    float y = p * gt__from_bits_f32(half << 23) * gt__from_bits_f32((m - 1 - half) << 23);
    return gt__select_f32(a > 90.0f, HUGE_VALF, y);
}

GT_MATH float gt__cosh_f32(float x)
{
    float h = gt__half_exp_f32(__builtin_fabsf(x));
    return h + 0.25f / h;
}

/* Below 1 the difference would cancel, so an odd polynomial is used. */
GT_MATH float gt__sinh_f32(float x)
{
    float a = __builtin_fabsf(x), z = a * a;
    float h = gt__half_exp_f32(a);
    float p = GT_FMA_F32(z, 2.81743951e-06f, 0.000198360663f);
    p = GT_FMA_F32(GT_FMA_F32(p, z, 0.00833335053f), z, 0.166666672f);
    float y = gt__select_f32(a < 1.0f, GT_FMA_F32(p * z, a, a), h - 0.25f / h);
    return __builtin_copysignf(y, x);
}

/* log1p of a + sqrt(a^2 + 1) - 1; for large a the root is a itself. */
GT_MATH float gt__asinh_f32(float x)
{
    float a = __builtin_fabsf(x);
    int far = a > 1e9f;
    float s = a * a;
    float near = a + s / (1.0f + __builtin_sqrtf(1.0f + s));
    float y = gt__log1p_f32(gt__select_f32(far, a, near)) + gt__select_f32(far, 0.693147182f, 0.0f);
    return __builtin_copysignf(y, x);
}

GT_MATH float gt__acosh_f32(float x)
{
    int far = x > 1e9f;
    float t = x - 1.0f;
    float near = t + __builtin_sqrtf(GT_FMA_F32(t, t, 2.0f * t));
    float y = gt__log1p_f32(gt__select_f32(far, x, near)) + gt__select_f32(far, 0.693147182f, 0.0f);
    return gt__select_f32(x < 1.0f, NAN, y);
}

GT_MATH float gt__atanh_f32(float x)
{
    float a = __builtin_fabsf(x);
    float y = 0.5f * gt__log1p_f32(2.0f * a / (1.0f - a));
    return __builtin_copysignf(gt__select_f32(a > 1.0f, NAN, y), x);
}

#endif
