"""Timing of statements, as in torch.utils.benchmark: Timer, Measurement, Compare.

The clock waits for all instructions before it is read, so a time includes the work of the server.

    from gt.utils import benchmark
    timer = benchmark.Timer('x @ x', globals={'x': gt.randn(500, 500)}, label='product')
    print(timer.blocked_autorange())
"""

import dataclasses
import statistics
import textwrap
import time
import timeit as _timeit
from typing import Any, Callable, Optional

import gt

_UNITS = ((1e-9, 'ns'), (1e-6, 'us'), (1e-3, 'ms'), (1.0, 's'))


def timer() -> float:
    """The time in seconds, after all instructions so far are executed."""
    gt.synchronize()
    return time.perf_counter()


def _scaled(seconds):
    """(the unit that suits a time, its name)"""
    for scale, name in reversed(_UNITS):
        if seconds >= scale:
            return scale, name
    return _UNITS[0]


@dataclasses.dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What was measured: the statement and its labels."""

    stmt: str
    setup: str
    global_setup: str = ''
    label: Optional[str] = None
    sub_label: Optional[str] = None
    description: Optional[str] = None
    env: Optional[str] = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, and the part of it."""
        if self.label is None:
            return textwrap.shorten(self.stmt, 100)
        return self.label + (f': {self.sub_label}' if self.sub_label else '')

    def setup_str(self) -> str:
        """The setup, as it is shown."""
        return '' if self.setup in ('', 'pass') or not self.setup else f'setup:\n{textwrap.indent(self.setup, "  ")}'

    def summarize(self) -> str:
        """All of it as text."""
        parts = [self.title, self.description or '', self.setup_str()]
        return '\n'.join(part for part in parts if part)


@dataclasses.dataclass(init=True, repr=False)
class Measurement:
    """Times of a statement: raw_times of number_per_run executions each, in seconds."""

    number_per_run: int
    raw_times: list
    task_spec: TaskSpec
    metadata: Optional[dict] = None

    @property
    def times(self) -> list:
        """Seconds of one execution, for each run."""
        return [each / self.number_per_run for each in self.raw_times]

    @property
    def median(self) -> float:
        """The median of times."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """The mean of times."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles of times."""
        if len(self.times) < 2:
            return 0.0
        first, _, third = statistics.quantiles(self.times, n=4, method='inclusive')
        return third - first

    @property
    def significant_figures(self) -> int:
        """How many digits of the median are meaningful."""
        import math
        spread = self.iqr / max(self.median, 1e-12) / math.sqrt(max(len(self.times), 1))
        return max(1, min(4, int(-math.log10(max(spread, 1e-4)))))

    @property
    def has_warnings(self) -> bool:
        """Whether the times vary by more than a tenth of their median."""
        return self.iqr > 0.1 * self.median

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Whether they vary by less than a part of their median."""
        return len(self.times) > 1 and self.iqr < threshold * self.median

    @property
    def title(self) -> str:
        """The title of the statement."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """The environment that was named."""
        return self.task_spec.env or ''

    @property
    def as_row_name(self) -> str:
        """The name of its row in a table of Compare."""
        return self.task_spec.sub_label or f'[{textwrap.shorten(self.task_spec.stmt, 40)}]'

    @staticmethod
    def merge(measurements):
        """Measurements of the same statement as one each."""
        merged = {}
        for each in measurements:
            merged.setdefault(each.task_spec, []).append(each)
        return [Measurement(1, [seconds for each in group for seconds in each.times], spec) for spec, group in merged.items()]

    def __repr__(self):
        scale, unit = _scaled(self.median)
        lines = [f'<{type(self).__module__}.{type(self).__name__} object>', self.task_spec.summarize()]
        if len(self.raw_times) > 1:
            lines.append(f'  Median: {self.median / scale:.2f} {unit}')
            lines.append(f'  IQR:    {self.iqr / scale:.2f} {unit}')
            lines.append(f'  {len(self.raw_times)} measurements, {self.number_per_run} runs per measurement, '
                         f'{self.task_spec.num_threads} thread{"s" if self.task_spec.num_threads > 1 else ""}')
        else:
            lines.append(f'  {self.median / scale:.2f} {unit}')
            lines.append(f'  1 measurement, {self.number_per_run} runs , {self.task_spec.num_threads} thread'
                         f'{"s" if self.task_spec.num_threads > 1 else ""}')
        return '\n'.join(lines)


class Timer:
    """Times a statement.

    stmt, setup: Python source; globals: the names that they use. label, sub_label, description, env: texts for the result and for
    the rows and columns of Compare. num_threads is shown; the threads of a server are chosen when it starts
    (GT_NUM_THREADS). Statements in C++ are refused.
    """

    _timer_cls = _timeit.Timer

    def __init__(self, stmt: str = 'pass', setup: str = 'pass', global_setup: str = '', timer: Callable = timer,
                 globals: Optional[dict] = None, label: Optional[str] = None, sub_label: Optional[str] = None,
                 description: Optional[str] = None, env: Optional[str] = None, num_threads: int = 1, language: Any = 'python'):
        if str(getattr(language, 'value', language)).lower() not in ('py', 'python', '0'):
            raise NotImplementedError(f'Timer: language={language!r}; only Python is supported')
        if global_setup:
            raise ValueError('global_setup is C++ only, use setup instead.')
        names = {'gt': gt, **(globals or {})}
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip() or 'pass'
        self._task_spec = TaskSpec(stmt, setup, '', label, sub_label, description, env, num_threads)
        self._timer = self._timer_cls(stmt or 'pass', setup, timer, names)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Execute the statement `number` times, after a warm-up, and measure the whole."""
        self._timer.timeit(max(int(number // 100), 2))
        return Measurement(number, [self._timer.timeit(number)], self._task_spec)

    def _enough(self, seconds):
        """A number of executions that takes at least this long, and the time of that many."""
        number = 1
        while True:
            taken = self._timer.timeit(number)
            if taken >= seconds:
                return number
            number *= 10 if taken * 100 < seconds else 2

    def blocked_autorange(self, callback: Optional[Callable] = None, min_run_time: float = 0.2) -> Measurement:
        """Measure blocks of executions for at least min_run_time seconds; callback(number, seconds) after each block."""
        number, times = self._enough(min_run_time / 1000), []
        while not times or sum(times) < min_run_time:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
                           callback: Optional[Callable] = None) -> Measurement:
        """Measure blocks until the times vary by less than `threshold` of their median, or for max_run_time seconds."""
        number, times = self._enough(min_run_time / 10), []
        while sum(times) < max_run_time:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
            measured = Measurement(number, times, self._task_spec)
            if len(times) >= 3 and sum(times) >= min_run_time and measured.meets_confidence(threshold):
                break
        return Measurement(number, times, self._task_spec)

    def collect_callgrind(self, *arguments, **options):
        """Refused: instructions of the server are not the program's."""
        raise NotImplementedError('collect_callgrind: the work is done by the server; measure times')


class Compare:
    """A table of measurements: a row for each sub_label or statement, a column for each description.

        benchmark.Compare([timer.blocked_autorange() for timer in timers]).print()
    """

    def __init__(self, results):
        self._results, self._trim = [], False
        self.extend_results(results)

    def extend_results(self, results) -> None:
        """Add measurements."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f'Expected an instance of `Measurement`, got {type(result)} instead.')
            self._results.append(result)

    def trim_significant_figures(self) -> None:
        """Show only the digits that are meaningful."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Accepted; the table has no colours."""

    def highlight_warnings(self) -> None:
        """Accepted; the table has no colours."""

    def _cell(self, measured, scale):
        value = measured.median / scale
        return f'{value:.{measured.significant_figures}g}' if self._trim else f'{value:.1f}'

    def _table(self, label, results):
        columns = list(dict.fromkeys(each.task_spec.description or '' for each in results))
        rows = list(dict.fromkeys((each.task_spec.num_threads, each.as_row_name) for each in results))
        scale, unit = _scaled(min(each.median for each in results))
        cells = {(each.task_spec.num_threads, each.as_row_name, each.task_spec.description or ''): self._cell(each, scale) for each in results}
        width = max([len(name) for _, name in rows] + [16])
        widths = [max([len(column), *(len(cells.get((*row, column), '')) for row in rows)]) for column in columns]
        line = ' ' * (width + 2) + '  |  ' + '  |  '.join(c.center(w) for c, w in zip(columns, widths))
        text, threads = [f'[{label.center(max(len(line) - 2, 0), "-")}]', line], None
        for row in rows:
            if row[0] != threads:
                threads = row[0]
                text.append(f'{threads} threads: '.ljust(len(line), '-'))
            text.append(f'  {row[1]:{width}}  |  ' + '  |  '.join(cells.get((*row, c), '').rjust(w) for c, w in zip(columns, widths)))
        return '\n'.join([*text, '', f'Times are in {({"ns": "nano", "us": "micro", "ms": "milli", "s": ""})[unit]}seconds ({unit}).', ''])

    def __str__(self):
        tables = {}
        for each in Measurement.merge(self._results):
            tables.setdefault(each.task_spec.label or '', []).append(each)
        return '\n'.join(self._table(label, results) for label, results in tables.items())

    def print(self) -> None:
        """Print the table."""
        print(self)
