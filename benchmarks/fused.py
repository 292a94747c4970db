"""Works that gain from running as one pass (works.py): chains of elementwise operations and reductions, and updates."""

from works import inputs, repeat, work


@work
def relu_chain(lib):
    """x = relu(x * 2 + 1) * x on 4 M floats between -0.5 and 0, which stay there. Each result is used: none may be left out."""
    x = lib.tensor(abs(inputs(2048, 2048)[0]) % 0.5 * -1)
    relu = lib.module.relu

    def step():
        nonlocal x
        x = relu(x * 2 + 1) * x
        return x
    return repeat(lib, step)


@work
def gelu_block(lib):
    """x = gelu(x @ W + b), 512x1024 and 1024x1024."""
    x, bias = map(lib.tensor, (inputs(512, 1024)[0], inputs(1024)[0]))
    weight = lib.tensor(inputs(1024, 1024)[0] * 0.03)
    gelu = lib.module.nn.functional.gelu

    def step():
        nonlocal x
        x = gelu(x @ weight + bias)
        return x
    return repeat(lib, step)


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
