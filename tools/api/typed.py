"""Signatures with types: from signatures.pyi, from the op table, or from the functions themselves.

A Parameter's type comes from parameters.txt by its name, from its default, or else is Any.
"""

import ast
import inspect
import math
import pathlib
import re
from dataclasses import dataclass, replace

HERE = pathlib.Path(__file__).parent
SEVERAL, KEYWORD, REST = '*', 'keyword', '**'


@dataclass(frozen=True)
class Parameter:
    """One parameter: its kind is '' (positional or keyword), '/', '*', 'keyword' or '**'; default is source text or None."""
    name: str
    kind: str = ''
    type: str = 'Any'
    default: str | None = None


@dataclass(frozen=True)
class Signature:
    """One overload: parameters, the type of the result, and a comment for the type checkers."""
    parameters: tuple
    result: str = 'Any'
    note: str = ''

    def named(self, name):
        """The parameter of a name, or None."""
        return next((each for each in self.parameters if each.name == name), None)


# ---- what is known of parameters ------------------------------------------------------------------------------

def read_parameters():
    """{(scope, name): (type, text)} of parameters.txt."""
    found, scope = {}, ''
    for line in (HERE / 'parameters.txt').read_text().splitlines():
        if line.startswith('['):
            scope = line.strip('[]')
        elif line and not line.startswith('#'):
            name, kind, text = (part.strip() for part in line.split(' : ', 2))
            for each in name.split(', '):
                found[scope, each] = kind, text
    return found


PARAMETERS = read_parameters()


def known(scopes, name):
    """(type, text) of a parameter in the first scope that knows it."""
    for scope in (*scopes, ''):
        if (scope, name) in PARAMETERS:
            return PARAMETERS[scope, name]
    return None


def _type_of_default(value):
    if value is inspect.Parameter.empty or value is None:
        return None
    for kind in (bool, int, float, str):
        if type(value) is kind:
            return 'float' if kind is int else kind.__name__
    return None


def _fitting(kind, default):
    """The type of parameters.txt, unless the default value shows that this parameter is another one."""
    own = _type_of_default(default)
    if own is None or kind == 'Any' or re.search(rf'\b{own}\b', kind):
        return kind
    numbers = kind in ('int', 'Number', 'Dims', 'Operand') and own == 'float'
    fits = numbers and (isinstance(default, int) or kind not in ('int', 'Dims'))
    return kind if fits else own


def _type_of_annotation(annotation):
    if annotation in (bool, int, float, str):
        return annotation.__name__
    if isinstance(annotation, str) and annotation in ('bool', 'int', 'float', 'str', 'None'):
        return annotation
    return None


def _default_text(value):
    if value is inspect.Parameter.empty:
        return None
    if value is None or isinstance(value, (bool, int, str)) or isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, tuple) and all(isinstance(each, (bool, int, float, str)) for each in value):
        return repr(value)
    return '...'


KINDS = {inspect.Parameter.POSITIONAL_ONLY: '/', inspect.Parameter.POSITIONAL_OR_KEYWORD: '',
         inspect.Parameter.VAR_POSITIONAL: SEVERAL, inspect.Parameter.KEYWORD_ONLY: KEYWORD,
         inspect.Parameter.VAR_KEYWORD: REST}


def of_runtime(value, scopes, result='Any', is_method=False):
    """The Signature of a Python function, with types by the names of its parameters."""
    found = []
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return Signature((Parameter('args', SEVERAL), Parameter('kwargs', REST)), result)
    for k, each in enumerate(signature.parameters.values()):
        if k == 0 and is_method:
            found.append(Parameter(each.name, KINDS[each.kind], ''))
            continue
        entry = known(scopes, each.name)
        kind = _type_of_annotation(each.annotation) or _fitting(entry[0] if entry else '', each.default) or 'Any'
        default = _default_text(each.default)
        if default == 'None' and kind != 'Any' and 'None' not in kind and kind != 'Device':
            kind += ' | None'
        found.append(Parameter(each.name, KINDS[each.kind], kind, default))
    annotated = _type_of_annotation(signature.return_annotation)
    if signature.return_annotation is None:
        annotated = 'None'
    return Signature(tuple(found), annotated or result)


# ---- signatures.pyi --------------------------------------------------------------------------------------------

def _of_arguments(arguments):
    found = []
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    for k, (each, default) in enumerate(zip(plain, defaults)):
        kind = '/' if k < len(arguments.posonlyargs) else ''
        found.append((each, kind, default))
    if arguments.vararg:
        found.append((arguments.vararg, SEVERAL, None))
    found += [(each, KEYWORD, default) for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    if arguments.kwarg:
        found.append((arguments.kwarg, REST, None))
    return tuple(Parameter(each.arg, kind, ast.unparse(each.annotation) if each.annotation else '',
                           None if default is None else ast.unparse(default)) for each, kind, default in found)


def read_signatures():
    """({'Tensor.size': [Signature, ...], 'arange': ...}, {'Tensor': {attribute: type}}) of signatures.pyi."""
    text = (HERE / 'signatures.pyi').read_text()
    lines, functions, attributes, bases = text.splitlines(), {}, {}, {}

    def visit(body, prefix):
        for node in body:
            if isinstance(node, ast.ClassDef):
                bases[node.name] = [ast.unparse(base) for base in node.bases]
                attributes[node.name] = {}
                visit(node.body, node.name + '.')
            elif isinstance(node, ast.FunctionDef):
                first = lines[(node.decorator_list[0] if node.decorator_list else node).lineno - 1]
                note = re.search(r'# type: ignore\S*', first + lines[node.lineno - 1])
                signature = Signature(_of_arguments(node.args), ast.unparse(node.returns), note[0] if note else '')
                functions.setdefault(prefix + node.name, []).append(signature)
            elif isinstance(node, ast.AnnAssign):
                attributes[prefix[:-1]][node.target.id] = ast.unparse(node.annotation)
    visit(ast.parse(text).body, '')
    return functions, attributes, bases


SIGNATURES, ATTRIBUTES, BASES = read_signatures()
OUT = Parameter('out', KEYWORD, 'Tensor | None', 'None')


def of_row(name, form):
    """The signature of a method that is a row of the op table, or None."""
    self = Parameter('self', '', '')
    result = 'Self' if name.endswith('_') else 'Tensor'
    if form == 'UNARY':
        return Signature((self,), result)
    if form == 'BINARY':
        return Signature((self, Parameter('other', '', 'Operand')), result)
    if form == 'REDUCE':
        return Signature((self, Parameter('dim', '', 'Dims | None', 'None'), Parameter('keepdim', '', 'bool', 'False'),
                          Parameter('dtype', KEYWORD, 'dtype | None', 'None')), result)
    return None


def as_function(signature):
    """The signature of gt.name() from that of the method."""
    first, *others = signature.parameters
    taken = any(each.name == 'input' for each in others)  # searchsorted(sorted_sequence, input)
    at = next((k for k, each in enumerate(others) if each.kind == REST), len(others))
    if not any(each.name == 'out' for each in others) and signature.result != 'Self':
        others.insert(at, replace(OUT, type='Any') if signature.result not in ('Tensor', 'Any') else OUT)
    result = 'Tensor' if signature.result == 'Self' else signature.result
    operand = Parameter('sorted_sequence', '/', 'Tensor') if taken else Parameter('input', '', 'Tensor')
    return Signature((operand, *others), result, signature.note)


def merged(overloads):
    """One signature that accepts what each overload accepts: that with the most parameters, with defaults for parameters
    that another one has not."""
    longest = max(overloads, key=lambda each: (len(each.parameters), any(one.kind == SEVERAL for one in each.parameters)))
    if len(overloads) == 1:
        return longest
    parameters = []
    for each in longest.parameters:
        needed = all(other.named(each.name) for other in overloads)
        optional = each.default is None and each.kind in ('', '/') and not needed and each.name != 'self'
        parameters.append(replace(each, default='None') if optional else each)
    for k in range(1, len(parameters)):  # a default may not come before a parameter without
        before, after = parameters[k - 1], parameters[k]
        if before.default is not None and after.default is None and after.kind == '':
            parameters[k] = replace(after, default='None')
    return Signature(tuple(parameters), longest.result)


# ---- text ------------------------------------------------------------------------------------------------------

# Methods of Tensor and functions of the package have the names of types, which stubs therefore write with an underscore.
HIDDEN = re.compile(r'(?<![\w.])(bool|int|float|complex|str|type|dtype|device|layout|memory_format|slice|object)(?!\w)')


def type_text(kind):
    """A type as the stubs write it."""
    return HIDDEN.sub(r'_\1', kind)


LITERAL = re.compile(r"None|True|False|-?[\d.e+-]+|'\w*'")  # defaults that stubs repeat


def _parameter_text(each, types):
    text = {SEVERAL: '*', REST: '**'}.get(each.kind, '') + each.name
    typed = types and each.type
    if typed:
        text += ': ' + type_text(each.type)
    if each.default is not None:
        text += (' = ' if typed else '=') + ('...' if types and not LITERAL.fullmatch(each.default) else each.default)
    return text


def parameters_text(signature, types=True, self_mark=''):
    """The parameters, as between the parentheses of a definition; without types, for __text_signature__."""
    texts, positional, starred = [], False, False
    for k, each in enumerate(signature.parameters):
        if positional and each.kind != '/':
            texts.append('/')
            positional = False
        positional = each.kind == '/'
        if each.kind == SEVERAL:
            starred = True
        elif each.kind == KEYWORD and not starred:
            texts.append('*')
            starred = True
        texts.append((self_mark if k == 0 else '') + _parameter_text(each, types))
    if positional:
        texts.append('/')
    return ', '.join(texts)


def runtime_text(signature, is_method):
    """The signature for __text_signature__: no types, and no defaults that are not literals."""
    plain = [replace(each, default='None' if each.default == '...' else each.default) for each in signature.parameters]
    return f"({parameters_text(Signature(tuple(plain)), False, '$' if is_method else '')})"

# Second names of rows of the op table.
ALIASES = {
    'absolute': 'abs', 'arccos': 'acos', 'arccosh': 'acosh', 'arcsin': 'asin', 'arcsinh': 'asinh', 'arctan': 'atan',
    'arctan2': 'atan2', 'arctanh': 'atanh', 'fix': 'trunc', 'greater': 'gt', 'greater_equal': 'ge', 'less': 'lt',
    'less_equal': 'le', 'multiply': 'mul', 'negative': 'neg', 'not_equal': 'ne', 'true_divide': 'div'}
