/*
 * lapack.h: the LAPACK routines that linalg.c calls, by their Fortran names: OpenBLAS exports those everywhere, and its
 * C wrappers and headers only on some systems. Arguments are pointers; the lengths of character arguments follow at the
 * end of the list. Matrices are column-major, each followed by the distance between its columns. info: 0, or the error.
 */
#ifndef GT_ENGINES_CPU_LAPACK_H
#define GT_ENGINES_CPU_LAPACK_H

#include <stddef.h>

/* Of all types. */
#define LAPACK_ROUTINES(p, T)                                                                                     \
    /* LU with pivots, the inverse and the solution from it. */                                                   \
    void p##getrf_(const int *m, const int *n, T *a, const int *lda, int *pivots, int *info);                     \
    void p##getri_(const int *n, T *a, const int *lda, const int *pivots, T *work, const int *lwork, int *info);  \
    void p##getrs_(const char *trans, const int *n, const int *nrhs, const T *a, const int *lda,                  \
                   const int *pivots, T *b, const int *ldb, int *info, size_t);                                   \
    /* Cholesky. */                                                                                               \
    void p##potrf_(const char *uplo, const int *n, T *a, const int *lda, int *info, size_t);                      \
    /* L D L^T of symmetric matrices, and the solution from it. */                                                \
    void p##sytrf_(const char *uplo, const int *n, T *a, const int *lda, int *pivots, T *work, const int *lwork,  \
                   int *info, size_t);                                                                            \
    void p##sytrs_(const char *uplo, const int *n, const int *nrhs, const T *a, const int *lda,                   \
                   const int *pivots, T *b, const int *ldb, int *info, size_t);                                   \
    /* Householder QR. */                                                                                         \
    void p##geqrf_(const int *m, const int *n, T *a, const int *lda, T *tau, T *work, const int *lwork, int *info);

#define LAPACK_REAL(p, T)                                                                                         \
    /* The matrix of geqrf's reflections. */                                                                      \
    void p##orgqr_(const int *m, const int *n, const int *k, T *a, const int *lda, const T *tau, T *work,         \
                   const int *lwork, int *info);                                                                  \
    /* Singular values, and eigenvalues of symmetric matrices, both by divide and conquer. */                     \
    void p##gesdd_(const char *jobz, const int *m, const int *n, T *a, const int *lda, T *s, T *u,                \
                   const int *ldu, T *vt, const int *ldvt, T *work, const int *lwork, int *iwork, int *info,      \
                   size_t);                                                                                       \
    void p##syevd_(const char *jobz, const char *uplo, const int *n, T *a, const int *lda, T *w, T *work,         \
                   const int *lwork, int *iwork, const int *liwork, int *info, size_t, size_t);                   \
    /* Eigenvalues wr + i wi, and their left and right vectors; of a conjugate pair: real and imaginary parts. */ \
    void p##geev_(const char *left, const char *right, const int *n, T *a, const int *lda, T *wr, T *wi, T *vl,   \
                  const int *ldvl, T *vr, const int *ldvr, T *work, const int *lwork, int *info, size_t, size_t);

/* The same of complex matrices, and L D L^H of Hermitian ones. */
#define LAPACK_COMPLEX(p, T, R)                                                                                   \
    void p##ungqr_(const int *m, const int *n, const int *k, T *a, const int *lda, const T *tau, T *work,         \
                   const int *lwork, int *info);                                                                  \
    void p##gesdd_(const char *jobz, const int *m, const int *n, T *a, const int *lda, R *s, T *u,                \
                   const int *ldu, T *vt, const int *ldvt, T *work, const int *lwork, R *rwork, int *iwork,       \
                   int *info, size_t);                                                                            \
    void p##heevd_(const char *jobz, const char *uplo, const int *n, T *a, const int *lda, R *w, T *work,         \
                   const int *lwork, R *rwork, const int *lrwork, int *iwork, const int *liwork, int *info,       \
                   size_t, size_t);                                                                               \
    void p##geev_(const char *left, const char *right, const int *n, T *a, const int *lda, T *w, T *vl,           \
                  const int *ldvl, T *vr, const int *ldvr, T *work, const int *lwork, R *rwork, int *info,        \
                  size_t, size_t);                                                                                \
    void p##hetrf_(const char *uplo, const int *n, T *a, const int *lda, int *pivots, T *work, const int *lwork,  \
                   int *info, size_t);                                                                            \
    void p##hetrs_(const char *uplo, const int *n, const int *nrhs, const T *a, const int *lda,                   \
                   const int *pivots, T *b, const int *ldb, int *info, size_t);

LAPACK_ROUTINES(s, float)
LAPACK_ROUTINES(d, double)
LAPACK_ROUTINES(c, float _Complex)
LAPACK_ROUTINES(z, double _Complex)
LAPACK_REAL(s, float)
LAPACK_REAL(d, double)
LAPACK_COMPLEX(c, float _Complex, float)
LAPACK_COMPLEX(z, double _Complex, double)
#undef LAPACK_ROUTINES
#undef LAPACK_REAL
#undef LAPACK_COMPLEX

#endif
