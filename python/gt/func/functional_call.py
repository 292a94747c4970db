"""functional_call: a module with other parameters; stack_module_state: the parameters of several modules, stacked."""

from gt import Tensor, _gt


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """Call module(*args, **kwargs) with parameters and buffers replaced by those of a dict (or several), by name.

        outputs = gt.func.functional_call(model, dict(model.named_parameters()), (x,))
    """
    if isinstance(parameter_and_buffer_dicts, (list, tuple)):
        given = {}
        for part in parameter_and_buffer_dicts:
            repeated = given.keys() & part.keys()
            if repeated:
                raise ValueError(f'{sorted(repeated)} appeared in multiple dictionaries; behavior of functional call is '
                                 'ambiguous')
            given.update(part)
    elif isinstance(parameter_and_buffer_dicts, dict):
        given = parameter_and_buffer_dicts
    else:
        raise ValueError('Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got '
                         f'{type(parameter_and_buffer_dicts)}')
    known = _known(module)
    values = _untied(known, given) if tie_weights else given
    if strict:
        _check_names(module, known, values)
    before = {}
    try:
        for name, value in values.items():
            before[name] = _swap(module, name, value)
        arguments = () if args is None else args if isinstance(args, tuple) else (args,)
        return module(*arguments, **(kwargs or {}))
    finally:
        after = {name: _swap(module, name, value) for name, value in before.items()}
        # A module may have assigned new tensors, as `self.mean = ...` does: those are in the dict from now on.
        given.update({name: value for name, value in after.items() if name in given and value is not values[name]})


_MISSING = object()


def _swap(module, path, value):
    """Put a value at a path and return what was there: _MISSING for nothing."""
    path, _, name = path.rpartition('.')
    owner = module.get_submodule(path)
    if not (value is _MISSING or value is None or isinstance(value, Tensor)):
        raise TypeError(f'{value} is not an instance of gt.Tensor')
    for table in (owner._parameters, owner._buffers):
        if name in table:
            before, table[name] = table[name], value
            return before
    before = getattr(owner, name, _MISSING)
    if not (before is _MISSING or before is None or isinstance(before, Tensor)):
        raise TypeError(f'attribute `{name}`: {before} is not an instance of gt.Tensor')
    if value is not _MISSING:
        setattr(owner, name, value)
    elif before is not _MISSING:
        delattr(owner, name)
    return before


def _known(module):
    """The parameters and buffers by name, tied ones under all their names."""
    return {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}


def _check_names(module, known, values):
    errors = []
    for title, names in (('Unexpected', values.keys() - known.keys()), ('Missing', known.keys() - values.keys())):
        if names:
            errors.append(f'{title} key(s): {", ".join(map(repr, sorted(names)))}.')
    if errors:
        raise RuntimeError(f'Error(s) in reparametrizing for {module._get_name()}:\n\t' + '\n\t'.join(errors))


def _untied(known, given):
    """The values for all names of the tensors given: those of tied ones are the same."""
    names, values = {}, dict(given)
    for name, tensor in known.items():
        names.setdefault(tensor, set()).add(name)
    for name in given:
        tied = names.get(known.get(name), {name})
        if len({id(given[other]) for other in tied if other in given}) > 1:
            raise ValueError(f'functional_call got multiple values for keys {sorted(tied)}, which are tied. Consider using '
                             'tie_weights=False')
        values.update(dict.fromkeys(tied, given[name]))
    return values


def stack_module_state(models):
    """(parameters, buffers) of several modules of one class, stacked along a new first dimension, for vmap.

        params, buffers = gt.func.stack_module_state(models)
    """
    if not models:
        raise RuntimeError('stack_module_state: Expected at least one model, got 0.')
    if not (all(model.training for model in models) or not any(model.training for model in models)):
        raise RuntimeError('stack_module_state: Expected all models to have the same training/eval mode.')
    if not all(type(model) is type(models[0]) for model in models):
        raise RuntimeError('stack_module_state: Expected all models to be of the same class.')

    def stacked(tensors):
        if len({tensor.requires_grad for tensor in tensors}) > 1:
            raise RuntimeError('Expected all parameters to have the same requires_grad')
        return _gt.stack([tensor.detach() for tensor in tensors]).requires_grad_(tensors[0].requires_grad)
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return ({name: stacked([part[name] for part in parameters]) for name in parameters[0]},
            {name: stacked([part[name] for part in buffers]) for name in buffers[0]})
