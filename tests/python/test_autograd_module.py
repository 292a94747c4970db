"""gt.autograd: Function, functional, gradcheck, grad(), hooks, the graph, anomaly detection, modes."""

import gc
import weakref

import numpy as np
import pytest
import torch

import gt
from both import both, same_error

RNG = np.random.default_rng(7)
V, M = RNG.standard_normal(3).astype('float32'), RNG.standard_normal((3, 3)).astype('float32')


# ---- Function --------------------------------------------------------------------------------------------------------


def exponential(m):
    class Exp(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y
    return Exp


def test_a_saved_output_can_be_differentiated_again():
    def run(m, x):
        x.requires_grad_()
        y = exponential(m).apply(x)
        (first,) = m.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = m.autograd.grad((first * first).sum(), x, create_graph=True)
        return y, first, second, m.autograd.grad(second.sum(), x)
    both(run, V)


def test_several_outputs_and_arguments():
    def run(m, x, y):
        class Both(m.autograd.Function):
            @staticmethod
            def forward(ctx, a, scale, b):
                ctx.save_for_backward(a, b)
                ctx.scale = scale
                assert ctx.needs_input_grad == (True, False, True)
                return a * b, a + b, (a > 0)

            @staticmethod
            def backward(ctx, g, h, unused):
                a, b = ctx.saved_tensors
                return g * b * ctx.scale + h, None, g * a + h
        x, y = x.requires_grad_(), y.requires_grad_()
        p, q, mask = Both.apply(x, 2.0, y)
        assert not mask.requires_grad and p.grad_fn.name() == q.grad_fn.name() == 'BothBackward'
        return p, q, m.autograd.grad((p * q).sum(), [x, y], retain_graph=True), m.autograd.grad(q.sum(), [x, y])
    both(run, V, V * 2)


def test_unused_outputs_are_zeros_or_none():
    seen = []

    class Two(gt.autograd.Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, g, h):
            seen.append(h)
            return g, None
    x = gt.ones(3, requires_grad=True)
    Two.apply(x, True)[0].sum().backward()
    Two.apply(x, False)[0].sum().backward()
    assert seen[0].tolist() == [0, 0, 0] and seen[1] is None


def test_setup_context_dirty_and_non_differentiable():
    def run(m, x):
        class Scale(m.autograd.Function):
            @staticmethod
            def forward(x, factor):
                x.mul_(factor)
                return x, (x > 0).to(x.dtype)

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.mark_dirty(inputs[0])
                ctx.mark_non_differentiable(output[1])
                ctx.factor = inputs[1]

            @staticmethod
            def backward(ctx, g, unused):
                return g * ctx.factor, None
        x = x.requires_grad_()
        y = x * 1
        z, positive = Scale.apply(y, 3.0)
        assert z is y and not positive.requires_grad
        return z, positive, m.autograd.grad((z * z).sum(), x)
    both(run, V)


def test_function_errors():
    def wrong_count(m):
        class F(m.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                return x * y

            @staticmethod
            def backward(ctx, g):
                return g
        F.apply(m.ones(2, requires_grad=True), m.ones(2)).sum().backward()

    def wrong_shape(m):
        class F(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return m.ones(5)
        F.apply(m.ones(2, requires_grad=True)).sum().backward()

    def twice(m):
        x = m.ones(2, requires_grad=True)
        y = exponential(m).apply(x).sum()
        y.backward()
        y.backward()

    def once(m):
        class F(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x ** 3

            @staticmethod
            @m.autograd.function.once_differentiable
            def backward(ctx, g):
                return g * 3 * ctx.saved_tensors[0] ** 2
        x = m.ones(2, requires_grad=True)
        (g,) = m.autograd.grad((F.apply(x) ** 2).sum(), x, create_graph=True)
        g.sum().backward()
    same_error(wrong_count, 'FBackward returned an incorrect number of gradients (expected 2, got 1)')
    same_error(wrong_shape, 'Function FBackward returned an invalid gradient at index 0 - got [5] but expected shape '
                            'compatible with [2]')
    def changed(m):
        class F(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x ** 2

            @staticmethod
            def backward(ctx, g):
                return 2 * g * ctx.saved_tensors[0]
        x = m.ones(2, requires_grad=True) * 1
        y = F.apply(x)
        x.add_(1)
        y.sum().backward()
    same_error(twice, None)
    if hasattr(gt.Tensor, '_version'):
        same_error(changed, 'has been modified by an inplace operation')
    same_error(once, 'trying to differentiate twice a function that was marked with @once_differentiable')
    with pytest.warns(DeprecationWarning, match='should not be instantiated'):
        gt.autograd.Function()


def test_a_function_keeps_nothing_alive():
    x = gt.ones(3, requires_grad=True)
    y = exponential(gt).apply(x)
    alive = weakref.ref(y)
    y.sum().backward()
    del y
    gc.collect()
    assert alive() is None


# ---- derivatives of functions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize('vectorize', [False, True])
def test_jacobian_and_hessian(vectorize):
    both(lambda m, x: m.autograd.functional.jacobian(lambda a: (a.exp(), a.sum()), x, vectorize=vectorize), V)
    both(lambda m, x: m.autograd.functional.jacobian(lambda a, b: a * b.sum(), (x, x), vectorize=vectorize), V)
    both(lambda m, x: m.autograd.functional.jacobian(lambda a: m.ones(2), x, vectorize=vectorize), V)
    both(lambda m, x: m.autograd.functional.hessian(lambda a, b: (a ** 3 * b).sum(), (x, x), vectorize=vectorize), V)
    both(lambda m, x: m.autograd.functional.hessian(lambda a: (a ** 3).sum(), x, vectorize=vectorize), V)


def test_products():
    def f(m):
        return m.autograd.functional
    both(lambda m, x: f(m).vjp(lambda a: a.exp(), x, x * 2), V)
    both(lambda m, x: f(m).jvp(lambda a, b: (a * b, a.sum()), (x, x), (x, x * 2)), V)
    both(lambda m, x: f(m).vhp(lambda a: (a ** 3).sum(), x, x), V)
    both(lambda m, x: f(m).hvp(lambda a, b: (a ** 3 * b).sum(), (x, x), (x, x)), V)
    same_error(lambda m: f(m).vjp(lambda a: a.exp(), m.ones(3)), 'The vector v can only be None if')
    same_error(lambda m: f(m).jacobian(lambda a: 3, m.ones(3)), 'The outputs of the user-provided function')
    same_error(lambda m: f(m).jacobian(lambda a: m.ones(2), m.ones(3), strict=True), 'does not require gradients')
    same_error(lambda m: f(m).hessian(lambda a: a, m.ones(3)), 'should contain a single element')
    same_error(lambda m: f(m).vjp(lambda a: a * 2, m.ones(3), m.ones(2)), 'v has invalid size')


def test_create_graph():
    def run(m, x):
        x.requires_grad_()
        j = m.autograd.functional.jacobian(lambda a: a ** 3, x, create_graph=True)
        return m.autograd.grad(j.sum(), x)
    both(run, V)


def test_gradcheck():
    x = gt.randn(2, 3, dtype=gt.float64, requires_grad=True)
    w = gt.randn(3, 2, dtype=gt.float64, requires_grad=True)
    assert gt.autograd.gradcheck(lambda a, b: (a @ b).tanh(), (x, w))
    assert gt.autograd.gradgradcheck(lambda a, b: (a @ b).tanh(), (x, w))

    class Wrong(gt.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3
    with pytest.raises(gt.autograd.GradcheckError, match='Jacobian mismatch for output 0 with respect to input 0'):
        gt.autograd.gradcheck(Wrong.apply, x)
    assert not gt.autograd.gradcheck(Wrong.apply, x, raise_exception=False)
    same_error(lambda m: m.autograd.gradcheck(m.sin, m.ones(2)), 'at least one input tensor to require gradient')


# ---- grad and backward -------------------------------------------------------------------------------------------------


def test_batched_gradients():
    both(lambda m, x, g: m.autograd.grad(x.requires_grad_().sin() * 2, x, g, is_grads_batched=True), V,
         RNG.standard_normal((7, 3)).astype('float32'))


def test_unused_inputs():
    def run(m, x, y):
        x, y = x.requires_grad_(), y.requires_grad_()
        return m.autograd.grad(x.sum(), [x, y], materialize_grads=True)
    both(run, V, V)
    same_error(lambda m: m.autograd.grad(m.ones(2, requires_grad=True).sum(), m.ones(2, requires_grad=True)),
               'used in the graph')
    same_error(lambda m: m.autograd.grad(m.ones(1, requires_grad=True), m.ones(1), allow_unused=False, materialize_grads=True),
               'Expected allow_unused to be True or not passed')
    same_error(lambda m: m.autograd.grad(m.ones(2, requires_grad=True) * 2, m.ones(2), m.ones(3)), 'Mismatch in shape')
    same_error(lambda m: m.autograd.backward(m.ones(2, requires_grad=True) * 2), 'only for scalar outputs')


# ---- graph and hooks -----------------------------------------------------------------------------------------------------


def test_grad_fn():
    x = gt.ones(2, requires_grad=True)
    y = (x * 2).exp()
    assert y.grad_fn.name() == type(y.grad_fn).__name__ == 'ExpBackward0' and x.grad_fn is None
    ((product, number),) = y.grad_fn.next_functions
    assert product.name() == 'MulBackward0' and number == 0
    assert product.next_functions[0][0].name() == 'AccumulateGrad'
    assert y.grad_fn == y.grad_fn and y.grad_fn != product
    called = []
    y.grad_fn.register_prehook(lambda gradients: called.append(len(gradients)) or (gradients[0] * 10,))
    y.sum().backward()
    assert called == [1] and x.grad.allclose(20 * y.detach())


def test_hook_after_accumulation():
    def run(m, x):
        x.requires_grad_()
        seen = []
        handle = x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
        (x * 2).sum().backward()
        (x * 3).sum().backward()
        handle.remove()
        (x * 4).sum().backward()
        return seen, x.grad
    both(run, V)
    same_error(lambda m: (m.ones(2, requires_grad=True) * 2).register_post_accumulate_grad_hook(print), 'non-leaf')


def test_one_hook_of_several_tensors():
    def run(m, x):
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        seen = []
        m.autograd.graph.register_multi_grad_hook((a, b), lambda gradients: seen.append(gradients))
        (a * b).sum().backward()
        return seen
    both(run, V)


def test_saved_tensors_hooks_of_functions():
    log = []
    x = gt.ones(2, requires_grad=True)
    with gt.autograd.graph.saved_tensors_hooks(lambda t: log.append('pack') or t * 1, lambda t: log.append('unpack') or t):
        y = exponential(gt).apply(x)
    y.sum().backward()
    assert log == ['pack', 'unpack'] and x.grad.allclose(x.detach().exp())


def test_anomaly_names_the_operation_and_its_line():
    with pytest.warns(UserWarning, match='Anomaly Detection'):
        with gt.autograd.detect_anomaly():
            x = gt.zeros(2, requires_grad=True)
            y = x.sqrt() * 0  # the line
            with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output.*"
                                                   'test_autograd_module.py:' + str(line_of('# the line'))):
                y.sum().backward()
    assert not gt.is_anomaly_enabled()
    with gt.autograd.set_detect_anomaly(True):
        assert gt.is_anomaly_enabled()
    x = gt.zeros(2, requires_grad=True)
    (x.sqrt() * 0).sum().backward()
    assert x.grad.isnan().all()


def line_of(mark):
    return next(k for k, line in enumerate(open(__file__), 1) if mark in line)


def test_modes():
    x = gt.ones(2, requires_grad=True)

    @gt.inference_mode()
    def f():
        return gt.is_inference_mode_enabled(), (x * 2).requires_grad

    @gt.inference_mode
    def g():
        return (x * 2).requires_grad
    assert f() == (True, False) and g() is False and not gt.is_inference_mode_enabled()
    with gt.inference_mode(False):
        assert (x * 2).requires_grad
    assert isinstance(gt.autograd.Variable(gt.ones(2), requires_grad=True), gt.autograd.Variable)
    assert gt.autograd.Variable(gt.ones(2), requires_grad=True).requires_grad


def test_profile():
    x = gt.randn(8, 8)
    with gt.autograd.profiler.profile() as profile:
        with gt.autograd.profiler.record_function('products'):
            for _ in range(3):
                x = x @ x
    rows = {row.key: row.count for row in profile.key_averages()}
    assert rows['matmul'] == 3 and 'matmul' in profile.key_averages().table()


@pytest.mark.parametrize('change', ['y.add_(1)', 'y[0] = 2', 'y.data.zero_()', 'y.detach().mul_(2)', 'y = y * 2', 'x.add_(1)'])
@pytest.mark.parametrize('recorded', [True, False])
def test_outputs_that_a_function_saves_are_checked(change, recorded):
    def outcome(n):
        w = n.arange(3.0).requires_grad_()
        x = w * 2
        names = {'n': n, 'x': x, 'y': exponential(n).apply(x)}
        with n.set_grad_enabled(recorded):
            exec(change, names)
        try:
            (names['y'] * 1).sum().backward()
        except RuntimeError as error:
            return 'modified by an inplace operation' in str(error), 'output 0 of ExpBackward' in str(error), \
                'does not require grad' in str(error)
        return w.grad.tolist()
    assert outcome(gt) == pytest.approx(outcome(torch))


def test_a_saved_output_keeps_no_graph_alive():
    gc.collect()
    before = len(gt._gt._tape())
    for change in ('y.mul_(3)', 'y[0] = 1', 'y = y * 2', 'd = y.detach(); y.mul_(w)'):
        w = gt.ones(3).requires_grad_()
        names = {'w': w, 'y': exponential(gt).apply(w * 2)}
        exec(change, names)
        del names, w
    gc.collect()
    assert len(gt._gt._tape()) == before
