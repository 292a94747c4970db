"""functional_call: a module with other parameters; stack_module_state: the parameters of several modules, stacked."""

from gt import _gt


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """Call module(*args, **kwargs) with parameters and buffers replaced by those of a dict (or several), by name.

        outputs = gt.func.functional_call(model, dict(model.named_parameters()), (x,))
    """
    if isinstance(parameter_and_buffer_dicts, (list, tuple)):
        given = {}
        for part in parameter_and_buffer_dicts:
            repeated = given.keys() & part.keys()
            if repeated:
                raise ValueError(f'{sorted(repeated)} appear in multiple dictionaries; behavior of functional call is '
                                 'ambiguous')
            given.update(part)
    elif isinstance(parameter_and_buffer_dicts, dict):
        given = parameter_and_buffer_dicts
    else:
        raise ValueError('Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got '
                         f'{type(parameter_and_buffer_dicts)}')
    slots = _slots(module)
    chosen = _chosen(slots, given, tie_weights, strict)
    before = [(table, name, table[name]) for table, name, _ in chosen]
    try:
        for table, name, value in chosen:
            table[name] = value
        arguments = () if args is None else args if isinstance(args, tuple) else (args,)
        return module(*arguments, **(kwargs or {}))
    finally:
        for table, name, value in before:
            table[name] = value


def _slots(module):
    """By name: the dictionary and key that hold each parameter and buffer, tied ones under all their names."""
    slots = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for table in (part._parameters, part._buffers):
            for name, value in table.items():
                if value is not None:
                    slots[f'{prefix}.{name}' if prefix else name] = table, name, value
    return slots


def _chosen(slots, given, tie_weights, strict):
    """(dictionary, key, new value) of everything to replace."""
    unknown = [name for name in given if name not in slots]
    missing = [name for name in slots if name not in given]
    if unknown or (strict and missing):
        parts = []
        if unknown:
            parts.append(f'Unexpected key(s): {", ".join(unknown)}.')
        if strict and missing:
            parts.append(f'Missing key(s): {", ".join(missing)}.')
        raise RuntimeError('Error(s) in reparametrizing: \n\t' + '\n\t'.join(parts)) if strict else KeyError(unknown[0])
    values = {name: value for name, value in given.items()}
    if tie_weights:
        by_object = {}
        for name, value in given.items():
            tensor = slots[name][2]
            if id(tensor) in by_object and by_object[id(tensor)][1] is not value:
                raise ValueError(f'functional_call got multiple values for keys {sorted({name, by_object[id(tensor)][0]})}, '
                                 'which are tied. Consider using tie_weights=False')
            by_object[id(tensor)] = name, value
        for name, (_, _, tensor) in slots.items():
            if name not in values and id(tensor) in by_object:
                values[name] = by_object[id(tensor)][1]
    return [(*slots[name][:2], value) for name, value in values.items()]


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


def replace_all_batch_norm_modules_(root):
    """Turn off the running statistics of all batch normalisations in a module, in place; returns it. vmap needs this.

        gt.func.replace_all_batch_norm_modules_(model)
    """
    from gt.nn.norm import _BatchNorm
    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
