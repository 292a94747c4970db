"""A tour of GT's tensors: creation, arithmetic, shapes, indexing, NumPy, errors.

GT follows PyTorch's names. The first tensor starts a server inside this process.
"""
import numpy

import gt


def show(title, value):
    print(f"{title}\n{value}\n")


def main():
    # Tensors are made from Python's numbers, from NumPy, or by GT.
    a = gt.tensor([1, 2, 3, 4])
    b = gt.tensor([5, 6, 7, 8])
    show("a + b", a + b)
    gt.manual_seed(0)
    show("gt.randn(2, 3)", gt.randn(2, 3))
    show("gt.arange(6).reshape(2, 3)", gt.arange(6).reshape(2, 3))

    # Operations return at once and run in the background. Printing, item() and numpy() wait for the result.
    x = gt.randn(500, 500)
    y = (x @ x.T).relu() / 500
    show("mean of relu(x @ x.T) / 500", y.mean().item())

    # Shapes broadcast, axes may be negative, dim and axis mean the same.
    rows = gt.arange(3).reshape(3, 1)
    columns = gt.arange(4)
    show("a multiplication table", rows * columns)
    show("its sums by row, and by column", ((rows * columns).sum(dim=1), (rows * columns).sum(axis=0)))

    # Slices, masks, and assignment to them.
    table = gt.zeros(4, 6)
    table[1:3, ::2] = 1
    table[0] = gt.arange(6)
    show("table", table)
    show("table[table > 1]", table[table > 1])

    # In and out of NumPy.
    array = numpy.linspace(0, 1, 5, dtype=numpy.float32)
    tensor = gt.from_numpy(array)
    show("sin(pi t)", gt.sin(tensor * numpy.pi).data.numpy())

    # Errors raise at the line that caused them, and the session goes on.
    try:
        gt.ones(3, 4) + gt.ones(5, 6)
    except Exception as error:
        show("ones(3,4) + ones(5,6)", f"{type(error).__name__}: {error}")
    print("ran on", gt.client_description())


if __name__ == "__main__":
    main()
