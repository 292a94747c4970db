/*
 * fft_lanes.h: numbers of several lines side by side in one vector of 16 bytes, for fft_library.cc. C++.
 */
#ifndef GT_ENGINES_CPU_FFT_LANES_H
#define GT_ENGINES_CPU_FFT_LANES_H

#include <cstdint>
#include <cstring>

#if defined(__clang__) || __GNUC__ >= 12
#define GT_SHUFFLE(index, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define GT_SHUFFLE(index, a, b, ...) __builtin_shuffle(a, b, index{__VA_ARGS__})
#endif

namespace
{

/* A number of each line. It is all that the library asks of a type of real numbers. The operators are templates so that a
 * product with an integer, of which the library makes angles, is a product of doubles. */
template <typename real> struct lanes {
    enum { count = 16 / sizeof(real) };
    typedef real vector __attribute__((vector_size(16)));
    vector value;

    lanes() = default;
    lanes(double x) : value(vector() + (real)x)
    {
    }
    lanes(vector x) : value(x)
    {
    }
    operator double() const
    {
        return value[0];
    }
    lanes &operator+=(const lanes &other)
    {
        value += other.value;
        return *this;
    }
    lanes &operator-=(const lanes &other)
    {
        value -= other.value;
        return *this;
    }
    lanes &operator*=(const lanes &other)
    {
        value *= other.value;
        return *this;
    }
    lanes operator-() const
    {
        return lanes(-value);
    }
};

template <typename real> lanes<real> operator+(lanes<real> a, const lanes<real> &b)
{
    return a += b;
}

template <typename real> lanes<real> operator-(lanes<real> a, const lanes<real> &b)
{
    return a -= b;
}

template <typename real> lanes<real> operator*(lanes<real> a, const lanes<real> &b)
{
    return a *= b;
}

template <typename real> inline typename lanes<real>::vector load(const real *from)
{
    typename lanes<real>::vector v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

template <typename real> inline void store(real *to, typename lanes<real>::vector v)
{
    std::memcpy(to, &v, sizeof v);
}

/* Lane i of vector j becomes lane j of vector i. */
inline void transpose(lanes<float>::vector *v)
{
    typedef std::int32_t index __attribute__((vector_size(16), unused));
    lanes<float>::vector a = GT_SHUFFLE(index, v[0], v[1], 0, 4, 1, 5),
                         b = GT_SHUFFLE(index, v[2], v[3], 0, 4, 1, 5);
    lanes<float>::vector c = GT_SHUFFLE(index, v[0], v[1], 2, 6, 3, 7),
                         d = GT_SHUFFLE(index, v[2], v[3], 2, 6, 3, 7);
    v[0] = GT_SHUFFLE(index, a, b, 0, 1, 4, 5);
    v[1] = GT_SHUFFLE(index, a, b, 2, 3, 6, 7);
    v[2] = GT_SHUFFLE(index, c, d, 0, 1, 4, 5);
    v[3] = GT_SHUFFLE(index, c, d, 2, 3, 6, 7);
}

inline void transpose(lanes<double>::vector *v)
{
    typedef std::int64_t index __attribute__((vector_size(16), unused));
    lanes<double>::vector a = v[0], b = v[1];
    v[0] = GT_SHUFFLE(index, a, b, 0, 2);
    v[1] = GT_SHUFFLE(index, a, b, 1, 3);
}

/* Pairs of (real, imaginary) in memory to a vector of each, and back. */
inline void split_pairs(lanes<float>::vector a, lanes<float>::vector b, lanes<float>::vector *re,
                        lanes<float>::vector *im)
{
    typedef std::int32_t index __attribute__((vector_size(16), unused));
    *re = GT_SHUFFLE(index, a, b, 0, 2, 4, 6);
    *im = GT_SHUFFLE(index, a, b, 1, 3, 5, 7);
}

inline void split_pairs(lanes<double>::vector a, lanes<double>::vector b, lanes<double>::vector *re,
                        lanes<double>::vector *im)
{
    typedef std::int64_t index __attribute__((vector_size(16), unused));
    *re = GT_SHUFFLE(index, a, b, 0, 2);
    *im = GT_SHUFFLE(index, a, b, 1, 3);
}

inline void join_pairs(lanes<float>::vector re, lanes<float>::vector im, lanes<float>::vector *a,
                       lanes<float>::vector *b)
{
    typedef std::int32_t index __attribute__((vector_size(16), unused));
    *a = GT_SHUFFLE(index, re, im, 0, 4, 1, 5);
    *b = GT_SHUFFLE(index, re, im, 2, 6, 3, 7);
}

inline void join_pairs(lanes<double>::vector re, lanes<double>::vector im, lanes<double>::vector *a,
                       lanes<double>::vector *b)
{
    typedef std::int64_t index __attribute__((vector_size(16), unused));
    *a = GT_SHUFFLE(index, re, im, 0, 2);
    *b = GT_SHUFFLE(index, re, im, 1, 3);
}

/* `numbers` of each line to vectors: to[k] has number k of every line. */
template <typename real>
void gather(const real *const *lines, std::int64_t numbers, typename lanes<real>::vector *to)
{
    const int count = lanes<real>::count;
    std::int64_t k = 0;
    for (; k + count <= numbers; k += count) {
        for (int l = 0; l < count; l++)
            to[k + l] = load(lines[l] + k);
        transpose(to + k);
    }
    for (; k < numbers; k++)
        for (int l = 0; l < count; l++)
            to[k][l] = lines[l][k];
}

/* And back, times scale, to the first `used` lines. */
template <typename real>
void scatter(const typename lanes<real>::vector *from, std::int64_t numbers, real scale, real *const *lines,
             int used)
{
    const int count = lanes<real>::count;
    std::int64_t k = 0;
    for (; k + count <= numbers; k += count) {
        typename lanes<real>::vector v[count];
        for (int l = 0; l < count; l++)
            v[l] = from[k + l] * scale;
        transpose(v);
        for (int l = 0; l < used; l++)
            store(lines[l] + k, v[l]);
    }
    for (; k < numbers; k++)
        for (int l = 0; l < used; l++)
            lines[l][k] = from[k][l] * scale;
}

} // namespace

#endif
