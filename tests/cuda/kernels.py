"""The kernels of the CUDA engine without a card.

    kernels.py BUILD [--limit N] [--cards N] [--architectures A,B...] [--keep FOLDER] [TEST...]

Collects the kernels that test_engine's cases need, at most N of each op (0: all), and those of one call for each sequence of
functions that an op becomes; runs them on the host (shim.h) against the reference engine; then compiles some of them for real cards
with NVRTC, if it is installed (pip install nvidia-cuda-nvrtc): at most `cards` of each op and function for the first architecture, half
as many for the others (0: all), and the resident kernel. The same with the chains that test_program's random sequences need, against the
same steps one by one. No function of src/engines/cuda/device may be left out. BUILD is the build folder.
"""
import argparse
import ctypes
import ctypes.util
import importlib.util
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import zlib

PIECE = 500  # kernels that NVRTC compiles at once: it takes about 0.6 MB for each
SOURCE = pathlib.Path(__file__).resolve().parents[2]


def run_test(folder, limit, program, *tests, **more):
    environment = dict(os.environ, GT_TEST_ENGINE='cudahost', CUDAHOST_FOLDER=str(folder), CUDAHOST_LIMIT=str(limit), **more)
    return subprocess.run([str(program), *tests], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def compile_on_host(folder):
    """kernels.cc, which the engine cudahost wrote, to kernels.so."""
    subprocess.run([*shlex.split(os.environ.get('CXX', 'c++')), '-std=c++17', '-O1', '-fPIC', '-shared', '-fwrapv',
                    '-ffp-contract=off', '-fno-strict-aliasing', '-w', '-I', str(SOURCE / 'tests/cuda'),
                    '-I', str(SOURCE / 'src'), '-I', str(SOURCE / 'include'), '-o', str(folder / 'kernels.so'),
                    str(folder / 'kernels.cc')], check=True)


# ---- NVRTC ------------------------------------------------------------------------------------------------------

def find_nvrtc():
    """The library as a ctypes object, or None."""
    names = []
    nvidia = importlib.util.find_spec('nvidia')
    for folder in (nvidia.submodule_search_locations if nvidia else []):
        names += sorted(pathlib.Path(folder).glob('*/lib/libnvrtc.so.*'))
    names += sorted(pathlib.Path('/usr/local/cuda/lib64').glob('libnvrtc.so.*'))
    names.append(ctypes.util.find_library('nvrtc'))
    for name in filter(None, names):
        try:
            return ctypes.CDLL(str(name))
        except OSError:
            pass
    return None


def compile_for_card(nvrtc, source, architecture):
    """The compiler's messages if it fails, else None."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    words = f'--gpu-architecture={architecture}', '--std=c++17', '--device-as-default-execution-space'
    options = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b'kernels.cu', 0, None, None)
    failed = nvrtc.nvrtcCompileProgram(program, len(options), options)
    messages = None
    if failed:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, text)
        messages = text.value.decode(errors='replace')
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return messages


def choose(source, limit):
    """At most `limit` kernels of each op and function (0: all), in pieces that each have the prelude and the templates: (text, kernels)."""
    start, *kernels = re.split(r'^// kernel (.*)$', source, flags=re.MULTILINE)
    chosen, seen = [], {}
    mixed = sorted(zip(kernels[::2], kernels[1::2]), key=lambda named: zlib.crc32(named[1].encode()))
    for name, kernel in mixed:
        seen[name] = seen.get(name, 0) + 1
        if limit == 0 or seen[name] <= limit:
            chosen.append(kernel)
    pieces = [chosen[first:first + PIECE] for first in range(0, len(chosen), PIECE)]
    return [(start + ''.join(piece), len(piece)) for piece in pieces]


def compile_for_cards(folder, limit, architectures, resident):
    nvrtc = find_nvrtc()
    if nvrtc is None:
        print('skipped: NVRTC is not installed, so no kernel was compiled for a card')
        return 0
    source, failures = (folder / 'kernels.cu').read_text(), []

    def work(architecture, only_resident=False):
        began = time.monotonic()
        pieces = choose(source, limit if architecture == architectures[0] else (limit + 1) // 2)
        if only_resident:
            pieces = [((folder / 'resident.cu').read_text(), 1)]
        for text, _ in pieces:
            messages = compile_for_card(nvrtc, text, architecture)
            if messages:
                failures.append(messages)
                print(messages[:8000])
        count = sum(kernels for _, kernels in pieces)
        print(f'NVRTC: {count} kernels for {architecture} in {time.monotonic() - began:.0f} s', flush=True)

    threads = [threading.Thread(target=work, args=(architecture, alone))
               for architecture in architectures for alone in ((False, True) if resident else (False,))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(failures)


# ---- docs --------------------------------------------------------------------------------------------------------

def check_docs(folder):
    """docs/engines.md lists the ops without kernels; whether it is right."""
    text = (SOURCE / 'docs/engines.md').read_text()
    listed = re.search(r'These ops always do:\n(.*?`)\.', text, flags=re.DOTALL)
    documented = re.findall(r'`(\w+)`', listed.group(1)) if listed else []
    actual = (folder / 'never.txt').read_text().split()
    if sorted(documented) == sorted(actual):
        return True
    print('docs/engines.md should list these ops as run on the host:', ', '.join(f'`{name}`' for name in actual))
    return False


def check_functions(*folders):
    """Whether some kernel was collected of each function that kernels are made of."""
    templates = ''.join(path.read_text() for path in (SOURCE / 'src/engines/cuda/device').glob('*.cuh'))
    functions = set(re.findall(r'^template <class K> GT_F void (gt_\w+)\(const gt_\w+_params &p\)$', templates, flags=re.MULTILINE))
    collected = ''.join((folder / 'kernels.cu').read_text() for folder in folders)
    missing = functions - set(re.findall(r'^(gt_\w+)<k\d+_k>\(p\);$', collected, flags=re.MULTILINE))
    if missing:
        print('no case of test_engine and test_program needs these, so they were neither run nor compiled:', ', '.join(sorted(missing)))
    return functions and not missing


# ---- all of it -------------------------------------------------------------------------------------------------------

def test_calls(build, folder, limit, cards, architectures, tests):
    """The kernels of single calls; whether all is right."""
    test = build / 'test_engine', *tests
    collected = run_test(folder, limit, *test)
    if collected.returncode != 0:
        print(collected.stdout)
        return False
    compile_on_host(folder)
    tested = run_test(folder, limit, *test)
    print(tested.stdout)
    print('on the CPU engine instead:', ', '.join((folder / 'declined.txt').read_text().split('\n')))
    right = check_docs(folder)
    return tested.returncode == 0 and compile_for_cards(folder, cards, architectures, resident=not tests) == 0 and right


def test_chains(build, folder, cards, architectures):
    """The chains of planned sequences; whether all is right. While kernels are collected there are no groups: failures are normal."""
    test = build / 'test_program'
    run_test(folder, 0, test, CUDAHOST_CHAINS='1')
    compile_on_host(folder)
    tested = run_test(folder, 0, test, CUDAHOST_CHAINS='1')
    print(tested.stdout)
    counts = re.findall(r'(\d+) chains in (\d+) of them', tested.stdout)
    chains, launches = (sum(int(count) for count in column) for column in zip(*counts))
    if not 0 < launches < chains:
        print('no chains shared a launch')
    return tested.returncode == 0 and 0 < launches < chains and compile_for_cards(folder, 5 * cards, architectures, resident=False) == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--limit', type=int, default=3)
    parser.add_argument('--cards', type=int, default=1)
    parser.add_argument('--architectures', type=lambda text: text.split(','), default=['sm_90'])
    parser.add_argument('--keep', type=pathlib.Path, help='a folder for the sources, which are kept')
    parser.add_argument('tests', nargs='*')
    arguments = parser.parse_intermixed_args()  # tests may follow options
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.keep or pathlib.Path(name)
        (folder / 'chains').mkdir(parents=True, exist_ok=True)
        for old in folder.glob('**/kernels.so'):
            old.unlink()
        right = test_calls(arguments.build, folder, arguments.limit, arguments.cards, arguments.architectures,
                           arguments.tests)
        if not arguments.tests:
            right &= test_chains(arguments.build, folder / 'chains', arguments.cards, arguments.architectures)
            right &= bool(check_functions(folder, folder / 'chains'))
        return not right


if __name__ == '__main__':
    sys.exit(main())
