"""The layout of src/ follows the data flow: each folder includes only the folders listed here."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The folders and headers that a folder may include, besides its own.
ALLOWED = {
    "core": ["gt.h"],
    "link": ["core"],
    "client": ["core", "link"],
    "client/gradients": ["core", "client"],
    "dispatcher": ["core", "link", "dispatcher/spread", "dispatcher/observe", "dispatcher/recover", "dispatcher/live", "dispatcher/journal"],
    "dispatcher/spread": ["core", "link", "dispatcher", "dispatcher/live"],
    "dispatcher/recover": ["core", "link", "dispatcher", "dispatcher/spread", "dispatcher/live", "dispatcher/journal"],
    "dispatcher/journal": ["core", "link", "dispatcher", "dispatcher/spread", "dispatcher/recover", "dispatcher/live/handover.h"],  # detached sessions
    "dispatcher/live": ["core", "link", "dispatcher", "dispatcher/spread", "dispatcher/recover", "dispatcher/observe", "dispatcher/journal"],
    "dispatcher/observe": ["core", "link", "dispatcher", "dispatcher/spread", "dispatcher/live"],
    "engines": ["core"],
    "worker": ["core", "link", "engines/engine.h", "engines/plan.h", "engines/host_memory.h", "worker/peers"],
    "worker/peers": ["core", "link", "engines/engine.h", "engines/loader.h", "worker"],  # the loader finds plug-ins of both kinds
    "worker/peers/ucx": ["worker/peers/lane.h"],
    "cli": ["core", "link", "dispatcher", "dispatcher/observe", "worker"],
}
# engines/cpu, engines/reference, ...: the table, and the interface. Not each other, and not the worker.
ENGINE = ["core", "engines/engine.h", "engines/group.h", "engines/host_memory.h", "engines/loop.h", "engines/plan.h", "engines/plugin.h", "engines/special.h", "engines/complex_template.h",
          "engines/complex_template_end.h",
          "engines/special_real.h"]
# cli/top, cli/replay, ...
TOOL = ["cli", "core", "dispatcher/handles.h", "dispatcher/observe", "link", "worker"]

# cli/http: the dashboard runs inside the server, and shows what `gt top` shows.
DASHBOARD = [*TOOL, "cli/top", "dispatcher/dispatcher.h", "dispatcher/orders.h"]

# cli/simulate: runs a dispatcher between clients and workers that it plays, and measures instructions as `gt replay` runs them.
SIMULATOR = [*TOOL, "cli/replay", "client/hotpath.h", "dispatcher/dispatcher.h", "dispatcher/paths.h", "dispatcher/share.h", "worker/peers/collective.h"]

# The embedded server is a dispatcher and workers inside the client's process.
EXCEPTIONS = {
    ("client/embedded.c", "dispatcher/dispatcher.h"),
    ("client/embedded.c", "worker/worker.h"),
}


def allowed(folder):
    if folder.startswith("engines/"):
        return ENGINE
    if folder == "cli/simulate":
        return SIMULATOR
    if folder == "cli/http":
        return DASHBOARD
    if folder.startswith("cli/"):
        return TOOL
    return ALLOWED[folder]


def includes(path):
    return re.findall(r'^#include "([^"]+)"', path.read_text(), re.M)


def violations(src):
    for path in sorted(src.rglob("*.[ch]")):
        name = path.relative_to(src).as_posix()
        folder = path.parent.relative_to(src).as_posix()
        for header in includes(path):
            of = str(Path(header).parent.as_posix())
            fits = of == folder or of in allowed(folder) or header in allowed(folder)
            if not fits and (name, header) not in EXCEPTIONS:
                yield f"{name} includes {header}"


def test_folders_include_what_they_may():
    assert list(violations(ROOT / "src")) == []


def test_a_violation_is_found(tmp_path):
    (tmp_path / "core").mkdir()
    (tmp_path / "engines" / "cpu").mkdir(parents=True)
    (tmp_path / "core" / "a.c").write_text('#include "link/link.h"\n')
    (tmp_path / "engines" / "cpu" / "b.c").write_text('#include "worker/store.h"\n#include "core/op.h"\n')
    assert list(violations(tmp_path)) == ["core/a.c includes link/link.h", "engines/cpu/b.c includes worker/store.h"]


def test_headers_are_included_with_their_folder():
    for path in [*(ROOT / "src").rglob("*.[ch]"), *(ROOT / "python").rglob("*.[ch]"), *(ROOT / "tests").rglob("*.[ch]")]:
        for header in includes(path):
            if header.startswith("gt"):
                continue  # the public header and its table
            if "/" in header:
                assert (ROOT / "src" / header).exists(), f"{path} includes {header}"
            else:
                assert path.parts[-3:-1] in [("tests", "c"), ("tests", "cuda"), ("tests", "fuzz"), ("python", "extension")], f"{path} includes {header}"
