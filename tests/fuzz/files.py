"""Damaged .pt and safetensors files: gt.load reads them or raises an error that says what is wrong. It never executes code of a
file, never crashes, never takes memory that the file does not justify, and accepts no safetensors file that the format's own
reader refuses.

    python tests/fuzz/files.py [--seconds 60] [--files N] [--seed N]

The first finding ends the run: its bytes are in build-fuzz/files-KIND, and what happened is printed.
"""
import argparse
import io
import json
import pathlib
import pickle
import random
import resource
import struct
import sys
import time
import zipfile

import safetensors.numpy

import gt

FOLDER = pathlib.Path(__file__).resolve().parents[2] / 'build-fuzz'
REFUSALS = (pickle.UnpicklingError, RuntimeError, EOFError, ValueError)  # what gt.load documents
MEMORY = 4 << 30


# ---- good files ----------------------------------------------------------------------------------------------


def tensors():
    return {'w': gt.arange(12, dtype=gt.float32).view(3, 4), 'b': gt.ones(3, dtype=gt.bfloat16), 'n': gt.tensor(7),
            'e': gt.zeros(0, 2), 'm': gt.tensor([True, False])}


def good_files():
    shared = gt.arange(6.0)
    checkpoint = {'model': tensors(), 'epoch': 3, 'names': ['a', ('b', None)], 'view': shared[2:5], 'base': shared}
    for kind, value, metadata in (('pt', checkpoint, None), ('pt', tensors(), None),
                                  ('safetensors', tensors(), {'by': 'fuzz'}), ('safetensors', checkpoint, {})):
        file = io.BytesIO()
        gt.save(value, file, metadata=metadata)
        yield kind, file.getvalue()


# ---- damage --------------------------------------------------------------------------------------------------


def damage_bytes(draw, data):
    """A few bytes changed, taken away, repeated, or made the ends of their range."""
    data = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        at = draw.randrange(len(data) + 1)
        length = draw.choice((1, 1, 2, 4, 8, 64))
        how = draw.randrange(5)
        if how == 0:
            data[at:at + 1] = bytes([draw.randrange(256)])
        elif how == 1:
            del data[at:at + length]
        elif how == 2:
            data[at:at] = data[at:at + length]
        elif how == 3:
            data[at:at + length] = draw.choice((b'\0', b'\xff', b'\x7f', b'\x80')) * length
        else:
            data[at:at + 8] = struct.pack('<q', draw.choice((0, 1, -1, 2**31, 2**63 - 1, -2**63, 2**40)))
    return bytes(data)


def damage_pt(draw, data):
    """The pickle inside the archive is damaged, and the archive around it is right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, 'w', zipfile.ZIP_STORED) as new:
        for entry in archive.infolist():
            content = archive.read(entry)
            if entry.filename.endswith('data.pkl') or draw.random() < 0.1:
                content = damage_bytes(draw, content)
            if draw.random() > 0.02:
                new.writestr(entry.filename, content)
    return out.getvalue()


def damage_json(draw, value):
    """A value of the header replaced by another kind or by an absurd number."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        key = draw.choice(list(value))
        if draw.random() < 0.1:
            return {**value, draw.choice(('x', '', '__metadata__', 'dtype')): value[key]}
        if draw.random() < 0.1:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: damage_json(draw, value[key])}
    if isinstance(value, list) and value and draw.random() < 0.8:
        k = draw.randrange(len(value))
        return value[:k] + [damage_json(draw, value[k])] + value[k + draw.randrange(2):]
    if isinstance(value, int) and draw.random() < 0.6:
        return value + draw.choice((-1, 1, -4, 4, 8, 2**32, 2**62, -2**63))
    return draw.choice((0, -1, 1.5, True, None, '', 'F32', 'I64', 'U16', 'F8_E4M3', [], {}, [0, 24], 2**64, 10**30))


def damage_safetensors(draw, data):
    length = struct.unpack_from('<Q', data)[0]
    header = json.loads(data[8:8 + length])
    for _ in range(draw.choice((1, 1, 2))):
        header = damage_json(draw, header)
    text = json.dumps(header, separators=draw.choice(((',', ':'), (', ', ': ')))).encode()
    text += b' ' * draw.choice((0, 0, 8 - len(text) % 8, 3))
    rest = data[8 + length:] + b'\0' * draw.choice((0, 0, 0, 1, 8))
    return struct.pack('<Q', len(text)) + text + rest


# ---- trial ---------------------------------------------------------------------------------------------------


def accepted_by_reference(data):
    try:
        safetensors.numpy.load(data)
    except KeyError:  # a dtype that NumPy lacks: the header itself was accepted
        return True
    except Exception:  # of any kind: it refuses
        return False
    return True


def finding(kind, data):
    """What is wrong with the way gt.load takes this file; None: nothing."""
    try:
        value = gt.load(io.BytesIO(data))
    except REFUSALS as error:
        return None if str(error) else f'{type(error).__name__} without a text'
    except Exception as error:
        return f'{type(error).__name__}: {error}'
    try:
        gt.synchronize()
        repr(value)
    except Exception as error:
        return f'what was loaded cannot be shown: {type(error).__name__}: {error}'
    if kind == 'safetensors' and not accepted_by_reference(data):
        return 'loaded, but the reference reader refuses it'
    return None


def run(seconds, most, seed):
    draw = random.Random(seed)
    files = list(good_files())
    for kind, data in files:
        assert finding(kind, data) is None, finding(kind, data)
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end and count < most:
        kind, data = draw.choice(files)
        inner = damage_pt if kind == 'pt' else damage_safetensors
        data = draw.choice((damage_bytes, inner, inner))(draw, data)
        count += 1
        wrong = finding(kind, data)
        if wrong:
            FOLDER.mkdir(exist_ok=True)
            path = FOLDER / f'files-{kind}'
            path.write_bytes(data)
            print(f'file {count} of seed {seed}, {path}: {wrong}')
            return 1
    print(f'{count} files, seed {seed}')
    return 0


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('--seconds', type=float, default=60)
    parser.add_argument('--files', type=int, default=1 << 60, help='at most so many')
    parser.add_argument('--seed', type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.exit(run(options.seconds, options.files, options.seed))
