/*
 * linalg_template.h: a template: elimination on one matrix. linalg.c includes it for float, double and their complex numbers,
 * with T, R (the type of a number's parts), NAME, LAPACK, CBLAS, ALPHA_ONE and ALPHA_ZERO (factors of CBLAS) and ADJOINT
 * defined. linalg_real_template.h and linalg_complex_template.h go on from here.
 *
 * a (m, n) and b are strided. Each function returns 0 or why there is no result: failure(reason, info).
 */

/* ---- moving ------------------------------------------------------------------------------------------------- */

/* to[r * distance + c] = from[r * row_stride + c * column_stride] */
static void NAME(move)(const T *from, int64_t row_stride, int64_t column_stride, int64_t rows, int64_t columns,
                       T *to, int64_t distance)
{
    enum { BLOCK = 16 }; /* transpose in squares that stay in the cache */
    if (column_stride == 1) {
        for (int64_t r = 0; r < rows; r++)
            memcpy(to + r * distance, from + r * row_stride, (size_t)columns * sizeof(T));
        return;
    }
    for (int64_t r0 = 0; r0 < rows; r0 += BLOCK)
        for (int64_t c0 = 0; c0 < columns; c0 += BLOCK)
            for (int64_t r = r0; r < gt__min(r0 + BLOCK, rows); r++)
                for (int64_t c = c0; c < gt__min(c0 + BLOCK, columns); c++)
                    to[r * distance + c] = from[r * row_stride + c * column_stride];
}

/* Operand a as a row-major matrix, which is its transpose to LAPACK. */
static void NAME(load)(const linalg *s, const T *a, T *to)
{
    NAME(move)(a, s->row_stride[0], s->column_stride[0], s->m, s->n, to, s->n);
}

/* The same by columns, as it is to LAPACK. */
static void NAME(load_columns)(const linalg *s, const T *a, T *to)
{
    NAME(move)(a, s->column_stride[0], s->row_stride[0], s->n, s->m, to, s->m);
}

static bool NAME(all_finite)(const T *a, int64_t count)
{
    bool finite = true;
    const R *parts = (const R *)a;
    for (int64_t k = 0; k < count * (int64_t)(sizeof(T) / sizeof(R)); k++)
        finite &= isfinite(parts[k]) != 0;
    return finite;
}

/* ---- planning ----------------------------------------------------------------------------------------------- */

/* LAPACK returns the size of its workspace as a number of type T: rounded up to be safe. false: too large for an int. */
static bool NAME(wish)(linalg *s, T told)
{
    double elements = (double)told * (1 + 4 * (double)FLT_EPSILON) + 1;
    if (elements > INT32_MAX)
        return false;
    if ((size_t)elements > s->work)
        s->work = (size_t)elements;
    return true;
}

static bool NAME(plan_inverse)(linalg *s)
{
    int all = -1, info, none_pivots = 0;
    T told = 0, none = 0;
    s->integers = (size_t)s->n;
    LAPACK(getri)(&s->n, &none, &s->n, &none_pivots, &told, &all, &info);
    return NAME(wish)(s, told);
}

/* Equations, and the determinant: a, b and pivots. */
static bool NAME(plan_equations)(linalg *s)
{
    s->area[0] = (size_t)s->n * (size_t)s->n;
    s->area[1] = s->op == GT_OP_solve || s->op == GT_OP_ldl_solve ? (size_t)s->n * (size_t)s->k : 0;
    s->integers = (size_t)s->n;
    return true;
}

/* ---- by elimination ----------------------------------------------------------------------------------------- */

/* Transposing changes neither the determinant nor singularity: a^T serves as well as a. */
static uint64_t NAME(inverse)(const linalg *s, workspace *w, const T *a, T *out)
{
    int info, work = (int)s->work;
    NAME(load)(s, a, out);
    LAPACK(getrf)(&s->n, &s->n, out, &s->n, w->integers, &info);
    if (info == 0)
        LAPACK(getri)(&s->n, out, &s->n, w->integers, w->work, &work, &info);
    return info ? failure(SINGULAR, info) : 0;
}

/* LU of a^T, solved for its transpose; b by columns. */
static uint64_t NAME(solve)(const linalg *s, workspace *w, const T *a, const T *b, T *out)
{
    int info;
    T *lu = w->area[0], *x = w->area[1];
    NAME(load)(s, a, lu);
    LAPACK(getrf)(&s->n, &s->n, lu, &s->n, w->integers, &info);
    if (info)
        return failure(SINGULAR_SYSTEM, info);
    NAME(move)(b, s->column_stride[1], s->row_stride[1], s->k, s->n, x, s->n);
    LAPACK(getrs)("T", &s->n, &s->k, lu, &s->n, w->integers, x, &s->n, &info, 1);
    NAME(move)(x, 1, s->n, s->n, s->k, out, s->k);
    return 0;
}

static uint64_t NAME(solve_triangular)(const linalg *s, workspace *w, const T *a, const T *b, T *out)
{
    NAME(load)(s, a, w->area[0]);
    NAME(move)(b, s->row_stride[1], s->column_stride[1], s->n, s->k, out, s->k);
    CBLAS(trsm)
    (CblasRowMajor, CblasLeft, s->upper ? CblasUpper : CblasLower, CblasNoTrans,
     s->unit ? CblasUnit : CblasNonUnit, s->n, s->k, ALPHA_ONE, w->area[0], s->n, out, s->k);
    return 0;
}
