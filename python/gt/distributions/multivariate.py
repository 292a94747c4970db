"""Distributions over vectors and matrices: MultivariateNormal, LowRankMultivariateNormal, Wishart, LKJCholesky."""

import math

import gt
from gt.distributions import constraints
from gt.distributions.distribution import Distribution, ExponentialFamily
from gt.distributions.positive import Beta
from gt.distributions.utils import broadcast_all, lazy_property, standard_normal, tiny_of


def batch_matvec(matrix, vector):
    """Matrices times vectors, batches of both."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def solve_lower(lower, b):
    """The x with lower x = b."""
    return gt.linalg.solve_triangular(lower, b, upper=False)


def batch_mahalanobis(lower, x):
    """x^T M^-1 x for M = L L^T; the batches broadcast."""
    shape = gt.broadcast_shapes(lower.shape[:-2], x.shape[:-1])
    n = x.shape[-1]
    lower, x = lower.expand((*shape, n, n)), x.expand((*shape, n))
    return solve_lower(lower, x.unsqueeze(-1)).squeeze(-1).pow(2).sum(-1)


def precision_to_scale_tril(precision):
    """The Cholesky factor of the inverse."""
    flipped = gt.linalg.cholesky(precision.flip((-2, -1)))
    inverse = flipped.flip((-2, -1)).mT
    return solve_lower(inverse, gt.eye(precision.shape[-1], dtype=precision.dtype).expand(precision.shape))


def log_diagonal(lower):
    """The sum of the logarithms of the diagonal."""
    return lower.diagonal(0, -2, -1).log().sum(-1)


class MultivariateNormal(Distribution):
    """The normal distribution over vectors, with a covariance matrix, its inverse, or its Cholesky factor.

    >>> MultivariateNormal(gt.zeros(2), gt.eye(2)).log_prob(gt.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {'loc': constraints.real_vector, 'covariance_matrix': constraints.positive_definite,
                       'precision_matrix': constraints.positive_definite, 'scale_tril': constraints.lower_cholesky}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if loc.ndim < 1:
            raise ValueError('loc must be at least one-dimensional.')
        given = {'covariance_matrix': covariance_matrix, 'precision_matrix': precision_matrix, 'scale_tril': scale_tril}
        given = {name: matrix for name, matrix in given.items() if matrix is not None}
        if len(given) != 1:
            raise ValueError('Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.')
        ((name, matrix),) = given.items()
        if matrix.ndim < 2:
            raise ValueError(f'{name} {"matrix " if name == "scale_tril" else ""}must be at least two-dimensional, with optional '
                             'leading batch dimensions')
        batch_shape = gt.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(tuple(batch_shape) + (-1, -1)))
        self.loc = loc.expand(tuple(batch_shape) + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = gt.linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = precision_to_scale_tril(precision_matrix)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        batch_shape = tuple(batch_shape)
        fields = {name: self.__dict__[name].expand(batch_shape + self._event_shape * 2)
                  for name in ('covariance_matrix', 'scale_tril', 'precision_matrix') if name in self.__dict__}
        return self._expanded(_instance, batch_shape, self._event_shape, loc=self.loc.expand(batch_shape + self._event_shape),
                              _unbroadcasted_scale_tril=self._unbroadcasted_scale_tril, **fields)

    def _matrix(self, value):
        return value.expand(self._batch_shape + self._event_shape * 2)

    @lazy_property
    def scale_tril(self):
        """The Cholesky factor of the covariance."""
        return self._matrix(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        """The covariance."""
        return self._matrix(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance."""
        lower = self._unbroadcasted_scale_tril
        inverse = solve_lower(lower, gt.eye(lower.shape[-1], dtype=lower.dtype).expand(lower.shape))
        return self._matrix(inverse.mT @ inverse)

    mean = property(lambda self: self.loc, doc='The mean.')
    mode = property(lambda self: self.loc, doc='The most likely value.')

    @property
    def variance(self):
        """The variance of each component."""
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        eps = standard_normal(self._extended_shape(sample_shape), self.loc.dtype)
        return self.loc + batch_matvec(self._unbroadcasted_scale_tril, eps)

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        distance = batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - log_diagonal(self._unbroadcasted_scale_tril)

    def entropy(self):
        """entropy(): the entropy, in nats."""
        value = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + log_diagonal(self._unbroadcasted_scale_tril)
        return value.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution with the covariance factor factor^T + diag."""

    arg_constraints = {'loc': constraints.real_vector, 'cov_factor': constraints.independent(constraints.real, 2),
                       'cov_diag': constraints.independent(constraints.positive, 1)}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.ndim < 1:
            raise ValueError('loc must be at least one-dimensional.')
        event_shape = tuple(loc.shape[-1:])
        if cov_factor.ndim < 2:
            raise ValueError('cov_factor must be at least two-dimensional, with optional leading batch dimensions')
        if tuple(cov_factor.shape[-2:-1]) != event_shape:
            raise ValueError(f'cov_factor must be a batch of matrices with shape {event_shape[0]} x m')
        if tuple(cov_diag.shape[-1:]) != event_shape:
            raise ValueError(f'cov_diag must be a batch of vectors with shape {event_shape}')
        batch = gt.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc = loc.expand(tuple(batch) + event_shape)
        self.cov_diag = cov_diag.expand(tuple(batch) + event_shape)
        self.cov_factor = cov_factor.expand(tuple(batch) + event_shape + tuple(cov_factor.shape[-1:]))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        super().__init__(batch, event_shape, validate_args=validate_args)
        self._capacitance_tril = self._capacitance(cov_factor, cov_diag)

    @staticmethod
    def _capacitance(factor, diag):
        """The Cholesky factor of I + W^T D^-1 W."""
        m = factor.shape[-1]
        scaled = factor.mT / diag.unsqueeze(-2)
        return gt.linalg.cholesky(scaled @ factor + gt.eye(m, dtype=factor.dtype))

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        batch_shape = tuple(batch_shape)
        shape = batch_shape + self._event_shape
        return self._expanded(_instance, batch_shape, self._event_shape, loc=self.loc.expand(shape),
                              cov_diag=self.cov_diag.expand(shape),
                              cov_factor=self.cov_factor.expand(shape + tuple(self.cov_factor.shape[-1:])),
                              _unbroadcasted_cov_factor=self._unbroadcasted_cov_factor,
                              _unbroadcasted_cov_diag=self._unbroadcasted_cov_diag, _capacitance_tril=self._capacitance_tril)

    mean = property(lambda self: self.loc, doc='The mean.')
    mode = property(lambda self: self.loc, doc='The most likely value.')

    @lazy_property
    def variance(self):
        """The variance of each component."""
        value = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return value.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self):
        """The covariance."""
        factor = self._unbroadcasted_cov_factor
        value = factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed()
        return value.expand(self._batch_shape + self._event_shape * 2)

    @lazy_property
    def scale_tril(self):
        """The Cholesky factor of the covariance."""
        return gt.linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance, by Woodbury's formula."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        shape = gt.broadcast_shapes(self._capacitance_tril.shape[:-2], scaled.shape[:-2])
        part = solve_lower(self._capacitance_tril.expand((*shape, *self._capacitance_tril.shape[-2:])),
                           scaled.expand((*shape, *scaled.shape[-2:])))
        value = self._unbroadcasted_cov_diag.reciprocal().diag_embed() - part.mT @ part
        return value.expand(self._batch_shape + self._event_shape * 2)

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients."""
        shape = self._extended_shape(sample_shape)
        eps_w = standard_normal(shape[:-1] + tuple(self.cov_factor.shape[-1:]), self.loc.dtype)
        eps_d = standard_normal(shape, self.loc.dtype)
        return (self.loc + batch_matvec(self._unbroadcasted_cov_factor, eps_w)
                + self._unbroadcasted_cov_diag.sqrt() * eps_d)

    def _log_determinant(self):
        return 2 * log_diagonal(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        difference = value - self.loc
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        along = batch_matvec(scaled, difference)
        distance = ((difference.pow(2) / self._unbroadcasted_cov_diag).sum(-1)
                    - batch_mahalanobis(self._capacitance_tril, along))
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_determinant() + distance)

    def entropy(self):
        """entropy(): the entropy, in nats."""
        value = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_determinant())
        return value.expand(self._batch_shape)


class Wishart(ExponentialFamily):
    """The Wishart distribution over positive definite matrices: sums of df outer products of normal vectors."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    arg_constraints = {'covariance_matrix': constraints.positive_definite,
                       'precision_matrix': constraints.positive_definite, 'scale_tril': constraints.lower_cholesky,
                       'df': constraints.dependent}

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        given = {'covariance_matrix': covariance_matrix, 'precision_matrix': precision_matrix, 'scale_tril': scale_tril}
        given = {name: matrix for name, matrix in given.items() if matrix is not None}
        if len(given) != 1:
            raise ValueError('Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.')
        ((name, matrix),) = given.items()
        if matrix.ndim < 2:
            raise ValueError('scale_tril must be at least two-dimensional, with optional leading batch dimensions')
        event_shape = tuple(matrix.shape[-2:])
        known = not isinstance(df, gt.Tensor)
        if validate_args is not False and known and not df > event_shape[-1] - 1:
            raise ValueError(f'Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}.')
        df = gt.tensor(float(df), dtype=matrix.dtype) if known else df
        batch_shape = tuple(gt.broadcast_shapes(matrix.shape[:-2], df.shape))
        self.df = df.expand(batch_shape)
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        if self._validate_args and not (self.df > event_shape[-1] - 1).all():
            raise ValueError(f'Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}.')
        lower = (scale_tril if scale_tril is not None else gt.linalg.cholesky(covariance_matrix)
                 if covariance_matrix is not None else precision_to_scale_tril(precision_matrix))
        self._unbroadcasted_scale_tril = lower

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        batch_shape = tuple(batch_shape)
        fields = {name: self.__dict__[name].expand(batch_shape + self._event_shape)
                  for name in ('covariance_matrix', 'scale_tril', 'precision_matrix') if name in self.__dict__}
        return self._expanded(_instance, batch_shape, self._event_shape, df=self.df.expand(batch_shape),
                              _unbroadcasted_scale_tril=self._unbroadcasted_scale_tril, **fields)

    @lazy_property
    def scale_tril(self):
        """The Cholesky factor of the scale matrix."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self):
        """The scale matrix."""
        return (self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self):
        """Its inverse."""
        lower = self._unbroadcasted_scale_tril
        inverse = solve_lower(lower, gt.eye(lower.shape[-1], dtype=lower.dtype).expand(lower.shape))
        return (inverse.mT @ inverse).expand(self._batch_shape + self._event_shape)

    @property
    def mean(self):
        """The mean."""
        return self.df.reshape(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self):
        """The most likely value; NaN where there is none."""
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = gt.where(factor <= 0, math.nan, factor)
        return factor.reshape(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self):
        """The variance of each element."""
        v = self.covariance_matrix
        diagonal = v.diagonal(0, -2, -1)
        return self.df.reshape(self._batch_shape + (1, 1)) * (v.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): by Bartlett's decomposition, with gradients."""
        shape, p = self._extended_shape(sample_shape), self._event_shape[-1]
        steps = gt.arange(p, dtype=self.df.dtype)
        shapes = ((self.df.unsqueeze(-1) - steps) * 0.5).expand(shape[:-1])
        chi = (gt._standard_gamma(shapes) * 2).clamp(min=tiny_of(self.df.dtype)).sqrt()
        lower = standard_normal(shape, self.df.dtype).tril(-1) + chi.diag_embed()
        chol = self._unbroadcasted_scale_tril @ lower
        return chol @ chol.mT

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        lower = self._unbroadcasted_scale_tril
        shape = gt.broadcast_shapes(lower.shape[:-2], value.shape[:-2])
        part = solve_lower(lower.expand((*shape, p, p)), value.expand((*shape, p, p)))
        trace = solve_lower(lower.expand((*shape, p, p)), part.mT).diagonal(0, -2, -1).sum(-1)
        return (-nu * (p * math.log(2.0) / 2 + log_diagonal(lower)) - (nu / 2).mvlgamma(p)
                + (nu - p - 1) / 2 * gt.linalg.slogdet(value).logabsdet - trace / 2)

    def entropy(self):
        """entropy(): the entropy, in nats."""
        nu, p = self.df, self._event_shape[-1]
        half = nu.unsqueeze(-1) / 2 - gt.arange(p, dtype=nu.dtype) * 0.5
        return ((p + 1) * (p * math.log(2.0) / 2 + log_diagonal(self._unbroadcasted_scale_tril)) + (nu / 2).mvlgamma(p)
                - (nu - p - 1) / 2 * half.digamma().sum(-1) + nu * p / 2)


class LKJCholesky(Distribution):
    """Cholesky factors of random correlation matrices; concentration 1 is uniform."""

    arg_constraints = {'concentration': constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f'Expected dim to be an integer greater than or equal to 2. Found dim={dim}.')
        self.dim = dim
        self._check_numbers(validate_args, concentration=concentration)
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)
        self._beta = self._marginals(self.concentration)

    def _marginals(self, concentration):
        offset = gt.cat([gt.zeros(1, dtype=concentration.dtype), gt.arange(self.dim - 1, dtype=concentration.dtype)])
        marginal = concentration + 0.5 * (self.dim - 2)
        return Beta(0.5 * offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        batch_shape = tuple(batch_shape)
        return self._expanded(_instance, batch_shape, self._event_shape, dim=self.dim,
                              concentration=self.concentration.expand(batch_shape),
                              _beta=self._beta.expand(batch_shape + (self.dim,)))

    def sample(self, sample_shape=()):
        """sample(sample_shape=()): by the onion method, without gradients."""
        with gt.no_grad():
            y = self._beta.sample(sample_shape).unsqueeze(-1)
            u = gt.randn(self._extended_shape(sample_shape), dtype=y.dtype).tril(-1)
            sphere = u / u.square().sum(-1, True).sqrt()
            row = gt.arange(self.dim).reshape(-1, 1)
            sphere = gt.where(row == 0, 0.0, sphere)
            w = y.sqrt() * sphere
            rest = (1 - w.square().sum(-1)).clamp(min=tiny_of(y.dtype)).sqrt()
            return w + rest.diag_embed()

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density."""
        self._validate_sample(value)
        diagonal = value.diagonal(0, -2, -1)[..., 1:]
        order = gt.arange(2, self.dim + 1, dtype=self.concentration.dtype)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalized = (order * diagonal.log()).sum(-1)
        n = self.dim - 1
        alpha = self.concentration + 0.5 * n
        normalizer = 0.5 * n * math.log(math.pi) + (alpha - 0.5).mvlgamma(n) - alpha.lgamma() * n
        return unnormalized - normalizer


__all__ = ['LKJCholesky', 'LowRankMultivariateNormal', 'MultivariateNormal', 'Wishart']
