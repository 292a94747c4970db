"""The kernels of the CUDA engine without a card.

    kernels.py host BUILD [TEST...]    every generated kernel that test_engine needs, run on the host (shim.h), against the
                                       reference engine
    kernels.py nvrtc BUILD             compile generated kernels for real cards; needs NVRTC (pip install nvidia-cuda-nvrtc)

BUILD is the build folder. Exit status 77: skipped, with the reason on the standard output.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def run_engine_test(build, folder, tests):
    environment = dict(os.environ, GT_TEST_ENGINE='cudahost', CUDAHOST_FOLDER=str(folder))
    return subprocess.run([str(build / 'test_engine'), *tests], env=environment, stdout=subprocess.PIPE, text=True)


def compile_on_host(folder):
    """kernels.cc, which the engine cudahost wrote, to kernels.so."""
    subprocess.run([os.environ.get('CXX', 'g++'), '-std=c++17', '-O1', '-fPIC', '-shared', '-fwrapv',
                    '-ffp-contract=off', '-fno-strict-aliasing', '-w', '-I', str(SOURCE / 'tests/cuda'),
                    '-I', str(SOURCE / 'src'), '-I', str(SOURCE / 'include'), '-o', str(folder / 'kernels.so'),
                    str(folder / 'kernels.cc')], check=True)


def host(build, tests):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(os.environ.get('CUDAHOST_KEEP', name))
        collected = run_engine_test(build, folder, tests)
        if collected.returncode != 0:
            print(collected.stdout)
            return 1
        compile_on_host(folder)
        tested = run_engine_test(build, folder, tests)
        print(tested.stdout)
        print('on the CPU engine instead:', ', '.join((folder / 'declined.txt').read_text().split('\n')))
        return tested.returncode


if __name__ == '__main__':
    command, build, *rest = sys.argv[1:]
    sys.exit(host(pathlib.Path(build), rest))
