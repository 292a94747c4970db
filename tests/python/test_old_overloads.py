"""PyTorch's deprecated overloads with numbers first, and the generator that manual_seed() returns."""

import pytest
import torch

import gt

CALLS = {
    'add_': lambda m, x, v: x.clone().mul_(0.5).add_(0.5, x), 'sub_': lambda m, x, v: x.clone().sub_(2, x),
    'add': lambda m, x, v: m.add(x, 2, x), 'sub': lambda m, x, v: m.sub(x, 2, x), 'x.add': lambda m, x, v: x.add(3, v),
    'addcmul_': lambda m, x, v: x.clone().addcmul_(0.5, x, x), 'addcdiv_': lambda m, x, v: x.clone().addcdiv_(-0.5, x, v),
    'addcmul': lambda m, x, v: m.addcmul(x, 2, x, x), 'addcdiv': lambda m, x, v: m.addcdiv(x, 2, x, x),
    'addmm_': lambda m, x, v: x.clone().addmm_(1, -2, x, x.t()), 'x.addmm': lambda m, x, v: x.addmm(3, x, x),
    'addmm': lambda m, x, v: m.addmm(2, x, 3, x, x), 'addmm of beta': lambda m, x, v: m.addmm(2, x, x, x),
    'addmv': lambda m, x, v: m.addmv(2, v, 3, x, v), 'x.addmv': lambda m, x, v: v.addmv(2, x, v),
    'addr': lambda m, x, v: m.addr(2, x, 3, v, v), 'x.addr_': lambda m, x, v: x.clone().addr_(2, 3, v, v),
    'baddbmm': lambda m, x, v: m.baddbmm(2, x[None], 3, x[None], x[None]),
    'addbmm': lambda m, x, v: m.addbmm(2, x, 3, x[None], x[None]),
}
REFUSED = [lambda x: x.addmm(1, x, x, alpha=2), lambda x: x.addcmul(2, x, x, value=3), lambda x: x.addmm(x, x, 2),
           lambda x: x.addcmul(x, x, 2), lambda x: x.add(x, 2), lambda x: x.addmm('a', x, x)]


def values(module):
    return module.tensor([[1.0, 2.0], [4.0, 8.0]], requires_grad=True), module.tensor([1.0, 2.0])


@pytest.mark.filterwarnings('ignore:This overload')
@pytest.mark.parametrize('call', CALLS.values(), ids=CALLS.keys())
def test_numbers_first(call):
    results = []
    for module in (gt, torch):
        x, v = values(module)
        result = call(module, x, v)
        (result.sum() + x.sum()).backward()
        results.append((result.tolist(), x.grad.tolist()))
    assert results[0] == results[1]


@pytest.mark.parametrize('call', REFUSED)
def test_other_orders_are_refused(call):
    for module in (gt, torch):
        with pytest.raises(TypeError):
            call(module.ones(2, 2))


def test_numbers_first_warn():
    x = gt.ones(2, 2)
    for call in (lambda: x.add(2, x), lambda: x.addcmul(2, x, x), lambda: x.addmm(1, 2, x, x)):
        with pytest.warns(UserWarning, match='This overload of add'):
            call()


def test_manual_seed_returns_the_generator():
    generator = gt.manual_seed(7)
    assert isinstance(generator, gt.Generator) and generator.initial_seed() == 7 == gt.initial_seed()
    first, second = gt.rand(3).tolist(), gt.rand(3).tolist()
    assert gt.random.manual_seed(7) is generator
    assert gt.rand(3, generator=generator).tolist() == first and gt.rand(3).tolist() == second
    assert gt.randperm(5, generator=generator.manual_seed(3)).tolist() == gt.randperm(5, generator=gt.manual_seed(3)).tolist()
    state = generator.get_state()
    drawn = gt.rand(2).tolist()
    generator.set_state(state)
    assert gt.rand(2).tolist() == drawn
    parts = gt.utils.data.random_split(range(6), [2, 4], generator=gt.manual_seed(1))
    again = gt.utils.data.random_split(range(6), [2, 4], generator=gt.Generator().manual_seed(1))
    assert list(parts[0]) == list(again[0])


def test_sizes_by_keyword():
    for module in (gt, torch):
        x = module.arange(6.0).reshape(2, 3)
        assert [tuple(piece.shape) for piece in x.split(split_size=[1, 2], dim=-1)] == [(2, 1), (2, 2)]
        assert x.repeat(repeats=(2, 1)).tolist() == x.tolist() * 2
        assert x.new_zeros(size=(1, 2)).tolist() == [[0, 0]] and x.new_ones(size=[2]).tolist() == [1, 1]
        assert tuple(x.new_empty(size=(3,)).shape) == (3,) and x.clone().resize_(size=(2,)).tolist() == [0, 1]
        with pytest.raises(TypeError):
            x.split(split_size_or_sections=2)
        with pytest.raises(TypeError):
            x.new_zeros(2, size=(1,))
