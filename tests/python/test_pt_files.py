"""gt.save and gt.load with PyTorch's .pt files: both ways, bit for bit; what is refused; damaged and hostile files."""

import argparse
import collections
import copy
import io
import os
import pickle
import random
import struct
import threading
import zipfile

import numpy as np
import pytest
import torch

import gt
from support import DTYPES, check, dtype_name, gt_dtype, raises, to_gt, to_torch, torch_dtype, values

SHAPES = [(), (0,), (7,), (3, 0, 2), (5, 6), (2, 1, 2, 1, 2, 1, 2, 1), (311, 203)]


def of_torch(obj, load_options={}, **options):
    """What GT reads of a file that PyTorch wrote."""
    buffer = io.BytesIO()
    torch.save(obj, buffer, **options)
    buffer.seek(0)
    return gt.load(buffer, **load_options)


def of_gt(obj, load_options={}, **options):
    """What PyTorch reads of a file that GT wrote."""
    buffer = io.BytesIO()
    gt.save(obj, buffer, **options)
    buffer.seek(0)
    return torch.load(buffer, **load_options)


def content_of(obj, library=gt, **options):
    buffer = io.BytesIO()
    library.save(obj, buffer, **options)
    return buffer.getvalue()


def load_bytes(content, **options):
    return gt.load(io.BytesIO(content), **options)


def same_bits(ours, theirs):
    assert dtype_name(ours.dtype) == dtype_name(theirs.dtype) and tuple(ours.shape) == tuple(theirs.shape)
    if theirs.dtype == torch.bfloat16:
        theirs = theirs.view(torch.int16)
    assert bytes(ours._elements()) == theirs.contiguous().numpy().tobytes()


# ---- tensors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zipped", [True, False], ids=["archive", "legacy"])
def test_every_dtype_and_shape_both_ways(tmp_path, dtype, zipped):
    tensors = {f"a.{k}": values(shape, dtype, k) for k, shape in enumerate(SHAPES)}
    torch.save(tensors, tmp_path / "theirs.pt", _use_new_zipfile_serialization=zipped)
    loaded = gt.load(tmp_path / "theirs.pt")
    assert list(loaded) == list(tensors)
    for name, x in tensors.items():
        same_bits(loaded[name], x)
    gt.save(loaded, tmp_path / "ours.pt")
    for name, x in torch.load(tmp_path / "ours.pt").items():
        assert x.dtype == torch_dtype(dtype) and x.shape == tensors[name].shape and torch.equal(x, tensors[name]), name


def test_special_numbers():
    bits = torch.tensor([0, -0x8000, 0x7F80, 0x7FC1, 0x0001, -1], dtype=torch.int16)
    same_bits(of_torch(bits.view(torch.bfloat16)), bits.view(torch.bfloat16))
    x = torch.tensor([float("nan"), -0.0, float("inf"), -float("inf"), 1e-45])
    same_bits(of_torch(x), x)
    assert of_gt(gt.tensor(x.numpy())).numpy().tobytes() == x.numpy().tobytes()


def test_views():
    x = torch.arange(120.0).reshape(4, 5, 6)
    views = [x.t() if x.ndim == 2 else x.transpose(0, 2), x[1], x[:, ::2, 1::3], x[2:, 1:, 3], x.flatten()[7:9], x[0, 0, :1]]
    views += [x[:1, :1, :1].expand(3, 4, 5), x[..., 0].unsqueeze(1).expand(-1, 3, -1), x.as_strided((3, 3), (1, 1), 5)]
    for zipped in (True, False):
        for ours, theirs in zip(of_torch(views, _use_new_zipfile_serialization=zipped), views):
            same_bits(ours, theirs)
        for theirs in views:
            same_bits(of_torch(theirs, _use_new_zipfile_serialization=zipped), theirs)
    t = to_gt(x)
    assert torch.equal(of_gt(t.transpose(0, 2)), x.transpose(0, 2))
    assert torch.equal(of_gt(t[:, ::2, 1::3]), x[:, ::2, 1::3])


def test_tied_tensors_stay_tied():
    weight = torch.ones(3, 2)
    loaded = of_torch({"a": weight, "b": weight, "c": weight.detach()})
    assert loaded["a"] is loaded["b"] is not loaded["c"]
    loaded["a"].zero_()
    assert loaded["c"].sum().item() == 0
    t = gt.randn(3, 2)
    theirs = of_gt([t, t.detach(), t, t + 0])
    assert theirs[0] is theirs[2]
    assert theirs[0].data_ptr() == theirs[1].data_ptr() != theirs[3].data_ptr()


def test_a_shared_value_is_stored_once():
    t = gt.zeros(1000)
    assert len(content_of([t, t.detach(), t.data])) < 4000 + 2500
    names = zipfile.ZipFile(io.BytesIO(content_of([t, t.detach(), t + 1]))).namelist()
    assert [name for name in names if "/data/" in name] == ["archive/data/0", "archive/data/1"]


def test_parameters_and_gradients():
    loaded = of_torch([torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2), requires_grad=False)])
    assert [type(p) for p in loaded] == [gt.nn.Parameter] * 2
    assert [p.requires_grad for p in loaded] == [True, False]
    theirs = of_gt([gt.nn.Parameter(gt.ones(2)), gt.nn.Parameter(gt.ones(2), False), gt.ones(2).requires_grad_()])
    assert [type(p) for p in theirs] == [torch.nn.Parameter] * 2 + [torch.Tensor]
    assert [p.requires_grad for p in theirs] == [True, False, True]
    assert of_torch(torch.ones(2, requires_grad=True) * 2).requires_grad
    marked = torch.nn.Parameter(torch.ones(2))
    marked.kind = "bias"
    assert of_torch(marked).kind == "bias"


def test_other_values():
    both = {"n": None, "b": True, "i": -3, "large": 1 << 80, "f": 2.5, "t": "é\ud800", "bytes": b"\0\xff", "ba": bytearray(b"x"),
            "tuple": (1, (2, [3])), "set": {1, 2}, "complex": 1 - 2j, 5: [], "od": collections.OrderedDict(b=1, a=2),
            "counter": collections.Counter("aab"), "nan": [float("inf")]}  # fmt: skip
    assert of_torch(both) == both == of_gt(both)
    for protocol in (2, 3, 4, 5):
        assert of_torch({**both, "x": [torch.ones(2)]}, pickle_protocol=protocol)["x"][0].tolist() == [1, 1]
        assert of_gt({"x": [gt.ones(2)]}, {"weights_only": False}, pickle_protocol=protocol)["x"][0].tolist() == [1, 1]
        assert load_bytes(content_of({**both, "z": frozenset([1])} if protocol > 3 else both, pickle_protocol=protocol))
    theirs = {"size": torch.Size([2, 3]), "device": torch.device("cuda", 1), "cpu": torch.device("cpu")}
    theirs |= {name: torch_dtype(name) for name in DTYPES}
    ours = of_torch(theirs)
    assert ours["size"] == (2, 3) and ours["device"] == gt.device("cuda:1") and ours["cpu"].type == "cpu"
    assert all(ours[name] == gt_dtype(name) for name in DTYPES)
    back = of_gt(ours)
    assert back["device"] == theirs["device"] and all(back[name] == theirs[name] for name in DTYPES)


def test_shared_containers_and_cycles():
    inner = [1]
    inner.append(inner)
    loaded = of_torch({"a": inner, "b": inner})
    assert loaded["a"] is loaded["b"] and loaded["a"][1] is loaded["a"]


def test_torch_tensors_in_what_gt_saves():
    x = torch.randn(3).bfloat16()
    loaded = load_bytes(content_of({"x": x, "p": torch.nn.Parameter(x.float())}))
    same_bits(loaded["x"], x)
    assert isinstance(loaded["p"], gt.nn.Parameter)


# ---- modules and optimisers -----------------------------------------------------------------------------------


def build(nn):
    return nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.BatchNorm1d(5), nn.Linear(5, 2, bias=False))


def test_state_dicts_both_ways(tmp_path):
    ours, theirs = build(gt.nn), build(torch.nn)
    torch.save(theirs.state_dict(), tmp_path / "theirs.pt")
    state = gt.load(tmp_path / "theirs.pt")
    assert type(state) is collections.OrderedDict and state._metadata[""] == {"version": 1}
    ours.load_state_dict(state)
    x = torch.randn(4, 3)
    theirs.eval(), ours.eval()
    check(ours(to_gt(x)).detach(), theirs(x).detach(), rtol=1e-4, atol=1e-5)
    for parameter in ours.parameters():
        parameter.data = parameter.data * 1.5
    gt.save(ours.state_dict(), tmp_path / "ours.pt")
    theirs.load_state_dict(torch.load(tmp_path / "ours.pt"))
    check(ours(to_gt(x)).detach(), theirs(x).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_a_checkpoint_continues_in_the_other_library(tmp_path, name):
    """Train in one library, save model and optimiser, continue in both: the same losses."""

    def start(library):
        model = library.nn.Linear(4, 2)
        options = {"momentum": 0.9} if name == "SGD" else {}
        return model, getattr(library.optim, name)(model.parameters(), lr=0.05, **options)

    def steps(model, optimizer, library, count):
        losses = []
        for k in range(count):
            x = np.random.default_rng(k).standard_normal((8, 4)).astype(np.float32)
            loss = (model(library.tensor(x)) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    for first, second in ((torch, gt), (gt, torch)):
        model, optimizer = start(first)
        steps(model, optimizer, first, 3)
        first.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, tmp_path / "file.pt")
        other, its_optimizer = start(second)
        checkpoint = second.load(tmp_path / "file.pt")
        other.load_state_dict(checkpoint["model"])
        its_optimizer.load_state_dict(checkpoint["optimizer"])
        expected = steps(model, optimizer, first, 3)
        assert steps(other, its_optimizer, second, 3) == pytest.approx(expected, rel=1e-4)


class Model(gt.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = gt.nn.Linear(3, 2)
        self.register_buffer("scale", gt.tensor([2.0]))
        self.names = ["a", "b"]

    def forward(self, x):
        return self.layer(x) * self.scale


def test_whole_modules(tmp_path):
    model, x = Model(), gt.ones(1, 3)
    gt.save(model, tmp_path / "model.pt")
    raises(pickle.UnpicklingError, lambda: gt.load(tmp_path / "model.pt"), "Model was not an allowed global", "model.pt")
    loaded = gt.load(tmp_path / "model.pt", weights_only=False)
    assert type(loaded) is Model and loaded.names == ["a", "b"]
    assert loaded(x).tolist() == model(x).tolist()
    assert [p.requires_grad for p in loaded.parameters()] == [True, True]
    gt.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "plain.pt")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "theirs.pt")
    raises(pickle.UnpicklingError, lambda: gt.load(tmp_path / "theirs.pt", weights_only=False), "state_dict")


def test_pickle_and_deepcopy():
    t = gt.randn(3, 4).bfloat16()
    for copied in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t), copy.copy(t)):
        assert copied.dtype == t.dtype and bytes(copied._elements()) == bytes(t._elements())
    model = copy.deepcopy(Model())
    again = pickle.loads(pickle.dumps(model))
    assert again(gt.ones(1, 3)).tolist() == model(gt.ones(1, 3)).tolist()


# ---- paths and file objects -----------------------------------------------------------------------------------


def test_paths_and_file_objects(tmp_path):
    path = tmp_path / "file.pt"
    gt.save({"x": gt.ones(3)}, str(path))
    assert gt.load(str(path))["x"].tolist() == gt.load(path)["x"].tolist() == [1, 1, 1]
    assert zipfile.ZipFile(path).testzip() is None
    assert "file/data.pkl" in zipfile.ZipFile(path).namelist()
    with open(path, "rb") as file:
        assert gt.load(file)["x"].tolist() == [1, 1, 1]
    with open(tmp_path / "other.pt", "wb") as file:
        gt.save([gt.ones(2)], file)
    assert torch.load(tmp_path / "other.pt")[0].tolist() == [1, 1]
    assert torch.load(tmp_path / "other.pt", mmap=True)[0].tolist() == [1, 1]
    assert gt.load(tmp_path / "other.pt", mmap=True)[0].tolist() == [1, 1]
    with open(tmp_path / "sequence", "wb") as file:
        for k in range(3):
            torch.save(torch.tensor(k), file, _use_new_zipfile_serialization=False)
    with open(tmp_path / "sequence", "rb") as file:
        assert [gt.load(file).item() for _ in range(3)] == [0, 1, 2]
    buffer = io.BytesIO(b"before" + content_of(gt.ones(2)))
    buffer.seek(6)
    assert gt.load(buffer).tolist() == [1, 1]
    safe = io.BytesIO()
    gt.save({"x": gt.ones(2)}, safe, metadata={})
    safe.seek(0)
    assert gt.load(safe)["x"].tolist() == [1, 1]


def test_streams_that_cannot_seek():
    reading, writing = os.pipe()

    def write():
        with open(writing, "wb") as file:
            gt.save({"x": gt.arange(50_000)}, file)

    thread = threading.Thread(target=write)
    thread.start()
    with open(reading, "rb") as file:
        loaded = gt.load(file)
    thread.join()
    assert loaded["x"].sum().item() == 50_000 * 49_999 // 2


def test_records_are_aligned(tmp_path):
    path = tmp_path / "file.pt"
    gt.save([gt.ones(k, dtype=gt.uint8) for k in range(1, 9)], path)
    content = path.read_bytes()
    for entry in zipfile.ZipFile(path).infolist():
        name, extra = struct.unpack("<HH", content[entry.header_offset + 26 : entry.header_offset + 30])
        assert (entry.header_offset + 30 + name + extra) % 64 == 0, entry.filename
        assert entry.compress_type == zipfile.ZIP_STORED


def test_a_failed_save_keeps_the_old_file(tmp_path):
    path = tmp_path / "file.pt"
    gt.save(gt.ones(3), path)
    raises((pickle.PicklingError, AttributeError, TypeError), lambda: gt.save([gt.ones(2), lambda: None], path))
    bad = gt.zeros(3)[-(-gt.tensor([7]))]  # an index that only the worker can refuse
    raises(IndexError, lambda: gt.save([gt.ones(2), bad], path))
    assert gt.load(path).tolist() == [1, 1, 1]
    assert os.listdir(tmp_path) == ["file.pt"]


def test_map_location():
    content, seen = content_of({"a": torch.ones(2), "b": torch.zeros(1)}, torch), []
    for location in ["cpu", "cuda:0", gt.device("cpu"), torch.device("cpu"), {"cpu": "cuda:1"}, {}, None]:
        assert load_bytes(content, map_location=location)["a"].tolist() == [1, 1]
    assert load_bytes(content, map_location=lambda storage, place: seen.append(place))["a"].tolist() == [1, 1]
    assert seen == ["cpu", "cpu"]
    assert load_bytes(content, map_location=lambda storage, place: storage.cuda(0))["a"].tolist() == [1, 1]
    raises(RuntimeError, lambda: load_bytes(content, map_location="nonsense"), "nonsense")
    raises(TypeError, lambda: load_bytes(content, map_location=3), "map_location")


def test_arguments():
    content = content_of(gt.ones(2))
    raises(RuntimeError, lambda: load_bytes(content, pickle_module=pickle, weights_only=True), "pickle_module")
    assert load_bytes(content, pickle_module=pickle).tolist() == [1, 1]
    raises(ValueError, lambda: load_bytes(content, mmap=True), "mmap")
    raises(AttributeError, lambda: gt.load(5), "read")
    raises(AttributeError, lambda: gt.save(5, 5), "write")
    raises(TypeError, lambda: load_bytes(content, fix_import=True), "fix_import")
    raises(NotImplementedError, lambda: gt.save(1, io.BytesIO(), _use_new_zipfile_serialization=False))
    assert load_bytes(content_of("x", torch), encoding="ascii") == "x"


def test_a_pickler_written_in_c():
    class module:
        Pickler, Unpickler = pickle.Pickler, pickle.Unpickler

    content = content_of({"x": gt.ones(2)}, pickle_module=module)
    assert load_bytes(content, pickle_module=module)["x"].tolist() == [1, 1]


def test_the_other_byte_order():
    """A file of a big-endian machine, made by swapping the bytes of one of ours."""
    tensors = [gt.arange(5), gt.tensor([1.5, -2.0]), gt.tensor([1.5, 3.0]).bfloat16(), gt.tensor([True, False])]
    swapped = io.BytesIO()
    source = zipfile.ZipFile(io.BytesIO(content_of(tensors)))
    widths = {f"archive/data/{k}": t.element_size() for k, t in enumerate(tensors)}
    with zipfile.ZipFile(swapped, "w") as archive:
        for name in source.namelist():
            content = b"big" if name.endswith("byteorder") else source.read(name)
            if name in widths:
                content = np.frombuffer(content, f"u{widths[name]}").byteswap().tobytes()
            archive.writestr(name, content)
    for loaded, t in zip(load_bytes(swapped.getvalue()), tensors):
        assert bytes(loaded._elements()) == bytes(t._elements())


# ---- what is refused ------------------------------------------------------------------------------------------


class Touch:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


class Named:
    def __init__(self, function, *args):
        self.function, self.args = function, args

    def __reduce__(self):
        return self.function, self.args


def archive_of(content, records={}):
    """An archive with any pickle."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", content)
        for name, data in records.items():
            archive.writestr(f"archive/{name}", data)
    return buffer.getvalue()


@pytest.mark.parametrize("zipped", [True, False], ids=["archive", "legacy"])
@pytest.mark.parametrize("protocol", [2, 4])
def test_code_is_not_run(tmp_path, protocol, zipped):
    path = tmp_path / "file"
    hostile = {"x": torch.ones(2), "y": Touch(path)}
    content = content_of(hostile, torch, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
    raises(pickle.UnpicklingError, lambda: load_bytes(content), "posix.system", "Weights only load failed")
    assert not path.exists()
    load_bytes(content, weights_only=False)
    assert path.exists()


@pytest.mark.parametrize("function, args", [
    (eval, ("1",)), (getattr, ("", "format")), (__import__, ("os",)), (open, ("/etc/passwd",)), (np.ndarray, (3,)),
    (collections.defaultdict, (list,)), (bytearray, (1 << 40,)), (print, ()), (gt.load, ("x",)), (pickle.loads, (b"",))],
    ids=lambda value: getattr(value, "__name__", "args"))  # fmt: skip
def test_other_functions_are_refused(function, args):
    message = raises(pickle.UnpicklingError, lambda: load_bytes(archive_of(pickle.dumps(Named(function, *args), 2))))
    assert function.__name__ in message or "damaged" in message


def test_hostile_pickles():
    """Opcodes that a pickler does not write: attributes of known functions and classes, calls of values, huge lengths."""
    proto = b"\x80\x02"
    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n"
    for content in [
        rebuild + b"}(X\x04\x00\x00\x00nameK\x01ub.",  # BUILD on a function
        b"ctorch.nn.parameter\nParameter\nN}\x86b.",  # BUILD on a class
        b"ccollections\nOrderedDict\n}X\x03\x00\x00\x00abcK\x01sb.",
        b"X\x04\x00\x00\x00text)R.",  # a call of text
        b"](K\x01e)R.",
        b"ctorch\nTensor\n\x8a\x08" + bytes([0, 0, 0, 0, 0, 1, 0, 0]) + b"\x85R.",  # Tensor(1 << 40)
        b"ctorch\nfloat32\n)R.",
        b"ctorch\nFloatStorage\n)R.",
        b"r\xff\xff\xff\xff.",
        b"K\x01r\xff\xff\xff\xffj\xfe\xff\xff\xff.",
        b"X\xff\xff\xff\xffabc.",
        b"\x8b\xff\xff\xff\xff.",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"\x96\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"cos\nsystem\n.",
        b"cos.path\njoin\n.",
        b"cnt\nsystem\n.",
        b"c__builtin__\neval\n.",
        b"ctorch.hub\nload\n.",
        b"ctorch\nload\n.",
        b"ctorch._utils\n_rebuild_sparse_tensor\n.",
        b"ctorch\ncomplex32\n.",
        b"ctorch\nQInt8Storage\n.",
        b"P1\n.", b"I1\n.", b"i__builtin__\neval\n.", b"(c__builtin__\neval\no.", b"\x82\x01.", b"t.", b"0.", b".", b"",
        b"(" * 10 + b".", b"K\x01K\x02s.", b"]K\x01K\x02s.", b"}]K\x01s.", b"K\x01Q.", b"(X\x01\x00\x00\x00atQ.",
        b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x03\x00\x00\x00ziptR.",
    ]:  # fmt: skip
        raises(pickle.UnpicklingError, lambda: load_bytes(archive_of(proto + content)))
    assert gt.nn.Parameter(gt.ones(1)).requires_grad


def test_small_files_for_large_values():
    """A value that is nested without end, or has the same part again and again, is not hashed, copied or printed."""
    deep, twofold = b")" + b"\x85" * 500_000, b")" + b"2\x86" * 60
    encoded = b"c_codecs\nencode\nq\x01(X" + struct.pack("<I", 1 << 20) + b"a" * (1 << 20) + b"q\x00X\x06\x00\x00\x00latin1tR0"
    for content, words in [
        (b"}" + deep + b"Ns.", "a key of more than"),
        (b"}" + twofold + b"Ns.", "a key of more than"),
        (b"}(" + twofold + b"Nu.", "a key of more than"),
        (b"\x8f(" + twofold + b"\x90.", "a key of more than"),
        (b"(" + twofold + b"\x91.", "a key of more than"),
        (b"ccollections\nCounter\n(](" + twofold + b"etR.", "a key of more than"),
        (b"ccollections\nOrderedDict\n(](](" + twofold + b"NeetR.", "a key of more than"),
        (b"cbuiltins\nset\n(](" + twofold + b"etR.", "a key of more than"),
        (twofold + b"Q.", "Only persistent_load of storage"),
        (twofold + b")R.", "unrecognized function"),
        (b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\n" + twofold + b"X\x03\x00\x00\x00cpuK\x01tQ.", "a storage of name"),
        (b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000" + twofold + b"K\x01tQ.", "at ("),
        (encoded + b"h\x01(h\x00X\x06\x00\x00\x00latin1tR0" * 100 + b"N.", "again and again"),
    ]:  # fmt: skip
        raises(pickle.UnpicklingError, lambda: load_bytes(archive_of(b"\x80\x04" + content)), words)
    # What people do write.
    for value in ({(1, ("a", 2.0)): 3}, {1, (2, 3)}, collections.Counter([(1, 2), (1, 2)])):
        assert load_bytes(content_of(value)) == value


def test_records_that_overlap():
    """A small archive cannot have the same bytes under thousands of names."""
    data, count = bytes(1 << 16), 8
    parts = [(("storage", torch.FloatStorage, str(k), "cpu", len(data) // 4)) for k in range(count)]

    class Pickler(pickle._Pickler):
        def persistent_id(self, value):
            return parts[value.args[0]] if isinstance(value, Named) and value.function is None else None

    buffer = io.BytesIO()
    Pickler(buffer, 2).dump([Named(None, k) for k in range(count)])
    good = archive_of(buffer.getvalue(), {f"data/{k}": data for k in range(count)})
    assert len(load_bytes(good)) == count
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", buffer.getvalue())
        archive.writestr("archive/data/0", data)
        for k in range(1, count):
            entry = copy.copy(archive.infolist()[1])
            entry.filename = entry.orig_filename = f"archive/data/{k}"
            archive.filelist.append(entry)
    raises((RuntimeError, pickle.UnpicklingError), lambda: load_bytes(out.getvalue()), "overlaps others")


def test_hostile_tensors():
    """Views outside of their storage, and sizes that would need more memory than there is."""

    def file(size, stride, offset=0, count=4, data=bytes(16), key="0"):
        class Pickler(pickle._Pickler):
            def persistent_id(self, value):
                return ("storage", torch.FloatStorage, key, "cpu", count) if value == "here" else None

        buffer = io.BytesIO()
        Pickler(buffer, 2).dump(Named(torch._utils._rebuild_tensor_v2, "here", offset, size, stride, False, {}))
        return archive_of(buffer.getvalue(), {"data/0": data})

    assert load_bytes(file((2, 2), (2, 1))).tolist() == [[0, 0], [0, 0]]
    assert load_bytes(file((0, 1 << 50), (1, 1))).shape == (0, 1 << 50)
    for options in [
        {"size": (5,), "stride": (1,)}, {"size": (2,), "stride": (4,)}, {"size": (2,), "stride": (1,), "offset": 3},
        {"size": (-1,), "stride": (1,)}, {"size": (2,), "stride": (-1,), "offset": 1}, {"size": (2,), "stride": (1, 1)},
        {"size": (1,), "stride": (1,), "offset": -1}, {"size": (1.0,), "stride": (1,)}, {"size": 4, "stride": 1},
        {"size": (True,), "stride": (1,)}, {"size": (1 << 40,), "stride": (0,)}, {"size": (1 << 62,) * 2, "stride": (0, 0)},
        {"size": (1,) * 9, "stride": (1,) * 9}]:  # fmt: skip
        raises((pickle.UnpicklingError, RuntimeError), lambda: load_bytes(file(**options)))
    for options in [{"count": 3}, {"count": 1 << 40}, {"count": -4}, {"key": "1"}, {"key": "../data.pkl"}, {"data": b""}]:
        raises((pickle.UnpicklingError, RuntimeError), lambda: load_bytes(file((2,), (1,), **options)))


def test_classes_that_the_user_allows():
    content = content_of({"options": argparse.Namespace(lr=0.1, layers=[1, 2])}, torch)
    raises(pickle.UnpicklingError, lambda: load_bytes(content), "argparse.Namespace")
    with gt.serialization.safe_globals([argparse.Namespace]):
        assert load_bytes(content)["options"].layers == [1, 2]
        assert gt.serialization.get_safe_globals() == [argparse.Namespace]
    raises(pickle.UnpicklingError, lambda: load_bytes(content), "argparse.Namespace")
    gt.serialization.add_safe_globals([(argparse.Namespace, "argparse.Namespace"), np.dtype])
    assert load_bytes(content)["options"].lr == 0.1
    gt.serialization.clear_safe_globals()
    assert gt.serialization.get_safe_globals() == []
    raises(ValueError, lambda: gt.serialization.add_safe_globals([(1, 2, 3)]), "length 2")


# ---- damaged files --------------------------------------------------------------------------------------------


def test_files_that_are_no_checkpoints(tmp_path):
    raises(FileNotFoundError, lambda: gt.load(tmp_path / "none.pt"), "none.pt")
    for content in [b"x", b"PK\x03\x04", b"PK\x03\x04" + bytes(100), b"\x80\x02", b"not a checkpoint at all, but text"]:
        path = tmp_path / "file.pt"
        path.write_bytes(content)
        text = raises((RuntimeError, pickle.UnpicklingError), lambda: gt.load(path), "file.pt")
    assert "neither a .pt nor a safetensors file" in text
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    raises(RuntimeError, lambda: gt.load(path), "no data.pkl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(100_000))
    raises(RuntimeError, lambda: gt.load(path), "compressed")
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("data.pkl", "constants.pkl", "version"):
            archive.writestr(f"archive/{name}", b"")
    raises(RuntimeError, lambda: gt.load(path), "TorchScript")


def test_truncated_files():
    for zipped in (True, False):
        content = content_of({"a": torch.randn(30), "b": torch.ones(2, 3)}, torch, _use_new_zipfile_serialization=zipped)
        for length in range(7, len(content), 7):
            raises((RuntimeError, pickle.UnpicklingError), lambda: load_bytes(content[:length]))


@pytest.mark.parametrize("kind", ["ours", "archive", "legacy"])
def test_random_damage(kind):
    """Bytes changed, cut or added: an error that says so, or an object; never anything else, and no code of the file."""
    ours = {"a": gt.arange(4), "b": {"c": gt.ones(2, 3)}, "d": gt.zeros(0, 5), "e": [1, "text", (gt.tensor(True),)]}
    theirs = {"a": torch.arange(4), "b": {"c": torch.ones(2, 3)}, "e": [1, "text", (torch.nn.Parameter(torch.ones(1)),)]}
    whole = content_of(ours) if kind == "ours" else content_of(theirs, torch, _use_new_zipfile_serialization=kind != "legacy")
    rng, refused = random.Random(5), 0
    for _ in range(400):
        content = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 8])):
            action, at = rng.randrange(4), rng.randrange(len(content))
            if action == 0:
                content[at] = rng.randrange(256)
            elif action == 1:
                content[at] = rng.choice(b"cRQbqhtu}](.\x80\x81\x85\x86\x93\x94")
            elif action == 2:
                del content[at : at + rng.randrange(1, 9)]
            else:
                content[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
        try:
            load_bytes(bytes(content))
        except (EOFError, pickle.UnpicklingError, ValueError):  # GtError is a ValueError
            refused += 1
    assert refused > 100


def test_random_pickles():
    """Damage inside the pickle itself, past every checksum."""
    buffer = io.BytesIO(content_of({"a": torch.arange(4), "b": [torch.nn.Parameter(torch.ones(2)), "x", 1.5]}, torch))
    archive = zipfile.ZipFile(buffer)
    whole = archive.read("archive/data.pkl")
    records = {name.removeprefix("archive/"): archive.read(name) for name in archive.namelist() if "/data/" in name}
    rng = random.Random(7)
    for _ in range(1500):
        content = bytearray(whole)
        for _ in range(rng.choice([1, 2, 4])):
            content[rng.randrange(2, len(content))] = rng.choice([rng.randrange(256), *b"cRQbqhtu}](.\x81\x85\x86\x93\x94"])
        try:
            load_bytes(archive_of(bytes(content), records))
        except (pickle.UnpicklingError, ValueError):
            pass


def test_what_gt_wrote_before_still_loads(tmp_path):
    """Safetensors files with any name, as gt.save wrote them at first."""
    state = {"model": {"weight": gt.ones(2, 2)}, "epoch": 3, "list": [gt.arange(2), None]}
    gt.save(state, tmp_path / "file.safetensors")
    (tmp_path / "file.safetensors").rename(tmp_path / "checkpoint.pt")
    loaded = gt.load(tmp_path / "checkpoint.pt")
    assert loaded["epoch"] == 3 and loaded["list"][0].tolist() == [0, 1]
    assert to_torch(loaded["model"]["weight"]).tolist() == [[1, 1], [1, 1]]
