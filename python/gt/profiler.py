"""gt.profiler: torch.profiler's names. profile() counts and times operations, from the workers' statistics."""

import enum

from gt import _help
from gt.autograd import profiler as _profiler
from gt.autograd.profiler import record_function  # noqa: F401


class ProfilerActivity(enum.Enum):
    """What to measure. Operations are measured on the workers, whatever is asked for."""
    CPU = 0
    XPU = 1
    CUDA = 2


class ProfilerAction(enum.Enum):
    """What a schedule says of a step."""
    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(*, wait, warmup, active, repeat=0, skip_first=0):
    """A schedule for profile(): skip some steps, then in cycles wait, warm up, and record."""
    if wait < 0 or warmup < 0 or active < 1 or repeat < 0 or skip_first < 0:
        raise AssertionError('Invalid profiler schedule arguments')
    cycle = wait + warmup + active

    def action(step):
        step -= skip_first
        if step < 0 or repeat and step // cycle >= repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE
    return action


class profile(_profiler.profile):
    """A context that measures which operations the workers execute in it, and how long they take.

        with gt.profiler.profile(schedule=gt.profiler.schedule(wait=1, warmup=1, active=2), on_trace_ready=show) as prof:
            for batch in batches:
                train(batch)
                prof.step()

    schedule: which steps to measure, all by default. on_trace_ready: called with the profile when measured steps are complete.
    The other arguments are accepted: shapes, memory and stacks are not recorded.
    """

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False, profile_memory=False,
                 with_stack=False, with_flops=False, with_modules=False, experimental_config=None, acc_events=False):
        super().__init__()
        self._action, self._ready, self.step_num, self._measuring = schedule, on_trace_ready, 0, False

    def _wanted(self):
        action = self._action(self.step_num) if self._action else ProfilerAction.RECORD
        return action, action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)

    def _begin(self):
        if self._wanted()[1] and not self._measuring:
            super().__enter__()
            self._measuring = True

    def _end(self):
        if self._measuring:
            super().__exit__()
            self._measuring = False
            if self._ready:
                self._ready(self)

    def __enter__(self):
        self._begin()
        return self

    def __exit__(self, *exception):
        self._end()
        return False

    start = __enter__

    def step(self):
        """The next step begins."""
        if self._wanted()[0] == ProfilerAction.RECORD_AND_SAVE:
            self._end()
        self.step_num += 1
        self._begin()


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """Refused with a hint: there are no traces."""
    raise NotImplementedError('tensorboard_trace_handler: set GT_INSTRUCTION_LOG and use `gt visualize` (docs/monitoring.md)')


__dir__ = _help.publish(__name__, 'record_function')
