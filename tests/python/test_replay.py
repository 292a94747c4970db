"""Tapes: a recorded program can be executed again on any engine and inspected."""

import re
import subprocess

import numpy as np
import pytest

from support import GT_BINARY, PATIENCE_S, clean_environment


def replay(*arguments, status=0):
    """What `gt replay` printed."""
    done = subprocess.run(
        [GT_BINARY, "replay", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=clean_environment(),
    )
    assert done.returncode == status, f"status {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture
def record(programs):
    """record(source): run the program with a tape; returns the tape and what it printed."""

    def run(source, name="program.tape", **environment):
        tape = programs.directory / name
        return tape, programs.run(source, GT_TAPE=tape, **environment)

    return run


TRAINING = """
    import numpy as np
    import gt
    from gt import nn, optim
    gt.manual_seed(3)
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 5))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    x = gt.tensor(rng.standard_normal((64, 20)).astype(np.float32))
    y = gt.tensor(rng.integers(0, 5, 64))
    for step in range(10):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())
"""


def test_a_training_run_is_repeated(record, programs):
    log = programs.directory / "log"
    tape, printed = record(TRAINING, GT_INSTRUCTION_LOG=log)
    fetched = [line for line in log.read_text().splitlines() if "| GetData " in line and "| RECV " in line]
    assert len(fetched) == 1
    name = re.search(r"tensor_id=(\d+)", fetched[0])[1]
    text = replay(tape, "--print", name)
    value = float(re.search(rf"^{name} = \[(\S+)\] \(\) float32$", text, re.M)[1])
    assert value == pytest.approx(float(printed), rel=1e-6)
    assert re.search(r"^replayed \d+ instructions on (cpu|cuda)$", text, re.M)
    assert "no difference from reference" in replay(tape, "--diff", "reference")
    assert "every result is finite" in replay(tape, "--find-nan", "--engine", "reference")


def test_results_are_saved(record, programs):
    tape, _ = record(
        """
        import gt, numpy
        a = gt.from_numpy(numpy.arange(300000, dtype=numpy.float32).reshape(300, 1000))   # by shared memory
        b = a.T.to(gt.float64) * 2
        c = gt.tensor([True, False])
        d = gt.tensor(7).to(gt.int8)
        e = gt.ones(3).to(gt.bfloat16)
        gt.synchronize()
        """
    )
    listed = replay(tape, "--list")
    names = dict(re.findall(r"(?:result|tensor_id)=(\d+) op=(\w+)", listed))
    by_op = {op: name for name, op in names.items()}
    replay(tape, "--save", by_op["mul"], "--save", "1_" + by_op["permute"], "--dir", programs.directory)
    saved = np.load(programs.directory / f"{by_op['mul']}.npy")
    expected = np.arange(300000, dtype=np.float64).reshape(300, 1000).T * 2
    np.testing.assert_array_equal(saved, expected)
    assert saved.dtype == np.float64
    viewed = np.load(programs.directory / f"1_{by_op['permute']}.npy")
    np.testing.assert_array_equal(viewed, expected.astype(np.float32) / 2)
    for name in names:
        replay(tape, "--save", name, "--dir", programs.directory)
    kinds = {np.load(programs.directory / f"{name}.npy").dtype.name for name in names}
    assert kinds == {"float32", "float64", "bool", "int64", "int8"}


def test_the_first_nan_is_found_and_named(record):
    tape, _ = record(
        """
        import gt
        x = gt.tensor([1.0, 4.0, -9.0])
        mask = gt.full((3,), float('-inf'))         # asked for: not a mistake
        y = x * 2
        z = y.sqrt()
        w = z.sum() + mask
        gt.synchronize()
        """
    )
    text = replay(tape, "--find-nan", status=1)
    assert "the first non-finite value is nan at (2,) of sqrt" in text or "is -nan at (2,) of sqrt" in text
    assert re.search(r"op=sqrt input=\d+, issued at .*-program.py:6$", text, re.M)


def test_a_nan_is_told_with_where_its_operand_left_the_finite_range(record):
    """A bad input in step 4 writes infinities into a weight; step 5 makes a NaN of them."""
    tape, _ = record(
        """
        import gt
        from gt.signals import signal
        weight = gt.full((2, 3), 0.5) + 0
        for step in range(7):
            signal(f'batch {step + 1}')
            x = gt.full((2, 3), 1e30 if step == 3 else 1.0)
            with gt.signal.context('forward'):
                y = x * weight * 1e10
            weight = weight + y
            z = weight - weight.relu()
        print(z.sum().item())
        """,
        GT_AUTO_COMPILE="0",
    )
    text = replay(tape, "--find-nan", status=1).splitlines()
    assert text[0] == "the first NaN is at (0,0) of sub"
    assert re.search(r"op=sub .*, issued at .*-program.py:11, step 4, after signal 'batch 4'$", text[1])
    assert text[2] == "its operand left the finite range before: inf at (0,0) of mul"
    assert re.search(r"op=mul .*, issued at .*-program.py:9 in signal 'forward', step 4, after signal 'batch 4'$", text[3])


def test_what_carried_an_infinity_into_the_next_step_is_told(record):
    tape, _ = record(
        """
        import gt
        weight = gt.full((2, 3), 0.5) + 0
        for step in range(7):
            x = gt.full((2, 3), 3e38 if step == 3 else 1.0)
            y = (weight - weight.relu()).exp()
            weight = weight + x * 10
        print(y.sum().item())
        """,
        GT_AUTO_COMPILE="0",
    )
    text = replay(tape, "--find-nan", status=1).splitlines()
    assert text[0] == "the first NaN is at (0,0) of sub"
    assert re.search(r"-program.py:6, step 5$", text[1])
    assert text[2] == "its operand left the finite range before: inf at (0,0) of mul" and re.search(r"-program.py:7, step 4$", text[3])
    assert re.search(r"^step 4 wrote it into a tensor of shape \(2,3\), first made at .*-program.py:3$", text[4])
    assert re.search(r"op=add .*-program.py:7, step 4$", text[5])


NAMED_TRAINING = """
    import gt
    from gt import nn, optim
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer1 = nn.Linear(4, 8)
            self.layer2 = nn.Linear(8, 1)
        def forward(self, x):
            return self.layer2(self.layer1(x).tanh())
    gt.manual_seed(0)
    model = Net()
    with gt.no_grad():
        model.layer2.weight.mul_(1e-20)
    optimizer = {optimizer}
    x = gt.randn(40, 1, 4)
    scale = gt.full((40,), 1e-6)
    scale[36] = {sample}
    for step in range(40):
        if step == 36:
            optimizer.param_groups[-1]['lr'] = {rate}
        loss = (model(x[step]) * scale[step]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())
"""


@pytest.mark.parametrize("compiled", ["0", "1"])
@pytest.mark.parametrize("optimizer, sample, rate", [
    ("optim.SGD(model.parameters(), lr=10.0)", 3e38, 10.0),  # a bad sample
    ("optim.SGD(model.parameters(), lr=10.0, momentum=0.5, nesterov=True)", 3e38, 10.0),
    ("optim.Adam([{'params': model.layer1.parameters()}, {'params': model.layer2.parameters()}])", 1e-6, 1e39),  # a bad rate
])
def test_the_parameter_that_an_infinity_went_into_is_named(record, optimizer, sample, rate, compiled):
    source = NAMED_TRAINING.format(optimizer=optimizer, sample=sample, rate=rate)
    tape, printed = record(source, GT_AUTO_COMPILE=compiled)
    assert printed == "nan\n"
    text = replay(tape, "--find-nan", status=1).splitlines()
    line = 1 + next(k for k, line in enumerate(source.splitlines()) if "optimizer.step()" in line)
    assert re.search(rf"^step 37 wrote -?inf into layer2.weight at .*-program.py:{line}; step 38's matmul made NaN of it$", text[0]), text
    assert text[1] == "the first NaN is at (0,0) of matmul" and re.search(r"-program.py:10, step 38$", text[2]), text
    written = next(k for k, line in enumerate(text) if line.startswith("step 37 wrote it into layer2.weight, of shape (1,8)"))
    assert re.search(rf"op=sub .*-program.py:{line}, step 37$", text[written + 1]), text


@pytest.mark.parametrize("update", [
    "p -= g", "p.sub_(g)", "p.add_(g, alpha=-1)", "p.data -= g", "p.data.add_(-g)", "p.detach().sub_(g)", "view = p.view(3); p -= g",
    "p.mul_(0.5); p.div_(2); p.copy_(p - g) if step == 2 else p.sub_(g)",
    "step in (1, 2) and setattr(p, 'data', p.data - g); p -= g",
    "q.copy_(p); q += 1; p -= g",
    "held.append(p * 1); p -= g",
    "held.append(p.view(3)); p -= g; gt.debug.name(p, 'the weight')",  # told again: the same tensor, not another one
    "module.weight -= g",
])
def test_a_name_stays_with_a_tensor_that_is_updated(record, update):
    tape, _ = record(
        f"""
        import gt
        p, q, held, module = gt.nn.Parameter(gt.ones(3)), gt.ones(3), [], gt.nn.Module()
        module.weight = p
        gt.debug.name(p, 'the weight')
        with gt.no_grad():
            for step in range(20):
                y = (p + p.abs()).exp()
                g = gt.full((3,), 3e38 if step == 16 else 1e-3) * 10
                {update}
        print(y.sum().item())
        """
    )
    text = replay(tape, "--find-nan", status=1).splitlines()
    assert re.search(r"^step 17 wrote -inf into the weight at .*-program.py:10; step 18's (sub|add|exp|relu) made NaN of it$", text[0]), text


def test_parameters_of_a_module_that_are_updated_by_hand_have_one_name(record):
    """`model.layer2.weight -= g` assigns to the module what it has already: nothing is named anew."""
    by_hand = NAMED_TRAINING.replace("optimizer.step()", "update()").replace("    x = gt.randn", """    def update():
        with gt.no_grad():
            model.layer1.weight -= 10.0 * model.layer1.weight.grad
            model.layer2.weight -= 10.0 * model.layer2.weight.grad
    x = gt.randn""")
    tape, printed = record(by_hand.format(optimizer="optim.SGD(model.parameters(), lr=0.0)", sample=3e38, rate=0.0))
    assert printed == "nan\n"
    text = replay(tape, "--find-nan", status=1).splitlines()
    assert re.search(r"^step 37 wrote -?inf into layer2.weight at .*-program.py:19; step 38's matmul made NaN of it$", text[0]), text


@pytest.mark.parametrize("update, wrong", [
    ("p = p - g", ["the weight", "second"]),                                          # another tensor
    ("p.copy_(q); p -= g; q.copy_(p)", ["second"]),
    ("q.copy_(p); gt.debug.name(q, 'other'); p -= g", ["second", "other"]),           # one value, two names
    ("p -= g; r = p.clone(); r += 1; p = p * 1", ["the weight", "second"]),
    ("old = p.data; p.data = p * 1; old -= g; p = old", ["the weight", "second"]),    # p left this memory
    ("r = p.detach(); r.data = p - g; p = r", ["the weight", "second"]),              # p itself stays where it is
])
def test_a_name_that_is_not_certain_is_not_told(record, update, wrong):
    tape, _ = record(
        f"""
        import gt
        p, q = gt.ones(3), gt.ones(3)
        gt.debug.name(p, 'the weight')
        gt.debug.name(q, 'second')
        with gt.no_grad():
            for step in range(30):
                y = (p + p.abs()).exp()
                g = gt.full((3,), 3e38 if step == 26 else 1e-3) * 10
                {update}
        print(y.sum().item())
        """
    )
    text = replay(tape, "--find-nan", status=1)
    assert "the first NaN is" in text and not any(f"into {name}" in text for name in wrong), text


def test_names_are_those_of_the_outermost_module(record):
    tape, _ = record(
        """
        import copy, gt
        from gt import nn
        model = nn.Sequential(nn.Linear(2, 2), nn.ModuleList([nn.Linear(2, 2)])[0])
        model[0](gt.ones(2))                                 # a part of it, alone
        model(gt.ones(2))
        twin = copy.deepcopy(model)
        twin(gt.ones(2))
        assert '_gt_named' not in twin.__getstate__()
        with gt.no_grad():
            twin[1].weight /= 0
            bad = twin[1].weight - twin[1].weight
        print(bad.sum().item())
        """
    )
    assert " into 1.weight at " in replay(tape, "--find-nan", status=1).splitlines()[0]


STEPS = """
    import sys, gt
    from gt import nn, optim
    import gt.nn.functional as F
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)
        def forward(self, x):
            h = self.up(x)
            h = F.gelu(h)
            return x + self.down(h)
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks, self.head = nn.ModuleList([Block() for _ in range(3)]), nn.Linear(4, 1)
        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.head(x)
    gt.manual_seed(0)
    model, x, y = Net(), gt.randn(6, 4), gt.randn(6, 1)
    optimizer = optim.{optimizer}(model.parameters(), lr=0.01)
    {before}
    for step in range(12):
        {first}
        loss = F.mse_loss(model(x), y)
        loss.backward()
        if step == 7:
            bad = gt.zeros(8, 4)
            bad[3, 2] = float('inf')
            model.blocks[1].up.weight.grad.add_(bad)
        optimizer.step()
        optimizer.zero_grad()
        {last}
    print(loss.item())
"""


@pytest.mark.parametrize("before, first, last", [
    ("", "", ""),
    ("model(x).sum().item()", "", ""),                                                # a call before the loop
    ("", "", "step % 4 == 1 and model(x).sum()"),                                     # now and then a validation
    ("", "batch = x * 2", "average = loss.detach() * 0.9"),
    ("", "other = x + 1 if step == 2 else x", "if step == 10: break"),                # it ends early; a line that runs once
    ("", "", "for extra in range(step % 3): z = x.exp(); z = z + 1"),                 # a loop inside, not always as long
])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_a_step_is_one_number_for_all_lines(record, optimizer, before, first, last):
    """The lines of a block run three times a step, those of the loop once, that of the bad gradient once in all."""
    tape, _ = record(STEPS.format(optimizer=optimizer, before=before, first=first, last=last))
    text = replay(tape, "--find-nan", status=1)
    assert not set(re.findall(r"step (\d+)", text)) - {"8", "9"}, text
    if optimizer == "SGD":
        assert re.search(r"^step 8 wrote -inf into blocks.1.up.weight at .*; step 9's \w+ made NaN of it$", text, re.M), text


def test_what_is_not_certainly_in_a_step_has_none(record):
    tape, _ = record(STEPS.format(optimizer="SGD", before="check = model(x).exp()", first="", last="check = model(x)"))
    lines = replay(tape, "--list").splitlines()
    assert not any("step" in line for line in lines if "op=exp " in line), lines
    assert {int(step) for line in lines for step in re.findall(r", step (\d+)$", line)} == set(range(1, 13))


CHANGED = """
    import gt
    from gt import nn, optim
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer1, self.layer2, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)
        def forward(self, x):
            return self.head(self.layer2(self.layer1(x)).tanh())
    gt.manual_seed(0)
    model, other, x = Net(), None, gt.randn(6, 4)
    model(x).sum().item()
    {change}
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        loss = model(x).sum()
        loss.backward()
        if step == 2:
            model.layer1.weight.grad.fill_(float('inf'))
        optimizer.step()
        optimizer.zero_grad()
    print(loss.item())
"""


@pytest.mark.parametrize("change, name", [
    ("", "layer1.weight"),
    ("model.layer1, model.layer2 = model.layer2, model.layer1", "layer1.weight"),
    ("model.layer1 = nn.Linear(4, 4)", "layer1.weight"),
    ("model.layer1.weight = nn.Parameter(gt.randn(4, 4))", "layer1.weight"),
    ("model.encoder = model.layer1; del model.layer1; Net.layer1 = property(lambda self: self.encoder)", "encoder.weight"),
])
def test_names_are_those_of_the_present_tree(record, change, name):
    tape, printed = record(CHANGED.format(change=change))
    text = replay(tape, "--find-nan", status=1)
    assert printed == "nan\n" and text.startswith(f"step 3 wrote -inf into {name} at "), text
    assert "another tensor" not in text, text


@pytest.mark.parametrize("change", ["other = Net(); other(x)", "other = nn.ModuleList([Net(), model]); other[0](x)"])
def test_a_name_that_another_tensor_has_too_is_told_as_such(record, change):
    tape, _ = record(CHANGED.format(change=change))
    text = replay(tape, "--find-nan", status=1).splitlines()
    assert text[0].startswith("step 3 wrote -inf into layer1.weight at ") and text[0].endswith(" (another tensor has the same name)"), text


def test_the_first_infinity_is_told_if_no_operand_came_from_it(record):
    """The loss overflows first, at line 5; its gradient overflows by itself, at line 6, and makes the NaN."""
    tape, _ = record(
        """
        import gt
        weight, rate = gt.full((2,), 1e10) + 0, gt.ones(2) * 2
        y = weight * 1.0
        loss = y ** 4
        gradient = y ** 3 * 1e20
        step = gradient / (gradient * rate)
        print(step.sum().item(), loss.sum().item())
        """,
        GT_AUTO_COMPILE="0",
    )
    text = replay(tape, "--find-nan", status=1).splitlines()
    assert text[0] == "the first NaN is at (0,) of div" and re.search(r"-program.py:7$", text[1])
    assert text[2].startswith("its operand left the finite range before: inf at (0,) of ") and re.search(r"-program.py:6$", text[3])
    assert text[4].startswith("before it, and not among its operands: inf at (0,) of ") and re.search(r"-program.py:5$", text[5])


def test_infinities_are_found(record):
    tape, _ = record("import gt\nx = gt.zeros(2, 2)\ny = 1 / x\ngt.synchronize()\n")
    text = replay(tape, "--find-nan", status=1)
    assert "the first non-finite value is inf at (0,0) of " in text
    assert re.search(r"issued at .*-program.py:3$", text, re.M), text


@pytest.mark.parametrize("value", ["inf", "-inf"])
@pytest.mark.parametrize("source", [
    "g[1] = float('{0}')\nw = w - 0.1 * g",
    "g = gt.full((4,), float('{0}'))\nw = w - 0.1 * g",
    "w = w - 0.1 * g.masked_fill(gt.arange(4) == 1, float('{0}'))",
])
def test_infinities_that_the_program_wrote_are_no_all_clear(record, source, value):
    tape, _ = record(f"import gt\nw = gt.ones(4)\ng = gt.zeros(4)\n{source.format(value)}\nprint(w.tolist())\n")
    text = replay(tape, "--find-nan", status=1)
    assert "every result is finite" not in text and "inf at (" in text, text
    assert re.search(r"issued at .*-program.py:[45]$", text, re.M), text


def test_masks_are_no_mistake(record):
    tape, _ = record(
        """
        import gt
        scores = gt.ones(3, 3)
        mask = gt.full((3, 3), float('-inf')).triu(1)
        print((scores + mask).softmax(-1).tolist())
        print(scores.masked_fill(gt.eye(3) == 1, float('-inf')).softmax(-1).tolist())
        """
    )
    assert "no NaN; the only infinities are -inf that the program wrote" in replay(tape, "--find-nan")


def test_small_numbers_that_differ_are_a_difference(record):
    """The tolerance is relative, also below 1: the first result that differs is named, not a later one."""
    source = """
        import gt
        a = gt.full((3,), {0})
        print((a * 1000).sum().item())
    """
    (one, _), (two, _) = (record(source.format(value), name=f"{value}.tape") for value in ("-0.0010", "-0.0011"))
    text = replay(one, "--diff", two, status=1)
    assert "-0.00100000005 here, -0.00109999999 with" in text and "op=full" in text, text


@pytest.mark.parametrize("first, line", [
    ("a = gt.tensor([1000.0, {0}])", "op=upload"),
    ("a = gt.where(gt.tensor([True, False]), gt.tensor([1000.0, 0.0]), {0})", "op=where"),
    ("a = gt.tensor([1000.0, 0.0]) + gt.tensor([0.0, 1.0]) * {0}", "op=mul"),
])
def test_a_large_element_does_not_hide_a_small_one_that_differs(record, first, line):
    source = f"import gt\n{first}\nb = a * 1.0\nc = b[1:] * 3\nprint(c.item())\n"
    (one, _), (two, _) = (record(source.format(value), name=f"{value}.tape") for value in ("-0.0010", "-0.0011"))
    text = replay(one, "--diff", two, status=1)
    assert re.search(r"-0.001\d* here, -0.0011?\d* with", text) and line in text, text


def test_the_first_difference_of_two_tapes(record):
    program = """
        import gt
        a = gt.full((4,), {value})
        b = a + 1
        c = gt.maximum(b, gt.full((4,), 3.0))
        d = c * 2{more}
        gt.synchronize()
    """
    one, _ = record(program.format(value=1.0, more=""), "one.tape")
    two, _ = record(program.format(value=1.5, more=""), "two.tape")
    longer, _ = record(program.format(value=1.0, more=" - 1"), "longer.tape")
    assert "no difference" in replay(one, "--diff", one)
    text = replay(one, "--diff", two, status=1)
    assert "the first difference is at (0,): 1 here, 1.5 with" in text and "op=full" in text
    assert "no difference" in replay(one, "--diff", two, "--tolerance", "0.5")
    assert "goes on where this tape ends" in replay(one, "--diff", longer, status=1)
    assert "ends before this" in replay(longer, "--diff", one, status=1)
    other, _ = record(program.format(value=1.0, more="").replace("maximum", "minimum"), "other.tape")
    assert "the first difference: maximum here, minimum with" in replay(one, "--diff", other, status=1)


def test_stopping(record, programs):
    log = programs.directory / "log"
    tape, _ = record(
        "import gt\na = gt.ones(2)\nb = a + 1\nc = b * 3\ngt.synchronize()\n", GT_INSTRUCTION_LOG=log
    )
    assert "replayed 2 instructions" in replay(tape, "--stop", 2)
    line = next(line for line in log.read_text().splitlines() if "| RECV " in line and "op=add" in line)
    number = re.search(r"#(\d+)", line)[1]
    text = replay(tape, "--stop", "#" + number, "--list")
    assert "replayed 2 instructions" in text and f"(line #{number} of the log)" in text and "op=mul" not in text
    assert "there is no tensor 3" in replay(tape, "--stop", 2, "--print", 3, status=1)


def test_failures_fail_again(record):
    tape, _ = record(
        """
        import gt
        table = gt.ones(3)
        bad = table[-(-gt.tensor([5]))] + 1
        gt.synchronize()
        """
    )
    text = replay(tape)
    assert "failed: indexing: index 5 is out of bounds for dimension 0 with size 3" in text
    assert re.search(r"issued at .*-program.py:4$", text, re.M) and "3 results failed" in text


def test_several_clients_share_a_tape(programs):
    tape = programs.directory / "server.tape"
    server = programs.server("--tape", tape)
    programs.worker(server.port)
    program = """
        import sys, gt
        gt.connect(sys.argv[1])
        x = gt.full((2,), float(sys.argv[2]))
        print((x * x).tolist())
    """
    for link, value in (("memory", 2), ("tcp", 3)):
        assert programs.run(program, f"{link}://localhost:{server.port}", value) == f"[{value ** 2:.1f}, {value ** 2:.1f}]\n"
    server.end()
    text = replay(tape, "--print", "1_2", "--print", "2_2")
    assert "1_2 = [4, 4] (2,) float32" in text and "2_2 = [9, 9] (2,) float32" in text


def test_damaged_tapes_are_read_up_to_the_damage(record, programs):
    tape, _ = record(
        """
        import gt, numpy
        for k in range(20):
            a = gt.from_numpy(numpy.full(50000, k, dtype=numpy.float32))
            a.sum().item()
        """
    )
    whole = tape.read_bytes()
    total = int(re.search(r"replayed (\d+) instructions", replay(tape))[1])
    damaged = programs.directory / "damaged.tape"
    damaged.write_bytes(whole[: len(whole) // 2])
    text = replay(damaged, status=1)
    done = int(re.search(r"replayed (\d+) instructions", text)[1])
    assert 0 < done < total
    assert re.search(rf"the tape is damaged at byte \d+, after instruction {done}: it ends in the middle of a block", text)
    flipped = bytearray(whole)
    flipped[len(whole) * 3 // 4] ^= 4
    damaged.write_bytes(flipped)
    text = replay(damaged, status=1)
    assert "the checksum is wrong" in text and done < int(re.search(r"after instruction (\d+)", text)[1]) < total
    damaged.write_bytes(b"anything else")
    assert f"{damaged} is not a tape" in replay(damaged, status=1)
    assert "No such file or directory" in replay(programs.directory / "nothing", status=1)


def test_wrong_arguments(programs):
    for arguments in ((), ("a", "b"), ("a", "--stop", "x"), ("a", "--print", "y"), ("a", "--tolerance", "z"), ("--nonsense",)):
        assert "gt replay --help" in replay(*arguments, status=2)
    assert "usage: gt replay TAPE" in replay("--help")


def test_two_servers_of_one_program_have_two_tapes(record, programs):
    tape, _ = record(
        """
        import gt
        (gt.ones(2) + 1).tolist()
        gt.disconnect()
        second = gt._gt.open_embedded(1)
        second.close()
        """
    )
    replay(tape)
    assert (programs.directory / "program.tape.2").exists()
