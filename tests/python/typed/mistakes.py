"""Programs that are wrong: the type checkers must find each line that ends with "# error"."""

import gt
from gt import nn, optim
from gt.nn import functional as F

x = gt.ones(2, 3)
x.sun()  # error
x.sum(dmi=1)  # error
x.reshape_as((3, 2))  # error
x.size("rows")  # error
gt.exp("1")  # error
gt.exp(x, 2)  # error
gt.cat(3)  # error
gt.no_such_function(x)  # error
x.split()  # error
count: str = x.numel()  # error
x + "1"  # error
x.max(1).value  # error
nn.Linear(3)  # error
nn.Linear("3", 4)  # error
nn.Dropout(p="half")  # error
F.relu()  # error
F.cross_entropy(x)  # error
optim.Adam(x, learning_rate=0.1)  # error
gt.zeros(2, dtype="float")  # error
gt.nn.Lineal(3, 4)  # error
