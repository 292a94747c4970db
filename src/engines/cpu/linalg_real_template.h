/*
 * linalg_real_template.h: a template: linear algebra on one real matrix. linalg.c includes it for float and for double, after
 * linalg_template.h.
 *
 * plan says how much workspace one matrix needs; run does the work: a (m, n) and b are strided, out is packed as
 * core/linalg.h has it. Each function returns 0 or why there is no result: failure(reason, info).
 */

static bool NAME(all_finite)(const T *a, int64_t count)
{
    bool finite = true;
    for (int64_t k = 0; k < count; k++)
        finite &= isfinite(a[k]) != 0;
    return finite;
}

static void NAME(identity)(T *to, int64_t n, int64_t distance)
{
    for (int64_t k = 0; k < n; k++)
        to[k * distance + k] = 1;
}

/* ---- planning ----------------------------------------------------------------------------------------------- */

static const char *NAME(svd_job)(const linalg *s)
{
    return s->op != GT_OP_svd || s->vectors == GT_VECTORS_REDUCED ? "S"
           : s->vectors == GT_VECTORS_FULL                        ? "A"
                                                                  : "N";
}

/* To LAPACK the matrix is a^T (n, m), so its left vectors are our v (n, .), and its right ones our u^T (., m). */
static bool NAME(plan_svd)(linalg *s)
{
    bool full = s->op == GT_OP_svd && s->vectors == GT_VECTORS_FULL;
    int columns = full ? s->n : s->k, rows = full ? s->m : s->k, all = -1, info;
    T told = 0, none = 0;
    s->area[0] = (size_t)s->m * (size_t)s->n;
    s->area[1] = (size_t)s->n * (size_t)columns + (size_t)s->k;
    s->area[2] = (size_t)rows * (size_t)s->m;
    s->integers = 8 * (size_t)s->k;
    LAPACK(gesdd)
    (NAME(svd_job)(s), &s->n, &s->m, &none, &s->n, &none, &none, &s->n, &none, &rows, &told, &all, (int[8]){0},
     &info, 1);
    return NAME(wish)(s, told);
}

static bool NAME(plan_eigh)(linalg *s)
{
    int all = -1, info, integers = 0;
    T told = 0, none = 0;
    s->area[0] = (size_t)s->n * (size_t)s->n;
    s->area[1] = (size_t)s->n;
    LAPACK(syevd)
    (s->vectors == GT_VECTORS_NONE ? "N" : "V", "U", &s->n, &none, &s->n, &none, &told, &all, &integers, &all,
     &info, 1, 1);
    s->integers = (size_t)integers;
    return NAME(wish)(s, told);
}

static bool NAME(plan_qr)(linalg *s)
{
    int all = -1, info, columns = s->columns;
    T told = 0, none = 0;
    s->area[0] = (size_t)s->m * (size_t)(s->n > columns ? s->n : columns);
    s->area[1] = (size_t)s->k;
    LAPACK(geqrf)(&s->m, &s->n, &none, &s->m, &none, &told, &all, &info);
    if (!NAME(wish)(s, told))
        return false;
    LAPACK(orgqr)(&s->m, &columns, &s->k, &none, &s->m, &none, &told, &all, &info);
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

static bool NAME(plan)(linalg *s)
{
    if (s->m == 0 || s->n == 0)
        return true;
    switch (s->op) {
    case GT_OP_svd:
    case GT_OP_pinv:
    case GT_OP_cofactor:
        return NAME(plan_svd)(s);
    case GT_OP_eigh:
        return NAME(plan_eigh)(s);
    case GT_OP_qr:
        return NAME(plan_qr)(s);
    case GT_OP_inverse:
        return NAME(plan_inverse)(s);
    case GT_OP_cholesky:
        return true;
    case GT_OP_lu:
        s->area[0] = (size_t)s->m * (size_t)s->n;
        s->integers = (size_t)s->k;
        return true;
    case GT_OP_eig:
        return NAME(plan_eig)(s);
    default: /* determinants and equations */
        return NAME(plan_equations)(s);
    }
}

/* ---- by elimination ----------------------------------------------------------------------------------------- */

/* The sign and the logarithm of |det|, from the LU factors and pivots. */
static T NAME(lu_sign)(const T *lu, const int *pivots, int n, double *logarithm)
{
    bool negative = false;
    *logarithm = 0;
    for (int64_t k = 0; k < n; k++) {
        T pivot = lu[k * n + k];
        negative ^= (pivots[k] != k + 1) ^ (pivot < 0);
        *logarithm += log(fabs((double)pivot));
    }
    return isinf(*logarithm) && *logarithm < 0 ? 0 : negative ? -1 : 1;
}

static uint64_t NAME(determinant)(const linalg *s, workspace *w, const T *a, T *out)
{
    int info;
    T *lu = w->area[0];
    NAME(load)(s, a, lu);
    LAPACK(getrf)(&s->n, &s->n, lu, &s->n, w->integers, &info);
    if (s->op == GT_OP_slogdet) {
        double logarithm;
        out[0] = NAME(lu_sign)(lu, w->integers, s->n, &logarithm);
        out[1] = (T)logarithm;
        return 0;
    }
    T product = 1;
    for (int64_t k = 0; k < s->n; k++)
        product *= w->integers[k] != k + 1 ? -lu[k * s->n + k] : lu[k * s->n + k];
    out[0] = product;
    return 0;
}

/* a's lower triangle is a^T's upper one, and U with a = U^T U is L^T: L in rows. */
static uint64_t NAME(cholesky)(const linalg *s, const T *a, T *out)
{
    int info;
    NAME(load)(s, a, out);
    LAPACK(potrf)("U", &s->n, out, &s->n, &info, 1);
    for (int64_t row = 0; row < s->n; row++)
        memset(out + row * s->n + row + 1, 0, (size_t)(s->n - row - 1) * sizeof(T));
    if (info > 0 && s->call->ins->imm[0].i) {
        out[(int64_t)(info - 1) * (s->n + 1)] = (T)NAN;
        return 0;
    }
    return info ? failure(NOT_POSITIVE, info) : 0;
}

/* out (m + 1, n + 1): the factors, then the pivots in the last row and the order of rows in the last column. */
static uint64_t NAME(lu)(const linalg *s, workspace *w, const T *a, T *out)
{
    int info;
    int64_t width = s->n + 1;
    T *lu = w->area[0], *pivots = out + (int64_t)s->m * width;
    NAME(move)(a, s->column_stride[0], s->row_stride[0], s->n, s->m, lu, s->m);
    LAPACK(getrf)(&s->m, &s->n, lu, &s->m, w->integers, &info);
    NAME(move)(lu, 1, s->m, s->m, s->n, out, width);
    for (int64_t row = 0; row < s->m; row++)
        out[row * width + s->n] = (T)row;
    memset(pivots, 0, (size_t)width * sizeof(T));
    for (int64_t k = 0; k < s->k; k++) {
        T *one = out + k * width + s->n, *other = out + (int64_t)(w->integers[k] - 1) * width + s->n, kept = *one;
        *one = *other;
        *other = kept;
        pivots[k] = (T)w->integers[k];
    }
    return info > 0 && s->call->ins->imm[0].i ? failure(SINGULAR_FACTOR, info) : 0;
}

/* ---- decompositions ----------------------------------------------------------------------------------------- */

/* out: q (m, c) in rows, then r^T (n, c), which is r by columns. */
static uint64_t NAME(qr)(const linalg *s, workspace *w, const T *a, T *out)
{
    int info, work = (int)s->work, c = s->columns;
    T *q = w->area[0], *tau = w->area[1], *r = out + (int64_t)s->m * c;
    NAME(move)(a, s->column_stride[0], s->row_stride[0], s->n, s->m, q, s->m);
    LAPACK(geqrf)(&s->m, &s->n, q, &s->m, tau, w->work, &work, &info);
    for (int64_t column = 0; column < s->n; column++) {
        int64_t height = gt__min(column + 1, s->k);
        memcpy(r + column * c, q + column * s->m, (size_t)height * sizeof(T));
        memset(r + column * c + height, 0, (size_t)(c - height) * sizeof(T));
    }
    LAPACK(orgqr)(&s->m, &c, &s->k, q, &s->m, tau, w->work, &work, &info);
    NAME(move)(q, 1, s->m, s->m, c, out, c);
    return 0;
}

/* v (n, .) by columns in area[1], then s; u^T by columns to `u`, which are u's rows, `distance` apart. */
static uint64_t NAME(decompose)(const linalg *s, workspace *w, const T *a, T *values, T *u, int distance)
{
    int info, work = (int)s->work;
    NAME(load)(s, a, w->area[0]);
    if (!NAME(all_finite)(w->area[0], (int64_t)s->m * s->n))
        return failure(NOT_FINITE, 0);
    LAPACK(gesdd)
    (NAME(svd_job)(s), &s->n, &s->m, w->area[0], &s->n, values, w->area[1], &s->n, u, &distance, w->work, &work,
     w->integers, &info, 1);
    return info ? failure(NOT_CONVERGED, info) : 0;
}

static uint64_t NAME(svd)(const linalg *s, workspace *w, const T *a, T *out)
{
    int64_t c = s->columns, columns = s->vectors == GT_VECTORS_FULL ? s->n : s->k;
    if (s->vectors == GT_VECTORS_NONE)
        return NAME(decompose)(s, w, a, out, w->area[2], s->k);
    T *values = out + s->m * c, *v = values + c;
    if (c > s->k) /* full: zero the columns that u or v does not have */
        memset(out, 0, (size_t)s->result * sizeof(T));
    uint64_t failed = NAME(decompose)(s, w, a, values, out, (int)c);
    NAME(move)(w->area[1], 1, s->n, s->n, columns, v, c);
    return failed;
}

static uint64_t NAME(eigh)(const linalg *s, workspace *w, const T *a, T *out)
{
    int info, work = (int)s->work, integers = (int)s->integers;
    T *v = w->area[0];
    NAME(load)(s, a, v);
    if (!NAME(all_finite)(v, (int64_t)s->n * s->n))
        return failure(NOT_FINITE, 0);
    /* a's lower triangle is the transpose's upper one. */
    LAPACK(syevd)
    (s->vectors == GT_VECTORS_NONE ? "N" : "V", s->upper ? "L" : "U", &s->n, v, &s->n, out, w->work, &work,
     w->integers, &integers, &info, 1, 1);
    if (s->vectors != GT_VECTORS_NONE)
        NAME(move)(v, 1, s->n, s->n, s->n, out + s->n, s->n);
    return info ? failure(NOT_CONVERGED, info) : 0;
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

/* v diag(1 / s) u^T in rows is u diag(1 / s) v^T by columns. */
static uint64_t NAME(pinv)(const linalg *s, workspace *w, const T *a, T *out)
{
    T *v = w->area[1], *values = v + (int64_t)s->n * s->k;
    uint64_t failed = NAME(decompose)(s, w, a, values, w->area[2], s->k);
    if (failed)
        return failed;
    const gt_imm *tolerance = s->call->ins->imm;
    double cutoff = gt__pinv_cutoff(tolerance[0].f, tolerance[1].f, (double)values[0], s->m, s->n,
                                    sizeof(T) == sizeof(double) ? GT_FLOAT64 : GT_FLOAT32);
    for (int64_t j = 0; j < s->k; j++) {
        T scale = (double)values[j] > cutoff ? 1 / values[j] : 0;
        for (int64_t i = 0; i < s->n; i++)
            v[j * s->n + i] *= scale;
    }
    CBLAS(gemm)
    (CblasColMajor, CblasTrans, CblasTrans, s->m, s->n, s->k, 1, w->area[2], s->k, v, s->n, 0, out, s->m);
    return 0;
}

/* The determinant, 1 or -1, of an orthogonal matrix; it is destroyed. */
static T NAME(orientation)(T *q, int n, int *pivots)
{
    int info;
    double logarithm;
    LAPACK(getrf)(&n, &n, q, &n, pivots, &info);
    return NAME(lu_sign)(q, pivots, n, &logarithm);
}

/* det(u) det(v) u diag(the product of the other singular values) v^T: also right for singular matrices. */
static uint64_t NAME(cofactor)(const linalg *s, workspace *w, const T *a, T *out)
{
    int64_t n = s->n;
    T *v = w->area[1], *values = v + n * n, *u = w->area[2], *others = w->work;
    uint64_t failed = NAME(decompose)(s, w, a, values, u, s->n);
    if (failed) {
        for (int64_t k = 0; k < n * n; k++)
            out[k] = (T)NAN;
        return 0;
    }
    memcpy(w->area[0], u, (size_t)(n * n) * sizeof(T));
    T sign = NAME(orientation)(w->area[0], s->n, w->integers);
    memcpy(w->area[0], v, (size_t)(n * n) * sizeof(T));
    sign *= NAME(orientation)(w->area[0], s->n, w->integers);
    for (int64_t j = 0; j < n; j++) {
        others[j] = sign;
        for (int64_t k = 0; k < n; k++)
            others[j] *= k == j ? 1 : values[k];
    }
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            v[j * n + i] *= others[j];
    CBLAS(gemm)(CblasColMajor, CblasNoTrans, CblasNoTrans, s->n, s->n, s->n, 1, v, s->n, u, s->n, 0, out, s->n);
    return 0;
}

/* ---- the choice --------------------------------------------------------------------------------------------- */

/* Matrices without rows or columns: determinants are 1, orthogonal factors the identity. */
static uint64_t NAME(run_empty)(const linalg *s, T *out)
{
    memset(out, 0, (size_t)s->result * sizeof(T));
    if (s->op == GT_OP_det || s->op == GT_OP_slogdet)
        out[0] = 1;
    if (s->op == GT_OP_lu)
        for (int64_t row = 0; row < s->m; row++)
            out[row * (s->n + 1) + s->n] = (T)row;
    if (s->op == GT_OP_qr || s->op == GT_OP_svd)
        NAME(identity)(out, s->m, s->columns);
    if (s->op == GT_OP_svd)
        NAME(identity)(out + (int64_t)(s->m + 1) * s->columns, s->n, s->columns);
    return 0;
}

static uint64_t NAME(run)(const linalg *s, workspace *w, const T *a, const T *b, T *out)
{
    if (s->m == 0 || s->n == 0)
        return NAME(run_empty)(s, out);
    switch (s->op) {
    case GT_OP_inverse:
        return NAME(inverse)(s, w, a, out);
    case GT_OP_pinv:
        return NAME(pinv)(s, w, a, out);
    case GT_OP_cofactor:
        return NAME(cofactor)(s, w, a, out);
    case GT_OP_cholesky:
        return NAME(cholesky)(s, a, out);
    case GT_OP_lu:
        return NAME(lu)(s, w, a, out);
    case GT_OP_qr:
        return NAME(qr)(s, w, a, out);
    case GT_OP_svd:
        return NAME(svd)(s, w, a, out);
    case GT_OP_eigh:
        return NAME(eigh)(s, w, a, out);
    case GT_OP_eig:
        return NAME(eig)(s, w, a, out);
    case GT_OP_solve:
        return NAME(solve)(s, w, a, b, out);
    case GT_OP_solve_triangular:
        return NAME(solve_triangular)(s, w, a, b, out);
    default:
        return NAME(determinant)(s, w, a, out);
    }
}

#undef T
#undef NAME
#undef LAPACK
#undef CBLAS
#undef ALPHA_ONE
