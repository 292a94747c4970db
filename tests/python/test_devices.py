"""Devices: what scripts say and ask about them. The dispatcher places tensors; the answers agree with each other."""

import pickle

import pytest
import torch

import gt
from both import outcome, same_error
from gt import nn


@pytest.mark.parametrize('arguments', [('cpu',), ('cuda',), ('cuda:1',), ('cuda', 1), ('cpu:0',), ('mps',), ('meta',)])
def test_device_objects(arguments):
    ours, theirs = gt.device(*arguments), torch.device(*arguments)
    assert (ours.type, ours.index, str(ours), repr(ours)) == (theirs.type, theirs.index, str(theirs), repr(theirs))
    assert ours == gt.device(ours) and hash(ours) == hash(gt.device(*arguments)) and pickle.loads(pickle.dumps(ours)) == ours
    assert (ours == str(ours)) == (theirs == str(theirs)) and ours != gt.device('cuda:7')
    assert gt.device(theirs) == ours


@pytest.mark.parametrize('call', [
    lambda L: L.device('foo'), lambda L: L.device('cuda:x'), lambda L: L.device('cuda:-1'), lambda L: L.device('cuda:01'),
    lambda L: L.device('cuda:1', 1), lambda L: L.device('cpu', -1), lambda L: L.device(''), lambda L: L.device(None), lambda L: L.device(1.5),
    lambda L: L.zeros(2, device='foo'), lambda L: L.zeros(2).to('foo'), lambda L: L.zeros(2).to(device='foo'), lambda L: L.arange(3, device='foo'),
    lambda L: L.linspace(0, 1, 3, device='foo'), lambda L: L.tensor([1], device='foo'), lambda L: L.ones_like(L.ones(2), device='foo'),
    lambda L: L.zeros(2).new_zeros(2, device='foo'), lambda L: L.nn.Linear(1, 1).to('foo'), lambda L: L.Generator('foo')])
def test_unknown_devices_raise(call):
    same_error(call)


def test_answers_agree():
    x, model = gt.ones(2), nn.Linear(2, 1)
    device = gt.device('cuda:0' if gt.cuda.is_available() else 'cpu')
    assert x.device == device == next(model.parameters()).device == gt.get_default_device()
    assert x.is_cuda == (device.type == 'cuda') and x.is_cpu != x.is_cuda and x.get_device() == (0 if x.is_cuda else -1)
    assert x.to(x.device) is x and x.to('cuda') is x and x.cuda() is x and x.cpu() is x and model.to(x.device) is model
    assert gt.zeros(2, device=x.device).device == x.device and gt.Generator(device=x.device).device == x.device
    assert 'device' not in repr(x) and isinstance(x.device, gt.device)
    with gt.autocast(x.device.type, dtype=gt.bfloat16):
        assert gt.mm(gt.ones(2, 2), gt.ones(2, 2)).dtype == gt.bfloat16


def test_default_devices():
    with gt.device('cpu:0') as outer:
        assert gt.get_default_device() == outer == gt.device('cpu:0')
        with gt.device('meta'):
            assert gt.get_default_device().type == 'meta'
        assert gt.get_default_device() == outer
    gt.set_default_device('cuda:1')
    try:
        assert gt.get_default_device() == gt.device('cuda', 1) and gt.ones(2).sum().item() == 2
    finally:
        gt.set_default_device(None)
    assert gt.get_default_device() == gt.ones(1).device

    @gt.device('cuda')
    def inside():
        return gt.get_default_device()
    assert inside() == gt.device('cuda') != gt.get_default_device()


@pytest.mark.parametrize('make', [
    lambda L, **o: L.zeros(2, **o), lambda L, **o: L.full((2,), 1., **o), lambda L, **o: L.arange(3, **o), lambda L, **o: L.eye(2, **o),
    lambda L, **o: L.linspace(0, 1, 3, **o), lambda L, **o: L.logspace(0, 1, 3, **o), lambda L, **o: L.zeros(2).new_ones(2, **o),
    lambda L, **o: L.ones_like(L.zeros(2), **o)])
def test_layout_and_device_are_accepted(make):
    for library in (torch, gt):
        made = make(library, device=library.device('cpu'), layout=library.strided)
        assert made.tolist() == make(torch).tolist()
    made = make(gt, device='cuda', pin_memory=True) if 'ones_like' not in make.__code__.co_names else make(gt)
    assert made.tolist() == make(torch).tolist()
    assert isinstance(outcome(lambda L: make(L, layout=L.sparse_coo), gt), NotImplementedError)
