"""save and load: the safetensors format both ways with PyTorch's own package, whole files, and damaged ones."""

import io
import json
import os
import random
import struct

import numpy as np
import pytest
import torch

import gt
from support import DTYPES, check, gt_dtype, raises, to_gt, values

SHAPES = [(), (0,), (7,), (3, 0, 2), (5, 6), (2, 1, 2, 1, 2, 1, 2, 1), (311, 403)]


@pytest.fixture
def safetensors():
    """PyTorch's package for the format. Without it the format is still checked byte by byte below."""
    return pytest.importorskip("safetensors.torch", reason="the safetensors package is not installed")


def model_file(header, data=b""):
    """A file written by the format's specification, without GT."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


# ---- whole files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_ways_with_the_package(tmp_path, safetensors, dtype):
    tensors = {f"a.{k}": values(shape, dtype, k) for k, shape in enumerate(SHAPES)}
    ours, theirs = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
    gt.save({name: to_gt(x) for name, x in tensors.items()}, ours)
    safetensors.save_file(tensors, theirs, metadata={"format": "pt"})
    read, loaded = safetensors.load_file(ours), gt.load(theirs)
    assert set(read) == set(loaded) == set(tensors)
    for name, x in tensors.items():
        assert read[name].dtype == x.dtype and torch.equal(read[name], x), name
        check(loaded[name], x, name, rtol=0, atol=0)


def test_the_bytes(tmp_path):
    """Against the specification of the format: length, header, aligned elements."""
    path = tmp_path / "file.safetensors"
    gt.save({"b": gt.tensor([1, 2, 3], dtype=gt.uint8), "w": gt.tensor([[1.5, -2.0]])}, path, metadata={"who": "me"})
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    assert length % 8 == 0 and list(header) == ["__metadata__", "b", "w"]
    assert header["__metadata__"] == {"who": "me"}
    assert header["w"] == entry("F32", [1, 2], 0, 8) and header["b"] == entry("U8", [3], 8, 11)
    assert content[8 + length :] == struct.pack("<2f3B", 1.5, -2.0, 1, 2, 3)


def test_views_and_gradients(tmp_path):
    x = values((6, 8), "float32", 1)
    t = to_gt(x).requires_grad_()
    gt.save({"t": t.T, "s": t[::2, 1::3], "e": t[:1].expand(4, 8)}, tmp_path / "file.safetensors")
    loaded = gt.load(tmp_path / "file.safetensors")
    check(loaded["t"], x.T)
    check(loaded["s"], x[::2, 1::3])
    check(loaded["e"], x[:1].expand(4, 8))
    assert not loaded["t"].requires_grad


def test_large(tmp_path):
    """Through shared segments, more than one, with odd offsets."""
    tensors = {
        "x": torch.randint(0, 255, (3_000_001,), dtype=torch.uint8),
        "y": torch.randn(1000, 1001),
        "z": torch.randn(700, 700, dtype=torch.float64),
    }
    gt.save({name: to_gt(x) for name, x in tensors.items()}, tmp_path / "file.safetensors")
    for name, t in gt.load(tmp_path / "file.safetensors").items():
        check(t, tensors[name], name, rtol=0, atol=0)


def test_arrays_of_others(tmp_path, safetensors):
    x = torch.randn(3, 4).bfloat16()
    gt.save({"numpy": np.arange(6, dtype=np.int32).reshape(2, 3), "torch": x}, tmp_path / "file.safetensors")
    read = safetensors.load_file(tmp_path / "file.safetensors")
    assert torch.equal(read["torch"], x)
    assert read["numpy"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_file_is_replaced_in_one_step(tmp_path):
    path = tmp_path / "file.safetensors"
    gt.save({"x": gt.ones(3)}, path)
    bad = gt.zeros(3)[-(-gt.tensor([7]))]  # an index that only the worker can refuse
    raises(IndexError, lambda: gt.save({"x": gt.ones(2), "bad": bad}, path))
    assert gt.load(path)["x"].shape == (3,)
    assert os.listdir(tmp_path) == ["file.safetensors"]
    gt.save({"x": gt.ones(4)}, str(path))
    assert gt.load(str(path))["x"].shape == (4,)


def test_missing_file(tmp_path):
    raises(FileNotFoundError, lambda: gt.load(tmp_path / "none"), "none")
    for name in ("file.safetensors", "file.pt"):
        raises(RuntimeError, lambda: gt.save({"x": gt.ones(1)}, tmp_path / "none" / name),
               f"Parent directory {tmp_path / 'none'} does not exist.")


def test_empty_file(tmp_path):
    (tmp_path / "empty.pt").write_bytes(b"")
    raises(EOFError, lambda: gt.load(tmp_path / "empty.pt"), "empty.pt")
    raises(EOFError, lambda: gt.load(io.BytesIO()), "empty")


# ---- modules and checkpoints ----------------------------------------------------------------------------------


def build(nn):
    return nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.BatchNorm1d(5), nn.Linear(5, 2, bias=False))


def test_module_both_ways_with_torch(tmp_path, safetensors):
    ours, theirs = build(gt.nn), build(torch.nn)
    safetensors.save_file(theirs.state_dict(), tmp_path / "theirs.safetensors")
    result = ours.load_state_dict(gt.load(tmp_path / "theirs.safetensors"))
    assert not result.missing_keys and not result.unexpected_keys
    x = torch.randn(4, 3)
    theirs.eval(), ours.eval()
    check(ours(to_gt(x)).detach(), theirs(x).detach(), rtol=1e-4, atol=1e-5)
    for parameter in ours.parameters():
        parameter.data = parameter.data * 1.5
    gt.save(ours, tmp_path / "ours.safetensors")
    theirs.load_state_dict(safetensors.load_file(tmp_path / "ours.safetensors"))
    check(ours(to_gt(x)).detach(), theirs(x).detach(), rtol=1e-4, atol=1e-5)


def test_state_dict_of_arrays():
    theirs, ours = build(torch.nn), build(gt.nn)
    state = theirs.state_dict()
    ours.load_state_dict(state)
    check(ours[0].weight.detach(), state["0.weight"])
    ours.load_state_dict({name: tensor.numpy() * 2 for name, tensor in state.items()})
    check(ours[0].weight.detach(), state["0.weight"] * 2)
    theirs.load_state_dict({name: torch.from_dlpack(tensor) for name, tensor in ours.state_dict().items()})
    check(ours[3].weight.detach(), theirs[3].weight.detach())


def test_strict_names_what_is_wrong(tmp_path):
    gt.save({"0.weight": gt.ones(5, 3), "extra": gt.ones(1)}, tmp_path / "file.safetensors")
    model = build(gt.nn)
    raises(RuntimeError, lambda: model.load_state_dict(gt.load(tmp_path / "file.safetensors")), '"0.bias"', '"extra"')
    result = model.load_state_dict(gt.load(tmp_path / "file.safetensors"), strict=False)
    assert "extra" in result.unexpected_keys and "0.bias" in result.missing_keys


def test_checkpoint(tmp_path, safetensors):
    """A model and its optimiser, resumed from a file, continue with the same losses."""

    def start():
        gt.manual_seed(3)
        model = gt.nn.Sequential(gt.nn.Linear(4, 8), gt.nn.Tanh(), gt.nn.Linear(8, 1))
        return model, gt.optim.AdamW(model.parameters(), lr=0.05)

    def step(model, optimizer, k):
        gt.manual_seed(100 + k)
        loss = (model(gt.randn(16, 4)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    model, optimizer = start()
    for k in range(3):
        step(model, optimizer, k)
    gt.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, tmp_path / "file.safetensors")
    expected = [step(model, optimizer, k) for k in range(3, 6)]
    model, optimizer = start()
    checkpoint = gt.load(tmp_path / "file.safetensors")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    assert checkpoint["epoch"] == 3
    assert [step(model, optimizer, k) for k in range(3, 6)] == expected
    names = set(safetensors.load_file(tmp_path / "file.safetensors"))
    assert {"model.0.weight", "optimizer.state.0.exp_avg"} <= names


def test_nesting(tmp_path):
    x = gt.arange(3)
    nested = {"a": {"b": x}, "a.b": x + 1, 7: [x + 2, (1, 2.5, None)], "text": "é", "flag": True, "inf": float("inf")}
    gt.save(nested, tmp_path / "file.safetensors")
    loaded = gt.load(tmp_path / "file.safetensors")
    assert loaded["a"]["b"].tolist() == [0, 1, 2] and loaded["a.b"].tolist() == [1, 2, 3]
    assert loaded[7][0].tolist() == [2, 3, 4] and loaded[7][1] == (1, 2.5, None)
    assert (loaded["text"], loaded["flag"], loaded["inf"]) == ("é", True, float("inf"))
    gt.save(x, tmp_path / "file.safetensors")
    assert gt.load(tmp_path / "file.safetensors").tolist() == [0, 1, 2]
    gt.save({}, tmp_path / "file.safetensors")
    assert gt.load(tmp_path / "file.safetensors") == {}


def test_what_cannot_be_saved(tmp_path):
    path = tmp_path / "file.safetensors"
    raises(TypeError, lambda: gt.save({"x": {"f": len}}, path), "x.f", "builtin")
    raises(TypeError, lambda: gt.save({"x": {2.5: gt.ones(1)}}, path), "float")
    raises(TypeError, lambda: gt.save({"x": gt.ones(1)}, path, metadata={"n": 1}), "metadata")
    raises(ValueError, lambda: gt.save({"__metadata__": gt.ones(1)}, path), "__metadata__")
    assert os.listdir(tmp_path) == []


# ---- damaged files --------------------------------------------------------------------------------------------

F32 = entry("F32", [2], 0, 8)
STRUCTURE = {"gt.structure": '{"dict":[["a",{"tensor":"missing"}]]}'}
DAMAGED = {
    "short": (b"\1\2\3", "3 bytes"),
    "header length": (struct.pack("<Q", 1 << 62) + b"{}", "too large"),
    "header cut": (model_file({"x": F32})[:20], "truncated"),
    "not JSON": (model_file(b"{nonsense"), "JSON"),
    "not UTF-8": (model_file(b'{"\xff":1}'), "UTF-8"),
    "deep": (model_file(b"[" * 100_000), "JSON"),
    "no object": (model_file([1]), "object"),
    "duplicate": (model_file(b'{"x":%s,"x":%s}' % ((json.dumps(F32).encode(),) * 2), bytes(8)), "twice"),
    "duplicate field": (model_file(b'{"x":{"dtype":"F32","dtype":"F32"}}'), "twice"),
    "metadata": (model_file({"__metadata__": {"a": 1}}), "__metadata__"),
    "data cut": (model_file({"x": F32}, bytes(7)), "truncated"),
    "data beyond": (model_file({"x": F32}, bytes(9)), "belong to no tensor"),
    "overlap": (model_file({"x": F32, "y": entry("F32", [2], 4, 12)}, bytes(12)), "inside"),
    "same bytes": (model_file({"x": F32, "y": F32}, bytes(8)), "inside"),
    "gap": (model_file({"x": entry("F32", [1], 4, 8)}, bytes(8)), "not right after"),
    "backwards": (model_file({"x": entry("F32", [2], 8, 0)}, bytes(8)), "8 to 0"),
    "negative": (model_file({"x": entry("F32", [2], -8, 0)}, bytes(8)), "two positions"),
    "huge offset": (model_file({"x": entry("F32", [2], 0, 1 << 70)}, bytes(8)), "two positions"),
    "offset type": (model_file({"x": entry("F32", [2], 0.0, 8.0)}, bytes(8)), "two positions"),
    "byte count": (model_file({"x": entry("F32", [3], 0, 8)}, bytes(8)), "needs 12 bytes"),
    "overflowing shape": (model_file({"x": entry("F32", [1 << 61, 1 << 61, 1 << 6], 0, 8)}, bytes(8)), "needs"),
    "shape": (model_file({"x": entry("F32", [-2, -1], 0, 8)}, bytes(8)), "sizes"),
    "shape type": (model_file({"x": entry("F32", [True, 2], 0, 8)}, bytes(8)), "sizes"),
    "rank": (model_file({"x": entry("F32", [1] * 9, 0, 4)}, bytes(4)), "9 dimensions"),
    "dtype": (model_file({"x": entry("F8_E4M3", [8], 0, 8)}, bytes(8)), "F8_E4M3"),
    "dtype type": (model_file({"x": entry(["F32"], [2], 0, 8)}, bytes(8)), "dtype"),
    "no fields": (model_file({"x": {}}), "data_offsets"),
    "no entry": (model_file({"x": 5}), "data_offsets"),
    "structure": (model_file({"__metadata__": STRUCTURE}), "gt.structure"),
    "structure JSON": (model_file({"__metadata__": {"gt.structure": "{"}}), "gt.structure"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_file(tmp_path, what):
    content, word = DAMAGED[what]
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(content)
    raises(ValueError, lambda: gt.load(path), str(path), word)


def test_random_damage(tmp_path):
    """Any bytes changed, cut or added: a ValueError that names the file, or a file that the format allows."""
    path = tmp_path / "file.safetensors"
    gt.save({"a": gt.arange(4), "b.c": gt.ones(2, 3), "d": gt.zeros(0, 5), "e": [1, {"f": gt.tensor(True)}]}, path)
    whole, rng, refused = path.read_bytes(), random.Random(5), 0
    for _ in range(1500):
        content = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 8])):
            kind, at = rng.randrange(4), rng.randrange(len(content))
            if kind == 0:
                content[at] = rng.randrange(256)
            elif kind == 1:
                content[at] = rng.choice(b'{}[]",:0123456789')
            elif kind == 2:
                del content[at : at + rng.randrange(1, 9)]
            else:
                content[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
            if not content:
                content = bytearray(b"x")
        path.write_bytes(content)
        try:
            gt.load(path)
        except (EOFError, ValueError) as error:
            assert str(path) in str(error), error
            refused += 1
    assert refused > 700
