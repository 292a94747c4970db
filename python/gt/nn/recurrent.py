"""Recurrent networks: the cells, one step each, and RNN, LSTM and GRU, which run over sequences.

A step is a function of two projections: of the input and of the hidden state. Layers project the inputs of all steps at
once, cells those of one step.
"""

import math

import gt
from gt.nn import functional as F
from gt.nn import init
from gt.nn.module import Module
from gt.nn.parameter import Parameter

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

    gates, states, step = 1, 1, None

    def _add_weights(self, suffix, input_size, dtype):
        rows = self.gates * self.hidden_size
        setattr(self, 'weight_ih' + suffix, Parameter(gt.empty(rows, input_size, dtype=dtype)))
        setattr(self, 'weight_hh' + suffix, Parameter(gt.empty(rows, self.hidden_size, dtype=dtype)))
        for name in ('bias_ih', 'bias_hh') if self.bias else ():
            setattr(self, name + suffix, Parameter(gt.empty(rows, dtype=dtype)))

    def reset_parameters(self):
        """Uniform between ±1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _projected(self, which, input, suffix=''):
        bias = getattr(self, f'bias_{which}{suffix}') if self.bias else None
        return F.linear(input, getattr(self, f'weight_{which}{suffix}'), bias)


def _step_of(nonlinearity):
    if nonlinearity not in ('tanh', 'relu'):
        raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
    return _rnn_tanh if nonlinearity == 'tanh' else _rnn_relu


# ---- cells -------------------------------------------------------------------------------------------------------


class _Cell(_Recurrent):
    """One step. Inputs are (N, input_size) or (input_size)."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self._add_weights('', input_size, dtype)
        if not bias:
            self.bias_ih = self.bias_hh = None
        self.reset_parameters()

    def _next(self, input, state):
        if state is None:
            state = (gt.zeros(*input.shape[:-1], self.hidden_size, dtype=input.dtype),) * self.states
        return self.step(self._projected('ih', input), self._projected('hh', state[0]), state)

    def extra_repr(self):
        return f'{self.input_size}, {self.hidden_size}' + ('' if self.bias else f', bias={self.bias}')


class RNNCell(_Cell):
    """tanh or relu of the weighted input and hidden state."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity='tanh', device=None, dtype=None):
        self.step = _step_of(nonlinearity)
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        return self._next(input, None if hx is None else (hx,))[0]

    def extra_repr(self):
        shown = '' if self.nonlinearity == 'tanh' else f', nonlinearity={self.nonlinearity}'
        return super().extra_repr() + shown


class LSTMCell(_Cell):
    """(hidden, cell) from the input and the (hidden, cell) before."""

    gates, states, step = 4, 2, staticmethod(_lstm)

    def forward(self, input, hx=None):
        return self._next(input, hx)


class GRUCell(_Cell):
    """hidden from the input and the hidden state before."""

    gates, step = 3, staticmethod(_gru)

    def forward(self, input, hx=None):
        return self._next(input, None if hx is None else (hx,))[0]


# ---- layers ------------------------------------------------------------------------------------------------------


class _Layers(_Recurrent):
    """Layers over sequences (L, N, input_size), (N, L, input_size) if batch_first, or (L, input_size)."""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, device=None, dtype=None):
        super().__init__()
        if not 0 <= dropout <= 1:
            raise ValueError('dropout should be a number in range [0, 1] representing the probability of an element '
                             'being zeroed')
        if hidden_size <= 0 or num_layers <= 0:
            raise ValueError(f'{"hidden_size" if hidden_size <= 0 else "num_layers"} must be greater than zero')
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * (2 if bidirectional else 1)
            for suffix in self._suffixes(layer):
                self._add_weights(suffix, width, dtype)
        self.reset_parameters()

    def _suffixes(self, layer):
        return [f'_l{layer}', f'_l{layer}_reverse'] if self.bidirectional else [f'_l{layer}']

    def flatten_parameters(self):
        """Does nothing. PyTorch packs weights here."""

    def _run(self, input, suffix, state):
        """One direction of one layer: outputs (L, N, hidden_size) and the last state."""
        steps = self._projected('ih', input, suffix).unbind(0)
        outputs = []
        for of_input in reversed(steps) if suffix.endswith('reverse') else steps:
            state = self.step(of_input, self._projected('hh', state[0], suffix), state)
            outputs.append(state[0])
        return gt.stack(outputs[::-1] if suffix.endswith('reverse') else outputs), state

    def _check(self, input, state):
        name = type(self).__name__
        if input.ndim not in (2, 3):
            raise ValueError(f'{name}: Expected input to be 2D or 3D, got {input.ndim}D instead')
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f'input.size(-1) must be equal to input_size. Expected {self.input_size}, '
                               f'got {input.shape[-1]}')
        for tensor in state or ():
            if tensor.ndim != input.ndim:
                raise RuntimeError(f'For {"" if input.ndim == 3 else "un"}batched {input.ndim}-D input, hx should also be '
                                   f'{input.ndim}-D but got {tensor.ndim}-D tensor')

    def _over(self, input, state):
        """The outputs of the last layer, and the last state of each layer and direction."""
        self._check(input, state)
        batched, directions = input.ndim == 3, 2 if self.bidirectional else 1
        if not batched:
            input, state = input.unsqueeze(1), state and [tensor.unsqueeze(1) for tensor in state]
        elif self.batch_first:
            input = input.transpose(0, 1)
        shape = self.num_layers * directions, input.shape[1], self.hidden_size
        if state is None:
            state = [gt.zeros(shape, dtype=input.dtype)] * self.states
        elif any(tensor.shape != shape for tensor in state):
            raise RuntimeError(f'Expected hidden size {shape}, got {[tensor.shape for tensor in state]}')
        last = []
        for layer in range(self.num_layers):
            runs = [self._run(input, suffix, [tensor[len(last) + k] for tensor in state])
                    for k, suffix in enumerate(self._suffixes(layer))]
            last += [final for _, final in runs]
            input = gt.cat([output for output, _ in runs], -1) if directions == 2 else runs[0][0]
            if self.dropout and layer < self.num_layers - 1:
                input = F.dropout(input, self.dropout, self.training)
        last = [gt.stack(tensors) for tensors in zip(*last)]
        if not batched:
            return input.squeeze(1), [tensor.squeeze(1) for tensor in last]
        return (input.transpose(0, 1) if self.batch_first else input), last

    def forward(self, input, hx=None):
        output, last = self._over(input, None if hx is None else [hx])
        return output, last[0]

    def extra_repr(self):
        defaults = {'num_layers': 1, 'bias': True, 'batch_first': False, 'dropout': 0.0, 'bidirectional': False}
        values = {name: getattr(self, name) for name in defaults}
        shown = [f'{name}={value}' for name, value in values.items() if value != defaults[name]]
        return ', '.join([str(self.input_size), str(self.hidden_size), *shown])


class RNN(_Layers):
    """Layers of RNNCell: (output, hidden) from the input and the hidden state (layers * directions, N, hidden_size)."""

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity='tanh', bias=True, batch_first=False,
                 dropout=0.0, bidirectional=False, device=None, dtype=None):
        self.step = _step_of(nonlinearity)
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device,
                         dtype)
        self.nonlinearity = nonlinearity


class LSTM(_Layers):
    """Layers of LSTMCell: (output, (hidden, cell)) from the input and (hidden, cell)."""

    gates, states, step = 4, 2, staticmethod(_lstm)

    def forward(self, input, hx=None):
        output, last = self._over(input, hx)
        return output, tuple(last)


class GRU(_Layers):
    """Layers of GRUCell: (output, hidden) from the input and the hidden state."""

    gates, step = 3, staticmethod(_gru)
