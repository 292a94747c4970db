"""`compile: true` and gt.compile on the engine `pytorch`: torch.compile; and how an engine in Python compiles parts of a path."""

import json

import pytest

from support import LONG

ENGINE = """
    import json
    import numpy as np
    import gt
    from gt import nn, optim
    from gt.engines import torch_compile, torch_engine

    class Traced(torch_engine.Engine):
        '''The graphs of torch.compile as they are: its own work takes long.'''
        parts = 0
        def compile(self, steps, marked):
            found = torch_compile.compile_steps(self, torch_engine.DTYPES, steps, {compiler}) if marked else NotImplemented
            Traced.parts += len(found) if marked else 0
            return found

    gt.engines.register('traced', Traced)

    def hotpath():
        return gt.debug.get_worker_stats(wait=True)['auto_worker']['hotpath']
"""

TRAINING = """
    rng = np.random.default_rng(5)
    x = gt.from_numpy(rng.standard_normal((16, 3, 8, 8)).astype('float32'))
    labels = gt.from_numpy(rng.integers(0, 4, 16))
    model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(96, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 4))
    with gt.no_grad():
        for parameter in model.parameters():
            parameter.copy_(gt.from_numpy(rng.standard_normal(tuple(parameter.shape)).astype('float32') * 0.2))
    optimizer = optim.{optimizer}(model.parameters(), lr=1e-2)
    gt.manual_seed(3)

    def step(x, labels):
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    if {marked}:
        step = gt.compile(step)
    losses = [step(x, labels).item() for _ in range(10)]
"""


def training(programs, engine, optimizer, marked, environment):
    text = ENGINE.format(compiler="lambda graph: graph") + TRAINING.format(optimizer=optimizer, marked=marked) + """
    print(json.dumps([losses, Traced.parts, hotpath()['worker_runs'], hotpath()['fallbacks']]))
    """
    return json.loads(programs.run(text, GT_BACKEND=engine, **environment).splitlines()[-1])


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_a_marked_step_trains_as_on_the_cpu_engine(programs, optimizer):
    expected, *_ = training(programs, "cpu", optimizer, False, {})
    losses, parts, runs, fallbacks = training(programs, "traced", optimizer, True, {})
    assert losses == pytest.approx(expected, rel=1e-4)
    assert parts >= 2 and runs >= 5 and fallbacks == 0
    if optimizer == "SGD":  # loops that are only found are not compiled
        losses, parts, _, _ = training(programs, "traced", optimizer, False, {"GT_AUTO_COMPILE": 1})
        assert losses == pytest.approx(expected, rel=1e-4) and parts == 0


CHAIN = """
    @gt.compile
    def chain(x, scale, slope):
        y = nn.functional.leaky_relu(x * scale - 1, slope)
        rows = y.view(8, 8).t()
        return (rows - rows.mean(1, keepdim=True)) / 3, y[8:40].exp()

    x = gt.arange(64).float() / 9 - 3
    for k in range(8):
        a, b = chain(x, 0.5 + k, {slope})
        y = np.arange(64, dtype='float32') / 9 - 3
        y = y * np.float32(0.5 + k) - 1
        y = np.where(y > 0, y, y * np.float32({slope}))
        rows = y.reshape(8, 8).T
        np.testing.assert_allclose(a.numpy(), (rows - rows.mean(1, keepdims=True)) / 3, rtol=2e-4, atol=2e-4)
        np.testing.assert_allclose(b.numpy(), np.exp(y[8:40]), rtol=2e-4)
    print(Traced.parts, hotpath()['worker_runs'])
"""


@pytest.mark.parametrize("slope", ["0.25", "0.25 * (k // 4)"], ids=["the same", "another immediate"])
def test_numbers_change_from_run_to_run(programs, slope):
    parts, runs = programs.run(ENGINE.format(compiler="lambda graph: graph") + CHAIN.format(slope=slope), GT_BACKEND="traced").split()
    assert int(parts) >= 1 and int(runs) >= 4


MOVING = '''
    @gt.compile
    def put(cache, x, k):
        new = cache + 0
        new[k:k + 2] = x * 2 + 1
        return new * 3 - 1, (cache * 2)[k:k + 2] + 1

    x = gt.arange(6).float().view(2, 3)
    for k in range(10):
        cache = np.full((16, 3), k, 'float32')
        a, b = put(gt.from_numpy(cache), x, k)
        rows = (cache * 2)[k:k + 2] + 1
        cache[k:k + 2] = x.numpy() * 2 + 1
        np.testing.assert_array_equal(a.numpy(), cache * 3 - 1)
        np.testing.assert_array_equal(b.numpy(), rows)
    print(Traced.parts, hotpath()['worker_runs'])
'''


def test_assignments_and_slices_begin_elsewhere_in_each_run(programs):
    parts, runs = programs.run(ENGINE.format(compiler="lambda graph: graph") + MOVING, GT_BACKEND="traced").split()
    assert int(parts) >= 1 and int(runs) >= 4


def test_a_part_with_a_step_that_moves_is_refused(programs):
    engine = '''
    class Careless(gt.engines.Engine):
        def compile(self, steps, marked):
            from gt.engines import plan
            chosen = range(len(steps))
            reads, writes = plan.reads_and_writes(steps, chosen)
            return [plan.Part(0, len(steps), writes, reads, lambda views, numbers: 1 / 0)]

    gt.engines.register('careless', Careless)
'''
    program = programs.python(ENGINE.format(compiler="lambda graph: graph") + engine + MOVING, GT_BACKEND="careless")
    assert program.wait() == 0, program.text()
    assert "a path is not compiled: ValueError: compile: a part has step" in program.text()


def test_a_part_whose_function_fails_runs_step_by_step(programs):
    broken = "lambda graph: (calls := []) or (lambda *args: calls.append(1) or (graph(*args) if len(calls) == 1 else 1 / 0))"
    program = programs.python(ENGINE.format(compiler=broken) + CHAIN.format(slope="0.25"), GT_BACKEND="traced")
    assert program.wait() == 0, program.text()
    assert program.text().count("runs step by step from now on: ZeroDivisionError: division by zero") == 1


def test_results_of_a_part_that_cannot_all_be_stored(programs):
    """The first of them may be in the memory of an input, which cannot be read again: all fail, and none is another number."""
    text = '''
    class Full(Traced):
        left = None   # results that it stores
        def store(self, out, result):
            if Full.left is not None:
                Full.left -= 1
                if Full.left < 0:
                    Full.left = None
                    raise MemoryError('the last one')
            super().store(out, result)

    gt.engines.register('full', Full)

    state = [gt.full((64,), 2.0), gt.full((64,), 1.0)]

    @gt.compile
    def step():
        a, b = state
        product = a * b
        state[:] = [(a + b) / 2, a - b]   # the last use of both, one of which gives its memory
        del a, b
        return product, state[0] * 3

    for k in range(12):
        if k == 11:
            result[0].numpy()   # all that was before is computed
            Full.left = 3
        result = step()
    for value in (*state, *result):
        try:
            print(float(value[0]))
        except MemoryError as error:
            print(error)
    print(Traced.parts, Full.left)
    '''
    *values, end = programs.run(ENGINE.format(compiler="lambda graph: graph") + text, GT_BACKEND="full").splitlines()
    assert len(values) == 4 and all("the last one" in value for value in values)
    assert end == "1 None"


def test_torch_compile_itself(programs):
    if not LONG:
        pytest.skip("PyTorch's compiler runs a C++ compiler for up to a minute: make test-long")
    text = ENGINE.format(compiler="torch_compile.torch.compile") + CHAIN.format(slope="0.25")
    parts, runs = programs.run(text, GT_BACKEND="traced", patience_s=400).split()
    assert int(parts) == 1 and int(runs) >= 4
