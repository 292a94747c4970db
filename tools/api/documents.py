"""Docstrings: the first lines of the source, the parameters with their texts, and an example.

The examples are in examples/*.txt. An entry is a name, a colon and perhaps a text that replaces the one in the source,
then a session as in a terminal:

    Tensor.exp: e to the power of each element.
    >>> gt.tensor([0., 1.]).exp()
    tensor([1.0000, 2.7183])

gt.exp(x) and x.exp_() take theirs from x.exp() unless they have entries of their own.
"""

import ast
import enum
import inspect
import re
import types

import stubs
import typed
import walk

CALL = re.compile(r'(?:`?[\w.]+\((?:[^()]|\([^()]*\))*\)`?(?:,? or |, )?)+: ')


def read_examples():
    """{name: (text or '', [line of the session, ...])}"""
    found = {}
    for path in sorted((typed.HERE / 'examples').glob('*.txt')):
        name, text, lines = None, '', []
        for line in [*path.read_text().splitlines(), '']:
            if not line and name:
                found[name] = text, lines
                name, lines = None, []
            elif line and name is None:
                name, _, text = line.partition(':')
                text = text.strip()
            elif line:
                lines.append(line)
    return found


EXAMPLES = read_examples()


# ---- examples that follow from others ----------------------------------------------------------------------------

def _call_of(source, method):
    """The call of a method in a line: (before, object, arguments, after), or None."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
            end = node.func.value.end_col_offset
            receiver = source[node.func.value.col_offset:end]
            inside = source[node.func.end_col_offset + 1:node.end_col_offset - 1]
            return source[:node.col_offset], receiver, inside, source[node.end_col_offset:]
    return None


def as_function(lines, method, function):
    """The session of x.method(a), with function(x, a) instead."""
    changed = []
    for line in lines:
        call = _call_of(line[4:], method) if line.startswith('>>> ') else None
        if call:
            before, receiver, inside, after = call
            line = f'>>> {before}{function}({receiver}{", " if inside else ""}{inside}){after}'
        changed.append(line)
    return changed


def in_place(lines, method):
    """The session of x.method(a), with x.method_(a) instead."""
    changed = []
    for line in lines:
        call = _call_of(line[4:], method) if line.startswith('>>> ') else None
        if call:
            before, receiver, inside, after = call
            changed.append(f'>>> x = {receiver}')
            line = f'>>> {before}x.{method}_({inside}){after}'
        changed.append(line)
    return changed


# ---- the parts of a docstring ------------------------------------------------------------------------------------

def sentence(text):
    """A text as a sentence, without the call that it may begin with."""
    text = CALL.sub('', text, count=1).strip()
    if not text:
        return ''
    text = text[0].upper() + text[1:]
    return text if text.endswith(('.', '!', ':')) else text + '.'


def source_text(value):
    """The docstring in the source: (first paragraph as a sentence, the others without examples)."""
    text = inspect.cleandoc(getattr(value, '__doc__', None) or '')
    first, *others = text.split('\n\n')
    return sentence(' '.join(first.split())), '\n\n'.join(part for part in others if '>>>' not in part)


def arguments_text(signature, scopes):
    """The section with the parameters, or ''."""
    lines = []
    for place, each in enumerate(signature.parameters):
        if each.name == 'self' or (each.name == 'cls' and not place) or each.name.startswith('_'):
            continue
        entry = typed.known(scopes, each.name)
        if not entry:
            raise LookupError(f"{scopes[0]}: no text for the parameter '{each.name}' in tools/api/parameters.txt")
        default = f' (default: {each.default})' if each.default not in (None, '...', 'None') else ''
        stars = {typed.SEVERAL: '*', typed.REST: '**'}.get(each.kind, '')
        lines.append(f'    {stars}{each.name}: {entry[1]}{default}.')
    return 'Args:\n' + '\n'.join(lines) if lines else ''


def compose(name, summary, rest, signature, scopes, lines):
    """A whole docstring."""
    if not summary:
        raise LookupError(f'{name}: no docstring in the source, and no text in tools/api/examples')
    if not lines:
        raise LookupError(f'{name}: no example in tools/api/examples')
    parts = [summary, rest, arguments_text(signature, scopes), 'Example:\n' + '\n'.join('    ' + line for line in lines)]
    return '\n\n'.join(part for part in parts if part) + '\n'


# ---- names ---------------------------------------------------------------------------------------------------------

def _method_parts(name):
    """(summary, rest, lines) of a method of Tensor."""
    import gt
    value = getattr(gt.Tensor, name)
    text, lines = EXAMPLES.get('Tensor.' + name, ('', []))
    base = name[:-1] if name.endswith('_') else typed.ALIASES.get(name)
    if base and (not text or not lines) and (name.endswith('_') and hasattr(gt.Tensor, base) or base in typed.ALIASES.values()):
        base_text, base_rest, base_lines = _method_parts(base)
        if name.endswith('_') and base in typed.ALIASES:
            own = typed.ALIASES[base] + '_'
            text, lines = f'{base_text} In place.', [line.replace(f'.{own}(', f'.{name}(') for line in _method_parts(own)[2]]
        if name.endswith('_'):
            return text or base_text.rstrip('.') + ', in place.', '', lines or in_place(base_lines, base)
        same = [line.replace(f'.{base}(', f'.{name}(') for line in base_lines]
        return text or f'{base_text} The same as {base}().', '', lines or same
    summary, rest = source_text(value)
    return text or summary, rest if not text else '', lines


def method_document(name):
    """The docstring of a method of Tensor, with its signature if C implements it."""
    import gt
    signature = typed.merged(stubs.method_signatures(name))
    summary, rest, lines = _method_parts(name)
    text = compose('Tensor.' + name, summary, rest, signature, ('Tensor.' + name, 'Tensor'), lines)
    value = getattr(gt.Tensor, name)
    wrapped = getattr(value, '__wrapped__', None)
    around = isinstance(wrapped, types.MethodDescriptorType) and wrapped.__name__ == name
    if isinstance(value, types.MethodDescriptorType) or around:
        text = f'{name}{typed.runtime_text(signature, True)}\n--\n\n{text}'
    return text


def function_document(module, name, value):
    """The docstring of a function of a module, with its signature if C implements it."""
    import gt
    full = f'{module}.{name}'
    text, lines = EXAMPLES.get(full, ('', []))
    summary, rest = source_text(getattr(value, '__wrapped__', value))
    method = getattr(getattr(value, '__wrapped__', None), '__name__', '')
    if isinstance(value, gt._gt.Function) and getattr(gt.Tensor, method, None) is value.__wrapped__:
        summary, rest, base_lines = _method_parts(method)
        lines = lines or as_function(base_lines, method, full)
    signature = typed.merged(stubs.function_signatures(module, name, value))
    document = compose(full, text or summary, '' if text else rest, signature, (full, module), lines)
    value = getattr(value, '__wrapped__', value)
    if isinstance(value, types.BuiltinFunctionType):
        document = f'{value.__name__}{typed.runtime_text(signature, False)}\n--\n\n{document}'
    return document


def class_document(module, name, value):
    """The docstring of a class, with the parameters of its constructor."""
    full = f'{module}.{name}'
    text, lines = EXAMPLES.get(full, ('', []))
    summary, rest = source_text(value) if '__doc__' in vars(value) else ('', '')
    signature = typed.of_runtime(value, (full, module + '.classes', module))
    if issubclass(value, enum.Enum):
        signature = typed.Signature(())
    return compose(full, text or summary, '' if text else rest, signature, (full, module + '.classes', module), lines)


# Classes whose docstring cannot be replaced, or that users do not construct: their texts are in the source.
FIXED = ('gt.dtype', 'gt.Connection')


def write(folder):
    """Write gt/_documents: a table for each public module, one for its gt.Functions, one for Tensor."""
    import gt
    tables = {'Tensor': {}}

    def add(table, name, make, *arguments):
        try:
            tables.setdefault(table, {})[name] = make(*arguments)
        except LookupError as error:
            stubs.PROBLEMS.append(str(error))
    for name, _ in walk.tensor_methods():
        add('Tensor', name, method_document, name)
    for module, name, value in walk.all_members():
        if f'{module}.{name}' in FIXED:
            continue
        if isinstance(value, type):
            add(module, name, class_document, module, name, value)
        else:
            table = value.__module__ + '.functions' if isinstance(value, gt._gt.Function) else module
            own = value.__name__ if isinstance(value, gt._gt.Function) else name
            add(table, own, function_document, module, name, value)
    target = folder / 'gt' / '_documents'
    target.mkdir(parents=True, exist_ok=True)
    (target / '__init__.py').write_text('"""The docstrings of the package, written by tools/api when it is built."""\n'
                                        f'MISSING: list[str] = {sorted(set(stubs.PROBLEMS))!r}\n')
    for table, texts in tables.items():
        body = ''.join(f'    {name!r}: {text!r},\n' for name, text in texts.items())
        (target / (table.replace('.', '_') + '.py')).write_text(f'TEXTS = {{\n{body}}}\n')
