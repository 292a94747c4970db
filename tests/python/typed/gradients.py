"""Autograd, distributions, functional transforms and files."""

from typing import Any, assert_type

import gt
from gt import Tensor, distributions, nn
from gt.autograd import Function


class Square(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        x: Tensor = ctx.saved_tensors[0]
        return 2 * grad * x


x = gt.tensor([1.0, 2.0], requires_grad=True)
y = Square.apply(x)
y.sum().backward()
assert_type(gt.autograd.grad((x * x).sum(), x), tuple[Tensor, ...])
handle = x.register_hook(lambda grad: grad * 2)
handle.remove()

normal = distributions.Normal(gt.zeros(3), gt.ones(3))
assert_type(normal.sample(), Tensor)
assert_type(normal.rsample((2,)), Tensor)
assert_type(normal.log_prob(gt.zeros(3)), Tensor)
assert_type(normal.mean, Tensor)
assert_type(normal.batch_shape, gt.Size)
assert_type(distributions.kl_divergence(normal, normal), Tensor)
policy = distributions.Categorical(logits=gt.zeros(4))
assert_type(policy.entropy(), Tensor)

slope = gt.func.vmap(gt.func.grad(lambda t: (t * t).sum()))
slope(gt.ones(3, 2))

with gt.autocast("cpu", dtype=gt.bfloat16):
    z = gt.ones(2, 2) @ gt.ones(2, 2)
assert_type(z, Tensor)


@gt.no_grad()
def evaluate(model: nn.Module, data: Tensor) -> Tensor:
    result: Tensor = model(data)
    return result


evaluate(nn.Linear(2, 1), gt.ones(1, 2))
