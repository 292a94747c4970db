"""The documentation is true: paths and links exist, environment variables are those that the source reads, and the
programs in README.md run."""

import re
import shutil
import subprocess
import sys

import pytest

from support import GT_BINARY, REPOSITORY

PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "benchmarks" / "README.md",
    *sorted((REPOSITORY / "docs").glob("*.md")),
]
FOLDERS = ["src", "include", "python", "tests", "benchmarks", "examples", "docs", "tools"]
SUFFIXES = "c|h|def|py|md|yaml|toml|build|service"

# Files of the reader, in examples.
EXAMPLE_FILES = {"first.py", "train.py", "evaluate.py", "your_script.py", "rows.yaml", "sharding.yaml"}
# Reserved names that the source does not read.
RESERVED = {"GT_DEBUG_COMPILE"}


def page_id(page):
    return page.relative_to(REPOSITORY).as_posix()


each_page = pytest.mark.parametrize("page", PAGES, ids=page_id)


def prose(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def code_blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.M | re.S)


def source_files():
    return [path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*") if "__pycache__" not in path.parts]


def sections(text):
    """(the folder that a heading names, or None; the text below the heading)"""
    parts = re.split(r"^#+ (.*)$", prose(text), flags=re.M)
    yield None, parts[0]
    for heading, below in zip(parts[1::2], parts[2::2]):
        yield REPOSITORY / heading if (REPOSITORY / heading).is_dir() else None, below


def is_there(name, page, folder=None):
    """Whether a path exists, from the root or beside the page. A bare name must be in `folder`; without one, anywhere."""
    if name in EXAMPLE_FILES:
        return True
    if "/" in name:
        return any(next(root.glob(name.rstrip("/")), None) for root in (REPOSITORY, page.parent))
    if folder:
        return next(folder.rglob(name), None) is not None
    return (REPOSITORY / name).exists() or name in {path.name for path in source_files()}


@each_page
def test_paths_exist(page):
    text = page.read_text()
    named = re.findall(rf"(?<![\w./-])((?:{'|'.join(FOLDERS)})/[\w.*/@-]*[\w*/])", text)  # src/core/ops.def, src/link/
    missing = {name for name in named if not is_there(name, page)} - {"benchmarks/results.json"}  # a benchmark's output
    for folder, below in sections(text):
        names = re.findall(rf"`([\w.*/-]+\.(?:{SUFFIXES}))`", below)  # `emit.c`, `examples/mlp.py`
        missing |= {name for name in names if not is_there(name, page, folder)}
    assert not missing, f"not in the tree: {' '.join(sorted(missing))}"


def anchors(page):
    """The names that GitHub and others give to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", prose(page.read_text()), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_links_work(page):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        if path.startswith("https://"):
            continue
        other = (page.parent / path).resolve() if path else page
        if not other.exists() or (anchor and anchor not in anchors(other)):
            broken.append(target)
    assert broken == []


def test_every_page_is_reachable_from_the_readme():
    found, waiting = set(), [REPOSITORY / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in found or page.suffix != ".md" or not page.exists():
            continue
        found.add(page)
        targets = re.findall(r"\]\(([^)\s#]+)", page.read_text())
        waiting += [(page.parent / target).resolve() for target in targets if "://" not in target]
    assert sorted(map(page_id, set(PAGES) - found)) == []


# ---- the site -------------------------------------------------------------------------------------------------


def check_site(output, *options):
    """Sphinx reads every page and follows every link."""
    pytest.importorskip("sphinx")
    command = [sys.executable, str(REPOSITORY / "tools" / "docs" / "build.py"), "--check", *options, str(output)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_site_has_no_dead_links(tmp_path):
    done = check_site(tmp_path / "site")
    assert done.returncode == 0, done.stderr


def test_a_dead_link_is_found(tmp_path):
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "index.md").write_text("# Pages\n\n[a](other.md#here) [b](other.md#nowhere) [c](none.md) [d](../Makefile)\n")
    (pages / "other.md").write_text("# Other\n\n## Here\n")
    done = check_site(tmp_path / "site", "--pages", str(pages))
    assert done.returncode != 0
    assert "nowhere" in done.stderr and "none.md" in done.stderr
    assert "#here" not in done.stderr and "Makefile" not in done.stderr
    (pages / "index.md").write_text("# Pages\n\n[e](../no-such-file.py)\n")
    done = check_site(tmp_path / "site", "--pages", str(pages))
    assert done.returncode != 0 and "no-such-file.py" in done.stderr


# ---- environment variables ------------------------------------------------------------------------------------


def variables_read():
    """Names that stand alone in quotes: getenv("GT_..."), the tables of settings and of log topics, os.environ."""
    files = [path for path in source_files() if path.suffix in (".c", ".h", ".py") and path.name != "test_docs.py"]
    in_source = {
        name
        for path in files
        if path.is_relative_to(REPOSITORY / "src") or path.is_relative_to(REPOSITORY / "python")
        for name in re.findall(r'"(GT_[A-Z_]+)"', path.read_text())
    }
    in_tests = {
        name
        for path in files
        for name in re.findall(r"""(?:environ(?:\.get\(|\[)|getenv\()["'](GT_[A-Z_]+)["']""", path.read_text())
    }
    return in_source | in_tests


def documented():
    """The default of each variable: the first two columns of the tables."""
    text = (REPOSITORY / "docs" / "environment.md").read_text()
    rows = re.findall(r"^\| `(GT_\w+)` \| ([^|]*) \|", text, flags=re.M)
    return {name: default.strip().strip("`") for name, default in rows}


def test_the_environment_is_documented():
    assert sorted(variables_read() - documented().keys()) == [], "missing in docs/environment.md"
    assert sorted(documented().keys() - variables_read()) == [], "not read by the source"


def test_the_defaults_of_numbers_are_documented():
    settings = (REPOSITORY / "src" / "core" / "settings.h").read_text()
    rows = re.findall(r'X\(\w+, "(GT_\w+)", \w+, [^,]+, [^,]+, ([^)]+)\)', settings)
    assert len(rows) == settings.count('"GT_') > 0
    for name, default in rows:
        told = documented()[name]
        assert told == default or (default in ("0", "-1") and not told.isdigit()), f"{name}: {told}, but it is {default}"


@each_page
def test_variables_on_other_pages_are_in_the_list(page):
    named = set(re.findall(r"\b(GT_[A-Z_]+)(?==|`)", page.read_text()))
    assert sorted(named - documented().keys() - RESERVED) == []


# ---- the programs of the README -------------------------------------------------------------------------------


def test_the_first_program_of_the_readme(programs):
    program, *_ = code_blocks((REPOSITORY / "README.md").read_text(), "python")
    expected = re.search(r"waits for the value: (.*)", program).group(1)
    first, loss = programs.run(program).splitlines()
    assert first == expected
    assert float(loss) < 1


def test_the_sharded_program_of_the_readme(programs, tmp_path):
    program = code_blocks((REPOSITORY / "README.md").read_text(), "python")[1]
    config = tmp_path / "rows.yaml"
    config.write_text(re.search(r"rows\.yaml: `(.*)`", program).group(1))
    expected = re.search(r"GT_CONFIG=rows\.yaml: (.*)", program).group(1)
    assert programs.run("import gt\n" + program, GT_CONFIG=config).strip() == expected


# Pages whose Python blocks are one program, from the first to the last, and what they leave to the reader.
RUNNING = {
    "start.md": "",
    "cookbook.md": "",
    "nan.md": "",
    "extending.md": "",
    "engines.md": "",
    "monitoring.md": "",
    "guide.md": """
import gt
dataset = [(gt.randn(784), gt.tensor(k % 10)) for k in range(128)]
""",
    "pytorch.md": """
import gt
model = gt.nn.Linear(3, 2)
optimizer = gt.optim.SGD(model.parameters(), lr=0.1)
inputs, targets = gt.randn(130, 3), gt.randn(130, 2)
""",
    "sharding.md": """
import gt
from gt import nn
import gt.nn.functional as F
gt.gpu_workers(2)
for name, shard in dict(layer1=dict(axis=0), data=dict(axis=0), columns=dict(axis=0), rows=dict(axis=1),
                        stage_0=dict(workers=[0]), stage_1=dict(workers=[1]), heads=dict(axis=1), tokens=dict(axis=0),
                        experts=dict(axis=0)).items():
    gt.register_config(name, gt.SignalConfig(shard=gt.ShardConfig(**shard)))
x, w = gt.randn(8, 8), gt.randn(8, 8)
batch, labels = [[0.5] * 8] * 6, [0, 1, 2, 3, 4, 5]
model, first, last, up, down = (nn.Linear(8, 8) for _ in range(5))
optimizer = gt.optim.SGD(model.parameters(), lr=0.1)
micro_batches = [gt.randn(4, 8)] * 3
q, k, v = gt.randn(3, 2, 4, 6, 8).unbind()
sent, tokens, expert_up, expert_down = gt.ones(2, 3, 4), gt.randn(4, 8), gt.randn(2, 8, 16), gt.randn(2, 16, 8)
""",
}


@pytest.mark.parametrize("name", RUNNING)
def test_the_programs_of_a_page_run(programs, name):
    blocks = code_blocks((REPOSITORY / "docs" / name).read_text(), "python")
    assert blocks
    programs.run(f"import os\nos.chdir({str(programs.directory)!r})\n" + RUNNING[name] + "\n".join(blocks))


def test_errors_are_those_that_the_pages_show(programs):
    """`>>> EXPRESSION` and the last line of its traceback; and names of exceptions, as tracebacks print them."""
    shown = [pair for page in PAGES for pair in re.findall(r"^>>> (.*)\n(gt\.\w+: .*)$", page.read_text(), re.M)]
    assert shown
    for expression, expected in shown:
        program = f"import gt, traceback\ntry:\n    {expression}\nexcept Exception as error:\n    print(traceback.format_exception_only(error)[-1])"
        assert programs.run(program).strip() == expected
    text = "\n".join(page.read_text() for page in PAGES)
    names = set(re.findall(r"^([\w.]+Error): .*issued at ", text, re.M))
    assert names and names <= {f"gt.{name}" for name in programs.run("import gt; print(*dir(gt))").split()}


def test_all_pages_with_programs_are_run():
    assert {page.name for page in (REPOSITORY / "docs").glob("*.md") if code_blocks(page.read_text(), "python")} == set(RUNNING)


def test_the_pictures_are_those_that_the_script_draws():
    sys.path.insert(0, str(REPOSITORY / "tools" / "docs"))
    import placements
    for name, drawing in placements.pictures().items():
        assert (REPOSITORY / "docs" / name).read_text() == drawing, f"{name}: run tools/docs/placements.py"


def test_functions_of_the_walk_exist():
    """Each `function` of the walk is in a file that the walk names, or at least in the source."""
    page = (REPOSITORY / "docs" / "source.md").read_text()
    walk = page[page.index("## The walk of"):page.index("## The other files")]
    names = set(re.findall(r"`((?:gt__?|gt_|emit|binary|number)[a-z_]+)`", walk))
    files = [path for folder in ("src", "python") for path in (REPOSITORY / folder).rglob("*.[ch]")]
    source = "\n".join(path.read_text() for path in files)
    assert len(names) > 5
    assert sorted(name for name in names if not re.search(rf"\b{name}\b", source)) == []


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd")
def test_the_units_are_valid(tmp_path):
    units = sorted((REPOSITORY / "examples" / "admin").glob("*.service"))
    assert len(units) == 2
    copies = [tmp_path / unit.name.replace("@", "@0") for unit in units]
    for unit, copy in zip(units, copies):
        copy.write_text(unit.read_text().replace("/usr/local/bin/gt", GT_BINARY))
    done = subprocess.run(["systemd-analyze", "verify", *copies], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_commands_have_the_options_shown(programs):
    """`gt COMMAND --OPTION` on any page: the command's --help lists the option."""
    used = {}
    for page in [*PAGES, *(REPOSITORY / "examples" / "admin").glob("*.service")]:
        commands = re.findall(r"\bgt (server|worker|visualize|top|trace|replay)\b([^\n`|#]*)", page.read_text())
        for command, rest in commands:
            used.setdefault(command, set()).update(re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest))
    for command, options in used.items():
        process = programs.start([GT_BINARY, command, "--help"], command)
        assert process.wait() == 0
        known = set(re.findall(r"--?[a-z][a-z-]*", process.output.read_text()))
        assert sorted(options - known) == [], command


CONTAINER = REPOSITORY / "examples" / "admin" / "Containerfile"


def container_packages():
    """Of each stage, in their order."""
    lists = re.findall(r"apt-get install -y --no-install-recommends ((?:.*\\\n)*)", CONTAINER.read_text())
    return [set(each.replace("\\", " ").split("&&")[0].split()) for each in lists]


def test_the_container_installs_what_setup_does():
    (function,) = re.findall(r"^missing_build_packages\(\) \{\n(.*?)^\}", (REPOSITORY / "tools" / "setup").read_text(), re.M | re.S)
    wanted = {name for line in re.findall(r"echo ([a-z0-9+. -]+)", function) for name in line.split()}
    assert {"gcc", "libzmq3-dev", "libmicrohttpd-dev"} < wanted, "the test reads the list"
    build, _ = container_packages()
    assert build == wanted - {"make"}, "pip builds with Meson and ninja"


def test_the_container_has_the_libraries_of_what_it_runs():
    if not shutil.which("readelf"):
        pytest.skip("no readelf")
    _, run = container_packages()
    listed = subprocess.run(["readelf", "-d", GT_BINARY], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(lib[^\].]+?)(?:-[\d.]+)?\.so", listed))
    for library in needed - {"libc", "libm", "libgcc_s", "libstdc++", "libtinfo"}:  # in every image, or of another one
        package = {"libz": "zlib1g"}.get(library, library)
        assert any(name.startswith(package) for name in run), library


def test_an_image_is_not_built_from_what_git_ignores():
    def patterns(name):
        lines = (REPOSITORY / name).read_text().splitlines()
        return {line.removeprefix("**/").strip("/") for line in lines if line and not line.startswith("#")}

    assert patterns(".gitignore") | {".git"} <= patterns(".dockerignore")
