"""Build the site: python tools/docs/build.py [--check] [--pages FOLDER] [OUTPUT], by default build/site.

The pages of docs/ are copied to OUTPUT-source, with two additions, and Sphinx makes HTML of them there:
 - the API reference (reference.py);
 - a page for each file of the repository that a page links to, so that the site needs no other server.
A dead link, a missing anchor and every other warning of Sphinx is an error. Nothing is fetched from anywhere.
With --check the pages are read and their links followed, but no HTML is written, and the API reference, which takes most of
the time, has empty pages.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

import reference

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LANGUAGES = {'.py': 'python', '.c': 'c', '.h': 'c', '.def': 'c', '.yaml': 'yaml', '.service': 'ini', '.sh': 'sh',
             '.ipynb': 'json', '.md': 'markdown'}
OUTSIDE = re.compile(r'\]\(\.\./([^)#\s]+)(?:#[^)]*)?\)')  # links from docs/ to the rest of the repository
ENTRY = re.compile(r'^[\w./-]+$')


def write(path, text):
    """Write a file, unless it has this text already: Sphinx reads files again that are newer."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def file_page(name):
    """The name and text of the page that shows a file or folder of the repository."""
    path = ROOT / name
    if not path.exists():
        sys.exit(f'docs: a page links to {name}, which does not exist')
    title = f'# {name}\n\n'
    if path.is_dir():
        files = [each for each in sorted(path.iterdir()) if each.is_file() and not each.name.startswith('.')]
        lines = [f'- [{each.name}](../{page_name(f"{name}/{each.name}")})' for each in files]
        return title + '\n'.join(lines) + '\n', [f'{name}/{each.name}' for each in files]
    fence = '`' * 6
    return f'{title}{fence}{LANGUAGES.get(path.suffix, "none")}\n{path.read_text()}\n{fence}\n', []


def page_name(name):
    """The page of a file: all are in one folder."""
    return 'files/' + name.strip('/').replace('/', '-') + '.md'


def in_index(text):
    """The pages that the lists of index.md name."""
    blocks = re.findall(r'^```\{toctree\}$(.*?)^```$', text, flags=re.M | re.S)
    return {line for block in blocks for line in block.splitlines() if ENTRY.match(line)}


def collect(folder, source, check):
    """Put the pages of `folder` and those made here into `source`, and remove what is not a page any more."""
    pages, waiting = {}, []
    for path in sorted(folder.glob('*.md')):
        text = path.read_text()
        waiting += OUTSIDE.findall(text)
        pages[path.name] = OUTSIDE.sub(lambda link: f']({page_name(link[1])})', text)
    while waiting:
        name = waiting.pop()
        if page_name(name) not in pages:
            text, more = file_page(name)
            pages[page_name(name)] = '---\norphan: true\n---\n' + text
            waiting += more
    pages.update(reference.pages(empty=check))
    others = sorted({path.stem for path in folder.glob('*.md')} - in_index(pages['index.md']) - {'index'})
    if others:
        pages['index.md'] += '\n```{toctree}\n:caption: More\n:hidden:\n\n' + '\n'.join(others) + '\n```\n'
    for name, text in pages.items():
        write(source / name, text)
    for path in [*source.rglob('*.md'), *source.rglob('*.rst')]:
        if path.relative_to(source).as_posix() not in pages:
            path.unlink()
    for path in [*folder.glob('*.png'), *folder.glob('*.svg')]:
        shutil.copy2(path, source / path.name)
    write(source / 'conf.py', (HERE / 'conf.py').read_text())
    write(source / '_static' / 'site.css', (HERE / 'site.css').read_text())


def main():
    """Collect the pages and call Sphinx."""
    parser = argparse.ArgumentParser()
    parser.add_argument('output', nargs='?', type=pathlib.Path, default=ROOT / 'build' / 'site')
    parser.add_argument('--pages', type=pathlib.Path, default=ROOT / 'docs', metavar='FOLDER')
    parser.add_argument('--check', action='store_true')
    options = parser.parse_args()
    source = options.output.with_name(options.output.name + '-source')
    collect(options.pages, source, options.check)
    builder, processes = ('dummy', 1) if options.check else ('html', min(4, os.cpu_count() or 1))
    command = [sys.executable, '-m', 'sphinx', '--quiet', '--fail-on-warning', '--keep-going', '-j', str(processes),
               '-d', f'{options.output}-cache', '-b', builder, str(source), str(options.output)]
    sys.exit(subprocess.run(command, check=False).returncode)


main()
