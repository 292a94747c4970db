"""record_function, and profile(): the operations of a block with their counts and times, from the workers' statistics."""

import contextlib
import json
import time

from gt import _gt, _help


class record_function(contextlib.ContextDecorator):
    """Name a block: its start is a mark in the instruction log, which gt visualize shows.

        with gt.autograd.profiler.record_function('loading'):
            batch = next(batches)
    """

    def __init__(self, name, args=None):
        self.name, self.args = str(name), args

    def __enter__(self):
        _gt.signal_mark(self.name[:120])
        return self

    def __exit__(self, *exception):
        return False


def _operations():
    """Counts and seconds of each op, over all workers; waits until they have executed everything."""
    if _gt.current() is None:
        return {}
    total = {}
    for worker in json.loads(_gt.stats(True))['workers']:
        for op, row in worker.get('ops', {}).items():
            count, seconds = total.get(op, (0, 0.0))
            total[op] = count + row['count'], seconds + row['seconds']
    return total


_HOT_PATH = 'hot path'  # the row of the runs of hot paths
_NAMES = {'repeat': _HOT_PATH}
_HIDDEN = ('stats', 'free', 'sync', 'path')


class Average:
    """One row of key_averages(): key, count, cpu_time_total in microseconds."""

    def __init__(self, key, count, seconds):
        self.key, self.count = key, count
        self.cpu_time_total = self.self_cpu_time_total = seconds * 1e6
        self.cpu_time = self.cpu_time_total / max(count, 1)

    def __repr__(self):
        return f'<{self.key}: {self.count} x {self.cpu_time:.1f} us>'


class Averages(list):
    """The rows of key_averages()."""

    def table(self, sort_by=None, row_limit=100, **options):
        """A table as text, sorted by total time, or by 'count'."""
        rows = sorted(self, key=lambda row: -(row.count if sort_by == 'count' else row.cpu_time_total))[:row_limit]
        lines = [f'{"Name":<24} {"# of Calls":>12} {"total us":>14} {"avg us":>12}']
        lines += [f'{row.key:<24} {row.count:>12} {row.cpu_time_total:>14.1f} {row.cpu_time:>12.2f}' for row in rows]
        if any(row.key == _HOT_PATH for row in rows):
            lines.append("Instructions in hot paths count in the rows of their ops; their time is in the row 'hot path'.")
        return '\n'.join(lines)

    def total_average(self):
        """All rows as one."""
        return Average('Total', sum(row.count for row in self), sum(row.cpu_time_total for row in self) * 1e-6)


class profile:
    """A context that measures which operations the workers execute in it, and how long they take.

        with gt.autograd.profiler.profile() as prof:
            model(x)
        print(prof.key_averages().table())
    """

    def __init__(self, enabled=True, **options):
        self.enabled, self._rows = enabled, Averages()

    def __enter__(self):
        if self.enabled:
            self._before, self._start = _operations(), time.perf_counter()
        return self

    def __exit__(self, *exception):
        if self.enabled:
            after = _operations()
            self.seconds = time.perf_counter() - self._start
            rows = [(_NAMES.get(op, op), count - self._before.get(op, (0, 0))[0], seconds - self._before.get(op, (0, 0))[1])
                    for op, (count, seconds) in after.items() if op not in _HIDDEN]
            self._rows = Averages(Average(*row) for row in rows if row[1] > 0)
        return False

    start = __enter__

    def stop(self):
        """End of the measured part."""
        self.__exit__()

    def step(self):
        """Accepted; the whole block is measured as one."""

    def key_averages(self, group_by_input_shape=False, **options):
        """A row for each kind of operation."""
        return self._rows

    def table(self, *arguments, **options):
        """key_averages().table(...)."""
        return self._rows.table(*arguments, **options)

    def export_chrome_trace(self, path):
        """Refused with a hint."""
        raise NotImplementedError('export_chrome_trace: set GT_INSTRUCTION_LOG and use `gt visualize` (docs/monitoring.md)')

__dir__ = _help.publish(__name__)
