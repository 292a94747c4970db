"""repr(tensor), the way PyTorch prints: four digits, aligned columns, the middle of large tensors left out."""

import math
import types

from gt import _gt

_PROFILES = {'default': (4, 1000, 3, 80), 'short': (2, 1000, 2, 80), 'full': (4, math.inf, 3, 80)}
options = types.SimpleNamespace(precision=4, threshold=1000, edgeitems=3, linewidth=80, sci_mode=None)


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """How tensors print: digits after the point, the number of elements from which the middle is left out, how many are
    shown at each end then, characters of a line, and whether to use the scientific notation (None: if it is shorter).

    profile sets the first four at once: 'default', 'short' or 'full'.

        gt.set_printoptions(precision=2)
    """
    names = 'precision', 'threshold', 'edgeitems', 'linewidth'
    if profile is not None and profile in _PROFILES:
        options.__dict__.update(zip(names, _PROFILES[profile]))
    given = dict(zip(names, (precision, threshold, edgeitems, linewidth)))
    options.__dict__.update({name: value for name, value in given.items() if value is not None})
    options.sci_mode = sci_mode


class _Formatter:
    """One format for all the numbers that will be shown."""

    def __init__(self, values, is_float):
        self.is_float, self.integral, self.scientific, self.width = is_float, True, False, 1
        if not is_float:
            for value in values:
                self.width = max(self.width, len(str(value)))
            return
        finite = [v for v in values if math.isfinite(v) and v != 0]
        if not finite:
            return
        magnitudes = [abs(v) for v in finite]
        low, high = min(magnitudes), max(magnitudes)
        self.integral = all(v == math.ceil(v) for v in finite)
        if options.sci_mode is not None:
            self.scientific = options.sci_mode
        else:
            self.scientific = high / low > 1000.0 or high > 1e8 or (not self.integral and low < 1e-4)
        # As in PyTorch, zeros, infinities and NaNs do not count towards the width.
        self.width = max(len(self.text(v)) for v in finite)

    def text(self, value):
        if not self.is_float:
            return str(value)
        if self.scientific:
            return f'{value:.{options.precision}e}'
        if self.integral:
            return f'{value:.0f}' + ('.' if math.isfinite(value) else '')
        return f'{value:.{options.precision}f}'

    def __call__(self, value):
        return self.text(value).rjust(self.width)


class _ComplexFormatter:
    """One format for all real parts, one for all imaginary parts."""

    def __init__(self, values):
        self.real = _Formatter([v.real for v in values], True)
        self.imag = _Formatter([v.imag for v in values], True)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value):
        imag = self.imag(value.imag).lstrip() + 'j'
        return self.real(value.real) + ('' if imag[0] in '+-' else '+') + imag


def _edges(tensor):
    """The parts of a large tensor that are shown: a few slices at both ends of every long dimension."""
    import gt
    edge = options.edgeitems
    for dim, size in enumerate(tensor.shape):
        if size > 2 * edge:
            tensor = gt.cat([tensor.narrow(dim, 0, edge), tensor.narrow(dim, size - edge, edge)], dim)
    return tensor


def _vector(items, size, indent, formatter):
    texts = [formatter(item) for item in items]
    if size != len(items):
        texts = texts[:options.edgeitems] + [' ...'] + texts[options.edgeitems:]
    per_line = max(1, (options.linewidth - indent) // (formatter.width + 2))
    lines = [', '.join(texts[k:k + per_line]) for k in range(0, len(texts), per_line)]
    return '[' + (',\n' + ' ' * (indent + 1)).join(lines) + ']'


def _nested(items, shape, indent, formatter):
    if not shape:
        return formatter(items)
    if len(shape) == 1:
        return _vector(items, shape[0], indent, formatter)
    parts = [_nested(item, shape[1:], indent + 1, formatter) for item in items]
    if shape[0] != len(items):
        parts = parts[:options.edgeitems] + ['...'] + parts[options.edgeitems:]
    return '[' + (',' + '\n' * (len(shape) - 1) + ' ' * (indent + 1)).join(parts) + ']'


def _flat(items, rank):
    for _ in range(rank - 1):
        items = [item for part in items for item in part]
    return items if rank else [items]


def tensor_repr(tensor):
    """The text of a tensor; waits for the elements it shows."""
    import gt
    prefix, name, default_dtype = 'tensor(', tensor.dtype.name, gt.get_default_dtype().name
    level = _gt._vmap_level(tensor)
    if level:
        return f'BatchedTensor(lvl={level}, bdim=0, shape={tuple(tensor.shape)}, dtype=gt.{name})'
    grad_fn, wants_gradient = tensor.grad_fn, tensor.requires_grad
    tensor = tensor.detach()
    suffixes = []
    if not options.edgeitems:
        suffixes.append(f'size={tuple(tensor.shape)}')
    if tensor.numel() == 0:
        if tensor.ndim != 1 and options.edgeitems:
            suffixes.append(f'size={tuple(tensor.shape)}')
        body = '[]'
        default = name == default_dtype
    elif tensor.numel() > options.threshold and not options.edgeitems:
        body, default = '[...]', name in (default_dtype, 'int64', 'bool')
    else:
        shown = _edges(tensor) if tensor.numel() > options.threshold else tensor
        shape = tensor.shape if shown is not tensor else shown.shape
        items = shown.tolist()
        values = _flat(items, len(shape))
        formatter = _ComplexFormatter(values) if tensor.is_complex() else _Formatter(values, tensor.is_floating_point())
        body = _nested(items, shape, len(prefix), formatter)
        default = name in (default_dtype, 'int64', 'bool', 'complex128' if default_dtype == 'float64' else 'complex64')
    if not default:
        suffixes.append(f'dtype=gt.{name}')
    if grad_fn is not None:
        suffixes.append(f'grad_fn=<{grad_fn.name()}>')
    elif wants_gradient:
        suffixes.append('requires_grad=True')
    return _with_suffixes(prefix + body, suffixes)


def _with_suffixes(text, suffixes):
    """Append them to the last line, or on a new line if the line would be too long for PyTorch."""
    last = len(text) - text.rfind('\n') + 1
    for suffix in suffixes:
        length = len(suffix.replace('gt.', 'torch.'))
        if last + length + 2 > options.linewidth:
            text += ',\n       ' + suffix
            last = 7 + length
        else:
            text += ', ' + suffix
            last += length + 2
    return text + ')'


def tensor_html(self):
    """tensor._repr_html_(): how a notebook shows a tensor: its text, then shape, dtype, device and gradient."""
    import html
    notes = [f'shape {tuple(self.shape)}', f'{self.dtype}', f'{self.numel()} elements']
    text = html.escape(repr(self))
    if self.grad_fn is not None:
        notes.append(f'grad_fn {self.grad_fn.name()}')
    elif self.requires_grad:
        notes.append('requires_grad')
    notes = ' · '.join(html.escape(note) for note in notes)
    return f'<div><pre>{text}</pre><small>{notes}</small></div>'
