"""Works that gain from running as one pass (works.py): chains of elementwise operations and reductions, and updates."""

from works import inputs, repeat, work


@work
def relu_chain(lib):
    """relu(x * 2 + 1) * x on 4 M floats."""
    x, = map(lib.tensor, inputs(2048, 2048))
    relu = lib.module.relu
    return repeat(lib, lambda: relu(x * 2 + 1) * x)


@work
def gelu_block(lib):
    """gelu(x @ W + b), 512x1024 and 1024x1024."""
    x, bias = map(lib.tensor, (inputs(512, 1024)[0], inputs(1024)[0]))
    weight = lib.tensor(inputs(1024, 1024)[0] * 0.03)
    gelu = lib.module.nn.functional.gelu
    return repeat(lib, lambda: gelu(x @ weight + bias))


@work
def norm_chain(lib):
    """gelu(layer norm(x)) + x on 4096x1024, forward and backward."""
    x, gradient = (lib.tensor(array) for array in inputs(4096, 1024, count=2))
    weight, bias = (lib.tensor(array).requires_grad_() for array in inputs(1024, count=2))
    functional = lib.module.nn.functional
    x.requires_grad_()

    def step():
        with lib.module.enable_grad():
            x.grad = weight.grad = bias.grad = None
            y = functional.gelu(functional.layer_norm(x, (1024,), weight, bias)) + x
            y.backward(gradient)
        return x.grad
    return repeat(lib, step)


@work
def adamw_update(lib):
    """AdamW's update of 10 M parameters."""
    parameter, gradient = (lib.tensor(array) for array in inputs(2500, 4000, count=2))
    parameter.requires_grad_()
    parameter.grad = gradient
    optimizer = lib.module.optim.AdamW([parameter], lr=1e-3)

    def step():
        optimizer.step()
        return parameter.detach()
    return repeat(lib, step)
