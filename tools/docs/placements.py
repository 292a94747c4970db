"""Draw the pictures of placements in docs/cookbook.md: python tools/docs/placements.py writes docs/placement_*.svg.

A picture is a row of tensors for each worker. A tensor is a grid of which the worker has the filled part.
"""

import pathlib

DOCS = pathlib.Path(__file__).resolve().parents[2] / 'docs'
COLOURS = ['#4477aa', '#cc6677', '#228833', '#aa8800']  # of workers; distinct also for the colour-blind
CELL, LEFT, TOP, GAP = 13, 92, 46, 34


def rectangle(x, y, width, height, fill, opacity=1.0):
    """A rectangle of cells with its frame."""
    return (f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}" fill-opacity="{opacity}" '
            f'stroke="#333" stroke-width="1"/>')


def text(x, y, words, size=12, anchor='middle', colour='#222'):
    """One line of text."""
    return f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


class Tensor:
    """rows x columns cells; `has(worker)` is (first row, rows, first column, columns) that a worker has, or None."""

    def __init__(self, label, rows, columns, has, note=''):
        self.label, self.rows, self.columns, self.has, self.note = label, rows, columns, has, note

    def draw(self, x, y, worker):
        """The whole tensor, pale, and the worker's part of it."""
        found = [rectangle(x, y, self.columns * CELL, self.rows * CELL, 'none')]
        part = self.has(worker)
        if part:
            row, rows, column, columns = part
            found.append(rectangle(x + column * CELL, y + row * CELL, columns * CELL, rows * CELL, COLOURS[worker], 0.75))
        return found


def split_rows(rows, columns, workers):
    """Along axis 0."""
    each = rows // workers
    return lambda worker: (worker * each, each, 0, columns)


def split_columns(rows, columns, workers):
    """Along axis 1."""
    each = columns // workers
    return lambda worker: (0, rows, worker * each, each)


def everywhere(rows, columns):
    """A whole copy on each worker."""
    return lambda worker: (0, rows, 0, columns)


def only(owner, rows, columns):
    """All on one worker."""
    return lambda worker: (0, rows, 0, columns) if worker == owner else None


def picture(workers, tensors):
    """An SVG: workers below each other, tensors side by side; strings among them are signs."""
    height = max(each.rows for each in tensors if isinstance(each, Tensor)) * CELL
    parts, x = [], LEFT
    for each in tensors:
        if isinstance(each, str):
            for worker in range(workers):
                parts.append(text(x + 4, TOP + worker * (height + GAP) + height / 2 + 5, each, 16))
            x += 26
            continue
        width = each.columns * CELL
        parts.append(text(x + width / 2, TOP - 24, each.label, 13))
        parts.append(text(x + width / 2, TOP - 9, each.note, 10, colour='#666'))
        for worker in range(workers):
            y = TOP + worker * (height + GAP) + (height - each.rows * CELL) // 2
            parts += each.draw(x, y, worker)
        x += max(width, 6 * len(each.note)) + 22
    for worker in range(workers):
        middle = TOP + worker * (height + GAP) + height / 2 + 4
        parts.append(text(12, middle, f'worker {worker}', 12, 'start', COLOURS[worker]))
    bottom = TOP + workers * (height + GAP)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {x} {bottom}" width="{x}" height="{bottom}" '
            f'font-family="sans-serif" role="img">\n' + '\n'.join(parts) + '\n</svg>\n')


def pictures():
    """{file name: SVG}"""
    return {
        'placement_data.svg': picture(4, [
            Tensor('x (batch, in)', 8, 4, split_rows(8, 4, 4), 'split, axis 0'), '@',
            Tensor('weight.T', 4, 6, everywhere(4, 6), 'replicated'), '=',
            Tensor('y (batch, out)', 8, 6, split_rows(8, 6, 4), 'split, axis 0'), '',
            Tensor('weight.grad', 6, 4, everywhere(6, 4), 'partial, then all-reduced')]),
        'placement_tensor.svg': picture(2, [
            Tensor('x', 4, 4, everywhere(4, 4), 'replicated'), '@',
            Tensor('up.weight.T', 4, 8, split_columns(4, 8, 2), 'split, its axis 0'), '=',
            Tensor('h', 4, 8, split_columns(4, 8, 2), 'split, axis 1'), '@',
            Tensor('down.weight.T', 8, 4, split_rows(8, 4, 2), 'split, its axis 1'), '=',
            Tensor('y', 4, 4, everywhere(4, 4), 'partial: a sum')]),
        'placement_pipeline.svg': picture(2, [
            Tensor('x', 6, 4, only(0, 6, 4), 'worker 0'), '',
            Tensor('first.weight', 4, 4, only(0, 4, 4), 'stage_0'), '→',
            Tensor('h', 6, 4, only(1, 6, 4), 'moved'), '',
            Tensor('last.weight', 4, 4, only(1, 4, 4), 'stage_1'), '→',
            Tensor('loss', 1, 1, only(1, 1, 1), 'worker 1')]),
    }


if __name__ == '__main__':
    for name, drawing in pictures().items():
        (DOCS / name).write_text(drawing)
