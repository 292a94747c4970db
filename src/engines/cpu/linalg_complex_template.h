/*
 * linalg_complex_template.h: a template: what differs between real and complex matrices, for complex ones. linalg.c includes it
 * for the two complex types, after linalg_template.h. linalg_real_template.h has the same functions.
 */

static T NAME(conjugate)(T x)
{
    return (T)conj(x);
}

static double NAME(absolute)(T x)
{
    return cabs(x);
}

static T NAME(direction)(T x)
{
    double size = cabs(x);
    return size == 0 ? 0 : (T)(x / size);
}

/* ---- planning ----------------------------------------------------------------------------------------------- */

/* Routines for complex numbers want real numbers besides; LAPACK's manual says how many. */
static bool NAME(wish_svd)(linalg *s, const char *job, int rows)
{
    int all = -1, info;
    T told = 0, none = 0;
    R unused = 0;
    size_t least = (size_t)s->k, most = (size_t)(s->m > s->n ? s->m : s->n);
    size_t few = 5 * least * least + 5 * least, many = 2 * most * least + 2 * least * least + least;
    s->reals = *job == 'N' ? 7 * least : few > many ? few : many;
    LAPACK(gesdd)
    (job, &s->n, &s->m, &none, &s->n, &unused, &none, &s->n, &none, &rows, &told, &all, &unused, (int[8]){0},
     &info, 1);
    return NAME(wish)(s, told);
}

static bool NAME(wish_eigh)(linalg *s, const char *job)
{
    int all = -1, info, integers = 0;
    T told = 0, none = 0;
    R unused = 0, reals = 0;
    LAPACK(heevd)
    (job, "U", &s->n, &none, &s->n, &unused, &told, &all, &reals, &all, &integers, &all, &info, 1, 1);
    s->integers = (size_t)integers;
    s->reals = (size_t)((double)reals * (1 + 4 * (double)FLT_EPSILON)) + 1;
    return NAME(wish)(s, told);
}

static bool NAME(plan_eig)(linalg *s)
{
    int all = -1, info, one = 1;
    T told = 0, none = 0;
    R unused = 0;
    bool vectors = s->vectors != GT_VECTORS_NONE;
    s->area[0] = (size_t)s->n * (size_t)s->n;
    s->area[2] = vectors ? s->area[0] : 0;
    s->reals = 2 * (size_t)s->n;
    LAPACK(geev)
    ("N", vectors ? "V" : "N", &s->n, &none, &s->n, &none, &none, &one, &none, &s->n, &told, &all, &unused, &info,
     1, 1);
    return NAME(wish)(s, told);
}

/* ---- LAPACK's routines -------------------------------------------------------------------------------------- */

static void NAME(join_reflections)(const linalg *s, T *q, int c, const T *tau, T *work, int size)
{
    int info;
    LAPACK(ungqr)(&s->m, &c, &s->k, q, &s->m, tau, work, &size, &info);
}

static int NAME(call_svd)(const linalg *s, workspace *w, const char *job, R *values, T *u, int distance)
{
    int info, work = (int)s->work;
    LAPACK(gesdd)
    (job, &s->n, &s->m, w->area[0], &s->n, values, w->area[1], &s->n, u, &distance, w->work, &work, w->reals,
     w->integers, &info, 1);
    return info;
}

static int NAME(call_eigh)(const linalg *s, workspace *w, const char *job, const char *triangle, T *a, R *values)
{
    int info, work = (int)s->work, integers = (int)s->integers, reals = (int)s->reals;
    LAPACK(heevd)
    (job, triangle, &s->n, a, &s->n, values, w->work, &work, w->reals, &reals, w->integers, &integers, &info, 1,
     1);
    return info;
}

static void NAME(call_ldl)(const linalg *s, T *a, int *pivots, T *work, int size)
{
    int info;
    if (s->hermitian)
        LAPACK(hetrf)("L", &s->n, a, &s->n, pivots, work, &size, &info, 1);
    else
        LAPACK(sytrf)("L", &s->n, a, &s->n, pivots, work, &size, &info, 1);
}

static void NAME(call_ldl_solve)(const linalg *s, const T *factors, const int *pivots, T *x)
{
    int info;
    if (s->hermitian)
        LAPACK(hetrs)("L", &s->n, &s->k, factors, &s->n, pivots, x, &s->n, &info, 1);
    else
        LAPACK(sytrs)("L", &s->n, &s->k, factors, &s->n, pivots, x, &s->n, &info, 1);
}

/* out: w, then v in rows. */
static uint64_t NAME(eig)(const linalg *s, workspace *w, const T *a, T *out)
{
    int info, work = (int)s->work, one = 1;
    int64_t n = s->n;
    bool vectors = s->vectors != GT_VECTORS_NONE;
    T unused = 0;
    NAME(move)(a, s->column_stride[0], s->row_stride[0], n, n, w->area[0], n);
    if (!NAME(all_finite)(w->area[0], n * n))
        return failure(NOT_FINITE, 0);
    LAPACK(geev)
    ("N", vectors ? "V" : "N", &s->n, w->area[0], &s->n, out, &unused, &one, w->area[2], &s->n, w->work, &work,
     w->reals, &info, 1, 1);
    if (vectors)
        NAME(move)(w->area[2], 1, n, n, n, out + n, n);
    return info ? failure(NOT_CONVERGED, info) : 0;
}
