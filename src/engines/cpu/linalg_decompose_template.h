/*
 * linalg_decompose_template.h: a template: the rest of linear algebra on one matrix, real or complex. linalg.c includes it after
 * linalg_template.h and linalg_real_template.h or linalg_complex_template.h.
 *
 * plan says how much workspace one matrix needs; run does the work: a (m, n) and b are strided, out is packed as
 * core/linalg.h has it. Each function returns 0 or why there is no result: failure(reason, info).
 */

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

static const char *NAME(eigh_job)(const linalg *s)
{
    return s->vectors == GT_VECTORS_NONE ? "N" : "V";
}

/* area[1]: vh^T (n, .), then the singular values, which are real. */
static bool NAME(plan_svd)(linalg *s)
{
    bool full = s->op == GT_OP_svd && s->vectors == GT_VECTORS_FULL;
    int columns = full ? s->n : s->k, rows = full ? s->m : s->k;
    s->area[0] = (size_t)s->m * (size_t)s->n;
    s->area[1] = (size_t)s->n * (size_t)columns + (size_t)s->k;
    s->area[2] = (size_t)rows * (size_t)s->m;
    s->integers = 8 * (size_t)s->k;
    return NAME(wish_svd)(s, NAME(svd_job)(s), rows);
}

static bool NAME(plan_eigh)(linalg *s)
{
    s->area[0] = (size_t)s->n * (size_t)s->n;
    s->area[1] = (size_t)s->n;
    return NAME(wish_eigh)(s, NAME(eigh_job)(s));
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
    if (s->op == GT_OP_geqrf)
        return true;
    NAME(join_reflections)(s, &none, columns, &none, &told, all);
    return NAME(wish)(s, told);
}

static bool NAME(plan_ldl)(linalg *s)
{
    int no_pivots = 0;
    T told = 0, none = 0;
    s->area[0] = (size_t)s->n * (size_t)s->n;
    s->integers = (size_t)s->n;
    NAME(call_ldl)(s, &none, &no_pivots, &told, -1);
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
    case GT_OP_geqrf:
        return NAME(plan_qr)(s);
    case GT_OP_inverse:
        return NAME(plan_inverse)(s);
    case GT_OP_cholesky:
        return true;
    case GT_OP_lu:
        s->area[0] = (size_t)s->m * (size_t)s->n;
        s->integers = (size_t)s->k;
        return true;
    case GT_OP_ldl:
        return NAME(plan_ldl)(s);
    case GT_OP_eig:
        return NAME(plan_eig)(s);
    default: /* determinants and equations */
        return NAME(plan_equations)(s);
    }
}

/* ---- by elimination ----------------------------------------------------------------------------------------- */

/* det / |det| and the logarithm of |det|, from the LU factors and pivots. */
static T NAME(lu_sign)(const T *lu, const int *pivots, int n, double *logarithm)
{
    T sign = 1;
    *logarithm = 0;
    for (int64_t k = 0; k < n; k++) {
        T pivot = lu[k * n + k];
        sign *= NAME(direction)(pivots[k] != k + 1 ? -pivot : pivot);
        *logarithm += log(NAME(absolute)(pivot));
    }
    return isinf(*logarithm) && *logarithm < 0 ? 0 : sign;
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

/* a's lower triangle is a^T's upper one, and U with a^T = U^H U is L^T: L in rows. */
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
    NAME(load_columns)(s, a, lu);
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

/* out (n + 1, n): the lower triangle of the factors, then the pivots. A singular D is no failure. */
static uint64_t NAME(ldl)(const linalg *s, workspace *w, const T *a, T *out)
{
    int64_t n = s->n;
    T *factors = w->area[0];
    NAME(load_columns)(s, a, factors);
    NAME(call_ldl)(s, factors, w->integers, w->work, (int)s->work);
    NAME(move)(factors, 1, n, n, n, out, n);
    for (int64_t row = 0; row < n; row++) {
        memset(out + row * n + row + 1, 0, (size_t)(n - row - 1) * sizeof(T));
        out[n * n + row] = (T)w->integers[row];
    }
    return 0;
}

/* a: what ldl returns. */
static uint64_t NAME(ldl_solve)(const linalg *s, workspace *w, const T *a, const T *b, T *out)
{
    T *factors = w->area[0], *x = w->area[1];
    for (int64_t k = 0; k < s->n; k++) {
        double pivot = (double)a[s->n * s->row_stride[0] + k * s->column_stride[0]];
        w->integers[k] = pivot >= 1 && pivot <= s->n ? (int)pivot : pivot <= -1 && pivot >= -s->n ? (int)pivot : 0;
        if (w->integers[k] == 0)
            return failure(BAD_PIVOT, (int)k + 1);
    }
    NAME(load_columns)(s, a, factors);
    NAME(move)(b, s->column_stride[1], s->row_stride[1], s->k, s->n, x, s->n);
    NAME(call_ldl_solve)(s, factors, w->integers, x);
    NAME(move)(x, 1, s->n, s->n, s->k, out, s->k);
    return 0;
}

/* ---- decompositions ----------------------------------------------------------------------------------------- */

/* out (m + 1, n): r, and the reflections below its diagonal; then their factors. */
static uint64_t NAME(geqrf)(const linalg *s, workspace *w, const T *a, T *out)
{
    int info, work = (int)s->work;
    T *q = w->area[0], *tau = out + (int64_t)s->m * s->n;
    NAME(load_columns)(s, a, q);
    LAPACK(geqrf)(&s->m, &s->n, q, &s->m, w->area[1], w->work, &work, &info);
    NAME(move)(q, 1, s->m, s->m, s->n, out, s->n);
    memset(tau, 0, (size_t)s->n * sizeof(T));
    memcpy(tau, w->area[1], (size_t)s->k * sizeof(T));
    return 0;
}

/* out: q (m, c) in rows, then r^T (n, c), which is r by columns. */
static uint64_t NAME(qr)(const linalg *s, workspace *w, const T *a, T *out)
{
    int info, work = (int)s->work, c = s->columns;
    T *q = w->area[0], *tau = w->area[1], *r = out + (int64_t)s->m * c;
    NAME(load_columns)(s, a, q);
    LAPACK(geqrf)(&s->m, &s->n, q, &s->m, tau, w->work, &work, &info);
    for (int64_t column = 0; column < s->n; column++) {
        int64_t height = gt__min(column + 1, s->k);
        memcpy(r + column * c, q + column * s->m, (size_t)height * sizeof(T));
        memset(r + column * c + height, 0, (size_t)(c - height) * sizeof(T));
    }
    NAME(join_reflections)(s, q, c, tau, w->work, work);
    NAME(move)(q, 1, s->m, s->m, c, out, c);
    return 0;
}

/* vh^T (n, .) by columns in area[1]; u^T by columns to `u`, which are u's rows, `distance` apart. */
static uint64_t NAME(decompose)(const linalg *s, workspace *w, const T *a, R *values, T *u, int distance)
{
    NAME(load)(s, a, w->area[0]);
    if (!NAME(all_finite)(w->area[0], (int64_t)s->m * s->n))
        return failure(NOT_FINITE, 0);
    int info = NAME(call_svd)(s, w, NAME(svd_job)(s), values, u, distance);
    return info ? failure(NOT_CONVERGED, info) : 0;
}

static void NAME(put_reals)(const R *values, int64_t count, T *out)
{
    for (int64_t k = 0; k < count; k++)
        out[k] = values[k];
}

static uint64_t NAME(svd)(const linalg *s, workspace *w, const T *a, T *out)
{
    bool full = s->vectors == GT_VECTORS_FULL, none = s->vectors == GT_VECTORS_NONE;
    int64_t c = s->columns, columns = full ? s->n : s->k;
    T *v = w->area[1];
    R *values = (R *)(v + s->n * columns);
    if (c > s->k) /* full: zero the columns that u or v does not have */
        memset(out, 0, (size_t)s->result * sizeof(T));
    uint64_t failed = NAME(decompose)(s, w, a, values, none ? w->area[2] : out, none ? s->k : (int)c);
    NAME(put_reals)(values, s->k, none ? out : out + s->m * c);
    if (!none)
        NAME(move)(v, 1, s->n, s->n, columns, out + (s->m + 1) * c, c);
    return failed;
}

static uint64_t NAME(eigh)(const linalg *s, workspace *w, const T *a, T *out)
{
    int64_t n = s->n;
    T *v = w->area[0], *vectors = out + n;
    R *values = w->area[1];
    NAME(load)(s, a, v);
    if (!NAME(all_finite)(v, n * n))
        return failure(NOT_FINITE, 0);
    /* a's lower triangle is the transpose's upper one; the transpose has the conjugates of a's vectors. */
    int info = NAME(call_eigh)(s, w, NAME(eigh_job)(s), s->upper ? "L" : "U", v, values);
    NAME(put_reals)(values, n, out);
    if (s->vectors != GT_VECTORS_NONE) {
        NAME(move)(v, 1, n, n, n, vectors, n);
        for (int64_t k = 0; sizeof(T) > sizeof(R) && k < n * n; k++)
            vectors[k] = NAME(conjugate)(vectors[k]);
    }
    return info ? failure(NOT_CONVERGED, info) : 0;
}

/* pinv = v diag(1 / s) u^H, in rows: by columns it is conj(u) diag(1 / s) v^T, and v^T is conj(vh^T)^T. */
static uint64_t NAME(pinv)(const linalg *s, workspace *w, const T *a, T *out)
{
    T *v = w->area[1], *u = w->area[2];
    R *values = (R *)(v + (int64_t)s->n * s->k);
    uint64_t failed = NAME(decompose)(s, w, a, values, u, s->k);
    if (failed)
        return failed;
    const gt_imm *tolerance = s->call->ins->imm;
    double cutoff = gt__pinv_cutoff(tolerance[0].f, tolerance[1].f, (double)values[0], s->m, s->n,
                                    sizeof(R) == sizeof(double) ? GT_FLOAT64 : GT_FLOAT32);
    for (int64_t j = 0; j < s->k; j++) {
        R scale = (double)values[j] > cutoff ? 1 / values[j] : 0;
        for (int64_t i = 0; i < s->n; i++)
            v[j * s->n + i] = NAME(conjugate)(v[j * s->n + i]) * scale;
    }
    CBLAS(gemm)
    (CblasColMajor, ADJOINT, CblasTrans, s->m, s->n, s->k, ALPHA_ONE, u, s->k, v, s->n, ALPHA_ZERO, out, s->m);
    return 0;
}

/* The determinant of a unitary matrix; it is destroyed. */
static T NAME(orientation)(T *q, int n, int *pivots)
{
    int info;
    double logarithm;
    LAPACK(getrf)(&n, &n, q, &n, pivots, &info);
    return NAME(lu_sign)(q, pivots, n, &logarithm);
}

/* det(u vh) conj(u diag(the product of the other singular values) vh): also right for singular matrices. */
static uint64_t NAME(cofactor)(const linalg *s, workspace *w, const T *a, T *out)
{
    int64_t n = s->n;
    T *v = w->area[1], *u = w->area[2], *others = w->work;
    R *values = (R *)(v + n * n);
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
        others[j] = NAME(conjugate)(sign);
        for (int64_t k = 0; k < n; k++)
            others[j] *= k == j ? 1 : values[k];
    }
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            v[j * n + i] *= others[j];
    CBLAS(gemm)
    (CblasColMajor, CblasNoTrans, CblasNoTrans, s->n, s->n, s->n, ALPHA_ONE, v, s->n, u, s->n, ALPHA_ZERO, out,
     s->n);
    for (int64_t k = 0; sizeof(T) > sizeof(R) && k < n * n; k++)
        out[k] = NAME(conjugate)(out[k]);
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
    case GT_OP_ldl:
        return NAME(ldl)(s, w, a, out);
    case GT_OP_geqrf:
        return NAME(geqrf)(s, w, a, out);
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
    case GT_OP_ldl_solve:
        return NAME(ldl_solve)(s, w, a, b, out);
    default:
        return NAME(determinant)(s, w, a, out);
    }
}

#undef T
#undef R
#undef NAME
#undef LAPACK
#undef CBLAS
#undef ALPHA_ONE
#undef ALPHA_ZERO
#undef ADJOINT
