"""Broken safetensors files: what the reference reader refuses, GT refuses too, with an error that names the file."""

import subprocess
import sys

import pytest
from safetensors.torch import load as reference_load

import gt
from support import PATIENCE_S, REPOSITORY, Collector, clean_environment

ENTRY = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
EMPTY = '{"dtype":"F32","shape":[0],"data_offsets":[%d,%d]}'
# Files that the reference loads and GT does not: it keeps the first or last of two, ignores what it does not know, or has no
# limit on dimensions.
STRICTER = {"name twice", "metadata name twice", "unknown field", "entry as a list", "nine dimensions", "dtype as an object"}


def file_of(header, data=bytes(8), length=None):
    header = header if isinstance(header, bytes) else header.encode()
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


def shaped(shape, offsets="[0,8]", dtype='"F32"', **options):
    return file_of(f'{{"a":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}}}', **options)


def files():
    """(what is wrong, the file)"""
    yield "nothing", file_of(f'{{"a":{ENTRY}}}')
    for space in (" ", "\n", "\t", "\x0c", "\x0b", "\xa0", "\ufeff", "\0"):
        yield f"{space!r} before", file_of(space + f'{{"a":{ENTRY}}}')
        yield f"{space!r} after", file_of(f'{{"a":{ENTRY}}}' + space)
        yield f"{space!r} inside", file_of(f'{{{space}"a":{ENTRY}}}')
    for text in ("null", "{}", "[]", '"x"', "1", '{"x":1}', '{"x":null}', '{"x":["y"]}', '{"x":true}', '{"x":"\\ud800"}',
                 '{"\\ud800":"x"}', '{"x":"\\u0000"}', '{"x":"\n"}', '{"x":"\\x"}', "[" * 200 + "]" * 200):
        yield f"metadata {text:.20}", file_of(f'{{"__metadata__":{text},"a":{ENTRY}}}')
    for name in ("\\ud800", "\\ud800\\udc00", "", "\\u0000", "\\udc00x", "\n", "\x01", "\\uD83D", "\\ud800\\ud800"):
        yield f"name {name!r}", file_of(f'{{"{name}":{ENTRY}}}')
    yield "name of bad UTF-8", file_of(b'{"\xff":' + ENTRY.encode() + b"}")
    yield "name of surrogate UTF-8", file_of(b'{"\xed\xa0\x80":' + ENTRY.encode() + b"}")
    yield "UTF-16", file_of(f'{{"a":{ENTRY}}}'.encode("utf-16"))
    for shape in ("[2.0]", "[2e0]", "[-2]", "[-0]", '["2"]', "[true]", "[null]", "[+2]", "[02]", "2", "null", "[1,2]", "[2,]",
                  "[NaN]", "[Infinity]", "[0x2]", "[1_0]", "[18446744073709551616]", "[4294967296,4294967296]", "[-1,-2]"):
        yield f"shape {shape}", shaped(shape)
        yield f"shape {shape}, no data", shaped(shape, offsets="[0,0]", data=b"")
    yield "nine dimensions", shaped("[2,1,1,1,1,1,1,1,1]")
    for offsets in ("[0.0,8]", "[-0,8]", "[8,0]", "[0,8,8]", "[0]", "[]", "null", "[true,8]", '[0,"8"]', "[0,9]", "[4,12]",
                    "[00,8]", "[NaN,8]", "[18446744073709551608,18446744073709551616]", "[4,8]"):
        yield f"offsets {offsets}", shaped("[2]", offsets=offsets)
    for dtype in ('"f32"', '"F8"', "null", "1", '["F32"]', '{"F32":1}'):
        yield f"dtype {dtype}", shaped("[2]", dtype=dtype)
    yield "dtype as an object", shaped("[2]", dtype='{"F32":null}')
    yield "name twice", file_of(f'{{"a":{ENTRY},"a":{ENTRY}}}')
    yield "metadata name twice", file_of(f'{{"__metadata__":{{"x":"1","x":"2"}},"a":{ENTRY}}}')
    yield "metadata twice", file_of(f'{{"__metadata__":{{}},"__metadata__":{{}},"a":{ENTRY}}}')
    yield "field twice", file_of('{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}')
    yield "unknown field", file_of('{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}}')
    yield "missing field", file_of('{"a":{"dtype":"F32","shape":[2]}}')
    yield "entry as a list", file_of('{"a":["F32",[2],[0,8]]}')
    yield "overlap", file_of(f'{{"a":{ENTRY},"b":{{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}}}')
    yield "the same bytes twice", file_of(f'{{"a":{ENTRY},"b":{ENTRY}}}')
    yield "hole", file_of(f'{{"a":{ENTRY},"b":{{"dtype":"F32","shape":[1],"data_offsets":[12,16]}}}}', bytes(16))
    yield "bytes at the end", file_of(f'{{"a":{ENTRY}}}', bytes(9))
    yield "truncated", file_of(f'{{"a":{ENTRY}}}', bytes(7))
    for at in (0, 4, 8, 9):
        yield f"an empty tensor at {at}", file_of(f'{{"z":{EMPTY % (at, at)},"a":{ENTRY}}}')
    for length in (0, 1, 1000, 100_000_001, 2**63, 2**64 - 1):
        yield f"header of {length}", file_of(f'{{"a":{ENTRY}}}', length=length)
    for size in (4, 7, 8, 9):
        yield f"{size} bytes", (b"\1" + bytes(7) + b"{")[:size]
    for header in ("", "{}", "[]", "null", '"x"', "   ", "{a:1}", "{'a':1}", f'{{"a":{ENTRY},}}', f'{{/**/"a":{ENTRY}}}'):
        yield f"header {header:.20}", file_of(header, b"" if len(header) < 10 else bytes(8))


def loads(load):
    try:
        load()
    except gt.GtError as error:
        return str(error)
    return None


def test_broken_files_are_refused_as_by_the_reference(tmp_path):
    cases = Collector(limit=30)
    for what, content in files():
        try:
            reference_load(content)
            refused = False
        except Exception:  # its own class, or what its wrapper in Python meets
            refused = True
        path = tmp_path / "x.safetensors"
        path.write_bytes(content)
        error = loads(lambda: gt.load(str(path)))
        if refused:
            cases.true(f"{what}: loaded", error is not None and "x.safetensors" in error)
        elif what not in STRICTER:
            cases.true(f"{what}: {error}", error is None)
    cases.finish()


def test_randomly_damaged_files_of_both_formats():
    """A part of what `make fuzz` tries: no crash, no odd error, and no safetensors file that the reference refuses."""
    done = subprocess.run([sys.executable, REPOSITORY / "tests" / "fuzz" / "files.py", "--files", "1500", "--seed", "1"],
                          capture_output=True, text=True, timeout=4 * PATIENCE_S, env=clean_environment())
    assert done.returncode == 0 and "1500 files" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("text", ["\\ud800", "\\udc00"])
def test_half_a_surrogate_pair_is_no_name(tmp_path, text):
    path = tmp_path / "x.safetensors"
    path.write_bytes(file_of(f'{{"{text}":{ENTRY}}}'))
    assert "not text" in loads(lambda: gt.load(str(path)))
