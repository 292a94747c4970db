"""A wrong index fails at its line, where the range of the values is known without waiting."""

import contextlib

import numpy as np
import pytest

import gt
import gt.nn.functional as F

table = gt.zeros(10, 4)


def host(*numbers, dtype=gt.int64):
    return gt.tensor(numbers, dtype=dtype)


@pytest.mark.parametrize('make', [
    lambda: host(1, 10),
    lambda: host(1, 10, dtype=gt.int32),
    lambda: gt.from_numpy(np.array([3, 12])),
    lambda: gt.arange(11),
    lambda: gt.arange(10, -1, -1),
    lambda: gt.full((3,), 10),
    lambda: gt.full((3,), 10, dtype=gt.uint8).long(),
    lambda: host(1, 2, 3, 10)[2:],
    lambda: host(1, 2, 3, 10).reshape(2, 2).t(),
    lambda: gt.cat([host(1), host(10)]),
    lambda: gt.randint(10, 12, (3,)),
    lambda: host(10, 2)[host(0, 0)],
    lambda: gt.zeros(3, 12).index_fill(1, host(11), 1.).argmax(1),
    lambda: host(-11, 0),
], ids=range(14))
def test_indexing_raises_at_its_line(make):
    index = make()
    with pytest.raises(IndexError, match='out of bounds for dimension 0 with size 10|out of range'):
        table[index]
    gt.synchronize()  # nothing failed on the server
    assert table.sum().item() == 0


@pytest.mark.parametrize('make', [
    lambda: host(1, 9) + 1,
    lambda: 5 + host(1, 9),
    lambda: host(1, 9) + gt.tensor(1),
    lambda: host(1, 9, dtype=gt.int32) + 1,
    lambda: host(1, 9).add_(1),
    lambda: host(1, 2) - 13,
    lambda: 20 - host(1, 9),
    lambda: host(1, 5) * 2,
    lambda: host(1, -6) * -2,
    lambda: host(1, 100) // 10,
    lambda: host(3, 32) % 11,
    lambda: host(1, 20).clamp(0, 10),
    lambda: host(1, 20).clamp(max=12),
    lambda: gt.where(gt.tensor([True, False]), host(1, 2), 10),
    lambda: gt.where(gt.tensor([True, False]), host(1, 2), host(3, 10)),
    lambda: gt.stack([host(1, 2), host(3, 10)]),
    lambda: gt.arange(5) * 2 + 2,
], ids=range(17))
def test_bounds_follow_arithmetic_with_numbers(make):
    index = make()
    with pytest.raises(IndexError):
        F.embedding(index, table)
    gt.synchronize()  # nothing failed on the server
    assert table.sum().item() == 0


def test_arithmetic_within_bounds_is_accepted():
    for index in (gt.randint(0, 100, (50,)) % 10, host(1, 8).clamp(max=1 << 62), host(1, 8) + 1, host(1, 20).clamp(0, 9), host(1000, 5) * 0, host(3, 25) % 11,
                  gt.where(gt.tensor([True, False]), host(1, 2), 9), host(0, 99) // 10, host(9, 0) * -1 + 9,
                  (host(250, dtype=gt.uint8) + 10).long(),  # wraps around, to 4
                  host(-1) % 10):
        assert F.embedding(index, table).sum().item() == 0


@pytest.mark.parametrize('use', [
    lambda i: F.embedding(i, table),
    lambda i: F.cross_entropy(gt.zeros(2, 10), i),
    lambda i: F.nll_loss(gt.zeros(2, 10), i),
    lambda i: table.gather(0, i.unsqueeze(1)),
    lambda i: table.scatter(0, i.unsqueeze(1), 1.),
    lambda i: table.scatter_add(0, i.unsqueeze(1), gt.ones(2, 1)),
    lambda i: F.one_hot(i, 10),
    lambda i: table[:, 0][i],
    lambda i: table.index_select(0, i),
    lambda i: table.clone().index_put_((i,), gt.tensor(1.)),
    lambda i: table.index_add(0, i, gt.ones(2, 4)),
], ids=['embedding', 'cross_entropy', 'nll_loss', 'gather', 'scatter', 'scatter_add', 'one_hot', 'column', 'index_select',
        'index_put', 'index_add'])
def test_every_user_of_an_index_raises_at_its_line(use):
    with pytest.raises(IndexError):
        use(host(3, 10))
    use(host(3, 9)).sum().item()


def test_rows_are_not_counted_from_the_end():
    """embedding and index_select refuse negative numbers as PyTorch does, also where only the worker knows them."""
    for index in (host(-1), host(-2) + 1):
        for use in (lambda i: F.embedding(i, table), lambda i: table.index_select(0, i), lambda i: gt.embedding(table, i)):
            with pytest.raises(IndexError):
                use(index).sum().item()
    assert table.take(host(-1)).item() == 0


def test_a_part_without_the_bad_value_is_accepted():
    labels = host(1, 2, 99)
    assert F.cross_entropy(gt.zeros(2, 10), labels[:2]).item() == pytest.approx(np.log(10), rel=1e-5)
    assert table[labels[:2]].shape == (2, 4)
    assert table[gt.randint(0, 100, (50,)) % 10].shape == (50, 4)
    with pytest.raises(IndexError):
        table[labels[1:]]


def test_ignored_labels_are_not_out_of_range():
    labels = host(-100, 3)
    assert F.cross_entropy(gt.zeros(2, 10), labels).item() == pytest.approx(np.log(10), rel=1e-5)
    with pytest.raises(IndexError, match='Target 10 is out of bounds'):
        F.cross_entropy(gt.zeros(3, 10), host(-100, 3, 10))
    with pytest.raises(IndexError, match='Target -5 is out of bounds'):
        F.cross_entropy(gt.zeros(2, 10), host(-5, 3))


def test_a_bad_batch_is_skipped_by_the_loop_that_catches_it():
    """The weights are not touched by a batch that failed."""
    weight = gt.zeros(4, 10, requires_grad=True)
    batches = [host(1, 2), host(3, 17), host(4, 5)]
    seen = []
    for labels in batches:
        with contextlib.suppress(IndexError):
            loss = F.cross_entropy(gt.ones(2, 4) @ weight, labels)
            loss.backward()
            with gt.no_grad():
                weight -= weight.grad
            seen.append(labels)
    assert len(seen) == 2
    assert np.isfinite(weight.detach().numpy()).all()


def test_values_changed_in_place_are_not_judged_by_their_old_range():
    index = host(1, 50)
    index[1] = 2
    assert table[index].shape == (2, 4)
    index = host(1, 2)
    index += 20
    with pytest.raises(IndexError):
        table[index].sum().item()
