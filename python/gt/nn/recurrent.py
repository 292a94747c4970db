"""Recurrent cells: one step of an RNN, an LSTM or a GRU. Inputs are (N, input_size) or (input_size)."""

import math

import gt
from gt.nn import functional as F
from gt.nn import init
from gt.nn.module import Module
from gt.nn.parameter import Parameter


class _Cell(Module):
    """Weights for `gates` gates, from the input and from the hidden state."""

    gates = 1

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = self.gates * hidden_size
        self.weight_ih = Parameter(gt.empty(rows, input_size, dtype=dtype))
        self.weight_hh = Parameter(gt.empty(rows, hidden_size, dtype=dtype))
        self.bias_ih = Parameter(gt.empty(rows, dtype=dtype)) if bias else None
        self.bias_hh = Parameter(gt.empty(rows, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self):
        """Uniform between ±1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _zeros(self, input):
        return gt.zeros(*input.shape[:-1], self.hidden_size, dtype=input.dtype)

    def _of_input(self, input):
        return F.linear(input, self.weight_ih, self.bias_ih)

    def _of_state(self, hidden):
        return F.linear(hidden, self.weight_hh, self.bias_hh)

    def extra_repr(self):
        return f'{self.input_size}, {self.hidden_size}' + ('' if self.bias else f', bias={self.bias}')


class RNNCell(_Cell):
    """tanh or relu of the weighted input and hidden state."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity='tanh', device=None, dtype=None):
        if nonlinearity not in ('tanh', 'relu'):
            raise ValueError(f'Unknown nonlinearity: {nonlinearity}')
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        total = self._of_input(input) + self._of_state(self._zeros(input) if hx is None else hx)
        return total.tanh() if self.nonlinearity == 'tanh' else total.relu()

    def extra_repr(self):
        shown = '' if self.nonlinearity == 'tanh' else f', nonlinearity={self.nonlinearity}'
        return super().extra_repr() + shown


class LSTMCell(_Cell):
    """(hidden, cell) from the input and the (hidden, cell) before."""

    gates = 4

    def forward(self, input, hx=None):
        hidden, cell = (self._zeros(input),) * 2 if hx is None else hx
        gates = (self._of_input(input) + self._of_state(hidden)).chunk(4, -1)
        cell = gates[1].sigmoid() * cell + gates[0].sigmoid() * gates[2].tanh()
        return gates[3].sigmoid() * cell.tanh(), cell


class GRUCell(_Cell):
    """hidden from the input and the hidden state before."""

    gates = 3

    def forward(self, input, hx=None):
        hidden = self._zeros(input) if hx is None else hx
        reset, update, new = self._of_input(input).chunk(3, -1)
        hidden_reset, hidden_update, hidden_new = self._of_state(hidden).chunk(3, -1)
        new = (new + (reset + hidden_reset).sigmoid() * hidden_new).tanh()
        return new + (update + hidden_update).sigmoid() * (hidden - new)
