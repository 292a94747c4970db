"""The table on the screen, and results.json."""
import dataclasses
import datetime
import json
import os
import platform
import subprocess

from processes import WARM_MALLOC

LAYOUT = "{:<44} {:>9} {:>9} {:>9} {:>7} {:>8}  {}"
UNITS = {
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "B": ((1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")),
    "instr/s": ((1e6, "M/s"), (1e3, "k/s"), (1, "/s")),
    "x": ((1, "x"),),
    "steps": ((1, "steps"),),
}


class Bounded:
    """A value with an optional bound, an upper or a lower one."""

    def met(self):
        """None without a bound; a failed measurement does not meet it."""
        if self.error:
            return False
        if self.bound is None:
            return None
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def verdict(self):
        return "FAILED" if self.error else {None: "", True: "ok", False: "MISSED"}[self.met()]


@dataclasses.dataclass
class Line(Bounded):
    """A row of the table: the ratio, and the seconds of each library."""
    name: str
    value: float = None
    bound: float = None
    at_least: bool = False
    seconds: dict = dataclasses.field(default_factory=dict)
    error: str = None


@dataclasses.dataclass
class Figure(Bounded):
    """A measurement of GT alone."""
    name: str
    value: float = None
    unit: str = None
    bound: float = None
    at_least: bool = False
    error: str = None


def quantity(value, unit):
    """1.6e-6, "s" reads 1.60 µs."""
    if value is None:
        return "-"
    scale, name = next((step for step in UNITS[unit] if abs(value) >= step[0]), UNITS[unit][-1])
    number = value / scale
    return f"{number:.{2 if abs(number) < 10 else 1 if abs(number) < 100 else 0}f} {name}"


def processor():
    """The name of the processor; on many machines /proc/cpuinfo does not have it."""
    try:
        environment = {**os.environ, "LC_ALL": "C"}
        lines = subprocess.run(["lscpu"], capture_output=True, text=True, env=environment).stdout
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines.splitlines() if line.startswith("Model name:")]
    return names[0] if names else platform.machine()


class Report:
    """Prints results as they come and keeps them."""

    def __init__(self, versions):
        self.versions = {"python": platform.python_version(), **versions}
        self.machine = {
            "processor": processor(),
            "architecture": platform.machine(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "system": platform.platform(),
            "load_before": os.getloadavg()[0],
        }
        self.date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        self.rows = []
        self.figures = []

    def print_head(self):
        machine, versions = self.machine, self.versions
        print(f"GT {versions['gt']} against torch {versions['torch']} and numpy {versions['numpy']}, "
              f"Python {versions['python']}")
        print(f"{machine['processor']}, {machine['architecture']}, {machine['cores']} cores, "
              f"{machine['memory_bytes'] / (1 << 30):.0f} GiB; "
              f"torch with {machine['cores']} threads, no_grad, malloc trim off")
        if machine["load_before"] > 0.3 * machine["cores"]:
            print(f"The machine is busy (load {machine['load_before']:.1f}): expect distorted numbers.")
        print("Times of one repetition, medians; the wait for GT to have executed all of them is included.")
        print("ratio: GT's time / torch's. For from_numpy and numpy() GT's speed / memcpy's (under numpy).\n")
        print(LAYOUT.format("work", "GT", "torch", "numpy", "ratio", "bound", ""), flush=True)

    def add_row(self, line):
        self.rows.append(line)
        times = [quantity(line.seconds.get(library), "s") for library in ("gt", "torch", "numpy")]
        ratio = "-" if line.value is None else f"{line.value:.3f}"
        bound = f"{'>=' if line.at_least else '<='} {line.bound:.2f}"
        print(LAYOUT.format(line.name, *times, ratio, bound, line.verdict()), flush=True)
        if line.error:
            print(f"    {line.error}", flush=True)

    def add_figures(self, figures):
        if not self.figures:
            print()
        for figure in figures:
            self.figures.append(figure)
            bound = ""
            if figure.bound is not None:
                bound = f"{'>=' if figure.at_least else '<='} {quantity(figure.bound, figure.unit)}"
            print(f"{figure.name:<54} {quantity(figure.value, figure.unit):>10} {bound:>12}  {figure.verdict()}")
            print(f"    {figure.error}\n" if figure.error else "", end="", flush=True)

    def bounds(self):
        """(met, all)."""
        met = [entry.met() for entry in self.rows + self.figures]
        return met.count(True), len(met) - met.count(None)

    def failed(self):
        return any(entry.error for entry in self.rows + self.figures)

    def print_foot(self):
        print("\n{} of {} bounds met".format(*self.bounds()), flush=True)

    def write(self, path):
        met, count = self.bounds()
        content = {
            "date": self.date,
            "machine": self.machine,
            "versions": self.versions,
            "torch_settings": {"threads": self.machine["cores"], "mode": "no_grad", "environment": WARM_MALLOC},
            "rows": [{**dataclasses.asdict(line), "ok": line.met()} for line in self.rows],
            "figures": [{**dataclasses.asdict(figure), "ok": figure.met()} for figure in self.figures],
            "bounds_met": met,
            "bounds": count,
        }
        path.write_text(json.dumps(content, indent=2) + "\n")
