"""Recurrent networks: the cells, one step each, and RNN, LSTM and GRU, which run over sequences.

A step is a function of two projections: of the input and of the hidden state. Layers project the inputs of all steps at
once, cells those of one step.
"""

import math
import warnings

import gt
from gt.amp.policies import active as _autocasting
from gt.nn import init
from gt.nn.functional import dropout, linear
from gt.nn.module import Module
from gt.nn.parameter import Parameter
from gt.nn.utils.rnn import PackedSequence

# ---- steps: (gates of the input, gates of the hidden state, state) to the next state; its first tensor is the output


def _rnn_tanh(of_input, of_state, state):
    return (of_input + of_state).tanh(),


def _rnn_relu(of_input, of_state, state):
    return (of_input + of_state).relu(),


def _lstm(of_input, of_state, state):
    gates = (of_input + of_state).chunk(4, -1)
    cell = gates[1].sigmoid() * state[1] + gates[0].sigmoid() * gates[2].tanh()
    return gates[3].sigmoid() * cell.tanh(), cell


def _gru(of_input, of_state, state):
    reset, update, new = of_input.chunk(3, -1)
    state_reset, state_update, state_new = of_state.chunk(3, -1)
    new = (new + (reset + state_reset).sigmoid() * state_new).tanh()
    return new + (update + state_update).sigmoid() * (state[0] - new),


class _Recurrent(Module):
    """Common to cells and layers: sizes, and weights for `gates` gates."""

    _gt_gates, _gt_states, _gt_step = 1, 1, None

    def _gt_add_weights(self, suffix, input_size, dtype, output_size=None):
        rows = self._gt_gates * self.hidden_size
        setattr(self, 'weight_ih' + suffix, Parameter(gt.empty(rows, input_size, dtype=dtype)))
        setattr(self, 'weight_hh' + suffix, Parameter(gt.empty(rows, output_size or self.hidden_size, dtype=dtype)))
        for name in ('bias_ih', 'bias_hh') if self.bias else ():
            setattr(self, name + suffix, Parameter(gt.empty(rows, dtype=dtype)))

    def reset_parameters(self):
        """Uniform between ±1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _gt_projected(self, which, input, suffix=''):
        bias = getattr(self, f'bias_{which}{suffix}') if self.bias else None
        return linear(input, getattr(self, f'weight_{which}{suffix}'), bias)


def _step_of(nonlinearity):
    if nonlinearity not in ('tanh', 'relu'):
        raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
    return _rnn_tanh if nonlinearity == 'tanh' else _rnn_relu


# ---- cells -------------------------------------------------------------------------------------------------------


class RNNCellBase(_Recurrent):
    """The base of cells: one step. Inputs are (N, input_size) or (input_size)."""

    def __init__(self, input_size, hidden_size, bias, num_chunks=None, device=None, dtype=None):
        super().__init__()
        self._gt_gates = self._gt_gates if num_chunks is None else num_chunks
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self._gt_add_weights('', input_size, dtype)
        if not bias:
            self.register_parameter('bias_ih', None)
            self.register_parameter('bias_hh', None)
        self.reset_parameters()

    def _gt_next(self, input, state):
        name = type(self).__name__
        if input.ndim not in (1, 2):
            raise ValueError(f'{name}: Expected input to be 1D or 2D, got {input.ndim}D instead')
        for k, tensor in enumerate(state or ()):
            if tensor.ndim not in (1, 2):
                which = f'hx[{k}]' if self._gt_states > 1 else 'hidden'
                raise ValueError(f'{name}: Expected {which} to be 1D or 2D, got {tensor.ndim}D instead')
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f'input has inconsistent input_size: got {input.shape[-1]} expected {self.input_size}')
        if state is None:
            state = (gt.zeros(*input.shape[:-1], self.hidden_size, dtype=input.dtype),) * self._gt_states
        return self._gt_step(self._gt_projected('ih', input), self._gt_projected('hh', state[0]), state)

    def extra_repr(self):
        return f'{self.input_size}, {self.hidden_size}' + ('' if self.bias else f', bias={self.bias}')


class RNNCell(RNNCellBase):
    """tanh or relu of the weighted input and hidden state."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity='tanh', device=None, dtype=None):
        self._gt_step = _step_of(nonlinearity)
        super().__init__(input_size, hidden_size, bias, None, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        """The next hidden state."""
        return self._gt_next(input, None if hx is None else (hx,))[0]

    def extra_repr(self):
        shown = '' if self.nonlinearity == 'tanh' else f', nonlinearity={self.nonlinearity}'
        return super().extra_repr() + shown


class LSTMCell(RNNCellBase):
    """(hidden, cell) from the input and the (hidden, cell) before."""

    _gt_gates, _gt_states, _gt_step = 4, 2, staticmethod(_lstm)

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, None, device, dtype)

    def forward(self, input, hx=None):
        """The next (hidden, cell)."""
        return self._gt_next(input, hx)


class GRUCell(RNNCellBase):
    """hidden from the input and the hidden state before."""

    _gt_gates, _gt_step = 3, staticmethod(_gru)

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, None, device, dtype)

    def forward(self, input, hx=None):
        """The next hidden state."""
        return self._gt_next(input, None if hx is None else (hx,))[0]


# ---- layers ------------------------------------------------------------------------------------------------------

# What a mode of RNNBase means: (gates, tensors in the state, step)
_MODES = {'LSTM': (4, 2, _lstm), 'GRU': (3, 1, _gru), 'RNN_TANH': (1, 1, _rnn_tanh), 'RNN_RELU': (1, 1, _rnn_relu)}


def _check_sizes(hidden_size, num_layers, dropout, proj_size):
    if not 0 <= dropout <= 1 or isinstance(dropout, bool):
        raise ValueError('dropout should be a number in range [0, 1] representing the probability of an element being '
                         'zeroed')
    if dropout > 0 and num_layers == 1:
        warnings.warn('dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects '
                      f'num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}', stacklevel=4)
    if not isinstance(hidden_size, int):
        raise TypeError(f'hidden_size should be of type int, got: {type(hidden_size).__name__}')
    if hidden_size <= 0 or num_layers <= 0:
        raise ValueError(f'{"hidden_size" if hidden_size <= 0 else "num_layers"} must be greater than zero')
    if proj_size < 0:
        raise ValueError('proj_size should be a positive integer or zero to disable projections')
    if proj_size >= hidden_size:
        raise ValueError('proj_size has to be smaller than hidden_size')


class RNNBase(_Recurrent):
    """Layers over sequences (L, N, input_size), (N, L, input_size) if batch_first, (L, input_size), or packed ones."""

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0, device=None, dtype=None):
        super().__init__()
        if mode not in _MODES:
            raise ValueError(f'Unrecognized RNN mode: {mode}')
        _check_sizes(hidden_size, num_layers, dropout, proj_size)
        self.mode, (self._gt_gates, self._gt_states, self._gt_step) = mode, _MODES[mode]
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, float(dropout), bidirectional
        self.proj_size = proj_size
        output = proj_size or hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else output * (2 if bidirectional else 1)
            for suffix in self._gt_suffixes(layer):
                self._gt_add_weights(suffix, width, dtype, output)
                if proj_size:
                    setattr(self, 'weight_hr' + suffix, Parameter(gt.empty(proj_size, hidden_size, dtype=dtype)))
        self.reset_parameters()

    def _gt_suffixes(self, layer):
        return [f'_l{layer}', f'_l{layer}_reverse'] if self.bidirectional else [f'_l{layer}']

    @property
    def all_weights(self):
        """The weights of each layer and direction."""
        return [[parameter for name, parameter in self.named_parameters() if name.split('_', 2)[2] == suffix[1:]]
                for layer in range(self.num_layers) for suffix in self._gt_suffixes(layer)]

    def flatten_parameters(self):
        """Does nothing. PyTorch packs weights here."""

    # ---- one direction of one layer ------------------------------------------------------------------------

    def _gt_stepped(self, of_input, state, suffix):
        state = self._gt_step(of_input, self._gt_projected('hh', state[0], suffix), state)
        if not self.proj_size:
            return state
        return linear(state[0], getattr(self, 'weight_hr' + suffix)), *state[1:]

    def _gt_run(self, input, suffix, state, sizes):
        """Outputs (L, N, width) and the last state of (L, N, width); the same of packed rows with sizes."""
        projected = self._gt_projected('ih', input, suffix)
        if sizes is not None:
            return self._gt_run_packed(projected.split(sizes), suffix, state, sizes)
        steps, outputs = projected.unbind(0), []
        for of_input in reversed(steps) if suffix.endswith('reverse') else steps:
            state = self._gt_stepped(of_input, state, suffix)
            outputs.append(state[0])
        return gt.stack(outputs[::-1] if suffix.endswith('reverse') else outputs), state

    def _gt_run_packed(self, steps, suffix, state, sizes):
        """Step t has the rows of the sizes[t] longest sequences."""
        if suffix.endswith('reverse'):
            current, outputs = [tensor[:0] for tensor in state], []
            for of_input, size in zip(reversed(steps), reversed(sizes)):
                if size > current[0].shape[0]:  # sequences that end here start from the first state
                    current = [gt.cat([now, first[now.shape[0]:size]]) for now, first in zip(current, state)]
                current = self._gt_stepped(of_input, current, suffix)
                outputs.append(current[0])
            return gt.cat(outputs[::-1]), current
        current, ended, outputs = list(state), [], []
        for of_input, size in zip(steps, sizes):
            if size < current[0].shape[0]:
                ended.append([tensor[size:] for tensor in current])
                current = [tensor[:size] for tensor in current]
            current = self._gt_stepped(of_input, current, suffix)
            outputs.append(current[0])
        ended.append(current)
        return gt.cat(outputs), [gt.cat(parts) for parts in zip(*reversed(ended))]

    # ---- all layers ----------------------------------------------------------------------------------------

    def _gt_check(self, input, state):
        name = type(self).__name__
        if input.ndim not in (2, 3):
            raise ValueError(f'{name}: Expected input to be 2D or 3D, got {input.ndim}D '
                             f'{"tensor " if name == "RNN" else ""}instead')
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f'input.size(-1) must be equal to input_size. Expected {self.input_size}, '
                               f'got {input.shape[-1]}')
        if any(tensor.ndim != input.ndim for tensor in state or ()):
            ranks = [f'{tensor.ndim}-D' for tensor in state]
            told = f'hx should also be {input.ndim}-D but got {ranks[0]} tensor' if self._gt_states == 1 else (
                f'hx and cx should also be {input.ndim}-D but got ({", ".join(ranks)}) tensors')
            raise RuntimeError(f'For {"" if input.ndim == 3 else "un"}batched {input.ndim}-D input, {told}')

    def _gt_first_state(self, batch, dtype, state):
        """A state for each layer and direction; zeros if there is none."""
        layers = self.num_layers * (2 if self.bidirectional else 1)
        shapes = [(layers, batch, self.proj_size or self.hidden_size), (layers, batch, self.hidden_size)][:self._gt_states]
        if state is None:
            return [gt.zeros(shape, dtype=dtype) for shape in shapes]
        for k, (tensor, shape) in enumerate(zip(state, shapes)):
            if tensor.shape != shape:
                which = 'hidden' if self._gt_states == 1 else f'hidden[{k}]'
                raise RuntimeError(f'Expected {which} size {shape}, got {list(tensor.shape)}')
        return state

    def _gt_layers(self, input, state, sizes):
        """The outputs of the last layer, and the last state of each layer and direction."""
        last = []
        for layer in range(self.num_layers):
            runs = [self._gt_run(input, suffix, [tensor[len(last) + k] for tensor in state], sizes)
                    for k, suffix in enumerate(self._gt_suffixes(layer))]
            last += [final for _, final in runs]
            input = gt.cat([output for output, _ in runs], -1) if self.bidirectional else runs[0][0]
            if self.dropout and layer < self.num_layers - 1:
                input = dropout(input, self.dropout, self.training)
        return input, [gt.stack(tensors) for tensors in zip(*last)]

    def _gt_over_packed(self, packed, state):
        """The same of a PackedSequence; states are in the order of the user's sequences."""
        if packed.data.shape[-1] != self.input_size:
            raise RuntimeError(f'input.size(-1) must be equal to input_size. Expected {self.input_size}, '
                               f'got {packed.data.shape[-1]}')
        sizes = packed.sizes()
        if state is not None and packed.sorted_indices is not None:
            state = [tensor.index_select(1, packed.sorted_indices) for tensor in state]
        output, last = self._gt_layers(packed.data, self._gt_first_state(sizes[0], packed.data.dtype, state), sizes)
        if packed.unsorted_indices is not None:
            last = [tensor.index_select(1, packed.unsorted_indices) for tensor in last]
        return packed.with_data(output), last

    def _gt_over(self, input, state):
        """The output, and the last state."""
        given, wanted = (input.data if isinstance(input, PackedSequence) else input).dtype, self.weight_ih_l0.dtype
        if given != wanted and not _autocasting:
            raise ValueError(f'input must have the type {wanted}, got type {given}')
        if isinstance(input, PackedSequence):
            return self._gt_over_packed(input, state)
        self._gt_check(input, state)
        batched = input.ndim == 3
        if not batched:
            input, state = input.unsqueeze(1), state and [tensor.unsqueeze(1) for tensor in state]
        elif self.batch_first:
            input = input.transpose(0, 1)
        output, last = self._gt_layers(input, self._gt_first_state(input.shape[1], input.dtype, state), None)
        if not batched:
            return output.squeeze(1), [tensor.squeeze(1) for tensor in last]
        return (output.transpose(0, 1) if self.batch_first else output), last

    def forward(self, input, hx=None):
        """(output, last state) of a sequence and the state before it; zeros if there is none."""
        output, last = self._gt_over(input, hx if hx is None or self._gt_states > 1 else [hx])
        return output, last[0] if self._gt_states == 1 else tuple(last)

    def extra_repr(self):
        defaults = {'proj_size': 0, 'num_layers': 1, 'bias': True, 'batch_first': False, 'dropout': 0.0,
                    'bidirectional': False}
        values = {name: getattr(self, name) for name in defaults}
        shown = [f'{name}={value}' for name, value in values.items() if value != defaults[name]]
        return ', '.join([str(self.input_size), str(self.hidden_size), *shown])


def _no_projection(options):
    if 'proj_size' in options:
        raise ValueError('proj_size argument is only supported for LSTM, not RNN or GRU')


class RNN(RNNBase):
    """Layers of RNNCell: (output, hidden) from the input and the hidden state (layers * directions, N, hidden_size)."""

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity='tanh', bias=True, batch_first=False,
                 dropout=0.0, bidirectional=False, device=None, dtype=None, **options):
        _no_projection(options)
        _step_of(nonlinearity)
        super().__init__('RNN_' + nonlinearity.upper(), input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, device=device, dtype=dtype, **options)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Layers of LSTMCell: (output, (hidden, cell)) from the input and (hidden, cell).

    >>> output, (hidden, cell) = nn.LSTM(10, 20, 2)(gt.randn(5, 3, 10))
    """

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0, device=None, dtype=None):
        super().__init__('LSTM', input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size,
                         device, dtype)


class GRU(RNNBase):
    """Layers of GRUCell: (output, hidden) from the input and the hidden state."""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, device=None, dtype=None, **options):
        _no_projection(options)
        super().__init__('GRU', input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
                         device=device, dtype=dtype, **options)
