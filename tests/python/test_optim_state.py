"""The tensors of an optimiser's state are written in place, as in PyTorch: who holds one sees every later step."""

import numpy as np
import pytest
import torch

import gt

OPTIMISERS = [
    ('SGD', {'lr': 0.1, 'momentum': 0.9, 'nesterov': True}), ('SGD', {'lr': 0.1, 'momentum': 0.8, 'dampening': 0.3}),
    ('ASGD', {'lr': 0.1}), ('ASGD', {'lr': 0.1, 't0': 1}), ('Adam', {'lr': 0.1}), ('Adam', {'lr': 0.1, 'amsgrad': True}),
    ('AdamW', {'lr': 0.1}), ('AdamW', {'lr': 0.1, 'amsgrad': True}), ('Adamax', {'lr': 0.1}), ('NAdam', {'lr': 0.1}),
    ('RAdam', {'lr': 0.1}), ('RMSprop', {'lr': 0.1}), ('RMSprop', {'lr': 0.1, 'momentum': 0.9, 'centered': True}),
    ('Adagrad', {'lr': 0.1}), ('Adadelta', {'lr': 0.5}), ('Rprop', {'lr': 0.1}), ('Adafactor', {'lr': 0.1}),
    ('LBFGS', {'lr': 0.5, 'max_iter': 1}),
]


def held_after_steps(module, name, options):
    """The parameter, and the tensors of the state that were held after the first step, after more steps and loads."""
    parameter = module.nn.Parameter(module.tensor([[1.0, -2.0], [0.5, 3.0]]))
    optimiser = getattr(module.optim, name)([parameter], **options)

    def step(factor):
        def closure():
            optimiser.zero_grad()
            loss = (parameter * parameter).sum() * factor
            loss.backward()
            return loss
        optimiser.step(closure)

    step(1.0)
    state = optimiser.state[parameter]
    held = {key: value for key, value in state.items() if isinstance(value, module.Tensor) and key in KEYS}
    saved, view = optimiser.state_dict()['state'][0], {key: value.view(-1)[:1] for key, value in held.items()}
    for factor in (2.0, -0.5, 0.3):
        step(factor)
    assert held and all(state[key] is value and saved[key] is value for key, value in held.items())
    other = getattr(module.optim, name)([parameter], **options)
    other.load_state_dict(optimiser.state_dict())  # shares the tensors
    for key, value in held.items():
        value.mul_(0.5)
        assert other.state[parameter][key].flatten().tolist() == value.flatten().tolist()
    step(1.5)
    return parameter, held, view


KEYS = ('momentum_buffer', 'ax', 'exp_avg', 'exp_avg_sq', 'max_exp_avg_sq', 'exp_inf', 'square_avg', 'grad_avg', 'sum',
        'acc_delta', 'prev', 'step_size', 'row_var', 'col_var', 'prev_flat_grad')


@pytest.mark.parametrize('name, options', OPTIMISERS)
def test_state_is_written_in_place(name, options):
    ours, theirs = (held_after_steps(module, name, options) for module in (gt, torch))
    np.testing.assert_allclose(ours[0].tolist(), theirs[0].tolist(), rtol=1e-4, atol=1e-6)
    for mine, expected in zip(ours[1:], theirs[1:]):
        assert mine.keys() == expected.keys()
        for key, value in expected.items():
            np.testing.assert_allclose(mine[key].tolist(), value.tolist(), rtol=1e-4, atol=1e-6, err_msg=key)


def test_state_of_muon_is_written_in_place():
    parameter = gt.nn.Parameter(gt.ones(2, 2))
    optimiser = gt.optim.Muon([parameter], momentum=0.5)
    parameter.grad = gt.ones(2, 2)
    optimiser.step()
    held = optimiser.state[parameter]['momentum_buffer']
    parameter.grad = gt.full((2, 2), 2.0)
    optimiser.step()
    assert held is optimiser.state[parameter]['momentum_buffer'] and held.tolist() == [[1.25, 1.25], [1.25, 1.25]]


def test_maximum_of_amsgrad_is_a_tensor_of_its_own():
    results = []
    for module in (gt, torch):
        parameter = module.ones(3, requires_grad=True)
        optimiser = module.optim.Adam([parameter], 0.1, amsgrad=True)
        parameter.grad = module.ones(3)
        optimiser.step()
        state = optimiser.state[parameter]
        assert state['exp_avg_sq'] is not state['max_exp_avg_sq']
        state['max_exp_avg_sq'].mul_(0.5)
        optimiser.step()
        results.append([parameter.tolist(), state['exp_avg_sq'].tolist(), state['max_exp_avg_sq'].tolist()])
    np.testing.assert_allclose(*results, rtol=1e-5)
