/*
 * linalg_real_template.h: a template: what differs between real and complex matrices, for real ones. linalg.c includes it for
 * float and for double, after linalg_template.h; linalg_decompose_template.h goes on from here.
 */

static T NAME(conjugate)(T x)
{
    return x;
}

static double NAME(absolute)(T x)
{
    return fabs((double)x);
}

/* x / |x|: the sign. */
static T NAME(direction)(T x)
{
    return x < 0 ? -1 : 1;
}

/* ---- planning ----------------------------------------------------------------------------------------------- */

static bool NAME(wish_svd)(linalg *s, const char *job, int rows)
{
    int all = -1, info;
    T told = 0, none = 0;
    LAPACK(gesdd)
    (job, &s->n, &s->m, &none, &s->n, &none, &none, &s->n, &none, &rows, &told, &all, (int[8]){0}, &info, 1);
    return NAME(wish)(s, told);
}

static bool NAME(wish_eigh)(linalg *s, const char *job)
{
    int all = -1, info, integers = 0;
    T told = 0, none = 0;
    LAPACK(syevd)
    (job, "U", &s->n, &none, &s->n, &none, &told, &all, &integers, &all, &info, 1, 1);
    s->integers = (size_t)integers;
    return NAME(wish)(s, told);
}

static bool NAME(plan_eig)(linalg *s)
{
    int all = -1, info, one = 1;
    T told = 0, none = 0;
    bool vectors = s->vectors != GT_VECTORS_NONE;
    s->area[0] = (size_t)s->n * (size_t)s->n;
    s->area[1] = 2 * (size_t)s->n;
    s->area[2] = vectors ? s->area[0] : 0;
    LAPACK(geev)
    ("N", vectors ? "V" : "N", &s->n, &none, &s->n, &none, &none, &none, &one, &none, &s->n, &told, &all, &info, 1,
     1);
    return NAME(wish)(s, told);
}

/* ---- LAPACK's routines -------------------------------------------------------------------------------------- */

/* The first c columns of the matrix of k reflections; c > n is allowed. work: its size, or -1 to ask for it. */
static void NAME(join_reflections)(const linalg *s, T *q, int c, const T *tau, T *work, int size)
{
    int info;
    LAPACK(orgqr)(&s->m, &c, &s->k, q, &s->m, tau, work, &size, &info);
}

/* To LAPACK the matrix in area[0] is a^T (n, m), so its left vectors are our vh^T (n, .), in area[1], and its right ones u^T. */
static int NAME(call_svd)(const linalg *s, workspace *w, const char *job, R *values, T *u, int distance)
{
    int info, work = (int)s->work;
    LAPACK(gesdd)
    (job, &s->n, &s->m, w->area[0], &s->n, values, w->area[1], &s->n, u, &distance, w->work, &work, w->integers,
     &info, 1);
    return info;
}

static int NAME(call_eigh)(const linalg *s, workspace *w, const char *job, const char *triangle, T *a, R *values)
{
    int info, work = (int)s->work, integers = (int)s->integers;
    LAPACK(syevd)
    (job, triangle, &s->n, a, &s->n, values, w->work, &work, w->integers, &integers, &info, 1, 1);
    return info;
}

/* a by columns becomes L and D. size: of work, or -1 to ask for it. */
static void NAME(call_ldl)(const linalg *s, T *a, int *pivots, T *work, int size)
{
    int info;
    LAPACK(sytrf)("L", &s->n, a, &s->n, pivots, work, &size, &info, 1);
}

static void NAME(call_ldl_solve)(const linalg *s, const T *factors, const int *pivots, T *x)
{
    int info;
    LAPACK(sytrs)("L", &s->n, &s->k, factors, &s->n, pivots, x, &s->n, &info, 1);
}

/* out, pairs of T: w, then v in rows. Vectors of a conjugate pair of values are the sum and the difference of two columns. */
static uint64_t NAME(eig)(const linalg *s, workspace *w, const T *a, T *out)
{
    int info, work = (int)s->work, one = 1;
    int64_t n = s->n;
    bool vectors = s->vectors != GT_VECTORS_NONE;
    T *copy = w->area[0], *real = w->area[1], *imaginary = real + n, *v = w->area[2], unused = 0;
    NAME(move)(a, s->column_stride[0], s->row_stride[0], n, n, copy, n);
    if (!NAME(all_finite)(copy, n * n))
        return failure(NOT_FINITE, 0);
    LAPACK(geev)
    ("N", vectors ? "V" : "N", &s->n, copy, &s->n, real, imaginary, &unused, &one, v, &s->n, w->work, &work, &info,
     1, 1);
    for (int64_t j = 0; j < n; j++) {
        out[2 * j] = real[j];
        out[2 * j + 1] = imaginary[j];
        /* Of a pair, the value with the positive imaginary part comes first. */
        int64_t first = imaginary[j] < 0 ? j - 1 : j;
        T sign = imaginary[j] > 0 ? 1 : imaginary[j] < 0 ? -1 : 0;
        for (int64_t i = 0; vectors && i < n; i++) {
            T *to = out + 2 * (n + i * n + j);
            to[0] = v[first * n + i];
            to[1] = sign != 0 ? sign * v[(first + 1) * n + i] : 0;
        }
    }
    return info ? failure(NOT_CONVERGED, info) : 0;
}
