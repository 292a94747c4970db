"""AdaptiveLogSoftmaxWithLoss: a softmax over many classes in clusters, the frequent ones in a short list."""

from collections import namedtuple

import gt
from gt.nn import functional as F
from gt.nn.containers import ModuleList, Sequential
from gt.nn.layers import Linear
from gt.nn.module import Module

_ASMoutput = namedtuple('_ASMoutput', ['output', 'loss'])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of the targets, and their mean loss, with a smaller projection for each cluster of rare classes.

    cutoffs: the first class of each cluster. div_value: how much narrower the next projection is.

    >>> loss = nn.AdaptiveLogSoftmaxWithLoss(64, 10000, [100, 1000])(hidden, targets).loss
    """

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError('cutoffs should be a sequence of length larger than 0')
        if cutoffs != sorted(cutoffs) or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1 \
                or len(set(cutoffs)) != len(cutoffs) or any(int(c) != c for c in cutoffs):
            raise ValueError('cutoffs should be a sequence of unique, positive integers sorted in an increasing order, '
                             'where each value is between 1 and n_classes-1')
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = self.cutoffs[0], len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, dtype=dtype)
        self.tail = ModuleList()
        for k in range(self.n_clusters):
            width, size = int(in_features // div_value ** (k + 1)), self.cutoffs[k + 1] - self.cutoffs[k]
            self.tail.append(Sequential(Linear(in_features, width, False, dtype=dtype),
                                        Linear(width, size, False, dtype=dtype)))

    def reset_parameters(self):
        """Initialise all projections."""
        self.head.reset_parameters()
        for narrow, wide in self.tail:
            narrow.reset_parameters()
            wide.reset_parameters()

    def forward(self, input, target):
        """(output, loss): the log-probability of each target, and minus their mean."""
        batched = target.ndim > 0
        if batched and (input.shape[0] != target.shape[0] or target.ndim > 1):
            if target.ndim > 1:
                raise RuntimeError('0D or 1D target tensor expected, multi-target not supported')
            raise RuntimeError('Input and target should have the same size in the batch dimension.')
        if batched and input.ndim != 2:
            raise RuntimeError(f'1D target tensor expects 2D input tensors, but found inputs with size '
                               f'gt.Size({list(input.shape)})')
        if not batched and input.ndim != 1:
            raise RuntimeError(f'0D target tensor expects 1D input tensors, but found inputs with size '
                               f'gt.Size({list(input.shape)})')
        x, classes = (input, target) if batched else (input.unsqueeze(0), target.reshape(1))
        self._gt_check_targets(classes)
        head = F.log_softmax(self.head(x), 1)
        output = head.gather(1, self._gt_in_head(classes).unsqueeze(1)).squeeze(1)
        for k, projection in enumerate(self.tail):
            low, high = self.cutoffs[k], self.cutoffs[k + 1]
            inside = (classes >= low) & (classes < high)
            index = gt.where(inside, classes - low, 0).unsqueeze(1)
            within = F.log_softmax(projection(x), 1).gather(1, index).squeeze(1)
            output = output + gt.where(inside, within, 0.0)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _gt_check_targets(self, classes):
        least, most = gt.stack([classes.min(), classes.max()]).tolist() if classes.numel() else (0, 0)
        if least < 0 or most >= self.n_classes:
            raise RuntimeError(f'Target values should be in [0, {self.n_classes - 1}], but values in range [{least}, {most}] '
                               'were found. ')

    def _gt_in_head(self, classes):
        """The place of each class, or of its cluster, in the head."""
        cluster = sum((classes >= cutoff).long() for cutoff in self.cutoffs[:-1])  # 0 for the short list
        return gt.where(cluster == 0, classes, cluster + (self.shortlist_size - 1))

    def log_prob(self, input):
        """(N, n_classes): the log-probabilities of all classes."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, :self.shortlist_size]]
        for k, projection in enumerate(self.tail):
            place = self.shortlist_size + k
            parts.append(F.log_softmax(projection(input), 1) + head[:, place:place + 1])
        return gt.cat(parts, 1)

    def predict(self, input):
        """(N): the most probable classes."""
        return self.log_prob(input).argmax(1)
