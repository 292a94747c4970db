"""A pickle machine that builds tensors and containers, and runs nothing else.

Python's own unpickler calls any function that a file names. This one knows the opcodes, a table of harmless globals, and
the globals that the user allowed by add_safe_globals(). It refuses every other name, and every use of a known one that
could do more than build a value: it calls only what the table has, fills only dicts, lists and sets that it made, and
never allocates more than the file's size because of a length that the file states. A few bytes of a pickle can describe a value
that is nested without end, or names one part of it again and again: what goes through all of a value (hashing it, copying it,
writing it into an error) is bounded.
"""

import pickle
import struct
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import Counter, OrderedDict

from gt._gt import Tensor
from gt.serialization import names

UnpicklingError = pickle.UnpicklingError

_BLOCKED = ('sys', 'os', 'posix', 'nt')  # refused even if the user allows a name of theirs
_user_allowed = set()
_MOST_IN_A_KEY = 1000  # parts of a key of a dict, or of an item of a set
_MOST_COPIES = 16  # how often calls may copy as much as the pickle has


def _check_key(key):
    """A key is hashed, which goes through all of a nested tuple, and through a part as often as it occurs."""
    parts, pending = 0, [key]
    while pending:
        part = pending.pop()
        if isinstance(part, (tuple, frozenset)):
            parts += 1 + len(part)
            if parts > _MOST_IN_A_KEY:
                raise UnpicklingError(f'a key of more than {_MOST_IN_A_KEY} parts')
            pending.extend(part)


def _encode(text, encoding):
    if encoding not in ('latin1', 'latin-1', 'ascii', 'utf-8', 'utf8'):
        raise UnpicklingError(f'the encoding {names.shown(encoding)} of a bytes object')
    return text.encode(encoding)


def _bytearray(content=b'', encoding='latin-1'):
    if isinstance(content, str):
        content = _encode(content, encoding)
    if not isinstance(content, bytes):
        raise UnpicklingError(f'a bytearray of {type(content).__name__}')
    return bytearray(content)


def _set(items=()):
    for item in items:
        _check_key(item)
    return set(items)


def _check_call(function, args):
    """Of a container whose keys are arguments."""
    for key in args[0] if args and function in (Counter, OrderedDict) else ():
        pair = function is OrderedDict and isinstance(key, (tuple, list)) and key
        _check_key(key[0] if pair else key)


_ALLOWED = {
    'collections.OrderedDict': OrderedDict, 'collections.Counter': Counter, '_codecs.encode': _encode,
    'builtins.bytearray': _bytearray, 'builtins.set': _set, 'builtins.complex': complex}


def _user_globals():
    found = {}
    for entry in _user_allowed:
        value, path = entry if isinstance(entry, tuple) else (entry, f'{entry.__module__}.{entry.__qualname__}')
        found[path] = value
    return found


def add_safe_globals(safe_globals):
    """Allow classes and functions in files that load(weights_only=True) reads.

    safe_globals is a list of classes or functions, or of (object, 'module.name') pairs where the file uses another name.

        gt.serialization.add_safe_globals([argparse.Namespace])
    """
    for entry in safe_globals:
        if isinstance(entry, tuple) and len(entry) != 2:
            raise ValueError('Expected tuple of length 2 (global, str of callable full path), '
                             f'but got tuple of length: {len(entry)}')
        if isinstance(entry, tuple) and type(entry[1]) is not str:
            raise TypeError(f'Expected second item in tuple to be str of callable full path, but got: {type(entry[1])}')
    _user_allowed.update(safe_globals)


def get_safe_globals():
    """The classes and functions that add_safe_globals() allowed."""
    return list(_user_allowed)


def clear_safe_globals():
    """Forget the classes and functions that add_safe_globals() allowed."""
    _user_allowed.clear()


class safe_globals:
    """A context in which load(weights_only=True) also allows these classes and functions."""

    def __init__(self, safe_globals):
        self.safe_globals = safe_globals

    def __enter__(self):
        add_safe_globals(self.safe_globals)

    def __exit__(self, *exception):
        _user_allowed.difference_update(self.safe_globals)


def find_global(module, name):
    """The object that a file may use under this name; any other name raises UnpicklingError with it."""
    path = f'{module}.{name}'
    if module.partition('.')[0] in _BLOCKED:
        raise UnpicklingError(f'Trying to load unsupported GLOBAL {path} whose module {module} is blocked.')
    found = _ALLOWED.get(path) or names.known(module, name)
    if found is None:
        found = _user_globals().get(path)
    if found is None:
        path = path.removeprefix('builtins.')
        raise UnpicklingError(
            f'Unsupported global: GLOBAL {path} was not an allowed global by default. Please use '
            f'`gt.serialization.add_safe_globals([{path}])` or the `gt.serialization.safe_globals([{path}])` context '
            'manager to allowlist this global if you trust this class/function, or load with weights_only=False, which '
            'runs any code that the file contains.')
    return found


_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)


class Anything:
    """Stands for every object of a pickle that is only measured."""

    def __init__(self, *args):
        pass


class Machine:
    """Reads one pickle from a buffer, beginning at `at`; afterwards `at` is its end.

    persistent_load(id) gives the storages. With measure=True every global is an Anything: no value is built of it.
    """

    def __init__(self, data, persistent_load=None, encoding='utf-8', at=0, measure=False):
        self.data, self.at, self.encoding, self.measure = data, at, encoding, measure
        self.persistent_load = persistent_load
        self.stack, self.marks, self.memo, self.globals, self.protocol = [], [], {}, {}, 0
        self.copies = _MOST_COPIES * len(data) + (1 << 20)  # items and characters that calls may still copy

    def load(self):
        """The object. A damaged or refused pickle raises UnpicklingError."""
        operations, data = _OPERATIONS, self.data
        try:
            while True:
                code = data[self.at]
                self.at += 1
                if code == 46:  # STOP
                    return self.stack.pop()
                operation = operations.get(code)
                if operation is None:
                    raise UnpicklingError(f'Unsupported operand {code} ({chr(code)!r})')
                operation(self)
        except UnpicklingError:
            raise
        except IndexError:
            raise UnpicklingError('the pickle is damaged or truncated') from None
        except Exception as error:  # any kind: a damaged pickle calls with wrong arguments, uses unhashable keys, ...
            raise UnpicklingError(f'the pickle is damaged: {type(error).__name__}: {error}') from error

    # ---- reading -------------------------------------------------------------------------------------------

    def take(self, length):
        """The next `length` bytes."""
        begin, self.at = self.at, self.at + length
        if self.at > len(self.data):
            raise UnpicklingError('the pickle is truncated')
        return bytes(self.data[begin:self.at])

    def number(self, form, length):
        """The next bytes as a number."""
        return struct.unpack(form, self.take(length))[0]

    def line(self):
        """The next line, without its end."""
        begin = self.at
        while self.data[self.at] != 10:
            self.at += 1
        self.at += 1
        return str(self.data[begin:self.at - 1], 'utf-8')

    def since_mark(self):
        """Pop everything above the last mark."""
        begin = self.marks.pop()
        if begin > len(self.stack):
            raise UnpicklingError('the pickle is damaged: a mark above the stack')
        items = self.stack[begin:]
        del self.stack[begin:]
        return items

    # ---- globals and calls ---------------------------------------------------------------------------------

    def push_global(self, module, name):
        """Push the object with this name, if it is allowed."""
        if self.protocol < 3:  # Python 2's names
            module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
        key = module, name
        if key not in self.globals:
            self.globals[key] = Anything if self.measure else find_global(module, name)
        self.stack.append(self.globals[key])

    def names(self):
        """Pop a module and a name."""
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise UnpicklingError('the pickle is damaged: a global without a name')
        return module, name

    def _is_global(self, value):
        return any(value is known for known in self.globals.values())

    def call(self):
        """REDUCE, and NEWOBJ, which is the same for every class in the table."""
        args, function = self.stack.pop(), self.stack.pop()
        if self.measure:
            self.stack.append(Anything())
            return
        if not self._is_global(function) or not callable(function) or function is Tensor:
            raise UnpicklingError(f'Trying to call reduce for unrecognized function {names.shown(function)}')
        if type(args) is not tuple:
            raise UnpicklingError(f'arguments of type {type(args).__name__}')
        self.copies -= sum(len(arg) for arg in args if isinstance(arg, _SIZED))
        if self.copies < 0:
            raise UnpicklingError('its calls copy the same values again and again')
        _check_call(function, args)
        self.stack.append(function(*args))

    def new_object(self, keywords=None):
        """NEWOBJ: make an object of an allowed class."""
        args, kind = self.stack[-2:][::-1] if len(self.stack) > 1 else (None, None)
        if self.measure or not (isinstance(kind, type) and kind in _user_globals().values()):
            return self.call()
        del self.stack[-2:]
        self.stack.append(kind.__new__(kind, *args, **(keywords or {})))

    def new_object_with_keywords(self):
        """NEWOBJ_EX."""
        keywords = self.stack.pop()
        if keywords and not self.measure and self.stack[-2] not in _user_globals().values():
            raise UnpicklingError(f'keywords for a new {names.shown(self.stack[-2])}')
        self.new_object(keywords)

    def build(self):
        """BUILD: attributes of an object."""
        state, target = self.stack.pop(), self.stack[-1]
        if self.measure:
            return
        if type(target) is OrderedDict:
            target.__dict__.update(state)
        elif isinstance(target, Tensor) and type(target).__module__.partition('.')[0] == 'gt':
            names.set_attributes(target, state)
        elif type(target) in _user_globals().values():
            if hasattr(target, '__setstate__'):
                target.__setstate__(state)
            else:
                state, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
                target.__dict__.update(state or {})
                for name, value in (slots or {}).items():
                    setattr(target, name, value)
        else:
            raise UnpicklingError('Can only build Tensor, Parameter, OrderedDict or types allowlisted via '
                                  f'`add_safe_globals`, but got {type(target)}')

    def persistent(self):
        """BINPERSID: a storage."""
        identity = self.stack.pop()
        if self.measure:
            self.stack.append(Anything())
            return
        if type(identity) is not tuple or not identity or identity[0] not in ('storage', b'storage'):
            raise UnpicklingError(f'Only persistent_load of storage is allowed, but got {names.shown(identity)}')
        if self.persistent_load is None:
            raise UnpicklingError('unsupported persistent id encountered')
        self.stack.append(self.persistent_load(identity))

    # ---- containers ----------------------------------------------------------------------------------------

    def extend(self, items):
        """Append to the list on top."""
        target = self.stack[-1]
        if type(target) is not list:
            if self.measure and isinstance(target, Anything):
                return
            raise UnpicklingError(f'Can only append to lists, but got {type(target)}')
        target.extend(items)

    def set_items(self, items):
        """Set items of the dictionary on top."""
        target = self.stack[-1]
        if type(target) not in (dict, OrderedDict, Counter):
            if self.measure and isinstance(target, Anything):
                return
            raise UnpicklingError('Can only SETITEMS for dict, collections.OrderedDict, collections.Counter, '
                                  f'but got {type(target)}')
        if len(items) % 2:
            raise UnpicklingError('the pickle is damaged: a key without a value')
        for k in range(0, len(items), 2):
            _check_key(items[k])
            target[items[k]] = items[k + 1]

    def new_dictionary(self, items):
        """Push a dictionary of these items."""
        self.stack.append({})
        self.set_items(items)

    def add_items(self, items):
        """Add to the set on top."""
        if type(self.stack[-1]) is not set:
            raise UnpicklingError(f'Can only add to sets, but got {type(self.stack[-1])}')
        self.stack[-1].update(_set(items))

    def tuple_of(self, count):
        """Replace the top of the stack by a tuple of it."""
        if len(self.stack) < count:
            raise UnpicklingError('the pickle is damaged: too few items for a tuple')
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def text(self, length):
        """Push text."""
        self.stack.append(str(self.take(length), 'utf-8', 'surrogatepass'))

    def string(self, length):
        """Push a string of Python 2."""
        content = self.take(length)
        self.stack.append(content if self.encoding == 'bytes' else content.decode(self.encoding, 'strict'))

    def pop(self):
        """Drop the top, which may be a mark."""
        if self.marks and self.marks[-1] == len(self.stack):
            self.marks.pop()
        else:
            self.stack.pop()

    def start(self):
        """PROTO."""
        self.protocol = self.take(1)[0]
        if self.protocol > pickle.HIGHEST_PROTOCOL:
            raise UnpicklingError(f'unsupported pickle protocol: {self.protocol}')

    def remember(self, key):
        """Keep the top under a number."""
        self.memo[key] = self.stack[-1]

    def recall(self, key):
        """Push what is kept under a number."""
        if key not in self.memo:
            raise UnpicklingError(f'Memo value not found at index {key}')
        self.stack.append(self.memo[key])


_OPERATIONS = {ord(code): operation for code, operation in {
    '\x80': Machine.start,
    '\x95': lambda m: m.take(8) and None,  # FRAME: only a hint of how much to read
    '(': lambda m: m.marks.append(len(m.stack)),
    '0': Machine.pop,
    '1': lambda m: m.since_mark() and None,
    '2': lambda m: m.stack.append(m.stack[-1]),
    # globals, calls, objects
    'c': lambda m: m.push_global(m.line(), m.line()),
    '\x93': lambda m: m.push_global(*m.names()),
    'R': Machine.call,
    '\x81': Machine.new_object,
    '\x92': Machine.new_object_with_keywords,
    'b': Machine.build,
    'Q': lambda m: m.persistent(),  # _Sizes in reading.py replaces it
    # containers
    ')': lambda m: m.stack.append(()),
    ']': lambda m: m.stack.append([]),
    '}': lambda m: m.stack.append({}),
    '\x8f': lambda m: m.stack.append(set()),
    't': lambda m: m.stack.append(tuple(m.since_mark())),
    'l': lambda m: m.stack.append(m.since_mark()),
    'd': lambda m: m.new_dictionary(m.since_mark()),
    '\x91': lambda m: m.stack.append(frozenset(_set(m.since_mark()))),
    '\x85': lambda m: m.tuple_of(1),
    '\x86': lambda m: m.tuple_of(2),
    '\x87': lambda m: m.tuple_of(3),
    'a': lambda m: m.extend([m.stack.pop()]),
    'e': lambda m: m.extend(m.since_mark()),
    's': lambda m: m.set_items([m.stack.pop(), m.stack.pop()][::-1]),
    'u': lambda m: m.set_items(m.since_mark()),
    '\x90': lambda m: m.add_items(m.since_mark()),
    # values
    'N': lambda m: m.stack.append(None),
    '\x88': lambda m: m.stack.append(True),
    '\x89': lambda m: m.stack.append(False),
    'J': lambda m: m.stack.append(m.number('<i', 4)),
    'K': lambda m: m.stack.append(m.take(1)[0]),
    'M': lambda m: m.stack.append(m.number('<H', 2)),
    '\x8a': lambda m: m.stack.append(int.from_bytes(m.take(m.take(1)[0]), 'little', signed=True)),
    '\x8b': lambda m: m.stack.append(int.from_bytes(m.take(m.number('<I', 4)), 'little', signed=True)),
    'G': lambda m: m.stack.append(m.number('>d', 8)),
    'X': lambda m: m.text(m.number('<I', 4)),
    '\x8c': lambda m: m.text(m.take(1)[0]),
    '\x8d': lambda m: m.text(m.number('<Q', 8)),
    'U': lambda m: m.string(m.take(1)[0]),
    'T': lambda m: m.string(m.number('<I', 4)),
    'C': lambda m: m.stack.append(m.take(m.take(1)[0])),
    'B': lambda m: m.stack.append(m.take(m.number('<I', 4))),
    '\x8e': lambda m: m.stack.append(m.take(m.number('<Q', 8))),
    '\x96': lambda m: m.stack.append(bytearray(m.take(m.number('<Q', 8)))),
    # the memo
    'q': lambda m: m.remember(m.take(1)[0]),
    'r': lambda m: m.remember(m.number('<I', 4)),
    '\x94': lambda m: m.remember(len(m.memo)),
    'h': lambda m: m.recall(m.take(1)[0]),
    'j': lambda m: m.recall(m.number('<I', 4)),
}.items()}
