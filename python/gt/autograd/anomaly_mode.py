"""detect_anomaly: backward passes raise at the first NaN and name the operation that made it, with its line."""

import warnings

from gt import _gt


class set_detect_anomaly:
    """Switch the detection of NaN on or off: from here on, or in a `with` block. Each backward step then waits.

        with gt.autograd.set_detect_anomaly(True):
            loss.backward()
    """

    def __init__(self, mode: bool, check_nan: bool = True):
        self.prev = _gt._anomaly()
        _gt._set_anomaly(bool(mode) and bool(check_nan))

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        _gt._set_anomaly(self.prev)


class detect_anomaly:
    """A context in which backward passes raise an error for NaN. Operations recorded inside have their line known.

        with gt.autograd.detect_anomaly():
            loss = model(x)
            loss.backward()     # RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output. ...
    """

    def __init__(self, check_nan: bool = True):
        self.check_nan = check_nan
        self.prev = None
        warnings.warn('Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for '
                      'debugging.', stacklevel=2)

    def __enter__(self):
        self.prev = _gt._set_anomaly(self.check_nan)

    def __exit__(self, *exception):
        _gt._set_anomaly(self.prev)


def is_anomaly_enabled() -> bool:
    """Whether NaN in backward passes of this thread are detected."""
    return _gt._anomaly()
