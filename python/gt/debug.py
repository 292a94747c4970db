"""The autograd tape of this thread's client, and statistics of the dispatcher and its workers.

src/dispatcher/stats.c explains the numbers. docs/monitoring.md describes the other tools: the instruction log, gt top,
tapes, and the variables GT_VERBOSE and GT_DEBUG_*.
"""

import collections
import json

from gt import _gt, _help

TapeEntry = collections.namedtuple('TapeEntry', 'number op shape inputs consumed')
TapeEntry.__doc__ = """One recorded operation: its number, its op ('leaf' for a tensor that requires a gradient), the
shape of its result, the numbers of the entries it was computed from, and whether backward() has consumed it."""


def get_tape():
    """The operations recorded for backward(), oldest first, as TapeEntry tuples."""
    return [TapeEntry(*entry) for entry in _gt._tape()]


def print_tape():
    """Print get_tape(), one operation per line."""
    tape = get_tape()
    print(f'autograd tape: {len(tape)} {"entry" if len(tape) == 1 else "entries"}')
    for entry in tape:
        inputs = ', '.join(f'%{number}' for number in entry.inputs)
        used = '  (used by backward)' if entry.consumed else ''
        print(f'  %{entry.number} = {entry.op}({inputs})  {tuple(entry.shape)}{used}')


def progress(show=True):
    """Show progress during long waits, or not. A wait longer than two seconds shows one line on standard error, if that is a
    terminal: how many instructions are left, and what runs on which worker. Returns whether it was shown so far. The environment
    variable GT_PROGRESS=0 turns it off, too."""
    return _gt._progress(show)


def name(tensor, text):
    """Give a tensor of the program a name, such as 'layer2.weight', under which `gt replay` speaks of it (docs/nan.md). Parameters have
    those of named_parameters(), which the first call of their model gives them. A name stays with the tensor through in-place updates;
    a view of a part of a tensor gets none. Returns the tensor."""
    tensor._name(text)
    return tensor


def dispatcher_stats(wait=False):
    """The dispatcher's statistics as a dictionary: its own, what is known of each worker now, and each client with the
    counters of its stream modifiers (a client with a key sees those of its own user: docs/security.md). They come within 50 ms,
    whatever is queued. With `wait`, the dispatcher takes this client's instructions so far first, and its counters
    have all of them; it does not wait for the workers."""
    return json.loads(_gt.stats(False, wait))


def get_worker_stats(wait=False):
    """The statistics of each worker, by name: counters are of all clients together. They come within 50 ms, also while the
    workers are busy: what they have not executed yet is in 'queue', not in the counters. With `wait`, the workers execute this
    client's instructions so far first, and all are counted.

    Among them: 'doing' (the op that it executes, also in a hot path, and for how many seconds; None: it waits), 'total_instructions', 'ops' (by op: count, seconds, bytes of the results), 'busy_seconds', 'idle_seconds',
    'bytes', 'memory' (tensors, used, pooled, limit), and 'hotpath': this client's hot paths (docs/compilation.md), and how
    the worker ran those of all clients. 'hot_instructions', 'unique_sequences' and 'hot_sequences' are those of 'hotpath', or None if hot paths
    are off. Instructions of paths are counted by op; their time is that of the op 'repeat'."""
    hotpath = _hotpath()
    del hotpath['paths'], hotpath['client']
    workers = {worker['name']: worker for worker in json.loads(_gt.stats(True, wait))['workers']}
    for worker in workers.values():
        paths = worker.pop('paths')
        worker['hotpath'] = hotpath | {'hits': hotpath['runs'], 'worker_runs': paths.pop('runs')} | paths
        if hotpath['enabled']:
            worker.update({name: hotpath[name] for name in ('hot_instructions', 'unique_sequences', 'hot_sequences')})
    return workers


def _hotpath():
    return json.loads(_gt._hot_paths())


def get_hot_paths(wait=False):
    """The hot paths of this client, those that save most first: a list of dictionaries with 'name', 'instructions', 'runs',
    'misses', 'inputs', 'parameters' (literals that change), 'intermediates' (values that die inside) and 'steps', pairs of an op
    and its place in the program. 'groups' are lists of steps that the engine runs as one, and 'compile_seconds' is how
    long it took to compile them; both are None before the path has run, and of sharded programs. With `wait`, the workers execute
    this client's instructions so far first."""
    hotpath = _hotpath()
    clients = json.loads(_gt.stats(True, wait))['clients'] if hotpath['paths'] else []
    news = next((client['paths'] for client in clients if client['number'] == hotpath['client']), {})
    paths = hotpath['paths']
    for path in paths:
        known = news.get(str(path.pop('number')), {})
        path['steps'] = [(op, _gt._site(site)) for op, site in path['steps']]
        path['groups'], path['compile_seconds'] = _groups(known.get('groups'), path['instructions']), known.get('seconds')
    return sorted(paths, key=lambda path: -path['runs'] * path['instructions'])


def _groups(groups, count):
    """Steps by their group, in the order in which the groups run."""
    if not groups or len(groups) != count:
        return None
    members = {}
    for step, group in enumerate(groups):
        members.setdefault(group, []).append(step)
    return list(members.values())


def _repeats(items, longest=64):
    """(how often, block): blocks of at most so many items that follow each other in the same way are one."""
    at = 0
    while at < len(items):
        times, length = 1, 1
        for size in range(1, min(longest, (len(items) - at) // 2) + 1):
            count = 1
            while items[at + count * size:at + (count + 1) * size] == items[at:at + size]:
                count += 1
            if count > 1 and count * size > times * length:
                times, length = count, size
        yield times, items[at:at + length]
        at += times * length


def print_hot_paths(wait=False):
    """Print get_hot_paths(wait), one paragraph per path: for each line of the program, in order, the ops it contributes; then what
    runs as one: "mul+add+relu" is one pass over the data, and the values between are never stored. Lines that repeat are printed once."""
    paths = get_hot_paths(wait)
    if not paths:
        print('no hot paths' + ('' if _hotpath()['enabled'] else ' (GT_AUTO_COMPILE is off)'))
    for path in paths:
        print(f'path {path["name"]}: {path["instructions"]} instructions, run {path["runs"]} times, missed {path["misses"]} times; '
              f'{path["inputs"]} inputs, {path["intermediates"]} intermediates, {path["parameters"]} parameters')
        lines = []
        for op, place in path['steps']:
            if not lines or lines[-1][0] != place:
                lines.append((place, []))
            lines[-1][1].append(op)
        for times, block in _repeats(lines):
            if times > 1:
                print(f'  {times} times:')
            for place, ops in block:
                print(f'  {"  " * (times > 1)}{place or "?"}: {" -> ".join(ops)}')
        if path['groups']:
            fused = ['+'.join(path['steps'][step][0] for step in group) for group in path['groups'] if len(group) > 1]
            how = f'compiled in {path["compile_seconds"] * 1e3:.1f} ms' if path['compile_seconds'] else 'not compiled'
            fused = [block[0] if times == 1 else f'{times} x ({", ".join(block)})' for times, block in _repeats(fused)]
            print(f'  {how}, {len(path["groups"])} steps of {path["instructions"]} instructions; run as one: '
                  f'{", ".join(fused) or "none"}')


def print_worker_stats(wait=False):
    """Print get_worker_stats(wait), one paragraph per worker, ops sorted by time."""
    for name, stats in get_worker_stats(wait).items():
        memory = stats['memory']
        print(f'{name} ({stats["engine"]}, {stats["link"]}):')
        if stats['doing']:
            print(f'  executes {stats["doing"]["op"]} since {stats["doing"]["seconds"]:.3f} s, {stats["queue"]} instructions wait')
        print(f'  {stats["total_instructions"]} instructions, busy {stats["busy_seconds"]:.3f} s, '
              f'idle {stats["idle_seconds"]:.3f} s')
        print(f'  {memory["tensors"]} tensors, {_bytes(memory["used"])} in use, {_bytes(memory["pooled"])} kept for reuse, '
              f'limit {_bytes(memory["limit"])}')
        if stats['moves'] or stats['collectives'] or stats['gathers']:
            print(f'  {stats["moves"]} moves, {stats["collectives"]} collectives, {stats["gathers"]} gathers, '
                  f'{_bytes(stats["bytes_moved"])} from other workers')
        for op, row in sorted(stats['ops'].items(), key=lambda item: -item[1]['seconds']):
            print(f'  {op:<16} {row["count"]:>10} x  {row["seconds"] * 1e3:>12.3f} ms  {_bytes(row["bytes"]):>10}')


def memory(wait=False):
    """Bytes and tensors: of each worker ('workers', by name: tensors, used, pooled, limit) and of each client ('clients', by
    number: tensors, bytes). Waits as get_worker_stats(wait) does."""
    stats = json.loads(_gt.stats(True, wait))
    return {
        'workers': {worker['name']: worker['memory'] for worker in stats['workers']},
        'clients': {client['number']: {'tensors': client['tensors'], 'bytes': client['bytes']}
                    for client in stats['clients']},
    }


def _bytes(count):
    """1536 -> '1.5 KiB'."""
    for unit in ('B', 'KiB', 'MiB', 'GiB'):
        if count < 1024 or unit == 'GiB':
            return f'{count:.0f} B' if unit == 'B' else f'{count:.1f} {unit}'
        count /= 1024

__dir__ = _help.publish(__name__)
