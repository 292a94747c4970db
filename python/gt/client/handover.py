"""gt.detach() and gt.attach(): a running session goes from one process to another, with its tensors.

The server keeps the tensors; what they are in the program travels as JSON, the note of the parcel (src/client/handover.h). Each kind
of container has a letter; tensors are numbers in the list of those that stay.
"""

import json
from collections import Counter, OrderedDict

from gt import _gt
from gt._gt import GtError, Size, Tensor
from gt.client.storages import Memory, plain_class

_PLAIN = (type(None), bool, int, float, str)
_SEQUENCES = {list: 'l', tuple: 't', Size: 's'}
_DICTS = {dict: 'd', OrderedDict: 'o'}
_KINDS = {letter: kind for kind, letter in (_SEQUENCES | _DICTS).items()}


def _parameter_class():
    from gt.nn import Parameter
    return Parameter


class _Packer:
    """The description of a structure, and the tensors that the server must keep for it."""

    def __init__(self):
        self.kept, self.seen, self.memories = [], {}, {}

    def value(self, value, path):
        """The JSON of a value; `path` is its place, for errors."""
        kind = type(value)
        if isinstance(value, Tensor):
            return {'x': self.tensor(value, path)}
        if kind in _PLAIN:
            return value
        if kind in _SEQUENCES:
            return {_SEQUENCES[kind]: [self.value(item, f'{path}[{k}]') for k, item in enumerate(value)]}
        if kind in _DICTS:
            return {_DICTS[kind]: [[self.key(key, path), self.value(item, f'{path}[{key!r}]')] for key, item in value.items()]}
        if kind is complex:
            return {'c': [value.real, value.imag]}
        if kind is _gt.dtype:
            return {'y': value.name}
        if callable(getattr(value, 'state_dict', None)):
            return self.value(value.state_dict(), path)
        raise TypeError(f'gt.detach: {path} is a {kind.__name__}, which cannot be handed over: only tensors, numbers, texts, None, dtypes, '
                        'lists, tuples and dicts of these can, and what has a state_dict()')

    def key(self, key, path):
        """The JSON of a key of a dict."""
        if type(key) in _PLAIN:
            return key
        if type(key) is tuple:
            return {'t': [self.key(item, path) for item in key]}
        raise TypeError(f'gt.detach: {path} has a key of type {type(key).__name__}: only numbers, texts, None and tuples of these can be '
                        'handed over')

    def tensor(self, tensor, path):
        """The number of a tensor's description: the same object is described once."""
        if id(tensor) not in self.seen:
            self.seen[id(tensor)] = len(self.seen), self.described(tensor, path), tensor
        return self.seen[id(tensor)][0]

    def described(self, tensor, path):
        """[what is kept, how the tensor is cut from it or None, requires_grad, whether it is a Parameter]."""
        if tensor.grad_fn is not None:
            raise GtError(f'gt.detach: {path} requires a gradient and is not a leaf: the graph that computed it (grad_fn='
                          f'{type(tensor.grad_fn).__name__}) cannot be handed over. Call backward() before, or pass {path}.detach()')
        cls = plain_class(tensor)
        if cls is not Tensor and cls is not _parameter_class():
            raise TypeError(f'gt.detach: {path} is a {cls.__name__}, which cannot be handed over')
        plain, shared = tensor.detach(), tensor._memory()
        cut = None
        if shared is None:
            number = self.keep(plain)
        else:
            number, cut = self.shared(plain, *shared, path)
        return [number, cut, tensor.requires_grad, cls is not Tensor]

    def shared(self, plain, memory, elements, path):
        """The same for a tensor whose memory others may share: it is cut from the tensor that is kept for that memory."""
        whole = plain.is_contiguous() and plain.storage_offset() == 0 and plain.numel() == elements.numel()
        if memory not in self.memories:
            # A tensor that covers all of it stays as it is, also spread over workers. The second entry keeps the memory and its number.
            self.memories[memory] = self.keep(plain if whole else elements), plain, elements.dtype
        number, _, dtype = self.memories[memory]
        if dtype != plain.dtype:
            raise GtError(f'gt.detach: {path} views the memory of another tensor as a different dtype, which cannot be handed over')
        if whole and plain.shape == self.kept[number].shape:
            return number, None
        return number, [list(plain.shape), list(plain.stride()), plain.storage_offset()]

    def keep(self, tensor):
        self.kept.append(tensor)
        return len(self.kept) - 1


class _Unpacker:
    """The structure of a note, made of the tensors that the server kept."""

    def __init__(self, kept, described):
        self.tensors, uses = [], Counter(number for number, *_ in described)
        for number, cut, requires_grad, is_parameter in described:
            tensor = kept[number]
            if cut is not None:
                tensor = Memory(tensor).tensor(*cut)
            elif uses[number] > 1:
                tensor = tensor.data  # an object of its own, of the same memory
            if is_parameter:
                tensor = _parameter_class()(tensor, requires_grad)
            elif requires_grad:
                tensor.requires_grad_()
            self.tensors.append(tensor)

    def value(self, value):
        if not isinstance(value, dict):
            return value
        (letter, content), = value.items()
        if letter == 'x':
            return self.tensors[content]
        if letter == 'c':
            return complex(*content)
        if letter == 'y':
            return getattr(_gt, content)
        kind = _KINDS[letter]
        if kind in _DICTS:
            return kind((self.value(key), self.value(item)) for key, item in content)
        return kind(self.value(item) for item in content)


def detach(tensors=None, *, input=None):
    """Leave the session with the server, for gt.attach() in another process or on another host. Returns the token for that.

    Everything emitted so far is executed first. `tensors` are what the session goes on with: a tensor, Module or optimizer, or dicts,
    lists and tuples of these, with numbers and texts between them. Modules, optimizers and whatever else has a state_dict() become
    that. All other tensors are freed. The connection is closed, so this process cannot use any of them any more.

        token = gt.detach({'model': model, 'optimizer': optimizer, 'step': 100})

    A token is a secret: whoever has it gets the session, if the server takes him for the same user. It is good for one time, and for an
    hour (`gt server --detached-for`); then the tensors are freed. Tensors come without .grad; those with a graph are refused.

    gt.detach(tensor), as in PyTorch, is tensor.detach(): hand a single tensor over in a list.
    """
    if isinstance(tensors, Tensor) or input is not None:
        return (tensors if input is None else input).detach()
    connection = _gt.current()
    if connection is None:
        raise GtError('gt.detach: this thread has no session; only one on a server (gt.connect) can be handed over')
    packer = _Packer()
    structure = packer.value(tensors, 'tensors')
    note = {'structure': structure, 'tensors': [described for _, described, _ in packer.seen.values()]}
    token = _gt._detach(packer.kept, json.dumps(note).encode())
    _gt.use(None)
    connection.close()
    return token


def attach(token, address=None, timeout=None, key_file=None):
    """Take over the session that gt.detach() has left under this token, and return its `tensors`.

    The calling thread is connected to it, as by gt.connect(). Config, random numbers and limits go on where they were. The
    server is the one of the process that detached it; `address` is needed where that one called it by another name, such as
    localhost. `key_file` and `timeout`: see gt.connect().

        state = gt.attach(token)
        model.load_state_dict(state['model'])
    """
    named, secret = _gt._token(token)
    connection = _gt.open(address or named, timeout, key_file, None, secret)
    before = _gt.current()
    _gt.use(connection)
    try:
        kept, note = _gt._collect()
        note = json.loads(note) if note else {'structure': None, 'tensors': []}
        return _Unpacker(kept, note['tensors']).value(note['structure'])
    except BaseException:
        _gt.use(before)
        connection.close()
        raise
