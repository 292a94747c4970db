"""gt.register_modifier: functions in Python that see and change the stream in the embedded server."""

import pytest

import gt
from gt.modifier import Instruction, Number, new_id


def test_a_modifier_sees_and_changes_the_stream(programs):
    out = programs.run("""
        import numpy as np
        import gt
        from gt.modifier import Instruction, Number, new_id

        seen = []

        def watch(instruction):
            seen.append(instruction)
            return instruction

        def change(instruction):
            if instruction.op == 'sub':                       # a - b becomes b - a
                a, b = instruction.operands
                return instruction.replace(operands=(b, a))
            if instruction.op == 'exp':                       # exp(x) becomes log1p(x + 1), with a tensor of its own
                middle, (x,) = new_id(), instruction.operands
                add = next(each for each in seen if each.op == 'add')
                return [add.replace(result=middle, operands=(x, Number(1.0))),
                        instruction.replace(op='log1p', operands=(middle,)), Instruction.free(middle)]
            return instruction

        gt.register_modifier(watch)
        gt.register_modifier(change)
        a, b = gt.tensor([1., 2.]), gt.tensor([5., 9.])
        c = a + b * 2
        assert c.tolist() == [11., 20.]
        assert (a - b).tolist() == [4., 7.]
        assert np.allclose(a.exp().numpy(), np.log1p(np.array([2., 3.])))
        mul, add = seen[0], seen[1]
        assert (mul.op, add.op) == ('mul', 'add') and mul.operands[1] == Number(2.0), seen
        assert add.operands[1] == mul.result and mul.operands[0] != add.operands[0]
        assert mul.place.endswith('.py:26'), mul.place
        del a, b, c
        gt.synchronize()
        total = gt.cat([gt.ones(2), gt.zeros(3)]).sum().item()    # also a record with operands behind it
        cat = next(each for each in seen if each.op == 'cat')
        assert total == 2 and len(cat.operands) == 2 and all(cat.operands)
        assert any(each.op == 'free' and each.operands for each in seen)
        for step in range(200):
            last = gt.ones(2).exp()
        last.tolist()
        assert gt.debug.dispatcher_stats(wait=True)['clients'][0]['tensors'] < 20, 'the modifier frees its own'
        assert 'python' in gt.debug.dispatcher_stats(wait=True)['clients'][0]['modifiers']
        print('right')
        """)
    assert out.split() == ["right"]


def test_an_exception_is_raised_where_the_result_is_read(programs):
    out = programs.run("""
        import gt

        def picky(instruction):
            if instruction.op == 'exp':
                raise ValueError('no exponentials today')
            if instruction.op == 'log':
                return 'nonsense'
            if instruction.op == 'sin':
                return instruction.replace(op='add')
            return instruction

        gt.register_modifier(picky)
        x = gt.ones(3)
        y = x.exp() + 1                                       # line 15
        def why(function):
            try:
                return function()
            except RuntimeError as error:
                return str(error)
        print(why(y.tolist))
        print(why(lambda: x.log().tolist()))
        print(why(lambda: x.sin().tolist()))
        print((x + 1).tolist())                               # the client goes on
        """)
    first, second, third, fourth = out.splitlines()
    assert "ValueError: no exponentials today" in first and ".py:6)" in first and ".py:15" in first
    assert "an Instruction, None or a list of Instructions, not str" in second
    assert "'add' cannot take the place of 'sin'" in third
    assert fourth == "[2.0, 2.0, 2.0]"


def test_an_exception_on_split_tensors(programs):
    out = programs.run("""
        import gt

        def picky(instruction):
            if instruction.op == 'exp':
                raise ValueError('not here')
            return instruction

        gt.register_modifier(picky)
        gt.gpu_workers(2)
        gt.register_config('rows', gt.SignalConfig(shard=gt.ShardConfig(axis=0)))
        with gt.signal.context('rows'):
            x = gt.ones(4, 2)
            bad = x.exp().sum()
        try:
            bad.item()
        except RuntimeError as error:
            print(error)
        print(x.placement, x.sum().item())
        """)
    first, second = out.splitlines()
    assert "not here" in first and second == "split(axis=0, workers=[0,1]) 8.0"


def test_held_instructions_are_flushed_before_an_answer(programs):
    out = programs.run("""
        import gt
        held = []

        def hold(instruction):
            held.append(instruction)

        def flush():
            now, held[:] = list(held), []
            return now

        gt.register_modifier(hold, flush)
        x = gt.arange(4.)
        y = (x * 2 + 1).relu()
        print(y.tolist(), y.placement)
        for step in range(300):
            y = y * 0.5
        print(y.sum().item())
        """)
    assert out.splitlines() == ["[1.0, 3.0, 5.0, 7.0] single(worker=0)", "0.0"]


def test_dropping_an_operation_is_an_error_not_a_wait(programs):
    out = programs.run("""
        import gt
        gt.register_modifier(lambda instruction: None if instruction.op == 'add' else instruction)
        x = gt.ones(3)
        try:
            print((x + 1).tolist())
        except ConnectionError as error:
            print(error)
        """)
    assert "tensor" in out and "does not exist" in out


def test_modifiers_are_for_embedded_servers(programs):
    out = programs.run("""
        import gt
        registration = gt.register_modifier(lambda instruction: 1 / 0)
        registration.remove()
        registration.remove()                                 # twice is once
        print(gt.ones(2).exp().sum().item() > 5)
        try:
            gt.register_modifier(print)
        except gt.GtError as error:
            print(error)
        gt.disconnect()
        gt.register_modifier(lambda instruction: instruction)
        print(gt.ones(2).sum().item())
        """)
    first, second, third = out.splitlines()
    assert first == "True" and third == "2.0"
    assert "before the first tensor, or after gt.disconnect()" in second


def test_a_server_elsewhere_is_refused(programs):
    server = programs.cluster()
    out = programs.run(f"""
        import gt
        gt.connect('localhost:{server.port}')
        try:
            gt.register_modifier(print)
        except gt.GtError as error:
            print(error)
        """)
    assert "Other servers take modifiers in C" in out


def test_instructions():
    free = Instruction.free(3, 4)
    assert free.op == "free" and free.operands == (3, 4) and free.result is None and not free.consumes
    with pytest.raises(ValueError, match="one to 6"):
        Instruction.free()
    with pytest.raises(ValueError, match="cannot be changed"):
        free.replace(result=1)
    assert new_id() >> 63 == 1
    assert Number(True) == Number(1)
    with pytest.raises(TypeError):
        gt.register_modifier(3)
