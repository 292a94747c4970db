"""Updates in place: a tensor with one owner is changed where it lies, without a copy, and nothing else changes with it."""

import copy
import threading

import numpy as np
import pytest
import torch

import gt
from support import check

# ---- no copy ----------------------------------------------------------------------------------------------------

# Each changes x, 2000 x 2000, or flat, as large; i, j and k are index tensors.
UPDATES = [
    'x[0] = 1', 'x[:, 3] = 2', 'x[5:50:7, -1] = 3', 'x[1] = x[0] * 2', 'x[...] = 4', 'x.fill_(5)',
    'x.copy_(gt.tensor(6.0))', 'x[i, j] = 7', 'x[i] = rows', 'x[i, 2:4] = 8', 'x.scatter_(0, k, 9.0)',
    'x.scatter_add_(0, k, k.float())', 'x.scatter_(1, k, 3.0, reduce="multiply")',
    'x.scatter_reduce_(0, k, k.float(), "amax")', 'x.index_add_(0, i, rows)', 'x.index_copy_(0, i, rows)',
    'x.index_fill_(0, i, 2.0)', 'x.index_reduce_(0, i, rows, "prod")', 'x.index_put_((i, j), gt.tensor([1.0, 2.0]))',
    'x.index_put_((i, j), gt.tensor(1.0), accumulate=True)', 'flat[i] = 3', 'flat[1:] = 4',
    'with gt.no_grad(): leaf[1] = 5', 'for n in range(1, 9): flat[n] = flat[n - 1] * 0.5 + flat[:3].sum()',
]

PROGRAM = """
import gt
i, j, k, rows = gt.tensor([1, 3]), gt.tensor([2, 2]), gt.tensor([[0, 1], [1, 0]]), gt.ones(2, 2000)
make = {{'x': lambda: gt.zeros(2000, 2000), 'flat': lambda: gt.zeros(4000000),
        'leaf': lambda: gt.zeros(4000000, requires_grad=True)}}
for update in {updates!r}:
    name = next(name for name in make if name + '[' in update or name + '.' in update)
    names = {{**globals(), name: make[name]()}}
    exec({setup!r}, names)
    try:
        for _ in range(3):
            exec(update, names)
        names[name][0].sum().item()
    except MemoryError as error:
        print(update, ':', error)
    names.clear()
print('done')
"""


def run_limited(programs, updates, setup=''):
    """On a worker that has memory for one large tensor and small ones, but not for two: a copy is a failure. What failed."""
    return programs.run(PROGRAM.format(updates=updates, setup=setup), GT_WORKER_MEMORY='30M').splitlines()


def test_one_owner(programs):
    assert run_limited(programs, UPDATES) == ['done']


def test_a_second_owner_costs_a_copy(programs):
    """Or the test above would prove nothing."""
    lines = run_limited(programs, ['x[0] = 1', 'x[i, j] = 7', 'x.index_add_(0, i, rows)'], setup='y = x.clone()')
    assert len(lines) == 4 and all('cannot allocate' in line for line in lines[:3])


# ---- nothing else changes ---------------------------------------------------------------------------------------

# Other tensors of the value of x (6, 4), however they came by it.
OTHERS = {
    'there and back': lambda x: x.double().float(),
    'cloned': lambda x: x.clone(), 'deeply copied': copy.deepcopy, 'unary plus': lambda x: x[:] + 0,
    'rows': lambda x: gt.stack([x[n] for n in range(6)]),
    'a first update': lambda x: x.clone().index_fill_(0, gt.tensor([], dtype=gt.int64), 0.0),
}

CHANGES = {
    'an element': lambda n, x: x.__setitem__((0, 1), 50), 'a slice': lambda n, x: x.__setitem__(slice(1, 3), 51),
    'rows': lambda n, x: x.__setitem__(n.tensor([0, 5]), 52),
    'elements': lambda n, x: x.__setitem__((n.tensor([0, 5]), n.tensor([1, 1])), 53),
    'a mask': lambda n, x: x.__setitem__(x > 0, 54), 'itself': lambda n, x: x.__setitem__(slice(0, 2), x[4:].clone()),
    'scatter_': lambda n, x: x.scatter_(0, n.tensor([[0, 5, 2, 1]]), 55.0),
    'scatter_add_': lambda n, x: x.scatter_add_(0, n.tensor([[0, 5, 2, 1]]), n.ones(1, 4)),
    'scatter_reduce_': lambda n, x: x.scatter_reduce_(0, n.tensor([[0, 5, 2, 1]]), n.ones(1, 4), 'amin'),
    'index_put_': lambda n, x: x.index_put_((n.tensor([0, 0]), n.tensor([1, 1])), n.ones(2), accumulate=True),
    'index_copy_': lambda n, x: x.index_copy_(1, n.tensor([2]), n.ones(6, 1)), 'fill_': lambda n, x: x.fill_(56),
}


@pytest.mark.parametrize('change', CHANGES)
@pytest.mark.parametrize('other', OTHERS)
def test_others_keep_their_value(other, change):
    start = torch.arange(24.0).reshape(6, 4) - 10
    x, expected = gt.from_numpy(start.numpy()) + 0, start.clone()
    kept = OTHERS[other](x)
    for _ in range(2):
        CHANGES[change](gt, x)
        CHANGES[change](torch, expected)
    check(x, expected, 'the tensor')
    check(kept, start, 'the other one')
    CHANGES[change](gt, kept)
    check(x, expected, 'the tensor, after the other one changed')


def test_two_names_of_one_object():
    x = gt.zeros(3)
    y = x
    y[1] = 5
    assert x.tolist() == [0, 5, 0] and x is y


def test_an_update_from_itself():
    x = gt.arange(6).float()
    x[0:3] = x[3:6]
    x[1:5] = x[0:4].clone()
    assert x.tolist() == [3, 3, 4, 5, 3, 5]
    x[gt.tensor([0, 1])] = x[gt.tensor([2, 3])]
    assert x.tolist() == [4, 5, 4, 5, 3, 5]
    indices = gt.arange(4)
    indices[indices] = indices * 2  # the key is the tensor
    assert indices.tolist() == [0, 2, 4, 6]
    x.scatter_(0, indices[:2], x[4:].clone())
    assert x.tolist() == [3, 5, 5, 5, 3, 5]


def test_a_refused_update_leaves_the_value():
    x = gt.ones(3, requires_grad=True)
    for update in (lambda: x.__setitem__(0, 2), lambda: x.__setitem__(gt.tensor([0]), 2),
                   lambda: x.scatter_(0, gt.tensor([0]), 2.0)):
        with pytest.raises(RuntimeError, match='leaf'):
            update()
    y = x.detach().clone()
    for update in (lambda: y.__setitem__(slice(0, 2), gt.ones(3)), lambda: y.__setitem__(7, 1),
                   lambda: y.__setitem__(gt.tensor([0, 1]), gt.ones(3)), lambda: y.scatter_(4, gt.tensor([0]), 2.0),
                   lambda: y.scatter_(0, gt.tensor([[0]]), 2.0)):
        with pytest.raises((RuntimeError, IndexError, ValueError)):
            update()
    assert x.tolist() == y.tolist() == [1, 1, 1]


# ---- gradients --------------------------------------------------------------------------------------------------


# Programs for both libraries. `own` is a clone: what a gradient needs must not change.


def product_changed(n, own, x, w):
    y = w * x
    x = own(x)
    x[0] = 100.0
    return y * x


def square_changed(n, own, x, w):
    y = w * 2
    z = y * y
    y = own(y)
    y[1] = x[1]
    return z + y


def result_changed(n, own, x, w):
    y = w.exp()
    z = y * 2
    y = own(y)
    y[0:2] = x[0:2]
    return z * y


def chain_of_updates(n, own, x, w):
    y = w * 3
    y[0] = x[1]
    y[2:4] = w[0:2] * 5
    y[n.tensor([1, 4])] = w[n.tensor([3, 3])]
    y.scatter_(0, n.tensor([5]), w[:1])
    y.scatter_add_(0, n.tensor([0, 0, 3]), w[:3])
    y.index_put_((n.tensor([2, 2]),), w[4:6], accumulate=True)
    return y


def reduced(n, own, x, w):
    y = own(w * 1)
    y.scatter_reduce_(0, n.tensor([0, 0, 1]), w[3:] + x[3:], 'prod')
    y = own(y)
    y.scatter_reduce_(0, n.tensor([2, 3, 3]), w[:3], 'amax', include_self=False)
    return y * y


def into_plain_data(n, own, x, w):
    y = x * 1
    y[1:3] = w[1:3] * 2
    y[0] = w.sum()
    return y * w


def updated_while_not_recorded(n, own, x, w):
    y = own(w) * x
    with n.no_grad():
        w[0] = 7.0
        w[1] = 8.0
    return y.sum() + (w * x).sum()


PROGRAMS = [product_changed, square_changed, result_changed, chain_of_updates, reduced, into_plain_data,
            updated_while_not_recorded]


@pytest.mark.parametrize('program', PROGRAMS, ids=lambda program: program.__name__)
def test_gradients(program):
    start = torch.tensor([0.5, -1.5, 2.0, 0.25, 3.0, -0.75])
    results = []
    for library in (gt, torch):
        x = library.tensor(start.tolist())
        w = library.tensor((start * 0.5 + 1).tolist(), requires_grad=True)
        own = library.clone
        results.append((program(library, own, x, w), w))
    (ours, w), (theirs, v) = results
    ours.sum().backward()
    theirs.sum().backward()
    check(ours, theirs.detach())
    check(w.grad, v.grad)


# ---- threads ----------------------------------------------------------------------------------------------------


def test_readers_in_other_threads():
    """What another thread takes while this one updates is one value, whole, and stays it."""
    x = gt.zeros(1000)
    problems = []

    def read():
        for _ in range(300):
            kept = x.clone()
            least, most = kept.min(), kept.max()
            first = least.item()
            if not first == most.item() == kept[500].item():
                problems.append((first, most.item()))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    k = 0
    while any(reader.is_alive() for reader in readers):
        k += 1
        x[...] = k
        x.fill_(k)
        if k % 64 == 0:
            x[0].item()  # the readers' next values are not behind an endless queue of writes
    for reader in readers:
        reader.join()
    assert not problems
    assert x.tolist() == [float(k)] * 1000


def test_writers_in_several_threads():
    """Threads that write to one tensor may undo each other's last update, but each update is whole and none fails."""
    x = gt.zeros(4, 300)
    failures = []

    def write(row):
        try:
            for k in range(300):
                x[row, k] = k
                x[gt.tensor([row]), gt.tensor([k])] = k + 1.0
                x.scatter_add_(1, gt.tensor([[k]]), gt.zeros(1, 1))
        except Exception as error:  # in a thread it would be lost
            failures.append(error)

    writers = [threading.Thread(target=write, args=(row,)) for row in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not failures
    written, numbers = x.numpy(), np.arange(300.0)
    assert ((written == 0) | (written == numbers) | (written == numbers + 1)).all()
