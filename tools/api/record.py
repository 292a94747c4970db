"""Write the results of the examples into examples/*.txt: python tools/api/record.py FILE..."""

import code
import contextlib
import io
import pathlib
import sys
import warnings


def run(lines):
    """The session with its results. A line that begins with '...' continues the one before."""
    import gt
    console, recorded, pending = code.InteractiveConsole({'gt': gt, 'nn': gt.nn, 'F': gt.nn.functional}), [], []
    sources = [line for line in lines if line.startswith(('>>> ', '...'))]
    for k, line in enumerate(sources):
        recorded.append(line)
        pending.append(line[4:])
        if k + 1 < len(sources) and sources[k + 1].startswith('...'):
            continue
        if '+SKIP' in line:
            pending = []
            continue
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            source = '\n'.join(pending) + ('\n' if len(pending) > 1 else '')
            if console.runsource(source, '<example>'):
                console.runsource(source + '\n', '<example>')
        pending = []
        shown = output.getvalue().rstrip('\n').split('\n') if output.getvalue() else []
        if shown and shown[0].startswith('Traceback'):
            shown = [shown[0], '    ...', shown[-1]]
        recorded += [text or '<BLANKLINE>' for text in shown]
    return recorded


def main():
    """Record the examples of each file."""
    warnings.simplefilter('ignore')
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        entries = []
        for entry in path.read_text().strip('\n').split('\n\n'):
            title, *lines = entry.split('\n')
            lines = run(lines)
            if any('Traceback' in line for line in lines):
                print(f'{title}: {lines[-1]}')
            entries.append('\n'.join([title, *lines]))
        path.write_text('\n\n'.join(entries) + '\n')


if __name__ == '__main__':
    main()
