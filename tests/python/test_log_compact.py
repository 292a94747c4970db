"""The compact instruction log (GT_INSTRUCTION_LOG=run.gtlog) and `gt log`, which prints both forms."""

import re
import subprocess

import pytest

from support import GT_BINARY, until

PROGRAM = """
    import gt
    a, b = gt.full((2, 3), 2.0), gt.arange(3)
    for k in range(COUNT):
        c = (a * b + 1.5 * k).relu()
        if k % 100 == 99:
            gt.synchronize()            # what was logged so far is written
    with gt.signal.context('end'):
        d = gt.cat([c, c], dim=1).reshape(4, 3)
    print(d.sum(dim=1).tolist())
    try:
        gt.ones(3)[-(-gt.tensor([7]))].sum().item()
    except IndexError:
        pass
"""


HEAD_BYTES = 32  # of a file; blocks follow, whose second four bytes are their length


def gt_log(*arguments, status=0):
    done = subprocess.run([GT_BINARY, "log", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def run(programs, name, count=20, **environment):
    log = programs.directory / name
    programs.run(PROGRAM.replace("COUNT", str(count)), GT_INSTRUCTION_LOG=log, GT_AUTO_COMPILE=0, **environment)
    return log


def content(text, event):
    """What a kind of line says, apart from times, numbers of lines and the program's name."""
    columns = [re.split(r" *\| *", line, maxsplit=6) for line in text.splitlines()]
    found = ["|".join(row[2:]) for row in columns if row[2] == event]
    return [re.sub(r"start=\S+ duration=\S+|#\d+|\d+-program", "", line) for line in found]


def test_both_forms_say_the_same(programs):
    text = run(programs, "run.log").read_text()
    compact = run(programs, "run.gtlog")
    printed, _ = gt_log(compact)
    assert compact.stat().st_size * 5 < len(printed)
    sequences = [int(re.search(r"#(\d+)", line)[1]) for line in printed.splitlines()]
    assert sequences == list(range(1, len(sequences) + 1))
    for event in ("RECV", "SEND", "WORKER_RECV", "ERROR", "SIGNAL"):
        assert content(text, event) and content(printed, event) == content(text, event)
    again, _ = gt_log(programs.directory / "run.log")
    assert again == text


def test_runs_of_hot_paths_are_logged_by_instruction(programs):
    """A run is one entry in the file, and its instructions are the lines: the same as where each is logged by itself, with a tape."""
    program = """
        import gt
        a, b = gt.full((2, 3), 2.0), gt.arange(3)
        for k in range(400):
            for name in ('mine', 'other')[k // 200:]:
                with gt.signal.context(name):
                    c = (a * b + 1.5 * k).relu()
                    d = gt.cat([c, c], dim=1).reshape(4, 3).sum(dim=1)
            if k % 50 == 49:
                gt.synchronize()
        print(d.tolist())
    """
    hot = {"GT_AUTO_COMPILE": 1, "GT_HOTPATH_THRESHOLD": 3, "GT_HOTPATH_MIN_SEQ": 2}
    for name, more in (("each.log", {"GT_TAPE": programs.directory / "run.tape"}), ("run.log", {}), ("run.gtlog", {})):
        programs.run(program, GT_INSTRUCTION_LOG=programs.directory / name, **hot, **more)
    texts = [gt_log(programs.directory / name)[0] for name in ("each.log", "run.log", "run.gtlog")]
    for event in ("RECV", "SIGNAL"):
        lines = [content(text, event) for text in texts]
        assert lines[0] == lines[1] == lines[2] and len(lines[0]) > (2000 if event == "RECV" else 200), event
    assert sum("op=relu" in line and " at=.py:" in line for line in content(texts[2], "RECV")) == 600
    assert any("RunPath" in line for line in content(texts[2], "RECV"))
    for text in texts:
        sequences = [int(re.search(r"#(\d+)", line)[1]) for line in text.splitlines()]
        assert sequences == list(range(1, len(sequences) + 1))


def test_lines_are_chosen(programs):
    log = run(programs, "run.gtlog")
    printed, _ = gt_log(log)
    for options, pattern in (
        (["--op", "relu"], r" op=relu( |$)"),
        (["--worker", "auto_worker"], r"\| WORKER auto_worker +\|"),
        (["--event", "SEND"], r"\| SEND +\|"),
        (["--client", "1"], r"\| CLIENT 1 +\|| (result|tensor_id)=1_"),
        (["--client", "2"], r"^$"),
    ):
        chosen, _ = gt_log(log, *options)
        assert chosen.splitlines() == [line for line in printed.splitlines() if re.search(pattern, line)], options


def test_a_log_that_was_cut_or_damaged_is_read_up_to_there(programs):
    log = run(programs, "run.gtlog", count=4000)  # more than a block has room for
    whole, _ = gt_log(log)
    data = log.read_bytes()
    log.write_bytes(data[:-7])
    cut, errors = gt_log(log)
    assert whole.startswith(cut) and 0 < len(cut) < len(whole) and "the end is cut off" in errors
    last = position = HEAD_BYTES
    while position < len(data):
        last, position = position, position + int.from_bytes(data[position + 4 : position + 8], "little")
    assert position == len(data) and last > HEAD_BYTES
    log.write_bytes(data[: last + 40] + bytes([data[last + 40] ^ 64]) + data[last + 41 :])
    damaged, errors = gt_log(log, status=1)
    assert whole.startswith(damaged) and 0 < len(damaged) < len(whole)
    assert f"the log is damaged after line #{damaged.count(chr(10)):04}" in errors
    picture = programs.directory / "picture.json"
    done = subprocess.run([GT_BINARY, "visualize", log, "-o", picture], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "is damaged after line" in done.stderr
    log.write_bytes(data[:8] + b"\xff" + data[9:])
    assert "another version of GT" in gt_log(log, status=1)[1]


def test_lines_behind_a_hole_in_a_text_are_read(tmp_path):
    """As a file system leaves one after a loss of power: zeros, longer than what is read at a time."""
    line = "{}.000000s | #000{} | RECV         | CLIENT 1                    | BinaryOp            |        64B | result=3 op=add\n"
    log = tmp_path / "holed.log"
    log.write_bytes(line.format(1, 1).encode() + bytes(3 << 20) + b"\n" + line.format(2, 2).encode())
    printed, errors = gt_log(log)
    assert printed.endswith(line.format(2, 2)) and not errors
    done = subprocess.run([GT_BINARY, "visualize", log, "-o", tmp_path / "picture.json"], capture_output=True, text=True, timeout=60)
    assert "holed.log:2: not a log line" in done.stderr and "Events: 2" in done.stdout, done


@pytest.mark.parametrize("size", [4096, 10 << 10])
def test_a_compact_log_is_rotated_by_size(programs, size):
    """Each file can be read without the others."""
    log = run(programs, "run.gtlog", count=2000, GT_INSTRUCTION_LOG_SIZE=size)
    files = [programs.directory / f"run.gtlog.{k}" for k in range(4, 0, -1)] + [log]
    last = 0
    for file in files:
        assert 0 < file.stat().st_size <= size
        for line in gt_log(file)[0].splitlines():
            sequence = int(re.match(r"\d+\.\d{6}s \| #(\d+) \| [A-Z_]+ +\| (CLIENT|WORKER) ", line)[1])
            assert last in (0, sequence - 1)
            last = sequence
    assert last > 20000


def test_a_log_is_followed(programs):
    log = programs.directory / "run.gtlog"
    log.touch()
    following = programs.start([GT_BINARY, "log", "--follow", log], "log")
    server = programs.server("--log", log)
    programs.worker(server.port, "--name", "first")
    until(lambda: "WORKER first" in following.text(), "the worker's line")
    program = "import sys, gt; gt.connect(sys.argv[1]); print(gt.ones(3).sum().item())"
    programs.run(program, f"localhost:{server.port}")
    until(lambda: re.search("DISCONNECT .*CLIENT 1", following.text()), "the client's last line")
    following.end()
