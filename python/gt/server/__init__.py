"""`python -m gt.server` is the program."""
