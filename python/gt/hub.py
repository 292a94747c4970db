"""torch.hub: GT downloads nothing."""

from gt import _help


def _refuse(*arguments, **options):
    """Refused with a hint."""
    raise NotImplementedError('gt.hub: GT does not download code or weights; load a file with gt.load()')


load = list = help = download_url_to_file = load_state_dict_from_url = _refuse


def get_dir() -> str:
    """The folder that PyTorch would use."""
    import os
    return os.path.expanduser('~/.cache/torch/hub')

__dir__ = _help.publish(__name__)
