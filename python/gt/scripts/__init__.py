"""The monitoring tools as programs: python -m gt.scripts.visualize, .top, .trace and .replay."""
