"""The API reference: a page of reStructuredText for each public module, from the docstrings of the installed package.

tools/api/walk.py says which names are public. Docstrings have a text, "Args:" and "Example:" (tools/api/documents.py).
"""

import inspect
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'api'))
import walk  # noqa: E402

ARGUMENT = re.compile(r'    (\*{0,2}\w+): (.*)')
PARAGRAPHS = re.compile(r'\n\s*\n')


def plain(text):
    """Text of a docstring as reStructuredText: between backticks code, the rest without markup."""
    parts = text.split('`')
    if len(parts) % 2 == 0:  # a backtick without its partner
        parts = [text.replace('`', "'")]
    for place, part in enumerate(parts):
        code = place % 2 and part.strip()
        parts[place] = f'``{part.strip()}``\\ ' if code else re.sub(r'([\\*|_:])', r'\\\1', part)
    return ''.join(parts)


def indented(text, spaces):
    """Every line moved to the right."""
    return '\n'.join(' ' * spaces + line if line.strip() else '' for line in text.splitlines())


def body(docstring):
    """A docstring as reStructuredText."""
    parts = []
    for paragraph in PARAGRAPHS.split(docstring):
        lines = paragraph.splitlines()
        if lines[0] == 'Args:':
            found = [ARGUMENT.fullmatch(line) for line in lines[1:]]
            if all(found):
                parts.append('\n'.join(f':param {plain(each[1])}: {plain(each[2])}' for each in found))
                continue
        if lines[0] in ('Example:', 'Examples:') and len(lines) > 1:
            parts.append('.. code-block:: pycon\n\n' + indented(inspect.cleandoc('\n'.join(['', *lines[1:]])), 3))
        elif any(line.startswith((' ', '>>>')) for line in lines):
            parts.append('.. code-block:: none\n\n' + indented(paragraph, 3))
        else:
            parts.append(plain(paragraph))
    return '\n\n'.join(parts)


def signature(value):
    """(x, dim=-1), without types: the stubs have those."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return '(...)'
    empty = inspect.Parameter.empty
    found = found.replace(parameters=[each.replace(annotation=empty) for each in found.parameters.values()],
                          return_annotation=inspect.Signature.empty)
    return re.sub(r' at 0x[0-9a-f]+', '', str(found))


def entry(kind, name, value, inner=()):
    """The description of one function, class or method."""
    text = f'.. py:{kind}:: {name}{signature(value)}\n\n' + indented(body(inspect.getdoc(value) or ''), 3)
    return '\n\n'.join([text, *(indented(each, 3) for each in inner)])


def own_methods(cls):
    """(name, function) of the documented methods that a class defines itself."""
    for name, value in sorted(vars(cls).items()):
        if not name.startswith('_') and inspect.isfunction(value) and inspect.getdoc(value):
            yield name, value


def member(name, value):
    """The description of a member of a module."""
    if not isinstance(value, type):
        return entry('function', name, value)
    return entry('class', name, value, [entry('method', each, method) for each, method in own_methods(value)])


def page(module, title, entries):
    """A whole page."""
    text = inspect.getdoc(walk.module(module)) or ''
    return (f'{title}\n{"=" * len(title)}\n\n{plain(PARAGRAPHS.split(text)[0])}\n\n'
            f'.. py:currentmodule:: {module}\n\n' + '\n\n'.join(entries) + '\n')


def pages(empty=False):
    """{file name: text} of every page, api.rst among them. With `empty`, the pages have no entries."""
    members = {}
    for module, name, value in walk.all_members():
        if (module, name) != ('gt', 'Tensor'):
            members.setdefault(module, {})[name] = value
    found = {}
    for module, values in members.items():
        entries = [] if empty else [member(*each) for each in sorted(values.items())]
        found[f'api/{module}.rst'] = page(module, module, entries)
    methods = [] if empty else [entry('method', f'Tensor.{name}', value) for name, value in walk.tensor_methods()]
    found['api/gt.Tensor.rst'] = page('gt', 'gt.Tensor', methods)
    order = ['gt', 'gt.Tensor', *sorted(set(members) - {'gt'})]
    found['api.rst'] = ('API reference\n=============\n\nEvery public name, from the docstrings of the package. '
                        '``help(gt.sort)`` shows the same text.\n\n.. toctree::\n   :maxdepth: 1\n\n'
                        + '\n'.join(f'   api/{name}' for name in order) + '\n')
    return found
