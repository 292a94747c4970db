"""device: accepted wherever PyTorch takes one, and ignored. The dispatcher decides where tensors live."""

_KINDS = ('gt', 'cpu', 'cuda', 'mps', 'xpu', 'meta')


class device(str):
    """device('cuda:1') or device('cuda', 1): a string with a type and an index. Tensors are all on device('gt')."""

    def __new__(cls, type='gt', index=None):
        kind, colon, number = str(type).partition(':')
        if kind not in _KINDS or (colon and not number.isdecimal()):
            raise RuntimeError(f"Expected one of {', '.join(_KINDS)} device type at start of device string: {type}")
        if colon and index is not None:
            raise RuntimeError(f'type (string) must not include an index because index was passed explicitly: {type}')
        index = int(number) if colon else index
        self = super().__new__(cls, kind if index is None else f'{kind}:{index}')
        self.type, self.index = kind, index
        return self

    def __repr__(self):
        return f"device(type='{self.type}'" + (')' if self.index is None else f', index={self.index})')

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False

    def __reduce__(self):
        return device, (str(self),)
