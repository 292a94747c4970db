/*
 * linalg_complex_template.h: a template: linear algebra on one complex matrix. linalg.c includes it for the two complex types,
 * after linalg_template.h, with R, the type of their parts, and REAL, the names of that type's functions, defined.
 */

static bool NAME(plan_eig)(linalg *s)
{
    int all = -1, info, one = 1;
    T told = 0, none = 0;
    R unused = 0;
    bool vectors = s->vectors != GT_VECTORS_NONE;
    s->area[0] = (size_t)s->n * (size_t)s->n;
    s->area[1] = (size_t)s->n; /* 2 n real numbers */
    s->area[2] = vectors ? s->area[0] : 0;
    LAPACK(geev)
    ("N", vectors ? "V" : "N", &s->n, &none, &s->n, &none, &none, &one, &none, &s->n, &told, &all, &unused, &info,
     1, 1);
    return NAME(wish)(s, told);
}

static bool NAME(plan)(linalg *s)
{
    if (s->n == 0)
        return true;
    return s->op == GT_OP_eig       ? NAME(plan_eig)(s)
           : s->op == GT_OP_inverse ? NAME(plan_inverse)(s)
                                    : NAME(plan_equations)(s);
}

/* out: w, then v in rows. */
static uint64_t NAME(eig)(const linalg *s, workspace *w, const T *a, T *out)
{
    int info, work = (int)s->work, one = 1;
    int64_t n = s->n;
    bool vectors = s->vectors != GT_VECTORS_NONE;
    T unused = 0;
    NAME(move)(a, s->column_stride[0], s->row_stride[0], n, n, w->area[0], n);
    if (!REAL(all_finite)(w->area[0], 2 * n * n))
        return failure(NOT_FINITE, 0);
    LAPACK(geev)
    ("N", vectors ? "V" : "N", &s->n, w->area[0], &s->n, out, &unused, &one, w->area[2], &s->n, w->work, &work,
     w->area[1], &info, 1, 1);
    if (vectors)
        NAME(move)(w->area[2], 1, n, n, n, out + n, n);
    return info ? failure(NOT_CONVERGED, info) : 0;
}

static uint64_t NAME(run)(const linalg *s, workspace *w, const T *a, const T *b, T *out)
{
    if (s->n == 0)
        return 0; /* the result has no elements */
    switch (s->op) {
    case GT_OP_eig:
        return NAME(eig)(s, w, a, out);
    case GT_OP_inverse:
        return NAME(inverse)(s, w, a, out);
    case GT_OP_solve:
        return NAME(solve)(s, w, a, b, out);
    default:
        return NAME(solve_triangular)(s, w, a, b, out);
    }
}

#undef T
#undef R
#undef NAME
#undef REAL
#undef LAPACK
#undef CBLAS
#undef ALPHA_ONE
